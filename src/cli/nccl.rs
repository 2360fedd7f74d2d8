//! `selvage nccl`: reads NCCL logs from files and pipes, and judges them.

use super::{ArgInputs, Exit, complain, compression, print};
use crate::check::nccl::{Fallback, JobContext, judge};
use crate::observe::{nccl::NcclLog, nccl::log::LogLimits};
use crate::report::nccl::{self as report, NcclInput};
use crate::source::nccl::Reader;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Bytes read at a time: few enough to stay in the second-level cache.
const PIECE: usize = 256 << 10;

/// Runs `selvage nccl`. Exit status: 0 no fallback, 1 a fallback, 3 unknown or unreadable.
pub(super) fn command(given: &ArgInputs) -> Exit {
    let (inputs, errors) = run(&given.files);
    errors.iter().for_each(complain);
    print(&match given.output.style() {
        None => report::json(&inputs),
        Some(style) => report::text(&inputs, style),
    })?;
    let verdicts = inputs.iter().map(|input| input.verdict.tcp_fallback);
    let any = |fallback| verdicts.clone().any(|of| of == fallback);
    Ok(match any(Fallback::Yes) {
        true => 1,
        false if any(Fallback::Unknown) || !errors.is_empty() => 3,
        false => 0,
    })
}

/// Reads and judges the inputs, and says which could not be read; `-` is standard input.
pub fn run(paths: &[PathBuf]) -> (Vec<NcclInput>, Vec<String>) {
    let (mut inputs, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        let name = path.display().to_string();
        match read_path(path, &mut |_| {}) {
            Ok((log, error)) => {
                errors.extend(error);
                let verdict = judge(&log, &JobContext::default());
                inputs.push(NcclInput { name, verdict });
            }
            Err(error) => errors.push(format!("{name}: {error}")),
        }
    }
    (inputs, errors)
}

/// Opens an input; `-` is standard input.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    #[expect(clippy::disallowed_methods, reason = "a file that the user named")]
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::other("is a directory; name the files in it"));
    }
    Ok(Box::new(BufReader::with_capacity(PIECE, file)))
}

/// The state of a log, and the error if reading stopped before its end.
pub(super) type ScannedLog = (NcclLog, Option<String>);

/// Reads one input, decompressed; `each` is called with every piece of it.
pub(super) fn read_path(path: &Path, each: &mut dyn FnMut(&[u8])) -> io::Result<ScannedLog> {
    let mut input = open(path)?;
    let name = path.display();
    let start = input.fill_buf()?;
    if start.starts_with(compression::GZIP) {
        return scan(MultiGzDecoder::new(input), path, each);
    }
    if let Some(why) = compression::refusal(start, path, "nccl") {
        return Err(io::Error::other(why));
    }
    let marks = [b"\xff\xfe", b"\xfe\xff"];
    if marks.iter().any(|mark| start.starts_with(*mark)) {
        return Err(io::Error::other(format!(
            "is UTF-16; convert it first: iconv -f utf-16 -t utf-8 {name} | selvage nccl"
        )));
    }
    scan(input, path, each)
}

fn scan(mut input: impl Read, path: &Path, each: &mut dyn FnMut(&[u8])) -> io::Result<ScannedLog> {
    let mut log = NcclLog::new(LogLimits::FILE);
    let mut reader = Reader::default();
    let mut is_begun = false;
    let mut piece = vec![0; PIECE];
    let mut damage = None;
    loop {
        let read = match input.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // A compressed file that is cut short or has junk appended: what was read stands.
            Err(error) if is_begun => {
                let name = path.display();
                damage = Some(format!("{name}: read up to where it is damaged: {error}"));
                break;
            }
            Err(error) => return Err(error),
        };
        let fresh = piece.get(..read).unwrap_or_default();
        reader.feed(fresh, &mut log, None);
        each(fresh);
        is_begun = true;
    }
    reader.finish(&mut log, None);
    Ok((log, damage))
}
