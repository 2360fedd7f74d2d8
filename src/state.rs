//! State that outlives a restart of the agent, as one small JSON file. Losing it costs the memory
//! of this boot, nothing else.

use crate::observe::history::Memory;
use crate::source::kernel_log::state::ResumeState;
use crate::units::PortKey;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

const FILE: &str = "memory.json";
/// `selvage accept` puts it there: what is remembered to be better is to be forgotten.
const ACCEPT: &str = "accept";
const VERSION: u32 = 1;
/// Longest state file read.
const MAX: u64 = 8 << 20;

/// The state directory; without one nothing is kept.
#[derive(Debug, Clone)]
pub struct StateDir(Option<PathBuf>);

/// Content of the state file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    version: u32,
    /// The history's memory of this boot.
    pub memory: Memory,
    /// Ports whose PMA counters must not be opened, for the memory's boot.
    pub restricted: Vec<PortKey>,
    /// How far the kernel log was read with its events recorded in `memory`.
    pub kernel_log: Option<ResumeState>,
}

impl Saved {
    /// The state to write now.
    pub fn new(memory: Memory, restricted: Vec<PortKey>, kernel_log: Option<ResumeState>) -> Self {
        Saved {
            version: VERSION,
            memory,
            restricted,
            kernel_log,
        }
    }

    /// Restricted ports, if the file is of this boot: firmware or privileges may change over a
    /// reboot.
    pub fn restricted_of(&self, boot_id: Option<&str>) -> Vec<PortKey> {
        match self.memory_of(boot_id) {
            Some(_) => self.restricted.clone(),
            None => Vec::new(),
        }
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
        }
        match saved.version {
            VERSION => saved,
            0 => Saved::default(),
            version => {
                tracing::warn!(file = FILE, version, "state file ignored");
                Saved::default()
            }
        }
    }

    /// Reads a JSON file of the directory; `None` if it is missing or damaged (logged).
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let path = self.file(name)?;
        let read = || -> io::Result<T> {
            let mut text = String::new();
            let file = std::fs::File::options()
                .read(true)
                .custom_flags(nix::libc::O_NONBLOCK)
                .open(&path)?;
            if !file.metadata()?.is_file() {
                return Err(io::Error::other("not a regular file"));
            }
            file.take(MAX).read_to_string(&mut text)?;
            Ok(serde_json::from_str(&text)?)
        };
        match read() {
            Ok(value) => Some(value),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "state file ignored");
                None
            }
        }
    }

    /// Writes the state file.
    ///
    /// # Errors
    /// As [`StateDir::write`].
    pub fn save(&self, saved: &Saved) -> io::Result<()> {
        self.write(FILE, saved)
    }

    /// Replaces a file of the directory, whole or not at all.
    ///
    /// # Errors
    /// Why it could not be; the old file is as it was.
    pub fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        let Some(path) = self.file(name) else {
            return Ok(());
        };
        let new = path.with_extension("new");
        let mut file = std::fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.sync_data()?;
        std::fs::rename(&new, &path)
    }
}

/// Writes state on a thread of its own: a hung disk does not hold up the agent.
pub struct Saver {
    queue: mpsc::SyncSender<Option<Saved>>,
    ended: mpsc::Receiver<()>,
    accepted: mpsc::Receiver<()>,
}

impl Saver {
    /// Starts the thread that writes into `state`.
    pub fn start(state: StateDir) -> Self {
        let (queue, saved) = mpsc::sync_channel::<Option<Saved>>(1);
        let (accept, accepted) = mpsc::sync_channel::<()>(1);
        let (end, ended) = mpsc::channel::<()>();
        crate::blocking::spawn("state", move || {
            let mut logged = String::new();
            for saved in saved {
                if state.take_accept() {
                    let _ = accept.try_send(());
                }
                let Some(saved) = saved else {
                    continue;
                };
                let trouble = state.save(&saved).err().map(|error| error.to_string());
                // Once for as long as it stays the same.
                if let Some(error) = trouble.as_ref().filter(|error| **error != logged) {
                    tracing::warn!(%error, "cannot write the state file");
                }
                logged = trouble.unwrap_or_default();
            }
            drop(end);
        });
        Saver {
            queue,
            ended,
            accepted,
        }
    }

    /// Hands `saved` over to be written. False if the last one is still being waited for: try
    /// again later.
    pub fn save(&self, saved: Saved) -> bool {
        self.queue.try_send(Some(saved)).is_ok()
    }

    /// Has the directory looked at for `selvage accept`. The answer comes with a later call of
    /// [`Saver::is_accepted`].
    pub fn look(&self) {
        let _ = self.queue.try_send(None);
    }

    /// Whether somebody ran `selvage accept` since the last call.
    pub fn is_accepted(&self) -> bool {
        self.accepted.try_recv().is_ok()
    }

    /// Waits until all is written, for `patience` at most.
    pub fn finish(self, patience: Duration) {
        drop(self.queue);
        if let Err(mpsc::RecvTimeoutError::Timeout) = self.ended.recv_timeout(patience) {
            tracing::warn!("state file not written: the disk does not answer");
        }
    }
}

#[cfg(test)]
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
        state.save(&Saved::new(memory, vec![port()], None)).unwrap();
        let saved = StateDir::new(Some(dir.path())).load();
        assert_eq!(saved.restricted_of(Some("a")), [port()]);
        assert!(saved.restricted_of(Some("b")).is_empty());
        assert!(saved.restricted_of(None).is_empty());
        assert!(saved.memory_of(Some("a")).is_some());
        assert!(saved.memory_of(Some("b")).is_none());
        assert!(Saved::default().memory_of(None).is_none());
    }

    #[test]
    fn a_hung_disk_does_not_hold_up_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        // Opening a pipe that has no reader blocks, as a dead disk does.
        let path = dir.path().join("memory.new");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let saver = Saver::start(StateDir::new(Some(dir.path())));
        let mut taken = 0;
        for _ in 0..100 {
            taken += usize::from(saver.save(Saved::default()));
        }
        assert!((1..=2).contains(&taken), "{taken}");
        saver.finish(Duration::ZERO);
        // Let the thread go.
        drop(std::fs::OpenOptions::new().read(true).open(&path).unwrap());
    }

    #[test]
    fn what_was_handed_over_is_written_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let saver = Saver::start(StateDir::new(Some(dir.path())));
        assert!(saver.save(Saved::new(Memory::default(), vec![port()], None)));
        saver.finish(Duration::from_secs(30));
        let saved = StateDir::new(Some(dir.path())).load();
        assert_eq!(saved.restricted, [port()]);
    }

    #[test]
    fn an_accepted_machine_is_forgotten_once() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(Some(dir.path()));
        let saver = Saver::start(state.clone());
        state.accept().unwrap();
        saver.look();
        assert!(saver.accepted.recv_timeout(Duration::from_secs(30)).is_ok());
        assert!(!dir.path().join(ACCEPT).exists());
        saver.finish(Duration::from_secs(30));
        assert!(StateDir::new(None).accept().is_err());
    }

    #[test]
    fn only_a_regular_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let state = StateDir::new(Some(dir.path()));
        assert_eq!(state.load(), Saved::default());
        state
            .save(&Saved::new(Memory::default(), vec![port()], None))
            .unwrap();
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
}
