//! Ports of an RDMA device: link layer, network device, which counter directories exist.

use crate::host::Host;
use crate::observe::{Fault, LinkLayer, PortState, RdmaPort, Reading};
use crate::source::{identity, link_text, netdev, parse, tree};
use std::path::{Path, PathBuf};

/// Class directory of RDMA devices.
pub const CLASS: &str = "sys/class/infiniband";

/// GID slots read for a port's network device: the default GIDs come first.
const NDEV_SLOTS: u32 = 4;

/// Most ports of one device taken.
const MAX_PORTS: usize = 64;

/// Directory of a device below the root.
pub fn class_dir(name: &str) -> PathBuf {
    Path::new(CLASS).join(name)
}

/// Directory of a port below the root.
pub fn port_dir(device: &str, port: u32) -> PathBuf {
    class_dir(device).join("ports").join(port.to_string())
}

/// State of a port's link, by its file.
pub fn state(host: &Host, device: &str, port: u32) -> Reading<PortState> {
    let path = port_dir(device, port).join("state");
    let odd = || format!("/{}: not a port state", path.display());
    let parsed = |text: String| Reading::parsed(link_text::parse_state(&text).ok_or_else(odd));
    tree::read_text(host, &path).and_then(parsed)
}

/// All ports of a device, by number. `parent`: the network device that soft RoCE names. Every
/// device has a port 1: where none is listed, that one stands there with nothing known of it, and
/// the fault tells why.
pub fn ports(host: &Host, device: &str, parent: Option<&str>) -> (Vec<RdmaPort>, Option<Fault>) {
    let dir = class_dir(device).join("ports");
    let listed = tree::list(host, &dir);
    let names = listed.value().into_iter().flatten();
    let mut numbers: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.truncate(MAX_PORTS);
    let none = || Fault::other(format!("{}: no port is listed", dir.display()));
    let fault = match listed {
        Reading::Failed(fault) => Some(fault),
        _ => numbers.is_empty().then(none),
    };
    if fault.is_some() {
        numbers = vec![1];
    }
    let only = numbers.len() == 1;
    let port = |number| port(host, device, number, only, parent);
    (numbers.into_iter().map(port).collect(), fault)
}

fn port(host: &Host, device: &str, number: u32, only: bool, parent: Option<&str>) -> RdmaPort {
    let dir = port_dir(device, number);
    let link_layer = link_layer(parse::word(host, dir.join("link_layer")).as_deref());
    let netdev = gid_netdev(host, device, &dir, link_layer)
        .or_else(|| parent.map(Into::into))
        .or_else(|| sibling_netdev(host, device, number, only));
    RdmaPort {
        number,
        link_layer,
        netdev,
    }
}

/// `link_layer`: `InfiniBand`, `Ethernet`, or (EFA) `Unknown`.
pub fn link_layer(text: Option<&str>) -> LinkLayer {
    match text {
        Some("InfiniBand") => LinkLayer::Infiniband,
        Some("Ethernet") => LinkLayer::Ethernet,
        _ => LinkLayer::Unspecified,
    }
}

/// `gid_attrs/ndevs/*`: EINVAL for empty slots, and always on InfiniBand. The name is that in the
/// network namespace of the interface: a pod's `eth2` is not the host's.
fn gid_netdev(host: &Host, device: &str, dir: &Path, layer: LinkLayer) -> Option<String> {
    if layer == LinkLayer::Infiniband {
        return None;
    }
    let ndevs = dir.join("gid_attrs/ndevs");
    let name = (0..NDEV_SLOTS).find_map(|slot| parse::name(host, ndevs.join(slot.to_string())))?;
    let function = |dir: PathBuf| identity::pci_function(host, &dir);
    // Bonds and VLANs hang on no card, soft RDMA neither.
    let functions = function(class_dir(device)).zip(function(netdev::class_dir(&name)));
    let differ = functions.is_some_and(|(ours, theirs)| ours.slot() != theirs.slot());
    (!differ).then_some(name)
}

/// A network device of the same PCI function, as [`choose_netdev`] picks it.
fn sibling_netdev(host: &Host, device: &str, port: u32, only: bool) -> Option<String> {
    let dir = class_dir(device).join("device/net");
    let sibling = |name: String| {
        let at = dir.join(&name);
        Sibling {
            dev_port: parse::decimal(host, at.join("dev_port")),
            dev_id: parse::hex(host, at.join("dev_id")),
            representor: parse::word(host, at.join("phys_port_name"))
                .is_some_and(|port| port.contains("vf") || port.contains("sf")),
            name,
        }
    };
    let siblings: Vec<Sibling> = (tree::names(host, &dir).into_iter()).map(sibling).collect();
    choose_netdev(&siblings, port, only)
}

/// A network device of an RDMA port's PCI function.
#[derive(Debug, Clone, Default)]
struct Sibling {
    name: String,
    dev_port: Option<u64>,
    dev_id: Option<u64>,
    /// Representor of a VF or sub-function (switchdev), by its `phys_port_name`.
    representor: bool,
}

/// The network device of a port among those of its PCI function: `dev_port` counts from 0, older
/// drivers tell it in `dev_id`. IPoIB children (`ib0.8001`) and representors stand back. With one
/// port, the first left serves; with more, only a match does.
fn choose_netdev(siblings: &[Sibling], port: u32, only: bool) -> Option<String> {
    let ours = (siblings.iter()).filter(|s| !s.representor && !s.name.contains('.'));
    let mut ours: Vec<&Sibling> = ours.collect();
    ours.sort_by(|a, b| a.name.cmp(&b.name));
    let index = u64::from(port.checked_sub(1)?);
    // A driver that knows neither file's meaning leaves 0 in it: 0 alone means nothing.
    let matches = |s: &&&Sibling| s.dev_port.max(s.dev_id).unwrap_or(0) == index;
    let first = ours.first().filter(|_| only);
    Some(ours.iter().find(matches).or(first)?.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::testtree::TestTree;

    fn sibling(name: &str, dev_port: u64, dev_id: u64) -> Sibling {
        Sibling {
            name: name.into(),
            dev_port: Some(dev_port),
            dev_id: Some(dev_id),
            representor: false,
        }
    }

    #[test]
    fn netdev_of_a_port() {
        let two = [sibling("ib0", 0, 0), sibling("ib1", 0, 1)];
        assert_eq!(choose_netdev(&two, 1, false).as_deref(), Some("ib0"));
        assert_eq!(choose_netdev(&two, 2, false).as_deref(), Some("ib1"));
        assert_eq!(choose_netdev(&two, 3, false), None);
        let child = [sibling("ib0.8001", 0, 0), sibling("ibs1", 0, 0)];
        assert_eq!(choose_netdev(&child, 1, true).as_deref(), Some("ibs1"));
        let mut representor = sibling("eth0_0", 0, 0);
        representor.representor = true;
        assert_eq!(
            choose_netdev(&[representor, sibling("eth9", 0, 0)], 1, true).as_deref(),
            Some("eth9")
        );
        // A second function whose driver numbers the card's ports through.
        assert_eq!(
            choose_netdev(&[sibling("eth1", 1, 0)], 1, true).as_deref(),
            Some("eth1")
        );
        assert_eq!(choose_netdev(&[], 1, true), None);
        assert_eq!(choose_netdev(&two, 0, true), None);
    }

    #[test]
    fn an_interface_of_a_pod_is_not_the_hosts_of_that_name() {
        let tree = TestTree::new();
        let dir = tree.mlx5("mlx5_0", "0000:15:01.0", "0000:19:00.0");
        tree.file(&format!("{dir}/ports/1/link_layer"), "Ethernet");
        tree.file(&format!("{dir}/ports/1/gid_attrs/ndevs/0"), "eth2");
        let netdev = || ports(&tree.host(), "mlx5_0", None).0[0].netdev.clone();
        assert_eq!(netdev().as_deref(), Some("eth2"), "not seen from here");
        let other = tree.pci(
            "0000:37:01.0",
            "0000:38:00.0",
            ("15b3", "1021"),
            "mlx5_core",
        );
        tree.link("sys/class/net/eth2/device", &format!("../../../../{other}"));
        assert_eq!(netdev().as_deref(), Some("ibs1"), "its own");
        // The other port of the card carries the addresses of a bond.
        tree.remove("sys/class/net/eth2");
        let second = tree.pci(
            "0000:15:01.0",
            "0000:19:00.1",
            ("15b3", "1021"),
            "mlx5_core",
        );
        tree.link(
            "sys/class/net/eth2/device",
            &format!("../../../../{second}"),
        );
        assert_eq!(netdev().as_deref(), Some("eth2"));
    }

    #[test]
    fn link_layers() {
        assert_eq!(link_layer(Some("InfiniBand")), LinkLayer::Infiniband);
        assert_eq!(link_layer(Some("Ethernet")), LinkLayer::Ethernet);
        assert_eq!(link_layer(Some("Unknown")), LinkLayer::Unspecified);
        assert_eq!(link_layer(None), LinkLayer::Unspecified);
    }
}
