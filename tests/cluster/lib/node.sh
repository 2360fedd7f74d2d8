# containerd and kubelet, in namespaces of their own (tests/cluster/enter), and
# what they leave behind. Uses $D, $BIN, $ADDRESS.

NODE=${CLUSTER_NODE:-gpu-node-1}
POD_NET=10.88.0

# The namespace has only lo: the node's own address sits on one end of a pair,
# 10.0.0.1 (the kubernetes service, which no kube-proxy routes here) on lo.
make_network() {
    ip link set lo up
    ip address replace "$SERVICE_IP/32" dev lo
    if ! ip link show node0 >/dev/null 2>&1; then
        ip link add node0 type veth peer name node0-peer
        ip address add "$ADDRESS/24" dev node0
        ip link set node0-peer up
        ip link set node0 up
        ip route add default via "${ADDRESS%.*}.254" dev node0
    fi
}

# kubelet sets these for the whole machine; here it finds copies.
hide_sysctls() {
    local file copy
    mkdir -p "$D/sysctl"
    for file in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
        kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
        [ -e "/proc/sys/$file" ] || continue
        copy="$D/sysctl/${file//\//.}"
        cat "/proc/sys/$file" >"$copy"
        mount --bind "$copy" "/proc/sys/$file" || die "cannot bind /proc/sys/$file"
    done
}

# Our own cgroup below the machine's, so that what is left can be found.
CGROUPS=/sys/fs/cgroup
cgroup_roots() {
    if [ "$(stat -fc %T $CGROUPS)" = cgroup2fs ]; then
        echo "$CGROUPS"
    else
        grep -v '^0::' /proc/self/cgroup | cut -d : -f 2 | sed "s/^name=//; s#^#$CGROUPS/#"
    fi
}
make_cgroup() {
    local root
    CGROUP="selvage-test-$(random)"
    echo "$CGROUP" >"$D/cgroup"
    for root in $(cgroup_roots); do
        mkdir -p "$root/$CGROUP" || die "cannot make a cgroup in $root"
        if [ -e "$root/cpuset.cpus" ] && [ -w "$root/$CGROUP/cpuset.cpus" ]; then
            cat "$root/cpuset.cpus" >"$root/$CGROUP/cpuset.cpus" 2>/dev/null
            cat "$root/cpuset.mems" >"$root/$CGROUP/cpuset.mems" 2>/dev/null
        fi
    done
}
remove_cgroup() {
    local name root
    name=$(cat "$D/cgroup" 2>/dev/null) || return 0
    # Also where runc makes one unasked: the unified hierarchy beside the old ones.
    for root in "$CGROUPS" "$CGROUPS"/*; do
        [ -d "$root/$name" ] && find "$root/$name" -depth -type d -exec rmdir {} + 2>/dev/null
    done
    return 0
}

start_containerd() {
    mkdir -p "$D/containerd" "$D/cni" "$D/run"
    cat >"$D/containerd/config.toml" <<TOML
version = 2
root = "$D/containerd/root"
state = "$D/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "$D/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:test"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$BIN/../cni"
    conf_dir = "$D/cni"
TOML
    cat >"$D/cni/10-test.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "test", "plugins": [{"type": "ptp", "mtu": 1500,
 "ipam": {"type": "host-local", "dataDir": "$D/cni/leases", "ranges": [[{"subnet": "$POD_NET.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
JSON
    define containerd env PATH="$BIN:$PATH" "$BIN/containerd" --config "$D/containerd/config.toml"
    start containerd
    ready containerd 30 node_ctr version
}
node_ctr() { "$BIN/ctr" --address "$D/run/containerd.sock" -n k8s.io "$@"; }

start_kubelet() {
    mkdir -p "$D/kubelet"
    cat >"$D/kubelet/config.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
enforceNodeAllocatable: []
failSwapOn: false
port: 10250
readOnlyPort: 0
healthzPort: 10248
clusterDNS: [10.0.0.10] # nobody answers there; without one, kubelet complains in events on the node
clusterDomain: cluster.local
resolvConf: $D/kubelet/resolv.conf
staticPodPath: ""
nodeStatusUpdateFrequency: 2s
syncFrequency: 5s
evictionHard: {memory.available: "10Mi"}
imageGCHighThresholdPercent: 100
runtimeRequestTimeout: 30s
containerLogMaxSize: 256Ki # looked at every 10 s
containerLogMaxFiles: 3
featureGates: {BoundServiceAccountTokenVolume: true}
YAML
    : >"$D/kubelet/resolv.conf"
    # What pods log lies where a node has it, and outlives the namespace in $D.
    mkdir -p "$D/pod-logs" /var/log/pods
    mount --bind "$D/pod-logs" /var/log/pods || die "cannot bind /var/log/pods"
    define kubelet env PATH="$BIN:$PATH" "$BIN/kubelet" --config "$D/kubelet/config.yaml" \
        --kubeconfig "$D/kubelet.kubeconfig" --root-dir "$D/kubelet/root" --cert-dir "$D/kubelet/pki" \
        --container-runtime remote --container-runtime-endpoint "unix://$D/run/containerd.sock" \
        --hostname-override "$NODE" --node-ip "$ADDRESS"
    start kubelet
    ready kubelet 60 node_ready
}

node_ready() {
    [ "$("$KUBECTL" --kubeconfig "$D/admin.kubeconfig" get node "$NODE" \
        -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]
}

# Pods' tasks, after kubelet is gone and while containerd still answers.
stop_tasks() {
    local id
    alive containerd || return 0
    for id in $(timeout 10 "$BIN/ctr" --address "$D/run/containerd.sock" -n k8s.io tasks ls -q 2>/dev/null); do
        timeout 10 "$BIN/ctr" --address "$D/run/containerd.sock" -n k8s.io tasks rm -f "$id" >/dev/null 2>&1
    done
    return 0
}

# Shims outlive containerd; they are ours when they serve our socket.
stop_shims() {
    local pid
    for pid in /proc/[0-9]*; do
        pid=${pid#/proc/}
        if tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "containerd-shim-runc-v2 -namespace k8s.io" &&
            tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -- "-address $D/run/containerd.sock"; then
            kill -KILL "$pid" 2>/dev/null
        fi
    done
    return 0
}

unmount_all() { # deepest first
    local mount
    for mount in $(cut -d ' ' -f 5 /proc/self/mountinfo | grep -F -e "$D/" -e /var/log/pods | sort -r); do
        umount "$mount" 2>/dev/null || umount -l "$mount" 2>/dev/null
    done
    return 0
}
