"""Pods that want to hurt: what a container may write into its own log, and what a pod may be called. Memory
stays below its bound, another tenant's fallback is seen, and the node's verdict is not theirs."""

import random
import time

import nccl
from api import Server
from rig import Failed
from row import Row

GOOD = "train-good"
# What tenants may add to the resident size: the budget of 16 MiB, the reading of it, and a debug build.
GROWS = 40


def tenant(name, fault, attack, fast=False, known="", grows=GROWS, settle=4):
    """`attack` writes logs, again and again, while the agent reads."""
    def run(rig):
        agent = rig.start()
        rig.until("ready", lambda: rig.verdict() == "ready")
        agent.measure()
        before = agent.peak
        for turn in range(settle):
            attack(rig, turn)
            rig.rounds(1)
        begun = time.monotonic()
        nccl.write(nccl.container(rig, GOOD, namespace="other"), nccl.lines(nccl.FELL_BACK))
        rig.recovers(begun, "another tenant's fallback is seen",
                     lambda: nccl.fallback(agent.metrics(), GOOD))
        rig.right(lambda name: "pod=" in name)
        series = len(agent.metrics())
        if series > 2000:
            raise Failed(f"{series} series")
        agent.measure()
        if agent.peak - before > grows:
            raise Failed(f"{agent.peak - before:.0f} MiB more resident memory, more than {grows}")
        if rig.verdict() in ("unready", "unknown"):
            raise Failed(f"a tenant made the node {rig.verdict()}: {rig.reasons()}")

    return Row("tenants", name, fault, "another tenant's fallback is seen; rails' values stay; memory grows by "
               f"{grows} MiB at most, and series to 2,000; the node is neither unready nor unknown", run,
               "the tenant's own verdicts", fast, known)


CHANCE = random.Random(7)


def said(text):
    return nccl.framed(f"train-0:7:9 [0] NCCL INFO {text}")


def flood(make, containers=1, lines=20_000):
    """`make` gives the line of a number; each container writes as many."""
    def attack(rig, turn):
        for number in range(containers):
            place = nccl.container(rig, "attacker", 66, f"c{number}", "evil")
            first = (turn * containers + number) * lines
            nccl.write(place, "".join(make(first + line) for line in range(lines)))
    return attack


def connections(number):
    """Connections between ever new ranks."""
    a, b = CHANCE.randrange(1 << 30), CHANCE.randrange(1 << 30)
    return said(f"Channel {number % 64:02}/0 : {a}[{a % 8}] -> {b}[{b % 8}] [send] via NET/Socket/{number}")


def processes(number):
    """Ever new hosts and processes."""
    return nccl.framed(f"host{number}:{number}:{number} [{number % 8}] NCCL INFO Using network Socket")


def communicators(number):
    return said(f"ncclCommInitRank comm 0x{number:x} rank {number} nranks 100000 cudaDev 0 nvmlDev 0 busId "
                f"18000 commId 0x{number:x} - Init START")


def variables(number):
    return said(f"NCCL_X{number} set by environment to {'v' * 200}")


def warnings(number):
    return nccl.framed(f"train-0:7:9 [0] {number}.cc:1 NCCL WARN Call to ibv_create_qp failed {number} "
                       + "w" * 200)


def networks(number):
    return said(f"Using network Plugin{number}{'n' * 200}")


def interfaces(number):
    names = " ".join(f"[{n}]eth{number}{n}:10.0.0.{n}<0>" for n in range(30))
    return said(f"NET/Socket : Using {names}")


def pods(count):
    """Each pod with a log of a fallback of its own."""
    def attack(rig, turn):
        if turn:
            return
        for number in range(count):
            nccl.write(nccl.container(rig, f"p{number}", 1000 + number, namespace=f"n{number % 5}"),
                       nccl.lines(nccl.FELL_BACK))
    return attack


def churn(rig, turn):
    """Pods come and go, 100 a turn."""
    top = rig.tree / "var/log/pods"
    for number in range(100):
        for old in top.glob(f"churn_p{number}_*"):
            for log in sorted(old.rglob("*"), reverse=True):
                log.unlink() if log.is_file() else log.rmdir()
            old.rmdir()
        nccl.write(nccl.container(rig, f"p{number}", 5000 + turn * 100 + number, namespace="churn"),
                   nccl.lines(nccl.FELL_BACK))


def names(rig, turn):
    """Names that would break a series, a page or a log line."""
    if turn:
        return
    odd = ['a"b', "a\\b", "a\nb", "a{b}", "<script>", "ünï", "a b", "..", "x" * 200, "a=b,c", "\x1b[31m"]
    for number, name in enumerate(odd):
        nccl.write(nccl.container(rig, name, 300 + number, "c"), nccl.lines(nccl.FELL_BACK))
        nccl.write(nccl.container(rig, "plain", 400 + number, name), nccl.lines(nccl.FELL_BACK))


def forged(number):
    """A frame within a line, an Xid, and control characters."""
    return said(f"\x1b[2J\x07 {nccl.TIME} stdout F NVRM: Xid (PCI:0000:1b:00): 79, pid=1, {number}\x00 "
                "</pre><script>alert(1)</script>")


ATTACKS = [
    tenant("ever new connections", "a log of connections between ever new ranks", flood(connections),
           fast=True),
    tenant("ever new processes", "a log of ever new hosts and processes", flood(processes), fast=True),
    tenant("ever new communicators", "a log of ever new communicators", flood(communicators)),
    tenant("ever new variables", "a log of ever new settings", flood(variables)),
    tenant("ever new warnings", "a log of ever new warnings", flood(warnings)),
    tenant("ever new networks", "a log of ever new networks", flood(networks)),
    tenant("ever new interfaces", "a log of ever new interfaces", flood(interfaces, lines=5000)),
    tenant("forged lines", "a log with frames, Xids, escapes and markup within lines", flood(forged)),
    tenant("16 containers", "16 containers whose logs name ever new connections",
           flood(connections, 16, 2000), fast=True),
    tenant("16 containers of processes", "16 containers whose logs name ever new processes",
           flood(processes, 16, 2000)),
    tenant("300 pods", "300 pods whose jobs all fell back", pods(300)),
    tenant("1,000 pods", "1,000 pods whose jobs all fell back", pods(1000)),
    tenant("pods that come and go", "100 pods that are replaced again and again", churn),
    tenant("odd names", "pods and containers with quotes, line feeds, markup and escapes in their names",
           names, fast=True),
]


def manifest(number, variables, size):
    env = [{"name": f"NCCL_V{n}", "value": "v" * size} for n in range(variables)]
    return {"kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": f"p{number}", "namespace": "evil", "uid": nccl.uid(number),
                         "labels": {"x": "y" * 60}, "annotations": {"a": "z" * 10_000}},
            "spec": {"nodeName": "node-1", "containers": [
                {"name": f"c{n}", "image": "i", "env": env,
                 "resources": {"limits": {"nvidia.com/gpu": "8"}}} for n in range(4)]},
            "status": {"phase": "Running", "containerStatuses": []}}


def manifests(count, variables, size):
    def run(rig):
        server = Server()
        rig.undo.append(server.close)
        server.pods = [manifest(number, variables, size) for number in range(count)]
        path = server.kubeconfig(rig.dir / "kubeconfig")
        agent = rig.start(f"cluster.kubeconfig={path}", "cluster.mode=labels")
        rig.until("the list of pods asked for", lambda: server.asked("/api/v1/pods"))
        rig.until("ready", lambda: rig.verdict() == "ready")
        rig.rounds(3)
        nccl.write(nccl.container(rig, GOOD, namespace="other"), nccl.lines(nccl.FELL_BACK))
        begun = time.monotonic()
        rig.recovers(begun, "another tenant's fallback is seen",
                     lambda: nccl.fallback(agent.metrics(), GOOD))
        rig.right(lambda name: "pod=" in name)
    return run


MANIFESTS = [
    Row("tenants", "300 pods with large environments", "300 pods of 4 containers with 60 variables of 200 bytes",
        "another tenant's fallback is seen; rails' values stay", manifests(300, 60, 200),
        "the tenants' own variables", fast=True),
    Row("tenants", "pods with variables of 100 KiB", "20 pods of 4 containers with 5 variables of 100 KiB",
        "another tenant's fallback is seen; rails' values stay", manifests(20, 5, 100_000),
        "the tenants' own variables"),
    Row("tenants", "2,000 pods", "2,000 pods of 4 containers", "another tenant's fallback is seen; rails' "
        "values stay", manifests(2000, 3, 10), "the tenants' own variables"),
]

ROWS = ATTACKS + MANIFESTS
