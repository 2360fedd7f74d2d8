//! Which counters are exported by default. A fixed choice by driver and link layer, never by value:
//! a series that appears with its first error has lost that error for `rate()`.

use super::catalogue::{self as cat, Family};
use super::port_view::ReportedPort;
use crate::observe::counters::{Counts, PortCounters};
use crate::observe::rdma::{Function, LinkLayer};
use std::collections::BTreeMap;

/// A list of names.
macro_rules! names {
    ($($name:literal)*) => {
        &[$($name),*]
    };
}

/// PMA files exported as bytes and packets of the port, not as counters.
pub const PMA_TRAFFIC: &[&str] = names! {
    "port_rcv_data" "port_xmit_data" "port_rcv_packets" "port_xmit_packets"
};

/// PMA files exported by default on InfiniBand.
pub const PMA_INFINIBAND: &[&str] = names! {
    "excessive_buffer_overrun_errors" "link_downed" "link_error_recovery"
    "local_link_integrity_errors" "port_rcv_errors" "port_rcv_remote_physical_errors"
    "port_xmit_discards" "port_xmit_wait" "symbol_error"
};

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

/// Declares [`HW`] from rows of driver, errors and congestion signs.
macro_rules! hardware {
    ($($driver:literal [$($error:literal)*] [$($congestion:literal)*])*) => {
        /// By driver. Names are of the drivers' own tables (hw_counters.c, counters.c, verbs.c of each).
        pub const HW: &[HwSelection] = &[$(HwSelection {
            driver: $driver,
            errors: &[$($error),*],
            congestion: &[$($congestion),*],
        }),*];
    };
}

hardware! {
    "mlx5"
        ["local_ack_timeout_err" "out_of_buffer" "out_of_sequence" "packet_seq_err"
        "req_transport_retries_exceeded" "rnr_nak_retry_err" "roce_adp_retrans"]
        ["np_cnp_sent" "rp_cnp_handled"]
    "efa"
        ["cmds_err" "impaired_remote_conn_events" "no_completion_cmds" "rdma_read_wr_err"
        "rdma_write_wr_err" "retrans_pkts" "retrans_timeout_events" "rx_drops"
        "unresponsive_remote_events"]
        []
    "bnxt"
        ["max_retry_exceeded" "missing_resp" "oos_drop_count" "rx_out_of_buffer" "rx_roce_discards"
        "seq_err_naks_rcvd" "to_retransmits" "tx_roce_discards" "unrecoverable_err"]
        ["rx_cnp_pkts" "tx_cnp_pkts"]
    "irdma"
        ["ip4InDiscards" "ip6InDiscards" "tcpRetransSegs"]
        ["RxECNMrkd" "cnpHandled" "cnpSent"]
    "mana"
        ["requester_oos_nak" "requester_retries_exceeded" "requester_rnr_nak" "requester_timeout"
        "responder_oos" "total_fatal_error"]
        ["received_cnps" "sent_cnps"]
    "rdma_rxe"
        ["completer_retry_err" "duplicate_request" "link_downed" "out_of_seq_request" "rcvd_rnr_err"
        "rcvd_seq_err" "retry_exceeded_err" "retry_rnr_exceeded_err" "send_err"]
        []
}

/// ethtool statistics exported with full detail, by the drivers' names (mlx5, bnxt_en, ice, ena).
pub const ETHTOOL: &[&str] = names! {
    "rx_discards_phy" "tx_discards_phy" "rx_out_of_buffer" "rx_pcs_symbol_err_phy"
    "rx_crc_errors_phy" "link_down_events_phy" "tx_pause_storm_warning_events"
    "tx_pause_storm_error_events" "outbound_pci_buffer_overflow" "rx_stat_discard"
    "tx_stat_discard" "continuous_roce_pause_events" "rx_dropped.nic" "bw_in_allowance_exceeded"
    "bw_out_allowance_exceeded"
};

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

/// Where bytes and packets on the wire are counted, by family: PMA's file, else what the drivers call
/// it, else two that add up (irdma: IPv4 and IPv6).
const TRAFFIC: [(&Family, &str, &[&str], [&str; 2]); 4] = [
    (
        &cat::PORT_RECEIVE_BYTES,
        "port_rcv_data",
        &["rx_bytes"],
        ["ip4InOctets", "ip6InOctets"],
    ),
    (
        &cat::PORT_TRANSMIT_BYTES,
        "port_xmit_data",
        &["tx_bytes"],
        ["ip4OutOctets", "ip6OutOctets"],
    ),
    (
        &cat::PORT_RECEIVE_PACKETS,
        "port_rcv_packets",
        &["rx_pkts", "rx_packets", "rcvd_pkts"],
        ["ip4InPkts", "ip6InPkts"],
    ),
    (
        &cat::PORT_TRANSMIT_PACKETS,
        "port_xmit_packets",
        &["tx_pkts", "tx_packets", "sent_pkts"],
        ["ip4OutPkts", "ip6OutPkts"],
    ),
];

/// Traffic of a port; `None` where no counter shows it.
pub fn traffic(
    counters: &PortCounters,
) -> impl Iterator<Item = (&'static Family, Option<u64>)> + '_ {
    let value = |group: &Counts, name: &str| group.get(name)?.value().copied();
    TRAFFIC.into_iter().map(move |(family, pma, own, pair)| {
        let of_pma = value(&counters.pma, pma);
        let of_driver = || own.iter().find_map(|name| value(&counters.hw, name));
        let parts = || pair.iter().filter_map(|name| value(&counters.hw, name));
        let sum = || parts().reduce(u64::saturating_add);
        (family, of_pma.or_else(of_driver).or_else(sum))
    })
}
