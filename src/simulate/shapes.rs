//! A machine of every known shape (`check::profile::SHAPES`): number and rate of its rails, and its
//! GPUs, come from there; what the rails are made of and what stands beside them from `table.rs`.

mod parts;
mod places;
mod table;

use super::build::{Mlx5, bdf, function, lossless};
use super::presets::never_cabled;
use super::presets_cloud as cloud;
use super::presets_gcp as gcp;
use super::spec::NodeSpec;
use super::{PRESETS, about, names, preset};
use crate::check::profile::{Provider, Shape, by_type};
use crate::units::Bdf;
use parts::{Driver, Nic, Use, rate};
use table::{Body, Machine, in_order, machine_of};

/// Instance types (of DGX, the product) of which there is a machine: one for each known shape, in
/// the order of the table of shapes.
pub fn shape_names() -> Vec<&'static str> {
    in_order().map(|(_, machine)| machine.name).collect()
}

/// What a shape is, in a few words.
pub fn about_shape(shape: &Shape) -> String {
    let gpus = machine_of(shape).map_or(shape.gpus, |machine| machine.gpus.max(shape.gpus));
    let model = machine_of(shape).map_or("", |machine| machine.gpu.model);
    match shape.rails.0 {
        0 => format!("{}: {gpus} × {model}, no fabric", shape.name),
        rails => format!(
            "{}: {gpus} × {model}, {} of {} Gb/s",
            shape.name,
            shape.fabric.so_many(rails as usize),
            gbps(shape)
        ),
    }
}

/// All that can be simulated, a line each: presets, then shapes.
pub fn listing() -> String {
    let presets = PRESETS
        .iter()
        .map(|name| format!("{name:<15}{}\n", about(name)));
    let shapes =
        in_order().map(|(shape, machine)| format!("{:<32}{}\n", machine.name, about_shape(shape)));
    let shapes: String = shapes.collect();
    format!(
        "{}\nEvery known shape:\n{shapes}",
        presets.collect::<String>()
    )
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
    };
    let mut spec = match shape.provider {
        Provider::Aws => build.ec2()?,
        Provider::Azure => build.azure(),
        Provider::Gcp => build.gce(),
        Provider::Oci | Provider::Nvidia => build.bare(),
    };
    if machine.gpu.grace {
        spec.arch = "aarch64".into();
        spec.kernel = "6.8.0-1024-nvidia-64k".into();
        // On Grace translation is how the SMMU is meant to run.
        spec.iommu = spec.iommu.map(|_| "DMA".into());
    }
    Some(spec)
}

/// Gb/s of a rail: what the table of shapes says, else what is assumed.
fn gbps(shape: &Shape) -> u32 {
    match shape.gbps.0 {
        0 => machine_of(shape).map_or(0, |machine| machine.assumed),
        told => told,
    }
}

struct Build<'a> {
    machine: &'a Machine,
    shape: &'a Shape,
    rails: u32,
    gpus: u32,
}

/// One RDMA device to be.
struct Device {
    number: u32,
    model: Mlx5,
    place: places::Place,
    netdev: String,
    infiniband: bool,
    place_is: Option<Use>,
}

impl Build<'_> {
    fn gpu_id(&self) -> (u16, u16) {
        self.machine.gpu.id
    }

    fn at(&self, model: Mlx5, gbps: u32) -> Mlx5 {
        Mlx5 {
            rate: rate(gbps, false),
            speed: u64::from(gbps) * 1000,
            ..model
        }
    }

    /// The rails' make, where they are mlx5 functions or like them.
    fn rail_model(&self) -> Option<Mlx5> {
        match self.machine.nic {
            Nic::Mlx5(model) | Nic::Ionic(model) => Some(self.at(model, gbps(self.shape))),
            _ => None,
        }
    }

    fn host_name(&self) -> String {
        let word = self.machine.name.to_ascii_lowercase();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        word.chars().map(plain).chain("-1".chars()).collect()
    }

    fn drivers(&self, spec: &mut NodeSpec) {
        match self.machine.gpu.driver {
            Driver::Open(version) => spec.add_nvidia(version, true, false, false),
            Driver::Proprietary(version) => {
                // EFA's driver has a provider of its own.
                let peermem = self.shape.provider != Provider::Aws;
                spec.add_nvidia(version, false, peermem, false);
            }
            Driver::Amdgpu => {
                spec.add_module("amdgpu", Some("6.10.5"), "OE");
                // The NVIDIA driver's list is all that the simulated files have of GPUs.
                spec.gpus.clear();
            }
        }
    }

    fn gpu_driver(&self) -> &'static str {
        match self.machine.gpu.driver {
            Driver::Amdgpu => "amdgpu",
            _ => "nvidia",
        }
    }

    /// The default route goes by an ENA function, which is no RDMA device.
    fn ec2(&self) -> Option<NodeSpec> {
        let (Nic::Efa(device), Body::Switches(switches)) = (self.machine.nic, self.machine.body)
        else {
            return None;
        };
        let mut spec = cloud::efa(&cloud::Efa {
            product: self.machine.name,
            device,
            switches,
            functions: self.rails as u8,
            gpus: (self.gpus / u32::from(switches)) as u8,
            rate: rate(gbps(self.shape), true),
            gpu: (self.gpu_id().1, self.machine.gpu.model),
        });
        spec.hostname = self.host_name();
        // Each GPU with a driver of its time.
        let replaced = ["nvidia", "gdrdrv", "ixgbe"];
        spec.modules
            .retain(|module| !replaced.contains(&module.name.as_str()));
        self.drivers(&mut spec);
        spec.pci.remove("0000:0b:00.0");
        spec.netdevs.clear();
        let ena = bdf(0, 0, 5, 0);
        let mut pci = function(ena, None, (0x1d0f, 0xec20), 0x02_0000, "ena", 0);
        pci.aer = None;
        spec.add_pci(pci);
        spec.add_netdev("ens5", Some(ena), 100_000, 9001);
        spec.default_route = Some("ens5".into());
        spec.add_module("ena", Some("2.13.0g"), "OE");
        Some(spec)
    }

    fn azure(&self) -> NodeSpec {
        let mut spec = cloud::azure(&self.host_name());
        let numa = |n: u32| i32::from(n * 2 >= self.gpus);
        for n in 0..self.gpus {
            let gpu = &self.machine.gpu;
            let at = bdf(n + 1, 0, 0, 0);
            let pci = cloud::vmbus_function(at, gpu.id, gpu.class, self.gpu_driver(), numa(n));
            spec.add_gpu(pci, gpu.model);
        }
        for n in 0..self.rails {
            if let Some(model) = self.rail_model() {
                cloud::azure_rail(&mut spec, n, model, numa(n));
            }
        }
        if self.machine.accelerated {
            cloud::accelerated(&mut spec);
        }
        spec.add_module("hv_netvsc", None, "");
        if !spec.rdma.is_empty() {
            spec.add_rdma_modules(&["mlx5_core", "mlx5_ib"], Some("24.10-0.7.0"));
        }
        self.drivers(&mut spec);
        spec
    }

    /// gVNICs carry the node's own traffic; on the bare machine it is an IDPF function.
    fn gce(&self) -> NodeSpec {
        let mut spec = gcp::machine(&self.host_name());
        if self.machine.body == Body::Grace {
            spec.modules.clear();
            let idpf = bdf(0x7, 1, 0, 0);
            let pci = function(idpf, None, (0x8086, 0x1452), 0x02_0000, "idpf", 0);
            spec.add_pci(pci);
            spec.add_netdev("eth0", Some(idpf), 200_000, 8896);
            spec.add_module("idpf", None, "");
            spec.hypervisor = false;
            spec.iommu = Some("DMA".into());
            spec.dmi.1 = self.machine.name.into();
            self.bare_parts(&mut spec);
            return spec;
        }
        gcp::add_gvnic(&mut spec, bdf(0, 0, 12, 0), "eth0", 200_000);
        self.gpus(&mut spec);
        if let Some(model) = self.rail_model() {
            gcp::add_gvnic(&mut spec, bdf(0, 0, 13, 0), "eth1", 200_000);
            for n in 0..self.rails {
                gcp::rdma_function(&mut spec, n as u8, model);
            }
            spec.add_rdma_modules(&["mlx5_core", "mlx5_ib"], None);
        } else {
            for n in 0..self.rails as u8 {
                let speed = u64::from(gbps(self.shape)) * 1000;
                let netdev = format!("eth{}", n + 1);
                gcp::add_gvnic(&mut spec, bdf(0, 0x80 + n, 0, 0), &netdev, speed);
            }
        }
        self.drivers(&mut spec);
        spec
    }

    /// OCI's machines and DGX systems, without a hypervisor.
    fn bare(&self) -> NodeSpec {
        let mut spec = NodeSpec::server(&self.host_name());
        if self.shape.provider == Provider::Oci {
            spec.dmi = ("Oracle Corporation".into(), "ORACLE SERVER".into());
            spec.asset_tag = Some("OracleCloud.com".into());
            // No NIC but the cards below.
            spec.pci.remove("0000:0b:00.0");
            spec.netdevs.clear();
            spec.default_route = Some("eth0".into());
        } else {
            spec.dmi = ("NVIDIA".into(), self.machine.name.into());
        }
        self.bare_parts(&mut spec);
        spec
    }

    fn gpus(&self, spec: &mut NodeSpec) {
        let gpu = &self.machine.gpu;
        for n in 0..self.gpus {
            if let Some(place) = places::gpu(spec, self.machine.body, n, self.gpus) {
                let mut pci = place.function(gpu.id, gpu.class, self.gpu_driver());
                if self.machine.body == Body::Guest {
                    pci.aer = None;
                }
                spec.add_gpu(pci, gpu.model);
            }
        }
    }

    fn bare_parts(&self, spec: &mut NodeSpec) {
        self.gpus(spec);
        let mut devices = self.rail_devices(spec);
        devices.extend(self.other_devices(spec));
        // The kernel numbers devices as it finds them.
        devices.sort_by_key(|device| device.number);
        for device in devices {
            self.add(spec, device);
        }
        spec.add_rdma_modules(&["mlx5_core", "mlx5_ib"], Some("24.10-1.1.4"));
        self.drivers(spec);
    }

    fn rail_devices(&self, spec: &mut NodeSpec) -> Vec<Device> {
        let Some(model) = self.rail_model() else {
            return Vec::new();
        };
        let told = self.machine.rails.iter().cloned().flatten();
        let others = self.machine.others.iter().map(|other| other.number);
        let last = told.clone().chain(others).max().map_or(0, |last| last + 1);
        let infiniband = self.shape.provider == Provider::Nvidia;
        let usual = self.shape.rails.0;
        // A DGX has a card for each rail, others two ports a card.
        let ports = if infiniband { 1 } else { 2 };
        (0..self.rails)
            .zip(told.chain(last..))
            .filter_map(|(n, number)| {
                let place = places::rail(spec, self.machine.body, n, (usual, ports))?;
                let netdev = match infiniband {
                    true => infiniband_name(place.at),
                    false => format!("rdma{n}"),
                };
                Some(Device {
                    number,
                    model,
                    place,
                    netdev,
                    infiniband,
                    place_is: None,
                })
            })
            .collect()
    }

    fn other_devices(&self, spec: &mut NodeSpec) -> Vec<Device> {
        let others = self.machine.others.iter().enumerate();
        others
            .filter_map(|(n, other)| {
                let place = places::other(spec, self.machine.body, n)?;
                Some(Device {
                    number: other.number,
                    model: self.at(other.nic, other.gbps),
                    place,
                    netdev: format!("eth{n}"),
                    // Beside InfiniBand rails the same cards lead to InfiniBand storage.
                    infiniband: other.place != Use::Front
                        && self.shape.provider == Provider::Nvidia,
                    place_is: Some(other.place),
                })
            })
            .collect()
    }

    fn add(&self, spec: &mut NodeSpec, device: Device) {
        let Device {
            model,
            place,
            infiniband,
            ..
        } = device;
        if matches!(self.machine.nic, Nic::Ionic(_)) && device.place_is.is_none() {
            return add_ionic(spec, &device);
        }
        let name = format!("mlx5_{}", device.number);
        let class = if infiniband { 0x02_0700 } else { 0x02_0000 };
        spec.add_pci(place.function((0x15b3, model.device), class, "mlx5_core"));
        let netdev = match infiniband && device.place_is.is_some() {
            true => infiniband_name(place.at),
            false => device.netdev,
        };
        if infiniband {
            spec.add_ib(&name, place.at, model, &netdev);
        } else {
            spec.add_roce(&name, place.at, model, &netdev, false);
            // Clouds' fabrics are lossy: no PFC.
            let seed = spec.rdma.len() as u64;
            if let Some(netdev) = spec.netdev_mut(&netdev) {
                netdev.mtu = 4220;
                netdev.ethtool = Some(("mlx5_core".into(), names::mlx5_ethtool(seed, 0, false)));
                netdev.dcb = Some(lossless(0));
            }
        }
        if device.place_is == Some(Use::Uncabled) {
            never_cabled(spec, &name, &netdev);
            if let Some(port) = spec.port_mut(&name, 1).filter(|_| !infiniband) {
                // RoCE without carrier says Disabled.
                port.phys = 3;
            }
        }
    }
}

/// As udev names an interface by its place.
fn infiniband_name(at: Bdf) -> String {
    match at.domain {
        0 => format!("ibp{}s0f{}", at.bus, at.function),
        domain => format!("ibP{domain}p{}s0f{}", at.bus, at.function),
    }
}

/// A rail of AMD's Pensando: mlx5's counters and names of boards are not there.
fn add_ionic(spec: &mut NodeSpec, device: &Device) {
    let (place, netdev) = (device.place, device.netdev.as_str());
    let name = format!("ionic_{}", device.number);
    spec.add_pci(place.function((0x1dd8, device.model.device), 0x02_0000, "ionic"));
    spec.add_roce(&name, place.at, device.model, netdev, false);
    if let Some(rdma) = spec.rdma.iter_mut().find(|rdma| rdma.name == name) {
        (rdma.hca_type, rdma.board_id) = (None, None);
        for port in &mut rdma.ports {
            (port.pma, port.hw, port.down_rate) = (None, None, None);
        }
    }
    if let Some(netdev) = spec.netdev_mut(netdev) {
        netdev.mtu = 4220;
        netdev.ethtool = None;
        netdev.dcb = Some(lossless(0));
    }
    if !spec.modules.iter().any(|module| module.name == "ionic") {
        spec.add_module("ionic", None, "");
        spec.add_module("ionic_rdma", None, "");
    }
}

#[cfg(test)]
#[path = "shapes/tests.rs"]
mod tests;
