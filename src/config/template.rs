//! The default settings as a commented TOML file: `selvage config`, and docs/config.md.

use super::settings::{MAP_EXAMPLES, SECTIONS, Setting, section_help, settings};
use serde_json::Value;
use std::fmt::Write;

/// Every setting with its help, flag, variable and default, as TOML that gives the defaults back.
pub fn to_toml_defaults() -> String {
    let mut out = String::from(
        "# Every setting of selvage with its default. Flags and environment variables win over\n\
         # this file. Times are told as 250ms, 10s, 5m, 1h, 1h30m.\n",
    );
    let mut current = "";
    let values: Vec<&Setting> = settings().iter().filter(|s| !s.is_map()).collect();
    // Maps are told at the end: a table of their own would take in the keys after it.
    for together in
        values.chunk_by(|a, b| small_table(a).is_some_and(|t| small_table(b) == Some(t)))
    {
        let Some(first) = together.first() else {
            continue;
        };
        let key = small_table(first).unwrap_or(&first.key);
        let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
        if section != current {
            current = section;
            heading(&mut out, section, false);
        }
        let default = if small_table(first).is_some() {
            comment(&mut out, &section_help(key));
            Some(inline(together))
        } else {
            comment(&mut out, &first.help);
            (!first.default.is_null()).then(|| value(&first.default))
        };
        for setting in together {
            let _ = writeln!(out, "# --{}, {}", setting.flag, setting.env);
        }
        let _ = match default {
            None => writeln!(out, "# {name} ="),
            Some(default) => writeln!(out, "{name} = {default}"),
        };
    }
    for setting in settings().iter().filter(|setting| setting.is_map()) {
        match MAP_EXAMPLES.iter().find(|(key, _)| *key == setting.key) {
            Some((_, example)) => {
                out.push('\n');
                comment(&mut out, &section_help(&setting.key));
                comment(&mut out, "One table an entry; for example:");
                out.push_str(example);
            }
            None => heading(&mut out, &setting.key, true),
        }
    }
    out
}

/// The key of the small table (`{ more_than, within }`) that a setting is a part of, if it is.
fn small_table(setting: &Setting) -> Option<&str> {
    let (section, _) = setting.section_and_name();
    let known = SECTIONS.iter().any(|(path, _)| *path == section);
    (!known).then_some(section)
}

fn inline(parts: &[&Setting]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|part| format!("{} = {}", part.section_and_name().1, value(&part.default)))
        .collect();
    format!("{{ {} }}", parts.join(", "))
}

fn heading(out: &mut String, section: &str, commented: bool) {
    out.push('\n');
    comment(out, &section_help(section));
    let _ = writeln!(out, "{}[{section}]", if commented { "# " } else { "" });
}

fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > 100 {
            out.push_str(&line);
            out.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.len() > 1 {
        out.push_str(&line);
        out.push('\n');
    }
}

/// A plain value as TOML tells it. JSON's strings, numbers and arrays of them are TOML's as well.
pub(super) fn value(value: &Value) -> String {
    value.to_string()
}
