//! Parts from which presets are put together.

use super::names;
use super::spec::*;
use crate::observe::netdev::{DcbFacts, Trust};
use crate::units::Bdf;
use std::collections::BTreeMap;

/// Speed text of a PCIe generation.
pub(super) fn gts(generation: u32) -> String {
    let speed = match generation {
        3 => "8.0",
        4 => "16.0",
        5 => "32.0",
        6 => "64.0",
        _ => return "Unknown".into(),
    };
    format!("{speed} GT/s PCIe")
}

/// `dddd:bb:dd.f` from numbers.
pub(super) fn bdf(domain: u32, bus: u8, device: u8, function: u8) -> Bdf {
    Bdf {
        domain,
        bus,
        device,
        function,
    }
}

/// A function with a Gen5 x16 link.
pub(super) fn function(
    bdf: Bdf,
    parent: Option<Bdf>,
    id: (u16, u16),
    class: u32,
    driver: &str,
    numa: i32,
) -> PciSpec {
    PciSpec {
        bdf,
        parent,
        root: None,
        vendor: id.0,
        device: id.1,
        class,
        driver: Some(driver.to_string()),
        numa,
        link: (gts(5), 16),
        max_link: (gts(5), 16),
        aer: Some([0; 3]),
        acs: false,
        dead: false,
        physfn: None,
        sriov: None,
        p2p: None,
    }
}

/// A root or switch port.
pub(super) fn bridge(bdf: Bdf, parent: Option<Bdf>, numa: i32) -> PciSpec {
    let id = if parent.is_none() {
        (0x8086, 0x352a)
    } else {
        (0x1000, 0xc030)
    };
    function(bdf, parent, id, 0x06_0400, "pcieport", numa)
}

impl NodeSpec {
    /// A healthy x86 server without fabric or GPUs, with one Ethernet port for the default route.
    pub(super) fn server(hostname: &str) -> Self {
        let mut spec = NodeSpec {
            hostname: hostname.into(),
            boot_id: "3c9f1f0e-5d5b-4c8e-9b1a-6d2f7a3e4b10".into(),
            kernel: "6.8.0-52-generic".into(),
            arch: "x86_64".into(),
            cmdline: "BOOT_IMAGE=/boot/vmlinuz-6.8.0-52-generic root=UUID=0b6c ro iommu=pt quiet"
                .into(),
            dmi: ("Supermicro".into(), "SYS-420GP-TNR".into()),
            asset_tag: None,
            hypervisor: false,
            iommu: Some("identity".into()),
            pci: BTreeMap::new(),
            rdma: Vec::new(),
            netdevs: Vec::new(),
            default_route: None,
            gpus: Vec::new(),
            nvidia: None,
            modules: Vec::new(),
            memory_peers: None,
            nvidia_fs: None,
            kmsg: Vec::new(),
            pods: Vec::new(),
            processes: Vec::new(),
        };
        spec.boot_log("Linux version 6.8.0-52-generic");
        let root = bdf(0, 0x08, 0x01, 0);
        let nic = bdf(0, 0x0b, 0, 0);
        spec.add_pci(bridge(root, None, 0));
        let mut port = function(nic, Some(root), (0x8086, 0x1563), 0x02_0000, "ixgbe", 0);
        port.link = (gts(3), 4);
        port.max_link = (gts(3), 4);
        spec.add_pci(port);
        spec.add_netdev("eno1", Some(nic), 10_000, 1500);
        spec.default_route = Some("eno1".into());
        spec.add_module("ixgbe", None, "");
        spec
    }

    pub(super) fn boot_log(&mut self, text: &str) {
        let sequence = self.kmsg.len() as u64;
        self.kmsg.push(KmsgRecord {
            priority: 6,
            sequence,
            micros: sequence * 250_000,
            text: text.into(),
            dictionary: Vec::new(),
        });
    }

    pub(super) fn add_pci(&mut self, pci: PciSpec) {
        self.pci.insert(pci.bdf.to_string(), pci);
    }

    pub(super) fn add_module(&mut self, name: &str, version: Option<&str>, taint: &str) {
        self.modules.push(ModuleSpec {
            name: name.into(),
            version: version.map(str::to_string),
            taint: taint.into(),
        });
    }

    /// Modules of an mlx5 fabric; with DOCA-OFED's version files where `ofed` is given.
    pub(super) fn add_rdma_modules(&mut self, drivers: &[&str], ofed: Option<&str>) {
        let taint = if ofed.is_some() { "OE" } else { "" };
        for name in ["ib_core", "ib_uverbs"].iter().chain(drivers) {
            self.add_module(name, ofed, taint);
        }
    }

    /// The NVIDIA driver with the companions of a GPUDirect node.
    pub(super) fn add_nvidia(&mut self, version: &str, open: bool, peermem: bool, gds: bool) {
        let taint = if open { "OE" } else { "POE" };
        self.nvidia = Some(NvidiaSpec {
            version: version.into(),
            open,
        });
        self.add_module("nvidia", Some(version), taint);
        self.add_module("gdrdrv", Some("2.4.4"), "OE");
        if peermem {
            self.add_module("nvidia_peermem", Some(version), taint);
            self.memory_peers = Some(vec!["nv_mem".into()]);
        }
        if gds {
            self.add_module("nvidia_fs", Some("2.25.7"), "OE");
            self.nvidia_fs = Some(0);
        }
    }

    pub(super) fn add_gpu(&mut self, pci: PciSpec, model: &str) {
        let number = self.gpus.len() as u64;
        self.gpus.push(GpuSpec {
            bdf: pci.bdf,
            model: model.into(),
            uuid: format!(
                "GPU-5f3c{number:04x}-2a78-d767-1f0d-7512eb8c{:04x}",
                0x552d + number
            ),
        });
        self.add_pci(pci);
    }

    pub(super) fn add_netdev(&mut self, name: &str, pci: Option<Bdf>, speed: u64, mtu: u32) {
        self.netdevs.push(NetdevSpec {
            name: name.into(),
            pci,
            ifindex: self.netdevs.len() as u32 + 2,
            dev_port: 0,
            kind: 1,
            admin_up: true,
            carrier: true,
            speed,
            mtu,
            carrier_changes: 3,
            master: None,
            ethtool: None,
            dcb: None,
            vf_links: None,
        });
    }

    /// An mlx5 InfiniBand device with its IPoIB interface.
    pub(super) fn add_ib(&mut self, name: &str, nic: Bdf, model: Mlx5, netdev: &str) {
        let seed = self.rdma.len() as u64 + 1;
        let guid = 0xa088_c203_0040_0000 + (seed << 8);
        self.rdma.push(RdmaSpec {
            name: name.into(),
            pci: nic,
            node_type: 1,
            firmware: model.firmware.into(),
            hca_type: Some(model.hca_type.into()),
            board_id: Some(model.board_id.into()),
            guid,
            image_guid: guid,
            uverbs: seed as u32 - 1,
            ports: vec![PortSpec {
                number: 1,
                link_layer: "InfiniBand".into(),
                state: 4,
                phys: 5,
                rate: model.rate.into(),
                down_rate: Some("10 Gb/sec (4X SDR)".into()),
                lid: 0x100 + seed as u32,
                sm_lid: 1,
                pma: Some(names::pma(seed)),
                hw: Some(names::mlx5_hw(seed, false)),
                gids: vec![GidSpec {
                    index: 0,
                    gid: format!("fe80:0000:0000:0000:{}", groups(guid)),
                    kind: "IB/RoCE v1".into(),
                    netdev: None,
                }],
                gid_slots: 8,
                pkeys: vec![0xffff, 0x0000],
                netdev: Some(netdev.into()),
            }],
            device_hw: None,
        });
        self.add_netdev(netdev, Some(nic), model.speed, 4092);
        if let Some(netdev) = self.netdev_mut(netdev) {
            netdev.kind = 32;
        }
    }

    /// An mlx5 RoCE device with its Ethernet interface, PFC on priority 3.
    pub(super) fn add_roce(&mut self, name: &str, nic: Bdf, model: Mlx5, netdev: &str, vf: bool) {
        let seed = self.rdma.len() as u64 + 1;
        self.add_ib(name, nic, model, netdev);
        let slots = if vf { 8 } else { 16 };
        let address = format!(
            "0000:0000:0000:0000:0000:ffff:0a{:02x}:{:02x}0a",
            seed >> 8,
            seed & 0xff
        );
        let Some(device) = self.device_mut(name) else {
            return;
        };
        let local = format!(
            "fe80:0000:0000:0000:{}",
            groups(device.guid | 0x0000_00ff_fe00_0000)
        );
        if let Some(port) = device.ports.first_mut() {
            port.link_layer = "Ethernet".into();
            port.lid = 0;
            port.sm_lid = 0;
            port.down_rate = Some("40 Gb/sec (4X QDR)".into());
            port.gid_slots = slots;
            port.hw = Some(names::mlx5_hw(seed, true));
            if vf {
                port.pma = Some(names::pma_vf(seed));
            }
            port.pkeys = vec![0xffff];
            port.gids = [
                (local.as_str(), "IB/RoCE v1"),
                (local.as_str(), "RoCE v2"),
                (address.as_str(), "IB/RoCE v1"),
                (address.as_str(), "RoCE v2"),
            ]
            .into_iter()
            .zip(0..)
            .map(|((gid, kind), index)| GidSpec {
                index,
                gid: gid.into(),
                kind: kind.into(),
                netdev: Some(netdev.into()),
            })
            .collect();
        }
        if let Some(netdev) = self.netdev_mut(netdev) {
            let pfc = 1u8 << 3;
            netdev.kind = 1;
            netdev.mtu = 9000;
            netdev.ethtool = Some((
                "mlx5_core".into(),
                names::mlx5_ethtool(seed, if vf { 0 } else { pfc }, vf),
            ));
            netdev.dcb = (!vf).then(|| lossless(pfc));
        }
    }
}

/// What distinguishes mlx5 models.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mlx5 {
    pub(super) device: u16,
    pub(super) hca_type: &'static str,
    pub(super) board_id: &'static str,
    pub(super) firmware: &'static str,
    pub(super) rate: &'static str,
    pub(super) speed: u64,
}

/// ConnectX-7 at 400 Gb/s.
pub(super) const CX7: Mlx5 = Mlx5 {
    device: 0x1021,
    hca_type: "MT4129",
    board_id: "MT_0000000838",
    firmware: "28.41.1000",
    rate: "400 Gb/sec (4X NDR)",
    speed: 400_000,
};

/// ConnectX-6 at 200 Gb/s.
pub(super) const CX6: Mlx5 = Mlx5 {
    device: 0x101b,
    hca_type: "MT4123",
    board_id: "MT_0000000223",
    firmware: "20.39.2048",
    rate: "200 Gb/sec (4X HDR)",
    speed: 200_000,
};

/// A virtual function.
pub(super) const VF: Mlx5 = Mlx5 {
    device: 0x101e,
    hca_type: "MT4126",
    ..CX7
};

/// BlueField-3 at 200 Gb/s.
pub(super) const BF3: Mlx5 = Mlx5 {
    device: 0xa2dc,
    hca_type: "MT41692",
    board_id: "MT_0000000884",
    firmware: "32.41.1000",
    rate: "200 Gb/sec (2X NDR)",
    speed: 200_000,
};

/// PFC on the given priorities, DSCP trusted, two thirds of the bandwidth for RDMA.
pub(super) fn lossless(pfc: u8) -> DcbFacts {
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

fn groups(value: u64) -> String {
    format!(
        "{:04x}:{:04x}:{:04x}:{:04x}",
        value >> 48,
        value >> 32 & 0xffff,
        value >> 16 & 0xffff,
        value & 0xffff
    )
}
