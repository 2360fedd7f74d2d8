use super::super::testing::*;
use super::*;
use crate::observe::{ContainerFacts, Environment, LinkLayer, Reading};

fn lib(facts: &mut ContainerFacts, name: &str, library: Library) {
    facts.libraries.insert(name.into(), library);
}

fn missing() -> Library {
    Library::Missing
}

fn usable() -> Library {
    Library::Usable {
        path: "/opt/x.so".into(),
    }
}

fn broken() -> Library {
    Library::Unusable {
        path: "/opt/x.so".into(),
        why: "built for AArch64".into(),
    }
}

fn efa(variables: &[(&str, &str)]) -> ContainerFacts {
    let mut facts = with(variables);
    facts.rdma = Reading::Value(vec![device("rdmap16s27", LinkLayer::Unspecified)]);
    facts
}

#[test]
fn names_that_nccl_tries() {
    for (value, want) in [
        (None, &["libnccl-net.so"][..]),
        (Some("none"), &[]),
        (Some("NONE"), &[]),
        (Some(""), &[]),
        (Some("ofi"), &["ofi", "libnccl-net-ofi.so"]),
        (Some("libnccl-net-ofi.so"), &["libnccl-net-ofi.so"]),
        (Some("/opt/a/libx.so"), &["/opt/a/libx.so"]),
        (Some("./x"), &["./x"]),
        (
            Some("a,,b"),
            &["a", "libnccl-net-a.so", "b", "libnccl-net-b.so"],
        ),
        (Some("libfoo"), &["libfoo", "libnccl-net-libfoo.so"]),
    ] {
        let mut environment = Environment::default();
        if let Some(value) = value {
            let all = &mut environment.variables;
            all.insert("NCCL_NET_PLUGIN".into(), value.into());
        }
        assert_eq!(candidates(&environment), want, "{value:?}");
    }
}

#[test]
fn where_the_plugin_is_a_choice() {
    let mut facts = good();
    assert_eq!(verdict(&facts, "net_plugin"), "ok");
    lib(&mut facts, "libnccl-net.so", broken());
    assert_eq!(verdict(&facts, "net_plugin"), "degraded PluginMissing");
    lib(&mut facts, "libnccl-net.so", usable());
    assert_eq!(verdict(&facts, "net_plugin"), "ok");
    facts.libraries.clear();
    assert_eq!(verdict(&facts, "net_plugin"), "unknown LibraryUnreadable");

    let mut facts = with(&[("NCCL_NET_PLUGIN", "spcx")]);
    lib(&mut facts, "spcx", missing());
    lib(&mut facts, "libnccl-net-spcx.so", missing());
    assert_eq!(verdict(&facts, "net_plugin"), "degraded PluginMissing");
    // Asked for by name of its network: then NCCL ends.
    set(&mut facts, &[("NCCL_NET", "IBext")]);
    assert_eq!(verdict(&facts, "net_plugin"), "failing PluginMissing");
    lib(&mut facts, "libnccl-net-spcx.so", usable());
    assert_eq!(verdict(&facts, "net_plugin"), "ok");
    assert_eq!(
        verdict(&with(&[("NCCL_NET_PLUGIN", "none")]), "net_plugin"),
        "ok"
    );
}

#[test]
fn efa_needs_its_plugin() {
    assert_eq!(verdict(&efa(&[]), "net_plugin"), "failing PluginMissing");
    let remedy = item(&efa(&[]), "net_plugin").remedy;
    assert!(remedy.starts_with("put aws-ofi-nccl"), "{remedy}");
    let mut facts = efa(&[]);
    lib(&mut facts, "libnccl-net.so", usable());
    assert_eq!(verdict(&facts, "net_plugin"), "ok");
    // Routine on images for EFA, and no wish for TCP.
    set(
        &mut facts,
        &[("NCCL_IB_DISABLE", "1"), ("FI_PROVIDER", "efa")],
    );
    assert_eq!(verdict(&facts, "net_plugin"), "ok");
    assert_eq!(verdict(&facts, "nccl_network"), "ok");
    set(&mut facts, &[("FI_PROVIDER", "tcp")]);
    assert_eq!(verdict(&facts, "net_plugin"), "failing OfiProvider");
    for (provider, want) in [
        ("^tcp", "ok"),
        ("^tcp,sockets", "ok"),
        ("^efa", "failing OfiProvider"),
        ("^tcp,efa", "failing OfiProvider"),
        ("efa;ofi_rxd", "ok"),
    ] {
        set(&mut facts, &[("FI_PROVIDER", provider)]);
        assert_eq!(verdict(&facts, "net_plugin"), want, "{provider}");
    }
    let mut facts = efa(&[("NCCL_NET_PLUGIN", "none")]);
    assert_eq!(verdict(&facts, "net_plugin"), "failing PluginMissing");
    // A job of one node, or one that asks for TCP, needs none.
    for (name, value) in [("WORLD_SIZE", "8"), ("NCCL_NET", "Socket")] {
        let mut facts = facts.clone();
        set(&mut facts, &[(name, value)]);
        assert_eq!(verdict(&facts, "net_plugin"), "skipped", "{name}");
    }
    set(&mut facts, &[("FI_PROVIDER", "tcp"), ("WORLD_SIZE", "8")]);
    assert_eq!(verdict(&facts, "net_plugin"), "skipped");
    for item in ["rdma_ports", "ib_hca", "gid_index", "libibverbs"] {
        assert_eq!(verdict(&efa(&[]), item), "skipped", "{item}");
    }
    let facts = efa(&[("NCCL_NET", "Socket")]);
    assert_eq!(verdict(&facts, "net_plugin"), "skipped");
    assert_eq!(verdict(&facts, "nccl_network"), "degraded TcpConfigured");
}

#[test]
fn tcp_rails_need_their_plugin_and_no_rdma() {
    let mut facts = good();
    facts.rdma = Reading::Value(Vec::new());
    let gve = |name: String| (name, Some("gve".to_string()));
    facts.links = Reading::Value((0..5).map(|i| gve(format!("eth{i}"))).collect());
    assert_eq!(verdict(&facts, "uverbs"), "skipped");
    assert_eq!(verdict(&facts, "net_plugin"), "failing PluginMissing");
    assert_eq!(verdict(&facts, "memlock"), "skipped");
    lib(&mut facts, "libnccl-net.so", usable());
    assert_eq!(verdict(&facts, "net_plugin"), "ok");
    // Two such interfaces are an ordinary machine.
    facts.links = Reading::Value((0..2).map(|i| gve(format!("eth{i}"))).collect());
    assert_eq!(verdict(&facts, "uverbs"), "failing NoRdmaDevice");
    set(&mut facts, &[("NCCL_FASTRAK_CTRL_DEV", "eth0")]);
    assert_eq!(verdict(&facts, "uverbs"), "skipped");
    for (net, want) in [
        ("FasTrak", "skipped"),
        ("fastrak", "skipped"),
        ("GPUDirectTCPX_v7", "skipped"),
        ("gIB", "failing NoRdmaDevice"),
    ] {
        let mut facts = with(&[("NCCL_NET", net)]);
        facts.rdma = Reading::Value(Vec::new());
        assert_eq!(verdict(&facts, "uverbs"), want, "{net}");
        assert_eq!(
            verdict(&facts, "net_plugin"),
            "failing PluginMissing",
            "{net}"
        );
    }
}

#[test]
fn efa_that_is_meant_and_not_given() {
    for variables in [
        &[("FI_PROVIDER", "efa"), ("NCCL_IB_DISABLE", "1")][..],
        &[("FI_PROVIDER", "efa,tcp")],
        &[("NCCL_NET", "AWS Libfabric"), ("NCCL_IB_DISABLE", "1")],
        &[("NCCL_NET", "libfabric")],
        &[("NCCL_NET_PLUGIN", "ofi"), ("NCCL_IB_DISABLE", "1")],
        &[("FI_EFA_USE_DEVICE_RDMA", "1"), ("NCCL_IB_DISABLE", "1")],
    ] {
        let mut facts = with(variables);
        facts.rdma = Reading::Value(Vec::new());
        for name in candidates(&facts.environment) {
            lib(&mut facts, &name, missing());
        }
        assert_eq!(
            verdict(&facts, "uverbs"),
            "failing NoRdmaDevice",
            "{variables:?}"
        );
        let remedy = item(&facts, "uverbs").remedy;
        assert!(
            remedy.starts_with("resources.limits of the container: `\"vpc.amazonaws.com/efa\""),
            "{remedy}"
        );
        assert_eq!(
            verdict(&facts, "net_plugin"),
            "failing PluginMissing",
            "{variables:?}"
        );
    }
    // TCP that is really asked for stays so.
    for variables in [
        &[("FI_PROVIDER", "efa"), ("NCCL_NET", "Socket")][..],
        &[("NCCL_IB_DISABLE", "1")],
    ] {
        let mut facts = with(variables);
        facts.rdma = Reading::Value(Vec::new());
        assert_eq!(verdict(&facts, "uverbs"), "skipped", "{variables:?}");
        assert_eq!(verdict(&facts, "nccl_network"), "degraded TcpConfigured");
        assert_eq!(verdict(&facts, "net_plugin"), "skipped", "{variables:?}");
    }
}

#[test]
fn verbs_library() {
    let mut facts = good();
    assert_eq!(verdict(&facts, "libibverbs"), "ok");
    lib(&mut facts, VERBS, missing());
    assert_eq!(verdict(&facts, "libibverbs"), "failing LibibverbsMissing");
    lib(&mut facts, VERBS, broken());
    assert_eq!(verdict(&facts, "libibverbs"), "failing LibibverbsMissing");
    facts.libraries.clear();
    assert_eq!(verdict(&facts, "libibverbs"), "unknown LibraryUnreadable");
    facts.has_loader = false;
    assert_eq!(verdict(&facts, "libibverbs"), "skipped");
    assert_eq!(verdict(&facts, "net_plugin"), "skipped");
    let mut facts = with(&[("NCCL_NET", "Socket")]);
    lib(&mut facts, VERBS, missing());
    assert_eq!(verdict(&facts, "libibverbs"), "skipped");
    lib(&mut facts, VERBS, broken());
    assert_eq!(verdict(&facts, "libibverbs"), "skipped");
}
