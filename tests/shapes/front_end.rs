//! Machines whose front end could be taken for their fabric: reached over a virtual switch, by a card
//! with several ports, or with a default route on every network.

use crate::machines::{judged_after, never_there};
use selvage::simulate::{NodeFiles, by_name};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A machine of which only the front end is left: its rails never came up.
fn without_rails(name: &str) -> NodeFiles {
    let spec = by_name(name).unwrap();
    let rails = judged_after(spec.clone(), Some(name), &|_| ()).rails;
    rails
        .into_iter()
        .fold(spec, |spec, (_, at, _)| never_there(spec, at))
}

/// The default routes of these interfaces, alike.
fn default_routes(root: &Path, interfaces: &[&str]) {
    let mut text = String::from("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n");
    for name in interfaces {
        writeln!(
            text,
            "{name}\t00000000\t0100000A\t0003\t0\t0\t100\t00000000"
        )
        .unwrap();
    }
    fs::write(root.join("proc/1/net/route"), text).unwrap();
}

/// OVN-Kubernetes took these interfaces: they are ports of one datapath, and the default route is on
/// `br-ex`, whose hardware address is the first one's.
fn ovn(root: &Path, ports: &[&str]) {
    let net = root.join("sys/class/net");
    for (name, index) in [("br-ex", "91"), ("ovs-system", "90")] {
        let dir = root.join("sys/devices/virtual/net").join(name);
        fs::create_dir_all(&dir).unwrap();
        for (file, text) in [("type", "1"), ("ifindex", index), ("iflink", index)] {
            fs::write(dir.join(file), text).unwrap();
        }
        symlink(&dir, net.join(name)).unwrap();
    }
    let first = net.join(ports[0]).join("address");
    fs::copy(first, net.join("br-ex/address")).unwrap();
    for port in ports {
        symlink(net.join("ovs-system"), net.join(port).join("master")).unwrap();
        symlink(net.join(port), net.join(format!("ovs-system/lower_{port}"))).unwrap();
    }
    default_routes(root, &["br-ex"]);
}

/// What carries the node's own traffic is not the fabric, however the route gets there.
#[test]
fn the_front_end_is_no_fabric() {
    const AZURE: &str = "Standard_ND96is_H200_v5";
    const OCI: &str = "BM.GPU.H100.8";
    const MEGA: &str = "a3-megagpu-8g";
    let nine = [
        "eth0", "eth1", "eth2", "eth3", "eth4", "eth5", "eth6", "eth7", "eth8",
    ];
    let spec = |name: &str| by_name(name).unwrap();
    let mega = spec(MEGA);
    let rail = judged_after(mega.clone(), Some(MEGA), &|_| ()).rail_at(7);
    let none: Option<&str> = None;
    type Row<'a> = (
        &'a str,
        NodeFiles,
        Option<&'a str>,
        &'a dyn Fn(&Path),
        &'a str,
        usize,
    );
    let rows: [Row<'_>; 11] = [
        (
            "Azure, OVN",
            spec(AZURE),
            none,
            &|root| ovn(root, &["eth0"]),
            "unknown: NoFabric",
            0,
        ),
        (
            "an HCA with IPoIB's routes",
            spec("mlx4_na"),
            none,
            &|root| default_routes(root, &["ib0", "ib1"]),
            "ready",
            2,
        ),
        (
            "its link layer cannot be read",
            spec("mlx4_na"),
            none,
            &|root| {
                default_routes(root, &["ib0", "ib1"]);
                for port in ["1", "2"] {
                    let port = root.join("sys/class/infiniband/mlx4_0/ports").join(port);
                    fs::write(port.join("link_layer"), "").unwrap();
                }
            },
            "unknown: NoFabric",
            0,
        ),
        (
            "a shape without a fabric, a NIC without a route",
            spec(AZURE),
            Some(AZURE),
            &|root| default_routes(root, &[]),
            "none: NotAFabricNode",
            0,
        ),
        (
            "OCI, OVN",
            spec(OCI),
            none,
            &|root| ovn(root, &["eth0"]),
            "ready",
            16,
        ),
        (
            "OCI, OVN, rails in the switch",
            spec(OCI),
            none,
            &|root| ovn(root, &["eth0", "rdma0", "rdma1", "rdma2"]),
            "ready",
            16,
        ),
        (
            "one card with two ports",
            without_rails(OCI),
            none,
            &|_| (),
            "unknown: NoFabric",
            0,
        ),
        (
            "one card with two ports, OVN",
            without_rails(OCI),
            none,
            &|root| ovn(root, &["eth0"]),
            "unknown: NoFabric",
            0,
        ),
        (
            "one card with two ports, OVN, the address is not told",
            without_rails(OCI),
            none,
            &|root| {
                ovn(root, &["eth0"]);
                fs::remove_file(root.join("sys/class/net/br-ex/address")).unwrap();
            },
            "unknown: NoFabric",
            0,
        ),
        (
            "default routes on all gVNICs",
            mega.clone(),
            none,
            &|root| default_routes(root, &nine),
            "ready",
            8,
        ),
        (
            "default routes on all gVNICs, a rail gone",
            never_there(mega, rail),
            Some(MEGA),
            &|root| default_routes(root, &nine[..8]),
            "ready: FewerDevicesThanPromised (notice)",
            7,
        ),
    ];
    for (name, spec, profile, change, want, rails) in rows {
        let said = judged_after(spec, profile, change);
        assert_eq!(
            (said.outcome().as_str(), said.rails.len()),
            (want, rails),
            "{name}"
        );
    }
}
