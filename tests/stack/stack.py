"""A real Prometheus and Alertmanager over a simulated fleet, on loopback. Whatever is started is
stopped by its process id."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lib"))
from waiting import Failed, NotYet, until

# Also the longest that a scrape may take: one that fails begins the wait of each alert again.
SCRAPE_SECONDS = 4


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def free_ports(count=32):
    """The first of so many free ports, below those that the kernel gives to connections."""
    for first in random.sample(range(12_000, 30_000, count), 100):
        try:
            for port in range(first, first + count):
                with socket.socket() as sock:
                    sock.bind(("127.0.0.1", port))
            return first
        except OSError:
            pass
    raise Failed(f"no {count} free ports next to each other")


def get(url, **params):
    if params:
        url += "?" + urllib.parse.urlencode(params, doseq=True)
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        raise NotYet(f"{url}: {error.code} {error.read()[:500]!r}") from None


def hurried(rules, factor):
    """The rules with each `for` and `offset`, and each span that a state must have lasted, that many times
    shorter, so that a demo need not wait."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}

    def shorter(match):
        seconds = int(match[2]) * units[match[3]] / factor
        return f"{match[1]}{max(1, round(seconds)) if seconds else 0}s"

    rules = re.sub(r"(_over_time\([^\[\]]+)\[10m\]", rf"\1[{600 // factor}s]", rules)
    rules = re.sub(r"(offset )(\d+)([smhd])\b", shorter, rules)
    return re.sub(r"(?m)^(\s*(?:for|keep_firing_for): )(\d+)([smhd])(?: *#.*)?$", shorter, rules)


class Stack:
    """The fleet, Prometheus and Alertmanager."""

    def __init__(self, binary, nodes=12, factor=30, log=print, listen=9949, play=None):
        self.binary, self.factor, self.log, self.listen = binary, factor, log, listen
        self.fleet = ["--play", play] if play else ["--nodes", str(nodes)]
        self.dir = Path(tempfile.mkdtemp(prefix="selvage-stack-"))
        self.children = []

    def __enter__(self):
        # By default Python would leave the children behind.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def spawn(self, name, *argv):
        log = open(self.dir / f"{name}.log", "wb")
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            cwd=self.dir, start_new_session=True)
        log.close()
        self.children.append((name, child))
        return child

    def start(self):
        targets = self.dir / "targets.json"
        # What watches is there before the fleet, whose play begins with its list of targets.
        self.start_alertmanager()
        self.start_node_exporter()
        self.start_prometheus(targets)
        self.spawn("fleet", str(self.binary), "demo", *self.fleet, "--listen",
                   f"127.0.0.1:{self.listen}", "--targets", str(targets))
        until("the fleet's list of targets", seconds=60, pause=0.5, attempt=lambda: self.alive() and targets.exists()
              and json.loads(targets.read_text()))
        self.targets = {group["labels"]["instance"]: group["targets"][0]
                        for group in json.loads(targets.read_text())}

    def start_alertmanager(self):
        port = free_port()
        self.alertmanager = f"http://127.0.0.1:{port}"
        # Nobody listens where the example sends to: what is looked at is what is inhibited.
        self.spawn("alertmanager", "prometheus-alertmanager",
                   f"--config.file={ROOT / 'alerts/alertmanager.yaml'}",
                   f"--storage.path={self.dir / 'alertmanager'}",
                   f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=")
        until("Alertmanager", seconds=30, pause=0.5, attempt=lambda: self.alive() and get(self.alertmanager + "/-/ready"))

    def start_node_exporter(self):
        """A node whose benchmark's result lies where node_exporter reads it."""
        texts = self.dir / "textfile"
        texts.mkdir()
        done = subprocess.run(
            [str(self.binary), "nccl", "--bench", "--rails", "8", "--rate-gbps", "400",
             "--textfile", str(texts / "bench.prom"), str(ROOT / "tests/bench_data/two.log")],
            stdout=subprocess.DEVNULL, timeout=60, check=False)
        # The verdict: one of its two runs is below line rate.
        if done.returncode != 1:
            raise Failed(f"selvage nccl --bench ended with {done.returncode}")
        port = free_port()
        self.node_exporter = f"127.0.0.1:{port}"
        self.spawn("node_exporter", "prometheus-node-exporter", "--collector.disable-defaults",
                   "--collector.textfile", f"--collector.textfile.directory={texts}",
                   f"--web.listen-address={self.node_exporter}")
        until("node_exporter", seconds=30, pause=0.5, attempt=lambda: self.alive() and get(f"http://{self.node_exporter}/"))

    def start_prometheus(self, targets):
        rules = (ROOT / "alerts/selvage.rules.yaml").read_text()
        (self.dir / "rules.yaml").write_text(hurried(rules, self.factor))
        port = free_port()
        self.prometheus = f"http://127.0.0.1:{port}"
        (self.dir / "prometheus.yaml").write_text(f"""
global: {{scrape_interval: {SCRAPE_SECONDS}s, evaluation_interval: {SCRAPE_SECONDS}s}}
rule_files: [rules.yaml]
alerting:
  alertmanagers: [{{static_configs: [{{targets: ["{self.alertmanager[7:]}"]}}]}}]
scrape_configs:
  - job_name: selvage
    honor_labels: true
    file_sd_configs: [{{files: ["{targets}"], refresh_interval: 2s}}]
  - job_name: node
    static_configs:
      - targets: ["{self.node_exporter}"]
        labels: {{cluster: demo, instance: gpu-09}}
""")
        self.spawn("prometheus", "prometheus", f"--config.file={self.dir / 'prometheus.yaml'}",
                   f"--storage.tsdb.path={self.dir / 'tsdb'}",
                   f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
                   f"--web.external-url={self.prometheus}")
        until("Prometheus", seconds=60, pause=0.5, attempt=lambda: self.alive() and get(self.prometheus + "/-/ready"))

    def alive(self):
        for name, child in self.children:
            if child.poll() is not None:
                tail = (self.dir / f"{name}.log").read_text(errors="replace")[-2000:]
                raise SystemExit(f"{name} ended with {child.returncode}:\n{tail}")
        return True

    def stop(self):
        for _, child in reversed(self.children):
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        for name, child in reversed(self.children):
            try:
                child.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.log(f"{name} does not end by itself")
                child.kill()
                child.wait()
        self.children = []
        if os.environ.get("SELVAGE_STACK_KEEP"):
            self.log(f"kept: {self.dir}")
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def api(self, path, **params):
        answer = json.loads(get(f"{self.prometheus}/api/v1/{path}", **params))
        if answer["status"] != "success":
            raise NotYet(f"{path} {params}: {answer}")
        return answer["data"]

    def query(self, expr):
        """Series of an instant query, as (labels, value)."""
        data = self.api("query", query=expr)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(series["metric"], float(series["value"][1])) for series in data["result"]]

    def range(self, expr, seconds, step):
        """Series over the last `seconds`, as (labels, [(time, value)])."""
        now = time.time() // step * step
        data = self.api("query_range", query=expr, start=now - seconds, end=now, step=step)
        return [(series["metric"], [(at, float(value)) for at, value in series["values"]])
                for series in data["result"]]

    def notified(self):
        """Alertmanager's alerts: those that are sent, and those that are held back."""
        sent, held = [], []
        for alert in json.loads(get(self.alertmanager + "/api/v2/alerts")):
            (sent if alert["status"]["state"] == "active" else held).append(alert)
        return sent, held

    def firing(self):
        """(alert, instance) of what fires."""
        return {(alert["labels"]["alertname"], alert["labels"].get("instance", ""))
                for alert in self.api("alerts")["alerts"] if alert["state"] == "firing"}
