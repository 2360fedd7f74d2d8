//! NCCL's own choice of a GID.

use super::{is_routable, is_v4, raw};
use crate::check::preflight::nccl_list::leading_integer;
use crate::observe::rdma::{Gid, GidKind, GidTable};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A network that `NCCL_IB_ADDR_RANGE` names, as NCCL compares with it (`envIbAddrRange`,
/// `matchGidAddrPrefix` in src/transport/net_ib/connect.cc).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    /// As in a GID: IPv4 stands in the last 32 bits.
    base: u128,
    /// The bits that count.
    mask: u128,
}

impl Network {
    /// None where NCCL passes the setting over: no `/`, an address of another family, more bits
    /// than the family has.
    pub(super) fn parse(text: &str, v6: bool) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        // Digits lead, and what follows them is passed over.
        let bits = leading_integer(bits.trim_start(), 10).unwrap_or(0);
        let (base, width) = match v6 {
            true => (u128::from(address.parse::<Ipv6Addr>().ok()?), 128),
            false => (u128::from(u32::from(address.parse::<Ipv4Addr>().ok()?)), 32),
        };
        if bits > width {
            return None;
        }
        let bits = u32::try_from(bits).unwrap_or(0);
        let all = u128::MAX >> (128 - u32::try_from(width).unwrap_or(128));
        let host = all.checked_shr(bits).unwrap_or(0);
        Some(Network {
            base,
            mask: all & !host,
        })
    }

    pub(super) fn holds(self, gid: &Gid) -> bool {
        raw(gid).is_some_and(|raw| (u128::from(raw) ^ self.base) & self.mask == 0)
    }
}

/// NCCL's choice since 2.21 (`ncclIbGetGidIndex`, src/transport/net_ib/connect.cc): it begins with
/// slot 0 and goes on to a later one of the network, if one is asked for, that has the wanted family
/// where the one it holds has not, or that has the wanted version where that one has another or is
/// no address.
pub(super) fn nccl_choice(
    table: &GidTable,
    v6: bool,
    version: i64,
    network: Option<Network>,
) -> u32 {
    let first = table.gids.iter().find(|gid| gid.index == 0);
    let version_of = |gid: Option<&Gid>| {
        gid.and_then(|gid| gid.kind).map(|kind| match kind {
            GidKind::IbOrRoceV1 => 1,
            GidKind::RoceV2 => 2,
        })
    };
    let mut held = first;
    let mut index = 0;
    for gid in table.gids.iter().filter(|gid| gid.index > 0) {
        let fits = is_v4(gid) != v6 && network.is_none_or(|network| network.holds(gid));
        // An empty slot counts as IPv6.
        let held_fits = held.map_or(v6, |held| is_v4(held) != v6);
        let take = if fits && !held_fits {
            true
        } else {
            fits && is_routable(gid)
                && version_of(Some(gid)) == Some(version)
                && (version_of(held) != Some(version) || !held.is_some_and(is_routable))
        };
        if take {
            held = Some(gid);
            index = gid.index;
        }
    }
    index
}
