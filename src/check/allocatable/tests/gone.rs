//! Plugins that go away, where devices can be counted and where not.

use super::*;

/// A guest has no physical functions to count by: what there was, and what the shape has.
#[test]
fn a_plugin_that_dies_in_a_virtual_machine() {
    let azure = "Standard_ND96isr_H200_v5";
    let fewer = Some("ResourceFewerThanDevices Verdict");
    for (word, name, allocatable, capacity, want) in [
        (azure, "rdma/ib", 8, 8, None),
        (azure, "rdma/ib", 0, 8, fewer),
        ("auto", "rdma/ib", 0, 8, fewer),
        (azure, "rdma/hca_shared_devices_a", 0, 8, fewer),
        (azure, "rdma/shared_ib", 0, 63, fewer),
        ("a3-ultragpu-8g", "rdma/roce", 0, 8, fewer),
        ("auto", "nvidia.com/mlnxnics", 0, 16, fewer),
        // Of others it is unknown that they are for RDMA.
        ("auto", "openshift.io/dpdk", 0, 8, None),
        ("auto", "rdma/ib", 7, 8, None),
        (
            azure,
            "rdma/ib",
            7,
            8,
            Some("ResourceFewerThanDevices Notice"),
        ),
        (
            azure,
            "rdma/ib",
            9,
            9,
            Some("ResourceMoreThanDevices Notice"),
        ),
        (
            azure,
            "rdma/ib",
            16,
            16,
            Some("ResourceMoreThanDevices Notice"),
        ),
        // One pool of two.
        (azure, "rdma/ib_a", 4, 4, None),
        (azure, "rdma/shared_ib", 4, 4, None),
    ] {
        let mut node = Node::roce();
        let mut pci = pci_of(&node);
        pci.virtual_machine = true;
        node.set_pci(pci);
        // The other pool is there, so that nothing is missing.
        let resources: Offers<'_> = &[
            (GPU, 8, 8),
            (name, allocatable, capacity),
            ("rdma/other", 1, 1),
        ];
        let told = judged(node, word, "", Some(resources));
        let got = told.first().map(|line| line.split_once(' ').unwrap().1);
        assert_eq!(
            (got, told.len()),
            (want, usize::from(want.is_some())),
            "{word} {name} {allocatable} of {capacity}"
        );
    }
}

/// After five minutes the kubelet takes the capacity away, too, and leaves the name.
#[test]
fn what_was_offered_before_is_not_forgotten_with_the_capacity() {
    let told = |before: Offers<'_>, now: Offers<'_>| {
        let offered = offer(now).after(Some(&offer(before)));
        let mut node = efa(32);
        node.tick(1);
        node.offer = Some(offered);
        let settings = PlatformSettings::default();
        let roles = (&node.roles, &RoleOverrides::default());
        node.profile = profile::find(&settings, node.offer.as_ref(), &node.snapshot, roles);
        node.told(&CHECK)
    };
    let gone = format!("{EFA} ResourceFewerThanDevices Degraded Verdict");
    let missing = "rdma ResourceMissing Degraded Notice".to_string();
    for (before, now, want) in [
        (&[(EFA, 32, 32)][..], &[(GPU, 8, 8), (EFA, 0, 0)][..], &gone),
        (&[(EFA, 0, 0)], &[(GPU, 8, 8), (EFA, 0, 0)], &missing),
        // Fewer than there were is not held against what there was.
        (&[(EFA, 63, 63)], &[(GPU, 8, 8), (EFA, 0, 32)], &gone),
        // Taking the name off the Node is deliberate.
        (&[(EFA, 32, 32)], &[(GPU, 8, 8)], &missing),
    ] {
        assert_eq!(told(before, now), [want.as_str()], "{before:?} {now:?}");
    }
    // The number is the last that was not 0, over any number of looks.
    let mut seen = offer(&[(EFA, 63, 63)]);
    for (allocatable, capacity, want) in [(0, 63, 63), (8, 8, 8), (0, 8, 8), (0, 0, 8), (0, 0, 8)] {
        seen = offer(&[(EFA, allocatable, capacity)]).after(Some(&seen));
        assert_eq!(seen.resources[EFA].size(), want);
    }
}
