//! What the failures of requests mean.

use crate::units::cut;
use std::future::Future;
use std::time::Duration;

/// What a failure means to the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The object is not what it was: look again.
    Conflict,
    /// There is no such object.
    NotFound,
    /// 401: the token is no longer, or not yet, good.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 410: what a list or watch would go on from is no longer kept.
    Expired,
    /// 422: the server cannot do what is asked.
    Invalid,
    /// 429, with how long to wait where the server says.
    Throttled(Option<Duration>),
    /// No answer in time.
    Timeout,
    /// Anything else: unreachable, 5xx, an answer that is none.
    Other,
}

impl Failure {
    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Failure::Conflict => "conflict",
            Failure::Unauthorized | Failure::Forbidden => "denied",
            Failure::Throttled(_) => "throttled",
            Failure::Timeout => "timeout",
            Failure::NotFound | Failure::Expired | Failure::Invalid | Failure::Other => "error",
        }
    }
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {message}")]
pub struct ApiError {
    /// What was asked.
    pub what: &'static str,
    /// What it means.
    pub failure: Failure,
    /// In the server's or the network's words.
    pub message: String,
}

impl ApiError {
    /// Whether the same request would fail again, whenever it is made.
    pub fn is_final(&self) -> bool {
        use Failure::{Forbidden, Invalid, NotFound};
        matches!(self.failure, Forbidden | Invalid | NotFound)
    }
}

/// An error with its causes, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    cut(text, 400)
}

/// A request with its deadline; its failure made out.
pub async fn bounded<T>(
    what: &'static str,
    deadline: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, ApiError> {
    match tokio::time::timeout(deadline, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(ApiError {
            what,
            failure: failure(&error),
            message: words(&error),
        }),
        Err(_) => Err(ApiError {
            what,
            failure: Failure::Timeout,
            message: format!("no answer within {} s", deadline.as_secs_f64()),
        }),
    }
}

/// Whether the watch was refused for its credentials.
pub fn is_unauthorized(error: &kube::runtime::watcher::Error) -> bool {
    use kube::runtime::watcher::Error::{
        InitialListFailed, WatchError, WatchFailed, WatchStartFailed,
    };
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => {
            failure(error) == Failure::Unauthorized
        }
        WatchError(status) => status.code == 401,
        _ => false,
    }
}

fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => cut(format!("{} {}", status.code, status.message), 400),
        error => chain(error),
    }
}

fn failure(error: &kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) => of_status(status),
        _ => Failure::Other,
    }
}

/// What a status of the server means.
pub(super) fn of_status(status: &kube::core::Status) -> Failure {
    match status.code {
        401 => Failure::Unauthorized,
        403 => Failure::Forbidden,
        404 => Failure::NotFound,
        409 => Failure::Conflict,
        410 => Failure::Expired,
        422 => Failure::Invalid,
        429 => {
            // A header alone (`Retry-After: 1`, as flow control sends it) does not get through here.
            let told = status.details.as_ref().map(|d| d.retry_after_seconds);
            let told = told.filter(|seconds| *seconds > 0);
            Failure::Throttled(told.map(|seconds| Duration::from_secs(u64::from(seconds))))
        }
        _ => Failure::Other,
    }
}
