//! What kind of machine this is, and what such a machine has: by the settings, the Node's label,
//! DMI or the NICs' drivers; else by inference from what is seen.
//!
//! A profile explains (the report names it), and it lets *fewer than promised* be asked. It never
//! makes a node failing: a table grows old, clouds change shapes, and owners launch machines with
//! fewer NICs than there could be. More than promised is fine, an unknown shape says nothing.

pub mod table;
mod words;

use crate::check::PortView;
use crate::check::roles::{RoleOverrides, Roles, ShapeSays, rail_keys};
use crate::glob;
use crate::observe::{LinkLayer, MachineFacts, NodeResources, RdmaDevice, Snapshot};
use crate::settings_macro::{section, words};
use crate::units::BitsPerSec;
use std::time::Duration;
pub use table::{Certainty, GpuDirectTcp, MOST_NICS, Shape, shapes};
pub use words::{CLOUD_CABLES, CLOUD_LINKS};

section! {
    /// The machine's shape: what its fabric should consist of.
    PlatformSettings {
        /// Shape of the machine: an instance type (`p5.48xlarge`, `Standard_ND96isr_H100_v5`,
        /// `a3-megagpu-8g`, `BM.GPU.H100.8`, `DGXH100`), auto (by the Node's label, DMI or drivers)
        /// or none (only what is seen counts).
        profile: String = "auto".to_string(),
        /// Resource by which pods get RDMA devices here (`vpc.amazonaws.com/efa`,
        /// `rdma/hca_shared_devices_a`, `nvidia.com/mlnxnics`): its absence is then a fault. Empty: any resource that is offered.
        resource: String = String::new(),
    }
}

impl PlatformSettings {
    /// What is wrong with them: key and sentence each.
    pub fn complaints(&self) -> Vec<(String, String)> {
        let mut complaints = Vec::new();
        let word = self.profile.trim();
        if !matches!(word, "auto" | "none") && by_type(word).is_none() {
            let message = format!(
                "{word:?} is neither auto nor none nor a known instance type; `none` leaves all to \
                 what is seen"
            );
            complaints.push(("platform.profile".into(), message));
        }
        if !self.resource.is_empty() && self.resource.split_once('/').is_none() {
            let message = format!("{:?} is not a resource: DOMAIN/NAME", self.resource);
            complaints.push(("platform.resource".into(), message));
        }
        complaints
    }
}

words! {
    /// Who makes or rents out the machine, as report and page call them.
    Provider {
        /// Amazon EC2.
        Aws = "AWS",
        /// Microsoft Azure.
        Azure = "Azure",
        /// Google Compute Engine.
        Gcp = "GCP",
        /// Oracle Cloud Infrastructure.
        Oci = "OCI",
        /// NVIDIA's own systems.
        Nvidia = "NVIDIA",
        /// CoreWeave, on bare metal.
        CoreWeave = "CoreWeave",
        /// Nebius, in virtual machines.
        Nebius = "Nebius",
    }

    /// What rails are made of, with what does not exist there.
    Fabric {
        /// Elastic Fabric Adapters: no link layer, no PFC, no port counters; a constant port state.
        Efa = "efa",
        /// Rails are InfiniBand ports.
        Infiniband = "infiniband",
        /// Rails are Ethernet ports with RoCE v2.
        Roce = "roce",
        /// InfiniBand or Ethernet, as the ports are set.
        Mellanox = "mellanox",
        /// Google's gVNIC under GPUDirect-TCPX(O): no RDMA device at all.
        Gvnic = "gvnic",
        /// The machine is sold without a compute fabric.
        None = "none",
    }

    /// How a profile was found.
    #[derive(Default)]
    ProfileSource {
        /// Set by the operator.
        Set = "set",
        /// By the Node's label `node.kubernetes.io/instance-type`.
        InstanceType = "instance_type",
        /// Recognised by the DMI vendor and product strings.
        Dmi = "dmi",
        /// By PCI functions and their drivers.
        Pci = "pci",
        /// No known shape: by what is seen.
        #[default]
        Inferred = "inferred",
    }
}

impl Fabric {
    /// So many rails of it, for people: `8 RoCE rails`.
    pub fn counted_rails(self, count: usize) -> String {
        let rails = self.facts().rails;
        let one = rails.strip_suffix('s').filter(|_| count == 1);
        format!("{count} {}", one.unwrap_or(rails))
    }
}

/// What the machine is taken for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// How that is known.
    pub source: ProfileSource,
    /// Row of the table of known machines; `None` for an unknown machine.
    pub shape: Option<&'static Shape>,
    /// Whose machine it is, where only that is known.
    pub provider: Option<Provider>,
    /// Instance type as the Node's label or DMI says it.
    pub instance_type: Option<String>,
    /// The resource that the operator names.
    pub resource: Option<String>,
    /// What the rails are, where no shape says it.
    pub seen: Option<Fabric>,
    /// Whether the operator's patterns say which ports are rails.
    pub roles_set: bool,
    /// Rails that are there, those of devices that vanished this boot among them.
    pub rails: usize,
    /// The slowest rail's rate, where known.
    pub rate: Option<BitsPerSec>,
}

impl Profile {
    /// Its name: of the shape, else of the provider, else `inferred`.
    pub fn name(&self) -> &'static str {
        match (self.shape, self.provider) {
            (Some(shape), _) => shape.name,
            (None, Some(provider)) => provider.as_str(),
            (None, None) => "inferred",
        }
    }

    /// The shape, where the machine is known by more than what it has now: only then may the table be
    /// held against the node.
    pub fn certain_shape(&self) -> Option<&'static Shape> {
        self.shape.filter(|_| self.source != ProfileSource::Pci)
    }

    /// Whether the machine is known, and not only by what it has now, to have rails.
    pub fn says_rails(&self) -> bool {
        (self.certain_shape())
            .is_some_and(|shape| shape.rails.0 > 0 && shape.rails.1 != Certainty::No)
    }

    /// How many rails every machine of this shape has up: where a cloud fixes the fabric.
    pub fn sure_rails(&self) -> Option<usize> {
        let (rails, sure) = self.certain_shape()?.rails;
        (rails > 0 && sure == Certainty::Yes).then_some(rails as usize)
    }

    /// How many rails every machine of this shape has, up or not.
    pub fn rails_on_bus(&self) -> Option<usize> {
        let (rails, sure) = self.certain_shape()?.rails;
        matches!(sure, Certainty::Yes | Certainty::OnBus).then_some(rails as usize)
    }

    /// Whether cables and switches are a cloud's, and not for the owner to look at.
    pub fn is_of_a_cloud(&self) -> bool {
        (self.provider).is_some_and(|provider| provider != Provider::Nvidia)
    }

    /// What the rails are.
    pub fn fabric(&self) -> Option<Fabric> {
        self.shape.map(|shape| shape.fabric).or(self.seen)
    }
}

/// The shape of an instance type. SageMaker's are EC2's with `ml.` in front.
pub fn by_type(text: &str) -> Option<&'static Shape> {
    let text = text.trim().to_ascii_lowercase();
    let of_sagemaker = text.strip_prefix("ml.");
    let name = of_sagemaker.unwrap_or(&text);
    let fits = |shape: &&Shape| shape.types.iter().any(|of| glob::matches(of, name));
    let found = shapes().iter().find(fits);
    found.filter(|shape| of_sagemaker.is_none() || shape.provider == Provider::Aws)
}

/// The shape by DMI's product name, where that tells it: on EC2 it is the instance type, of a DGX it
/// has the model as one of its words (`NVIDIA DGX-H100`), or as its beginning (`DGXA100 920-23687-…`).
fn by_product(machine: &MachineFacts) -> Option<&'static Shape> {
    let product = machine.product.as_deref()?.trim().to_ascii_lowercase();
    match provider(machine)? {
        Provider::Aws => by_type(&product),
        Provider::Nvidia => {
            let joined = product.replace("dgx ", "dgx").replace("dgx-", "dgx");
            joined.split_whitespace().find_map(by_type)
        }
        _ => None,
    }
}

/// Whose machine it is, by DMI. Azure's chassis asset tag and OCI's are constants that
/// cloud-init goes by, too (DataSourceAzure, DataSourceOracle); a Hyper-V guest without the tag is
/// not Azure's.
fn provider(machine: &MachineFacts) -> Option<Provider> {
    const OF_AZURE: &str = "7783-7084-3265-9085-8269-3286-77";
    let by_text = [
        (&machine.asset_tag, OF_AZURE, Provider::Azure),
        (&machine.asset_tag, "OracleCloud.com", Provider::Oci),
        (&machine.vendor, "Amazon EC2", Provider::Aws),
        (&machine.vendor, "Google", Provider::Gcp),
        (&machine.vendor, "NVIDIA", Provider::Nvidia),
    ];
    let is = |field: &str, text: &str| field.trim().eq_ignore_ascii_case(text);
    let mut known = by_text.into_iter();
    known.find_map(|(field, text, of)| is(field.as_deref()?, text).then_some(of))
}

/// What this machine is, the first that tells: settings, label, DMI, drivers; else what is seen.
pub fn find(
    settings: &PlatformSettings,
    offer: Option<&NodeResources>,
    snapshot: &Snapshot,
    (roles, overrides): (&Roles, &RoleOverrides),
) -> Profile {
    let machine = snapshot.pci.as_ref().map(|pci| &pci.value.machine);
    let label = offer.and_then(|offer| offer.instance_type.as_deref());
    let ec2 = machine.filter(|machine| provider(machine) == Some(Provider::Aws));
    let product = ec2.and_then(|machine| machine.product.clone());
    let ports = PortView::all(snapshot, roles, (snapshot.at, Duration::MAX));
    let rails: Vec<PortView<'_>> = ports.filter(|port| port.rail).collect();
    let (source, shape) = known(settings, offer, snapshot).unzip();
    let of_shape = shape.map(|shape| shape.provider);
    Profile {
        source: source.unwrap_or_default(),
        shape,
        provider: of_shape.or_else(|| machine.and_then(provider)),
        instance_type: label.map(str::to_string).or(product),
        resource: Some(settings.resource.clone()).filter(|resource| !resource.is_empty()),
        seen: (rails.first()).map(|rail| kind(rail.device, rail.port.link_layer)),
        roles_set: *overrides != RoleOverrides::default(),
        rails: rail_keys(roles).count(),
        rate: rails.iter().filter_map(PortView::rate).min(),
    }
}

/// The shape, where something tells it.
pub fn known(
    settings: &PlatformSettings,
    offer: Option<&NodeResources>,
    snapshot: &Snapshot,
) -> Option<(ProfileSource, &'static Shape)> {
    let word = settings.profile.trim();
    if word == "none" {
        return None;
    }
    let machine = snapshot.pci.as_ref().map(|pci| &pci.value.machine);
    let label = offer.and_then(|offer| offer.instance_type.as_deref());
    let of = |source, shape: Option<&'static Shape>| Some((source, shape?));
    let set = Some(word).filter(|word| *word != "auto");
    of(ProfileSource::Set, set.and_then(by_type))
        .or_else(|| of(ProfileSource::InstanceType, label.and_then(by_type)))
        .or_else(|| of(ProfileSource::Dmi, machine.and_then(by_product)))
        .or_else(|| of(ProfileSource::Pci, by_drivers(snapshot)))
}

/// What the shape, where one is known, says of which ports are rails: only what is proven.
pub fn says_of_roles(shape: Option<&Shape>) -> ShapeSays {
    match shape.map(|shape| (shape.fabric, shape.rails)) {
        Some((Fabric::Gvnic, _)) => ShapeSays::Gvnics,
        Some((Fabric::None, (0, Certainty::Yes))) => ShapeSays::NoFabric,
        _ => ShapeSays::Nothing,
    }
}

/// Google's product name is the same on all of its machines; the number of gVNICs next to eight GPUs
/// tells A3 High (five with the node's own) from A3 Mega (nine).
fn by_drivers(snapshot: &Snapshot) -> Option<&'static Shape> {
    let pci = &snapshot.pci.as_ref()?.value;
    if provider(&pci.machine) != Some(Provider::Gcp) || pci.gpus.len() != 8 {
        return None;
    }
    let devices = &snapshot.devices.as_ref()?.value;
    let count = |driver: &str| devices.iter().filter(|d| d.driver == driver).count();
    match (count("gve"), devices.len()) {
        (5, 5) => by_type("a3-highgpu-8g"),
        (9, 9) => by_type("a3-megagpu-8g"),
        _ => None,
    }
}

fn kind(device: &RdmaDevice, layer: LinkLayer) -> Fabric {
    match (device.driver.as_str(), layer) {
        ("efa", _) => Fabric::Efa,
        ("gve", _) => Fabric::Gvnic,
        (_, LinkLayer::Infiniband) => Fabric::Infiniband,
        (_, LinkLayer::Ethernet) => Fabric::Roce,
        (_, LinkLayer::Unspecified) => Fabric::None,
    }
}

#[cfg(test)]
mod tests;
