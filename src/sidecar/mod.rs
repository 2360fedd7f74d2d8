//! Beside a training container: follows its NCCL log files, serves metrics, prints each change of
//! verdict as a JSON line.

mod files;
mod serve;
mod wake;

use crate::check::nccl::{Beside, NcclVerdict, judge};
use crate::source::nccl::anchor::VERDICT_SCHEMA;
use files::Files;
use serde::Serialize;
use serve::Page;
pub use serve::Scrape;
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use wake::Wakes;

/// Longest time between looks: what inotify does not tell is found by then.
const LOOK: Duration = Duration::from_secs(1);

/// Shortest time between two lines about one container for counts alone.
const COUNTS: Duration = Duration::from_secs(15);

/// Looks at the end, of some MiB a file each.
const LAST_LOOKS: usize = 16;

/// With `exit_when_done`: how long no process of the job is seen before that is believed.
const GONE: Duration = Duration::from_secs(10);

/// What the sidecar is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Directory of the log files.
    pub dir: PathBuf,
    /// Addresses to serve on; none: nowhere.
    pub listen: Option<Vec<std::net::SocketAddr>>,
    /// Ends once the job is done.
    pub exit_when_done: bool,
    /// An init that takes longer hangs.
    pub hang_after: Duration,
    /// Labels of its series, where the environment tells them.
    pub namespace: String,
    /// …
    pub pod: String,
    /// …, for files whose names tell none.
    pub container: String,
}

/// What stops a sidecar.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// The address cannot be had.
    #[error("cannot listen: {0}; --listen names another address, or none")]
    Listen(io::Error),
    /// Standard output is closed.
    #[error("writing output: {0}")]
    Write(io::Error),
}

/// A line on standard output; the node agent takes it from the container's log.
#[derive(Debug, Serialize)]
struct TellLine<'a> {
    schema: &'static str,
    time: String,
    container: &'a str,
    verdict: &'a NcclVerdict,
}

/// Runs until `shutdown`, or until the job is done if that is asked for.
///
/// # Errors
/// [`SidecarError`].
pub async fn run(
    settings: Settings,
    mut out: impl Write,
    shutdown: impl Future<Output = ()>,
) -> Result<(), SidecarError> {
    let (page_tx, page_rx) = watch::channel(Arc::new(Page::default()));
    let (stop_tx, stop_rx) = watch::channel(false);
    if let Some(addresses) = &settings.listen {
        let listener = TcpListener::bind(addresses.as_slice())
            .await
            .map_err(SidecarError::Listen)?;
        serve::start(listener, page_rx, stop_rx);
    }
    let (wake_tx, mut wake_rx) = mpsc::channel(1);
    let _wakes = Wakes::start(&settings.dir, wake_tx);
    let mut sidecar = Sidecar {
        files: Files::new(&settings.dir, &settings.container),
        told: BTreeMap::new(),
        current: BTreeMap::new(),
        seen: None,
        bytes: 0,
        fault: None,
        settings,
    };
    tokio::pin!(shutdown);
    loop {
        let (more, done) = sidecar.step(&mut out)?;
        page_tx.send_replace(Arc::new(sidecar.page()));
        if done {
            break;
        }
        if more {
            // Whoever asks is answered, and who stops is heard, however much there is.
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                () = tokio::task::yield_now() => continue,
            }
        }
        tokio::select! {
            () = &mut shutdown => break,
            Some(()) = wake_rx.recv() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    sidecar.last_words(&mut out)?;
    let _ = stop_tx.send(true);
    Ok(())
}

struct Sidecar {
    settings: Settings,
    files: Files,
    /// What was last told of each container, and when.
    told: BTreeMap<String, (NcclVerdict, Instant)>,
    /// What is so of each now: lines about counts alone wait, metrics do not.
    current: BTreeMap<String, NcclVerdict>,
    /// When a process of the job was last seen.
    seen: Option<Instant>,
    bytes: u64,
    fault: Option<String>,
}

impl Sidecar {
    /// One look: whether more is there at once, and whether the job is done.
    fn step(&mut self, out: &mut impl Write) -> Result<(bool, bool), SidecarError> {
        let wall = jiff::Timestamp::now();
        let look = self.files.look(Some(wall));
        self.bytes += look.bytes;
        if look.fault != self.fault {
            if let Some(fault) = &look.fault {
                super::cli::complain(fault);
            }
            self.fault = look.fault;
        }
        self.tell(out, wall, false)?;
        let done = self.settings.exit_when_done && self.is_done();
        Ok((look.more, done))
    }

    /// Prints what changed.
    fn tell(
        &mut self,
        out: &mut impl Write,
        wall: jiff::Timestamp,
        last: bool,
    ) -> Result<(), SidecarError> {
        let beside = Beside {
            now: Some((wall, self.settings.hang_after)),
            ..Beside::default()
        };
        let now = Instant::now();
        for (container, log) in self.files.logs() {
            if !log.is_nccl() {
                continue;
            }
            let verdict = judge(log, &beside);
            self.current.insert(container.clone(), verdict.clone());
            let due = self.told.get(container).is_none_or(|(told, at)| {
                differs(told, &verdict) || *told != verdict && (last || now - *at >= COUNTS)
            });
            if !due {
                continue;
            }
            let line = TellLine {
                schema: VERDICT_SCHEMA,
                time: wall.to_string(),
                container,
                verdict: &verdict,
            };
            let mut text = serde_json::to_string(&line).unwrap_or_default();
            text.push('\n');
            out.write_all(text.as_bytes())
                .and_then(|()| out.flush())
                .map_err(SidecarError::Write)?;
            self.told.insert(container.clone(), (verdict, now));
        }
        Ok(())
    }

    /// What was written up to the end.
    fn last_words(&mut self, out: &mut impl Write) -> Result<(), SidecarError> {
        let wall = jiff::Timestamp::now();
        // What was written up to now, within reason: the pod's end does not wait for ever.
        for _ in 0..LAST_LOOKS {
            if !self.files.look(Some(wall)).more {
                break;
            }
        }
        self.files.finish();
        self.tell(out, wall, true)
    }

    /// Somebody says so by a file `done`; or the pod's processes are visible (shareProcessNamespace),
    /// and none of those that wrote a log has been there for a while.
    fn is_done(&mut self) -> bool {
        if self.files.done() {
            return true;
        }
        let pids = self.files.pids();
        if pids.is_empty() || !wake::shares_processes() {
            return false;
        }
        let now = Instant::now();
        if self.seen.is_none() || pids.iter().any(|pid| wake::is_alive(*pid)) {
            self.seen = Some(now);
        }
        self.seen.is_some_and(|seen| now - seen >= GONE)
    }

    fn page(&self) -> Page {
        let containers = self.current.iter().map(|(container, verdict)| Scrape {
            namespace: self.settings.namespace.clone(),
            pod: self.settings.pod.clone(),
            container: container.clone(),
            verdict: verdict.clone(),
        });
        Page {
            containers: containers.collect(),
            bytes: self.bytes,
            fault: self.fault.clone(),
        }
    }
}

/// Whether two verdicts differ in more than counts.
fn differs(a: &NcclVerdict, b: &NcclVerdict) -> bool {
    let key = |verdict: &NcclVerdict| {
        (
            verdict.network,
            verdict.tcp_fallback,
            verdict.gdrdma,
            verdict.multi_node,
            verdict.init_complete,
            verdict.causes.clone(),
            verdict.init_hangs_since.is_some(),
        )
    };
    key(a) != key(b)
}

#[cfg(test)]
mod tests;
