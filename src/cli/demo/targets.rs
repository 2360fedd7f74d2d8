//! The nodes' addresses for Prometheus (`file_sd_configs`).

use super::Member;
use crate::files::{check_replaceable, replace};
use serde_json::json;
use std::io;
use std::path::Path;

/// Writes the file.
pub(super) fn write(path: &Path, members: &[Member]) -> io::Result<()> {
    let targets: Vec<_> = members
        .iter()
        .map(|member| {
            json!({
                "targets": [member.listen.to_string()],
                "labels": {"instance": member.scenario.name, "cluster": "demo"},
            })
        })
        .collect();
    let mut text = serde_json::to_vec(&targets).map_err(io::Error::other)?;
    text.push(b'\n');
    check_replaceable(path)?;
    replace(path, &text)
}
