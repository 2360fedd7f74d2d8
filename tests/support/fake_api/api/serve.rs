//! Requests as they are read and answers as they are sent.

use super::{Asked, Lines};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use serde_json::Value;
use std::convert::Infallible;

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
        agent: header("user-agent"),
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

/// So many bytes that hold no line.
pub fn filled(count: usize) -> Body {
    Full::new(Bytes::from(vec![b' '; count])).boxed()
}
