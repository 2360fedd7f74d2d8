//! `selvage demo`: the real agent on a simulated 8-rail, 8-GPU node, and a play of faults.

use crate::check::policy::Policy;
use crate::check::{Finding, Status, Weight};
use crate::report::{Report, State};
use crate::simulate::{Node, PLAY_LENGTH, PLAY_PRESET, play, preset};
use crate::units::{Millis, Span};
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Flags of `selvage demo`.
#[derive(Debug, Clone, clap::Args)]
pub struct DemoArgs {
    /// Play this many times as fast
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    pub speed: f64,
    /// End after one performance instead of beginning again
    #[arg(long)]
    pub once: bool,
    /// Where to serve; the next free port is taken if it is in use
    #[arg(long, default_value = "127.0.0.1:9949")]
    pub listen: SocketAddr,
}

/// What the agent of the demo is run with.
#[derive(Debug, Clone)]
pub struct Stage {
    /// Host root: the simulated node.
    pub root: PathBuf,
    /// Where to serve.
    pub listen: SocketAddr,
    /// Thresholds with their waiting times shortened, or the play would take an hour.
    pub policy: Policy,
    /// How often sources are read.
    pub interval: Duration,
}

/// Plays until the play has ended (with `once`) or `stop` resolves. `agent` runs the agent on the
/// stage until the given receiver tells it to stop, and shows every report to the given observer.
/// `now` is the clock that kernel-log stamps follow.
///
/// # Errors
/// The node cannot be written, no port is free, or the agent ended by itself.
pub async fn run<A, F, E>(
    args: &DemoArgs,
    out: impl Write + Send + 'static,
    stop: impl Future<Output = ()>,
    now: fn() -> Millis,
    agent: A,
) -> io::Result<()>
where
    A: FnOnce(Stage, watch::Receiver<bool>, Box<dyn FnMut(&Report) + Send>) -> F,
    F: Future<Output = Result<(), E>>,
    E: std::error::Error + Send + Sync + 'static,
{
    let speed = if args.speed.is_finite() {
        args.speed.clamp(0.1, 50.0)
    } else {
        1.0
    };
    let directory = Directory::new()?;
    let spec = preset(PLAY_PRESET).ok_or_else(|| io::Error::other("no node to play on"))?;
    let mut node = Node::write(spec, directory.path())?;
    let stage = Stage {
        root: directory.path().to_path_buf(),
        listen: free_address(args.listen)?,
        policy: policy(speed),
        interval: Duration::from_secs(1).div_f64(speed),
    };
    let view = Arc::new(Mutex::new(View::new(out)));
    let say = |line: &str| {
        view.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .say(line)
    };
    say(&format!(
        "A simulated DGX H100 with eight RoCE rails stands in {}.\n\
         The agent reads it as it would read a node; waiting times are shortened for the play.\n\
         Metrics http://{listen}/metrics, report http://{listen}/report. Ctrl-C ends.\n",
        stage.root.display(),
        listen = stage.listen,
    ));
    let (stop_tx, stop_rx) = watch::channel(false);
    let observer = Arc::clone(&view);
    let agent = agent(
        stage,
        stop_rx,
        Box::new(move |report| {
            observer
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .report(report);
        }),
    );
    tokio::pin!(agent);
    let ended = tokio::select! {
        result = &mut agent => result.map_err(io::Error::other).and(Err(io::Error::other("the agent ended"))),
        result = perform(&mut node, speed, args.once, now, &say) => result,
        () = stop => Ok(()),
    };
    if ended.is_ok() {
        let _ = stop_tx.send(true);
        agent.await.map_err(io::Error::other)?;
    }
    ended
}

/// Lets the play happen, again and again unless `once`.
async fn perform(
    node: &mut Node,
    speed: f64,
    once: bool,
    now: fn() -> Millis,
    say: &impl Fn(&str),
) -> io::Result<()> {
    loop {
        let start = tokio::time::Instant::now();
        for (at, act, words) in play() {
            tokio::time::sleep_until(start + at.div_f64(speed)).await;
            node.set_now(now().0.saturating_mul(1000));
            if !words.is_empty() {
                say(&format!("{}  {words}", minutes(at)));
            }
            node.act(&act)?;
        }
        tokio::time::sleep_until(start + PLAY_LENGTH.div_f64(speed)).await;
        if once {
            return Ok(());
        }
        say("\nThe play begins again.\n");
    }
}

fn minutes(at: Duration) -> String {
    format!("{:02}:{:02}", at.as_secs() / 60, at.as_secs() % 60)
}

/// The default policy with waiting times and windows that fit a play of ninety seconds.
fn policy(speed: f64) -> Policy {
    let mut policy = Policy::default();
    let span = |secs: f64| Span(Duration::from_secs_f64(secs / speed));
    policy.link_state.raise_after = span(2.0);
    policy.link_state.clear_after = span(1.0);
    policy.link_flap.degraded.within = span(9.0);
    policy.link_flap.failing.within = span(9.0);
    policy.link_flap.clear_after = span(1.0);
    policy.link_rate.raise_after = span(2.0);
    policy.link_rate.clear_after = span(2.0);
    policy.congestion.storm_raise_after = span(5.0);
    policy.congestion.pressure_raise_after = span(15.0);
    policy.congestion.clear_after = span(2.0);
    policy.gpudirect.raise_after = span(2.0);
    policy.xid.quiet = span(3.0);
    policy
}

/// `wanted`, or the next port above that is free.
fn free_address(wanted: SocketAddr) -> io::Result<SocketAddr> {
    let mut last = None;
    for offset in 0..50u16 {
        let Some(port) = wanted.port().checked_add(offset) else {
            break;
        };
        let address = SocketAddr::new(wanted.ip(), port);
        match std::net::TcpListener::bind(address) {
            Ok(listener) => return listener.local_addr(),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("no free port")))
}

/// A temporary directory that is removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> io::Result<Self> {
        let base = std::env::temp_dir();
        for n in 0..100 {
            let path = base.join(format!("selvage-demo-{}-{n}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Directory(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("no free name for a temporary directory"))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Says what changed from one report to the next.
struct View<W> {
    out: W,
    state: Option<State>,
    standing: BTreeMap<(String, String, String), (String, Status, Millis)>,
}

impl<W: Write> View<W> {
    fn new(out: W) -> Self {
        View {
            out,
            state: None,
            standing: BTreeMap::new(),
        }
    }

    fn say(&mut self, text: &str) {
        // Whoever closed the terminal does not want to hear of it.
        let _ = writeln!(self.out, "{text}");
        let _ = self.out.flush();
    }

    fn report(&mut self, report: &Report) {
        for line in self.changes(report) {
            self.say(&line);
        }
    }

    fn changes(&mut self, report: &Report) -> Vec<String> {
        let mut lines = Vec::new();
        if self.state != Some(report.state) {
            let why = match report.reasons.as_slice() {
                [] => String::new(),
                reasons => format!(": {}", reasons.join(", ")),
            };
            lines.push(format!("       node is {}{why}", report.state.as_str()));
            self.state = Some(report.state);
        }
        let id = |finding: &Finding| {
            (
                finding.check.clone(),
                finding.key.clone(),
                finding.reason.clone(),
            )
        };
        let mut standing = BTreeMap::new();
        for finding in &report.findings {
            let known = self.standing.get(&id(finding));
            if known.is_none_or(|(_, status, _)| *status != finding.status) {
                lines.push(format!(
                    "       + {} {}: {}",
                    word(finding),
                    finding.subject,
                    finding.message
                ));
                lines.push(format!("         to do: {}", finding.remedy));
            }
            standing.insert(
                id(finding),
                (finding.subject.clone(), finding.status, finding.since),
            );
        }
        for (id, (subject, _, since)) in &self.standing {
            if !standing.contains_key(id) {
                let stood = report.snapshot.at.since(*since).as_secs_f64();
                lines.push(format!(
                    "       - {subject}: {} is over after {stood:.1} s",
                    id.2
                ));
            }
        }
        self.standing = standing;
        lines
    }
}

fn word(finding: &Finding) -> &'static str {
    match (finding.weight, finding.status) {
        (Weight::Notice, _) => "notice  ",
        (_, Status::Unknown) => "unknown ",
        (_, Status::Degraded) => "degraded",
        (_, Status::Failing) => "failing ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::rdma::LinkLayer;
    use crate::report::testing;

    fn changes(view: &mut View<Vec<u8>>, report: &Report) -> String {
        view.changes(report).join("\n")
    }

    #[test]
    fn only_changes_are_told() {
        let mut view = View::new(Vec::new());
        let well = testing::node(8, LinkLayer::Ethernet);
        assert!(changes(&mut view, &well).contains("node is "));
        assert_eq!(changes(&mut view, &well), "", "the same again");
        let mut ill = well.clone();
        ill.state = State::Unready;
        ill.reasons = vec!["LinkDown".into()];
        ill.findings = vec![testing::finding(
            "link_state",
            "mlx5_3/1",
            "LinkDown",
            Status::Failing,
        )];
        let told = changes(&mut view, &ill);
        assert!(told.contains("node is unready: LinkDown"), "{told}");
        assert!(told.contains("failing  mlx5_3/1: "), "{told}");
        assert!(told.contains("to do: "), "{told}");
        assert_eq!(changes(&mut view, &ill), "");
        let told = changes(&mut view, &well);
        assert!(told.contains("mlx5_3/1: LinkDown is over after"), "{told}");
    }

    #[test]
    fn a_taken_port_is_passed_by() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let free = free_address(address).unwrap();
        assert!(free.port() > address.port());
    }

    #[tokio::test(start_paused = true)]
    async fn a_performance_ends_and_cleans_up() {
        let args = DemoArgs {
            speed: 50.0,
            once: true,
            listen: "127.0.0.1:0".parse().unwrap(),
        };
        let root = Arc::new(Mutex::new(PathBuf::new()));
        let seen = Arc::clone(&root);
        run(
            &args,
            io::sink(),
            std::future::pending(),
            || Millis(5_000),
            |stage, mut stop, _observer| async move {
                assert!(stage.root.join("sys/class/infiniband/mlx5_0").exists());
                *seen.lock().unwrap() = stage.root;
                let _ = stop.wait_for(|stop| *stop).await;
                Ok::<(), io::Error>(())
            },
        )
        .await
        .unwrap();
        let root = root.lock().unwrap();
        assert!(root.starts_with(std::env::temp_dir()) && !root.exists());
    }
}
