//! Which priorities have flow control (PFC), and whether a rail's settings are those of the others.

use super::expected::{
    self, Attribute, PAST_AND_PEERS, PEERS, PeerAttribute, RailAttribute, majority, row,
};
use super::policy::LosslessExpectation;
use super::{Candidate, Context, PortView, peers::alike, unseen_on_rails};
use crate::observe::{DcbFacts, Function, SourceHealth, Trust, priority_bit};
use std::time::Duration;

check!(flow_control, run);

/// 1: PFC is on for some priority.
pub const ON: RailAttribute = RailAttribute {
    peers: expected::most,
    text: |on| if on > 0 { "on" } else { "off" }.to_string(),
    verb: "has flow control (PFC)",
    ..row(
        "pfc",
        |context, port| Some(u64::from(settings(context, port)?.pfc_enabled? != 0)),
        &[(PAST_AND_PEERS, "PfcDiffers")],
    )
};

/// What the rails share, where most of them have PFC.
pub const SHARED: &[PeerAttribute] = &[
    PeerAttribute {
        evidence: "pfc_enabled",
        observed: |context, port| {
            let bits = settings(context, port)?.pfc_enabled?;
            (bits != 0).then(|| format!("on for {}", list(bits)))
        },
        of: Attribute::new("PFC", &[(PEERS, "PfcDiffers")]),
        alike,
    },
    PeerAttribute {
        evidence: "trust",
        observed: |context, port| {
            // mlx5 sorts by VLAN priority unless the APP table maps a DSCP (en_dcbnl.c).
            let mlx5 = port.device.driver.starts_with("mlx5");
            let trust = settings(context, port)?.trust;
            Some(trust.or(mlx5.then_some(Trust::Pcp))?.as_str().into())
        },
        of: Attribute::new("the trust state", &[(PEERS, "TrustDiffers")]),
        alike,
    },
    PeerAttribute {
        evidence: "dscp_map",
        observed: |context, port| {
            let map = settings(context, port)?.dscp_to_priority.iter();
            let map = map.map(|(dscp, priority)| format!("{dscp}:{priority}"));
            Some(map.collect::<Vec<_>>().join(",")).filter(|map| !map.is_empty())
        },
        of: Attribute::new("the DSCP map", &[(PEERS, "TrustDiffers")]),
        alike,
    },
    PeerAttribute {
        evidence: "ets",
        observed: |context, port| {
            let dcb = settings(context, port)?;
            let (classes, shares) = (dcb.ets_prio_tc?, dcb.ets_tc_bandwidth?);
            Some(format!("{classes:?} {shares:?}"))
        },
        of: Attribute::new("the share of each traffic class", &[(PEERS, "EtsDiffers")]),
        alike,
    },
];

/// Settings come with the link, by DCBX, and are not compared before this has passed.
const SETTLE: Duration = Duration::from_secs(60);

/// The settings of a rail that are to be compared.
fn settings<'a>(context: &Context<'a>, port: &PortView<'_>) -> Option<&'a DcbFacts> {
    let settled = (port.last_edge()).is_none_or(|edge| context.now.since(edge) >= SETTLE);
    let judged = port.is_roce()
        && port.is_active()
        && port.device.function == Function::Physical
        && context.policy.expect.lossless != LosslessExpectation::Lossy;
    dcb(context, port.port.netdev.as_deref()?).filter(|_| judged && settled)
}

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let on = ON.of_rails(context);
    let mut found = on.judge_all();
    let by_settings = ["PfcDiffers", "TrustDiffers"];
    found.extend(unseen_on_rails(context, &by_settings, |rail| {
        let known = settings(context, rail).is_some_and(|dcb| dcb.pfc_enabled.is_some());
        rail.is_roce() && !known
    }));
    let lossless = |rail: &PortView<'_>| majority(&on.of_peers(rail)) == Some(1);
    for row in SHARED {
        row.judge_others(context, lossless, &mut found);
    }
    found
}

/// What DCB says of a network device, unless that is too old.
pub(super) fn dcb<'a>(context: &Context<'a>, netdev: &str) -> Option<&'a DcbFacts> {
    let stamp = context.snapshot.dcb.get(netdev)?;
    context.fresh(stamp, "dcb", netdev)?.value()
}

/// Whether which priorities have PFC cannot be read just now.
pub(super) fn is_unread(context: &Context<'_>, port: &PortView<'_>) -> bool {
    let unread = |netdev: &str| {
        let health = context.snapshot.health("dcb", netdev);
        health.is_some_and(SourceHealth::fails) && pfc_priorities(context, netdev).is_none()
    };
    port.is_roce() && port.port.netdev.as_deref().is_some_and(unread)
}

/// Priorities with PFC: as DCB tells, else those for which the driver shows pause (mlx5 shows it
/// for no others). None: not known.
pub(super) fn pfc_priorities(context: &Context<'_>, netdev: &str) -> Option<u8> {
    if let Some(bits) = dcb(context, netdev).and_then(|dcb| dcb.pfc_enabled) {
        return Some(bits);
    }
    let shown = (context.snapshot.ethtool.get(netdev)?.value.value()?).shown_pause();
    (shown != 0 && shown != u8::MAX).then_some(shown)
}

pub(super) fn has(bits: u8, priority: u8) -> bool {
    bits & priority_bit(priority) != 0
}

/// `3,4`: the priorities whose bits are set.
pub(super) fn list(bits: u8) -> String {
    let set = (0..8u8).filter(|priority| has(bits, *priority));
    let set: Vec<String> = set.map(|priority| priority.to_string()).collect();
    set.join(",")
}

#[cfg(test)]
mod tests {
    use super::super::testing::Node;
    use super::*;

    fn node(dcb: impl Fn(usize) -> DcbFacts) -> Node {
        let mut node = Node::roce();
        for i in 0..8 {
            node.set_dcb(i, dcb(i));
        }
        node.tick(0);
        node
    }

    fn lossless(pfc: u8) -> DcbFacts {
        DcbFacts {
            pfc_enabled: Some(pfc),
            dscp_to_priority: [(26, 3)].into(),
            trust: Some(Trust::Dscp),
            ets_tc_bandwidth: Some([50, 50, 0, 0, 0, 0, 0, 0]),
            ets_prio_tc: Some([0, 0, 0, 1, 0, 0, 0, 0]),
        }
    }

    fn odd(odd: DcbFacts) -> Node {
        node(move |i| if i == 3 { odd.clone() } else { lossless(8) })
    }

    #[test]
    fn an_odd_rail_among_those_with_pfc() {
        let rows: [(&str, Node, &[&str]); 7] = [
            ("all alike", node(|_| lossless(8)), &[]),
            (
                "off",
                odd(lossless(0)),
                &["mlx5_3/1 PfcDiffers Degraded Verdict"],
            ),
            (
                "another priority",
                odd(lossless(16)),
                &["mlx5_3/1 PfcDiffers Degraded Verdict"],
            ),
            (
                "another trust",
                odd(DcbFacts {
                    trust: None,
                    dscp_to_priority: [].into(),
                    ..lossless(8)
                }),
                &["mlx5_3/1 TrustDiffers Degraded Verdict"],
            ),
            (
                "another map",
                odd(DcbFacts {
                    dscp_to_priority: [(26, 5)].into(),
                    ..lossless(8)
                }),
                &["mlx5_3/1 TrustDiffers Degraded Verdict"],
            ),
            (
                "other shares",
                odd(DcbFacts {
                    ets_tc_bandwidth: None,
                    ..lossless(8)
                }),
                &[],
            ),
            (
                "the majority is lossy",
                node(|i| lossless(if i < 3 { 8 } else { 0 })),
                &[],
            ),
        ];
        for (name, node, want) in rows {
            assert_eq!(node.told(&CHECK), want, "{name}");
        }
    }

    #[test]
    fn shares_alone_are_a_notice_and_a_lossy_fabric_is_left_alone() {
        let shares = Some([100, 0, 0, 0, 0, 0, 0, 0]);
        let node = odd(DcbFacts {
            ets_tc_bandwidth: shares,
            ..lossless(8)
        });
        assert_eq!(node.told(&CHECK), ["mlx5_3/1 EtsDiffers Degraded Notice"]);
        let mut lossy = odd(lossless(0));
        lossy.policy.expect.lossless = LosslessExpectation::Lossy;
        assert_eq!(lossy.told(&CHECK), [""; 0]);
    }

    #[test]
    fn settings_are_compared_a_minute_after_the_link_came_up() {
        use crate::observe::{PhysState, PortState};
        let mut node = odd(lossless(0));
        node.snapshot.netdevs.clear();
        node.set_state(3, PortState::Down, PhysState::Disabled);
        node.tick(5);
        node.set_state(3, PortState::Active, PhysState::LinkUp);
        node.tick(0);
        node.tick(50);
        assert_eq!(node.told(&CHECK), [""; 0]);
        node.tick(20);
        assert_eq!(node.told(&CHECK), ["mlx5_3/1 PfcDiffers Degraded Verdict"]);
    }
}
