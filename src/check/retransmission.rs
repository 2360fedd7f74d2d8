//! Losses as the transport sees them.

use super::context::span_text;
use super::policy::{Limit, LosslessExpectation};
use super::{Candidate, Check, Context, PortView, ReasonDoc, Status, Weight, pfc};
use crate::observe::rdma::LinkLayer;
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
    what: "How fast the transport's loss counters rise, and which share of the packets is lost; how fast alone decides on InfiniBand, with PFC on, and with `expect.lossless = \"lossless\"`, elsewhere the share does. Timeouts and exhausted retries alone may be a process that died elsewhere: they move the verdict only when this port also sees losses, or when they come again within the hour. Flushed and receiver-not-ready requests are normal at the end of every job and are left out.",
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
    let many = increase.by > policy.loss.more_than;
    let much = increase.by > policy.loss_share_from
        && share.is_some_and(|share| share > policy.loss_share);
    // A fabric that is lossy by design loses some all the time: there only the share tells. Where
    // neither configuration nor flow control says which it is, a rate whose share is unknown is
    // told, and moves nothing.
    let (judged, weight) = match (is_lossless(context, port), share) {
        (Some(true), _) => (many || much, port.weight()),
        (None, None) => (many, Weight::Notice),
        (Some(false) | None, _) => (much, port.weight()),
    };
    if !judged {
        return None;
    }
    let mut candidate = say(context, port, LOSS, name, increase, within).weighing(weight);
    if let Some(share) = share {
        candidate = candidate.with("share_of_packets", (share * 1e6).round() / 1e6);
    }
    Some(candidate)
}

/// Whether the fabric of a port loses nothing by design: by configuration, as InfiniBand does by its
/// credits, or since a priority has flow control (PFC). None: nothing tells.
fn is_lossless(context: &Context<'_>, port: &PortView<'_>) -> Option<bool> {
    match context.policy.expect.lossless {
        LosslessExpectation::Lossless => Some(true),
        LosslessExpectation::Lossy => Some(false),
        LosslessExpectation::Auto if port.port.link_layer == LinkLayer::Infiniband => Some(true),
        LosslessExpectation::Auto => {
            let enabled = pfc::pfc_priorities(context, port.port.netdev.as_deref()?)?;
            (enabled != 0).then_some(true)
        }
    }
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

/// Whether losses were seen with it, or it came before and now again.
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
#[path = "retransmission_tests.rs"]
mod tests;
