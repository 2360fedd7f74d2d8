use super::*;

mod model;

const MINUTE: i64 = 60;

fn at(seconds: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn claims(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    let entry = |(node, version): &(&str, &str)| (node.to_string(), version.to_string());
    entries.iter().map(entry).collect()
}

/// A ledger of ten nodes, counted at 0.
fn ledger(entries: &[(&str, &str)]) -> Ledger {
    Ledger {
        claims: claims(entries),
        nodes: Some(10),
        counted: Some(at(0)),
        counting: None,
    }
}

fn group(nodes: &[(&str, &str, bool)]) -> ListedNodes {
    let listed = |(node, version, tainted): &(&str, &str, bool)| {
        let listed = Listed {
            resource_version: version.to_string(),
            tainted: *tainted,
            counted: true,
        };
        (node.to_string(), listed)
    };
    nodes.iter().map(listed).collect()
}

/// Node "a" at version 5 asks, with room for two.
fn asker(seconds: i64) -> Asker<'static> {
    Asker {
        node: "a",
        resource_version: "5",
        max: BudgetMax::Nodes(2),
        in_group: true,
        now: at(seconds),
    }
}

#[test]
fn an_entry_is_made_while_there_is_room() {
    let full = &[("b", "1"), ("c", "1")];
    let with = |entries: &[(&str, &str)]| BudgetStep::ClaimThenGo(ledger(entries));
    for (case, ledger, seconds, want) in [
        (
            "room",
            ledger(&[("b", "1")]),
            MINUTE,
            with(&[("a", "5"), ("b", "1")]),
        ),
        ("entered", ledger(&[("a", "5")]), MINUTE, BudgetStep::Go),
        (
            "renewed",
            ledger(&[("a", "4"), ("b", "1")]),
            MINUTE,
            with(&[("a", "5"), ("b", "1")]),
        ),
        // However old the count, an entry is renewed without a list.
        (
            "renewed late",
            ledger(&[("a", "4"), ("b", "1")]),
            99 * MINUTE,
            with(&[("a", "5"), ("b", "1")]),
        ),
        // Versions are compared as numbers; what is behind the ledger must not ask.
        ("behind", ledger(&[("a", "10")]), MINUTE, BudgetStep::Stale),
        (
            "no numbers",
            ledger(&[("a", "x")]),
            MINUTE,
            with(&[("a", "5")]),
        ),
        (
            "full, just counted",
            ledger(full),
            59,
            BudgetStep::Withhold(Withheld::Spent, None),
        ),
    ] {
        assert_eq!(ledger.ask(asker(seconds), None), want, "{case}");
    }
}

#[test]
fn the_group_is_counted_by_one_at_a_time() {
    let counting = |mut ledger: Ledger, who: &str, since: i64| {
        ledger.counting = Some((who.into(), at(since)));
        ledger
    };
    let full = ledger(&[("b", "1"), ("c", "1")]);
    let room = ledger(&[("b", "1")]);
    let never = Ledger::default();
    for (case, ledger, seconds, want) in [
        (
            "never counted",
            never.clone(),
            0,
            BudgetStep::Count(counting(never.clone(), "a", 0)),
        ),
        (
            "count too old",
            room.clone(),
            600,
            BudgetStep::Count(counting(room.clone(), "a", 600)),
        ),
        (
            "full for long",
            full.clone(),
            60,
            BudgetStep::Count(counting(full.clone(), "a", 60)),
        ),
        (
            "others at it",
            counting(never.clone(), "b", 0),
            59,
            BudgetStep::Wait,
        ),
        (
            "others at it, full",
            counting(full.clone(), "b", 50),
            60,
            BudgetStep::Withhold(Withheld::Spent, None),
        ),
        (
            "others gave up",
            counting(never.clone(), "b", 0),
            60,
            BudgetStep::Count(counting(never.clone(), "a", 60)),
        ),
        (
            "we are at it",
            counting(never.clone(), "a", 0),
            1,
            BudgetStep::Count(counting(never.clone(), "a", 1)),
        ),
        // A clock far ahead is not believed.
        (
            "from the future",
            counting(never.clone(), "b", 99),
            0,
            BudgetStep::Count(counting(never, "a", 0)),
        ),
    ] {
        assert_eq!(ledger.ask(asker(seconds), None), want, "{case}");
    }
}

#[test]
fn only_entries_that_can_never_be_used_are_dropped() {
    let before = ledger(&[("b", "1"), ("c", "1"), ("d", "1"), ("gone", "1")]);
    let listed = group(&[
        ("a", "5", false),
        ("b", "1", false),
        ("c", "2", false),
        ("d", "2", true),
        ("found", "9", true),
    ]);
    let asker = Asker {
        max: BudgetMax::Nodes(4),
        ..asker(70)
    };
    let BudgetStep::ClaimThenGo(after) = before.ask(asker, Some(&listed)) else {
        panic!("no room");
    };
    // b's patch may still arrive; c's cannot any more; d's has.
    let want = claims(&[("a", "5"), ("b", "1"), ("d", "1"), ("found", "9")]);
    assert_eq!(
        (after.claims, after.nodes, after.counted),
        (want, Some(5), Some(at(70)))
    );
}

#[test]
fn a_node_outside_the_group_gets_nothing() {
    let outside = Asker {
        in_group: false,
        ..asker(0)
    };
    let withheld = BudgetStep::Withhold(Withheld::NotInGroup, None);
    assert_eq!(ledger(&[]).ask(outside, None), withheld);
    let listed = group(&[("b", "1", false)]);
    let step = ledger(&[]).ask(asker(0), Some(&listed));
    assert!(
        matches!(step, BudgetStep::Withhold(Withheld::NotInGroup, Some(_))),
        "{step:?}"
    );
    // Not even where no node may be tainted.
    let none = Asker {
        max: BudgetMax::Nodes(0),
        ..asker(0)
    };
    assert_eq!(
        ledger(&[]).ask(none, None),
        BudgetStep::Withhold(Withheld::Spent, None)
    );
}

#[test]
fn an_entry_is_given_back_only_once_its_patch_is_dead() {
    let entered = ledger(&[("a", "5"), ("b", "1")]);
    assert_eq!(
        entered.released("a", "5"),
        None,
        "the patch may be on its way"
    );
    assert_eq!(
        entered.released("a", "4"),
        None,
        "seen before the entry was made"
    );
    assert_eq!(entered.released("a", "10"), Some(ledger(&[("b", "1")])));
    assert_eq!(entered.released("z", "10"), None);
    assert_eq!(entered.adopted("a", "9"), None);
    let adopted = entered.adopted("z", "9").unwrap();
    assert_eq!(
        adopted.claims,
        claims(&[("a", "5"), ("b", "1"), ("z", "9")])
    );
}

#[test]
fn the_annotation_is_read_back_and_nonsense_is_never_counted() {
    let mut whole = ledger(&[("a", "5")]);
    whole.counting = Some(("a".into(), at(3)));
    assert_eq!(Ledger::parse(Some(&whole.to_text())), whole);
    for text in [
        None,
        Some(""),
        Some("{"),
        Some("[]"),
        Some(r#"{"claims": 5}"#),
    ] {
        assert_eq!(Ledger::parse(text), Ledger::default(), "{text:?}");
        assert!(matches!(
            Ledger::parse(text).ask(asker(0), None),
            BudgetStep::Count(_)
        ));
    }
    let later = r#"{"claims": {"a": "5"}, "someday": 1}"#;
    assert_eq!(Ledger::parse(Some(later)).claims, claims(&[("a", "5")]));
}

#[test]
fn lease_names_are_names_and_apart() {
    let long = "Pool_".repeat(12);
    for value in ["a", "H100_a", "--x", long.as_str()] {
        let name = lease_name(value);
        assert!(
            name.len() <= 63
                && name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
            "{name}"
        );
    }
    assert_eq!(lease_name(""), "selvage-budget");
    assert_ne!(lease_name("a-b"), lease_name("a_b"));
}

#[test]
fn an_entry_of_a_node_outside_the_group_lives_as_long_as_its_taint_may() {
    let stranger = |version: &str, tainted| Listed {
        resource_version: version.into(),
        tainted,
        counted: false,
    };
    for (found, stays) in [
        (Some(stranger("9", true)), true),
        // Its patch may still be on its way.
        (Some(stranger("5", false)), true),
        (Some(stranger("9", false)), false),
        (None, false),
    ] {
        let ledger = Ledger {
            claims: claims(&[("stranger", "5")]),
            ..Ledger::default()
        };
        let mut group = ListedNodes::from([(
            "node-1".to_string(),
            Listed {
                counted: true,
                ..stranger("7", false)
            },
        )]);
        group.extend(found.map(|listed| ("stranger".to_string(), listed)));
        let asker = Asker {
            node: "node-1",
            resource_version: "7",
            max: BudgetMax::Nodes(1),
            ..asker(0)
        };
        match ledger.ask(asker, Some(&group)) {
            BudgetStep::Withhold(Withheld::Spent, Some(next)) if stays => {
                assert_eq!(next.nodes, Some(1), "it is not counted");
                assert!(next.claims.contains_key("stranger"));
            }
            BudgetStep::ClaimThenGo(next) if !stays => {
                assert_eq!(next.claims, claims(&[("node-1", "7")]));
            }
            other => panic!("{other:?}"),
        }
    }
}
