//! The follower: looks, and waits between them.

use super::log::{Log, Tools};
use super::options::{Options, PollStats, Sink};
use super::state::ResumeState;
use super::tree::{Logs, Tree};
use super::watch::{Target, Told, Watches};
use crate::units::Millis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Pause between looks where inotify tells nothing.
const UNTOLD_PAUSE: Duration = Duration::from_millis(500);

/// Where the follower's thread is, for others to see: a read may hang in the kernel.
#[derive(Debug, Default)]
pub struct Progress {
    /// When the look in progress began, one added; 0: none is.
    busy: AtomicU64,
    /// Looks done.
    looks: AtomicU64,
}

impl Progress {
    /// How long the look in progress has taken; none between looks.
    #[must_use]
    pub fn busy_for(&self, now: Millis) -> Option<Duration> {
        let began = self.busy.load(Ordering::Acquire).checked_sub(1)?;
        Some(now.since(Millis(began)))
    }

    /// Looks done.
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Acquire)
    }
}

/// Follows the logs of all pods.
pub struct Follower {
    tools: Tools,
    tree: Tree,
    logs: Logs,
    progress: Arc<Progress>,
    /// The log that lagged behind and was read last.
    served: u64,
}

impl Follower {
    /// Opens nothing yet: that happens at the first look.
    #[must_use]
    pub fn new(mut options: Options) -> Self {
        let resume = options.resume.take();
        options.buffer = options.buffer.max(options.longest_line + 1);
        Follower {
            tools: Tools {
                buf: vec![0; options.buffer],
                watches: Watches::new(options.watch),
                stats: PollStats::default(),
                held: 0,
                unpacking: 0,
                unreadable: 0,
                options,
            },
            tree: Tree::new(resume),
            logs: Logs::new(),
            progress: Arc::default(),
            served: 0,
        }
    }

    /// Where this thread is, for others.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// One look: hands over what is new, within the bounds, and waits for nothing but the disk.
    pub fn poll(&mut self, now: Millis, sink: &mut dyn Sink) -> PollStats {
        let busy = now.0.saturating_add(1);
        self.progress.busy.store(busy, Ordering::Release);
        self.tools.stats = PollStats::default();
        self.take_events();
        let (logs, tools) = (&mut self.logs, &mut self.tools);
        self.tree.look(now, logs, tools, sink);
        for log in logs.values_mut() {
            log.turn(now, tools, sink);
        }
        self.catch_up(now, sink);
        let stats = self.conclude(sink);
        self.progress.busy.store(0, Ordering::Release);
        self.progress.looks.fetch_add(1, Ordering::AcqRel);
        stats
    }

    fn take_events(&mut self) {
        let (logs, tree) = (&mut self.logs, &mut self.tree);
        self.tools.watches.take(|told| match told {
            Told::At(Target::Root) => tree.told = true,
            Told::At(Target::Pod(pod)) => tree.tell(&pod),
            Told::At(Target::Container(serial)) => {
                if let Some(log) = logs.get_mut(&serial) {
                    log.told = true;
                }
            }
            Told::At(Target::File(serial)) => {
                if let Some(log) = logs.get_mut(&serial) {
                    log.file_watch = None;
                    log.wake();
                }
            }
            Told::Everything => {
                tree.tell_all();
                for log in logs.values_mut() {
                    log.told = true;
                    log.wake();
                }
            }
        });
    }

    /// Reads the files that lag behind, in turn, from where the last look stopped: what is left of
    /// the bound, a quarter of it at least.
    fn catch_up(&mut self, now: Millis, sink: &mut dyn Sink) {
        let most = self.tools.options.backlog as u64;
        let mut left = most
            .saturating_sub(self.tools.stats.bytes)
            .max(most / 4)
            .max(1);
        let mut behind: Vec<u64> = (self.logs.iter())
            .filter(|(_, log)| log.behind)
            .map(|(serial, _)| *serial)
            .collect();
        let after = behind.partition_point(|serial| *serial <= self.served);
        behind.rotate_left(after);
        while !behind.is_empty() {
            let mut still = Vec::new();
            for serial in behind {
                let Some(log) = self.logs.get_mut(&serial) else {
                    continue;
                };
                if left == 0 {
                    return;
                }
                let buffer = self.tools.options.buffer;
                let cost = log.look_on(buffer, now, &mut self.tools, sink);
                left = left.saturating_sub(cost);
                self.served = serial;
                if log.behind {
                    still.push(serial);
                }
            }
            behind = still;
        }
    }

    /// Takes leave of what is finished, and sums up.
    fn conclude(&mut self, sink: &mut dyn Sink) -> PollStats {
        let tools = &mut self.tools;
        let (mut lively, mut behind) = (0, 0);
        self.logs.retain(|_, log| {
            lively += usize::from(log.lively);
            behind += usize::from(log.behind);
            if log.finished {
                log.bury(tools);
                sink.gone(&log.who);
            }
            !log.finished
        });
        tools.stats.lively = lively;
        tools.stats.behind = behind;
        tools.stats.containers = self.logs.len();
        tools.stats.open_files = tools.held;
        tools.stats.unreadable = tools.unreadable;
        tools.stats.clone()
    }

    /// Waits until there may be something new, so long at most: while lines come, for the pause
    /// between looks; otherwise until inotify tells of something.
    pub fn wait(&self, most: Duration) {
        let pause = self.tools.options.pause.min(most);
        if self.logs.values().any(|log| log.lively || log.told) {
            return std::thread::sleep(pause);
        }
        let untold = self.logs.values().any(Log::untold);
        let most = if untold { most.min(UNTOLD_PAUSE) } else { most };
        if !self.tools.watches.wait(most) {
            std::thread::sleep(most.min(UNTOLD_PAUSE));
        }
    }

    /// How far everything was read, for the next run's [`Options::resume`].
    #[must_use]
    pub fn state(&self) -> ResumeState {
        let unseen = self.tree.unseen().cloned();
        ResumeState {
            logs: self
                .logs
                .values()
                .filter_map(Log::mark)
                .chain(unseen)
                .collect(),
        }
    }
}
