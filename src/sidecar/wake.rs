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
        crate::thread::spawn("inotify", move || {
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

/// Whether the pod's containers share one PID namespace: its first process is then the pause
/// container's.
pub(super) fn shares_processes() -> bool {
    #[expect(clippy::disallowed_methods, reason = "this pod's own processes")]
    let first = std::fs::read_to_string("/proc/1/comm");
    first.is_ok_and(|name| name.trim() == "pause")
}

/// Whether a process of this number is there.
pub(super) fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}
