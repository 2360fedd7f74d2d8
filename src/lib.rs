//! selvage
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

pub mod check;
pub mod cli;
pub mod observe;
pub mod source;
