use super::*;
use crate::check::profile::{self, PlatformSettings, ProfileSource};
use crate::check::roles::RoleOverrides;
use crate::check::testing::{Node, device, gpu, nic};
use crate::observe::{BareNic, Distance, LinkLayer, Offered, PciFacts, SriovFacts};

type Offers<'a> = &'a [(&'a str, u64, u64)];

fn offer(resources: Offers<'_>) -> NodeResources {
    let offered = |(name, allocatable, capacity): &(&str, u64, u64)| {
        let offered = Offered {
            allocatable: Some(*allocatable),
            capacity: Some(*capacity),
            had: 0,
        };
        ((*name).to_string(), offered)
    };
    NodeResources {
        instance_type: None,
        resources: resources.iter().map(offered).collect(),
    }
}

/// Eight GPUs and as many EFA devices.
fn efa(count: usize) -> Node {
    let mut node = Node::roce();
    node.devices = (0..count)
        .map(|i| {
            let mut efa = device(i, LinkLayer::Unspecified);
            efa.driver = "efa".into();
            efa
        })
        .collect();
    for i in 0..count {
        node.set_role(i, crate::check::roles::Role::Rail);
    }
    for i in count..8 {
        node.roles.remove(&crate::check::testing::key(i));
    }
    node
}

fn judged(
    mut node: Node,
    word: &str,
    resource: &str,
    resources: Option<Offers<'_>>,
) -> Vec<String> {
    node.tick(1);
    node.offer = resources.map(offer);
    let settings = PlatformSettings {
        profile: word.into(),
        resource: resource.into(),
    };
    let roles = (&node.roles, &RoleOverrides::default());
    node.profile = profile::find(&settings, node.offer.as_ref(), &node.snapshot, roles);
    let mut told = node.told(&CHECK);
    for line in &mut told {
        *line = line.replace(" Degraded", "");
    }
    told
}

fn pci_of(node: &Node) -> PciFacts {
    node.snapshot.pci.as_ref().unwrap().value.clone()
}

const EFA: &str = "vpc.amazonaws.com/efa";
const GPU: &str = "nvidia.com/gpu";

#[test]
fn efa_offered_and_present() {
    for (devices, word, resources, want) in [
        (
            32,
            "p5.48xlarge",
            Some(&[(GPU, 8, 8), (EFA, 32, 32)][..]),
            None,
        ),
        // Without an API server nothing is promised.
        (32, "p5.48xlarge", None, None),
        (
            32,
            "auto",
            Some(&[(GPU, 8, 8), (EFA, 31, 32)]),
            Some("ResourceFewerThanDevices Notice"),
        ),
        (
            32,
            "p5.48xlarge",
            Some(&[(GPU, 8, 8), (EFA, 31, 32)]),
            Some("ResourceFewerThanDevices Verdict"),
        ),
        // The plugin went away: at once no more allocatable, minutes later no capacity.
        (
            32,
            "auto",
            Some(&[(GPU, 8, 8), (EFA, 0, 32)]),
            Some("ResourceFewerThanDevices Verdict"),
        ),
        (
            32,
            "auto",
            Some(&[(GPU, 8, 8), (EFA, 0, 0)]),
            Some("ResourceMissing Notice"),
        ),
        // The DRA driver publishes slices and no resource; a name that is left says no more.
        (
            32,
            "p5.48xlarge",
            Some(&[(GPU, 8, 8)]),
            Some("ResourceMissing Notice"),
        ),
        (
            32,
            "p5.48xlarge",
            Some(&[(EFA, 0, 0)]),
            Some("ResourceFewerThanDevices Notice"),
        ),
        (
            31,
            "auto",
            Some(&[(GPU, 8, 8), (EFA, 32, 32)]),
            Some("ResourceMoreThanDevices Verdict"),
        ),
        (
            0,
            "auto",
            Some(&[(GPU, 8, 8), (EFA, 32, 32)]),
            Some("ResourceMoreThanDevices Verdict"),
        ),
        // A node without GPUs to give, and one without rails, have nothing to join.
        (32, "auto", Some(&[]), None),
        (0, "auto", Some(&[(GPU, 8, 8)]), None),
        // More functions than the plugin offers, as the platform keeps some: no fault for sure.
        (
            17,
            "p6e-gb200.36xlarge",
            Some(&[(GPU, 8, 8), (EFA, 16, 16)]),
            Some("ResourceFewerThanDevices Notice"),
        ),
    ] {
        let told = judged(efa(devices), word, "", resources);
        let got: Vec<&str> = told
            .iter()
            .map(|line| line.split_once(' ').unwrap().1)
            .collect();
        let want: Vec<&str> = want.into_iter().collect();
        assert_eq!(got, want, "{devices} {word} {resources:?}");
    }
}

#[test]
fn a_resource_that_is_not_there_at_all() {
    let roce = Node::roce;
    for (word, resource, resources, want) in [
        (
            "auto",
            "",
            &[(GPU, 8, 8)][..],
            &["rdma ResourceMissing Notice"][..],
        ),
        (
            "auto",
            "",
            &[("nvidia.com/mig-1g.10gb", 56, 56)],
            &["rdma ResourceMissing Notice"],
        ),
        // What the operator names is wanted, whatever else there is.
        (
            "auto",
            "nvidia.com/mlnxnics",
            &[(GPU, 8, 8), ("rdma/ib", 8, 8)],
            &["nvidia.com/mlnxnics ResourceMissing Verdict"],
        ),
        ("auto", "rdma/ib", &[(GPU, 8, 8), ("rdma/ib", 8, 8)], &[]),
        (
            "auto",
            EFA,
            &[(GPU, 8, 8)],
            &["vpc.amazonaws.com/efa ResourceMissing Verdict"],
        ),
        ("auto", "", &[(GPU, 8, 8), ("rdma/ib", 8, 8)], &[]),
        (
            "auto",
            "",
            &[(GPU, 8, 8), ("rdma/hca_shared_devices_a", 1000, 1000)],
            &[],
        ),
        (
            "auto",
            "",
            &[(GPU, 8, 8), ("example.com/rdma", 1, 1)],
            &["example.com/rdma ResourceFewerThanDevices Notice"],
        ),
        // On GKE they come as networks or claims.
        ("a3-ultragpu-8g", "", &[(GPU, 8, 8)], &[]),
        ("auto", "", &[], &[]),
    ] {
        assert_eq!(
            judged(roce(), word, resource, Some(resources)),
            want,
            "{word} {resources:?}"
        );
    }
}

#[test]
fn slots_are_no_nics() {
    let shared = "rdma/hca_shared_devices_a";
    for (name, allocatable, capacity, want) in [
        (shared, 1000, 1000, None),
        (shared, 63, 63, None),
        (shared, 1, 1, None),
        ("rdma/x", 33, 33, None),
        ("rdma/x", 8, 8, None),
        ("rdma/x", 32, 32, Some("ResourceRatio Notice")),
        ("rdma/x", 7, 8, Some("ResourceFewerThanDevices Notice")),
        ("rdma/x", 0, 8, Some("ResourceFewerThanDevices Verdict")),
        (shared, 0, 1000, Some("ResourceFewerThanDevices Verdict")),
    ] {
        let mut node = Node::roce();
        let mut pci = pci_of(&node);
        with_vfs(&mut pci, 3, "mlx5_core");
        node.set_pci(pci);
        let resources: Offers<'_> = &[(GPU, 8, 8), (name, allocatable, capacity)];
        let told = judged(node, "auto", "", Some(resources));
        let got = told.first().map(|line| line.split_once(' ').unwrap().1);
        assert_eq!(
            (got, told.len()),
            (want, usize::from(want.is_some())),
            "{name} {allocatable}"
        );
    }
    // Without virtual functions sixteen slots on eight NICs are still no sixteen NICs.
    let resources: Offers<'_> = &[(GPU, 8, 8), ("rdma/roce", 16, 16)];
    assert_eq!(
        judged(Node::roce(), "auto", "", Some(resources)),
        ["rdma/roce ResourceMoreThanDevices Notice"]
    );
    // Slots of nothing.
    let mut node = Node::roce();
    node.devices.clear();
    node.roles.clear();
    let resources: Offers<'_> = &[(GPU, 8, 8), (shared, 1000, 1000)];
    assert_eq!(
        judged(node, "auto", "", Some(resources)),
        [format!("{shared} ResourceMoreThanDevices Verdict")]
    );
}

/// So many VFs of each rail, bound to a driver.
fn with_vfs(pci: &mut PciFacts, each: u32, driver: &str) {
    for i in 0..8 {
        let functions = (0..each).map(|n| {
            let address = nic(i).replace(".0", &format!(".{}", n + 1));
            (address, Some(driver.to_string()))
        });
        let facts = SriovFacts {
            total: 16,
            enabled: each,
            functions: functions.collect(),
        };
        pci.sriov.insert(nic(i), facts);
    }
}

#[test]
fn pools_of_virtual_functions() {
    for (name, offered, vfs, driver, want) in [
        ("openshift.io/mlx5rdma", 8, 1, "mlx5_core", &[][..]),
        (
            "openshift.io/mlx5rdma",
            8,
            0,
            "",
            &["ResourceMoreThanDevices Verdict"],
        ),
        (
            "openshift.io/mlx5rdma",
            9,
            1,
            "mlx5_core",
            &["ResourceMoreThanDevices Verdict"],
        ),
        (
            "openshift.io/mlx5rdma",
            8,
            1,
            "vfio-pci",
            &["VfsWithoutVerbs Verdict"],
        ),
        ("openshift.io/dpdk", 8, 1, "vfio-pci", &[]),
        (
            "nvidia.com/rdma-vf",
            8,
            1,
            "vfio-pci",
            &["VfsWithoutVerbs Verdict"],
        ),
        (
            "nvidia.com/rdma-vf",
            16,
            2,
            "mlx5_core",
            &["ResourceRatio Notice"],
        ),
        // Whole NICs.
        ("nvidia.com/hostdev", 8, 0, "", &[]),
        (
            "nvidia.com/hostdev",
            9,
            0,
            "",
            &["ResourceMoreThanDevices Verdict"],
        ),
        (
            "nvidia.com/mlnxnics",
            6,
            1,
            "mlx5_core",
            &["ResourceFewerThanDevices Notice"],
        ),
        // What it stands for is not known.
        ("nvidia.com/something", 24, 0, "", &[]),
    ] {
        let mut node = Node::roce();
        let mut pci = pci_of(&node);
        with_vfs(&mut pci, vfs, driver);
        node.set_pci(pci.clone());
        let resources: Offers<'_> = &[(GPU, 8, 8), (name, offered, offered)];
        let told = judged(node.clone(), "auto", "", Some(resources));
        let got: Vec<&str> = told
            .iter()
            .map(|line| line.split_once(' ').unwrap().1)
            .collect();
        assert_eq!(got, want, "{name} {offered} {vfs} {driver}");

        // In a guest nothing is known of the physical functions, and where pods hold devices in
        // namespaces of their own they cannot be counted.
        pci.virtual_machine = true;
        pci.sriov.clear();
        node.set_pci(pci);
        assert_eq!(
            judged(node.clone(), "auto", "", Some(resources)),
            [""; 0],
            "{name}"
        );
    }
}

#[test]
fn devices_in_pods_namespaces_cannot_be_counted() {
    let mut node = efa(16);
    node.snapshot.netns_exclusive = Some(true);
    let resources: Offers<'_> = &[(GPU, 8, 8), (EFA, 32, 32)];
    assert_eq!(judged(node, "p5.48xlarge", "", Some(resources)), [""; 0]);
}

#[test]
fn gpus_offered_and_present() {
    for (resources, want) in [
        (&[(GPU, 8, 8)][..], false),
        (&[(GPU, 7, 8)], true),
        (&[(GPU, 9, 9)], true),
        (&[(GPU, 0, 8)], true),
        // Time slicing, under the same name or another; MIG next to whole GPUs.
        (&[(GPU, 32, 32)], false),
        (&[("nvidia.com/gpu.shared", 32, 32)], false),
        (&[(GPU, 7, 7), ("nvidia.com/mig-1g.10gb", 7, 7)], false),
        (&[("amd.com/gpu", 7, 8)], true),
    ] {
        let mut resources = resources.to_vec();
        resources.push(("rdma/hca_shared_devices_a", 1000, 1000));
        let told = judged(Node::roce(), "auto", "", Some(&resources));
        let found = told
            .iter()
            .any(|line| line.contains("GpuResourceMismatch Notice"));
        assert_eq!(
            (found, told.len()),
            (want, usize::from(want)),
            "{resources:?} {told:?}"
        );
    }
    // Those that went to virtual machines do not count here.
    let mut node = Node::roce();
    node.bend_pci(&gpu(7), |function| {
        function.driver = Some("vfio-pci".into())
    });
    let resources: Offers<'_> = &[(GPU, 7, 7), ("rdma/shared_ib", 63, 63)];
    assert_eq!(judged(node, "auto", "", Some(resources)), [""; 0]);
}

#[test]
fn a_table_never_fails_a_node() {
    let with = |rails: usize| {
        let mut node = Node::roce();
        for i in rails..8 {
            node.roles.remove(&crate::check::testing::key(i));
        }
        node.devices.truncate(rails);
        node
    };
    for (rails, word, want) in [
        (8, "Standard_ND96isr_H100_v5", None),
        (
            7,
            "Standard_ND96isr_H100_v5",
            Some("FewerDevicesThanPromised Verdict"),
        ),
        (7, "BM.GPU.H100.8", Some("FewerDevicesThanPromised Verdict")),
        // None at all is not part of a fabric.
        (
            0,
            "Standard_ND96isr_H100_v5",
            Some("FewerDevicesThanPromised Unknown Verdict"),
        ),
        (8, "p5.48xlarge", Some("FewerDevicesThanPromised Notice")),
        (8, "p4d.24xlarge", None),
        // Not confirmed, not known, none expected: nothing.
        (8, "BM.GPU.B300.8", None),
        (0, "auto", None),
        (8, "Standard_ND96is_H100_v5", None),
        (2, "none", None),
    ] {
        let told = judged(with(rails), word, "", None);
        let got = told.first().map(|line| line.split_once(' ').unwrap().1);
        assert_eq!(
            (got, told.len()),
            (want, usize::from(want.is_some())),
            "{rails} {word}"
        );
    }
    for shape in profile::shapes() {
        let mut node = with(1);
        node.profile.shape = Some(shape);
        node.profile.source = ProfileSource::InstanceType;
        node.offer = Some(offer(&[(GPU, 8, 8), (EFA, 1, 1)]));
        for found in node.run(&CHECK) {
            assert!(
                found.status <= Status::Degraded,
                "{}: {found:?}",
                shape.name
            );
            assert!(found.timing.raise_after.as_secs() >= 300);
        }
    }
}

#[test]
fn what_else_says_fewer_silences_the_table() {
    type Bend = fn(&mut Node);
    let cases: &[(&str, Bend)] = &[
        ("a number is expected", |node| {
            node.policy.expect.rails = Some(4)
        }),
        ("a share of a machine has fewer GPUs, too", |node| {
            let mut pci = pci_of(node);
            pci.virtual_machine = true;
            pci.gpus.truncate(4);
            node.set_pci(pci);
        }),
        ("NICs without a driver are named", |node| {
            let mut pci = pci_of(node);
            for i in 4..8 {
                let without = crate::observe::BareNic {
                    id: "15b3:1021".into(),
                    distances: [(gpu(i), Distance::Pix)].into(),
                    ..Default::default()
                };
                pci.bare.insert(nic(i), without);
            }
            node.history = Default::default();
            node.set_pci(pci);
        }),
        ("virtual machines have NICs", |node| {
            let mut pci = pci_of(node);
            let given = crate::observe::BareNic {
                driver: Some("vfio-pci".into()),
                ..Default::default()
            };
            for i in 4..8 {
                pci.bare.insert(nic(i), given.clone());
            }
            node.set_pci(pci);
        }),
        ("pods hold rails", |node| {
            node.snapshot.netns_exclusive = Some(true)
        }),
        ("nothing was enumerated", |node| {
            node.snapshot.devices = None
        }),
        ("patterns say what rails are", |node| {
            node.profile.roles_set = true
        }),
    ];
    for (case, bend) in cases {
        let mut node = Node::roce();
        for i in 4..8 {
            node.roles.remove(&crate::check::testing::key(i));
        }
        node.devices.truncate(4);
        node.tick(1);
        node.profile.shape = profile::by_type("a4-highgpu-8g");
        node.profile.source = ProfileSource::InstanceType;
        node.profile.rails = 4;
        assert_eq!(node.run(&CHECK).len(), 1, "{case}: before");
        bend(&mut node);
        assert_eq!(node.run(&CHECK), [], "{case}");
    }
}

#[test]
fn a_dgx_without_a_single_nic_on_its_bus() {
    for (word, guest, bare, want) in [
        ("DGXH100", false, false, Some(Status::Failing)),
        ("DGXH100", true, false, Some(Status::Unknown)),
        ("DGXH100", false, true, Some(Status::Unknown)),
        ("BM.GPU.H200.8", false, false, Some(Status::Unknown)),
    ] {
        let mut node = Node::infiniband();
        node.devices.clear();
        node.roles.clear();
        node.tick(1);
        let mut pci = pci_of(&node);
        pci.virtual_machine = guest;
        if bare {
            let undriven = BareNic {
                id: "15b3:1021".into(),
                class: "020700".into(),
                ..BareNic::default()
            };
            pci.bare.insert(nic(0), undriven);
        }
        node.set_pci(pci);
        node.profile.shape = profile::by_type(word);
        node.profile.source = ProfileSource::Dmi;
        let found = node.run(&CHECK);
        assert_eq!(
            found.first().map(|of| of.status),
            want,
            "{word} {guest} {bare}"
        );
    }
}

#[test]
fn storage_ports_are_no_rails_of_a_dgx() {
    for (left, distance, want) in [
        (4, Some(Distance::Phb), Status::Failing),
        (5, Some(Distance::Phb), Status::Degraded),
        (4, Some(Distance::Pxb), Status::Degraded),
        (4, None, Status::Degraded),
    ] {
        let mut node = Node::infiniband();
        node.devices.truncate(left);
        node.roles
            .retain(|port, _| *port < crate::check::testing::key(left));
        node.tick(1);
        let mut pci = pci_of(&node);
        let gpus = |of: Distance| (0..8).map(move |i| (gpu(i), of)).collect();
        // One of unknown make takes no rail's place.
        pci.bare.insert("0000:0b:00.0".into(), BareNic::default());
        pci.distances = (0..left)
            .filter_map(|i| Some((nic(i), gpus(distance?))))
            .collect();
        node.set_pci(pci);
        node.profile.shape = profile::by_type("DGXH100");
        node.profile.source = ProfileSource::Dmi;
        node.profile.rails = left;
        let found = node.run(&CHECK);
        let told = found.first().map(|of| (of.reason, of.status));
        assert_eq!(
            told,
            Some(("FewerDevicesThanPromised", want)),
            "{distance:?}"
        );
    }
}

mod gone;
