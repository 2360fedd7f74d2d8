//! Families about what NCCL uses in this node's jobs.

use crate::check::job_verdicts::Jobs;
use crate::check::nccl::{Fallback, NcclVerdict};
use crate::check::suspect::SuspectState;
use crate::observe::ContainerKey;
use crate::report::{Exposition, series};
use std::collections::{BTreeMap, BTreeSet};

/// Most containers with series of their own, the worst first: a node has 8 GPUs or 16, and few
/// containers share one.
const MAX_CONTAINERS: usize = 24;

/// Most suspects and pods without RDMA.
const MAX_PODS: usize = 64;

pub(super) fn families(out: &mut Exposition, jobs: &Jobs) {
    // Of containers with the same name, the first is the worst.
    let mut names = BTreeSet::new();
    let distinct = jobs.containers.iter().filter(|container| {
        let key = &container.key;
        names.insert((&key.namespace, &key.pod, &key.container))
    });
    for of in distinct.take(MAX_CONTAINERS) {
        let job = of.job.as_ref().map(|job| job.name.as_str());
        container(out, &of.key, job, &of.verdict);
    }
    if let Some(logs) = &jobs.logs {
        series! { out
            "selvage_nccl_log_bytes_total" [] logs.bytes;
            "selvage_nccl_log_lines_dropped_total" [] logs.lines_dropped;
            "selvage_nccl_log_bytes_lost_total" [] logs.bytes_lost;
            "selvage_nccl_containers" [] jobs.containers.len();
            "selvage_pod_limits_total" ["logs"] jobs.limited.logs;
            "selvage_pod_limits_total" ["manifests"] jobs.limited.manifests;
            "selvage_pod_limits_total" ["announcements"] jobs.limited.announcements;
        }
    }
    suspects(out, jobs);
}

fn suspects(out: &mut Exposition, jobs: &Jobs) {
    // A recreated pod may exist next to its predecessor of the same name.
    let mut series: BTreeMap<[&str; 3], bool> = BTreeMap::new();
    for suspect in jobs.suspects.values().take(MAX_PODS) {
        let is_suspect = match suspect.state {
            SuspectState::Suspect => true,
            SuspectState::Cleared | SuspectState::Idle => false,
            SuspectState::Unknown => continue,
        };
        let pod = &suspect.pod;
        // The UID where the pod's name is unknown.
        let name = match pod.name.as_str() {
            // Outside of Kubernetes there is only the job.
            "" if pod.job.is_some() => "",
            "" => &suspect.uid,
            name => name,
        };
        let job = pod.job.as_ref().map_or("", |job| job.name.as_str());
        *series.entry([&pod.namespace, name, job]).or_default() |= is_suspect;
    }
    for (labels, is_suspect) in series {
        out.push("selvage_nccl_suspect", &labels, is_suspect);
    }
}

/// What one container's NCCL uses, the same from the agent and from a sidecar. Unknown values have no
/// series.
pub(crate) fn container(
    out: &mut Exposition,
    key: &ContainerKey,
    job: Option<&str>,
    verdict: &NcclVerdict,
) {
    let (namespace, pod) = (&*key.namespace, &*key.pod);
    // Without a pod, the job's name stands for it.
    let (container, alone) = key.job().map_or((&*key.container, ""), |job| ("", job));
    let with = |more| [namespace, pod, container, alone, more];
    let version = verdict.nccl_version.as_deref().unwrap_or_default();
    let job = job.unwrap_or(alone);
    let fallback = match verdict.tcp_fallback {
        Fallback::Yes => Some(true),
        Fallback::No | Fallback::Configured => Some(false),
        Fallback::Unknown => None,
    };
    series! { out
        "selvage_nccl_job_info" [namespace, pod, container, job, version] true;
        "selvage_nccl_tcp_fallback" [namespace, pod, container, alone] fallback;
        "selvage_nccl_network" [namespace, pod, container, alone, verdict.network.as_str()] true;
        "selvage_nccl_gpudirect_rdma" [namespace, pod, container, alone] verdict.gdrdma;
        "selvage_nccl_init_seconds" [namespace, pod, container, alone] verdict.init_seconds;
        "selvage_nccl_init_hangs" [namespace, pod, container, alone] verdict.init_hangs_since.is_some();
    }
    for (transport, count) in verdict.channels.iter().filter(|(_, count)| **count > 0) {
        out.push("selvage_nccl_channels", &with(transport), *count);
    }
    for (cause, count) in &verdict.warnings {
        out.push("selvage_nccl_warnings_total", &with(cause.as_str()), *count);
    }
}
