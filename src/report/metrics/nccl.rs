//! Families about what NCCL uses in this node's jobs.

use super::Exposition;
use super::cat;
use super::flag;
use crate::check::nccl::{Fallback, NcclVerdict};
use crate::check::nccl_jobs::Jobs;
use crate::check::nccl_suspect::State;
use crate::observe::pod::ContainerKey;
use std::collections::{BTreeMap, BTreeSet};

/// Most containers with series of their own, the worst first: a node has 8 GPUs or 16, and few
/// containers share one.
const MAX_CONTAINERS: usize = 24;

/// Most suspects and pods without RDMA.
const MAX_PODS: usize = 64;

/// One container's labels and verdict: the agent's and a sidecar's series are the same.
pub(crate) struct ContainerSeries<'a> {
    /// Who.
    pub key: &'a ContainerKey,
    /// Name of its job, where that is known.
    pub job: Option<&'a str>,
    /// What.
    pub verdict: &'a NcclVerdict,
}

pub(super) fn families(exposition: &mut Exposition, jobs: &Jobs) {
    // The same of a container's name: the worst stands first.
    let mut names = BTreeSet::new();
    let told: Vec<ContainerSeries<'_>> = jobs
        .containers
        .iter()
        .filter(|container| {
            let key = &container.key;
            names.insert((&key.namespace, &key.pod, &key.container))
        })
        .take(MAX_CONTAINERS)
        .map(|container| ContainerSeries {
            key: &container.key,
            job: container.job.as_ref().map(|job| job.name.as_str()),
            verdict: &container.verdict,
        })
        .collect();
    containers(exposition, &told);
    let logs = jobs.logs.as_ref();
    exposition.one(&cat::NCCL_LOG_BYTES, logs.map(|logs| logs.bytes as f64));
    exposition.one(
        &cat::NCCL_LOG_DROPPED,
        logs.map(|logs| logs.lines_dropped as f64),
    );
    exposition.one(&cat::NCCL_LOG_LOST, logs.map(|logs| logs.bytes_lost as f64));
    exposition.one(
        &cat::NCCL_CONTAINERS,
        logs.map(|_| jobs.containers.len() as f64),
    );
    suspects(exposition, jobs);
}

fn suspects(exposition: &mut Exposition, jobs: &Jobs) {
    // A recreated pod may exist next to its predecessor of the same name.
    let mut series: BTreeMap<[&str; 3], f64> = BTreeMap::new();
    for suspect in jobs.suspects.values().take(MAX_PODS) {
        let value = match suspect.state {
            State::Suspect => 1.0,
            State::Cleared | State::Idle => 0.0,
            State::Unknown => continue,
        };
        let pod = &suspect.pod;
        // The UID where the pod's name is unknown.
        let name = match pod.name.is_empty() {
            true => &suspect.uid,
            false => &pod.name,
        };
        let job = pod.job.as_ref().map_or("", |job| job.name.as_str());
        let kept = series.entry([&pod.namespace, name, job]).or_default();
        *kept = kept.max(value);
    }
    exposition.add(&cat::NCCL_SUSPECT, series);
}

/// What each container's NCCL uses. Unknown values have no series.
pub(crate) fn containers(exposition: &mut Exposition, told: &[ContainerSeries<'_>]) {
    fn labels<'a>(told: &ContainerSeries<'a>) -> [&'a str; 3] {
        let key = told.key;
        [&key.namespace, &key.pod, &key.container]
    }
    let with = |told: &ContainerSeries<'_>, more: &'static str| {
        let [namespace, pod, container] = labels(told);
        [
            namespace.to_string(),
            pod.to_string(),
            container.to_string(),
            more.to_string(),
        ]
    };
    exposition.add(
        &cat::NCCL_JOB_INFO,
        told.iter().map(|told| {
            let [namespace, pod, container] = labels(told);
            let version = told.verdict.nccl_version.as_deref().unwrap_or_default();
            let job = told.job.unwrap_or_default();
            ([namespace, pod, container, job, version], 1.0)
        }),
    );
    exposition.add(
        &cat::NCCL_TCP_FALLBACK,
        told.iter().filter_map(|told| {
            let value = match told.verdict.tcp_fallback {
                Fallback::Yes => 1.0,
                Fallback::No | Fallback::Configured => 0.0,
                Fallback::Unknown => return None,
            };
            Some((labels(told), value))
        }),
    );
    exposition.add(
        &cat::NCCL_NETWORK,
        told.iter()
            .map(|told| (with(told, told.verdict.network.as_str()), 1.0)),
    );
    exposition.add(
        &cat::NCCL_CHANNELS,
        told.iter().flat_map(|told| {
            let [namespace, pod, container] = labels(told);
            let used = told
                .verdict
                .channels
                .iter()
                .filter(|(_, count)| **count > 0);
            used.map(move |(transport, count)| {
                (
                    [namespace, pod, container, transport.as_str()],
                    *count as f64,
                )
            })
        }),
    );
    exposition.add(
        &cat::NCCL_GPUDIRECT,
        told.iter()
            .filter_map(|told| Some((labels(told), flag(told.verdict.gdrdma?)))),
    );
    exposition.add(
        &cat::NCCL_WARNINGS,
        told.iter().flat_map(|told| {
            let warnings = told.verdict.warnings.iter();
            warnings.map(|(cause, count)| (with(told, cause.as_str()), *count as f64))
        }),
    );
    exposition.add(
        &cat::NCCL_INIT_SECONDS,
        told.iter()
            .filter_map(|told| Some((labels(told), told.verdict.init_seconds?))),
    );
    exposition.add(
        &cat::NCCL_INIT_HANGS,
        told.iter().map(|told| {
            let hangs = told.verdict.init_hangs_since.is_some();
            (labels(told), flag(hangs))
        }),
    );
}
