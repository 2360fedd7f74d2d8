//! Putting and lifting the taint: the budget's rules carried out.

use super::api::{ApiError, Failure, LedgerLease, NodeApi};
use super::budget::{Asker, Ledger, Step, Withheld};
use super::group::GroupOf;
use super::names::Names;
use super::node::NodeView;
use super::settings::ClusterSettings;
use crate::report::cluster::BudgetStatus;
use std::time::Duration;

/// Attempts in a row at the ledger while others write it, too.
const ATTEMPTS: u32 = 12;

/// What became of asking for room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Room {
    /// The ledger has the entry: patch the Node at this version.
    Granted,
    /// No room now.
    Withheld(Withheld),
    /// Others are at it: look again soon.
    Busy,
}

/// Asks the group's ledger for room for this node at its present version.
pub(super) async fn ask(
    api: &NodeApi,
    settings: &ClusterSettings,
    names: &Names,
    node: &NodeView,
) -> Result<(Room, Option<BudgetStatus>), ApiError> {
    let group = GroupOf::new(settings, names, &node.labels);
    let in_group = group.holds(&node.labels);
    let mut read: Option<LedgerLease> = None;
    let mut listed = None;
    for attempt in 0..ATTEMPTS {
        if read.is_none() {
            read = api.ledger(&group.lease).await?;
            listed = None;
        }
        let ledger = read.as_ref().map(|r| r.ledger.clone()).unwrap_or_default();
        let asker = Asker {
            node: &node.name,
            resource_version: &node.resource_version,
            max: settings.budget_max,
            in_group,
            now: jiff::Timestamp::now(),
        };
        let step = ledger.ask(asker, listed.as_ref());
        let (next, room) = match step {
            Step::Go => (None, Some(Room::Granted)),
            Step::Wait => (None, Some(Room::Busy)),
            Step::Stale => {
                // Read after the ledger was: no patch of ours can test for a version later than this.
                let now = api.get().await?;
                if now.resource_version != node.resource_version {
                    return Err(ApiError {
                        what: "ask the budget",
                        failure: Failure::Conflict,
                        message: "the Node as seen is behind the ledger".into(),
                    });
                }
                // Not ours: a Lease of another cluster restored here, or made up.
                (Some(ledger.without(&node.name)), None)
            }
            Step::ClaimThenGo(next) => (Some(next), Some(Room::Granted)),
            Step::Withhold(why, next) => (next, Some(Room::Withheld(why))),
            Step::Count(next) => (Some(next), None),
        };
        let Some(next) = next else {
            let room = room.unwrap_or(Room::Busy);
            return Ok((room, Some(status(&group, settings, &ledger))));
        };
        match api.write_ledger(&group.lease, read.as_ref(), &next).await {
            Ok(written) => {
                if let Some(room) = room {
                    return Ok((room, Some(status(&group, settings, &next))));
                }
                read = Some(written);
                listed = Some(api.list_group(&group.selector, &next).await?);
            }
            Err(error) if error.failure == Failure::Conflict => {
                read = None;
                step_aside(attempt).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok((Room::Busy, None))
}

/// Sees to it that a node found tainted is in the ledger.
pub(super) async fn adopt(
    api: &NodeApi,
    settings: &ClusterSettings,
    names: &Names,
    node: &NodeView,
) -> Result<(), ApiError> {
    amend(api, settings, names, node, |lease| {
        let ledger = lease.map(|l| l.ledger.clone()).unwrap_or_default();
        ledger.adopted(&node.name, &node.resource_version)
    })
    .await
}

/// Gives the entry back: the taint is gone, as `node` shows.
pub(super) async fn release(
    api: &NodeApi,
    settings: &ClusterSettings,
    names: &Names,
    node: &NodeView,
) -> Result<(), ApiError> {
    amend(api, settings, names, node, |lease| {
        lease.and_then(|lease| lease.ledger.released(&node.name, &node.resource_version))
    })
    .await
}

async fn amend(
    api: &NodeApi,
    settings: &ClusterSettings,
    names: &Names,
    node: &NodeView,
    change: impl Fn(Option<&LedgerLease>) -> Option<Ledger>,
) -> Result<(), ApiError> {
    let group = GroupOf::new(settings, names, &node.labels);
    let mut conflict = None;
    for attempt in 0..ATTEMPTS {
        let read = api.ledger(&group.lease).await?;
        let Some(next) = change(read.as_ref()) else {
            return Ok(());
        };
        match api.write_ledger(&group.lease, read.as_ref(), &next).await {
            Ok(_) => return Ok(()),
            Err(error) if error.failure == Failure::Conflict => {
                conflict = Some(error);
                step_aside(attempt).await;
            }
            Err(error) => return Err(error),
        }
    }
    conflict.map_or(Ok(()), Err)
}

/// Who collides waits a random while, longer each time.
async fn step_aside(attempt: u32) {
    let most = Duration::from_millis(10 << attempt.min(6));
    tokio::time::sleep(most.mul_f64(fastrand::f64())).await;
}

fn status(group: &GroupOf, settings: &ClusterSettings, ledger: &Ledger) -> BudgetStatus {
    BudgetStatus {
        lease: group.lease.clone(),
        claimed: ledger.claims.len(),
        limit: ledger.limit(settings.budget_max),
        nodes: ledger.nodes.unwrap_or(0),
    }
}
