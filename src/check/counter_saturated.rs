//! Counters that are stuck at their maximum.

use super::{Candidate, Context, PortView};
use crate::observe::{CounterKind, pma_kind};

check!(counter_saturated, run);

/// Noise on a host's port, or (`port_xmit_wait`) at its end soon on every busy link.
const IGNORED_COUNTERS: &[&str] = &[
    "VL15_dropped",
    "port_xmit_wait",
    "port_rcv_switch_relay_errors",
];

fn run(context: &Context<'_>) -> Vec<Candidate> {
    (context.ports().iter())
        .filter_map(|port| judge(context, port))
        .collect()
}

fn judge(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    let pma = &port.history?.counters.pma;
    let saturated = pma.iter().filter(|(_, track)| track.saturated());
    let mut stuck: Vec<&str> = saturated.map(|(name, _)| name.as_str()).collect();
    stuck.retain(|name| !IGNORED_COUNTERS.contains(name));
    let end = match pma_kind(stuck.first()?) {
        CounterKind::Saturating { max } => Some(max),
        _ => None,
    };
    let (subject, names) = (&port.subject, stuck.join(", "));
    let message = format!("{subject}: counters stuck at their maximum: {names}");
    let found = context.of_port("CounterSaturated", port, message);
    let found = found.with("counters", stuck.join(" "));
    Some(found.with("end_of_first", end))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Node;
    use super::*;

    #[test]
    fn stuck_is_told_once_a_port_from_the_first_sample_on() {
        let mut node = Node::infiniband();
        node.set_counters(
            3,
            &[
                ("excessive_buffer_overrun_errors", 15),
                ("link_downed", 255),
                ("symbol_error", 65_534),
                ("port_xmit_wait", u64::from(u32::MAX)),
                ("port_rcv_data", u64::from(u32::MAX)),
            ],
        );
        node.tick(1);
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_3/1 CounterSaturated Unknown Notice"]
        );
        assert_eq!(
            node.run(&CHECK)[0].evidence["counters"],
            "excessive_buffer_overrun_errors link_downed"
        );
        // What is beyond its nominal width is wider than that.
        node.set_counters(4, &[("link_downed", 300), ("symbol_error", 70_000)]);
        node.tick(1);
        assert_eq!(node.run(&CHECK).len(), 1);
        node.set_counters(
            3,
            &[("excessive_buffer_overrun_errors", 0), ("link_downed", 0)],
        );
        node.tick(1);
        node.tick(1);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }
}
