use super::*;
use crate::check::Status;
use crate::check::job_verdicts::{ContainerVerdict, Jobs, LogReading, VerdictSource};
use crate::check::nccl::{Fallback, JobContext, judge};
use crate::observe::nccl::log::LogLimits;
use crate::observe::nccl::{Failure, NcclLog};
use crate::observe::{
    ContainerKey, Function, LinkLayer, PhysState, PodJob, PortCounters, PortState, Reading,
    SourceHealth, Stamped,
};
use crate::report::COUNTS_LAST;
use crate::report::catalogue::{CATALOGUE, MetricKind};
use crate::report::cluster::BudgetStatus;
use crate::report::default_counters::DEFAULTS;
use crate::report::testing::{NOW, broken, device, empty, finding, hear_of, link, node};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

const FULL: Detail = Detail::Full;

fn series(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

fn default_text(report: &Report) -> String {
    encode(report, None, &AgentStats::default(), Detail::default())
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|l| l == line)
}

fn process() -> Vec<(&'static str, Option<f64>)> {
    crate::clock::process_stats().process
}

#[test]
fn series_are_bounded_on_a_node_with_18_ports() {
    let stats = AgentStats {
        tasks: vec![("kernel_log", true, 0); 9],
        hangs: None,
        now: Some(NOW),
        process: process(),
        certificate_expires: Some(1),
        reload_failures: Some(1),
    };
    for layer in [LinkLayer::Infiniband, LinkLayer::Ethernet] {
        let report = node(18, layer);
        let default = series(&encode(&report, None, &stats, Detail::default())).len();
        let full = series(&encode(&report, None, &stats, FULL)).len();
        println!("{layer:?}: {default} by default, {full} in full");
        // Room is left for findings and kernel events, which are none here.
        assert!(default <= 590, "{layer:?}: {default} by default");
        assert!(full <= 2000, "{layer:?}: {full} in full");
    }
}

#[test]
fn no_series_comes_twice() {
    let mut report = broken();
    let twice = report.findings[0].clone();
    report.findings.push(crate::check::Finding {
        key: "another key under the same subject".into(),
        ..twice
    });
    let mut devices = report.snapshot.devices.as_ref().unwrap().value.to_vec();
    let mut namesake = device(40, LinkLayer::Infiniband);
    namesake.name = "mlx5_0".into();
    devices.push(namesake);
    report.snapshot.devices.as_mut().unwrap().value = Arc::new(devices);
    // A device-wide counter under the name of a port's.
    let key = device(0, LinkLayer::Infiniband).port_key(1);
    let mut counters = PortCounters::clone(&report.snapshot.counters[&key].value);
    counters
        .device_hw
        .insert("out_of_sequence".into(), Reading::Value(9));
    report.snapshot.counters.insert(
        key,
        Arc::new(Stamped {
            at: NOW,
            value: counters,
        }),
    );
    for detail in [Detail::default(), FULL] {
        let text = encode(&report, None, &AgentStats::default(), detail);
        let mut names: Vec<&str> = series(&text)
            .iter()
            .map(|line| line.rsplit_once(' ').unwrap().0)
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}

#[test]
fn every_family_is_in_the_catalogue_and_every_one_can_be_exported() {
    let mut report = broken();
    let ethernet = node(2, LinkLayer::Ethernet).snapshot;
    report.snapshot.ethtool = ethernet.ethtool;
    report.snapshot.dcb = ethernet.dcb;
    let mut devices = report.snapshot.devices.as_ref().unwrap().value.to_vec();
    devices[0].ports[0].link_layer = LinkLayer::Ethernet;
    report.snapshot.devices.as_mut().unwrap().value = Arc::new(devices);
    let netdev = report.snapshot.ethtool.values_mut().next().unwrap();
    if let Reading::Value(facts) = &mut Arc::make_mut(netdev).value {
        facts.counts.insert("global.rx_pause_frames".into(), 1);
    }
    let key = device(1, LinkLayer::Infiniband).port_key(1);
    let counters = report.snapshot.counters.get_mut(&key).unwrap();
    let counters = &mut Arc::make_mut(counters).value;
    counters
        .pma
        .insert("link_downed".into(), Reading::Value(255));
    counters.hw.insert("active_qps".into(), Reading::Value(3));
    report.jobs = Arc::new(jobs());
    report.resources = vec![crate::report::Resource {
        name: "vpc.amazonaws.com/efa".into(),
        allocatable: Some(31),
        capacity: Some(32),
        devices: Some(32),
    }];
    let stats = AgentStats {
        tasks: vec![("kernel_log", true, 2)],
        hangs: None,
        now: Some(NOW),
        process: process(),
        certificate_expires: Some(1),
        reload_failures: Some(1),
    };
    hear_of(&mut report, "leaf-3");
    let text = encode(&report, Some(&told_cluster()), &stats, FULL);
    let exported: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let once: BTreeSet<&str> = exported.iter().copied().collect();
    assert_eq!(exported.len(), once.len(), "a family is exported twice");
    let known = CATALOGUE.iter().map(|family| family.name).collect();
    let differ: Vec<&&str> = once.symmetric_difference(&known).collect();
    assert!(
        differ.is_empty(),
        "in catalogue.toml or in this test's report alone: {differ:?}"
    );
}

/// Two pods of one name, and one that nothing is known of.
fn suspects() -> Arc<BTreeMap<String, crate::check::suspect::Suspect>> {
    use crate::check::suspect::{Suspect, SuspectState};
    let thought = |uid: &str, name: &str, state| {
        let pod = crate::observe::GpuPod {
            namespace: "ml".into(),
            name: name.into(),
            ..Default::default()
        };
        let suspect = Suspect {
            uid: uid.into(),
            pod,
            state,
            since: NOW,
            reason: String::new(),
            message: String::new(),
            remedy: String::new(),
            evidence: BTreeMap::new(),
            above_since: None,
        };
        (uid.to_string(), suspect)
    };
    let all = [
        thought("a", "x", SuspectState::Suspect),
        thought("b", "x", SuspectState::Idle),
        thought("c", "", SuspectState::Cleared),
        thought("d", "y", SuspectState::Unknown),
    ];
    Arc::new(all.into())
}

/// Two pods' containers under one name, the first with everything that can be told.
fn jobs() -> Jobs {
    let container = |uid: &str, fallback| {
        let mut verdict = judge(&NcclLog::new(LogLimits::CONTAINER), &JobContext::default());
        verdict.tcp_fallback = fallback;
        verdict.gdrdma = Some(true);
        verdict.nccl_version = Some("2.21.5".into());
        verdict.init_seconds = Some(1.5);
        verdict.channels.insert("net_ib".into(), 4);
        verdict.warnings.insert(Failure::Memlock, 2);
        Arc::new(ContainerVerdict {
            key: ContainerKey {
                namespace: "ml".into(),
                pod: "train-0".into(),
                uid: uid.into(),
                container: "trainer".into(),
            },
            job: Some(PodJob {
                kind: "PyTorchJob".into(),
                name: "llama".into(),
            }),
            since: NOW,
            via: VerdictSource::Log,
            of_job: true,
            verdict: Arc::new(verdict),
        })
    };
    Jobs {
        containers: vec![container("1", Fallback::Yes), container("2", Fallback::No)],
        suspects: suspects(),
        logs: Some(LogReading::default()),
        ..Jobs::default()
    }
}

#[test]
fn what_jobs_use() {
    let mut report = node(2, LinkLayer::Infiniband);
    report.jobs = Arc::new(jobs());
    let text = encode(&report, None, &AgentStats::default(), Detail::default());
    let told: Vec<&str> = (text.lines())
        .filter(|line| line.starts_with("selvage_nccl_") && line.contains("trainer"))
        .collect();
    let of = |name: &str, more: &str, value: &str| {
        let labels = format!(r#"namespace="ml",pod="train-0",container="trainer",job=""{more}"#);
        format!("selvage_nccl_{name}{{{labels}}} {value}")
    };
    let info = of("job_info", r#",nccl_version="2.21.5""#, "1");
    let want = [
        info.replace(r#"job="""#, r#"job="llama""#),
        of("tcp_fallback", "", "1"),
        of("network", r#",network="unknown""#, "1"),
        of("channels", r#",transport="net_ib""#, "4"),
        of("gpudirect_rdma", "", "1"),
        of("warnings_total", r#",cause="memlock""#, "2"),
        of("init_seconds", "", "1.5"),
        of("init_hangs", "", "0"),
    ];
    let told: BTreeSet<&str> = told.into_iter().collect();
    let want = want.iter().map(String::as_str).collect();
    assert_eq!(told, want);
}

#[test]
fn a_job_without_a_pod_has_its_own_label() {
    let mut jobs = jobs();
    jobs.containers.truncate(1);
    let container = Arc::make_mut(&mut jobs.containers[0]);
    container.key = ContainerKey::of_job(1000, "42");
    container.job = None;
    let mut report = node(2, LinkLayer::Infiniband);
    report.jobs = Arc::new(jobs);
    let text = encode(&report, None, &AgentStats::default(), Detail::default());
    let labels = r#"{namespace="",pod="",container="",job="42""#;
    let lines = text.lines().filter(|line| line.contains(labels));
    assert_eq!(lines.count(), 8, "{text}");
    assert!(!text.contains("user 1000"), "{text}");
}

#[test]
fn pods_that_move_bytes_by_tcp() {
    let mut report = node(2, LinkLayer::Infiniband);
    Arc::make_mut(&mut report.jobs).suspects = suspects();
    let text = encode(&report, None, &AgentStats::default(), FULL);
    let series: Vec<&str> = (text.lines())
        .filter(|line| line.starts_with("selvage_nccl_suspect{"))
        .collect();
    let want = [
        r#"selvage_nccl_suspect{namespace="ml",pod="c",job=""} 0"#,
        r#"selvage_nccl_suspect{namespace="ml",pod="x",job=""} 1"#,
    ];
    assert_eq!(series, want);
}

fn told_cluster() -> ClusterStatus {
    ClusterStatus {
        mode: "all",
        api_up: Some(true),
        taint_applied: Some(false),
        withheld: Some("budget"),
        budget: Some(BudgetStatus {
            lease: "selvage-budget".into(),
            claimed: 3,
            limit: 3,
            nodes: 37,
        }),
        places: [("leaf", "s-1".to_string())].into(),
        pending: vec!["taint"],
        results: BTreeMap::from([("ok", 5)]),
        ..ClusterStatus::default()
    }
}

#[test]
fn what_the_cluster_was_told_is_exported() {
    let report = node(1, LinkLayer::Infiniband);
    assert!(!encode(&report, None, &AgentStats::default(), FULL).contains("selvage_node_"));
    let text = encode(
        &node(1, LinkLayer::Infiniband),
        Some(&told_cluster()),
        &AgentStats::default(),
        FULL,
    );
    for line in [
        "selvage_node_writes_total{result=\"ok\"} 5",
        "selvage_node_api_up 1",
        "selvage_node_topology_info{kind=\"leaf\",value=\"s-1\"} 1",
        "selvage_node_taint_applied 0",
        "selvage_node_taint_withheld{reason=\"budget\"} 1",
        "selvage_node_taint_budget{what=\"limit\"} 3",
        "selvage_node_pending{what=\"taint\"} 1",
    ] {
        assert!(text.lines().any(|got| got == line), "{line}");
    }
}

#[test]
fn names_follow_the_rules() {
    for family in CATALOGUE.iter() {
        let name = family.name;
        let process = name.starts_with("process_");
        assert!(name.starts_with("selvage_") || process, "{name}");
        assert_eq!(
            name.ends_with("_total"),
            family.kind == MetricKind::Counter,
            "{name}"
        );
        assert!(!name.contains("micro") && !name.contains("_bits"), "{name}");
        assert!(family.help.ends_with('.'), "{name}");
    }
}

#[test]
fn xids_of_before_a_restart_go_on_counting() {
    let mut report = broken();
    let [slot, code] = ["0000:83:00", "79"];
    for (since_start, want) in [(0, 2), (1, 2), (2, 2), (5, 5)] {
        let codes = [(79, since_start)]
            .into_iter()
            .filter(|(_, count)| *count > 0);
        let totals = Arc::make_mut(&mut report.totals);
        totals.xids.insert(slot.into(), codes.collect());
        let line =
            format!("selvage_gpu_xid_total{{pci=\"{slot}\",xid=\"{code}\",class=\"pcie\"}} {want}");
        let text = default_text(&report);
        assert!(text.lines().any(|of| of == line), "{since_start}: {line}");
    }
}

#[test]
fn counts_of_a_source_that_hangs_are_not_shown_as_if_they_stood_still() {
    let mut report = broken();
    let shown = |report: &Report, what: &str| default_text(report).contains(what);
    let port = "selvage_port_receive_bytes_total{device=\"mlx5_2\"";
    let device = report.snapshot.counters.keys().find(|key| {
        let device = report.snapshot.devices.as_ref().unwrap().value.iter();
        device
            .into_iter()
            .any(|of| of.name == "mlx5_2" && of.key == key.device)
    });
    let device = device.unwrap().device.0.clone();
    let at = report
        .snapshot
        .counters
        .values()
        .map(|of| of.at)
        .max()
        .unwrap();
    let health = SourceHealth {
        source: "counters".into(),
        subject: device.as_str().into(),
        ..SourceHealth::default()
    };
    let key = format!("counters/{device}");
    report.snapshot.at = at.plus(COUNTS_LAST + report.stale_after);
    report
        .snapshot
        .sources
        .insert(key.as_str().into(), health.clone());
    assert!(shown(&report, port), "a long interval");
    let stalled_since = Some(at);
    let hangs = SourceHealth {
        stalled_since,
        ..health
    };
    report.snapshot.sources.insert(key.as_str().into(), hangs);
    assert!(!shown(&report, port));
}

#[test]
fn a_port_that_is_down_has_state_but_no_rate() {
    let text = default_text(&broken());
    for line in [
        "selvage_port_up{device=\"mlx5_3\",port=\"1\"} 0",
        "selvage_port_state_id{device=\"mlx5_3\",port=\"1\"} 1",
        "selvage_port_physical_state_id{device=\"mlx5_3\",port=\"1\"} 2",
        "selvage_port_link_transitions_total{device=\"mlx5_3\",port=\"1\"} 1",
        "selvage_port_up{device=\"mlx5_2\",port=\"1\"} 1",
        "selvage_port_rate_bytes_per_second{device=\"mlx5_2\",port=\"1\"} 50000000000",
        "selvage_port_receive_bytes_total{device=\"mlx5_2\",port=\"1\"} 4000",
        "selvage_fabric_ready 0",
        "selvage_fabric_state{state=\"unready\"} 1",
        "selvage_fabric_state{state=\"ready\"} 0",
        "selvage_fabric_state_transitions_total{to=\"unready\"} 1",
        "selvage_check_findings{check=\"link_state\",status=\"failing\"} 1",
        "selvage_finding{check=\"link_state\",subject=\"mlx5_3/1\",reason=\"LinkDown\",status=\"failing\",caused_by=\"\"} 1",
        "selvage_gpu_xid_total{pci=\"0000:83:00\",xid=\"79\",class=\"pcie\"} 2",
        "selvage_nic_kernel_events_total{pci=\"0000:13:00\",event=\"nic_link_down\"} 1",
        "selvage_kernel_module_loaded{module=\"nvidia_peermem\"} 1",
        "selvage_kernel_module_loaded{module=\"nvidia_fs\"} 0",
        "selvage_gpudirect_path{path=\"peermem\"} 1",
        "selvage_gds_ready 0",
        "selvage_rails 8",
        "selvage_gpus 8",
        "selvage_source_up{source=\"link\"} 1",
    ] {
        assert!(has(&text, line), "{line}\n{text}");
    }
    assert!(!text.contains("selvage_port_rate_bytes_per_second{device=\"mlx5_3\""));
}

#[test]
fn what_was_not_observed_has_no_series() {
    let text = default_text(&empty());
    for family in [
        "selvage_port",
        "selvage_rails",
        "selvage_gpus",
        "selvage_kernel_module",
        "selvage_gds",
    ] {
        assert!(!text.contains(family), "{family}\n{text}");
    }
    assert!(has(&text, "selvage_fabric_state{state=\"unknown\"} 1"));

    let mut report = node(1, LinkLayer::Infiniband);
    let key = device(0, LinkLayer::Infiniband).port_key(1);
    let counters = report.snapshot.counters.get_mut(&key).unwrap();
    let counters = &mut Arc::make_mut(counters).value;
    for name in ["port_rcv_data", "symbol_error"] {
        counters
            .pma
            .insert(name.to_string(), Reading::NotObservable);
    }
    counters.hw.insert("out_of_buffer".into(), Reading::Absent);
    let text = encode(&report, None, &AgentStats::default(), FULL);
    for name in ["port_receive_bytes", "symbol_error", "out_of_buffer"] {
        assert!(!text.contains(name), "{name}");
    }
    assert!(text.contains("port_transmit_bytes"));
}

#[test]
fn a_state_the_kernel_does_not_name_is_neither_up_nor_down() {
    let mut report = node(1, LinkLayer::Infiniband);
    let key = device(0, LinkLayer::Infiniband).port_key(1);
    report
        .snapshot
        .links
        .insert(key, link(PortState::Unknown, PhysState::Unknown));
    let text = default_text(&report);
    assert!(!text.contains("selvage_port_up{"));
    assert!(has(
        &text,
        "selvage_port_state_id{device=\"mlx5_0\",port=\"1\"} 0"
    ));
}

#[test]
fn a_device_that_is_gone_leaves_nothing() {
    let mut report = broken();
    let mut devices = report.snapshot.devices.as_ref().unwrap().value.to_vec();
    devices.retain(|device| device.name != "mlx5_5");
    report.snapshot.devices.as_mut().unwrap().value = Arc::new(devices);
    let text = encode(&report, None, &AgentStats::default(), FULL);
    assert!(!text.contains("mlx5_5"), "links and counters were told");
}

#[test]
fn saturated_counters_show_only_while_they_are() {
    let mut report = node(2, LinkLayer::Infiniband);
    let key = device(1, LinkLayer::Infiniband).port_key(1);
    let counters = report.snapshot.counters.get_mut(&key).unwrap();
    Arc::make_mut(counters)
        .value
        .pma
        .insert("local_link_integrity_errors".into(), Reading::Value(15));
    let text = default_text(&report);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("selvage_port_counter_saturated{"))
        .collect();
    assert_eq!(
        lines,
        [
            "selvage_port_counter_saturated{device=\"mlx5_1\",port=\"1\",counter=\"local_link_integrity_errors\"} 1"
        ]
    );
}

#[test]
fn pfc_in_base_units_by_direction() {
    let mut report = node(2, LinkLayer::Ethernet);
    // PFC falls away on one of the two: its series must read 0, not vanish.
    let dcb = report.snapshot.dcb.get_mut("eth1").unwrap();
    if let Reading::Value(facts) = &mut Arc::make_mut(dcb).value {
        facts.pfc_enabled = Some(0);
    }
    let text = default_text(&report);
    for line in [
        "selvage_pfc_pause_frames_total{netdev=\"eth0\",priority=\"3\",direction=\"receive\"} 7",
        "selvage_pfc_pause_seconds_total{netdev=\"eth0\",priority=\"3\",direction=\"receive\"} 1.5",
        "selvage_pfc_pause_seconds_total{netdev=\"eth0\",priority=\"3\",direction=\"transmit\"} 0",
        "selvage_pfc_discards_total{netdev=\"eth0\",priority=\"3\"} 0",
        "selvage_pfc_enabled{netdev=\"eth0\",priority=\"3\"} 1",
        "selvage_pfc_enabled{netdev=\"eth1\",priority=\"3\"} 0",
    ] {
        assert!(has(&text, line), "{line}\n{text}");
    }
    assert!(
        !text.contains("priority=\"0\""),
        "unused priorities by default"
    );
    let full = encode(&report, None, &AgentStats::default(), FULL);
    assert!(has(
        &full,
        "selvage_pfc_discards_total{netdev=\"eth0\",priority=\"0\"} 0"
    ));
}

#[test]
fn vfs_of_guests_are_told_but_not_counted() {
    let mut report = node(2, LinkLayer::Infiniband);
    let mut devices = report.snapshot.devices.as_ref().unwrap().value.to_vec();
    devices[1].function = Function::VirtualOfHost;
    report.snapshot.devices.as_mut().unwrap().value = Arc::new(devices);
    let text = default_text(&report);
    assert!(has(
        &text,
        "selvage_port_up{device=\"mlx5_1\",port=\"1\"} 1"
    ));
    assert!(!text.contains("counter_total{device=\"mlx5_1\""));
}

#[test]
fn labels_are_escaped() {
    let mut report = node(1, LinkLayer::Infiniband);
    let mut devices = report.snapshot.devices.as_ref().unwrap().value.to_vec();
    devices[0].firmware = Some("a\"b\\c\nd".into());
    report.snapshot.devices.as_mut().unwrap().value = Arc::new(devices);
    assert!(default_text(&report).contains("firmware=\"a\\\"b\\\\c\\nd\""));
}

#[test]
fn labels_from_the_kernel_log_are_bounded() {
    let mut report = empty();
    let totals = Arc::make_mut(&mut report.totals);
    totals.xids.insert(
        "0000:17:00".into(),
        (0..10_000).map(|xid| (xid, 1)).collect(),
    );
    let events = (0..10_000).map(|i| (format!("event{i}"), 1)).collect();
    totals.nic_events.insert("0000:19:00".into(), events);
    report.findings = (0..1000)
        .map(|i| finding("xid", &format!("gpu{i}"), "GpuLost", Status::Failing))
        .collect();
    assert!(series(&default_text(&report)).len() < 600);
}

#[test]
fn the_document_is_the_catalogue() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap();
        std::fs::write(path, markdown()).unwrap();
    }
    #[allow(clippy::disallowed_methods)]
    let held = std::fs::read_to_string(path).unwrap_or_default();
    assert!(held == markdown(), "run UPDATE_GOLDEN=1 cargo test");
}

/// The catalogue and the default selections of counters as Markdown: `docs/metrics.md`.
fn markdown() -> String {
    let mut out = String::from(
        "# Metrics\n\n\
         Generated from `src/report/catalogue.toml`; a test holds it equal (`UPDATE_GOLDEN=1 cargo test` rewrites it).\n\n\
         A value that could not be observed has no series: absent is not zero. The series of a removed port\n\
         are gone with the next scrape. *full* means: only with `counters.full`.\n\n\
         `promtool check metrics` warns about three names that are intended: `selvage_port_counter_total`,\n\
         `selvage_port_hw_counter_total` and `selvage_port_counter_saturated` hold the word *counter*, as\n\
         the kernel's directories do.\n\n\
         | metric | type | labels | detail | meaning |\n|---|---|---|---|---|\n",
    );
    for family in CATALOGUE.iter() {
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        let detail = match family.detail {
            Detail::Default => "default",
            Detail::Full => "full",
        };
        let labels = family
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect::<Vec<_>>()
            .join(" ");
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "| `{}` | {kind} | {labels} | {detail} | {} |",
            family.name, family.help
        );
    }
    out.push_str(&counters_markdown());
    out
}

/// The default selections as Markdown.
fn counters_markdown() -> String {
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut out = String::from(
        "\n## Counters exported by default\n\n\
         The choice is by driver and link layer, never by value, so that `rate()` misses no first\n\
         error. VFs that are lent to guests have no counters by default.\n\n\
         | where | family | counters |\n|---|---|---|\n",
    );
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "| InfiniBand | `selvage_port_counter_total` | {} |\n| Ethernet | `selvage_port_counter_total` | {} |",
        names(&DEFAULTS.pma_infiniband),
        names(&DEFAULTS.pma_ethernet),
    );
    for hw in &DEFAULTS.hardware {
        let all = [&hw.errors[..], &hw.congestion].concat();
        let _ = writeln!(
            out,
            "| driver `{}` | `selvage_port_hw_counter_total` | {} |",
            hw.driver,
            names(&all)
        );
    }
    let _ = writeln!(
        out,
        "| full detail | `selvage_netdev_statistic_total` | {} |",
        names(&DEFAULTS.ethtool)
    );
    out
}
