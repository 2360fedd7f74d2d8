"""Which metrics there are, with their labels; and which an expression asks for."""

import re

import promql_parser as promql

from boards import ROOT

# Labels of a target: Prometheus or whoever configures it puts them on every series.
TARGET = {"cluster", "instance", "job"}
OTHERS = {
    "up": set(), "scrape_duration_seconds": set(), "scrape_samples_scraped": set(),
    "ALERTS": {"alertname", "alertstate", "severity", "component", "scope", "namespace", "pod"},
}
RULES = ROOT / "alerts/selvage.rules.yaml"
# For a tree that has no rules yet.
RECORDED = {
    "cluster:selvage_nodes:count", "cluster_state:selvage_nodes:count",
    "cluster:selvage_nodes_unready:ratio", "instance_device_port:selvage_port_receive:rate5m",
    "instance_device_port:selvage_port_transmit:rate5m",
    "instance_device_port:selvage_port_receive_utilization:ratio",
    "instance_device_port:selvage_port_transmit_utilization:ratio",
    "instance_netdev_priority_direction:selvage_pfc_pause:ratio",
    "instance_device_port:selvage_port_errors:increase1h", "instance:selvage_findings:count",
}


def documented():
    """Metrics by name, with their labels, out of docs/metrics.md."""
    known = {}
    for line in (ROOT / "docs/metrics.md").read_text().splitlines():
        cells = line.split("|")
        if len(cells) > 5 and (name := re.fullmatch(r" `([a-z_0-9]+)` ", cells[1])):
            known[name[1]] = set(re.findall(r"`(\w+)`", cells[3]))
    return known


def recorded():
    if not RULES.exists():
        return RECORDED
    return set(re.findall(r"^\s*-?\s*record:\s*(\S+)", RULES.read_text(), re.MULTILINE))


def selectors(expr):
    """(metric, labels that its matchers name) of each selector in a parsed expression."""
    found = []
    stack = [promql.parse(expr)]
    while stack:
        node = stack.pop()
        if isinstance(node, promql.VectorSelector):
            found.append((node.name, {each.name for each in node.matchers.matchers}))
            continue
        for part in ("lhs", "rhs", "expr", "param", "vector_selector"):
            if (child := getattr(node, part, None)) is not None:
                stack.append(child)
        stack += list(getattr(node, "args", None) or [])
    return found
