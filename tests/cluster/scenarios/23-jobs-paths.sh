# what: without the right to list pods, and unasked, jobs are known by the paths of their logs alone
# limit: 300
scenario() {
    local tree
    tree=$(simulate h100_ib)
    # Earlier scenarios applied them.
    kube delete clusterrole,clusterrolebinding selvage-pods --ignore-not-found >/dev/null
    COMPONENT=no-pod-watch deploy overlays/bare-metal-ib "$tree" "$KEEPS" SELVAGE_CLUSTER_HOLD=1s >/dev/null
    if agent_may list pods || agent_may watch pods; then fail "may list pods"; fi
    talker nobody "$(pytorch nobody)"
    talks nobody
    tell nobody "$NCCL_NO_IB"
    tell nobody "$NCCL_TWO_NODES"
    wait_for 60 "the fallback" is 1 nccl_metric tcp_fallback nobody
    [ "$(nccl_report nobody '"\(.namespace)/\(.pod)/\(.container)/\(.job)/\(.via)"')" = default/nobody/worker/null/log ] ||
        fail "report: $(nccl_report nobody .)"
    wait_for 20 "the event, by the UID in the path" is 1 pod_events nobody NcclTcpFallback
    kube describe pod nobody | grep -q 'Warning  *NcclTcpFallback' || fail "describe pod does not show it"
    kube delete pod nobody --wait=false >/dev/null
    wait_for 90 "with its log, which kubelet collects once a minute, its series go" is "" nccl_metric tcp_fallback nobody

    # Asked for, and refused: the same, and it is told.
    deploy overlays/bare-metal-ib "$tree" "$KEEPS" SELVAGE_CLUSTER_HOLD=1s SELVAGE_NCCL_PODS=auto >/dev/null
    kube delete clusterrolebinding selvage-pods >/dev/null
    kube rollout status -n selvage daemonset/selvage --timeout=240s >/dev/null || fail "the agent does not start"
    talker refused "$(pytorch refused)"
    talks refused
    tell refused "$NCCL_NO_IB"
    tell refused "$NCCL_TWO_NODES"
    wait_for 60 "the fallback, unasked" is 1 nccl_metric tcp_fallback refused
    wait_for 20 "the event" is 1 pod_events refused NcclTcpFallback

    # The right comes: the job's name with it, and nothing is told twice.
    deploy overlays/bare-metal-ib "$tree" "$KEEPS" SELVAGE_CLUSTER_HOLD=1s SELVAGE_NCCL_PODS=auto >/dev/null
    wait_for 120 "the job's name" is refused nccl_report refused .job.name
    [ "$(pod_events refused NcclTcpFallback)" = 1 ] || fail "told $(pod_events refused NcclTcpFallback) times"
}
