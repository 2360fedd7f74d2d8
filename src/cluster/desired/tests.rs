use super::*;
use crate::check::Status;
use crate::cluster::label_syntax::is_label_name;
use crate::observe::LinkLayer::{Ethernet, Infiniband};
use crate::observe::{LinkFacts, LinkRate, PhysState, PortState, Reading, Stamped};
use crate::report::testing::{broken, device, empty, finding, link, node};
use crate::units::BitsPerSec;
use std::sync::Arc;

fn of(report: &Report) -> Desired {
    desired(report, &ClusterSettings::default()).unwrap()
}

/// Labels without prefix; None: as it is.
fn label(report: &Report, name: &str) -> Option<String> {
    of(report).labels[&ClusterSettings::default().own(name)].clone()
}

fn change_devices(report: &mut Report, change: impl Fn(usize, &mut crate::observe::RdmaDevice)) {
    let found = report.snapshot.devices.take().unwrap();
    let mut devices = found.value.as_ref().clone();
    for (number, device) in devices.iter_mut().enumerate() {
        change(number, device);
    }
    report.snapshot.devices = Some(Stamped {
        at: found.at,
        value: Arc::new(devices),
    });
}

fn full(mut report: Report) -> Report {
    report.full_window = true;
    report
}

#[test]
fn kind_and_number_of_rails() {
    let set = |text: &str| Some(text.to_string());
    let mut mixed = node(4, Infiniband);
    change_devices(&mut mixed, |number, device| {
        if number > 1 {
            device.ports[0].link_layer = Ethernet;
        }
    });
    let mut efa = node(4, Infiniband);
    change_devices(&mut efa, |_, device| {
        device.driver = "efa".into();
        device.ports[0].link_layer = LinkLayer::Unspecified;
    });
    let mut gve = node(4, Ethernet);
    change_devices(&mut gve, |_, device| device.driver = "gve".into());
    let mut none = full(empty());
    none.snapshot.devices = Some(Stamped {
        at: none.snapshot.at,
        value: Arc::new(Vec::new()),
    });
    // All rails are gone from the bus; what they were is still known.
    let mut gone = node(4, Infiniband);
    gone.snapshot.devices = none.snapshot.devices.clone();
    for (case, report, kind, rails) in [
        ("ib", node(8, Infiniband), set("infiniband"), set("8")),
        ("roce", node(2, Ethernet), set("roce"), set("2")),
        ("efa", efa, set("efa"), set("4")),
        ("gve", gve, set("tcpxo"), set("4")),
        ("mixed", mixed, set("mixed"), set("4")),
        ("no devices", none, set("none"), set("0")),
        ("all gone", gone, None, set("4")),
        ("nothing enumerated", full(empty()), None, None),
    ] {
        assert_eq!(label(&report, names::FABRIC_KIND), kind, "{case}");
        assert_eq!(label(&report, names::RAILS), rails, "{case}");
    }
}

fn rated(report: &mut Report, number: u8, bits: u64) {
    let key = device(number, Infiniband).port_key(1);
    let facts = LinkFacts {
        rate: Reading::Value(LinkRate {
            rate: BitsPerSec(bits),
            lanes: Some(4),
        }),
        ..link(PortState::Active, PhysState::LinkUp).value.clone()
    };
    let at = report.snapshot.at;
    let stamped = Stamped { at, value: facts };
    report.snapshot.links.insert(key, Arc::new(stamped));
}

#[test]
fn the_rate_is_that_of_the_slowest_rail_that_is_up() {
    let rate = |report: &Report| label(report, names::RAIL_GBPS);
    assert_eq!(rate(&node(8, Infiniband)).as_deref(), Some("400"));
    // A rail that is down has no rate, and takes none away.
    assert_eq!(rate(&broken()).as_deref(), Some("400"));
    for (bits, want) in [
        (200_000_000_000, "200"),
        (2_500_000_000, "2.5"),
        (56_250_000_000, "56.3"),
    ] {
        let mut report = node(8, Infiniband);
        rated(&mut report, 5, bits);
        assert_eq!(rate(&report).as_deref(), Some(want));
    }
    let mut down = node(1, Infiniband);
    let key = device(0, Infiniband).port_key(1);
    down.snapshot
        .links
        .insert(key, link(PortState::Down, PhysState::Polling));
    assert_eq!(rate(&down), None);
    // It may come up again; without any rail the label goes.
    let has = |report: &Report| {
        let settings = ClusterSettings::default();
        labels(report, &settings).contains_key(&settings.own(names::RAIL_GBPS))
    };
    assert_eq!((has(&down), has(&node(0, Infiniband))), (true, false));
}

#[test]
fn the_rest_of_the_labels() {
    let report = node(8, Infiniband);
    assert_eq!(label(&report, names::FABRIC).as_deref(), Some("ready"));
    assert_eq!(label(&report, names::GPUDIRECT).as_deref(), Some("peermem"));
    assert_eq!(label(&report, names::GDS).as_deref(), Some("absent"));
    let nothing = full(empty());
    assert_eq!(label(&nothing, names::FABRIC).as_deref(), Some("unknown"));
    assert_eq!(label(&nothing, names::GPUDIRECT), None);
    assert_eq!(label(&nothing, names::GDS), None);
}

#[test]
fn before_the_first_full_window_and_without_a_mode_nothing_is_wanted() {
    let mut early = broken();
    early.full_window = false;
    let default = ClusterSettings::default();
    assert_eq!(desired(&early, &default), None);
    for (mode, condition, taints) in [
        (Mode::Labels, false, false),
        (Mode::Condition, true, false),
        (Mode::All, true, true),
    ] {
        let settings = ClusterSettings {
            mode,
            ..ClusterSettings::default()
        };
        let mut report = broken();
        report.tainting = Tainting::Want;
        let wanted = desired(&report, &settings).unwrap();
        assert_eq!(wanted.writes_condition, condition, "{mode:?}");
        let put = matches!(wanted.taint, WantedTaint::Present(_));
        assert_eq!(put, taints, "{mode:?}");
        // What a wider mode put goes, but not for what cannot be told.
        let left = wanted.taint == WantedTaint::Absent;
        assert_eq!(left, !taints, "{mode:?}");
        report.state = State::Unknown;
        let wanted = desired(&report, &settings).unwrap();
        assert_eq!(wanted.taint, WantedTaint::Keep, "{mode:?}");
        report.state = State::Ready;
        let wanted = desired(&report, &settings).unwrap();
        assert_eq!(wanted.end_startup, taints, "{mode:?}");
    }
    let off = ClusterSettings {
        mode: Mode::Off,
        ..ClusterSettings::default()
    };
    assert_eq!(desired(&broken(), &off), None);
}

#[test]
fn unknown_never_taints_and_only_proof_ends_the_startup_taint() {
    use State::{Degraded, Ready, Unknown, Unready};
    let present = || WantedTaint::Present("GpuLost".into());
    for (state, tainting, muted, want) in [
        (Unready, Tainting::Want, false, present()),
        (Unready, Tainting::Keep, false, WantedTaint::Keep),
        (Unready, Tainting::Clear, false, WantedTaint::Absent),
        (Unready, Tainting::Want, true, WantedTaint::Absent),
        (Ready, Tainting::Want, false, WantedTaint::Keep),
        (Degraded, Tainting::Want, false, WantedTaint::Keep),
        (Ready, Tainting::Clear, false, WantedTaint::Absent),
        (Unknown, Tainting::Want, false, WantedTaint::Keep),
        (Unknown, Tainting::Keep, false, WantedTaint::Keep),
    ] {
        let mut report = broken();
        (report.state, report.tainting, report.taint_muted) = (state, tainting, muted);
        let got = of(&report);
        assert_eq!(got.taint, want, "{state:?} {tainting:?} {muted}");
        assert_eq!(got.end_startup, matches!(state, Ready | Degraded));
    }
}

#[test]
fn values_fit_whatever_a_reason_holds() {
    let long = "x".repeat(200);
    for reason in ["a b:c/d", "---", "", "ünï", long.as_str(), "Ok\n\"'"] {
        let mut report = broken();
        report.tainting = Tainting::Want;
        report.reasons = vec![reason.to_string()];
        let WantedTaint::Present(value) = of(&report).taint else {
            panic!("no taint for {reason:?}");
        };
        assert!(
            value.is_empty() || is_label_name(&value),
            "{reason:?}: {value:?}"
        );
        assert!(value.len() <= 63);
    }
    let mut report = broken();
    report.tainting = Tainting::Want;
    report.reasons.clear();
    let unready = WantedTaint::Present("Unready".into());
    assert_eq!(of(&report).taint, unready);
}

#[test]
fn a_condition_for_each_state() {
    for (state, status, reason) in [
        (State::Ready, "True", "FabricReady"),
        (State::Degraded, "True", "GpuLost"),
        (State::Unready, "False", "GpuLost"),
        (State::Unknown, "Unknown", "GpuLost"),
    ] {
        let mut report = broken();
        report.state = state;
        let got = condition(&report);
        assert_eq!((&*got.status, &*got.reason), (status, reason));
    }
    let bare = condition(&empty());
    assert_eq!((&*bare.status, &*bare.reason), ("Unknown", "FabricUnknown"));
}

#[test]
fn words_are_sorted_bounded_and_stand_still() {
    let mut report = broken();
    let first = condition(&report).message;
    assert!(
        first.starts_with("unready: GpuLost on 0000:83:00."),
        "{first}"
    );
    assert!(first.contains("LinkDown on mlx5_3/1."), "{first}");
    // What moves while the verdict does not: order, counts, times, the finding's own words.
    report.findings.reverse();
    for finding in &mut report.findings {
        finding.since = crate::units::Millis(1);
        finding.message = "now 12345 of them".into();
        finding.evidence.clear();
    }
    report.generation += 1;
    report.snapshot.wall = None;
    assert_eq!(condition(&report).message, first);
    // Subjects in the order of people.
    let down = |number: u32| {
        let subject = format!("mlx5_{number}/1");
        finding("link_state", &subject, "LinkDown", Status::Failing)
    };
    report.reasons = vec!["LinkDown".into()];
    report.findings = [10, 2, 1, 2].into_iter().map(down).collect();
    let message = condition(&report).message;
    assert!(
        message.starts_with("unready: LinkDown on mlx5_1/1, mlx5_2/1, mlx5_10/1."),
        "{message}"
    );
    report.findings = (0..500).map(down).collect();
    let message = condition(&report).message;
    assert!(message.len() <= MESSAGE_MAX && message.ends_with('…'));
}
