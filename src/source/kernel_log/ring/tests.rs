use super::*;
use std::sync::{Arc, Mutex};

/// A ring of so many bytes of text, as syslog(2) shows it.
#[derive(Clone, Default)]
struct Kernel(Arc<Mutex<Shown>>);

#[derive(Default)]
struct Shown {
    lines: VecDeque<String>,
    bytes: usize,
    room: usize,
    /// Sizes of the buffers that were handed over.
    asked: Vec<usize>,
}

impl Kernel {
    fn new(room: usize) -> Self {
        let kernel = Self::default();
        kernel.0.lock().unwrap().room = room;
        kernel
    }

    fn say(&self, ts_us: u64, text: &str) {
        let mut shown = self.0.lock().unwrap();
        let line = format!(
            "<3>[{:5}.{:06}] {text}\n",
            ts_us / 1_000_000,
            ts_us % 1_000_000
        );
        shown.bytes += line.len();
        shown.lines.push_back(line);
        while shown.bytes > shown.room {
            let oldest = shown.lines.pop_front().unwrap();
            shown.bytes -= oldest.len();
        }
    }

    fn clear(&self) {
        let mut shown = self.0.lock().unwrap();
        shown.lines.clear();
        shown.bytes = 0;
    }

    fn asked(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }

    fn read_all(&self) -> Box<ReadAll> {
        let kernel = self.clone();
        Box::new(move |buffer| {
            let mut shown = kernel.0.lock().unwrap();
            shown.asked.push(buffer.len());
            let mut from = shown.lines.len();
            let mut bytes = 0;
            while from > 0 && bytes + shown.lines[from - 1].len() <= buffer.len() {
                from -= 1;
                bytes += shown.lines[from].len();
            }
            let text: String = shown.lines.range(from..).map(String::as_str).collect();
            buffer[..bytes].copy_from_slice(text.as_bytes());
            Ok(bytes)
        })
    }

    fn open(&self, place: Position) -> SyslogRing {
        SyslogRing::open(self.read_all(), place).unwrap()
    }
}

/// What a look gives: texts, `GAP`; and the place that it ends at.
fn drain(ring: &mut SyslogRing, place: &mut Position) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        match ring.next().unwrap() {
            Input::Empty => return told,
            Input::Lost => told.push("GAP".into()),
            Input::Message(message) => {
                *place = message.place;
                told.push(message.text);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn each_line_is_told_once_over_looks_and_restarts() {
    let kernel = Kernel::new(1 << 20);
    let mut place = Position::default();
    let mut ring = kernel.open(place);
    assert!(drain(&mut ring, &mut place).is_empty());
    // Equal lines at different times, and twice in a microsecond.
    kernel.say(1_000_000, "a");
    kernel.say(1_000_001, "a");
    assert_eq!(drain(&mut ring, &mut place), ["a", "a"]);
    kernel.say(1_000_001, "a");
    assert_eq!(drain(&mut ring, &mut place), ["a"]);
    assert!(drain(&mut ring, &mut place).is_empty());
    kernel.say(1_000_001, "a");
    kernel.say(1_000_000, "stamped before the one said before");
    // Opened again at the saved place, as after a restart.
    let mut ring = kernel.open(place);
    let news = ["a", "stamped before the one said before"];
    assert_eq!(drain(&mut ring, &mut place), news);
    let mut ring = kernel.open(place);
    assert!(drain(&mut ring, &mut place).is_empty());
}

#[test]
fn a_quiet_look_reads_the_end_only() {
    let kernel = Kernel::new(1 << 20);
    for i in 0..40_000 {
        kernel.say(i, "as long as a line usually is, or thereabouts");
    }
    let mut place = Position::default();
    let mut ring = kernel.open(place);
    drain(&mut ring, &mut place);
    assert!(kernel.asked().last().unwrap() > &(1 << 20));
    kernel.say(50_000, "a");
    assert_eq!(drain(&mut ring, &mut place), ["a"]);
    assert!(drain(&mut ring, &mut place).is_empty());
    assert_eq!(kernel.asked(), [FIRST, FIRST]);
    // More than that came: more is read, and nothing missed.
    for i in 0..2000 {
        kernel.say(60_000 + i, "as long as a line usually is, or thereabouts");
    }
    assert_eq!(drain(&mut ring, &mut place).len(), 2000);
    assert_eq!(kernel.asked(), [FIRST, 4 * FIRST, 16 * FIRST]);
}

#[test]
fn what_left_the_ring_unread_is_one_gap() {
    let kernel = Kernel::new(4096);
    kernel.say(1, "first");
    let mut place = Position::default();
    let mut ring = kernel.open(place);
    assert_eq!(drain(&mut ring, &mut place), ["first"]);
    for i in 0..1000 {
        kernel.say(10 + i, "flood");
    }
    let told = drain(&mut ring, &mut place);
    assert_eq!(told[0], "GAP");
    assert!(told.len() > 100 && told[1..].iter().all(|line| line == "flood"));
    assert!(drain(&mut ring, &mut place).is_empty(), "told once");
    // Between two runs.
    drop(ring);
    for i in 0..1000 {
        kernel.say(2000 + i, "flood");
    }
    let mut ring = kernel.open(place);
    assert_eq!(drain(&mut ring, &mut place)[0], "GAP");
}

#[test]
fn a_log_that_was_cleared_is_a_gap_and_goes_on() {
    let kernel = Kernel::new(4096);
    kernel.say(1, "a");
    let mut place = Position::default();
    let mut ring = kernel.open(place);
    drain(&mut ring, &mut place);
    kernel.clear();
    assert_eq!(drain(&mut ring, &mut place), ["GAP"]);
    assert!(drain(&mut ring, &mut place).is_empty(), "told once");
    kernel.say(2, "b");
    assert_eq!(drain(&mut ring, &mut place), ["b"]);
    assert!(drain(&mut ring, &mut place).is_empty());
}

#[test]
fn what_was_refused_is_told_at_once() {
    let refused = SyslogRing::open(
        Box::new(|_| Err(io::ErrorKind::PermissionDenied.into())),
        Position::default(),
    );
    let error = refused.err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    let unstamped = Box::new(|buffer: &mut [u8]| {
        buffer[..6].copy_from_slice(b"<6>ab\n");
        Ok(6)
    });
    let error = SyslogRing::open(unstamped, Position::default())
        .err()
        .unwrap();
    assert!(error.to_string().contains("printk"), "{error}");
}
