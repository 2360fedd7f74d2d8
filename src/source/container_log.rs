//! One line as a container runtime keeps it, without the frame: CRI (`TIME STREAM P|F TEXT`,
//! kubelet's pkg/kubelet/kuberuntime/logs) or Docker's json-file. Any other line is its own text.

use serde::de::IgnoredAny;
use std::{borrow::Cow, collections::BTreeMap};

/// What stands around a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Frame<'a> {
    /// When the runtime took it, RFC 3339.
    pub time: Option<&'a str>,
    /// stderr.
    pub stderr: bool,
    /// The next frame of the same stream goes on with it.
    pub partial: bool,
}

/// Takes the frame off. Text is owned where it had to be unescaped.
pub fn unframe(line: &[u8]) -> (Frame<'_>, Cow<'_, [u8]>) {
    let framed = match line.first() {
        Some(b'0'..=b'9') => cri(line),
        Some(b'{') => docker_json(line),
        _ => None,
    };
    framed.unwrap_or((Frame::default(), line.into()))
}

fn cri(line: &[u8]) -> Option<(Frame<'_>, Cow<'_, [u8]>)> {
    let space = memchr::memchr(b' ', line.get(..40.min(line.len()))?)?;
    let (time, rest) = line.split_at_checked(space)?;
    // 2024-05-01T12:00:00.123456789Z, or with an offset.
    if time.len() < 20 || time.get(4) != Some(&b'-') || time.get(10) != Some(&b'T') {
        return None;
    }
    let time = std::str::from_utf8(time).ok()?;
    let rest = rest.strip_prefix(b" std")?;
    let (stderr, rest) = match rest.strip_prefix(b"out ") {
        Some(rest) => (false, rest),
        None => (true, rest.strip_prefix(b"err ")?),
    };
    // Tags are separated by colons; the first says whether the line is whole.
    let end = memchr::memchr(b' ', rest).unwrap_or(rest.len());
    let tags = rest.get(..end)?;
    let partial = match tags.first()? {
        b'P' => true,
        b'F' => false,
        _ => return None,
    };
    let frame = Frame {
        time: Some(time),
        stderr,
        partial,
    };
    Some((frame, rest.get(end + 1..).unwrap_or_default().into()))
}

/// `{"log":"...\n","stream":"stdout","time":"..."}`, with `attrs` where the daemon is asked for them. Log
/// shippers write the same with more fields: whole lines, without their end, perhaps in CRI's frame.
fn docker_json(line: &[u8]) -> Option<(Frame<'_>, Cow<'_, [u8]>)> {
    #[derive(serde::Deserialize)]
    struct DockerLine<'a> {
        log: String,
        #[serde(borrow, default)]
        stream: Option<&'a str>,
        #[serde(borrow, default)]
        time: Option<&'a str>,
        #[serde(default, rename = "attrs")]
        _attrs: IgnoredAny,
        #[serde(flatten)]
        shippers: BTreeMap<String, IgnoredAny>,
    }
    let entry: DockerLine<'_> = serde_json::from_slice(line).ok()?;
    let mut text = entry.log.into_bytes();
    let ends = text.pop_if(|last| *last == b'\n').is_some();
    let mut frame = Frame {
        time: entry.time,
        stderr: entry.stream == Some("stderr"),
        partial: !ends && entry.shippers.is_empty(),
    };
    if let Some((inner, text)) = cri(&text) {
        frame.stderr = inner.stderr;
        frame.partial = inner.partial && frame.time.is_some();
        return Some((frame, text.into_owned().into()));
    }
    Some((frame, text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames() {
        let time = "2024-05-01T12:00:00.123456789Z";
        for (line, text, stderr, partial) in [
            (format!("{time} stdout F a b"), "a b", false, false),
            (format!("{time} stderr P half"), "half", true, true),
            (format!("{time} stdout F "), "", false, false),
            (format!("{time} stdout F:x a"), "a", false, false),
            (
                format!(r#"{{"log":"a\tb\n","stream":"stderr","time":"{time}"}}"#),
                "a\tb",
                true,
                false,
            ),
            (
                format!(r#"{{"log":"half","stream":"stdout","time":"{time}"}}"#),
                "half",
                false,
                true,
            ),
        ] {
            let (frame, got) = unframe(line.as_bytes());
            assert_eq!(*got, *text.as_bytes(), "{line}");
            let want = Frame {
                time: Some(time),
                stderr,
                partial,
            };
            assert_eq!(frame, want, "{line}");
        }
    }

    #[test]
    fn log_shippers_write_whole_lines() {
        let time = "2024-05-01T12:00:00Z";
        for line in [
            r#"{"date":1714557600.1,"stream":"stdout","logtag":"F","log":"a b","kubernetes":{"pod_name":"t"}}"#,
            r#"{"log":"a b","@timestamp":"2024-05-01T12:00:00Z"}"#,
            &format!(r#"{{"log":"{time} stdout F a b","time":"{time}"}}"#),
            &format!(r#"{{"log":"{time} stdout P a b","date":1}}"#),
        ] {
            let (frame, got) = unframe(line.as_bytes());
            assert_eq!((frame.partial, &*got), (false, b"a b".as_slice()), "{line}");
        }
        let attrs =
            r#"{"log":"half","stream":"stdout","attrs":{"a":"b"},"time":"2024-05-01T12:00:00Z"}"#;
        assert!(unframe(attrs.as_bytes()).0.partial);
    }

    #[test]
    fn other_lines_are_their_own_text() {
        for line in [
            "",
            "{",
            "{\"a\":1}",
            "2024-05-01 12:00 stdout F x",
            "12345",
            "2024-05-01T12:00:00Z stdin F x",
            "2024-05-01T12:00:00.1Z stdout X x",
            "node:1:2 [0] NCCL INFO x",
        ] {
            let (frame, got) = unframe(line.as_bytes());
            assert_eq!((frame, &*got), (Frame::default(), line.as_bytes()));
        }
    }
}
