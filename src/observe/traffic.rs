//! What pods with GPUs move, and by what: counters of their network namespaces, and the queue pairs
//! that their processes own.
//!
//! # TCP's bytes
//! The kernel counts no bytes of TCP by network namespace. What it does count:
//!
//! | counter | counts | where |
//! |---|---|---|
//! | IpExt InOctets, OutOctets; Ip6… | bytes from the IP header on; of a packet that GRO merged or GSO will split, once, as a whole | ip_rcv_core, ip_output; ip6_rcv_core, ip6_output |
//! | Ip InReceives, OutRequests; Ip6… | the same packets | ip_rcv_core, __ip_local_out |
//! | Tcp InSegs | the same packets (merged ones once) | tcp_v4_rcv, tcp_v6_rcv |
//! | Tcp OutSegs, RetransSegs, TcpExt TCPOrigDataSent | segments as on the wire | tcp_output.c |
//! | Udp OutDatagrams | what was sent at once | udp_send_skb |
//!
//! So bytes come from IP, less those of `lo`, and the share of TCP from packets: received, InSegs of
//! InReceives; sent, all but what UDP sent or was forwarded. Sent is never more than TCP's data
//! segments could have held. Where a pod moves much by UDP, too, it is an estimate; where it does
//! not, it is right to a percent.

use crate::units::Millis;
use serde::Serialize;
use std::collections::BTreeMap;

/// Counters of a network namespace; only their differences mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetCounters {
    /// Bytes from the IP header on, received; IPv4 and IPv6, `lo` among them.
    pub ip_received_bytes: u64,
    /// Bytes sent, counted likewise.
    pub ip_sent_bytes: u64,
    /// `Ip: InReceives` of the namespace's /proc/net/snmp.
    pub ip_received: u64,
    /// IP packets sent by processes.
    pub ip_sent: u64,
    /// `Ip: ForwDatagrams` of the same file.
    pub ip_forwarded: u64,
    /// `Tcp: InSegs` of the same file.
    pub tcp_received: u64,
    /// TCP segments with data sent, again ones too.
    pub tcp_sent: u64,
    /// `Udp: OutDatagrams` of the same file.
    pub udp_sent: u64,
    /// Bytes from the IP header on, received over `lo`.
    pub loopback_received_bytes: u64,
    /// Bytes from the IP header on, sent over `lo`.
    pub loopback_sent_bytes: u64,
    /// Bytes received by all other interfaces, as they count them.
    pub links_received_bytes: u64,
    /// Bytes sent, counted likewise.
    pub links_sent_bytes: u64,
}

/// Bytes of a stretch of time, or a second, each way.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bytes {
    /// Bytes received per second.
    pub received: f64,
    /// Bytes sent per second.
    pub sent: f64,
}

impl Bytes {
    /// Received and sent together.
    pub fn total(self) -> f64 {
        self.received + self.sent
    }
}

/// What moved between two looks at one network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moved {
    /// By TCP, over other interfaces than `lo`: an estimate.
    pub tcp: Bytes,
    /// By IP, over other interfaces than `lo`.
    pub ip: Bytes,
    /// Over all interfaces but `lo`, as they count it.
    pub links: Bytes,
}

/// Most bytes of one TCP segment.
const MAX_SEGMENT: f64 = 65_535.0;

impl NetCounters {
    fn each(&mut self) -> [&mut u64; 12] {
        [
            &mut self.ip_received_bytes,
            &mut self.ip_sent_bytes,
            &mut self.ip_received,
            &mut self.ip_sent,
            &mut self.ip_forwarded,
            &mut self.tcp_received,
            &mut self.tcp_sent,
            &mut self.udp_sent,
            &mut self.loopback_received_bytes,
            &mut self.loopback_sent_bytes,
            &mut self.links_received_bytes,
            &mut self.links_sent_bytes,
        ]
    }

    /// Adds another namespace's.
    pub fn add(&mut self, other: &NetCounters) {
        for (sum, more) in self.each().into_iter().zip({ *other }.each()) {
            *sum = sum.saturating_add(*more);
        }
    }

    /// What moved since `before`; none where a counter went back: it is another namespace.
    pub fn since(&self, before: &NetCounters) -> Option<Moved> {
        let mut passed = *self;
        for (now, then) in passed.each().into_iter().zip({ *before }.each()) {
            *now = now.checked_sub(*then)?;
        }
        let less = |all: u64, part: u64| all.saturating_sub(part) as f64;
        let ip = Bytes {
            received: less(passed.ip_received_bytes, passed.loopback_received_bytes),
            sent: less(passed.ip_sent_bytes, passed.loopback_sent_bytes),
        };
        let packets_out = passed.ip_sent.saturating_add(passed.ip_forwarded);
        let others_out = passed.udp_sent.saturating_add(passed.ip_forwarded);
        let share_in = share(passed.tcp_received as f64, passed.ip_received as f64);
        let share_out = share(less(packets_out, others_out), packets_out as f64);
        let most_out = passed.tcp_sent as f64 * MAX_SEGMENT;
        Some(Moved {
            tcp: Bytes {
                received: ip.received * share_in,
                sent: (ip.sent * share_out).min(most_out),
            },
            ip,
            links: Bytes {
                received: passed.links_received_bytes as f64,
                sent: passed.links_sent_bytes as f64,
            },
        })
    }
}

fn share(part: f64, all: f64) -> f64 {
    match all > 0.0 {
        true => (part / all).clamp(0.0, 1.0),
        false => 0.0,
    }
}

/// A pod that holds GPUs, as far as telling its traffic needs it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GpuPod {
    /// Namespace; empty if unknown.
    pub namespace: String,
    /// Name; empty if unknown.
    pub name: String,
    /// What it is a part of.
    pub job: Option<super::pod::PodJob>,
    /// GPUs it was given or asks for.
    pub gpus: u64,
    /// Whether the API server says that it shares the node's network namespace; none: not told.
    pub host_network: Option<bool>,
    /// The only job of a host without pods: the host's traffic is taken for its own.
    pub alone: bool,
}

/// Queue pairs of one pod's processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnedQps {
    /// Queue pairs of type RC, the type that NCCL uses.
    pub rc: u32,
    /// Others by which NCCL and its plugins may move bytes: UC, XRC, and a driver's own (EFA's SRD).
    pub other: u32,
    /// Datagram ones and unknown ones.
    pub datagram: u32,
    /// Of `rc` and `other`, those ready to receive or send.
    pub ready: u32,
    /// The devices they belong to.
    pub devices: Vec<String>,
}

/// A pod's queue pairs, as far as they were listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PodQps {
    /// Those that its processes own.
    Known(OwnedQps),
    /// Not listed: no pod moved enough by TCP, and each costs a firmware command.
    #[default]
    NotListed,
    /// Why they are unknown.
    Unknown(String),
}

/// One look at one pod.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PodTraffic {
    /// UID of the pod.
    pub uid: String,
    /// Its name, job and GPUs.
    pub pod: GpuPod,
    /// Moment of the look.
    pub at: Millis,
    /// Processes of it that are seen.
    pub processes: u32,
    /// Whether it shares the node's network namespace; none: cannot be told.
    pub host_network: Option<bool>,
    /// Since when `per_second` counts; none at the first look, and after its namespace changed.
    pub from: Option<Millis>,
    /// What its network namespace moved, by the second; none where `from` is.
    pub per_second: Option<Moved>,
    /// Why its counters cannot be read, where they cannot.
    pub unreadable: Option<String>,
    /// Queue pairs that the pod's processes own.
    pub qps: PodQps,
    /// Bytes a second of the ports of the devices that it has queue pairs of, all pods' together:
    /// the kernel counts RDMA bytes by port only. None where unknown.
    pub rdma_per_second: Option<f64>,
}

/// What is seen of the node's RDMA devices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeRdma {
    /// Devices seen from here, with the number of queue pairs (RES_GET), the kernel's own too.
    pub devices: BTreeMap<String, u64>,
    /// Whether devices may be hidden in pods' network namespaces (`exclusive` mode); none: not told.
    pub exclusive: Option<bool>,
    /// Why nothing is known, where nothing is.
    pub unknown: Option<String>,
    /// When queue pairs were last listed.
    pub listed_at: Option<Millis>,
}

impl PodTraffic {
    /// Whether its network namespace moves more than so many bytes a second by TCP.
    pub fn is_above(&self, threshold: u64) -> bool {
        (self.per_second.as_ref()).is_some_and(|moved| moved.tcp.total() > threshold as f64)
    }
}

/// One look at all pods with GPUs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrafficLook {
    /// RDMA devices of the node.
    pub node: NodeRdma,
    /// Pods, by UID.
    pub pods: BTreeMap<String, PodTraffic>,
}

impl Moved {
    /// The same per second.
    pub fn over(self, time: std::time::Duration) -> Moved {
        let seconds = time.as_secs_f64().max(0.001);
        let by = |bytes: Bytes| Bytes {
            received: bytes.received / seconds,
            sent: bytes.sent / seconds,
        };
        Moved {
            tcp: by(self.tcp),
            ip: by(self.ip),
            links: by(self.links),
        }
    }
}

#[cfg(test)]
mod tests;
