use super::super::link_state::CHECK;
use super::super::testing::{Node, key};
use super::*;
use crate::check::roles::Role;
use crate::observe::{Fault, FaultKind, PhysState, PortState, Reading, Stamped};
use crate::units::Millis;
use std::sync::Arc;

fn facts(authorized: bool, pae: &str, eap: &str) -> Dot1xFacts {
    Dot1xFacts {
        authorized: Some(authorized),
        pae_state: Some(pae.into()),
        eap_state: Some(eap.into()),
        wpa_state: Some("ASSOCIATED".into()),
        key_mgmt: Some("IEEE 802.1X (no WPA)".into()),
        method: Some("13 (EAP-TLS)".into()),
    }
}

fn well() -> Dot1xFacts {
    facts(true, "AUTHENTICATED", "SUCCESS")
}

fn held() -> Dot1xFacts {
    facts(false, "HELD", "FAILURE")
}

fn asking() -> Dot1xFacts {
    facts(false, "CONNECTING", "IDLE")
}

fn set(node: &mut Node, i: usize, value: Reading<Dot1xFacts>) {
    let at = node.now;
    let told = Arc::new(Stamped { at, value });
    node.snapshot.dot1x.insert(format!("eth{i}"), told);
}

/// A node on which so many supplicants answer that all is well.
fn node(answering: usize) -> Node {
    let mut node = Node::roce();
    for i in 0..answering {
        set(&mut node, i, Reading::Value(well()));
    }
    node
}

const FAILING: &str = "mlx5_3/1 PortNotAuthenticated Failing Verdict";
const UNKNOWN: &str = "mlx5_3/1 PortNotAuthenticated Unknown Verdict";
const NOTICE: &str = "mlx5_3/1 PortNotAuthenticated Degraded Notice";

#[test]
fn what_supplicants_say() {
    for (what, others, says, want) in [
        ("all are authorized", 8, Reading::Value(well()), ""),
        (
            "refused, others are not",
            8,
            Reading::Value(held()),
            FAILING,
        ),
        (
            "unanswered, others are not",
            8,
            Reading::Value(asking()),
            FAILING,
        ),
        (
            "refused, and alone in it",
            0,
            Reading::Value(held()),
            UNKNOWN,
        ),
        ("too few others", 1, Reading::Value(held()), UNKNOWN),
        (
            "given up, and too few others",
            1,
            Reading::Value(Dot1xFacts {
                method: None,
                ..held()
            }),
            NOTICE,
        ),
        (
            "unanswered, and too few others",
            1,
            Reading::Value(asking()),
            NOTICE,
        ),
        (
            "no word of the port",
            8,
            Reading::Value(Dot1xFacts::default()),
            "",
        ),
        ("not seen", 8, Reading::NotObservable, ""),
        (
            "no answer",
            8,
            Reading::Failed(Fault {
                kind: FaultKind::Other,
                detail: "silent".into(),
            }),
            "",
        ),
        (
            "nothing is configured, and nothing else known",
            0,
            Reading::Value(Dot1xFacts {
                key_mgmt: None,
                wpa_state: Some("INACTIVE".into()),
                ..facts(false, "DISCONNECTED", "DISABLED")
            }),
            "",
        ),
    ] {
        let mut node = node(others);
        set(&mut node, 3, says);
        node.tick(0);
        let want: Vec<&str> = Some(want)
            .filter(|want| !want.is_empty())
            .into_iter()
            .collect();
        assert_eq!(node.told(&CHECK), want, "{what}");
    }
}

#[test]
fn what_was_authorized_this_boot_needs_no_other_evidence() {
    let mut node = node(4);
    node.tick(30);
    for i in 0..4 {
        set(&mut node, i, Reading::Value(held()));
    }
    node.tick(30);
    let found = node.run(&CHECK);
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|c| c.status == Status::Failing));
    assert_eq!(
        found[3].evidence["evidence"],
        "it was authorized earlier this boot"
    );
    assert_eq!(
        found[3].evidence["dot1x"],
        "not authorized (PAE HELD, EAP FAILURE)"
    );
    assert!(found[3].message.contains("eth3"), "{}", found[3].message);
    assert!(found[3].remedy.contains("`wpa_cli -i eth3 status`"));
    assert!(!found[3].remedy.contains(SOME_INTERFACE));
    let mut docs = CHECK.reasons().iter();
    assert!(docs.any(|doc| doc.remedy().contains(SOME_INTERFACE)));
    // The memory of it outlives the agent, and not the boot.
    let memory = node.history.memory();
    for (boot, remembers) in [("boot-1", true), ("boot-2", false)] {
        let mut after = node.clone();
        after.history = crate::observe::History::restore(memory.clone());
        after.snapshot.boot_id = Some(boot.into());
        after.tick(1);
        let failing = after.told(&CHECK).contains(&FAILING.to_string());
        assert_eq!(failing, remembers, "{boot}");
    }
}

#[test]
fn a_port_without_a_supplicant_is_not_evidence() {
    // A supplicant that authenticates nothing calls its port authorized.
    let mut node = Node::roce();
    for i in 0..8 {
        let open = Dot1xFacts {
            key_mgmt: Some("NONE".into()),
            ..well()
        };
        set(&mut node, i, Reading::Value(open));
    }
    node.tick(30);
    set(&mut node, 3, Reading::Value(held()));
    node.tick(30);
    assert_eq!(node.told(&CHECK), [UNKNOWN]);
}

#[test]
fn who_connects_is_given_twice_as_long() {
    let mut node = node(8);
    let wait = |node: &Node| node.run(&CHECK)[0].timing.raise_after.as_secs();
    set(&mut node, 3, Reading::Value(held()));
    assert_eq!(wait(&node), 60);
    set(&mut node, 3, Reading::Value(asking()));
    assert_eq!(wait(&node), 120);
}

#[test]
fn a_link_that_is_down_is_that_first() {
    let unanswered = || Dot1xFacts {
        method: None,
        ..held()
    };
    for (says, seen_up, before) in [
        (held(), false, true),
        (asking(), false, false),
        // No answer comes without a link: no cause of it, unless it was so before.
        (unanswered(), false, false),
        (unanswered(), true, true),
    ] {
        let mut node = node(8);
        if seen_up {
            set(&mut node, 3, Reading::Value(says.clone()));
            node.tick(30);
        }
        set(&mut node, 3, Reading::Value(says));
        node.set_state(3, PortState::Down, PhysState::Polling);
        node.tick(1);
        assert_eq!(node.told(&CHECK), ["mlx5_3/1 LinkDown Failing Verdict"]);
        let found = &node.run(&CHECK)[0];
        assert!(found.evidence.contains_key("dot1x"));
        let message = &found.message;
        assert_eq!(
            message.contains("authentication failed before that"),
            before
        );
        assert_eq!(message.contains("may be the cause"), !before);
        assert_eq!(found.remedy.contains("wpa_cli -i eth3"), before);
        assert!(found.remedy.contains("cable"));
    }
    // Authorized or silent: a cable, as ever.
    let mut node = node(8);
    node.set_state(3, PortState::Down, PhysState::Polling);
    node.tick(1);
    assert!(!node.run(&CHECK)[0].evidence.contains_key("dot1x"));
}

#[test]
fn ports_that_are_no_rails_do_not_count() {
    let mut node = node(8);
    node.set_role(3, Role::Other);
    set(&mut node, 3, Reading::Value(held()));
    node.tick(1);
    assert_eq!(node.told(&CHECK), [NOTICE]);
    assert!(!node.context().is_rail(&key(3)));
}

#[test]
fn what_a_hung_read_left_is_not_gone_by() {
    let mut node = node(8);
    set(&mut node, 3, Reading::Value(held()));
    node.set_stalled("dot1x", "", Millis::from_secs(90));
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    // Another supplicant's failure says nothing about this one.
    let mut node = self::node(8);
    set(&mut node, 3, Reading::Value(held()));
    node.set_fault("dot1x", "", FaultKind::Other);
    node.tick(600);
    assert_eq!(node.told(&CHECK), [FAILING]);
}

#[test]
fn while_no_supplicant_can_be_asked_what_one_said_stands() {
    let unseen = |node: &Node| {
        let found = (CHECK.run)(&node.context().of_check(&CHECK));
        let mut held = found.iter().filter(|of| of.unseen && of.reason == REASON);
        held.any(|of| of.key == key(3).to_string())
    };
    let mut silent = node(8);
    set(&mut silent, 3, Reading::failed(FaultKind::Other, "silent"));
    silent.set_fault("dot1x", "", FaultKind::Other);
    assert!(unseen(&silent));
    let mut of_another = node(8);
    of_another.snapshot.dot1x.remove("eth3");
    of_another.set_fault("dot1x", "", FaultKind::Other);
    assert!(!unseen(&of_another), "another one is silent");
    let mut removed = node(0);
    let heard = removed.now;
    removed.set_health("dot1x", "", |health| {
        health.fault = Some(Fault::other("removed after it was mounted"));
        health.last_ok = Some(heard);
    });
    assert!(unseen(&removed), "by a restart of the supplicant");
    removed.tick(3601);
    assert!(!unseen(&removed), "for good");
    let mut without = node(0);
    without.set_health("dot1x", "", |health| health.absent = true);
    assert!(!unseen(&without), "no supplicant runs");
}
