//! `selvage cleanup`: takes all that is ours off one node or all of them.

use super::complain;
use super::run::{FAILED, USAGE};
use super::runtime::on_runtime;
use crate::cluster::api;
use crate::cluster::cleanup::{Which, clean};
use crate::cluster::names::Names;
use crate::config::{self, Config};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::io::Write;

/// The command line.
pub fn command() -> Command {
    config::add_agent_args(
        Command::new("cleanup")
            .about("Remove our labels, taint and condition from a node, or from all; for leaving")
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

/// The kubeconfig that kubectl would take.
fn own_kubeconfig() -> Option<String> {
    let first = |list: String| list.split(':').find(|p| !p.is_empty()).map(str::to_string);
    let named = std::env::var("KUBECONFIG").ok().and_then(first);
    named.or_else(|| {
        let path = std::path::Path::new(&std::env::var_os("HOME")?).join(".kube/config");
        path.is_file().then(|| path.to_str().map(str::to_string))?
    })
}

/// Runs it; gives the exit status.
pub fn run(config: &Config, matches: &ArgMatches) -> u8 {
    let which = match matches.get_one::<String>("node") {
        Some(node) => Which::One(node.clone()),
        None if matches.get_flag("all") => Which::All,
        None if config.agent.node_name.is_empty() => {
            complain("which node? --node NAME, --node-name NAME or --all");
            return USAGE;
        }
        None => Which::One(config.agent.node_name.clone()),
    };
    let mut settings = config.cluster.clone();
    if settings.kubeconfig.is_empty() && !api::is_in_cluster(&settings) {
        // By hand, from where kubectl works.
        settings.kubeconfig = own_kubeconfig().unwrap_or_default();
    }
    let settings = &settings;
    let dry = settings.dry_run;
    let done = on_runtime(async {
        let (client, namespace) = api::connect(settings).await.map_err(|e| e.to_string())?;
        let names = Names::new(settings);
        let say = |what: &str, parts: &[&str]| {
            let word = if dry { "would remove" } else { "removed" };
            let _ = writeln!(std::io::stdout(), "{what}: {word} {}", parts.join(", "));
        };
        clean(client, &namespace, &names, &which, dry, say)
            .await
            .map_err(|e| e.to_string())
    });
    match done {
        Ok(Ok((nodes, leases))) => {
            let word = if dry { "would be cleaned" } else { "cleaned" };
            let _ = writeln!(
                std::io::stdout(),
                "{nodes} nodes and {leases} leases {word}"
            );
            0
        }
        Ok(Err(error)) => {
            complain(error);
            FAILED
        }
        Err(error) => {
            complain(error);
            FAILED
        }
    }
}
