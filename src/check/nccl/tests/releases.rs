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
            job("Socket", &format!("{GDRCOPY} | {TCP}"), NONE, "DMA-BUF"),
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
