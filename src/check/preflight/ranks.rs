//! Rank variables: whether they are numbers that fit each other and the GPUs.

use super::context::Context;
use super::item::Item;
use super::job::{NODES, PROCESSES, number};
use crate::observe::container::Environment;

/// torchrun's number of processes per node, which may also be one of a few words.
const PER_NODE: &str = "PET_NPROC_PER_NODE";
const PER_NODE_WORDS: &[&str] = &["auto", "cpu", "gpu", "xpu"];

/// Remedy for more processes than GPUs.
const MORE_GPUS: &str =
    "resources.limits.\"nvidia.com/gpu\", or fewer processes a node (--nproc-per-node)";

/// Names of all rank variables that are set.
fn set_names(environment: &Environment) -> Vec<&'static str> {
    let names = PROCESSES.concat().into_iter().chain(NODES.concat());
    let set = |name: &&str| environment.get(name).is_some();
    let mut names: Vec<&str> = names.chain([PER_NODE]).filter(set).collect();
    names.sort_unstable();
    names
}

/// Why the item does not apply.
pub(super) fn ranks_skip(context: &Context<'_>) -> Option<&'static str> {
    let names = set_names(&context.facts.environment);
    names.is_empty().then_some("no rank variable is set")
}

/// Judges the rank variables.
pub(super) fn ranks(context: &Context<'_>) -> Item {
    let environment = &context.facts.environment;
    let value = |name| environment.get(name).unwrap_or_default().trim();
    for name in set_names(environment) {
        let is_word = name == PER_NODE && PER_NODE_WORDS.contains(&value(name));
        if !is_word && number(environment, name).is_none() {
            let raw = environment.get(name).unwrap_or_default();
            return Item::failing("RankNotANumber", format!("{name}={raw:?} is not a number"))
                .fix(format!("env {name}: a number, or leave it to the launcher"));
        }
    }
    let local_ranks = || PROCESSES.iter().map(|names| names[2]);
    // Some launchers show each process only its own GPU.
    let own_gpu =
        context.gpus == Some(1) && local_ranks().any(|name| number(environment, name).is_some());
    let wrong = out_of_range(environment).or_else(|| {
        let gpus = context.gpus.filter(|gpus| !own_gpu && *gpus > 0)?;
        more_ranks_than_gpus(environment, local_ranks(), u64::from(gpus))
    });
    wrong.unwrap_or_else(|| {
        let shown = set_names(environment).into_iter();
        let shown: Vec<_> = shown
            .map(|name| format!("{name}={}", value(name)))
            .collect();
        let span = match &context.nodes {
            Some((true, _)) => "; several nodes",
            Some((false, _)) => "; one node",
            None => "",
        };
        let alone = match own_gpu {
            true => "; this process sees only its own GPU",
            false => "",
        };
        Item::ok(format!("{}{span}{alone}", shown.join(", ")))
    })
}

/// A rank at or above its size, or more processes on this node than in the job.
fn out_of_range(environment: &Environment) -> Option<Item> {
    let processes = PROCESSES.iter();
    let in_job = processes.clone().map(|[rank, size, ..]| (rank, size));
    let on_node = processes.clone().map(|[_, _, rank, size]| (rank, size));
    let nodes = NODES.iter().map(|[rank, size]| (rank, size));
    for (rank, size) in in_job.chain(on_node).chain(nodes) {
        let (Some(r), Some(s)) = (number(environment, rank), number(environment, size)) else {
            continue;
        };
        if s == 0 {
            let item = Item::failing("RankOutOfRange", format!("{size}=0"));
            return Some(item.fix(format!("env {size}: the number of processes")));
        }
        if r >= s {
            let message = format!(
                "{rank}={r} is not below {size}={s}: the job will wait for ranks that never come"
            );
            let item = Item::failing("RankOutOfRange", message);
            return Some(item.fix(format!("env {rank}: 0 to {}; or {size}", s - 1)));
        }
    }
    for [_, size, _, local_size] in processes {
        if let (Some(part), Some(all)) =
            (number(environment, local_size), number(environment, size))
            && part > all
        {
            let message = format!("{local_size}={part} is above {size}={all}");
            let item = Item::failing("RankOutOfRange", message);
            return Some(item.fix(format!("env {local_size} or {size}")));
        }
    }
    None
}

/// More processes on this node than GPUs.
fn more_ranks_than_gpus(
    environment: &Environment,
    mut local_ranks: impl Iterator<Item = &'static str>,
    gpus: u64,
) -> Option<Item> {
    let at_least = |name: &'static str, least: u64| {
        let value = number(environment, name).filter(|value| *value >= least)?;
        Some(format!(
            "{name}={value}, and this container has {gpus} GPUs"
        ))
    };
    let rank = local_ranks
        .find_map(|name| at_least(name, gpus))
        .map(|message| format!("{message}: two ranks would share one, which NCCL refuses"));
    let counts = || ["LOCAL_WORLD_SIZE", PER_NODE].into_iter();
    let message = rank.or_else(|| counts().find_map(|name| at_least(name, gpus + 1)))?;
    Some(Item::failing("MoreRanksThanGpus", message).fix(MORE_GPUS))
}

#[cfg(test)]
mod tests;
