"""Findings that stand at once, and which alerts still fire."""

# The node's label `cluster` keeps the cases apart. Alert, reason, and labels that differ.
CASES = {
    "a dead node is one alert": (
        [
            "SelvageNodeUnready", "SelvageNodeDegraded", "SelvageNodeNotice XidUnknown", "SelvageXidHardware",
            "SelvageFabricUnknown", "SelvageSourceStalled", "SelvageNcclInitHang", "SelvageNodeDrift", "SelvageNodeUnready @gpu-02",
        ],
        ["SelvageNodeUnready", "SelvageNodeUnready @gpu-02"],
    ),
    "what degrades stands alone": (
        ["SelvageNodeDegraded", "SelvageNcclTcpFallback"], ["SelvageNodeDegraded", "SelvageNcclTcpFallback"],
    ),
    "a certificate and an API server that does not answer are no symptoms": (
        ["SelvageNodeUnready", "SelvageNodeNotTold", "SelvageCertificateExpiry"],
        ["SelvageNodeUnready", "SelvageNodeNotTold", "SelvageCertificateExpiry"],
    ),
    "why the verdict is unknown": (
        ["SelvageFabricUnknown", "SelvageSourceStalled"], ["SelvageSourceStalled"],
    ),
    "no agent: the rest is of the past": (
        ["SelvageAgentDown", "SelvageAgentAbsent", "SelvageNodeUnready", "SelvageFabricUnknown", "SelvageNodeNotTold"],
        ["SelvageAgentDown"],
    ),
    "the fleet, not its nodes": (
        [
            "SelvageFabricUnreadyShare", "SelvageTaintWithheld", "SelvageNodeUnready", "SelvageFabricUnknown @gpu-02",
            "SelvageNodeDegraded @gpu-03", "SelvageAgentDown @gpu-04",
        ],
        ["SelvageFabricUnreadyShare", "SelvageNodeDegraded @gpu-03", "SelvageAgentDown @gpu-04"],
    ),
    "a rollout, not its agents": (
        ["SelvageAgentsSilent", "SelvageAgentDown", "SelvageAgentAbsent @gpu-02", "SelvageNodeUnready @gpu-03"],
        ["SelvageAgentsSilent", "SelvageNodeUnready @gpu-03"],
    ),
    "a group mutes no other page": (
        ["SelvageGroupFailing", "SelvageFabricUnreadyShare", "SelvageNodeUnready"],
        ["SelvageGroupFailing", "SelvageFabricUnreadyShare"],
    ),
    "a fallback, not its suspicion": (
        ["SelvageNcclTcpFallback", "SelvageNcclSuspect"], ["SelvageNcclTcpFallback"],
    ),
    "another pod's": (
        ["SelvageNcclTcpFallback", "SelvageNcclSuspect /train-1"],
        ["SelvageNcclTcpFallback", "SelvageNcclSuspect /train-1"],
    ),
    "a fallback of a job without a pod, not its suspicion": (
        ["SelvageNcclTcpFallback #42", "SelvageNcclSuspect #42"], ["SelvageNcclTcpFallback #42"],
    ),
    "another job's": (
        ["SelvageNcclTcpFallback #42", "SelvageNcclSuspect #77 @gpu-02", "SelvageNcclSuspect"],
        ["SelvageNcclTcpFallback #42", "SelvageNcclSuspect #77 @gpu-02", "SelvageNcclSuspect"],
    ),
    "the node, not the jobs on it": (
        ["SelvageNodeUnready", "SelvageNcclTcpFallback", "SelvageNcclTcpFallback @gpu-02 /train-1"],
        ["SelvageNodeUnready", "SelvageNcclTcpFallback @gpu-02 /train-1"],
    ),
}


def labels_of(text: str, examples: list, cluster: str | None) -> dict:
    """`Alert Reason @instance /pod #job` as the labels that the rule gives; a job has no pod."""
    name, *rest = text.split()
    own = {each[0]: each[1:] for each in rest if each[0] in "@/#"}
    reason = next((each for each in rest if each[0] not in "@/#"), None)
    found = [
        each for each in examples if each["alertname"] == name and each.get("reason") in (reason, None)
    ]
    if not found:
        raise ValueError(f"no rule gives {text}")
    labels = dict(found[0])
    if "@" in own:
        labels["instance"] = own["@"]
    if "/" in own:
        labels["pod"] = own["/"]
    if "#" in own:
        labels = {key: value for key, value in labels.items() if key not in ("namespace", "pod")}
        labels["job"] = own["#"]
    if cluster is not None:
        labels["cluster"] = cluster
    return labels
