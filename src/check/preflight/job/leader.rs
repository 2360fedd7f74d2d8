//! The job's master: who it is, and what came of asking for it.

use super::whole;
use crate::check::preflight::scene::Scene;
use crate::check::preflight::{Item, ItemStatus};
use crate::observe::container::{Connection, ContainerFacts, Environment};
use crate::observe::reading::{FaultKind, Reading};
use std::net::IpAddr;

/// Ranks of processes, of which 0 is the master.
const PROCESS_RANKS: &[&str] = &["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

/// Ranks of machines, on the first of which the master runs.
const MACHINE_RANKS: &[&str] = &[
    "PET_NODE_RANK",
    "NODE_RANK",
    "GROUP_RANK",
    "SLURM_NODEID",
    "LWS_WORKER_INDEX",
];

/// The same, where nothing else tells: of several Jobs each counts its own.
const COMPLETION: &str = "JOB_COMPLETION_INDEX";

/// Whether an address is this network namespace's own; none where interfaces are not known.
pub(super) fn is_own(facts: &ContainerFacts, addresses: &[IpAddr]) -> Option<bool> {
    let interfaces = facts.interfaces.value()?;
    Some(addresses.iter().any(|address| {
        address.is_loopback() || interfaces.iter().any(|i| i.addresses.contains(address))
    }))
}

/// The variable that names the master, and its value.
pub(super) fn master_name(environment: &Environment) -> Option<(&'static str, &str)> {
    ["MASTER_ADDR", "PET_MASTER_ADDR", "LWS_LEADER_ADDRESS"]
        .into_iter()
        .find_map(|name| Some((name, environment.get(name)?)))
        .filter(|(_, value)| !value.is_empty())
}

/// The variable that names its port, and its value.
fn master_port(environment: &Environment) -> Option<(&'static str, &str)> {
    ["MASTER_PORT", "PET_MASTER_PORT"]
        .into_iter()
        .find_map(|name| Some((name, environment.get(name)?)))
}

/// The variable that says that this is the master, rank 0: a process' own rank counts before its
/// machine's.
fn is_master(environment: &Environment) -> Option<&'static str> {
    let name = PROCESS_RANKS
        .iter()
        .chain(MACHINE_RANKS)
        .chain([&COMPLETION])
        .copied()
        .find(|name| environment.get(name).is_some())?;
    (whole(environment, name) == Some(0)).then_some(name)
}

/// Whether this is the machine on which the master runs: machines' ranks say so, or a rank among
/// all processes that is the one among this machine's.
fn is_masters_machine(environment: &Environment) -> bool {
    let first = |name: &&str| whole(environment, name) == Some(0);
    let same = [
        ("RANK", "LOCAL_RANK"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("PMI_RANK", "MPI_LOCALRANKID"),
        ("SLURM_PROCID", "SLURM_LOCALID"),
    ];
    let is_first = |(rank, local): &(&str, &str)| {
        whole(environment, rank).is_some_and(|rank| Some(rank) == whole(environment, local))
    };
    is_master(environment).is_some() || MACHINE_RANKS.iter().any(first) || same.iter().any(is_first)
}

/// What to ask of the master: its name and the port to connect to, none where nothing is to be
/// connected to: rank 0 is the one who will listen.
pub fn master_to_ask(environment: &Environment) -> Option<(&str, Option<u16>)> {
    let (_, name) = master_name(environment)?;
    let port = master_port(environment).and_then(|(_, port)| port.trim().parse().ok());
    let port = port.filter(|port| *port != 0 && is_master(environment).is_none());
    Some((name, port))
}

/// The master's name and port.
pub(in crate::check::preflight) fn master(scene: &Scene<'_>) -> Item {
    const ID: &str = "master";
    let environment = &scene.facts.environment;
    let Some((name, value)) = master_name(environment) else {
        let why = match (master_port(environment), &scene.nodes) {
            (Some((port, _)), _) => Some(format!("{port} is set")),
            (None, Some((true, why))) => Some(format!("the job is of several nodes ({why})")),
            _ => None,
        };
        let is_empty = environment.get("MASTER_ADDR").is_some();
        return match why.filter(|_| is_empty) {
            Some(why) => Item::failing(
                ID,
                "MasterUnset",
                format!("MASTER_ADDR is empty, and {why}"),
            )
            .fix("env MASTER_ADDR: the name of rank 0's pod"),
            None => Item::skipped(ID, "MASTER_ADDR is not set"),
        };
    };
    let port = master_port(environment);
    if let Some((variable, port)) = port
        && port
            .trim()
            .parse::<u16>()
            .ok()
            .filter(|port| *port != 0)
            .is_none()
    {
        return Item::failing(ID, "MasterPort", format!("{variable}={port:?} is no port"))
            .fix(format!("env {variable}: a number from 1 to 65535"));
    }
    let told = match port {
        Some((_, port)) => format!("{value}:{port}"),
        None => value.to_string(),
    };
    let facts = &scene.facts.master;
    let addresses = match &facts.addresses {
        Reading::Value(addresses) => addresses,
        Reading::Failed(fault) => {
            let why = match fault.kind {
                FaultKind::Stalled => "the resolver does not answer".to_string(),
                _ => fault.detail.clone(),
            };
            return Item::degraded(
                ID,
                "MasterUnresolvable",
                format!("{name}={value} does not resolve: {why}; it may yet, where rank 0's pod is still on its way: torch asks again for minutes"),
            )
            .fix(format!(
                "env {name}: a name of this namespace. A headless Service gives a pod its name once it is ready, or at once with `publishNotReadyAddresses: true`; --timeout waits longer"
            ));
        }
        Reading::NotObservable => {
            return Item::unknown(
                ID,
                "MasterUnresolvable",
                format!("no thread could be started to resolve {name}={value}"),
            );
        }
        Reading::Absent => {
            return Item::skipped(ID, "a directory tree was looked at: nothing was asked");
        }
    };
    let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let own = is_own(scene.facts, addresses);
    let evidence = shown.clone();
    let shown = shown.join(", ");
    let loopback = addresses.iter().all(IpAddr::is_loopback);
    // On rank 0's own machine its name may well stand for itself, as /etc/hosts has it, and torch
    // listens at all addresses.
    let item = if loopback && scene.is_many_nodes() && !is_masters_machine(environment) {
        Item::failing(
            ID,
            "MasterIsLoopback",
            format!(
                "{name}={value} is {shown}, this container itself, and the job is of several nodes"
            ),
        )
        .fix(format!("env {name}: the name of rank 0's pod"))
    } else if let Some(rank) = is_master(environment) {
        let whose = match own {
            // A Service's address is nobody's own.
            Some(false) => "; the address is not this container's, so it has to be a Service's",
            _ => "",
        };
        Item::ok(
            ID,
            format!(
                "{rank}=0: this is the master, which listens at {told} itself ({shown}{whose})"
            ),
        )
    } else {
        match &facts.connection {
            Connection::Connected => Item::ok(ID, format!("{told} ({shown}) is listening")),
            Connection::NotTried => Item::ok(
                ID,
                format!("{value} resolves to {shown}; no port is told to connect to"),
            ),
            // Who answers so is reached, or is a Service without a pod behind it.
            Connection::Refused => Item::new(
                ID,
                ItemStatus::Skipped,
                Some("MasterNotListening"),
                format!("{told} ({shown}) answers, and nothing listens there yet: rank 0 may not have started"),
            ),
            Connection::TimedOut => Item::degraded(
                ID,
                "MasterSilent",
                format!("{told} ({shown}) does not answer: rank 0's pod is not up, or a NetworkPolicy drops the packets"),
            )
            .fix("a NetworkPolicy that lets the job's pods talk to each other on all ports; --timeout waits longer"),
            Connection::Failed(why) => {
                Item::degraded(ID, "MasterUnreachable", format!("{name}={value}: {why}"))
                    .fix("the pod's routes; NetworkPolicies")
            }
        }
    };
    item.with("addresses", evidence)
}
