//! The cast against its nodes, and against the checks that are to find it out.

use super::*;
use crate::check::CHECKS;
use crate::simulate::{Node, preset};
use std::collections::BTreeSet;

#[test]
fn every_act_fits_its_node() {
    for role in cast(15, 1.0) {
        let dir = tempfile::tempdir().unwrap();
        let mut node = Node::write(preset(role.preset).unwrap(), dir.path()).unwrap();
        let mut scenes: Vec<(Duration, &Event)> = role
            .scenes
            .iter()
            .map(|(at, event, _)| (*at, event))
            .collect();
        scenes.extend(role.again.iter().map(|([from, _], event)| (*from, event)));
        scenes.sort_by_key(|(at, _)| *at);
        let events = role
            .before
            .iter()
            .chain(scenes.into_iter().map(|(_, event)| event));
        for event in events {
            let done = node.apply(event);
            assert!(done.is_ok(), "{}: {done:?} {event:?}", role.name);
        }
        assert!(!role.about.is_empty());
    }
}

#[test]
fn names_and_pods_are_told_apart() {
    let roles = cast(64, 1.0);
    let names: BTreeSet<&str> = roles.iter().map(|role| role.name.as_str()).collect();
    assert_eq!(names.len(), 64);
    let mut uids = BTreeSet::new();
    for event in roles.iter().flat_map(|role| &role.scenes) {
        if let Event::PodComes(pod) = &event.1 {
            assert!(uids.insert(pod.uid.clone()), "{}", pod.name);
        }
    }
    assert!(uids.len() >= 10);
}

#[test]
fn reasons_are_ones_that_checks_give() {
    let of_checks = CHECKS.iter().flat_map(|check| check.reasons);
    let mut known: BTreeSet<&str> = of_checks.map(|doc| doc.reason).collect();
    known.insert("NoFabric");
    for role in cast(12, 1.0) {
        for reason in role.reasons {
            assert!(known.contains(reason), "{}: {reason}", role.name);
        }
    }
}

#[test]
fn faster_is_sooner() {
    let (slow, fast) = (cast(12, 1.0), cast(12, 4.0));
    for (slow, fast) in slow.iter().zip(&fast) {
        for (one, other) in slow.scenes.iter().zip(&fast.scenes) {
            assert!(other.0.abs_diff(one.0 / 4) < Duration::from_millis(1));
        }
    }
    assert_eq!(fast[11].leaves, Some(Duration::from_secs(15)));
}
