# what: kubelet rotates and compresses a job's log under the agent: no line is lost, none counted twice
# limit: 200
scenario() {
    local tree logs sent=0 rounds n
    tree=$(simulate h100_ib)
    deploy overlays/bare-metal-ib "$tree" "$KEEPS" SELVAGE_CLUSTER_HOLD=1s >/dev/null
    wait_for 60 "the label" is ready node_label fabric
    talker long "$(pytorch long)"
    talks long
    tell long "$NCCL_NO_IB"
    tell long "$NCCL_TWO_NODES"
    wait_for 10 "the fallback" is 1 nccl_metric tcp_fallback long
    logs=$(echo "$D"/pod-logs/default_long_*/worker)
    # 400 KB a round, 256 KiB the limit; two old ones are kept, all but the last of them compressed.
    for n in $(seq 0 2999); do nccl_channel $((n % 64)) Socket; done >"$W/round"
    for rounds in 1 2 3 4; do
        timeout 20 tee "$SAID/long/lines" <"$W/round" >/dev/null || fail "the job does not listen"
        sent=$((sent + 3000))
        wait_for 30 "round $rounds is rotated" rotated "$logs"
        wait_for 20 "round $rounds: $sent lines" is "$sent" nccl_metric channels long worker 'transport="net_socket"'
    done
    ls "$logs" | grep -q '\.gz$' || fail "nothing was compressed: $(ls "$logs" | tr '\n' ' ')"
    [ "$(agent_metric selvage_nccl_log_lines_dropped_total)/$(agent_metric selvage_nccl_log_bytes_lost_total)" = 0/0 ] || fail "dropped: $(agent_metrics | grep nccl_log)"
    # A restart goes on where it was, though all lines of the beginning are gone.
    wait_for 30 "it is kept" kept long
    agent_kill
    wait_for 60 "known after a restart" is 1 nccl_metric tcp_fallback long
    [ "$(pod_events long NcclTcpFallback)" = 1 ] || fail "told $(pod_events long NcclTcpFallback) times"
    echo "MEASURED $sent lines over $rounds rotations by kubelet, none lost; $(ls "$logs" | wc -l) files left"
}

# kubelet has taken the file away, and the new one is short.
rotated() { # DIRECTORY
    [ "$(find "$1" -name '0.log' -size -100k | wc -l)" = 1 ]
}
