# what: what later scenarios rely on, without the agent: scheduler, taint, API server away, cleaning
scenario() {
    local before

    # The scheduler obeys label and taint; kubelet leaves running pods alone.
    gang_pod early >/dev/null
    holds_for 2 "without the label no worker is placed" is "" pod_node early
    [ "$(pod_phase early)" = Pending ] || fail "a worker ran without the label"
    kube label node "$NODE" ${PREFIX}fabric=ready >/dev/null
    wait_for 20 "with the label the worker runs" gang_runs early
    [ "$(node_label fabric)" = ready ] || fail "node_label: $(node_label fabric)"
    kube taint node "$NODE" ${PREFIX}fabric-unready=LinkDown:NoSchedule >/dev/null
    [ "$(node_taint fabric-unready)" = LinkDown:NoSchedule ] || fail "node_taint: $(node_taint fabric-unready)"
    gang_pod late >/dev/null
    holds_for 2 "a tainted node takes no worker" is "" pod_node late
    [ "$(pod_phase early)" = Running ] || fail "a taint NoSchedule ended a running worker"
    kube taint node "$NODE" ${PREFIX}fabric-unready- >/dev/null
    wait_for 20 "without the taint the worker runs" gang_runs late

    # The condition is its own entry in a keyed list.
    kube patch node "$NODE" --subresource status --type strategic -p \
        '{"status":{"conditions":[{"type":"FabricReady","status":"False","reason":"LinkDown","message":"x"}]}}' >/dev/null
    [ "$(node_condition FabricReady)/$(node_condition_reason FabricReady)" = False/LinkDown ] || fail "the condition"
    [ "$(node_condition Ready)" = True ] || fail "the patch took kubelet's condition along"

    # Data outlive the API server, and its silence is no answer.
    before=$(node_json | jq -r .metadata.uid)
    apiserver kill
    if kube get node "$NODE" >/dev/null 2>&1; then fail "a killed API server answers"; fi
    [ "$(pod_phase early)" = "" ] || fail "the API answers without a server"
    apiserver start
    wait_for 20 "the same node after a restart" is "$before" kube get node "$NODE" -o 'jsonpath={.metadata.uid}'
    apiserver pause
    if timeout 2 $KUBE get node "$NODE" >/dev/null 2>&1; then fail "a paused API server answers"; fi
    apiserver resume
    wait_for 10 "it answers after a pause" kube get node "$NODE"

    # In the cluster the API is found as everywhere: service address, CA, a token bound to the pod.
    kube get endpoints kubernetes -n default -o json | jq -e '.subsets[0].ports[0].port == 443' >/dev/null || fail "no endpoint of the API"
    curl -sS -m 5 --cacert "$D/pki/ca.crt" https://10.0.0.1/healthz >/dev/null || fail "10.0.0.1 does not answer"
    kube get pod early -o json | jq -e '[.spec.volumes[].projected.sources[]?.serviceAccountToken.expirationSeconds] | length > 0' >/dev/null ||
        fail "the pod's token is not bound to it"

    # Nothing of one scenario reaches the next.
    clean >/dev/null
    [ "$(node_label fabric)$(node_taint fabric-unready)$(node_condition FabricReady)" = "" ] || fail "clean left marks on the node"
}
