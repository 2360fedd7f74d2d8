//! What recent releases and their plugins print, and what they do not say with it.

use super::super::*;
use super::{Configured, No, Unknown, Yes, verdict};
use crate::observe::nccl::Failure::{self, *};

/// The lines of one process, separated by `|`, with the prefix that each has.
fn printed(lines: &str) -> String {
    let lines = lines.split('|').map(str::trim);
    let printed = lines.map(|line| match line.split_once("NCCL WARN ") {
        Some((place, said)) => format!("a:1:9 [0] {place}NCCL WARN {said}\n"),
        None => format!("a:1:9 [0] NCCL INFO {line}\n"),
    });
    printed.collect()
}

/// Name, lines, fallback, network, causes.
type Row = (&'static str, String, Fallback, Network, &'static [Failure]);

fn check(rows: &[Row]) {
    for (name, lines, fallback, network, causes) in rows {
        let got = verdict(&printed(lines));
        assert_eq!(
            (got.tcp_fallback, got.network, &got.causes[..]),
            (*fallback, *network, *causes),
            "{name}: {got:#?}"
        );
    }
}

/// From 2.29.7 on GIN starts between the choice of a network and the line that it is used.
#[test]
fn what_gin_lacks_says_nothing_of_the_network() {
    const NONE: &str = "NET/IB : No device found. | NET/IB : Using [RO]; OOB eth0:10.0.0.1<0>";
    const NO_VERBS: &str = "Failed to open libibverbs.so[.1]";
    const NO_ADDRESS: &str = "net_ib/init.cc:235 NCCL WARN NET/IB : No IP interface found.";
    const GDRCOPY: &str =
        "nccl_ofi_gin_api.cpp:56 NCCL WARN NET/OFI Failed to initialize GDRCopy: -1";
    let job = |net: &str, before: &str, gin: &str, after: &str| {
        format!(
            "NCCL version 2.29.7+cuda13.0 | Bootstrap: Using eth0:10.0.0.1<0>
             | {before} | Initialized NET plugin {net} | Assigned NET plugin {net} to comm
             | {gin} | Using network {net}
             | {after} | comm 0xa rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0
             | Channel 00/0 : 0[0] -> 1[0] [send] via NET/{net}/0/GDRDMA"
        )
    };
    const TCP: &str = "NET/Socket : Using [0]eth0:10.0.0.1<0>";
    let refused = format!("{NONE} | Failed to initialize NET plugin IB | {TCP}");
    let asked = |gin: &str| job("Socket", TCP, gin, "DMA-BUF");
    let efa = |gin: &str| {
        job(
            "Libfabric",
            "NET/OFI Selected provider is efa",
            gin,
            "DMA-BUF",
        )
    };
    let (tcp, not_tried) = (Network::Socket, &[IbNotTried][..]);
    check(&[
        (
            "begun again",
            format!(
                "Assigned NET plugin Socket to comm | NCCL version 2.29.7+cuda13.0
                 | Bootstrap: Using eth0:10.0.0.1<0> | {}",
                job("Socket", &refused, "GIN", "DMA-BUF")
            ),
            Yes,
            tcp,
            &[NoDevice],
        ),
        ("NCCL_NET=Socket", asked("GIN"), Configured, tcp, not_tried),
        ("no device", asked(NONE), Configured, tcp, not_tried),
        ("no verbs", asked(NO_VERBS), Configured, tcp, not_tried),
        ("no address", asked(NO_ADDRESS), Configured, tcp, not_tried),
        (
            "disabled",
            asked("NCCL_IB_DISABLE set by environment to 1."),
            Configured,
            tcp,
            &[IbDisabled],
        ),
        (
            "allowed",
            asked("NCCL_IB_DISABLE set by environment to 0."),
            Configured,
            tcp,
            not_tried,
        ),
        ("EFA's GIN", asked(GDRCOPY), Configured, tcp, not_tried),
        ("EFA", efa(NONE), No, Network::Ofi, &[]),
        ("EFA without GDRCopy", efa(GDRCOPY), No, Network::Ofi, &[]),
        (
            "verbs failed before the choice, too",
            job("Socket", &refused, NONE, "DMA-BUF"),
            Yes,
            tcp,
            &[NoDevice],
        ),
        (
            "they fail for the next communicator",
            job("Socket", TCP, NONE, NONE),
            Yes,
            tcp,
            &[NoDevice],
        ),
        (
            "libfabric failed before the choice",
            job(
                "Socket",
                &format!(
                    "nccl_net_ofi_create_plugin:335 NCCL WARN NET/OFI aws-ofi-nccl initialization failed | {TCP}"
                ),
                NONE,
                "DMA-BUF",
            ),
            Yes,
            tcp,
            &[PluginInit],
        ),
    ]);
}

#[test]
fn a_plugin_of_verbs_that_finds_no_device() {
    let failed = |plugin: &str, why: &str| {
        format!(
            "NET/Plugin: Loaded net plugin {plugin} (v11) | {why}
             | Failed to initialize NET plugin {plugin} | {why} | Failed to initialize NET plugin IB
             | NET/Socket : Using [0]eth0:10.0.0.1<0> | Using network Socket
             | Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0"
        )
    };
    const NONE: &str = "NET/IB : No device found.";
    const CLOSED: &str =
        "init.cc:259 NCCL WARN NET/IB : Unable to open device mlx5_0 | NET/IB : No device found.";
    let tcp = Network::Socket;
    check(&[
        ("IBext", failed("IBext_v11", NONE), Yes, tcp, &[NoDevice]),
        ("SPCX", failed("SPCX", NONE), Yes, tcp, &[NoDevice]),
        ("closed", failed("IBext_v11", CLOSED), Yes, tcp, &[OpenDevice, NoDevice]),
        ("no reason", failed("IBext_v11", "DMA-BUF"), Yes, tcp, &[PluginInit]),
        ("EFA", failed("Libfabric", NONE), Yes, tcp, &[PluginInit, NoDevice]),
        (
            "no reason, but on another host",
            format!("{}\nb:1:9 [0] NCCL INFO {NONE}", failed("IBext_v11", "DMA-BUF")),
            Yes,
            tcp,
            &[PluginInit, NoDevice],
        ),
        (
            "SPCX at work",
            "NET/Plugin: Loaded net plugin SPCX (v12) | NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE
             | Using network SPCX | Channel 00/0 : 0[0] -> 1[0] [send] via NET/SPCX/1(0)/GDRDMA"
                .into(),
            No,
            Network::Roce,
            &[],
        ),
    ]);
}

#[test]
fn a_device_that_cannot_be_opened_among_others() {
    const CLOSED: &str = "net_ib/init.cc:259 NCCL WARN NET/IB : Unable to open device mlx5_8";
    const LIST: &str = "NET/IB : Using [0]mlx5_0:1/IB | Using network IB";
    const ERROR: &str = "net_ib.cc:9 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<1> with status=12 hca mlx5_1";
    let of = |lines: &[&str]| lines.join(" | ");
    check(&[
        ("none", of(&[CLOSED, LIST]), No, Network::Ib, &[]),
        (
            "error",
            of(&[CLOSED, LIST, ERROR]),
            No,
            Network::Ib,
            &[IbError],
        ),
        (
            "cut",
            of(&[CLOSED, ERROR]),
            No,
            Network::IbOrRoce,
            &[IbError],
        ),
        (
            "no list",
            of(&[CLOSED]),
            Unknown,
            Network::Unknown,
            &[OpenDevice],
        ),
        (
            "no other",
            of(&[CLOSED, "NET/IB : No device found."]),
            Unknown,
            Network::Unknown,
            &[OpenDevice, NoDevice],
        ),
        (
            "CUDA failed on another host",
            of(&[
                "socket.cc:9 NCCL WARN Connection closed by remote peer b<1>",
                "alloc.h:9 NCCL WARN Cuda failure 2 'out of memory'",
            ]),
            Unknown,
            Network::Unknown,
            &[Cuda, PeerReset],
        ),
    ]);
}

/// NVLink joins the ranks of a clique, also between nodes: only other pairs use the net.
#[test]
fn nvlink_between_nodes() {
    let job = |clique: u32, nranks: u32, more: &str| {
        format!(
            "NET/IB : No device found. | Using network Socket
             | ncclCommInitRank comm 0xa rank 3 nranks {nranks} cudaDev 3 nvmlDev 3 busId 1901000 commId 0x5 - Init START
             | MNNVL busId 0x1901000 fabric UUID 9f8a.1 cliqueId 0x7ffe state 3 healthMask 0x1
             | MNNVL 1 cliqueId 7ffe cliqueSize {clique} cliqueRank 3 | {more}"
        )
    };
    const NODES: &str = "comm 0xa rank 3 nRanks 72 nNodes 18 localRanks 4 localRank 3 MNNVL 1";
    const WAY: &str = "Channel 00/0 : 3[3] -> 4[0] via P2P/MNNVL";
    const OVER_TCP: &str = "Channel 00/0 : 3[3] -> 4[0] [send] via NET/Socket/0";
    const SPLIT: &str = "ncclCommSplit comm 0xb rank 3 nranks 144 cudaDev 3 nvmlDev 3 busId 1901000 parent 0xa commId 0x6 - Init START";
    // Before 2.18.3 and in excerpts its communicator is not known yet.
    let unbound = "NET/IB : No device found. | Using network Socket
        | MNNVL 1 cliqueId 7ffe cliqueSize 2 cliqueRank 0
        | comm 0xa rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 1
        | Channel 00/0 : 0[0] -> 1[0] via P2P/MNNVL
        | comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 901000 commId 0x5 - Init COMPLETE";
    let (tcp, no_device) = (Network::Socket, &[NoDevice][..]);
    check(&[
        ("all, cut", job(72, 72, ""), No, Network::Unknown, &[]),
        ("all", job(72, 72, NODES), No, Network::Unknown, &[]),
        (
            "all, no net",
            job(72, 72, NODES).replace("Using network Socket", "DMA-BUF"),
            No,
            Network::Unknown,
            &[],
        ),
        ("all, not bound", unbound.into(), No, Network::Unknown, &[]),
        ("a part", job(72, 144, WAY), Yes, tcp, no_device),
        (
            "a part that reaches others",
            job(72, 144, "NCCL_MNNVL_CROSS_CLIQUE set by environment to 1."),
            Unknown,
            tcp,
            no_device,
        ),
        ("all, and TCP", job(72, 72, OVER_TCP), Yes, tcp, no_device),
        (
            "torn",
            job(7, 72, NODES).replace(" cliqueRank 3", ""),
            Unknown,
            tcp,
            no_device,
        ),
        (
            "of another communicator, too",
            job(72, 72, "MNNVL 1 cliqueId 7ffe cliqueSize 4 cliqueRank 3"),
            Unknown,
            tcp,
            no_device,
        ),
        (
            "a part, of a domain that reaches all",
            job(
                4,
                72,
                "Cross-clique P2P enabled: nvlDomainSize=72 cliqueSize=4",
            ),
            Unknown,
            tcp,
            no_device,
        ),
        (
            "all, and P2P is off",
            job(72, 72, "NCCL_P2P_DISABLE set by environment to 1."),
            Unknown,
            tcp,
            no_device,
        ),
        (
            "next to a wider one",
            job(72, 72, SPLIT),
            Unknown,
            tcp,
            no_device,
        ),
        (
            "of a split",
            job(72, 72, "").replace("commId", "parent 0x9 commId"),
            Unknown,
            tcp,
            no_device,
        ),
    ]);
}

#[test]
fn verbs_disabled_and_no_more() {
    const OFF: &str = "NCCL_IB_DISABLE set by environment to 1.";
    let of = |more: &str| format!("{OFF} | {more}");
    let (tcp, unknown) = (Network::Socket, Network::Unknown);
    check(&[
        ("alone", of("DMA-BUF"), Unknown, unknown, &[]),
        (
            "a plugin was loaded",
            of("NET/Plugin: Loaded net plugin Libfabric (v10)"),
            Unknown,
            unknown,
            &[],
        ),
        (
            "without a plugin",
            of("NET/Plugin: Could not find: libnccl-net.so"),
            Configured,
            unknown,
            &[IbDisabled],
        ),
        (
            "refused",
            of("Failed to initialize NET plugin IB"),
            Configured,
            unknown,
            &[IbDisabled],
        ),
        (
            "TCP begins",
            of("NET/Socket : Using [0]eth0:10.0.0.1<0>"),
            Configured,
            tcp,
            &[IbDisabled],
        ),
    ]);
}

#[test]
fn reductions_in_switches_are_over_verbs() {
    for (lines, gdrdma) in [
        ("CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA", true),
        ("CollNet 00/0 : 0 [receive] via COLLNET/SHARP/0", false),
        ("Coll 00 : 0 [send] via COLLNET/SHARP/0/GDRDMA", true),
        (
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IBext_v8/0
             | CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA(PCI)",
            true,
        ),
    ] {
        let got = verdict(&printed(lines));
        let want = (No, Network::IbOrRoce, Some(gdrdma));
        assert_eq!((got.tcp_fallback, got.network, got.gdrdma), want, "{lines}");
    }
    let wide = "comm 0x5 rank 0 nRanks 16 nNodes 2 localRanks 8";
    let by_line = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0";
    let chosen = "NET/IB : No device found. | Using network Socket | CollNet 00/0 : 0 [send] via COLLNET/SHARP/0";
    for tcp in [by_line, chosen] {
        let got = verdict(&printed(&format!("{tcp} | {wide}")));
        assert_eq!(got.tcp_fallback, Yes, "{tcp}");
    }
}

/// What the first lines of ranks leave open until NCCL has compared hosts and GPUs.
#[test]
fn ranks_that_begin() {
    let seats = |ranks: std::ops::Range<u32>, nranks: u32, bus: &str, phase: &str| -> String {
        let seat = |rank: u32| {
            let bus = if bus.is_empty() {
                format!("{rank}b000")
            } else {
                bus.into()
            };
            let head = format!("h:{}:{} [{rank}] NCCL INFO", 100 + rank, 200 + rank);
            format!(
                "{head} NET/IB : No device found.\n{head} Using network Socket\n\
                 {head} comm 0xa{rank} rank {rank} nranks {nranks} cudaDev {rank} busId {bus} commId 0x5 - Init {phase}\n"
            )
        };
        ranks.map(seat).collect()
    };
    let ring = |ranks: u32, way: &str| -> String {
        let hop = |rank: u32| {
            let head = format!("h:{}:{} [{rank}] NCCL INFO", 100 + rank, 200 + rank);
            let to = (rank + 1) % ranks;
            format!("{head} Channel 00/0 : {rank}[{rank}] -> {to}[{to}] via {way}\n")
        };
        (0..ranks).map(hop).collect()
    };
    let of = |ranks, nranks, bus: &str, phase: &str| seats(0..ranks, nranks, bus, phase);
    let all = of(20, 20, "", "COMPLETE");
    for (name, lines, want) in [
        ("half of a host", of(8, 16, "", "START"), Unknown),
        ("a host of two", of(8, 16, "", "COMPLETE"), Yes),
        ("a host of many", of(8, 24, "", "START"), Yes),
        ("one GPU twice", of(2, 2, "1b000", "START"), Unknown),
        ("on two hosts", of(2, 2, "1b000", "COMPLETE"), Yes),
        (
            "more than 16 GPUs",
            format!("{all}{}", ring(20, "P2P/IPC")),
            No,
        ),
        (
            "before their communicator is known",
            format!("{}{all}", ring(20, "P2P/IPC")),
            No,
        ),
        ("not joined", format!("{all}{}", ring(18, "P2P/IPC")), Yes),
        (
            "over NVLink",
            format!("{all}{}", ring(20, "P2P/MNNVL")),
            Unknown,
        ),
    ] {
        let got = verdict(&lines);
        assert_eq!(got.tcp_fallback, want, "{name}: {got:#?}");
    }
}

#[test]
fn jobs_of_one_node_pasted_together() {
    let job = |host: &str, id: &str, nodes: u32, split: &str| {
        let head = format!("{host}:1:9 [0] NCCL INFO");
        format!(
            "{head} NET/IB : No device found.\n{head} Using network Socket\n\
             {head} comm 0xa rank 0 nranks 2 cudaDev 0 busId 1000 {split}commId {id} - Init START\n\
             {head} comm 0xa rank 0 nRanks 2 nNodes {nodes} localRanks 2 localRank 0 MNNVL 0\n"
        )
    };
    let tests = "#  Rank  0 Group  0 Pid 1 on h1 device  0 [0x21] GPU
        #  Rank  1 Group  0 Pid 1 on h2 device  0 [0x21] GPU\n";
    let (first, second) = (job("h1", "0x5", 1, ""), job("h2", "0x6", 1, ""));
    for (name, lines, want) in [
        ("of two hosts", format!("{first}{second}"), No),
        ("of one job", format!("{tests}{first}{second}"), Yes),
        (
            "split",
            format!("{first}{}", job("h2", "0x6", 1, "parent 0x1 ")),
            Unknown,
        ),
        (
            "with one of two nodes",
            format!("{first}{}", job("h2", "0x6", 2, "")),
            Yes,
        ),
        (
            "with a connection of one that is cut",
            format!(
                "{first}{second}h1:1:77 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0\n"
            ),
            Yes,
        ),
        (
            "with a ring of one that is cut",
            format!("{first}{second}h1:1:77 [0] NCCL INFO Channel 00/02 :    0   1   2   3\n"),
            Unknown,
        ),
    ] {
        let got = verdict(&lines);
        assert_eq!(got.tcp_fallback, want, "{name}: {got:#?}");
    }
}

#[test]
fn a_setting_that_turns_gpudirect_off_is_named_first() {
    const SLOW: &str = "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0";
    for (setting, value, named) in [
        ("NCCL_NET_GDR_LEVEL", "LOC", true),
        ("NCCL_NET_GDR_LEVEL", "0", true),
        ("NCCL_NET_GDR_LEVEL", "SYS", false),
        ("NCCL_NET_GDR_READ", "0.", true),
        ("NCCL_NET_GDR_READ", "1.", false),
    ] {
        let got = verdict(&printed(&format!(
            "{setting} set by environment to {value} | {SLOW}"
        )));
        assert_eq!(got.causes, [GdrDisabled], "{setting}");
        assert_eq!(
            got.remedies[0].starts_with(setting),
            named,
            "{:?}",
            got.remedies
        );
    }
}

/// PyTorch quotes the text of NCCL's last warning in a line of its own.
#[test]
fn the_last_error_in_the_line_behind() {
    const SHM: &str = "Error: failed to extend /dev/shm/nccl-x to 33030532 bytes, error: No space left on device (28)";
    for (lines, want) in [
        (format!("[rank5]: Last error:\n[rank5]: {SHM}"), &[Shm][..]),
        (
            format!("Last error:\nh:1:9 [0] shmutils.cc:72 NCCL WARN {SHM}"),
            &[Shm],
        ),
        (format!("Last error:\n\n{SHM}"), &[]),
        (format!("[rank5]: Last error: none\n{SHM}"), &[]),
        ("Last error:\nepoch 3".into(), &[]),
        (
            "Last error:\nNET/IB: Got completion from peer h<1> with status=12 opcode=0 hca mlx5_3"
                .into(),
            &[IbError],
        ),
    ] {
        let got = verdict(&lines);
        let known = got.warnings.values().sum::<u64>();
        assert_eq!(
            (&got.causes[..], got.tcp_fallback),
            (want, Unknown),
            "{lines}"
        );
        assert_eq!(known, want.len() as u64, "{lines}");
    }
}

#[test]
fn plugins_by_what_they_print() {
    let job = |head: &str, net: &str| {
        format!(
            "{head} | comm 0xa rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0
             | Channel 00/0 : 0[0] -> 1[0] [send] via NET/{net}"
        )
    };
    let refused = |before: &str| {
        let head = format!(
            "{before} | Failed to initialize NET plugin IB | NET/Socket : Using [0]eth0:10.0.0.1<0>
             | Initialized NET plugin Socket | Using network Socket"
        );
        job(&head, "Socket/0")
    };
    let hpcx = "NET/Plugin: Loaded net plugin NCCL RDMA Plugin v9 (v9) | P2P plugin v9 IBext_v9
        | NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0> | Using network NCCL RDMA Plugin v9";
    let gin = "Using network Libfabric
        | init:56 NCCL WARN NET/OFI Failed to initialize GDRCopy: Failed to open gdr handle";
    let provider = "NET/OFI Selected provider is efa, fabric is efa (found 4 nics)";
    check(&[
        (
            "HPC-X",
            job(hpcx, "NCCL RDMA Plugin v9/6/GDRDMA"),
            No,
            Network::Roce,
            &[],
        ),
        (
            "HPC-X without GPUDirect",
            job(hpcx, "NCCL RDMA Plugin v9/6"),
            No,
            Network::Roce,
            &[GdrDisabled],
        ),
        (
            "GIN without GDRCopy",
            job(gin, "Libfabric/0/GDRDMA"),
            No,
            Network::Ofi,
            &[],
        ),
        ("a provider alone", provider.into(), No, Network::Ofi, &[]),
        (
            "verbs refused without a word, no version in view",
            refused("NET/Plugin: Could not find: libnccl-net.so"),
            Configured,
            Network::Socket,
            &[IbDisabled],
        ),
        (
            "verbs refused for want of devices",
            refused("NET/IB : No device found."),
            Yes,
            Network::Socket,
            &[NoDevice],
        ),
    ]);
}
