//! Google's virtual NICs (driver gve), which are the GPUs' fabric on machines without any RDMA: A3
//! High and Mega under GPUDirect-TCPX(O). Listed by the functions that the driver holds, since an
//! interface that a pod took into its network namespace is not to be seen from here.

use crate::host::Host;
use crate::observe::rdma::{
    Function, GVNIC_DRIVER, LinkFacts, LinkLayer, LinkRate, PhysState, PortState, RdmaDevice,
    RdmaPort, Via,
};
use crate::observe::reading::Reading;
use crate::source::infiniband::{numa_node, pci_function_dir, pci_id};
use crate::source::netdev::{self, NetdevReader};
use crate::source::{identity, tree};
use crate::units::{Bdf, BitsPerSec, DeviceKey};
use std::collections::BTreeMap;

/// Functions that the driver is bound to: links by address.
pub const DRIVER_DIR: &str = "sys/bus/pci/drivers/gve";

/// Most functions taken; machines have up to nine.
const MAX: usize = 64;

/// All functions bound to gve, by address, each as a device with one Ethernet port.
pub fn enumerate(host: &Host) -> Vec<RdmaDevice> {
    let mut functions: Vec<Bdf> = tree::list(host, DRIVER_DIR)
        .value()
        .into_iter()
        .flatten()
        .filter_map(|name| name.parse().ok())
        .take(MAX)
        .collect();
    if functions.is_empty() {
        return Vec::new();
    }
    functions.sort();
    let interfaces = interfaces(host);
    functions
        .into_iter()
        .map(|bdf| device(host, bdf, interfaces.get(&bdf).cloned()))
        .collect()
}

/// Interfaces in this network namespace, by their function.
fn interfaces(host: &Host) -> BTreeMap<Bdf, String> {
    let names = tree::list(host, "sys/class/net");
    let of_function = |name: &String| {
        let device = tree::canonical(host, netdev::class_dir(name).join("device"))?;
        Some((identity::place(&device).pci?, name.clone()))
    };
    let names = names.value().into_iter().flatten();
    names.filter_map(of_function).collect()
}

fn device(host: &Host, bdf: Bdf, netdev: Option<String>) -> RdmaDevice {
    let dir = pci_function_dir(bdf);
    RdmaDevice {
        key: DeviceKey(bdf.to_string()),
        name: name(bdf),
        index: None,
        pci: Some(bdf),
        driver: GVNIC_DRIVER.into(),
        pci_id: pci_id(host, &dir),
        node_type: None,
        firmware: None,
        board_id: None,
        hca_type: None,
        node_guid: None,
        sys_image_guid: None,
        function: Function::Physical,
        sriov: None,
        smi_parent: None,
        numa_node: numa_node(host, &dir),
        uverbs: Reading::Absent,
        ports: vec![RdmaPort {
            number: 1,
            link_layer: LinkLayer::Ethernet,
            netdev,
            has_pma_counters: false,
            has_hw_counters: false,
        }],
        unread: None,
    }
}

/// After the place, as rdma-core names devices by default: the interface's
/// name goes with it into a pod.
fn name(bdf: Bdf) -> String {
    match bdf.domain {
        0 => format!("gvep{}s{}", bdf.bus, bdf.device),
        domain => format!("gveP{domain}p{}s{}", bdf.bus, bdf.device),
    }
}

/// Reads the state of one function's port, which is its interface's.
#[derive(Debug)]
pub struct GvnicLinkReader {
    netdev: Option<NetdevReader>,
}

impl GvnicLinkReader {
    /// A reader of `device`'s port.
    pub fn new(device: &RdmaDevice) -> Self {
        let name = device.ports.iter().find_map(|port| port.netdev.as_deref());
        GvnicLinkReader {
            netdev: name.map(NetdevReader::new),
        }
    }

    /// The port now. While a pod has the interface nothing is observable.
    pub fn read(&mut self, host: &Host) -> LinkFacts {
        let mut link = LinkFacts {
            state: Reading::NotObservable,
            phys_state: Reading::NotObservable,
            rate: Reading::NotObservable,
            lid: Some(0),
            via: Via::Sysfs,
        };
        let Some(reader) = &mut self.netdev else {
            return link;
        };
        let facts = reader.read(host);
        // An interface that is administratively down answers with EINVAL.
        let carrier = match facts.carrier {
            Reading::NotObservable if facts.admin_up == Some(false) => Reading::Value(false),
            other => other,
        };
        link.state = carrier.clone().map(|up| match up {
            true => PortState::Active,
            false => PortState::Down,
        });
        // As RoCE ports report it: one word for unplugged and switched off.
        link.phys_state = carrier.map(|up| match up {
            true => PhysState::LinkUp,
            false => PhysState::Disabled,
        });
        link.rate = facts.speed_mbps.map(|mbps| LinkRate {
            rate: BitsPerSec(mbps.saturating_mul(1_000_000)),
            lanes: None,
            speed: None,
        });
        link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    fn function(tree: &TestTree, bdf: &str, netdev: Option<&str>) {
        let pci = tree.pci("0000:04:01.0", bdf, ("1ae0", "0042"), "gve");
        tree.link(
            &format!("{DRIVER_DIR}/{bdf}"),
            &format!("../../../../{pci}"),
        );
        if let Some(name) = netdev {
            let dir = format!("sys/class/net/{name}");
            tree.files(
                &dir,
                &[
                    ("carrier", "1"),
                    ("flags", "0x1003"),
                    ("speed", "200000"),
                    ("ifindex", "3"),
                ],
            );
            tree.link(&format!("{dir}/device"), &format!("../../../../{pci}"));
        }
    }

    #[test]
    fn functions_stay_when_their_interfaces_go_into_pods() {
        let tree = TestTree::new();
        assert_eq!(enumerate(&tree.host()), []);
        tree.file(&format!("{DRIVER_DIR}/bind"), "");
        function(&tree, "0000:06:00.0", Some("eth1"));
        function(&tree, "0000:05:00.0", None);
        let found = enumerate(&tree.host());
        let told: Vec<_> = found
            .iter()
            .map(|device| (device.name.as_str(), device.ports[0].netdev.as_deref()))
            .collect();
        assert_eq!(told, [("gvep5s0", None), ("gvep6s0", Some("eth1"))]);
        assert_eq!(found[0].pci_id.as_deref(), Some("1ae0:0042"));
        assert_eq!(found[0].key.0, "0000:05:00.0");
    }

    #[test]
    fn states() {
        let tree = TestTree::new();
        function(&tree, "0000:06:00.0", Some("eth1"));
        function(&tree, "0000:07:00.0", None);
        let host = tree.host();
        let devices = enumerate(&host);
        let mut reader = GvnicLinkReader::new(&devices[0]);
        let link = reader.read(&host);
        assert_eq!(link.state, Reading::Value(PortState::Active));
        assert_eq!(link.rate.value().map(|rate| rate.rate.gbps()), Some(200.0));

        tree.file("sys/class/net/eth1/carrier", "0");
        let link = reader.read(&host);
        assert_eq!(link.state, Reading::Value(PortState::Down));
        assert_eq!(link.rate, Reading::NotObservable);

        tree.file("sys/class/net/eth1/flags", "0x1002");
        tree.errno(22, "sys/class/net/eth1/carrier");
        let down = GvnicLinkReader::new(&devices[0]).read(&host);
        assert_eq!(down.state, Reading::Value(PortState::Down));

        let in_a_pod = GvnicLinkReader::new(&devices[1]).read(&host);
        assert_eq!(in_a_pod.state, Reading::NotObservable);
        tree.remove("sys/class/net/eth1");
        assert_eq!(reader.read(&host).state, Reading::Absent);
    }
}
