"""Jobs: which network their NCCL uses, and where it uses TCP without being told to."""

import frame
from parts import (
    BAD, GOOD, NODE_LINK, PLAIN, QUIET, WARN, Col, Q, bars, lines, stat, table, timeline,
)
from queries import (
    CONTAINER, FLEET, HOST, JOBS, highest, suspects, zero_of,
)

NO_JOB = "no data: no container whose logs hold NCCL's lines"
NETWORKS = {
    "ib": GOOD, "roce": GOOD, "ib_or_roce": "#0072B2", "ofi": "#56B4E9", "fastrak": "#56B4E9",
    "tcpx": "#F0E442", "ucx": "#CC79A7", "socket": BAD, "none": "#777777", "unknown": QUIET,
}
NODE = Col("instance", "Node", link=NODE_LINK, width=130)
WHO = [Col("namespace", "Namespace"), Col("job", "Job"), Col("pod", "Pod")]
YES = {0: ("no", GOOD), 1: ("yes", BAD)}


def one(metric, level=""):
    """Of the chosen jobs, with the job's name: one value a container, whether its agent tells it, its
    sidecar, or both."""
    return f'container{level}:selvage_nccl_{metric}{{{JOBS}, job=~"$job"}}'


FALLBACK, GPUDIRECT = one("tcp_fallback:max"), one("gpudirect_rdma:max")
NETWORK = one("network:info")
CHANNELS = one("channels:max", level="_transport")
BY_SETTING = one("tcp_by_setting:info")


def now(board):
    board.row("Now")
    board.add(stat(
        "Containers", "How many containers are in view? "
        "Containers of the chosen jobs whose logs tell of NCCL. One that both its node's "
        "agent and a sidecar read counts once, here and everywhere below.",
        [Q(f"count({NETWORK})", "containers")], empty=NO_JOB,
    ), 4, 4)
    board.add(stat(
        "Silent fallbacks", "Has a job fallen back to TCP unasked? "
        "Containers that move data between nodes by TCP though nothing asks "
        "for that. It should be 0.",
        [Q(f"sum({FALLBACK})", "fallbacks")],
        steps=[(None, GOOD), (1, BAD)],
        empty="no data: no container whose lines tell",
    ), 4, 4)
    board.add(stat(
        "Told to use TCP", "Which part is on TCP by choice? "
        "Containers on TCP because a setting asks for it: somebody's choice, "
        "and slow.",
        [Q(zero_of(f"count({BY_SETTING})", f"count({FALLBACK})"), "by setting")],
        steps=[(None, PLAIN), (1, WARN)], empty="no data: no container whose lines tell",
    ), 4, 4)
    board.add(stat(
        "GPUDirect off", "Does a job copy through host memory? "
        "Containers whose connections between nodes use no GPUDirect RDMA. It "
        "should be 0 where the node offers a path.",
        [Q(zero_of(f"count({GPUDIRECT} == 0)", f"count({GPUDIRECT})"), "off")],
        steps=[(None, GOOD), (1, WARN)],
        empty="no data: no connection between nodes in view",
    ), 4, 4)
    board.add(stat(
        "Init hangs", "Does a job hang while it starts? "
        "Containers that began to make a communicator and do not come to an end. It "
        "should be 0.",
        [Q(f"sum({one('init_hangs:max')})", "hangs")],
        steps=[(None, GOOD), (1, BAD)], empty=NO_JOB,
    ), 4, 4)
    board.add(stat(
        "Suspects", "Is a job on TCP that logs nothing? "
        "Pods with GPUs that move many bytes by TCP without a word in a log. It should "
        "be 0; no data where suspects are not looked for.",
        [Q(f"sum(max by ({HOST}, namespace, pod) (selvage_nccl_suspect{{{JOBS}}}))", "suspects")],
        steps=[(None, GOOD), (1, WARN)], empty="no data: no pod could be told",
    ), 4, 4)


def each(board):
    board.row("Each container")
    def column(expr):
        """The value with the same labels as the network, so that a container is one row."""
        return f"{NETWORK} * on ({CONTAINER}) group_left () {expr}"

    board.add(table(
        "Containers", "What does each container use? "
        "Each container's network between nodes (none: a job of one node), GPUDirect, "
        "init time, and whether it fell back or hangs. Empty: not known; no node: a sidecar alone "
        "tells.",
        [Q(f"{NETWORK} * 1"), Q(column(GPUDIRECT)), Q(column(one("init_seconds:max"))),
         Q(column(FALLBACK)), Q(column(one("init_hangs:max"))),
         Q(column(f"sum by ({CONTAINER}) (container_transport:selvage_nccl_channels:max{{{FLEET}}})"))],
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
        "Containers by network", "Which networks do jobs use? "
        "What data between nodes goes over, counted in containers. socket "
        "is TCP.",
        [Q(f"count by (network) ({NETWORK})", "{{network}}")],
        colors=NETWORKS, stack=True, empty=NO_JOB, decimals=0,
    ), 12, 8)
    board.add(lines(
        "Channels by transport", "Do connections between nodes use RDMA? "
        "Connections that NCCL reported: net_ are between nodes, p2p and "
        "shm within one.",
        [Q(f"sum by (transport) ({CHANNELS})", "{{transport}}")],
        stack=True, empty="no data: no connection in view (NCCL_DEBUG=INFO tells of them)",
        decimals=0,
    ), 12, 8)
    board.add(bars(
        "Channels by job and transport", "Which job has them? "
        "The same now, by job. A job with net_socket alongside net_ib "
        "has ranks that do not see the fabric.",
        Q(f"sum by (job, transport) ({CHANNELS})", "{{job}} {{transport}}"),
        empty="no data: no connection in view (NCCL_DEBUG=INFO tells of them)",
    ), 8, 8)
    board.add(lines(
        "GPUDirect RDMA", "How many use GPUDirect RDMA? "
        "Containers whose connections between nodes use GPUDirect RDMA, and those "
        "where none does.",
        [Q(f"sum({GPUDIRECT})", "on", color=GOOD), Q(f"sum(1 - {GPUDIRECT})", "off", color=WARN)],
        stack=True, empty="no data: no connection between nodes in view", decimals=0,
    ), 8, 8)
    board.add(lines(
        "Init time by job", "Which jobs are slow to start? "
        "The longest init of a communicator in each job. Minutes point at a "
        "rank that came late, or at a network that must time out first.",
        [Q(f"max by (namespace, job) ({one('init_seconds:max')})",
           "{{namespace}} {{job}}")],
        "s", steps=[(None, "transparent"), (300, BAD)], empty=NO_JOB,
    ), 8, 8)


def troubles(board):
    board.row("Fallbacks, hangs and suspects")
    board.add(table(
        "Silent fallbacks with cause", "Why did it fall back? "
        "Containers on TCP though nothing asks for that, with the "
        "causes that NCCL reported, if any. There should be none.",
        [Q(f"{one('fallback:info', level='_cause')} * 1")],
        [*WHO, Col("container", "Container"), NODE, Col("cause", "Cause"),
         Col("nccl_version", "NCCL", width=90)],
        sort=["namespace"], empty="No container whose lines tell has fallen back.",
    ), 14, 8)
    board.add(table(
        "Suspects", "Which pods are suspect? "
        "Pods with GPUs, many bytes by TCP and no RDMA queue pair. Run them with "
        "NCCL_DEBUG=INFO to know.",
        [Q(suspects(JOBS))], [*WHO, NODE],
        sort=["namespace"], empty="No pod that could be inspected is suspect.",
    ), 10, 8)
    board.add(lines(
        "TCP: silent and by setting", "Since when is TCP in use, and was it asked for? "
        "Containers on TCP, those that fell back apart from those "
        "that were told to.",
        [Q(f"sum({FALLBACK})", "silent fallback", color=BAD),
         Q(f"count({BY_SETTING})", "by setting", color=WARN)],
        empty="no data: no container whose lines tell", decimals=0,
    ), 8, 8)
    board.add(lines(
        "Trouble lines by cause", "What does NCCL complain about? "
        "Lines about trouble that NCCL printed, by cause; the counts as "
        "they grew.",
        [Q(f"sum by (cause) ({one('warnings:max', level='_cause')})", "{{cause}}")],
        empty="no data: no container printed a line about trouble", points=True, decimals=0,
    ), 8, 8)
    board.add(timeline(
        "Init hangs", "When did jobs hang? "
        "Which containers' init took longer than it may, and when.",
        [Q(f"{one('init_hangs:max')} * 1", "{{namespace}}/{{pod}}")],
        {0: ("no", GOOD), 1: ("hangs", BAD)}, empty=NO_JOB,
    ), 8, 8)


def logs(board):
    board.row("Reading of logs by the nodes' agents: the ten highest of the time range")
    for width, title, metric, unit, text in (
        (6, "Containers followed", "containers:sum", "short",
         "Are all jobs' logs read? "
         "Containers whose logs hold NCCL's lines, by node; the 24 worst of a node have series of "
         "their own."),
        (6, "Log bytes read", "log_bytes:rate5m", "Bps",
         "How much log is read? "
         "Bytes of containers' logs that the agents read."),
        (6, "Lines not checked", "log_lines_dropped:rate5m", "cps",
         "Was any line left out? "
         "Lines that were too long or torn. It should be 0; else a fallback may go unseen."),
        (6, "Log bytes lost", "log_bytes_lost:rate5m", "Bps",
         "Was any log lost? "
         "Bytes that were gone before they could be read. It should be 0; else raise the kubelet's "
         "log size."),
    ):
        series = f"instance:selvage_nccl_{metric}{{{FLEET}}}"
        over = f"avg_over_time({series}[$__range] @ end())"
        board.add(lines(
            title, text, [Q(highest(series, over), "{{instance}}")], unit,
            empty="no data: no agent reads logs",
        ), width, 7)


def board():
    # Jobs without a pod are not on this board.
    selector = 'cluster=~"$cluster", namespace=~"$namespace", container!=""'
    made = frame.Board(
        "selvage-jobs", "Which network each job's NCCL uses between nodes, and why where it is TCP.",
        [frame.variable("namespace", "Namespace",
                        'label_values(selvage_nccl_job_info{cluster=~"$cluster", container!=""}, namespace)'),
         frame.variable("job", "Job", f"label_values(selvage_nccl_job_info{{{selector}}}, job)",
                        text="The job that owns the pod. Needs honorLabels where Prometheus scrapes."),
         frame.variable("pod", "Pod", f"label_values(selvage_nccl_job_info{{{selector}, "
                        'job=~"$job"}, pod)')],
    )
    for part in (now, each, over_time, troubles, logs):
        part(made)
    made.annotate_alerts('cluster=~"$cluster", alertname=~"SelvageNccl.*", namespace=~"$namespace"')
    return made
