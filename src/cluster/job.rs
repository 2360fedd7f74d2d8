//! The job that a pod belongs to, and whether it has more than one pod, by the marks that operators put
//! on the pods they create. Pure.
//!
//! Where the names are from: Kubeflow training-operator `pkg/apis/kubeflow.org/v1/common_types.go`
//! (before 1.4: `job-name`, `pytorch-job-name` …), mpi-operator `v2beta1/constants.go`, Trainer
//! `pkg/constants`, JobSet `api/jobset/v1alpha2`, LeaderWorkerSet "Labels, Annotations and Environment
//! Variables", Volcano `batch/v1alpha1/labels.go`, Kueue "Run Plain Pods", KubeRay
//! `ray/utils/constant.go`, Kubernetes "Well-Known Labels".

use crate::observe::{PodContainer, PodJob};
use std::collections::BTreeMap;

/// The marks of an operator on a pod.
#[derive(Debug, Clone, Copy)]
pub struct Marks<'a> {
    /// The labels of the pod.
    pub labels: &'a BTreeMap<String, String>,
    /// The annotations of the pod.
    pub annotations: &'a BTreeMap<String, String>,
    /// Kind and name of the owner that controls it.
    pub owner: Option<(&'a str, &'a str)>,
}

const JOBSET: &str = "jobset.sigs.k8s.io/jobset-name";
const RAY: &str = "ray.io/cluster";
const BATCH: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// Marks that name the job, the more specific first, and the job's kind: of Kubeflow's operators before
/// they had one prefix, then of others.
const NAMED: &str = include_str!("job_labels.txt");

/// What `training.kubeflow.org/operator-name` begins with.
const OPERATORS: &str = include_str!("job_operators.txt");

/// Numbers that tell of the gang's size: `size`, its pods; `replicas` of one of its parts; `index`, which
/// above 0 proves a second pod, `jobset_index` only in a JobSet, since the pods of a plain Job may be
/// independent.
const SIZES: &str = include_str!("job_sizes.txt");

/// The pairs of a list, one a line.
fn pairs(list: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    list.lines().filter_map(|line| line.split_once(' '))
}

impl<'a> Marks<'a> {
    fn label(&self, key: &str) -> Option<&'a str> {
        let found = self.labels.get(key).map(String::as_str);
        found.filter(|value| !value.is_empty())
    }

    /// A label, or the annotation of that name: several operators write both.
    fn either(&self, key: &str) -> Option<&'a str> {
        let annotation = || self.annotations.get(key).map(String::as_str);
        self.label(key)
            .or_else(annotation)
            .filter(|value| !value.is_empty())
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.either(key)?.trim().parse().ok()
    }
}

/// The job that the pod belongs to, by the most specific mark, else its owner.
pub fn job(marks: &Marks<'_>) -> Option<PodJob> {
    let (kind, name) = by_marks(marks).or_else(|| by_owner(marks))?;
    let (kind, name) = (kind.into(), name.into());
    Some(PodJob { kind, name })
}

fn by_marks<'a>(marks: &Marks<'a>) -> Option<(&'a str, &'a str)> {
    if let Some(name) = marks.label("training.kubeflow.org/job-name") {
        return Some((kubeflow_kind(marks), name));
    }
    let mut named = pairs(NAMED);
    if let Some((key, kind, name)) =
        named.find_map(|(key, kind)| Some((key, kind, marks.either(key)?)))
    {
        // A TrainJob's pods are those of the JobSet that it makes under its own name.
        let mut keys = marks.labels.keys();
        let trainer = key == JOBSET && keys.any(|key| key.starts_with("trainer.kubeflow.org/"));
        let ray = marks
            .label("ray.io/originated-from-crd")
            .zip(marks.label("ray.io/originated-from-cr-name"));
        return match key {
            RAY if ray.is_some() => ray,
            _ => Some((if trainer { "TrainJob" } else { kind }, name)),
        };
    }
    let old = marks.label("group-name") == Some("kubeflow.org");
    let batch = BATCH.iter().find_map(|key| marks.label(key))?;
    let kind = match marks.owner {
        Some((kind, _)) if old => kind,
        // Any author may use the label `job-name`.
        Some(("Job", _)) | None => "Job",
        Some(_) => return None,
    };
    Some((kind, batch))
}

fn kubeflow_kind<'a>(marks: &Marks<'a>) -> &'a str {
    let operator = (marks.label("training.kubeflow.org/operator-name")).unwrap_or("");
    let known = pairs(OPERATORS).find(|(begins, _)| operator.starts_with(begins));
    match (marks.owner, known) {
        // An MPIJob's launcher is a batch Job's pod.
        (Some((kind, _)), _) if kind != "Job" && kind.ends_with("Job") => kind,
        (_, Some((_, kind))) | (Some((kind, _)), None) => kind,
        (None, None) => "TrainingJob",
    }
}

fn by_owner<'a>(marks: &Marks<'a>) -> Option<(&'a str, &'a str)> {
    let (kind, name) = marks.owner?;
    match kind {
        // The mirror of a static pod.
        "Node" => None,
        "ReplicaSet" => {
            let hash = marks.label("pod-template-hash");
            let stem = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
            Some(stem.map_or((kind, name), |stem| ("Deployment", stem)))
        }
        _ => Some((kind, name)),
    }
}

/// Whether the pod's gang is meant to have more than one pod. Proof of several outweighs proof of one:
/// a variable may be left over from a template.
pub fn gang(marks: &Marks<'_>, containers: &BTreeMap<String, PodContainer>) -> Option<bool> {
    let in_jobset = marks.either(JOBSET).is_some();
    let proof = |(key, what): (&str, &str)| match (what, marks.number(key)?) {
        ("size", size) => Some(size > 1),
        ("replicas", 2..) | ("index", 1..) => Some(true),
        ("jobset_index", 1..) => in_jobset.then_some(true),
        _ => None,
    };
    let told = containers.values().filter_map(by_variables);
    let all = pairs(SIZES).filter_map(proof).chain(told);
    all.reduce(|one, other| one || other)
}

/// What a container's variables prove: those of torchrun and LeaderWorkerSet count nodes, `WORLD_SIZE`
/// counts processes (PyTorchJob: pods), as a rule one for each GPU.
fn by_variables(container: &PodContainer) -> Option<bool> {
    let variable = |name: &str| container.env.get(name).map(|value| value.trim());
    let nodes = ["NNODES", "PET_NNODES", "LWS_GROUP_SIZE", "NUM_NODES"]
        .into_iter()
        .filter_map(|name| nodes(variable(name)?))
        .reduce(|one, other| one || other);
    let world = variable("WORLD_SIZE").and_then(|value| value.parse::<u64>().ok());
    match (nodes, world) {
        (Some(true), _) => Some(true),
        (_, Some(world))
            if container.gpus > 0 && !container.other_devices && world > container.gpus =>
        {
            Some(true)
        }
        (None, Some(1)) => Some(false),
        (nodes, _) => nodes,
    }
}

/// A number of nodes, or torchrun's `least:most`: whether it is more than one.
fn nodes(text: &str) -> Option<bool> {
    let (least, most) = text.split_once(':').unwrap_or((text, text));
    let (least, most): (u64, u64) = (least.parse().ok()?, most.parse().ok()?);
    match (least, most) {
        (2.., _) => Some(true),
        (1, 1) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
