//! Losses as the transport sees them.

use super::context::span_text;
use super::policy::{Limit, LosslessExpectation};
use super::{Candidate, Check, Context, PortView, ReasonDoc, Status, Weight};
use crate::observe::track::Increase;
use std::time::Duration;

const ID: &str = "retransmission";

const LOSS: ReasonDoc = ReasonDoc {
    reason: "PacketLoss",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "Packets of this port are lost and sent again, at a rate that slows every job.",
    remedy: "Look for drops on the way: the switch ports' discards, PFC and ECN settings, link errors at both ends. Both ends of a lossy path count; the node that counts most is nearest.",
};
const OUT_OF_ORDER: ReasonDoc = ReasonDoc {
    reason: "OutOfOrder",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "Many packets arrive out of order. On a fabric with adaptive routing that is by design; elsewhere packets are lost.",
    remedy: "Nothing is to be done where adaptive routing is on; else treat it as packet loss.",
};
const TIMEOUTS: ReasonDoc = ReasonDoc {
    reason: "AckTimeouts",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "Acknowledgements do not arrive in time: the path loses packets, or the process at the other end died.",
    remedy: "Look first at whether jobs died at the other end; if not, look for a black hole on the way (one path of several, a wrong route) and at the peers' links.",
};
const RETRIES: ReasonDoc = ReasonDoc {
    reason: "RetriesExceeded",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "Connections were given up after all retries: a job on them died. Here or at the other end.",
    remedy: "Find the other end in the job's log (NCCL prints the peer of status 12): if that node or process died, this one is well. If it comes again with other peers, drain this node.",
};
const EFA_RETRANSMITTED: ReasonDoc = ReasonDoc {
    reason: "EfaRetransmissions",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "EFA sends many packets again.",
    remedy: "If other nodes of the job count none, drain this one and stop and start the instance.",
};
const EFA_REMOTE: ReasonDoc = ReasonDoc {
    reason: "EfaRemoteImpaired",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "EFA tells of remote ends that do not answer or are impaired.",
    remedy: "Look at the nodes that this one talks to; this one is the witness.",
};
const EFA_DROPPED: ReasonDoc = ReasonDoc {
    reason: "EfaReceiveDrops",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "EFA drops packets on receive: no buffers are posted, or the host cannot keep up.",
    remedy: "Look at the load of the host and at the job's queue sizes; if an idle host drops, drain the node.",
};

/// Counters that only rise when packets are lost, of mlx5, bnxt_re, irdma, mana and rxe.
const LOSS_COUNTERS: &[&str] = &[
    "hw.packet_seq_err",
    "hw.implied_nak_seq_err",
    "hw.roce_adp_retrans",
    "hw.roce_slow_restart",
    "hw.to_retransmits",
    "hw.seq_err_naks_rcvd",
    "hw.oos_drop_count",
    "hw.tcpRetransSegs",
    "hw.requester_oos_nak",
    "hw.rcvd_seq_err",
    "hw.completer_retry_err",
];
const OUT_OF_ORDER_COUNTERS: &[&str] = &[
    "hw.out_of_sequence",
    "hw.responder_oos",
    "hw.out_of_seq_request",
];
const TIMEOUT_COUNTERS: &[&str] = &[
    "hw.local_ack_timeout_err",
    "hw.roce_adp_retrans_to",
    "hw.requester_timeout",
];
/// Not among them: `rnr_nak_retry_err`, whose retry limit was not exceeded, and
/// `req_rnr_retries_exceeded`, where the receiver's program was too slow.
const RETRIES_COUNTERS: &[&str] = &[
    "hw.req_transport_retries_exceeded",
    "hw.max_retry_exceeded",
    "hw.requester_retries_exceeded",
    "hw.retry_exceeded_err",
];
const EFA_REMOTE_COUNTERS: &[&str] = &[
    "hw.unresponsive_remote_events",
    "hw.impaired_remote_conn_events",
];
/// Packets sent, for the share.
const SENT_COUNTERS: &[&str] = &["port_xmit_packets", "hw.sent_pkts", "hw.tx_pkts"];

/// Long enough to see whether something comes again, or has company.
const COMPANY: Duration = Duration::from_secs(600);
const AGAIN: Duration = Duration::from_secs(3600);

/// The row in the table.
pub const CHECK: Check = Check {
    id: ID,
    title: "Retransmission",
    what: "How fast the transport's loss counters rise, and which share of the packets is lost; with `expect.lossless = \"lossy\"` the share alone decides. Timeouts and exhausted retries alone may be a process that died elsewhere: they move the verdict only when this port also sees losses, or when they come again within the hour. Flushed and receiver-not-ready requests are normal at the end of every job and are left out.",
    reasons: &[
        LOSS,
        OUT_OF_ORDER,
        TIMEOUTS,
        RETRIES,
        EFA_RETRANSMITTED,
        EFA_REMOTE,
        EFA_DROPPED,
    ],
    run,
};

fn run(context: &Context<'_>) -> Vec<Candidate> {
    context
        .ports()
        .iter()
        .flat_map(|port| judge(&context.as_of_counters(port), port))
        .collect()
}

fn judge(context: &Context<'_>, port: &PortView<'_>) -> Vec<Candidate> {
    let policy = &context.policy.retransmission;
    let mut found = Vec::new();
    let mut rule = |doc: ReasonDoc, counters: &[&'static str], limit: Limit, suspect: bool| {
        let Some((name, increase)) = worst(context, port, counters, limit.within.0) else {
            return;
        };
        if increase.by > limit.more_than {
            let mut candidate = say(context, port, doc, name, increase, limit.within.0);
            if suspect && !has_company(context, port, counters) {
                candidate.weight = Weight::Notice;
            }
            found.push(candidate);
        }
    };
    if port.is_efa() {
        rule(
            EFA_RETRANSMITTED,
            &["hw.retrans_pkts"],
            policy.efa_retransmitted,
            false,
        );
        rule(EFA_REMOTE, EFA_REMOTE_COUNTERS, policy.efa_remote, false);
        rule(EFA_DROPPED, &["hw.rx_drops"], policy.efa_dropped, false);
        return found;
    }
    rule(
        OUT_OF_ORDER,
        OUT_OF_ORDER_COUNTERS,
        policy.out_of_order,
        false,
    );
    rule(TIMEOUTS, TIMEOUT_COUNTERS, policy.timeout, true);
    rule(RETRIES, RETRIES_COUNTERS, policy.retries_exceeded, true);
    found.extend(loss(context, port));
    found
}

/// Losses by their rate, or, where there is little traffic, by their share.
fn loss(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    let policy = &context.policy.retransmission;
    let within = policy.loss.within.0;
    let (name, increase) = worst(context, port, LOSS_COUNTERS, within)?;
    let share = worst(context, port, SENT_COUNTERS, within)
        .filter(|(_, sent)| sent.by > 0)
        .map(|(_, sent)| increase.by as f64 / sent.by as f64);
    // A fabric that is lossy by design loses some all the time: there only the share tells.
    let lossy = context.policy.expect.lossless == LosslessExpectation::Lossy;
    let many = !lossy && increase.by > policy.loss.more_than;
    let much = increase.by > policy.loss_share_from
        && share.is_some_and(|share| share > policy.loss_share);
    if !many && !much {
        return None;
    }
    let mut candidate = say(context, port, LOSS, name, increase, within);
    if let Some(share) = share {
        candidate = candidate.with("share_of_packets", (share * 1e6).round() / 1e6);
    }
    Some(candidate)
}

/// The counter that rose most.
fn worst(
    context: &Context<'_>,
    port: &PortView<'_>,
    counters: &[&'static str],
    within: Duration,
) -> Option<(&'static str, Increase)> {
    counters
        .iter()
        .filter_map(|name| {
            let increase = context.increase_since(port.counter(name)?, within, None)?;
            Some((*name, increase))
        })
        .max_by_key(|(_, increase)| increase.by)
}

/// Whether losses were seen beside it, or it came before and now again.
fn has_company(context: &Context<'_>, port: &PortView<'_>, counters: &[&'static str]) -> bool {
    let rose = |counters: &[&'static str], within: Duration| {
        worst(context, port, counters, within).map_or(0, |(_, increase)| increase.by)
    };
    rose(LOSS_COUNTERS, COMPANY) > 0 || rose(counters, AGAIN) > rose(counters, COMPANY)
}

fn say(
    context: &Context<'_>,
    port: &PortView<'_>,
    doc: ReasonDoc,
    name: &str,
    increase: Increase,
    within: Duration,
) -> Candidate {
    let name = name.trim_start_matches("hw.");
    let mut candidate = doc
        .candidate(
            ID,
            (port.key.to_string(), port.subject.clone()),
            context.policy.retransmission.timing(),
            format!(
                "{}: {name} rose by {} within {}",
                port.subject,
                increase.by,
                span_text(within.min(increase.over))
            ),
        )
        .with("counter", name)
        .with("increase", increase.by)
        .with("over_seconds", increase.over.as_secs());
    if !port.rail {
        candidate.weight = Weight::Notice;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, tell};
    use super::*;

    fn counted(driver: &str, steps: &[&[(&str, u64)]]) -> Node {
        let mut node = Node::roce();
        node.devices[0].driver = driver.into();
        node.tick(1);
        for (i, step) in steps.iter().enumerate() {
            node.set_counters(0, step);
            node.tick(if i + 1 == steps.len() { 0 } else { 10 });
        }
        node
    }

    #[test]
    fn rules() {
        type Row<'a> = (&'a str, &'a [(&'a str, u64)], &'a [&'a str]);
        let rows: &[Row<'_>] = &[
            (
                "mlx5_core",
                &[("hw.packet_seq_err", 601)],
                &["PacketLoss Degraded Verdict"],
            ),
            ("mlx5_core", &[("hw.packet_seq_err", 600)], &[]),
            (
                "mlx5_core",
                &[("hw.out_of_sequence", 70_000)],
                &["OutOfOrder Degraded Notice"],
            ),
            // A peer's process that died, and nothing else.
            (
                "mlx5_core",
                &[("hw.local_ack_timeout_err", 100)],
                &["AckTimeouts Degraded Notice"],
            ),
            (
                "mlx5_core",
                &[("hw.req_transport_retries_exceeded", 1)],
                &["RetriesExceeded Degraded Notice"],
            ),
            // With losses seen here, too.
            (
                "mlx5_core",
                &[
                    ("hw.req_transport_retries_exceeded", 1),
                    ("hw.packet_seq_err", 9),
                ],
                &["RetriesExceeded Degraded Verdict"],
            ),
            // Little traffic, much of it lost.
            (
                "rdma_rxe",
                &[("hw.completer_retry_err", 5), ("hw.sent_pkts", 800)],
                &["PacketLoss Degraded Verdict"],
            ),
            (
                "rdma_rxe",
                &[("hw.completer_retry_err", 5), ("hw.sent_pkts", 800_000)],
                &[],
            ),
            // Normal at the end of every job.
            (
                "mlx5_core",
                &[
                    ("hw.req_cqe_flush_error", 90_000),
                    ("hw.rnr_nak_retry_err", 90_000),
                    ("hw.req_rnr_retries_exceeded", 90),
                    ("hw.duplicate_request", 90_000),
                    ("hw.out_of_buffer", 90_000),
                ],
                &[],
            ),
            (
                "efa",
                &[
                    ("hw.retrans_pkts", 1001),
                    ("hw.impaired_remote_conn_events", 101),
                    ("hw.rx_drops", 6001),
                ],
                &[
                    "EfaRetransmissions Degraded Verdict",
                    "EfaRemoteImpaired Degraded Notice",
                    "EfaReceiveDrops Degraded Verdict",
                ],
            ),
            (
                "bnxt_re",
                &[("hw.to_retransmits", 601)],
                &["PacketLoss Degraded Verdict"],
            ),
        ];
        for (driver, to, want) in rows {
            let from: Vec<_> = to.iter().map(|(name, _)| (*name, 0)).collect();
            let got: Vec<_> = counted(driver, &[&from, to])
                .run(&CHECK)
                .iter()
                .map(tell)
                .collect();
            let want: Vec<_> = want.iter().map(|want| format!("mlx5_0/1 {want}")).collect();
            assert_eq!(got, want, "{driver} {to:?}");
        }
    }

    #[test]
    fn a_fabric_that_is_lossy_by_design_is_judged_by_the_share() {
        for (sent, want) in [(600_000, 1), (60_000_000, 0)] {
            let from = [("hw.packet_seq_err", 0), ("port_xmit_packets", 0)];
            let to = [("hw.packet_seq_err", 2000), ("port_xmit_packets", sent)];
            let mut node = counted("mlx5_core", &[&from, &to]);
            assert_eq!(node.run(&CHECK).len(), 1);
            node.policy.expect.lossless = LosslessExpectation::Lossy;
            assert_eq!(node.run(&CHECK).len(), want, "{sent}");
        }
    }

    #[test]
    fn retries_that_come_again_count() {
        let counter = |value| [("hw.req_transport_retries_exceeded", value)];
        let mut node = counted("mlx5_core", &[&counter(4), &counter(5)]);
        assert_eq!(node.run(&CHECK)[0].weight, Weight::Notice);
        node.tick(1200);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        node.set_counters(0, &counter(6));
        node.tick(0);
        assert_eq!(node.run(&CHECK)[0].weight, Weight::Verdict);
    }

    #[test]
    fn the_first_sample_is_a_baseline() {
        let node = counted("efa", &[&[("hw.retrans_pkts", 1 << 40)]]);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }

    #[test]
    fn switchdev_counters_are_on_the_device() {
        let node = counted(
            "mlx5_core",
            &[
                &[("dev.vport_packet_seq_err", 0)],
                &[("dev.vport_packet_seq_err", 9000)],
            ],
        );
        assert_eq!(node.told(&CHECK), ["mlx5_0/1 PacketLoss Degraded Verdict"]);
    }
    #[test]
    fn counters_that_are_reset_together_did_not_wrap() {
        const HIGH: u64 = 3_000_000_000;
        let lost = |second: u64| {
            let node = counted(
                "mlx5_core",
                &[
                    &[
                        ("hw.packet_seq_err", HIGH),
                        ("hw.rx_write_requests", HIGH),
                        ("port_xmit_packets", 1_000_000),
                    ],
                    &[("hw.packet_seq_err", 9), ("hw.rx_write_requests", second)],
                ],
            );
            node.run(&CHECK).len()
        };
        assert_eq!(lost(9), 0, "a reset");
        assert_eq!(lost(HIGH), 1, "a wrap");
    }
}
