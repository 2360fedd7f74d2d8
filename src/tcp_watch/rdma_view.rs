//! RDMA devices and their queue pairs, as the watch needs them.

use crate::host::Host;
use crate::source::netlink::rdma::Client;
use crate::source::netlink::rdma::queue_pairs::{QpKind, QpOwner, QueuePair};
use crate::source::netlink::{NetlinkError, Reply};
use crate::source::replay::{self, DeviceQueuePairs, QueuePairs};

/// One device, with the numbers that cost no firmware command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Index, for this look only.
    pub index: u32,
    /// Name of the device.
    pub name: String,
    /// Number of ports, as the device's kernel entry has it.
    pub ports: u32,
    /// Queue pairs, the kernel's own too.
    pub qps: u64,
    /// Contexts of processes; `None` where the kernel does not count them (before 5.0).
    pub contexts: Option<u64>,
}

impl Usage {
    /// Whether a process may own one of its queue pairs.
    pub(super) fn has_users(&self) -> bool {
        self.qps > 0 && self.contexts != Some(0)
    }
}

/// The part of RDMA netlink that the watch needs; tests have their own.
pub(crate) trait RdmaView {
    /// Visible devices with their numbers, and whether others may be hidden in other network namespaces;
    /// `None` if this kernel has no such mode (before 5.2). Or why they are unknown.
    fn devices(&mut self) -> Result<(Vec<Usage>, Option<bool>), String>;
    /// Every queue pair of a device; or why they cannot be listed.
    fn queue_pairs(&mut self, device: &Usage) -> Result<Vec<QueuePair>, String>;
}

/// Reads queue pairs by RDMA netlink.
#[derive(Debug, Default)]
pub(crate) struct Netlink {
    client: Option<Client>,
    /// A directory tree in place of a host.
    tree: Option<Host>,
}

impl Netlink {
    /// For the running kernel; a directory tree answers from what was recorded in it.
    pub(crate) fn new(host: &Host) -> Self {
        let tree = (!host.is_live()).then(|| host.clone());
        Netlink { client: None, tree }
    }

    fn client(&mut self) -> Reply<&mut Client> {
        if self.tree.is_some() {
            return Err(NetlinkError::NotAvailable);
        }
        match &mut self.client {
            Some(client) => Ok(client),
            none => Ok(none.insert(Client::open()?)),
        }
    }

    fn recorded(&self) -> Option<QueuePairs> {
        replay::json(self.tree.as_ref()?, replay::QUEUE_PAIRS).into_value()
    }

    /// After a failure the socket may hold the rest of an answer: the next request gets a new one.
    fn asked<T>(&mut self, what: &str, got: Reply<T>) -> Result<T, String> {
        got.map_err(|error| {
            self.client = None;
            format!("{what}: {error}")
        })
    }
}

impl RdmaView for Netlink {
    fn devices(&mut self) -> Result<(Vec<Usage>, Option<bool>), String> {
        if let Some(recorded) = self.recorded() {
            return Ok((recorded_devices(&recorded), recorded.exclusive));
        }
        let client = match self.client() {
            Ok(client) => client,
            // No devices exist without ib_core.
            Err(NetlinkError::NotSupported) => return Ok(Default::default()),
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
                all.push(Usage {
                    index: device.index,
                    name: device.name,
                    ports: device.ports,
                    qps: counts.get("qp").copied().unwrap_or(0),
                    contexts: counts.get("ctx").copied(),
                });
            }
            let exclusive = match client.system() {
                Ok(system) => system.netns_exclusive,
                Err(NetlinkError::NotAvailable | NetlinkError::NotSupported) => None,
                Err(error) => return Err(error),
            };
            Ok((all, exclusive))
        });
        self.asked("RDMA netlink", got)
    }

    fn queue_pairs(&mut self, device: &Usage) -> Result<Vec<QueuePair>, String> {
        if let Some(recorded) = self.recorded() {
            return Ok(recorded_pairs(&recorded, &device.name));
        }
        let client = self.client();
        let got = client.and_then(|client| client.queue_pairs(device.index, &device.name));
        self.asked("queue pairs", got)
    }
}

fn recorded_devices(recorded: &QueuePairs) -> Vec<Usage> {
    let device = |(device, index): (&DeviceQueuePairs, u32)| Usage {
        index,
        name: device.name.clone(),
        ports: device.ports,
        qps: device.connected.len() as u64,
        contexts: None,
    };
    recorded.devices.iter().zip(0..).map(device).collect()
}

fn recorded_pairs(recorded: &QueuePairs, name: &str) -> Vec<QueuePair> {
    let device = recorded.devices.iter().find(|device| device.name == name);
    let owners = device.into_iter().flat_map(|device| &device.connected);
    let queue_pair = |pid: &u32| QueuePair {
        kind: QpKind::Rc,
        ready: true,
        owner: QpOwner::Task(*pid),
    };
    owners.map(queue_pair).collect()
}
