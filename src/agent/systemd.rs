//! Notifies systemd (`Type=notify`, sd_notify(3)): the agent serves, the verdict as the unit's status, and,
//! for the watchdog, that no task is stuck.

use crate::blocking;
use crate::report::Report;
use crate::supervise::Supervisor;
use sd_notify::NotifyState;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// Interval between two looks at the tasks without a watchdog.
const IDLE: Duration = Duration::from_secs(3600);

/// Tells systemd, if it started the agent, for as long as there are reports.
pub(super) async fn notify(mut reports: watch::Receiver<Arc<Report>>, supervisor: Supervisor) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    let watchdog = sd_notify::watchdog_enabled();
    // Half of the time that it waits, as sd_watchdog_enabled(3) advises.
    let mut tick = tokio::time::interval(watchdog.map_or(IDLE, |limit| limit / 2));
    let mut shown = None;
    send("READY=1".into()).await;
    loop {
        let report = Arc::clone(&reports.borrow_and_update());
        let status = format!("{}{}", report.state.as_str(), report.because());
        if shown.as_ref() != Some(&status) {
            send(format!("STATUS={status}")).await;
            shown = Some(status);
        }
        tokio::select! {
            changed = reports.changed() => if changed.is_err() { return },
            _ = tick.tick() => if supervisor.unhealthy().is_none() {
                send("WATCHDOG=1".into()).await;
            },
        }
    }
}

/// A notification socket that is blocked delays only this task.
async fn send(message: String) {
    let sent = move || sd_notify::notify(&[NotifyState::Custom(&message)]);
    if let Some(Err(error)) = blocking::ask("systemd", sent).await {
        tracing::debug!(%error, "systemd could not be notified");
    }
}
