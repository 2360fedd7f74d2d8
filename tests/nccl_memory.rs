//! An endless log that names ever new things takes no more memory than Limits let it: counted by the
//! allocator.
#![allow(unsafe_code, reason = "a counting allocator")]
#![allow(clippy::unwrap_used, missing_docs)]

use selvage::check::nccl::{JobContext, judge};
use selvage::observe::nccl::NcclLog;
use selvage::observe::nccl::log::LogLimits;
use selvage::source::nccl::Reader;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system allocator's own; only sizes are counted beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; all memory came from there.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A line of each kind that makes the state hold something new.
fn hostile(n: u32) -> String {
    let (host, pid, tid) = (n / 3, n % 7919, n % 104_729);
    let who = format!("host-{host}-{}:{pid}:{tid} [0] NCCL INFO", "x".repeat(40));
    let same = format!("h:{}:{tid} [0] NCCL INFO", n % 64);
    match n % 14 {
        0 => format!(
            "{who} comm 0x{n:x} rank {} nranks 70000 commId 0x{:x} - Init START",
            n % 60_000,
            n / 14
        ),
        1 => format!(
            "{same} comm 0x{n:x} rank {} nranks 70000 commId 0x1 - Init START",
            n % 60_000
        ),
        2 => format!(
            "{who} comm 0x{n:x} rank 1 nranks {} commId 0x{n:x} - Init COMPLETE",
            2 + n
        ),
        3 => format!(
            "{same} Channel {n}/0 : {n}[0] -> {}[0] [send] via NET/IB/{n}/GDRDMA",
            n + 1
        ),
        4 => format!(
            "{who} Channel 0/0 : {n}[0] -> {}[0] [receive] via NET/Socket/0",
            n + 1
        ),
        5 => format!("{same} Channel 0/0 : {n}[0] -> {}[0] via P2P/CUMEM", n + 1),
        6 => format!("{who} NCCL_{n} set by environment to {}.", "y".repeat(500)),
        7 => format!(
            "{who} Bootstrap : Using if{n}:10.0.{}.{}<0>",
            n / 256 % 256,
            n % 256
        ),
        8 => format!(
            "{who} NET/IB : Using [{n}]mlx5_{n}:1/IB [{}]mlx5:1/RoCE [RO]; OOB eth0:1<0>",
            n + 1
        ),
        9 => format!("#  Rank  {n} Group  0 Pid {pid} on host{n} device  0 [0x07] NVIDIA"),
        10 => format!("{same} Trees [0] 1/-1/-1->{n}->2"),
        11 => format!("{same} misc/x.cc:{n} NCCL WARN {n} {}", "z".repeat(2000)),
        12 => format!("NCCL version {n}.{n}.{n}{}", "1".repeat(900)),
        _ => format!(
            "2024-05-01T12:00:00.123456789Z stdout P {n}{}",
            "p".repeat(3000)
        ),
    }
}

/// Lines that fill everything to its brim rather than push older things out.
fn filling(n: u32) -> String {
    let (pid, tid) = (n % 64, n / 64 % 48);
    let rank = n / 64;
    let who = format!("h:{pid}:{tid} [0] NCCL INFO");
    if n.is_multiple_of(3) && tid < 32 {
        format!("{who} comm 0x1 rank {rank} nranks 70000 commId 0x{tid:x} - Init START")
    } else {
        format!(
            "{who} Channel 0/0 : {n}[0] -> {}[0] [send] via NET/IB/{n}",
            n + 1
        )
    }
}

/// Connections of ever new ranks on threads that never name their communicator, and of some that do.
fn tallies(n: u32) -> String {
    let (pid, tid) = (n % 64, n / 64 % 5);
    let who = format!("h:{pid}:{tid} [0] NCCL INFO");
    if n % 5000 < 64 {
        return format!("{who} comm 0x1 rank {pid} nranks 70000 commId 0x{tid:x} - Init START");
    }
    let rank = n / 320;
    format!(
        "{who} Channel 0/0 : {rank}[{n:x}] -> {}[{n:x}] [send] via NET/IB/{n}",
        rank + 1
    )
}

fn held_after(limits: LogLimits, line: fn(u32) -> String, lines: u32) -> (usize, usize) {
    let before = HELD.load(Ordering::Relaxed);
    let mut log = NcclLog::new(limits);
    let mut reader = Reader::default();
    let mut most = 0;
    for n in 0..lines {
        let mut line = line(n).into_bytes();
        if n.is_multiple_of(5000) {
            line = line.repeat(1000);
        }
        line.push(b'\n');
        reader.feed(&line, &mut log, None);
        drop(line);
        most = most.max(HELD.load(Ordering::Relaxed) - before);
    }
    judge(&log, &JobContext::default());
    // By this count the largest holder is found: it is of the size of what the allocator gave.
    let (counted, held) = (
        log.held() + reader.held(),
        HELD.load(Ordering::Relaxed) - before,
    );
    eprintln!("counted {counted} of {held}");
    assert!(
        (held / 2..=2 * held + 65_536).contains(&counted),
        "counted {counted} of {held}"
    );
    (most, HELD.load(Ordering::Relaxed) - before)
}

/// One test alone in its process: what others allocate would be counted too.
#[test]
fn what_is_kept_of_a_hostile_log_is_bounded() {
    // Twice the lines take no more, and of containers' logs an agent holds many.
    for (line, most, lines) in [
        (hostile as fn(u32) -> String, 1 << 20, 50_000),
        (filling, 1 << 20, 60_000),
        (tallies, 2 << 20, 40_000),
    ] {
        let (short, _) = held_after(LogLimits::CONTAINER, line, lines);
        let (long, _) = held_after(LogLimits::CONTAINER, line, 2 * lines);
        eprintln!("a container's: {short} bytes, then {long}");
        assert!(long < short + short / 8, "{short} bytes, then {long}");
        assert!(long < most, "{long} bytes");
    }
    for line in [hostile, filling] {
        let (file, _) = held_after(LogLimits::FILE, line, 100_000);
        eprintln!("a file's: {file} bytes");
        // Measured: 5.6 MB and 2.1 MB.
        assert!(file < 11 << 20, "{file} bytes");
    }
}
