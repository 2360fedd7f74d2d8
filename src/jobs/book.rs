//! What is known of each container whose log holds NCCL's lines: bounded, and without I/O.

mod kinds;

use kinds::Announced;
pub use kinds::{Change, Pod, SavedVerdict};

use super::word::sidecar_verdict;
use crate::check::nccl::{Fallback, JobContext, NcclVerdict, judge};
use crate::check::nccl_jobs::{ContainerVerdict, Outcomes, Via};
use crate::observe::nccl::NcclLog;
use crate::observe::nccl::log::Limits;
use crate::observe::pod::{ContainerKey, PodFacts};
use crate::source::nccl::Reader;
use crate::source::nccl::anchor::{self, VERDICT_SCHEMA};
use crate::source::pod_logs::{Container, Sink};
use crate::units::Millis;
use memchr::memmem;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long facts about a pod are waited for before its log alone is judged. They come within a
/// second; without them what was asked for looks like a fallback.
const PATIENCE: Duration = Duration::from_secs(10);

/// Containers of one pod: what it prints costs no other pod its place.
const POD_CONTAINERS: usize = 16;

/// One container.
struct Entry {
    restart: u32,
    reader: Reader,
    log: NcclLog,
    /// Its pod has ended.
    finished: bool,
    /// What a sidecar in this container last said.
    told: Option<NcclVerdict>,
    /// What an earlier run of the agent knew.
    remembered: Option<Arc<NcclVerdict>>,
    current: Option<Arc<ContainerVerdict>>,
    /// What was last told of it, in knowledge of all that can be known.
    announced: Option<Announced>,
    /// A line came since it was judged.
    dirty: bool,
    began: Millis,
    last_line: Millis,
}

/// All containers.
pub struct Book {
    most: usize,
    entries: BTreeMap<ContainerKey, Entry>,
    /// Verdicts of an earlier run, until their container is seen.
    saved: BTreeMap<ContainerKey, SavedVerdict>,
    /// How the last jobs ended up.
    pub outcomes: Outcomes,
    /// Lines that were too long, or no verdict of a sidecar's though they looked so.
    pub dropped: u64,
    /// Bytes gone before they were read.
    pub lost: u64,
    now: Millis,
    wall: Option<jiff::Timestamp>,
    changed: bool,
}

impl Book {
    /// An empty book for so many containers at most.
    pub fn new(most: usize) -> Self {
        Book {
            most: most.max(1),
            entries: BTreeMap::new(),
            saved: BTreeMap::new(),
            outcomes: Outcomes::default(),
            dropped: 0,
            lost: 0,
            now: Millis(0),
            wall: None,
            changed: false,
        }
    }

    /// Takes back what an earlier run knew.
    pub fn restore(&mut self, verdicts: Vec<SavedVerdict>, outcomes: Outcomes) {
        self.outcomes = outcomes.bounded();
        let verdicts = verdicts.into_iter().take(self.most);
        self.saved = verdicts.map(|saved| (saved.key.clone(), saved)).collect();
        for (key, saved) in &self.saved {
            let mut entry = Entry::new(saved.restart, self.now);
            entry.announced = Some(Announced::of(&saved.verdict));
            entry.remembered = Some(Arc::new(saved.verdict.clone()));
            entry.dirty = true;
            self.entries.insert(key.clone(), entry);
        }
    }

    /// What to keep.
    pub fn save(&self) -> Vec<SavedVerdict> {
        let told = |entry: &Entry| entry.announced.is_some();
        let kept = self.entries.iter().filter(|(_, entry)| told(entry));
        let kept = kept.filter_map(|(key, entry)| {
            Some(SavedVerdict {
                key: key.clone(),
                restart: entry.restart,
                verdict: NcclVerdict::clone(entry.known()?),
            })
        });
        kept.collect()
    }

    /// Sets the time that lines are taken in at.
    pub fn at(&mut self, now: Millis, wall: Option<jiff::Timestamp>) {
        self.now = now;
        self.wall = wall;
    }

    /// Verdicts, worst first.
    pub fn verdicts(&self) -> Vec<Arc<ContainerVerdict>> {
        let mut verdicts: Vec<_> = self
            .entries
            .values()
            .filter(|entry| !entry.finished)
            .filter_map(|entry| entry.current.clone())
            .collect();
        let rank = |fallback| match fallback {
            Fallback::Yes => 0,
            Fallback::Unknown => 1,
            Fallback::Configured => 2,
            Fallback::No => 3,
        };
        verdicts.sort_by_key(|container| {
            let hangs = container.verdict.init_hangs_since.is_some();
            (rank(container.verdict.tcp_fallback), !hangs)
        });
        verdicts
    }

    /// Judges what changed, and with `all` everything anew: time passes, and facts about pods come
    /// after the lines. True if any verdict, or the set of them, is another one.
    pub fn judge<'a>(
        &mut self,
        all: bool,
        hang_after: Duration,
        node_gpus: Option<u32>,
        pod: impl Fn(&ContainerKey) -> Pod<'a>,
        mut tell: impl FnMut(Change),
    ) -> bool {
        let mut changed = std::mem::take(&mut self.changed);
        for (key, entry) in &mut self.entries {
            if !(all || entry.dirty) {
                continue;
            }
            // Somebody speaks of NCCL; this agent's own log does.
            if !entry.speaks() {
                entry.dirty = false;
                continue;
            }
            let pod = pod(key);
            let young = self.now.since(entry.began) < PATIENCE;
            let waits = match pod {
                Pod::Known(_) | Pod::Untold => false,
                Pod::Awaited => young,
                // A log may be faster than the watch.
                Pod::Gone => young && entry.announced.is_none(),
            };
            if waits {
                entry.dirty = true;
                continue;
            }
            entry.dirty = false;
            let (facts, finished) = match pod {
                Pod::Known(facts) => (Some(facts), facts.finished),
                Pod::Gone => (None, true),
                Pod::Awaited | Pod::Untold => (None, false),
            };
            // What may look otherwise in knowledge of its pod is shown, and told to nobody.
            let firm = matches!(pod, Pod::Known(_) | Pod::Untold);
            changed |= finished != entry.finished;
            entry.finished = finished;
            let beside = JobContext {
                pod: facts,
                container: facts.and_then(|pod| pod.containers.get(&key.container)),
                node_gpus,
                now: self
                    .wall
                    .filter(|_| !finished)
                    .map(|wall| (wall, hang_after)),
            };
            let (verdict, via) = entry.verdict(&beside);
            let job = facts.and_then(|pod| pod.job.clone());
            let before = entry.current.as_ref();
            let same = before.is_some_and(|before| {
                *before.verdict == *verdict && before.via == via && before.job == job
            });
            if !same {
                let since = before
                    .filter(|before| before.verdict.tcp_fallback == verdict.tcp_fallback)
                    .map_or(self.now, |before| before.since);
                changed = true;
                entry.current = Some(Arc::new(ContainerVerdict {
                    key: served(key, via, facts),
                    job,
                    since,
                    via,
                    verdict,
                }));
            }
            let Some(now) = entry.current.as_ref().filter(|_| firm) else {
                continue;
            };
            if !same || entry.announced.is_none() {
                self.outcomes.note(&job_name(now), &now.verdict);
            }
            let announced = Announced::of(&now.verdict);
            let was = entry.announced.replace(announced);
            let fallback = match (was.map(|was| was.fallback), announced.fallback) {
                (Some(Fallback::Yes), Fallback::Yes) => None,
                (_, Fallback::Yes) => Some(true),
                (Some(Fallback::Yes), Fallback::No) => Some(false),
                _ => None,
            };
            let hangs = announced.hangs && !was.is_some_and(|was| was.hangs);
            if fallback.is_some() || hangs {
                tell(Change {
                    now: Arc::clone(now),
                    fallback,
                    hangs,
                });
            }
        }
        changed
    }

    /// Takes in what a sidecar says of a container of its pod.
    fn told(&mut self, sidecar: &Container, line: &[u8]) {
        let Some((name, verdict)) = sidecar_verdict(line, self.wall) else {
            self.dropped += 1;
            return;
        };
        let mut key = sidecar.key.clone();
        if let Some(name) = name {
            key.container = name;
        }
        if !self.entries.contains_key(&key) {
            self.make_room(&key.uid);
            let entry = Entry::new(sidecar.restart, self.now);
            self.entries.insert(key.clone(), entry);
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.told = Some(verdict);
            entry.last_line = self.now;
            entry.dirty = true;
        }
    }

    /// Makes room for one more container of a pod: at its own expense where it has many.
    fn make_room(&mut self, uid: &str) {
        let own = self.entries.keys().filter(|key| key.uid == uid).count();
        if self.entries.len() < self.most && own < POD_CONTAINERS {
            return;
        }
        let silent = self
            .entries
            .iter()
            .filter(|(key, _)| own < POD_CONTAINERS || key.uid == uid)
            .min_by_key(|(_, entry)| entry.last_line);
        if let Some(key) = silent.map(|(key, _)| key.clone()) {
            self.entries.remove(&key);
            self.changed = true;
        }
    }
}

/// Whom a verdict is about: of a sidecar that was not told whom it serves, the one other container
/// that has GPUs.
fn served(key: &ContainerKey, via: Via, facts: Option<&PodFacts>) -> ContainerKey {
    let mut key = key.clone();
    let own = |pod: &&PodFacts| {
        let own = pod.containers.get(&key.container);
        via == Via::Sidecar && own.is_some_and(|own| own.gpus == 0)
    };
    if let Some(pod) = facts.filter(own) {
        let mut with = pod.containers.iter().filter(|(_, other)| other.gpus > 0);
        if let (Some((name, _)), None) = (with.next(), with.next()) {
            key.container.clone_from(name);
        }
    }
    key
}

/// What tells jobs apart: the job, else the pod.
fn job_name(container: &ContainerVerdict) -> String {
    let key = &container.key;
    match &container.job {
        Some(job) => format!("{}/{}/{}", key.namespace, job.kind, job.name),
        None => format!("{}/{}", key.namespace, key.uid),
    }
}

impl Entry {
    fn new(restart: u32, now: Millis) -> Self {
        Entry {
            restart,
            reader: Reader::default(),
            log: NcclLog::new(Limits::CONTAINER),
            finished: false,
            told: None,
            remembered: None,
            current: None,
            announced: None,
            dirty: true,
            began: now,
            last_line: now,
        }
    }

    /// NCCL itself has spoken, or a sidecar, now or in an earlier run.
    fn speaks(&self) -> bool {
        self.log.is_nccl() || self.told.is_some() || self.known().is_some()
    }

    /// What is known now, or was before a restart.
    fn known(&self) -> Option<&NcclVerdict> {
        let current = self.current.as_ref().map(|current| &*current.verdict);
        current.or(self.remembered.as_deref())
    }

    /// What it comes to: by its own lines, a sidecar's word, or what was known before.
    fn verdict(&self, beside: &JobContext<'_>) -> (Arc<NcclVerdict>, Via) {
        if let Some(told) = &self.told {
            return (Arc::new(told.clone()), Via::Sidecar);
        }
        let own = judge(&self.log, beside);
        let says = own.tcp_fallback != Fallback::Unknown || own.init_hangs_since.is_some();
        match &self.remembered {
            Some(remembered) if !says => (Arc::clone(remembered), Via::Remembered),
            _ => (Arc::new(own), Via::Log),
        }
    }
}

impl Sink for Book {
    fn wants(&self, chunk: &[u8], from: usize) -> Option<usize> {
        anchor::find(chunk, from)
    }

    fn line(&mut self, container: &Container, line: &[u8]) {
        let is_verdict = memmem::find(line, VERDICT_SCHEMA.as_bytes()).is_some();
        if is_verdict {
            return self.told(container, line);
        }
        let known = self.entries.get(&container.key);
        let fresh = known.is_none_or(|entry| entry.restart != container.restart);
        // Only containers that look like NCCL: others may hold the lesser marks.
        if fresh && memmem::find(line, b"NCCL ").is_none() {
            return;
        }
        if fresh {
            if known.is_none() {
                self.make_room(&container.key.uid);
            }
            let before = self.entries.remove(&container.key);
            let mut entry = Entry::new(container.restart, self.now);
            // What was told of it stands until the new run says otherwise.
            if let Some(before) = before {
                entry.current = before.current;
                entry.announced = before.announced;
                entry.began = before.began;
            }
            self.entries.insert(container.key.clone(), entry);
        }
        let Some(entry) = self.entries.get_mut(&container.key) else {
            return;
        };
        entry.last_line = self.now;
        entry.dirty = true;
        entry.reader.take_line(line, &mut entry.log, self.wall);
    }

    fn lost(&mut self, container: &Container, bytes: u64) {
        self.lost += bytes;
        self.changed = true;
        if let Some(entry) = self.entries.get_mut(&container.key) {
            entry.reader = Reader::default();
        }
    }

    fn gone(&mut self, container: &Container) {
        // With a sidecar's goes what it said of others, whose own directories may never have spoken.
        let key = &container.key;
        let before = self.entries.len();
        self.entries.retain(|other, entry| {
            let sidecars = entry.told.is_some() && other.uid == key.uid;
            *other != *key && !sidecars
        });
        self.changed |= self.entries.len() != before;
    }
}

#[cfg(test)]
mod tests;
