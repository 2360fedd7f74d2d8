"""Pieces of PromQL that more than one dashboard uses.

A node is the labels (cluster, instance); cluster may be absent everywhere, which joins as well. The
selectors are those of the dashboards' variables."""

FLEET = 'cluster=~"$cluster"'
NODE = 'cluster=~"$cluster", instance=~"$node"'
JOBS = 'cluster=~"$cluster", namespace=~"$namespace", pod=~"$pod"'

HOST = "cluster, instance"
PORT = "cluster, instance, device, port"
CONTAINER = "cluster, instance, namespace, pod, container"

# Hardware counters that tell of congestion control, as each driver names them; the others that the
# agent exports tell of packets lost, late or out of order.
CNP = "np_cnp_sent|rp_cnp_handled|(rx|tx)_cnp_pkts|cnp(Handled|Sent)|(received|sent)_cnps|RxECNMrkd"
# Port counters that are no errors: traffic, and the time that a sender waited for credits.
NO_ERRORS = "port_xmit_wait|(uni|multi)cast_.*"

NOT_READY = (
    f'100 * max by ({HOST}, state) (selvage_fabric_state{{@, state="unready"}} == 1)'
    f' or 10 * max by ({HOST}, state) (selvage_fabric_state{{@, state="degraded"}} == 1)'
    f' or max by ({HOST}, state) (selvage_fabric_state{{@, state="unknown"}} == 1)'
)


def findings(selector):
    """Findings that stand; the worse, the higher: 3 failing, 2 degraded, 1 unknown, 0 notice."""
    ranks = {"failing": "* 3", "degraded": "* 2", "unknown": "* 1", "notice": "* 0"}
    return f"max by ({HOST}, check, subject, reason, status) (" + " or ".join(
        f'selvage_finding{{{selector}, status="{status}"}} {rank}'
        for status, rank in ranks.items()
    ) + ")"


def reasons(selector):
    """A row for each finding of each node that is not ready, and one for a node without any."""
    state = NOT_READY.replace("@", selector)
    found = f'{findings(selector)} > 0'
    return (
        f"({found}) * on ({HOST}) group_left (state) ({state})"
        f" or label_replace(({state}) unless on ({HOST}) ({found}),"
        ' "reason", "no finding: see its report", "", "")'
    )


def verdict_rank(selector):
    """The worse the verdict, the higher: 100 unready, 10 degraded, 1 unknown."""
    return f"max by ({HOST}) ({NOT_READY.replace('@', selector)})"


def state_value(selector):
    """The verdict as a number: 1 ready, 2 degraded, 3 unready, 4 unknown."""
    return f"max by ({HOST}) (" + " or ".join(
        f'selvage_fabric_state{{{selector}, state="{state}"}} * {value}'
        for value, state in enumerate(("ready", "degraded", "unready", "unknown"), 1)
    ) + ")"


def rails(expr, selector, labels=""):
    """What `expr` holds of the rails; `labels` of the port come along."""
    kept = f", {labels}" if labels else ""
    return (
        f"({expr}) * on ({PORT}) group_left ({labels})"
        f' max by ({PORT}{kept}) (selvage_port_info{{{selector}, rail="true"}})'
    )


def ports(expr, selector, labels):
    """What `expr` holds of all ports, with labels of the port."""
    return (
        f"max by ({PORT}) ({expr}) * on ({PORT}) group_left ({labels})"
        f" max by ({PORT}, {labels}) (selvage_port_info{{{selector}}})"
    )


def named(expr, selector):
    """With the name of the container's job. A Prometheus that does not honour the labels of what it
    scrapes calls the job's label exported_job."""
    return (
        f"({expr}) * on ({CONTAINER}) group_left (job, nccl_version) {job_info(selector)}"
    )


def job_info(selector, job=""):
    wanted = f", job=~{job}" if job else ""
    return (
        f"label_replace(max by ({CONTAINER}, job, exported_job, nccl_version)"
        f" (selvage_nccl_job_info{{{selector}{wanted}}}),"
        ' "job", "$1", "exported_job", "(.+)")'
    )


def fallbacks(selector):
    """A row for each cause that NCCL told of, or one where it told of none."""
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


def of_agent(expr):
    """Of the agents' own processes, whatever else the same names are scraped from."""
    return f"({expr}) * on (cluster, instance, job) group_left () " \
        "max by (cluster, instance, job) (selvage_build_info)"
