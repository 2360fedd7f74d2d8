//! Names of `ethtool -S` by driver, turned into neutral ones. Pure.
//!
//! Sources: mlx5/core/en_stats.c, mlx4/en_ethtool.c, bnxt_ethtool.c, ice_ethtool.c, ionic_stats.c,
//! gve_ethtool.c, ena_ethtool.c. Pause durations are microseconds in all of them. What a driver has
//! no name for stays missing: gve and ena, say, have no pause counters at all.

use crate::observe::netdev::{EthtoolFacts, PauseCounts, PriorityFacts};

/// Which value of a statistics array goes where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    driver: String,
    entries: Vec<(usize, Slot)>,
    /// Packet counters of the physical port, and of the function itself: see `blind`.
    physical: Vec<usize>,
    own: Vec<usize>,
}

/// Where a value goes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Slot {
    Priority(u8, Field),
    GlobalRx,
    GlobalTx,
    Other(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    RxPause,
    TxPause,
    RxMicros,
    TxMicros,
    RxDiscards,
    RxPackets,
    RxBytes,
    TxBytes,
}
use Field::{RxBytes, RxDiscards, RxMicros, RxPackets, RxPause, TxBytes, TxMicros, TxPause};

/// Names with one digit, the priority, in place of `#`.
type Patterns = &'static [(&'static str, Field)];

/// How one driver names things.
struct Dialect {
    patterns: Patterns,
    global_rx: &'static str,
    global_tx: &'static str,
    other: &'static [&'static str],
    /// Names with one digit in place of `#`, kept under their own name.
    other_patterns: &'static [&'static str],
}

const MLX5: Dialect = Dialect {
    patterns: &[
        ("rx_prio#_pause", RxPause),
        ("tx_prio#_pause", TxPause),
        ("rx_prio#_pause_duration", RxMicros),
        ("tx_prio#_pause_duration", TxMicros),
        ("rx_prio#_discards", RxDiscards),
        ("rx_prio#_packets", RxPackets),
        ("rx_prio#_bytes", RxBytes),
        ("tx_prio#_bytes", TxBytes),
    ],
    global_rx: "rx_global_pause",
    global_tx: "tx_global_pause",
    // outbound_pci_stalled_rd and _wr are percentages of the moment, no counters: left out.
    other: &[
        "rx_global_pause_duration",
        "tx_global_pause_duration",
        "tx_pause_storm_warning_events",
        "tx_pause_storm_error_events",
        "rx_pause_ctrl_phy",
        "tx_pause_ctrl_phy",
        "rx_discards_phy",
        "tx_discards_phy",
        "rx_out_of_buffer",
        "dev_out_of_buffer",
        "rx_steer_missed_packets",
        "outbound_pci_buffer_overflow",
        "outbound_pci_stalled_rd_events",
        "outbound_pci_stalled_wr_events",
        "link_down_events_phy",
        "rx_pcs_symbol_err_phy",
        "rx_symbol_err_phy",
        "rx_crc_errors_phy",
        "rx_corrected_bits_phy",
        "module_unplug",
        "module_bus_stuck",
        "module_high_temp",
        "module_bad_shorted",
        "rx_vport_rdma_unicast_packets",
        "rx_vport_rdma_unicast_bytes",
        "tx_vport_rdma_unicast_packets",
        "tx_vport_rdma_unicast_bytes",
    ],
    other_patterns: &[
        "rx_prio#_buf_discard",
        "rx_prio#_cong_discard",
        "rx_prio#_marked",
        "rx_err_lane_#_phy",
    ],
};

const MLX4: Dialect = Dialect {
    patterns: &[
        ("rx_pause_prio_#", RxPause),
        ("tx_pause_prio_#", TxPause),
        ("rx_pause_duration_prio_#", RxMicros),
        ("tx_pause_duration_prio_#", TxMicros),
        ("rx_prio_#_packets", RxPackets),
        ("rx_prio_#_bytes", RxBytes),
        ("tx_prio_#_bytes", TxBytes),
    ],
    global_rx: "rx_pause",
    global_tx: "tx_pause",
    other: &["rx_dropped", "tx_dropped", "rx_crc_errors"],
    other_patterns: &[],
};

const BNXT: Dialect = Dialect {
    patterns: &[
        ("rx_pfc_ena_frames_pri#", RxPause),
        ("tx_pfc_ena_frames_pri#", TxPause),
        ("pfc_pri#_rx_duration_us", RxMicros),
        ("pfc_pri#_tx_duration_us", TxMicros),
        ("rx_packets_pri#", RxPackets),
        ("rx_bytes_pri#", RxBytes),
        ("tx_bytes_pri#", TxBytes),
    ],
    global_rx: "rx_pause_frames",
    global_tx: "tx_pause_frames",
    other: &[
        "rx_pfc_frames",
        "tx_pfc_frames",
        "continuous_pause_events",
        "resume_pause_events",
        "continuous_roce_pause_events",
        "resume_roce_pause_events",
        "rx_stat_discard",
        "tx_stat_discard",
        "rx_pcs_symbol_err",
        "rx_corrected_bits",
        "link_down_events",
    ],
    // By class-of-service queue, which is not a priority: the driver does not publish that mapping.
    other_patterns: &["rx_discard_packets_cos#"],
};

// Each XOFF frame is a pause asked for; XON frames end them.
const ICE: Dialect = Dialect {
    patterns: &[
        ("rx_priority_#_xoff.nic", RxPause),
        ("tx_priority_#_xoff.nic", TxPause),
    ],
    global_rx: "link_xoff_rx.nic",
    global_tx: "link_xoff_tx.nic",
    other: &["rx_dropped.nic", "rx_crc_errors.nic", "illegal_bytes.nic"],
    other_patterns: &[],
};

const IONIC: Dialect = Dialect {
    patterns: &[
        ("rx_pripause_#_1us_count", RxMicros),
        ("tx_pripause_#_1us_count", TxMicros),
        ("frames_rx_pri_#", RxPackets),
    ],
    global_rx: "frames_rx_pause",
    global_tx: "frames_tx_pause",
    other: &[
        "frames_rx_pripause",
        "frames_tx_pripause",
        "rx_pause_1us_count",
        "frames_rx_bad_fcs",
        "frames_rx_dropped",
    ],
    other_patterns: &[],
};

const GVE: Dialect = Dialect {
    patterns: &[],
    global_rx: "",
    global_tx: "",
    other: &["rx_dropped", "tx_dropped", "tx_timeouts"],
    other_patterns: &[],
};

const ENA: Dialect = Dialect {
    patterns: &[],
    global_rx: "",
    global_tx: "",
    other: &[
        "bw_in_allowance_exceeded",
        "bw_out_allowance_exceeded",
        "pps_allowance_exceeded",
        "conntrack_allowance_exceeded",
        "linklocal_allowance_exceeded",
        "rx_drops",
        "tx_drops",
        "tx_timeout",
    ],
    other_patterns: &[],
};

/// What an unknown driver may share with mlx5: the per-priority names only.
const GENERIC: Dialect = Dialect {
    patterns: MLX5.patterns,
    global_rx: "",
    global_tx: "",
    other: &[],
    other_patterns: &[],
};

fn dialect(driver: &str) -> &'static Dialect {
    match driver {
        "mlx5_core" | "mlx5e_rep" => &MLX5,
        "mlx4_en" | "mlx4_core" => &MLX4,
        "bnxt_en" => &BNXT,
        "ice" => &ICE,
        "ionic" => &IONIC,
        "gve" => &GVE,
        "ena" => &ENA,
        _ => &GENERIC,
    }
}

/// The digit in place of `#`, where the name is of that pattern.
fn digit(name: &str, pattern: &str) -> Option<u8> {
    let (before, after) = pattern.split_once('#')?;
    let middle = name.strip_prefix(before)?.strip_suffix(after)?;
    match middle.as_bytes() {
        [digit @ b'0'..=b'7'] => Some(digit - b'0'),
        _ => None,
    }
}

/// Maps a driver's statistics to neutral facts.
pub fn map<'n>(driver: &str, names: impl IntoIterator<Item = &'n str>) -> Map {
    let dialect = dialect(driver);
    let mut map = Map {
        driver: driver.to_string(),
        entries: Vec::new(),
        physical: Vec::new(),
        own: Vec::new(),
    };
    for (index, name) in names.into_iter().enumerate() {
        match name {
            "rx_packets_phy" | "tx_packets_phy" => map.physical.push(index),
            "rx_packets" | "rx_vport_unicast_packets" | "rx_vport_rdma_unicast_packets" => {
                map.own.push(index);
            }
            _ => {}
        }
        if let Some(slot) = slot(dialect, name) {
            map.entries.push((index, slot));
        }
    }
    map
}

fn slot(dialect: &Dialect, name: &str) -> Option<Slot> {
    if name.is_empty() {
        return None;
    }
    if name == dialect.global_rx {
        return Some(Slot::GlobalRx);
    }
    if name == dialect.global_tx {
        return Some(Slot::GlobalTx);
    }
    let priority = dialect.patterns.iter().find_map(|(pattern, field)| {
        digit(name, pattern).map(|priority| Slot::Priority(priority, *field))
    });
    let other = || {
        let known = dialect.other.contains(&name)
            || dialect
                .other_patterns
                .iter()
                .any(|pattern| digit(name, pattern).is_some());
        known.then(|| Slot::Other(name.to_string()))
    };
    priority.or_else(other)
}

impl Map {
    /// Takes the known values out of an array that is ordered as the names were.
    pub fn apply(&self, values: &[u64]) -> EthtoolFacts {
        let mut facts = EthtoolFacts {
            driver: self.driver.clone(),
            ..EthtoolFacts::default()
        };
        let blind = self.blind(values);
        for (index, slot) in &self.entries {
            let Some(value) = values.get(*index).copied() else {
                continue;
            };
            match slot {
                Slot::Other(name) if !blind || name.contains("_vport_") => {
                    facts.other.insert(name.clone(), value);
                }
                _ if blind => {}
                Slot::Priority(priority, field) => {
                    let known = facts.priorities.entry(*priority).or_default();
                    *place(known, *field) = Some(value);
                }
                Slot::GlobalRx => facts.global_pause.rx = Some(value),
                Slot::GlobalTx => facts.global_pause.tx = Some(value),
                Slot::Other(_) => {}
            }
        }
        facts
    }

    /// A virtual function of mlx5 has the names of the physical port's counters, but the device does
    /// not fill them in: traffic of its own on a port without a single packet shows that.
    fn blind(&self, values: &[u64]) -> bool {
        let sum = |indexes: &[usize]| {
            indexes
                .iter()
                .filter_map(|index| values.get(*index))
                .fold(0u64, |sum, value| sum.saturating_add(*value))
        };
        !self.physical.is_empty() && sum(&self.physical) == 0 && sum(&self.own) > 0
    }
}

fn place(facts: &mut PriorityFacts, field: Field) -> &mut Option<u64> {
    let PriorityFacts {
        pause: PauseCounts { rx, tx },
        rx_pause_micros,
        tx_pause_micros,
        rx_discards,
        rx_packets,
        rx_bytes,
        tx_bytes,
    } = facts;
    match field {
        RxPause => rx,
        TxPause => tx,
        RxMicros => rx_pause_micros,
        TxMicros => tx_pause_micros,
        RxDiscards => rx_discards,
        RxPackets => rx_packets,
        RxBytes => rx_bytes,
        TxBytes => tx_bytes,
    }
}

#[cfg(test)]
mod tests;
