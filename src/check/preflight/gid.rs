//! The GID that RoCE connections use: `NCCL_IB_GID_INDEX`, or NCCL's own choice.

mod choice;

use super::context::{Context, Port, link_layer, port_name};
use super::item::{Item, ItemStatus};
use super::nccl_list::parse_number;
use super::wording::list;
use crate::observe::container::Environment;
use crate::observe::rdma::{Gid, GidKind, GidTable, LinkLayer};
use crate::observe::reading::Reading;
use choice::{nccl_choice, network};
use std::net::{IpAddr, Ipv6Addr};

/// Setting that selects the RoCE version; NCCL's default is 2.
const VERSION: &str = "NCCL_IB_ROCE_VERSION_NUM";

/// Setting that restricts NCCL's choice to one network, as in `10.0.0.0/16`.
const RANGE: &str = "NCCL_IB_ADDR_RANGE";

/// The slot that `NCCL_IB_GID_INDEX` selects; `None` if NCCL chooses, as it does below 0.
pub(crate) fn slot_asked(environment: &Environment) -> Option<u32> {
    u32::try_from(parse_number(environment.nccl("NCCL_IB_GID_INDEX")?.value)?).ok()
}

/// The RoCE ports that NCCL uses.
fn roce_ports<'a>(context: &Context<'a>) -> Vec<Port<'a>> {
    let mut ports = context.selected();
    ports.retain(|(device, port)| link_layer(device, port) == LinkLayer::Ethernet);
    ports
}

/// Why the item does not apply.
pub(super) fn gid_index_skip(context: &Context<'_>) -> Option<&'static str> {
    let skip = "NCCL uses no RoCE port here; on InfiniBand the setting has no effect";
    roce_ports(context).is_empty().then_some(skip)
}

/// Judges the GID of every RoCE port and reports the worst.
pub(super) fn gid_index(context: &Context<'_>) -> Item {
    let setting = context.nccl("NCCL_IB_GID_INDEX");
    let slot = slot_asked(&context.facts.environment);
    let mut judged = Vec::new();
    let mut indexes = serde_json::Map::new();
    for port in roce_ports(context) {
        let (index, item) = judge_port(context, port, slot);
        indexes.insert(port_name(&port), index.into());
        judged.push((port_name(&port), item));
    }
    judged.sort_by_key(|(_, item)| std::cmp::Reverse(item.status));
    let mut judged = judged.into_iter();
    let Some((name, worst)) = judged.next() else {
        return Item::skipped("no port");
    };
    let same = judged.filter(|(_, item)| item.status == worst.status);
    let same: Vec<String> = same.map(|(name, _)| name).collect();
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
        Some(_) => {
            "NCCL_IB_GID_INDEX: unset it (NCCL 2.21 and later choose), or use the index that `show_gids` shows as v2 with this interface's address"
        }
        None => {
            "give the RDMA interface an IP address in this pod (the `ipam` of its network attachment); NCCL before 2.21 needs NCCL_IB_GID_INDEX"
        }
    };
    let message = format!("{lead}; {name}: {}{likewise}", worst.message);
    Item::new(worst.status, worst.reason, message)
        .fix(remedy)
        .with("index", indexes)
}

/// The index of one port's GID, and what is to be said about it.
fn judge_port(
    context: &Context<'_>,
    (_, port): Port<'_>,
    slot: Option<u32>,
) -> (Option<u32>, Item) {
    let table = match &port.gids {
        Reading::Value(table) => table,
        Reading::Failed(fault) => return (None, Item::unknown("GidUnreadable", &fault.detail)),
        _ => {
            return (
                None,
                Item::unknown("GidUnreadable", "the GID table cannot be read"),
            );
        }
    };
    let Some(slot) = slot else {
        return chosen(context, table);
    };
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
    (Some(slot), item)
}

/// The GID that NCCL would choose.
fn chosen(context: &Context<'_>, table: &GidTable) -> (Option<u32>, Item) {
    let v6 = context
        .nccl("NCCL_IB_ADDR_FAMILY")
        .is_some_and(|family| family.value == "AF_INET6");
    let range = context.nccl(RANGE);
    let network = range.and_then(|range| network(range.value, v6));
    let index = nccl_choice(
        table,
        v6,
        context.nccl_number(VERSION).unwrap_or(2),
        network,
    );
    let Some(gid) = table.gids.iter().find(|gid| gid.index == index) else {
        return (
            Some(index),
            Item::failing("NoUsableGid", "the GID table is empty"),
        );
    };
    let mut item = judge(context, table, gid);
    let in_range = |network: super::network::Network| {
        address(gid).is_some_and(|address| network.contains(address))
    };
    // NCCL stays with slot 0 if the table has nothing in the range.
    if let Some(range) = range.filter(|_| network.is_some_and(|network| !in_range(network))) {
        let message = format!("{}, and no GID in {range} is usable", item.message);
        item = Item::new(
            item.status.max(ItemStatus::Degraded),
            Some("NoUsableGid"),
            message,
        )
        .fix("NCCL_IB_ADDR_RANGE: the network of the RDMA interfaces' addresses, or unset it");
    }
    if item.status != ItemStatus::Ok && !table.complete {
        let message = format!("{}, and the table was not read completely", item.message);
        return (None, Item::unknown("GidUnreadable", message));
    }
    item.reason = item.reason.map(|_| "NoUsableGid");
    (Some(index), item)
}

/// Whether a GID is usable.
fn judge(context: &Context<'_>, table: &GidTable, gid: &Gid) -> Item {
    let at = format!("GID {} is {}", gid.index, shown(gid));
    match gid.kind {
        Some(GidKind::IbOrRoceV1) if context.nccl_number(VERSION) == Some(1) => {
            return Item::ok(format!("{at}, RoCE v1, as {VERSION}=1 asks"));
        }
        Some(GidKind::IbOrRoceV1) => {
            let message = format!(
                "{at}, RoCE v1, which cannot be routed: it reaches one network segment only{}",
                better(table)
            );
            return Item::degraded("GidNotRoceV2", message);
        }
        None => return Item::unknown("GidUnreadable", format!("{at}, of unreadable type")),
        Some(GidKind::RoceV2) => {}
    }
    if !is_routable(gid) {
        let message = format!(
            "{at}, a link-local address, which reaches one network segment only{}",
            better(table)
        );
        return Item::degraded("GidLinkLocal", message);
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
        Some((index, owner)) => Item::degraded(
            "GidOfAnotherInterface",
            format!(
                "{at}, an address that this container does not have; GID {index} is that of {}",
                owner.name
            ),
        ),
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

#[cfg(test)]
mod tests;
