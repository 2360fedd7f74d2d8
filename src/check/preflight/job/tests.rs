use super::super::testing::*;
use super::*;
use crate::observe::container::{Connection, MasterFacts};
use crate::observe::reading::{FaultKind, Reading};

fn only(variables: &[(&str, &str)]) -> ContainerFacts {
    let mut facts = good();
    facts.environment.variables.clear();
    set(&mut facts, variables);
    facts
}

#[test]
fn how_many_nodes() {
    for (variables, want) in [
        (&[][..], None),
        (&[("WORLD_SIZE", "1")], Some(false)),
        (&[("WORLD_SIZE", "16")], Some(true)),
        // Of 8 GPUs, 8 processes may be one node or eight.
        (&[("WORLD_SIZE", "8")], None),
        (
            &[("WORLD_SIZE", "8"), ("LOCAL_WORLD_SIZE", "8")],
            Some(false),
        ),
        (
            &[("WORLD_SIZE", "8"), ("LOCAL_WORLD_SIZE", "4")],
            Some(true),
        ),
        (&[("PET_NNODES", "2")], Some(true)),
        (&[("PET_NNODES", "1:4")], Some(true)),
        (&[("PET_NNODES", "1")], Some(false)),
        (&[("LWS_GROUP_SIZE", "2")], Some(true)),
        (&[("SLURM_NNODES", "1")], Some(false)),
        (
            &[
                ("OMPI_COMM_WORLD_SIZE", "16"),
                ("OMPI_COMM_WORLD_LOCAL_SIZE", "8"),
            ],
            Some(true),
        ),
        (&[("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "4")], Some(false)),
        (&[("NNODES", "many")], None),
        (&[("NNODES", "0")], None),
    ] {
        let facts = only(variables);
        let got = spans_nodes(&facts, Some(8)).map(|(many, _)| many);
        assert_eq!(got, want, "{variables:?}");
    }
    // A master elsewhere.
    let mut facts = only(&[("MASTER_ADDR", "train-0"), ("WORLD_SIZE", "2")]);
    facts.master.addresses = Reading::Value(vec!["10.7.7.7".parse().unwrap()]);
    assert!(spans_nodes(&facts, Some(8)).unwrap().0);
    facts.master.addresses = Reading::Value(vec!["10.0.0.5".parse().unwrap()]);
    assert_eq!(spans_nodes(&facts, Some(8)), None);
}

#[test]
fn rank_variables() {
    for (variables, want) in [
        (&[][..], "skipped"),
        (&[("RANK", "0"), ("WORLD_SIZE", "2")], "ok"),
        (
            &[("RANK", "2"), ("WORLD_SIZE", "2")],
            "failing RankOutOfRange",
        ),
        (
            &[("RANK", "0"), ("WORLD_SIZE", "0")],
            "failing RankOutOfRange",
        ),
        (&[("RANK", "-1")], "failing RankNotANumber"),
        (&[("RANK", "")], "failing RankNotANumber"),
        (&[("RANK", "$(POD_INDEX)")], "failing RankNotANumber"),
        (&[("RANK", "1.0")], "failing RankNotANumber"),
        (&[("RANK", "3")], "ok"),
        (&[("LOCAL_RANK", "7")], "ok"),
        (&[("LOCAL_RANK", "8")], "failing MoreRanksThanGpus"),
        (&[("SLURM_LOCALID", "8")], "failing MoreRanksThanGpus"),
        (
            &[("LOCAL_WORLD_SIZE", "9"), ("WORLD_SIZE", "18")],
            "failing MoreRanksThanGpus",
        ),
        (
            &[("LOCAL_WORLD_SIZE", "8"), ("WORLD_SIZE", "4")],
            "failing RankOutOfRange",
        ),
        (
            &[("NODE_RANK", "2"), ("NNODES", "2")],
            "failing RankOutOfRange",
        ),
        (&[("NODE_RANK", "2"), ("NNODES", "2:4")], "ok"),
        (
            &[("OMPI_COMM_WORLD_RANK", "4"), ("OMPI_COMM_WORLD_SIZE", "4")],
            "failing RankOutOfRange",
        ),
        (&[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")], "ok"),
        (
            &[("LWS_WORKER_INDEX", "2"), ("LWS_GROUP_SIZE", "2")],
            "failing RankOutOfRange",
        ),
        (
            &[("RANK", "99999999999999999999999")],
            "failing RankNotANumber",
        ),
    ] {
        assert_eq!(told(&only(variables), "ranks"), want, "{variables:?}");
    }
    // One GPU for each process, which sees no other.
    for (variables, gpus, want) in [
        (&[("SLURM_LOCALID", "3")][..], 1, "ok"),
        (&[("OMPI_COMM_WORLD_LOCAL_RANK", "3")], 1, "ok"),
        (&[("LOCAL_RANK", "3"), ("LOCAL_WORLD_SIZE", "8")], 1, "ok"),
        (&[("SLURM_LOCALID", "3")], 2, "failing MoreRanksThanGpus"),
        (&[("LOCAL_WORLD_SIZE", "8")], 1, "failing MoreRanksThanGpus"),
    ] {
        let mut facts = only(variables);
        facts.gpus = Reading::Value(gpus);
        assert_eq!(told(&facts, "ranks"), want, "{variables:?} {gpus}");
    }
    let mut facts = only(&[("LOCAL_RANK", "8")]);
    facts.gpus = Reading::Value(0);
    assert_eq!(
        told(&facts, "ranks"),
        "ok",
        "without GPUs there is nothing to compare with"
    );
}

#[test]
fn who_is_asked() {
    for (variables, want) in [
        (&[][..], None),
        (&[("MASTER_ADDR", "")], None),
        (&[("MASTER_ADDR", "a")], Some(("a", None))),
        (
            &[("MASTER_ADDR", "a"), ("MASTER_PORT", "29500")],
            Some(("a", Some(29500))),
        ),
        // Rank 0 listens itself.
        (
            &[
                ("MASTER_ADDR", "a"),
                ("MASTER_PORT", "29500"),
                ("RANK", "0"),
            ],
            Some(("a", None)),
        ),
        (
            &[
                ("PET_MASTER_ADDR", "a"),
                ("PET_MASTER_PORT", "1"),
                ("PET_NODE_RANK", "1"),
            ],
            Some(("a", Some(1))),
        ),
        (
            &[("MASTER_ADDR", "a"), ("MASTER_PORT", "0")],
            Some(("a", None)),
        ),
        (
            &[("MASTER_ADDR", "a"), ("MASTER_PORT", "x")],
            Some(("a", None)),
        ),
    ] {
        let facts = only(variables);
        assert_eq!(master_to_ask(&facts.environment), want, "{variables:?}");
    }
}

#[test]
fn what_the_master_answers() {
    let far: &[&str] = &["10.7.7.7"];
    let own: &[&str] = &["10.0.0.5"];
    let local: &[&str] = &["127.0.0.1"];
    let failed = || Connection::Failed("no route to host".into());
    for (rank, port, addresses, connection, want) in [
        ("1", "29500", far, Connection::Connected, "ok"),
        (
            "1",
            "29500",
            far,
            Connection::Refused,
            "skipped MasterNotListening",
        ),
        (
            "1",
            "29500",
            far,
            Connection::TimedOut,
            "degraded MasterSilent",
        ),
        ("1", "29500", far, failed(), "degraded MasterUnreachable"),
        ("1", "29500", far, Connection::NotTried, "ok"),
        ("0", "29500", own, Connection::NotTried, "ok"),
        ("0", "29500", far, Connection::NotTried, "ok"),
        (
            "1",
            "29500",
            local,
            Connection::Refused,
            "failing MasterIsLoopback",
        ),
        ("0", "29500", local, Connection::NotTried, "ok"),
        ("1", "0", far, Connection::NotTried, "failing MasterPort"),
        (
            "1",
            "70000",
            far,
            Connection::NotTried,
            "failing MasterPort",
        ),
        ("1", "http", far, Connection::NotTried, "failing MasterPort"),
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
            told(&facts, "master"),
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
            connection: Connection::Refused,
        };
        assert_eq!(told(&facts, "master"), want, "{variables:?}");
    }
}

#[test]
fn names_without_an_address() {
    let mut facts = only(&[("MASTER_ADDR", "train-0"), ("RANK", "1")]);
    facts.master.addresses = fault(FaultKind::Other);
    assert_eq!(told(&facts, "master"), "degraded MasterUnresolvable");
    facts.master.addresses = fault(FaultKind::Stalled);
    assert_eq!(told(&facts, "master"), "degraded MasterUnresolvable");
    facts.master.addresses = Reading::NotObservable;
    assert_eq!(told(&facts, "master"), "unknown MasterUnresolvable");
    facts.master.addresses = Reading::Absent;
    assert_eq!(told(&facts, "master"), "skipped");
    assert_eq!(told(&only(&[]), "master"), "skipped");
    let facts = only(&[("MASTER_ADDR", ""), ("MASTER_PORT", "1")]);
    assert_eq!(told(&facts, "master"), "failing MasterUnset");
}

#[test]
fn torchrun_s_own_variables() {
    for (variables, want) in [
        (&[("PET_NNODES", "2"), ("PET_NODE_RANK", "1")][..], "ok"),
        (
            &[("PET_NNODES", "2"), ("PET_NODE_RANK", "7")],
            "failing RankOutOfRange",
        ),
        (&[("PET_NNODES", "2:8"), ("PET_NODE_RANK", "7")], "ok"),
        (
            &[("PET_NNODES", "2:8"), ("PET_NODE_RANK", "8")],
            "failing RankOutOfRange",
        ),
        (
            &[("NNODES", "1:4"), ("NODE_RANK", "4")],
            "failing RankOutOfRange",
        ),
        (&[("PET_NNODES", "8:2")], "failing RankNotANumber"),
        (&[("PET_NNODES", "x:2")], "failing RankNotANumber"),
        (&[("PET_NPROC_PER_NODE", "16")], "failing MoreRanksThanGpus"),
        (&[("PET_NPROC_PER_NODE", "8")], "ok"),
        (&[("PET_NPROC_PER_NODE", "gpu")], "ok"),
        (&[("PET_NPROC_PER_NODE", "many")], "failing RankNotANumber"),
    ] {
        assert_eq!(told(&with(variables), "ranks"), want, "{variables:?}");
    }
}

#[test]
fn an_empty_master_of_several_nodes() {
    assert_eq!(
        told(&with(&[("MASTER_ADDR", "")]), "master"),
        "failing MasterUnset"
    );
    let one = with(&[("MASTER_ADDR", ""), ("WORLD_SIZE", "8")]);
    assert_eq!(told(&one, "master"), "skipped");
    assert_eq!(told(&good(), "master"), "skipped");
}
