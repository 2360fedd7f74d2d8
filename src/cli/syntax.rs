//! What can be said on the command line. Options of a command that stands in a file of its own are
//! there.

use super::{bench, cleanup, preflight, sidecar};
use crate::config;
use clap::{Arg, ArgAction, Command};
use std::path::PathBuf;

/// All commands with their arguments.
pub(super) fn command() -> Command {
    let output = || {
        Arg::new("output")
            .short('o')
            .long("output")
            .value_name("FORM")
            .value_parser(["text", "json"])
            .default_value("text")
            .help("What to print")
    };
    let files = || {
        Arg::new("files")
            .value_name("FILE")
            .action(ArgAction::Append)
            .value_parser(clap::value_parser!(PathBuf))
            .help("Files to read; - or none: standard input")
    };
    let command = Command::new("selvage")
        .about("Watches a GPU node's fabric and says when it is not fit for a gang")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(config::add_agent_args(Command::new("agent").about(
            "Watch this node, judge it, serve metrics and the report (the DaemonSet)",
        )))
        .subcommand(config::add_args(
            Command::new("check")
                .about("Look once and print the verdict; exit 0 ready, 1 degraded, 2 unready, 3 unknown")
                .arg(output()),
        ))
        .subcommand(config::add_args(
            Command::new("metrics").about("Look once and print the metrics"),
        ))
        .subcommand(
            Command::new("kmsg")
                .about("Decode kernel-log text (raw records, dmesg, journal) into events")
                .arg(output())
                .arg(files()),
        )
        .subcommand(bench::add_args(
            Command::new("nccl")
                .about("Read NCCL logs: which network each job used, and whether TCP was a silent fallback; exit 0 none, 1 found, 3 cannot tell")
                .arg(output())
                .arg(files()),
        ))
        .subcommand(config::add_args(
            Command::new("capture")
                .about("Save what the sources read here, to attach to a report and replay with --host-root")
                .arg(
                    Arg::new("dir")
                        .value_name("DIR")
                        .required(true)
                        .value_parser(clap::value_parser!(PathBuf))
                        .help("New or empty directory"),
                ),
        ))
        .subcommand(sidecar::command())
        .subcommand(preflight::command(output()))
        .subcommand(cleanup::command());
    #[cfg(feature = "demo")]
    let command = command.subcommands(super::demo::commands());
    command
        .subcommand(Command::new("config").about("Print every setting with its default, as TOML"))
}
