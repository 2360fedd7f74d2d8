//! The GID that RoCE connections begin at: `NCCL_IB_GID_INDEX`, or the one that NCCL chooses.

mod choice;

use super::devices::list;
use super::nccl_list::number;
use super::scene::{Scene, layer, port_name};
use super::{Item, ItemStatus};
use crate::observe::container::{Environment, SeenPort, Setting};
use crate::observe::rdma::{Gid, GidKind, GidTable, LinkLayer};
use crate::observe::reading::Reading;
use choice::{Network, nccl_choice};
use std::net::{IpAddr, Ipv6Addr};

const ID: &str = "gid_index";

/// Setting by which somebody asks for RoCE v1; 2 unless it is set.
const VERSION: &str = "NCCL_IB_ROCE_VERSION_NUM";

/// Setting that keeps NCCL's choice to one network, as in `10.0.0.0/16`.
const RANGE: &str = "NCCL_IB_ADDR_RANGE";

/// What one port's GID comes to: the item's status, reason, and a clause about the port.
struct Found {
    status: ItemStatus,
    reason: Option<&'static str>,
    clause: String,
    index: Option<u32>,
}

/// The slot that `NCCL_IB_GID_INDEX` names; none where NCCL chooses.
pub fn slot_asked(environment: &Environment) -> Option<u32> {
    let number = number(environment.nccl("NCCL_IB_GID_INDEX")?.value)?;
    u32::try_from(number).ok()
}

/// `NCCL_IB_GID_INDEX` against the GID tables of the RoCE ports that NCCL takes.
pub(super) fn gid_index(scene: &Scene<'_>) -> Item {
    let roce: Vec<_> = scene
        .selected()
        .into_iter()
        .filter(|(device, port)| layer(device, port) == LinkLayer::Ethernet)
        .collect();
    if roce.is_empty() {
        return Item::skipped(
            ID,
            "NCCL takes no RoCE port here; on InfiniBand it does not matter",
        );
    }
    // NCCL reads it as a C int; below 0 it chooses.
    let asked = scene.nccl("NCCL_IB_GID_INDEX");
    let index = slot_asked(&scene.facts.environment);
    let mut found: Vec<(String, Found)> = roce
        .iter()
        .map(|(device, port)| {
            let name = port_name(device, port);
            let found = match index {
                Some(index) => given(scene, port, index),
                None => chosen(scene, port),
            };
            (name, found)
        })
        .collect();
    let indexes: serde_json::Map<String, serde_json::Value> = found
        .iter()
        .map(|(name, found)| (name.clone(), found.index.into()))
        .collect();
    found.sort_by_key(|(_, found)| std::cmp::Reverse(found.status));
    let Some((name, worst)) = found.first() else {
        return Item::skipped(ID, "no port");
    };
    let same: Vec<String> = found
        .iter()
        .skip(1)
        .filter(|(_, other)| other.status == worst.status)
        .map(|(name, _)| name.clone())
        .collect();
    let likewise = match same.is_empty() {
        true => String::new(),
        false => format!("; likewise {}", list(&same)),
    };
    let lead = match (asked, index) {
        (Some(asked), Some(_)) => asked.told(),
        (Some(asked), None) => format!("{}: NCCL chooses", told_setting(asked.setting)),
        (None, _) => "NCCL_IB_GID_INDEX is not set: NCCL chooses".into(),
    };
    let mut item = Item::new(
        ID,
        worst.status,
        worst.reason,
        format!("{lead}; {name}: {}{likewise}", worst.clause),
    )
    .with("index", indexes);
    if worst.status > ItemStatus::Unknown {
        item = item.fix(match index {
            Some(_) => "NCCL_IB_GID_INDEX: unset it (NCCL 2.21 and later choose), or name the index that `show_gids` shows as v2 with this interface's address",
            None if worst.clause.contains(RANGE) => "NCCL_IB_ADDR_RANGE: the network of the RDMA interfaces' addresses, or unset it",
            None => "give the RDMA interface an IP address in this pod (the `ipam` of its network attachment); NCCL before 2.21 wants NCCL_IB_GID_INDEX set",
        });
    }
    scene.if_it_matters(item)
}

fn told_setting(setting: Setting<'_>) -> String {
    super::scene::told("NCCL_IB_GID_INDEX", setting)
}

fn unread(port: &SeenPort) -> Result<&GidTable, Found> {
    let clause = match &port.gids {
        Reading::Value(table) => return Ok(table),
        Reading::Failed(fault) => fault.detail.clone(),
        _ => "the GID table cannot be read".into(),
    };
    Err(Found {
        status: ItemStatus::Unknown,
        reason: Some("GidUnreadable"),
        clause,
        index: None,
    })
}

/// The port's GID at an index that somebody set.
fn given(scene: &Scene<'_>, port: &SeenPort, index: u32) -> Found {
    let table = match unread(port) {
        Ok(table) => table,
        Err(found) => return found,
    };
    let found = |status, reason, clause: String| Found {
        status,
        reason,
        clause,
        index: Some(index),
    };
    let seen = table.gids.iter().find(|gid| gid.index == index);
    let gid = match (seen, &port.asked) {
        (Some(gid), _) => gid,
        (None, Reading::Value(Some(gid))) if gid.index == index => gid,
        (None, Reading::Failed(fault)) => {
            return found(
                ItemStatus::Unknown,
                Some("GidUnreadable"),
                fault.detail.clone(),
            );
        }
        (None, Reading::NotObservable) if !table.complete => {
            return found(
                ItemStatus::Unknown,
                Some("GidUnreadable"),
                format!("slot {index} was not looked at"),
            );
        }
        _ => {
            return found(
                ItemStatus::Failing,
                Some("GidEmpty"),
                format!("slot {index} is empty{}", better(table)),
            );
        }
    };
    judge(scene, table, gid)
}

/// The GID that NCCL would choose.
fn chosen(scene: &Scene<'_>, port: &SeenPort) -> Found {
    let table = match unread(port) {
        Ok(table) => table,
        Err(found) => return found,
    };
    let v6 =
        (scene.nccl("NCCL_IB_ADDR_FAMILY")).is_some_and(|asked| asked.setting.value == "AF_INET6");
    let version = scene.nccl_number(VERSION).unwrap_or(2);
    let range = scene.nccl(RANGE);
    let network = range.and_then(|asked| Network::parse(asked.setting.value, v6));
    let index = nccl_choice(table, v6, version, network);
    let outside = |gid: &Gid| network.is_some_and(|network| !network.holds(gid));
    match table.gids.iter().find(|gid| gid.index == index) {
        Some(gid) => {
            let mut found = judge(scene, table, gid);
            // Slot 0 stays where the table has nothing of the range.
            if let Some(asked) = range.filter(|_| outside(gid)) {
                found = Found {
                    status: found.status.max(ItemStatus::Degraded),
                    reason: Some("NoUsableGid"),
                    clause: format!(
                        "{}, and no GID will do that is in {}",
                        found.clause,
                        asked.told()
                    ),
                    ..found
                };
            }
            if found.status == ItemStatus::Ok || table.complete {
                return Found {
                    reason: found.reason.map(|_| "NoUsableGid"),
                    ..found
                };
            }
            Found {
                status: ItemStatus::Unknown,
                reason: Some("GidUnreadable"),
                clause: format!("{}, and the table was not read to its end", found.clause),
                index: None,
            }
        }
        None => Found {
            status: ItemStatus::Failing,
            reason: Some("NoUsableGid"),
            clause: "the GID table is empty".into(),
            index: Some(index),
        },
    }
}

/// Whether a GID will do.
fn judge(scene: &Scene<'_>, table: &GidTable, gid: &Gid) -> Found {
    let found = |status, reason, clause: String| Found {
        status,
        reason,
        clause,
        index: Some(gid.index),
    };
    let address = address(gid);
    let shown = address.map_or_else(|| gid.gid.clone(), |address| address.to_string());
    let at = format!("GID {} is {shown}", gid.index);
    match gid.kind {
        Some(GidKind::IbOrRoceV1) if scene.nccl_number(VERSION) == Some(1) => {
            return found(
                ItemStatus::Ok,
                None,
                format!("{at}, RoCE v1, as {VERSION}=1 asks"),
            );
        }
        Some(GidKind::IbOrRoceV1) => {
            return found(
                ItemStatus::Degraded,
                Some("GidNotRoceV2"),
                format!(
                    "{at}, RoCE v1, which no router passes: it reaches one network segment only{}",
                    better(table)
                ),
            );
        }
        None => {
            return found(
                ItemStatus::Unknown,
                Some("GidUnreadable"),
                format!("{at}, of a type that cannot be read"),
            );
        }
        Some(GidKind::RoceV2) => {}
    }
    if !is_routable(gid) {
        return found(
            ItemStatus::Degraded,
            Some("GidLinkLocal"),
            format!(
                "{at}, a link-local address, which reaches one network segment only{}",
                better(table)
            ),
        );
    }
    let here = |wanted: IpAddr| {
        let interfaces = scene.facts.interfaces.value()?;
        let mut owners = interfaces.iter().filter(|i| i.addresses.contains(&wanted));
        owners.next().map(|owner| owner.name.clone())
    };
    let owner = address.and_then(here);
    let elsewhere = table
        .gids
        .iter()
        .filter(|other| other.kind == Some(GidKind::RoceV2) && is_routable(other))
        .find_map(|other| Some((other.index, here(self::address(other)?)?)));
    match (owner, elsewhere) {
        (Some(owner), _) => found(
            ItemStatus::Ok,
            None,
            format!("{at}, RoCE v2, the address of {owner}"),
        ),
        (None, Some((index, name))) => found(
            ItemStatus::Degraded,
            Some("GidOfAnotherInterface"),
            format!(
                "{at}, an address that this container does not have; GID {index} is that of {name}"
            ),
        ),
        // The interface is in the node's network namespace, as the shared device plugin leaves it.
        (None, None) => found(
            ItemStatus::Ok,
            None,
            format!("{at}, RoCE v2, an address of the node"),
        ),
    }
}

/// A hint at the index that would do.
fn better(table: &GidTable) -> String {
    let mut usable = table
        .gids
        .iter()
        .filter(|gid| gid.kind == Some(GidKind::RoceV2) && is_routable(gid));
    match usable.next() {
        Some(gid) => format!(
            "; index {} is RoCE v2 ({})",
            gid.index,
            address(gid).map_or_else(|| gid.gid.clone(), |address| address.to_string())
        ),
        None => String::new(),
    }
}

fn raw(gid: &Gid) -> Option<Ipv6Addr> {
    gid.gid.parse().ok()
}

/// The address in a GID: IPv4 where it is mapped.
fn address(gid: &Gid) -> Option<IpAddr> {
    let raw = raw(gid)?;
    Some(raw.to_ipv4_mapped().map_or(IpAddr::V6(raw), IpAddr::V4))
}

fn is_v4(gid: &Gid) -> bool {
    matches!(address(gid), Some(IpAddr::V4(_)))
}

/// Neither empty nor fe80::/64 (NCCL's `validGid`).
fn is_routable(gid: &Gid) -> bool {
    raw(gid).is_some_and(|raw| {
        let [a, b, c, d, ..] = raw.segments();
        !raw.is_unspecified() && (a, b, c, d) != (0xfe80, 0, 0, 0)
    })
}

#[cfg(test)]
mod tests;
