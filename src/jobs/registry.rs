//! Each container whose log holds NCCL's lines, with its verdict: bounded, and without I/O.

use super::sidecar_record::sidecar_verdict;
use crate::check::job_verdicts::{ContainerVerdict, Outcomes, VerdictSource};
use crate::check::nccl::{Fallback, JobContext, NcclVerdict, Network, judge};
use crate::observe::nccl::NcclLog;
use crate::observe::nccl::log::LogLimits;
use crate::observe::{ContainerKey, PodFacts};
use crate::source::nccl::Reader;
use crate::source::nccl::anchor::{self, VERDICT_SCHEMA};
use crate::source::pod_logs::{Container, Sink};
use crate::units::Millis;
use memchr::memmem;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::{sync::Arc, time::Duration};

/// How long a log waits for facts about its pod before it is judged without them. They come within a
/// second; without them, deliberate use of TCP looks like a fallback.
const POD_FACTS_TIMEOUT: Duration = Duration::from_secs(10);

/// What a container holds is counted again after so many bytes of its lines.
const COUNT_EVERY: usize = 16 * 1024;

/// Most containers of one pod: what it prints cannot push out other pods.
const POD_CONTAINERS: usize = 16;

/// What Events and outcomes last said of a container: whether it fell back, and whether its init hangs.
type Announced = (Fallback, bool);

fn announcement(verdict: &NcclVerdict) -> Announced {
    (verdict.tcp_fallback, verdict.init_hangs_since.is_some())
}

/// A change of a container's verdict that its pod gets an Event about.
#[derive(Debug, Clone, PartialEq)]
pub struct JobChange {
    /// The container and its verdict now.
    pub now: Arc<ContainerVerdict>,
    /// TCP fallback began (true) or ended (false).
    pub fallback: Option<bool>,
    /// Its init began to hang.
    pub hangs: bool,
}

/// Result of looking a pod up.
#[derive(Debug, Clone, Copy)]
pub enum PodLookup<'a> {
    /// As the API server describes it.
    Found(&'a PodFacts),
    /// The API server does not know it any more: only its logs are left.
    Gone,
    /// The API server has not answered yet.
    Pending,
    /// The API server is not asked.
    Unavailable,
}

/// A verdict as it is kept over a restart of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedVerdict {
    key: ContainerKey,
    restart: u32,
    verdict: NcclVerdict,
}

/// One container.
#[derive(Default)]
struct JobLog {
    restart: u32,
    reader: Reader,
    log: NcclLog,
    /// Its pod has ended.
    finished: bool,
    /// The last verdict of a sidecar in its pod.
    sidecar: Option<NcclVerdict>,
    /// The verdict of an earlier run of the agent.
    remembered: Option<Arc<NcclVerdict>>,
    current: Option<Arc<ContainerVerdict>>,
    /// Its verdict counts among the outcomes of jobs.
    counted: bool,
    /// What was last announced, with the facts about its pod at hand.
    announced: Option<Announced>,
    /// A line came since it was judged.
    dirty: bool,
    began: Millis,
    last_line: Millis,
    /// Bytes of memory that it held when that was last counted, and bytes of lines read since.
    held: usize,
    uncounted: usize,
}

/// All containers.
#[derive(Default)]
pub struct Registry {
    most: usize,
    /// Bytes that all containers may hold together.
    budget: usize,
    /// How often the largest holder had to give up its own.
    pub evicted: u64,
    logs: BTreeMap<ContainerKey, JobLog>,
    /// How the last jobs ended up.
    pub outcomes: Outcomes,
    /// Lines that looked like a sidecar's verdict and were none.
    pub dropped: u64,
    /// Bytes gone before they were read.
    pub lost: u64,
    now: Millis,
    wall: Option<jiff::Timestamp>,
    changed: bool,
}

impl Registry {
    /// For so many containers at most, which together hold so many bytes.
    pub fn new(most: usize, budget: usize) -> Self {
        Registry {
            most: most.max(1),
            budget,
            ..Registry::default()
        }
    }

    /// Restores the verdicts of an earlier run.
    pub fn restore(&mut self, verdicts: Vec<SavedVerdict>, outcomes: Outcomes) {
        self.outcomes = outcomes.bounded();
        for saved in verdicts.into_iter().take(self.most) {
            let log = JobLog {
                announced: Some(announcement(&saved.verdict)),
                counted: true,
                remembered: Some(Arc::new(saved.verdict)),
                ..JobLog::new(saved.restart, self.now)
            };
            self.logs.insert(saved.key, log);
        }
    }

    /// Forgets jobs outside of Kubernetes that are not known any more.
    pub fn keep_jobs(&mut self, known: impl Fn(&ContainerKey) -> bool) {
        self.forget(|key, _| key.job().is_some() && !known(key));
    }

    fn forget(&mut self, gone: impl Fn(&ContainerKey, &JobLog) -> bool) {
        let before = self.logs.len();
        self.logs.retain(|key, log| !gone(key, log));
        self.changed |= self.logs.len() != before;
    }

    /// Bytes that all containers hold, as counted.
    pub fn held(&self) -> usize {
        self.logs.values().map(|log| log.held).sum()
    }

    /// The verdicts to keep for a later run.
    pub fn save(&self) -> Vec<SavedVerdict> {
        let announced = (self.logs.iter()).filter(|(_, log)| log.announced.is_some());
        let saved = announced.filter_map(|(key, log)| {
            Some(SavedVerdict {
                key: key.clone(),
                restart: log.restart,
                verdict: log.last_verdict()?.clone(),
            })
        });
        saved.collect()
    }

    /// Sets the time at which lines are read.
    pub fn at(&mut self, now: Millis, wall: Option<jiff::Timestamp>) {
        self.now = now;
        self.wall = wall;
    }

    /// Verdicts of containers whose pod has not ended, worst first; among those as bad, namespaces take
    /// turns, and pods in each of them.
    pub fn verdicts(&self) -> Vec<Arc<ContainerVerdict>> {
        use Fallback::{Configured, No, Unknown, Yes};
        const WORST_FIRST: [Fallback; 4] = [Yes, Unknown, Configured, No];
        let running = self.logs.values().filter(|log| !log.finished);
        let mut verdicts: Vec<_> = running.filter_map(|log| log.current.clone()).collect();
        let badness = |container: &Arc<ContainerVerdict>| {
            let verdict = &container.verdict;
            let mut worst = WORST_FIRST.iter();
            let rank = worst.position(|of| *of == verdict.tcp_fallback);
            (rank, verdict.init_hangs_since.is_none())
        };
        let turns = |verdicts: &mut Vec<Arc<ContainerVerdict>>,
                     whose: fn(&ContainerKey) -> &str| {
            let mut counts: BTreeMap<_, usize> = BTreeMap::new();
            verdicts.sort_by_cached_key(|container| {
                let badness = badness(container);
                let whose = whose(&container.key).to_string();
                let count = counts.entry((badness, whose)).or_default();
                *count += 1;
                (badness, *count)
            });
        };
        turns(&mut verdicts, |key| &key.uid);
        turns(&mut verdicts, |key| &key.namespace);
        verdicts
    }

    /// Running jobs that count as they are. None while it is not known which those of an earlier run are.
    fn counted(&self) -> Option<BTreeSet<String>> {
        let mut logs = self.logs.values();
        let unknown = logs.any(|log| log.remembered.is_some() && log.current.is_none());
        let counted = (self.logs.values()).filter(|log| log.counted && !log.finished);
        let verdicts = counted.filter_map(|log| log.current.as_ref());
        (!unknown).then(|| verdicts.map(|now| job_name(now)).collect())
    }

    /// Judges the logs that changed, or all of them: time passes, and facts about pods may come after
    /// the lines. True if any verdict, or the set of them, changed.
    pub fn judge<'a>(
        &mut self,
        all: bool,
        hang_after: Duration,
        node_gpus: Option<u32>,
        look_up: impl Fn(&ContainerKey) -> PodLookup<'a>,
        mut announce: impl FnMut(JobChange),
    ) -> bool {
        let mut changed = std::mem::take(&mut self.changed);
        let mut counted = self.counted();
        let clock = self.wall.map(|wall| (wall, hang_after));
        for (key, log) in &mut self.logs {
            if !(all || log.dirty) {
                continue;
            }
            // Others may mention NCCL; this agent's own log does.
            log.dirty = log.is_nccl();
            if !log.dirty {
                continue;
            }
            let pod = look_up(key);
            if log.waits_for_pod(pod, self.now) {
                continue;
            }
            log.dirty = false;
            log.uncounted = COUNT_EVERY;
            let (ended, same) = log.update(key, pod, self.now, node_gpus, clock);
            changed |= ended || !same;
            // Shown, but not announced, while facts about the pod could change it.
            let firm = matches!(pod, PodLookup::Found(_) | PodLookup::Unavailable);
            let Some(now) = log.current.as_ref().filter(|_| firm) else {
                continue;
            };
            if now.of_job && (!same || log.announced.is_none()) {
                let (job, pod) = (job_name(now), pod_name(now));
                // Counted by its pod while the pod's owner was not known yet.
                if job != pod {
                    self.outcomes.forget(&pod);
                }
                let others = counted.as_mut();
                let is_new = others.is_some_and(|others| !log.counted && !others.contains(&job));
                if self.outcomes.note(&job, &now.verdict, is_new) {
                    log.counted = true;
                    counted.as_mut().map(|counted| counted.insert(job));
                }
            }
            let before = log.announced.replace(announcement(&now.verdict));
            if let Some(change) = difference(before, now) {
                announce(change);
            }
        }
        self.keep_within_budget();
        changed
    }

    /// Counts what the containers hold now. While that is too much, the container that holds the most
    /// of the pod that holds the most gives it up: its verdict so far stays where that is enough.
    fn keep_within_budget(&mut self) {
        let is_due = |log: &&mut JobLog| log.uncounted >= COUNT_EVERY;
        for log in self.logs.values_mut().filter(is_due) {
            (log.held, log.uncounted) = (log.count(), 0);
        }
        while self.held() > self.budget {
            let mut pods: BTreeMap<&str, usize> = BTreeMap::new();
            for (key, log) in &self.logs {
                *pods.entry(&key.uid).or_default() += log.held;
            }
            let holds = |key: &ContainerKey, log: &JobLog| (pods.get(&*key.uid).copied(), log.held);
            let largest = self.logs.iter().max_by_key(|(key, log)| holds(key, log));
            let largest = largest.map(|(key, _)| key.clone());
            let Some((key, log)) = largest.and_then(|key| self.logs.remove_entry(&key)) else {
                return;
            };
            self.evicted += 1;
            if let Some(rest) = log.given_up() {
                self.logs.insert(key, rest);
            }
            self.changed = true;
        }
    }

    /// Takes a sidecar's verdict on a container of its pod.
    fn sidecar_line(&mut self, sidecar: &Container, line: &[u8]) {
        let Some((name, verdict)) = sidecar_verdict(line, self.wall) else {
            self.dropped += 1;
            return;
        };
        let mut key = sidecar.key.clone();
        key.container = name.unwrap_or(key.container);
        if !self.logs.contains_key(&key) {
            self.make_room(&key.uid);
        }
        let (restart, now) = (sidecar.restart, self.now);
        let log = (self.logs.entry(key)).or_insert_with(|| JobLog::new(restart, now));
        log.sidecar = Some(verdict);
        log.last_line = now;
        log.dirty = true;
        log.uncounted = COUNT_EVERY;
        self.keep_within_budget();
    }

    /// Makes room for one more container of a pod: at its own expense where it has many.
    fn make_room(&mut self, uid: &str) {
        let own = self.logs.keys().filter(|key| key.uid == uid).count();
        if self.logs.len() < self.most && own < POD_CONTAINERS {
            return;
        }
        let quietest = (self.logs.iter())
            .filter(|(key, _)| own < POD_CONTAINERS || key.uid == uid)
            .min_by_key(|(_, log)| log.last_line);
        if let Some(key) = quietest.map(|(key, _)| key.clone()) {
            self.logs.remove(&key);
            self.changed = true;
        }
    }
}

/// What an Event has to say, if anything.
fn difference(before: Option<Announced>, container: &Arc<ContainerVerdict>) -> Option<JobChange> {
    let (fell_back, hangs) = announcement(&container.verdict);
    let (before, hung) = before.unwrap_or((Fallback::Unknown, false));
    let fallback = match (before, fell_back) {
        (Fallback::Yes, Fallback::Yes) => None,
        (_, Fallback::Yes) => Some(true),
        (Fallback::Yes, Fallback::No) if container.verdict.network != Network::None => Some(false),
        _ => None,
    };
    let hangs = hangs && !hung;
    (fallback.is_some() || hangs).then(|| JobChange {
        now: Arc::clone(container),
        fallback,
        hangs,
    })
}

/// The container that a verdict is about: for a sidecar that does not name one, the one other
/// container that has GPUs.
fn subject_of(key: &ContainerKey, via: VerdictSource, facts: Option<&PodFacts>) -> ContainerKey {
    let mut key = key.clone();
    let has_no_gpus = |pod: &&PodFacts| {
        let own = pod.containers.get(&key.container);
        via == VerdictSource::Sidecar && own.is_some_and(|own| own.gpus == 0)
    };
    if let Some(pod) = facts.filter(has_no_gpus) {
        let mut with = pod.containers.iter().filter(|(_, other)| other.gpus > 0);
        if let (Some((name, _)), None) = (with.next(), with.next()) {
            key.container.clone_from(name);
        }
    }
    key
}

/// Identifies a job: its name, else its pod.
fn job_name(container: &ContainerVerdict) -> String {
    let key = &container.key;
    match &container.job {
        Some(job) => format!("{}/{}/{}", tenant(key), job.kind, job.name),
        None => pod_name(container),
    }
}

fn pod_name(container: &ContainerVerdict) -> String {
    format!("{}/{}", tenant(&container.key), container.key.uid)
}

/// Who may make up jobs: a namespace, or the user of a job outside of Kubernetes.
pub fn tenant(key: &ContainerKey) -> &str {
    key.job().map_or(&key.namespace, |_| &key.uid)
}

impl JobLog {
    fn new(restart: u32, now: Millis) -> Self {
        JobLog {
            restart,
            log: NcclLog::new(LogLimits::CONTAINER),
            dirty: true,
            began: now,
            last_line: now,
            ..JobLog::default()
        }
    }

    /// Bytes of memory that it holds.
    fn count(&self) -> usize {
        let verdicts = [self.remembered.as_deref(), self.sidecar.as_ref()];
        let current = self.current.as_ref().map(|current| &*current.verdict);
        let verdicts = verdicts.into_iter().chain([current]).flatten();
        let verdicts: usize = verdicts.map(NcclVerdict::held).sum();
        2 * size_of::<Self>() + self.log.held() + self.reader.held() + verdicts
    }

    /// What is left of it without its lines: as after a restart of the agent. `None` where that is most
    /// of it.
    fn given_up(self) -> Option<JobLog> {
        let rest = JobLog {
            remembered: self.last_verdict().cloned().map(Arc::new),
            finished: self.finished,
            announced: self.announced,
            counted: self.counted,
            current: self.current,
            last_line: self.last_line,
            ..JobLog::new(self.restart, self.began)
        };
        let held = rest.count();
        (held < self.held / 2).then_some(JobLog { held, ..rest })
    }

    /// NCCL itself or a sidecar wrote to it, now or in an earlier run.
    fn is_nccl(&self) -> bool {
        self.log.is_nccl() || self.sidecar.is_some() || self.last_verdict().is_some()
    }

    fn last_verdict(&self) -> Option<&NcclVerdict> {
        let current = self.current.as_ref().map(|current| &*current.verdict);
        current.or(self.remembered.as_deref())
    }

    /// Facts about its pod may still come.
    fn waits_for_pod(&self, pod: PodLookup<'_>, now: Millis) -> bool {
        let young = now.since(self.began) < POD_FACTS_TIMEOUT;
        match pod {
            PodLookup::Found(_) | PodLookup::Unavailable => false,
            PodLookup::Pending => young,
            // A log may be faster than the API server's watch.
            PodLookup::Gone => young && self.announced.is_none(),
        }
    }

    /// Judges it; whether its pod ended or began again, and whether the verdict is the same. `clock`: the
    /// wall time, and how long an init may take.
    fn update(
        &mut self,
        key: &ContainerKey,
        pod: PodLookup<'_>,
        now: Millis,
        node_gpus: Option<u32>,
        clock: Option<(jiff::Timestamp, Duration)>,
    ) -> (bool, bool) {
        let (facts, finished) = match pod {
            PodLookup::Found(facts) => (Some(facts), facts.finished),
            PodLookup::Gone => (None, true),
            PodLookup::Pending | PodLookup::Unavailable => (None, false),
        };
        let ended = std::mem::replace(&mut self.finished, finished) != finished;
        let (verdict, via) = self.verdict(&JobContext {
            pod: facts,
            container: facts.and_then(|pod| pod.containers.get(&key.container)),
            node_gpus,
            now: clock.filter(|_| !finished),
        });
        let job = facts.and_then(|pod| pod.job.clone());
        let subject = subject_of(key, via, facts);
        let of_job = facts.is_some_and(|pod| pod.is_job(&subject.container));
        let before = self.current.as_ref();
        let same = before.is_some_and(|before| {
            *before.verdict == *verdict
                && (before.via, &before.job, before.of_job) == (via, &job, of_job)
        });
        if !same {
            let since = before
                .filter(|before| before.verdict.tcp_fallback == verdict.tcp_fallback)
                .map_or(now, |before| before.since);
            self.current = Some(Arc::new(ContainerVerdict {
                key: subject,
                job,
                since,
                via,
                of_job,
                verdict,
            }));
        }
        (ended, same)
    }

    /// The verdict, from a sidecar, from its own log lines, or from an earlier run.
    fn verdict(&self, context: &JobContext<'_>) -> (Arc<NcclVerdict>, VerdictSource) {
        if let Some(verdict) = &self.sidecar {
            return (Arc::new(verdict.clone()), VerdictSource::Sidecar);
        }
        let own = judge(&self.log, context);
        match &self.remembered {
            Some(remembered) if !says_more(&own, remembered) => {
                (Arc::clone(remembered), VerdictSource::Remembered)
            }
            _ => (Arc::new(own), VerdictSource::Log),
        }
    }
}

/// Whether lines say more than what an earlier run of the agent knew. A communicator within a node does
/// not end a fallback between nodes, and nothing but another network does.
fn says_more(own: &NcclVerdict, before: &NcclVerdict) -> bool {
    let completes = own.init_complete == Some(true) && own.nranks >= before.nranks;
    let ends = completes && before.init_hangs_since.is_some();
    match before.tcp_fallback {
        Fallback::Yes => own.tcp_fallback != Fallback::Unknown && own.network != Network::None,
        _ => own.tcp_fallback != Fallback::Unknown || own.init_hangs_since.is_some() || ends,
    }
}

impl Sink for Registry {
    fn wants(&self, container: &Container, chunk: &[u8], from: usize) -> Option<usize> {
        let log = self.logs.get(&container.key);
        match log.filter(|log| log.restart == container.restart) {
            Some(log) => log.reader.next_wanted(chunk, from),
            None => anchor::find(chunk, from),
        }
    }

    fn line(&mut self, container: &Container, line: &[u8]) {
        if memmem::find(line, VERDICT_SCHEMA.as_bytes()).is_some() {
            return self.sidecar_line(container, line);
        }
        let before = self.logs.get(&container.key).map(|log| log.restart);
        if before != Some(container.restart) {
            // Lines of other programs may hold the lesser marks.
            if memmem::find(line, b"NCCL ").is_none() {
                return;
            }
            if before.is_none() {
                self.make_room(&container.key.uid);
            }
            let mut log = JobLog::new(container.restart, self.now);
            // What was announced stands until the new run says otherwise.
            if let Some(before) = self.logs.remove(&container.key) {
                log.current = before.current;
                log.announced = before.announced;
                log.began = before.began;
            }
            self.logs.insert(container.key.clone(), log);
        }
        if let Some(log) = self.logs.get_mut(&container.key) {
            log.last_line = self.now;
            log.dirty = true;
            log.reader.take_line(line, &mut log.log, self.wall);
            log.uncounted += line.len();
            if log.uncounted >= COUNT_EVERY {
                self.keep_within_budget();
            }
        }
    }

    fn lost(&mut self, container: &Container, bytes: u64) {
        self.lost += bytes;
        self.changed = true;
        if let Some(log) = self.logs.get_mut(&container.key) {
            log.reader = Reader::default();
        }
    }

    fn gone(&mut self, container: &Container) {
        // With a sidecar goes what it said of others, which may have no log of their own.
        let key = &container.key;
        self.forget(|other, log| *other == *key || log.sidecar.is_some() && other.uid == key.uid);
    }
}

#[cfg(test)]
mod tests;
