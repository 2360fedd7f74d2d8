//! A sidecar's verdict, as its container's log has it.

use crate::check::nccl::{NcclVerdict, is_transport};
use crate::source::{container_log::unframe, nccl::anchor::VERDICT_SCHEMA};
use serde::Deserialize;
use std::time::Duration;

/// Longest line of a sidecar that is read.
pub(super) const VERDICT_BYTES: usize = 32 * 1024;

/// Most lines of evidence, causes and remedies taken from a sidecar, and bytes of each.
const TAKEN_LINES: usize = 12;
const TAKEN_BYTES: usize = 400;

/// Highest plausible count, and longest init, in seconds.
const MOST_COUNT: u64 = 1 << 40;
const LONGEST_INIT: f64 = 1e6;

/// The verdict in a sidecar's line, cut to size, and the container it names. Any container can print
/// one, but only about its own pod.
pub(super) fn sidecar_verdict(
    line: &[u8],
    wall: Option<jiff::Timestamp>,
) -> Option<(Option<String>, NcclVerdict)> {
    #[derive(Deserialize)]
    struct RecordLine {
        schema: String,
        #[serde(default)]
        container: String,
        verdict: NcclVerdict,
    }
    if line.len() > VERDICT_BYTES {
        return None;
    }
    let (_, text) = unframe(line);
    let parsed: RecordLine = serde_json::from_slice(&text).ok()?;
    if parsed.schema != VERDICT_SCHEMA {
        return None;
    }
    let mut verdict = parsed.verdict;
    let cut = |text: &mut String| *text = crate::units::cut(std::mem::take(text), TAKEN_BYTES);
    verdict.evidence.truncate(TAKEN_LINES);
    verdict.causes.truncate(TAKEN_LINES);
    verdict.remedies.truncate(TAKEN_LINES);
    for line in &mut verdict.evidence {
        cut(&mut line.text);
    }
    verdict.remedies.iter_mut().for_each(cut);
    cut(&mut verdict.summary);
    if let Some(version) = &mut verdict.nccl_version {
        *version = crate::units::cut(std::mem::take(version), 32);
    }
    // A time that a clock off by more than a day wrote means nothing.
    let day = Duration::from_secs(86_400);
    let is_near = |since: jiff::Timestamp| {
        wall.is_none_or(|wall| since <= wall + day && since + 30 * day >= wall)
    };
    verdict.init_hangs_since.take_if(|since| !is_near(*since));
    let is_plausible = |seconds: f64| (0.0..=LONGEST_INIT).contains(&seconds);
    (verdict.init_seconds).take_if(|seconds| !is_plausible(*seconds));
    let counts = verdict.channels.values_mut();
    for count in counts.chain(verdict.warnings.values_mut()) {
        *count = (*count).min(MOST_COUNT);
    }
    verdict.channels.retain(|name, _| is_transport(name));
    let named = crate::units::is_dns_label(&parsed.container);
    Some((named.then_some(parsed.container), verdict))
}
