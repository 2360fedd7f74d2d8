//! `selvage sidecar`: flags and environment.

use crate::config::listen::Listen;
use crate::sidecar::Settings;
use crate::units::Span;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::PathBuf;

/// The subcommand with its flags.
pub fn command() -> Command {
    let text = |id: &'static str, env: &'static str, help: &'static str| {
        Arg::new(id)
            .long(id)
            .env(env)
            .value_name("NAME")
            .default_value("")
            .help(help)
    };
    Command::new("sidecar")
        .about("Run next to a training container: follow its NCCL logs, serve metrics, print verdicts")
        .arg(
            Arg::new("dir")
                .long("dir")
                .env("SELVAGE_SIDECAR_DIR")
                .value_name("DIR")
                .default_value("/var/log/nccl")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Directory of NCCL_DEBUG_FILE: HOST.PID.log, or CONTAINER.HOST.PID.log"),
        )
        .arg(
            Arg::new("listen")
                .long("listen")
                .env("SELVAGE_LISTEN")
                .value_name("ADDRESS:PORT")
                .default_value(":9950")
                .help("Address to serve /metrics on; none: do not serve"),
        )
        .arg(
            Arg::new("exit-when-done")
                .long("exit-when-done")
                .env("SELVAGE_SIDECAR_EXIT_WHEN_DONE")
                .action(ArgAction::SetTrue)
                .value_parser(clap::builder::FalseyValueParser::new())
                .help("End once the job is done (not needed in a native sidecar): a file DIR/done exists, or the pod shares its PID namespace and every process that wrote a log has ended"),
        )
        .arg(
            Arg::new("init-hang-after")
                .long("init-hang-after")
                .env("SELVAGE_SIDECAR_INIT_HANG_AFTER")
                .value_name("SPAN")
                .default_value("5m")
                .value_parser(clap::value_parser!(Span))
                .help("Report an NCCL init that takes longer as hanging"),
        )
        .arg(text("namespace", "SELVAGE_POD_NAMESPACE", "Namespace label of its series; empty: left to the scraper"))
        .arg(text("pod", "SELVAGE_POD_NAME", "Pod label of its series; empty: left to the scraper"))
        .arg(text("container", "SELVAGE_CONTAINER", "Container label, for files whose names do not tell their container"))
}

/// Settings from the command line and the environment.
///
/// # Errors
/// The invalid value, and why.
pub fn settings(matches: &ArgMatches) -> Result<Settings, String> {
    let text = |id: &str| matches.get_one::<String>(id).cloned().unwrap_or_default();
    let listen = match text("listen").as_str() {
        "none" | "off" => None,
        address => {
            let listen: Listen = address
                .parse()
                .map_err(|why| format!("--listen {address}: {why}"))?;
            Some(listen.addresses())
        }
    };
    let hang_after = matches.get_one::<Span>("init-hang-after");
    Ok(Settings {
        dir: matches
            .get_one::<PathBuf>("dir")
            .cloned()
            .unwrap_or_default(),
        listen,
        exit_when_done: matches.get_flag("exit-when-done"),
        hang_after: hang_after.map_or(Span::from_secs(300).0, |span| span.0),
        namespace: text("namespace"),
        pod: text("pod"),
        container: text("container"),
    })
}
