//! Whether GPUDirect RDMA has a path, and what slows it.

use super::debounce::WHOLE_NODE;
use super::gpudirect::{Answer, Path, driver_loaded, nvidia_gpus, peermem_module};
use super::policy::GpuDirectExpectation;
use super::{Candidate, Check, Context, ReasonDoc, Status, Weight};
use crate::observe::gpudirect::GpuDirectFacts;
use crate::observe::kernel_log::Note;
use crate::observe::reading::Reading;
use std::collections::BTreeSet;

const ID: &str = "gpudirect";

const PATH_MISSING: ReasonDoc = ReasonDoc {
    reason: "GpuDirectPathMissing",
    status: Status::Degraded,
    weight: Weight::Verdict,
    meaning: "GPUs, their driver and rails are there, but neither DMA-BUF nor a peer-memory module can join them: data is staged through host memory.",
    remedy: "Load nvidia_peermem (`modprobe nvidia-peermem`), or run the open NVIDIA kernel module (515 and later) on kernel 5.12 and later, where DMA-BUF needs no module.",
};
const PEERMEM_BROKEN: ReasonDoc = ReasonDoc {
    reason: "PeermemNotRegistered",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "A peer-memory module is loaded, but ib_core has no client of it: the RDMA stack was reloaded under it.",
    remedy: "Reload it: `rmmod nvidia_peermem && modprobe nvidia-peermem`.",
};
const PATH_UNKNOWN: ReasonDoc = ReasonDoc {
    reason: "GpuDirectUnknown",
    status: Status::Unknown,
    weight: Weight::Notice,
    meaning: "Whether GPUDirect RDMA can work here cannot be told from what is readable.",
    remedy: "Look at what the message says could not be read; give the agent /sys and /proc of the host.",
};
const DRIVER_ABSENT: ReasonDoc = ReasonDoc {
    reason: "GpuDriverAbsent",
    status: Status::Unknown,
    weight: Weight::Notice,
    meaning: "PCI shows NVIDIA GPUs, but the NVIDIA driver is not loaded.",
    remedy: "Install or load the driver (`modprobe nvidia`, the GPU operator's driver pod). A GPU handed to a virtual machine reads so, too.",
};
const IOMMU_TRANSLATES: ReasonDoc = ReasonDoc {
    reason: "IommuTranslates",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "The IOMMU translates the addresses of a rail or GPU, so traffic between them takes the way through the CPU.",
    remedy: "Boot with `iommu=pt` (or `intel_iommu=off`, `amd_iommu=off`), unless the platform does peer-to-peer through its IOMMU.",
};
const ACS_REDIRECTS: ReasonDoc = ReasonDoc {
    reason: "AcsRedirects",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "A PCIe bridge above a rail or GPU has ACS redirection on: peer-to-peer traffic goes up to the root complex and back.",
    remedy: "Switch ACS off in the firmware setup, or at boot with `setpci`, unless the platform uses address translation services.",
};
const PEERMEM_ERROR: ReasonDoc = ReasonDoc {
    reason: "PeermemError",
    status: Status::Degraded,
    weight: Weight::Notice,
    meaning: "The peer-memory module reported an error in the kernel log.",
    remedy: "Look at `dmesg | grep peermem`; reload the module once no job runs.",
};

/// The row in the table.
pub const CHECK: Check = Check {
    id: ID,
    title: "GPUDirect RDMA path",
    what: "Which path GPUDirect RDMA can take: DMA-BUF (kernel 5.12, open kernel module 515, a NIC driver that has it: mlx5, efa, bnxt_re, irdma), a peer-memory module that is registered, or none. By default judged where GPUs, their driver and rails are all there; `expect.gpudirect` is `auto`, `required` or `off`. A Grace CPU's IOMMU translates by design and is left alone.",
    reasons: &[
        PATH_MISSING,
        PEERMEM_BROKEN,
        PATH_UNKNOWN,
        DRIVER_ABSENT,
        IOMMU_TRANSLATES,
        ACS_REDIRECTS,
        PEERMEM_ERROR,
    ],
    run,
};

fn run(context: &Context<'_>) -> Vec<Candidate> {
    let expected = context.policy.expect.gpudirect;
    if expected == GpuDirectExpectation::Off {
        return Vec::new();
    }
    let timing = context.policy.gpudirect.timing();
    let say =
        |doc: ReasonDoc, key: &str, message: String| doc.candidate(ID, (key, key), timing, message);
    let required = expected == GpuDirectExpectation::Required;
    let Some(facts) = context.gpudirect() else {
        return unread(context, required).into_iter().collect();
    };
    let mut found = Vec::new();
    let gpus = context.gpus();
    // Of gVNICs no file of the node tells it: what is needed comes with the pod.
    let has_rails = context.rails().any(|port| !port.device.is_gvnic());
    let wanted = !gpus.is_empty() && has_rails && driver_loaded(facts) != Answer::No;
    let verdict = context.gpudirect_verdict();
    if required || wanted {
        let why = verdict.why.join("; ");
        match verdict.path {
            Path::None => found.push(
                say(
                    PATH_MISSING,
                    "path",
                    format!("GPUDirect RDMA has no path: {why}"),
                )
                .with("gpus", gpus.len())
                .with("kernel", facts.kernel_release.clone().unwrap_or_default())
                .with(
                    "driver",
                    facts
                        .driver
                        .value()
                        .map(|driver| driver.version.clone())
                        .unwrap_or_default(),
                ),
            ),
            Path::Unknown => found.push(
                say(
                    PATH_UNKNOWN,
                    "path",
                    format!("the path of GPUDirect RDMA is not known: {why}"),
                )
                .weighing(if required {
                    Weight::Verdict
                } else {
                    Weight::Notice
                }),
            ),
            Path::Dmabuf | Path::Peermem => {}
        }
    }
    if verdict.path != Path::None
        && let (Some(module), Reading::Value(clients)) =
            (peermem_module(facts), &facts.memory_peers)
        && !clients.iter().any(|name| name.starts_with("nv_mem"))
    {
        found.push(say(
            PEERMEM_BROKEN,
            "peermem",
            format!("{module} is loaded, but not registered with ib_core"),
        ));
    }
    if driver_loaded(facts) == Answer::No && nvidia_gpus(context) > 0 {
        let count = nvidia_gpus(context);
        found.push(
            say(
                DRIVER_ABSENT,
                "driver",
                format!("{count} NVIDIA GPUs, but no NVIDIA driver is loaded"),
            )
            .with("gpus", count),
        );
    }
    found.extend(peermem_error(context));
    if wanted {
        found.extend(judge_iommu(context, facts));
        found.extend(judge_acs(context, facts));
    }
    found
}

/// Nothing was read, or too long ago: what stands, stands.
fn unread(context: &Context<'_>, required: bool) -> Option<Candidate> {
    if !required && context.snapshot.gpudirect.is_none() {
        return None;
    }
    let weight = if required {
        Weight::Verdict
    } else {
        Weight::Notice
    };
    Some(
        PATH_UNKNOWN
            .candidate(
                ID,
                // An empty key stands for every key of the check.
                (WHOLE_NODE, "path"),
                context.policy.gpudirect.timing(),
                "the GPU driver's files were not read",
            )
            .weighing(weight),
    )
}

/// What the module said in the kernel log, for as long as other drivers' words stand.
fn peermem_error(context: &Context<'_>) -> Option<Candidate> {
    let seen = context
        .history
        .kernel
        .devices
        .values()
        .filter_map(|device| device.notes.get(&Note::Peermem))
        .max_by_key(|seen| seen.last)?;
    let stands_for = context.policy.nic_kernel.stands_for.0;
    (context.now.since(seen.last) <= stands_for).then(|| {
        PEERMEM_ERROR
            .candidate(
                ID,
                ("peermem log", "peermem"),
                context.policy.gpudirect.timing(),
                format!("the peer-memory module said: {}", seen.text),
            )
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

fn judge_iommu(context: &Context<'_>, facts: &GpuDirectFacts) -> Option<Candidate> {
    let pci = context.pci()?;
    // On Grace the SMMU translates by design, and does peer-to-peer.
    if pci.virtual_machine || facts.arch.as_deref() == Some("aarch64") {
        return None;
    }
    let translated: Vec<String> = endpoints(context)
        .into_iter()
        .filter(|address| {
            pci.functions.get(address).is_some_and(|function| {
                function
                    .iommu
                    .value()
                    .is_some_and(|kind| kind.starts_with("DMA"))
            })
        })
        .collect();
    let first = translated.first()?;
    Some(
        IOMMU_TRANSLATES
            .candidate(
                ID,
                ("iommu", "iommu"),
                context.policy.gpudirect.timing(),
                format!(
                    "the IOMMU translates for {} rails and GPUs, {first} among them",
                    translated.len()
                ),
            )
            .with("functions", translated.len())
            .with("first", first.as_str())
            .with("cmdline", facts.iommu_cmdline.join(" ")),
    )
}

fn judge_acs(context: &Context<'_>, facts: &GpuDirectFacts) -> Option<Candidate> {
    let pci = context.pci()?;
    if pci.virtual_machine || facts.arch.as_deref() == Some("aarch64") {
        return None;
    }
    let mut bridges: BTreeSet<String> = BTreeSet::new();
    for address in endpoints(context) {
        let mut at = pci
            .functions
            .get(&address)
            .and_then(|function| function.parent.clone());
        // A path is a few bridges long; the bound is against a tree that loops.
        for _ in 0..16 {
            let Some(bridge) = at
                .as_ref()
                .and_then(|name| pci.functions.get_key_value(name))
            else {
                break;
            };
            if bridge.1.acs_redirect == Reading::Value(true) {
                bridges.insert(bridge.0.clone());
            }
            at = bridge.1.parent.clone();
        }
    }
    if let Reading::Value(nvidia_fs) = &facts.nvidia_fs {
        bridges.extend(nvidia_fs.acs_bridges.iter().cloned());
    }
    let first = bridges.first()?;
    Some(
        ACS_REDIRECTS
            .candidate(
                ID,
                ("acs", "acs"),
                context.policy.gpudirect.timing(),
                format!(
                    "ACS redirects peer-to-peer traffic on {} bridges, {first} among them",
                    bridges.len()
                ),
            )
            .with("bridges", bridges.len())
            .with("first", first.as_str()),
    )
}

#[cfg(test)]
#[path = "gpudirect_check_tests.rs"]
mod tests;
