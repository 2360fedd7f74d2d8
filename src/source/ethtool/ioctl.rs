//! The ETHTOOL ioctl (include/uapi/linux/ethtool.h): the one system call here that `nix` has no
//! safe form of. Four reading commands can be made, nothing else; none needs a capability.
#![expect(
    unsafe_code,
    reason = "SIOCETHTOOL takes a pointer to a buffer that the kernel fills; no safe binding exists"
)]

use crate::source::{netlink::u32_at, parse::until_nul};
use nix::errno::Errno;
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
        return Err(Errno::ENODEV);
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

/// Writes `head` at the start of a zeroed request of so many bytes.
fn request(head: &[u8], len: usize) -> Vec<u8> {
    let mut request = head.to_vec();
    request.resize(len.max(head.len()), 0);
    request
}

/// The driver's name (ETHTOOL_GDRVINFO).
pub fn driver(socket: BorrowedFd<'_>, interface: &str) -> nix::Result<String> {
    // Larger than the structure: it has been extended within its reserve before.
    let mut request = request(&GDRVINFO.to_ne_bytes(), DRVINFO_LEN + 256);
    ask(socket, interface, &mut request)?;
    Ok(until_nul(request.get(4..36).unwrap_or(&[])))
}

/// How many statistics there are now (ETHTOOL_GSSET_INFO); 0 where the driver has none.
pub fn count(socket: BorrowedFd<'_>, interface: &str) -> nix::Result<u32> {
    // cmd, reserved, sset_mask (u64), then a u32 for each bit of the mask.
    let mask = (1u64 << STATISTICS).to_ne_bytes();
    let head = [&GSSET_INFO.to_ne_bytes()[..], &[0; 4], &mask].concat();
    let mut request = request(&head, 16 + 64 * 4);
    ask(socket, interface, &mut request)?;
    // A set that the driver does not have is cleared from the mask, and its number stays 0.
    Ok(u32_at(&request, 16).unwrap_or(0))
}

/// Names of the statistics (ETHTOOL_GSTRINGS). `EAGAIN` where their number is not `count` any more.
pub fn names(socket: BorrowedFd<'_>, interface: &str, count: u32) -> nix::Result<Vec<String>> {
    let head = [GSTRINGS.to_ne_bytes(), STATISTICS.to_ne_bytes()].concat();
    let strings = list(socket, interface, &head, count, STRING_LEN)?;
    Ok(parse_names(&strings))
}

/// Names out of the kernel's fixed fields.
pub fn parse_names(strings: &[u8]) -> Vec<String> {
    strings.chunks_exact(STRING_LEN).map(until_nul).collect()
}

/// Values of the statistics (ETHTOOL_GSTATS). `EAGAIN` where their number is not `count` any more.
pub fn values(socket: BorrowedFd<'_>, interface: &str, count: u32) -> nix::Result<Vec<u64>> {
    let values = list(socket, interface, &GSTATS.to_ne_bytes(), count, 8)?;
    Ok(parse_values(&values))
}

/// Numbers as the kernel writes them.
pub fn parse_values(values: &[u8]) -> Vec<u64> {
    let values = values.chunks_exact(8);
    let numbers = values.map(|value| value.try_into().map_or(0, u64::from_ne_bytes));
    numbers.collect()
}

/// `count` items of so many bytes, which follow the count that ends the head.
fn list(
    socket: BorrowedFd<'_>,
    interface: &str,
    head: &[u8],
    count: u32,
    size: usize,
) -> nix::Result<Vec<u8>> {
    let room = room(count).ok_or(Errno::EOVERFLOW)?;
    let head = [head, &count.to_ne_bytes()].concat();
    let mut request = request(&head, head.len() + room * size);
    ask(socket, interface, &mut request)?;
    items(&request, head.len(), count, size).map(<[u8]>::to_vec)
}

/// The items of an answer with a head of so many bytes.
pub fn items(answer: &[u8], head: usize, count: u32, size: usize) -> nix::Result<&[u8]> {
    let items = answer.get(head..head + count as usize * size);
    match u32_at(answer, head - 4) == Some(count) {
        true => items.ok_or(Errno::EOVERFLOW),
        false => Err(Errno::EAGAIN),
    }
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
