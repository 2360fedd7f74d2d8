//! Machines by name, from `data/machines.toml`: groups of GPUs and NICs, each with its places in the
//! PCI tree, become a node's specification.

use super::counters::{counters, ethtool};
use super::node::clear_counters;
use super::render::groups;
use super::spec::*;
use crate::observe::netdev::{DcbFacts, Trust};
use crate::observe::vf::{VfLink, VfLinks};
use crate::units::Bdf;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use toml::{Table, Value};

/// Everything in `data/machines.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalogue {
    gpus: BTreeMap<String, Gpu>,
    nics: BTreeMap<String, Nic>,
    machines: Vec<Table>,
}

pub(super) static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| super::embedded(include_str!("data/machines.toml")));

/// A GPU model as the table of machines names it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpu {
    #[serde(default = "nvidia_vendor")]
    pub(super) vendor: u16,
    pub(super) device: u16,
    #[serde(default = "display_controller")]
    class: u32,
    pub(super) model: String,
    /// The driver where the machine names none.
    #[serde(default)]
    pub(super) driver: NvidiaDriver,
    /// AMD's driver takes it; the simulated files list NVIDIA's GPUs alone.
    #[serde(default)]
    pub(super) amd: bool,
    /// On a board with a Grace CPU.
    #[serde(default)]
    pub(super) grace: bool,
}

/// The NVIDIA driver and its companions.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NvidiaDriver {
    version: String,
    pub(super) open: bool,
    pub(super) peermem: bool,
    gds: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    #[default]
    Mlx5,
    Mlx4,
    Bnxt,
    Ionic,
    Efa,
}

/// A NIC model as the table of machines names it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nic {
    #[serde(default = "mellanox_vendor")]
    vendor: u16,
    device: u16,
    #[serde(default = "mlx5_core")]
    driver: String,
    #[serde(default)]
    kind: Kind,
    class: Option<u32>,
    firmware: Option<String>,
    hca_type: Option<String>,
    board_id: Option<String>,
    /// `rate` text of an RDMA port, or with the interface's Gb/s first.
    rate: String,
    /// Whether it is a virtual function or virtual NIC: no AER, and link registers that read zero
    /// (PCIe base specification, chapter on SR-IOV).
    #[serde(default, rename = "virtual")]
    is_virtual: bool,
    #[serde(default = "yes")]
    aer: bool,
    #[serde(default = "gen5_x16")]
    pcie: (u32, u32),
    p2p: Option<String>,
}

/// GPUs of one model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpuGroup {
    pub(super) gpu: String,
    pub(super) at: Vec<String>,
    #[serde(default = "gen5_x16")]
    pub(super) pcie: (u32, u32),
}

/// Functions of one NIC model. In names `{n}` is the number of RDMA devices so far, `{i}` the place in
/// the group; `{domain}`, `{bus}` and `{function}` are the address's, in decimal.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NicGroup {
    pub(super) nic: String,
    /// Places; an interface without one is virtual.
    pub(super) at: Vec<String>,
    /// Name of the RDMA device; empty: there is none.
    pub(super) device: String,
    /// Name of the interface; empty: there is none.
    pub(super) netdev: String,
    pub(super) infiniband: bool,
    pub(super) rate: Option<String>,
    pub(super) mtu: Option<u32>,
    /// Whether the rails are Ethernet without PFC.
    pub(super) lossy: bool,
    pub(super) pcie: Option<(u32, u32)>,
    pub(super) master: Option<String>,
    /// Interface of a second port of the same function.
    pub(super) second_port: Option<String>,
    /// The first value of `{i}` in the name pattern.
    pub(super) from: usize,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RdmaModules {
    pub(super) drivers: Vec<String>,
    /// Version where they are DOCA-OFED's.
    pub(super) ofed: Option<String>,
}

/// Virtual functions of the physical ones.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vfs {
    /// Prefix of the interfaces that get them.
    of: String,
    each: u8,
    /// PCI function of the first one.
    first: u8,
    /// mlx5_core makes an RDMA device and an interface of each, vfio-pci neither.
    driver: String,
    /// Whether the physical function tells their link states.
    #[serde(default)]
    links: bool,
    /// Interface whose first function is administratively down.
    disabled: Option<String>,
}

/// A machine as it is written down.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Machine {
    name: String,
    /// One line for people; empty: only a base for others.
    about: String,
    pub(super) host: NodeSpec,
    /// Path of the root buses below `/sys/devices`, with `{domain}`.
    root: Option<String>,
    pub(super) bridges: Vec<String>,
    pub(super) gpus: Vec<GpuGroup>,
    pub(super) nics: Vec<NicGroup>,
    pub(super) modules: Vec<ModuleSpec>,
    pub(super) rdma: RdmaModules,
    pub(super) nvidia: Option<NvidiaDriver>,
    pub(super) last_modules: Vec<ModuleSpec>,
    vfs: Option<Vfs>,
    /// Devices that never had a cable.
    pub(super) uncabled: Vec<String>,
    /// Devices whose link is down.
    down: Vec<String>,
    /// Devices that refuse every read of their port counters.
    restricted: Vec<String>,
}

fn nvidia_vendor() -> u16 {
    0x10de
}

fn mellanox_vendor() -> u16 {
    0x15b3
}

fn display_controller() -> u32 {
    0x03_0200
}

fn mlx5_core() -> String {
    "mlx5_core".into()
}

fn yes() -> bool {
    true
}

fn gen5_x16() -> (u32, u32) {
    (5, 16)
}

/// Names of the machines that are listed, in their order.
pub fn presets() -> Vec<&'static str> {
    let listed = CATALOGUE
        .machines
        .iter()
        .filter(|table| table.contains_key("about"));
    listed
        .filter_map(|table| table.get("name")?.as_str())
        .collect()
}

/// A machine's description in a few words; empty for an unknown name.
pub fn about(name: &str) -> &'static str {
    let table = CATALOGUE.table(name);
    let about = table.and_then(|table| table.get("about")?.as_str());
    about.unwrap_or_default()
}

/// A node by the name of a machine.
pub fn preset(name: &str) -> Option<NodeSpec> {
    Some(CATALOGUE.machine(name)?.node())
}

impl Catalogue {
    fn table(&self, name: &str) -> Option<&Table> {
        let named = |table: &&Table| table.get("name").and_then(Value::as_str) == Some(name);
        self.machines.iter().find(named)
    }

    /// A machine on top of those that it is `like`: tables are merged, lists joined, the rest replaced.
    fn merged(&self, name: &str) -> Option<Table> {
        let mut table = self.table(name)?.clone();
        let Some(Value::String(base)) = table.remove("like") else {
            return Some(table);
        };
        let mut merged = self.merged(&base)?;
        merge(&mut merged, table);
        Some(merged)
    }

    pub(super) fn machine(&self, name: &str) -> Option<Machine> {
        self.merged(name)?.try_into().ok()
    }

    pub(super) fn gpu(&self, name: &str) -> Option<&Gpu> {
        self.gpus.get(name)
    }

    pub(super) fn nic(&self, name: &str) -> Option<&Nic> {
        self.nics.get(name)
    }
}

impl Nic {
    /// Whether its rails are interfaces without an RDMA device.
    pub(super) fn is_gvnic(&self) -> bool {
        self.driver == "gve"
    }

    pub(super) fn is_efa(&self) -> bool {
        self.kind == Kind::Efa
    }

    pub(super) fn is_ionic(&self) -> bool {
        self.kind == Kind::Ionic
    }
}

fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => merge(base, over),
            (Some(Value::Array(base)), Value::Array(over)) if key != "dmi" => base.extend(over),
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// Where a function is: its address, the port above it, its NUMA node.
struct Place {
    at: Bdf,
    parent: Option<Bdf>,
    numa: i32,
}

/// Makes the bridges of a place: addresses from the root port downwards, joined by `/`, perhaps with
/// `@` and the NUMA node.
fn place(spec: &mut NodeSpec, text: &str) -> Option<Place> {
    let (path, numa) = text.split_once('@').unwrap_or((text, "0"));
    let numa = numa.parse().ok()?;
    let (mut above, mut parent) = (None, None);
    for step in path.split('/') {
        if let Some(bridge) = above {
            add_bridge(spec, bridge, parent, numa);
            parent = Some(bridge);
        }
        let short = step.matches(':').count() == 1;
        let full = if short {
            format!("0000:{step}")
        } else {
            step.into()
        };
        above = Some(full.parse().ok()?);
    }
    let at = above?;
    Some(Place { at, parent, numa })
}

fn add_bridge(spec: &mut NodeSpec, at: Bdf, parent: Option<Bdf>, numa: i32) {
    let (vendor, device) = match parent {
        None => (0x8086, 0x352a),
        Some(_) => (0x1000, 0xc030),
    };
    let place = Place { at, parent, numa };
    let bridge = function(&place, (vendor, device), 0x06_0400, "pcieport", (5, 16));
    spec.pci.entry(at.to_string()).or_insert(bridge);
}

fn function(
    place: &Place,
    (vendor, device): (u16, u16),
    class: u32,
    driver: &str,
    (generation, width): (u32, u32),
) -> PciSpec {
    let speed = match generation {
        0 => "Unknown".to_string(),
        _ => format!("{}.0 GT/s PCIe", 1 << generation),
    };
    PciSpec {
        bdf: place.at,
        parent: place.parent,
        root: None,
        vendor,
        device,
        class,
        driver: Some(driver.into()),
        numa: place.numa,
        link: (speed.clone(), width),
        max_link: (speed, width),
        aer: Some([0; 3]),
        dead: false,
        physfn: None,
        sriov: None,
        p2p: None,
    }
}

/// PFC on the given priorities, DSCP trusted, two thirds of the bandwidth for RDMA.
fn lossless(pfc: u8) -> DcbFacts {
    DcbFacts {
        pfc_enabled: Some(pfc),
        pfc_cap: Some(8),
        ets_tc_bandwidth: Some([34, 0, 0, 66, 0, 0, 0, 0]),
        ets_prio_tc: Some([0, 0, 0, 3, 0, 0, 0, 0]),
        dscp_to_priority: BTreeMap::from([(26, 3), (48, 6)]),
        trust: Some(Trust::Dscp),
        dcbx: Some(0x1 | 0x8),
        prio_to_buffer: Some([0, 0, 0, 1, 0, 0, 0, 0]),
    }
}

impl Machine {
    /// The node that this machine is.
    pub(super) fn node(&self) -> NodeSpec {
        let mut spec = self.host.clone();
        spec.iommu = spec.iommu.filter(|kind| !kind.is_empty());
        for path in &self.bridges {
            // A bridge is what is above something: anything will do.
            let _ = place(&mut spec, &format!("{path}/00:00.0"));
        }
        for group in &self.gpus {
            self.add_gpus(&mut spec, group);
        }
        for group in &self.nics {
            self.add_nics(&mut spec, group);
        }
        self.add_modules(&mut spec);
        if let Some(vfs) = &self.vfs {
            self.add_vfs(&mut spec, vfs);
        }
        for name in &self.down {
            set_link_down(&mut spec, name);
        }
        for name in &self.uncabled {
            set_uncabled(&mut spec, name);
        }
        for name in &self.restricted {
            let port = spec.port_mut(name, 1).and_then(|port| port.pma.as_mut());
            for attr in port.into_iter().flat_map(BTreeMap::values_mut) {
                *attr = Attr::Errno(nix::libc::EINVAL);
            }
        }
        spec
    }

    fn add_pci(&self, spec: &mut NodeSpec, mut pci: PciSpec) {
        let domain = format!("{:04x}", pci.bdf.domain);
        let root = self.root.as_ref().filter(|_| pci.parent.is_none());
        pci.root = root.map(|root| root.replace("{domain}", &domain));
        spec.pci.insert(pci.bdf.to_string(), pci);
    }

    fn add_gpus(&self, spec: &mut NodeSpec, group: &GpuGroup) {
        let Some(gpu) = CATALOGUE.gpu(&group.gpu) else {
            return;
        };
        for at in &group.at {
            let Some(place) = place(spec, at) else {
                continue;
            };
            let driver = if gpu.amd { "amdgpu" } else { "nvidia" };
            let id = (gpu.vendor, gpu.device);
            let mut pci = function(&place, id, gpu.class, driver, group.pcie);
            // A guest sees functions without bridges, and without AER.
            pci.aer = pci.aer.filter(|_| place.parent.is_some());
            self.add_pci(spec, pci);
            let number = spec.gpus.len();
            if !gpu.amd {
                spec.gpus.push(GpuSpec {
                    bdf: place.at,
                    model: gpu.model.clone(),
                    uuid: format!(
                        "GPU-5f3c{number:04x}-2a78-d767-1f0d-7512eb8c{:04x}",
                        0x552d + number
                    ),
                });
            }
        }
    }

    fn add_nics(&self, spec: &mut NodeSpec, group: &NicGroup) {
        let Some(nic) = CATALOGUE.nic(&group.nic) else {
            if !group.netdev.is_empty() {
                add_netdev(spec, group, &group.netdev, None, group.rate.as_deref());
            }
            return;
        };
        for (i, at) in group.at.iter().enumerate() {
            let Some(place) = place(spec, at) else {
                continue;
            };
            let class = match group.infiniband {
                true => 0x02_0700,
                false => 0x02_0000,
            };
            let pcie = if nic.is_virtual {
                (0, 0)
            } else {
                group.pcie.unwrap_or(nic.pcie)
            };
            let class = nic.class.unwrap_or(class);
            let mut pci = function(&place, (nic.vendor, nic.device), class, &nic.driver, pcie);
            pci.aer = pci.aer.filter(|_| nic.aer && !nic.is_virtual);
            pci.p2p.clone_from(&nic.p2p);
            self.add_pci(spec, pci);
            let name = |template: &str| {
                let n = spec.rdma.len().to_string();
                template
                    .replace("{n}", &n)
                    .replace("{i}", &(group.from + i).to_string())
                    .replace("{domain}", &place.at.domain.to_string())
                    .replace("{bus}", &place.at.bus.to_string())
                    .replace("{function}", &place.at.function.to_string())
            };
            let (device, netdev) = (name(&group.device), name(&group.netdev));
            add_functions(spec, nic, group, place.at, (&device, &netdev));
        }
    }

    fn add_modules(&self, spec: &mut NodeSpec) {
        let module = |name: &str, version: Option<&str>, taint: &str| ModuleSpec {
            name: name.into(),
            version: version.map(str::to_string),
            taint: taint.into(),
        };
        let modules = &mut spec.modules;
        modules.extend(self.modules.iter().cloned());
        let ofed = self.rdma.ofed.as_deref();
        if !self.rdma.drivers.is_empty() {
            let drivers = self.rdma.drivers.iter().map(String::as_str);
            let taint = if ofed.is_some() { "OE" } else { "" };
            let names = ["ib_core", "ib_uverbs"].into_iter().chain(drivers);
            modules.extend(names.map(|name| module(name, ofed, taint)));
        }
        if let Some(driver) = &self.nvidia {
            let version = Some(driver.version.as_str());
            let taint = if driver.open { "OE" } else { "POE" };
            modules.push(module("nvidia", version, taint));
            modules.push(module("gdrdrv", Some("2.4.4"), "OE"));
            if driver.peermem {
                modules.push(module("nvidia_peermem", version, taint));
                spec.memory_peers = Some(vec!["nv_mem".into()]);
            }
            if driver.gds {
                modules.push(module("nvidia_fs", Some("2.25.7"), "OE"));
                spec.nvidia_fs = Some(0);
            }
            spec.nvidia = Some(NvidiaSpec {
                version: driver.version.clone(),
                open: driver.open,
            });
        }
        modules.extend(self.last_modules.iter().cloned());
    }

    fn add_vfs(&self, spec: &mut NodeSpec, vfs: &Vfs) {
        let fast = CATALOGUE.nic("cx7_vf");
        let pfs: Vec<(Bdf, NicGroup, String)> = spec
            .rdma
            .iter()
            .filter_map(|device| {
                let port = device.ports.first()?;
                let netdev = port
                    .netdev
                    .clone()
                    .filter(|name| name.starts_with(&vfs.of))?;
                let slow = port.rate.starts_with("200 ");
                let group = NicGroup {
                    rate: slow.then(|| "200 Gb/sec (2X NDR)".to_string()),
                    ..NicGroup::default()
                };
                Some((device.pci, group, netdev))
            })
            .collect();
        for (pf, group, above) in pfs {
            let Some(nic) = fast else {
                return;
            };
            let mut addresses = Vec::new();
            for n in 0..vfs.each {
                let at = Bdf {
                    function: vfs.first + pf.function + vfs.first * n,
                    ..pf
                };
                let physical = spec.pci.get(&pf.to_string());
                let place = Place {
                    at,
                    parent: physical.and_then(|pci| pci.parent),
                    numa: physical.map_or(0, |pci| pci.numa),
                };
                let id = (nic.vendor, nic.device);
                let mut pci = function(&place, id, 0x02_0000, &vfs.driver, (0, 0));
                (pci.physfn, pci.aer) = (Some(pf), None);
                self.add_pci(spec, pci);
                if vfs.driver == nic.driver {
                    let device = format!("mlx5_{}", spec.rdma.len());
                    let netdev = format!("enp{}s0f{}v{n}", pf.bus, pf.function);
                    add_functions(spec, nic, &group, at, (&device, &netdev));
                }
                addresses.push(at);
            }
            if let Some(pci) = spec.pci.get_mut(&pf.to_string()) {
                pci.sriov = Some((16, addresses));
            }
            let state = match vfs.disabled.as_ref() == Some(&above) {
                true => VfLink::Disable,
                false => VfLink::Auto,
            };
            if let Some(netdev) = spec.netdev_mut(&above).filter(|_| vfs.links) {
                let states = (0..u32::from(vfs.each)).map(|n| (n, state)).collect();
                netdev.vf_links = Some(VfLinks { states });
            }
        }
    }
}

/// The RDMA device and the interface of a function.
fn add_functions(
    spec: &mut NodeSpec,
    nic: &Nic,
    group: &NicGroup,
    pci: Bdf,
    (device, netdev): (&str, &str),
) {
    let rate = group.rate.as_ref().unwrap_or(&nic.rate).as_str();
    let seed = spec.rdma.len() as u64 + 1;
    if !device.is_empty() {
        let port = port(nic, group, rate, seed, netdev);
        let guid = guid(nic, seed);
        spec.rdma.push(RdmaSpec {
            name: device.into(),
            pci,
            node_type: if nic.is_efa() { 7 } else { 1 },
            firmware: nic.firmware.clone().unwrap_or_default(),
            hca_type: nic.hca_type.clone(),
            board_id: nic.board_id.clone(),
            guid,
            image_guid: if nic.is_efa() { 0 } else { guid },
            uverbs: seed as u32 - 1,
            ports: vec![port],
            device_hw: nic.is_efa().then(|| counters(&["efa_device"], seed)),
        });
    }
    if !netdev.is_empty() {
        add_netdev(spec, group, netdev, Some(pci), Some(rate));
    }
    if !device.is_empty() && !group.infiniband && !netdev.is_empty() {
        add_ethernet_facts(spec, nic, group, seed, netdev);
    }
    if let Some(second) = &group.second_port {
        add_second_port(spec, group, rate, (device, second));
    }
}

fn guid(nic: &Nic, seed: u64) -> u64 {
    match nic.kind {
        Kind::Efa => 0x0627_0aff_fe00_0000 + seed,
        _ => 0xa088_c203_0040_0000 + (seed << 8),
    }
}

fn add_netdev(
    spec: &mut NodeSpec,
    group: &NicGroup,
    name: &str,
    pci: Option<Bdf>,
    rate: Option<&str>,
) {
    let gbps = rate.and_then(|rate| rate.split(' ').next()?.parse::<u64>().ok());
    let roce = !group.device.is_empty() || pci.is_some_and(|bdf| is_rdma(spec, bdf));
    spec.netdevs.push(NetdevSpec {
        name: name.into(),
        pci,
        ifindex: spec.netdevs.len() as u32 + 2,
        dev_port: 0,
        kind: if group.infiniband { 32 } else { 1 },
        admin_up: true,
        carrier: true,
        speed: gbps.unwrap_or(0) * 1000,
        mtu: group.mtu.unwrap_or(match (group.infiniband, roce) {
            (true, _) => 4092,
            (false, true) => 9000,
            (false, false) => 1500,
        }),
        carrier_changes: 3,
        master: group.master.clone(),
        ethtool: None,
        dcb: None,
        vf_links: None,
    });
}

fn is_rdma(spec: &NodeSpec, pci: Bdf) -> bool {
    spec.rdma.iter().any(|device| device.pci == pci)
}

/// Statistics and DCB settings of a RoCE interface: PFC is on for priority 3 unless it is lossy.
fn add_ethernet_facts(spec: &mut NodeSpec, nic: &Nic, group: &NicGroup, seed: u64, netdev: &str) {
    let pfc = if group.lossy || nic.is_virtual {
        0
    } else {
        1 << 3
    };
    let Some(netdev) = spec.netdev_mut(netdev) else {
        return;
    };
    netdev.dcb = (!nic.is_virtual).then(|| lossless(pfc));
    netdev.ethtool = match nic.kind {
        Kind::Ionic => None,
        Kind::Bnxt => Some(("bnxt_en".into(), ethtool("bnxt", seed, pfc, false))),
        _ => Some((
            "mlx5_core".into(),
            ethtool("mlx5", seed, pfc, nic.is_virtual),
        )),
    };
}

fn port(nic: &Nic, group: &NicGroup, rate: &str, seed: u64, netdev: &str) -> PortSpec {
    let (pma, hw) = port_counters(nic, group, seed);
    let (slots, gids) = gid_table(nic, group, seed, netdev);
    // In LAG the device belongs to the bond.
    let bond = group
        .master
        .as_ref()
        .filter(|name| name.starts_with("bond"));
    let owner = bond.cloned().unwrap_or_else(|| netdev.to_string());
    let gids = gids
        .into_iter()
        .zip(0..)
        .map(|((gid, kind), index)| GidSpec {
            index,
            gid,
            kind: kind.into(),
            netdev: (!group.infiniband && !nic.is_efa()).then(|| owner.clone()),
        });
    let down_rate = match (nic.kind, group.infiniband) {
        (Kind::Efa | Kind::Ionic, _) => None,
        (Kind::Bnxt, _) => Some("2.5 Gb/sec (1X SDR)"),
        (_, true) => Some("10 Gb/sec (4X SDR)"),
        (_, false) => Some("40 Gb/sec (4X QDR)"),
    };
    PortSpec {
        number: 1,
        link_layer: match (nic.kind, group.infiniband) {
            (Kind::Efa, _) => "Unknown".into(),
            (_, true) => "InfiniBand".into(),
            (_, false) => "Ethernet".into(),
        },
        state: 4,
        phys: 5,
        rate: rate.into(),
        down_rate: down_rate.map(str::to_string),
        lid: if group.infiniband {
            0x100 + seed as u32
        } else {
            0
        },
        sm_lid: u32::from(group.infiniband),
        pma,
        hw,
        gids: gids.collect(),
        gid_slots: slots,
        pkeys: match (group.infiniband, nic.is_virtual) {
            (false, _) => vec![0xffff],
            (true, false) => vec![0xffff, 0x0000],
            // A guest is in the partition of its tenant.
            (true, true) => vec![0x8005, 0x7fff],
        },
        netdev: (!nic.is_efa()).then_some(owner),
    }
}

fn port_counters(nic: &Nic, group: &NicGroup, seed: u64) -> (Option<Attrs>, Option<Attrs>) {
    let of = |tables: &[&str]| Some(counters(tables, seed));
    match (nic.kind, group.infiniband, nic.is_virtual) {
        (Kind::Ionic, ..) => (None, None),
        (Kind::Efa, ..) => (None, of(&["efa_port"])),
        (Kind::Bnxt, ..) => (None, of(&["bnxt"])),
        (Kind::Mlx4, ..) => (of(&["pma", "pma_mlx4"]), None),
        (Kind::Mlx5, true, false) => (of(&["pma"]), of(&["mlx5"])),
        (Kind::Mlx5, true, true) => (of(&["pma_vf"]), of(&["mlx5"])),
        (Kind::Mlx5, false, false) => (of(&["pma"]), of(&["mlx5", "mlx5_roce"])),
        (Kind::Mlx5, false, true) => (of(&["pma_vf"]), of(&["mlx5", "mlx5_roce"])),
    }
}

/// Size of the table and its entries: GID and type.
fn gid_table(
    nic: &Nic,
    group: &NicGroup,
    seed: u64,
    netdev: &str,
) -> (u32, Vec<(String, &'static str)>) {
    let link_local = |id: u64| format!("fe80:0000:0000:0000:{}", groups(id));
    let guid = guid(nic, seed);
    if nic.is_efa() {
        let id = 0x0427_0aff_fe00_0000 + seed;
        return (1, vec![(link_local(id), "IB/RoCE v1")]);
    }
    if group.infiniband || netdev.is_empty() {
        return (8, vec![(link_local(guid), "IB/RoCE v1")]);
    }
    let local = link_local(guid | 0x0000_00ff_fe00_0000);
    let (high, low) = (seed >> 8, seed & 0xff);
    let address = format!("0000:0000:0000:0000:0000:ffff:0a{high:02x}:{low:02x}0a");
    let table = vec![
        (local.clone(), "IB/RoCE v1"),
        (local, "RoCE v2"),
        (address.clone(), "IB/RoCE v1"),
        (address, "RoCE v2"),
    ];
    (if nic.is_virtual { 8 } else { 16 }, table)
}

fn add_second_port(
    spec: &mut NodeSpec,
    group: &NicGroup,
    rate: &str,
    (device, netdev): (&str, &str),
) {
    let Some(device) = spec.rdma.iter_mut().find(|known| known.name == device) else {
        return;
    };
    let Some(mut second) = device.ports.first().cloned() else {
        return;
    };
    second.number = 2;
    second.lid += 1;
    second.pma = Some(counters(&["pma", "pma_mlx4"], 2));
    second.netdev = Some(netdev.into());
    let pci = device.pci;
    device.ports.push(second);
    add_netdev(spec, group, netdev, Some(pci), Some(rate));
    if let Some(netdev) = spec.netdev_mut(netdev) {
        netdev.dev_port = 1;
    }
}

/// A link that lost its partner after boot.
fn set_link_down(spec: &mut NodeSpec, device: &str) {
    let Some(port) = spec.port_mut(device, 1) else {
        return;
    };
    // InfiniBand without a partner polls; RoCE without carrier says Disabled.
    let phys = if port.link_layer == "Ethernet" { 3 } else { 2 };
    (port.state, port.phys) = (1, phys);
    let netdev = port.netdev.clone().unwrap_or_default();
    if let Some(netdev) = spec.netdev_mut(&netdev) {
        netdev.carrier = false;
        netdev.carrier_changes += 1;
    }
}

/// A port that never had a link.
fn set_uncabled(spec: &mut NodeSpec, device: &str) {
    set_link_down(spec, device);
    let Some(port) = spec.port_mut(device, 1) else {
        return;
    };
    clear_counters(port);
    let netdev = port.netdev.clone().unwrap_or_default();
    if let Some(netdev) = spec.netdev_mut(&netdev) {
        netdev.carrier_changes = 1;
    }
}
