use super::super::testing::{Node, gpu, nic};
use super::*;
use crate::observe::{Module, NvidiaDriver};

fn none(node: &mut Node) {
    node.bend_gpudirect(|facts| {
        facts.driver = Reading::Value(NvidiaDriver {
            version: "535.129.03".into(),
            open: Some(false),
        });
    });
}

#[test]
fn well_or_not_wanted() {
    let mut off = Node::infiniband();
    none(&mut off);
    off.policy.expect.gpudirect = GpuDirectExpectation::Off;
    let mut no_gpu = Node::infiniband();
    none(&mut no_gpu);
    no_gpu.set_pci(Default::default());
    let mut no_rail = Node::infiniband();
    none(&mut no_rail);
    no_rail.roles.clear();
    for node in [Node::infiniband(), Node::empty(), off, no_gpu, no_rail] {
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }
}

#[test]
fn path_missing() {
    let mut node = Node::infiniband();
    none(&mut node);
    assert_eq!(
        node.told(&CHECK),
        ["path GpuDirectPathMissing Degraded Verdict"]
    );
    let mut required = Node::empty();
    required.policy.expect.gpudirect = GpuDirectExpectation::Required;
    assert_eq!(
        required.told(&CHECK),
        ["path GpuDirectPathMissing Degraded Verdict"]
    );
}

#[test]
fn unread_is_unknown_and_counts_only_where_required() {
    let mut node = Node::infiniband();
    node.snapshot.gpudirect = None;
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    node.policy.expect.gpudirect = GpuDirectExpectation::Required;
    assert_eq!(node.told(&CHECK), ["path GpuDirectUnknown Unknown Verdict"]);
}

#[test]
fn lost_client_with_dmabuf_is_a_notice() {
    let mut node = Node::infiniband();
    node.bend_gpudirect(|facts| {
        facts.modules = Reading::Value([("nvidia_peermem".to_string(), Module::default())].into());
        facts.memory_peers = Reading::Value(Vec::new());
    });
    assert_eq!(
        node.told(&CHECK),
        ["peermem PeermemNotRegistered Degraded Notice"]
    );
}

#[test]
fn driver_absent_on_a_node_with_gpus() {
    let mut node = Node::infiniband();
    node.bend_gpudirect(|facts| facts.driver = Reading::Absent);
    node.bend_pci(&gpu(0), |function| function.id = "10de:2330".into());
    assert_eq!(
        node.told(&CHECK),
        ["driver GpuDriverAbsent Unknown Verdict"]
    );
    // Given to a virtual machine.
    node.bend_pci(&gpu(0), |function| {
        function.driver = Some("vfio-pci".into());
    });
    assert_eq!(node.told(&CHECK), [""; 0]);
}

#[test]
fn a_driver_that_has_none_of_the_gpus() {
    let absent = ["driver GpuDriverAbsent Unknown Verdict"];
    for (id, class, driver, want) in [
        ("10de:2330", "030200", None, &absent[..]),
        ("10de:2330", "030200", Some("nouveau"), &absent),
        ("10de:2330", "030200", Some("nvidia"), &[]),
        ("1002:74a1", "120000", None, &absent),
        ("1002:74a1", "120000", Some("amdgpu"), &[]),
        ("1002:164e", "030000", None, &[]),
    ] {
        let mut node = Node::infiniband();
        node.policy.expect.gpudirect = GpuDirectExpectation::Auto;
        for i in 0..8 {
            node.bend_pci(&gpu(i), |function| {
                (function.id, function.class) = (id.into(), class.into());
                function.driver = driver.map(str::to_string);
            });
        }
        let told = node.told(&CHECK);
        let told: Vec<_> = told.iter().filter(|told| told.contains("Driver")).collect();
        assert_eq!(told, want.iter().collect::<Vec<_>>(), "{id} {driver:?}");
    }
}

#[test]
fn the_modules_own_words() {
    use crate::observe::{KernelEvent, KernelEventKind, Note};
    for (note, want) in [
        (Note::Peermem, "peermem PeermemError Degraded Notice"),
        (Note::DmabufRefused, "dmabuf DmabufRefused Degraded Notice"),
    ] {
        let mut node = Node::infiniband();
        let event = KernelEvent::new(KernelEventKind::Note(note), "detected invalid context");
        node.history.push_event(node.now, false, &event);
        assert_eq!(node.told(&CHECK), [want]);
        node.tick(601);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }
}

#[test]
fn iommu_and_acs() {
    let mut node = Node::infiniband();
    node.bend_pci(&nic(2), |f| f.iommu = Reading::Value("DMA-FQ".into()));
    node.bend_pci(&gpu(2), |f| f.iommu = Reading::Value("identity".into()));
    node.bend_pci(&gpu(1), |f| f.parent = Some("0000:70:01.0".into()));
    node.bend_pci("0000:70:01.0", |f| f.acs_redirect = Reading::Value(true));
    node.bend_pci("0000:71:01.0", |f| f.acs_redirect = Reading::Value(true));
    assert_eq!(
        node.told(&CHECK),
        [
            "iommu IommuTranslates Degraded Notice",
            "acs AcsRedirects Degraded Notice"
        ]
    );
    assert_eq!(node.run(&CHECK)[1].evidence["bridges"], 1);
    node.bend_gpudirect(|facts| facts.arch = Some("aarch64".into()));
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}

#[test]
fn of_others_gpus_nothing_is_known() {
    let mut node = Node::roce();
    for i in 0..8 {
        node.bend_pci(&gpu(i), |function| function.id = "1002:74a1".into());
    }
    node.bend_gpudirect(|facts| facts.driver = Reading::Absent);
    let path = |node: &Node| node.context().gpudirect_verdict.path;
    assert_eq!(path(&node), Path::Unknown);
    assert_eq!(node.told(&CHECK), [""; 0]);
    node.policy.expect.gpudirect = GpuDirectExpectation::Required;
    let told = ["path GpuDirectUnknown Unknown Verdict"];
    assert_eq!(node.told(&CHECK), told, "rather than missing");
    node.bend_pci(&gpu(0), |function| function.id = "10de:2330".into());
    assert_eq!(path(&node), Path::None);
}
