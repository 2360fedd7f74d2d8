//! Pause, drops, congestion notifications, and whether RoCE runs on a priority with flow control.

use super::pfc::{self, dcb, has, list, pfc_priorities};
use super::policy::{Limit, LosslessExpectation};
use super::rising::{PortRises, Rise, counters_of};
use super::{Action, Candidate, Context, Reason, Weight, unseen_on_rails};
use crate::observe::{Reading, Track};
use std::time::Duration;

const PEER_PAUSES: &str = "The fabric or a peer slows this host; as a rule it is not at fault. Look for the host whose transmitted pause rises, and at the switch port.";

check!(congestion, run);

/// Share of the bytes of a priority to those of RDMA above which it is the RoCE priority.
const CARRIES_ROCE: f64 = 0.8;
/// RDMA bytes in a minute below which nothing is made of the shares.
const SOME_TRAFFIC: u64 = 100_000_000;
const MINUTE: Duration = Duration::from_secs(60);

/// The NIC's own events. The hard limit comes first; warnings and vendors' "continuous pause" are
/// milder.
const STORM_EVENTS: &[(&str, Weight)] = &[
    ("eth.tx_pause_storm_error_events", Weight::Verdict),
    ("eth.tx_pause_storm_warning_events", Weight::Notice),
    ("eth.continuous_roce_pause_events", Weight::Notice),
    ("eth.continuous_pause_events", Weight::Notice),
];

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let policy = &context.policy.congestion;
    let mut found = Vec::new();
    for port in context.ports() {
        let counters = PortRises::of(context, port);
        let (received, ignored) = (policy.notifications, policy.notifications_ignored);
        for (reason, limit) in [
            ("CongestionNotifications", received),
            ("CongestionNotificationsIgnored", ignored),
        ] {
            let say = |rise: &Rise<'_>| counters.candidate(reason, rise, &rise.text());
            found.extend(counters.judge(reason, counters_of(reason), limit, say));
        }
        found.extend(drops(&counters));
        if port.port.netdev.is_some() {
            found.extend(pause(&counters));
            found.extend(storm_events(&counters));
            found.extend(priority_of_roce(&counters));
        }
    }
    let by_settings = ["PfcNotEnabled", "RoceOnLossyPriority"];
    found.extend(unseen_on_rails(context, &by_settings, |rail| {
        let settings = (rail.port.netdev.as_ref()).and_then(|name| context.snapshot.dcb.get(name));
        let untold = match settings.map(|settings| &settings.value) {
            Some(Reading::Value(settings)) => settings.pfc_enabled.is_none(),
            Some(Reading::Absent | Reading::NotObservable) => false,
            Some(Reading::Failed(_)) | None => true,
        };
        rail.is_roce() && rail.may_be_linked() && (untold || pfc::is_unread(context, rail))
    }));
    found
}

fn say(counters: &PortRises<'_, '_>, reason: Reason, message: &str) -> Candidate {
    let (context, port) = (counters.context, counters.port);
    context.of_port(reason, port, format!("{}: {message}", port.subject))
}

fn about_a_part(mut found: Candidate, part: &str) -> Candidate {
    found.key.push_str(part);
    found.subject.push_str(part);
    found
}

/// Share of the last sample's time that was paused.
fn share(track: &Track) -> Option<f64> {
    let step = track.last_step()?;
    let micros = step.over.as_micros();
    (micros > 0).then(|| step.by as f64 / micros as f64)
}

fn pause(counters: &PortRises<'_, '_>) -> Vec<Candidate> {
    let (context, port) = (counters.context, counters.port);
    let policy = &context.policy.congestion;
    let netdev = port.port.netdev.as_ref();
    let read_at = netdev.and_then(|name| context.history.ethtool_at.get(name));
    // Time in which it is not read counts for nothing.
    let is_read = netdev.is_some_and(|name| {
        let sample = context.snapshot.ethtool.get(name);
        let health = context.snapshot.health("ethtool", name);
        let read = sample.is_some_and(|sample| Some(&sample.at) == read_at);
        read && health.is_none_or(|health| !health.fails())
    });
    let judge = |(priority, statistic, track): (_, _, &Track)| -> Option<Candidate> {
        let (part, direction, what) = match statistic {
            "tx_pause_micros" => ("tx", "transmit", "sends pause"),
            "rx_pause_micros" => ("rx", "receive", "is paused by the fabric"),
            _ => return None,
        };
        // PFC that was switched off takes the statistic with it.
        let share = share(track).filter(|_| track.last_at().as_ref() == read_at)?;
        let (reason, raise_after) = if share > policy.storm {
            ("PfcStorm", policy.storm_raise_after)
        } else if share > policy.pressure {
            ("PfcPressure", policy.pressure_raise_after)
        } else {
            return None;
        };
        // Clocks differ a little, and an interface may pause for its priorities at once.
        let share = share.min(1.0);
        let percent = (share * 100.0).round();
        let message = format!("priority {priority} {what} for {percent} % of the time");
        let about = format!(" prio{priority} {part}");
        let mut found = about_a_part(say(counters, reason, &message), &about)
            .raised_after(raise_after.0)
            .with("priority", priority)
            .with("direction", direction)
            .with("share", (share * 1000.0).round() / 1000.0);
        if part == "rx" {
            found = found.fix(Action::CheckSwitchPort, PEER_PAUSES);
            if reason == "PfcPressure" {
                found.weight = Weight::Notice;
            }
        }
        Some(found)
    };
    if is_read {
        return port.priority_statistics().filter_map(judge).collect();
    }
    // Which of them it had may be from before a restart.
    let parts = (0..8).flat_map(|priority| [(priority, "tx"), (priority, "rx")]);
    let unseen = parts.flat_map(|(priority, part)| {
        let key = format!("{} prio{priority} {part}", port.key);
        ["PfcStorm", "PfcPressure"].map(|reason| context.unseen(reason, &key))
    });
    unseen.collect()
}

fn storm_events(counters: &PortRises<'_, '_>) -> Option<Candidate> {
    let limit = counters.context.policy.congestion.storm_events;
    let found = STORM_EVENTS.iter().find_map(|(name, weight)| {
        let rise = counters.above(&[*name], limit)?;
        let found = counters.candidate("PauseStormEvent", &rise, &rise.text());
        Some(found.weighing(counters.port.weight().min(*weight)))
    });
    found.or_else(|| {
        let names: Vec<&str> = STORM_EVENTS.iter().map(|(name, _)| *name).collect();
        counters.unseen("PauseStormEvent", &names, limit, false)
    })
}

/// Packets that the port dropped, by the counters that its driver has.
fn drops(counters: &PortRises<'_, '_>) -> Vec<Candidate> {
    let context = counters.context;
    let policy = &context.policy.congestion;
    let dropped = |reason: Reason, names: &[&str], limit: Limit| {
        counters.judge(reason, names, limit, |rise| {
            let (by, span) = (rise.by, rise.span());
            let message = match rise.name {
                "port_xmit_discards" => format!("{by} packets could not be sent within {span}"),
                name => format!("{by} packets dropped within {span} ({name})"),
            };
            counters.candidate(reason, rise, &message)
        })
    };
    let unsent = dropped("PortDrops", &["port_xmit_discards"], policy.discards);
    let mut found = Vec::from_iter(unsent);
    if context.policy.expect.lossless == LosslessExpectation::Lossy {
        return found;
    }
    let discarded = |counters| dropped("PortDrops", counters_of(counters), policy.discards);
    found.extend(discarded("roce_drops"));
    let Some(netdev) = counters.port.port.netdev.as_deref() else {
        return found;
    };
    let Some(lossless) = pfc_priorities(context, netdev) else {
        if pfc::is_unread(context, counters.port) {
            let parts = (0..8).map(|priority| format!("{} prio{priority}", counters.port.key));
            found.extend(parts.map(|part| context.unseen("LosslessDrops", part)));
        }
        found.extend(discarded("port_drops"));
        return found;
    };
    for priority in (0..8).filter(|priority| has(lossless, *priority)) {
        let names = [
            format!("eth.prio{priority}.rx_discards"),
            format!("eth.rx_prio{priority}_buf_discard"),
            format!("eth.rx_prio{priority}_cong_discard"),
        ];
        let names = names.each_ref().map(String::as_str);
        let lost = dropped("LosslessDrops", &names, policy.lossless_discards);
        found.extend(lost.map(|of| about_a_part(of, &format!(" prio{priority}"))));
    }
    if lossless == 0 {
        found.extend(discarded("port_drops"));
    }
    found
}

/// RoCE on a priority without PFC, or PFC nowhere although it must be.
fn priority_of_roce(counters: &PortRises<'_, '_>) -> Option<Candidate> {
    let (context, port) = (counters.context, counters.port);
    let expected = context.policy.expect.lossless;
    if expected == LosslessExpectation::Lossy || !port.is_roce() || !port.is_active() {
        return None;
    }
    let enabled = dcb(context, port.port.netdev.as_deref()?)?.pfc_enabled?;
    if enabled == 0 {
        return (expected == LosslessExpectation::Lossless)
            .then(|| say(counters, "PfcNotEnabled", "PFC is on for no priority"));
    }
    let minute = |name: &str| counters.by(&[name], MINUTE);
    let rdma = minute("eth.rx_vport_rdma_unicast_bytes");
    if rdma < SOME_TRAFFIC {
        return None;
    }
    let by_priority =
        (0..8u8).map(|priority| (priority, minute(&format!("eth.prio{priority}.rx_bytes"))));
    let (priority, bytes) = by_priority.max_by_key(|(_, bytes)| *bytes)?;
    let carries_roce = (bytes as f64) >= rdma as f64 * CARRIES_ROCE;
    if !carries_roce || has(enabled, priority) {
        return None;
    }
    let losses = minute(&format!("eth.prio{priority}.rx_discards"))
        + minute("hw.packet_seq_err")
        + minute("hw.out_of_sequence");
    // Without losses it may be meant so, unless configuration says that it must not be.
    if losses == 0 && expected == LosslessExpectation::Auto {
        return None;
    }
    let enabled = list(enabled);
    let message = format!("RoCE runs on priority {priority}, but PFC is on for {enabled}");
    let found = say(counters, "RoceOnLossyPriority", &message);
    let found = found.with("priority", priority).with("losses", losses);
    Some(found.with("pfc_enabled", enabled))
}

#[cfg(test)]
mod tests;
