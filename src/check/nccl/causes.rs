//! What led to a verdict, and what to do about it.

use super::context::JobContext;
use super::network::Fallback;
use super::span::Span;
use crate::data_files::line_of;
use crate::observe::nccl::process::Process;
use crate::observe::nccl::{Failure, NcclLog, Net};

/// A cause of a verdict: a failure that a line shows, or a conclusion from the whole log.
pub type Cause = Failure;

/// Failures that keep verbs or a plugin from starting; the likeliest root cause first.
const ROOTS: [Failure; 5] = [
    Failure::PluginMissing,
    Failure::PluginInit,
    Failure::LibibverbsMissing,
    Failure::OpenDevice,
    Failure::NoDevice,
];

/// Failures that end or harm a job on any network.
const OTHERS: [Failure; 18] = [
    Failure::NetworkMissing,
    Failure::VersionMismatch,
    Failure::DuplicateGpu,
    Failure::Memlock,
    Failure::GidIndex,
    Failure::Shm,
    Failure::Ifname,
    Failure::DeviceFatal,
    Failure::PortDown,
    Failure::IbError,
    Failure::QueuePair,
    Failure::Dmabuf,
    Failure::Bootstrap,
    Failure::ConnectRefused,
    Failure::PeerReset,
    Failure::Cuda,
    Failure::StrayClient,
    Failure::Iommu,
];

/// The part of a verdict that causes depend on.
pub(super) struct Judged<'a> {
    pub span: &'a Span,
    pub fallback: Fallback,
    pub gdrdma: Option<bool>,
    pub hangs: bool,
}

/// Causes, the likeliest root first.
pub(super) fn causes(log: &NcclLog, context: &JobContext<'_>, judged: &Judged<'_>) -> Vec<Cause> {
    let any = |what: fn(&Process) -> bool| log.live().any(what);
    let seen = |failure: &Failure| log.failures.contains_key(failure);
    let multi = judged.span.multi != Some(false);
    let tcp = judged.fallback != Fallback::No
        && (log.channels.net(Net::Socket) > 0 || any(|p| p.net() == Some(Net::Socket)));
    let mut causes = Vec::new();
    if judged.fallback == Fallback::Configured {
        causes.extend(settings(log, context));
    }
    // A node without verbs finds none; that matters only if the job needs the network.
    let missed = tcp || multi;
    let lacking = missed && plugin_lacking(log, context);
    let is_lacking = |root: &Failure| lacking && *root == Failure::PluginMissing;
    let fits = |root: &&Failure| missed && seen(root) || is_lacking(root);
    causes.extend(ROOTS.iter().filter(fits));
    if tcp && any(|p| p.plugin_failed) && !causes.contains(&Failure::PluginInit) {
        causes.push(Failure::PluginInit);
    }
    if any(|p| p.ofi_tcp) {
        causes.push(Failure::OfiTcp);
    }
    let by_tcp = matches!(judged.fallback, Fallback::Yes | Fallback::Configured);
    if by_tcp && causes.is_empty() && !any(|p| p.ib_tried) {
        causes.push(Failure::IbNotTried);
    }
    if tcp && multi && on_inner_interface(log) {
        causes.push(Failure::WrongInterface);
    }
    causes.extend(OTHERS.iter().filter(|other| seen(other)));
    if judged.gdrdma == Some(false) && uses_verbs(log) {
        causes.push(Failure::GdrDisabled);
    }
    if judged.hangs {
        causes.push(Failure::InitHang);
    }
    causes
}

/// The settings that ask for TCP.
pub(super) fn settings(log: &NcclLog, context: &JobContext<'_>) -> Vec<Cause> {
    let any = |what: fn(&Process) -> bool| log.live().any(what);
    let sockets = any(|p| p.asks_socket) || log.printed_socket || context.wants_sockets();
    let fast_socket = any(|p| p.fast_socket || p.chosen == Some(Net::FastSocket));
    let verbs_off = any(|p| p.ib_disabled) || log.printed_ib_off || context.disables_verbs();
    let all = [
        (sockets, Failure::NetSocket),
        (fast_socket, Failure::FastSocket),
        (verbs_off, Failure::IbDisabled),
    ];
    let set = all.into_iter().filter(|(set, _)| *set);
    set.map(|(_, cause)| cause).collect()
}

/// Whether a plugin was requested, by name, by its own settings or with EFA devices, and none was found.
pub(super) fn plugin_lacking(log: &NcclLog, context: &JobContext<'_>) -> bool {
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

fn uses_verbs(log: &NcclLog) -> bool {
    log.channels.net(Net::Ib) > 0 || log.live().any(|p| p.net() == Some(Net::Ib))
}

/// Whether TCP uses an interface of containers, bridges or tunnels.
fn on_inner_interface(log: &NcclLog) -> bool {
    const INNER: [&str; 7] = ["docker", "virbr", "veth", "br-", "cni", "flannel", "lo"];
    let inner = |name: &String| INNER.iter().any(|start| name.starts_with(start));
    log.interfaces.iter().any(inner)
}

/// What each cause means, and what to do: `NAME: TEXT`.
const REMEDIES: &str = include_str!("remedies.txt");

/// What a cause means, and what to do.
pub fn remedy(cause: Cause) -> &'static str {
    line_of(REMEDIES, cause.as_str()).unwrap_or_default()
}
