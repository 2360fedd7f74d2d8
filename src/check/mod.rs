//! Judges. Each check is a pure function of (snapshot, history, roles, policy, now) to candidates;
//! `debounce.rs` turns candidates into findings that are believed.
//!
//! How to add one: "Add a check" in CONTRIBUTING.md.

/// A check's row for [`CHECKS`]. The id is also the name of its section in the policy, which says how long
/// it looks, unless a timing is given.
macro_rules! check {
    (@timing $id:ident) => { |policy| policy.$id.timing() };
    (@timing $id:ident $timing:expr) => { |_| $timing };
    ($id:ident, $run:ident $(, $timing:expr)?) => {
        /// The row in the table.
        pub const CHECK: $crate::check::Check = $crate::check::Check {
            id: stringify!($id),
            timing: check!(@timing $id $($timing)?),
            run: $run,
        };
    };
}

pub mod allocatable;
pub mod bench;
pub mod causes;
mod congestion;
mod context;
mod counter_saturated;
pub mod debounce;
pub(crate) mod device_missing;
mod dot1x;
mod driver_reload;
pub mod expected;
mod finding;
mod gds;
mod gid_table;
pub mod gpudirect;
mod gpudirect_check;
mod ip_routing;
pub mod job_verdicts;
pub mod kept;
mod link_errors;
mod link_flap;
mod link_rate;
pub(crate) mod link_state;
mod mtu;
pub mod nccl;
pub mod nccl_daemon;
pub mod nccl_jobs;
pub mod nccl_pods;
pub mod nccl_suspect;
mod neighbor;
mod nic_kernel;
pub mod no_fabric;
mod partition;
mod pcie_link;
mod peers;
mod pfc;
pub mod policy;
pub mod port;
pub mod preflight;
pub mod profile;
mod reason_docs;
mod retransmission;
mod rising;
pub mod roles;
mod source_health;
pub mod suspect;
mod sxid;
mod xid;
pub mod xid_codes;
pub mod xid_seen;

#[cfg(test)]
pub(crate) mod testing;

pub use context::Context;
pub use finding::{
    Action, Basis, Candidate, Expected, Finding, PASSES_WITHIN, Reason, Status, Timing, Weight,
};
pub use policy::Policy;
pub use port::PortView;
pub use reason_docs::{ReasonDoc, verdict_docs};

use link_state::unseen_on_rails;
use profile::{CLOUD_CABLES, Profile};

/// A row of [`CHECKS`]: identity, documentation and the judging function.
#[derive(Debug)]
pub struct Check {
    /// Stable id such as `link_state`; label value, silence key and policy section.
    pub id: &'static str,
    /// How long it looks where a candidate does not say otherwise.
    pub timing: fn(&Policy) -> Timing,
    /// Judges one moment; pure, so that the same context gives the same candidates.
    pub run: fn(&Context<'_>) -> Vec<Candidate>,
}

/// All checks, in the order in which they are shown.
pub const CHECKS: &[Check] = &[
    link_state::CHECK,
    link_flap::CHECK,
    link_rate::CHECK,
    link_errors::CHECK,
    retransmission::CHECK,
    congestion::CHECK,
    gid_table::CHECK,
    mtu::CHECK,
    ip_routing::CHECK,
    partition::CHECK,
    neighbor::CHECK,
    pfc::CHECK,
    device_missing::CHECK,
    allocatable::CHECK,
    pcie_link::CHECK,
    xid::CHECK,
    sxid::CHECK,
    nic_kernel::CHECK,
    gpudirect_check::CHECK,
    gds::CHECK,
    nccl_jobs::CHECK,
    nccl_suspect::CHECK,
    counter_saturated::CHECK,
    source_health::CHECK,
];

/// Attributes of rails that are remembered at their best.
pub const REMEMBERED: &[&expected::RailAttribute] = &[
    &link_rate::RATE,
    &link_state::LEGS,
    &mtu::ROCE_MTU,
    &gid_table::GIDS,
    &pcie_link::PATH,
    &partition::MEMBERSHIP,
    &pfc::ON,
];

/// What is expected of the node, its rails and its GPUs.
pub fn attributes() -> impl Iterator<Item = &'static expected::Attribute> {
    const OTHERS: [&expected::Attribute; 8] = [
        &device_missing::RAILS,
        &allocatable::SHAPE_RAILS,
        &device_missing::NUMBER_OF_GPUS,
        &device_missing::GPU_DRIVEN,
        &link_state::LINK_UP,
        &link_state::LAYER.of,
        &partition::PARTITION.of,
        &ip_routing::SETTINGS.of,
    ];
    let remembered = REMEMBERED.iter().map(|row| &row.of);
    let shared = pfc::SHARED.iter().map(|shared| &shared.of);
    OTHERS.into_iter().chain(remembered).chain(shared)
}

/// Most candidates of one check that are kept: a storm must not grow the report without bound.
pub const MAX_CANDIDATES_PER_CHECK: usize = 128;

/// Runs every check that is not muted. Each (check, key, reason) comes at most once, the worst kept.
pub fn run_all(context: &Context<'_>) -> Vec<Candidate> {
    let mut all = Vec::new();
    let is_muted = |check: &&Check| context.policy.mute.contains(check.id);
    for check in CHECKS.iter().filter(|check| !is_muted(check)) {
        let found = (check.run)(&context.of_check(check)).into_iter();
        let mut found: Vec<_> = found.map(|of| for_the_provider(context, of)).collect();
        found.sort_by(|a, b| (&a.key, a.reason, rank(b)).cmp(&(&b.key, b.reason, rank(a))));
        found.dedup_by(|next, kept| (&next.key, next.reason) == (&kept.key, kept.reason));
        // The bound is for findings: dropping an unseen one would clear what it holds.
        let (mut seen, unseen): (Vec<_>, Vec<_>) = found.into_iter().partition(|of| !of.unseen);
        if seen.len() > MAX_CANDIDATES_PER_CHECK {
            seen.sort_by_key(|candidate| std::cmp::Reverse(rank(candidate)));
            seen.truncate(MAX_CANDIDATES_PER_CHECK);
        }
        all.extend(seen.into_iter().chain(unseen));
    }
    all
}

/// In a cloud, only the provider reseats a cable.
fn for_the_provider(context: &Context<'_>, found: Candidate) -> Candidate {
    let of_a_cable = matches!(found.action, Action::ReseatCable | Action::ReplaceCable);
    match of_a_cable && context.profile.is_some_and(Profile::is_of_a_cloud) {
        true => found.fix(Action::CallProvider, CLOUD_CABLES),
        false => found,
    }
}

fn rank(candidate: &Candidate) -> (bool, Weight, Status) {
    (!candidate.unseen, candidate.weight, candidate.status)
}

#[cfg(test)]
mod tests {
    mod docs;

    use super::testing::{Node, device, gpu, key, link, nic};
    use super::*;
    use crate::observe::{
        FaultKind, KernelEvent, KernelEventKind, LinkLayer, PhysState, PortState, Reading, Xid,
    };
    use std::collections::BTreeSet;

    fn said(context: &Context<'_>) -> Vec<Candidate> {
        let mut all = run_all(context);
        all.retain(|candidate| !candidate.unseen);
        all
    }

    #[test]
    fn nodes_that_are_well_or_idle_say_nothing() {
        for mut node in [Node::infiniband(), Node::roce(), Node::empty()] {
            for _ in 0..100 {
                assert_eq!(said(&node.context()), []);
                node.tick(15);
            }
        }
    }

    #[test]
    fn in_a_cloud_cables_are_the_providers() {
        let mut node = Node::infiniband();
        node.set_link(3, link(200, 2));
        node.set_state(4, PortState::Down, PhysState::Polling);
        node.tick(1);
        for (provider, action) in [
            (None, Action::ReseatCable),
            (Some(profile::Provider::Azure), Action::CallProvider),
        ] {
            node.profile.provider = provider;
            let found = said(&node.context());
            let actions: Vec<Action> = found.iter().map(|of| of.action).collect();
            assert_eq!(actions, [action; 2], "{found:?}");
        }
    }

    /// A node on which everything goes wrong at once.
    fn wreck() -> Node {
        let mut node = Node::infiniband();
        let counters = |value| {
            [
                ("symbol_error", value),
                ("port_rcv_errors", value),
                ("port_xmit_discards", value),
                ("hw.packet_seq_err", value),
                ("hw.local_ack_timeout_err", value),
                ("local_link_integrity_errors", 15),
            ]
        };
        for i in 0..8 {
            node.set_counters(i, &counters(0));
        }
        node.tick(10);
        for i in 0..8 {
            node.set_counters(i, &counters(60_000));
            node.bend_pci(&gpu(i), |f| f.config_dead = Reading::Value(true));
            node.bend_pci(&nic(i), |f| f.current = Reading::NotObservable);
            for source in ["link", "counters", "gids"] {
                node.set_fault(source, &nic(i), FaultKind::Denied);
            }
            for code in [48, 63, 79, 9999] {
                let what = KernelEventKind::Xid(Xid {
                    code,
                    ..Xid::default()
                });
                let event = KernelEvent::new(what, "Xid").of_slot(Some(gpu(i)));
                node.history.push_event(node.now, false, &event);
            }
        }
        node.set_state(0, PortState::Down, PhysState::Polling);
        node.set_state(1, PortState::Init, PhysState::LinkUp);
        node.set_state(2, PortState::Unknown, PhysState::Unknown);
        node.tick(1);
        node
    }

    #[test]
    fn identities_and_labels_are_unique() {
        let candidates = said(&wreck().context());
        assert!(candidates.len() > 50);
        let mut keys = BTreeSet::new();
        let mut labels = BTreeSet::new();
        for c in &candidates {
            assert!(keys.insert((c.check, &c.key, c.reason)), "{c:?}");
            // What metrics tell findings apart by.
            assert!(labels.insert((c.check, &c.subject, c.reason)), "{c:?}");
        }
    }

    #[test]
    fn muted_checks_are_not_run() {
        let mut node = wreck();
        node.policy.mute = CHECKS.iter().map(|check| check.id.to_string()).collect();
        assert_eq!(said(&node.context()), []);
    }

    #[test]
    fn a_storm_is_bounded_and_keeps_the_worst() {
        let mut node = Node::infiniband();
        for i in 8..400 {
            let mut device = device(i % 200, LinkLayer::Infiniband);
            device.key.0 = format!("{}/{i}", nic(i % 200));
            node.devices.push(device.clone());
            let port = device.port_key(1);
            node.roles.insert(port.clone(), node.roles[&key(0)].clone());
        }
        node.set_state(5, PortState::Down, PhysState::Polling);
        node.tick(1);
        let found = said(&node.context());
        let of_links = found.iter().filter(|c| c.check == "link_state");
        assert_eq!(of_links.count(), MAX_CANDIDATES_PER_CHECK);
        assert!(found.iter().any(|c| c.reason == "LinkDown"));
    }
}
