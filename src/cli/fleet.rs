//! `selvage fleet`, which is also `kubectl selvage`: the nodes of a cluster by verdict, reason and cause.

use super::run::init_log;
use super::{Exit, complain, fail, on_runtime, print, refuse, refuse_all, stop_signal, style};
use crate::cluster::{ApiError, ClusterSettings, RateLimits, connect};
use crate::config;
use crate::fleet::api::FleetApi;
use crate::fleet::watched::Watched;
use crate::fleet::{Fleet, FleetNode, mute, summarise, targets, text};
use crate::report::{Style, clean_lines};
use clap::{Arg, ArgMatches, Args, Command, Subcommand};
use futures::StreamExt;
use jiff::Timestamp;
use kube::runtime::{WatchStreamExt, watcher};
use std::io::{self, IsTerminal};
use std::{path::Path, pin::pin, time::Duration};

/// The name by which kubectl finds a plug-in `kubectl selvage`.
pub const PLUGIN: &str = "kubectl-selvage";

/// Nodes a page of the list that a watch begins with: it is not tried again in halves.
const WATCH_PAGE: u32 = 100;
/// A screen is drawn this often at most, and, for the ages on it, this often at least.
const REDRAW: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What every screen takes; two are of the list alone.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Output format
    #[arg(short, long, global = true, value_name = "FORM")]
    #[arg(default_value = "text", value_parser = ["text", "wide", "json"])]
    output: String,
    /// Show it again whenever it changes
    #[arg(short, long)]
    watch: bool,
    /// Only nodes with these labels
    #[arg(short = 'l', long, global = true, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Kubeconfig; else as kubectl finds it
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<String>,
    /// Context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// Namespace of the agents' pods [default: selvage]
    #[arg(short, long, global = true, value_name = "NAME")]
    namespace: Option<String>,
    /// Without Kubernetes: agents to ask, one host[:port] a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["selector", "watch"])]
    targets: Option<String>,
    /// Prefix of labels, taint and annotations (setting cluster.prefix)
    #[arg(long, global = true, value_name = "PREFIX")]
    prefix: Option<String>,
    #[command(subcommand)]
    screen: Option<Screen>,
}

/// What is asked of one node.
#[derive(Debug, Subcommand)]
pub(super) enum Screen {
    /// One node's report, asked of its agent by way of the API server
    Node { node: String },
    /// Mute checks, or else the taint, on a node for a time
    Mute {
        node: String,
        /// For how long: 30m, 4h, 2d
        length: String,
        /// Checks (link_flap), reasons (LinkDown) or taint
        what: Vec<String>,
    },
    /// Unmute checks or the taint on a node; everything where nothing is named
    Unmute {
        node: String,
        /// Checks (link_flap), reasons (LinkDown) or taint
        what: Vec<String>,
    },
    /// Accept this machine as it is now: forget its best values
    Accept { node: String },
}

/// Exit statuses, for `--help`.
pub(super) const EXIT_STATUSES: &str =
    "Exit status: 0, 1 when a node is unready, 70 when the API server cannot be asked";

/// Adds `--config` and `--set` to `selvage fleet`.
pub(super) fn add_args(command: Command) -> Command {
    let hidden = |arg: Arg| arg.global(true).hide_short_help(true);
    let command = config::add_file_args(command);
    command.mut_arg("config", hidden).mut_arg("set", hidden)
}

/// What the command line says, and how to show what it asks for.
struct CommandLine {
    settings: ClusterSettings,
    flags: Flags,
    style: Style,
}

impl CommandLine {
    /// With the flags that stand for settings, or what is wrong with the settings then.
    fn with_flags(mut self) -> Result<Self, Vec<String>> {
        for (flag, setting) in [
            (&self.flags.kubeconfig, &mut self.settings.kubeconfig),
            (&self.flags.namespace, &mut self.settings.namespace),
            (&self.flags.prefix, &mut self.settings.prefix),
        ] {
            if let Some(text) = flag {
                setting.clone_from(text);
            }
        }
        let wrong = self.settings.complaints().into_iter();
        let wrong: Vec<String> = wrong.map(|(key, what)| format!("{key}: {what}")).collect();
        wrong.is_empty().then_some(self).ok_or(wrong)
    }

    fn selector(&self) -> &str {
        self.flags.selector.as_deref().unwrap_or_default()
    }

    async fn connect(&self) -> Result<(FleetApi, String), u8> {
        let limits = RateLimits::default();
        let connected = connect(&self.settings, &limits, self.flags.context.as_deref()).await;
        let (client, namespace) = connected.map_err(fail)?;
        Ok((FleetApi::new(client, &self.settings, limits), namespace))
    }

    /// The nodes together. A part of them, or none read from the API server, says nothing of a group's budget.
    fn summarise(&self, nodes: Vec<FleetNode>) -> Fleet {
        let mut fleet = summarise(nodes, &self.settings, Timestamp::now());
        let whole = self.flags.selector.is_none() && self.flags.targets.is_none();
        fleet.budget = fleet.budget.filter(|_| whole);
        fleet
    }

    /// Prints it; gives the exit status.
    fn show(&self, fleet: &Fleet) -> Exit {
        print(&self.encode(fleet))?;
        Ok(u8::from(fleet.has_unready()))
    }

    fn encode(&self, fleet: &Fleet) -> String {
        match self.flags.output.as_str() {
            // Nothing in it can fail to serialise.
            "json" => serde_json::to_string_pretty(fleet).unwrap_or_default() + "\n",
            form => text::encode(fleet, self.style, form == "wide"),
        }
    }
}

/// Shows what the command line asks for; gives the exit status.
pub(super) fn run(flags: Flags, matches: &ArgMatches) -> Exit {
    let (name, below) = matches.subcommand().unwrap_or(("", matches));
    let loaded = config::load(below, |_| None).map_err(refuse_all)?;
    loaded.warnings.iter().for_each(complain);
    init_log(&loaded.config, true);
    let mut useless = [
        ("targets", flags.targets.is_some()),
        ("watch", flags.watch),
        ("selector", flags.selector.is_some()),
    ]
    .into_iter();
    if let Some((id, _)) = useless.find(|(_, given)| *given && !name.is_empty()) {
        return Err(refuse(format_args!(
            "--{id} has no effect on `fleet {name}`"
        )));
    }
    let mut style = style();
    if !io::stdout().is_terminal() {
        // A file or a pipe has no width.
        style.width = usize::MAX;
    }
    let asked = CommandLine {
        settings: loaded.config.cluster,
        flags,
        style,
    };
    let asked = asked.with_flags().map_err(refuse_all)?;
    on_runtime(show(&asked)).map_err(fail)?
}

async fn show(asked: &CommandLine) -> Exit {
    match &asked.flags.screen {
        Some(Screen::Node { node }) => report(node, asked).await,
        Some(Screen::Mute { node, length, what }) => mute(node, Some(length), what, asked).await,
        Some(Screen::Unmute { node, what }) => mute(node, None, what, asked).await,
        Some(Screen::Accept { node }) => accept(node, asked).await,
        None => match &asked.flags.targets {
            Some(path) => targets(path, asked).await,
            None if asked.flags.watch => watch(asked).await,
            None => list(asked).await,
        },
    }
}

async fn list(asked: &CommandLine) -> Exit {
    let (api, _) = asked.connect().await?;
    let nodes = api.list(asked.selector()).await;
    asked.show(&asked.summarise(nodes.map_err(fail)?))
}

/// Longest list of agents, in bytes.
const TARGETS_MAX: u64 = 4 << 20;

/// Shows the agents at the addresses in a file.
async fn targets(path: &str, asked: &CommandLine) -> Exit {
    let named = |wrong: String| format!("{path}: {wrong}");
    let text = crate::files::read_regular(Path::new(path), TARGETS_MAX)
        .map_err(|error| refuse(named(error.to_string())))?;
    let targets = targets::parse(&String::from_utf8_lossy(&text))
        .map_err(|wrong| refuse_all(wrong.into_iter().map(named).collect()))?;
    asked.show(&asked.summarise(targets::ask(&targets).await))
}

/// Shows the fleet whenever it changes, until a signal.
async fn watch(asked: &CommandLine) -> Exit {
    if asked.flags.output == "json" {
        return Err(refuse("--watch shows text: -o text or -o wide"));
    }
    let (api, _) = asked.connect().await?;
    let config = watcher::Config::default().labels(asked.selector());
    let config = config.page_size(WATCH_PAGE);
    let mut events = pin!(watcher(api.nodes.clone(), config).default_backoff());
    let mut stop = pin!(stop_signal().map_err(fail)?);
    let mut tick = tokio::time::interval(REDRAW.0);
    let mut watched = Watched::default();
    let mut drawn: Option<Fleet> = None;
    let terminal = io::stdout().is_terminal();
    loop {
        tokio::select! {
            () = &mut stop => return Ok(0),
            event = events.next() => match event {
                None => return Ok(0),
                Some(Ok(event)) => watched.take(event, |node| api.row(node)),
                Some(Err(error)) => {
                    let error = ApiError::of_watch("watch the nodes", &error);
                    if drawn.is_none() || error.is_final() {
                        return Err(fail(error));
                    }
                    complain(error);
                }
            },
            _ = tick.tick(), if watched.complete => {
                let fleet = asked.summarise(watched.nodes.values().cloned().collect());
                let old = drawn.as_ref().is_none_or(|drawn| {
                    let aged = fleet.time.duration_since(drawn.time).unsigned_abs() >= REDRAW.1;
                    drawn.counts != fleet.counts || terminal && aged
                });
                if !old && !watched.changed {
                    continue;
                }
                // Home, and clear; elsewhere an empty line.
                let before = match (terminal, &drawn) {
                    (true, _) => "\x1b[H\x1b[2J",
                    (false, Some(_)) => "\n",
                    (false, None) => "",
                };
                print(&format!("{before}{}", asked.encode(&fleet)))?;
                watched.changed = false;
                drawn = Some(fleet);
            }
        }
    }
}

/// One node's report.
async fn report(node: &str, asked: &CommandLine) -> Exit {
    let (api, namespace) = asked.connect().await?;
    let style = (asked.flags.output != "json").then(style);
    let answer = api.report(&namespace, node, style).await;
    print(&(clean_lines(answer.map_err(fail)?.trim_end()) + "\n"))
}

/// Writes the annotation by which the agent forgets.
async fn accept(node: &str, asked: &CommandLine) -> Exit {
    let (api, _) = asked.connect().await?;
    (api.accept(node, Timestamp::now()).await).map_err(fail)?;
    print(&format!(
        "{node}: accepted; its agent forgets the remembered best values, findings with other evidence stay\n"
    ))
}

/// Writes the annotation by which the agent mutes for a length of time, or without one unmutes.
async fn mute(node: &str, length: Option<&String>, what: &[String], asked: &CommandLine) -> Exit {
    let now = Timestamp::now();
    let targets = mute::targets(what.iter().map(String::as_str));
    let until = length.map(|length| mute::end(length, now)).transpose();
    let wrong = targets.as_ref().err().into_iter().flatten();
    let wrong: Vec<String> = wrong.chain(until.as_ref().err()).cloned().collect();
    let (Ok(targets), Ok(until)) = (targets, until) else {
        return Err(refuse_all(wrong));
    };
    // `unmute NODE` ends all.
    let targets = Some(targets).filter(|_| length.is_some() || !what.is_empty());
    let (api, _) = asked.connect().await?;
    let muted = api.mute(node, targets.as_ref(), until).await;
    let shown = |text| format!("muted until: {text}");
    let text = (muted.map_err(fail)?).map_or("nothing is muted".into(), shown);
    print(&format!("{node}: {text}\n"))
}
