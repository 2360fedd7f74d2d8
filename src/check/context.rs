//! What every check is given, and the questions that several checks ask.

use super::gpudirect::{self, GpuDirectVerdict};
use super::policy::{Limit, Policy};
use super::port::PortView;
use super::profile::Profile;
use super::{Candidate, Check, Reason, ReasonDoc, Status, Timing, Weight, job_verdicts::Jobs};
use crate::check::roles::{Role, Roles};
use crate::observe::{
    History, Increase, NetdevFacts, NodeResources, RdmaDevice, Snapshot, Stamped, Track, Window,
};
use crate::units::{Bdf, DeviceKey, Millis, PortKey};
use std::rc::Rc;

/// Checks of links, whose messages name the switch's port: what to look at next.
const LINK_CHECKS: &[&str] = &["link_state", "link_flap", "link_rate", "link_errors"];

/// One moment to judge.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    /// What was last read.
    pub snapshot: &'a Snapshot,
    /// What has been seen so far.
    pub history: &'a History,
    /// Which ports are rails.
    pub roles: &'a Roles,
    /// Validated thresholds and expectations from the configuration.
    pub policy: &'a Policy,
    /// Now, on the clock of the snapshot's stamps.
    pub now: Millis,
    /// Jobs on this node; none where jobs are not watched.
    pub jobs: Option<&'a Jobs>,
    /// What the machine is taken for; none where no profile is asked for.
    pub profile: Option<&'a Profile>,
    /// What the Node promises to pods; none where no API server has told.
    pub offer: Option<&'a NodeResources>,
    /// Id and timing of the check that judges; none before [`Context::of_check`].
    check: (&'static str, Timing),
    ports: Rc<[PortView<'a>]>,
    /// Which path GPUDirect RDMA can take on this node: judged once a moment.
    pub gpudirect_verdict: Rc<GpuDirectVerdict>,
}

impl<'a> Context<'a> {
    /// The moment of a snapshot that `history` already holds.
    pub fn new(
        snapshot: &'a Snapshot,
        history: &'a History,
        roles: &'a Roles,
        policy: &'a Policy,
        now: Millis,
    ) -> Self {
        let ports = PortView::all(snapshot, roles, (now, policy.stale_after.0));
        let mut context = Context {
            snapshot,
            history,
            roles,
            policy,
            now,
            jobs: None,
            profile: None,
            offer: None,
            check: ("", Timing::default()),
            ports: ports.map(|port| port.with_past(history)).collect(),
            gpudirect_verdict: Rc::default(),
        };
        let (facts, pci) = (context.gpudirect(), context.pci());
        context.gpudirect_verdict = Rc::new(gpudirect::verdict(facts, pci, &context.ports));
        context
    }

    /// The same moment for one check, whose id and timing its candidates have.
    pub fn of_check(&self, check: &Check) -> Self {
        Context {
            check: (check.id, (check.timing)(self.policy)),
            ..self.clone()
        }
    }

    /// A candidate of the check that judges: status, weight and remedy are the reason's own.
    pub fn candidate(
        &self,
        reason: Reason,
        (key, subject): (impl Into<String>, impl Into<String>),
        message: impl Into<String>,
    ) -> Candidate {
        let (check, timing) = self.check;
        let doc = ReasonDoc::of(reason);
        Candidate {
            check,
            key: key.into(),
            subject: subject.into(),
            reason,
            status: doc.status,
            weight: doc.weight,
            message: message.into(),
            remedy: doc.remedy().to_string(),
            action: doc.action,
            timing,
            ..Candidate::default()
        }
    }

    /// Marks a part as unobservable now: findings of this reason about it stay as they are.
    pub fn unseen(&self, reason: Reason, key: impl Into<String>) -> Candidate {
        Candidate {
            unseen: true,
            ..self.candidate(reason, (key, ""), "")
        }
    }

    /// All that was believed stands: of a part, by any check, or of the whole node, by this one.
    pub fn unread(&self, key: impl Into<String>) -> Candidate {
        Candidate {
            unseen: true,
            check: self.check.0,
            key: key.into(),
            ..Candidate::default()
        }
    }

    /// A candidate about a port. Only rails move the verdict: of another port it is a notice, and
    /// nothing worse than degraded.
    pub fn of_port(&self, reason: Reason, port: &PortView<'_>, mut message: String) -> Candidate {
        let about = (port.key.to_string(), port.subject.clone());
        let neighbor = port.neighbor;
        if let Some(neighbor) = neighbor.filter(|_| LINK_CHECKS.contains(&self.check.0)) {
            message += &format!("; at the other end: {neighbor}");
        }
        let mut found = (self.candidate(reason, about, message))
            .with("neighbor", neighbor.map(ToString::to_string));
        if !port.rail {
            found.weight = Weight::Notice;
            found.status = found.status.min(Status::Degraded);
        }
        found
    }

    /// RDMA devices that are there.
    pub fn devices(&self) -> impl Iterator<Item = &'a RdmaDevice> + use<'a> {
        (self.snapshot.devices.iter()).flat_map(|devices| devices.value.iter())
    }

    /// All ports, in the order of the devices.
    pub fn ports(&self) -> &[PortView<'a>] {
        &self.ports
    }

    /// Ports that are rails.
    pub fn rails(&self) -> impl Iterator<Item = &PortView<'a>> {
        self.ports.iter().filter(|port| port.rail)
    }

    /// Whether a port is a rail.
    pub fn is_rail(&self, key: &PortKey) -> bool {
        let facts = self.roles.get(key);
        facts.is_some_and(|facts| facts.role == Role::Rail)
    }

    /// Whether pods may hold RDMA devices: each belongs to one network namespace.
    pub fn pods_hold_devices(&self) -> bool {
        self.snapshot.netns_exclusive == Some(true)
    }

    /// Whether fewer rails than the machine has, or had, show no fault: the operator says how many or
    /// which, pods may hold some, or nothing was enumerated.
    pub fn fewer_rails_are_excused(&self) -> bool {
        self.policy.expect.rails.is_some()
            || self.profile.is_some_and(|profile| profile.roles_set)
            || self.snapshot.devices.is_none()
            || self.pods_hold_devices()
    }

    /// The value, unless it is older than `stale_after` because its source is stalled or failing. A
    /// source that simply has a long interval keeps its value.
    pub fn fresh<T>(&self, stamp: &'a Stamped<T>, source: &str, subject: &str) -> Option<&'a T> {
        let is_fresh = self.is_fresh(stamp.at, source, subject);
        is_fresh.then_some(&stamp.value)
    }

    /// The moment to judge by what was last sampled `at`: now, or that very moment where the source has
    /// stalled or fails. What was judged then stays, and nothing is made of a window that slides over no data.
    pub fn as_of(&self, at: Option<Millis>, source: &str, subject: &str) -> Millis {
        let stale = at.filter(|at| !self.is_fresh(*at, source, subject));
        stale.unwrap_or(self.now)
    }

    fn is_fresh(&self, at: Millis, source: &str, subject: &str) -> bool {
        let (of, stale_after) = ((source, subject), self.policy.stale_after.0);
        self.snapshot.is_fresh(at, of, self.now, stale_after)
    }

    /// A network device's facts, unless too old.
    pub fn netdev(&self, name: &str) -> Option<&'a NetdevFacts> {
        self.fresh(self.snapshot.netdevs.get(name)?, "netdev", name)
    }

    /// The legs of the bond that a port's interface is, or is a leg of.
    pub fn bond_legs(&self, netdev: Option<&'a NetdevFacts>) -> &'a [String] {
        let bond = netdev.and_then(|netdev| match &netdev.master {
            Some(master) => self.netdev(master),
            None => Some(netdev),
        });
        bond.map(|bond| bond.lowers.as_slice()).unwrap_or_default()
    }

    /// PCI facts, unless too old.
    pub fn pci(&self) -> Option<&'a crate::observe::PciFacts> {
        self.fresh(self.snapshot.pci.as_deref()?, "pci", "")
    }

    /// GPUDirect facts, unless too old.
    pub fn gpudirect(&self) -> Option<&'a crate::observe::GpuDirectFacts> {
        self.fresh(self.snapshot.gpudirect.as_deref()?, "gpudirect", "")
    }

    /// GPU addresses that PCI shows; empty where PCI could not be read.
    pub fn gpus(&self) -> Vec<String> {
        let gpus = self.pci().into_iter().flat_map(|pci| &pci.gpus);
        gpus.map(ToString::to_string).collect()
    }

    /// A GPU by its address or slot, for messages: with its number where that is the one that `nvidia-smi`
    /// has, as the driver lists the very GPUs that are on the bus.
    pub fn gpu_name(&self, address: &str) -> String {
        let number = || {
            let on_bus = &self.pci()?.gpus;
            let listed = self.gpudirect()?.gpus.iter();
            let listed = listed.filter_map(|gpu| gpu.pci.parse::<Bdf>().ok());
            let mut listed: Vec<_> = listed.collect();
            listed.sort();
            let is_it = |gpu: &Bdf| gpu.to_string() == address || gpu.slot() == address;
            let number = on_bus.iter().position(is_it)?;
            let gpu = on_bus.get(number).filter(|_| listed == *on_bus)?;
            Some((number, gpu))
        };
        number().map_or_else(
            || format!("GPU {address}"),
            |(number, address)| format!("GPU {number} ({address})"),
        )
    }

    /// Increase above the limit, if there is one.
    pub fn above(&self, track: Option<&Track>, limit: Limit) -> Option<Increase> {
        let increase = track?.increase(Window::last(limit.within.0, self.now))?;
        (increase.by > limit.more_than).then_some(increase)
    }

    /// Name of a device that may be gone.
    pub fn device_name(&self, key: &DeviceKey) -> String {
        (self.history.devices.get(key)).map_or_else(|| key.to_string(), |seen| seen.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, gpu};
    use crate::check::testing;

    #[test]
    fn a_gpu_has_a_number_where_the_driver_lists_all_that_are_on_the_bus() {
        let listed = |count: usize| {
            let mut node = Node::infiniband();
            node.bend_gpudirect(|facts| {
                // The driver's list has an order of its own.
                let gpus = (0..count).rev().map(|i| testing::listed(gpu(i)));
                facts.gpus = gpus.collect();
            });
            node
        };
        let (address, numbered) = (gpu(3), format!("GPU 3 ({})", gpu(3)));
        let slot = address.trim_end_matches(".0");
        let all = listed(8);
        assert_eq!(all.context().gpu_name(&address), numbered);
        assert_eq!(all.context().gpu_name(slot), numbered);
        assert_eq!(all.context().gpu_name("0000:ff:00.0"), "GPU 0000:ff:00.0");
        for uncertain in [listed(7), listed(0)] {
            let name = uncertain.context().gpu_name(&address);
            assert_eq!(name, format!("GPU {address}"));
        }
    }
}
