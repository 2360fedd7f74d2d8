use super::super::testing::*;
use super::{GRAPH, TOPOLOGY};
use crate::observe::{Library, Reading};

#[test]
fn which_network() {
    for (variables, want) in [
        (&[][..], "ok"),
        (&[("NCCL_NET", "IB")], "ok"),
        (&[("NCCL_NET", "ib")], "ok"),
        (&[("NCCL_NET", "Socket")], "degraded TcpConfigured"),
        (&[("NCCL_NET", "socket")], "degraded TcpConfigured"),
        (&[("NCCL_NET", "")], "failing NetNotAvailable"),
        (&[("NCCL_NET", "IB ")], "failing NetNotAvailable"),
        (&[("NCCL_NET", "AWS Libfabric")], "ok"),
        (&[("NCCL_IB_DISABLE", "1")], "degraded TcpConfigured"),
        (&[("NCCL_IB_DISABLE", "-1")], "degraded TcpConfigured"),
        (&[("NCCL_IB_DISABLE", "0")], "ok"),
        // A word is 0.
        (&[("NCCL_IB_DISABLE", "true")], "ok"),
        (&[("NCCL_IB_DISABLE", "")], "ok"),
        (
            &[("NCCL_IB_DISABLE", "1"), ("NCCL_NET", "IB")],
            "failing NetNotAvailable",
        ),
        // One node: no traffic leaves it.
        (&[("NCCL_NET", "Socket"), ("WORLD_SIZE", "8")], "ok"),
    ] {
        assert_eq!(
            verdict(&with(variables), "nccl_network"),
            want,
            "{variables:?}"
        );
    }
}

#[test]
fn a_file_of_nccl_is_named() {
    let mut facts = good();
    facts.environment.nccl_files.insert(
        "NCCL_NET".into(),
        ("Socket".into(), "/etc/nccl.conf".into()),
    );
    let item = item(&facts, "nccl_network");
    assert_eq!(item.reason, Some("TcpConfigured"));
    assert!(item.message.contains("/etc/nccl.conf"), "{}", item.message);
    assert!(item.remedy.contains("/etc/nccl.conf"), "{}", item.remedy);
}

#[test]
fn networks_that_are_not_there() {
    let mut facts = with(&[("NCCL_NET", "IB")]);
    facts.rdma = Reading::Value(Vec::new());
    assert_eq!(verdict(&facts, "nccl_network"), "failing NetNotAvailable");
    facts.rdma = fault(crate::observe::FaultKind::Denied);
    assert_eq!(verdict(&facts, "nccl_network"), "unknown RdmaUnreadable");
    // TCP asked for, and nothing better seen here: less than GPUs on several nodes want.
    let mut facts = with(&[("NCCL_NET", "Socket")]);
    facts.rdma = Reading::Value(Vec::new());
    assert_eq!(verdict(&facts, "nccl_network"), "degraded TcpConfigured");
    assert_eq!(verdict(&facts, "uverbs"), "skipped");
    facts.gpus = Reading::Value(0);
    assert_eq!(verdict(&facts, "nccl_network"), "ok");
    facts.gpus = Reading::Value(8);
    set(&mut facts, &[("WORLD_SIZE", "8")]);
    assert_eq!(verdict(&facts, "nccl_network"), "ok");
    assert_eq!(item(&facts, "nccl_network").evidence["network"], "Socket");
}

#[test]
fn ib_disable_does_not_bind_plugins() {
    let mut facts = with(&[("NCCL_IB_DISABLE", "1")]);
    facts.libraries.insert(
        "libnccl-net.so".into(),
        Library::Usable {
            path: "/opt/hpcx/libnccl-net.so".into(),
        },
    );
    assert_eq!(verdict(&facts, "nccl_network"), "ok");
    // HPC-X's has a switch of its own; both switches leave TCP.
    set(&mut facts, &[("NCCL_IBEXT_DISABLE", "1")]);
    assert_eq!(verdict(&facts, "nccl_network"), "degraded TcpConfigured");
    set(&mut facts, &[("NCCL_IB_DISABLE", "0")]);
    assert_eq!(verdict(&facts, "nccl_network"), "ok");
    set(&mut facts, &[("NCCL_IBEXT_DISABLE", "yes")]);
    assert_eq!(verdict(&facts, "nccl_settings"), "degraded NotANumber");
}

#[test]
fn settings_that_nccl_reads_otherwise() {
    for (variables, want) in [
        (&[][..], "ok"),
        (&[("NCCL_IB_DISABLE", "true")], "degraded NotANumber"),
        (&[("NCCL_IB_TC", "auto")], "degraded NotANumber"),
        (&[("NCCL_IB_TC", "106")], "ok"),
        (&[("NCCL_IB_TC", " 0x6a")], "ok"),
        (&[("NCCL_IB_TC", "")], "ok"),
        (
            &[("NCCL_BUFFSIZE", "99999999999999999999")],
            "degraded NotANumber",
        ),
        (&[("NCCL_P2P_DISABLE", "1")], "degraded P2pDisabled"),
        (&[("NCCL_P2P_DISABLE", "0")], "ok"),
        (&[("NCCL_SOCKET_FAMILY", "AF_INET")], "ok"),
        (
            &[("NCCL_SOCKET_FAMILY", "IPv4")],
            "degraded NotAnAddressFamily",
        ),
        (&[("NCCL_DEBUG", "INFO")], "ok"),
    ] {
        assert_eq!(
            verdict(&with(variables), "nccl_settings"),
            want,
            "{variables:?}"
        );
    }
    let mut facts = with(&[("NCCL_P2P_DISABLE", "1")]);
    facts.gpus = Reading::Value(1);
    assert_eq!(verdict(&facts, "nccl_settings"), "ok");
    let mut facts = good();
    facts.environment.unread = vec!["/home/a/.nccl.conf: no answer in time".into()];
    assert_eq!(
        verdict(&facts, "nccl_settings"),
        "unknown SettingsUnreadable"
    );
    set(&mut facts, &[("NCCL_IB_TC", "auto")]);
    assert_eq!(verdict(&facts, "nccl_settings"), "degraded NotANumber");
}

#[test]
fn files_that_are_not_there() {
    for (name, want) in [
        (TOPOLOGY, "degraded TopoFileMissing"),
        (GRAPH, "failing GraphFileMissing"),
    ] {
        let mut facts = with(&[(name, "/etc/topo.xml")]);
        // Not searched, like names relative to an unknown directory.
        assert_eq!(verdict(&facts, "nccl_settings"), "ok");
        let found = |reading| [(name.to_string(), reading)].into();
        facts.referenced_files = found(Reading::Value(()));
        assert_eq!(verdict(&facts, "nccl_settings"), "ok");
        facts.referenced_files = found(Reading::Absent);
        assert_eq!(verdict(&facts, "nccl_settings"), want);
        assert!(
            item(&facts, "nccl_settings")
                .message
                .contains("/etc/topo.xml")
        );
        facts.has_loader = false;
        assert_eq!(verdict(&facts, "nccl_settings"), "ok");
    }
}

#[test]
fn rails_that_are_not_there() {
    for (variables, want) in [
        (&[("NCCL_FASTRAK_IFNAME", "eth0,net1")][..], "ok"),
        (
            &[("NCCL_FASTRAK_IFNAME", "eth0,net1,net2")],
            "degraded NoRailInterface",
        ),
        (
            &[("NCCL_FASTRAK_IFNAME", "eth7,eth8")],
            "failing NoRailInterface",
        ),
        (
            &[("NCCL_FASTRAK_CTRL_DEV", "eth7")],
            "failing NoRailInterface",
        ),
        (
            &[("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "eth0, net1")],
            "degraded NoRailInterface",
        ),
    ] {
        let mut facts = with(variables);
        facts.rdma = Reading::Value(Vec::new());
        assert_eq!(verdict(&facts, "nccl_settings"), want, "{variables:?}");
    }
    // Settings of another platform's plugin do no harm on verbs.
    let mut facts = with(&[("NCCL_FASTRAK_IFNAME", "eth7")]);
    assert_eq!(verdict(&facts, "nccl_settings"), "ok");
    // Names are known from sysfs, too.
    facts.rdma = Reading::Value(Vec::new());
    facts.interfaces = Reading::NotObservable;
    assert_eq!(verdict(&facts, "nccl_settings"), "ok");
    facts.links = Reading::Value([("eth1".to_string(), None)].into());
    assert_eq!(verdict(&facts, "nccl_settings"), "failing NoRailInterface");
    assert_eq!(
        item(&facts, "nccl_settings").remedy,
        "NCCL_FASTRAK_IFNAME: eth1"
    );
}
