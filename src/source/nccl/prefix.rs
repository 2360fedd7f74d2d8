//! Splits a line into records, by `HOST:PID:TID [DEV]` before `NCCL INFO`, which is read from the right.

use super::message::scan::find;
use crate::observe::nccl::{Level, LinePrefix};
use crate::source::colour::without_colour;

/// Calls `each` with author, level and message of each record of a line, in order. Sentences that
/// quote NCCL's words are not records.
pub fn records<'a>(line: &'a str, mut each: impl FnMut(LinePrefix<'a>, Level, &'a str)) {
    let mut before = 0;
    // The record whose end is not known yet, with the start of its message and the quote that it is in.
    let mut open: Option<(LinePrefix<'a>, Level, usize, Option<char>)> = None;
    while let Some((at, level)) = mark(line, before) {
        let between = line.get(before..at).unwrap_or_default();
        let found = who(between, level).filter(|(who, start)| {
            let before = between.get(..*start).unwrap_or_default();
            // A sentence that ends in the mark.
            let ends = || line.get(at + MARK..).unwrap_or_default().trim().is_empty();
            !(who.host.starts_with('`') || quotes(before) || who.pid.is_none() && ends())
        });
        if let Some((mut who, start)) = found {
            if level == Level::Warn {
                let prefix = between.get(start..).and_then(|it| it.split_once("] "));
                who.location = prefix.map_or("", |(_, location)| location);
            }
            if let Some((who, level, from, quote)) = open {
                each(who, level, message(line, from, before + start, quote));
            }
            let quote = line.get(..before + start).unwrap_or_default();
            let quote = quote.chars().next_back().filter(|c| "\"'".contains(*c));
            open = Some((who, level, at + MARK, quote));
        }
        before = at + MARK;
    }
    if let Some((who, level, from, quote)) = open {
        each(who, level, message(line, from, line.len(), quote));
    }
}

/// NCCL 2.1 and 2.2 print `HOST:PID [DEV] INFO MESSAGE`, without their name: only the choice of a network
/// is taken for theirs.
pub fn unmarked(line: &str) -> Option<(LinePrefix<'_>, &str)> {
    let (before, message) = line.split_once(" INFO Using internal Network ")?;
    let (left, device) = before.strip_suffix(']')?.rsplit_once('[')?;
    let (token, begin) = last_word(left);
    let (host, pid) = token.rsplit_once(':')?;
    let quoted = quotes(left.get(..begin)?) || host.starts_with('`');
    let who = LinePrefix {
        host: host.get(glued(host)..)?,
        pid: pid.parse().ok(),
        tid: None,
        device: device.parse().ok(),
        location: "",
    };
    let start = line.len() - message.len() - "Using internal Network ".len();
    if quoted || !is_number(device) {
        return None;
    }
    Some((who, line.get(start..)?.trim_end()))
}

/// Host and process of a line's first record; no host where its records are of several. `None` without
/// a record.
pub fn author(line: &[u8]) -> Option<(String, Option<u32>)> {
    let text = String::from_utf8_lossy(line);
    let mut authors = Vec::new();
    records(&without_colour(&text), |who, _, _| {
        authors.push((who.host.to_string(), who.pid));
    });
    let (host, pid) = authors.first().cloned()?;
    let one = authors.iter().all(|(other, _)| *other == host);
    Some(if one { (host, pid) } else { Default::default() })
}

/// A record's message, without what others append. A double quote before the record ends it; a single
/// quote only where the line ends, as messages hold such quotes themselves.
fn message(line: &str, from: usize, end: usize, quote: Option<char>) -> &str {
    let message = line.get(from..end).unwrap_or_default();
    let bytes = message.as_bytes();
    // Ray merges equal lines; JSON loggers quote.
    let repeated = find!(bytes, " [repeated ");
    let before = line.as_bytes().get(..from).unwrap_or_default();
    let is_open = || memchr::memchr_iter(b'"', before).count() % 2 == 1;
    let quoted = quote == Some('"') || line.starts_with('{') || is_open();
    let closing = quoted.then(|| memchr::memchr(b'"', bytes));
    let newline = memchr::memchr(b'\\', bytes).and_then(|_| message.find("\\n"));
    let behind = [repeated, closing.flatten(), newline];
    let end = behind.into_iter().flatten().min().unwrap_or(bytes.len());
    let message = message.get(..end).unwrap_or_default().trim();
    let message = match quote {
        Some('\'') => message.trim_end_matches([']', ',']).trim_end_matches('\''),
        _ => message,
    };
    message.trim_end_matches(['│', '|', '\\']).trim_end()
}

/// Length of `NCCL INFO` and of `NCCL WARN`.
const MARK: usize = "NCCL INFO".len();

/// Offset and level of the next mark.
fn mark(line: &str, mut from: usize) -> Option<(usize, Level)> {
    loop {
        let at = from + find!(line.as_bytes().get(from..)?, "NCCL ")?;
        match line.as_bytes().get(at + 5..at + MARK) {
            Some(b"INFO") => return Some((at, Level::Info)),
            Some(b"WARN") => return Some((at, Level::Warn)),
            _ => from = at + 5,
        }
    }
}

/// Who printed a record, and where in `before` its prefix starts. `None` if this is not a record.
fn who(before: &str, level: Level) -> Option<(LinePrefix<'_>, usize)> {
    let info = level == Level::Info;
    let mut rest = before;
    // The place of a WARN may be a C++ signature with brackets; an INFO has no place.
    for _ in 0..if info { 1 } else { 9 } {
        let inside = rest.rsplit_once(']').map(|(inside, _)| inside);
        let Some((left, device)) = inside.and_then(|inside| inside.rsplit_once('[')) else {
            break;
        };
        rest = left;
        let device = device.trim();
        if !is_number(device.strip_prefix('-').unwrap_or(device)) {
            continue;
        }
        let found = place(left).or_else(|| masked(left).filter(|_| info));
        if let Some((who, start)) = found {
            let device = device.parse().ok();
            return Some((LinePrefix { device, ..who }, start));
        }
        // `12345 [0] NCCL INFO …`: only the host is missing.
        if info && is_number(left.trim()) {
            let who = LinePrefix {
                pid: left.trim().parse().ok(),
                ..LinePrefix::default()
            };
            return Some((who, 0));
        }
        // `node [0] NCCL INFO …`: the process was removed, and the word may be a rank's name as well.
        if info && is_word(left.trim()) {
            return Some((LinePrefix::default(), 0));
        }
        // `[0] NCCL INFO …`: the host was removed. A launcher's rank tag looks the same.
        if without_tags(left).is_empty() {
            return Some((LinePrefix::default(), left.len()));
        }
    }
    bare(before)
}

/// The last word of a text, and where it begins.
fn last_word(text: &str) -> (&str, usize) {
    let trimmed = text.trim_end();
    let begin = trimmed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    (trimmed.get(begin..).unwrap_or_default(), begin)
}

/// `HOST:PID:TID` (or `HOST:PID`) at the end of `left`.
fn place(left: &str) -> Option<(LinePrefix<'_>, usize)> {
    let (token, begin) = last_word(left);
    let (rest, last) = token.rsplit_once(':').filter(|(_, last)| is_number(last))?;
    let (host, pid, tid) = match rest.rsplit_once(':') {
        Some((host, pid)) if is_number(pid) => (host, pid, Some(last)),
        _ => (rest, last, None),
    };
    // The end of a process id, and a thread id: the start of the prefix is lost.
    let torn = tid.is_none() && is_number(host);
    let wrapped = glued(host);
    let who = LinePrefix {
        host: if torn { "" } else { host.get(wrapped..)? },
        pid: pid.parse().ok().filter(|_| !torn),
        tid: tid.and_then(|tid| tid.parse().ok()),
        ..LinePrefix::default()
    };
    Some((who, begin + wrapped))
}

/// Length of what a tool put before a host's name without a blank: `17:`, `rank0.log:`, `[rank0]:`, `rank3/`,
/// `12:00:01,`, `**`, `....`, a colour that lost its escape byte, a time that ends in Z or in its seconds. Taken for a part of the
/// name it would make hosts of lines. Names have letters, digits, `-` and `_`: NCCL cuts them at the first dot
/// (`getHostName` in src/misc/utils.cc).
fn glued(host: &str) -> usize {
    // A masked name has other marks, may end in a bracket, or be an address.
    let ends = |(at, byte): &(usize, u8)| {
        let in_name = !byte.is_ascii() || byte.is_ascii_alphanumeric() || b"-_.*`<".contains(byte);
        !in_name && (*byte == b':' || at + 1 < host.len())
    };
    let end = host.bytes().enumerate().rfind(ends);
    let end = end.map_or(0, |(at, _)| at + 1);
    let (before, rest) = host.split_at_checked(end).unwrap_or(("", host));
    let number = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let number = number.unwrap_or_default();
    let more = match (before.bytes().next_back(), rest.as_bytes().get(number)) {
        // Several lines in one string of JSON.
        (Some(b'\\'), Some(b'n' | b'r' | b't')) => number + 1,
        (Some(b'[' | b';'), Some(b'm')) if number > 0 => number + 1,
        (Some(_), Some(b'Z')) if number > 1 => number + 1,
        _ => {
            let time = end_of_time(before, rest);
            let name = rest.get(time..).unwrap_or_default();
            time + name.find(|c| !"*.-".contains(c)).unwrap_or_default()
        }
    };
    end + more
}

/// Length of the end of a time that `rest` begins with, by NCCL_DEBUG_TIMESTAMP_FORMAT without a blank: seconds behind
/// `HH:MM:`, or all of `%s` or `%Y%m%d%H%M%S`.
fn end_of_time(before: &str, rest: &str) -> usize {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let start = before.len().checked_sub("HH:MM:".len());
    let clock = start
        .and_then(|start| before.get(start..))
        .unwrap_or_default();
    let clock = clock.bytes().chain(rest.bytes().take(2));
    // The highest digits.
    let fits = |(byte, most): &(u8, u8)| match most {
        b':' => byte == most,
        _ => byte.is_ascii_digit() && byte <= most,
    };
    let whole = clock.zip(*b"29:59:69").filter(fits).count() == "HH:MM:SS".len();
    let end = match (whole, digits(rest), rest.as_bytes().first()) {
        (true, ..) => 2,
        (_, 10, Some(b'1')) | (_, 14, Some(b'2')) if digits(rest) < rest.len() => digits(rest),
        _ => return 0,
    };
    let fraction = rest.get(end..).and_then(|rest| rest.strip_prefix('.'));
    end + fraction.map_or(0, |of| 1 + digits(of))
}

/// Whether a comment mark or an open backtick precedes: what follows is an example.
fn quotes(before: &str) -> bool {
    matches!(before.trim(), "#" | "//") || before.matches('`').count() % 2 == 1
}

/// `HOST:PID:TID` with masked numbers.
fn masked(left: &str) -> Option<(LinePrefix<'_>, usize)> {
    let (token, begin) = last_word(left);
    let (rest, tid) = token.rsplit_once(':')?;
    let (host, pid) = rest.rsplit_once(':')?;
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"<>*_-".contains(&b);
    let word = |text: &str| !text.is_empty() && text.bytes().all(inner);
    let wrapped = glued(host);
    let who = LinePrefix {
        host: host.get(wrapped..)?,
        ..LinePrefix::default()
    };
    (!host.is_empty() && word(pid) && word(tid)).then_some((who, begin + wrapped))
}

/// A record without a prefix: the text before it is empty, or only the place of a WARN.
fn bare(before: &str) -> Option<(LinePrefix<'_>, usize)> {
    let trimmed = without_tags(before);
    let place = trimmed
        .rsplit_once(':')
        .is_some_and(|(file, line)| is_number(line) && !file.contains(char::is_whitespace));
    // A tag of a launcher or a log shipper: `[rank0]:`, `worker-1:`.
    let tag = !trimmed.contains(char::is_whitespace) && trimmed.ends_with(':');
    (trimmed.is_empty() || place || tag).then(|| (LinePrefix::default(), before.len()))
}

/// A text without the times and bracketed tags before it: `2024-05-01T12:00:00Z`, `12:00:00.5`,
/// `[pod/a/b]`, `(RayWorker pid=1)`, `|`, `>`.
fn without_tags(text: &str) -> &str {
    let mut rest = text.trim();
    loop {
        let bracket = [('[', ']'), ('(', ')')].iter().find_map(|(open, close)| {
            let (inside, after) = rest.strip_prefix(*open)?.split_once(*close)?;
            (inside.len() < 64).then_some(after)
        });
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let digits = word.starts_with(|c: char| c.is_ascii_digit());
        let of_time = |c: char| c.is_ascii_digit() || ":.,-+TZ".contains(c);
        let day = word.len() == 10 && word.matches('-').count() == 2;
        let time = digits && (day || word.contains(':')) && word.chars().all(of_time);
        match bracket.or((time || matches!(word, "|" | "│" | ">")).then_some(after)) {
            Some(after) => rest = after.trim_start(),
            None => return rest,
        }
    }
}

/// Whether a text is one word that can be a name.
fn is_word(text: &str) -> bool {
    let of_name = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    text.bytes().all(of_name) && text.bytes().any(|b| b.is_ascii_alphabetic())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 10 && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(line: &str) -> Vec<(String, Option<u32>, Option<u32>, String)> {
        let mut found = Vec::new();
        records(line, |who, _, message| {
            found.push((who.host.to_string(), who.pid, who.tid, message.to_string()));
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
            ("gpu-1.a [0] NCCL INFO m", "", None, None),
            ("2025-08-12 09:37:02 NCCL INFO m", "", None, None),
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
            // Tools' words without a blank: line numbers, files, times.
            ("17:n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            (
                "logs/rank0.log:17:n1:2:3 [0] NCCL INFO m",
                "n1",
                Some(2),
                Some(3),
            ),
            ("rank0.log:n1:pid:tid [0] NCCL INFO m", "n1", None, None),
            ("12:00:01,n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            (
                "[2025-11-09 07:39:30]n1:2:3 [0] NCCL INFO m",
                "n1",
                Some(2),
                Some(3),
            ),
            (
                "2025-05-16T16:39:51.208Zn1:2:3 [0] NCCL INFO m",
                "n1",
                Some(2),
                Some(3),
            ),
            ("07:39:31n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("07:39:31-n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("07:39:31.208n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("07:39:311n:2:3 [0] NCCL INFO m", "1n", Some(2), Some(3)),
            ("07:39:31n1:2 [0] NCCL INFO m", "n1", Some(2), None),
            (
                "2025-01-02_07:39:31n1:2:3 [0] NCCL INFO m",
                "n1",
                Some(2),
                Some(3),
            ),
            ("1735803571n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            (
                "1735803571:2:3 [0] NCCL INFO m",
                "1735803571",
                Some(2),
                Some(3),
            ),
            (
                "17358035711n:2:3 [0] NCCL INFO m",
                "17358035711n",
                Some(2),
                Some(3),
            ),
            (
                "20250102073931-n1:2:3 [0] NCCL INFO m",
                "n1",
                Some(2),
                Some(3),
            ),
            ("7:39:31n1:2:3 [0] NCCL INFO m", "31n1", Some(2), Some(3)),
            ("17:39:1n:2:3 [0] NCCL INFO m", "1n", Some(2), Some(3)),
            ("17:99:31n:2:3 [0] NCCL INFO m", "31n", Some(2), Some(3)),
            ("(7)n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("t=3 msg=n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("3::2:3 [0] NCCL INFO m", "", Some(2), Some(3)),
            (r#"  - "n1:2:3 [0] NCCL INFO m","#, "n1", Some(2), Some(3)),
            (r"found.\nn1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            (
                r#"{"m":"\tn1:2:3 [0] NCCL INFO m"}"#,
                "n1",
                Some(2),
                Some(3),
            ),
            (
                r#"{"m":"\rn1:2:3 [0] NCCL INFO m"}"#,
                "n1",
                Some(2),
                Some(3),
            ),
            (
                r#"{"m":"\u001b[1;31mn1:2:3 [0] NCCL INFO m"}"#,
                "n1",
                Some(2),
                Some(3),
            ),
            // A colour without its escape byte.
            ("[31mn1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("^[[31mn1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("[3n1:2:3 [0] NCCL INFO m", "3n1", Some(2), Some(3)),
            ("rank3/n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("3#n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("3~n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("....n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("+n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("-n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("\0\0\0n1:2:3 [0] NCCL INFO m", "n1", Some(2), Some(3)),
            ("n_1-a:2:3 [0] NCCL INFO m", "n_1-a", Some(2), Some(3)),
            ("10.0.0.1:2:3 [0] NCCL INFO m", "10.0.0.1", Some(2), Some(3)),
            ("['n1:2:3 [0] NCCL INFO m',", "n1", Some(2), Some(3)),
            (
                r#"{"a":"{\"b\":\"n1:2:3 [0] NCCL INFO m\"}"}"#,
                "n1",
                Some(2),
                Some(3),
            ),
            ("2024-05-01T12:00:00.5Z [0] NCCL INFO m", "", None, None),
            ("[pod/a/b] 12:00:00 NCCL INFO m", "", None, None),
            (
                "(Ray pid=1) [0] misc/socket.cc:71 NCCL WARN m",
                "",
                None,
                None,
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
    fn lines_of_before_the_mark() {
        let got = unmarked("[rank0]:n1:7 [3] INFO Using internal Network Socket");
        let (who, message) = got.unwrap();
        assert_eq!((who.host, who.pid, who.device), ("n1", Some(7), Some(3)));
        assert_eq!(message, "Using internal Network Socket");
        for line in [
            "INFO Using internal Network Socket",
            "[0] INFO Using internal Network Socket",
            "it says `n1:7 [3] INFO Using internal Network Socket`",
            "n1:7 [x] INFO Using internal Network Socket",
        ] {
            assert!(unmarked(line).is_none(), "{line}");
        }
    }

    #[test]
    fn quotations_are_not_records() {
        for line in [
            "# NCCL INFO NET/Socket : Using [0]eth0:10.128.0.15<0>",
            "expect to see NCCL INFO Using network Socket",
            "print('NCCL INFO')",
            "NCCL version 2.1",
            "see [3] NCCL INFO",
            "# n1:7:8 [0] NCCL INFO Using network Socket",
            "it says `n1:7:8 [0] NCCL INFO Using network Socket` then",
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
        assert_eq!((got[0].0.as_str(), got[0].3.as_str()), ("1n7", "one"));
        assert_eq!((got[1].0.as_str(), got[1].3.as_str()), ("n8", "two"));
        let got = all("n7:1:2 [0] NCCL INFO Connected allx5:3:4 [0] NCCL INFO two");
        assert_eq!(got[0].3, "Connected");
        assert_eq!(got[1].3, "two");
    }
}
