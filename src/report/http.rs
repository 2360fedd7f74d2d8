//! The HTTP server: read-only routes off the latest report, HTTP/1 only, plain or over TLS.
//! Bounded in connections, header size, header time and write time, so that no client can hold it
//! up.

use super::json;
use super::metrics::{self, AgentStats};
use super::page::{self, Refresh};
use super::runbooks::{self, Asked};
use super::{ClusterStatus, Report};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::socket::{setsockopt, sockopt};
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tls_auth::TlsAuth;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::server::TlsStream;

mod auth;
mod tls;
pub mod tls_auth;
mod x509;

/// Content type of the Prometheus text format.
pub const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// How long answers under way may take once the server is asked to stop.
const DRAIN: Duration = Duration::from_secs(1);

/// Pause after a failed accept (out of descriptors), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Bounds on what clients can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open connections. At the bound the one that has been idle longest makes room.
    pub connections: usize,
    /// Time for a request's header, and for a TLS handshake before it; also how long a connection
    /// may be idle.
    pub header_timeout: Duration,
    /// Time for which a client may read nothing of an answer.
    pub write_timeout: Duration,
    /// Size of a request's header, in bytes.
    pub header_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 64,
            header_timeout: Duration::from_secs(5),
            write_timeout: Duration::from_secs(5),
            header_bytes: 16 * 1024,
        }
    }
}

/// An answer with its whole body.
pub type Answer = Response<Full<Bytes>>;

/// What a server answers, and how it is guarded.
pub trait Answers: Send + Sync + 'static {
    /// The answer to one request; the body of a HEAD request's answer is left unsent by hyper.
    fn answer(&self, request: &Request<Incoming>, client: &[CertificateDer<'_>]) -> Answer;
    /// Bounds on what clients can take.
    fn limits(&self) -> Limits;
    /// TLS and who may ask.
    fn guard(&self) -> &TlsAuth;
}

/// What the agent's server answers from.
pub struct ServeState<S> {
    /// The latest report.
    pub reports: watch::Receiver<Arc<Report>>,
    /// What the writer of the Node has done; `None` where nothing writes it.
    pub cluster: watch::Receiver<Option<Arc<ClusterStatus>>>,
    /// Asked at each scrape; must not block.
    pub stats: S,
    /// Choices of the metrics.
    pub options: metrics::Options,
    /// Bounds on what clients can take.
    pub limits: Limits,
    /// TLS and authentication; the default is plain HTTP for all.
    pub guard: Arc<TlsAuth>,
}

impl<S: Fn() -> AgentStats + Send + Sync + 'static> Answers for ServeState<S> {
    fn answer(&self, request: &Request<Incoming>, client: &[CertificateDer<'_>]) -> Answer {
        let path = request.uri().path();
        let route = match path {
            "/metrics" | "/report" | "/healthz" | "/readyz" | "/" | "/paused" => path,
            _ if runbooks::at(path).is_some() => path,
            _ => return plain(StatusCode::NOT_FOUND, "not found\n"),
        };
        if !auth::is_open(route)
            && let Some(refusal) = self.guard.access().refusal(request.headers(), client)
        {
            return refusal;
        }
        if let Some(refusal) = not_a_read(request.method()) {
            return refusal;
        }
        // The channels' guards are dropped at once: no writer ever waits for an encoding.
        let report = Arc::clone(&self.reports.borrow());
        let report = &*report;
        let cluster = self.cluster.borrow().clone();
        let cluster = cluster.as_deref();
        match route {
            "/metrics" => {
                let text = metrics::encode(report, cluster, &(self.stats)(), self.options);
                respond(StatusCode::OK, METRICS_TYPE, text.into())
            }
            "/report" => {
                let body = json::encode(report, cluster).into();
                respond(StatusCode::OK, "application/json", body)
            }
            "/healthz" => match (self.stats)().hangs {
                None => plain(StatusCode::OK, "ok\n"),
                Some(task) => {
                    let text = format!("task {task} makes no progress\n");
                    respond(StatusCode::SERVICE_UNAVAILABLE, TEXT_TYPE, text.into())
                }
            },
            "/readyz" if report.full_window => plain(StatusCode::OK, "first full window seen\n"),
            "/readyz" => plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "the first full window has not been seen\n",
            ),
            "/paused" => html(page::encode(report, cluster, Refresh::Off).into()),
            "/" => {
                let mut response = html(page::encode(report, cluster, Refresh::On).into());
                let again = HeaderValue::from(u16::from(page::refresh_seconds(report)));
                response.headers_mut().insert(header::REFRESH, again);
                response
            }
            _ => match runbooks::at(route) {
                Some(Asked::Html(book)) => html(page::runbook(&book).into()),
                Some(Asked::Plain(text)) => plain(StatusCode::OK, text),
                None => plain(StatusCode::NOT_FOUND, "not found\n"),
            },
        }
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn guard(&self) -> &TlsAuth {
        &self.guard
    }
}

/// The refusal of a request that would change something: there is nothing to change.
pub fn not_a_read(method: &Method) -> Option<Answer> {
    if method == Method::GET || method == Method::HEAD {
        return None;
    }
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only\n");
    let allow = HeaderValue::from_static("GET, HEAD");
    response.headers_mut().insert(header::ALLOW, allow);
    Some(response)
}

/// An answer in plain text.
pub fn plain(status: StatusCode, text: &'static str) -> Answer {
    respond(status, TEXT_TYPE, Bytes::from_static(text.as_bytes()))
}

/// A page, which may do nothing but show itself.
fn html(body: Bytes) -> Answer {
    let mut response = respond(StatusCode::OK, "text/html; charset=utf-8", body);
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, page::POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// An answer of a content type.
pub fn respond(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// An open connection as the accept loop sees it: its task, and the turn of its last request (or of
/// its accept).
type Open = (AbortHandle, Arc<AtomicU64>);

/// Serves until `shutdown` is done; then answers under way are finished, for a second at most.
pub async fn serve(
    listener: TcpListener,
    state: Arc<impl Answers>,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    let (stop, stopping) = watch::channel(false);
    let turns = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let mut open: Vec<Open> = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {
                open.retain(|(task, _)| !task.is_finished());
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    make_room(&mut open, state.limits().connections);
                    let active: Arc<AtomicU64> = Arc::default();
                    let tick = {
                        let (turns, active) = (Arc::clone(&turns), Arc::clone(&active));
                        move || active.store(turns.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed)
                    };
                    tick();
                    let task = tasks.spawn(connection(stream, Arc::clone(&state), tick, stopping.clone()));
                    open.push((task, active));
                    // In a burst of connections, each gets to read its request before the next may
                    // push it out.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    tracing::debug!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    // Fails where no connection is open, which is fine.
    let _ = stop.send(true);
    let drained = tokio::time::timeout(DRAIN, async { while tasks.join_next().await.is_some() {} });
    if drained.await.is_err() {
        tracing::debug!(left = tasks.len(), "connections cut at shutdown");
    }
}

/// Ends the connection that has been idle longest, if there are too many for one more.
fn make_room(open: &mut Vec<Open>, most: usize) {
    let turn = |(_, (_, active)): &(usize, &Open)| active.load(Ordering::Relaxed);
    let idlest = open.iter().enumerate().min_by_key(turn);
    if let Some((at, _)) = idlest.filter(|_| open.len() >= most) {
        open.swap_remove(at).0.abort();
    }
}

/// Serves one connection; `tick` is called whenever it is active.
async fn connection(
    stream: TcpStream,
    state: Arc<impl Answers>,
    tick: impl Fn(),
    mut stopping: watch::Receiver<bool>,
) {
    let limits = state.limits();
    // Without it, Nagle's algorithm may hold the last segment of an answer; it only costs time.
    let _ = stream.set_nodelay(true);
    // The kernel ends the connection of a client that reads nothing of an answer.
    let patience = u32::try_from(limits.write_timeout.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = setsockopt(&stream, sockopt::TcpUserTimeout, &patience) {
        tracing::debug!(%error, "time for writes to a connection could not be bounded");
    }
    let Some(config) = state.guard().access().tls else {
        return requests(stream, Vec::new(), state, tick, stopping).await;
    };
    let shaken = tokio::select! {
        shaken = handshake(stream, config, limits.header_timeout) => shaken,
        _ = stopping.changed() => return,
    };
    let Some(stream) = shaken else { return };
    tick();
    let (_, session) = stream.get_ref();
    let client = session.peer_certificates().unwrap_or_default().to_vec();
    requests(stream, client, state, tick, stopping).await;
}

/// The stream after a TLS handshake, if that succeeds within `patience`. Plain-HTTP clients get a TLS
/// alert and are disconnected.
async fn handshake(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    patience: Duration,
) -> Option<TlsStream<TcpStream>> {
    let accepting = TlsAcceptor::from(config).accept(stream);
    let accepted = tokio::time::timeout(patience, accepting).await;
    let shaken = accepted.map_err(io::Error::from).flatten();
    shaken
        .inspect_err(|error| tracing::debug!(%error, "TLS handshake failed"))
        .ok()
}

/// Answers a connection's requests; `client` is the certificate chain that it presented, if any.
async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    client: Vec<CertificateDer<'static>>,
    state: Arc<impl Answers>,
    tick: impl Fn(),
    mut stopping: watch::Receiver<bool>,
) {
    let limits = state.limits();
    let service = service_fn(|request: Request<Incoming>| {
        tick();
        let response = state.answer(&request, &client);
        async { Ok::<_, Infallible>(response) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        _ = stopping.changed() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        // A client that vanishes or sends nonsense is not the agent's fault.
        tracing::debug!(%error, "connection ended");
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_auth_tests;
#[cfg(test)]
mod tls_tests;
