//! One pass: labels, taint, condition, events, in that order.

use super::{Connected, Writer};
use crate::cluster::api::NodeApi;
use crate::cluster::desired::{self, Desired, WantedTaint};
use crate::cluster::error::{ApiError, ErrorKind};
use crate::cluster::node::NodeView;
use crate::cluster::reconcile::{ConditionWrite, Patches, reconcile};
use crate::report::Report;
use std::time::Duration;
use tokio::time::Instant;

/// An overdue heartbeat is considered again after this long.
const OVERDUE: Duration = Duration::from_secs(1);

impl Writer {
    /// Writes what differs between the Node and what the report wants of it.
    pub(super) async fn reconcile(
        &mut self,
        api: &Connected,
        report: &Report,
    ) -> Result<(), ApiError> {
        let context = &self.context;
        let Some(mut desired) = desired::desired(report, &context.settings, &context.names) else {
            return Ok(());
        };
        self.refresh(&api.node).await?;
        if !self.knows_mutes(report) {
            // Judged before the annotation was read: the next report is on its way.
            return Ok(());
        }
        self.settle_first();
        self.note_pending(&desired);
        if self.context.settings.dry_run {
            self.events.clear();
            self.status.withheld = self.withheld_by_settings(report);
            return Ok(());
        }
        let labels = self.write_labels(&api.node, &desired).await;
        match &labels {
            Err(error) if error.is_outage() => return labels,
            Err(error) if error.kind == ErrorKind::Conflict && desired.taint.is_present() => {
                // Without its labels the node is not one of those that the budget counts.
                desired.taint = WantedTaint::Keep;
            }
            _ => {}
        }
        // A rejected patch must not block the others.
        let taint = self.write_taint(&api.node, &mut desired, report).await;
        let condition = self.write_condition(&api.node, &desired).await;
        if !desired.writes_condition {
            self.events.clear();
        }
        let events = self.publish_events(&api.client).await;
        self.note_pending(&desired);
        most_urgent([labels, taint, condition, events])
    }

    /// Reads the Node if it is not known, or nothing was heard of it for long.
    async fn refresh(&mut self, api: &NodeApi) -> Result<(), ApiError> {
        if self.view.is_some() && self.seen_at.elapsed() < self.context.limits.resync {
            return Ok(());
        }
        self.view = None;
        let view = api.get().await?;
        self.note_answer();
        self.see(view);
        Ok(())
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
        self.view.as_ref().map_or_else(Patches::default, |view| {
            let names = &self.context.names;
            let effect = self.context.settings.taint_effect;
            let now = jiff::Timestamp::now();
            reconcile(view, desired, names, effect, self.condition.heartbeat, now)
        })
    }

    async fn write_labels(&mut self, api: &NodeApi, desired: &Desired) -> Result<(), ApiError> {
        if let Some(body) = self.patches(desired).labels {
            if !self.may_write() {
                return Ok(());
            }
            let answer = api.apply_labels(&body).await;
            self.note_write("labels", answer)?;
        }
        if let Some(body) = self.patches(desired).stray_labels
            && self.may_write()
        {
            let answer = api.merge(&body).await;
            self.note_write("labels", answer)?;
        }
        Ok(())
    }

    async fn write_condition(&mut self, api: &NodeApi, desired: &Desired) -> Result<(), ApiError> {
        if let Some((why, patch)) = self.patches(desired).condition
            && self.may_write_condition(why, desired)
        {
            let answer = api.patch_status(&patch).await;
            self.note_write("condition", answer)?;
            let now = Instant::now();
            let timers = &mut self.condition;
            match why {
                ConditionWrite::Heartbeat => timers.heartbeat_after = now + timers.heartbeat / 2,
                ConditionWrite::Message => {
                    timers.message_after = now + self.context.limits.message_every;
                }
                ConditionWrite::Change => {}
            }
        }
        if desired.writes_condition && !self.condition.heartbeat.is_zero() {
            self.requeue.within(self.until_heartbeat());
        }
        Ok(())
    }

    fn may_write_condition(&mut self, why: ConditionWrite, desired: &Desired) -> bool {
        let now = Instant::now();
        match why {
            // A writer that sets the time back gets no answer each time.
            ConditionWrite::Heartbeat => now >= self.condition.heartbeat_after,
            ConditionWrite::Change => self.may_write(),
            ConditionWrite::Message => {
                let stands = self.view.as_ref().and_then(|view| view.condition.as_ref());
                let stands = stands.is_some_and(|stands| says_withheld(&stands.message));
                if says_withheld(&desired.condition.message) != stands {
                    // That the taint is withheld, or no longer, is news.
                    return self.may_write();
                }
                let wait = self.condition.message_after.saturating_duration_since(now);
                if !wait.is_zero() {
                    self.requeue.within(wait);
                }
                wait.is_zero()
            }
        }
    }

    /// When the next heartbeat is due.
    fn until_heartbeat(&self) -> Duration {
        let now = jiff::Timestamp::now();
        let last = self.view.as_ref().and_then(|view| view.condition.as_ref());
        let last = last.and_then(|condition| condition.last_heartbeat_time);
        let age = now.duration_since(last.unwrap_or(now)).unsigned_abs();
        let allowed = self.condition.heartbeat_after;
        let allowed = allowed.saturating_duration_since(Instant::now());
        // Where it is overdue, another limit holds the condition back, and requeues.
        let due = self.condition.heartbeat.saturating_sub(age);
        due.max(allowed).max(OVERDUE)
    }

    async fn publish_events(&mut self, client: &kube::Client) -> Result<(), ApiError> {
        let Some(uid) = self.view.as_ref().map(|view| view.uid.clone()) else {
            return Ok(());
        };
        for on_pod in [false, true] {
            while self.events.has(on_pod) {
                if on_pod && let Err(wait) = self.rate.pod_events.take(Instant::now()) {
                    self.requeue.within(wait);
                    break;
                }
                let published = self.events.publish(client, &uid, on_pod).await;
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

    /// Takes the answer to a write of the Node.
    pub(super) fn note_write(
        &mut self,
        what: &'static str,
        answer: Result<NodeView, ApiError>,
    ) -> Result<(), ApiError> {
        self.count(&answer);
        self.see(answer?);
        *self.status.writes.entry(what).or_default() += 1;
        Ok(())
    }

    fn count<T>(&mut self, answer: &Result<T, ApiError>) {
        let result = match answer {
            Ok(_) => {
                self.note_answer();
                "ok"
            }
            Err(error) => error.kind.as_str(),
        };
        *self.status.results.entry(result).or_default() += 1;
    }

    fn note_answer(&mut self) {
        self.status.api_up = Some(true);
        self.status.error = None;
    }

    /// Whether the rate limit allows another change of labels or condition.
    fn may_write(&mut self) -> bool {
        let taken = self.rate.labels_and_condition.take(Instant::now());
        taken.inspect_err(|wait| self.requeue.within(*wait)).is_ok()
    }

    /// Notes what differs. A dry run logs what would be written, whenever that changes.
    fn note_pending(&mut self, desired: &Desired) {
        let patches = self.patches(desired);
        let mut shown = desired.clone();
        if patches.taints.is_none() {
            // A taint that needs no patch is not worth another log line.
            (shown.taint, shown.end_startup) = (WantedTaint::Keep, false);
        }
        let condition = patches
            .condition
            .filter(|(why, _)| *why != ConditionWrite::Heartbeat)
            .map(|(_, patch)| patch);
        let taints = patches
            .taints
            .map(|patch| serde_json::Value::Array(patch.operations));
        let parts = [
            ("labels", patches.labels),
            ("condition", condition),
            ("taint", taints),
        ];
        let pending = parts
            .into_iter()
            .filter_map(|(what, body)| Some((what, body?)));
        let pending: Vec<(&'static str, serde_json::Value)> = pending.collect();
        if self.context.settings.dry_run && self.logged.as_ref() != Some(&shown) {
            for (what, body) in &pending {
                tracing::info!(what, %body, "dry run: would patch the Node");
            }
            *self.status.results.entry("dry_run").or_default() += pending.len() as u64;
            self.logged = Some(shown);
        }
        self.status.pending = pending.into_iter().map(|(what, _)| what).collect();
    }
}

/// Whether a condition's message begins with why the taint is withheld.
fn says_withheld(message: &str) -> bool {
    message.starts_with("The taint is withheld")
}

/// The first error that is not a conflict, else the first.
fn most_urgent<const N: usize>(results: [Result<(), ApiError>; N]) -> Result<(), ApiError> {
    let errors = results.into_iter().filter_map(Result::err);
    let first = errors.min_by_key(|error| error.kind == ErrorKind::Conflict);
    first.map_or(Ok(()), Err)
}
