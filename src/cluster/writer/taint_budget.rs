//! Puts and lifts the taint, within the group's budget: the rules of `budget.rs` carried out.

use crate::cluster::api::WRITE_LEDGER;
use crate::cluster::budget::{Asker, BudgetStep, Ledger, Withheld};
use crate::cluster::{
    ApiError, ApiResult, BudgetMax, Desired, ErrorKind, EventKind, EventRequest, Gate, Mode,
    NodeApi, NodeGroup, NodeView, RateLimits, WITHHELD, WantedTaint, Writer, desired, rate_limit,
};
use crate::report::{BudgetStatus, Report, State, Tainting};
use crate::units::cut;
use backon::{ExponentialBuilder, Retryable};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::ExponentialBackoff;
use std::time::Duration;

/// Where this node stands with its group's budget.
pub(super) struct TaintBudget {
    /// The ledger may hold an entry of ours, granted for this version of the Node (empty: unknown).
    entry: Option<String>,
    /// The Lease that is known to hold the entry of this tainted node.
    recorded_in: Option<String>,
    /// Why the last request for a slot was refused.
    refusal: Option<Refusal>,
    backoff: ExponentialBackoff,
    /// Waits while other nodes write the ledger.
    busy: ExponentialBackoff,
}

/// The value of the metric's label `reason`, and the sentence that the condition's message begins with.
type Refusal = (&'static str, String);

/// The answer to a request for a slot.
enum BudgetSlot {
    /// The ledger has the entry: patch the Node at this version.
    Granted,
    /// No slot is free.
    Refused(Refusal),
    /// Other nodes are writing the ledger: try again soon.
    Busy,
}

impl TaintBudget {
    pub fn new(limits: &RateLimits) -> Self {
        TaintBudget {
            entry: None,
            recorded_in: None,
            refusal: None,
            backoff: rate_limit::backoff(limits.budget_backoff),
            busy: rate_limit::backoff(limits.busy),
        }
    }
}

impl Writer {
    /// Puts or lifts the taint. A taint that is withheld is taken out of `desired`, and the reason is
    /// put in front of the condition's message.
    pub(super) async fn write_taint(
        &mut self,
        api: &NodeApi,
        desired: &mut Desired,
        report: &Report,
    ) -> ApiResult<()> {
        let before = self.status.withheld;
        self.status.withheld = self.withheld_by_settings(report);
        let wanted = desired.taint.is_present();
        let mut patch = self.patches(desired).taints;
        if patch.is_some() && !self.gates.open_or_requeue(Gate::Taints) {
            // Another writer reverts the taints each time.
            self.status.withheld = before;
            return self.settle_entry(api, wanted).await;
        }
        if patch.as_ref().is_some_and(|patch| patch.taints) {
            // Until it is put, the earlier reason stands.
            self.status.withheld = before;
            if !self.acquire_slot(api, desired).await? {
                desired.taint = WantedTaint::Keep;
                patch = self.patches(desired).taints;
            }
        } else {
            self.forget_refusals();
        }
        if let Some(patch) = patch {
            self.send(api, &patch.patch).await?;
            self.gates.take(Gate::Taints);
            if patch.untaints {
                // There may be an entry, of this agent or an earlier one.
                self.budget.entry.get_or_insert_default();
            }
            tracing::info!(
                taints = patch.taints,
                untaints = patch.untaints,
                ends_startup = patch.ends_startup,
                "taints of the Node patched"
            );
        }
        // Last, so that an unusable ledger never delays recovery.
        self.settle_entry(api, wanted).await
    }

    /// A slot is not wanted, or was granted.
    fn forget_refusals(&mut self) {
        self.budget.refusal = None;
        self.budget.backoff.reset();
        self.budget.busy.reset();
        self.gates.close(Gate::Slot, Duration::ZERO);
    }

    /// Requests a slot of the budget, unless it is too early; whether the taint may be put.
    async fn acquire_slot(&mut self, api: &NodeApi, desired: &mut Desired) -> ApiResult<bool> {
        let Some(view) = self.view.clone() else {
            return Ok(false);
        };
        if self.gates.wait(Gate::Slot).is_zero() {
            let wait = match self.request_slot(api, &view).await? {
                BudgetSlot::Granted => {
                    self.budget.entry = Some(view.resource_version.clone());
                    self.budget.recorded_in = Some(self.group_of(&view).lease);
                    self.forget_refusals();
                    return Ok(true);
                }
                BudgetSlot::Busy => self.budget.busy.next().unwrap_or_default(),
                BudgetSlot::Refused(refusal) => {
                    self.budget.busy.reset();
                    self.budget.refusal = Some(refusal);
                    self.budget.backoff.next().unwrap_or_default()
                }
            };
            self.gates.close(Gate::Slot, wait);
        }
        self.gates.open_or_requeue(Gate::Slot);
        if let Some((reason, sentence)) = &self.budget.refusal {
            let message = format!("{sentence} {}", desired.condition.message);
            let stands = view.condition.as_ref().map(|stands| &stands.message);
            let is_news = !stands.is_some_and(|stands| stands.starts_with(sentence));
            if is_news && self.status.withheld != Some(reason) {
                let (kind, event) = (EventKind::Warning, "FabricTaintWithheld");
                let event = EventRequest::on_node(kind, event, message.clone());
                self.events.push(event);
            }
            self.status.withheld = Some(reason);
            desired.condition.message = cut(message, desired::MESSAGE_MAX);
        }
        Ok(false)
    }

    /// Requests a slot for the node at its present version; a ledger that may not be used refuses it.
    async fn request_slot(&mut self, api: &NodeApi, view: &NodeView) -> ApiResult<BudgetSlot> {
        let (group, max) = (self.group_of(view), self.settings.budget_max);
        let is_contended = |error: &ApiError| error.is_conflict() && error.what == WRITE_LEDGER;
        let attempt = async || ask_budget(api, &group, max, view).await;
        match attempt.retry(back_off(2)).when(is_contended).await {
            Ok((slot, budget)) => {
                self.status.budget = Some(budget);
                Ok(slot)
            }
            // Hundreds may want to enter at once: they come back later, which holds up nothing else.
            Err(error) if is_contended(&error) => Ok(BudgetSlot::Busy),
            Err(error) => {
                self.status.withheld = Some("api");
                if !error.is_final() {
                    return Err(error);
                }
                // A permission is missing; labels and condition are written all the same.
                tracing::warn!(%error, "the budget's Lease cannot be used; withholding the taint");
                let sentence = format!("{WITHHELD}: the budget's Lease cannot be used.");
                Ok(BudgetSlot::Refused(("api", sentence)))
            }
        }
    }

    /// Keeps the ledger true: a tainted node has an entry, and a node that is not tainted, and not
    /// about to be, has none.
    async fn settle_entry(&mut self, api: &NodeApi, wanted: bool) -> ApiResult<()> {
        let Some(view) = &self.view else {
            return Ok(());
        };
        let lease = self.group_of(view).lease;
        let (name, version) = (&view.name, &view.resource_version);
        if view.is_tainted(&self.settings) {
            if self.budget.recorded_in.as_ref() != Some(&lease) {
                amend(api, &lease, |ledger| ledger.adopted(name, version)).await?;
                self.budget.recorded_in = Some(lease);
                self.budget.entry.get_or_insert_default();
            }
            return Ok(());
        }
        self.budget.recorded_in = None;
        // While the Node is at the version that was granted, our patch may still be under way.
        let moved = |granted: &String| granted != version;
        if !wanted && self.budget.entry.as_ref().is_some_and(moved) {
            amend(api, &lease, |ledger| ledger.released(name, version)).await?;
            self.budget.entry = None;
            self.status.budget = None;
        }
        Ok(())
    }

    fn group_of(&self, view: &NodeView) -> NodeGroup {
        NodeGroup::new(&self.settings, &view.labels)
    }

    /// Why the settings or an operator withhold a wanted taint.
    pub(super) fn withheld_by_settings(&self, report: &Report) -> Option<&'static str> {
        let settings = &self.settings;
        let wanted = report.tainting == Tainting::Want
            && report.state == State::Unready
            && self.status.taint_applied == Some(false);
        match wanted {
            false => None,
            true if report.taint_muted => Some("muted"),
            true if settings.mode != Mode::All => Some("mode"),
            true => settings.dry_run.then_some("dry_run"),
        }
    }
}

fn refusal(why: Withheld, limit: usize) -> Refusal {
    let spent = format!("the group's budget of {limit} tainted nodes is spent");
    let (reason, because) = match why {
        Withheld::Spent => ("budget", spent.as_str()),
        Withheld::NotInGroup => (
            "not_in_group",
            "the budget's selector does not match the node",
        ),
    };
    (reason, format!("{WITHHELD}: {because}."))
}

/// Asks the group's ledger for a slot once; fails with a conflict where another node writes it meanwhile.
async fn ask_budget(
    api: &NodeApi,
    group: &NodeGroup,
    max: BudgetMax,
    node: &NodeView,
) -> ApiResult<(BudgetSlot, BudgetStatus)> {
    let mut lease = api.lease(&group.lease).await?;
    let mut ledger = api.ledger(lease.as_ref());
    let mut listed = None;
    loop {
        let limit = ledger.limit(max);
        let asker = Asker {
            node: &node.name,
            resource_version: &node.resource_version,
            max,
            in_group: group.holds(&node.labels),
            now: jiff::Timestamp::now(),
        };
        let (next, slot) = match ledger.ask(asker, listed.as_ref()) {
            BudgetStep::Go => (None, Some(BudgetSlot::Granted)),
            BudgetStep::Wait => (None, Some(BudgetSlot::Busy)),
            BudgetStep::ClaimThenGo(next) => (Some(next), Some(BudgetSlot::Granted)),
            BudgetStep::Withhold(why, next) => {
                let limit = next.as_ref().map_or(limit, |next| next.limit(max));
                (next, Some(BudgetSlot::Refused(refusal(why, limit))))
            }
            BudgetStep::Count(next) => (Some(next), None),
            BudgetStep::Stale => {
                check_version(api, node).await?;
                // The entry is not ours: a Lease restored from another cluster, or a forged one.
                (Some(ledger.without(&node.name)), None)
            }
        };
        if let Some(next) = &next {
            lease = Some(api.write_ledger(&group.lease, lease.as_ref(), next).await?);
        }
        ledger = next.unwrap_or(ledger);
        if let Some(slot) = slot {
            let status = BudgetStatus {
                lease: group.lease.clone(),
                claimed: ledger.claims.len(),
                limit: ledger.limit(max),
                nodes: ledger.nodes.unwrap_or(0),
            };
            return Ok((slot, status));
        }
        listed = Some(api.list_group(&group.selector, &ledger).await?);
    }
}

/// Fails with a conflict if the Node has a later version than the one seen. Read after the ledger was,
/// so that no patch of ours can test for a version later than this.
async fn check_version(api: &NodeApi, node: &NodeView) -> ApiResult<()> {
    let now = api.get().await?;
    if now.resource_version == node.resource_version {
        return Ok(());
    }
    let message = "the Node as seen is behind the ledger";
    Err(ApiError::new(
        "ask the budget",
        ErrorKind::Conflict,
        message,
    ))
}

/// Changes a ledger, as long as `change` finds something to change. A ledger that may not be written is
/// logged, and does not delay anything.
async fn amend(
    api: &NodeApi,
    lease: &str,
    change: impl Fn(Ledger) -> Option<Ledger>,
) -> ApiResult<()> {
    let attempt = async || {
        let read = api.lease(lease).await?;
        let Some(next) = change(api.ledger(read.as_ref())) else {
            return Ok(());
        };
        let written = api.write_ledger(lease, read.as_ref(), &next).await;
        written.map(drop)
    };
    let retries = back_off(11);
    match attempt.retry(retries).when(ApiError::is_conflict).await {
        Err(error) if error.is_final() => {
            tracing::warn!(%error, "the budget's ledger cannot be updated");
            Ok(())
        }
        done => done,
    }
}

/// Waits after conflicts: doubled each time, and each lengthened at random by up to as much again.
fn back_off(retries: usize) -> ExponentialBuilder {
    let (first, longest) = (Duration::from_millis(5), Duration::from_millis(320));
    let waits = ExponentialBuilder::new().with_min_delay(first);
    let waits = waits.with_max_delay(longest).with_factor(2.0);
    waits.with_jitter().with_max_times(retries)
}
