//! Series of GPUs and RDMA functions on the PCI bus.

use super::Exposition;
use crate::observe::pci::PcieLink;
use crate::report::Report;
use crate::report::catalogue as cat;
use crate::report::port_view::ReportedPort;
use std::collections::BTreeSet;

pub(super) fn families(out: &mut Exposition, report: &Report, ports: &[ReportedPort<'_>]) {
    let Some(pci) = report.snapshot.pci.as_ref().map(|pci| &pci.value) else {
        return;
    };
    out.push(&cat::GPUS, &[], pci.gpus.len());
    // Bridges are among the functions too; their ends say the same of the link.
    let nics = ports.iter().filter_map(ReportedPort::pci);
    let gpus = pci.gpus.iter().map(ToString::to_string);
    for address in gpus.chain(nics).collect::<BTreeSet<String>>() {
        let Some(function) = pci.functions.get(&address) else {
            continue;
        };
        let (current, max) = (function.current.value(), function.max.value());
        let id = [address.as_str()];
        out.push(&cat::PCIE_LINK, &id, current.map(bandwidth));
        out.push(&cat::PCIE_LINK_MAX, &id, max.map(bandwidth));
        out.push(&cat::PCIE_LINK_WIDTH, &id, current.map(|link| link.width));
        let aer = function.aer;
        for (severity, count) in [
            ("correctable", aer.correctable),
            ("nonfatal", aer.nonfatal),
            ("fatal", aer.fatal),
        ] {
            out.push(&cat::PCIE_AER, &[&address, severity], count);
        }
    }
}

/// Bytes a second one way, line coding not taken off.
fn bandwidth(link: &PcieLink) -> f64 {
    f64::from(link.megatransfers) * 1e6 * f64::from(link.width) / 8.0
}
