# what: the pods of examples/ are admitted, wait for a ready fabric with rails enough, run with what they ask for, and shun a broken one
# limit: 300
EXAMPLES=${SELVAGE_TEST_EXAMPLES:-"$CLUSTER_DIR/../../examples"}
EXAMPLE_NAMES="jobset leaderworkerset leaderworkerset-nim mpijob pytorchjob volcano"

scenario() {
    local tree name pod pid workers launchers
    tree=$(simulate h100_ib)
    # GPUs and NICs that no device plugin has: scheduler and kubelet count them all the same. Just enough
    # for ten workers and ten more: what the preflight asks for must not be counted twice.
    with_devices "$NODE" 160
    # Nodes without a kubelet, which have room for all: one broken, one with too few rails.
    room_elsewhere broken unready 8
    room_elsewhere few ready 4

    for name in $EXAMPLE_NAMES; do
        pods_of "$name" "$W/$name.pods" || fail "no pods in examples/$name"
        jq -c '.[]' "$W/$name.pods" | kube apply -f - >/dev/null || fail "the pods of examples/$name are not admitted"
    done
    workers=$(cat "$W"/*.pods | jq -rs 'add | .[] | select(.metadata.labels.role == "worker") | .metadata.name')
    launchers=$(cat "$W"/*.pods | jq -rs 'add | .[] | select(.metadata.labels.role == "launcher") | .metadata.name')
    [ "$(wc -w <<<"$workers")/$(wc -w <<<"$launchers")" = 10/1 ] || fail "workers: $workers; launchers: $launchers"

    # Nothing is proven yet. A launcher needs no fabric; a pod that asks for none takes the other nodes.
    wait_for 20 "the launcher is placed" not is "" pod_node "$launchers"
    for name in broken few; do
        kube run "any-$name" --image=pause:test --image-pull-policy=Never --overrides="{\"spec\": {\"nodeSelector\": {\"kubernetes.io/hostname\": \"$name\"}}}" >/dev/null
        wait_for 20 "the node $name has room" is "$name" pod_node "any-$name"
    done
    holds_for 3 "no worker is placed on a node that is not proven" is - nodes_of "$workers"

    deploy overlays/bare-metal-ib "$tree" SELVAGE_CLUSTER_HOLD=1s SELVAGE_CLUSTER_CLEAR=1s >/dev/null
    wait_for 60 "the label" is ready node_label fabric
    wait_for 30 "every worker is placed, on the ready node" is "$NODE" nodes_of "$workers"
    for pod in $workers; do wait_for 60 "$pod runs" runs_or_again "$pod" example_pod "$pod"; done

    # Each has what its manifest says: locked memory, shared memory, where NCCL is to log.
    for pod in $workers; do
        pid=$(node_pid "$(main_of "$pod" .containerID)")
        [ -n "$pid" ] || fail "$pod has no process"
        # CAP_IPC_LOCK is bit 14.
        [ $((0x$(awk '$1 == "CapBnd:" { print $2 }' "/proc/$pid/status") >> 14 & 1)) = 1 ] || fail "$pod may not lock memory"
        grep -q ' /dev/shm rw.* - tmpfs ' "/proc/$pid/mountinfo" || fail "$pod: /dev/shm is no tmpfs"
        grep -q ' /var/log/nccl rw' "/proc/$pid/mountinfo" || fail "$pod: no place for NCCL's log"
        tr '\0' '\n' <"/proc/$pid/environ" | grep -qx 'NCCL_DEBUG_FILE=/var/log/nccl/%h.%p.log' || fail "$pod: NCCL_DEBUG_FILE"
        [ "$(kube get pod "$pod" -o json | jq -r '.status.initContainerStatuses[] | "\(.name) \(.state.terminated.exitCode)"')" = "selvage-preflight 0" ] ||
            fail "$pod: $(kube get pod "$pod" -o json | jq -c .status.initContainerStatuses)"
        kube get pod "$pod" -o json | jq -e '.status.containerStatuses[] | select(.name == "selvage-sidecar") | .ready' >/dev/null || fail "$pod: no sidecar"
        [ "$(preflight_args)" != null ] || sees_the_pod "$pod"
    done

    # A rail falls: who comes now waits, who is there goes on.
    rail_down "$tree" mlx5_4
    wait_for 20 "the taint" is LinkDown:NoSchedule node_taint fabric-unready
    is unready node_label fabric || fail "the label is $(node_label fabric)"
    jq -c '.[] | select(.metadata.labels.role == "worker") | .metadata.name = "late-" + .metadata.name' "$W"/*.pods | kube apply -f - >/dev/null
    # shellcheck disable=SC2086
    holds_for 5 "on a broken node none of them is placed" is - nodes_of "$(printf 'late-%s ' $workers)"
    for pod in $workers; do [ "$(pod_phase "$pod")" = Running ] || fail "$pod: $(pod_phase "$pod")"; done
    rail_up "$tree" mlx5_4
    wait_for 60 "the label, mended" is ready node_label fabric
    # shellcheck disable=SC2086
    wait_for 60 "now they are placed" is "$NODE" nodes_of "$(printf 'late-%s ' $workers)"
    leave
}

example_pod() { # NAME
    jq -c --arg name "$1" '.[] | select(.metadata.name == $name)' "$W"/*.pods | kube apply -f -
}

leave() {
    cat "$W"/*.more | kube delete -f - --ignore-not-found --wait=false >/dev/null
    kube patch node "$NODE" --subresource status --type merge -p '{"status":{"capacity":{"nvidia.com/gpu":null,"rdma/ib":null},"allocatable":{"nvidia.com/gpu":null,"rdma/ib":null}}}' >/dev/null
}

with_devices() { # NODE NUMBER
    kube patch node "$1" --subresource status --type merge -p "$(jq -nc --arg n "$2" '{"nvidia.com/gpu": $n, "rdma/ib": $n} as $all | {status: {capacity: $all, allocatable: $all}}')" >/dev/null
}
room_elsewhere() { # NAME VERDICT RAILS
    extra_node "$1" "kubernetes.io/hostname=$1" "${PREFIX}fabric=$2" "${PREFIX}rails=$3" "${PREFIX}rail-gbps=400" >/dev/null
    kube patch node "$1" --subresource status --type merge -p \
        '{"status":{"capacity":{"cpu":"99","memory":"999Gi","pods":"99"},"allocatable":{"cpu":"99","memory":"999Gi","pods":"99"},"conditions":[{"type":"Ready","status":"True","reason":"x","message":"x"}]}}' >/dev/null
    with_devices "$1" 999
    kube patch node "$1" --type merge -p '{"spec":{"taints":null}}' >/dev/null
}

# pods_of EXAMPLE FILE: its pods as its operator would make them, one of each template; what else it holds
# is applied as it is. Changed for this machine: images and commands, CPU and memory, storage and
# secrets that are not here. Kubernetes 1.20 knows no native sidecar: it is an ordinary container. The
# custom resources themselves stay outside: 1.20 built with Go 1.19 crashes on any.
pods_of() {
    $BIN/kubectl annotate --local -f "$EXAMPLES/$1" rig=1 -o json | jq -s . >"$W/$1.objects" || fail "examples/$1 is not read"
    jq -c '.[] | select(.apiVersion == "v1")' "$W/$1.objects" >"$W/$1.more"
    [ ! -s "$W/$1.more" ] || kube apply -f "$W/$1.more" >/dev/null || fail "what examples/$1 holds beside its job"
    jq --arg example "$1" --arg image "$IMAGE" --argjson preflight "$(preflight_args)" '
        def templates:
            if .kind == "PyTorchJob" then .spec.pytorchReplicaSpecs | to_entries[] | {role: .key, template: .value.template}
            elif .kind == "MPIJob" then .spec.mpiReplicaSpecs | to_entries[] | {role: .key, template: .value.template}
            elif .kind == "LeaderWorkerSet" then .spec.leaderWorkerTemplate | {role: "leader", template: .leaderTemplate}, {role: "worker", template: .workerTemplate}
            elif .kind == "JobSet" then .spec.replicatedJobs[] | {role: .name, template: .template.spec.template}
            else .spec.tasks[] | {role: .name, template} end;
        def small: .resources.requests = {cpu: "10m", memory: "16Mi"} | .resources.limits = ((.resources.limits // {} | with_entries(select(.key | contains("/")))) + {memory: "64Mi"});
        def ours: .image = $image | .imagePullPolicy = "Never";
        [.[] | select(.apiVersion != "v1") | templates |
        .role as $role | .template | (.spec.initContainers // []) as $init |
        {apiVersion: "v1", kind: "Pod", metadata: {name: ("\($example)-\($role)" | ascii_downcase), namespace: "default", annotations: (.metadata.annotations // {}),
            labels: ((.metadata.labels // {}) + {example: $example, role: (if $role == "Launcher" then "launcher" else "worker" end)})},
        spec: (.spec | del(.imagePullSecrets, .schedulerName) | .restartPolicy = "Never" | .terminationGracePeriodSeconds = 1 | .automountServiceAccountToken = false |
            .initContainers = [$init[] | select(.restartPolicy != "Always") | ours | small | if $preflight then .args = $preflight else . end] |
            .containers = [.containers[] | .image = "pause:test" | .imagePullPolicy = "Never" | del(.command, .args, .startupProbe, .readinessProbe) | small |
                .env = [(.env // [])[] | select(.valueFrom.secretKeyRef | not)]] + [$init[] | select(.restartPolicy == "Always") | ours | del(.restartPolicy)] |
            .volumes = [(.volumes // [])[] | if .persistentVolumeClaim then {name, emptyDir: {}} else . end])}]' "$W/$1.objects" >"$2"
    jq -e 'length > 0' "$2" >/dev/null
}
# A binary that has no preflight yet runs something else that ends.
preflight_args() {
    if "$SELVAGE" preflight --help >/dev/null 2>&1; then echo null; else echo '["config"]'; fi
}

# The preflight looks at the pod that it is in: its interface, its shared memory, for its GPUs.
sees_the_pod() { # POD
    local said
    said=$(pod_log "$1" default -c selvage-preflight)
    case "$said" in *"NCCL_SOCKET_IFNAME=eth0: eth0 ("*"for 8 GPUs"*) ;; *) fail "$1: its preflight says $said" ;; esac
}

# The nodes of these pods, each once; "-" for those that are not placed.
nodes_of() { # "POD POD…"
    local pod node
    for pod in $1; do
        node=$(pod_node "$pod") || return 1
        echo "${node:--}"
    done | sort -u | tr '\n' ' ' | sed 's/ $//'
}
main_of() { # POD FILTER: of the status of the job's own container
    kube get pod "$1" -o json | jq -r ".status.containerStatuses[] | select(.name != \"selvage-sidecar\") | $2"
}
