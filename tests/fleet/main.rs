//! A fleet: hundreds of real agents on simulated nodes against a real API server, and the bound on
//! tainted nodes proven in that server's own history. Run by tests/cluster/fleet; see docs/scale.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "test code"
)]

#[path = "../support/mod.rs"]
mod support;

mod agents;
mod cluster;
mod costs;
mod fleet;
mod groups;
mod history;
mod hosts;
mod kubelet;
mod latency;
mod phases;
mod pods;
mod seen;
mod table;
mod view;

use std::future::Future;

/// Everything here waits for the network: one thread will do.
fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(test);
}

#[test]
#[ignore = "needs an API server: tests/cluster/fleet"]
fn fleet() {
    block_on(phases::all());
}

#[test]
#[ignore = "needs an API server: tests/cluster/fleet"]
fn groups() {
    block_on(groups::all());
}

#[test]
#[ignore = "needs an API server: tests/cluster/fleet"]
fn latency() {
    block_on(latency::all());
}

#[test]
#[ignore = "needs an API server: tests/cluster/fleet"]
fn pods() {
    block_on(pods::all());
}

#[test]
#[ignore = "needs an API server: tests/cluster/fleet"]
fn view() {
    block_on(view::all());
}
