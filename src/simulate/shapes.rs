//! A machine of every known shape (`check::profile::SHAPES`): number and rate of its rails come from
//! there, what they are made of from `data/shapes.toml`, and where they are attached from here.

use super::machines::{CATALOGUE, Gpu, GpuGroup, Machine, Nic, NicGroup, about, preset, presets};
use super::spec::{ModuleSpec, NodeSpec};
use crate::check::profile::{Provider, SHAPES, Shape, by_type};
use serde::Deserialize;
use std::sync::LazyLock;

/// How GPUs and NICs are attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Layout {
    /// PCIe switches, with GPUs and rails spread among them.
    Switches,
    /// A guest that sees functions without bridges.
    Guest,
    /// Each function below a root port of its own, GPUs and NICs in different domains.
    Grace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    /// The tenant's network; the first such port carries the default route.
    Front,
    /// InfiniBand to storage.
    Storage,
    /// A second port without a cable.
    Uncabled,
}

/// A port that is not a rail.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherPort {
    number: u32,
    nic: String,
    gbps: u32,
    role: Role,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeMachine {
    name: String,
    layout: Layout,
    #[serde(default)]
    switches: u8,
    gpu: String,
    #[serde(default)]
    nic: String,
    /// Gb/s where the table of shapes does not know it.
    #[serde(default)]
    assumed_gbps: u32,
    /// GPUs, where the table of shapes leaves it to the size.
    #[serde(default)]
    gpus: u32,
    /// First and last numbers of the rails' devices.
    #[serde(default)]
    numbers: Vec<(u32, u32)>,
    #[serde(default)]
    others: Vec<OtherPort>,
    #[serde(default)]
    accelerated_networking: bool,
}

#[derive(Deserialize)]
struct File {
    machines: Vec<ShapeMachine>,
}

static MACHINES: LazyLock<Vec<ShapeMachine>> = LazyLock::new(|| {
    let file: File = super::embedded(include_str!("data/shapes.toml"));
    file.machines
});

/// Bus of the root port above each of eight PCIe switches, and its NUMA node, as on DGX H100.
const SWITCHES: [(u8, i32); 8] = [
    (0x15, 0),
    (0x3d, 0),
    (0x4c, 0),
    (0x5b, 0),
    (0x97, 1),
    (0xbd, 1),
    (0xcb, 1),
    (0xd9, 1),
];
/// Root ports of cards that are not rails, away from the GPUs' switches.
const OTHERS: [(&str, i32); 3] = [("26:01.0/29", 0), ("a7:01.0/aa", 1), ("e8:01.0/eb", 1)];
/// PCI domains of a Grace tray with rails, with GPUs and with other cards.
const GRACE_RAILS: [u32; 4] = [0x0, 0x2, 0x10, 0x12];
const GRACE_GPUS: [u32; 4] = [0x8, 0x9, 0x18, 0x19];
const GRACE_OTHERS: [u32; 3] = [0x6, 0x16, 0x7];

fn machine_of(shape: &Shape) -> Option<&'static ShapeMachine> {
    let is =
        |machine: &&ShapeMachine| by_type(&machine.name).is_some_and(|of| of.name == shape.name);
    MACHINES.iter().find(is)
}

/// Shapes in their order, each with its machine.
fn in_order() -> impl Iterator<Item = (&'static Shape, &'static ShapeMachine)> {
    let all = SHAPES.iter();
    all.filter_map(|shape| Some((shape, machine_of(shape)?)))
}

/// Instance types (for DGX, products) that can be simulated: one for each known shape, in the order of
/// the table of shapes.
pub fn shape_names() -> Vec<&'static str> {
    in_order()
        .map(|(_, machine)| machine.name.as_str())
        .collect()
}

/// A shape's description in a few words.
fn about_shape(shape: &Shape, machine: &ShapeMachine) -> String {
    let gpus = machine.gpus.max(shape.gpus);
    let model = CATALOGUE
        .gpu(&machine.gpu)
        .map_or("", |gpu| gpu.model.as_str());
    match shape.rails.0 {
        0 => format!("{}: {gpus} × {model}, no fabric", shape.name),
        rails => format!(
            "{}: {gpus} × {model}, {} of {} Gb/s",
            shape.name,
            shape.fabric.so_many(rails as usize),
            gbps(shape, machine)
        ),
    }
}

/// Everything that can be simulated, one line each: presets, then shapes.
pub fn listing() -> String {
    let presets = presets().into_iter();
    let mut text: String = presets
        .map(|name| format!("{name:<15}{}\n", about(name)))
        .collect();
    text += "\nEvery known shape:\n";
    for (shape, machine) in in_order() {
        text += &format!("{:<32}{}\n", machine.name, about_shape(shape, machine));
    }
    text
}

/// A node by a preset's name, else by an instance type of a known shape (`p5.48xlarge`,
/// `BM.GPU.B200.8`, `dgxh100`).
pub fn by_name(name: &str) -> Option<NodeSpec> {
    preset(name).or_else(|| spec_of(by_type(name)?))
}

/// A healthy machine of a shape.
pub fn spec_of(shape: &Shape) -> Option<NodeSpec> {
    spec_with_rails(shape, shape.rails.0)
}

/// The same with another number of rails than the shape has.
pub fn spec_with_rails(shape: &Shape, rails: u32) -> Option<NodeSpec> {
    let machine = machine_of(shape)?;
    let build = Build {
        machine,
        shape,
        rails,
        gpus: machine.gpus.max(shape.gpus),
        gpu: CATALOGUE.gpu(&machine.gpu)?,
        nic: CATALOGUE.nic(&machine.nic),
    };
    Some(build.machine()?.node())
}

/// Gb/s of a rail: what the table of shapes says, else what is assumed.
fn gbps(shape: &Shape, machine: &ShapeMachine) -> u32 {
    match shape.gbps.0 {
        0 => machine.assumed_gbps,
        known => known,
    }
}

/// `rate` of a port. EFA's text, as far as documented, names lanes that InfiniBand does not have.
fn rate(gbps: u32, efa: bool) -> &'static str {
    match (gbps, efa) {
        (50, _) => "50 Gb/sec (1X HDR)",
        (100, _) => "100 Gb/sec (4X EDR)",
        (200, _) => "200 Gb/sec (4X HDR)",
        (400, true) => "400 Gb/sec (8X HDR)",
        (400, false) => "400 Gb/sec (4X NDR)",
        _ => "800 Gb/sec (4X XDR)",
    }
}

struct Build<'a> {
    machine: &'a ShapeMachine,
    shape: &'a Shape,
    rails: u32,
    gpus: u32,
    gpu: &'a Gpu,
    nic: Option<&'a Nic>,
}

impl Build<'_> {
    fn machine(&self) -> Option<Machine> {
        let (provider, layout) = (self.shape.provider, self.machine.layout);
        let base = match (provider, layout) {
            (Provider::Aws, _) => "ec2",
            (Provider::Azure, _) => "azure",
            (Provider::Gcp, Layout::Grace) => "gcp_metal",
            (Provider::Gcp, _) => "gcp",
            (Provider::Oci, _) => "oci",
            (Provider::Nvidia, _) => "server",
        };
        let mut machine = CATALOGUE.machine(base)?;
        let name = self.machine.name.as_str();
        let word = name.to_ascii_lowercase();
        machine.host.hostname = word.replace(|c: char| !c.is_ascii_alphanumeric(), "-") + "-1";
        match provider {
            Provider::Nvidia => machine.host.dmi = ("NVIDIA".into(), name.into()),
            Provider::Aws => machine.host.dmi.1 = name.into(),
            Provider::Gcp if layout == Layout::Grace => machine.host.dmi.1 = name.into(),
            _ => {}
        }
        machine.gpus.push(GpuGroup {
            gpu: self.machine.gpu.clone(),
            at: (0..self.gpus).map(|n| self.gpu_place(n)).collect(),
            pcie: match self.gpu.amd && provider == Provider::Azure {
                true => (0, 0),
                false => (5, 16),
            },
        });
        self.add_nics(&mut machine);
        self.add_drivers(&mut machine);
        if self.gpu.grace {
            machine.host.arch = "aarch64".into();
            machine.host.kernel = "6.8.0-1024-nvidia-64k".into();
            // On Grace translation is how the SMMU is meant to run.
            if machine.host.iommu.as_deref() == Some("identity") {
                machine.host.iommu = Some("DMA".into());
            }
        }
        Some(machine)
    }

    fn add_drivers(&self, machine: &mut Machine) {
        let guest = self.machine.layout == Layout::Guest;
        let ofed = match self.shape.provider {
            Provider::Azure => Some("24.10-0.7.0"),
            Provider::Gcp if guest => None,
            _ => Some("24.10-1.1.4"),
        };
        let has_rdma = !guest || machine.nics.iter().any(|group| !group.device.is_empty());
        if machine.rdma.drivers.is_empty() && has_rdma {
            machine.rdma.drivers = vec!["mlx5_core".into(), "mlx5_ib".into()];
            machine.rdma.ofed = ofed.map(str::to_string);
        }
        let module = |name: &str| ModuleSpec {
            name: name.into(),
            ..ModuleSpec::default()
        };
        if self.nic.is_some_and(Nic::is_ionic) {
            machine.modules.extend(["ionic", "ionic_rdma"].map(module));
        }
        if self.gpu.amd {
            let version = Some("6.10.5".into());
            let taint = "OE".into();
            let amdgpu = ModuleSpec {
                version,
                taint,
                ..module("amdgpu")
            };
            machine.last_modules.insert(0, amdgpu);
        } else {
            let mut driver = self.gpu.driver.clone();
            // EFA's driver has a peer-memory provider of its own.
            driver.peermem &= self.shape.provider != Provider::Aws;
            machine.nvidia = Some(driver);
        }
    }

    fn add_nics(&self, machine: &mut Machine) {
        match self.shape.provider {
            Provider::Azure => self.add_azure_nics(machine),
            Provider::Gcp if self.machine.layout == Layout::Guest => self.add_google_nics(machine),
            Provider::Aws => machine.nics.push(NicGroup {
                device: "rdmap{bus}s0".into(),
                ..self.rail_group((0..self.rails).map(|n| self.efa_place(n)).collect())
            }),
            _ => self.add_cards(machine),
        }
    }

    /// Rails of one group.
    fn rail_group(&self, at: Vec<String>) -> NicGroup {
        let efa = self.nic.is_some_and(Nic::is_efa);
        NicGroup {
            nic: self.machine.nic.clone(),
            at,
            rate: Some(rate(gbps(self.shape, self.machine), efa).into()),
            ..NicGroup::default()
        }
    }

    fn add_azure_nics(&self, machine: &mut Machine) {
        if self.nic.is_some() {
            let at = |n: u32| format!("{:04x}:00:00.0@{}", 0x101 + n, self.half(n));
            machine.nics.push(NicGroup {
                device: "mlx5_ib{n}".into(),
                netdev: "ib{n}".into(),
                infiniband: true,
                ..self.rail_group((0..self.rails).map(at).collect())
            });
        }
        if self.machine.accelerated_networking {
            let own = CATALOGUE.machine("accelerated_networking");
            machine
                .nics
                .extend(own.into_iter().flat_map(|own| own.nics));
        }
    }

    fn add_google_nics(&self, machine: &mut Machine) {
        let at = |first: u32| (0..self.rails).map(move |n| format!("{:02x}:00.0", first + n));
        let mtu = |group: NicGroup, mtu| NicGroup {
            mtu: Some(mtu),
            ..group
        };
        if self.nic.is_some_and(Nic::is_gvnic) {
            machine.nics.push(NicGroup {
                netdev: "eth{i}".into(),
                from: 1,
                ..mtu(self.rail_group(at(0x80).collect()), 8244)
            });
        } else {
            machine.nics.push(NicGroup {
                nic: "gvnic".into(),
                at: vec!["00:0d.0".into()],
                netdev: "eth1".into(),
                ..mtu(NicGroup::default(), 8244)
            });
            machine.nics.push(NicGroup {
                device: "mlx5_{n}".into(),
                netdev: "gpu{n}rdma0".into(),
                ..mtu(self.rail_group(at(0x90).collect()), 8896)
            });
        }
    }

    /// Rails and other ports of machines without a hypervisor. The kernel numbers devices as it finds
    /// them.
    fn add_cards(&self, machine: &mut Machine) {
        let nvidia = self.shape.provider == Provider::Nvidia;
        let numbers = self.machine.numbers.iter();
        let numbers = numbers.flat_map(|(first, last)| *first..=*last);
        let others = self.machine.others.iter().map(|other| other.number);
        let further = numbers
            .clone()
            .chain(others)
            .max()
            .map_or(0, |last| last + 1);
        let mut groups = Vec::new();
        for (n, number) in (0..self.rails).zip(numbers.chain(further..)) {
            let driver = match self.nic.is_some_and(Nic::is_ionic) {
                true => "ionic",
                false => "mlx5",
            };
            let netdev = if nvidia {
                String::new()
            } else {
                format!("rdma{n}")
            };
            let group = NicGroup {
                device: format!("{driver}_{number}"),
                netdev,
                ..self.rail_group(vec![self.rail_place(n)])
            };
            groups.push((number, nvidia, group));
        }
        for (n, other) in self.machine.others.iter().enumerate() {
            // Next to InfiniBand rails the same cards lead to InfiniBand storage.
            let infiniband = nvidia && other.role != Role::Front;
            let device = format!("mlx5_{}", other.number);
            if other.role == Role::Uncabled {
                machine.uncabled.push(device.clone());
            }
            let group = NicGroup {
                nic: other.nic.clone(),
                at: vec![self.other_place(n)],
                netdev: format!("eth{n}"),
                rate: Some(rate(other.gbps, false).into()),
                device,
                ..NicGroup::default()
            };
            groups.push((other.number, infiniband, group));
        }
        groups.sort_by_key(|(number, ..)| *number);
        for (_, infiniband, mut group) in groups {
            group.infiniband = infiniband;
            if infiniband {
                // As udev names an interface by its place.
                let grace = self.machine.layout == Layout::Grace;
                let domain = if grace && !group.at.iter().any(|at| at.starts_with("0000:")) {
                    "ibP{domain}p"
                } else {
                    "ibp"
                };
                group.netdev = format!("{domain}{{bus}}s0f{{function}}");
            } else {
                // Clouds' fabrics are lossy: no PFC.
                (group.mtu, group.lossy) = (Some(4220), true);
            }
            machine.nics.push(group);
        }
    }

    /// NUMA node where the first half of the GPUs, and as many NICs, are on node 0.
    fn half(&self, n: u32) -> u32 {
        u32::from(n * 2 >= self.gpus)
    }

    /// Root port and NUMA node of a switch.
    fn switch(&self, n: usize) -> (u8, i32) {
        let every = SWITCHES.len() / usize::from(self.machine.switches.max(1));
        SWITCHES.get(n * every).copied().unwrap_or_default()
    }

    fn gpu_place(&self, n: u32) -> String {
        match (self.shape.provider, self.machine.layout) {
            (Provider::Aws, _) => self.efa_gpu_place(n),
            (Provider::Azure, _) => format!("{:04x}:00:00.0@{}", n + 1, self.half(n)),
            (_, Layout::Guest) => format!("{:02x}:00.0", 4 + n),
            (_, Layout::Grace) => grace_place(&GRACE_GPUS, n as usize, 0, "01:00.0"),
            (_, Layout::Switches) => {
                let each = (self.gpus / u32::from(self.machine.switches)).max(1);
                let ((bus, numa), k) = (self.switch((n / each) as usize), (n % each) as u8);
                below_switch(bus, 8 + k, bus + 6 + k, 0, numa)
            }
        }
    }

    /// Rail `n`: on which switch or domain, which card there, which of its ports. A DGX has a card for
    /// each rail, other machines two ports a card; rails beyond the usual number are further cards.
    fn rail_place(&self, n: u32) -> String {
        let usual = self.shape.rails.0;
        let ports = if self.shape.provider == Provider::Nvidia {
            1
        } else {
            2
        };
        let grace = self.machine.layout == Layout::Grace;
        let slots = if grace {
            4
        } else {
            u32::from(self.machine.switches)
        };
        let each = (usual / slots.max(1)).max(1);
        let (slot, card, port) = match n.checked_sub(usual) {
            None => (n / each, n % each / ports, n % each % ports),
            Some(more) => (more % slots, each.div_ceil(ports) + more / slots, 0),
        };
        if grace {
            let tail = format!("03:00.{port}");
            return grace_place(&GRACE_RAILS, slot as usize, 0x20 * card, &tail);
        }
        let (bus, numa) = self.switch(slot as usize);
        below_switch(bus, card as u8, bus + 3 + card as u8, port, numa)
    }

    /// Other ports: two to a card.
    fn other_place(&self, n: usize) -> String {
        let port = n % 2;
        if self.machine.layout == Layout::Grace {
            return grace_place(&GRACE_OTHERS, n / 2, 0, &format!("03:00.{port}"));
        }
        let (card, numa) = OTHERS.get(n / 2).copied().unwrap_or_default();
        format!("{card}:00.{port}@{numa}")
    }

    /// Amazon's switches: EFA functions first, then GPUs.
    fn efa_switch(&self, group: u32) -> (u32, u32, u32) {
        let switches = u32::from(self.machine.switches);
        let functions = self.rails / switches + u32::from(group < self.rails % switches);
        (0x4f + group * 0x11, group / switches.div_ceil(2), functions)
    }

    fn efa_place(&self, n: u32) -> String {
        let (mut group, mut k) = (0, n);
        while k >= self.efa_switch(group).2 && group < u32::from(self.machine.switches) {
            k -= self.efa_switch(group).2;
            group += 1;
        }
        self.efa_port(group, k)
    }

    fn efa_gpu_place(&self, n: u32) -> String {
        let each = (self.gpus / u32::from(self.machine.switches)).max(1);
        let group = n / each;
        self.efa_port(group, self.efa_switch(group).2.max(4) + n % each)
    }

    fn efa_port(&self, group: u32, k: u32) -> String {
        let (bus, numa, _) = self.efa_switch(group);
        let (root, up, down) = (bus - 0x0b, bus - 0x0a, bus - 0x09);
        format!(
            "{root:02x}:01.0/{up:02x}:00.0/{down:02x}:{k:02x}.0/{:02x}:00.0@{numa}",
            bus + k
        )
    }
}

fn below_switch(root: u8, slot: u8, bus: u8, function: u32, numa: i32) -> String {
    let (up, down) = (root + 1, root + 2);
    format!("{root:02x}:01.0/{up:02x}:00.0/{down:02x}:{slot:02x}.0/{bus:02x}:00.{function}@{numa}")
}

fn grace_place(domains: &[u32], n: usize, more: u32, tail: &str) -> String {
    let domain = domains.get(n).copied().unwrap_or_default() + more;
    let numa = u32::from(domain & 0x10 != 0);
    format!("{domain:04x}:00:00.0/{domain:04x}:{tail}@{numa}")
}

#[cfg(test)]
mod tests;
