//! What the agent writes to the cluster, in words.

use super::{badge::Badge, context::PageContext};
use crate::data_files::line_of;
use crate::report::cluster::ClusterStatus;
use crate::report::{State, Tainting};

impl PageContext<'_> {
    /// What the taint does, and why it is withheld where it is wanted.
    pub(super) fn taint(&self, status: &ClusterStatus) -> (&'static str, Option<Badge>, String) {
        let report = self.report;
        let muted = match report.taint_muted {
            true => "muted by an operator",
            false => "",
        };
        let budget = status.budget.as_ref().map_or(String::new(), |budget| {
            let (claimed, limit) = (budget.claimed, budget.limit);
            format!("{claimed} of {limit} taint slots are taken")
        });
        match (status.taint_applied, status.withheld) {
            (Some(true), _) => {
                let parts = [self.leaving(status), muted, &budget];
                let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                let severity = match report.state {
                    State::Ready | State::Degraded | State::NoFabric => Badge::Degraded,
                    State::Unready | State::Unknown => Badge::Failing,
                };
                ("applied", Some(severity), parts.join("; "))
            }
            (_, Some(why)) => {
                let comma = if budget.is_empty() { "" } else { ", " };
                let more = format!("{}{comma}{budget}", withheld(why));
                ("withheld", Some(Badge::Degraded), more)
            }
            (_, None) if report.tainting == Tainting::Want => {
                ("wanted", Some(Badge::Degraded), muted.into())
            }
            (Some(false), None) => ("none", None, muted.into()),
            (None, None) => ("unknown", None, "the Node was not seen yet".into()),
        }
    }

    /// When the taint of a node that has recovered is removed.
    fn leaving(&self, status: &ClusterStatus) -> &'static str {
        match (self.report.state, self.report.tainting) {
            (State::Unready, _) => "",
            _ if status.dry_run => "a dry run takes nothing off",
            (_, Tainting::Clear) if status.api_up == Some(false) => {
                "goes once the API server answers"
            }
            (_, Tainting::Clear) => "is being taken off",
            (State::Unknown, _) => "stays while the verdict is unknown",
            (_, Tainting::Keep) => "stays until the first window is complete",
            // The report does not say how long that is; flaps make it longer.
            (_, Tainting::Want) => "goes after cluster.clear without being unready",
        }
    }
}

/// Why a wanted taint is withheld, in words.
fn withheld(why: &'static str) -> &'static str {
    line_of(include_str!("withheld.txt"), why).unwrap_or(why)
}
