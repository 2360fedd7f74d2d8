//! RDMA netlink events (RDMA_NLDEV_CMD_MONITOR, Linux 6.12). They announce devices and their
//! network devices; no kernel sends one for a port's state.

use super::socket::Socket;
use super::{Reply, rdma};
use nix::sys::socket::SockProtocol;
use std::time::Duration;

const CMD_MONITOR: u16 = rdma::NLDEV | 28;
/// Bit of RDMA_NL_GROUP_NOTIFY (4).
const NOTIFY: u32 = 1 << 3;

/// Joins the group of RDMA events of this network namespace. Kernels without events accept that and stay
/// silent, see [`is_supported`].
pub fn subscribe() -> Reply<Socket> {
    Socket::with_groups(SockProtocol::NetlinkRDMA, NOTIFY)
}

/// Whether the kernel sends events at all.
pub fn is_supported() -> Reply<bool> {
    Ok(rdma::Client::open()?.system()?.monitor)
}

/// Waits for events, at most `timeout` (and at most 65 s). True if devices may have changed: an event
/// came, or events were lost. What changed is read afterwards.
pub fn changed(socket: &mut Socket, timeout: Duration) -> Reply<bool> {
    let mut changed = false;
    let lost = socket.events(timeout, |message| changed |= message.kind == CMD_MONITOR)?;
    Ok(changed || lost)
}
