//! `selvage fleet`, which is also `kubectl selvage`: the nodes of a cluster by verdict, reason and cause.

use super::complain;
use super::run::{Status, fail, init_log, output_form, print, refuse, refuse_all, style};
use super::runtime::{on_runtime, stop_signal};
use crate::cluster::api::connect;
use crate::cluster::error::ApiError;
use crate::cluster::{ClusterSettings, Limits};
use crate::config;
use crate::fleet::api::FleetApi;
use crate::fleet::watched::Watched;
use crate::fleet::{Fleet, FleetNode, mute, summarise, targets, text};
use crate::report::text::{Style, clean_lines};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use futures::StreamExt;
use jiff::Timestamp;
use kube::runtime::{WatchStreamExt, watcher};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

/// The name by which kubectl finds a plug-in `kubectl selvage`.
pub const PLUGIN: &str = "kubectl-selvage";

/// Nodes a page of the list that a watch begins with: it is not tried again in halves.
const WATCH_PAGE: u32 = 100;
/// A screen is drawn this often at most, and, for the ages on it, this often at least.
const REDRAW: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

fn named(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about)
}

/// The arguments of `selvage fleet`.
pub fn command() -> Command {
    let hidden = |arg: Arg| arg.global(true).hide_short_help(true);
    let settings = config::add_file_args(Command::new("fleet"));
    settings
        .mut_arg("config", hidden)
        .mut_arg("set", hidden)
        .next_help_heading(None::<&str>)
        .about("The nodes of a cluster by verdict, reason and cause; as a plug-in, kubectl selvage")
        .after_help(
            "Exit status: 0, 1 when a node is unready, 70 when the API server cannot be asked",
        )
        .disable_help_subcommand(true)
        .args(options())
        .subcommands(subcommands())
}

/// What every screen takes; two are of the list alone.
fn options() -> [Arg; 8] {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).value_name(value);
        arg.global(true).help(help)
    };
    let form = option("output", "FORM", "Output format").short('o');
    let watch = Arg::new("watch").short('w').long("watch");
    let namespace = "Namespace of the agents' pods [default: selvage]";
    let prefix = "Prefix of labels, taint and annotations (setting cluster.prefix)";
    let targets = Arg::new("targets").long("targets").value_name("FILE");
    [
        form.value_parser(["text", "wide", "json"])
            .default_value("text"),
        watch
            .action(ArgAction::SetTrue)
            .help("Show it again whenever it changes"),
        option("selector", "SELECTOR", "Only nodes with these labels").short('l'),
        option("kubeconfig", "FILE", "Kubeconfig; else as kubectl finds it"),
        option("context", "NAME", "Context of the kubeconfig"),
        option("namespace", "NAME", namespace).short('n'),
        targets
            .conflicts_with_all(["selector", "watch"])
            .help("Without Kubernetes: agents to ask, one host[:port] a line"),
        option("prefix", "PREFIX", prefix),
    ]
}

fn subcommands() -> [Command; 4] {
    let node = || Arg::new("node").value_name("NODE").required(true);
    let what = Arg::new("what")
        .value_name("WHAT")
        .action(ArgAction::Append)
        .help("Checks (link_flap), reasons (LinkDown) or taint");
    let length = Arg::new("length")
        .value_name("LENGTH")
        .required(true)
        .help("For how long: 30m, 4h, 2d");
    let report = "One node's report, asked of its agent by way of the API server";
    let mute = "Mute checks, or else the taint, on a node for a time";
    let unmute = "End mutes on a node; all of them where none is named";
    let accept = "This machine as it is now is right: forget what it was at its best";
    [
        named("node", report).arg(node()),
        named("mute", mute).args([node(), length, what.clone()]),
        named("unmute", unmute).args([node(), what]),
        named("accept", accept).arg(node()),
    ]
}

/// What the command line says, apart from the subcommand's own arguments.
struct CommandLine<'a> {
    settings: ClusterSettings,
    matches: &'a ArgMatches,
    form: &'a str,
    style: Style,
}

impl<'a> CommandLine<'a> {
    /// With the flags that stand for settings, or what is wrong with the settings then.
    fn with_flags(mut self) -> Result<Self, Vec<String>> {
        for (flag, setting) in [
            ("kubeconfig", &mut self.settings.kubeconfig),
            ("namespace", &mut self.settings.namespace),
            ("prefix", &mut self.settings.prefix),
        ] {
            if let Some(text) = self.matches.get_one::<String>(flag) {
                setting.clone_from(text);
            }
        }
        let wrong = self.settings.complaints().into_iter();
        let wrong: Vec<String> = wrong.map(|(key, what)| format!("{key}: {what}")).collect();
        wrong.is_empty().then_some(self).ok_or(wrong)
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.matches.get_one::<String>(name).map(String::as_str)
    }

    async fn connect(&self) -> Result<(FleetApi, String), u8> {
        let limits = Limits::default();
        let connected = connect(&self.settings, &limits, self.text("context")).await;
        let (client, namespace) = connected.map_err(fail)?;
        Ok((FleetApi::new(client, &self.settings, limits), namespace))
    }

    /// The nodes together. A part of them, or none read from the API server, says nothing of a group's budget.
    fn summarise(&self, nodes: Vec<FleetNode>) -> Fleet {
        let mut fleet = summarise(nodes, &self.settings, Timestamp::now());
        let whole = self.text("selector").is_none() && self.text("targets").is_none();
        fleet.budget = fleet.budget.filter(|_| whole);
        fleet
    }

    /// Prints it; gives the exit status.
    fn show(&self, fleet: &Fleet) -> Status {
        print(&self.encode(fleet))?;
        Ok(u8::from(fleet.has_unready()))
    }

    fn encode(&self, fleet: &Fleet) -> String {
        match self.form {
            // Nothing in it can fail to serialise.
            "json" => serde_json::to_string_pretty(fleet).unwrap_or_default() + "\n",
            form => text::encode(fleet, self.style, form == "wide"),
        }
    }
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Status {
    let (name, below) = matches.subcommand().unwrap_or(("", matches));
    let loaded = config::load(below, |_| None).map_err(refuse_all)?;
    init_log(&loaded.config, true);
    let is_given = |id| {
        let arguments = if id == "selector" { below } else { matches };
        arguments.value_source(id) == Some(ValueSource::CommandLine)
    };
    let mut useless = ["targets", "watch", "selector"].into_iter();
    if let Some(id) = useless.find(|id| !name.is_empty() && is_given(id)) {
        return Err(refuse(format_args!(
            "--{id} has no effect on `fleet {name}`"
        )));
    }
    let asked = CommandLine {
        settings: loaded.config.cluster,
        matches: below,
        form: output_form(below),
        style: match io::stdout().is_terminal() {
            true => style(),
            // A file or a pipe has no width.
            false => Style {
                width: usize::MAX,
                ..style()
            },
        },
    };
    let asked = asked.with_flags().map_err(refuse_all)?;
    let done = on_runtime(async {
        match name {
            "" if matches.contains_id("targets") => targets(&asked).await,
            "" if matches.get_flag("watch") => watch(&asked).await,
            "" => list(&asked).await,
            "node" => node(&asked).await,
            name => annotate(name, &asked).await,
        }
    });
    done.map_err(fail)?
}

async fn list(asked: &CommandLine<'_>) -> Status {
    let (api, _) = asked.connect().await?;
    let nodes = api.list(asked.text("selector").unwrap_or_default()).await;
    asked.show(&asked.summarise(nodes.map_err(fail)?))
}

/// Longest list of agents, in bytes.
const TARGETS_MAX: u64 = 4 << 20;

/// Shows the agents at the addresses in a file.
async fn targets(asked: &CommandLine<'_>) -> Status {
    let path = asked.text("targets").unwrap_or_default();
    let named = |wrong: String| format!("{path}: {wrong}");
    let text = crate::files::read_regular(Path::new(path), TARGETS_MAX)
        .map_err(|error| refuse(named(error.to_string())))?;
    let targets = targets::parse(&String::from_utf8_lossy(&text))
        .map_err(|wrong| refuse_all(wrong.into_iter().map(named).collect()))?;
    asked.show(&asked.summarise(targets::ask(&targets).await))
}

/// Shows the fleet whenever it changes, until a signal.
async fn watch(asked: &CommandLine<'_>) -> Status {
    if asked.form == "json" {
        return Err(refuse("--watch shows text: -o text or -o wide"));
    }
    let (api, _) = asked.connect().await?;
    let selector = asked.text("selector").unwrap_or_default();
    let config = watcher::Config::default()
        .labels(selector)
        .page_size(WATCH_PAGE);
    let mut events = pin!(watcher(api.nodes(), config).default_backoff());
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
async fn node(asked: &CommandLine<'_>) -> Status {
    let (api, namespace) = asked.connect().await?;
    let node = asked.text("node").unwrap_or_default();
    let style = (asked.form != "json").then(style);
    let answer = api.report(&namespace, node, style).await;
    print(&(clean_lines(answer.map_err(fail)?.trim_end()) + "\n"))
}

/// Writes an annotation that the agent reads.
async fn annotate(name: &str, asked: &CommandLine<'_>) -> Status {
    let node = asked.text("node").unwrap_or_default();
    let now = Timestamp::now();
    if name == "accept" {
        let (api, _) = asked.connect().await?;
        api.accept(node, now).await.map_err(fail)?;
        return print(&format!(
            "{node}: accepted; its agent forgets what the machine was at its best, faults that are seen now stay\n"
        ));
    }
    let words = asked.matches.get_many::<String>("what");
    let words: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
    let (targets, mut complaints) = match mute::targets(words.iter().copied()) {
        // `unmute NODE` ends all.
        Ok(_) if name == "unmute" && words.is_empty() => (None, Vec::new()),
        Ok(targets) => (Some(targets), Vec::new()),
        Err(wrong) => (None, wrong),
    };
    let length = (name != "unmute").then(|| asked.text("length").unwrap_or_default());
    let until = length.and_then(|length| {
        let end = mute::end(length, now);
        end.map_err(|wrong| complaints.push(wrong)).ok()
    });
    if !complaints.is_empty() {
        return Err(refuse_all(complaints));
    }
    let (api, _) = asked.connect().await?;
    let muted = api.mute(node, targets.as_ref(), until).await;
    let text = match muted.map_err(fail)? {
        Some(text) => format!("muted until: {text}"),
        None => "nothing is muted".into(),
    };
    print(&format!("{node}: {text}\n"))
}
