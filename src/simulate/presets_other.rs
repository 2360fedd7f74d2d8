//! Nodes that are not all mlx5 rails: storage bonds, ConnectX-3, Broadcom.

use super::build::*;
use super::names;
use super::presets::mlx5;
use super::spec::*;

/// An older node: one ConnectX-3 with two InfiniBand ports, kernel 4.18, peer counters as text.
pub(super) fn mlx4_na() -> NodeSpec {
    let mut spec = NodeSpec::server("old-1");
    spec.kernel = "4.18.0-193.el8.x86_64".into();
    spec.iommu = None;
    let root = bdf(0, 0x80, 2, 0);
    let nic = bdf(0, 0x81, 0, 0);
    spec.add_pci(bridge(root, None, 1));
    let mut pci = function(nic, Some(root), (0x15b3, 0x1003), 0x02_8000, "mlx4_core", 1);
    pci.link = (gts(3), 8);
    pci.max_link = (gts(3), 8);
    spec.add_pci(pci);
    let model = Mlx5 {
        device: 0x1003,
        hca_type: "MT4099",
        board_id: "MT_1090120019",
        firmware: "2.42.5000",
        rate: "56 Gb/sec (4X FDR)",
        speed: 56_000,
    };
    spec.add_ib("mlx4_0", nic, model, "ib0");
    spec.add_netdev("ib1", Some(nic), 56_000, 4092);
    if let Some(device) = spec.device_mut("mlx4_0")
        && let Some(first) = device.ports.first_mut()
    {
        first.hw = None;
        first.pma = Some(names::pma_mlx4(1));
        let mut second = first.clone();
        second.number = 2;
        second.pma = Some(names::pma_mlx4(2));
        second.lid += 1;
        second.netdev = Some("ib1".into());
        device.ports.push(second);
    }
    if let Some(netdev) = spec.netdev_mut("ib1") {
        netdev.kind = 32;
        netdev.dev_port = 1;
    }
    spec.add_rdma_modules(&["mlx4_core", "mlx4_ib"], None);
    spec
}

/// Four A100s and four 200 Gb/s rails behind two levels of PCIe switches, and a bonded storage
/// card that also carries the default route.
pub(super) fn mixed_storage() -> NodeSpec {
    let mut spec = NodeSpec::server("hgx-1");
    spec.dmi = ("Supermicro".into(), "AS-4124GO-NART".into());
    for half in 0..2u8 {
        let base = 0x20 + half * 0x40;
        let numa = i32::from(half);
        let root = bdf(0, base, 1, 0);
        let up = bdf(0, base + 1, 0, 0);
        spec.add_pci(bridge(root, None, numa));
        spec.add_pci(bridge(up, Some(root), numa));
        for leaf in 0..2u8 {
            let down = bdf(0, base + 2, leaf, 0);
            let bus = base + 4 + leaf * 8;
            let leaf_up = bdf(0, bus, 0, 0);
            let to_gpu = bdf(0, bus + 1, 0, 0);
            let to_nic = bdf(0, bus + 1, 1, 0);
            for (at, above) in [
                (down, up),
                (leaf_up, down),
                (to_gpu, leaf_up),
                (to_nic, leaf_up),
            ] {
                spec.add_pci(bridge(at, Some(above), numa));
            }
            let mut gpu = function(
                bdf(0, bus + 2, 0, 0),
                Some(to_gpu),
                (0x10de, 0x20b2),
                0x03_0200,
                "nvidia",
                numa,
            );
            gpu.link = (gts(4), 16);
            gpu.max_link = (gts(4), 16);
            spec.add_gpu(gpu, "NVIDIA A100-SXM4-80GB");
            let nic = bdf(0, bus + 3, 0, 0);
            let mut pci = mlx5(nic, to_nic, CX6, false, numa);
            pci.link = (gts(4), 16);
            pci.max_link = (gts(4), 16);
            spec.add_pci(pci);
            let number = half * 2 + leaf;
            spec.add_ib(&format!("mlx5_{number}"), nic, CX6, &format!("ib{number}"));
        }
    }
    bonded_storage(&mut spec);
    spec.add_rdma_modules(&["mlx5_core", "mlx5_ib"], Some("5.8-1.1.2"));
    spec.add_nvidia("535.129.03", false, true, false);
    spec
}

/// A dual-port card in LAG: one RDMA device for two cables.
fn bonded_storage(spec: &mut NodeSpec) {
    let root = bdf(0, 0xa0, 1, 0);
    let model = Mlx5 {
        device: 0x101d,
        hca_type: "MT4125",
        board_id: "MT_0000000359",
        firmware: "22.39.2048",
        rate: "100 Gb/sec (4X EDR)",
        speed: 100_000,
    };
    spec.add_pci(bridge(root, None, 1));
    spec.add_netdev("bond0", None, 200_000, 1500);
    for function in 0..2u8 {
        let nic = bdf(0, 0xa1, 0, function);
        let mut pci = mlx5(nic, root, model, true, 1);
        pci.link = (gts(4), 16);
        pci.max_link = (gts(4), 16);
        spec.add_pci(pci);
        let name = format!("enp161s0f{function}np{function}");
        if function == 0 {
            spec.add_roce("mlx5_bond_0", nic, model, &name, false);
        } else {
            spec.add_netdev(&name, Some(nic), 100_000, 1500);
        }
        if let Some(netdev) = spec.netdev_mut(&name) {
            netdev.master = Some("bond0".into());
        }
    }
    if let Some(port) = spec.port_mut("mlx5_bond_0", 1) {
        port.netdev = Some("bond0".into());
        for gid in &mut port.gids {
            gid.netdev = Some("bond0".into());
        }
    }
    spec.default_route = Some("bond0".into());
}

/// Two Broadcom 200 Gb/s RoCE ports: no PMA counters, gauges among the hardware counters.
pub(super) fn bnxt() -> NodeSpec {
    let mut spec = NodeSpec::server("brcm-1");
    let root = bdf(0, 0x40, 1, 0);
    spec.add_pci(bridge(root, None, 0));
    for number in 0..2u8 {
        let nic = bdf(0, 0x41, 0, number);
        let model = Mlx5 {
            device: 0x1750,
            hca_type: "BCM57508",
            board_id: "",
            firmware: "228.0.116.0",
            rate: "200 Gb/sec (4X HDR)",
            speed: 200_000,
        };
        spec.add_pci(function(
            nic,
            Some(root),
            (0x14e4, 0x1750),
            0x02_0000,
            "bnxt_en",
            0,
        ));
        let (name, netdev) = (
            format!("bnxt_re{number}"),
            format!("ens3f{number}np{number}"),
        );
        spec.add_roce(&name, nic, model, &netdev, false);
        let seed = u64::from(number) + 1;
        if let Some(device) = spec.device_mut(&name) {
            device.board_id = None;
            if let Some(port) = device.ports.first_mut() {
                port.pma = None;
                port.hw = Some(names::bnxt(seed));
                port.down_rate = Some("2.5 Gb/sec (1X SDR)".into());
            }
        }
        if let Some(netdev) = spec.netdev_mut(&netdev) {
            netdev.ethtool = Some(("bnxt_en".into(), names::bnxt_ethtool(seed)));
        }
    }
    spec.add_rdma_modules(&["bnxt_en", "bnxt_re"], None);
    spec
}
