//! `/sys/class/infiniband`: which RDMA devices there are, and what of them does not change with
//! their links (drivers/infiniband/core/sysfs.c). Nothing read here costs a firmware command on
//! mlx5: state, rate and LID are [`super::link`]'s.

use crate::host::Host;
use crate::observe::{Fault, Function, LinkLayer, RdmaDevice, RdmaPort, Reading, Sriov};
use crate::source::rdma_port::{self, CLASS, class_dir};
use crate::source::{identity, netdev, parse, tree};
use crate::units::{Bdf, DeviceKey};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Most devices taken; SR-IOV hosts have a few hundred.
const MAX_DEVICES: usize = 1024;

/// All RDMA devices, by name. A `/sys` without the class has none (its modules are not loaded); no
/// `/sys` at all, or an empty one, is absent: a kernel always has classes.
pub fn enumerate(host: &Host) -> Reading<Vec<RdmaDevice>> {
    let mut names = match tree::list(host, CLASS) {
        Reading::Value(names) => names,
        Reading::Absent if tree::exists(host, "sys/class") => return Reading::Value(Vec::new()),
        other => return other.map(|_| Vec::new()),
    };
    let uverbs = Uverbs::read(host);
    if names.len() > MAX_DEVICES {
        // Virtual functions are left out first.
        names.sort_by_key(|name| tree::exists(host, class_dir(name).join("device/physfn")));
        names.truncate(MAX_DEVICES);
    }
    let devices = names.iter().filter_map(|name| device(host, name, &uverbs));
    let mut devices: Vec<RdmaDevice> = devices.collect();
    make_keys_unique(&mut devices);
    Reading::Value(devices)
}

/// Longest vital product data (VPD) read. NVIDIA's fits into a few hundred bytes; each four of them
/// are a write to config space and a wait (drivers/pci/vpd.c): read once for each function.
const MAX_VPD: usize = 1024;

/// Whether a device manages NVSwitches: `SMDL=SW_MNG` in its VPD, which root alone may read. Read of
/// NVIDIA's physical InfiniBand functions only, others cannot.
pub fn manages_switches(host: &Host, device: &RdmaDevice) -> Reading<bool> {
    let pci_id = device.pci_id.as_deref();
    let nvidia = pci_id.is_some_and(|id| id.starts_with("15b3:"));
    let infiniband = |port: &RdmaPort| port.link_layer == LinkLayer::Infiniband;
    let may =
        nvidia && device.function == Function::Physical && device.ports.iter().all(infiniband);
    let Some(address) = device.pci.filter(|_| may) else {
        return Reading::NotObservable;
    };
    let vpd = tree::read_bytes(host, pci_function_dir(address).join("vpd"), MAX_VPD);
    vpd.map(|vpd| vpd.windows(6).any(|word| word == b"SW_MNG"))
}

/// What [`enumerate`] leaves out where there are too many devices.
pub fn left_out(host: &Host) -> Option<Fault> {
    let all = tree::names(host, CLASS).len();
    let detail = || format!("{all} RDMA devices, of which {MAX_DEVICES} are read");
    (all > MAX_DEVICES).then(|| Fault::other(detail()))
}

/// One device; none if it is gone by now. An unreadable device is kept, described by its links alone.
fn device(host: &Host, name: &str, uverbs: &Uverbs) -> Option<RdmaDevice> {
    let dir = class_dir(name);
    let at = |file: &str| dir.join(file);
    let unlisted = match tree::list(host, &dir) {
        Reading::Value(_) => None,
        Reading::Failed(fault) => Some(fault),
        Reading::Absent | Reading::NotObservable => return None,
    };
    let place = locate(host, name);
    let pci_dir = pci_dir(host, &dir, place.pci);
    let uevent = tree::read_text(host, pci_dir.join("uevent"));
    let uevent = uevent.into_value().unwrap_or_default();
    let node_type = parse::word(host, at("node_type"))
        .and_then(|text| text.split(':').next()?.trim().parse().ok());
    let hca_type = parse::word(host, at("hca_type"));
    let node_guid = parse::word(host, at("node_guid"));
    let parent = parse::name(host, at("parent"));
    let is_rdma = |parent: &String| tree::exists(host, class_dir(parent));
    let parent_is_rdma = parent.as_ref().is_some_and(is_rdma);
    let parent_netdev = parent.clone().filter(|parent| {
        !parent_is_rdma && (place.pci.is_none() || tree::exists(host, netdev::class_dir(parent)))
    });
    let driver = identity::driver(&identity::DriverSigns {
        bound: tree::link_name(host, pci_dir.join("driver"))
            .or_else(|| parse::uevent(&uevent, "DRIVER")),
        has_device: tree::exists(host, at("device")),
        software: place.software,
        parent_is_netdev: parent_netdev.is_some(),
        node_type,
        hca_type: hca_type.clone(),
    });
    let software = identity::is_software(&driver);
    let pci_id = (!software).then(|| pci_id(host, &pci_dir)).flatten();
    let physfn = tree::exists(host, pci_dir.join("physfn"));
    let (ports, portless) = rdma_port::ports(host, name, parent_netdev.as_deref());
    let device = RdmaDevice {
        key: identity::key(&place, software, node_guid.as_deref(), name),
        name: name.to_string(),
        index: None,
        pci: place.pci.filter(|_| !software),
        function: identity::function(&place, &driver, physfn, pci_id.as_deref()),
        pci_id,
        node_type,
        firmware: parse::word(host, at("fw_ver")),
        board_id: parse::word(host, at("board_id")),
        hca_type,
        sys_image_guid: parse::word(host, at("sys_image_guid")),
        node_guid,
        sriov: sriov_numbers(host, &pci_dir),
        smi_parent: parent.filter(|_| parent_is_rdma),
        numa_node: numa_node(host, &pci_dir),
        uverbs: uverbs.of(name),
        manages_switches: Reading::NotObservable,
        ports,
        unread: unlisted.or(portless),
        driver,
    };
    // A device removed during the read was read in part, and its key may differ.
    tree::exists(host, &dir).then_some(device)
}

/// Where the device hangs: by its `device` link, else (a tree that lacks the link's target) by the
/// text of the links, else by the uevent.
fn locate(host: &Host, name: &str) -> identity::PciPlace {
    let dir = class_dir(name);
    let device = dir.join("device");
    let class_target = tree::link(host, &dir)
        .value()
        .and_then(|target| Some(target.parent()?.parent()?.to_path_buf()));
    // Where `device` is not a link, its path says nothing.
    let link = tree::link(host, &device).into_value();
    let resolved = link.as_ref().and_then(|_| tree::canonical(host, &device));
    let candidates = [resolved, class_target, link];
    let mut software = false;
    for candidate in candidates.into_iter().flatten() {
        let place = identity::place(&candidate);
        if place.pci.is_some() {
            return place;
        }
        software |= place.software;
    }
    let uevent = tree::read_text(host, device.join("uevent"));
    let slot = (uevent.value()).and_then(|text| parse::uevent(text, "PCI_SLOT_NAME"));
    let pci = slot.and_then(|slot| slot.parse().ok());
    identity::PciPlace {
        pci,
        software: software && pci.is_none(),
        ..identity::PciPlace::default()
    }
}

/// Directory of the PCI function: of a sub-function, its parent's.
fn pci_dir(host: &Host, class_dir: &Path, pci: Option<Bdf>) -> PathBuf {
    pci.map(pci_function_dir)
        .filter(|dir| tree::exists(host, dir))
        .unwrap_or_else(|| class_dir.join("device"))
}

/// Directory of a PCI function.
pub fn pci_function_dir(bdf: Bdf) -> PathBuf {
    Path::new("sys/bus/pci/devices").join(bdf.to_string())
}

/// `vendor:device`, lower-case hex.
pub fn pci_id(host: &Host, pci_dir: &Path) -> Option<String> {
    let vendor = parse::hex(host, pci_dir.join("vendor"))?;
    let device = parse::hex(host, pci_dir.join("device"))?;
    Some(format!("{vendor:04x}:{device:04x}"))
}

/// `numa_node`; none where the kernel says -1.
pub fn numa_node(host: &Host, pci_dir: &Path) -> Option<u32> {
    parse::decimal(host, pci_dir.join("numa_node"))
}

/// Virtual functions that a PCI function can have and has; none where it has no such files.
pub fn sriov_numbers(host: &Host, pci_dir: &Path) -> Option<Sriov> {
    Some(Sriov {
        total: parse::decimal(host, pci_dir.join("sriov_totalvfs"))?,
        enabled: parse::decimal(host, pci_dir.join("sriov_numvfs"))?,
    })
}

/// uverbs device of each RDMA device, by the latter's name.
struct Uverbs {
    found: BTreeMap<String, String>,
    /// The class, or one of its devices, cannot be read or is not there: what was not found may exist.
    doubtful: bool,
}

impl Uverbs {
    fn read(host: &Host) -> Self {
        let class = Path::new("sys/class/infiniband_verbs");
        let listed = tree::list(host, class);
        let mut found = BTreeMap::new();
        let mut doubtful = !matches!(listed, Reading::Value(_));
        let names = listed.into_value().unwrap_or_default();
        // The class also has a file, `abi_version`.
        for name in names.into_iter().filter(|name| name.starts_with("uverbs")) {
            match tree::read_text(host, class.join(&name).join("ibdev")) {
                Reading::Value(device) => _ = found.insert(device, name),
                // It went meanwhile.
                Reading::Absent if !tree::exists(host, class.join(&name)) => {}
                Reading::Absent | Reading::NotObservable | Reading::Failed(_) => doubtful = true,
            }
        }
        Uverbs { found, doubtful }
    }

    fn of(&self, device: &str) -> Reading<String> {
        match self.found.get(device) {
            Some(name) => Reading::Value(name.clone()),
            None if self.doubtful => Reading::NotObservable,
            None => Reading::Absent,
        }
    }
}

/// SMI sub-devices share their parent's PCI function, and software devices over one NIC may share
/// a GUID: a key that is taken gets the name behind it. Sub-devices yield to their parents.
fn make_keys_unique(devices: &mut [RdmaDevice]) {
    let mut taken: BTreeSet<DeviceKey> = BTreeSet::new();
    let (parents, children): (Vec<_>, Vec<_>) =
        (devices.iter_mut()).partition(|device| device.smi_parent.is_none());
    for device in parents.into_iter().chain(children) {
        if !taken.insert(device.key.clone()) {
            device.key = DeviceKey(format!("{}/{}", device.key, device.name));
            taken.insert(device.key.clone());
        }
    }
}

#[cfg(test)]
mod tests;
