//! Which path GPUDirect RDMA can take on this node, and why.

use super::Context;
use crate::observe::gpudirect::GpuDirectFacts;
use crate::observe::pci::{DATA_DIRECT, PciFacts, PciFunction};
use crate::observe::rdma::RdmaDevice;
use crate::observe::reading::Reading;
use serde::{Deserialize, Serialize};

/// How a NIC can reach GPU memory here.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Hash, PartialOrd, Ord,
)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// Every prerequisite of DMA-BUF is met (no kernel file says more than that).
    Dmabuf,
    /// A peer-memory module is registered with ib_core.
    Peermem,
    /// Neither: RDMA works, but data is staged through host memory.
    None,
    /// The sources cannot tell.
    #[default]
    Unknown,
}

/// The verdict with its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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

/// NIC drivers that take DMA-BUF memory (`reg_user_mr_dmabuf` in their ib_device_ops, 6.12).
const DMABUF_DRIVERS: &[&str] = &[
    "mlx5_core",
    "mlx5_ib",
    "efa",
    "bnxt_re",
    "bnxt_en",
    "irdma",
    "ice",
];

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
    let without = match devices.iter().all(|device| device.is_gvnic()) {
        _ if devices.is_empty() => Some((Path::None, "no RDMA device found")),
        true => Some((
            Path::Unknown,
            "GPUDirect-TCPX(O) is the daemon's and the plugin's in the pod; no file of the node tells",
        )),
        false => None,
    };
    if let Some((path, because)) = without {
        why.push(because.into());
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
    let lacking = (drivers.iter()).find(|driver| !DMABUF_DRIVERS.contains(driver));
    let nics = match lacking {
        Some(&OMNI_PATH) => None,
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
            "the driver of a NIC cannot be read, or has a way of its own",
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
    let all = needs.iter().all(|(met, ..)| met.is_some());
    all.then(|| why.push("every prerequisite of DMA-BUF is met".into()))?;
    Some(true)
}

fn peermem(facts: &GpuDirectFacts, devices: &[&RdmaDevice], why: &mut Vec<String>) -> Option<bool> {
    if let Some(provider) = efa_provider(facts, devices) {
        why.push(format!(
            "the EFA driver's peer-to-peer provider is {provider}"
        ));
        return Some(true);
    }
    let loaded = match &facts.modules {
        Reading::Value(_) => Some(peermem_module(facts).is_some()),
        Reading::Absent => Some(false),
        _ => None,
    };
    let is_client = |name: &String| name.starts_with("nv_mem");
    let clients = facts.memory_peers.value();
    let registered = clients.map(|clients| clients.iter().any(is_client));
    let (answer, because) = match (registered, loaded) {
        (Some(true), _) => (
            Some(true),
            "a peer-memory client is registered with ib_core",
        ),
        (Some(false), Some(true)) => {
            let lost = "the peer-memory module is loaded, but not registered with ib_core";
            (Some(false), lost)
        }
        // ib_core shows no list: NCCL takes the loaded module for proof, and so it is, since
        // nvidia-peermem refuses to load where it cannot register.
        (None, Some(true)) => (Some(true), "a peer-memory module is loaded"),
        (_, Some(false)) => (Some(false), "no peer-memory module is loaded"),
        (_, None) => (
            None,
            "whether a peer-memory module is loaded cannot be read",
        ),
    };
    why.push(because.into());
    answer
}

/// A peer-memory module that is up (`initstate` is `live`, or not told).
pub(super) fn peermem_module(facts: &GpuDirectFacts) -> Option<&'static str> {
    let modules = facts.modules.value()?;
    let up = |name: &&str| {
        let module = modules.get(*name);
        module.is_some_and(|of| of.state.as_deref().is_none_or(|state| state == "live"))
    };
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

/// PCI functions of NVIDIA's GPUs.
pub(super) fn nvidia_gpus<'a>(context: &Context<'a>) -> Vec<&'a PciFunction> {
    let gpus = (context.pci().into_iter()).flat_map(PciFacts::gpu_functions);
    let gpus = gpus.map(|(_, function)| function);
    gpus.filter(|gpu| gpu.id.starts_with("10de:")).collect()
}

/// The verdict on the node as it is: rails where there are any, else every RDMA device.
pub(super) fn verdict(context: &Context<'_>) -> GpuDirectVerdict {
    let Some(facts) = context.gpudirect() else {
        return GpuDirectVerdict::of(Path::Unknown, "the GPU driver's files were not read");
    };
    if driver_loaded(facts) == Some(false)
        && !context.gpus().is_empty()
        && nvidia_gpus(context).is_empty()
    {
        let others = "the GPUs are not NVIDIA's; of others' drivers no file is read";
        return GpuDirectVerdict::of(Path::Unknown, others);
    }
    let ports = context.ports();
    let any_rail = ports.iter().any(|port| port.rail);
    let mut devices: Vec<&RdmaDevice> = Vec::new();
    for port in ports.iter().filter(|port| port.rail || !any_rail) {
        if !devices.iter().any(|device| device.key == port.device.key) {
            devices.push(port.device);
        }
    }
    let verdict = judge_path(facts, &devices);
    match (verdict.path, falls_back(context, facts, &devices)) {
        (Path::Dmabuf, Some(why)) => GpuDirectVerdict::of(Path::Unknown, why),
        _ => verdict,
    }
}

/// On Grace the driver hands GPU memory to a NIC over PCIe only within one IOMMU group, or where
/// `GrdmaPciTopoCheckOverride` says so; else NCCL falls back without a word. By version (nv-dmabuf.c of
/// NVIDIA's open modules): 570 and 575 take any value but 0, 580 to 594 take 1, 595 takes none. A NIC with
/// Data Direct reaches the GPU through a function in its group.
fn falls_back(
    context: &Context<'_>,
    facts: &GpuDirectFacts,
    devices: &[&RdmaDevice],
) -> Option<String> {
    let pci = context.pci()?;
    let coherent = |model: &String| model.contains("GH200") || model.contains("GB");
    let grace = facts.arch.as_deref() == Some("aarch64");
    let models = || facts.gpus.iter().filter_map(|gpu| gpu.model.as_ref());
    if !grace || !models().any(coherent) {
        return None;
    }
    let group = |address: String| Some(&pci.functions.get(&address)?.iommu_group);
    let gpus: Vec<_> = (pci.gpu_functions())
        .map(|(_, gpu)| &gpu.iommu_group)
        .collect();
    let direct = pci.functions.values().filter(|of| of.id == DATA_DIRECT);
    if gpus.is_empty() || direct.into_iter().any(|of| gpus.contains(&&of.iommu_group)) {
        return None;
    }
    let apart = |device: &&&RdmaDevice| {
        let own = device.pci.and_then(|at| group(at.to_string()));
        own.is_some_and(|own| !gpus.contains(&own))
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

#[cfg(test)]
mod tests {
    use super::super::testing::device;
    use super::*;
    use crate::observe::gpudirect::{Module, NvidiaDriver};
    use crate::observe::rdma::LinkLayer;
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
        let fault = || crate::observe::reading::Fault {
            kind: crate::observe::reading::FaultKind::Denied,
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

    #[test]
    fn nic_drivers_matter() {
        let mut mana = device(0, LinkLayer::Ethernet);
        mana.driver = "mana".into();
        let open = facts(Some(true), "555.42.06", NEW);
        assert_eq!(judge_path(&open, &[&mana]).path, Path::None);
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
