use super::super::testing::*;
use super::*;
use crate::observe::rdma::LinkLayer;

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
        (&[("UCX_NET_DEVICES", "mlx5_0")], "failing NoUcxDevice"),
        (&[("UCX_NET_DEVICES", "mlx5_0:2")], "failing NoUcxDevice"),
        (&[("UCX_NET_DEVICES", "ib0")], "failing NoUcxDevice"),
        (&[("UCX_NET_DEVICES", "")], "failing NoUcxDevice"),
        (&[("UCX_NET_DEVICES", "mlx5_*:1")], "ok"),
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
        assert_eq!(told(&with(variables), "ucx_devices"), want, "{variables:?}");
    }
    let message = item(&with(&[("UCX_TLS", "tcp")]), "ucx_devices").message;
    assert!(message.contains("leaves RDMA out"), "{message}");
    let facts = with(&[("UCX_NET_DEVICES", "mlx5_0")]);
    let item = item(&facts, "ucx_devices");
    assert!(item.message.contains("mlx5_0:1"), "{}", item.message);
    let mut facts = with(&[("UCX_NET_DEVICES", "rdmap0:1")]);
    facts.rdma = Reading::Value(vec![device("rdmap0", LinkLayer::Unspecified)]);
    assert_eq!(told(&facts, "ucx_devices"), "ok");
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
        for name in MPI {
            assert_eq!(
                told(&with(&[(name, value)]), "mpi_ifname"),
                want,
                "{value:?}"
            );
        }
    }
    assert_eq!(told(&good(), "mpi_ifname"), "skipped");
}
