"""The rules, their tests and the inhibition rules as objects, and what must hold for them.

Each check takes the root of a tree and gives complaints, a line each; none: all is well.
"""

import dataclasses
import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "alerts"))
import generate  # noqa: E402: alerts/ is no package
SEVERITIES = ["warning", "critical"]
ANNOTATIONS = ["summary", "description", "impact", "command", "runbook_url"]
# What is not of the agent's catalogue: of Prometheus, kube-state-metrics and node_exporter.
FOREIGN = {
    "up", "kube_node_status_allocatable", "kube_node_spec_unschedulable", "kube_node_deletion_timestamp",
    "kube_node_created", "kube_node_status_condition", "kube_node_info", "node_textfile_mtime_seconds",
}
LONGEST = 300


def load(path: pathlib.Path):
    return yaml.safe_load(path.read_text())


def rules(root: pathlib.Path) -> list:
    groups = load(root / "alerts/selvage.rules.yaml")["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts(root: pathlib.Path) -> list:
    return [rule for rule in rules(root) if "alert" in rule]


def reasons_of(rule: dict) -> set:
    """Reasons that the rule takes by name; not those of `unless`, which it leaves to another."""
    found = set()
    for line in rule["expr"].splitlines():
        if not line.strip().startswith("unless"):
            for text in re.findall(r'reason=~?"([A-Z][A-Za-z0-9|]*)"', line):
                found.update(text.split("|"))
    return found


def statuses_of(rule: dict) -> set:
    """Statuses of which the rule takes every finding, whatever its reason."""
    found = re.fullmatch(r'selvage_finding{caused_by="", status="(\w+)"}', " ".join(rule["expr"].split("\n")[1:2]).strip())
    return {found[1]} if found else set()


def documented_reasons(root: pathlib.Path) -> dict:
    """Reason to status, as docs/checks.md has it; those of an unknown verdict have none."""
    page = (root / "docs/checks.md").read_text()
    found = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if re.fullmatch(r"`[A-Z][A-Za-z0-9]+`", cells[0]):
            found[cells[0].strip("`")] = cells[1] if len(cells) == 5 else "verdict"
    return found


def metrics(root: pathlib.Path) -> set:
    page = (root / "docs/metrics.md").read_text()
    return set(re.findall(r"^\| `(\w+)` \| (?:gauge|counter)", page, re.MULTILINE))


def silent_reasons(root: pathlib.Path) -> set:
    """Those of which the head of the rules file says why no rule takes them."""
    head = (root / "alerts/selvage.rules.yaml").read_text().split("\ngroups:\n")[0]
    _, told = head.split("Reasons that no rule takes", 1)
    return set(re.findall(r"\b[A-Z]\w*[a-z]\w*[A-Z]\w*\b|\b(?:Starting|Settling)\b", told)) - {"SelvageFabricUnknown"}


def names(root: pathlib.Path) -> list:
    """Metrics, reasons, labels and annotations."""
    lines, known = [], metrics(root) | FOREIGN
    recorded = {rule["record"] for rule in rules(root) if "record" in rule}
    documented = documented_reasons(root)
    taken, statuses = set(), set()
    for rule in rules(root):
        name = rule.get("record") or rule["alert"]
        bare = re.sub(r'"[^"]*"', "", rule["expr"])
        for metric in re.findall(r"(?<![\w:$])(?:\w+:)?(?:selvage_|kube_|node_|up\b)[\w:]*", bare):
            if metric not in (recorded if ":" in metric else known):
                lines.append(f"{name}: no metric {metric}")
        if len(rule["expr"]) > LONGEST:
            lines.append(f"{name}: longer than {LONGEST} characters: a recording rule takes a part of it")
        if "by (" in rule["expr"] and "instance" in rule["expr"] and "cluster" not in rule["expr"]:
            lines.append(f"{name}: loses the label cluster")
        mine = reasons_of(rule)
        taken |= mine
        for reason in sorted(mine - documented.keys()):
            lines.append(f"{name}: no reason {reason}")
        if "alert" not in rule:
            continue
        statuses |= statuses_of(rule)
        if rule.get("for", " offset " in rule["expr"]) not in (True, "1m", "2m", "10m", "15m", "30m", "1h"):
            lines.append(f"{name}: after a restart of Prometheus it would be sent again")
        labels = {"severity": SEVERITIES, "scope": ["fleet", "node", "pod"]}
        for label, values in labels.items():
            if rule["labels"].get(label) not in values:
                lines.append(f"{name}: {label} is one of {' '.join(values)}")
        if (rule["labels"].get("severity") == "critical") != (rule["labels"].get("scope") == "fleet"):
            lines.append(f"{name}: critical is for the fleet, and nothing else is")
        if list(rule["annotations"]) != ANNOTATIONS:
            lines.append(f"{name}: annotations are {' '.join(ANNOTATIONS)}")
        elif not re.fullmatch(re.escape(generate.BASE) + r"(Selvage\w+|{{ \$labels\.reason }})", rule["annotations"]["runbook_url"]):
            lines.append(f"{name}: runbook_url")
        elif rule["labels"].get("scope") == "node" and "$labels.instance" not in rule["annotations"]["summary"]:
            lines.append(f"{name}: the summary names the node")
    silent = silent_reasons(root)
    for reason, status in documented.items():
        if (reason in taken or status in statuses) == (reason in silent):
            lines.append(f"{reason} ({status}): taken by a rule, or named as silent, and not both")
    lines += [f"{reason}: named as silent, and there is no such" for reason in silent - documented.keys()]
    return lines


def completeness(root: pathlib.Path) -> list:
    """Each alert fires in one case and is silent before and after in the same; each recorded series is
    asked for, or used by an alert."""
    wanted = {rule["alert"] for rule in alerts(root)}
    recorded = {rule["record"] for rule in rules(root) if "record" in rule}
    fired, asked, lines = set(), " ".join(rule["expr"] for rule in rules(root)), []
    for path in sorted((root / "alerts/tests").glob("*.yaml")):
        for case in load(path)["tests"]:
            asked += " ".join(each["expr"] for each in case.get("promql_expr_test", []))
            tests = case.get("alert_rule_test", [])
            firing = [bool(each.get("exp_alerts")) for each in tests]
            if not any(firing):
                continue
            if firing[0] or firing[-1]:
                lines.append(f"{path.name}: {case['name']}: does not begin and end in silence")
            for each in tests:
                for alert in each.get("exp_alerts") or []:
                    fired.add(each["alertname"])
                    if list(alert["exp_annotations"]) != ANNOTATIONS:
                        lines.append(f"{path.name}: {case['name']}: annotations")
    lines += [f"{name}: no case in which it fires" for name in sorted(wanted - fired)]
    lines += [f"{name}: a case without a rule" for name in sorted(fired - wanted)]
    lines += [f"{name}: no case asks for it" for name in sorted(recorded) if name not in asked]
    return lines


def _said(done: subprocess.CompletedProcess) -> list:
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines() or ["failed"]


def _call(root: pathlib.Path, *command) -> list:
    return _said(subprocess.run(command, cwd=root / "alerts", capture_output=True, text=True))


def promtool_check(root: pathlib.Path) -> list:
    return _call(root, "promtool", "check", "rules", "selvage.rules.yaml")


def promtool_test(root: pathlib.Path) -> list:
    cases = sorted(str(path) for path in (root / "alerts/tests").glob("*.yaml"))
    return _call(root, "promtool", "test", "rules", *cases)


def generated(root: pathlib.Path) -> list:
    return _call(root, sys.executable, "generate.py", "--check")


def amtool(root: pathlib.Path) -> list:
    return _call(root, "amtool", "check-config", "alertmanager.yaml")


@dataclasses.dataclass(frozen=True)
class Matcher:
    label: str
    sign: str
    value: str

    @classmethod
    def of(cls, text: str):
        return cls(*re.fullmatch(r'\s*(\w+)\s*(=~|!~|!=|=)\s*"(.*)"\s*', text).groups())

    def holds(self, labels: dict) -> bool:
        value = labels.get(self.label, "")
        same = re.fullmatch(self.value, value) if "~" in self.sign else value == self.value
        return bool(same) != self.sign.startswith("!")


class Inhibition:
    """The inhibition rules, as Alertmanager takes them."""

    def __init__(self, root: pathlib.Path):
        self.rules = [
            (
                [Matcher.of(text) for text in rule["source_matchers"]],
                [Matcher.of(text) for text in rule["target_matchers"]],
                rule["equal"],
            )
            for rule in load(root / "alerts/alertmanager.yaml").get("inhibit_rules") or []
        ]

    def mutes(self, source: dict, target: dict) -> bool:
        for sources, targets, equal in self.rules:
            def is_source(labels, matchers=sources):
                return all(matcher.holds(labels) for matcher in matchers)

            def is_target(labels, matchers=targets):
                return all(matcher.holds(labels) for matcher in matchers)

            if not (is_source(source) and is_target(target)):
                continue
            if any(source.get(label, "") != target.get(label, "") for label in equal):
                continue
            # Alerts that are both cannot mute each other by the same rule.
            if not (is_source(target) and is_target(source)):
                return True
        return False


def examples(root: pathlib.Path) -> list:
    """Labels of one alert for each rule and reason, all of one node, one pod, one part; about NCCL, also
    of a job without a pod."""
    found = []
    for rule in alerts(root):
        base = {"alertname": rule["alert"], **rule["labels"]}
        scope = base["scope"]
        if scope != "fleet":
            base["instance"] = "gpu-01"
        if scope == "pod":
            found += [base | {"namespace": "ml", "pod": "train-0"}, base | {"job": "42"}]
            continue
        reasons = sorted(reasons_of(rule)) if "reason)" in rule["expr"] else []
        found += [{**base, "reason": reason, "subject": "0000:9d:00"} for reason in reasons] or [base]
    return found


def inhibition(root: pathlib.Path) -> list:
    """No two alerts mute each other, and none is muted by one that fewer people see."""
    mutes, all_of_them, lines = Inhibition(root).mutes, examples(root), []
    for one in all_of_them:
        for other in all_of_them:
            if not mutes(one, other):
                continue
            words = f"{one['alertname']} {one.get('reason', '')} mutes {other['alertname']}"
            if one is other or mutes(other, one):
                lines.append(f"{words}, and the other way round")
            if SEVERITIES.index(one["severity"]) < SEVERITIES.index(other["severity"]):
                lines.append(f"{words}, which is more severe")
    return lines
