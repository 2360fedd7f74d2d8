//! Which counters are exported by default. A fixed choice by driver and link layer, never by value:
//! a series that appears with its first error has lost that error for `rate()`.

use super::port_view::ReportedPort;
use crate::observe::counters::{Counts, PortCounters};
use crate::observe::rdma::{Function, LinkLayer};
use std::collections::BTreeMap;
use std::fmt::Write;

/// PMA files exported as bytes and packets of the port, not as counters.
pub const PMA_TRAFFIC: &[&str] = &[
    "port_rcv_data",
    "port_xmit_data",
    "port_rcv_packets",
    "port_xmit_packets",
];

/// PMA files exported by default on InfiniBand.
pub const PMA_INFINIBAND: &[&str] = &[
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "symbol_error",
];

/// PMA files exported by default on Ethernet, where the InfiniBand error counters stay at 0.
pub const PMA_ETHERNET: &[&str] = &["link_downed"];

/// Default hardware counters of one driver.
#[derive(Debug)]
pub struct HwSelection {
    /// Driver as the kernel names it, or what its name begins with.
    pub driver: &'static str,
    /// Loss, timeouts and failures: also shown as errors in `/report`.
    pub errors: &'static [&'static str],
    /// Congestion signs of Ethernet ports, which a healthy port has too.
    pub congestion: &'static [&'static str],
}

/// By driver. Names are of the drivers' own tables (hw_counters.c, counters.c, verbs.c of each).
pub const HW: &[HwSelection] = &[
    HwSelection {
        driver: "mlx5",
        errors: &[
            "local_ack_timeout_err",
            "out_of_buffer",
            "out_of_sequence",
            "packet_seq_err",
            "req_transport_retries_exceeded",
            "rnr_nak_retry_err",
            "roce_adp_retrans",
        ],
        congestion: &["np_cnp_sent", "rp_cnp_handled"],
    },
    HwSelection {
        driver: "efa",
        errors: &[
            "cmds_err",
            "impaired_remote_conn_events",
            "no_completion_cmds",
            "rdma_read_wr_err",
            "rdma_write_wr_err",
            "retrans_pkts",
            "retrans_timeout_events",
            "rx_drops",
            "unresponsive_remote_events",
        ],
        congestion: &[],
    },
    HwSelection {
        driver: "bnxt",
        errors: &[
            "max_retry_exceeded",
            "missing_resp",
            "oos_drop_count",
            "rx_out_of_buffer",
            "rx_roce_discards",
            "seq_err_naks_rcvd",
            "to_retransmits",
            "tx_roce_discards",
            "unrecoverable_err",
        ],
        congestion: &["rx_cnp_pkts", "tx_cnp_pkts"],
    },
    HwSelection {
        driver: "irdma",
        errors: &["ip4InDiscards", "ip6InDiscards", "tcpRetransSegs"],
        congestion: &["RxECNMrkd", "cnpHandled", "cnpSent"],
    },
    HwSelection {
        driver: "mana",
        errors: &[
            "requester_oos_nak",
            "requester_retries_exceeded",
            "requester_rnr_nak",
            "requester_timeout",
            "responder_oos",
            "total_fatal_error",
        ],
        congestion: &["received_cnps", "sent_cnps"],
    },
    HwSelection {
        driver: "rdma_rxe",
        errors: &[
            "completer_retry_err",
            "duplicate_request",
            "link_downed",
            "out_of_seq_request",
            "rcvd_rnr_err",
            "rcvd_seq_err",
            "retry_exceeded_err",
            "retry_rnr_exceeded_err",
            "send_err",
        ],
        congestion: &[],
    },
];

/// ethtool statistics exported with full detail, by the drivers' names (mlx5, bnxt_en, ice, ena).
pub const ETHTOOL: &[&str] = &[
    "rx_discards_phy",
    "tx_discards_phy",
    "rx_out_of_buffer",
    "rx_pcs_symbol_err_phy",
    "rx_crc_errors_phy",
    "link_down_events_phy",
    "tx_pause_storm_warning_events",
    "tx_pause_storm_error_events",
    "outbound_pci_buffer_overflow",
    "rx_stat_discard",
    "tx_stat_discard",
    "continuous_roce_pause_events",
    "rx_dropped.nic",
    "bw_in_allowance_exceeded",
    "bw_out_allowance_exceeded",
];

/// The selection for a driver.
pub fn hw_selection(driver: &str) -> Option<&'static HwSelection> {
    // The rxe driver is also called by its short name.
    let driver = if driver == "rxe" { "rdma_rxe" } else { driver };
    HW.iter().find(|hw| driver.starts_with(hw.driver))
}

/// Whether a PMA file is exported by default on this link layer.
pub fn pma_by_default(layer: LinkLayer, name: &str) -> bool {
    match layer {
        LinkLayer::Infiniband => PMA_INFINIBAND.contains(&name),
        LinkLayer::Ethernet => PMA_ETHERNET.contains(&name),
        LinkLayer::Unspecified => false,
    }
}

/// Whether a hardware counter is exported by default for this driver. Congestion shows as
/// packets (CNP, ECN) on Ethernet only.
pub fn hw_by_default(driver: &str, layer: LinkLayer, name: &str) -> bool {
    hw_selection(driver).is_some_and(|hw| {
        hw.errors.contains(&name) || (layer == LinkLayer::Ethernet && hw.congestion.contains(&name))
    })
}

/// VFs lent to guests are the guests' to watch: by default they are listed without counters. A node
/// may have hundreds.
pub fn counted_by_default(port: &ReportedPort<'_>) -> bool {
    port.device.function != Function::VirtualOfHost
}

/// Error counters of a port that are not zero, by name: all of PMA's that saturate but the
/// congestion and management ones, and the driver's own of the table.
pub fn nonzero_errors(port: &ReportedPort<'_>) -> BTreeMap<String, u64> {
    let Some(counters) = port.counters else {
        return BTreeMap::new();
    };
    let hw = hw_selection(&port.device.driver).map_or(&[][..], |hw| hw.errors);
    let pma = counters.pma.iter().filter(|(name, _)| {
        !matches!(name.as_str(), "port_xmit_wait" | "VL15_dropped")
            && crate::observe::counters::PMA_SATURATING
                .iter()
                .any(|(known, _)| known == name)
    });
    let hardware = counters
        .hw
        .iter()
        .chain(counters.device_hw.iter())
        .filter(|(name, _)| hw.contains(&name.as_str()));
    pma.chain(hardware)
        .filter_map(|(name, reading)| Some((name.to_string(), *reading.value()?)))
        .filter(|(_, value)| *value > 0)
        .collect()
}

/// Bytes and packets of a port, each none where nothing tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes received on the wire, by whichever counter the driver has.
    pub rx_bytes: Option<u64>,
    /// Bytes sent on the wire.
    pub tx_bytes: Option<u64>,
    /// Packets received on the wire.
    pub rx_packets: Option<u64>,
    /// Packets sent on the wire.
    pub tx_packets: Option<u64>,
}

/// Traffic of a port: PMA where the port has it, else the driver's hardware counters (EFA, bnxt_re,
/// mana: bytes and packets; irdma: IPv4 plus IPv6; rxe: packets only).
pub fn traffic(counters: &PortCounters) -> Traffic {
    let hw_first = |names: &[&str]| names.iter().find_map(|name| value(&counters.hw, name));
    let hw_sum = |a: &str, b: &str| match (value(&counters.hw, a), value(&counters.hw, b)) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    };
    Traffic {
        rx_bytes: value(&counters.pma, "port_rcv_data")
            .or_else(|| hw_first(&["rx_bytes"]))
            .or_else(|| hw_sum("ip4InOctets", "ip6InOctets")),
        tx_bytes: value(&counters.pma, "port_xmit_data")
            .or_else(|| hw_first(&["tx_bytes"]))
            .or_else(|| hw_sum("ip4OutOctets", "ip6OutOctets")),
        rx_packets: value(&counters.pma, "port_rcv_packets")
            .or_else(|| hw_first(&["rx_pkts", "rx_packets", "rcvd_pkts"]))
            .or_else(|| hw_sum("ip4InPkts", "ip6InPkts")),
        tx_packets: value(&counters.pma, "port_xmit_packets")
            .or_else(|| hw_first(&["tx_pkts", "tx_packets", "sent_pkts"]))
            .or_else(|| hw_sum("ip4OutPkts", "ip6OutPkts")),
    }
}

fn value(group: &Counts, name: &str) -> Option<u64> {
    group.get(name)?.value().copied()
}

/// The default selections as Markdown.
pub fn markdown() -> String {
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut out = String::from(
        "\n## Counters exported by default\n\n\
         The choice is by driver and link layer, never by value, so that `rate()` misses no first\n\
         error. VFs that are lent to guests have no counters by default.\n\n\
         | where | family | counters |\n|---|---|---|\n",
    );
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "| InfiniBand | `selvage_port_counter_total` | {} |\n| Ethernet | `selvage_port_counter_total` | {} |",
        names(PMA_INFINIBAND),
        names(PMA_ETHERNET),
    );
    for hw in HW {
        let all = [hw.errors, hw.congestion].concat();
        let _ = writeln!(
            out,
            "| driver `{}` | `selvage_port_hw_counter_total` | {} |",
            hw.driver,
            names(&all)
        );
    }
    let _ = writeln!(
        out,
        "| full detail | `selvage_netdev_statistic_total` | {} |",
        names(ETHTOOL)
    );
    out
}
