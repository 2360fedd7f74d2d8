use super::super::testing::*;
use crate::observe::{ContainerFacts, LinkLayer, PortState, Reading};
use crate::units::BitsPerSec;

#[test]
fn what_ib_hca_comes_to() {
    let all = "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7";
    for (value, want) in [
        ("mlx5", "ok"),
        (all, "ok"),
        ("=mlx5_0:1", "degraded HcaFewer"),
        ("^mlx5_7", "degraded HcaFewer"),
        ("^mlx4", "ok"),
        ("", "ok"),
        ("mlx5_0,mlx5_9", "degraded HcaPartly"),
        ("mlx5_0, mlx5_1", "degraded HcaPartly"),
        ("mlx5_9", "failing HcaMatchesNothing"),
        ("=mlx5", "failing HcaMatchesNothing"),
        ("==mlx5_0", "failing HcaMatchesNothing"),
        ("mlx5_0:2", "failing HcaMatchesNothing"),
        ("mlx5_*", "failing HcaMatchesNothing"),
        ("^mlx5", "failing HcaMatchesNothing"),
        ("^", "failing HcaMatchesNothing"),
        (" mlx5", "failing HcaMatchesNothing"),
        ("ib0", "failing HcaMatchesNothing"),
    ] {
        let facts = with(&[("NCCL_IB_HCA", value)]);
        assert_eq!(verdict(&facts, "ib_hca"), want, "{value:?}");
    }
    assert_eq!(verdict(&good(), "ib_hca"), "ok");
    // A list that matches nothing does no harm if TCP is configured.
    let facts = with(&[("NCCL_IB_HCA", "x"), ("NCCL_NET", "Socket")]);
    assert_eq!(verdict(&facts, "ib_hca"), "degraded HcaMatchesNothing");
}

#[test]
fn prefixes_that_take_more_than_was_meant() {
    let node = |value: &str| {
        let mut facts = with(&[("NCCL_IB_HCA", value)]);
        let all = (0..16).map(|i| device(&format!("mlx5_{i}"), LinkLayer::Infiniband));
        facts.rdma = Reading::Value(all.collect());
        facts
    };
    let facts = node("mlx5_0,mlx5_1");
    assert_eq!(verdict(&facts, "ib_hca"), "degraded HcaPrefix");
    let item = item(&facts, "ib_hca");
    assert!(item.message.contains("mlx5_10"), "{}", item.message);
    assert!(item.remedy.contains("`=mlx5_0,mlx5_1`"), "{}", item.remedy);
    assert_eq!(
        verdict(&node("=mlx5_0,mlx5_1"), "ib_hca"),
        "degraded HcaFewer"
    );
    assert_eq!(verdict(&node("mlx5"), "ib_hca"), "ok");
    let all: Vec<String> = (0..16).map(|i| format!("mlx5_{i}")).collect();
    assert_eq!(verdict(&node(&all.join(",")), "ib_hca"), "ok");
}

/// Devices by name, link layer and Gb/s.
fn node(value: Option<&str>, ports: &[(&str, LinkLayer, u64)]) -> ContainerFacts {
    let mut facts = good();
    if let Some(value) = value {
        set(&mut facts, &[("NCCL_IB_HCA", value)]);
    }
    let all = ports.iter().map(|(name, layer, gbps)| {
        let mut device = device(name, *layer);
        device.ports[0].rate = Some(BitsPerSec::from_gbps(*gbps));
        device
    });
    facts.rdma = Reading::Value(all.collect());
    facts
}

#[test]
fn front_end_ports_are_no_rails() {
    use LinkLayer::{Ethernet, Infiniband};
    let azure: Vec<(String, LinkLayer, u64)> = (0..8)
        .map(|i| (format!("mlx5_ib{i}"), Infiniband, 400))
        .chain([("mlx5_an0".to_string(), Ethernet, 100)])
        .collect();
    let oci: Vec<(String, LinkLayer, u64)> = (0..18)
        .map(|i| {
            let rate = if i == 2 || i == 11 { 100 } else { 200 };
            (format!("mlx5_{i}"), Ethernet, rate)
        })
        .collect();
    let of = |value: Option<&str>, all: &[(String, LinkLayer, u64)]| {
        let all: Vec<_> = all.iter().map(|(n, l, r)| (n.as_str(), *l, *r)).collect();
        node(value, &all)
    };
    for (all, value, want, fix) in [
        (
            &azure,
            None,
            "degraded HcaMixed",
            "NCCL_IB_HCA: `^=mlx5_an0`",
        ),
        (
            &azure,
            Some("mlx5"),
            "degraded HcaMixed",
            "NCCL_IB_HCA: `^=mlx5_an0`",
        ),
        (&azure, Some("mlx5_ib"), "ok", ""),
        (&azure, Some("^mlx5_an"), "ok", ""),
        (
            &azure,
            Some("mlx5_0"),
            "failing HcaMatchesNothing",
            "NCCL_IB_HCA: `^=mlx5_an0`",
        ),
        // The slow ones are not asked for, and NCCL's search prefers others: a note.
        (&oci, None, "ok", ""),
        (
            &oci,
            Some("mlx5"),
            "degraded HcaMixed",
            "NCCL_IB_HCA: `^=mlx5_2,mlx5_11`",
        ),
        (&oci, Some("^=mlx5_2,mlx5_11"), "ok", ""),
        (
            &oci,
            Some("^=mlx5_2,^=mlx5_11"),
            "degraded HcaPartly",
            "NCCL_IB_HCA: `^=mlx5_2,mlx5_11`",
        ),
        (&oci, Some("^=mlx5_2,mlx5_11,^ens"), "ok", ""),
    ] {
        let facts = of(value, all);
        assert_eq!(verdict(&facts, "ib_hca"), want, "{value:?}");
        let item = item(&facts, "ib_hca");
        assert_eq!(item.remedy, fix, "{value:?}");
        if want.ends_with("HcaMixed") {
            assert!(item.message.contains("100 Gb/s"), "{}", item.message);
            // What is advised is well.
            let value = fix.split('`').nth(1);
            assert_eq!(verdict(&of(value, all), "ib_hca"), "ok", "{value:?}");
        }
    }
    let item = item(&of(None, &oci), "ib_hca");
    assert!(
        item.message.contains("`^=mlx5_2,mlx5_11`"),
        "{}",
        item.message
    );
    // A job of one node, or over TCP, has no use for any.
    let mut facts = of(Some("mlx5"), &azure);
    set(&mut facts, &[("WORLD_SIZE", "8")]);
    assert_eq!(verdict(&facts, "ib_hca"), "ok");
    // Half of them slower is a design, and so is a fabric whose rates are near each other.
    for ports in [
        &[("a0", Ethernet, 400), ("a1", Ethernet, 200)][..],
        &[
            ("a0", Ethernet, 400),
            ("a1", Ethernet, 400),
            ("a2", Ethernet, 300),
        ],
    ] {
        assert_eq!(verdict(&node(Some("a"), ports), "ib_hca"), "ok");
    }
}

#[test]
fn one_port_of_two_is_left_out_by_its_number() {
    let mut facts = good();
    set(&mut facts, &[("NCCL_IB_HCA", "mlx5")]);
    let all = devices(&mut facts);
    all.truncate(4);
    for device in all.iter_mut() {
        let mut port = device.device.ports[0].clone();
        port.number = 2;
        port.link_layer = LinkLayer::Infiniband;
        device.device.ports.push(port);
        let mut seen = device.ports[0].clone();
        seen.number = 2;
        seen.link_layer = LinkLayer::Infiniband;
        device.ports.push(seen);
    }
    assert_eq!(verdict(&facts, "ib_hca"), "degraded HcaMixed");
    assert_eq!(
        item(&facts, "ib_hca").remedy,
        "NCCL_IB_HCA: `=mlx5_0:2,mlx5_1:2,mlx5_2:2,mlx5_3:2`"
    );
}

#[test]
fn a_list_that_names_more_than_is_given() {
    let all = "mlx5_0,mlx5_1,mlx5_2,mlx5_3";
    for (value, given, want) in [
        (all, 2, "ok"),
        (all, 4, "ok"),
        (all, 5, "degraded HcaPartly"),
        // A blank hides a device that is here.
        ("mlx5_0, mlx5_1", 2, "degraded HcaPartly"),
    ] {
        let mut facts = with(&[("NCCL_IB_HCA", value)]);
        facts.gpus = Reading::Value(2);
        devices(&mut facts).truncate(given);
        // Of five, one is not named.
        if let Some(device) = devices(&mut facts).get_mut(4) {
            device.device.name = "mlx5_9".into();
            devices(&mut facts).remove(0);
        }
        assert_eq!(verdict(&facts, "ib_hca"), want, "{value} {given}");
        if given == 2 && want == "ok" {
            let message = item(&facts, "ib_hca").message;
            assert!(
                message.ends_with("not here or not active: mlx5_2, mlx5_3"),
                "{message}"
            );
        }
    }
}

#[test]
fn a_list_of_fewer_rails_than_gpus() {
    for (value, gpus, want) in [
        ("=mlx5_0", 8, "degraded HcaFewer"),
        ("=mlx5_0", 1, "ok"),
        ("=mlx5_0,mlx5_1", 2, "ok"),
        ("=mlx5_0,mlx5_1,mlx5_2,mlx5_3", 8, "degraded HcaFewer"),
    ] {
        let mut facts = with(&[("NCCL_IB_HCA", value)]);
        facts.gpus = Reading::Value(gpus);
        assert_eq!(verdict(&facts, "ib_hca"), want, "{value} {gpus}");
        set(&mut facts, &[("WORLD_SIZE", "8")]);
        assert_eq!(verdict(&facts, "ib_hca"), "ok", "on one node");
    }
    // Four rails for eight GPUs; the other cards are for something else.
    let mut facts = with(&[("NCCL_IB_HCA", "=mlx5_0,mlx5_1,mlx5_2,mlx5_3")]);
    for device in &mut devices(&mut facts)[4..] {
        device.device.pci_id = Some("15b3:101d".into());
    }
    assert_eq!(verdict(&facts, "ib_hca"), "ok");
    assert!(item(&facts, "ib_hca").remedy.is_empty());
}

#[test]
fn a_list_that_would_do() {
    let remedy = |facts: &ContainerFacts| item(facts, "ib_hca").remedy;
    let mut facts = with(&[("NCCL_IB_HCA", "ib0")]);
    assert_eq!(remedy(&facts), "NCCL_IB_HCA: unset it");
    devices(&mut facts).truncate(2);
    assert!(
        remedy(&facts).ends_with("`=mlx5_0,mlx5_1`"),
        "{}",
        remedy(&facts)
    );
    devices(&mut facts)[0].device.name = "rocep1s0".into();
    assert!(
        remedy(&facts).ends_with("`=rocep1s0,mlx5_1`"),
        "{}",
        remedy(&facts)
    );
}

#[test]
fn the_cause_is_named() {
    let says = |facts: &ContainerFacts, what: &str| {
        let item = item(facts, "ib_hca");
        assert!(item.message.contains(what), "{what}: {}", item.message);
    };
    says(&with(&[("NCCL_IB_HCA", "x, y")]), "blank");
    says(&with(&[("NCCL_IB_HCA", "==mlx5_0")]), "second =");
    says(&with(&[("NCCL_IB_HCA", "mlx5_?")]), "wildcards");
    says(&with(&[("NCCL_IB_HCA", "^")]), "without names");
    let mut facts = with(&[("NCCL_IB_HCA", "=mlx5_3")]);
    devices(&mut facts)[3].ports[0].state = Reading::Value(PortState::Down);
    says(&facts, "mlx5_3 is here, its port is not active");
    devices(&mut facts)[3].node = Reading::Absent;
    says(&facts, "not usable in this container");
}
