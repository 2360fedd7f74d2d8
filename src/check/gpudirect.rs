//! Which path GPUDirect RDMA can take on this node, and why.

use super::PortView;
use crate::observe::{
    DATA_DIRECT, GpuDirectFacts, Module, PciFacts, PciFunction, RdmaDevice, Reading,
};
use crate::settings_macro::words;
use serde::Serialize;

words! {
    /// How a NIC can reach GPU memory here.
    #[derive(Default)]
    Path {
        /// Every prerequisite of DMA-BUF is met (no kernel file says more than that).
        Dmabuf = "dmabuf",
        /// A peer-memory module is registered with ib_core.
        Peermem = "peermem",
        /// Neither: RDMA works, but data is staged through host memory.
        None = "none",
        /// The sources cannot tell.
        #[default]
        Unknown = "unknown",
    }
}

/// The verdict with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GpuDirectVerdict {
    /// The path that GPUDirect RDMA can take on this node.
    pub path: Path,
    /// What speaks for and against, one short sentence each.
    pub why: Vec<String>,
}

impl GpuDirectVerdict {
    fn of(path: Path, why: impl Into<String>) -> Self {
        GpuDirectVerdict {
            path,
            why: vec![why.into()],
        }
    }
}

/// NIC drivers that take DMA-BUF memory (`reg_user_mr_dmabuf` in their ib_device_ops, 6.12; ionic 6.18).
/// ice, idpf and i40e carry irdma.
const DMABUF_DRIVERS: &str = "mlx5_core mlx5_ib efa bnxt_re bnxt_en irdma ice idpf i40e ionic";

/// Takes DMA-BUF memory in some kernels newer than 6.12; its release string does not say which.
const MANA: &str = "mana";

/// Omni-Path moves GPU memory by an interface of its own (PSM), not by verbs.
const OMNI_PATH: &str = "hfi1";

/// Which path GPUDirect RDMA can take, and why. `devices` are those that matter: the rails.
pub fn judge_path(facts: &GpuDirectFacts, devices: &[&RdmaDevice]) -> GpuDirectVerdict {
    let loaded = driver_loaded(facts);
    if loaded == Some(false) {
        return GpuDirectVerdict::of(Path::None, "the NVIDIA driver is not loaded");
    }
    let mut why = Vec::new();
    if loaded.is_none() {
        why.push("whether the NVIDIA driver is loaded cannot be read".into());
    }
    if devices.is_empty() {
        why.push("no RDMA device found".into());
        let path = Path::None;
        return GpuDirectVerdict { path, why };
    }
    if devices.iter().all(|device| device.is_gvnic()) {
        why.push("GPUDirect-TCPX(O) runs in the pod; no file on the node shows it".into());
        let path = Path::Unknown;
        return GpuDirectVerdict { path, why };
    }
    let dmabuf = dmabuf(facts, devices, &mut why);
    let peermem = peermem(facts, devices, &mut why);
    let path = match (loaded, dmabuf, peermem) {
        (None, _, _) => Path::Unknown,
        (_, Some(true), _) => Path::Dmabuf,
        (_, _, Some(true)) => Path::Peermem,
        (_, Some(false), Some(false)) => Path::None,
        _ => Path::Unknown,
    };
    GpuDirectVerdict { path, why }
}

/// Whether NVIDIA's driver is loaded; `None` where that cannot be told, as of the other prerequisites.
pub(super) fn driver_loaded(facts: &GpuDirectFacts) -> Option<bool> {
    let by_modules = || Some(facts.modules.value()?.contains_key("nvidia"));
    facts.driver.value().map(|_| true).or_else(by_modules)
}

fn dmabuf(facts: &GpuDirectFacts, devices: &[&RdmaDevice], why: &mut Vec<String>) -> Option<bool> {
    let release = facts.kernel_release.as_deref();
    let kernel = release.and_then(leading_version);
    let driver = facts.driver.value();
    let version = driver.and_then(|driver| leading_version(&driver.version));
    let (unread, drivers): (Vec<&str>, Vec<&str>) = (devices.iter())
        .map(|device| device.driver.as_str())
        .partition(|driver| *driver == "unknown");
    let has_it = |driver: &str| DMABUF_DRIVERS.split(' ').any(|known| known == driver);
    let lacking = drivers.iter().find(|driver| !has_it(driver));
    let nics = match lacking {
        Some(&(OMNI_PATH | MANA)) => None,
        Some(_) => Some(false),
        None => unread.is_empty().then_some(true),
    };
    // What is needed, and what is said where it is not there or cannot be told.
    let needs = [
        (
            kernel.map(|have| have >= (5, 12)),
            format!("kernel {} is older than 5.12", release.unwrap_or("?")),
            "the kernel's release cannot be read",
        ),
        (
            driver.and_then(|driver| driver.open),
            "the NVIDIA kernel module is the proprietary one".into(),
            "whether the NVIDIA kernel module is the open one cannot be read",
        ),
        (
            version.map(|have| have.0 >= 515),
            "the NVIDIA driver is older than 515".into(),
            "the NVIDIA driver's version cannot be read",
        ),
        (
            nics,
            format!("the NIC driver {} does not have it", lacking.unwrap_or(&"")),
            "a NIC's driver cannot be read, or does not use DMA-BUF",
        ),
    ];
    for (met, no, cannot) in &needs {
        match met {
            Some(true) => {}
            Some(false) => why.push(format!("no DMA-BUF: {no}")),
            None => why.push(format!("DMA-BUF: {cannot}")),
        }
    }
    if needs.iter().any(|(met, ..)| *met == Some(false)) {
        return Some(false);
    }
    if needs.iter().any(|(met, ..)| met.is_none()) {
        return None;
    }
    why.push("every prerequisite of DMA-BUF is met".into());
    Some(true)
}

fn peermem(facts: &GpuDirectFacts, devices: &[&RdmaDevice], why: &mut Vec<String>) -> Option<bool> {
    if let Some(provider) = efa_provider(facts, devices) {
        let named = format!("the EFA driver's peer-to-peer provider is {provider}");
        why.push(named);
        return Some(true);
    }
    let loaded = match &facts.modules {
        Reading::Value(_) => Some(peermem_module(facts).is_some()),
        Reading::Absent => Some(false),
        _ => None,
    };
    let is_client = |name: &String| name.starts_with("nv_mem");
    let registered = (facts.memory_peers.value()).map(|clients| clients.iter().any(is_client));
    let client = "a peer-memory client is registered with ib_core";
    let lost = "the peer-memory module is loaded, but not registered with ib_core";
    let unread = "whether a peer-memory module is loaded cannot be read";
    let (answer, because) = match (registered, loaded) {
        (Some(true), _) => (Some(true), client),
        (Some(false), Some(true)) => (Some(false), lost),
        // ib_core shows no list: NCCL takes the loaded module for proof, and so it is, since
        // nvidia-peermem refuses to load where it cannot register.
        (None, Some(true)) => (Some(true), "a peer-memory module is loaded"),
        (_, Some(false)) => (Some(false), "no peer-memory module is loaded"),
        (_, None) => (None, unread),
    };
    why.push(because.into());
    answer
}

/// A peer-memory module that is up (`initstate` is `live`, or not told).
pub(super) fn peermem_module(facts: &GpuDirectFacts) -> Option<&'static str> {
    let modules = facts.modules.value()?;
    let up = |name: &&str| modules.get(*name).is_some_and(Module::is_live);
    ["nvidia_peermem", "nv_peer_mem"].into_iter().find(up)
}

/// The peer-to-peer provider that the EFA driver names, where every device is EFA.
fn efa_provider<'a>(facts: &'a GpuDirectFacts, devices: &[&RdmaDevice]) -> Option<&'a str> {
    // The attribute is this driver's own: a function that has it needs no other sign.
    let named = |device: &RdmaDevice| {
        let address = device.pci.map(|pci| pci.to_string());
        device.driver == "unknown" && address.is_some_and(|at| facts.efa_p2p.contains_key(&at))
    };
    let is_efa = |device: &&RdmaDevice| device.driver == "efa" || named(device);
    if !devices.iter().all(is_efa) {
        return None;
    }
    let mut providers = facts.efa_p2p.values().map(String::as_str);
    providers.find(|provider| !provider.is_empty())
}

/// `(6, 8)` of `6.8.0-45-generic`, `(550, 54)` of `550.54.15`.
fn leading_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major, minor.parse().ok()?))
}

/// The verdict on the node as it is: rails where there are any, else every RDMA device.
pub(super) fn verdict(
    facts: Option<&GpuDirectFacts>,
    pci: Option<&PciFacts>,
    ports: &[PortView<'_>],
) -> GpuDirectVerdict {
    let Some(facts) = facts else {
        return GpuDirectVerdict::of(Path::Unknown, "the GPU driver's files were not read");
    };
    let gpus: Vec<_> = pci.into_iter().flat_map(PciFacts::gpu_functions).collect();
    let is_nvidias = |(_, gpu): &(_, &PciFunction)| gpu.id.starts_with("10de:");
    if driver_loaded(facts) == Some(false) && !gpus.is_empty() && !gpus.iter().any(is_nvidias) {
        let others = "the GPUs are not NVIDIA's; other vendors' drivers are not read";
        return GpuDirectVerdict::of(Path::Unknown, others);
    }
    let any_rail = ports.iter().any(|port| port.rail);
    let judged = ports.iter().filter(|port| port.rail || !any_rail);
    let devices: Vec<&RdmaDevice> = judged.map(|port| port.device).collect();
    let verdict = judge_path(facts, &devices);
    let falls_back = pci.and_then(|pci| falls_back(pci, facts, &devices));
    match (verdict.path, falls_back) {
        (Path::Dmabuf, Some(why)) => GpuDirectVerdict::of(Path::Unknown, why),
        _ => verdict,
    }
}

/// On Grace the driver hands GPU memory to a NIC over PCIe only within one IOMMU group, or where
/// `GrdmaPciTopoCheckOverride` says so; else NCCL falls back without a word. By version (nv-dmabuf.c of
/// NVIDIA's open modules): 570 and 575 take any value but 0, 580 to 594 take 1, 595 takes none. A NIC with
/// Data Direct reaches the GPU through a function in its group.
fn falls_back(pci: &PciFacts, facts: &GpuDirectFacts, devices: &[&RdmaDevice]) -> Option<String> {
    if facts.arch.as_deref() != Some("aarch64") || !is_grace(facts, pci) {
        return None;
    }
    let groups = pci.gpu_functions().map(|(_, gpu)| &gpu.iommu_group);
    let gpus: Vec<_> = groups.collect();
    let direct = pci.functions.values().filter(|of| of.id == DATA_DIRECT);
    if gpus.is_empty() || direct.into_iter().any(|of| gpus.contains(&&of.iommu_group)) {
        return None;
    }
    let apart = |device: &&&RdmaDevice| {
        let own = device.pci.and_then(|at| pci.functions.get(&at.to_string()));
        own.is_some_and(|own| !gpus.contains(&&own.iommu_group))
    };
    let nic = devices.iter().find(apart)?;
    let (major, _) = leading_version(&facts.driver.value()?.version)?;
    let set = facts.topology_override.value();
    let why = match (major, set) {
        (..570, _) | (570..580, Some(1..)) | (580..595, Some(1)) => return None,
        (595.., _) => format!("driver {major} allows that within one group only"),
        (_, Some(value)) => format!("GrdmaPciTopoCheckOverride is {value}, and should be 1"),
        (_, None) => "whether GrdmaPciTopoCheckOverride is 1 cannot be read".to_string(),
    };
    Some(format!(
        "{} is in another IOMMU group than the GPUs, so DMA-BUF over PCIe may be refused and NCCL fall back: {why}",
        nic.name
    ))
}

/// Root ports of Grace, and of Vera after it.
const GRACE_ROOT_PORTS: &str = "10de:22b1 10de:22b2 10de:22b8 10de:2f95 10de:2f96";

/// Whether the GPUs share coherent memory with their CPU: by a word of their models such as `GB200`
/// (`80GB` is a size), or by the CPU's root ports where no model could be read.
fn is_grace(facts: &GpuDirectFacts, pci: &PciFacts) -> bool {
    let superchip = |word: &str| {
        let number = word.strip_prefix("GH").or_else(|| word.strip_prefix("GB"));
        number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let models = (facts.gpus.iter()).filter_map(|gpu| gpu.model.as_deref());
    let mut models = models.peekable();
    if models.peek().is_some() {
        return models.any(|model| model.split_whitespace().any(superchip));
    }
    let mut functions = pci.functions.values();
    functions.any(|of| GRACE_ROOT_PORTS.split(' ').any(|port| port == of.id))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Node, device, gpu, nic};
    use super::*;
    use crate::observe::{LinkLayer, Module, NvidiaDriver, NvidiaGpu};
    use std::collections::BTreeMap;

    fn facts(open: Option<bool>, version: &str, kernel: Option<&str>) -> GpuDirectFacts {
        GpuDirectFacts {
            modules: Reading::Value(BTreeMap::new()),
            driver: Reading::Value(NvidiaDriver {
                version: version.into(),
                open,
            }),
            kernel_release: kernel.map(Into::into),
            ..GpuDirectFacts::default()
        }
    }

    fn with_peermem(mut facts: GpuDirectFacts, state: &str) -> GpuDirectFacts {
        let module = Module {
            state: Some(state.into()),
            ..Module::default()
        };
        facts.modules = Reading::Value(BTreeMap::from([("nvidia_peermem".into(), module)]));
        facts
    }

    const NEW: Option<&str> = Some("6.8.0-45-generic");

    #[test]
    fn omni_path_has_a_way_of_its_own() {
        let mut hfi1 = device(0, LinkLayer::Infiniband);
        hfi1.driver = OMNI_PATH.into();
        let facts = facts(Some(true), "555.42.06", NEW);
        let unknown = judge_path(&facts, &[&hfi1]);
        assert_eq!(unknown.path, Path::Unknown, "{:?}", unknown.why);
        hfi1.driver = "qedr".into();
        assert_eq!(judge_path(&facts, &[&hfi1]).path, Path::None);
    }

    #[test]
    fn paths() {
        let mlx5 = device(0, LinkLayer::Infiniband);
        let proprietary = || facts(Some(false), "535.129.03", NEW);
        let peers = |names: &[&str], mut facts: GpuDirectFacts| {
            facts.memory_peers = Reading::Value(names.iter().map(ToString::to_string).collect());
            facts
        };
        for (name, facts, want) in [
            (
                "open on a new kernel",
                facts(Some(true), "555.42.06", NEW),
                Path::Dmabuf,
            ),
            ("proprietary alone", proprietary(), Path::None),
            (
                "old kernel",
                facts(Some(true), "555.42.06", Some("5.4.0-1")),
                Path::None,
            ),
            ("old driver", facts(Some(true), "510.1", NEW), Path::None),
            (
                "flavour not known",
                facts(None, "555.42.06", NEW),
                Path::Unknown,
            ),
            (
                "kernel not known",
                facts(Some(true), "555.42.06", None),
                Path::Unknown,
            ),
            (
                "peermem",
                with_peermem(proprietary(), "live"),
                Path::Peermem,
            ),
            (
                "peermem on its way out",
                with_peermem(proprietary(), "going"),
                Path::None,
            ),
            (
                "peermem registered",
                peers(&["nv_mem"], with_peermem(proprietary(), "live")),
                Path::Peermem,
            ),
            (
                "peermem loaded, client lost",
                peers(&[], with_peermem(proprietary(), "live")),
                Path::None,
            ),
            (
                "client without a module that we know",
                peers(&["nv_mem_nc"], proprietary()),
                Path::Peermem,
            ),
        ] {
            assert_eq!(judge_path(&facts, &[&mlx5]).path, want, "{name}");
        }
    }

    #[test]
    fn absent_and_unreadable_differ() {
        let mlx5 = device(0, LinkLayer::Infiniband);
        let fault = || crate::observe::Fault {
            kind: crate::observe::FaultKind::Denied,
            detail: "no".into(),
        };
        let absent = GpuDirectFacts {
            modules: Reading::Value(BTreeMap::new()),
            ..GpuDirectFacts::default()
        };
        assert_eq!(judge_path(&absent, &[&mlx5]).path, Path::None);
        let unreadable = GpuDirectFacts {
            modules: Reading::Failed(fault()),
            driver: Reading::Failed(fault()),
            ..GpuDirectFacts::default()
        };
        assert_eq!(judge_path(&unreadable, &[&mlx5]).path, Path::Unknown);
        let mut half = facts(Some(false), "535.129.03", NEW);
        half.modules = Reading::Failed(fault());
        assert_eq!(judge_path(&half, &[&mlx5]).path, Path::Unknown);
    }

    /// A node whose NICs and GPUs are in these IOMMU groups.
    fn grouped(model: Option<&str>, groups: (Option<&str>, Option<&str>)) -> Node {
        let mut node = Node::infiniband();
        for i in 0..8 {
            node.bend_pci(&nic(i), |of| of.iommu_group = groups.0.map(Into::into));
            node.bend_pci(&gpu(i), |of| of.iommu_group = groups.1.map(Into::into));
        }
        node.bend_gpudirect(|facts| {
            facts.arch = Some("aarch64".into());
            facts.gpus = vec![NvidiaGpu {
                pci: gpu(0),
                model: model.map(Into::into),
                uuid: None,
            }];
        });
        node
    }

    /// What is said of DMA-BUF on such a node with this driver and `GrdmaPciTopoCheckOverride`.
    fn refused(mut node: Node, driver: &str, value: Option<u64>) -> Option<String> {
        node.bend_gpudirect(|facts| {
            facts.driver = Reading::Value(NvidiaDriver {
                version: driver.into(),
                open: Some(true),
            });
            facts.topology_override = value.map_or(Reading::Absent, Reading::Value);
        });
        let context = node.context();
        let verdict = &context.gpudirect_verdict;
        match verdict.path {
            Path::Dmabuf => None,
            Path::Unknown => verdict.why.first().cloned(),
            other => panic!("{other:?} {:?}", verdict.why),
        }
    }

    const APART: (Option<&str>, Option<&str>) = (Some("7"), Some("0"));

    #[test]
    fn each_driver_reads_the_override_of_grace_in_its_own_way() {
        const SET: &str = "and should be 1";
        const UNREAD: &str = "whether GrdmaPciTopoCheckOverride is 1 cannot be read";
        const GROUP: &str = "allows that within one group only";
        for (driver, value, want) in [
            ("565.57.01", Some(0), None),
            ("565.57.01", None, None),
            ("570.86.15", Some(0), Some(SET)),
            ("570.86.15", Some(1), None),
            ("570.86.15", Some(2), None),
            ("575.57.08", Some(2), None),
            ("575.57.08", None, Some(UNREAD)),
            ("580.126.20", Some(0), Some(SET)),
            ("580.126.20", Some(1), None),
            ("580.126.20", Some(2), Some(SET)),
            ("590.44.01", Some(1), None),
            ("590.44.01", None, Some(UNREAD)),
            ("595.45.04", Some(1), Some(GROUP)),
            ("595.91.07", None, Some(GROUP)),
        ] {
            let said = refused(grouped(Some("NVIDIA GB200"), APART), driver, value);
            let fits = match (&said, want) {
                (Some(said), Some(want)) => said.contains(want),
                (said, want) => said.is_none() && want.is_none(),
            };
            assert!(fits, "{driver} {value:?}: {said:?}, not {want:?}");
        }
    }

    #[test]
    fn only_grace_with_its_nics_in_other_groups_is_refused() {
        let direct = |group: &str| {
            let mut node = grouped(Some("NVIDIA GB300"), APART);
            node.bend_pci("0009:03:00.0", |of| {
                of.id = DATA_DIRECT.into();
                of.iommu_group = Some(group.into());
            });
            node
        };
        let root_port = |model: Option<&str>, id: &str| {
            let mut node = grouped(model, APART);
            node.bend_pci("0009:00:00.0", |of| of.id = id.into());
            node
        };
        let model = |model: &str| grouped(Some(model), APART);
        let groups = |nic, gpu| grouped(Some("NVIDIA GB200"), (nic, gpu));
        let x86 = || {
            let mut node = model("NVIDIA GB200");
            node.bend_gpudirect(|facts| facts.arch = Some("x86_64".into()));
            node
        };
        for (name, node, want) in [
            ("GB200", model("NVIDIA GB200"), true),
            ("GB300", model("NVIDIA GB300"), true),
            ("GH200", model("NVIDIA GH200 480GB"), true),
            ("Altra, H100", model("NVIDIA H100 80GB HBM3"), false),
            ("Altra, A100", model("NVIDIA A100-SXM4-80GB"), false),
            ("x86", x86(), false),
            ("one group", groups(Some("0"), Some("0")), false),
            ("no IOMMU", groups(None, None), false),
            ("the NIC alone has none", groups(None, Some("0")), true),
            ("Data Direct with the GPUs", direct("0"), false),
            ("Data Direct elsewhere", direct("9"), true),
            ("model not read, Grace", root_port(None, "10de:22b8"), true),
            ("model not read, Vera", root_port(None, "10de:2f95"), true),
            ("model not read, other", root_port(None, "1def:e110"), false),
            (
                "a PCIe card in Grace",
                root_port(Some("NVIDIA H100 NVL"), "10de:22b8"),
                false,
            ),
        ] {
            let said = refused(node, "595.45.04", Some(1));
            assert_eq!(said.is_some(), want, "{name}: {said:?}");
        }
    }

    #[test]
    fn nic_drivers_matter() {
        let open = facts(Some(true), "555.42.06", NEW);
        for (driver, path) in [
            ("ionic", Path::Dmabuf),
            ("idpf", Path::Dmabuf),
            ("qedr", Path::None),
            ("mana", Path::Unknown),
        ] {
            let mut nic = device(0, LinkLayer::Ethernet);
            nic.driver = driver.into();
            assert_eq!(judge_path(&open, &[&nic]).path, path, "{driver}");
        }
        assert_eq!(judge_path(&open, &[]).path, Path::None);

        let mut efa = device(0, LinkLayer::Unspecified);
        efa.driver = "efa".into();
        let mut proprietary = facts(Some(false), "535.129.03", NEW);
        assert_eq!(judge_path(&proprietary, &[&efa]).path, Path::None);
        proprietary.efa_p2p = BTreeMap::from([("0000:00:06.0".into(), String::new())]);
        assert_eq!(judge_path(&proprietary, &[&efa]).path, Path::None);
        proprietary.efa_p2p = BTreeMap::from([("0000:00:06.0".into(), "NVIDIA".into())]);
        assert_eq!(judge_path(&proprietary, &[&efa]).path, Path::Peermem);
    }
}
