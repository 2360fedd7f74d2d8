"""What queries come to where a fleet is not all well and known: sidecars of jobs beside agents, a stale
report, a target that is down, a budget of none. Prometheus evaluates them (promtool test rules)."""

import pathlib
import subprocess
import tempfile
import unittest

import yaml

from boards import ROOT, load, panels, substituted

AGENT, SIDECAR = 'job="selvage/selvage"', 'job="selvage/selvage-nccl"'
BOTH, ALONE = 'namespace="a", pod="both", container="c"', 'namespace="a", pod="alone", container="c"'

# n1 is degraded; n2 said ready and stands still; n3 is silent. One container is read by n1's agent and
# a sidecar, another by a sidecar alone.
SERIES = {
    f'up{{instance="n1", {AGENT}}}': 1,
    f'up{{instance="n3", {AGENT}}}': 0,
    f'up{{instance="s1", {SIDECAR}}}': 0,
    f'selvage_fabric_ready{{instance="n1", {AGENT}}}': 0,
    f'selvage_fabric_ready{{instance="n2", {AGENT}}}': 1,
    f'selvage_fabric_state{{instance="n1", {AGENT}, state="degraded"}}': 1,
    f'selvage_fabric_state{{instance="n2", {AGENT}, state="ready"}}': 1,
    f'selvage_report_age_seconds{{instance="n1", {AGENT}}}': 5,
    f'selvage_report_age_seconds{{instance="n2", {AGENT}}}': 500,
    f'selvage_finding{{instance="n1", {AGENT}, status="degraded", reason="R"}}': 1,
    # Scraped twice over an update of the firmware.
    **{f'selvage_port_info{{instance="n1", device="mlx5_0", port="1", rail="true", firmware="{n}"}}': 1
       for n in "12"},
    'selvage_port_up{instance="n1", device="mlx5_0", port="1"}': 0,
    f'selvage_build_info{{instance="n1", {AGENT}, version="1"}}': 1,
    f'selvage_build_info{{instance="s1", {SIDECAR}, version="1"}}': 1,
    f'selvage_node_taint_budget{{instance="n1", {AGENT}, what="claimed"}}': 1,
    f'selvage_node_taint_budget{{instance="n1", {AGENT}, what="limit"}}': 4,
    f'selvage_nccl_job_info{{instance="n1", job="llama", nccl_version="2", {BOTH}}}': 1,
    f'selvage_nccl_job_info{{instance="s1", job="", nccl_version="2", {BOTH}}}': 1,
    f'selvage_nccl_job_info{{instance="s2", job="", nccl_version="2", {ALONE}}}': 1,
    f'selvage_nccl_tcp_fallback{{instance="n1", {AGENT}, {BOTH}}}': 1,
    f'selvage_nccl_tcp_fallback{{instance="s1", {SIDECAR}, {BOTH}}}': 1,
    f'selvage_nccl_tcp_fallback{{instance="s2", {SIDECAR}, {ALONE}}}': 1,
    f'selvage_nccl_network{{instance="n1", {AGENT}, {BOTH}, network="socket"}}': 1,
    f'selvage_nccl_network{{instance="s1", {SIDECAR}, {BOTH}, network="unknown"}}': 1,
}
WANTED = {
    ("fleet", "Agents silent"): {"{}": 1},
    ("selvage", "Targets down"): {"{}": 1},
    ("fleet", "Reports stale"): {"{}": 1},
    ("node", "Verdict"): {'{state="degraded"}': 1, '{state="stale"}': 1},
    ("node", "Verdict over time"): {'{instance="n1"}': 2, '{instance="n2"}': 5},
    ("fleet", "Nodes that are not ready"): {
        '{instance="n1", state="degraded", status="degraded", reason="R"}': 20,
        '{instance="n2", state="stale", reason="its report is older than two minutes"}': 1,
    },
    ("fleet", "Budget: fullest group"): {"{}": 0.25},
    ("selvage", "Agents by version"): {'{version="1"}': 1},
    ("jobs", "Containers"): {"{}": 1},
    ("jobs", "Silent fallbacks"): {"{}": 2},
    ("jobs", "Silent fallbacks with cause"): {
        f'{{instance="n1", job="llama", nccl_version="2", cause="not named", {BOTH}}}': 1,
        f'{{nccl_version="2", cause="not named", {ALONE}}}': 1,
    },
}
NO_TAINTS = {f'selvage_node_taint_budget{{instance="n2", {AGENT}, what="{what}"}}': 0
             for what in ("claimed", "limit")}


# Either firmware will do, as long as the panel is not in error; one series a port.
ONE_A_PORT = {("fleet", "Rails that are down"): {"{}": 1}}


def first_query(board, title):
    return next(substituted(panel["targets"][0]["expr"])
                for panel in panels(load(board)) if panel["title"] == title)


def case(series, wanted, counted=()):
    return {
        "interval": "30s",
        "input_series": [{"series": s, "values": f"{v}x20"} for s, v in series.items()],
        "promql_expr_test": [
            {"expr": first_query(*panel), "eval_time": "5m",
             "exp_samples": [{"labels": labels, "value": value} for labels, value in found.items()]}
            for panel, found in wanted.items()
        ] + [
            {"expr": f"count({first_query(*panel)})", "eval_time": "5m",
             "exp_samples": [{"labels": labels, "value": value} for labels, value in found.items()]}
            for panel, found in dict(counted).items()
        ],
    }


class Meaning(unittest.TestCase):
    def test_queries_come_to_what_they_should(self):
        full = {("fleet", "Budget: fullest group"): {"{}": 1}}
        tests = {"rule_files": [str(ROOT / "alerts/selvage.rules.yaml")], "tests": [
            case(SERIES, WANTED, ONE_A_PORT), case(SERIES | NO_TAINTS, full),
        ]}
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "tests.yaml"
            path.write_text(yaml.safe_dump(tests))
            done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True,
                                  text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
