//! Stories told to the machine, second by second.

use super::*;
use crate::check::{Action, Timing, Weight};

fn candidate(reason: Reason, key: &str, status: Status) -> Candidate {
    Candidate {
        check: "link_state",
        key: key.into(),
        subject: format!("name of {key}"),
        reason,
        status,
        weight: Weight::Verdict,
        message: String::new(),
        remedy: String::new(),
        action: Action::None,
        since: Millis(0),
        evidence: BTreeMap::new(),
        expected: None,
        caused_by: None,
        timing: Timing {
            raise_after: Duration::from_secs(3),
            clear_after: Duration::from_secs(5),
        },
        unseen: false,
    }
}

fn down(key: &str) -> Candidate {
    candidate("LinkDown", key, Status::Failing)
}

fn blind(key: &str) -> Candidate {
    candidate("LinkUnreadable", key, Status::Unknown)
}

fn machine() -> Debouncer {
    Debouncer::new(Hysteresis {
        hold: Span::default(),
        ..Hysteresis::default()
    })
}

/// Plays one character a second: `D` down, `.` nothing, `?` unknown, `*` the whole check unknown, `u` unseen.
/// Gives `R` where LinkDown stands, `.` where not.
fn play(machine: &mut Debouncer, start: u64, story: &str) -> String {
    story
        .chars()
        .enumerate()
        .map(|(second, what)| {
            let candidates = match what {
                'D' => vec![down("a")],
                '?' => vec![blind("a")],
                '*' => vec![blind(WHOLE_NODE)],
                'u' => vec![Candidate {
                    unseen: true,
                    ..down("a")
                }],
                _ => vec![],
            };
            let findings = machine.step(candidates, Millis::from_secs(start + second as u64));
            if findings.iter().any(|f| f.reason == "LinkDown") {
                'R'
            } else {
                '.'
            }
        })
        .collect()
}

#[test]
fn raising_and_clearing() {
    for (name, story, want) in [
        ("raised after three seconds", "DDDDD", "...RR"),
        ("a break starts the wait again", "DD.DDDD", "......R"),
        (
            "cleared after five seconds without it",
            "DDDD......D",
            "...RRRRRR..",
        ),
        (
            "back within the clear time: it never went",
            "DDDD....D.....",
            "...RRRRRRRRRRR",
        ),
        ("a blink is nothing", "D.D.D.D.D.D.", "............"),
    ] {
        assert_eq!(play(&mut machine(), 100, story), want, "{name}");
    }
}

#[test]
fn unknown_neither_raises_nor_clears() {
    for (name, story, want) in [
        (
            "unknown holds what stands, however long",
            "DDDD??????????",
            "...RRRRRRRRRRR",
        ),
        (
            "an unknown of the whole check holds it too",
            "DDDD**********",
            "...RRRRRRRRRRR",
        ),
        (
            "what cannot be seen stands, and says nothing itself",
            "DDDDuuuuuuuuuu",
            "...RRRRRRRRRRR",
        ),
        (
            "what was never seen is not believed",
            "uuuuDDDD",
            ".......R",
        ),
        ("unknown alone raises nothing", "??????????", ".........."),
        (
            "time not seen does not count towards raising",
            "DD?????DDD",
            ".........R",
        ),
        (
            "nor towards clearing",
            "DDDD..??????.....",
            "...RRRRRRRRRRRRR.",
        ),
    ] {
        assert_eq!(play(&mut machine(), 100, story), want, "{name}");
    }
}

#[test]
fn unknown_of_one_port_holds_no_other() {
    let mut machine = machine();
    for second in 0..4 {
        machine.step(vec![down("a"), down("b")], Millis::from_secs(second));
    }
    let mut last = Vec::new();
    for second in 4..20 {
        last = machine.step(vec![blind("a")], Millis::from_secs(second));
    }
    let got: Vec<_> = last.iter().map(|f| (f.key.as_str(), f.status)).collect();
    assert_eq!(got, [("a", Status::Failing), ("a", Status::Unknown)]);
}

#[test]
fn of_a_part_that_is_away_all_stands() {
    let keys = [
        "0000:1a:00.0",
        "0000:1a:00.0/1",
        "0000:1a:00.0 config",
        "0000:1a:00.01",
    ];
    let mut machine = machine();
    for second in 0..4 {
        let faults = keys.map(|key| candidate("LinkDown", key, Status::Failing));
        machine.step(faults.to_vec(), Millis::from_secs(second));
    }
    let away = Candidate {
        unseen: true,
        key: keys[0].into(),
        ..Candidate::default()
    };
    machine.step(vec![away.clone()], Millis::from_secs(4));
    let left = machine.step(vec![away], Millis::from_secs(20));
    let left: Vec<&str> = left.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(
        left,
        ["0000:1a:00.0", "0000:1a:00.0 config", "0000:1a:00.0/1"]
    );
}

#[test]
fn unknown_findings_are_debounced_as_well() {
    let mut machine = machine();
    let mut story = String::new();
    for (second, blind_now) in [1, 1, 1, 1, 0, 0, 0, 0, 0, 0].into_iter().enumerate() {
        let candidates = if blind_now == 1 {
            vec![blind("a")]
        } else {
            vec![]
        };
        let findings = machine.step(candidates, Millis::from_secs(second as u64));
        story.push(if findings.is_empty() { '.' } else { 'U' });
    }
    assert_eq!(story, "...UUUUUU.");
}

#[test]
fn time_spent_not_knowing_is_not_time_spent_failing() {
    // The same reason, first Unknown for long, then Failing: the failure waits its own time.
    let mut machine = machine();
    for second in 0..10 {
        machine.step(
            vec![candidate("Missing", "a", Status::Unknown)],
            Millis::from_secs(second),
        );
    }
    let failing = || vec![candidate("Missing", "a", Status::Failing)];
    let at_once = machine.step(failing(), Millis::from_secs(10));
    assert!(at_once.iter().all(|f| f.status == Status::Unknown));
    let mut later = Vec::new();
    for second in 11..=13 {
        later = machine.step(failing(), Millis::from_secs(second));
    }
    let failing = later.iter().find(|f| f.status == Status::Failing).unwrap();
    assert_eq!(failing.since, Millis::from_secs(10));
}

#[test]
fn one_fault_is_never_cleared_by_anothers_recovery() {
    let mut machine = machine();
    for second in 0..4 {
        machine.step(
            vec![
                down("a"),
                down("b"),
                candidate("LinkInit", "a", Status::Degraded),
            ],
            Millis::from_secs(second),
        );
    }
    let mut last = Vec::new();
    for second in 4..30 {
        last = machine.step(vec![down("a")], Millis::from_secs(second));
    }
    let got: Vec<_> = last.iter().map(|f| (&*f.key, f.reason)).collect();
    assert_eq!(got, [("a", "LinkDown")]);
}

#[test]
fn flapping_lengthens_up_to_a_bound_and_is_forgotten() {
    let mut machine = machine();
    let mut now = 0;
    let mut waits = Vec::new();
    for _ in 0..8 {
        for _ in 0..=3 {
            machine.step(vec![down("a")], Millis::from_secs(now));
            now += 1;
        }
        let gone_from = now;
        while !machine.step(vec![], Millis::from_secs(now)).is_empty() {
            now += 1;
        }
        waits.push(now - gone_from);
        now += 1;
    }
    assert_eq!(waits, [5, 5, 5, 10, 20, 40, 40, 40]);
    machine.step(vec![], Millis::from_secs(now + 7200));
    assert_eq!(machine.entries.len(), 0, "quiet for a window: forgotten");
    assert_eq!(play(&mut machine, now + 7300, "DDDD......"), "...RRRRRR.");
}

#[test]
fn raised_stands_for_the_hold() {
    let mut machine = Debouncer::new(Hysteresis {
        hold: Span::from_secs(10),
        ..Hysteresis::default()
    });
    assert_eq!(
        play(&mut machine, 0, "DDDD.............."),
        "...RRRRRRRRRR....."
    );
}

#[test]
fn a_standing_finding_tells_the_latest_and_keeps_its_since() {
    let mut machine = machine();
    for second in 50..=53 {
        machine.step(vec![down("a")], Millis::from_secs(second));
    }
    let mut newer = candidate("LinkDown", "a", Status::Degraded);
    newer.message = "newer words".into();
    newer.evidence.insert("n".into(), 2.into());
    let findings = machine.step(vec![newer.clone()], Millis::from_secs(54));
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].since, Millis::from_secs(50));
    assert_eq!(findings[0].message, "newer words");
    assert_eq!(findings[0].status, Status::Degraded);
    assert_eq!(findings[0].evidence, newer.evidence);
}

#[test]
fn a_second_stretch_has_its_own_since() {
    let mut machine = machine();
    play(&mut machine, 0, "DDDD......");
    play(&mut machine, 10, "DDD");
    let findings = machine.step(vec![down("a")], Millis::from_secs(13));
    assert_eq!(findings[0].since, Millis::from_secs(10));
}

#[test]
fn worst_first() {
    let mut notice = candidate("StorageDown", "s", Status::Failing);
    notice.weight = Weight::Notice;
    let findings = step_once(
        vec![
            notice,
            blind("c"),
            candidate("LinkSlow", "b", Status::Degraded),
            down("a"),
        ],
        Millis::from_secs(86_400),
    );
    let got: Vec<_> = findings.iter().map(|f| (&*f.key, f.status)).collect();
    assert_eq!(
        got,
        [
            ("a", Status::Failing),
            ("c", Status::Unknown),
            ("b", Status::Degraded),
            ("s", Status::Failing),
        ]
    );
    assert!(
        findings
            .iter()
            .all(|f| f.since == Millis::from_secs(86_400))
    );
}

#[test]
fn what_has_to_stand_longer_than_the_machine_is_up_is_not_believed() {
    for (up, want) in [(60, Status::Unknown), (200, Status::Failing)] {
        let mut training = down("a");
        training.timing.raise_after = Duration::from_secs(180);
        let findings = step_once(vec![training], Millis::from_secs(up));
        assert_eq!(findings[0].status, want, "{up} s after the boot");
    }
}

#[test]
fn memory_is_bounded_and_the_worst_gets_in() {
    let mut machine = machine();
    let many = (0..MAX_KEYS + 10)
        .map(|n| candidate("Xid", &n.to_string(), Status::Degraded))
        .chain([down("a")])
        .collect();
    machine.step(many, Millis(0));
    assert_eq!(machine.entries.len(), MAX_KEYS);
    assert!(machine.entries.keys().any(|id| id.reason == "LinkDown"));

    // Remembered flaps make room for what stands now.
    machine.step(vec![], Millis(1));
    assert_eq!(machine.entries.len(), 0);
    for n in 0..MAX_KEYS {
        let mut short = down(&n.to_string());
        short.timing.raise_after = Duration::ZERO;
        short.timing.clear_after = Duration::ZERO;
        machine.step(vec![short], Millis(2 + n as u64));
    }
    machine.step(vec![], Millis(10_000));
    machine.step(vec![down("new")], Millis(10_001));
    assert_eq!(machine.entries.len(), MAX_KEYS);
    assert!(machine.entries.keys().any(|id| id.key == "new"));
    assert!(!machine.entries.keys().any(|id| id.key == "0"));
}

#[test]
fn a_clock_that_goes_back_does_no_harm() {
    let mut machine = machine();
    machine.step(vec![down("a")], Millis::from_secs(100));
    assert!(
        machine
            .step(vec![down("a")], Millis::from_secs(50))
            .is_empty()
    );
    assert!(
        machine
            .step(vec![down("a")], Millis::from_secs(101))
            .is_empty()
    );
    assert_eq!(
        machine.step(vec![down("a")], Millis::from_secs(103)).len(),
        1
    );
}

#[test]
fn the_moment_of_the_next_change_is_known() {
    let step = |machine: &mut Debouncer, second, candidates| {
        machine.step(candidates, Millis::from_secs(second));
        machine.next_change().map(|at| at.0 / 1000)
    };
    let mut quick = machine();
    assert_eq!(quick.next_change(), None);
    for (second, candidates, want) in [
        (100, vec![down("a")], Some(103)),
        (101, vec![down("a")], Some(103)),
        (102, vec![down("a"), down("b")], Some(103)),
        (103, vec![down("a"), down("b")], Some(105)),
        (105, vec![down("a"), down("b")], None),
        (200, vec![down("b")], Some(205)),
        (203, vec![down("b")], Some(205)),
        (204, vec![down("a"), down("b")], None),
        // Not knowing is raised in time of its own, and stops what waits.
        (210, vec![down("b")], Some(215)),
        (211, vec![blind("a"), down("b")], Some(214)),
    ] {
        assert_eq!(step(&mut quick, second, candidates), want, "{second}");
    }
    // Raised: it stands for the hold at least.
    let mut held = Debouncer::new(Hysteresis::default());
    for second in [100, 103] {
        step(&mut held, second, vec![down("a")]);
    }
    assert_eq!(step(&mut held, 104, vec![]), Some(118));
    assert_eq!(step(&mut held, 118, vec![]), None);
}

#[test]
fn an_accepted_machine_clears_what_its_check_can_no_longer_tell() {
    let mut machine = machine();
    assert_eq!(play(&mut machine, 0, "DDDD"), "...R");
    machine.accept();
    assert_eq!(play(&mut machine, 4, "????????"), "RRRRR...");
    // What is still seen is not accepted away, and is kept as ever.
    assert_eq!(play(&mut machine, 12, "DDDD"), "...R");
    machine.accept();
    assert_eq!(play(&mut machine, 16, "D????????"), "RRRRRRRRR");
}

#[test]
fn what_an_earlier_run_believed_stands_until_it_is_seen_to_be_gone() {
    let mut before = machine();
    assert_eq!(play(&mut before, 0, "DDDD"), "...R");
    before.step(vec![down("a"), blind("b")], Millis::from_secs(3));
    // Before and after every source has answered.
    for (starts, story, want) in [
        ("....", "uuuuuuuuuuuuu", "RRRRRRRRRRRRR"),
        ("....", "............", "............"),
        ("..uu", "DDDDDD......", "RRRRRRRRRRR."),
        ("..DD", "............", "RRRRR......."),
        ("....", "uuuu........", "RRRR........"),
        ("", "*****.......", "RRRRR......."),
    ] {
        let mut machine = machine();
        machine.restore(before.standing(), Millis::from_secs(10));
        assert_eq!(play(&mut machine, 10, starts), "R".repeat(starts.len()));
        machine.full_window = true;
        assert_eq!(play(&mut machine, 14, story), want, "{story}");
    }
    let standing: Vec<Finding> = before.standing().collect();
    assert_eq!((standing.len(), standing[0].reason), (1, "LinkDown"));
}
