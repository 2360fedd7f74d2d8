//! Google's machines: A3 Mega without any RDMA device, A3 Ultra with RoCE.

use super::build::*;
use super::presets_cloud::guest_gpu;
use super::spec::*;
use crate::units::Bdf;

pub(super) const GVNIC: (u16, u16) = (0x1ae0, 0x0042);

pub(super) fn machine(hostname: &str) -> NodeSpec {
    let mut spec = NodeSpec::server(hostname);
    spec.dmi = ("Google".into(), "Google Compute Engine".into());
    spec.hypervisor = true;
    spec.iommu = None;
    spec.kernel = "6.1.112+".into();
    spec.pci.clear();
    spec.netdevs.clear();
    spec.modules.clear();
    spec.add_module("gve", Some("1.4.5"), "OE");
    spec.default_route = Some("eth0".into());
    spec
}

pub(super) fn add_gvnic(spec: &mut NodeSpec, at: Bdf, netdev: &str, speed: u64) {
    let mut pci = function(at, None, GVNIC, 0x02_0000, "gve", 0);
    pci.aer = None;
    pci.link = (gts(0), 0);
    pci.max_link = (gts(0), 0);
    spec.add_pci(pci);
    spec.add_netdev(netdev, Some(at), speed, 8244);
}

/// a3-megagpu-8g: eight GPUs, a gVNIC for each and one for the node itself.
pub(super) fn a3_mega() -> NodeSpec {
    let mut spec = machine("gke-a3-mega-1");
    add_gvnic(&mut spec, bdf(0, 0, 12, 0), "eth0", 200_000);
    for n in 0..8u8 {
        guest_gpu(
            &mut spec,
            bdf(0, 4 + n, 0, 0),
            0x2330,
            "NVIDIA H100 80GB HBM3",
        );
        let netdev = format!("eth{}", n + 1);
        add_gvnic(&mut spec, bdf(0, 0x80 + n, 0, 0), &netdev, 200_000);
    }
    spec.add_nvidia("550.127.05", true, false, false);
    spec
}

/// a3-ultragpu-8g: eight RoCE functions of ConnectX-7 and two gVNICs.
pub(super) fn a3_ultra() -> NodeSpec {
    let mut spec = machine("gke-a3-ultra-1");
    spec.kernel = "6.6.72+".into();
    add_gvnic(&mut spec, bdf(0, 0, 12, 0), "eth0", 200_000);
    add_gvnic(&mut spec, bdf(0, 0, 13, 0), "eth1", 200_000);
    for n in 0..8u8 {
        guest_gpu(&mut spec, bdf(0, 4 + n, 0, 0), 0x2335, "NVIDIA H200");
        rdma_function(&mut spec, n, VF);
    }
    spec.add_rdma_modules(&["mlx5_core", "mlx5_ib"], None);
    spec.add_nvidia("565.57.01", true, false, false);
    spec
}

/// RoCE function `n` of the network that is rail-aligned with the GPUs.
pub(super) fn rdma_function(spec: &mut NodeSpec, n: u8, model: Mlx5) {
    let nic = bdf(0, 0x90 + n, 0, 0);
    let id = (0x15b3, model.device);
    let mut pci = function(nic, None, id, 0x02_0000, "mlx5_core", 0);
    pci.aer = None;
    pci.link = (gts(0), 0);
    pci.max_link = (gts(0), 0);
    spec.add_pci(pci);
    let netdev = format!("gpu{n}rdma0");
    spec.add_roce(&format!("mlx5_{n}"), nic, model, &netdev, true);
    if let Some(netdev) = spec.netdev_mut(&netdev) {
        netdev.mtu = 8896;
    }
}
