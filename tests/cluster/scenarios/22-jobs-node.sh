# what: three jobs in a row of two namespaces that fall back are the node's: degraded, no taint; one over InfiniBand ends that
# limit: 200
scenario() {
    local tree job namespace
    # Only pods that ask for GPUs count.
    local GPUS=1
    offer '"8"'
    kube create namespace other --dry-run=client -o yaml | kube apply -f - >/dev/null
    tree=$(simulate h100_ib)
    deploy overlays/bare-metal-ib "$tree" "$KEEPS" SELVAGE_CLUSTER_HOLD=1s SELVAGE_CLUSTER_CLEAR=1s >/dev/null
    wait_for 60 "the label" is ready node_label fabric
    for job in one two three; do
        [ "$(node_finding NcclFallbackRepeats)" = "" ] || fail "a finding about the node before $job"
        is ready node_label fabric || fail "the label before $job: $(node_label fabric)"
        namespace=default
        [ "$job" != two ] || namespace=other
        talker "$job" "$(pytorch "$job" | jq -c --arg namespace "$namespace" '.metadata.namespace = $namespace')"
        wait_for 30 "$job runs" is Running pod_phase "$job" "$namespace"
        tell "$job" "$NCCL_NO_IB"
        tell "$job" "$NCCL_TWO_NODES"
        wait_for 10 "$job fell back" is 1 nccl_metric tcp_fallback "$job"
        # It ends; what it came to is remembered.
        tell "$job" "exit 0"
        wait_for 30 "$job has ended" is Succeeded pod_phase "$job" "$namespace"
    done
    wait_for 10 "a finding about the node" is degraded node_finding NcclFallbackRepeats
    wait_for 20 "the label says so" is degraded node_label fabric
    holds_for 3 "no taint" is "" node_taint fabric-unready
    [ "$(agent_report | jq -r .nccl.fallbacks_in_a_row)" = 3 ] || fail "report: $(agent_report | jq -c .nccl)"

    # It outlives the agent.
    wait_for 30 "it is kept" kept three
    agent_kill
    wait_for 60 "known after a restart" is degraded node_finding NcclFallbackRepeats
    is degraded node_label fabric || fail "the label after a restart: $(node_label fabric)"

    talker good "$(pytorch good)"
    talks good
    tell good "$NCCL_IB"
    tell good "$NCCL_TWO_NODES"
    tell good "$(nccl_channel 0 IB)"
    wait_for 10 "it uses InfiniBand" is ib nccl_report good .network
    # A finding stands 15 s at least, from a restart on.
    wait_for 40 "the finding is gone" is "" node_finding NcclFallbackRepeats
    wait_for 60 "the label" is ready node_label fabric
    [ "$(nccl_metric tcp_fallback good)" = 0 ] || fail "its fallback: $(nccl_metric tcp_fallback good)"
    offer null
}

# GPUs that the node offers, without a device plugin.
offer() { # NUMBER as JSON
    kube patch node "$NODE" --subresource status --type merge -p "$(jq -nc --argjson n "$1" '{"nvidia.com/gpu": $n} as $all | {status: {capacity: $all, allocatable: $all}}')" >/dev/null
}

node_finding() { agent_report | jq -r --arg reason "$1" '[.findings[] | select(.reason == $reason) | .status] | .[0] // ""'; }
