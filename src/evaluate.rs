//! Facts in, report out: history, roles, checks, debounce and the fold, in that order. Pure but for
//! its own memory: time comes with the snapshot.

use crate::check::debounce::Debouncer;
use crate::check::policy::Policy;
use crate::check::roles::{self, RoleOverrides};
use crate::check::{self, Context, Finding, gpudirect};
use crate::observe::history::{History, Memory};
use crate::observe::kernel::KernelEvent;
use crate::observe::snapshot::Snapshot;
use crate::readiness::{self, VerdictTracker};
use crate::report::Report;
use crate::units::Millis;
use std::sync::Arc;

/// Judges one node over time.
pub struct Evaluator {
    node: String,
    policy: Policy,
    overrides: RoleOverrides,
    history: History,
    debouncer: Debouncer,
    tracker: VerdictTracker,
    generation: u64,
}

/// How to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Over time: findings wait before they are believed. The flag says whether the first full
    /// window has been seen; before it, the verdict is unknown.
    Watching {
        /// Every source has answered.
        full_window: bool,
    },
    /// One look: what is seen is believed.
    Once,
}

impl Evaluator {
    /// A judge that goes on from what an earlier run remembered.
    pub fn new(node: String, policy: Policy, overrides: RoleOverrides, memory: Memory) -> Self {
        Evaluator {
            node,
            policy,
            overrides,
            history: History::restore(memory),
            debouncer: Debouncer::default(),
            tracker: VerdictTracker::default(),
            generation: 0,
        }
    }

    /// Takes in an event of the kernel log.
    pub fn push_event(&mut self, at: Millis, historic: bool, event: &KernelEvent) {
        self.history.push_event(at, historic, event);
    }

    /// More kernel-log records were overwritten before they were read.
    pub fn add_records_lost(&mut self, lost: u64) {
        self.history.totals.kmsg_records_lost += lost;
    }

    /// What to keep over a restart.
    pub fn memory(&self) -> Memory {
        self.history.memory()
    }

    /// Drops what belongs to another boot; call before the first event of a boot is pushed.
    pub fn begin_boot(&mut self, boot_id: Option<&str>) {
        self.history.begin_boot(boot_id);
    }

    /// Judges a snapshot.
    pub fn evaluate(&mut self, snapshot: &Snapshot, look: Look) -> Report {
        self.history.push(snapshot);
        let now = snapshot.at;
        let roles = roles::roles(snapshot, &self.history, &self.overrides);
        let context = Context {
            snapshot,
            history: &self.history,
            roles: &roles,
            policy: &self.policy,
            now,
        };
        let candidates = check::run_all(&context);
        let gpudirect = gpudirect::verdict(&context);
        let (findings, full_window) = match look {
            Look::Watching { full_window } => (self.debouncer.step(candidates, now), full_window),
            Look::Once => (Debouncer::step_once(candidates, now), true),
        };
        let verdict = readiness::fold(
            &findings,
            &readiness::Inputs::of(snapshot, &roles, &self.policy, full_window),
        );
        self.tracker.step(verdict.state, now);
        self.history.totals.transitions = self.tracker.transitions();
        self.generation += 1;
        Report {
            generation: self.generation,
            node: self.node.clone(),
            snapshot: snapshot.clone(),
            roles,
            state: verdict.state,
            since: self.tracker.since(),
            reasons: verdict.reasons,
            findings: sorted(findings),
            xids: self.history.xids(),
            gpudirect,
            totals: Arc::new(self.history.totals.clone()),
            full_window,
        }
    }
}

/// Worst first: what moves the verdict before notices, failing before unknown before degraded.
fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    let rank = |finding: &Finding| match finding.status {
        check::Status::Failing => 0,
        check::Status::Unknown => 1,
        check::Status::Degraded => 2,
    };
    findings.sort_by(|a, b| {
        (b.weight, rank(a), &a.check, &a.key, &a.reason).cmp(&(
            a.weight,
            rank(b),
            &b.check,
            &b.key,
            &b.reason,
        ))
    });
    findings
}
