//! Facts from outside the log, and logs that go on.

use super::super::*;
use super::{FALLBACK, log, verdict};
use crate::observe::nccl::log::LogLimits;
use crate::observe::{PodContainer, PodFacts};
use crate::source::nccl::Reader;
use std::time::Duration;

fn container(env: &[(&str, &str)], rdma: &[&str]) -> PodContainer {
    let own = |(name, value): &(&str, &str)| ((*name).to_string(), (*value).to_string());
    PodContainer {
        env: env.iter().map(own).collect(),
        rdma: rdma.iter().map(|name| ((*name).to_string(), 1)).collect(),
        ..PodContainer::default()
    }
}

const SELECTED: &str = "
    n1:10:20 [0] NCCL INFO NET/IB : No device found.
    n1:10:20 [0] NCCL INFO Using network Socket
    n1:10:20 [0] NCCL INFO comm 0xa rank 0 nranks 4 cudaDev 0 busId 1000 commId 0x7 - Init START";

#[test]
fn a_gang_of_pods_spans_nodes() {
    for (gang, want) in [
        (Some(true), Fallback::Yes),
        (Some(false), Fallback::No),
        (None, Fallback::Unknown),
    ] {
        let pod = PodFacts {
            gang,
            ..PodFacts::default()
        };
        let context = JobContext {
            pod: Some(&pod),
            ..JobContext::default()
        };
        let got = judge(&log(SELECTED), &context);
        assert_eq!((got.tcp_fallback, got.multi_node), (want, gang), "{got:#?}");
    }
}

/// Nodes lose GPUs, and parts of GPUs are ranks: only more than any host has prove something.
#[test]
fn the_nodes_gpus_alone_prove_nothing() {
    for gpus in [None, Some(2), Some(8)] {
        let context = JobContext {
            node_gpus: gpus,
            ..JobContext::default()
        };
        let got = judge(&log(SELECTED), &context).tcp_fallback;
        assert_eq!(got, Fallback::Unknown, "{gpus:?}");
    }
}

#[test]
fn the_manifest_asks_for_sockets_or_for_efa() {
    const OFF: &str = "n1:10:20 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.";
    const BEGUN: &str = "n1:10:20 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>";
    for (env, rdma, before, want) in [
        (&[][..], &[][..], "", Fallback::Yes),
        (&[("NCCL_NET", "Socket")], &[], "", Fallback::Configured),
        (&[("NCCL_IB_DISABLE", "1")], &[], "", Fallback::Configured),
        // Verbs were tried all the same, and by no plugin: it did not reach the process.
        (&[("NCCL_IB_DISABLE", "1")], &[], BEGUN, Fallback::Yes),
        (&[("NCCL_IB_DISABLE", "0")], &[], "", Fallback::Yes),
        (&[], &["vpc.amazonaws.com/efa"], OFF, Fallback::Yes),
        (&[], &["rdma/hca"], OFF, Fallback::Configured),
    ] {
        let container = container(env, rdma);
        let context = JobContext {
            container: Some(&container),
            ..JobContext::default()
        };
        let got = judge(&log(&format!("{before}\n{FALLBACK}")), &context);
        assert_eq!(got.tcp_fallback, want, "{env:?} {rdma:?} {before}");
    }
    let container = container(&[("NCCL_IB_DISABLE", "1")], &[]);
    let context = JobContext {
        container: Some(&container),
        ..JobContext::default()
    };
    let (_, untried) = FALLBACK.split_once("No device found.").unwrap();
    let got = judge(&log(untried), &context);
    assert_eq!(got.tcp_fallback, Fallback::Configured, "{got:#?}");
}

#[test]
fn a_later_run_in_the_same_log_counts() {
    let run = |pid: u32, id: u32, net: &str| {
        let head = format!("n1:{pid}:{pid} [0] NCCL INFO");
        format!(
            "{head} comm 0xa rank 0 nranks 16 cudaDev 0 busId 1000 commId 0x{id} - Init START
             {head} Channel 00/0 : 8[0] -> 0[0] [receive] via NET/{net}/0
             {head} comm 0xa rank 0 nranks 16 cudaDev 0 busId 1000 commId 0x{id} - Init COMPLETE"
        )
    };
    let first = run(10, 1, "Socket");
    assert_eq!(verdict(&first).tcp_fallback, Fallback::Yes);
    let both = format!("{first}\n{}", run(99, 2, "IB"));
    let got = verdict(&both);
    assert_eq!(got.tcp_fallback, Fallback::No, "{got:#?}");
    assert_eq!(got.network, Network::IbOrRoce);
}

#[test]
fn an_init_that_does_not_end() {
    let began: jiff::Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
    let mut log = NcclLog::new(LogLimits::CONTAINER);
    let mut reader = Reader::default();
    reader.feed(SELECTED.trim().as_bytes(), &mut log, Some(began));
    reader.feed(b"\n", &mut log, Some(began));
    let at = |text: &str| JobContext {
        now: Some((text.parse().unwrap(), Duration::from_secs(300))),
        ..JobContext::default()
    };
    let early = judge(&log, &at("2026-03-01T10:04:59Z"));
    assert_eq!(early.init_hangs_since, None);
    let late = judge(&log, &at("2026-03-01T10:05:00Z"));
    assert_eq!(late.init_hangs_since, Some(began));
    assert!(late.causes.contains(&Cause::InitHang), "{:?}", late.causes);
    assert!(late.summary.contains("4 ranks"), "{}", late.summary);
    // Init completes later.
    let end = "n1:10:20 [0] NCCL INFO comm 0xa rank 0 nranks 4 cudaDev 0 busId 1000 commId 0x7 - Init COMPLETE\n";
    reader.feed(end.as_bytes(), &mut log, Some(began));
    let done = judge(&log, &at("2026-03-01T11:00:00Z"));
    assert_eq!(
        (done.init_hangs_since, done.init_complete),
        (None, Some(true))
    );
    // A finished file never hangs.
    assert_eq!(verdict(SELECTED).init_hangs_since, None);
}
