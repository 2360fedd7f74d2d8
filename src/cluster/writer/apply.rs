//! One pass: labels, taint, condition, events, in that order.

use crate::cluster::reconcile::{ConditionWrite, NodePatch, Patches, reconcile};
use crate::cluster::{ApiResult, Desired, ErrorKind, Gate, NodeApi, WantedTaint, Writer, desired};
use crate::report::Report;
use std::time::Duration;

/// An overdue heartbeat is considered again after this long.
const OVERDUE: Duration = Duration::from_secs(1);

impl Writer {
    /// Writes what differs between the Node and what the report wants of it.
    pub(super) async fn reconcile(&mut self, api: &NodeApi, report: &Report) -> ApiResult<()> {
        self.gates.requeue = None;
        let Some(mut desired) = desired::desired(report, &self.settings) else {
            return Ok(());
        };
        // Read again where it is not known, or nothing was heard of it for long.
        if self.view.is_none() || self.gates.wait(Gate::Refresh).is_zero() {
            self.view = None;
            let view = api.get().await?;
            self.note_answer();
            self.see(view);
        }
        if !self.knows_mutes(report) {
            // Judged before the annotation was read: the next report is on its way.
            return Ok(());
        }
        self.settle_first();
        self.note_pending(&desired);
        if self.settings.dry_run {
            self.events.clear();
            self.status.withheld = self.withheld_by_settings(report);
            return Ok(());
        }
        let labels = self.write_labels(api, &desired).await;
        match &labels {
            Err(error) if error.is_outage() => return labels,
            Err(error) if error.kind == ErrorKind::Conflict && desired.taint.is_present() => {
                // Without its labels the node is not one of those that the budget counts.
                desired.taint = WantedTaint::Keep;
            }
            _ => {}
        }
        // A rejected patch must not block the others.
        let taint = self.write_taint(api, &mut desired, report).await;
        let condition = self.write_condition(api, &desired).await;
        if !desired.writes_condition {
            self.events.clear();
        }
        let events = self.publish_events(api).await;
        self.note_pending(&desired);
        most_urgent([labels, taint, condition, events])
    }

    /// Whether a report was judged with what the Node's annotation mutes.
    fn knows_mutes(&self, report: &Report) -> bool {
        let now = jiff::Timestamp::now();
        let mutes = &self.facts.mutes;
        let known = |check: &str| report.muted.iter().any(|muted| muted == check);
        mutes.checks(now).all(known) && (report.taint_muted || !mutes.taint(now))
    }

    /// What differs between the Node as last seen and `desired`.
    pub(super) fn patches(&self, desired: &Desired) -> Patches {
        let (settings, heartbeat) = (&self.settings, self.heartbeat);
        let now = jiff::Timestamp::now();
        let patches = |view| reconcile(view, desired, settings, heartbeat, now);
        self.view.as_ref().map(patches).unwrap_or_default()
    }

    async fn write_labels(&mut self, api: &NodeApi, desired: &Desired) -> ApiResult<()> {
        let labels: [fn(Patches) -> Option<NodePatch>; 2] = [|p| p.labels, |p| p.stray_labels];
        for of in labels {
            if let Some(patch) = of(self.patches(desired))
                && self.gates.take(Gate::LabelsAndCondition)
            {
                self.send(api, &patch).await?;
            }
        }
        Ok(())
    }

    async fn write_condition(&mut self, api: &NodeApi, desired: &Desired) -> ApiResult<()> {
        let limits = &self.limits;
        if let Some((why, patch)) = self.patches(desired).condition {
            let (gate, every) = match why {
                // A writer that sets the time back gets no answer each time.
                ConditionWrite::Heartbeat => (Gate::Heartbeat, self.heartbeat / 2),
                ConditionWrite::Message => (Gate::Message, limits.message_every),
                ConditionWrite::Change => (Gate::LabelsAndCondition, Duration::ZERO),
            };
            let open = match why {
                ConditionWrite::Change => self.gates.take(gate),
                _ => self.gates.open_or_requeue(gate),
            };
            if open {
                self.send(api, &patch).await?;
                if !every.is_zero() {
                    self.gates.close(gate, every);
                }
            }
        }
        if desired.writes_condition && !self.heartbeat.is_zero() {
            self.gates.requeue_within(self.until_heartbeat());
        }
        Ok(())
    }

    /// When the next heartbeat is due.
    fn until_heartbeat(&self) -> Duration {
        let now = jiff::Timestamp::now();
        let last = self.view.as_ref().and_then(|view| view.condition.as_ref());
        let last = last.and_then(|condition| condition.last_heartbeat_time);
        let age = now.duration_since(last.unwrap_or(now)).unsigned_abs();
        // Where it is overdue, another limit holds the condition back, and requeues.
        let due = self.heartbeat.saturating_sub(age);
        due.max(self.gates.wait(Gate::Heartbeat)).max(OVERDUE)
    }

    async fn publish_events(&mut self, api: &NodeApi) -> ApiResult<()> {
        let Some(uid) = self.view.as_ref().map(|view| view.uid.clone()) else {
            return Ok(());
        };
        for on_pod in [false, true] {
            while self.events.has(on_pod) && (!on_pod || self.gates.take(Gate::PodEvents)) {
                let client = api.nodes.clone().into_client();
                let published = self.events.publish(&client, &uid, on_pod).await;
                self.count(&published);
                match published {
                    Ok(()) => *self.status.writes.entry("event").or_default() += 1,
                    Err(error) if error.is_final() => {
                        tracing::warn!(%error, "event rejected and dropped");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Sends a patch, and takes its answer.
    pub(super) async fn send(&mut self, api: &NodeApi, patch: &NodePatch) -> ApiResult<()> {
        let answer = api.patch(patch).await;
        self.count(&answer);
        self.see(answer?);
        *self.status.writes.entry(patch.part()).or_default() += 1;
        Ok(())
    }

    fn count<T>(&mut self, answer: &ApiResult<T>) {
        let result = match answer {
            Ok(_) => {
                self.note_answer();
                "ok"
            }
            Err(error) => error.kind.as_str(),
        };
        *self.status.results.entry(result).or_default() += 1;
    }

    /// Notes what differs. A dry run logs what would be written, whenever that changes.
    fn note_pending(&mut self, desired: &Desired) {
        let patches = self.patches(desired);
        let mut shown = desired.clone();
        if patches.taints.is_none() {
            // A taint that needs no patch is not worth another log line.
            (shown.taint, shown.end_startup) = (WantedTaint::Keep, false);
        }
        let condition = patches.condition;
        let condition = condition.filter(|(why, _)| *why != ConditionWrite::Heartbeat);
        let condition = condition.map(|(_, patch)| patch);
        let taints = patches.taints.map(|taints| taints.patch);
        let pending = [patches.labels, condition, taints].into_iter();
        let pending: Vec<NodePatch> = pending.flatten().collect();
        if self.settings.dry_run && self.logged.as_ref() != Some(&shown) {
            for patch in &pending {
                let (what, body) = (patch.part(), patch.body());
                tracing::info!(what, %body, "dry run: would patch the Node");
            }
            *self.status.results.entry("dry_run").or_default() += pending.len() as u64;
            self.logged = Some(shown);
        }
        self.status.pending = pending.iter().map(NodePatch::part).collect();
    }
}

/// The first error that is not a conflict, else the first.
fn most_urgent<const N: usize>(results: [ApiResult<()>; N]) -> ApiResult<()> {
    let errors = results.into_iter().filter_map(Result::err);
    let first = errors.min_by_key(|error| error.kind == ErrorKind::Conflict);
    first.map_or(Ok(()), Err)
}
