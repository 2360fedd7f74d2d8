//! Tells the cluster: labels, condition, taint and events of this node's object.
//!
//! Level-triggered: [`desired`] says what the Node should carry, [`plan`] what differs, both pure;
//! [`writer`] alone talks to the API server. [`budget`] keeps the number of tainted nodes bounded.
//! [`pods`] is the other way round: what the server tells of the node's pods.

pub mod api;
pub mod budget;
pub mod cleanup;
pub mod desired;
pub mod events;
pub mod failure;
pub mod group;
pub mod job;
mod kubeconfig;
pub mod mute;
pub mod names;
pub mod node;
mod pace;
pub mod plan;
mod pod_events;
pub mod pods;
pub mod settings;
mod taint;
pub mod writer;

pub use pace::Limits;
pub use pod_events::{EventKind, EventSender, PodNotice, PodRef};
pub use settings::ClusterSettings;
pub use writer::{NodeFacts, Writer};
