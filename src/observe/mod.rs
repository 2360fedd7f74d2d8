//! Facts about the node, as plain values.
pub mod kernel;
