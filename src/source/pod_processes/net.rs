//! Counters of a process's network namespace: `/proc/[pid]/net/{snmp,snmp6,netstat,dev}`
//! (net/ipv4/proc.c, net/ipv6/proc.c, net/core/net-procfs.c). Any process may read them: only the
//! target's task is looked up (get_proc_task_net in fs/proc/proc_net.c).

use super::file;
use crate::host::Host;
use crate::observe::reading::{Fault, FaultKind, Reading};
use crate::observe::traffic::NetCounters;
use crate::source::tree;
use std::collections::HashMap;

/// Length of an Ethernet header: the loopback device counts it (drivers/net/loopback.c).
const ETHERNET_HEADER: u64 = 14;

/// Tells network namespaces apart: every namespace has a `net/dev` of its own, and procfs gives each
/// file of its own an inode number (proc_alloc_inum in fs/proc/generic.c). Unlike the link
/// `/proc/[pid]/ns/net`, it may be read without the right to trace the process.
pub fn namespace(host: &Host, pid: u32) -> Option<u64> {
    tree::inode(host, file(pid, "net/dev"))
}

/// The counters of a process's network namespace.
pub fn read(host: &Host, pid: u32) -> Reading<NetCounters> {
    let text = |name: &str| tree::read_text(host, file(pid, name));
    let snmp = text("net/snmp");
    // Without IPv6 there is none.
    let snmp6 = match text("net/snmp6") {
        Reading::Value(text) => text,
        _ => String::new(),
    };
    let netstat = text("net/netstat");
    let dev = text("net/dev");
    snmp.and_then(|snmp| {
        netstat.and_then(|netstat| {
            dev.and_then(|dev| match parse(&snmp, &snmp6, &netstat, &dev) {
                Some(counters) => Reading::Value(counters),
                None => Reading::Failed(Fault {
                    kind: FaultKind::Malformed,
                    detail: format!("/proc/{pid}/net: a counter is missing"),
                }),
            })
        })
    })
}

/// Puts the four files together; none where a counter that all kernels have is missing.
pub fn parse(snmp: &str, snmp6: &str, netstat: &str, dev: &str) -> Option<NetCounters> {
    let v4 = two_lines(snmp);
    let ext = two_lines(netstat);
    let v6: HashMap<&str, u64> = snmp6.lines().filter_map(key_value).collect();
    let need = |map: &HashMap<(&str, &str), u64>, table, name| map.get(&(table, name)).copied();
    let six = |name: &str| v6.get(name).copied().unwrap_or(0);
    let mut counters = NetCounters {
        ip_received_bytes: sum(need(&ext, "IpExt", "InOctets")?, six("Ip6InOctets")),
        ip_sent_bytes: sum(need(&ext, "IpExt", "OutOctets")?, six("Ip6OutOctets")),
        ip_received: sum(need(&v4, "Ip", "InReceives")?, six("Ip6InReceives")),
        ip_sent: sum(need(&v4, "Ip", "OutRequests")?, six("Ip6OutRequests")),
        ip_forwarded: sum(
            need(&v4, "Ip", "ForwDatagrams")?,
            six("Ip6OutForwDatagrams"),
        ),
        // One table for both, TCP over IPv6 too (net/ipv6/tcp_ipv6.c).
        tcp_received: need(&v4, "Tcp", "InSegs")?,
        tcp_sent: sum(
            need(&ext, "TcpExt", "TCPOrigDataSent")?,
            need(&v4, "Tcp", "RetransSegs")?,
        ),
        udp_sent: [
            need(&v4, "Udp", "OutDatagrams")?,
            need(&v4, "UdpLite", "OutDatagrams").unwrap_or(0),
            six("Udp6OutDatagrams"),
            six("UdpLite6OutDatagrams"),
        ]
        .into_iter()
        .fold(0, sum),
        ..NetCounters::default()
    };
    for line in dev.lines().skip(2) {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> = numbers
            .split_ascii_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        // rx: bytes packets errs drop fifo frame compressed multicast; tx: bytes packets …
        let &[rx, rx_packets, _, _, _, _, _, _, tx, tx_packets, ..] = numbers.as_slice() else {
            return None;
        };
        if name.trim() == "lo" {
            let bare = |bytes: u64, packets: u64| {
                bytes.saturating_sub(packets.saturating_mul(ETHERNET_HEADER))
            };
            counters.loopback_received_bytes = bare(rx, rx_packets);
            counters.loopback_sent_bytes = bare(tx, tx_packets);
        } else {
            counters.links_received_bytes = sum(counters.links_received_bytes, rx);
            counters.links_sent_bytes = sum(counters.links_sent_bytes, tx);
        }
    }
    Some(counters)
}

fn sum(a: u64, b: u64) -> u64 {
    a.saturating_add(b)
}

/// `Ip: Forwarding DefaultTTL …`, then `Ip: 2 64 …`.
fn two_lines(text: &str) -> HashMap<(&str, &str), u64> {
    let mut map = HashMap::new();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (Some((table, names)), Some((other, values))) =
            (names.split_once(':'), values.split_once(':'))
        else {
            continue;
        };
        if table != other {
            continue;
        }
        let pairs = names
            .split_ascii_whitespace()
            .zip(values.split_ascii_whitespace());
        // MaxConn is -1, and is not asked for.
        map.extend(pairs.filter_map(|(name, value)| Some(((table, name), value.parse().ok()?))));
    }
    map
}

fn key_value(line: &str) -> Option<(&str, u64)> {
    let (key, value) = line.split_once(char::is_whitespace)?;
    Some((key, value.trim().parse().ok()?))
}
