# what: one `apply -k`; a gang waits for the verdict and is placed by it; then nothing more is written
# limit: 240
scenario() {
    local tree pod writes revision
    tree=$(simulate h100_ib)
    gang_pod worker >/dev/null
    deploy overlays/bare-metal-ib "$tree" SELVAGE_CLUSTER_HEARTBEAT=0 >/dev/null
    wait_for 60 "the agent runs" contains selvage_build_info agent_metrics
    # Before the first full window nothing is known, and nothing is said.
    [ "$(node_label fabric)" != "" ] || is Pending pod_phase worker || fail "a worker was placed without a verdict"
    wait_for 60 "the label" is ready node_label fabric
    wait_for 30 "the worker runs" gang_runs worker
    [ "$(node_label fabric-kind)/$(node_label rails)/$(node_label rail-gbps)" = infiniband/8/400 ] ||
        fail "labels: $(node_label fabric-kind)/$(node_label rails)/$(node_label rail-gbps)"
    case "$(node_label gpudirect)/$(node_label gds)" in dmabuf/* | peermem/*) ;; *) fail "gpudirect $(node_label gpudirect), gds $(node_label gds)" ;; esac
    wait_for 10 "the condition" is True node_condition FabricReady
    [ "$(node_condition_reason FabricReady)" = FabricReady ] || fail "reason $(node_condition_reason FabricReady)"
    [ "$(node_condition Ready)" = True ] || fail "kubelet's condition is gone"
    [ "$(node_taint fabric-unready)" = "" ] || fail "a taint on a ready node"
    wait_for 10 "the event" contains "FabricReady: every rail" node_events
    # `kubectl describe` finds it by the Node's UID.
    kube describe node "$NODE" | grep -q 'FabricReady.*every rail' || fail "describe node does not show the event"
    node_managers | grep -qx selvage || fail "managers: $(node_managers | tr '\n' ' ')"

    # The pod runs as the manifest says.
    wait_for 60 "the agent is ready" agent_ready
    pod=$(kube get pod -n selvage "$(agent_pod)" -o json)
    jq -e '.spec.containers[0].securityContext | .readOnlyRootFilesystem and (.allowPrivilegeEscalation | not) and .capabilities.drop == ["ALL"] and .capabilities.add == ["SYSLOG"]' \
        <<<"$pod" >/dev/null || fail "securityContext $(jq -c .spec.containers[0].securityContext <<<"$pod")"
    [ "$(jq -r .spec.priorityClassName <<<"$pod")" = system-node-critical ] || fail "priority"

    # Steady state: no write.
    writes=$(agent_metric selvage_node_writes_total)
    revision=$(node_json | jq -c '[.metadata.labels, .spec.taints]')
    holds_for 30 "no write in steady state" is "$writes" agent_metric selvage_node_writes_total
    [ "$(node_json | jq -c '[.metadata.labels, .spec.taints]')" = "$revision" ] || fail "something changed"
    echo "MEASURED $writes writes from join to steady state (labels, condition, event), then 0 in 30 s; agent memory $(($(agent_metric process_resident_memory_bytes | cut -d. -f1) / 1024)) KiB"
}
