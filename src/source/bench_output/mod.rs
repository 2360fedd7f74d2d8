//! Output of nccl-tests: the printed table and the file of `-J`.
//!
//! The layouts are those since 2022-08 (2.13; src/common.cu, from 2025-10 src/util.cu), and those of
//! outputs that people posted. They vary in the four extra columns of `-I` and in a timestamp at the
//! end. A row is printed in pieces, with NCCL's own lines in between and launchers' tags in front.

mod json;
mod reader;
mod table;

pub use json::parse as parse_json;
pub use reader::BenchReader;

#[cfg(test)]
mod tests;
