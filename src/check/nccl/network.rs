//! Which network a job uses, and whether TCP is what it was meant to use.

use super::span::{Span, distinct_hosts, group_span};
use super::verdict::Fallback;
use super::{JobContext, causes};
use crate::observe::nccl::event::Transport;
use crate::observe::nccl::group::Group;
use crate::observe::nccl::log::Link;
use crate::observe::nccl::process::Process;
use crate::observe::nccl::tally::Tally;
use crate::observe::nccl::{NcclLog, Net};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What data between nodes goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// InfiniBand.
    Ib,
    /// RDMA over Ethernet.
    Roce,
    /// Verbs, link layer not shown.
    IbOrRoce,
    /// TCP.
    Socket,
    /// libfabric: EFA.
    Ofi,
    /// GPUDirect-TCPXO.
    Fastrak,
    /// GPUDirect-TCPX.
    Tcpx,
    /// UCX.
    Ucx,
    /// None: a job of one node.
    None,
    /// Not shown.
    Unknown,
}

impl Network {
    /// All of them.
    pub const ALL: [Network; 10] = [
        Network::Ib,
        Network::Roce,
        Network::IbOrRoce,
        Network::Socket,
        Network::Ofi,
        Network::Fastrak,
        Network::Tcpx,
        Network::Ucx,
        Network::None,
        Network::Unknown,
    ];

    /// As in JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Network::Ib => "ib",
            Network::Roce => "roce",
            Network::IbOrRoce => "ib_or_roce",
            Network::Socket => "socket",
            Network::Ofi => "ofi",
            Network::Fastrak => "fastrak",
            Network::Tcpx => "tcpx",
            Network::Ucx => "ucx",
            Network::None => "none",
            Network::Unknown => "unknown",
        }
    }
}

/// The outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Used {
    pub network: Network,
    pub fallback: Fallback,
}

pub(super) fn used(log: &NcclLog, span: &Span, beside: &JobContext<'_>) -> Used {
    let nets: BTreeSet<Net> = log.whole.nets().map(|(net, _)| net).collect();
    if nets.len() > 1
        && let Some(used) = by_widest(log, span, beside)
    {
        return used;
    }
    match (
        nets.iter().any(|net| tcp(*net)),
        nets.iter().find(|net| !tcp(**net)),
    ) {
        (false, Some(net)) => carried(log, &log.whole, *net, span, beside),
        // Connections that those who chose did not choose: another's words, quoted.
        (true, None) if chose_otherwise(log) => Used {
            network: Network::Unknown,
            fallback: Fallback::Unknown,
        },
        (true, None) => over_tcp(log, &log.whole, span, beside),
        // Two networks, and no communicator tells which serves what.
        (true, Some(_)) => Used {
            network: Network::Unknown,
            fallback: Fallback::Unknown,
        },
        (false, None) => chosen(log, span, beside),
    }
}

/// Every process that told of its choice chose another net than TCP.
fn chose_otherwise(log: &NcclLog) -> bool {
    let mut chosen = log.live().filter_map(|process| process.chosen).peekable();
    chosen.peek().is_some() && chosen.all(|net| !tcp(net))
}

fn tcp(net: Net) -> bool {
    matches!(net, Net::Socket | Net::FastSocket)
}

/// Where communicators use different networks, the widest that is still in use says.
fn by_widest(log: &NcclLog, span: &Span, beside: &JobContext<'_>) -> Option<Used> {
    let hosts = distinct_hosts(log);
    let with_net = |group: &&Group| group.tally.nets().next().is_some();
    let (key, group) = log
        .groups
        .iter()
        .filter(|(_, group)| with_net(group) && !group.superseded)
        .max_by_key(|(key, group)| (key.nranks, group.last_line))?;
    let nets: BTreeSet<Net> = group.tally.nets().map(|(net, _)| net).collect();
    let [net] = nets.iter().copied().collect::<Vec<_>>()[..] else {
        return None;
    };
    let span = Span {
        multi: group_span(*key, group, &hosts, beside).or(span.multi),
        firm: true,
    };
    Some(if tcp(net) {
        over_tcp(log, &group.tally, &span, beside)
    } else {
        carried(log, &group.tally, net, &span, beside)
    })
}

/// Connections over something other than plain TCP.
fn carried(log: &NcclLog, tally: &Tally, net: Net, span: &Span, beside: &JobContext<'_>) -> Used {
    // The net serves between containers of one host too.
    let stays = span.multi == Some(false);
    if net == Net::Ofi && log.live().any(|process| process.ofi_tcp) {
        return ofi_over_tcp(log, span, beside);
    }
    Used {
        network: if stays {
            Network::None
        } else {
            of_net(log, net, &tally.nics)
        },
        fallback: Fallback::No,
    }
}

/// Connections over NCCL's own TCP, or FastSocket's.
fn over_tcp(log: &NcclLog, tally: &Tally, span: &Span, beside: &JobContext<'_>) -> Used {
    let stays = tally.crosses() == Some(false) && !tally.shares_devices() && !log.shared_names;
    if span.multi == Some(false) && span.firm || stays && span.multi != Some(true) {
        return Used {
            network: Network::None,
            fallback: Fallback::No,
        };
    }
    let fallback = if configured(log, beside) {
        Fallback::Configured
    } else if span.multi.is_none() && log.live().any(|process| process.local_off) {
        // With P2P or SHM off the net serves inside a node too.
        Fallback::Unknown
    } else if perhaps_asked(log) {
        Fallback::Configured
    } else {
        Fallback::Yes
    };
    Used {
        network: Network::Socket,
        fallback,
    }
}

/// Whether the choice of TCP is in full view and no process tried anything else before: that is what
/// NCCL_NET=Socket looks like, which is never printed.
fn perhaps_asked(log: &NcclLog) -> bool {
    let mut processes = log.live();
    let any = |what: fn(&Process) -> bool| log.live().any(what);
    processes.any(Process::only_socket_tried)
        && !any(|process| process.ib_tried || process.ofi_failed)
}

/// No connection over a net is in view: what was chosen, and what was found.
fn chosen(log: &NcclLog, span: &Span, beside: &JobContext<'_>) -> Used {
    let nets: BTreeSet<Net> = log.live().filter_map(Process::net).collect();
    let other = nets.iter().find(|net| !tcp(**net)).copied();
    if nets.iter().any(|net| tcp(*net)) {
        return match other {
            // Ranks that chose differently: the widest communicator has not shown which won.
            Some(_) => Used {
                network: Network::Unknown,
                fallback: Fallback::Unknown,
            },
            None => tcp_chosen(log, span, beside),
        };
    }
    if span.multi == Some(false) {
        return Used {
            network: Network::None,
            fallback: Fallback::No,
        };
    }
    match other {
        Some(Net::Ofi) if log.live().any(|process| process.ofi_tcp) => {
            ofi_over_tcp(log, span, beside)
        }
        Some(net) => Used {
            network: of_net(log, net, &BTreeSet::new()),
            fallback: Fallback::No,
        },
        None => nothing_shown(log, beside),
    }
}

fn tcp_chosen(log: &NcclLog, span: &Span, beside: &JobContext<'_>) -> Used {
    let configured = configured(log, beside);
    let fallback = match span.multi {
        Some(false) if span.firm || !configured => {
            return Used {
                network: Network::None,
                fallback: Fallback::No,
            };
        }
        _ if configured => Fallback::Configured,
        // NVLink carries data between nodes where it reaches.
        Some(true) if perhaps_asked(log) => Fallback::Configured,
        Some(true) if !log.mnnvl && !log.whole.over.contains_key(&Transport::Mnnvl) => {
            Fallback::Yes
        }
        _ => Fallback::Unknown,
    };
    Used {
        network: Network::Socket,
        fallback,
    }
}

fn nothing_shown(log: &NcclLog, beside: &JobContext<'_>) -> Used {
    // The first net that comes up wins, and with a plugin that says nothing of a failure the
    // connections in view were made after that.
    let plugin = log
        .processes
        .values()
        .any(|process| process.ib_plugin && !process.ib_none);
    let fallback = if configured(log, beside) {
        Fallback::Configured
    } else if plugin && log.whole.any() {
        Fallback::No
    } else {
        Fallback::Unknown
    };
    Used {
        network: Network::Unknown,
        fallback,
    }
}

/// libfabric over a TCP provider is TCP under another name.
fn ofi_over_tcp(log: &NcclLog, span: &Span, beside: &JobContext<'_>) -> Used {
    let asked = log.live().any(|process| process.ofi_asked)
        || causes::variable(beside, "FI_PROVIDER").is_some();
    Used {
        network: Network::Ofi,
        fallback: match (asked, span.multi) {
            (true, _) => Fallback::Configured,
            (false, Some(true)) => Fallback::Yes,
            (false, Some(false)) => Fallback::No,
            (false, None) => Fallback::Unknown,
        },
    }
}

/// Whether a setting asked for sockets. NCCL_IB_DISABLE=1 is routine on EFA images, whose plugin
/// does not read it: where that plugin failed, or EFA devices were asked for, it excuses nothing.
pub(super) fn configured(log: &NcclLog, beside: &JobContext<'_>) -> bool {
    let any = |what: fn(&Process) -> bool| log.live().any(what);
    if any(|process| process.asks_socket || process.fast_socket)
        || log.whole.net(Net::FastSocket) > 0
        || any(|process| process.chosen == Some(Net::FastSocket))
        || log.printed_socket
    {
        return true;
    }
    if causes::variable(beside, "NCCL_NET").is_some_and(|net| net.eq_ignore_ascii_case("socket")) {
        return true;
    }
    let efa = any(|process| process.ofi_failed) || causes::asks_for_efa(beside);
    let off = any(|process| process.ib_disabled)
        || log.printed_ib_off
        || causes::variable(beside, "NCCL_IB_DISABLE").is_some_and(|value| value != "0");
    off && !efa
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

/// The link layer, by the list of devices: of those in use if that is known, else of all.
fn verbs(log: &NcclLog, nics: &BTreeSet<u32>) -> Network {
    let used: BTreeSet<Link> = nics
        .iter()
        .flat_map(|nic| [(*nic, Link::Ib), (*nic, Link::Roce)])
        .filter(|link| log.links.contains(link))
        .map(|(_, link)| link)
        .collect();
    let kinds = if used.is_empty() {
        &log.link_kinds
    } else {
        &used
    };
    let (ib, roce) = (kinds.contains(&Link::Ib), kinds.contains(&Link::Roce));
    match (ib, roce, log.roce_hint) {
        (true, false, _) => Network::Ib,
        (false, true, _) | (false, false, true) => Network::Roce,
        _ => Network::IbOrRoce,
    }
}
