//! GPUs, RDMA functions and the ports above them, from `/sys/bus/pci/devices`
//! (drivers/pci/pci-sysfs.c). Link files and `config` touch config space: fine each minute or so.

use crate::host::Host;
use crate::observe::pci::{Aer, BareNic, MAX_VFS, PciFacts, PciFunction, PcieLink, SriovFacts};
use crate::observe::reading::Reading;
use crate::source::infiniband::{numa_node, pci_function_dir, pci_id};
use crate::source::pci_text::{acs_redirect, parse_aer, parse_link};
use crate::source::topology::{self, PciPath};
use crate::source::{machine, parse, tree};
use crate::units::Bdf;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Most functions of a machine that are read.
const MAX_FUNCTIONS: usize = 16_384;

/// Size of PCI Express config space.
const CONFIG_SPACE: usize = 4096;

/// Most network functions without an RDMA device kept.
const MAX_BARE: usize = 256;

/// Class and subclass of InfiniBand and Ethernet controllers (PCI Code and ID Assignment).
const INFINIBAND: u64 = 0x0207;
const ETHERNET: u64 = 0x0200;

/// Starts of the ids of NICs that carry RDMA as a rule: Mellanox, Broadcom, EFA, Pensando. Intel's
/// and others' Ethernet NICs mostly do not.
const RDMA_MAKERS: &[&str] = &["15b3:", "14e4:", "1d0f:efa", "1dd8:"];

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

/// All functions with their class codes; 0 where that cannot be read.
fn classes(host: &Host) -> Reading<Vec<(Bdf, u64)>> {
    tree::list(host, "sys/bus/pci/devices").map(|names| {
        let functions = names.iter().take(MAX_FUNCTIONS);
        functions
            .filter_map(|name| name.parse().ok())
            .map(|bdf| {
                let class = parse::hex(host, pci_function_dir(bdf).join("class"));
                (bdf, class.unwrap_or(0))
            })
            .collect()
    })
}

/// Addresses of all GPUs, sorted.
pub fn gpus(host: &Host) -> Reading<Vec<Bdf>> {
    classes(host).map(|classes| gpus_among(host, &classes))
}

/// By class and vendor, or by the word of their driver.
fn gpus_among(host: &Host, classes: &[(Bdf, u64)]) -> Vec<Bdf> {
    let driven: BTreeSet<Bdf> = tree::list(host, "proc/driver/nvidia/gpus")
        .value()
        .into_iter()
        .flatten()
        .filter_map(|name| name.parse().ok())
        .collect();
    let gpus: BTreeSet<Bdf> = classes
        .iter()
        .filter(|(bdf, class)| {
            let vendor = || parse::hex(host, pci_function_dir(*bdf).join("vendor"));
            // Few functions have such a class: ask the others for no more.
            driven.contains(bdf)
                || (matches!(class >> 16, 0x03 | 0x12)
                    && vendor().is_some_and(|vendor| is_gpu(vendor, *class)))
        })
        .map(|(bdf, _)| *bdf)
        .collect();
    gpus.into_iter().collect()
}

/// Network functions that could carry RDMA, and which are none of `rdma`, nor driven and on a card
/// that has one of these (the second leg of a bond has no RDMA device of its own).
pub fn bare(host: &Host, rdma: &[Bdf]) -> BTreeMap<Bdf, BareNic> {
    let classes = classes(host).value().cloned().unwrap_or_default();
    bare_among(host, &classes, rdma)
}

fn driver(host: &Host, bdf: Bdf) -> Option<String> {
    tree::link_name(host, pci_function_dir(bdf).join("driver"))
}

fn bare_among(host: &Host, classes: &[(Bdf, u64)], rdma: &[Bdf]) -> BTreeMap<Bdf, BareNic> {
    let cards: BTreeSet<String> = rdma.iter().map(Bdf::slot).collect();
    let models: BTreeSet<String> = rdma
        .iter()
        .filter_map(|bdf| pci_id(host, &pci_function_dir(*bdf)))
        .collect();
    let candidates = classes.iter().filter(|(bdf, class)| {
        matches!(class >> 8, INFINIBAND | ETHERNET)
            // A leg of a bond has its driver; a port of a card without any driver is missing.
            && (!cards.contains(&bdf.slot())
                || !rdma.contains(bdf) && driver(host, *bdf).is_none())
    });
    candidates
        .filter_map(|(bdf, class)| {
            let dir = pci_function_dir(*bdf);
            let id = pci_id(host, &dir)?;
            let makes_rdma = RDMA_MAKERS.iter().any(|maker| id.starts_with(maker));
            if tree::exists(host, dir.join("physfn"))
                || !(class >> 8 == INFINIBAND || makes_rdma || models.contains(&id))
            {
                return None;
            }
            let nic = BareNic {
                id,
                class: format!("{class:06x}"),
                driver: driver(host, *bdf),
                distances: BTreeMap::new(),
            };
            Some((*bdf, nic))
        })
        .take(MAX_BARE)
        .collect()
}

/// Network functions that can have virtual functions, with those that they have.
fn sriov(host: &Host, classes: &[(Bdf, u64)]) -> BTreeMap<String, SriovFacts> {
    let network = classes
        .iter()
        .filter(|(_, class)| matches!(class >> 8, INFINIBAND | ETHERNET));
    network
        .filter_map(|(bdf, _)| {
            let dir = pci_function_dir(*bdf);
            let number = |file: &str| u32::try_from(parse::decimal(host, dir.join(file))?).ok();
            let total = number("sriov_totalvfs").filter(|total| *total > 0)?;
            let enabled = number("sriov_numvfs")?;
            let functions = (0..enabled as usize).take(MAX_VFS).filter_map(|at| {
                let address = tree::link_name(host, dir.join(format!("virtfn{at}")))?;
                let vf: Bdf = address.parse().ok()?;
                let driver = tree::link_name(host, pci_function_dir(vf).join("driver"));
                Some((vf.to_string(), driver))
            });
            let facts = SriovFacts {
                id: pci_id(host, &dir).unwrap_or_default(),
                total,
                enabled,
                functions: functions.collect(),
            };
            Some((bdf.to_string(), facts))
        })
        .take(MAX_BARE)
        .collect()
}

/// One scan: GPUs, the RDMA functions `rdma`, the bridges above both, and the distances between.
pub fn scan(host: &Host, rdma: &[Bdf]) -> Reading<PciFacts> {
    let classes = match classes(host) {
        Reading::Value(classes) => classes,
        other => return other.map(|_| PciFacts::default()),
    };
    let gpus = gpus_among(host, &classes);
    let virtual_machine = machine::is_virtual(host);
    let ends: BTreeSet<Bdf> = gpus.iter().chain(rdma).copied().collect();
    let mut paths: BTreeMap<Bdf, PciPath> = BTreeMap::new();
    let mut facts = PciFacts {
        gpus: gpus.clone(),
        virtual_machine,
        machine: machine::facts(host),
        sriov: sriov(host, &classes),
        ..PciFacts::default()
    };
    for bdf in &ends {
        let dir = pci_function_dir(*bdf);
        if !tree::exists(host, &dir) {
            continue;
        }
        let path = device_path(host, &dir);
        let mut above: Option<Bdf> = None;
        for bridge in &path.bridges {
            if let Entry::Vacant(entry) = facts.functions.entry(bridge.to_string()) {
                let function = entry.insert(function(host, *bridge, above));
                if !virtual_machine {
                    function.acs_redirect = acs(host, *bridge);
                }
            }
            above = Some(*bridge);
        }
        let mut function = function(host, *bdf, above);
        function.config_dead = config_dead(host, &dir);
        facts.functions.insert(bdf.to_string(), function);
        paths.insert(*bdf, path);
    }
    let mut distances: BTreeMap<String, BTreeMap<String, _>> = BTreeMap::new();
    let numa = |bdf: &Bdf| facts.functions.get(&bdf.to_string())?.numa_node;
    let mut bare = bare_among(host, &classes, rdma);
    let to_gpus = |nic: &PciPath, numa_nic: Option<u32>| -> BTreeMap<String, _> {
        let paths = gpus.iter().filter_map(|gpu| Some((gpu, paths.get(gpu)?)));
        paths
            .filter_map(|(gpu, path)| {
                let distance = topology::distance(nic, path, numa_nic, numa(gpu))?;
                Some((gpu.to_string(), distance))
            })
            .collect()
    };
    for nic in rdma {
        if let Some(path) = paths.get(nic) {
            let of_nic = to_gpus(path, numa(nic));
            if !of_nic.is_empty() {
                distances.insert(nic.to_string(), of_nic);
            }
        }
    }
    for (bdf, nic) in &mut bare {
        let dir = pci_function_dir(*bdf);
        nic.distances = to_gpus(&device_path(host, &dir), numa_node(host, &dir));
    }
    facts.bare = bare
        .into_iter()
        .map(|(bdf, nic)| (bdf.to_string(), nic))
        .collect();
    facts.distances = distances;
    Reading::Value(facts)
}

/// The function's path in `/sys/devices`; of a tree without the link's target, the link's text.
fn device_path(host: &Host, dir: &Path) -> PciPath {
    let canonical = tree::canonical(host, dir);
    let path = canonical.or_else(|| tree::link(host, dir).value().cloned());
    path.map(|path| topology::parse_path(&path))
        .unwrap_or_default()
}

fn function(host: &Host, bdf: Bdf, parent: Option<Bdf>) -> PciFunction {
    let dir = pci_function_dir(bdf);
    PciFunction {
        id: pci_id(host, &dir).unwrap_or_default(),
        class: parse::hex(host, dir.join("class"))
            .map(|class| format!("{class:06x}"))
            .unwrap_or_default(),
        driver: tree::link_name(host, dir.join("driver")),
        current: link(host, &dir, "current"),
        max: link(host, &dir, "max"),
        parent: parent.map(|parent| parent.to_string()),
        numa_node: numa_node(host, &dir),
        iommu: tree::read_text(host, dir.join("iommu_group/type")),
        aer: aer(host, &dir),
        config_dead: Reading::Absent,
        acs_redirect: Reading::Absent,
    }
}

/// Reads `current_link_*` or `max_link_*`, by the first word.
fn link(host: &Host, dir: &Path, which: &str) -> Reading<PcieLink> {
    let file = |what: &str| -> PathBuf { dir.join(format!("{which}_link_{what}")) };
    tree::read_text(host, file("speed")).and_then(|speed| {
        tree::read_text(host, file("width")).and_then(|width| parse_link(&speed, &width))
    })
}

fn aer(host: &Host, dir: &Path) -> Aer {
    let total = |file: &str| {
        tree::read_text(host, dir.join(file))
            .value()
            .and_then(|text| parse_aer(text))
    };
    Aer {
        correctable: total("aer_dev_correctable"),
        nonfatal: total("aer_dev_nonfatal"),
        fatal: total("aer_dev_fatal"),
    }
}

/// A function that fell off the bus reads all ones, while `vendor` is the kernel's memory of it. A
/// VF's own config space has no vendor id (SR-IOV: ffff by design): there it tells nothing.
fn config_dead(host: &Host, dir: &Path) -> Reading<bool> {
    if tree::exists(host, dir.join("physfn")) {
        return Reading::NotObservable;
    }
    tree::read_bytes(host, dir.join("config"), 2).and_then(|bytes| match bytes.len() {
        2 => Reading::Value(bytes == [0xff, 0xff]),
        _ => Reading::NotObservable,
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
