//! Google's virtual NICs (driver gve), which are the GPUs' fabric on machines without any RDMA: A3
//! High and Mega under GPUDirect-TCPX(O). Listed by the functions that the driver holds, since an
//! interface that a pod took into its network namespace is not to be seen from here.

use crate::host::Host;
use crate::observe::{
    GVNIC_DRIVER, LinkFacts, LinkLayer, LinkRate, PhysState, PortState, RdmaDevice, RdmaPort,
    Reading,
};
use crate::source::infiniband::{numa_node, pci_function_dir, pci_id};
use crate::source::{identity, netdev, tree};
use crate::units::{Bdf, BitsPerSec, DeviceKey};
use std::collections::BTreeMap;

/// Functions that the driver is bound to: links by address.
pub const DRIVER_DIR: &str = "sys/bus/pci/drivers/gve";

/// Most functions taken; machines have up to nine.
const MAX: usize = 64;

/// All functions bound to gve, by address, each as a device with one Ethernet port.
pub fn enumerate(host: &Host) -> Vec<RdmaDevice> {
    let names = tree::names(host, DRIVER_DIR);
    let functions = names.iter().filter_map(|name| name.parse().ok());
    let mut functions: Vec<Bdf> = functions.take(MAX).collect();
    if functions.is_empty() {
        return Vec::new();
    }
    functions.sort();
    let interfaces = interfaces(host);
    let device = |bdf: Bdf| device(host, bdf, interfaces.get(&bdf).cloned());
    functions.into_iter().map(device).collect()
}

/// Interfaces in this network namespace, by their function.
fn interfaces(host: &Host) -> BTreeMap<Bdf, String> {
    let of_function = |name: String| {
        let function = identity::pci_function(host, &netdev::class_dir(&name))?;
        Some((function, name))
    };
    let names = tree::names(host, "sys/class/net").into_iter();
    names.filter_map(of_function).collect()
}

fn device(host: &Host, bdf: Bdf, netdev: Option<String>) -> RdmaDevice {
    let dir = pci_function_dir(bdf);
    RdmaDevice {
        key: DeviceKey(bdf.to_string()),
        name: name(bdf),
        pci: Some(bdf),
        driver: GVNIC_DRIVER.into(),
        pci_id: pci_id(host, &dir),
        numa_node: numa_node(host, &dir),
        ports: vec![RdmaPort {
            number: 1,
            link_layer: LinkLayer::Ethernet,
            netdev,
        }],
        ..RdmaDevice::default()
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

/// The port of a function now, which is its interface. While a pod has the interface nothing is
/// observable.
pub fn read_link(host: &Host, device: &RdmaDevice) -> LinkFacts {
    let name = device.ports.iter().find_map(|port| port.netdev.as_deref());
    let (mut carrier, mut speed) = (Reading::NotObservable, Reading::NotObservable);
    if let Some(name) = name {
        let facts = netdev::read(host, name, &mut netdev::Last::default());
        (carrier, speed) = (facts.carrier, facts.speed_mbps);
        // One that is administratively down answers with EINVAL.
        if carrier == Reading::NotObservable && facts.admin_up == Some(false) {
            carrier = Reading::Value(false);
        }
    }
    LinkFacts {
        state: carrier.clone().map(|up| match up {
            true => PortState::Active,
            false => PortState::Down,
        }),
        // As RoCE ports report it: one word for unplugged and switched off.
        phys_state: carrier.map(|up| match up {
            true => PhysState::LinkUp,
            false => PhysState::Disabled,
        }),
        rate: speed.map(|mbps| LinkRate {
            rate: BitsPerSec(mbps.saturating_mul(1_000_000)),
            lanes: None,
        }),
        lid: Some(0),
        sm_lid: None,
        pkey: None,
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
        let link = read_link(&host, &devices[0]);
        assert_eq!(link.state, Reading::Value(PortState::Active));
        assert_eq!(link.rate.value().map(|rate| rate.rate.gbps()), Some(200.0));

        tree.file("sys/class/net/eth1/carrier", "0");
        let link = read_link(&host, &devices[0]);
        assert_eq!(link.state, Reading::Value(PortState::Down));
        assert_eq!(link.rate, Reading::NotObservable);

        tree.file("sys/class/net/eth1/flags", "0x1002");
        tree.errno(22, "sys/class/net/eth1/carrier");
        let down = read_link(&host, &devices[0]);
        assert_eq!(down.state, Reading::Value(PortState::Down));

        let in_a_pod = read_link(&host, &devices[1]);
        assert_eq!(in_a_pod.state, Reading::NotObservable);
        tree.remove("sys/class/net/eth1");
        assert_eq!(read_link(&host, &devices[0]).state, Reading::Absent);
    }
}
