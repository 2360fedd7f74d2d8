//! Lets a scenario happen on its node.

use super::{cluster::ClusterNode, say};
use crate::blocking::lock;
use crate::simulate::{Change, Node, Scenario, Step};
use futures::future::LocalBoxFuture;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// One simulated node, and the cluster that knows its pods.
pub(super) struct Runner {
    /// `None` once the demo ends.
    node: Arc<Mutex<Option<Node>>>,
    pub(super) cluster: ClusterNode,
    speed: f64,
}

impl Runner {
    pub(super) fn new(node: Node, cluster: ClusterNode, speed: f64) -> Self {
        Runner {
            node: Arc::new(Mutex::new(Some(node))),
            cluster,
            speed,
        }
    }

    /// Waits for a write that is under way; those that come later find no node.
    pub(super) fn stop(&self) {
        let mut node = lock(&self.node);
        *node = None;
    }

    /// A time of the scenario at the demo's speed.
    pub(super) fn scaled(&self, secs: f64) -> Duration {
        Duration::from_secs_f64(secs / self.speed)
    }

    /// Applies events on a blocking thread: a disk takes its time, and the agents answer meanwhile.
    async fn apply(&self, events: Vec<Change>) -> io::Result<()> {
        events.iter().for_each(|event| self.cluster.apply(event));
        let node = Arc::clone(&self.node);
        let write = move || {
            let mut node = lock(&node);
            let Some(node) = node.as_mut() else {
                return Ok(());
            };
            node.now_micros = crate::clock::monotonic().0.saturating_mul(1000);
            events.iter().try_for_each(|event| node.apply(event))
        };
        tokio::task::spawn_blocking(write).await?
    }

    /// Lets the events of a step happen, with amounts that fit the speed.
    async fn perform(&self, step: &Step) -> io::Result<()> {
        let mut events = step.events.clone();
        for event in events.iter_mut().filter(|_| step.proportional) {
            if let Change::Ethtool { add: amount, .. } | Change::Traffic { millis: amount, .. } =
                event
            {
                *amount = (*amount as f64 / self.speed) as u64;
            }
        }
        self.apply(events).await
    }

    /// Runs a scenario: with `once`, until it has ended; else until it is dropped. `told`: its lines are
    /// printed.
    pub(super) async fn run(&self, scenario: &Scenario, once: bool, told: bool) -> io::Result<()> {
        loop {
            let mut parts: Vec<LocalBoxFuture<'_, io::Result<()>>> = vec![
                Box::pin(self.once(&scenario.steps, told)),
                Box::pin(self.load(scenario.load)),
            ];
            let repeated = scenario.steps.iter();
            for (step, every) in repeated.filter_map(|step| Some((step, step.every?))) {
                parts.push(Box::pin(self.repeat(step, every)));
            }
            let all = futures::future::try_join_all(parts);
            let Some(seconds) = scenario.seconds else {
                return all.await.map(drop);
            };
            // The parts never end but by an error.
            if let Ok(failed) = tokio::time::timeout(self.scaled(seconds), all).await {
                return failed.map(drop);
            }
            if once {
                return Ok(());
            }
            if told {
                say("\nThe scenario starts again.\n");
            }
        }
    }

    /// The steps that happen once, in order.
    async fn once(&self, steps: &[Step], told: bool) -> io::Result<()> {
        let start = Instant::now();
        let timed = steps.iter().filter_map(|step| Some((step.at?, step)));
        let mut steps: Vec<(f64, &Step)> = timed.collect();
        steps.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        for (at, step) in steps {
            tokio::time::sleep_until(start + self.scaled(at)).await;
            if told && !step.say.is_empty() {
                // As the scenario is written, whatever the speed.
                let at = minutes(Duration::from_secs_f64(at));
                say(&format!("{at}  {}", step.say));
            }
            self.perform(step).await?;
        }
        std::future::pending().await
    }

    /// A step that happens again and again.
    async fn repeat(&self, step: &Step, every: f64) -> io::Result<()> {
        let start = Instant::now();
        let first = start + self.scaled(step.from.unwrap_or(every));
        let end = step.until.map(|until| start + self.scaled(until));
        let mut ticks = tokio::time::interval_at(first, self.scaled(every));
        loop {
            let now = ticks.tick().await;
            if end.is_some_and(|end| now >= end) {
                return std::future::pending().await;
            }
            self.perform(step).await?;
        }
    }

    /// Traffic that varies a little, as that of jobs does.
    async fn load(&self, percent: u64) -> io::Result<()> {
        const STEP: f64 = 1.5;
        const VARIATION: [u64; 8] = [0, 2, 5, 7, 8, 6, 4, 1];
        if percent == 0 {
            return std::future::pending().await;
        }
        let every = self.scaled(STEP);
        let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
        for more in VARIATION.iter().cycle() {
            ticks.tick().await;
            let traffic = Change::Traffic {
                millis: u64::try_from(every.as_millis()).unwrap_or(0),
                percent: percent + more,
            };
            self.apply(vec![traffic]).await?;
        }
        Ok(())
    }
}

/// `mm:ss` since the demo began.
pub(super) fn minutes(at: Duration) -> String {
    let secs = at.as_secs();
    format!("{:02}:{:02}", secs / 60, secs % 60)
}
