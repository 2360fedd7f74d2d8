//! `selvage demo`: the real agent on simulated nodes. One node: an 8-rail, 8-GPU node and a play of
//! faults. Several: a fleet, in one process, with a simulated API server.

mod place;
mod settings;
mod stage;
mod targets;
mod view;

use super::complain;
use super::run::{FAILED, USAGE, print_out, serve};
use super::runtime::stop_signal;
use crate::agent::AgentError;
use crate::host::Host;
use crate::report::Report;
use crate::simulate::api::{self, Objects};
use crate::simulate::{self, Node, Role, cast, preset};
use crate::source::tree;
use clap::{Arg, ArgAction, ArgMatches, Command};
use futures::stream::{FuturesUnordered, StreamExt};
use place::{Directory, free_address};
use serde_json::{Value, json};
use settings::Place;
use stage::{Stage, minutes};
use std::cell::RefCell;
use std::future::Future;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use view::View;

/// Flags of `selvage demo`.
#[derive(Debug, Clone)]
pub struct DemoArgs {
    /// How many times as fast as it is written the play goes.
    pub speed: f64,
    /// End after one performance.
    pub once: bool,
    /// Where to serve; the next free port is taken if it is in use. Further nodes follow.
    pub listen: SocketAddr,
    /// How many nodes.
    pub nodes: usize,
    /// Where to write the nodes' addresses for Prometheus.
    pub targets: Option<PathBuf>,
}

/// Slowest and fastest play: below, nobody would wait; above, sources are not read in time.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.1..=8.0;

/// The most nodes: each is a real agent with threads of its own.
const MOST_NODES: u64 = 64;

/// `selvage demo` and `selvage simulate`.
pub(super) fn commands() -> [Command; 2] {
    [demo(), simulate()]
}

/// Runs one of [`commands`] and returns its exit status.
pub(super) fn run_command(name: &str, matches: &ArgMatches) -> u8 {
    match name {
        "demo" => demo_command(matches),
        _ => simulate_command(matches),
    }
}

fn simulate() -> Command {
    Command::new("simulate")
        .about(
            "Write a simulated node's files, to read with --host-root; without DIR, list the nodes",
        )
        .override_usage("selvage simulate\n       selvage simulate <NODE> <DIR>")
        .arg(
            Arg::new("node").value_name("NODE").requires("dir").help(
                "One of the list that is printed without arguments: a node, or an instance type",
            ),
        )
        .arg(
            Arg::new("dir")
                .value_name("DIR")
                .help("New or empty directory")
                .value_parser(clap::value_parser!(PathBuf)),
        )
}

fn simulate_command(matches: &ArgMatches) -> u8 {
    let (Some(node), Some(dir)) = (
        matches.get_one::<String>("node"),
        matches.get_one::<PathBuf>("dir"),
    ) else {
        return print_out(&simulate::listing());
    };
    let there = tree::list(&Host::new(dir), ".");
    if there.value().is_some_and(|names| !names.is_empty()) {
        complain(format_args!(
            "{} is not empty; name a new or empty directory",
            dir.display()
        ));
        return FAILED;
    }
    let Some(spec) = simulate::by_name(node) else {
        complain(format_args!(
            "no simulated node {node:?}; there are: {}; and by instance type: {}",
            simulate::PRESETS.join(", "),
            simulate::shape_names().join(", ")
        ));
        return USAGE;
    };
    match simulate::Node::write(spec, dir) {
        Ok(_) => 0,
        Err(error) => {
            complain(format_args!("{}: {error}", dir.display()));
            FAILED
        }
    }
}

fn demo_command(matches: &ArgMatches) -> u8 {
    let args = DemoArgs::of(matches);
    if args.once && args.nodes > 1 {
        complain("--once is for one node: a fleet's faults stand");
        return USAGE;
    }
    let run = async {
        let stop = stop_signal()?;
        run(&args, io::stdout(), stop)
            .await
            .map_err(io::Error::other)
    };
    serve(run)
}

fn demo() -> Command {
    Command::new("demo")
        .about("Simulated GPU nodes with faults coming and going: no hardware, no cluster")
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
                .help("Where to serve; the next free port is taken if it is in use, further nodes follow"),
        )
        .arg(
            Arg::new("nodes")
                .long("nodes")
                .value_name("N")
                .value_parser(clap::value_parser!(u64).range(1..=MOST_NODES))
                .help("Play a fleet of N nodes, with faults that stand [default: 1]"),
        )
        .arg(
            Arg::new("targets")
                .long("targets")
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Write the nodes' addresses for Prometheus (file_sd_configs)"),
        )
}

impl DemoArgs {
    /// As given on the command line.
    pub fn of(matches: &ArgMatches) -> Self {
        let default = SocketAddr::from(([127, 0, 0, 1], 9949));
        let nodes = matches.get_one::<u64>("nodes").copied().unwrap_or(1);
        DemoArgs {
            speed: matches.get_one("speed").copied().unwrap_or(1.0),
            once: matches.get_flag("once"),
            listen: matches.get_one("listen").copied().unwrap_or(default),
            nodes: usize::try_from(nodes).unwrap_or(1),
            targets: matches.get_one("targets").cloned(),
        }
    }
}

/// What stops the demo before its end.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A simulated node cannot be written.
    #[error("the simulated node: {0}")]
    Node(#[from] io::Error),
    /// No port to serve on.
    #[error("no free port from {0} on: {1}")]
    Listen(SocketAddr, io::Error),
    /// The file of addresses cannot be written.
    #[error("{}: {}", .0.display(), .1)]
    Targets(PathBuf, io::Error),
    /// An agent stopped by itself.
    #[error("the agent: {0}")]
    Agent(#[from] AgentError),
}

/// One node of the demo.
struct Member {
    role: Role,
    root: PathBuf,
    listen: SocketAddr,
}

/// Plays until the play has ended (with `once`) or `stop` resolves, and tells what happens and what
/// the agents say of it.
///
/// # Errors
/// A node cannot be written, no port is free, or an agent cannot run.
pub async fn run(
    args: &DemoArgs,
    out: impl Write,
    stop: impl Future<Output = ()>,
) -> Result<(), DemoError> {
    if let Some(path) = &args.targets {
        targets::check(path).map_err(|error| DemoError::Targets(path.clone(), error))?;
    }
    let directory = Directory::new(args.nodes)?;
    let members = members(args, directory.path())?;
    let objects = Arc::new(Mutex::new(Objects::default()));
    let kubeconfig = directory.path().join("kubeconfig");
    let server = start_api(&kubeconfig, &objects).await?;
    let out = RefCell::new(out);
    let say = |line: &str| {
        let mut out = out.borrow_mut();
        // Whoever closed the terminal does not want to hear of it.
        let _ = writeln!(out, "{line}");
        let _ = out.flush();
    };
    say(&welcome(&members, directory.path()));
    tokio::pin!(stop);
    let mut stages = Vec::with_capacity(members.len());
    for member in &members {
        stages.push(stage(member, &objects)?);
        // A disk may take its time, and whoever asks to stop is heard meanwhile.
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            () = tokio::task::yield_now() => {}
        }
    }
    if let Some(path) = &args.targets {
        targets::write(path, &members).map_err(|error| DemoError::Targets(path.clone(), error))?;
    }
    let began = tokio::time::Instant::now();
    let (stop_tx, stop_rx) = watch::channel(false);
    let agents: FuturesUnordered<_> = members
        .iter()
        .map(|member| {
            let (mut view, say) = (View::default(), &say);
            let told = move |report: &Report| match args.nodes {
                1 => {
                    for line in view.changes(report) {
                        say(&line);
                    }
                }
                _ => {
                    if let Some(verdict) = view.verdict(report) {
                        let at = minutes(began.elapsed());
                        say(&format!("{at}  {}  {verdict}", member.role.name));
                    }
                }
            };
            run_agent(args, member, &kubeconfig, stop_rx.clone(), say, told)
        })
        .collect();
    let plays: FuturesUnordered<_> = stages
        .iter()
        .zip(&members)
        .map(|(stage, member)| {
            // Of many nodes the agents' words are enough.
            let words = |line: &str| {
                if args.nodes == 1 {
                    say(line);
                }
            };
            async move {
                stage
                    .perform(&member.role, args.speed, args.once, &words)
                    .await
            }
        })
        .collect();
    let mut played = plays;
    let mut running = agents;
    let ended = loop {
        tokio::select! {
            Some(ended) = running.next() => match ended {
                // It has left the stage.
                Ok(()) => {}
                Err(error) => break Err(error.into()),
            },
            Some(ended) = played.next() => break ended.map_err(DemoError::from),
            () = &mut stop => break Ok(()),
        }
    };
    let _ = stop_tx.send(true);
    while running.next().await.is_some() {}
    server.abort();
    ended
}

/// The nodes, each with a place of its own and the next free address.
fn members(args: &DemoArgs, directory: &Path) -> Result<Vec<Member>, DemoError> {
    let mut next = args.listen;
    let mut members = Vec::new();
    for role in cast(args.nodes, args.speed) {
        let listen = free_address(next).map_err(|error| DemoError::Listen(next, error))?;
        next.set_port(listen.port().saturating_add(1));
        let root = directory.join(&role.name);
        members.push(Member { role, root, listen });
    }
    Ok(members)
}

/// Writes a node and has it join the cluster.
fn stage(member: &Member, objects: &Arc<Mutex<Objects>>) -> io::Result<Stage> {
    let role = &member.role;
    let none = || io::Error::other("no node to play on");
    let mut spec = preset(role.preset).ok_or_else(none)?;
    spec.hostname.clone_from(&role.name);
    let devices = spec.rdma.len();
    let allocatable = match (spec.gpus.len(), role.preset) {
        (0, _) => json!({"cpu": "64"}),
        (gpus, "efa_p5") => {
            json!({"nvidia.com/gpu": gpus.to_string(), "vpc.amazonaws.com/efa": devices.to_string()})
        }
        (gpus, _) => {
            json!({"nvidia.com/gpu": gpus.to_string(), "rdma/hca_shared_devices_a": "63"})
        }
    };
    let labels = json!({"kubernetes.io/hostname": role.name});
    objects
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .create_node(&role.name, labels, Value::Null, allocatable);
    let mut node = Node::write(spec, &member.root)?;
    role.before.iter().try_for_each(|event| node.apply(event))?;
    Ok(Stage::new(&role.name, node, objects))
}

/// A simulated API server on loopback, and a kubeconfig that leads to it.
async fn start_api(
    kubeconfig: &Path,
    objects: &Arc<Mutex<Objects>>,
) -> io::Result<tokio::task::JoinHandle<()>> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let text = api::kubeconfig(listener.local_addr()?, "token: demo");
    std::fs::write(kubeconfig, text)?;
    Ok(tokio::spawn(api::serve(listener, Arc::clone(objects))))
}

/// One agent, until the demo ends or its part does.
async fn run_agent(
    args: &DemoArgs,
    member: &Member,
    kubeconfig: &Path,
    mut stop: watch::Receiver<bool>,
    say: &impl Fn(&str),
    mut told: impl FnMut(&Report),
) -> Result<(), AgentError> {
    let role = &member.role;
    let place = Place {
        name: &role.name,
        root: &member.root,
        listen: member.listen,
        kubeconfig,
    };
    let config = settings::config(role.timing, args.speed, &place);
    let leaves = async {
        match role.leaves {
            Some(after) if args.nodes > 1 => tokio::time::sleep(after).await,
            _ => std::future::pending().await,
        }
    };
    let stop = async move {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = leaves => say(&format!("       {}  its agent goes away", role.name)),
        }
    };
    crate::agent::run(config, stop, |report, _| told(report)).await
}

/// What is said first: where to look.
fn welcome(members: &[Member], directory: &Path) -> String {
    let shown = directory.display();
    match members {
        [one] => format!(
            "Open http://{}/ in a browser; metrics: /metrics, report: /report. Ctrl-C ends.\n\
             A simulated node: 8 H100, 8 RoCE rails of 400 Gb/s, in {shown}.\n\
             The agent reads it as it reads any node; its waiting times are shortened for the play.\n",
            one.listen
        ),
        several => {
            let rows: String = several
                .iter()
                .map(|member| {
                    let role = &member.role;
                    format!("{}  http://{}/  {}\n", role.name, member.listen, role.about)
                })
                .collect();
            format!(
                "{} simulated nodes in {shown}, each with an agent of its own. Open any of them in a browser. Ctrl-C ends.\n\n{rows}",
                several.len()
            )
        }
    }
}
