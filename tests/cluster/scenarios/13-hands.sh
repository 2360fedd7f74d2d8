# what: ours is repaired when others change it; theirs stays; an operator mutes
# limit: 240
scenario() {
    local tree until
    tree=$(simulate h100_ib)
    deploy overlays/bare-metal-ib "$tree" SELVAGE_CLUSTER_HOLD=1s SELVAGE_CLUSTER_CLEAR=3s >/dev/null
    wait_for 90 "the label" is ready node_label fabric
    kube label node "$NODE" ${PREFIX}fabric=unready ${PREFIX}rails- ${PREFIX}team=a --overwrite >/dev/null
    wait_for 10 "the label is repaired" is ready node_label fabric
    wait_for 10 "the removed one, too" is 8 node_label rails
    [ "$(node_label team)" = a ] || fail "somebody's label under our prefix is gone"
    kube patch node "$NODE" --subresource status --type strategic -p \
        '{"status":{"conditions":[{"type":"FabricReady","status":"False","reason":"Odd","message":"x"}]}}' >/dev/null
    wait_for 10 "the condition is repaired" is True node_condition FabricReady
    # A taint of ours on a ready node is an orphan.
    kube taint node "$NODE" ${PREFIX}fabric-unready=Odd:NoExecute >/dev/null
    wait_for 10 "the orphan goes" is "" node_taint fabric-unready

    rail_down "$tree" mlx5_4
    wait_for 20 "the taint" is LinkDown:NoSchedule node_taint fabric-unready
    kube cordon "$NODE" >/dev/null
    kube taint node "$NODE" ${PREFIX}fabric-unready- >/dev/null
    wait_for 10 "the taint is put again" is LinkDown:NoSchedule node_taint fabric-unready
    node_json | jq -e .spec.unschedulable >/dev/null || fail "the cordon is gone"

    # The operator knows better, for a time.
    until=$(date -u -d '+40 seconds' +%Y-%m-%dT%H:%M:%SZ)
    kube annotate node "$NODE" "${PREFIX}mute=taint=$until" >/dev/null
    wait_for 10 "a muted taint goes" is "" node_taint fabric-unready
    [ "$(node_label fabric)" = unready ] || fail "muting the taint moved the label"
    wait_for 5 "and is told as withheld" is 1 agent_metric selvage_node_taint_withheld muted
    wait_for 60 "it is back when the time is over" is LinkDown:NoSchedule node_taint fabric-unready
    kube annotate node "$NODE" "${PREFIX}mute=link_state=2999-01-01T00:00:00Z" --overwrite >/dev/null
    wait_for 60 "a muted check finds nothing" is ready node_label fabric
    wait_for 20 "and nothing is left of its taint" is "" node_taint fabric-unready
    kube annotate node "$NODE" "${PREFIX}mute-" >/dev/null
    wait_for 30 "until it is heard again" is unready node_label fabric
    node_json | jq -e .spec.unschedulable >/dev/null || fail "the cordon is gone"
}
