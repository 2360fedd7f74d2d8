//! Network interfaces with their addresses, as getifaddrs(3) gives them to NCCL and Gloo.

use crate::host::Host;
use crate::observe::container::Interface;
use crate::observe::reading::{Fault, FaultKind, Reading};
use crate::source::netdev::class_dir;
use crate::source::{parse, tree};
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Addresses of a directory tree that stands for a container: `NAME ADDRESS` lines.
pub const RECORDED: &str = "selvage/addresses";

/// Most interfaces and addresses taken.
const MAX: usize = 1024;

/// Interfaces of this network namespace; of a directory tree, those of its `/sys`, with the
/// addresses of [`RECORDED`].
pub fn read(host: &Host) -> Reading<Vec<Interface>> {
    if host.is_live() {
        live()
    } else {
        recorded(host)
    }
}

/// Names in `/sys/class/net`, each with its driver.
pub fn links(host: &Host) -> Reading<BTreeMap<String, Option<String>>> {
    names(host).map(|names| {
        let links = names.into_iter().map(|name| {
            let driver = tree::link_name(host, class_dir(&name).join("device/driver"));
            (name, driver)
        });
        links.collect()
    })
}

/// Names of what is an interface in `/sys/class/net`; `bonding_masters` is none.
fn names(host: &Host) -> Reading<Vec<String>> {
    tree::list(host, "sys/class/net").map(|names| {
        let names = names.into_iter();
        let names = names.filter(|name| tree::exists(host, class_dir(name).join("flags")));
        names.take(MAX).collect()
    })
}

fn live() -> Reading<Vec<Interface>> {
    let addresses = match getifaddrs() {
        Ok(addresses) => addresses,
        Err(errno) => {
            return Reading::Failed(Fault {
                kind: FaultKind::Other,
                detail: format!("getifaddrs: {errno}"),
            });
        }
    };
    let mut interfaces: Vec<Interface> = Vec::new();
    for address in addresses.take(MAX) {
        let at = interface(&mut interfaces, &address.interface_name);
        at.running = address.flags.contains(InterfaceFlags::IFF_RUNNING);
        let Some(storage) = address.address else {
            continue;
        };
        let ip = match (storage.as_sockaddr_in(), storage.as_sockaddr_in6()) {
            (Some(v4), _) => IpAddr::V4(v4.ip()),
            (_, Some(v6)) => IpAddr::V6(v6.ip()),
            _ => continue,
        };
        at.addresses.push(ip);
    }
    Reading::Value(interfaces)
}

/// The interface of this name, made where it is new.
fn interface<'a>(all: &'a mut Vec<Interface>, name: &str) -> &'a mut Interface {
    let at = match all.iter().position(|known| known.name == name) {
        Some(at) => at,
        None => {
            all.push(Interface {
                name: name.to_string(),
                ..Interface::default()
            });
            all.len() - 1
        }
    };
    #[expect(clippy::indexing_slicing, reason = "found or pushed above")]
    &mut all[at]
}

fn recorded(host: &Host) -> Reading<Vec<Interface>> {
    let Reading::Value(addresses) = tree::read_text(host, RECORDED) else {
        return Reading::NotObservable;
    };
    names(host).map(|names| {
        names
            .into_iter()
            .map(|name| {
                let up = parse::hex(host, class_dir(&name).join("flags"))
                    .is_some_and(|flags| flags & 1 != 0);
                let carrier = parse::word(host, class_dir(&name).join("carrier"));
                Interface {
                    running: up && carrier.as_deref() == Some("1"),
                    addresses: of(&addresses, &name),
                    name,
                }
            })
            .collect()
    })
}

fn of(recorded: &str, name: &str) -> Vec<IpAddr> {
    recorded
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(owner, _)| *owner == name)
        .filter_map(|(_, address)| address.trim().parse().ok())
        .collect()
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
