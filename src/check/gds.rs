//! GPUDirect Storage: whether nvidia-fs is loaded where something on the node expects it.

use super::{Candidate, Context, Reason, Weight};
use crate::observe::Reading;
use crate::units::span_text;

check!(gds, run);

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let expected = context.policy.expect.gds;
    let policy = &context.policy.gds;
    let mut found = Vec::new();
    let say = |reason: Reason, key: &str, message: String| {
        context.candidate(reason, (key, "nvidia_fs"), message)
    };
    if expected {
        let facts = context.gpudirect();
        let modules = facts.and_then(|facts| facts.modules.value());
        let listed = modules.map(|all| all.contains_key("nvidia_fs"));
        let missing = ("GdsMissing", "nvidia-fs is expected, but not loaded");
        let unread = "whether nvidia-fs is loaded cannot be read";
        let said = match (listed, facts.map(|facts| &facts.nvidia_fs)) {
            (Some(true), _) | (_, Some(Reading::Value(_))) => None,
            (Some(false), _) | (None, Some(Reading::Absent)) => Some(missing),
            _ => Some(("GdsUnreadable", unread)),
        };
        found.extend(said.map(|(reason, message)| say(reason, "module", message.into())));
    }
    let counts = context.history.other.iter().filter_map(|(name, track)| {
        let name = name.strip_prefix("nvidia_fs ")?;
        Some((name, context.above(Some(track), policy.errors)?.by))
    });
    let rising: Vec<(&str, u64)> = counts.collect();
    if let Some((worst, by)) = rising.iter().max_by_key(|(_, by)| *by) {
        let span = span_text(policy.errors.within.0);
        let count = rising.len();
        let message =
            format!("nvidia-fs: {worst} rose by {by} within {span}, {count} error counts in all");
        let errors = say("GdsErrors", "errors", message).weighing(Weight::counting_if(expected));
        found.push(errors.with("counter", *worst).with("increase", *by));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::Node;
    use super::*;
    use crate::observe::{Module, NvidiaFs};

    fn with_errors(node: &mut Node, errors: u64) {
        node.bend_gpudirect(|facts| {
            facts.nvidia_fs = Reading::Value(NvidiaFs {
                errors: [("Reads/err".to_string(), errors)].into(),
                ..NvidiaFs::default()
            });
        });
    }

    #[test]
    fn only_where_expected() {
        let mut node = Node::infiniband();
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        node.policy.expect.gds = true;
        assert_eq!(node.told(&CHECK), ["nvidia_fs GdsMissing Degraded Verdict"]);
        node.bend_gpudirect(|facts| {
            facts.modules = Reading::Value([("nvidia_fs".to_string(), Module::default())].into());
        });
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        node.snapshot.gpudirect = None;
        assert_eq!(
            node.told(&CHECK),
            ["nvidia_fs GdsUnreadable Unknown Verdict"]
        );
    }

    #[test]
    fn errors_that_rise() {
        let mut node = Node::infiniband();
        with_errors(&mut node, 50);
        node.tick(10);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        with_errors(&mut node, 51);
        node.tick(0);
        assert_eq!(node.told(&CHECK), ["nvidia_fs GdsErrors Degraded Notice"]);
        node.policy.expect.gds = true;
        assert_eq!(node.told(&CHECK), ["nvidia_fs GdsErrors Degraded Verdict"]);
    }
}
