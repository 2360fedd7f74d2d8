"""Which metrics, labels and values of labels there are; and which an expression asks for."""

import re

import promql_parser as promql
import yaml

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
    """Metrics by name, with their labels, out of docs/metrics.md and docs/bench.md."""
    bench = (ROOT / "docs/bench.md").read_text()
    known = {
        name: set(re.findall(r"\w+", labels))
        for name, labels in re.findall(r"(?m)^\| `(selvage_bench_\w+)(?:\{([^}]*)\})?` \|", bench)
    }
    for line in (ROOT / "docs/metrics.md").read_text().splitlines():
        cells = line.split("|")
        if len(cells) > 5 and (name := re.fullmatch(r" `([a-z_0-9]+)` ", cells[1])):
            known[name[1]] = set(re.findall(r"`(\w+)`", cells[3]))
    return known


def values():
    """What each label was seen to hold: in what agents served (tests/golden), in the words of
    docs/metrics.md about its metrics, and in the rules' own labels."""
    known = {"alertstate": {"firing"}, "severity": {"critical", "warning", "info"}}
    for path in sorted((ROOT / "tests/golden").glob("*.metrics")):
        for label, value in re.findall(r'[{,](\w+)="([^"]*)"', path.read_text()):
            known.setdefault(label, set()).add(value)
    for line in (ROOT / "docs/metrics.md").read_text().splitlines():
        if line.startswith("| `") and line.count("|") > 5:
            for label in re.findall(r"`(\w+)`", line.split("|")[3]):
                known.setdefault(label, set()).update(re.findall(r"\w+", line.split("|")[5]))
    if RULES.exists():
        for group in yaml.safe_load(RULES.read_text())["groups"]:
            for rule in group["rules"]:
                for label, value in rule.get("labels", {}).items():
                    known.setdefault(label, set()).add(value)
    return known


def counters():
    """Hardware counters that are exported by default, out of docs/metrics.md."""
    rows = re.findall(r"\| [^|]+ \| `selvage_port_hw_counter_total` \| (.*) \|", (
        ROOT / "docs/metrics.md").read_text())
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def recorded():
    if not RULES.exists():
        return RECORDED
    return set(re.findall(r"^\s*-?\s*record:\s*(\S+)", RULES.read_text(), re.MULTILINE))


def rules():
    """Expressions of the recording rules that are there for the dashboards."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["expr"] for group in groups if group["name"].startswith("selvage.boards")
            for rule in group["rules"]]


def selectors(expr):
    """(metric, its matchers) of each selector in a parsed expression."""
    found = []
    stack = [promql.parse(expr)]
    while stack:
        node = stack.pop()
        if isinstance(node, promql.VectorSelector):
            found.append((node.name, node.matchers.matchers))
            continue
        for part in ("lhs", "rhs", "expr", "param", "vector_selector"):
            if (child := getattr(node, part, None)) is not None:
                stack.append(child)
        stack += list(getattr(node, "args", None) or [])
    return found
