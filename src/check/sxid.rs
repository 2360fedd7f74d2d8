//! NVSwitch errors in the kernel log.

use super::{Candidate, Context, driver_reload};
use crate::observe::kernel_log::SwitchError;
use crate::units::Millis;

check!(sxid, run);

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let policy = &context.policy.sxid;
    let mut found = Vec::new();
    let kernel = &context.history.kernel;
    for (slot, codes) in &kernel.switches {
        let fatal = codes.values().filter(|error| error.fatal);
        let fatal: Vec<Millis> = fatal.flat_map(|error| error.seen.moments()).collect();
        let answers = driver_reload::of_switch(context, slot).is_some();
        let is_quiet = |at: &Millis| driver_reload::was_quiet_after(context, *at, &fatal);
        let loads = kernel.driver_loaded.moments().filter(|_| answers);
        let reloaded = loads.filter(is_quiet).max();
        let nonfatal = ("SxidNonfatal", false, Some(policy.nonfatal_for));
        for (reason, fatal, stands_for) in [("SxidFatal", true, policy.fatal_for), nonfatal] {
            let stands = |error: &SwitchError| {
                let last = error.seen.last;
                error.fatal == fatal
                    && (!fatal || reloaded.is_none_or(|at| last > at))
                    && stands_for.is_none_or(|span| context.now.since(last) <= span.0)
            };
            let errors = codes.iter().filter(|(_, error)| stands(error));
            let Some((code, newest)) = errors.clone().max_by_key(|(_, error)| error.seen.last)
            else {
                continue;
            };
            let subject = if slot.is_empty() { "unknown" } else { slot };
            let count = errors.count();
            let message = format!("NVSwitch {subject}: SXid {code}, {count} codes in all");
            let said = context.candidate(reason, (slot.as_str(), subject), message);
            let said = said.with("sxid", *code).with("count", newest.seen.count);
            found.push(said.with("line", newest.seen.text.as_str()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::Node;
    use super::*;
    use crate::observe::{KernelEvent, KernelEventKind, Severity, Sxid};

    fn push(node: &mut Node, code: u32, severity: Option<Severity>) {
        let what = KernelEventKind::Sxid(Sxid { code, severity });
        let event = KernelEvent::new(what, "nvidia-nvswitch3: SXid …");
        let event = event.of_slot(Some("0000:05:00".into()));
        node.history.push_event(node.now, false, &event);
    }

    #[test]
    fn by_its_own_word() {
        let mut node = Node::infiniband();
        push(&mut node, 12028, Some(Severity::Nonfatal));
        push(&mut node, 20034, None);
        assert_eq!(
            node.told(&CHECK),
            ["0000:05:00 SxidNonfatal Degraded Notice"]
        );
        node.tick(3601);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        push(&mut node, 20034, Some(Severity::Fatal));
        // What a fatal report says afterwards does not make it less so.
        push(&mut node, 20034, Some(Severity::Nonfatal));
        node.tick(24 * 3600);
        let fatal = ["0000:05:00 SxidFatal Failing Verdict"];
        assert_eq!(node.told(&CHECK), fatal);
        // A reloaded driver ends it, once it has been quiet.
        let loaded = KernelEvent::new(KernelEventKind::DriverLoaded, "NVRM: loading …");
        node.history.push_event(node.now, false, &loaded);
        node.tick(59);
        assert_eq!(node.told(&CHECK), fatal);
        node.tick(1);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        push(&mut node, 20034, Some(Severity::Fatal));
        assert_eq!(node.told(&CHECK), fatal);
    }
}
