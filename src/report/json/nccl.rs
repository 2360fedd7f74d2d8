//! The part of the JSON report about this node's jobs.

use super::{Report, time};
use crate::check::nccl::NcclVerdict;
use crate::check::nccl_daemon::DaemonTrouble;
use crate::check::nccl_jobs::{LogReading, Via};
use crate::check::nccl_pods::NoRdma;
use crate::check::nccl_suspect::State;
use crate::observe::pod::Job;
use serde::Serialize;
use std::collections::BTreeMap;

/// Jobs of this node.
#[derive(Debug, Serialize)]
pub(super) struct Nccl<'a> {
    containers: Vec<Container<'a>>,
    fallbacks_in_a_row: u32,
    no_rdma: &'a [NoRdma],
    /// Pods whose GPUDirect-TCPX(O) daemon is missing or down.
    daemon_troubles: &'a [DaemonTrouble],
    suspects: Vec<SuspectOut<'a>>,
    /// None where logs are not read.
    logs: Option<&'a LogReading>,
}

#[derive(Debug, Serialize)]
struct Container<'a> {
    namespace: &'a str,
    pod: &'a str,
    uid: &'a str,
    container: &'a str,
    job: Option<&'a Job>,
    since: Option<String>,
    via: Via,
    #[serde(flatten)]
    verdict: &'a NcclVerdict,
}

#[derive(Debug, Serialize)]
struct SuspectOut<'a> {
    namespace: &'a str,
    pod: &'a str,
    uid: &'a str,
    job: Option<&'a Job>,
    gpus: u64,
    state: State,
    since: Option<String>,
    reason: &'a str,
    message: &'a str,
    remedy: &'a str,
    evidence: &'a BTreeMap<String, serde_json::Value>,
}

impl<'a> Nccl<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let jobs = &report.jobs;
        let containers = jobs.containers.iter().map(|container| Container {
            namespace: &container.key.namespace,
            pod: &container.key.pod,
            uid: &container.key.uid,
            container: &container.key.container,
            job: container.job.as_ref(),
            since: time(report, container.since),
            via: container.via,
            verdict: &container.verdict,
        });
        let suspects = jobs.suspects.values().map(|suspect| SuspectOut {
            namespace: &suspect.pod.namespace,
            pod: &suspect.pod.name,
            uid: &suspect.uid,
            job: suspect.pod.job.as_ref(),
            gpus: suspect.pod.gpus,
            state: suspect.state,
            since: time(report, suspect.since),
            reason: &suspect.reason,
            message: &suspect.message,
            remedy: &suspect.remedy,
            evidence: &suspect.evidence,
        });
        Nccl {
            containers: containers.collect(),
            fallbacks_in_a_row: jobs.fallbacks_in_a_row,
            no_rdma: &jobs.no_rdma,
            daemon_troubles: &jobs.daemon_troubles,
            suspects: suspects.collect(),
            logs: jobs.logs.as_ref(),
        }
    }
}
