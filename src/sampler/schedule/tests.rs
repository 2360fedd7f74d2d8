use super::*;
use crate::observe::FaultKind;

const PACE: Pace = Pace {
    interval: Duration::from_secs(1),
    deadline: Duration::from_secs(5),
};

fn link(name: &str) -> Subject {
    Subject::new("link", name)
}

/// Everything that is queued is started at once.
fn begin(schedule: &mut Schedule, now: Millis) -> Vec<Subject> {
    let due = schedule.start_due(now);
    for subject in &due {
        let _ = schedule.began(subject).unwrap().set(now);
    }
    due
}

#[test]
fn one_in_flight_and_a_hung_read_delays_no_neighbour() {
    let mut schedule = Schedule::default();
    schedule.add(link("a"), PACE, Millis(0));
    schedule.add(link("b"), PACE, Millis(0));
    assert_eq!(begin(&mut schedule, Millis(0)), [link("a"), link("b")]);
    schedule.end(
        &link("b"),
        Millis(1),
        Duration::from_millis(1),
        Reading::Value(()),
    );
    // "a" hangs: never started again, while "b" goes on.
    for second in 1..10u64 {
        let now = Millis::from_secs(second);
        assert_eq!(begin(&mut schedule, now), [link("b")], "second {second}");
        schedule.end(&link("b"), now, Duration::ZERO, Reading::Value(()));
        assert_eq!(schedule.mark_stalled(now), second == 5, "second {second}");
    }
    let stalled = schedule
        .slots
        .iter()
        .find(|(subject, _)| **subject == link("a"))
        .unwrap();
    assert_eq!(stalled.1.health.stalled_since, Some(Millis(0)));
    // It comes back: no longer stalled, and read again.
    schedule.end(
        &link("a"),
        Millis::from_secs(20),
        Duration::from_secs(20),
        Reading::Value(()),
    );
    assert!(
        schedule
            .start_due(Millis::from_secs(20))
            .contains(&link("a"))
    );
}

#[test]
fn what_is_nearly_due_is_taken_along() {
    let slow = Pace {
        interval: Duration::from_secs(10),
        ..PACE
    };
    let mut schedule = Schedule::default();
    schedule.add(link("a"), PACE, Millis(0));
    schedule.add(link("b"), PACE, Millis(49));
    schedule.add(link("c"), PACE, Millis(51));
    schedule.add(link("slow"), slow, Millis(250));
    assert_eq!(schedule.start_due(Millis(0)).len(), 3, "all but c");
    for name in ["a", "b", "slow"] {
        schedule.end(&link(name), Millis(1), Duration::ZERO, Reading::Value(()));
    }
    // Each keeps to its own grid: nothing drifts, and nothing wakes for the slack alone.
    assert!(schedule.start_due(Millis(50)).is_empty());
    assert_eq!(schedule.next_attention(), Some(Millis(51)));
    assert_eq!(schedule.start_due(Millis(51)), [link("c")]);
    schedule.end(&link("c"), Millis(52), Duration::ZERO, Reading::Value(()));
    assert_eq!(schedule.start_due(Millis(1000)), [link("a"), link("b")]);
}

#[test]
fn an_event_reads_at_once_and_soon_after() {
    let mut schedule = Schedule::default();
    schedule.add(link("a"), PACE, Millis(0));
    schedule.start_due(Millis(0));
    schedule.end(&link("a"), Millis(0), Duration::ZERO, Reading::Value(()));
    assert!(schedule.start_due(Millis(300)).is_empty());
    schedule.wake(&link("a"), Millis(300));
    let mut reads = Vec::new();
    for now in 300..1000 {
        if !schedule.start_due(Millis(now)).is_empty() {
            reads.push(now);
            schedule.end(&link("a"), Millis(now), Duration::ZERO, Reading::Value(()));
        }
    }
    assert_eq!(reads, [300, 310, 340, 500]);
}

#[test]
fn what_is_missing_is_looked_for_again_whatever_else_happens() {
    let hour = Pace {
        interval: Duration::from_secs(3600),
        ..PACE
    };
    let mut schedule = Schedule::default();
    schedule.add(link("a"), hour, Millis(0));
    let mut reads = Vec::new();
    for now in 0..20_000 {
        match now {
            1000 => schedule.doubt(&link("a"), Millis(now)),
            // A storm of events in the midst of it.
            3000..3100 => schedule.wake(&link("a"), Millis(now)),
            _ => {}
        }
        if !schedule.start_due(Millis(now)).is_empty() {
            schedule.end(&link("a"), Millis(now), Duration::ZERO, Reading::Value(()));
            if !(3000..4000).contains(&now) {
                reads.push(now);
            }
        }
    }
    assert_eq!(reads, [0, 5000, 9000, 17_000]);
}

#[test]
fn a_wake_during_a_read_is_not_lost() {
    let mut schedule = Schedule::default();
    schedule.add(link("a"), PACE, Millis(0));
    schedule.start_due(Millis(0));
    schedule.wake(&link("a"), Millis(2));
    assert!(schedule.start_due(Millis(2)).is_empty());
    schedule.end(&link("a"), Millis(3), Duration::ZERO, Reading::Value(()));
    assert_eq!(schedule.start_due(Millis(3)), [link("a")]);
}

#[test]
fn missed_starts_are_not_made_up_for() {
    let mut schedule = Schedule::default();
    schedule.add(link("a"), PACE, Millis(0));
    schedule.start_due(Millis(0));
    schedule.end(
        &link("a"),
        Millis(7_300),
        Duration::ZERO,
        Reading::Value(()),
    );
    assert_eq!(schedule.start_due(Millis(7_300)).len(), 1);
    schedule.end(
        &link("a"),
        Millis(7_301),
        Duration::ZERO,
        Reading::Value(()),
    );
    assert!(schedule.start_due(Millis(8_299)).is_empty());
    assert_eq!(schedule.next_attention(), Some(Millis(8_300)));
}

#[test]
fn answered_counts_failures_and_stalls_as_answers() {
    let mut schedule = Schedule::default();
    schedule.add(link("a"), PACE, Millis(0));
    schedule.add(link("b"), PACE, Millis(0));
    begin(&mut schedule, Millis(0));
    assert!(!schedule.answered(|_| 1));
    schedule.end(
        &link("a"),
        Millis(1),
        Duration::ZERO,
        Reading::Failed(Fault {
            kind: FaultKind::Denied,
            detail: String::new(),
        }),
    );
    assert!(!schedule.answered(|_| 2));
    schedule.mark_stalled(Millis::from_secs(5));
    assert!(schedule.answered(|_| 2));
}

#[test]
fn a_read_that_no_worker_started_waits_and_does_not_hang() {
    let mut schedule = Schedule::default();
    schedule.add(link("a"), PACE, Millis(0));
    schedule.start_due(Millis(0));
    assert!(!schedule.mark_stalled(Millis(4_999)));
    assert_eq!(schedule.next_attention(), Some(Millis(5_000)));
    assert!(schedule.mark_stalled(Millis(5_000)));
    let slot = |schedule: &Schedule| schedule.slots.iter().next().unwrap().1.clone();
    assert_eq!(slot(&schedule).health.stalled_since, None);
    assert_eq!(slot(&schedule).idle, Some(Idle::NoReader));
    assert!(schedule.answered(|_| 1) && schedule.quiet());
    // Told once, and nothing wakes for it.
    assert!(!schedule.mark_stalled(Millis(6_000)));
    assert_eq!(schedule.next_attention(), None);
    // Its deadline counts from when it is taken up.
    let _ = schedule.began(&link("a")).unwrap().set(Millis(8_000));
    assert!(!schedule.mark_stalled(Millis(12_999)));
    assert_eq!(slot(&schedule).idle, None);
    assert_eq!(schedule.next_attention(), Some(Millis(13_000)));
    assert!(schedule.mark_stalled(Millis(13_000)));
    assert_eq!(slot(&schedule).health.stalled_since, Some(Millis(8_000)));
}

#[test]
fn a_device_that_hangs_costs_no_second_thread() {
    let of = |name: &str| {
        [
            link(name),
            Subject::new("counters", name),
            Subject::new("gids", name),
        ]
    };
    for (hangs, held) in [(1, vec![2]), (0, vec![1, 2])] {
        let mut schedule = Schedule::default();
        for subject in of("a").into_iter().chain(of("b")) {
            schedule.add(subject, PACE, Millis(0));
        }
        for subject in begin(&mut schedule, Millis(0)) {
            if subject != of("a")[hangs] {
                schedule.end(&subject, Millis(1), Duration::ZERO, Reading::Value(()));
            }
        }
        let now = Millis::from_secs(5);
        assert!(schedule.mark_stalled(now));
        let mut want: Vec<Subject> = of("b").into_iter().chain(of("a")).collect();
        want.retain(|subject| *subject != of("a")[hangs]);
        want.retain(|subject| !held.iter().any(|held| *subject == of("a")[*held]));
        want.sort();
        assert_eq!(begin(&mut schedule, now), want, "{hangs} hangs");
        for subject in want {
            schedule.end(&subject, now, Duration::ZERO, Reading::Value(()));
        }
        assert!(
            schedule.next_attention() > Some(now),
            "held back, not overdue"
        );
        let now = Millis::from_secs(7);
        schedule.end(&of("a")[hangs], now, Duration::ZERO, Reading::Value(()));
        assert_eq!(begin(&mut schedule, now).len(), 6, "all again");
    }
}
