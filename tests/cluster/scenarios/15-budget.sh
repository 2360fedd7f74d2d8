# what: no taint beyond the budget; that is told, and taken up when there is room; recovery asks nobody
# limit: 240
scenario() {
    local tree
    tree=$(simulate h100_ib)
    # One of three may; another node has it already, without an entry in any ledger.
    extra_node other-1 ${PREFIX}fabric=unready ${PREFIX}fabric-kind=infiniband >/dev/null
    extra_node other-2 ${PREFIX}fabric=ready ${PREFIX}fabric-kind=infiniband >/dev/null
    kube taint node other-1 ${PREFIX}fabric-unready=LinkDown:NoSchedule >/dev/null
    deploy overlays/bare-metal-ib "$tree" SELVAGE_CLUSTER_HOLD=1s SELVAGE_CLUSTER_CLEAR=3s >/dev/null
    wait_for 90 "the label" is ready node_label fabric
    rail_down "$tree" mlx5_4
    wait_for 20 "the label says so" is unready node_label fabric
    wait_for 20 "it is told as withheld" is 1 agent_metric selvage_node_taint_withheld budget
    [ "$(agent_metric selvage_node_taint_budget limit)/$(agent_metric selvage_node_taint_budget nodes)" = 1/3 ] || fail "the budget: $(agent_metrics | grep budget)"
    wait_for 10 "the condition tells" contains "withheld" node_json
    wait_for 10 "the event tells" contains FabricTaintWithheld node_events
    holds_for 5 "no second taint" is "" node_taint fabric-unready
    kube taint node other-1 ${PREFIX}fabric-unready- >/dev/null
    wait_for 150 "there is room, and it is taken" is LinkDown:NoSchedule node_taint fabric-unready
    wait_for 10 "it is no longer told as withheld" none_withheld

    # The ledger is away: recovery does not ask it.
    kube delete rolebinding -n selvage selvage-budget >/dev/null
    rail_up "$tree" mlx5_4
    wait_for 60 "the taint goes without the ledger" is "" node_taint fabric-unready
}

# An agent that does not answer says nothing of it either.
none_withheld() {
    local all
    all=$(agent_metrics) && ! grep -q '^selvage_node_taint_withheld' <<<"$all"
}
