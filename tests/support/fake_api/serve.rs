//! Connections, requests and watches.

use super::semantics::status;
use super::{Fault, Seen, State, Wrong};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::{Request, Response};
use serde_json::Value;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tokio::sync::watch;

type Body = BoxBody<Bytes, Infallible>;

pub(super) async fn serve(
    listener: std::net::TcpListener,
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    mut up: watch::Receiver<Option<bool>>,
) {
    listener.set_nonblocking(true).expect("a socket");
    let mut listener = tokio::net::TcpListener::from_std(listener).ok();
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accept = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = up.changed() => {
                let want = *up.borrow_and_update();
                match want {
                    _ if changed.is_err() => return,
                    None => return,
                    Some(false) => {
                        listener = None;
                        connections.abort_all();
                        lock(&state).watchers.clear();
                        lock(&state).pod_watchers.clear();
                    }
                    Some(true) => listener = tokio::net::TcpListener::bind(address).await.ok(),
                }
            }
            Ok((stream, _)) = accept => {
                let state = Arc::clone(&state);
                connections.spawn(async move {
                    let service = hyper::service::service_fn(|request| handle(Arc::clone(&state), request));
                    let io = hyper_util::rt::TokioIo::new(stream);
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
                });
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(|e| e.into_inner())
}

/// Ends the connection.
#[derive(Debug, thiserror::Error)]
#[error("closed on purpose")]
struct Closed;

async fn handle(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Closed> {
    let header = |name: &str| {
        let value = request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_string()
    };
    // `?&limit=1` and `?limit=1` are the same.
    let uri = request.uri().to_string().replace("?&", "?");
    let mut seen = Seen {
        at: Instant::now(),
        method: request.method().to_string(),
        uri: uri.trim_end_matches('?').to_string(),
        content: header("content-type"),
        token: header("authorization")
            .trim_start_matches("Bearer ")
            .to_string(),
        body: Value::Null,
        code: 0,
    };
    let body = request
        .into_body()
        .collect()
        .await
        .map_err(|_| Closed)?
        .to_bytes();
    if !body.is_empty() {
        seen.body = serde_json::from_slice(&body).unwrap_or_default();
    }
    let watches = seen.uri.contains("watch=true");
    let (wrong, (code, answer), events) = {
        let mut state = lock(&state);
        let fits = |fault: &&mut Fault| {
            fault.times > 0 && fault.method == seen.method && seen.uri.contains(fault.part)
        };
        let wrong = state.faults.iter_mut().find(fits).map(|fault| {
            fault.times -= 1;
            fault.wrong.clone()
        });
        let denied = state
            .token
            .as_ref()
            .is_some_and(|token| *token != seen.token);
        let mut events = None;
        let answer = match &wrong {
            _ if denied => status(401, Value::Null),
            Some(Wrong::Status(code, details)) => status(*code, details.clone()),
            Some(Wrong::Stall | Wrong::Close) => (0, Value::Null),
            Some(Wrong::DoneThenStall) => (state.answer(&seen).0, Value::Null),
            None if watches => {
                // What changed between list and watch.
                let since = seen
                    .uri
                    .split('&')
                    .find_map(|part| part.strip_prefix("resourceVersion="));
                let since = since
                    .and_then(|version| version.parse::<u64>().ok())
                    .unwrap_or(0);
                events = Some(if seen.uri.starts_with("/api/v1/pods") {
                    state.watch_pods(&seen, since)
                } else {
                    state.watch_node(since)
                });
                (200, Value::Null)
            }
            None => state.answer(&seen),
        };
        seen.code = answer.0;
        state.log.push(seen);
        (wrong, answer, events)
    };
    match wrong {
        Some(Wrong::Stall | Wrong::DoneThenStall) => std::future::pending().await,
        Some(Wrong::Close) => Err(Closed),
        _ => {
            let body = match events {
                Some(events) => {
                    let lines = futures::stream::unfold(events, |mut events| async {
                        let line = events.recv().await?;
                        Some((Ok::<_, Infallible>(Frame::data(line)), events))
                    });
                    BodyExt::boxed(StreamBody::new(lines.boxed_sync()))
                }
                None => Full::new(Bytes::from(answer.to_string())).boxed(),
            };
            let response = Response::builder()
                .status(code)
                .header("content-type", "application/json");
            response.body(body).map_err(|_| Closed)
        }
    }
}

trait BoxedSync: futures::Stream + Send + Sync + Sized + 'static {
    /// Pinned, and `Sync`, as a boxed body is.
    fn boxed_sync(
        self,
    ) -> std::pin::Pin<Box<dyn futures::Stream<Item = Self::Item> + Send + Sync>> {
        Box::pin(self)
    }
}

impl<S: futures::Stream + Send + Sync + Sized + 'static> BoxedSync for S {}
