//! What is known before the first read. Each part is asked for on a thread of its own: a file that
//! hangs is left aside.

use crate::blocking;
use crate::config::Config;
use crate::evaluator::{Evaluator, Look};
use crate::host::Host;
use crate::observe::history::Memory;
use crate::observe::snapshot::Snapshot;
use crate::report::Report;
use crate::sampler::snapshot_update;
use crate::state::{Saved, StateDir};
use std::sync::Arc;

/// What was found.
pub(super) struct Found {
    pub host: Arc<Host>,
    pub boot_id: Option<String>,
    pub saved: Saved,
    pub state: StateDir,
}

/// Looks for it, waiting for each part no longer than for a read. Without a host there is nothing
/// to do: for that it waits. `keep`: state will be written, so that its directory is made.
pub(super) async fn find(config: &Config, keep: bool) -> Found {
    let patience = config.intervals.deadline.duration();
    let root = config.agent.host_root.clone();
    let asked = blocking::ask("host", move || Host::new(root)).await;
    let host = Arc::new(asked.unwrap_or_else(|| Host::new(&config.agent.host_root)));
    let boot_id = {
        let host = Arc::clone(&host);
        blocking::ask("boot-id", move || snapshot_update::boot_id(&host))
    };
    let state = StateDir::new(config.agent.state_dir.as_deref());
    let saved = {
        let state = state.clone();
        blocking::ask("saved", move || {
            if keep {
                state.prepare();
            }
            state.load()
        })
    };
    let (boot_id, saved) = tokio::join!(
        tokio::time::timeout(patience, boot_id),
        tokio::time::timeout(patience, saved),
    );
    if boot_id.is_err() {
        tracing::warn!("the boot id does not answer: nothing is taken over from an earlier run");
    }
    if saved.is_err() {
        tracing::warn!("the state file does not answer and is left aside");
    }
    Found {
        host,
        boot_id: boot_id.ok().flatten().flatten(),
        saved: saved.ok().flatten().unwrap_or_default(),
        state,
    }
}

/// The report until then: nothing is known.
pub(super) fn report(config: &Config) -> Report {
    let mut evaluator = Evaluator::new(
        config.agent.node_name.clone(),
        config.policy.clone(),
        config.role_overrides(),
        Memory::default(),
        config.hysteresis.clone(),
    )
    .on_platform(config.platform.clone());
    let snapshot = Snapshot {
        at: crate::clock::monotonic(),
        wall: Some(jiff::Timestamp::now()),
        ..Snapshot::default()
    };
    let report = evaluator.evaluate(&snapshot, Look::Watching { full_window: false });
    // Those that follow count from 1.
    Report {
        generation: 0,
        ..report
    }
}
