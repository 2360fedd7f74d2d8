use super::*;
use crate::check::nccl::Network;
use crate::jobs::sidecar_record::VERDICT_BYTES;
use crate::observe::{PodContainer, PodJob};

const HANG: Duration = Duration::from_secs(300);

fn container(name: &str, restart: u32) -> Container {
    Container {
        key: ContainerKey {
            namespace: "ml".into(),
            pod: "train-0".into(),
            uid: "u0".into(),
            container: name.into(),
        },
        restart,
        ..Container::default()
    }
}

fn framed(text: &str) -> Vec<u8> {
    format!("2026-05-01T12:00:00.000000000Z stdout F {text}").into_bytes()
}

struct Played {
    registry: Registry,
    changes: Vec<(String, Option<bool>, bool)>,
}

impl Played {
    fn new() -> Self {
        let mut registry = Registry::new(4, 16 << 20);
        registry.at(Millis(1000), "2026-05-01T12:00:01Z".parse().ok());
        Played {
            registry,
            changes: Vec::new(),
        }
    }

    fn lines(&mut self, container: &Container, lines: &[&str]) {
        for line in lines {
            self.registry.line(container, &framed(line));
        }
    }

    fn judge(&mut self, pod: Option<&PodFacts>) -> bool {
        self.judge_pod(pod.map_or(PodLookup::Unavailable, PodLookup::Found))
    }

    fn judge_pod(&mut self, pod: PodLookup<'_>) -> bool {
        let changes = &mut self.changes;
        let tell = |change: JobChange| {
            let name = change.now.key.container.clone();
            changes.push((name, change.fallback, change.hangs));
        };
        self.registry.judge(true, HANG, None, |_| pod, tell)
    }

    fn one(&self) -> (Fallback, Network) {
        let verdicts = self.registry.verdicts();
        assert_eq!(verdicts.len(), 1, "{verdicts:?}");
        (
            verdicts[0].verdict.tcp_fallback,
            verdicts[0].verdict.network,
        )
    }
}

const SOCKET: &str = "n:1:2 [0] NCCL INFO Using network Socket";
const TWO_NODES: &str =
    "n:1:2 [0] NCCL INFO comm 0x8 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0";
const OVER_IB: &str =
    "n:7:8 [0] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA";

/// A pod whose trainer asks for GPUs.
fn trainer() -> PodFacts {
    let facts = PodContainer {
        gpus: 8,
        ..PodContainer::default()
    };
    PodFacts {
        containers: [("trainer".to_string(), facts)].into(),
        ..PodFacts::default()
    }
}

#[test]
fn a_fallback_begins_and_ends_with_a_restart_of_the_container() {
    let mut played = Played::new();
    let first = container("trainer", 0);
    played.lines(&first, &[SOCKET]);
    assert!(played.judge(Some(&trainer())));
    assert_eq!(played.one().0, Fallback::Unknown);
    assert!(played.changes.is_empty(), "unknown is not announced");
    played.lines(&first, &[TWO_NODES]);
    assert!(played.judge(Some(&trainer())));
    assert!(!played.judge(Some(&trainer())), "nothing new");
    assert_eq!(played.one().0, Fallback::Yes);
    assert_eq!(played.registry.outcomes.fallbacks_in_a_row().0, 1);
    played.lines(&container("trainer", 1), &[OVER_IB]);
    assert!(played.judge(Some(&trainer())));
    assert_eq!(played.one(), (Fallback::No, Network::IbOrRoce));
    let told: Vec<_> = played.changes.iter().map(|change| change.1).collect();
    assert_eq!(told, [Some(true), Some(false)]);
    played.registry.gone(&first);
    assert!(played.judge(Some(&trainer())));
    assert!(played.registry.verdicts().is_empty());
}

#[test]
fn what_does_not_look_like_nccl_is_not_kept() {
    let mut played = Played::new();
    played.lines(
        &container("web", 0),
        &["#  Rank  0 Pid 12 on h device 0 x", "hello"],
    );
    assert!(!played.judge(None));
    // The agent's own log.
    played.lines(&container("agent", 0), &["NCCL falls back to TCP"]);
    assert!(!played.judge(None));
    assert!(played.registry.verdicts().is_empty());
    for n in 0..100 {
        played.lines(&container(&format!("c{n}"), 0), &[SOCKET]);
    }
    assert!(played.registry.logs.len() <= 4);
}

#[test]
fn the_manifest_tells_what_no_line_does() {
    let facts = |gang, env: &[(&str, &str)]| PodFacts {
        gang,
        containers: [(
            "trainer".to_string(),
            PodContainer {
                env: env
                    .iter()
                    .map(|(name, value)| ((*name).to_string(), (*value).to_string()))
                    .collect(),
                ..PodContainer::default()
            },
        )]
        .into(),
        ..PodFacts::default()
    };
    for (pod, want) in [
        (facts(None, &[]), Fallback::Unknown),
        (facts(Some(true), &[]), Fallback::Yes),
        (facts(Some(false), &[]), Fallback::No),
        (
            facts(Some(true), &[("NCCL_NET", "Socket")]),
            Fallback::Configured,
        ),
        (
            facts(Some(true), &[("NCCL_IB_DISABLE", "1")]),
            Fallback::Configured,
        ),
        (
            facts(Some(true), &[("NCCL_IB_DISABLE", "0")]),
            Fallback::Yes,
        ),
    ] {
        let mut played = Played::new();
        played.lines(&container("trainer", 0), &[SOCKET]);
        played.judge(Some(&pod));
        assert_eq!(played.one().0, want, "{pod:?}");
    }
    let ended = PodFacts {
        finished: true,
        ..facts(Some(true), &[])
    };
    let mut played = Played::new();
    played.lines(&container("trainer", 0), &[SOCKET]);
    assert!(played.judge(Some(&ended)));
    assert!(
        played.registry.verdicts().is_empty(),
        "a job that is over has no network"
    );
    assert!(played.judge_pod(PodLookup::Unavailable));
    assert_eq!(played.registry.verdicts().len(), 1);
    assert!(played.judge_pod(PodLookup::Gone));
    assert!(
        played.registry.verdicts().is_empty(),
        "nor has one whose pod is gone"
    );
}

#[test]
fn nothing_is_announced_before_the_pod_s_requests_are_known() {
    let meant = PodFacts {
        containers: [(
            "trainer".to_string(),
            PodContainer {
                env: [("NCCL_NET".to_string(), "Socket".to_string())].into(),
                ..PodContainer::default()
            },
        )]
        .into(),
        ..PodFacts::default()
    };
    for first in [PodLookup::Pending, PodLookup::Gone] {
        let mut played = Played::new();
        played.lines(&container("trainer", 0), &[SOCKET, TWO_NODES]);
        assert!(!played.judge_pod(first), "{first:?}");
        assert!(played.registry.verdicts().is_empty(), "{first:?}");
        assert!(played.judge(Some(&meant)), "{first:?}");
        assert_eq!(played.one().0, Fallback::Configured, "{first:?}");
        assert!(played.changes.is_empty(), "{first:?}");
        assert_eq!(
            played.registry.outcomes.fallbacks_in_a_row().0,
            0,
            "{first:?}"
        );
    }
    // An API server that stays away: shown by the log alone, announced once the pod is known.
    let mut played = Played::new();
    played.lines(&container("trainer", 0), &[SOCKET, TWO_NODES]);
    played.judge_pod(PodLookup::Pending);
    played.registry.at(Millis(12_000), None);
    assert!(played.judge_pod(PodLookup::Pending));
    assert_eq!(played.one().0, Fallback::Yes);
    assert!(played.changes.is_empty());
    assert_eq!(played.registry.outcomes.fallbacks_in_a_row().0, 0);
    played.judge(Some(&trainer()));
    played.judge(Some(&trainer()));
    assert_eq!(played.changes, [("trainer".to_string(), Some(true), false)]);
    assert_eq!(played.registry.outcomes.fallbacks_in_a_row().0, 1);
}

#[test]
fn a_restart_before_pods_are_known_forgets_nothing_and_tells_nothing_again() {
    let mut played = Played::new();
    let first = container("trainer", 0);
    played.lines(&first, &[SOCKET, TWO_NODES]);
    played.judge(Some(&trainer()));
    let mut again = Played::new();
    again
        .registry
        .restore(played.registry.save(), played.registry.outcomes.clone());
    // Lines that came meanwhile are read first.
    again.lines(&first, &[SOCKET, TWO_NODES]);
    again.judge_pod(PodLookup::Pending);
    assert_eq!(again.registry.save(), played.registry.save());
    again.judge(Some(&trainer()));
    assert_eq!(again.one().0, Fallback::Yes);
    assert!(again.changes.is_empty());
    assert_eq!(again.registry.outcomes.fallbacks_in_a_row().0, 1);
}

#[test]
fn a_job_that_was_counted_by_its_pod_counts_once_when_it_is_known() {
    let of_job = PodFacts {
        job: Some(PodJob {
            kind: "JobSet".into(),
            name: "train".into(),
        }),
        ..trainer()
    };
    let mut played = Played::new();
    played.lines(&container("trainer", 0), &[SOCKET, TWO_NODES]);
    for (pod, times, row) in [
        (None, 1, 0),
        (Some(&trainer()), 1, 1),
        (Some(&of_job), 1, 1),
        (Some(&of_job), 2, 1),
    ] {
        for _ in 0..times {
            played.judge(pod);
            assert_eq!(played.registry.outcomes.fallbacks_in_a_row(), (row, row));
        }
    }
}

#[test]
fn a_new_run_of_a_name_replaces_the_one_before() {
    let of_job = PodFacts {
        job: Some(PodJob {
            kind: "LeaderWorkerSet".into(),
            name: "serve".into(),
        }),
        ..trainer()
    };
    let of_pod = |uid: &str| {
        let mut of = container("trainer", 0);
        of.key.uid = uid.into();
        of
    };
    let mut played = Played::new();
    played.lines(&of_pod("u0"), &[SOCKET, TWO_NODES]);
    played.judge(Some(&of_job));
    // Another pod of the same run takes nothing back.
    played.lines(&of_pod("u1"), &[TWO_NODES, OVER_IB]);
    played.judge(Some(&of_job));
    assert_eq!(played.registry.outcomes.fallbacks_in_a_row().0, 1);
    // The pods of a run that is over may linger. One that only starts says nothing yet.
    let ended = PodFacts {
        finished: true,
        ..of_job.clone()
    };
    played.judge(Some(&ended));
    let judge = |played: &mut Played| {
        let facts = |key: &ContainerKey| match key.uid.as_str() {
            "u2" => PodLookup::Found(&of_job),
            _ => PodLookup::Found(&ended),
        };
        played.registry.judge(true, HANG, None, facts, |_| ());
        played.registry.outcomes.fallbacks_in_a_row().0
    };
    played.lines(&of_pod("u2"), &[TWO_NODES]);
    assert_eq!(judge(&mut played), 1);
    played.lines(&of_pod("u2"), &[OVER_IB]);
    assert_eq!(judge(&mut played), 0);
}

#[test]
fn only_containers_of_the_spec_of_pods_with_gpus_count_for_the_node() {
    let mut without = trainer();
    without.containers.get_mut("trainer").unwrap().gpus = 0;
    for (name, pod, row) in [
        ("trainer", Some(trainer()), 1),
        // An ephemeral container, or a name that a sidecar made up.
        ("debug", Some(trainer()), 0),
        ("trainer", Some(without), 0),
        ("trainer", None, 0),
    ] {
        let mut played = Played::new();
        played.lines(&container(name, 0), &[SOCKET, TWO_NODES]);
        played.judge(pod.as_ref());
        assert_eq!(played.one().0, Fallback::Yes, "{name} {pod:?}");
        assert_eq!(played.registry.outcomes.fallbacks_in_a_row().0, row);
        assert_eq!(played.registry.verdicts()[0].of_job, row > 0);
    }
}

/// A container of another pod.
fn of(namespace: &str, uid: &str, name: &str) -> Container {
    let mut container = container(name, 0);
    container.key.namespace = namespace.into();
    container.key.uid = uid.into();
    container
}

#[test]
fn namespaces_and_pods_take_turns_among_the_worst() {
    let mut played = Played::new();
    played.registry = Registry::new(100, 16 << 20);
    for n in 0..16 {
        for uid in ["f1", "f2"] {
            played.lines(&of("foe", uid, &format!("c{n:02}")), &[SOCKET, TWO_NODES]);
        }
    }
    played.lines(&of("foe", "neighbour", "z"), &[SOCKET, TWO_NODES]);
    played.lines(&of("victim", "v", "z"), &[SOCKET, TWO_NODES]);
    played.judge(None);
    let order: Vec<_> = (played.registry.verdicts().iter())
        .map(|verdict| verdict.key.uid.clone())
        .collect();
    assert_eq!(order.len(), 34);
    assert_eq!(order[..4], ["f1", "v", "f2", "neighbour"]);
}

#[test]
fn a_log_that_is_given_up_keeps_its_place_among_the_outcomes() {
    let mut played = Played::new();
    let fell_back = of("first", "a", "trainer");
    played.lines(&fell_back, &[SOCKET, TWO_NODES]);
    let channel =
        |n| format!("h:1:1 [0] NCCL INFO Channel 0/0 : {n}[0] -> 1[1] [send] via NET/Socket/{n}");
    let channels: Vec<String> = (0..2000).map(channel).collect();
    let channels: Vec<&str> = channels.iter().map(String::as_str).collect();
    played.lines(&fell_back, &channels);
    played.judge(Some(&trainer()));
    assert_eq!(played.registry.outcomes.fallbacks_in_a_row().0, 1);
    played.lines(&of("second", "b", "trainer"), &[TWO_NODES, OVER_IB]);
    played.judge(Some(&trainer()));
    assert_eq!(played.registry.outcomes.fallbacks_in_a_row().0, 0);
    let mut log = played.registry.logs.remove(&fell_back.key).unwrap();
    log.held = log.count();
    let rest = log.given_up().expect("most of it is lines");
    played.registry.logs.insert(fell_back.key, rest);
    played.registry.changed = true;
    played.judge(Some(&trainer()));
    assert_eq!(played.registry.outcomes.fallbacks_in_a_row().0, 0);
}

#[test]
fn the_largest_holder_gives_up_first_and_keeps_its_verdict() {
    let budget = 1 << 20;
    let mut registry = Registry::new(100, budget);
    registry.at(Millis(1000), "2026-05-01T12:00:01Z".parse().ok());
    let mut played = Played {
        registry,
        changes: Vec::new(),
    };
    let victim = of("victim", "v", "trainer");
    played.lines(&victim, &[SOCKET, TWO_NODES]);
    played.judge(None);
    let foes: Vec<_> = (0..16).map(|n| of("foe", "f", &format!("c{n}"))).collect();
    for n in 0..20_000u32 {
        let foe = &foes[n as usize % foes.len()];
        let line = format!(
            "h:{}:{} [0] NCCL INFO Channel 0/0 : {n}[{n:x}] -> {}[1] [send] via NET/IB/{n}",
            n % 61,
            n % 7,
            n + 1
        );
        played.lines(foe, &[SOCKET, TWO_NODES, &line]);
        if n % 1000 == 0 {
            played.judge(None);
            let held: usize = played.registry.logs.values().map(JobLog::count).sum();
            assert!(held < budget + budget / 2, "{held} bytes");
        }
    }
    played.judge(None);
    assert!(played.registry.evicted > 0);
    let verdicts = played.registry.verdicts();
    let whose = |uid: &str| verdicts.iter().filter(|of| of.key.uid == uid).count();
    assert_eq!((whose("v"), whose("f")), (1, 16));
    let victim = verdicts.iter().find(|of| of.key.uid == "v").unwrap();
    assert_eq!(
        (victim.verdict.tcp_fallback, victim.via),
        (Fallback::Yes, VerdictSource::Log)
    );
}

#[test]
fn a_sidecar_speaks_for_the_container_it_names() {
    let verdict = |container: &str| {
        let mut log = NcclLog::new(LogLimits::CONTAINER);
        let mut reader = Reader::default();
        reader.take_line(OVER_IB.as_bytes(), &mut log, None);
        let verdict = judge(&log, &JobContext::default());
        serde_json::json!({"schema": VERDICT_SCHEMA, "time": "x", "container": container, "verdict": verdict})
    };
    let mut played = Played::new();
    let sidecar = container("selvage-sidecar", 0);
    played.lines(&sidecar, &[&verdict("trainer").to_string()]);
    assert!(played.judge(None));
    let told = played.registry.verdicts();
    assert_eq!(
        (told[0].key.container.as_str(), told[0].via),
        ("trainer", VerdictSource::Sidecar)
    );
    for junk in [
        verdict("trainer")
            .to_string()
            .replace("\"ib_or_roce\"", "\"bad\""),
        format!("{{\"schema\":\"{VERDICT_SCHEMA}\"}}"),
        format!("said: {VERDICT_SCHEMA}"),
        format!("{}{}", verdict("a"), "x".repeat(VERDICT_BYTES)),
    ] {
        played.lines(&sidecar, &[&junk]);
    }
    assert_eq!(played.registry.dropped, 4);
    played.lines(&sidecar, &[&verdict("a/../b").to_string()]);
    played.judge(None);
    let names: Vec<_> = played
        .registry
        .verdicts()
        .iter()
        .map(|told| told.key.container.clone())
        .collect();
    assert!(names.contains(&"selvage-sidecar".to_string()), "{names:?}");
    played.registry.gone(&sidecar);
    assert!(played.registry.verdicts().is_empty());
}

#[test]
fn what_was_known_outlives_a_restart_until_lines_say_otherwise() {
    let mut played = Played::new();
    let first = container("trainer", 2);
    played.lines(&first, &[SOCKET, TWO_NODES]);
    played.judge(None);
    let (saved, outcomes) = (played.registry.save(), played.registry.outcomes.clone());
    let text = serde_json::to_string(&saved).unwrap();
    let saved: Vec<SavedVerdict> = serde_json::from_str(&text).unwrap();

    let mut again = Played::new();
    again.registry.restore(saved, outcomes);
    assert!(again.judge(None));
    assert_eq!(again.one().0, Fallback::Yes);
    assert_eq!(again.registry.verdicts()[0].via, VerdictSource::Remembered);
    assert!(again.changes.is_empty(), "it was announced before");
    // A line that says nothing of the network changes nothing.
    again.lines(&first, &["n:1:2 [0] NCCL INFO NCCL version 2.21.5"]);
    again.judge(None);
    assert_eq!(again.one().0, Fallback::Yes);
    // Nor does a communicator within the node, or an init that hangs.
    let comm = "n:1:2 [0] NCCL INFO comm 0xc rank 0 nranks";
    let alone = format!("{comm} 1 cudaDev 0 busId 1000 commId 0x8 - Init COMPLETE");
    let start = format!("{comm} 16 cudaDev 0 busId 1000 commId 0x9 - Init START");
    for (lines, at) in [
        (&alone, "2026-05-01T12:01:00Z"),
        (&start, "2026-05-01T12:09:00Z"),
    ] {
        again.lines(&first, &[lines]);
        again.registry.at(Millis(400_000), at.parse().ok());
        again.judge(None);
        assert_eq!(again.one().0, Fallback::Yes);
        assert!(again.changes.is_empty());
    }
    again.lines(&first, &[&start.replace("START", "COMPLETE"), OVER_IB]);
    again.judge(None);
    assert_eq!(again.one().0, Fallback::No);
    assert_eq!(again.changes, [("trainer".to_string(), Some(false), false)]);
}

#[test]
fn an_init_that_does_not_end_is_told_once() {
    let mut played = Played::new();
    let trainer = container("trainer", 0);
    let start = "n:1:2 [0] NCCL INFO ncclCommInitRank comm 0x8 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1000 commId 0x5 - Init START";
    played.lines(&trainer, &[start]);
    played.judge(None);
    assert!(played.changes.is_empty());
    played
        .registry
        .at(Millis(400_000), "2026-05-01T12:05:01Z".parse().ok());
    played.judge(None);
    played.judge(None);
    assert_eq!(played.changes, [("trainer".to_string(), None, true)]);
    let mut again = Played::new();
    let outcomes = played.registry.outcomes.clone();
    again.registry.restore(played.registry.save(), outcomes);
    let end = start.replace("Init START", "Init COMPLETE");
    for mut played in [again, played] {
        played.judge(None);
        let hangs = |played: &Played| {
            let verdict = &played.registry.verdicts()[0].verdict;
            verdict.init_hangs_since.is_some()
        };
        assert!(hangs(&played));
        played.lines(&trainer, &[&end]);
        played.judge(None);
        assert!(!hangs(&played));
    }
}
