//! Whether GPUDirect RDMA has a path, and what slows it.

use super::debounce::WHOLE_NODE;
use super::gpudirect::{Answer, Path, driver_loaded, nvidia_gpus, peermem_module};
use super::policy::GpuDirectExpectation;
use super::{Candidate, Check, Context, ReasonDoc, Weight};
use crate::observe::gpudirect::GpuDirectFacts;
use crate::observe::kernel_log::Note;
use crate::observe::pci::{PciFacts, PciFunction, gives_away};
use crate::observe::reading::Reading;
use std::collections::BTreeSet;

reasons! {
    degraded PATH_MISSING = "GpuDirectPathMissing", ReloadDriver,
        "GPUs, their driver and rails are there, but neither DMA-BUF nor a peer-memory module can join them: data is staged through host memory.",
        "Load nvidia_peermem (`modprobe nvidia-peermem`), or run the open NVIDIA kernel module (515 and later) on kernel 5.12 and later, where DMA-BUF needs no module.";
    notice PEERMEM_BROKEN = "PeermemNotRegistered", ReloadDriver,
        "A peer-memory module is loaded, but ib_core has no client of it: the RDMA stack was reloaded under it.",
        "Reload it: `rmmod nvidia_peermem && modprobe nvidia-peermem`.";
    unknown_notice PATH_UNKNOWN = "GpuDirectUnknown", FixConfiguration,
        "Whether GPUDirect RDMA can work here cannot be told from what is readable.",
        "Look at what the message says could not be read; give the agent /sys and /proc of the host.";
    unknown DRIVER_ABSENT = "GpuDriverAbsent", ReloadDriver,
        "PCI shows NVIDIA GPUs, but the NVIDIA driver is not loaded: whether the GPUs work, and by which path the rails reach them, shows only once it is.",
        "Install or load the driver (`modprobe nvidia`, the GPU operator's driver pod). GPUs given to vfio-pci are left alone; where GPUs are meant to have no driver, set `policy.expect.gpudirect` to `off`.";
    notice IOMMU_TRANSLATES = "IommuTranslates", FixConfiguration,
        "The IOMMU translates the addresses of a rail or GPU, so traffic between them takes the way through the CPU.",
        "Boot with `iommu=pt` (or `intel_iommu=off`, `amd_iommu=off`), unless the platform does peer-to-peer through its IOMMU.";
    notice ACS_REDIRECTS = "AcsRedirects", FixConfiguration,
        "A PCIe bridge above a rail or GPU has ACS redirection on: peer-to-peer traffic goes up to the root complex and back.",
        "Switch ACS off in the firmware setup, or at boot with `setpci`, unless the platform uses address translation services.";
    notice PEERMEM_ERROR = "PeermemError", ReloadDriver,
        "The peer-memory module reported an error in the kernel log.",
        "Look at `dmesg | grep peermem`; reload the module once no job runs.";
    notice DMABUF_REFUSED = "DmabufRefused", FixConfiguration,
        "The NVIDIA driver refused, in the kernel log, to share GPU memory with a NIC in its place on the bus: NCCL falls back to host memory or sockets without a word.",
        "Put NIC and GPU in one IOMMU group, or use the NIC's Data Direct function. From driver 570 to before 595, `GrdmaPciTopoCheckOverride=1` (`/proc/driver/nvidia/params`) allows it once the module is loaded again.";
}

/// The row in the table.
pub const CHECK: Check = Check {
    id: "gpudirect",
    title: "GPUDirect RDMA path",
    what: "Which path GPUDirect RDMA can take: DMA-BUF (kernel 5.12, open kernel module 515, a NIC driver that has it: mlx5, efa, bnxt_re, irdma), a peer-memory module that is registered, or none. By default judged where GPUs, their driver and rails are all there; `expect.gpudirect` is `auto`, `required` or `off`. A Grace CPU's IOMMU translates by design and is left alone.",
    reasons: REASONS,
    timing: |policy| policy.gpudirect.timing(),
    run,
};

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let expected = context.policy.expect.gpudirect;
    if expected == GpuDirectExpectation::Off {
        return Vec::new();
    }
    let required = expected == GpuDirectExpectation::Required;
    let Some(facts) = context.gpudirect() else {
        // Nothing was read, or too long ago. An empty key stands for every key of the check, so that
        // no finding is cleared.
        let never = !required && context.snapshot.gpudirect.is_none();
        let (about, message) = ((WHOLE_NODE, "path"), "the GPU driver's files were not read");
        let unread = context.candidate(&PATH_UNKNOWN, about, message);
        let unread = unread.weighing(Weight::counting_if(required));
        return Vec::from_iter((!never).then_some(unread));
    };
    // Of gVNICs no file of the node tells it: what is needed comes with the pod.
    let has_rails = context.rails().any(|port| !port.device.is_gvnic());
    let absent = driver_loaded(facts) == Answer::No;
    let wanted = !context.gpus().is_empty() && has_rails && !absent;
    let mut found = Vec::new();
    if required || wanted {
        found.extend(judge_path(context, facts, required));
    }
    found.extend(peermem_broken(context, facts));
    let given_away = |gpu: &PciFunction| gpu.driver.as_deref().is_some_and(gives_away);
    let ours = |gpu: &&PciFunction| !given_away(gpu);
    let gpus = nvidia_gpus(context).into_iter().filter(ours).count();
    if absent && gpus > 0 {
        let message = format!("{gpus} NVIDIA GPUs, but no NVIDIA driver is loaded");
        let candidate = context.candidate(&DRIVER_ABSENT, ("driver", "driver"), message);
        found.push(candidate.with("gpus", gpus));
    }
    found.extend(IN_THE_LOG.iter().filter_map(|row| in_the_log(context, row)));
    if wanted {
        found.extend(judge_iommu(context, facts));
        found.extend(judge_acs(context, facts));
    }
    found
}

fn judge_path(context: &Context<'_>, facts: &GpuDirectFacts, required: bool) -> Option<Candidate> {
    let verdict = context.gpudirect_verdict();
    let why = verdict.why.join("; ");
    let subject = ("path", "path");
    match verdict.path {
        Path::None => {
            let kernel = facts.kernel_release.clone();
            let driver = facts.driver.value().map(|driver| driver.version.clone());
            let message = format!("GPUDirect RDMA has no path: {why}");
            Some(
                (context.candidate(&PATH_MISSING, subject, message))
                    .with("gpus", context.gpus().len())
                    .with("kernel", kernel.unwrap_or_default())
                    .with("driver", driver.unwrap_or_default()),
            )
        }
        Path::Unknown => {
            let message = format!("the path of GPUDirect RDMA is not known: {why}");
            let candidate = context.candidate(&PATH_UNKNOWN, subject, message);
            Some(candidate.weighing(Weight::counting_if(required)))
        }
        Path::Dmabuf | Path::Peermem => None,
    }
}

fn peermem_broken(context: &Context<'_>, facts: &GpuDirectFacts) -> Option<Candidate> {
    let module = peermem_module(facts)?;
    let clients = facts.memory_peers.value()?;
    let broken = context.gpudirect_verdict().path != Path::None
        && !clients.iter().any(|name| name.starts_with("nv_mem"));
    let message = format!("{module} is loaded, but not registered with ib_core");
    broken.then(|| context.candidate(&PEERMEM_BROKEN, ("peermem", "peermem"), message))
}

/// Words in the kernel log: the subject of their finding, who spoke, and the reason.
type Words = (Note, &'static str, &'static str, ReasonDoc);
const IN_THE_LOG: [Words; 2] = [
    (
        Note::Peermem,
        "peermem",
        "peer-memory module",
        PEERMEM_ERROR,
    ),
    (
        Note::DmabufRefused,
        "dmabuf",
        "NVIDIA driver",
        DMABUF_REFUSED,
    ),
];

/// What was said in the kernel log, for as long as other drivers' words stand.
fn in_the_log(context: &Context<'_>, (note, subject, who, doc): &Words) -> Option<Candidate> {
    let devices = context.history.kernel.devices.values();
    let seen = devices
        .filter_map(|device| device.notes.get(note))
        .max_by_key(|seen| seen.last)?;
    let stands_for = context.policy.nic_kernel.stands_for.0;
    (context.now.since(seen.last) <= stands_for).then(|| {
        let message = format!("the {who} said: {}", seen.text);
        (context.candidate(doc, (format!("{subject} log"), *subject), message))
            .raised_after(std::time::Duration::ZERO)
            .with("count", seen.count)
    })
}

/// Addresses of the rails' functions and of the GPUs.
fn endpoints(context: &Context<'_>) -> BTreeSet<String> {
    let rails = context
        .rails()
        .filter_map(|port| port.device.pci)
        .map(|pci| pci.to_string());
    rails.chain(context.gpus()).collect()
}

/// PCI facts where peer-to-peer traffic could be in the way: not in a virtual machine, and not on
/// Grace, where the SMMU translates by design and does peer-to-peer.
fn own_pci<'a>(context: &Context<'a>, facts: &GpuDirectFacts) -> Option<&'a PciFacts> {
    let foreign = |pci: &PciFacts| pci.virtual_machine || facts.arch.as_deref() == Some("aarch64");
    context.pci().filter(|pci| !foreign(pci))
}

fn judge_iommu(context: &Context<'_>, facts: &GpuDirectFacts) -> Option<Candidate> {
    let pci = own_pci(context, facts)?;
    let translates = |address: &String| {
        let kind = (pci.functions.get(address)).and_then(|function| function.iommu.value());
        kind.is_some_and(|kind| kind.starts_with("DMA"))
    };
    let translated: Vec<String> = endpoints(context).into_iter().filter(translates).collect();
    let (first, count) = (translated.first()?, translated.len());
    let message = format!("the IOMMU translates for {count} rails and GPUs, {first} among them");
    Some(
        (context.candidate(&IOMMU_TRANSLATES, ("iommu", "iommu"), message))
            .with("functions", count)
            .with("first", first.as_str())
            .with("cmdline", facts.iommu_cmdline.join(" ")),
    )
}

fn judge_acs(context: &Context<'_>, facts: &GpuDirectFacts) -> Option<Candidate> {
    let pci = own_pci(context, facts)?;
    let above = |address: &String| pci.functions.get(address)?.parent.clone();
    let mut bridges: BTreeSet<String> = BTreeSet::new();
    for address in endpoints(context) {
        // A path is a few bridges long; the bound is against a tree that loops.
        let path = std::iter::successors(above(&address), above).take(16);
        bridges.extend(path.filter(|bridge| {
            let bridge = pci.functions.get(bridge);
            bridge.is_some_and(|bridge| bridge.acs_redirect == Reading::Value(true))
        }));
    }
    if let Reading::Value(nvidia_fs) = &facts.nvidia_fs {
        bridges.extend(nvidia_fs.acs_bridges.iter().cloned());
    }
    let (first, count) = (bridges.first()?, bridges.len());
    let message =
        format!("ACS redirects peer-to-peer traffic on {count} bridges, {first} among them");
    Some(
        (context.candidate(&ACS_REDIRECTS, ("acs", "acs"), message))
            .with("bridges", count)
            .with("first", first.as_str()),
    )
}

#[cfg(test)]
#[path = "gpudirect_check_tests.rs"]
mod tests;
