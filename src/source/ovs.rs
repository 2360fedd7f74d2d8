//! Open vSwitch below the default route, as OVN-Kubernetes has it: the route is on `br-ex`, a port
//! of the switch's own, and the NIC is another port of the same datapath. `/sys` ties the two only
//! by the datapath (net/openvswitch/vport-netdev.c: every port's master is the datapath's device;
//! a port of the switch's own has none), and all bridges share one datapath. The hardware address
//! tells the bridge: it is that of the bridge's NIC, by OVN-Kubernetes' configure-ovs.sh, and by the
//! switch's own rule (vswitchd/bridge.c: the lowest of the bridge's ports).

use crate::host::Host;
use crate::observe::OvsRoute;
use crate::source::{netdev, parse, tree};
use std::collections::BTreeSet;

/// What ovs-vswitchd names its datapath's device, `ovs-system` (ofproto/ofproto-dpif.c: `ovs-TYPE`).
const DATAPATH: &str = "ovs-";

/// `ARPHRD_ETHER` of include/uapi/linux/if_arp.h.
const ETHERNET: u64 = 1;

/// Most ports of a datapath that are read; each pod on the node has one.
const MAX_PORTS: usize = 1024;

/// The default route that may leave through a port of a datapath. `routes`: interfaces with a
/// default route.
pub fn route_over(host: &Host, routes: &BTreeSet<String>, name: &str) -> Option<OvsRoute> {
    let datapath = datapath(host, name)?;
    let own_ports = routes.iter().filter(|route| is_own_port(host, route));
    let found = own_ports.filter_map(|route| leaves_by(host, (route, routes), name, &datapath));
    let found: Vec<OvsRoute> = found.collect();
    let sure = found.iter().find(|route| route.sure);
    sure.or(found.first()).cloned()
}

fn leaves_by(
    host: &Host,
    (route, routes): (&str, &BTreeSet<String>),
    name: &str,
    datapath: &str,
) -> Option<OvsRoute> {
    let over = |sure| {
        let port = route.to_string();
        Some(OvsRoute { port, sure })
    };
    let wanted = address(host, route);
    // A captured tree has no addresses; it names the NIC with the route.
    let is_below =
        |port: &str| routes.contains(port) || (wanted.is_some() && address(host, port) == wanted);
    if is_below(name) {
        return over(true);
    }
    let ports = netdev::lower_links(host, datapath, MAX_PORTS);
    let another = ports.iter().any(|port| is_below(port));
    if another { None } else { over(false) }
}

/// The device of the datapath that an interface is a port of.
fn datapath(host: &Host, name: &str) -> Option<String> {
    let master = tree::link_name(host, netdev::class_dir(name).join("master"))?;
    let dir = netdev::class_dir(&master);
    let other = ["device", "bonding", "bridge"];
    (master.starts_with(DATAPATH) && !other.iter().any(|file| tree::exists(host, dir.join(file))))
        .then_some(master)
}

/// Whether an interface looks like a port of a switch's own: a virtual Ethernet device with nothing
/// above, below or paired with it. Nothing in `/sys` says so outright.
fn is_own_port(host: &Host, name: &str) -> bool {
    let dir = netdev::class_dir(name);
    let Some(entries) = tree::list(host, &dir).value().cloned() else {
        return false;
    };
    let number = |file: &str| parse::decimal::<u64>(host, dir.join(file));
    let other = ["device", "master", "bonding", "bridge", "tun_flags"];
    let is_other = |entry: &String| other.contains(&entry.as_str()) || entry.starts_with("lower_");
    !entries.iter().any(is_other)
        && number("type").is_none_or(|kind| kind == ETHERNET)
        // The other end of a pair.
        && number("iflink").is_none_or(|peer| Some(peer) == number("ifindex"))
}

/// Hardware address, unless it is all zeros.
fn address(host: &Host, name: &str) -> Option<String> {
    let text = parse::word(host, netdev::class_dir(name).join("address"))?;
    let is_set = text.chars().any(|c| c != '0' && c != ':');
    is_set.then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    /// `br-ex` with the default route, and ports of the datapath with their addresses.
    fn node(ports: &[(&str, &str)]) -> TestTree {
        let tree = TestTree::new();
        tree.file("sys/class/net/ovs-system/type", "1");
        tree.files(
            "sys/class/net/br-ex",
            &[
                ("type", "1"),
                ("ifindex", "9"),
                ("iflink", "9"),
                ("address", "b8:3f:d2:00:00:0a"),
            ],
        );
        for (name, address) in ports {
            let dir = format!("sys/class/net/{name}");
            tree.file(&format!("{dir}/address"), address);
            tree.link(&format!("{dir}/master"), "../ovs-system");
            tree.link(
                &format!("sys/class/net/ovs-system/lower_{name}"),
                &format!("../{name}"),
            );
        }
        tree
    }

    fn over(tree: &TestTree, routes: &[&str], name: &str) -> Option<(String, bool)> {
        let routes = routes.iter().map(|route| route.to_string()).collect();
        let found = route_over(&tree.host(), &routes, name)?;
        Some((found.port, found.sure))
    }

    const SAME: &str = "B8:3f:d2:00:00:0a";
    const OTHER: &str = "b8:3f:d2:00:00:0b";

    #[test]
    fn the_address_tells_which_port_the_bridge_leaves_by() {
        let sure = |sure| Some(("br-ex".to_string(), sure));
        let tree = node(&[("eth0", SAME), ("eth1", OTHER)]);
        assert_eq!(over(&tree, &["br-ex"], "eth0"), sure(true));
        assert_eq!(over(&tree, &["br-ex"], "eth1"), None, "a rail's bridge");
        let tree = node(&[("eth0", "00:00:00:00:00:00"), ("eth1", OTHER)]);
        assert_eq!(over(&tree, &["br-ex"], "eth0"), sure(false));
        assert_eq!(over(&tree, &["br-ex"], "eth1"), sure(false));
        // As captured, without addresses.
        let tree = node(&[("eth0", ""), ("eth1", "")]);
        assert_eq!(over(&tree, &["br-ex", "eth0"], "eth0"), sure(true));
        assert_eq!(over(&tree, &["br-ex", "eth0"], "eth1"), None);
    }

    #[test]
    fn what_is_no_switch_carries_nothing() {
        let tree = node(&[("eth0", SAME)]);
        assert_eq!(over(&tree, &[], "eth0"), None);
        assert_eq!(over(&tree, &["nosuch"], "eth0"), None);
        assert_eq!(over(&tree, &["br-ex"], "br-ex"), None);
        tree.file("sys/class/net/eth2/address", SAME);
        assert_eq!(over(&tree, &["br-ex"], "eth2"), None, "no port of it");
        tree.link("sys/class/net/eth2/master", "../ovs-bond");
        tree.file("sys/class/net/ovs-bond/bonding/mode", "802.3ad 4");
        assert_eq!(over(&tree, &["br-ex"], "eth2"), None, "a bond by that name");
        for (file, text) in [
            ("tun_flags", "0x1002"),
            ("bridge/bridge_id", "8000"),
            ("type", "65534"),
            ("iflink", "4"),
            ("lower_eth5/type", "1"),
            ("device/vendor", "0x8086"),
        ] {
            let tree = node(&[("eth0", SAME)]);
            tree.file(&format!("sys/class/net/br-ex/{file}"), text);
            assert_eq!(over(&tree, &["br-ex"], "eth0"), None, "{file}");
        }
    }
}
