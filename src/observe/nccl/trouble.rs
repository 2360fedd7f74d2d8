//! Kinds of trouble that NCCL's lines tell of.

use serde::{Deserialize, Serialize};

macro_rules! troubles {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A kind of trouble. The words are what `causes` and the label `cause` hold.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Trouble { $($(#[$doc])* $name,)* }

        impl Trouble {
            /// All of them.
            pub const ALL: &'static [Trouble] = &[$(Trouble::$name,)*];

            /// As in JSON and metrics.
            pub fn as_str(self) -> &'static str {
                match self { $(Trouble::$name => $text,)* }
            }
        }
    };
}

troubles! {
    /// `NET/IB : No device found.`
    NoDevice = "no_device",
    /// A verbs device cannot be opened: /dev/infiniband/uverbsN.
    OpenDevice = "open_device",
    /// libibverbs is not in the image.
    LibibverbsMissing = "libibverbs_missing",
    /// A network plugin was found and could not start.
    PluginInit = "plugin_init",
    /// A plugin that was asked for is not there.
    PluginMissing = "plugin_missing",
    /// The network that was asked for is not there: the job fails.
    NetworkMissing = "network_missing",
    /// GID index, GID or route of RoCE.
    GidIndex = "gid_index",
    /// Memory cannot be locked: ulimit, IPC_LOCK.
    Memlock = "memlock",
    /// /dev/shm is too small.
    Shm = "shm",
    /// An interface that does not exist or does not reach.
    Ifname = "ifname",
    /// TCP on an interface that leads nowhere: a bridge, a tunnel, loopback.
    WrongInterface = "wrong_interface",
    /// A peer refuses or does not answer a connection.
    ConnectRefused = "connect_refused",
    /// A peer closed a connection; mostly it failed first.
    PeerReset = "peer_reset",
    /// The bootstrap does not come together.
    Bootstrap = "bootstrap",
    /// No GPUDirect RDMA.
    GdrDisabled = "gdr_disabled",
    /// DMA-BUF registration fails.
    Dmabuf = "dmabuf",
    /// A verbs operation failed on the wire.
    IbError = "ib_error",
    /// A port went down under the job.
    PortDown = "port_down",
    /// A device died under the job.
    DeviceFatal = "device_fatal",
    /// Queue pairs cannot be made or connected.
    QueuePair = "queue_pair",
    /// Two versions of NCCL in one job.
    VersionMismatch = "version_mismatch",
    /// Two ranks on one GPU.
    DuplicateGpu = "duplicate_gpu",
    /// CUDA or NVML failed: not the fabric.
    Cuda = "cuda",
    /// A stranger connected to NCCL's port.
    StrayClient = "stray_client",
    /// The IOMMU translates between GPU and NIC.
    Iommu = "iommu",
    /// Verbs are switched off by NCCL_IB_DISABLE.
    IbDisabled = "ib_disabled",
    /// Sockets are asked for by NCCL_NET.
    NetSocket = "net_socket",
    /// Google's TCP plugin is installed.
    FastSocket = "fast_socket",
    /// No line of an attempt at verbs is in view.
    IbNotTried = "ib_not_tried",
    /// libfabric chose a TCP provider.
    OfiTcp = "ofi_tcp",
    /// Init began and did not end.
    InitHang = "init_hang",
    /// Secondary: an error passed on.
    Secondary = "secondary",
    /// A warning that is none of these.
    Other = "other",
}
