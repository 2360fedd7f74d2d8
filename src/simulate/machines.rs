//! Machines by name, from `data/machines.toml` and, one for each known shape, `data/shapes.toml`: groups
//! of GPUs and NICs, each with its places in the PCI tree, become a node's specification.

use super::counters::{counters, ethtool};
use super::{node::set_link, render::groups, spec::*};
use crate::check::profile::by_type;
use crate::data_files::embedded;
use crate::observe::{DcbFacts, VfLink};
use crate::units::Bdf;
use serde::Deserialize;
use std::{collections::BTreeMap, sync::LazyLock};
use toml::{Table, Value};

/// Everything in both files.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    root_port: PciSpec,
    switch_port: PciSpec,
    gpus: BTreeMap<String, GpuModel>,
    nics: BTreeMap<String, NicModel>,
    ports: BTreeMap<String, PortKind>,
    /// Kernel modules that are loaded together, by a name that stands for them in `modules`.
    modules: BTreeMap<String, Vec<ModuleSpec>>,
    /// Places that several machines have, by a name that stands for them in `at`.
    places: BTreeMap<String, Vec<String>>,
    machines: Vec<Table>,
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
    embedded(concat!(
        include_str!("data/machines.toml"),
        include_str!("data/shapes.toml")
    ))
});

/// Vendor of the GPUs that NVIDIA's driver lists.
const NVIDIA: u16 = 0x10de;

/// A GPU model as the table of machines names it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuModel {
    model: String,
    pci: PciSpec,
}

/// A NIC model as the table of machines names it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NicModel {
    /// Its function; where it has no class of its own, that of Ethernet or InfiniBand. A virtual one has
    /// no AER, and its link registers read zero (PCIe base specification, chapter on SR-IOV).
    pci: PciSpec,
    /// What its ports are: `KIND_infiniband` or `KIND_ethernet` of `ports`.
    kind: String,
    /// What its firmware says of it.
    rdma: RdmaSpec,
    /// `rate` text of an RDMA port, or with the interface's Gb/s first.
    rate: String,
}

/// What a driver shows of a port.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PortKind {
    port: PortSpec,
    node_type: u32,
    /// Tables of `data/counters.toml`.
    pma: Option<Vec<String>>,
    hw: Option<Vec<String>>,
    device_hw: Option<Vec<String>>,
    /// Driver and table of its statistics.
    ethtool: Option<(String, String)>,
    /// Whether the driver answers for DCB.
    dcb: bool,
    /// Text and type; `{guid}`, `{eui}` and the bytes of the `{address}` are the port's.
    gids: Vec<(String, String)>,
}

/// GPUs of one model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuGroup {
    gpu: String,
    at: Vec<String>,
}

/// Functions of one NIC model. In names `{n}` is the number of RDMA devices so far, `{i}` the place in
/// the group; `{domain}`, `{bus}` and `{function}` are the address's, in decimal.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NicGroup {
    nic: String,
    /// Places; an interface without one is virtual.
    at: Vec<String>,
    /// Name of the RDMA device; empty: there is none.
    device: String,
    /// Name of the interface; empty: there is none.
    netdev: String,
    infiniband: bool,
    rate: Option<String>,
    mtu: Option<u32>,
    /// Whether the rails are Ethernet without PFC.
    lossy: bool,
    /// Driver, where it is not the model's own.
    driver: Option<String>,
    /// The physical function, where these are its virtual ones.
    pf: Option<Bdf>,
    /// Their link state, where the physical function tells it.
    link: Option<VfLink>,
    master: Option<String>,
    /// Interface of a second port of the same function.
    second_port: Option<String>,
    /// The first value of `{i}` in the name pattern.
    from: usize,
}

/// A machine as it is written down, without its name and the line about it: `about`, or `shape` where the
/// name is an instance type. One without such a line is only a base for others.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Machine {
    host: NodeFiles,
    /// Path of the root buses below `/sys/devices`, with `{domain}`.
    root: Option<String>,
    bridges: Vec<String>,
    gpus: Vec<GpuGroup>,
    nics: Vec<NicGroup>,
    modules: Vec<String>,
    nvidia: Option<NvidiaSpec>,
    /// Devices that never had a cable.
    uncabled: Vec<String>,
    /// Devices whose link is down.
    down: Vec<String>,
    /// Devices that refuse every read of their port counters.
    restricted: Vec<String>,
}

/// Names of the machines that have such a line about them, and the line.
fn listed(field: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    CATALOGUE.machines.iter().filter_map(move |table| {
        let text = |field: &str| table.get(field)?.as_str();
        Some((text("name")?, text(field)?))
    })
}

/// Names of the machines that are listed, in their order.
pub fn presets() -> Vec<&'static str> {
    listed("about").map(|(name, _)| name).collect()
}

/// Instance types (for DGX, products) that can be simulated: one for each known shape.
pub fn shape_names() -> Vec<&'static str> {
    listed("shape").map(|(name, _)| name).collect()
}

/// Everything that can be simulated, one line each: presets, then shapes.
pub fn listing() -> String {
    let lines = |field: &str, width: usize| -> String {
        let line = |(name, about)| format!("{name:<width$}{about}\n");
        listed(field).map(line).collect()
    };
    let (presets, shapes) = (lines("about", 18), lines("shape", 32));
    format!("{presets}\nEvery known shape:\n{shapes}")
}

/// A node by the name of a machine.
pub fn preset(name: &str) -> Option<NodeFiles> {
    let mut table = CATALOGUE.merged(name)?;
    table.retain(|key, _| !matches!(key, "name" | "about" | "shape"));
    let machine: Machine = table.try_into().ok()?;
    Some(machine.node())
}

/// A node by a preset's name, else by an instance type of a known shape (`p5.48xlarge`,
/// `BM.GPU.B200.8`, `dgxh100`).
pub fn by_name(name: &str) -> Option<NodeFiles> {
    let of_shape = || {
        let shape = by_type(name)?;
        let mut names = shape_names().into_iter();
        preset(names.find(|name| by_type(name).is_some_and(|of| of.name == shape.name))?)
    };
    // A machine that others are only built on is not a whole node.
    let listed = presets().contains(&name) || shape_names().contains(&name);
    preset(name).filter(|_| listed).or_else(of_shape)
}

impl Catalogue {
    /// A machine on top of those that it is `like`: tables are merged, lists joined, the rest replaced.
    fn merged(&self, name: &str) -> Option<Table> {
        let named = |table: &&Table| table.get("name").and_then(Value::as_str) == Some(name);
        let mut table = self.machines.iter().find(named)?.clone();
        let Some(Value::String(base)) = table.remove("like") else {
            return Some(table);
        };
        let mut merged = self.merged(&base)?;
        merge(&mut merged, table);
        Some(merged)
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

/// Where functions are, by texts as [`place`] takes them, or by names of several such.
fn places(spec: &mut NodeFiles, at: &[String]) -> Vec<PciSpec> {
    let texts = at.iter().flat_map(|at| match CATALOGUE.places.get(at) {
        Some(several) => several.as_slice(),
        None => std::slice::from_ref(at),
    });
    texts.filter_map(|text| place(spec, text)).collect()
}

/// Where a function is: its address, the port above it, its NUMA node. Makes the bridges above: addresses
/// from the root port downwards, joined by `/`, perhaps with `@` and the NUMA node.
fn place(spec: &mut NodeFiles, text: &str) -> Option<PciSpec> {
    let (path, numa) = text.split_once('@').unwrap_or((text, "0"));
    let numa = numa.parse().ok()?;
    let mut at: Option<PciSpec> = None;
    for step in path.split('/') {
        let short = step.matches(':').count() == 1;
        let domain = if short { "0000:" } else { "" };
        let below = PciSpec {
            bdf: format!("{domain}{step}").parse().ok()?,
            parent: at.as_ref().map(|above| above.bdf),
            numa,
            ..PciSpec::default()
        };
        if let Some(above) = at.replace(below) {
            let kind = (above.parent).map_or(&CATALOGUE.root_port, |_| &CATALOGUE.switch_port);
            let bridge = function(&above, kind);
            spec.pci.entry(above.bdf.to_string()).or_insert(bridge);
        }
    }
    at
}

/// A function of this kind at a place, whose link is as good as it can be.
fn function(place: &PciSpec, kind: &PciSpec) -> PciSpec {
    PciSpec {
        bdf: place.bdf,
        parent: place.parent,
        numa: place.numa,
        max_link: kind.link.clone(),
        ..kind.clone()
    }
}

/// PFC on the given priorities, DSCP trusted, two thirds of the bandwidth for RDMA.
fn lossless(pfc: u8) -> Option<DcbFacts> {
    let dcb: DcbFacts = serde_json::from_str(include_str!("data/dcb.json")).ok()?;
    let pfc_enabled = Some(pfc);
    Some(DcbFacts { pfc_enabled, ..dcb })
}

impl Machine {
    /// The node that this machine is.
    fn node(&self) -> NodeFiles {
        let mut spec = self.host.clone();
        spec.iommu = spec.iommu.filter(|kind| !kind.is_empty());
        for path in &self.bridges {
            // A bridge is what is above something: anything will do.
            let _ = place(&mut spec, &format!("{path}/00:00.0"));
        }
        (self.gpus.iter()).for_each(|group| self.add_gpus(&mut spec, group));
        (self.nics.iter()).for_each(|group| self.add_nics(&mut spec, group));
        let modules = (self.modules.iter()).filter_map(|name| CATALOGUE.modules.get(name));
        spec.modules.extend(modules.flatten().cloned());
        spec.nvidia.clone_from(&self.nvidia);
        if spec.has_module("nvidia_peermem") {
            spec.memory_peers = Some(vec!["nv_mem".into()]);
        }
        spec.nvidia_fs = spec.has_module("nvidia_fs").then_some(0);
        (self.down.iter()).for_each(|name| set_link_down(&mut spec, name, true));
        (self.uncabled.iter()).for_each(|name| set_link_down(&mut spec, name, false));
        for name in &self.restricted {
            let port = spec.port_mut(name).and_then(|port| port.pma.as_mut());
            for attr in port.into_iter().flat_map(BTreeMap::values_mut) {
                *attr = SysfsValue::Errno(nix::libc::EINVAL);
            }
        }
        spec
    }

    fn add_pci(&self, spec: &mut NodeFiles, mut pci: PciSpec) {
        let domain = format!("{:04x}", pci.bdf.domain);
        let root = self.root.as_ref().filter(|_| pci.parent.is_none());
        pci.root = root.map(|root| root.replace("{domain}", &domain));
        spec.pci.insert(pci.bdf.to_string(), pci);
    }

    fn add_gpus(&self, spec: &mut NodeFiles, group: &GpuGroup) {
        let Some(gpu) = CATALOGUE.gpus.get(&group.gpu) else {
            return;
        };
        for place in places(spec, &group.at) {
            let mut pci = function(&place, &gpu.pci);
            // A guest sees functions without bridges, and without AER.
            pci.aer = pci.aer.filter(|_| place.parent.is_some());
            self.add_pci(spec, pci);
            let n = spec.gpus.len();
            if gpu.pci.vendor == NVIDIA {
                spec.gpus.push(GpuSpec {
                    bdf: place.bdf,
                    model: gpu.model.clone(),
                    uuid: format!("GPU-5f3c{n:04x}-2a78-d767-1f0d-7512eb8c{:04x}", 0x552d + n),
                });
            }
        }
    }

    fn add_nics(&self, spec: &mut NodeFiles, group: &NicGroup) {
        let Some(nic) = CATALOGUE.nics.get(&group.nic) else {
            if !group.netdev.is_empty() {
                add_netdev(spec, group, &group.netdev, None, group.rate.as_deref());
            }
            return;
        };
        for (i, place) in places(spec, &group.at).into_iter().enumerate() {
            let mut pci = function(&place, &nic.pci);
            if pci.class == 0 {
                // Ethernet or, in the subclass, InfiniBand.
                pci.class = 0x02_0000 + 0x0700 * u32::from(group.infiniband);
            }
            if group.driver.is_some() {
                pci.driver.clone_from(&group.driver);
            }
            pci.physfn = group.pf;
            self.add_pci(spec, pci);
            if let Some(pf) = group.pf {
                add_to_physical(spec, pf, place.bdf, group.link);
            }
            let name = |template: &str| {
                template
                    .replace("{n}", &spec.rdma.len().to_string())
                    .replace("{i}", &(group.from + i).to_string())
                    .replace("{domain}", &place.bdf.domain.to_string())
                    .replace("{bus}", &place.bdf.bus.to_string())
                    .replace("{function}", &place.bdf.function.to_string())
            };
            let (device, netdev) = (name(&group.device), name(&group.netdev));
            add_functions(spec, nic, group, place.bdf, (&device, &netdev));
        }
    }
}

/// A virtual function as its physical one shows it.
fn add_to_physical(spec: &mut NodeFiles, pf: Bdf, at: Bdf, link: Option<VfLink>) {
    let Some(pci) = spec.pci.get_mut(&pf.to_string()) else {
        return;
    };
    let (_, functions) = pci.sriov.get_or_insert((16, Vec::new()));
    let number = functions.len() as u32;
    functions.push(at);
    let mut netdevs = spec.netdevs.iter_mut();
    if let (Some(state), Some(netdev)) = (link, netdevs.find(|netdev| netdev.pci == Some(pf))) {
        let links = netdev.vf_links.get_or_insert_default();
        links.states.insert(number, state);
    }
}

/// The RDMA device and the interface of a function.
fn add_functions(
    spec: &mut NodeFiles,
    nic: &NicModel,
    group: &NicGroup,
    pci: Bdf,
    (device, netdev): (&str, &str),
) {
    let rate = group.rate.as_ref().unwrap_or(&nic.rate).as_str();
    let seed = spec.rdma.len() as u64 + 1;
    let layer = match group.infiniband {
        true => "infiniband",
        false => "ethernet",
    };
    let kind = CATALOGUE.ports.get(&format!("{}_{layer}", nic.kind));
    let kind = kind.filter(|_| !device.is_empty());
    if let Some(kind) = kind {
        let port = port(kind, group, rate, seed, netdev);
        let second = group.second_port.clone().map(|netdev| PortSpec {
            number: 2,
            lid: port.lid + 1,
            pma: table(&kind.pma, 2),
            netdev: Some(netdev),
            ..port.clone()
        });
        let guid = guid(kind, seed);
        spec.rdma.push(RdmaSpec {
            name: device.into(),
            pci,
            node_type: kind.node_type,
            guid,
            image_guid: if kind.has_netdev() { guid } else { 0 },
            uverbs: seed as u32 - 1,
            ports: [port].into_iter().chain(second).collect(),
            device_hw: table(&kind.device_hw, seed),
            ..nic.rdma.clone()
        });
    }
    if !netdev.is_empty() {
        add_netdev(spec, group, netdev, Some(pci), Some(rate));
        if let (Some(kind), Some(netdev)) = (kind, spec.netdevs.last_mut()) {
            // PFC is on for priority 3 unless the rail is lossy.
            let pfc = if group.lossy { 0 } else { 1 << 3 };
            netdev.dcb = lossless(pfc).filter(|_| kind.dcb);
            let statistics = kind.ethtool.as_ref();
            netdev.ethtool =
                statistics.map(|(driver, table)| (driver.clone(), ethtool(table, seed, pfc)));
        }
    }
    if let Some(second) = &group.second_port {
        add_netdev(spec, group, second, Some(pci), Some(rate));
        if let Some(netdev) = spec.netdevs.last_mut() {
            netdev.dev_port = 1;
        }
    }
}

/// Counters of these tables, where the driver has any.
fn table(tables: &Option<Vec<String>>, seed: u64) -> Option<SysfsValues> {
    Some(counters(tables.as_ref()?, seed))
}

impl PortKind {
    /// Whether a port belongs to an interface: EFA's do not.
    fn has_netdev(&self) -> bool {
        self.port.link_layer != "Unknown"
    }
}

fn guid(kind: &PortKind, seed: u64) -> u64 {
    match kind.has_netdev() {
        false => 0x0627_0aff_fe00_0000 + seed,
        true => 0xa088_c203_0040_0000 + (seed << 8),
    }
}

fn add_netdev(
    spec: &mut NodeFiles,
    group: &NicGroup,
    name: &str,
    pci: Option<Bdf>,
    rate: Option<&str>,
) {
    let gbps = rate.and_then(|rate| rate.split(' ').next()?.parse::<u64>().ok());
    let has_device = |bdf| spec.rdma.iter().any(|device| device.pci == bdf);
    let roce = !group.device.is_empty() || pci.is_some_and(has_device);
    spec.netdevs.push(NetdevSpec {
        name: name.into(),
        pci,
        ifindex: spec.netdevs.len() as u32 + 2,
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
        ..NetdevSpec::default()
    });
}

fn port(kind: &PortKind, group: &NicGroup, rate: &str, seed: u64, netdev: &str) -> PortSpec {
    // In LAG the device belongs to the bond.
    let bond = group.master.as_ref();
    let bond = bond.filter(|name| name.starts_with("bond"));
    let owner = bond.cloned().unwrap_or_else(|| netdev.to_string());
    let guid = guid(kind, seed);
    let address = format!("0a{:02x}:{:02x}0a", seed >> 8, seed & 0xff);
    let gids = kind.gids.iter().map(|(gid, of_type)| GidSpec {
        gid: gid
            .replace("{guid}", &groups(guid))
            .replace("{eui}", &groups(guid | 0x0000_00ff_fe00_0000))
            .replace("{seed}", &format!("{seed:04x}"))
            .replace("{address}", &address),
        kind: of_type.clone(),
        netdev: (kind.port.link_layer == "Ethernet").then(|| owner.clone()),
    });
    PortSpec {
        number: 1,
        state: 4,
        phys: 5,
        rate: rate.into(),
        lid: u32::from(group.infiniband) * (0x100 + seed as u32),
        sm_lid: u32::from(group.infiniband),
        pma: table(&kind.pma, seed),
        hw: table(&kind.hw, seed),
        gids: gids.collect(),
        netdev: kind.has_netdev().then_some(owner),
        ..kind.port.clone()
    }
}

/// A link that lost its partner after boot; or one that was never `cabled`, where nothing was counted but
/// `lifespan`, which is a setting.
fn set_link_down(spec: &mut NodeFiles, device: &str, cabled: bool) {
    let Some(port) = spec.port_mut(device) else {
        return;
    };
    set_link(port, false);
    let groups = [&mut port.pma, &mut port.hw].into_iter().flatten();
    let attrs = groups.flatten();
    for (_, attr) in attrs.filter(|(name, _)| !cabled && *name != "lifespan") {
        if let SysfsValue::Number(value) = attr {
            *value = 0;
        }
    }
    let netdev = port.netdev.clone().unwrap_or_default();
    if let Some(netdev) = spec.netdev_mut(&netdev) {
        netdev.carrier = false;
        netdev.carrier_changes = match cabled {
            true => netdev.carrier_changes + 1,
            false => 1,
        };
    }
}
