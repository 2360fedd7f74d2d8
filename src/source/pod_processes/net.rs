//! Counters of a process's network namespace: `/proc/[pid]/net/{snmp,snmp6,netstat,dev}`
//! (net/ipv4/proc.c, net/ipv6/proc.c, net/core/net-procfs.c). Any process may read them: only the
//! target's task is looked up (get_proc_task_net in fs/proc/proc_net.c).

use crate::host::Host;
use crate::observe::{NetCounters, Reading};
use crate::source::parse::field;
use crate::source::{processes, tree};

/// Length of an Ethernet header: the loopback device counts it (drivers/net/loopback.c).
const ETHERNET_HEADER: u64 = 14;

/// Tells network namespaces apart: every namespace has a `net/dev` of its own, and procfs gives each
/// file of its own an inode number (proc_alloc_inum in fs/proc/generic.c). Unlike the link
/// `/proc/[pid]/ns/net`, it may be read without the right to trace the process.
pub fn namespace(host: &Host, pid: u32) -> Option<u64> {
    tree::inode(host, processes::file(pid, "net/dev"))
}

/// The counters of a process's network namespace.
pub fn read(host: &Host, pid: u32) -> Reading<NetCounters> {
    let text = |name: &str| tree::read_text(host, processes::file(pid, name));
    let (snmp, snmp6) = (text("net/snmp"), text("net/snmp6"));
    let (netstat, dev) = (text("net/netstat"), text("net/dev"));
    // Without IPv6 there is none.
    let snmp6 = snmp6.value().map_or("", String::as_str);
    let missing = || format!("/proc/{pid}/net: a counter is missing");
    let both = snmp.and_then(|snmp| netstat.map(|netstat| (snmp, netstat)));
    both.and_then(|(snmp, netstat)| {
        dev.and_then(|dev| Reading::parsed(parse(&snmp, snmp6, &netstat, &dev).ok_or_else(missing)))
    })
}

/// Puts the four files together; none where a counter that all kernels have is missing.
pub fn parse(snmp: &str, snmp6: &str, netstat: &str, dev: &str) -> Option<NetCounters> {
    let v4 = |table, name| table_value(snmp, table, name);
    let ext = |table, name| table_value(netstat, table, name);
    let six = |name: &str| -> u64 {
        let value = field(snmp6, '\t', name);
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    let udp_lite = v4("UdpLite", "OutDatagrams").unwrap_or(0);
    let udp = sum(v4("Udp", "OutDatagrams")?, udp_lite);
    let udp6 = sum(six("Udp6OutDatagrams"), six("UdpLite6OutDatagrams"));
    let mut counters = NetCounters {
        ip_received_bytes: sum(ext("IpExt", "InOctets")?, six("Ip6InOctets")),
        ip_sent_bytes: sum(ext("IpExt", "OutOctets")?, six("Ip6OutOctets")),
        ip_received: sum(v4("Ip", "InReceives")?, six("Ip6InReceives")),
        ip_sent: sum(v4("Ip", "OutRequests")?, six("Ip6OutRequests")),
        ip_forwarded: sum(v4("Ip", "ForwDatagrams")?, six("Ip6OutForwDatagrams")),
        // One table for both, TCP over IPv6 too (net/ipv6/tcp_ipv6.c).
        tcp_received: v4("Tcp", "InSegs")?,
        tcp_sent: sum(ext("TcpExt", "TCPOrigDataSent")?, v4("Tcp", "RetransSegs")?),
        udp_sent: sum(udp, udp6),
        ..NetCounters::default()
    };
    for line in dev.lines().skip(2) {
        let (name, numbers) = line.split_once(':')?;
        let words = numbers.split_ascii_whitespace();
        let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
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

/// A number in a file of two lines a table: `Ip: Forwarding DefaultTTL …`, then `Ip: 2 64 …`.
fn table_value(text: &str, table: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut words = || {
        let (_, words) = lines.find(|(of, _)| *of == table)?;
        Some(words.split_ascii_whitespace())
    };
    let at = words()?.position(|word| word == name)?;
    words()?.nth(at)?.parse().ok()
}
