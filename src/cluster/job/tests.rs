use super::*;

const KUBEFLOW_JOB: &str = "training.kubeflow.org/job-name";
const KUBEFLOW_OPERATOR: &str = "training.kubeflow.org/operator-name";
const KUBEFLOW_INDEX: &str = "training.kubeflow.org/replica-index";
const JOBSET_REPLICAS: &str = "jobset.sigs.k8s.io/replicatedjob-replicas";
const LWS: &str = "leaderworkerset.sigs.k8s.io/name";
const LWS_SIZE: &str = "leaderworkerset.sigs.k8s.io/size";
const LWS_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
const VOLCANO: &str = "volcano.sh/job-name";
const VOLCANO_INDEX: &str = "volcano.sh/task-index";
const RAY_FROM_KIND: &str = "ray.io/originated-from-crd";
const RAY_FROM_NAME: &str = "ray.io/originated-from-cr-name";
const KUEUE_GROUP: &str = "kueue.x-k8s.io/pod-group-name";
const KUEUE_COUNT: &str = "kueue.x-k8s.io/pod-group-total-count";
const BATCH_INDEX: &str = "batch.kubernetes.io/job-completion-index";
const TEMPLATE_HASH: &str = "pod-template-hash";

type Pairs = &'static [(&'static str, &'static str)];

fn map(pairs: Pairs) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_string(), (*value).to_string());
    pairs.iter().map(owned).collect()
}

#[test]
fn jobs_by_marks_and_owners() {
    type KindAndName = Option<(&'static str, &'static str)>;
    type Case = (Pairs, Pairs, KindAndName, KindAndName);
    let cases: &[Case] = &[
        // As HyperPod shows a PyTorchJob's pod.
        (
            &[
                (KUBEFLOW_JOB, "esm2"),
                (KUBEFLOW_OPERATOR, "pytorchjob-controller"),
                ("training.kubeflow.org/replica-type", "worker"),
            ],
            &[],
            Some(("PyTorchJob", "esm2")),
            Some(("PyTorchJob", "esm2")),
        ),
        // The launcher of an MPIJob, whose owner is a batch Job.
        (
            &[
                (KUBEFLOW_JOB, "bench"),
                (KUBEFLOW_OPERATOR, "mpi-operator"),
                ("job-name", "bench-launcher"),
            ],
            &[],
            Some(("Job", "bench-launcher")),
            Some(("MPIJob", "bench")),
        ),
        (
            &[
                (KUBEFLOW_JOB, "a"),
                (KUBEFLOW_OPERATOR, "ascendjob-controller"),
            ],
            &[],
            Some(("AscendJob", "a")),
            Some(("AscendJob", "a")),
        ),
        (
            &[(KUBEFLOW_JOB, "a")],
            &[],
            None,
            Some(("TrainingJob", "a")),
        ),
        (
            &[
                ("pytorch-job-name", "old"),
                ("job-name", "old"),
                ("group-name", "kubeflow.org"),
            ],
            &[],
            Some(("PyTorchJob", "old")),
            Some(("PyTorchJob", "old")),
        ),
        (
            &[("job-name", "old"), ("group-name", "kubeflow.org")],
            &[],
            Some(("TFJob", "old")),
            Some(("TFJob", "old")),
        ),
        (
            &[("mpi_job_name", "v1")],
            &[],
            Some(("StatefulSet", "v1-worker")),
            Some(("MPIJob", "v1")),
        ),
        (
            &[
                (JOBSET, "llm"),
                ("trainer.kubeflow.org/trainjob-ancestor-step", "trainer"),
                ("batch.kubernetes.io/job-name", "llm-node-0"),
            ],
            &[],
            Some(("Job", "llm-node-0")),
            Some(("TrainJob", "llm")),
        ),
        (
            &[(JOBSET, "set"), ("job-name", "set-w-0")],
            &[],
            Some(("Job", "set-w-0")),
            Some(("JobSet", "set")),
        ),
        (
            &[],
            &[(JOBSET, "set")],
            Some(("Job", "set-w-0")),
            Some(("JobSet", "set")),
        ),
        (
            &[(LWS, "vllm")],
            &[],
            Some(("StatefulSet", "vllm-0")),
            Some(("LeaderWorkerSet", "vllm")),
        ),
        (
            &[],
            &[(VOLCANO, "v")],
            Some(("Job", "v")),
            Some(("Volcano", "v")),
        ),
        (
            &[(RAY, "r-x7")],
            &[],
            Some(("RayCluster", "r-x7")),
            Some(("RayCluster", "r-x7")),
        ),
        (
            &[
                (RAY, "r-x7"),
                (RAY_FROM_KIND, "RayJob"),
                (RAY_FROM_NAME, "r"),
            ],
            &[],
            Some(("RayCluster", "r-x7")),
            Some(("RayJob", "r")),
        ),
        (
            &[(KUEUE_GROUP, "g"), ("kueue.x-k8s.io/queue-name", "q")],
            &[],
            None,
            Some(("PodGroup", "g")),
        ),
        (
            &[("job-name", "plain")],
            &[],
            Some(("Job", "plain")),
            Some(("Job", "plain")),
        ),
        // Somebody's own label of that name.
        (
            &[("job-name", "mine")],
            &[],
            Some(("StatefulSet", "s")),
            Some(("StatefulSet", "s")),
        ),
        (
            &[(TEMPLATE_HASH, "5d9c")],
            &[],
            Some(("ReplicaSet", "web-5d9c")),
            Some(("Deployment", "web")),
        ),
        (
            &[],
            &[],
            Some(("ReplicaSet", "rs")),
            Some(("ReplicaSet", "rs")),
        ),
        (
            &[],
            &[],
            Some(("DaemonSet", "ds")),
            Some(("DaemonSet", "ds")),
        ),
        (&[], &[], Some(("Node", "gpu-1")), None),
        (&[(KUBEFLOW_JOB, "")], &[], None, None),
        (&[], &[], None, None),
    ];
    for (labels, annotations, owner, want) in cases {
        let found = job(&Marks {
            labels: &map(labels),
            annotations: &map(annotations),
            owner: *owner,
        });
        let found = found
            .as_ref()
            .map(|job| (job.kind.as_str(), job.name.as_str()));
        assert_eq!(found, *want, "{labels:?} {annotations:?} {owner:?}");
    }
}

#[test]
fn gangs() {
    type Case = (Pairs, Pairs, Pairs, u64, Option<bool>);
    let cases: &[Case] = &[
        (&[], &[], &[], 8, None),
        // LeaderWorkerSet: annotation, and the variable that its webhook writes.
        (&[(LWS, "v")], &[(LWS_SIZE, "2")], &[], 8, Some(true)),
        (&[(LWS, "v")], &[(LWS_SIZE, "1")], &[], 8, Some(false)),
        (&[(LWS, "v")], &[(LWS_SIZE, "x")], &[], 8, None),
        (&[(LWS, "v"), (LWS_INDEX, "1")], &[], &[], 8, Some(true)),
        (&[(LWS, "v"), (LWS_INDEX, "0")], &[], &[], 8, None),
        (&[], &[], &[("LWS_GROUP_SIZE", "4")], 8, Some(true)),
        // torchrun.
        (&[], &[], &[("NNODES", "2")], 8, Some(true)),
        (&[], &[], &[("PET_NNODES", "1")], 8, Some(false)),
        (&[], &[], &[("PET_NNODES", "2:8")], 8, Some(true)),
        (&[], &[], &[("PET_NNODES", "1:8")], 8, None),
        (&[], &[], &[("NNODES", "$(N)")], 8, None),
        // Processes: only more of them than GPUs here are proof.
        (&[], &[], &[("WORLD_SIZE", "16")], 8, Some(true)),
        (&[], &[], &[("WORLD_SIZE", "8")], 8, None),
        (&[], &[], &[("WORLD_SIZE", "2")], 8, None),
        (&[], &[], &[("WORLD_SIZE", "16")], 0, None),
        (&[], &[], &[("WORLD_SIZE", "1")], 1, Some(false)),
        (
            &[],
            &[],
            &[("WORLD_SIZE", "16"), ("NNODES", "1")],
            8,
            Some(true),
        ),
        (
            &[],
            &[],
            &[("WORLD_SIZE", "8"), ("NNODES", "1")],
            8,
            Some(false),
        ),
        // A template's leftover does not outweigh the operator's word.
        (&[], &[(LWS_SIZE, "4")], &[("NNODES", "1")], 8, Some(true)),
        (&[], &[(KUEUE_COUNT, "2")], &[], 1, Some(true)),
        (&[], &[(KUEUE_COUNT, "1")], &[], 1, Some(false)),
        (&[(KUBEFLOW_INDEX, "1")], &[], &[], 8, Some(true)),
        (&[(KUBEFLOW_INDEX, "0")], &[], &[], 8, None),
        (&[], &[(VOLCANO_INDEX, "3")], &[], 8, Some(true)),
        (
            &[(JOBSET, "s"), (JOBSET_REPLICAS, "4")],
            &[],
            &[],
            8,
            Some(true),
        ),
        (&[(JOBSET, "s"), (JOBSET_REPLICAS, "1")], &[], &[], 8, None),
        (
            &[(JOBSET, "s"), (BATCH_INDEX, "1")],
            &[],
            &[],
            8,
            Some(true),
        ),
        // Many plain Jobs are sweeps of tasks that know nothing of each other.
        (&[(BATCH_INDEX, "7")], &[], &[], 8, None),
        (&[(KUBEFLOW_INDEX, "-1")], &[], &[], 8, None),
        (
            &[(KUBEFLOW_INDEX, "99999999999999999999999")],
            &[],
            &[],
            8,
            None,
        ),
    ];
    for (labels, annotations, env, gpus, want) in cases {
        let container = PodContainer {
            env: map(env),
            gpus: *gpus,
            ..PodContainer::default()
        };
        let found = gang(
            &Marks {
                labels: &map(labels),
                annotations: &map(annotations),
                owner: None,
            },
            &BTreeMap::from([("main".to_string(), container)]),
        );
        assert_eq!(found, *want, "{labels:?} {annotations:?} {env:?} {gpus}");
    }
}
