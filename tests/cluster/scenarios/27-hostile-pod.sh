# what: pods whose logs are an attack, for a minute: the agent stays within 64 MiB, answers, and sees another tenant's fallback
# limit: 240
scenario() {
    local tree attacked prober pid peak count failed p99 most told seen bytes
    tree=$(simulate h100_ib)
    deploy overlays/bare-metal-ib "$tree" "$KEEPS" SELVAGE_CLUSTER_HOLD=1s >/dev/null
    wait_for 60 "the label" is ready node_label fabric
    wait_for 60 "the agent is ready" agent_ready
    [ "$(kube get daemonset selvage -n selvage -o 'jsonpath={.spec.template.spec.containers[0].resources.limits.memory}')" = 64Mi ] ||
        fail "the manifest grants something else than 64 MiB"
    watch_node "$W/attacked"
    python3 "$CLUSTER_DIR/tools/healthz.py" "${AGENT_URL#http://}" >"$W/probes" &
    prober=$!
    echo "$prober" >>"$W/background"

    kube create namespace attacker --dry-run=client -o yaml | kube apply -f - >/dev/null
    wait_for 20 "its account" kube get serviceaccount default -n attacker
    attackers | kube apply -f - >/dev/null
    wait_for 60 "the attack" attackers_run
    attacked=$SECONDS
    talker honest "$(pytorch llama)"
    talks honest
    tell honest "$NCCL_NO_IB"
    wait_for 10 "the honest pod is followed" is socket nccl_report honest .network
    told=$(now_ms)
    tell honest "$NCCL_TWO_NODES"
    wait_for 10 "its fallback is seen" is 1 nccl_metric tcp_fallback honest
    seen=$(($(now_ms) - told))
    wait_for 10 "its event" is 1 pod_events honest NcclTcpFallback
    while [ $((SECONDS - attacked)) -lt 60 ]; do sleep 0.5; done
    [ "$(agent_restarts)" = 0 ] || fail "$(agent_restarts) restarts of the agent"
    # Told once a minute at most.
    wait_for 60 "what they make the agent hold is given up" some_given_up

    is 1 nccl_metric tcp_fallback honest || fail "the fallback is forgotten"
    pid=$(agent_pid)
    kill -TERM "$prober"
    wait "$prober" || true
    read -r count failed p99 most <"$W/probes"
    [ "$failed" = 0 ] || fail "$failed of $count probes of /healthz failed; the longest took $most ms"
    # The group's own peak counts the logs that the kernel cached for it, and so reaches the limit at times.
    peak=$(sed -n 's/^VmHWM:\s*\([0-9]*\) kB/\1/p' "/proc/$pid/status")
    [ "$(agent_restarts)" = 0 ] || fail "$(agent_restarts) restarts of the agent"
    [ "$peak" -lt 65536 ] || fail "it had $peak KiB"
    attackers_run || fail "the attack ended: $(kube get pods -n attacker)"
    node_stayed_ready "$W/attacked"
    bytes=$(agent_metric selvage_nccl_log_bytes_total)
    echo "MEASURED a minute of attack, $((bytes >> 20)) MiB of logs read: memory at most $peak KiB of 65536, /healthz $count times, p99 $p99 ms, most $most ms; fallback of another tenant seen after $seen ms"
}

some_given_up() { [ "$(agent_metric selvage_pod_limits_total 'what="logs"')" -gt 0 ]; }

# Two pods of twelve logs that harm in ways of their own, most of them by all that one container may have: what
# a pod prints is all that reaches the agent. Their share of the processor keeps the disk from filling up
# before the kubelet rotates.
attackers() {
    jq -n '("attacker-0", "attacker-1") | {apiVersion: "v1", kind: "Pod", metadata: {name: ., namespace: "attacker"}, spec: {
        restartPolicy: "Never", terminationGracePeriodSeconds: 1, automountServiceAccountToken: false,
        securityContext: {runAsUser: 65532, runAsNonRoot: true},
        containers: [range(12) | {name: "c\(.)", image: "pause:test", imagePullPolicy: "Never",
            args: ["attack", (["new", "verdicts", "endless"][.] // "fill")],
            resources: {requests: {cpu: "1m", memory: "1Mi"}, limits: {cpu: "10m", memory: "16Mi"}},
            securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: ["ALL"]}}}]}}'
}
attackers_run() { is "Running Running" kube get pods -n attacker -o 'jsonpath={.items[*].status.phase}'; }
