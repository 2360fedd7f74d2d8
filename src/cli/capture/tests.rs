use super::Summary;
use crate::config::Config;
use crate::host::Host;
use crate::observe::{PmaSkip, Reading};
use crate::source::counters::CounterReader;
use crate::source::link::LinkReader;
use crate::source::testtree::TestTree;
use crate::source::{gids, gpudirect, infiniband, netdev, pci, replay, routes, tree};
use crate::units::{DeviceKey, PortKey};
use std::path::Path;

const PORT: &str = "sys/class/infiniband/mlx5_0/ports/1";

/// A node with one of each odd thing.
fn node() -> TestTree {
    let tree = TestTree::new();
    tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
    tree.mlx5("mlx5_1", "0000:15:01.0", "0000:19:00.2");
    let vf = "sys/bus/pci/devices/0000:19:00.2";
    tree.file(&format!("{vf}/device"), "0x101e");
    tree.link(&format!("{vf}/physfn"), "../0000:19:00.0");
    tree.errno(
        22,
        "sys/class/infiniband/mlx5_1/ports/1/counters/symbol_error",
    );
    tree.files(
        PORT,
        &[
            ("gids/0", "fe80:0000:0000:0000:5054:00ff:fe12:3456"),
            ("gids/1", "0000:0000:0000:0000:0000:0000:0000:0000"),
            ("gid_attrs/types/0", "IB/RoCE v1"),
            ("gid_attrs/types/1", ""),
            ("gid_attrs/ndevs/0", ""),
        ],
    );
    tree.errno(22, &format!("{PORT}/gid_attrs/types/1"));
    tree.errno(22, &format!("{PORT}/gid_attrs/ndevs/0"));
    tree.remove(&format!("{PORT}/hw_counters/out_of_sequence"));
    tree.dir(&format!("{PORT}/hw_counters/out_of_sequence"));
    tree.bytes(&format!("{PORT}/phys_state"), &[0xff, 0xfe]);
    let efa = tree.pci("0000:4e:01.0", "0000:4f:00.0", ("1d0f", "efa2"), "efa");
    tree.rdma(
        &efa,
        "rdmap79s0",
        &[
            ("node_type", "7: unspecified"),
            ("ports/1/state", "4: ACTIVE"),
            ("ports/1/link_layer", "Unknown"),
            ("hw_counters/no_completion_cmds", "0"),
        ],
    );
    tree.file(&format!("{efa}/p2p"), "");
    tree.files(
        "sys/devices/virtual/infiniband/rxe0",
        &[
            ("node_type", "1: CA"),
            ("parent", "eth0"),
            ("ports/1/state", "4: ACTIVE"),
        ],
    );
    tree.link(
        "sys/class/infiniband/rxe0",
        "../../devices/virtual/infiniband/rxe0",
    );
    let gpu = tree.pci("0000:15:01.0", "0000:18:00.0", ("10de", "2330"), "nvidia");
    tree.file(&format!("{gpu}/class"), "0x030200");
    tree.bytes(&format!("{gpu}/config"), &[0xff; 256]);
    tree.files(
        "sys/devices/pci0000:15/0000:15:01.0",
        &[("class", "0x060400"), ("vendor", "0x8086")],
    );
    tree.link(
        "sys/bus/pci/devices/0000:15:01.0",
        "../../../devices/pci0000:15/0000:15:01.0",
    );
    tree.files(
        "sys/devices/virtual/net/eth0",
        &[
            ("carrier", "1"),
            ("flags", "0x1003"),
            ("address", "52:54:00:00:00:01"),
        ],
    );
    tree.link("sys/class/net/eth0", "../../devices/virtual/net/eth0");
    tree.errno(22, "sys/class/net/eth0/speed");
    tree.file("sys/devices/virtual/net/eth0/speed", "");
    tree.file(
        "selvage/ethtool/eth0",
        "driver: mlx5_core\nrx_prio3_pause: 5",
    );
    // As on a live kernel: by way of two links.
    tree.link("proc/net", "self/net");
    tree.link("proc/self", "17");
    tree.file(
        "proc/17/net/route",
        "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000",
    );
    tree.file("proc/cmdline", "root=UUID=hidden iommu=pt");
    tree.file(
        "proc/cpuinfo",
        "vendor_id : X\nserial : hidden\n\nvendor_id : X",
    );
    tree.file("proc/modules", "nvidia 1 0 - Live 0x0 (OE)");
    tree.file("proc/sys/kernel/random/boot_id", "one-boot");
    tree.file(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.06",
    );
    tree.file(
        "proc/driver/nvidia/gpus/0000:18:00.0/information",
        "Model: H100",
    );
    tree.dir("sys/kernel/mm/memory_peers/nv_mem");
    tree.file(
        "dev/kmsg",
        "6,1,10,-;mlx5_core 0000:19:00.0: Port module event\n SUBSYSTEM=pci\n14,2,20,-;user space: hidden",
    );
    tree
}

/// Everything that the sources say of a root.
fn all(host: &Host) -> String {
    let devices = match infiniband::enumerate(host) {
        Reading::Value(devices) => devices,
        other => panic!("{other:?}"),
    };
    let mut text = String::new();
    for device in &devices {
        text += &format!("{device:#?}\n");
        text += &format!("{:#?}\n", LinkReader::new(device, 1).read(host, &[]));
        let mut counters = CounterReader::new(device, false, |_| None);
        text += &format!("{:#?}\n", counters.read(host, Default::default()));
        for port in &device.ports {
            text += &format!("{:#?}\n", gids::read(host, device, port.number));
        }
    }
    for interface in netdev::of_rdma(host, &devices) {
        text += &format!(
            "{interface} {:#?}\n",
            netdev::read(host, &interface, &mut Default::default())
        );
        text += &format!("{:#?}\n", replay::ethtool(host, &interface));
    }
    let rdma: Vec<_> = devices.iter().filter_map(|device| device.pci).collect();
    text += &format!("{:#?}\n", routes::default_route_devices(host));
    text += &format!("{:#?}\n", pci::scan(host, &rdma));
    text += &format!("{:#?}\n", gpudirect::read(host));
    text.replace(&host.root().display().to_string(), "ROOT")
}

fn capture(
    host: &Host,
    out: &Path,
    config: Config,
    restricted: Vec<PortKey>,
) -> Result<Summary, String> {
    crate::cli::runtime::on_runtime(super::capture(host, out, config, restricted)).unwrap()
}

fn captured(tree: &TestTree) -> (tempfile::TempDir, Summary) {
    let out = tempfile::tempdir().unwrap();
    let summary = capture(&tree.host(), out.path(), Config::default(), Vec::new()).unwrap();
    (out, summary)
}

#[test]
fn a_replay_says_what_the_node_said() {
    let tree = node();
    let (out, summary) = captured(&tree);
    assert_eq!(summary.troubles, Vec::<String>::new());
    assert_eq!(summary.left_out, 0);
    assert!(summary.errnos >= 2, "{summary:?}");
    let original = all(&tree.host());
    let replay = all(&Host::new(out.path()));
    for (want, got) in original.lines().zip(replay.lines()) {
        assert_eq!(got, want);
    }
    assert_eq!(replay.lines().count(), original.lines().count());
    // And a capture of the capture says it again.
    let again = tempfile::tempdir().unwrap();
    capture(
        &Host::new(out.path()),
        again.path(),
        Config::default(),
        Vec::new(),
    )
    .unwrap();
    assert_eq!(all(&Host::new(again.path())), original);
}

#[test]
fn private_text_stays_out() {
    let (out, _) = captured(&node());
    let mut texts = String::new();
    let mut stack = vec![out.path().to_path_buf()];
    while let Some(dir) = stack.pop() {
        #[expect(clippy::disallowed_methods, reason = "the test's own directory")]
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let kind = std::fs::symlink_metadata(&path).unwrap();
            if kind.is_dir() {
                stack.push(path);
            } else if kind.is_file() {
                texts += &String::from_utf8_lossy(&std::fs::read(path).unwrap());
            }
        }
    }
    assert!(texts.contains("iommu=pt"));
    assert!(texts.contains("Port module event"));
    for secret in ["hidden", "52:54:00", "010200C0"] {
        assert!(!texts.contains(secret), "{secret}");
    }
}

/// Without hardware addresses the replay could not tell the NIC below a virtual switch.
#[test]
fn the_nic_below_a_virtual_switch_is_named() {
    let tree = TestTree::new();
    let dir = tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
    tree.file(&format!("{dir}/ports/1/link_layer"), "Ethernet");
    tree.file(&format!("{dir}/ports/1/gid_attrs/ndevs/0"), "eth0");
    for name in ["eth0", "br-ex", "ovs-system"] {
        let at = format!("devices/virtual/net/{name}");
        tree.file(&format!("sys/{at}/address"), "52:54:00:00:00:01");
        tree.link(&format!("sys/class/net/{name}"), &format!("../../{at}"));
    }
    tree.link("sys/devices/virtual/net/eth0/master", "../ovs-system");
    tree.file(
        "proc/net/route",
        "br-ex\t00000000\t010200C0\t0003\t0\t0\t0\t00000000",
    );
    let (out, _) = captured(&tree);
    for host in [tree.host(), Host::new(out.path())] {
        let routes = routes::default_route_devices(&host);
        let over = crate::source::ovs::route_over(&host, routes.value().unwrap(), "eth0");
        let over = over.map(|route| (route.port, route.sure));
        assert_eq!(over, Some(("br-ex".to_string(), true)));
    }
}

#[test]
fn closed_counters_are_not_opened() {
    let tree = node();
    let counters =
        |out: &tempfile::TempDir, file: &str| out.path().join(format!("{PORT}/counters/{file}"));
    let out = tempfile::tempdir().unwrap();
    let mut excluding = Config::default();
    excluding.counters.exclude = vec!["*".into()];
    capture(&tree.host(), out.path(), excluding, Vec::new()).unwrap();
    assert!(!counters(&out, "symbol_error").exists());
    let out = tempfile::tempdir().unwrap();
    let port = PortKey {
        device: DeviceKey("0000:19:00.0".into()),
        port: 1,
    };
    capture(&tree.host(), out.path(), Config::default(), vec![port]).unwrap();
    assert_eq!(std::fs::read(counters(&out, "symbol_error")).unwrap(), b"");
    let host = Host::new(out.path());
    let devices = infiniband::enumerate(&host);
    let device = &devices.value().unwrap()[0];
    let mut reader = CounterReader::new(device, false, |_| None);
    assert_eq!(
        reader.read(&host, Default::default())[0].1.pma_skipped,
        Some(PmaSkip::Restricted),
        "the replay meets the same refusal"
    );
}

#[test]
fn only_new_or_empty_directories() {
    let tree = node();
    let out = tempfile::tempdir().unwrap();
    std::fs::write(out.path().join("theirs"), "x").unwrap();
    let refused = |path: &Path| {
        let captured = capture(&tree.host(), path, Config::default(), Vec::new());
        captured.unwrap_err().replace(path.to_str().unwrap(), "it")
    };
    assert_eq!(
        refused(out.path()),
        "it is not empty; name a new or empty directory"
    );
    let file = out.path().join("theirs");
    assert_eq!(refused(&file), "it: File exists (os error 17)");
    let new = out.path().join("a/b");
    assert!(capture(&tree.host(), &new, Config::default(), Vec::new()).is_ok());
}

#[test]
fn an_empty_root_is_an_error() {
    let out = tempfile::tempdir().unwrap();
    let captured = capture(
        &TestTree::bare().host(),
        out.path(),
        Config::default(),
        Vec::new(),
    );
    let why = captured.unwrap_err();
    assert!(why.contains(" holds neither /sys nor /proc"), "{why}");
}

#[test]
fn a_replay_learns_what_was_left_out() {
    let tree = node();
    let secret = tempfile::tempdir().unwrap();
    std::fs::write(secret.path().join("shadow"), "secret").unwrap();
    let outside = secret.path().join("shadow");
    let state = format!("{PORT}/state");
    tree.remove(&state);
    nix::unistd::mkfifo(&tree.path(&state), nix::sys::stat::Mode::S_IRWXU).unwrap();
    tree.remove(&format!("{PORT}/rate"));
    tree.link(&format!("{PORT}/rate"), outside.to_str().unwrap());
    let (out, summary) = captured(&tree);
    assert_eq!(summary.troubles, Vec::<String>::new());
    let host = Host::new(out.path());
    for file in ["state", "rate"] {
        let path = format!("{PORT}/{file}");
        assert!(!out.path().join(&path).exists(), "{file}");
        let replayed = tree::read_text(&host, &path);
        assert!(
            matches!(replayed, Reading::Failed(_)),
            "{file} {replayed:?}"
        );
    }
}

#[test]
fn links_that_lead_out_are_left_out() {
    let tree = TestTree::new();
    tree.link("sys/class/infiniband/evil", "../../../../../../../etc");
    tree.link("sys/class/infiniband/absolute", "/etc");
    let (out, summary) = captured(&tree);
    assert_eq!(summary.links, 0);
    assert!(!out.path().join("sys/class/infiniband/evil").exists());
    assert!(!out.path().join("sys/class/infiniband/absolute").exists());
}
