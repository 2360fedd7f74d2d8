//! The numbers behind the verdict on a pod, for the report.

use crate::observe::traffic::{NodeRdma, PodQps, PodTraffic};
use std::collections::BTreeMap;

/// A rate for people: `3.5 MB/s`.
pub(super) fn rate_text(bytes: f64) -> String {
    let (value, unit) = match bytes {
        b if b >= 1e9 => (b / 1e9, "GB/s"),
        b if b >= 1e6 => (b / 1e6, "MB/s"),
        b => (b / 1e3, "kB/s"),
    };
    format!("{value:.1} {unit}")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are positive and need no precision"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// The numbers that a verdict rests on, and their sources.
pub(super) fn evidence(node: &NodeRdma, pod: &PodTraffic) -> BTreeMap<String, serde_json::Value> {
    let mut all: BTreeMap<String, serde_json::Value> = BTreeMap::new();
    let mut say = |name: &str, value: serde_json::Value| {
        all.insert(name.to_string(), value);
    };
    say("gpus", pod.pod.gpus.into());
    say("processes", pod.processes.into());
    if let Some(shares) = pod.host_network {
        say("host_network", shares.into());
    }
    if let Some(moved) = &pod.per_second {
        say(
            "tcp_received_bytes_per_second",
            whole(moved.tcp.received).into(),
        );
        say("tcp_sent_bytes_per_second", whole(moved.tcp.sent).into());
        say("ip_bytes_per_second", whole(moved.ip.total()).into());
        say("link_bytes_per_second", whole(moved.links.total()).into());
        say(
            "tcp_bytes_from",
            "estimate: IpExt octets without lo, by TCP's share of packets".into(),
        );
    }
    if let Some(from) = pod.from {
        say("over_seconds", pod.at.since(from).as_secs().into());
    }
    match &pod.qps {
        PodQps::Known(owned) => {
            say("queue_pairs_rc", owned.rc.into());
            say("queue_pairs_other", owned.other.into());
            say("queue_pairs_datagram", owned.datagram.into());
            say("queue_pairs_ready", owned.ready.into());
            if !owned.devices.is_empty() {
                say("queue_pair_devices", owned.devices.clone().into());
            }
        }
        PodQps::NotListed => say(
            "queue_pairs",
            "not listed: no pod moves enough by TCP".into(),
        ),
        PodQps::Unknown(why) => say("queue_pairs", format!("unknown: {why}").into()),
    }
    if let Some(listed) = node.listed_at {
        say(
            "queue_pairs_listed_seconds_ago",
            pod.at.since(listed).as_secs().into(),
        );
    }
    if let Some(rate) = pod.rdma_per_second {
        say("rdma_port_bytes_per_second", whole(rate).into());
        say(
            "rdma_bytes_from",
            "port counters of those devices: RDMA is not counted by pod".into(),
        );
    }
    say("rdma_devices", node.devices.len().into());
    all
}
