//! The numbers behind a verdict on a pod, for people and for the report.

use crate::observe::traffic::{NodeRdma, PodQps, PodTraffic};
use serde_json::{Value, json};
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

/// The numbers that a verdict rests on, and where they come from.
pub(super) fn evidence(node: &NodeRdma, pod: &PodTraffic) -> BTreeMap<String, Value> {
    let moved = pod.per_second.as_ref();
    let seconds = |since| pod.at.since(since).as_secs();
    let (owned, unlisted) = match &pod.qps {
        PodQps::Known(owned) => (Some(owned), None),
        PodQps::NotListed => (None, Some("not listed: no pod moves enough by TCP".into())),
        PodQps::Unknown(why) => (None, Some(format!("unknown: {why}"))),
    };
    let devices = owned.map(|owned| &owned.devices);
    let tcp_from = "estimate: IpExt octets without lo, by TCP's share of packets";
    let rdma_from = "port counters of those devices: RDMA is not counted by pod";
    let all = [
        ("gpus", json!(pod.pod.gpus)),
        ("processes", json!(pod.processes)),
        ("host_network", json!(pod.host_network)),
        (
            "tcp_received_bytes_per_second",
            json!(moved.map(|moved| whole(moved.tcp.received))),
        ),
        (
            "tcp_sent_bytes_per_second",
            json!(moved.map(|moved| whole(moved.tcp.sent))),
        ),
        (
            "ip_bytes_per_second",
            json!(moved.map(|moved| whole(moved.ip.total()))),
        ),
        (
            "link_bytes_per_second",
            json!(moved.map(|moved| whole(moved.links.total()))),
        ),
        ("tcp_bytes_from", json!(moved.map(|_| tcp_from))),
        ("over_seconds", json!(pod.from.map(seconds))),
        ("queue_pairs_rc", json!(owned.map(|owned| owned.rc))),
        ("queue_pairs_other", json!(owned.map(|owned| owned.other))),
        (
            "queue_pairs_datagram",
            json!(owned.map(|owned| owned.datagram)),
        ),
        ("queue_pairs_ready", json!(owned.map(|owned| owned.ready))),
        (
            "queue_pair_devices",
            json!(devices.filter(|devices| !devices.is_empty())),
        ),
        ("queue_pairs", json!(unlisted)),
        (
            "queue_pairs_listed_seconds_ago",
            json!(node.listed_at.map(seconds)),
        ),
        (
            "rdma_port_bytes_per_second",
            json!(pod.rdma_per_second.map(whole)),
        ),
        (
            "rdma_bytes_from",
            json!(pod.rdma_per_second.map(|_| rdma_from)),
        ),
        ("rdma_devices", json!(node.devices.len())),
    ];
    let known = all.into_iter().filter(|(_, value)| !value.is_null());
    known
        .map(|(name, value)| (name.to_string(), value))
        .collect()
}
