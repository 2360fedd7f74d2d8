//! What wakes the sidecar, and which processes of its pod it sees.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::os::fd::AsFd;
use std::path::Path;
use tokio::sync::mpsc;

/// Time between looks whether anybody still listens, in milliseconds.
const WAIT: u16 = 1000;

/// Wakes by inotify; where there is none, looks find everything a little later.
pub(super) struct Wakes;

impl Wakes {
    /// Starts the thread; it ends when nobody listens any more.
    pub fn start(dir: &Path, tx: mpsc::Sender<()>) -> Self {
        let dir = dir.to_path_buf();
        crate::blocking::spawn("inotify", move || {
            let Ok(inotify) = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC) else {
                return;
            };
            let flags =
                AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
            let mut watched = false;
            while !tx.is_closed() {
                // The directory may come later.
                watched = watched || inotify.add_watch(&dir, flags).is_ok();
                if !watched {
                    std::thread::sleep(std::time::Duration::from_secs(1));
                    continue;
                }
                let mut fds = [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)];
                if poll(&mut fds, PollTimeout::from(WAIT)).unwrap_or(0) > 0 {
                    let _ = inotify.read_events();
                    // One that waits is enough.
                    let _ = tx.try_send(());
                    // Lines come in bursts; one look takes in many.
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
            }
        });
        Wakes
    }
}

/// Whether processes of other containers are in view: process 1 is then none of this container's,
/// but the pause container's (or the host's init), and in another cgroup. Its name is no sign: images
/// for it differ.
pub(super) fn shares_processes() -> bool {
    #[expect(clippy::disallowed_methods, reason = "this pod's own processes")]
    let cgroups = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok();
    differ(cgroups("1").as_deref(), cgroups("self").as_deref())
}

fn differ(first: Option<&str>, own: Option<&str>) -> bool {
    matches!((first, own), (Some(first), Some(own)) if first != own)
}

/// Whether a process of this number is there.
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
            // What cannot be read is no proof, and a sidecar that ends early sees nothing more.
            (None, Some("0::/\n"), false),
            (Some("0::/\n"), None, false),
        ] {
            assert_eq!(differ(first, own), shared, "{first:?} {own:?}");
        }
    }
}
