//! GPU errors in the kernel log.

use super::xid_codes::{self, Authority, Disposition, Overrides, Ruling, XidClass};
use super::{Candidate, Check, Context, ReasonDoc, Status, Weight, driver_reload};
use crate::observe::kernel::{RecoveryAction, XidDetail};
use crate::observe::kernel_log::{GpuLog, XidLog};
use crate::units::Millis;
use std::collections::{BTreeMap, BTreeSet};

const ID: &str = "xid";

/// The driver's own verdict on its GPU.
const RECOVERY_CODE: u32 = 154;
/// Codes that follow from another one on the same GPU.
const SYMPATHETIC: &[u32] = &[43, 45, 94, 95];

const FATAL: ReasonDoc = ReasonDoc {
    reason: "XidFatal",
    status: Status::Failing,
    weight: Weight::Verdict,
    meaning: "A GPU reported an error after which it is of no use until it is reset.",
    remedy: "Drain the node; reset the GPU (`nvidia-smi -r`) or reboot, as the message says. It clears by a reboot, once the driver says that it recovered, or once the driver was unloaded and loaded again. A reset under drivers before 565 leaves no trace: reload the driver (`modprobe -r`, `modprobe nvidia`) or reboot after it, or set `policy.xid.fatal_for`.",
};
const RECOVERY: ReasonDoc = ReasonDoc {
    reason: "GpuRecoveryRequired",
    status: Status::Failing,
    weight: Weight::Verdict,
    meaning: "The driver itself asks for a reset, a drain or a reboot (Xid 154).",
    remedy: "Do what the message says; it clears once the driver takes it back, or by a reboot.",
};
const DEGRADED: ReasonDoc = ReasonDoc {
    reason: "XidDegraded",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "A GPU reported an error that it survives, such as a memory row to be replaced.",
    remedy: "Reset the GPU at the next chance; if it comes back, have it examined.",
};
const UNKNOWN: ReasonDoc = ReasonDoc {
    reason: "XidUnknown",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "A GPU reported a code that this version does not know. It is shown and has no effect on the verdict.",
    remedy: "Look the code up in NVIDIA's Xid catalog; `xid.overrides` can judge it.",
};
const STORM: ReasonDoc = ReasonDoc {
    reason: "XidStorm",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "One application's error came on many GPUs at once: it is the job's, not the GPUs'.",
    remedy: "Look at the job that ran.",
};

/// The row in the table.
pub const CHECK: Check = Check {
    id: ID,
    title: "Xid (GPU errors)",
    what: "NVIDIA's Xids, one finding a GPU and reason, repeats folded. What decides, in this order: `xid.overrides`, the driver's own verdict (Xid 154), NVLink's severity word, the table of codes. Applications' errors (13, 31, 43, 45, 68, 69) are counted and never touch the node, nor do unknown codes. A fatal one clears by a reboot, when the driver says that it recovered (Xid 154), or when the driver was unloaded and loaded again after it and the GPU answers on the bus, and the GPU stays quiet for `quiet`; never because the agent restarted. Drivers before 565 say nothing in the log when a GPU is reset: there a reset without a reload of the driver clears nothing, unless `policy.xid.fatal_for` sets an end.",
    reasons: &[FATAL, RECOVERY, DEGRADED, UNKNOWN, STORM],
    run,
};

/// One code that stands on one GPU.
struct Standing<'a> {
    code: u32,
    log: &'a XidLog,
    ruling: Ruling,
}

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let overrides = &context.policy.xid.overrides;
    let gpus: Vec<(&String, Vec<Standing<'_>>)> = context
        .history
        .kernel
        .gpus
        .iter()
        .map(|(slot, gpu)| (slot, standing(context, slot, gpu, overrides)))
        .collect();
    let storms = storms(context, &gpus);
    let mut found = Vec::new();
    for (slot, standing) in &gpus {
        let of = |wanted: Disposition| -> Vec<&Standing<'_>> {
            standing
                .iter()
                .filter(|xid| xid.ruling.disposition == wanted && !storms.contains(&xid.code))
                .collect()
        };
        let gpu = context.history.kernel.gpus.get(*slot);
        let advice = gpu.and_then(|gpu| advice(context, gpu, overrides));
        let mut serious: Vec<Candidate> = [
            (FATAL, Disposition::Fatal),
            (DEGRADED, Disposition::Degraded),
        ]
        .into_iter()
        .filter_map(|(doc, wanted)| say(context, slot, doc, &of(wanted)))
        .collect();
        if let Some(advice) = advice {
            for candidate in &mut serious {
                candidate.remedy.clone_from(&advice);
            }
        }
        found.extend(serious);
        found.extend(say(context, slot, UNKNOWN, &of(Disposition::Report)));
        let stormy: Vec<&Standing<'_>> = standing
            .iter()
            .filter(|xid| storms.contains(&xid.code))
            .collect();
        found.extend(say(context, slot, STORM, &stormy));
        found.extend(gpu.and_then(|gpu| recovery(context, slot, gpu, overrides)));
    }
    found
}

/// Codes of a GPU that stand now, with what each means.
fn standing<'a>(
    context: &Context<'_>,
    slot: &str,
    gpu: &'a GpuLog,
    overrides: &Overrides,
) -> Vec<Standing<'a>> {
    let policy = &context.policy.xid;
    let all: Vec<Standing<'a>> = gpu
        .xids
        .iter()
        .filter(|(code, _)| **code != RECOVERY_CODE)
        .map(|(code, log)| Standing {
            code: *code,
            log,
            ruling: ruling(context, gpu, *code, log, overrides),
        })
        .collect();
    let serious = |xid: &Standing<'_>| {
        matches!(
            xid.ruling.disposition,
            Disposition::Fatal | Disposition::Degraded
        )
    };
    // The driver took its verdict back, or it was reloaded while it asked for nothing, and no
    // further serious Xid came for a while.
    let asks = (gpu.recovery).is_some_and(|(action, _)| action != RecoveryAction::None);
    let reloaded = driver_reload::of_gpu(context, slot).filter(|_| !asks);
    let cleared = gpu.cleared.max(reloaded).filter(|cleared| {
        let last = all
            .iter()
            .filter(|xid| serious(xid))
            .map(|xid| xid.log.seen.last)
            .fold(*cleared, Millis::max);
        context.now.since(last) >= policy.quiet.0
    });
    let causes: Vec<(u32, Millis, Disposition)> = all
        .iter()
        .map(|xid| (xid.code, xid.log.seen.last, xid.ruling.disposition))
        .collect();
    all.into_iter()
        .filter(|xid| {
            let seen = &xid.log.seen;
            let age = context.now.since(seen.last);
            let in_time = match xid.ruling.disposition {
                Disposition::Fatal => policy.fatal_for.is_none_or(|stands| age <= stands.0),
                Disposition::Degraded | Disposition::Report => age <= policy.degraded_for.0,
                Disposition::App | Disposition::Ignore | Disposition::Clear => false,
            };
            let operator = xid.ruling.authority == Authority::Operator;
            // It follows from another one, that says at least as much.
            let follows = !operator
                && SYMPATHETIC.contains(&xid.code)
                && causes.iter().any(|(code, at, disposition)| {
                    !SYMPATHETIC.contains(code)
                        && *disposition >= xid.ruling.disposition
                        && apart(*at, seen.last) <= policy.sympathy.0
                });
            in_time
                && !follows
                && cleared.is_none_or(|cleared| seen.last > cleared)
                && often_enough(context, xid, cleared)
        })
        .collect()
}

fn ruling(
    context: &Context<'_>,
    gpu: &GpuLog,
    code: u32,
    log: &XidLog,
    overrides: &Overrides,
) -> Ruling {
    let mut ruling = xid_codes::xid_ruling(code, &log.detail, overrides);
    // The driver's verdict on the same event stands above the table where it is milder; where it is
    // worse, it is a finding of its own.
    if ruling.authority != Authority::Operator
        && ruling.disposition == Disposition::Fatal
        && let Some((action, at)) = gpu.recovery
        && at >= log.seen.last
        && apart(at, log.seen.last) <= context.policy.xid.sympathy.0
        && action != RecoveryAction::None
        && recovery_ruling(action, overrides).disposition < Disposition::Fatal
    {
        ruling.disposition = Disposition::Degraded;
        ruling.authority = Authority::RecoveryAction;
    }
    ruling
}

fn apart(a: Millis, b: Millis) -> std::time::Duration {
    a.since(b).max(b.since(a))
}

/// The operator's count in a window.
fn often_enough(context: &Context<'_>, xid: &Standing<'_>, cleared: Option<Millis>) -> bool {
    if xid.ruling.count <= 1 {
        return true;
    }
    let start = match xid.ruling.within {
        within if within.is_zero() => Millis(0),
        within => context.now.minus(within),
    };
    let start = cleared.map_or(start, |cleared| start.max(cleared));
    xid.log.seen.since(start) >= u64::from(xid.ruling.count)
}

/// Codes of applications that came on many GPUs at once.
fn storms(context: &Context<'_>, gpus: &[(&String, Vec<Standing<'_>>)]) -> BTreeSet<u32> {
    let policy = &context.policy.xid;
    let mut last: BTreeMap<u32, Vec<Millis>> = BTreeMap::new();
    for xid in gpus.iter().flat_map(|(_, standing)| standing) {
        if xid.ruling.class == XidClass::App {
            last.entry(xid.code).or_default().push(xid.log.seen.last);
        }
    }
    last.into_iter()
        .filter(|(_, times)| {
            let newest = times.iter().copied().fold(Millis(0), Millis::max);
            let together = times
                .iter()
                .filter(|at| newest.since(**at) <= policy.storm_within.0)
                .count();
            together >= policy.storm_gpus.max(2) as usize
        })
        .map(|(code, _)| code)
        .collect()
}

fn say(
    context: &Context<'_>,
    slot: &str,
    doc: ReasonDoc,
    xids: &[&Standing<'_>],
) -> Option<Candidate> {
    let newest = xids.iter().max_by_key(|xid| xid.log.seen.last)?;
    let codes: Vec<String> = xids
        .iter()
        .take(8)
        .map(|xid| format!("Xid {} ({})", xid.code, xid.ruling.meaning))
        .collect();
    let count: u64 = xids.iter().map(|xid| xid.log.seen.count).sum();
    let mut candidate = doc
        .candidate(
            ID,
            (slot, subject(slot)),
            context.policy.xid.timing(),
            format!("GPU {}: {}", subject(slot), codes.join(", ")),
        )
        .with("xid", newest.code)
        .with("count", count)
        .with("line", newest.log.seen.text.as_str());
    if doc.reason != STORM.reason {
        candidate.remedy = newest.ruling.remedy.to_string();
    }
    if let Some(process) = &newest.log.process {
        candidate = candidate.with("process", process.as_str());
    }
    Some(candidate)
}

fn subject(slot: &str) -> &str {
    if slot.is_empty() { "unknown" } else { slot }
}

fn recovery_ruling(action: RecoveryAction, overrides: &Overrides) -> Ruling {
    let detail = XidDetail {
        recovery: Some((RecoveryAction::None, action)),
        ..XidDetail::default()
    };
    xid_codes::xid_ruling(RECOVERY_CODE, &detail, overrides)
}

/// What the driver asks for (Xid 154), as long as that stands.
fn asked(context: &Context<'_>, gpu: &GpuLog) -> Option<RecoveryAction> {
    let (action, _) = gpu.recovery?;
    if action != RecoveryAction::None {
        return Some(action);
    }
    // Taken back: what it asked for before stands until the GPU has been quiet for a while.
    let cleared = gpu.cleared?;
    if context.now.since(cleared) >= context.policy.xid.quiet.0 {
        return None;
    }
    Some(gpu.xids.get(&RECOVERY_CODE)?.detail.recovery?.0)
}

/// The remedy that the driver's word stands for, so that one GPU is not given several.
fn advice(context: &Context<'_>, gpu: &GpuLog, overrides: &Overrides) -> Option<String> {
    let ruling = recovery_ruling(asked(context, gpu)?, overrides);
    matches!(
        ruling.disposition,
        Disposition::Fatal | Disposition::Degraded
    )
    .then(|| format!("Follow the driver's advice (Xid 154): {}", ruling.remedy))
}

/// The finding of the driver's own word.
fn recovery(
    context: &Context<'_>,
    slot: &str,
    gpu: &GpuLog,
    overrides: &Overrides,
) -> Option<Candidate> {
    let action = asked(context, gpu)?;
    let ruling = recovery_ruling(action, overrides);
    let status = match ruling.disposition {
        Disposition::Fatal => Status::Failing,
        Disposition::Degraded => Status::Degraded,
        _ => return None,
    };
    let mut candidate = RECOVERY
        .candidate(
            ID,
            (slot, subject(slot)),
            context.policy.xid.timing(),
            format!(
                "GPU {}: the driver asks for {} (Xid 154)",
                subject(slot),
                wish(action)
            ),
        )
        .with("xid", RECOVERY_CODE)
        .with("action", wish(action));
    candidate.status = status;
    candidate.remedy = ruling.remedy.to_string();
    Some(candidate)
}

fn wish(action: RecoveryAction) -> &'static str {
    match action {
        RecoveryAction::None => "nothing",
        RecoveryAction::GpuReset => "a reset of the GPU",
        RecoveryAction::NodeReboot => "a reboot of the node",
        RecoveryAction::DrainP2p => "a drain of peer-to-peer traffic",
        RecoveryAction::DrainAndReset => "a drain and a reset of the GPU",
        RecoveryAction::RecoverImex => "a recovery of the IMEX domain",
        RecoveryAction::Other(_) => "an action that this version does not know",
    }
}

#[cfg(test)]
mod tests;
