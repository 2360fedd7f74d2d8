//! Names as each driver prints them.

use super::*;
use std::collections::BTreeMap;

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
    // PFC is off on priority 0: its pause is unknown, its discards are a true zero.
    let counts: Vec<_> = facts.counts.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    assert_eq!(
        counts,
        [
            ("global.rx_pause_frames", 21),
            ("prio0.rx_discards", 0),
            ("prio3.rx_bytes", 10),
            ("prio3.rx_discards", 12),
            ("prio3.rx_packets", 11),
            ("prio3.rx_pause_frames", 15),
            ("prio3.rx_pause_micros", 16),
            ("prio3.tx_bytes", 13),
            ("prio3.tx_pause_frames", 18),
            ("prio3.tx_pause_micros", 19),
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
    assert_eq!(blind.counts.len(), 1);
    assert_eq!(blind.counts.get("rx_vport_rdma_unicast_packets"), Some(&40));
    let seeing = facts("mlx5_core", &stats(1));
    assert_eq!(seeing.counts.get("prio3.rx_discards"), Some(&0));
    assert_eq!(seeing.counts.get("rx_discards_phy"), Some(&0));
}

#[test]
fn vendors() {
    for (driver, name, neutral) in [
        ("bnxt_en", "rx_pfc_ena_frames_pri5", "prio5.rx_pause_frames"),
        ("bnxt_en", "tx_pfc_ena_frames_pri5", "prio5.tx_pause_frames"),
        (
            "bnxt_en",
            "pfc_pri5_rx_duration_us",
            "prio5.rx_pause_micros",
        ),
        (
            "bnxt_en",
            "pfc_pri5_tx_duration_us",
            "prio5.tx_pause_micros",
        ),
        ("bnxt_en", "rx_bytes_pri5", "prio5.rx_bytes"),
        ("bnxt_en", "rx_packets_pri5", "prio5.rx_packets"),
        ("bnxt_en", "tx_bytes_pri5", "prio5.tx_bytes"),
        ("bnxt_en", "rx_pause_frames", "global.rx_pause_frames"),
        (
            "bnxt_en",
            "rx_discard_packets_cos5",
            "rx_discard_packets_cos5",
        ),
        ("ice", "rx_priority_5_xoff.nic", "prio5.rx_pause_frames"),
        ("ice", "tx_priority_5_xoff.nic", "prio5.tx_pause_frames"),
        ("ice", "link_xoff_tx.nic", "global.tx_pause_frames"),
        ("ice", "rx_dropped.nic", "rx_dropped.nic"),
        ("ionic", "rx_pripause_5_1us_count", "prio5.rx_pause_micros"),
        ("ionic", "tx_pripause_5_1us_count", "prio5.tx_pause_micros"),
        ("ionic", "frames_rx_pause", "global.rx_pause_frames"),
        ("mlx4_en", "rx_pause_prio_5", "prio5.rx_pause_frames"),
        (
            "mlx4_en",
            "tx_pause_duration_prio_5",
            "prio5.tx_pause_micros",
        ),
        ("mlx4_en", "rx_prio_5_packets", "prio5.rx_packets"),
        ("mlx4_en", "tx_pause", "global.tx_pause_frames"),
        ("gve", "rx_dropped", "rx_dropped"),
        (
            "ena",
            "bw_in_allowance_exceeded",
            "bw_in_allowance_exceeded",
        ),
        ("newnic", "rx_prio5_pause", "prio5.rx_pause_frames"),
        ("newnic", "tx_prio5_pause_duration", "prio5.tx_pause_micros"),
        ("newnic", "rx_prio5_discards", "prio5.rx_discards"),
        ("newnic", "rx_prio5_bytes", "prio5.rx_bytes"),
    ] {
        let facts = facts(driver, &[("unrelated", 1), (name, 77), ("", 2)]);
        let want = BTreeMap::from([(neutral.to_string(), 77)]);
        assert_eq!((facts.driver.as_str(), facts.counts), (driver, want));
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
