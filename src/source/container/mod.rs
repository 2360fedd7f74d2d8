//! Readers for what an unprivileged container can see of the fabric. Each is one bounded read that
//! its caller may abandon if it hangs.

pub(crate) mod cufile;
pub(crate) mod environment;
pub(crate) mod interfaces;
pub mod libraries;
pub(crate) mod limits;
pub(crate) mod master;
pub(crate) mod nodes;
#[cfg(test)]
mod testing;
