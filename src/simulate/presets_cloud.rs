//! Cloud instances and the GB200 tray.

use super::build::*;
use super::names;
use super::spec::*;
use crate::units::Bdf;

/// What tells Amazon's machines apart.
pub(super) struct Efa {
    pub(super) product: &'static str,
    pub(super) device: u16,
    /// PCIe switches, among which the EFA functions are spread, with so many GPUs each.
    pub(super) switches: u8,
    pub(super) functions: u8,
    pub(super) gpus: u8,
    pub(super) rate: &'static str,
    pub(super) gpu: (u16, &'static str),
}

/// AWS p5.48xlarge: 32 EFA functions, four beside each GPU; no network device on them, no PMA.
pub(super) fn efa_p5() -> NodeSpec {
    efa(&Efa {
        product: "p5.48xlarge",
        device: 0xefa2,
        switches: 8,
        functions: 32,
        gpus: 1,
        rate: "100 Gb/sec (4X EDR)",
        gpu: (0x2330, "NVIDIA H100 80GB HBM3"),
    })
}

/// AWS p5en.48xlarge: 16 functions of 200 Gb/s, two beside each GPU.
pub(super) fn efa_p5en() -> NodeSpec {
    efa(&Efa {
        product: "p5en.48xlarge",
        device: 0xefa3,
        switches: 8,
        functions: 16,
        gpus: 1,
        rate: "200 Gb/sec (4X HDR)",
        gpu: (0x2335, "NVIDIA H200"),
    })
}

/// AWS p4d.24xlarge: four functions, each beside two GPUs.
pub(super) fn efa_p4d() -> NodeSpec {
    efa(&Efa {
        product: "p4d.24xlarge",
        device: 0xefa1,
        switches: 4,
        functions: 4,
        gpus: 2,
        rate: "100 Gb/sec (4X EDR)",
        gpu: (0x20b0, "NVIDIA A100-SXM4-40GB"),
    })
}

pub(super) fn efa(machine: &Efa) -> NodeSpec {
    let mut spec = NodeSpec::server("ip-10-0-1-17");
    spec.dmi = ("Amazon EC2".into(), machine.product.into());
    spec.hypervisor = true;
    spec.iommu = None;
    spec.kernel = "6.1.112-122.189.amzn2023.x86_64".into();
    for group in 0..machine.switches {
        let bus = 0x4f + group * 0x11;
        let numa = i32::from(group / machine.switches.div_ceil(2));
        let root = bdf(0, bus - 0x0b, 1, 0);
        let up = bdf(0, bus - 0x0a, 0, 0);
        spec.add_pci(bridge(root, None, numa));
        spec.add_pci(bridge(up, Some(root), numa));
        let more = u8::from(group < machine.functions % machine.switches);
        let functions = machine.functions / machine.switches + more;
        for n in 0..functions {
            let down = bdf(0, bus - 0x09, n, 0);
            let nic = bdf(0, bus + n, 0, 0);
            spec.add_pci(bridge(down, Some(up), numa));
            let id = (0x1d0f, machine.device);
            let mut pci = function(nic, Some(down), id, 0x02_0000, "efa", numa);
            pci.p2p = Some("NVIDIA".into());
            pci.aer = None;
            spec.add_pci(pci);
            add_efa(&mut spec, &format!("rdmap{}s0", nic.bus), nic, machine.rate);
        }
        for n in 0..machine.gpus {
            let place = functions.max(4) + n;
            let to_gpu = bdf(0, bus - 0x09, place, 0);
            let at = bdf(0, bus + place, 0, 0);
            spec.add_pci(bridge(to_gpu, Some(up), numa));
            let (id, model) = machine.gpu;
            let gpu = function(at, Some(to_gpu), (0x10de, id), 0x03_0200, "nvidia", numa);
            spec.add_gpu(gpu, model);
        }
    }
    spec.add_rdma_modules(&["efa"], None);
    spec.add_nvidia("550.127.08", true, false, false);
    spec
}

/// A GPU of a guest that sees no bridges above it.
pub(super) fn guest_gpu(spec: &mut NodeSpec, at: Bdf, id: u16, model: &str) {
    let mut gpu = function(at, None, (0x10de, id), 0x03_0200, "nvidia", 0);
    gpu.aer = None;
    spec.add_gpu(gpu, model);
}

fn add_efa(spec: &mut NodeSpec, name: &str, nic: Bdf, rate: &str) {
    let seed = spec.rdma.len() as u64 + 1;
    let (port_hw, device_hw) = names::efa(seed);
    let guid = 0x0627_0aff_fe00_0000 + seed;
    spec.rdma.push(RdmaSpec {
        name: name.into(),
        pci: nic,
        node_type: 7,
        firmware: "0.0.0.0".into(),
        hca_type: None,
        board_id: None,
        guid,
        image_guid: 0,
        uverbs: seed as u32 - 1,
        ports: vec![PortSpec {
            number: 1,
            link_layer: "Unknown".into(),
            state: 4,
            phys: 5,
            rate: rate.into(),
            down_rate: None,
            lid: 0,
            sm_lid: 0,
            pma: None,
            hw: Some(port_hw),
            gids: vec![GidSpec {
                index: 0,
                gid: format!("fe80:0000:0000:0000:0427:0aff:fe00:{seed:04x}"),
                kind: "IB/RoCE v1".into(),
                netdev: None,
            }],
            gid_slots: 1,
            pkeys: vec![0xffff],
            netdev: None,
        }],
        device_hw: Some(device_hw),
    });
}

/// Azure ND96isr_H200_v5: eight InfiniBand VFs of a fabric that the guest does not see the PFs of,
/// and an accelerated-networking VF.
pub(super) fn azure_ndh200() -> NodeSpec {
    let mut spec = azure("aks-gpu-0");
    for n in 0..8u32 {
        let numa = if n < 4 { 0 } else { 1 };
        let at = bdf(n + 1, 0, 0, 0);
        let id = (0x10de, 0x2335);
        spec.add_gpu(
            vmbus_function(at, id, 0x03_0200, "nvidia", numa),
            "NVIDIA H200",
        );
        azure_rail(&mut spec, n, VF, numa);
    }
    accelerated(&mut spec);
    spec.add_module("hv_netvsc", None, "");
    spec.add_rdma_modules(&["mlx5_core", "mlx5_ib"], Some("24.10-0.7.0"));
    spec.add_nvidia("560.35.03", true, true, false);
    spec
}

/// An Azure guest with nothing but its synthetic interface.
pub(super) fn azure(hostname: &str) -> NodeSpec {
    let mut spec = NodeSpec::server(hostname);
    spec.dmi = ("Microsoft Corporation".into(), "Virtual Machine".into());
    spec.asset_tag = Some("7783-7084-3265-9085-8269-3286-77".into());
    spec.hypervisor = true;
    spec.iommu = None;
    spec.kernel = "6.8.0-1021-azure".into();
    spec.pci.clear();
    spec.netdevs.clear();
    spec.modules.clear();
    spec.add_netdev("eth0", None, 100_000, 1500);
    spec.default_route = Some("eth0".into());
    spec
}

/// A function that Hyper-V hands to a guest: a root bus of its own for each.
pub(super) fn vmbus_function(
    at: Bdf,
    id: (u16, u16),
    class: u32,
    driver: &str,
    numa: i32,
) -> PciSpec {
    let domain = at.domain;
    let mut pci = function(at, None, id, class, driver, numa);
    pci.root = Some(format!(
        "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-{domain:04x}-0000-3130-444531454238/pci{domain:04x}:00"
    ));
    pci.aer = None;
    if driver != "nvidia" {
        pci.link = (gts(0), 0);
        pci.max_link = (gts(0), 0);
    }
    pci
}

/// InfiniBand VF `n`, in the partition of its tenant.
pub(super) fn azure_rail(spec: &mut NodeSpec, n: u32, model: Mlx5, numa: i32) {
    let nic = bdf(0x101 + n, 0, 0, 0);
    let id = (0x15b3, model.device);
    spec.add_pci(vmbus_function(nic, id, 0x02_0700, "mlx5_core", numa));
    let name = format!("mlx5_ib{n}");
    spec.add_ib(&name, nic, model, &format!("ib{n}"));
    if let Some(port) = spec.port_mut(&name, 1) {
        port.pkeys = vec![0x8005, 0x7fff];
        port.pma = Some(names::pma_vf(u64::from(n) + 1));
    }
}

/// The VF of accelerated networking, below the synthetic interface.
pub(super) fn accelerated(spec: &mut NodeSpec) {
    let nic = bdf(0xc05e, 0, 2, 0);
    let model = Mlx5 {
        device: 0x101a,
        hca_type: "MT4122",
        rate: "100 Gb/sec (4X EDR)",
        speed: 100_000,
        ..VF
    };
    let id = (0x15b3, model.device);
    spec.add_pci(vmbus_function(nic, id, 0x02_0000, "mlx5_core", 0));
    spec.add_roce("mlx5_an0", nic, model, "enP49246s1", true);
    if let Some(netdev) = spec.netdev_mut("enP49246s1") {
        netdev.master = Some("eth0".into());
        netdev.mtu = 1500;
    }
}

/// A GB200 NVL72 compute tray: four GPUs behind two Grace CPUs, four InfiniBand rails, two
/// BlueField-3 with two ports each.
pub(super) fn gb200() -> NodeSpec {
    let mut spec = NodeSpec::server("gb200-1");
    spec.arch = "aarch64".into();
    spec.kernel = "6.8.0-1024-nvidia-64k".into();
    spec.dmi = ("NVIDIA".into(), "GB200 NVL".into());
    spec.cmdline = "BOOT_IMAGE=/boot/vmlinuz-6.8.0-1024-nvidia-64k ro iommu.passthrough=1".into();
    // On Grace translation is how the SMMU is meant to run.
    spec.iommu = Some("DMA".into());
    for (domain, numa) in [(0x8, 0), (0x9, 0), (0x18, 1), (0x19, 1)] {
        let root = bdf(domain, 0, 0, 0);
        spec.add_pci(bridge(root, None, numa));
        spec.add_gpu(
            function(
                bdf(domain, 1, 0, 0),
                Some(root),
                (0x10de, 0x2941),
                0x03_0200,
                "nvidia",
                numa,
            ),
            "NVIDIA GB200",
        );
    }
    for (number, domain, function_number, numa) in [
        (0, 0x0, 0, 0),
        (1, 0x2, 0, 0),
        (2, 0x6, 0, 0),
        (3, 0x6, 1, 0),
        (4, 0x10, 0, 1),
        (5, 0x12, 0, 1),
        (6, 0x16, 0, 1),
        (7, 0x16, 1, 1),
    ] {
        let root = bdf(domain, 0, 0, 0);
        let nic = bdf(domain, 3, 0, function_number);
        let name = format!("mlx5_{number}");
        spec.add_pci(bridge(root, None, numa));
        if domain & 0xf == 6 {
            let id = (0x15b3, BF3.device);
            spec.add_pci(function(nic, Some(root), id, 0x02_0000, "mlx5_core", numa));
            let netdev = format!("enP{domain}p3s0f{function_number}np{function_number}");
            spec.add_roce(&name, nic, BF3, &netdev, false);
        } else {
            let id = (0x15b3, CX7.device);
            spec.add_pci(function(nic, Some(root), id, 0x02_0700, "mlx5_core", numa));
            spec.add_ib(&name, nic, CX7, &format!("ibP{domain}p3s0"));
        }
    }
    spec.add_rdma_modules(&["mlx5_core", "mlx5_ib"], None);
    spec.add_nvidia("570.124.06", true, false, false);
    spec
}
