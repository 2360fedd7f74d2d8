"""Pieces of PromQL that more than one dashboard uses.

A node is the labels (cluster, instance); cluster may be absent everywhere, which joins as well. The
selectors are those of the dashboards' variables."""

FLEET = 'cluster=~"$cluster"'
NODE = 'cluster=~"$cluster", instance=~"$node"'
JOBS = 'cluster=~"$cluster", namespace=~"$namespace", pod=~"$pod"'

HOST = "cluster, instance"
PORT = "cluster, instance, device, port"
# Without instance: what both the node's agent and a pod's sidecar tell of a container is one thing.
CONTAINER = "cluster, namespace, pod, container"

# Hardware counters by what they tell, as each driver names them. Lists of what is wanted: with
# counters.full an agent exports traffic among them.
CNP = "np_cnp_sent|rp_cnp_handled|(rx|tx)_cnp_pkts|cnp(Handled|Sent)|(received|sent)_cnps|RxECNMrkd"
# Receivers without buffers, which is the program's or the host's pace, not the path.
DROPS = "|".join((
    "out_of_buffer|rnr_nak_retry_err", "rx_drops", "rx_out_of_buffer|(rx|tx)_roce_discards",
    "ip(4|6)InDiscards", "requester_rnr_nak", "rcvd_rnr_err|retry_rnr_exceeded_err",
))
# Commands to the device and work requests that it failed.
FAILED = "|".join((
    "cmds_err|no_completion_cmds|rdma_(read|write)_wr_err", "unrecoverable_err", "total_fatal_error",
    "send_err|link_downed",
))
# As in the recording rule instance_device_port:selvage_port_errors:increase1h.
PORT_ERRORS = ".*error.*|link_downed|.*_discards|VL15_dropped"

# Above this age of its report a node's verdict is stale, whatever the agent still serves.
STALE_AFTER = 120


def agents(selector):
    """One series an agent, and none a sidecar."""
    return f"max by ({HOST}) (selvage_fabric_ready{{{selector}}})"


def by_agents(expr, selector):
    """What agents export of `expr`; sidecars of jobs have some of the same metrics."""
    return f"({expr} and on ({HOST}) {agents(selector)})"


def targets(selector):
    """Whether each agent's target answers; without sidecars, which come and go with their jobs."""
    return f'max by ({HOST}) (up{{job=~".*selvage.*", job!~".*selvage-nccl.*", {selector}}})'


def stale(selector):
    """Nodes whose report is too old to be believed."""
    return f"instance:selvage_report_stale:bool{{{selector}}}"


def findings(selector):
    """Findings that stand; the worse, the higher: 3 failing, 2 degraded, 1 unknown, 0 notice."""
    return f"instance_check_subject_reason_status:selvage_finding:rank{{{selector}}} * 1"


def rails(expr, selector, labels=""):
    """What `expr` holds of the rails; `labels` of the port come along."""
    return (
        f"({expr}) * on ({PORT}) group_left ({labels})"
        f' instance_device_port:selvage_port:info{{{selector}, rail="true"}}'
    )


def ports(expr, selector, labels):
    """What `expr` holds of all ports, with labels of the port."""
    return (
        f"max by ({PORT}) ({expr}) * on ({PORT}) group_left ({labels})"
        f" instance_device_port:selvage_port:info{{{selector}}}"
    )


def suspects(selector):
    return (
        f"label_replace(max by ({HOST}, namespace, pod, job, exported_job)"
        f" (selvage_nccl_suspect{{{selector}}}) == 1,"
        ' "job", "$1", "exported_job", "(.+)")'
    )


def zero_of(expr, witness):
    """`expr`, or 0 where it has no series and `witness` has: somebody looked, and there is none."""
    return f"{expr} or 0 * {witness}"


def highest(expr, over, labels=HOST, aggregation="topk"):
    """Series of `expr` of the ten that are highest by `over`, which must be the same at every step
    (@ end()): a topk of each step would draw many more than ten, in pieces."""
    return f"{expr} and on ({labels}) {aggregation}(10, {over})"
