//! Finds logs that come and go.

use super::follower::Logs;
use super::listing::{self, is_gone};
use super::log::{Log, Tools};
use super::names;
use super::options::{Container, Layout, Mark, ResumeState, Sink};
use super::watch::Target;
use crate::observe::pod::ContainerKey;
use crate::observe::reading::Reading;
use crate::source::tree::classify;
use crate::units::Millis;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most containers looked for in one pod's directory.
const MAX_CONTAINERS: usize = 256;

/// How often directories are listed that inotify does not watch.
const UNWATCHED_EVERY: Duration = Duration::from_secs(2);

/// A log by its pod's directory (empty in a flat layout) and its own name in there.
type Place = (Box<str>, Box<str>);

/// The directories known.
pub(super) struct Tree {
    /// Serial numbers of the logs.
    known: BTreeMap<Place, u64>,
    /// The directory of all logs, links followed.
    root: PathBuf,
    /// Something changed in it, or in a pod's directory.
    pub(super) changed: bool,
    /// inotify watches all of these directories.
    pub(super) watched: bool,
    due: Millis,
    state: Reading<()>,
    left_aside: usize,
    /// Nothing was listed yet.
    first: bool,
    /// Where an earlier run stopped, of containers not seen yet; `None`: there was none.
    marks: Option<HashMap<(String, String), Mark>>,
    serial: u64,
}

impl Tree {
    pub(super) fn new(resume: Option<ResumeState>) -> Self {
        let marks = resume.map(|resume| {
            let marks = resume.logs.into_iter();
            marks.map(|mark| ((mark.uid.clone(), mark.container.clone()), mark))
        });
        Tree {
            known: BTreeMap::new(),
            root: PathBuf::new(),
            changed: true,
            watched: false,
            due: Millis(0),
            state: Reading::Absent,
            left_aside: 0,
            first: true,
            marks: marks.map(Iterator::collect),
            serial: 0,
        }
    }

    /// Marks of containers that were not seen since the start.
    pub(super) fn unseen(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter().flatten().map(|(_, mark)| mark)
    }

    /// Lists everything when something changed or it is due.
    pub(super) fn look(&mut self, logs: &mut Logs, tools: &mut Tools, sink: &mut dyn Sink) {
        if std::mem::take(&mut self.changed) || tools.now >= self.due {
            let walked = self.walk(logs, tools, sink);
            self.state = match &walked {
                Ok(()) => Reading::Value(()),
                Err(error) => classify(error, &tools.options.dir),
            };
            if walked.is_ok() && std::mem::take(&mut self.first) {
                // What was not found is gone.
                self.marks.iter_mut().for_each(HashMap::clear);
            }
            let every = tools.options.check_every;
            let every = if self.watched {
                every
            } else {
                UNWATCHED_EVERY.min(every)
            };
            self.due = tools.now.plus(every);
        }
        tools.stats.root = self.state.clone();
        tools.stats.left_aside = self.left_aside;
    }

    fn walk(&mut self, logs: &mut Logs, tools: &mut Tools, sink: &mut dyn Sink) -> io::Result<()> {
        self.watched = false;
        let root = listing::resolve(&tools.options.root, &tools.options.dir)?;
        self.watched = tools.watches.dir(&root, Target::Tree);
        self.root = root;
        let most = tools.options.containers.saturating_mul(2);
        let (names, others) = listing::names(&self.root, most)?;
        tools.stats.odd_names += others;
        let mut found = BTreeSet::new();
        for name in names {
            match tools.options.layout {
                Layout::Flat if name.kind.is_file() => {
                    found.insert(("".into(), name.name.into_boxed_str()));
                }
                Layout::Pods if name.kind.is_dir() && names::pod_dir(&name.name).is_some() => {
                    self.list_pod(&name.name, &mut found, tools);
                }
                Layout::Flat | Layout::Pods => tools.stats.odd_names += 1,
            }
        }
        self.known.retain(|place, serial| {
            let Some(log) = logs.get_mut(serial) else {
                return false;
            };
            if !found.contains(place) {
                log.remove(tools, sink);
            } else if tools.options.layout == Layout::Flat {
                // Perhaps another file of this name.
                log.changed = true;
            }
            !log.removed
        });
        self.left_aside = 0;
        for place in found {
            if self.known.contains_key(&place) {
                continue;
            }
            if logs.len() >= tools.options.containers {
                self.left_aside += 1;
            } else {
                self.add(place, logs, tools);
            }
        }
        Ok(())
    }

    fn list_pod(&mut self, pod: &str, found: &mut BTreeSet<Place>, tools: &mut Tools) {
        let dir = self.root.join(pod);
        self.watched &= tools.watches.dir(&dir, Target::Tree);
        match listing::names(&dir, MAX_CONTAINERS) {
            Ok((names, others)) => {
                tools.stats.odd_names += others;
                for name in names {
                    if name.kind.is_dir() {
                        found.insert((pod.into(), name.name.into_boxed_str()));
                    } else {
                        tools.stats.odd_names += 1;
                    }
                }
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                // Nothing is known to have gone.
                let known = self.known.keys().filter(|place| *place.0 == *pod);
                found.extend(known.cloned());
                if let Reading::Failed(fault) = classify::<()>(&error, &dir) {
                    tools.stats.fault = Some(fault);
                }
            }
        }
    }

    fn add(&mut self, place: Place, logs: &mut Logs, tools: &mut Tools) {
        let pod = names::pod_dir(&place.0).unwrap_or_default();
        let key = ContainerKey {
            namespace: pod.namespace.into(),
            pod: pod.pod.into(),
            uid: pod.uid.into(),
            container: place.1.to_string(),
        };
        let mark = (self.marks.as_mut())
            .and_then(|marks| marks.remove(&(key.uid.clone(), key.container.clone())));
        let newest = self.first && self.marks.is_none();
        let path = self.root.join(Path::new(&*place.0)).join(&*place.1);
        let who = Container { key, restart: 0 };
        self.serial += 1;
        let log = Log::new(self.serial, who, path.into(), mark, newest, tools);
        logs.insert(self.serial, log);
        self.known.insert(place, self.serial);
    }
}
