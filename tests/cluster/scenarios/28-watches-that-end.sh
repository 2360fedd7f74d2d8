# what: every watch ends at once, for 30 s: few requests, writes go on; once watches last, what they tell is obeyed
# limit: 240
scenario() {
    local tree port=6444 log="$W/asked" began watches others muted
    tree=$(simulate h100_ib)
    rm -f "$W/end-watches" "$log"
    python3 "$CLUSTER_DIR/tools/watchproxy.py" $port "$D/pki" "$W/end-watches" "$log" &
    echo $! >>"$W/background"
    wait_for 20 "the proxy answers" curl -sS -f -m 5 --cacert "$D/pki/ca.crt" https://127.0.0.1:$port/readyz
    deploy overlays/bare-metal-ib "$tree" KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=$port \
        SELVAGE_CLUSTER_HOLD=1s SELVAGE_CLUSTER_CLEAR=1s >/dev/null
    wait_for 60 "the label" is ready node_label fabric
    wait_for 60 "the agent is ready" agent_ready
    wait_for 20 "it watches by the proxy" grep -q '^watch' "$log"

    touch "$W/end-watches"
    wait_for 20 "a watch has ended" more_than "$(grep -c ^watch "$log")"
    : >"$log"
    began=$SECONDS
    rail_down "$tree" mlx5_4
    wait_for 20 "the label is written all the same" is unready node_label fabric
    wait_for 20 "the taint, too" is LinkDown:NoSchedule node_taint fabric-unready
    while [ $((SECONDS - began)) -lt 30 ]; do
        curl -sS -f -m 5 "$AGENT_URL/healthz" >/dev/null || fail "/healthz: $(curl -sS -m 5 "$AGENT_URL/healthz")"
        sleep 0.5
    done
    watches=$(grep -c ^watch "$log") || true
    others=$(grep -vc ^watch "$log") || true
    began=$((SECONDS - began))
    # Without a pace there would be thousands; what begins at 500 ms and doubles is asked seven times.
    [ "$watches" -gt 0 ] || fail "no watch was asked for again"
    [ "$watches" -le "$began" ] || fail "$watches watches in $began s"
    [ "$others" -le $((2 * began)) ] || fail "$others other requests in $began s"
    [ "$(agent_restarts)" = 0 ] || fail "$(agent_restarts) restarts of the agent"

    # Watches last again: what only they tell is obeyed.
    rm "$W/end-watches"
    muted=$(now_ms)
    kube annotate node "$NODE" "${PREFIX}mute=taint=$(date -u -d '+1 hour' +%FT%TZ)" >/dev/null
    wait_for 70 "the taint goes, muted" is "" node_taint fabric-unready
    muted=$(($(now_ms) - muted))
    is unready node_label fabric || fail "the label is $(node_label fabric)"
    rail_up "$tree" mlx5_4
    wait_for 60 "the label, mended" is ready node_label fabric
    echo "MEASURED watches that end for $began s: $watches watches and $others other requests; a mute obeyed $muted ms after they last again"
}

more_than() { [ "$(grep -c ^watch "$log")" -gt "$1" ]; }
