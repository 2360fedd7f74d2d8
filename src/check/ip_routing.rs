//! Whether RoCE rails in one subnet answer for themselves.
//!
//! RDMA bypasses the IP stack, but the peer's MAC address comes from ARP: by the kernel's defaults any
//! interface answers for any address of the host, and the peer's queue pairs go to the wrong rail.

use super::expected::{Attribute, PEERS, PeerAttribute};
use super::{Candidate, Context, PortView, Weight, peers::alike, rising::PortRises};
use crate::observe::Ipv4Facts;

check!(ip_routing, run);

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let shares = |rail: &PortView<'_>| sharing(context, rail).next().is_some();
    let risky = context.rails().filter(|rail| shares(rail));
    let mut found: Vec<Candidate> = risky.filter_map(|rail| judge(context, rail)).collect();
    let asked = |rail: &PortView<'_>| shares(rail) && faults(context, rail) == Some([false; 4]);
    found.extend(SETTINGS.judge(context, asked));
    found
}

pub const SETTINGS: PeerAttribute = PeerAttribute {
    of: Attribute::new("the set of IP settings", &[(PEERS, "IpSettingsDiffer")]),
    evidence: "settings",
    observed: |_, port| {
        let facts = ipv4(port)?;
        Some(format!(
            "rp_filter {}, arp_ignore {}, arp_announce {}, arp_filter {}",
            facts.rp_filter?, facts.arp_ignore?, facts.arp_announce?, facts.arp_filter?
        ))
    },
    alike,
};

/// IPv4 of a rail whose interface is here and stands for itself.
fn ipv4<'a>(port: &PortView<'a>) -> Option<&'a Ipv4Facts> {
    let netdev = port.netdev?;
    let judged = port.is_roce() && port.is_active() && netdev.master.is_none();
    judged.then_some(&netdev.ipv4)
}

/// The other rails in a subnet of a rail.
fn sharing<'a>(
    context: &'a Context<'_>,
    port: &PortView<'_>,
) -> impl Iterator<Item = &'a Ipv4Facts> {
    let own = ipv4(port).map_or(&[][..], |facts| &facts.subnets);
    let key = port.key.clone();
    let others = context.rails().filter(move |other| other.key != key);
    let others = others.filter_map(|other| ipv4(other));
    others.filter(|other| other.subnets.iter().any(|subnet| own.contains(subnet)))
}

/// What can be wrong with a rail's settings, in the order of [`faults`].
const WRONG: [&str; 4] = [
    "arp_ignore is 0: any rail answers for its address",
    "arp_announce is 0: its requests name other rails' addresses",
    "rp_filter is 1: without a rule for its address, answers are dropped",
    "arp_filter is 1, and without a rule for its address one rail answers for all",
];

fn faults(context: &Context<'_>, port: &PortView<'_>) -> Option<[bool; 4]> {
    let facts = ipv4(port)?;
    // With a rule for each source address, the test of the way back drops the wrong rails' answers.
    let (strict, by_route) = (facts.rp_filter? == 1, facts.arp_filter? > 0);
    let filtered = by_route || strict;
    let together = 1 + sharing(context, port).count();
    let ruled = facts.ruled.map(|ruled| ruled >= together);
    Some([
        facts.arp_ignore? == 0 && !filtered,
        facts.arp_announce? == 0 && !filtered,
        strict && !ruled.unwrap_or(by_route),
        by_route && ruled == Some(false),
    ])
}

fn judge(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    let facts = ipv4(port)?;
    let wrong = faults(context, port)?;
    let (what, _) = (WRONG.iter().zip(wrong)).find(|(_, wrong)| *wrong)?;
    let policy = &context.policy.retransmission;
    let counters = PortRises::of(context, port);
    let exceeded = ["hw.req_transport_retries_exceeded"];
    let retries = counters.above(&exceeded, policy.retries_exceeded);
    let breaks = retries.or_else(|| counters.above(&["hw.local_ack_timeout_err"], policy.timeout));
    let (subject, subnets) = (&port.subject, facts.subnets.join(", "));
    let message = format!("{subject} is in {subnets} with other rails, and {what}");
    let found = (context.of_port("SubnetShared", port, message))
        .weighing(Weight::counting_if(breaks.is_some()))
        .with("subnet", subnets)
        .with("arp_ignore", facts.arp_ignore?)
        .with("arp_announce", facts.arp_announce?)
        .with("rp_filter", facts.rp_filter?)
        .with("increase", breaks.as_ref().map(|rise| rise.by));
    Some(found.with("counter", breaks.map(|rise| rise.name)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Node;
    use super::*;
    use crate::observe::NetdevFacts;

    /// rp_filter, arp_ignore, arp_announce, arp_filter.
    fn node(subnet: impl Fn(usize) -> String, settings: impl Fn(usize) -> [u32; 4]) -> Node {
        let mut node = Node::roce();
        for i in 0..8 {
            let [rp_filter, arp_ignore, arp_announce, arp_filter] = settings(i).map(Some);
            let ipv4 = Ipv4Facts {
                subnets: vec![subnet(i)],
                rp_filter,
                arp_ignore,
                arp_announce,
                arp_filter,
                ruled: None,
            };
            node.set_netdev(
                i,
                NetdevFacts {
                    ipv4,
                    ..NetdevFacts::default()
                },
            );
        }
        node
    }

    #[test]
    fn rails_in_one_subnet() {
        let one = |_| "10.9.0.0/24".to_string();
        let each = |i| format!("10.9.{i}.0/24");
        assert_eq!(node(each, |_| [1, 0, 0, 0]).told(&CHECK), [""; 0]);
        for (settings, want) in [
            ([0, 0, 0, 0], true),
            ([2, 0, 0, 0], true),
            ([0, 1, 0, 0], true),
            ([1, 1, 2, 0], true),
            ([2, 1, 2, 0], false),
            ([0, 2, 1, 0], false),
            ([0, 0, 0, 1], false),
        ] {
            let told = node(one, |_| settings).told(&CHECK);
            assert_eq!(
                told.len(),
                if want { 8 } else { 0 },
                "{settings:?}: {told:?}"
            );
            assert!(
                told.iter()
                    .all(|told| told.ends_with("SubnetShared Degraded Notice"))
            );
        }
        let odd = node(one, |i| if i == 3 { [0, 2, 2, 0] } else { [2, 1, 2, 0] });
        assert_eq!(
            odd.told(&CHECK),
            ["mlx5_3/1 IpSettingsDiffer Degraded Notice"]
        );
        let two = |i: usize| format!("10.9.{}.0/24", i / 2);
        assert_eq!(node(two, |_| [0; 4]).told(&CHECK).len(), 8);
        // Rules make rp_filter and arp_filter right; without them arp_filter is wrong, too.
        for (settings, rules, want) in [
            ([1, 0, 0, 0], 8, 0),
            ([1, 0, 0, 0], 7, 8),
            ([0, 0, 0, 1], 8, 0),
            ([0, 0, 0, 1], 0, 8),
            ([0, 1, 2, 0], 0, 0),
            ([0, 0, 0, 0], 8, 8),
        ] {
            let mut node = node(one, |_| settings);
            for i in 0..8 {
                let read = node.snapshot.netdevs[&format!("eth{i}")].value.clone();
                let ruled = Some(rules);
                let ipv4 = Ipv4Facts { ruled, ..read.ipv4 };
                node.set_netdev(i, NetdevFacts { ipv4, ..read });
            }
            assert_eq!(node.told(&CHECK).len(), want, "{settings:?} {rules}");
        }
        let unread = Node::roce();
        assert_eq!(unread.told(&CHECK), [""; 0]);
    }

    #[test]
    fn with_retries_that_run_out_it_counts() {
        let mut node = node(|_| "10.9.0.0/24".into(), |_| [0; 4]);
        node.set_counters(2, &[("hw.req_transport_retries_exceeded", 0)]);
        node.tick(10);
        node.set_counters(2, &[("hw.req_transport_retries_exceeded", 5)]);
        node.tick(0);
        let told = node.told(&CHECK);
        assert_eq!(told[2], "mlx5_2/1 SubnetShared Degraded Verdict");
        assert_eq!(told[3], "mlx5_3/1 SubnetShared Degraded Notice");
    }
}
