//! Any lines as logs of several containers of several pods, NCCL's and sidecars', with restarts, gaps and
//! removals: what they hold together stays within the budget, and verdicts within their bounds. A line's
//! first byte says whose it is, and its second what happens there.
#![no_main]

#[path = "../endless.rs"]
mod endless;
#[path = "../memory.rs"]
mod memory;

use libfuzzer_sys::fuzz_target;
use selvage::check::job_verdicts::ContainerVerdict;
use selvage::jobs::registry::{PodLookup, Registry};
use selvage::observe::ContainerKey;
use selvage::source::pod_logs::{Container, Sink};
use selvage::units::Millis;
use std::sync::Arc;
use std::time::Duration;

const CONTAINERS: usize = 6;
const BUDGET: usize = 64 << 10;
const LOG: usize = 96 << 10;
/// What is counted may be half of what is allocated; verdicts that are shown, outcomes, and what is read but
/// was not counted yet come on top.
const MOST: usize = 2 * BUDGET + (256 << 10);

fn container(byte: u8, restarts: &[u32; 8]) -> Container {
    let number = usize::from(byte % 8);
    Container {
        key: ContainerKey {
            namespace: format!("n{}", number % 2),
            pod: format!("p{}", number / 3),
            uid: format!("u{}", number / 3),
            container: format!("c{number}"),
        },
        restart: restarts[number],
        ..Container::default()
    }
}

/// Judges all logs; the verdicts, worst first.
fn judge(logs: &mut Registry, now: u64, wall: jiff::Timestamp) -> Vec<Arc<ContainerVerdict>> {
    logs.at(Millis(now), Some(wall));
    let unavailable = |_: &ContainerKey| PodLookup::Unavailable;
    logs.judge(true, Duration::from_secs(300), None, unavailable, drop);
    logs.verdicts()
}

/// A new one, as after a restart of the agent.
fn restarted(logs: &Registry) -> Registry {
    let mut other = Registry::new(CONTAINERS, BUDGET);
    other.restore(logs.save(), logs.outcomes.clone());
    other
}

fn play(log: &[u8]) -> Registry {
    let wall = jiff::Timestamp::from_second(1_777_636_800).unwrap();
    let mut logs = Registry::new(CONTAINERS, BUDGET);
    let mut restarts = [0; 8];
    let lines = log.split(|byte| *byte == b'\n');
    for (number, line) in lines.enumerate() {
        let Some((&[whose, what], text)) = line.split_first_chunk() else {
            continue;
        };
        let from = container(whose, &restarts);
        match what {
            b'R' => restarts[usize::from(whose % 8)] += 1,
            b'L' => logs.lost(&from, 7),
            b'G' => logs.gone(&from),
            b'A' => logs = restarted(&logs),
            _ if logs.wants(&from, text, 0).is_some() => logs.line(&from, text),
            _ => {}
        }
        if number % 64 == 0 {
            let verdicts = judge(&mut logs, number as u64 * 1000, wall);
            assert!(verdicts.len() <= CONTAINERS);
            assert!(logs.held() <= BUDGET, "{} bytes counted", logs.held());
        }
    }
    for verdict in judge(&mut logs, u64::MAX / 2, wall) {
        let verdict = &verdict.verdict;
        assert!(verdict.evidence.iter().all(|line| line.text.len() <= 512));
        assert!(verdict.summary.len() <= 4096);
    }
    logs
}

fuzz_target!(|bytes: &[u8]| {
    let text = endless::log(bytes.get(..4096).unwrap_or(bytes), LOG);
    let (logs, held, most) = memory::of(|| play(&text));
    assert!(logs.held() <= BUDGET, "{} bytes counted", logs.held());
    assert!(most <= MOST, "{most} bytes, {held} at the end");
});
