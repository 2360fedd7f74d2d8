//! The fleet's jobs.

use super::event::Event;
use super::nccl::{Carrier, Gang, IB_RAILS, ROCE_RAILS};
use super::pod::PodSpec;
use super::process::ProcessSpec;
use super::script::Script;

/// What shared RDMA device plugins offer, by name.
const SHARED: &str = "rdma/hca_shared_devices_a";

/// What makes pods of a job.
#[derive(Debug, Clone, Copy)]
enum Maker {
    PyTorch,
    Mpi,
    JobSet,
    LeaderWorkerSet,
}

fn pod(namespace: &str, maker: Maker, job: &str, index: u32) -> PodSpec {
    let (kind, name, labels): (&str, String, Vec<(&str, String)>) = match maker {
        Maker::PyTorch => (
            "PyTorchJob",
            format!("{job}-worker-{index}"),
            vec![
                ("training.kubeflow.org/job-name", job.into()),
                (
                    "training.kubeflow.org/operator-name",
                    "pytorchjob-controller".into(),
                ),
                ("training.kubeflow.org/replica-index", index.to_string()),
                ("training.kubeflow.org/replica-type", "worker".into()),
            ],
        ),
        Maker::Mpi => (
            "MPIJob",
            format!("{job}-worker-{index}"),
            vec![
                ("training.kubeflow.org/job-name", job.into()),
                ("training.kubeflow.org/operator-name", "mpi-operator".into()),
                ("training.kubeflow.org/replica-index", index.to_string()),
            ],
        ),
        Maker::JobSet => (
            "Job",
            format!("{job}-workers-0-{index}"),
            vec![
                ("jobset.sigs.k8s.io/jobset-name", job.into()),
                ("jobset.sigs.k8s.io/job-index", index.to_string()),
            ],
        ),
        Maker::LeaderWorkerSet => (
            "StatefulSet",
            format!("{job}-0-{index}"),
            vec![
                ("leaderworkerset.sigs.k8s.io/name", job.into()),
                ("leaderworkerset.sigs.k8s.io/size", "2".into()),
                (
                    "leaderworkerset.sigs.k8s.io/worker-index",
                    index.to_string(),
                ),
            ],
        ),
    };
    PodSpec {
        namespace: namespace.into(),
        uid: uid(&name),
        name,
        container: "trainer".into(),
        owner: (kind.into(), job.into()),
        labels: labels
            .into_iter()
            .map(|(key, value)| (key.to_string(), value))
            .collect(),
        env: [("NCCL_DEBUG", "INFO"), ("PET_NNODES", "2")]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .to_vec(),
        gpus: 8,
        rdma: Some((SHARED.into(), 1)),
    }
}

/// A UID that depends on the name alone.
fn uid(name: &str) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let (a, b) = (hash >> 32, hash & 0xffff_ffff);
    format!(
        "{a:08x}-{:04x}-4{:03x}-8{:03x}-{b:08x}{:04x}",
        b >> 16,
        b & 0xfff,
        a & 0xfff,
        a >> 16
    )
}

/// A pod that comes to the node and prints what its gang prints; then its own words, every while.
fn runs(script: &mut Script, secs: f64, mut pod: PodSpec, gang: Gang) {
    pod.gpus = gang.ranks;
    script.at(secs, Event::PodComes(Box::new(pod.clone())));
    for (after, event) in gang.lines(&pod) {
        script.at(secs + 1.0 + after.as_secs_f64(), event);
    }
    if !gang.hangs {
        let says = Event::PodSays {
            uid: pod.uid,
            restart: 0,
            lines: vec!["throughput 3021.7 tokens/s/GPU".into()],
        };
        script.again(secs + 5.0, 5.0, says);
    }
}

const VERSION: &str = "2.22.3+cuda12.6";

fn gang(nodes: u32, index: u32, carrier: Carrier) -> Gang {
    Gang {
        version: VERSION,
        ranks: 8,
        nodes,
        index,
        carrier,
        hangs: false,
    }
}

const fn ib(gdr: bool) -> Carrier {
    Carrier::Ib {
        devices: IB_RAILS,
        layer: "IB",
        gdr,
    }
}

const fn roce(gdr: bool) -> Carrier {
    Carrier::Ib {
        devices: ROCE_RAILS,
        layer: "RoCE",
        gdr,
    }
}

/// A big job over InfiniBand, on several nodes of the fleet. Where its rail flaps, NCCL complains.
pub(super) fn llama(script: &mut Script, index: u32) {
    let pod = pod("research", Maker::PyTorch, "llama-pretrain", index);
    if index == 2 {
        let trouble = Event::PodSays {
            uid: pod.uid.clone(),
            restart: 0,
            lines: vec![
                format!(
                    "{}:114:402 [2] transport/net_ib.cc:243 NCCL WARN NET/IB : mlx5_4:1 Got async error event: port error",
                    pod.name
                ),
                format!(
                    "{}:114:402 [2] transport/net_ib.cc:1846 NCCL WARN NET/IB: Got completion from peer 10.0.1.10<41222> with status=12 opcode=0 len=0 vendor err 129 (Send)",
                    pod.name
                ),
            ],
        };
        script.at(34.0, trouble.clone());
        script.again(79.0, 45.0, trouble);
    }
    // The others' processes are not looked at.
    if index == 0 {
        let process = ProcessSpec {
            pid: 20_118,
            pod: pod.uid.clone(),
            queue_pairs: true,
            tcp: 0,
        };
        script.at(4.0, Event::ProcessComes(process));
    }
    runs(script, 3.0, pod, gang(3, index, ib(true)));
}

/// Its GPUDirect RDMA is off, though the node has a path for it.
pub(super) fn embed(script: &mut Script) {
    let pod = pod("search", Maker::PyTorch, "embed-train", 0);
    runs(script, 4.0, pod, gang(2, 0, roce(false)));
}

pub(super) fn moe(script: &mut Script) {
    let mut pod = pod("research", Maker::Mpi, "moe-train", 0);
    pod.rdma = Some(("vpc.amazonaws.com/efa".into(), 32));
    let gang = Gang {
        version: "2.23.4+cuda12.4",
        ..gang(4, 0, Carrier::Ofi)
    };
    runs(script, 3.0, pod, gang);
}

/// No GPUDirect RDMA, for the node has no path for it.
pub(super) fn vision(script: &mut Script) {
    let pod = pod("vision", Maker::LeaderWorkerSet, "vision-pretrain", 0);
    runs(script, 9.0, pod, gang(2, 0, roce(false)));
}

/// A gang that did not ask for an RDMA device: its NCCL falls back to TCP, and nobody is told.
pub(super) fn sft(script: &mut Script) {
    let mut pod = pod("apps", Maker::JobSet, "sft-run", 1);
    pod.rdma = None;
    let gang = Gang {
        ranks: 2,
        ..gang(2, 1, Carrier::FallenBack)
    };
    runs(script, 4.0, pod, gang);
}

/// Its other node never comes.
pub(super) fn eval(script: &mut Script) {
    let pod = pod("apps", Maker::PyTorch, "eval-suite", 1);
    let gang = Gang {
        ranks: 2,
        hangs: true,
        ..gang(2, 1, roce(true))
    };
    runs(script, 6.0, pod, gang);
}

/// Moves many bytes by TCP and logs nothing: a suspect.
pub(super) fn silent(script: &mut Script) {
    let mut pod = pod("apps", Maker::LeaderWorkerSet, "grpo-rollout", 1);
    pod.gpus = 2;
    pod.env.retain(|(name, _)| name != "NCCL_DEBUG");
    let process = ProcessSpec {
        pid: 31_207,
        pod: pod.uid.clone(),
        queue_pairs: false,
        tcp: 0,
    };
    script.at(5.0, Event::PodComes(Box::new(pod)));
    script.at(6.0, Event::ProcessComes(process));
    let moves = Event::Tcp {
        pid: 31_207,
        bytes: 620_000_000,
    };
    script.again(7.0, 2.0, moves);
}

/// TCP, as its manifest asks.
pub(super) fn legacy(script: &mut Script) {
    let mut pod = pod("apps", Maker::Mpi, "legacy-finetune", 1);
    pod.env.push(("NCCL_IB_DISABLE".into(), "1".into()));
    let gang = Gang {
        version: "2.22.3+cuda12.4",
        ranks: 2,
        ..gang(2, 1, Carrier::Sockets)
    };
    runs(script, 5.0, pod, gang);
}

pub(super) fn rlhf(script: &mut Script) {
    let pod = pod("apps", Maker::LeaderWorkerSet, "rlhf-actors", 1);
    runs(script, 4.0, pod, gang(2, 1, roce(true)));
}

/// The jobs of the play: one that does well; one that asks for no RDMA device and falls back to TCP;
/// and the same started again with what it needs.
pub(super) fn of_the_play() -> [(PodSpec, Gang); 3] {
    let well = pod("research", Maker::PyTorch, "llama-pretrain", 0);
    let mended = pod("apps", Maker::PyTorch, "sft-run", 0);
    let mut short = mended.clone();
    short.uid = uid("the first try");
    short.rdma = None;
    [
        (well, gang(2, 0, roce(true))),
        (short, gang(2, 0, Carrier::FallenBack)),
        (mended, gang(2, 0, roce(true))),
    ]
}
