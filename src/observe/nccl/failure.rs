//! Kinds of failures in NCCL's logs.

use crate::settings_macro::words;

words! {
    /// A kind of failure. Its name is a value of `causes` in JSON and of the label `cause`.
    Failure {
        /// `NET/IB : No device found.`
        NoDevice = "no_device",
        /// A verbs device cannot be opened: /dev/infiniband/uverbsN.
        OpenDevice = "open_device",
        /// libibverbs is not in the image.
        LibibverbsMissing = "libibverbs_missing",
        /// A network plugin was found and could not start.
        PluginInit = "plugin_init",
        /// A requested plugin was not found.
        PluginMissing = "plugin_missing",
        /// The requested network is not available: the job fails.
        NetworkMissing = "network_missing",
        /// GID index, GID or route of RoCE is wrong.
        GidIndex = "gid_index",
        /// Memory cannot be locked: ulimit, IPC_LOCK.
        Memlock = "memlock",
        /// /dev/shm is too small.
        Shm = "shm",
        /// An interface does not exist or has no address.
        Ifname = "ifname",
        /// TCP uses an interface that other nodes may not reach: a bridge, a tunnel, loopback.
        WrongInterface = "wrong_interface",
        /// A peer refuses or does not answer a connection.
        ConnectRefused = "connect_refused",
        /// A peer closed a connection, usually because it failed first.
        PeerReset = "peer_reset",
        /// Ranks cannot find each other.
        Bootstrap = "bootstrap",
        /// RDMA works without GPUDirect.
        GdrDisabled = "gdr_disabled",
        /// DMA-BUF registration fails.
        Dmabuf = "dmabuf",
        /// A verbs operation failed on the wire.
        IbError = "ib_error",
        /// A port went down while the job ran.
        PortDown = "port_down",
        /// A device failed while the job ran.
        DeviceFatal = "device_fatal",
        /// Queue pairs cannot be created or connected.
        QueuePair = "queue_pair",
        /// Ranks run different versions of NCCL.
        VersionMismatch = "version_mismatch",
        /// Two ranks use the same GPU.
        DuplicateGpu = "duplicate_gpu",
        /// CUDA or NVML failed: not the fabric.
        Cuda = "cuda",
        /// Another program connected to NCCL's port.
        StrayClient = "stray_client",
        /// The IOMMU translates between GPU and NIC.
        Iommu = "iommu",
        /// NCCL_IB_DISABLE turns verbs off.
        IbDisabled = "ib_disabled",
        /// NCCL_NET asks for sockets.
        NetSocket = "net_socket",
        /// FastSocket, Google's TCP plugin, is installed.
        FastSocket = "fast_socket",
        /// The log shows no attempt at verbs.
        IbNotTried = "ib_not_tried",
        /// libfabric chose a TCP provider.
        OfiTcp = "ofi_tcp",
        /// Init started and does not end.
        InitHang = "init_hang",
        /// An error passed on from another rank.
        Secondary = "secondary",
        /// Any other warning.
        Other = "other",
    }
}
