//! The same where the kernel is real: namespaces of users, networks and mounts, limits, sockets.
//! What the machine does not allow fails the test; nothing is skipped.

use super::{Said, preflight};
use crate::support::{node, scratch};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Runs a shell script as root of a user, network and mount namespace of its own; `$R` is a
/// directory of its own, `$SELVAGE` the program.
fn unshared(script: &str, root: &Path, variables: &[(&str, &str)]) -> Said {
    let output = Command::new("unshare")
        .args(["-Urnm", "sh", "-euc", script])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("R", root)
        .env("SELVAGE", env!("CARGO_BIN_EXE_selvage"))
        .envs(variables.iter().copied())
        .output()
        .expect("unshare runs");
    Said::of(&output)
}

/// A simulated node's devices below a real kernel's sysfs, `/dev/null` for uverbs nodes, the real
/// `/proc`, and an own `/dev/shm` of `$SHM`.
const NODE: &str = "
    for d in class devices bus module; do mkdir -p $R/keep; mv $R/sys/$d $R/keep/$d; done
    rm -rf $R/sys $R/proc; mkdir $R/sys $R/proc $R/dev/shm
    mount -t sysfs none $R/sys
    for d in class devices bus module; do mount --bind $R/keep/$d $R/sys/$d; done
    mount --rbind /proc $R/proc
    mount -t tmpfs -o size=${SHM:-512m} none $R/dev/shm
    for i in 0 1 2 3 4 5 6 7; do mount --bind /dev/null $R/dev/infiniband/uverbs$i; done
    ip link set lo up
";

fn on_node(more: &str, args: &str, variables: &[(&str, &str)]) -> Said {
    let (dir, _node) = node("h100_roce");
    let script = format!(
        "{NODE}\n{more}\nrc=0; $SELVAGE preflight -o json --timeout 20s --host-root $R {args} || rc=$?; exit $rc"
    );
    unshared(&script, dir.path(), variables)
}

#[test]
fn real_nodes_open_and_a_plain_file_is_none() {
    let job: &[(&str, &str)] = &[("NCCL_IB_HCA", "mlx5")];
    let said = on_node("", "--gpus 1", job);
    assert_eq!(said.told("uverbs"), "ok", "{}", said.item("uverbs"));
    assert_eq!(said.told("rdma_ports"), "ok");
    assert_eq!(said.told("gid_index"), "ok");
    let said = on_node("umount $R/dev/infiniband/uverbs3", "--gpus 1", job);
    assert_eq!(said.told("uverbs"), "degraded UverbsPartly");
    let said = on_node("mount -t tmpfs none $R/dev/infiniband", "--gpus 1", job);
    assert_eq!(said.told("uverbs"), "failing NoUverbs");
    assert_eq!(said.code, 2);
}

#[test]
fn shared_memory_of_a_real_tmpfs() {
    for (size, gpus, want) in [
        ("512m", "8", "degraded ShmSmall"),
        ("64m", "8", "failing ShmTooSmall"),
        ("64m", "0", "degraded ShmSmall"),
    ] {
        let said = on_node("", &format!("--gpus {gpus}"), &[("SHM", size)]);
        assert_eq!(said.told("shm"), want, "{size} {gpus}");
    }
    let said = on_node(
        "dd if=/dev/zero of=$R/dev/shm/full bs=1M count=500 2>/dev/null",
        "--gpus 8",
        &[],
    );
    assert_eq!(said.told("shm"), "failing ShmTooSmall");
    assert!(said.item("shm")["evidence"]["free_bytes"].as_u64().unwrap() < 16 << 20);
}

#[test]
fn pinned_memory_by_real_limits() {
    // In a user namespace of its own no capability lifts the limit.
    let said = on_node("ulimit -l 64", "", &[("NCCL_IB_HCA", "mlx5")]);
    assert_eq!(said.told("memlock"), "failing MemlockTooLow");
    assert_eq!(said.item("memlock")["evidence"]["memlock_bytes"], 65536);
    assert!(
        said.item("memlock")["remedy"]
            .as_str()
            .unwrap()
            .contains("hostUsers"),
        "{}",
        said.item("memlock")
    );
    let said = on_node("ulimit -l 0", "", &[("NCCL_IB_HCA", "mlx5")]);
    assert_eq!(said.item("memlock")["evidence"]["memlock_bytes"], 0);
}

#[test]
fn interfaces_of_a_real_network_namespace() {
    let dir = scratch();
    let many: &[(&str, &str)] = &[("WORLD_SIZE", "16"), ("LOCAL_WORLD_SIZE", "8")];
    let look = |script: &str, more: &[(&str, &str)]| {
        let script =
            format!("{script}\nrc=0; $SELVAGE preflight -o json --timeout 20s || rc=$?; exit $rc");
        unshared(&script, dir.path(), &[many, more].concat())
    };
    let said = look("", &[]);
    assert_eq!(said.told("socket_ifname"), "failing NoInterface");
    let said = look("ip link set lo up", &[]);
    assert_eq!(said.told("socket_ifname"), "failing LocalInterface");
    let said = look(
        "ip link set lo up",
        &[("NCCL_SOCKET_IFNAME", "lo"), ("WORLD_SIZE", "8")],
    );
    assert_eq!(said.told("socket_ifname"), "ok");
    let said = look("ip link set lo up", &[("GLOO_SOCKET_IFNAME", "eth0")]);
    assert_eq!(said.told("gloo_ifname"), "failing NoInterface");
    let said = look("ip link set lo up", &[("GLOO_SOCKET_IFNAME", "lo")]);
    assert_eq!(said.told("gloo_ifname"), "failing LocalInterface");
}

#[test]
fn of_two_interfaces_the_one_with_ipv4_comes_first() {
    let dir = scratch();
    // Two ends each, up: they have a link, and fe80 of their own.
    let script = "
        ip link set lo up
        ip link add rail0 type veth peer name far0
        ip link add eth0 type veth peer name far1
        for name in rail0 far0 eth0 far1; do ip link set $name addrgenmode none; ip link set $name up; done
        ip addr add fe80::a/64 dev rail0 nodad
        $ADDRESS
        rc=0; $SELVAGE preflight -o json --timeout 20s || rc=$?; exit $rc";
    let look = |address: &str| {
        let script = script.replace("$ADDRESS", address);
        let many = [("WORLD_SIZE", "16"), ("LOCAL_WORLD_SIZE", "8")];
        unshared(&script, dir.path(), &many)
    };
    let said = look("ip addr add 10.9.0.5/24 dev eth0");
    let item = said.item("socket_ifname");
    assert_eq!(said.told("socket_ifname"), "ok", "{item}");
    assert_eq!(
        item["evidence"]["selected"],
        serde_json::json!(["eth0", "rail0"])
    );
    let said = look("ip addr add 2001:db8::5/64 dev eth0 nodad");
    assert_eq!(said.told("socket_ifname"), "degraded LinkLocalAddress");
}

#[test]
fn a_home_that_hangs_costs_its_own_file_only() {
    let dir = scratch();
    // A FUSE file system that nobody serves: whoever looks into it waits.
    let script = "
        ip link set lo up; ip link add eth0 type veth peer name far0
        ip link set far0 up; ip link set eth0 up; ip addr add 10.9.0.5/24 dev eth0
        mkdir $R/home
        exec 3<>/dev/fuse
        mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 none $R/home
        rc=0; HOME=$R/home $SELVAGE preflight -o json --timeout 20s 3<&- || rc=$?; exit $rc";
    let said = unshared(script, dir.path(), &[]);
    let settings = said.item("nccl_settings");
    assert_eq!(said.told("nccl_settings"), "unknown SettingsUnreadable");
    assert!(
        settings["message"]
            .as_str()
            .unwrap()
            .contains("/home/.nccl.conf: no answer in time"),
        "{settings}"
    );
    assert_eq!(said.told("socket_ifname"), "ok");
    for item in ["shm", "memlock", "net_plugin", "uverbs"] {
        let reason = said.told(item);
        assert!(
            !reason.ends_with("Unreadable"),
            "{item}: {}",
            said.item(item)
        );
    }
}

#[test]
fn a_master_that_no_network_leads_to() {
    let dir = scratch();
    let look = |script: &str, address: &str| {
        let script =
            format!("{script}\nrc=0; $SELVAGE preflight -o json --timeout 1s || rc=$?; exit $rc");
        let variables = [
            ("MASTER_ADDR", address),
            ("MASTER_PORT", "29500"),
            ("RANK", "1"),
        ];
        unshared(&script, dir.path(), &variables)
    };
    let said = look("", "train-0.nowhere.invalid");
    assert_eq!(said.told("master"), "degraded MasterUnresolvable");
    assert!(
        said.item("master")["message"]
            .as_str()
            .unwrap()
            .contains("it may yet"),
        "{}",
        said.item("master")
    );
    let said = look("", "10.99.0.1");
    assert_eq!(said.told("master"), "degraded MasterUnreachable");
    // Packets that vanish.
    let said = look(
        "ip link set lo up; ip addr add 10.98.0.1/32 dev lo; ip route add 10.99.0.1/32 dev lo src 10.98.0.1",
        "10.99.0.1",
    );
    assert_eq!(
        said.told("master"),
        "degraded MasterSilent",
        "{}",
        said.item("master")
    );
}

#[test]
fn a_master_that_listens_or_not_yet() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let look = |variables: &[(&str, &str)]| {
        let mut all = vec![("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", port.as_str())];
        all.extend(variables);
        Said::of(
            &preflight(&all, &["-o", "json", "--timeout", "20s"])
                .output()
                .unwrap(),
        )
    };
    let said = look(&[("RANK", "1")]);
    assert_eq!(said.told("master"), "ok");
    assert!(
        said.item("master")["message"]
            .as_str()
            .unwrap()
            .contains("is listening")
    );
    // Not across nodes.
    let said = look(&[("RANK", "1"), ("NNODES", "2"), ("NODE_RANK", "1")]);
    assert_eq!(said.told("master"), "failing MasterIsLoopback");
    drop(listener);
    let said = look(&[("RANK", "1")]);
    assert_eq!(said.told("master"), "skipped MasterNotListening");
    // Rank 0 is not to reach itself.
    let said = look(&[("RANK", "0")]);
    assert_eq!(said.told("master"), "ok");
}

/// Two rails of one subnet, each a pair of veths whose other end hangs on a bridge in the peer's
/// namespace; and the MAC addresses that the peer learns for the rails' addresses.
const RAILS: &str = "
    mkdir -p $R/proc; mount --rbind /proc $R/proc
    ip link set lo up
    unshare -n sleep 60 & P=$!
    until [ $(readlink /proc/$P/ns/net) != $(readlink /proc/self/ns/net) ]; do :; done
    peer() { nsenter -t $P -n \"$@\"; }
    peer ip link add far type bridge; peer ip link set far up; peer ip addr add 10.9.0.100/24 dev far
    n=10
    for rail in enp24s0np0 enp64s0np0; do
        ip link add s$n type veth peer name $rail; ip link set s$n netns $P; peer ip link set s$n master far up
        ip link set $rail address 02:00:00:00:00:$n; ip link set $rail up; ip addr add 10.9.0.$n/24 dev $rail
        n=$((n + 1))
    done
    echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter
    for rail in enp24s0np0 enp64s0np0; do echo 0 > /proc/sys/net/ipv4/conf/$rail/rp_filter; done
    eval \"$SETTINGS\"
    for n in 10 11; do
        until peer ip neigh show 10.9.0.$n | grep -q lladdr; do
            peer bash -c \"echo >/dev/udp/10.9.0.$n/9\"; sleep 0.1
        done
        peer ip neigh show 10.9.0.$n | cut -d' ' -f1,5
    done >$R/learned
    rc=0; $SELVAGE check -o json --host-root $R || rc=$?
    kill $P # and with its namespace the rails go
    exit $rc
";

/// What the peer learned, and the reasons about the rails' settings.
fn arp(settings: &str) -> (String, Vec<String>) {
    let (dir, _node) = node("h100_roce");
    // Process 1 of the script's own PID namespace has its network.
    let output = Command::new("unshare")
        .args(["-Urnmpf", "--mount-proc", "sh", "-euc", RAILS])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("R", dir.path())
        .env("SELVAGE", env!("CARGO_BIN_EXE_selvage"))
        .env("SETTINGS", settings)
        .output()
        .expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: serde_json::Value = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    let findings = report["findings"].as_array().unwrap().iter();
    let of_routing = findings.filter(|finding| finding["check"] == "ip_routing");
    let learned = std::fs::read_to_string(dir.path().join("learned")).unwrap();
    let text = |finding: &serde_json::Value| finding["reason"].as_str().unwrap().to_string();
    (learned, of_routing.map(text).collect())
}

#[test]
fn rails_of_one_subnet_answer_for_each_other_unless_they_are_told_not_to() {
    let (learned, reasons) = arp("");
    assert_eq!(reasons, ["SubnetShared", "SubnetShared"], "{learned}");
    let macs: Vec<&str> = learned
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .collect();
    assert_eq!(macs.len(), 2, "{learned}");
    assert_eq!(macs[0], macs[1], "one rail answers for both: {learned}");
    assert!(macs[0].starts_with("02:00:00:00:00:1"), "{learned}");
    let right = "10.9.0.10 02:00:00:00:00:10\n10.9.0.11 02:00:00:00:00:11\n";
    let settings = "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore; echo 2 >/proc/sys/net/ipv4/conf/all/arp_announce";
    let (learned, reasons) = arp(settings);
    assert_eq!((learned.as_str(), reasons.len()), (right, 0), "{reasons:?}");
    // The test of the way back needs a rule for each address.
    let strict =
        "for r in enp24s0np0 enp64s0np0; do echo 1 >/proc/sys/net/ipv4/conf/$r/rp_filter; done;";
    let (learned, reasons) = arp(strict);
    assert_eq!(reasons, ["SubnetShared", "SubnetShared"], "{learned}");
    assert_ne!(learned, right);
    let rules =
        "ip rule add from 10.9.0.10 lookup 110; ip route add 10.9.0.0/24 dev enp24s0np0 table 110;
        ip rule add from 10.9.0.11 lookup 111; ip route add 10.9.0.0/24 dev enp64s0np0 table 111";
    let (learned, reasons) = arp(&format!("{strict} {rules}"));
    assert_eq!((learned.as_str(), reasons.len()), (right, 0), "{reasons:?}");
}
