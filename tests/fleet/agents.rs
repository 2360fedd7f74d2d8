//! Real agents, many to a thread. A crash is a future that is dropped: nothing is tidied up.

use selvage::config::Config;
use selvage::report::{ClusterStatus, State};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::{JoinHandle, LocalSet};

/// Threads that the agents' loops share. Each agent has others of its own: for its reads, its
/// kernel log, its state and its writer.
const THREADS: usize = 4;

/// A verdict, when the agent had it.
#[derive(Debug, Clone, Copy)]
pub struct Verdict {
    pub at: Instant,
    pub node: usize,
    pub state: State,
}

/// What the agents told.
#[derive(Default)]
pub struct Told {
    /// Changes of verdict, in order.
    pub verdicts: Vec<Verdict>,
    /// How each one's writer does.
    pub status: BTreeMap<usize, Arc<ClusterStatus>>,
    state: BTreeMap<usize, State>,
    reports: u64,
}

impl Told {
    /// Sums what the writers wrote, by what.
    pub fn writes(&self) -> u64 {
        let writes = self.status.values().flat_map(|s| s.writes.values());
        writes.sum()
    }

    /// Sums the results of requests that write.
    pub fn result(&self, result: &str) -> u64 {
        let of = |s: &Arc<ClusterStatus>| s.results.get(result).copied().unwrap_or(0);
        self.status.values().map(of).sum()
    }

    /// How many say that their taint is withheld for want of budget.
    pub fn withheld(&self) -> usize {
        let spent = |s: &&Arc<ClusterStatus>| s.withheld == Some("budget");
        self.status.values().filter(spent).count()
    }

    /// How many that run now have said this last.
    pub fn say(&self, state: State) -> usize {
        self.state.values().filter(|said| **said == state).count()
    }

    /// Reports so far.
    pub fn reports(&self) -> u64 {
        self.reports
    }
}

enum Do {
    Start(usize, Box<Config>),
    Crash(usize),
}

/// The agents.
pub struct Agents {
    workers: Vec<UnboundedSender<Do>>,
    threads: Vec<std::thread::JoinHandle<()>>,
    pub told: Arc<Mutex<Told>>,
}

impl Agents {
    pub fn new() -> Self {
        let told = Arc::new(Mutex::new(Told::default()));
        let mut agents = Agents {
            workers: Vec::new(),
            threads: Vec::new(),
            told: Arc::clone(&told),
        };
        for _ in 0..THREADS {
            let (tx, rx) = mpsc::unbounded_channel();
            let told = Arc::clone(&told);
            agents.workers.push(tx);
            agents
                .threads
                .push(std::thread::spawn(move || work(rx, &told)));
        }
        agents
    }

    pub fn start(&self, node: usize, config: Config) {
        let _ = self.workers[node % THREADS].send(Do::Start(node, Box::new(config)));
    }

    pub fn crash(&self, node: usize) {
        let _ = self.workers[node % THREADS].send(Do::Crash(node));
    }

    pub fn with<T>(&self, ask: impl FnOnce(&Told) -> T) -> T {
        ask(&self.told.lock().unwrap())
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.workers.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn work(mut orders: mpsc::UnboundedReceiver<Do>, told: &Arc<Mutex<Told>>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let mut running: BTreeMap<usize, JoinHandle<()>> = BTreeMap::new();
        while let Some(order) = orders.recv().await {
            match order {
                Do::Start(node, config) => {
                    let told = Arc::clone(told);
                    let agent = async move {
                        let observe =
                            |report: &selvage::report::Report,
                             status: Option<&Arc<ClusterStatus>>| {
                                let mut told = told.lock().unwrap();
                                told.reports += 1;
                                if let Some(status) = status {
                                    told.status.insert(node, Arc::clone(status));
                                }
                                if told.state.insert(node, report.state) != Some(report.state) {
                                    told.verdicts.push(Verdict {
                                        at: Instant::now(),
                                        node,
                                        state: report.state,
                                    });
                                }
                            };
                        let run =
                            selvage::agent::run(*config, None, std::future::pending(), observe);
                        run.await.expect("the agent runs");
                    };
                    running.insert(node, tokio::task::spawn_local(agent));
                }
                Do::Crash(node) => {
                    if let Some(agent) = running.remove(&node) {
                        agent.abort();
                        let _ = agent.await;
                    }
                    let mut told = told.lock().unwrap();
                    told.status.remove(&node);
                    told.state.remove(&node);
                }
            }
        }
        for agent in running.into_values() {
            agent.abort();
        }
    });
}
