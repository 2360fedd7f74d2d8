"""Limits on the process, signals, clocks, a log that is not read, and tasks that end or hang."""

import contextlib
import os
import resource
import signal
import socket
import time
from pathlib import Path

import nccl
from rig import MEMORY_LIMIT, PATIENCE, SETTINGS, Agent, Failed, Probe, until
from row import Row
from rows_logs import append, counted, xid


def works(rig, touched="xid"):
    """The agent judges, and counts what is logged now."""
    def others(name):
        return "xid" in name or touched in name

    rig.until("ready", lambda: rig.verdict() == "ready" and not rig.neighbours(others))
    append(rig.tree / "dev/kmsg", xid(1))
    rig.until("an Xid counted", lambda: counted(rig) == 1)
    rig.right(others)


def limited(name, fault, *limits, settings=(), memory=MEMORY_LIMIT, fast=False, known="", lost="nothing"):
    """Under a limit from the start the agent does all its work."""
    def run(rig):
        rig.start(*settings, limits=limits)
        works(rig)

    return Row("processes", name, fault, "the agent judges and counts", run, lost, fast, known,
               memory=memory)


MIB = 1 << 20


def too_tight(rig):
    """It cannot work, may end, and leaves nothing that a start without the limit trips over."""
    agent = rig.spawn(limits=[(resource.RLIMIT_AS, 128 * MIB)])
    with contextlib.suppress(Failed):
        agent.listen()
        until("its end", lambda: not agent.alive(), 5)
    if agent.alive():
        agent.end(signal.SIGKILL)
    rig.start()
    works(rig)


LIMITS = [
    limited("64 descriptors", "RLIMIT_NOFILE of 64", (resource.RLIMIT_NOFILE, 64), fast=True),
    limited("40 descriptors", "RLIMIT_NOFILE of 40", (resource.RLIMIT_NOFILE, 40)),
    limited("address space of 4 GiB", "RLIMIT_AS of 4 GiB", (resource.RLIMIT_AS, 4 << 30)),
    limited("data of 128 MiB", "RLIMIT_DATA of 128 MiB", (resource.RLIMIT_DATA, 128 * MIB)),
    limited("no locked memory", "RLIMIT_MEMLOCK of 0", (resource.RLIMIT_MEMLOCK, 0)),
    limited("no core files", "RLIMIT_CORE of 0", (resource.RLIMIT_CORE, 0)),
    limited("stack of 256 KiB", "RLIMIT_STACK of 256 KiB", (resource.RLIMIT_STACK, 256 * 1024)),
    limited("no queued signals", "RLIMIT_SIGPENDING of 0", (resource.RLIMIT_SIGPENDING, 0)),
]


def group(name, fault, controller, limit, fast=False, known=""):
    """The same in a control group of its own."""
    def run(rig):
        rig.start(groups=[rig.group(controller, *limit)])
        works(rig)

    return Row("processes", name, fault, "the agent judges and counts", run, fast=fast, known=known)


MEMORY_FILE = ("memory.limit_in_bytes" if Path("/sys/fs/cgroup/memory").is_dir() else "memory.max")
GROUPS = [
    group("memory of 64 MiB", "a control group with 64 MiB, as the manifests grant", "memory",
          (MEMORY_FILE, 64 * MIB), fast=True),
    group("memory of 48 MiB", "a control group with 48 MiB", "memory", (MEMORY_FILE, 48 * MIB)),
    group("40 tasks", "a control group with 40 tasks", "pids", ("pids.max", 40), fast=True),
]


def pressure(name, fault, most, later, fast=False, known=""):
    """No thread can be started for some time, from the start or later."""
    def run(rig):
        group = rig.group("pids", "pids.max", "max" if later else most)
        agent = rig.start(groups=[group], ready=later, probe=False)
        limit = group / "pids.max"
        if later:
            limit.write_text("1")
            device = rig.tree / "sys/class/infiniband/mlx5_3/ports/1/state"
            device.write_text("1: DOWN\n")
            rig.until("a link that fell", lambda: rig.verdict() == "unready")
            device.write_text("4: ACTIVE\n")
        else:
            # As long as it takes that start to notice.
            rig.until("a task that cannot be started", lambda: "cannot be started" in agent.log())
        begun = time.monotonic()
        limit.write_text("max")
        rig.recovers(begun, "every task up", lambda: all(
            value == 1 for name, value in agent.metrics().items()
            if name.startswith("selvage_task_up")))
        works(rig, "mlx5_3")

    return Row("processes", name, fault, "what cannot be started is tried again; the agent judges and "
               "counts", run, "nothing", fast, known)


PIDS = [
    pressure("no threads at the start", "pids.max of 3 while the agent starts", 3, False, fast=True),
    pressure("no threads later", "pids.max of 1 in a running agent", 1, True,
             fast=True),
]


def paused(rig):
    """Frozen for three seconds, as by a debugger or a node that thrashes."""
    rig.start()
    rig.until("ready", lambda: rig.verdict() == "ready")
    rig.agent.send(signal.SIGSTOP)
    append(rig.tree / "dev/kmsg", xid(1))
    end = time.monotonic() + 3
    while time.monotonic() < end:
        time.sleep(0.05)
    begun = time.monotonic()
    rig.agent.send(signal.SIGCONT)
    rig.recovers(begun, "an Xid counted", lambda: counted(rig) == 1)
    rig.right(lambda name: "xid" in name)
    if "SourceStalled" in rig.reasons():
        rig.until("no stall", lambda: "SourceStalled" not in rig.reasons())


def signalled(number):
    def run(rig):
        rig.start()
        rig.until("ready", lambda: rig.verdict() == "ready")
        for _ in range(20):
            rig.agent.send(number)
        works(rig)
    return run


def ends(number, hung):
    """SIGTERM and SIGINT end it, also while reads hang."""
    def run(rig):
        agent = rig.start(probe=False)
        if hung:
            state = rig.tree / "sys/class/infiniband/mlx5_3/ports/1/state"
            state.unlink()
            os.mkfifo(state)
            rig.until("a stall", lambda: "SourceStalled" in rig.reasons())
        begun = time.monotonic()
        code = agent.end(number)
        rig.recovery = time.monotonic() - begun
        if code != 0:
            raise Failed(f"exit status {code}")
        if rig.recovery > 20:
            raise Failed(f"it took {rig.recovery:.0f} s to end")
    return run


def unread_log(rig):
    """Its standard error is a pipe that is full."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(write, True)
    # The address cannot be read from the log: a port that was free a moment ago.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [str(rig.binary), "agent", f"--host-root={rig.tree}", f"--listen=127.0.0.1:{port}",
            "--node-name=node-1"]
    for setting in (f"agent.state_dir={rig.state}", *SETTINGS):
        argv += ["--set", setting]
    wrapped = ["/bin/sh", "-c", f'exec "$@" 2>/proc/{os.getpid()}/fd/{write} >&2', "sh", *argv]
    agent = Agent(wrapped, rig.dir, number=0)
    agent.address = ("127.0.0.1", port)
    rig.agent = agent
    rig.agents.append(agent)
    until("it serves", lambda: agent.get("/healthz")[0] == 200)
    rig.probes.append(Probe(agent))
    rig.probes[-1].start()
    works(rig)
    os.close(read)
    os.close(write)


def shifted(rig):
    """The monotonic clock begins elsewhere at each start, as after a move to another machine."""
    for offset in ("100000000", "0", "5"):
        rig.start(probe=False, wrap=["unshare", "-T", "--boottime", offset, "--monotonic", offset])
        rig.until("ready", lambda: rig.verdict() == "ready" and not rig.neighbours(
            lambda name: "xid" in name))
        rig.agent.end()
    rig.start()
    works(rig)


def started_again(rig):
    """Twenty starts and ends, one after the other."""
    for _ in range(20):
        rig.start(ready=False, probe=False)
        if code := rig.agent.end():
            raise Failed(f"exit status {code}")
    rig.start()
    works(rig)


def two_agents(rig):
    """A second agent over the same state directory, as while a DaemonSet is replaced."""
    first = rig.start()
    second = rig.start()
    append(rig.tree / "dev/kmsg", xid(1))
    for agent in (first, second):
        rig.agent = agent
        rig.until("an Xid counted", lambda: counted(rig) == 1)
    first.end()
    rig.right(lambda name: "xid" in name)
    second.end(signal.SIGKILL)
    rig.start()
    rig.until("an Xid counted once", lambda: counted(rig) == 1)


SIGNALS = [
    Row("processes", "stopped for three seconds", "SIGSTOP, three seconds, SIGCONT",
        "what was logged meanwhile is counted; rails' values stay", paused, fast=True,
        probes_may_fail=True),
    *(Row("processes", f"signal {name}", f"SIG{name}, 20 times", "the agent goes on", signalled(number))
      for name, number in (("PIPE", signal.SIGPIPE), ("WINCH", signal.SIGWINCH),
                           ("URG", signal.SIGURG), ("CHLD", signal.SIGCHLD))),
    Row("processes", "address space of 128 MiB", "RLIMIT_AS of 128 MiB, in which it cannot work, then none",
        "the next start judges and counts", too_tight, "the process"),
    Row("processes", "SIGTERM", "SIGTERM", "the agent ends well within 20 s",
        ends(signal.SIGTERM, False), fast=True),
    Row("processes", "SIGINT", "SIGINT", "the agent ends well within 20 s",
        ends(signal.SIGINT, False)),
    Row("processes", "SIGTERM while a read hangs", "SIGTERM while a file of a rail does not answer",
        "the agent ends well within 20 s", ends(signal.SIGTERM, True), fast=True),
    Row("processes", "log that is not read", "standard error is a pipe that is full",
        "the agent serves, judges and counts", unread_log, "lines of its log",
        fast=True),
    Row("processes", "monotonic clock begins elsewhere", "starts in time namespaces whose clocks are "
        "years ahead, and back", "the agent judges and counts", shifted),
    Row("processes", "20 restarts", "20 starts and SIGTERMs at once", "the agent judges and counts",
        started_again, probes_may_fail=True),
    Row("processes", "two agents", "two agents over one state directory", "an Xid is counted once",
        two_agents, probes_may_fail=True),
]


# MiB: a build with debug assertions takes twice the memory.
HOOKED = 96


def ask(rig, hook, text):
    """Has a task fail; the agent removes the file once it has read it."""
    new = hook.with_suffix(".new")
    new.write_text(text)
    new.rename(hook)
    rig.until("the fault taken", lambda: not hook.exists(), 20)


def panic(rig, agent, hook, name, patience=PATIENCE):
    """A task panics, and the agent says so; it may not answer meanwhile."""
    def counted_once():
        try:
            return agent.metrics().get(f'selvage_task_panics_total{{task="{name}"}}') == 1
        except OSError:
            return False

    ask(rig, hook, f"{name} panic")
    rig.until("a panic counted", counted_once, patience)


TOKEN = "a-token-of-thirty-two-characters"


def settings_of(name, rig):
    """Settings with which the agent runs the task."""
    if name == "textfile":
        return [f"agent.textfile={rig.dir / 'selvage.prom'}"]
    if name == "log_files":
        (rig.tree / "var/log/nccl").mkdir(parents=True)
        return ["nccl.log_files=/var/log/nccl/%h.%p.log"]
    if name == "serve_files":
        (rig.dir / "tokens").write_text(f"{TOKEN}\n")
        return [f"serve.token_file={rig.dir / 'tokens'}"]
    return []


def task(name, fault):
    """A long-lived task of the agent panics, or hangs and goes on."""
    restarts = fault == "hang" and name in ("kernel_log", "http")

    def run(rig):
        hook = rig.dir / "fault"
        agent = rig.spawn("nccl.suspects_every=1s", "intervals.deadline=300ms", *settings_of(name, rig),
                          env={"TASK_FAULTS": str(hook)}).listen()
        if name == "serve_files":
            agent.token = TOKEN
        if fault == "panic" and name != "http":
            rig.probe(agent)
        rig.until("ready", lambda: rig.verdict() == "ready")
        up = f'selvage_task_up{{task="{name}"}}'

        def value(series):
            try:
                return agent.metrics().get(series)
            except OSError:
                return None

        rig.until("its task up", lambda: value(up) == 1)
        if fault == "panic":
            panic(rig, agent, hook, name)
        else:
            ask(rig, hook, f"{name} hang")
            rig.until("its task silent", lambda: value(up) == 0, 100)
            rig.rounds(1)
            rig.right()
        begun = time.monotonic()
        if fault == "hang":
            ask(rig, hook, f"{name} go")
        nccl.write(nccl.container(rig, "train-good"), nccl.lines(nccl.FELL_BACK))
        append(rig.tree / "dev/kmsg", xid(1))
        rig.recovers(begun, "the task up, an Xid counted and a fallback seen", lambda: value(
            up) == 1 and counted(rig) == 1 and nccl.fallback(agent.metrics(), "train-good"))
        rig.right(lambda name: "xid" in name or "pod=" in name)

    done = {"panic": "panics", "hang": "hangs until the agent calls it silent"}[fault]
    return Row("threads", f"task {name}, {fault}", f"the task `{name}` {done}",
               "it is started again or goes on; what it missed is made up for; the others go on", run,
               fast=fault == "panic", probes_may_fail=restarts, hook=True, memory=HOOKED)


def events(name, patience):
    """A task that waits for this kernel's events panics. It runs where the agent watches the machine that
    it is on, and meets its fault when it stops waiting."""
    def run(rig):
        hook = rig.dir / "fault"
        agent = rig.spawn(argv=["--host-root=/"], env={"TASK_FAULTS": str(hook)}).listen()
        rig.probe(agent)
        up = f'selvage_task_up{{task="{name}"}}'
        rig.until("its task up", lambda: agent.metrics().get(up) == 1)
        panic(rig, agent, hook, name, patience)
        begun = time.monotonic()
        rig.recovers(begun, "the task up", lambda: agent.metrics().get(up) == 1)

    return Row("threads", f"task {name}, panic", f"the task `{name}` panics",
               "it is started again; the others go on", run, hook=True, memory=HOOKED)


TASKS = [events("rtnetlink", 60), events("rdma_monitor", 240)]
TASKS += [task(name, fault) for fault, names in (
    ("panic", ("http", "kernel_log", "pod_logs", "state", "tcp_watch", "serve_files", "textfile",
               "log_files")),
    ("hang", ("kernel_log", "pod_logs", "state"))) for name in names]

ROWS = LIMITS + GROUPS + PIDS + SIGNALS + TASKS
