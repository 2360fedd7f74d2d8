//! One sample and its verdict, for `selvage check` and `selvage metrics`.

use super::start;
use crate::config::Config;
use crate::evaluator::SamplingMode;
use crate::observe::{FaultKind, Memory, Reading};
use crate::report::Report;
use crate::{jobs, kernel_log};
use std::sync::Arc;

/// Reads every source once, waits for none beyond its deadline, and believes what it sees. Nothing
/// is written.
pub async fn sample_once(config: &Config) -> Report {
    let found = start::find(config, false).await;
    let clock = found.clock();
    let mut sampler = found.sampler(config, clock);
    let mut policy = config.policy.clone();
    // There is one sample: what it lacks is gone.
    policy.device_missing.missed = 1;
    policy.device_missing.gone_after = Default::default();
    // What the agent saw this boot says what should be; the kernel log is read whole below.
    let memory = Memory {
        kernel: Default::default(),
        ..found.memory()
    };
    let mut evaluator = start::evaluator(config, policy, memory);
    let boot_id = found.boot_id.as_deref();
    let log = kernel_log::Settings::new(&found.host, &config.agent, boot_id, found.uptime, None);
    let now = clock.now();
    let read = tokio::task::spawn_blocking(move || kernel_log::read_existing(&log, now));
    let jobs = config.nccl.logs.then(|| {
        let (host, config) = (Arc::clone(&found.host), config.clone());
        tokio::task::spawn_blocking(move || jobs::read_once(&host, &config, clock))
    });
    while !sampler.sampled_once() {
        sampler.step().await;
    }
    if let Some(jobs) = jobs {
        let read = tokio::time::timeout(config.intervals.deadline.duration() * 2, jobs).await;
        if let Ok(Ok(jobs)) = read {
            evaluator.jobs = Arc::new(jobs);
        }
    }
    let patience = config.intervals.deadline.duration();
    let read = tokio::time::timeout(patience, read).await.ok();
    let silent = || Reading::failed(FaultKind::Stalled, "the kernel log did not answer");
    let read = read.and_then(Result::ok).unwrap_or_else(silent);
    for (at, item) in read.value().into_iter().flat_map(|(_, items)| items) {
        let history = &mut evaluator.history;
        history.push_event(*at, item.historic, &item.event);
    }
    let log_health = Some(read.map(|(way, _)| Some(way.as_str())));
    sampler.set_health("kernel_log", &log_health, None);
    evaluator.evaluate(
        sampler.snapshot(Some(jiff::Timestamp::now())),
        SamplingMode::Once,
    )
}
