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
pub use load::{Loaded, add_agent_args, add_args, add_file_args, load};
pub use print::to_toml_defaults;
pub use sections::{
    AgentSettings, Counters, Intervals, KmsgSource, LogFormat, LogLevel, Nccl, PodSource,
    RdmaSource, Serve, SlurmSettings,
};
pub(crate) use settings::flag_hint;

use crate::check::debounce::Hysteresis;
use crate::check::policy::Policy;
use crate::check::profile::PlatformSettings;
use crate::check::roles::RoleOverrides;
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
        platform: PlatformSettings,
        /// How long a condition must last before its finding is raised or cleared.
        hysteresis: Hysteresis,
        /// What is written to the node's object in the Kubernetes API, and when.
        cluster: ClusterSettings,
        /// Jobs on this node: NCCL's logs, and what the kernel shows of jobs that log nothing.
        nccl: Nccl,
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
        for complaint in self.policy.complaints() {
            // Each begins with the key within the policy.
            let (key, message) = complaint.split_once(": ").unwrap_or(("", &complaint));
            let meant = match key {
                "mute" => self.meant_check(message),
                _ => String::new(),
            };
            complaints.push((format!("policy.{key}"), format!("{message}{meant}")));
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
            let span = value.as_str().and_then(|text| text.parse::<Span>().ok());
            let message = match (setting.section_and_name(), span, value.as_u64()) {
                (("intervals", "deadline"), Some(span), _) => {
                    out_of(span, Span::from_millis(100), Span::from_secs(600))
                }
                (("intervals", _), Some(span), _) => out_of(span, Span::from_millis(100), DAY),
                (
                    ("hysteresis" | "slurm" | "cluster", "hold") | ("slurm", "clear"),
                    Some(span),
                    _,
                ) => out_of(span, Span::from_secs(0), DAY),
                (
                    ("hysteresis" | "cluster", "flap_window") | ("cluster", "clear" | "clear_max"),
                    Some(span),
                    _,
                ) => out_of(span, Span::from_secs(1), DAY),
                (("hysteresis", "flap_count"), _, Some(count)) => out_of(count, 0, 50),
                (("hysteresis", "flap_max_factor"), _, Some(factor)) => out_of(factor, 1, 1000),
                ((_, name), Some(span), _)
                    if (name == "within" || name.ends_with("_within")) && span.0.is_zero() =>
                {
                    Some("must be longer than no time, such as \"1m\"".into())
                }
                _ => None,
            };
            complaints.extend(message.map(|message| (setting.key.clone(), message)));
        }
        complaints
    }

    /// Suggests a check for the unknown one that a complaint quotes.
    fn meant_check(&self, complaint: &str) -> String {
        let quoted = |id: &&String| complaint.contains(&format!("{id:?}"));
        let known = crate::check::CHECKS.iter().map(|check| check.id);
        let written = self.policy.mute.iter().find(quoted);
        written.map_or(String::new(), |id| complaint::suggestion(id, known))
    }
}

const DAY: Span = Span::from_secs(86_400);

fn out_of<T: PartialOrd + std::fmt::Display>(value: T, least: T, most: T) -> Option<String> {
    (value < least || value > most).then(|| format!("{value} is not between {least} and {most}"))
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
