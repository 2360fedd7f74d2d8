//! GPU errors in the kernel log.

use super::xid_codes::{self, Disposition, Ruling};
use super::{Action, Candidate, Context, Reason, Status, driver_reload};
use crate::observe::kernel_log::{GpuLog, Note, XidLog};
use crate::observe::{RecoveryAction, XidDetail};
use crate::units::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The driver's own verdict on its GPU.
const RECOVERY_CODE: u32 = 154;
/// Codes that follow from another one on the same GPU.
const SYMPATHETIC: &[u32] = &[43, 45, 94, 95];

check!(xid, run);

/// One code that stands on one GPU.
struct Standing<'a> {
    code: u32,
    log: &'a XidLog,
    ruling: Ruling,
}

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let gpus = context.history.kernel.gpus.iter();
    let gpus = gpus.map(|(slot, gpu)| (slot, gpu, standing(context, slot, gpu)));
    let gpus: Vec<(&String, &GpuLog, Vec<Standing<'_>>)> = gpus.collect();
    let storms = storms(context, gpus.iter().flat_map(|(_, _, standing)| standing));
    let mut found = Vec::new();
    for (slot, gpu, standing) in &gpus {
        let (stormy, own): (Vec<&Standing<'_>>, Vec<_>) =
            standing.iter().partition(|xid| storms.contains(&xid.code));
        let advice = advice(context, slot, gpu);
        for (reason, wanted) in [
            ("XidFatal", Disposition::Fatal),
            ("XidDegraded", Disposition::Degraded),
            ("XidUnknown", Disposition::Report),
        ] {
            let mut of = own.clone();
            of.retain(|xid| xid.ruling.disposition == wanted);
            let mut candidate = say(context, slot, reason, &of);
            if let (Some(candidate), Some(advice)) = (&mut candidate, &advice)
                && wanted != Disposition::Report
            {
                (candidate.action, candidate.remedy) = advice.clone();
            }
            found.extend(candidate);
        }
        found.extend(say(context, slot, "XidStorm", &stormy));
        found.extend(recovery(context, slot, gpu));
    }
    found.extend(reset_required(context));
    found
}

/// The driver refused work on a GPU that needs a reset, and has not been loaded since.
fn reset_required(context: &Context<'_>) -> Option<Candidate> {
    let said = context.history.kernel.latest(Note::ResetRequired)?;
    let loaded = driver_reload::loaded(context).is_some_and(|loaded| loaded > said.last);
    let stands = context.now.since(said.last) < context.policy.xid.degraded_for.0 && !loaded;
    let message = format!("the NVIDIA driver said: {}", said.text);
    let found = context.candidate("GpuResetRequired", ("reset", "GPUs"), message);
    stands.then(|| found.with("count", said.count))
}

/// Codes of a GPU that stand now, with what each means.
fn standing<'a>(context: &Context<'_>, slot: &str, gpu: &'a GpuLog) -> Vec<Standing<'a>> {
    let policy = &context.policy.xid;
    // The driver's verdict is a finding of its own, unless the line was cut before it.
    let codes = (gpu.xids.iter())
        .filter(|(code, log)| **code != RECOVERY_CODE || log.detail.recovery.is_none());
    let all = codes.map(|(&code, log)| {
        let mut ruling = xid_codes::xid_ruling(code, &log.detail, &policy.overrides);
        // Drivers of the last decade name the GPU.
        if slot.is_empty() && !ruling.overridden {
            ruling.disposition = ruling.disposition.min(Disposition::Report);
        }
        Standing { code, log, ruling }
    });
    let mut all: Vec<Standing<'a>> = all.collect();
    // And no further serious Xid came for a while.
    let serious = |xid: &&Standing<'_>| xid.ruling.disposition >= Disposition::Degraded;
    let serious = all.iter().filter(serious);
    let serious: Vec<Millis> = serious.flat_map(|xid| xid.log.seen.moments()).collect();
    let cleared = (gpu.taken_back.iter().copied())
        .chain(taken_back(context, slot, gpu))
        .filter(|at| driver_reload::was_quiet_after(context, *at, &serious))
        .max();
    // What is over, or did not come often enough, explains no other Xid either.
    all.retain(|xid| {
        cleared.is_none_or(|cleared| xid.log.seen.last > cleared)
            && often_enough(context, xid, cleared)
    });
    let causes: Vec<(Millis, Disposition)> = (all.iter())
        .filter(|xid| !SYMPATHETIC.contains(&xid.code))
        .map(|xid| (xid.log.seen.last, xid.ruling.disposition))
        .collect();
    all.into_iter()
        .filter(|xid| {
            let at = xid.log.seen.last;
            let age = context.now.since(at);
            let in_time = match xid.ruling.disposition {
                Disposition::Fatal => policy.fatal_for.is_none_or(|stands| age <= stands.0),
                Disposition::Degraded | Disposition::Report => age <= policy.degraded_for.0,
                Disposition::App | Disposition::Ignore | Disposition::Clear => false,
            };
            // It follows from another one, that says at least as much.
            let follows = !xid.ruling.overridden
                && SYMPATHETIC.contains(&xid.code)
                && causes.iter().any(|(cause, disposition)| {
                    *disposition >= xid.ruling.disposition && cause.apart(at) <= policy.sympathy.0
                });
            in_time && !follows
        })
        .collect()
}

/// When the driver took its verdict back, or was reloaded, after which a GPU that answers asks for
/// nothing: from a new object of the driver no word of that comes (`gpu.c`, `gpuPostConstruct`). Only a
/// reboot ends that it asked for one.
fn taken_back(context: &Context<'_>, slot: &str, gpu: &GpuLog) -> Option<Millis> {
    let reloaded = driver_reload::of_gpu(context, slot);
    let reloaded = reloaded.filter(|reloaded| gpu.is_ended_by_reload(*reloaded));
    gpu.cleared.max(reloaded)
}

/// The operator's count in a window.
fn often_enough(context: &Context<'_>, xid: &Standing<'_>, cleared: Option<Millis>) -> bool {
    let start = match xid.ruling.within {
        Duration::ZERO => Millis(0),
        within => context.now.minus(within),
    };
    let start = cleared.map_or(start, |cleared| start.max(cleared));
    xid.ruling.count <= 1 || xid.log.seen.since(start) >= u64::from(xid.ruling.count)
}

/// Codes of applications that came on many GPUs at once.
fn storms<'a>(
    context: &Context<'_>,
    standing: impl Iterator<Item = &'a Standing<'a>>,
) -> BTreeSet<u32> {
    let policy = &context.policy.xid;
    let mut last: BTreeMap<u32, Vec<Millis>> = BTreeMap::new();
    for xid in standing.filter(|xid| xid.ruling.class == "app") {
        last.entry(xid.code).or_default().push(xid.log.seen.last);
    }
    last.retain(|_, times| {
        let newest = times.iter().copied().fold(Millis(0), Millis::max);
        times.retain(|at| newest.since(*at) <= policy.storm_within.0);
        times.len() >= policy.storm_gpus.max(2) as usize
    });
    last.into_keys().collect()
}

fn say(
    context: &Context<'_>,
    slot: &str,
    reason: Reason,
    xids: &[&Standing<'_>],
) -> Option<Candidate> {
    let newest = xids.iter().max_by_key(|xid| xid.log.seen.last)?;
    let code = |xid: &&Standing<'_>| format!("Xid {} ({})", xid.code, xid.ruling.meaning);
    let codes: Vec<String> = xids.iter().take(8).map(code).collect();
    let count: u64 = xids.iter().map(|xid| xid.log.seen.count).sum();
    let message = format!("{}: {}", context.gpu_name(subject(slot)), codes.join(", "));
    let mut candidate = (context.candidate(reason, (slot, subject(slot)), message))
        .with("xid", newest.code)
        .with("count", count)
        .with("line", newest.log.seen.text.as_str());
    if reason != "XidStorm" {
        candidate = candidate.fix(newest.ruling.action, newest.ruling.remedy);
    }
    Some(candidate.with("process", newest.log.process.as_deref()))
}

fn subject(slot: &str) -> &str {
    if slot.is_empty() { "unknown" } else { slot }
}

fn recovery_ruling(context: &Context<'_>, action: RecoveryAction) -> Ruling {
    let detail = XidDetail {
        recovery: Some((RecoveryAction::None, action)),
        ..XidDetail::default()
    };
    xid_codes::xid_ruling(RECOVERY_CODE, &detail, &context.policy.xid.overrides)
}

/// What the driver asks for (Xid 154), as long as that stands.
fn asked(context: &Context<'_>, slot: &str, gpu: &GpuLog) -> Option<RecoveryAction> {
    let policy = &context.policy.xid;
    let (action, at) = gpu.recovery?;
    let ended = match action {
        RecoveryAction::None => Some(at),
        _ => taken_back(context, slot, gpu).filter(|ended| *ended >= at),
    };
    // Taken back: what it asked for before stands until the GPU has been quiet for a while.
    let is_over = ended.is_some_and(|ended| context.now.since(ended) >= policy.quiet.0)
        || (policy.fatal_for).is_some_and(|stands| context.now.since(at) > stands.0);
    if is_over {
        return None;
    }
    match action {
        RecoveryAction::None => Some(gpu.xids.get(&RECOVERY_CODE)?.detail.recovery?.0),
        asked => Some(asked),
    }
}

/// The remedy for the recovery action that the driver asks for, so that one GPU is not given several. The
/// IMEX domain is the rack's, and no word on this GPU (`gpu.c`, `_gpuRefreshRecoveryActionInLock`).
fn advice(context: &Context<'_>, slot: &str, gpu: &GpuLog) -> Option<(Action, String)> {
    use RecoveryAction::{Other, RecoverImex};
    let action = asked(context, slot, gpu).filter(|to| !matches!(to, Other(_) | RecoverImex))?;
    let ruling = recovery_ruling(context, action);
    let remedy = format!("Follow the driver's advice (Xid 154): {}", ruling.remedy);
    (ruling.disposition >= Disposition::Degraded).then_some((ruling.action, remedy))
}

/// The finding of the driver's own word.
fn recovery(context: &Context<'_>, slot: &str, gpu: &GpuLog) -> Option<Candidate> {
    let action = asked(context, slot, gpu)?;
    let ruling = recovery_ruling(context, action);
    let status = match ruling.disposition {
        Disposition::Fatal => Status::Failing,
        Disposition::Degraded => Status::Degraded,
        _ => return None,
    };
    let subject = subject(slot);
    let requested = xid_codes::recovery(action).what.as_str();
    let name = context.gpu_name(subject);
    let says = match gpu.recovery {
        Some((RecoveryAction::None, _)) => "no longer asks",
        _ => "asks",
    };
    let message = format!("{name}: the driver {says} for {requested} (Xid 154)");
    let mut candidate = (context.candidate("GpuRecoveryRequired", (slot, subject), message))
        .with("xid", RECOVERY_CODE)
        .with("action", requested);
    candidate.status = status;
    Some(candidate.fix(ruling.action, ruling.remedy))
}

#[cfg(test)]
mod tests;
