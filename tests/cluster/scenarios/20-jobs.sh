# what: NCCL's TCP fallback out of a pod's log: metrics, report, event on the pod; the node is left alone
# limit: 300
scenario() {
    local tree n ms
    tree=$(simulate h100_ib)
    # There before the agent is: its env must count from the first judgement on.
    talker meant "$(pytorch meant | jq -c '.spec.containers = [{name: "worker", image: "pause:test", imagePullPolicy: "Never", args: ["say", "/said/lines"],
        env: [{name: "NCCL_NET", value: "Socket"}], volumeMounts: [{name: "said", mountPath: "/said"}]}]')"
    talks meant
    tell meant "$NCCL_SOCKET"
    tell meant "$NCCL_TWO_NODES"
    deploy overlays/bare-metal-ib "$tree" "$KEEPS" SELVAGE_CLUSTER_HOLD=1s >/dev/null
    wait_for 60 "the label" is ready node_label fabric
    wait_for 30 "it was meant" is configured nccl_report meant .tcp_fallback
    watch_node "$W/jobs"

    # One that was not.
    talker silent "$(pytorch llama)"
    talks silent
    tell silent "an epoch begins"
    tell silent "$NCCL_NO_IB"
    wait_for 10 "one node may be all: unknown" is unknown nccl_report silent .tcp_fallback
    [ "$(nccl_metric tcp_fallback silent)" != 1 ] || fail "a fallback without proof of a second node"
    tell silent "$NCCL_TWO_NODES"
    wait_for 5 "the fallback" is 1 nccl_metric tcp_fallback silent
    wait_for 5 "its network" is 1 nccl_metric network silent worker 'network="socket"'
    agent_metrics | grep -qF 'selvage_nccl_tcp_fallback{namespace="default",pod="silent",container="worker",job=""} 1' || fail "labels: $(agent_metrics | grep tcp_fallback)"
    [ "$(nccl_report silent '"\(.job.kind)/\(.job.name)/\(.via)/\(.causes[0])"')" = PyTorchJob/llama/log/no_device ] ||
        fail "report: $(nccl_report silent .)"
    wait_for 10 "the event" is 1 pod_events silent NcclTcpFallback
    kube describe pod silent | grep -q "Warning  *NcclTcpFallback .*Ask for the node's RDMA resource" || fail "describe pod: $(kube describe pod silent | tail -n 5)"
    [ "$(nccl_metric tcp_fallback meant)/$(pod_events meant NcclTcpFallback)" = 0/0 ] ||
        fail "one that was meant: $(nccl_metric tcp_fallback meant), $(pod_events meant NcclTcpFallback) events"

    # The agent ends at once, and by its own will; later it is killed. Nothing is told twice.
    kube delete pod -n selvage "$(agent_pod)" >/dev/null
    wait_for 60 "the next agent knows it" is 1 nccl_metric tcp_fallback silent
    case "$(nccl_report silent .via)" in remembered | log) ;; *) fail "via $(nccl_report silent .via)" ;; esac
    note "after a restart: via $(nccl_report silent .via)"
    wait_for 30 "the next agent is ready" agent_ready
    wait_for 30 "what was known is kept" kept silent
    agent_kill
    wait_for 60 "the one after a kill knows it" is 1 nccl_metric tcp_fallback silent
    wait_for 30 "its job is named again" is llama nccl_report silent .job.name
    wait_for 30 "it is ready" agent_ready

    # How long a line takes: decisive ones in pods of their own, and further ones.
    : >"$W/decisive"
    for n in 1 2 3 4 5; do
        talker "quick-$n" "$(pytorch quick)"
        talks "quick-$n"
        tell "quick-$n" "$NCCL_NO_IB"
        wait_for 10 "it is followed" is socket nccl_report "quick-$n" .network
        seen_after "quick-$n" "selvage_nccl_tcp_fallback{namespace=\"default\",pod=\"quick-$n\",container=\"worker\",job=\"\"}" "$NCCL_TWO_NODES" >>"$W/decisive"
    done
    ms=$(for n in $(seq 0 20); do printf '%s\0' "$(nccl_channel "$n" Socket)"; done |
        xargs -0 python3 "$CLUSTER_DIR/tools/visible.py" 127.0.0.1:9949 "$SAID/silent/lines" \
            'selvage_nccl_channels{namespace="default",pod="silent",container="worker",job="",transport="net_socket"}')
    echo "MEASURED line written to metric visible: fallback in 5 pods, median $(median <"$W/decisive") ms ($(tr '\n' ' ' <"$W/decisive")); 21 further lines, median $(median <<<"$ms") ms, most $(sort -n <<<"$ms" | tail -n 1) ms"
    [ "$(pod_events silent NcclTcpFallback)" = 1 ] || fail "$(pod_events silent NcclTcpFallback) events after restarts"

    kube delete pod silent --wait=false >/dev/null
    wait_for 60 "with the pod its series go" is "" nccl_metric tcp_fallback silent
    [ "$(nccl_metric tcp_fallback meant)" = 0 ] || fail "another pod's series went, too"
    node_stayed_ready "$W/jobs"
}
