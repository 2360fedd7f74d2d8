//! What the items have in common: the kind of fabric, whether the job spans nodes, and whether it
//! needs RDMA at all.

use super::item::{Item, ItemStatus};
use super::job::spans_nodes;
use super::nccl_list::{MAX_HCAS, NcclList, is_on, parse_number};
use super::plugins::candidates;
use crate::observe::{
    ContainerFacts, Library, LinkLayer, RdmaDevice, Reading, SeenDevice, SeenPort, Variable,
};
use std::collections::BTreeMap;

/// More interfaces of Google's driver than this are rails: other machines have one or two, A3 High
/// has five and A3 Mega nine.
const GVE_RAILS: usize = 4;

/// An RDMA device and one of its ports.
pub(super) type PodPort<'a> = (&'a SeenDevice, &'a SeenPort);

/// What the rails are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodFabric {
    /// InfiniBand or RoCE, used by NCCL's own transport.
    Verbs,
    /// AWS EFA, used by a libfabric plugin.
    Efa,
    /// Google's A3 High and Mega: network interfaces, used by a plugin that reaches GPU memory.
    TcpRails,
    /// The container has no RDMA device.
    None,
    /// RDMA devices could not be listed.
    Unknown,
}

/// The facts and what follows from them.
pub(super) struct PodView<'a> {
    pub facts: &'a ContainerFacts,
    /// GPUs of this container; `None` if unknown.
    pub gpus: Option<u32>,
    pub fabric: PodFabric,
    /// Whether the job spans nodes, with the evidence; `None` if unknown.
    pub nodes: Option<(bool, String)>,
    /// The setting that makes NCCL use TCP.
    pub tcp: Option<Variable<'a>>,
    /// The evidence that the job relies on RDMA.
    pub wanted: Option<String>,
    /// The setting that shows that the rails should be EFA.
    pub efa: Option<String>,
}

impl<'a> PodView<'a> {
    pub fn new(facts: &'a ContainerFacts, gpus: Option<u32>) -> Self {
        let gpus = gpus.or(facts.gpus.value().copied());
        let mut context = PodView {
            facts,
            gpus,
            fabric: fabric(facts),
            nodes: spans_nodes(facts, gpus),
            tcp: None,
            wanted: None,
            efa: efa_configured(facts),
        };
        context.tcp = context.asks_for_tcp();
        context.wanted = context.relies_on_rdma().filter(|_| context.tcp.is_none());
        context
    }

    pub fn nccl(&self, name: &'static str) -> Option<Variable<'a>> {
        self.facts.environment.nccl(name)
    }

    /// A whole number as NCCL reads it; `None` if NCCL keeps its default.
    pub fn nccl_number(&self, name: &'static str) -> Option<i64> {
        parse_number(self.nccl(name)?.value)
    }

    /// Whether a setting is a number other than 0.
    pub fn nccl_flag(&self, name: &'static str) -> bool {
        self.nccl(name).is_some_and(|setting| is_on(setting.value))
    }

    pub fn is_one_node(&self) -> bool {
        matches!(self.nodes, Some((false, _)))
    }

    pub fn is_many_nodes(&self) -> bool {
        matches!(self.nodes, Some((true, _)))
    }

    /// Why this job does not need RDMA; `None` if it may.
    pub fn without_rdma(&self) -> Option<String> {
        match (&self.tcp, &self.nodes) {
            (Some(setting), _) => Some(format!("{setting} asks for TCP")),
            (None, Some((false, why))) => Some(format!("the job runs on one node ({why})")),
            _ => None,
        }
    }

    /// Turns a problem with RDMA into a skipped item if this job does not need RDMA.
    pub fn if_rdma_matters(&self, item: Item) -> Item {
        match self.without_rdma() {
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

    /// Ports of the devices that this container can open.
    pub fn ports(&self) -> Vec<PodPort<'a>> {
        let open = self.devices().iter().filter(|device| device.is_open());
        open.flat_map(|device| device.ports.iter().map(move |port| (device, port)))
            .collect()
    }

    /// Ports that NCCL's own transport considers: active, InfiniBand or Ethernet.
    pub fn candidates(&self) -> Vec<PodPort<'a>> {
        let mut ports = self.ports();
        ports.retain(|(_, port)| port.is_active() && port.link_layer != LinkLayer::Unspecified);
        ports
    }

    /// `NCCL_IB_HCA` as NCCL reads it; it selects everything if unset.
    pub fn hca_list(&self) -> NcclList {
        let value = self.nccl("NCCL_IB_HCA").map_or("", |setting| setting.value);
        NcclList::parse(value, MAX_HCAS)
    }

    /// The candidates that `NCCL_IB_HCA` selects.
    pub fn selected(&self) -> Vec<PodPort<'a>> {
        let list = self.hca_list();
        let mut candidates = self.candidates();
        candidates.retain(|port| list.selects_port(port));
        candidates
    }

    /// How many of `all` like rails the job's GPUs here could use, if it spans nodes and uses fewer:
    /// one for each GPU, or as many as there are.
    pub fn short_of_rails(&self, used: usize, all: usize) -> Option<usize> {
        let matters = self.is_many_nodes() && self.without_rdma().is_none();
        let gpus = self.gpus.filter(|_| matters)?;
        // A single process may use any number of GPUs.
        let local = self.facts.environment.get("LOCAL_WORLD_SIZE");
        let local = local.and_then(|text| text.trim().parse().ok());
        let gpus = gpus.min(local.filter(|local| *local > 1).unwrap_or(u32::MAX));
        let could = all.min(usize::try_from(gpus).unwrap_or(usize::MAX));
        (used > 0 && used < could).then_some(could)
    }

    /// The first plugin library that NCCL would load.
    pub fn plugin(&self) -> Option<&'a str> {
        let names = candidates(&self.facts.environment).into_iter();
        let mut found = names.filter_map(|name| self.facts.libraries.get(&name));
        found.find_map(|library| match library {
            Library::Usable { path } => Some(path.as_str()),
            _ => None,
        })
    }

    /// The setting that makes NCCL use TCP. `NCCL_IB_DISABLE` concerns only NCCL's own transport: it
    /// does not affect a plugin, and EFA images set it as a matter of course.
    fn asks_for_tcp(&self) -> Option<Variable<'a>> {
        if let Some(net) = self.nccl("NCCL_NET") {
            return net.value.eq_ignore_ascii_case("socket").then_some(net);
        }
        let may_be_verbs = match self.fabric {
            PodFabric::Verbs => true,
            PodFabric::None | PodFabric::Unknown => self.efa.is_none(),
            PodFabric::Efa | PodFabric::TcpRails => false,
        };
        // The plugin of HPC-X (IBext) has a switch of its own.
        let plugin_disabled = self.nccl_flag("NCCL_IBEXT_DISABLE");
        let has_plugin = (self.plugin())
            .is_some_and(|path| !(plugin_disabled && path.ends_with("/libnccl-net.so")));
        let disabled = self.nccl_flag("NCCL_IB_DISABLE") && may_be_verbs && !has_plugin;
        self.nccl("NCCL_IB_DISABLE").filter(|_| disabled)
    }

    /// The evidence that the job relies on RDMA.
    fn relies_on_rdma(&self) -> Option<String> {
        let hint = |name| {
            let setting = self.nccl(name).filter(|setting| !setting.value.is_empty());
            setting.map(|setting| setting.to_string())
        };
        let net = || self.nccl("NCCL_NET").map(|net| net.to_string());
        let efa = self.efa.clone();
        let provider = || efa.filter(|why| why.starts_with("FI_PROVIDER="));
        let setting = hint("NCCL_IB_HCA")
            .or_else(|| hint("NCCL_IB_GID_INDEX"))
            .or_else(net)
            .or_else(provider);
        match (setting, &self.nodes, self.gpus) {
            (Some(setting), ..) => Some(format!("{setting} relies on it")),
            (None, Some((true, why)), Some(1..)) => {
                Some(format!("the job's GPUs are on several nodes ({why})"))
            }
            _ => None,
        }
    }
}

/// Whether two devices are of one kind, as the rails of a machine are. A NIC for storage or for the
/// node itself differs in its model, link layer, or kind of function.
pub(super) fn is_alike(one: &SeenDevice, other: &SeenDevice) -> bool {
    let (a, b) = (&one.device, &other.device);
    let layer = |device: &RdmaDevice| device.ports.first().map(|port| port.link_layer);
    a.driver == b.driver
        && a.function == b.function
        && a.pci_id == b.pci_id
        && a.smi_parent.is_none() == b.smi_parent.is_none()
        && layer(a) == layer(b)
}

/// `mlx5_0:1`, as NCCL writes ports.
pub(super) fn port_name((device, port): &PodPort<'_>) -> String {
    format!("{}:{}", device.device.name, port.number)
}

pub(super) fn port_names(ports: &[PodPort<'_>]) -> Vec<String> {
    ports.iter().map(port_name).collect()
}

fn fabric(facts: &ContainerFacts) -> PodFabric {
    let Reading::Value(devices) = &facts.rdma else {
        return PodFabric::Unknown;
    };
    if devices.iter().any(|device| device.device.driver != "efa") {
        return PodFabric::Verbs;
    }
    if !devices.is_empty() {
        return PodFabric::Efa;
    }
    let environment = &facts.environment;
    let mut names = (environment.variables.keys()).chain(environment.nccl_files.keys());
    let by_setting = names.any(|name| begins_with(name, &["nccl_fastrak_", "nccl_gpudirecttcpx_"]));
    let net = environment.nccl("NCCL_NET");
    let by_network = net.is_some_and(|net| begins_with(net.value, &["fastrak", "gpudirecttcpx"]));
    let drivers = facts.links.value().into_iter().flat_map(BTreeMap::values);
    let is_google = |driver: &&String| ["gve", "gvnic"].contains(&driver.as_str());
    let gve = drivers.flatten().filter(is_google).count();
    match by_setting || by_network || gve > GVE_RAILS {
        true => PodFabric::TcpRails,
        false => PodFabric::None,
    }
}

/// Whether a text begins with one of these in any case, as NCCL compares names of networks.
fn begins_with(text: &str, names: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    names.iter().any(|name| text.starts_with(name))
}

/// The setting that shows that the rails should be EFA: libfabric's provider, aws-ofi-nccl's network
/// (`AWS Libfabric`, `Libfabric`) or library (`ofi`), or libfabric's EFA settings.
fn efa_configured(facts: &ContainerFacts) -> Option<String> {
    let environment = &facts.environment;
    let is_efa = |value: &&str| value.split(',').any(|name| name.trim().starts_with("efa"));
    if let Some(value) = environment.get("FI_PROVIDER").filter(is_efa) {
        return Some(format!("FI_PROVIDER={value}"));
    }
    let is_libfabric = |net: &Variable<'_>| begins_with(net.value, &["aws libfabric", "libfabric"]);
    let is_plugin = |plugin: &Variable<'_>| {
        let names = plugin.value.split(',');
        let mut files = names.filter_map(|name| name.rsplit('/').next());
        files.any(|file| ["ofi", "aws-ofi", "libnccl-net-ofi.so"].contains(&file))
    };
    let net = environment.nccl("NCCL_NET").filter(is_libfabric);
    let plugin = environment.nccl("NCCL_NET_PLUGIN").filter(is_plugin);
    let setting = net.or(plugin).map(|setting| setting.to_string());
    let mut names = environment.variables.keys();
    let mut own = || names.find(|name| name.starts_with("FI_EFA_"));
    setting.or_else(|| Some(format!("{} is set", own()?)))
}
