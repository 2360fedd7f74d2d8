//! The registry of all settings, built by walking the serialised defaults: a field added to a section
//! becomes a key, an environment variable and a line of `selvage config` at once.

use super::{AgentSettings, Config, Counters, Intervals, Nccl, Serve, SlurmSettings};
use crate::check::debounce::Hysteresis;
use crate::check::policy;
use crate::check::profile::PlatformSettings;
use crate::check::roles::RoleOverrides;
use crate::cluster::ClusterSettings;
use serde_json::Value;
use std::sync::OnceLock;

/// One setting with its names, meaning and default.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    /// Path in the settings file: `policy.link_state.raise_after`.
    pub key: String,
    /// Flag without its dashes, for settings that people type by hand ([`FLAGS`]).
    pub flag: Option<String>,
    /// Environment variable; empty for maps.
    pub env: String,
    /// What the setting does, from its doc comment.
    pub help: String,
    /// Default; null for settings without one.
    pub default: Value,
}

impl Setting {
    /// Whether the operator names its entries: `policy.xid.overrides`.
    pub fn is_map(&self) -> bool {
        self.default.is_object()
    }

    /// The section that contains it, and its name there.
    pub fn section_and_name(&self) -> (&str, &str) {
        self.key.rsplit_once('.').unwrap_or(("", &self.key))
    }

    /// JSON pointer to its value.
    pub fn pointer(&self) -> String {
        format!("/{}", self.key.replace('.', "/"))
    }
}

/// Settings with a flag of their own. All others are set by file, environment or `--set`.
const FLAGS: &str = "agent.listen agent.node_name agent.host_root agent.log_level agent.log_format \
    cluster.dry_run rails.include rails.exclude platform.profile";

type Help = &'static [(&'static str, &'static str)];

/// Help of the fields of each section, by the section's path. A test checks that it is complete.
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
    ("slurm", SlurmSettings::HELP),
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
    ("policy.mtu", policy::Mtu::HELP),
    ("policy.ip_routing", policy::IpRouting::HELP),
    ("policy.partition", policy::Partition::HELP),
    ("policy.neighbor", policy::Neighbor::HELP),
    ("policy.flow_control", policy::FlowControl::HELP),
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

/// Help of the fields of inline tables such as `{ more_than = 0, within = "10m" }`.
const INLINE_TABLES: Help = &[
    ("more_than", "judged when the increase is above this"),
    ("within", "counted over this long"),
];

/// All settings, in the order of the sections' fields.
pub(super) fn settings() -> &'static [Setting] {
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

/// The setting of a key.
pub(super) fn setting(key: &str) -> Option<&'static Setting> {
    settings().iter().find(|setting| setting.key == key)
}

/// What to write in place of an unknown flag that names a setting: `--set intervals.link=VALUE`.
pub(crate) fn flag_hint(flag: &str) -> Option<String> {
    let env = format!("SELVAGE_{}", flag.replace('-', "_").to_uppercase());
    let setting = settings().iter().find(|setting| setting.env == env)?;
    Some(format!("--set {}=VALUE", setting.key))
}

/// Description of a section, for headings.
pub(super) fn section_help(section: &str) -> String {
    let (parent, name) = section.rsplit_once('.').unwrap_or(("", section));
    help_of(parent, name).unwrap_or_default()
}

fn fields_of(section: &str) -> Help {
    let found = SECTIONS.iter().find(|(path, _)| *path == section);
    found.map_or(&[], |(_, fields)| *fields)
}

fn help_of(section: &str, field: &str) -> Option<String> {
    let (_, text) = fields_of(section).iter().find(|(name, _)| *name == field)?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn walk(path: &str, help: &str, value: &Value, settings: &mut Vec<Setting>) {
    let fields = match value {
        Value::Object(fields) if !fields.is_empty() => fields,
        _ => return settings.push(leaf(path, help, value)),
    };
    let order = fields_of(path);
    let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| {
        let rank = order.iter().position(|(field, _)| field == name);
        rank.unwrap_or(usize::MAX)
    });
    for (name, inner) in fields {
        let key = format!("{path}.{name}");
        let help = help_of(path, name).unwrap_or_else(|| {
            let part = INLINE_TABLES.iter().find(|(field, _)| field == name);
            part.map_or(String::new(), |(_, text)| {
                format!("{help} ({text})").trim().to_string()
            })
        });
        walk(key.trim_start_matches('.'), &help, inner, settings);
    }
}

fn leaf(key: &str, help: &str, default: &Value) -> Setting {
    // The process's own settings go by short names: `--listen`, SELVAGE_LISTEN.
    let short = match key {
        "cluster.dry_run" => "dry_run",
        key => key.strip_prefix("agent.").unwrap_or(key),
    };
    let env = match default {
        Value::Object(_) => String::new(),
        _ => format!("SELVAGE_{}", short.replace('.', "_").to_uppercase()),
    };
    Setting {
        key: key.to_string(),
        flag: (FLAGS.split_whitespace().any(|flag| flag == key))
            .then(|| short.replace(['.', '_'], "-")),
        env,
        help: help.to_string(),
        default: default.clone(),
    }
}
