//! The same tree, read by Debian's node_exporter and by selvage: every counter that both export is
//! equal.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod support;

use selvage::simulate::Change;
use std::collections::BTreeMap;
use std::path::Path;
use support::{Series, Server, get, node, parse, selvage};

/// How selvage names what node_exporter calls `node_infiniband_…`.
enum Name {
    /// `selvage_port_counter_total{counter=…}`.
    Counter(&'static str),
    /// A family of its own, with device and port only.
    Family(&'static str),
}

/// node_exporter's family without its prefix, and selvage's name for it. Both tell data in bytes
/// (the files hold words of four) and rates in bytes a second.
const NAMES: &[(&str, Name)] = &[
    ("state_id", Name::Family("port_state_id")),
    ("physical_state_id", Name::Family("port_physical_state_id")),
    (
        "rate_bytes_per_second",
        Name::Family("port_rate_bytes_per_second"),
    ),
    (
        "port_data_received_bytes_total",
        Name::Family("port_receive_bytes_total"),
    ),
    (
        "port_data_transmitted_bytes_total",
        Name::Family("port_transmit_bytes_total"),
    ),
    (
        "port_packets_received_total",
        Name::Family("port_receive_packets_total"),
    ),
    (
        "port_packets_transmitted_total",
        Name::Family("port_transmit_packets_total"),
    ),
    (
        "excessive_buffer_overrun_errors_total",
        Name::Counter("excessive_buffer_overrun_errors"),
    ),
    ("link_downed_total", Name::Counter("link_downed")),
    (
        "link_error_recovery_total",
        Name::Counter("link_error_recovery"),
    ),
    (
        "local_link_integrity_errors_total",
        Name::Counter("local_link_integrity_errors"),
    ),
    (
        "multicast_packets_received_total",
        Name::Counter("multicast_rcv_packets"),
    ),
    (
        "multicast_packets_transmitted_total",
        Name::Counter("multicast_xmit_packets"),
    ),
    (
        "port_constraint_errors_received_total",
        Name::Counter("port_rcv_constraint_errors"),
    ),
    (
        "port_constraint_errors_transmitted_total",
        Name::Counter("port_xmit_constraint_errors"),
    ),
    (
        "port_discards_transmitted_total",
        Name::Counter("port_xmit_discards"),
    ),
    (
        "port_errors_received_total",
        Name::Counter("port_rcv_errors"),
    ),
    (
        "port_receive_remote_physical_errors_total",
        Name::Counter("port_rcv_remote_physical_errors"),
    ),
    (
        "port_receive_switch_relay_errors_total",
        Name::Counter("port_rcv_switch_relay_errors"),
    ),
    ("port_transmit_wait_total", Name::Counter("port_xmit_wait")),
    ("symbol_error_total", Name::Counter("symbol_error")),
    (
        "unicast_packets_received_total",
        Name::Counter("unicast_rcv_packets"),
    ),
    (
        "unicast_packets_transmitted_total",
        Name::Counter("unicast_xmit_packets"),
    ),
    ("vl15_dropped_total", Name::Counter("VL15_dropped")),
];

type Values = BTreeMap<(String, String, String), f64>;

/// By device, port and node_exporter's family.
fn theirs(series: &[Series]) -> Values {
    series
        .iter()
        .filter_map(|series| {
            let family = series.family.strip_prefix("node_infiniband_")?;
            let port = series.labels.get("port")?;
            let device = series.labels.get("device")?;
            Some((
                (device.clone(), port.clone(), family.to_string()),
                series.value,
            ))
        })
        .collect()
}

fn ours(series: &[Series]) -> Values {
    let mut values = Values::new();
    for series in series {
        let Some(family) = series.family.strip_prefix("selvage_") else {
            continue;
        };
        let (Some(device), Some(port)) = (series.labels.get("device"), series.labels.get("port"))
        else {
            continue;
        };
        for (name, own) in NAMES {
            let same = match own {
                Name::Family(own) => family == *own,
                Name::Counter(own) => {
                    family == "port_counter_total"
                        && series
                            .labels
                            .get("counter")
                            .is_some_and(|counter| counter == own)
                }
            };
            if same {
                values.insert(
                    (device.clone(), port.clone(), name.to_string()),
                    series.value,
                );
            }
        }
    }
    values
}

/// The exposition with every counter, as the real binary prints it once.
fn exposition(root: &Path) -> String {
    let (code, text) = selvage(root, &["metrics", "--set=counters.full=true"]);
    assert_eq!(code, 0, "{text}");
    text
}

/// Compares one tree as it stands; gives how many series were equal.
fn compare_tree(what: &str, exporter: &Server, root: &Path) -> usize {
    let (code, body) = get(&exporter.address, "/metrics");
    assert_eq!(code, 200, "{what}: {body}");
    let theirs = theirs(&parse(&body));
    let ours = ours(&parse(&exposition(root)));
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (key, value) in &theirs {
        assert!(
            key.2 == "info" || NAMES.iter().any(|(name, _)| *name == key.2),
            "node_exporter has a family that the table lacks: {}",
            key.2
        );
        match ours.get(key) {
            Some(own) if own == value => compared += 1,
            Some(own) => wrong.push(format!("{key:?}: node_exporter {value}, selvage {own}")),
            None => {}
        }
    }
    // What only we tell would be a number made up for a file that holds none.
    for key in ours.keys().filter(|_| !theirs.is_empty()) {
        if !theirs.contains_key(key) {
            wrong.push(format!("{key:?}: only selvage tells it"));
        }
    }
    println!(
        "{what}: {compared} series equal of {} that node_exporter has",
        theirs.len()
    );
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
    compared
}

fn compare(preset: &str, want: usize) {
    let (dir, _node) = node(preset);
    let exporter = Server::node_exporter(dir.path());
    assert_eq!(
        compare_tree(preset, &exporter, dir.path()),
        want,
        "{preset}: series compared"
    );
}

/// States and counters of one port with every PMA file. A port that is not active has no rate with
/// selvage, since what the kernel prints then says nothing.
const PORT: usize = 24;

#[test]
fn eight_rails_infiniband() {
    compare("h100_ib", 12 * PORT - 2);
}

#[test]
fn eight_rails_roce_with_vfs() {
    compare("h100_roce_vfs", 24 * PORT);
}

#[test]
fn mixed_with_a_storage_card() {
    compare("mixed_storage", 5 * PORT);
}

#[test]
fn a_rail_that_is_down() {
    compare("rail_down", 12 * PORT - 3);
}

/// Two of the eight ports tell states alone.
#[test]
fn physical_functions_that_refuse_their_counters() {
    compare("restricted_pf", 6 * PORT + 2 * 3);
}

/// Four counters of each port are text.
#[test]
fn counters_that_print_text() {
    compare("mlx4_na", 2 * (PORT - 4));
}

#[test]
fn guests_and_trays() {
    compare("azure_ndh200", 9 * PORT);
    compare("gb200", 8 * PORT);
}

/// A fall of one rail that is over before the next sample, so that only counters and carrier edges
/// show it.
fn flap() -> Change {
    let counter = |name: &str| Change::Counter {
        device: "mlx5_4".into(),
        name: name.into(),
        add: 1,
    };
    Change::All(vec![
        counter("link_downed"),
        counter("link_error_recovery"),
        Change::Carrier {
            netdev: "ibp79s0".into(),
            up: true,
            edges: 2,
        },
    ])
}

/// Between samples one rail's counters rise; every sample agrees.
#[test]
fn a_rail_that_flaps() {
    let (dir, mut node) = node("flapping");
    let exporter = Server::node_exporter(dir.path());
    let mut compared = compare_tree("flapping", &exporter, dir.path());
    for _ in 0..3 {
        node.apply(&flap()).unwrap();
        node.apply(&Change::Traffic {
            millis: 5000,
            percent: 70,
        })
        .unwrap();
        compared += compare_tree("flapping", &exporter, dir.path());
    }
    assert_eq!(compared, 4 * (12 * PORT - 2));
}

/// Where node_exporter's collector gives up (a port without PMA counters, no class directory),
/// there is nothing to compare: it says so itself, and selvage tells the ports all the same.
#[test]
fn nodes_that_node_exporter_cannot_read() {
    for (preset, ports) in [("efa_p5", 32), ("bnxt", 2), ("empty", 0)] {
        let (dir, _node) = node(preset);
        let exporter = Server::node_exporter(dir.path());
        let (_, body) = get(&exporter.address, "/metrics");
        assert!(theirs(&parse(&body)).is_empty(), "{preset}: {body}");
        let states = parse(&exposition(dir.path()))
            .iter()
            .filter(|series| series.family == "selvage_port_state_id")
            .count();
        assert_eq!(states, ports, "{preset}");
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a bounded wait, and a directory of the test's own"
)]
fn node_exporter_serves_the_agent_s_textfile() {
    let (dir, mut node) = node("h100_ib");
    let texts = support::scratch();
    let path = texts.path().join("selvage.prom");
    let textfile = format!("--set=agent.textfile={}", path.display());
    let mut agent = Server::agent(dir.path(), &["--set=hysteresis.hold=0s", &textfile]);
    let exporter = Server::textfile_exporter(texts.path());
    let until = |wanted: &dyn Fn(&[Series]) -> bool| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let (code, body) = get(&exporter.address, "/metrics");
            assert_eq!(code, 200, "{body}");
            let seen = parse(&body);
            if wanted(&seen) {
                return seen;
            }
            assert!(std::time::Instant::now() < end, "{body}");
            support::pause();
        }
    };
    let value = |seen: &[Series], family: &str, state: Option<&str>| {
        let is_it = |of: &&Series| {
            of.family == family && of.labels.get("state").map(String::as_str) == state
        };
        seen.iter().find(is_it).map(|series| series.value)
    };
    let is = |state: &'static str| {
        move |seen: &[Series]| value(seen, "selvage_fabric_state", Some(state)) == Some(1.0)
    };
    let seen = until(&is("ready"));
    assert_eq!(value(&seen, "node_textfile_scrape_error", None), Some(0.0));
    assert!(
        seen.iter()
            .all(|series| !series.family.starts_with("process_"))
    );
    let down = Change::Link {
        device: "mlx5_4".into(),
        up: false,
    };
    node.apply(&down).unwrap();
    until(&is("unready"));
    agent.terminate();
    until(&|seen| value(seen, "selvage_fabric_state", Some("unready")).is_none());
    assert_eq!(std::fs::read_dir(texts.path()).unwrap().count(), 0);
}
