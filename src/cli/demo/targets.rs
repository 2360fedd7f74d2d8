//! The nodes' addresses, as Prometheus takes them (`file_sd_configs`).

use super::Member;
use serde_json::json;
use std::io;
use std::path::Path;

/// Writes the file in one step: Prometheus may be reading.
pub(super) fn write(path: &Path, members: &[Member]) -> io::Result<()> {
    let targets: Vec<_> = members
        .iter()
        .map(|member| {
            json!({
                "targets": [member.listen.to_string()],
                "labels": {"instance": member.role.name, "cluster": "demo"},
            })
        })
        .collect();
    let mut text = serde_json::to_vec_pretty(&targets).map_err(io::Error::other)?;
    text.push(b'\n');
    let mut scratch = path.as_os_str().to_owned();
    scratch.push(".new");
    std::fs::write(&scratch, text)?;
    std::fs::rename(&scratch, path)
}
