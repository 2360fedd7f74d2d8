//! Lets a part of the cast happen on its node.

use crate::simulate::api::Objects;
use crate::simulate::{Event, Node, Role, Scene};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// One simulated node, and the API server that knows of its pods.
pub(super) struct Stage {
    name: String,
    node: Arc<Mutex<Node>>,
    objects: Arc<Mutex<Objects>>,
}

type Part<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + 'a>>;

impl Stage {
    pub(super) fn new(name: &str, node: Node, objects: &Arc<Mutex<Objects>>) -> Self {
        Stage {
            name: name.to_string(),
            node: Arc::new(Mutex::new(node)),
            objects: Arc::clone(objects),
        }
    }

    /// On a thread of its own: a disk takes its time, and the agents are to answer meanwhile.
    async fn apply(&self, event: &Event) -> io::Result<()> {
        self.tell(event);
        let (node, event) = (Arc::clone(&self.node), event.clone());
        let write = move || {
            let mut node = node.lock().unwrap_or_else(PoisonError::into_inner);
            node.set_now(crate::clock::monotonic().0.saturating_mul(1000));
            node.apply(&event)
        };
        tokio::task::spawn_blocking(write).await?
    }

    /// Pods that come and go are the API server's, too.
    fn tell(&self, event: &Event) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::PodComes(pod) => objects.put_pod(pod.object(&self.name)),
            Event::PodGoes(uid) => drop(objects.delete_pod(uid)),
            Event::PluginGoes(resource) => objects.plugin_goes(&self.name, resource),
            _ => {}
        }
    }

    /// Performs a role: with `once`, until its play has ended; else for ever.
    pub(super) async fn perform(
        &self,
        role: &Role,
        speed: f64,
        once: bool,
        say: &impl Fn(&str),
    ) -> io::Result<()> {
        let mut parts: Vec<Part<'_>> = vec![
            Box::pin(self.scenes(&role.scenes)),
            Box::pin(self.load(role.load, speed)),
        ];
        for (times, event) in &role.again {
            parts.push(Box::pin(self.again(*times, event)));
        }
        let all = futures::future::try_join_all(parts);
        match &role.play {
            Some((scenes, length)) => {
                tokio::select! {
                    failed = all => failed.map(drop),
                    ended = self.play(scenes, *length, speed, once, say) => ended,
                }
            }
            None => all.await.map(drop),
        }
    }

    async fn scenes(&self, scenes: &[Scene]) -> io::Result<()> {
        let start = Instant::now();
        let mut scenes: Vec<&Scene> = scenes.iter().collect();
        scenes.sort_by_key(|(at, _, _)| *at);
        for (at, event, _) in scenes {
            tokio::time::sleep_until(start + *at).await;
            self.apply(event).await?;
        }
        std::future::pending().await
    }

    async fn again(&self, [from, every]: [Duration; 2], event: &Event) -> io::Result<()> {
        let mut ticks = tokio::time::interval_at(Instant::now() + from, every);
        loop {
            ticks.tick().await;
            self.apply(event).await?;
        }
    }

    /// Traffic that swings a little, as jobs' does.
    async fn load(&self, percent: u64, speed: f64) -> io::Result<()> {
        const STEP: Duration = Duration::from_millis(1500);
        const SWING: [u64; 8] = [0, 2, 5, 7, 8, 6, 4, 1];
        if percent == 0 {
            return std::future::pending().await;
        }
        let every = STEP.div_f64(speed);
        let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
        for swing in SWING.iter().cycle() {
            ticks.tick().await;
            let traffic = Event::Traffic {
                millis: u64::try_from(every.as_millis()).unwrap_or(0),
                percent: percent + swing,
            };
            self.apply(&traffic).await?;
        }
        Ok(())
    }

    /// Lets the play happen, again and again unless `once`. Its times are as it is written.
    async fn play(
        &self,
        scenes: &[Scene],
        length: Duration,
        speed: f64,
        once: bool,
        say: &impl Fn(&str),
    ) -> io::Result<()> {
        loop {
            let start = Instant::now();
            for (at, event, words) in scenes {
                tokio::time::sleep_until(start + at.div_f64(speed)).await;
                if !words.is_empty() {
                    say(&format!("{}  {words}", minutes(*at)));
                }
                self.apply(event).await?;
            }
            tokio::time::sleep_until(start + length).await;
            if once {
                return Ok(());
            }
            say("\nThe play begins again.\n");
        }
    }
}

pub(super) fn minutes(at: Duration) -> String {
    format!("{:02}:{:02}", at.as_secs() / 60, at.as_secs() % 60)
}
