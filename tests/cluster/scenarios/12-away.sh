# what: agent killed, API server killed, silent and back: the taint stays, writes catch up, once
# limit: 300
scenario() {
    local tree started events
    tree=$(simulate h100_ib)
    deploy overlays/bare-metal-ib "$tree" SELVAGE_CLUSTER_HOLD=1s SELVAGE_CLUSTER_CLEAR=20s >/dev/null
    wait_for 90 "the label" is ready node_label fabric
    rail_down "$tree" mlx5_4
    wait_for 20 "the taint" is LinkDown:NoSchedule node_taint fabric-unready

    # The agent is killed: until its first full window nothing changes, and then nothing has to.
    wait_for 10 "the event" contains FabricUnready node_events
    events=$(node_events | wc -l)
    watch_node "$W/history"
    started=$(pod_starts "$(agent_pod)" selvage)
    agent_kill
    wait_for 60 "another agent" not is "$started" pod_starts "$(agent_pod)" selvage
    wait_for 90 "it is ready" agent_ready
    watched "$W/history" | jq -e --slurp 'all(.[]; (.metadata.labels["selvage.dev/fabric"] == "unready") and any(.spec.taints[]?; .key == "selvage.dev/fabric-unready"))' >/dev/null ||
        fail "label or taint changed over a restart"
    [ "$(node_events | wc -l)" = "$events" ] || fail "the restart told the verdict again: $(node_events)"

    # The API server dies while the rail recovers.
    apiserver kill
    rail_up "$tree" mlx5_4
    wait_for 60 "the agent sees it" is 1 agent_metric selvage_fabric_ready
    wait_for 60 "the agent knows that nobody answers" is 0 agent_metric selvage_node_api_up
    holds_for 5 "sampling and scraping go on" is 1 agent_metric selvage_fabric_ready
    apiserver start
    wait_for 90 "the label catches up" is ready node_label fabric
    wait_for 60 "the taint goes" is "" node_taint fabric-unready
    wait_for 20 "the event is told" contains FabricReady node_events

    # Open and silent.
    apiserver pause
    rail_down "$tree" mlx5_3
    wait_for 20 "the agent sees it" is 0 agent_metric selvage_fabric_ready
    wait_for 40 "a request ran out of time" is 0 agent_metric selvage_node_api_up
    apiserver resume
    wait_for 90 "the label catches up" is unready node_label fabric
    wait_for 60 "the taint, too" is LinkDown:NoSchedule node_taint fabric-unready
}
