//! What the items have in common: what kind of fabric this is, whether the job spans nodes, and
//! whether RDMA is wanted at all.

use super::nccl_list::{MAX_HCAS, NcclList, number};
use super::{Item, ItemStatus, Options};
use crate::observe::container::{ContainerFacts, Library, SeenDevice, SeenPort, Setting};
use crate::observe::rdma::{LinkLayer, PortState, RdmaDevice};
use crate::observe::reading::Reading;

/// Interfaces of Google's driver from which on a machine is taken for one whose rails are such
/// interfaces: others have one or two (A3 High has five, A3 Mega nine).
const GVE_RAILS: usize = 4;

/// What the rails are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fabric {
    /// InfiniBand or RoCE, by NCCL's own transport.
    Verbs,
    /// EFA: by a libfabric plugin.
    Efa,
    /// Google's A3 High and Mega: TCP interfaces and a plugin that reaches GPU memory.
    TcpRails,
    /// There is no RDMA device.
    None,
    /// That could not be read.
    Unknown,
}

/// A setting that asks for something, by name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub name: &'static str,
    pub setting: Setting<'a>,
}

impl Asked<'_> {
    /// `NCCL_NET=Socket (in /etc/nccl.conf)`.
    pub fn told(&self) -> String {
        told(self.name, self.setting)
    }
}

/// A setting and where it stands.
pub(super) fn told(name: &str, setting: Setting<'_>) -> String {
    let _ = name;
    setting.to_string()
}

/// Facts with what follows from them.
pub(super) struct Scene<'a> {
    pub facts: &'a ContainerFacts,
    /// GPUs of this container, where known.
    pub gpus: Option<u32>,
    pub fabric: Fabric,
    /// Whether the job spans nodes, and what says so.
    pub nodes: Option<(bool, String)>,
    /// The setting that asks for TCP.
    pub tcp: Option<Asked<'a>>,
    /// What says that RDMA is wanted.
    pub wanted: Option<String>,
    /// The setting that says that the rails are meant to be EFA.
    pub efa: Option<String>,
}

impl<'a> Scene<'a> {
    pub fn new(facts: &'a ContainerFacts, options: Options) -> Self {
        let gpus = options.gpus.or(facts.gpus.value().copied());
        let mut scene = Scene {
            facts,
            gpus,
            fabric: fabric(facts),
            nodes: super::job::spans_nodes(facts, gpus),
            tcp: None,
            wanted: None,
            efa: efa_meant(facts),
        };
        scene.tcp = asks_for_tcp(&scene);
        scene.wanted = wanted(&scene);
        scene
    }

    pub fn nccl(&self, name: &'static str) -> Option<Asked<'a>> {
        let setting = self.facts.environment.nccl(name)?;
        Some(Asked { name, setting })
    }

    /// A whole number that NCCL reads; none where it keeps its default.
    pub fn nccl_number(&self, name: &'static str) -> Option<i64> {
        number(self.nccl(name)?.setting.value)
    }

    pub fn is_one_node(&self) -> bool {
        matches!(self.nodes, Some((false, _)))
    }

    pub fn is_many_nodes(&self) -> bool {
        matches!(self.nodes, Some((true, _)))
    }

    /// Why RDMA does not matter to this job, if it does not.
    pub fn does_without(&self) -> Option<String> {
        if let Some(asked) = &self.tcp {
            return Some(format!("{} asks for TCP", asked.told()));
        }
        match &self.nodes {
            Some((false, why)) => Some(format!("the job is of one node ({why})")),
            _ => None,
        }
    }

    /// An item that would be wrong if RDMA mattered to this job, and otherwise is skipped.
    pub fn if_it_matters(&self, item: Item) -> Item {
        match self.does_without() {
            Some(why) if item.status > ItemStatus::Skipped => Item {
                status: ItemStatus::Skipped,
                reason: None,
                message: format!("{}; {why}", item.message),
                remedy: String::new(),
                ..item
            },
            _ => item,
        }
    }

    pub fn devices(&self) -> &'a [SeenDevice] {
        self.facts.rdma.value().map_or(&[], Vec::as_slice)
    }

    /// Ports of devices that this container can open.
    pub fn ports(&self) -> impl Iterator<Item = (&'a SeenDevice, &'a SeenPort)> + use<'a> {
        self.devices()
            .iter()
            .filter(|device| device.node == Reading::Value(()))
            .flat_map(|device| device.ports.iter().map(move |port| (device, port)))
    }

    /// Those that NCCL's own transport would look at: active, InfiniBand or Ethernet.
    pub fn candidates(&self) -> Vec<(&'a SeenDevice, &'a SeenPort)> {
        self.ports()
            .filter(|(device, port)| {
                port.state == Reading::Value(PortState::Active)
                    && layer(device, port) != LinkLayer::Unspecified
            })
            .collect()
    }

    /// `NCCL_IB_HCA` as NCCL reads it; unset, it selects all.
    pub fn hca_list(&self) -> NcclList {
        let text = self.nccl("NCCL_IB_HCA");
        NcclList::parse(text.map_or("", |asked| asked.setting.value), MAX_HCAS)
    }

    /// Those of the candidates that `NCCL_IB_HCA` leaves.
    pub fn selected(&self) -> Vec<(&'a SeenDevice, &'a SeenPort)> {
        let list = self.hca_list();
        let mut candidates = self.candidates();
        candidates.retain(|(device, port)| list.selects(&device.device.name, Some(port.number)));
        candidates
    }

    /// How many rails the job's GPUs here could have of `all` that are alike, where `taken` of them
    /// are fewer and the job spans nodes: one for each GPU, or as many as there are.
    pub fn short_of_rails(&self, taken: usize, all: usize) -> Option<usize> {
        let matters = self.is_many_nodes() && self.does_without().is_none();
        let gpus = self.gpus.filter(|_| matters)?;
        // One process of several GPUs says nothing of how many it uses.
        let local = self.facts.environment.get("LOCAL_WORLD_SIZE");
        let local = local.and_then(|text| text.trim().parse().ok());
        let gpus = gpus.min(local.filter(|local| *local > 1).unwrap_or(u32::MAX));
        let could = all.min(usize::try_from(gpus).unwrap_or(usize::MAX));
        (taken > 0 && taken < could).then_some(could)
    }

    /// A plugin library that the loader finds and that nobody switched off.
    pub fn plugin(&self) -> Option<&'a str> {
        super::plugins::candidates(&self.facts.environment)
            .into_iter()
            .find_map(|name| match self.facts.libraries.get(&name) {
                Some(Library::Usable { path }) => Some(path.as_str()),
                _ => None,
            })
    }
}

/// Link layer of a port.
pub(super) fn layer(device: &SeenDevice, port: &SeenPort) -> LinkLayer {
    let ports = device.device.ports.iter();
    let mut ports = ports.filter(|known| known.number == port.number);
    ports
        .next()
        .map_or(LinkLayer::Unspecified, |port| port.link_layer)
}

/// Whether two devices are of one kind, as the rails of a machine are: a NIC for storage or for the
/// node itself is another card, another link layer, or another kind of function.
pub(super) fn alike(one: &SeenDevice, other: &SeenDevice) -> bool {
    let (a, b) = (&one.device, &other.device);
    let layers = |device: &RdmaDevice| device.ports.first().map(|port| port.link_layer);
    a.driver == b.driver
        && a.function == b.function
        && a.pci_id == b.pci_id
        && a.smi_parent.is_none() == b.smi_parent.is_none()
        && layers(a) == layers(b)
}

/// `mlx5_0:1`, as NCCL writes ports.
pub(super) fn port_name(device: &SeenDevice, port: &SeenPort) -> String {
    format!("{}:{}", device.device.name, port.number)
}

fn fabric(facts: &ContainerFacts) -> Fabric {
    let devices = match &facts.rdma {
        Reading::Value(devices) => devices,
        _ => return Fabric::Unknown,
    };
    let is_efa = |device: &SeenDevice| device.device.driver == "efa";
    if devices.iter().any(|device| !is_efa(device)) {
        return Fabric::Verbs;
    }
    if !devices.is_empty() {
        return Fabric::Efa;
    }
    let environment = &facts.environment;
    let by_setting = environment
        .variables
        .keys()
        .chain(environment.nccl_files.keys())
        .any(|name| name.starts_with("NCCL_FASTRAK_") || name.starts_with("NCCL_GPUDIRECTTCPX_"));
    let by_network = environment
        .nccl("NCCL_NET")
        .is_some_and(|net| begins(net.value, &["fastrak", "gpudirecttcpx"]));
    let gve = facts.links.value().map_or(0, |links| {
        let google = |driver: &str| driver == "gve" || driver == "gvnic";
        let drivers = links.values().filter_map(Option::as_deref);
        drivers.filter(|driver| google(driver)).count()
    });
    if by_setting || by_network || gve > GVE_RAILS {
        Fabric::TcpRails
    } else {
        Fabric::None
    }
}

/// Whether a text begins with one of these, in any case, as NCCL compares its networks' names.
fn begins(text: &str, names: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    names.iter().any(|name| text.starts_with(name))
}

/// What tells that the rails are meant to be EFA: libfabric's provider, aws-ofi-nccl's network
/// (`AWS Libfabric`, `Libfabric`) or its library (`ofi`), libfabric's settings of EFA.
fn efa_meant(facts: &ContainerFacts) -> Option<String> {
    let environment = &facts.environment;
    if let Some(value) = environment.get("FI_PROVIDER")
        && value.split(',').any(|name| name.trim().starts_with("efa"))
    {
        return Some(format!("FI_PROVIDER={value}"));
    }
    if let Some(net) = environment.nccl("NCCL_NET")
        && begins(net.value, &["aws libfabric", "libfabric"])
    {
        return Some(told("NCCL_NET", net));
    }
    if let Some(plugin) = environment.nccl("NCCL_NET_PLUGIN")
        && (plugin.value.split(',')).any(|name| {
            let file = name.rsplit('/').next().unwrap_or(name);
            ["ofi", "aws-ofi", "libnccl-net-ofi.so"].contains(&file)
        })
    {
        return Some(told("NCCL_NET_PLUGIN", plugin));
    }
    let mut names = environment.variables.keys();
    names
        .find(|name| name.starts_with("FI_EFA_"))
        .map(|name| format!("{name} is set"))
}

/// The setting that makes NCCL take TCP sockets. `NCCL_IB_DISABLE` binds NCCL's own transport only:
/// not a plugin that is found, and on EFA it is set as a matter of course.
fn asks_for_tcp<'a>(scene: &Scene<'a>) -> Option<Asked<'a>> {
    if let Some(asked) = scene.nccl("NCCL_NET")
        && asked.setting.value.eq_ignore_ascii_case("socket")
    {
        return Some(asked);
    }
    let asked = scene.nccl("NCCL_IB_DISABLE")?;
    let disables = number(asked.setting.value).is_some_and(|number| number != 0);
    let verbs = match scene.fabric {
        Fabric::Verbs => true,
        Fabric::None | Fabric::Unknown => scene.efa.is_none(),
        Fabric::Efa | Fabric::TcpRails => false,
    };
    // The plugin of HPC-X (IBext) has a switch of its own.
    let switched_off = scene
        .nccl_number("NCCL_IBEXT_DISABLE")
        .is_some_and(|number| number != 0);
    let plugin = scene
        .plugin()
        .is_some_and(|path| !(switched_off && path.ends_with("/libnccl-net.so")));
    (disables && verbs && !plugin && scene.nccl("NCCL_NET").is_none()).then_some(asked)
}

/// What shows that somebody counts on RDMA.
fn wanted(scene: &Scene<'_>) -> Option<String> {
    if scene.tcp.is_some() {
        return None;
    }
    for name in ["NCCL_IB_HCA", "NCCL_IB_GID_INDEX"] {
        if let Some(asked) = scene.nccl(name)
            && !asked.setting.value.is_empty()
        {
            return Some(format!("{} counts on it", asked.told()));
        }
    }
    if let Some(asked) = scene.nccl("NCCL_NET") {
        return Some(format!("{} counts on it", asked.told()));
    }
    if let Some(why) = &scene.efa
        && why.starts_with("FI_PROVIDER=")
    {
        return Some(format!("{why} counts on it"));
    }
    match (&scene.nodes, scene.gpus) {
        (Some((true, why)), Some(gpus)) if gpus > 0 => {
            Some(format!("the job's GPUs are on several nodes ({why})"))
        }
        _ => None,
    }
}
