//! NCCL's own choice of a GID.

use super::{address, is_routable};
use crate::check::preflight::nccl_list::leading_integer;
use crate::check::preflight::network::Network;
use crate::observe::rdma::{Gid, GidKind, GidTable};
use std::net::IpAddr;

/// `NCCL_IB_ADDR_RANGE` as NCCL reads it (`envIbAddrRange`, src/transport/net_ib/connect.cc); `None`
/// if NCCL ignores it: no `/`, an address of another family, too many bits.
pub(super) fn network(text: &str, v6: bool) -> Option<Network> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    // NCCL takes leading digits and ignores what follows them.
    let bits = leading_integer(bits.trim_start(), 10).unwrap_or(0).max(0);
    Network::new(address, u32::try_from(bits).ok()?).filter(|_| address.is_ipv6() == v6)
}

/// NCCL's choice since 2.21 (`ncclIbGetGidIndex`, src/transport/net_ib/connect.cc): it begins with
/// slot 0 and moves to a later one of the network, if one is set, that has the wanted family when the
/// current one has not, or that has the wanted version when the current one has another or is not
/// routable.
pub(super) fn nccl_choice(
    table: &GidTable,
    v6: bool,
    version: i64,
    network: Option<Network>,
) -> u32 {
    let version_of = |gid: Option<&Gid>| {
        gid.and_then(|gid| gid.kind).map(|kind| match kind {
            GidKind::IbOrRoceV1 => 1,
            GidKind::RoceV2 => 2,
        })
    };
    let has_family = |gid: &Gid| matches!(address(gid), Some(IpAddr::V4(_))) != v6;
    let in_network = |gid: &Gid| {
        network.is_none_or(|network| address(gid).is_some_and(|at| network.contains(at)))
    };
    let mut held = table.gids.iter().find(|gid| gid.index == 0);
    for gid in table.gids.iter().filter(|gid| gid.index > 0) {
        let fits = has_family(gid) && in_network(gid);
        // An empty slot counts as IPv6.
        let held_has_family = held.map_or(v6, has_family);
        let is_better = is_routable(gid)
            && version_of(Some(gid)) == Some(version)
            && (version_of(held) != Some(version) || !held.is_some_and(is_routable));
        if fits && (!held_has_family || is_better) {
            held = Some(gid);
        }
    }
    held.map_or(0, |gid| gid.index)
}
