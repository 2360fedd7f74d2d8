//! Counters that rise faster than a limit allows: how they are judged.

use super::policy::Limit;
use super::{Candidate, Context, PortView, Reason};
use crate::data_files::embedded;
use crate::observe::track::{Increase, Track, Window};
use crate::units::{Millis, span_text};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

/// Counters by the reason, or whatever else they tell of: `counters.toml`.
pub(super) fn counters_of(what: &str) -> &'static [&'static str] {
    static ALL: LazyLock<BTreeMap<&str, Vec<&str>>> =
        LazyLock::new(|| embedded(include_str!("counters.toml")));
    ALL.get(what).map_or(&[], Vec::as_slice)
}

/// Links make errors before their fall is seen; counters are read less often than links.
const BEFORE_EDGE: Duration = Duration::from_secs(15);

/// How long a finding by counters stands that cannot be read, where it passes by its nature.
const FOR_AN_HOUR: Duration = Duration::from_secs(3600);

/// A counter and by how much it rose.
#[derive(Debug, Clone)]
pub(super) struct Rise<'n> {
    /// Without the prefix of its group.
    pub name: &'n str,
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
    /// Moments of the last samples of counters and of statistics.
    read_at: (Option<Millis>, Option<Millis>),
    /// Some are at their end, or were not in the last sample.
    some_blind: bool,
}

impl<'a, 'p> Counters<'a, 'p> {
    pub fn of(context: &'p Context<'a>, port: &'p PortView<'a>) -> Self {
        let netdev = port.port.netdev.as_deref();
        let snapshot = context.snapshot;
        let counters = snapshot.counters.get(&port.key).map(|sample| sample.at);
        let statistics = netdev.and_then(|name| Some(snapshot.ethtool.get(name)?.at));
        let is_blind = |track: &Track, read_at| track.saturated() || track.last_at() < read_at;
        let tracks = port.history.map(|history| &history.counters);
        let groups = tracks.map(|of| [&of.pma, &of.hw, &of.device_hw]);
        let mut tracks = groups.into_iter().flatten().flat_map(BTreeMap::values);
        // Read with the interface, not with its statistics.
        let of_netdev = port.statistics.into_iter().flatten();
        let mut of_netdev = of_netdev.filter(|(name, _)| *name != "carrier_changes");
        Counters {
            context,
            port,
            read_at: (counters, statistics),
            some_blind: tracks.any(|track| is_blind(track, counters))
                || of_netdev.any(|(_, track)| is_blind(track, statistics)),
            counters: context.as_of_counters(port),
            statistics: netdev.map_or_else(|| context.clone(), |name| context.as_of_ethtool(name)),
        }
    }

    /// A counter or statistic, and the context to judge it in.
    pub fn track(&self, name: &str) -> (&Context<'a>, Option<&'a Track>) {
        match name.strip_prefix("eth.") {
            Some(name) => (&self.statistics, self.port.statistic(name)),
            None => (&self.counters, self.port.counter(name)),
        }
    }

    /// The counter that rose most within the last `within`, but for what it counted around an edge of the
    /// link and until it had `settled`.
    pub fn most<'n, S: AsRef<str>>(
        &self,
        names: &'n [S],
        within: Duration,
        settled: Option<Duration>,
    ) -> Option<Rise<'n>> {
        let edges = || self.port.history.into_iter().flat_map(|of| &of.edges);
        let is_apart = |from: Millis, at: Millis, settled: Duration| {
            let is_behind = |edge: Millis| from >= edge && at > edge.plus(settled);
            edges().all(|(edge, _)| at.plus(BEFORE_EDGE) < *edge || is_behind(*edge))
        };
        let rises = names.iter().filter_map(|name| {
            let name = name.as_ref();
            let (context, track) = self.track(name);
            let window = Window::last(within, context.now);
            let counts = |from, at| settled.is_none_or(|settled| is_apart(from, at, settled));
            Some((name, track?.increase_of(window, counts)?))
        });
        let (name, Increase { by, over }) = rises.max_by_key(|(_, increase)| increase.by)?;
        let group = ["hw.", "dev.", "eth."]
            .iter()
            .find_map(|group| name.strip_prefix(group));
        Some(Rise {
            name: group.unwrap_or(name),
            by,
            over,
            within,
        })
    }

    /// The counter that rose most, if that is more than the limit allows.
    pub fn above<'n, S: AsRef<str>>(&self, names: &'n [S], limit: Limit) -> Option<Rise<'n>> {
        let rise = self.most(names, limit.within.0, None)?;
        (rise.by > limit.more_than).then_some(rise)
    }

    /// The finding, if one of the reason's own counters rose by more than the limit; one that stands goes on
    /// where they no longer tell.
    pub fn judge(&self, reason: Reason, limit: Limit) -> Option<Candidate> {
        let names = counters_of(reason);
        let Some(rise) = self.above(names, limit) else {
            return self.unseen(reason, names, limit);
        };
        Some(self.candidate(reason, &rise, &rise.text()))
    }

    /// What a counter told and cannot be read any more may go on, for an hour.
    pub fn unseen<S: AsRef<str>>(
        &self,
        reason: Reason,
        names: &[S],
        limit: Limit,
    ) -> Option<Candidate> {
        let now = self.context.now;
        self.unseen_where(reason, names, |track, read_at| {
            let is_recent = |at| now.since(at) <= FOR_AN_HOUR;
            track.last_at().is_some_and(is_recent) && told(track, read_at, limit)
        })
    }

    /// The same without an end, also where a counter is full.
    pub fn unseen_for_good(
        &self,
        reason: Reason,
        names: &[&str],
        limit: Limit,
    ) -> Option<Candidate> {
        self.unseen_where(reason, names, |track, read_at| {
            track.saturated() || told(track, read_at, limit)
        })
    }

    fn unseen_where<S: AsRef<str>>(
        &self,
        reason: Reason,
        names: &[S],
        goes_on: impl Fn(&Track, Option<Millis>) -> bool,
    ) -> Option<Candidate> {
        if !self.some_blind {
            return None;
        }
        let is_stuck = |name: &S| {
            let read_at = match name.as_ref().starts_with("eth.") {
                true => self.read_at.1,
                false => self.read_at.0,
            };
            let track = self.track(name.as_ref()).1;
            track.is_some_and(|track| goes_on(track, read_at))
        };
        let key = || self.port.key.to_string();
        (names.iter().any(is_stuck)).then(|| self.context.unseen(reason, key()))
    }

    /// By how much a counter or statistic rose within the last `within`; 0 where that is not known.
    pub fn by<S: AsRef<str>>(&self, names: &[S], within: Duration) -> u64 {
        self.most(names, within, None).map_or(0, |rise| rise.by)
    }

    /// The finding about a counter that rose; a notice where the port is not a rail.
    pub fn candidate(&self, reason: Reason, rise: &Rise<'_>, message: &str) -> Candidate {
        let message = format!("{}: {message}", self.port.subject);
        (self.context.of_port(reason, self.port, message))
            .with("counter", rise.name)
            .with("increase", rise.by)
    }
}

/// Whether a counter that was not in the last sample had risen by more than the limit in the one before.
fn told(track: &Track, read_at: Option<Millis>, limit: Limit) -> bool {
    let rise = track.last_at().filter(|at| Some(*at) < read_at);
    let rise = rise.and_then(|at| track.increase(Window::last(limit.within.0, at)));
    rise.is_some_and(|rise| rise.by > limit.more_than)
}

impl Rise<'_> {
    /// `symbol_error rose by 7 within 10 min`.
    pub fn text(&self) -> String {
        format!("{} rose by {} within {}", self.name, self.by, self.span())
    }

    /// The time that it took, at most the window.
    pub fn span(&self) -> String {
        span_text(self.within.min(self.over))
    }
}

#[cfg(test)]
mod tests {
    use super::counters_of;
    use crate::observe::counters::is_volume;

    #[test]
    fn every_reason_and_use_has_its_counters() {
        let keys = "SymbolErrors LinkRecoveries ReceiveErrors LinkIntegrityErrors BufferOverruns ChecksumErrors \
            ConstraintErrors AdminCommandsLost PacketLoss packets_sent OutOfOrder AckTimeouts RetriesExceeded \
            EfaRetransmissions EfaRemoteImpaired EfaReceiveDrops port_drops roce_drops CongestionNotifications \
            CongestionNotificationsIgnored";
        let names = include_str!("../source/ethtool/names.txt");
        for key in keys.split_whitespace() {
            assert!(!counters_of(key).is_empty(), "{key}");
            // A sample of volumes alone is not judged.
            let judged = counters_of(key).iter().filter(|_| key != "packets_sent");
            let judged = judged.map(|name| name.rsplit('.').next().unwrap_or(name));
            assert_eq!(judged.filter(|name| is_volume(name)).count(), 0, "{key}");
            let mut statistics = counters_of(key)
                .iter()
                .filter_map(|name| name.strip_prefix("eth."));
            let read = |name| {
                names
                    .lines()
                    .any(|line| line.split_whitespace().last() == Some(name))
            };
            assert!(statistics.all(read), "{key}: not read");
        }
    }
}
