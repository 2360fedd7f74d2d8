//! Bare machines whose rails have virtual functions for pods: OCI's, and OpenShift workers.

use super::build::*;
use super::names;
use super::presets::{h100_chassis, h100_roce, mlx5};
use super::spec::*;
use crate::observe::vf::{VfLink, VfLinks};
use crate::units::Bdf;

/// OCI BM.GPU.H100.8: two RoCE ports of 200 Gb/s beside each GPU, without PFC, and two more cards of
/// which one carries the default route.
pub(super) fn oci_h100() -> NodeSpec {
    let mut spec = NodeSpec::server("oke-h100-1");
    let chassis = h100_chassis(&mut spec);
    spec.dmi = ("Oracle Corporation".into(), "ORACLE SERVER".into());
    spec.asset_tag = Some("OracleCloud.com".into());
    spec.pci.remove("0000:0b:00.0");
    spec.netdevs.clear();
    let model = Mlx5 {
        rate: "200 Gb/sec (2X NDR)",
        speed: 200_000,
        ..CX7
    };
    let front = Mlx5 {
        device: 0x101d,
        hca_type: "MT4125",
        board_id: "MT_0000000359",
        rate: "100 Gb/sec (4X EDR)",
        speed: 100_000,
        ..CX7
    };
    let root = bdf(0, 0x26, 1, 0);
    spec.add_pci(bridge(root, None, 0));
    // mlx5_2 and mlx5_11 are the front; the other sixteen the cluster network.
    let mut places = chassis.into_iter().flat_map(|(nic, parent, numa)| {
        [0u8, 1].map(|port| (bdf(0, nic.bus, 0, port), parent, numa, model))
    });
    let mut rails = 0;
    for number in 0..18u32 {
        let (nic, parent, numa, model) = match number {
            2 | 11 => (bdf(0, 0x29, 0, u8::from(number == 11)), root, 0, front),
            _ => match places.next() {
                Some(place) => place,
                None => break,
            },
        };
        let netdev = if model.device == front.device {
            format!("eth{}", u8::from(number == 11))
        } else {
            rails += 1;
            format!("rdma{}", rails - 1)
        };
        spec.add_pci(mlx5(nic, parent, model, true, numa));
        spec.add_roce(&format!("mlx5_{number}"), nic, model, &netdev, false);
        if let Some(netdev) = spec.netdev_mut(&netdev) {
            netdev.mtu = 4220;
            let seed = u64::from(number) + 1;
            netdev.ethtool = Some(("mlx5_core".into(), names::mlx5_ethtool(seed, 0, false)));
            netdev.dcb = Some(lossless(0));
        }
    }
    spec.default_route = Some("eth0".into());
    spec.add_rdma_modules(&["mlx5_core", "mlx5_ib"], Some("24.10-1.1.4"));
    spec.add_nvidia("550.90.12", false, true, false);
    spec
}

/// The same with one virtual function a rail, as OKE hands them to pods by Multus.
pub(super) fn oci_h100_vfs() -> NodeSpec {
    let mut spec = oci_h100();
    let rails: Vec<String> = spec
        .netdevs
        .iter()
        .filter(|netdev| netdev.name.starts_with("rdma"))
        .map(|netdev| netdev.name.clone())
        .collect();
    let of_rail = |device: &RdmaSpec| {
        let port = device.ports.first();
        port.is_some_and(|port| {
            port.netdev
                .as_ref()
                .is_some_and(|name| rails.contains(name))
        })
    };
    let pfs: Vec<Bdf> = (spec.rdma.iter().filter(|d| of_rail(d)))
        .map(|d| d.pci)
        .collect();
    add_vfs(&mut spec, &pfs, 1, "mlx5_core");
    spec
}

/// OpenShift worker of eight RoCE rails; the SR-IOV operator made one virtual function of each, as
/// network devices with verbs.
pub(super) fn openshift_sriov() -> NodeSpec {
    openshift("mlx5_core")
}

/// The same with `deviceType: vfio-pci`: no verbs come of them.
pub(super) fn openshift_vfio() -> NodeSpec {
    openshift("vfio-pci")
}

/// The same, usable, and one rail's function set to `disable` (`linkState: disable` in its network).
pub(super) fn openshift_vf_off() -> NodeSpec {
    let mut spec = openshift("mlx5_core");
    let functions = spec
        .netdevs
        .iter_mut()
        .filter_map(|netdev| netdev.vf_links.as_mut());
    if let Some(links) = functions.into_iter().nth(2) {
        links.states = [(0, VfLink::Disable)].into();
    }
    spec
}

fn openshift(driver: &str) -> NodeSpec {
    let mut spec = h100_roce();
    spec.hostname = "worker-1".into();
    spec.dmi = ("Dell Inc.".into(), "PowerEdge XE9680".into());
    spec.kernel = "5.14.0-427.50.1.el9_4.x86_64".into();
    let pfs: Vec<Bdf> = spec.rdma.iter().map(|device| device.pci).collect();
    add_vfs(&mut spec, &pfs, 1, driver);
    if driver == "vfio-pci" {
        spec.add_module("vfio_pci", None, "");
    }
    spec
}

/// Virtual functions of these physical ones, bound to a driver: mlx5_core makes an RDMA device and a
/// network device of each, vfio-pci neither.
pub(super) fn add_vfs(spec: &mut NodeSpec, pfs: &[Bdf], each: u8, driver: &str) {
    let mut number = spec.rdma.len();
    for pf in pfs {
        let Some((numa, parent)) = spec
            .pci
            .get(&pf.to_string())
            .map(|pci| (pci.numa, pci.parent))
        else {
            continue;
        };
        let mut addresses = Vec::new();
        for vf in 0..each {
            // Beside the physical functions of the card; ports of one card take turns.
            let at = bdf(0, pf.bus, 0, 2 + pf.function + 2 * vf);
            let id = (0x15b3, VF.device);
            let mut pci = function(at, parent, id, 0x02_0000, driver, numa);
            pci.physfn = Some(*pf);
            pci.aer = None;
            // A VF's link capability registers read zero (PCIe base spec, SR-IOV chapter).
            pci.link = (gts(0), 0);
            pci.max_link = (gts(0), 0);
            spec.add_pci(pci);
            if driver == "mlx5_core" {
                let netdev = format!("enp{}s0f{}v{vf}", pf.bus, pf.function);
                let rate = spec.rdma.iter().find(|device| device.pci == *pf);
                let rate = rate.and_then(|device| device.ports.first());
                let slow = rate.is_some_and(|port| port.rate.starts_with("200 "));
                let model = Mlx5 {
                    rate: if slow { "200 Gb/sec (2X NDR)" } else { VF.rate },
                    speed: if slow { 200_000 } else { VF.speed },
                    ..VF
                };
                spec.add_roce(&format!("mlx5_{number}"), at, model, &netdev, true);
            }
            addresses.push(at);
            number += 1;
        }
        if let Some(pci) = spec.pci.get_mut(&pf.to_string()) {
            pci.sriov = Some((16, addresses));
        }
        let device = spec.rdma.iter().find(|device| device.pci == *pf);
        let netdev = device.and_then(|device| device.ports.first()?.netdev.clone());
        if let Some(netdev) = netdev.and_then(|name| spec.netdev_mut(&name)) {
            let states = (0..u32::from(each)).map(|number| (number, VfLink::Auto));
            netdev.vf_links = Some(VfLinks {
                states: states.collect(),
            });
        }
    }
}
