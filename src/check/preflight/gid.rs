//! The GID that RoCE connections use: `NCCL_IB_GID_INDEX`, or NCCL's own choice.

use super::nccl_list::{leading_integer, parse_number};
use super::{Checked, Item, ItemStatus, PodPort, PodView, known, list, port_name};
use crate::observe::{
    Environment, Gid, GidKind, GidTable, Interface, LinkLayer, Reading, SeenPort,
};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv6Addr};

/// Setting that selects the RoCE version; NCCL's default is 2.
const VERSION: &str = "NCCL_IB_ROCE_VERSION_NUM";

/// Setting that restricts NCCL's choice to one network, as in `10.0.0.0/16`.
const RANGE: &str = "NCCL_IB_ADDR_RANGE";

/// The slot that `NCCL_IB_GID_INDEX` selects; `None` if NCCL chooses, as it does below 0.
pub(crate) fn slot_asked(environment: &Environment) -> Option<u32> {
    u32::try_from(parse_number(environment.nccl("NCCL_IB_GID_INDEX")?.value)?).ok()
}

const ANOTHER_INDEX: &str = "NCCL_IB_GID_INDEX: unset it (NCCL 2.21 and later choose), or use the index that `show_gids` shows as v2 with this interface's address";
const AN_ADDRESS: &str = "give the RDMA interface an IP address in this pod (the `ipam` of its network attachment); NCCL before 2.21 needs NCCL_IB_GID_INDEX";

/// Judges the GID of every RoCE port that NCCL uses, and reports the worst.
pub(super) fn gid_index(context: &PodView<'_>) -> Checked {
    let setting = context.nccl("NCCL_IB_GID_INDEX");
    let slot = slot_asked(&context.facts.environment);
    let mut judged: Vec<(String, Item)> = Vec::new();
    let mut indexes = serde_json::Map::new();
    let is_roce = |(_, port): &PodPort<'_>| port.link_layer == LinkLayer::Ethernet;
    for port in context.selected().into_iter().filter(is_roce) {
        let name = port_name(&port);
        let (Ok(item) | Err(item)) = match slot {
            Some(slot) => in_slot(context, port.1, slot),
            None => chosen(context, port.1),
        };
        let index = item.evidence.get("index").cloned();
        indexes.insert(name.clone(), index.unwrap_or_default());
        judged.push((name, item));
    }
    judged.sort_by_key(|(_, item)| std::cmp::Reverse(item.status));
    let Some(((name, worst), others)) = judged.split_first() else {
        let skip = "NCCL uses no RoCE port here; on InfiniBand the setting has no effect";
        return Err(Item::skipped(skip));
    };
    let same = others.iter().filter(|(_, of)| of.status == worst.status);
    let same: Vec<&str> = same.map(|(name, _)| name.as_str()).collect();
    let likewise = match same.is_empty() {
        true => String::new(),
        false => format!("; likewise {}", list(&same)),
    };
    let lead = match (setting, slot) {
        (Some(setting), Some(_)) => setting.to_string(),
        (Some(setting), None) => format!("{setting}: NCCL chooses"),
        (None, _) => "NCCL_IB_GID_INDEX is not set: NCCL chooses".into(),
    };
    let remedy = match slot {
        _ if worst.status <= ItemStatus::Unknown => "",
        _ if !worst.remedy.is_empty() => &worst.remedy,
        Some(_) => ANOTHER_INDEX,
        None => AN_ADDRESS,
    };
    let message = format!("{lead}; {name}: {}{likewise}", worst.message);
    Ok(Item::new(worst.status, worst.reason, message)
        .fix(remedy)
        .with("index", indexes))
}

fn table(port: &SeenPort) -> Result<&GidTable, Item> {
    known(&port.gids, "GidUnreadable", "the GID table cannot be read")
}

/// Judges the slot that the setting selects.
fn in_slot(context: &PodView<'_>, port: &SeenPort, slot: u32) -> Checked {
    let table = table(port)?;
    let listed = table.gids.iter().find(|gid| gid.index == slot);
    let item = match (listed, &port.asked) {
        (Some(gid), _) => judge(context, table, gid),
        (None, Reading::Value(Some(gid))) if gid.index == slot => judge(context, table, gid),
        (None, Reading::Failed(fault)) => Item::unknown("GidUnreadable", &fault.detail),
        (None, Reading::NotObservable) if !table.complete => {
            Item::unknown("GidUnreadable", format!("slot {slot} was not read"))
        }
        _ => Item::failing("GidEmpty", format!("slot {slot} is empty{}", better(table))),
    };
    Ok(item.with("index", slot))
}

/// Judges the GID that NCCL would choose.
fn chosen(context: &PodView<'_>, port: &SeenPort) -> Checked {
    let table = table(port)?;
    let v6 = (context.nccl("NCCL_IB_ADDR_FAMILY")).is_some_and(|family| family.value == "AF_INET6");
    let range = context.nccl(RANGE);
    let network = range.and_then(|range| network(range.value, v6));
    let version = context.nccl_number(VERSION).unwrap_or(2);
    let index = nccl_choice(table, v6, version, network);
    let none = || Item::failing("NoUsableGid", "the GID table is empty").with("index", index);
    let gid = table.gids.iter().find(|gid| gid.index == index);
    let gid = gid.ok_or_else(none)?;
    let mut item = judge(context, table, gid);
    // NCCL stays with slot 0 if the table has nothing in the range.
    let is_outside = |network: &IpNet| !address(gid).is_some_and(|at| network.contains(&at));
    if let (Some(range), Some(_)) = (range, network.filter(is_outside)) {
        let message = format!("{}, and no GID in {range} is usable", item.message);
        let status = item.status.max(ItemStatus::Degraded);
        item = Item::new(status, Some("NoUsableGid"), message)
            .fix("NCCL_IB_ADDR_RANGE: the network of the RDMA interfaces' addresses, or unset it");
    }
    let message = format!("{}, and the table was not read completely", item.message);
    Item::unknown("GidUnreadable", message)
        .when(item.status != ItemStatus::Ok && !table.complete)?;
    item.reason = item.reason.map(|_| "NoUsableGid");
    Ok(item.with("index", index))
}

/// Whether a GID is usable.
fn judge(context: &PodView<'_>, table: &GidTable, gid: &Gid) -> Item {
    let at = format!("GID {} is {}", gid.index, shown(gid));
    let degraded = |reason, what: &str| {
        let better = better(table);
        let message = format!("{at}, {what} one network segment only{better}");
        Item::degraded(reason, message)
    };
    match gid.kind {
        Some(GidKind::IbOrRoceV1) if context.nccl_number(VERSION) == Some(1) => {
            return Item::ok(format!("{at}, RoCE v1, as {VERSION}=1 asks"));
        }
        Some(GidKind::IbOrRoceV1) => {
            let what = "RoCE v1, which cannot be routed: it reaches";
            return degraded("GidNotRoceV2", what);
        }
        None => return Item::unknown("GidUnreadable", format!("{at}, of unreadable type")),
        Some(GidKind::RoceV2) if !is_routable(gid) => {
            return degraded("GidLinkLocal", "a link-local address, which reaches");
        }
        Some(GidKind::RoceV2) => {}
    }
    let owner_of = |gid: &Gid| {
        let address = address(gid)?;
        let mut interfaces = context.facts.interfaces.value()?.iter();
        interfaces.find(|interface| interface.addresses.contains(&address))
    };
    if let Some(owner) = owner_of(gid) {
        return Item::ok(format!("{at}, RoCE v2, the address of {}", owner.name));
    }
    let mut usable = table.gids.iter().filter(|gid| is_usable(gid));
    match usable.find_map(|other| Some((other.index, owner_of(other)?))) {
        Some((index, Interface { name, .. })) => {
            let here = format!("GID {index} is that of {name}");
            let message = format!("{at}, an address that this container does not have; {here}");
            Item::degraded("GidOfAnotherInterface", message)
        }
        // The shared device plugin leaves the interface in the node's network namespace.
        None => Item::ok(format!("{at}, RoCE v2, an address of the node")),
    }
}

/// A hint at a usable index.
fn better(table: &GidTable) -> String {
    let usable = table.gids.iter().find(|gid| is_usable(gid));
    usable.map_or(String::new(), |gid| {
        format!("; index {} is RoCE v2 ({})", gid.index, shown(gid))
    })
}

fn shown(gid: &Gid) -> String {
    address(gid).map_or_else(|| gid.gid.clone(), |address| address.to_string())
}

/// The address in a GID: IPv4 if it is mapped.
fn address(gid: &Gid) -> Option<IpAddr> {
    Some(IpAddr::V6(gid.gid.parse::<Ipv6Addr>().ok()?).to_canonical())
}

fn is_usable(gid: &Gid) -> bool {
    gid.kind == Some(GidKind::RoceV2) && is_routable(gid)
}

/// Neither empty nor fe80::/64 (NCCL's `validGid`).
fn is_routable(gid: &Gid) -> bool {
    gid.gid.parse::<Ipv6Addr>().is_ok_and(|raw| {
        let [a, b, c, d, ..] = raw.segments();
        !raw.is_unspecified() && (a, b, c, d) != (0xfe80, 0, 0, 0)
    })
}

/// `NCCL_IB_ADDR_RANGE` as NCCL reads it (`envIbAddrRange`, src/transport/net_ib/connect.cc); `None`
/// if NCCL ignores it: no `/`, an address of another family, too many bits.
fn network(text: &str, v6: bool) -> Option<IpNet> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    // NCCL takes leading digits and ignores what follows them.
    let bits = leading_integer(bits.trim_start(), 10).unwrap_or(0).max(0);
    let network = IpNet::new(address, u8::try_from(bits).ok()?).ok();
    network.filter(|_| address.is_ipv6() == v6)
}

/// NCCL's choice since 2.21 (`ncclIbGetGidIndex`, src/transport/net_ib/connect.cc): it begins with
/// slot 0 and moves to a later one of the network, if one is set, that has the wanted family when the
/// current one has not, or that has the wanted version when the current one has another or is not
/// routable.
fn nccl_choice(table: &GidTable, v6: bool, version: i64, network: Option<IpNet>) -> u32 {
    let wanted = match version {
        1 => Some(GidKind::IbOrRoceV1),
        2 => Some(GidKind::RoceV2),
        _ => None,
    };
    let has_version = |gid: &Gid| gid.kind.is_some() && gid.kind == wanted;
    let has_family = |gid: &Gid| matches!(address(gid), Some(IpAddr::V4(_))) != v6;
    let in_network = |gid: &Gid| {
        network.is_none_or(|network| address(gid).is_some_and(|at| network.contains(&at)))
    };
    let mut held = table.gids.iter().find(|gid| gid.index == 0);
    for gid in table.gids.iter().filter(|gid| gid.index > 0) {
        let fits = has_family(gid) && in_network(gid);
        // An empty slot counts as IPv6.
        let held_has_family = held.map_or(v6, has_family);
        let is_good = |gid: &Gid| has_version(gid) && is_routable(gid);
        if fits && (!held_has_family || is_good(gid) && !held.is_some_and(is_good)) {
            held = Some(gid);
        }
    }
    held.map_or(0, |gid| gid.index)
}

#[cfg(test)]
mod tests;
