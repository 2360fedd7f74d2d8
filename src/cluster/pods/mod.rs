//! The pods of this node, as far as judging their jobs needs them.
//!
//! kube's watcher over [`object::PodObject`], which is reduced to the facts kept of a pod while it is
//! decoded: a pod with its template, status and managed fields is tens of kilobytes as text, the facts
//! are some hundred bytes.
//!
//! The list is answered from the API server's cache (`resourceVersion=0`), as kubelet's own: a read
//! through to etcd visits all pods of the cluster, for each of ten thousand agents.
//!
//! The table stays while the server cannot be reached. Nothing here writes.

mod facts;
mod object;
mod table;
mod watch;

pub use table::{Health, PodTable};
pub use watch::PodWatch;
