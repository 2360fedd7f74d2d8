//! Output of nccl-tests: which lines are its own, and what they say.
//!
//! Layouts from nccl-tests' history, 2017 to 2.19 (src/common.cu; from 2025-10 src/util.cu) and from
//! outputs that people posted. What varies: a `#` before what is no row (not before 2019), the
//! columns `redop` and `root` (only where they mean something before 2022-08, empty under their
//! head at times), `error` (a difference) that became `#wrong` (a count), `N/A` for either, four
//! columns of `-I` on each side, a timestamp at the end, and who stands before it all. A row is
//! printed in pieces, with NCCL's own lines in between and a launcher's tag before each.

mod fit;
mod json;
mod line;
mod reader;

pub use json::parse as parse_json;
pub use reader::Reader;

#[cfg(test)]
mod end_tests;
#[cfg(test)]
mod fit_tests;
#[cfg(test)]
mod tests;
