//! The command line of `selvage preflight`, and the environment variables that replace its flags.

use crate::cli::check::FailOn;
use crate::units::Span;
use clap::builder::{FalseyValueParser, Resettable};
use clap::{Args, Command};
use std::path::PathBuf;
use std::time::Duration;

/// Settings of one run.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// Print the same, and exit 0 whatever was found
    #[arg(long, env = "SELVAGE_PREFLIGHT_WARN", value_parser = FalseyValueParser::new())]
    pub warn: bool,
    /// Exit 0 on milder verdicts: `unready` ignores degraded and unknown, `degraded` ignores unknown
    #[arg(long, env = "SELVAGE_PREFLIGHT_FAIL_ON", value_name = "VERDICT")]
    #[arg(default_value = "unknown")]
    pub fail_on: FailOn,
    /// GPUs that the job uses here, if this container cannot see them
    #[arg(long, env = "SELVAGE_PREFLIGHT_GPUS", value_name = "N", value_parser = clap::value_parser!(u32).range(..=1024))]
    pub gpus: Option<u32>,
    /// How long to wait for MASTER_ADDR and for a device that does not answer, 100ms to 1h
    #[arg(long, env = "SELVAGE_PREFLIGHT_TIMEOUT", value_name = "TIME", default_value = "5s", value_parser = timeout)]
    pub timeout: Duration,
    /// Only copy this program to DIR/selvage, for an init container of the training image
    #[arg(long, value_name = "DIR")]
    pub copy_to: Option<PathBuf>,
    /// Directory that replaces / for sys, proc, dev and etc
    #[arg(long = "host-root", env = "SELVAGE_HOST_ROOT", value_name = "DIR")]
    #[arg(default_value = "/")]
    pub root: PathBuf,
}

fn timeout(text: &str) -> Result<Duration, String> {
    let Span(time) = text.parse()?;
    match (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time) {
        true => Ok(time),
        false => Err("not between 100ms and 1h".into()),
    }
}

/// An empty variable, as manifests write "none", counts as unset.
pub fn without_empty(command: Command) -> Command {
    command.mut_args(|arg| match arg.get_env().and_then(std::env::var_os) {
        Some(value) if value.is_empty() => arg.env(Resettable::Reset),
        _ => arg,
    })
}
