//! Cards with an InfiniBand and an Ethernet port (VPI): the InfiniBand port is the fabric's, the
//! Ethernet port is for storage or management.

use super::{Port, Roles, without};
use crate::observe::rdma::LinkLayer;
use std::collections::BTreeMap;

/// Leaves out the Ethernet ports of such cards. Where few of the cards with several ports are so, a
/// port is in the wrong mode rather than meant for something else, and stays.
pub(super) fn without_those_of_another_layer<'a>(
    ports: Vec<Port<'a>>,
    roles: &mut Roles,
) -> Vec<Port<'a>> {
    let mut cards: BTreeMap<String, Vec<LinkLayer>> = BTreeMap::new();
    for port in &ports {
        let layers = cards.entry(port.card()).or_default();
        layers.push(port.port.link_layer);
    }
    cards.retain(|_, layers| layers.len() > 1);
    let several = cards.len();
    cards.retain(|_, layers| {
        layers.contains(&LinkLayer::Infiniband) && layers.contains(&LinkLayer::Ethernet)
    });
    if cards.len() * 2 < several {
        return ports;
    }
    let is_other = |port: &Port<'_>| {
        port.port.link_layer == LinkLayer::Ethernet && cards.contains_key(&port.card())
    };
    let why = "Ethernet port of a card whose InfiniBand port is there, too";
    without(ports, is_other, why, roles)
}
