use super::super::testing::*;
use crate::observe::Reading;

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
        assert_eq!(verdict(&only(variables), "ranks"), want, "{variables:?}");
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
        assert_eq!(verdict(&facts, "ranks"), want, "{variables:?} {gpus}");
    }
    let mut facts = only(&[("LOCAL_RANK", "8")]);
    facts.gpus = Reading::Value(0);
    assert_eq!(
        verdict(&facts, "ranks"),
        "ok",
        "without GPUs there is nothing to compare with"
    );
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
        assert_eq!(verdict(&with(variables), "ranks"), want, "{variables:?}");
    }
}
