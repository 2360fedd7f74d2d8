# what: selvage preflight with real uverbs: ready, and one thing wrong at a time
# group: c-preflight

# look STATUS "jq filter" [VARIABLE=VALUE...]: a worker of a job of two nodes.
look() {
    local want=$1 filter=$2 rc=0
    shift 2
    env RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 "$@" \
        ${AS:-} selvage preflight -o json --timeout 30s ${ARGS:-} >/run/pf.json 2>/run/pf.err || rc=$?
    [ $rc = "$want" ] || fail "preflight $* ended with $rc, not $want: $(wrong) $(tail -n 1 /run/pf.err)"
    jq -e "$filter" /run/pf.json >/dev/null || fail "preflight $* does not say $filter: $(wrong)"
}

wrong() { jq -c '[.state, (.items[] | select(.status != "ok" and .status != "skipped") | [.item, .status, .reason, .message])]' /run/pf.json 2>/dev/null | cut -c1-400; }

# only ITEM REASON: that is wrong and nothing else.
only() { echo "[.items[] | select(.status != \"ok\" and .status != \"skipped\") | [.item, .reason]] == [[\"$1\", \"$2\"]]"; }

scenario() {
    local pid rc ready='.state == "ready" and (.items | map(select(.status == "ok") | .item) | index("uverbs") and index("rdma_ports") and index("gid_index") and index("libibverbs") and index("memlock"))'
    rxe_pair
    mount -t tmpfs -o size=128m none /dev/shm
    wait_for 10 "nodes of the devices" [ -c /dev/infiniband/uverbs1 ]
    look 0 "$ready"
    look 0 '.items[] | select(.item == "gid_index") | .evidence.index["rxeA:1"] == '"$(gid_index rxeA)"
    selvage preflight --timeout 30s >/run/pf.txt || fail "preflight by hand ended with $?"
    grep -q '^READY' /run/pf.txt || fail "no screen: $(head -n 2 /run/pf.txt)"

    # NCCL_IB_HCA, with every mark that NCCL knows.
    look 0 '.items[] | select(.item == "ib_hca") | .evidence.selected == ["rxeA:1"]' NCCL_IB_HCA==rxeA:1
    look 0 '.items[] | select(.item == "ib_hca") | .evidence.selected == ["rxeB:1"]' NCCL_IB_HCA=^rxeA
    look 2 "$(only ib_hca HcaMatchesNothing)" NCCL_IB_HCA=mlx5
    look 2 "$(only ib_hca HcaMatchesNothing)" NCCL_IB_HCA==rxe
    look 1 "$(only ib_hca HcaPartly)" NCCL_IB_HCA=rxeA,mlx5_0

    # The GID table of soft-RoCE: fe80, then the address; the rest is empty.
    look 0 "$ready" NCCL_IB_GID_INDEX="$(gid_index rxeA)"
    look 1 "$(only gid_index GidLinkLocal)" NCCL_IB_GID_INDEX=0
    look 2 "$(only gid_index GidEmpty)" NCCL_IB_GID_INDEX=9

    # Settings, sockets, room.
    look 1 "$(only nccl_network TcpConfigured)" NCCL_IB_DISABLE=1
    look 2 "$(only socket_ifname NoInterface)" NCCL_SOCKET_IFNAME=eth0
    look 0 '.items[] | select(.item == "socket_ifname") | .evidence.selected == ["vb"]' NCCL_SOCKET_IFNAME==vb
    look 2 "$(only gloo_ifname NoInterface)" GLOO_SOCKET_IFNAME=v
    look 0 "$ready" UCX_NET_DEVICES=rxeA:1,va
    look 2 "$(only ucx_devices NoUcxDevice)" UCX_NET_DEVICES=rxeZ:1
    mount -o remount,size=64m /dev/shm
    ARGS="--gpus 4"
    look 2 '.items[] | select(.item == "shm") | .reason == "ShmTooSmall"'
    ARGS=
    mount -o remount,size=128m /dev/shm

    # No capability; then another user, whom the nodes are closed to.
    ulimit -l 64
    AS="/usr/bin/setpriv --no-new-privs --inh-caps=-all --bounding-set=-all"
    look 2 "$(only memlock MemlockTooLow)"
    AS="/usr/bin/setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+ipc_lock"
    look 0 "$ready"
    # The guest's own root is closed to others.
    chmod 755 /
    chmod 600 /dev/infiniband/uverbs*
    AS="/usr/bin/setpriv --reuid 65534 --clear-groups --no-new-privs"
    look 2 '.items[] | select(.item == "uverbs") | .reason == "UverbsDenied"' NCCL_IB_HCA=rxe
    AS=

    # The link down, and no nodes at all.
    must ip link set va down
    wait_for 10 "rxeA DOWN" sys_state rxeA 1
    wait_for 10 "rxeB DOWN" sys_state rxeB 1
    look 2 '.items[] | select(.item == "rdma_ports") | .reason == "NoActivePort"'
    ip link set va up
    wait_for 10 "rxeA ACTIVE again" sys_state rxeA 4
    wait_for 10 "rxeB ACTIVE again" sys_state rxeB 4
    mount -t tmpfs none /dev/infiniband
    look 2 "$(only uverbs NoUverbs)" NCCL_NET_PLUGIN=none NCCL_IB_GID_INDEX=1
    umount /dev/infiniband
    rdma link delete rxeA
    rdma link delete rxeB
    look 3 "$(only uverbs NoRdmaDevice)"
    look 2 '.items[] | select(.item == "uverbs") | .status == "failing"' NCCL_IB_HCA=mlx5

    # A device that hangs in the kernel: the answer comes all the same.
    must insmod $OWN/testib.ko count=1
    wait_for 10 "testib0 ACTIVE" sys_state testib0 4
    mount -t tmpfs none /dev/infiniband
    look 3 "$(only uverbs NoUverbs)"
    ib 0 hold 1
    rm -f /run/pf.json
    selvage preflight -o json --timeout 20s >/run/pf.json &
    pid=$!
    wait_for 40 "an answer beside the device that hangs" answered
    ib 0 hold 0
    rc=0
    wait $pid || rc=$?
    [ $rc = 3 ] || fail "preflight beside the device that hangs ended with $rc"
    umount /dev/infiniband
    umount /dev/shm
}

answered() { jq -e '.items[] | select(.item == "uverbs") | .reason == "NoUverbs"' /run/pf.json >/dev/null 2>&1; }
