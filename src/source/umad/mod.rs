//! What is at the other end of an InfiniBand port's cable, by `/dev/infiniband/umadN`: two requests
//! for management (SMPs) with a route of one hop, which no switch forwards and no LID is needed for.
//! A process that may open the device can also reconfigure the fabric, so the agent rarely may. Absent in a
//! directory tree.

mod ioctl;
#[cfg(test)]
mod tests;

use super::parse::{self, clean, until_nul};
use super::{netlink, rdma_port, tree};
use crate::host::Host;
use crate::observe::{LinkLayer, Neighbor, PortState, RdmaDevice, RdmaPort, Reading};
use nix::libc::O_NONBLOCK;
use nix::poll::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Management class: SMPs with a directed route.
const DIRECTED_ROUTE: u8 = 0x81;

/// Methods: `SubnGet()` and `SubnGetResp()`.
const GET: u8 = 0x01;
const GET_RESPONSE: u8 = 0x81;

/// Attributes of a node (IBA 14.2.5).
const NODE_DESCRIPTION: u16 = 0x10;
const NODE_INFO: u16 = 0x11;

/// Size in bytes of `struct ib_user_mad_hdr`, which the MAD follows.
const HEADER: usize = 64;
/// Size of a MAD, which has no length of its own.
const MAD: usize = 256;

/// How long the kernel waits for an answer. A switch takes well below a millisecond.
const TIMEOUT_MS: u8 = 80;
/// How long the kernel's word is waited for, in milliseconds; a port has two requests.
const WAIT_MS: u8 = 100;

/// Most ports of one device asked: what no port answers takes their waits together.
const MAX_PORTS: usize = 16;

/// What is at the other end of each active InfiniBand port of a device, by port number; left out
/// where nothing answers. Absent where none of their umad devices may be used.
pub fn neighbors(host: &Host, device: &RdmaDevice) -> Reading<Vec<(u32, Neighbor)>> {
    if !host.is_live() {
        return Reading::Absent;
    }
    let ports = (device.ports.iter()).filter(|port| port.link_layer == LinkLayer::Infiniband);
    let state = |port: &RdmaPort| rdma_port::state(host, &device.name, port.number);
    let active = ports.filter(|port| state(port).into_value().is_some_and(PortState::is_up));
    let asked = active.map(|port| (port.number, ask(host, &device.name, port.number)));
    let asked: Vec<_> = asked.take(MAX_PORTS).collect();
    for (port, answer) in &asked {
        if let Err(error) = answer {
            tracing::debug!(device = %device.name, port, %error, "umad cannot be used");
        }
    }
    if !asked.is_empty() && asked.iter().all(|(_, answer)| answer.is_err()) {
        return Reading::Absent;
    }
    let answers = asked.into_iter();
    let found = answers.filter_map(|(port, answer)| Some((port, answer.ok()??)));
    Reading::Value(found.collect())
}

fn ask(host: &Host, device: &str, port: u32) -> io::Result<Option<Neighbor>> {
    let path = device_node(host, device, port).ok_or(io::ErrorKind::NotFound)?;
    let mut options = File::options();
    let umad = (options.read(true).write(true).custom_flags(O_NONBLOCK)).open(path)?;
    let agent = ioctl::register(umad.as_fd())?;
    let port = u8::try_from(port).map_err(io::Error::other)?;
    let info = exchange(&umad, &request(agent, NODE_INFO, port))?;
    if info.is_empty() {
        return Ok(None);
    }
    let description = exchange(&umad, &request(agent, NODE_DESCRIPTION, port))?;
    Ok(parse(&info, &description))
}

/// The port's device below `/dev/infiniband`.
fn device_node(host: &Host, device: &str, port: u32) -> Option<PathBuf> {
    let class = Path::new("sys/class/infiniband_mad");
    // The class also has `issmN`, which make their opener a subnet manager.
    let names = tree::names(host, class).into_iter();
    let mut names = names.filter(|name| name.starts_with("umad"));
    let name = names.find(|name| {
        let at = |file: &str| class.join(name).join(file);
        parse::word(host, at("ibdev")).as_deref() == Some(device)
            && parse::decimal(host, at("port")) == Some(port)
    })?;
    Some(host.path(Path::new("dev/infiniband").join(name)))
}

/// Sends a request; empty where no answer comes in time.
fn exchange(mut umad: &File, request: &[u8]) -> io::Result<Vec<u8>> {
    umad.write_all(request)?;
    let mut ready = [PollFd::new(umad.as_fd(), PollFlags::POLLIN)];
    if poll(&mut ready, WAIT_MS)? == 0 {
        return Ok(Vec::new());
    }
    let mut answer = vec![0; HEADER + MAD];
    let length = umad.read(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

/// A question to the node at the other end of the port's cable: `struct ib_user_mad_hdr` and the SMP
/// (IBA 14.2.1.2).
fn request(agent: u32, attribute: u16, port: u8) -> Vec<u8> {
    // status, timeout, retries and length follow the agent's id; then QP 0 and no Q_Key.
    let words = [agent, 0, TIMEOUT_MS.into(), 0, 0, 0, 0];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    // The permissive LID.
    bytes.extend([0xff; 2]);
    bytes.resize(HEADER, 0);
    // Versions of base and class; no status; hop pointer and count.
    bytes.extend([1, DIRECTED_ROUTE, 1, GET, 0, 0, 0, 1]);
    // Its ID, of which the kernel sets the upper half, differs where the attribute does.
    bytes.extend(u64::from(attribute).to_be_bytes());
    bytes.extend(attribute.to_be_bytes());
    // No modifier, no M_Key.
    bytes.resize(HEADER + 32, 0);
    // Source and destination: the route begins and ends outside of any LID-routed part.
    bytes.extend([0xff; 4]);
    bytes.resize(HEADER + 128, 0);
    // Initial path: its entry 0 is unused.
    bytes.extend([0, port]);
    bytes.resize(HEADER + MAD, 0);
    bytes
}

/// The neighbor, from its answers with NodeInfo and NodeDescription.
pub fn parse(info: &[u8], description: &[u8]) -> Option<Neighbor> {
    let info = attribute_data(info, NODE_INFO)?;
    let guid = u64::from_be_bytes(*info.get(12..)?.first_chunk()?);
    let port = info.get(36)?.to_string();
    let guid = (guid != 0).then(|| format!("{guid:#018x}"))?;
    let name = clean(&until_nul(attribute_data(description, NODE_DESCRIPTION)?));
    Some(Neighbor {
        switch: name.unwrap_or_else(|| guid.clone()),
        switch_port: port.clone(),
        description: None,
        ids: (guid, port),
    })
}

/// The attribute that an answer carries; none where the request failed or timed out.
fn attribute_data(answer: &[u8], attribute: u16) -> Option<&[u8]> {
    let (header, mad) = answer.split_at_checked(HEADER)?;
    let [_, class, _, method, high, low, .., a, b] = mad.first_chunk::<18>()?;
    // The first bit of the status is the answer's direction.
    let failed = netlink::u32_at(header, 4)? != 0 || (high & 0x7f, *low) != (0, 0);
    let asked = (DIRECTED_ROUTE, GET_RESPONSE, attribute);
    let is_answer = (*class, *method, u16::from_be_bytes([*a, *b])) == asked;
    mad.get(64..128).filter(|_| is_answer && !failed)
}
