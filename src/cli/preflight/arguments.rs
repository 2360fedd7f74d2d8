//! The command line of `selvage preflight`, and the variables that stand for it.

use crate::cli::check;
use crate::report::State;
use crate::units::{BadSpan, Span};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::PathBuf;
use std::time::Duration;

/// Least and longest `--timeout`.
const LEAST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3600);

/// Reads `--timeout`.
fn timeout(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: BadSpan| error.to_string())?;
    match (LEAST..=LONGEST).contains(&span.0) {
        true => Ok(span),
        false => Err("a time from 100ms to 1h".into()),
    }
}

/// An argument that a variable may give, too. One that is empty, as manifests have it for "none",
/// counts as unset.
fn or_variable(arg: Arg, name: &'static str) -> Arg {
    match std::env::var_os(name) {
        Some(value) if value.is_empty() => arg,
        _ => arg.env(name),
    }
}

/// Which verdicts end with an exit status other than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailOn {
    /// Every verdict but ready.
    Any,
    /// Degraded and unready.
    Degraded,
    /// Unready alone.
    Unready,
}

impl FailOn {
    /// What `--fail-on` takes.
    const WORDS: [&'static str; 3] = ["any", "degraded", "unready"];

    fn of(word: &str) -> Self {
        match word {
            "unready" => FailOn::Unready,
            "degraded" => FailOn::Degraded,
            _ => FailOn::Any,
        }
    }

    /// Exit status of a verdict.
    pub fn exit_status(self, state: State) -> u8 {
        let fails = match self {
            FailOn::Any => true,
            FailOn::Degraded => matches!(state, State::Degraded | State::Unready),
            FailOn::Unready => state == State::Unready,
        };
        match fails {
            true => check::exit_status(state),
            false => 0,
        }
    }
}

/// The command line.
pub fn command(output: Arg) -> Command {
    Command::new("preflight")
        .about("In a training container: can the job in here use the fabric? Exit 0 ready, 1 degraded, 2 unready, 3 unknown")
        .arg(output)
        .arg(or_variable(
            Arg::new("warn")
                .long("warn")
                .action(ArgAction::SetTrue)
                .value_parser(clap::builder::FalseyValueParser::new())
                .help("Print the same, and exit 0 whatever was found"),
            "SELVAGE_PREFLIGHT_WARN",
        ))
        .arg(or_variable(
            Arg::new("fail-on")
                .long("fail-on")
                .value_name("VERDICT")
                .default_value("any")
                .value_parser(FailOn::WORDS)
                .help("Exit 0 on what is better: `unready` lets degraded and unknown pass, `degraded` unknown alone, `any` neither"),
            "SELVAGE_PREFLIGHT_FAIL_ON",
        ))
        .arg(or_variable(
            Arg::new("gpus")
                .long("gpus")
                .value_name("N")
                .value_parser(clap::value_parser!(u32).range(..=1024))
                .help("GPUs that the job uses here, where they are not this container's own to see"),
            "SELVAGE_PREFLIGHT_GPUS",
        ))
        .arg(or_variable(
            Arg::new("timeout")
                .long("timeout")
                .value_name("TIME")
                .default_value("5s")
                .value_parser(timeout)
                .help("How long to wait for MASTER_ADDR, and for a device that does not answer: 5s, 2m; 100ms to 1h"),
            "SELVAGE_PREFLIGHT_TIMEOUT",
        ))
        .arg(
            Arg::new("copy-to")
                .long("copy-to")
                .value_name("DIR")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Only copy this program to DIR/selvage, for an init container of the training image to run"),
        )
        .arg(or_variable(
            Arg::new("host-root")
                .long("host-root")
                .value_name("DIR")
                .default_value("/")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Where sys, proc, dev and etc are looked for"),
            "SELVAGE_HOST_ROOT",
        ))
}

/// What the command line says.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to look.
    pub root: PathBuf,
    /// How long to wait.
    pub timeout: Duration,
    /// GPUs, where told.
    pub gpus: Option<u32>,
    /// Whether the exit status is 0 whatever was found.
    pub warn: bool,
    /// Which verdicts end otherwise.
    pub fail_on: FailOn,
}

impl Settings {
    /// From the parsed command line.
    pub fn of(matches: &ArgMatches) -> Self {
        Settings {
            root: matches
                .get_one::<PathBuf>("host-root")
                .cloned()
                .unwrap_or_else(|| "/".into()),
            timeout: matches
                .get_one::<Span>("timeout")
                .map_or(LEAST, |span| span.0),
            gpus: matches.get_one::<u32>("gpus").copied(),
            warn: matches.get_flag("warn"),
            fail_on: matches
                .get_one::<String>("fail-on")
                .map_or(FailOn::Any, |word| FailOn::of(word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_verdicts_fail() {
        let verdicts = [
            State::Ready,
            State::Degraded,
            State::Unready,
            State::Unknown,
        ];
        for (word, want) in [
            ("any", [0, 1, 2, 3]),
            ("degraded", [0, 1, 2, 0]),
            ("unready", [0, 0, 2, 0]),
        ] {
            let got = verdicts.map(|state| FailOn::of(word).exit_status(state));
            assert_eq!(got, want, "{word}");
        }
    }
}
