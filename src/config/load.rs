//! From command line, environment and file to a validated [`Config`].

use super::layers::{Layers, Raw};
use super::settings::{Setting, settings};
use super::{Complaint, Config, Origin};
use crate::files::read_all;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::{io, path::Path};

/// Longest settings file, in bytes: a device or a log named by mistake must not fill the memory.
const MAX_FILE: u64 = 1 << 20;

/// Adds `--config`, `--set` and the flags of settings, for a command that reads the node once.
pub fn add_args(command: Command) -> Command {
    let serves = |setting: &&Setting| setting.key == "agent.listen";
    add(command, settings().iter().filter(|of| !serves(of)))
}

/// The same for the agent, which also serves.
pub fn add_agent_args(command: Command) -> Command {
    add(command, settings().iter())
}

/// `--config` and `--set` alone.
pub fn add_file_args(command: Command) -> Command {
    add(command, std::iter::empty())
}

fn add(command: Command, settings: impl Iterator<Item = &'static Setting>) -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help("Settings file (TOML), - for standard input [env: SELVAGE_CONFIG]");
    let set = Arg::new("set")
        .long("set")
        .value_name("KEY=VALUE")
        .action(ArgAction::Append)
        .help("Any setting of `selvage config`: --set policy.expect.rails=8");
    let args = settings.filter_map(|setting| Some(arg(setting, setting.flag.as_deref()?)));
    let command = command.next_help_heading("Settings").arg(config);
    command.arg(set).args(args)
}

fn arg(setting: &'static Setting, flag: &'static str) -> Arg {
    let mut parts = setting.help.split(['.', ';', ':']);
    let first = parts.next().unwrap_or_default();
    let arg = Arg::new(setting.key.as_str())
        .long(flag)
        .value_name("VALUE")
        .action(ArgAction::Append)
        .allow_hyphen_values(true)
        .help(first)
        .long_help(format!("{} [env: {}]", setting.help, setting.env));
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

/// Settings in force, and where each of them was written.
#[derive(Debug)]
pub struct Loaded {
    /// The settings, validated as a whole.
    pub config: Config,
    /// Environment variables with our prefix that are not settings.
    pub warnings: Vec<Complaint>,
    pub(super) layers: Layers,
}

impl Loaded {
    /// Takes the node's name from NODE_NAME or the host where no setting gives it.
    pub(super) fn resolve_node_name(
        &mut self,
        variable: Option<String>,
        host_name: impl FnOnce(&Path) -> Option<String>,
    ) {
        if !self.config.agent.node_name.is_empty() {
            return;
        }
        let trimmed = |name: String| Some(name.trim().to_string()).filter(|name| !name.is_empty());
        // The host's name is read below the host root, where reads may hang: only if needed.
        let (name, origin) = match variable.and_then(trimmed) {
            Some(name) => (name, Origin::Environment("NODE_NAME".into())),
            None => {
                let host = host_name(&self.config.agent.host_root).and_then(trimmed);
                (host.unwrap_or_else(|| "unknown".into()), Origin::Host)
            }
        };
        let (key, value) = ("agent.node_name".into(), name.clone().into());
        self.layers.raws.push(Raw { key, value, origin });
        self.config.agent.node_name = name;
    }
}

/// Loads the settings for a command with [`add_args`]: reads the process's environment and the
/// settings file; `host_name` reads the name of the machine below the host root.
///
/// # Errors
/// Everything that is wrong with file, environment and command line.
pub fn load(
    matches: &ArgMatches,
    host_name: impl FnOnce(&Path) -> Option<String>,
) -> Result<Loaded, Vec<String>> {
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .map(|(name, value)| (name, value.to_string_lossy().into_owned()));
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let named = matches.try_get_one::<String>("config").ok().flatten();
    let path = named.cloned().or_else(|| variable("SELVAGE_CONFIG"));
    let file = path.map(|path| (path.clone(), read(Path::new(&path))));
    let loaded = merge(matches, environment, file);
    let mut loaded = loaded.map_err(|all| Vec::from_iter(all.iter().map(ToString::to_string)))?;
    loaded.resolve_node_name(variable("NODE_NAME"), host_name);
    Ok(loaded)
}

/// Merges what was written, in memory: file, then environment, then command line.
pub(super) fn merge(
    matches: &ArgMatches,
    environment: impl IntoIterator<Item = (String, String)>,
    file: Option<(String, io::Result<String>)>,
) -> Result<Loaded, Vec<Complaint>> {
    let mut layers = Layers::default();
    match file {
        Some((name, Ok(text))) => layers.file(&name, &text),
        Some((name, Err(error))) => {
            let origin = Origin::File { name, line: None };
            layers.refuse(origin, "", format!("cannot be read: {error}"));
        }
        None => {}
    }
    layers.environment(environment);
    flags(matches, &mut layers);

    let config = layers.merge();
    for (key, message) in config.iter().flat_map(Config::complaints) {
        layers.refuse(layers.origin_of(&key), &key, message);
    }
    match config {
        Some(config) if layers.complaints.is_empty() => Ok(Loaded {
            config,
            warnings: std::mem::take(&mut layers.warnings),
            layers,
        }),
        _ => {
            layers.complaints.sort();
            layers.complaints.dedup();
            Err(layers.complaints)
        }
    }
}

fn flags(matches: &ArgMatches, layers: &mut Layers) {
    for setting in settings() {
        // A command may offer only some of the flags.
        let values = matches.try_get_many::<String>(&setting.key);
        let (Some(flag), Ok(Some(values))) = (&setting.flag, values) else {
            continue;
        };
        let values: Vec<&str> = values.map(String::as_str).collect();
        // A list may be spread over several flags; otherwise the last one counts.
        let text = match setting.default.is_array() {
            true => values.join(","),
            false => values.last().copied().unwrap_or_default().to_string(),
        };
        layers.text(Origin::Flag(flag.clone()), setting, &text);
    }
    let set = matches.try_get_many::<String>("set").ok().flatten();
    for written in set.into_iter().flatten() {
        layers.set(written);
    }
}

/// Reads a settings file; `-` is standard input.
fn read(path: &Path) -> io::Result<String> {
    let bytes = match path == Path::new("-") {
        true => read_all(io::stdin(), MAX_FILE)?,
        false => read_all(std::fs::OpenOptions::new().read(true).open(path)?, MAX_FILE)?,
    };
    String::from_utf8(bytes).map_err(io::Error::other)
}
