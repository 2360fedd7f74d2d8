//! Strips what log readers put in front of a kernel message, and tells kernel from user space.
//!
//! Only whole prefixes at the start are taken: text that merely quotes a kernel line keeps the
//! quoting program's words in front, and so never decodes.

use std::borrow::Cow;

use serde::Deserialize;

use super::record;
use crate::source::colour::without_colour;

/// A message without its wrappers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripped<'a> {
    /// The message as the kernel printed it.
    pub text: Cow<'a, str>,
    /// PCI address from the record's dictionary, with function.
    pub device: Option<String>,
    /// Whether the line was a raw record, whose dictionary may follow on later lines.
    pub raw_record: bool,
}

/// Strips one line. `None`: the line says that it does not come from the kernel.
///
/// `any_facility` accepts what user space wrote to the kernel log; for tests and demonstrations.
#[must_use]
pub fn strip(line: &str, any_facility: bool) -> Option<Stripped<'_>> {
    let line = line.trim_end_matches(['\r', '\n']);
    if let Cow::Owned(plain) = without_colour(line) {
        let owned = strip_plain(&plain, any_facility)?.to_owned();
        return Some(plain_text(Cow::Owned(owned)));
    }
    if line.starts_with('{') && line.contains("\"MESSAGE\"") {
        return journal_object(line, any_facility);
    }
    if let Some(r) = record::parse(line) {
        if r.facility != 0 && !any_facility {
            return None;
        }
        return Some(Stripped {
            text: r.text,
            device: r.device,
            raw_record: true,
        });
    }
    strip_plain(line, any_facility).map(|s| plain_text(Cow::Borrowed(s)))
}

fn plain_text(text: Cow<'_, str>) -> Stripped<'_> {
    Stripped {
        text,
        device: None,
        raw_record: false,
    }
}

/// `journalctl -o json`: one object a line; MESSAGE is an array of bytes when it is not UTF-8.
#[derive(Deserialize)]
struct JournalEntry {
    #[serde(rename = "MESSAGE")]
    message: Option<Message>,
    #[serde(rename = "_TRANSPORT")]
    transport: Option<String>,
    #[serde(rename = "SYSLOG_IDENTIFIER")]
    identifier: Option<String>,
    #[serde(rename = "SYSLOG_FACILITY")]
    facility: Option<String>,
    #[serde(rename = "_KERNEL_DEVICE")]
    device: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Message {
    Text(String),
    Bytes(Vec<u8>),
}

fn journal_object(line: &str, any_facility: bool) -> Option<Stripped<'_>> {
    let entry: JournalEntry = serde_json::from_str(line).ok()?;
    let from_kernel = match (&entry.transport, &entry.identifier) {
        (Some(t), _) => t == "kernel",
        (None, Some(i)) => i == "kernel",
        (None, None) => true,
    };
    let kernel_facility = entry.facility.as_deref().is_none_or(|f| f == "0");
    let trusted = from_kernel && kernel_facility;
    if !(trusted || any_facility) {
        return None;
    }
    let text = match entry.message? {
        Message::Text(s) => s,
        Message::Bytes(b) => String::from_utf8_lossy(&b).into_owned(),
    };
    Some(Stripped {
        text: Cow::Owned(text),
        device: entry.device.as_deref().and_then(record::pci_device),
        raw_record: false,
    })
}

/// The textual prefixes, in any order that readers stack them.
fn strip_plain(line: &str, any_facility: bool) -> Option<&str> {
    let mut s = line.trim_start();
    let mut stamped = false;
    // dmesg -x -T in a journal short line is the deepest stack seen: five layers.
    for _ in 0..8 {
        let before = s.len();
        if let Some((prio, rest)) = angle_priority(s) {
            if prio >> 3 != 0 && !any_facility {
                return None;
            }
            s = rest;
        }
        if let Some((facility, rest)) = decorated(s) {
            if facility != "kern" && !any_facility {
                return None;
            }
            s = rest;
        }
        if let Some(rest) = bracket_stamp(s) {
            s = rest;
            stamped = true;
        }
        if let Some(rest) = date(s) {
            s = rest;
            stamped = true;
        }
        if let Some(rest) = kernel_tag(s, stamped) {
            s = rest;
        }
        if s.len() == before {
            break;
        }
    }
    Some(s)
}

/// `<4>`, and RFC 5424's version digit behind it.
fn angle_priority(s: &str) -> Option<(u32, &str)> {
    let (inner, rest) = s.strip_prefix('<')?.split_once('>')?;
    if inner.len() > 3 || !inner.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let prio = inner.parse().ok()?;
    let rest = match rest.strip_prefix("1 ") {
        Some(r) if r.bytes().next().is_some_and(|b| b.is_ascii_digit()) => r,
        _ => rest,
    };
    Some((prio, rest.trim_start()))
}

/// `dmesg -x`: `kern  :warn  : `.
fn decorated(s: &str) -> Option<(&str, &str)> {
    const FACILITIES: [&str; 14] = [
        "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron",
        "authpriv", "ftp", "local0", "local1",
    ];
    const LEVELS: [&str; 8] = [
        "emerg", "alert", "crit", "err", "warn", "notice", "info", "debug",
    ];
    let (facility, rest) = s.split_once(':')?;
    let facility = facility.trim_end();
    if !FACILITIES.contains(&facility) {
        return None;
    }
    let (level, rest) = rest.split_once(':')?;
    LEVELS
        .contains(&level.trim())
        .then_some((facility, rest.trim_start()))
}

/// `[  123.456]`, `[Sun Feb 23 16:24:18 2025]`, `[ T1946]`, `[  +0.000012]`, `[...]`.
fn bracket_stamp(s: &str) -> Option<&str> {
    let (inner, rest) = s.strip_prefix('[')?.split_once(']')?;
    let inner = inner.trim();
    let stamp = inner.len() <= 40
        && (inner == "..."
            || caller(inner)
            || (inner.contains(['.', ':'])
                && inner.split_ascii_whitespace().all(date_word)
                && inner.bytes().any(|b| b.is_ascii_digit())));
    stamp.then(|| rest.trim_start())
}

/// printk's caller id: `T` and a thread, or `C` and a processor.
fn caller(s: &str) -> bool {
    s.strip_prefix(['T', 'C'])
        .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A date at the start, of as many words as it has.
fn date(s: &str) -> Option<&str> {
    let mut rest = s;
    let mut has_time = false;
    for _ in 0..7 {
        let (word, after) = word(rest);
        if word.is_empty() || !date_word(word) {
            break;
        }
        has_time |= word.starts_with(|c: char| c.is_ascii_digit()) && word.contains([':', '.']);
        rest = after;
    }
    (has_time && rest.len() < s.len()).then_some(rest)
}

/// A word of a date: a name of a day, month or zone, or digits with the signs of times.
fn date_word(w: &str) -> bool {
    const NAMES: [&str; 21] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec", "Mon",
        "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "UTC", "GMT",
    ];
    let bare = w.trim_end_matches([',', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    if NAMES.contains(&bare) {
        return true;
    }
    let Some(first) = w.bytes().next() else {
        return false;
    };
    // Local zone names: CET, CEST, AEDT.
    if (3..=4).contains(&w.len()) && w.ends_with('T') && w.bytes().all(|b| b.is_ascii_uppercase()) {
        return true;
    }
    (first.is_ascii_digit() || first == b'+')
        && w.bytes().any(|b| b.is_ascii_digit())
        && w.bytes()
            .all(|b| b.is_ascii_digit() || b".:-+,TZ".contains(&b))
        && !w.ends_with(':')
}

/// `kernel: `, and the host's name before it when a stamp came first; RFC 5424's dashes after.
fn kernel_tag(s: &str, stamped: bool) -> Option<&str> {
    if let Some(rest) = kernel_word(s) {
        return Some(rest);
    }
    let (host, rest) = word(s);
    let host_like = !host.is_empty()
        && host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._:%".contains(&b))
        && !host.ends_with(':');
    if !(stamped && host_like) {
        return None;
    }
    kernel_word(rest).or_else(|| {
        let mut rest = rest.strip_prefix("kernel - ")?;
        while let Some(r) = rest.strip_prefix("- ") {
            rest = r;
        }
        Some(rest)
    })
}

/// `kernel:` with or without a blank after it, and `kernel[0]:`.
fn kernel_word(s: &str) -> Option<&str> {
    let rest = s.strip_prefix("kernel")?;
    let rest = match rest.strip_prefix('[') {
        Some(r) => r
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .strip_prefix(']')?,
        None => rest,
    };
    let rest = rest.strip_prefix(':')?;
    (rest.is_empty() || rest.starts_with([' ', '[', '<'])).then(|| rest.trim_start())
}

/// The first word and what follows its blanks.
fn word(s: &str) -> (&str, &str) {
    match s.split_once(' ') {
        Some((w, rest)) => (w, rest.trim_start()),
        None => (s, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "NVRM: Xid (PCI:0000:5f:00): 79, GPU has fallen off the bus.";

    #[test]
    fn every_wrapper_gives_the_same_message() {
        for before in [
            "",
            "[12345.678901] ",
            "[    1.000000] ",
            "[ 140.054924 ] ",
            "[12345.678901][ T1946] ",
            "[12345.678901] [ T1946] ",
            "[Sun Feb 23 16:24:18 2025] ",
            "[Sun Mar 29 19:20:37] ",
            "[Jan18 08:23] ",
            "[  +0.000031] ",
            "[...] ",
            "<4>[   50.238119] ",
            "<4>",
            "kern  :warn  : ",
            "kern  :err   : [12345.678901] ",
            "kern  :warn  : 2025-01-21T04:41:44,283302+00:00 ",
            "kern  :warn  : [Sun Feb 23 16:24:18 2025] ",
            "2025-01-21T04:41:44,283302+00:00 ",
            "Sep 09 12:24:31 node-8 kernel: ",
            "Sep  9 12:24:31 node-8 kernel: [  122.175276] ",
            "Sep  9 12:24:31.123456 node-8 kernel: ",
            "2026-10-04T14:16:55+03:00 node-11 kernel: ",
            "2026-10-03T06:01:36-0400 node-13 kernel: [1.5] ",
            "2026-10-03 06:01:36 node-13 kernel: ",
            "Mon 2026-10-03 06:01:36 UTC node-13 kernel: ",
            "Mon 2026-10-03 06:01:36 CEST node-13 kernel: ",
            "1700000000.123456 node-13 kernel: ",
            "[  123.456789] node-13 kernel: ",
            "[Sun Dec  1 14:54:40 2024] node-13 kernel: ",
            "kernel: ",
            "kernel: [16450076.435595] ",
            "2022-11-04T14:09:31 server kernel:[75215.928853] ",
            "<4>1 2026-10-03T06:01:36Z node-13 kernel - - - ",
            "\x1b[32m[12345.678901] \x1b[0m",
            "3,1,1,-;",
            "4,1,1,c,caller=C12;",
        ] {
            let line = format!("{before}{MESSAGE}");
            let got = strip(&line, false).map(|s| s.text.into_owned());
            assert_eq!(got.as_deref(), Some(MESSAGE), "{before:?}");
        }
    }

    #[test]
    fn journal_objects() {
        let bytes: Vec<String> = MESSAGE.bytes().map(|b| b.to_string()).collect();
        let array = format!(
            "{{\"_TRANSPORT\":\"kernel\",\"MESSAGE\":[{}],\"_KERNEL_DEVICE\":\"+pci:0000:5c:00.0\"}}",
            bytes.join(",")
        );
        let got = strip(&array, false).unwrap();
        assert_eq!(got.text, MESSAGE);
        assert_eq!(got.device.as_deref(), Some("0000:5c:00.0"));
        for refused in [
            format!("{{\"_TRANSPORT\":\"syslog\",\"MESSAGE\":\"{MESSAGE}\"}}"),
            format!("{{\"SYSLOG_IDENTIFIER\":\"agent\",\"MESSAGE\":\"{MESSAGE}\"}}"),
            format!(
                "{{\"_TRANSPORT\":\"kernel\",\"SYSLOG_FACILITY\":\"1\",\"MESSAGE\":\"{MESSAGE}\"}}"
            ),
            "{\"_TRANSPORT\":\"kernel\",\"MESSAGE\":null}".to_owned(),
            "{\"MESSAGE\": torn".to_owned(),
        ] {
            assert_eq!(strip(&refused, false), None, "{refused}");
        }
    }

    #[test]
    fn user_space_is_refused_or_keeps_its_own_words() {
        for line in ["12,1,1,-;x", "<14>x", "user  :warn  : [1.5] x"] {
            assert_eq!(strip(line, false), None, "{line}");
            assert!(strip(line, true).is_some(), "{line}");
        }
        for before in [
            "healthd: ",
            "Sep  9 12:24:31 node-8 healthd[12]: ",
            "Sep  9 12:24:31 node-8 healthd: kernel: ",
            "[I 07-09 05:37:45 parse.py:128] node has: ",
            "[1] ",
            "the kernel: ",
            "> ",
            "[ 922.175276] [<f12829d9>] ",
        ] {
            let line = format!("{before}{MESSAGE}");
            let got = strip(&line, false).unwrap();
            assert!(!got.text.starts_with("NVRM"), "{before:?} -> {}", got.text);
        }
    }
}
