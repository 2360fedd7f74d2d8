//! RDMA netlink, NLDEV part (include/uapi/rdma/rdma_netlink.h, drivers/infiniband/core/nldev.c).
//! Only GETs, which need no capability.

pub mod queue_pairs;

use super::{Attrs, DUMP, NetlinkError, Reply, Request, socket::Socket};
use crate::observe::{PhysState, PortState};
use nix::sys::socket::SockProtocol;
use std::collections::BTreeMap;

/// `RDMA_NL_NLDEV << 10`: the client's part of a message type.
pub(super) const NLDEV: u16 = 5 << 10;

const CMD_GET: u16 = NLDEV | 1;
const CMD_PORT_GET: u16 = NLDEV | 5;
const CMD_SYS_GET: u16 = NLDEV | 6;
const CMD_RES_GET: u16 = NLDEV | 9;
const CMD_STAT_GET: u16 = NLDEV | 17;

pub(super) const DEV_INDEX: u16 = 1;
pub(super) const DEV_NAME: u16 = 2;
/// The number of ports in CMD_GET, a port's number elsewhere.
pub(super) const PORT_INDEX: u16 = 3;
const LID: u16 = 9;
const SM_LID: u16 = 10;
const PORT_STATE: u16 = 12;
const PORT_PHYS_STATE: u16 = 13;
const RES_SUMMARY: u16 = 15;
const RES_SUMMARY_ENTRY: u16 = 16;
const RES_SUMMARY_ENTRY_NAME: u16 = 17;
const RES_SUMMARY_ENTRY_CURR: u16 = 18;
const SYS_NETNS_MODE: u16 = 66;
const STAT_HWCOUNTERS: u16 = 80;
const STAT_HWCOUNTER_ENTRY: u16 = 81;
const STAT_HWCOUNTER_ENTRY_NAME: u16 = 82;
const STAT_HWCOUNTER_ENTRY_VALUE: u16 = 83;
const SYS_MONITOR_MODE: u16 = 103;

/// One RDMA device in NLDEV's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NlDevice {
    /// Index until the device is registered again; never to be stored.
    pub index: u32,
    /// Its name at the moment.
    pub name: String,
    /// Number of ports; they count from 1.
    pub ports: u32,
}

/// One port in NLDEV's answer, which has no rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NlPort {
    /// Port number, from 1.
    pub port: u32,
    /// Logical state of the link.
    pub state: PortState,
    /// State of the physical layer.
    pub phys_state: PhysState,
    /// LID; InfiniBand ports alone have one here.
    pub lid: Option<u32>,
    /// LID of its subnet manager.
    pub sm_lid: Option<u32>,
}

/// The answer to RDMA_NLDEV_CMD_SYS_GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct System {
    /// Whether a device belongs to one network namespace (RDMA_NLDEV_SYS_ATTR_NETNS_MODE is 0).
    pub netns_exclusive: Option<bool>,
    /// Whether the kernel sends MONITOR events.
    pub monitor: bool,
}

/// A client on a socket of its own. Take one for each device: a hung one holds its caller.
#[derive(Debug)]
pub struct Client {
    socket: Socket,
}

impl Client {
    /// Opens the socket; [`NetlinkError::NotSupported`] where ib_core is not loaded.
    pub fn open() -> Reply<Self> {
        let socket = Socket::open(SockProtocol::NetlinkRDMA)?;
        Ok(Client { socket })
    }

    /// The devices that this network namespace sees.
    pub fn devices(&mut self) -> Reply<Vec<NlDevice>> {
        let request = Request::new(CMD_GET, DUMP);
        self.socket.ask(request, |devices: &mut Vec<_>, message| {
            devices.push(device(message.payload)?);
            Ok(())
        })
    }

    /// One device: [`NetlinkError::Gone`] when there is none of this index.
    pub fn device(&mut self, index: u32) -> Reply<NlDevice> {
        self.one(Request::new(CMD_GET, 0).u32(DEV_INDEX, index), device)
            .map_err(|error| match error {
                // nldev.c answers EINVAL to an index that it does not know.
                NetlinkError::NotAvailable => NetlinkError::Gone,
                other => other,
            })
    }

    /// State of the ports 1 to `count` of a device, of those that can be queried; one by one, since
    /// the kernel's dump stops silently at the first one that cannot. Devices that are registered
    /// again take any free index: `name` shows whether it is still this one's.
    pub fn ports(&mut self, index: u32, name: &str, count: u32) -> Reply<Vec<NlPort>> {
        let mut ports = Vec::new();
        for port in 1..=count.min(u8::MAX.into()) {
            match self.of_port(CMD_PORT_GET, (index, name, port), port_link) {
                Ok(link) => ports.push(link),
                Err(error @ (NetlinkError::Gone | NetlinkError::Timeout)) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(ports)
    }

    /// All hardware counters of a port in one request, refreshed by the driver.
    /// [`NetlinkError::NotAvailable`]: the device has no counters by port (EFA's and switchdev
    /// mlx5's device counters are reachable by files only).
    pub fn counters(&mut self, index: u32, name: &str, port: u32) -> Reply<BTreeMap<String, u64>> {
        self.of_port(CMD_STAT_GET, (index, name, port), counters)
    }

    /// How many objects of each kind are in use: `pd`, `cq`, `qp`, `cm_id`, `mr`, `ctx`, `srq`.
    pub fn resources(&mut self, index: u32) -> Reply<BTreeMap<String, u64>> {
        let request = Request::new(CMD_RES_GET, 0).u32(DEV_INDEX, index);
        let got = self.one(request, resources);
        self.or_gone(index, got)
    }

    /// Settings of the whole RDMA core.
    pub fn system(&mut self) -> Reply<System> {
        self.one(Request::new(CMD_SYS_GET, 0), system)
    }

    /// Asks about one port. [`NetlinkError::Gone`] where the index is another device's by now.
    fn of_port<T>(
        &mut self,
        command: u16,
        (index, name, port): (u32, &str, u32),
        parse: impl Fn(&[u8]) -> Reply<T>,
    ) -> Reply<T> {
        let request = Request::new(command, 0);
        let request = request.u32(DEV_INDEX, index).u32(PORT_INDEX, port);
        let got = self.one(request, |payload| {
            is_of(payload, name)?;
            parse(payload)
        });
        self.or_gone(index, got)
    }

    fn one<T>(&mut self, request: Request, parse: impl Fn(&[u8]) -> Reply<T>) -> Reply<T> {
        let got = self.socket.ask(request, |got: &mut Option<T>, message| {
            *got = Some(parse(message.payload)?);
            Ok(())
        })?;
        got.ok_or(NetlinkError::Malformed("acknowledged without an answer"))
    }

    /// nldev.c answers EINVAL both to "not available" and to "no such device": tells them apart.
    fn or_gone<T>(&mut self, index: u32, got: Reply<T>) -> Reply<T> {
        if let Err(NetlinkError::NotAvailable) = got
            && let Err(NetlinkError::Gone) = self.device(index)
        {
            return Err(NetlinkError::Gone);
        }
        got
    }
}

/// An attribute that the kernel always sends.
fn needed<T>(value: Option<T>) -> Reply<T> {
    value.ok_or(NetlinkError::Malformed("an attribute is missing"))
}

/// Checks that an answer is about the device of this name: the kernel puts it into each
/// (fill_nldev_handle).
fn is_of(payload: &[u8], name: &str) -> Reply<()> {
    match Attrs::parse(payload)?.text(DEV_NAME) {
        Some(other) if other != name => Err(NetlinkError::Gone),
        _ => Ok(()),
    }
}

/// Parses one answer to RDMA_NLDEV_CMD_GET.
pub fn device(payload: &[u8]) -> Reply<NlDevice> {
    let attrs = Attrs::parse(payload)?;
    Ok(NlDevice {
        index: needed(attrs.u32(DEV_INDEX)?)?,
        name: needed(attrs.text(DEV_NAME))?,
        ports: needed(attrs.u32(PORT_INDEX)?)?,
    })
}

/// Parses one answer to RDMA_NLDEV_CMD_PORT_GET.
pub fn port_link(payload: &[u8]) -> Reply<NlPort> {
    let attrs = Attrs::parse(payload)?;
    Ok(NlPort {
        port: needed(attrs.u32(PORT_INDEX)?)?,
        state: PortState::from_id(needed(attrs.u8(PORT_STATE)?)?.into()),
        phys_state: PhysState::from_id(needed(attrs.u8(PORT_PHYS_STATE)?)?.into()),
        lid: attrs.u32(LID)?,
        sm_lid: attrs.u32(SM_LID)?,
    })
}

/// Parses the answer to RDMA_NLDEV_CMD_STAT_GET of a port.
pub fn counters(payload: &[u8]) -> Reply<BTreeMap<String, u64>> {
    let fields = (STAT_HWCOUNTER_ENTRY_NAME, STAT_HWCOUNTER_ENTRY_VALUE);
    numbers(payload, STAT_HWCOUNTERS, STAT_HWCOUNTER_ENTRY, fields)
}

/// Parses the answer to RDMA_NLDEV_CMD_RES_GET.
pub fn resources(payload: &[u8]) -> Reply<BTreeMap<String, u64>> {
    let fields = (RES_SUMMARY_ENTRY_NAME, RES_SUMMARY_ENTRY_CURR);
    numbers(payload, RES_SUMMARY, RES_SUMMARY_ENTRY, fields)
}

/// A nest of entries, each with a name and a number.
fn numbers(
    payload: &[u8],
    table: u16,
    entry: u16,
    (name, value): (u16, u16),
) -> Reply<BTreeMap<String, u64>> {
    let table = needed(Attrs::parse(payload)?.nest(table)?)?;
    (table.iter().filter(|attr| attr.id == entry))
        .map(|attr| {
            let entry = Attrs::parse(attr.bytes)?;
            Ok((needed(entry.text(name))?, needed(entry.u64(value)?)?))
        })
        .collect()
}

/// Parses the answer to RDMA_NLDEV_CMD_SYS_GET.
pub fn system(payload: &[u8]) -> Reply<System> {
    let attrs = Attrs::parse(payload)?;
    Ok(System {
        netns_exclusive: attrs.u8(SYS_NETNS_MODE)?.map(|mode| mode == 0),
        // Kernels without the monitor do not send the attribute.
        monitor: attrs.u8(SYS_MONITOR_MODE)? == Some(1),
    })
}

#[cfg(test)]
mod tests;
