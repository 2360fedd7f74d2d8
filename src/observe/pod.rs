//! A pod on this node, with what is needed to judge its job.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One container of one pod, as `/var/log/pods` names it and metrics label it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct ContainerKey {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod: a name comes again, a UID does not. Of a static pod, its hash.
    pub uid: String,
    /// Name of the container.
    pub container: String,
}

/// What the UID of a job outside of Kubernetes begins with: no pod's does.
const USER: &str = "user ";

impl ContainerKey {
    /// A job without a pod, by the user who owns its log and its number or name.
    pub fn of_job(user: u32, job: &str) -> Self {
        ContainerKey {
            uid: format!("{USER}{user}"),
            container: job.to_string(),
            ..ContainerKey::default()
        }
    }

    /// Number or name of a job without a pod.
    pub fn job(&self) -> Option<&str> {
        let is_job = self.pod.is_empty() && self.uid.starts_with(USER);
        is_job.then_some(&self.container)
    }
}

/// A pod as the API server describes it; unknown fields are empty or `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodFacts {
    /// UID of the pod.
    pub uid: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// The job that it belongs to, if known.
    pub job: Option<PodJob>,
    /// Whether the gang that it belongs to is meant to have more than one pod; `None` if unknown.
    pub gang: Option<bool>,
    /// Whether it shares the node's network namespace.
    pub host_network: bool,
    /// Whether it has ended: it holds neither GPUs nor devices any more.
    pub finished: bool,
    /// Its containers by name, native sidecars among them.
    pub containers: BTreeMap<String, PodContainer>,
}

impl PodFacts {
    /// Bytes of memory that the facts take, roughly.
    pub fn held(&self) -> usize {
        let texts = |map: &BTreeMap<String, String>| -> usize {
            let sizes = map.iter().map(|(name, value)| name.len() + value.len());
            sizes.sum::<usize>() + 2 * map.len() * size_of::<(String, String)>()
        };
        let containers = self.containers.iter().map(|(name, of)| {
            let rdma: usize = of.rdma.keys().map(|name| name.len() + 64).sum();
            name.len() + 2 * size_of::<PodContainer>() + texts(&of.env) + rdma
        });
        let names = self.uid.len() + self.namespace.len() + self.name.len();
        let job = self.job.as_ref();
        let job = job.map_or(0, |job| job.kind.len() + job.name.len());
        size_of::<Self>() + names + job + containers.sum::<usize>()
    }

    /// Whether a container belongs to its spec and the pod asks for GPUs: what it logs is then that of
    /// a job, and not what anybody may print.
    pub fn is_job(&self, container: &str) -> bool {
        let gpus = |of: &PodContainer| of.gpus > 0;
        self.containers.contains_key(container) && self.containers.values().any(gpus)
    }
}

/// The workload that a pod belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodJob {
    /// `PyTorchJob`, `MPIJob`, `JobSet`, `LeaderWorkerSet`, `Volcano`, `Job`, `StatefulSet` …
    pub kind: String,
    /// Its name, in the pod's namespace.
    pub name: String,
}

/// A container's requests, environment and state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodContainer {
    /// Variables that steer NCCL and its plugins (`NCCL_*`, `FI_*`, `UCX_*`, `WORLD_SIZE` …) with a
    /// literal value in the manifest.
    pub env: BTreeMap<String, String>,
    /// GPUs requested, of any vendor.
    pub gpus: u64,
    /// RDMA devices requested, by resource name (`vpc.amazonaws.com/efa`, `rdma/hca_shared_devices_a`).
    pub rdma: BTreeMap<String, u64>,
    /// Whether it is privileged: it then sees the node's RDMA devices without requesting any.
    pub privileged: bool,
    /// Whether it gets devices whose kind the manifest does not say: by resource claims
    /// (DRA), or as an extended resource whose name says neither GPU nor RDMA. Then `gpus` may be too
    /// few, and an empty `rdma` says nothing.
    pub other_devices: bool,
    /// Whether it is the daemon that GPUDirect-TCPX and TCPXO need next to a job.
    pub tcp_daemon: bool,
    /// Its state; `None` before the kubelet reported one.
    pub state: Option<ContainerState>,
}

/// A container's state (`status.containerStatuses[].state`), with the kubelet's reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerState {
    /// Not yet, or not again: `ContainerCreating`, `CrashLoopBackOff`, `ImagePullBackOff` …
    Waiting(String),
    /// The container's process is running.
    Running,
    /// It ended: `Completed, exit 0`, `OOMKilled, exit 137` …
    Ended(String),
}

/// Whether an extended resource is counted in GPUs or parts of GPUs: `nvidia.com/gpu`,
/// `nvidia.com/gpu.shared`, `nvidia.com/mig-1g.10gb`, `amd.com/gpu`, `amd.com/cpx_nps4`,
/// `volcano.sh/vgpu-number`. Shares of memory or cores (`nvidia.com/gpumem`, `aliyun.com/gpu-mem`)
/// are not counts of GPUs, and come in addition to one.
pub fn is_gpu_resource(name: &str) -> bool {
    let Some((domain, resource)) = name.split_once('/') else {
        return false;
    };
    let resource = resource.to_ascii_lowercase();
    let starts = |heads: &[&str]| heads.iter().any(|head| resource.starts_with(head));
    match domain {
        "nvidia.com" if starts(&["mig-"]) => return true,
        "amd.com" if starts(&["spx_", "dpx_", "tpx_", "qpx_", "cpx_"]) => return true,
        "gpu.intel.com" => return starts(&["i915", "xe"]) && !resource.contains("monitoring"),
        _ => {}
    }
    let share = ["mem", "core", "percent", "util", "bandwidth", "priority"];
    starts(&["gpu", "vgpu", "pgpu"]) && !share.iter().any(|part| resource.contains(part))
}

/// Whether an extended resource stands for RDMA devices, or may: operators choose the names behind
/// `nvidia.com/` and `openshift.io/` (SR-IOV operators), so all that are not GPUs count.
/// Numbers of them need not be numbers of NICs: `rdma/hca_shared_devices_a` counts slots.
pub fn is_rdma_resource(name: &str) -> bool {
    let Some((domain, resource)) = name.split_once('/') else {
        return false;
    };
    let lower = resource.to_ascii_lowercase();
    match domain {
        "rdma" => true,
        "vpc.amazonaws.com" => lower.starts_with("efa"),
        // KubeVirt names whole GPUs by product, in capitals: `nvidia.com/GA102GL_A10`.
        "nvidia.com" => {
            let gpus = ["gpu", "mig-", "imex", "nvlink", "nvswitch"];
            !gpus.iter().any(|part| lower.contains(part))
                && resource.starts_with(|first: char| first.is_ascii_lowercase())
        }
        "amd.com" => ["nic", "vnic"].contains(&lower.as_str()),
        "openshift.io" => !lower.contains("gpu"),
        // Each network also has its number of addresses: `rdma-0.IP`.
        "networking.gke.io.networks" => !lower.ends_with(".ip"),
        "mrdma.google.com" => true,
        _ => (["rdma", "roce", "infiniband"].iter()).any(|part| lower.contains(part)),
    }
}

/// Whether a container is the daemon that GPUDirect-TCPX and TCPXO need next to a job, by the names
/// that Google's manifests give it (`tcpd-daemon`, `fastrak-daemon`, `tcpxo-daemon`, `tcpx-daemon`,
/// `rxdm`), or by the program's name in its image (`…/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.9`).
pub fn is_gpudirect_tcp_daemon(container: &str, image: &str) -> bool {
    let mut names = "tcpxo-daemon tcpx-daemon tcpd-daemon fastrak-daemon rxdm".split(' ');
    names.any(|part| container.contains(part)) || image.contains("tcpgpudmarxd")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_by_name_and_image() {
        let image = "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.9";
        for (name, image, want) in [
            ("tcpxo-daemon", "", true),
            ("tcpx-daemon", "", true),
            ("tcpd-daemon", "", true),
            ("fastrak-daemon", "", true),
            ("rxdm", "", true),
            ("helper", image, true),
            ("helper", "registry.example/mirror/tcpgpudmarxd:v2", true),
            // A job's own container may be called after what it tests.
            ("nccl-tcpxo-test", "registry.example/nccl-tests", false),
            (
                "job",
                "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/nccl-plugin:v1",
                false,
            ),
            ("", "", false),
        ] {
            assert_eq!(is_gpudirect_tcp_daemon(name, image), want, "{name} {image}");
        }
    }

    #[test]
    fn memory_is_that_of_all_texts() {
        let text = |text: &str| text.to_string();
        let of = PodContainer {
            env: ["A", "B", "C"]
                .map(|name| (text(name), text("value")))
                .into(),
            rdma: [(text("rdma/ib"), 8)].into(),
            ..PodContainer::default()
        };
        let facts = PodFacts {
            uid: text("12345"),
            namespace: text("team"),
            name: text("train-0"),
            job: Some(PodJob {
                kind: text("Job"),
                name: text("train"),
            }),
            containers: [(text("main"), of)].into(),
            ..PodFacts::default()
        };
        let names = 5 + 4 + 7 + 3 + 5 + 4;
        let env = 3 * (1 + 5) + 2 * 3 * size_of::<(String, String)>();
        let container = 2 * size_of::<PodContainer>() + env + 7 + 64;
        assert_eq!(
            facts.held(),
            size_of::<PodFacts>() + names + container,
            "{facts:?}"
        );
    }

    #[test]
    fn resources_by_name() {
        for (name, gpu, rdma) in [
            ("nvidia.com/gpu", true, false),
            ("nvidia.com/gpu.shared", true, false),
            ("nvidia.com/mig-1g.10gb", true, false),
            ("nvidia.com/pgpu", true, false),
            ("amd.com/gpu", true, false),
            ("amd.com/cpx_nps4", true, false),
            ("amd.com/nic", false, true),
            ("gpu.intel.com/i915", true, false),
            ("gpu.intel.com/i915_monitoring", false, false),
            ("gpu.intel.com/memory.max", false, false),
            ("volcano.sh/vgpu-number", true, false),
            ("volcano.sh/vgpu-memory", false, false),
            ("nvidia.com/gpumem", false, false),
            ("nvidia.com/gpucores", false, false),
            ("aliyun.com/gpu-mem", false, false),
            ("aliyun/erdma", false, true),
            ("rdma/ib", false, true),
            ("rdma/hca_shared_devices_a", false, true),
            ("rdma/shared_ib", false, true),
            ("vpc.amazonaws.com/efa", false, true),
            ("vpc.amazonaws.com/pod-eni", false, false),
            ("vpc.amazonaws.com/PrivateIPv4Address", false, false),
            ("nvidia.com/mlnxnics", false, true),
            ("nvidia.com/hostdev", false, true),
            ("nvidia.com/sriovlegacy", false, true),
            ("nvidia.com/rdma-vf", false, true),
            ("nvidia.com/GA102GL_A10", false, false),
            ("nvidia.com/imex-channel", false, false),
            ("openshift.io/mlx5ib", false, true),
            ("networking.gke.io.networks/rdma-0", false, true),
            ("networking.gke.io.networks/rdma-0.IP", false, false),
            ("mrdma.google.com/nic", false, true),
            ("cpu", false, false),
            ("memory", false, false),
            ("hugepages-2Mi", false, false),
            ("ephemeral-storage", false, false),
            ("smarter-devices/fuse", false, false),
            ("", false, false),
            ("/", false, false),
        ] {
            assert_eq!(is_gpu_resource(name), gpu, "{name}");
            assert_eq!(is_rdma_resource(name), rdma, "{name}");
        }
    }
}
