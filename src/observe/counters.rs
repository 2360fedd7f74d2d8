//! Counters of one RDMA port, with widths known.

use super::Reading;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One reading of each counter, by name.
pub type Counts = BTreeMap<String, Reading<u64>>;

/// Whether a counter says how much was moved, or of how many requests: no check judges that alone, but for
/// what tells on which priority RoCE is sent.
pub fn is_volume(name: &str) -> bool {
    if name.contains("rdma") || name.contains("prio") {
        return false;
    }
    let endings = ["_data", "_packets", "_bytes", "_requests"];
    let packets = ["rx_pkts", "tx_pkts", "sent_pkts", "rcvd_pkts"];
    endings.iter().any(|ending| name.ends_with(ending)) || packets.contains(&name)
}

/// Whether two samples of the same counters differ in volumes at most.
pub fn alike<T: PartialEq>(before: &BTreeMap<String, T>, now: &BTreeMap<String, T>) -> bool {
    let alike = |((name, was), (other, is)): ((&String, &T), (&String, &T))| {
        name == other && (was == is || is_volume(name))
    };
    before.len() == now.len() && before.iter().zip(now).all(alike)
}

/// One sample of a port's counters. PMA data counters are in bytes already (the files hold 4-byte
/// words; the source multiplies once).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortCounters {
    /// `ports/N/counters`, by file name.
    pub pma: Counts,
    /// `ports/N/hw_counters` or STAT_GET, by name; `lifespan` left out.
    pub hw: Counts,
    /// `<dev>/hw_counters` (EFA, mana, mlx5 in switchdev mode); on the device's first port only.
    pub device_hw: Counts,
    /// The PMA files were left unopened: excluded by the operator, or a restricted PF that
    /// answered EINVAL once (reading on floods the kernel log with ACCESS_REG failures).
    pub pma_skipped: Option<PmaSkip>,
}

impl PortCounters {
    /// Whether it differs from another sample in volumes at most.
    pub fn is_like(&self, other: &PortCounters) -> bool {
        self.pma_skipped == other.pma_skipped
            && alike(&self.pma, &other.pma)
            && alike(&self.hw, &other.hw)
            && alike(&self.device_hw, &other.device_hw)
    }
}

/// Why PMA counters are not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PmaSkip {
    /// Configuration excludes the device.
    Excluded,
    /// The port answered EINVAL before (remembered over restarts).
    Restricted,
}

/// How a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CounterKind {
    /// Sticks at its maximum (IBTA PortCounters): once there, every later delta is a blind 0.
    Saturating {
        /// Its highest value.
        max: u64,
    },
    /// Wraps to 0 after its maximum (mlx5 hardware counters are 32-bit in firmware).
    Wrapping {
        /// Its highest value.
        max: u64,
    },
    /// 64 bits: neither happens in a lifetime.
    #[default]
    Wide,
    /// Goes up and down: never a delta.
    Gauge,
}

/// What was read of a counter. All ones in 64 bits is what a device that does not answer reads as,
/// and no count that can be reached.
pub fn counted(value: u64) -> Reading<u64> {
    match value {
        u64::MAX => Reading::NotObservable,
        value => Reading::Value(value),
    }
}

/// PMA files in 4-byte words.
pub const PMA_WORDS: &[&str] = &["port_xmit_data", "port_rcv_data"];

/// Kind of a PMA counter by file name, with the widths of PORT_PMA_ATTR (drivers/infiniband/core/sysfs.c).
/// Unknown names are taken as wide.
pub fn pma_kind(name: &str) -> CounterKind {
    let bits = match name {
        "local_link_integrity_errors" | "excessive_buffer_overrun_errors" => 4,
        "link_error_recovery" | "link_downed" => 8,
        "port_xmit_constraint_errors" | "port_rcv_constraint_errors" => 8,
        "symbol_error" | "port_rcv_errors" | "port_rcv_remote_physical_errors" => 16,
        "port_rcv_switch_relay_errors" | "port_xmit_discards" | "VL15_dropped" => 16,
        "port_xmit_wait" => 32,
        _ => return CounterKind::Wide,
    };
    let max = (1u64 << bits) - 1;
    CounterKind::Saturating { max }
}

/// Kind of a hardware counter by driver and name.
/// mlx5: firmware u32 zero-extended, so it wraps at 2^32. bnxt_re, mana and irdma have gauges among
/// their counters (hw_counters.c of each driver).
pub fn hw_kind(driver: &str, name: &str) -> CounterKind {
    let gauge = name.starts_with("active_")
        || name.starts_with("watermark_")
        || name == "current_rate"
        || name == "num_qps_congested"
        || name == "lifespan";
    if gauge {
        CounterKind::Gauge
    } else if driver.starts_with("mlx5") {
        CounterKind::Wrapping {
            max: u64::from(u32::MAX),
        }
    } else {
        CounterKind::Wide
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bit_counters_stick_at_fifteen() {
        assert_eq!(
            pma_kind("local_link_integrity_errors"),
            CounterKind::Saturating { max: 15 }
        );
        assert_eq!(
            pma_kind("link_downed"),
            CounterKind::Saturating { max: 255 }
        );
        assert_eq!(pma_kind("port_rcv_data"), CounterKind::Wide);
    }

    #[test]
    fn hardware_counter_kinds() {
        assert_eq!(
            hw_kind("mlx5_core", "out_of_sequence"),
            CounterKind::Wrapping { max: 4_294_967_295 }
        );
        assert_eq!(hw_kind("bnxt_re", "active_qps"), CounterKind::Gauge);
        assert_eq!(hw_kind("efa", "rx_drops"), CounterKind::Wide);
    }
}
