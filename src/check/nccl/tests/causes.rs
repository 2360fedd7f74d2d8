//! The common issues: each line to its cause, and to a remedy that names what to look at.

use super::super::*;
use super::{FALLBACK, verdict};
use crate::observe::nccl::Failure;

#[test]
fn each_common_issue_names_what_to_look_at() {
    use Failure::*;
    for (line, cause, names) in [
        (
            "n1:10:20 [0] bootstrap.cc:45 NCCL WARN Bootstrap : no socket interface found",
            Ifname,
            &["NCCL_SOCKET_IFNAME"][..],
        ),
        (
            "RuntimeError: Last error: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)",
            Ifname,
            &["NCCL_SOCKET_IFNAME"],
        ),
        (
            "n1:10:20 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable",
            GidIndex,
            &["NCCL_IB_GID_INDEX", "show_gids"],
        ),
        (
            "n1:10:20 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 1",
            GidIndex,
            &["NCCL_IB_GID_INDEX"],
        ),
        (
            "n1:10:20 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory",
            Memlock,
            &["IPC_LOCK", "ulimit -l", "LimitMEMLOCK"],
        ),
        (
            "n1:10:20 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
            Memlock,
            &["IPC_LOCK"],
        ),
        (
            "n1:10:20 [0] register_mr:9 NCCL WARN NET/OFI Unable to register memory (type = 2) for device 0. RC: -12, Error: Cannot allocate memory",
            Memlock,
            &["IPC_LOCK"],
        ),
        (
            "n1:10:20 [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
            Shm,
            &["/dev/shm", "emptyDir"],
        ),
        (
            "n1:10:20 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-aaaaaa to 33030532 bytes",
            Shm,
            &["/dev/shm"],
        ),
        (
            "n1:10:20 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
            Dmabuf,
            &["open kernel modules", "nvidia-peermem"],
        ),
        (
            "n1:10:20 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address",
            Dmabuf,
            &["nvidia-peermem"],
        ),
        (
            "n1:10:20 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_create_qp failed with error Invalid argument",
            QueuePair,
            &["queue pairs"],
        ),
        (
            "n1:10:20 [0] misc/socket.cc:1 NCCL WARN socketStartConnect: Connect to 10.0.0.2<4000> failed : Connection refused",
            ConnectRefused,
            &["NetworkPolicy"],
        ),
        (
            "n1:10:20 [0] misc/socket.cc:1 NCCL WARN Net : Connect to 10.0.0.2<4000> failed : No route to host",
            ConnectRefused,
            &["NetworkPolicy", "NCCL_SOCKET_IFNAME"],
        ),
        (
            "n1:10:20 [0] net.cc:1 NCCL WARN Error: network IBext not found.",
            NetworkMissing,
            &["NCCL_NET"],
        ),
        (
            "n1:10:20 [0] init.cc:1 NCCL WARN Missing \"iommu=pt\" from kernel command line",
            Iommu,
            &["iommu=pt"],
        ),
        (
            "n1:10:20 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<3> with status=12 opcode=0 len=0 vendor err 129 (Send)",
            IbError,
            &["PFC", "GID"],
        ),
        (
            "n1:10:20 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : mlx5_1:1 Got async event : port error",
            PortDown,
            &["Cable"],
        ),
        (
            "n1:10:20 [0] misc/socket.cc:1 NCCL WARN socketFinalizeAccept: wrong magic 1 != 2",
            StrayClient,
            &["MASTER_PORT"],
        ),
        (
            "n1:10:20 [0] init.cc:1 NCCL WARN Mismatched NCCL version detected : rank 0 22105 rank 1 22304",
            VersionMismatch,
            &["image"],
        ),
        // Without a word of TCP yet.
        (
            "n1:10:20 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Unable to open device mlx5_0",
            OpenDevice,
            &["/dev/infiniband/uverbs"],
        ),
    ] {
        let got = verdict(line);
        assert!(got.causes.contains(&cause), "{line}: {:?}", got.causes);
        let told = got.remedies.join(" ");
        for name in names {
            assert!(told.contains(name), "{line}: {name} is not in: {told}");
        }
        assert_ne!(got.tcp_fallback, Fallback::Yes, "{line}");
    }
}

#[test]
fn why_verbs_did_not_come_up() {
    use Failure::*;
    let after = FALLBACK
        .trim()
        .split_once('\n')
        .map_or("", |(_, rest)| rest);
    for (line, cause, names) in [
        (
            "n1:10:20 [0] NCCL INFO NET/IB : No device found.",
            NoDevice,
            &["NCCL_IB_HCA", "/dev/infiniband"][..],
        ),
        (
            "n1:10:20 [0] NCCL INFO Failed to open libibverbs.so[.1]",
            LibibverbsMissing,
            &["libibverbs1"],
        ),
        (
            "n1:10:20 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Unable to open device mlx5_0",
            OpenDevice,
            &["/dev/infiniband/uverbs"],
        ),
        (
            "n1:10:20 [0] nccl_net_ofi_create_plugin:2 NCCL WARN NET/OFI aws-ofi-nccl initialization failed",
            PluginInit,
            &["vpc.amazonaws.com/efa"],
        ),
        (
            "n1:10:20 [0] ofi_init:7 NCCL WARN NET/OFI Only EFA provider is supported",
            PluginInit,
            &["vpc.amazonaws.com/efa"],
        ),
        (
            "n1:10:20 [0] NCCL INFO NET/Plugin: Plugin name set by env to libnccl-net-fast.so
             n1:10:20 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net-fast.so. Using internal network plugin.
             n1:10:20 [0] NCCL INFO NET/IB : No device found.",
            PluginMissing,
            &["libnccl-net.so", "NCCL_NET_PLUGIN", "LD_LIBRARY_PATH"],
        ),
        ("nothing of verbs in view", IbNotTried, &["NCCL_NET=Socket"]),
    ] {
        let got = verdict(&format!("{line}\n{after}"));
        assert_eq!(got.tcp_fallback, Fallback::Yes, "{line}");
        assert_eq!(got.causes.first(), Some(&cause), "{line}");
        for name in names {
            assert!(got.remedies[0].contains(name), "{name}: {:?}", got.remedies);
        }
    }
}

#[test]
fn the_wrong_interface_and_no_gpudirect() {
    let bridge = FALLBACK.replace("eth0:10.0.0.1", "docker0:172.17.0.1");
    let got = verdict(&bridge);
    assert!(got.causes.contains(&Failure::WrongInterface), "{got:#?}");
    assert!(got.remedies.join(" ").contains("NCCL_SOCKET_IFNAME"));

    let slow = "
        n1:10:20 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'
        n1:10:20 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0
        n1:10:20 [0] NCCL INFO comm 0xa rank 0 nranks 16 cudaDev 0 busId 1000 commId 0x7 - Init COMPLETE";
    let got = verdict(slow);
    assert_eq!((got.gdrdma, got.tcp_fallback), (Some(false), Fallback::No));
    assert!(got.causes.contains(&Failure::GdrDisabled), "{got:#?}");
    let told = got.remedies.join(" ");
    for name in ["nvidia-peermem", "open kernel modules", "iommu"] {
        assert!(told.contains(name), "{name} is not in: {told}");
    }
    // Of TCP it is always off: no cause and no claim.
    let tcp = "
        n1:10:20 [0] NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'
        n1:10:20 [0] NCCL INFO Using network Socket";
    let got = verdict(tcp);
    assert_eq!(got.gdrdma, None);
    assert!(!got.causes.contains(&Failure::GdrDisabled), "{got:#?}");
    // What the GPU could do is not what is done.
    let able = "n1:10:20 [0] NCCL INFO DMA-BUF is available on GPU device 0";
    assert_eq!(verdict(able).gdrdma, None);
}

#[test]
fn what_is_no_fault_gives_no_cause() {
    for line in [
        "n1:10:20 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : mlx5_0:1 Got async event : client reregistration",
        "n1:10:20 [0] init.cc:1 NCCL WARN NUMA auto balancing enabled which can lead to variability",
        "n1:10:20 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
    ] {
        let got = verdict(line);
        assert!(got.causes.is_empty(), "{line}: {:?}", got.causes);
    }
    // A node without verbs misses none as long as the job stays in it.
    let alone = "
        n1:10:20 [0] NCCL INFO NET/IB : No device found.
        n1:10:20 [0] NCCL INFO Using network Socket
        n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 4 nNodes 1 localRanks 4 localRank 0 MNNVL 0";
    assert!(verdict(alone).causes.is_empty());
}

#[test]
fn every_cause_has_a_remedy_of_its_own() {
    let mut seen = std::collections::BTreeSet::new();
    for cause in Failure::ALL {
        let text = remedy(cause);
        let sentences = text.matches(". ").count();
        assert!(text.ends_with('.') && sentences > 0, "{cause:?}: {text}");
        assert!(seen.insert(text), "{cause:?}: {text}");
    }
}
