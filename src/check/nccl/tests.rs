//! Logs to verdicts: the lessons of users' logs, the rule's steps, each version's grammar.

use super::*;
use crate::observe::nccl::Failure;
use crate::observe::nccl::log::LogLimits;
use crate::source::nccl::Reader;

mod causes;
mod context;
mod releases;

pub(super) fn log(lines: &str) -> NcclLog {
    log_within(LogLimits::FILE, lines)
}

fn log_within(limits: LogLimits, lines: &str) -> NcclLog {
    let mut log = NcclLog::new(limits);
    let mut reader = Reader::default();
    for line in lines.trim().lines() {
        reader.feed(line.trim().as_bytes(), &mut log, None);
        reader.feed(b"\n", &mut log, None);
    }
    reader.finish(&mut log, None);
    log
}

pub(super) fn verdict(lines: &str) -> NcclVerdict {
    judge(&log(lines), &JobContext::default())
}

use Fallback::{Configured, No, Unknown, Yes};

/// Name, lines, fallback, network, spans nodes.
type Row = (&'static str, &'static str, Fallback, Network, Option<bool>);

fn check(rows: &[Row]) {
    for (name, lines, fallback, network, multi) in rows {
        let got = verdict(lines);
        assert_eq!(
            (got.tcp_fallback, got.network, got.multi_node),
            (*fallback, *network, *multi),
            "{name}: {got:#?}"
        );
    }
}

/// Two nodes, TCP chosen after verbs found nothing.
pub(super) const FALLBACK: &str = "
    n1:10:20 [0] NCCL INFO NET/IB : No device found.
    n1:10:20 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
    n1:10:20 [0] NCCL INFO Using network Socket
    n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0
    n1:10:20 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/Socket/0";

#[test]
fn each_version_family() {
    check(&[
        (
            "2.3",
            "n1:10:10 [0] NCCL INFO NET/IB: [0] mlx5_0:1/RoCE
             n1:10:10 [0] NCCL INFO Using internal Network IB
             n1:10:10 [0] NCCL INFO NET/Socket : 1 interfaces found
             n1:10:12 [0] NCCL INFO Ring 00 : 3 -> 4 via NET/IB/0/GDRDMA",
            No,
            Network::Roce,
            None,
        ),
        (
            "2.4: the bootstrap lists TCP in every run",
            "n1:10:10 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
             n1:10:10 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so).
             n1:10:10 [0] NCCL INFO NET/IB : Using [0]mlx4_0:1/IB ; OOB eth0:10.0.0.1<0>",
            No,
            Network::Ib,
            None,
        ),
        (
            "2.4: the choice is not printed, and only TCP is left",
            "n1:10:10 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
             n1:10:10 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so).
             n1:10:10 [0] NCCL INFO NET/IB : No device found.
             n2:11:11 [0] NCCL INFO NET/IB : No device found.",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "2.4: more ranks than a host has GPUs",
            "n1:10:12 [0] NCCL INFO Ring 00 : 22 -> 23 [receive] via NET/Socket/0",
            Yes,
            Network::Socket,
            Some(true),
        ),
        ("2.20", FALLBACK, Yes, Network::Socket, Some(true)),
        (
            "2.24: the list behind No device found is empty",
            "n1:10:20 [0] NCCL INFO NET/IB : No device found.
             n1:10:20 [0] NCCL INFO NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>
             n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "2.28",
            "[2026-01-02 03:04:05] n1:10:20 [0] NCCL INFO Failed to initialize NET plugin IB
             n1:10:20 [0] NCCL INFO Assigned NET plugin Socket to comm
             n1:10:20 [0] NCCL INFO [Rank 0] comm 0xa rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "2.30: the trace of NCCL_NET",
            "n1:10:20 [0] NCCL INFO Comm config netName reset to NCCL_NET=Socket
             n1:10:20 [0] NCCL INFO Assigned NET plugin Socket to comm
             n1:10:20 [0] NCCL INFO [Rank 0] comm 0xa rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
            Configured,
            Network::Socket,
            Some(true),
        ),
        (
            "RCCL",
            "n1:10:20 [0] NCCL INFO Channel 02/0 : 1[c6000] -> 20[c1000] [send] via NET/Socket/1 comm 0x95 nRanks 32",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "aws-ofi-nccl",
            "n1:10:20 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4 nics)
             n1:10:20 [0] NCCL INFO Using network Libfabric
             n1:10:20 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [send] via NET/AWS Libfabric/0/GDRDMA",
            No,
            Network::Ofi,
            Some(true),
        ),
        (
            "aws-ofi-nccl on TCP",
            "n1:10:20 [0] NCCL INFO NET/OFI Selected Provider is tcp;ofi_rxm (found 1 nics)
             n1:10:20 [0] NCCL INFO Using network AWS Libfabric
             n2:10:20 [0] NCCL INFO Using network AWS Libfabric",
            Yes,
            Network::Ofi,
            Some(true),
        ),
        (
            "TCPX",
            "n1:10:20 [0] NCCL INFO Using network GPUDirectTCPX_v7
             n1:10:20 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/GPUDirectTCPX_v7/0",
            No,
            Network::Tcpx,
            Some(true),
        ),
        (
            "FasTrak",
            "n1:10:20 [0] NCCL INFO NET/FasTrak: plugin version 1
             n1:10:20 [0] NCCL INFO Using network FasTrak",
            No,
            Network::Fastrak,
            None,
        ),
        (
            "FastSocket, from any of its lines",
            "n1:10:20 [0] NCCL INFO NET/FastSocket : Connected after 3 retries.",
            Configured,
            Network::Socket,
            None,
        ),
    ]);
}

#[test]
fn what_spans_nodes() {
    check(&[
        (
            "one node",
            "n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 4 nNodes 1 localRanks 4 localRank 0 MNNVL 0",
            No,
            Network::None,
            Some(false),
        ),
        (
            "shared memory joins all ranks, of which one prints",
            "n1:10:20 [0] NCCL INFO NET/IB : No device found.
             n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO Channel 00/02 :    0   1
             n1:10:20 [0] NCCL INFO Channel 00 : 0[1000] -> 1[5000] via SHM/direct/direct",
            No,
            Network::None,
            Some(false),
        ),
        (
            "the same, of a communicator",
            "n1:10:20 [0] NCCL INFO Using network IB
             n1:10:20 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/IPC
             n1:10:20 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x5 - Init COMPLETE",
            No,
            Network::None,
            Some(false),
        ),
        (
            "it joins two of four",
            "n1:10:20 [0] NCCL INFO Using network IB
             n1:10:20 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/IPC
             n1:10:20 [0] NCCL INFO comm 0x1 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0x5 - Init COMPLETE",
            No,
            Network::IbOrRoce,
            None,
        ),
        (
            "a line of the first channel is torn",
            "n1:10:20 [0] NCCL INFO Channel 09/0 : 0[0] -> 1[1] via P2P/CUMEM
             n1:11:21 [1] NCCL INFO Channel 09/0 : 1[1] -> 2[2] via P2P/CUMEM
             n1:10:20 [0] NCCL INFO Channel 10/0 : 0[0] -> 1[1] via P2P/CUMEM
             n1:11:21 [1] NCCL INFO Channel 10/0 : 1[1] -> 2[2] via P2P/CUMEM
             n1:12:22 [2] NCCL INFO Channel 10/0 : 2[2] -> 0[0] via P2P/CUMEM",
            No,
            Network::None,
            Some(false),
        ),
        (
            "ranks without a host",
            "[0] NCCL INFO Using network Socket
             [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0x5 - Init START
             [1] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 1 busId 2000 commId 0x5 - Init START",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "ranks without a host, with GPUs of one address",
            "[0] NCCL INFO NET/OFI Libfabric provider associates MRs with domains
             [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0x5 - Init COMPLETE
             [0] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 0 busId 1000 commId 0x5 - Init COMPLETE",
            No,
            Network::Ofi,
            Some(true),
        ),
        (
            "quoted in bold and without it",
            "**n1:10:20 [0] NCCL INFO Using network Socket**
             **n1:10:20 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0x5 - Init START
             n1:11:21 [1] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 1 busId 2000 commId 0x5 - Init START",
            No,
            Network::None,
            Some(false),
        ),
        (
            "nccl-tests' list is cut, a ring shows more ranks",
            "# Rank  0 Pid  10 on n1 device  0 [0x21] A100
             # Rank  1 Pid  11 on n1 device  1 [0x22] A100
             n1:10:10 [0] NCCL INFO Using network Socket
             n1:10:10 [0] NCCL INFO Channel 00/02 :    0   1   2   3",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "send and receive close a ring",
            "n1:10:20 [0] NCCL INFO Channel 02/1 : 0[0] -> 1[1] via P2P/CUMEM
             n1:11:21 [1] NCCL INFO Channel 02/1 : 1[1] -> 2[2] via P2P/CUMEM
             n1:12:22 [2] NCCL INFO Channel 02/1 : 2[2] -> 0[0] via P2P/CUMEM",
            Unknown,
            Network::Unknown,
            None,
        ),
        (
            "a ring within a node that also sends over a net",
            "n1:10:20 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
             n1:11:21 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[2] via P2P/CUMEM
             n1:12:22 [2] NCCL INFO Channel 00/0 : 2[2] -> 0[0] via P2P/CUMEM
             n1:12:23 [2] NCCL INFO Channel 01/0 : 7[3] -> 8[0] [send] via NET/Socket/0",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "nothing shows it",
            "n1:10:20 [0] NCCL INFO NET/IB : No device found.
             n1:10:20 [0] NCCL INFO Using network Socket",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "communicators of one rank, on two hosts",
            "n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO comm 0xa rank 0 nranks 1 cudaDev 0 busId 30 commId 0x1 - Init START
             n2:10:20 [0] NCCL INFO Using network Socket
             n2:10:20 [0] NCCL INFO comm 0xa rank 0 nranks 1 cudaDev 0 busId 30 commId 0x2 - Init START",
            No,
            Network::None,
            Some(false),
        ),
        (
            "nccl-tests without MPI: each host runs alone",
            "#  Rank  0 Group  0 Pid 10 on n1 device  0 [0x21] GPU
             #  Rank  0 Group  0 Pid 11 on n2 device  0 [0x51] GPU
             n1:10:10 [0] NCCL INFO NET/IB : No device found.
             n1:10:10 [0] NCCL INFO Using network Socket
             n2:11:11 [0] NCCL INFO Using network Socket",
            No,
            Network::None,
            Some(false),
        ),
        (
            "nccl-tests' table of one host",
            "#  Rank  0 Group  0 Pid 10 on n1 device  0 [0x21] GPU
             #  Rank  1 Group  0 Pid 10 on n1 device  1 [0x22] GPU
             n1:10:20 [0] NCCL INFO Using network Socket",
            No,
            Network::None,
            Some(false),
        ),
        (
            "the split's communicator stays, the world does not",
            "n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
             n1:10:20 [0] NCCL INFO ncclCommSplit comm 0xb rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 parent 0xa color 1 key 0 - Init START
             n1:10:20 [0] NCCL INFO Using network Socket",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "the same without a line of the world",
            "n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO ncclCommSplit comm 0xb rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 parent 0xa color 1 key 0 - Init START
             n1:10:20 [0] NCCL INFO comm 0xb rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "the same, where the split's line has an id",
            "n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO ncclCommSplit comm 0xb rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 parent 0xa color 1 key 0 commId 0x78 - Init START
             n1:10:20 [0] NCCL INFO comm 0xb rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "two hosts, each with a communicator of its own",
            "n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
             n2:10:20 [0] NCCL INFO Using network Socket
             n2:10:20 [0] NCCL INFO comm 0xb rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "a split of the world's size",
            "n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO ncclCommInitRank comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x77 - Init START
             n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
             n1:10:20 [0] NCCL INFO ncclCommSplit comm 0xb rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 parent 0xa color 1 key 0 - Init START",
            No,
            Network::None,
            Some(false),
        ),
        (
            "the log begins inside a host's name",
            "e-1:10:20 [0] NCCL INFO NCCL_DEBUG set by environment to INFO.
             gpu-node-1:10:20 [0] NCCL INFO Using network Socket
             gpu-node-1:10:20 [0] NCCL INFO NET/IB : No device found.
             gpu-node-1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
             gpu-node-1:11:21 [1] NCCL INFO comm 0xb rank 1 nRanks 2 nNodes 1 localRanks 2 localRank 1 MNNVL 0",
            No,
            Network::None,
            Some(false),
        ),
        (
            "the log begins inside the host's name of a rank",
            "u-a1:40:47 [0] NCCL INFO comm 0x7 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x5 - Init START
             gpu-a1:43:48 [1] NCCL INFO NET/IB : No device found.
             gpu-a1:43:48 [1] NCCL INFO Using network Socket
             gpu-a1:43:48 [1] NCCL INFO comm 0x8 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 43000 commId 0x5 - Init START",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "the same, without a communicator",
            "1:40:47 [0] NCCL INFO Using network Socket
             gpgpu-a1:43:48 [1] NCCL INFO NET/IB : No device found.
             gpu-a1:43:48 [1] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
             gpu-a1:43:48 [1] NCCL INFO Using network Socket
             gpu-a1:43:48 [1] NCCL INFO Trees [0] -1/-1/-1->1->0 [1] -1/-1/-1->1->0",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "CUDA_VISIBLE_DEVICES=2,3,0,1",
            "w1:103:803 [3] NCCL INFO Using network Socket
             w1:103:803 [3] NCCL INFO comm 0x1 rank 3 nranks 4 cudaDev 3 nvmlDev 1 busId 43000 commId 0x7 - Init START",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "a setting reorders GPUs, and CUDA's number is lower, too",
            "w1:103:803 [1] NCCL INFO Using network Socket
             w1:103:803 [1] NCCL INFO comm 0x1 rank 5 nranks 8 cudaDev 1 nvmlDev 3 busId 43000 commId 0x7 - Init START",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "each process may see one GPU of 16",
            "w1:103:803 [0] NCCL INFO Using network Socket
             w1:103:803 [0] NCCL INFO comm 0x1 rank 8 nranks 16 cudaDev 0 busId 43000 - Init COMPLETE",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "connections show no order of GPUs",
            "w1:105:805 [1] NCCL INFO Using network Socket
             w1:105:805 [1] NCCL INFO Channel 00/0 : 5[1] -> 6[2] via P2P/IPC",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "the second node's GPUs, in order",
            "w1:109:809 [1] NCCL INFO Using network Socket
             w1:109:809 [1] NCCL INFO comm 0x1 rank 9 nranks 16 cudaDev 1 nvmlDev 1 busId 43000 commId 0x7 - Init START",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "one bus id at both ends of a hop, next to a communicator of the node",
            "n1:200:900 [0] NCCL INFO comm 0x7e0 rank 0 nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE
             n1:201:901 [1] NCCL INFO comm 0x7e1 rank 1 nranks 2 cudaDev 1 busId 43000 - Init COMPLETE
             n1:200:4000 [0] NCCL INFO Using network Socket
             n1:200:4000 [0] NCCL INFO Channel 00/0 : 1[1b000] -> 0[1b000] [receive] via NET/Socket/0",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "a job of one node over TCP, next to one of two over verbs",
            "n1:9:9 [0] NCCL INFO Using network Socket
             n1:9:9 [0] NCCL INFO comm 0x1 rank 0 nRanks 4 nNodes 1 localRanks 4 localRank 0 MNNVL 0
             m1:3:3 [0] NCCL INFO Using network IB
             m1:3:3 [0] NCCL INFO comm 0x2 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
            No,
            Network::IbOrRoce,
            Some(true),
        ),
        (
            "a job of one node over verbs, next to one of two over TCP",
            "n1:9:9 [0] NCCL INFO Using network IB
             n1:9:9 [0] NCCL INFO comm 0x1 rank 0 nRanks 4 nNodes 1 localRanks 4 localRank 0 MNNVL 0
             m1:3:3 [0] NCCL INFO Using network Socket
             m1:3:3 [0] NCCL INFO comm 0x2 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "ranks of one job that chose differently",
            "n1:9:9 [0] NCCL INFO Using network IB
             n1:9:9 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
             m1:3:3 [0] NCCL INFO Using network Socket
             m1:3:3 [0] NCCL INFO comm 0x2 rank 8 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
            Unknown,
            Network::Unknown,
            Some(true),
        ),
        (
            "nccl-tests' list has both hosts of the communicators",
            "#  Rank  0 Group  0 Pid 10 on n1 device  0 [0x21] GPU
             #  Rank  1 Group  0 Pid 10 on n2 device  0 [0x21] GPU
             n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
             n2:10:20 [0] NCCL INFO comm 0xb rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "Ray folds the ends of several communicators",
            "n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0 [repeated 1x across cluster]
             n1:10:20 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 1000 - Destroy COMPLETE [repeated 3x across cluster]",
            No,
            Network::None,
            Some(false),
        ),
        (
            "Ray folds lines of more ranks than the communicator has",
            "n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0 [repeated 3x across cluster]",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "Ray folds the line of the other rank",
            "n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0 [repeated 1x across cluster]",
            No,
            Network::None,
            Some(false),
        ),
        (
            "TCP inside one host with P2P and SHM off",
            "n1:10:20 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.
             n1:10:20 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0
             n1:11:21 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [send] via NET/Socket/0",
            No,
            Network::None,
            None,
        ),
        (
            "NET/IB inside one host proves no second",
            "n1:10:20 [0] NCCL INFO Channel 00 : 2[c7000] -> 0[87000] [receive] via NET/IB/5/GDRDMA
             n1:11:21 [1] NCCL INFO Channel 00 : 2[c7000] -> 0[87000] [send] via NET/IB/5/GDRDMA",
            No,
            Network::IbOrRoce,
            None,
        ),
        (
            "machines of one name: bus ids under two ranks",
            "gpu:10:20 [0] NCCL INFO Channel 00/0 : 1[2a000] -> 2[27000] [send] via NET/Socket/0
             gpu:90:91 [0] NCCL INFO Channel 00/0 : 1[2a000] -> 2[27000] [receive] via NET/Socket/0
             gpu:10:20 [0] NCCL INFO Channel 00/0 : 0[27000] -> 1[2a000] via P2P/IPC",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "machines of one name: addresses",
            "gpu:10:20 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
             gpu:10:20 [0] NCCL INFO NET/IB : No device found.
             gpu:10:20 [0] NCCL INFO Using network Socket
             gpu:90:91 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>
             gpu:90:91 [0] NCCL INFO Using network Socket",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "machines of one name: every rank in view",
            "gpu:10:20 [0] NCCL INFO NET/IB : No device found.
             gpu:10:20 [0] NCCL INFO Using network Socket
             gpu:10:20 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 27000 commId 0x1 - Init COMPLETE
             gpu:90:91 [0] NCCL INFO comm 0xb rank 1 nranks 2 cudaDev 0 busId 27000 commId 0x1 - Init COMPLETE",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "devices that each process counts for itself prove nothing",
            "n1:10:20 [0] NCCL INFO Ring 00 : 2[0] -> 3[0] via direct shared memory
             n1:10:20 [0] NCCL INFO Ring 00 : 3[0] -> 0[0] [receive] via NET/Socket/0",
            Yes,
            Network::Socket,
            None,
        ),
        (
            "two processes whose lines run together are not two hosts",
            "n1:10:20 [0] NCCL INFO Using network Socket
             0.01 n1:11:21 [1] NCCL INFO NET/IB : No device found.
             none -1n1:11:21 [1] NCCL INFO Using network Socket",
            Unknown,
            Network::Socket,
            None,
        ),
        (
            "masked pids",
            "pod:pid:tid [0] NCCL INFO Using network Socket
             pod:pid:tid [0] NCCL INFO comm 0xa rank 0 nRanks 4 nNodes 1 localRanks 4 localRank 0 MNNVL 0",
            No,
            Network::None,
            Some(false),
        ),
        (
            "NVLink between nodes carries the data, whatever net was chosen",
            "n1:10:20 [0] NCCL INFO NET/IB : No device found.
             n1:10:20 [0] NCCL INFO Using network Socket
             n1:10:20 [0] NCCL INFO comm 0xa rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 1
             n1:10:20 [0] NCCL INFO Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL",
            Unknown,
            Network::Socket,
            Some(true),
        ),
    ]);
}

#[test]
fn what_was_asked_for() {
    let two = |env: &str| {
        format!(
            "{env}
             n1:10:20 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Socket/0"
        )
    };
    for (env, want) in [
        ("", Yes),
        (
            "n1:10:20 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.",
            Configured,
        ),
        (
            "n1:10:20 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 0.",
            Yes,
        ),
        (
            "n1:10:20 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0",
            Yes,
        ),
        (
            "n1:10:20 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 0.`",
            Yes,
        ),
        (
            "n1:10:20 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 0,",
            Yes,
        ),
        (
            "n1:10:20 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.`",
            Configured,
        ),
        ("NCCL_IB_DISABLE=1 works fine but is slow", Yes),
        (
            "mpirun -x NCCL_IB_DISABLE=0 -x NCCL_NET=Socket ./train",
            Configured,
        ),
        (
            "root@n1:/w# NCCL_IB_DISABLE=1 torchrun train.py",
            Configured,
        ),
        ("#export NCCL_IB_DISABLE=1", Yes),
        ("+ export NCCL_IB_DISABLE=1", Configured),
        ("if [ \"$NCCL_IB_DISABLE\" = \"1\" ]; then", Yes),
        ("echo ${NCCL_IB_DISABLE:-1}", Yes),
        ("NCCL_IB_DISABLE=1 disables IB; unset it", Yes),
        // The variable did not reach the process.
        (
            "+ export NCCL_IB_DISABLE=1
             n1:10:20 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
             n1:10:20 [0] NCCL INFO NET/IB : No device found.",
            Yes,
        ),
        // A plugin may have said so, in lines that are cut away.
        (
            "+ export NCCL_IB_DISABLE=1
             n1:10:20 [0] NCCL INFO NET/IB : No device found.",
            Configured,
        ),
        // NVIDIA's plugin looks for devices whatever it says.
        (
            "+ export NCCL_IB_DISABLE=1
             n1:10:20 [0] NCCL INFO NET/Plugin: Loaded net plugin IBext_v8 (v8)
             n1:10:20 [0] NCCL INFO NET/IB : No device found.",
            Configured,
        ),
        (
            "n1:10:20 [0] NCCL INFO External network plugin /opt/amazon/ofi-nccl/lib/libnccl-net.so is unsupported
             n1:10:20 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.",
            Yes,
        ),
        (
            "n1:10:20 [0] NCCL INFO NET/FasTrak plugin initialized
             n1:10:20 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.
             n1:10:20 [0] NCCL INFO Using network Socket",
            Yes,
        ),
        (
            // Routine on EFA images, whose plugin does not read it.
            "n1:10:20 [0] nccl_net_ofi_init:1 NCCL WARN NET/OFI aws-ofi-nccl initialization failed
             n1:10:20 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.",
            Yes,
        ),
    ] {
        let got = verdict(&two(env));
        assert_eq!(got.tcp_fallback, want, "{env}: {got:#?}");
    }
    check(&[
        (
            "the external plugin does not read NCCL_IB_DISABLE",
            "n1:10:20 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.
             n1:10:20 [0] NCCL INFO Using network IBext_v8
             n1:10:20 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IBext_v8/1",
            No,
            Network::IbOrRoce,
            Some(true),
        ),
        (
            "NCCL_NET=Socket leaves no line: TCP in full view and nothing tried before",
            "n1:10:10 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
             NCCL version 2.12.12+cuda11.6
             n1:10:10 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
             n1:10:10 [0] NCCL INFO Using network Socket
             n2:10:10 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>
             n2:10:10 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.2<0>
             n2:10:10 [0] NCCL INFO Using network Socket",
            Configured,
            Network::Socket,
            Some(true),
        ),
        (
            "variables are hidden by NCCL_DEBUG_SUBSYS=INIT,NET, but for plugins and levels",
            "n1:9:9 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
             n1:9:9 [0] NCCL INFO NET/Plugin: Plugin name set by env to libnccl-net-none.so
             n1:9:9 [0] NCCL INFO NET/Plugin: Using internal network plugin.
             NCCL version 2.21.5+cuda12.4
             n1:9:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
             n1:9:9 [0] NCCL INFO Using network Socket
             n1:9:9 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS
             n1:9:9 [0] NCCL INFO comm 0x7 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
            Configured,
            Network::Socket,
            Some(true),
        ),
        (
            "verbs were tried, as the warning shows",
            "n1:9:9 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
             n1:9:9 [0] transport/net_ib.cc:88 NCCL WARN NET/IB : Unable to query device mlx5_0
             n1:9:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
             n1:9:9 [0] NCCL INFO Using network Socket
             n1:9:9 [0] NCCL INFO comm 0x7 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
            Yes,
            Network::Socket,
            Some(true),
        ),
        (
            "a container that lists one HCA of two has no fallback",
            "n1:10:20 [0] misc/ibvwrap.cc:1 NCCL WARN Call to ibv_open_device failed
             n1:10:20 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Unable to open device mlx5_1
             n1:10:20 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>
             n1:10:20 [0] NCCL INFO Using network IB",
            No,
            Network::Ib,
            None,
        ),
        (
            "remarks of other programs are not evidence",
            "Initializing NCCL across 2 nodes
             we expect NCCL INFO Using network Socket
             [rank0] NCCL INFO test",
            Unknown,
            Network::Unknown,
            None,
        ),
    ]);
}

#[test]
fn errors_are_counted_by_device_and_bounded() {
    let error = |device: usize| {
        format!(
            "n1:10:20 [0] net.cc:1 NCCL WARN NET/IB : mlx5_{device}:1 Got async event : local catastrophic error\n"
        )
    };
    let lines: String = (0..40).chain([0]).map(error).collect();
    let errors = log(&lines).device_errors;
    assert_eq!((errors.len(), errors["mlx5_0"].lines), (32, 2));
}

#[test]
fn gpudirect_for_some_gpus_is_not_known_for_all() {
    let of = |distance: &str| {
        let (word, gpu) = distance.split_once(' ').unwrap();
        format!(
            "n1:10:20 [0] NCCL INFO GPU Direct RDMA {word} for GPU {gpu} / HCA 0 (distance 4 <= 4), read 0"
        )
    };
    let (on, off) = (of("Enabled 86000"), of("Disabled 18000"));
    assert_eq!(verdict(&format!("{on}\n{off}")).gdrdma, None);
    assert_eq!(verdict(&off).gdrdma, Some(false));
}

/// One line or a few, without the choice of a network: what they show of the one at work.
#[test]
fn a_network_at_work() {
    let ib = Network::IbOrRoce;
    for (lines, fallback, network) in [
        ("NCCL INFO NET/gIB: IbDev 6 Port 1 qpn 2440 se", No, ib),
        (
            "NCCL INFO NET/gIB : Initializing gIB v1.0.3",
            Unknown,
            Network::Unknown,
        ),
        (
            "NCCL INFO NET/gIB : Using [0]mlx5_0:1/RoCE",
            No,
            Network::Roce,
        ),
        (
            "NCCL INFO NET/gIB : GPU Direct RDMA Enabled for HCA 2 'mlx5_2'",
            No,
            ib,
        ),
        (
            "NCCL INFO NET/IB-CAST : Using [0]mlx5_0:1/IB",
            No,
            Network::Ib,
        ),
        (
            "NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
            Unknown,
            Network::Socket,
        ),
        (
            "NCCL INFO CUDA Dev 0[0], Socket NIC distance :  PHB",
            Unknown,
            Network::Socket,
        ),
        (
            "NCCL INFO CUDA Dev 0[0], IB NIC distance :  PIX PHB",
            No,
            ib,
        ),
        (
            "transport/net_ib.cc:88 NCCL WARN NET/IB : Got async event : client reregistration",
            No,
            ib,
        ),
        (
            "transport/net_ib.cc:88 NCCL WARN NET/IB : mlx5_0:1 GID table changed",
            No,
            ib,
        ),
        (
            "transport/net_ib.cc:88 NCCL WARN NET/IB : mlx5_0:1 Got non-fatal async event: SM change(13)",
            No,
            ib,
        ),
        (
            "transport/net_ib.cc:88 NCCL WARN NET/IB : unable to allocate requests",
            No,
            ib,
        ),
        (
            "transport/net_ib.cc:88 NCCL WARN NET/IB : req 0/1 tag 0 peer n2<3> posted incorrect receive info: size 1 addr 0 rkeys[0]=0",
            No,
            ib,
        ),
        (
            "transport/net_ib.cc:88 NCCL WARN NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [1]mlx5_1:1/RoCE",
            No,
            ib,
        ),
        (
            "misc/ibvwrap.cc:284 NCCL WARN Call to ibv_poll_cq() failed with error Unknown",
            No,
            ib,
        ),
        (
            "NCCL INFO NET/IB : There are mismatched physical devices between local (mlx5_0) and remote (mlx5_1).",
            No,
            ib,
        ),
        (
            "NCCL INFO NET/IB: Dev 0 Port 1 qpn 1345 mtu 5 LID 17",
            No,
            Network::Ib,
        ),
        (
            "NCCL INFO NET/IB: Dev 0 Port 1 qpn 1345 mtu 3 GID 3 (80FE/ABCDEF)",
            No,
            Network::Roce,
        ),
        // Looked up for the NICs of the chosen net.
        (
            "NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
            No,
            ib,
        ),
        // Before a network is chosen.
        (
            "transport/net_ib.cc:88 NCCL WARN NET/IB : No IP interface found.",
            Unknown,
            Network::Unknown,
        ),
        (
            "transport/net_ib.cc:88 NCCL WARN NET/IB : Unable to open device mlx5_0",
            Unknown,
            Network::Unknown,
        ),
        (
            "transport/net_ib.cc:88 NCCL WARN NET/IB : Unable to query device mlx5_0",
            Unknown,
            Network::Unknown,
        ),
        (
            "transport/net_ib.cc:88 NCCL WARN Could not find real path of mlx5_0 (/sys/x)",
            Unknown,
            Network::Unknown,
        ),
        // Errors that functions pass on.
        (
            "NCCL INFO transport/net_ib.cc:693 -> 6|NCCL INFO transport/net.cc:592 -> 6",
            No,
            ib,
        ),
        (
            "NCCL INFO transport/net_ib/p2p.cc:93 (ncclIbTest) -> 6|NCCL INFO transport/net.cc:592 (recvProxyProgress) -> 6",
            No,
            ib,
        ),
        (
            "NCCL INFO ib_plugin.c:1007 -> 6|NCCL INFO include/net.h:26 -> 6",
            No,
            ib,
        ),
        (
            "NCCL INFO transport/net_ib.cc:200 -> 3|NCCL INFO net.cc:80 -> 3",
            Unknown,
            Network::Unknown,
        ),
        (
            "NCCL INFO transport/net_ib.cc:200 -> 3|NCCL INFO init.cc:80 -> 3|NCCL INFO transport/net.cc:592 -> 6",
            Unknown,
            Network::Unknown,
        ),
        (
            "NCCL INFO transport/net_socket.cc:493 -> 6|NCCL INFO transport/net.cc:592 -> 6",
            Unknown,
            Network::Socket,
        ),
        (
            "NCCL INFO transport/net_ib.cc:693 -> 6|NCCL INFO transport/net.cc:592 -> 6|NCCL INFO Using network UCX",
            No,
            Network::Ucx,
        ),
        // Plugins, by where they warn or what of.
        (
            "tcpxResult_t tcpxCommProgress(tcpxComm*):1231 NCCL WARN 0xadca:0xadcb, nic 0, enp12s0, rx rx ctrl timeout cnt 7331502",
            No,
            Network::Tcpx,
        ),
        (
            "net_fastsocket.cc:765 NCCL WARN Cannot get incoming CPU.",
            Configured,
            Network::Socket,
        ),
        (
            "nccl_net_ofi_rdma.cpp:1010 NCCL WARN NET/OFI Request 0x7f completed with error. RC: 12. Error: 12 (Unreachable remote)",
            No,
            Network::Ofi,
        ),
        (
            "register_mr:465 NCCL WARN NET/OFI Unable to register memory (type = 2) for device 0. RC: -22, Error: Invalid argument",
            No,
            Network::Ofi,
        ),
        (
            "nccl_net_ofi_create_plugin:335 NCCL WARN NET/OFI aws-ofi-nccl initialization failed",
            Unknown,
            Network::Unknown,
        ),
    ] {
        let lines = lines.split('|').map(|line| format!("n1:10:30 [0] {line}"));
        let got = verdict(&lines.collect::<Vec<_>>().join("\n"));
        assert_eq!(
            (got.tcp_fallback, got.network),
            (fallback, network),
            "{got:#?}"
        );
    }
    // Another thread's.
    let got = verdict(
        "n1:10:30 [0] NCCL INFO transport/net_ib.cc:693 -> 6
         n1:10:31 [0] NCCL INFO transport/net.cc:592 -> 6",
    );
    assert_eq!(got.tcp_fallback, Unknown, "{got:#?}");
}

/// A job that was started again, with another number of ranks: what the first run fell back to is over.
#[test]
fn a_run_of_another_size_replaces_the_one_before() {
    let second = "
    n1:30:40 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>
    n1:30:40 [0] NCCL INFO Using network IB
    n1:30:40 [0] NCCL INFO comm 0xb rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0
    n1:30:40 [0] NCCL INFO Channel 00/0 : 7[3] -> 0[0] [receive] via NET/IB/0/GDRDMA";
    let both = format!("{FALLBACK}{second}");
    for (lines, fallback) in [(FALLBACK, Yes), (second, No), (both.as_str(), No)] {
        assert_eq!(verdict(lines).tcp_fallback, fallback, "{lines}");
    }
    assert_eq!(log(&both).live().count(), 1);
}

/// Lines of a rank: its process, communicator and net.
fn rank(pid: u32, rank: u32, nranks: u32, nodes: u32, id: u32, net: &str) -> String {
    let head = format!("n1:{pid}:{pid} [0] NCCL INFO");
    let comm = format!(
        "comm 0xa{rank} rank {rank} nranks {nranks} cudaDev 0 busId {pid}000 commId 0x{id}"
    );
    let none = if net == "Socket" {
        "No device found."
    } else {
        "Using [0]mlx5_0:1/IB"
    };
    let peer = (rank + 8) % nranks;
    let over = if nodes > 1 {
        format!("NET/{net}/0")
    } else {
        "P2P/CUMEM".into()
    };
    format!(
        "{head} NET/IB : {none}
        {head} Using network {net}
        {head} {comm} - Init START
        {head} comm 0xa{rank} rank {rank} nRanks {nranks} nNodes {nodes} localRanks 8 localRank 0 MNNVL 0
        {head} Channel 00/0 : {rank}[0] -> {peer}[0] [send] via {over}
        {head} {comm} - Init COMPLETE
        "
    )
}

#[test]
fn runs_and_communicators_of_one_log() {
    let trainer = rank(100, 0, 16, 2, 1, "Socket");
    let over = "n1:100:101 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n";
    let back = "n1:100:101 [0] NCCL INFO Channel 01/0 : 8[0] -> 0[0] [receive] via NET/Socket/0\n";
    let inference = rank(500, 0, 8, 1, 2, "Socket");
    // The GPU is the same, the rank another one.
    let shrunk = rank(200, 8, 16, 2, 4, "Socket").replace("200000", "100000");
    let grown = rank(100, 0, 24, 3, 3, "IB");
    let whole = rank(100, 0, 16, 2, 5, "IB");
    let (not_yet, _) = trainer
        .split_once("n1:100:100 [0] NCCL INFO Channel")
        .unwrap();
    let chosen = not_yet
        .replace("100:100", "300:300")
        .replace("0x1 ", "0x6 ");
    for (name, lines, want) in [
        (
            "next to inference",
            format!("{trainer}{inference}{over}"),
            Yes,
        ),
        ("a run of fewer nodes", format!("{grown}{shrunk}"), Yes),
        (
            "connections of the run before",
            format!("{whole}{chosen}"),
            Yes,
        ),
        (
            "and of this one",
            format!("{whole}{}", rank(300, 0, 16, 2, 6, "IB")),
            No,
        ),
        (
            "next to a pair of ranks over TCP",
            format!("{whole}{}", rank(300, 0, 2, 2, 8, "Socket")),
            No,
        ),
        (
            "before a run on one GPU less",
            format!(
                "{trainer}{}",
                rank(300, 0, 15, 2, 9, "IB").replace("300000", "100000")
            ),
            No,
        ),
        (
            "next to one within the node",
            format!(
                "{}{}",
                rank(300, 0, 8, 2, 10, "IB"),
                rank(400, 0, 8, 1, 11, "Socket").replace("P2P/CUMEM", "NET/Socket/0")
            ),
            No,
        ),
        (
            "a restart whose ranks were dealt again",
            format!(
                "{whole}{}",
                rank(300, 8, 16, 2, 12, "Socket").replace("300000", "100000")
            ),
            Yes,
        ),
        (
            "of one size, both at work",
            format!("{trainer}{}{over}", rank(300, 0, 16, 2, 6, "IB")),
            Unknown,
        ),
        (
            "a rank that no communicator has",
            format!("{}{over}{back}", rank(100, 0, 1, 1, 7, "Socket")),
            Yes,
        ),
    ] {
        assert_eq!(verdict(&lines).tcp_fallback, want, "{name}: {lines}");
    }
}

/// A job of two nodes as NCCL of a release prints it, and the verdict on one run after another: with
/// other process ids or the same (`docker restart`), with connections or before them.
#[test]
fn a_restart_in_one_log() {
    let run = |release: u32, net: &str, pid: u32, id: u32, connected: bool| {
        let mut lines = String::new();
        for rank in 0..2 {
            let (pid, peer) = (pid + rank, rank + 2);
            let mut print = |thread: u32, text: &str| {
                lines += &format!("n1:{pid}:{thread} [{rank}] NCCL INFO {text}\n");
            };
            print(pid, "Bootstrap : Using eth0:10.0.0.1<0>");
            print(
                pid,
                match net {
                    "IB" => "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>",
                    _ => "NET/IB : No device found.",
                },
            );
            print(pid, &format!("Using network {net}"));
            let id = if release < 16 {
                String::new()
            } else {
                format!(" commId 0xa{id}")
            };
            let comm =
                format!("comm 0x{rank} rank {rank} nranks 4 cudaDev {rank} busId {rank}b000{id}");
            if release >= 18 {
                print(pid, &format!("{comm} - Init START"));
            }
            if release >= 20 {
                print(
                    pid,
                    &format!(
                        "comm 0x{rank} rank {rank} nRanks 4 nNodes 2 localRanks 2 localRank {rank} MNNVL 0"
                    ),
                );
            }
            // Since 2.22 another thread connects, when it is needed.
            let thread = if release >= 22 { pid + 90 } else { pid };
            let gdr = if net == "IB" { "/GDRDMA" } else { "" };
            if connected {
                print(
                    thread,
                    &format!(
                        "Channel 00/0 : {peer}[{rank}b000] -> {rank}[{rank}b000] [receive] via NET/{net}/0{gdr}"
                    ),
                );
            }
            if release < 20 {
                print(pid, &format!("{comm} - Init COMPLETE"));
            }
        }
        lines
    };
    for release in [12, 16, 18, 20, 24] {
        for (pid, connected) in [(500, true), (500, false), (100, true), (100, false)] {
            for (nets, want) in [(["IB", "Socket"], Yes), (["Socket", "IB"], No)] {
                let second = run(release, nets[1], pid, 2, connected);
                let lines = run(release, nets[0], 100, 1, true) + &second;
                let got = verdict(&lines);
                let name = format!("2.{release}, {nets:?}, {pid}, {connected}");
                // Without an id, rings and nodes nothing shows yet where the ranks are.
                let hidden = release < 18 && !connected && got.tcp_fallback == Unknown;
                assert!(got.tcp_fallback == want || hidden, "{name}: {got:#?}");
                let gdr = connected.then_some(want == No);
                assert_eq!(got.gdrdma, gdr, "{name}");
            }
        }
    }
}

/// What the run before it looked for says nothing of a run whose script disables verbs.
#[test]
fn a_restart_with_verbs_disabled() {
    let run = |net: &str| {
        format!(
            "n1:100:100 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
n1:100:100 [0] NCCL INFO NET/{net}
n1:100:100 [0] NCCL INFO comm 0x1 rank 0 nranks 16 cudaDev 0 busId 1b000 commId 0xa1 - Init START
n1:100:100 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\n"
        )
    };
    let lines = run("IB : No device found.")
        + "+ export NCCL_IB_DISABLE=1\n"
        + &run("Socket : Using [0]eth0:10.0.0.1<0>\nn1:100:100 [0] NCCL INFO Using network Socket");
    assert_eq!(verdict(&lines).tcp_fallback, Configured, "{lines}");
}

/// A file that ends in a number may go on: without the newline it proves nothing.
#[test]
fn a_count_that_is_cut_is_none() {
    for end in ["nRanks 8 nNodes 1", "nRanks 1", "nranks 1"] {
        for (newline, want) in [("", Unknown), ("\n", No)] {
            let lines = format!(
                "n1:10:20 [0] NCCL INFO NET/IB : No device found.
n1:10:20 [0] NCCL INFO Using network Socket
n1:10:20 [0] NCCL INFO comm 0x55 rank 0 {end}{newline}"
            );
            let mut log = NcclLog::new(LogLimits::FILE);
            let mut reader = Reader::default();
            reader.feed(lines.as_bytes(), &mut log, None);
            reader.finish(&mut log, None);
            let got = judge(&log, &JobContext::default()).tcp_fallback;
            assert_eq!(got, want, "{end}{newline:?}");
        }
    }
}

#[test]
fn the_version_behind_any_tag() {
    for (line, version) in [
        ("[32mNCCL version 2.20.5+cuda12.4", Some("2.20.5")),
        (r#"{"m":"\nNCCL version 2.20.5+cuda12.4"}"#, Some("2.20.5")),
        ("NCCL version 2.20.5+cuda12.4", Some("2.20.5")),
        (
            "(RayWorkerWrapper pid=593) NCCL version 2.20.5+cuda12.4",
            Some("2.20.5"),
        ),
        ("INFO:root:NCCL version 2.20.5+cuda12.4", Some("2.20.5")),
        (
            r#"{"severity":"INFO","m":"NCCL version 2.20.5+cuda12.4"}"#,
            Some("2.20.5"),
        ),
        ("NODE1: RCCL version 2.20.5+hip6.2", Some("2.20.5")),
        ("pyNCCL version 2.20.5", None),
        ("NCCL version", None),
    ] {
        assert_eq!(log(line).version.as_deref(), version, "{line}");
    }
}

#[test]
fn what_ends_or_fails_is_of_its_process() {
    let started = |pid: u32, rank: u32, nranks: u32, id: &str| {
        format!(
            "n1:{pid}:{pid} [0] NCCL INFO comm 0xa rank {rank} nranks {nranks} cudaDev 0 busId {pid}000 commId 0x{id} - Init START\n"
        )
    };
    let complete =
        |pid, rank, nranks, id: &str| started(pid, rank, nranks, id).replace("START", "COMPLETE");
    let failed = "n1:100:100 [0] NCCL INFO init.cc:1402 -> 2\n";
    let aborted = "n1:100:155 [0] NCCL INFO comm 0xa rank 0 nranks 16 cudaDev 0 busId 1000 - Abort COMPLETE\n";
    let pair = [(100, 0), (101, 1)];
    let world: String = (pair.iter())
        .flat_map(|(pid, rank)| [started(*pid, *rank, 2, "1"), complete(*pid, *rank, 2, "1")])
        .collect();
    for (name, lines, hangs) in [
        ("waits", started(100, 0, 16, "1"), true),
        ("failed", started(100, 0, 16, "1") + failed, false),
        (
            "another run",
            started(100, 0, 16, "1") + failed + &started(200, 0, 16, "2"),
            true,
        ),
        (
            "aborted by a watchdog",
            started(100, 0, 16, "1") + aborted,
            false,
        ),
        (
            "next to another pair",
            world + &started(100, 0, 2, "2") + &started(101, 0, 2, "3") + &complete(101, 0, 2, "3"),
            true,
        ),
    ] {
        let began: jiff::Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        let mut log = NcclLog::new(LogLimits::CONTAINER);
        Reader::default().feed(lines.as_bytes(), &mut log, Some(began));
        let late = "2026-03-01T11:00:00Z".parse().unwrap();
        let context = JobContext {
            now: Some((late, std::time::Duration::from_secs(300))),
            ..JobContext::default()
        };
        let got = judge(&log, &context);
        assert_eq!(got.init_hangs_since.is_some(), hangs, "{name}: {got:#?}");
    }
}

#[test]
fn ranks_beyond_the_limit_are_left_out() {
    let limits = LogLimits {
        seats: 1,
        ..LogLimits::CONTAINER
    };
    let lines = "
        n1:10:20 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 1000 commId 0x7 - Init COMPLETE
        n1:11:21 [1] NCCL INFO comm 0xb rank 1 nranks 2 cudaDev 1 busId 2000 commId 0x7 - Init COMPLETE";
    let log = log_within(limits, lines);
    let seats = log.groups.values().map(|group| group.seats.len());
    assert_eq!(seats.collect::<Vec<_>>(), [1]);
}

#[test]
fn settings_that_a_script_printed() {
    let log = log("NCCL_NET=Socket\nNCCL_NET_PLUGIN=1\nNCCL_IB_DISABLE=0");
    let want = [
        ("NCCL_NET", "Socket"),
        ("NCCL_NET_PLUGIN", "1"),
        ("NCCL_IB_DISABLE", "0"),
    ];
    let want = want.map(|(name, value)| (name.to_string(), value.to_string()));
    assert_eq!(log.env, want.into());
    assert!(log.printed_socket && !log.printed_ib_off);
}

/// Up to NCCL 2.21 only rank 0 prints the version: a worker's log without it lacks no line.
#[test]
fn sockets_as_a_worker_shows_them() {
    let of = |rank: u32, more: &str| {
        format!(
            "w1:40:440 [0] NCCL INFO Bootstrap : Using eth0:10.0.1.5<0>
w1:40:440 [0] NCCL INFO NET/Plugin: Using internal network plugin.
{more}w1:40:440 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.1.5<0>
w1:40:440 [0] NCCL INFO Using network Socket
w1:40:440 [0] NCCL INFO comm 0x5 rank {rank} nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
w1:40:440 [0] NCCL INFO Channel 00/0 : {rank}[0] -> 0[0] [send] via NET/Socket/0\n"
        )
    };
    let env = "w1:40:440 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0\n";
    let no_device = "w1:40:440 [0] NCCL INFO NET/IB : No device found.\n";
    for (rank, more, want) in [
        (8, "", Configured),
        (0, "", Yes),
        (8, env, Yes),
        (8, no_device, Yes),
    ] {
        let lines = of(rank, more);
        assert_eq!(verdict(&lines).tcp_fallback, want, "{lines}");
    }
}

/// NCCL 2.28 on: verbs that are disabled are refused, without a word on devices.
#[test]
fn verbs_that_are_refused() {
    let of = |more: &str| {
        format!(
            "n1:1:2 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
n1:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.1.5<0>
{more}n1:1:2 [0] NCCL INFO Failed to initialize NET plugin IB
n1:1:2 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.1.5<0>
n1:1:2 [0] NCCL INFO Using network Socket
n1:1:2 [0] NCCL INFO comm 0x5 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n"
        )
    };
    let env = "n1:1:2 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0\n";
    let off = "n1:1:2 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n";
    let no_device = "n1:1:2 [0] NCCL INFO NET/IB : No device found.\n";
    for (more, want) in [
        ("", Configured),
        (env, Yes),
        (off, Configured),
        (no_device, Yes),
    ] {
        // With INIT and NET alone the process's first lines are hidden.
        let lines = of(more);
        let bootstrap = "n1:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.1.5<0>\n";
        for lines in [lines.replace(bootstrap, ""), lines] {
            assert_eq!(verdict(&lines).tcp_fallback, want, "{lines}");
        }
    }
}

#[test]
fn a_job_that_disables_verbs_excuses_no_other_job() {
    let job = |host: &str, id: &str, net: &str, nranks: u32| {
        format!(
            "{host}:1:2 [0] NCCL INFO NCCL version 2.26.2+cuda12.4
{host}:1:2 [0] NCCL INFO Bootstrap: Using eth0:10.0.1.5<0>
{host}:1:2 [0] NCCL INFO {net}
{host}:1:2 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.1.5<0>
{host}:1:2 [0] NCCL INFO Using network Socket
{host}:1:2 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks {nranks} cudaDev 0 busId 19000 commId {id} - Init START
{host}:1:2 [0] NCCL INFO comm 0x5 rank 0 nRanks {nranks} nNodes 2 localRanks 8 localRank 0 MNNVL 0
{host}:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n"
        )
    };
    let (off, none) = (
        "NCCL_IB_DISABLE set by environment to 1.",
        "NET/IB : No device found.",
    );
    let asks = job("n1", "0x11", off, 16);
    for nranks in [16, 64] {
        let lines = format!("{asks}{}", job("n2", "0x22", none, nranks));
        assert_eq!(verdict(&lines).tcp_fallback, Yes, "{lines}");
        let lines = format!("{asks}{}", job("n2", "0x22", off, nranks));
        assert_eq!(verdict(&lines).tcp_fallback, Configured, "{lines}");
    }
}

#[test]
fn causes_that_another_line_refutes() {
    let sockets = "n1:1:2 [0] NCCL INFO NCCL version 2.22.3+cuda12.6
n1:1:2 [0] transport/net_ib.cc:567 NCCL WARN NET/IB : No IP interface found.
n1:1:2 [0] NCCL INFO Using network Socket
n1:1:2 [0] NCCL INFO comm 0x5 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n";
    let found = verdict(sockets);
    assert_eq!(
        (found.tcp_fallback, &found.causes[..]),
        (Yes, &[Failure::Ifname][..])
    );
    // NVIDIA's plugin finds no device, and NCCL itself does.
    let verbs = "n1:1:2 [0] NCCL INFO NET/IB : No device found.
n1:1:2 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [RO]; OOB eth0:1.1.1.1<0>
n1:1:2 [0] NCCL INFO Using network IB
n1:1:2 [0] NCCL INFO comm 0x5 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n";
    let found = verdict(verbs);
    assert_eq!((found.tcp_fallback, &found.causes[..]), (No, &[][..]));
}
