//! The agent's own eyes.

use super::{Candidate, Context, Weight, roles::rail_keys};
use crate::observe::{Fault, KERNEL_LOG_LOST, PmaSkip, SourceHealth, Window};
use crate::units::{DeviceKey, PortKey, span_text};
use std::time::Duration;

check!(source_health, run);

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let judge = |health: &SourceHealth| match &*health.source {
        "kernel_log" => judge_log(context, health),
        _ => judge(context, health),
    };
    let sources = context.snapshot.sources.values();
    let mut found: Vec<Candidate> = sources.filter_map(judge).collect();
    found.extend(unread_devices(context));
    found.extend(log_lost(context));
    found.extend(counters_refused(context));
    found
}

fn counters_refused<'a>(context: &'a Context<'_>) -> impl Iterator<Item = Candidate> + 'a {
    let refused = (context.snapshot.counters.iter())
        .filter(|(_, counters)| counters.value.pma_skipped == Some(PmaSkip::Restricted));
    let rails = refused.filter(|(key, _)| context.is_rail(key));
    rails.map(|(key, _)| {
        let subject = format!("{}/{}", context.device_name(&key.device), key.port);
        let message = format!("{subject}: its PMA counters are refused to this function");
        let about = (format!("refused {key}"), subject);
        context.candidate("CountersRefused", about, message)
    })
}

/// Devices that are there and cannot be listed, one by one: of a rail nothing is known then.
fn unread_devices<'a>(context: &'a Context<'_>) -> impl Iterator<Item = Candidate> + 'a {
    context.devices().filter_map(move |device| {
        let fault = device.unread.as_ref()?;
        let rail = rail_keys(context.roles).any(|port| port.device == device.key);
        let (key, name) = (&device.key, &device.name);
        let about = (format!("devices {key}"), format!("devices/{name}"));
        Some((failing(context, about, "devices", fault)).weighing(Weight::counting_if(rail)))
    })
}

/// A source that cannot be read.
fn failing(
    context: &Context<'_>,
    (key, about): (String, String),
    source: &str,
    fault: &Fault,
) -> Candidate {
    let policy = &context.policy.source_health;
    let message = format!("{about} cannot be read: {}", fault.detail);
    let kind = serde_json::to_value(fault.kind).unwrap_or_default();
    (context.candidate("SourceFailing", (key, about), message))
        .raised_after(policy.failing_raise_after.0)
        .with("source", source)
        .with("kind", kind)
}

fn judge(context: &Context<'_>, health: &SourceHealth) -> Option<Candidate> {
    if !health.fails() {
        return None;
    }
    let about = name(context, health);
    let key = format!("{} {}", health.source, health.subject);
    if let Some(since) = health.stalled_since {
        let is = |port: &PortKey| {
            port.device.0 == *health.subject || port.to_string() == *health.subject
        };
        let rail = &*health.source == "link" && rail_keys(context.roles).any(is);
        let message = format!("reading {about} is stuck");
        return Some(
            (context.candidate("SourceStalled", (key, about), message))
                .weighing(Weight::counting_if(rail))
                .with("source", &*health.source)
                .with("stalled_at_ms", since.0),
        );
    }
    let fault = health.fault.as_ref()?;
    // What is listed one by one above.
    let listed = &*health.source == "devices"
        && (context.devices()).any(|device| device.unread.as_ref() == Some(fault));
    (!listed).then(|| failing(context, (key, about), &health.source, fault))
}

/// `link/mlx5_3`: the source, and its subject by name.
fn name(context: &Context<'_>, health: &SourceHealth) -> String {
    if health.subject.is_empty() {
        return health.source.to_string();
    }
    let subject = context.device_name(&DeviceKey(health.subject.to_string()));
    format!("{}/{subject}", health.source)
}

fn judge_log(context: &Context<'_>, health: &SourceHealth) -> Option<Candidate> {
    let why = match (&health.fault, health.stalled_since, health.absent) {
        (Some(fault), _, _) => fault.detail.clone(),
        (None, Some(_), _) => "its reader makes no progress".to_string(),
        (None, None, true) => "it does not exist".to_string(),
        (None, None, false) => return None,
    };
    let gpus = context.gpus().len();
    // A running kernel has the log: where it is missing, the container lacks it.
    let blind = context.snapshot.live && gpus > 0;
    let subject = ("kernel_log", "kernel_log");
    let message = format!("the kernel log cannot be read: {why}");
    let found = (context.candidate("KernelLogBlind", subject, message))
        .weighing(Weight::counting_if(blind))
        .with("gpus", gpus)
        .with("live", context.snapshot.live);
    Some(match health.stalled_since {
        // The silence has been waited for. The first full window may end with it, and its verdict must
        // not be ready.
        Some(_) => found.raised_after(Duration::ZERO),
        None => found,
    })
}

fn log_lost(context: &Context<'_>) -> Option<Candidate> {
    let policy = &context.policy.source_health;
    let window = Window::last(policy.lost_for.0, context.now);
    let lost = context.history.other.get(KERNEL_LOG_LOST)?;
    let lost = lost.increase(window)?;
    let lost = Some(lost.by).filter(|lost| *lost > 0)?;
    let span = span_text(policy.lost_for.0);
    let message = format!("{lost} kernel-log records were overwritten unread within {span}");
    let subject = ("kernel_log lost", "kernel_log");
    let candidate = context.candidate("KernelLogLost", subject, message);
    Some(candidate.with("records", lost))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, nic};
    use super::*;
    use crate::check::roles::Role;
    use crate::observe::FaultKind;
    use crate::units::Millis;

    #[test]
    fn a_stalled_link_of_a_rail_is_unknown_and_other_stalls_are_notices() {
        let mut node = Node::infiniband();
        node.set_role(1, Role::Other);
        let now = node.now;
        node.set_stalled("link", &nic(0), now);
        node.set_stalled("link", &nic(1), now);
        node.set_stalled("counters", &nic(0), now);
        node.set_stalled("ethtool", "eth3", now);
        node.set_stalled("pci", "", now);
        assert_eq!(
            node.told(&CHECK),
            [
                "counters/mlx5_0 SourceStalled Unknown Notice",
                "ethtool/eth3 SourceStalled Unknown Notice",
                "link/mlx5_0 SourceStalled Unknown Verdict",
                "link/mlx5_1 SourceStalled Unknown Notice",
                "pci SourceStalled Unknown Notice"
            ]
        );
    }

    #[test]
    fn failing_is_a_notice_and_absent_is_nothing() {
        let mut node = Node::infiniband();
        node.set_fault("gpudirect", "", FaultKind::Denied);
        node.set_fault("log_files", "", FaultKind::Denied);
        node.set_health("dcb", "eth0", |health| health.absent = true);
        assert_eq!(
            node.told(&CHECK),
            [
                "gpudirect SourceFailing Unknown Notice",
                "log_files SourceFailing Unknown Notice"
            ]
        );
    }

    #[test]
    fn a_device_that_cannot_be_listed_counts_where_it_is_a_rail() {
        let mut node = Node::infiniband();
        node.set_role(1, Role::Other);
        let fault = Fault {
            kind: FaultKind::Denied,
            detail: "ports: not permitted".into(),
        };
        for i in [0, 1] {
            node.devices[i].unread = Some(fault.clone());
        }
        node.set_health("devices", "", |health| health.fault = Some(fault));
        node.tick(1);
        assert_eq!(
            node.told(&CHECK),
            [
                "devices/mlx5_0 SourceFailing Unknown Verdict",
                "devices/mlx5_1 SourceFailing Unknown Notice"
            ]
        );
    }

    #[test]
    fn the_kernel_log() {
        let denied = |health: &mut SourceHealth| {
            health.fault = Some(Fault {
                kind: FaultKind::Denied,
                detail: "dev/kmsg: not permitted".into(),
            });
        };
        let absent = |health: &mut SourceHealth| health.absent = true;
        let stalled = |health: &mut SourceHealth| health.stalled_since = Some(Millis(0));
        type Bend = fn(&mut SourceHealth);
        for (bend, live, gpus, want) in [
            (denied as Bend, true, true, Some(Weight::Verdict)),
            (denied, true, false, Some(Weight::Notice)),
            (denied, false, true, Some(Weight::Notice)),
            (absent, true, true, Some(Weight::Verdict)),
            (absent, true, false, Some(Weight::Notice)),
            (absent, false, true, Some(Weight::Notice)),
            (stalled, true, true, Some(Weight::Verdict)),
            (|_| {}, true, true, None),
        ] {
            let mut node = Node::infiniband();
            node.snapshot.live = live;
            if !gpus {
                node.set_pci(Default::default());
            }
            node.set_health("kernel_log", "", bend);
            let found = node.run(&CHECK);
            let got = found.first().map(|c| c.weight);
            assert_eq!(got, want, "live {live} gpus {gpus}");
            if node
                .snapshot
                .sources
                .values()
                .any(|health| health.stalled_since.is_some())
            {
                assert_eq!(found[0].timing.raise_after, Duration::ZERO);
            }
        }
    }

    #[test]
    fn refused_counters_of_a_rail_are_a_notice() {
        let mut node = Node::infiniband();
        node.set_role(1, Role::Other);
        for (i, skip) in [
            (0, PmaSkip::Restricted),
            (1, PmaSkip::Restricted),
            (2, PmaSkip::Excluded),
        ] {
            node.set_counters(i, &[]);
            let counters = node
                .snapshot
                .counters
                .get_mut(&super::super::testing::key(i));
            std::sync::Arc::make_mut(counters.unwrap())
                .value
                .pma_skipped = Some(skip);
        }
        assert_eq!(
            node.told(&CHECK),
            ["mlx5_0/1 CountersRefused Unknown Notice"]
        );
    }

    #[test]
    fn lost_records_are_told_for_a_while() {
        let mut node = Node::infiniband();
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        node.history.totals.kmsg_records_lost = 12;
        node.tick(1);
        assert_eq!(
            node.told(&CHECK),
            ["kernel_log KernelLogLost Unknown Notice"]
        );
        node.tick(3601);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        assert!(node.now > Millis::from_secs(3000));
    }
}
