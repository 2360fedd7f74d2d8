//! The ETHTOOL ioctl (include/uapi/linux/ethtool.h): the one system call here that `nix` has no
//! safe form of. Four reading commands can be made, nothing else; none needs a capability.
#![expect(
    unsafe_code,
    reason = "SIOCETHTOOL takes a pointer to a buffer that the kernel fills; no safe binding exists"
)]

use nix::libc::{SIOCETHTOOL, ifreq};
use std::os::fd::{AsRawFd, BorrowedFd};

nix::ioctl_readwrite_bad!(siocethtool, SIOCETHTOOL, ifreq);

const GDRVINFO: u32 = 0x03;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GSSET_INFO: u32 = 0x37;
/// ETH_SS_STATS: the set of strings that names statistics.
const STATISTICS: u32 = 1;
/// Size of `struct ethtool_drvinfo`.
const DRVINFO_LEN: usize = 196;
/// ETH_GSTRING_LEN: bytes of one name, with its NUL.
const STRING_LEN: usize = 32;
/// Length of `struct ethtool_gstrings` and `struct ethtool_stats` before their data.
const STRINGS_HEAD: usize = 12;
const STATS_HEAD: usize = 8;
/// Longest interface name with its NUL (IFNAMSIZ).
const NAME_LEN: usize = 16;

/// Room for this many statistics at least. Some kernels write as many as the driver has *now*,
/// whatever the caller's buffer was made for, and the list grows when channels or PFC are set up:
/// hence far more than any driver has. Untouched pages of it cost nothing.
const MIN_ROOM: u32 = 1 << 16;
/// More statistics than this are not believed.
const MAX_COUNT: u32 = 1 << 18;

/// How many statistics `count` needs room for; none if it is beyond belief.
fn room(count: u32) -> Option<usize> {
    let room = count.saturating_mul(2).max(MIN_ROOM);
    (count <= MAX_COUNT).then_some(usize::try_from(room).ok()?)
}

/// Fills `request` by the command that it begins with.
///
/// `request` must begin with one of the four commands and be as long as its answer may get: kept
/// by this file's functions, which alone call this.
fn ask(socket: BorrowedFd<'_>, interface: &str, request: &mut [u8]) -> nix::Result<()> {
    if interface.is_empty() || interface.len() >= NAME_LEN {
        return Err(nix::errno::Errno::ENODEV);
    }
    // SAFETY: `ifreq` is plain old data for which all zeroes is a value.
    let mut ifreq: ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as _;
    }
    ifreq.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    // SAFETY: the kernel reads and writes `ifreq`, which lives here, and through `ifru_data` the
    // buffer, which is borrowed for the call and long enough for the command's answer.
    unsafe { siocethtool(socket.as_raw_fd(), &raw mut ifreq) }.map(drop)
}

fn put(buffer: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = buffer.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn u32_at(buffer: &[u8], at: usize) -> u32 {
    let bytes = buffer.get(at..at + 4).and_then(|b| b.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes)
}

fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or(&[]);
    String::from_utf8_lossy(text).into_owned()
}

/// The driver's name (ETHTOOL_GDRVINFO).
pub fn driver(socket: BorrowedFd<'_>, interface: &str) -> nix::Result<String> {
    // Larger than the structure: it has been extended within its reserve before.
    let mut request = vec![0; DRVINFO_LEN + 256];
    put(&mut request, 0, &GDRVINFO.to_ne_bytes());
    ask(socket, interface, &mut request)?;
    Ok(text(request.get(4..36).unwrap_or(&[])))
}

/// How many statistics there are now (ETHTOOL_GSSET_INFO); 0 where the driver has none.
pub fn count(socket: BorrowedFd<'_>, interface: &str) -> nix::Result<u32> {
    // cmd, reserved, sset_mask (u64), then a u32 for each bit of the mask.
    let mut request = vec![0; 16 + 64 * 4];
    put(&mut request, 0, &GSSET_INFO.to_ne_bytes());
    put(&mut request, 8, &(1u64 << STATISTICS).to_ne_bytes());
    ask(socket, interface, &mut request)?;
    // A set that the driver does not have is cleared from the mask.
    let had = request
        .get(8..16)
        .is_some_and(|mask| mask.iter().any(|b| *b != 0));
    Ok(if had { u32_at(&request, 16) } else { 0 })
}

/// Names of the statistics (ETHTOOL_GSTRINGS). None where their number is not `count` any more.
pub fn names(
    socket: BorrowedFd<'_>,
    interface: &str,
    count: u32,
) -> nix::Result<Option<Vec<String>>> {
    let room = room(count).ok_or(nix::errno::Errno::EOVERFLOW)?;
    let mut request = vec![0; STRINGS_HEAD + room * STRING_LEN];
    put(&mut request, 0, &GSTRINGS.to_ne_bytes());
    put(&mut request, 4, &STATISTICS.to_ne_bytes());
    put(&mut request, 8, &count.to_ne_bytes());
    ask(socket, interface, &mut request)?;
    if u32_at(&request, 8) != count {
        return Ok(None);
    }
    let strings = request.get(STRINGS_HEAD..).unwrap_or(&[]);
    let strings = strings.chunks_exact(STRING_LEN).take(count as usize);
    Ok(Some(strings.map(text).collect()))
}

/// Values of the statistics (ETHTOOL_GSTATS). None where their number is not `count` any more.
pub fn values(
    socket: BorrowedFd<'_>,
    interface: &str,
    count: u32,
) -> nix::Result<Option<Vec<u64>>> {
    let room = room(count).ok_or(nix::errno::Errno::EOVERFLOW)?;
    let mut request = vec![0; STATS_HEAD + room * 8];
    put(&mut request, 0, &GSTATS.to_ne_bytes());
    put(&mut request, 4, &count.to_ne_bytes());
    ask(socket, interface, &mut request)?;
    if u32_at(&request, 4) != count {
        return Ok(None);
    }
    let values = request.get(STATS_HEAD..).unwrap_or(&[]);
    let values = values.chunks_exact(8).take(count as usize);
    Ok(Some(
        values
            .map(|value| value.try_into().map_or(0, u64::from_ne_bytes))
            .collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_ample_and_bounded() {
        assert_eq!(room(0), Some(1 << 16));
        assert_eq!(room(40_000), Some(80_000));
        assert_eq!(room(MAX_COUNT), Some(1 << 19));
        assert_eq!(room(MAX_COUNT + 1), None);
    }
}
