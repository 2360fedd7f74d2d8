"""The kernel log and pods' logs: missing, of another kind, endless, torn, forged, flooding."""

import os
import shutil
import time

import nccl
from rig import Failed
from row import Row

GPU = "0000:1b:00"


# A minute before the moment at which the simulated node's files were taken, by its uptime.
MOMENT = 86_340_000_000


def record(number, text, priority=4):
    return f"{priority},{number},{MOMENT + number},-;{text}\n"


def xid(number, code=79, gpu=GPU):
    return record(number, f"NVRM: Xid (PCI:{gpu}): {code}, pid=1, GPU has fallen off the bus.")


def append(path, data):
    with path.open("ab") as log:
        log.write(data if isinstance(data, bytes) else data.encode())


def counted(rig, code=79):
    """How often the GPU's Xid of this code was counted."""
    return sum(value for name, value in rig.agent.metrics().items()
               if name.startswith("selvage_gpu_xid_total") and f'xid="{code}"' in name)


def kernel(name, fault, spoil, heal=None, blind=False, lost="nothing", fast=False, known=""):
    """`spoil` gets the log's path. Afterwards an Xid is counted, once."""
    def run(rig):
        path = rig.tree / "dev/kmsg"
        kept = path.with_name("kept")
        shutil.copy2(path, kept)
        if blind:
            spoil(path)
        rig.start()
        rig.until("ready", lambda: rig.verdict() == "ready")
        if not blind:
            spoil(path)
        if blind:
            rig.until("KernelLogBlind", lambda: "KernelLogBlind" in rig.reasons())
        rig.rounds(2)
        # A record that is too long, or read while it is written, may count as lost.
        rig.right(lambda series: series.startswith("selvage_kmsg_records_lost_total"))
        begun = time.monotonic()
        if heal:
            heal(path, kept)
        append(path, xid(2_000_000))
        rig.recovers(begun, "an Xid is counted", lambda: counted(rig) == 1)
        rig.rounds(1)
        if counted(rig) != 1:
            raise Failed(f"an Xid was counted {counted(rig)} times")

    holds = "an Xid that is logged afterwards is counted once; rails' values stay"
    if blind:
        holds = "the finding KernelLogBlind stands meanwhile; " + holds
    return Row("kernel log", name, fault, holds, run, lost, fast, known)


def put_back(path, kept):
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        path.rmdir()
    os.replace(kept, path)


def instead(make):
    def spoil(path):
        path.unlink()
        make(path)
    return spoil


def flood(path):
    with path.open("a") as log:
        log.writelines(record(1000 + number, f"usb 1-1: new device {number}")
                       for number in range(100_000))


def torn(path):
    """Half of a record; the rest comes with what is written next."""
    append(path, "4,1000,1000000,-;NVRM: somewh")
    append(path, "ere\n")


ABSENT = "events logged meanwhile"

KERNEL = [
    kernel("kernel log removed", "`/dev/kmsg` is removed, and comes back", os.unlink, put_back,
           lost=ABSENT, fast=True),
    kernel("kernel log a directory", "`/dev/kmsg` is a directory at the start", instead(os.mkdir), put_back,
           blind=True, lost=ABSENT),
    kernel("kernel log a dangling link", "`/dev/kmsg` is a link to nothing",
           instead(lambda path: path.symlink_to("nothing")), put_back, lost=ABSENT),
    kernel("kernel log a loop", "`/dev/kmsg` is a link to itself at the start",
           instead(lambda path: path.symlink_to("kmsg")), put_back, blind=True, lost=ABSENT),
    kernel("kernel log a pipe", "`/dev/kmsg` is a pipe without a writer",
           instead(os.mkfifo), put_back, lost=ABSENT, fast=True),
    kernel("kernel log endless", "`/dev/kmsg` is a link to `/dev/zero` at the start",
           instead(lambda path: path.symlink_to("/dev/zero")), put_back, blind=True, lost=ABSENT,
           fast=True),
    kernel("kernel log of nothing", "`/dev/kmsg` is a link to `/dev/null` at the start",
           instead(lambda path: path.symlink_to("/dev/null")), put_back, blind=True, lost=ABSENT),
    kernel("kernel log emptied", "the log is cut to nothing in place",
           lambda path: os.truncate(path, 0), lost=ABSENT, fast=True),
    kernel("kernel log replaced", "another file is moved in its place",
           lambda path: (path.with_name("new").write_text(record(1, "new")),
                         os.replace(path.with_name("new"), path))),
    kernel("kernel log torn", "a record comes in two writes", torn, fast=True),
    kernel("kernel log junk", "1 MiB of random bytes",
           lambda path: append(path, os.urandom(1 << 20) + b"\n"), fast=True),
    kernel("kernel log NUL bytes", "64 KiB of NUL bytes",
           lambda path: append(path, b"\0" * 65536 + b"\n")),
    kernel("kernel log line of 16 MiB", "a record of 16 MiB without an end",
           lambda path: append(path, "4,1000,1000000,-;" + "A" * (16 << 20) + "\n"), fast=True),
    kernel("kernel log flood", "100,000 records at once", flood),
    kernel("kernel log gap", "numbers of records jump by a million",
           lambda path: append(path, record(1_000_000, "after a gap"))),
    kernel("kernel log not UTF-8", "an event whose process name is not text",
           lambda path: append(path, b"4,1000,1000000,-;NVRM: Xid (PCI:0000:1b:00): 13, pid=1, "
                                     b"name=\xff\xfe\x80, Graphics Exception\n")),
    kernel("kernel log dictionaries", "a record with 10,000 lines of dictionary",
           lambda path: append(path, record(1000, "driver") + " DEVICE=+pci:junk\n" * 10_000)),
    kernel("kernel log numbers too large", "numbers of 40 digits in every field",
           lambda path: append(path, f"{'9' * 40},{'9' * 40},{'9' * 40},-;NVRM: Xid "
                                     f"(PCI:0000:1b:00): {'9' * 40}, pid={'9' * 40}, x\n")),
    kernel("kernel log forged by a process", "an Xid of a facility that any process may write",
           lambda path: append(path, record(1000, "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, x", 12)),
           fast=True),
    kernel("kernel log names 100 GPUs", "Xids of 100 GPUs that do not exist (128 are kept apart)",
           lambda path: append(path, "".join(
               xid(1000 + number, 13, f"{number:04x}:00:00") for number in range(100)))),
]

GOOD = "train-good"


def pods(name, fault, spoil, heal=None, before=False, lost="nothing", fast=False, known="", grows=0):
    """`spoil` gets the rig and a container's directory. Afterwards another pod's fallback is seen."""
    def run(rig):
        place = nccl.container(rig, "train-odd", 7)
        nccl.write(place, nccl.lines(nccl.FELL_BACK[:2]))
        if before:
            spoil(rig, place)
        rig.start()
        rig.until("ready", lambda: rig.verdict() == "ready")
        if not before:
            spoil(rig, place)
        rig.rounds(2)
        rig.right(lambda name: "pod=" in name)
        begun = time.monotonic()
        if heal:
            heal(rig, place)
        nccl.write(nccl.container(rig, GOOD), nccl.lines(nccl.FELL_BACK))
        rig.recovers(begun, "another pod's fallback is seen",
                     lambda: nccl.fallback(rig.agent.metrics(), GOOD))

    return Row("pod logs", name, fault, "another pod's fallback to TCP is seen; rails' values stay",
               run, lost, fast, known)


def log_is(make):
    def spoil(rig, place):
        log = place / "0.log"
        log.unlink()
        make(log)
    return spoil


def add(make):
    """`make` gives the data: much of it is made only in the row that needs it."""
    return lambda rig, place: nccl.write(place, make())


def directories(rig, _):
    """Ten thousand directories that belong to no pod, and 2,000 that do."""
    top = rig.tree / "var/log/pods"
    for number in range(10_000):
        (top / f"junk{number}").mkdir()
    for number in range(2_000):
        (top / f"a_b{number}_{nccl.uid(number)}").mkdir()


def all_logs(make):
    def spoil(rig, _):
        top = rig.tree / "var/log/pods"
        top.rename(top.with_name("kept"))
        make(top)
    return spoil


def logs_back(rig, _):
    top = rig.tree / "var/log/pods"
    if top.is_symlink() or top.is_file() or top.is_fifo():
        top.unlink()
    top.with_name("kept").rename(top)


def rotated(rig, place):
    for turn in range(20):
        (place / "0.log").rename(place / f"0.log.2026050112000{turn}")
        nccl.write(place, nccl.lines(["Using network IB"]))


def sparse(rig, place):
    os.truncate(place / "0.log", 4 << 30)


PODS = [
    pods("pod log a pipe", "a container's log is a pipe without a writer", log_is(os.mkfifo),
         fast=True, lost="that container's verdict"),
    pods("pod log a pipe at the start", "the same before the agent starts", log_is(os.mkfifo),
         before=True, lost="that container's verdict"),
    pods("pod log a directory", "a container's log is a directory", log_is(os.mkdir),
         lost="that container's verdict"),
    pods("pod log endless", "a container's log is a link to `/dev/zero`",
         log_is(lambda log: log.symlink_to("/dev/zero")), fast=True, lost="that container's verdict"),
    pods("pod log outside", "a container's log is a link to `/etc/shadow`",
         log_is(lambda log: log.symlink_to("/etc/shadow")), lost="that container's verdict"),
    pods("pod log dangling", "a container's log is a link to nothing",
         log_is(lambda log: log.symlink_to("nothing")), lost="that container's verdict"),
    pods("pod log a loop", "a container's log is a link to itself",
         log_is(lambda log: log.symlink_to("0.log")), lost="that container's verdict"),
    pods("pod log removed", "a log is removed while it is read", log_is(lambda log: None)),
    pods("pod log emptied", "a log is cut to nothing in place",
         lambda rig, place: os.truncate(place / "0.log", 0)),
    pods("pod log rotated 20 times", "a log is rotated 20 times at once", rotated, fast=True),
    pods("pod log sparse", "a log of 4 GiB of NUL bytes", sparse, fast=True),
    pods("pod log line of 64 MiB", "a line of 64 MiB without an end", add(lambda: b"A" * (64 << 20)),
         fast=True),
    pods("pod log parts without end", "100,000 partial frames and never a whole one",
         add(lambda: nccl.framed("NCCL INFO " + "x" * 100, "P") * 100_000)),
    pods("pod log junk", "8 MiB of random bytes", add(lambda: os.urandom(8 << 20))),
    pods("pod log odd frames", "frames with dates, streams and tags that do not exist",
         add(lambda: "".join(f"{time} {stream} {tag} NCCL INFO Using network Socket\n"
                     for time in (nccl.TIME, "9999-99-99T99:99:99Z", "", "-1")
                     for stream in ("stdout", "stderr", "stdin", "")
                     for tag in ("F", "P", "F:F", "X", "")) * 50)),
    pods("pod log odd JSON", "lines of Docker's format that are torn, deep or huge",
         add(lambda: '{"log":"\n' * 1000 + '{"log":' + "[" * 100_000 + "\n"
             + '{"log":"' + "\\ud800" * 10_000 + '"}\n')),
    pods("pod log storm", "300,000 lines of NCCL at once",
         add(lambda: nccl.lines(nccl.FELL_BACK[2:5]) * 100_000)),
    pods("pod log twelve thousand directories", "10,000 directories that belong to no pod, 2,000 empty pods",
         directories),
    pods("pod logs removed", "`/var/log/pods` is moved away", all_logs(lambda top: None), logs_back,
         lost="lines written meanwhile, if they are rotated away", fast=True),
    pods("pod logs a file", "`/var/log/pods` is a file", all_logs(lambda top: top.write_text("x")),
         logs_back),
    pods("pod logs a pipe", "`/var/log/pods` is a pipe", all_logs(os.mkfifo), logs_back),
    pods("pod logs a dangling link", "`/var/log/pods` is a link to nothing",
         all_logs(lambda top: top.symlink_to("nothing")), logs_back),
    pods("pod logs a loop", "`/var/log/pods` is a link to itself",
         all_logs(lambda top: top.symlink_to("pods")), logs_back),
]

ROWS = KERNEL + PODS
