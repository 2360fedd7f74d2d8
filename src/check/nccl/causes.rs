//! What led to a verdict, and what to do about it.

use super::network::{Fallback, all_by_nvlink};
use super::{span::Job, verdict::NcclVerdict};
use crate::data_files::{embedded, line_of};
use crate::observe::nccl::{Failure, NcclLog, Net, Process};
use serde::Deserialize;
use std::sync::LazyLock;

/// A cause of a verdict: a failure that a line shows, or a conclusion from the whole log.
pub type Cause = Failure;

/// Failures that a log shows, each list with the likeliest root cause first: `causes.toml`.
#[derive(Default, Deserialize)]
struct Order {
    roots: Vec<Failure>,
    others: Vec<Failure>,
}

static ORDER: LazyLock<Order> = LazyLock::new(|| embedded(include_str!("causes.toml")));

/// Causes, the likeliest root first.
pub(super) fn causes(job: &Job<'_>, judged: &NcclVerdict) -> Vec<Cause> {
    let log = job.log;
    let any = |what: fn(&Process) -> bool| log.live().any(what);
    let seen = |failure: &Failure| log.failures.contains_key(failure);
    let multi = job.multi != Some(false) && all_by_nvlink(job) != Some(true);
    let tcp = judged.tcp_fallback != Fallback::No
        && (log.channels.net(Net::Socket) > 0 || any(|p| p.net() == Some(Net::Socket)));
    let mut causes = Vec::new();
    if judged.tcp_fallback == Fallback::Configured {
        causes.extend(settings(job, true));
    }
    // A node without verbs finds none; that matters only if the job needs the network.
    let missed = tcp || multi;
    let lacking = missed && plugin_lacking(job);
    let is_lacking = |root: &Failure| lacking && *root == Failure::PluginMissing;
    // Another plugin may have looked in vain before NCCL itself found some, and it goes on without a device that
    // it cannot open (`ncclIbInitDevices` in src/transport/net_ib).
    let refutable = [Failure::NoDevice, Failure::OpenDevice];
    let lacks = |p: &Process| p.ib_none || !p.ib_found && !p.ib_at_work;
    let stands = |root: &Failure| !refutable.contains(root) || any(lacks);
    let fits = |root: &&Failure| missed && seen(root) && stands(root) || is_lacking(root);
    causes.extend(ORDER.roots.iter().filter(fits));
    if tcp && any(|p| p.plugin_failed) && !causes.contains(&Failure::PluginInit) {
        causes.push(Failure::PluginInit);
    }
    causes.extend(any(|p| p.ofi_tcp).then_some(Failure::OfiTcp));
    let by_tcp = matches!(judged.tcp_fallback, Fallback::Yes | Fallback::Configured);
    if by_tcp && causes.is_empty() && !seen(&Failure::Ifname) {
        causes.push(match any(|p| p.ib_none) {
            true => Failure::NoDevice,
            // With NCCL_NET=Socket they would not have been tried (`ncclNetInit` in src/plugin/net.cc).
            false if any(|p| p.ib_refused && !p.env_shown) => Failure::IbDisabled,
            false => Failure::IbNotTried,
        });
    }
    let wrong_interface = tcp && multi && on_inner_interface(log);
    causes.extend(wrong_interface.then_some(Failure::WrongInterface));
    causes.extend(ORDER.others.iter().filter(|other| seen(other)));
    let verbs = log.nets().iter().any(|(net, _)| *net == Net::Ib);
    let of_verbs = verbs || any(|p| p.net() == Some(Net::Ib));
    let gdr_off = judged.gdrdma == Some(false) && of_verbs;
    causes.extend(gdr_off.then_some(Failure::GdrDisabled));
    causes.extend(judged.init_hangs_since.map(|_| Failure::InitHang));
    causes
}

/// The settings that ask for TCP. `printed`: also those that only a printed command line shows.
pub(super) fn settings(job: &Job<'_>, printed: bool) -> Vec<Cause> {
    let (log, context) = (job.log, job.context);
    let any = |what: fn(&Process) -> bool| log.live().any(what);
    let asked = printed && log.printed_socket || context.wants_sockets();
    let sockets = any(|p| p.asks_socket) || asked;
    let fast_socket = any(|p| p.fast_socket || p.chosen == Some(Net::FastSocket));
    // What NCCL itself prints of it counts more than what a script or the manifest says.
    let asked = printed && log.printed_ib_off || context.disables_verbs();
    // It looks for devices only where verbs are not disabled (`ncclIbInit` in src/transport/net_ib.cc). NVIDIA's
    // plugin always does: lines in view must show that there is none.
    let own = |p: &Process| (p.begun || p.no_plugin) && p.ib_searched && !p.ib_plugin;
    let allowed = any(|p| p.ib_allowed) || any(own);
    let verbs_off = any(|p| p.ib_disabled) || asked && !allowed;
    let all = [
        (sockets, Failure::NetSocket),
        (fast_socket, Failure::FastSocket),
        (verbs_off, Failure::IbDisabled),
    ];
    let set = all.into_iter().filter(|(set, _)| *set);
    set.map(|(_, cause)| cause).collect()
}

/// Whether a plugin was requested, by name, by its own settings or with EFA devices, and none was found.
pub(super) fn plugin_lacking(job: &Job<'_>) -> bool {
    let (log, context) = (job.log, job.context);
    let set = |name| (log.env.get(name).map(String::as_str)).or(context.variable(name));
    let file = set("NCCL_NET_PLUGIN").is_some_and(|name| {
        !matches!(name, "" | "libnccl-net-none.so") && !name.eq_ignore_ascii_case("none")
    });
    let net = set("NCCL_NET").is_some_and(|net| !matches!(Net::of(net), Net::Ib | Net::Socket));
    let requested = file || net || context.requests_plugin();
    let found = |p: &Process| {
        p.plugin_loaded || p.ofi || p.plugin_failed || p.fast_socket || p.speaks.is_some()
    };
    let missing = |p: &Process| p.plugin_not_found || requested && p.no_plugin;
    log.live().any(missing) && !log.live().any(found)
}

/// Whether TCP uses interfaces of containers, bridges or tunnels alone.
fn on_inner_interface(log: &NcclLog) -> bool {
    const INNER: [&str; 7] = ["docker", "virbr", "veth", "br-", "cni", "flannel", "lo"];
    let inner = |name: &String| INNER.iter().any(|start| name.starts_with(start));
    !log.interfaces.is_empty() && log.interfaces.iter().all(inner)
}

/// A setting that keeps GPUDirect RDMA to GPUs near the NIC, or from reading a GPU (`ncclTopoCheckGdr` in
/// src/graph/paths.cc), and its value.
pub(super) fn gdr_setting(log: &NcclLog) -> Option<(&'static str, &str)> {
    let settings = ["NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ"].into_iter();
    let mut set = settings.filter_map(|name| Some((name, log.env.get(name)?.as_str())));
    set.find(|(name, value)| match *name {
        "NCCL_NET_GDR_READ" => *value == "0",
        // Less than the default, by name and by number.
        _ => matches!(*value, "LOC" | "PIX" | "0" | "1"),
    })
}

/// What each cause means, and what to do: `NAME: TEXT`.
const REMEDIES: &str = include_str!("remedies.txt");

/// What a cause means, and what to do.
pub fn remedy(cause: Cause) -> &'static str {
    line_of(REMEDIES, cause.as_str()).unwrap_or_default()
}
