//! Ways in which a node is spoilt, each on some of its rails or GPUs.

use selvage::simulate::{NetdevSpec, NodeFiles, PciSpec};
use selvage::units::Bdf;

pub const NDR200: &str = "200 Gb/sec (2X NDR)";
pub const HDR: &str = "200 Gb/sec (4X HDR)";

/// Part of a node's rails.
pub type Rails<'a> = &'a [String];

fn ports(
    spec: &mut NodeFiles,
    rails: Rails<'_>,
    change: impl Fn(&mut selvage::simulate::PortSpec),
) {
    let devices = spec
        .rdma
        .iter_mut()
        .filter(|device| rails.contains(&device.name));
    devices
        .flat_map(|device| &mut device.ports)
        .for_each(change);
}

fn addresses(spec: &NodeFiles, rails: Rails<'_>) -> Vec<Bdf> {
    let devices = spec
        .rdma
        .iter()
        .filter(|device| rails.contains(&device.name));
    devices.map(|device| device.pci).collect()
}

fn carrier(spec: &mut NodeFiles, rails: Rails<'_>, up: bool) {
    netdevs(spec, rails, |netdev| {
        netdev.carrier_changes += u64::from(netdev.carrier != up);
        netdev.carrier = up;
    });
}

pub fn rate(spec: &mut NodeFiles, rails: Rails<'_>, text: &str) {
    ports(spec, rails, |port| port.rate = text.into());
    let speed = text.split(' ').next().unwrap().parse::<u64>().unwrap() * 1000;
    netdevs(spec, rails, |one| one.speed = speed);
}

pub fn down(spec: &mut NodeFiles, rails: Rails<'_>) {
    ports(spec, rails, |port| {
        (port.state, port.phys) = (1, if port.link_layer == "Ethernet" { 3 } else { 2 });
    });
    carrier(spec, rails, false);
}

/// Trained, and no subnet manager has brought it up.
pub fn init(spec: &mut NodeFiles, rails: Rails<'_>) {
    ports(spec, rails, |port| (port.state, port.phys) = (2, 5));
    carrier(spec, rails, false);
}

pub fn no_lid(spec: &mut NodeFiles, rails: Rails<'_>) {
    ports(spec, rails, |port| port.lid = 0);
}

/// A limited member of its partition.
pub fn limited(spec: &mut NodeFiles, rails: Rails<'_>) {
    ports(spec, rails, |port| port.pkeys = vec![0x7fff]);
}

/// No address but the interface's own.
pub fn no_addresses(spec: &mut NodeFiles, rails: Rails<'_>) {
    ports(spec, rails, |port| {
        port.gids.retain(|gid| gid.gid.starts_with("fe80"));
    });
}

fn netdevs(spec: &mut NodeFiles, rails: Rails<'_>, change: impl Fn(&mut NetdevSpec)) {
    let at = addresses(spec, rails);
    let netdevs = spec.netdevs.iter_mut();
    netdevs
        .filter(|one| one.pci.is_some_and(|pci| at.contains(&pci)))
        .for_each(change);
}

pub fn mtu(spec: &mut NodeFiles, rails: Rails<'_>) {
    netdevs(spec, rails, |one| one.mtu = 1500);
}

pub fn no_pfc(spec: &mut NodeFiles, rails: Rails<'_>) {
    netdevs(spec, rails, |one| {
        one.dcb.as_mut().unwrap().pfc_enabled = Some(0);
    });
}

/// Functions that read all ones: those of rails, and of so many GPUs.
pub fn dead(spec: &mut NodeFiles, rails: Rails<'_>, count: usize) {
    for at in addresses(spec, rails).into_iter().chain(gpus(spec, count)) {
        spec.pci.get_mut(&at.to_string()).unwrap().dead = true;
    }
}

/// The function never came up on the bus.
pub fn gone(spec: &mut NodeFiles, rails: Rails<'_>) {
    for at in addresses(spec, rails) {
        spec.pci.remove(&at.to_string());
    }
    undriven(spec, rails);
}

/// The function is there, and its driver is not.
pub fn undriven(spec: &mut NodeFiles, rails: Rails<'_>) {
    let at = addresses(spec, rails);
    spec.rdma.retain(|device| !at.contains(&device.pci));
    spec.netdevs
        .retain(|one| one.pci.is_none_or(|pci| !at.contains(&pci)));
    for at in at {
        if let Some(pci) = spec.pci.get_mut(&at.to_string()) {
            pci.driver = None;
        }
    }
}

fn gpus(spec: &NodeFiles, count: usize) -> Vec<Bdf> {
    spec.gpus
        .iter()
        .rev()
        .take(count)
        .map(|gpu| gpu.bdf)
        .collect()
}

/// So many GPUs are not on the bus.
pub fn without_gpus(spec: &mut NodeFiles, count: usize) {
    for at in gpus(spec, count) {
        spec.pci.remove(&at.to_string());
        spec.gpus.retain(|gpu| gpu.bdf != at);
    }
}

/// So many GPUs are bound to this driver, or to none.
pub fn gpus_bound_to(spec: &mut NodeFiles, count: usize, driver: Option<&str>) {
    for at in gpus(spec, count) {
        spec.pci.get_mut(&at.to_string()).unwrap().driver = driver.map(Into::into);
        spec.gpus.retain(|gpu| gpu.bdf != at);
    }
}

/// No GPU has its driver: NVIDIA's modules are not loaded.
pub fn without_gpu_driver(spec: &mut NodeFiles) {
    gpus_bound_to(spec, usize::MAX, None);
    spec.nvidia = None;
    spec.modules
        .retain(|module| !module.name.contains("nvidia"));
}

/// Both ends of the link above the card agree on less than it can.
pub fn slot(spec: &mut NodeFiles, rails: Rails<'_>, speed: &str, width: u32) {
    for at in addresses(spec, rails) {
        let parent = spec.pci[&at.to_string()].parent;
        let slow = |pci: &mut PciSpec| pci.link = (speed.into(), width);
        slow(spec.pci.get_mut(&at.to_string()).unwrap());
        if let Some(parent) = parent.and_then(|parent| spec.pci.get_mut(&parent.to_string())) {
            slow(parent);
            parent.max_link = (speed.into(), width);
        }
    }
}

/// No NIC has its driver: the module is not loaded.
pub fn all_undriven(spec: &mut NodeFiles, _: Rails<'_>) {
    let all: Vec<String> = spec.rdma.iter().map(|device| device.name.clone()).collect();
    undriven(spec, &all);
}
