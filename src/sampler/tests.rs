use super::*;
use crate::config::RdmaSource;
use crate::observe::{PciFacts, PciFunction, PcieLink, Reading};
use crate::source::testtree::TestTree;
use crate::units::Millis;

const SECOND: Duration = Duration::from_secs(1);

fn tree() -> TestTree {
    let tree = TestTree::new();
    let dir = tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
    tree.file(&format!("{dir}/ports/1/link_layer"), "Ethernet");
    tree.file(&format!("{dir}/ports/1/gid_attrs/ndevs/0"), "eth0");
    tree.file("sys/class/net/eth0/carrier", "1");
    tree
}

fn sampler(host: Host) -> Sampler {
    let clock = Clock::starting_at(Millis::from_secs(100));
    let mut config = Config::default();
    config.agent.rdma_source = RdmaSource::Sysfs;
    Sampler::new(Arc::new(host), config, clock, None, [])
}

/// Reads a subject here and now, and merges the result.
fn read(sampler: &mut Sampler, subject: Subject) -> News {
    let job = sampler.work(subject).unwrap();
    sampler.merge((job.work)())
}

fn devices() -> Subject {
    Subject::new("devices", "")
}

fn link() -> Subject {
    Subject::new("link", "0000:19:00.0")
}

#[tokio::test]
async fn a_failed_enumeration_forgets_no_interface() {
    let tree = tree();
    let mut sampler = sampler(tree.host());
    read(&mut sampler, devices());
    read(&mut sampler, Subject::new("netdev", "eth0"));
    assert!(sampler.snapshot.netdevs.contains_key("eth0"));
    tree.errno(5, "sys/class/infiniband");
    sampler.host = Arc::new(tree.host());
    read(&mut sampler, devices());
    assert!(sampler.snapshot.netdevs.contains_key("eth0"));
    assert!(sampler.schedule.contains(&Subject::new("ethtool", "eth0")));
}

#[tokio::test]
async fn a_device_that_is_registered_again_is_restricted_no_more() {
    let tree = tree();
    let mut sampler = sampler(tree.host());
    let port = PortKey {
        device: DeviceKey("0000:19:00.0".into()),
        port: 1,
    };
    sampler.restricted.insert(port);
    for (index, left) in [(None, 1), (None, 1), (Some(7), 0)] {
        if let Some(before) = &mut sampler.snapshot.devices {
            Arc::make_mut(&mut before.value)[0].index = index;
        }
        read(&mut sampler, devices());
        assert_eq!(sampler.restricted.len(), left);
    }
}

#[tokio::test]
async fn a_missing_uverbs_device_is_not_found_by_becoming_unreadable() {
    let tree = tree();
    let class = "sys/class/infiniband_verbs";
    tree.file(&format!("{class}/uverbs0/ibdev"), "mlx5_0");
    let mut sampler = sampler(tree.host());
    let mut uverbs = |tree: &TestTree| {
        sampler.host = Arc::new(tree.host());
        read(&mut sampler, devices());
        sampler.snapshot.devices.as_ref().unwrap().value[0]
            .uverbs
            .clone()
    };
    assert_eq!(uverbs(&tree), Reading::Value("uverbs0".into()));
    tree.file(&format!("{class}/uverbs0/ibdev"), "mlx5_9");
    assert_eq!(uverbs(&tree), Reading::Absent);
    tree.errno(13, class);
    assert_eq!(uverbs(&tree), Reading::Absent);

    // One that was there may be gone with the class, which is for the check to say.
    let tree = self::tree();
    tree.file(&format!("{class}/uverbs0/ibdev"), "mlx5_0");
    assert_eq!(uverbs(&tree), Reading::Value("uverbs0".into()));
    tree.errno(13, class);
    assert_eq!(uverbs(&tree), Reading::NotObservable);
}

#[tokio::test]
async fn what_an_earlier_run_saw_is_looked_for_before_the_first_window_ends() {
    for (device, doubt) in [("0000:19:00.0", false), ("0000:1a:00.0", true)] {
        let tree = tree();
        let mut sampler = sampler(tree.host());
        let seen = (DeviceKey(device.into()), Default::default());
        sampler.remember(&Memory {
            devices: BTreeMap::from([seen]),
            ..Memory::default()
        });
        read(&mut sampler, devices());
        let now = sampler.clock.now();
        let in_doubt = sampler.schedule.in_doubt(&devices(), now);
        assert_eq!(in_doubt, doubt, "{device}");
        // Told once: later looks compare with each other.
        assert!(sampler.remembered_devices.is_empty());
    }
}

#[tokio::test]
async fn a_missing_gpu_is_still_looked_for_when_other_devices_change() {
    let tree = tree();
    let mut sampler = sampler(tree.host());
    read(&mut sampler, devices());
    let bus = Subject::new("pci", "");
    let now = sampler.clock.now();
    sampler.schedule.doubt(&bus, now);
    tree.mlx5("mlx5_1", "0000:15:02.0", "0000:1a:00.0");
    sampler.host = Arc::new(tree.host());
    read(&mut sampler, devices());
    assert!(sampler.schedule.in_doubt(&bus, now));
}

#[tokio::test]
async fn a_bus_that_hangs_is_known_to_hang_when_other_devices_change() {
    let tree = tree();
    let mut sampler = sampler(tree.host());
    read(&mut sampler, devices());
    let bus = Subject::new("pci", "");
    read(&mut sampler, bus.clone());
    let mut started = 0;
    for index in 1..8 {
        let later = sampler.clock.now().plus(Duration::from_secs(3600 * index));
        let due = sampler.schedule.start_due(later);
        if due.contains(&bus) {
            started += 1;
            // Its worker began and does not come back.
            let _ = sampler.schedule.began(&bus).unwrap().set(later);
        }
        sampler
            .schedule
            .mark_stalled(later.plus(Duration::from_secs(60)));
        tree.mlx5(
            &format!("mlx5_{index}"),
            &format!("0000:3{index}:01.0"),
            &format!("0000:4{index}:00.0"),
        );
        sampler.host = Arc::new(tree.host());
        read(&mut sampler, devices());
        let health = sampler.snapshot(None).health("pci", "").unwrap();
        assert!(health.fails() && health.last_ok.is_some(), "{index}");
    }
    assert_eq!(started, 4, "reads that hang keep a worker each");
}

#[tokio::test]
async fn a_device_that_leaves_while_it_is_read_is_looked_for_at_once() {
    let tree = tree();
    let mut sampler = sampler(tree.host());
    read(&mut sampler, devices());
    read(&mut sampler, link());
    assert!(!sampler.schedule.is_woken(&devices()));
    tree.remove("sys/class/infiniband/mlx5_0");
    read(&mut sampler, link());
    assert!(sampler.schedule.is_woken(&devices()));
}

#[tokio::test]
async fn an_interface_that_is_renamed_is_looked_for_at_once() {
    let tree = tree();
    tree.file("sys/class/net/eth0/ifindex", "7");
    let mut sampler = sampler(tree.host());
    read(&mut sampler, devices());
    read(&mut sampler, Subject::new("netdev", "eth0"));
    assert!(!sampler.schedule.is_woken(&devices()));
    tree.remove("sys/class/net/eth0");
    for woken in [true, false] {
        read(&mut sampler, Subject::new("netdev", "eth0"));
        assert_eq!(sampler.schedule.is_woken(&devices()), woken);
        // Once is enough.
        let _ = sampler.schedule.start_due(sampler.clock.now().plus(SECOND));
        sampler.schedule.end(
            &devices(),
            sampler.clock.now().plus(SECOND),
            SECOND,
            Reading::Value(()),
        );
    }
}

#[test]
fn a_bus_that_got_worse_is_looked_at_again() {
    let function = |class: &str, megatransfers, width, dead| PciFunction {
        class: class.into(),
        current: Reading::Value(PcieLink {
            megatransfers,
            width,
        }),
        config_dead: Reading::Value(dead),
        ..PciFunction::default()
    };
    let scan = |function: PciFunction| PciFacts {
        functions: BTreeMap::from([("0000:19:00.0".to_string(), function)]),
        ..PciFacts::default()
    };
    for (class, megatransfers, width, dead, want) in [
        ("020700", 32_000, 16, false, false),
        ("020700", 32_000, 8, false, true),
        ("020700", 16_000, 16, false, true),
        ("020700", 32_000, 16, true, true),
        // An idle GPU.
        ("030200", 2_500, 16, false, false),
        ("030200", 2_500, 8, false, true),
    ] {
        let before = scan(function(class, 32_000, 16, false));
        let now = scan(function(class, megatransfers, width, dead));
        let got = sources::worse_bus(Some(&before), &now);
        assert_eq!(got, want, "{class} {megatransfers} x{width} {dead}");
    }
}

#[tokio::test]
async fn only_what_changed_asks_for_another_verdict() {
    let tree = tree();
    let mut sampler = sampler(tree.host());
    assert_eq!(read(&mut sampler, devices()), News::Changed);
    assert_eq!(
        read(&mut sampler, link()),
        News::Changed,
        "the first answer"
    );
    assert_eq!(read(&mut sampler, link()), News::Nothing, "the same again");
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    tree.file(&format!("{port}/state"), "1: DOWN");
    assert_eq!(read(&mut sampler, link()), News::Changed);
    tree.file(&format!("{port}/counters/port_xmit_data"), "7");
    for (counter, value, want) in [
        ("symbol_error", "0", News::Changed),
        ("symbol_error", "0", News::Sampled),
        ("port_xmit_data", "8", News::Sampled),
        ("symbol_error", "1", News::Changed),
    ] {
        tree.file(&format!("{port}/counters/{counter}"), value);
        let counters = Subject::new("counters", "0000:19:00.0");
        assert_eq!(read(&mut sampler, counters), want, "{counter} {value}");
    }
}
