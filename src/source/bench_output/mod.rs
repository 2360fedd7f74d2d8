//! Output of nccl-tests: the printed table and the file of `-J`.
//!
//! The layouts come from nccl-tests' history, 2017 to 2.19 (src/common.cu; from 2025-10 src/util.cu),
//! and from outputs that people posted. They vary in the `#` before what is not a row (since 2019), in
//! the columns `redop` and `root` (before 2022-08 only where they mean something), in `error` (a
//! difference) that became `#wrong` (a count), in the four extra columns of `-I`, and in a timestamp
//! at the end. A row is printed in pieces, with NCCL's own lines in between and launchers' tags in
//! front.

mod json;
mod reader;
mod table;

pub use json::parse as parse_json;
pub use reader::Reader;

#[cfg(test)]
mod tests;
