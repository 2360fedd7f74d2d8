//! What makes NICs alike.
//!
//! What could not be read is like everything, and never a kind of its own: else one junk attribute
//! would make a rail another thing. The board id (PSID) is not part of it: one fabric has boards of
//! several batches.

use super::Port;
use crate::observe::rdma::{LinkLayer, RdmaDevice, RdmaPort};
use std::borrow::Cow;

/// Known facts about a NIC's make and use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind<'a> {
    /// Name of the bound kernel driver; `None` if unbound or unreadable.
    pub driver: Option<&'a str>,
    /// PCI `vendor:device`, or what the driver calls the model.
    pub model: Option<Cow<'a, str>>,
    /// Link layer; EFA has none and tells so.
    pub link_layer: Option<LinkLayer>,
}

impl<'a> Kind<'a> {
    /// The kind of a port.
    pub fn of(device: &'a RdmaDevice, port: &RdmaPort) -> Self {
        Kind {
            driver: driver(device),
            model: model(device),
            link_layer: layer(device, port),
        }
    }

    /// Whether two may be one: nothing that is known of both differs.
    pub fn fits(&self, other: &Kind<'_>) -> bool {
        fn fits<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            a.is_none() || b.is_none() || a == b
        }
        fits(self.driver, other.driver)
            && fits(self.model.as_deref(), other.model.as_deref())
            && fits(self.link_layer, other.link_layer)
    }

    fn is_complete(&self) -> bool {
        self.driver.is_some() && self.model.is_some() && self.link_layer.is_some()
    }
}

/// The bound driver, where it is known.
pub fn driver(device: &RdmaDevice) -> Option<&str> {
    Some(device.driver.as_str()).filter(|driver| *driver != "unknown")
}

/// Whether it is a gVNIC, or one of which nothing could be read, which may be one.
pub fn may_be_gvnic(device: &RdmaDevice) -> bool {
    device.is_gvnic() || (driver(device).is_none() && device.pci_id.is_none())
}

/// The link layer, where it was read or, as with EFA, there is none.
pub fn layer(device: &RdmaDevice, port: &RdmaPort) -> Option<LinkLayer> {
    let layerless = device.driver.starts_with("efa");
    Some(port.link_layer).filter(|layer| layerless || *layer != LinkLayer::Unspecified)
}

/// The link layer, for people; none where it was not read.
pub fn layer_name(layer: LinkLayer) -> Option<&'static str> {
    match layer {
        LinkLayer::Infiniband => Some("InfiniBand"),
        LinkLayer::Ethernet => Some("Ethernet"),
        LinkLayer::Unspecified => None,
    }
}

/// PCI id; where that is missing or not what the driver says (mlx4 and mlx5 print the device id in
/// decimal as `hca_type`), nothing is known but what the driver says.
pub fn model(device: &RdmaDevice) -> Option<Cow<'_, str>> {
    let told = device.hca_type.as_deref();
    let id = told.and_then(|told| told.strip_prefix("MT")?.parse::<u16>().ok());
    let is = |pci: &str, id: u16| {
        let hex = pci.strip_prefix("15b3:");
        hex.and_then(|hex| u16::from_str_radix(hex, 16).ok()) == Some(id)
    };
    match (device.pci_id.as_deref(), id) {
        (Some(pci), Some(id)) if !is(pci, id) => None,
        (Some(pci), _) => Some(pci.into()),
        (None, Some(id)) => Some(format!("15b3:{id:04x}").into()),
        (None, None) => told.map(Into::into),
    }
}

/// The kinds there are among ports: of which everything is known, unless there are none of these.
pub(super) fn kinds<'a>(ports: &[Port<'a>]) -> Vec<Kind<'a>> {
    let mut kinds: Vec<Kind<'a>> = ports.iter().map(Port::kind).collect();
    if kinds.iter().any(Kind::is_complete) {
        kinds.retain(Kind::is_complete);
    }
    kinds.sort();
    kinds.dedup();
    kinds
}
