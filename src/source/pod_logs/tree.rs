//! Finds pods and containers come and gone.

use super::files::{self, Changes, Name};
use super::log::{Begin, Log, Tools, gone};
use super::names;
use super::options::{Container, Sink};
use super::state::{Mark, ResumeState};
use super::watch::Target;
use crate::observe::pod::ContainerKey;
use crate::observe::reading::Reading;
use crate::source::tree::classify;
use crate::units::Millis;
use nix::sys::inotify::WatchDescriptor;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Containers looked for in one pod's directory.
const MAX_CONTAINERS: usize = 256;

/// How often directories are looked at that nothing watches.
const UNWATCHED_EVERY: Duration = Duration::from_secs(2);

/// The logs, by serial number.
pub(super) type Logs = BTreeMap<u64, Log>;

/// The directories known.
pub(super) struct Tree {
    pods: BTreeMap<Box<str>, Pod>,
    /// The directory of all pods, links followed.
    root: Option<PathBuf>,
    root_watch: Option<WatchDescriptor>,
    changes: Changes,
    /// Something says that the directory of all pods changed.
    pub(super) told: bool,
    /// Something says that some pod's did.
    pods_told: bool,
    due: Millis,
    state: Reading<()>,
    left_aside: usize,
    /// Nothing was listed yet.
    first: bool,
    /// Where an earlier run stopped, of containers not seen yet.
    marks: HashMap<(String, String), Mark>,
    resumed: bool,
    serial: u64,
}

#[derive(Default)]
struct Pod {
    watch: Option<WatchDescriptor>,
    changes: Changes,
    told: bool,
    containers: BTreeMap<Box<str>, u64>,
}

impl Tree {
    pub(super) fn new(resume: Option<ResumeState>) -> Self {
        let resumed = resume.is_some();
        let marks = resume.unwrap_or_default().logs;
        Tree {
            pods: BTreeMap::new(),
            root: None,
            root_watch: None,
            changes: Changes::default(),
            told: true,
            pods_told: true,
            due: Millis(0),
            state: Reading::Absent,
            left_aside: 0,
            first: true,
            marks: marks
                .into_iter()
                .map(|mark| ((mark.uid.clone(), mark.container.clone()), mark))
                .collect(),
            resumed,
            serial: 0,
        }
    }

    /// A pod's directory changed.
    pub(super) fn tell(&mut self, pod: &str) {
        if let Some(pod) = self.pods.get_mut(pod) {
            pod.told = true;
            self.pods_told = true;
        }
    }

    /// Everything may have changed.
    pub(super) fn tell_all(&mut self) {
        self.told = true;
        self.pods_told = true;
        self.pods.values_mut().for_each(|pod| pod.told = true);
    }

    /// Marks of containers that were not seen since the start.
    pub(super) fn unseen(&self) -> impl Iterator<Item = &Mark> {
        self.marks.values()
    }

    /// Looks at what changed, and at everything when it is due.
    pub(super) fn look(
        &mut self,
        now: Millis,
        logs: &mut Logs,
        tools: &mut Tools,
        sink: &mut dyn Sink,
    ) {
        let due = now >= self.due;
        if due {
            let every = if self.root_watch.is_some() {
                tools.options.check_every
            } else {
                UNWATCHED_EVERY.min(tools.options.check_every)
            };
            self.due = now.plus(every);
        }
        let told = std::mem::take(&mut self.told);
        if due || told {
            let listed = self.list_root(told, logs, tools, sink);
            self.state = match &listed {
                Ok(()) => Reading::Value(()),
                Err(error) => classify(error, &tools.options.pods),
            };
        }
        tools.stats.root = self.state.clone();
        let Some(root) = self.root.clone() else {
            return;
        };
        let pods_told = std::mem::take(&mut self.pods_told);
        if due || pods_told {
            let mut pods = std::mem::take(&mut self.pods);
            self.left_aside = 0;
            for (name, pod) in &mut pods {
                if due || pod.told {
                    self.look_at_pod(&root, name, pod, logs, tools, sink);
                }
            }
            self.pods = pods;
            if self.state.value().is_some() && std::mem::take(&mut self.first) {
                // What was not found is gone.
                self.marks = HashMap::new();
            }
        }
        tools.stats.left_aside = self.left_aside;
    }

    fn list_root(
        &mut self,
        told: bool,
        logs: &mut Logs,
        tools: &mut Tools,
        sink: &mut dyn Sink,
    ) -> io::Result<()> {
        let root = files::resolve(&tools.options.root, &tools.options.pods)?;
        let stamp = files::stamp(&root)?;
        if self.root.as_ref() != Some(&root) {
            self.root_watch = tools.watches.dir(&root, Target::Root);
            self.root = Some(root.clone());
        }
        if !self.changes.seen(stamp, told) {
            return Ok(());
        }
        let (found, others) = files::names(&root, tools.options.containers.saturating_mul(2))?;
        tools.stats.odd_names += others as u64;
        let mut pods = std::mem::take(&mut self.pods);
        let mut kept = BTreeMap::new();
        for Name { name, kind, .. } in found {
            if names::pod_dir(&name).is_none() || !kind.is_dir() {
                tools.stats.odd_names += 1;
                continue;
            }
            let name = name.into_boxed_str();
            let pod = pods.remove(&name).unwrap_or_else(|| {
                self.pods_told = true;
                Pod {
                    watch: tools
                        .watches
                        .dir(&root.join(&*name), Target::Pod(name.clone())),
                    told: true,
                    ..Pod::default()
                }
            });
            kept.insert(name, pod);
        }
        self.pods = kept;
        for pod in pods.into_values() {
            if let Some(watch) = pod.watch {
                tools.watches.end(watch);
            }
            for serial in pod.containers.values() {
                if let Some(log) = logs.get_mut(serial) {
                    log.doom(tools, sink);
                }
            }
        }
        Ok(())
    }

    fn look_at_pod(
        &mut self,
        root: &Path,
        name: &str,
        pod: &mut Pod,
        logs: &mut Logs,
        tools: &mut Tools,
        sink: &mut dyn Sink,
    ) {
        let told = std::mem::take(&mut pod.told);
        let dir = root.join(name);
        let found = match files::stamp(&dir) {
            Ok(stamp) if pod.changes.seen(stamp, told) => files::names(&dir, MAX_CONTAINERS),
            Ok(_) => return,
            Err(error) => Err(error),
        };
        let (found, others) = match found {
            Ok(found) => found,
            Err(error) if gone(&error) => {
                for serial in std::mem::take(&mut pod.containers).values() {
                    if let Some(log) = logs.get_mut(serial) {
                        log.doom(tools, sink);
                    }
                }
                pod.changes = Changes::default();
                return self.told = true;
            }
            Err(error) => {
                if let Reading::Failed(fault) = classify::<()>(&error, &dir) {
                    tools.stats.fault = Some(fault);
                }
                // Looked at again when all are.
                pod.changes = Changes::default();
                return;
            }
        };
        tools.stats.odd_names += others as u64;
        let mut before = std::mem::take(&mut pod.containers);
        for Name {
            name: container,
            kind,
            ..
        } in found
        {
            let (true, Some(of)) = (kind.is_dir(), names::pod_dir(name)) else {
                tools.stats.odd_names += 1;
                continue;
            };
            if let Some((known, serial)) = before.remove_entry(container.as_str())
                && logs.get(&serial).is_some_and(|log| !log.doomed)
            {
                pod.containers.insert(known, serial);
                continue;
            }
            if logs.len() >= tools.options.containers {
                self.left_aside += 1;
                pod.changes = Changes::default();
                continue;
            }
            let key = ContainerKey {
                namespace: of.namespace.into(),
                pod: of.pod.into(),
                uid: of.uid.into(),
                container: container.clone(),
            };
            let serial = self.serial;
            self.serial += 1;
            let begin = self.begin(&key);
            let path = dir.join(&container).into_boxed_path();
            let who = Container {
                key,
                restart: 0,
                serial,
            };
            logs.insert(serial, Log::new(who, path, begin, tools));
            pod.containers.insert(container.into_boxed_str(), serial);
        }
        for serial in before.values() {
            if let Some(log) = logs.get_mut(serial) {
                log.doom(tools, sink);
            }
        }
    }

    fn begin(&mut self, key: &ContainerKey) -> Begin {
        let known = (self.marks).remove(&(key.uid.clone(), key.container.clone()));
        match known {
            Some(mark) => Begin::At(Box::new(mark)),
            None if self.first && !self.resumed => Begin::Newest,
            None => Begin::Oldest,
        }
    }
}
