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
# Packets lost, late or out of order, and connections given up for that (the check retransmission).
LOSS = "|".join((
    "packet_seq_err|implied_nak_seq_err|out_of_sequence|local_ack_timeout_err|roce_adp_retrans"
    "|roce_adp_retrans_to|roce_slow_restart|req_transport_retries_exceeded",  # mlx5
    "retrans_pkts|retrans_timeout_events|(impaired_remote_conn|unresponsive_remote)_events",  # efa
    "to_retransmits|seq_err_naks_rcvd|oos_drop_count|max_retry_exceeded|missing_resp",  # bnxt
    "tcpRetransSegs",  # irdma
    "(requester|responder)_oos(_nak)?|requester_(timeout|retries_exceeded)",  # mana
    "rcvd_seq_err|completer_retry_err|retry_exceeded_err|out_of_seq_request|duplicate_request",  # rxe
))
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
STALE = f"max by ({HOST}) (selvage_report_age_seconds{{@}}) > {STALE_AFTER}"
NOT_READY = (
    f'(100 * max by ({HOST}, state) (selvage_fabric_state{{@, state="unready"}} == 1)'
    f' or 10 * max by ({HOST}, state) (selvage_fabric_state{{@, state="degraded"}} == 1)'
    f' or max by ({HOST}, state) (selvage_fabric_state{{@, state="unknown"}} == 1))'
    f' unless on ({HOST}) ({STALE})'
)


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
    return STALE.replace("@", selector)


def findings(selector):
    """Findings that stand; the worse, the higher: 3 failing, 2 degraded, 1 unknown, 0 notice."""
    ranks = {"failing": "* 3", "degraded": "* 2", "unknown": "* 1", "notice": "* 0"}
    return f"max by ({HOST}, check, subject, reason, status) (" + " or ".join(
        f'selvage_finding{{{selector}, status="{status}"}} {rank}'
        for status, rank in ranks.items()
    ) + ")"


def reasons(selector):
    """A row for each finding of each node that is not ready, one for a node without any, and one for
    a node whose report is stale, whatever that says."""
    state = NOT_READY.replace("@", selector)
    found = f'{findings(selector)} > 0'
    return (
        f"({found}) * on ({HOST}) group_left (state) topk by ({HOST}) (1, {state})"
        f" or label_replace(({state}) unless on ({HOST}) ({found}),"
        ' "reason", "no finding: see its report", "", "")'
        f' or label_replace(label_replace(({stale(selector)}) ^ 0, "state", "stale", "", ""),'
        ' "reason", "its report is older than two minutes", "", "")'
    )


def verdict_rank(selector):
    """The worse the verdict, the higher: 100 unready, 10 degraded, 1 unknown or stale."""
    return f"max by ({HOST}) ({NOT_READY.replace('@', selector)} or ({stale(selector)}) ^ 0)"


def state_value(selector):
    """The verdict as a number: 1 ready, 2 degraded, 3 unready, 4 unknown, 5 of a stale report."""
    return f"5 * ({stale(selector)}) ^ 0 or max by ({HOST}) (" + " or ".join(
        f'selvage_fabric_state{{{selector}, state="{state}"}} * {value}'
        for value, state in enumerate(("ready", "degraded", "unready", "unknown"), 1)
    ) + ")"


# Where a join takes labels along, topk sees to one series a port: with two (firmware before and after
# an update, a node that is scraped twice) the whole panel would fail.
def rails(expr, selector, labels=""):
    """What `expr` holds of the rails; `labels` of the port come along."""
    kept = f", {labels}" if labels else ""
    return (
        f"({expr}) * on ({PORT}) group_left ({labels})"
        f' topk by ({PORT}) (1, max by ({PORT}{kept}) (selvage_port_info{{{selector}, rail="true"}}))'
    )


def ports(expr, selector, labels):
    """What `expr` holds of all ports, with labels of the port."""
    return (
        f"max by ({PORT}) ({expr}) * on ({PORT}) group_left ({labels})"
        f" topk by ({PORT}) (1, max by ({PORT}, {labels}) (selvage_port_info{{{selector}}}))"
    )


def named(expr, selector, job="", labels="instance, job, nccl_version"):
    """With the node and the name of the container's job. The node is that of the agent that sees the
    container, and empty where a sidecar alone does."""
    return f"({expr}) * on ({CONTAINER}) group_left ({labels}) {job_info(selector, job)}"


def job_info(selector, job=""):
    """One series a container, by its agent if one sees it, else by its sidecar. A Prometheus that does
    not honour the labels of what it scrapes calls the job's label exported_job."""
    wanted = f", job=~{job}" if job else ""
    info, kept = f"selvage_nccl_job_info{{{selector}{wanted}}}", "job, exported_job, nccl_version"
    return (
        f"label_replace(topk by ({CONTAINER}) (1,"
        f" 2 * max by ({CONTAINER}, instance, {kept}) ({info})"
        f" and on ({HOST}) {agents(FLEET)}"
        f" or max by ({CONTAINER}, {kept}) ({info})) ^ 0,"
        ' "job", "$1", "exported_job", "(.+)")'
    )


def networks(selector):
    """One network a container: where agent and sidecar differ, the one that knows it."""
    network = f"max by ({CONTAINER}, network) (selvage_nccl_network{{{selector}@}})"
    known = network.replace("@", ', network!="unknown"')
    return f"topk by ({CONTAINER}) (1, 2 * {known} or {network.replace('@', '')}) ^ 0"


def fallbacks(selector):
    """A row for each cause that NCCL reported, or one row if it reported none."""
    fallback = f"max by ({CONTAINER}) (selvage_nccl_tcp_fallback{{{selector}}}) == 1"
    cause = f"max by ({CONTAINER}, cause) (selvage_nccl_warnings_total{{{selector}}} > 0)"
    return (
        f"{cause} and on ({CONTAINER}) ({fallback})"
        f" or ({fallback}) unless on ({CONTAINER}) ({cause})"
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


def of_agent(expr, over=False):
    """Of the agents' own processes, whatever else the same names are scraped from. `over`: of those
    that there were at some time of the range."""
    ready = f"selvage_fabric_ready{{{NODE}}}"
    if over:
        ready = f"last_over_time({ready}[$__range] @ end())"
    return f"max by ({HOST}) (({expr}) * on (cluster, instance, job) group_left () " \
        f"(max by (cluster, instance, job) ({ready}) * 0 + 1))"


def highest(expr, over, labels=HOST, aggregation="topk"):
    """Series of `expr` of the ten that are highest by `over`, which must be the same at every step
    (@ end()): a topk of each step would draw many more than ten, in pieces."""
    return f"{expr} and on ({labels}) {aggregation}(10, {over})"
