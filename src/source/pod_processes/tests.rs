//! Processes and namespaces as files, and this machine's own.

use super::*;
use crate::observe::NetCounters;
use crate::source::testtree::TestTree;
use proptest::prelude::*;

const A: &str = "0a1b2c3d-1111-2222-3333-444455556666";
const B: &str = "ffffffff-1111-2222-3333-444455556666";

fn process(tree: &TestTree, pid: u32, pod: &str) {
    tree.file(
        &format!("proc/{pid}/cgroup"),
        &format!("0::/kubepods/pod{pod}/x"),
    );
}

fn wanted(pods: &[&str]) -> BTreeSet<String> {
    pods.iter().map(|pod| (*pod).to_string()).collect()
}

#[test]
fn processes_by_pod() {
    let tree = TestTree::new();
    tree.dir("proc/self");
    tree.file("proc/1/cgroup", "0::/init.scope");
    for pid in [40, 7, 300] {
        process(&tree, pid, A);
    }
    process(&tree, 50, B);
    // Ended between listing and reading, and not to be read.
    tree.dir("proc/60");
    process(&tree, 70, B);
    tree.errno(3, "proc/60/cgroup");
    tree.errno(13, "proc/70/cgroup");
    let walk = walk(&tree.host(), &wanted(&[A, "none"]))
        .value()
        .unwrap()
        .clone();
    assert_eq!(walk.pods.keys().collect::<Vec<_>>(), [A]);
    assert_eq!(
        walk.pods[A],
        PodPids {
            count: 3,
            pids: vec![7, 40, 300]
        }
    );
    assert_eq!((walk.in_pods, walk.denied), (4, 1));
    assert_eq!(owner_of(&tree.host(), 60), Reading::Absent);
    assert_eq!(owner_of(&tree.host(), 61), Reading::Absent);
    assert!(matches!(owner_of(&tree.host(), 70), Reading::Failed(_)));
    assert_eq!(owner_of(&tree.host(), 1), Reading::Value(None));
}

#[test]
fn a_pod_of_a_thousand_processes_is_counted_but_not_kept() {
    let tree = TestTree::new();
    for pid in 1..=1000 {
        process(&tree, pid, A);
    }
    let walk = walk(&tree.host(), &wanted(&[A])).value().unwrap().clone();
    let pod = &walk.pods[A];
    assert_eq!(
        (pod.count, pod.pids.len(), pod.pids[0]),
        (1000, MAX_KEPT, 1)
    );
}

#[test]
fn without_procfs_nothing_is_known() {
    assert_eq!(
        walk(&TestTree::new().host(), &wanted(&[A])),
        Reading::Absent
    );
    assert_eq!(same_pid_namespace(&TestTree::new().host()), None);
}

#[test]
fn pid_namespaces() {
    for (status, want) in [
        ("Name:\tx\nNSpid:\t4711\n", Some(true)),
        ("Name:\tx\nNSpid:\t4711\t1\n", Some(false)),
        ("Name:\tx\n", None),
    ] {
        let tree = TestTree::new();
        tree.file("proc/self/status", status);
        assert_eq!(same_pid_namespace(&tree.host()), want);
    }
}

const SNMP: &str = "\
Ip: Forwarding DefaultTTL InReceives InHdrErrors ForwDatagrams InDelivers OutRequests
Ip: 2 64 1000 0 3 990 800
Tcp: RtoAlgorithm MaxConn InSegs OutSegs RetransSegs
Tcp: 1 -1 1500 900 7
Udp: InDatagrams OutDatagrams
Udp: 20 30
UdpLite: InDatagrams OutDatagrams
UdpLite: 0 1";
const SNMP6: &str = "\
Ip6InReceives                   \t600
Ip6OutRequests                  \t200
Ip6OutForwDatagrams             \t0
Ip6InOctets                     \t60000
Ip6OutOctets                    \t2000
Udp6OutDatagrams                \t4";
const NETSTAT: &str = "\
TcpExt: SyncookiesSent TCPOrigDataSent
TcpExt: 0 850
IpExt: InNoRoutes InOctets OutOctets
IpExt: 0 5000000 4000000";
const DEV: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    1140      10    0    0    0     0          0         0     1140      10    0    0    0     0       0          0
  eth0: 5000 40 0 0 0 0 0 0 6000 50 0 0 0 0 0 0
eth1:1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0";

#[test]
fn counters_of_a_namespace() {
    let want = NetCounters {
        ip_received_bytes: 5_060_000,
        ip_sent_bytes: 4_002_000,
        ip_received: 1600,
        ip_sent: 1000,
        ip_forwarded: 3,
        tcp_received: 1500,
        tcp_sent: 857,
        udp_sent: 35,
        loopback_received_bytes: 1000,
        loopback_sent_bytes: 1000,
        links_received_bytes: 5001,
        links_sent_bytes: 6003,
    };
    assert_eq!(net::parse(SNMP, SNMP6, NETSTAT, DEV), Some(want));
    // No IPv6 is none of its bytes; anything else that is missing is not zero.
    let v4 = net::parse(SNMP, "", NETSTAT, DEV).unwrap();
    assert_eq!((v4.ip_received, v4.ip_received_bytes), (1000, 5_000_000));
    assert_eq!(net::parse("", SNMP6, NETSTAT, DEV), None);
    assert_eq!(net::parse(SNMP, SNMP6, "", DEV), None);
    assert_eq!(
        net::parse(
            SNMP,
            SNMP6,
            NETSTAT,
            &DEV.replace(" 6000 50 0 0 0 0 0 0", "")
        ),
        None
    );
    assert_eq!(
        net::parse(&SNMP.replace(" 1500 ", " x "), SNMP6, NETSTAT, DEV),
        None
    );
}

#[test]
fn this_machine_s_own() {
    let host = Host::new("/");
    let own = std::process::id();
    let before = net::read(&host, own).value().copied().unwrap();
    // Something over lo, which is not traffic of a pod.
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut from, _) = server.accept().unwrap();
        std::io::copy(&mut from, &mut std::io::sink()).unwrap()
    });
    let mut to = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut to, &vec![1; 4 << 20]).unwrap();
    drop(to);
    assert_eq!(reader.join().unwrap(), 4 << 20);
    let after = net::read(&host, own).value().copied().unwrap();
    let moved = after.since(&before).unwrap();
    let on_lo = after.loopback_sent_bytes - before.loopback_sent_bytes;
    assert!(on_lo >= 4 << 20, "{on_lo}");
    // Other tests may talk, too; the 4 MiB are not among what left the machine.
    let all = after.ip_sent_bytes - before.ip_sent_bytes;
    assert!(
        all >= 4 << 20 && moved.ip.sent < (all - (3 << 20)) as f64,
        "{moved:?}"
    );

    assert_eq!(
        net::namespace(&host, own),
        tree::inode(&host, "proc/self/net/dev")
    );
    assert!(net::namespace(&host, own).is_some());
    assert_eq!(net::namespace(&host, u32::MAX), None);
    assert_eq!(same_pid_namespace(&host), Some(true));
    let walk = walk(&host, &wanted(&[])).value().unwrap().clone();
    assert!(walk.pods.is_empty());
}

proptest! {
    #[test]
    fn any_text_ends_without_panic(
        snmp in "(Ip: |Tcp: |InReceives|InSegs|[0-9 -]|\n|.){0,60}",
        dev in "(lo|:| |[0-9]|\n|.){0,60}",
    ) {
        let _ = net::parse(&snmp, &dev, &snmp, &dev);
        let _ = net::parse(SNMP, &snmp, NETSTAT, &format!("a\nb\n{dev}"));
        let _ = crate::source::device_checkpoint::parse(snmp.as_bytes());
    }
}

#[test]
fn names_by_uid() {
    let tree = TestTree::new();
    let logs = std::path::Path::new("var/log/pods");
    assert!(names(&tree.host(), logs).is_empty());
    for name in [
        "ml_train-0_0a1b-2c",
        "kube-system_etcd_0123abcd",
        "junk",
        "a__b",
        "a_b_c_d",
    ] {
        tree.dir(&format!("var/log/pods/{name}"));
    }
    let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
    let want = [
        ("0a1b-2c".to_string(), pair("ml", "train-0")),
        ("0123abcd".to_string(), pair("kube-system", "etcd")),
    ];
    assert_eq!(names(&tree.host(), logs), want.into());
}

#[test]
fn a_process_of_a_slurm_job_is_the_job_s() {
    let tree = TestTree::new();
    let cgroup = "0::/system.slice/slurmstepd.scope/job_12/step_0\n";
    tree.file("proc/10/cgroup", cgroup);
    let host = tree.host();
    assert_eq!(owner_of(&host, 10), Reading::Value(Some("job 12".into())));
    let walk = walk(&host, &["job 12".to_string()].into());
    assert_eq!(walk.into_value().unwrap().pods["job 12"].pids, [10]);
}
