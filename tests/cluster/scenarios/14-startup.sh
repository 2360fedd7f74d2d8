# what: a node that joins tainted is let in by proof, or has its taint replaced in one patch
# limit: 240
scenario() {
    local tree
    tree=$(simulate h100_ib)
    kube taint node "$NODE" ${PREFIX}agent-not-ready:NoSchedule >/dev/null
    gang_pod worker >/dev/null
    watch_node "$W/joins"
    deploy overlays/bare-metal-ib "$tree" SELVAGE_CLUSTER_HOLD=2s SELVAGE_CLUSTER_CLEAR=3s >/dev/null
    wait_for 90 "the label" is ready node_label fabric
    wait_for 10 "the startup taint goes" is "" node_taint agent-not-ready
    wait_for 20 "the worker runs" gang_runs worker
    # It went with the verdict, not before.
    watched "$W/joins" | jq -e --slurp 'all(.[]; (.metadata.labels["selvage.dev/fabric"] == "ready") or any(.spec.taints[]?; .key == "selvage.dev/agent-not-ready"))' >/dev/null ||
        fail "the startup taint went before the verdict"
    clean >/dev/null

    rm -rf "$tree"
    tree=$(simulate h100_ib)
    rail_down "$tree" mlx5_4
    kube taint node "$NODE" ${PREFIX}agent-not-ready:NoSchedule >/dev/null
    watch_node "$W/broken"
    deploy overlays/bare-metal-ib "$tree" SELVAGE_CLUSTER_HOLD=2s >/dev/null
    wait_for 90 "the taint" is LinkDown:NoSchedule node_taint fabric-unready
    [ "$(node_taint agent-not-ready)" = "" ] || fail "the startup taint stayed"
    # At every version of the object one of the two was there.
    watched "$W/broken" | jq -e --slurp 'all(.[]; any(.spec.taints[]?; .key | IN("selvage.dev/agent-not-ready", "selvage.dev/fabric-unready")))' >/dev/null ||
        fail "for a moment the node had neither taint"
}
