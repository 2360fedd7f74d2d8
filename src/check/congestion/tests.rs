use super::super::testing::{Node, tell};
use super::*;
use crate::check::roles::Role;
use crate::observe::{DcbFacts, Reading, Stamped};
use std::sync::Arc;

fn set_pfc(node: &mut Node, bits: u8) {
    let value = Reading::Value(DcbFacts {
        pfc_enabled: Some(bits),
        ..DcbFacts::default()
    });
    let at = node.now;
    node.snapshot
        .dcb
        .insert("eth0".into(), Arc::new(Stamped { at, value }));
}

/// Two samples of priority 3, `secs` apart.
fn sampled(secs: u64, from: &[(&str, u64)], to: &[(&str, u64)]) -> Node {
    let mut node = Node::roce();
    set_pfc(&mut node, 1 << 3);
    node.set_ethtool(0, from);
    node.tick(secs);
    node.set_ethtool(0, to);
    node.tick(0);
    node
}

fn micros(tx: u64, rx: u64) -> [(&'static str, u64); 2] {
    [("prio3.tx_pause_micros", tx), ("prio3.rx_pause_micros", rx)]
}

#[test]
fn share_of_time_paused() {
    // In 10 s, with a past that must not count.
    for (tx, rx, want) in [
        (0, 0, None),
        (900_000, 900_000, None),
        (1_100_000, 0, Some("prio3 tx PfcPressure Degraded Verdict")),
        (0, 1_100_000, Some("prio3 rx PfcPressure Degraded Notice")),
        (5_100_000, 0, Some("prio3 tx PfcStorm Degraded Verdict")),
        (0, 5_100_000, Some("prio3 rx PfcStorm Degraded Verdict")),
    ] {
        let past = 1 << 50;
        let node = sampled(10, &micros(past, past), &micros(past + tx, past + rx));
        let got = node.run(&CHECK).first().map(tell);
        let want = want.map(|want| format!("mlx5_0/1 {want}"));
        assert_eq!(got, want, "{tx} {rx}");
    }
}

#[test]
fn no_more_than_all_of_the_time_is_told() {
    let node = sampled(10, &micros(0, 0), &micros(15_000_000, 0));
    let found = node.run(&CHECK);
    assert!(found[0].message.contains("100 % of the time"));
    assert_eq!(found[0].evidence["share"], 1.0);
}

#[test]
fn frames_alone_and_what_is_not_shown_say_nothing() {
    let frames = |count| {
        [
            ("prio3.rx_pause_frames", count),
            ("prio3.tx_pause_frames", count),
        ]
    };
    assert_eq!(
        sampled(10, &frames(0), &frames(1_000_000)).told(&CHECK),
        Vec::<String>::new()
    );
    assert_eq!(Node::empty().told(&CHECK), Vec::<String>::new());
}

#[test]
fn who_is_to_blame() {
    let sends = sampled(10, &micros(0, 0), &micros(9_000_000, 0));
    assert!(sends.run(&CHECK)[0].remedy.contains("receive side"));
    let paused = sampled(10, &micros(0, 0), &micros(0, 9_000_000));
    assert!(paused.run(&CHECK)[0].remedy.contains("not at fault"));
}

#[test]
fn a_storm_that_ends_ends() {
    let mut node = sampled(10, &micros(0, 0), &micros(0, 9_000_000));
    assert_eq!(node.run(&CHECK).len(), 1);
    node.tick(10);
    node.set_ethtool(0, &micros(0, 9_000_000));
    node.tick(0);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    // PFC was switched off.
    let mut node = sampled(10, &micros(0, 0), &micros(0, 9_000_000));
    node.tick(10);
    node.set_ethtool(0, &[("global.rx_pause_frames", 0)]);
    node.tick(0);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}

#[test]
fn drops_on_a_lossless_priority() {
    let discards = |count| [("prio3.rx_discards", count)];
    let mut node = sampled(10, &discards(40), &discards(51));
    assert_eq!(
        node.told(&CHECK),
        ["mlx5_0/1 prio3 LosslessDrops Degraded Verdict"]
    );
    node.policy.expect.lossless = LosslessExpectation::Lossy;
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    // On a priority without PFC drops are by design.
    node.policy.expect.lossless = LosslessExpectation::Auto;
    set_pfc(&mut node, 1 << 5);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}

#[test]
fn without_dcb_the_priorities_that_show_pause_have_pfc() {
    let facts = |count| {
        [
            ("prio3.rx_pause_frames", 0),
            ("prio3.tx_pause_frames", 0),
            ("prio3.rx_discards", count),
        ]
    };
    let mut node = sampled(10, &facts(0), &facts(11));
    node.snapshot.dcb.clear();
    assert_eq!(node.run(&CHECK)[0].reason, "LosslessDrops");
}

#[test]
fn storm_events_and_port_drops() {
    let run = |name: &str, count: u64| {
        let mut node = Node::roce();
        node.set_ethtool(0, &[(name, 7)]);
        node.tick(10);
        node.set_ethtool(0, &[(name, 7 + count)]);
        node.tick(0);
        node.run(&CHECK).first().map(|c| (c.reason, c.weight))
    };
    for (name, count, want) in [
        (
            "tx_pause_storm_error_events",
            1,
            Some(("PauseStormEvent", Weight::Verdict)),
        ),
        (
            "tx_pause_storm_warning_events",
            1,
            Some(("PauseStormEvent", Weight::Notice)),
        ),
        (
            "rx_discards_phy",
            6001,
            Some(("PortDrops", Weight::Verdict)),
        ),
        ("rx_discards_phy", 6000, None),
        (
            "rx_stat_discard",
            6001,
            Some(("PortDrops", Weight::Verdict)),
        ),
        ("rx_out_of_buffer", 1_000_000, None),
    ] {
        assert_eq!(run(name, count), want, "{name}");
    }
}

#[test]
fn roce_on_the_wrong_priority() {
    let run = |losses: u64, expected: LosslessExpectation, enabled: u8| {
        let mut node = Node::roce();
        node.policy.expect.lossless = expected;
        set_pfc(&mut node, enabled);
        let bytes = |bytes| {
            [
                ("prio3.rx_bytes", bytes),
                ("rx_vport_rdma_unicast_bytes", bytes),
            ]
        };
        node.set_ethtool(0, &bytes(0));
        node.set_counters(0, &[("hw.packet_seq_err", 0)]);
        node.tick(10);
        let moved = 1 << 32;
        node.set_ethtool(0, &bytes(moved));
        node.set_counters(0, &[("hw.packet_seq_err", losses)]);
        node.tick(0);
        node.run(&CHECK).first().map(|c| c.reason)
    };
    use LosslessExpectation::*;
    for (losses, expected, enabled, want) in [
        (0, Auto, 1 << 5, None),
        (3, Auto, 1 << 5, Some("RoceOnLossyPriority")),
        (0, Lossless, 1 << 5, Some("RoceOnLossyPriority")),
        (3, Lossy, 1 << 5, None),
        (3, Auto, 1 << 3, None),
        (0, Auto, 0, None),
        (0, Lossless, 0, Some("PfcNotEnabled")),
    ] {
        assert_eq!(
            run(losses, expected, enabled),
            want,
            "{losses} {expected:?} {enabled}"
        );
    }
}

#[test]
fn infiniband_and_notifications() {
    for (name, count, want) in [
        (
            "port_xmit_discards",
            6001,
            Some("PortDrops Degraded Verdict"),
        ),
        ("port_xmit_wait", 1 << 31, None),
        (
            "hw.rx_roce_discards",
            6001,
            Some("PortDrops Degraded Verdict"),
        ),
        ("hw.ip4InDiscards", 6000, None),
        (
            "hw.np_cnp_sent",
            600_001,
            Some("CongestionNotifications Degraded Notice"),
        ),
        ("hw.np_cnp_sent", 1000, None),
        (
            "hw.rp_cnp_ignored",
            1,
            Some("CongestionNotificationsIgnored Degraded Notice"),
        ),
    ] {
        let mut node = Node::infiniband();
        node.set_counters(0, &[(name, 0)]);
        node.tick(10);
        node.set_counters(0, &[(name, count)]);
        node.tick(0);
        let got = node.run(&CHECK).first().map(tell);
        let want = want.map(|want| format!("mlx5_0/1 {want}"));
        assert_eq!(got, want, "{name}");
        node.policy.expect.lossless = LosslessExpectation::Lossy;
        let told = node.told(&CHECK).is_empty();
        assert_eq!(told, want.is_none() || name.contains("roce"), "{name}");
    }
}

/// After a restart nothing is known of the statistics that can no longer be read.
#[test]
fn a_storm_stands_while_its_statistics_are_unread() {
    let mut node = Node::roce();
    node.tick(10);
    let stands = |node: &Node, key: &str| {
        let unseen = |of: &Candidate| of.unseen && of.reason == "PfcStorm" && of.key == key;
        run(&node.context()).iter().any(unseen)
    };
    let key = format!("{} prio3 tx", node.devices[0].port_key(1));
    assert!(stands(&node, &key), "never read");
    assert!(!stands(&sampled(10, &micros(0, 0), &micros(0, 0)), &key));
}

#[test]
fn a_port_that_is_no_rail_is_a_notice() {
    let mut node = sampled(10, &micros(0, 0), &micros(9_000_000, 0));
    node.set_role(0, Role::Other);
    assert_eq!(
        node.told(&CHECK),
        ["mlx5_0/1 prio3 tx PfcStorm Degraded Notice"]
    );
}
