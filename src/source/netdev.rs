//! `/sys/class/net/<if>` (net/core/net-sysfs.c): the Ethernet side of RDMA ports, and of IPoIB.

use crate::host::Host;
use crate::observe::{NetdevFacts, RdmaDevice, Reading};
use crate::source::{identity, parse, tree};
use crate::units::Bdf;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// `IFF_UP` of include/uapi/linux/if.h.
const IFF_UP: u64 = 1;

/// Most interfaces below a bond taken.
const MAX_LOWERS: usize = 64;

/// Directory of an interface below the root.
pub fn class_dir(name: &str) -> PathBuf {
    Path::new("sys/class/net").join(name)
}

/// Reads of an interface for one of its speed: the driver answers that with its link settings, under
/// the kernel's lock of all interfaces (speed_show in net/core/net-sysfs.c).
const SPEED_EVERY: u32 = 16;

/// What is kept of an interface between reads: its files, and what changes seldom.
#[derive(Default)]
pub struct Last {
    dir: Option<tree::Directory>,
    /// Its device's PCI address, kept while the directory is the same.
    pci: Option<Bdf>,
    /// Carrier and its changes: without them the speed does not change.
    link: Option<(Reading<bool>, Reading<u64>)>,
    speed: Reading<u64>,
    speed_age: u32,
}

/// One interface now; of one that is gone, everything is absent. Its routes are left out:
/// [`routes`](crate::source::routes) and [`ovs::route_over`](crate::source::ovs::route_over) know.
pub fn read(host: &Host, name: &str, last: &mut Last) -> NetdevFacts {
    let path = class_dir(name);
    let new = || tree::Directory::new(path.clone());
    let dir = last.dir.get_or_insert_with(new);
    if !dir.begin(host) {
        last.pci = identity::pci_function(host, &path);
    }
    let mut number = |file: &str| {
        let text = dir.read_text(host, file);
        text.and_then(|text| tree::parse_u64(&text, || path.join(file)))
    };
    let carrier = number("carrier").map(|carrier| carrier != 0);
    let carrier_changes = number("carrier_changes");
    let link = Some((carrier.clone(), carrier_changes.clone()));
    last.speed_age += 1;
    if last.link != link || last.speed_age >= SPEED_EVERY {
        last.speed_age = 0;
        last.speed = match carrier {
            Reading::Value(false) | Reading::NotObservable => Reading::NotObservable,
            _ => (dir.read_text(host, "speed")).and_then(|text| parse_speed(&text)),
        };
        last.link = link;
    }
    let mut word = |file: &str| parse::clean(dir.read_text(host, file).value()?);
    let flags = word("flags").and_then(|flags| parse::parse_hex(&flags));
    NetdevFacts {
        ifindex: word("ifindex").and_then(|index| index.parse().ok()),
        operstate: word("operstate"),
        admin_up: flags.map(|flags| flags & IFF_UP != 0),
        speed_mbps: last.speed.clone(),
        carrier,
        mtu: word("mtu").and_then(|mtu| mtu.parse().ok()),
        carrier_changes,
        master: tree::link_name(host, path.join("master")),
        lowers: lowers(host, name),
        pci: last.pci,
        driver: tree::link_name(host, path.join("device/driver")),
        ..NetdevFacts::default()
    }
}

/// `speed` in Mb/s. `-1` (older kernels: 4294967295) and 0 mean that the driver does not know.
pub fn parse_speed(text: &str) -> Reading<u64> {
    const UNKNOWN: u64 = u32::MAX as u64;
    if text.trim() == "-1" {
        return Reading::NotObservable;
    }
    match tree::parse_u64(text, || "speed".into()) {
        Reading::Value(0 | UNKNOWN) => Reading::NotObservable,
        other => other,
    }
}

/// Legs of a bond: its `lower_*` links. Bridges, Open vSwitch and VRFs have such links too, to
/// ports that are not legs of a bond (taps, representors of virtual functions).
fn lowers(host: &Host, name: &str) -> Vec<String> {
    if !tree::exists(host, class_dir(name).join("bonding")) {
        return Vec::new();
    }
    lower_links(host, name, MAX_LOWERS)
}

/// What an interface lies on, of any kind: its `lower_*` links (net/core/dev.c,
/// `netdev_adjacent_sysfs_add`), so many at most.
pub(super) fn lower_links(host: &Host, name: &str, most: usize) -> Vec<String> {
    let entries = tree::names(host, class_dir(name));
    let entries = entries.iter();
    let lowers = entries.filter_map(|entry| entry.strip_prefix("lower_"));
    lowers.take(most).map(Into::into).collect()
}

/// Interfaces of RDMA ports, the bonds above them, and all that is below those bonds.
pub fn of_rdma(host: &Host, devices: &[RdmaDevice]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let ports = devices.iter().flat_map(|device| &device.ports);
    for name in ports.filter_map(|port| port.netdev.clone()) {
        if let Some(master) = tree::link_name(host, class_dir(&name).join("master")) {
            all.extend(lowers(host, &master));
            all.insert(master);
        }
        all.extend(lowers(host, &name));
        all.insert(name);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::infiniband::enumerate;
    use crate::source::testtree::TestTree;

    fn eth(tree: &TestTree, name: &str) -> String {
        let dir = format!("sys/class/net/{name}");
        tree.files(
            &dir,
            &[
                ("ifindex", "7"),
                ("carrier", "1"),
                ("carrier_changes", "4"),
                ("operstate", "up"),
                ("flags", "0x1003"),
                ("mtu", "4200"),
                ("speed", "400000"),
            ],
        );
        dir
    }

    #[test]
    fn an_interface_that_is_up() {
        let tree = TestTree::new();
        let pci = tree.pci(
            "0000:15:01.0",
            "0000:19:00.0",
            ("15b3", "1021"),
            "mlx5_core",
        );
        let dir = eth(&tree, "eth3");
        tree.link(&format!("{dir}/device"), &format!("../../../../{pci}"));
        tree.link(&format!("{dir}/master"), "../bond0");
        let got = read(&tree.host(), "eth3", &mut Last::default());
        assert_eq!(got.ifindex, Some(7));
        assert_eq!(got.carrier, Reading::Value(true));
        assert_eq!(got.carrier_changes, Reading::Value(4));
        assert_eq!(got.operstate.as_deref(), Some("up"));
        assert_eq!(got.admin_up, Some(true));
        assert_eq!(got.speed_mbps, Reading::Value(400_000));
        assert_eq!(got.mtu, Some(4200));
        assert_eq!(got.master.as_deref(), Some("bond0"));
        assert_eq!(got.pci.unwrap().to_string(), "0000:19:00.0");
        assert_eq!(got.driver.as_deref(), Some("mlx5_core"));
    }

    #[test]
    fn administratively_down_answers_einval() {
        let tree = TestTree::new();
        let dir = eth(&tree, "eth3");
        tree.file(&format!("{dir}/flags"), "0x1002");
        for file in ["carrier", "speed"] {
            tree.errno(22, &format!("{dir}/{file}"));
        }
        let got = read(&tree.host(), "eth3", &mut Last::default());
        assert_eq!(got.admin_up, Some(false));
        assert_eq!(got.carrier, Reading::NotObservable);
        assert_eq!(got.speed_mbps, Reading::NotObservable);
    }

    #[test]
    fn no_carrier_has_no_speed_and_gone_has_nothing() {
        let tree = TestTree::new();
        let dir = eth(&tree, "eth3");
        tree.file(&format!("{dir}/carrier"), "0");
        let host = tree.host();
        let got = read(&host, "eth3", &mut Last::default());
        assert_eq!(got.carrier, Reading::Value(false));
        assert_eq!(got.speed_mbps, Reading::NotObservable);
        tree.remove(&dir);
        let got = read(&host, "eth3", &mut Last::default());
        assert_eq!(got, NetdevFacts::default());
    }

    #[test]
    fn a_speed_is_read_again_after_a_while() {
        let tree = TestTree::new();
        let dir = eth(&tree, "eth3");
        let mut last = Last::default();
        let mut speed = || read(&tree.host(), "eth3", &mut last).speed_mbps;
        assert_eq!(speed(), Reading::Value(400_000));
        tree.file(&format!("{dir}/speed"), "200000");
        for _ in 1..SPEED_EVERY {
            assert_eq!(speed(), Reading::Value(400_000));
        }
        assert_eq!(speed(), Reading::Value(200_000));
    }

    #[test]
    fn speeds() {
        for (text, want) in [
            ("400000", Reading::Value(400_000)),
            ("-1", Reading::NotObservable),
            ("4294967295", Reading::NotObservable),
            ("0", Reading::NotObservable),
        ] {
            assert_eq!(parse_speed(text), want);
        }
        assert!(matches!(parse_speed("fast"), Reading::Failed(_)));
    }

    #[test]
    fn bonds_bring_their_legs() {
        let tree = TestTree::new();
        let dir = tree.mlx5("mlx5_bond_0", "0000:15:01.0", "0000:19:00.0");
        tree.file(&format!("{dir}/ports/1/link_layer"), "Ethernet");
        tree.file(&format!("{dir}/ports/1/gid_attrs/ndevs/0"), "eth0");
        tree.link("sys/class/net/eth0/master", "../bond0");
        for leg in ["eth0", "eth1"] {
            tree.link(
                &format!("sys/class/net/bond0/lower_{leg}"),
                &format!("../{leg}"),
            );
        }
        let seen = || -> Vec<String> {
            let host = tree.host();
            let devices = enumerate(&host);
            of_rdma(&host, devices.value().unwrap())
                .into_iter()
                .collect()
        };
        // A bridge: what else hangs on it is none of ours.
        assert_eq!(seen(), ["bond0", "eth0"]);
        assert!(
            read(&tree.host(), "bond0", &mut Last::default())
                .lowers
                .is_empty()
        );
        tree.file("sys/class/net/bond0/bonding/mode", "802.3ad 4");
        assert_eq!(seen(), ["bond0", "eth0", "eth1"]);
        assert_eq!(
            read(&tree.host(), "bond0", &mut Last::default()).lowers,
            ["eth0", "eth1"]
        );
    }
}
