//! RDMA devices and their queue pairs, as the watch asks for them.

use super::queue_pairs::Device;
use crate::host::Host;
use crate::observe::snapshot::NetnsMode;
use crate::source::netlink::NetlinkError;
use crate::source::netlink::rdma::Client;
use crate::source::netlink::rdma::queue_pairs::QueuePair;

/// What the watch asks of RDMA netlink; a test may answer itself.
pub trait RdmaView {
    /// Devices seen from here with their numbers; or why that is not known.
    fn devices(&mut self) -> Result<Vec<Device>, String>;
    /// Whether devices may be hidden in other network namespaces; none: this kernel has no such
    /// mode (before 5.2). Or why that is not known.
    fn exclusive(&mut self) -> Result<Option<bool>, String>;
    /// Every queue pair of a device; or why not.
    fn queue_pairs(&mut self, device: &Device) -> Result<Vec<QueuePair>, String>;
}

/// The kernel's answers.
#[derive(Debug, Default)]
pub struct Netlink {
    client: Option<Client>,
    live: bool,
}

impl Netlink {
    /// Asks the running kernel; of a directory tree nothing is known.
    pub fn new(host: &Host) -> Self {
        Netlink {
            client: None,
            live: host.is_live(),
        }
    }

    fn client(&mut self) -> Result<&mut Client, NetlinkError> {
        if !self.live {
            return Err(NetlinkError::NotAvailable);
        }
        match &mut self.client {
            Some(client) => Ok(client),
            none => Ok(none.insert(Client::open()?)),
        }
    }

    /// After a failure the socket may hold the rest of an answer: the next request gets another.
    fn asked<T>(&mut self, what: &str, got: Result<T, NetlinkError>) -> Result<T, String> {
        got.map_err(|error| {
            self.client = None;
            format!("{what}: {error}")
        })
    }
}

impl RdmaView for Netlink {
    fn devices(&mut self) -> Result<Vec<Device>, String> {
        let client = match self.client() {
            Ok(client) => client,
            // Without ib_core there are no devices.
            Err(NetlinkError::NotSupported) => return Ok(Vec::new()),
            Err(error) => return Err(format!("RDMA netlink: {error}")),
        };
        let got = client.devices().and_then(|devices| {
            let mut all = Vec::with_capacity(devices.len());
            for device in devices {
                let counts = match client.resources(device.index) {
                    Ok(counts) => counts,
                    // It went between the two.
                    Err(NetlinkError::Gone) => continue,
                    Err(error) => return Err(error),
                };
                all.push(Device {
                    index: device.index,
                    name: device.name,
                    ports: device.ports,
                    qps: counts.get("qp").copied().unwrap_or(0),
                    contexts: counts.get("ctx").copied(),
                });
            }
            Ok(all)
        });
        self.asked("RDMA netlink", got)
    }

    fn exclusive(&mut self) -> Result<Option<bool>, String> {
        let got = match self.client().and_then(Client::system) {
            Ok(system) => Ok(system.netns_mode),
            Err(NetlinkError::NotAvailable | NetlinkError::NotSupported) => Ok(None),
            Err(error) => Err(error),
        };
        let mode = self.asked("RDMA netlink", got)?;
        Ok(mode.map(|mode| mode == NetnsMode::Exclusive))
    }

    fn queue_pairs(&mut self, device: &Device) -> Result<Vec<QueuePair>, String> {
        let got = self
            .client()
            .and_then(|client| client.queue_pairs(device.index, &device.name));
        self.asked("queue pairs", got)
    }
}
