//! Which priorities have flow control (PFC).

use super::Context;
use crate::observe::netdev::DcbFacts;

/// What DCB says of a network device, unless that is too old.
pub(super) fn dcb<'a>(context: &Context<'a>, netdev: &str) -> Option<&'a DcbFacts> {
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

/// `3,4`: the priorities whose bits are set.
pub(super) fn list(bits: u8) -> String {
    (0..8u8)
        .filter(|priority| has(bits, *priority))
        .map(|priority| priority.to_string())
        .collect::<Vec<_>>()
        .join(",")
}
