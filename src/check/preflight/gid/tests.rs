use super::super::testing::*;
use super::*;
use crate::observe::ContainerFacts;

const ID: &str = "gid_index";
const V6: &str = "2001:0db8:0000:0000:0000:0000:0000:0001";
const OTHER: &str = "0000:0000:0000:0000:0000:ffff:0a0a:0001";

fn table(gids: Vec<Gid>, complete: bool) -> GidTable {
    GidTable { gids, complete }
}

fn with_table(facts: &mut ContainerFacts, gids: GidTable) {
    for device in devices(facts) {
        device.ports[0].gids = Reading::Value(gids.clone());
    }
}

#[test]
fn what_nccl_chooses() {
    use GidKind::{IbOrRoceV1 as V1, RoceV2 as V2};
    for (gids, v6, version, want) in [
        (gids().gids, false, 2, 3),
        (gids().gids, false, 1, 2),
        // An address put on later: of two that will do, the first stays.
        (
            vec![
                gid(0, LOCAL, V1),
                gid(1, LOCAL, V2),
                gid(3, V4, V2),
                gid(5, OTHER, V2),
            ],
            false,
            2,
            3,
        ),
        // No IPv4 address: slot 0 stays, whatever it is.
        (vec![gid(0, LOCAL, V1), gid(1, LOCAL, V2)], false, 2, 0),
        (
            vec![gid(0, LOCAL, V1), gid(1, LOCAL, V2), gid(3, V6, V2)],
            false,
            2,
            0,
        ),
        (
            vec![gid(0, LOCAL, V1), gid(1, LOCAL, V2), gid(3, V6, V2)],
            true,
            2,
            3,
        ),
        // soft RoCE: everything is v2.
        (vec![gid(0, LOCAL, V2), gid(1, V4, V2)], false, 2, 1),
        (vec![gid(0, V4, V2), gid(1, OTHER, V2)], false, 2, 0),
        (vec![], false, 2, 0),
    ] {
        let table = table(gids, true);
        assert_eq!(
            nccl_choice(&table, v6, version, None),
            want,
            "{table:?} {v6}"
        );
    }
}

#[test]
fn a_network_that_nccl_is_kept_to() {
    let two = || {
        let mut gids = gids();
        gids.gids.push(gid(5, OTHER, GidKind::RoceV2));
        gids
    };
    for (range, index, want) in [
        ("10.9.0.0/16", 3, "ok"),
        // The container has the first of two addresses.
        ("10.10.0.0/16", 5, "degraded NoUsableGid"),
        ("10.9.0.1/32", 3, "ok"),
        ("10.8.0.0/15", 3, "ok"),
        // Slot 0 stays.
        ("192.168.0.0/16", 0, "degraded NoUsableGid"),
        // Passed over: no bits, too many of them, no address of the family.
        ("192.168.0.0", 3, "ok"),
        ("192.168.0.0/33", 3, "ok"),
        ("192.168.0.0/0", 3, "ok"),
        ("192.168.0.0/x", 3, "ok"),
        ("2001:db8::/32", 3, "ok"),
        ("rail/16", 3, "ok"),
        ("", 3, "ok"),
        ("/", 3, "ok"),
    ] {
        let mut facts = with(&[("NCCL_IB_ADDR_RANGE", range)]);
        with_table(&mut facts, two());
        let got = item(&facts, ID);
        assert_eq!(got.evidence["index"]["mlx5_0:1"], index, "{range}");
        assert_eq!(verdict(&facts, ID), want, "{range}");
        let named = got.remedy.starts_with("NCCL_IB_ADDR_RANGE");
        assert_eq!(named, index == 0, "{range}: {}", got.remedy);
    }
    let mut facts = with(&[
        ("NCCL_IB_ADDR_RANGE", "2001:db8::/32"),
        ("NCCL_IB_ADDR_FAMILY", "AF_INET6"),
    ]);
    let mut gids = gids();
    gids.gids.push(gid(4, V6, GidKind::RoceV2));
    with_table(&mut facts, gids);
    assert_eq!(item(&facts, ID).evidence["index"]["mlx5_0:1"], 4);
    set(&mut facts, &[("NCCL_IB_ADDR_RANGE", "2001:db9::/32")]);
    assert_eq!(item(&facts, ID).evidence["index"]["mlx5_0:1"], 0);
}

#[test]
fn an_index_that_is_set() {
    for (index, want) in [
        ("3", "ok"),
        ("0x3", "ok"),
        ("0", "degraded GidNotRoceV2"),
        ("2", "degraded GidNotRoceV2"),
        ("1", "degraded GidLinkLocal"),
        ("7", "failing GidEmpty"),
        // Below 0 NCCL chooses; a word is 0.
        ("-1", "ok"),
        ("", "ok"),
        ("three", "degraded GidNotRoceV2"),
        ("99999999999999999999", "ok"),
    ] {
        let facts = with(&[("NCCL_IB_GID_INDEX", index)]);
        assert_eq!(verdict(&facts, ID), want, "{index:?}");
    }
    let facts = with(&[("NCCL_IB_GID_INDEX", "2")]);
    assert!(
        item(&facts, ID)
            .message
            .contains("index 3 is RoCE v2 (10.9.0.1)")
    );
}

#[test]
fn roce_v1_where_it_is_asked_for() {
    let facts = with(&[("NCCL_IB_ROCE_VERSION_NUM", "1")]);
    assert_eq!(verdict(&facts, ID), "ok");
    assert_eq!(item(&facts, ID).evidence["index"]["mlx5_0:1"], 2);
    for (version, want) in [("1", "ok"), ("2", "degraded GidNotRoceV2")] {
        let facts = with(&[
            ("NCCL_IB_GID_INDEX", "0"),
            ("NCCL_IB_ROCE_VERSION_NUM", version),
        ]);
        assert_eq!(verdict(&facts, ID), want, "{version}");
    }
}

#[test]
fn one_bad_port_of_eight_is_named() {
    let mut facts = with(&[("NCCL_IB_GID_INDEX", "3")]);
    devices(&mut facts)[5].ports[0].gids =
        Reading::Value(table(vec![gid(3, V4, GidKind::IbOrRoceV1)], true));
    let item = item(&facts, ID);
    assert_eq!(item.reason, Some("GidNotRoceV2"));
    assert!(item.message.contains("mlx5_5:1:"), "{}", item.message);
}

#[test]
fn an_address_of_somebody_else() {
    let mut facts = with(&[("NCCL_IB_GID_INDEX", "5")]);
    let mut gids = gids();
    gids.gids.push(gid(5, OTHER, GidKind::RoceV2));
    with_table(&mut facts, gids);
    assert_eq!(verdict(&facts, ID), "degraded GidOfAnotherInterface");
    // None of them is this container's: the shared device plugin leaves the interface outside.
    facts.interfaces = Reading::Value(vec![interface("eth0", &["10.244.0.5"])]);
    assert_eq!(verdict(&facts, ID), "ok");
}

#[test]
fn nothing_that_will_do() {
    let only_local = vec![
        gid(0, LOCAL, GidKind::IbOrRoceV1),
        gid(1, LOCAL, GidKind::RoceV2),
    ];
    let mut facts = good();
    with_table(&mut facts, table(only_local.clone(), true));
    assert_eq!(verdict(&facts, ID), "degraded NoUsableGid");
    with_table(&mut facts, table(only_local, false));
    assert_eq!(verdict(&facts, ID), "unknown GidUnreadable");
    with_table(&mut facts, table(Vec::new(), true));
    assert_eq!(verdict(&facts, ID), "failing NoUsableGid");
    for device in devices(&mut facts) {
        device.ports[0].gids = Reading::NotObservable;
    }
    assert_eq!(verdict(&facts, ID), "unknown GidUnreadable");
    let mut facts = with(&[("NCCL_IB_GID_INDEX", "30")]);
    let mut partly = gids();
    partly.complete = false;
    with_table(&mut facts, partly);
    assert_eq!(verdict(&facts, ID), "unknown GidUnreadable");
    for (asked, want) in [
        (Reading::Value(Some(gid(30, V4, GidKind::RoceV2))), "ok"),
        (
            Reading::Value(Some(gid(30, V4, GidKind::IbOrRoceV1))),
            "degraded GidNotRoceV2",
        ),
        (Reading::Value(None), "failing GidEmpty"),
        (Reading::Absent, "failing GidEmpty"),
        (
            fault(crate::observe::FaultKind::Gone),
            "unknown GidUnreadable",
        ),
    ] {
        for device in devices(&mut facts) {
            device.ports[0].asked = asked.clone();
        }
        assert_eq!(verdict(&facts, ID), want, "{asked:?}");
    }
}

#[test]
fn where_it_does_not_matter() {
    for variables in [
        &[("WORLD_SIZE", "8")][..],
        &[("NCCL_NET", "Socket")],
        &[("NCCL_IB_DISABLE", "1")],
    ] {
        let mut facts = with(variables);
        set(&mut facts, &[("NCCL_IB_GID_INDEX", "7")]);
        assert_eq!(verdict(&facts, ID), "skipped", "{variables:?}");
        assert!(item(&facts, ID).message.contains("slot 7 is empty"));
        set(&mut facts, &[("NCCL_IB_GID_INDEX", "3")]);
        assert_eq!(verdict(&facts, ID), "ok", "{variables:?}");
    }
    let mut facts = with(&[("NCCL_IB_GID_INDEX", "0")]);
    facts.rdma = Reading::Value(vec![device("mlx5_0", LinkLayer::Infiniband)]);
    assert_eq!(verdict(&facts, ID), "skipped");
    facts.rdma = Reading::Value(Vec::new());
    assert_eq!(verdict(&facts, ID), "skipped");
}
