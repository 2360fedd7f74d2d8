//! Which processes of its pod the sidecar sees.

use std::path::Path;

/// Whether processes of other containers are visible: process 1 then belongs to the pause container
/// (or is the host's init), in another cgroup. Its name proves nothing: images for it differ.
pub(super) fn are_shared() -> bool {
    #[expect(clippy::disallowed_methods, reason = "this pod's own processes")]
    let cgroups = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok();
    differ(cgroups("1").as_deref(), cgroups("self").as_deref())
}

fn differ(first: Option<&str>, own: Option<&str>) -> bool {
    matches!((first, own), (Some(first), Some(own)) if first != own)
}

/// Whether a process with this PID exists.
pub(super) fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_shared_where_the_first_is_in_another_cgroup() {
        for (first, own, shared) in [
            // A cgroup namespace of its own, unified hierarchy.
            (Some("0::/../5f1c\n"), Some("0::/\n"), true),
            (Some("0::/\n"), Some("0::/\n"), false),
            // The old one, as the host names it.
            (
                Some("4:memory:/kubepods/pod1/a\n"),
                Some("4:memory:/kubepods/pod1/b\n"),
                true,
            ),
            (
                Some("4:memory:/kubepods/pod1/b\n"),
                Some("4:memory:/kubepods/pod1/b\n"),
                false,
            ),
            // An unreadable file proves nothing, and a sidecar that ends early sees nothing more.
            (None, Some("0::/\n"), false),
            (Some("0::/\n"), None, false),
        ] {
            assert_eq!(differ(first, own), shared, "{first:?} {own:?}");
        }
    }
}
