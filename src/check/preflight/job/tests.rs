use super::super::testing::*;
use super::*;
use crate::observe::Reading;

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
