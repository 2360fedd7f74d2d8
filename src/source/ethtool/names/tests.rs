//! Names as each driver prints them.

use super::*;
use crate::observe::netdev::{PauseCounts, PriorityFacts};

#[test]
fn mlx5_with_pfc_on_priority_3() {
    let facts = facts(
        "mlx5_core",
        &[
            ("rx_packets", 900),
            ("rx_packets_phy", 1000),
            ("tx_packets_phy", 1),
            ("rx_prio3_bytes", 10),
            ("rx_prio3_packets", 11),
            ("rx_prio3_discards", 12),
            ("tx_prio3_bytes", 13),
            ("tx_prio3_packets", 14),
            ("rx_prio3_pause", 15),
            ("rx_prio3_pause_duration", 16),
            ("rx_prio3_pause_transition", 17),
            ("tx_prio3_pause", 18),
            ("tx_prio3_pause_duration", 19),
            ("rx_prio0_discards", 0),
            ("rx_global_pause", 21),
            ("tx_pause_storm_error_events", 22),
            ("rx_prio3_buf_discard", 23),
            ("rx_err_lane_2_phy", 24),
            ("outbound_pci_stalled_rd", 25),
            ("rx_prio12_bytes", 26),
            ("rx_prio8_bytes", 27),
            ("rx3_packets", 28),
        ],
    );
    assert_eq!(
        facts.priorities.get(&3),
        Some(&PriorityFacts {
            pause: PauseCounts {
                rx: Some(15),
                tx: Some(18)
            },
            rx_pause_micros: Some(16),
            tx_pause_micros: Some(19),
            rx_discards: Some(12),
            rx_packets: Some(11),
            rx_bytes: Some(10),
            tx_bytes: Some(13),
        })
    );
    // PFC is off on priority 0: its pause is unknown, its discards are a true zero.
    let zero = facts.priorities.get(&0).unwrap();
    assert_eq!((zero.rx_discards, zero.pause.rx), (Some(0), None));
    assert_eq!(facts.priorities.len(), 2);
    assert_eq!(
        facts.global_pause,
        PauseCounts {
            rx: Some(21),
            tx: None
        }
    );
    let other: Vec<_> = facts.other.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    assert_eq!(
        other,
        [
            ("rx_err_lane_2_phy", 24),
            ("rx_prio3_buf_discard", 23),
            ("tx_pause_storm_error_events", 22),
        ]
    );
}

#[test]
fn a_virtual_function_shows_nothing_of_the_physical_port() {
    let stats = |physical| {
        [
            ("rx_packets", 5000),
            ("rx_packets_phy", physical),
            ("tx_packets_phy", 0),
            ("rx_prio3_discards", 0),
            ("rx_discards_phy", 0),
            ("rx_vport_rdma_unicast_packets", 40),
        ]
    };
    let blind = facts("mlx5_core", &stats(0));
    assert!(blind.priorities.is_empty());
    assert_eq!(blind.other.len(), 1);
    assert_eq!(blind.other.get("rx_vport_rdma_unicast_packets"), Some(&40));
    let seeing = facts("mlx5_core", &stats(1));
    assert_eq!(seeing.priorities.len(), 1);
    assert_eq!(seeing.other.get("rx_discards_phy"), Some(&0));
}

#[test]
fn vendors() {
    type Row = (&'static str, &'static str, fn(&EthtoolFacts) -> Option<u64>);
    fn p(facts: &EthtoolFacts) -> PriorityFacts {
        facts.priorities.get(&5).copied().unwrap_or_default()
    }
    let rows: [Row; 26] = [
        ("bnxt_en", "rx_pfc_ena_frames_pri5", |f| p(f).pause.rx),
        ("bnxt_en", "tx_pfc_ena_frames_pri5", |f| p(f).pause.tx),
        ("bnxt_en", "pfc_pri5_rx_duration_us", |f| {
            p(f).rx_pause_micros
        }),
        ("bnxt_en", "pfc_pri5_tx_duration_us", |f| {
            p(f).tx_pause_micros
        }),
        ("bnxt_en", "rx_bytes_pri5", |f| p(f).rx_bytes),
        ("bnxt_en", "rx_packets_pri5", |f| p(f).rx_packets),
        ("bnxt_en", "tx_bytes_pri5", |f| p(f).tx_bytes),
        ("bnxt_en", "rx_pause_frames", |f| f.global_pause.rx),
        ("bnxt_en", "rx_discard_packets_cos5", |f| {
            f.other.get("rx_discard_packets_cos5").copied()
        }),
        ("ice", "rx_priority_5_xoff.nic", |f| p(f).pause.rx),
        ("ice", "tx_priority_5_xoff.nic", |f| p(f).pause.tx),
        ("ice", "link_xoff_tx.nic", |f| f.global_pause.tx),
        ("ice", "rx_dropped.nic", |f| {
            f.other.get("rx_dropped.nic").copied()
        }),
        ("ionic", "rx_pripause_5_1us_count", |f| p(f).rx_pause_micros),
        ("ionic", "tx_pripause_5_1us_count", |f| p(f).tx_pause_micros),
        ("ionic", "frames_rx_pause", |f| f.global_pause.rx),
        ("mlx4_en", "rx_pause_prio_5", |f| p(f).pause.rx),
        ("mlx4_en", "tx_pause_duration_prio_5", |f| {
            p(f).tx_pause_micros
        }),
        ("mlx4_en", "rx_prio_5_packets", |f| p(f).rx_packets),
        ("mlx4_en", "tx_pause", |f| f.global_pause.tx),
        ("gve", "rx_dropped", |f| f.other.get("rx_dropped").copied()),
        ("ena", "bw_in_allowance_exceeded", |f| {
            f.other.get("bw_in_allowance_exceeded").copied()
        }),
        ("newnic", "rx_prio5_pause", |f| p(f).pause.rx),
        ("newnic", "tx_prio5_pause_duration", |f| {
            p(f).tx_pause_micros
        }),
        ("newnic", "rx_prio5_discards", |f| p(f).rx_discards),
        ("newnic", "rx_prio5_bytes", |f| p(f).rx_bytes),
    ];
    for (driver, name, get) in rows {
        let facts = facts(driver, &[("unrelated", 1), (name, 77), ("", 2)]);
        assert_eq!(get(&facts), Some(77), "{driver} {name}");
        assert_eq!(facts.driver, driver);
        let told = facts.priorities.len()
            + facts.other.len()
            + usize::from(facts.global_pause != PauseCounts::default());
        assert_eq!(told, 1, "{driver} {name} lands in one place");
    }
}

#[test]
fn nothing_is_invented() {
    // XON frames, per-queue names and foreign names are not pause.
    for (driver, name) in [
        ("ice", "rx_priority_5_xon.nic"),
        ("gve", "rx_prio5_pause"),
        ("ena", "rx_pause_frames"),
        ("veth", "rx_queue_0_xdp_packets"),
        ("newnic", "rx_global_pause"),
    ] {
        let facts = facts(driver, &[(name, 77)]);
        let want = EthtoolFacts {
            driver: driver.to_string(),
            ..EthtoolFacts::default()
        };
        assert_eq!(facts, want, "{driver} {name}");
    }
}
