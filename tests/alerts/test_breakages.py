"""The checks can fail: each breakage is found by the check that is meant for it."""

import concurrent.futures
import os
import pathlib
import shutil
import tempfile
import unittest

import rules
import test_inhibition
from rules import ROOT

RULES = "alerts/selvage.rules.yaml"
CONFIG = "alerts/alertmanager.yaml"
CHECKS = "docs/checks.md"
METRICS = "docs/metrics.md"


def unit(case: str):
    """One file of unit tests: all of them take half a minute."""
    def check(root):
        for path in (root / "alerts/tests").glob("*.yaml"):
            if path.stem != case:
                path.unlink()
        return rules.promtool_test(root)
    return check


def on_alertmanager(root):
    """The cases on a real Alertmanager; a difference is expected here, so it need not last long."""
    return test_inhibition.complaints(root, patience=5.0)


# File, text, what stands in its place, the check that must complain.
BREAKAGES = [
    (RULES, 'state="unready"}) == 1\n        for: 2m', 'state="unready"}) == 1\n        for: 3m', unit("fabric")),
    (RULES, 'state="unready"}) == 1\n        for: 2m', 'state="unready"}) == 1\n        for: 1m', unit("fabric")),
    (RULES, "        keep_firing_for: 5m\n", "", unit("links")),
    (RULES, "LinkDown|LinkInit", "LinkInit", unit("links")),
    (RULES, "LinkDown|LinkInit", "LinkDown", rules.names),
    (RULES, "|PortNotAuthenticated", "", unit("links")),
    (RULES, "LinkDown|LinkInit", "LinkDowned|LinkInit", rules.names),
    (RULES, 'status="failing"', 'status=~"failing|unknown"', unit("links")),
    (RULES, 'status="failing"', 'status=~"failing|notice"', unit("nic")),
    (RULES, "max by (cluster, instance, subject, reason)", "max by (instance, subject, reason)", unit("nic")),
    (RULES, "max by (cluster, instance)", "max by (instance)", rules.names),
    (RULES, "max by (cluster, instance, subject, reason)", "max by (cluster, instance, reason)", unit("links")),
    (RULES, "scope: node, cause: verdict", "cause: verdict", rules.names),
    (RULES, "severity: warning, component: agent", "severity: ticket, component: agent", rules.names),
    (RULES, "selvage_node_api_up", "selvage_api_up", rules.names),
    (RULES, 'unless on (cluster, instance) max by (cluster, instance) (resets(selvage_report_generations_total[1h])) > 0',
     "", unit("xid")),
    (RULES, ', job!~".*selvage-nccl.*"', "", unit("agent")),
    (RULES, "unless on (cluster, instance) selvage_fabric_ready", "unless on (instance) selvage_fabric_ready", unit("agent")),
    (RULES, '(selvage_node_writes_total{result="dry_run"}) > 0', '(selvage_node_writes_total{result="dry"}) > 0',
     unit("cluster")),
    (RULES, 'withheld{reason="budget"}', "withheld", unit("cluster")),
    (RULES, "(selvage_nccl_tcp_fallback) == 1", "(selvage_nccl_tcp_fallback) >= 0", unit("nccl")),
    (RULES, 'path=~"dmabuf|peermem"', 'path=~".*"', unit("nccl")),
    (RULES, "ratio > 0.1", "ratio >= 0.1", unit("fabric")),
    (RULES, "increase(selvage_kmsg_records_lost_total[15m])) > 0", "increase(selvage_kmsg_records_lost_total[15m])) >= 0",
     unit("agent")),
    (RULES, "|link_downed", "", unit("recording")),
    (RULES, "          impact: A collective goes at the pace of its slowest node.\n", "", rules.names),
    (RULES, "runbooks/SelvageRailDown", "runbooks/SelvageRail", rules.names),
    (RULES, "SelvageGdsMissing", "SelvageGdsAbsent", rules.completeness),
    (RULES, "max by (cluster, instance) (selvage_report_age", "max by (cluster, instance (selvage_report_age",
     rules.promtool_check),
    (RULES, "for: 2m", "for: 4m", rules.generated),
    (CHECKS, "| `LinkDown` | failing |", "| `LinkLost` | failing |", rules.names),
    (CHECKS, "| `NeverUp` | unknown (notice) |", "| `NeverUp` | unknown (notice) | x | x |\n| `NewFault` | failing |",
     rules.names),
    (METRICS, "`selvage_fabric_state`", "`selvage_state`", rules.names),
    (CONFIG, "equal: [cluster, instance]", "equal: [cluster]", on_alertmanager),
    (CONFIG, "equal: [cluster, instance]", "equal: [cluster, instance, alertname]", on_alertmanager),
    (CONFIG, "\ninhibit_rules:\n", "\ninhibit_rules: []\nx:\n", rules.amtool),
    (CONFIG, '[alertname="SelvageFabricUnreadyShare"]\n    target_matchers: [alertname="SelvageFabricUnready"]',
     '[alertname="SelvageFabricUnreadyShare"]\n    target_matchers: [scope="node"]', on_alertmanager),
    (CONFIG, '[alertname="SelvageReportStale"]\n    target_matchers: [alertname="SelvageFabricUnready"]',
     '[alertname="SelvageReportStale"]\n    target_matchers: [alertname=~"Selvage(FabricUnready|GpuMissing)"]',
     rules.inhibition),
    (CONFIG, 'severity="warning", cause="specific", scope="node"', 'cause="specific", scope="node"',
     rules.inhibition),
]


def broken(case: unittest.TestCase) -> pathlib.Path:
    directory = tempfile.TemporaryDirectory()
    case.addCleanup(directory.cleanup)
    root = pathlib.Path(directory.name)
    shutil.copytree(ROOT / "alerts", root / "alerts")
    (root / "docs").mkdir()
    for page in (CHECKS, METRICS):
        shutil.copy(ROOT / page, root / page)
    chart = "manifests/helm/selvage/files/prometheusrule.yaml"
    (root / chart).parent.mkdir(parents=True)
    shutil.copy(ROOT / chart, root / chart)
    return root


class Breakages(unittest.TestCase):
    def test_what_is_whole_is_not_found(self):
        # test_rules runs all unit tests and test_inhibition all cases: one test shows here that the copy is whole.
        plain = {row[3] for row in BREAKAGES if row[3].__name__ not in ("check", "on_alertmanager")}
        for check in [*plain, unit("recording")]:
            with self.subTest(check=check):
                self.assertEqual(check(broken(self)), [])

    def test_each_is_found(self):
        def found(row):
            file, text, instead, check = row
            path = (root := broken(self)) / file
            before = path.read_text()
            if text not in before:
                return f"{file} has changed: bring this row up to date"
            path.write_text(before.replace(text, instead))
            return None if check(root) else "not found"

        # promtool and amtool do the work, so threads use every core.
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(found, BREAKAGES))
        for (file, text, instead, _), complaint in zip(BREAKAGES, results):
            with self.subTest(file=file, text=text, instead=instead):
                self.assertIsNone(complaint)

    def test_without_inhibition_a_dead_node_pages_often(self):
        path = (root := broken(self)) / CONFIG
        path.write_text(path.read_text().split("inhibit_rules:")[0])
        self.assertEqual(rules.amtool(root), [])
        self.assertTrue(on_alertmanager(root))

    def test_each_inhibition_rule_is_needed(self):
        """Every rule by itself mutes a pair that no other mutes, or the order has a gap without it."""
        whole = rules.Inhibition(ROOT)
        found = rules.examples(ROOT)
        for index, rule in enumerate(whole.rules):
            rest = rules.Inhibition(ROOT)
            rest.rules = whole.rules[:index] + whole.rules[index + 1:]
            needed = any(
                whole.mutes(one, other) and not rest.mutes(one, other)
                for one in found for other in found
            )
            with self.subTest(rule=rule):
                self.assertTrue(needed)
