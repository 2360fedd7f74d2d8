//! Lets a scenario happen on its node.

use crate::simulate::api::Objects;
use crate::simulate::{Event, Node, Scenario, Step, When};
use futures::future::LocalBoxFuture;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// One simulated node, and the API server that knows its pods.
pub(super) struct Runner {
    name: String,
    node: Arc<Mutex<Node>>,
    objects: Arc<Mutex<Objects>>,
}

impl Runner {
    pub(super) fn new(name: &str, node: Node, objects: &Arc<Mutex<Objects>>) -> Self {
        Runner {
            name: name.to_string(),
            node: Arc::new(Mutex::new(node)),
            objects: Arc::clone(objects),
        }
    }

    /// Applies events on a blocking thread: a disk takes its time, and the agents answer meanwhile.
    async fn apply(&self, events: &[Event]) -> io::Result<()> {
        events.iter().for_each(|event| self.update_cluster(event));
        let (node, events) = (Arc::clone(&self.node), events.to_vec());
        let write = move || {
            let mut node = node.lock().unwrap_or_else(PoisonError::into_inner);
            node.set_now(crate::clock::monotonic().0.saturating_mul(1000));
            events.iter().try_for_each(|event| node.apply(event))
        };
        tokio::task::spawn_blocking(write).await?
    }

    /// The API server knows pods and device plugins, too.
    fn update_cluster(&self, event: &Event) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::PodStarts(pod) => objects.put_pod(pod.object(&self.name)),
            Event::PodEnds(uid) => drop(objects.delete_pod(uid)),
            Event::PluginStops(resource) => objects.plugin_stops(&self.name, resource),
            _ => {}
        }
    }

    /// Runs a scenario: with `once`, until it has ended; else until it is dropped.
    pub(super) async fn run(
        &self,
        scenario: &Scenario,
        speed: f64,
        once: bool,
        say: &impl Fn(&str),
    ) -> io::Result<()> {
        loop {
            let parts = self.parts(scenario, speed, say);
            let all = futures::future::try_join_all(parts);
            let Some(length) = scenario.length else {
                return all.await.map(drop);
            };
            // The parts never end but by an error.
            if let Ok(failed) = tokio::time::timeout(length, all).await {
                return failed.map(drop);
            }
            if once {
                return Ok(());
            }
            say("\nThe scenario starts again.\n");
        }
    }

    fn parts<'a>(
        &'a self,
        scenario: &'a Scenario,
        speed: f64,
        say: &'a impl Fn(&str),
    ) -> Vec<LocalBoxFuture<'a, io::Result<()>>> {
        let mut parts: Vec<LocalBoxFuture<'a, io::Result<()>>> = vec![
            Box::pin(self.once(&scenario.steps, speed, say)),
            Box::pin(self.load(scenario.load, speed)),
        ];
        for step in &scenario.steps {
            if let When::Every { from, every, until } = step.when {
                parts.push(Box::pin(self.repeat(step, from, every, until)));
            }
        }
        parts
    }

    /// The steps that happen once, in order.
    async fn once(&self, steps: &[Step], speed: f64, say: &impl Fn(&str)) -> io::Result<()> {
        let start = Instant::now();
        let at = |step: &Step| match step.when {
            When::At(at) => Some(at),
            When::Every { .. } => None,
        };
        let mut steps: Vec<(Duration, &Step)> = steps
            .iter()
            .filter_map(|step| Some((at(step)?, step)))
            .collect();
        steps.sort_by_key(|(at, _)| *at);
        for (at, step) in steps {
            tokio::time::sleep_until(start + at).await;
            if !step.say.is_empty() {
                // As the scenario is written, whatever the speed.
                say(&format!("{}  {}", minutes(at.mul_f64(speed)), step.say));
            }
            self.apply(&step.events).await?;
        }
        std::future::pending().await
    }

    async fn repeat(
        &self,
        step: &Step,
        from: Duration,
        every: Duration,
        until: Option<Duration>,
    ) -> io::Result<()> {
        let start = Instant::now();
        let mut ticks = tokio::time::interval_at(start + from, every);
        loop {
            let now = ticks.tick().await;
            if until.is_some_and(|until| now >= start + until) {
                return std::future::pending().await;
            }
            self.apply(&step.events).await?;
        }
    }

    /// Traffic that varies a little, as that of jobs does.
    async fn load(&self, percent: u64, speed: f64) -> io::Result<()> {
        const STEP: Duration = Duration::from_millis(1500);
        const VARIATION: [u64; 8] = [0, 2, 5, 7, 8, 6, 4, 1];
        if percent == 0 {
            return std::future::pending().await;
        }
        let every = STEP.div_f64(speed);
        let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
        for more in VARIATION.iter().cycle() {
            ticks.tick().await;
            let traffic = Event::Traffic {
                millis: u64::try_from(every.as_millis()).unwrap_or(0),
                percent: percent + more,
            };
            self.apply(&[traffic]).await?;
        }
        Ok(())
    }
}

/// `mm:ss` since the demo began.
pub(super) fn minutes(at: Duration) -> String {
    // Rounded: a time that was divided and multiplied by the speed may be a nanosecond short.
    let secs = (at + Duration::from_millis(1)).as_secs();
    format!("{:02}:{:02}", secs / 60, secs % 60)
}
