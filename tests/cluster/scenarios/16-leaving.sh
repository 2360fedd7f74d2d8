# what: dry run writes nothing; a rolling update changes nothing; cleanup removes all that is ours
# limit: 300
scenario() {
    local tree image writes
    tree=$(simulate h100_ib)
    rail_down "$tree" mlx5_4
    deploy overlays/bare-metal-ib "$tree" SELVAGE_DRY_RUN=true SELVAGE_CLUSTER_HOLD=1s >/dev/null
    wait_for 90 "it would write" is 1 agent_metric selvage_node_pending taint
    agent_log | grep -q 'would patch the Node' || fail "the log does not tell what would be written"
    [ "$(node_label fabric)$(node_taint fabric-unready)$(node_condition FabricReady)" = "" ] || fail "a dry run wrote"
    node_managers | grep -qx selvage && fail "a dry run wrote: $(node_managers | tr '\n' ' ')"

    deploy overlays/bare-metal-ib "$tree" SELVAGE_DRY_RUN=false SELVAGE_CLUSTER_HOLD=1s >/dev/null
    wait_for 120 "the taint" is LinkDown:NoSchedule node_taint fabric-unready
    wait_for 60 "the agent is ready" agent_ready
    watch_node "$W/update"
    image=$(second_image next)
    kube set image -n selvage daemonset/selvage agent="$image" >/dev/null
    kube rollout status -n selvage daemonset/selvage --timeout=300s || fail "the update does not end"
    wait_for 60 "the new agent is ready" agent_ready
    watched "$W/update" | jq -e --slurp 'all(.[]; (.metadata.labels["selvage.dev/fabric"] == "unready") and any(.spec.taints[]?; .key == "selvage.dev/fabric-unready"))' >/dev/null ||
        fail "an update changed label or taint"

    kube annotate node "$NODE" ${PREFIX}mute=gds=2999-01-01T00:00:00Z >/dev/null
    kube taint node "$NODE" example.com/theirs=1:PreferNoSchedule >/dev/null
    kube delete daemonset -n selvage selvage --wait=true >/dev/null
    wait_for 30 "the agent is gone" is "" kube get pods -n selvage -o name
    mkdir -p "$W/cleanup"
    cat >"$W/cleanup/kustomization.yaml" <<YAML
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [$(realpath --relative-to "$(realpath "$W/cleanup")" "$(realpath "$MANIFESTS")/cleanup")]
images: [{name: selvage, newTag: "${IMAGE##*:}"}]
YAML
    kube apply -k "$W/cleanup" >/dev/null || fail "apply of the cleanup"
    wait_for 60 "the cleanup has ended" is 1 kube get job -n selvage selvage-cleanup -o 'jsonpath={.status.succeeded}'
    [ "$(node_label fabric)$(node_label rails)$(node_label gds)$(node_taint fabric-unready)$(node_condition FabricReady)" = "" ] ||
        fail "left behind: $(node_json | jq -c '[.metadata.labels, .spec.taints]')"
    [ "$(kube get leases -n selvage -o name)" = "" ] || fail "a Lease is left"
    node_json | jq -e '.spec.taints[] | select(.key == "example.com/theirs")' >/dev/null || fail "somebody else's taint went, too"
    kube taint node "$NODE" example.com/theirs- >/dev/null
    kube annotate node "$NODE" ${PREFIX}mute- >/dev/null
}
