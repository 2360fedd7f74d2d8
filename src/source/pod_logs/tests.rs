mod bounds;
mod hostile;
mod links;
mod random;
mod resume;
mod rotation;

use super::*;
use crate::host::Host;
use crate::units::Millis;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

pub(super) const POD: &str = "ns_pod_0b7a";

/// What came of following.
#[derive(Default)]
pub(super) struct Came {
    pub(super) lines: Vec<(String, u32, String)>,
    pub(super) lost: Vec<u64>,
    pub(super) gone: Vec<String>,
    /// The next line continues a split one.
    open: bool,
}

impl Sink for Came {
    fn wants(&self, _: &Container, chunk: &[u8], from: usize) -> Option<usize> {
        let rest = &chunk[from..];
        if self.open {
            return (!rest.is_empty()).then_some(from);
        }
        let found =
            ["NCCL", "t P ", "r P "].map(|word| memchr::memmem::find(rest, word.as_bytes()));
        found.into_iter().flatten().min().map(|at| from + at)
    }

    fn line(&mut self, container: &Container, line: &[u8]) {
        let line = String::from_utf8_lossy(line).into_owned();
        self.open = line.contains("Z stdout P ") || self.open && !line.contains("Z stdout F ");
        let key = &container.key;
        self.lines.push((
            format!("{}/{}", key.pod, key.container),
            container.restart,
            line,
        ));
    }

    fn lost(&mut self, _: &Container, bytes: u64) {
        self.lost.push(bytes);
    }

    fn gone(&mut self, container: &Container) {
        self.gone.push(container.key.container.clone());
    }
}

pub(super) struct Rig {
    pub(super) dir: tempfile::TempDir,
    pub(super) options: Options,
    pub(super) follower: Follower,
    pub(super) came: Came,
    pub(super) now: u64,
}

impl Rig {
    pub(super) fn new(change: impl FnOnce(&mut Options)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("var/log/pods")).unwrap();
        let mut options = Options::new(&Host::new(dir.path()), "var/log/pods");
        change(&mut options);
        Rig {
            follower: Follower::new(options.clone()),
            options,
            dir,
            came: Came::default(),
            now: 1000,
        }
    }

    /// A path in the usual container's directory, which is made.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let dir = self.dir.path().join("var/log/pods").join(POD).join("main");
        fs::create_dir_all(&dir).unwrap();
        dir.join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        append(&self.path(name), text);
    }

    pub(super) fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    pub(super) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    /// What the kubelet does with a rotated file at the next rotation.
    pub(super) fn pack(&self, name: &str) {
        pack(&self.path(name));
    }

    pub(super) fn poll(&mut self) -> PollStats {
        self.now += 80;
        self.follower.poll(Millis(self.now), &mut self.came)
    }

    /// Looks for some seconds.
    pub(super) fn settle(&mut self) -> PollStats {
        for _ in 0..40 {
            self.now += 200;
            self.poll();
        }
        self.poll()
    }

    /// The agent is not there until the next look.
    pub(super) fn restart(&mut self) {
        let text = serde_json::to_string(&self.follower.state()).unwrap();
        let mut options = self.options.clone();
        options.resume = Some(serde_json::from_str(&text).unwrap());
        self.follower = Follower::new(options);
    }

    /// The lines that came since the last time.
    pub(super) fn lines(&mut self) -> Vec<String> {
        let lines = std::mem::take(&mut self.came.lines);
        lines.into_iter().map(|(_, _, line)| line).collect()
    }
}

pub(super) fn append(path: &Path, text: &str) {
    let file = File::options().append(true).create(true).open(path);
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

pub(super) fn pack(path: &Path) {
    let mut packed = path.as_os_str().to_os_string();
    packed.push(".gz");
    let out = File::create(&packed).unwrap();
    let mut packer = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
    packer.write_all(&fs::read(path).unwrap()).unwrap();
    packer.finish().unwrap();
    fs::remove_file(path).unwrap();
}
