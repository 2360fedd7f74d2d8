use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use super::*;
use crate::source::kernel_log::lines::Message;
use crate::source::kernel_log::state::LineMark;

const MINUTE: u64 = 60_000_000;

/// A ring as `/dev/kmsg` shows it, scripted.
struct Script(VecDeque<Input>);

impl RecordInput for Script {
    fn next(&mut self) -> io::Result<Input> {
        Ok(self.0.pop_front().unwrap_or(Input::Empty))
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

fn xid(prio: u32, seq: u64, ts_us: u64, code: u32) -> String {
    format!("{prio},{seq},{ts_us},-;NVRM: Xid (PCI:0000:3b:00): {code}, x\n")
}

fn ring(inputs: Vec<Input>, options: FollowOptions) -> KmsgFollower {
    let (woken, wake) = io::pipe().unwrap();
    let script = Box::new(Script(inputs.into()));
    KmsgFollower::over((Way::Device, script), options, woken, wake)
}

fn record(text: String) -> Input {
    Input::Record { text, fresh: false }
}

fn drain(f: &mut KmsgFollower, now_us: u64) -> Vec<KmsgItem> {
    drain_all(f, now_us).0
}

/// The items, and the resume point told last.
fn drain_all(f: &mut KmsgFollower, now_us: u64) -> (Vec<KmsgItem>, Option<ResumeState>) {
    let (mut items, mut through) = (Vec::new(), None);
    f.drain(now_us, &mut |delivery| match delivery {
        Delivery::Item(item) => items.push(*item),
        Delivery::Through(state) => through = Some(state),
    })
    .unwrap();
    (items, through)
}

fn through(boot_id: &str, last_seq: u64) -> ResumeState {
    ResumeState {
        boot_id: boot_id.into(),
        place: Place::numbered(last_seq, 0),
    }
}

fn codes(items: &[KmsgItem]) -> Vec<u32> {
    items.iter().filter_map(|i| i.event.xid).collect()
}

fn count(c: &AtomicU64) -> u64 {
    c.load(Ordering::Relaxed)
}

fn options(dir: &Path, boot: &str) -> FollowOptions {
    let mut o = FollowOptions::new(dir.join("kmsg"), boot);
    o.file_poll_ms = 1;
    o
}

#[test]
fn a_load_of_the_gpu_driver_is_delivered_by_the_follower_alone() {
    for message in [
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build",
    ] {
        assert_eq!(decode(message, None), None, "no event for people");
        let told = |prio: u32| record(format!("{prio},7,5,-;{message}\n"));
        let options = options(Path::new("/"), "a");
        // What user space writes (facility 1) proves nothing.
        let mut follower = ring(vec![told(12), told(4)], options);
        let items = drain(&mut follower, MINUTE);
        let kinds: Vec<_> = items.iter().map(|item| item.event.kind).collect();
        assert_eq!(kinds, [crate::observe::kernel::EventKind::DriverLoaded]);
    }
}

#[test]
fn overrun_is_counted_by_sequence_numbers() {
    let mut f = ring(
        vec![
            record(xid(3, 10, 0, 31)),
            Input::Overrun,
            record(xid(3, 25, 0, 79)),
            record("6,26,0,-;fine\n".into()),
            Input::Oversize,
            record("junk\n".into()),
        ],
        FollowOptions::new("/dev/kmsg", "b"),
    );
    assert_eq!(codes(&drain(&mut f, 0)), [31, 79]);
    let s = f.stats();
    assert_eq!(count(&s.lost), 14 + 1);
    assert_eq!((count(&s.records), count(&s.unparsed)), (3, 1));
}

#[test]
fn only_the_kernel_is_believed() {
    let script = || vec![record(xid(12, 1, 0, 79)), record(xid(4, 2, 0, 31))];
    let mut f = ring(script(), FollowOptions::new("k", "b"));
    assert_eq!(codes(&drain(&mut f, 0)), [31]);
    assert_eq!(count(&f.stats().foreign), 1);
    let mut o = FollowOptions::new("k", "b");
    o.any_facility = true;
    assert_eq!(codes(&drain(&mut ring(script(), o), 0)), [79, 31]);
}

#[test]
fn first_start_marks_old_records_as_history() {
    let script = || {
        vec![
            record(xid(3, 1, MINUTE, 31)),
            record(xid(3, 2, 20 * MINUTE, 79)),
        ]
    };
    let mut f = ring(script(), FollowOptions::new("k", "b"));
    let historic: Vec<bool> = drain(&mut f, 21 * MINUTE)
        .iter()
        .map(|i| i.historic)
        .collect();
    assert_eq!(historic, [true, false]);
    // With a resume point of another boot all records of this boot are news.
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path(), "boot-2");
    o.resume = Some(through("boot-1", 900));
    let items = drain(&mut ring(script(), o), 21 * MINUTE);
    assert_eq!(codes(&items), [31, 79]);
    assert!(items.iter().all(|i| !i.historic));
}

#[test]
fn a_restart_neither_repeats_nor_misses() {
    let dir = tempfile::tempdir().unwrap();
    let log = [
        xid(3, 1, 0, 31),
        xid(3, 2, 0, 43),
        "6,3,0,-;fine\n".to_owned(),
    ];
    let first: Vec<Input> = log.iter().cloned().map(record).collect();
    let (items, resume) = drain_all(&mut ring(first, options(dir.path(), "b")), 0);
    assert_eq!(codes(&items), [31, 43]);
    assert_eq!(resume, Some(through("b", 3)));
    // Two more came while nobody read, and the ring lost number 4.
    let mut second: Vec<Input> = log.iter().cloned().map(record).collect();
    second.push(record(xid(3, 5, 0, 79)));
    let mut o = options(dir.path(), "b");
    o.resume = resume;
    let mut f = ring(second, o);
    assert_eq!(codes(&drain(&mut f, 90 * MINUTE)), [79]);
    assert_eq!(count(&f.stats().lost), 1);
}

#[test]
fn a_file_is_followed_through_truncation() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path(), "b");
    fs::write(&o.path, xid(3, 1, 0, 31)).unwrap();
    let mut f = KmsgFollower::open(o.clone()).unwrap();
    assert_eq!(codes(&drain(&mut f, 0)), [31]);
    // Appended lines are news whatever their number.
    let mut log = OpenOptions::new().append(true).open(&o.path).unwrap();
    log.write_all(xid(3, 1, 0, 43).as_bytes()).unwrap();
    log.write_all(xid(3, 2, 0, 45).as_bytes()).unwrap();
    assert_eq!(codes(&drain(&mut f, 0)), [43, 45]);
    // The rewritten file repeats number 2 and adds one.
    fs::write(&o.path, [xid(3, 2, 0, 45), xid(3, 3, 0, 79)].concat()).unwrap();
    fs::write(&o.path, xid(3, 3, 0, 79)).unwrap();
    assert_eq!(codes(&drain(&mut f, 0)), [79]);
}

#[test]
fn run_delivers_live_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path(), "b");
    fs::write(&o.path, "").unwrap();
    let mut f = KmsgFollower::open(o.clone()).unwrap();
    let stopper = f.stopper();
    let (tx, rx) = mpsc::channel();
    let thread = std::thread::spawn(move || f.run(|| 5, |delivery| tx.send(delivery).unwrap()));
    let mut log = OpenOptions::new().append(true).open(&o.path).unwrap();
    log.write_all(xid(3, 9, 0, 79).as_bytes()).unwrap();
    let wait = Duration::from_secs(20);
    let Ok(Delivery::Item(item)) = rx.recv_timeout(wait) else {
        panic!("no item");
    };
    assert_eq!(item.place.last_seq, Some(9));
    assert_eq!(
        rx.recv_timeout(wait),
        Ok(Delivery::Through(through("b", 9)))
    );
    stopper.stop();
    assert!(thread.join().unwrap().is_ok());
}

#[test]
fn an_absent_log_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let e = KmsgFollower::open(options(dir.path(), "b")).err().unwrap();
    assert!(matches!(&e, FollowError::Open { .. }));
    assert!(e.to_string().contains("kmsg"), "{e}");
}

fn message(facility: u32, ts_us: u64, text: &str) -> Input {
    let mark = LineMark {
        hash: ts_us,
        count: 1,
    };
    Input::Message(Message {
        priority: facility << 3,
        ts_us,
        text: text.into(),
        place: Place::marked(mark, ts_us),
    })
}

#[test]
fn messages_of_syslog_are_judged_as_records_are() {
    let text = "NVRM: Xid (PCI:0000:3b:00): 79, x";
    let script = || {
        vec![
            message(0, MINUTE, text),
            message(1, MINUTE, text),
            Input::Gap,
            message(0, 20 * MINUTE, text),
        ]
    };
    let mut f = ring(script(), FollowOptions::new("k", "b"));
    let (items, resume) = drain_all(&mut f, 21 * MINUTE);
    let historic: Vec<bool> = items.iter().map(|i| i.historic).collect();
    assert_eq!((codes(&items), historic), (vec![79, 79], vec![true, false]));
    let stats = f.stats();
    assert_eq!((count(&stats.foreign), count(&stats.lost)), (1, 1));
    let place = resume.unwrap().place;
    assert_eq!(place.last_ts_us, Some(20 * MINUTE));
    assert_eq!(place.last_line.unwrap().hash, 20 * MINUTE);
    // With a resume point nothing is history.
    let mut o = FollowOptions::new("k", "b");
    o.resume = Some(through("a", 1));
    assert!(
        drain(&mut ring(script(), o), 21 * MINUTE)
            .iter()
            .all(|i| !i.historic)
    );
}

#[test]
fn dear_looks_are_rarer() {
    for (took_us, want) in [
        (0, 1000),
        (900, 1000),
        (9000, 3600),
        (60_000, 5000),
        (u64::MAX, 5000),
    ] {
        assert_eq!(pause_ms(took_us, 1000), want, "{took_us}");
    }
}

#[test]
fn the_device_goes_on_where_syslog_stopped() {
    let mark = LineMark { hash: 1, count: 1 };
    for (first_left, lost) in [(5, 0), (7, 1)] {
        let log = (first_left..9).map(|n| record(xid(3, n, 10 * n, n as u32)));
        let mut o = FollowOptions::new("k", "b");
        o.resume = Some(ResumeState {
            boot_id: "b".into(),
            place: Place::marked(mark, 60),
        });
        let mut f = ring(log.collect(), o);
        assert_eq!(codes(&drain(&mut f, 0)), [7, 8]);
        assert_eq!(count(&f.stats().lost), lost);
    }
}

#[test]
fn a_device_that_is_closed_gives_way_and_a_tree_never_does() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path(), "b");
    assert!(matches!(
        KmsgFollower::open(o.clone()).err(),
        Some(FollowError::Open { .. })
    ));
    // Whether this process may call syslog(2) depends on where the tests run.
    o.way = None;
    match KmsgFollower::open(o.clone()) {
        Ok(f) => assert_eq!(f.way(), Way::Syslog),
        Err(e) => assert!(matches!(&e, FollowError::Both { .. }), "{e}"),
    }
    fs::write(&o.path, "").unwrap();
    assert_eq!(KmsgFollower::open(o.clone()).unwrap().way(), Way::Device);
    // What is there and is no log is a fault, not a reason.
    fs::remove_file(&o.path).unwrap();
    fs::create_dir(&o.path).unwrap();
    assert!(KmsgFollower::open(o).is_err());
}
