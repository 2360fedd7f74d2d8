//! Whether NVIDIA's driver was loaded anew and its devices answer: what a reset under drivers that
//! tell none (before 565, without Xid 154) leaves behind.

use super::Context;
use crate::observe::reading::Reading;
use crate::units::{Bdf, Millis};

/// When the driver was last loaded, if the GPU in `slot` answers on the bus since, and the driver
/// lists it where it lists any. None of a slot that is not known.
pub(super) fn of_gpu(context: &Context<'_>, slot: &str) -> Option<Millis> {
    let loaded = loaded(context)?;
    let gpus = &context.pci()?.gpus;
    let gpu = gpus.iter().find(|gpu| is_in(gpu, slot))?;
    let listed = &context.gpudirect()?.gpus;
    let known = listed.is_empty()
        || listed
            .iter()
            .any(|listed| listed.pci.parse::<Bdf>().is_ok_and(|pci| is_in(&pci, slot)));
    (known && answers(context, gpu)).then_some(loaded)
}

/// The same of a switch: every GPU must answer, since they are what it joins, and the switch
/// itself where the bus was asked.
pub(super) fn of_switch(context: &Context<'_>, slot: &str) -> Option<Millis> {
    let loaded = loaded(context)?;
    let pci = context.pci()?;
    let dead = pci.functions.iter().any(|(address, function)| {
        address.starts_with(slot) && function.config_dead == Reading::Value(true)
    });
    let all = !pci.gpus.is_empty() && pci.gpus.iter().all(|gpu| answers(context, gpu));
    (all && !dead).then_some(loaded)
}

fn loaded(context: &Context<'_>) -> Option<Millis> {
    let loaded = &context.history.kernel.driver_loaded;
    (loaded.count > 0).then_some(loaded.last)
}

fn is_in(address: &Bdf, slot: &str) -> bool {
    let rest = address.to_string();
    !slot.is_empty()
        && rest
            .strip_prefix(slot)
            .is_some_and(|rest| rest.starts_with('.'))
}

fn answers(context: &Context<'_>, gpu: &Bdf) -> bool {
    let function = context
        .pci()
        .and_then(|pci| pci.functions.get(&gpu.to_string()));
    function.is_some_and(|function| function.config_dead == Reading::Value(false))
}
