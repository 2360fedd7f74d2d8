//! `selvage demo`: the real agent on a simulated 8-rail, 8-GPU node, and a play of faults.

use crate::agent::AgentError;
use crate::check::{Finding, Status, Weight};
use crate::cluster::settings::Mode;
use crate::config::listen::Listen;
use crate::config::{Config, RdmaSource};
use crate::report::{Report, State};
use crate::simulate::{Node, PLAY_LENGTH, PLAY_PRESET, play, preset};
use crate::units::{Millis, Span};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;

/// Flags of `selvage demo`.
#[derive(Debug, Clone)]
pub struct DemoArgs {
    /// How many times as fast as it is written the play goes.
    pub speed: f64,
    /// End after one performance.
    pub once: bool,
    /// Where to serve; the next free port is taken if it is in use.
    pub listen: SocketAddr,
}

/// Slowest and fastest play: below, nobody would wait; above, sources are not read in time.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.1..=8.0;

/// The subcommand.
pub fn command() -> Command {
    Command::new("demo")
        .about("A simulated GPU node with faults coming and going: no hardware, no cluster")
        .arg(
            Arg::new("speed")
                .long("speed")
                .value_name("N")
                .default_value("1")
                .value_parser(|text: &str| match text.parse::<f64>() {
                    Ok(speed) if SPEEDS.contains(&speed) => Ok(speed),
                    _ => Err("a number from 0.1 to 8"),
                })
                .help("Play N times as fast"),
        )
        .arg(
            Arg::new("once")
                .long("once")
                .action(ArgAction::SetTrue)
                .help("End after one performance instead of beginning again"),
        )
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("ADDRESS:PORT")
                .default_value("127.0.0.1:9949")
                .value_parser(clap::value_parser!(SocketAddr))
                .help("Where to serve; the next free port is taken if it is in use"),
        )
}

impl DemoArgs {
    /// As given on the command line.
    pub fn of(matches: &ArgMatches) -> Self {
        let default = SocketAddr::from(([127, 0, 0, 1], 9949));
        DemoArgs {
            speed: matches.get_one("speed").copied().unwrap_or(1.0),
            once: matches.get_flag("once"),
            listen: matches.get_one("listen").copied().unwrap_or(default),
        }
    }
}

/// What stops the demo before its end.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The simulated node cannot be written.
    #[error("the simulated node: {0}")]
    Node(#[from] io::Error),
    /// No port to serve on.
    #[error("no free port from {0} on: {1}")]
    Listen(SocketAddr, io::Error),
    /// The agent stopped by itself.
    #[error("the agent: {0}")]
    Agent(#[from] AgentError),
}

/// Plays until the play has ended (with `once`) or `stop` resolves, and tells what happens and what
/// the agent says of it.
///
/// # Errors
/// The node cannot be written, no port is free, or the agent cannot run.
pub async fn run(
    args: &DemoArgs,
    out: impl Write,
    stop: impl Future<Output = ()>,
) -> Result<(), DemoError> {
    let directory = Directory::new()?;
    let spec = preset(PLAY_PRESET).ok_or_else(|| io::Error::other("no node to play on"))?;
    let mut node = Node::write(spec, directory.path())?;
    let listen =
        free_address(args.listen).map_err(|error| DemoError::Listen(args.listen, error))?;
    let view = RefCell::new(View::new(out));
    let say = |line: &str| view.borrow_mut().say(line);
    say(&format!(
        "A simulated node: 8 H100, 8 RoCE rails of 400 Gb/s, in {}.\n\
         The agent reads it as it reads any node; its waiting times are shortened for the play.\n\
         http://{listen}/metrics  http://{listen}/report  Ctrl-C ends.\n",
        directory.path().display(),
    ));
    let (stop_tx, mut stop_rx) = watch::channel(false);
    let agent = crate::agent::run(
        config(args.speed, directory.path(), listen),
        async move {
            let _ = stop_rx.wait_for(|stop| *stop).await;
        },
        |report| view.borrow_mut().report(report),
    );
    tokio::pin!(agent);
    tokio::select! {
        ended = &mut agent => return ended.map_err(DemoError::from),
        played = perform(&mut node, args.speed, args.once, &say) => played?,
        () = stop => {}
    }
    let _ = stop_tx.send(true);
    Ok(agent.await?)
}

/// Lets the play happen, again and again unless `once`.
async fn perform(node: &mut Node, speed: f64, once: bool, say: &impl Fn(&str)) -> io::Result<()> {
    loop {
        let start = tokio::time::Instant::now();
        for (at, act, words) in play(speed) {
            tokio::time::sleep_until(start + at.div_f64(speed)).await;
            node.set_now(crate::clock::monotonic().0.saturating_mul(1000));
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

/// Default settings, with intervals, waiting times and windows that fit a play of ninety seconds.
fn config(speed: f64, root: &Path, listen: SocketAddr) -> Config {
    let mut config = Config::default();
    config.agent.listen = Listen::on(listen.ip(), listen.port());
    config.agent.host_root = root.to_path_buf();
    config.agent.node_name = "demo".into();
    config.agent.state_dir = None;
    config.agent.rdma_source = RdmaSource::Sysfs;
    config.cluster.mode = Mode::Off;
    let span = |secs: f64| Span(Duration::from_secs_f64(secs / speed));
    let often = Span(span(1.0).duration().max(Duration::from_millis(100)));
    let intervals = &mut config.intervals;
    for interval in [
        &mut intervals.link,
        &mut intervals.counters,
        &mut intervals.ethtool,
        &mut intervals.netdev,
        &mut intervals.gpudirect,
        &mut intervals.pci,
    ] {
        *interval = often;
    }
    config.hysteresis.hold = span(2.0);
    // Repeats are the play's, not a nervous node's: no longer waits for them.
    config.hysteresis.flap_count = 0;
    let policy = &mut config.policy;
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
    policy.device_missing.dead_raise_after = span(2.0);
    policy.xid.quiet = span(3.0);
    config
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
                    finding.reason,
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
        if self.state != Some(report.state) {
            let why = match report.reasons.as_slice() {
                [] => String::new(),
                reasons => format!(": {}", reasons.join(", ")),
            };
            lines.push(format!("       node is {}{why}", report.state.as_str()));
            self.state = Some(report.state);
        }
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
        assert!(told.contains("failing  LinkDown: "), "{told}");
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

    /// Thresholds of the play must be ones that a file may hold.
    #[test]
    fn the_settings_are_sound_at_every_speed() {
        for speed in [*SPEEDS.start(), 1.0, *SPEEDS.end()] {
            let listen = "127.0.0.1:9949".parse().unwrap();
            let config = config(speed, Path::new("/nowhere"), listen);
            assert_eq!(config.complaints(), [], "{speed}");
        }
    }

    #[test]
    fn the_directory_goes_with_the_demo() {
        let directory = Directory::new().unwrap();
        let path = directory.path().to_path_buf();
        std::fs::write(path.join("x"), "").unwrap();
        drop(directory);
        assert!(!path.exists());
    }
}
