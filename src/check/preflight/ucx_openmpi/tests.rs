use super::super::testing::*;
use super::*;
use crate::observe::container::ContainerFacts;
use crate::observe::rdma::LinkLayer;
use crate::observe::reading::Reading;

#[test]
fn ucx_devices_and_transports() {
    for (variables, want) in [
        (&[][..], "skipped"),
        (&[("UCX_NET_DEVICES", "all")], "ok"),
        (&[("UCX_NET_DEVICES", "mlx5_0:1,eth0")], "ok"),
        (
            &[("UCX_NET_DEVICES", "mlx5_0:1,mlx5_9:1")],
            "degraded UcxPartly",
        ),
        (&[("UCX_NET_DEVICES", "mlx5_0")], "degraded UcxNewForm"),
        (
            &[("UCX_NET_DEVICES", "mlx5_[0-7]:1")],
            "degraded UcxNewForm",
        ),
        (
            &[("UCX_NET_DEVICES", "mlx5_[0-1],eth0")],
            "degraded UcxNewForm",
        ),
        (
            &[("UCX_NET_DEVICES", "mlx5_[8-9]:1")],
            "failing NoUcxDevice",
        ),
        (
            &[("UCX_NET_DEVICES", "mlx5_[7-0]:1")],
            "failing NoUcxDevice",
        ),
        (&[("UCX_NET_DEVICES", "mlx5_[0:1")], "failing NoUcxDevice"),
        (&[("UCX_NET_DEVICES", "mlx5_0:2")], "failing NoUcxDevice"),
        (&[("UCX_NET_DEVICES", "ib0")], "failing NoUcxDevice"),
        (&[("UCX_NET_DEVICES", "")], "failing NoUcxDevice"),
        (&[("UCX_NET_DEVICES", "mlx5_*:1")], "failing NoUcxDevice"),
        (&[("UCX_NET_DEVICES", "eth0")], "ok"),
        (
            &[("UCX_NET_DEVICES", "eth0"), ("NCCL_PLUGIN_P2P", "ucx")],
            "degraded UcxWithoutRdma",
        ),
        (
            &[
                ("UCX_NET_DEVICES", "eth0"),
                ("UCX_TLS", "rc"),
                ("NCCL_PLUGIN_P2P", "ucx"),
            ],
            "degraded UcxWithoutRdma",
        ),
        (
            &[("UCX_NET_DEVICES", "mlx5_0:1"), ("NCCL_PLUGIN_P2P", "ucx")],
            "ok",
        ),
        (
            &[("UCX_NET_DEVICES", "^mlx5_0:1"), ("NCCL_PLUGIN_P2P", "ucx")],
            "ok",
        ),
        (
            &[("UCX_TLS", "^ib"), ("NCCL_PLUGIN_P2P", "ucx")],
            "degraded UcxWithoutRdma",
        ),
        (
            &[("UCX_TLS", "^rc,ud,dc"), ("NCCL_PLUGIN_P2P", "ucx")],
            "degraded UcxWithoutRdma",
        ),
        (&[("UCX_TLS", "^rc,ud"), ("NCCL_PLUGIN_P2P", "ucx")], "ok"),
        (&[("UCX_NET_DEVICES", "^mlx5_9:1")], "ok"),
        // NCCL does not use UCX, unless a plugin does.
        (&[("UCX_TLS", "tcp,self,sm")], "ok"),
        (
            &[("UCX_TLS", "tcp,self,sm"), ("NCCL_PLUGIN_P2P", "ucx")],
            "degraded UcxWithoutRdma",
        ),
        (
            &[("UCX_TLS", "tcp,self,sm"), ("NCCL_PLUGIN_P2P", "ib")],
            "ok",
        ),
        (
            &[
                ("UCX_TLS", "tcp,cuda_copy,cuda_ipc"),
                ("NCCL_NET_PLUGIN", "ucx"),
            ],
            "degraded UcxWithoutRdma",
        ),
        (&[("UCX_TLS", "rc,cuda_copy")], "ok"),
        (&[("UCX_TLS", "rc_x,sm")], "ok"),
        (&[("UCX_TLS", "ud_mlx5:aux,tcp")], "ok"),
        (&[("UCX_TLS", "all")], "ok"),
        (&[("UCX_TLS", "^tcp")], "ok"),
        (&[("UCX_TLS", "tcp"), ("WORLD_SIZE", "8")], "ok"),
    ] {
        assert_eq!(
            verdict(&with(variables), "ucx_devices"),
            want,
            "{variables:?}"
        );
    }
    let facts = with(&[("UCX_NET_DEVICES", "mlx5_0")]);
    let item = item(&facts, "ucx_devices");
    assert!(item.remedy.contains("mlx5_0:1"), "{}", item.remedy);
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
        for name in OPEN_MPI {
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
