use crate::observe::{LinkLayer, PhysState, PortState, Reading, SourceHealth};
use crate::report::metrics::{AgentStats, encode};
use crate::report::testing::{NOW, device, hear_of, link, node};
use crate::report::{Report, Role};
use std::sync::Arc;

fn default_text(report: &Report) -> String {
    encode(report, None, &AgentStats::default(), Default::default())
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|l| l == line)
}

#[test]
fn a_port_that_can_no_longer_be_read_has_no_state_and_no_rate() {
    let mut report = node(2, LinkLayer::Infiniband);
    let key = device(1, LinkLayer::Infiniband).port_key(1);
    let link = report.snapshot.links.get_mut(&key).unwrap();
    Arc::make_mut(link).at = NOW.minus(std::time::Duration::from_secs(31));
    let series = |report: &Report| {
        let text = default_text(report);
        let wanted = [
            "up",
            "state_id",
            "physical_state_id",
            "rate_bytes_per_second",
        ];
        let of = |port: &str| {
            let named = |name: &&str| text.contains(&format!("selvage_port_{name}{{{port}"));
            wanted.into_iter().filter(named).count()
        };
        let port = |number: u32| of(&format!("device=\"mlx5_{number}\",port=\"1\"}}"));
        (port(0), port(1))
    };
    // A long interval alone does not make it stale.
    assert_eq!(series(&report), (4, 4));
    let health = SourceHealth {
        source: "link".into(),
        subject: key.device.0.as_str().into(),
        last_ok: None,
        micros: 0,
        stalled_since: Some(NOW),
        fault: None,
        absent: false,
        via: None,
    };
    let name = format!("link/{}", key.device.0);
    report.snapshot.sources.insert(name.into(), health);
    assert_eq!(series(&report), (4, 0));
    let port = crate::report::port_view::ports(&report).remove(1);
    assert_eq!(port.state_text(), "unknown");
    assert_eq!(port.rate(), None);
    // Its totals stay.
    let edges = "selvage_port_link_transitions_total{device=\"mlx5_1\",port=\"1\"} 0";
    assert!(has(&default_text(&report), edges));
}

#[test]
fn a_port_in_active_defer_is_up() {
    let mut report = node(1, LinkLayer::Infiniband);
    let key = device(0, LinkLayer::Infiniband).port_key(1);
    let state = link(PortState::ActiveDefer, PhysState::LinkUp);
    report.snapshot.links.insert(key, state);
    let text = default_text(&report);
    let labels = "{device=\"mlx5_0\",port=\"1\"}";
    assert!(has(&text, &format!("selvage_port_up{labels} 1")));
    let rate = format!("selvage_port_rate_bytes_per_second{labels} 50000000000");
    assert!(has(&text, &rate));
}

#[test]
fn a_rate_that_mlx5_has_no_name_for_is_the_interface_s() {
    let mut report = node(1, LinkLayer::Ethernet);
    let key = device(0, LinkLayer::Ethernet).port_key(1);
    let told = report.snapshot.links.get_mut(&key).unwrap();
    if let Reading::Value(rate) = &mut Arc::make_mut(told).value.rate {
        rate.rate = crate::units::BitsPerSec::from_gbps(40);
    }
    let line = |gbps: u64| {
        let labels = "{device=\"mlx5_0\",port=\"1\"}";
        let bytes = gbps * 125_000_000;
        format!("selvage_port_rate_bytes_per_second{labels} {bytes}")
    };
    assert!(!has(&default_text(&report), &line(40)));
    let netdev = report.snapshot.netdevs.get_mut("eth0").unwrap();
    Arc::make_mut(netdev).value.speed_mbps = Reading::Value(800_000);
    assert!(has(&default_text(&report), &line(800)));
}

#[test]
fn a_neighbor_holds_for_its_ttl_and_while_the_link_is_down() {
    let mut report = node(2, LinkLayer::Ethernet);
    hear_of(&mut report, "leaf-3");
    let key = |rail| device(rail, LinkLayer::Ethernet).port_key(1);
    report.roles.get_mut(&key(1)).unwrap().role = Role::Other;
    let told = |report: &Report| {
        let text = default_text(report);
        let mut lines = text.lines();
        let found = lines.find(|line| line.starts_with("selvage_port_neighbor_info{"));
        let storage = text.contains("neighbor_info{device=\"mlx5_1\"");
        assert!(!storage, "no rail: {text}");
        found.map(str::to_string)
    };
    let line = "selvage_port_neighbor_info{device=\"mlx5_0\",port=\"1\",switch=\"leaf-3\",switch_port=\"leaf-3\"} 1";
    assert_eq!(told(&report).as_deref(), Some(line));
    let ttl = std::time::Duration::from_secs(120);
    report.snapshot.at = NOW.plus(ttl);
    assert_eq!(told(&report), None);
    let down = link(PortState::Down, PhysState::Polling);
    report.snapshot.links.insert(key(0), down);
    assert_eq!(told(&report).as_deref(), Some(line));
}
