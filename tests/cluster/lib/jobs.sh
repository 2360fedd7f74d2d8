# Pods whose containers print what NCCL would: the scenarios about jobs. Sourced by one.sh.

SAID="$W/said"

# What NCCL 2.21 prints, up to the line that tells how many nodes take part.
NCCL_START="train-0:7:7 [0] NCCL INFO cudaDriverVersion 12040
train-0:7:7 [0] NCCL INFO NCCL version 2.21.5+cuda12.4"
NCCL_NO_IB="$NCCL_START
train-0:7:71 [0] NCCL INFO NET/IB : No device found.
train-0:7:71 [0] NCCL INFO NET/Socket : Using [0]eth0:10.88.0.9<0>
train-0:7:71 [0] NCCL INFO Using network Socket"
NCCL_SOCKET="$NCCL_START
train-0:7:71 [0] NCCL INFO NET/Socket : Using [0]eth0:10.88.0.9<0>
train-0:7:71 [0] NCCL INFO Using network Socket"
NCCL_IB="$NCCL_START
train-0:7:71 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.88.0.9<0>
train-0:7:71 [0] NCCL INFO Using network IB"
NCCL_TWO_NODES="train-0:7:71 [0] NCCL INFO comm 0x55d0a1b2c3d0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0"
nccl_channel() { # NUMBER NET
    printf 'train-0:7:71 [0] NCCL INFO Channel %02d/0 : 0[0] -> 8[0] [send] via NET/%s/0\n' "$1" "$2"
}

# talker NAME [PATCH]: a pod whose container `worker` prints what it is told; PATCH, JSON, over it.
talker() {
    local patch=${2:-}
    mkdir -p "$SAID/$1"
    rm -f "$SAID/$1/lines"
    mkfifo -m 666 "$SAID/$1/lines" && chmod 755 "$SAID/$1"
    jq -n --arg name "$1" --arg said "$SAID/$1" --argjson patch "${patch:-{\}}" --argjson gpus "${GPUS:-0}" '{apiVersion: "v1", kind: "Pod",
        metadata: {name: $name, namespace: "default"},
        spec: {restartPolicy: "Never", terminationGracePeriodSeconds: 1,
            containers: [{name: "worker", image: "pause:test", imagePullPolicy: "Never", args: ["say", "/said/lines"],
                volumeMounts: [{name: "said", mountPath: "/said"}]}],
            volumes: [{name: "said", hostPath: {path: $said, type: "Directory"}}]}} * $patch
        | if $gpus > 0 then .spec.containers[0].resources.limits = {"nvidia.com/gpu": $gpus} else . end' | kube apply -f - >/dev/null ||
        fail "the pod $1"
}
# The labels that Kubeflow's operator puts on a PyTorchJob's worker.
pytorch() { # JOB
    jq -nc --arg job "$1" '{metadata: {labels: {"training.kubeflow.org/job-name": $job, "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}}}'
}
talks() { wait_for 30 "$1 runs" is Running pod_phase "$1"; }
tell() { # NAME TEXT
    printf '%s\n' "$2" | timeout 10 tee "$SAID/$1/lines" >/dev/null || fail "$1 does not listen"
}

# nccl_metric FAMILY POD [CONTAINER [MORE]]: nothing without the series.
nccl_metric() { agent_metric "selvage_nccl_$1" "pod=\"$2\",container=\"${3:-worker}\",job=\"\"${4:+,$4}"; }
# What the report has of a pod's container.
nccl_report() { # POD FILTER
    agent_report | jq -r --arg pod "$1" ".nccl.containers[] | select(.pod == \$pod) | $2"
}
# How many events of a reason a pod has, repetitions counted.
pod_events() { # POD REASON
    kube get events -n default -o json | jq --arg pod "$1" --arg reason "$2" \
        '[.items[] | select(.involvedObject.kind == "Pod" and .involvedObject.name == $pod and .reason == $reason) | (.series.count // .count // 1)] | add // 0'
}
# Milliseconds from a line's writing until its series changes, one a line: seen_after POD SERIES LINE...
seen_after() {
    python3 "$CLUSTER_DIR/tools/visible.py" 127.0.0.1:9949 "$SAID/$1/lines" "$2" "${@:3}" || fail "$1: $2 does not change"
}
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# The node has been ready and free of taints of ours in all that was recorded.
node_stayed_ready() { # FILE
    watched "$1" | jq -e --slurp 'all(.[]; .metadata.labels["selvage.dev/fabric"] == "ready" and all(.spec.taints[]?; .key | startswith("selvage.dev/") | not))' >/dev/null ||
        fail "a job's fault reached the node: $(watched "$1" | jq -c '[.metadata.labels["selvage.dev/fabric"], .spec.taints]' | sort -u | tr '\n' ' ')"
}

# The default directory is not used beside a simulated host.
KEEPS=SELVAGE_STATE_DIR=/var/lib/selvage/kept
kept() { grep -q "$1" "$W/state-$SCENARIO/kept/jobs.json"; } # TEXT
