use super::*;
use crate::check::Weight;
use crate::check::job_verdicts::Jobs;
use crate::check::nccl_suspect::CHECK;
use crate::check::testing::Node;
use crate::observe::Bytes;
use crate::units::Span;
use std::sync::Arc;

fn policy() -> Nccl {
    Nccl {
        suspect_bytes_per_second: 100_000_000,
        suspect_after: Span::from_secs(120),
        ..Nccl::default()
    }
}

fn node() -> NodeRdma {
    NodeRdma {
        devices: [("mlx5_0".to_string(), 40)].into(),
        exclusive: Some(false),
        ..NodeRdma::default()
    }
}

/// So many MB/s by TCP, half of it each way.
fn moved(mb: f64) -> Moved {
    let half = Bytes {
        received: mb * 5e5,
        sent: mb * 5e5,
    };
    Moved {
        tcp: half,
        ip: half,
        links: half,
    }
}

fn pod(at: u64, mb: f64, qps: PodQps) -> PodTraffic {
    PodTraffic {
        uid: "u".into(),
        pod: GpuPod {
            namespace: "ml".into(),
            name: "train-0".into(),
            gpus: 8,
            ..GpuPod::default()
        },
        at: Millis::from_secs(at),
        processes: 9,
        host_network: Some(false),
        from: Some(Millis::from_secs(at - 30)),
        per_second: Some(moved(mb)),
        unreadable: None,
        qps,
        rdma_per_second: None,
    }
}

fn none() -> PodQps {
    PodQps::Known(OwnedQps::default())
}

fn rc(ready: u32) -> PodQps {
    PodQps::Known(OwnedQps {
        rc: 4,
        ready,
        devices: vec!["mlx5_0".into()],
        ..OwnedQps::default()
    })
}

#[test]
fn a_suspect_is_one_only_after_a_while() {
    let mut last = None;
    let mut seen = Vec::new();
    // (second, MB/s)
    for (at, mb) in [
        (30, 900.0),
        (60, 900.0),
        (90, 900.0),
        (120, 900.0),
        (150, 900.0),
        // Anything less starts over.
        (180, 50.0),
        (210, 900.0),
        (330, 900.0),
    ] {
        let suspect = judge(last.as_ref(), &node(), &pod(at, mb, none()), &policy());
        seen.push((
            suspect.state,
            suspect.reason.clone(),
            suspect.since.0 / 1000,
        ));
        last = Some(suspect);
    }
    let row = |state, reason: &str, since| (state, reason.to_string(), since);
    assert_eq!(
        seen,
        [
            row(SuspectState::Unknown, "Watching", 30),
            row(SuspectState::Unknown, "Watching", 30),
            row(SuspectState::Unknown, "Watching", 30),
            // The first rate is that of the 30 s before it.
            row(SuspectState::Suspect, "TcpOnly", 120),
            row(SuspectState::Suspect, "TcpOnly", 120),
            row(SuspectState::Idle, "LittleTraffic", 180),
            row(SuspectState::Unknown, "Watching", 210),
            row(SuspectState::Suspect, "TcpOnly", 330),
        ]
    );
    let suspect = last.unwrap();
    assert_eq!(
        suspect.message,
        "9 processes with 8 GPUs move 900.0 MB/s by TCP and own no RDMA queue pair"
    );
    assert_eq!(suspect.evidence["tcp_sent_bytes_per_second"], 450_000_000);
    assert_eq!(suspect.evidence["queue_pairs_rc"], 0);
    assert_eq!(suspect.evidence["for_seconds"], 150);
    assert!(suspect.remedy.contains("NCCL_DEBUG=INFO"));
    let jobs = Jobs {
        suspects: Arc::new([(suspect.uid.clone(), suspect)].into()),
        ..Jobs::default()
    };
    let node = Node::empty();
    let mut context = node.context();
    context.jobs = Some(&jobs);
    let found = &(CHECK.run)(&context.of_check(&CHECK))[0];
    assert_eq!(
        (found.weight, found.subject.as_str(), found.reason),
        (Weight::Notice, "ml/train-0", "NcclSuspect")
    );
}

#[test]
fn whatever_is_not_known_is_no_suspicion() {
    type Edit = fn(&mut NodeRdma, &mut PodTraffic);
    let rows: &[(&str, SuspectState, &str, Edit)] = &[
        ("as it is", SuspectState::Suspect, "TcpOnly", |_, _| {}),
        ("no hostPID", SuspectState::Unknown, "NoProcess", |_, p| {
            p.processes = 0
        }),
        ("cgroups", SuspectState::Unknown, "Unreadable", |_, p| {
            p.unreadable = Some("denied".into())
        }),
        ("first look", SuspectState::Unknown, "FirstLook", |_, p| {
            p.from = None;
            p.per_second = None;
        }),
        (
            "host network",
            SuspectState::Unknown,
            "HostNetwork",
            |_, p| p.host_network = Some(true),
        ),
        (
            "host network?",
            SuspectState::Unknown,
            "HostNetwork",
            |_, p| p.host_network = None,
        ),
        (
            "netlink fails",
            SuspectState::Unknown,
            "RdmaUnknown",
            |n, _| n.unknown = Some("timeout".into()),
        ),
        (
            "exclusive",
            SuspectState::Unknown,
            "ExclusiveDevices",
            |n, _| n.exclusive = Some(true),
        ),
        // An old kernel tells no mode, and has none but shared.
        ("mode untold", SuspectState::Suspect, "TcpOnly", |n, _| {
            n.exclusive = None
        }),
        (
            "no RDMA here",
            SuspectState::Unknown,
            "NoRdmaDevice",
            |n, _| n.devices.clear(),
        ),
        ("not listed", SuspectState::Unknown, "NotListed", |_, p| {
            p.qps = PodQps::NotListed
        }),
        (
            "hidden owners",
            SuspectState::Unknown,
            "QueuePairsUnknown",
            |_, p| {
                p.qps = PodQps::Unknown("3 queue pairs tell no process".into());
            },
        ),
        (
            "datagrams",
            SuspectState::Unknown,
            "DatagramOnly",
            |_, p| {
                p.qps = PodQps::Known(OwnedQps {
                    datagram: 2,
                    ..OwnedQps::default()
                });
            },
        ),
        (
            "moves little",
            SuspectState::Idle,
            "LittleTraffic",
            |_, p| p.per_second = Some(moved(99.0)),
        ),
        // The node as a whole moves little, and so do pods that share its namespace.
        (
            "host network, quiet",
            SuspectState::Idle,
            "LittleTraffic",
            |_, p| {
                p.host_network = Some(true);
                p.per_second = Some(moved(1.0));
            },
        ),
        (
            "a virtual machine",
            SuspectState::Unknown,
            "NoIpLayer",
            |_, p| {
                let links = moved(900.0).links;
                p.per_second = Some(Moved {
                    links,
                    ..moved(1.0)
                });
            },
        ),
        (
            "a node's bridges",
            SuspectState::Idle,
            "LittleTraffic",
            |_, p| {
                let links = moved(900.0).links;
                p.host_network = Some(true);
                p.per_second = Some(Moved {
                    links,
                    ..moved(1.0)
                });
            },
        ),
        ("EFA", SuspectState::Cleared, "RdmaMoves", |_, p| {
            p.rdma_per_second = Some(5e9);
            p.qps = PodQps::Known(OwnedQps {
                other: 8,
                ready: 8,
                ..OwnedQps::default()
            });
        }),
    ];
    for (name, state, reason, edit) in rows {
        let (mut node, mut pod) = (node(), pod(300, 900.0, none()));
        edit(&mut node, &mut pod);
        // However long it stood before.
        let long = Suspect {
            above_since: Some(Millis(1)),
            ..judge(None, &node, &pod, &policy())
        };
        let suspect = judge(Some(&long), &node, &pod, &policy());
        assert_eq!(
            (suspect.state, suspect.reason.as_str()),
            (*state, *reason),
            "{name}"
        );
        assert!(!suspect.message.is_empty(), "{name}");
    }
}

#[test]
fn who_owns_queue_pairs_is_never_suspected() {
    for (mb, ready, rdma, state, reason) in [
        (900.0, 4, Some(4e10), SuspectState::Cleared, "RdmaMoves"),
        (0.0, 4, Some(4e10), SuspectState::Cleared, "RdmaMoves"),
        // Made, and never connected: somebody else's bytes.
        (900.0, 0, Some(4e10), SuspectState::Unknown, "RdmaSilent"),
        (900.0, 4, Some(1000.0), SuspectState::Unknown, "RdmaSilent"),
        (900.0, 4, None, SuspectState::Unknown, "RdmaRateUnknown"),
        (1.0, 4, Some(0.0), SuspectState::Idle, "LittleTraffic"),
    ] {
        let mut traffic = pod(300, mb, rc(ready));
        traffic.rdma_per_second = rdma;
        // Shared or not, readable or not.
        for host_network in [None, Some(true), Some(false)] {
            traffic.host_network = host_network;
            let suspect = judge(None, &node(), &traffic, &policy());
            assert_eq!(
                (suspect.state, suspect.reason.as_str()),
                (state, reason),
                "{mb} {ready} {rdma:?}"
            );
        }
    }
}

#[test]
fn one_way_traffic_is_named() {
    let mut traffic = pod(300, 900.0, none());
    for (received, sent, want) in [
        (9e8, 1e7, "as in a download"),
        (1e7, 9e8, "as in an upload"),
        (5e8, 4e8, "own no RDMA queue pair"),
    ] {
        traffic.per_second = Some(Moved {
            tcp: Bytes { received, sent },
            ..moved(900.0)
        });
        let suspect = judge(None, &node(), &traffic, &policy());
        assert!(suspect.message.ends_with(want), "{}", suspect.message);
    }
}

#[test]
fn pods_that_are_gone_are_forgotten() {
    let traffic = pod(300, 900.0, none());
    let look = TrafficLook {
        node: node(),
        pods: [("u".to_string(), traffic)].into(),
    };
    let first = judge_all(&BTreeMap::new(), &look, &policy());
    assert_eq!(first["u"].subject(), "ml/train-0");
    assert!(judge_all(&first, &TrafficLook::default(), &policy()).is_empty());
    let nameless = Suspect {
        pod: GpuPod::default(),
        ..first["u"].clone()
    };
    assert_eq!(nameless.subject(), "u");
}

#[test]
fn the_host_s_traffic_is_that_of_its_only_job() {
    for (alone, state, reason) in [
        (true, SuspectState::Suspect, "TcpOnly"),
        (false, SuspectState::Unknown, "HostNetwork"),
    ] {
        let mut last = None;
        for at in [30, 60, 600] {
            let mut job = pod(at, 900.0, none());
            job.host_network = Some(true);
            job.pod = GpuPod {
                alone,
                ..GpuPod::default()
            };
            last = Some(judge(last.as_ref(), &node(), &job, &policy()));
        }
        let suspect = last.unwrap();
        assert_eq!((suspect.state, &*suspect.reason), (state, reason));
        assert!(
            !alone || suspect.message.contains("no other job"),
            "{}",
            suspect.message
        );
    }
}
