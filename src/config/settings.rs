//! The registry: every setting there is, found by walking the serialised defaults, so that a field
//! added to a section is at once a key, a flag, an environment variable and a line of help.

use super::{AgentSettings, Config, Counters, Intervals, Nccl, Serve};
use crate::check::debounce::Hysteresis;
use crate::check::policy;
use crate::check::profile::PlatformSettings;
use crate::check::roles::RoleOverrides;
use crate::cluster::ClusterSettings;
use crate::units::Span;
use serde_json::Value;
use std::sync::OnceLock;

/// One setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Path in the settings file: `policy.link_state.raise_after`.
    pub key: String,
    /// Flag without its dashes; empty for maps, which only a file can tell.
    pub flag: String,
    /// Heading that its flag stands under in help; empty for the process's own.
    pub heading: String,
    /// Environment variable; empty for maps.
    pub env: String,
    /// What it does.
    pub help: String,
    /// Default; null where nothing is the default.
    pub default: Value,
}

impl Setting {
    /// Whether its entries are the operator's own: `policy.xid.overrides`.
    pub fn is_map(&self) -> bool {
        self.default.is_object()
    }

    /// The section it is in, and its name there.
    pub fn section_and_name(&self) -> (&str, &str) {
        self.key.rsplit_once('.').unwrap_or(("", &self.key))
    }
}

type Help = &'static [(&'static str, &'static str)];

/// Help of the fields of each section, by the section's path. A test sees to it that none is missing.
pub(super) const SECTIONS: &[(&str, Help)] = &[
    ("", Config::HELP),
    ("agent", AgentSettings::HELP),
    ("serve", Serve::HELP),
    ("intervals", Intervals::HELP),
    ("counters", Counters::HELP),
    ("rails", RoleOverrides::HELP),
    ("platform", PlatformSettings::HELP),
    ("hysteresis", Hysteresis::HELP),
    ("cluster", ClusterSettings::HELP),
    ("nccl", Nccl::HELP),
    ("policy", policy::Policy::HELP),
    ("policy.expect", policy::Expect::HELP),
    ("policy.link_state", policy::LinkState::HELP),
    ("policy.link_flap", policy::LinkFlap::HELP),
    ("policy.link_rate", policy::LinkRate::HELP),
    ("policy.link_errors", policy::LinkErrors::HELP),
    ("policy.counter_saturated", policy::CounterSaturated::HELP),
    ("policy.retransmission", policy::Retransmission::HELP),
    ("policy.congestion", policy::Congestion::HELP),
    ("policy.gid_table", policy::GidTable::HELP),
    ("policy.pcie_link", policy::PcieLink::HELP),
    ("policy.device_missing", policy::DeviceMissing::HELP),
    ("policy.promised", policy::Promised::HELP),
    ("policy.gpudirect", policy::GpuDirect::HELP),
    ("policy.gds", policy::Gds::HELP),
    ("policy.xid", policy::Xid::HELP),
    ("policy.nic_kernel", policy::NicKernel::HELP),
    ("policy.sxid", policy::Sxid::HELP),
    ("policy.nccl", policy::Nccl::HELP),
    ("policy.source_health", policy::SourceHealth::HELP),
];

/// Help of the fields of small tables that have no section of their own.
const SMALL_TABLES: Help = &[
    ("more_than", "judged when the increase is above this"),
    ("within", "counted over this long"),
];

/// How an entry of a map is written, for those who look for its form.
pub(super) const MAP_EXAMPLES: &[(&str, &str)] = &[(
    "policy.xid.overrides",
    "# [policy.xid.overrides.63]\n\
     # action = \"fatal\" # or degraded, app, ignore\n\
     # count = 3        # only from this many on; default 1\n\
     # within = \"1h\"    # within this long; not set: since boot\n",
)];

/// All settings, in the order of the sections' fields.
pub fn settings() -> &'static [Setting] {
    static SETTINGS: OnceLock<Vec<Setting>> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let mut settings = Vec::new();
        walk("", "", &defaults(), &mut settings);
        settings
    })
}

/// The defaults as raw values.
pub(super) fn defaults() -> Value {
    serde_json::to_value(Config::default()).unwrap_or(Value::Null)
}

/// Keys of windows that are told as no time at all, in which nothing could be counted.
pub(super) fn empty_windows(config: &Config) -> Vec<String> {
    let value = serde_json::to_value(config).unwrap_or(Value::Null);
    let window = |setting: &&Setting| {
        let (_, name) = setting.section_and_name();
        name == "within" || name.ends_with("_within")
    };
    let empty = |setting: &&Setting| {
        let told = value.pointer(&format!("/{}", setting.key.replace('.', "/")));
        let span = told.and_then(|told| told.as_str()?.parse::<Span>().ok());
        span.is_some_and(|span| span.0.is_zero())
    };
    let found = settings().iter().filter(window).filter(empty);
    found.map(|setting| setting.key.clone()).collect()
}

/// The setting of a key.
pub(super) fn setting(key: &str) -> Option<&'static Setting> {
    settings().iter().find(|setting| setting.key == key)
}

/// Words about a section, for headings.
pub(super) fn section_help(section: &str) -> String {
    let (parent, name) = section.rsplit_once('.').unwrap_or(("", section));
    help_of(parent, name).unwrap_or_default()
}

fn help_of(section: &str, field: &str) -> Option<String> {
    let (_, help) = SECTIONS.iter().find(|(path, _)| *path == section)?;
    let (_, text) = help.iter().find(|(name, _)| *name == field)?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn walk(path: &str, inherited: &str, value: &Value, settings: &mut Vec<Setting>) {
    let fields = match value {
        Value::Object(fields) if !fields.is_empty() => fields,
        _ => {
            settings.push(leaf(path, inherited, value));
            return;
        }
    };
    let order = SECTIONS
        .iter()
        .find(|(section, _)| *section == path)
        .map_or(&[][..], |(_, help)| *help);
    let rank = |name: &str| order.iter().position(|(field, _)| *field == name);
    let mut names: Vec<&String> = fields.keys().collect();
    names.sort_by_key(|name| rank(name).unwrap_or(usize::MAX));
    for name in names {
        let Some(inner) = fields.get(name) else {
            continue;
        };
        let key = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let help = help_of(path, name).unwrap_or_else(|| {
            let part = SMALL_TABLES.iter().find(|(field, _)| field == name);
            part.map_or(String::new(), |(_, text)| {
                format!("{inherited} ({text})").trim().to_string()
            })
        });
        walk(&key, &help, inner, settings);
    }
}

fn leaf(key: &str, help: &str, default: &Value) -> Setting {
    // The process's own settings are known by their short names: `--listen`, SELVAGE_LISTEN.
    let short = match key {
        // The first thing anybody tries.
        "cluster.dry_run" => "dry_run",
        key => key.strip_prefix("agent.").unwrap_or(key),
    };
    let (flag, env) = if default.is_object() {
        (String::new(), String::new())
    } else {
        (
            short.replace(['.', '_'], "-"),
            format!("SELVAGE_{}", short.replace('.', "_").to_uppercase()),
        )
    };
    Setting {
        key: key.to_string(),
        heading: heading(key),
        flag,
        env,
        help: help.to_string(),
        default: default.clone(),
    }
}

fn heading(key: &str) -> String {
    // A small table belongs to the section around it.
    let mut parts = key.split('.');
    match (parts.next(), parts.next(), parts.next()) {
        (None | Some("agent"), _, _) => String::new(),
        (Some("policy"), Some(check), Some(_)) => format!("Policy: {check}"),
        (Some(section), _, _) => {
            let first = section.chars().next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(section.chars().skip(1)).collect()
        }
    }
}
