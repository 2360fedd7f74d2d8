"""Files of the kernel that are gone, broken, endless, silent or of another kind: one mechanism for one
target a row. The attribute is unknown or right, never wrong, and its neighbours stay right."""

import contextlib
import os
import re
import shutil
import time
from dataclasses import dataclass

from rig import Failed
from row import Row

RAIL = "sys/class/infiniband/mlx5_3"
PORT = f"{RAIL}/ports/1"
NETDEV = "sys/class/net/ibp64s0"
GPU = "0000:1b:00.0"
# What names the rail that the faults are injected into.
OWN = ("mlx5_3", "ibp64s0", "0000:40:00.0")


@dataclass
class Target:
    name: str
    path: str
    # The series that shows it, as a pattern; none where it shows in the report only.
    shows: str = ""
    # Without it the node must not be ready.
    vital: bool = False
    # What else may differ while it stands.
    also: str = "^$"


def aside(path, what):
    """Where something is kept meanwhile: outside of the tree, whose directories are listed."""
    tree = next(parent for parent in path.parents if parent.name == "node")
    return tree.with_name(f"{what}-{path.name}")


def replace(path, make):
    """Puts something else in a file's place, at one moment."""
    new = aside(path, "new")
    make(new)
    if path.is_dir() and not path.is_symlink():
        path.rename(aside(path, "old"))
    os.rename(new, path)


def content(data):
    return lambda path: replace(path, lambda new: new.write_bytes(data))


def halved(path):
    """Cut in place: who has it open sees that, too."""
    os.truncate(path, max(1, path.stat().st_size // 3))


def gone(path):
    path.rename(aside(path, "old"))


def turned(path):
    """A directory where the file was; a file where a directory was."""
    if path.is_dir():
        replace(path, lambda new: new.write_text("a file\n"))
    else:
        path.unlink()
        path.mkdir()


def linked(target):
    return lambda path: replace(path, lambda new: new.symlink_to(target))


# How a file is spoilt: description, what is done.
MECHANISMS = {
    "missing": ("is removed", gone),
    "empty": ("is empty", content(b"")),
    "junk": ("holds bytes other than text", content(b"\xff\xfe\x00junk\x07 \xe2\x98\x83\n")),
    "huge": ("holds 10 MiB", content(b"A" * (10 << 20))),
    "digits": ("holds a number of 5,000 digits", content(b"9" * 5000 + b"\n")),
    "negative": ("holds a negative number", content(b"-1\n")),
    "directory": ("is a directory", turned),
    "pipe": ("is a pipe without a writer: its open blocks", lambda path: replace(path, os.mkfifo)),
    "dangling": ("is a link to nothing", linked("nothing/here")),
    "loop": ("is a link to itself", lambda path: linked(path.name)(path)),
    "torn": ("is cut short in place", halved),
    "outside": ("is a link out of the host's root", linked("/etc/hostname")),
    "endless": ("is a link to /dev/zero", linked("/dev/zero")),
}

STATE = Target("port state", f"{PORT}/state", 'selvage_port_state_id{device="mlx5_3"', vital=True)
PHYSICAL = Target("physical state", f"{PORT}/phys_state",
                  'selvage_port_physical_state_id{device="mlx5_3"')
RATE = Target("rate", f"{PORT}/rate", 'selvage_port_rate_bytes_per_second{device="mlx5_3"')
COUNTER = Target("counter link_downed", f"{PORT}/counters/link_downed",
                 'device="mlx5_3",.*counter="link_downed"')
HARDWARE = Target("hardware counter", f"{PORT}/hw_counters/out_of_sequence",
                  'device="mlx5_3",.*counter="out_of_sequence"')
TRAFFIC = Target("bytes received", f"{PORT}/counters/port_rcv_data",
                 'selvage_port_receive_bytes_total{device="mlx5_3"')
SPEED = Target("PCIe speed", f"{RAIL}/device/current_link_speed",
               r'selvage_pcie_link_bytes_per_second{.*0000:40:00.0')
CARRIER = Target("carrier", f"{NETDEV}/carrier")
LID = Target("LID", f"{PORT}/lid")
LAYER = Target("link layer", f"{PORT}/link_layer")
GIDS = Target("GID", f"{PORT}/gids/0")
FIRMWARE = Target("firmware version", f"{RAIL}/fw_ver")
COUNTERS = Target("directory of counters", f"{PORT}/counters",
                  'device="mlx5_3",.*counter="link_downed"')
PORTS = Target("directory of ports", f"{RAIL}/ports", 'selvage_port_state_id{device="mlx5_3"',
               vital=True)
DEVICE = Target("RDMA device", RAIL, vital=True, also="selvage_rails")

TEXTS = ["missing", "empty", "junk", "huge", "directory", "pipe", "dangling", "loop", "outside",
         "endless"]
NUMBERS = [*TEXTS, "digits", "negative"]
NODES = ["missing", "directory", "pipe", "dangling", "loop", "outside"]

PRODUCT = [
    (STATE, [*NUMBERS, "torn"]),
    (PHYSICAL, [*NUMBERS, "torn"]),
    (RATE, [*NUMBERS, "torn"]),
    (COUNTER, NUMBERS),
    (HARDWARE, NUMBERS),
    (TRAFFIC, ["missing", "empty", "junk", "pipe", "digits", "endless"]),
    (SPEED, [*TEXTS, "torn"]),
    (CARRIER, ["missing", "empty", "junk", "huge", "directory", "pipe", "endless"]),
    (LID, ["missing", "empty", "junk", "pipe", "digits"]),
    (LAYER, ["missing", "empty", "junk", "pipe", "huge"]),
    (GIDS, ["missing", "empty", "junk", "pipe", "huge"]),
    (FIRMWARE, ["missing", "empty", "junk", "pipe", "huge", "endless"]),
    (COUNTERS, NODES),
    (PORTS, NODES),
    (DEVICE, NODES),
]
FAST = {("port state", each) for each in ("missing", "junk", "huge", "pipe", "outside", "torn")} | {
    ("rate", "junk"), ("counter link_downed", "digits"), ("counter link_downed", "pipe"),
    ("physical state", "empty"), ("RDMA device", "dangling"), ("PCIe speed", "missing"),
    ("firmware version", "endless"), ("GID", "huge"), ("hardware counter", "negative")}


def row(target, mechanism):
    done, spoil = MECHANISMS[mechanism]

    def run(rig):
        shows = re.compile(target.shows.replace("{", "\\{"))

        def shown():
            return {name: value for name, value in rig.agent.metrics().items()
                    if target.shows and shows.search(name)}

        rig.start()
        rig.until("ready", lambda: rig.verdict() == "ready" and not rig.neighbours())
        before = shown()
        if target.shows and not before:
            raise Failed(f"nothing shows {target.name}")
        path = rig.tree / target.path
        keep = aside(path, "kept")
        if not path.is_dir() or path.is_symlink():
            shutil.copy2(path, keep, follow_symlinks=False)
        spoil(path)
        torn = mechanism == "torn"

        def unknown():
            now = shown()
            wrong = {name: value for name, value in now.items() if before.get(name) != value}
            if wrong:
                raise Failed(f"{target.name} is shown as {wrong}, was {before}")
            # A counter whose read hangs keeps its last value, with a finding that says so.
            hangs = mechanism == "pipe" and "SourceStalled" in rig.reasons()
            hidden = torn or not now or (hangs and not target.vital)
            return hidden and not (target.vital and not torn and rig.verdict() == "ready")

        rig.until(f"{target.name} unknown", unknown)
        rig.rounds(2)
        rig.until(f"{target.name} unknown", unknown)
        rig.right(lambda name: any(own in name for own in OWN) or re.search(target.also, name))
        begun = time.monotonic()
        mend(path, keep)
        rig.recovers(begun)

    holds = f"{target.name} is unknown, not wrong; all other values stay"
    if target.vital:
        holds += "; the node is not ready"
    return Row("files", f"{target.name}, {mechanism}", f"`{target.path}` {done}", holds, run,
               lost="the rail's own values", fast=(target.name, mechanism) in FAST)


def mend(path, keep):
    """As it was."""
    old, pipe = aside(path, "old"), aside(path, "pipe")
    if path.is_fifo():
        path.rename(pipe)
    elif path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)
    if old.exists() or old.is_symlink():
        old.rename(path)
        keep.unlink(missing_ok=True)
    else:
        keep.rename(path)
    if pipe.exists():
        answer(pipe, path.read_bytes() if path.is_file() else b"")


def answer(pipe, data):
    """A reader that hangs on the pipe gets its answer at last."""
    with contextlib.suppress(OSError), open(pipe, "wb", opener=without_waiting) as end:
        end.write(data)


def without_waiting(path, flags):
    return os.open(path, flags & ~os.O_CREAT | os.O_NONBLOCK)


ROWS = [row(target, mechanism) for target, mechanisms in PRODUCT for mechanism in mechanisms]
