//! Links that fall and come back.

use super::{Candidate, Context, PortView, link_state::trains_since, policy::Limit};
use crate::observe::Window;
use crate::units::{Millis, span_text};

check!(link_flap, run);

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let ports = context.ports().iter();
    let fall = (ports.clone()).filter_map(|port| judge(context, port));
    let leave = (ports.clone()).filter_map(|port| returns(context, port));
    let of_legs = ports.flat_map(|port| legs(context, port));
    fall.chain(leave).chain(of_legs).collect()
}

/// Legs of a bond that fall and come back, while the bond stays up on another one.
fn legs<'a>(
    context: &'a Context<'_>,
    port: &'a PortView<'_>,
) -> impl Iterator<Item = Candidate> + 'a {
    let limit = context.policy.link_flap.degraded;
    let grace = context.policy.link_state.training_grace.0;
    let trained = context.now.since(trains_since(context, port).plus(grace));
    let window = Window::last(limit.within.0.min(trained), context.now);
    let legs = context.bond_legs(port.netdev);
    let is_of_port = move |leg: &&String| {
        let mut ports = context.ports().iter();
        legs.len() >= 2 && !ports.any(|of| of.port.netdev.as_ref() == Some(*leg))
    };
    legs.iter().filter(is_of_port).filter_map(move |leg| {
        let changes = context.history.netdevs.get(leg)?.get("carrier_changes")?;
        let count = changes.increase(window)?.by / 2;
        let subject = format!("{} leg {leg}", port.subject);
        let span = span_text(limit.within.0);
        let message = format!("{subject} fell {count} times within {span}");
        let about = (format!("{} leg {leg}", port.key), subject);
        let found = context.candidate("LinkUnstable", about, message);
        let found = found
            .weighing(port.weight())
            .with("flaps", count)
            .with("leg", leg.as_str());
        (count > limit.more_than).then_some(found)
    })
}

fn judge(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    let policy = &context.policy.link_flap;
    // A link that trains is not faulty: since the boot, or since its device appeared, each time.
    let grace = context.policy.link_state.training_grace.0;
    let device = context.history.devices.get(&port.key.device);
    let appeared = device.map_or(&[][..], |seen| &seen.appeared);
    let trains = |at: Millis| {
        let mut began = appeared.iter().chain(&[Millis(0)]);
        began.any(|began| at >= *began && at.since(*began) < grace)
    };
    let flaps = |limit: Limit| {
        let window = Window::last(limit.within.0, context.now);
        let edges = context.history.edges(&port.key, window, trains);
        // A fall that has not ended yet counts.
        match port.is_active() {
            true => edges / 2,
            false => edges.div_ceil(2),
        }
    };
    let (reason, limit) = match flaps(policy.failing) > policy.failing.more_than {
        true => ("LinkFlapping", policy.failing),
        false => ("LinkUnstable", policy.degraded),
    };
    let count = Some(flaps(limit)).filter(|count| *count > limit.more_than)?;
    let span = span_text(limit.within.0);
    let message = format!("{} fell {count} times within {span}", port.subject);
    let ago = (port.last_edge()).map(|last| context.now.since(last).as_secs());
    let found = (context.of_port(reason, port, message))
        .with("flaps", count)
        .with("within_seconds", limit.within.0.as_secs());
    Some(found.with("last_edge_seconds_ago", ago))
}

/// A NIC that resets again and again: its link falls each time, and what is left trains. As little as a reload
/// of the driver needs no more than degraded.
fn returns(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    let limit = context.policy.link_flap.degraded;
    let grace = context.policy.link_state.training_grace.0;
    let counts =
        |at: &&Millis| context.now.since(**at) <= limit.within.0 && at.since(Millis(0)) >= grace;
    let device = context.history.devices.get(&port.key.device)?;
    let count = device.returned.iter().filter(counts).count() as u64;
    let (subject, span) = (&port.subject, span_text(limit.within.0));
    let message = format!("{subject}: its device left and came back {count} times within {span}");
    let found = context.of_port("LinkUnstable", port, message);
    (count > limit.more_than && !context.pods_hold_devices()).then(|| found.with("returns", count))
}

#[cfg(test)]
mod tests {
    mod history;

    use super::super::testing::{Node, key, tell};
    use super::*;
    use crate::check::roles::Role;
    use crate::observe::{NetdevFacts, Reading};

    fn with_carrier_changes(node: &mut Node, i: usize, changes: u64) {
        node.set_netdev(
            i,
            NetdevFacts {
                carrier_changes: Reading::Value(changes),
                ..NetdevFacts::default()
            },
        );
    }

    #[test]
    fn ladder() {
        // (edges, seconds until judged, what is reported)
        for (edges, later, want) in [
            (4, 1, None),
            (6, 1, Some("mlx5_2/1 LinkUnstable Degraded Verdict")),
            (6, 700, None),
            (10, 1, Some("mlx5_2/1 LinkFlapping Failing Verdict")),
            (10, 1000, Some("mlx5_2/1 LinkFlapping Failing Verdict")),
            (10, 3700, None),
        ] {
            let mut node = Node::roce();
            node.history = Default::default();
            with_carrier_changes(&mut node, 2, 101);
            node.tick(900);
            assert_eq!(node.told(&CHECK), Vec::<String>::new(), "baseline");
            node.now = node.now.plus(std::time::Duration::from_secs(1));
            with_carrier_changes(&mut node, 2, 101 + edges);
            node.tick(0);
            node.tick(later);
            let got = node.run(&CHECK).first().map(tell);
            assert_eq!(got.as_deref(), want, "{edges} edges, {later} s later");
        }
    }

    /// It is second 100 of the boot: a link that trains may blink, and goes on being judged after it.
    #[test]
    fn training_is_not_flapping() {
        let mut node = Node::roce();
        with_carrier_changes(&mut node, 2, 101);
        node.tick(1);
        with_carrier_changes(&mut node, 2, 121);
        node.tick(1);
        for _ in 0..50 {
            assert_eq!(node.told(&CHECK), [""; 0]);
            node.tick(10);
        }
        with_carrier_changes(&mut node, 2, 131);
        node.tick(1);
        assert_eq!(node.told(&CHECK), ["mlx5_2/1 LinkFlapping Failing Verdict"]);
    }

    #[test]
    fn a_device_that_returns_mends_no_cable() {
        let mut node = Node::roce();
        node.history = Default::default();
        with_carrier_changes(&mut node, 2, 101);
        node.tick(900);
        with_carrier_changes(&mut node, 2, 111);
        node.tick(1);
        let want = ["mlx5_2/1 LinkFlapping Failing Verdict"];
        assert_eq!(node.told(&CHECK), want);
        let device = node.history.devices.get_mut(&key(2).device).unwrap();
        device.appeared.push(node.now);
        // What fell while it trained is excused for good, also by what comes later.
        with_carrier_changes(&mut node, 2, 131);
        node.tick(10);
        let device = node.history.devices.get_mut(&key(2).device).unwrap();
        device.appeared.push(node.now);
        assert_eq!(node.run(&CHECK)[0].evidence["flaps"], 5);
        for seconds in [1, 200, 1000] {
            node.tick(seconds);
            assert_eq!(node.told(&CHECK), want, "{seconds}");
        }
        node.tick(2500);
        assert_eq!(node.told(&CHECK), [""; 0]);
    }

    #[test]
    fn a_leg_of_a_bond_counts_for_itself() {
        let mut node = Node::roce();
        node.history = Default::default();
        let leg = |changes| NetdevFacts {
            carrier_changes: Reading::Value(changes),
            master: Some("eth2".into()),
            ..NetdevFacts::default()
        };
        let bond = NetdevFacts {
            carrier_changes: Reading::Value(1),
            lowers: vec!["leg0".into(), "leg1".into()],
            ..NetdevFacts::default()
        };
        node.set_netdev(2, bond);
        node.now = node.now.plus(std::time::Duration::from_secs(900));
        for (changes, seconds, want) in [
            (1, 1, None),
            (5, 1, None),
            (
                7,
                1,
                Some("mlx5_2/1 leg leg1 LinkUnstable Degraded Verdict"),
            ),
            (
                7,
                500,
                Some("mlx5_2/1 leg leg1 LinkUnstable Degraded Verdict"),
            ),
            (7, 200, None),
        ] {
            node.set_netdev_named("leg0", leg(1));
            node.set_netdev_named("leg1", leg(changes));
            node.tick(seconds);
            let got = node.run(&CHECK).first().map(tell);
            assert_eq!(got.as_deref(), want, "{changes}");
        }
    }

    #[test]
    fn a_port_that_is_no_rail_is_a_notice() {
        let mut node = Node::roce();
        node.set_role(2, Role::Other);
        node.now = node.now.plus(std::time::Duration::from_secs(900));
        with_carrier_changes(&mut node, 2, 21);
        node.tick(0);
        assert_eq!(node.told(&CHECK), ["mlx5_2/1 LinkFlapping Degraded Notice"]);
    }
}
