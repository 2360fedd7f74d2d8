//! What the kernel has of what a resource counts. Operators choose names and selectors, so that of
//! most resources only an upper bound is known.

use super::Context;
use crate::check::profile::MOST_NICS;
use crate::observe::{Function, PciFacts, gives_away, is_shared_by_name, is_whole_gpus};
use std::collections::BTreeSet;

/// How many devices there are of what a resource counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Present {
    /// An exact count.
    Exactly(u64),
    /// No more than this, whatever the selectors are.
    AtMost(u64),
    /// A number of slots, which says nothing of NICs.
    Slots,
}

impl Present {
    /// The number, where it is one.
    pub fn exactly(self) -> Option<u64> {
        match self {
            Present::Exactly(count) => Some(count),
            _ => None,
        }
    }
}

/// What there is of a resource, by its name and the number that the Node tells; `None` where it is not known
/// what it counts.
pub fn present(context: &Context<'_>, name: &str, offered: u64) -> Option<Present> {
    if is_whole_gpus(name) {
        return context.pci().map(|pci| Present::Exactly(gpus(pci)));
    }
    let seen = context.snapshot.devices.as_ref();
    // Those that pods hold are not visible from here.
    let devices = seen.filter(|_| !context.pods_hold_devices())?.value.iter();
    if name == "vpc.amazonaws.com/efa" {
        let efa = devices.filter(|device| device.driver == "efa");
        return Some(Present::Exactly(efa.count() as u64));
    }
    if !is_for_rdma(name) && !name.starts_with("openshift.io/") {
        return None;
    }
    if is_shared_by_name(name) || offered > MOST_NICS {
        return Some(Present::Slots);
    }
    // A guest's functions have no physical ones next to them to count by.
    let pci = context.pci().filter(|pci| !pci.virtual_machine)?;
    let of = |function| (devices.clone()).filter(move |device| device.function == function);
    let sub_functions = of(Function::SubFunction).count() as u64;
    let vfs: u64 = pci.sriov.values().map(|pf| u64::from(pf.enabled)).sum();
    if name.starts_with("openshift.io/") {
        // The SR-IOV operator's policies always make virtual functions, of any vendor's NICs.
        return Some(Present::AtMost(vfs + sub_functions));
    }
    let mut whole: BTreeSet<String> = pci.bare.keys().chain(pci.sriov.keys()).cloned().collect();
    whole.extend(of(Function::Physical).filter_map(|device| Some(device.pci?.to_string())));
    Some(Present::AtMost(whole.len() as u64 + vfs + sub_functions))
}

/// Whether a resource stands for RDMA devices by its name, so that pods that get it rely on verbs.
/// Under `openshift.io/` and `nvidia.com/` operators put what they like, DPDK networks among it.
pub fn is_for_rdma(name: &str) -> bool {
    let Some((domain, resource)) = name.split_once('/') else {
        return false;
    };
    let resource = resource.to_ascii_lowercase();
    let parts = ["rdma", "roce", "infiniband", "mlnx", "mlx5", "hca"];
    domain == "rdma"
        || name == "vpc.amazonaws.com/efa"
        || parts.iter().any(|part| resource.contains(part))
        || (domain == "nvidia.com" && ["hostdev", "sriovlegacy"].contains(&resource.as_str()))
}

/// GPUs that pods could have: those that are not handed to virtual machines.
pub(super) fn gpus(pci: &PciFacts) -> u64 {
    let given_away = (pci.gpu_functions()).filter(|(_, gpu)| gives_away(gpu.driver.as_deref()));
    (pci.gpus.len() - given_away.count()) as u64
}
