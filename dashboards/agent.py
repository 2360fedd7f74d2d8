"""selvage itself: whether the agents see, what they cost, and whether the API takes their word."""

import frame
from parts import BAD, GOOD, NODE_LINK, PLAIN, QUIET, WARN, Col, Q, bars, lines, stat, table
from queries import (
    HOST, NODE, STALE_AFTER, agents, by_agents, highest, targets, zero_of,
)

ANSWER = f"count({agents(NODE)})"
TARGETS = targets(NODE)
# Sidecars of jobs have the first and the last, too.
SOURCE_UP = by_agents(f"selvage_source_up{{{NODE}}}", NODE)
FAILING = f"instance_source:selvage_source_failing:bool{{{NODE}}}"
BUILD = by_agents(f"selvage_build_info{{{NODE}}}", NODE)
EACH = "{{instance}}"
NO_API = "no data: no agent has a cluster to tell"


def now(board):
    board.row("Now")
    board.add(stat(
        "Agents that answer", "Does every node have an agent that answers? "
        "Agents that Prometheus reaches. It should be the number of nodes.",
        [Q(ANSWER, "agents")],
    ), 4, 4)
    board.add(stat(
        "Targets down", "Which agents are silent? "
        "Agents whose scrape job is named after selvage and that do not answer, sidecars "
        "left out. It should be 0; an agent that is not even a target is not counted.",
        [Q(zero_of(f"count({TARGETS} == 0)", f"count({TARGETS})"), "down")],
        steps=[(None, GOOD), (1, BAD)], empty="no data: no scrape job named after selvage",
    ), 4, 4)
    board.add(stat(
        "Sources failing", "Is anything not read? "
        "Sources over all nodes whose last read did not end well, or that are "
        "stalled. It should be 0: what is not read is not judged.",
        [Q(f"sum({FAILING})", "failing")],
        steps=[(None, GOOD), (1, BAD)],
    ), 4, 4)
    board.add(stat(
        "Oldest report", "Does every agent still judge? "
        "Age of the oldest agent's last evaluation. Above two minutes an agent "
        "lives and does not judge.",
        [Q(f"max(selvage_report_age_seconds{{{NODE}}})", "age")], "s",
        steps=[(None, GOOD), (30, WARN), (STALE_AFTER, BAD)], decimals=1,
    ), 4, 4)
    board.add(stat(
        "API unreachable", "Do agents reach the API server? "
        "Agents to whom the API server does not answer. It should be 0.",
        [Q(zero_of(f"count(selvage_node_api_up{{{NODE}}} == 0)",
                   f"count(selvage_node_api_up{{{NODE}}})"), "unreachable")],
        steps=[(None, GOOD), (1, BAD)], empty=NO_API,
    ), 4, 4)
    board.add(stat(
        "Kernel records lost", "Was an event missed? "
        "Kernel-log records that were overwritten before any agent read "
        "them, in the time range. It should be 0; else an event may be hidden.",
        [Q(f"sum(increase(selvage_kmsg_records_lost_total{{{NODE}}}[$__range]))", "lost")],
        steps=[(None, GOOD), (1, WARN)], decimals=0,
    ), 4, 4)


def sources(board):
    board.row("Sources")
    board.add(bars(
        "Nodes where the source answers", "Is a source missing on many nodes? "
        "For each source, the share of agents whose last read "
        "ended well, of those that have it. It should be 1.",
        Q(f"sort(avg by (source) ({SOURCE_UP}))", "{{source}}"), "percentunit",
        steps=[(None, BAD), (0.9, WARN), (1, GOOD)], decimals=1,
    ), 8, 9)
    board.add(lines(
        "Duration of reads", "Which source is slow? "
        "How long the last read of each source took on the slowest node. "
        "Milliseconds are normal; seconds mean a driver or firmware that hangs.",
        [Q(f"max by (source) (selvage_source_duration_seconds{{{NODE}}})", "{{source}}")], "s",
        steps=[(None, "transparent"), (5, WARN)],
    ), 8, 9)
    board.add(lines(
        "Stalled reads", "Does a read hang? "
        "Reads that are out beyond their deadline, by source, over all nodes. "
        "There should be none.",
        [Q(f"sum by (source) (selvage_source_stalled{{{NODE}}})", "{{source}}")], decimals=0,
    ), 8, 9)
    board.add(table(
        "Sources that fail", "Where does a source fail? "
        "Which source does not answer on which node; 1 and more stalled reads "
        "hang in the kernel.",
        [Q(f"max by ({HOST}, source) (selvage_source_stalled{{{NODE}}}) and on ({HOST}, source) "
           f"({FAILING} == 1)")],
        [Col("cluster", "Cluster", width=110), Col("instance", "Node", link=NODE_LINK, width=140),
         Col("source", "Source"),
         Col("@A", "Stalled", unit="short", steps=[(None, PLAIN), (1, BAD)])],
        sort=["-@A"], empty="Every source of every agent that answers is read.",
    ), 12, 7)
    board.add(lines(
        "Kernel records lost", "Which nodes lost records? "
        "Kernel-log records overwritten before they were read, of the ten "
        "nodes that lost most in the time range. There should be none.",
        [Q(highest(
            f"sum by ({HOST}) (increase(selvage_kmsg_records_lost_total{{{NODE}}}"
            "[$__rate_interval]))",
            f"sum by ({HOST}) (increase(selvage_kmsg_records_lost_total{{{NODE}}}[$__range] "
            "@ end()))"), EACH)], decimals=0,
    ), 12, 7)


def tasks(board):
    board.row("Tasks and bounds")
    board.add(lines(
        "Tasks that make no progress or panicked", "Has a part of the agent stopped? "
        "Long-lived tasks of agents that hang or cannot be "
        "started, and panics of tasks, each a bug of selvage, by task, over all nodes. There should be none.",
        [Q(f"sum by (task) (1 - selvage_task_up{{{NODE}}})", "{{task}}"),
         Q(f"sum by (task) (increase(selvage_task_panics_total{{{NODE}}}[$__rate_interval]))",
           "{{task}} panics")], decimals=0,
    ), 12, 7)
    board.add(lines(
        "Bounds on pods", "Does a pod log too much? "
        "How often a bound on what pods can make the agent hold or say took effect, by "
        "kind. A pod that logs without end does it, and costs others nothing.",
        [Q(f"sum by (what) (increase(selvage_pod_limits_total{{{NODE}}}[$__rate_interval]))",
           "{{what}}")], decimals=0,
    ), 12, 7)


def worst(series):
    """The ten that were highest in the range, so that a fleet of thousands stays legible, and the
    middle of all."""
    now = f"max by ({HOST}) ({series}{{{NODE}}})"
    over = f"max by ({HOST}) (max_over_time({series}{{{NODE}}}[$__range] @ end()))"
    return [Q(highest(now, over), EACH), Q(f"quantile(0.5, {now})", "median", QUIET, dashed=True)]


def cost(board):
    board.row("What it costs: the ten highest of the time range, and the median of all")
    board.add(lines(
        "CPU", "What CPU does it cost? "
        "Share of one core that an agent uses. A few thousandths are normal.",
        worst("instance:selvage_agent_cpu:rate5m"),
        "percentunit", steps=[(None, "transparent"), (0.1, WARN)],
    ), 8, 8)
    board.add(lines(
        "Memory", "What memory does it cost? "
        "Resident memory of an agent. The shipped limit is 64 MiB (dashed); it should "
        "stay level.",
        worst("instance:selvage_agent_memory:bytes"), "bytes",
        steps=[(None, "transparent"), (67108864, BAD)],
    ), 8, 8)
    board.add(lines(
        "Age of reports", "Which agent no longer judges? "
        "Age of an agent's last evaluation when it was scraped. Above two minutes "
        "(dashed) it lives and does not judge.",
        worst("selvage_report_age_seconds"), "s",
        steps=[(None, "transparent"), (STALE_AFTER, BAD)],
    ), 8, 8)
    board.add(lines(
        "Duration of scrapes", "Are scrapes quick? "
        "How long Prometheus waited for an agent. Milliseconds are normal.",
        worst("instance:selvage_agent_scrape:seconds"), "s",
        steps=[(None, "transparent"), (1, WARN)],
    ), 8, 8)
    board.add(lines(
        "Series", "How many series does it cost? "
        "Series that an agent exports: at most 600 by default and 2,000 with everything "
        "on, on a node with 18 ports.",
        worst("instance:selvage_agent_series:count"),
        steps=[(None, "transparent"), (2000, WARN)], decimals=0,
    ), 8, 8)
    judged = f"rate(selvage_report_generations_total{{{NODE}}}[$__rate_interval])"
    board.add(lines(
        "Evaluations", "Do agents keep evaluating? "
        "How often agents re-evaluate: the ten that do so least often at the end of the time "
        "range, and the median. A flat zero is an agent that stands still.",
        [Q(highest(f"sum by ({HOST}) ({judged})", f"sum by ({HOST}) ({judged[:-1]} @ end()))",
                   aggregation="bottomk"), EACH),
         Q(f"quantile(0.5, sum by ({HOST}) ({judged}))", "median", QUIET, dashed=True)], "ops",
    ), 8, 8)


def cluster(board):
    board.row("Telling the cluster")
    board.add(lines(
        "Writes by result", "Are writes to Nodes accepted? "
        "Requests that write to nodes or tell events, over all agents. ok, and "
        "few of them; denied or error want the logs.",
        [Q(f"sum by (result) (rate(selvage_node_writes_total{{{NODE}}}[$__rate_interval]))",
           "{{result}}")], "reqps", empty=NO_API,
        colors={"ok": GOOD, "dry_run": PLAIN, "conflict": QUIET, "denied": BAD, "error": BAD,
                "timeout": WARN, "throttled": WARN},
    ), 8, 8)
    board.add(lines(
        "API server answers", "Since when can the API server not be reached? "
        "Agents to whom the API server answers, and those to whom it does not.",
        [Q(f"sum(selvage_node_api_up{{{NODE}}})", "answers", color=GOOD),
         Q(f"sum(1 - selvage_node_api_up{{{NODE}}})", "does not answer", color=BAD)],
        stack=True, empty=NO_API, decimals=0,
    ), 8, 8)
    board.add(lines(
        "Pending on nodes' objects", "Do the Nodes carry what was judged? "
        "Nodes whose object lacks what it should carry, by kind. It "
        "should fall to nothing within seconds; in a dry run it is what would be written.",
        [Q(f"sum by (what) (selvage_node_pending{{{NODE}}}) or on () label_replace("
           f'0 * count(selvage_node_api_up{{{NODE}}}), "what", "nothing", "", "")', "{{what}}")],
        empty=NO_API, decimals=0,
    ), 8, 8)


def versions(board):
    board.row("Versions and certificates")
    board.add(bars(
        "Agents by version", "Is the rollout done? "
        "How many agents run which version. One, but while it rolls out.",
        Q(f"count by (version) ({BUILD})", "{{version}}"), decimals=0,
    ), 8, 6)
    board.add(lines(
        "Agents by version over time", "How did the rollout go? "
        "A rollout as it went. It should end with one version.",
        [Q(f"count by (version) ({BUILD})", "{{version}}")],
        stack=True, decimals=0,
    ), 8, 6)
    expiry = f"min(selvage_tls_certificate_expiry_timestamp_seconds{{{NODE}}}) - time()"
    board.add(stat(
        "First certificate to end", "Does a certificate run out? "
        "How long until the first agent's serving certificate ends. "
        "Below a week something does not renew it.",
        [Q(expiry, "left")], "s", steps=[(None, BAD), (604800, WARN), (1209600, GOOD)],
        empty="No agent serves TLS.",
    ), 4, 6)
    board.add(stat(
        "Reloads that failed", "Did a reload fail? "
        "Attempts to reload certificates or tokens that failed, in the "
        "time range. It should be 0.",
        [Q(f"sum(increase(selvage_serve_reload_failures_total{{{NODE}}}[$__range]))", "failed")],
        steps=[(None, GOOD), (1, BAD)], empty="No agent has such files.", decimals=0,
    ), 4, 6)


def board():
    made = frame.Board(
        "selvage-agent", "The agents themselves: what they see, cost and write.",
        [frame.node(multi=True)],
    )
    for part in (now, sources, tasks, cost, cluster, versions):
        part(made)
    made.annotate_alerts(
        'alertname=~"Selvage(Agent|Source|Certificate|NodeNotTold).*", cluster=~"$cluster", instance=~"$node"'
    )
    return made
