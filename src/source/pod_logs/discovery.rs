//! Finds logs that come and go.

use super::follower::{LogName, Logs};
use super::listing::{self, is_gone};
use super::log::{Log, Tools};
use super::names;
use super::options::{Container, Layout, Mark, ResumeState, Sink};
use crate::observe::pod::ContainerKey;
use crate::observe::reading::Reading;
use crate::source::tree::classify;
use crate::units::Millis;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most containers looked for in one pod's directory.
const MAX_CONTAINERS: usize = 256;

/// How often directories are listed that inotify does not watch.
const UNWATCHED_EVERY: Duration = Duration::from_secs(2);

/// The directories known.
#[derive(Default)]
pub(super) struct Tree {
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
    pub(super) marks: Option<Vec<Mark>>,
    serial: u64,
}

impl Tree {
    pub(super) fn new(resume: Option<ResumeState>) -> Self {
        Tree {
            changed: true,
            first: true,
            marks: resume.map(|resume| resume.logs),
            ..Tree::default()
        }
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
                self.marks.iter_mut().for_each(Vec::clear);
            }
            let every = tools.options.check_every;
            self.due = tools.now.plus(match self.watched {
                true => every,
                false => every.min(UNWATCHED_EVERY),
            });
        }
        tools.stats.root = self.state.clone();
        tools.stats.left_aside = self.left_aside;
    }

    fn walk(&mut self, logs: &mut Logs, tools: &mut Tools, sink: &mut dyn Sink) -> io::Result<()> {
        self.watched = false;
        let root = listing::resolve(&tools.options.root, &tools.options.dir)?;
        self.watched = tools.watches.dir(&root, None);
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
                    self.list_pod(&name.name, logs, &mut found, tools);
                }
                Layout::Flat | Layout::Pods => tools.stats.odd_names += 1,
            }
        }
        for (name, log) in logs.iter_mut().filter(|(_, log)| !log.removed) {
            if !found.contains(name) {
                log.remove(sink);
            }
            // In a flat layout, perhaps another file of this name.
            log.changed |= tools.options.layout == Layout::Flat;
        }
        self.left_aside = 0;
        for name in found {
            if logs.contains_key(&name) {
                continue;
            }
            if logs.len() >= tools.options.containers {
                self.left_aside += 1;
            } else {
                let log = self.log(&name, tools);
                logs.insert(name, log);
            }
        }
        Ok(())
    }

    fn list_pod(
        &mut self,
        pod: &str,
        logs: &Logs,
        found: &mut BTreeSet<LogName>,
        tools: &mut Tools,
    ) {
        let dir = self.root.join(pod);
        self.watched &= tools.watches.dir(&dir, None);
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
                found.extend(logs.keys().filter(|name| *name.0 == *pod).cloned());
                if let Reading::Failed(fault) = classify::<()>(&error, &dir) {
                    tools.stats.fault = Some(fault);
                }
            }
        }
    }

    fn log(&mut self, (pod, name): &LogName, tools: &mut Tools) -> Log {
        let path = self.root.join(Path::new(&**pod)).join(&**name);
        let pod = names::pod_dir(pod).unwrap_or_default();
        let key = ContainerKey {
            namespace: pod.namespace.into(),
            pod: pod.pod.into(),
            uid: pod.uid.into(),
            container: name.to_string(),
        };
        let known = |mark: &Mark| (&mark.uid, &mark.container) == (&key.uid, &key.container);
        let marks = self.marks.as_mut();
        let mark = marks.and_then(|marks| Some(marks.swap_remove(marks.iter().position(known)?)));
        let newest = self.first && self.marks.is_none();
        self.serial += 1;
        let who = Container { key, restart: 0 };
        Log::new(self.serial, who, path, mark, newest, tools)
    }
}
