//! IPv4 on interfaces, and which carry a default route: `/proc/net/route`, `/proc/net/ipv6_route`. Such an
//! interface is the node's management network, not a rail.

use crate::host::Host;
use crate::observe::{Ipv4Facts, Reading};
use crate::source::netlink::route;
use crate::source::{netdev, parse, tree};
use ipnet::Ipv4Net;
use std::{collections::BTreeSet, net::Ipv4Addr};

/// `RTF_UP` and `RTF_REJECT` of include/uapi/linux/route.h.
const RTF_UP: u32 = 0x0001;
const RTF_REJECT: u32 = 0x0200;
/// `RTF_GATEWAY`: not a subnet of the interface's own.
const RTF_GATEWAY: u32 = 0x0002;

/// Most interfaces one above the other (a VLAN in a VLAN over a bond).
const MAX_STACK: usize = 4;

/// Interfaces of default routes, both protocols, and those that they lie on where they are VLANs or
/// the like.
pub fn default_route_devices(host: &Host) -> Reading<BTreeSet<String>> {
    let stack = |name| {
        let downwards = std::iter::successors(Some(name), |above: &String| below(host, above));
        downwards.take(1 + MAX_STACK)
    };
    routed(host).map(|routes| routes.into_iter().flat_map(stack).collect())
}

/// What a VLAN, a macvlan or an ipvlan lies on: its one `lower_*` link. Bonds and bridges have such links too, to what names them `master`.
fn below(host: &Host, name: &str) -> Option<String> {
    let dir = netdev::class_dir(name);
    let many = ["bonding", "bridge", "device"];
    if many.iter().any(|entry| tree::exists(host, dir.join(entry))) {
        return None;
    }
    match netdev::lower_links(host, name, 2).as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// Interfaces of default routes, both protocols.
fn routed(host: &Host) -> Reading<BTreeSet<String>> {
    let v4 = read(host, "route").map(|text| parse_v4(&text));
    let v6 = read(host, "ipv6_route").map(|text| parse_v6(&text));
    match (v4, v6) {
        (Reading::Value(mut v4), Reading::Value(v6)) => {
            v4.extend(v6);
            Reading::Value(v4)
        }
        (Reading::Value(one), _) | (_, Reading::Value(one)) => Reading::Value(one),
        (v4, _) => v4,
    }
}

/// `/proc/net` is the reader's own network namespace; that of process 1 is the node's, also where
/// the agent has a network of its own and the node's `/proc` below another root.
fn read(host: &Host, file: &str) -> Reading<String> {
    match tree::read_text(host, format!("proc/1/net/{file}")) {
        Reading::Value(text) => Reading::Value(text),
        _ => tree::read_text(host, format!("proc/net/{file}")),
    }
}

/// A line of `/proc/net/route`. Columns: Iface Destination Gateway Flags RefCnt Use Metric Mask …,
/// hexadecimal.
struct V4<'a> {
    interface: &'a str,
    destination: u32,
    flags: u32,
    metric: u32,
    mask: u32,
}

fn v4(line: &str) -> Option<V4<'_>> {
    let mut columns = line.split_ascii_whitespace();
    Some(V4 {
        interface: columns.next()?,
        destination: hex(columns.next()?)?,
        flags: hex(columns.nth(1)?)?,
        metric: columns.nth(2)?.parse().ok()?,
        mask: hex(columns.next()?)?,
    })
}

/// Whether a route is up and leads somewhere.
fn is_in_use(flags: u32) -> bool {
    flags & (RTF_UP | RTF_REJECT) == RTF_UP
}

/// Interfaces of the IPv4 default routes that are used.
pub fn parse_v4(text: &str) -> BTreeSet<String> {
    let routes = text.lines().filter_map(v4);
    let default = |r: &V4<'_>| r.destination == 0 && r.mask == 0 && is_in_use(r.flags);
    let defaults = routes.filter(default);
    of_lowest_metric(defaults.map(|route| (route.metric, route.interface)))
}

/// Of several default routes the kernel uses those of the lowest metric: DHCP gives one to each interface that
/// it serves.
fn of_lowest_metric<'a>(routes: impl Iterator<Item = (u32, &'a str)>) -> BTreeSet<String> {
    let routes: Vec<(u32, &str)> = routes.collect();
    let lowest = routes.iter().map(|(metric, _)| *metric).min();
    let used = routes.iter().filter(|(metric, _)| Some(*metric) == lowest);
    used.map(|(_, interface)| interface.to_string()).collect()
}

/// Whether the node's network is that of this process, which netlink tells of. Each network namespace has
/// files, and so inode numbers, of its own (proc_alloc_inum in fs/proc/generic.c).
fn is_own_network(host: &Host) -> bool {
    let own = tree::inode(&Host::new("/"), "proc/self/net/dev");
    own.is_some() && own == tree::inode(host, "proc/1/net/dev")
}

/// IPv4 on an interface, as the reader's network namespace has it.
pub fn ipv4(host: &Host, name: &str) -> Ipv4Facts {
    let in_force = |setting: &str| {
        let of = |scope: &str| -> Option<u32> {
            parse::decimal(host, format!("proc/sys/net/ipv4/conf/{scope}/{setting}"))
        };
        Some(of("all")?.max(of(name)?))
    };
    let subnets = subnets(host, name);
    let (rp_filter, arp_filter) = (in_force("rp_filter"), in_force("arp_filter"));
    // Rules matter to a check of the reverse path and to ARP by route alone.
    let asked = !subnets.is_empty()
        && (rp_filter == Some(1) || arp_filter > Some(0))
        && is_own_network(host);
    let ruled = asked.then(route::ruled_addresses).and_then(Result::ok);
    let inside = |address: &&Ipv4Addr| subnets.iter().any(|net| net.contains(*address));
    Ipv4Facts {
        ruled: ruled.map(|all| all.iter().filter(inside).count()),
        subnets: subnets.iter().map(Ipv4Net::to_string).collect(),
        rp_filter,
        arp_ignore: in_force("arp_ignore"),
        arp_announce: in_force("arp_announce"),
        arp_filter,
    }
}

/// Most subnets of one interface taken.
const MAX_SUBNETS: usize = 8;

/// IPv4 subnets of more than two addresses that an interface is in, by the main table.
fn subnets(host: &Host, interface: &str) -> Vec<Ipv4Net> {
    let text = read(host, "route").into_value().unwrap_or_default();
    let found = text.lines().filter_map(|line| subnet(line, interface));
    found.take(MAX_SUBNETS).collect()
}

fn subnet(line: &str, interface: &str) -> Option<Ipv4Net> {
    let route = v4(line).filter(|route| route.interface == interface)?;
    // The kernel prints addresses as it holds them, in network order (fib_trie.c).
    let address = Ipv4Addr::from(route.destination.to_ne_bytes());
    let length = route.mask.count_ones() as u8;
    let direct = is_in_use(route.flags) && route.flags & RTF_GATEWAY == 0;
    let subnet = Ipv4Net::new(address, length).ok()?;
    (direct && (1..31).contains(&length)).then_some(subnet)
}

/// Interfaces of IPv6 default routes. Columns: destination, its prefix length, source, its prefix
/// length, next hop, metric, references, use, flags, interface.
pub fn parse_v6(text: &str) -> BTreeSet<String> {
    of_lowest_metric(text.lines().filter_map(default_v6))
}

fn default_v6(line: &str) -> Option<(u32, &str)> {
    let mut columns = line.split_ascii_whitespace();
    let destination = columns.next()?;
    let length = hex(columns.next()?)?;
    let metric = hex(columns.nth(3)?)?;
    let flags = hex(columns.nth(2)?)?;
    let interface = columns.next()?;
    let default = destination.bytes().all(|b| b == b'0')
        && length == 0
        && is_in_use(flags)
        && interface != "lo";
    default.then_some((metric, interface))
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    const V4: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth1\t00000000\t010200C0\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth2\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0
eth3\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth4\t00000000\t010200C0\t0003\t0\t0\t101\t00000000\t0\t0\t0
torn\t0000";

    const V6: &str = "\
fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth5
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003     eth6
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
";

    #[test]
    fn defaults_only() {
        assert_eq!(parse_v4(V4).into_iter().collect::<Vec<_>>(), ["eth0"]);
        assert_eq!(parse_v6(V6).into_iter().collect::<Vec<_>>(), ["eth6"]);
        assert!(parse_v4("").is_empty());
    }

    #[test]
    fn the_node_s_own_table_comes_first() {
        let tree = TestTree::new();
        assert_eq!(default_route_devices(&tree.host()), Reading::Absent);
        tree.file("proc/net/ipv6_route", V6);
        let names = |tree: &TestTree| -> Vec<String> {
            let devices = default_route_devices(&tree.host());
            devices.value().unwrap().iter().cloned().collect()
        };
        assert_eq!(names(&tree), ["eth6"]);
        tree.file("proc/net/route", &V4.replace("eth0", "pod0"));
        assert_eq!(names(&tree), ["eth6", "pod0"]);
        tree.file("proc/1/net/route", V4);
        assert_eq!(names(&tree), ["eth0", "eth6"]);
    }

    #[test]
    fn what_a_vlan_with_the_route_lies_on() {
        for (route, links, want) in [
            (
                "bond0.7",
                &["bond0.7/lower_bond0", "bond0/bonding", "bond0/lower_eth0"][..],
                "bond0 bond0.7",
            ),
            (
                "v9",
                &["v9/lower_v7", "v7/lower_eth0", "eth0/device"],
                "eth0 v7 v9",
            ),
            ("br0", &["br0/bridge", "br0/lower_eth0"], "br0"),
            ("bond0", &["bond0/bonding", "bond0/lower_eth0"], "bond0"),
            ("team0", &["team0/lower_eth0", "team0/lower_eth1"], "team0"),
            ("a", &["a/lower_b", "b/lower_a"], "a b"),
            ("gone", &[], "gone"),
        ] {
            let tree = TestTree::new();
            tree.file("proc/net/route", &V4.replace("eth0", route));
            for link in links {
                tree.file(&format!("sys/class/net/{link}/ifindex"), "1");
            }
            let devices = default_route_devices(&tree.host());
            let names: Vec<_> = devices.value().unwrap().iter().cloned().collect();
            assert_eq!(names.join(" "), want);
        }
    }

    #[test]
    fn of_two_ip_settings_the_greater_one_is_in_force() {
        let tree = TestTree::new();
        let conf = |scope: &str, name: &str, value: &str| {
            tree.file(&format!("proc/sys/net/ipv4/conf/{scope}/{name}"), value);
        };
        for (name, all, own) in [
            ("rp_filter", "2", "1"),
            ("arp_ignore", "0", "1"),
            ("arp_announce", "0", "0"),
        ] {
            conf("all", name, all);
            conf("eth3", name, own);
        }
        tree.file(
            "proc/net/route",
            "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
             eth3 0000090A 00000000 0001 0 0 0 00FFFFFF 0 0 0\n\
             eth3 0200090A 00000000 0001 0 0 0 FEFFFFFF 0 0 0\n\
             eth3 00000A0A 0100090A 0003 0 0 0 00FFFFFF 0 0 0\n\
             eth4 00000B0A 00000000 0001 0 0 0 00FFFFFF 0 0 0",
        );
        let want = Ipv4Facts {
            subnets: vec!["10.9.0.0/24".into()],
            rp_filter: Some(2),
            arp_ignore: Some(1),
            arp_announce: Some(0),
            arp_filter: None,
            ruled: None,
        };
        assert_eq!(ipv4(&tree.host(), "eth3"), want);
    }
}
