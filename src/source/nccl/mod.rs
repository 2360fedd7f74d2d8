//! NCCL's logs: which lines are NCCL's, who printed them, and what they say.
//!
//! The grammar comes from NCCL's src/debug.cc, init.cc, net.cc and transport/*.cc, tags 2.3.5 to 2.30.7, and
//! from the plugins aws-ofi-nccl, nccl-rdma-sharp-plugins, nccl-fastsocket and nccl-gpudirecttcpx.
//! Nothing is anchored at the start of a line: launchers, log shippers and people add prefixes, and
//! processes that share a pipe start in the middle of each other's lines.

pub mod anchor;
pub mod message;
pub mod prefix;
mod reader;

pub use reader::Reader;
