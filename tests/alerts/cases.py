"""What stands at once, and what of it is still told."""

# The node's label `cluster` keeps the cases apart. Alert, reason, and labels that differ.
CASES = {
    "a dead node pages once": (
        [
            "SelvageFabricUnready", "SelvageGpuMissing GpuFellOff", "SelvageXidFatal XidFatal",
            "SelvageXidFatal GpuRecoveryRequired", "SelvageDeviceMissing RailVanished",
            "SelvageNicHealth NicFatalError", "SelvageRailDown LinkDown", "SelvageLinkErrors SymbolErrors",
            "SelvageRetransmission PacketLoss", "SelvagePcieDegraded PcieErrors", "SelvageNcclInitHang",
            "SelvageSourceStalled", "SelvageRailDown LinkDown @gpu-02",
        ],
        ["SelvageGpuMissing GpuFellOff", "SelvageRailDown LinkDown @gpu-02"],
    ),
    "a rail, not its verdict": (
        ["SelvageFabricUnready", "SelvageRailDown LinkDown"], ["SelvageRailDown LinkDown"],
    ),
    "a verdict alone": (["SelvageFabricUnready"], ["SelvageFabricUnready"]),
    "what degrades, not the verdict": (
        ["SelvageFabricDegraded", "SelvageRateBelowPeers RateBelowPeers"],
        ["SelvageRateBelowPeers RateBelowPeers"],
    ),
    "what is for information hides no verdict": (
        ["SelvageFabricDegraded", "SelvageCnpSurge CongestionNotifications"],
        ["SelvageFabricDegraded", "SelvageCnpSurge CongestionNotifications"],
    ),
    "a certificate hides no verdict": (
        ["SelvageFabricDegraded", "SelvageCertificateExpiry"],
        ["SelvageFabricDegraded", "SelvageCertificateExpiry"],
    ),
    "why the verdict is unknown": (
        ["SelvageFabricUnknown", "SelvageSourceStalled"], ["SelvageSourceStalled"],
    ),
    "no agent: the rest is of the past": (
        ["SelvageAgentDown", "SelvageAgentAbsent", "SelvageGpuMissing GpuFellOff", "SelvageFabricUnready"],
        ["SelvageAgentDown"],
    ),
    "a switch, not the links of its nodes; a GPU still": (
        [
            "SelvageFabricUnreadyShare", "SelvageRailDown LinkDown", "SelvageFabricUnready @gpu-02",
            "SelvageRailDown LinkDown @gpu-02", "SelvageGpuMissing GpuFellOff @gpu-03",
            "SelvagePfcPauseStorm PfcStorm @gpu-04",
        ],
        [
            "SelvageFabricUnreadyShare", "SelvageGpuMissing GpuFellOff @gpu-03",
            "SelvagePfcPauseStorm PfcStorm @gpu-04",
        ],
    ),
    "a full budget is told beside its nodes": (
        ["SelvageTaintWithheld", "SelvageXidFatal XidFatal"],
        ["SelvageTaintWithheld", "SelvageXidFatal XidFatal"],
    ),
    "the part, not the count": (
        ["SelvageDeviceMissing RailVanished", "SelvageDeviceMissing MissingRail"],
        ["SelvageDeviceMissing RailVanished"],
    ),
    "a fallback, not its suspicion": (
        ["SelvageNcclTcpFallback", "SelvageNcclSuspect", "SelvageNcclNoRdma NoRdmaRequested", "SelvageNcclGpuDirectOff"],
        ["SelvageNcclTcpFallback"],
    ),
    "another pod's": (
        ["SelvageNcclTcpFallback", "SelvageNcclSuspect /train-1"],
        ["SelvageNcclTcpFallback", "SelvageNcclSuspect /train-1"],
    ),
    "the node, not the jobs on it": (
        ["SelvageRailDown LinkDown", "SelvageNcclTcpFallback", "SelvageNcclTcpFallback @gpu-02 /train-1"],
        ["SelvageRailDown LinkDown", "SelvageNcclTcpFallback @gpu-02 /train-1"],
    ),
}


def labels_of(text: str, examples: list, cluster: str | None) -> dict:
    """`Alert Reason @instance /pod` as the labels that the rule gives."""
    name, *rest = text.split()
    own = {each[0]: each[1:] for each in rest if each[0] in "@/"}
    reason = next((each for each in rest if each[0] not in "@/"), None)
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
    if cluster is not None:
        labels["cluster"] = cluster
    return labels
