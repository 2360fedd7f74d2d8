//! The default settings as a commented TOML file: `selvage config`, and docs/config.md.

use super::settings::{section_help, settings};
use serde_json::Value;
use std::fmt::Write;

/// Every setting with its help, flag, variable and default, as TOML that gives the defaults back.
pub fn to_toml_defaults() -> String {
    let mut out = String::from(
        "# Every setting of selvage with its default. Flags and environment variables win over\n\
         # this file. Times are told as 250ms, 10s, 5m, 1h, 1h30m.\n",
    );
    let mut current = "";
    for setting in settings() {
        let (section, name) = setting.section_and_name();
        if setting.is_map() {
            // Its own table: told at the end of its section, so that no key lands in it.
            continue;
        }
        if section != current {
            current = section;
            heading(&mut out, section, false);
        }
        comment(&mut out, &setting.help);
        let _ = writeln!(out, "# --{}, {}", setting.flag, setting.env);
        let _ = match &setting.default {
            Value::Null => writeln!(out, "# {name} ="),
            default => writeln!(out, "{name} = {}", value(default)),
        };
    }
    for setting in settings().iter().filter(|setting| setting.is_map()) {
        heading(&mut out, &setting.key, true);
    }
    out
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
