//! Losses as the transport sees them.

use super::policy::LosslessExpectation;
use super::rising::{Counters, Rise, Rule, rule};
use super::{Candidate, Check, Context, PortView, ReasonDoc, Weight, pfc};
use std::time::Duration;

reasons! {
    degraded LOSS = "PacketLoss", CheckSwitchPort,
        "Packets of this port are lost and sent again, at a rate that slows every job.",
        "Look for drops on the way: the switch ports' discards, PFC and ECN settings, link errors at both ends. Both ends of a lossy path count; the node that counts most is nearest.";
    notice OUT_OF_ORDER = "OutOfOrder", None,
        "Many packets arrive out of order. On a fabric with adaptive routing that is by design; elsewhere packets are lost.",
        "Nothing is to be done where adaptive routing is on; else treat it as packet loss.";
    degraded TIMEOUTS = "AckTimeouts", CheckSwitchPort,
        "Acknowledgements do not arrive in time: the path loses packets, or the process at the other end died.",
        "Look first at whether jobs died at the other end; if not, look for a black hole on the way (one path of several, a wrong route) and at the peers' links.";
    degraded RETRIES = "RetriesExceeded", CheckSwitchPort,
        "Connections were given up after all retries: a job on them died. Here or at the other end.",
        "Find the other end in the job's log (NCCL prints the peer of status 12): if that node or process died, this one is well. If it comes again with other peers, drain this node.";
    degraded EFA_RETRANSMITTED = "EfaRetransmissions", CallProvider,
        "EFA sends many packets again.",
        "If other nodes of the job count none, drain this one and stop and start the instance.";
    notice EFA_REMOTE = "EfaRemoteImpaired", None,
        "EFA tells of remote ends that do not answer or are impaired.",
        "Look at the nodes that this one talks to; this one is the witness.";
    degraded EFA_DROPPED = "EfaReceiveDrops", FixConfiguration,
        "EFA drops packets on receive: no buffers are posted, or the host cannot keep up.",
        "Look at the load of the host and at the job's queue sizes; if an idle host drops, drain the node.";
}

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
const OUT_OF_ORDER_RULE: Rule = rule(
    OUT_OF_ORDER,
    &[
        "hw.out_of_sequence",
        "hw.responder_oos",
        "hw.out_of_seq_request",
    ],
    |policy| policy.retransmission.out_of_order,
);
/// What a process that died elsewhere may cause, too. Not among them: `rnr_nak_retry_err`, whose retry
/// limit was not exceeded, and `req_rnr_retries_exceeded`, where the receiver's program was too slow.
const SUSPECTS: &[Rule] = &[
    rule(
        TIMEOUTS,
        &[
            "hw.local_ack_timeout_err",
            "hw.roce_adp_retrans_to",
            "hw.requester_timeout",
        ],
        |policy| policy.retransmission.timeout,
    ),
    rule(
        RETRIES,
        &[
            "hw.req_transport_retries_exceeded",
            "hw.max_retry_exceeded",
            "hw.requester_retries_exceeded",
            "hw.retry_exceeded_err",
        ],
        |policy| policy.retransmission.retries_exceeded,
    ),
];
const EFA: &[Rule] = &[
    rule(EFA_RETRANSMITTED, &["hw.retrans_pkts"], |policy| {
        policy.retransmission.efa_retransmitted
    }),
    rule(
        EFA_REMOTE,
        &[
            "hw.unresponsive_remote_events",
            "hw.impaired_remote_conn_events",
        ],
        |policy| policy.retransmission.efa_remote,
    ),
    rule(EFA_DROPPED, &["hw.rx_drops"], |policy| {
        policy.retransmission.efa_dropped
    }),
];
/// Packets sent, for the share.
const SENT_COUNTERS: &[&str] = &["port_xmit_packets", "hw.sent_pkts", "hw.tx_pkts"];

/// Long enough to see whether something comes again, or has company.
const COMPANY: Duration = Duration::from_secs(600);
const AGAIN: Duration = Duration::from_secs(3600);

/// The row in the table.
pub const CHECK: Check = Check {
    id: "retransmission",
    title: "Retransmission",
    what: "How fast the transport's loss counters rise, and which share of the packets is lost; how fast alone decides on InfiniBand, with PFC on, and with `expect.lossless = \"lossless\"`, elsewhere the share does. Timeouts and exhausted retries alone may be a process that died elsewhere: they move the verdict only when this port also sees losses, or when they come again within the hour. Flushed and receiver-not-ready requests are normal at the end of every job and are left out.",
    reasons: REASONS,
    timing: |policy| policy.retransmission.timing(),
    run,
};

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let ports = context.ports().iter();
    ports
        .flat_map(|port| judge(&Counters::of(context, port)))
        .collect()
}

fn judge(counters: &Counters<'_, '_>) -> Vec<Candidate> {
    let rule = |rule: &Rule| Some(say(counters, &rule.doc, &counters.breaks(rule)?));
    if counters.port.is_efa() {
        return EFA.iter().filter_map(rule).collect();
    }
    let suspects = SUSPECTS.iter().filter_map(|suspect| {
        let mut candidate = rule(suspect)?;
        if !has_company(counters, suspect.counters) {
            candidate.weight = Weight::Notice;
        }
        Some(candidate)
    });
    let found = rule(&OUT_OF_ORDER_RULE).into_iter().chain(suspects);
    found.chain(loss(counters)).collect()
}

/// Losses by their rate, or, where there is little traffic, by their share.
fn loss(counters: &Counters<'_, '_>) -> Option<Candidate> {
    let policy = &counters.context.policy.retransmission;
    let within = policy.loss.within.0;
    let lost = counters.most(LOSS_COUNTERS, within, None)?;
    let sent = counters.by(SENT_COUNTERS, within);
    let share = (sent > 0).then(|| lost.by as f64 / sent as f64);
    let many = lost.by > policy.loss.more_than;
    let much =
        lost.by > policy.loss_share_from && share.is_some_and(|share| share > policy.loss_share);
    // A fabric that is lossy by design loses some all the time: there only the share tells. Where
    // neither configuration nor flow control says which it is, a rate whose share is unknown is
    // told, and moves nothing.
    let (judged, weight) = match (is_lossless(counters.context, counters.port), share) {
        (Some(true), _) => (many || much, Weight::Verdict),
        (None, None) => (many, Weight::Notice),
        (Some(false) | None, _) => (much, Weight::Verdict),
    };
    let mut candidate = judged.then(|| say(counters, &LOSS, &lost))?;
    candidate.weight = candidate.weight.min(weight);
    let share = share.map(|share| (share * 1e6).round() / 1e6);
    Some(candidate.with_some("share_of_packets", share))
}

/// Whether the fabric of a port loses nothing by design: by configuration, as InfiniBand does by its
/// credits, or since a priority has flow control (PFC). None: nothing tells.
fn is_lossless(context: &Context<'_>, port: &PortView<'_>) -> Option<bool> {
    match context.policy.expect.lossless {
        LosslessExpectation::Lossless => Some(true),
        LosslessExpectation::Lossy => Some(false),
        LosslessExpectation::Auto if port.is_infiniband() => Some(true),
        LosslessExpectation::Auto => {
            let enabled = pfc::pfc_priorities(context, port.port.netdev.as_deref()?)?;
            (enabled != 0).then_some(true)
        }
    }
}

/// Whether losses were seen with it, or it came before and now again.
fn has_company(counters: &Counters<'_, '_>, names: &[&str]) -> bool {
    counters.by(LOSS_COUNTERS, COMPANY) > 0
        || counters.by(names, AGAIN) > counters.by(names, COMPANY)
}

fn say(counters: &Counters<'_, '_>, doc: &ReasonDoc, rise: &Rise) -> Candidate {
    rise.candidate((counters.context, counters.port), doc, &rise.text())
        .with("over_seconds", rise.over.as_secs())
}

#[cfg(test)]
#[path = "retransmission_tests.rs"]
mod tests;
