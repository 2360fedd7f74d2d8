//! What NCCL's log lines say: events, and the bounded state of one log.
//!
//! [`event`] is one line's meaning; [`log::NcclLog`] what a whole log comes to, per process and
//! communicator. Judging is `check/nccl`'s.

pub mod event;
pub mod group;
pub mod log;
pub mod process;
pub mod tally;
pub mod trouble;

pub use event::{Event, Level, Net, Record, Transport, Who};
pub use log::{Line, NcclLog};
pub use trouble::Trouble;
