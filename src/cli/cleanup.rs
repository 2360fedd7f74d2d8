//! `selvage cleanup`: removes everything of ours from one node or all of them.

use super::complain;
use super::run::{USAGE, fail, print_out};
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

/// Cleans the nodes that the command line names; gives the exit status.
pub fn run(config: &Config, matches: &ArgMatches) -> u8 {
    let one = match matches.get_one::<String>("node") {
        Some(node) => Some(node.as_str()),
        None if matches.get_flag("all") => None,
        None if config.agent.node_name.is_empty() => {
            complain("no node given: use --node NAME, --node-name NAME or --all");
            return USAGE;
        }
        None => Some(config.agent.node_name.as_str()),
    };
    let settings = &config.cluster;
    let dry = settings.dry_run;
    let done = on_runtime(async {
        let limits = Limits::default();
        let (client, namespace) = api::connect(settings, &limits)
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
    match done.flatten() {
        Ok((nodes, leases)) => {
            let word = if dry { "would be cleaned" } else { "cleaned" };
            print_out(&format!("{nodes} nodes and {leases} leases {word}\n"))
        }
        Err(error) => fail(error),
    }
}
