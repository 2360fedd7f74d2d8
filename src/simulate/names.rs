//! Counter and statistics names per driver, with values that differ from port to port, so that a
//! mix-up of ports or files shows.

use super::spec::{Attr, Attrs};
use crate::observe::counters::CounterKind;
use crate::observe::counters::pma_kind;

/// `counters/` of a driver with process_mad (mlx5).
const PMA: &[&str] = &[
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
];

/// mlx5 `hw_counters/` on every link layer.
const MLX5_HW: &[&str] = &[
    "duplicate_request",
    "implied_nak_seq_err",
    "lifespan",
    "local_ack_timeout_err",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "req_rnr_retries_exceeded",
    "req_transport_retries_exceeded",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
    "rx_atomic_requests",
    "rx_dct_connect",
    "rx_icrc_encapsulated",
    "rx_read_requests",
    "rx_write_requests",
];

/// mlx5 `hw_counters/` where congestion statistics can be queried (RoCE).
const MLX5_ROCE_HW: &[&str] = &[
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "rp_cnp_ignored",
];

/// EFA, per port.
const EFA_PORT: &[&str] = &[
    "rdma_read_bytes",
    "rdma_read_resp_bytes",
    "rdma_read_wr_err",
    "rdma_read_wrs",
    "rdma_write_bytes",
    "rdma_write_recv_bytes",
    "rdma_write_wr_err",
    "rdma_write_wrs",
    "recv_bytes",
    "recv_wrs",
    "rx_bytes",
    "rx_drops",
    "rx_pkts",
    "send_bytes",
    "send_wrs",
    "tx_bytes",
    "tx_pkts",
];

/// EFA, per device.
const EFA_DEVICE: &[&str] = &[
    "alloc_pd_err",
    "alloc_ucontext_err",
    "cmds_err",
    "completed_cmds",
    "create_ah_err",
    "create_cq_err",
    "create_qp_err",
    "keep_alive_rcvd",
    "mmap_err",
    "no_completion_cmds",
    "reg_mr_err",
    "submitted_cmds",
];

/// bnxt_re, per port; `active_*` are gauges.
const BNXT: &[&str] = &[
    "active_mrs",
    "active_qps",
    "max_retry_exceeded",
    "missing_resp",
    "oos_drop_count",
    "recoverable_errors",
    "rx_bytes",
    "rx_cnp_pkts",
    "rx_ecn_marked_pkts",
    "rx_pkts",
    "rx_roce_discards",
    "seq_err_naks_rcvd",
    "to_retransmits",
    "tx_bytes",
    "tx_cnp_pkts",
    "tx_pkts",
    "tx_roce_discards",
    "unrecoverable_err",
    "watermark_qps",
];

/// A healthy port's PMA counters: traffic, and small error counts of the past.
pub(super) fn pma(seed: u64) -> Attrs {
    PMA.iter()
        .map(|name| (name.to_string(), Attr::Number(pma_value(name, seed))))
        .collect()
}

fn pma_value(name: &str, seed: u64) -> u64 {
    match (name, pma_kind(name)) {
        ("port_xmit_wait", _) => 2_489_000 + seed * 31,
        ("link_downed", _) => 1 + seed % 3,
        ("symbol_error" | "VL15_dropped", _) => seed % 5,
        (_, CounterKind::Saturating { .. }) => 0,
        ("port_rcv_data" | "port_xmit_data", _) => 9_000_000_000_000 + mix(name, seed),
        ("multicast_rcv_packets" | "multicast_xmit_packets", _) => 100 + seed,
        _ => 70_000_000_000 + mix(name, seed),
    }
}

/// A VF: its own traffic; the physical port's errors do not show.
pub(super) fn pma_vf(seed: u64) -> Attrs {
    PMA.iter()
        .map(|name| {
            let value = match pma_kind(name) {
                CounterKind::Saturating { .. } => 0,
                _ => mix(name, seed),
            };
            (name.to_string(), Attr::Number(value))
        })
        .collect()
}

/// A restricted physical function: every PMA read fails with EINVAL.
pub(super) fn pma_restricted() -> Attrs {
    PMA.iter()
        .map(|name| (name.to_string(), Attr::Errno(nix::libc::EINVAL)))
        .collect()
}

/// ConnectX-3 under an older kernel: what the PMA does not answer prints as text.
pub(super) fn pma_mlx4(seed: u64) -> Attrs {
    let mut attrs = pma(seed);
    for name in [
        "VL15_dropped",
        "excessive_buffer_overrun_errors",
        "port_xmit_wait",
        "symbol_error",
    ] {
        attrs.insert(name.into(), Attr::Text("N/A (no PMA)".into()));
    }
    attrs
}

/// mlx5 hardware counters.
pub(super) fn mlx5_hw(seed: u64, roce: bool) -> Attrs {
    let extra = if roce { MLX5_ROCE_HW } else { &[] };
    let value = |name: &str| match name {
        // Milliseconds, 10 rounded to jiffies at HZ=250; a setting, not a counter.
        "lifespan" => 12,
        "rx_write_requests" | "rx_read_requests" => mix(name, seed) & 0x7fff_ffff,
        "np_cnp_sent" | "np_ecn_marked_roce_packets" | "rp_cnp_handled" => 1000 + seed * 3,
        "req_cqe_flush_error" | "resp_cqe_flush_error" => 40 + seed,
        "duplicate_request" | "out_of_sequence" | "rnr_nak_retry_err" => seed % 7,
        _ => 0,
    };
    MLX5_HW
        .iter()
        .chain(extra)
        .map(|name| (name.to_string(), Attr::Number(value(name))))
        .collect()
}

/// EFA counters of a port and of its device.
pub(super) fn efa(seed: u64) -> (Attrs, Attrs) {
    let quiet =
        |name: &str| name.ends_with("_err") || name == "rx_drops" || name == "no_completion_cmds";
    let make = |names: &[&str]| {
        names
            .iter()
            .map(|name| {
                let value = if quiet(name) { 0 } else { mix(name, seed) };
                (name.to_string(), Attr::Number(value))
            })
            .chain([("lifespan".to_string(), Attr::Number(12))])
            .collect::<Attrs>()
    };
    (make(EFA_PORT), make(EFA_DEVICE))
}

/// bnxt_re counters of a port.
pub(super) fn bnxt(seed: u64) -> Attrs {
    BNXT.iter()
        .map(|name| {
            let value = match *name {
                "active_qps" | "active_mrs" | "watermark_qps" => 12 + seed,
                "rx_bytes" | "tx_bytes" | "rx_pkts" | "tx_pkts" => mix(name, seed),
                _ => 0,
            };
            (name.to_string(), Attr::Number(value))
        })
        .collect()
}

/// `ethtool -S` of an mlx5 Ethernet port with PFC on the given priorities. A VF shows no physical
/// port counters.
pub(super) fn mlx5_ethtool(seed: u64, pfc: u8, vf: bool) -> Vec<(String, u64)> {
    let mut rows: Vec<(String, u64)> = Vec::new();
    let mut row = |name: String, value: u64| rows.push((name, value));
    for name in ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes"] {
        row(name.into(), mix(name, seed) >> 12);
    }
    row("rx_out_of_buffer".into(), 0);
    for name in [
        "rx_vport_rdma_unicast_packets",
        "rx_vport_rdma_unicast_bytes",
        "tx_vport_rdma_unicast_packets",
        "tx_vport_rdma_unicast_bytes",
    ] {
        row(name.into(), mix(name, seed));
    }
    if vf {
        return rows;
    }
    for name in [
        "rx_packets_phy",
        "tx_packets_phy",
        "rx_bytes_phy",
        "tx_bytes_phy",
    ] {
        row(name.into(), mix(name, seed));
    }
    for name in [
        "rx_crc_errors_phy",
        "rx_pause_ctrl_phy",
        "tx_pause_ctrl_phy",
        "rx_discards_phy",
        "tx_discards_phy",
        "rx_symbol_err_phy",
        "rx_pcs_symbol_err_phy",
        "outbound_pci_stalled_rd",
        "outbound_pci_stalled_wr",
        "outbound_pci_stalled_rd_events",
        "outbound_pci_stalled_wr_events",
        "outbound_pci_buffer_overflow",
        "module_unplug",
        "module_bus_stuck",
        "module_high_temp",
        "module_bad_shorted",
        "tx_pause_storm_warning_events",
        "tx_pause_storm_error_events",
    ] {
        row(name.into(), 0);
    }
    row("link_down_events_phy".into(), 1 + seed % 3);
    row("rx_corrected_bits_phy".into(), 8_000 + seed);
    for lane in 0..4 {
        row(format!("rx_err_lane_{lane}_phy"), 0);
    }
    for priority in 0..8u64 {
        let busy = if priority == 0 || pfc >> priority & 1 == 1 {
            mix("prio", seed + priority)
        } else {
            0
        };
        row(format!("rx_prio{priority}_bytes"), busy);
        row(format!("rx_prio{priority}_packets"), busy / 4096);
        row(format!("rx_prio{priority}_discards"), 0);
        row(format!("tx_prio{priority}_bytes"), busy);
        row(format!("tx_prio{priority}_packets"), busy / 4096);
    }
    for priority in (0..8u64).filter(|priority| pfc >> priority & 1 == 1) {
        for direction in ["rx", "tx"] {
            row(format!("{direction}_prio{priority}_pause"), 40 + seed);
            row(
                format!("{direction}_prio{priority}_pause_duration"),
                900 + seed,
            );
        }
        row(format!("rx_prio{priority}_pause_transition"), 20 + seed);
    }
    rows
}

/// A big number that depends on name and seed.
fn mix(name: &str, seed: u64) -> u64 {
    let mut value = 0xcbf2_9ce4_8422_2325_u64 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in name.bytes() {
        value = (value ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    value >> 24
}

/// `ethtool -S` of a Broadcom port with PFC on priority 3.
pub(super) fn bnxt_ethtool(seed: u64) -> Vec<(String, u64)> {
    let mut rows: Vec<(String, u64)> = Vec::new();
    for name in ["rx_pfc_frames", "tx_pfc_frames"] {
        rows.push((name.into(), 30 + seed));
    }
    for priority in 0..8u64 {
        let frames = if priority == 3 { 30 + seed } else { 0 };
        for direction in ["rx", "tx"] {
            rows.push((format!("{direction}_pfc_ena_frames_pri{priority}"), frames));
            rows.push((
                format!("pfc_pri{priority}_{direction}_duration_us"),
                frames * 20,
            ));
            rows.push((format!("pfc_pri{priority}_{direction}_transitions"), frames));
        }
        rows.push((format!("rx_discard_packets_cos{priority}"), 0));
    }
    for name in [
        "rx_pause_frames",
        "tx_pause_frames",
        "continuous_pause_events",
        "continuous_roce_pause_events",
        "rx_stat_discard",
        "tx_stat_discard",
    ] {
        rows.push((name.into(), 0));
    }
    rows
}
