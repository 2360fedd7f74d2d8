//! A container's log that is written, rotated, packed, removed, cut and begun again between polls, in any
//! order and with any bytes: no panic and no line beyond the limit; where files were neither cut nor forged, no
//! line that was not written, and none twice, over a restart of the agent as well.
#![no_main]

use libfuzzer_sys::fuzz_target;
use selvage::host::Host;
use selvage::source::pod_logs::{Container, Follower, Options, Sink};
use selvage::units::Millis;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

const DIRECTORY: &str = "var/log/pods/ml_train_0f8fad5b-d9cb-469f-a165-70867728950e/main";

/// Longest line that is handed over, in bytes.
const LONGEST: usize = 120;

#[derive(Default)]
struct Came {
    lines: Vec<Vec<u8>>,
}

impl Sink for Came {
    fn wants(&self, _: &Container, chunk: &[u8], from: usize) -> Option<usize> {
        chunk
            .get(from..)?
            .iter()
            .position(|byte| *byte == b'%')
            .map(|at| from + at)
    }

    fn line(&mut self, _: &Container, line: &[u8]) {
        self.lines.push(line.to_vec());
    }

    fn lost(&mut self, _: &Container, _: u64) {}

    fn gone(&mut self, _: &Container) {}
}

struct Log {
    directory: PathBuf,
    restart: u32,
    rotated: u32,
    written: BTreeSet<Vec<u8>>,
    /// Files were cut, or made by others than the runtime.
    spoilt: bool,
}

impl Log {
    fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.log", self.restart))
    }

    /// A line like no other.
    fn write(&mut self, text: &[u8]) {
        let mut line = format!("%{}%", self.written.len()).into_bytes();
        line.extend(text.iter().filter(|byte| **byte != b'\n'));
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path());
        let Ok(mut log) = log else { return };
        self.written.insert(line.clone());
        line.push(b'\n');
        let _ = log.write_all(&line);
    }

    fn rotate(&mut self) {
        self.rotated += 1;
        let aside = format!("{}.log.20260501-{:06}", self.restart, self.rotated);
        let _ = fs::rename(self.path(), self.directory.join(aside));
    }

    /// The file that comes at this place in the directory's order.
    fn any(&self, number: u8) -> Option<PathBuf> {
        let files = fs::read_dir(&self.directory).ok()?.flatten();
        let mut files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
        files.sort();
        files.get(usize::from(number) % files.len().max(1)).cloned()
    }
}

fn step(log: &mut Log, what: u8, text: &[u8]) {
    match what % 8 {
        0..3 => log.write(text),
        3 => log.rotate(),
        4 => {
            log.restart = (log.restart + 1).min(9);
            log.write(text);
        }
        5 => drop(log.any(what / 8).map(fs::remove_file)),
        // Junk under any name: a packed file that is none, a name of another kind.
        6 => {
            log.spoilt = true;
            let name = String::from_utf8_lossy(text).replace(['/', '\0'], "_");
            let name = name.chars().take(40).collect::<String>();
            let _ = fs::write(
                log.directory.join(format!("{}.log{name}", log.restart)),
                text,
            );
        }
        _ => {
            log.spoilt = true;
            if let Some(path) = log.any(what / 8)
                && let Ok(file) = OpenOptions::new().write(true).open(path)
            {
                let _ = file.set_len(u64::from(what / 8));
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let root = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let directory = root.path().join(DIRECTORY);
    fs::create_dir_all(&directory).unwrap();
    let mut options = Options::new(&Host::new(root.path()), "var/log/pods");
    (
        options.longest_line,
        options.buffer,
        options.share,
        options.backlog,
    ) = (LONGEST, 150, 90, 300);
    let mut log = Log {
        directory,
        restart: 0,
        rotated: 0,
        written: BTreeSet::new(),
        spoilt: false,
    };
    let mut follower = Follower::new(options.clone());
    let mut came = Came::default();
    let mut now = 1000;
    let steps = bytes.split(|byte| *byte == b'\n').take(48);
    for (what, text) in steps.filter_map(<[u8]>::split_first) {
        step(&mut log, *what, text.get(..60).unwrap_or(text));
        if what & 0x80 == 0 {
            now += 80;
            follower.poll(Millis(now), &mut came);
        }
    }
    for _ in 0..24 {
        now += 400;
        follower.poll(Millis(now), &mut came);
    }
    follower.finish(&mut came);
    let state = serde_json::to_vec(&follower.state()).unwrap();
    options.resume = serde_json::from_slice(&state).ok();
    Follower::new(options).poll(Millis(now + 400), &mut came);
    assert!(
        came.lines
            .iter()
            .all(|line| line.len() <= LONGEST && !line.contains(&b'\n'))
    );
    let once: BTreeSet<_> = came.lines.iter().cloned().collect();
    assert!(
        log.spoilt || once.len() == came.lines.len() && once.is_subset(&log.written),
        "{:?}",
        came.lines
    );
});
