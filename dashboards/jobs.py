"""Jobs: which network their NCCL uses, and where it uses TCP without being told to."""

import frame
from parts import (
    BAD, GOOD, NODE_LINK, PLAIN, QUIET, WARN, Col, Q, bars, lines, stat, table, timeline,
)
from queries import (
    CONTAINER, FLEET, HOST, JOBS, by_agents, fallbacks, highest, named, networks, suspects,
    zero_of,
)

NO_JOB = "no data: no container whose logs hold NCCL's lines"
NETWORKS = {
    "ib": GOOD, "roce": GOOD, "ib_or_roce": "#0072B2", "ofi": "#56B4E9", "fastrak": "#56B4E9",
    "tcpx": "#F0E442", "ucx": "#CC79A7", "socket": BAD, "none": "#777777", "unknown": QUIET,
}
NODE = Col("instance", "Node", link=NODE_LINK, width=130)
WHO = [Col("namespace", "Namespace"), Col("job", "Job"), Col("pod", "Pod")]
YES = {0: ("no", GOOD), 1: ("yes", BAD)}


def mine(expr):
    """Of the chosen jobs, with the job's name."""
    return named(expr, JOBS, '"$job"')


def one(metric, more=""):
    """One value a container, whether its agent tells it, its sidecar, or both."""
    kept = f", {more}" if more else ""
    return mine(f"max by ({CONTAINER}{kept}) ({metric}{{{JOBS}}})")


def asked_for_tcp():
    socket = f'max by ({CONTAINER}) (selvage_nccl_network{{{JOBS}, network="socket"}})'
    told = f"max by ({CONTAINER}) (selvage_nccl_tcp_fallback{{{JOBS}}}) == 0"
    return mine(f"{socket} and on ({CONTAINER}) ({told})")


def now(board):
    containers = f"count({mine(networks(JOBS))})"
    known = f"count({one('selvage_nccl_tcp_fallback')})"
    board.row("Now")
    board.add(stat(
        "Containers", "Containers of the chosen jobs whose logs tell of NCCL. One that both its node's "
        "agent and a sidecar read counts once, here and everywhere below.",
        [Q(containers, "containers")], empty=NO_JOB,
    ), 4, 4)
    board.add(stat(
        "Silent fallbacks", "Containers that move data between nodes by TCP though nothing asks "
        "for that. It should be 0.",
        [Q(f"sum({one('selvage_nccl_tcp_fallback')})", "fallbacks")],
        steps=[(None, GOOD), (1, BAD)],
        empty="no data: no container whose lines tell",
    ), 4, 4)
    board.add(stat(
        "Told to use TCP", "Containers on TCP because a setting asks for it: somebody's choice, "
        "and slow.",
        [Q(zero_of(f"count({asked_for_tcp()})", known), "by setting")],
        steps=[(None, PLAIN), (1, WARN)], empty="no data: no container whose lines tell",
    ), 4, 4)
    board.add(stat(
        "GPUDirect off", "Containers whose connections between nodes use no GPUDirect RDMA. It "
        "should be 0 where the node offers a path.",
        [Q(zero_of(f"count({one('selvage_nccl_gpudirect_rdma')} == 0)",
                   f"count({one('selvage_nccl_gpudirect_rdma')})"), "off")],
        steps=[(None, GOOD), (1, WARN)],
        empty="no data: no connection between nodes in view",
    ), 4, 4)
    board.add(stat(
        "Init hangs", "Containers that began to make a communicator and do not come to an end. It "
        "should be 0.",
        [Q(f"sum({one('selvage_nccl_init_hangs')})", "hangs")],
        steps=[(None, GOOD), (1, BAD)], empty=NO_JOB,
    ), 4, 4)
    board.add(stat(
        "Suspects", "Pods with GPUs that move many bytes by TCP without a word in a log. It should "
        "be 0; no data where suspects are not looked for.",
        [Q(f"sum(max by ({HOST}, namespace, pod) (selvage_nccl_suspect{{{JOBS}}}))", "suspects")],
        steps=[(None, GOOD), (1, WARN)], empty="no data: no pod could be told",
    ), 4, 4)


def each(board):
    board.row("Each container")
    whole = f"({mine(networks(JOBS))})"

    def column(metric):
        """The metric with the same labels as the network, so that a container is one row."""
        return f"{whole} * on ({CONTAINER}) group_left () max by ({CONTAINER}) ({metric}{{{JOBS}}})"

    channels = f"{whole} * on ({CONTAINER}) group_left () " \
        f"sum by ({CONTAINER}) (max by ({CONTAINER}, transport) (selvage_nccl_channels{{{JOBS}}}))"
    board.add(table(
        "Containers", "Each container's network between nodes (none: a job of one node), GPUDirect, "
        "init time, and whether it fell back or hangs. Empty: not known; no node: a sidecar alone "
        "tells.",
        [Q(whole), Q(column("selvage_nccl_gpudirect_rdma")), Q(column("selvage_nccl_init_seconds")),
         Q(column("selvage_nccl_tcp_fallback")), Q(column("selvage_nccl_init_hangs")),
         Q(channels)],
        [*WHO, Col("container", "Container"), NODE,
         Col("network", "Network", values={
             "socket": ("socket", WARN), "unknown": ("unknown", QUIET)}, width=90),
         Col("@B", "GPUDirect", values={0: ("off", WARN), 1: ("on", GOOD)}, width=90),
         Col("@F", "Channels", unit="short", width=90),
         Col("@C", "Init", unit="s", steps=[(None, PLAIN), (60, WARN), (300, BAD)], width=90),
         Col("@D", "Fell back", values=YES, width=90), Col("@E", "Hangs", values=YES, width=80),
         Col("nccl_version", "NCCL", width=90)],
        sort=["namespace"], empty=NO_JOB,
    ), 24, 9)


def over_time(board):
    board.row("Networks")
    board.add(lines(
        "Containers by network", "What data between nodes goes over, counted in containers. socket "
        "is TCP.",
        [Q(f"count by (network) ({mine(networks(JOBS))})", "{{network}}")],
        colors=NETWORKS, stack=True, empty=NO_JOB, decimals=0,
    ), 12, 8)
    board.add(lines(
        "Channels by transport", "Connections that NCCL reported: net_ are between nodes, p2p and "
        "shm within one.",
        [Q(f"sum by (transport) ({one('selvage_nccl_channels', 'transport')})", "{{transport}}")],
        stack=True, empty="no data: no connection in view (NCCL_DEBUG=INFO tells of them)",
        decimals=0,
    ), 12, 8)
    board.add(bars(
        "Channels by job and transport", "The same now, by job. A job with net_socket alongside net_ib "
        "has ranks that do not see the fabric.",
        Q(f"sum by (job, transport) ({one('selvage_nccl_channels', 'transport')})",
          "{{job}} {{transport}}"),
        empty="no data: no connection in view (NCCL_DEBUG=INFO tells of them)",
    ), 8, 8)
    gdr = one("selvage_nccl_gpudirect_rdma")
    board.add(lines(
        "GPUDirect RDMA", "Containers whose connections between nodes use GPUDirect RDMA, and those "
        "where none does.",
        [Q(f"sum({gdr})", "on", color=GOOD), Q(f"sum(1 - {gdr})", "off", color=WARN)],
        stack=True, empty="no data: no connection between nodes in view", decimals=0,
    ), 8, 8)
    board.add(lines(
        "Init time by job", "The longest init of a communicator in each job. Minutes point at a "
        "rank that came late, or at a network that must time out first.",
        [Q(f"max by (namespace, job) ({one('selvage_nccl_init_seconds')})",
           "{{namespace}} {{job}}")],
        "s", steps=[(None, "transparent"), (300, BAD)], empty=NO_JOB,
    ), 8, 8)


def troubles(board):
    board.row("Fallbacks, hangs and suspects")
    board.add(table(
        "Silent fallbacks with cause", "Containers on TCP though nothing asks for that, with the "
        "causes that NCCL reported, if any. There should be none.",
        [Q(mine(fallbacks(JOBS)))],
        [*WHO, Col("container", "Container"), NODE, Col("cause", "Cause"),
         Col("nccl_version", "NCCL", width=90)],
        sort=["namespace"], empty="No container whose lines tell has fallen back.",
    ), 14, 8)
    board.add(table(
        "Suspects", "Pods with GPUs, many bytes by TCP and no RDMA queue pair. Run them with "
        "NCCL_DEBUG=INFO to know.",
        [Q(suspects(JOBS))], [*WHO, NODE],
        sort=["namespace"], empty="No pod that could be inspected is suspect.",
    ), 10, 8)
    board.add(lines(
        "TCP: silent and by setting", "Containers on TCP, those that fell back apart from those "
        "that were told to.",
        [Q(f"sum({one('selvage_nccl_tcp_fallback')})", "silent fallback", color=BAD),
         Q(f"count({asked_for_tcp()})", "by setting", color=WARN)],
        empty="no data: no container whose lines tell", decimals=0,
    ), 8, 8)
    board.add(lines(
        "Trouble lines by cause", "Lines about trouble that NCCL printed, by cause; the counts as "
        "they grew.",
        [Q(f"sum by (cause) ({one('selvage_nccl_warnings_total', 'cause')})", "{{cause}}")],
        empty="no data: no container printed a line about trouble", points=True, decimals=0,
    ), 8, 8)
    board.add(timeline(
        "Init hangs", "Which containers' init took longer than it may, and when.",
        [Q(one("selvage_nccl_init_hangs"), "{{namespace}}/{{pod}}")],
        {0: ("no", GOOD), 1: ("hangs", BAD)}, empty=NO_JOB,
    ), 8, 8)


def logs(board):
    board.row("Reading of logs by the nodes' agents: the ten highest of the time range")
    for width, title, metric, unit, text in (
        (6, "Containers followed", "selvage_nccl_containers", "short",
         "Containers whose logs hold NCCL's lines, by node; the 24 worst of a node have series of "
         "their own."),
        (6, "Log bytes read", "selvage_nccl_log_bytes_total", "Bps",
         "Bytes of containers' logs that the agents read."),
        (6, "Lines not checked", "selvage_nccl_log_lines_dropped_total", "cps",
         "Lines that were too long or torn. It should be 0; else a fallback may go unseen."),
        (6, "Log bytes lost", "selvage_nccl_log_bytes_lost_total", "Bps",
         "Bytes that were gone before they could be read. It should be 0; else raise the kubelet's "
         "log size."),
    ):
        series = f"{metric}{{{FLEET}}}"
        over = f"max_over_time({series}[$__range] @ end())"
        if metric.endswith("_total"):
            over = f"increase({series}[$__range] @ end())"
            series = f"rate({series}[$__rate_interval])"
        seen = f"last_over_time(selvage_fabric_ready{{{FLEET}}}[$__range] @ end())"
        over = f"max by ({HOST}) ({over} and on ({HOST}) {seen})"
        mine_now = f"sum by ({HOST}) ({by_agents(series, FLEET)})"
        board.add(lines(
            title, text, [Q(highest(mine_now, over), "{{instance}}")], unit,
            empty="no data: no agent reads logs",
        ), width, 7)


def board():
    selector = 'cluster=~"$cluster", namespace=~"$namespace"'
    made = frame.Board(
        "selvage-jobs", "Which network each job's NCCL uses between nodes, and why where it is TCP.",
        [frame.variable("namespace", "Namespace",
                        'label_values(selvage_nccl_job_info{cluster=~"$cluster"}, namespace)'),
         frame.variable("job", "Job", f"label_values(selvage_nccl_job_info{{{selector}}}, job)",
                        text="The job that owns the pod. Needs honorLabels where Prometheus scrapes."),
         frame.variable("pod", "Pod", f"label_values(selvage_nccl_job_info{{{selector}, "
                        'job=~"$job"}, pod)')],
    )
    for part in (now, each, over_time, troubles, logs):
        part(made)
    made.annotate_alerts('cluster=~"$cluster", alertname=~"SelvageNccl.*", namespace=~"$namespace"')
    return made
