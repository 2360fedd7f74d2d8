use super::*;
use crate::observe::pod::ContainerKey;

fn wanted(text: &str) -> Vec<String> {
    wanted_within(text, 1000).0
}

struct Lines {
    lines: Vec<String>,
    lie: Option<usize>,
}

impl Sink for Lines {
    fn wants(&self, chunk: &[u8], from: usize) -> Option<usize> {
        let found = memchr::memmem::find(&chunk[from..], b"NCCL").map(|at| from + at);
        self.lie.or(found)
    }
    fn line(&mut self, _: &Container, line: &[u8]) {
        self.lines.push(String::from_utf8_lossy(line).into_owned());
    }
    fn lost(&mut self, _: &Container, _: u64) {}
    fn gone(&mut self, _: &Container) {}
}

fn wanted_within(text: &str, longest: usize) -> (Vec<String>, Cut) {
    cut_with(text, longest, None)
}

fn cut_with(text: &str, longest: usize, lie: Option<usize>) -> (Vec<String>, Cut) {
    let lines = Vec::new();
    let mut sink = Lines { lines, lie };
    let who = Container {
        key: ContainerKey {
            namespace: "a".into(),
            pod: "b".into(),
            uid: "c".into(),
            container: "d".into(),
        },
        restart: 0,
    };
    let cut = cut(
        text.as_bytes(),
        longest,
        &mut Joins::default(),
        &who,
        &mut sink,
    );
    (sink.lines, cut)
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
        assert_eq!(wanted(text), want, "{text:?}");
    }
}

#[test]
fn what_continues_a_wanted_partial_line_comes_too() {
    let text = "\
        2024-05-01T12:00:00.1Z stdout P NCCL one\n\
        2024-05-01T12:00:00.2Z stderr P other\n\
        2024-05-01T12:00:00.2Z stderr F other's end\n\
        2024-05-01T12:00:00.3Z stdout P two\n\
        2024-05-01T12:00:00.4Z stderr F NCCL aside\n\
        2024-05-01T12:00:00.5Z stdout F three\n\
        2024-05-01T12:00:00.6Z stdout F four\n";
    let ends: Vec<String> = wanted(text)
        .iter()
        .map(|line| line[30..].to_string())
        .collect();
    assert_eq!(ends, ["P NCCL one", "P two", "F NCCL aside", "F three"]);
}

#[test]
fn docker_entries_without_a_newline_are_partial() {
    let entry = |text: &str, stream: &str| {
        format!(
            "{{\"log\":\"{text}\",\"stream\":\"{stream}\",\"time\":\"2024-05-01T12:00:00Z\"}}\n"
        )
    };
    let text = [
        entry("NCCL one", "stdout"),
        entry("err\\n", "stderr"),
        entry("two", "stdout"),
        entry("three\\n", "stdout"),
        entry("four\\n", "stdout"),
    ];
    let lines = wanted(&text.concat());
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[1].contains("two") && lines[2].contains("three"));
}

#[test]
fn lines_that_only_look_framed_join_nothing() {
    for first in [
        "NCCL stdout P x",
        "2024 stdout",
        "2024 stdout PX NCCL",
        "2024 other P NCCL",
        "{\"log\":\"NCCL",
    ] {
        let text = format!("{first}\n2024 stdout F next\n");
        assert!(!wanted(&text).iter().any(|line| line.ends_with("next")));
    }
}

#[test]
fn a_line_beyond_the_bound_is_counted_and_left_out() {
    let (lines, cut) = wanted_within("NCCL too long\nlong but unwanted\nNCCL\n", 4);
    assert_eq!(lines, ["NCCL"]);
    assert_eq!((cut.lines, cut.too_long), (1, 1));
}

#[test]
fn a_finder_that_lies_does_no_harm() {
    for lie in [0usize, 3, 1 << 40] {
        assert!(cut_with("a\nb\nc\n", 10, Some(lie)).0.len() <= 3);
    }
}
