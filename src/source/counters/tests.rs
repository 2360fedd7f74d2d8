use super::*;
use crate::report::default_counters;
use crate::source::infiniband::enumerate;
use crate::source::testtree::TestTree;
use std::path::Path;

const PMA: &str = "sys/class/infiniband/mlx5_0/ports/1/counters";

fn tree() -> TestTree {
    let tree = TestTree::new();
    tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
    tree
}

fn reader(host: &Host, skip: Option<PmaSkip>) -> CounterReader {
    let devices = enumerate(host);
    CounterReader::new(&devices.value().unwrap()[0], false, |_| skip)
}

fn names(values: &Counts) -> Vec<&str> {
    values.keys().map(String::as_str).collect()
}

#[test]
fn words_become_bytes_once() {
    let tree = tree();
    let (host, recording) = tree.recorded_host();
    let mut reader = reader(&host, None);
    let before = recording.recorded().opened;
    let opened = || recording.recorded().opened - before;
    for _ in 0..2 {
        let (port, counters) = &reader.read(&host, HwByPort::new())[0];
        assert_eq!(*port, 1);
        assert_eq!(counters.pma["port_xmit_data"], Reading::Value(4000));
        assert_eq!(counters.pma["port_rcv_data"], Reading::Value(8000));
        assert_eq!(counters.pma["link_downed"], Reading::Value(3));
        assert_eq!(counters.pma.len(), 5);
        assert_eq!(
            names(&counters.hw),
            ["out_of_sequence", "rx_write_requests"]
        );
        assert_eq!(counters.pma_skipped, None);
    }
    assert_eq!(opened(), 14);
}

#[test]
fn all_ones_are_no_count() {
    let tree = tree();
    tree.file(&format!("{PMA}/port_xmit_data"), "18446744073709551615");
    let host = tree.host();
    let mut reader = reader(&host, None);
    let told = HwByPort::from([(
        1,
        BTreeMap::from([("a".to_string(), u64::MAX), ("b".to_string(), 7)]),
    )]);
    let counters = &reader.read(&host, told)[0].1;
    assert_eq!(counters.pma["port_xmit_data"], Reading::NotObservable);
    assert_eq!(counters.hw["a"], Reading::NotObservable);
    assert_eq!(counters.hw["b"], Reading::Value(7));
}

#[test]
fn essential_files_alone() {
    let tree = tree();
    let host = tree.host();
    let devices = enumerate(&host);
    let mut reader = CounterReader::new(&devices.value().unwrap()[0], true, |_| None);
    let counters = &reader.read(&host, HwByPort::new())[0].1;
    assert_eq!(
        names(&counters.pma),
        [
            "link_downed",
            "port_rcv_data",
            "port_xmit_data",
            "symbol_error"
        ]
    );
}

#[test]
fn netlink_values_spare_the_files() {
    let tree = tree();
    let (host, recording) = tree.recorded_host();
    let mut reader = reader(&host, None);
    let before = recording.recorded().opened;
    let opened = || recording.recorded().opened - before;
    let told = HwByPort::from([(
        1,
        BTreeMap::from([("out_of_sequence".into(), 99), ("lifespan".into(), 12)]),
    )]);
    let counters = &reader.read(&host, told)[0].1;
    let hw: Vec<_> = counters.hw.iter().collect();
    assert_eq!(hw, [(&"out_of_sequence".to_string(), &Reading::Value(99))]);
    assert_eq!(opened(), 5, "PMA files only");
}

#[test]
fn a_restricted_function_is_left_alone_at_its_first_einval() {
    let tree = tree();
    tree.errno(22, &format!("{PMA}/link_downed"));
    let (host, recording) = tree.recorded_host();
    let mut reader = reader(&host, None);
    let before = recording.recorded().opened;
    let opened = || recording.recorded().opened - before;
    let counters = &reader.read(&host, HwByPort::new())[0].1;
    assert_eq!(counters.pma_skipped, Some(PmaSkip::Restricted));
    assert!(counters.pma.is_empty());
    assert_eq!(counters.hw.len(), 2, "hardware counters stay readable");
    assert_eq!(opened(), 3, "one PMA file was opened");
    let counters = &reader.read(&host, HwByPort::new())[0].1;
    assert_eq!(counters.pma_skipped, Some(PmaSkip::Restricted));
    assert_eq!(opened(), 5, "and none after it");
}

#[test]
fn a_port_that_was_readable_is_restricted_only_when_it_repeats() {
    let tree = tree();
    let sound = tree.host();
    let mut reader = reader(&sound, None);
    reader.read(&sound, HwByPort::new());
    tree.errno(22, &format!("{PMA}/symbol_error"));
    let refusing = tree.host();
    // Files of a directory that changed are opened again, by the other host.
    let mut read = |host: &Host| {
        tree.file(&format!("{PMA}/new"), "");
        tree.remove(&format!("{PMA}/new"));
        reader.read(host, HwByPort::new()).remove(0).1
    };
    let counters = read(&refusing);
    assert_eq!(counters.pma_skipped, None);
    assert_eq!(counters.pma["link_downed"], Reading::Value(3));
    assert_eq!(counters.pma["symbol_error"], Reading::NotObservable);
    assert_eq!(counters.pma["port_rcv_data"], Reading::NotObservable);
    read(&sound);
    for skipped in [None, Some(PmaSkip::Restricted)] {
        assert_eq!(read(&refusing).pma_skipped, skipped);
    }
}

#[test]
fn skipped_ports_are_not_opened() {
    for (skip, files) in [(PmaSkip::Excluded, 0), (PmaSkip::Restricted, 2)] {
        let tree = tree();
        let (host, recording) = tree.recorded_host();
        let mut reader = reader(&host, Some(skip));
        let before = recording.recorded().opened;
        let opened = || recording.recorded().opened - before;
        let counters = &reader.read(&host, HwByPort::new())[0].1;
        assert_eq!(counters.pma_skipped, Some(skip));
        assert!(counters.pma.is_empty());
        assert_eq!(opened(), files, "{skip:?}");
    }
}

#[test]
fn no_pma_is_not_observable_and_not_a_restriction() {
    let tree = tree();
    tree.file(&format!("{PMA}/link_downed"), "N/A (no PMA)");
    tree.remove(&format!("{PMA}/symbol_error"));
    tree.dir(&format!("{PMA}/symbol_error"));
    tree.bytes(&format!("{PMA}/VL15_dropped"), &[0xff, 0, 0x31]);
    tree.bytes(&format!("{PMA}/port_rcv_data"), b"12 34");
    let host = tree.host();
    let mut reader = reader(&host, None);
    let counters = &reader.read(&host, HwByPort::new())[0].1;
    assert_eq!(counters.pma["link_downed"], Reading::NotObservable);
    assert_eq!(counters.pma["symbol_error"], Reading::NotObservable);
    assert!(matches!(counters.pma["VL15_dropped"], Reading::Failed(_)));
    assert!(matches!(counters.pma["port_rcv_data"], Reading::Failed(_)));
    assert_eq!(counters.pma["port_xmit_data"], Reading::Value(4000));
    assert_eq!(counters.pma_skipped, None);
}

#[test]
fn a_virtual_function_keeps_the_files_that_answer() {
    let tree = TestTree::new();
    let pci = tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
    tree.file(&format!("{pci}/../../device"), "0x101e");
    tree.errno(22, &format!("{PMA}/link_downed"));
    let (host, recording) = tree.recorded_host();
    let mut reader = reader(&host, None);
    let before = recording.recorded().opened;
    let opened = || recording.recorded().opened - before;
    for reads in [7, 13] {
        let counters = &reader.read(&host, HwByPort::new())[0].1;
        assert_eq!(counters.pma["link_downed"], Reading::NotObservable);
        assert_eq!(counters.pma["port_xmit_data"], Reading::Value(4000));
        assert_eq!(counters.pma_skipped, None);
        assert_eq!(opened(), reads, "the refusing file is asked once");
    }
}

#[test]
fn a_directory_that_cannot_be_listed_is_a_fault() {
    let tree = TestTree::new();
    tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
    tree.errno(5, PMA);
    let host = tree.host();
    let mut reader = reader(&host, None);
    let counters = &reader.read(&host, HwByPort::new())[0].1;
    assert!(matches!(counters.pma["*"], Reading::Failed(_)));
    assert!(!counters.hw.is_empty() && !counters.hw.contains_key("*"));
}

#[test]
fn efa_has_hardware_counters_only_of_port_and_device() {
    let tree = TestTree::new();
    let pci = tree.pci("0000:4e:01.0", "0000:4f:00.0", ("1d0f", "efa2"), "efa");
    tree.rdma(
        &pci,
        "rdmap79s0",
        &[
            ("node_type", "7: unspecified"),
            ("ports/1/link_layer", "Unknown"),
            ("ports/1/hw_counters/rx_drops", "5"),
            ("hw_counters/no_completion_cmds", "0"),
            ("hw_counters/lifespan", "10"),
        ],
    );
    let host = tree.host();
    let mut reader = reader(&host, None);
    let counters = &reader.read(&host, HwByPort::new())[0].1;
    assert!(counters.pma.is_empty());
    assert_eq!(counters.hw["rx_drops"], Reading::Value(5));
    assert_eq!(names(&counters.device_hw), ["no_completion_cmds"]);
}

#[test]
fn counters_that_come_later_are_found() {
    let tree = tree();
    let dir = "sys/class/infiniband/mlx5_0/ports/1/counters";
    tree.remove(dir);
    let host = tree.host();
    let mut reader = reader(&host, None);
    assert!(reader.read(&host, HwByPort::new())[0].1.pma.is_empty());
    tree.file(&format!("{dir}/symbol_error"), "9");
    let counters = &reader.read(&host, HwByPort::new())[0].1;
    assert_eq!(counters.pma["symbol_error"], Reading::Value(9));
}

#[test]
fn order_spares_commands() {
    let names = |names: &[&str]| names.iter().map(|n| n.to_string()).collect();
    assert_eq!(
        order(
            names(&["lifespan", "a", "rx_write_requests"]),
            hw_order,
            false
        ),
        ["rx_write_requests", "a"]
    );
    assert_eq!(
        order(
            names(&["VL15_dropped", "port_xmit_data", "link_downed"]),
            pma_order,
            false
        ),
        ["link_downed", "port_xmit_data", "VL15_dropped"]
    );
}

/// Names of hardware counters that the checks name, tests left aside.
fn named_by_checks() -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/check");
    let mut names = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "source text")]
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_string_lossy();
        let is_code = name.ends_with(".rs") && !name.ends_with("tests.rs");
        if !is_code && !name.ends_with("counters.toml") {
            continue;
        }
        #[expect(clippy::disallowed_methods, reason = "source text")]
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for literal in code.split('"').skip(1).step_by(2) {
            let counter = ["hw.", "dev."]
                .iter()
                .find_map(|prefix| literal.strip_prefix(prefix));
            let is_name = |name: &&str| {
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            };
            names.extend(counter.filter(is_name).map(str::to_string));
        }
    }
    names
}

#[test]
fn all_that_is_needed_is_read() {
    let by_checks = named_by_checks();
    assert!(by_checks.len() > 20, "the scan saw only {by_checks:?}");
    let defaults = &*default_counters::DEFAULTS;
    let exported = (defaults.hardware.iter())
        .flat_map(|hw| hw.errors.iter().chain(&hw.congestion))
        .map(|name| name.to_string());
    let unread: Vec<String> = by_checks
        .into_iter()
        .chain(exported)
        .filter(|name| hw_order(name).is_none())
        .collect();
    assert!(unread.is_empty(), "not in HW_ESSENTIAL: {unread:?}");
    let pma = (defaults.pma_traffic.iter())
        .chain(&defaults.pma_infiniband)
        .chain(&defaults.pma_ethernet);
    let unread: Vec<&&str> = pma.filter(|name| pma_order(name).is_none()).collect();
    assert!(unread.is_empty(), "not in PMA_ESSENTIAL: {unread:?}");
}

#[test]
fn the_first_counter_is_read_first_and_settings_are_not() {
    let names = [
        "out_of_buffer",
        "np_ecn_marked_roce_packets",
        "lifespan",
        "rx_write_requests",
    ];
    let given = || names.map(str::to_string).to_vec();
    let needed = order(given(), hw_order, true);
    assert_eq!(needed, ["rx_write_requests", "out_of_buffer"]);
    assert_eq!(order(given(), hw_order, false).len(), 3);
}
