//! Series of GPUs and RDMA functions on the PCI bus.

use super::Exposition;
use crate::observe::pci::{PciFunction, PcieLink};
use crate::report::Report;
use crate::report::catalogue as cat;
use crate::report::port_view::ReportedPort;
use std::collections::BTreeSet;

pub(super) fn families(exposition: &mut Exposition, report: &Report, ports: &[ReportedPort<'_>]) {
    let Some(pci) = report.snapshot.pci.as_ref().map(|pci| &pci.value) else {
        return;
    };
    exposition.one(&cat::GPUS, Some(pci.gpus.len() as f64));
    // Bridges are among the functions too; their ends say the same of the link.
    let nics = ports.iter().filter_map(ReportedPort::pci);
    let ends: BTreeSet<String> = pci
        .gpus
        .iter()
        .map(ToString::to_string)
        .chain(nics)
        .collect();
    let functions: Vec<(String, &PciFunction)> = ends
        .into_iter()
        .filter_map(|address| {
            let function = pci.functions.get(&address)?;
            Some((address, function))
        })
        .collect();
    let links = |pick: fn(&PciFunction) -> Option<f64>| {
        functions
            .iter()
            .filter_map(move |(address, function)| Some(([address.clone()], pick(function)?)))
    };
    exposition.add(
        &cat::PCIE_LINK,
        links(|function| Some(bandwidth(function.current.value()?))),
    );
    exposition.add(
        &cat::PCIE_LINK_MAX,
        links(|function| Some(bandwidth(function.max.value()?))),
    );
    exposition.add(
        &cat::PCIE_LINK_WIDTH,
        links(|function| Some(f64::from(function.current.value()?.width))),
    );
    exposition.add(
        &cat::PCIE_AER,
        functions.iter().flat_map(|(address, function)| {
            let aer = function.aer;
            [
                ("correctable", aer.correctable),
                ("nonfatal", aer.nonfatal),
                ("fatal", aer.fatal),
            ]
            .into_iter()
            .filter_map(move |(severity, count)| {
                Some(([address.clone(), severity.to_string()], count? as f64))
            })
        }),
    );
}

/// Bytes a second one way, line coding not taken off.
fn bandwidth(link: &PcieLink) -> f64 {
    f64::from(link.megatransfers) * 1e6 * f64::from(link.width) / 8.0
}
