//! Whether InfiniBand rails are in a partition that programs can use.

use super::expected::{
    Attribute, PAST_AND_PEERS, PEERS, PeerAttribute, RailAttribute, majority, row,
};
use super::{Candidate, Context, PortView, Weight, peers::alike, unseen_on_rails};
use crate::observe::Function;

/// Top bit of a P_Key: full member (IBTA, 10.9.1). Limited members cannot talk to limited members.
const FULL: u16 = 0x8000;

check!(partition, run);

/// 2: full member, 1: limited.
pub const MEMBERSHIP: RailAttribute = RailAttribute {
    text: |membership| membership_name(membership).to_string(),
    value: |membership| membership_name(membership).into(),
    verb: "is a partition member with rights:",
    ..row(
        "membership",
        |_, port| Some(if own_key(port)? & FULL == 0 { 1 } else { 2 }),
        &[(PAST_AND_PEERS, "PartitionLimited")],
    )
};

pub const PARTITION: PeerAttribute = PeerAttribute {
    of: Attribute::new(
        "the partition of its first P_Key",
        &[(PEERS, "PartitionDiffers")],
    ),
    evidence: "pkey",
    observed: |_, port| Some(format!("{:#06x}", own_key(port)? | FULL)),
    alike,
};

fn membership_name(membership: u64) -> &'static str {
    if membership > 1 { "full" } else { "limited" }
}

/// Entry 0 of an active InfiniBand port.
fn key(port: &PortView<'_>) -> Option<u16> {
    (port.link?.pkey).filter(|_| port.is_infiniband() && port.is_active())
}

/// The same, if there is one. Keys of virtual functions are their tenants'.
fn own_key(port: &PortView<'_>) -> Option<u16> {
    key(port).filter(|key| *key != 0 && port.device.function == Function::Physical)
}

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let rights = MEMBERSHIP.of_rails(context);
    let mut found: Vec<Candidate> = (context.rails())
        .filter_map(|rail| {
            if key(rail) == Some(0) {
                let subject = &rail.subject;
                let message = format!(
                    "{subject} is active but in no partition: entry 0 of its P_Key table is empty"
                );
                let found = context.of_port("NoPartition", rail, message);
                return Some(found.with("pkey", "0x0000"));
            }
            rights.judge(rail)
        })
        .collect();
    let blind = !context.rails().any(|rail| key(rail).is_some());
    let up = |rail: &&PortView<'_>| rail.is_infiniband() && rail.is_active();
    let unread = (context.rails()).filter(|rail| up(rail) && key(rail).is_none());
    found.extend(unread.map(|rail| {
        let message = format!("the partition key of {} cannot be read", rail.subject);
        let found = context.of_port("PkeyUnreadable", rail, message);
        found.weighing(Weight::counting_if(blind))
    }));
    let of_keys = ["NoPartition", "PartitionLimited"];
    let unread = |rail: &PortView<'_>| rail.is_infiniband() && key(rail).is_none();
    found.extend(unseen_on_rails(context, &of_keys, unread));
    PARTITION.judge_others(context, |_| true, &mut found);
    let rights = rights.values.into_iter();
    let rights: Vec<u64> = rights.map(|(_, rights)| rights).collect();
    let told = found.iter().any(|found| found.weight == Weight::Verdict);
    if !told && majority(&rights) == Some(1) && rights.iter().all(|rights| *rights == 1) {
        let message = format!(
            "all {} InfiniBand rails are limited members of their partition",
            rights.len()
        );
        found.push(context.candidate("AllRailsLimited", ("node", "node"), message));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, link};
    use super::*;

    fn node(pkey: impl Fn(usize) -> u16) -> Node {
        let mut node = Node::infiniband();
        for i in 0..8 {
            let mut facts = link(400, 4);
            facts.pkey = Some(pkey(i));
            node.set_link(i, facts);
        }
        node
    }

    #[test]
    fn memberships() {
        let odd = |key: u16, others: u16| node(move |i| if i == 3 { key } else { others });
        let limited: Vec<String> = (0..8)
            .filter(|i| *i != 3)
            .map(|i| format!("mlx5_{i}/1 PartitionLimited Degraded Verdict"))
            .collect();
        let limited: Vec<&str> = limited.iter().map(String::as_str).collect();
        let rows: [(&str, Node, &[&str]); 7] = [
            ("all full", node(|_| 0xffff), &[]),
            (
                "empty",
                odd(0, 0xffff),
                &["mlx5_3/1 NoPartition Failing Verdict"],
            ),
            (
                "one limited",
                odd(0x7fff, 0xffff),
                &["mlx5_3/1 PartitionLimited Degraded Verdict"],
            ),
            (
                "all limited",
                node(|_| 0x7fff),
                &["node AllRailsLimited Degraded Notice"],
            ),
            ("one full", odd(0xffff, 0x7fff), &limited),
            (
                "another tenant",
                odd(0x800a, 0x800b),
                &["mlx5_3/1 PartitionDiffers Degraded Notice"],
            ),
            (
                "half and half",
                node(|i| if i < 3 || i == 4 { 0x7fff } else { 0xffff }),
                &limited[..4],
            ),
        ];
        for (name, node, want) in rows {
            assert_eq!(node.told(&CHECK), want, "{name}");
        }
        let unread = |node: &mut Node, i: usize| {
            let mut facts = link(400, 4);
            facts.pkey = None;
            node.set_link(i, facts);
        };
        let mut node = node(|_| 0xffff);
        unread(&mut node, 3);
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_3/1 PkeyUnreadable Unknown Notice"]
        );
        (0..8).for_each(|i| unread(&mut node, i));
        assert_eq!(
            node.told(&CHECK)[3],
            "mlx5_3/1 PkeyUnreadable Unknown Verdict"
        );
    }

    #[test]
    fn tenants_ethernet_and_ports_that_are_down_are_left_alone() {
        let mut guest = node(|i| if i == 3 { 0x7fff } else { 0x800b });
        for device in &mut guest.devices {
            device.function = Function::VirtualInGuest;
        }
        guest.tick(1);
        let mut roce = Node::roce();
        roce.set_link(
            3,
            node(|_| 0)
                .snapshot
                .links
                .values()
                .next()
                .unwrap()
                .value
                .clone(),
        );
        let mut down = node(|i| if i == 3 { 0 } else { 0xffff });
        down.set_state(
            3,
            crate::observe::PortState::Down,
            crate::observe::PhysState::Polling,
        );
        for node in [guest, roce, down] {
            assert_eq!(node.told(&CHECK), [""; 0]);
        }
    }
}
