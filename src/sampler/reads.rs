//! One blocking read per kind of subject: the bridge from `source/` to facts. Each value owns its
//! descriptors and sockets, so that a read that hangs holds nobody else's.

use super::reading::Output;
use crate::host::Host;
use crate::observe::counters::PmaSkip;
use crate::observe::netdev::OvsRoute;
use crate::observe::rdma::RdmaDevice;
use crate::observe::reading::Reading;
use crate::source::netlink::{NetlinkError, dcb, rdma};
use crate::source::{
    counters, dot1x, ethtool, gids, gpudirect, gvnic, infiniband, link, netdev, ovs, pci, replay,
    vf,
};
use crate::units::Bdf;
use std::collections::{BTreeMap, BTreeSet};

/// With state out of netlink, the `rate` file (firmware commands) is read when the state changed
/// and every so many looks.
const RATE_EVERY: u32 = 15;

/// A blocking read of one subject.
pub trait Read: Send {
    /// Reads once.
    fn read(&mut self, host: &Host) -> Output;

    /// The kernel said that names or layouts may have changed.
    fn invalidate(&mut self) {}
}

/// Whether RDMA netlink may be asked.
pub fn netlink_allowed(host: &Host, wanted: bool) -> bool {
    wanted && host.is_live()
}

/// Enumerates devices.
pub struct DevicesRead {
    /// Ask RDMA netlink too.
    pub netlink: bool,
}

impl Read for DevicesRead {
    fn read(&mut self, host: &Host) -> Output {
        let mut devices = infiniband::enumerate(host);
        let mut netns_mode = None;
        if netlink_allowed(host, self.netlink)
            && let Ok(mut client) = rdma::Client::open()
        {
            netns_mode = client.system().ok().and_then(|system| system.netns_mode);
            if let (Reading::Value(devices), Ok(known)) = (&mut devices, client.devices()) {
                for device in devices.iter_mut() {
                    device.index = known
                        .iter()
                        .find(|known| known.name == device.name)
                        .map(|known| known.index);
                }
            }
        }
        if let Reading::Value(devices) = &mut devices {
            devices.extend(gvnic::enumerate(host));
        }
        let netdevs = devices
            .value()
            .map(|devices| netdev::of_rdma(host, devices))
            .unwrap_or_default();
        Output::Devices {
            devices,
            left_out: infiniband::left_out(host),
            netns_mode,
            netdevs,
        }
    }
}

/// Reads the state of one device's ports. Nothing is opened before the first read, which runs
/// where it may block.
pub struct LinkRead {
    device: RdmaDevice,
    netlink: bool,
    open: Option<(link::LinkReader, Option<rdma::Client>)>,
}

impl LinkRead {
    /// A reader of `device`.
    pub fn new(device: &RdmaDevice, netlink: bool) -> Self {
        LinkRead {
            device: device.clone(),
            netlink,
            open: None,
        }
    }
}

impl Read for LinkRead {
    fn read(&mut self, host: &Host) -> Output {
        let (reader, client) = self.open.get_or_insert_with(|| {
            (
                link::LinkReader::new(host, &self.device, RATE_EVERY),
                client_for(host, &self.device, self.netlink),
            )
        });
        let mut known = None;
        if let (Some(client), Some(index)) = (client, self.device.index) {
            let count = u32::try_from(self.device.ports.len()).unwrap_or(u32::MAX);
            match client.ports(index, &self.device.name, count) {
                Ok(ports) => {
                    known = Some(
                        ports
                            .into_iter()
                            .filter_map(|(number, port)| {
                                port.ok().map(|port| (number, port.state, port.phys_state))
                            })
                            .collect::<Vec<_>>(),
                    );
                }
                Err(error) => tracing::debug!(device = %self.device.name, %error, "PORT_GET"),
            }
        }
        Output::Link(reader.read(host, known.as_deref()))
    }
}

/// Reads the state of a gVNIC's port.
pub struct GvnicRead {
    device: RdmaDevice,
    reader: Option<gvnic::GvnicLinkReader>,
}

impl GvnicRead {
    /// A reader of `device`.
    pub fn new(device: &RdmaDevice) -> Self {
        GvnicRead {
            device: device.clone(),
            reader: None,
        }
    }
}

impl Read for GvnicRead {
    fn read(&mut self, host: &Host) -> Output {
        let reader = self
            .reader
            .get_or_insert_with(|| gvnic::GvnicLinkReader::new(host, &self.device));
        Output::Link(vec![(1, reader.read(host))])
    }
}

/// Reads the counters of one device.
pub struct CountersRead {
    device: RdmaDevice,
    netlink: bool,
    essential_only: bool,
    skip: BTreeMap<u32, PmaSkip>,
    /// Ports whose counters netlink does not have: not asked again.
    without_netlink: BTreeSet<u32>,
    open: Option<(counters::CounterReader, Option<rdma::Client>)>,
}

impl CountersRead {
    /// A reader of `device`; `skip` names ports whose PMA counters stay unopened.
    pub fn new(
        device: &RdmaDevice,
        netlink: bool,
        essential_only: bool,
        skip: BTreeMap<u32, PmaSkip>,
    ) -> Self {
        CountersRead {
            device: device.clone(),
            netlink,
            essential_only,
            skip,
            without_netlink: BTreeSet::new(),
            open: None,
        }
    }
}

impl Read for CountersRead {
    fn read(&mut self, host: &Host) -> Output {
        let (reader, client) = self.open.get_or_insert_with(|| {
            (
                counters::CounterReader::new(&self.device, |port| self.skip.get(&port).copied())
                    .essential_only(self.essential_only),
                client_for(host, &self.device, self.netlink),
            )
        });
        let mut hardware = None;
        if let (Some(client), Some(index)) = (client, self.device.index) {
            let mut by_port = BTreeMap::new();
            let open = |port: &&crate::observe::rdma::RdmaPort| {
                self.skip.get(&port.number) != Some(&PmaSkip::Excluded)
                    && !self.without_netlink.contains(&port.number)
            };
            let wanted: Vec<u32> = self
                .device
                .ports
                .iter()
                .filter(open)
                .map(|port| port.number)
                .collect();
            for port in wanted {
                match client.counters(index, &self.device.name, port) {
                    Ok(counters) => {
                        by_port.insert(port, counters);
                    }
                    Err(NetlinkError::NotAvailable) => {
                        self.without_netlink.insert(port);
                    }
                    Err(error) => {
                        tracing::debug!(device = %self.device.name, port, %error, "STAT_GET");
                    }
                }
            }
            if !by_port.is_empty() {
                hardware = Some(by_port);
            }
        }
        let ports = reader.read(host, hardware);
        Output::Counters {
            restricted: reader.newly_restricted(),
            ports,
        }
    }
}

fn client_for(host: &Host, device: &RdmaDevice, netlink: bool) -> Option<rdma::Client> {
    device.index?;
    if !netlink_allowed(host, netlink) {
        return None;
    }
    rdma::Client::open().ok()
}

/// Reads GID tables of one device.
pub struct GidsRead {
    /// The device.
    pub device: RdmaDevice,
}

impl Read for GidsRead {
    fn read(&mut self, host: &Host) -> Output {
        Output::Gids(
            self.device
                .ports
                .iter()
                .map(|port| (port.number, gids::read(host, &self.device, port.number)))
                .collect(),
        )
    }
}

/// Reads one network device.
pub struct NetdevRead {
    name: String,
    reader: Option<netdev::NetdevReader>,
    /// Reads until the routing tables, which can be long, are looked at again.
    routes_in: u32,
    default_route: bool,
    ovs_route: Option<OvsRoute>,
}

/// Reads of an interface for one look at the routing tables.
const ROUTES_EVERY: u32 = 12;

impl NetdevRead {
    /// A reader of `name`.
    pub fn new(name: &str) -> Self {
        NetdevRead {
            name: name.to_string(),
            reader: None,
            routes_in: 0,
            default_route: false,
            ovs_route: None,
        }
    }
}

impl Read for NetdevRead {
    fn read(&mut self, host: &Host) -> Output {
        let mut facts = self
            .reader
            .get_or_insert_with(|| netdev::NetdevReader::new(host, &self.name))
            .read(host);
        if self.routes_in > 0 {
            self.routes_in -= 1;
        } else if let Reading::Value(routes) = netdev::default_route_devices(host) {
            self.routes_in = ROUTES_EVERY;
            self.default_route = routes.contains(&self.name)
                || facts
                    .master
                    .as_ref()
                    .is_some_and(|master| routes.contains(master));
            self.ovs_route = ovs::route_over(host, &routes, &self.name);
        }
        facts.default_route = self.default_route;
        facts.ovs_route.clone_from(&self.ovs_route);
        Output::Netdev(facts)
    }
}

/// Reads ethtool statistics.
pub struct EthtoolRead {
    name: String,
    reader: ethtool::StatsReader,
}

impl EthtoolRead {
    /// A reader of `name`.
    pub fn new(name: &str) -> Self {
        EthtoolRead {
            name: name.to_string(),
            reader: ethtool::StatsReader::new(name),
        }
    }
}

impl Read for EthtoolRead {
    fn read(&mut self, host: &Host) -> Output {
        Output::Ethtool(if host.is_live() {
            self.reader.read()
        } else {
            replay::ethtool(host, &self.name)
        })
    }

    fn invalidate(&mut self) {
        self.reader.names_may_have_changed();
    }
}

/// Reads DCB settings.
pub struct DcbRead {
    /// Network device.
    pub name: String,
}

impl Read for DcbRead {
    fn read(&mut self, host: &Host) -> Output {
        Output::Dcb(if host.is_live() {
            dcb::read(&self.name)
        } else {
            replay::dcb(host, &self.name)
        })
    }
}

/// Asks the supplicants.
pub struct Dot1xRead {
    /// Network devices of RDMA ports.
    pub names: BTreeSet<String>,
}

impl Read for Dot1xRead {
    fn read(&mut self, host: &Host) -> Output {
        Output::Dot1x(dot1x::read(host, &self.names))
    }
}

/// Reads link states of virtual functions.
pub struct VfLinksRead {
    /// Network device of the physical function.
    pub name: String,
}

impl Read for VfLinksRead {
    fn read(&mut self, host: &Host) -> Output {
        Output::VfLinks(vf::links(host, &self.name))
    }
}

/// Scans PCI.
pub struct PciRead {
    /// Functions of RDMA devices.
    pub rdma: BTreeSet<Bdf>,
}

impl Read for PciRead {
    fn read(&mut self, host: &Host) -> Output {
        let rdma: Vec<Bdf> = self.rdma.iter().copied().collect();
        Output::Pci(pci::scan(host, &rdma))
    }
}

/// Reads the GPUDirect path.
pub struct GpuDirectRead;

impl Read for GpuDirectRead {
    fn read(&mut self, host: &Host) -> Output {
        Output::GpuDirect(gpudirect::read(host))
    }
}
