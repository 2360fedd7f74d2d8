//! The content of NCCL's logs: [`event`] is the meaning of one line, [`log::NcclLog`] the bounded state
//! of a whole log, by process and communicator. `check/nccl` judges it.

pub mod channel_counts;
pub mod event;
pub mod failure;
pub mod group;
pub mod log;
pub mod process;

pub use channel_counts::{ChannelCounts, HostPid};
pub use event::{Event, Level, LinePrefix, Link, Net, Record, Transport};
pub use failure::Failure;
pub use group::{Group, GroupKey};
pub use log::{DeviceErrors, EvidenceKind, EvidenceLine, NcclLog};
pub use process::{Process, Stage};
