//! The follower: polls all logs, and waits in between.

use super::discovery::LogTree;
use super::{Log, LogMarks, Options, PollStats, Sink, Tools, taken};
use crate::units::Millis;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Pause between polls while lines come.
const PAUSE: Duration = Duration::from_millis(70);

/// Longest pause while none come.
const IDLE_PAUSE: Duration = Duration::from_millis(500);

/// Logs by their pod's directory (empty in a flat layout) and their own name in there.
pub(super) type Logs = BTreeMap<LogName, Log>;

/// The two names of a log.
pub(super) type LogName = (Box<str>, Box<str>);

/// Follows all logs below one directory.
pub struct Follower {
    tools: Tools,
    tree: LogTree,
    logs: Logs,
    /// The log that was read last of those that lag behind.
    served: LogName,
}

impl Follower {
    /// Opens nothing yet: that happens at the first poll.
    #[must_use]
    pub fn new(mut options: Options) -> Self {
        let resume = options.resume.take();
        options.buffer = options.buffer.max(options.longest_line + 1);
        Follower {
            tools: Tools {
                now: Millis(0),
                buf: vec![0; options.buffer],
                stats: PollStats::default(),
                open: Arc::default(),
                unpacking: Arc::default(),
                options,
            },
            tree: LogTree::new(resume),
            logs: Logs::new(),
            served: LogName::default(),
        }
    }

    /// Hands over what is new, within the limits; waits for nothing but the disk.
    pub fn poll(&mut self, now: Millis, sink: &mut dyn Sink) -> PollStats {
        self.tools.now = now;
        self.tools.stats = PollStats::default();
        let (logs, tools) = (&mut self.logs, &mut self.tools);
        self.tree.look(logs, tools, sink);
        logs.values_mut().for_each(|log| log.turn(tools, sink));
        self.catch_up(sink);
        self.conclude(sink)
    }

    /// Hands over what is left, a last line without a newline too: the writers have ended.
    pub fn finish(&mut self, sink: &mut dyn Sink) {
        (self.logs.values_mut()).for_each(|log| log.finish(&mut self.tools, sink));
    }

    /// Reads the logs that lag behind, in turn, from where the last poll stopped, up to the limit:
    /// one of them at least.
    fn catch_up(&mut self, sink: &mut dyn Sink) {
        let backlog = self.tools.options.backlog as u64;
        let mut left = backlog.saturating_sub(self.tools.stats.bytes).max(1);
        let behind = self.logs.iter().filter(|(_, log)| log.behind);
        let mut behind: Vec<LogName> = behind.map(|(name, _)| name.clone()).collect();
        let after = behind.partition_point(|name| *name <= self.served);
        behind.rotate_left(after);
        while left > 0 && !behind.is_empty() {
            behind.retain(|name| {
                let Some(log) = self.logs.get_mut(name).filter(|_| left > 0) else {
                    return false;
                };
                let cost = log.advance(self.tools.options.buffer, &mut self.tools, sink);
                left = left.saturating_sub(cost);
                self.served.clone_from(name);
                log.behind
            });
        }
    }

    /// Drops the logs that are finished, and sums up.
    fn conclude(&mut self, sink: &mut dyn Sink) -> PollStats {
        self.logs.retain(|_, log| {
            if log.finished {
                sink.gone(&log.who);
                // Another of its name may be there.
                self.tree.changed = true;
            }
            !log.finished
        });
        let stats = &mut self.tools.stats;
        let count = |what: fn(&Log) -> bool| self.logs.values().filter(|log| what(log)).count();
        stats.behind = count(|log| log.behind);
        stats.unreadable = count(|log| log.faulty);
        stats.containers = self.logs.len();
        stats.open_files = taken(&self.tools.open);
        stats.clone()
    }

    /// Waits for the pause between polls, `most` at the longest.
    pub fn wait(&self, most: Duration) {
        let lines_come = self.logs.values().any(|log| log.lively || log.changed);
        let pause = if lines_come { PAUSE } else { IDLE_PAUSE };
        std::thread::sleep(pause.min(most));
    }

    /// How far everything was read, for the next run's [`Options::resume`].
    #[must_use]
    pub fn state(&self) -> LogMarks {
        let let_go = self.tree.marks.iter().flatten().cloned();
        let logs = self.logs.values().filter_map(Log::mark);
        let logs = logs.chain(let_go).collect();
        LogMarks { logs }
    }
}
