//! Nodes over time: at these seconds after the boot the files change, and from then on the agent sees it.
//! What it says is held second by second, with the taint that would follow.

use super::spoilt::{self as s, Rails};
use super::{Machine, at, evaluator, snapshot};
use selvage::config::Config;
use selvage::evaluator::{Evaluator, SamplingMode};
use selvage::observe::{Memory, Snapshot};
use selvage::readiness::State;
use selvage::readiness::taint_hysteresis::{TaintHysteresis, Tainting, passes_within};
use selvage::report::Report;
use selvage::simulate::NodeFiles;
use selvage::units::Millis;

/// What happens at a second: an edit of the machine as it is when all is well, or of the agent.
enum Then {
    Is(fn(&mut NodeFiles, Rails<'_>)),
    AgentRestarts,
}
use Then::{AgentRestarts, Is};

struct Timeline {
    what: &'static str,
    machine: &'static str,
    /// Whether the agent knows the machine from before the reboot.
    known: bool,
    /// The agent's first look, after the boot.
    from: u64,
    to: u64,
    steps: &'static [(u64, Then)],
    /// The states in their order, without repeats. Before the first full window it is unknown.
    states: &'static [State],
    /// From when to when the node is tainted, to the step; none: never.
    taint: Option<(u64, u64)>,
}

use State::{Degraded, Ready, Unknown, Unready};

/// Seconds between looks, and until the first full window.
const STEP: u64 = 2;
const WINDOW: u64 = 20;

struct Played {
    states: Vec<(State, u64)>,
    taints: Vec<(u64, bool)>,
    reasons: Vec<String>,
}

fn play(timeline: &Timeline) -> Played {
    let machine = Machine::new(timeline.machine);
    let memory = match timeline.known {
        true => machine.remembered(&machine.well),
        false => Memory::default(),
    };
    let judge = |memory: Memory| -> Evaluator { evaluator(&machine.profile, memory, |_| ()) };
    let (mut agent, mut started) = (judge(memory), timeline.from);
    let mut hold = TaintHysteresis::new(Config::default().cluster.hold_times());
    let mut seen: Snapshot = machine.well.clone();
    let mut steps = timeline.steps.iter().peekable();
    let mut played = Played {
        states: vec![],
        taints: vec![(0, false)],
        reasons: vec![],
    };
    // As the agent does it, what did not change is judged again when a finding or the taint is due.
    let (mut report, mut due): (Option<Report>, Millis) = (None, Millis(0));
    for now in (timeline.from..timeline.to).step_by(STEP as usize) {
        while let Some((_, then)) = steps.next_if(|(second, _)| *second <= now) {
            report = None;
            match then {
                Is(edit) => {
                    let mut spec = machine.spec.clone();
                    edit(&mut spec, &machine.rails);
                    seen = snapshot(&spec, Millis(0));
                }
                AgentRestarts => {
                    (agent, started) = (judge(agent.history.memory()), now);
                    hold = TaintHysteresis::new(Config::default().cluster.hold_times());
                    if played.taints.last().unwrap().1 {
                        hold.adopt(Millis::from_secs(now));
                    }
                }
            }
        }
        let (full_window, now_at) = (now >= started + WINDOW, Millis::from_secs(now));
        if report
            .as_ref()
            .is_some_and(|last| last.full_window == full_window)
            && now_at < due
        {
            continue;
        }
        let look = SamplingMode::Watching { full_window };
        let report = report.insert(agent.evaluate(&at(&seen, now_at), look));
        let last = played.states.last();
        if last.is_none_or(|(last, _)| *last != report.state) {
            played.states.push((report.state, now));
            played
                .reasons
                .push(format!("{now} {:?} {:?}", report.state, report.reasons));
        }
        hold.patience = passes_within(&report.findings);
        let tainting = hold.update(report.state, full_window, now_at);
        due = agent.next_look(report, tainting);
        let tainted = match tainting {
            Tainting::Want => true,
            Tainting::Clear => false,
            Tainting::Keep => played.taints.last().unwrap().1,
        };
        if played.taints.last().unwrap().1 != tainted {
            played.taints.push((now, tainted));
        }
    }
    played
}

fn hold(timelines: &[Timeline]) {
    let mut wrong = Vec::new();
    let all: Vec<Played> = std::thread::scope(|scope| {
        let threads: Vec<_> = timelines
            .iter()
            .map(|timeline| scope.spawn(|| play(timeline)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("it is played"))
            .collect()
    });
    for (timeline, played) in timelines.iter().zip(all) {
        let states: Vec<State> = played.states.iter().map(|(state, _)| *state).collect();
        let taints: Vec<(u64, bool)> = played.taints[1..].to_vec();
        let expected = match timeline.taint {
            None => vec![],
            Some((from, to)) if to < timeline.to => vec![(from, true), (to, false)],
            Some((from, _)) => vec![(from, true)],
        };
        if states != timeline.states || taints != expected {
            wrong.push(format!(
                "{}: {:#?}, taints {taints:?}",
                timeline.what, played.reasons
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

macro_rules! timeline {
    ($what:literal, $machine:literal $known:ident, $from:literal..$to:literal,
     [$($second:literal => $then:expr),* $(,)?], [$($state:ident),*], $taint:expr) => {
        Timeline {
            what: $what, machine: $machine, known: stringify!($known) == "known",
            from: $from, to: $to, steps: &[$(($second, $then)),*],
            states: &[$($state),*], taint: $taint,
        }
    };
}

#[test]
fn ordinary_starts() {
    hold(&[
        timeline!("rails come up one by one over three minutes", "h100_ib" new, 10..400, [
            0 => Is(s::down),
            20 => Is(|n, r| s::down(n, &r[1..])),
            45 => Is(|n, r| s::down(n, &r[2..])),
            70 => Is(|n, r| s::down(n, &r[3..])),
            95 => Is(|n, r| s::down(n, &r[4..])),
            120 => Is(|n, r| s::down(n, &r[5..])),
            140 => Is(|n, r| s::down(n, &r[6..])),
            160 => Is(|n, r| s::down(n, &r[7..])),
            176 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
        timeline!("the same of a node that is known", "h100_ib" known, 10..400, [
            0 => Is(s::down),
            60 => Is(|n, r| s::down(n, &r[3..])),
            120 => Is(|n, r| s::down(n, &r[6..])),
            170 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
        timeline!("the driver comes after the agent", "dgxh100" new, 60..700, [
            0 => Is(s::all_undriven),
            240 => Is(s::down),
            280 => Is(|n, r| s::down(n, &r[5..])),
            300 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
        timeline!("the driver comes after the agent, of a node that is known", "dgxh100" known, 60..700, [
            0 => Is(s::all_undriven),
            150 => Is(s::down),
            200 => Is(|n, r| s::down(n, &r[5..])),
            300 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
        timeline!("EFA's driver comes after the agent and takes the cards one by one", "p5.48xlarge" new, 30..300, [
            0 => Is(s::all_undriven),
            120 => Is(|n, r| s::undriven(n, &r[1..])),
            124 => Is(|n, r| s::undriven(n, &r[12..])),
            130 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
        timeline!("one rail of eight after 20 s, and no more", "h100_ib" new, 20..400, [
            0 => Is(|n, r| s::down(n, &r[1..])),
        ], [Unknown], None),
        timeline!("EFA comes late", "p5en.48xlarge" known, 10..300, [
            0 => Is(|n, r| s::gone(n, &r[8..])),
            25 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
        timeline!("EFA comes late to a new node", "p5en.48xlarge" new, 10..400, [
            0 => Is(|n, r| s::gone(n, &r[8..])),
            60 => Is(|n, r| s::gone(n, &r[12..])),
            100 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
        timeline!("half of what EFA could be, and no more", "p5en.48xlarge" new, 10..400, [
            0 => Is(|n, r| s::gone(n, &r[8..])),
        ], [Unknown, Ready], None),
        timeline!("links blink while they train", "h100_ib" new, 10..500, [
            0 => Is(s::down),
            40 => Is(|_, _| ()),
            44 => Is(|n, r| s::down(n, &r[..3])),
            50 => Is(|_, _| ()),
            54 => Is(|n, r| s::down(n, &r[..3])),
            60 => Is(|_, _| ()),
            64 => Is(|n, r| s::down(n, &r[..3])),
            70 => Is(|_, _| ()),
            74 => Is(|n, r| s::down(n, &r[..3])),
            80 => Is(|_, _| ()),
            84 => Is(|n, r| s::down(n, &r[..3])),
            90 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
        timeline!("links blink after their driver came", "h100_ib" new, 1000..1500, [
            0 => Is(s::all_undriven),
            1040 => Is(|_, _| ()),
            1044 => Is(|n, r| s::down(n, &r[..3])),
            1050 => Is(|_, _| ()),
            1054 => Is(|n, r| s::down(n, &r[..3])),
            1060 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
        timeline!("NVIDIA's driver comes after the agent", "p5.48xlarge" new, 60..400, [
            0 => Is(|n, _| s::without_gpu_driver(n)),
            150 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
        timeline!("GPUs are driven after 20 minutes", "dgxh100" known, 30..1500, [
            0 => Is(|n, _| s::gpus_bound_to(n, 8, None)),
            1230 => Is(|n, _| s::gpus_bound_to(n, 5, None)),
            1240 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
    ]);
}

#[test]
fn another_way_not_to_be_up_is_no_recovery() {
    hold(&[
        timeline!("a switch restarts: no link, then no subnet manager", "h100_ib" new, 3600..4300, [
            3700 => Is(s::down),
            3760 => Is(s::init),
            3900 => Is(|_, _| ()),
        ], [Unknown, Ready, Unready, Ready], Some((3734, 4210))),
        timeline!("one rail, now without a link, now without a manager", "h100_ib" new, 3600..3760, [
            3700 => Is(|n, r| s::down(n, &r[..1])),
            3704 => Is(|n, r| s::init(n, &r[..1])),
            3708 => Is(|n, r| s::down(n, &r[..1])),
            3712 => Is(|n, r| s::init(n, &r[..1])),
            3716 => Is(|n, r| s::down(n, &r[..1])),
            3720 => Is(|n, r| s::init(n, &r[..1])),
        ], [Unknown, Ready, Unready], Some((3740, 9999))),
    ]);
}

#[test]
fn a_faulty_part_that_leaves_has_not_recovered() {
    hold(&[
        timeline!("a rail without a link", "h100_ib" new, 3600..3900, [
            3700 => Is(|n, r| s::down(n, &r[..1])),
            3760 => Is(|n, r| s::gone(n, &r[..1])),
        ], [Unknown, Ready, Unready], Some((3734, 9999))),
        timeline!("a rail whose fault is not written yet", "h100_ib" new, 3600..3900, [
            3700 => Is(|n, r| s::down(n, &r[..1])),
            3720 => Is(|n, r| s::undriven(n, &r[..1])),
        ], [Unknown, Ready, Unready], Some((3734, 9999))),
        timeline!("a rail without a subnet manager", "h100_ib" new, 3600..3900, [
            3700 => Is(|n, r| s::init(n, &r[..1])),
            3790 => Is(|n, r| s::gone(n, &r[..1])),
        ], [Unknown, Ready, Unready], Some((3750, 9999))),
        timeline!("a rail that is slow", "h100_ib" new, 3600..3900, [
            3700 => Is(|n, r| s::rate(n, &r[..1], s::HDR)),
            3760 => Is(|n, r| s::gone(n, &r[..1])),
        ], [Unknown, Ready, Degraded, Unready], Some((3806, 9999))),
        timeline!("a NIC that does not answer", "h100_ib" new, 3600..3900, [
            3700 => Is(|n, r| s::dead(n, &r[..1], 0)),
            3760 => Is(|n, r| s::gone(n, &r[..1])),
        ], [Unknown, Ready, Unready], Some((3736, 9999))),
        timeline!("a GPU that does not answer", "h100_ib" new, 3600..3900, [
            3700 => Is(|n, _| s::dead(n, &[], 1)),
            3760 => Is(|n, _| s::without_gpus(n, 1)),
        ], [Unknown, Ready, Unready], Some((3736, 9999))),
        timeline!("a GPU without a driver", "h100_ib" new, 3600..3900, [
            3700 => Is(|n, _| s::gpus_bound_to(n, 1, None)),
            3800 => Is(|n, _| s::without_gpus(n, 1)),
        ], [Unknown, Ready, Unready], Some((3790, 9999))),
    ]);
}

#[test]
fn a_link_that_blinks_mends_nothing() {
    hold(&[
        timeline!("a rail without a LID", "h100_ib" new, 3600..4000, [
            3700 => Is(|n, r| s::no_lid(n, &r[..1])),
            3800 => Is(|n, r| { s::no_lid(n, &r[..1]); s::down(n, &r[..1]) }),
            3820 => Is(|n, r| s::no_lid(n, &r[..1])),
        ], [Unknown, Ready, Unready], Some((3760, 9999))),
        timeline!("a limited member", "h100_ib" new, 3600..4000, [
            3700 => Is(|n, r| s::limited(n, &r[..1])),
            3800 => Is(|n, r| { s::limited(n, &r[..1]); s::down(n, &r[..1]) }),
            3820 => Is(|n, r| s::limited(n, &r[..1])),
        ], [Unknown, Ready, Degraded, Unready, Degraded], None),
        timeline!("small packets", "h100_roce" new, 3600..4100, [
            3700 => Is(|n, r| s::mtu(n, &r[..1])),
            3800 => Is(|n, r| { s::mtu(n, &r[..1]); s::down(n, &r[..1]) }),
            3820 => Is(|n, r| s::mtu(n, &r[..1])),
        ], [Unknown, Ready, Degraded, Unready, Degraded], None),
        timeline!("no address", "h100_roce" new, 3600..4100, [
            3700 => Is(|n, r| s::no_addresses(n, &r[..1])),
            3800 => Is(|n, r| { s::no_addresses(n, &r[..1]); s::down(n, &r[..1]) }),
            3820 => Is(|n, r| s::no_addresses(n, &r[..1])),
        ], [Unknown, Ready, Degraded, Unready, Degraded], None),
        timeline!("no flow control", "h100_roce" new, 3600..4200, [
            3700 => Is(|n, r| s::no_pfc(n, &r[..1])),
            3800 => Is(|n, r| { s::no_pfc(n, &r[..1]); s::down(n, &r[..1]) }),
            3820 => Is(|n, r| s::no_pfc(n, &r[..1])),
        ], [Unknown, Ready, Degraded, Unready, Degraded], None),
        timeline!("what was mended meanwhile", "h100_roce" new, 3600..4200, [
            3700 => Is(|n, r| s::mtu(n, &r[..1])),
            3800 => Is(|n, r| s::down(n, &r[..1])),
            3820 => Is(|_, _| ()),
        ], [Unknown, Ready, Degraded, Unready, Ready], None),
    ]);
}

#[test]
fn short_planned_events() {
    hold(&[
        timeline!("a subnet manager fails over", "h100_ib" new, 3600..4000, [
            3700 => Is(|n, r| s::init(n, &r[..2])),
            3702 => Is(s::init),
            3758 => Is(|n, r| s::init(n, &r[4..])),
            3762 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
        timeline!("a NIC is reset, whose link falls first", "h100_ib" new, 3600..4000, [
            3700 => Is(|n, r| s::down(n, &r[..1])),
            3712 => Is(|n, r| s::undriven(n, &r[..1])),
            3760 => Is(|_, _| ()),
        ], [Unknown, Ready, Unready, Unknown, Ready], None),
        timeline!("five subnet managers fail within the hour", "h100_ib" new, 3600..4000, [
            3700 => Is(s::init), 3720 => Is(|_, _| ()),
            3740 => Is(s::init), 3760 => Is(|_, _| ()),
            3780 => Is(s::init), 3800 => Is(|_, _| ()),
            3820 => Is(s::init), 3840 => Is(|_, _| ()),
            3860 => Is(s::init), 3880 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
        timeline!("firmware of one NIC is reset", "h100_ib" new, 3600..4200, [
            3700 => Is(|n, r| s::undriven(n, &r[..1])),
            3760 => Is(|n, r| s::down(n, &r[..1])),
            3785 => Is(|_, _| ()),
        ], [Unknown, Ready, Unready, Unknown, Ready], None),
        timeline!("mlx5 is reloaded under a running node", "h100_ib" new, 3600..4600, [
            3700 => Is(s::all_undriven),
            3820 => Is(s::down),
            3850 => Is(|n, r| s::down(n, &r[4..])),
            3870 => Is(|_, _| ()),
        ], [Unknown, Ready, Unknown, Ready], None),
        timeline!("a link blinks", "h100_ib" new, 3600..4000, [
            3700 => Is(|n, r| s::down(n, &r[..1])),
            3702 => Is(|_, _| ()),
        ], [Unknown, Ready], None),
    ]);
}

#[test]
fn real_faults() {
    hold(&[
        timeline!("a rail falls and heals", "h100_ib" new, 3600..4600, [
            3700 => Is(|n, r| s::down(n, &r[..1])),
            3900 => Is(|_, _| ()),
        ], [Unknown, Ready, Unready, Ready], Some((3734, 4210))),
        timeline!("the subnet manager is gone", "h100_ib" new, 3600..4200, [
            3700 => Is(s::init),
        ], [Unknown, Ready, Unready], Some((3820, 9999))),
        timeline!("the agent restarts during a fault", "h100_ib" new, 3600..4600, [
            3700 => Is(|n, r| s::down(n, &r[..1])),
            3800 => AgentRestarts,
        ], [Unknown, Ready, Unready, Unknown, Unready], Some((3734, 9999))),
        timeline!("the agent restarts while a NIC is gone", "h100_ib" new, 3600..4600, [
            3700 => Is(|n, r| s::gone(n, &r[..1])),
            3800 => AgentRestarts,
        ], [Unknown, Ready, Unready, Unknown, Unready], Some((3746, 9999))),
        timeline!("a rail stays down after a reboot", "h100_ib" known, 20..600, [
            0 => Is(|n, r| s::down(n, &r[..1])),
        ], [Unknown, Unready], Some((210, 9999))),
        timeline!("a NIC does not come back from a reset", "h100_ib" new, 3600..4200, [
            3700 => Is(|n, r| s::undriven(n, &r[..1])),
        ], [Unknown, Ready, Unready], Some((3806, 9999))),
        timeline!("a NIC is gone when the agent first looks, long after the boot", "h100_ib" known, 3600..4200, [
            0 => Is(|n, r| s::gone(n, &r[..1])),
        ], [Unknown, Unready], Some((3660, 9999))),
        timeline!("a GPU is lost at a reboot", "h100_ib" known, 20..600, [
            0 => Is(|n, _| s::without_gpus(n, 1)),
        ], [Unknown, Unready], Some((80, 9999))),
        timeline!("the driver of all rails is reloaded while one is down", "h100_ib" new, 3600..4600, [
            3700 => Is(|n, r| s::down(n, &r[..1])),
            3800 => Is(s::undriven),
        ], [Unknown, Ready, Unready], Some((3734, 9999))),
        timeline!("a rail trains down", "h100_ib" new, 3600..4200, [
            3700 => Is(|n, r| s::rate(n, &r[..1], s::HDR)),
        ], [Unknown, Ready, Degraded], None),
    ]);
}
