//! The metrics as a file that node_exporter's textfile collector reads.

use crate::blocking;
use crate::files::replace;
use crate::report::{AgentStats, http};
use crate::supervise::{self, Supervisor};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Prometheus asks node_exporter every 15 s or less often.
const EVERY: Duration = Duration::from_secs(10);

/// Writes the file until `stop` becomes true, then removes it: an agent that has ended says nothing of the
/// node.
pub(super) fn start<S: Fn() -> AgentStats + Send + Sync + 'static>(
    path: PathBuf,
    serve: &Arc<http::ServeState<S>>,
    stop: watch::Receiver<bool>,
    supervisor: &Supervisor,
) {
    let serve = Arc::clone(serve);
    supervisor.task(supervise::TEXTFILE, move |task| {
        let (path, serve) = (path.clone(), Arc::clone(&serve));
        let stop = super::stopped(stop.clone());
        async move {
            let mut stop = std::pin::pin!(stop);
            let mut logged = None;
            loop {
                let (to, text) = (path.clone(), without_process(&serve.metrics()));
                // node_exporter runs as a user of its own.
                let write = move || {
                    replace(&to, text.as_bytes(), Some(0o644)).map_err(|error| error.to_string())
                };
                let failed = blocking::ask("textfile", write).await.and_then(Result::err);
                if let Some(error) = failed.as_ref().filter(|_| failed != logged) {
                    let path = path.display();
                    tracing::warn!(%path, %error, "cannot write the metrics; trying again");
                }
                logged = failed;
                task.beat();
                tokio::select! {
                    () = &mut stop => break,
                    () = tokio::time::sleep(EVERY) => {}
                }
            }
            let _ = blocking::ask("textfile", move || std::fs::remove_file(path)).await;
            Ok(())
        }
    });
}

/// node_exporter has `process_*` of its own, and refuses two of a name.
fn without_process(text: &str) -> String {
    let is_own = |line: &&str| {
        let help = line.strip_prefix("# HELP ");
        let name = help.or_else(|| line.strip_prefix("# TYPE "));
        !name.unwrap_or(line).starts_with("process_")
    };
    text.split_inclusive('\n').filter(is_own).collect()
}
