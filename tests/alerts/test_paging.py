"""Faults of a fleet of 500 nodes on a real Prometheus and a real Alertmanager, and what reaches a person.

The series are synthetic. Time runs six times faster: a minute of the play is a scrape and an evaluation
interval of ten seconds, and every duration of rules and routes is a sixth of its own. Each scenario has a
cluster of its own; they run at once. docs/monitoring.md has the table.

In a play this fast, seconds matter: where the suite may (root), it goes before what else the machine computes.
"""

import collections
import contextlib
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

import server
from rules import ROOT

FASTER = 6
MINUTE = 60 / FASTER
NODES = 500
# Nodes of a leaf.
LEAF = 64
BEGIN, END = 12, 44
# Prometheus is stopped and started.
STOPPED, STARTED = 30, 30.5
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def faster(text: str) -> str:
    """Durations of rules and routes, in milliseconds of the play."""
    def scaled(match):
        return f"{match[1]}{int(match[2]) * UNITS[match[3]] * 1000 // FASTER}ms"
    return re.sub(r"(\[|offset |(?:for|group_wait|group_interval|repeat_interval): )(\d+)([smhd])\b", scaled, text)


# A scenario says of node and minute what differs from health, by these words.
def bad_rollout(node, minute):
    return {"up": 0} if node < 255 and minute >= BEGIN + node // 85 else {}


def leaf(node, minute):
    # The budget of 50 leaves 14 without a taint.
    if not LEAF <= node < 2 * LEAF or minute < BEGIN:
        return {}
    return {"unready": 1, "failing": "LinkDown", "withheld": node < LEAF + 14}


def subnet_manager(node, minute):
    return {"unready": 1, "failing": "SubnetManagerAway", "withheld": node >= 50} if minute >= BEGIN else {}


def dead_gpu(node, minute):
    if node != 7 or minute < BEGIN:
        return {}
    return {"unready": 1, "failing": "GpuFellOff", "caused": "XidFatal", "degraded": "PcieErrors"}


def driver(node, minute):
    found = {"driver": "570.124.06"} if node % 4 == 0 else {}
    if node % 16 == 0 and node < 480 and minute >= BEGIN + node // 160:
        found |= {"unready": 1, "failing": "XidFatal"}
    return found


def agent_rollout(node, minute):
    # A tenth at a time: gone for a minute, then in its first window.
    since = minute - BEGIN - 2 * (node // 50)
    return {0: {"up": 0}, 1: {"starting": 1}}.get(since, {})


def reboot(node, minute):
    if node != 9:
        return {}
    since = minute - BEGIN
    if 0 <= since < 12:
        return {"up": 0, "ready": 0}
    return {12: {"starting": 1}, 13: {"failing": "LinkDown", "unready": 1}, 14: {"failing": "LinkDown", "unready": 1}}.get(since, {})


def maintenance(node, minute):
    return {"cordoned": 1, **leaf(node, minute)} if LEAF <= node < 2 * LEAF else reboot(node, minute)


def leaf_and_reboot(node, minute):
    return leaf(node, minute) or reboot(node, minute)


# Title: what is played, whether there is kube-state-metrics, pages and tickets, words that the page holds.
# In all of them Prometheus is down for half a minute.
SCENARIOS = {
    "a bad rollout: 255 agents do not answer": (bad_rollout, True, 1, 0, "SelvageAgentsSilent"),
    "a leaf switch with 64 nodes dies": (leaf, True, 1, 0, "leaf leaf-1"),
    "a leaf switch dies, a node reboots; without kube-state-metrics": (leaf_and_reboot, False, 1, 0, "leaf leaf-1"),
    "the subnet manager of all 500 is gone": (subnet_manager, True, 1, 0, "SelvageFabricUnreadyShare"),
    "30 nodes with a fatal Xid after a driver upgrade of 125": (driver, True, 1, 0, "GPU driver 570.124.06"),
    "one dead GPU": (dead_gpu, True, 0, 1, ""),
    "a rollout of all agents, a tenth at a time": (agent_rollout, True, 0, 0, ""),
    "a node reboots; a leaf is cordoned, then taken down": (maintenance, True, 0, 0, ""),
}


def lines(cluster: str, node: int, found: tuple, metrics: bool) -> str:
    """What is scraped of one node."""
    has = dict(found)
    name = f"gpu-{node:03}"
    own = f'cluster="{cluster}",instance="{name}"'
    out = [f'up{{{own},job="selvage/selvage"}} {has.get("up", 1)}']
    if has.get("up", 1):
        starting = has.get("starting", 0)
        out += [
            f'selvage_fabric_state{{{own},state="unready"}} {has.get("unready", 0)}',
            f'selvage_fabric_state{{{own},state="unknown"}} {starting}',
            f"selvage_full_window{{{own}}} {1 - starting}",
            f"selvage_fabric_ready{{{own}}} {1 - max(starting, has.get('unready', 0))}",
            f'selvage_node_topology_info{{{own},kind="leaf",value="leaf-{node // LEAF}"}} 1',
            f'selvage_gpu_driver_info{{{own},version="{has.get("driver", "550.54.15")}"}} 1',
        ]
        cause = has.get("failing", "")
        for status, reason, by in (
            ("failing", cause, ""), ("failing", has.get("caused"), cause), ("degraded", has.get("degraded"), ""),
        ):
            if reason:
                out.append(
                    f'selvage_finding{{{own},check="play",subject="one",reason="{reason}",status="{status}",caused_by="{by}"}} 1'
                )
        if has.get("withheld"):
            out.append(f'selvage_node_taint_withheld{{{own},reason="budget"}} 1')
    if metrics:
        of = f'cluster="{cluster}",instance="ksm",node="{name}"'
        out += [
            f'kube_node_status_condition{{{of},condition="Ready",status="true"}} {has.get("ready", 1)}',
            f"kube_node_spec_unschedulable{{{of}}} {has.get('cordoned', 0)}",
        ]
    return "\n".join(out)


class Play:
    """The fleet as one scrape target, and the webhook of both receivers."""

    def __init__(self):
        self.begun = time.monotonic()
        self.kept = {}
        self.sent = collections.defaultdict(list)
        play = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(play.scrape().encode())

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                firing = [each for each in body["alerts"] if each["status"] == "firing"]
                if firing:
                    play.sent[body["groupLabels"].get("cluster"), self.path[1:]].append((int(play.minute()), firing))
                self.answer(b"")

            def answer(self, body):
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def minute(self) -> float:
        return (time.monotonic() - self.begun) / MINUTE

    def wait(self, minute: float):
        time.sleep(max(0.0, self.begun + minute * MINUTE - time.monotonic()))

    def scrape(self) -> str:
        now, out = int(self.minute()), []
        for index, (scenario, metrics, *_) in enumerate(SCENARIOS.values()):
            for node in range(NODES):
                key = index, node, tuple(scenario(node, now).items())
                if key not in self.kept:
                    self.kept[key] = lines(f"case-{index}", node, key[2], metrics)
                out.append(self.kept[key])
        return "\n".join(out) + "\n"


class Prometheus:
    def __init__(self, directory: pathlib.Path, play: str, alertmanager: str):
        self.directory, self.late = directory, 0
        (directory / "rules.yaml").write_text(faster((ROOT / "alerts/selvage.rules.yaml").read_text()))
        (directory / "prometheus.yaml").write_text(f"""
global: {{scrape_interval: {MINUTE:.0f}s, scrape_timeout: {MINUTE:.0f}s, evaluation_interval: {MINUTE:.0f}s}}
rule_files: [rules.yaml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["{alertmanager}"]}}]}}]}}
scrape_configs:
  - {{job_name: play, honor_labels: true, static_configs: [{{targets: ["{play}"]}}]}}
""")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.start()

    def start(self):
        with (self.directory / "log").open("a") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus", f"--config.file={self.directory}/prometheus.yaml",
                    f"--storage.tsdb.path={self.directory}/tsdb", f"--web.listen-address={self.address}",
                    "--log.level=warn",
                    # Their defaults, as much faster.
                    f"--rules.alert.for-grace-period={600 // FASTER}s", f"--rules.alert.resend-delay={60 // FASTER}s",
                ],
                stdout=log, stderr=subprocess.STDOUT,
            )
        begun = time.monotonic()
        while time.monotonic() < begun + 60:
            with contextlib.suppress(OSError):
                self.get("-/ready")
                break
            time.sleep(0.1)
        self.late += time.monotonic() - begun > MINUTE / 2

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.address}/{path}", timeout=30) as answer:
            return answer.read().decode()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)

    def missed(self) -> float:
        """Evaluations, scrapes and starts that the machine was too slow for."""
        found = re.findall(r"^prometheus_rule_group_iterations_missed_total\S* (\S+)$", self.get("metrics"), re.M)
        failed = urllib.parse.quote("sum(count_over_time((up == 0)[2h:5s]))")
        scrapes = json.loads(self.get(f"api/v1/query?query={failed}"))["data"]["result"]
        late, self.late = self.late, 0
        return sum(map(float, found)) + sum(float(each["value"][1]) for each in scrapes) + late


def played() -> tuple:
    """Notifications by cluster and receiver, and the evaluations that the machine was too slow for."""
    play = Play()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        config = (ROOT / "alerts/alertmanager.yaml").read_text().replace("127.0.0.1:9095", play.address)
        (directory / "alertmanager.yaml").write_text(faster(config))
        with server.alertmanager(directory / "alertmanager.yaml") as url:
            prometheus = Prometheus(directory, play.address, url.removeprefix("http://"))
            try:
                play.begun = time.monotonic()
                play.wait(STOPPED)
                missed = prometheus.missed()
                prometheus.stop()
                play.wait(STARTED)
                prometheus.start()
                play.wait(END)
                missed += prometheus.missed()
            finally:
                prometheus.stop()
                play.server.shutdown()
    return play.sent, missed


def words(notification: tuple) -> str:
    _, firing = notification
    return "; ".join(f"{each['labels']['alertname']} {each['annotations']['summary']}" for each in firing)


def as_wanted(sent: dict) -> bool:
    return all(
        (len(sent[f"case-{index}", "page"]), len(sent[f"case-{index}", "ticket"])) == (pages, tickets)
        for index, (_, _, pages, tickets, _) in enumerate(SCENARIOS.values())
    )


class Paging(unittest.TestCase):
    def test_who_is_called(self):
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, -15)
        # A machine that was too slow for the rules proves nothing against them: they are played again, at most twice.
        sent, missed = played()
        for _ in range(2):
            if not missed or as_wanted(sent):
                break
            print(f"{missed:.0f} evaluations, scrapes or starts were late: played again")
            sent, missed = played()
        for index, (title, (_, _, pages, tickets, word)) in enumerate(SCENARIOS.items()):
            page, ticket = (sent[f"case-{index}", receiver] for receiver in ("page", "ticket"))
            told = [f"minute {each[0] - BEGIN}: {words(each)[:120]}" for each in [*page, *ticket[:5]]]
            print(f"| {title} | {len(page)} | {len(ticket)} | {'; '.join(told)} |")
            with self.subTest(scenario=title):
                note = f"{missed:.0f} evaluations, scrapes or starts were late: {told}"
                self.assertEqual((len(page), len(ticket)), (pages, tickets), note)
                self.assertIn(word, " ".join(map(words, page)))


if __name__ == "__main__":
    unittest.main()
