//! Connections, requests and watches.

use super::api::{self, Answer, Body, status};
use super::{Fault, Seen, State, Wrong};
use hyper::body::Incoming;
use hyper::{Request, Response};
use selvage::units::{REVISION, VERSION};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tokio::sync::watch;

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
                        lock(&state).node_watches.end();
                        lock(&state).pod_watches.end();
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
    let asked = api::read(request).await.ok_or(Closed)?;
    let mut seen = Seen {
        at: Instant::now(),
        method: asked.method.clone(),
        uri: asked.uri.clone(),
        content: asked.content.clone(),
        token: asked.token.clone(),
        body: asked.body.clone(),
        code: 0,
    };
    let (wrong, answer) = {
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
        let agent = format!("selvage/{VERSION} ({REVISION})");
        if asked.agent != agent {
            let complaint = format!(
                "{} {}: User-Agent {:?}",
                asked.method, asked.uri, asked.agent
            );
            state.complaints.push(complaint);
        }
        let told = |(code, body)| Answer::Told(code, body);
        let answer = match &wrong {
            _ if denied => told(status(401, Value::Null)),
            Some(Wrong::Status(code, details)) => told(status(*code, details.clone())),
            Some(Wrong::Stall | Wrong::Close) => told((0, Value::Null)),
            Some(Wrong::Refused(code, message)) => {
                let (code, mut body) = status(*code, Value::Null);
                body["message"] = (*message).into();
                told((code, body))
            }
            Some(Wrong::Bytes(_)) => told((200, Value::Null)),
            Some(Wrong::DoneThenStall) => told((state.answer(&asked).0, Value::Null)),
            None if asked.watches() => match state.watch(&asked) {
                Some(lines) => Answer::Watch(lines),
                None => told(state.answer(&asked)),
            },
            None => told(state.answer(&asked)),
        };
        seen.code = match &answer {
            Answer::Told(code, _) => *code,
            Answer::Watch(_) => 200,
        };
        state.log.push(seen);
        (wrong, answer)
    };
    match wrong {
        Some(Wrong::Stall | Wrong::DoneThenStall) => std::future::pending().await,
        Some(Wrong::Close) => Err(Closed),
        Some(Wrong::Bytes(count)) => Ok(Response::new(api::filled(count))),
        _ => api::answer(answer).ok_or(Closed),
    }
}
