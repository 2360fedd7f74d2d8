//! The `selvage` binary.
fn main() {}
