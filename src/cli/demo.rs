//! `selvage demo`: the real agent on simulated nodes. One node: eight rails, eight GPUs, and faults that
//! come and go. Several: a fleet in one process, with a stand-in for its cluster. And `selvage
//! simulate`: the files of one such node.

mod cluster;
mod console;
mod runner;
mod settings;

use super::run::serve;
use super::{Exit, fail, print, refuse, stop_signal, style};
use crate::agent::AgentError;
use crate::files::{check_replaceable, replace};
use crate::host::Host;
use crate::report::Report;
use crate::simulate::{self, Node, NodeFiles, Scenario, fleet, preset};
use crate::source::tree;
use clap::Args;
use clap::builder::PossibleValuesParser;
use cluster::{ClusterNode, DemoBudget};
use console::Console;
use futures::stream::{FuturesUnordered, StreamExt};
use runner::{Runner, minutes};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::{pin::Pin, sync::Arc};
use tokio::sync::watch;

/// Range of `--speed`: below it the demo is tedious, above it sources are not read in time.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.1..=8.0;

#[derive(Debug, Clone, Args)]
pub(super) struct DemoArgs {
    /// Run N times as fast
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_speed)]
    speed: f64,
    /// End after one run instead of starting again
    #[arg(long)]
    once: bool,
    /// Where to serve; the next free port is taken if it is in use, further nodes follow
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9949")]
    listen: SocketAddr,
    // Each node is a real agent with threads of its own.
    /// Simulate a fleet of N nodes, with faults that last
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=64))]
    nodes: u64,
    /// Simulate a fleet that fails for one cause
    #[arg(long, value_name = "NAME", conflicts_with = "nodes", value_parser = PossibleValuesParser::new(simulate::plays()))]
    play: Option<String>,
    /// Write the nodes' addresses for Prometheus (file_sd_configs)
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(super) struct SimulateArgs {
    /// One of the list that is printed without arguments: a node, or an instance type
    #[arg(requires = "dir")]
    node: Option<String>,
    /// New or empty directory
    dir: Option<PathBuf>,
}

fn parse_speed(text: &str) -> Result<f64, &'static str> {
    let speed = text.parse().ok();
    let speed = speed.filter(|speed| SPEEDS.contains(speed));
    speed.ok_or("a number from 0.1 to 8")
}

/// Runs `selvage simulate`.
pub(super) fn simulate_command(args: SimulateArgs) -> Exit {
    let (Some(node), Some(dir)) = (args.node, args.dir) else {
        return print(&simulate::listing());
    };
    let existing = tree::list(&Host::new(&dir), ".");
    let shown = dir.display();
    if existing.value().is_some_and(|names| !names.is_empty()) {
        return Err(fail(format_args!(
            "{shown} is not empty; name a new or empty directory"
        )));
    }
    let spec = simulate::by_name(&node).ok_or_else(|| {
        refuse(format_args!(
            "no simulated node {node:?}; available: {}; and by instance type: {}",
            simulate::presets().join(", "),
            simulate::shape_names().join(", ")
        ))
    })?;
    Node::write(spec, &dir).map_err(|error| fail(format_args!("{shown}: {error}")))?;
    Ok(0)
}

/// Runs `selvage demo`.
pub(super) fn demo_command(args: &DemoArgs) -> Exit {
    if args.once && (args.nodes > 1 || args.play.is_some()) {
        return Err(refuse("--once is for one node: a fleet's faults last"));
    }
    Ok(serve(async { run(args, stop_signal()?).await }))
}

/// What a simulated node's files failed by.
fn of_node(error: io::Error) -> io::Error {
    io::Error::other(format!("the simulated node: {error}"))
}

/// What the file of `--targets` failed by.
fn of_targets(path: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

/// Prints a line for the audience. A closed terminal ends nothing.
fn say(line: &str) {
    let mut out = io::stdout();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// One node of the demo.
struct Member {
    scenario: Scenario,
    spec: NodeFiles,
    root: PathBuf,
    listen: SocketAddr,
}

/// Runs until the scenario has ended (with `once`) or `stop` resolves; prints what happens and how the
/// agents judge it.
async fn run(args: &DemoArgs, stop: impl Future<Output = ()>) -> io::Result<()> {
    if let Some(path) = &args.targets {
        check_replaceable(path).map_err(|error| of_targets(path, &error))?;
    }
    let scenarios = match &args.play {
        Some(name) => simulate::play(name).unwrap_or_default(),
        None => fleet(usize::try_from(args.nodes).unwrap_or(1)),
    };
    let directory = tempfile::Builder::new().prefix("selvage-demo-").tempdir();
    let directory = directory.map_err(of_node)?;
    let members = members(args, scenarios, directory.path())?;
    say(&welcome(&members, directory.path()));
    tokio::pin!(stop);
    let in_fabric = members.iter().filter(|one| !one.spec.rdma.is_empty());
    let budget = Arc::new(DemoBudget {
        nodes: in_fabric.count(),
        ..DemoBudget::default()
    });
    let mut runners = Vec::with_capacity(members.len());
    for member in &members {
        runners.push(set_up(args, member, &budget).map_err(of_node)?);
        // A disk may take its time; a request to stop is answered meanwhile.
        tokio::select! {
            biased;
            () = &mut stop => return Ok(()),
            () = tokio::task::yield_now() => {}
        }
    }
    if let Some(path) = &args.targets {
        write_targets(path, &members).map_err(|error| of_targets(path, &error))?;
    }
    let ended = perform(args, &members, &runners, stop).await;
    runners.iter().for_each(Runner::stop);
    ended
}

/// Lets agents and scenarios run until one ends or `stop` resolves.
async fn perform(
    args: &DemoArgs,
    members: &[Member],
    runners: &[Runner],
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> io::Result<()> {
    // With many nodes the agents' lines are enough.
    let alone = members.len() == 1;
    let (stop_tx, stop_rx) = watch::channel(false);
    let began = tokio::time::Instant::now();
    let all = || members.iter().zip(runners);
    let mut agents: FuturesUnordered<_> = all()
        .map(|(member, runner)| {
            let mut console = Console::new(style());
            let observer = move |report: &Report| {
                runner.cluster.write(report);
                if alone {
                    console.changes(report).iter().for_each(|line| say(line));
                } else if let Some(verdict) = console.verdict(report) {
                    let (at, name) = (minutes(began.elapsed()), &member.scenario.name);
                    say(&format!("{at}  {name}  {verdict}"));
                }
            };
            run_agent(args, member, runner, stop_rx.clone(), observer)
        })
        .collect();
    let mut scenarios: FuturesUnordered<_> = all()
        .map(|(member, runner)| runner.run(&member.scenario, args.once, alone))
        .collect();
    let ended = loop {
        tokio::select! {
            Some(ended) = agents.next() => if let Err(error) = ended {
                break Err(io::Error::other(format!("the agent: {error}")));
            },
            Some(ended) = scenarios.next() => break ended.map_err(of_node),
            () = &mut stop => break Ok(()),
        }
    };
    let _ = stop_tx.send(true);
    while agents.next().await.is_some() {}
    ended
}

/// The nodes, each with a directory of its own and the next free address.
fn members(args: &DemoArgs, scenarios: Vec<Scenario>, directory: &Path) -> io::Result<Vec<Member>> {
    let mut next = args.listen;
    let mut members = Vec::new();
    for scenario in scenarios {
        let missing = || io::Error::other(format!("no machine {}", scenario.preset));
        let mut spec = preset(&scenario.preset).ok_or_else(|| of_node(missing()))?;
        spec.hostname.clone_from(&scenario.name);
        if let Some(firmware) = &scenario.firmware {
            (spec.rdma.iter_mut()).for_each(|nic| nic.firmware.clone_from(firmware));
        }
        let none = |error| io::Error::other(format!("no free port from {next} on: {error}"));
        let listen = free_address(next).map_err(none)?;
        next.set_port(listen.port().saturating_add(1));
        members.push(Member {
            root: directory.join(&scenario.name),
            scenario,
            spec,
            listen,
        });
    }
    Ok(members)
}

/// `wanted`, or the next port above that is free.
fn free_address(wanted: SocketAddr) -> io::Result<SocketAddr> {
    let mut result = Err(io::Error::other("no free port"));
    for port in (wanted.port()..=u16::MAX).take(50) {
        let listener = std::net::TcpListener::bind((wanted.ip(), port));
        result = listener.and_then(|listener| listener.local_addr());
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Writes a node as it is before its agent starts.
fn set_up(args: &DemoArgs, member: &Member, budget: &Arc<DemoBudget>) -> io::Result<Runner> {
    let mut node = Node::write(member.spec.clone(), &member.root)?;
    (member.scenario.before.iter()).try_for_each(|event| node.apply(event))?;
    let cluster = ClusterNode::new(&member.scenario, &member.spec, budget);
    Ok(Runner::new(node, cluster, args.speed))
}

/// One agent, until the demo ends or its scenario says that it leaves.
async fn run_agent(
    args: &DemoArgs,
    member: &Member,
    runner: &Runner,
    mut stop: watch::Receiver<bool>,
    mut observer: impl FnMut(&Report),
) -> Result<(), AgentError> {
    let Scenario { name, leaves, .. } = &member.scenario;
    let leaves = async {
        match leaves {
            Some(after) => tokio::time::sleep(runner.scaled(*after)).await,
            None => std::future::pending().await,
        }
    };
    let stop = async move {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            () = leaves => say(&format!("       {name}  its agent goes away")),
        }
    };
    let (config, link) = (settings::config(member, args.speed), runner.cluster.link());
    crate::agent::run(config, Some(link), stop, |report, _| observer(report)).await
}

/// Writes the nodes' addresses for Prometheus (`file_sd_configs`).
fn write_targets(path: &Path, members: &[Member]) -> io::Result<()> {
    let targets = members.iter().map(|member| {
        json!({
            "targets": [member.listen.to_string()],
            "labels": {"instance": member.scenario.name, "cluster": "demo"},
        })
    });
    let text = format!("{}\n", Value::from_iter(targets));
    check_replaceable(path)?;
    replace(path, text.as_bytes(), None)
}

/// The first lines: where to look.
fn welcome(members: &[Member], directory: &Path) -> String {
    let shown = directory.display();
    if let [one] = members {
        return format!(
            "Open http://{}/ in a browser; metrics: /metrics, report: /report. Ctrl-C ends.\n\
             A simulated node: 8 H100, 8 RoCE rails of 400 Gb/s, in {shown}.\n\
             The agent reads it like any node; its waiting times are shortened for the demo.\n",
            one.listen
        );
    }
    let mut text = format!(
        "{} simulated nodes in {shown}, each with an agent of its own. Open any of them in a browser. Ctrl-C ends.\n\n",
        members.len()
    );
    for member in members {
        let (scenario, listen) = (&member.scenario, member.listen);
        text += &format!("{}  http://{listen}/  {}\n", scenario.name, scenario.about);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_skipped() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let free = free_address(address).unwrap();
        assert!(free.port() > address.port());
    }
}
