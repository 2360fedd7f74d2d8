//! Every reason that an item can have, and what to change: the page's table.

/// Item, reason, remedy in short.
pub const REASONS: &[(&str, &str, &str)] = &[
    (
        "uverbs",
        "NoRdmaDevice",
        "`resources.limits`: the RDMA resource of this cluster (`rdma/…`, `nvidia.com/mlnxnics`, `openshift.io/…`, `vpc.amazonaws.com/efa`)",
    ),
    (
        "uverbs",
        "NoUverbs",
        "the same: the node has devices, this container none",
    ),
    (
        "uverbs",
        "UverbsDenied",
        "the same: a hostPath of `/dev/infiniband` is refused by the device cgroup",
    ),
    (
        "uverbs",
        "UverbsPartly",
        "some nodes cannot be opened: the same, or see to the device",
    ),
    (
        "uverbs",
        "UverbsFewer",
        "the same: the node has more rails than this container was given, and the job's GPUs could use them",
    ),
    (
        "uverbs",
        "UverbsBroken",
        "the device goes away as it is opened: `selvage check` on the node",
    ),
    (
        "uverbs",
        "NoThread",
        "the container's limit of processes (pids cgroup, `ulimit -u`): nothing could be asked",
    ),
    (
        "uverbs",
        "UverbsStalled",
        "the device or its driver is stuck: drain the node",
    ),
    (
        "uverbs",
        "RdmaUnreadable",
        "what keeps `/sys/class/infiniband` from being read",
    ),
    (
        "rdma_ports",
        "NoActivePort",
        "`selvage check` on the node; another node",
    ),
    ("rdma_ports", "PortDown", "the same, for some of the ports"),
    (
        "rdma_ports",
        "PortStateUnreadable",
        "`selvage check` on the node",
    ),
    (
        "ib_hca",
        "HcaMatchesNothing",
        "`NCCL_IB_HCA`: unset it, or the names that the message lists",
    ),
    (
        "ib_hca",
        "HcaMixed",
        "`NCCL_IB_HCA`: without the ports of another link layer, or at half the rate, that it names",
    ),
    (
        "ib_hca",
        "HcaPartly",
        "`NCCL_IB_HCA`: take out what is not there; a usable port is left out",
    ),
    (
        "ib_hca",
        "HcaPrefix",
        "`NCCL_IB_HCA`: `=` in front, for whole names",
    ),
    (
        "ib_hca",
        "HcaFewer",
        "`NCCL_IB_HCA`: unset it, or name a rail for each GPU",
    ),
    (
        "gid_index",
        "GidNotRoceV2",
        "`NCCL_IB_GID_INDEX`: unset it, or the index of the v2 address; RoCE v1 reaches one network segment only (`NCCL_IB_ROCE_VERSION_NUM=1` asks for it)",
    ),
    (
        "gid_index",
        "GidEmpty",
        "the same: there is no GID at this index",
    ),
    (
        "gid_index",
        "GidLinkLocal",
        "the same: fe80 reaches one network segment only",
    ),
    (
        "gid_index",
        "GidOfAnotherInterface",
        "the same: the address is not this container's, and there is one that is",
    ),
    (
        "gid_index",
        "NoUsableGid",
        "an IP address for the RDMA interface (`ipam` of its network attachment)",
    ),
    (
        "gid_index",
        "GidUnreadable",
        "what keeps the GID table from being read",
    ),
    (
        "nccl_network",
        "TcpConfigured",
        "`NCCL_NET=Socket` or `NCCL_IB_DISABLE`: take it out (manifest, image, `nccl.conf`)",
    ),
    (
        "nccl_network",
        "NetNotAvailable",
        "`NCCL_NET`: unset it; NCCL ends where its network is not there",
    ),
    ("nccl_network", "RdmaUnreadable", "as for `uverbs`"),
    (
        "nccl_settings",
        "SettingsUnreadable",
        "what keeps NCCL's own file (`NCCL_CONF_FILE`, `~/.nccl.conf`, `/etc/nccl.conf`) from being read",
    ),
    (
        "nccl_settings",
        "GraphFileMissing",
        "`NCCL_GRAPH_FILE`: unset it, or mount the file; NCCL ends without",
    ),
    (
        "nccl_settings",
        "TopoFileMissing",
        "`NCCL_TOPO_FILE`: unset it, or mount the file; NCCL goes on without",
    ),
    (
        "nccl_settings",
        "NoRailInterface",
        "`NCCL_FASTRAK_IFNAME`, `NCCL_GPUDIRECTTCPX_SOCKET_IFNAME` and `…CTRL_DEV`: interfaces that are here",
    ),
    (
        "nccl_settings",
        "NotANumber",
        "the variable: a number; NCCL takes a word for 0",
    ),
    (
        "nccl_settings",
        "NotAnAddressFamily",
        "`NCCL_SOCKET_FAMILY`: `AF_INET` or `AF_INET6`",
    ),
    (
        "nccl_settings",
        "P2pDisabled",
        "`NCCL_P2P_DISABLE`: unset it",
    ),
    (
        "libibverbs",
        "LibibverbsMissing",
        "the image: libibverbs1 and ibverbs-providers",
    ),
    (
        "libibverbs",
        "LibraryUnreadable",
        "what keeps the image's libraries from being read",
    ),
    (
        "net_plugin",
        "PluginMissing",
        "`NCCL_NET_PLUGIN`, `LD_LIBRARY_PATH`, or the mount that brings the plugin",
    ),
    (
        "net_plugin",
        "OfiProvider",
        "`FI_PROVIDER`: `efa`, or unset",
    ),
    ("net_plugin", "LibraryUnreadable", "as for `libibverbs`"),
    (
        "socket_ifname",
        "NoInterface",
        "`NCCL_SOCKET_IFNAME`: one that is here, up, and has an address; or unset",
    ),
    (
        "socket_ifname",
        "InterfacePartly",
        "`NCCL_SOCKET_IFNAME`: without the blank, or the names that are not here",
    ),
    (
        "socket_ifname",
        "LocalInterface",
        "`NCCL_SOCKET_IFNAME`: not lo, docker0 or virbr0; or the pod's network",
    ),
    (
        "socket_ifname",
        "LinkLocalAddress",
        "an address for the interface, or another one",
    ),
    (
        "socket_ifname",
        "InterfacesUnreadable",
        "what keeps the interfaces from being listed",
    ),
    (
        "gloo_ifname",
        "NoInterface",
        "`GLOO_SOCKET_IFNAME`: whole names of interfaces that have an address",
    ),
    (
        "gloo_ifname",
        "LocalInterface",
        "`GLOO_SOCKET_IFNAME`: not lo",
    ),
    (
        "gloo_ifname",
        "InterfacesUnreadable",
        "as for `socket_ifname`",
    ),
    (
        "ucx_devices",
        "NoUcxDevice",
        "`UCX_NET_DEVICES`: `mlx5_0:1` with its port, or an interface",
    ),
    (
        "ucx_devices",
        "UcxPartly",
        "the same, for some of the names",
    ),
    (
        "ucx_devices",
        "UcxNewForm",
        "the same: a device without its port needs UCX 1.21, a range (`mlx5_[0-7]:1`) 1.22",
    ),
    (
        "ucx_devices",
        "UcxWithoutRdma",
        "`UCX_TLS`: unset it, or add `rc`; `UCX_NET_DEVICES`: an RDMA device; where NCCL goes over UCX (`NCCL_PLUGIN_P2P=ucx`, a UCX plugin)",
    ),
    (
        "ucx_devices",
        "InterfacesUnreadable",
        "as for `socket_ifname`",
    ),
    (
        "mpi_ifname",
        "NoInterface",
        "`OMPI_MCA_btl_tcp_if_include`, `…oob_tcp_if_include`: interfaces or networks that are here",
    ),
    (
        "mpi_ifname",
        "MpiPartly",
        "the same, for some of the entries",
    ),
    (
        "mpi_ifname",
        "InterfacesUnreadable",
        "as for `socket_ifname`",
    ),
    (
        "memlock",
        "MemlockTooLow",
        "`securityContext.capabilities.add: [\"IPC_LOCK\"]` (as root); or LimitMEMLOCK=infinity for the container runtime",
    ),
    (
        "memlock",
        "MemlockLimited",
        "the same: the limit is beyond a default, and below the machine's memory",
    ),
    (
        "memlock",
        "LimitUnreadable",
        "what keeps `/proc/self` from being read",
    ),
    (
        "shm",
        "ShmTooSmall",
        "`volumes: - {name: dshm, emptyDir: {medium: Memory}}` at `/dev/shm`",
    ),
    (
        "shm",
        "ShmSmall",
        "the same: enough for NCCL, little for data loaders",
    ),
    ("shm", "NoShm", "the same: there is none"),
    (
        "shm",
        "ShmUnreadable",
        "what keeps `/dev/shm` from being looked at",
    ),
    (
        "gpudirect",
        "NoGpuDirect",
        "on the node: the open NVIDIA kernel module, or nvidia-peermem",
    ),
    (
        "gpudirect",
        "GdrDisabled",
        "`NCCL_NET_GDR_LEVEL`, `NCCL_DMABUF_ENABLE`: unset",
    ),
    (
        "gpudirect",
        "GpuDirectUnreadable",
        "what keeps `/sys/module` and `/proc/driver/nvidia` from being read",
    ),
    (
        "gds",
        "CufileMissing",
        "`CUFILE_ENV_PATH_JSON`: unset it, or mount the file",
    ),
    ("gds", "CufileBroken", "the file's JSON"),
    (
        "gds",
        "GdsMissing",
        "nvidia-fs on the node; `NVIDIA_GDS=enabled` for its nodes in the container",
    ),
    (
        "gds",
        "GdsUnreadable",
        "what keeps `/proc/driver/nvidia-fs` from being read",
    ),
    (
        "ranks",
        "RankNotANumber",
        "the variable that the message names",
    ),
    (
        "ranks",
        "RankOutOfRange",
        "the same: a rank at or above its size, a part above its whole",
    ),
    (
        "ranks",
        "MoreRanksThanGpus",
        "`resources.limits.\"nvidia.com/gpu\"`, or fewer processes a node",
    ),
    (
        "master",
        "MasterUnresolvable",
        "`MASTER_ADDR`; `publishNotReadyAddresses: true` of the headless Service; a longer `--timeout`; or nothing, where rank 0's pod is still on its way",
    ),
    ("master", "MasterUnset", "`MASTER_ADDR` is empty"),
    ("master", "MasterPort", "`MASTER_PORT`: 1 to 65535"),
    (
        "master",
        "MasterIsLoopback",
        "`MASTER_ADDR`: the name of rank 0's pod",
    ),
    (
        "master",
        "MasterNotListening",
        "nothing: the host answers, rank 0 does not listen yet (*skipped*)",
    ),
    (
        "master",
        "MasterSilent",
        "a NetworkPolicy among the job's pods; a longer `--timeout`",
    ),
    ("master", "MasterUnreachable", "the pod's routes"),
];
