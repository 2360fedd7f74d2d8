use super::*;
use std::time::Duration;

fn counters(edit: impl FnOnce(&mut NetCounters)) -> NetCounters {
    // Long since up: absolute values say nothing.
    let mut counters = NetCounters {
        ip_received_bytes: 1 << 50,
        ip_sent_bytes: 1 << 50,
        ip_received: 1 << 40,
        ip_sent: 1 << 40,
        tcp_received: 1 << 39,
        tcp_sent: 1 << 40,
        udp_sent: 1 << 39,
        ..NetCounters::default()
    };
    edit(&mut counters);
    counters
}

#[test]
fn tcp_s_part_of_what_moved() {
    let before = counters(|_| {});
    // (received bytes, packets, TCP packets; sent bytes, packets, UDP, TCP data segments) to TCP.
    for (received, sent, want) in [
        // TCP alone, merged and unsplit: 100 packets of 64 KB, sent as 4 500 segments.
        (
            (6_400_000, 100, 100),
            (6_400_000, 100, 0, 4500),
            (6_400_000.0, 6_400_000.0),
        ),
        // A little DNS traffic as well.
        (
            (6_400_000, 101, 100),
            (6_400_000, 101, 1, 4500),
            (6_336_633.6, 6_336_633.6),
        ),
        // UDP alone.
        ((9_000_000, 6000, 0), (9_000_000, 6000, 6000, 0), (0.0, 0.0)),
        // UDP with a fragment train, and answers by TCP without data.
        ((0, 0, 0), (9_000_000, 6000, 100, 0), (0.0, 0.0)),
        // Half and half.
        (
            (1_000_000, 1000, 500),
            (1_000_000, 1000, 500, 500),
            (500_000.0, 500_000.0),
        ),
        // Nothing.
        ((0, 0, 0), (0, 0, 0, 0), (0.0, 0.0)),
    ] {
        let after = counters(|c| {
            c.ip_received_bytes += received.0;
            c.ip_received += received.1;
            c.tcp_received += received.2;
            c.ip_sent_bytes += sent.0;
            c.ip_sent += sent.1;
            c.udp_sent += sent.2;
            c.tcp_sent += sent.3;
        });
        let moved = after.since(&before).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1.0;
        assert!(
            near(moved.tcp.received, want.0) && near(moved.tcp.sent, want.1),
            "{received:?} {sent:?}: {moved:?}"
        );
    }
}

#[test]
fn loopback_and_forwarded_bytes_are_not_the_pod_s() {
    let before = counters(|_| {});
    let after = counters(|c| {
        c.ip_received_bytes += 5000;
        c.loopback_received_bytes += 4000;
        c.ip_received += 10;
        c.tcp_received += 10;
        c.ip_sent_bytes += 9000;
        c.loopback_sent_bytes += 4000;
        c.ip_sent += 50;
        c.ip_forwarded += 50;
        c.tcp_sent += 50;
        c.links_sent_bytes += 77;
    });
    let moved = after.since(&before).unwrap();
    assert_eq!(
        moved.tcp,
        Bytes {
            received: 1000.0,
            sent: 2500.0
        }
    );
    assert_eq!(moved.links.sent, 77.0);
    // More on lo than in all: two files read one after the other.
    let odd = counters(|c| c.loopback_sent_bytes += 4000);
    assert_eq!(odd.since(&before).unwrap().tcp, Bytes::default());
}

#[test]
fn counters_that_went_back_are_another_namespace_s() {
    let before = counters(|_| {});
    let after = counters(|c| {
        c.ip_sent_bytes += 5000;
        c.tcp_received -= 1;
    });
    assert_eq!(after.since(&before), None);
}

#[test]
fn by_the_second() {
    let moved = Moved {
        tcp: Bytes {
            received: 3000.0,
            sent: 6000.0,
        },
        ..Moved::default()
    };
    assert_eq!(moved.over(Duration::from_secs(30)).tcp.total(), 300.0);
    assert!(moved.over(Duration::ZERO).tcp.total().is_finite());
}
