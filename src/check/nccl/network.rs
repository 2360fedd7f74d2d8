//! Which network a job uses, and whether TCP is what it was meant to use.

use super::{causes, span::Job};
use crate::data_files::line_of;
use crate::observe::nccl::{
    ChannelCounts, Failure, Group, GroupKey, Link, NcclLog, Net, Process, Transport,
};
use crate::settings_macro::words;
use std::collections::BTreeSet;

words! {
    /// What carries data between nodes.
    Network {
        /// InfiniBand by verbs.
        Ib = "ib",
        /// RDMA over Converged Ethernet by verbs.
        Roce = "roce",
        /// Verbs; the log does not show the link layer.
        IbOrRoce = "ib_or_roce",
        /// NCCL's own TCP, or FastSocket's.
        Socket = "socket",
        /// libfabric, such as on EFA.
        Ofi = "ofi",
        /// GPUDirect-TCPXO on Google Cloud.
        Fastrak = "fastrak",
        /// GPUDirect-TCPX on Google Cloud.
        Tcpx = "tcpx",
        /// The UCX plugin.
        Ucx = "ucx",
        /// The job stays in one node.
        None = "none",
        /// The log does not show the network.
        Unknown = "unknown",
    }

    /// Whether TCP carries what RDMA should.
    Fallback {
        /// TCP carries data between nodes, and nothing in the log or the manifest asks for that.
        Yes = "yes",
        /// TCP does not carry data between nodes.
        No = "no",
        /// TCP carries data between nodes, or would, because a setting asks for it.
        Configured = "configured",
        /// The log does not show it.
        Unknown = "unknown",
    }
}

impl Network {
    /// The name for people.
    pub fn title(self) -> &'static str {
        line_of(include_str!("networks.txt"), self.as_str()).unwrap_or_default()
    }
}

/// The network in use, and whether it is a fallback.
pub(super) type Used = (Network, Fallback);

/// The job stays in one node.
const NONE: Used = (Network::None, Fallback::No);
/// NVLink joins all ranks.
const BY_NVLINK: Used = (Network::Unknown, Fallback::No);
const UNKNOWN: Used = (Network::Unknown, Fallback::Unknown);

pub(super) fn used(job: &Job<'_>) -> Used {
    let log = job.log;
    // Connections of an earlier run say nothing about this one.
    let nets: BTreeSet<Net> = log.nets().into_iter().map(|(net, _)| net).collect();
    if nets.len() > 1
        && let Some(used) = by_widest(job)
    {
        return used;
    }
    let mut chosen_nets = log.live().filter_map(|process| process.chosen).peekable();
    let contradicted = chosen_nets.peek().is_some() && chosen_nets.all(|net| !net.is_tcp());
    let other = nets.iter().find(|net| !net.is_tcp());
    match (nets.iter().any(|net| net.is_tcp()), other) {
        (false, Some(net)) => carried(job, &log.channels, *net),
        // Connections that contradict every choice are quoted from another log.
        (true, None) if contradicted => UNKNOWN,
        (true, None) => over_tcp(job, &log.channels),
        // Two networks, and no communicator shows which serves what.
        (true, Some(_)) => UNKNOWN,
        (false, None) => chosen(job),
    }
}

/// If communicators use different networks, the widest one in use decides.
fn by_widest(job: &Job<'_>) -> Option<Used> {
    let with_net = job.log.groups.iter().filter(|(_, group)| {
        let used = group.channels.nets().next().is_some();
        used && !group.superseded
    });
    let with_span = with_net.map(|(key, group)| (key, group, job.group_span(*key, group)));
    let mut groups: Vec<_> = with_span.collect();
    // One that stays in its node needs none, if others do not.
    if groups.iter().any(|(.., span)| *span == Some(true)) {
        groups.retain(|(.., span)| *span != Some(false));
    }
    let widest = groups.iter().map(|(key, ..)| key.nranks).max()?;
    groups.retain(|(key, ..)| key.nranks == widest);
    let mut nets = groups
        .iter()
        .flat_map(|(_, group, _)| group.channels.nets());
    let (net, _) = nets.next()?;
    // Nothing shows which of the widest ones serves the job.
    if nets.any(|(other, _)| other != net) {
        return None;
    }
    let (_, group, span) = groups.iter().max_by_key(|(_, group, _)| group.last_line)?;
    let job = Job {
        multi: span.or(job.multi),
        firm: true,
        ..*job
    };
    Some(match net.is_tcp() {
        true => over_tcp(&job, &group.channels),
        false => carried(&job, &group.channels, net),
    })
}

/// Judges connections over a net other than plain TCP.
fn carried(job: &Job<'_>, counts: &ChannelCounts, net: Net) -> Used {
    if net == Net::Ofi && job.log.live().any(|process| process.ofi_tcp) {
        return ofi_over_tcp(job);
    }
    // Containers of one host use the net too.
    if job.multi == Some(false) {
        return NONE;
    }
    (of_net(job.log, net, &counts.nics), Fallback::No)
}

/// Judges connections over NCCL's own TCP, or FastSocket's.
fn over_tcp(job: &Job<'_>, counts: &ChannelCounts) -> Used {
    let within = counts.crosses() == Some(false) && !counts.shares_devices();
    let stays = within && !job.log.shared_names;
    if job.multi == Some(false) && job.firm || stays && job.multi != Some(true) {
        return NONE;
    }
    let fallback = if configured(job) {
        Fallback::Configured
    } else if job.multi.is_none() && job.log.live().any(|process| process.shm_off) {
        // Without shared memory ranks of one node use the net too.
        Fallback::Unknown
    } else if perhaps_asked(job) {
        Fallback::Configured
    } else {
        Fallback::Yes
    };
    (Network::Socket, fallback)
}

/// Whether the log shows the whole choice of TCP, and no process tried anything else before. This is
/// what NCCL_NET=Socket looks like, which is never printed. From 2.13 to 2.28.3 verbs are tried even then:
/// without their lines NCCL_IB_DISABLE is set, unless the log shows variables and not that one. Without
/// devices and NCCL's version, which up to 2.21 only rank 0 prints, the log may lack the lines that tell.
fn perhaps_asked(job: &Job<'_>) -> bool {
    let log = job.log;
    let mut processes = log.live();
    let any = |what: fn(&Process) -> bool| log.live().any(what);
    let minor = |version: &String| version.split('.').nth(1)?.parse::<u32>().ok();
    let refused = any(|p| p.ib_refused).then_some(28);
    let minor = log.version.as_ref().and_then(minor).max(refused);
    let has_rank_0 = any(|p| p.ranks.is_empty() || p.ranks.iter().any(|(_, rank)| *rank == 0));
    let lines_lack = match minor {
        Some(28..) => false,
        None if has_rank_0 => !any(|p| p.ib_found),
        Some(..13) => false,
        _ => any(|p| p.env_shown) && !any(|p| p.ib_tried),
    };
    let failed = |process: &Process| process.ib_failed() || process.plugin_failed;
    let no_plugin = log.failures.contains_key(&Failure::PluginInit) || causes::plugin_lacking(job);
    processes.any(Process::only_socket_tried) && !lines_lack && !no_plugin && !any(failed)
}

/// Judges by the choice, and by the devices found, if no connection over a net is shown.
fn chosen(job: &Job<'_>) -> Used {
    let nets = nets_between_nodes(job);
    let other = nets.iter().find(|net| !net.is_tcp()).copied();
    match (nets.iter().any(|net| net.is_tcp()), other) {
        // Ranks chose differently, and no connection shows which choice won.
        (true, Some(_)) if job.multi != Some(false) => UNKNOWN,
        (true, None) => tcp_chosen(job),
        _ if job.multi == Some(false) => NONE,
        (_, Some(net)) => carried(job, &job.log.channels, net),
        (_, None) if all_by_nvlink(job) == Some(true) => BY_NVLINK,
        (_, None) => nothing_shown(job),
    }
}

/// The nets of processes, but for those whose communicators all stay in their node where others do not: those
/// may be of another job.
fn nets_between_nodes(job: &Job<'_>) -> BTreeSet<Net> {
    let (mut within, mut across) = (BTreeSet::new(), BTreeSet::new());
    for (key, group) in job.log.groups.iter().filter(|(_, group)| !group.superseded) {
        match job.group_span(*key, group) {
            Some(false) => within.extend(group.places()),
            _ => across.extend(group.places()),
        }
    }
    let counts = |place| across.is_empty() || across.contains(place) || !within.contains(place);
    let live = (job.log.processes.iter()).filter(|(_, process)| !process.stale);
    let nets = live.filter_map(|(place, process)| process.net().filter(|_| counts(place)));
    nets.collect()
}

/// Whether NVLink joins all ranks of all communicators that may span nodes (MNNVL), so that none uses the net.
/// `None` if the log does not show it.
pub(super) fn all_by_nvlink(job: &Job<'_>) -> Option<bool> {
    let log = job.log;
    let groups = log.groups.iter().filter(|_| log.mnnvl);
    let wide = groups.filter(|(key, group)| {
        let within = job.group_span(**key, group) == Some(false);
        key.nranks > 1 && !group.superseded && !within
    });
    let wide: Vec<_> = wide.collect();
    // Ranks that disagree were torn, or are of several communicators.
    let whole = |(key, group): &(&GroupKey, &Group)| match group.channels.clique? {
        (_, most) if most < key.nranks => Some(false),
        (least, _) => (least >= key.nranks).then_some(true),
    };
    let crossed = log.env.get("NCCL_MNNVL_CROSS_CLIQUE");
    if wide.iter().any(|of| whole(of) == Some(false)) {
        return crossed.is_none_or(|on| on == "0").then_some(false);
    }
    // A split may be of a wider one, and lines of a wider one may be left out.
    let widest = (wide.iter()).max_by_key(|(key, group)| (key.nranks, !group.split))?;
    let all = wide.iter().all(|of| whole(of) == Some(true));
    // `ncclTopoCheckP2p` in src/graph/paths.cc.
    let is_set = |name: &str, values: &[&str]| {
        (log.env.get(name)).is_some_and(|value| values.contains(&value.as_str()))
    };
    let no_p2p = is_set("NCCL_P2P_DISABLE", &["1"]) || is_set("NCCL_P2P_LEVEL", &["LOC", "0"]);
    (all && !no_p2p && !widest.1.split && !log.folded).then_some(true)
}

fn tcp_chosen(job: &Job<'_>) -> Used {
    let configured = configured(job);
    let by_nvlink = all_by_nvlink(job);
    let mnnvl = job.log.mnnvl || job.log.channels.over.contains_key(&Transport::Mnnvl);
    let fallback = match job.multi {
        Some(false) if job.firm || !configured => return NONE,
        _ if by_nvlink == Some(true) => return BY_NVLINK,
        _ if configured => Fallback::Configured,
        Some(true) if perhaps_asked(job) => Fallback::Configured,
        Some(true) if !mnnvl || by_nvlink == Some(false) => Fallback::Yes,
        _ => Fallback::Unknown,
    };
    (Network::Socket, fallback)
}

fn nothing_shown(job: &Job<'_>) -> Used {
    let log = job.log;
    // The first net that initialises wins: a plugin without a failure was initialised before any
    // connection was made.
    let failed = |process: &Process| process.ib_none || process.ib_refused;
    let plugin = log.processes.values().any(|process| process.ib_plugin);
    let plugin = plugin && !log.live().any(failed);
    // A command line that is printed is not yet what NCCL did: EFA's set NCCL_IB_DISABLE and use libfabric.
    // NCCL_IB_DISABLE alone shows no network: a plugin may serve it.
    let settings = causes::settings(job, false);
    let tcp_left = |process: &Process| process.no_plugin || process.ib_none;
    let acted_on = (settings.iter())
        .any(|setting| *setting != Failure::IbDisabled || log.live().any(tcp_left));
    let fallback = match acted_on && configured(job) {
        true => Fallback::Configured,
        false if plugin && !log.channels.over.is_empty() => Fallback::No,
        false => Fallback::Unknown,
    };
    (Network::Unknown, fallback)
}

/// Judges libfabric over a TCP provider, which is TCP under another name.
fn ofi_over_tcp(job: &Job<'_>) -> Used {
    let asked = job.log.live().any(|process| process.ofi_asked);
    let fallback = match job.multi {
        _ if asked || job.context.variable("FI_PROVIDER").is_some() => Fallback::Configured,
        Some(true) => Fallback::Yes,
        Some(false) => Fallback::No,
        None => Fallback::Unknown,
    };
    (Network::Ofi, fallback)
}

/// Whether a setting asks for sockets. NCCL_IB_DISABLE=1 is routine where a plugin serves the network, which
/// ignores it: if that plugin failed or is missing, or was requested, it is not a reason for TCP.
fn configured(job: &Job<'_>) -> bool {
    let log = job.log;
    let settings = causes::settings(job, true);
    let verbs_off = settings.contains(&Failure::IbDisabled);
    let sockets = settings.len() > usize::from(verbs_off) || log.channels.net(Net::FastSocket) > 0;
    let plugin = log.live().any(|process| process.plugin_failed)
        || job.context.requests_plugin()
        || causes::plugin_lacking(job);
    sockets || verbs_off && !plugin && !fell_back_apart(log)
}

/// Whether a communicator between nodes tried verbs in vain while another one, of another job in the same log,
/// disables them.
fn fell_back_apart(log: &NcclLog) -> bool {
    let fell_back = |group: &Group| {
        let processes = || group.places().filter_map(|place| log.processes.get(&place));
        let in_vain =
            |process: &Process| process.ib_failed() && process.chosen == Some(Net::Socket);
        processes().any(in_vain) && !processes().any(|process| process.ib_disabled)
    };
    let mut groups = log.groups.values().filter(|group| !group.superseded);
    log.live().any(|process| process.ib_disabled)
        && groups.any(|group| group.nodes > Some(1) && fell_back(group))
}

fn of_net(log: &NcclLog, net: Net, nics: &BTreeSet<u32>) -> Network {
    match net {
        Net::Ib => verbs(log, nics),
        Net::Socket | Net::FastSocket => Network::Socket,
        Net::Ofi => Network::Ofi,
        Net::FasTrak => Network::Fastrak,
        Net::Tcpx => Network::Tcpx,
        Net::Ucx => Network::Ucx,
        Net::Other => Network::Unknown,
    }
}

/// The link layer of the devices in use, or of all listed devices if the ones in use are unknown.
fn verbs(log: &NcclLog, nics: &BTreeSet<u32>) -> Network {
    let of_used = |link| nics.iter().any(|nic| log.links.contains(&(*nic, link)));
    let of_any = |link| log.link_kinds.contains(&link);
    let (ib, roce) = match (of_used(Link::Ib), of_used(Link::Roce)) {
        (false, false) => (of_any(Link::Ib), of_any(Link::Roce)),
        used => used,
    };
    match (ib, roce, log.roce_hint) {
        (true, false, _) => Network::Ib,
        (false, true, _) | (false, false, true) => Network::Roce,
        _ => Network::IbOrRoce,
    }
}
