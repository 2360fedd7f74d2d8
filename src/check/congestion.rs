//! Pause, drops and congestion notifications.

use super::context::span_text;
use super::pfc::{self, has, pfc_priorities};
use super::policy::{Limit, LosslessExpectation};
use super::{Candidate, Check, Context, PortView, ReasonDoc, Status, Weight};
use crate::observe::track::{Increase, Track};

const ID: &str = "congestion";

const WE_PAUSE: &str = "This host cannot take in what arrives. Look for what slows its receive side: PCIe width and errors, the IOMMU, ACS, GPU errors, `rx_out_of_buffer` and `outbound_pci_stalled_*` of `ethtool -S`.";
const PEER_PAUSES: &str = "The fabric or a peer slows this host; as a rule it is not at fault. Look for the host whose transmitted pause rises, and at the switch port.";

const EITHER: &str = "Sent pause: this host cannot take in what arrives; look for what slows its receive side (PCIe width and errors, the IOMMU, ACS, GPU errors, `rx_out_of_buffer` and `outbound_pci_stalled_*` of `ethtool -S`). Received pause: look for the host whose transmitted pause rises, and at the switch port.";

const STORM: ReasonDoc = ReasonDoc {
    reason: "PfcStorm",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "A priority of a rail is paused most of the time, so next to nothing moves: sent pause means that this host cannot drain and stops others, received pause that the fabric stops this host.",
    remedy: EITHER,
};
const PRESSURE: ReasonDoc = ReasonDoc {
    reason: "PfcPressure",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "A priority of a rail is paused for a good part of the time. Received pause is a notice: the fault lies elsewhere.",
    remedy: EITHER,
};
const STORM_EVENT: ReasonDoc = ReasonDoc {
    reason: "PauseStormEvent",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "The NIC itself found that it paused the fabric for too long; past its limit it stops pausing and drops.",
    remedy: WE_PAUSE,
};
const LOSSLESS_DROPS: ReasonDoc = ReasonDoc {
    reason: "LosslessDrops",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "Packets of a priority that has flow control (PFC) are dropped on receive, which must not be.",
    remedy: "Compare buffer and headroom settings of NIC (`mlnx_qos`, `dcb buffer`) and switch, and the cable's length; look at whether the peer heeds pause.",
};
pub(super) const WRONG_PRIORITY: ReasonDoc = ReasonDoc {
    reason: "RoceOnLossyPriority",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "RoCE traffic runs on a priority without flow control (PFC), while another one has it: marking and trust do not fit together.",
    remedy: "Make the traffic class of the jobs (NCCL_IB_TC), the DSCP to priority map and the trust state (`mlnx_qos --trust dscp`) fit the priority that has PFC.",
};
pub(super) const PFC_OFF: ReasonDoc = ReasonDoc {
    reason: "PfcNotEnabled",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "The fabric is lossless by configuration (`expect.lossless`), but a rail has flow control (PFC) on no priority.",
    remedy: "Switch PFC on for the RoCE priority (`mlnx_qos --pfc`, `dcb pfc set`), here and on the switch port.",
};
const DROPS: ReasonDoc = ReasonDoc {
    reason: "PortDrops",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "A port drops packets for lack of buffer, or (InfiniBand) because it could not send them.",
    remedy: "On receive the host is too slow: look at PCIe and CPU load. On send look at the switch and the fabric's congestion control.",
};
const NOTIFICATIONS: ReasonDoc = ReasonDoc {
    reason: "CongestionNotifications",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "Congestion control slows many flows of this port.",
    remedy: "Nothing on this node: many senders share a path or a receiver.",
};
const IGNORED: ReasonDoc = ReasonDoc {
    reason: "CongestionNotificationsIgnored",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "The port received congestion notifications and did not slow down: congestion control is off here, or set for another priority.",
    remedy: "Switch congestion control on for the RoCE priority (`/sys/class/net/DEV/ecn/roce_rp/enable`, `mlxconfig`).",
};

/// Packets dropped on receive for lack of buffer, all priorities: mlx5, bnxt, ice, ionic.
const PORT_DROPS: &[&str] = &[
    "rx_discards_phy",
    "rx_stat_discard",
    "rx_dropped.nic",
    "frames_rx_dropped",
];
/// RoCE packets dropped: bnxt_re, irdma.
const ROCE_DROPS: &[&str] = &[
    "hw.rx_roce_discards",
    "hw.tx_roce_discards",
    "hw.ip4InDiscards",
    "hw.ip6InDiscards",
];

/// The row in the table.
pub const CHECK: Check = Check {
    id: ID,
    title: "Congestion",
    what: "By priority and direction the share of time paused (not frames, whose length is not comparable), the NIC's own storm events, drops on priorities with PFC and without, and congestion notifications. Whether drops matter depends on `expect.lossless`. What a driver does not show is not observable, and never zero. A host that sends pause is the cause; one that receives it is the victim.",
    reasons: &[
        STORM,
        PRESSURE,
        STORM_EVENT,
        LOSSLESS_DROPS,
        WRONG_PRIORITY,
        PFC_OFF,
        DROPS,
        NOTIFICATIONS,
        IGNORED,
    ],
    run,
};

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    for port in context.ports() {
        let counters = context.as_of_counters(port);
        let mut of_port = notifications(&counters, port);
        of_port.extend(infiniband_drops(&counters, port));
        of_port.extend(roce_drops(&counters, port));
        if let Some(netdev) = port.port.netdev.as_deref() {
            let ethtool = context.as_of_ethtool(netdev);
            of_port.extend(pause(&ethtool, port));
            of_port.extend(storm_events(&ethtool, port));
            of_port.extend(drops(&ethtool, port, netdev));
            of_port.extend(pfc::judge(&ethtool, port, netdev));
        }
        found.extend(of_port.into_iter().map(|mut candidate| {
            candidate.weight = candidate.weight.min(port.weight());
            candidate
        }));
    }
    found
}

pub(super) fn say(
    context: &Context<'_>,
    port: &PortView<'_>,
    doc: ReasonDoc,
    part: &str,
    message: String,
) -> Candidate {
    let (key, subject) = match part {
        "" => (port.key.to_string(), port.subject.clone()),
        part => (
            format!("{} {part}", port.key),
            format!("{} {part}", port.subject),
        ),
    };
    doc.candidate(
        ID,
        (key, subject),
        context.policy.congestion.timing(),
        message,
    )
}

/// Share of the last sample's time that was paused.
fn share(track: &Track) -> Option<f64> {
    let step = track.last_step()?;
    let micros = step.over.as_micros();
    (micros > 0).then(|| step.by as f64 / micros as f64)
}

fn pause(context: &Context<'_>, port: &PortView<'_>) -> Vec<Candidate> {
    let policy = &context.policy.congestion;
    let mut found = Vec::new();
    for (priority, statistic, track) in port.priority_statistics() {
        let (direction, sent) = match statistic {
            "tx_pause_micros" => ("tx", true),
            "rx_pause_micros" => ("rx", false),
            _ => continue,
        };
        let Some(share) = share(track) else {
            continue;
        };
        let (doc, raise_after) = if share > policy.storm {
            (STORM, policy.storm_raise_after)
        } else if share > policy.pressure {
            (PRESSURE, policy.pressure_raise_after)
        } else {
            continue;
        };
        // Clocks differ a little, and an interface may pause for its priorities at once.
        let share = share.min(1.0);
        let percent = (share * 100.0).round();
        let what = if sent {
            "sends pause"
        } else {
            "is paused by the fabric"
        };
        let mut candidate = say(
            context,
            port,
            doc,
            &format!("prio{priority} {direction}"),
            format!(
                "{}: priority {priority} {what} for {percent} % of the time",
                port.subject
            ),
        )
        .raised_after(raise_after.0)
        .with("priority", priority)
        .with("direction", if sent { "transmit" } else { "receive" })
        .with("share", (share * 1000.0).round() / 1000.0);
        if !sent {
            candidate.remedy = PEER_PAUSES.to_string();
            if doc.reason == PRESSURE.reason {
                candidate.weight = Weight::Notice;
            }
        }
        found.push(candidate);
    }
    found
}

/// A counter of a port rose by more than `limit` allows. `words` are given the time that it took.
fn counted(
    context: &Context<'_>,
    port: &PortView<'_>,
    (doc, part): (ReasonDoc, &str),
    (counter, increase): (&str, Increase),
    limit: Limit,
    words: impl FnOnce(&str) -> String,
) -> Candidate {
    let within = span_text(limit.within.0.min(increase.over));
    let message = format!("{}: {}", port.subject, words(&within));
    say(context, port, doc, part, message)
        .with("counter", counter)
        .with("increase", increase.by)
}

fn storm_events(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    let limit = context.policy.congestion.storm_events;
    // The hard limit comes first; warnings and vendors' "continuous pause" are milder.
    for (name, weight) in [
        ("tx_pause_storm_error_events", Weight::Verdict),
        ("tx_pause_storm_warning_events", Weight::Notice),
        ("continuous_roce_pause_events", Weight::Notice),
        ("continuous_pause_events", Weight::Notice),
    ] {
        if let Some(increase) = context.above(port.statistic(name), limit) {
            return Some(
                say(
                    context,
                    port,
                    STORM_EVENT,
                    "",
                    format!(
                        "{}: {name} rose by {} within {}",
                        port.subject,
                        increase.by,
                        span_text(limit.within.0)
                    ),
                )
                .weighing(weight)
                .with("counter", name)
                .with("increase", increase.by),
            );
        }
    }
    None
}

fn drops(context: &Context<'_>, port: &PortView<'_>, netdev: &str) -> Vec<Candidate> {
    let policy = &context.policy.congestion;
    let expected = context.policy.expect.lossless;
    if expected == LosslessExpectation::Lossy {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut say_drops = |doc: ReasonDoc, part: &str, name: &str, limit: Limit| {
        let Some(increase) = context.above(port.statistic(name), limit) else {
            return;
        };
        found.push(counted(
            context,
            port,
            (doc, part),
            (name, increase),
            limit,
            |within| format!("{} packets dropped within {within} ({name})", increase.by),
        ));
    };
    let lossless = pfc_priorities(context, netdev).unwrap_or(0);
    for priority in (0..8).filter(|priority| has(lossless, *priority)) {
        let part = format!("prio{priority}");
        for name in [
            format!("prio{priority}.rx_discards"),
            format!("rx_prio{priority}_buf_discard"),
            format!("rx_prio{priority}_cong_discard"),
        ] {
            say_drops(LOSSLESS_DROPS, &part, &name, policy.lossless_discards);
        }
    }
    if lossless == 0 {
        for name in PORT_DROPS {
            say_drops(DROPS, "", name, policy.discards);
        }
    }
    found
}

/// RoCE's own drops, by the counters of bnxt_re and irdma.
fn roce_drops(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    if context.policy.expect.lossless == LosslessExpectation::Lossy {
        return None;
    }
    let limit = context.policy.congestion.discards;
    let (name, increase) = ROCE_DROPS
        .iter()
        .filter_map(|name| Some((*name, context.above(port.counter(name), limit)?)))
        .max_by_key(|(_, increase)| increase.by)?;
    let name = name.trim_start_matches("hw.");
    Some(counted(
        context,
        port,
        (DROPS, ""),
        (name, increase),
        limit,
        |within| format!("{} packets dropped within {within} ({name})", increase.by),
    ))
}

fn infiniband_drops(context: &Context<'_>, port: &PortView<'_>) -> Option<Candidate> {
    let limit = context.policy.congestion.discards;
    let increase = context.above(port.counter("port_xmit_discards"), limit)?;
    Some(counted(
        context,
        port,
        (DROPS, ""),
        ("port_xmit_discards", increase),
        limit,
        |within| format!("{} packets could not be sent within {within}", increase.by),
    ))
}

fn notifications(context: &Context<'_>, port: &PortView<'_>) -> Vec<Candidate> {
    let policy = &context.policy.congestion;
    let mut found = Vec::new();
    for (doc, names, limit) in [
        (
            NOTIFICATIONS,
            &[
                "hw.np_cnp_sent",
                "hw.rp_cnp_handled",
                "hw.cnpSent",
                "hw.cnpHandled",
                "hw.rx_cnp_pkts",
                "hw.tx_cnp_pkts",
                "hw.received_cnps",
            ][..],
            policy.notifications,
        ),
        (
            IGNORED,
            &["hw.rp_cnp_ignored", "hw.cnpIgnored"][..],
            policy.notifications_ignored,
        ),
    ] {
        let worst = names
            .iter()
            .filter_map(|name| Some((*name, context.above(port.counter(name), limit)?)))
            .max_by_key(|(_, increase)| increase.by);
        if let Some((name, increase)) = worst {
            let name = name.trim_start_matches("hw.");
            found.push(counted(
                context,
                port,
                (doc, ""),
                (name, increase),
                limit,
                |within| format!("{name} rose by {} within {within}", increase.by),
            ));
        }
    }
    found
}

#[cfg(test)]
#[path = "congestion_tests.rs"]
mod tests;
