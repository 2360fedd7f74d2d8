//! The job's own variables, by the launchers that set them: ranks, sizes and the master.

use crate::data_files::embedded;
use crate::observe::{ContainerFacts, Environment};
use serde::Deserialize;
use std::{net::IpAddr, sync::LazyLock};

/// Variables by launcher: `launchers.toml`.
#[derive(Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(super) struct Launchers {
    /// Rank and size in the job, rank and size on this node.
    pub processes: Vec<[&'static str; 4]>,
    /// Rank and number of nodes.
    pub nodes: Vec<[&'static str; 2]>,
}

pub(super) static LAUNCHERS: LazyLock<Launchers> =
    LazyLock::new(|| embedded(include_str!("launchers.toml")));

/// Rank within a Kubernetes Job, used if nothing else is set: in a set of Jobs each counts its own.
const COMPLETION: &str = "JOB_COMPLETION_INDEX";

/// A number; for torchrun's `2:8` (an elastic job) the larger.
pub(super) fn number(environment: &Environment, name: &str) -> Option<u64> {
    let value = environment.get(name)?;
    let is_range = ["NNODES", "PET_NNODES"].contains(&name);
    let parse = |text: &str| text.trim().parse::<u64>().ok();
    match value.split_once(':').filter(|_| is_range) {
        Some((least, most)) => {
            let least = parse(least)?;
            parse(most).filter(|most| least <= *most)
        }
        None => parse(value),
    }
}

/// Whether the job spans nodes, with the evidence; `None` if nothing shows it.
pub(super) fn spans_nodes(facts: &ContainerFacts, gpus: Option<u32>) -> Option<(bool, String)> {
    let environment = &facts.environment;
    for [_, name] in &LAUNCHERS.nodes {
        if let Some(count @ 1..) = number(environment, name) {
            return Some((count > 1, format!("{name}={count}")));
        }
    }
    for [_, size, _, local_size] in &LAUNCHERS.processes {
        let Some(all) = number(environment, size) else {
            continue;
        };
        if let Some(local @ 1..) = number(environment, local_size) {
            return Some((all > local, format!("{size}={all}, {local_size}={local}")));
        }
        // A single process is on one node; more processes than GPUs are on several.
        match gpus {
            _ if all == 1 => return Some((false, format!("{size}=1"))),
            Some(gpus @ 1..) if all > u64::from(gpus) => {
                return Some((true, format!("{size}={all}, {gpus} GPUs here")));
            }
            _ => {}
        }
    }
    let master = facts.master.addresses.value()?;
    let (name, _) = master_name(environment)?;
    let elsewhere = !master.is_empty() && !is_own(facts, master)?;
    elsewhere.then(|| (true, format!("{name} is another machine")))
}

/// Whether one of the addresses belongs to this network namespace; `None` if its interfaces are
/// unknown.
pub(super) fn is_own(facts: &ContainerFacts, addresses: &[IpAddr]) -> Option<bool> {
    let interfaces = facts.interfaces.value()?;
    Some(addresses.iter().any(|address| {
        address.is_loopback() || interfaces.iter().any(|i| i.addresses.contains(address))
    }))
}

/// A variable that is set, and its value.
pub(super) type Set<'a> = (&'static str, &'a str);

fn first_set<'a>(environment: &'a Environment, names: &[&'static str]) -> Option<Set<'a>> {
    (names.iter()).find_map(|name| Some((*name, environment.get(name)?)))
}

/// The variable that names the master, and its value.
pub(super) fn master_name(environment: &Environment) -> Option<Set<'_>> {
    let names = ["MASTER_ADDR", "PET_MASTER_ADDR", "LWS_LEADER_ADDRESS"];
    first_set(environment, &names).filter(|(_, value)| !value.is_empty())
}

/// The variable that sets the master's port, and its value.
pub(super) fn master_port(environment: &Environment) -> Option<Set<'_>> {
    first_set(environment, &["MASTER_PORT", "PET_MASTER_PORT"])
}

/// A port that can be connected to.
pub(super) fn parse_port(text: &str) -> Option<u16> {
    text.trim().parse().ok().filter(|port| *port != 0)
}

/// The variable that shows that this process is the master, rank 0. A process' rank takes precedence
/// over its node's.
pub(super) fn master_rank(environment: &Environment) -> Option<&'static str> {
    let processes = LAUNCHERS.processes.iter().map(|names| names[0]);
    let nodes = LAUNCHERS.nodes.iter().map(|names| names[0]);
    let name = (processes.chain(nodes).chain([COMPLETION]))
        .find(|name| environment.get(name).is_some())?;
    (number(environment, name) == Some(0)).then_some(name)
}

/// Whether the master runs on this node: the node's rank is 0, or a process has the same rank in the
/// job as on its node.
pub(super) fn is_on_masters_node(environment: &Environment) -> bool {
    let is_first = |[rank, _]: &[&str; 2]| number(environment, rank) == Some(0);
    let is_same = |[rank, _, local, _]: &[&str; 4]| {
        let rank = number(environment, rank);
        rank.is_some() && rank == number(environment, local)
    };
    master_rank(environment).is_some()
        || LAUNCHERS.nodes.iter().any(is_first)
        || LAUNCHERS.processes.iter().any(is_same)
}

/// The master's name and the port to connect to. The port is `None` if it is unset or invalid, or if
/// this is the master, which listens itself.
pub(crate) fn master_to_ask(environment: &Environment) -> Option<(&str, Option<u16>)> {
    let (_, name) = master_name(environment)?;
    let port = master_port(environment).and_then(|(_, port)| parse_port(port));
    Some((name, port.filter(|_| master_rank(environment).is_none())))
}

#[cfg(test)]
mod tests;
