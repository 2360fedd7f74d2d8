# what: the sidecar beside a job: own metrics, JSON lines, taken over by the node agent; small; ends with the job
# limit: 200
scenario() {
    local tree address pid line rss n
    tree=$(simulate h100_ib)
    deploy overlays/bare-metal-ib "$tree" "$KEEPS" SELVAGE_CLUSTER_HOLD=1s >/dev/null
    wait_for 60 "the label" is ready node_label fabric
    # No native sidecars in 1.20: among `containers`. Rights and limits as in manifests/injection.
    mkdir -p "$SAID/train" && mkfifo -m 666 "$SAID/train/lines" && chmod 755 "$SAID/train"
    jq -n --arg image "$IMAGE" --arg said "$SAID/train" --argjson labels "$(pytorch bert)" '
        {runAsNonRoot: true, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: ["ALL"]}} as $bare |
        {apiVersion: "v1", kind: "Pod", metadata: {name: "train", namespace: "default"},
        spec: {restartPolicy: "Never", terminationGracePeriodSeconds: 1, shareProcessNamespace: true, automountServiceAccountToken: false,
            securityContext: {seccompProfile: {type: "RuntimeDefault"}},
            containers: [
                {name: "selvage-sidecar", image: $image, imagePullPolicy: "Never",
                    args: ["sidecar", "--dir", "/var/log/nccl", "--listen", ":9950", "--exit-when-done"],
                    env: [{name: "SELVAGE_CONTAINER", value: "worker"}],
                    resources: {requests: {cpu: "50m", memory: "16Mi"}, limits: {cpu: "50m", memory: "16Mi"}},
                    securityContext: ($bare + {runAsUser: 65532}),
                    volumeMounts: [{name: "selvage-nccl-logs", mountPath: "/var/log/nccl", readOnly: true}]},
                {name: "worker", image: "pause:test", imagePullPolicy: "Never", args: ["say", "/said/lines", "/var/log/nccl/h.%p.log"],
                    securityContext: ($bare + {runAsUser: 1000}),
                    volumeMounts: [{name: "selvage-nccl-logs", mountPath: "/var/log/nccl"}, {name: "said", mountPath: "/said"}]}],
            volumes: [{name: "selvage-nccl-logs", emptyDir: {sizeLimit: "1Gi"}}, {name: "said", hostPath: {path: $said, type: "Directory"}}]}} * $labels' |
        kube apply -f - >/dev/null || fail "the pod"
    talks train
    address=$(kube get pod train -o 'jsonpath={.status.podIP}')
    tell train "$NCCL_NO_IB"
    tell train "$NCCL_TWO_NODES"
    wait_for 10 "the sidecar's own metrics" contains 'selvage_nccl_tcp_fallback{namespace="",pod="",container="worker",job=""} 1' curl -sS -f -m 2 "http://$address:9950/metrics"
    wait_for 10 "the node agent has its word" is 1 nccl_metric tcp_fallback train
    [ "$(nccl_report train '"\(.container)/\(.via)/\(.job.name)"')" = worker/sidecar/bert ] || fail "report: $(nccl_report train .)"
    line=$(pod_log train default -c selvage-sidecar | tail -n 1)
    [ "$(jq -r '"\(.schema)/\(.container)/\(.verdict.tcp_fallback)/\(.verdict.network)"' <<<"$line")" = selvage.dev/nccl-verdict/v1/worker/yes/socket ] ||
        fail "its line: $line"
    is "" pod_log train default -c worker || fail "lines of NCCL's on stdout"
    wait_for 10 "the event" is 1 pod_events train NcclTcpFallback

    # A long log: 20000 connections, 2 MB.
    for n in $(seq 1 20000); do nccl_channel $((n % 64)) Socket; done >"$W/long"
    timeout 20 tee "$SAID/train/lines" <"$W/long" >/dev/null || fail "the job does not listen"
    wait_for 30 "all of them are counted" sidecar_counts "$address" 20000
    pid=$(node_pid "$(kube get pod train -o json | jq -r '.status.containerStatuses[] | select(.name == "selvage-sidecar") | .containerID')")
    rss=$(awk '$1 == "VmRSS:" { print $2 }' "/proc/$pid/status")
    echo "MEASURED sidecar VmRSS $rss KiB, at most $(awk '$1 == "VmHWM:" { print $2 }' "/proc/$pid/status") KiB, after 20000 lines; $(awk '$1 == "RssAnon:" { print $2 }' "/proc/$pid/status") KiB its own"
    # The rig's binary holds the demo, too; the shipped one takes less.
    [ "$rss" -lt 15360 ] || fail "$rss KiB resident"

    # A restart of the agent: known by what it kept, or by the sidecar's lines.
    agent_kill
    wait_for 60 "the next agent knows it" is 1 nccl_metric tcp_fallback train

    # The job ends; the sidecar sees that by itself, the pod completes.
    now_ms >"$W/ended"
    tell train "exit 0"
    wait_for 60 "the pod completes" is Succeeded pod_phase train
    echo "MEASURED job's end to pod's: $(($(now_ms) - $(cat "$W/ended"))) ms"
    [ "$(kube get pod train -o json | jq -c '[.status.containerStatuses[] | "\(.name) \(.state.terminated.exitCode) \(.restartCount)"] | sort')" = '["selvage-sidecar 0 0","worker 0 0"]' ] ||
        fail "ends: $(kube get pod train -o json | jq -c .status.containerStatuses)"
    wait_for 30 "what has ended is told no more" is "" nccl_metric tcp_fallback train
    [ "$(pod_events train NcclTcpFallback)" = 1 ] || fail "$(pod_events train NcclTcpFallback) events"
    is ready node_label fabric || fail "the node's label is $(node_label fabric)"
}

sidecar_counts() { # ADDRESS NUMBER
    curl -sS -f -m 2 "http://$1:9950/metrics" | awk -v wanted="$2" '/^selvage_nccl_channels\{.*net_socket/ { seen = $NF } END { exit seen != wanted }'
}
