//! Follows the logs of many pods that are written and rotated as a kubelet does, and says what that
//! costs. Every line that is wanted bears a number and a stamp, so loss and delay are known.
//!
//! `cargo bench --bench pod_logs -- [--files N] [--seconds N] [--bytes-per-second N] [--rotations N]`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs
)]

use aho_corasick::packed;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::time::{ClockId, clock_gettime};
use selvage::host::Host;
use selvage::source::pod_logs::{Container, Follower, Options, PollStats, Sink};
use selvage::units::Millis;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Every so many-th line is wanted.
const WANTED_EVERY: u64 = 20;

/// Bytes of a line with its framing.
const LINE: usize = 150;

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).unwrap();
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

fn now() -> u64 {
    nanos(ClockId::CLOCK_MONOTONIC)
}

fn resident_kib() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4
}

struct Finder {
    literals: packed::Searcher,
    next: Vec<u64>,
    lost: u64,
    repeated: u64,
    handled: u64,
    /// Delays by 0.1 ms.
    delays: Vec<u32>,
}

impl Sink for Finder {
    fn wants(&self, _: &Container, chunk: &[u8], from: usize) -> Option<usize> {
        let found = self.literals.find(&chunk[from..])?;
        Some(from + found.start())
    }

    fn line(&mut self, container: &Container, line: &[u8]) {
        let number = |key: &str| -> u64 {
            let at = memchr::memmem::find(line, key.as_bytes()).unwrap() + key.len();
            let digits = line[at..].split(|byte| !byte.is_ascii_digit()).next();
            String::from_utf8_lossy(digits.unwrap()).parse().unwrap()
        };
        let file: usize = container.key.pod[3..].parse().unwrap();
        let (seq, written) = (number("seq="), number("at="));
        let next = &mut self.next[file];
        self.lost += seq.saturating_sub(*next);
        self.repeated += u64::from(seq < *next);
        *next = seq + 1;
        self.handled += 1;
        let delay = (now().saturating_sub(written) / 100_000) as usize;
        let last = self.delays.len() - 1;
        self.delays[delay.min(last)] += 1;
    }

    fn lost(&mut self, container: &Container, bytes: u64) {
        println!("told as lost: {} {bytes}", container.key.pod);
    }

    fn gone(&mut self, _: &Container) {}
}

impl Finder {
    fn delay(&self, share: f64) -> f64 {
        let most = (self.handled as f64 * share) as u64;
        let mut seen = 0;
        let at = self.delays.iter().position(|count| {
            seen += u64::from(*count);
            seen > most
        });
        at.unwrap_or(self.delays.len()) as f64 / 10.0
    }
}

struct Log {
    dir: PathBuf,
    file: File,
    lines: u64,
    seq: u64,
    rotated: Vec<u64>,
}

impl Log {
    fn create(root: &Path, number: usize) -> Self {
        let dir = root.join(format!("bench_pod{number}_uid{number}/main"));
        fs::create_dir_all(&dir).unwrap();
        Log {
            file: File::create(dir.join("0.log")).unwrap(),
            dir,
            lines: 0,
            seq: 0,
            rotated: Vec::new(),
        }
    }

    fn write(&mut self, line: &mut Vec<u8>) -> u64 {
        line.clear();
        let at = now();
        write!(line, "2026-11-21T13:00:00.{at:020}Z stdout F ").unwrap();
        if self.lines.is_multiple_of(WANTED_EVERY) {
            write!(
                line,
                "node-1:77:99 [0] NCCL INFO Channel seq={} at={at} ",
                self.seq
            )
            .unwrap();
            self.seq += 1;
        } else {
            write!(line, "step {} loss 1.2345 tokens ", self.lines).unwrap();
        }
        self.lines += 1;
        line.resize(LINE - 1, b'.');
        line.push(b'\n');
        self.file.write_all(line).unwrap();
        line.len() as u64
    }

    /// As kubelet and runtime do it: rename, a line more by the old descriptor, a new file, the
    /// rotated one before compressed, five kept.
    fn rotate(&mut self, stamp: u64, line: &mut Vec<u8>) {
        let name = |stamp: u64| self.dir.join(format!("0.log.{}-{:06}", 20_261_121, stamp));
        if let Some(last) = self.rotated.last() {
            let plain = name(*last);
            let temporary = plain.with_extension(format!("tmp-{last}"));
            let out = File::create(&temporary).unwrap();
            let mut packer = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
            packer.write_all(&fs::read(&plain).unwrap()).unwrap();
            packer.finish().unwrap();
            let mut packed = plain.clone().into_os_string();
            packed.push(".gz");
            fs::rename(&temporary, &packed).unwrap();
            fs::remove_file(&plain).unwrap();
        }
        fs::rename(self.dir.join("0.log"), name(stamp)).unwrap();
        if self.rotated.len() >= 4 {
            let mut packed = name(self.rotated.remove(0)).into_os_string();
            packed.push(".gz");
            fs::remove_file(packed).unwrap();
        }
        self.rotated.push(stamp);
        self.write(line);
        self.file = File::create(self.dir.join("0.log")).unwrap();
    }
}

fn argument(name: &str, usual: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    (arguments.nth(1)).map_or(usual, |value| value.parse().expect("a number"))
}

fn main() {
    let files = argument("--files", 2000) as usize;
    let seconds = argument("--seconds", 30);
    let rate = argument("--bytes-per-second", 20_000_000);
    let rotations = argument("--rotations", 1000);
    let dir = tempfile::tempdir().unwrap();
    let pods = dir.path().join("var/log/pods");
    let soft = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    println!(
        "files {files}, {rate} B/s, {rotations} rotations, {seconds} s, descriptors {}",
        soft.0
    );

    let bare = resident_kib();
    let stop = Arc::new(AtomicBool::new(false));
    let started = Arc::new(AtomicBool::new(false));
    let lines = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let mine: Vec<usize> = (writer..files).step_by(2).collect();
            let mut logs: Vec<Log> = mine.iter().map(|n| Log::create(&pods, *n)).collect();
            let (stop, lines) = (Arc::clone(&stop), Arc::clone(&lines));
            let started = Arc::clone(&started);
            std::thread::spawn(move || {
                // What is rotated before the first look of a first start is left aside.
                while !started.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let mut line = Vec::new();
                let began = now();
                let (mut bytes, mut rotated, mut turn) = (0, 0, 0);
                // Those that are rotated are, five times over each.
                let rotating = logs.len().div_ceil(10);
                while !stop.load(Ordering::Relaxed) {
                    let passed = (now() - began) as f64 / 1e9;
                    while (bytes as f64) < passed * rate as f64 / 2.0 {
                        turn = (turn + 1) % logs.len();
                        bytes += logs[turn].write(&mut line);
                        if (rotated as f64) < (passed / seconds as f64) * rotations as f64 / 2.0 {
                            let which = rotated as usize % rotating;
                            rotated += 1;
                            logs[which].rotate(rotated, &mut line);
                        }
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                lines.fetch_add(logs.iter().map(|log| log.seq).sum(), Ordering::Relaxed);
                (bytes, rotated)
            })
        })
        .collect();

    let before = resident_kib();
    let literals: Vec<&str> = ["NCCL", "nccl", "selvage.dev/", "OFI"]
        .into_iter()
        .chain(["t P ", "r P "])
        .collect();
    let follower = {
        let (stop, started) = (Arc::clone(&stop), Arc::clone(&started));
        let root = dir.path().to_path_buf();
        std::thread::spawn(move || {
            let mut finder = Finder {
                literals: packed::Searcher::new(literals).unwrap(),
                next: vec![0; files],
                lost: 0,
                repeated: 0,
                handled: 0,
                delays: vec![0; 50_000],
            };
            let options = Options::new(&Host::new(&root), "var/log/pods");
            let mut follower = Follower::new(options);
            let mut total = PollStats::default();
            let (mut polls, mut steady) = (0u64, None);
            let began = now();
            let mut ending = 0;
            loop {
                let stats = follower.poll(Millis(now() / 1_000_000), &mut finder);
                polls += 1;
                started.store(true, Ordering::Relaxed);
                total.bytes += stats.bytes;
                total.open_files = total.open_files.max(stats.open_files);
                if let Some(fault) = stats.fault {
                    println!("fault: {fault:?}");
                }
                let cpu = nanos(ClockId::CLOCK_THREAD_CPUTIME_ID);
                if steady.is_none() && now() - began > 2_000_000_000 {
                    println!("start: {:.0} ms of CPU in 2 s", cpu as f64 / 1e6);
                    steady = Some((now(), cpu));
                }
                if stop.load(Ordering::Relaxed) {
                    // Another second for what was written last.
                    ending += 1;
                    if ending == 1 {
                        let (at, used) = steady.unwrap();
                        let share = (cpu - used) as f64 / (now() - at) as f64;
                        println!("CPU: {:.2} % of a core", share * 100.0);
                        let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
                        let [user, system] = [usage.user_time(), usage.system_time()]
                            .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6);
                        println!("of it {user:.2} s in the program, {system:.2} s in the kernel");
                        println!("resident: {} KiB in all", resident_kib());
                        let state = serde_json::to_vec(&follower.state()).unwrap();
                        println!("resume point: {} bytes", state.len());
                    } else if ending > 40 {
                        break;
                    }
                }
                follower.wait(Duration::from_secs(1));
            }
            (finder, total, polls)
        })
    };
    std::thread::sleep(Duration::from_secs(seconds));
    stop.store(true, Ordering::Relaxed);
    let written: Vec<(u64, u64)> = writers.into_iter().map(|w| w.join().unwrap()).collect();
    let (finder, total, polls) = follower.join().unwrap();
    let bytes: u64 = written.iter().map(|(bytes, _)| bytes).sum();
    let rotated: u64 = written.iter().map(|(_, rotated)| rotated).sum();
    let wanted = lines.load(Ordering::Relaxed);
    println!(
        "written: {:.1} MB/s, {rotated} rotations",
        bytes as f64 / 1e6 / seconds as f64
    );
    println!("polls {polls}, {total:?}");
    println!("resident before: {bare} KiB bare, {before} KiB with the writers' files");
    println!(
        "wanted lines {wanted}, handled {}, missing within {}, repeated {}, never came {}",
        finder.handled,
        finder.lost,
        finder.repeated,
        wanted - finder.next.iter().sum::<u64>(),
    );
    println!(
        "written to handled: median {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms",
        finder.delay(0.5),
        finder.delay(0.99),
        finder.delay(0.999)
    );
    let whole = finder.handled == wanted && finder.lost == 0 && finder.repeated == 0;
    std::process::exit(i32::from(!whole));
}
