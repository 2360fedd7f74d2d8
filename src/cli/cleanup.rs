//! `selvage cleanup`: removes everything of ours from one node or all of them.

use super::run::{Status, fail, print, refuse};
use super::runtime::on_runtime;
use crate::cluster::Limits;
use crate::cluster::api::NodeApi;
use crate::cluster::cleanup::clean;
use crate::config::{self, Config};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::io::{self, Write};

#[derive(Debug, Args)]
struct Which {
    /// All nodes, and the budget's Leases
    #[arg(long)]
    all: bool,
    /// One node; without --all and --node, this one
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    node: Option<String>,
}

/// The arguments of `selvage cleanup`.
pub fn command() -> Command {
    config::add_agent_args(Which::augment_args(Command::new("cleanup")).about(
        "Remove our labels, taint and condition from a node, or from all, before an uninstall",
    ))
}

/// Cleans the nodes that the command line names.
pub fn run(config: &Config, matches: &ArgMatches) -> Status {
    let which = Which::from_arg_matches(matches).map_err(refuse)?;
    let own = Some(&config.agent.node_name).filter(|name| !name.is_empty());
    let one = which.node.as_ref().or(own).filter(|_| !which.all);
    if one.is_none() && !which.all {
        return Err(refuse(
            "no node given: use --node NAME, --node-name NAME or --all",
        ));
    }
    let one = one.map(String::as_str);
    let settings = &config.cluster;
    let dry = settings.dry_run;
    let done = on_runtime(async {
        let api = NodeApi::connect(settings, "", Limits::default()).await;
        let api = api.map_err(io::Error::other)?;
        let say = |what: &str, parts: &[&str]| {
            let word = if dry { "would remove" } else { "removed" };
            let _ = writeln!(io::stdout(), "{what}: {word} {}", parts.join(", "));
        };
        let cleaned = clean(&api, settings, one, dry, say).await;
        cleaned.map_err(io::Error::other)
    });
    let (nodes, leases) = done.flatten().map_err(fail)?;
    let word = if dry { "would be cleaned" } else { "cleaned" };
    print(&format!("{nodes} nodes and {leases} leases {word}\n"))
}
