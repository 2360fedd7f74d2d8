//! Whether GPUDirect RDMA has a path, and what slows it.

use super::expected::is_driven;
use super::gpudirect::{Path, driver_loaded, peermem_module};
use super::policy::GpuDirectExpectation;
use super::roles::pcie_affinity::upwards;
use super::{Candidate, Context, PortView, Reason, Weight, debounce::WHOLE_NODE, roles::kind};
use crate::observe::{GpuDirectFacts, Note, PciFacts, PciFunction, Reading, gives_away};
use std::collections::BTreeSet;

check!(gpudirect, run);

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let expected = context.policy.expect.gpudirect;
    if expected == GpuDirectExpectation::Off {
        return Vec::new();
    }
    let required = expected == GpuDirectExpectation::Required;
    let Some(facts) = context.gpudirect() else {
        // Nothing was read, or too long ago. An empty key stands for every key of the check, so that
        // no finding is cleared.
        if !required && context.snapshot.gpudirect.is_none() {
            return vec![context.unread(WHOLE_NODE)];
        }
        let (about, message) = ((WHOLE_NODE, "path"), "the GPU driver's files were not read");
        let unread = context.candidate("GpuDirectUnknown", about, message);
        return vec![unread.weighing(Weight::counting_if(required))];
    };
    // Of gVNICs no file of the node tells it: what is needed comes with the pod.
    let has_rails = context.rails().any(|port| !kind::may_be_gvnic(port.device));
    let absent = driver_loaded(facts) == Some(false);
    let wanted = !context.gpus().is_empty() && has_rails && !absent;
    let mut found = Vec::new();
    if required || wanted {
        found.extend(judge_path(context, facts, required));
    }
    found.extend(peermem_broken(context, facts));
    found.extend(driver_absent(context, facts));
    let module = (Note::Peermem, "peer-memory module");
    found.extend(in_the_log(context, module, ("PeermemError", "peermem")));
    let refused = (Note::DmabufRefused, "NVIDIA driver");
    found.extend(in_the_log(context, refused, ("DmabufRefused", "dmabuf")));
    if wanted {
        found.extend(judge_iommu(context, facts));
        found.extend(judge_acs(context, facts));
    }
    found
}

/// GPUs wait for their driver: it is not loaded, or has none of them.
fn driver_absent(context: &Context<'_>, facts: &GpuDirectFacts) -> Option<Candidate> {
    let pci = context.pci()?;
    let absent = driver_loaded(facts) == Some(false);
    // AMD's processors have graphics, too, which no one needs to drive.
    let nvidia = ("NVIDIA", "10de:", "", absent);
    let mut makers = [nvidia, ("AMD", "1002:", "12", false)].into_iter();
    makers.find_map(|(maker, vendor, class, absent)| {
        let is_of_maker =
            |gpu: &PciFunction| gpu.id.starts_with(vendor) && gpu.class.starts_with(class);
        let gpus: Vec<_> = (pci.gpu_functions())
            .filter(|(_, gpu)| is_of_maker(gpu) && !gives_away(gpu.driver.as_deref()))
            .map(|(address, _)| address.to_string())
            .collect();
        let has_driver = |gpu: &String| is_driven(pci, gpu) || facts.lists(gpu);
        if gpus.is_empty() || (gpus.iter().any(has_driver) && !absent) {
            return None;
        }
        let what = match absent {
            true => "but no NVIDIA driver is loaded",
            false => "but their driver has bound none",
        };
        let message = format!("{} {maker} GPUs, {what}", gpus.len());
        let found = context.candidate("GpuDriverAbsent", ("driver", "driver"), message);
        Some(found.with("gpus", gpus.len()))
    })
}

fn judge_path(context: &Context<'_>, facts: &GpuDirectFacts, required: bool) -> Option<Candidate> {
    let verdict = &context.gpudirect_verdict;
    let why = verdict.why.join("; ");
    let subject = ("path", "path");
    match verdict.path {
        Path::None => {
            let kernel = facts.kernel_release.clone();
            let driver = facts.driver.value().map(|driver| driver.version.clone());
            let message = format!("GPUDirect RDMA has no path: {why}");
            let found = context.candidate("GpuDirectPathMissing", subject, message);
            let found = found.with("gpus", context.gpus().len());
            let found = found.with("kernel", kernel.unwrap_or_default());
            Some(found.with("driver", driver.unwrap_or_default()))
        }
        Path::Unknown => {
            let message = format!("the GPUDirect RDMA path is unknown: {why}");
            let candidate = context.candidate("GpuDirectUnknown", subject, message);
            Some(candidate.weighing(Weight::counting_if(required)))
        }
        Path::Dmabuf | Path::Peermem => None,
    }
}

fn peermem_broken(context: &Context<'_>, facts: &GpuDirectFacts) -> Option<Candidate> {
    let module = peermem_module(facts)?;
    let clients = facts.memory_peers.value()?;
    let broken = context.gpudirect_verdict.path != Path::None
        && !clients.iter().any(|name| name.starts_with("nv_mem"));
    let message = format!("{module} is loaded, but not registered with ib_core");
    broken.then(|| context.candidate("PeermemNotRegistered", ("peermem", "peermem"), message))
}

/// What was said in the kernel log, and by whom, for as long as other drivers' words stand.
fn in_the_log(
    context: &Context<'_>,
    (note, who): (Note, &str),
    (reason, subject): (Reason, &str),
) -> Option<Candidate> {
    let seen = context.history.kernel.latest(note)?;
    let stands_for = context.policy.nic_kernel.stands_for.0;
    (context.now.since(seen.last) <= stands_for).then(|| {
        let message = format!("the {who} said: {}", seen.text);
        (context.candidate(reason, (format!("{subject} log"), subject), message))
            .raised_after(std::time::Duration::ZERO)
            .with("count", seen.count)
    })
}

/// Addresses of the rails' functions and of the GPUs.
fn endpoints(context: &Context<'_>) -> BTreeSet<String> {
    let rails = context.rails().filter_map(PortView::address);
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
    let found = context.candidate("IommuTranslates", ("iommu", "iommu"), message);
    let found = found.with("functions", count).with("first", first.as_str());
    Some(found.with("cmdline", facts.iommu_cmdline.join(" ")))
}

fn judge_acs(context: &Context<'_>, facts: &GpuDirectFacts) -> Option<Candidate> {
    let pci = own_pci(context, facts)?;
    let mut bridges: BTreeSet<String> = BTreeSet::new();
    for address in endpoints(context) {
        let above = upwards(pci, &address).skip(1);
        let redirect = above.filter(|(_, bridge)| bridge.acs_redirect == Reading::Value(true));
        bridges.extend(redirect.map(|(bridge, _)| bridge.clone()));
    }
    if let Reading::Value(nvidia_fs) = &facts.nvidia_fs {
        bridges.extend(nvidia_fs.acs_bridges.iter().cloned());
    }
    let (first, count) = (bridges.first()?, bridges.len());
    let message =
        format!("ACS redirects peer-to-peer traffic on {count} bridges, {first} among them");
    let found = context.candidate("AcsRedirects", ("acs", "acs"), message);
    Some(found.with("bridges", count).with("first", first.as_str()))
}

#[cfg(test)]
mod tests;
