//! What a check says of one moment, before and after it is believed.

use crate::units::Millis;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Where an expectation comes from, in the order in which the sources are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The operator's settings.
    Configured,
    /// The table of known machines.
    Shape,
    /// What this machine was earlier, also before a reboot.
    Remembered,
    /// The peer rails on this node.
    Peers,
}

/// What was expected of the subject of a finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// Number or name, in the unit of the evidence.
    pub value: serde_json::Value,
    /// Where it is known from.
    pub because: Basis,
}

/// Evidence key: a planned event (a NIC reset that its driver did not announce) looks the same and ends
/// within this many seconds, so the taint waits that long.
pub const PASSES_WITHIN: &str = "passes_within_s";

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The sources cannot tell.
    #[default]
    Unknown,
    /// It works with less.
    Degraded,
    /// The evidence proves that the subject does not work.
    Failing,
}

/// Whether a finding moves the node's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Shown, exported, but the verdict does not move: a storage port is down, a counter is blind.
    Notice,
    /// Counts: failing makes the node unready, degraded makes it degraded, unknown makes it unknown.
    #[default]
    Verdict,
}

impl Status {
    /// As findings are listed.
    pub const WORST_FIRST: [Status; 3] = [Status::Failing, Status::Unknown, Status::Degraded];
}

impl Weight {
    /// A verdict where it counts, else a notice.
    pub fn counting_if(counts: bool) -> Self {
        match counts {
            true => Weight::Verdict,
            false => Weight::Notice,
        }
    }
}

/// The first step of a remedy, for machines that repair nodes: one of a fixed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing on this node: the cause lies elsewhere, or it passes.
    #[default]
    None,
    /// Clean and reseat the cable or module.
    ReseatCable,
    /// Replace the cable or module.
    ReplaceCable,
    /// Look at the switch port at the other end, and at the path behind it.
    CheckSwitchPort,
    /// Reset the NIC or GPU, once no job uses it.
    ResetDevice,
    /// Load the driver or module, or load it again.
    ReloadDriver,
    /// Drain the node and reboot it.
    Reboot,
    /// Drain the node and cut its power: a warm reboot is not enough.
    PowerCycle,
    /// Replace the network card.
    ReplaceNic,
    /// Replace the GPU.
    ReplaceGpu,
    /// Change a setting: of the node, the cluster, the subnet manager or this agent.
    FixConfiguration,
    /// Have the machine examined by those who own it: the cloud, or the staff of the data centre.
    CallProvider,
}

/// How long to look before believing, as the debounce machine takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// Must stand this long before it is raised.
    pub raise_after: Duration,
    /// Must be gone this long before it is cleared.
    pub clear_after: Duration,
}

/// A reason's name in CamelCase, out of `checks.toml`: `LinkDown`.
pub type Reason = &'static str;

/// What a check says of this moment, before any waiting; and the same once it has been believed.
#[must_use]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The check's id, such as `link_state`.
    #[serde(skip_deserializing)]
    pub check: &'static str,
    /// Identity of what it is about, stable over renames: a port key, a PCI slot, a module.
    pub key: String,
    /// The same for people and labels: `mlx5_3/1`, `0000:17:00`.
    pub subject: String,
    /// Severity; a candidate's, before the debounce machine believes it.
    pub status: Status,
    /// Whether it moves the verdict.
    pub weight: Weight,
    /// Reason out of the check's closed list; alerts select by it.
    #[serde(skip_deserializing)]
    pub reason: Reason,
    /// First moment at which it was seen in this stretch; zero until it is believed.
    #[serde(skip)]
    pub since: Millis,
    /// One sentence: what is so.
    pub message: String,
    /// First action for the operator, in one or two sentences.
    pub remedy: String,
    /// The same for machines.
    pub action: Action,
    /// What was seen: name to value, few and bounded, JSON scalars.
    pub evidence: BTreeMap<String, serde_json::Value>,
    /// What was expected and why, where something was.
    pub expected: Option<Expected>,
    /// [`Finding::id`] of the finding that this one follows from.
    pub caused_by: Option<String>,
    /// How long to look before it is believed.
    #[serde(skip)]
    pub timing: Timing,
    /// Whether it is so cannot be told: what was believed of it stands, and nothing is shown.
    #[serde(skip)]
    pub unseen: bool,
}

/// A finding that has not been believed.
pub type Candidate = Finding;

impl Finding {
    /// Stable name of a finding as long as it stands.
    pub fn id(&self) -> String {
        format!("{}:{}:{}", self.check, self.key, self.reason)
    }

    /// With one more thing seen; nothing is added where it is `None`.
    pub fn with(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        let value = value.into();
        if !value.is_null() {
            self.evidence.insert(name.to_string(), value);
        }
        self
    }

    /// With what was expected, and where that is known from.
    pub fn expecting(mut self, value: impl Into<serde_json::Value>, because: Basis) -> Self {
        let value = value.into();
        self.expected = Some(Expected { value, because });
        self
    }

    /// With another remedy than the reason's own, and its first step.
    pub fn fix(mut self, action: Action, remedy: impl Into<String>) -> Self {
        self.action = action;
        self.remedy = remedy.into();
        self
    }

    /// With another weight than the reason's own.
    pub fn weighing(mut self, weight: Weight) -> Self {
        self.weight = weight;
        self
    }

    /// Sets how long the fault must stand before the finding is raised.
    pub fn raised_after(mut self, raise_after: Duration) -> Self {
        self.timing.raise_after = raise_after;
        self
    }
}
