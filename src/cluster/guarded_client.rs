//! What protects the agent from the API server, or from a proxy in front of it: a bounded pace of
//! watches, and bounded answers.
//!
//! kube's watcher resumes a watch that ended cleanly at once, so a server that answers with an empty
//! body would be asked thousands of times a second: the backoff is by progress, not by errors. And kube
//! gathers an answer, or a line of a watch, whatever its length.

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::{Request, Response};
use kube::Client;
use kube::client::Body;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tower::BoxError;

/// A watch that lasted this many first waits made progress.
const PROGRESS: u32 = 10;

/// Most bytes of an answer, and of one line of a watch: a page of 500 Nodes of 15 KB fits, as do five
/// objects of etcd's largest size, 1.5 MiB. Several answers may come at once, and each is held twice
/// while it is decoded.
const LONGEST: usize = 8 << 20;

/// What the error of a longer answer says.
pub(super) const TOO_LONG: &str = "the answer is longer than 8 MiB";

/// The same client with bounded answers, whose watches start at a bounded pace; other requests pass at
/// once. `backoff`: first and longest wait.
pub(crate) fn guarded(client: Client, backoff: (Duration, Duration)) -> Client {
    let namespace = client.default_namespace().to_string();
    let pace = Arc::new(Mutex::new(WatchPace::default()));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, pace) = (client.clone(), Arc::clone(&pace));
        async move {
            let query = request.uri().query().unwrap_or_default();
            let watches = query.split('&').any(|pair| pair == "watch=true");
            if watches {
                let wait = (pace.lock())
                    .unwrap_or_else(PoisonError::into_inner)
                    .next(Instant::now(), backoff);
                tokio::time::sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            }
            let response = client.send(request).await?;
            Ok::<_, kube::Error>(limited(response, watches))
        }
    });
    Client::new(service, namespace)
}

/// An answer that fails once it, or with `lines` one of its lines, is too long.
fn limited(
    response: Response<Body>,
    lines: bool,
) -> Response<impl hyper::body::Body<Data = Bytes, Error = BoxError> + Send> {
    response.map(|body| {
        let mut length = 0;
        let chunks = body.into_data_stream().map(move |chunk| {
            let chunk = chunk?;
            let line = memchr::memrchr(b'\n', &chunk).filter(|_| lines);
            length = line.map_or(length + chunk.len(), |end| chunk.len() - end);
            match length > LONGEST {
                true => Err(BoxError::from(TOO_LONG)),
                false => Ok(Frame::data(chunk)),
            }
        });
        StreamBody::new(chunks)
    })
}

/// When the last watch began, and how long it had to wait.
#[derive(Debug, Default)]
struct WatchPace {
    began: Option<Instant>,
    wait: Duration,
}

impl WatchPace {
    /// How long the watch that is asked for at `now` waits: not at all after one that made progress,
    /// else twice as long as the one before it.
    fn next(&mut self, now: Instant, (first, longest): (Duration, Duration)) -> Duration {
        let short = |began| now.duration_since(began) < first * PROGRESS;
        self.wait = match self.began.is_some_and(short) {
            true => (self.wait * 2).clamp(first, longest),
            false => Duration::ZERO,
        };
        self.began = Some(now + self.wait);
        self.wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_watches_that_end_early_wait_longer_each_time() {
        let seconds = Duration::from_secs;
        let mut pace = WatchPace::default();
        let mut now = Instant::now();
        let mut next = |lasted| {
            now += lasted;
            let wait = pace.next(now, (seconds(1), seconds(30)));
            now += wait;
            wait
        };
        let early = [0, 1, 2, 4, 8, 16, 30, 30].map(seconds);
        assert_eq!(early.map(|_| next(seconds(0))), early);
        assert_eq!(
            next(seconds(9)),
            seconds(30),
            "nine seconds are not progress"
        );
        assert_eq!(next(seconds(10)), seconds(0), "ten are");
        assert_eq!(next(seconds(0)), seconds(1));
    }
}
