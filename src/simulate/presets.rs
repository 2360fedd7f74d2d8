//! Nodes by name: what the platforms that run gangs look like (DGX H100 user guide table 6 for
//! addresses and device order).

use super::build::*;
use super::names;
use super::presets_cloud as cloud;
use super::presets_gcp as gcp;
use super::presets_other as other;
use super::presets_vfs as vfs;
use super::spec::*;
use crate::units::Bdf;

/// Names of all presets, for tests that want each.
pub const PRESETS: &[&str] = &[
    "h100_ib",
    "h100_roce",
    "h100_roce_vfs",
    "efa_p5",
    "mixed_storage",
    "rail_down",
    "flapping",
    "restricted_pf",
    "mlx4_na",
    "empty",
    "ports18",
    "azure_ndh200",
    "gb200",
    "bnxt",
    "efa_p4d",
    "efa_p5en",
    "gcp_a3_mega",
    "gcp_a3_ultra",
    "oci_h100",
    "oci_h100_vfs",
    "openshift_sriov",
    "openshift_vfio",
    "openshift_vf_off",
];

/// What a preset is, in a few words; empty for a name that is none.
pub fn about(name: &str) -> &'static str {
    match name {
        "h100_ib" => "DGX H100: 8 InfiniBand rails of 400 Gb/s, storage NICs beside them",
        "h100_roce" => "8 H100 and 8 RoCE rails of 400 Gb/s; the demo's node",
        "h100_roce_vfs" => "the same with SR-IOV functions",
        "efa_p5" => "AWS p5: 32 EFA devices",
        "mixed_storage" => "InfiniBand rails and RoCE storage NICs",
        "rail_down" => "h100_ib with a rail that lost its link (unready)",
        "flapping" => "h100_ib, for tests that let a link flap",
        "restricted_pf" => "RoCE rails of which two refuse their port counters",
        "mlx4_na" => "ConnectX-3 whose counters say N/A (no PMA)",
        "empty" => "a server without GPU and fabric",
        "ports18" => "18 ports, for bounds and benchmarks",
        "azure_ndh200" => "Azure ND H200 v5: InfiniBand VFs",
        "gb200" => "GB200 compute tray",
        "bnxt" => "RoCE rails on Broadcom NICs",
        "efa_p4d" => "AWS p4d: 4 EFA devices",
        "efa_p5en" => "AWS p5en: 16 EFA devices of 200 Gb/s",
        "gcp_a3_mega" => "GCP A3 Mega: no RDMA device, 8 gVNIC rails (TCPXO)",
        "gcp_a3_ultra" => "GCP A3 Ultra: 8 RoCE rails",
        "oci_h100" => "OCI BM.GPU.H100.8: 16 RoCE rails of 200 Gb/s",
        "oci_h100_vfs" => "the same with a virtual function a rail for pods",
        "openshift_sriov" => "8 RoCE rails with virtual functions as network devices",
        "openshift_vfio" => "8 RoCE rails whose virtual functions went to vfio-pci",
        "openshift_vf_off" => "8 RoCE rails, one virtual function each, one of them without link",
        _ => "",
    }
}

/// A preset by name.
pub fn preset(name: &str) -> Option<NodeSpec> {
    Some(match name {
        "h100_ib" | "flapping" => h100_ib(),
        "h100_roce" => h100_roce(),
        "h100_roce_vfs" => h100_roce_vfs(2),
        "efa_p5" => cloud::efa_p5(),
        "mixed_storage" => other::mixed_storage(),
        "rail_down" => rail_down(),
        "restricted_pf" => restricted_pf(),
        "mlx4_na" => other::mlx4_na(),
        "empty" => NodeSpec::server("cpu-1"),
        "ports18" => ports18(),
        "azure_ndh200" => cloud::azure_ndh200(),
        "gb200" => cloud::gb200(),
        "bnxt" => other::bnxt(),
        "efa_p4d" => cloud::efa_p4d(),
        "efa_p5en" => cloud::efa_p5en(),
        "gcp_a3_mega" => gcp::a3_mega(),
        "gcp_a3_ultra" => gcp::a3_ultra(),
        "oci_h100" => vfs::oci_h100(),
        "oci_h100_vfs" => vfs::oci_h100_vfs(),
        "openshift_sriov" => vfs::openshift_sriov(),
        "openshift_vfio" => vfs::openshift_vfio(),
        "openshift_vf_off" => vfs::openshift_vf_off(),
        _ => return None,
    })
}

/// Root port, NIC, GPU and NUMA node of a DGX H100's eight rails.
pub(super) const RAILS: [(u8, u8, u8, i32); 8] = [
    (0x15, 0x18, 0x1b, 0),
    (0x3d, 0x40, 0x43, 0),
    (0x4c, 0x4f, 0x52, 0),
    (0x5b, 0x5e, 0x61, 0),
    (0x97, 0x9a, 0x9d, 1),
    (0xbd, 0xc0, 0xc3, 1),
    (0xcb, 0xce, 0xd1, 1),
    (0xd9, 0xdc, 0xdf, 1),
];

/// Device numbers of the eight rails; 1, 2, 7 and 8 are the two dual-port storage cards.
const RAIL_NAMES: [u32; 8] = [0, 3, 4, 5, 6, 9, 10, 11];

/// Eight PCIe switches, each with a GPU and a place for its NIC; gives the NICs' addresses and the
/// switch ports above them.
pub(super) fn h100_chassis(spec: &mut NodeSpec) -> Vec<(Bdf, Bdf, i32)> {
    spec.dmi = ("NVIDIA".into(), "DGXH100".into());
    RAILS
        .iter()
        .map(|&(bus, nic, gpu, numa)| {
            let root = bdf(0, bus, 1, 0);
            let up = bdf(0, bus + 1, 0, 0);
            let to_nic = bdf(0, bus + 2, 0, 0);
            let to_gpu = bdf(0, bus + 2, 2, 0);
            spec.add_pci(bridge(root, None, numa));
            spec.add_pci(bridge(up, Some(root), numa));
            spec.add_pci(bridge(to_nic, Some(up), numa));
            spec.add_pci(bridge(to_gpu, Some(up), numa));
            spec.add_gpu(
                function(
                    bdf(0, gpu, 0, 0),
                    Some(to_gpu),
                    (0x10de, 0x2330),
                    0x03_0200,
                    "nvidia",
                    numa,
                ),
                "NVIDIA H100 80GB HBM3",
            );
            (bdf(0, nic, 0, 0), to_nic, numa)
        })
        .collect()
}

pub(super) fn mlx5(nic: Bdf, parent: Bdf, model: Mlx5, ethernet: bool, numa: i32) -> PciSpec {
    let class = if ethernet { 0x02_0000 } else { 0x02_0700 };
    function(
        nic,
        Some(parent),
        (0x15b3, model.device),
        class,
        "mlx5_core",
        numa,
    )
}

/// DGX H100 with InfiniBand: eight rails, two dual-port storage cards of which one port each is
/// cabled.
fn h100_ib() -> NodeSpec {
    let mut spec = NodeSpec::server("dgx-1");
    let rails = h100_chassis(&mut spec);
    let mut places: Vec<(u32, Bdf, Bdf, i32, bool)> = rails
        .into_iter()
        .zip(RAIL_NAMES)
        .map(|((nic, port, numa), number)| (number, nic, port, numa, true))
        .collect();
    for (root, bus, first, numa) in [(0x26, 0x29, 1, 0), (0xa7, 0xaa, 7, 1)] {
        let root = bdf(0, root, 1, 0);
        spec.add_pci(bridge(root, None, numa));
        for function in 0..2u8 {
            let number = first + u32::from(function);
            places.push((number, bdf(0, bus, 0, function), root, numa, false));
        }
    }
    // Devices are listed in the order of their numbers.
    places.sort();
    for (number, nic, parent, numa, rail) in places {
        let name = format!("mlx5_{number}");
        spec.add_pci(mlx5(nic, parent, CX7, false, numa));
        let netdev = if rail {
            format!("ibp{}s0", nic.bus)
        } else {
            format!("ibp{}s0f{}", nic.bus, nic.function)
        };
        spec.add_ib(&name, nic, if rail { CX7 } else { STORAGE }, &netdev);
        if !rail && nic.function == 1 {
            never_cabled(&mut spec, &name, &netdev);
        }
    }
    spec.add_rdma_modules(&["mlx5_core", "mlx5_ib"], Some("24.10-1.1.4"));
    spec.add_nvidia("535.129.03", false, true, true);
    spec
}

pub(super) const STORAGE: Mlx5 = Mlx5 {
    rate: "200 Gb/sec (4X HDR)",
    speed: 200_000,
    board_id: "MT_0000000834",
    ..CX7
};

pub(super) fn never_cabled(spec: &mut NodeSpec, device: &str, netdev: &str) {
    if let Some(port) = spec.port_mut(device, 1) {
        port.state = 1;
        port.phys = 2;
        for dir in [&mut port.pma, &mut port.hw].into_iter().flatten() {
            for (name, attr) in dir.iter_mut() {
                if name != "lifespan" {
                    *attr = Attr::Number(0);
                }
            }
        }
    }
    if let Some(netdev) = spec.netdev_mut(netdev) {
        netdev.carrier = false;
        netdev.carrier_changes = 1;
    }
}

/// DGX H100 with eight RoCE rails.
pub(super) fn h100_roce() -> NodeSpec {
    let mut spec = NodeSpec::server("dgx-1");
    for (number, (nic, parent, numa)) in h100_chassis(&mut spec).into_iter().enumerate() {
        spec.add_pci(mlx5(nic, parent, CX7, true, numa));
        spec.add_roce(
            &format!("mlx5_{number}"),
            nic,
            CX7,
            &format!("enp{}s0np0", nic.bus),
            false,
        );
    }
    spec.add_rdma_modules(&["mlx5_core", "mlx5_ib"], Some("24.10-1.1.4"));
    spec.add_nvidia("550.90.07", false, true, true);
    spec
}

/// The same with `vfs` virtual functions a rail, their PFs on the same host.
fn h100_roce_vfs(vfs: u8) -> NodeSpec {
    let mut spec = h100_roce();
    let pfs: Vec<(Bdf, i32, Option<Bdf>)> = spec
        .rdma
        .iter()
        .filter_map(|device| spec.pci.get(&device.pci.to_string()))
        .map(|pci| (pci.bdf, pci.numa, pci.parent))
        .collect();
    let mut number = pfs.len();
    for (pf, numa, parent) in pfs {
        let mut addresses = Vec::new();
        for vf in 0..vfs {
            let at = bdf(0, pf.bus, 0, vf + 1);
            let mut pci = function(
                at,
                parent,
                (0x15b3, VF.device),
                0x02_0000,
                "mlx5_core",
                numa,
            );
            pci.physfn = Some(pf);
            pci.aer = None;
            // A VF's link capability registers read zero (PCIe base spec, SR-IOV chapter).
            pci.link = (gts(0), 0);
            pci.max_link = (gts(0), 0);
            spec.add_pci(pci);
            let netdev = format!("enp{}s0f0v{vf}", pf.bus);
            spec.add_roce(&format!("mlx5_{number}"), at, VF, &netdev, true);
            addresses.push(at);
            number += 1;
        }
        if let Some(pci) = spec.pci.get_mut(&pf.to_string()) {
            pci.sriov = Some((16, addresses));
        }
    }
    spec
}

/// One rail of an InfiniBand node has lost its partner.
fn rail_down() -> NodeSpec {
    let mut spec = h100_ib();
    if let Some(port) = spec.port_mut("mlx5_4", 1) {
        port.state = 1;
        port.phys = 2;
    }
    if let Some(netdev) = spec.netdev_mut("ibp79s0") {
        netdev.carrier = false;
        netdev.carrier_changes += 1;
    }
    spec
}

/// Two rails whose physical functions refuse every PMA read.
fn restricted_pf() -> NodeSpec {
    let mut spec = h100_roce();
    for name in ["mlx5_2", "mlx5_5"] {
        if let Some(port) = spec.port_mut(name, 1) {
            port.pma = Some(names::pma_restricted());
        }
    }
    spec
}

/// Eighteen RoCE ports with every counter: the largest node that is promised for.
fn ports18() -> NodeSpec {
    let mut spec = h100_roce();
    let first: Vec<(Bdf, Option<Bdf>, i32)> = spec
        .rdma
        .iter()
        .filter_map(|device| spec.pci.get(&device.pci.to_string()))
        .map(|pci| (pci.bdf, pci.parent, pci.numa))
        .collect();
    let root = bdf(0, 0x26, 1, 0);
    spec.add_pci(bridge(root, None, 0));
    let more = first
        .iter()
        .map(|(nic, parent, numa)| (bdf(0, nic.bus, 0, 1), parent.unwrap_or(root), *numa))
        .chain((0..2).map(|function| (bdf(0, 0x29, 0, function), root, 0)));
    for (nic, parent, numa) in more {
        let name = format!("mlx5_{}", spec.rdma.len());
        let netdev = format!("enp{}s0f{}np{}", nic.bus, nic.function, nic.function);
        spec.add_pci(mlx5(nic, parent, CX7, true, numa));
        spec.add_roce(&name, nic, CX7, &netdev, false);
    }
    spec
}
