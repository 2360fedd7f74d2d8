//! NICs that have no RDMA device, and still hold the fabric's place: with the driver of all rails
//! gone, a storage NIC is not the fabric.

use super::RolePort;
use crate::observe::{BareNic, LinkLayer, PciFacts, gives_away};

/// Those that are rails rather than plain network cards: InfiniBand and Slingshot ones, such as have no
/// driver, and Mellanox's, whose driver makes an RDMA device of each.
pub(super) fn in_a_rails_place(pci: Option<&PciFacts>) -> Vec<&BareNic> {
    let all = pci.into_iter().flat_map(|pci| pci.bare.values());
    all.filter(|nic| {
        let of_fabric = nic.is_infiniband() || nic.is_of_slingshot();
        of_fabric || nic.driver.is_none() || nic.id.starts_with("15b3:")
    })
    .collect()
}

/// Whether they are the fabric where no port is near a GPU: they are near one, or of Slingshot, or the
/// only InfiniBand there is.
pub(super) fn hold_the_fabric(bare: &[&BareNic], ports: &[RolePort<'_>], guest: bool) -> bool {
    let near = |nic: &BareNic| nic.distances.values().any(|distance| distance.is_near());
    let is_ethernet = |port: &RolePort<'_>| port.layer == LinkLayer::Ethernet;
    let only_ethernet = ports.iter().all(is_ethernet);
    let ours = |nic: &BareNic| nic.is_infiniband() && !gives_away(nic.driver.as_deref());
    (!guest && bare.iter().any(|nic| near(nic)))
        || bare.iter().any(|nic| nic.is_of_slingshot())
        || (only_ethernet && bare.iter().any(|nic| ours(nic)))
}
