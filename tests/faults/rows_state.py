"""The state directory and its disk, and what outlives a kill."""

import ctypes
import json
import os
import random
import shutil
import signal
import time

from rig import Failed, Impossible
from row import Row
from rows_logs import append, counted, xid

LIBC = ctypes.CDLL(None, use_errno=True)
MS_BIND, MS_REMOUNT, MS_RDONLY, MS_REC, MS_PRIVATE = 4096, 32, 1, 16384, 1 << 18


def mount(source, target, kind, flags=0, data=""):
    """mount(2), in a mount namespace of this row's own."""
    encoded = [text.encode() for text in (str(source), str(target), kind)]
    if LIBC.mount(*encoded, ctypes.c_ulong(flags), data.encode()):
        raise Impossible(f"mount of {kind or 'a bind'}: {os.strerror(ctypes.get_errno())}")


def own_mounts():
    if LIBC.unshare(0x20000):
        raise Impossible(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    mount("none", "/", "", MS_REC | MS_PRIVATE)


def small(options):
    """The state directory is a file system of its own."""
    def prepare(rig):
        own_mounts()
        rig.state.mkdir()
        mount("none", rig.state, "tmpfs", 0, options)
        rig.undo.append(lambda: LIBC.umount2(str(rig.state).encode(), 2))
    return prepare


def fill(rig):
    with (rig.state / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            pass


def remount(flags):
    return lambda rig: mount("none", rig.state, "", MS_REMOUNT | flags)


def saved(rig, code=79):
    """Whether the file knows of an Xid."""
    try:
        return f'"{code}"' in (rig.state / "memory.json").read_text()
    except OSError:
        return False


def disk(name, fault, prepare, spoil, heal, fast=False, known=""):
    """The disk fails while the agent runs, and is well again: what was counted meanwhile is saved."""
    def run(rig):
        prepare(rig)
        rig.start()
        rig.until("ready", lambda: rig.verdict() == "ready")
        rig.until("a state file", (rig.state / "memory.json").exists)
        spoil(rig)
        append(rig.tree / "dev/kmsg", xid(1))
        rig.until("an Xid counted", lambda: counted(rig) == 1)
        rig.rounds(2)
        rig.right(lambda name: "xid" in name)
        begun = time.monotonic()
        heal(rig)
        rig.recovers(begun, "the Xid saved", lambda: saved(rig))
        rig.agent.end(signal.SIGKILL)
        rig.start()
        rig.until("an Xid counted still, once", lambda: counted(rig) == 1)
        if rig.agent.metrics().get("selvage_fabric_ready") == 1:
            raise Failed("ready although an Xid stands")

    return Row("state", name, fault, "reading and judging go on; once the disk is well, what was "
               "counted meanwhile is saved", run, "over a kill: what happened since the last write",
               fast, known)


def empty(rig):
    rig.state.mkdir(exist_ok=True)


def removed(rig):
    shutil.rmtree(rig.state)


def nothing(rig):
    pass


DISKS = [
    disk("disk full", "tmpfs of 256 KiB, filled up", small("size=256k"), fill,
         lambda rig: (rig.state / "filler").unlink(), fast=True),
    disk("disk read-only", "the state directory's file system is remounted read-only", small("size=1m"),
         remount(MS_RDONLY), remount(0)),
    disk("inodes used up", "a file system without a free inode", small("size=1m,nr_inodes=3"),
         lambda rig: [open(rig.state / f"x{n}", "x").close() for n in range(free_inodes(rig))],
         lambda rig: [path.unlink() for path in rig.state.glob("x*")]),
    disk("state directory removed", "the state directory is removed", empty, removed, nothing,
         fast=True),
    disk("state directory renamed", "the state directory is moved away, and a file takes its place",
         empty, lambda rig: (rig.state.rename(rig.dir / "moved"), rig.state.write_text("x")),
         lambda rig: (rig.state.unlink(), (rig.dir / "moved").rename(rig.state))),
    disk("state file a directory", "`memory.json` becomes a directory", empty,
         lambda rig: ((rig.state / "memory.json").unlink(),
                      (rig.state / "memory.json").mkdir()),
         lambda rig: (rig.state / "memory.json").rmdir()),
    disk("state file removed", "`memory.json` is removed", empty,
         lambda rig: (rig.state / "memory.json").unlink(), nothing),
]


def free_inodes(rig):
    return os.statvfs(rig.state).f_ffree


def found(name, fault, make, file="memory.json", fast=False, known=""):
    """What a start finds in the place of a state file: nothing of it is believed, and another one can be
    written where that is possible."""
    def run(rig):
        rig.state.mkdir()
        victim = rig.dir / "victim"
        victim.write_text("of somebody else\n")
        make(rig.state / file)
        rig.start(ready=False)
        rig.until("ready", lambda: rig.verdict() == "ready" and not rig.neighbours())
        append(rig.tree / "dev/kmsg", xid(1))
        rig.until("an Xid counted", lambda: counted(rig) == 1)
        rig.right(lambda name: "xid" in name)
        if victim.read_text() != "of somebody else\n":
            raise Failed("a file that a link led to was written")

    return Row("state", name, fault, "the agent starts, judges and counts; what a link leads to is not "
               "written", run, "what was remembered", fast, known)


FOUND = [
    ("a pipe", os.mkfifo, True),
    ("a directory", os.mkdir, False),
    ("empty", lambda path: path.write_text(""), False),
    ("torn", lambda path: path.write_text('{"version":1,"memory":{"boot_id":"3c9'), True),
    ("junk", lambda path: path.write_bytes(os.urandom(65536)), False),
    ("of another version", lambda path: path.write_text('{"version":999}'), False),
    ("of other types", lambda path: path.write_text(
        '{"version":1,"memory":[],"restricted":{},"kernel_log":"x","read":3,"verdicts":{}}'), False),
    ("deep", lambda path: path.write_text("[" * 200_000), False),
    ("of 300 MB", lambda path: (path.touch(), os.truncate(path, 300 << 20)), True),
    ("a link to /dev/zero", lambda path: path.symlink_to("/dev/zero"), False),
    ("a link to a file", lambda path: path.symlink_to(path.parent.parent / "victim"), True),
    ("a dangling link", lambda path: path.symlink_to("nothing"), False),
]
STARTS = [found(f"{file} {what}", f"at the start `{file}` is {what}", make, file,
                fast and file == "memory.json")
          for file in ("memory.json", "jobs.json") for what, make, fast in FOUND]


def place(name, fault, make):
    """What a start finds in the directory's place."""
    def run(rig):
        make(rig.state)
        rig.start()
        rig.until("ready", lambda: rig.verdict() == "ready" and not rig.neighbours())
        append(rig.tree / "dev/kmsg", xid(1))
        rig.until("an Xid counted", lambda: counted(rig) == 1)
        rig.right(lambda name: "xid" in name)

    return Row("state", name, fault, "the agent starts, judges and counts", run,
               "over a restart: everything")


PLACES = [
    place("state directory a file", "the directory's path is a file", lambda path: path.write_text("x")),
    place("state directory a pipe", "the directory's path is a pipe", os.mkfifo),
    place("state directory a dangling link", "the directory's path is a link to nothing",
          lambda path: path.symlink_to("nothing")),
    place("state directory below a file", "a parent of the directory is a file",
          lambda path: path.symlink_to("/etc/hostname/state")),
]


def kills(rig):
    """SIGKILL at any moment, 50 times, while an Xid is logged each time."""
    def counted(rig):
        # The metric counts since the start, the report since the boot.
        return sum(xid["count"] for xid in rig.agent.report()["xid"])

    chance = random.Random(1)
    log = rig.tree / "dev/kmsg"
    begun = time.monotonic()
    for turn in range(50):
        append(log, xid(1000 + turn))
        agent = rig.start(ready=False, probe=False)
        if chance.random() < 0.5:
            want = turn + 1
            rig.until(f"{want} Xids counted", lambda: counted(rig) in (want, want + 1))
        end = time.monotonic() + chance.random() * 0.2
        until_then(end)
        agent.end(signal.SIGKILL)
    rig.start()
    rig.recovers(begun, "50 Xids counted", lambda: counted(rig) == 50)
    rig.rounds(2)
    if counted(rig) != 50:
        raise Failed(f"{counted(rig)} Xids counted, not 50")


def until_then(moment):
    """A chance moment to kill at, not a wait for something."""
    while time.monotonic() < moment:
        time.sleep(0.005)


def temporary(make):
    """What somebody left in the place of the file that a state file is first written to."""
    def run(rig):
        rig.state.mkdir()
        victim = rig.dir / "victim"
        victim.write_text("of somebody else\n")
        for name in ("memory.json.new", "memory.json.tmp", ".memory.json.new", "jobs.json.new"):
            make(rig.state / name, victim)
        rig.start()
        append(rig.tree / "dev/kmsg", xid(1))
        rig.until("the Xid saved", lambda: saved(rig))
        if victim.read_text() != "of somebody else\n":
            raise Failed("a file that a link led to was written")
    return run


OTHER = [
    Row("state", "killed 50 times", "SIGKILL at a chance moment, 50 times, with an Xid logged before each "
        "start", "nothing that was counted is lost or counted twice", kills, probes_may_fail=True),
    Row("state", "temporary file a link", "the names that a state file is first written to are links to a "
        "file of somebody else", "state is saved; that file is not written",
        temporary(lambda path, victim: path.symlink_to(victim))),
    Row("state", "temporary file a pipe", "the names that a state file is first written to are pipes",
        "state is saved", temporary(lambda path, victim: os.mkfifo(path))),
]

ROWS = DISKS + STARTS + PLACES + OTHER
