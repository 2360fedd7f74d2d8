//! The registry of all settings, built by walking the serialised defaults: a field added to a section
//! becomes a key, an environment variable and a line of `selvage config` at once.

use super::Config;
use crate::settings_macro::Field;
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

/// Help of the fields of inline tables such as `{ more_than = 0, within = "10m" }`.
const INLINE_TABLES: [(&str, &str); 2] = [
    ("more_than", "judged when the increase is above this"),
    ("within", "counted over this long"),
];

/// All settings, in the order of the sections' fields.
pub(super) fn settings() -> &'static [Setting] {
    static SETTINGS: OnceLock<Vec<Setting>> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let mut settings = Vec::new();
        walk("", Config::FIELDS, &defaults(), &mut settings);
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
    let found = section_of(parent).and_then(|fields| field(fields, name));
    found.map(help_of).unwrap_or_default()
}

/// The fields of a section, if that is what a path names.
pub(super) fn section_of(path: &str) -> Option<&'static [Field]> {
    let mut names = path.split('.').filter(|name| !name.is_empty());
    names.try_fold(Config::FIELDS, |fields, name| field(fields, name)?.section)
}

fn field(fields: &'static [Field], name: &str) -> Option<&'static Field> {
    fields.iter().find(|field| field.name == name)
}

fn help_of(field: &Field) -> String {
    let words: Vec<&str> = field.help.split_whitespace().collect();
    words.join(" ")
}

fn walk(path: &str, fields: &[Field], values: &Value, settings: &mut Vec<Setting>) {
    for field in fields {
        let key = format!("{path}.{}", field.name);
        let key = key.trim_start_matches('.');
        let (help, value) = (help_of(field), values.get(field.name));
        let value = value.unwrap_or(&Value::Null);
        if let Some(inner) = field.section {
            walk(key, inner, value, settings);
        } else if value.as_object().is_some_and(|parts| !parts.is_empty()) {
            let parts = INLINE_TABLES.iter().filter_map(|(name, text)| {
                let help = format!("{help} ({text})");
                Some(leaf(&format!("{key}.{name}"), &help, value.get(name)?))
            });
            settings.extend(parts);
        } else {
            settings.push(leaf(key, &help, value));
        }
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
