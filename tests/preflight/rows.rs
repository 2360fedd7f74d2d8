//! One thing wrong each.

use super::trees::Container;

/// What is done to a container, the settings besides, and what then is wrong.
pub type Row = (
    &'static str,
    fn(&Container),
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
);

const NOTHING: fn(&Container) = |_| {};

pub const ROWS: &[Row] = &[
    (
        "no RDMA device",
        |c| {
            c.remove("sys/class/infiniband");
            c.remove("sys/class/infiniband_verbs");
        },
        &[],
        &["uverbs failing NoRdmaDevice"],
    ),
    (
        "no node in /dev",
        |c| c.remove("dev/infiniband"),
        &[],
        &["uverbs failing NoUverbs"],
    ),
    (
        "refused nodes",
        |c| (0..8).for_each(|i| c.errno(1, &format!("dev/infiniband/uverbs{i}"))),
        &[],
        &["uverbs failing UverbsDenied"],
    ),
    (
        "one refused node",
        |c| c.errno(1, "dev/infiniband/uverbs3"),
        &[],
        &["uverbs degraded UverbsPartly"],
    ),
    (
        "a class that may not be read",
        |c| c.errno(13, "sys/class/infiniband"),
        &[],
        &["uverbs unknown RdmaUnreadable"],
    ),
    (
        "all ports down",
        |c| {
            (0..8).for_each(|i| {
                c.file(
                    &format!("sys/class/infiniband/mlx5_{i}/ports/1/state"),
                    "1: DOWN\n",
                )
            })
        },
        &[],
        &["rdma_ports failing NoActivePort"],
    ),
    (
        "one port down",
        |c| c.file("sys/class/infiniband/mlx5_4/ports/1/state", "1: DOWN\n"),
        &[],
        &["rdma_ports degraded PortDown"],
    ),
    (
        "NCCL_IB_HCA for another node",
        NOTHING,
        &[("NCCL_IB_HCA", "=rocep1s0")],
        &["ib_hca failing HcaMatchesNothing"],
    ),
    (
        "NCCL_IB_HCA with a front-end NIC",
        |c| {
            c.file(
                "sys/class/infiniband/mlx5_5/ports/1/rate",
                "100 Gb/sec (4X EDR)\n",
            )
        },
        &[("NCCL_IB_HCA", "mlx5")],
        &["ib_hca degraded HcaMixed"],
    ),
    (
        "NCCL_IB_HCA that fits in part",
        NOTHING,
        &[("NCCL_IB_HCA", "mlx5_0,mlx5_17")],
        &["ib_hca degraded HcaPartly"],
    ),
    (
        "RoCE v1",
        NOTHING,
        &[("NCCL_IB_GID_INDEX", "0")],
        &["gid_index degraded GidNotRoceV2"],
    ),
    (
        "an empty slot",
        NOTHING,
        &[("NCCL_IB_GID_INDEX", "7")],
        &["gid_index failing GidEmpty"],
    ),
    (
        "TCP asked for",
        NOTHING,
        &[("NCCL_NET", "Socket")],
        &["nccl_network degraded TcpConfigured"],
    ),
    (
        "TCP asked for in a file",
        |c| c.file("etc/nccl.conf", "NCCL_IB_DISABLE=1\n"),
        &[],
        &["nccl_network degraded TcpConfigured"],
    ),
    (
        "a network that is not there",
        NOTHING,
        &[("NCCL_NET", "FasTrak")],
        &["net_plugin failing PluginMissing"],
    ),
    (
        "a word for a number",
        NOTHING,
        &[("NCCL_IB_TIMEOUT", "long")],
        &["nccl_settings degraded NotANumber"],
    ),
    (
        "a topology that is not there",
        NOTHING,
        &[("NCCL_TOPO_FILE", "/etc/topo.xml")],
        &["nccl_settings degraded TopoFileMissing"],
    ),
    (
        "a graph that is not there",
        NOTHING,
        &[("NCCL_GRAPH_FILE", "")],
        &["nccl_settings failing GraphFileMissing"],
    ),
    (
        "no libibverbs",
        |c| c.remove("usr/lib64/libibverbs.so.1"),
        &[],
        &["libibverbs failing LibibverbsMissing"],
    ),
    (
        "libibverbs of another machine",
        |c| {
            let head = crate::elf_file::head(183);
            std::fs::write(c.path("usr/lib64/libibverbs.so.1"), head).unwrap();
        },
        &[],
        &["libibverbs failing LibibverbsMissing"],
    ),
    (
        "a plugin without its libfabric",
        |c| {
            let file = crate::elf_file::library(62, &["libfabric.so.1"], None);
            std::fs::write(c.path("usr/lib64/libnccl-net.so"), file).unwrap();
        },
        &[],
        &["net_plugin degraded PluginMissing"],
    ),
    (
        "no plugin",
        NOTHING,
        &[("NCCL_NET_PLUGIN", "spcx")],
        &["net_plugin degraded PluginMissing"],
    ),
    (
        "no such interface",
        NOTHING,
        &[("NCCL_SOCKET_IFNAME", "eth0")],
        &["socket_ifname failing NoInterface"],
    ),
    (
        "a blank in a list",
        NOTHING,
        &[("NCCL_SOCKET_IFNAME", "eno1, enp24s0np0")],
        &["socket_ifname degraded InterfacePartly"],
    ),
    (
        "Gloo's interface",
        NOTHING,
        &[("GLOO_SOCKET_IFNAME", "eth0")],
        &["gloo_ifname failing NoInterface"],
    ),
    (
        "UCX's devices",
        NOTHING,
        &[("UCX_NET_DEVICES", "mlx5_90:1")],
        &["ucx_devices failing NoUcxDevice"],
    ),
    (
        "Open MPI's interface",
        NOTHING,
        &[("OMPI_MCA_btl_tcp_if_include", "eth0")],
        &["mpi_ifname failing NoInterface"],
    ),
    (
        "no IPC_LOCK",
        |c| c.status("0000000000000000", 0),
        &[],
        &["memlock failing MemlockTooLow"],
    ),
    (
        "small /dev/shm",
        |c| c.file("selvage/shm", "67108864 67108864\n"),
        &[],
        &["shm failing ShmTooSmall"],
    ),
    (
        "no peer memory",
        |c| {
            c.remove("sys/module/nvidia_peermem");
            c.file("proc/modules", "nvidia 1 0 - Live 0x0 (POE)\n");
            c.remove("sys/kernel/mm/memory_peers");
        },
        &[],
        &["gpudirect degraded NoGpuDirect"],
    ),
    (
        "GDS without its file",
        NOTHING,
        &[("CUFILE_ENV_PATH_JSON", "/nowhere.json")],
        &["gds degraded CufileMissing"],
    ),
    (
        "GDS without its driver",
        |c| {
            c.file(
                "etc/cufile.json",
                "{\"properties\": {\"allow_compat_mode\": false}} // no\n",
            )
        },
        &[("CUFILE_ENV_PATH_JSON", "/etc/cufile.json")],
        &["gds failing GdsMissing"],
    ),
    (
        "a rank beyond the world",
        NOTHING,
        &[("RANK", "16")],
        &["ranks failing RankOutOfRange"],
    ),
    (
        "torchrun's rank beyond its nodes",
        NOTHING,
        &[("PET_NNODES", "2"), ("PET_NODE_RANK", "7")],
        &["ranks failing RankOutOfRange"],
    ),
    (
        "more ranks than GPUs",
        NOTHING,
        &[("LOCAL_RANK", "8"), ("LOCAL_WORLD_SIZE", "9")],
        &["ranks failing MoreRanksThanGpus"],
    ),
    (
        "no port",
        NOTHING,
        &[("MASTER_ADDR", "train-0"), ("MASTER_PORT", "http")],
        &["master failing MasterPort"],
    ),
];
