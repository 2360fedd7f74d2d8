mod cluster;
mod hostile;
mod runbook;

use super::scan::{Scanned, scan};
use super::*;
use crate::check::{self, Finding, Status, Weight};
use crate::observe::{LinkLayer, PciFunction, PhysState, PortState, Stamped};
use crate::report::testing::{NOW, broken, device, empty, finding, link, node};
use crate::report::{Role, State};
use crate::units::Millis;
use std::sync::Arc;

pub(super) fn page(report: &Report) -> Scanned {
    scan(&encode(report, None, Refresh::On))
}

/// The same where a Node is written.
pub(super) fn page_with(report: &Report, cluster: &ClusterStatus) -> Scanned {
    scan(&encode(report, Some(cluster), Refresh::On))
}

/// Text without line breaks and double spaces.
pub(super) fn text(report: &Report) -> String {
    words(&page(report))
}

pub(super) fn words(page: &Scanned) -> String {
    let words: Vec<String> = page.text.split_whitespace().map(str::to_string).collect();
    words.join(" ")
}

pub(super) fn assert_has(report: &Report, parts: &[&str]) {
    let text = text(report);
    for part in parts {
        assert!(text.contains(part), "{part:?} not in {text}");
    }
}

#[test]
fn every_state_has_its_word_and_shape() {
    for (state, word, shape) in [
        (State::Ready, "is ready", Badge::Ok),
        (State::Degraded, "is degraded", Badge::Degraded),
        (State::Unready, "is unready", Badge::Failing),
        (State::Unknown, "is unknown", Badge::Unknown),
    ] {
        let mut report = node(8, LinkLayer::Infiniband);
        report.state = state;
        let page = encode(&report, None, Refresh::On);
        let banner = page.split("<section class=\"banner").nth(1).unwrap();
        let banner = banner.split("</section>").next().unwrap();
        assert!(banner.contains(&shape.shape().render().unwrap()), "{word}");
        assert_has(&report, &[word]);
    }
    let marks = [
        Badge::Ok,
        Badge::Off,
        Badge::Notice,
        Badge::Unknown,
        Badge::Degraded,
        Badge::Failing,
    ];
    for (n, one) in marks.iter().enumerate() {
        for other in &marks[n + 1..] {
            assert_ne!(
                one.shape().render().unwrap(),
                other.shape().render().unwrap(),
                "severities differ in more than colour"
            );
            assert_ne!(one.word(), other.word());
        }
    }
}

#[test]
fn a_broken_node_is_told_in_full() {
    let report = broken();
    assert_has(
        &report,
        &[
            "gpu-17 is unready",
            "for 2 min, since 2026-01-02T03:02:05Z",
            "Rails 7 of 8 up",
            "GPUs 8",
            "failing mlx5_3/1 LinkDown",
            "physical state polling",
            "Fix Look at the cable.",
            "Runbook SelvageRailDown",
            "rail mlx5_3: down/polling, failing (LinkDown)",
            "rail mlx5_2: 400 Gb/s, ok",
            "GPU has fallen off the bus.",
            "generated 2026-01-02T03:04:05Z",
        ],
    );
    let page = page(&report);
    assert_eq!(page.count("h1"), 1);
    assert_eq!(page.count("article"), 2);
    for link in [
        "#f-0",
        "#f-1",
        "/metrics",
        "/report",
        "/healthz",
        "/readyz",
        "/paused",
        "/runbooks",
        "/runbooks/SelvageRailDown",
    ] {
        assert!(page.links.iter().any(|has| has == link), "{link}");
    }
    // Every link within the page leads somewhere.
    for link in page.links.iter().filter_map(|link| link.strip_prefix('#')) {
        assert!(page.ids.iter().any(|id| id == link), "#{link}");
    }
}

/// Above the drawing: a person who is paged reads first what is wrong and what to do.
#[test]
fn the_banner_says_what_to_do() {
    let banner = |report: &Report| {
        let page = encode(report, None, Refresh::On);
        page.split("id=\"fabric\"").next().unwrap().to_string()
    };
    let mut report = broken();
    let (message, remedy) = ("mlx5_3/1 is down.", "Look at the cable.");
    report.findings[0].message = message.into();
    let told = banner(&report);
    for part in [message.to_string(), format!("<b>Fix</b> {remedy}")] {
        assert!(told.contains(&part), "{part:?} not in {told}");
    }
    // What follows from a cause does not lead.
    let mut follows = report.findings[0].clone();
    follows.caused_by = Some("link_state".into());
    follows.message = "It follows.".into();
    report.findings.insert(0, follows);
    assert!(!banner(&report).contains("It follows."));
    report.findings.clear();
    report.reasons = vec!["Starting".into()];
    assert!(!banner(&report).contains(remedy));
}

#[test]
fn the_worst_is_drawn_first() {
    let report = broken();
    let plan = topology_layout::of(&report);
    let first = plan.groups.first().unwrap();
    assert_eq!(first.severity(), Badge::Failing);
    let page = text(&report);
    let ports = page.split("Ports, worst first").nth(1).unwrap();
    assert!(
        ports.find("mlx5_3/1") < ports.find("mlx5_0/1"),
        "the table begins with what is down"
    );
}

#[test]
fn nothing_read_is_not_nothing_there() {
    let mut report = empty();
    report.reasons = vec!["Starting".into()];
    assert_has(
        &report,
        &[
            "is unknown",
            "RDMA devices could not be listed",
            "Rails unknown",
            "GPUs unknown",
            "not yet seen every source",
            "Nothing was read yet.",
        ],
    );
    report.snapshot.devices = Some(Stamped {
        at: NOW,
        value: Arc::default(),
    });
    assert_has(&report, &["No RDMA device on this node.", "Rails none"]);
    assert_eq!(page(&report).count("figure"), 0);
}

#[test]
fn the_first_window_and_muted_checks_are_told() {
    let mut report = broken();
    report.full_window = false;
    report.muted = vec!["gds".into(), "xid".into()];
    assert_has(
        &report,
        &["The first window is not complete", "Muted checks: gds, xid"],
    );
    assert_eq!(refresh_seconds(&report), 5);
    let report = node(8, LinkLayer::Infiniband);
    assert_eq!(refresh_seconds(&report), 10);
}

#[test]
fn a_reduced_pcie_link_is_drawn_on_its_own_stroke() {
    let drawn = |report: &Report| {
        let page = encode(report, None, Refresh::On);
        let (_, from) = page.split_once("class=\"groups\"").unwrap();
        from.split("class=\"legend\"").next().unwrap().to_string()
    };
    let rails = |report: &Report| {
        let page = encode(report, None, Refresh::On);
        let tile = page.split("<dt>Rails</dt>").nth(1).unwrap();
        tile.split("</div>").next().unwrap().to_string()
    };
    let mut report = node(8, LinkLayer::Infiniband);
    behind_switches(&mut report);
    let well = rails(&report);
    assert!(!drawn(&report).contains("l-deg"));
    assert!(check::CHECKS.iter().any(|check| check.id == "pcie_link"));
    report.findings = vec![Finding {
        key: "0000:12:00.0".into(),
        ..finding("pcie_link", "mlx5_2", "PcieWidthReduced", Status::Degraded)
    }];
    let picture = drawn(&report);
    assert_eq!(picture.matches("wire l-deg").count(), 1, "{picture}");
    assert!(!picture.contains("link l-deg"));
    assert_eq!(picture.matches("link l-ok").count(), 8);
    assert!(picture.contains("PcieWidthReduced"));
    assert_eq!(rails(&report), well, "every link is well");
    assert_has(&report, &["degraded PcieWidthReduced"]);
    // A GPU's is the stroke on its side.
    report.findings = vec![finding(
        "pcie_link",
        "0000:82:00.0",
        "PcieWidthReduced",
        Status::Degraded,
    )];
    let picture = drawn(&report);
    assert_eq!(picture.matches("wire l-deg").count(), 1, "{picture}");
    // What is said of the link itself stays on it.
    report.findings = vec![finding(
        "link_flap",
        "mlx5_2/1",
        "LinkFlapping",
        Status::Degraded,
    )];
    let picture = drawn(&report);
    assert_eq!(picture.matches("link l-deg").count(), 1);
    assert!(!picture.contains("wire l-deg"));
    assert_ne!(rails(&report), well);
}

/// A root port, a switch below it with two lower ports, and what hangs there.
fn behind_switches(report: &mut Report) {
    let pci = &mut Arc::make_mut(report.snapshot.pci.as_mut().unwrap()).value;
    for n in 0..8u8 {
        let parent = |address: &str| Some(address.to_string());
        let root = format!("0000:{:02x}:01.0", 0xa0 + n);
        let up = format!("0000:{:02x}:00.0", 0xb0 + n);
        for (at, above) in [(root.clone(), None), (up.clone(), parent(&root))] {
            let bridge = PciFunction {
                parent: above,
                ..PciFunction::default()
            };
            pci.functions.insert(at, bridge);
        }
        for (lower, end) in [
            (0, format!("0000:{:02x}:00.0", 0x80 + n)),
            (1, format!("0000:{:02x}:00.0", 0x10 + n)),
        ] {
            let down = format!("0000:{:02x}:0{lower}.0", 0xc0 + n);
            let bridge = PciFunction {
                parent: parent(&up),
                ..PciFunction::default()
            };
            pci.functions.insert(down.clone(), bridge);
            let end = pci.functions.get_mut(&end).unwrap();
            end.parent = parent(&down);
            end.numa_node = Some(u32::from(n / 4));
        }
    }
    let devices = report.snapshot.devices.as_mut().unwrap();
    let mut list = devices.value.to_vec();
    for (n, device) in list.iter_mut().enumerate() {
        device.numa_node = Some(u32::from(n >= 4));
    }
    devices.value = Arc::new(list);
}

#[test]
fn gpus_and_ports_stand_by_the_switch_above_them() {
    let mut report = node(8, LinkLayer::Infiniband);
    behind_switches(&mut report);
    let plan = topology_layout::of(&report);
    assert_eq!(plan.groups.len(), 8);
    for (n, group) in plan.groups.iter().enumerate() {
        assert_eq!(
            group.above,
            topology_layout::Above::Switch(format!("{:02x}:00.0", 0xb0 + n))
        );
        assert_eq!(group.numa, Some(u32::from(n >= 4)));
        assert_eq!((group.gpus.len(), group.ports.len()), (1, 1));
        assert_eq!(group.gpus[0].number, n);
        assert_eq!(group.ports[0].name(), format!("mlx5_{n}"));
    }
    // Without bridges they stand by NUMA node, or all together, in pieces.
    let report = node(12, LinkLayer::Infiniband);
    let plan = topology_layout::of(&report);
    assert!(
        plan.groups
            .iter()
            .all(|group| group.above == topology_layout::Above::Unseen)
    );
    let ports: usize = plan.groups.iter().map(|group| group.ports.len()).sum();
    assert_eq!(ports, 12);
    assert!(plan.groups.iter().all(|group| group.ports.len() <= 8));
}

#[test]
fn what_is_gone_has_a_place_in_the_drawing() {
    let mut report = node(7, LinkLayer::Infiniband);
    report.findings = vec![Finding {
        key: "0000:17:00.0".into(),
        ..finding("device_missing", "mlx5_7", "RailVanished", Status::Failing)
    }];
    let plan = topology_layout::of(&report);
    assert_eq!(plan.groups[0].above, topology_layout::Above::Gone);
    assert_has(&report, &["No longer there mlx5_7 RailVanished"]);
}

#[test]
fn a_port_that_is_down_without_a_finding_is_no_alarm() {
    let mut report = node(8, LinkLayer::Infiniband);
    let key = device(7, LinkLayer::Infiniband).port_key(1);
    report
        .snapshot
        .links
        .insert(key.clone(), link(PortState::Down, PhysState::Polling));
    report.roles.get_mut(&key).unwrap().role = Role::Other;
    let plan = topology_layout::of(&report);
    let port = plan
        .ports
        .iter()
        .find(|port| port.name() == "mlx5_7")
        .unwrap();
    assert_eq!(port.severity, Badge::Off);
    assert_has(
        &report,
        &["Rails 7 of 7 up", "not in use", "and 1 other port"],
    );
    // A notice about it does not raise an alarm either, and is shown.
    let mut notice = finding("link_state", "mlx5_7/1", "LinkDown", Status::Failing);
    notice.weight = Weight::Notice;
    report.findings.push(notice);
    let plan = topology_layout::of(&report);
    let port = plan
        .ports
        .iter()
        .find(|port| port.name() == "mlx5_7")
        .unwrap();
    assert_eq!(port.severity, Badge::Notice);
}

#[test]
fn a_source_that_hangs_is_first_among_sources() {
    let mut report = node(1, LinkLayer::Infiniband);
    let source = report.snapshot.sources.get_mut("link").unwrap();
    source.stalled_since = Some(Millis(1));
    report.snapshot.sources.get_mut("ethtool").unwrap().absent = true;
    let text = text(&report);
    let sources = text.split("Every source").nth(1).unwrap();
    assert!(
        sources.find("link stalled") < sources.find("counters up"),
        "{sources}"
    );
    assert!(sources.contains("ethtool absent"), "{sources}");
}

#[test]
fn sizes_of_usual_pages() {
    for ports in [8, 18, 32] {
        let mut report = node(ports, LinkLayer::Ethernet);
        if ports == 8 {
            behind_switches(&mut report);
        }
        let page = encode(&report, None, Refresh::On);
        assert!(page.len() < 64 * 1024, "{ports} ports: {} B", page.len());
    }
}
