//! One pass: labels, taint, condition, events, in that order.

use super::{Again, Writer};
use crate::cluster::api::{ApiError, Failure, NodeApi};
use crate::cluster::desired::{self, Desired, WantedTaint};
use crate::cluster::events::Teller;
use crate::cluster::node::NodeView;
use crate::cluster::plan::{self, ConditionWrite};
use crate::cluster::writer::room::tells_withheld;
use crate::report::Report;
use crate::units::Millis;
use std::time::Duration;
use tokio::time::Instant;

/// An overdue heartbeat is looked at again after this long.
const OVERDUE: Duration = Duration::from_secs(1);

impl Writer {
    /// Brings the Node to what it should be.
    pub(super) async fn bring(
        &mut self,
        api: &NodeApi,
        teller: &mut Teller,
        report: &Report,
        again: &mut Again,
    ) -> Result<(), ApiError> {
        let Some(mut desired) = desired::desired(report, &self.settings, &self.names) else {
            return Ok(());
        };
        if self.view.is_none() || self.heard_at.elapsed() >= self.limits.resync {
            let read = api.get().await;
            self.count_read(&read);
            match read {
                Ok(view) => self.see(view),
                Err(error) => {
                    self.view = None;
                    return Err(error);
                }
            }
        }
        if !self.knows_mutes(report) {
            // Judged before the annotation was read: the next report is on its way.
            return Ok(());
        }
        self.settle_first(teller);
        self.note_pending(&desired);
        if self.settings.dry_run {
            teller.clear();
            self.status.withheld = self.withheld_by_settings(report);
            return Ok(());
        }
        let labelled = self.write_labels(api, &desired, again).await;
        if labelled.as_ref().is_err_and(|error| is_away(error.failure)) {
            return labelled;
        }
        let moved = |error: &ApiError| error.failure == Failure::Conflict;
        if labelled.as_ref().is_err_and(moved)
            && matches!(desired.taint, WantedTaint::Present { .. })
        {
            // Without its labels the node is not among those that the budget counts.
            desired.taint = WantedTaint::Keep;
        }
        // Whatever is refused of one, or of the budget: the others are written all the same.
        let tainted = self
            .write_taint(api, &mut desired, report, again, teller)
            .await;
        let worded = self.write_condition(api, &desired, again).await;
        if !desired.writes_condition {
            teller.clear();
        }
        let told = self.publish(teller, again).await;
        self.note_pending(&desired);
        worst([labelled, tainted, worded, told])
    }

    /// Whether a report was judged with what the node's annotation mutes.
    fn knows_mutes(&self, report: &Report) -> bool {
        let now = jiff::Timestamp::now();
        let mutes = &self.facts.mutes;
        let known = |check: &str| report.muted.iter().any(|muted| muted == check);
        mutes.checks(now).all(known) && (report.taint_muted || !mutes.taint(now))
    }

    async fn write_labels(
        &mut self,
        api: &NodeApi,
        desired: &Desired,
        again: &mut Again,
    ) -> Result<(), ApiError> {
        let Some(view) = &self.view else {
            return Ok(());
        };
        if let Some(body) = plan::labels(desired, view) {
            if !self.may_write(again) {
                return Ok(());
            }
            let answer = api.apply_labels(&body).await;
            self.written("labels", answer)?;
        }
        let Some(view) = &self.view else {
            return Ok(());
        };
        if let Some(body) = plan::stray_labels(desired, view, &self.names) {
            if !self.may_write(again) {
                return Ok(());
            }
            let answer = api.merge(&body).await;
            self.written("labels", answer)?;
        }
        Ok(())
    }

    async fn write_condition(
        &mut self,
        api: &NodeApi,
        desired: &Desired,
        again: &mut Again,
    ) -> Result<(), ApiError> {
        let Some(view) = &self.view else {
            return Ok(());
        };
        if !desired.writes_condition {
            return match plan::condition_removal(view) {
                Some(patch) if self.may_write(again) => {
                    let answer = api.patch_status(&patch).await;
                    self.written("condition", answer)
                }
                _ => Ok(()),
            };
        }
        let heartbeat = self.settings.heartbeat.duration();
        let heartbeat = heartbeat + heartbeat.mul_f64(0.1 * self.late);
        let now = jiff::Timestamp::now();
        let stands = view.condition.as_ref();
        let withheld = stands.is_some_and(|stands| tells_withheld(&stands.message));
        if let Some((why, patch)) = plan::condition(&desired.condition, view, now, heartbeat) {
            let due = match why {
                // Whoever sets the time back does not get a write for each.
                ConditionWrite::Heartbeat => self.until_beat(heartbeat).is_zero(),
                ConditionWrite::Change => self.may_write(again),
                // That the taint is withheld, or no longer, is news.
                ConditionWrite::Words if tells_withheld(&desired.condition.message) != withheld => {
                    self.may_write(again)
                }
                ConditionWrite::Words => match self.words_at.map(|at| at.elapsed()) {
                    Some(age) if age < self.limits.words_every => {
                        again.sooner(self.limits.words_every - age);
                        false
                    }
                    _ => true,
                },
            };
            if due {
                let answer = api.patch_status(&patch).await;
                self.written("condition", answer)?;
                match why {
                    ConditionWrite::Heartbeat => self.beat_at = Some(Instant::now()),
                    ConditionWrite::Words => self.words_at = Some(Instant::now()),
                    ConditionWrite::Change => {}
                }
                self.late = fastrand::f64();
            }
        }
        if !heartbeat.is_zero() {
            let last = self.view.as_ref().and_then(|v| v.condition.as_ref());
            let last = last.and_then(|c| c.last_heartbeat_time).unwrap_or(now);
            let age = jiff::Timestamp::now().duration_since(last).unsigned_abs();
            let wait = heartbeat.saturating_sub(age);
            // Overdue, but something else holds the condition back: that says when.
            again.sooner(wait.max(self.until_beat(heartbeat)).max(OVERDUE));
        }
        Ok(())
    }

    /// How long no heartbeat is written for its own sake.
    fn until_beat(&self, heartbeat: Duration) -> Duration {
        self.beat_at.map_or(Duration::ZERO, |at| {
            (heartbeat / 2).saturating_sub(at.elapsed())
        })
    }

    async fn publish(&mut self, teller: &mut Teller, again: &mut Again) -> Result<(), ApiError> {
        let Some(uid) = self.view.as_ref().map(|view| view.uid.clone()) else {
            return Ok(());
        };
        while teller.waits() {
            let published = teller.publish_one(&uid).await;
            self.published(published)?;
        }
        while teller.pods_wait() {
            if let Err(wait) = self.pod_allowance.take(self.since_start()) {
                again.sooner(wait);
                break;
            }
            let published = teller.publish_one_of_a_pod().await;
            self.published(published)?;
        }
        Ok(())
    }

    fn published(&mut self, published: Result<(), ApiError>) -> Result<(), ApiError> {
        *self.status.writes.entry("event").or_default() += u64::from(published.is_ok());
        self.count(&published);
        match published {
            // Refused for good: that must not hold up what matters.
            Err(error) if error.is_final() => {
                tracing::warn!(%error, "an event is not told");
                Ok(())
            }
            other => other,
        }
    }

    /// Takes in the answer to a write.
    pub(super) fn written(
        &mut self,
        what: &'static str,
        answer: Result<NodeView, ApiError>,
    ) -> Result<(), ApiError> {
        self.count(&answer);
        let view = answer?;
        *self.status.writes.entry(what).or_default() += 1;
        self.see(view);
        Ok(())
    }

    fn count<T>(&mut self, answer: &Result<T, ApiError>) {
        let result = match answer {
            Ok(_) => "ok",
            Err(error) => error.failure.as_str(),
        };
        *self.status.results.entry(result).or_default() += 1;
        self.count_read(answer);
    }

    fn count_read<T>(&mut self, answer: &Result<T, ApiError>) {
        if answer.is_ok() {
            self.status.api_up = Some(true);
            self.status.error = None;
        }
    }

    /// Whether the pace allows a change of labels or condition now.
    fn may_write(&mut self, again: &mut Again) -> bool {
        let taken = self.allowance.take(self.since_start());
        taken.inspect_err(|wait| again.sooner(*wait)).is_ok()
    }

    pub(super) fn since_start(&self) -> Millis {
        Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// What differs now. Where nothing may be written, what would be is logged when it changes.
    fn note_pending(&mut self, desired: &Desired) {
        let Some(view) = &self.view else {
            return;
        };
        let now = jiff::Timestamp::now();
        let labels = plan::labels(desired, view);
        let words = if desired.writes_condition {
            plan::condition(&desired.condition, view, now, Duration::ZERO).map(|(_, patch)| patch)
        } else {
            plan::condition_removal(view)
        };
        let taints = plan::taints(desired, view, &self.names, self.settings.taint_effect);
        let pending: Vec<&'static str> = [
            labels.as_ref().map(|_| "labels"),
            words.as_ref().map(|_| "condition"),
            taints.as_ref().map(|_| "taint"),
        ]
        .into_iter()
        .flatten()
        .collect();
        if self.settings.dry_run && self.would_write.as_ref() != Some(desired) {
            for body in labels.iter().chain(&words) {
                tracing::info!(%body, "would write");
            }
            if let Some(patch) = &taints {
                let body = serde_json::Value::Array(patch.operations.clone());
                tracing::info!(%body, "would write");
            }
            *self.status.results.entry("dry_run").or_default() += pending.len() as u64;
            self.would_write = Some(desired.clone());
        }
        self.status.pending = pending;
    }
}

/// Whether the server itself is not to be had now: what would be asked next would fail as well.
fn is_away(failure: Failure) -> bool {
    matches!(
        failure,
        Failure::Timeout | Failure::Other | Failure::Throttled(_) | Failure::Unauthorized
    )
}

/// The first failure that waiting is for, else the first.
fn worst<const N: usize>(results: [Result<(), ApiError>; N]) -> Result<(), ApiError> {
    let mut failures: Vec<ApiError> = results.into_iter().filter_map(Result::err).collect();
    failures.sort_by_key(|error| error.failure == Failure::Conflict);
    failures.into_iter().next().map_or(Ok(()), Err)
}
