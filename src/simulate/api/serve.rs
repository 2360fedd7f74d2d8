//! Connections, requests and watches.

use super::{Asked, Lines, Objects, status};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use serde_json::Value;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;

/// Body of an HTTP response.
pub type Body = BoxBody<Bytes, Infallible>;

/// Longest body that is read.
const BODY_MAX: usize = 4 << 20;

/// Answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// Code and body.
    Told(u16, Value),
    /// Changes as they happen.
    Watch(Lines),
}

/// Reads a request; none where its body does not come or is too long.
pub async fn read(request: Request<Incoming>) -> Option<Asked> {
    let header = |name: &str| {
        let value = request.headers().get(name);
        let text = value.and_then(|value| value.to_str().ok());
        text.unwrap_or_default().to_string()
    };
    // `?&limit=1` and `?limit=1` are the same.
    let uri = request.uri().to_string().replace("?&", "?");
    let asked = Asked {
        method: request.method().to_string(),
        uri: uri.trim_end_matches('?').to_string(),
        content: header("content-type"),
        token: header("authorization")
            .trim_start_matches("Bearer ")
            .to_string(),
        body: Value::Null,
    };
    let body = Limited::new(request.into_body(), BODY_MAX);
    let body = body.collect().await.ok()?.to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(Asked { body, ..asked })
}

/// The answer as it is sent; none where it cannot be put in words.
pub fn answer(answer: Answer) -> Option<Response<Body>> {
    let (code, body) = match answer {
        Answer::Told(code, body) => (code, Full::new(Bytes::from(body.to_string())).boxed()),
        Answer::Watch(lines) => {
            let lines = futures::stream::unfold(lines, |mut lines| async {
                let line = lines.recv().await?;
                Some((Ok::<_, Infallible>(Frame::data(line)), lines))
            });
            (200, BodyExt::boxed(StreamBody::new(Box::pin(lines))))
        }
    };
    let response = Response::builder()
        .status(code)
        .header("content-type", "application/json");
    response.body(body).ok()
}

/// Serves these objects until dropped.
pub async fn serve(listener: TcpListener, objects: Arc<Mutex<Objects>>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // No descriptor left: others may be closed meanwhile.
                Err(_) => {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let objects = Arc::clone(&objects);
        connections.spawn(async move {
            let service = hyper::service::service_fn(|request| handle(&objects, request));
            let io = hyper_util::rt::TokioIo::new(stream);
            let http = hyper::server::conn::http1::Builder::new();
            let _ = http.serve_connection(io, service).await;
        });
    }
}

/// Closes the connection.
#[derive(Debug, thiserror::Error)]
#[error("the request cannot be answered")]
struct Unanswered;

async fn handle(
    objects: &Mutex<Objects>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Unanswered> {
    let asked = read(request).await.ok_or(Unanswered)?;
    let told = {
        let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.watches() {
            match objects.watch(&asked) {
                Some(lines) => Answer::Watch(lines),
                None => {
                    let (code, body) = status(404, Value::Null);
                    Answer::Told(code, body)
                }
            }
        } else {
            let (code, body) = objects.answer(&asked);
            Answer::Told(code, body)
        }
    };
    answer(told).ok_or(Unanswered)
}
