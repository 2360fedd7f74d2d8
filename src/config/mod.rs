//! Settings: raw layers (defaults, file, environment, flags and `--set`) merged into one typed,
//! validated [`Config`]. Every complaint is reported at once, before the host is touched.

pub mod complaint;
mod layers;
pub mod listen;
mod load;
mod print;
mod sections;
mod settings;

pub use complaint::{Complaint, Origin};
pub use layers::unknown_variables;
pub use listen::Listen;
pub use load::{Loaded, add_agent_args, add_args, add_file_args, load};
pub use print::to_toml_defaults;
pub use sections::{
    AgentSettings, Counters, Intervals, KmsgSource, LogFormat, LogLevel, NcclSettings, PodSource,
    RdmaSource, Serve, SlurmSettings,
};
pub(crate) use settings::flag_hint;

use crate::check::policy::Policy;
use crate::check::roles::RoleOverrides;
use crate::check::{CHECKS, debounce, profile};
use crate::cluster::ClusterSettings;
use crate::glob::Glob;
use crate::settings_macro::section;
use crate::units::Span;
use serde_json::Value;

section! {
    /// All settings, validated.
    Config {
        /// The process itself.
        agent: AgentSettings,
        /// TLS and authentication (docs/tls.md). Unset: plain HTTP, open to every client that can
        /// reach the address. Changed files are reloaded.
        serve: Serve,
        /// How often each source is read.
        intervals: Intervals,
        /// Which counters are read and exported.
        counters: Counters,
        /// Which ports are rails.
        rails: RoleOverrides,
        /// The machine's shape: what its fabric should consist of.
        platform: profile::PlatformSettings,
        /// How long a condition must last before its finding is raised or cleared.
        hysteresis: debounce::Hysteresis,
        /// What is written to the node's object in the Kubernetes API, and when.
        cluster: ClusterSettings,
        /// Jobs on this node: NCCL's logs, and what the kernel shows of jobs that log nothing.
        nccl: NcclSettings,
        /// `selvage slurm health` (docs/slurm.md).
        slurm: SlurmSettings,
        /// Thresholds of the checks.
        policy: Policy,
    }
}

impl Config {
    /// Whether RDMA netlink may be used.
    pub fn uses_netlink(&self) -> bool {
        self.agent.rdma_source != RdmaSource::Sysfs
    }

    /// Everything wrong with the settings as a whole, as (key, sentence); empty if they are valid.
    pub fn complaints(&self) -> Vec<(String, String)> {
        let mut complaints = self.ranges();
        for (key, patterns) in [
            ("counters.exclude", &self.counters.exclude),
            ("serve.hosts", &self.serve.hosts),
            ("rails.include", &self.rails.include),
            ("rails.exclude", &self.rails.exclude),
        ] {
            // A port's name is DEVICE/PORT.
            let within = if key.starts_with("rails.") { "/" } else { "" };
            let wrong = (patterns.iter()).filter_map(|pattern| impossible(pattern, within));
            complaints.extend(wrong.map(|message| (key.to_string(), message)));
        }
        complaints.extend(self.platform.complaints());
        complaints.extend(self.serve.complaints());
        complaints.extend(self.cluster.complaints());
        let of_policy = self.policy.complaints().into_iter();
        complaints.extend(of_policy.map(|(key, message)| (format!("policy.{key}"), message)));
        let checks = || CHECKS.iter().map(|check| check.id);
        for id in (self.policy.mute.iter()).filter(|id| checks().all(|known| known != *id)) {
            let meant = complaint::suggestion(id, checks());
            let message = format!("no such check: {id:?}{meant}");
            complaints.push(("policy.mute".into(), message));
        }
        complaints
    }

    /// Times and numbers outside their range, found by key so that a new interval or window is
    /// checked as well.
    fn ranges(&self) -> Vec<(String, String)> {
        let tree = serde_json::to_value(self).unwrap_or(Value::Null);
        let mut complaints = Vec::new();
        for setting in settings::settings() {
            let Some(value) = tree.pointer(&setting.pointer()) else {
                continue;
            };
            let key = setting.key.as_str();
            let span = value.as_str().and_then(|text| text.parse::<Span>().ok());
            let is_window = key.ends_with(".within") || key.ends_with("_within");
            let message = match (span, value.as_u64()) {
                (Some(span), _) if is_window && span.0.is_zero() => {
                    Some("must be longer than no time, such as \"1m\"".into())
                }
                (Some(Span(time)), _) => {
                    let text = |millis| Span::from_millis(millis).to_string();
                    out_of(key, time.as_millis() as u64, text)
                }
                (None, Some(number)) => out_of(key, number, |number| number.to_string()),
                (None, None) => None,
            };
            complaints.extend(message.map(|message| (setting.key.clone(), message)));
        }
        complaints
    }
}

/// In milliseconds.
const DAY: u64 = 86_400_000;

/// Least and most by the beginnings of keys, times in milliseconds; of two that fit, the first counts.
const RANGES: &[(&str, u64, u64)] = &[
    ("intervals.deadline", 100, 600_000),
    ("intervals.", 100, DAY),
    ("hysteresis.hold slurm. cluster.hold", 0, DAY),
    ("hysteresis.flap_window cluster.flap_window", 1000, DAY),
    ("cluster.clear nccl.suspects_every", 1000, DAY),
    ("hysteresis.flap_count", 0, 50),
    ("hysteresis.flap_max_factor", 1, 1000),
];

fn out_of(key: &str, value: u64, text: fn(u64) -> String) -> Option<String> {
    let is_of = |keys: &str| keys.split(' ').any(|of| key.starts_with(of));
    let (_, least, most) = RANGES.iter().find(|(keys, ..)| is_of(keys))?;
    let [value_text, least_text, most_text] = [value, *least, *most].map(text);
    let is_out = !(*least..=*most).contains(&value);
    is_out.then(|| format!("{value_text} is not between {least_text} and {most_text}"))
}

/// Why a pattern cannot match any name, if so; names have the characters of `within`, too.
fn impossible(pattern: &Glob, within: &str) -> Option<String> {
    let text = &pattern.0;
    if text.trim().is_empty() {
        return Some("an empty pattern matches nothing".into());
    }
    let odd = |c: &char| c.is_whitespace() || c.is_control() || "[]{}()\\/^$|".contains(*c);
    let found = text.chars().find(|c| odd(c) && !within.contains(*c))?;
    Some(format!(
        "{text:?} matches no name: names do not contain {found:?}; only * (any run of characters) \
         and ? (any single one) are special"
    ))
}

impl Serve {
    /// Settings that lack the one they need.
    fn complaints(&self) -> Vec<(String, String)> {
        let cert = ("serve.tls_cert", self.tls_cert.is_some());
        let key = ("serve.tls_key", self.tls_key.is_some());
        let ca = ("serve.tls_client_ca", self.tls_client_ca.is_some());
        [(cert, key), (key, cert), (ca, cert)]
            .into_iter()
            .filter(|((_, set), (_, needed))| *set && !needed)
            .map(|((name, _), (needed, _))| {
                (name.into(), format!("has no effect without {needed}"))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
