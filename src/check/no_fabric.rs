//! Whether a node is certainly not meant to have a fabric. One that could have one stays unknown:
//! what cannot be seen, a shape that may have rails, and a card that was there before all forbid it.

use super::Context;
use super::allocatable::is_for_rdma;
use super::device_missing::without_driver::taken_for_rails;
use super::expected::{GPUS, RAIL};
use super::profile::{Fabric, Provider};
use super::roles::{front_end::is_sold_with_nics, rail_keys};
use crate::glob;
use crate::observe::{Function, LinkLayer, RdmaDevice, RdmaPort};
use crate::units::Millis;

/// Instance types that are sold with a fabric, or may be launched with one, where the table of shapes
/// does not have them: AWS's P, Trn and Hpc, Azure's sizes with `r`, GCP's A3 and later, OCI's bare metal.
const MAY_HAVE_ONE: &str = "p* trn* hpc* standard_n*r* standard_h* a3-* a4* h4d* bm.*";

/// A cloud's machine with so many GPUs may be of a size with a fabric where its type is not known: sizes
/// have 1, 2, 4 or 8, some of which may be gone.
const GPUS_OF_A_LARGE_SIZE: u64 = 5;

/// Whether nothing that could be a fabric is there, was there or is promised. False wherever one of
/// these cannot be told.
pub fn is_certain(context: &Context<'_>) -> bool {
    let grown = context.now.since(Millis(0)) >= context.policy.link_state.training_grace.0;
    grown
        && rail_keys(context.roles).next().is_none()
        && !is_promised(context)
        && bus_has_none(context)
        && taken_for_rails(context).all(|nic| nic.driver.is_some())
        && (context.history.remembered.parts_with(RAIL).next()).is_none()
}

/// Whether configuration, the Node's resources or the machine's shape speak of rails.
fn is_promised(context: &Context<'_>) -> bool {
    let policy = &context.policy.expect;
    let Some(profile) = context.profile else {
        return true;
    };
    let mut offered = (context.offer.into_iter()).flat_map(|offer| offer.resources.keys());
    let sold_with_one = |name: &str| MAY_HAVE_ONE.split(' ').any(|of| glob::matches(of, name));
    let by_shape = match (profile.shape, &profile.instance_type) {
        // EFA is attached at launch, and to sizes that are sold without it seldom.
        (Some(shape), _) if shape.fabric == Fabric::Efa => {
            shape.types.iter().any(|name| sold_with_one(name))
        }
        (Some(shape), _) => shape.fabric != Fabric::None,
        (None, Some(name)) => sold_with_one(&name.to_ascii_lowercase()),
        // Of other servers, DMI's product name could tell that they are known ones.
        (None, None) => {
            let nameless = (context.pci()).is_none_or(|pci| pci.machine.product.is_none());
            let unknown = profile.is_of_a_cloud() || nameless;
            unknown && most_gpus(context) >= GPUS_OF_A_LARGE_SIZE
        }
    };
    by_shape
        || context.pci().is_some_and(is_sold_with_nics)
        || policy.rails.is_some_and(|rails| rails > 0)
        || profile.roles_set
        || profile.resource.is_some()
        || offered.any(|name| is_for_rdma(name))
}

/// The GPUs that are on the bus, that the driver lists, or that were there earlier: whichever are most.
fn most_gpus(context: &Context<'_>) -> u64 {
    let listed = context.gpudirect().map_or(0, |facts| facts.gpus.len());
    let seen = context.gpus().len().max(listed) as u64;
    seen.max((context.history.remembered.best(GPUS, "", GPUS)).unwrap_or(0))
}

/// Whether the PCI bus and the RDMA devices can be seen, and none of them could be a rail.
fn bus_has_none(context: &Context<'_>) -> bool {
    let devices = context.snapshot.devices.as_ref();
    let (Some(pci), Some(devices)) = (context.pci(), devices) else {
        return false;
    };
    let azure = (context.profile).is_some_and(|profile| profile.provider == Some(Provider::Azure));
    // Accelerated networking: Azure's fabrics are InfiniBand.
    let undriven = (pci.rdma_capable.value())
        .is_some_and(|capable| (capable.values()).all(|nic| azure && !nic.is_infiniband()));
    let gvnics = devices.value.iter().filter(|device| device.is_gvnic());
    // A3 High and Mega have five and nine, also while their GPUs are gone.
    let is_known = (context.profile).is_some_and(|profile| profile.instance_type.is_some());
    let few_gvnics = match (pci.gpus.is_empty(), gvnics.count()) {
        (false, count) => count < 2,
        (true, count) => count < 5 || is_known,
    };
    let fabric = |device: &RdmaDevice| {
        let ethernet = |layer| layer == LinkLayer::Ethernet;
        let front_end = azure && device.ports.iter().all(|port| ethernet(port.link_layer));
        let of_another = device.smi_parent.is_some() || device.function == Function::Software;
        !(front_end || of_another || device.is_gvnic() || carries_a_route(context, device))
    };
    undriven && few_gvnics && !devices.value.iter().any(fabric)
}

/// Whether the node is reached by each port of a device, all Ethernet: IPoIB's are a fabric.
fn carries_a_route(context: &Context<'_>, device: &RdmaDevice) -> bool {
    let seen = context.history.fabric.get(&device.key);
    seen.is_some_and(|seen| {
        let mut ports = device.ports.iter();
        let front_end = |port: &RdmaPort| {
            port.link_layer == LinkLayer::Ethernet && seen.routes.contains_key(&port.number)
        };
        !device.ports.is_empty() && ports.all(front_end)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, device, gpu};
    use super::*;
    use crate::check::roles::Role;
    use crate::check::testing;
    use crate::observe::remembered::Observed;
    use crate::observe::{BareNic, Distance, MachineFacts, PciFacts, Reading};
    use std::time::Duration;

    /// A node that is seen whole, with so many GPUs and gVNICs.
    fn node(gpus: usize, gvnics: usize) -> Node {
        let mut node = Node::empty();
        node.set_pci(pci(gpus, None));
        let gvnic = |i| RdmaDevice {
            driver: "gve".into(),
            ..device(i, LinkLayer::Ethernet)
        };
        node.devices = (0..gvnics).map(gvnic).collect();
        node.tick(200);
        node
    }

    fn pci(gpus: usize, undriven: Option<&str>) -> PciFacts {
        let nic = |class: &str| BareNic {
            class: class.into(),
            ..BareNic::default()
        };
        let undriven = undriven.map(|class| ("0000:01:00.0".to_string(), nic(class)));
        PciFacts {
            gpus: (0..gpus).map(|i| gpu(i).parse().unwrap()).collect(),
            rdma_capable: Reading::Value(undriven.into_iter().collect()),
            machine: MachineFacts {
                product: Some("SYS-821GE-TNHR".into()),
                ..MachineFacts::default()
            },
            ..PciFacts::default()
        }
    }

    #[test]
    fn a_gpu_that_is_gone_makes_no_large_machine_small() {
        for (on_bus, listed, want) in [(4, 4, true), (5, 5, false), (4, 8, false)] {
            let mut node = node(on_bus, 0);
            node.profile.provider = Some(Provider::Gcp);
            node.bend_gpudirect(|facts| {
                facts.gpus = (0..listed).map(|i| testing::listed(gpu(i))).collect();
            });
            let got = is_certain(&node.context());
            assert_eq!(got, want, "{on_bus} {listed}");
        }
    }

    #[test]
    fn so_many_gvnics_may_be_a_fabric() {
        for (gpus, gvnics, known, want) in [
            (2, 1, false, true),
            (2, 2, true, false),
            (0, 4, false, true),
            // A3 High's, whose GPUs may be gone.
            (0, 5, false, false),
            (0, 5, true, true),
        ] {
            let mut node = node(gpus, gvnics);
            node.profile.instance_type = known.then(|| "n2".to_string());
            let got = is_certain(&node.context());
            assert_eq!(got, want, "{gpus} {gvnics} {known}");
        }
    }

    #[test]
    fn what_is_there_was_there_or_is_promised_forbids_it() {
        type Bend = fn(&mut Node);
        let certain: [Bend; 4] = [
            |_| {},
            |node| node.policy.expect.rails = Some(0),
            |node| node.set_pci(pci(8, None)),
            // Accelerated networking.
            |node| {
                node.profile.provider = Some(Provider::Azure);
                node.set_pci(pci(0, Some("020000")));
            },
        ];
        let not: [Bend; 11] = [
            // A DGX has eight, too.
            |node| {
                let mut pci = pci(8, None);
                pci.machine.product = None;
                node.set_pci(pci);
            },
            |node| node.now = Millis::from_secs(179),
            |node| node.set_role(0, Role::Rail),
            |node| node.policy.expect.rails = Some(1),
            |node| node.profile.instance_type = Some("P6e".into()),
            |node| {
                node.profile.provider = Some(Provider::Azure);
                node.set_pci(pci(8, None));
            },
            |node| node.snapshot.pci = None,
            // Next to a GPU, and not known to do RDMA.
            |node| {
                let mut pci = pci(1, None);
                let mut nic = BareNic {
                    id: "14e4:1760".into(),
                    ..BareNic::default()
                };
                nic.distances.insert(gpu(0), Distance::Pix);
                pci.bare.insert("0000:02:00.0".into(), nic);
                node.set_pci(pci);
            },
            |node| node.set_pci(pci(0, Some("020000"))),
            |node| {
                node.profile.provider = Some(Provider::Azure);
                node.set_pci(pci(0, Some("020700")));
            },
            |node| {
                for seconds in [0, 600] {
                    let now = node.now.plus(Duration::from_secs(seconds));
                    let seen = Observed {
                        part: "0000:18:00.0/1".into(),
                        identity: String::new(),
                        name: "mlx5_0/1".into(),
                        values: vec![(RAIL, 1)],
                    };
                    node.history.remembered.learn(None, vec![seen], now);
                }
            },
        ];
        for (bends, want) in [(&certain[..], true), (&not, false)] {
            for (row, bend) in bends.iter().enumerate() {
                let mut node = node(0, 0);
                bend(&mut node);
                assert_eq!(is_certain(&node.context()), want, "{row}");
            }
        }
    }
}
