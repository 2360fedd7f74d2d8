//! Sources of records: the kernel's device, or a growing file of records. (syslog(2) is `ring`.)

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::{decode, lines, record, silent, wrapper};

/// Larger than any record: `CONSOLE_EXT_LOG_MAX` was 8192 in older kernels, and a record that does
/// not fit is lost to the reader (EINVAL).
const RECORD_BUFFER: usize = 16 * 1024;

/// Bytes of one record line in a file beyond which it is dropped.
const FILE_LINE_LIMIT: usize = 64 * 1024;

/// Outcome of one attempt to read.
#[derive(Debug, PartialEq, Eq)]
pub enum Input {
    /// One record with its dictionary lines.
    Record {
        /// The text as read.
        text: String,
        /// Written after this source was opened, so certainly new.
        fresh: bool,
    },
    /// Nothing to read now.
    Empty,
    /// Records were overwritten before they were read; the next read goes on after them (EPIPE).
    Overrun,
    /// At least one record is gone: too large to read (EINVAL), a file's line beyond the limit, or
    /// for syslog(2) everything after the last line handled.
    Lost,
    /// A message of syslog(2), not handled before.
    Message(lines::SyslogMessage),
    /// The file was truncated or replaced and is read from its start.
    Restarted,
}

/// A source of records.
pub trait RecordInput: Send {
    /// Reads at most one record, without waiting.
    ///
    /// # Errors
    /// A failure that reading on will not repair.
    fn next(&mut self) -> io::Result<Input>;

    /// What to poll for readability; `None` if it must be read again after a pause.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Opens without waiting for the other end of a pipe.
fn open_file(path: &Path) -> io::Result<File> {
    let flags = (OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Opens the device, or a regular file in its place. `complete`: nothing more will be written, so that a last
/// line without an end is whole.
pub fn open(path: &Path, complete: bool) -> io::Result<Box<dyn RecordInput>> {
    let file = open_file(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() || kind.is_socket() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if kind.is_file() {
        return Ok(Box::new(GrowingFile::new(path, file, complete)?));
    }
    Ok(Box::new(Device {
        file,
        buffer: vec![0; RECORD_BUFFER],
    }))
}

/// `/dev/kmsg`: one read, one record.
struct Device {
    file: File,
    buffer: Vec<u8>,
}

impl RecordInput for Device {
    fn next(&mut self) -> io::Result<Input> {
        loop {
            return match self.file.read(&mut self.buffer) {
                // The kernel's log has no end: this is a null device, or a pipe without a writer.
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => record(self.buffer.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => classify(e),
            };
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// What one read gave, if it may be a record: those begin with a number.
fn record(bytes: &[u8]) -> io::Result<Input> {
    if !bytes.first().is_some_and(u8::is_ascii_digit) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, NOT_A_LOG));
    }
    let (text, fresh) = (lossy(bytes), false);
    Ok(Input::Record { text, fresh })
}

const NOT_A_LOG: &str = "it is not a kernel log";

/// The device's errors that are not failures (Documentation/ABI/testing/dev-kmsg).
fn classify(e: io::Error) -> io::Result<Input> {
    match e.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => Ok(Input::Empty),
        Some(Errno::EPIPE) => Ok(Input::Overrun),
        Some(Errno::EINVAL) => Ok(Input::Lost),
        _ => Err(e),
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A regular file that others append to, truncate or replace: of raw records, or of what other readers of
/// the log write (`dmesg`, the journal, syslog). A line is left in the file until it is whole.
struct GrowingFile {
    path: PathBuf,
    file: File,
    identity: (u64, u64),
    /// Bytes of this file that were read.
    offset: u64,
    /// Size when opened or truncated: what lies below was there before us.
    old_until: u64,
    /// Read but not yet returned.
    records: VecDeque<Input>,
    /// Inside a line that was too long.
    skipping: bool,
    /// What is there now does not go on where reading ended.
    rewritten: bool,
    complete: bool,
    lines: wrapper::Stripper,
    /// Number and stamp of the last record; lines without them are numbered here and have the stamp of the
    /// one before.
    last: Option<(u64, u64)>,
}

impl GrowingFile {
    fn new(path: &Path, file: File, complete: bool) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self {
            path: path.to_owned(),
            file,
            identity: (meta.dev(), meta.ino()),
            offset: 0,
            old_until: meta.len(),
            records: VecDeque::new(),
            skipping: false,
            rewritten: false,
            complete,
            lines: wrapper::Stripper::default(),
            last: None,
        })
    }

    /// Reads the next whole lines. False where there are none.
    fn read_more(&mut self) -> io::Result<bool> {
        if self.file.metadata()?.len() <= self.offset {
            return Ok(false);
        }
        // With the end of the line before: where there is none, the file was cut and has grown again.
        let before = usize::from(self.offset > 0 && !self.skipping);
        let mut chunk = vec![0; before + FILE_LINE_LIMIT];
        let read = (self.file).read_at(&mut chunk, self.offset - before as u64)?;
        let chunk = chunk.get(..read).unwrap_or_default();
        let (end, chunk) = chunk.split_at(before.min(read));
        if end.iter().any(|byte| *byte != b'\n') {
            self.rewritten = true;
            return Ok(false);
        }
        let chunk = match memchr::memrchr(b'\n', chunk) {
            Some(end) => chunk.get(..=end).unwrap_or_default(),
            None if chunk.len() < FILE_LINE_LIMIT && self.complete => chunk,
            None if chunk.len() < FILE_LINE_LIMIT => return Ok(false),
            None => {
                self.offset += chunk.len() as u64;
                self.skipping = true;
                return Ok(true);
            }
        };
        for line in chunk.split_inclusive(|byte| *byte == b'\n') {
            let fresh = self.offset >= self.old_until;
            self.offset += line.len() as u64;
            let line = lossy(line);
            match self.records.back_mut() {
                _ if std::mem::take(&mut self.skipping) => self.records.push_back(Input::Lost),
                Some(Input::Record { text, .. }) if record::is_dictionary_line(&line) => {
                    text.push_str(&line);
                }
                _ => {
                    let text = self.raw(&line);
                    (self.records).extend(text.map(|text| Input::Record { text, fresh }));
                }
            }
        }
        Ok(true)
    }

    /// A line as a raw record; `None` of one that is not the kernel's.
    fn raw(&mut self, line: &str) -> Option<String> {
        let line = line.trim_start_matches('\u{feff}');
        if let Some(record) = record::parse(line) {
            self.last = Some((record.seq, record.ts_us));
            return Some(line.to_owned());
        }
        let (stripped, line) = (self.lines.strip(line.trim_end()), line.trim());
        // Bare text is of the log if it says what only the log does.
        let speaks = |text: &str| decode(text, None).or_else(|| silent(text, None)).is_some();
        let stripped = stripped.filter(|found| found.text != line || speaks(line))?;
        let (last, before) = self.last.unwrap_or_default();
        let (seq, ts_us) = (last.saturating_add(1), stripped.stamp_us.unwrap_or(before));
        self.last = Some((seq, ts_us));
        let device = (stripped.device).map(|pci| format!(" DEVICE=+pci:{pci}\n"));
        Some(lines::raw_record(0, (seq, ts_us), &stripped.text) + &device.unwrap_or_default())
    }

    /// At the end of what is there. Where the path now holds another file, or this one was cut, it is
    /// read from its start.
    fn restart(&mut self) -> io::Result<Input> {
        // Between removal and replacement the open file may still grow; a pipe is not a log.
        let now = std::fs::metadata(&self.path).ok();
        let Some(now) = now.filter(std::fs::Metadata::is_file) else {
            return Ok(Input::Empty);
        };
        let same = (now.dev(), now.ino()) == self.identity;
        if same && !self.rewritten && now.len() >= self.offset {
            return Ok(Input::Empty);
        }
        // Numbers made up here go on, or what the new file holds counts as seen.
        let last = self.last;
        *self = Self {
            last,
            ..Self::new(&self.path, open_file(&self.path)?, self.complete)?
        };
        Ok(Input::Restarted)
    }
}

impl RecordInput for GrowingFile {
    fn next(&mut self) -> io::Result<Input> {
        loop {
            if let Some(input) = self.records.pop_front() {
                return Ok(input);
            }
            if !self.read_more()? {
                // More than an empty line, and no record. A growing file may still come to hold one.
                if self.complete && self.offset > 1 && self.last.is_none() {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, NOT_A_LOG));
                }
                return self.restart();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn record(text: &str, fresh: bool) -> Input {
        Input::Record {
            text: text.to_owned(),
            fresh,
        }
    }

    #[test]
    fn errno_of_the_device() {
        let of = |e: Errno| classify(io::Error::from_raw_os_error(e as i32)).ok();
        assert_eq!(of(Errno::EAGAIN), Some(Input::Empty));
        assert_eq!(of(Errno::EPIPE), Some(Input::Overrun));
        assert_eq!(of(Errno::EINVAL), Some(Input::Lost));
        assert_eq!(of(Errno::EIO), None);
    }

    #[test]
    fn a_file_grows_is_cut_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kmsg");
        std::fs::write(&path, "3,1,1,-;a\n SUBSYSTEM=pci\n3,2,1,-;b\n3,3,1").unwrap();
        let mut input = open(&path, false).unwrap();
        let mut next = || input.next().unwrap();
        assert_eq!(next(), record("3,1,1,-;a\n SUBSYSTEM=pci\n", false));
        assert_eq!(next(), record("3,2,1,-;b\n", false));
        assert_eq!(next(), Input::Empty);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b",-;c\n3,4,1,-;d\n").unwrap();
        assert_eq!(next(), record("3,3,1,-;c\n", false));
        assert_eq!(next(), record("3,4,1,-;d\n", true));
        std::fs::write(&path, "3,5,1,-;e\n").unwrap();
        assert_eq!(next(), Input::Restarted);
        assert_eq!(next(), record("3,5,1,-;e\n", false));
        // Cut, and longer than before by the next read.
        let longer = "3,6,1,-;ff\n3,7,1,-;gg\n";
        std::fs::write(&path, longer).unwrap();
        assert_eq!(next(), Input::Restarted);
        assert_eq!(next(), record("3,6,1,-;ff\n", false));
        assert_eq!(next(), record("3,7,1,-;gg\n", false));
        let other = dir.path().join("new");
        std::fs::write(&other, "3,6,1,-;f\n").unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(next(), Input::Empty);
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(next(), Input::Restarted);
        assert_eq!(next(), record("3,6,1,-;f\n", false));
    }

    #[test]
    fn a_line_without_end_is_dropped_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kmsg");
        let long = "x".repeat(3 * FILE_LINE_LIMIT);
        std::fs::write(&path, format!("3,1,1,-;{long}\n3,2,1,-;b\n")).unwrap();
        let mut input = open(&path, false).unwrap();
        assert_eq!(input.next().unwrap(), Input::Lost);
        assert_eq!(input.next().unwrap(), record("3,2,1,-;b\n", false));
    }

    #[test]
    fn what_is_no_kernel_log() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [Path::new("/dev/null"), Path::new("/dev/zero"), &pipe] {
            assert!(
                open(path, false).unwrap().next().is_err(),
                "{}",
                path.display()
            );
        }
        // A pipe that is written is read, until its writer goes.
        let mut input = open(&pipe, false).unwrap();
        let mut writer = OpenOptions::new().write(true).open(&pipe).unwrap();
        assert_eq!(input.next().unwrap(), Input::Empty);
        writer.write_all(b"3,1,1,-;a\n").unwrap();
        assert_eq!(
            input.next().unwrap(),
            super::record(b"3,1,1,-;a\n").unwrap()
        );
        drop(writer);
        assert!(input.next().is_err());
    }

    #[test]
    fn what_cannot_be_opened() {
        let dir = tempfile::tempdir().unwrap();
        assert!(open(dir.path(), false).is_err());
        let missing = open(&dir.path().join("none"), false).err().unwrap();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
