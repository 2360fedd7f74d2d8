//! Interfaces for sockets: NCCL's and Gloo's.

use super::devices::{any_of, list};
use super::nccl_list::{MAX_INTERFACES, NcclList};
use super::scene::Scene;
use super::{Item, ItemStatus};
use crate::observe::container::Interface;
use crate::observe::reading::Reading;
use std::net::IpAddr;

/// Groups in which NCCL looks where nothing is set, the first that has any being taken
/// (`ncclFindInterfaces`, src/misc/socket.cc; `NCCL_COMM_ID` left aside).
const GROUPS: &[&str] = &["ib", "^docker,lo,virbr", "docker", "lo", "virbr"];

/// What is told of interfaces that could not be listed.
pub(super) fn unreadable(id: &'static str, reading: &Reading<Vec<Interface>>) -> Item {
    let why = match reading {
        Reading::Failed(fault) => fault.detail.clone(),
        _ => "the interfaces and their addresses cannot be read".into(),
    };
    Item::unknown(id, "InterfacesUnreadable", why)
}

/// The address that NCCL would take of an interface: the first of the family, `::1` passed over;
/// none where the interface is not running.
fn address(interface: &Interface, family: Option<bool>) -> Option<IpAddr> {
    let addresses = interface.addresses.iter().copied().filter(|address| {
        family.is_none_or(|v6| address.is_ipv6() == v6)
            && *address != IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)
    });
    let first = addresses.min_by_key(IpAddr::is_ipv6);
    first.filter(|_| interface.running)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
        IpAddr::V4(v4) => v4.is_link_local(),
    }
}

/// `NCCL_SOCKET_IFNAME`: the interface of the bootstrap, and of TCP.
pub(super) fn nccl(scene: &Scene<'_>) -> Item {
    const ID: &str = "socket_ifname";
    let Reading::Value(all) = &scene.facts.interfaces else {
        return unreadable(ID, &scene.facts.interfaces);
    };
    let family = match scene
        .nccl("NCCL_SOCKET_FAMILY")
        .map(|asked| asked.setting.value)
    {
        Some("AF_INET") => Some(false),
        Some("AF_INET6") => Some(true),
        _ => None,
    };
    let mut usable: Vec<(&str, IpAddr)> = all
        .iter()
        .filter_map(|interface| Some((interface.name.as_str(), address(interface, family)?)))
        .collect();
    // NCCL goes by addresses, and getifaddrs(3) gives it IPv4's of all interfaces before the first
    // of IPv6.
    usable.sort_by_key(|(_, address)| address.is_ipv6());
    let names: Vec<String> = usable.iter().map(|(name, _)| (*name).to_string()).collect();
    let take = |text: &str| -> Vec<(&str, IpAddr)> {
        let list = NcclList::parse(text, MAX_INTERFACES);
        let taken = usable.iter().filter(|(name, _)| list.selects(name, None));
        taken.copied().collect()
    };
    // One character or none counts as unset.
    let asked = scene
        .nccl("NCCL_SOCKET_IFNAME")
        .filter(|asked| asked.setting.value.len() > 1);
    let (told, taken) = match &asked {
        Some(asked) => (asked.told(), take(asked.setting.value)),
        None => (
            "not set: NCCL's own choice".to_string(),
            GROUPS
                .iter()
                .map(|group| take(group))
                .find(|taken| !taken.is_empty())
                .unwrap_or_default(),
        ),
    };
    let shown: Vec<String> = taken
        .iter()
        .map(|(name, at)| format!("{name} ({at})"))
        .collect();
    let bare: Vec<&str> = taken.iter().map(|(name, _)| *name).collect();
    let others: Vec<String> = names
        .iter()
        .filter(|name| !is_local_only(name) && !bare.contains(&name.as_str()))
        .cloned()
        .collect();
    // Entries that no usable interface has: NCCL passes them over.
    let list_read = asked
        .as_ref()
        .map(|asked| NcclList::parse(asked.setting.value, MAX_INTERFACES))
        .filter(|list| !list.excludes);
    let passed_over: Vec<String> = list_read
        .iter()
        .flat_map(|list| {
            let unmatched = list
                .entries
                .iter()
                .filter(|entry| !usable.iter().any(|(name, _)| list.names(entry, name, None)));
            unmatched.map(|entry| entry.name.clone())
        })
        .collect();
    let blank = passed_over.iter().any(|name| name.trim() != name);
    let item = if let Some((name, at)) = taken.first() {
        if !scene.is_one_node() && bare.iter().all(|name| is_local_only(name)) {
            let status = match (scene.is_many_nodes(), asked.is_some()) {
                (true, _) => ItemStatus::Failing,
                (false, true) => ItemStatus::Degraded,
                (false, false) => ItemStatus::Unknown,
            };
            Item::new(
                ID,
                status,
                Some("LocalInterface"),
                format!("{told}: {}, which no other node reaches", list(&shown)),
            )
            .fix(if others.is_empty() {
                "the pod has no other interface with an address: look at its network (CNI, `hostNetwork`)".into()
            } else {
                format!("NCCL_SOCKET_IFNAME: {}", others.join(","))
            })
        } else if is_link_local(*at) && scene.is_many_nodes() {
            // The bootstrap takes the first.
            Item::degraded(
                ID,
                "LinkLocalAddress",
                format!("{told}: {name} has the link-local address {at} only"),
            )
            .fix("give the interface an address, or NCCL_SOCKET_IFNAME: another one")
        } else if passed_over.is_empty() {
            Item::ok(ID, format!("{told}: {}", list(&shown)))
        } else {
            let message = format!(
                "{told}: {}; nothing usable is called {}",
                list(&shown),
                quoted(&passed_over)
            );
            let fix = format!("NCCL_SOCKET_IFNAME: {}", bare.join(","));
            // One of several names that do for a fleet; it matters where the data goes that way.
            match (blank, scene.tcp.is_some()) {
                (true, _) => Item::degraded(
                    ID,
                    "InterfacePartly",
                    format!("{message}: a blank counts as part of the name"),
                )
                .fix(fix),
                (false, true) => Item::degraded(ID, "InterfacePartly", message).fix(fix),
                (false, false) => Item::ok(ID, format!("{message}, which NCCL passes over")),
            }
        }
    } else {
        let there = asked.as_ref().and_then(|asked| {
            let list = NcclList::parse(asked.setting.value, MAX_INTERFACES);
            let mut there = all
                .iter()
                .filter(|i| !list.excludes && list.selects(&i.name, None));
            there.next()
        });
        let why = match there {
            Some(interface) if !interface.running => format!("{} is down", interface.name),
            Some(interface) => format!("{} has no address", interface.name),
            None => format!("there are {}", list(&names)),
        };
        Item::failing(
            ID,
            "NoInterface",
            format!("{told} selects no interface: {why}. NCCL ends (`no socket interface found`)"),
        )
        .fix(if others.is_empty() {
            "NCCL_SOCKET_IFNAME: an interface of this pod that is up and has an address".into()
        } else {
            format!("NCCL_SOCKET_IFNAME: {} or unset it", others.join(","))
        })
    };
    item.with("selected", bare)
}

/// Names with their blanks to be seen.
fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    list(&names)
}

/// Interfaces that join nothing but this machine's own containers.
pub(super) fn is_local_only(name: &str) -> bool {
    ["lo", "docker", "virbr"]
        .iter()
        .any(|local| name.starts_with(local))
}

/// `GLOO_SOCKET_IFNAME`: whole names, divided by commas; Gloo ends at the first that has no address
/// (PyTorch, ProcessGroupGloo).
pub(super) fn gloo(scene: &Scene<'_>) -> Item {
    const ID: &str = "gloo_ifname";
    let Some(value) = scene.facts.environment.get("GLOO_SOCKET_IFNAME") else {
        return Item::skipped(ID, "not set: Gloo takes the address of the host's name");
    };
    let Reading::Value(all) = &scene.facts.interfaces else {
        return unreadable(ID, &scene.facts.interfaces);
    };
    let usable = |name: &str| {
        all.iter()
            .any(|interface| interface.name == name && !interface.addresses.is_empty())
    };
    let names: Vec<&str> = value.split(',').filter(|name| !name.is_empty()).collect();
    let missing: Vec<String> = names
        .iter()
        .filter(|name| !usable(name))
        .map(|name| (*name).to_string())
        .collect();
    let there: Vec<String> = all
        .iter()
        .filter(|interface| usable(&interface.name) && !is_local_only(&interface.name))
        .map(|interface| interface.name.clone())
        .collect();
    if names.is_empty() || !missing.is_empty() {
        return Item::failing(
            ID,
            "NoInterface",
            format!(
                "GLOO_SOCKET_IFNAME={value}: no interface with an address is called {}; Gloo takes whole names and ends",
                list(&missing)
            ),
        )
        .fix(match there.is_empty() {
            true => "GLOO_SOCKET_IFNAME: unset it; no interface in here but the loopback has an address (the pod's network: CNI, `hostNetwork`)".into(),
            false => format!("GLOO_SOCKET_IFNAME: unset it, or {}", any_of(&there)),
        });
    }
    if names.iter().all(|name| is_local_only(name)) && scene.is_many_nodes() {
        return Item::failing(
            ID,
            "LocalInterface",
            format!("GLOO_SOCKET_IFNAME={value}, which no other node reaches"),
        )
        .fix(match there.is_empty() {
            true => "the pod has no other interface with an address: look at its network (CNI, `hostNetwork`)".into(),
            false => format!("GLOO_SOCKET_IFNAME: {}", any_of(&there)),
        });
    }
    Item::ok(ID, format!("GLOO_SOCKET_IFNAME={value}"))
}

#[cfg(test)]
mod tests;
