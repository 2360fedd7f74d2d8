use super::*;
use crate::observe::{LinkLayer, Reading};
use crate::report::testing::{broken, device, empty, hear_of, link, node};
use serde_json::{Value, json};
use std::sync::Arc;

fn parsed(report: &Report) -> Value {
    serde_json::from_str(&encode(report, None)).unwrap()
}

#[test]
fn the_contract_s_fields() {
    let mut report = broken();
    let key = device(3, LinkLayer::Infiniband).port_key(1);
    let counters = report.snapshot.counters.get_mut(&key).unwrap();
    let counters = &mut Arc::make_mut(counters).value;
    for (name, value) in [("link_downed", 2), ("port_xmit_wait", 99)] {
        counters.pma.insert(name.to_string(), Reading::Value(value));
    }
    let json = parsed(&report);
    assert_eq!(json["schema"], "selvage.dev/report/v1");
    assert_eq!(json["node"], "gpu-17");
    assert_eq!(json["time"], "2026-01-02T03:04:05Z");
    assert_eq!(json["boot_id"], "b0071d00-0000-4000-8000-000000000000");
    assert_eq!(json["state"], "unready");
    assert_eq!(json["reasons"], json!(["GpuLost", "LinkDown"]));
    let down = &json["ports"][3];
    for (field, want) in [
        ("device", json!("mlx5_3")),
        ("port", json!(1)),
        ("pci", json!("0000:13:00.0")),
        ("driver", json!("mlx5_core")),
        ("netdev", json!("eth3")),
        ("link_layer", json!("infiniband")),
        ("state", json!("down")),
        ("phys_state", json!("polling")),
        ("rate_bits_per_second", Value::Null),
        ("rail", json!(true)),
        ("gids", Value::Null),
        ("link_transitions", json!(1)),
        ("counters", json!({"link_downed": 2})),
    ] {
        assert_eq!(down[field], want, "{field}");
    }
    assert_eq!(json["ports"][2]["rate_bits_per_second"], 400_000_000_000u64);
    let found = &json["findings"][1];
    for (field, want) in [
        ("check", json!("link_state")),
        ("subject", json!("mlx5_3/1")),
        ("status", json!("failing")),
        ("reason", json!("LinkDown")),
        // Two minutes before the report's time.
        ("since", json!("2026-01-02T03:02:05Z")),
        ("evidence", json!({"peers_up": 7, "phys_state": "polling"})),
    ] {
        assert_eq!(found[field], want, "{field}");
    }
    assert_eq!(json["gpudirect"]["path"], "peermem");
    assert_eq!(json["gds"]["state"], "absent");
    assert_eq!(json["modules"]["nvidia_fs"]["loaded"], false);
    assert_eq!(json["modules"]["nvidia"]["version"], "535.129.03");
    assert_eq!(json["xid"][0]["xid"], 79);
    assert_eq!(json["xid"][0]["pci"], "0000:83:00");
    assert_eq!(json["sources"].as_array().unwrap().len(), 14);
}

#[test]
fn what_was_not_read_is_unknown_or_null() {
    let json = parsed(&empty());
    assert_eq!(json["state"], "unknown");
    assert_eq!(json["ports"], json!([]));
    assert_eq!(json["gpudirect"]["path"], "unknown");
    assert_eq!(json["gds"]["state"], "unknown");
    assert_eq!(json["modules"], json!({}));
    assert_eq!(json["gpus"], Value::Null);

    let mut report = node(1, LinkLayer::Ethernet);
    report.snapshot.links.clear();
    report.snapshot.wall = None;
    let json = parsed(&report);
    assert_eq!(json["time"], Value::Null);
    let port = &json["ports"][0];
    assert_eq!(port["state"], "unknown");
    assert_eq!(port["phys_state"], "unknown");
    assert_eq!(port["rate_bits_per_second"], Value::Null);
    let indexes: Vec<_> = port["gids"].as_array().unwrap().iter().collect();
    assert_eq!(indexes.len(), 1, "RoCE v1 is not listed");
    assert_eq!(indexes[0]["index"], 3);
    assert_eq!(indexes[0]["type"], "roce_v2");
}

#[test]
fn names_of_every_state() {
    let mut report = node(1, LinkLayer::Infiniband);
    let key = device(0, LinkLayer::Infiniband).port_key(1);
    let states = ["unknown", "down", "init", "armed", "active", "active_defer"];
    for (id, want) in states.iter().enumerate() {
        let state = link(PortState::from_id(id as u32), PhysState::LinkUp);
        report.snapshot.links.insert(key.clone(), state);
        let json = parsed(&report);
        assert_eq!(json["ports"][0]["state"], *want);
        let rate = json["ports"][0]["rate_bits_per_second"].is_u64();
        assert_eq!(rate, want.starts_with("active"));
    }
    let states = [
        "unknown",
        "sleep",
        "polling",
        "disabled",
        "training",
        "link_up",
        "error_recovery",
        "phy_test",
    ];
    for (id, want) in states.iter().enumerate() {
        let state = link(PortState::Active, PhysState::from_id(id as u32));
        report.snapshot.links.insert(key.clone(), state);
        assert_eq!(parsed(&report)["ports"][0]["phys_state"], *want);
    }
}

#[test]
fn ports_come_in_the_order_of_their_numbers() {
    let json = parsed(&node(12, LinkLayer::Infiniband));
    let names: Vec<_> = json["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| port["device"].as_str().unwrap().to_string())
        .collect();
    let want: Vec<_> = (0..12).map(|i| format!("mlx5_{i}")).collect();
    assert_eq!(names, want);
}

#[test]
fn a_rail_names_its_neighbor_where_one_is_known() {
    let mut report = node(1, LinkLayer::Ethernet);
    let port = parsed(&report)["ports"][0].clone();
    assert!(!port.as_object().unwrap().contains_key("neighbor"));
    hear_of(&mut report, "leaf-3");
    let neighbor = json!({"switch": "leaf-3", "switch_port": "leaf-3", "description": "leaf-3"});
    assert_eq!(parsed(&report)["ports"][0]["neighbor"], neighbor);
}
