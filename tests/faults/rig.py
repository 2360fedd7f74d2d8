"""The real agent over a simulated node's files, and what is measured of it while a fault stands.

Waits are bounded polls: a bound is several times what an idle machine needs, since tests share theirs."""

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from waiting import Failed, until

# How long anything that the agent must come to may take here, in seconds.
PATIENCE = 60
# The kubelet's default limit on a probe, in seconds; it restarts a container when so many in a row fail.
PROBE_LIMIT = 1.0
PROBES_IN_A_ROW = 3
# MiB, as the manifests grant.
MEMORY_LIMIT = 64
PROBE_EVERY = 0.05

# Sources are read often and findings raised and cleared soon, so that a row takes seconds.
SETTINGS = [
    *(f"intervals.{source}=500ms" for source in ("counters", "ethtool", "netdev", "gpudirect")),
    *(f"intervals.{source}=1s" for source in ("devices", "gids", "pci", "dcb")),
    "intervals.link=250ms",
    "intervals.deadline=2s",
    "hysteresis.hold=0s",
    "hysteresis.flap_count=0",
    "policy.stale_after=5s",
    "policy.link_state.raise_after=250ms",
    "policy.link_state.clear_after=500ms",
    "policy.link_state.unknown_raise_after=500ms",
    "policy.link_rate.raise_after=250ms",
    "policy.link_rate.clear_after=500ms",
    "policy.pcie_link.clear_after=500ms",
    "policy.source_health.raise_after=0s",
    "policy.source_health.clear_after=500ms",
    "policy.source_health.failing_raise_after=500ms",
    "policy.device_missing.gone_after=1s",
    "policy.gpudirect.raise_after=500ms",
    "policy.gds.raise_after=500ms",
]

# Families whose values move while nothing happens, or that say what a fault did.
MOVING = (
    "process_", "selvage_source_", "selvage_report_", "selvage_fabric_", "selvage_task_",
    "selvage_finding", "selvage_check_findings", "selvage_full_window", "selvage_nccl_log_",
    "selvage_agent_", "selvage_build_info",
)


class Impossible(Exception):
    """Why a fault cannot be injected on this machine."""


def series(text):
    """Value by series, in the Prometheus text format."""
    lines = (line.rpartition(" ") for line in text.splitlines() if line and line[0] != "#")
    return {name: float(value) for name, _, value in lines}


def die_with_parent():
    """The kernel ends the child when this process goes."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def control_group(controller, name, limit):
    """A new group below the machine's, by cgroup v1 or v2; nothing where there is no such controller."""
    top = Path("/sys/fs/cgroup")
    base = top / controller if (top / controller).is_dir() else top
    group = base / f"selvage-faults-{os.getpid()}-{name}"
    file, value = limit
    try:
        group.mkdir()
        target = group / file
        if not target.exists():
            group.rmdir()
            raise Impossible(f"no cgroup controller {controller}")
        target.write_text(str(value))
    except OSError as error:
        raise Impossible(f"no cgroup can be made: {error}") from None
    return group


class Probe(threading.Thread):
    """Asks /healthz as a kubelet does, one new connection each."""

    def __init__(self, agent):
        super().__init__(daemon=True)
        self.agent, self.answers, self.over = agent, [], threading.Event()

    def run(self):
        while not self.over.wait(PROBE_EVERY):
            begun = time.monotonic()
            try:
                code, _ = self.agent.get("/healthz", timeout=5)
            except TimeoutError:
                # Slow, as a busy machine makes one or two.
                code = None
            except OSError:
                code = 0
            if self.agent.ending:
                return
            self.answers.append((time.monotonic() - begun, code))

    def stop(self):
        self.over.set()
        self.join(10)


class Agent:
    """The running binary."""

    def __init__(self, argv, directory, env=None, limits=(), groups=(), number=0):
        self.log_file = directory / f"agent-{number}.log"

        def prepare():
            die_with_parent()
            for what, value in limits:
                resource.setrlimit(what, (value, value))
            for group in groups:
                (group / "cgroup.procs").write_text("0")

        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory,
                env={**os.environ, "RUST_BACKTRACE": "0", **(env or {})}, preexec_fn=prepare)
        self.address = None
        self.token = None
        # It was asked to end: probes of it prove nothing more.
        self.ending = False
        self.peak = 0.0
        self.cpu = 0.0

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.log_file.read_text(errors="replace")

    def alive(self):
        return self.process.poll() is None

    def listen(self):
        """Waits for the line that names the address."""
        def found():
            for line in self.log().splitlines():
                if "serving metrics" in line and "address=" in line:
                    host, port = line.split("address=")[1].split()[0].rsplit(":", 1)
                    return host, int(port)
            if not self.alive():
                raise Failed(f"the agent ended with {self.process.returncode}: {self.log()[-600:]}")
            return None
        self.address = until("the agent serves", found)
        return self

    def get(self, path, timeout=10, host="localhost"):
        """One GET on a new connection: code and body."""
        token = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        with socket.create_connection(self.address, timeout) as stream:
            stream.settimeout(timeout)
            stream.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{token}Connection: close\r\n\r\n".encode())
            parts = []
            while part := stream.recv(65536):
                parts.append(part)
        head, _, body = b"".join(parts).partition(b"\r\n\r\n")
        words = head.split(b" ", 2)
        if len(words) < 2:
            raise ConnectionError("no answer")
        return int(words[1]), body.decode(errors="replace")

    def metrics(self):
        return series(self.get("/metrics")[1])

    def report(self):
        return json.loads(self.get("/report")[1])

    def measure(self):
        """Memory and CPU up to now, while it lives."""
        with contextlib.suppress(OSError, IndexError, ValueError):
            status = Path(f"/proc/{self.pid}/status").read_text()
            peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
            ticks = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
            self.cpu = (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
            self.peak = max(self.peak, peak)

    def threads(self):
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    def descriptors(self):
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def send(self, number):
        self.process.send_signal(number)

    def end(self, number=signal.SIGTERM, patience=PATIENCE):
        """Ends it; its exit status."""
        self.measure()
        self.ending = True
        if self.alive():
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed(f"the agent did not end within {patience} s of signal {number}") from None


class Rig:
    """What a row works with: a node's files, agents over them, and the values of a node without
    faults."""

    def __init__(self, binary, directory, template, control):
        self.binary, self.dir, self.control = binary, directory, control
        self.tree = directory / "node"
        self.state = directory / "state"
        # A fifth of the time that Python's own takes, for thousands of files.
        subprocess.run(["cp", "-a", template, self.tree], check=True)
        self.agents, self.probes, self.groups, self.undo = [], [], [], []
        self.recovery = None
        self.agent = None

    def spawn(self, *settings, env=None, limits=(), groups=(), wrap=(), state=None, argv=()):
        """Starts an agent and does not wait for it."""
        state = self.state if state is None else state
        argv = [*wrap, str(self.binary), "agent", f"--host-root={self.tree}",
                "--listen=127.0.0.1:0", "--node-name=node-1", *argv]
        for setting in (f"agent.state_dir={state}", *SETTINGS, *settings):
            argv += ["--set", setting]
        agent = Agent(argv, self.dir, env, limits, groups, len(self.agents))
        self.agents.append(agent)
        self.agent = agent
        return agent

    def start(self, *settings, ready=True, probe=True, **options):
        """An agent that serves, and has seen its first full window."""
        agent = self.spawn(*settings, **options).listen()
        if probe:
            self.probe(agent)
        if ready:
            self.until("the first full window", lambda: agent.get("/readyz")[0] == 200)
        return agent

    def probe(self, agent):
        self.probes.append(Probe(agent))
        self.probes[-1].start()

    def group(self, controller, *limit):
        group = control_group(controller, f"{controller}-{len(self.groups)}", limit)
        self.groups.append(group)
        return group

    def until(self, what, attempt, patience=PATIENCE):
        def alive():
            if self.agent and not self.agent.alive():
                code = self.agent.process.returncode
                raise Failed(f"{what}: the agent ended with {code}: {self.agent.log()[-600:]}")
            return attempt()
        return until(what, alive, patience)

    def rounds(self, count=2):
        """Waits until the agent has published its facts `count` more times, or read on so long."""
        def moments():
            sources = self.agent.report()["sources"]
            return {(each["source"], each["subject"]): each["last_ok"] for each in sources
                    if each["up"] and each["source"] in ("counters", "devices", "netdev", "pci")}
        for _ in range(count):
            before = moments()
            self.until("a round of reads", lambda: (now := moments()) and all(
                now.get(key) != moment for key, moment in before.items() if key in now))

    def neighbours(self, touched=lambda name: False):
        """Series of what the fault does not touch that are missing or differ from a node without
        faults."""
        now = self.agent.metrics()
        wrong = [f"{name} is {now.get(name)}, not {value}" for name, value in self.control.items()
                 if now.get(name) != value and not name.startswith(MOVING) and not touched(name)]
        return wrong

    def right(self, touched=lambda name: False, patience=PATIENCE):
        """Waits until nothing but what the fault touches differs: reads alternate with faults."""
        try:
            self.until("neighbours' values", lambda: not self.neighbours(touched), patience)
        except Failed:
            wrong = self.neighbours(touched)
            raise Failed(f"{len(wrong)} neighbours' values wrong: {wrong[:3]}") from None

    def verdict(self):
        return self.agent.report()["state"]

    def reasons(self):
        return sorted({finding["reason"] for finding in self.agent.report()["findings"]})

    def recovers(self, begun, what="all values and the verdict as before", attempt=None,
                 patience=PATIENCE):
        """Measures how long the agent takes to be as it was."""
        attempt = attempt or (lambda: self.verdict() == "ready" and not self.neighbours())
        try:
            self.until(what, attempt, patience)
        except Failed as error:
            raise Failed(f"{error}; {self.verdict()} {self.reasons()} {self.neighbours()[:2]}") from None
        self.recovery = time.monotonic() - begun

    def stop(self):
        """Ends all that was started and gives back what was taken; complaints about the ends."""
        for agent in self.agents:
            agent.measure()
        for probe in self.probes:
            probe.stop()
        complaints = []
        for agent in self.agents:
            if not agent.alive():
                continue
            try:
                code = agent.end()
                if code != 0:
                    complaints.append(f"exit status {code} on SIGTERM")
            except Failed as error:
                complaints.append(str(error))
        for action in reversed(self.undo):
            action()
        for group in self.groups:
            with contextlib.suppress(OSError):
                group.rmdir()
        return complaints

    def figures(self):
        """What was measured."""
        answers = [answer for probe in self.probes for answer in probe.answers]
        times = sorted(seconds for seconds, _ in answers)
        # As a kubelet counts: failures in a row.
        longest = run = 0
        for seconds, code in answers:
            run = run + 1 if code != 200 or seconds > PROBE_LIMIT else 0
            longest = max(longest, run)
        return {
            "failed_in_a_row": longest,
            "p99": times[min(len(times) - 1, int(len(times) * 0.99))] if times else None,
            "probes": len(answers),
            "refused": sum(code not in (200, None) for _, code in answers),
            "memory": max((agent.peak for agent in self.agents), default=0),
            "cpu": sum(agent.cpu for agent in self.agents),
            "recovery": self.recovery,
        }
