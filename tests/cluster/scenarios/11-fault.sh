# what: a rail falls: taint within hold + 2 s, new pods repelled, running ones untouched; it clears
# limit: 240
scenario() {
    local tree fell unready without tainted started
    tree=$(simulate h100_ib)
    deploy overlays/bare-metal-ib "$tree" SELVAGE_CLUSTER_HOLD=3s SELVAGE_CLUSTER_CLEAR=5s >/dev/null
    wait_for 90 "the label" is ready node_label fabric
    gang_pod early >/dev/null
    wait_for 30 "a worker runs" gang_runs early
    started=$(pod_starts early)
    # Others' hands.
    kube taint node "$NODE" example.com/theirs=1:PreferNoSchedule >/dev/null
    kube cordon "$NODE" >/dev/null
    kube uncordon "$NODE" >/dev/null

    fell=$(now_ms)
    rail_down "$tree" mlx5_4
    wait_for 15 "the label says so" is unready node_label fabric
    unready=$(now_ms)
    without=$unready
    wait_for 15 "the taint" has_the_taint
    tainted=$(now_ms)
    # hold + 2 s from the verdict. A busy machine reads the node late: what counts is when it was still without.
    [ $((without - unready)) -le 5000 ] || fail "no taint $((without - unready)) ms after the verdict, with a hold of 3 s"
    wait_for 10 "the condition" is False node_condition FabricReady
    [ "$(node_condition_reason FabricReady)" = LinkDown ] || fail "reason $(node_condition_reason FabricReady)"
    node_json | jq -e '.status.conditions[] | select(.type == "FabricReady") | .message | contains("mlx5_4/1") and contains("Remedy")' >/dev/null ||
        fail "the condition names no subject or remedy"
    node_json | jq -e '.spec.taints[] | select(.key == "example.com/theirs" and .value == "1")' >/dev/null || fail "somebody else's taint was changed"
    contains FabricUnready node_events || fail "no event"

    # The label repels, and so does the taint alone.
    kube run late --image=pause:test --image-pull-policy=Never --restart=Never >/dev/null
    gang_pod late-gang >/dev/null
    holds_for 3 "new pods stay away" is "" pod_node late
    [ "$(pod_node late-gang)" = "" ] || fail "a gang's worker was placed"
    [ "$(pod_phase early)/$(pod_starts early)" = "Running/$started" ] || fail "a running worker was touched"

    rail_up "$tree" mlx5_4
    wait_for 90 "the label is ready again" is ready node_label fabric
    wait_for 30 "the taint goes" is "" node_taint fabric-unready
    wait_for 20 "the waiting worker runs" gang_runs late-gang
    wait_for 10 "the condition" is True node_condition FabricReady
    node_json | jq -e '.spec.taints | length == 1' >/dev/null || fail "taints: $(node_json | jq -c .spec.taints)"
    kube taint node "$NODE" example.com/theirs- >/dev/null
    is '{}' jq -c .claims <(kube get lease -n selvage selvage-budget -o json | jq -r '.metadata.annotations["selvage.dev/ledger"]') ||
        fail "the ledger still has a claim"
    echo "MEASURED rail down -> label unready $((unready - fell)) ms (raise_after 3 s), verdict -> taint $((tainted - unready)) ms (hold 3 s)"
}

# Notes when the last look that found the node without the taint began.
has_the_taint() {
    local began taint
    began=$(now_ms)
    taint=$(set -o pipefail; node_taint fabric-unready) || return 1
    [ "$taint" != LinkDown:NoSchedule ] || return 0
    without=$began
    return 1
}
