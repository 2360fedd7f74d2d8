//! The syslog(2) system call (kernel/printk/printk.c), which `nix` has no safe form of. One reading
//! command can be made, nothing else: the log stays as it is.
#![expect(
    unsafe_code,
    reason = "syslog(2) takes a pointer to a buffer that the kernel fills; no safe binding exists"
)]

use std::io;

/// SYSLOG_ACTION_READ_ALL: the newest whole records that fit. Needs CAP_SYSLOG where
/// `kernel.dmesg_restrict=1`, and no capability elsewhere; the seccomp profile that containers get
/// by default lets it through with CAP_SYSLOG only.
const READ_ALL: nix::libc::c_int = 3;

/// Fills `buffer` with the end of the log; returns how many bytes of it.
pub fn read_all(buffer: &mut [u8]) -> io::Result<usize> {
    let len = i32::try_from(buffer.len()).unwrap_or(i32::MAX);
    // SAFETY: the kernel writes at most `len` bytes to the buffer, which is that long and borrowed
    // for the call.
    let read = unsafe { nix::libc::klogctl(READ_ALL, buffer.as_mut_ptr().cast(), len) };
    // Negative is -1: the reason is in errno.
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}
