//! State that outlives a restart of the agent, as one small JSON file. Losing it costs the memory
//! of this boot, nothing else.

use crate::check::kept::KeptFinding;
use crate::files::{read_regular, replace};
use crate::observe::Memory;
use crate::source::kernel_log::ResumeState;
use crate::units::PortKey;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The state file.
pub(crate) const FILE: &str = "memory.json";
/// `selvage accept` puts it there: what is remembered to be better is to be forgotten.
const ACCEPT: &str = "accept";
/// Of the state files.
pub(crate) const VERSION: u32 = 1;
/// How soon a write that failed is tried again, and `selvage accept` is looked for.
const RETRY: Duration = Duration::from_secs(10);
/// Longest state file read.
const MAX: u64 = 8 << 20;

/// The state directory; without one nothing is kept.
#[derive(Debug, Clone)]
pub struct StateDir(Option<PathBuf>);

/// Content of the state file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    version: u32,
    /// The history's memory of this boot.
    pub memory: Memory,
    /// Ports whose PMA counters must not be opened, for the memory's boot.
    pub restricted: Vec<PortKey>,
    /// How far the kernel log was read with its events recorded in `memory`.
    pub kernel_log: Option<ResumeState>,
    /// What was believed of the memory's boot.
    #[serde(default, deserialize_with = "known_findings")]
    pub findings: Vec<KeptFinding>,
}

/// Another version may have findings that this one cannot read: the rest of the file counts all the same.
fn known_findings<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<KeptFinding>, D::Error> {
    let all = Vec::<serde_json::Value>::deserialize(from)?.into_iter();
    Ok(all
        .filter_map(|finding| serde_json::from_value(finding).ok())
        .collect())
}

impl Saved {
    /// The state to write now.
    pub fn new(memory: Memory, restricted: Vec<PortKey>, kernel_log: Option<ResumeState>) -> Self {
        Saved {
            version: VERSION,
            memory,
            restricted,
            kernel_log,
            findings: Vec::new(),
        }
    }

    /// Whether only the values of counters and the findings' evidence differ.
    pub fn is_like(&self, other: &Saved) -> bool {
        let mut own = self.clone();
        own.memory.take_counts_of(&other.memory);
        let identities = other.findings.iter().map(KeptFinding::identity);
        if (self.findings.iter().map(KeptFinding::identity)).eq(identities) {
            own.findings.clone_from(&other.findings);
        }
        own == *other
    }

    /// Restricted ports, if the file is of this boot: firmware or privileges may change over a
    /// reboot.
    pub fn restricted_of(&self, boot_id: Option<&str>) -> Vec<PortKey> {
        let restricted = self.memory_of(boot_id).map(|_| self.restricted.clone());
        restricted.unwrap_or_default()
    }

    /// What was believed, if the file is of this boot.
    pub fn findings_of(&self, boot_id: Option<&str>) -> Vec<KeptFinding> {
        let findings = self.memory_of(boot_id).map(|_| self.findings.clone());
        findings.unwrap_or_default()
    }

    /// What a history starts from. Without the same boot id that is only what outlives a reboot.
    pub fn memory_to_restore(&self, boot_id: Option<&str>) -> Memory {
        self.memory_of(boot_id).cloned().unwrap_or_else(|| Memory {
            remembered: self.memory.remembered.clone(),
            ..Memory::default()
        })
    }

    /// The history's memory, if the file is of this boot.
    pub fn memory_of(&self, boot_id: Option<&str>) -> Option<&Memory> {
        let same = boot_id.is_some() && self.memory.boot_id.as_deref() == boot_id;
        same.then_some(&self.memory)
    }
}

impl StateDir {
    /// State below `dir`. Nothing is touched yet.
    pub fn new(dir: Option<&Path>) -> Self {
        StateDir(dir.map(Path::to_path_buf))
    }

    /// Makes the directory if it is missing.
    pub fn prepare(&self) {
        if let Some(dir) = &self.0
            && let Err(error) = std::fs::create_dir_all(dir)
        {
            tracing::warn!(dir = %dir.display(), %error, "cannot create the state directory; a restart of the agent will forget what it saw");
        }
    }

    /// Asks the agent to forget what it remembers to be better.
    ///
    /// # Errors
    /// Why the request could not be left in the directory.
    pub fn accept(&self) -> io::Result<()> {
        let no_directory = || io::Error::other("no state directory is set (agent.state_dir)");
        let file = self.file(ACCEPT).ok_or_else(no_directory)?;
        std::fs::write(file, "")
    }

    /// Takes the request back once it is granted.
    fn take_accept(&self) -> bool {
        self.file(ACCEPT)
            .is_some_and(|file| std::fs::remove_file(file).is_ok())
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> Option<PathBuf> {
        self.0.as_ref().map(|dir| dir.join(name))
    }

    /// State of an earlier run; empty if the file is missing or damaged (logged).
    pub fn load(&self) -> Saved {
        let mut saved: Saved = self.read(FILE).unwrap_or_default();
        if self.file(ACCEPT).is_some_and(|file| file.exists()) {
            saved.memory.remembered.forget();
            saved.findings.clear();
        }
        saved
    }

    /// Reads a JSON file of the directory; `None` if it is missing, damaged or of another version
    /// (logged).
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let path = self.file(name)?;
        match read_regular(&path, MAX).and_then(|bytes| parse(&bytes)) {
            Ok(value) => Some(value),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "state file ignored");
                None
            }
        }
    }

    /// Replaces a file of the directory, whole or not at all. The directory is made again if it was
    /// removed.
    ///
    /// # Errors
    /// Why it could not be; the old file is as it was.
    fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let Some(path) = self.file(name) else {
            return Ok(());
        };
        replace(&path, content, None).or_else(|error| match (error.kind(), &self.0) {
            (io::ErrorKind::NotFound, Some(dir)) => {
                std::fs::create_dir_all(dir)?;
                replace(&path, content, None)
            }
            _ => Err(error),
        })
    }
}

#[derive(Deserialize)]
struct FileVersion {
    version: u32,
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    match serde_json::from_slice::<FileVersion>(bytes)?.version {
        VERSION => Ok(serde_json::from_slice(bytes)?),
        version => Err(io::Error::other(format!("it is of version {version}"))),
    }
}

/// Writes state on a thread of its own: a hung disk holds up nothing. One write is in flight at most;
/// of each file the latest content waits.
#[derive(Debug, Clone)]
pub struct Saver(Arc<SaverInner>);

#[derive(Debug)]
struct SaverInner {
    dir: StateDir,
    queue: Mutex<Queue>,
    changed: Condvar,
    accepted: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: BTreeMap<&'static str, Vec<u8>>,
    writing: bool,
    closed: bool,
}

impl Saver {
    /// For the files of a directory.
    pub fn new(dir: StateDir) -> Self {
        Saver(Arc::new(SaverInner {
            dir,
            queue: Mutex::default(),
            changed: Condvar::new(),
            accepted: AtomicBool::new(false),
        }))
    }

    /// Body of the thread: writes until [`Saver::finish`]. `beat` is called at each turn. A file that
    /// cannot be written is tried again.
    pub fn run(&self, beat: impl Fn()) {
        let mut logged = String::new();
        loop {
            beat();
            if self.0.dir.take_accept() {
                self.0.accepted.store(true, Ordering::Relaxed);
            }
            let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.closed;
            let waited = (self.0.changed).wait_timeout_while(self.queue(), RETRY, idle);
            let mut queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            let Some((name, content)) = queue.waiting.pop_first() else {
                if queue.closed {
                    return;
                }
                continue;
            };
            queue.writing = true;
            drop(queue);
            let written = self.0.dir.write(name, &content);
            let mut queue = self.queue();
            queue.writing = false;
            let trouble = written.err().map(|error| error.to_string());
            if let Some(error) = &trouble {
                // Once for as long as it stays the same.
                if *error != logged {
                    tracing::warn!(%error, file = name, "cannot write the state directory; trying again");
                }
                if !queue.closed {
                    queue.waiting.entry(name).or_insert(content);
                    let closed = |queue: &mut Queue| !queue.closed;
                    drop((self.0.changed).wait_timeout_while(queue, RETRY, closed));
                }
            }
            logged = trouble.unwrap_or_default();
            self.0.changed.notify_all();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a file over to be written in place of any of its name that still waits.
    pub fn put(&self, name: &'static str, value: &impl Serialize) {
        let content = serde_json::to_vec(value).unwrap_or_default();
        self.queue().waiting.insert(name, content);
        self.0.changed.notify_all();
    }

    /// Whether somebody ran `selvage accept` since the last call.
    pub fn is_accepted(&self) -> bool {
        self.0.accepted.swap(false, Ordering::Relaxed)
    }

    /// Waits until all is written, for `patience` at most, and ends the thread.
    pub fn finish(&self, patience: Duration) {
        let mut queue = self.queue();
        queue.closed = true;
        self.0.changed.notify_all();
        let busy = |queue: &mut Queue| queue.writing || !queue.waiting.is_empty();
        let ended = (self.0.changed).wait_timeout_while(queue, patience, busy);
        if ended.is_ok_and(|(_, wait)| wait.timed_out()) {
            tracing::warn!("state files not written: the disk does not answer");
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "files of the test's own")]
mod tests {
    use super::*;
    use crate::units::DeviceKey;

    fn port() -> PortKey {
        PortKey {
            device: DeviceKey("0000:19:00.0".into()),
            port: 1,
        }
    }

    #[test]
    fn restricted_ports_are_remembered_for_the_same_boot_only() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(Some(dir.path()));
        let memory = Memory {
            boot_id: Some("a".into()),
            ..Memory::default()
        };
        save(&state, &Saved::new(memory, vec![port()], None));
        let saved = StateDir::new(Some(dir.path())).load();
        assert_eq!(saved.restricted_of(Some("a")), [port()]);
        assert!(saved.restricted_of(Some("b")).is_empty());
        assert!(saved.restricted_of(None).is_empty());
        assert!(saved.memory_of(Some("a")).is_some());
        assert!(saved.memory_of(Some("b")).is_none());
        assert!(Saved::default().memory_of(None).is_none());
    }

    /// As the thread does it.
    fn save(state: &StateDir, saved: &Saved) {
        let saver = Saver::new(state.clone());
        saver.put(FILE, saved);
        saver.finish(Duration::ZERO);
        saver.run(|| ());
    }

    #[test]
    fn a_hung_disk_holds_up_nothing_and_the_latest_content_waits() {
        let dir = tempfile::tempdir().unwrap();
        let saver = Saver::new(StateDir::new(Some(dir.path())));
        for _ in 0..100 {
            saver.put(FILE, &Saved::default());
        }
        saver.put(FILE, &Saved::new(Memory::default(), vec![port()], None));
        assert_eq!(saver.queue().waiting.len(), 1);
        saver.finish(Duration::ZERO);
        assert!(!dir.path().join(FILE).exists(), "nothing was written yet");
        saver.run(|| ());
        let saved = StateDir::new(Some(dir.path())).load();
        assert_eq!(saved.restricted, [port()]);
    }

    #[test]
    fn a_file_is_replaced_through_no_link_and_in_a_directory_that_was_removed() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(Some(&dir.path().join("state")));
        save(&state, &Saved::default());
        let foreign = dir.path().join("foreign");
        std::fs::write(&foreign, "as it was").unwrap();
        std::os::unix::fs::symlink(&foreign, dir.path().join("state/memory.new")).unwrap();
        save(&state, &Saved::new(Memory::default(), vec![port()], None));
        assert_eq!(std::fs::read_to_string(&foreign).unwrap(), "as it was");
        assert_eq!(state.load().restricted, [port()]);
    }

    #[test]
    fn a_write_that_failed_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(Some(dir.path()));
        // Nothing replaces a directory.
        let new = dir.path().join("memory.new");
        std::fs::create_dir(&new).unwrap();
        assert!(state.write(FILE, b"{}").is_err());
        std::fs::remove_dir(&new).unwrap();
        assert!(state.write(FILE, b"{}").is_ok());
    }

    #[test]
    fn an_accepted_machine_is_forgotten_once() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(Some(dir.path()));
        let saver = Saver::new(state.clone());
        state.accept().unwrap();
        saver.finish(Duration::ZERO);
        saver.run(|| ());
        assert!(saver.is_accepted() && !saver.is_accepted());
        assert!(!dir.path().join(ACCEPT).exists());
        assert!(StateDir::new(None).accept().is_err());
    }

    #[test]
    fn only_a_regular_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let state = StateDir::new(Some(dir.path()));
        assert_eq!(state.load(), Saved::default());
        save(&state, &Saved::new(Memory::default(), vec![port()], None));
        assert_eq!(state.load().restricted, [port()], "and gives way");
    }

    #[test]
    fn without_a_boot_id_nothing_is_restored() {
        let saved = |boot_id: Option<&str>| {
            let memory = Memory {
                boot_id: boot_id.map(Into::into),
                gpus: vec!["0000:18:00.0".into()],
                ..Memory::default()
            };
            Saved::new(memory, vec![port()], None)
        };
        for (then, now, back) in [
            (None, None, 0),
            (Some("a"), None, 0),
            (None, Some("a"), 0),
            (Some("b"), Some("a"), 0),
            (Some("a"), Some("a"), 1),
        ] {
            let saved = saved(then);
            assert_eq!(
                saved.memory_to_restore(now).gpus.len(),
                back,
                "{then:?} {now:?}"
            );
            assert_eq!(saved.restricted_of(now).len(), back, "{then:?} {now:?}");
        }
    }

    #[test]
    fn a_damaged_file_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(Some(dir.path()));
        for junk in ["", "{", "[]", "{\"version\":99}", "\u{0}\u{1}"] {
            std::fs::write(dir.path().join(FILE), junk).unwrap();
            assert_eq!(state.load(), Saved::default(), "{junk:?}");
        }
    }

    #[test]
    fn a_finding_of_another_version_costs_no_more_than_itself() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(Some(dir.path()));
        let memory = Memory {
            boot_id: Some("a".into()),
            ..Memory::default()
        };
        let mut saved = Saved::new(memory, vec![port()], None);
        saved.findings = vec![KeptFinding::from(crate::check::Finding::default())];
        let mut json = serde_json::to_value(&saved).unwrap();
        let mut of_later = json["findings"][0].clone();
        of_later["finding"]["action"] = "call_a_friend".into();
        json["findings"].as_array_mut().unwrap().push(of_later);
        std::fs::write(dir.path().join(FILE), json.to_string()).unwrap();
        let loaded = state.load();
        assert_eq!(loaded.findings_of(Some("a")).len(), 1);
        assert_eq!(loaded.findings_of(Some("b")).len(), 0);
        assert_eq!(loaded.restricted, [port()]);
        state.accept().unwrap();
        assert_eq!(state.load().findings_of(Some("a")).len(), 0);
    }
}
