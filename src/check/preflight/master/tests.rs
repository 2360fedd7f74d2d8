use super::super::testing::*;
use crate::observe::{Attempt, FaultKind, MasterFacts, Reading};

#[test]
fn what_the_master_answers() {
    let far: &[&str] = &["10.7.7.7"];
    let own: &[&str] = &["10.0.0.5"];
    let local: &[&str] = &["127.0.0.1"];
    let failed = || Attempt::Failed("no route to host".into());
    for (rank, port, addresses, connection, want) in [
        ("1", "29500", far, Attempt::Connected, "ok"),
        (
            "1",
            "29500",
            far,
            Attempt::Refused,
            "skipped MasterNotListening",
        ),
        (
            "1",
            "29500",
            far,
            Attempt::TimedOut,
            "degraded MasterSilent",
        ),
        ("1", "29500", far, failed(), "degraded MasterUnreachable"),
        ("1", "29500", far, Attempt::NotTried, "ok"),
        ("0", "29500", own, Attempt::NotTried, "ok"),
        ("0", "29500", far, Attempt::NotTried, "ok"),
        (
            "1",
            "29500",
            local,
            Attempt::Refused,
            "failing MasterIsLoopback",
        ),
        ("0", "29500", local, Attempt::NotTried, "ok"),
        ("1", "0", far, Attempt::NotTried, "failing MasterPort"),
        ("1", "70000", far, Attempt::NotTried, "failing MasterPort"),
        ("1", "http", far, Attempt::NotTried, "failing MasterPort"),
    ] {
        let mut facts = only(&[
            ("MASTER_ADDR", "train-0"),
            ("MASTER_PORT", port),
            ("RANK", rank),
            ("WORLD_SIZE", "16"),
        ]);
        facts.master = MasterFacts {
            addresses: Reading::Value(addresses.iter().map(|a| a.parse().unwrap()).collect()),
            connection: connection.clone(),
        };
        assert_eq!(
            verdict(&facts, "master"),
            want,
            "{rank} {port} {addresses:?} {connection:?}"
        );
    }
}

#[test]
fn the_masters_own_machine_may_call_it_loopback() {
    for (variables, want) in [
        (&[("RANK", "0")][..], "ok"),
        (
            &[("RANK", "3"), ("GROUP_RANK", "0")],
            "skipped MasterNotListening",
        ),
        (
            &[("RANK", "3"), ("NODE_RANK", "0")],
            "skipped MasterNotListening",
        ),
        (
            &[("RANK", "3"), ("LOCAL_RANK", "3")],
            "skipped MasterNotListening",
        ),
        (&[("OMPI_COMM_WORLD_RANK", "0")], "ok"),
        (&[("PMI_RANK", "0")], "ok"),
        (&[("SLURM_PROCID", "0")], "ok"),
        (
            &[("SLURM_PROCID", "2"), ("SLURM_LOCALID", "2")],
            "skipped MasterNotListening",
        ),
        (&[("RANK", "9")], "failing MasterIsLoopback"),
        (
            &[("RANK", "9"), ("LOCAL_RANK", "1"), ("GROUP_RANK", "1")],
            "failing MasterIsLoopback",
        ),
        // The first pod of another Job of the same set.
        (
            &[("RANK", "9"), ("JOB_COMPLETION_INDEX", "0")],
            "failing MasterIsLoopback",
        ),
        (&[("JOB_COMPLETION_INDEX", "0")], "ok"),
        (&[], "failing MasterIsLoopback"),
    ] {
        let mut facts = only(&[
            ("MASTER_ADDR", "train-0"),
            ("MASTER_PORT", "29500"),
            ("NNODES", "2"),
        ]);
        set(&mut facts, variables);
        facts.master = MasterFacts {
            addresses: Reading::Value(vec!["127.0.1.1".parse().unwrap()]),
            connection: Attempt::Refused,
        };
        assert_eq!(verdict(&facts, "master"), want, "{variables:?}");
    }
}

#[test]
fn names_without_an_address() {
    let mut facts = only(&[("MASTER_ADDR", "train-0"), ("RANK", "1")]);
    facts.master.addresses = fault(FaultKind::Other);
    assert_eq!(verdict(&facts, "master"), "degraded MasterUnresolvable");
    assert!(
        item(&facts, "master")
            .message
            .contains("the system's words")
    );
    facts.master.addresses = fault(FaultKind::Stalled);
    assert_eq!(verdict(&facts, "master"), "degraded MasterUnresolvable");
    let message = item(&facts, "master").message;
    assert!(
        message.contains("the resolver does not answer"),
        "{message}"
    );
    facts.master.addresses = Reading::NotObservable;
    assert_eq!(verdict(&facts, "master"), "unknown MasterUnresolvable");
    facts.master.addresses = Reading::Absent;
    assert_eq!(verdict(&facts, "master"), "skipped");
    assert_eq!(verdict(&only(&[]), "master"), "skipped");
    let facts = only(&[("MASTER_ADDR", ""), ("MASTER_PORT", "1")]);
    assert_eq!(verdict(&facts, "master"), "failing MasterUnset");
}

#[test]
fn an_empty_master_of_several_nodes() {
    assert_eq!(
        verdict(&with(&[("MASTER_ADDR", "")]), "master"),
        "failing MasterUnset"
    );
    let one = with(&[("MASTER_ADDR", ""), ("WORLD_SIZE", "8")]);
    assert_eq!(verdict(&one, "master"), "skipped");
    assert_eq!(verdict(&good(), "master"), "skipped");
}
