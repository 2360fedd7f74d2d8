//! Settings: raw as written (defaults, then file, then environment, then flags), then one typed,
//! validated [`Config`]; every complaint at once, before anything is touched.

pub mod complaint;
mod file;
pub mod layers;
pub mod listen;
pub mod load;
mod nccl;
mod serve;
pub mod settings;
pub mod template;

pub use crate::glob;
pub use complaint::{Complaint, Origin};
pub use load::{add_agent_args, add_args, from_matches, load, resolve};
pub use nccl::{Nccl, PodSource};
pub use serve::Serve;
pub use settings::{Setting, settings};
pub use template::to_toml_defaults;

use crate::check::debounce::Hysteresis;
use crate::check::policy::Policy;
use crate::check::profile::PlatformSettings;
use crate::check::roles::RoleOverrides;
use crate::cluster::ClusterSettings;
use crate::glob::Glob;
use crate::settings_macro::section;
use crate::units::Span;
use listen::Listen;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

section! {
    /// All settings, validated.
    Config {
        /// The process itself.
        agent: AgentSettings = AgentSettings::default(),
        /// TLS and who may ask: docs/tls.md. Nothing set: plain HTTP, open to all who reach the
        /// address. Files are taken in anew when they change.
        serve: Serve = Serve::default(),
        /// How often each source is read.
        intervals: Intervals = Intervals::default(),
        /// Which counters are read and exported.
        counters: Counters = Counters::default(),
        /// Which ports are rails.
        rails: RoleOverrides = RoleOverrides::default(),
        /// The machine's shape: what its fabric should consist of.
        platform: PlatformSettings = PlatformSettings::default(),
        /// How long findings are waited for.
        hysteresis: Hysteresis = Hysteresis::default(),
        /// What is written to the node's object in the Kubernetes API, and when.
        cluster: ClusterSettings = ClusterSettings::default(),
        /// Jobs on this node: NCCL's logs, and what the kernel shows of jobs that log nothing.
        nccl: Nccl = Nccl::default(),
        /// Thresholds of the checks.
        policy: Policy = Policy::default(),
    }
}

section! {
    /// The process itself: where it listens, what it reads, what it says.
    AgentSettings {
        /// Address to serve on, `ADDRESS:PORT`; without an address, on all.
        listen: Listen = Listen::any(9949),
        /// The node's name. Empty: the environment's NODE_NAME, else the host name.
        node_name: String = String::new(),
        /// Directory below which `sys`, `proc`, `dev` and `var/log/pods` are looked for.
        host_root: PathBuf = PathBuf::from("/"),
        /// Where what must outlive a restart is kept; empty: nowhere.
        #[serde(with = "optional_path")]
        state_dir: Option<PathBuf> = Some(PathBuf::from("/var/lib/selvage")),
        /// Least level of the agent's own log: error, warn, info, debug, trace.
        log_level: LogLevel = LogLevel::Info,
        /// Form of the agent's own log: text, json.
        log_format: LogFormat = LogFormat::Text,
        /// Kernel log device; a relative path is below the host root.
        kmsg: PathBuf = PathBuf::from("dev/kmsg"),
        /// How the kernel log is read: auto, device, syslog. By syslog(2) it needs CAP_SYSLOG and
        /// no device; auto takes that where the device is absent or refused, as in any container
        /// that is not privileged. Of a directory tree the file is read.
        kmsg_source: KmsgSource = KmsgSource::Auto,
        /// Take in kernel-log records of any facility, not the kernel's own only. For tests:
        /// any process on the node can then write an Xid.
        kmsg_all_facilities: bool = false,
        /// Where RDMA facts come from: auto, netlink, sysfs.
        rdma_source: RdmaSource = RdmaSource::Auto,
    }
}

section! {
    /// How often each source is read. Kernel events come on top: these are the safety net.
    Intervals {
        /// Port state.
        link: Span = Span::from_secs(1),
        /// Counters of RDMA ports.
        counters: Span = Span::from_secs(10),
        /// Statistics of Ethernet devices: pause, discards.
        ethtool: Span = Span::from_secs(15),
        /// Network devices: carrier, speed.
        netdev: Span = Span::from_secs(5),
        /// Enumeration of RDMA devices.
        devices: Span = Span::from_secs(30),
        /// GID tables.
        gids: Span = Span::from_secs(60),
        /// PCI functions: links, errors, GPUs present.
        pci: Span = Span::from_secs(60),
        /// Drivers and modules of the GPUDirect path.
        gpudirect: Span = Span::from_secs(10),
        /// DCB settings: PFC, ETS, trust.
        dcb: Span = Span::from_secs(60),
        /// 802.1X: what wpa_supplicant says, where there is one.
        dot1x: Span = Span::from_secs(30),
        /// A read that has not ended after this long counts as stalled.
        deadline: Span = Span::from_secs(5),
    }
}

section! {
    /// Which counters are read and exported.
    Counters {
        /// RDMA devices whose port counters are never opened: patterns over name or PCI address.
        exclude: Vec<Glob> = Vec::new(),
        /// Read and export every counter, not the chosen ones only.
        full: bool = false,
    }
}

/// Levels of the agent's own log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Failures.
    Error,
    /// What needs a look.
    Warn,
    /// Changes of state.
    Info,
    /// For finding faults in the agent.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// As `tracing` takes it.
    pub fn level(self) -> tracing::Level {
        match self {
            LogLevel::Error => tracing::Level::ERROR,
            LogLevel::Warn => tracing::Level::WARN,
            LogLevel::Info => tracing::Level::INFO,
            LogLevel::Debug => tracing::Level::DEBUG,
            LogLevel::Trace => tracing::Level::TRACE,
        }
    }
}

/// Forms of the agent's own log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How the kernel log is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KmsgSource {
    /// The device, and syslog(2) where it is absent or refused.
    Auto,
    /// The device.
    Device,
    /// syslog(2).
    Syslog,
}

/// Where RDMA facts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RdmaSource {
    /// RDMA netlink where the kernel answers, files elsewhere.
    Auto,
    /// RDMA netlink.
    Netlink,
    /// Files under /sys.
    Sysfs,
}

impl Config {
    /// Whether RDMA netlink may be asked.
    pub fn uses_netlink(&self) -> bool {
        self.agent.rdma_source != RdmaSource::Sysfs
    }

    /// The kernel log's path.
    pub fn kmsg_path(&self) -> PathBuf {
        self.agent.host_root.join(&self.agent.kmsg)
    }

    /// What the operator says about roles.
    pub fn role_overrides(&self) -> RoleOverrides {
        self.rails.clone()
    }

    /// What is wrong with it as a whole: key and sentence each; empty when it is sound.
    pub fn complaints(&self) -> Vec<(String, String)> {
        let mut complaints = Vec::new();
        let mut range = |key: &str, value: Span, least: Span, most: Span| {
            if value < least || value > most {
                let message = format!("{value} is not between {least} and {most}");
                complaints.push((key.to_string(), message));
            }
        };
        let Intervals {
            link,
            counters,
            ethtool,
            netdev,
            devices,
            gids,
            pci,
            gpudirect,
            dcb,
            dot1x,
            deadline,
        } = self.intervals;
        let day = Span::from_secs(86_400);
        for (name, value) in [
            ("link", link),
            ("netdev", netdev),
            ("counters", counters),
            ("ethtool", ethtool),
            ("devices", devices),
            ("gids", gids),
            ("pci", pci),
            ("gpudirect", gpudirect),
            ("dcb", dcb),
            ("dot1x", dot1x),
        ] {
            let key = format!("intervals.{name}");
            range(&key, value, Span::from_millis(100), day);
        }
        range(
            "intervals.deadline",
            deadline,
            Span::from_millis(100),
            Span::from_secs(600),
        );
        range(
            "hysteresis.hold",
            self.hysteresis.hold,
            Span(std::time::Duration::ZERO),
            day,
        );
        range(
            "hysteresis.flap_window",
            self.hysteresis.flap_window,
            Span::from_secs(1),
            day,
        );
        for (key, value, least, most) in [
            ("hysteresis.flap_count", self.hysteresis.flap_count, 0, 50),
            (
                "hysteresis.flap_max_factor",
                self.hysteresis.flap_max_factor,
                1,
                1000,
            ),
        ] {
            if !(least..=most).contains(&value) {
                let message = format!("{value} is not between {least} and {most}");
                complaints.push((key.into(), message));
            }
        }
        for (key, patterns) in [
            ("counters.exclude", &self.counters.exclude),
            ("rails.include", &self.rails.include),
            ("rails.exclude", &self.rails.exclude),
        ] {
            for pattern in patterns {
                complaints.extend(wrong_with(pattern).map(|message| (key.into(), message)));
            }
        }
        complaints.extend(self.platform.complaints());
        complaints.extend(self.serve.complaints());
        complaints.extend(settings::empty_windows(self).into_iter().map(|key| {
            let message = "nothing can be counted within no time: write \"1m\" or so";
            (key, message.to_string())
        }));
        complaints.extend(self.cluster.complaints());
        complaints.extend(self.policy.complaints().into_iter().map(|complaint| {
            // Each begins with the key within the policy.
            let (key, message) = complaint.split_once(": ").unwrap_or(("", &complaint));
            let meant = match key {
                "mute" => self.meant_by(message),
                _ => String::new(),
            };
            (format!("policy.{key}"), format!("{message}{meant}"))
        }));
        complaints
    }
}

impl Config {
    /// Which check was meant by the one that a complaint quotes.
    fn meant_by(&self, complaint: &str) -> String {
        let quoted = |id: &&String| complaint.contains(&format!("{id:?}"));
        let written = self.policy.mute.iter().find(quoted);
        let known = || crate::check::CHECKS.iter().map(|check| check.id);
        written
            .and_then(|written| complaint::nearest(written, known()))
            .map_or(String::new(), |near| format!("; did you mean {near}?"))
    }
}

/// Why a pattern can fit no name, if so.
fn wrong_with(pattern: &Glob) -> Option<String> {
    let text = &pattern.0;
    if text.trim().is_empty() {
        return Some("an empty pattern fits nothing".into());
    }
    let odd = |c: &char| c.is_whitespace() || c.is_control() || "[]{}()\\/^$|".contains(*c);
    let found = text.chars().find(odd)?;
    Some(format!(
        "{text:?} fits no name: {found:?} stands in none; only * (any run of characters) and ? (any \
         one) are special"
    ))
}

/// A path as text; none as empty text.
mod optional_path {
    use super::{Path, PathBuf};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&path.as_deref().unwrap_or(Path::new("")).display())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        let text = String::deserialize(from)?;
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }
}

#[cfg(test)]
mod tests;
