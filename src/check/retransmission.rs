//! Losses as the transport sees them.

use super::policy::{Limit, LosslessExpectation};
use super::rising::{PortRises, Rise, counters_of};
use super::{Candidate, Context, PortView, Reason, Weight, pfc};
use std::time::Duration;

check!(retransmission, run);

/// Long enough to see whether something comes again, or has company.
const COMPANY: Duration = Duration::from_secs(600);
const AGAIN: Duration = Duration::from_secs(3600);

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let counters = (context.ports().iter()).map(|port| PortRises::of(context, port));
    counters.flat_map(|of| judge(&of)).collect()
}

fn judge(counters: &PortRises<'_, '_>) -> Vec<Candidate> {
    let policy = &counters.context.policy.retransmission;
    let rule = |(reason, limit): (Reason, Limit)| {
        let say = |rise: &Rise<'_>| say(counters, reason, rise);
        counters.judge(reason, counters_of(reason), limit, say)
    };
    if counters.port.is_efa() {
        let rules = [
            ("EfaRetransmissions", policy.efa_retransmitted),
            ("EfaRemoteImpaired", policy.efa_remote),
            ("EfaReceiveDrops", policy.efa_dropped),
        ];
        return rules.into_iter().filter_map(rule).collect();
    }
    // What a process that died elsewhere may cause, too. Not among them: `rnr_nak_retry_err`, whose retry
    // limit was not exceeded, and `req_rnr_retries_exceeded`, where the receiver's program was too slow.
    let exceeded = ("RetriesExceeded", policy.retries_exceeded);
    let suspects = [("AckTimeouts", policy.timeout), exceeded].into_iter();
    let suspects = suspects.filter_map(|suspect| {
        let mut candidate = rule(suspect)?;
        if !is_corroborated(counters, counters_of(suspect.0)) {
            candidate.weight = Weight::Notice;
        }
        Some(candidate)
    });
    let out_of_order = rule(("OutOfOrder", policy.out_of_order)).into_iter();
    let found = out_of_order.chain(suspects);
    found.chain(loss(counters)).collect()
}

/// Losses by their rate, or, where there is little traffic, by their share.
fn loss(counters: &PortRises<'_, '_>) -> Option<Candidate> {
    let policy = &counters.context.policy.retransmission;
    let within = policy.loss.within.0;
    let names = counters_of("PacketLoss");
    let lost = counters.most(names, within, None)?;
    // What was lost is remembered over a restart of the agent, what was sent is not.
    let sent = counters.most(counters_of("packets_sent"), within, None);
    let sent = sent.filter(|sent| sent.by > 0 && sent.over >= lost.over);
    let share = sent.map(|sent| lost.by as f64 / sent.by as f64);
    let many = lost.by > policy.loss.more_than;
    let much =
        lost.by > policy.loss_share_from && share.is_some_and(|share| share > policy.loss_share);
    // A fabric that is lossy by design loses some all the time: there only the share tells. Where
    // neither configuration nor flow control says which it is, a rate whose share is unknown is
    // told, and moves nothing.
    let (context, port) = (counters.context, counters.port);
    let lossless = is_lossless(context, port);
    let (judged, weight) = match (lossless, share) {
        (Some(true), _) => (many || much, Weight::Verdict),
        (None, None) => (many, Weight::Notice),
        (Some(false) | None, _) => (much, Weight::Verdict),
    };
    // What was judged by flow control stands while that cannot be read.
    if many && !much && lossless.is_none() && pfc::is_unread(context, port) {
        return Some(context.unseen("PacketLoss", port.key.to_string()));
    }
    if !judged {
        return counters.unseen("PacketLoss", names, policy.loss, false);
    }
    let mut candidate = say(counters, "PacketLoss", &lost);
    candidate.weight = candidate.weight.min(weight);
    let share = share.map(|share| (share * 1e6).round() / 1e6);
    Some(candidate.with("share_of_packets", share))
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
fn is_corroborated(counters: &PortRises<'_, '_>, names: &[&str]) -> bool {
    counters.by(counters_of("PacketLoss"), COMPANY) > 0
        || counters.by(names, AGAIN) > counters.by(names, COMPANY)
}

fn say(counters: &PortRises<'_, '_>, reason: Reason, rise: &Rise<'_>) -> Candidate {
    (counters.candidate(reason, rise, &rise.text())).with("over_seconds", rise.over.as_secs())
}

#[cfg(test)]
mod tests;
