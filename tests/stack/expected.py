"""What the fleet's faults (src/simulate/data/fleet.toml) have to come to."""

# (alert, instance); of the fleet as a whole without instance. What follows from another fault fires
# nothing: the Xids of a GPU that fell off the bus, the lost packets of a port with symbol errors.
ALERTS = {
    ("SelvageFabricUnreadyShare", ""),
    ("SelvageTaintWithheld", ""),
    ("SelvageNodeUnready", "gpu-02"),
    ("SelvageNodeDegraded", "gpu-03"),
    ("SelvageNodeUnready", "gpu-05"),
    ("SelvageNodeDegraded", "gpu-06"),
    ("SelvageNodeDegraded", "gpu-07"),
    ("SelvageNodeUnready", "gpu-08"),
    ("SelvageFabricUnknown", "gpu-10"),
    ("SelvageSourceStalled", "gpu-10"),
    ("SelvageNcclTcpFallback", "gpu-11"),
    ("SelvageNcclInitHang", "gpu-11"),
    ("SelvageNcclSuspect", "gpu-11"),
    ("SelvageNodeDegraded", "gpu-11"),
    ("SelvageAgentDown", "gpu-12"),
}

# The node whose agent goes away.
GONE = "gpu-12"

# What fires beside, or for a while: side effects of the same faults.
BESIDE = {
    ("SelvageNodeDegraded", "gpu-02"), ("SelvageNodeDegraded", "gpu-05"), ("SelvageNodeNotice", "gpu-05"),
    ("SelvageXidHardware", "gpu-05"), ("SelvageNodeNotice", "gpu-07"), ("SelvageNodeDegraded", "gpu-08"),
    ("SelvageNodeNotice", "gpu-08"), ("SelvageNodeNotice", "gpu-11"), ("SelvageSourceStalled", "gpu-12"),
    ("SelvageNodeDrift", "gpu-06"), ("SelvageNodeDrift", "gpu-07"),
}


def may_fire(alert, instance):
    """The play on the first node comes and goes; the rest must have its reason."""
    return instance == "gpu-01" or (alert, instance) in BESIDE


# Queries without data in the demo, and why.
NO_TLS = "the demo serves plain HTTP"
NO_GROUP = "no four nodes of the demo fail for what they have in common"
EMPTY = {
    ("fleet", "What they have in common", "A"): NO_GROUP,
    ("selvage", "First certificate to end", "A"): NO_TLS,
    ("selvage", "Reloads that failed", "A"): NO_TLS,
}

# Recording rules without data in the demo, and why. tests/alerts plays them.
NO_KUBE = "the demo has no kube-state-metrics"
NO_LLDP = "simulated nodes have no cables on which LLDP could be heard"
EMPTY_RULES = {
    "instance:selvage_report_stale:bool": "every agent that answers judges",
    "instance:selvage_node_planned:bool": NO_KUBE,
    "instance:selvage_node_gpus:max": NO_KUBE,
    "instance:selvage_node_had_agent:info": NO_KUBE,
    "instance:selvage_textfile_gone:seconds": "the demo has no node_exporter",
    "instance:selvage_node_rebooting:bool": NO_KUBE,
    "cluster_kind_value:selvage_group_failing:ratio": NO_GROUP,
    "instance:selvage_node_grouped:bool": NO_GROUP,
    "instance:selvage_node_away:bool": f"{NO_KUBE}, and {NO_GROUP}",
    "instance:selvage_node_quiet:bool": "all agents have seen a full window",
    "instance:selvage_node_behind:bool": "nothing is written but in a dry run",
    "cluster_switch_device_port:selvage_port_neighbors:count": NO_LLDP,
    "cluster_switch_device_port:selvage_port_strays:count": NO_LLDP,
}

# What promtool's linter says of names that are fixed (docs/metrics.md).
COMPLAINTS = {
    f'{name} metric name should not include type \'counter\''
    for name in ("selvage_port_counter_total", "selvage_port_hw_counter_total",
                 "selvage_port_counter_saturated")
}

# Unready nodes, whose tickets wait while the fleet is paged for.
QUIET = ("gpu-02", "gpu-05", "gpu-08")


def one(test):
    return lambda found: len(found) == 1 and test(found[0][1])


# PromQL, and what it must come to.
FACTS = [
    ('count(selvage_fabric_state{state="unready", instance!="gpu-01"} == 1)',
     one(lambda n: n == 3)),
    ("sum(selvage_node_taint_applied)", one(lambda n: n == 1)),
    ('count(selvage_node_taint_withheld{reason="budget", instance!="gpu-01"})', one(lambda n: n == 2)),
    ('count(selvage_port_up{instance="gpu-04"})', one(lambda n: n == 32)),
    ('selvage_nccl_network{instance="gpu-04", network="ofi"}', one(lambda n: n == 1)),
    ('selvage_nccl_tcp_fallback{instance="gpu-11"} == 1', lambda found: len(found) == 1),
    ('max(rate(selvage_port_transmit_bytes_total{instance="gpu-09"}[30s]))'
     ' / max(selvage_port_rate_bytes_per_second{instance="gpu-09"})',
     one(lambda share: 0.3 < share < 1)),
    ('max(rate(selvage_pfc_pause_seconds_total{instance="gpu-03"}[30s]))',
     one(lambda share: 0.5 < share <= 1.05)),
    # Over five minutes of which the fleet has lived one.
    ('max(instance_device_port:selvage_port_transmit_utilization:ratio{instance="gpu-09"})',
     one(lambda share: 0.02 < share < 1)),
    ('count(selvage_nccl_job_info{job!=""})', one(lambda n: n >= 4)),
    ('selvage_bench_ratio{instance="gpu-09", collective="all_gather"}',
     one(lambda ratio: 0.88 < ratio < 0.89)),
    ('selvage_bench_verdict{instance="gpu-09", collective="alltoall", verdict="below"} == 1',
     lambda found: len(found) == 1),
]
