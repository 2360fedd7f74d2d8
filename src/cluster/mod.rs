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

pub use events::{EventKind, EventRequest, EventSender, PodRef};
pub use rate_limit::Limits;
pub use settings::ClusterSettings;
pub use writer::{NodeFacts, Writer};
