//! What led to it, and what to do about it, in plain words.

use super::JobContext;
use super::span::Span;
use super::verdict::Fallback;
use crate::observe::nccl::process::Process;
use crate::observe::nccl::{NcclLog, Net, Trouble};

/// A kind of cause: the same words as for trouble in a line.
pub type Cause = Trouble;

/// Troubles that tell why verbs did not come up; the order is that of likelihood as the root.
const ROOTS: &[Trouble] = &[
    Trouble::PluginMissing,
    Trouble::PluginInit,
    Trouble::LibibverbsMissing,
    Trouble::OpenDevice,
    Trouble::NoDevice,
];

/// Troubles that end or harm a job whatever it uses.
const OTHERS: &[Trouble] = &[
    Trouble::NetworkMissing,
    Trouble::VersionMismatch,
    Trouble::DuplicateGpu,
    Trouble::Memlock,
    Trouble::GidIndex,
    Trouble::Shm,
    Trouble::Ifname,
    Trouble::DeviceFatal,
    Trouble::PortDown,
    Trouble::IbError,
    Trouble::QueuePair,
    Trouble::Dmabuf,
    Trouble::Bootstrap,
    Trouble::ConnectRefused,
    Trouble::PeerReset,
    Trouble::Cuda,
    Trouble::StrayClient,
    Trouble::Iommu,
];

/// Causes, the likeliest root first.
pub(super) fn causes(
    log: &NcclLog,
    beside: &JobContext<'_>,
    span: &Span,
    fallback: Fallback,
    gdrdma: Option<bool>,
    hang: bool,
) -> Vec<Cause> {
    let any = |what: fn(&Process) -> bool| log.live().any(what);
    let seen = |trouble: &Trouble| log.troubles.contains_key(trouble);
    let tcp = matches!(
        fallback,
        Fallback::Yes | Fallback::Configured | Fallback::Unknown
    ) && (log.whole.net(Net::Socket) > 0 || any(|p| p.net() == Some(Net::Socket)));
    let mut causes = Vec::new();
    if fallback == Fallback::Configured {
        if any(|p| p.asks_socket)
            || log.printed_socket
            || variable(beside, "NCCL_NET").is_some_and(|net| net.eq_ignore_ascii_case("socket"))
        {
            causes.push(Trouble::NetSocket);
        }
        if any(|p| p.fast_socket || p.chosen == Some(Net::FastSocket)) {
            causes.push(Trouble::FastSocket);
        }
        if any(|p| p.ib_disabled)
            || log.printed_ib_off
            || variable(beside, "NCCL_IB_DISABLE").is_some_and(|value| value != "0")
        {
            causes.push(Trouble::IbDisabled);
        }
    }
    // That a node without verbs finds none is no trouble until somebody misses them.
    let missed = tcp || span.multi != Some(false);
    let lacking = missed && plugin_lacking(log, beside);
    let root =
        |root: &&Trouble| missed && seen(root) || lacking && **root == Trouble::PluginMissing;
    causes.extend(ROOTS.iter().filter(root));
    if any(|p| p.ofi_tcp) {
        causes.push(Trouble::OfiTcp);
    }
    if matches!(fallback, Fallback::Yes | Fallback::Configured)
        && causes.is_empty()
        && !any(|p| p.ib_tried)
    {
        causes.push(Trouble::IbNotTried);
    }
    if tcp && span.multi != Some(false) && leads_nowhere(log) {
        causes.push(Trouble::WrongInterface);
    }
    causes.extend(OTHERS.iter().filter(|other| seen(other)));
    if gdrdma == Some(false) && verbs(log) {
        causes.push(Trouble::GdrDisabled);
    }
    if hang {
        causes.push(Trouble::InitHang);
    }
    let mut told = Vec::new();
    causes.retain(|cause| {
        let new = !told.contains(cause);
        told.push(*cause);
        new
    });
    causes
}

/// A plugin was asked for, by name or with EFA devices, and none was found.
fn plugin_lacking(log: &NcclLog, beside: &JobContext<'_>) -> bool {
    let name = log.env.get("NCCL_NET_PLUGIN").map(String::as_str);
    let name = name.or(variable(beside, "NCCL_NET_PLUGIN"));
    let asked = name.is_some_and(|name| !matches!(name, "" | "none")) || asks_for_efa(beside);
    let there =
        |p: &Process| p.ofi || p.ofi_failed || p.ib_plugin || p.fast_socket || p.speaks.is_some();
    asked && log.live().any(|p| p.no_plugin) && !log.live().any(there)
}

fn verbs(log: &NcclLog) -> bool {
    log.whole.net(Net::Ib) > 0 || log.live().any(|p| p.net() == Some(Net::Ib))
}

/// TCP on interfaces of containers, bridges and tunnels only.
fn leads_nowhere(log: &NcclLog) -> bool {
    const INNER: [&str; 7] = ["docker", "virbr", "veth", "br-", "cni", "flannel", "lo"];
    let inner = |name: &String| INNER.iter().any(|start| name.starts_with(start));
    !log.interfaces.is_empty() && log.interfaces.iter().any(inner)
}

/// A variable of the container's manifest.
pub(super) fn variable<'a>(beside: &JobContext<'a>, name: &str) -> Option<&'a str> {
    beside.container?.env.get(name).map(String::as_str)
}

/// Whether the container asks for EFA devices.
pub(super) fn asks_for_efa(beside: &JobContext<'_>) -> bool {
    let rdma = beside.container.map(|container| &container.rdma);
    rdma.is_some_and(|rdma| rdma.keys().any(|name| name.ends_with("/efa")))
}

/// What a cause means and what to do: a sentence each.
pub fn remedy(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Trouble::NoDevice => (
            "NCCL found no verbs device in the container",
            "Ask for the node's RDMA resource in the pod's limits; with it, look whether `ls /dev/infiniband` and `ibv_devices` show devices in the container, and whether NCCL_IB_HCA names one of them",
        ),
        Trouble::OpenDevice => (
            "A verbs device is there and cannot be opened",
            "The container needs /dev/infiniband/uverbsN: ask for the RDMA resource of the device plugin; a hostPath mount alone is refused by the device cgroup",
        ),
        Trouble::LibibverbsMissing => (
            "libibverbs is not in the image, so that verbs are impossible",
            "Install libibverbs1 and ibverbs-providers (rdma-core) in the image",
        ),
        Trouble::PluginInit => (
            "The network plugin was loaded and could not start; NCCL went on to the next network",
            "Look at the plugin's own lines above: on EFA, ask for vpc.amazonaws.com/efa, take a plugin and a libfabric that fit each other, check the security group; FI_LOG_LEVEL=warn says more; elsewhere NCCL_NET_PLUGIN=none leaves the plugin out",
        ),
        Trouble::PluginMissing => (
            "The network plugin that was asked for is not in the image",
            "Put it into the image and its directory into LD_LIBRARY_PATH: libnccl-net.so, or libnccl-net-NAME.so of NCCL_NET_PLUGIN=NAME",
        ),
        Trouble::NetworkMissing => (
            "The network that NCCL_NET names could not be had: the job fails rather than fall back",
            "Take NCCL_NET away or mend what keeps that network from starting",
        ),
        Trouble::GidIndex => (
            "A queue pair could not be connected: GID index, GID or route",
            "NCCL_IB_GID_INDEX must be the index of a RoCE v2 GID with the address that the peers reach (`show_gids`); unset, NCCL 2.21 and later choose it. Unreachable or timed out: no route between the NICs' subnets",
        ),
        Trouble::Memlock => (
            "Memory for RDMA cannot be locked",
            "Give the container the capability IPC_LOCK (on OpenShift by an SCC), or lift the limit on locked memory (`ulimit -l`; LimitMEMLOCK=infinity of the container runtime)",
        ),
        Trouble::Shm => (
            "/dev/shm is too small",
            "Mount an emptyDir with medium Memory and a sizeLimit of some GiB a GPU at /dev/shm",
        ),
        Trouble::Ifname => (
            "The interface for NCCL's own connections does not exist or has no address",
            "NCCL_SOCKET_IFNAME (and NCCL_OOB_NET_IFNAME) must name an interface of the container: with Multus net1, else mostly eth0; a value without `=` is a prefix",
        ),
        Trouble::WrongInterface => (
            "TCP is on a bridge, a container's or the loopback interface, which other nodes may not reach",
            "Set NCCL_SOCKET_IFNAME to the interface that joins the nodes (with Multus net1), or exclude with ^docker0,lo",
        ),
        Trouble::ConnectRefused => (
            "A peer refuses or does not answer connections",
            "A NetworkPolicy, firewall or security group must let all ports through between the job's pods. No route or timed out: NCCL_SOCKET_IFNAME must choose an interface that joins the nodes. Refused: look whether that peer's process is alive",
        ),
        Trouble::PeerReset => (
            "A peer closed its connection: mostly it failed first",
            "Look at the logs of the other ranks for the first error",
        ),
        Trouble::Bootstrap => (
            "Ranks do not come together: one checked in twice",
            "Look for two jobs on one MASTER_ADDR and MASTER_PORT, or ranks given out twice",
        ),
        Trouble::GdrDisabled => (
            "RDMA without GPUDirect: each byte goes through the host's memory",
            "Load nvidia-peermem, or use the open kernel modules (DMA-BUF); iommu=pt; for GPUs and NICs far apart NCCL_NET_GDR_LEVEL=SYS; `selvage check` on the node tells which of these it is",
        ),
        Trouble::Dmabuf => (
            "Memory of the GPU cannot be registered with the NIC",
            "DMA-BUF needs the open kernel modules of the GPU and a NIC driver that can do it; else load nvidia-peermem; NCCL_DMABUF_ENABLE=0 tells which of the two fails",
        ),
        Trouble::IbError => (
            "A verbs operation failed on the wire or at the peer",
            "Status 12 or 13: the peer is gone, or link, PFC, route or GID index lose packets (`selvage check` on both nodes); 4, 9 or 10: GPUDirect, ACS or memory; 5 only follows another. Of many, the first one counts",
        ),
        Trouble::PortDown => (
            "A port went down under the job",
            "Cable, optics or switch port: `selvage check` on that node names it",
        ),
        Trouble::DeviceFatal => (
            "A NIC died under the job",
            "The kernel log says why (`selvage check`); drain the node and reset the NIC",
        ),
        Trouble::QueuePair => (
            "A queue pair could not be made",
            "Locked memory (IPC_LOCK, `ulimit -l`) or too many queue pairs on the device",
        ),
        Trouble::VersionMismatch => (
            "Ranks run different versions of NCCL",
            "Use one image for all ranks; look for a second libnccl in LD_LIBRARY_PATH",
        ),
        Trouble::DuplicateGpu => (
            "Two ranks use one GPU",
            "LOCAL_RANK or CUDA_VISIBLE_DEVICES is wrong; not the fabric",
        ),
        Trouble::Cuda => (
            "CUDA or NVML failed",
            "Not the fabric: look at the GPU and its driver",
        ),
        Trouble::StrayClient => (
            "Something that is not NCCL connected to its port, or two jobs share one",
            "A port scanner or a scraper mostly; harmless if the job goes on, else give each job a MASTER_PORT of its own",
        ),
        Trouble::Iommu => (
            "The IOMMU translates what GPU and NIC send each other",
            "Boot with iommu=pt",
        ),
        Trouble::IbDisabled => (
            "NCCL_IB_DISABLE switches verbs off",
            "Take it out of the manifest, the image or nccl.conf where RDMA is wanted",
        ),
        Trouble::NetSocket => (
            "NCCL_NET asks for sockets",
            "Take it out of the manifest, the image or nccl.conf where RDMA is wanted",
        ),
        Trouble::FastSocket => (
            "Google's FastSocket plugin is installed: TCP by choice",
            "On machines with RDMA or TCPX use their plugin",
        ),
        Trouble::IbNotTried => (
            "No line of an attempt at verbs is in view",
            "NCCL_NET=Socket leaves no line: look into the manifest, the image and nccl.conf",
        ),
        Trouble::OfiTcp => (
            "libfabric chose a TCP provider",
            "On EFA ask for vpc.amazonaws.com/efa and unset FI_PROVIDER; elsewhere take the OFI plugin out of the image",
        ),
        Trouble::InitHang => (
            "Init began and does not end",
            "Compare the ranks: who has not begun, and at which stage the others wait; NetworkPolicy and NCCL_SOCKET_IFNAME first",
        ),
        Trouble::Secondary => (
            "An error passed on",
            "Look for the first error in the other ranks' logs",
        ),
        Trouble::Other => ("A warning", "Its line says what it is about"),
    }
}
