//! What the agent starts from: host, boot id and the state file. Each is read on a thread of its
//! own: a file that hangs is skipped.

use crate::blocking;
use crate::check::policy::Policy;
use crate::clock::Clock;
use crate::config::Config;
use crate::evaluator::{Evaluator, SamplingMode};
use crate::host::Host;
use crate::observe::{Memory, Snapshot};
use crate::report::Report;
use crate::sampler::Sampler;
use crate::source::machine;
use crate::state::{Saved, StateDir};
use crate::units::Millis;
use std::sync::Arc;

/// How long a machine is taken to be up whose tree does not say: longer than its kernel log goes
/// back.
const LONG_UP: Millis = Millis::from_secs(30 * 24 * 3600);

/// The host and what an earlier run left.
pub(super) struct Startup {
    pub host: Arc<Host>,
    pub boot_id: Option<String>,
    pub saved: Saved,
    pub state: StateDir,
    /// How long the machine of a directory tree was up when the tree was taken.
    pub uptime: Option<Millis>,
}

impl Startup {
    /// The clock by which the node is judged: of a running machine its own, of a directory tree one from
    /// the moment at which it was taken, so that what is given time after a boot has that time there, too.
    pub fn clock(&self) -> Clock {
        let now = crate::clock::monotonic();
        Clock::starting_at(match self.host.is_live() {
            true => now,
            false => self.uptime.unwrap_or(now.max(LONG_UP)),
        })
    }

    /// A sampler that leaves alone what earlier runs of this boot found restricted.
    pub fn sampler(&self, config: &Config, clock: Clock) -> Sampler {
        let (host, boot_id) = (Arc::clone(&self.host), self.boot_id.clone());
        let restricted = self.saved.restricted_of(boot_id.as_deref());
        Sampler::new(host, config.clone(), clock, boot_id, restricted)
    }

    /// What the history starts from.
    pub fn memory(&self) -> Memory {
        self.saved.memory_to_restore(self.boot_id.as_deref())
    }
}

/// Waits for each part no longer than for a read, but for the host as long as it takes. `keep`:
/// state will be written, so that its directory is made.
pub(super) async fn find(config: &Config, keep: bool) -> Startup {
    let patience = config.intervals.deadline.duration();
    let root = config.agent.host_root.clone();
    let asked = blocking::ask("host", move || Host::new(root)).await;
    let host = Arc::new(asked.unwrap_or_else(|| Host::new(&config.agent.host_root)));
    let own = Arc::clone(&host);
    let boot_id = blocking::ask("boot-id", move || machine::boot_id(&own));
    // A running kernel's clock is this process's own.
    let own = Arc::clone(&host);
    let of_tree = move || (!own.is_live()).then(|| machine::uptime(&own)).flatten();
    let uptime = blocking::ask("uptime", of_tree);
    let state = StateDir::new(config.agent.state_dir.as_deref());
    let own = state.clone();
    let saved = blocking::ask("saved", move || {
        if keep {
            own.prepare();
        }
        own.load()
    });
    let (boot_id, uptime, saved) = tokio::join!(
        tokio::time::timeout(patience, boot_id),
        tokio::time::timeout(patience, uptime),
        // Without its memory, a node that lost a rail looks well: the agent gives a slow disk longer.
        tokio::time::timeout(patience * if keep { 6 } else { 1 }, saved),
    );
    if boot_id.is_err() {
        tracing::warn!("boot id not read in time; starting without the state of an earlier run");
    }
    if saved.is_err() {
        tracing::warn!("the state file could not be read in time; starting without it");
    }
    Startup {
        uptime: uptime.ok().flatten().flatten(),
        host,
        boot_id: boot_id.ok().flatten().flatten(),
        saved: saved.ok().flatten().unwrap_or_default(),
        state,
    }
}

/// An evaluator with the configuration's settings.
pub(super) fn evaluator(config: &Config, policy: Policy, memory: Memory) -> Evaluator {
    let (node, rails) = (config.agent.node_name.clone(), config.rails.clone());
    let (hysteresis, platform) = (config.hysteresis.clone(), config.platform.clone());
    Evaluator::new(node, policy, rails, memory, hysteresis, platform)
}

/// The report until the first sample: everything is unknown. Those that follow count from 1.
pub(super) fn report(config: &Config) -> Report {
    let mut evaluator = evaluator(config, config.policy.clone(), Memory::default());
    let snapshot = Snapshot {
        at: crate::clock::monotonic(),
        wall: Some(jiff::Timestamp::now()),
        ..Snapshot::default()
    };
    Report {
        generation: 0,
        ..evaluator.evaluate(&snapshot, SamplingMode::Watching { full_window: false })
    }
}
