//! Registration with a umad device (include/uapi/rdma/ib_user_mad.h), of which `nix` has no safe form.
#![expect(
    unsafe_code,
    reason = "IB_USER_MAD_REGISTER_AGENT takes a pointer to a structure that the kernel fills"
)]

use super::DIRECTED_ROUTE;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `RDMA_IOCTL_MAGIC`.
const MAGIC: u8 = 0x1b;

/// `struct ib_user_mad_reg_req`, 28 bytes: id, four words of method mask, then QP number, class, its
/// version, OUI and RMPP version, a byte each but the OUI.
type Registration = [u32; 7];

nix::ioctl_none!(enable_pkey, MAGIC, 3);
nix::ioctl_readwrite!(register_agent, MAGIC, 1, Registration);

/// Registers an agent on QP 0 that receives the answers to its own requests and nothing else, for as
/// long as the device is open; its id.
pub fn register(device: BorrowedFd<'_>) -> nix::Result<u32> {
    let class = u32::from_ne_bytes([0, DIRECTED_ROUTE, 1, 0]);
    let mut registration: Registration = [0, 0, 0, 0, 0, class, 0];
    let fd = device.as_raw_fd();
    // SAFETY: the first takes no argument; of the second the kernel reads and writes the structure,
    // which lives here and is as long as the request's number says.
    unsafe {
        // Without it headers are shorter, and the kernel logs a warning.
        enable_pkey(fd)?;
        register_agent(fd, &raw mut registration)?;
    }
    let [id, ..] = registration;
    Ok(id)
}
