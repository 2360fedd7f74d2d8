//! Series of GPUs and RDMA functions on the PCI bus.

use super::{Exposition, series};
use crate::observe::pci::PcieLink;
use crate::report::Report;
use crate::report::port_view::PortView;
use std::collections::BTreeSet;

pub(super) fn families(out: &mut Exposition, report: &Report, ports: &[PortView<'_>]) {
    let Some(pci) = report.snapshot.pci.as_ref().map(|pci| &pci.value) else {
        return;
    };
    out.push("selvage_gpus", &[], pci.gpus.len());
    // Bridges are among the functions too; their ends say the same of the link.
    let nics = ports.iter().filter_map(PortView::address);
    let gpus = pci.gpus.iter().map(ToString::to_string);
    for address in gpus.chain(nics).collect::<BTreeSet<String>>() {
        let Some(function) = pci.functions.get(&address) else {
            continue;
        };
        let (current, max) = (function.current.value(), function.max.value());
        let aer = function.aer;
        series! { out
            "selvage_pcie_link_bytes_per_second" [&address] current.map(bandwidth);
            "selvage_pcie_link_max_bytes_per_second" [&address] max.map(bandwidth);
            "selvage_pcie_link_width" [&address] current.map(|link| link.width);
            "selvage_pcie_aer_errors_total" [&address, "correctable"] aer.correctable;
            "selvage_pcie_aer_errors_total" [&address, "nonfatal"] aer.nonfatal;
            "selvage_pcie_aer_errors_total" [&address, "fatal"] aer.fatal;
        }
    }
}

/// Bytes a second one way, line coding not taken off.
fn bandwidth(link: &PcieLink) -> f64 {
    f64::from(link.megatransfers) * 1e6 * f64::from(link.width) / 8.0
}
