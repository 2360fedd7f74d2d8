# What scenarios use. Sourced by one.sh, which sets D (the cluster), W (this
# run's directory), BIN (its tools), SELVAGE (the binary), IMAGE (its image).
# Everything that waits has a deadline.

KUBE="$BIN/kubectl --kubeconfig $D/admin.kubeconfig --request-timeout=20s"
MANIFESTS=${SELVAGE_TEST_MANIFESTS:-$CLUSTER_DIR/../../manifests}
PREFIX=selvage.dev/
AGENT_URL=http://127.0.0.1:9949

fail() {
    printf '%s\n' "$*" >"$W/reason"
    echo "FAIL: $*"
    exit 1
}

note() { printf '%s %s\n' "$(date +%T.%3N)" "$*"; }

kube() { $KUBE "$@"; }

# wait_for SECONDS WHAT COMMAND...: until the command succeeds. SECONDS are what an idle machine
# surely needs; a loaded one is given PATIENCE times that, for a late answer is not a wrong one. A kubectl
# takes a tenth of a second of a processor, and the API server as much: looked at more often, the waits
# alone keep a core busy.
wait_for() {
    local limit=$(($1 * PATIENCE)) what=$2 end
    end=$((SECONDS + limit))
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "after $limit s still not: $what"
        sleep 0.4
    done
    note "$what"
}

# holds_for SECONDS WHAT COMMAND...: the command succeeds all the time.
holds_for() {
    local what=$2 end=$((SECONDS + $1))
    shift 2
    while [ $SECONDS -lt $end ]; do
        "$@" >/dev/null 2>&1 || fail "did not last: $what"
        sleep 0.2
    done
}

is() { # EXPECTED COMMAND...
    local expected=$1
    shift
    [ "$("$@" 2>/dev/null)" = "$expected" ]
}
not() { ! "$@"; }
contains() { # TEXT COMMAND...
    local text=$1
    shift
    case "$("$@" 2>/dev/null)" in *"$text"*) ;; *) return 1 ;; esac
}

now_ms() { date +%s%3N; }

# ---- simulated host ----

simulate() { # NODE: prints the directory, which hostPath volumes show as the host
    local dir="$W/trees/$SCENARIO-$1"
    mkdir -p "$W/trees"
    "$SELVAGE" simulate "$1" "$dir" >/dev/null || fail "selvage simulate $1"
    echo "$dir"
}

# A file changes as the kernel's would: at once, never half.
put() { # FILE TEXT
    [ -e "$1" ] || fail "no such file: $1"
    printf '%s\n' "$2" >"$1"
}

rail_down() { # TREE DEVICE
    local port="$1/sys/class/infiniband/$2/ports/1" net
    put "$port/phys_state" "2: Polling"
    put "$port/state" "1: DOWN"
    for net in "$1/sys/class/infiniband/$2/device/net/"*; do put "$net/carrier" 0; put "$net/operstate" down; done
}
rail_up() { # TREE DEVICE
    local port="$1/sys/class/infiniband/$2/ports/1" net
    put "$port/phys_state" "5: LinkUp"
    put "$port/state" "4: ACTIVE"
    for net in "$1/sys/class/infiniband/$2/device/net/"*; do put "$net/carrier" 1; put "$net/operstate" up; done
}

# ---- the node, as the API server has it ----

NODE=gpu-node-1
node_json() { kube get node "${1:-$NODE}" -o json; }
node_label() { node_json "${2:-$NODE}" | jq -r --arg key "$PREFIX$1" '.metadata.labels[$key] // ""'; }
node_taint() { # KEY: "value:effect", empty without it
    node_json "${2:-$NODE}" | jq -r --arg key "$PREFIX$1" '.spec.taints // [] | map(select(.key == $key)) | .[0] | if . then "\(.value // ""):\(.effect)" else "" end'
}
node_condition() { # TYPE: its status
    node_json "${2:-$NODE}" | jq -r --arg type "$1" '.status.conditions[] | select(.type == $type) | .status'
}
node_condition_reason() {
    node_json "${2:-$NODE}" | jq -r --arg type "$1" '.status.conditions[] | select(.type == $type) | .reason'
}
# Events on the node by us, one "reason: message" a line.
node_events() {
    kube get events -n default -o json | jq -r --arg node "${1:-$NODE}" \
        '.items[] | select(.involvedObject.kind == "Node" and .involvedObject.name == $node) | select((.reportingComponent // "") | contains("selvage")) | "\(.reason): \(.message)"'
}
node_revision() { node_json "$@" | jq -r .metadata.resourceVersion; }
# Who manages what: the agent's own writes are known by the field manager.
node_managers() { kube get node "${1:-$NODE}" -o json --show-managed-fields | jq -r '.metadata.managedFields[].manager' | sort -u; }

# Records every state the node goes through from now on, one JSON a line, in FILE.
watch_node() { # FILE
    kube get node "$NODE" -o json --watch --request-timeout=0 >"$1.raw" 2>/dev/null &
    echo $! >>"$W/background"
    wait_for 10 "the watch began" test -s "$1.raw"
}
watched() { jq -c . <"$1.raw"; } # FILE

# ---- pods ----

pod_phase() { kube get pod -n "${2:-default}" "$1" -o 'jsonpath={.status.phase}'; }
pod_node() { kube get pod -n "${2:-default}" "$1" -o 'jsonpath={.spec.nodeName}'; }
# The kubelet of a busy machine may answer with a sentence of its own instead of the log, and status 200.
pod_log() { # NAME [NAMESPACE] [OPTION...]
    local log try
    for try in 1 2 3 4 5 6 7 8 9 10; do
        log=$(kube logs -n "${2:-default}" "$1" "${@:3}") || return
        case "$log" in "unable to retrieve container logs"* | "failed to "*) sleep "0.$try" ;; *) break ;; esac
    done
    [ -z "$log" ] || printf '%s\n' "$log"
}
pod_starts() { kube get pod -n "${2:-default}" "$1" -o 'jsonpath={.status.containerStatuses[0].containerID}'; }
pod_ready() { is True kube get pod -n "${2:-default}" "$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'; }

# A worker of a gang: wants a ready fabric and tolerates nothing.
gang_pod() { # NAME
    kube apply -f - <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $1, namespace: default, labels: {app: gang}}
spec:
  nodeSelector: {${PREFIX}fabric: ready}
  terminationGracePeriodSeconds: 1
  containers:
  - {name: worker, image: "pause:test", imagePullPolicy: Never}
YAML
}

# Whether a pod runs. A kubelet whose view of its node's labels is older than the scheduler's rejects a pod
# (NodeAffinity) for good: whoever made the pod makes it again.
runs_or_again() { # NAME COMMAND...: which makes it
    local name=$1
    shift
    if [ "$(kube get pod "$name" -o json | jq -r .status.reason)" = NodeAffinity ]; then
        kube delete pod "$name" --force --grace-period=0 >/dev/null 2>&1
        "$@" >/dev/null
        return 1
    fi
    is Running pod_phase "$name"
}
gang_runs() { runs_or_again "$1" gang_pod "$1"; } # NAME

# probe_pod NAME TREE CAPABILITIES IMAGE ARGS: a pod as the DaemonSet's, once.
probe_pod() {
    kube apply -f - <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $1, namespace: default}
spec:
  restartPolicy: Never
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  securityContext: {seccompProfile: {type: RuntimeDefault}}
  tolerations: [{operator: Exists}]
  containers:
  - name: probe
    image: "$4"
    imagePullPolicy: Never
    args: $5
    securityContext:
      runAsUser: 0
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL], add: $3}
    volumeMounts: [{name: host, mountPath: /host, readOnly: true}]
  volumes: [{name: host, hostPath: {path: "$2", type: Directory}}]
YAML
}
ended() { case "$(pod_phase "$@")" in Succeeded | Failed) ;; *) return 1 ;; esac; }
exit_status() { kube get pod -n "${2:-default}" "$1" -o 'jsonpath={.status.containerStatuses[0].state.terminated.exitCode}'; }

# ---- the API server ----

apiserver() { "$CLUSTER_DIR/ctl" "$D" apiserver "$1"; }

# ---- the agent ----

agent_pod() { kube get pod -n selvage -l app.kubernetes.io/component=agent --field-selector "spec.nodeName=$NODE" -o 'jsonpath={.items[0].metadata.name}'; }
agent_ready() { is True kube get pod -n selvage "$(agent_pod)" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'; }
agent_metrics() { curl -sS -f -m 5 "$AGENT_URL/metrics"; }
agent_report() { curl -sS -f -m 5 "$AGENT_URL/report"; }
# The sum of a family's samples whose labels hold each text; nothing without one.
agent_metric() { # NAME [TEXT...]
    local text filter=()
    for text in "${@:2}"; do filter+=(-e "$text"); done
    agent_metrics | awk -v name="$1" '$0 !~ /^#/ { n = $1; sub(/\{.*/, "", n); if (n == name) print }' |
        { if [ ${#filter[@]} -gt 0 ]; then grep -F "${filter[@]}"; else cat; fi; } |
        awk '{ sum += $NF; n++ } END { if (n) print sum }'
}

# The process of a container, by the ID that Kubernetes has.
node_pid() { # ID
    "$BIN/ctr" --address "$D/run/containerd.sock" -n k8s.io tasks ls | awk -v id="${1##*/}" '$1 == id { print $2 }'
}

# A file of a process's control group, whichever version has the controller.
cgroup_file() { # PID CONTROLLER VERSION-1-NAME VERSION-2-NAME
    local path
    path=$(awk -F: -v name="$2" '$2 == name { print $3 }' "/proc/$1/cgroup")
    if [ -n "$path" ]; then
        echo "/sys/fs/cgroup/$2$path/$3"
    else
        echo "/sys/fs/cgroup$(awk -F: '$1 == 0 { print $3 }' "/proc/$1/cgroup")/$4"
    fi
}
agent_pid() { node_pid "$(pod_starts "$(agent_pod)" selvage)"; }
agent_restarts() { kube get pod -n selvage "$(agent_pod)" -o 'jsonpath={.status.containerStatuses[0].restartCount}'; }

# Ends the agent's process as the kernel would for want of memory; kubelet starts it again.
agent_kill() {
    local pid
    pid=$(agent_pid)
    [ -n "$pid" ] || fail "the agent has no process"
    kill -KILL "$pid"
}
agent_log() { pod_log "$(agent_pod)" selvage "$@"; }
# May the agent's service account do this?  agent_may VERB RESOURCE [-n NAMESPACE …]
agent_may() { is yes kube auth can-i --as system:serviceaccount:selvage:selvage "$@"; }
# A kubeconfig with the service account's own token.
agent_kubeconfig() { "$CLUSTER_DIR/ctl" "$D" kubeconfig selvage "${2:-selvage}" "$1"; } # FILE [ACCOUNT]

# The same binary under another tag: what a rolling update goes to. Prints the image's name.
second_image() { # TAG
    "$CLUSTER_DIR/../../manifests/image/build" "$SELVAGE" "$W/second.tar" "selvage:$1" >/dev/null
    "$BIN/ctr" --address "$D/run/containerd.sock" -n k8s.io images import "$W/second.tar" >/dev/null || fail "import of selvage:$1"
    echo "selvage:$1"
}

# A node without a kubelet, which only counts (for a budget); `clean` removes it. Without a Ready condition the
# node controller of 1.20 panics after a minute (node_lifecycle_controller.go, doNoExecuteTaintingPass).
extra_node() { # NAME [LABEL=VALUE...]
    local name=$1
    shift
    jq -n --arg name "$name" '{apiVersion: "v1", kind: "Node", metadata: {name: $name,
        labels: ([$ARGS.positional[] | capture("^(?<key>[^=]+)=(?<value>.*)$")] | from_entries)},
        status: {conditions: [{type: "Ready", status: "True"}]}}' --args "$@" | kube apply -f -
}

# deploy OVERLAY TREE [NAME=VALUE...]: the shipped manifests, `kubectl apply -k`.
# Changed for the test: the hostPaths are a simulated node's, the API is that of
# this server (1.20 has no admission policies), settings by environment. With
# SETTINGS=FILE another settings file, with IMAGE the image, with COMPONENT one of
# manifests/components, with COMMAND, a JSON list, what runs in place of the entrypoint.
deploy() {
    local overlay=$1 tree=$2 dir="$W/deploy-$SCENARIO" pair
    shift 2
    rm -rf "$dir" && mkdir -p "$dir" "$W/state-$SCENARIO"
    # Where volumes are mounted below a read-only one; the logs are this node's own.
    mkdir -p "$tree/var/log/pods" "$tree/var/lib/kubelet/device-plugins"
    {
        echo "apiVersion: kustomize.config.k8s.io/v1beta1"
        echo "kind: Kustomization"
        # kustomize knows relative paths only.
        echo "resources: [$(realpath --relative-to "$(realpath "$dir")" "$(realpath "$MANIFESTS")/$overlay")]"
        echo "images: [{name: selvage, newTag: \"${IMAGE##*:}\"}]"
        if [ -n "${COMPONENT:-}" ]; then
            echo "components: [$(realpath --relative-to "$(realpath "$dir")" "$(realpath "$MANIFESTS")/components/$COMPONENT")]"
        fi
        if [ -n "${SETTINGS:-}" ]; then
            cp "$SETTINGS" "$dir/selvage.toml"
            echo "configMapGenerator: [{name: selvage-settings, namespace: selvage, behavior: merge, files: [selvage.toml]}]"
        fi
        echo "patches:"
        for pair in ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding; do
            echo "- target: {kind: $pair}"
            echo "  patch: '{\"\$patch\": \"delete\", \"apiVersion\": \"admissionregistration.k8s.io/v1\", \"kind\": \"$pair\", \"metadata\": {\"name\": \"any\"}}'"
        done
        echo "- target: {kind: DaemonSet, name: selvage}"
        echo "  path: daemonset.json"
    } >"$dir/kustomization.yaml"
    # Strategic merge: entries are found by their names.
    jq -n --arg tree "$tree" --arg state "$W/state-$SCENARIO" --argjson command "${COMMAND:-null}" '{apiVersion: "apps/v1", kind: "DaemonSet",
        metadata: {name: "selvage", namespace: "selvage"},
        spec: {template: {spec: {
            volumes: [(("sys", "proc", "dev") | {name: ., hostPath: {path: "\($tree)/\(.)", type: "Directory"}}),
                {name: "state", hostPath: {path: $state, type: "Directory"}},
                {name: "tree", hostPath: {path: $tree, type: "Directory"}}],
            containers: [{name: "agent"} + (if $command then {$command} else {} end) + {
                env: [$ARGS.positional[] | capture("^(?<name>[^=]+)=(?<value>.*)$")],
                volumeMounts: [{name: "tree", mountPath: "/host", readOnly: true}]}]}}}}' \
        --args "$@" >"$dir/daemonset.json" || fail "the patch for $overlay"
    kube label node "$NODE" nvidia.com/gpu.present=true --overwrite >/dev/null
    kube apply -k "$dir" || fail "kubectl apply -k $overlay"
}

# What a scenario left goes before the next: pods, our objects, our marks on the node.
clean() {
    local pid
    if [ -s "$W/background" ]; then
        while read -r pid; do kill "$pid" 2>/dev/null || true; done <"$W/background"
        rm -f "$W/background"
    fi
    # One that failed may have left it silent.
    apiserver resume 2>/dev/null || true
    kube delete daemonset,job,lease,networkpolicy --all -n selvage --ignore-not-found --wait=false
    kube delete pod --all -A --force --grace-period=0 --ignore-not-found
    kube delete events --all -n default
    # Extra nodes that a scenario made have no kubelet.
    kube get nodes -o name | grep -v "/$NODE$" | xargs -r $KUBE delete --wait=false
    kube uncordon "$NODE"
    node_json | jq --arg p "$PREFIX" '{metadata: {
            labels: ((.metadata.labels // {}) | with_entries(select(.key | startswith($p)) | .value = null)),
            annotations: ((.metadata.annotations // {}) | with_entries(select(.key | startswith($p)) | .value = null))},
        spec: {taints: [.spec.taints // [] | .[] | select(.key | startswith("node.kubernetes.io/"))]}}' >"$W/clean.json"
    kube patch node "$NODE" --type merge --patch-file "$W/clean.json"
    printf '{"status":{"conditions":[{"$patch":"delete","type":"FabricReady"}]}}' >"$W/clean.json"
    kube patch node "$NODE" --subresource status --type strategic --patch-file "$W/clean.json"
    wait_for 30 "no pod of an earlier scenario" is "" kube get pods -A -o name
}

# What a person needs to see why.
show_state() {
    echo "--- nodes"
    node_json | jq -c '{labels: .metadata.labels, annotations: .metadata.annotations, taints: .spec.taints, conditions: [.status.conditions[] | {type, status, reason, message}]}'
    echo "--- pods and events"
    kube get pods -A -o wide
    kube get events -A --sort-by .lastTimestamp | tail -n 15
    echo "--- what the kubelet complains of"
    grep '^E' "$D/logs/kubelet.log" | tail -n 15
    local pod
    for pod in $(kube get pods -A -o 'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}'); do
        echo "--- log of $pod"
        kube logs -n "${pod%/*}" "${pod#*/}" --tail=20 || true
        kube logs -n "${pod%/*}" "${pod#*/}" --tail=10 --previous 2>/dev/null | sed 's/^/before: /' || true
    done
}
