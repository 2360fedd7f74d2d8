use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::observe::KernelEventKind;
use crate::source::kernel_log::lines::SyslogMessage;
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
    let script = Box::new(Script(inputs.into()));
    KmsgFollower::over((ReadMethod::Device, script), options)
}

fn record(text: String) -> Input {
    Input::Record { text, fresh: false }
}

/// What one drain delivered.
#[derive(Default)]
struct Drained {
    items: Vec<KmsgItem>,
    through: Option<ResumeState>,
    lost: u64,
}

fn drain(f: &mut KmsgFollower, now_us: u64) -> Vec<KmsgItem> {
    drain_all(f, now_us).items
}

fn drain_all(f: &mut KmsgFollower, now_us: u64) -> Drained {
    let mut drained = Drained::default();
    let boot = f.options.boot_id.clone();
    f.drain(now_us, &mut |delivery| match delivery {
        Delivery::Item(item) => {
            drained.through = Some(ResumeState {
                boot_id: boot.clone(),
                place: item.through.place,
            });
            drained.items.push(*item);
        }
        Delivery::Through(state) => drained.through = Some(state),
        Delivery::Rebooted => {}
        Delivery::Lost(records) => drained.lost += records,
    })
    .unwrap();
    drained
}

fn through(boot_id: &str, last_seq: u64) -> ResumeState {
    ResumeState {
        boot_id: boot_id.into(),
        place: Position::numbered(last_seq, 0),
    }
}

fn codes(items: &[KmsgItem]) -> Vec<u32> {
    let code = |item: &KmsgItem| match &item.event.what {
        KernelEventKind::Xid(xid) => Some(xid.code),
        _ => None,
    };
    items.iter().filter_map(code).collect()
}

fn options(dir: &Path, boot: &str) -> FollowOptions {
    FollowOptions::new(dir.join("kmsg"), boot)
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
        let kinds: Vec<_> = items.iter().map(|item| &item.event.what).collect();
        assert_eq!(kinds, [&KernelEventKind::DriverLoaded]);
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
            Input::Lost,
            record("junk\n".into()),
        ],
        FollowOptions::new("/dev/kmsg", "b"),
    );
    let drained = drain_all(&mut f, 0);
    assert_eq!(codes(&drained.items), [31, 79]);
    assert_eq!((drained.lost, f.records), (14 + 1, 3));
}

#[test]
fn only_the_kernel_is_believed() {
    let script = || vec![record(xid(12, 1, 0, 79)), record(xid(4, 2, 0, 31))];
    let mut f = ring(script(), FollowOptions::new("k", "b"));
    assert_eq!(codes(&drain(&mut f, 0)), [31]);
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
            Input::Empty,
            record(xid(3, 3, 21 * MINUTE, 79)),
        ]
    };
    let mut f = ring(script(), FollowOptions::new("k", "b"));
    let mut historic = |now| -> Vec<bool> {
        let items = drain(&mut f, now);
        items.iter().map(|item| item.historic).collect()
    };
    assert_eq!(historic(21 * MINUTE), [true, false]);
    // Later ones are news, though the kernel's clock has fallen behind.
    assert_eq!(historic(90 * MINUTE), [false]);
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
    let drained = drain_all(&mut ring(first, options(dir.path(), "b")), 0);
    assert_eq!(codes(&drained.items), [31, 43]);
    let resume = drained.through;
    assert_eq!(resume, Some(through("b", 3)));
    // Two more came between the runs, and the ring lost number 4.
    let mut second: Vec<Input> = log.iter().cloned().map(record).collect();
    second.push(record(xid(3, 5, 0, 79)));
    let mut o = options(dir.path(), "b");
    o.resume = resume;
    let mut f = ring(second, o);
    let drained = drain_all(&mut f, 90 * MINUTE);
    assert_eq!((codes(&drained.items), drained.lost), (vec![79], 1));
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
    // A pipe in its place has no writer: opening it would wait.
    fs::remove_file(&o.path).unwrap();
    nix::unistd::mkfifo(&o.path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(codes(&drain(&mut f, 0)), [0u32; 0]);
}

#[test]
fn an_appended_record_is_there_after_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    let o = options(dir.path(), "b");
    fs::write(&o.path, "").unwrap();
    let mut f = KmsgFollower::open(o.clone()).unwrap();
    assert!(drain(&mut f, 5).is_empty());
    let mut log = OpenOptions::new().append(true).open(&o.path).unwrap();
    log.write_all(xid(3, 9, 0, 79).as_bytes()).unwrap();
    f.wait(Duration::ZERO).unwrap();
    let drained = drain_all(&mut f, 5);
    assert_eq!(drained.items[0].through.place.last_seq, Some(9));
    assert_eq!(drained.through, Some(through("b", 9)));
}

#[test]
fn an_absent_log_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let e = KmsgFollower::open(options(dir.path(), "b")).err().unwrap();
    assert_eq!(e.source.kind(), io::ErrorKind::NotFound);
    assert!(e.to_string().contains("kmsg"), "{e}");
}

fn message(facility: u32, ts_us: u64, text: &str) -> Input {
    let mark = LineMark {
        hash: ts_us,
        count: 1,
    };
    Input::Message(SyslogMessage {
        priority: facility << 3,
        ts_us,
        text: text.into(),
        place: Position::marked(mark, ts_us),
    })
}

#[test]
fn messages_of_syslog_are_judged_as_records_are() {
    let text = "NVRM: Xid (PCI:0000:3b:00): 79, x";
    let script = || {
        vec![
            message(0, MINUTE, text),
            message(1, MINUTE, text),
            Input::Lost,
            message(0, 20 * MINUTE, text),
        ]
    };
    let mut f = ring(script(), FollowOptions::new("k", "b"));
    let drained = drain_all(&mut f, 21 * MINUTE);
    let items = &drained.items;
    let historic: Vec<bool> = items.iter().map(|i| i.historic).collect();
    assert_eq!((codes(items), historic), (vec![79, 79], vec![true, false]));
    assert_eq!((f.records, drained.lost), (3, 1));
    let place = drained.through.unwrap().place;
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
fn slow_reads_are_rarer() {
    for (took_us, want) in [
        (0, 1000),
        (900, 1000),
        (9000, 3600),
        (60_000, 5000),
        (u64::MAX, 5000),
    ] {
        assert_eq!(pause_ms(Duration::from_micros(took_us)), want, "{took_us}");
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
            place: Position::marked(mark, 60),
        });
        let mut f = ring(log.collect(), o);
        let drained = drain_all(&mut f, 0);
        assert_eq!((codes(&drained.items), drained.lost), (vec![7, 8], lost));
    }
}

#[test]
fn a_device_that_is_closed_gives_way_and_a_tree_never_does() {
    let dir = tempfile::tempdir().unwrap();
    let mut o = options(dir.path(), "b");
    let absent = KmsgFollower::open(o.clone()).err().unwrap().to_string();
    assert!(!absent.contains("syslog"), "{absent}");
    // Whether this process may call syslog(2) depends on where the tests run.
    o.way = None;
    match KmsgFollower::open(o.clone()) {
        Ok(f) => assert_eq!(f.way, ReadMethod::Syslog),
        Err(e) => {
            let both = e.to_string();
            assert!(
                both.contains("kmsg") && both.contains("syslog(2)"),
                "{both}"
            );
        }
    }
    fs::write(&o.path, "").unwrap();
    assert_eq!(
        KmsgFollower::open(o.clone()).unwrap().way,
        ReadMethod::Device
    );
    // A path that is not a log is a fault, not a reason to use syslog(2).
    fs::remove_file(&o.path).unwrap();
    fs::create_dir(&o.path).unwrap();
    assert!(KmsgFollower::open(o).is_err());
}
