//! `selvage sidecar`: flags and environment.

use crate::config::listen::Listen;
use crate::sidecar::Settings;
use crate::units::Span;
use clap::Args;
use clap::builder::FalseyValueParser;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Directory of NCCL_DEBUG_FILE: HOST.PID.log, or CONTAINER.HOST.PID.log
    #[arg(long, env = "SELVAGE_SIDECAR_DIR", value_name = "DIR")]
    #[arg(default_value = "/var/log/nccl")]
    dir: PathBuf,
    /// Address to serve /metrics on; none: do not serve
    #[arg(long, env = "SELVAGE_LISTEN", value_name = "ADDRESS:PORT")]
    #[arg(default_value = ":9950")]
    listen: String,
    /// End once the job is done (not needed in a native sidecar): a file DIR/done exists, or the pod
    /// shares its PID namespace and every process that wrote a log has ended
    #[arg(long, env = "SELVAGE_SIDECAR_EXIT_WHEN_DONE", value_parser = FalseyValueParser::new())]
    exit_when_done: bool,
    /// Report an NCCL init that takes longer as hanging
    #[arg(long, env = "SELVAGE_SIDECAR_INIT_HANG_AFTER", value_name = "SPAN")]
    #[arg(default_value = "5m")]
    init_hang_after: Span,
    /// Namespace label of its series; empty: left to the scraper
    #[arg(long, env = "SELVAGE_POD_NAMESPACE", value_name = "NAME")]
    #[arg(default_value = "")]
    namespace: String,
    /// Pod label of its series; empty: left to the scraper
    #[arg(long, env = "SELVAGE_POD_NAME", value_name = "NAME")]
    #[arg(default_value = "")]
    pod: String,
    /// Container label, for files whose names do not tell their container
    #[arg(long, env = "SELVAGE_CONTAINER", value_name = "NAME")]
    #[arg(default_value = "")]
    container: String,
}

/// Settings from the command line and the environment.
///
/// # Errors
/// The invalid value, and why.
pub(super) fn settings(given: Arguments) -> Result<Settings, String> {
    let listen = match given.listen.as_str() {
        "none" | "off" => None,
        address => Some(
            (address.parse::<Listen>())
                .map_err(|why| format!("--listen {address}: {why}"))?
                .addresses(),
        ),
    };
    Ok(Settings {
        dir: given.dir,
        listen,
        exit_when_done: given.exit_when_done,
        hang_after: given.init_hang_after.0,
        namespace: given.namespace,
        pod: given.pod,
        container: given.container,
    })
}
