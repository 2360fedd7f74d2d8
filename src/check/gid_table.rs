//! Whether a RoCE rail has an address that traffic can use.

use super::expected::{PAST_AND_PEERS, RailAttribute, RailValues, row};
use super::{Candidate, Context, PortView, Reason, Weight, unseen_on_rails};
use crate::observe::{Gid, GidKind, GidTable};
use std::net::Ipv6Addr;

check!(gid_table, run);

/// The best kind of address: none, link-local, IPv6, IPv4 that the interface gave itself (169.254/16), IPv4
/// (NCCL's default).
pub const GIDS: RailAttribute = RailAttribute {
    text: |kind| kind_name(kind).to_string(),
    value: |kind| kind_name(kind).into(),
    verb: "has RoCE v2 GIDs of the kind:",
    evidence: "gid_kind",
    ..row("gid", best_kind, &[(PAST_AND_PEERS, "GidLost")])
};

fn kind_name(kind: u64) -> &'static str {
    let names = ["none", "link-local", "IPv6", "self-assigned IPv4", "IPv4"];
    names.get(kind as usize).unwrap_or(&"none")
}

/// At least this kind: reading stops at an IPv4 address, and where no address that can be routed turned
/// up and the table was not seen whole, nothing is known. Legs of a bond have their addresses on the bond, and where
/// virtual functions work, the function that they are of may go without.
fn best_kind(context: &Context<'_>, port: &PortView<'_>) -> Option<u64> {
    let netdev = port.netdev?;
    let table = table(context, port)?;
    let judged = port.is_roce() && port.is_active() && netdev.master.is_none();
    if !judged || untyped(table) > 0 {
        return None;
    }
    let best = best_of_v2(table);
    let sriov = (context.pci()).and_then(|pci| pci.sriov.get(&port.address()?));
    let of_vfs = sriov.is_some_and(|sriov| sriov.enabled > 0);
    let left_alone = of_vfs && best == 3 || (of_vfs || !table.complete) && best < 2;
    (!left_alone).then_some(best)
}

fn best_of_v2(table: &GidTable) -> u64 {
    let of_v2 = (table.gids.iter()).filter(|gid| gid.kind == Some(GidKind::RoceV2));
    let kind = |gid: &Gid| {
        let address = gid.gid.parse::<Ipv6Addr>().ok();
        match address.and_then(|address| address.to_ipv4_mapped()) {
            // As where DHCP fails. NCCL takes it all the same.
            Some(ipv4) if ipv4.is_link_local() => 3,
            Some(_) => 4,
            None if address.is_some_and(|address| address.is_unicast_link_local()) => 1,
            None => 2,
        }
    };
    of_v2.map(kind).max().unwrap_or(0)
}

/// GIDs whose type cannot be read.
fn untyped(table: &GidTable) -> usize {
    table.gids.iter().filter(|gid| gid.kind.is_none()).count()
}

fn table<'a>(context: &Context<'a>, port: &PortView<'_>) -> Option<&'a GidTable> {
    let table = context.snapshot.gids.get(&port.key)?;
    context.fresh(table, "gids", &port.key.device.0)
}

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let judged =
        |rail: &&PortView<'_>| rail.is_roce() && rail.is_active() && rail.port.netdev.is_some();
    let rails = context.rails().filter(judged);
    let kinds = GIDS.of_rails(context);
    let judged = rails.filter_map(|rail| judge(&kinds, rail));
    let mut found: Vec<Candidate> = judged.collect();
    let by_addresses = ["GidLost", "NoRoceV2Gid", "OnlyLinkLocalGid"];
    found.extend(unseen_on_rails(context, &by_addresses, |rail| {
        let in_part = |table: &GidTable| !table.complete && best_of_v2(table) < 2;
        let unread = rail.netdev.is_none() || table(context, rail).is_none_or(in_part);
        rail.is_roce() && rail.port.netdev.is_some() && (unread || !rail.is_active())
    }));
    found
}

fn judge(kinds: &RailValues<'_, '_>, port: &PortView<'_>) -> Option<Candidate> {
    let (context, subject) = (kinds.context, &port.subject);
    let say = |reason: Reason, message: String| context.of_port(reason, port, message);
    let is_read = |table: &GidTable| untyped(table) == 0 || best_of_v2(table) >= 2;
    let is_told = |rail: &PortView<'_>| rail.is_roce() && table(context, rail).is_some_and(is_read);
    let weight = || Weight::counting_if(!context.rails().any(is_told));
    let Some(table) = table(context, port) else {
        // Before the first look nothing is known; a look that gave no table is reported.
        let health = context.snapshot.health("gids", &port.key.device.0)?;
        let message = format!("the GID table of {subject} cannot be read");
        // A machine that is too busy to answer in time is not one whose tables cannot be read.
        let answered = Weight::counting_if(health.stalled_since.is_none());
        return (health.fails() || health.last_ok.is_some())
            .then(|| say("GidsUnreadable", message).weighing(weight().min(answered)));
    };
    let (all, untyped) = (table.gids.len(), untyped(table));
    if !is_read(table) {
        let message = format!("{subject}: the types of {untyped} of its {all} GIDs cannot be read");
        return Some(say("GidsUnreadable", message).weighing(weight()));
    }
    let kind = best_kind(context, port).filter(|_| table.complete)?;
    kinds.judge(port).or_else(|| {
        let none = format!("{subject} is up, but none of its {all} GIDs is of RoCE v2");
        let link_local = format!("{subject} has link-local RoCE v2 addresses only");
        let (reason, message) = match kind {
            0 => ("NoRoceV2Gid", none),
            1 => ("OnlyLinkLocalGid", link_local),
            _ => return None,
        };
        Some(say(reason, message).with("gids", all))
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, key, nic};
    use super::*;
    use crate::observe::{FaultKind, NetdevFacts, Stamped};
    use std::sync::Arc;

    const IPV4: &str = "0000:0000:0000:0000:0000:ffff:0a00:0001";
    const LOCAL: &str = "fe80:0000:0000:0000:0a00:27ff:fe00:0001";

    fn set(node: &mut Node, i: usize, gids: &[(&str, Option<GidKind>)], complete: bool) {
        let gids = gids
            .iter()
            .enumerate()
            .map(|(index, (gid, kind))| Gid {
                index: index as u32,
                gid: (*gid).into(),
                kind: *kind,
                netdev: None,
            })
            .collect();
        let at = node.now;
        let value = GidTable { gids, complete };
        node.snapshot
            .gids
            .insert(key(i), Arc::new(Stamped { at, value }));
    }

    #[test]
    fn tables() {
        use GidKind::*;
        for (gids, complete, want) in [
            (
                vec![(LOCAL, Some(IbOrRoceV1)), (IPV4, Some(RoceV2))],
                true,
                None,
            ),
            (vec![(IPV4, Some(IbOrRoceV1))], true, Some("NoRoceV2Gid")),
            (vec![], true, Some("NoRoceV2Gid")),
            (vec![], false, None),
            (vec![(IPV4, None)], true, Some("GidsUnreadable")),
            (
                vec![(LOCAL, Some(IbOrRoceV1)), (IPV4, None)],
                true,
                Some("GidsUnreadable"),
            ),
            (vec![(LOCAL, Some(RoceV2))], true, Some("OnlyLinkLocalGid")),
            (
                vec![(LOCAL, Some(RoceV2)), (IPV4, None)],
                true,
                Some("GidsUnreadable"),
            ),
            (vec![(IPV4, Some(RoceV2)), (IPV4, None)], true, None),
        ] {
            let mut node = Node::roce();
            set(&mut node, 0, &gids, complete);
            let got = node.run(&CHECK).first().map(|c| c.reason);
            assert_eq!(got, want, "{gids:?}");
        }
    }

    #[test]
    fn rails_alike_show_the_kind_though_reading_their_tables_stopped_at_it() {
        use GidKind::*;
        const BY_ITSELF: &str = "0000:0000:0000:0000:0000:ffff:a9fe:0001";
        const IPV6: &str = "fd00:0000:0000:0000:0a00:27ff:fe00:0001";
        let lost = ["mlx5_0/1 GidLost Degraded Verdict"];
        for (own, complete, others, want) in [
            (LOCAL, true, IPV4, &lost[..]),
            (LOCAL, true, IPV6, &lost[..]),
            (IPV6, true, IPV4, &lost[..]),
            (BY_ITSELF, true, IPV4, &lost),
            (BY_ITSELF, true, BY_ITSELF, &[]),
            // Beyond what was read an IPv4 address may be.
            (IPV6, false, IPV4, &[]),
            (LOCAL, false, IPV4, &[]),
            (IPV4, false, IPV6, &[]),
        ] {
            let mut node = Node::roce();
            set(&mut node, 0, &[(own, Some(RoceV2))], complete);
            for i in 1..8 {
                set(&mut node, i, &[(others, Some(RoceV2))], false);
            }
            assert_eq!(node.told(&CHECK), want, "{own} {complete} {others}");
        }
    }

    #[test]
    fn a_function_of_virtual_functions_may_go_without() {
        for (enabled, want) in [(0, &["mlx5_0/1 GidLost Degraded Verdict"][..]), (8, &[])] {
            let mut node = Node::roce();
            set(&mut node, 0, &[(LOCAL, Some(GidKind::RoceV2))], true);
            for i in 1..8 {
                set(&mut node, i, &[(IPV4, Some(GidKind::RoceV2))], true);
            }
            let mut pci = node.snapshot.pci.as_ref().unwrap().value.clone();
            let sriov = crate::observe::SriovFacts {
                enabled,
                ..Default::default()
            };
            pci.sriov.insert(nic(0), sriov);
            node.set_pci(pci);
            assert_eq!(node.told(&CHECK), want, "{enabled}");
        }
    }

    #[test]
    fn left_alone() {
        let mut infiniband = Node::infiniband();
        set(&mut infiniband, 0, &[], true);
        let mut in_a_pod = Node::roce();
        set(&mut in_a_pod, 0, &[], true);
        in_a_pod.devices[0].ports[0].netdev = None;
        in_a_pod.tick(1);
        let mut iwarp = Node::roce();
        set(&mut iwarp, 0, &[], true);
        iwarp.devices[0].node_type = Some(4);
        iwarp.tick(1);
        let mut leg_of_a_bond = Node::roce();
        set(&mut leg_of_a_bond, 0, &[], true);
        let netdev = NetdevFacts {
            master: Some("bond0".into()),
            ..NetdevFacts::default()
        };
        leg_of_a_bond.set_netdev(0, netdev);
        for node in [infiniband, in_a_pod, iwarp, leg_of_a_bond, Node::roce()] {
            assert_eq!(node.told(&CHECK), Vec::<String>::new());
        }
    }

    #[test]
    fn a_table_that_is_not_there_is_unknown() {
        let mut node = Node::roce();
        node.set_health("gids", &nic(0), |_| {});
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_0/1 GidsUnreadable Unknown Verdict"]
        );
        let unseen = |node: &Node| run(&node.context()).iter().filter(|of| of.unseen).count();
        assert_eq!(unseen(&node), 3 * 8, "what was seen stands");
        for i in 0..8 {
            set(&mut node, i, &[(IPV4, Some(GidKind::RoceV2))], true);
        }
        assert_eq!(unseen(&node), 0);
    }

    #[test]
    fn unreadable_is_unknown() {
        let mut node = Node::roce();
        node.set_fault("gids", &nic(0), FaultKind::Denied);
        let of_all = ["mlx5_0/1 GidsUnreadable Unknown Verdict"];
        assert_eq!(node.told(&CHECK), of_all, "of none it can be read");
        set(&mut node, 1, &[(IPV4, Some(GidKind::RoceV2))], true);
        let of_one = ["mlx5_0/1 GidsUnreadable Unknown Notice"];
        assert_eq!(node.told(&CHECK), of_one);
        let mut busy = Node::roce();
        busy.set_stalled("gids", &nic(0), busy.now);
        assert_eq!(busy.told(&CHECK), of_one, "too busy to answer");
    }
}
