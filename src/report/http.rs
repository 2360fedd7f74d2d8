//! The HTTP server: read-only routes off the latest report, HTTP/1 only, plain or over TLS.
//! Bounded in connections, in all and for each client, header size, header time and write time, so
//! that no client can hold it up; one answer is made at a time, in turn, and probes wait for none.

use super::page::{self, Refresh};
use super::runbooks::{self, Asked};
use super::{AgentStats, ClusterStatus, Detail, Report, Style, json, metrics, text};
use crate::settings_macro::defaults;
use bytes::Bytes;
use hosts::Hosts;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::socket::{setsockopt, sockopt};
use std::cmp::Reverse;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tls_auth::{Access, TlsAuth};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::server::TlsStream;

mod auth;
pub mod exposition;
pub mod hosts;
#[cfg(fuzzing)]
mod testing;
mod tls;
pub mod tls_auth;
mod x509;

#[cfg(fuzzing)]
pub use testing::serve_stream;

const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// How long answers under way may take once the server is asked to stop.
const DRAIN: Duration = Duration::from_secs(1);

/// Pause after a failed accept (out of descriptors), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Shortest pause after an answer that is not a probe's, once the credit for such answers is spent.
const PAUSE: Duration = Duration::from_millis(1);

/// Most time that answers other than a probe's take without a pause.
const CREDIT: Duration = Duration::from_millis(50);

defaults! {
    /// Bounds on what clients can take.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    HttpLimits {
        /// Open connections. At the bound, of the client that has most, the one that has been idle
        /// longest makes room.
        connections: usize = 64,
        /// The same from one address.
        per_address: usize = 16,
        /// Time for a request's header, and for a TLS handshake before it; also how long a connection
        /// may be idle.
        header_timeout: Duration = Duration::from_secs(5),
        /// Time for which a client may read nothing of an answer.
        write_timeout: Duration = Duration::from_secs(5),
        /// Size of a request's header, in bytes.
        header_bytes: usize = 16 * 1024,
    }
}

/// An answer with its whole body.
pub type Answer = Response<Full<Bytes>>;

/// The peer of a connection.
#[derive(Debug)]
pub struct Peer {
    /// The address that it connects from.
    pub address: IpAddr,
    /// The certificate chain that it presented, if any.
    pub chain: Vec<CertificateDer<'static>>,
}

/// What a server answers, and how it is guarded.
pub trait Answers: Send + Sync + 'static {
    /// The answer to one request; the body of a HEAD request's answer is left unsent by hyper.
    fn answer(&self, request: &Request<Incoming>, client: &Peer) -> Answer;
    /// Bounds on what clients can take.
    fn limits(&self) -> HttpLimits;
    /// TLS and who may ask, as of now; by default everybody, over plain HTTP.
    fn access(&self) -> Access {
        Access::default()
    }
}

/// What the agent's server answers from.
pub struct ServeState<S> {
    /// The latest report.
    pub reports: watch::Receiver<Arc<Report>>,
    /// What the writer of the Node has done; `None` where nothing writes it.
    pub cluster: watch::Receiver<Option<Arc<ClusterStatus>>>,
    /// Metrics of the latest report that was scraped.
    pub rendered: exposition::Rendered,
    /// Asked at each scrape; must not block.
    pub stats: S,
    /// How much the metrics tell.
    pub detail: Detail,
    /// Bounds on what clients can take.
    pub limits: HttpLimits,
    /// TLS and authentication; the default is plain HTTP for all.
    pub guard: Arc<TlsAuth>,
    /// The names that requests may be meant for.
    pub hosts: Hosts,
}

impl<S: Fn() -> AgentStats + Send + Sync + 'static> Answers for ServeState<S> {
    fn answer(&self, request: &Request<Incoming>, client: &Peer) -> Answer {
        let path = request.uri().path();
        let route = match path {
            "/metrics" | "/report" | "/healthz" | "/readyz" | "/" | "/paused" => path,
            _ if runbooks::at(path).is_some() => path,
            _ => return plain(StatusCode::NOT_FOUND, "not found\n"),
        };
        let access = self.guard.access();
        if let Some(refusal) = self.refusal(route, request, client, &access) {
            return refusal;
        }
        // The channels' guards are dropped at once: no writer ever waits for an encoding.
        let report = self.report_for(route, client, &access);
        let report = &*report;
        let cluster = self.cluster.borrow().clone();
        let cluster = cluster.as_deref();
        match route {
            "/metrics" => exposition::answer(self.metrics(), request.headers()),
            "/report" => {
                let query = request.uri().query().unwrap_or_default();
                let (kind, body) = match Style::from_query(query) {
                    Some(style) => (TEXT_TYPE, text::encode(report, style)),
                    None => ("application/json", json::encode(report, cluster)),
                };
                respond(StatusCode::OK, kind, body.into())
            }
            "/healthz" => match (self.stats)().hangs {
                None => plain(StatusCode::OK, "ok\n"),
                Some(task) => {
                    let text = format!("task {task} makes no progress\n");
                    respond(UNAVAILABLE, TEXT_TYPE, text.into())
                }
            },
            "/readyz" if report.full_window => plain(StatusCode::OK, "first full window seen\n"),
            "/readyz" => plain(UNAVAILABLE, "the first full window has not been seen\n"),
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

    fn limits(&self) -> HttpLimits {
        self.limits
    }

    fn access(&self) -> Access {
        self.guard.access()
    }
}

impl<S: Fn() -> AgentStats> ServeState<S> {
    /// The exposition of `/metrics`.
    pub fn metrics(&self) -> String {
        // The channels' guards are dropped at once: no writer ever waits for an encoding.
        let report = Arc::clone(&self.reports.borrow());
        let cluster = self.cluster.borrow().clone();
        let mut text = self.rendered.text(&report, cluster, self.detail);
        text += &metrics::encode_scrape(&report, &(self.stats)(), self.detail);
        text
    }

    /// Why a request is not answered. Probes are open to every client.
    fn refusal(
        &self,
        route: &str,
        request: &Request<Incoming>,
        client: &Peer,
        access: &Access,
    ) -> Option<Answer> {
        let (uri, headers) = (request.uri(), request.headers());
        // Runbooks are the same everywhere.
        let hosts = Some(&self.hosts).filter(|_| runbooks::at(route).is_none());
        let host = || hosts.and_then(|hosts| hosts.refusal(uri, headers, client.address));
        let barred = match auth::is_open(route) {
            true => None,
            false => host().or_else(|| access.refusal(headers, &client.chain)),
        };
        barred.or_else(|| not_a_read(request.method()))
    }

    /// The latest report, as far as it is the client's business.
    fn report_for(&self, route: &str, client: &Peer, access: &Access) -> Arc<Report> {
        let report = Arc::clone(&self.reports.borrow());
        let trusted = access.is_guarded() || client.address.is_loopback();
        match route {
            "/report" | "/" | "/paused" if !trusted => Arc::new(report.without_tenants()),
            _ => report,
        }
    }
}

/// The refusal of a request that would change something: there is nothing to change.
pub fn not_a_read(method: &Method) -> Option<Answer> {
    if method == Method::GET || method == Method::HEAD {
        return None;
    }
    let response = plain(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only\n");
    Some(with(response, header::ALLOW, "GET, HEAD"))
}

/// An answer in plain text.
pub fn plain(status: StatusCode, text: &'static str) -> Answer {
    respond(status, TEXT_TYPE, Bytes::from_static(text.as_bytes()))
}

/// A page, which may do nothing but show itself.
fn html(body: Bytes) -> Answer {
    let response = respond(StatusCode::OK, "text/html; charset=utf-8", body);
    let response = with(response, header::CONTENT_SECURITY_POLICY, page::POLICY);
    with(response, header::REFERRER_POLICY, "no-referrer")
}

/// An answer of a content type.
pub fn respond(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let response = with(response, header::CONTENT_TYPE, kind);
    let response = with(response, header::CACHE_CONTROL, "no-store");
    with(response, header::X_CONTENT_TYPE_OPTIONS, "nosniff")
}

/// The answer with a further header.
fn with(mut answer: Answer, name: HeaderName, value: &'static str) -> Answer {
    let value = HeaderValue::from_static(value);
    answer.headers_mut().insert(name, value);
    answer
}

/// An open connection as the accept loop sees it.
struct OpenConnection {
    task: AbortHandle,
    /// The turn of its last request, or of its accept.
    active: Arc<AtomicU64>,
    address: IpAddr,
}

/// Serves until `shutdown` is done; then answers under way are finished, for a second at most.
pub async fn serve(
    listener: TcpListener,
    state: Arc<impl Answers>,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    let (stop, stopping) = watch::channel(false);
    let turns = Arc::new(AtomicU64::new(0));
    let answer_credit = Arc::new(Mutex::new(Credit::full(Instant::now())));
    let mut tasks = JoinSet::new();
    let mut open: Vec<OpenConnection> = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {
                open.retain(|one| !one.task.is_finished());
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let address = peer.ip().to_canonical();
                    make_room(&mut open, address, state.limits());
                    let active: Arc<AtomicU64> = Arc::default();
                    let tick = {
                        let (turns, active) = (Arc::clone(&turns), Arc::clone(&active));
                        move || active.store(turns.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed)
                    };
                    tick();
                    let served = Served {
                        state: Arc::clone(&state),
                        answering: Arc::clone(&answer_credit),
                        stopping: stopping.clone(),
                        tick,
                    };
                    let task = tasks.spawn(served.connection(stream, address));
                    open.push(OpenConnection { task, active, address });
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

/// Ends a connection if there are too many for one more, in all or from its address: of the address that
/// has most, the one that has been idle longest.
fn make_room(open: &mut Vec<OpenConnection>, address: IpAddr, limits: HttpLimits) {
    let held = |address: IpAddr| open.iter().filter(|one| one.address == address).count();
    let crowded = held(address) >= limits.per_address;
    if !crowded && open.len() < limits.connections {
        return;
    }
    let candidates = open.iter().enumerate();
    let candidates = candidates.filter(|(_, one)| !crowded || one.address == address);
    let victim = candidates.max_by_key(|(_, one)| {
        let active = one.active.load(Ordering::Relaxed);
        (held(one.address), Reverse(active))
    });
    if let Some((at, _)) = victim {
        open.swap_remove(at).task.abort();
    }
}

/// Time that long answers may take before they must pause: it grows half as fast as time passes, so that
/// probes, the agent itself and new connections have half of it.
struct Credit {
    left: Duration,
    counted: Instant,
}

impl Credit {
    fn full(now: Instant) -> Self {
        let (left, counted) = (CREDIT, now);
        Credit { left, counted }
    }

    /// Takes off an answer that was made from `began` to `now`; gives how long to pause before the next
    /// one where the credit is spent.
    fn spend(&mut self, began: Instant, now: Instant) -> Option<Duration> {
        let took = now - began;
        let gained = (now - self.counted) / 2;
        let left = (self.left + gained).min(CREDIT).checked_sub(took);
        self.left = left.unwrap_or_default();
        self.counted = now;
        left.is_none().then_some(took.max(PAUSE))
    }
}

/// What a connection is served with.
struct Served<A, T> {
    state: Arc<A>,
    /// Held while a long answer is made.
    answering: Arc<Mutex<Credit>>,
    stopping: watch::Receiver<bool>,
    /// Called whenever it is active.
    tick: T,
}

impl<A: Answers, T: Fn() + Send + Sync> Served<A, T> {
    /// Serves one connection.
    async fn connection(mut self, stream: TcpStream, address: IpAddr) {
        let limits = self.state.limits();
        // Without it, Nagle's algorithm may hold the last segment of an answer; it only costs time.
        let _ = stream.set_nodelay(true);
        // The kernel ends the connection of a client that reads nothing of an answer.
        let patience = u32::try_from(limits.write_timeout.as_millis()).unwrap_or(u32::MAX);
        if let Err(error) = setsockopt(&stream, sockopt::TcpUserTimeout, &patience) {
            tracing::debug!(%error, "time for writes to a connection could not be bounded");
        }
        let chain = Vec::new();
        let mut client = Peer { address, chain };
        let Some(config) = self.state.access().tls else {
            return self.requests(stream, client).await;
        };
        let shaken = tokio::select! {
            shaken = handshake(stream, config, limits.header_timeout) => shaken,
            _ = self.stopping.changed() => return,
        };
        let Some(stream) = shaken else { return };
        (self.tick)();
        let (_, session) = stream.get_ref();
        client.chain = session.peer_certificates().unwrap_or_default().to_vec();
        self.requests(stream, client).await;
    }

    /// Answers a connection's requests.
    async fn requests(
        mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        client: Peer,
    ) {
        let (state, answering, tick) = (&*self.state, &self.answering, &self.tick);
        let limits = state.limits();
        let client = &client;
        let service = service_fn(move |request: Request<Incoming>| {
            tick();
            async move {
                if auth::is_open(request.uri().path()) {
                    tokio::task::yield_now().await;
                    return Ok::<_, Infallible>(state.answer(&request, client));
                }
                let mut turn = Arc::clone(answering).lock_owned().await;
                tokio::task::yield_now().await;
                let began = Instant::now();
                let response = state.answer(&request, client);
                if let Some(pause) = turn.spend(began, Instant::now()) {
                    tokio::spawn(async move {
                        tokio::time::sleep(pause).await;
                        drop(turn);
                    });
                }
                Ok(response)
            }
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
            _ = self.stopping.changed() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = ended {
            // A client that vanishes or sends nonsense is not the agent's fault.
            tracing::debug!(%error, "connection ended");
        }
    }
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
    let shaken = shaken.inspect_err(|error| tracing::debug!(%error, "TLS handshake failed"));
    shaken.ok()
}

#[cfg(test)]
mod tests;
