//! `HOST:PID:TID [DEV]` before `NCCL INFO`, read from the right, and the records of one line.

use super::message::scan::find;
use crate::observe::nccl::{Level, Who};

/// One record of a line: who, how loud, and the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// Who printed it.
    pub who: Who<'a>,
    /// How loud.
    pub level: Level,
    /// What follows the mark, up to the next record.
    pub message: &'a str,
}

/// Calls `each` with the records of a line, in order. Text that quotes NCCL's words in a sentence of
/// its own is none.
pub fn records<'a>(line: &'a str, mut each: impl FnMut(Found<'a>)) {
    let mut before = 0;
    let mut next = mark(line, 0);
    // The record whose end is not known yet: (who, level, start of its message).
    let mut open: Option<(Who<'a>, Level, usize)> = None;
    while let Some((at, level)) = next {
        let after = at + MARK;
        let found = who(line.get(before..at).unwrap_or_default(), level);
        if let Some((who, start)) = found {
            if let Some(open) = open.take() {
                each(ended(line, open, before + start));
            }
            open = Some((who, level, after));
        }
        before = after;
        next = mark(line, after);
    }
    if let Some(open) = open {
        each(ended(line, open, line.len()));
    }
}

/// A record whose message goes from where its mark ended to `end`, without what others put behind.
fn ended<'a>(line: &'a str, (who, level, from): (Who<'a>, Level, usize), end: usize) -> Found<'a> {
    let message = line.get(from..end).unwrap_or_default();
    let bytes = message.as_bytes();
    // Ray joins equal lines; JSON loggers quote.
    let repeated = find!(bytes, " [repeated ");
    let quote = line.starts_with('{').then(|| memchr::memchr(b'"', bytes));
    let newline = memchr::memchr(b'\\', bytes).and_then(|_| message.find("\\n"));
    let behind = [repeated, quote.flatten(), newline];
    let message = match behind.into_iter().flatten().min() {
        Some(at) => message.get(..at).unwrap_or_default(),
        None => message,
    };
    Found {
        who,
        level,
        message: message.trim().trim_end_matches(['│', '|']).trim_end(),
    }
}

/// `NCCL INFO` and `NCCL WARN` are of the same length.
const MARK: usize = "NCCL INFO".len();

/// The next mark: where it begins, and which.
fn mark(line: &str, from: usize) -> Option<(usize, Level)> {
    let mut from = from;
    loop {
        let at = from + find!(line.as_bytes().get(from..)?, "NCCL ")?;
        let level = match line.as_bytes().get(at + 5..at + MARK) {
            Some(b"INFO") => Some(Level::Info),
            Some(b"WARN") => Some(Level::Warn),
            _ => None,
        };
        match level {
            Some(level) => return Some((at, level)),
            None => from = at + 5,
        }
    }
}

/// Who printed a record, and where in `before` its prefix begins. None: this is no record.
fn who(before: &str, level: Level) -> Option<(Who<'_>, usize)> {
    let mut rest = before;
    let mut looked = 0;
    while let Some(close) = rest.rfind(']') {
        let inside = rest.get(..close)?;
        let Some(open) = inside.rfind('[') else { break };
        let device = inside.get(open + 1..)?;
        let left = inside.get(..open)?;
        let digits = device.strip_prefix('-').unwrap_or(device);
        if is_number(digits) {
            if let Some((who, start)) = place(left) {
                return Some((who, start));
            }
            if level == Level::Info
                && let Some((who, start)) = masked(left)
            {
                return Some((who, start));
            }
            // `12345 [0] NCCL INFO …`: the host alone is gone.
            if level == Level::Info && is_number(left.trim()) {
                let who = Who {
                    pid: left.trim().parse().ok(),
                    ..Who::default()
                };
                return Some((who, 0));
            }
            // `[0] NCCL INFO …`: somebody took the host away. A rank tag of a launcher looks the
            // same and stands at the start too.
            if left.trim().is_empty() {
                return Some((Who::default(), open));
            }
        }
        // In a WARN's place a C++ signature may hold brackets; an INFO has nothing there.
        looked += 1;
        if level == Level::Info || looked > 8 {
            break;
        }
        rest = left;
    }
    bare(before)
}

/// `HOST:PID:TID` (or `HOST:PID`) at the end of `left`.
fn place(left: &str) -> Option<(Who<'_>, usize)> {
    let trimmed = left.trim_end();
    let begin = trimmed
        .rfind(|c: char| c.is_whitespace())
        .map_or(0, |at| at + 1);
    let token = trimmed.get(begin..)?;
    let (rest, last) = token.rsplit_once(':')?;
    if !is_number(last) {
        return None;
    }
    let (host, pid, tid) = match rest.rsplit_once(':') {
        Some((host, pid)) if is_number(pid) => (host, pid, Some(last)),
        _ => (rest, last, None),
    };
    let wraps = |b: u8| matches!(b, b'>' | b']' | b'|' | b'"');
    let wrapped = if host.bytes().any(wraps) {
        ["<stdout>:", "<stderr>:", "]:", ">>", "|", "\""]
            .iter()
            .filter_map(|wrapper| host.rfind(wrapper).map(|at| at + wrapper.len()))
            .max()
            .unwrap_or(0)
    } else {
        0
    };
    let who = Who {
        host: host.get(wrapped..)?,
        pid: pid.parse().ok(),
        tid: tid.and_then(|tid| tid.parse().ok()),
    };
    Some((who, begin + wrapped))
}

/// `HOST:PID:TID` with words in place of the numbers: somebody masked them.
fn masked(left: &str) -> Option<(Who<'_>, usize)> {
    let trimmed = left.trim_end();
    let begin = trimmed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let token = trimmed.get(begin..)?;
    let (rest, tid) = token.rsplit_once(':')?;
    let (host, pid) = rest.rsplit_once(':')?;
    let word = |text: &str| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b"<>*_-".contains(&b);
        !text.is_empty() && text.bytes().all(inner)
    };
    let who = Who {
        host,
        ..Who::default()
    };
    (!host.is_empty() && word(pid) && word(tid)).then_some((who, begin))
}

/// A record whose whole prefix is gone: nothing stands before it, or a WARN's place alone.
fn bare(before: &str) -> Option<(Who<'_>, usize)> {
    let trimmed = before.trim();
    let place = trimmed
        .rsplit_once(':')
        .is_some_and(|(file, line)| is_number(line) && !file.contains(char::is_whitespace));
    // A tag of a launcher or a shipper: `[rank0]:`, `worker-1:`.
    let tag = !trimmed.contains(char::is_whitespace) && trimmed.ends_with(':');
    (trimmed.is_empty() || place || tag).then(|| (Who::default(), before.len()))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 10 && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(line: &str) -> Vec<(String, Option<u32>, Option<u32>, String)> {
        let mut found = Vec::new();
        records(line, |record| {
            found.push((
                record.who.host.to_string(),
                record.who.pid,
                record.who.tid,
                record.message.to_string(),
            ));
        });
        found
    }

    #[test]
    fn wrappers() {
        for (line, host, pid, tid) in [
            ("n1:10:12 [0] NCCL INFO m", "n1", Some(10), Some(12)),
            (":168:1228 [2] NCCL INFO m", "", Some(168), Some(1228)),
            ("the-pod:pid:tid [3] NCCL INFO m", "the-pod", None, None),
            ("node:***:*** [3] NCCL INFO m", "node", None, None),
            ("<masked>:8:9 [5] NCCL INFO m", "<masked>", Some(8), Some(9)),
            ("n1:10 [0] NCCL INFO m", "n1", Some(10), None),
            (
                "[1,26]<stdout>:n1:10:12 [0] NCCL INFO m",
                "n1",
                Some(10),
                Some(12),
            ),
            ("[0] n1:10:12 [0] NCCL INFO m", "n1", Some(10), Some(12)),
            ("[rank0]:n1:10:12 [0] NCCL INFO m", "n1", Some(10), Some(12)),
            (
                "[trainer0|0]:n1:10:12 [0] NCCL INFO m",
                "n1",
                Some(10),
                Some(12),
            ),
            (
                "10.1.2.3: n1:10:12 [0] NCCL INFO m",
                "n1",
                Some(10),
                Some(12),
            ),
            (
                "ip: ip: n1: n1:10:12 [0] NCCL INFO m",
                "n1",
                Some(10),
                Some(12),
            ),
            (
                "(EngineCore_DP0 pid=1) (RayWorkerWrapper pid=2, ip=10.5.6.1) n1:2:3 [0] NCCL INFO m",
                "n1",
                Some(2),
                Some(3),
            ),
            (
                "[pod/a/b] 2025-05-16T16:39:51Z n1:2:3 [0] NCCL INFO m",
                "n1",
                Some(2),
                Some(3),
            ),
            (
                "  | 2025-05-16T16:39:51.208-07:00 |n1:2:3 [0] NCCL INFO m",
                "n1",
                Some(2),
                Some(3),
            ),
            (
                "2025-08-12 09:37:02.21 worker-9 >>n1:2:3 [0] NCCL INFO m",
                "n1",
                Some(2),
                Some(3),
            ),
            (
                r#"{"message":"n1:2:3 [0] NCCL INFO m","level":"info"}"#,
                "n1",
                Some(2),
                Some(3),
            ),
            (
                "n1:2:3 [0] NCCL INFO m [repeated 7x across cluster]",
                "n1",
                Some(2),
                Some(3),
            ),
            ("│ n1:2:3 [-1] NCCL INFO m", "n1", Some(2), Some(3)),
            (
                "[2025-11-09 07:39:30] n1:2:3 [1] misc/socket.cc:49 NCCL WARN m",
                "n1",
                Some(2),
                Some(3),
            ),
            (
                "n1:2:3 [1] transport/net_ib.cc:9 (ncclIbX) NCCL WARN m",
                "n1",
                Some(2),
                Some(3),
            ),
            (
                "n1:2:3 [1] tcpxResult_t tcpxCommProgress(tcpxComm*, int[4]):1231 NCCL WARN m",
                "n1",
                Some(2),
                Some(3),
            ),
            (
                "n1:2:3 [1] transport/[net_ib.cc:101](http://net_ib.cc:101/) NCCL WARN m",
                "n1",
                Some(2),
                Some(3),
            ),
            ("[0] NCCL INFO m", "", None, None),
            ("NCCL INFO m", "", None, None),
            ("misc/ibvwrap.cc:288 NCCL WARN m", "", None, None),
            ("[0] misc/socket.cc:71 NCCL WARN m", "", None, None),
        ] {
            assert_eq!(all(line), [(host.into(), pid, tid, "m".into())], "{line}");
        }
    }

    #[test]
    fn what_only_quotes_is_no_record() {
        for line in [
            "# NCCL INFO NET/Socket : Using [0]eth0:10.128.0.15<0>",
            "expect to see NCCL INFO Using network Socket",
            "print('NCCL INFO')",
            "NCCL version 2.1",
            "see [3] NCCL INFO",
            "NCCL INF",
            "",
        ] {
            let found = all(line);
            assert!(found.is_empty(), "{line}: {found:?}");
        }
    }

    #[test]
    fn many_in_a_line_and_glued() {
        let got = all(
            "16777216 float none      -1n7:58070:58112 [0] NCCL INFO one     n8:1:2 [7] NCCL INFO two",
        );
        assert_eq!(got.len(), 2);
        assert_eq!((got[0].0.as_str(), got[0].3.as_str()), ("-1n7", "one"));
        assert_eq!((got[1].0.as_str(), got[1].3.as_str()), ("n8", "two"));
        let got = all("n7:1:2 [0] NCCL INFO Connected allx5:3:4 [0] NCCL INFO two");
        assert_eq!(got[0].3, "Connected");
        assert_eq!(got[1].3, "two");
    }
}
