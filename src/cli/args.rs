//! The command line. Commands in files of their own declare their arguments there.

#[cfg(feature = "demo")]
use super::demo::{DemoArgs, SimulateArgs};
use super::{USAGE, ask, bench, check, cleanup, complain, fleet, preflight, slurm, style};
use crate::config;
use crate::report::Style;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args, Command, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::ffi::{OsStr, OsString};
use std::{path::PathBuf, sync::LazyLock};

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
    let mut command = command();
    if program.is_some_and(|path| path.file_name() == Some(OsStr::new(fleet::PLUGIN))) {
        args.insert(1, "fleet".into());
        let usage = "kubectl selvage [OPTIONS]";
        command = command.mut_subcommand("fleet", |fleet| fleet.override_usage(usage));
    }
    loop {
        match command.clone().try_get_matches_from(&args) {
            Ok(matches) if complaints.is_empty() => return Ok(matches),
            Ok(matches) => {
                complaints.extend(wrong_settings(&matches).into_iter().flatten());
                break;
            }
            Err(error) => match unknown_flag(&error).or_else(|| wrong_value(&error)) {
                // Without it, parsing finds the next complaint.
                Some((flag, complaint)) if remove(&mut args, &flag) => complaints.push(complaint),
                _ if complaints.is_empty() => {
                    let _ = error.print();
                    return Err(if error.use_stderr() { USAGE } else { 0 });
                }
                // It may be one that was removed.
                _ if error.kind() == ErrorKind::MissingRequiredArgument => break,
                _ => {
                    let text = error.to_string();
                    let first = text.lines().next().unwrap_or_default();
                    complaints.push(first.trim_start_matches("error: ").to_string());
                    break;
                }
            },
        }
    }
    complaints.iter().for_each(complain);
    Err(USAGE)
}

/// What is wrong with the settings of a command that takes any.
fn wrong_settings(matches: &ArgMatches) -> Option<Vec<String>> {
    let (name, matches) = matches.subcommand()?;
    takes_settings(name).then_some(())?;
    config::load(matches, |_| None).err()
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

/// The flag whose value an error is about (`--timeout <TIME>`), and what is wrong with it.
fn wrong_value(error: &clap::Error) -> Option<(String, String)> {
    use ErrorKind::{InvalidValue, ValueValidation};
    let ContextValue::String(argument) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    let flag = argument.split(' ').next()?;
    if !matches!(error.kind(), InvalidValue | ValueValidation) || !flag.starts_with("--") {
        return None;
    }
    // With the possible values, if it names them.
    let text = error.to_string();
    let said = text.split("\n\n").next()?.trim_start_matches("error: ");
    Some((flag.to_string(), said.replace("\n ", "")))
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

// Its documentation is the program's in `--help`.
#[derive(Debug, Parser)]
#[command(name = "selvage", version = VERSION.as_str(), max_term_width = 100)]
/// Watches a GPU node's RDMA fabric and reports when the node is not fit for a multi-node job
pub(super) struct Cli {
    #[command(subcommand)]
    pub command: Commands,
}

/// All commands; [`command`] adds the settings to those that take them.
#[derive(Debug, Subcommand)]
pub(super) enum Commands {
    // In an enum of their own: the function that clap derives of one enum holds all its commands on the stack.
    #[command(flatten)]
    Local(LocalCommands),
    /// Show a cluster's nodes by verdict, reason and cause (as a plug-in: kubectl selvage)
    #[command(disable_help_subcommand = true, after_help = fleet::EXIT_STATUSES)]
    Fleet(fleet::Flags),
    /// Drain and resume this Slurm node according to the agent's verdict
    #[command(subcommand, disable_help_subcommand = true)]
    #[command(arg_required_else_help = true)]
    Slurm(slurm::Program),
    /// Remove selvage's labels, taint and condition from one node or all, before an uninstall
    Cleanup(cleanup::CleanupTarget),
    /// Accept this machine's current state as normal: forget its remembered best values
    Accept,
    /// Print every setting with default and meaning, or the settings in force
    Config {
        /// Print the settings in force and where each was written
        #[arg(long)]
        effective: bool,
    },
    /// Print the completion script of a shell
    #[command(hide = true)]
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: Shell,
    },
    /// Print the manual page (roff)
    #[command(hide = true)]
    Man,
    /// Simulated GPU nodes with faults coming and going: no hardware, no cluster
    #[cfg(feature = "demo")]
    Demo(DemoArgs),
    /// Write a simulated node's files, to read with --host-root; without DIR, list the nodes
    #[cfg(feature = "demo")]
    #[command(override_usage = "selvage simulate\n       selvage simulate <NODE> <DIR>")]
    Simulate(SimulateArgs),
}

/// Commands that read this node, or logs on it.
#[derive(Debug, Subcommand)]
pub(super) enum LocalCommands {
    /// Watch this node, judge it, serve metrics and the report (the DaemonSet)
    Agent,
    /// Read this node once and print the verdict
    #[command(after_help = "Exit status: 0 ready, 1 degraded, 2 unready, 3 unknown")]
    #[command(after_long_help = check::EXIT_STATUSES)]
    Check {
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        asked: ask::AgentArgs,
        #[command(flatten)]
        exit: check::ExitArgs,
    },
    /// Read this node once and print the metrics
    Metrics,
    /// Decode kernel-log text (raw records, dmesg, journal) into events
    Kmsg(ArgInputs),
    /// Read NCCL logs: which network did each job use, was TCP a silent fallback?
    #[command(after_help = "Exit status: 0 no fallback, 1 fallback found, 3 cannot tell")]
    Nccl {
        #[command(flatten)]
        inputs: ArgInputs,
        #[command(flatten)]
        bench: bench::BenchArgs,
    },
    /// Save what the sources read here, to attach to a report and replay with --host-root
    Capture {
        /// New or empty directory
        dir: PathBuf,
    },
    /// Run next to a training container: follow its NCCL logs, serve metrics, print verdicts
    Sidecar(crate::sidecar::SidecarSettings),
    /// Check from inside a training container whether the job can use the fabric
    #[command(after_help = "Exit status: 0 ready, 1 degraded, 2 unready, 3 unknown")]
    Preflight {
        #[command(flatten)]
        output: Output,
        #[command(flatten)]
        settings: preflight::PreflightSettings,
    },
}

/// How something is printed.
#[derive(Debug, Args)]
pub(super) struct Output {
    /// Output format: text (the default), json
    #[arg(short, long, value_name = "FORM", value_parser = ["text", "json"])]
    #[arg(default_value = "text")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    output: String,
}

impl Output {
    /// The style of the text that is asked for; `None` for JSON.
    pub fn style(&self) -> Option<Style> {
        (self.output != "json").then(style)
    }
}

/// What is read, and how it is printed.
#[derive(Debug, Args)]
pub(super) struct ArgInputs {
    #[command(flatten)]
    pub output: Output,
    /// Files to read; - or none: standard input
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    pub files: Vec<PathBuf>,
}

/// Whether a command takes the settings.
pub(super) fn takes_settings(name: &str) -> bool {
    let has = |sub: &Command| sub.get_arguments().any(|arg| arg.get_id() == "config");
    command().find_subcommand(name).is_some_and(has)
}

/// Warnings about the environment of a command without settings.
pub(super) fn unknown_variables() -> Vec<config::Complaint> {
    let all = command();
    let args = all.get_subcommands().flat_map(Command::get_arguments);
    let own: Vec<_> = args.filter_map(|arg| arg.get_env()?.to_str()).collect();
    config::unknown_variables(&own)
}

/// A shell's script that completes the command line.
pub(super) fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
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
    let health = |slurm: Command| slurm.mut_subcommand("health", config::add_file_args);
    Cli::command()
        .mut_subcommand("agent", config::add_agent_args)
        .mut_subcommand("check", config::add_args)
        .mut_subcommand("metrics", config::add_args)
        .mut_subcommand("capture", config::add_args)
        .mut_subcommand("preflight", preflight::without_empty)
        .mut_subcommand("fleet", fleet::add_args)
        .mut_subcommand("slurm", health)
        .mut_subcommand("cleanup", config::add_agent_args)
        .mut_subcommand("accept", config::add_args)
        .mut_subcommand("config", config::add_agent_args)
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
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = completions(shell);
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
