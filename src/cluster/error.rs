//! What failed requests mean.

use crate::units::cut;
use kube::core::Status;
use kube::runtime::watcher;
use std::{future::Future, time::Duration};

/// Longest error message kept, in bytes.
const MESSAGE_MAX: usize = 400;

/// What an error means to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The object has changed since it was read.
    Conflict,
    /// The object does not exist.
    NotFound,
    /// 401: the token has expired, or is not valid yet.
    Unauthorized,
    /// 403: a permission is missing.
    Forbidden,
    /// 410: the server has dropped the version to continue from.
    Expired,
    /// 422: the server cannot do what is requested.
    Invalid,
    /// 429, with the wait that the server asked for.
    Throttled(Option<Duration>),
    /// No answer in time.
    Timeout,
    /// Anything else: unreachable, 5xx, an answer that cannot be decoded.
    Other,
}

impl ErrorKind {
    /// The value of the metric's label `result`.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Conflict => "conflict",
            ErrorKind::Unauthorized | ErrorKind::Forbidden => "denied",
            ErrorKind::Throttled(_) => "throttled",
            ErrorKind::Timeout => "timeout",
            _ => "error",
        }
    }

    /// What a status of the server means.
    fn of(status: &Status) -> Self {
        match status.code {
            401 => ErrorKind::Unauthorized,
            403 => ErrorKind::Forbidden,
            404 => ErrorKind::NotFound,
            409 => ErrorKind::Conflict,
            410 => ErrorKind::Expired,
            422 => ErrorKind::Invalid,
            429 => {
                // kube drops a `Retry-After` header, which is all that flow control sends.
                let seconds = status.details.as_ref().map(|d| d.retry_after_seconds);
                let seconds = seconds.filter(|seconds| *seconds > 0);
                ErrorKind::Throttled(seconds.map(|s| Duration::from_secs(u64::from(s))))
            }
            _ => ErrorKind::Other,
        }
    }
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {message}")]
pub struct ApiError {
    /// What was requested, for the log.
    pub what: &'static str,
    /// What the error means.
    pub kind: ErrorKind,
    /// In the server's or the network's words.
    pub message: String,
}

/// The answer to a request.
pub type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(what: &'static str, kind: ErrorKind, message: impl ToString) -> Self {
        let message = cut(message.to_string(), MESSAGE_MAX);
        ApiError {
            what,
            kind,
            message,
        }
    }

    pub(crate) fn other(what: &'static str, message: impl ToString) -> Self {
        ApiError::new(what, ErrorKind::Other, message)
    }

    fn of_status(what: &'static str, status: &Status) -> Self {
        let message = format!("{} {}", status.code, status.message);
        ApiError::new(what, ErrorKind::of(status), message)
    }

    /// The error of a request.
    pub fn of_request(what: &'static str, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => ApiError::of_status(what, status),
            error => ApiError::other(what, chain(error)),
        }
    }

    /// The error of a watch, or of the list before it.
    pub fn of_watch(what: &'static str, error: &watcher::Error) -> Self {
        use watcher::Error as E;
        match error {
            E::InitialListFailed(error) | E::WatchStartFailed(error) | E::WatchFailed(error) => {
                ApiError::of_request(what, error)
            }
            E::WatchError(status) => ApiError::of_status(what, status),
            E::NoResourceVersion => ApiError::other(what, error),
        }
    }

    pub(super) fn timeout(what: &'static str, deadline: Duration) -> Self {
        let message = format!("no answer within {} s", deadline.as_secs_f64());
        ApiError::new(what, ErrorKind::Timeout, message)
    }

    /// Whether the object has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.kind == ErrorKind::Conflict
    }

    /// Whether the same request would fail again at any time.
    pub fn is_final(&self) -> bool {
        use ErrorKind::{Forbidden, Invalid, NotFound};
        matches!(self.kind, Forbidden | Invalid | NotFound)
    }

    /// Whether the server cannot be reached now, so that further requests would fail as well.
    pub fn is_outage(&self) -> bool {
        use ErrorKind::{Other, Throttled, Timeout, Unauthorized};
        matches!(self.kind, Timeout | Other | Throttled(_) | Unauthorized)
    }

    /// The wait that the server asked for, a minute at most.
    pub fn requested_wait(&self) -> Duration {
        match self.kind {
            ErrorKind::Throttled(Some(wait)) => wait.min(Duration::from_secs(60)),
            _ => Duration::ZERO,
        }
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    cut(text, MESSAGE_MAX)
}

/// Runs a request within a deadline.
///
/// # Errors
/// The request's error, or [`ErrorKind::Timeout`].
pub(crate) async fn bounded<T>(
    what: &'static str,
    deadline: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> ApiResult<T> {
    match tokio::time::timeout(deadline, request).await {
        Ok(answer) => answer.map_err(|error| ApiError::of_request(what, &error)),
        Err(_) => Err(ApiError::timeout(what, deadline)),
    }
}
