//! Runs next to a training container: follows its NCCL log files, serves metrics, prints each change
//! of verdict as a JSON line.

mod files;
mod processes;
mod serve;

use crate::check::nccl::{JobContext, NcclVerdict, judge};
use crate::observe::ContainerKey;
use crate::report::object;
use crate::source::nccl::anchor::VERDICT_SCHEMA;
use crate::units::Span;
use clap::Args;
use clap::builder::FalseyValueParser;
use files::Files;
use serve::SidecarPage;
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

/// Longest pause between polls, which is also how soon a shutdown is noticed.
const WAIT: Duration = Duration::from_millis(250);

/// Shortest time between two lines about one container for counts alone.
const COUNTS: Duration = Duration::from_secs(15);

/// Most polls at the end, of some MiB each.
const LAST_POLLS: usize = 16;

/// With `exit_when_done`: how long all processes of the job must be gone.
const GONE: Duration = Duration::from_secs(10);

/// Settings from the command line and the environment, in the words of `--help`.
#[derive(Debug, Args)]
pub struct SidecarSettings {
    /// Directory of NCCL_DEBUG_FILE: HOST.PID.log, or CONTAINER.HOST.PID.log
    #[arg(long, env = "SELVAGE_SIDECAR_DIR", value_name = "DIR")]
    #[arg(default_value = "/var/log/nccl")]
    dir: PathBuf,
    /// Address to serve /metrics on; none: do not serve
    #[arg(long, env = "SELVAGE_LISTEN", value_name = "ADDRESS:PORT")]
    #[arg(default_value = ":9950")]
    pub listen: String,
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

/// Runs until `shutdown`, or until the job is done if that is wanted. `listen`: addresses to serve on.
///
/// # Errors
/// The address is not available, or standard output is closed.
pub async fn run(
    settings: SidecarSettings,
    listen: Option<Vec<SocketAddr>>,
    mut out: impl Write + Send + 'static,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (page_tx, page_rx) = watch::channel(Arc::new(SidecarPage::default()));
    if let Some(addresses) = listen {
        let bound = TcpListener::bind(addresses.as_slice()).await;
        let listener = bound.map_err(|error| {
            let hint = "--listen names another address, or none";
            io::Error::other(format!("cannot listen: {error}; {hint}"))
        })?;
        serve::start(listener, page_rx);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    let mut reader = tokio::task::spawn_blocking(move || {
        let mut sidecar = Sidecar {
            files: Files::new(&settings.dir, &settings.container),
            printed: BTreeMap::new(),
            page: SidecarPage::default(),
            last_seen: None,
            settings,
        };
        while !stopping.load(Ordering::Relaxed) {
            let (more, done) = sidecar.step(&mut out)?;
            page_tx.send_replace(Arc::new(sidecar.page.clone()));
            if done {
                break;
            }
            if !more {
                sidecar.files.follower.wait(WAIT);
            }
        }
        sidecar.print_rest(&mut out)
    });
    let ended = tokio::select! {
        () = shutdown => {
            stop.store(true, Ordering::Relaxed);
            (&mut reader).await
        }
        ended = &mut reader => ended,
    };
    ended.unwrap_or_else(|bug| Err(io::Error::other(format!("following log files: {bug}"))))
}

struct Sidecar {
    settings: SidecarSettings,
    files: Files,
    /// The last verdict printed about each container, and when.
    printed: BTreeMap<String, (NcclVerdict, Instant)>,
    /// Current state: lines about counts alone wait, metrics do not.
    page: SidecarPage,
    /// When a process of the job was last seen.
    last_seen: Option<Instant>,
}

impl Sidecar {
    /// One poll: whether there is more to read, and whether the job is done.
    fn step(&mut self, out: &mut impl Write) -> io::Result<(bool, bool)> {
        let wall = jiff::Timestamp::now();
        let (stats, fault) = self.files.poll(crate::clock::monotonic(), Some(wall));
        self.page.bytes += stats.bytes;
        if fault != self.page.fault {
            if let Some(fault) = &fault {
                crate::report::text::complain(fault);
            }
            self.page.fault = fault;
        }
        self.print_changes(out, wall, false)?;
        let done = self.settings.exit_when_done && self.is_done();
        Ok((stats.behind > 0, done))
    }

    fn print_changes(
        &mut self,
        out: &mut impl Write,
        wall: jiff::Timestamp,
        last: bool,
    ) -> io::Result<()> {
        let context = JobContext {
            now: Some((wall, self.settings.init_hang_after.0)),
            ..JobContext::default()
        };
        let now = Instant::now();
        for (container, log) in self.files.logs() {
            if !log.is_nccl() {
                continue;
            }
            let verdict = judge(log, &context);
            let key = ContainerKey {
                namespace: self.settings.namespace.clone(),
                pod: self.settings.pod.clone(),
                uid: String::new(),
                container: container.clone(),
            };
            self.page.containers.insert(key, verdict.clone());
            let due = self.printed.get(container).is_none_or(|(printed, at)| {
                differ(printed, &verdict) || *printed != verdict && (last || now - *at >= COUNTS)
            });
            if !due {
                continue;
            }
            // The node agent reads it from the container's log.
            let line = object! {
                schema: VERDICT_SCHEMA,
                time: wall.to_string(),
                container: container,
                verdict: &verdict,
            };
            let text = serde_json::to_string(&line).unwrap_or_default();
            let written = writeln!(out, "{text}").and_then(|()| out.flush());
            written.map_err(|error| io::Error::other(format!("writing output: {error}")))?;
            self.printed.insert(container.clone(), (verdict, now));
        }
        Ok(())
    }

    /// What was written up to now, within limits: the end of the pod does not wait.
    fn print_rest(&mut self, out: &mut impl Write) -> io::Result<()> {
        let wall = jiff::Timestamp::now();
        for _ in 0..LAST_POLLS {
            let (stats, _) = self.files.poll(crate::clock::monotonic(), Some(wall));
            if stats.behind == 0 {
                break;
            }
        }
        self.files.finish();
        self.print_changes(out, wall, true)
    }

    /// A file `done` says so; or the pod's processes are visible (shareProcessNamespace), and none of
    /// those that wrote a log has been there for a while.
    fn is_done(&mut self) -> bool {
        if self.files.is_done() {
            return true;
        }
        let pids = self.files.pids();
        if pids.is_empty() || !processes::are_shared() {
            return false;
        }
        let now = Instant::now();
        if self.last_seen.is_none() || pids.into_iter().any(processes::is_alive) {
            self.last_seen = Some(now);
        }
        self.last_seen.is_some_and(|seen| now - seen >= GONE)
    }
}

/// Whether two verdicts differ in more than counts.
fn differ(a: &NcclVerdict, b: &NcclVerdict) -> bool {
    let without_counts = |verdict: &NcclVerdict| {
        let states = (verdict.gdrdma, verdict.multi_node, verdict.init_complete);
        let hangs = verdict.init_hangs_since.is_some();
        let causes = verdict.causes.clone();
        (verdict.network, verdict.tcp_fallback, states, causes, hangs)
    };
    without_counts(a) != without_counts(b)
}
