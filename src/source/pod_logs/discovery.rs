//! Finds logs that come and go.

use super::follower::{LogName, Logs};
use super::{
    Container, FileId, FlatFile, Layout, Log, LogMarks, Mark, Sink, Tools, is_gone, listing, names,
};
use crate::observe::{ContainerKey, Reading};
use crate::source::tree::{answer, classify};
use crate::units::Millis;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Most containers looked for in one pod's directory.
const MAX_CONTAINERS: usize = 256;

/// Most places kept of files that are not followed any more, but are still there.
const MAX_LET_GO: usize = 4096;

/// The directories known.
#[derive(Default)]
pub(super) struct LogTree {
    /// The directory of all logs, links followed.
    root: PathBuf,
    /// Something changed in it, or in a pod's directory.
    pub(super) changed: bool,
    due: Millis,
    state: Reading<()>,
    /// The bound on names, where the directory holds more.
    more_names: Option<usize>,
    /// Nothing was listed yet.
    first: bool,
    /// Where an earlier run stopped, of containers not seen yet, and where files were let go; `None`:
    /// there was no earlier run.
    pub(super) marks: Option<Vec<Mark>>,
}

impl LogTree {
    pub(super) fn new(resume: Option<LogMarks>) -> Self {
        LogTree {
            changed: true,
            first: true,
            marks: resume.map(|resume| resume.logs),
            ..LogTree::default()
        }
    }

    /// Lists everything when something changed or it is due.
    pub(super) fn look(&mut self, logs: &mut Logs, tools: &mut Tools, sink: &mut dyn Sink) {
        if std::mem::take(&mut self.changed) || tools.now >= self.due {
            let walked = self.walk(logs, tools, sink);
            self.state = answer(walked, || tools.options.dir.clone());
            if self.state.value().is_some() && std::mem::take(&mut self.first) {
                // What was not found is gone.
                self.marks.iter_mut().for_each(Vec::clear);
            }
            self.due = tools.now.plus(tools.options.list_every);
        }
        tools.stats.root = self.state.clone();
        tools.stats.more_names = self.more_names;
    }

    fn walk(&mut self, logs: &mut Logs, tools: &mut Tools, sink: &mut dyn Sink) -> io::Result<()> {
        self.root = listing::resolve(&tools.options.root, &tools.options.dir)?;
        let mut found = BTreeSet::new();
        let flat = tools.options.layout == Layout::Flat;
        let wanted = |name: &str| !flat || sink.may_follow(name);
        let (names, more) = listing::names(&self.root, tools.options.names, wanted)?;
        self.more_names = more.then_some(tools.options.names);
        for name in names {
            match tools.options.layout {
                Layout::Flat if name.kind.is_file() => {
                    let path = self.root.join(&name.name);
                    let key: LogName = ("".into(), name.name.into_boxed_str());
                    let file = flat_file(&key.1, &path, logs.get(&key));
                    if file.is_some_and(|file| sink.follows(&file)) {
                        found.insert(key);
                    }
                }
                Layout::Pods if name.kind.is_dir() && names::pod_dir(&name.name).is_some() => {
                    self.list_pod(&name.name, logs, &mut found, tools);
                }
                Layout::Flat | Layout::Pods => {}
            }
        }
        for (name, log) in logs.iter_mut().filter(|(_, log)| !log.removed) {
            if !found.contains(name) {
                if tools.options.layout == Layout::Flat {
                    self.let_go(log.mark());
                }
                log.remove(sink);
            }
            // In a flat layout, perhaps another file of this name.
            log.changed |= tools.options.layout == Layout::Flat;
        }
        for name in found {
            if !logs.contains_key(&name) && logs.len() < tools.options.containers {
                let log = self.log(&name);
                logs.insert(name, log);
            }
        }
        Ok(())
    }

    /// Keeps the place in a file that may be written to again.
    fn let_go(&mut self, mark: Option<Mark>) {
        let marks = self.marks.get_or_insert_default();
        marks.drain(..marks.len().saturating_sub(MAX_LET_GO - 1));
        marks.extend(mark);
    }

    fn list_pod(&mut self, pod: &str, logs: &Logs, all: &mut BTreeSet<LogName>, tools: &mut Tools) {
        let dir = self.root.join(pod);
        match listing::names(&dir, MAX_CONTAINERS, |_| true) {
            Ok((names, _)) => {
                let containers = names.into_iter().filter(|name| name.kind.is_dir());
                all.extend(containers.map(|name| (pod.into(), name.name.into_boxed_str())));
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                // Nothing is known to have gone.
                all.extend(logs.keys().filter(|name| *name.0 == *pod).cloned());
                if let Reading::Failed(fault) = classify::<()>(&error, &dir) {
                    tools.stats.fault = Some(fault);
                }
            }
        }
    }

    fn log(&mut self, (pod, name): &LogName) -> Log {
        let path = self.root.join(Path::new(&**pod)).join(&**name);
        let key = ContainerKey {
            container: name.to_string(),
            ..names::pod_dir(pod).unwrap_or_default()
        };
        let known = |mark: &Mark| (&mark.uid, &mark.container) == (&key.uid, &key.container);
        let marks = self.marks.as_mut();
        let mark = marks.and_then(|marks| Some(marks.swap_remove(marks.iter().position(known)?)));
        let newest = self.first && self.marks.is_none();
        let who = Container {
            key,
            ..Container::default()
        };
        Log::new(who, path, mark, newest)
    }
}

/// A file as its directory shows it; `None` if it is gone.
fn flat_file<'a>(name: &'a str, path: &Path, log: Option<&Log>) -> Option<FlatFile<'a>> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    let log = log.filter(|log| !log.removed);
    Some(FlatFile {
        name,
        id: FileId::of(&meta),
        written: meta.modified().ok()?,
        unread: log.is_some_and(|log| log.behind || log.file.is_none() && !log.faulty),
        unreadable: log.is_some_and(|log| log.faulty),
    })
}
