//! The watch over a tree of files, with queue pairs told by hand.

use super::rdma_view::Usage;
use super::*;
use crate::observe::{OwnedQps, PodContainer};
use crate::source::device_checkpoint::Allocations;
use crate::source::netlink::rdma::queue_pairs::{QpKind, QpOwner, QueuePair};
use crate::source::testtree::TestTree;

const A: &str = "aaaaaaaa-1111-2222-3333-444455556666";
const B: &str = "bbbbbbbb-1111-2222-3333-444455556666";
const C: &str = "cccccccc-1111-2222-3333-444455556666";

/// Answers by hand, and counts lists.
#[derive(Debug, Default)]
struct Fake {
    devices: Vec<Usage>,
    qps: Vec<QueuePair>,
    lists: u32,
    fails: bool,
    mode: Option<&'static str>,
}

impl RdmaView for Fake {
    fn devices(&mut self) -> Result<(Vec<Usage>, Option<bool>), String> {
        match self.mode {
            None => Ok((self.devices.clone(), Some(false))),
            Some(why) => Err(why.into()),
        }
    }
    fn queue_pairs(&mut self, _: &Usage) -> Result<Vec<QueuePair>, String> {
        self.lists += 1;
        match self.fails {
            true => Err("no answer in time".into()),
            false => Ok(self.qps.clone()),
        }
    }
}

fn device(qps: u64) -> Usage {
    Usage {
        index: 0,
        name: "mlx5_0".into(),
        ports: 1,
        qps,
        contexts: Some(1),
    }
}

fn qp(kind: QpKind, owner: QpOwner) -> QueuePair {
    QueuePair {
        kind,
        ready: true,
        owner,
    }
}

/// `mb` megabytes received by TCP so far.
fn namespace(tree: &TestTree, pid: u32, mb: u64) {
    let net = format!("proc/{pid}/net");
    tree.files(
        &net,
        &[
            ("snmp", &format!("Ip: InReceives OutRequests ForwDatagrams\nIp: {0} {0} 0\nTcp: InSegs RetransSegs\nTcp: {0} 0\nUdp: OutDatagrams\nUdp: 0", mb * 100)),
            ("netstat", &format!("TcpExt: TCPOrigDataSent\nTcpExt: {mb}00\nIpExt: InOctets OutOctets\nIpExt: {mb}000000 0")),
            ("dev", "Inter-|\n face |\n    lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"),
        ],
    );
}

fn process(tree: &TestTree, pid: u32, pod: &str, mb: u64) {
    tree.file(
        &format!("proc/{pid}/cgroup"),
        &format!("0::/kubepods/pod{pod}/x"),
    );
    namespace(tree, pid, mb);
}

struct Node {
    tree: TestTree,
    watch: TcpWatch<Fake>,
    pods: BTreeMap<String, GpuPod>,
    now: u64,
}

impl Node {
    fn new(qps: u64) -> Self {
        let tree = TestTree::new();
        tree.file("proc/self/status", "NSpid:\t5");
        namespace(&tree, 1, 0);
        let view = Fake {
            devices: vec![device(qps)],
            ..Fake::default()
        };
        let pods = [A, B, C].map(|uid| {
            (
                uid.to_string(),
                GpuPod {
                    gpus: 8,
                    ..GpuPod::default()
                },
            )
        });
        Node {
            tree,
            watch: TcpWatch::new(view, Vec::new()),
            pods: pods.into(),
            now: 0,
        }
    }

    fn look(&mut self) -> TrafficLook {
        self.now += 30;
        let host = self.tree.host();
        let now = Millis::from_secs(self.now);
        self.watch.look(&host, &self.pods, 1_000_000, now)
    }
}

fn owned(look: &TrafficLook, pod: &str) -> Option<(u32, u32)> {
    match &look.pods[pod].qps {
        PodQps::Known(owned) => Some((owned.rc, owned.other)),
        _ => None,
    }
}

#[test]
fn rates_and_queue_pairs_by_pod() {
    let mut node = Node::new(40);
    process(&node.tree, 10, A, 0);
    process(&node.tree, 20, B, 0);
    process(&node.tree, 21, B, 0);
    // A thread of B: not in the list of /proc, found by its number.
    node.watch.view.qps = vec![
        qp(QpKind::Management, QpOwner::Kernel),
        qp(QpKind::Rc, QpOwner::Task(21)),
        qp(QpKind::Connected, QpOwner::Task(21)),
        qp(QpKind::Datagram, QpOwner::Task(20)),
        qp(QpKind::Rc, QpOwner::Task(1)),
    ];
    node.tree.file("proc/1/cgroup", "0::/init.scope");
    let first = node.look();
    assert_eq!(first.pods[A].per_second, None);
    process(&node.tree, 10, A, 300);
    let look = node.look();
    assert!((look.pods[A].per_second.unwrap().tcp.received - 10e6).abs() < 1.0);
    assert_eq!(look.pods[A].host_network, Some(false));
    assert_eq!(look.pods[B].processes, 2);
    // Only the checkpoint knows of C, which has ended.
    assert!(!look.pods.contains_key(C));
    assert_eq!(owned(&look, A), Some((0, 0)));
    assert_eq!(owned(&look, B), Some((1, 1)));
    assert_eq!(
        look.pods[B].qps,
        PodQps::Known(OwnedQps {
            rc: 1,
            other: 1,
            datagram: 1,
            ready: 2,
            devices: vec!["mlx5_0".into()]
        })
    );
}

#[test]
fn queue_pairs_are_listed_only_on_demand() {
    // Thousands of them: not without somebody above the threshold.
    let mut node = Node::new(4000);
    process(&node.tree, 10, A, 0);
    for _ in 0..3 {
        let look = node.look();
        assert_eq!(look.pods[A].qps, PodQps::NotListed);
    }
    assert_eq!(node.watch.view.lists, 0);
    // A busy pod that owns some: once, and again only when the numbers move or its owner ends.
    process(&node.tree, 11, A, 0);
    node.watch.view.qps = vec![qp(QpKind::Rc, QpOwner::Task(11))];
    let mut mb = 0;
    let mut busy = |node: &mut Node| {
        mb += 900;
        namespace(&node.tree, 10, mb);
        namespace(&node.tree, 11, mb);
        node.look();
        node.watch.view.lists
    };
    // A namespace more is another sum: the first rate comes after that.
    assert_eq!(
        (busy(&mut node), busy(&mut node), busy(&mut node)),
        (0, 1, 1)
    );
    node.watch.view.devices = vec![device(4001)];
    assert_eq!((busy(&mut node), busy(&mut node)), (2, 2));
    node.tree.remove("proc/11");
    process(&node.tree, 12, A, 0);
    node.watch.view.qps = vec![qp(QpKind::Rc, QpOwner::Task(12))];
    busy(&mut node);
    assert_eq!(busy(&mut node), 3);
}

#[test]
fn few_queue_pairs_are_listed_for_all() {
    let mut node = Node::new(8);
    process(&node.tree, 10, A, 0);
    node.watch.view.qps = vec![qp(QpKind::Rc, QpOwner::Task(10))];
    assert_eq!(owned(&node.look(), A), Some((1, 0)));
    node.look();
    assert_eq!(node.watch.view.lists, 1);
    // No process has the device open: none to list.
    node.watch.view.devices[0].contexts = Some(0);
    assert_eq!(node.look().pods[A].qps, PodQps::NotListed);
    assert_eq!(node.watch.view.lists, 1);
}

#[test]
fn owners_that_cannot_be_told() {
    for (owner, status, fails) in [
        (QpOwner::Hidden, "NSpid:\t5", false),
        // Ended meanwhile.
        (QpOwner::Task(99), "NSpid:\t5", false),
        (QpOwner::Task(20), "NSpid:\t5\t1", false),
        (QpOwner::Task(20), "Name:\tx", false),
        (QpOwner::Task(20), "NSpid:\t5", true),
    ] {
        let mut node = Node::new(8);
        process(&node.tree, 10, A, 0);
        process(&node.tree, 20, B, 0);
        node.tree.file("proc/self/status", status);
        node.watch.view.qps = vec![qp(QpKind::Rc, owner.clone())];
        node.watch.view.fails = fails;
        let look = node.look();
        assert!(
            matches!(look.pods[A].qps, PodQps::Unknown(_)),
            "{owner:?} {status} {fails}"
        );
    }
}

#[test]
fn devices_that_may_be_hidden() {
    let mut node = Node::new(8);
    process(&node.tree, 10, A, 0);
    let look = node.look();
    assert_eq!(
        (look.node.exclusive, look.node.unknown),
        (Some(false), None)
    );
    node.watch.view.mode = Some("no answer in time");
    let look = node.look();
    assert!(look.node.unknown.is_some());
    assert!(matches!(look.pods[A].qps, PodQps::Unknown(_)));
}

#[test]
fn the_node_s_own_namespace_is_told_by_its_files() {
    let mut node = Node::new(8);
    process(&node.tree, 10, A, 0);
    process(&node.tree, 20, B, 0);
    // One file under two names, as one namespace is.
    std::fs::remove_file(node.tree.path("proc/20/net/dev")).unwrap();
    std::fs::hard_link(
        node.tree.path("proc/1/net/dev"),
        node.tree.path("proc/20/net/dev"),
    )
    .unwrap();
    let look = node.look();
    assert_eq!(look.pods[A].host_network, Some(false));
    assert_eq!(look.pods[B].host_network, Some(true));
    // Where the first process is not seen, only the API server may know.
    node.tree.remove("proc/1");
    node.pods.get_mut(A).unwrap().host_network = Some(false);
    let look = node.look();
    assert_eq!(
        (look.pods[A].host_network, look.pods[B].host_network),
        (Some(false), None)
    );
}

#[test]
fn a_pod_whose_counters_cannot_be_read() {
    let mut node = Node::new(8);
    process(&node.tree, 10, A, 0);
    node.tree.errno(13, "proc/10/net/snmp");
    process(&node.tree, 20, B, 0);
    node.tree.errno(13, "proc/20/cgroup");
    let look = node.look();
    assert!(look.pods[A].unreadable.as_ref().unwrap().contains("snmp"));
    assert!(!look.pods.contains_key(B));
}

#[test]
fn ports_move_what_their_counters_gain() {
    let mut node = Node::new(8);
    process(&node.tree, 10, A, 0);
    node.watch.view.qps = vec![qp(QpKind::Rc, QpOwner::Task(10))];
    let file = "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data";
    node.tree.file(file, "1000");
    assert_eq!(node.look().pods[A].rdma_per_second, None);
    node.tree.file(file, "1300");
    assert_eq!(node.look().pods[A].rdma_per_second, Some(40.0));
    assert_eq!(node.look().pods[A].rdma_per_second, Some(0.0));
}

#[test]
fn nothing_is_read_without_gpu_pods() {
    let mut node = Node::new(8);
    node.pods.clear();
    assert_eq!(node.look(), TrafficLook::default());
    assert_eq!(node.watch.view.lists, 0);
}

#[test]
fn pods_by_either_source() {
    let facts = |uid: &str, gpus| PodFacts {
        uid: uid.into(),
        namespace: "ml".into(),
        name: format!("pod-{uid}"),
        host_network: true,
        containers: [(
            "c".to_string(),
            PodContainer {
                gpus,
                ..PodContainer::default()
            },
        )]
        .into(),
        ..PodFacts::default()
    };
    let given = |resource: &str| {
        BTreeMap::from([("c".to_string(), BTreeMap::from([(resource.to_string(), 2)]))])
    };
    let checkpoint = Allocations::from([
        // The API server's word goes before it.
        ("a".to_string(), given("nvidia.com/gpu")),
        ("b".to_string(), given("nvidia.com/gpu")),
        ("c".to_string(), given("nvidia.com/gpu")),
        ("d".to_string(), given("rdma/ib")),
    ]);
    let names = BTreeMap::from([("c".to_string(), ("ns".to_string(), "x".to_string()))]);
    let pods = gpu_pods(&[facts("a", 8), facts("b", 0)], Some(&checkpoint), &names);
    assert_eq!(pods.keys().collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(
        (
            pods["a"].gpus,
            pods["a"].host_network,
            pods["a"].name.as_str()
        ),
        (8, Some(true), "pod-a")
    );
    assert_eq!(
        (
            pods["c"].gpus,
            pods["c"].host_network,
            pods["c"].name.as_str()
        ),
        (2, None, "x")
    );
}

#[test]
fn a_pod_without_processes_stays_while_no_other_is_seen() {
    let mut node = Node::new(8);
    let look = node.look();
    assert_eq!((look.pods.len(), look.pods[A].processes), (3, 0));
    // Nor is one left out that the API server tells of.
    process(&node.tree, 20, B, 0);
    node.pods.get_mut(A).unwrap().host_network = Some(false);
    let look = node.look();
    assert_eq!(look.pods.keys().collect::<Vec<_>>(), [A, B]);
    // Those whose cgroups may not be read are not known at all.
    node.tree.errno(13, "proc/20/cgroup");
    let look = node.look();
    assert!(
        look.pods[B]
            .unreadable
            .as_ref()
            .unwrap()
            .contains("cgroups")
    );
}
