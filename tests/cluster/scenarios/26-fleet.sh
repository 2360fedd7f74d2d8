# what: kubectl selvage shows the faulty node, its report, mutes and accepts, with no more rights than docs/fleet.md names
# limit: 240

# As kubectl runs a plug-in, with the rights of somebody on call.
selvage_as() { # ACCOUNT ARGUMENT...
    local config="$W/$1.kubeconfig"
    shift
    KUBECONFIG="$config" PATH="$W/plugin:$PATH" "$BIN/kubectl" selvage "$@"
}
fleet() { selvage_as oncall "$@"; }
fleet_status() { # ARGUMENT...: prints the exit status
    local status=0
    fleet "$@" >/dev/null 2>&1 || status=$?
    echo "$status"
}
node_annotation() { node_json | jq -r --arg key "$PREFIX$1" '.metadata.annotations[$key] // ""'; }

scenario() {
    local tree name before
    tree=$(simulate h100_ib)
    deploy overlays/bare-metal-ib "$tree" SELVAGE_CLUSTER_HOLD=1s SELVAGE_CLUSTER_CLEAR=2s >/dev/null
    mkdir -p "$W/plugin"
    ln -sf "$SELVAGE" "$W/plugin/kubectl-selvage"
    kube delete clusterrole,clusterrolebinding -l test=fleet >/dev/null
    kube delete serviceaccount,role,rolebinding -n selvage -l test=fleet >/dev/null
    for name in oncall viewer; do kube create serviceaccount "$name" -n selvage >/dev/null; done
    kube create clusterrole selvage-oncall --verb=get,list,watch,patch --resource=nodes >/dev/null
    kube create clusterrolebinding selvage-oncall --clusterrole=selvage-oncall --serviceaccount=selvage:oncall >/dev/null
    kube create clusterrole selvage-viewer --verb=list,watch --resource=nodes >/dev/null
    kube create clusterrolebinding selvage-viewer --clusterrole=selvage-viewer --serviceaccount=selvage:viewer >/dev/null
    kube create role selvage-oncall -n selvage --verb=list --resource=pods >/dev/null
    kube create role selvage-report -n selvage --verb=get --resource=pods/proxy >/dev/null
    for name in selvage-oncall selvage-report; do
        kube create rolebinding "$name" -n selvage --role="$name" --serviceaccount=selvage:oncall >/dev/null
    done
    kube label clusterrole,clusterrolebinding selvage-oncall selvage-viewer test=fleet >/dev/null
    kube label serviceaccount oncall viewer -n selvage test=fleet >/dev/null
    kube label role,rolebinding selvage-oncall selvage-report -n selvage test=fleet >/dev/null
    for name in oncall viewer; do agent_kubeconfig "$W/$name.kubeconfig" "$name"; done
    extra_node cpu-1 example.com/pool=cpu >/dev/null

    wait_for 90 "the label" is ready node_label fabric
    wait_for 20 "the table" contains "2 nodes: 1 ready, 1 without an agent; taints: 0 of 1 allowed" fleet
    is 0 fleet_status || fail "all is well, and the status is $(fleet_status)"

    rail_down "$tree" mlx5_4
    wait_for 20 "the taint" is LinkDown:NoSchedule node_taint fabric-unready
    fleet | tee "$W/fleet.txt" || true
    grep -qE "^$NODE +unready +LinkDown +[0-9]+s +8x400G +yes *$" "$W/fleet.txt" || fail "no row: $(cat "$W/fleet.txt")"
    grep -q "taints: 1 of 1 allowed" "$W/fleet.txt" || fail "no budget: $(cat "$W/fleet.txt")"
    is 1 fleet_status || fail "a node is unready, and the status is $(fleet_status)"
    fleet -o json >"$W/fleet.json" || true
    jq -e '.nodes[0] | .taint == "applied" and (.message | contains("mlx5_4/1"))' "$W/fleet.json" >/dev/null || fail "$(cat "$W/fleet.json")"

    # Its report, by the API server's proxy to the pod's port.
    fleet node "$NODE" | tee "$W/node.txt"
    grep -q "^UNREADY  $NODE: LinkDown" "$W/node.txt" || fail "no verdict: $(cat "$W/node.txt")"
    grep -q "fix:  " "$W/node.txt" || fail "no remedy: $(cat "$W/node.txt")"
    fleet node "$NODE" -o json | jq -e '.schema == "selvage.dev/report/v1"' >/dev/null || fail "no report as JSON"
    is 70 fleet_status node cpu-1 || fail "cpu-1 has no agent"

    # What it writes, and nothing else.
    before=$(node_json | jq -S 'del(.metadata.annotations, .metadata.resourceVersion, .metadata.managedFields, .status, .spec.taints)')
    fleet mute "$NODE" 1h
    wait_for 10 "the muted taint goes" is "" node_taint fabric-unready
    contains " muted" fleet || fail "the table does not say that it is muted: $(fleet)"
    fleet mute "$NODE" 30m LinkDown
    wait_for 60 "a muted check finds nothing" is ready node_label fabric
    fleet unmute "$NODE" LinkDown
    wait_for 30 "it is heard again" is unready node_label fabric
    contains "taint=" node_annotation mute || fail "the other mute is gone: $(node_annotation mute)"
    fleet unmute "$NODE"
    is "" node_annotation mute || fail "left: $(node_annotation mute)"
    wait_for 20 "the taint is back" is LinkDown:NoSchedule node_taint fabric-unready
    fleet accept "$NODE"
    not is "" node_annotation accept || fail "no annotation"
    wait_for 30 "the agent accepts" contains "accepted as it is now" agent_log
    [ "$before" = "$(node_json | jq -S 'del(.metadata.annotations, .metadata.resourceVersion, .metadata.managedFields, .status, .spec.taints)')" ] ||
        fail "something else was written: $before"
    contains selvage-fleet node_managers || fail "no field manager of its own: $(node_managers)"

    # Rights to look do not write or reach the agent.
    contains "$NODE" selvage_as viewer || fail "a viewer sees nothing"
    not selvage_as viewer mute "$NODE" 1h >/dev/null 2>&1 || fail "a viewer muted a node"
    not selvage_as viewer node "$NODE" >/dev/null 2>&1 || fail "a viewer read a report"

    # A watch shows the change.
    fleet --watch >"$W/watch.txt" 2>&1 &
    echo $! >>"$W/background"
    wait_for 10 "a screen" contains "1 unready" cat "$W/watch.txt"
    rail_up "$tree" mlx5_4
    wait_for 90 "the next" contains "1 ready" cat "$W/watch.txt"
}
