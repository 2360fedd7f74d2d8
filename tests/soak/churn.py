"""Churn applied to the nodes of the soak, round after round; each kind is counted."""

import contextlib
import itertools
import os
import random
import shutil
import socket

import nccl
from api import Server
from rig import until

# Pods that log at a time on each node, and lines that each writes in a round.
PODS = 6
LINES = 200
# A log is rotated, and the oldest of these rotated files is removed.
KEPT = 2
# The kernel log is cut to nothing where it is longer: a real one is a ring.
KERNEL_LOG = 1 << 20
# How far, in seconds, a node's wall clock is ahead of the machine's: it steps from one to another, forward
# and back. Never behind the files of the node: the agent does not hold files open that seem to be written.
STEPS = (0, 1, 60, 3600, 7200, 40 * 86400)
RAILS = ("mlx5_3", "mlx5_4", "mlx5_9")
GPU = "0000:1b:00"
# Before the moment at which the simulated node's files were taken, by its uptime, in µs.
MOMENT = 86_340_000_000


def odd_line(chance):
    """A line of the kinds by which a log makes the agent hold something new."""
    a, b = chance.randrange(1 << 30), chance.randrange(1 << 30)
    return nccl.framed(chance.choice((
        f"train-0:7:9 [0] NCCL INFO Channel {a % 64:02}/0 : {a}[{a % 8}] -> {b}[0] [send] via NET/Socket/{b}",
        f"host{a}:{a}:{b} [{a % 8}] NCCL INFO Using network Socket",
        f"train-0:7:9 [0] NCCL INFO comm 0x{a:x} rank {b % 99} nranks 100 commId 0x{b:x} - Init START",
        f"train-0:7:9 [0] {a}.cc:1 NCCL WARN Call to ibv_create_qp failed {b}",
        f"train-0:7:9 [0] NCCL INFO NCCL_X{a} set by environment to {b}",
        f"step {a}: loss {b}",
    )), chance.choice("FFFP"))


def manifest(pod):
    """The pod as the API server describes it."""
    return {"kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": f"p{pod}", "namespace": "ml", "uid": nccl.uid(pod)},
            "spec": {"nodeName": "node-1", "containers": [
                {"name": "trainer", "image": "i",
                 "resources": {"limits": {"nvidia.com/gpu": "8", "rdma/hca": "8"}}}]},
            "status": {"phase": "Running", "containerStatuses": []}}


class Node:
    """One simulated node with its agent, its API server and its pods."""

    def __init__(self, rig, number, faketime):
        self.rig, self.number = rig, number
        self.chance = random.Random(number)
        self.faketime = faketime
        self.offset = rig.dir / "clock-offset"
        self.step(0)
        self.server = Server()
        self.port = self.server.server_address[1]
        self.names = itertools.count(1000)
        self.pods, self.runs, self.rotated = [], {}, {}
        self.records = 0
        self.counts = dict.fromkeys(
            ("lines", "pods", "restarts", "rotations", "flaps", "records", "scrapes", "hung up on",
             "API restarts", "API errors", "clock steps"), 0)

    def start(self):
        env = {}
        if self.faketime:
            env = {"LD_PRELOAD": str(self.faketime), "FAKETIME_TIMESTAMP_FILE": str(self.offset),
                   "FAKETIME_CACHE_DURATION": "1", "NO_FAKE_STAT": "1",
                   "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"}
        path = self.server.kubeconfig(self.rig.dir / "kubeconfig")
        for _ in range(PODS):
            self.new_pod()
        self.rig.spawn(f"cluster.kubeconfig={path}", "cluster.mode=labels", "cluster.heartbeat=0s",
                       env=env)

    def round(self, turn):
        """One round of everything; what is rare takes its turn on other nodes at other times."""
        self.logs(turn)
        due = turn + self.number
        if due % 3 == 0:
            self.rotate()
        if due % 4 == 0:
            self.restart_container()
        if due % 5 == 0:
            self.replace_pod()
        self.flap(due)
        self.kernel_log()
        self.scrape(due)
        if due % 15 == 7:
            self.api_error()
        if due % 20 == 13:
            self.api_restart()
        if self.faketime and due % 10 == 4:
            self.step(self.chance.choice(STEPS))
            self.counts["clock steps"] += 1

    # Pods

    def place(self, pod):
        return nccl.container(self.rig, f"p{pod}", pod)

    def new_pod(self):
        pod = next(self.names)
        self.pods.append(pod)
        self.runs[pod], self.rotated[pod] = 0, []
        nccl.write(self.place(pod), nccl.lines(nccl.FELL_BACK))
        self.server.pods = [manifest(each) for each in self.pods]

    def replace_pod(self):
        pod = self.pods.pop(0)
        shutil.rmtree(self.place(pod).parent)
        del self.runs[pod], self.rotated[pod]
        self.new_pod()
        self.counts["pods"] += 1

    def restart_container(self):
        pod = self.chance.choice(self.pods)
        self.runs[pod] += 1
        nccl.write(self.place(pod), nccl.lines(nccl.FELL_BACK[:4]), self.runs[pod])
        for old in self.place(pod).glob(f"{self.runs[pod] - 2}.log*"):
            old.unlink()
            self.rotated[pod] = [kept for kept in self.rotated[pod] if kept != old]
        self.counts["restarts"] += 1

    def rotate(self):
        pod = self.chance.choice(self.pods)
        log = self.place(pod) / f"{self.runs[pod]}.log"
        if not log.exists():
            return
        self.counts["rotations"] += 1
        to = log.with_name(f"{log.name}.20260501-12{self.counts['rotations']:06}")
        log.rename(to)
        nccl.write(self.place(pod), "", self.runs[pod])
        self.rotated[pod].append(to)
        while len(self.rotated[pod]) > KEPT:
            self.rotated[pod].pop(0).unlink(missing_ok=True)

    def logs(self, turn):
        for pod in self.pods:
            text = "".join(odd_line(self.chance) for _ in range(LINES))
            nccl.write(self.place(pod), text, self.runs[pod])
            self.counts["lines"] += LINES

    # Kernel

    def flap(self, due):
        """A rail is down every other round."""
        rail = RAILS[due // 2 % len(RAILS)]
        port = self.rig.tree / f"sys/class/infiniband/{rail}/ports/1"
        up = due % 2 == 1
        (port / "state").write_text("4: ACTIVE\n" if up else "1: DOWN\n")
        (port / "phys_state").write_text("5: LinkUp\n" if up else "2: Polling\n")
        self.counts["flaps"] += 1

    def kernel_log(self):
        path = self.rig.tree / "dev/kmsg"
        if path.stat().st_size > KERNEL_LOG:
            os.truncate(path, 0)
        texts = [f"NVRM: Xid (PCI:{GPU}): 13, pid={self.records}, Graphics Exception",
                 "mlx5_core 0000:40:00.0 ibp64s0: Link down",
                 f"usb 1-1: new device {self.records}"]
        with path.open("a") as log:
            for text in texts:
                self.records += 1
                log.write(f"4,{self.records},{MOMENT + self.records},-;{text}\n")
        self.counts["records"] += len(texts)

    # Clients

    def scrape(self, due):
        for path in ("/metrics", "/healthz", ("/report", "/", "/readyz", "/nothing")[due % 4]):
            with contextlib.suppress(OSError, ConnectionError):
                self.rig.agent.get(path)
                self.counts["scrapes"] += 1
        # A client that goes in the middle of its request.
        with contextlib.suppress(OSError), socket.create_connection(self.rig.agent.address, 5) as stream:
            stream.sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
            self.counts["hung up on"] += 1

    def api_error(self):
        """One round of 500s, until the next of its requests was answered so."""
        def refuse(handler):
            handler.status(500)
            return True
        self.server.fault = refuse if self.server.fault is None else None
        self.counts["API errors"] += 1

    def api_restart(self):
        node, pods = self.server.node, self.server.pods
        self.server.close()
        self.server = until("the port of the API server", lambda: Server(self.port))
        self.server.node, self.server.pods = node, pods
        self.counts["API restarts"] += 1

    def step(self, seconds):
        """The agent's wall clock; libfaketime reads the file every second."""
        new = self.offset.with_suffix(".new")
        new.write_text(f"{seconds:+}\n")
        os.replace(new, self.offset)
        self.stepped = seconds

    # The end

    def heal(self):
        self.server.fault = None
        for rail in RAILS:
            port = self.rig.tree / f"sys/class/infiniband/{rail}/ports/1"
            (port / "state").write_text("4: ACTIVE\n")
            (port / "phys_state").write_text("5: LinkUp\n")

    def close(self):
        self.server.close()
        return self.rig.stop()
