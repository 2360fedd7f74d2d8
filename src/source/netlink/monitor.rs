//! RDMA netlink events (RDMA_NLDEV_CMD_MONITOR, Linux 6.12). They announce devices and their
//! network devices; no kernel sends one for a port's state.

use super::Answer;
use super::rdma::{Client, NLDEV};
use super::socket::Socket;
use nix::sys::socket::SockProtocol;
use std::time::Duration;

const CMD_MONITOR: u16 = NLDEV | 28;
/// Bit of RDMA_NL_GROUP_NOTIFY (4).
const NOTIFY: u32 = 1 << 3;

/// Listens to RDMA events of this network namespace.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    /// Whether the kernel sends events at all.
    pub supported: bool,
}

impl Monitor {
    /// Joins the group. Kernels without events accept that and stay silent, see
    /// `supported`.
    pub fn open() -> Answer<Self> {
        let socket = Socket::with_groups(SockProtocol::NetlinkRDMA, NOTIFY)?;
        let supported = Client::open()?.system()?.monitor;
        Ok(Monitor { socket, supported })
    }

    /// Waits for events, at most `timeout` (and at most 65 s). True if devices may have changed: an
    /// event came, or events were lost. What changed is read afterwards.
    pub fn wait(&mut self, timeout: Duration) -> Answer<bool> {
        let mut changed = false;
        let lost = self
            .socket
            .events(timeout, |message| changed |= message.kind == CMD_MONITOR)?;
        Ok(changed || lost)
    }
}
