//! Where the rails' cables lead, by LLDP and umad.

use super::{Candidate, Context, PortView};
use crate::observe::Neighbor;
use std::collections::BTreeMap;

check!(neighbor, run);

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let rails = context.rails().filter(|rail| rail.is_active());
    rails.filter_map(|rail| judge(context, rail)).collect()
}

fn judge(context: &Context<'_>, rail: &PortView<'_>) -> Option<Candidate> {
    let known = first(rail)?;
    let netdev = rail.port.netdev.as_deref();
    let mut cables = context.snapshot.neighbors(&rail.key, netdev);
    let (interface, was, is) = cables.find_map(|(interface, is)| {
        let was = known.get(interface)?;
        (!was.is_same_port(is)).then_some((interface, was, is))
    })?;
    let mut others = (context.rails()).filter_map(|other| {
        let mut cables = first(other)?.iter();
        let (interface, _) = cables.find(|(_, was)| was.is_same_port(is))?;
        Some(cable(other, interface))
    });
    let other = others.next();
    let whose = (other.as_ref()).map(|other| format!(", where {other} was before"));
    let whose = whose.unwrap_or_default();
    let subject = cable(rail, interface);
    let message = format!("{subject} was connected to {was} and is now connected to {is}{whose}");
    let found = context.of_port("NeighborChanged", rail, message);
    let found = found.with("was", was.to_string());
    let found = found.with("neighbor", is.to_string());
    Some(found.with("seen_before_by", other))
}

/// A rail; of a bond, with the leg.
fn cable(rail: &PortView<'_>, interface: &str) -> String {
    match rail.port.netdev.as_deref() {
        Some(netdev) if netdev != interface => format!("{} ({interface})", rail.subject),
        _ => rail.subject.clone(),
    }
}

/// The rail's first neighbors, by interface.
fn first<'a>(rail: &PortView<'a>) -> Option<&'a BTreeMap<String, Neighbor>> {
    Some(&rail.history?.first_neighbors)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, nic, tell};
    use super::super::{link_errors, link_state};
    use super::*;
    use crate::check::roles::Role;
    use crate::observe::{Advertisement, NetdevFacts, PhysState, PortState, Stamped};
    use std::sync::Arc;
    use std::time::Duration;

    /// Rail `i` hears of this switch now.
    fn hear(node: &mut Node, i: usize, switch: &str) {
        hear_at(node, &format!("eth{i}"), switch);
    }

    fn hear_at(node: &mut Node, interface: &str, switch: &str) {
        let neighbor = Neighbor {
            switch: switch.into(),
            switch_port: "swp1".into(),
            description: None,
            ids: (format!("mac of {switch}"), "swp1".into()),
        };
        let ttl = Duration::from_secs(120);
        let value = Advertisement { neighbor, ttl };
        let heard = Arc::new(Stamped {
            at: node.now,
            value,
        });
        node.snapshot.lldp.insert(interface.to_string(), heard);
    }

    fn messages(node: &Node) -> Vec<String> {
        let found = node.run(&CHECK).into_iter();
        found.map(|found| found.message).collect()
    }

    #[test]
    fn rails_that_were_swapped() {
        let mut node = Node::roce();
        for i in 0..3 {
            hear(&mut node, i, &format!("leaf-{i}"));
        }
        node.tick(1);
        assert_eq!(messages(&node), Vec::<String>::new());
        hear(&mut node, 0, "leaf-1");
        hear(&mut node, 1, "leaf-0");
        hear(&mut node, 2, "leaf-9");
        node.tick(1);
        assert_eq!(
            messages(&node),
            [
                "mlx5_0/1 was connected to leaf-0 swp1 and is now connected to leaf-1 swp1, where mlx5_1/1 was before",
                "mlx5_1/1 was connected to leaf-1 swp1 and is now connected to leaf-0 swp1, where mlx5_0/1 was before",
                "mlx5_2/1 was connected to leaf-2 swp1 and is now connected to leaf-9 swp1",
            ]
        );
        let first = &node.run(&CHECK)[0];
        assert_eq!(tell(first), "mlx5_0/1 NeighborChanged Degraded Notice");
        assert_eq!(first.evidence["was"], "leaf-0 swp1");
        assert_eq!(first.evidence["neighbor"], "leaf-1 swp1");
        // `selvage accept`: it is right as it is now.
        node.history.forget_best();
        node.tick(1);
        assert_eq!(messages(&node), Vec::<String>::new());
    }

    #[test]
    fn each_leg_of_a_bond_is_judged_against_its_own_past() {
        let mut node = Node::roce();
        for leg in ["leg0", "leg1"] {
            let master = Some("eth0".to_string());
            let facts = NetdevFacts {
                master,
                ..NetdevFacts::default()
            };
            node.set_netdev_named(leg, facts);
        }
        // The second leg is heard first.
        hear_at(&mut node, "leg1", "leaf-1");
        node.tick(1);
        hear_at(&mut node, "leg0", "leaf-0");
        node.tick(1);
        assert_eq!(messages(&node), Vec::<String>::new());
        // One is silent, then the other one, and each comes back.
        for leg in ["leg0", "leg1"] {
            let gone = node.snapshot.lldp.remove(leg).unwrap();
            node.tick(1);
            assert_eq!(messages(&node), Vec::<String>::new(), "{leg}");
            node.snapshot.lldp.insert(leg.to_string(), gone);
        }
        hear_at(&mut node, "leg1", "leaf-9");
        node.tick(1);
        assert_eq!(
            messages(&node),
            ["mlx5_0/1 (leg1) was connected to leaf-1 swp1 and is now connected to leaf-9 swp1"]
        );
        let found = &node.run(&CHECK)[0];
        assert_eq!(found.evidence["was"], "leaf-1 swp1");
        assert_eq!(found.evidence["neighbor"], "leaf-9 swp1");
        // Its legs were swapped.
        hear_at(&mut node, "leg0", "leaf-1");
        node.tick(1);
        assert_eq!(
            messages(&node),
            [
                "mlx5_0/1 (leg0) was connected to leaf-0 swp1 and is now connected to leaf-1 swp1, where mlx5_0/1 (leg1) was before"
            ]
        );
    }

    #[test]
    fn what_is_silent_no_longer_holds_but_is_remembered_while_the_link_is_down() {
        let mut node = Node::roce();
        hear(&mut node, 0, "leaf-0");
        node.tick(1);
        hear(&mut node, 0, "leaf-1");
        node.tick(119);
        assert_eq!(messages(&node).len(), 1);
        let known = |node: &Node| {
            let context = node.context();
            let neighbor = context.ports()[0].neighbor;
            neighbor.map(|neighbor| neighbor.switch.clone())
        };
        assert_eq!(known(&node).as_deref(), Some("leaf-1"));
        node.tick(1);
        assert_eq!((known(&node), messages(&node)), (None, Vec::new()));
        node.set_state(0, PortState::Down, PhysState::Polling);
        node.tick(3600);
        assert_eq!(known(&node).as_deref(), Some("leaf-1"));
        let down = &node.run(&link_state::CHECK)[0];
        assert!(
            down.message.ends_with("; at the other end: leaf-1 swp1"),
            "{}",
            down.message
        );
        assert_eq!(down.evidence["neighbor"], "leaf-1 swp1");
    }

    #[test]
    fn only_rails_have_one_and_only_links_say_so() {
        let mut node = Node::roce();
        hear(&mut node, 0, "leaf-0");
        hear(&mut node, 1, "leaf-1");
        node.set_role(1, Role::Other);
        node.tick(1);
        let context = node.context();
        let neighbors = context.ports().iter().map(|port| port.neighbor.is_some());
        assert_eq!(neighbors.filter(|known| *known).count(), 1);
        let of = |check: &crate::check::Check, i: usize| {
            let context = context.of_check(check);
            let found =
                context.of_port("NeighborChanged", &context.ports()[i], "what it is".into());
            (found.message, found.evidence.contains_key("neighbor"))
        };
        let named = "what it is; at the other end: leaf-0 swp1";
        assert_eq!(of(&link_errors::CHECK, 0), (named.into(), true));
        assert_eq!(of(&CHECK, 0), ("what it is".into(), true));
        assert_eq!(of(&link_errors::CHECK, 1), ("what it is".into(), false));
        assert_eq!(context.ports()[0].key.device.0, nic(0));
    }
}
