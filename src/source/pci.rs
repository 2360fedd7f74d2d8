//! GPUs, RDMA functions and the ports above them, from `/sys/bus/pci/devices`
//! (drivers/pci/pci-sysfs.c). Link files and `config` touch config space: fine each minute or so.

use crate::host::Host;
use crate::observe::{
    AER_SEVERITIES, BareNic, DATA_DIRECT, Distance, MAX_VFS, PciFacts, PciFunction, PcieLink,
    Reading, SLINGSHOT, Sriov, SriovFacts,
};
use crate::source::infiniband::{numa_node, pci_function_dir, pci_id, sriov_numbers};
use crate::source::pci_text::{acs_redirect, parse_aer, parse_link};
use crate::source::{identity, machine, netdev, parse, routes, topology, tree};
use crate::units::Bdf;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Most functions of a machine that are read.
const MAX_FUNCTIONS: usize = 16_384;

/// Size of PCI Express config space.
const CONFIG_SPACE: usize = 4096;

/// Most network functions without an RDMA device kept.
const MAX_BARE: usize = 256;

/// Class and subclass of InfiniBand, Omni-Path and Ethernet controllers (PCI Code and ID Assignment).
const INFINIBAND: u64 = 0x0207;
const OMNI_PATH: u64 = 0x0208;
const ETHERNET: u64 = 0x0200;
/// Class of all network controllers, and of those of Mellanox whose firmware does not run (flash recovery).
const NETWORK: u64 = 0x02;
const MEMORY: u64 = 0x05;

/// Starts of the ids of NICs that do RDMA for certain: Mellanox, EFA, Pensando, Slingshot, Broadcom's BCM575xx and
/// BCM576xx (bnxt.c). Intel's and others' Ethernet NICs mostly do not, Broadcom's others (14e4) as a rule.
const RDMA_IDS: &[&str] = &[
    "15b3:", "1d0f:efa", "1dd8:", "14e4:175", "14e4:176", SLINGSHOT,
];

/// Drivers whose NICs do RDMA as a rule, once their RDMA module is loaded.
const RDMA_DRIVERS: &str = "bnxt_en ice ionic hfi1 qede cxgb4 hns3 erdma efa mlx4_core mlx5_core";

const NVIDIA: u64 = 0x10de;
const AMD: u64 = 0x1002;

/// Whether a function is a GPU: NVIDIA display and 3D controllers (not its NVSwitches, class 0680,
/// nor its audio functions), AMD display, 3D and processing accelerators.
pub fn is_gpu(vendor: u64, class: u64) -> bool {
    match vendor {
        NVIDIA => matches!(class >> 8, 0x0300 | 0x0302),
        AMD => matches!(class >> 8, 0x0380 | 0x0302 | 0x1200),
        _ => false,
    }
}

/// All functions with their class codes; 0 where that cannot be read. A bus without any function is
/// hidden, as by a mount, or not there at all.
fn classes(host: &Host) -> Reading<Vec<(Bdf, u64)>> {
    let with_class = |bdf: Bdf| {
        let class = parse::hex(host, pci_function_dir(bdf).join("class"));
        (bdf, class.unwrap_or(0))
    };
    tree::list(host, "sys/bus/pci/devices").and_then(|names| {
        let functions = names.iter().take(MAX_FUNCTIONS);
        let functions = functions.filter_map(|name| name.parse().ok());
        let functions: Vec<(Bdf, u64)> = functions.map(with_class).collect();
        match functions.is_empty() {
            true => Reading::NotObservable,
            false => Reading::Value(functions),
        }
    })
}

/// Addresses of all GPUs, sorted: by class and vendor, or by the word of their driver; and whether there may be
/// more. Virtual functions of a GPU on this host are guests' parts of it.
fn gpus(host: &Host, classes: &[(Bdf, u64)]) -> (Vec<Bdf>, bool) {
    let driven = tree::names(host, "proc/driver/nvidia/gpus");
    let mut unread = false;
    let mut is_gpu = |(bdf, class): &&(Bdf, u64)| {
        let vendor = || parse::hex(host, pci_function_dir(*bdf).join("vendor"));
        if driven.iter().any(|name| name.parse() == Ok(*bdf)) {
            return true;
        }
        // Few functions have such a class: ask the others for no more.
        let vendor = matches!(class >> 16, 0x03 | 0x12).then(vendor);
        unread |= is_unread(*class) || vendor == Some(None);
        let vendor = vendor.flatten();
        vendor.is_some_and(|vendor| is_gpu(vendor, *class))
    };
    let gpus = classes.iter().filter(|of| is_gpu(of));
    let mut gpus: Vec<Bdf> = gpus.map(|(bdf, _)| *bdf).collect();
    gpus.retain(|bdf| !tree::exists(host, pci_function_dir(*bdf).join("physfn")));
    gpus.sort();
    (gpus, unread)
}

/// Whether the class file could not be read.
fn is_unread(class: u64) -> bool {
    class == 0
}

fn is_network(class: u64) -> bool {
    matches!(class >> 8, INFINIBAND | OMNI_PATH | ETHERNET)
}

/// Whether a NIC does RDMA for certain, with or without a driver.
fn does_rdma(class: u64, id: &str) -> bool {
    matches!(class >> 8, INFINIBAND | OMNI_PATH)
        || RDMA_IDS.iter().any(|start| id.starts_with(start))
}

fn driver(host: &Host, bdf: Bdf) -> Option<String> {
    tree::link_name(host, pci_function_dir(bdf).join("driver"))
}

/// Network functions with their classes that are none of `rdma`, nor a leg of a bond: that has no RDMA
/// device of its own, but its driver, and its card has one.
fn others(host: &Host, classes: &[(Bdf, u64)], rdma: &[Bdf]) -> Vec<(Bdf, u64, BareNic)> {
    let others = classes.iter().filter_map(|(bdf, class)| {
        let other =
            (is_unread(*class) || matches!(*class >> 16, NETWORK | MEMORY)) && !rdma.contains(bdf);
        let nic = other.then(|| nic(host, *bdf, *class)).flatten()?;
        let is_nic = match is_unread(*class) {
            true => does_rdma(*class, &nic.id),
            false => *class >> 16 == NETWORK || nic.id.starts_with("15b3:"),
        };
        let card = rdma.iter().filter(|of| of.slot() == bdf.slot());
        // Neither may have an interface here: a pod may have both.
        let other = || (card.clone()).any(|of| bonded(host, *of) != Some(false));
        let several = || card.clone().any(|of| has_ports(host, *of));
        let shares = || bonded(host, *bdf).unwrap_or_else(other) || several();
        let is_leg = card.clone().next().is_some() && nic.driver.is_some() && shares();
        (is_nic && !is_leg).then_some((*bdf, *class, nic))
    });
    others.collect()
}

/// Addresses of the functions that are NICs, also those in flash recovery.
fn nics(classes: &[(Bdf, u64)]) -> BTreeSet<String> {
    let nics = classes
        .iter()
        .filter(|(_, class)| matches!(*class >> 16, NETWORK | MEMORY));
    nics.map(|(bdf, _)| bdf.to_string()).collect()
}

/// Whether a function's interface is in a bond; `None` without one, which may be in a pod.
fn bonded(host: &Host, bdf: Bdf) -> Option<bool> {
    let names = tree::names(host, pci_function_dir(bdf).join("net"));
    let bond = |name: &String| tree::exists(host, netdev::class_dir(name).join("master/bonding"));
    (!names.is_empty()).then(|| names.iter().any(bond))
}

/// Whether a function's RDMA device has several ports, as one has that stands for a whole card.
fn has_ports(host: &Host, bdf: Bdf) -> bool {
    let dir = pci_function_dir(bdf).join("infiniband");
    let devices = tree::names(host, &dir);
    let ports = |device: &String| tree::names(host, dir.join(device).join("ports"));
    devices.iter().any(|device| ports(device).len() > 1)
}

/// NICs without an RDMA device that could have one.
fn bare(
    host: &Host,
    others: &[(Bdf, u64, BareNic)],
    rdma: &[Bdf],
    distances: impl Fn(Bdf) -> BTreeMap<String, Distance>,
) -> BTreeMap<String, BareNic> {
    let id = |bdf: &Bdf| pci_id(host, &pci_function_dir(*bdf));
    let models: BTreeSet<String> = rdma.iter().filter_map(id).collect();
    let nics = others.iter().filter(|(_, class, nic)| {
        let netxtreme_e = nic.driver.as_deref().is_none_or(|of| of == "bnxt_en");
        let carries_rdma = does_rdma(*class, &nic.id)
            || (netxtreme_e && nic.id.starts_with("14e4:"))
            || nic.id.is_empty()
            || models.contains(&nic.id);
        let may_be = is_network(*class) || class >> 16 == MEMORY || is_unread(*class);
        may_be && carries_rdma && nic.id != DATA_DIRECT
    });
    let nics = nics.map(|(bdf, _, nic)| {
        let held = tree::names(host, pci_function_dir(*bdf).join("infiniband"));
        let nic = BareNic {
            config_dead: config_dead(host, &pci_function_dir(*bdf)),
            unseen: !held.is_empty(),
            distances: distances(*bdf),
            ..nic.clone()
        };
        (bdf.to_string(), nic)
    });
    nics.take(MAX_BARE).collect()
}

/// One network function; none of a virtual function, or one that is gone, also since its class was read.
fn nic(host: &Host, bdf: Bdf, class: u64) -> Option<BareNic> {
    let dir = pci_function_dir(bdf);
    let id = pci_id(host, &dir);
    let is_there = id.is_some() || parse::hex(host, dir.join("class")).is_some();
    let nic = BareNic {
        id: id.unwrap_or_default(),
        class: format!("{class:06x}"),
        driver: driver(host, bdf),
        ..BareNic::default()
    };
    (is_there && !tree::exists(host, dir.join("physfn"))).then_some(nic)
}

/// See [`PciFacts::rdma_capable`].
fn rdma_capable(
    host: &Host,
    classes: &[(Bdf, u64)],
    others: &[(Bdf, u64, BareNic)],
) -> Reading<BTreeMap<String, BareNic>> {
    if classes.iter().any(|(_, class)| is_unread(*class)) {
        return Reading::NotObservable;
    }
    let routes = routes::default_route_devices(host);
    let carries_route = |bdf: Bdf| {
        let names = tree::names(host, pci_function_dir(bdf).join("net"));
        let carries = |name: &String| {
            let master = tree::link_name(host, netdev::class_dir(name).join("master"));
            let with_route = |name: &String| routes.value().is_some_and(|all| all.contains(name));
            with_route(name) || master.as_ref().is_some_and(with_route)
        };
        names.iter().any(carries)
    };
    let by_driver = |driver: &String| RDMA_DRIVERS.split(' ').any(|known| known == driver);
    let nics = others.iter().filter(|(bdf, class, nic)| {
        let capable = does_rdma(*class, &nic.id) || nic.driver.as_ref().is_some_and(by_driver);
        capable && !carries_route(*bdf)
    });
    let nics = nics.map(|(bdf, _, nic)| (bdf.to_string(), nic.clone()));
    Reading::Value(nics.take(MAX_BARE).collect())
}

/// Network functions that can have virtual functions, with those that they have.
fn sriov(host: &Host, classes: &[(Bdf, u64)]) -> BTreeMap<String, SriovFacts> {
    let network = classes.iter().filter(|(_, class)| is_network(*class));
    let facts = network.filter_map(|(bdf, _)| {
        let dir = pci_function_dir(*bdf);
        let Sriov { total, enabled } = sriov_numbers(host, &dir).filter(|sriov| sriov.total > 0)?;
        let functions = (0..enabled as usize).take(MAX_VFS).filter_map(|at| {
            let address = tree::link_name(host, dir.join(format!("virtfn{at}")))?;
            let vf: Bdf = address.parse().ok()?;
            Some((vf.to_string(), driver(host, vf)))
        });
        let facts = SriovFacts {
            total,
            enabled,
            functions: functions.collect(),
        };
        Some((bdf.to_string(), facts))
    });
    facts.take(MAX_BARE).collect()
}

/// One scan: GPUs, the RDMA functions `rdma`, the bridges above both, and the distances between.
pub fn scan(host: &Host, rdma: &[Bdf]) -> Reading<PciFacts> {
    classes(host).map(|classes| scanned(host, &classes, rdma))
}

fn scanned(host: &Host, classes: &[(Bdf, u64)], rdma: &[Bdf]) -> PciFacts {
    let (gpus, gpus_unread) = gpus(host, classes);
    let virtual_machine = machine::is_virtual(host);
    let mut functions: BTreeMap<String, PciFunction> = BTreeMap::new();
    let direct = (classes.iter().filter(|(_, class)| class >> 16 == 0x08))
        .map(|(bdf, _)| *bdf)
        .filter(|bdf| pci_id(host, &pci_function_dir(*bdf)).as_deref() == Some(DATA_DIRECT));
    let direct: Vec<Bdf> = direct.take(MAX_BARE).collect();
    for bdf in gpus.iter().chain(rdma).chain(&direct) {
        let dir = pci_function_dir(*bdf);
        if !tree::exists(host, &dir) {
            continue;
        }
        let mut above: Option<Bdf> = None;
        for bridge in place(host, &dir).bridges {
            let address = bridge.to_string();
            (functions.entry(address)).or_insert_with(|| PciFunction {
                acs_redirect: match virtual_machine {
                    true => Reading::Absent,
                    false => acs(host, bridge),
                },
                ..function(host, bridge, above)
            });
            above = Some(bridge);
        }
        let function = PciFunction {
            config_dead: config_dead(host, &dir),
            ..function(host, *bdf, above)
        };
        functions.insert(bdf.to_string(), function);
    }
    let located = |bdf: Bdf| {
        let dir = pci_function_dir(bdf);
        (place(host, &dir), numa_node(host, &dir))
    };
    let places = gpus.iter().map(|gpu| (gpu.to_string(), located(*gpu)));
    let gpu_places: Vec<_> = places.collect();
    let distances = |nic: Bdf| -> BTreeMap<String, Distance> {
        let nic = located(nic);
        let to_gpu = |(address, gpu): &(String, topology::Located)| {
            Some((address.clone(), topology::distance(&nic, gpu)?))
        };
        gpu_places.iter().filter_map(to_gpu).collect()
    };
    let others = others(host, classes, rdma);
    let of_rdma = rdma.iter().map(|nic| (nic.to_string(), distances(*nic)));
    PciFacts {
        functions,
        distances: of_rdma.filter(|(_, gpus)| !gpus.is_empty()).collect(),
        bare: bare(host, &others, rdma, distances),
        rdma_capable: rdma_capable(host, classes, &others),
        nics: nics(classes),
        virtual_machine,
        machine: machine::facts(host),
        sriov: sriov(host, classes),
        gpus,
        gpus_unread,
    }
}

/// The function's place in `/sys/devices`; of a tree without the link's target, by the link's text.
fn place(host: &Host, dir: &Path) -> identity::PciPlace {
    let path = tree::canonical(host, dir).or_else(|| tree::link(host, dir).into_value());
    path.map(|path| identity::place(&path)).unwrap_or_default()
}

fn function(host: &Host, bdf: Bdf, parent: Option<Bdf>) -> PciFunction {
    let dir = pci_function_dir(bdf);
    PciFunction {
        id: pci_id(host, &dir).unwrap_or_default(),
        class: parse::hex(host, dir.join("class"))
            .map_or_else(String::new, |class| format!("{class:06x}")),
        driver: driver(host, bdf),
        current: link(host, &dir, "current"),
        max: link(host, &dir, "max"),
        parent: parent.map(|parent| parent.to_string()),
        numa_node: numa_node(host, &dir),
        iommu: tree::read_text(host, dir.join("iommu_group/type")),
        iommu_group: tree::link_name(host, dir.join("iommu_group")),
        aer: aer(host, &dir),
        ..PciFunction::default()
    }
}

/// Reads `current_link_*` or `max_link_*`, by the first word.
fn link(host: &Host, dir: &Path, which: &str) -> Reading<PcieLink> {
    let file = |what: &str| tree::read_text(host, dir.join(format!("{which}_link_{what}")));
    file("speed").and_then(|speed| file("width").and_then(|width| parse_link(&speed, &width)))
}

fn aer(host: &Host, dir: &Path) -> BTreeMap<&'static str, u64> {
    let total = |severity| {
        let text = tree::read_text(host, dir.join(format!("aer_dev_{severity}")));
        Some((severity, parse_aer(text.value()?)?))
    };
    AER_SEVERITIES.into_iter().filter_map(total).collect()
}

/// A function that fell off the bus reads all ones, while `vendor` is the kernel's memory of it. A
/// VF's own config space has no vendor id (SR-IOV: ffff by design): there it tells nothing.
fn config_dead(host: &Host, dir: &Path) -> Reading<bool> {
    if tree::exists(host, dir.join("physfn")) {
        return Reading::NotObservable;
    }
    tree::read_bytes(host, dir.join("config"), 2).and_then(|bytes| match bytes.len() {
        2 => Reading::Value(bytes == [0xff, 0xff]),
        short => Reading::malformed(format!("{short} bytes")),
    })
}

/// Without CAP_SYS_ADMIN the kernel gives 64 bytes of config space, and ACS is further on.
fn acs(host: &Host, bridge: Bdf) -> Reading<bool> {
    let config = pci_function_dir(bridge).join("config");
    tree::read_bytes(host, config, CONFIG_SPACE)
        .and_then(|bytes| acs_redirect(&bytes).map_or(Reading::NotObservable, Reading::Value))
}

#[cfg(test)]
mod tests;
