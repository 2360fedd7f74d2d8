//! Rails that run slower than they should.

use super::expected::{RailAttribute, RailValues, Sources, row};
use super::{Basis, Candidate, Context, PortView, Reason, Weight, peers, unseen_on_rails};
use crate::observe::{Reading, remembered};
use crate::units::BitsPerSec;

check!(link_rate, run);

/// The rate of a port; 400 and 399.9 Gb/s are the same.
pub const RATE: RailAttribute = RailAttribute {
    sources: |context, port| {
        let shape = context.profile.and_then(|profile| profile.shape);
        let of_shape = shape.map(|shape| shape.gbps).filter(|(gbps, _)| *gbps > 0);
        Sources {
            configured: (context.policy.expect.rate_gbps).map(|gbps| (gbps * 1e9) as u64),
            shape: of_shape.map(|(gbps, sure)| (BitsPerSec::from_gbps(gbps.into()).0, sure)),
            remembered: (port.history).and_then(|history| Some(history.best_rate?.0)),
            peers: None,
        }
    },
    enough: |context| context.policy.link_rate.below,
    text: |rate| BitsPerSec(rate).to_string(),
    value: |rate| BitsPerSec(rate).gbps().into(),
    verb: "runs at",
    evidence: "rate_gbps",
    compares_card_ports: true,
    ..row(
        remembered::RATE,
        |_, port| port.judged_rate().map(|rate| rate.0),
        &[
            (&[Basis::Configured, Basis::Shape], "RateBelowExpected"),
            (&[Basis::Remembered], "RateBelowBest"),
            (&[Basis::Peers], "RateBelowPeers"),
        ],
    )
};

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let rates = RATE.of_rails(context);
    let ports = context.ports().iter();
    let mut found: Vec<Candidate> = ports.filter_map(|port| judge(&rates, port)).collect();
    let mut slow: Vec<Reason> = RATE.of.reasons.iter().map(|(_, reason)| *reason).collect();
    slow.push("LaneWidthReduced");
    let unread = |rail: &PortView<'_>| rail.may_be_linked() && rail.judged_rate().is_none();
    found.extend(unseen_on_rails(context, &slow, unread));
    found
}

fn judge(rates: &RailValues<'_, '_>, port: &PortView<'_>) -> Option<Candidate> {
    let context = rates.context;
    if port.rail
        && let Some(why) = unreadable(context, port)
    {
        let read = |rail: &PortView<'_>| rail.link.is_some_and(|link| link.rate.value().is_some());
        let blind = port.link.is_some() && !context.rails().any(read);
        let message = format!("rate of {} is unknown: {why}", port.subject);
        let found = (context.of_port("RateUnreadable", port, message))
            .with("file", format!("ports/{}/rate", port.port.number));
        return Some(found.weighing(Weight::counting_if(blind)));
    }
    let lanes = |port: &PortView<'_>| port.link?.rate.value()?.lanes;
    let own_lanes = lanes(port);
    // An InfiniBand cable has four lanes: one is a fault without peers or past, and whatever the design.
    // A plane has one of them.
    let infiniband = port.rail && port.is_infiniband();
    let four_lanes = infiniband && !port.device.is_multi_plane();
    let one_lane = four_lanes && own_lanes == Some(1) && port.judged_rate().is_some();
    let short = rates.shortfall(port);
    if let Some(mut short) = short.filter(|short| short.proof || !one_lane) {
        let of_active = |other: &PortView<'_>| other.judged_rate().and(lanes(other));
        let most_lanes = peers::among(context, port, of_active).into_iter().max();
        // RoCE has as many lanes as the speed that the switch's port is set to.
        let fewer = infiniband && own_lanes.is_some() && own_lanes < most_lanes;
        match short.because {
            Basis::Peers if fewer => short.reason = "LaneWidthReduced",
            Basis::Shape if !short.proof => short.reason = "RateBelowNominal",
            _ => {}
        }
        let found = rates.candidate(port, short);
        let found = found.with("lanes", own_lanes.filter(|_| fewer));
        return Some(found.with("peer_lanes", most_lanes.filter(|_| fewer)));
    }
    one_lane.then(|| {
        let message = format!("{} runs on 1 lane of 4", port.subject);
        (context.of_port("LaneWidthReduced", port, message)).with("lanes", 1)
    })
}

/// Why the rate of a rail is not known, if it is not.
fn unreadable(context: &Context<'_>, port: &PortView<'_>) -> Option<&'static str> {
    let Some(link) = port.link else {
        let read = context.snapshot.links.contains_key(&port.key);
        return read.then_some("its last reading is too old to go by");
    };
    if !port.is_active() || port.is_efa() || port.device.is_gvnic() {
        return None;
    }
    match &link.rate {
        Reading::Value(_) => None,
        Reading::Absent => Some("the kernel does not report it"),
        Reading::NotObservable => Some("it cannot be observed from here"),
        Reading::Failed(_) => Some("reading it fails"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, key, link};
    use super::*;
    use crate::check::roles::Role;
    use crate::observe::{NetdevFacts, PhysState, PortState, RdmaPort};

    #[test]
    fn nodes_that_are_well() {
        for node in [Node::infiniband(), Node::roce(), Node::empty()] {
            assert_eq!(node.told(&CHECK), Vec::<String>::new());
        }
    }

    #[test]
    fn one_slow_rail_among_eight() {
        for (gbps, lanes, want) in [
            (200, 4, "mlx5_4/1 RateBelowPeers Degraded Verdict"),
            (200, 2, "mlx5_4/1 LaneWidthReduced Degraded Verdict"),
        ] {
            let mut node = Node::infiniband();
            // Slow from the start: no better past to go by.
            node.set_link(4, link(gbps, lanes));
            node.history = Default::default();
            node.tick(1);
            assert_eq!(node.told(&CHECK), [want]);
        }
    }

    #[test]
    fn lanes_of_an_ethernet_port_are_no_fault() {
        let mut node = Node::roce();
        node.set_link(4, link(200, 2));
        node.history = Default::default();
        node.tick(1);
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_4/1 RateBelowPeers Degraded Verdict"]
        );
    }

    #[test]
    fn two_ports_of_one_card_are_compared_where_nothing_else_can_be() {
        for (gbps, cards, want) in [
            (200, 1, vec![]),
            (150, 1, vec!["mlx5_1/1 RateBelowPeers Degraded Notice"]),
            (25, 1, vec!["mlx5_1/1 RateBelowPeers Degraded Notice"]),
            // The second ports are held against each other.
            (25, 2, vec![]),
        ] {
            let mut node = Node::roce();
            node.devices.truncate(2 * cards);
            for (n, device) in node.devices.iter_mut().enumerate() {
                let slot = format!("0000:4{}:00.{}", n / 2, n % 2);
                device.pci = Some(slot.parse().unwrap());
            }
            for n in 0..2 * cards {
                node.set_link(n, link(if n % 2 == 1 { gbps } else { 200 }, 4));
            }
            node.history = Default::default();
            node.tick(1);
            assert_eq!(node.told(&CHECK), want, "{gbps} {cards}");
        }
    }

    #[test]
    fn two_lane_texts_of_the_same_rate_are_equal() {
        let mut node = Node::infiniband();
        node.set_link(4, link(400, 8));
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }

    #[test]
    fn all_slow_shows_only_against_the_past_or_configuration() {
        let slow = || {
            let mut node = Node::infiniband();
            for i in 0..8 {
                node.set_link(i, link(200, 4));
            }
            node
        };
        let mut with_past = slow();
        with_past.tick(1);
        assert_eq!(with_past.run(&CHECK).len(), 8);
        assert_eq!(with_past.run(&CHECK)[0].reason, "RateBelowBest");

        let mut without = slow();
        without.history = Default::default();
        without.tick(1);
        assert_eq!(without.told(&CHECK), Vec::<String>::new());
        without.policy.expect.rate_gbps = Some(400.0);
        assert_eq!(without.run(&CHECK)[7].reason, "RateBelowExpected");
    }

    #[test]
    fn a_port_that_is_not_active_has_no_rate() {
        let mut node = Node::roce();
        node.set_link(1, link(40, 4));
        node.set_state(1, PortState::Down, PhysState::Disabled);
        node.policy.expect.rate_gbps = Some(400.0);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        // Of one that may be up, what was seen of its rate stands.
        let unseen = |node: &Node| run(&node.context()).iter().filter(|of| of.unseen).count();
        assert_eq!(unseen(&node), 0);
        node.set_state(1, PortState::Init, PhysState::LinkUp);
        assert_eq!(unseen(&node), 4);
    }

    #[test]
    fn forty_gigabits_of_an_active_mlx5_roce_port_is_asked_of_the_interface() {
        for (speed, legs, want) in [
            (Reading::Value(400_000), 0, None),
            (Reading::NotObservable, 0, None),
            (Reading::Value(40_000), 0, Some("RateBelowPeers")),
            // Of a bond it is the sum.
            (Reading::Value(800_000), 1, None),
        ] {
            let mut node = Node::roce();
            node.set_link(1, link(40, 4));
            node.set_netdev(
                1,
                NetdevFacts {
                    speed_mbps: speed,
                    lowers: vec!["eth0".into(); legs],
                    ..NetdevFacts::default()
                },
            );
            node.history.ports.remove(&key(1));
            node.tick(1);
            assert_eq!(node.run(&CHECK).first().map(|c| c.reason), want);
            // The lie is not a best rate, either: a later 25 Gb/s must not be held against it.
            let best = node.history.ports[&key(1)]
                .best_rate
                .map(|rate| rate.gbps());
            assert_ne!(best, (want.is_none()).then_some(40.0));
            assert!(legs == 0 || best == Some(400.0));
        }
    }

    #[test]
    fn cards_of_another_make_and_ports_that_are_no_rails_are_no_peers() {
        let mut node = Node::infiniband();
        node.devices[0].pci_id = Some("15b3:101b".into());
        node.devices[0].hca_type = Some("MT4123".into());
        node.set_link(0, link(200, 4));
        node.set_role(1, Role::Other);
        node.set_link(1, link(100, 4));
        node.history = Default::default();
        node.tick(1);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        node.set_link(1, link(25, 1));
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_1/1 RateBelowBest Degraded Notice"]
        );
    }

    #[test]
    fn a_rate_that_cannot_be_read_is_unknown() {
        let mut node = Node::infiniband();
        node.set_stalled("link", &key(2).device.0, node.now);
        node.now = node.now.plus(std::time::Duration::from_secs(60));
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_2/1 RateUnreadable Unknown Notice"]
        );
    }

    #[test]
    fn a_rate_that_was_never_readable_is_unknown_and_of_all_rails_moves_the_verdict() {
        let bend = |node: &mut Node, i: usize, rate: Reading<_>| {
            let mut value = link(400, 4);
            value.rate = rate;
            node.set_link(i, value);
        };
        for rate in [Reading::Absent, Reading::NotObservable] {
            let mut node = Node::infiniband();
            node.history = Default::default();
            bend(&mut node, 2, rate.clone());
            let notice = ["mlx5_2/1 RateUnreadable Unknown Notice"];
            assert_eq!(node.told(&CHECK), notice);
            (0..8).for_each(|i| bend(&mut node, i, rate.clone()));
            let told = node.told(&CHECK);
            assert_eq!(told.len(), 8);
            assert_eq!(told[2], "mlx5_2/1 RateUnreadable Unknown Verdict");
        }
    }

    #[test]
    fn a_lone_port_on_one_lane() {
        let mut node = Node::infiniband();
        node.devices.truncate(1);
        node.set_link(0, link(100, 1));
        node.history = Default::default();
        node.tick(1);
        let one_lane = ["mlx5_0/1 LaneWidthReduced Degraded Verdict"];
        assert_eq!(node.told(&CHECK), one_lane);
        // Of a machine whose NICs may be connected at less, too.
        node.profile.shape = crate::check::profile::by_type("DGXH100");
        assert_eq!(node.told(&CHECK), one_lane);
        node.set_link(0, link(200, 2));
        node.history = Default::default();
        node.tick(1);
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_0/1 RateBelowNominal Degraded Notice"]
        );
        // A plane of ConnectX-8 has one lane by design.
        node.profile.shape = None;
        node.set_link(0, link(200, 1));
        let ports = (1..=12).map(|number| RdmaPort {
            number,
            ..node.devices[0].ports[0].clone()
        });
        node.devices[0].ports = ports.collect();
        node.history = Default::default();
        node.tick(1);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }
}
