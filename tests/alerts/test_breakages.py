"""The checks can fail: each breakage is found by the check that is meant for it."""

import concurrent.futures
import functools
import os
import pathlib
import shutil
import tempfile
import unittest

import yaml

import rules
import test_inhibition
from rules import ROOT

RULES = "alerts/selvage.rules.yaml"
CONFIG = "alerts/alertmanager.yaml"
CHECKS = "docs/checks.md"
METRICS = "docs/metrics.md"


@functools.cache
def unit(case: str):
    """One file of unit tests, one test after the other until one complains: all of them take half a minute."""
    def check(root):
        tests = root / "alerts/tests"
        whole = yaml.safe_load((tests / f"{case}.yaml").read_text())
        shutil.rmtree(tests)
        tests.mkdir()
        for test in whole["tests"]:
            (tests / "one.yaml").write_text(yaml.safe_dump({**whole, "tests": [test]}))
            if complaints := rules.promtool_test(root):
                return complaints
        return []
    return check


def on_alertmanager(root):
    """The cases on a real Alertmanager; a difference is expected here, so it need not last long."""
    return test_inhibition.complaints(root, patience=5.0)


# File, text, what stands in its place, the check that must complain.
BREAKAGES = [
    (RULES, 'status="failing"}\n          ) == 1\n          unless on (cluster, instance) instance:selvage_node_quiet:bool\n'
     "        for: 10m", 'status="failing"}\n          ) == 1\n        for: 10m', unit("node")),
    (RULES, "for: 10m\n        keep_firing_for: 5m", "for: 9m\n        keep_firing_for: 5m", unit("node")),
    (RULES, "        keep_firing_for: 5m\n", "", unit("node")),
    (RULES, 'caused_by="", status="failing"', 'status="failing"', unit("node")),
    (RULES, 'status="failing"', 'status=~"failing|unknown"', unit("node")),
    (RULES, 'status="failing"', 'status=~"failing|unknown"', rules.names),
    (RULES, "XidUnknown|NicTemperature", "NicTemperature", rules.names),
    (RULES, "XidUnknown|NicTemperature", "XidUnseen|NicTemperature", rules.names),
    (RULES, "max by (cluster, instance, check, subject, reason)", "max by (instance, check, subject, reason)", unit("node")),
    (RULES, "max by (cluster, instance)", "max by (instance)", rules.names),
    (RULES, "{severity: warning, scope: node}", "{severity: critical, scope: node}", rules.names),
    (RULES, "{severity: warning, scope: node}", "{severity: ticket, scope: node}", rules.names),
    (RULES, "selvage_node_api_up", "selvage_api_up", rules.names),
    (RULES, "unless on (cluster, instance) resets(selvage_report_generations_total[1h]) > 0", "", unit("node")),
    (RULES, ', job!~".*selvage-nccl.*"', "", unit("fleet")),
    (RULES, "unless on (cluster, instance) selvage_fabric_ready", "unless on (instance) selvage_fabric_ready", unit("node")),
    (RULES, 'selvage_node_writes_total{result="dry_run"} > 0', 'selvage_node_writes_total{result="dry"} > 0', unit("node")),
    (RULES, 'withheld{reason="budget"}', "withheld", unit("fleet")),
    (RULES, "or max by (cluster, instance, job, exported_job) (selvage_nccl_tcp_fallback", "or max by (cluster, instance) (selvage_nccl_tcp_fallback", unit("job")),
    (RULES, '(selvage_nccl_tcp_fallback{pod=""})\n          ) == 1', '(selvage_nccl_tcp_fallback{pod=""})\n          ) >= 0', unit("job")),
    (RULES, "lost:ratio > 0.1", "lost:ratio > 0.3", unit("fleet")),
    (RULES, "count >= 4)", "count >= 3)", unit("fleet")),
    (RULES, "> 4 *", "> 0 *", unit("fleet")),
    (RULES, "trait:ratio <= 0.25", "trait:ratio <= 0.45", unit("drift")),
    (RULES, '{source!="inferred"}', "", unit("drift")),
    (RULES, "trait:ratio > 0.5", "trait:ratio > 0.9", unit("drift")),
    (RULES, "count by (cluster, profile, kind, value)", "count by (cluster, kind, value)", unit("drift")),
    (RULES, '            and on (cluster, instance, device, port) selvage_port_info{rail="true"}\n          ) ^ 0', "          ) ^ 0",
     unit("drift")),
    (RULES, "neighbors:count * 4", "neighbors:count * 3", unit("neighbors")),
    (RULES, "neighbors:count * 4", "neighbors:count * 5", unit("neighbors")),
    (RULES, "count by (cluster, switch, device, port)", "count by (switch, device, port)", unit("neighbors")),
    (RULES, "strays:count\n          unless on (cluster, instance) instance:selvage_node_quiet:bool", "strays:count",
     unit("neighbors")),
    (RULES, "min_over_time(kube_node_spec_unschedulable[10m])", "max_over_time(kube_node_spec_unschedulable[10m])", unit("fleet")),
    (RULES, '(min_over_time(selvage_fabric_state{state="unknown"}[10m]))', '(selvage_fabric_state{state="unknown"})', unit("fleet")),
    (RULES, "or kube_node_deletion_timestamp > 0", "", unit("node")),
    (RULES, "or time() - kube_node_created < 1200", "", unit("node")),
    (RULES, "or (max by (cluster, instance) (selvage_full_window) == 0) ^ 0", "", unit("node")),
    (RULES, "or instance:selvage_node_rebooting:bool", "", unit("node")),
    (RULES, "or instance:selvage_node_grouped:bool", "", unit("fleet")),
    (RULES, "increase(selvage_kmsg_records_lost_total[15m])) > 0", "increase(selvage_kmsg_records_lost_total[15m])) >= 0",
     unit("node")),
    (RULES, "|link_downed", "", unit("recording")),
    (RULES, "          impact: A collective goes at the pace of its slowest node.\n", "", rules.names),
    (RULES, "runbooks.selvage.svc/runbooks/SelvageTaint", "dev/runbooks/SelvageTaint", rules.names),
    (RULES, "unless on (cluster, instance) instance:selvage_node_away:bool",
     "unless on (cluster, instance) (instance:selvage_node_away:bool or " + " or ".join(f"vector({n})" for n in range(30)) + ")",
     rules.names),
    (RULES, "SelvageNodeNotice", "SelvageNodeNoticed", rules.completeness),
    (RULES, "(instance:selvage_report_age:seconds > bool 120)", "(instance:selvage_report_age:seconds > bool 120",
     rules.promtool_check),
    (RULES, "or time() - node_textfile_mtime_seconds", "or 0 * node_textfile_mtime_seconds", unit("node")),
    (RULES, "            or instance:selvage_report_age:seconds > bool 120\n", "", unit("fleet")),
    (RULES, "            or instance:selvage_textfile_gone:seconds\n", "", unit("node")),
    (RULES, "and on (cluster, instance, job) up == 1", "and on (cluster, instance, job) up", unit("node")),
    (RULES, "and on (cluster, instance, job) up == 1", "", unit("node")),
    (RULES, "(selvage_fabric_ready or node_textfile_mtime_seconds", "(node_textfile_mtime_seconds", unit("node")),
    (RULES, '(selvage_source_up{source!="nccl_files"}) == 0\n            or instance_source:selvage_kernel_log_lost:bool\n          )\n',
     '(selvage_source_up{source!="nccl_files"}) == 0\n          ) or (\n            instance_source:selvage_kernel_log_lost:bool\n          )\n',
     unit("node")),
    (RULES, "(nvidia|amd)_com", "nvidia_com", unit("node")),
    (RULES, "            or instance:selvage_node_had_agent:info\n", "", unit("node")),
    (RULES, "          and on (cluster, instance) last_over_time(selvage_fabric_ready[1d])\n", "", unit("node")),
    (RULES, '"namespace", "$1", "exported_namespace"', '"namespace", "$1", "exported_name"', unit("job")),
    (RULES, '"namespace", "$1", "exported_namespace"', '"namespace", "$1", "exported_name"', unit("boards")),
    (RULES, '"kind", "/", "namespace", "job"', '"kind", "/", "job"', unit("drift")),
    (RULES, " and cluster_kind_value:selvage_group_failing:ratio offset 3m", "", unit("fleet")),
    (RULES, "          and on (cluster) cluster:selvage_nodes_lost:ratio offset 2m > 0.1\n"
     "          and on (cluster) sum by (cluster) (instance:selvage_node_lost:bool offset 2m) >= 3\n", "", unit("fleet")),
    (RULES, "          and on (cluster) cluster:selvage_agents_silent:ratio offset 1m > 0.1\n"
     "          and on (cluster) sum by (cluster) (instance:selvage_agent_silent:bool offset 1m) >= 3\n", "", unit("fleet")),
    (RULES, "for: 2m", "for: 4m", rules.generated),
    (CHECKS, "| `LinkDown` | failing |", "| `LinkDown` | failing (notice) |", rules.names),
    (CHECKS, "| `NeverUp` | unknown (notice) |", "| `NeverUp` | unknown (notice) | x | x | x |\n| `NewNotice` | unknown (notice) |",
     rules.names),
    (METRICS, "`selvage_fabric_state`", "`selvage_state`", rules.names),
    (CONFIG, "equal: [cluster, instance]", "equal: [cluster]", on_alertmanager),
    (CONFIG, "equal: [cluster, instance]", "equal: [cluster, instance, alertname]", on_alertmanager),
    (CONFIG, "\ninhibit_rules:\n", "\ninhibit_rules: []\nx:\n", rules.amtool),
    (CONFIG, 'target_matchers: [alertname=~"Selvage(AgentDown|AgentAbsent)"]', 'target_matchers: [scope="node"]', on_alertmanager),
    (CONFIG, 'source_matchers: [alertname="SelvageAgentsSilent"]', 'source_matchers: [alertname="SelvageNodeUnready"]', rules.inhibition),
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
        # All but the cases on an Alertmanager, which test_inhibition runs.
        for check in {row[3] for row in BREAKAGES} - {on_alertmanager}:
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
