//! Network interfaces with their addresses, as getifaddrs(3) gives them to NCCL and Gloo.

use crate::host::Host;
use crate::observe::{Fault, Interface, Reading};
use crate::source::{netdev, parse, tree};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use std::{collections::BTreeMap, net::IpAddr};

/// File of a directory tree that records addresses, as `NAME ADDRESS` lines.
const RECORDED: &str = "selvage/addresses";

/// Most interfaces and addresses that are read.
const MAX: usize = 1024;

/// Interfaces of this network namespace; for a directory tree those of its `/sys`, with the
/// recorded addresses.
pub(crate) fn read(host: &Host) -> Reading<Vec<Interface>> {
    match host.is_live() {
        true => live(),
        false => recorded(host),
    }
}

/// Names in `/sys/class/net`, each with its driver.
pub(crate) fn links(host: &Host) -> Reading<BTreeMap<String, Option<String>>> {
    let driver = |name: &str| tree::link_name(host, netdev::class_dir(name).join("device/driver"));
    names(host).map(|names| {
        let names = names.into_iter();
        names.map(|name| (name.clone(), driver(&name))).collect()
    })
}

/// Interfaces in `/sys/class/net`, which also holds files such as `bonding_masters`.
fn names(host: &Host) -> Reading<Vec<String>> {
    let is_interface = |name: &String| tree::exists(host, netdev::class_dir(name).join("flags"));
    tree::list(host, "sys/class/net")
        .map(|names| names.into_iter().filter(is_interface).take(MAX).collect())
}

fn live() -> Reading<Vec<Interface>> {
    let addresses = match getifaddrs() {
        Ok(addresses) => addresses,
        Err(errno) => return Reading::Failed(Fault::other(format!("getifaddrs: {errno}"))),
    };
    let mut interfaces: Vec<Interface> = Vec::new();
    for entry in addresses.take(MAX) {
        let name = entry.interface_name;
        let storage = entry.address.as_ref();
        let v4 = storage.and_then(|s| Some(IpAddr::V4(s.as_sockaddr_in()?.ip())));
        let v6 = storage.and_then(|s| Some(IpAddr::V6(s.as_sockaddr_in6()?.ip())));
        let address = v4.or(v6);
        match interfaces.iter_mut().find(|known| known.name == name) {
            Some(known) => known.addresses.extend(address),
            None => interfaces.push(Interface {
                name,
                running: entry.flags.contains(InterfaceFlags::IFF_RUNNING),
                addresses: address.into_iter().collect(),
            }),
        }
    }
    Reading::Value(interfaces)
}

fn recorded(host: &Host) -> Reading<Vec<Interface>> {
    let Reading::Value(lines) = tree::read_text(host, RECORDED) else {
        return Reading::NotObservable;
    };
    let addresses = |of: &str| {
        let lines = lines.lines().filter_map(|line| line.split_once(' '));
        let own = lines.filter(|(name, _)| *name == of);
        own.filter_map(|(_, address)| address.trim().parse().ok())
            .collect()
    };
    let is_running = |name: &str| {
        let flags = parse::hex(host, netdev::class_dir(name).join("flags"));
        let carrier = parse::word(host, netdev::class_dir(name).join("carrier"));
        flags.is_some_and(|flags| flags & 1 != 0) && carrier.as_deref() == Some("1")
    };
    let interface = |name: String| Interface {
        running: is_running(&name),
        addresses: addresses(&name),
        name,
    };
    names(host).map(|names| names.into_iter().map(interface).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    #[test]
    fn of_a_tree() {
        let tree = TestTree::new();
        assert_eq!(read(&tree.host()), Reading::NotObservable);
        for (name, flags, carrier) in [
            ("eth0", "0x1003", "1"),
            ("eth1", "0x1003", "0"),
            ("eth2", "0x1002", "1"),
        ] {
            tree.files(
                &format!("sys/class/net/{name}"),
                &[("flags", flags), ("carrier", carrier)],
            );
        }
        tree.file("sys/class/net/bonding_masters", "");
        tree.file(RECORDED, "eth0 10.0.0.5\neth0 fe80::1\njunk\neth1 x");
        let got = read(&tree.host()).value().cloned().unwrap();
        let short: Vec<_> = got
            .iter()
            .map(|i| (i.name.as_str(), i.running, i.addresses.len()))
            .collect();
        assert_eq!(
            short,
            [("eth0", true, 2), ("eth1", false, 0), ("eth2", false, 0)]
        );
    }

    #[test]
    fn drivers_are_known_without_addresses() {
        let tree = TestTree::new();
        tree.file("sys/class/net/eth0/flags", "0x1003");
        tree.file("sys/class/net/lo/flags", "0x9");
        tree.file("sys/class/net/bonding_masters", "");
        tree.link(
            "sys/class/net/eth0/device/driver",
            "../../bus/pci/drivers/gve",
        );
        let got = links(&tree.host()).value().cloned().unwrap();
        let want = [("eth0".into(), Some("gve".into())), ("lo".into(), None)];
        assert_eq!(got, want.into());
    }

    #[test]
    fn of_this_machine() {
        let Reading::Value(got) = live() else {
            panic!("no interfaces");
        };
        let lo = got.iter().find(|i| i.name == "lo").expect("a loopback");
        assert!(!lo.running || lo.addresses.contains(&"127.0.0.1".parse().unwrap()));
    }
}
