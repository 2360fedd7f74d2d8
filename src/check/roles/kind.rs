//! What makes NICs alike.
//!
//! What could not be read is like everything, and never a kind of its own: else one junk attribute
//! would make a rail another thing. The board id (PSID) is not part of it: one fabric has boards of
//! several batches.

use super::RolePort;
use crate::observe::{LinkLayer, RdmaDevice};
use std::borrow::Cow;

/// Known facts about a NIC's make and use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NicKind<'a> {
    /// Name of the bound kernel driver; `None` if unbound or unreadable.
    pub driver: Option<&'a str>,
    /// PCI `vendor:device`, or what the driver calls the model.
    pub model: Option<Cow<'a, str>>,
    /// Link layer; EFA has none and tells so.
    pub link_layer: Option<LinkLayer>,
}

impl<'a> NicKind<'a> {
    /// The kind of a port.
    pub fn of(device: &'a RdmaDevice, link_layer: LinkLayer) -> Self {
        NicKind {
            driver: driver(device),
            model: model(device),
            link_layer: layer(device, link_layer),
        }
    }

    /// Whether two may be one: nothing that is known of both differs.
    pub fn fits(&self, other: &NicKind<'_>) -> bool {
        self.is_of_make(other) && fits(self.link_layer, other.link_layer)
    }

    /// The same, whichever link layer they are set to.
    pub(super) fn is_of_make(&self, other: &NicKind<'_>) -> bool {
        fits(self.driver, other.driver) && fits(self.model.as_deref(), other.model.as_deref())
    }

    /// The fastest rate of Mellanox's models, by their PCI ids (`pci.ids`): whatever the links are now.
    pub(super) fn fastest_gbps(&self) -> Option<u32> {
        Some(match self.model.as_deref()?.strip_prefix("15b3:")? {
            // ConnectX-4 Lx, ConnectX-6 Lx.
            "1015" | "101f" => 50,
            // ConnectX-4, ConnectX-5, BlueField.
            "1013" | "1017" | "1019" | "a2d2" => 100,
            // ConnectX-6, ConnectX-6 Dx, BlueField-2.
            "101b" | "101d" | "a2d6" => 200,
            // ConnectX-7, BlueField-3.
            "1021" | "a2dc" => 400,
            // ConnectX-8.
            "1023" => 800,
            _ => return None,
        })
    }

    pub(super) fn is_complete(&self) -> bool {
        self.driver.is_some() && self.model.is_some() && self.link_layer.is_some()
    }
}

fn fits<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
    a.is_none() || b.is_none() || a == b
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
pub fn layer(device: &RdmaDevice, layer: LinkLayer) -> Option<LinkLayer> {
    let layerless = device.driver.starts_with("efa");
    Some(layer).filter(|layer| layerless || *layer != LinkLayer::Unspecified)
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
        (pci.strip_prefix("15b3:")).and_then(|hex| u16::from_str_radix(hex, 16).ok()) == Some(id)
    };
    match (device.pci_id.as_deref(), id) {
        (Some(pci), Some(id)) if !is(pci, id) => None,
        (Some(pci), _) => Some(pci.into()),
        (None, Some(id)) => Some(format!("15b3:{id:04x}").into()),
        (None, None) => told.map(Into::into),
    }
}

/// The kinds there are among ports: of which everything is known, and those that may be none of them.
pub(super) fn kinds<'a>(ports: &[RolePort<'a>]) -> Vec<NicKind<'a>> {
    let mut kinds: Vec<NicKind<'a>> = ports.iter().map(RolePort::kind).collect();
    let complete = kinds.iter().filter(|kind| kind.is_complete()).cloned();
    let complete: Vec<NicKind<'a>> = complete.collect();
    kinds.retain(|kind| kind.is_complete() || !complete.iter().any(|known| known.fits(kind)));
    kinds.sort();
    kinds.dedup();
    kinds
}
