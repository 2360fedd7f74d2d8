//! Whether a job spans nodes.

use super::JobContext;
use crate::observe::nccl::{Failure, Group, GroupKey, HostPid, NcclLog};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Most GPUs of a host: the largest known machines have 16.
const MOST_GPUS_OF_A_HOST: u32 = 16;

/// A job: its log, its context, and whether it spans nodes.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub log: &'a NcclLog,
    pub context: &'a JobContext<'a>,
    /// The hosts of the log.
    pub hosts: &'a DistinctHosts,
    /// `None` if nothing shows it.
    pub multi: Option<bool>,
    /// There is proof; otherwise it is a conclusion from interfaces or from the numbers of ranks.
    pub firm: bool,
}

pub(super) fn span<'a>(
    log: &'a NcclLog,
    hosts: &'a DistinctHosts,
    context: &'a JobContext<'a>,
) -> Job<'a> {
    let mut job = Job {
        log,
        context,
        hosts,
        multi: None,
        firm: true,
    };
    // The log has only the ranks of this pod; a gang has others.
    let gang = || context.pod.and_then(|pod| pod.gang);
    job.multi = by_log(&job).or_else(gang);
    if job.multi.is_some() {
        return job;
    }
    let mut groups = log.groups.iter().filter(|(_, group)| !group.superseded);
    // Ranks that share a GPU by mistake have its number, whatever their own.
    let others = !log.failures.contains_key(&Failure::DuplicateGpu)
        && (groups.any(|(key, group)| exceeds_one_host(key.nranks, group))
            // Of fewer GPUs the order may be that of CUDA_VISIBLE_DEVICES.
            || log.channels.offset_by(USUAL_GPUS));
    let loopback = !log.interfaces.is_empty() && log.interfaces.iter().all(|name| name == "lo");
    job.multi = others.then_some(true).or(loopback.then_some(false));
    job.firm = false;
    job
}

/// Whether the log shows the communicators of its connections: no two of them, as one may be torn, name
/// ranks above those of all.
fn are_shown(log: &NcclLog) -> bool {
    let most = log.groups.keys().map(|key| key.nranks).max();
    let beyond = |(from, to): &&(u32, u32)| Some(*from.max(to)) >= most;
    most.is_some() && log.channels.hops.iter().filter(beyond).count() < 2
}

fn by_log(job: &Job<'_>) -> Option<bool> {
    let (log, hosts) = (job.log, job.hosts);
    // Earlier runs show nothing about this one.
    let groups = || {
        let live = log.groups.iter().filter(|(_, group)| !group.superseded);
        live.filter(|(key, group)| key.nranks > 1 && !is_torn(log, key, group))
    };
    let span = |(key, group): (&GroupKey, &Group)| job.group_span(*key, group);
    let spans: Vec<Option<bool>> = groups().map(span).collect();
    let counted = groups().any(|(_, group)| group.nodes.is_some());
    if spans.contains(&Some(true)) || !counted && log.live().any(|of| of.joins_hosts) {
        return Some(true);
    }
    let in_tests = || log.test_ranks.values().map(|(place, _)| place.host);
    // Communicators of one rank send nothing.
    if are_shown(log) && spans.iter().all(|span| *span == Some(false)) {
        let tested_apart = hosts.distinct(in_tests()) > 1;
        // A wider one may join them: over hosts that each print their own, before a split, or in lines left out.
        let alone = spans.is_empty()
            || one_holds_all(groups().collect(), hosts)
            || !tested_apart && shows_no_wider(log) && groups().all(is_own_job);
        if alone && !log.folded {
            return Some(false);
        }
        return (!log.test_runs && tested_apart).then_some(true);
    }
    let highest = log.channels.highest().map(|rank| rank + 1);
    if log.named_ranks.max(log.ring_ranks).max(highest) > Some(MOST_GPUS_OF_A_HOST) {
        return Some(true);
    }
    // nccl-tests built without MPI: every process runs alone.
    if log.test_runs && log.test_ranks.len() == 1 && spans.is_empty() {
        return Some(false);
    }
    if log.channels.shares_devices() || log.channels.crosses() == Some(true) {
        return Some(true);
    }
    let share = log.shared_names || log.test_shares_devices();
    match hosts.distinct(in_tests()) {
        // Without a line of NCCL's after it the list may be cut.
        1 if !share && tests_cover(log) && log.records > 0 => return Some(false),
        0 | 1 => {}
        _ => return (!log.test_runs).then_some(true),
    }
    // Several communicators without proof, or ranks named twice, may be separate jobs.
    if spans.len() > 1 || groups().any(|(key, group)| group.mixed && key.id == 0) {
        return None;
    }
    // Several hosts, or one name with several addresses of an interface: machines that share a name.
    if hosts.printing > 1 || log.shared_names {
        return (!log.test_runs).then_some(true);
    }
    if log.channels.ring_closes() {
        return Some(false);
    }
    let is_alone = spans.is_empty() && has_whole_ring(log, hosts.printing == 1);
    is_alone.then_some(false)
}

/// Whether a communicator is of a line whose number of ranks is torn.
fn is_torn(log: &NcclLog, key: &GroupKey, group: &Group) -> bool {
    let same_id = |other: &GroupKey| other.id == key.id && other != key;
    let mut others = log.groups.iter().filter(|(other, _)| same_id(other));
    key.id != 0 && group.seats.len() == 1 && others.any(|(_, other)| other.seats.len() > 2)
}

/// Whether no connection over a net, no ring and no rank is of a communicator wider than those in view.
fn shows_no_wider(log: &NcclLog) -> bool {
    let widest = log.groups.keys().map(|key| key.nranks).max();
    log.channels.nets().next().is_none() && log.named_ranks.max(log.ring_ranks) <= widest
}

/// Whether a communicator is all of its job, as its id and NCCL's count of its nodes show.
fn is_own_job((key, group): (&GroupKey, &Group)) -> bool {
    key.id != 0 && group.nodes.is_some() && !group.split
}

/// Whether one of the widest communicators was not split from another, and has all hosts of the others.
fn one_holds_all(groups: Vec<(&GroupKey, &Group)>, hosts: &DistinctHosts) -> bool {
    let named = |group: &Group| -> BTreeSet<u32> {
        let names = group.hosts().map(|host| hosts.representative(host));
        names.filter(|host| Some(*host) != hosts.nameless).collect()
    };
    let all: BTreeSet<u32> = groups.iter().flat_map(|(_, group)| named(group)).collect();
    let widest = groups.iter().map(|(key, _)| key.nranks).max();
    groups.iter().any(|(key, group)| {
        // Without an id, two communicators of the same size look like one.
        let one = all.len() < 2 || !group.mixed || key.id != 0;
        Some(key.nranks) == widest && !group.split && one && named(group) == all
    })
}

/// Whether every rank of the longest ring is joined to rank 0 inside the node, or is in view on one host.
fn has_whole_ring(log: &NcclLog, one_host: bool) -> bool {
    log.ring_ranks.is_some_and(|ranks| {
        let seen = log.channels.places.keys().filter(|rank| **rank < ranks);
        let seen = one_host && u32::try_from(seen.count()).is_ok_and(|seen| seen == ranks);
        !log.channels.mixed && (seen || log.channels.joins(ranks))
    })
}

/// Most GPUs of the usual hosts, which number their ranks in blocks of 8, 4 or fewer.
const USUAL_GPUS: u32 = 8;

/// Whether the ranks of a communicator in view cannot be those of one host that has them all.
fn exceeds_one_host(nranks: u32, group: &Group) -> bool {
    // All GPUs of a usual host print, and there are more ranks.
    let usual = group.seats.keys().copied().eq(0..USUAL_GPUS) && !group.only_starts();
    let first_host = usual && nranks > USUAL_GPUS;
    !group.mixed && nranks > 1 && (first_host || ranks_offset_from_gpus(group))
}

/// Whether all ranks have numbers above those of their GPUs, by the same amount: hosts with lower ranks
/// precede. On one host a rank has its GPU's number, or a lower one where a setting hides GPUs.
fn ranks_offset_from_gpus(group: &Group) -> bool {
    let mut all = None;
    let mut proven = false;
    for (rank, seat) in &group.seats {
        let Some(gpu) = seat.gpu else { continue };
        let by = rank.checked_sub(gpu).filter(|by| *by > 0);
        if by.is_none() || *all.get_or_insert(by) != by {
            return false;
        }
        // Rank 1 on GPU 0 may be of one host: frameworks such as Ray place ranks as they like, and CUDA
        // counts what CUDA_VISIBLE_DEVICES leaves. The GPUs of a host are blocks of two or more.
        let block = match gpu {
            0 => USUAL_GPUS,
            gpu => (gpu + 1).next_power_of_two(),
        };
        proven |= by.is_some_and(|by| by % block == 0);
    }
    proven
}

/// Whether nccl-tests' list of ranks, which rank 0 prints, is complete: two or more without a gap, and no other
/// line shows more.
fn tests_cover(log: &NcclLog) -> bool {
    let ranks = u32::try_from(log.test_ranks.len()).unwrap_or(u32::MAX);
    let whole = log.test_ranks.keys().zip(0..).all(|(rank, at)| *rank == at);
    let widest = log.groups.keys().map(|key| key.nranks).max();
    let shown = log.ring_ranks.max(log.named_ranks);
    whole && ranks > 1 && widest.is_none_or(|widest| ranks == widest) && shown <= Some(ranks)
}

impl Job<'_> {
    /// Whether one communicator spans nodes.
    pub(super) fn group_span(&self, key: GroupKey, group: &Group) -> Option<bool> {
        let hosts = self.hosts;
        if let Some(nodes) = group.nodes {
            return Some(nodes > 1);
        }
        // Without an id, two communicators of the same size look like one.
        let one = !group.mixed || key.id != 0;
        // Two processes are of two hosts, even if these share a name; so are lines without a process, if the
        // communicator has an id.
        let apart = |(a, b): (HostPid, HostPid)| a != b || key.id != 0 && b.process == u32::MAX;
        if one && !hosts.share_gpus && !group.only_starts() && group.on_one_bus().any(apart) {
            return Some(true);
        }
        if group.channels.shares_devices() || group.channels.crosses() == Some(true) {
            return Some(true);
        }
        // The node may have lost a GPU since: only more ranks than any host has GPUs prove anything.
        let gpus = self.context.node_gpus.unwrap_or(0).max(MOST_GPUS_OF_A_HOST);
        let joined = || one && group.channels.joins(key.nranks);
        if key.nranks > gpus && !joined() {
            return Some(true);
        }
        let names = group.hosts().map(|host| hosts.representative(host));
        let mut names: BTreeSet<u32> = names.collect();
        // A line that lost its prefix may be of any host.
        let torn = hosts.nameless.is_some_and(|host| names.remove(&host));
        let several = names.len() > 1;
        if several && one {
            return Some(true);
        }
        // Containers number processes alike: with one bus id twice they may be on two hosts of one name.
        let unclear = torn || key.id != 0 && group.on_one_bus().next().is_some();
        let all_here = !unclear && u32::try_from(group.seats.len()) == Ok(key.nranks);
        (joined() || all_here && !several && !hosts.share_names).then_some(false)
    }
}

/// Hosts, without duplicates: processes that share a pipe start in the middle of each other's lines, so
/// that a host's name can have other text glued to its front.
pub(super) struct DistinctHosts {
    /// Number of hosts that printed NCCL's lines.
    pub printing: usize,
    /// Several machines have the same name.
    share_names: bool,
    /// Ranks share a GPU by mistake.
    share_gpus: bool,
    /// The host of lines without a name.
    nameless: Option<u32>,
    same_as: Vec<u32>,
}

impl DistinctHosts {
    fn representative(&self, host: u32) -> u32 {
        let at = usize::try_from(host).unwrap_or_default();
        self.same_as.get(at).copied().unwrap_or(host)
    }

    /// How many different hosts these are.
    fn distinct(&self, hosts: impl Iterator<Item = u32>) -> usize {
        let hosts: BTreeSet<u32> = hosts.map(|host| self.representative(host)).collect();
        hosts.len()
    }
}

/// The hosts of a log. Compares each name with every other: once for each judgement.
pub(super) fn distinct_hosts(log: &NcclLog) -> DistinctHosts {
    let numbered = || log.hosts.iter().zip(0u32..);
    let mut lines = BTreeMap::new();
    for (place, process) in &log.processes {
        *lines.entry(place.host).or_default() += process.lines;
    }
    let lines = |host| lines.get(&host).copied().unwrap_or(0u64);
    // The host with the most lines of those whose names end alike, or itself. Few lines are glued or lost their
    // start; a host whose name ends with another's prints many.
    let same_as = numbered().map(|(host, own)| {
        let same = numbered().filter(|(other, at)| {
            let few = || lines(own) <= 2.max(lines(*at) / 16);
            let named = !host.is_empty() && !other.is_empty();
            let alike = || host.ends_with(other.as_str()) || other.ends_with(host.as_str());
            *at == own || named && alike() && few()
        });
        same.max_by_key(|(_, at)| (lines(*at), Reverse(*at)))
            .map_or(own, |(_, at)| at)
    });
    let nameless = numbered().find(|(name, _)| name.is_empty());
    let mut hosts = DistinctHosts {
        printing: 0,
        share_names: log.shared_names,
        share_gpus: log.failures.contains_key(&Failure::DuplicateGpu),
        nameless: nameless.map(|(_, at)| at),
        same_as: same_as.collect(),
    };
    let printing = log.processes.keys().map(|place| place.host);
    hosts.printing = hosts.distinct(printing.filter(|host| Some(*host) != hosts.nameless));
    hosts
}
