"""The fleet: which nodes are not ready, and why."""

from frame import Board
from parts import (
    BAD, GOOD, NODE_LINK, PLAIN, POD_LINK, QUIET, STATES, WARN, Col, Q, bars, lines, stat, table,
)
from queries import (
    FLEET, HOST, PORT, agents, rails, stale, suspects, targets, zero_of,
)

NODES = f"sum(cluster:selvage_nodes:count{{{FLEET}}})"
NO_RULES = "no data: no agent answers, or the recording rules are not loaded"
STATUS = {
    "failing": ("failing", BAD), "degraded": ("degraded", WARN), "unknown": ("unknown", QUIET),
}
STATE = {name: (name, color) for name, color in [*STATES.items(), ("stale", BAD)]}
NODE = Col("instance", "Node", link=NODE_LINK, width=140)
CLUSTER = Col("cluster", "Cluster", width=110)


def how_many(board):
    board.row("Is it one, some, or all?")
    faulty = f"instance:selvage_node_faulty:bool{{{FLEET}}}"
    board.add(stat(
        "Nodes that fail", "How many nodes are unready, unknown for ten minutes, or without an agent that "
        "answers, and how many there are? One is a cable or a GPU; nodes on purpose away are left out.",
        [Q(f"sum({faulty})", "fail", color=BAD), Q(f"count({faulty})", "of")], wide=True, empty=NO_RULES,
    ), 6, 5)
    board.add(stat(
        "Share that fails", "Is it all of them? Above a tenth it is something that all nodes share: the "
        "subnet manager, a rollout, the network, or the agents themselves.",
        [Q(f"sum({faulty}) / count({faulty})", "of the nodes")], "percentunit",
        steps=[(None, PLAIN), (0.001, WARN), (0.1, BAD)], empty=NO_RULES, decimals=1,
    ), 4, 5)
    board.add(table(
        "What they have in common", "Is it some? A leaf, block, driver, firmware or kernel whose nodes fail far "
        "more often than all others: look there first, and not at the nodes one by one.",
        [Q(f"max by (cluster, kind, value) (cluster_kind_value:selvage_group_failing:ratio{{{FLEET}}})")],
        [CLUSTER, Col("kind", "In common"), Col("value", "Value"),
         Col("@A", "Of its nodes fail", unit="percentunit", steps=[(None, WARN), (0.5, BAD)])],
        sort=["-@A"], empty="No group of four nodes or more fails together: it is single nodes, or everything.",
    ), 14, 5)


def now(board):
    board.row("Readiness now")
    board.add(stat(
        "Nodes by verdict",
        "How does the fleet stand now? "
        "How many nodes are ready, degraded, unready or unknown. All should be ready; a node whose "
        "agent does not answer is in none of the four, one whose report is stale in its last.",
        [Q(f"sum by (state) (cluster_state:selvage_nodes:count{{{FLEET}}})", "{{state}}")],
        overrides={
            "ready": [(None, PLAIN), (1, GOOD)], "degraded": [(None, PLAIN), (1, WARN)],
            "unready": [(None, PLAIN), (1, BAD)], "unknown": [(None, PLAIN), (1, QUIET)],
        },
        wide=True, empty=NO_RULES,
    ), 12, 4)
    board.add(stat(
        "Agents that answer",
        "Does Prometheus reach every agent? "
        "Agents that Prometheus reaches. It should be the number of nodes of the fabric; a node "
        "with a dead agent is missing here, not ready.",
        [Q(NODES, "agents")], empty=NO_RULES,
    ), 4, 4)
    board.add(stat(
        "Agents silent",
        "Which part of the fleet is unseen? "
        "Agents that Prometheus should scrape and that do not answer, by scrape jobs named after "
        "selvage (sidecars left out). It should be 0: of these nodes nothing is known.",
        [Q(zero_of(f"count({targets(FLEET)} == 0)", f"count({targets(FLEET)})"), "silent")],
        steps=[(None, GOOD), (1, BAD)], empty="no data: no scrape job named after selvage",
    ), 4, 4)
    board.add(stat(
        "Reports stale",
        "Do some verdicts no longer count? "
        "Agents that answer and have not judged again for two minutes. It should be 0: their "
        "verdicts are not known, though the counts next to this panel still include them.",
        [Q(zero_of(f"count({stale(FLEET)})",
                   f"count(selvage_report_age_seconds{{{FLEET}}})"), "stale")],
        steps=[(None, GOOD), (1, BAD)],
    ), 4, 4)
    board.add(stat(
        "Share unready",
        "Can large jobs still be placed? "
        "Nodes that are unready, of those whose agents answer. It should be 0; above a tenth, look "
        "at what the nodes share (switch, subnet manager, a rollout) first.",
        [Q(f'sum(cluster_state:selvage_nodes:count{{{FLEET}, state="unready"}}) / {NODES}',
           "unready")],
        "percentunit", steps=[(None, PLAIN), (0.001, WARN), (0.1, BAD)], empty=NO_RULES,
        decimals=1,
    ), 6, 4)
    board.add(stat(
        "Nodes tainted",
        "How many nodes are closed to new pods? "
        "Nodes that carry the agent's taint. New pods do not go there.",
        [Q(f"sum(selvage_node_taint_applied{{{FLEET}}})", "tainted")],
        steps=[(None, PLAIN), (1, WARN)],
        empty="no data: no agent has seen its node's object",
    ), 5, 4)
    board.add(stat(
        "Taints withheld",
        "Do jobs still start on bad nodes? "
        "Nodes that should be tainted and are not: by the budget, a muting, dry run or an API that "
        "does not answer. It should be 0; else jobs still start on nodes that cannot serve them.",
        [Q(zero_of(f"sum(selvage_node_taint_withheld{{{FLEET}}})",
                   f"count({agents(FLEET)})"), "withheld")],
        steps=[(None, PLAIN), (1, BAD)],
    ), 5, 4)
    board.add(stat(
        "Alerts firing",
        "Is anyone called now? "
        "Alerts of selvage's rules that fire: critical is for a person now, warning for a ticket. "
        "Both should be 0.",
        [Q(zero_of(f'count(ALERTS{{alertname=~"Selvage.*", alertstate="firing", '
                   f'severity="{severity}", {FLEET}}})', NODES), severity)
         for severity in ("critical", "warning")],
        overrides={"critical": [(None, PLAIN), (1, BAD)], "warning": [(None, PLAIN), (1, WARN)]},
        wide=True, empty=NO_RULES,
    ), 8, 4)


def why(board):
    board.row("Which nodes, and why")
    since = f"max by ({HOST}) (selvage_fabric_state_since_timestamp_seconds{{{FLEET}}})"
    rows = f"instance_state_reason:selvage_not_ready:rank{{{FLEET}}}"
    rank = f"max by ({HOST}) (instance_state:selvage_not_ready:rank{{{FLEET}}})"
    board.add(table(
        "Nodes that are not ready",
        "Which nodes are not ready, and why? "
        "One row for each finding of each node that is not ready, worst first; a node's name opens "
        "its dashboard. One whose report is stale is here whatever it says; a silent agent is not.",
        [Q(f"{rows} * 1"), Q(f"1000 * ({rows} * 0 + on ({HOST}) group_left () {since})"),
         Q(f"{rows} * 0 + on ({HOST}) group_left () {rank}")],
        [CLUSTER, NODE, Col("state", "Verdict", values=STATE, width=100),
         Col("@B", "Since", unit="dateTimeFromNow", width=130),
         Col("status", "Finding", values=STATUS, width=100), Col("reason", "Reason"),
         Col("subject", "Subject"), Col("check", "Check")],
        sort=["-@A", "instance", "-@C"], empty="No node that answers is degraded, unready, unknown or stale.",
    ), 24, 10)
    board.add(bars(
        "Nodes by reason",
        "Which fault is most common? "
        "How many nodes have a finding with this reason, notices left out. One reason on many "
        "nodes points at what they share.",
        Q("sort_desc(count by (reason) (count by (reason, cluster, instance) "
          f'(selvage_finding{{{FLEET}, status!="notice"}})))', "{{reason}}"),
        steps=[(None, PLAIN), (2, WARN)], empty="No agent that answers has a finding.",
    ), 7, 8)
    board.add(table(
        "Alerts firing",
        "Which alerts fire? "
        "What Prometheus fires now, by selvage's rules. Alertmanager may hold some of it back, as "
        "it should.",
        [Q("max by (cluster, instance, alertname, severity, kind, value, subject, reason, namespace, pod) "
           f'(ALERTS{{alertname=~"Selvage.*", alertstate="firing", {FLEET}}})')],
        [Col("severity", "Severity", values={
            "critical": ("critical", BAD), "warning": ("warning", WARN),
         }, width=90), Col("alertname", "Alert", width=210), CLUSTER, Col("kind", "In common"),
         Col("value", "Value"), NODE, Col("subject", "Subject"), Col("reason", "Reason"),
         Col("namespace", "Namespace"), Col("pod", "Pod")],
        sort=["severity", "instance"], empty="No alert of selvage fires.",
    ), 17, 8)
    board.add(table(
        "Nodes unlike those of their kind",
        "Which nodes have a driver, firmware, kernel, rate, MTU, PFC, GPUDirect path or NCCL that at most one node "
        "in four of their profile has? It moves no verdict: an update that one node missed, or a rollout.",
        [Q(f"max by ({HOST}, profile, kind, value, usual) (instance_kind_value:selvage_node_drift:ratio{{{FLEET}}})")],
        [CLUSTER, NODE, Col("profile", "Profile"), Col("kind", "What differs"), Col("value", "Here"),
         Col("usual", "Usual"), Col("@A", "Nodes with the usual", unit="percentunit")],
        sort=["-@A", "kind", "instance"],
        empty="No value is rare among the nodes of one profile, or the rules (group selvage.drift) are not loaded.",
    ), 24, 7)


def over_time(board):
    board.row("Readiness over time")
    board.add(lines(
        "Nodes by verdict over time",
        "When did it begin? "
        "The same four counts, stacked. The height is the number of agents that answer, so a dip "
        "is agents that went away.",
        [Q(f"sum by (state) (cluster_state:selvage_nodes:count{{{FLEET}}})", "{{state}}")],
        colors=STATES, stack=True, empty=NO_RULES, decimals=0,
    ), 14, 8)
    board.add(lines(
        "Share unready over time",
        "Which cluster is it, and does it grow? "
        "Unready nodes of those that answer, by cluster. Above the dashed line (a tenth) the fleet's "
        "own alert fires.",
        [Q(f"max by (cluster) (cluster:selvage_nodes_unready:ratio{{{FLEET}}})",
           "unready {{cluster}}")],
        "percentunit", steps=[(None, "transparent"), (0.1, BAD)], empty=NO_RULES,
    ), 10, 8)


def taints(board):
    board.row("Taints and their budget")
    board.add(lines(
        "Taints",
        "Are unready nodes tainted? "
        "Nodes with the agent's taint, and nodes that want it and do not get it, by reason.",
        [Q(f"sum(selvage_node_taint_applied{{{FLEET}}})", "applied", color=WARN),
         Q(f"sum by (reason) (selvage_node_taint_withheld{{{FLEET}}})", "withheld: {{reason}}")],
        stack=True, empty="no data: no agent has seen its node's object", decimals=0,
    ), 9, 7)
    board.add(lines(
        "Budget: fullest group",
        "How near is the budget to its end? "
        "Taints claimed of the limit of their group, as the nodes that want one last saw it; of each "
        "cluster's groups the fullest. At the dashed line every further node goes untainted.",
        [Q(f"max by (cluster) (instance:selvage_taint_budget:ratio{{{FLEET}}})",
           "claimed of the limit {{cluster}}")],
        "percentunit", steps=[(None, "transparent"), (1, BAD)],
        empty="no data: no node has wanted a taint", decimals=0,
    ), 7, 7)
    board.add(table(
        "Taints withheld now",
        "Which nodes are not tainted though they should be, and why? "
        "Nodes that should be tainted and are not. Budget: take nodes out of service by hand, or "
        "raise it if the faults are real.",
        [Q(f"max by ({HOST}, reason) (selvage_node_taint_withheld{{{FLEET}}}) == 1")],
        [CLUSTER, NODE, Col("reason", "Withheld by")],
        empty="No node that answers has a taint withheld.",
    ), 8, 7)


def links(board):
    board.row("Rails")
    state = rails(f"max by ({PORT}) (selvage_port_state_id{{{FLEET}}})", FLEET)
    board.add(lines(
        "Rails by state",
        "Are all rails up? "
        "Ports of the compute fabric by their logical state. All should be active.",
        [Q(f'count_values("state", {state})', "{{state}}")],
        colors={"1": BAD, "2": WARN, "3": WARN, "4": GOOD, "5": PLAIN},
        names={"1": "down", "2": "init", "3": "armed", "4": "active", "5": "active, deferred"},
        stack=True, empty="no data: no agent sees a rail", decimals=0,
    ), 12, 8)
    seen = "device, port, link_layer, netdev"
    rail = f'instance_device_port:selvage_port:info{{{FLEET}, rail="true"}}'
    down = f"{rail} and on ({PORT}) (selvage_port_up{{{FLEET}}} == 0)"
    board.add(table(
        "Rails that are down",
        "Which rails are down? "
        "Rails that their agent reports as not active. A device that fell off the bus is not a port "
        "any more: it is among the reasons above.",
        [Q(f"max by ({HOST}, {seen}, firmware) ({down})")],
        [CLUSTER, NODE, Col("device", "Device"), Col("port", "Port", width=60),
         Col("link_layer", "Link layer"), Col("netdev", "Interface"),
         Col("firmware", "Firmware")],
        sort=["instance"], empty="No rail that an agent sees is down.",
    ), 12, 8)


def offenders(board):
    board.row("Top offenders")
    board.add(table(
        "Link errors in the last hour",
        "Which cables or modules are going bad? "
        "The ten ports whose error counters rose most. A healthy link counts next to none; errors "
        "that move with the cable are the cable's.",
        [Q(f"topk(10, sum by ({PORT}) "
           f"(instance_device_port:selvage_port_errors:increase1h{{{FLEET}}}) >= 1)")],
        [CLUSTER, NODE, Col("device", "Device"), Col("port", "Port", width=60),
         Col("@A", "Errors", unit="short", steps=[(None, PLAIN), (10, WARN), (1000, BAD)])],
        sort=["-@A"], empty="No port counted an error, or none is counted here.",
    ), 8, 8)
    board.add(table(
        "Link edges in the last hour",
        "Which links flap? "
        "The ten ports whose link went up or down most often (a flap is two edges). There should "
        "be none on a node in service.",
        [Q(f"topk(10, sum by ({PORT}) "
           f"(increase(selvage_port_link_transitions_total{{{FLEET}}}[1h])) >= 1)")],
        [CLUSTER, NODE, Col("device", "Device"), Col("port", "Port", width=60),
         Col("@A", "Edges", unit="short", steps=[(None, WARN), (6, BAD)])],
        sort=["-@A"], empty="No link changed that an agent sees.",
    ), 8, 8)
    board.add(table(
        "PFC pause share",
        "Where is the fabric congested? "
        "The ten priorities that were paused the longest part of the last five minutes: above a "
        "tenth is pressure, above half a storm. receive: the fabric slows the node; transmit: the "
        "node slows others.",
        [Q("topk(10, max by (cluster, instance, netdev, priority, direction) "
           f"(instance_netdev_priority_direction:selvage_pfc_pause:ratio{{{FLEET}}}) > 0.001)")],
        [CLUSTER, NODE, Col("netdev", "Interface"), Col("priority", "Priority", width=70),
         Col("direction", "Direction", width=90),
         Col("@A", "Paused", unit="percentunit", steps=[(None, PLAIN), (0.1, WARN), (0.5, BAD)])],
        sort=["-@A"], empty="No priority that is counted was paused.",
    ), 8, 8)
    board.add(table(
        "Xid errors",
        "Which GPUs report errors? "
        "NVIDIA's GPU errors in the nodes' kernel logs, most frequent first. Classes other than app "
        "tell of hardware, driver or memory.",
        [Q("topk(15, sum by (cluster, instance, pci, xid, class) "
           f"(selvage_gpu_xid_total{{{FLEET}}}) > 0)")],
        [CLUSTER, NODE, Col("pci", "GPU"), Col("xid", "Xid", width=60), Col("class", "Class"),
         Col("@A", "Count", unit="short")],
        sort=["-@A"], empty="No Xid in a kernel log that an agent reads.",
    ), 12, 8)
    board.add(table(
        "NIC events in the kernel log",
        "Which NICs complain? "
        "What drivers of RDMA NICs told, most frequent first: heat, cables, firmware.",
        [Q("topk(15, sum by (cluster, instance, pci, event) "
           f"(selvage_nic_kernel_events_total{{{FLEET}}}) > 0)")],
        [CLUSTER, NODE, Col("pci", "NIC"), Col("event", "Event"),
         Col("@A", "Count", unit="short")],
        sort=["-@A"], empty="No NIC event in a kernel log that an agent reads.",
    ), 12, 8)


def jobs(board):
    board.row("Jobs")
    columns = [CLUSTER, NODE, Col("namespace", "Namespace"), Col("pod", "Pod", link=POD_LINK)]
    board.add(table(
        "Jobs that fell back to TCP",
        "Which jobs are slow because of TCP? "
        "Containers whose NCCL moves data between nodes by TCP though nothing asks for that, with "
        "the causes that NCCL told. There should be none.",
        [Q(f"container_cause:selvage_nccl_fallback:info{{{FLEET}}} * 1")],
        [*columns, Col("container", "Container"), Col("job", "Job"), Col("cause", "Cause"),
         Col("nccl_version", "NCCL", width=80)],
        sort=["namespace"], empty="No job whose lines can be read has fallen back.",
    ), 14, 8)
    board.add(table(
        "Suspects",
        "Which jobs may be on TCP without saying so? "
        "Pods with GPUs that move many bytes by TCP and own no RDMA queue pair: a fallback that no "
        "log admits, or a data set. A suspicion, not a verdict.",
        [Q(suspects(FLEET))], [*columns, Col("job", "Job")],
        sort=["namespace"], empty="No pod that could be inspected is suspect.",
    ), 10, 8)


def benchmarks(board):
    board.row("Benchmarks")
    empty = "no data: no node has results of selvage nccl --bench --textfile for node_exporter."
    ratio = f"max by ({HOST}, collective) (selvage_bench_ratio{{{FLEET}}})"
    board.add(lines(
        "Bus bandwidth of line rate",
        "Does the fabric deliver what it should? "
        "What nccl-tests measured, run after run, as a share of what a node's rails can carry. It "
        "should stay above the dashed line; a node is where the results were left.",
        [Q(ratio, "{{instance}} {{collective}}")],
        "percentunit", steps=[(None, "transparent"), (0.8, GOOD)], empty=empty, points=True,
    ), 12, 8)
    verdict = f"max by ({HOST}, collective, verdict) (selvage_bench_verdict{{{FLEET}}} == 1)"
    measured = (f"max by ({HOST}, collective) "
                f"(selvage_bench_bus_bandwidth_bytes_per_second{{{FLEET}}})")
    when = f"max by ({HOST}) (selvage_bench_timestamp_seconds{{{FLEET}}})"
    board.add(table(
        "Last benchmarks",
        "Which node fell short in its last benchmark? "
        "The last result of each node and collective, worst first. A run that shows nothing has a "
        "verdict and no numbers.",
        [Q(f"1000 * ({verdict} * 0 + on ({HOST}) group_left () {when})"),
         Q(f"{verdict} * 0 + on ({HOST}, collective) group_left () {measured}"),
         Q(f"{verdict} * 0 + on ({HOST}, collective) group_left () {ratio}")],
        [CLUSTER, NODE, Col("collective", "Collective"),
         Col("verdict", "Verdict", values={
             "line_rate": ("line rate", GOOD), "below": ("below line rate", WARN),
             "tcp": ("TCP's number", BAD), "wrong_results": ("wrong results", BAD),
             "unknown": ("cannot tell", QUIET),
         }),
         Col("@B", "Bus bandwidth", unit="Bps"),
         Col("@C", "Of line rate", unit="percentunit"),
         Col("@A", "Judged", unit="dateTimeFromNow", width=130)],
        sort=["instance", "@C"], empty=empty,
    ), 12, 8)


def board():
    made = Board(
        "selvage-fleet", "Readiness of all nodes' GPU fabric: which nodes are not ready, and why.",
        [],
    )
    for part in (how_many, now, why, over_time, taints, links, offenders, jobs, benchmarks):
        part(made)
    made.annotate_alerts(FLEET)
    return made
