//! How far the kernel log was read.

use serde::{Deserialize, Serialize};

/// The resume point. It holds for one boot only (`/proc/sys/kernel/random/boot_id`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeState {
    /// Boot that the place belongs to.
    pub boot_id: String,
    /// The last record that was handled.
    #[serde(flatten)]
    pub place: Position,
}

/// A record's place in the log of one boot, as far as the way it was read shows it. The stamp is
/// common to all ways, so that a run may go on where one that read another way stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Record number, counted from 0 at boot: of `/dev/kmsg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seq: Option<u64>,
    /// Microseconds since boot, by the kernel's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_ts_us: Option<u64>,
    /// Which line: of syslog(2), which numbers nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<LineMark>,
}

/// Identifies a line among all lines of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineMark {
    /// Hash of the whole line with priority and stamp (FNV-1a, 64 bits).
    pub hash: u64,
    /// Which of several equal lines it is, counted from 1: a line may be printed twice within a
    /// microsecond.
    pub count: u32,
}

impl Position {
    /// Of a record of `/dev/kmsg`.
    pub fn numbered(seq: u64, ts_us: u64) -> Self {
        Self {
            last_seq: Some(seq),
            last_ts_us: Some(ts_us),
            ..Self::default()
        }
    }

    /// Of a line of syslog(2).
    pub fn marked(mark: LineMark, ts_us: u64) -> Self {
        Self {
            last_line: Some(mark),
            last_ts_us: Some(ts_us),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_either_way_are_read_back() {
        let mark = LineMark {
            hash: u64::MAX,
            count: 2,
        };
        for place in [
            Position::numbered(7, 1),
            Position::marked(mark, u64::MAX),
            Position::default(),
        ] {
            let state = ResumeState {
                boot_id: "a".into(),
                place,
            };
            let text = serde_json::to_string(&state).unwrap();
            let back: ResumeState = serde_json::from_str(&text).unwrap();
            assert_eq!(back, state, "{text}");
        }
    }
}
