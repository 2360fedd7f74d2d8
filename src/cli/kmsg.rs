//! `selvage kmsg`: kernel-log text in any form to events, as JSON lines or for people.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read, Write};
use std::path::{Path, PathBuf};

use super::{compression::refusal, nccl};

use crate::check::xid_codes::{self, Disposition, Overrides};
use crate::observe::{KernelEvent, KernelEventKind};
use crate::report::object;
use crate::source::kernel_log::assemble::Assembler;

/// Bytes kept of one line; a message stands at its line's start, so the rest is not needed.
const LINE_LIMIT: usize = 64 * 1024;

/// Counts over all inputs, and failures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KmsgSummary {
    /// Lines read from all inputs.
    pub lines: u64,
    /// Events printed from all inputs.
    pub events: u64,
    /// Inputs that could not be read, each by name and why.
    pub troubles: Vec<String>,
}

/// Decodes the inputs, `-` being standard input, to `out`. An input that cannot be read is
/// listed in the summary and does not stop the others. A reader that hangs up ends the run without error.
///
/// # Errors
/// The output cannot be written.
pub fn run(inputs: &[PathBuf], json: bool, out: &mut impl Write) -> io::Result<KmsgSummary> {
    let mut total = KmsgSummary::default();
    let mut inputs = inputs.iter();
    let written = inputs.try_for_each(|path| decode(path, json, out, &mut total));
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(total),
    }
}

/// Opens an input, unless it is compressed.
fn open(path: &Path) -> Result<Box<dyn BufRead>, String> {
    let mut input = nccl::open(path).map_err(|error| error.to_string())?;
    // An error is reported by the next read.
    let start = input.fill_buf().unwrap_or_default();
    refusal(start, path, "kmsg").map_or(Ok(input), Err)
}

/// Decodes one input, as far as it can be read.
fn decode(path: &Path, json: bool, out: &mut impl Write, sum: &mut KmsgSummary) -> io::Result<()> {
    let unread = |why: String| format!("{}: {why}", path.display());
    let mut input = match open(path) {
        Ok(input) => input,
        Err(why) => {
            sum.troubles.push(unread(why));
            return Ok(());
        }
    };
    let mut assembler = Assembler::default();
    let mut explained = BTreeSet::new();
    let mut line = Vec::new();
    // Events go through memory so that a closed output is noticed at the next event.
    let mut text = Vec::new();
    loop {
        let more = match next_line(&mut input, &mut line) {
            Ok(more) => more,
            Err(error) => {
                sum.troubles.push(unread(error.to_string()));
                return Ok(());
            }
        };
        let mut emit = |event: &KernelEvent, line: &str| {
            sum.events += 1;
            if json {
                write_json(&mut text, event, line);
            } else {
                write_text(&mut text, event, &mut explained);
            }
        };
        if more {
            sum.lines += 1;
            assembler.feed(&String::from_utf8_lossy(&line), &mut emit);
        } else {
            assembler.finish(&mut emit);
        }
        // A pipe or the device may stay open for long: standard output keeps no whole line back.
        out.write_all(&text)?;
        text.clear();
        if !more {
            return Ok(());
        }
    }
}

/// Reads a line without its end into `line`, dropping what goes beyond the limit; false at the end.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    loop {
        let room = LINE_LIMIT.saturating_sub(line.len()) as u64;
        let read = match room {
            0 => input.skip_until(b'\n'),
            _ => input.by_ref().take(room).read_until(b'\n', line),
        };
        match read {
            // EPIPE when reading: the kernel's ring overtook us; reading goes on behind the gap.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            Err(e) => return Err(e),
            Ok(_) if line.last() == Some(&b'\n') => {
                line.pop();
                return Ok(true);
            }
            Ok(read) if room == 0 || read < room as usize => return Ok(!line.is_empty()),
            Ok(_) => {}
        }
    }
}

fn write_json(out: &mut Vec<u8>, event: &KernelEvent, line: &str) {
    let xid = match &event.what {
        KernelEventKind::Xid(xid) => Some(xid),
        _ => None,
    };
    let event = object! {
        event: event.what.name(),
        xid: xid.map(|xid| xid.code),
        pci: event.pci.as_deref(),
        pid: xid.and_then(|xid| xid.pid),
        process: xid.and_then(|xid| xid.process.as_deref()),
        device: event.device.as_deref(),
        line: line,
    };
    // Writing plain values to memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, &event);
    out.push(b'\n');
}

/// `xid 79   0000:5f:00   GPU has …`, and at the first of its kind what it means; control
/// characters from the log never reach the terminal.
fn write_text(out: &mut Vec<u8>, event: &KernelEvent, explained: &mut BTreeSet<String>) {
    let kind = match &event.what {
        KernelEventKind::Xid(xid) => format!("xid {}", xid.code),
        KernelEventKind::Sxid(sxid) => format!("sxid {}", sxid.code),
        other => other.name().to_owned(),
    };
    let place = (event.device.as_deref()).or(event.pci.as_deref());
    let place = place.unwrap_or("-");
    let text = event.text.replace(char::is_control, " ");
    out.extend_from_slice(format!("{kind:<19} {place:<23} {text}\n").as_bytes());
    let Some(ruling) = xid_codes::ruling(event, &Overrides::new()) else {
        return;
    };
    if explained.insert(format!("{kind} {}", ruling.meaning)) {
        let weight = match ruling.disposition {
            Disposition::Fatal => "fatal",
            Disposition::Degraded => "degraded",
            Disposition::App => "a program's fault",
            Disposition::Report => "not in the table",
            Disposition::Ignore => "harmless",
            Disposition::Clear => "over",
        };
        let (meaning, remedy) = (ruling.meaning, ruling.remedy);
        out.extend_from_slice(format!("  {weight}: {meaning}. {remedy}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &[u8], json: bool) -> (String, KmsgSummary) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kmsg");
        std::fs::write(&path, input).unwrap();
        let mut out = Vec::new();
        let total = run(&[path], json, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), total)
    }

    fn json(input: &[u8]) -> Vec<serde_json::Value> {
        let (text, total) = decoded(input, true);
        let values: Vec<_> = text
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(total.events, values.len() as u64);
        values
    }

    #[test]
    fn one_object_an_event_with_the_fixed_keys() {
        let line = "[1.5] NVRM: Xid (PCI:0000:3b:00): 31, pid=5, name=a, Ch 8";
        let (text, total) = decoded(format!("noise\n{line}\n").as_bytes(), true);
        assert_eq!(
            text,
            format!(
                "{{\"event\":\"xid\",\"xid\":31,\"pci\":\"0000:3b:00\",\"pid\":5,\"process\":\"a\",\"device\":null,\"line\":\"{line}\"}}\n"
            )
        );
        assert_eq!((total.lines, total.events), (2, 1));
    }

    #[test]
    fn a_torn_end_junk_and_huge_lines() {
        let mut input = vec![0xff, 0x00, b'\n'];
        input.extend_from_slice(b"NVRM: Xid (PCI:0000:3b:00): 79, ");
        input.resize(input.len() + 3 * LINE_LIMIT, b'x');
        input.extend_from_slice(b"\nNVRM: Xid (PCI:0000:3c:00): 79");
        let got = json(&input);
        assert_eq!(got.len(), 2);
        assert_eq!(got[0]["line"].as_str().unwrap().len(), LINE_LIMIT);
        assert_eq!(got[1]["pci"], "0000:3c:00");
    }

    #[test]
    fn a_reader_that_hangs_up_is_no_error() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "NVRM: Xid (PCI:0000:3b:00): 79\n").unwrap();
        assert!(run(&[path], true, &mut Closed).is_ok());
    }

    #[test]
    fn what_cannot_be_read_stops_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let line = b"NVRM: Xid (PCI:0000:3b:00): 79\n";
        let inputs = [
            file("a", line),
            dir.path().join("none"),
            dir.path().to_path_buf(),
            file("x.gz", b"\x1f\x8b\x08\0\0"),
            file("x.zst", b"\x28\xb5\x2f\xfd\0"),
            file("x.xz", b"\xfd7zXZ\0\0"),
            file("b", line),
            file("empty", b""),
        ];
        let mut out = Vec::new();
        let total = run(&inputs, true, &mut out).unwrap();
        assert_eq!(total.events, 2);
        let wanted = ["none: ", ": is a directory", "zcat ", "zstdcat ", "xzcat "];
        assert_eq!(total.troubles.len(), wanted.len(), "{:?}", total.troubles);
        for (got, want) in total.troubles.iter().zip(wanted) {
            assert!(got.contains(want), "{got}");
        }
    }

    #[test]
    fn text_for_people_holds_no_control_characters() {
        let input = br"3,1,1,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=5, name=\x1b[31m, Ch 8";
        let (text, _) = decoded(input, false);
        assert!(text.starts_with("xid 31"), "{text}");
        assert!(!text.contains('\x1b'));
    }
}
