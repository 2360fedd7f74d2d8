//! From command line, environment and file to a validated [`Config`].

use super::complaint::{Complaint, Origin};
use super::layers::{Raw, from_environment, from_file, merge, take_text};
use super::settings::{Setting, settings};
use super::{Config, file, template};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::Path;

/// Adds `--config` and a flag for every setting, for a command that looks once. `-h` shows the
/// process's own, `--help` all by section.
pub fn add_args(command: Command) -> Command {
    add(command, is_agents_only)
}

/// The same for the agent, which has uses for all of them.
pub fn add_agent_args(command: Command) -> Command {
    add(command, |_| false)
}

/// Settings that only the agent uses: other commands take them (one file for all) and do not speak
/// of them.
fn is_agents_only(key: &str) -> bool {
    key == "agent.listen" || key.starts_with("cluster.") || key.starts_with("serve.")
}

fn add(command: Command, hidden: impl Fn(&str) -> bool) -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help("Settings file (TOML), - for standard input [env: SELVAGE_CONFIG]");
    let args = settings()
        .iter()
        .filter(|setting| !setting.flag.is_empty())
        .map(|setting| {
            let hide = hidden(&setting.key);
            arg(setting).hide(hide)
        });
    command.arg(config).args(args)
}

fn arg(setting: &'static Setting) -> Arg {
    let default = match &setting.default {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) if text.is_empty() => String::new(),
        serde_json::Value::String(text) => format!(" [default: {text}]"),
        value => format!(" [default: {}]", template::value(value)),
    };
    let help = format!("{}{default} [env: {}]", setting.help, setting.env);
    let arg = Arg::new(setting.key.as_str())
        .long(setting.flag.as_str())
        .value_name("VALUE")
        .action(ArgAction::Append)
        .allow_hyphen_values(true)
        .hide_short_help(!setting.key.starts_with("agent."))
        .help_heading((!setting.heading.is_empty()).then_some(setting.heading.as_str()))
        .help(help);
    match &setting.default {
        // A flag alone switches on.
        serde_json::Value::Bool(_) => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_name("BOOL"),
        serde_json::Value::Array(_) => arg.value_name("LIST"),
        _ => arg,
    }
}

/// Builds the settings out of flags, environment variables and a file's name and text. What has no
/// place in the pure part (the host's name) is left to [`resolve`].
pub fn from_matches(
    matches: &ArgMatches,
    environment: impl IntoIterator<Item = (String, String)>,
    file: Option<(&str, &str)>,
) -> Result<Config, Vec<Complaint>> {
    let mut complaints = Vec::new();
    let mut raws: Vec<Raw> = Vec::new();
    let mut layer = |(layer, said): (Vec<Raw>, Vec<Complaint>)| {
        raws.extend(layer);
        complaints.extend(said);
    };
    if let Some((name, text)) = file {
        layer(from_file(name, text));
    }
    layer(from_environment(environment));
    layer(from_flags(matches));

    let config = merge(&raws, &mut complaints);
    if let Some(config) = &config {
        for (key, message) in config.complaints() {
            // The last to say anything of it, or of an entry or part of it.
            let below = format!("{key}.");
            let said = raws.iter().rev().find(|raw| {
                raw.key == key
                    || raw.key.starts_with(&below)
                    || key.starts_with(&format!("{}.", raw.key))
            });
            complaints.push(Complaint {
                origin: said.map_or(Origin::Default, |raw| raw.origin.clone()),
                key: Some(key),
                message,
            });
        }
    }
    match config {
        Some(config) if complaints.is_empty() => Ok(config),
        _ => {
            complaints.sort();
            complaints.dedup();
            Err(complaints)
        }
    }
}

fn from_flags(matches: &ArgMatches) -> (Vec<Raw>, Vec<Complaint>) {
    let mut raws = Vec::new();
    let mut complaints = Vec::new();
    for setting in settings() {
        let key = setting.key.as_str();
        // A command may offer only some of the flags.
        let Ok(Some(values)) = matches.try_get_many::<String>(key) else {
            continue;
        };
        if matches.value_source(key) != Some(ValueSource::CommandLine) {
            continue;
        }
        let values: Vec<&str> = values.map(String::as_str).collect();
        // A list may be told in one flag or several; of anything else the last word counts.
        let text = if setting.default.is_array() {
            values.join(",")
        } else {
            values.last().copied().unwrap_or_default().to_string()
        };
        let origin = Origin::Flag(setting.flag.clone());
        take_text(setting, &text, origin, &mut raws, &mut complaints);
    }
    (raws, complaints)
}

/// Fills in what the settings leave to the node: its name, from NODE_NAME or the host.
pub fn resolve(mut config: Config, node_name: Option<String>, host_name: Option<String>) -> Config {
    if config.agent.node_name.is_empty() {
        config.agent.node_name = [node_name, host_name]
            .into_iter()
            .flatten()
            .map(|name| name.trim().to_string())
            .find(|name| !name.is_empty())
            .unwrap_or_else(|| "unknown".into());
    }
    config
}

/// The whole way, for a command with [`add_args`]: reads the process's environment, the settings
/// file and, by `host_name`, the name of the machine below the host root.
pub fn load(
    matches: &ArgMatches,
    host_name: impl FnOnce(&Path) -> Option<String>,
) -> Result<Config, Vec<Complaint>> {
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, lossy(value))))
        .collect();
    let variable = |name: &str| {
        let found = environment.iter().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value.clone())
            .filter(|value| !value.is_empty())
    };
    let path = match matches.try_get_one::<String>("config") {
        Ok(Some(path)) => Some(path.clone()),
        _ => variable("SELVAGE_CONFIG"),
    };
    let text = path.as_ref().map(|path| file::read(Path::new(path)));
    let (file, unreadable) = match (&path, &text) {
        (Some(path), Some(Ok(text))) => (Some((path.as_str(), text.as_str())), None),
        (Some(path), Some(Err(error))) => {
            let complaint = Complaint {
                origin: Origin::File {
                    name: path.clone(),
                    line: None,
                },
                key: None,
                message: format!("cannot be read: {error}"),
            };
            (None, Some(complaint))
        }
        _ => (None, None),
    };
    let config = from_matches(matches, environment.clone(), file);
    if let Some(unreadable) = unreadable {
        let mut complaints = vec![unreadable];
        complaints.extend(config.err().unwrap_or_default());
        return Err(complaints);
    }
    config.map(|config| {
        let node_name = variable("NODE_NAME").filter(|name| !name.trim().is_empty());
        // Asked only where it is needed: it is read below the host root, where reads may hang.
        let told = !config.agent.node_name.is_empty() || node_name.is_some();
        let host_name = (!told)
            .then(|| host_name(&config.agent.host_root))
            .flatten();
        resolve(config, node_name, host_name)
    })
}

fn lossy(text: std::ffi::OsString) -> String {
    text.to_string_lossy().into_owned()
}
