# what: image, node and a pod with the DaemonSet's rights that judges a simulated host
scenario() {
    local tree size again config label
    size=$(stat -c %s "$W/selvage.tar")
    # The demo is in it, some 2.4 MB, which the shipped image has not: that is bound to 20 MB (make bench).
    [ "$size" -lt 22000000 ] || fail "the image has $size bytes, 22 MB are the bound with the demo"
    again=$("$CLUSTER_DIR/../../manifests/image/build" "$SELVAGE" "$W/again.tar" "$IMAGE")
    cmp "$W/selvage.tar" "$W/again.tar" || fail "the same input gave another image"
    [ "$(tar -xOf "$W/again.tar" index.json | jq -r '.manifests[0].digest')" = "$again" ] || fail "another digest"
    [ "$(tar -xOf "$W/again.tar" "$(tar -xOf "$W/again.tar" manifest.json | jq -r '.[0].Layers[0]')" | tar -t)" = selvage ] ||
        fail "the image holds more than the binary"
    config=$(tar -xOf "$W/again.tar" "$(tar -xOf "$W/again.tar" manifest.json | jq -r '.[0].Config')")
    # The Dockerfile says the same of itself, but for commit and repository.
    jq -r '.config.Labels | to_entries[] | select(.key | test("revision$|source$") | not) | "\(.key)=\"\(.value)\""' <<<"$config" | while read -r label; do
        grep -qF "$label" "$CLUSTER_DIR/../../manifests/image/Dockerfile" || echo "$label"
    done >"$W/labels"
    [ ! -s "$W/labels" ] || fail "not in manifests/image/Dockerfile: $(cat "$W/labels")"
    [ "$(node_condition Ready)" = True ] || fail "the node is not ready"

    tree=$(simulate h100_ib)
    probe_pod check-ready "$tree" '[SYSLOG]' "$IMAGE" '[check, -o, json, --host-root, /host]' >/dev/null
    wait_for 30 "the check of h100_ib has ended" ended check-ready
    [ "$(pod_log check-ready | jq -r .state)" = ready ] || fail "h100_ib is not ready: $(pod_log check-ready | cut -c 1-500)"
    [ "$(exit_status check-ready)" = 0 ] || fail "exit status $(exit_status check-ready) for ready"

    # The same host, a rail lost.
    rail_down "$tree" mlx5_4
    probe_pod check-down "$tree" '[SYSLOG]' "$IMAGE" '[check, -o, json, --host-root, /host]' >/dev/null
    wait_for 30 "the check with a rail down has ended" ended check-down
    [ "$(pod_log check-down | jq -c '[.state, .reasons]')" = '["unready",["LinkDown"]]' ] ||
        fail "a lost rail: $(pod_log check-down | cut -c 1-500)"
    [ "$(exit_status check-down)" = 2 ] || fail "exit status $(exit_status check-down) for unready"
}
