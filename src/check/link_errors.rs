//! Errors on the wire.

use super::rising::{PortRises, counters_of};
use super::{Basis, Candidate, Context, PortView, peers::alike};
use crate::observe::Window;
use std::time::Duration;

check!(link_errors, run);

/// Shares of corrected bits by the speed of a lane in Gb/s: what is too many, and what is worth a
/// look next to peers. Of the limits for a speed the most lenient, as neither the module nor the
/// chip's generation is known (pdr_deterministic_plugin, Field_BER_Thresholds.csv V06).
const CORRECTED_LIMITS: &[(u64, f64, f64)] =
    &[(25, 1e-9, 5e-10), (50, 1e-5, 5e-6), (100, 1e-5, 5e-6)];
/// How many times the median of its peers is odd.
const TIMES_PEERS: f64 = 10.0;

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let of_ports = context.ports().iter().flat_map(|port| judge(context, port));
    of_ports.chain(corrected_bits(context)).collect()
}

/// Rails whose share of corrected bits is too high.
fn corrected_bits(context: &Context<'_>) -> Vec<Candidate> {
    let within = context.policy.link_errors.ratio_within.0;
    let rails = (context.rails()).filter(|rail| rail.is_roce() && rail.is_active());
    let shares = rails.filter_map(|rail| Some((rail, corrected_share(context, rail, within)?)));
    let shares: Vec<_> = shares.collect();
    let judged = shares.iter().filter_map(|(rail, share)| {
        let lane = rail.link?.rate.value()?;
        let speed = rail.judged_rate()?.0 / u64::from(lane.lanes?.max(1)) / 1_000_000_000;
        let (_, limit, watch) = CORRECTED_LIMITS.iter().find(|(gbps, ..)| *gbps == speed)?;
        let peers = shares.iter().filter(|(other, _)| alike(rail, other));
        let mut peers: Vec<f64> = peers.map(|(_, share)| *share).collect();
        peers.sort_by(f64::total_cmp);
        let median = peers.get(peers.len() / 2).filter(|_| peers.len() >= 3);
        let odd = median.is_some_and(|median| *share > TIMES_PEERS * *median);
        let what = match (share > limit, odd && share > watch) {
            (true, _) => format!("more than {limit:.0e} is too much"),
            (false, true) => format!("the median of its peers is {:.1e}", median?),
            (false, false) => return None,
        };
        let trend = match corrected_share(context, rail, within * 6) {
            Some(longer) if *share > 1.5 * longer => "rising",
            Some(longer) if *share * 1.5 < longer => "falling",
            _ => "steady",
        };
        let subject = &rail.subject;
        let message =
            format!("{subject}: {share:.1e} of the bits received are corrected, {trend}; {what}");
        let found = context.of_port("CorrectedBitsHigh", rail, message);
        let found = found.with("share", *share).with("trend", trend);
        Some(found.expecting(*limit, Basis::Shape))
    });
    judged.collect()
}

/// Corrected bits by bits received within the last `within`, once half of that was watched with the
/// link up. Firmware that does not count what it receives: a link carries symbols all the time, so
/// its rate tells.
fn corrected_share(context: &Context<'_>, port: &PortView<'_>, within: Duration) -> Option<f64> {
    let netdev = port.port.netdev.as_deref()?;
    let sampled = context.snapshot.ethtool.get(netdev).map(|sample| sample.at);
    let now = context.as_of(sampled, "ethtool", netdev);
    let settled = context.policy.link_errors.settle.0;
    let since = port.last_edge().map(|edge| edge.plus(settled));
    let within = since.map_or(within, |since| within.min(now.since(since)));
    let window = Window::last(within, now);
    let rise = |name| port.statistic(name)?.increase(window);
    let corrected = rise("rx_corrected_bits_phy")?;
    let enough = context.policy.link_errors.ratio_within.0 / 2;
    let counted = rise("rx_bits_phy").filter(|bits| bits.by > 0);
    let received = match counted {
        Some(bits) => bits.by as f64,
        None => port.judged_rate()?.0 as f64 * corrected.over.as_secs_f64(),
    };
    (corrected.over >= enough).then_some(corrected.by as f64 / received)
}

fn judge(context: &Context<'_>, port: &PortView<'_>) -> Vec<Candidate> {
    let policy = &context.policy.link_errors;
    let counters = PortRises::of(context, port);
    let trained = Some(policy.settle.0);
    // A link that falls, or comes up, counts errors while it trains: those are left out. (RoCE: the PMA error
    // files stay 0, so the network device's statistics tell.)
    let rules = [
        ("SymbolErrors", policy.symbol, trained),
        ("LinkRecoveries", policy.recovery, trained),
        ("ReceiveErrors", policy.receive, trained),
        ("LinkIntegrityErrors", policy.integrity, trained),
        ("BufferOverruns", policy.overrun, trained),
        ("ChecksumErrors", policy.checksum, trained),
        ("ConstraintErrors", policy.constraint, None),
        ("AdminCommandsLost", policy.admin_commands_lost, None),
    ];
    let judged = rules.into_iter().filter_map(|(reason, limit, settled)| {
        let (names, most) = (counters_of(reason), limit.more_than);
        let rise = counters.most(names, limit.within.0, settled);
        let Some(rise) = rise.filter(|rise| rise.by > most) else {
            return counters.unseen(reason, names, limit, true);
        };
        let message = format!("{}; more than {most} is too much", rise.text());
        let found = counters.candidate(reason, &rise, &message);
        let found = found.with("over_seconds", rise.over.as_secs());
        Some(found.with("limit", most))
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, link, nic, tell};
    use super::*;
    use crate::check::roles::Role;
    use crate::observe::{PhysState, PortState};

    /// A node whose port 0 counted `from`, and 10 s later `to`.
    fn counted(name: &str, from: u64, to: u64) -> Node {
        let mut node = Node::infiniband();
        node.set_counters(0, &[(name, from)]);
        node.tick(10);
        node.set_counters(0, &[(name, to)]);
        node.tick(0);
        node
    }

    #[test]
    fn rules() {
        for (name, from, to, want) in [
            ("symbol_error", 0, 120, None),
            (
                "symbol_error",
                5000,
                5121,
                Some("SymbolErrors Degraded Verdict"),
            ),
            (
                "link_error_recovery",
                0,
                6,
                Some("LinkRecoveries Degraded Verdict"),
            ),
            (
                "port_rcv_errors",
                0,
                601,
                Some("ReceiveErrors Degraded Verdict"),
            ),
            (
                "local_link_integrity_errors",
                3,
                4,
                Some("LinkIntegrityErrors Degraded Verdict"),
            ),
            ("local_link_integrity_errors", 4, 4, None),
            (
                "excessive_buffer_overrun_errors",
                0,
                1,
                Some("BufferOverruns Degraded Verdict"),
            ),
            (
                "port_rcv_constraint_errors",
                0,
                101,
                Some("ConstraintErrors Degraded Notice"),
            ),
            (
                "hw.rx_icrc_encapsulated",
                0,
                61,
                Some("ChecksumErrors Degraded Verdict"),
            ),
            (
                "dev.no_completion_cmds",
                0,
                1,
                Some("AdminCommandsLost Degraded Verdict"),
            ),
            // Normal while subnet managers sweep; not of this port.
            ("VL15_dropped", 0, 60_000, None),
            ("port_rcv_switch_relay_errors", 0, 60_000, None),
            // Someone cleared the counter.
            ("symbol_error", 60_000, 10, None),
        ] {
            let got = counted(name, from, to).run(&CHECK).first().map(tell);
            let want = want.map(|want| format!("mlx5_0/1 {want}"));
            assert_eq!(got, want, "{name} {from} {to}");
        }
    }

    #[test]
    fn the_first_sample_is_a_baseline() {
        let mut node = Node::infiniband();
        node.tick(10);
        node.set_counters(0, &[("symbol_error", 65_535)]);
        node.tick(0);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
    }

    #[test]
    fn it_ends_with_the_window() {
        let mut node = counted("symbol_error", 0, 500);
        node.tick(3599);
        assert_eq!(node.run(&CHECK).len(), 1);
        node.tick(2);
        assert_eq!(node.run(&CHECK).len(), 0);
    }

    #[test]
    fn training_is_left_out() {
        let mut node = Node::infiniband();
        node.set_counters(0, &[("symbol_error", 0)]);
        node.tick(10);
        node.set_state(0, PortState::Down, PhysState::Training);
        node.tick(1);
        node.set_counters(0, &[("symbol_error", 9000)]);
        node.tick(10);
        assert_eq!(node.told(&CHECK), Vec::<String>::new());
        node.tick(300);
        node.set_counters(0, &[("symbol_error", 9500)]);
        node.tick(0);
        assert_eq!(node.run(&CHECK)[0].evidence["increase"], 500);
    }

    #[test]
    fn neither_a_flap_nor_the_end_of_a_counter_hides_errors() {
        let mut node = counted("link_error_recovery", 200, 255);
        node.tick(20);
        node.set_state(0, PortState::Down, PhysState::Training);
        node.tick(1);
        node.set_link(0, link(400, 4));
        node.tick(1);
        assert_eq!(node.run(&CHECK)[0].evidence["increase"], 55);
        node.tick(7200);
        let found = run(&node.context());
        let unseen = found.iter().filter(|of| of.unseen).map(|of| of.reason);
        assert_eq!(
            (unseen.collect::<Vec<_>>(), found.len()),
            (vec!["LinkRecoveries"], 1)
        );
        node.set_counters(0, &[("link_error_recovery", 0)]);
        node.tick(0);
        assert_eq!(run(&node.context()).len(), 0, "cleared");
    }

    #[test]
    fn ethernet_and_ports_that_are_no_rails() {
        let mut node = Node::roce();
        node.set_role(0, Role::Other);
        let set = |node: &mut Node, errors| {
            node.set_ethtool(0, &[("rx_pcs_symbol_err_phy", errors)]);
        };
        set(&mut node, 7);
        node.tick(10);
        set(&mut node, 200);
        node.tick(0);
        assert_eq!(node.told(&CHECK), ["mlx5_0/1 SymbolErrors Degraded Notice"]);
    }

    /// A RoCE node whose rails correct so many bits a second for so long.
    fn correcting(seconds: u64, per_second: impl Fn(usize) -> u64) -> Node {
        receiving(Some(400_000_000_000), seconds, per_second)
    }

    /// The same, where so many bits a second are counted as received.
    fn receiving(bits: Option<u64>, seconds: u64, per_second: impl Fn(usize) -> u64) -> Node {
        let mut node = Node::roce();
        for at in (0..=seconds).step_by(20) {
            for i in 0..8 {
                let corrected = per_second(i) * at;
                let mut counts = vec![("rx_corrected_bits_phy", corrected)];
                counts.extend(bits.map(|bits| ("rx_bits_phy", bits * at)));
                node.set_ethtool(i, &counts);
            }
            node.tick(0);
            node.tick(20);
        }
        node
    }

    #[test]
    fn corrected_bits_are_judged_by_their_share() {
        let odd = |share: u64| move |i: usize| if i == 3 { share } else { 4_000 };
        // At 400 Gb/s 4,000 a second are 1e-8, 4,000,000 are 1e-5.
        assert_eq!(correcting(600, odd(1_000_000)).told(&CHECK), [""; 0]);
        let high = ["mlx5_3/1 CorrectedBitsHigh Degraded Notice"];
        assert_eq!(correcting(600, odd(4_400_000)).told(&CHECK), high);
        assert_eq!(
            correcting(600, odd(2_400_000)).told(&CHECK),
            high,
            "ten times its peers'"
        );
        assert_eq!(correcting(600, |_| 2_400_000).told(&CHECK), [""; 0]);
        assert_eq!(
            correcting(240, odd(4_400_000)).told(&CHECK),
            [""; 0],
            "too short"
        );
        // Not counted, or always 0: the rate tells. What is counted goes before it.
        for (bits, corrected, want) in [
            (None, 3_600_000, &[""; 0][..]),
            (Some(0), 3_600_000, &[]),
            (Some(0), 4_400_000, &high),
            (Some(200_000_000_000), 2_400_000, &high),
        ] {
            let node = receiving(bits, 600, |i| if i == 3 { corrected } else { 1_000_000 });
            assert_eq!(node.told(&CHECK), want, "{bits:?} {corrected}");
        }
        let mut trained = correcting(600, odd(4_400_000));
        trained.snapshot.netdevs.clear();
        trained.set_state(3, PortState::Down, PhysState::Training);
        trained.tick(1);
        trained.set_link(3, super::super::testing::link(400, 4));
        trained.tick(1);
        assert_eq!(trained.told(&CHECK), [""; 0], "it came up just now");
    }

    #[test]
    fn blind_keeps_what_was_seen() {
        let mut node = counted("port_rcv_errors", 0, 700);
        node.set_stalled("counters", &nic(0), node.now);
        node.tick(600);
        assert_eq!(node.run(&CHECK).len(), 1);
        node.snapshot.sources.clear();
        assert_eq!(node.run(&CHECK).len(), 0);
        // Sampled, but for the counter that told.
        for (to, want) in [(700, &[("ReceiveErrors", true)][..]), (7, &[])] {
            let mut node = counted("port_rcv_errors", 0, to);
            node.tick(600);
            node.snapshot.counters.clear();
            node.set_counters(0, &[("link_downed", 0)]);
            node.tick(0);
            let found = run(&node.context());
            let told: Vec<_> = found.iter().map(|of| (of.reason, of.unseen)).collect();
            assert_eq!(told, want);
        }
    }
}
