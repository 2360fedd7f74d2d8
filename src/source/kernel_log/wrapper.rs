//! Strips what log readers and cluster tools put in front of a kernel message, and tells kernel from
//! user space.
//!
//! Only whole prefixes at the start are taken, one after the other until none fits: text that merely
//! quotes a kernel line keeps the quoting program's words in front, and so never decodes.

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use std::sync::LazyLock;

use super::{lines, record, text::is_digits};
use crate::data_files::embedded;
use crate::source::colour::without_colour;
use crate::source::container_log::unframe;
use crate::source::parse::{Pattern, pattern};

/// A message without its wrappers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stripped {
    /// The message as the kernel printed it.
    pub text: String,
    /// PCI address from the record's dictionary, with function.
    pub device: Option<String>,
    /// Whether the line was a raw record, whose dictionary may follow on later lines.
    pub raw_record: bool,
    /// Microseconds since boot, where the line has the kernel's own stamp.
    pub stamp_us: Option<u64>,
}

/// Strips the lines of a log in their order: entries of the journal may have a field a line.
#[derive(Debug, Default)]
pub struct Stripper {
    /// The entry says that a program speaks.
    user_space: bool,
}

impl Stripper {
    /// Strips the next line. `None`: it, or its entry, says that it does not come from the kernel.
    pub fn strip(&mut self, line: &str) -> Option<Stripped> {
        if line.is_empty() {
            self.user_space = false;
        } else if let Some((first, kernel)) = entry_field(line) {
            self.user_space = !kernel || (self.user_space && !first);
        }
        strip(line).filter(|_| !self.user_space)
    }
}

/// Strips one line. `None`: the line says that it does not come from the kernel.
pub fn strip(line: &str) -> Option<Stripped> {
    // Editors put U+FEFF before a file's first line, `journalctl -o json-seq` U+001E before an entry.
    let line = line.trim_start_matches(['\u{feff}', '\u{1e}']);
    let line = line.trim_end_matches(['\r', '\n']);
    let (frame, framed) = unframe(line.as_bytes());
    let framed = std::str::from_utf8(&framed).ok();
    // A container prints what it likes: as behind a tool's word, only a log is read.
    let framed = framed.filter(|text| frame.time.is_some() && is_log(&without_colour(text)));
    let line = without_colour(framed.unwrap_or(line));
    let line = behind_tools(&line, MOST_TOOLS).unwrap_or(&line);
    // `journalctl -o json-sse`.
    let line = (line
        .strip_prefix("data: ")
        .filter(|rest| is_journal_entry(rest)))
    .unwrap_or(line);
    if is_journal_entry(line) {
        return journal_object(line);
    }
    if let Some(r) = record::parse(line) {
        return (r.facility == 0).then(|| Stripped {
            text: r.text.into_owned(),
            device: r.device,
            raw_record: true,
            stamp_us: Some(r.ts_us),
        });
    }
    let mut stripped = Stripped::default();
    let json = json_message(line).or_else(|| shipped(line));
    stripped.text = json.or_else(|| without_prefixes(line, &mut stripped.stamp_us))?;
    Some(stripped)
}

/// What follows the prefixes of a log, of which one may be the kernel's stamp; `None` where one says that
/// a program speaks.
fn without_prefixes(line: &str, stamp: &mut Option<u64>) -> Option<String> {
    let mut rest = line.trim_start();
    let mut stamped = false;
    for _ in 0..MOST_PREFIXES {
        let Some((kind, after)) = log_prefix(rest, stamped) else {
            break;
        };
        if kind == Kind::UserSpace {
            return None;
        }
        stamped |= kind == Kind::Stamp;
        *stamp = stamp.or_else(|| Some(lines::stamp(rest.as_bytes())?.0));
        // syslog-ng puts U+FEFF before the text.
        rest = after.trim_start().trim_start_matches('\u{feff}');
        if kind == Kind::Kernel {
            rest = repeated(rest).unwrap_or(rest);
        }
    }
    Some(rest.to_owned())
}

/// What rsyslog makes of equal messages: `message repeated 3 times: [ TEXT]`.
fn repeated(s: &str) -> Option<&str> {
    let (times, text) = (s.strip_prefix("message repeated ")?).split_once(" times: [")?;
    let text = text.strip_suffix(']').unwrap_or(text).trim_start();
    is_digits(times).then_some(text)
}

/// Most prefixes of a log that are taken off a line: each is looked for in all that is left of it.
const MOST_PREFIXES: usize = 12;

/// An entry of a log as a JSON object.
type JsonObject = serde_json::Map<String, Value>;

/// The text of `dmesg -J`, as a whole object or a field a line, of `journalctl -o json-pretty`, and of Fluent
/// Bit's input `kmsg`.
fn json_message(line: &str) -> Option<String> {
    let line = line.trim().trim_end_matches(',');
    let field = line.strip_prefix("\"msg\":");
    if let Some(text) = field.or_else(|| line.strip_prefix("\"MESSAGE\" : ")) {
        return serde_json::from_str(text).ok();
    }
    let is_entry = line.starts_with('{') && line.contains("\"msg\"");
    if !is_entry {
        return None;
    }
    let entry: JsonObject = serde_json::from_str(line).ok()?;
    let dmesg = |name: &String| ["fac", "pri", "time", "caller", "msg"].contains(&name.as_str());
    let from_kernel = match (entry.get("fac"), entry.get("pri")) {
        (None, None) => entry.get("sequence")?.is_u64(),
        (None, Some(priority)) => priority.as_u64()? < 8 && entry.keys().all(dmesg),
        (Some(facility), _) => facility == "kern" && entry.keys().all(dmesg),
    };
    from_kernel.then_some(())?;
    Some(entry.get("msg")?.as_str()?.to_owned())
}

/// What log shippers make of an entry that says that it comes from the kernel: Vector and Fluent Bit of
/// the journal's, Fluentd and rsyslog of syslog's.
fn shipped(line: &str) -> Option<String> {
    const SPEAKERS: &str = "_TRANSPORT SYSLOG_IDENTIFIER ident appname program programname";
    let line = line.trim();
    if !(line.starts_with('{') && line.contains("\"kernel\"")) {
        return None;
    }
    let entry: JsonObject = serde_json::from_str(line).ok()?;
    let said = |name: &str| entry.get(name).and_then(|value| value.as_str());
    let from_kernel = SPEAKERS.split(' ').any(|name| said(name) == Some("kernel"));
    let message = said("message")
        .or_else(|| said("msg"))
        .filter(|_| from_kernel)?;
    let message = message.trim_start();
    // syslog's text still has the kernel's own stamp.
    let stamp = log_prefix(message, false).filter(|(kind, _)| *kind == Kind::Stamp);
    let text = stamp.map_or(message, |(_, text)| text.trim_start());
    Some(text.to_owned())
}

/// `journalctl -o json`: one object a line; MESSAGE is an array of bytes when it is not UTF-8.
fn journal_object(line: &str) -> Option<Stripped> {
    let line = line.trim_end().trim_end_matches(',');
    let entry: JsonObject = serde_json::from_str(line).ok()?;
    let field = |name: &str| entry.get(name).filter(|value| !value.is_null());
    let speaker = field("_TRANSPORT").or_else(|| field("SYSLOG_IDENTIFIER"));
    let from_kernel = speaker.is_none_or(|speaker| speaker == "kernel");
    let kernel_facility = field("SYSLOG_FACILITY").is_none_or(|facility| facility == "0");
    if !(from_kernel && kernel_facility) {
        return None;
    }
    let text = match field("MESSAGE")? {
        Value::String(text) => text.clone(),
        bytes => String::from_utf8_lossy(&Vec::<u8>::deserialize(bytes).ok()?).into_owned(),
    };
    Some(Stripped {
        text,
        device: field("_KERNEL_DEVICE").and_then(|device| record::pci_device(device.as_str()?)),
        raw_record: false,
        stamp_us: field("_SOURCE_MONOTONIC_TIMESTAMP").and_then(|us| us.as_str()?.parse().ok()),
    })
}

/// What a field of `journalctl -o export`, `-o verbose` or `-o json-pretty`, or of `dmesg -J`, says of its entry, which
/// is one field a line: whether it is the first, and whether the entry comes from the kernel. `None` for other lines.
pub fn entry_field(line: &str) -> Option<(bool, bool)> {
    let line = line.trim();
    if line == "{" {
        return Some((true, true));
    }
    // `dmesg -J --decode`, where a word is the priority.
    if let Some(facility) = line.strip_prefix("\"fac\":") {
        return Some((true, facility.trim().trim_end_matches(',') == "\"kern\""));
    }
    if let Some(priority) = line.strip_prefix("\"pri\":") {
        let priority: u32 = priority.trim_end_matches(',').trim().parse().ok()?;
        return Some((true, priority < 8));
    }
    let pretty = || line.trim_end_matches(',').split_once(" : ");
    let (name, value) = line.split_once('=').or_else(pretty)?;
    let (name, value) = (name.trim_matches('"'), value.trim_matches('"'));
    match name {
        "__CURSOR" => Some((true, true)),
        "_TRANSPORT" => Some((false, value == "kernel")),
        "SYSLOG_FACILITY" => Some((false, value == "0")),
        _ => None,
    }
}

/// The line behind what tools add that run on many hosts (`node-7: ` of pdsh and clush, `3: ` of srun,
/// `"` of Ansible), show containers (`[pod/NAME/CONTAINER] `, `NAME-1  | `), search (`kern.log:12:`) or
/// compare (`+`, `<`), or quote (`> `, `│ `). Anyone can print such a word, so it is stripped only in
/// front of a log's prefix, also behind other such words.
fn behind_tools(line: &str, most: usize) -> Option<&str> {
    let start = line.trim_start();
    let word = TOOL.as_ref()?.find(start).filter(|_| most > 0)?.as_str();
    if log_prefix(start, false).is_some() {
        return None;
    }
    let inner = start.strip_prefix(word)?.trim_start();
    let inner = match word {
        "\"" => inner.trim_end_matches(',').trim_end_matches('"'),
        "│" => inner.trim_end_matches([' ', '│']),
        _ => inner,
    };
    match is_log(inner) {
        true => Some(inner),
        false => behind_tools(inner, most - 1),
    }
}

/// Most words of tools before a log's own prefix.
const MOST_TOOLS: usize = 4;

/// One word of a tool. Names of hosts and files, and numbers of tasks have a digit or a slash, or end as
/// logs do; a program's name has none as a rule.
static TOOL: Pattern = Pattern::new(|| {
    let host = |letter: &str| format!(r"(?:{letter}*[0-9/]{letter}*|{letter}*\.(?:log|txt))");
    let (piped, named) = (host(r"[^ \[<{;]"), host(r"[^ \[<{;:]"));
    let pod = r"\[pod/.*?\] ";
    // `grep` in /var/log, with lines around a match.
    let file = r"(?:messages|syslog|dmesg|[a-z]+\.log)[-:](?:[0-9]+[-:])?";
    pattern(&format!(
        r#"^(?:{file}|[-+*<>|│"]|{pod}|(?:{piped} *\| |{named}:)(?:[0-9]+:)?|[0-9]+[ \t])"#
    ))
});

fn is_journal_entry(s: &str) -> bool {
    s.trim_start().starts_with('{') && s.contains("\"MESSAGE\"")
}

/// Whether a raw record, an entry of the journal or a prefix of a log comes first.
fn is_log(s: &str) -> bool {
    is_journal_entry(s) || record::parse(s).is_some() || log_prefix(s, false).is_some()
}

/// `prefixes.toml`, which says what it holds.
#[derive(Default, Deserialize)]
struct Prefixes {
    parts: Vec<(String, String)>,
    prefixes: Vec<Prefix>,
}

#[derive(Deserialize)]
struct Prefix {
    kind: Kind,
    /// Only behind a stamp.
    #[serde(default)]
    stamped: bool,
    form: String,
}

/// Kinds of prefixes of a log.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// A time, behind which a host's name may stand.
    Stamp,
    /// It says that the kernel speaks.
    Kernel,
    /// It says that a program speaks.
    UserSpace,
}

/// The prefixes with their expressions.
static PREFIXES: LazyLock<Vec<(Prefix, Regex)>> = LazyLock::new(|| {
    let Prefixes { parts, prefixes } = embedded(include_str!("prefixes.toml"));
    let expression = |prefix: &Prefix| {
        let mut form = prefix.form.clone();
        for (name, part) in parts.iter().rev() {
            form = form.replace(&format!("{{{name}}}"), part);
        }
        pattern(&format!("(?xs)^(?:{form})"))
    };
    let prefixes = prefixes.into_iter();
    let prefixes = prefixes.filter_map(|prefix| expression(&prefix).map(|form| (prefix, form)));
    prefixes.collect()
});

/// Levels that programs write next to a time, where a kernel's line may have a zone.
const LEVELS: &str = "TRACE DEBUG DBG INFO INF WARN WRN ERROR ERR FATAL CRIT ALERT";

/// The next prefix, and what follows it.
fn log_prefix(s: &str, stamped: bool) -> Option<(Kind, &str)> {
    let is_level = |word: &str| LEVELS.split(' ').any(|level| level == word);
    PREFIXES.iter().find_map(|(prefix, form)| {
        let found = (stamped || !prefix.stamped).then(|| form.captures(s))??;
        let group = |name| found.name(name).map(|text| text.as_str());
        let rest = group("rest").or_else(|| s.get(found.get_match().end()..))?;
        let own = s.strip_suffix(rest).unwrap_or_default();
        let by_a_program = prefix.kind == Kind::Stamp
            && !rest.starts_with("kernel")
            && own.split(|c: char| !c.is_alphanumeric()).any(is_level);
        (!by_a_program && group("host") == group("again")).then_some((prefix.kind, rest))
    })
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
            "[12345.678901 <    0.000012>] ",
            "[Sun Feb 23 16:24:18 2025 <    0.000012>] ",
            "[<    0.000012>] ",
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
            "<4>1 2026-10-03T06:01:36Z node-13 kernel - - [meta sequenceId=\"29\"] ",
            "\x1b[32m[12345.678901] \x1b[0m",
            "3,1,1,-;",
            "4,1,1,c,caller=C12;",
            // Other languages.
            "Okt  6 09:30:00 node-2 kernel: [  922.175276] ",
            "févr. 23 16:24:18 node kernel: ",
            "12月  6 17:49:03 node-9 kernel: ",
            "[So Feb 23 16:24:18 2025] ",
            "[dim. févr. 23 16:24:18 2025] ",
            "Mo 2026-10-03 06:01:36 MSK node-13 kernel: ",
            "Sat 03 Oct 2026 06:01:36 AM UTC node-13 kernel: ",
            // Tools for many hosts.
            "node-7: [12345.678901] ",
            "node-7:[Sun Feb 23 16:24:18 2025] ",
            "10.5.0.2: kern: warning: [2026-04-11T08:40:16.123456789Z]: ",
            "10.5.0.2: kern:    info: [2026-04-11T08:40:16.123456789Z]: ",
            "gpu12: Sep  9 12:24:31 gpu12 kernel: ",
            "gpu12: 3,1,1,-;",
            "3: <4>[   50.238119] ",
            " 3: [12345.678901] ",
            // Containers.
            "[pod/debug-7f/shell] [12345.678901] ",
            "[pod/debug-7f/shell] 2026-04-11T08:40:16.123456789Z [12345.678901] ",
            "2026-04-11T08:40:16.123456789Z stdout F [12345.678901] ",
            "dmesg-1  | [12345.678901] ",
            // Search, comparison, pagers.
            "dmesg.txt:[12345.678901] ",
            "kern.log:Sep  9 12:24:31 node-8 kernel: ",
            "messages:Sep  9 12:24:31 node-8 kernel: ",
            "syslog:Sep  9 12:24:31 node-8 kernel: ",
            "dmesg:[12345.678901] ",
            "kern.log-Sep  9 12:24:31 node-8 kernel: ",
            "messages-118-Sep  9 12:24:31 node-8 kernel: ",
            "<3>1 2025-03-01T10:00:00+01:00 node-8 kernel - - - \u{feff}",
            "/var/log/messages:120:Sep  9 12:24:31 node-8 kernel: ",
            "17:[12345.678901] ",
            "    17\t[12345.678901] ",
            "+[12345.678901] ",
            "* [    5.278293] ",
            "> Sep  9 12:24:31 node-8 kernel: ",
            "< [12345.678901] ",
            "> > Sep  9 12:24:31 node-8 kernel: ",
            "│ [12345.678901] ",
            "  17 [12345.678901] ",
            "node-7: > [12345.678901] ",
            "17:node-7: 3,1,1,-;",
            // A relay of syslog.
            "Sep  9 12:24:31 node node kernel: ",
            "Sep  9 12:24:31 10.0.0.7 node-8 kernel: [1.5] ",
            // Without a time; SONiC, openSUSE, klogd.
            "node-8 kernel: ",
            "hostname kernel: ",
            "Apr  9 21:05:38.106121 node-8 INFO kernel: [10601.214044] ",
            "<0.4> 2019-07-25 18:19:19 node-8 kernel - - - [127181.795181] ",
            "Aug 14 11:51:23 node klogd: [   32.195694] ",
            // The journal, field by field; busybox.
            "MESSAGE=",
            "    MESSAGE=",
            "Jan  1 00:00:14 node kern.warn kernel: [   14.2] ",
            // A host without a name, chains of hosts, ESXi.
            "Sep  9 12:24:31 (none) kernel: ",
            "Sep  9 12:24:31 s_sys@node-8 kernel: ",
            "Sep  9 12:24:31 node-8/10.0.0.3 kernel: [1.5] ",
            "2026-11-22T07:39:45.123Z cpu12:2099001)",
            "2026-11-22T07:39:45.123Z In(182) vmkernel: cpu12:2099001 opID=a9f5cca4)",
            // A file's first line.
            "\u{feff}[12345.678901] ",
            "\u{feff}3,1,1,-;",
            // rsyslog, cut.
            "Sep  9 12:24:31 node-8 kernel: message repeated 3 times: [ ",
            "Sep  9 12:24:31 node-8 kernel: message repeated 3 times: [[12345.678901] ",
        ] {
            let line = format!("{before}{MESSAGE}");
            let got = strip(&line).map(|s| s.text);
            assert_eq!(got.as_deref(), Some(MESSAGE), "{before:?}");
        }
    }

    #[test]
    fn the_kernels_own_stamp() {
        for (before, want) in [
            ("[12345.678901] ", Some(12_345_678_901)),
            ("<4>[   50.238119] ", Some(50_238_119)),
            (
                "Sep  9 12:24:31 node-8 kernel: [    1.000002] ",
                Some(1_000_002),
            ),
            ("[12345.678901 <    0.000012>] ", None),
            ("3,1,17,-;", Some(17)),
            ("[  +0.000031] ", None),
            ("[Sun Feb 23 16:24:18 2025] ", None),
            ("1700000000.123456 node-13 kernel: ", None),
            ("", None),
        ] {
            let stripped = strip(&format!("{before}{MESSAGE}")).unwrap();
            assert_eq!(stripped.stamp_us, want, "{before}");
        }
    }

    #[test]
    fn a_repeated_message_ends_before_its_bracket() {
        let line = format!("Sep  9 12:24:31 node-8 kernel: message repeated 3 times: [ {MESSAGE}]");
        assert_eq!(strip(&line).unwrap().text, MESSAGE);
    }

    #[test]
    fn a_line_of_prefixes_alone_ends_soon() {
        let line = "kernel: ".repeat(200_000);
        assert!(strip(&line).unwrap().text.len() > line.len() / 2);
    }

    #[test]
    fn journal_objects() {
        let bytes: Vec<String> = MESSAGE.bytes().map(|b| b.to_string()).collect();
        let array = format!(
            "{{\"_TRANSPORT\":\"kernel\",\"MESSAGE\":[{}],\"_KERNEL_DEVICE\":\"+pci:0000:5c:00.0\"}}",
            bytes.join(",")
        );
        let got = strip(&array).unwrap();
        assert_eq!(got.text, MESSAGE);
        assert_eq!(got.device.as_deref(), Some("0000:5c:00.0"));
        let object = format!("{{\"_TRANSPORT\":\"kernel\",\"MESSAGE\":\"{MESSAGE}\"}}");
        for (before, after) in [("data: ", ""), ("\u{1e}", ""), ("  ", ",")] {
            let line = format!("{before}{object}{after}");
            assert_eq!(strip(&line).unwrap().text, MESSAGE, "{line}");
        }
        for refused in [
            format!("data: {{\"_TRANSPORT\":\"syslog\",\"MESSAGE\":\"{MESSAGE}\"}}"),
            format!("{{\"_TRANSPORT\":\"syslog\",\"MESSAGE\":\"{MESSAGE}\"}}"),
            format!("{{\"SYSLOG_IDENTIFIER\":\"agent\",\"MESSAGE\":\"{MESSAGE}\"}}"),
            format!(
                "{{\"_TRANSPORT\":\"kernel\",\"SYSLOG_FACILITY\":\"1\",\"MESSAGE\":\"{MESSAGE}\"}}"
            ),
            "{\"_TRANSPORT\":\"kernel\",\"MESSAGE\":null}".to_owned(),
            "{\"MESSAGE\": torn".to_owned(),
        ] {
            assert_eq!(strip(&refused), None, "{refused}");
        }
    }

    #[test]
    fn lines_inside_json() {
        for line in [
            format!(r#"         "msg": "{MESSAGE}""#),
            format!("\t\"MESSAGE\" : \"{MESSAGE}\","),
            format!(r#"{{"priority":3,"sequence":1234,"sec":812,"usec":4211,"msg":"{MESSAGE}"}}"#),
            format!(r#"    "[12345.678901] {MESSAGE}","#),
            format!(r#"{{"pri":3,"time":812.004211,"msg":"{MESSAGE}"}}"#),
            format!(r#"{{"fac":"kern","pri":"err","caller":"T1","msg":"{MESSAGE}"}}"#),
            format!(
                r#"{{"log":"[12345.678901] {MESSAGE}\n","stream":"stdout","time":"2026-04-11T08:40:16Z"}}"#
            ),
        ] {
            assert_eq!(strip(&line).unwrap().text, MESSAGE, "{line}");
        }
    }

    #[test]
    fn lines_of_log_shippers() {
        for line in [
            format!(r#"{{"message":"{MESSAGE}","_TRANSPORT":"kernel","host":"n1"}}"#),
            format!(r#"{{"host":"n1","ident":"kernel","message":"[  12.5] {MESSAGE}"}}"#),
            format!(r#"{{"msg":" {MESSAGE}","programname":"kernel","severity":"err"}}"#),
        ] {
            assert_eq!(strip(&line).unwrap().text, MESSAGE, "{line}");
        }
        for line in [
            format!(r#"{{"message":"{MESSAGE}","ident":"healthd"}}"#),
            format!(r#"{{"message":"{MESSAGE}","topic":"kernel"}}"#),
            format!(r#"{{"message":"{MESSAGE}","level":"error"}}"#),
            format!(r#"{{"pri":14,"time":812.004211,"msg":"{MESSAGE}"}}"#),
            format!(r#"{{"fac":"user","pri":"err","msg":"{MESSAGE}"}}"#),
            format!(r#"{{"pri":3,"app":"healthd","msg":"{MESSAGE}"}}"#),
        ] {
            assert!(!strip(&line).unwrap().text.starts_with("NVRM"), "{line}");
        }
    }

    #[test]
    fn user_space_is_refused_or_keeps_its_own_words() {
        for line in [
            "12,1,1,-;x",
            "<14>x",
            "user  :warn  : [1.5] x",
            "n1: user: info: [1.5]: x",
            "<1.4> healthd: x",
        ] {
            assert_eq!(strip(line), None, "{line}");
        }
        for before in [
            "healthd: ",
            "Sep  9 12:24:31 node-8 healthd[12]: ",
            "Sep  9 12:24:31 node-8 healthd: kernel: ",
            "[I 07-09 05:37:45 parse.py:128] node has: ",
            "[1] ",
            "the kernel: ",
            "detected kernel: ",
            "5.15 kernel: ",
            "6.8.0-45-generic kernel: ",
            "2026-10-03 06:01:36,123 healthd ERROR kernel: ",
            "2026-10-03 06:01:36,123 gpu_health WARNING kernel: ",
            "Aug 14 11:51:23 node klogd: ",
            "> ",
            "[ 922.175276] [<f12829d9>] ",
            "node-7: ",
            "node-7: healthd: ",
            "healthd: [12345.678901] ",
            "+ ",
            "kern.log: ",
            "worker at 12:24:31: ",
            "[12:24:31] alice the kernel: ",
            "> node-7: healthd: ",
            "> > ",
            "│ ",
            "17 ",
            "\"",
            "[pod/healthd-7f/main] ",
            "2026-04-11T08:40:16.123456789Z stdout F ",
            "healthd-1  | ",
            "a | ",
            "message repeated 3 times: [ ",
            "Sep  9 12:24:31 node-8 healthd: message repeated 3 times: [ ",
            "Sep  9 12:24:31 (healthd) kernel: ",
            "cpu12:2099001)",
            "data: ",
            // A program's own stamp.
            "2025-11-28T10:00:01Z WARN ",
            "2025-11-28T10:00:01Z  INFO ",
            "2025-11-28T10:00:01.123456Z ERROR ",
            "2025-11-28 10:00:01 WARN ",
            "[2025-11-28T10:00:01Z INFO gpud] ",
            "[10:00:01 INF] ",
        ] {
            let line = format!("{before}{MESSAGE}");
            let got = strip(&line).unwrap();
            assert!(!got.text.starts_with("NVRM"), "{before:?} -> {}", got.text);
        }
    }
}
