//! Errors on the wire.

use super::rising::{Counters, Rule, rule};
use super::{Action, Candidate, Check, Context, PortView, ReasonDoc};

const ID: &str = "link_errors";

const CABLE: &str = "Clean and reseat the cable's connectors, then replace cable and module; `mlxlink -d DEV -c -e` or `perfquery -x` tell more. Errors that stay with the port are the NIC's or the switch's.";

const SYMBOL: ReasonDoc = ReasonDoc::degraded(
    "SymbolErrors",
    Action::ReseatCable,
    "Bits arrive wrong more often than error correction can mend.",
    CABLE,
);
const RECOVERY: ReasonDoc = ReasonDoc::degraded(
    "LinkRecoveries",
    Action::ReseatCable,
    "The link keeps retraining; traffic stands still each time.",
    CABLE,
);
const RECEIVE: ReasonDoc = ReasonDoc::degraded(
    "ReceiveErrors",
    Action::CheckSwitchPort,
    "Packets arrive damaged.",
    "Look at the error counts of the switch port at the other end first: damage may come from further up. Then clean, reseat or replace cable and module.",
);
const INTEGRITY: ReasonDoc = ReasonDoc::degraded(
    "LinkIntegrityErrors",
    Action::ReseatCable,
    "Physical errors came so densely that the port counted a breach of its limit.",
    CABLE,
);
const OVERRUN: ReasonDoc = ReasonDoc::degraded(
    "BufferOverruns",
    Action::FixConfiguration,
    "The port's input buffers ran over: the other end sends beyond its credits, or the port is at fault.",
    "Compare the firmware of NIC and switch and the virtual lanes that the subnet manager set; then have the NIC examined.",
);
const CONSTRAINT: ReasonDoc = ReasonDoc::degraded(
    "ConstraintErrors",
    Action::FixConfiguration,
    "Packets with a partition key (or of a kind) that is not allowed here come or go.",
    "Look at the partitions that the subnet manager gave to this port, and at who sends: a node with a stale configuration does this.",
).notice();
const CHECKSUM: ReasonDoc = ReasonDoc::degraded(
    "ChecksumErrors",
    Action::ReseatCable,
    "Frames arrive with a wrong checksum.",
    CABLE,
);
const ADMIN_COMMANDS: ReasonDoc = ReasonDoc::degraded(
    "AdminCommandsLost",
    Action::CallProvider,
    "The EFA device did not answer commands of its driver.",
    "Drain the node and stop and start the instance, which moves it to other hardware.",
);

/// A link that comes up counts errors while it trains: those are left out. (RoCE: the PMA error
/// files stay 0, so the network device's statistics tell.)
const OF_THE_WIRE: &[Rule] = &[
    rule(
        SYMBOL,
        &[
            "symbol_error",
            "eth.rx_pcs_symbol_err_phy",
            "eth.rx_symbol_err_phy",
        ],
        |policy| policy.link_errors.symbol,
    ),
    rule(RECOVERY, &["link_error_recovery"], |policy| {
        policy.link_errors.recovery
    }),
    rule(RECEIVE, &["port_rcv_errors"], |policy| {
        policy.link_errors.receive
    }),
    rule(INTEGRITY, &["local_link_integrity_errors"], |policy| {
        policy.link_errors.integrity
    }),
    rule(OVERRUN, &["excessive_buffer_overrun_errors"], |policy| {
        policy.link_errors.overrun
    }),
    rule(
        CHECKSUM,
        &[
            "hw.rx_icrc_encapsulated",
            "eth.rx_crc_errors_phy",
            "eth.rx_crc_errors",
            "eth.rx_crc_errors.nic",
            "eth.rx_fcs_err_frames",
        ],
        |policy| policy.link_errors.checksum,
    ),
];
const OF_PACKETS: &[Rule] = &[
    rule(
        CONSTRAINT,
        &["port_rcv_constraint_errors", "port_xmit_constraint_errors"],
        |policy| policy.link_errors.constraint,
    ),
    rule(ADMIN_COMMANDS, &["dev.no_completion_cmds"], |policy| {
        policy.link_errors.admin_commands_lost
    }),
];

/// The row in the table.
pub const CHECK: Check = Check {
    id: ID,
    title: "Link errors",
    what: "How fast the error counters of each port rise: InfiniBand's own (PMA), RoCE's ICRC errors, and the physical-layer errors of the Ethernet side. Only rises since the first sample count, and what a link counts while it trains is left out. A counter stuck at its maximum is reported by counter_saturated.",
    reasons: &[
        SYMBOL,
        RECOVERY,
        RECEIVE,
        INTEGRITY,
        OVERRUN,
        CONSTRAINT,
        CHECKSUM,
        ADMIN_COMMANDS,
    ],
    run,
};

fn run(context: &Context<'_>) -> Vec<Candidate> {
    context
        .ports()
        .iter()
        .flat_map(|port| judge(context, port))
        .collect()
}

fn judge(context: &Context<'_>, port: &PortView<'_>) -> Vec<Candidate> {
    let policy = &context.policy.link_errors;
    let counters = Counters::of(context, port);
    let trained = port.last_edge().map(|edge| edge.plus(policy.settle.0));
    let of_the_wire = OF_THE_WIRE.iter().map(|rule| (rule, trained));
    let found = of_the_wire.chain(OF_PACKETS.iter().map(|rule| (rule, None)));
    found
        .filter_map(|(rule, since)| {
            let limit = (rule.limit)(context.policy);
            let rise = counters.most(rule.counters, limit.within.0, since)?;
            let above = rise.by > limit.more_than;
            let message = format!("{}; more than {} is too much", rise.text(), limit.more_than);
            above.then(|| {
                rise.candidate((ID, policy.timing()), &rule.doc, port, &message)
                    .with("over_seconds", rise.over.as_secs())
                    .with("limit", limit.more_than)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, nic, tell};
    use super::*;
    use crate::check::roles::Role;
    use crate::observe::netdev::PriorityFacts;
    use crate::observe::rdma::{PhysState, PortState};

    /// A node whose port 0 counted `from`, and 10 s later `to`.
    fn counted(name: &str, from: u64, to: u64) -> Node {
        let mut node = Node::infiniband();
        node.set_counters(0, &[(name, from)]);
        node.tick(10);
        node.set_counters(0, &[(name, to)]);
        node.tick(0);
        node
    }

    #[test]
    fn rules() {
        for (name, from, to, want) in [
            ("symbol_error", 0, 120, None),
            (
                "symbol_error",
                5000,
                5121,
                Some("SymbolErrors Degraded Verdict"),
            ),
            (
                "link_error_recovery",
                0,
                6,
                Some("LinkRecoveries Degraded Verdict"),
            ),
            (
                "port_rcv_errors",
                0,
                601,
                Some("ReceiveErrors Degraded Verdict"),
            ),
            (
                "local_link_integrity_errors",
                3,
                4,
                Some("LinkIntegrityErrors Degraded Verdict"),
            ),
            ("local_link_integrity_errors", 4, 4, None),
            (
                "excessive_buffer_overrun_errors",
                0,
                1,
                Some("BufferOverruns Degraded Verdict"),
            ),
            (
                "port_rcv_constraint_errors",
                0,
                101,
                Some("ConstraintErrors Degraded Notice"),
            ),
            (
                "hw.rx_icrc_encapsulated",
                0,
                61,
                Some("ChecksumErrors Degraded Verdict"),
            ),
            (
                "dev.no_completion_cmds",
                0,
                1,
                Some("AdminCommandsLost Degraded Verdict"),
            ),
            // Normal while subnet managers sweep; not of this port.
            ("VL15_dropped", 0, 60_000, None),
            ("port_rcv_switch_relay_errors", 0, 60_000, None),
            // Someone cleared the counter.
            ("symbol_error", 60_000, 10, None),
        ] {
            let got = counted(name, from, to).run(&CHECK).first().map(tell);
            let want = want.map(|want| format!("mlx5_0/1 {want}"));
            assert_eq!(got, want, "{name} {from} {to}");
        }
    }

    #[test]
    fn the_first_sample_is_a_baseline() {
        let mut node = Node::infiniband();
        node.tick(10);
        node.set_counters(0, &[("symbol_error", 65_535)]);
        node.tick(0);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }

    #[test]
    fn it_ends_with_the_window() {
        let mut node = counted("symbol_error", 0, 500);
        node.tick(3599);
        assert_eq!(node.run(&CHECK).len(), 1);
        node.tick(2);
        assert_eq!(node.run(&CHECK).len(), 0);
    }

    #[test]
    fn training_is_left_out() {
        let mut node = Node::infiniband();
        node.set_counters(0, &[("symbol_error", 0)]);
        node.tick(10);
        node.set_state(0, PortState::Down, PhysState::Training);
        node.tick(1);
        node.set_counters(0, &[("symbol_error", 9000)]);
        node.tick(10);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        node.tick(60);
        node.set_counters(0, &[("symbol_error", 9500)]);
        node.tick(0);
        assert_eq!(node.run(&CHECK)[0].evidence["increase"], 500);
    }

    #[test]
    fn ethernet_and_ports_that_are_no_rails() {
        let mut node = Node::roce();
        node.set_role(0, Role::Other);
        let set = |node: &mut Node, errors| {
            node.set_ethtool(
                0,
                PriorityFacts::default(),
                &[("rx_pcs_symbol_err_phy", errors)],
            );
        };
        set(&mut node, 7);
        node.tick(10);
        set(&mut node, 200);
        node.tick(0);
        assert_eq!(node.told(&CHECK), ["mlx5_0/1 SymbolErrors Degraded Notice"]);
    }

    #[test]
    fn blind_keeps_what_was_seen() {
        let mut node = counted("port_rcv_errors", 0, 700);
        node.set_stalled("counters", &nic(0), node.now);
        node.tick(600);
        assert_eq!(node.run(&CHECK).len(), 1);
        node.snapshot.sources.clear();
        assert_eq!(node.run(&CHECK).len(), 0);
    }
}
