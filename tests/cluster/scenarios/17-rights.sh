# what: the account can do what the agent does, and what RBAC can keep it from
scenario() {
    local tree mine
    tree=$(simulate h100_ib)
    deploy overlays/bare-metal-ib "$tree" >/dev/null
    for verb in get list watch patch; do agent_may "$verb" nodes || fail "may not $verb nodes"; done
    agent_may patch nodes/status || fail "may not patch nodes/status"
    for verb in get create update; do agent_may "$verb" leases.coordination.k8s.io -n selvage || fail "may not $verb leases"; done
    for verb in create patch; do agent_may "$verb" events -n default || fail "may not $verb events"; done
    # A pod's event is in its namespace; RBAC cannot say which pods.
    for verb in create patch; do agent_may "$verb" events -n kube-system || fail "may not $verb events"; done
    for verb in list watch; do agent_may "$verb" pods || fail "may not $verb pods"; done
    while read -r what; do
        # shellcheck disable=SC2086
        agent_may $what && fail "may $what"
    done <<'REFUSED'
delete nodes
create nodes
update nodes
get secrets
get configmaps -n selvage
get pods
create pods
patch pods
get pods/log
create pods/exec
create pods/eviction
delete leases.coordination.k8s.io -n selvage
update leases.coordination.k8s.io -n kube-node-lease
get leases.coordination.k8s.io -n kube-system
update events -n kube-system
delete events -n default
list events
REFUSED
    # With its own token, over the wire.
    mine="$W/agent.kubeconfig"
    agent_kubeconfig "$mine"
    "$BIN/kubectl" --kubeconfig "$mine" label node "$NODE" example.com/x=1 >/dev/null 2>&1 ||
        fail "RBAC alone refused a label: the admission policy of 1.30 is what would"
    kube label node "$NODE" example.com/x- >/dev/null
    if "$BIN/kubectl" --kubeconfig "$mine" get secrets -A >/dev/null 2>&1; then fail "the token reads secrets"; fi
    note "RBAC cannot say 'own node only'; the policy that does needs 1.30 (tests/manifests evaluates it)"
}
