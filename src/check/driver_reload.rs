//! Whether NVIDIA's driver was reloaded and its devices answer: all that a reset leaves behind.

use super::Context;
use crate::observe::Reading;
use crate::units::Millis;

/// When the driver was last loaded, if the GPU in `slot` answers on the bus since, and the driver
/// lists it; as last read, so that what was ended does not come back because the
/// bus cannot be read for a while. None of a slot that is not known.
pub(super) fn of_gpu(context: &Context<'_>, slot: &str) -> Option<Millis> {
    let loaded = loaded(context).filter(|_| !slot.is_empty())?;
    let answers = match &context.snapshot.pci {
        None => not_yet_read(context, "pci"),
        Some(pci) => {
            let gpu = pci.value.gpus.iter().find(|gpu| gpu.slot() == slot);
            gpu.is_some_and(|gpu| pci.value.answers(gpu))
        }
    };
    let listed = match &context.snapshot.gpudirect {
        None => not_yet_read(context, "gpudirect"),
        Some(facts) => facts.value.may_have(slot),
    };
    (answers && listed).then_some(loaded)
}

/// The same of a switch: every GPU must answer, since they are what it joins, and the switch
/// itself where the bus was asked.
pub(super) fn of_switch(context: &Context<'_>, slot: &str) -> Option<Millis> {
    let loaded = loaded(context)?;
    let Some(pci) = &context.snapshot.pci else {
        return not_yet_read(context, "pci").then_some(loaded);
    };
    let pci = &pci.value;
    let dead = pci.functions.iter().any(|(address, function)| {
        !slot.is_empty()
            && address.starts_with(slot)
            && function.config_dead == Reading::Value(true)
    });
    let all = !pci.gpus.is_empty() && pci.gpus.iter().all(|gpu| pci.answers(gpu));
    (all && !dead).then_some(loaded)
}

/// Nothing was read yet and nothing hinders it: while the agent starts, what an earlier run saw
/// ended is not taken up again.
fn not_yet_read(context: &Context<'_>, source: &str) -> bool {
    (context.snapshot.health(source, "")).is_none_or(|health| !health.fails())
}

/// When the driver was last loaded.
pub(super) fn loaded(context: &Context<'_>) -> Option<Millis> {
    let loaded = &context.history.kernel.driver_loaded;
    (loaded.count > 0).then_some(loaded.last)
}

/// Whether nothing serious came for `quiet` after some moment: what was over then stays so, whatever comes later.
pub(super) fn was_quiet_after(context: &Context<'_>, from: Millis, serious: &[Millis]) -> bool {
    let quiet = context.policy.xid.quiet.0;
    let mut serious: Vec<Millis> = serious.iter().copied().filter(|at| *at > from).collect();
    serious.sort();
    serious.push(context.now);
    let mut pairs = std::iter::once(&from).chain(&serious).zip(&serious);
    pairs.any(|(before, after)| after.since(*before) >= quiet)
}
