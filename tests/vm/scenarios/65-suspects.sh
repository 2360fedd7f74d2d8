# what: pods with GPUs: bytes over real queue pairs are cleared, over TCP suspected, idle neither
# group: a-suspects
# limit: 1200

# Seconds instead of minutes, and far less than an emulated machine moves, even a busy one (0.3 MB/s).
WATCH="--set nccl.suspects_every=3s --set policy.nccl.suspect_bytes_per_second=50000 --set policy.nccl.suspect_after=6s"

thought() { printf '.nccl.suspects | any(.pod == "%s" and .state == "%s" and .reason == "%s")' "$@"; }

tell() {
    vmtool get /report | jq -cM '.nccl.suspects[] | [.pod, .state, .reason, .message]'
    vmtool get /report | jq -cM ".nccl.suspects[] | select(.pod == \"$1\") | .evidence"
}

scenario() {
    rxe_pair
    pod rdma-0 own systemd
    pod tcp-0 own cgroupfs
    pod idle-0 own systemd
    pod hostnet-0 host cgroupfs
    gpus_for rdma-0 tcp-0 idle-0 hostnet-0
    pod_link rdma-0 10.8.1.2 10.8.1.1
    pod_link tcp-0 10.8.2.2 10.8.2.1
    pod_link idle-0 10.8.3.2 10.8.3.1

    # Real queue pairs, in the pod's own network namespace.
    rdma_stream rdma-0
    wait_for 30 "packets of rxeA" moving
    say "queue pairs: $(rdma resource show qp | grep -c 'type RC state RTS')"
    agent_start $WATCH
    until_report 60 "$(thought rdma-0 cleared RdmaMoves)"
    until_metric 30 'selvage_nccl_suspect{namespace="ml",pod="rdma-0"}' == 0
    until_metric 30 'selvage_nccl_suspect{namespace="ml",pod="tcp-0"}' == 0
    tell rdma-0

    # About the same by TCP.
    stream tcp-0 10.8.2.1 5001
    until_metric 60 'selvage_nccl_suspect{namespace="ml",pod="tcp-0"}' == 1
    tell tcp-0
    expect 'selvage_nccl_suspect{pod="rdma-0"}' == 0
    expect 'selvage_nccl_suspect{pod="idle-0"}' == 0
    expect_report "$(thought idle-0 idle LittleTraffic)"
    expect_report "$(thought rdma-0 cleared RdmaMoves)"
    # Only a warning.
    expect_report '.state != "unready"'
    # The node's own namespace moves as much, and whose that is nobody knows.
    expect_report "$(thought hostnet-0 unknown HostNetwork)"
    expect 'selvage_nccl_suspect{pod="hostnet-0"}' absent

    # The same without the node's PID namespace: owners cannot be told, nobody
    # is suspected.
    agent_stop
    rm -rf $STATE_DIR
    AGENT_WRAP="unshare -p -f"
    agent_start $WATCH
    until_report 60 "$(thought tcp-0 unknown QueuePairsUnknown)"
    # On a busy machine the stream falters, and for a while there is too little traffic.
    local i=0
    while [ $i -lt 8 ]; do
        sleep 1
        [ "$(now_value 'selvage_nccl_suspect{pod="tcp-0"}')" = 0 ] || fail "suspected without an owner"
        i=$((i + 1))
    done
    until_report 60 "$(thought tcp-0 unknown QueuePairsUnknown)"
    agent_end_wrapped
    AGENT_WRAP=

    # A suspect that stops moving is none.
    agent_start $WATCH
    until_metric 60 'selvage_nccl_suspect{namespace="ml",pod="tcp-0"}' == 1
    rm /run/pod/tcp-0/stream
    until_report 60 "$(thought tcp-0 idle LittleTraffic)"
    until_metric 10 'selvage_nccl_suspect{namespace="ml",pod="tcp-0"}' == 0
}

moving() {
    local before
    before=$(cat /sys/class/infiniband/rxeA/ports/1/hw_counters/sent_pkts)
    sleep 1
    [ "$(cat /sys/class/infiniband/rxeA/ports/1/hw_counters/sent_pkts)" -gt $((before + 20)) ]
}

# The wrapper's child is the agent; the first in its PID namespace, it ends by
# the signals that it handles.
agent_end_wrapped() {
    local child
    child=$(cat "/proc/$AGENT_PID/task/$AGENT_PID/children")
    must kill -TERM $child
    wait_for 15 "the wrapped agent to end" agent_gone
}
