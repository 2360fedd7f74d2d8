//! Which priorities have flow control (PFC), and whether RoCE runs on one of them.

use super::congestion::{PFC_OFF, WRONG_PRIORITY, say};
use super::policy::LosslessExpectation;
use super::{Candidate, Context, PortView};
use crate::observe::netdev::DcbFacts;

/// Share of the bytes of a priority to those of RDMA above which it is the RoCE priority.
const CARRIES_ROCE: f64 = 0.8;
/// RDMA bytes in a minute below which nothing is made of the shares.
const SOME_TRAFFIC: u64 = 100_000_000;

fn dcb<'a>(context: &Context<'a>, netdev: &str) -> Option<&'a DcbFacts> {
    let stamp = context.snapshot.dcb.get(netdev)?;
    context.fresh(stamp, "dcb", netdev)?.value()
}

/// Priorities with PFC: as DCB tells, else those for which the driver shows pause (mlx5 shows it
/// for no others). None: not known.
pub(super) fn pfc_priorities(context: &Context<'_>, netdev: &str) -> Option<u8> {
    if let Some(bits) = dcb(context, netdev).and_then(|dcb| dcb.pfc_enabled) {
        return Some(bits);
    }
    let stats = context.snapshot.ethtool.get(netdev)?.value.value()?;
    let shown = stats
        .priorities
        .iter()
        .filter(|(_, facts)| facts.pause.rx.is_some() || facts.pause.tx.is_some())
        .fold(0u8, |bits, (priority, _)| {
            bits | 1u8.checked_shl(u32::from(*priority)).unwrap_or(0)
        });
    (shown != 0 && shown != u8::MAX).then_some(shown)
}

pub(super) fn has(bits: u8, priority: u8) -> bool {
    bits & 1u8.checked_shl(u32::from(priority)).unwrap_or(0) != 0
}

/// RoCE on a priority without PFC, or PFC nowhere although it must be.
pub(super) fn judge(context: &Context<'_>, port: &PortView<'_>, netdev: &str) -> Option<Candidate> {
    let expected = context.policy.expect.lossless;
    if expected == LosslessExpectation::Lossy || !port.is_roce() || !port.is_active() {
        return None;
    }
    let enabled = dcb(context, netdev)?.pfc_enabled?;
    if enabled == 0 {
        return (expected == LosslessExpectation::Lossless).then(|| {
            say(
                context,
                port,
                PFC_OFF,
                "",
                format!("{}: PFC is on for no priority", port.subject),
            )
        });
    }
    let minute = |name: &str| {
        let track = port.statistic(name)?;
        let length = std::time::Duration::from_secs(60);
        Some(context.increase_since(track, length, None)?.by)
    };
    let rdma = minute("rx_vport_rdma_unicast_bytes")?;
    if rdma < SOME_TRAFFIC {
        return None;
    }
    let (priority, bytes) = (0..8u8)
        .filter_map(|priority| Some((priority, minute(&format!("prio{priority}.rx_bytes"))?)))
        .max_by_key(|(_, bytes)| *bytes)?;
    if has(enabled, priority) || (bytes as f64) < rdma as f64 * CARRIES_ROCE {
        return None;
    }
    let losses = minute(&format!("prio{priority}.rx_discards")).unwrap_or(0)
        + ["hw.packet_seq_err", "hw.out_of_sequence"]
            .iter()
            .filter_map(|name| {
                let length = std::time::Duration::from_secs(60);
                Some(
                    context
                        .increase_since(port.counter(name)?, length, None)?
                        .by,
                )
            })
            .sum::<u64>();
    // Without losses it may be meant so, unless configuration says that it must not be.
    if losses == 0 && expected == LosslessExpectation::Auto {
        return None;
    }
    Some(
        say(
            context,
            port,
            WRONG_PRIORITY,
            "",
            format!(
                "{}: RoCE runs on priority {priority}, PFC is on for {}",
                port.subject,
                list(enabled)
            ),
        )
        .with("priority", priority)
        .with("pfc_enabled", list(enabled))
        .with("losses", losses),
    )
}

fn list(bits: u8) -> String {
    (0..8u8)
        .filter(|priority| has(bits, *priority))
        .map(|priority| priority.to_string())
        .collect::<Vec<_>>()
        .join(",")
}
