//! The job's own variables: ranks, sizes, and its master.

use super::scene::Scene;
use super::{Item, ItemStatus};
use crate::observe::container::{Connection, ContainerFacts, Environment};
use crate::observe::reading::{FaultKind, Reading};
use std::net::IpAddr;

/// A rank and the size that it has to be below, by who sets them.
const PAIRS: &[(&str, &str)] = &[
    ("RANK", "WORLD_SIZE"),
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("NODE_RANK", "NNODES"),
    ("PET_NODE_RANK", "PET_NNODES"),
    ("GROUP_RANK", "GROUP_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("SLURM_NODEID", "SLURM_NNODES"),
    ("LWS_WORKER_INDEX", "LWS_GROUP_SIZE"),
];

/// A part that cannot be larger than its whole.
const PARTS: &[(&str, &str)] = &[
    ("LOCAL_WORLD_SIZE", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"),
    ("MPI_LOCALNRANKS", "PMI_SIZE"),
];

/// Ranks of one machine's processes, each with a GPU of its own.
const LOCAL_RANKS: &[&str] = &[
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "SLURM_LOCALID",
];

/// Processes of this machine, each with a GPU of its own. torchrun takes words, too.
const LOCAL_COUNTS: &[&str] = &["LOCAL_WORLD_SIZE", "PET_NPROC_PER_NODE"];

/// What torchrun takes for a number of processes.
const NPROC_WORDS: &[&str] = &["auto", "cpu", "gpu", "xpu"];

/// Numbers that an elastic job gives as least and most: `2:8`.
const RANGES: &[&str] = &["NNODES", "PET_NNODES"];

/// Numbers of machines, by who sets them.
const NODE_COUNTS: &[&str] = &[
    "PET_NNODES",
    "NNODES",
    "GROUP_WORLD_SIZE",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NNODES",
    "LWS_GROUP_SIZE",
];

/// All processes, and those of this machine.
const PROCESS_COUNTS: &[(&str, &str)] = &[
    ("WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_SIZE", "MPI_LOCALNRANKS"),
];

/// Ranks of which 0 is the master: of the process, else of the machine.
const MASTER_RANKS: &[&str] = &[
    "RANK",
    "PET_NODE_RANK",
    "NODE_RANK",
    "GROUP_RANK",
    "SLURM_PROCID",
    "LWS_WORKER_INDEX",
    "JOB_COMPLETION_INDEX",
];

/// A number; of a range the most.
fn whole(environment: &Environment, name: &str) -> Option<u64> {
    number(name, environment.get(name)?)
}

fn number(name: &str, value: &str) -> Option<u64> {
    match value.split_once(':').filter(|_| RANGES.contains(&name)) {
        Some((least, most)) => {
            let least: u64 = least.trim().parse().ok()?;
            let most: u64 = most.trim().parse().ok()?;
            (least <= most).then_some(most)
        }
        None => value.trim().parse().ok(),
    }
}

/// Whether the job spans machines, and what says so; none where nothing does.
pub(super) fn spans_nodes(facts: &ContainerFacts, gpus: Option<u32>) -> Option<(bool, String)> {
    let environment = &facts.environment;
    for name in NODE_COUNTS {
        // An elastic job's `1:4` is at most 4.
        let count = whole(environment, name);
        if let Some(count) = count.filter(|count| *count > 0) {
            return Some((count > 1, format!("{name}={count}")));
        }
    }
    for (all, local) in PROCESS_COUNTS {
        let (all_count, local_count) = (whole(environment, all), whole(environment, local));
        if let (Some(a), Some(l)) = (all_count, local_count)
            && l > 0
        {
            return Some((a > l, format!("{all}={a}, {local}={l}")));
        }
        // Of processes alone: one is one machine, more than GPUs are several.
        match (all_count, gpus) {
            (Some(1), _) => return Some((false, format!("{all}=1"))),
            (Some(a), Some(gpus)) if gpus > 0 && a > u64::from(gpus) => {
                return Some((true, format!("{all}={a}, {gpus} GPUs here")));
            }
            _ => {}
        }
    }
    // A master elsewhere is another machine, if it can be told.
    let master = facts.master.addresses.value()?;
    let (name, _) = master_name(environment)?;
    (!master.is_empty() && !is_own(facts, master)?)
        .then(|| (true, format!("{name} is another machine")))
}

/// Whether an address is this network namespace's own; none where interfaces are not known.
fn is_own(facts: &ContainerFacts, addresses: &[IpAddr]) -> Option<bool> {
    let interfaces = facts.interfaces.value()?;
    Some(addresses.iter().any(|address| {
        address.is_loopback() || interfaces.iter().any(|i| i.addresses.contains(address))
    }))
}

/// The variable that names the master, and its value.
fn master_name(environment: &Environment) -> Option<(&'static str, &str)> {
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

/// The variable that says that this is the master, rank 0.
fn is_master(environment: &Environment) -> Option<&'static str> {
    let name = MASTER_RANKS
        .iter()
        .copied()
        .find(|name| environment.get(name).is_some())?;
    (whole(environment, name) == Some(0)).then_some(name)
}

/// What to ask of the master: its name and the port to connect to, none where nothing is to be
/// connected to: rank 0 is the one who will listen.
pub fn master_to_ask(environment: &Environment) -> Option<(&str, Option<u16>)> {
    let (_, name) = master_name(environment)?;
    let port = master_port(environment).and_then(|(_, port)| port.trim().parse().ok());
    let port = port.filter(|port| *port != 0 && is_master(environment).is_none());
    Some((name, port))
}

/// Ranks and sizes.
pub(super) fn ranks(scene: &Scene<'_>) -> Item {
    const ID: &str = "ranks";
    let environment = &scene.facts.environment;
    let known = PAIRS
        .iter()
        .flat_map(|(rank, size)| [*rank, *size])
        .chain(LOCAL_RANKS.iter().copied())
        .chain(["SLURM_JOB_NUM_NODES", "PET_NPROC_PER_NODE"]);
    let mut set: Vec<&str> = known
        .filter(|name| environment.get(name).is_some())
        .collect();
    set.sort_unstable();
    set.dedup();
    if set.is_empty() {
        return Item::skipped(ID, "no variable tells a rank");
    }
    for name in &set {
        let value = environment.get(name).unwrap_or_default();
        let is_word = *name == "PET_NPROC_PER_NODE" && NPROC_WORDS.contains(&value.trim());
        if !is_word && number(name, value).is_none() {
            return Item::failing(
                ID,
                "RankNotANumber",
                format!("{name}={value:?} is no number"),
            )
            .fix(format!("env {name}: a number, or leave it to the launcher"));
        }
    }
    for (rank, size) in PAIRS {
        if let (Some(r), Some(s)) = (whole(environment, rank), whole(environment, size)) {
            if s == 0 {
                return Item::failing(ID, "RankOutOfRange", format!("{size}=0"))
                    .fix(format!("env {size}: the number of processes"));
            }
            if r >= s {
                return Item::failing(
                    ID,
                    "RankOutOfRange",
                    format!("{rank}={r} is not below {size}={s}: the job will wait for ranks that never come"),
                )
                .fix(format!("env {rank}: 0 to {}; or {size}", s - 1));
            }
        }
    }
    for (part, all) in PARTS {
        if let (Some(p), Some(a)) = (whole(environment, part), whole(environment, all))
            && p > a
        {
            return Item::failing(
                ID,
                "RankOutOfRange",
                format!("{part}={p} is above {all}={a}"),
            )
            .fix(format!("env {part} or {all}"));
        }
    }
    if let Some(gpus) = scene.gpus {
        for name in LOCAL_RANKS {
            if let Some(rank) = whole(environment, name)
                && gpus > 0
                && rank >= u64::from(gpus)
            {
                return Item::failing(
                    ID,
                    "MoreRanksThanGpus",
                    format!("{name}={rank}, and this container has {gpus} GPUs: two ranks would share one, which NCCL refuses"),
                )
                .fix("resources.limits.\"nvidia.com/gpu\", or fewer processes a node (--nproc-per-node)");
            }
        }
        for name in LOCAL_COUNTS {
            if let Some(count) = whole(environment, name)
                && gpus > 0
                && count > u64::from(gpus)
            {
                return Item::failing(
                    ID,
                    "MoreRanksThanGpus",
                    format!("{name}={count}, and this container has {gpus} GPUs"),
                )
                .fix("resources.limits.\"nvidia.com/gpu\", or fewer processes a node (--nproc-per-node)");
            }
        }
    }
    let told: Vec<String> = set
        .iter()
        .map(|name| {
            format!(
                "{name}={}",
                environment.get(name).unwrap_or_default().trim()
            )
        })
        .collect();
    let span = match &scene.nodes {
        Some((true, _)) => "; several nodes",
        Some((false, _)) => "; one node",
        None => "",
    };
    Item::ok(ID, format!("{}{span}", told.join(", ")))
}

/// The master's name and port.
pub(super) fn master(scene: &Scene<'_>) -> Item {
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
            return Item::failing(
                ID,
                "MasterUnresolvable",
                format!("{name}={value} does not resolve: {why}"),
            )
            .fix(format!(
                "env {name}: a name of this namespace. A headless Service gives a pod its name once it is ready, or at once with `publishNotReadyAddresses: true`; --timeout waits longer"
            ));
        }
        _ => return Item::skipped(ID, "a directory tree was looked at: nothing was asked"),
    };
    let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let own = is_own(scene.facts, addresses);
    let evidence = shown.clone();
    let shown = shown.join(", ");
    let loopback = addresses.iter().all(IpAddr::is_loopback);
    let item = if loopback && scene.is_many_nodes() {
        Item::new(
            ID,
            // On rank 0's own machine its name may well stand for itself.
            match is_master(environment) {
                Some(_) => ItemStatus::Degraded,
                None => ItemStatus::Failing,
            },
            Some("MasterIsLoopback"),
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

#[cfg(test)]
mod tests;
