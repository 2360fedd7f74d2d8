//! Facts in, report out: history, roles, checks, debounce and the fold, in that order. Pure except
//! for its own memory: time comes with the snapshot.

use crate::check::allocatable;
use crate::check::debounce::{self, Debouncer, Hysteresis};
use crate::check::gpudirect::GpuDirectVerdict;
use crate::check::job_verdicts::Jobs;
use crate::check::kept::KeptFinding;
use crate::check::link_state::{self, needs_manager};
use crate::check::policy::Policy;
use crate::check::profile::{self, PlatformSettings, Profile};
use crate::check::roles::{self, RoleOverrides, Roles};
use crate::check::{
    self, Candidate, Context, Finding, Status, causes, device_missing, expected, no_fabric,
    xid_seen,
};
use crate::observe::{History, Memory, NodeResources, Snapshot};
use crate::readiness::{self, FoldInputs, SETTLING, State, Verdict, history::VerdictHistory};
use crate::report::{Report, Tainting};
use crate::units::{Millis, PortKey};
use std::collections::{BTreeMap, BTreeSet};
use std::{sync::Arc, time::Duration};

/// Time between judgements while nothing changes and no finding is due. The end of a mute or of a rate's
/// window may be this late.
const SETTLED: Duration = Duration::from_secs(15);

/// The same while something is wrong and the verdict can get worse: a reset that was announced or a grace may
/// end, which no finding's own timing tells.
const FAULTY: Duration = Duration::from_secs(2);

/// The same while the taint, a start that settles, a hung read or a sample is waited for.
const UNSETTLED: Duration = Duration::from_secs(1);

/// Minimum interval between reports that only the passing of time causes.
const SOONEST: Duration = Duration::from_millis(10);

/// Judges one node over time.
#[derive(Default)]
pub struct Evaluator {
    node: String,
    policy: Policy,
    /// Checks that the policy leaves out for good.
    muted: BTreeSet<String>,
    overrides: RoleOverrides,
    /// What was seen so far, to which events of the kernel log are added.
    pub history: History,
    debouncer: Debouncer,
    /// The state, and since when it stands.
    current: Option<(State, Millis)>,
    /// How often each state was entered since the agent started, across reboots.
    transitions: BTreeMap<String, u64>,
    /// The rails with which the node was last ready or degraded: a candidate that waits does not take
    /// that back. With other rails it settles again.
    proven: Option<BTreeSet<PortKey>>,
    changes: VerdictHistory,
    generation: u64,
    /// The state of this node's jobs.
    pub jobs: Arc<Jobs>,
    platform: PlatformSettings,
    offer: Option<Arc<NodeResources>>,
    /// The last known, merged with earlier ones.
    offered: Option<Arc<NodeResources>>,
}

/// What the checks say of a snapshot, before time decides what of it is believed.
struct Judged {
    candidates: Vec<Candidate>,
    resources: Vec<allocatable::Resource>,
    gpudirect: GpuDirectVerdict,
    rails: BTreeSet<PortKey>,
    /// Number of rails that need a subnet manager.
    need_manager: usize,
    no_fabric: bool,
    /// Whether rails have not been up for their settle time or may still appear, as what they may
    /// become.
    fresh: Option<Status>,
}

impl Judged {
    fn of(context: &Context<'_>) -> Self {
        Judged {
            candidates: check::run_all(context),
            resources: allocatable::resources(context),
            gpudirect: GpuDirectVerdict::clone(&context.gpudirect_verdict),
            rails: context.rails().map(|rail| rail.key.clone()).collect(),
            need_manager: context.rails().filter(|rail| needs_manager(rail)).count(),
            no_fabric: no_fabric::is_certain(context),
            fresh: (link_state::rails_settle(context) || device_missing::rails_may_appear(context))
                .then_some(Status::Degraded),
        }
    }
}

/// Whether samples are judged over time or once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingMode {
    /// Over time: findings wait before they are believed. The flag says whether the first full
    /// window has been seen; before it, the verdict is unknown.
    Watching {
        /// Every source has answered.
        full_window: bool,
    },
    /// One sample, believed at once.
    Once,
}

impl Evaluator {
    /// An evaluator that continues from what an earlier run remembered, with the operator's settings about
    /// the machine.
    pub fn new(
        node: String,
        policy: Policy,
        overrides: RoleOverrides,
        memory: Memory,
        hysteresis: Hysteresis,
        platform: PlatformSettings,
    ) -> Self {
        Evaluator {
            node,
            muted: policy.mute.clone(),
            policy,
            overrides,
            history: History::restore(memory),
            debouncer: Debouncer::new(hysteresis),
            platform,
            ..Evaluator::default()
        }
    }

    /// What is believed, for the next run of the agent.
    pub fn findings_to_keep(&self) -> Vec<KeptFinding> {
        self.debouncer.standing().map(KeptFinding::from).collect()
    }

    /// Continues from what an earlier run of this boot believed.
    pub fn restore(&mut self, kept: Vec<KeptFinding>, now: Millis) {
        let findings = (kept.into_iter()).filter_map(|kept| kept.restore(&self.policy));
        self.debouncer.restore(findings, now);
    }

    /// Sets what the Node offers; `None` if unknown. A node that was ready before the first offer came
    /// has to prove that it keeps what it offers.
    pub fn set_offer(&mut self, offer: Option<Arc<NodeResources>>) {
        self.offer = offer.map(|offer| {
            self.proven.take_if(|_| self.offered.is_none());
            let offer = Arc::unwrap_or_clone(offer).after(self.offered.as_deref());
            Arc::clone(self.offered.insert(Arc::new(offer)))
        });
    }

    /// Sets the checks that are muted in addition to the policy's.
    pub fn mute<'a>(&mut self, checks: impl Iterator<Item = &'a str>) {
        self.policy.mute = self.muted.clone();
        self.policy.mute.extend(checks.map(str::to_string));
    }

    /// Forgets what the machine was at its best, in this boot and before: it is right as it is now.
    pub fn forget(&mut self) {
        self.history.forget_best();
        self.debouncer.accept();
    }

    /// When a node is judged again even if nothing changes.
    pub fn next_look(&self, report: &Report, tainting: Tainting) -> Millis {
        let hold_settled = match tainting {
            Tainting::Want => report.state == State::Unready,
            Tainting::Clear => report.state != State::Unready,
            Tainting::Keep => true,
        };
        let mut sources = report.snapshot.sources.values();
        let settled = report.full_window
            && hold_settled
            && !report.reasons.iter().any(|reason| reason == SETTLING)
            && !self.history.awaits_sample(report.snapshot.at)
            && !sources.any(|health| health.stalled_since.is_some());
        let now = report.snapshot.at;
        let may_worsen = report.state != State::Unready && self.debouncer.has_faults();
        let latest = now.plus(match may_worsen {
            _ if !settled => UNSETTLED,
            true => FAULTY,
            false => SETTLED,
        });
        let due = self.debouncer.next_change().unwrap_or(latest);
        due.clamp(now.plus(SOONEST), latest)
    }

    /// Judges a snapshot and reports the verdict with its reasons.
    pub fn evaluate(&mut self, snapshot: &Snapshot, look: SamplingMode) -> Report {
        self.history.push(snapshot);
        let now = snapshot.at;
        let (mut judged, roles, profile) = self.judge(snapshot);
        let full_window = match look {
            SamplingMode::Watching { full_window } => full_window,
            SamplingMode::Once => true,
        };
        let findings = self.findings(&mut judged, look, now);
        let verdict = readiness::fold(
            &findings,
            FoldInputs {
                proof: crate::check::port::proof(snapshot, &self.history, &roles),
                expected_rails: self.policy.expect.rails,
                full_window,
                no_fabric: judged.no_fabric,
                settling: self.settling(&judged, look),
            },
        );
        let Verdict { state, reasons } = verdict;
        if full_window && !matches!(state, State::Unready | State::Unknown) {
            self.proven = Some(judged.rails);
        }
        let since = self.stands_since(state, now);
        // In a single sample nothing has changed.
        if look != SamplingMode::Once {
            self.changes.note(now, state, &reasons, &findings);
        }
        let totals = &mut self.history.totals;
        totals.transitions.clone_from(&self.transitions);
        self.generation += 1;
        Report {
            generation: self.generation,
            node: self.node.clone(),
            snapshot: snapshot.clone(),
            stale_after: self.policy.stale_after.0,
            roles,
            state,
            since,
            reasons,
            findings,
            xids: xid_seen::seen(&self.history),
            gpudirect: judged.gpudirect,
            totals: Arc::new(self.history.totals.clone()),
            full_window,
            muted: self.policy.mute.iter().cloned().collect(),
            tainting: Tainting::default(),
            taint_muted: false,
            jobs: Arc::clone(&self.jobs),
            profile,
            resources: judged.resources,
            history: self.changes.entries(),
        }
    }

    /// The last report with newer samples, on which its verdict does not depend.
    pub fn resample(&mut self, last: &Report, snapshot: &Snapshot) -> Report {
        self.history.push(snapshot);
        self.generation += 1;
        Report {
            generation: self.generation,
            snapshot: snapshot.clone(),
            ..last.clone()
        }
    }

    /// Since when the state stands; counts how often each is entered. The first is not entered from
    /// another.
    fn stands_since(&mut self, state: State, now: Millis) -> Millis {
        match self.current {
            Some((before, since)) if before == state => return since,
            Some(_) => *self.transitions.entry(state.as_str().into()).or_default() += 1,
            None => {}
        }
        self.current = Some((state, now));
        now
    }

    /// The findings that stand, with their causes.
    fn findings(&mut self, judged: &mut Judged, look: SamplingMode, now: Millis) -> Vec<Finding> {
        let candidates = std::mem::take(&mut judged.candidates);
        let mut findings = match look {
            SamplingMode::Watching { full_window } => {
                self.debouncer.full_window = full_window;
                self.debouncer.step(candidates, now)
            }
            SamplingMode::Once => debounce::step_once(candidates, now),
        };
        // What is muted is left out now, not when it would have cleared.
        findings.retain(|finding| !self.policy.mute.contains(finding.check));
        let seen = causes::CauseInputs {
            need_manager: judged.need_manager,
            watched_since: *self.history.watched_since.get_or_insert(now),
            this_run_since: self.history.started.unwrap_or(now),
        };
        causes::attribute(&mut findings, seen);
        findings
    }

    /// Runs the checks, and learns what the machine is at its best.
    fn judge(&mut self, snapshot: &Snapshot) -> (Judged, Roles, Profile) {
        let offer = self.offer.as_deref();
        let known = profile::known(&self.platform, offer, snapshot);
        let says = profile::says_of_roles(known.map(|(_, shape)| shape));
        let roles = roles::assign_roles(snapshot, &self.history, (&self.overrides, says));
        let mut context = Context::new(snapshot, &self.history, &roles, &self.policy, snapshot.at);
        context.jobs = Some(&self.jobs);
        let overrides = (&roles, &self.overrides);
        let profile = profile::find(&self.platform, offer, snapshot, overrides);
        context.profile = Some(&profile);
        context.offer = offer;
        let seen = expected::seen(&context, check::REMEMBERED);
        let machine = expected::machine(&context);
        let judged = Judged::of(&context);
        self.history.remembered.learn(machine, seen, snapshot.at);
        (judged, roles, profile)
    }

    /// The worst that a waiting candidate may become, where the rails have not been proven yet.
    fn settling(&mut self, judged: &Judged, look: SamplingMode) -> Option<Status> {
        // What was away settles again.
        if let Some(proven) = &mut self.proven {
            proven.retain(|rail| judged.rails.contains(rail));
        }
        match (&self.proven, look) {
            (_, SamplingMode::Once) => None,
            (Some(proven), _) if judged.rails.is_subset(proven) => None,
            _ => self.debouncer.waiting().max(judged.fresh),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::Node;
    use crate::observe::{Memory, Offered, PhysState, PortState};

    #[test]
    fn what_rose_between_two_verdicts_counts_in_the_second() {
        let mut node = Node::infiniband();
        let mut evaluator = Evaluator::default();
        let mut last = evaluator.evaluate(&node.snapshot, SamplingMode::Once);
        for (rise, judged) in [(0, false), (60_000, false), (60_000, true)] {
            node.tick(10);
            node.set_counters(3, &[("symbol_error", rise)]);
            last = match judged {
                true => evaluator.evaluate(&node.snapshot, SamplingMode::Once),
                false => evaluator.resample(&last, &node.snapshot),
            };
            assert_eq!(last.snapshot, node.snapshot);
            assert_eq!(last.reasons.is_empty(), !judged, "{:?}", last.reasons);
        }
        assert_eq!(last.generation, 4);
    }

    #[test]
    fn an_offer_that_comes_late_is_waited_for_all_the_same() {
        let node = Node::infiniband();
        let offer = |allocatable: u64| {
            let offered = Offered {
                allocatable: Some(allocatable),
                capacity: Some(8),
                had: 0,
            };
            Some(Arc::new(NodeResources {
                resources: [("rdma/ib".to_string(), offered)].into(),
                ..NodeResources::default()
            }))
        };
        let watching = SamplingMode::Watching { full_window: true };
        let mut evaluator = Evaluator::default();
        let mut state = |offer: Option<Arc<NodeResources>>| {
            evaluator.set_offer(offer);
            evaluator.evaluate(&node.snapshot, watching).state
        };
        assert_eq!(state(None), State::Ready);
        assert_eq!(state(offer(0)), State::Unknown, "the plugin starts");
        assert_eq!(state(offer(8)), State::Ready);
        assert_eq!(state(offer(0)), State::Ready, "the plugin restarts");
        // An API server that is away for a while says nothing of the plugin.
        assert_eq!(state(None), State::Ready);
        assert_eq!(state(offer(0)), State::Ready);
    }

    #[test]
    fn rails_that_fell_together_did_so_before_a_restart_too() {
        let watching = SamplingMode::Watching { full_window: true };
        let mut node = Node::infiniband();
        let mut evaluator = Evaluator::default();
        evaluator.evaluate(&node.snapshot, watching);
        for _ in 0..200 {
            node.tick(1);
            (0..4).for_each(|i| node.set_state(i, PortState::Down, PhysState::Polling));
            evaluator.evaluate(&node.snapshot, watching);
        }
        let together = |by: &mut Evaluator| {
            let report = by.evaluate(&node.snapshot, watching);
            report.reasons.iter().any(|of| *of == "RailsDownTogether")
        };
        let memory = evaluator.history.memory();
        for (watched_since, want) in [(memory.watched_since, true), (None, false)] {
            let memory = Memory {
                watched_since,
                ..memory.clone()
            };
            let mut restarted = Evaluator {
                history: History::restore(memory),
                ..Evaluator::default()
            };
            restarted.restore(evaluator.findings_to_keep(), node.now);
            assert_eq!(together(&mut restarted), want, "{watched_since:?}");
        }
        assert!(together(&mut evaluator));
    }

    #[test]
    fn while_something_is_awaited_the_node_is_judged_each_second() {
        let mut node = Node::infiniband();
        let mut evaluator = Evaluator::default();
        let mut seconds = |node: &Node, full_window: bool, tainting: Tainting| {
            let report = evaluator.evaluate(&node.snapshot, SamplingMode::Watching { full_window });
            let due = evaluator.next_look(&report, tainting);
            (report.state, due.since(report.snapshot.at).as_secs())
        };
        let ready = State::Ready;
        assert_eq!(
            seconds(&node, false, Tainting::Keep),
            (State::Unknown, 1),
            "the start"
        );
        assert_eq!(
            seconds(&node, true, Tainting::Clear),
            (ready, 15),
            "nothing"
        );
        assert_eq!(
            seconds(&node, true, Tainting::Want),
            (ready, 1),
            "the taint goes"
        );
        let gone = node.devices.pop();
        node.tick(1);
        assert_eq!(
            seconds(&node, true, Tainting::Clear),
            (ready, 1),
            "a device is missing"
        );
        node.devices.extend(gone);
        node.tick(1);
        assert_eq!(
            seconds(&node, true, Tainting::Clear),
            (ready, 15),
            "it is back"
        );
        node.set_state(0, PortState::Down, PhysState::Polling);
        assert_eq!(
            seconds(&node, true, Tainting::Clear),
            (ready, 2),
            "a fault is on its way"
        );
        let mut last = (ready, 0);
        for _ in 0..200 {
            node.tick(1);
            (0..8).for_each(|i| node.set_state(i, PortState::Down, PhysState::Polling));
            last = seconds(&node, true, Tainting::Want);
        }
        assert_eq!(last, (State::Unready, 15), "it cannot get worse");
    }
}
