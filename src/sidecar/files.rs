//! NCCL's log files in one directory: each process writes one (`NCCL_DEBUG_FILE`), `%h.%p.log` or
//! with the container's name in front.

use crate::host::Host;
use crate::observe::{Reading, nccl::NcclLog, nccl::log::LogLimits};
use crate::source::nccl::Reader;
use crate::source::pod_logs::{Container, Follower, Layout, Options, PollStats, Sink};
use crate::units::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most files followed; a node has 8 or 16 GPUs, with a process each.
const MAX_FILES: usize = 1024;

/// Most containers, by the names of files.
const MAX_CONTAINERS: usize = 16;

/// A file of this name says that the job is done.
const DONE: &str = "done";

/// The files of a directory, and what they say.
pub(super) struct Files {
    dir: PathBuf,
    pub(super) follower: Follower,
    collected: Collected,
    /// Why a file cannot be read.
    fault: Option<String>,
}

/// Lines so far.
#[derive(Default)]
struct Collected {
    /// Container of files whose names do not tell it.
    container: String,
    readers: BTreeMap<String, Reader>,
    logs: BTreeMap<String, NcclLog>,
    read_at: Option<jiff::Timestamp>,
    /// Why lines are passed over.
    fault: Option<String>,
}

impl Files {
    /// Nothing is opened yet. `container` owns the files whose names do not tell their container.
    pub(super) fn new(dir: &Path, container: &str) -> Self {
        let dir = &std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
        let options = Options {
            layout: Layout::Flat,
            containers: MAX_FILES,
            list_every: Duration::from_secs(1),
            ..Options::new(&Host::new("/"), dir)
        };
        Files {
            dir: dir.to_path_buf(),
            follower: Follower::new(options),
            collected: Collected {
                container: container.to_string(),
                ..Collected::default()
            },
            fault: None,
        }
    }

    /// State of each container's NCCL (empty name: unknown container).
    pub(super) fn logs(&self) -> &BTreeMap<String, NcclLog> {
        &self.collected.logs
    }

    /// Whether the job was declared done.
    pub(super) fn is_done(&self) -> bool {
        (std::fs::symlink_metadata(self.dir.join(DONE))).is_ok_and(|meta| meta.is_file())
    }

    /// Processes that have a file, by the files' names.
    pub(super) fn pids(&self) -> BTreeSet<u32> {
        #[expect(clippy::disallowed_methods, reason = "the job shares this directory")]
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        (names.take(4 * MAX_FILES))
            .filter_map(|name| pid_of(&name))
            .collect()
    }

    /// Reads what is new; also why the directory or a file cannot be read, if so. A file that cannot be
    /// read does not block the others.
    pub(super) fn poll(
        &mut self,
        now: Millis,
        read_at: Option<jiff::Timestamp>,
    ) -> (PollStats, Option<String>) {
        self.collected.read_at = read_at;
        let stats = self.follower.poll(now, &mut self.collected);
        let root = match &stats.root {
            Reading::Value(()) => None,
            Reading::Failed(fault) => Some(fault.detail.clone()),
            _ => Some(format!("{}: no such directory", self.dir.display())),
        };
        if stats.fault.is_some() || stats.unreadable == 0 {
            self.fault = stats.fault.as_ref().map(|fault| fault.detail.clone());
        }
        let file = || self.fault.clone().or_else(|| self.collected.fault.clone());
        (stats, root.or_else(file))
    }

    /// Ends what does not end in a newline: nothing more will be written.
    pub(super) fn finish(&mut self) {
        let collected = &mut self.collected;
        self.follower.finish(collected);
        for (name, reader) in &mut collected.readers {
            let container = container_of(name).unwrap_or(&collected.container);
            if let Some(log) = collected.logs.get_mut(container) {
                reader.finish(log, None);
            }
        }
    }
}

impl Sink for Collected {
    /// These files hold nothing but NCCL's lines.
    fn wants(&self, _: &Container, _: &[u8], from: usize) -> Option<usize> {
        Some(from)
    }

    fn line(&mut self, file: &Container, line: &[u8]) {
        let name = &file.key.container;
        if name == DONE {
            return;
        }
        let container = container_of(name).unwrap_or(&self.container);
        if self.logs.len() >= MAX_CONTAINERS && !self.logs.contains_key(container) {
            self.fault = Some(format!("{name}: more than {MAX_CONTAINERS} containers"));
            return;
        }
        let log = (self.logs.entry(container.to_string()))
            .or_insert_with(|| NcclLog::new(LogLimits::CONTAINER));
        let reader = self.readers.entry(name.clone()).or_default();
        reader.take_line(line, log, self.read_at);
    }

    fn lost(&mut self, file: &Container, _: u64) {
        self.gone(file);
    }

    fn gone(&mut self, file: &Container) {
        self.readers.remove(&file.key.container);
    }
}

/// `CONTAINER.HOST.PID.log`: hosts are cut at their first dot, and containers' names are DNS labels.
fn container_of(name: &str) -> Option<&str> {
    let mut parts = name.strip_suffix(".log")?.split('.');
    let (container, _, pid) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = parts.next().is_none() && pid.parse::<u32>().is_ok();
    (whole && crate::units::is_dns_label(container)).then_some(container)
}

fn pid_of(name: &str) -> Option<u32> {
    let stem = name.strip_suffix(".log").unwrap_or(name);
    stem.rsplit('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::nccl::{Fallback, JobContext, judge};
    use std::fs;

    const CHANNEL: &str = "n1:7:8 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/";

    fn fallback(files: &Files, container: &str) -> Fallback {
        judge(&files.logs()[container], &JobContext::default()).tcp_fallback
    }

    /// Bytes that a second of polling gives.
    fn read(files: &mut Files, now: &mut u64) -> u64 {
        let mut bytes = 0;
        for _ in 0..16 {
            *now += 80;
            let (stats, fault) = files.poll(Millis(*now), None);
            assert_eq!(fault, None);
            bytes += stats.bytes;
        }
        bytes
    }

    #[test]
    fn grown_new_cut_back_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = Files::new(dir.path(), "");
        let mut now = 0;
        assert_eq!(read(&mut files, &mut now), 0);
        let file = dir.path().join("n1.7.log");
        fs::write(&file, format!("{CHANNEL}Soc")).unwrap();
        read(&mut files, &mut now);
        assert!(files.logs().is_empty(), "half a line");
        fs::write(&file, format!("{CHANNEL}Socket/0\n")).unwrap();
        read(&mut files, &mut now);
        assert_eq!(fallback(&files, ""), Fallback::Yes);
        // A second container's own.
        let other = dir.path().join("trainer.n1.9.log");
        fs::write(&other, format!("{CHANNEL}IB/0\n")).unwrap();
        read(&mut files, &mut now);
        assert_eq!(fallback(&files, "trainer"), Fallback::No);
        assert_eq!(files.pids(), [7, 9].into());
        // Cut back: read from the start.
        fs::write(&other, "n1:9:9 [0] NCCL INFO Using network IB\n").unwrap();
        assert_eq!(read(&mut files, &mut now), 38);
        assert_eq!(read(&mut files, &mut now), 0);
        // Replaced.
        fs::remove_file(&other).unwrap();
        fs::write(&other, "n1:9:9 [1] NCCL INFO Using network IB\n").unwrap();
        assert_eq!(read(&mut files, &mut now), 38);
        assert!(!files.is_done());
        fs::write(dir.path().join("done"), "").unwrap();
        assert!(files.is_done());
    }

    #[test]
    fn the_last_line_may_lack_its_newline() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("n1.7.log"), format!("{CHANNEL}Socket/0")).unwrap();
        let mut files = Files::new(dir.path(), "");
        read(&mut files, &mut 0);
        files.finish();
        assert_eq!(fallback(&files, ""), Fallback::Yes);
    }

    #[test]
    fn what_is_not_a_file_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&dir.path().join("a.1.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(dir.path().join("b.2.log")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("c.3.log")).unwrap();
        let mut files = Files::new(dir.path(), "");
        let (stats, fault) = files.poll(Millis(1), None);
        assert_eq!((stats.bytes, stats.behind, fault), (0, 0, None));
        let mut gone = Files::new(&dir.path().join("none"), "");
        assert!(gone.poll(Millis(1), None).1.is_some());
    }

    #[test]
    fn names() {
        for (name, container, pid) in [
            ("node-1.42.log", None, Some(42)),
            ("trainer.node-1.42.log", Some("trainer"), Some(42)),
            ("tra\u{202e}ner.node-1.42.log", None, Some(42)),
            ("a.b.c.42.log", None, Some(42)),
            ("trainer.node-1.x.log", None, None),
            ("nccl.txt", None, None),
            ("", None, None),
        ] {
            assert_eq!(
                (container_of(name), pid_of(name)),
                (container, pid),
                "{name}"
            );
        }
    }
}
