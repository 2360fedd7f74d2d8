//! What led to a verdict, and what to do about it.

use super::context::JobContext;
use super::network::Fallback;
use super::span::Span;
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
    causes.extend(
        ROOTS
            .iter()
            .filter(|root| missed && seen(root) || lacking && **root == Failure::PluginMissing),
    );
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
fn settings(log: &NcclLog, context: &JobContext<'_>) -> impl Iterator<Item = Cause> {
    let any = |what: fn(&Process) -> bool| log.live().any(what);
    let sockets = any(|p| p.asks_socket) || log.printed_socket || context.wants_sockets();
    let fast_socket = any(|p| p.fast_socket || p.chosen == Some(Net::FastSocket));
    let verbs_off = any(|p| p.ib_disabled) || log.printed_ib_off || context.disables_verbs();
    let all = [
        (sockets, Failure::NetSocket),
        (fast_socket, Failure::FastSocket),
        (verbs_off, Failure::IbDisabled),
    ];
    all.into_iter()
        .filter(|(set, _)| *set)
        .map(|(_, cause)| cause)
}

/// Whether a plugin was requested, by name or with EFA devices, and none was found.
fn plugin_lacking(log: &NcclLog, context: &JobContext<'_>) -> bool {
    let name = log.env.get("NCCL_NET_PLUGIN").map(String::as_str);
    let name = name.or(context.variable("NCCL_NET_PLUGIN"));
    let requested = name.is_some_and(|name| !matches!(name, "" | "none")) || context.requests_efa();
    let found =
        |p: &Process| p.ofi || p.ofi_failed || p.ib_plugin || p.fast_socket || p.speaks.is_some();
    requested && log.live().any(|p| p.no_plugin) && !log.live().any(found)
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

/// What a cause means, and what to do.
pub fn remedy(cause: Cause) -> &'static str {
    match cause {
        Failure::NoDevice => {
            "NCCL found no verbs device in the container. Ask for the node's RDMA resource in the pod's limits; with it, look whether `ls /dev/infiniband` and `ibv_devices` show devices in the container, and whether NCCL_IB_HCA names one of them."
        }
        Failure::OpenDevice => {
            "A verbs device exists and cannot be opened. The container needs /dev/infiniband/uverbsN: ask for the RDMA resource of the device plugin; a hostPath mount alone is refused by the device cgroup."
        }
        Failure::LibibverbsMissing => {
            "libibverbs is not in the image, so verbs are impossible. Install libibverbs1 and ibverbs-providers (rdma-core) in the image."
        }
        Failure::PluginInit => {
            "The network plugin was loaded and could not start; NCCL tried the next network. Read the plugin's own lines above: on EFA, ask for vpc.amazonaws.com/efa, use matching versions of plugin and libfabric, check the security group; FI_LOG_LEVEL=warn logs more; elsewhere NCCL_NET_PLUGIN=none disables the plugin."
        }
        Failure::PluginMissing => {
            "The requested network plugin is not in the image. Add it to the image and its directory to LD_LIBRARY_PATH: libnccl-net.so, or libnccl-net-NAME.so for NCCL_NET_PLUGIN=NAME."
        }
        Failure::NetworkMissing => {
            "The network that NCCL_NET names is not available: the job fails instead of falling back. Remove NCCL_NET, or fix what keeps that network from starting."
        }
        Failure::GidIndex => {
            "A queue pair could not be connected: GID index, GID or route. NCCL_IB_GID_INDEX must be the index of a RoCE v2 GID with an address that the peers can reach (`show_gids`); if it is unset, NCCL 2.21 and later choose one. Unreachable or timed out: the NICs' subnets have no route to each other."
        }
        Failure::Memlock => {
            "Memory for RDMA cannot be locked. Give the container the capability IPC_LOCK (on OpenShift by an SCC), or lift the limit on locked memory (`ulimit -l`; LimitMEMLOCK=infinity of the container runtime)."
        }
        Failure::Shm => {
            "/dev/shm is too small. Mount an emptyDir with medium Memory and a sizeLimit of some GiB a GPU at /dev/shm."
        }
        Failure::Ifname => {
            "The interface for NCCL's own connections does not exist or has no address. NCCL_SOCKET_IFNAME (and NCCL_OOB_NET_IFNAME) must name an interface of the container: with Multus net1, else mostly eth0; a value without `=` is a prefix."
        }
        Failure::WrongInterface => {
            "TCP uses a bridge, a container's or the loopback interface, which other nodes may not reach. Set NCCL_SOCKET_IFNAME to the interface that joins the nodes (with Multus net1), or exclude with ^docker0,lo."
        }
        Failure::ConnectRefused => {
            "A peer refuses or does not answer connections. A NetworkPolicy, firewall or security group must allow all ports between the job's pods. No route or timed out: NCCL_SOCKET_IFNAME must choose an interface that joins the nodes. Refused: check that the peer's process is alive."
        }
        Failure::PeerReset => {
            "A peer closed its connection, usually because it failed first. Find the first error in the logs of the other ranks."
        }
        Failure::Bootstrap => {
            "Ranks cannot find each other: one checked in twice. Look for two jobs with one MASTER_ADDR and MASTER_PORT, or ranks assigned twice."
        }
        Failure::GdrDisabled => {
            "RDMA without GPUDirect: every byte goes through host memory. Load nvidia-peermem, or use the open kernel modules (DMA-BUF); iommu=pt; for GPUs and NICs far apart NCCL_NET_GDR_LEVEL=SYS; `selvage check` on the node shows which of these applies."
        }
        Failure::Dmabuf => {
            "GPU memory cannot be registered with the NIC. DMA-BUF needs the GPU's open kernel modules and a NIC driver that supports it; otherwise load nvidia-peermem; NCCL_DMABUF_ENABLE=0 shows which of the two fails."
        }
        Failure::IbError => {
            "A verbs operation failed on the wire or at the peer. Status 12 or 13: the peer is gone, or link, PFC, route or GID index lose packets (`selvage check` on both nodes); 4, 9 or 10: GPUDirect, ACS or memory; 5 only follows another error. Of many, the first one counts."
        }
        Failure::PortDown => {
            "A port went down while the job ran. Cable, optics or switch port: `selvage check` on that node names it."
        }
        Failure::DeviceFatal => {
            "A NIC failed while the job ran. The kernel log says why (`selvage check`); drain the node and reset the NIC."
        }
        Failure::QueuePair => {
            "A queue pair could not be created. Locked memory (IPC_LOCK, `ulimit -l`) or too many queue pairs on the device."
        }
        Failure::VersionMismatch => {
            "Ranks run different versions of NCCL. Use one image for all ranks; look for a second libnccl in LD_LIBRARY_PATH."
        }
        Failure::DuplicateGpu => {
            "Two ranks use one GPU. LOCAL_RANK or CUDA_VISIBLE_DEVICES is wrong; not the fabric."
        }
        Failure::Cuda => "CUDA or NVML failed. Not the fabric: check the GPU and its driver.",
        Failure::StrayClient => {
            "Something that is not NCCL connected to its port, or two jobs share one. Usually a port scanner or a scraper; harmless if the job goes on, otherwise give each job its own MASTER_PORT."
        }
        Failure::Iommu => "The IOMMU translates traffic between GPU and NIC. Boot with iommu=pt.",
        Failure::IbDisabled => {
            "NCCL_IB_DISABLE turns verbs off. Remove it from the manifest, the image or nccl.conf if RDMA is wanted."
        }
        Failure::NetSocket => {
            "NCCL_NET asks for sockets. Remove it from the manifest, the image or nccl.conf if RDMA is wanted."
        }
        Failure::FastSocket => {
            "Google's FastSocket plugin is installed: TCP by choice. On machines with RDMA or TCPX use the plugin for that."
        }
        Failure::IbNotTried => {
            "The log shows no attempt at verbs. NCCL_NET=Socket leaves no line in the log: check the manifest, the image and nccl.conf."
        }
        Failure::OfiTcp => {
            "libfabric chose a TCP provider. On EFA ask for vpc.amazonaws.com/efa and unset FI_PROVIDER; elsewhere remove the OFI plugin from the image."
        }
        Failure::InitHang => {
            "Init began and does not end. Compare the ranks: which have not started, and at which stage the others wait; check NetworkPolicy and NCCL_SOCKET_IFNAME first."
        }
        Failure::Secondary => {
            "An error passed on from another rank. Find the first error in the other ranks' logs."
        }
        Failure::Other => "A warning. Its line says what happened.",
    }
}
