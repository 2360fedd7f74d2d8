//! Reports full of hostile text.

use super::*;
use crate::check::job_verdicts::{ContainerVerdict, LogReading, VerdictSource};
use crate::check::nccl::{EvidenceLine, Fallback, JobContext, NcclVerdict, judge};
use crate::check::nccl_daemon::DaemonTrouble;
use crate::check::nccl_pods::NoRdma;
use crate::check::suspect::{Suspect, SuspectState};
use crate::check::{Status, Weight};
use crate::observe::nccl::NcclLog;
use crate::observe::nccl::log::LogLimits;
use crate::observe::{
    ContainerKey, Fault, FaultKind, GpuPod, LinkLayer, Module, NvidiaDriver, NvidiaGpu, PodJob,
    Reading,
};
use crate::readiness::history::{FindingKey, HistoryEntry, VerdictChange};
use crate::report::cluster::{BudgetStatus, ClusterStatus};
use crate::report::testing::{NOW, broken, finding, hear_of, node};
use crate::report::{Jobs, State, XidSeen};
use crate::units::Millis;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A report in which every text is this one.
fn poisoned(evil: &str) -> Report {
    let text = || evil.to_string();
    let words = || vec![text(), text()];
    let mut report = broken();
    report.node = text();
    report.reasons = words();
    report.muted = words();
    report.gpudirect.why = words();
    report
        .findings
        .push(finding("xid", "other", "Other", Status::Degraded));
    let missing = finding("device_missing", evil, text().leak(), Status::Failing);
    for found in &mut report.findings {
        found.check = text().leak();
        found.key = text();
        found.subject = text();
        found.reason = text().leak();
        found.message = text();
        found.remedy = text();
        found.evidence = [
            (text(), serde_json::json!(evil)),
            ("list".into(), serde_json::json!([evil, {evil: evil}])),
        ]
        .into();
    }
    report.findings.push(missing);
    for role in report.roles.values_mut() {
        role.why = text();
    }
    report.xids.push(XidSeen {
        pci: Some(text()),
        xid: 79,
        class: text(),
        count: 1,
        first: NOW,
        last: NOW,
        message: text(),
        process: Some(text()),
    });
    snapshot(&mut report, evil);
    // Where it is parsed, it is cut.
    hear_of(&mut report, &evil.chars().take(128).collect::<String>());
    jobs(&mut report, evil);
    report.history = history(evil);
    report
}

/// What the writer of the Node says, with text from outside in every place.
fn poisoned_status(evil: &str) -> ClusterStatus {
    let text = || evil.to_string();
    ClusterStatus {
        mode: "all",
        error: Some(text()),
        taint_applied: Some(false),
        withheld: Some("budget"),
        budget: Some(BudgetStatus {
            lease: text(),
            claimed: 1,
            limit: 1,
            nodes: 12,
        }),
        ..ClusterStatus::default()
    }
}

fn snapshot(report: &mut Report, evil: &str) {
    let text = || evil.to_string();
    let snapshot = &mut report.snapshot;
    snapshot.boot_id = Some(text());
    let devices = snapshot.devices.as_mut().unwrap();
    let mut list = devices.value.to_vec();
    for (number, device) in list.iter_mut().enumerate() {
        // Two ports of one name could not be told apart, and are shown once.
        device.name = format!("{evil}{number}");
        device.driver = text();
        device.firmware = Some(text());
        device.board_id = Some(text());
        device.ports[0].netdev = Some(text());
    }
    devices.value = Arc::new(list);
    let pci = &mut Arc::make_mut(snapshot.pci.as_mut().unwrap()).value;
    for function in pci.functions.values_mut() {
        function.parent = Some(text());
        function.driver = Some(text());
    }
    let facts = &mut Arc::make_mut(snapshot.gpudirect.as_mut().unwrap()).value;
    facts.kernel_release = Some(text());
    facts.ofed_version = Some(text());
    facts.memory_peers = Reading::Value(vec![text()]);
    facts.driver = Reading::Value(NvidiaDriver {
        version: text(),
        open: None,
    });
    facts.modules = Reading::Value(
        [("nvidia", evil), ("efa", evil)]
            .map(|(name, version)| {
                let module = Module {
                    version: Some(version.into()),
                    ..Module::default()
                };
                (name.to_string(), module)
            })
            .into(),
    );
    facts.gpus = vec![NvidiaGpu {
        pci: "0000:80:00.0".into(),
        model: Some(text()),
        uuid: Some(text()),
    }];
    for health in snapshot.sources.values_mut() {
        health.source = evil.into();
        health.subject = evil.into();
        health.fault = Some(Fault {
            kind: FaultKind::Other,
            detail: text(),
        });
    }
}

fn history(evil: &str) -> Arc<[HistoryEntry]> {
    let text = || evil.to_string();
    let what = FindingKey {
        check: text().leak(),
        subject: text(),
        reason: text().leak(),
        status: Status::Failing,
        weight: Weight::Verdict,
    };
    let changes = [
        VerdictChange::State {
            from: State::Ready,
            to: State::Unready,
            reasons: vec![text()],
        },
        VerdictChange::Raised {
            what: what.clone(),
            message: text(),
        },
        VerdictChange::Cleared {
            what,
            stood: Duration::MAX,
        },
    ];
    let entry = |change| HistoryEntry {
        at: Millis(u64::MAX),
        change,
    };
    changes.map(entry).into()
}

fn verdict(evil: &str) -> NcclVerdict {
    let mut verdict = judge(&NcclLog::new(LogLimits::FILE), &JobContext::default());
    verdict.nccl_version = Some(evil.into());
    verdict.tcp_fallback = Fallback::Yes;
    verdict.channels.insert(evil.into(), 3);
    verdict.summary = evil.into();
    verdict.remedies = vec![evil.into(); 5];
    verdict.init_seconds = Some(f64::NAN);
    let line = EvidenceLine {
        line: u64::MAX,
        text: evil.into(),
    };
    verdict.evidence = vec![line; 12];
    verdict
}

fn container(evil: &str) -> Arc<ContainerVerdict> {
    let text = || evil.to_string();
    Arc::new(ContainerVerdict {
        key: ContainerKey {
            namespace: text(),
            pod: text(),
            uid: text(),
            container: text(),
        },
        job: Some(PodJob {
            kind: text(),
            name: text(),
        }),
        since: Millis(1),
        via: VerdictSource::Sidecar,
        of_job: true,
        verdict: Arc::new(verdict(evil)),
    })
}

fn jobs(report: &mut Report, evil: &str) {
    let text = || evil.to_string();
    let suspect = Suspect {
        uid: text(),
        pod: GpuPod {
            namespace: text(),
            name: text(),
            job: None,
            gpus: 8,
            host_network: None,
            alone: false,
        },
        state: SuspectState::Suspect,
        since: Millis(1),
        reason: text(),
        message: text(),
        remedy: text(),
        evidence: [(text(), serde_json::json!(evil))].into(),
        above_since: None,
    };
    report.jobs = Arc::new(Jobs {
        withheld: false,
        containers: vec![container(evil)],
        fallbacks_in_a_row: 3,
        fallback_namespaces: 2,
        limited: Default::default(),
        no_rdma: vec![NoRdma {
            subject: text(),
            containers: vec![text()],
            gpus: 8,
            resource: text(),
            message: text(),
            remedy: text(),
        }],
        daemon_troubles: vec![DaemonTrouble {
            reason: "TcpxoDaemonDown",
            subject: text(),
            gpus: 8,
            daemon: Some((text(), text())),
            message: text(),
            remedy: text(),
        }],
        suspects: Arc::new([(text(), suspect)].into()),
        tcp_daemons: None,
        logs: Some(LogReading::default()),
    });
}

/// Pieces of what has broken pages elsewhere; no backtick, which is the template's to answer.
fn evil() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<script>alert(1)</script>".to_string()),
        Just("</style></title></svg></main>".to_string()),
        Just("\" onload=\"x".to_string()),
        Just("' x='".to_string()),
        Just("]]><!--".to_string()),
        Just("&lt;&#60;&".to_string()),
        Just("javascript:".to_string()),
        Just("\u{202e}\u{2066}\u{200b}\u{feff}".to_string()),
        Just("\0\u{1b}]0;x\u{7}\r\n\t\u{85}\u{9b}".to_string()),
        "[^`]{1,12}",
    ];
    prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Whatever stands in a report, the page has the tags that it has for plain words.
    #[test]
    fn text_from_outside_makes_no_tag(evil in evil()) {
        // A text of blanks alone may be told as nothing, and the same one again but once.
        let evil = format!("x{evil}");
        let page = scan(&encode(&poisoned(&evil), Some(&poisoned_status(&evil)), Refresh::On));
        let plain = scan(&encode(&poisoned("plain"), Some(&poisoned_status("plain")), Refresh::On));
        prop_assert_eq!(page.tags, plain.tags);
        prop_assert_eq!(page.links, plain.links);
        prop_assert_eq!(page.ids, plain.ids);
    }

    /// Backticks make code, and nothing else.
    #[test]
    fn code_is_closed(evil in "[`<>&\"a ]{0,40}") {
        scan(&encode(&poisoned(&evil), Some(&poisoned_status(&evil)), Refresh::Off));
    }
}

#[test]
fn what_was_put_in_can_be_read() {
    let evil = "ml/<img src=x onerror=alert('1')>/a&b \"]]>";
    let page = scan(&encode(
        &poisoned(evil),
        Some(&poisoned_status(evil)),
        Refresh::On,
    ));
    // Title, heading, two reasons, findings, jobs …
    assert!(page.text.matches(evil).count() > 50, "{}", page.text);
}

#[test]
fn hostile_reports_make_pages_of_a_bounded_size() {
    let evil = "<\"&'\u{1f980}>".repeat(2000);
    let word: &str = evil.clone().leak();
    let mut report = poisoned(&evil);
    let many: Vec<_> = (0..2000)
        .map(|n| finding(word, &format!("{evil}{n}"), word, Status::Failing))
        .map(|mut finding| {
            finding.message.clone_from(&evil);
            finding.remedy.clone_from(&evil);
            finding.evidence = (0..100)
                .map(|n| (format!("{n}{evil}"), serde_json::json!([&evil])))
                .collect();
            finding
        })
        .take(200)
        .collect();
    report.findings.extend(many);
    let seen = report.xids.first().cloned().unwrap();
    report.xids = vec![seen; 500];
    let jobs = Arc::make_mut(&mut report.jobs);
    jobs.containers = vec![container(&evil); 100];
    jobs.no_rdma = vec![jobs.no_rdma[0].clone(); 100];
    report.reasons = vec![evil.clone(); 500];
    report.muted = vec![evil.clone(); 500];
    let entries: Vec<HistoryEntry> = report.history.iter().cloned().cycle().take(300).collect();
    report.history = entries.into();
    for n in 0..500 {
        let health = report.snapshot.sources.values().next().cloned().unwrap();
        let name: Arc<str> = format!("{n}{evil}").into();
        let health = crate::observe::SourceHealth {
            source: Arc::clone(&name),
            ..health
        };
        report.snapshot.sources.insert(name, health);
    }
    let page = encode(&report, None, Refresh::On);
    scan(&page);
    assert!(page.len() < 256 * 1024, "{} B", page.len());
}

#[test]
fn absurdly_many_ports_and_gpus_are_counted_rather_than_drawn() {
    let mut report = node(255 - 0x10, LinkLayer::Infiniband);
    let pci = &mut Arc::make_mut(report.snapshot.pci.as_mut().unwrap()).value;
    for bus in 0..4096u32 {
        let gpu = crate::units::Bdf {
            domain: 1 + bus / 256,
            bus: (bus % 256) as u8,
            device: 0,
            function: 0,
        };
        pci.gpus.push(gpu);
    }
    let page = encode(&report, None, Refresh::On);
    let scanned = scan(&page);
    assert!(page.len() < 256 * 1024, "{} B", page.len());
    assert!(scanned.text.contains(" more groups, in the table"));
    assert!(scanned.text.contains("more  GPUs") || scanned.text.contains("GPUs, in"));
}

#[test]
fn a_loop_of_bridges_ends() {
    let mut report = node(4, LinkLayer::Infiniband);
    let pci = &mut Arc::make_mut(report.snapshot.pci.as_mut().unwrap()).value;
    let names: Vec<String> = pci.functions.keys().cloned().collect();
    for (name, next) in names.iter().zip(names.iter().cycle().skip(1)) {
        pci.functions.get_mut(name).unwrap().parent = Some(next.clone());
    }
    scan(&encode(&report, None, Refresh::On));
}

#[test]
fn moments_beyond_the_calendar_do_no_harm() {
    let mut report = poisoned("x");
    report.snapshot.at = Millis(u64::MAX);
    report.since = Millis(0);
    scan(&encode(&report, None, Refresh::On));
    report.snapshot.wall = None;
    scan(&encode(&report, None, Refresh::On));
    report.snapshot.at = Millis(0);
    report.since = Millis(u64::MAX);
    scan(&encode(&report, None, Refresh::On));
    let empty: BTreeMap<_, _> = BTreeMap::new();
    report.snapshot.sources = empty;
    scan(&encode(&report, None, Refresh::On));
}
