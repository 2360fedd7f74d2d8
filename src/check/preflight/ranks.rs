//! Rank variables: whether they are numbers that fit each other and the GPUs.

use super::job::{LAUNCHERS, number};
use super::{Checked, Item, PodView};
use crate::observe::Environment;

/// torchrun's number of processes per node, which may also be one of a few words.
const PER_NODE: &str = "PET_NPROC_PER_NODE";
const PER_NODE_WORDS: &[&str] = &["auto", "cpu", "gpu", "xpu"];

/// Names of all rank variables that are set.
fn set_names(environment: &Environment) -> Vec<&'static str> {
    let names = LAUNCHERS.processes.as_flattened().iter();
    let names = names.chain(LAUNCHERS.nodes.as_flattened()).copied();
    let set = |name: &&str| environment.get(name).is_some();
    let mut names: Vec<&str> = names.chain([PER_NODE]).filter(set).collect();
    names.sort_unstable();
    names
}

/// Judges the rank variables.
pub(super) fn ranks(context: &PodView<'_>) -> Checked {
    let environment = &context.facts.environment;
    let names = set_names(environment);
    Item::skipped("no rank variable is set").when(names.is_empty())?;
    let value = |name| environment.get(name).unwrap_or_default().trim();
    for name in &names {
        let is_word = *name == PER_NODE && PER_NODE_WORDS.contains(&value(name));
        if !is_word && number(environment, name).is_none() {
            let raw = environment.get(name).unwrap_or_default();
            let item = Item::failing("RankNotANumber", format!("{name}={raw:?} is not a number"));
            return Ok(item.fix(format!("env {name}: a number, or leave it to the launcher")));
        }
    }
    let has_rank = |name| number(environment, name).is_some();
    // Some launchers show each process only its own GPU.
    let own_gpu = context.gpus == Some(1) && local_ranks().any(has_rank);
    let gpus = context.gpus.filter(|gpus| !own_gpu && *gpus > 0);
    out_of_range(environment)?;
    let crowded = || more_ranks_than_gpus(environment, gpus?.into());
    crowded().map_or(Ok(()), Err)?;
    let shown = names.iter().map(|name| format!("{name}={}", value(name)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let span = match &context.nodes {
        Some((true, _)) => "; several nodes",
        Some((false, _)) => "; one node",
        None => "",
    };
    let alone = match own_gpu {
        true => "; this process sees only its own GPU",
        false => "",
    };
    Ok(Item::ok(format!("{shown}{span}{alone}")))
}

/// A rank at or above its size, or more processes on this node than in the job.
fn out_of_range(environment: &Environment) -> Result<(), Item> {
    let both = |one, other| Some((number(environment, one)?, number(environment, other)?));
    let wrong = |message, fix| Item::failing("RankOutOfRange", message).fix(fix);
    let of_processes =
        |[rank, size, local, locals]: &[&'static str; 4]| [[*rank, *size], [*local, *locals]];
    let of_processes = LAUNCHERS.processes.iter().flat_map(of_processes);
    for [rank, size] in of_processes.chain(LAUNCHERS.nodes.iter().copied()) {
        let Some((r, s)) = both(rank, size) else {
            continue;
        };
        let fix = format!("env {size}: the number of processes");
        wrong(format!("{size}=0"), fix).when(s == 0)?;
        let message = format!(
            "{rank}={r} is not below {size}={s}: the job will wait for ranks that never come"
        );
        let fix = format!("env {rank}: 0 to {}; or {size}", s - 1);
        wrong(message, fix).when(r >= s)?;
    }
    for [_, size, _, local_size] in &LAUNCHERS.processes {
        let Some((part, all)) = both(local_size, size) else {
            continue;
        };
        let message = format!("{local_size}={part} is above {size}={all}");
        wrong(message, format!("env {local_size} or {size}")).when(part > all)?;
    }
    Ok(())
}

/// Names of the variables for a process' rank on its node.
fn local_ranks() -> impl Iterator<Item = &'static str> {
    LAUNCHERS.processes.iter().map(|names| names[2])
}

/// More processes on this node than GPUs.
fn more_ranks_than_gpus(environment: &Environment, gpus: u64) -> Option<Item> {
    let at_least = |name: &'static str, least: u64| {
        let value = number(environment, name).filter(|value| *value >= least)?;
        Some(format!(
            "{name}={value}, and this container has {gpus} GPUs"
        ))
    };
    let rank = local_ranks()
        .find_map(|name| at_least(name, gpus))
        .map(|message| format!("{message}: two ranks would share one, which NCCL refuses"));
    let counts = || ["LOCAL_WORLD_SIZE", PER_NODE].into_iter();
    let message = rank.or_else(|| counts().find_map(|name| at_least(name, gpus + 1)))?;
    Some(Item::failing("MoreRanksThanGpus", message))
}

#[cfg(test)]
mod tests;
