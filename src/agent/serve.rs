//! TLS and token files of the server: read off the runtime at the start and every few seconds. Secrets
//! are swapped by renaming a link, so contents are compared, not times.

use super::AgentError;
use crate::blocking;
use crate::clock::Clock;
use crate::config::{Config, Listen};
use crate::files::read_regular;
use crate::report::http::hosts::Hosts;
use crate::report::http::tls_auth::{TlsAuth, TlsFiles};
use crate::report::{AgentStats, http};
use crate::supervise::{self, Supervisor};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Interval between two reads of the files.
const EVERY: Duration = Duration::from_secs(10);

/// Time after which a read counts as failed.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The guard that the settings ask for, or why there can be none.
pub(super) async fn guard(config: &Config) -> Result<Arc<TlsAuth>, AgentError> {
    let serve = &config.serve;
    let files = TlsFiles {
        tls_cert: serve.tls_cert.clone(),
        tls_key: serve.tls_key.clone(),
        tls_client_ca: serve.tls_client_ca.clone(),
        token_file: serve.token_file.clone(),
    };
    if files == TlsFiles::default() {
        return Ok(Arc::default());
    }
    let opened = blocking::ask("serve-files", move || TlsAuth::open(files));
    let opened = tokio::time::timeout(TIMEOUT, opened).await.ok().flatten();
    let silent = || vec!["the files of [serve] do not answer".to_string()];
    let opened = opened.ok_or_else(silent).flatten();
    opened.map(Arc::new).map_err(AgentError::Serve)
}

/// Binds the address that the settings name.
pub(super) async fn listen(config: &Config) -> Result<TcpListener, AgentError> {
    let listen = &config.agent.listen;
    bind(listen, &listen.addresses()).await
}

async fn bind(listen: &Listen, addresses: &[SocketAddr]) -> Result<TcpListener, AgentError> {
    (TcpListener::bind(addresses).await).map_err(|error| AgentError::Listen(*listen, error))
}

/// Whether an agent that listens by the settings `before` could listen by those of `now`.
pub(super) async fn can_listen(before: &Config, now: &Config) -> Result<(), AgentError> {
    let (old, new) = (&before.agent.listen, &now.agent.listen);
    if old == new {
        return Ok(());
    }
    let mut addresses = new.addresses();
    // Its own port is in use until it has stopped; the address can be tried with another.
    let own_port =
        |address: &SocketAddr| old.addresses().iter().any(|of| of.port() == address.port());
    for address in addresses.iter_mut().filter(|address| own_port(address)) {
        address.set_port(0);
    }
    bind(new, &addresses).await.map(drop)
}

/// Longest resolv.conf read, in bytes.
const RESOLV_MAX: u64 = 64 << 10;

/// The names that clients may ask by.
pub(super) async fn hosts(config: &Config) -> Hosts {
    let read = || read_regular(Path::new("/etc/resolv.conf"), RESOLV_MAX);
    let read = tokio::time::timeout(TIMEOUT, blocking::ask("resolv", read)).await;
    let resolv = read.ok().flatten().and_then(Result::ok).unwrap_or_default();
    let resolv = String::from_utf8_lossy(&resolv);
    Hosts::new(&config.agent.node_name, &resolv, config.serve.hosts.clone())
}

/// Reloads the files for as long as the agent runs. One read at a time: a hung read is waited for.
pub(super) fn watch(guard: &Arc<TlsAuth>, supervisor: &Supervisor) {
    if !guard.has_files() {
        return;
    }
    let guard = Arc::clone(guard);
    supervisor.task(supervise::SERVE_FILES, move |task| {
        let guard = Arc::clone(&guard);
        async move {
            loop {
                task.beat();
                tokio::time::sleep(EVERY).await;
                let looked = Arc::clone(&guard);
                let look = blocking::ask("serve-files", move || looked.reload());
                tokio::pin!(look);
                if tokio::time::timeout(TIMEOUT, &mut look).await.is_err() {
                    guard.count_failure();
                    tracing::warn!(
                        "TLS and token files could not be read in time; the last good ones stay in use"
                    );
                    let _ = look.await;
                }
            }
        }
    });
}

/// Serves until `stop` becomes true.
pub(super) fn start(
    listener: TcpListener,
    state: Arc<impl http::Answers>,
    stop: watch::Receiver<bool>,
    supervisor: &Supervisor,
) {
    // Begun again after a panic, it accepts from the same socket.
    let listener = listener.into_std();
    supervisor.task(supervise::HTTP, move |task| {
        let listener = listener.as_ref().map_err(|error| error.kind().into());
        let listener = listener.and_then(std::net::TcpListener::try_clone);
        let (state, stop) = (Arc::clone(&state), super::stopped(stop.clone()));
        async move {
            let listener = TcpListener::from_std(listener?)?;
            task.beating(http::serve(listener, state, stop)).await;
            Ok(())
        }
    });
}

/// Logs that the agent serves, and warns about settings that are allowed but hardly intended.
pub(super) fn announce(listener: &TcpListener, config: &Config, guard: &TlsAuth) {
    let Ok(address) = listener.local_addr() else {
        return;
    };
    let root = config.agent.host_root.display();
    let (access, node) = (guard.access(), &config.agent.node_name);
    let tls = access.tls.is_some();
    tracing::info!(%address, tls, %root, %node, "serving metrics, report and status page");
    let address = address.ip();
    if access.has_tokens() && !tls && !address.is_loopback() {
        tracing::warn!(
            "serve.token_file is set without serve.tls_cert: tokens cross the network unencrypted"
        );
    }
    let now = jiff::Timestamp::now().as_second();
    if access.expires.is_some_and(|end| end <= now) {
        tracing::warn!("serve.tls_cert has expired");
    }
}

/// The process's own metrics at a scrape. `clock`: the one that reports are made by, once it is known;
/// a directory tree has a time of its own.
pub(super) fn stats(
    guard: Arc<TlsAuth>,
    supervisor: Supervisor,
    clock: Arc<OnceLock<Clock>>,
) -> impl Fn() -> AgentStats + Send + Sync {
    let has_files = guard.has_files();
    let task = |task: &supervise::TaskStatus| (task.name, task.up, task.panics);
    move || AgentStats {
        now: Some(clock.get().map_or_else(crate::clock::monotonic, Clock::now)),
        certificate_expires: guard.access().expires,
        reload_failures: has_files.then(|| guard.reload_failures()),
        tasks: Vec::from_iter(supervisor.status().iter().map(task)),
        hangs: supervisor.unhealthy(),
        ..crate::clock::process_stats()
    }
}
