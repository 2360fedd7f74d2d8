//! `selvage cleanup`: removes everything of ours from one node or all of them.

use super::{Exit, fail, on_runtime, print, refuse};
use crate::cluster::{NodeApi, RateLimits, cleanup};
use crate::config::Config;
use clap::Args;
use std::io::{self, Write};

#[derive(Debug, Args)]
pub(super) struct CleanupTarget {
    /// All nodes, and the budget's Leases
    #[arg(long)]
    all: bool,
    /// This node only [default: the node that this runs on]
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    node: Option<String>,
}

/// Cleans the nodes that the command line names.
pub(super) fn run(config: &Config, which: &CleanupTarget) -> Exit {
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
        let api = NodeApi::connect(settings, "", RateLimits::default()).await;
        let api = api.map_err(io::Error::other)?;
        let say = |what: &str, parts: &[&str]| {
            let word = if dry { "would remove" } else { "removed" };
            let _ = writeln!(io::stdout(), "{what}: {word} {}", parts.join(", "));
        };
        (cleanup::clean(&api, settings, one, dry, say).await).map_err(io::Error::other)
    });
    let (nodes, leases) = done.flatten().map_err(fail)?;
    let word = if dry { "would be cleaned" } else { "cleaned" };
    print(&format!("{word}: nodes {nodes}, Leases {leases}\n"))
}
