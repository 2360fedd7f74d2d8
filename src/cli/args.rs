//! The command line. Commands in files of their own declare their arguments there.

use super::run::USAGE;
use super::{ask, bench, check, cleanup, complain, fleet, preflight, sidecar, slurm};
use crate::config;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use clap_complete::Shell;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::LazyLock;

/// What `--version` prints after the name.
static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{} ({})", crate::units::VERSION, crate::units::REVISION));

/// Parses the command line of the process.
///
/// # Errors
/// The exit status, after help or every complaint was printed.
pub(super) fn parse(mut args: Vec<OsString>) -> Result<ArgMatches, u8> {
    let mut complaints = Vec::new();
    let program = args.first().map(PathBuf::from);
    if program.is_some_and(|path| path.file_name() == Some(OsStr::new(fleet::PLUGIN))) {
        args.insert(1, "fleet".into());
    }
    loop {
        match command().try_get_matches_from(&args) {
            Ok(matches) if complaints.is_empty() => return Ok(matches),
            Ok(matches) => {
                complaints.extend(wrong_settings(&matches));
                break;
            }
            Err(error) => match unknown_flag(&error) {
                // Without it, parsing finds the next complaint.
                Some((flag, complaint)) if remove(&mut args, &flag) => complaints.push(complaint),
                _ if complaints.is_empty() => {
                    let _ = error.print();
                    return Err(if error.use_stderr() { USAGE } else { 0 });
                }
                _ => {
                    let text = error.to_string();
                    complaints.extend(text.lines().next().map(str::to_string));
                    break;
                }
            },
        }
    }
    complaints.iter().for_each(complain);
    Err(USAGE)
}

fn wrong_settings(matches: &ArgMatches) -> Vec<String> {
    let Some((_, matches)) = matches.subcommand() else {
        return Vec::new();
    };
    let has_settings = matches.try_contains_id("config").is_ok();
    let loaded = has_settings.then(|| config::load(matches, |_| None));
    loaded.and_then(Result::err).unwrap_or_default()
}

/// The unknown flag that an error is about, and a complaint that names what to write instead.
fn unknown_flag(error: &clap::Error) -> Option<(String, String)> {
    let ContextValue::String(flag) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    if error.kind() != ErrorKind::UnknownArgument || !flag.starts_with("--") {
        return None;
    }
    let setting = config::flag_hint(flag.trim_start_matches('-'));
    let meant = match (setting, error.get(ContextKind::SuggestedArg)) {
        (Some(set), _) => format!("; use {set}"),
        (None, Some(ContextValue::String(near))) => format!("; did you mean {near}?"),
        _ => String::new(),
    };
    Some((flag.clone(), format!("{flag}: no such flag{meant}")))
}

/// Removes a flag with its value; false if it is not there.
fn remove(args: &mut Vec<OsString>, flag: &str) -> bool {
    let with_value = format!("{flag}=");
    let is_it = |arg: &OsString| *arg == *flag || arg.to_string_lossy().starts_with(&with_value);
    let Some(at) = args.iter().position(is_it) else {
        return false;
    };
    let bare = args.remove(at) == *flag;
    let is_value = |next: &OsString| !next.to_string_lossy().starts_with('-');
    if bare && args.get(at).is_some_and(is_value) {
        args.remove(at);
    }
    true
}

fn output() -> Arg {
    Arg::new("output")
        .short('o')
        .long("output")
        .value_name("FORM")
        .value_parser(["text", "json"])
        .default_value("text")
        .hide_possible_values(true)
        .hide_default_value(true)
        .help("Output format: text (the default), json")
}

fn files() -> Arg {
    Arg::new("files")
        .value_name("FILE")
        .action(ArgAction::Append)
        .value_parser(clap::value_parser!(PathBuf))
        .help("Files to read; - or none: standard input")
}

/// A shell's script that completes the command line.
pub(super) fn completions(matches: &ArgMatches) -> String {
    let shell = matches.get_one::<Shell>("shell").copied();
    let (shell, mut script) = (shell.unwrap_or(Shell::Bash), Vec::new());
    clap_complete::generate(shell, &mut command(), "selvage", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The manual page in roff.
pub(super) fn man_page() -> String {
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = clap_mangen::Man::new(command()).render(&mut page);
    String::from_utf8_lossy(&page).into_owned()
}

/// All commands with their arguments.
fn command() -> Command {
    let named = |name: &'static str, about: &'static str| Command::new(name).about(about);
    let directory = Arg::new("dir")
        .value_name("DIR")
        .required(true)
        .value_parser(clap::value_parser!(PathBuf))
        .help("New or empty directory");
    let effective = Arg::new("effective")
        .long("effective")
        .action(ArgAction::SetTrue)
        .help("Print the settings in force and where each was written");
    let shell = Arg::new("shell")
        .value_name("SHELL")
        .required(true)
        .value_parser(clap::value_parser!(Shell))
        .help("bash, zsh, fish, elvish or powershell");
    let agent = "Watch this node, judge it, serve metrics and the report (the DaemonSet)";
    let check = check::Exit::augment_args(Command::new("check").arg(output()).arg(ask::arg()))
        .about("Read this node once and print the verdict")
        .after_help("Exit status: 0 ready, 1 degraded, 2 unready, 3 unknown")
        .after_long_help(check::EXIT_STATUSES);
    let metrics = "Read this node once and print the metrics";
    let kmsg = "Decode kernel-log text (raw records, dmesg, journal) into events";
    let nccl = "Read NCCL logs: which network did each job use, was TCP a silent fallback?";
    let nccl = named("nccl", nccl)
        .after_help("Exit status: 0 no fallback, 1 fallback found, 3 cannot tell");
    let capture =
        "Save what the sources read here, to attach to a report and replay with --host-root";
    let accept = "Take this machine as it is now for right: forget its best values";
    let config = "Print every setting with default and meaning, or the settings in force";
    let command = Command::new("selvage")
        .about("Watches a GPU node's RDMA fabric and reports when the node is not fit for a multi-node job")
        .version(VERSION.as_str())
        .max_term_width(100)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            config::add_agent_args(named("agent", agent)),
            config::add_args(check),
            config::add_args(named("metrics", metrics)),
            named("kmsg", kmsg).arg(output()).arg(files()),
            bench::add_args(nccl.arg(output()).arg(files())),
            config::add_args(named("capture", capture).arg(directory)),
            sidecar::command(),
            preflight::command(output()),
            fleet::command(),
            slurm::command(),
            cleanup::command(),
            config::add_args(named("accept", accept)),
            config::add_agent_args(named("config", config).arg(effective)),
            named("completions", "Print the completion script of a shell").arg(shell).hide(true),
            named("man", "Print the manual page (roff)").hide(true),
        ]);
    #[cfg(feature = "demo")]
    let command = command.subcommands(super::demo::commands());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_fits_a_screen() {
        let mut all = command();
        all.build();
        let names = all.get_subcommands().map(|sub| sub.get_name().to_string());
        let names: Vec<String> = names.filter(|name| name != "help").collect();
        let mut checked = vec![("selvage".to_string(), all.clone())];
        for name in names {
            let sub = all.find_subcommand_mut(&name).unwrap().clone();
            checked.push((name, sub));
        }
        let mut too_long = Vec::new();
        for (name, sub) in checked {
            let mut sub = sub.term_width(100);
            for (text, most) in [
                (sub.render_help().to_string(), 25),
                (sub.render_long_help().to_string(), 60),
            ] {
                let wide = text.lines().any(|line| line.chars().count() > 100);
                if wide || text.lines().count() > most {
                    too_long.push(format!("{name}: more than {most} lines\n{text}"));
                }
            }
        }
        assert!(too_long.is_empty(), "{}", too_long.join("\n\n"));
    }

    #[test]
    fn shells_and_man_know_every_command() {
        for shell in ["bash", "zsh", "fish"] {
            let matches = command()
                .try_get_matches_from(["selvage", "completions", shell])
                .unwrap();
            let script = completions(matches.subcommand().unwrap().1);
            for name in ["preflight", "exit-codes", "host-root"] {
                assert!(script.contains(name), "{shell}: {name}");
            }
        }
        let page = man_page();
        assert!(page.starts_with(".ie"), "{page}");
        assert!(
            page.contains("preflight") && page.contains(&*VERSION),
            "{page}"
        );
    }

    #[test]
    fn an_unknown_flag_is_removed_with_its_value() {
        for (before, after) in [
            (
                "selvage check --x --host-root /",
                "selvage check --host-root /",
            ),
            ("selvage check --x 1 -o json", "selvage check -o json"),
            ("selvage check --x=1 a", "selvage check a"),
        ] {
            let mut args: Vec<OsString> = before.split(' ').map(Into::into).collect();
            assert!(remove(&mut args, "--x"));
            assert_eq!(args.join(std::ffi::OsStr::new(" ")), after, "{before}");
        }
        assert!(!remove(&mut vec!["selvage".into()], "--x"));
    }
}
