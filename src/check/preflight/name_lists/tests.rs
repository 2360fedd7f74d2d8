use super::super::interfaces::tests::{POD, on};
use super::super::testing::*;
use super::*;
use crate::observe::{ContainerFacts, LinkLayer, Reading};

#[test]
fn ucx_takes_whole_names() {
    for (value, want) in [
        ("all", "ok"),
        ("mlx5_0:1,eth0", "ok"),
        ("eth0", "ok"),
        ("^mlx5_9:1", "ok"),
        // Forms of newer versions.
        ("mlx5_0", "ok"),
        ("mlx5_[0-7]:1", "ok"),
        ("mlx5_0:1,mlx5_9:1", "degraded UcxPartly"),
        ("mlx5_0:2", "failing NoUcxDevice"),
        ("mlx5_9", "failing NoUcxDevice"),
        ("ib0", "failing NoUcxDevice"),
        ("", "failing NoUcxDevice"),
        ("mlx5_*:1", "failing NoUcxDevice"),
    ] {
        let facts = with(&[("UCX_NET_DEVICES", value)]);
        assert_eq!(verdict(&facts, "ucx_devices"), want, "{value:?}");
    }
    assert_eq!(verdict(&good(), "ucx_devices"), "skipped");
    let mut facts = with(&[("UCX_NET_DEVICES", "rdmap0:1")]);
    facts.rdma = Reading::Value(vec![device("rdmap0", LinkLayer::Unspecified)]);
    assert_eq!(verdict(&facts, "ucx_devices"), "ok");
}

#[test]
fn mpi_interfaces() {
    for (value, want) in [
        ("eth0", "ok"),
        ("eth0,net1", "ok"),
        ("eth", "failing NoInterface"),
        ("eth0,eth9", "degraded MpiPartly"),
        ("10.0.0.0/16", "ok"),
        ("10.5.0.0/16", "failing NoInterface"),
        ("10.5.0.0/16,net1", "degraded MpiPartly"),
        ("0.0.0.0/0", "ok"),
        ("fe80::/64", "ok"),
        ("10.0.0.0/33", "failing NoInterface"),
        ("x/y", "failing NoInterface"),
    ] {
        for name in OPEN_MPI.split_whitespace() {
            assert_eq!(
                verdict(&with(&[(name, value)]), "mpi_ifname"),
                want,
                "{value:?}"
            );
        }
    }
    assert_eq!(verdict(&good(), "mpi_ifname"), "skipped");
}

#[test]
fn what_is_offered_instead() {
    let remedy = |facts: &ContainerFacts, name: &str| item(facts, name).remedy;
    let mut facts = with(&[
        ("UCX_NET_DEVICES", "mlx5_0:1"),
        ("OMPI_MCA_btl_tcp_if_include", "eth9"),
    ]);
    assert_eq!(
        remedy(&facts, "mpi_ifname"),
        "OMPI_MCA_btl_tcp_if_include: unset it, or one or more of eth0, net1"
    );
    facts.rdma = Reading::Value(Vec::new());
    let got = remedy(&facts, "ucx_devices");
    assert!(
        got.starts_with("UCX_NET_DEVICES: unset it, or one or more of eth0, net1; for an RDMA device: resources.limits"),
        "{got}"
    );
    facts.interfaces = Reading::Value(vec![interface("lo", &["127.0.0.1"])]);
    for name in ["ucx_devices", "mpi_ifname"] {
        let got = remedy(&facts, name);
        assert!(got.contains("unset it; no interface"), "{got}");
    }
    let got = remedy(&facts, "ucx_devices");
    assert!(got.contains("; for an RDMA device"), "{got}");
}

#[test]
fn gloo_takes_whole_names() {
    for (value, want) in [
        ("eth0", "ok"),
        ("eth0,net1", "ok"),
        ("eth", "failing NoInterface"),
        ("^lo", "failing NoInterface"),
        ("eth0, net1", "failing NoInterface"),
        ("eth0,eth9", "failing NoInterface"),
        ("bare0", "failing NoInterface"),
        ("", "failing NoInterface"),
        ("lo", "failing LocalInterface"),
    ] {
        let facts = on(POD, &[("GLOO_SOCKET_IFNAME", value)]);
        assert_eq!(verdict(&facts, "gloo_ifname"), want, "{value:?}");
    }
    assert_eq!(verdict(&good(), "gloo_ifname"), "skipped");
}

#[test]
fn what_gloo_is_offered() {
    let facts = on(POD, &[("GLOO_SOCKET_IFNAME", "eth9")]);
    let remedy = item(&facts, "gloo_ifname").remedy;
    assert_eq!(
        remedy,
        "GLOO_SOCKET_IFNAME: unset it, or one or more of eth0, net1, net10"
    );
    let facts = on(&POD[..2], &[("GLOO_SOCKET_IFNAME", "eth9")]);
    assert_eq!(
        item(&facts, "gloo_ifname").remedy,
        "GLOO_SOCKET_IFNAME: unset it, or eth0"
    );
    let facts = on(&POD[..1], &[("GLOO_SOCKET_IFNAME", "eth9")]);
    let remedy = item(&facts, "gloo_ifname").remedy;
    assert!(
        remedy.contains("no interface in here but the loopback"),
        "{remedy}"
    );
}
