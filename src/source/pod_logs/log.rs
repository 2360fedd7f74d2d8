//! One container's log: which of its files is read, how far, and when it is checked again.

use super::input::{self, LogInput, ReadSlot, Then};
use super::{
    Container, FileId, Fingerprint, Found, Layout, LogListing, Mark, Options, Point, PollStats,
    Sink, is_gone, listing,
};
use crate::observe::{Fault, Reading};
use crate::source::tree::classify;
use crate::units::Millis;
use memchr::{memchr, memrchr};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Interval of checks whether a log has changed.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Interval at which a directory is listed though its modification time says that nothing changed.
const RELIST_EVERY: Duration = Duration::from_secs(15);

/// How long a rotated file is read on after its last line: the runtime may still be writing to it
/// while the new one is there.
const LINGER: Duration = Duration::from_millis(500);

/// Polls in a row that find nothing before a file is left to the checks, its descriptor closed.
const QUIET_POLLS: u8 = 8;

/// What all logs share.
pub(super) struct Tools {
    /// Moment of this poll.
    pub(super) now: Millis,
    pub(super) options: Options,
    pub(super) buf: Vec<u8>,
    pub(super) stats: PollStats,
    /// Files held open.
    pub(super) open: ReadSlot,
    /// Of these, compressed ones. Each takes some 50 KiB.
    pub(super) unpacking: ReadSlot,
}

/// Number of those that hold a slot.
pub(super) fn taken(slot: &ReadSlot) -> usize {
    Arc::strong_count(slot) - 1
}

/// The file that is read.
pub(super) struct OpenFile {
    pub(super) path: PathBuf,
    pub(super) id: FileId,
    /// The first line that is not handled yet.
    pub(super) place: Point,
    pub(super) device: u64,
    pub(super) compressed: bool,
    /// Where the last read ended: the beginning of a line may lie between.
    pub(super) end: u64,
    /// It is compressed and was read to its end.
    pub(super) spent: bool,
    pub(super) input: LogInput,
}

/// One container's log.
#[derive(Default)]
pub(super) struct Log {
    pub(super) who: Container,
    /// The container's directory; in a flat layout, the file itself.
    dir: PathBuf,
    /// Modification time of the directory that was listed.
    listed: Option<SystemTime>,
    relist_at: Millis,
    /// Something changed: the directory is listed at the next turn.
    pub(super) changed: bool,
    /// Begin with the current file; otherwise with the oldest.
    pub(super) newest: bool,
    /// Without a file: where an earlier run stopped.
    pub(super) resume: Option<Point>,
    pub(super) file: Option<OpenFile>,
    /// Stamp of the youngest rotated file that is known to be older than the one that is read.
    pub(super) older: Option<u64>,
    /// Since when a newer file exists.
    pub(super) superseded: Option<Millis>,
    /// The directory is gone.
    pub(super) removed: bool,
    /// There is nothing left to do.
    pub(super) finished: bool,
    /// Read at each poll; otherwise left to the checks.
    pub(super) lively: bool,
    /// Polls in a row that found nothing.
    pub(super) quiet: u8,
    /// The file holds more than the last poll took.
    pub(super) behind: bool,
    /// The rest of a line that is too long is skipped.
    pub(super) within_long: bool,
    /// It cannot be read at the moment.
    pub(super) faulty: bool,
    pub(super) check_at: Millis,
}

/// Outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Bytes were read, and nothing more is there for now.
    New,
    /// More is there than was asked for.
    More,
    /// Nothing new.
    Nothing,
    /// Nothing new, and nothing will come.
    Ended,
    /// It cannot be read.
    Failed,
}

impl Log {
    pub(super) fn new(mut who: Container, dir: PathBuf, mark: Option<Mark>, newest: bool) -> Self {
        who.restart = mark.as_ref().map_or(0, |mark| mark.restart);
        Log {
            who,
            dir,
            changed: true,
            newest,
            older: mark.as_ref().and_then(|mark| mark.older),
            within_long: mark.as_ref().is_some_and(|mark| mark.within_long),
            resume: mark.map(|mark| mark.place),
            ..Log::default()
        }
    }

    /// A turn among all others: checks what is due, reads a share of what is new.
    pub(super) fn turn(&mut self, tools: &mut Tools, sink: &mut dyn Sink) {
        if !self.removed && (self.changed || tools.now >= self.check_at) {
            self.check(tools, sink);
        }
        if self.lively && !self.finished {
            self.advance(tools.options.share, tools, sink);
        }
    }

    /// Lists the directory if it may have changed, and compares the file's size and beginning with
    /// what was read.
    fn check(&mut self, tools: &mut Tools, sink: &mut dyn Sink) {
        if self.may_have_changed(tools.now) {
            self.changed = false;
            match self.list(tools) {
                Ok(listing) => self.relist(&listing, tools, sink),
                Err(error) if is_gone(&error) => self.remove(sink),
                Err(error) => self.fail(&error, tools),
            }
        }
        match self.verify(sink) {
            Err(error) if is_gone(&error) => self.changed = true,
            Err(error) => self.fail(&error, tools),
            Ok(()) => {}
        }
        self.check_at = tools.now.plus(CHECK_EVERY);
    }

    fn may_have_changed(&mut self, now: Millis) -> bool {
        let modified = std::fs::metadata(&self.dir).and_then(|meta| meta.modified());
        let known = modified.is_ok() && modified.as_ref().ok() == self.listed.as_ref();
        let settled = known && self.file.is_some() && !self.faulty && now < self.relist_at;
        let may = self.changed || !settled;
        if may {
            self.listed = modified.ok();
            self.relist_at = now.plus(RELIST_EVERY);
        }
        may
    }

    pub(super) fn list(&self, tools: &Tools) -> io::Result<LogListing> {
        match tools.options.layout {
            Layout::Pods => listing::list(&self.dir, &tools.options.root),
            Layout::Flat => listing::single(&self.dir),
        }
    }

    /// The log was removed: what is open is read to its end.
    pub(super) fn remove(&mut self, sink: &mut dyn Sink) {
        self.removed = true;
        if self.is_open() {
            return self.wake();
        }
        if self.lively {
            self.lose_rest(sink);
        }
        self.finished = true;
    }

    fn relist(&mut self, listing: &LogListing, tools: &mut Tools, sink: &mut dyn Sink) {
        let odd = listing.odd.clone().map(Fault::other);
        let before = std::mem::replace(&mut self.faulty, odd.is_some());
        if !before && odd.is_some() {
            tools.stats.fault = odd;
        }
        self.follow(&listing.entries, tools, sink);
    }

    pub(super) fn supersede(&mut self, superseded: bool, now: Millis) {
        if !superseded {
            self.superseded = None;
        } else if self.superseded.is_none() {
            self.superseded = Some(now);
            self.wake();
        }
    }

    pub(super) fn wake(&mut self) {
        (self.lively, self.quiet) = (true, 0);
    }

    pub(super) fn is_open(&self) -> bool {
        (self.file.as_ref()).is_some_and(|file| !matches!(file.input, LogInput::Closed))
    }

    pub(super) fn fail(&mut self, error: &io::Error, tools: &mut Tools) {
        let path = self.file.as_ref().map_or(&self.dir, |file| &file.path);
        if let (Reading::Failed(fault), false) = (classify::<()>(error, path), self.faulty) {
            tools.stats.fault = Some(fault);
        }
        self.faulty = true;
    }

    /// How far the log was read.
    pub(super) fn place(&self) -> Option<Point> {
        self.file.as_ref().map(|file| file.place).or(self.resume)
    }

    /// Where another run would go on.
    pub(super) fn mark(&self) -> Option<Mark> {
        Some(Mark {
            uid: self.who.key.uid.clone(),
            container: self.who.key.container.clone(),
            restart: self.who.restart,
            place: self.place()?,
            older: self.older,
            within_long: self.within_long,
        })
    }

    /// Reads at most `most` bytes and decides what comes next. Returns the cost, in bytes.
    pub(super) fn advance(&mut self, most: usize, tools: &mut Tools, sink: &mut dyn Sink) -> u64 {
        let before = tools.stats.bytes;
        let outcome = self.read(most, false, tools, sink);
        self.behind = outcome == Outcome::More;
        match outcome {
            // The beginning of a line, longer than was asked for.
            Outcome::More if tools.stats.bytes == before => {}
            Outcome::New | Outcome::More => {
                self.quiet = 0;
                // Its writer is not done with it.
                self.superseded = self.superseded.map(|_| tools.now);
            }
            Outcome::Ended if self.removed => self.finished = true,
            Outcome::Ended => self.next_file(tools),
            Outcome::Nothing => self.idle(tools, sink),
            Outcome::Failed => {
                // Tried again at the next check; where it was renamed or removed, that is now.
                self.lively = self.changed;
                self.finished |= self.removed;
            }
        }
        let file = self.file.as_ref();
        let unpacking = file.is_some_and(|file| matches!(file.input, LogInput::Gz { .. }));
        if taken(&tools.open) > tools.options.open_files && !unpacking {
            self.close();
        }
        // What a read costs at least.
        let least = if unpacking { 256 << 10 } else { 4 << 10 };
        (tools.stats.bytes - before).max(least)
    }

    /// At the end of what is there.
    fn idle(&mut self, tools: &mut Tools, sink: &mut dyn Sink) {
        let rotated = (self.superseded)
            .is_some_and(|since| tools.now.since(since) >= LINGER && self.quiet > 0);
        if rotated || self.removed {
            match self.read(tools.options.buffer, true, tools, sink) {
                Outcome::More => self.behind = true,
                _ if self.removed => self.finished = true,
                _ => self.next_file(tools),
            }
            return;
        }
        self.quiet = self.quiet.saturating_add(1);
        if self.quiet >= QUIET_POLLS && self.superseded.is_none() {
            // Nothing is written to it: the checks find the next line.
            self.lively = false;
            self.close();
        }
    }

    /// What is left, up to some MiB, when no more will be written.
    pub(super) fn finish(&mut self, tools: &mut Tools, sink: &mut dyn Sink) {
        for _ in 0..1024 {
            if self.read(tools.options.buffer, true, tools, sink) != Outcome::More {
                break;
            }
        }
    }

    /// Reads at most `most` bytes. With `last`, a line without a newline counts as well.
    fn read(&mut self, most: usize, last: bool, tools: &mut Tools, sink: &mut dyn Sink) -> Outcome {
        match &self.file {
            None => return Outcome::Nothing,
            Some(file) if file.spent => return Outcome::Ended,
            Some(_) => {}
        }
        if !self.is_open() && !self.reopen(tools) {
            return Outcome::Failed;
        }
        let mut buf = std::mem::take(&mut tools.buf);
        let most = most.min(buf.len());
        let room = buf.get_mut(..most).unwrap_or_default();
        let outcome = self.read_into(room, last, tools, sink);
        tools.buf = buf;
        outcome
    }

    fn read_into(
        &mut self,
        room: &mut [u8],
        last: bool,
        tools: &mut Tools,
        sink: &mut dyn Sink,
    ) -> Outcome {
        let Some(file) = &mut self.file else {
            return Outcome::Nothing;
        };
        let (bytes, then) = match file.input.fill(file.place.offset, room) {
            Ok(filled) => filled,
            Err(error) => {
                // What is compressed does not change: it will not get better.
                file.spent = file.compressed;
                let spent = file.spent;
                self.fail(&error, tools);
                if !spent {
                    return Outcome::Failed;
                }
                sink.lost(&self.who, 0);
                self.close();
                return Outcome::Ended;
            }
        };
        let bytes = room.get(..bytes).unwrap_or_default();
        let end = file.place.offset + bytes.len() as u64;
        let fresh = end > file.end;
        file.end = file.end.max(end);
        if file.place.offset == 0 {
            file.place.first.extend(bytes);
        }
        let ended = then == Then::End || last && then == Then::Pause;
        let passed = self.hand_over(bytes, ended, tools, sink);
        tools.stats.bytes += passed as u64;
        if let Some(file) = &mut self.file {
            file.input.pass(passed);
            file.place.offset += passed as u64;
            file.spent = then == Then::End;
        }
        match then {
            Then::More => Outcome::More,
            Then::End => {
                self.close();
                Outcome::Ended
            }
            Then::Pause if passed > 0 || fresh => Outcome::New,
            Then::Pause => Outcome::Nothing,
        }
    }

    /// Hands over the whole lines; where the file `ended`, the last one is whole too. Returns the
    /// number of bytes that are done with.
    fn hand_over(
        &mut self,
        bytes: &[u8],
        ended: bool,
        tools: &mut Tools,
        sink: &mut dyn Sink,
    ) -> usize {
        let longest = tools.options.longest_line;
        let mut from = 0;
        if self.within_long {
            let newline = memchr(b'\n', bytes);
            self.within_long = newline.is_none();
            from = newline.map_or(bytes.len(), |newline| newline + 1);
        }
        let rest = bytes.get(from..).unwrap_or_default();
        let whole = match memrchr(b'\n', rest) {
            _ if ended => rest.len(),
            newline => newline.map_or(0, |newline| newline + 1),
        };
        let region = rest.get(..whole).unwrap_or_default();
        tools.stats.lines_dropped += hand_lines(region, longest, &self.who, sink);
        if from + whole == 0 && bytes.len() > longest {
            self.within_long = true;
            tools.stats.lines_dropped += 1;
            return bytes.len();
        }
        from + whole
    }

    /// Compares the file's size and beginning with what was read.
    fn verify(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let place = &mut file.place;
        match &file.input {
            LogInput::Gz { .. } => {}
            LogInput::Closed => {
                let meta = std::fs::symlink_metadata(&file.path)?;
                if (meta.ino(), meta.dev()) != (place.inode, file.device) {
                    self.changed = true;
                } else if !file.compressed && meta.len() != file.end {
                    self.wake();
                }
            }
            LogInput::Plain { file: open, .. } => {
                let size = open.metadata()?.len();
                let beginning = input::beginning(open)?;
                if size < place.offset || !place.first.fits(&beginning) {
                    self.restart_file(sink);
                } else {
                    place.first.extend(&beginning);
                }
            }
        }
        Ok(())
    }

    /// The file was cut back or overwritten: all in it is new, and what was not read is gone.
    fn restart_file(&mut self, sink: &mut dyn Sink) {
        self.lose_rest(sink);
        if let Some(file) = &mut self.file {
            (file.place.offset, file.end) = (0, 0);
            file.place.first = Fingerprint::default();
        }
        self.within_long = false;
        self.wake();
    }

    /// Bytes that were seen and not handed over: the beginning of a line.
    pub(super) fn unread_bytes(&self) -> u64 {
        let unread = |file: &OpenFile| file.end.saturating_sub(file.place.offset);
        self.file.as_ref().map_or(0, unread)
    }

    /// Reports what was seen to be there and cannot be read any more.
    fn lose_rest(&mut self, sink: &mut dyn Sink) {
        let rest = self.unread_bytes();
        if rest > 0 || self.behind {
            sink.lost(&self.who, rest);
        }
    }

    pub(super) fn close(&mut self) {
        if let Some(file) = &mut self.file {
            file.input = LogInput::Closed;
        }
    }

    /// Opens a file that was closed. False: it is not the same any more.
    fn reopen(&mut self, tools: &mut Tools) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        let opened = listing::open(&file.path).and_then(|(open, meta)| {
            let same = (meta.ino(), meta.dev()) == (file.place.inode, file.device)
                && meta.len() >= file.place.offset
                && file.place.first.fits(&input::beginning(&open)?);
            Ok(same.then_some(open))
        });
        let opened = self.opened(opened, tools);
        if let (Some(file), Some(open)) = (&mut self.file, opened) {
            file.input = LogInput::plain(open, &tools.open);
        }
        self.is_open()
    }

    /// What opening gave. Where the name is another file's by now, the directory is listed again.
    pub(super) fn opened<T>(&mut self, got: io::Result<Option<T>>, tools: &mut Tools) -> Option<T> {
        match got {
            Ok(None) => self.changed = true,
            Ok(opened) => return opened,
            Err(error) => {
                self.changed = is_gone(&error);
                self.fail(&error, tools);
            }
        }
        None
    }
}

impl OpenFile {
    /// Opens a file at a place; `None` where the name is another file's by now.
    pub(super) fn open(entry: &Found, mut place: Point, tools: &Tools) -> io::Result<Option<Self>> {
        let (file, meta) = listing::open(&entry.path)?;
        if meta.ino() != entry.inode {
            return Ok(None);
        }
        place.inode = meta.ino();
        let input = if entry.compressed {
            let gz = input::Gz::open(&entry.path, place.offset)?;
            LogInput::Gz {
                gz: Box::new(gz),
                _slots: [Arc::clone(&tools.open), Arc::clone(&tools.unpacking)],
            }
        } else {
            place.first.extend(&input::beginning(&file)?);
            LogInput::plain(file, &tools.open)
        };
        Ok(Some(OpenFile {
            path: entry.path.clone(),
            id: FileId::of(&meta),
            place,
            device: meta.dev(),
            compressed: entry.compressed,
            end: place.offset,
            spent: false,
            input,
        }))
    }
}

/// Hands over the wanted lines of `region`; all but the last end in a newline. Returns the number of
/// those that are too long.
pub(super) fn hand_lines(text: &[u8], longest: usize, who: &Container, sink: &mut dyn Sink) -> u64 {
    let (mut at, mut too_long) = (0, 0);
    while at < text.len()
        && let Some(found) = sink.wants(who, text, at)
        && (at..text.len()).contains(&found)
    {
        let before = text.get(at..found).unwrap_or_default();
        at += memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        let rest = text.get(at..).unwrap_or_default();
        let line = rest.get(..memchr(b'\n', rest).unwrap_or(rest.len()));
        let line = line.unwrap_or_default();
        at += line.len() + 1;
        if line.len() > longest {
            too_long += 1;
        } else {
            sink.line(who, line);
        }
    }
    too_long
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::ContainerKey;

    struct Lines {
        lines: Vec<String>,
        lie: Option<usize>,
    }

    impl Sink for Lines {
        fn wants(&self, _: &Container, chunk: &[u8], from: usize) -> Option<usize> {
            let found = memchr::memmem::find(&chunk[from..], b"NCCL").map(|at| from + at);
            self.lie.or(found)
        }
        fn line(&mut self, _: &Container, line: &[u8]) {
            self.lines.push(String::from_utf8_lossy(line).into_owned());
        }
        fn lost(&mut self, _: &Container, _: u64) {}
        fn gone(&mut self, _: &Container) {}
    }

    fn wanted(text: &str, longest: usize, lie: Option<usize>) -> (Vec<String>, u64) {
        let lines = Vec::new();
        let mut sink = Lines { lines, lie };
        let key = ContainerKey {
            namespace: "a".into(),
            pod: "b".into(),
            uid: "c".into(),
            container: "d".into(),
        };
        let who = Container {
            key,
            ..Container::default()
        };
        let too_long = hand_lines(text.as_bytes(), longest, &who, &mut sink);
        (sink.lines, too_long)
    }

    #[test]
    fn whole_lines_that_are_wanted_and_no_others() {
        for (text, want) in [
            ("", &[][..]),
            ("\n\n\n", &[]),
            ("a\nb\n", &[]),
            ("NCCL\n", &["NCCL"]),
            ("NCCL", &["NCCL"]),
            ("a\nx NCCL y\nb\n", &["x NCCL y"]),
            ("NCCL NCCL NCCL\nNCCL\nb", &["NCCL NCCL NCCL", "NCCL"]),
            ("NC\nCL\n", &[]),
        ] {
            assert_eq!(wanted(text, 1000, None).0, want, "{text:?}");
        }
    }

    #[test]
    fn a_line_beyond_the_bound_is_counted_and_left_out() {
        let (lines, too_long) = wanted("NCCL too long\nlong but unwanted\nNCCL\n", 4, None);
        assert_eq!(lines, ["NCCL"]);
        assert_eq!(too_long, 1);
    }

    #[test]
    fn a_finder_that_lies_does_no_harm() {
        for lie in [0usize, 3, 1 << 40] {
            assert!(wanted("a\nb\nc\n", 10, Some(lie)).0.len() <= 3);
        }
    }
}
