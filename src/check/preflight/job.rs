//! The job's own variables: ranks and sizes.

mod leader;

pub(super) use leader::master;
pub use leader::master_to_ask;

use super::Item;
use super::scene::Scene;
use crate::observe::container::{ContainerFacts, Environment};
use leader::{is_own, master_name};

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
    // A launcher that hands each of its processes one GPU: it is the only one that each sees.
    let own_gpu = scene.gpus == Some(1)
        && LOCAL_RANKS
            .iter()
            .any(|name| whole(environment, name).is_some());
    if let Some(gpus) = scene.gpus.filter(|_| !own_gpu) {
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
    let alone = match own_gpu {
        true => "; this process sees one GPU, its own",
        false => "",
    };
    Item::ok(ID, format!("{}{span}{alone}", told.join(", ")))
}

#[cfg(test)]
mod tests;
