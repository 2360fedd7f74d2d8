//! The numbers behind a verdict on a pod, for people and for the report.

use crate::observe::{Moved, NodeRdma, OwnedQps, PodQps, PodTraffic};
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

/// A rate, which is positive, without fractions.
fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// The numbers that a verdict rests on, and where they come from.
pub(super) fn evidence(node: &NodeRdma, pod: &PodTraffic) -> BTreeMap<String, Value> {
    let seconds = |since| pod.at.since(since).as_secs();
    let rate = |of: fn(&Moved) -> f64| json!(pod.per_second.as_ref().map(|moved| whole(of(moved))));
    let (owned, unlisted) = match &pod.qps {
        PodQps::Known(owned) => (Some(owned), None),
        PodQps::NotListed => (None, Some("not listed: no pod moves enough by TCP".into())),
        PodQps::Unknown(why) => (None, Some(format!("unknown: {why}"))),
    };
    let own = |of: fn(&OwnedQps) -> u32| json!(owned.map(of));
    let devices = (owned.map(|owned| &owned.devices)).filter(|all| !all.is_empty());
    let tcp_from = "estimate: IpExt octets without lo, by TCP's share of packets";
    let rdma_from = "port counters of those devices: RDMA is not counted by pod";
    let listed = node.listed_at.map(seconds);
    let rdma = pod.rdma_per_second.map(whole);
    let all = [
        ("gpus", json!(pod.pod.gpus)),
        ("processes", json!(pod.processes)),
        ("host_network", json!(pod.host_network)),
        ("tcp_received_bytes_per_second", rate(|m| m.tcp.received)),
        ("tcp_sent_bytes_per_second", rate(|m| m.tcp.sent)),
        ("ip_bytes_per_second", rate(|m| m.ip.total())),
        ("link_bytes_per_second", rate(|m| m.links.total())),
        ("tcp_bytes_from", json!(pod.per_second.map(|_| tcp_from))),
        ("over_seconds", json!(pod.from.map(seconds))),
        ("queue_pairs_rc", own(|owned| owned.rc)),
        ("queue_pairs_other", own(|owned| owned.other)),
        ("queue_pairs_datagram", own(|owned| owned.datagram)),
        ("queue_pairs_ready", own(|owned| owned.ready)),
        ("queue_pair_devices", json!(devices)),
        ("queue_pairs", json!(unlisted)),
        ("queue_pairs_listed_seconds_ago", json!(listed)),
        ("rdma_port_bytes_per_second", json!(rdma)),
        ("rdma_bytes_from", json!(rdma.map(|_| rdma_from))),
        ("rdma_devices", json!(node.devices.len())),
    ];
    let known = all.into_iter().filter(|(_, value)| !value.is_null());
    let named = known.map(|(name, value)| (name.to_string(), value));
    named.collect()
}
