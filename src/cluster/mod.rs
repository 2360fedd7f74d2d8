//! Writes the verdict to this node's object: labels, condition, taint and events.
//!
//! Level-triggered: [`desired`] says what the Node should carry, [`reconcile`] which patches it takes,
//! both pure; [`writer`] alone writes. [`budget`] bounds the number of tainted nodes. [`pods`] goes the
//! other way: what the API server knows of the node's pods.

pub mod api;
pub mod budget;
pub mod cleanup;
pub mod desired;
pub mod error;
mod event_recorder;
mod events;
pub(crate) mod guarded_client;
pub mod job;
mod label_syntax;
pub mod names;
pub mod node;
pub(crate) mod node_group;
pub mod pods;
mod rate_limit;
pub mod reach;
pub mod reconcile;
pub mod settings;
pub mod silence;
pub(crate) mod topology;
pub mod writer;

pub(crate) use api::each;
pub use api::{NodeApi, connect};
pub use desired::{Desired, WITHHELD, WantedTaint};
pub use error::{ApiError, ApiResult, ErrorKind};
pub(crate) use error::{bounded, chain};
pub use events::{EventKind, EventRequest, EventSender, PodRef};
use label_syntax::is_dns_name;
pub use node::{Condition, NodeObject, NodeView, resource, text};
pub(crate) use node_group::NodeGroup;
pub use rate_limit::RateLimits;
use rate_limit::{Gate, Gates, RECONNECT_AFTER};
pub use settings::{BudgetMax, ClusterSettings, Mode, TaintEffect};
pub use silence::Mutes;
pub use writer::{NodeFacts, Writer};
