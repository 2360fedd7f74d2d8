//! Settings as TOML: the defaults with their meaning (`selvage config`, docs/config.md) and the
//! settings in force with their origins (`selvage config --effective`).

use super::Origin;
use super::load::Loaded;
use super::settings::{Setting, section_help, section_of, settings};
use serde_json::Value;
use std::fmt::Write;

/// Example entry of a map, which has no default to show.
const MAP_EXAMPLES: &[(&str, &str)] = &[(
    "policy.xid.overrides",
    "# [policy.xid.overrides.63]\n\
     # action = \"fatal\" # or degraded, app, ignore\n\
     # count = 3        # only from this many on; default 1\n\
     # within = \"1h\"    # within this long; unset: since boot\n",
)];

/// Every setting with its help, flag, variable and default, as TOML that gives the defaults back.
pub fn to_toml_defaults() -> String {
    let mut out = String::from(
        "# Every setting of selvage with its default. --set KEY=VALUE and flags override environment\n\
         # variables, which override this file. Times are written as 250ms, 10s, 5m, 1h, 1h30m.\n",
    );
    let mut current = "";
    let values: Vec<&Setting> = settings().iter().filter(|s| !s.is_map()).collect();
    // Maps come last: the keys after a table of their own would belong to it.
    for group in values.chunk_by(|a, b| inline_table(a).is_some_and(|t| inline_table(b) == Some(t)))
    {
        let Some(first) = group.first() else { continue };
        let key = inline_table(first).unwrap_or(&first.key);
        let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
        if section != current {
            current = section;
            out.push('\n');
            comment(&mut out, &section_help(section));
            let _ = writeln!(out, "[{section}]");
        }
        let default = if inline_table(first).is_some() {
            comment(&mut out, &section_help(key));
            toml(&inline(group))
        } else {
            comment(&mut out, &first.help);
            toml(&first.default)
        };
        for setting in group {
            let flag = setting.flag.as_ref();
            let flag = flag.map_or(String::new(), |flag| format!("--{flag}, "));
            let _ = writeln!(out, "# {flag}{}", setting.env);
        }
        let unset = if default.is_empty() { "# " } else { "" };
        let _ = writeln!(out, "{}", format!("{unset}{name} = {default}").trim_end());
    }
    for (key, example) in MAP_EXAMPLES {
        out.push('\n');
        comment(&mut out, &section_help(key));
        comment(&mut out, "One table an entry; for example:");
        out.push_str(example);
    }
    out
}

impl Loaded {
    /// The settings in force as TOML, each with where it was written.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for (key, value, origin) in self.in_force() {
            let _ = match value.is_empty() {
                true => writeln!(out, "# {key} is not set"),
                false => writeln!(out, "{key} = {value} # {origin}"),
            };
        }
        out
    }

    /// Settings that differ from the defaults, on one line for the log.
    pub fn changed(&self) -> String {
        let written = self.in_force().into_iter();
        let changed = written.filter(|(_, _, origin)| *origin != Origin::Default);
        let shown = changed.map(|(key, value, origin)| format!("{key} = {value} ({origin})"));
        shown.collect::<Vec<_>>().join(", ")
    }

    fn in_force(&self) -> Vec<(String, String, Origin)> {
        let tree = serde_json::to_value(&self.config).unwrap_or(Value::Null);
        let row = |key: String, value: &Value| {
            let origin = self.layers.origin_of(&key);
            (key, toml(value), origin)
        };
        let mut rows = Vec::new();
        for setting in settings() {
            match tree.pointer(&setting.pointer()) {
                Some(Value::Object(entries)) => {
                    let key = |name: &String| format!("{}.{name}", setting.key);
                    rows.extend(entries.iter().map(|(name, entry)| row(key(name), entry)));
                }
                Some(value) => rows.push(row(setting.key.clone(), value)),
                None => {}
            }
        }
        rows
    }
}

/// The key of the inline table (`{ more_than, within }`) that a setting is a part of, if it is.
fn inline_table(setting: &Setting) -> Option<&str> {
    let (section, _) = setting.section_and_name();
    section_of(section).is_none().then_some(section)
}

fn inline(parts: &[&Setting]) -> Value {
    let field = |part: &&Setting| (part.section_and_name().1.to_string(), part.default.clone());
    parts.iter().map(field).collect()
}

fn comment(out: &mut String, text: &str) {
    let options = textwrap::Options::new(100)
        .initial_indent("# ")
        .subsequent_indent("# ")
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    for line in textwrap::wrap(text, options) {
        out.push_str(&line);
        out.push('\n');
    }
}

/// A value as TOML; nothing if there is none.
fn toml(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Object(fields) => {
            let set = fields.iter().filter(|(_, value)| !value.is_null());
            let fields = set.map(|(name, value)| format!("{name} = {}", toml(value)));
            let fields: Vec<String> = fields.collect();
            format!("{{ {} }}", fields.join(", "))
        }
        // JSON's strings, numbers and lists of them are TOML as well.
        value => value.to_string(),
    }
}
