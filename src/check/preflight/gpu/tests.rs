use super::super::testing::*;
use crate::observe::{FaultKind, Module, NvidiaFs, Reading};

#[test]
fn nics_and_gpu_memory() {
    assert_eq!(verdict(&good(), "gpudirect"), "ok");
    for (variables, want) in [
        (&[("NCCL_NET_GDR_LEVEL", "LOC")][..], "degraded GdrDisabled"),
        (&[("NCCL_NET_GDR_LEVEL", "0")], "degraded GdrDisabled"),
        (&[("NCCL_NET_GDR_LEVEL", "SYS")], "ok"),
        (&[("NCCL_DMABUF_ENABLE", "0")], "degraded GdrDisabled"),
    ] {
        assert_eq!(
            verdict(&with(variables), "gpudirect"),
            want,
            "{variables:?}"
        );
    }
    let mut facts = good();
    if let Reading::Value(driver) = &mut facts.gpudirect.driver {
        driver.open = Some(false);
    }
    assert_eq!(verdict(&facts, "gpudirect"), "degraded NoGpuDirect");
    // On one node no NIC has a part in it.
    let world = facts
        .environment
        .variables
        .insert("WORLD_SIZE".into(), "8".into());
    assert_eq!(verdict(&facts, "gpudirect"), "skipped");
    set(&mut facts, &[("WORLD_SIZE", world.as_deref().unwrap())]);
    if let Reading::Value(modules) = &mut facts.gpudirect.modules {
        modules.insert("nvidia_peermem".into(), Module::default());
    }
    assert_eq!(verdict(&facts, "gpudirect"), "ok");
    facts.gpudirect.driver = Reading::Absent;
    facts.gpudirect.modules = fault(FaultKind::Denied);
    assert_eq!(verdict(&facts, "gpudirect"), "unknown GpuDirectUnreadable");
    facts.gpus = Reading::Value(0);
    assert_eq!(verdict(&facts, "gpudirect"), "skipped");
    facts.gpus = Reading::Absent;
    assert_eq!(verdict(&facts, "gpudirect"), "skipped");
    let mut facts = good();
    facts.rdma = Reading::Value(Vec::new());
    assert_eq!(verdict(&facts, "gpudirect"), "skipped");
}

#[test]
fn storage() {
    let asked = [("CUFILE_ENV_PATH_JSON", "/etc/cufile.json")];
    let file = |compat: Option<bool>| Reading::Value(compat.unwrap_or(true));
    let loaded = Reading::Value(NvidiaFs::default());
    for (cufile, module, nodes, want) in [
        (file(Some(false)), loaded.clone(), Reading::Value(16), "ok"),
        (
            file(None),
            Reading::Absent,
            Reading::Value(16),
            "degraded GdsMissing",
        ),
        (
            file(Some(true)),
            Reading::Absent,
            Reading::Absent,
            "degraded GdsMissing",
        ),
        (
            file(Some(false)),
            Reading::Absent,
            Reading::Absent,
            "failing GdsMissing",
        ),
        (
            file(None),
            loaded.clone(),
            Reading::Value(0),
            "degraded GdsMissing",
        ),
        (
            file(Some(false)),
            loaded.clone(),
            Reading::Absent,
            "failing GdsMissing",
        ),
        (
            Reading::Absent,
            loaded.clone(),
            Reading::Value(16),
            "degraded CufileMissing",
        ),
        (
            fault(FaultKind::Malformed),
            loaded,
            Reading::Value(16),
            "failing CufileBroken",
        ),
    ] {
        let mut facts = with(&asked);
        facts.storage.compat_mode = cufile.clone();
        facts.storage.nodes = nodes;
        facts.gpudirect.nvidia_fs = module;
        assert_eq!(verdict(&facts, "gds"), want, "{cufile:?}");
    }
    // Another image than the one that has the file.
    let mut facts = with(&asked);
    facts.storage.compat_mode = Reading::Absent;
    facts.has_loader = false;
    assert_eq!(verdict(&facts, "gds"), "skipped");
    // A file without a setting asks for nothing.
    let mut facts = good();
    facts.storage.compat_mode = file(Some(false));
    assert_eq!(verdict(&facts, "gds"), "skipped");
    set(&mut facts, &[("NVIDIA_GDS", "enabled")]);
    assert_eq!(verdict(&facts, "gds"), "failing GdsMissing");
    facts.gpudirect.modules = fault(FaultKind::Denied);
    facts.storage.nodes = Reading::Value(16);
    assert_eq!(verdict(&facts, "gds"), "unknown GdsUnreadable");
}
