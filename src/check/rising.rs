//! Counters that rise faster than a limit allows: how they are judged.

use super::{Candidate, Context, PortView, Reason, policy::Limit};
use crate::data_files::embedded;
use crate::observe::{Increase, Track, Window};
use crate::units::{Millis, span_text};
use std::{collections::BTreeMap, sync::LazyLock, time::Duration};

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
pub(super) struct PortRises<'a, 'p> {
    pub context: &'p Context<'a>,
    pub port: &'p PortView<'a>,
    /// Of counters, and of statistics: when they were last sampled, and the moment to judge them by.
    counters: (Option<Millis>, Millis),
    statistics: (Option<Millis>, Millis),
    /// Some are at their end, or were not in the last sample.
    some_blind: bool,
}

impl<'a, 'p> PortRises<'a, 'p> {
    pub fn of(context: &'p Context<'a>, port: &'p PortView<'a>) -> Self {
        let netdev = port.port.netdev.as_deref().unwrap_or_default();
        let snapshot = context.snapshot;
        let counters = snapshot.counters.get(&port.key).map(|sample| sample.at);
        let statistics = snapshot.ethtool.get(netdev).map(|sample| sample.at);
        let is_blind = |track: &Track, read_at| track.saturated() || track.last_at() < read_at;
        let tracks = port.history.map(|history| &history.counters);
        let groups = tracks.map(|of| [&of.pma, &of.hw, &of.device_hw]);
        let mut tracks = groups.into_iter().flatten().flat_map(BTreeMap::values);
        // Read with the interface, not with its statistics.
        let of_netdev = port.statistics.into_iter().flatten();
        let mut of_netdev = of_netdev.filter(|(name, _)| *name != "carrier_changes");
        let judged_at = context.as_of(counters, "counters", &port.key.device.0);
        PortRises {
            context,
            port,
            some_blind: tracks.any(|track| is_blind(track, counters))
                || of_netdev.any(|(_, track)| is_blind(track, statistics)),
            counters: (counters, judged_at),
            statistics: (statistics, context.as_of(statistics, "ethtool", netdev)),
        }
    }

    /// A counter or statistic, when its group was last sampled, and the moment to judge it by.
    fn track(&self, name: &str) -> (Option<&'a Track>, (Option<Millis>, Millis)) {
        match name.strip_prefix("eth.") {
            Some(name) => (self.port.statistic(name), self.statistics),
            None => (self.port.counter(name), self.counters),
        }
    }

    /// The counter that rose most within the last `within`, but for what it counted around an edge of the
    /// link and until it had `settled`.
    pub fn most<'n>(
        &self,
        names: &[&'n str],
        within: Duration,
        settled: Option<Duration>,
    ) -> Option<Rise<'n>> {
        let edges = || self.port.history.into_iter().flat_map(|of| &of.edges);
        let is_apart = |from: Millis, at: Millis, settled: Duration| {
            let is_behind = |edge: Millis| from >= edge && at > edge.plus(settled);
            edges().all(|(edge, _)| at.plus(BEFORE_EDGE) < *edge || is_behind(*edge))
        };
        let rises = names.iter().filter_map(|name| {
            let (track, (_, now)) = self.track(name);
            let window = Window::last(within, now);
            let counts = |from, at| settled.is_none_or(|settled| is_apart(from, at, settled));
            Some((name, track?.increase_of(window, counts)?))
        });
        let (name, Increase { by, over }) = rises.max_by_key(|(_, increase)| increase.by)?;
        Some(Rise {
            name: name.split_once('.').map_or(name, |(_, bare)| bare),
            by,
            over,
            within,
        })
    }

    /// The counter that rose most, if that is more than the limit allows.
    pub fn above<'n>(&self, names: &[&'n str], limit: Limit) -> Option<Rise<'n>> {
        let rise = self.most(names, limit.within.0, None)?;
        (rise.by > limit.more_than).then_some(rise)
    }

    /// The finding that `say` makes of the counter that rose most, if that is more than the limit allows; one
    /// that stands goes on for an hour where they no longer tell.
    pub fn judge(
        &self,
        reason: Reason,
        names: &[&str],
        limit: Limit,
        say: impl Fn(&Rise<'_>) -> Candidate,
    ) -> Option<Candidate> {
        let rise = self.above(names, limit);
        let unseen = || self.unseen(reason, names, limit, false);
        rise.map(|rise| say(&rise)).or_else(unseen)
    }

    /// What a counter told and cannot be read any more may go on: for an hour, or `for_good`, and then also
    /// where a counter is full.
    pub fn unseen(
        &self,
        reason: Reason,
        names: &[&str],
        limit: Limit,
        for_good: bool,
    ) -> Option<Candidate> {
        let is_stuck = |name: &&str| {
            let (Some(track), (sampled, _)) = self.track(name) else {
                return false;
            };
            let is_recent = |at| self.context.now.since(at) <= FOR_AN_HOUR;
            let goes_on = for_good || track.last_at().is_some_and(is_recent);
            (for_good && track.saturated()) || (goes_on && told(track, sampled, limit))
        };
        let stuck = self.some_blind && names.iter().any(is_stuck);
        stuck.then(|| self.context.unseen(reason, self.port.key.to_string()))
    }

    /// By how much a counter or statistic rose within the last `within`; 0 where that is not known.
    pub fn by(&self, names: &[&str], within: Duration) -> u64 {
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
