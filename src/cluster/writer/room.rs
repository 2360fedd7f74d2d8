//! The part of a pass that puts or lifts the taint.

use super::{Again, Writer};
use crate::cluster::api::{ApiError, NodeApi};
use crate::cluster::budget::Withheld;
use crate::cluster::desired::{Desired, MESSAGE_MAX, WantedTaint};
use crate::cluster::events::{Notice, Teller};
use crate::cluster::group::GroupOf;
use crate::cluster::node::NodeView;
use crate::cluster::plan;
use crate::cluster::settings::Mode;
use crate::cluster::taint::{self, Room};
use crate::report::{Report, State, Tainting};
use crate::units::cut;
use tokio::time::Instant;

impl Writer {
    /// Puts or lifts the taint. What cannot be put is kept out of `desired`, and said in its words.
    pub(super) async fn write_taint(
        &mut self,
        api: &NodeApi,
        desired: &mut Desired,
        report: &Report,
        again: &mut Again,
        teller: &mut Teller,
    ) -> Result<(), ApiError> {
        let before = self.status.withheld;
        self.status.withheld = self.withheld_by_settings(report);
        let Some(view) = self.view.clone() else {
            return Ok(());
        };
        let effect = self.settings.taint_effect;
        let mut planned = plan::taints(desired, &view, &self.names, effect);
        let waits = matches!(desired.taint, WantedTaint::Present { .. });
        if planned.is_some()
            && let Err(wait) = self.taint_allowance.look(self.since_start())
        {
            // Another hand changes them back each time.
            again.sooner(wait);
            self.status.withheld = before;
            return self.settle_ledger(api, waits).await;
        }
        if planned.as_ref().is_some_and(|patch| patch.taints) {
            // Until it is put, what was said of it stands.
            self.status.withheld = before;
            if !self
                .ask_for_room(api, desired, &view, again, teller)
                .await?
            {
                desired.taint = WantedTaint::Keep;
                planned = plan::taints(desired, &view, &self.names, effect);
            }
        } else {
            self.withheld = None;
            self.ask_at = Instant::now();
            self.asking = self.limits.ask_again.0;
        }
        if let Some(patch) = planned {
            let answer = api.patch_taints(&patch.operations).await;
            self.written("taint", answer)?;
            let _ = self.taint_allowance.take(self.since_start());
            if patch.untaints {
                // There may be an entry, whoever made it.
                self.claimed.get_or_insert_default();
            }
            tracing::info!(
                taints = patch.taints,
                untaints = patch.untaints,
                ends_startup = patch.ends_startup,
                "taints written"
            );
        }
        // Only now: what the ledger says or fails to never holds up recovery.
        self.settle_ledger(api, waits).await
    }

    /// A tainted node has an entry, one that is not and is not to be has none.
    async fn settle_ledger(&mut self, api: &NodeApi, waits: bool) -> Result<(), ApiError> {
        let Some(view) = self.view.clone() else {
            return Ok(());
        };
        if view.is_tainted(&self.names) {
            let lease = self.lease_of(&view);
            if self.adopted.as_ref() != Some(&lease) {
                let adopted = taint::adopt(api, &self.settings, &self.names, &view).await;
                allowed(adopted)?;
                self.adopted = Some(lease);
                self.claimed.get_or_insert_default();
            }
            return Ok(());
        }
        self.adopted = None;
        // While the object is as it was granted for, a patch of ours may still be on its way.
        let moved = |granted: &String| *granted != view.resource_version;
        if !waits && self.claimed.as_ref().is_some_and(moved) {
            let released = taint::release(api, &self.settings, &self.names, &view).await;
            allowed(released)?;
            self.claimed = None;
            self.status.budget = None;
        }
        Ok(())
    }

    /// The Lease that holds the ledger of a node's group.
    fn lease_of(&self, view: &NodeView) -> String {
        GroupOf::new(&self.settings, &self.names, &view.labels).lease
    }

    async fn ask_for_room(
        &mut self,
        api: &NodeApi,
        desired: &mut Desired,
        view: &NodeView,
        again: &mut Again,
        teller: &mut Teller,
    ) -> Result<bool, ApiError> {
        let wait = self.ask_at.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            let asked = taint::ask(api, &self.settings, &self.names, view).await;
            if asked.is_err() {
                self.status.withheld = Some("api");
            }
            let room = match asked {
                Ok((room, budget)) => {
                    if budget.is_some() {
                        self.status.budget = budget;
                    }
                    Ok(room)
                }
                // Nobody gave the right to: waited for on its own, labels and condition go on.
                Err(error) if error.is_final() => Err(error),
                Err(error) => return Err(error),
            };
            let withheld = match room {
                Ok(Room::Granted) => {
                    self.claimed = Some(view.resource_version.clone());
                    // The entry is known to be there.
                    self.adopted = Some(self.lease_of(view));
                    self.withheld = None;
                    self.asking = self.limits.ask_again.0;
                    return Ok(true);
                }
                Ok(Room::Busy) => None,
                Ok(Room::Withheld(why)) => Some(self.why_withheld(why)),
                Err(error) => {
                    tracing::warn!(%error, "the taint is withheld");
                    let words = "The taint is withheld: the budget's Lease cannot be used.";
                    Some(("api", words.to_string()))
                }
            };
            let wait = if withheld.is_some() {
                let wait = self.asking;
                self.asking = (wait * 2).min(self.limits.ask_again.1);
                self.withheld = withheld;
                wait
            } else {
                self.limits.busy
            };
            let wait = wait.mul_f64(0.5 + fastrand::f64());
            self.ask_at = Instant::now() + wait;
            again.sooner(wait);
        } else {
            again.sooner(wait);
        }
        if let Some((why, words)) = self.withheld.clone() {
            if !self.was_withheld(&words) && self.status.withheld != Some(why) {
                teller.push(Notice {
                    normal: false,
                    reason: "FabricTaintWithheld",
                    note: format!("{words} {}", desired.condition.message),
                });
            }
            self.status.withheld = Some(why);
            let message = format!("{words} {}", desired.condition.message);
            desired.condition.message = cut(message, MESSAGE_MAX);
        }
        Ok(false)
    }

    fn why_withheld(&self, why: Withheld) -> (&'static str, String) {
        let limit = self.status.budget.as_ref().map_or(0, |b| b.limit);
        match why {
            Withheld::Spent => {
                let words = format!(
                    "The taint is withheld: as many nodes of the group carry it as may ({limit})."
                );
                ("budget", words)
            }
            Withheld::NotInGroup => {
                let words = "The taint is withheld: the node is not among those that the budget's \
                             selector counts.";
                ("not_in_group", words.to_string())
            }
        }
    }

    /// Whether the condition that stands says so already.
    fn was_withheld(&self, words: &str) -> bool {
        let condition = self.view.as_ref().and_then(|v| v.condition.as_ref());
        condition.is_some_and(|condition| condition.message.starts_with(words))
    }

    /// Why a wanted taint is not put, as far as settings and operators say.
    pub(super) fn withheld_by_settings(&self, report: &Report) -> Option<&'static str> {
        let wanted = report.tainting == Tainting::Want
            && report.state == State::Unready
            && self.status.taint_applied == Some(false);
        if !wanted {
            None
        } else if report.taint_muted {
            Some("muted")
        } else if self.settings.mode != Mode::All {
            Some("mode")
        } else if self.settings.dry_run {
            Some("dry_run")
        } else {
            None
        }
    }
}

/// Whether a condition's words begin with why the taint is withheld.
pub(super) fn tells_withheld(message: &str) -> bool {
    message.starts_with("The taint is withheld")
}

/// What is refused for good is said, and no reason to wait.
fn allowed(answer: Result<(), ApiError>) -> Result<(), ApiError> {
    match answer {
        Err(error) if error.is_final() => {
            tracing::warn!(%error, "the budget's ledger is not kept");
            Ok(())
        }
        other => other,
    }
}
