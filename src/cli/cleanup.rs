//! `selvage cleanup`: removes everything of ours from one node or all of them.

use super::run::{Status, fail, print, refuse};
use super::runtime::on_runtime;
use crate::cluster::Limits;
use crate::cluster::api::{self, NodeApi};
use crate::cluster::cleanup::clean;
use crate::cluster::names::Names;
use crate::config::{self, Config};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::io::{self, Write};

/// The arguments of `selvage cleanup`.
pub fn command() -> Command {
    config::add_agent_args(
        Command::new("cleanup")
            .about("Remove our labels, taint and condition from a node, or from all, before an uninstall")
            .arg(
                Arg::new("all")
                    .long("all")
                    .action(ArgAction::SetTrue)
                    .help("All nodes, and the budget's Leases"),
            )
            .arg(
                Arg::new("node")
                    .long("node")
                    .value_name("NAME")
                    .conflicts_with("all")
                    .help("One node; without --all and --node, this one"),
            ),
    )
}

/// Cleans the nodes that the command line names.
pub fn run(config: &Config, matches: &ArgMatches) -> Status {
    let one = match matches.get_one::<String>("node") {
        Some(node) => Some(node.as_str()),
        None if matches.get_flag("all") => None,
        None if config.agent.node_name.is_empty() => {
            return Err(refuse(
                "no node given: use --node NAME, --node-name NAME or --all",
            ));
        }
        None => Some(config.agent.node_name.as_str()),
    };
    let settings = &config.cluster;
    let dry = settings.dry_run;
    let done = on_runtime(async {
        let limits = Limits::default();
        let (client, namespace) = api::connect(settings, &limits, None)
            .await
            .map_err(io::Error::other)?;
        let names = Names::new(settings);
        let api = NodeApi::new(client, &namespace, "", &names, limits);
        let say = |what: &str, parts: &[&str]| {
            let word = if dry { "would remove" } else { "removed" };
            let _ = writeln!(io::stdout(), "{what}: {word} {}", parts.join(", "));
        };
        let cleaned = clean(&api, &names, one, dry, say).await;
        cleaned.map_err(io::Error::other)
    });
    let (nodes, leases) = done.flatten().map_err(fail)?;
    let word = if dry { "would be cleaned" } else { "cleaned" };
    print(&format!("{nodes} nodes and {leases} leases {word}\n"))
}
