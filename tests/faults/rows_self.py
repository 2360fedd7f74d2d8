"""Rows that must fail: each shows that the runner notices what the others hold."""

import os
import signal

from rig import PROBES_IN_A_ROW, until
from row import Row


def wrong_value(rig):
    """A neighbour changes, and the row does not say so."""
    rig.start()
    (rig.tree / "sys/class/infiniband/mlx5_4/ports/1/state").write_text("1: DOWN\n")
    rig.until("a link that fell", lambda: rig.verdict() == "unready")
    rig.right(patience=2)


def no_recovery(rig):
    rig.start()
    (rig.tree / "sys/class/infiniband/mlx5_4/ports/1/state").write_text("1: DOWN\n")
    rig.until("a link that fell", lambda: rig.verdict() == "unready")
    rig.until("ready again", lambda: rig.verdict() == "ready", 2)


def dies(rig):
    agent = rig.start()
    os.kill(agent.pid, signal.SIGKILL)
    agent.process.wait()
    rig.rounds()


def does_not_answer(rig):
    """Frozen for longer than probes may take."""
    agent = rig.start()
    agent.send(signal.SIGSTOP)
    probe = rig.probes[0]
    before = len(probe.answers)
    try:
        # The first may have been answered.
        until("probes that fail", lambda: len(probe.answers) > before + PROBES_IN_A_ROW)
    finally:
        agent.send(signal.SIGCONT)


def nothing(rig):
    rig.start()


def row(name, fault, run, **options):
    return Row("self-test", name, fault, "the row fails", run, fast=True, must_fail=True, **options)


ROWS = [
    row("a wrong value is noticed", "a neighbour's link falls, and the row does not say so", wrong_value),
    row("no recovery is noticed", "a link that fell stays down", no_recovery),
    row("a death is noticed", "the agent is killed, and the row does not say so", dies),
    row("failed probes are noticed", "the agent is stopped, and the row does not say so",
        does_not_answer),
    row("memory is noticed", "nothing; the row allows 1 MiB", nothing, memory=1),
]
