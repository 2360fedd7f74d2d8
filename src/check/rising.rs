//! Counters that rise faster than a limit allows: rules as rows, and the one function that judges them.

use super::context::span_text;
use super::policy::{Limit, Policy};
use super::{Candidate, Context, PortView, ReasonDoc};
use crate::observe::track::{Increase, Track};
use crate::units::Millis;
use std::time::Duration;

/// One rule: any of the counters rises by more than the limit.
pub(super) struct Rule {
    /// The reason that it gives.
    pub doc: ReasonDoc,
    /// Counters by `hw.NAME`, `dev.NAME` or `NAME` (PMA), statistics of the network device by
    /// `eth.NAME`.
    pub counters: &'static [&'static str],
    /// The setting that limits them.
    pub limit: fn(&Policy) -> Limit,
}

pub(super) const fn rule(
    doc: ReasonDoc,
    counters: &'static [&'static str],
    limit: fn(&Policy) -> Limit,
) -> Rule {
    Rule {
        doc,
        counters,
        limit,
    }
}

/// A counter and by how much it rose.
#[derive(Debug, Clone)]
pub(super) struct Rise {
    /// Without the prefix of its group.
    pub name: String,
    pub by: u64,
    pub over: Duration,
    /// Window that it was counted over.
    within: Duration,
}

/// A port's counters, judged as of their last samples: what was seen stays while the source stalls.
pub(super) struct Counters<'a, 'p> {
    pub context: &'p Context<'a>,
    pub port: &'p PortView<'a>,
    counters: Context<'a>,
    statistics: Context<'a>,
}

impl<'a, 'p> Counters<'a, 'p> {
    pub fn of(context: &'p Context<'a>, port: &'p PortView<'a>) -> Self {
        let netdev = port.port.netdev.as_deref();
        Counters {
            context,
            port,
            counters: context.as_of_counters(port),
            statistics: netdev.map_or_else(|| context.clone(), |name| context.as_of_ethtool(name)),
        }
    }

    /// The counter that rose most within the last `within`, and after `since`.
    pub fn most<S: AsRef<str>>(
        &self,
        names: &[S],
        within: Duration,
        since: Option<Millis>,
    ) -> Option<Rise> {
        let rises = names.iter().filter_map(|name| {
            let name = name.as_ref();
            let (context, track): (&Context<'_>, Option<&Track>) = match name.strip_prefix("eth.") {
                Some(name) => (&self.statistics, self.port.statistic(name)),
                None => (&self.counters, self.port.counter(name)),
            };
            let increase = context.increase_since(track?, within, since)?;
            Some((name, increase))
        });
        let (name, Increase { by, over }) = rises.max_by_key(|(_, increase)| increase.by)?;
        let group = ["hw.", "dev.", "eth."]
            .iter()
            .find_map(|group| name.strip_prefix(group));
        Some(Rise {
            name: group.unwrap_or(name).to_owned(),
            by,
            over,
            within,
        })
    }

    /// The counter that rose most, if that is more than the limit allows.
    pub fn above<S: AsRef<str>>(&self, names: &[S], limit: Limit) -> Option<Rise> {
        let rise = self.most(names, limit.within.0, None)?;
        (rise.by > limit.more_than).then_some(rise)
    }

    /// A rule's counter above its limit.
    pub fn breaks(&self, rule: &Rule) -> Option<Rise> {
        self.above(rule.counters, (rule.limit)(self.context.policy))
    }

    /// By how much a counter or statistic rose within the last `within`; 0 where that is not known.
    pub fn by<S: AsRef<str>>(&self, names: &[S], within: Duration) -> u64 {
        self.most(names, within, None).map_or(0, |rise| rise.by)
    }
}

impl Rise {
    /// `symbol_error rose by 7 within 10 min`.
    pub fn text(&self) -> String {
        format!("{} rose by {} within {}", self.name, self.by, self.span())
    }

    /// The time that it took, at most the window.
    pub fn span(&self) -> String {
        span_text(self.within.min(self.over))
    }

    /// The finding about it on its port; a notice where that is not a rail.
    pub fn candidate(
        &self,
        (context, port): (&Context<'_>, &PortView<'_>),
        doc: &ReasonDoc,
        message: &str,
    ) -> Candidate {
        let message = format!("{}: {message}", port.subject);
        context
            .of_port(doc, port, message)
            .with("counter", self.name.as_str())
            .with("increase", self.by)
    }
}
