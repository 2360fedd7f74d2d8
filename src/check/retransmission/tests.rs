use super::super::testing::{Node, tell};
use super::*;

/// A priority with flow control, as mlx5 shows it.
const WITH_PAUSE: [(&str, u64); 2] = [("prio3.rx_pause_frames", 0), ("prio3.tx_pause_frames", 0)];

/// RoCE with PFC on.
fn counted(driver: &str, steps: &[&[(&str, u64)]]) -> Node {
    sampled(driver, steps, true)
}

fn sampled(driver: &str, steps: &[&[(&str, u64)]], with_pfc: bool) -> Node {
    let mut node = Node::roce();
    node.devices[0].driver = driver.into();
    node.tick(1);
    for (i, step) in steps.iter().enumerate() {
        if with_pfc {
            node.set_ethtool(0, &WITH_PAUSE);
        }
        node.set_counters(0, step);
        node.tick(if i + 1 == steps.len() { 0 } else { 10 });
    }
    node
}

#[test]
fn rules() {
    type Row<'a> = (&'a str, &'a [(&'a str, u64)], &'a [&'a str]);
    let rows: &[Row<'_>] = &[
        (
            "mlx5_core",
            &[("hw.packet_seq_err", 601)],
            &["PacketLoss Degraded Verdict"],
        ),
        ("mlx5_core", &[("hw.packet_seq_err", 600)], &[]),
        (
            "mlx5_core",
            &[("hw.out_of_sequence", 70_000)],
            &["OutOfOrder Degraded Notice"],
        ),
        // A peer's process that died, and nothing else.
        (
            "mlx5_core",
            &[("hw.local_ack_timeout_err", 100)],
            &["AckTimeouts Degraded Notice"],
        ),
        (
            "mlx5_core",
            &[("hw.req_transport_retries_exceeded", 1)],
            &["RetriesExceeded Degraded Notice"],
        ),
        // With losses seen here, too.
        (
            "mlx5_core",
            &[
                ("hw.req_transport_retries_exceeded", 1),
                ("hw.packet_seq_err", 9),
            ],
            &["RetriesExceeded Degraded Verdict"],
        ),
        // Little traffic, much of it lost.
        (
            "rdma_rxe",
            &[("hw.completer_retry_err", 5), ("hw.sent_pkts", 800)],
            &["PacketLoss Degraded Verdict"],
        ),
        (
            "rdma_rxe",
            &[("hw.completer_retry_err", 5), ("hw.sent_pkts", 800_000)],
            &[],
        ),
        // Normal at the end of every job.
        (
            "mlx5_core",
            &[
                ("hw.req_cqe_flush_error", 90_000),
                ("hw.rnr_nak_retry_err", 90_000),
                ("hw.req_rnr_retries_exceeded", 90),
                ("hw.duplicate_request", 90_000),
                ("hw.out_of_buffer", 90_000),
            ],
            &[],
        ),
        (
            "efa",
            &[
                ("hw.retrans_pkts", 1001),
                ("hw.impaired_remote_conn_events", 101),
                ("hw.rx_drops", 6001),
            ],
            &[
                "EfaRetransmissions Degraded Verdict",
                "EfaRemoteImpaired Degraded Notice",
                "EfaReceiveDrops Degraded Verdict",
            ],
        ),
        (
            "bnxt_re",
            &[("hw.to_retransmits", 601)],
            &["PacketLoss Degraded Verdict"],
        ),
    ];
    for (driver, to, want) in rows {
        let from: Vec<_> = to.iter().map(|(name, _)| (*name, 0)).collect();
        let got: Vec<_> = counted(driver, &[&from, to])
            .run(&CHECK)
            .iter()
            .map(tell)
            .collect();
        let want: Vec<_> = want.iter().map(|want| format!("mlx5_0/1 {want}")).collect();
        assert_eq!(got, want, "{driver} {to:?}");
    }
}

#[test]
fn a_fabric_that_is_lossy_by_design_is_judged_by_the_share() {
    for (sent, want) in [(600_000, 1), (60_000_000, 0)] {
        let from = [("hw.packet_seq_err", 0), ("port_xmit_packets", 0)];
        let to = [("hw.packet_seq_err", 2000), ("port_xmit_packets", sent)];
        let mut node = counted("mlx5_core", &[&from, &to]);
        assert_eq!(node.run(&CHECK).len(), 1);
        node.policy.expect.lossless = LosslessExpectation::Lossy;
        assert_eq!(node.run(&CHECK).len(), want, "{sent}");
    }
}

#[test]
fn where_nothing_says_that_the_fabric_is_lossless_a_rate_alone_moves_nothing() {
    let lost = [("hw.packet_seq_err", 0)];
    let from = [("hw.packet_seq_err", 0), ("port_xmit_packets", 0)];
    let told = |steps: &[&[(&str, u64)]]| sampled("mlx5_core", steps, false);
    // A cloud that loses 30 of a million packets a second, always.
    let few = [
        ("hw.packet_seq_err", 2000),
        ("port_xmit_packets", 60_000_000),
    ];
    assert_eq!(told(&[&from, &few]).told(&CHECK), Vec::<String>::new());
    let much = [("hw.packet_seq_err", 2000), ("port_xmit_packets", 600_000)];
    let verdict = ["mlx5_0/1 PacketLoss Degraded Verdict"];
    assert_eq!(told(&[&from, &much]).told(&CHECK), verdict);
    let mut unknown = told(&[&lost, &[("hw.packet_seq_err", 2000)]]);
    assert_eq!(
        unknown.told(&CHECK),
        ["mlx5_0/1 PacketLoss Degraded Notice"]
    );
    unknown.policy.expect.lossless = LosslessExpectation::Lossless;
    assert_eq!(unknown.told(&CHECK), verdict);
}

#[test]
fn retries_that_come_again_count() {
    let counter = |value| [("hw.req_transport_retries_exceeded", value)];
    let mut node = counted("mlx5_core", &[&counter(4), &counter(5)]);
    assert_eq!(node.run(&CHECK)[0].weight, Weight::Notice);
    node.tick(1200);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
    node.set_counters(0, &counter(6));
    node.tick(0);
    assert_eq!(node.run(&CHECK)[0].weight, Weight::Verdict);
}

#[test]
fn the_first_sample_is_a_baseline() {
    let node = counted("efa", &[&[("hw.retrans_pkts", 1 << 40)]]);
    assert_eq!(node.told(&CHECK), Vec::<String>::new());
}

#[test]
fn switchdev_counters_are_on_the_device() {
    let node = counted(
        "mlx5_core",
        &[
            &[("dev.vport_packet_seq_err", 0)],
            &[("dev.vport_packet_seq_err", 9000)],
        ],
    );
    assert_eq!(node.told(&CHECK), ["mlx5_0/1 PacketLoss Degraded Verdict"]);
}
#[test]
fn counters_that_are_reset_together_did_not_wrap() {
    const HIGH: u64 = 3_000_000_000;
    let lost = |second: u64| {
        let node = counted(
            "mlx5_core",
            &[
                &[
                    ("hw.packet_seq_err", HIGH),
                    ("hw.rx_write_requests", HIGH),
                    ("port_xmit_packets", 1_000_000),
                ],
                &[("hw.packet_seq_err", 9), ("hw.rx_write_requests", second)],
            ],
        );
        node.run(&CHECK).len()
    };
    assert_eq!(lost(9), 0, "a reset");
    assert_eq!(lost(HIGH), 1, "a wrap");
}
