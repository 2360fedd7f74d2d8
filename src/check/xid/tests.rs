use super::super::testing::{Node, listed, tell};
use super::super::xid_seen;
use super::*;
use crate::observe::{History, KernelEvent, KernelEventKind, Note, NvLink, Reading, Severity, Xid};

const A: &str = "0000:17:00";
const B: &str = "0000:3d:00";

fn xid(code: u32, slot: &str) -> KernelEvent {
    detailed(code, slot, XidDetail::default())
}

fn detailed(code: u32, slot: &str, detail: XidDetail) -> KernelEvent {
    let what = KernelEventKind::Xid(Xid {
        code,
        detail,
        ..Xid::default()
    });
    KernelEvent::new(what, &format!("NVRM: Xid (PCI:{slot}): {code}")).of_slot(Some(slot.into()))
}

fn action(from: RecoveryAction, to: RecoveryAction, slot: &str) -> KernelEvent {
    let detail = XidDetail {
        recovery: Some((from, to)),
        ..XidDetail::default()
    };
    detailed(154, slot, detail)
}

fn nvlink(code: u32, severity: Severity) -> KernelEvent {
    let nvlink = NvLink {
        severity: Some(severity),
        ..NvLink::default()
    };
    let detail = XidDetail {
        nvlink: Some(nvlink),
        ..XidDetail::default()
    };
    detailed(code, A, detail)
}

fn node(events: &[KernelEvent]) -> Node {
    let mut node = Node::infiniband();
    let shown = listed(format!("{SHOWN}.0"));
    node.bend_gpudirect(|facts| (facts.has_gpu_list, facts.gpus) = (true, vec![shown]));
    for event in events {
        node.history.push_event(node.now, false, event);
    }
    node
}

fn told(node: &Node) -> Vec<String> {
    node.run(&CHECK).iter().map(tell).collect()
}

#[test]
fn codes_by_the_table() {
    for (code, want) in [
        (79, Some("XidFatal Failing Verdict")),
        (48, Some("XidFatal Failing Verdict")),
        (63, Some("XidDegraded Degraded Verdict")),
        (94, Some("XidDegraded Degraded Verdict")),
        (13, None),
        (31, None),
        (43, None),
        (45, None),
        (9999, Some("XidUnknown Degraded Notice")),
    ] {
        let got = told(&node(&[xid(code, A)]));
        let want: Vec<_> = want.map(|want| format!("{A} {want}")).into_iter().collect();
        assert_eq!(got, want, "{code}");
    }
}

#[test]
fn nvlink_by_its_own_word() {
    assert_eq!(
        told(&node(&[nvlink(145, Severity::Fatal)])),
        [format!("{A} XidFatal Failing Verdict")]
    );
    assert_eq!(
        told(&node(&[nvlink(145, Severity::Nonfatal)])),
        Vec::<String>::new()
    );
}

#[test]
fn what_follows_from_another_code_belongs_to_it() {
    let mut node = node(&[xid(48, A), xid(94, A), xid(45, A)]);
    assert_eq!(told(&node), [format!("{A} XidFatal Failing Verdict")]);
    // On another GPU, or later, it is its own.
    node.tick(60);
    node.history.push_event(node.now, false, &xid(94, A));
    node.history.push_event(node.now, false, &xid(94, B));
    assert_eq!(
        told(&node),
        [
            format!("{A} XidFatal Failing Verdict"),
            format!("{A} XidDegraded Degraded Verdict"),
            format!("{B} XidDegraded Degraded Verdict")
        ]
    );
}

#[test]
fn what_is_over_explains_nothing() {
    use RecoveryAction::*;
    let mut node = node(&[xid(48, A)]);
    for event in [action(GpuReset, None, A), xid(95, A)] {
        node.tick(2);
        node.history.push_event(node.now, false, &event);
    }
    node.tick(61);
    let want = [format!("{A} XidFatal Failing Verdict")];
    assert_eq!(told(&node), want);
    assert_eq!(node.run(&CHECK)[0].evidence["xid"], 95);
}

#[test]
fn fatal_stands_and_degraded_passes() {
    let mut node = node(&[xid(79, A), xid(63, B)]);
    node.tick(3600);
    assert_eq!(told(&node).len(), 2);
    node.tick(1);
    assert_eq!(told(&node), [format!("{A} XidFatal Failing Verdict")]);
    node.tick(7 * 24 * 3600);
    assert_eq!(told(&node).len(), 1);
    // A reboot ends it.
    node.snapshot.boot_id = Some("boot-2".into());
    node.tick(1);
    assert_eq!(told(&node), Vec::<String>::new());
}

#[test]
fn a_restart_of_the_agent_does_not_end_it() {
    let mut node = node(&[xid(79, A)]);
    node.history = History::restore(node.history.memory());
    node.tick(1);
    assert_eq!(told(&node), [format!("{A} XidFatal Failing Verdict")]);
    assert_eq!(xid_seen::seen(&node.history).len(), 1);
}

/// The slot of a GPU that the node's bus shows.
const SHOWN: &str = "0000:80:00";

fn loaded() -> KernelEvent {
    KernelEvent::new(KernelEventKind::DriverLoaded, "NVRM: loading NVIDIA UNIX …")
}

#[test]
fn a_driver_reloaded_ends_it_once_the_gpu_answers_and_stays_quiet() {
    let fatal = |slot: &str| {
        let shown = if slot.is_empty() { "unknown" } else { slot };
        vec![format!("{shown} XidFatal Failing Verdict")]
    };
    let after = |slot: &str, bend: &dyn Fn(&mut Node)| {
        let mut node = node(&[loaded()]);
        node.tick(10);
        node.history.push_event(node.now, false, &xid(79, slot));
        node.tick(100);
        assert_eq!(told(&node), fatal(slot), "a load before it ends nothing");
        bend(&mut node);
        node.tick(59);
        assert_eq!(told(&node), fatal(slot), "not before it has been quiet");
        node.tick(1);
        told(&node)
    };
    let load = |node: &mut Node| node.history.push_event(node.now, false, &loaded());
    assert_eq!(after(SHOWN, &load), Vec::<String>::new());
    // An agent that restarts in between knows.
    let restart = |node: &mut Node| {
        load(node);
        node.history = History::restore(node.history.memory());
    };
    assert_eq!(after(SHOWN, &restart), Vec::<String>::new());
    // Neither a bus that was not read yet, when the agent starts, nor one that hangs brings it back.
    let starts = |node: &mut Node| {
        restart(node);
        node.snapshot.pci = None;
        node.snapshot.gpudirect = None;
    };
    assert_eq!(after(SHOWN, &starts), Vec::<String>::new());
    let hangs = |node: &mut Node| {
        load(node);
        node.set_stalled("pci", "", node.now);
        node.policy.stale_after = crate::units::Span::from_secs(0);
    };
    assert_eq!(after(SHOWN, &hangs), Vec::<String>::new());
    // One that never could be read proves nothing.
    let never = |node: &mut Node| {
        starts(node);
        node.set_stalled("pci", "", node.now);
    };
    assert_eq!(after(SHOWN, &never), fatal(SHOWN));
    // Without a load; a GPU that does not answer, or that is not on the bus.
    assert_eq!(after(SHOWN, &|_| {}), fatal(SHOWN));
    let dead = |node: &mut Node| {
        load(node);
        node.bend_pci(&format!("{SHOWN}.0"), |f| {
            f.config_dead = Reading::Value(true)
        });
    };
    assert_eq!(after(SHOWN, &dead), fatal(SHOWN));
    let unlisted = |node: &mut Node| {
        load(node);
        node.bend_gpudirect(|facts| facts.gpus.clear());
    };
    assert_eq!(after(SHOWN, &unlisted), fatal(SHOWN));
    // Where no list is to be seen, none is asked.
    let no_list = |node: &mut Node| {
        unlisted(node);
        node.bend_gpudirect(|facts| facts.has_gpu_list = false);
    };
    assert_eq!(after(SHOWN, &no_list), Vec::<String>::new());
    assert_eq!(after(A, &load), fatal(A));
    // What the driver asked for ends with it, unless that is a reboot.
    for (asked, left) in [
        (RecoveryAction::GpuReset, 0),
        (RecoveryAction::NodeReboot, 2),
    ] {
        let mut node = node(&[xid(79, SHOWN), action(RecoveryAction::None, asked, SHOWN)]);
        node.tick(10);
        load(&mut node);
        node.tick(59);
        assert_eq!(told(&node).len(), 2, "{asked:?}");
        node.tick(1);
        assert_eq!(told(&node).len(), left, "{asked:?}");
    }
}

#[test]
fn what_was_over_does_not_come_back() {
    let ended = |end: &dyn Fn(&mut Node)| {
        let mut node = node(&[xid(79, SHOWN)]);
        node.tick(10);
        end(&mut node);
        node.tick(1);
        // The bus and the driver are read again.
        node.bend_pci(&format!("{SHOWN}.0"), |_| ());
        node.bend_gpudirect(|_| ());
        node.tick(60);
        assert_eq!(told(&node), [""; 0]);
        node
    };
    let load = |node: &mut Node| node.history.push_event(node.now, false, &loaded());
    let take_back = |node: &mut Node| {
        let none = action(RecoveryAction::GpuReset, RecoveryAction::None, SHOWN);
        node.history.push_event(node.now, false, &none);
    };
    let milder = |node: &mut Node| node.history.push_event(node.now, false, &xid(63, SHOWN));
    let away = |node: &mut Node| node.bend_gpudirect(|facts| facts.gpus.clear());
    let restart = |node: &mut Node| node.history = History::restore(node.history.memory());
    let ends: [&dyn Fn(&mut Node); 2] = [&load, &take_back];
    let laters: [&dyn Fn(&mut Node); 5] = [&milder, &load, &take_back, &away, &restart];
    for (by, end) in ends.into_iter().enumerate() {
        for (what, later) in laters.into_iter().enumerate() {
            let mut node = ended(end);
            later(&mut node);
            node.tick(1);
            let fatal = format!("{SHOWN} XidFatal Failing Verdict");
            assert!(!told(&node).contains(&fatal), "ended by {by}, then {what}");
        }
        // One that comes again while it must be quiet.
        let mut node = node(&[xid(79, SHOWN)]);
        node.tick(10);
        end(&mut node);
        node.tick(30);
        milder(&mut node);
        node.tick(59);
        assert_eq!(told(&node).len(), 2, "ended by {by}");
        node.tick(1);
        assert_eq!(told(&node).len(), 1, "ended by {by}");
    }
}

#[test]
fn an_xid_of_no_gpu_never_touches_the_node() {
    assert_eq!(
        told(&node(&[xid(79, "")])),
        ["unknown XidUnknown Degraded Notice"]
    );
}

#[test]
fn a_module_seen_gone_and_back_is_a_driver_reloaded() {
    let modules = |node: &mut Node, state: Option<&str>| {
        let module = state.map(|state| crate::observe::Module {
            state: Some(state.into()),
            ..Default::default()
        });
        node.bend_gpudirect(|facts| {
            let loaded = module.map(|module| ("nvidia".to_string(), module));
            facts.modules = Reading::Value(loaded.into_iter().collect());
        });
        node.tick(0);
    };
    let mut node = node(&[xid(79, SHOWN)]);
    modules(&mut node, Some("live"));
    node.tick(3600);
    assert_eq!(told(&node).len(), 1);
    modules(&mut node, None);
    node.tick(100);
    assert_eq!(told(&node).len(), 1, "gone is not back");
    modules(&mut node, Some("coming"));
    assert_eq!(told(&node).len(), 1);
    modules(&mut node, Some("live"));
    assert_eq!(told(&node), Vec::<String>::new());
}

#[test]
fn one_gpu_is_given_one_remedy() {
    use RecoveryAction::*;
    let mut node = node(&[xid(79, A), xid(63, A), xid(79, B)]);
    let apart = node.run(&CHECK);
    assert!(!apart[0].remedy.contains("driver's advice"));
    node.history
        .push_event(node.now, false, &action(None, NodeReboot, A));
    let found = node.run(&CHECK);
    let of = |reason: &str, slot: &str| {
        let one = found.iter().find(|c| c.reason == reason && c.key == slot);
        one.map(|c| c.remedy.clone()).unwrap()
    };
    let asked = of("GpuRecoveryRequired", A);
    let follow = format!("Follow the driver's advice (Xid 154): {asked}");
    assert_eq!(of("XidFatal", A), follow);
    assert_eq!(of("XidDegraded", A), follow);
    assert_eq!(of("XidFatal", B), apart[2].remedy);
}

#[test]
fn a_recovery_is_no_error_in_the_totals() {
    use RecoveryAction::*;
    let node = node(&[action(None, GpuReset, A), action(GpuReset, None, A)]);
    assert_eq!(node.history.totals.xids[A][&154], 1);
}

#[test]
fn no_verdict_of_the_driver_makes_an_xid_milder() {
    use RecoveryAction::*;
    for code in [79, 48, 119] {
        let alone = node(&[xid(code, A)]).run(&CHECK);
        for to in [Other(9), RecoverImex] {
            let found = node(&[xid(code, A), action(None, to, A)]).run(&CHECK);
            let lines: Vec<_> = found.iter().map(tell).collect();
            let fatal = format!("{A} XidFatal Failing Verdict");
            let asked = format!("{A} GpuRecoveryRequired Degraded Verdict");
            assert_eq!(lines, [fatal, asked], "{code} {to:?}");
            assert_eq!(found[0].action, alone[0].action, "{code} {to:?}");
        }
    }
}

#[test]
fn an_action_without_a_name_takes_back_no_other() {
    use RecoveryAction::*;
    let asked = |from| {
        let node = node(&[action(None, NodeReboot, A), action(from, Other(9), A)]);
        told(&node)
    };
    let want = [format!("{A} GpuRecoveryRequired Failing Verdict")];
    assert_eq!(asked(None), want);
    assert_eq!(asked(NodeReboot), want);
    // After a reload the driver begins with nothing.
    let mut node = node(&[action(None, GpuReset, SHOWN)]);
    for event in [loaded(), action(None, Other(9), SHOWN)] {
        node.tick(100);
        node.history.push_event(node.now, false, &event);
    }
    let want = [format!("{SHOWN} GpuRecoveryRequired Degraded Verdict")];
    assert_eq!(told(&node), want);
}

#[test]
fn a_verdict_that_was_cut_is_shown() {
    assert_eq!(
        told(&node(&[xid(154, A)])),
        [format!("{A} XidUnknown Degraded Notice")]
    );
}

#[test]
fn the_driver_asks_and_takes_it_back() {
    use RecoveryAction::*;
    let mut node = node(&[xid(119, A), action(None, GpuReset, A)]);
    let both = [
        format!("{A} XidFatal Failing Verdict"),
        format!("{A} GpuRecoveryRequired Failing Verdict"),
    ];
    assert_eq!(told(&node), both);
    node.tick(600);
    node.history
        .push_event(node.now, false, &action(GpuReset, None, A));
    assert_eq!(told(&node), both, "not before it has been quiet");
    node.tick(59);
    assert_eq!(told(&node), both);
    node.tick(1);
    assert_eq!(told(&node), Vec::<String>::new());
    // Said once more, it takes back nothing.
    node.history
        .push_event(node.now, false, &action(GpuReset, None, A));
    assert_eq!(told(&node), Vec::<String>::new());
    // An application's error does not bring it back; a new fault does.
    node.history.push_event(node.now, false, &xid(31, A));
    assert_eq!(told(&node), Vec::<String>::new());
    node.history.push_event(node.now, false, &xid(119, A));
    assert_eq!(told(&node), [format!("{A} XidFatal Failing Verdict")]);
}

#[test]
fn a_request_that_nothing_made_is_not_taken_back() {
    use RecoveryAction::*;
    let taken_back = action(GpuReset, None, A);
    assert_eq!(told(&node(std::slice::from_ref(&taken_back))), [""; 0]);
    let mut node = node(&[action(None, NodeReboot, A)]);
    for _ in 0..2 {
        node.tick(30);
        node.history.push_event(node.now, false, &taken_back);
        let found = node.run(&CHECK);
        assert_eq!(found[0].status, Status::Failing);
        let message = "the driver no longer asks for a reboot of the node (Xid 154)";
        assert!(found[0].message.ends_with(message), "{}", found[0].message);
    }
}

#[test]
fn the_operator_has_the_last_word() {
    let with = |toml: &str, events: &[KernelEvent]| {
        let mut node = node(events);
        node.policy = toml::from_str(toml).unwrap();
        told(&node)
    };
    assert_eq!(
        with("[xid.overrides.79]\naction = 'ignore'", &[xid(79, A)]),
        Vec::<String>::new()
    );
    let counted = "[xid.overrides.43]\naction = 'fatal'\ncount = 3\nwithin = '1h'";
    assert_eq!(
        with(counted, &[xid(43, A), xid(43, A)]),
        Vec::<String>::new()
    );
    assert_eq!(
        with(counted, &[xid(43, A), xid(43, A), xid(43, A)]),
        [format!("{A} XidFatal Failing Verdict")]
    );
    assert_eq!(
        with(
            "[xid.overrides.154]\naction = 'ignore'",
            &[action(RecoveryAction::None, RecoveryAction::NodeReboot, A)]
        ),
        Vec::<String>::new()
    );
}

#[test]
fn counted_in_a_window_that_moves() {
    let mut node = node(&[xid(43, A), xid(43, A)]);
    node.policy =
        toml::from_str("[xid.overrides.43]\naction = 'fatal'\ncount = 3\nwithin = '1h'").unwrap();
    node.tick(3601);
    node.history.push_event(node.now, false, &xid(43, A));
    assert_eq!(told(&node), Vec::<String>::new());
}

#[test]
fn one_jobs_error_on_many_gpus_is_the_jobs() {
    let promoted = "[xid.overrides.43]\naction = 'fatal'";
    let slots = |n: u32| (0..n).map(|i| format!("0000:{i:02x}:00"));
    let run = |code: u32, n: u32| {
        let events: Vec<_> = slots(n).map(|slot| xid(code, &slot)).collect();
        let mut node = node(&events);
        node.policy = toml::from_str(promoted).unwrap();
        let mut reasons: Vec<_> = node.run(&CHECK).iter().map(|c| c.reason).collect();
        reasons.dedup();
        reasons
    };
    assert_eq!(run(43, 3), ["XidFatal"]);
    assert_eq!(run(43, 8), ["XidStorm"]);
    // Hardware that fails on all GPUs at once has failed.
    assert_eq!(run(79, 8), ["XidFatal"]);
}

#[test]
fn the_list_for_the_report() {
    let mut event = xid(79, A);
    if let KernelEventKind::Xid(xid) = &mut event.what {
        xid.process = Some("train".into());
    }
    let mut node = node(&[event, xid(79, A)]);
    node.tick(1);
    let mut nowhere = xid(31, A);
    nowhere.pci = None;
    node.history.push_event(node.now, false, &nowhere);
    let xids = xid_seen::seen(&node.history);
    assert_eq!((xids[0].xid, xids[0].count), (79, 2));
    assert_eq!(xids[0].process.as_deref(), Some("train"));
    assert_eq!(xids[0].class, "pcie");
    assert_eq!((xids[1].xid, xids[1].pci.as_deref()), (31, None));
}

#[test]
fn a_reset_that_is_needed_stands_until_the_driver_is_loaded_or_an_hour() {
    let what = KernelEventKind::Note(Note::ResetRequired);
    let said = KernelEvent::new(what, "NVRM: Assertion failed: Reset required");
    let want = ["GPUs GpuResetRequired Degraded Verdict"];
    let mut quiet = node(std::slice::from_ref(&said));
    assert_eq!(told(&quiet), want);
    quiet.tick(3600);
    assert_eq!(told(&quiet), [""; 0]);
    let mut loaded = node(&[said]);
    loaded.tick(1);
    let event = KernelEvent::new(KernelEventKind::DriverLoaded, "NVRM: loading");
    loaded.history.push_event(loaded.now, false, &event);
    assert_eq!(told(&loaded), [""; 0]);
}
