//! The content of NCCL's logs: [`event`] is the meaning of one line, [`log::NcclLog`] the bounded state
//! of a whole log, by process and communicator. `check/nccl` judges it.

pub mod channel_counts;
pub mod event;
pub mod failure;
pub mod group;
pub mod log;
pub mod process;

pub use event::{Event, Level, LinePrefix, Net, Record, Transport};
pub use failure::Failure;
pub use log::{EvidenceLine, NcclLog};
