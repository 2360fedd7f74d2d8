//! The real writer against [`FakeApi`], on a thread of its own, with short times.

use crate::fake_api::FakeApi;
use selvage::cluster::writer::WriterChannels;
use selvage::cluster::{ClusterSettings, EventRequest, EventSender, NodeFacts, RateLimits, Writer};
use selvage::config::Config;
use selvage::report::{ClusterStatus, Report, State, Tainting};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, watch};

/// Everything here takes milliseconds; a machine that is busy may need longer.
pub const BOUND: Duration = Duration::from_secs(120);

/// How long nothing may happen to count as "nothing happens".
pub const CALM: Duration = Duration::from_millis(250);

/// Times for tests: a request that is not answered is given up after a moment.
pub fn short() -> RateLimits {
    let ms = Duration::from_millis;
    RateLimits {
        deadline: ms(400),
        list_deadline: Duration::from_secs(2),
        idle: Duration::from_secs(2),
        backoff: (ms(20), ms(100)),
        message_every: ms(100),
        budget_backoff: (ms(30), ms(60)),
        busy: (ms(20), ms(20)),
        forbidden: (ms(20), ms(100)),
        // However slow the machine, no write comes free during a test.
        refill: Duration::from_secs(3600),
        ..RateLimits::default()
    }
}

/// Asks until it is so.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + BOUND;
    while !is() {
        assert!(Instant::now() < end, "no {what} within {BOUND:?}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// A healthy node's report, as the agent makes it.
pub fn ready() -> Report {
    static READY: OnceLock<Report> = OnceLock::new();
    let make = || {
        let (dir, _node) = crate::support::node("h100_ib");
        let mut config = Config::default();
        config.agent.host_root = dir.path().to_path_buf();
        config.agent.state_dir = None;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let mut report = runtime.block_on(selvage::agent::sample_once(&config));
        report.node = "node-1".into();
        report.state = State::Ready;
        report.reasons.clear();
        report.findings.clear();
        report.tainting = Tainting::Clear;
        report.full_window = true;
        report
    };
    READY.get_or_init(make).clone()
}

/// The same node, whose rail is down for long enough.
pub fn unready() -> Report {
    Report {
        state: State::Unready,
        reasons: vec!["LinkDown".into()],
        tainting: Tainting::Want,
        ..ready()
    }
}

/// What a writer last said, on both of its channels.
pub struct Told {
    pub status: ClusterStatus,
    /// Whether the node carries our taint; none until it was seen.
    pub tainted: Option<bool>,
    #[allow(dead_code, reason = "not every test binary looks at it")]
    pub facts: NodeFacts,
}

/// A writer that runs.
pub struct Running {
    pub reports: watch::Sender<Arc<Report>>,
    pub changes: mpsc::Sender<EventRequest>,
    pub events: EventSender,
    status: watch::Receiver<Option<Arc<ClusterStatus>>>,
    node: watch::Receiver<NodeFacts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    dir: tempfile::TempDir,
    generation: u64,
    state: Option<State>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Running {
    pub fn start(api: &FakeApi, settings: ClusterSettings, report: Report) -> Self {
        Self::start_as(api, "token: x", settings, report)
    }

    /// With this user in the kubeconfig.
    pub fn start_as(api: &FakeApi, user: &str, settings: ClusterSettings, report: Report) -> Self {
        let dir = crate::support::scratch();
        let file = dir.path().join("config");
        std::fs::write(&file, api.kubeconfig(user)).expect("a kubeconfig");
        let settings = ClusterSettings {
            kubeconfig: file.to_str().expect("text").into(),
            ..settings
        };
        let (reports, reports_rx) = watch::channel(Arc::new(Report {
            full_window: false,
            ..ready()
        }));
        let (changes, changes_rx) = mpsc::channel(64);
        let (events, pods) = EventSender::channel();
        let (status_tx, status) = watch::channel(None);
        let (node_tx, node) = watch::channel(NodeFacts::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let mut channels = WriterChannels {
            reports: reports_rx,
            changes: changes_rx,
            pod_events: pods,
            status: status_tx,
            node: node_tx,
        };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let writer = Writer::new(settings, "node-1", short());
                tokio::select! {
                    () = writer.run(&mut channels) => {}
                    _ = stopped => {}
                }
            });
        });
        let mut running = Running {
            reports,
            changes,
            events,
            status,
            node,
            stop: Some(stop),
            thread: Some(thread),
            dir,
            generation: 0,
            state: None,
        };
        running.report(report);
        running
    }

    /// The next report; a change of verdict is told as the agent does.
    pub fn report(&mut self, report: Report) {
        if report.full_window && self.state != Some(report.state) {
            let change = EventRequest::of_verdict(&report, self.state.is_none());
            self.state = Some(report.state);
            self.changes.try_send(change).expect("room for a change");
        }
        self.generation += 1;
        self.reports.send_replace(Arc::new(Report {
            generation: self.generation,
            ..report
        }));
    }

    /// The kubeconfig speaks of another server from now on.
    pub fn move_to(&self, api: &FakeApi) {
        let file = self.dir.path().join("config");
        std::fs::write(file, api.kubeconfig("token: x")).expect("a kubeconfig");
    }

    pub fn told(&self) -> Told {
        let status = self.status.borrow().clone();
        let status = status.map(|status| (*status).clone()).unwrap_or_default();
        Told {
            tainted: status.taint_applied,
            status,
            facts: self.node.borrow().clone(),
        }
    }

    /// Reports come as ever, and nothing is asked of the server for a while.
    pub fn calm(&mut self, api: &FakeApi) {
        let mut asked = api.log().len();
        let mut since = Instant::now();
        let end = Instant::now() + BOUND;
        // Rounds as well as time: on a busy machine little may happen in a while.
        let mut rounds = 0;
        while since.elapsed() < CALM || rounds < 25 {
            let again = Arc::clone(&self.reports.borrow());
            self.report((*again).clone());
            std::thread::sleep(Duration::from_millis(10));
            rounds += 1;
            let now = api.log().len();
            if now != asked {
                asked = now;
                since = Instant::now();
                rounds = 0;
            }
            assert!(
                Instant::now() < end,
                "no calm: {:#?}",
                api.log().split_off(now.saturating_sub(6))
            );
        }
    }
}
