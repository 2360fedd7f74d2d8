//! One thing read: a value, stated absence, or a failure. Never a default.

use serde::{Deserialize, Serialize};

/// What came of reading one thing. Absent, unreadable and zero are three different answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// It was read, and this is its value.
    Value(T),
    /// This kernel or device does not have it (no such file, no such attribute).
    #[default]
    Absent,
    /// It exists but cannot be observed from here: EINVAL, EOPNOTSUPP, `N/A (no PMA)`, a VF's
    /// physical counters. Not zero, and not a fault.
    NotObservable,
    /// Reading it failed; the fault says why.
    Failed(Fault),
}

impl<T> Reading<T> {
    /// A failure of this kind.
    pub fn failed(kind: FaultKind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Reading::Failed(Fault { kind, detail })
    }

    /// A failure of what was read: it is not what the kernel documents.
    pub fn malformed(detail: impl Into<String>) -> Self {
        Reading::failed(FaultKind::Malformed, detail)
    }

    /// What came of parsing a text: its value, or why it is malformed.
    pub fn parsed(value: Result<T, impl Into<String>>) -> Self {
        value.map_or_else(Reading::malformed, Reading::Value)
    }

    /// The value itself, if it was read.
    pub fn into_value(self) -> Option<T> {
        match self {
            Reading::Value(value) => Some(value),
            _ => None,
        }
    }

    /// Why reading it failed, if it did.
    pub fn into_fault(self) -> Option<Fault> {
        match self {
            Reading::Failed(fault) => Some(fault),
            _ => None,
        }
    }

    /// The value, if it was read.
    pub fn value(&self) -> Option<&T> {
        match self {
            Reading::Value(value) => Some(value),
            _ => None,
        }
    }

    /// The same answer with another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        self.and_then(|value| Reading::Value(f(value)))
    }

    /// What `f` makes of the value, which may be no value; every other answer stays.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Reading<U>) -> Reading<U> {
        match self {
            Reading::Value(value) => f(value),
            Reading::Absent => Reading::Absent,
            Reading::NotObservable => Reading::NotObservable,
            Reading::Failed(fault) => Reading::Failed(fault),
        }
    }
}

/// Why a read failed, by what a caller does next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What kind of failure it is.
    pub kind: FaultKind,
    /// The path or request, and the system's own words. For people; never a label.
    pub detail: String,
}

impl Fault {
    /// A failure that no named kind covers.
    pub fn other(detail: impl Into<String>) -> Self {
        let (kind, detail) = (FaultKind::Other, detail.into());
        Fault { kind, detail }
    }
}

/// Classes of failed reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Hash, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// EACCES, EPERM: the agent lacks a permission.
    Denied,
    /// ENODEV, EIO, ENXIO: the device is going away or resetting.
    Gone,
    /// Read, but it is not what the kernel documents.
    Malformed,
    /// No answer within the deadline; the read may still be stuck in the kernel.
    Stalled,
    /// A failure that no other kind covers.
    Other,
}

/// A value with the moment at which it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stamped<T> {
    /// When the read finished.
    pub at: crate::units::Millis,
    /// The value that was read.
    pub value: T,
}
