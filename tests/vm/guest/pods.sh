# Pods as a kubelet and its runtime leave them for an agent to see: cgroups,
# network namespaces, the device plugins' checkpoint, log directories.

CGROUP=/sys/fs/cgroup
CHECKPOINT=/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint
CONTAINER_ID=4f5e6d7c4f5e6d7c4f5e6d7c4f5e6d7c4f5e6d7c4f5e6d7c4f5e6d7c4f5e6d7c

# pod_uid NAME: the same for the same name.
pod_uid() { printf '%s' "$1" | md5sum | sed 's/^\(.\{8\}\)\(.\{4\}\)\(.\{4\}\)\(.\{4\}\)\(.\{12\}\).*/\1-\2-\3-\4-\5/'; }

# pod NAME own|host [systemd|cgroupfs]: a pod of namespace ml with a first
# process, in a network namespace of its own or the node's.
pod() {
    local name=$1 net=$2 driver=${3:-systemd} uid dir
    uid=$(pod_uid "$name")
    grep -q " $CGROUP " /proc/mounts || must mount -t cgroup2 none $CGROUP
    case "$driver" in
    systemd) dir=kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod$(echo "$uid" | tr - _).slice/cri-containerd-$CONTAINER_ID.scope ;;
    cgroupfs) dir=kubepods/burstable/pod$uid/$CONTAINER_ID ;;
    esac
    must mkdir -p "$CGROUP/$dir" "/var/log/pods/ml_${name}_$uid" "/run/pod/$name"
    echo "$CGROUP/$dir/cgroup.procs" >"/run/pod/$name/procs"
    case "$net" in
    own) in_cgroup "$name" unshare -n sleep 100000 & ;;
    host) in_cgroup "$name" sleep 100000 & ;;
    esac
    echo $! >"/run/pod/$name/pid"
    wait_for 10 "the first process of $name" pod_settled "$name" "$net"
}

pod_pid() { cat "/run/pod/$1/pid"; }

# The link is root's to read here; the agent, with fewer rights, goes without.
pod_settled() {
    local own node
    grep -q pod "/proc/$(pod_pid "$1")/cgroup" || return 1
    own=$(readlink "/proc/$(pod_pid "$1")/ns/net")
    node=$(readlink /proc/1/ns/net)
    case "$2" in own) [ "$own" != "$node" ] ;; host) [ "$own" = "$node" ] ;; esac
}

# in_cgroup NAME COMMAND...: becomes that command, as a process of the pod.
in_cgroup() {
    local procs
    procs=$(cat "/run/pod/$1/procs")
    shift
    exec sh -c 'echo $$ >"$0" && exec "$@"' "$procs" "$@"
}

# pod_exec NAME COMMAND...: becomes that command, in the pod's network too.
pod_exec() {
    local name=$1
    shift
    in_cgroup "$name" nsenter -t "$(pod_pid "$name")" -n "$@"
}

# pod_link NAME ADDRESS NODE_ADDRESS: eth0 of a pod, and its other end here.
pod_link() {
    must ip link add "v-$1" type veth peer name eth0 netns "$(pod_pid "$1")"
    must ip addr add "$3/24" dev "v-$1"
    ip link set "v-$1" up
    (pod_exec "$1" sh -c "ip addr add $2/24 dev eth0; ip link set eth0 up; ip link set lo up")
}

# gpus_for NAME...: what the kubelet writes down of 8 GPUs for each.
gpus_for() {
    local name sep=
    mkdir -p "${CHECKPOINT%/*}"
    {
        printf '{"Data":{"PodDeviceEntries":['
        for name in "$@"; do
            printf '%s{"PodUID":"%s","ContainerName":"trainer","ResourceName":"nvidia.com/gpu","DeviceIDs":{"0":["GPU-0","GPU-1","GPU-2","GPU-3"],"1":["GPU-4","GPU-5","GPU-6","GPU-7"]},"AllocResp":""}' "$sep" "$(pod_uid "$name")"
            sep=,
        done
        printf '],"RegisteredDevices":{"nvidia.com/gpu":[]}},"Checksum":1}'
    } >$CHECKPOINT
}

# stream NAME NODE_ADDRESS PORT: some MB/s by TCP, both ways, between the pod
# and this node. Ends with the file /run/pod/NAME/stream.
stream() {
    local name=$1
    touch "/run/pod/$name/stream"
    cat >/run/pod/source.sh <<'SH'
while [ -e "$1" ]; do
    dd if=/dev/zero bs=65536 count=4 2>/dev/null
    sleep 0.1
done
SH
    sh /run/pod/source.sh "/run/pod/$name/stream" | nc -l -p "$3" >/dev/null 2>&1 &
    wait_for 5 "a listener on $3" listens "$3"
    (pod_exec "$name" sh -c "sh /run/pod/source.sh /run/pod/$name/stream | nc $2 $3 >/dev/null 2>&1") &
}

# rdma_stream NAME: a process group of a pod that moves bytes over RC queue
# pairs without end: rxeB serves, rxeA calls. It polls, so it gives way to whatever else runs.
rdma_stream() {
    local a b
    a=$(gid_index rxeA)
    b=$(gid_index rxeB)
    (pod_exec "$1" sh -c "renice -n 10 \$\$ >/dev/null; exec ibv_rc_pingpong -d rxeB -g $b -s 16384 -n 100000000 >/run/pod/$1/server 2>&1") &
    wait_for 20 "the server of $1" pod_listens "$1"
    (pod_exec "$1" sh -c "renice -n 10 \$\$ >/dev/null; exec ibv_rc_pingpong -d rxeA -g $a -s 16384 -n 100000000 127.0.0.1 >/run/pod/$1/client 2>&1") &
}

# listens PORT [NET]: a socket of the network namespace whose /proc/PID/net this is; without it, of ours.
listens() { grep -q "$(printf ' [0-9A-F]*:%04X .* 0A ' "$1")" "${2:-/proc/net}"/tcp* 2>/dev/null; }

# On ibv_rc_pingpong's own port.
pod_listens() { listens 18515 "/proc/$(pod_pid "$1")/net"; }
