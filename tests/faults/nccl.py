"""Pods' logs as the kubelet keeps them, and what NCCL prints there."""

COMM = "comm 0x5581 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 18000 commId 0xfeed"
FELL_BACK = [
    "NCCL version 2.21.5+cuda12.4",
    f"{COMM} - Init START",
    "NET/IB : No device found.",
    "NET/Socket : Using [0]eth0:10.0.3.7<0>",
    "Using network Socket",
    "comm 0x5581 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
    "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Socket/0",
    "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
    f"{COMM} - Init COMPLETE",
]
TIME = "2026-05-01T12:00:00.000000000Z"


def framed(text, tag="F"):
    """A line as a container runtime writes it."""
    return f"{TIME} stdout {tag} {text}\n"


def lines(texts):
    """What one rank prints."""
    return "".join(framed(f"train-0:7:9 [0] NCCL INFO {text}") for text in texts)


def uid(number):
    return f"0f8fad5b-d9cb-469f-a165-{number:012x}"


def container(rig, pod, number=1, name="trainer", namespace="ml"):
    """Directory of a container's logs."""
    return rig.tree / f"var/log/pods/{namespace}_{pod}_{uid(number)}/{name}"


def write(directory, text, run=0):
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"{run}.log").open("ab") as log:
        log.write(text if isinstance(text, bytes) else text.encode())


def fallback(metrics, pod):
    """Whether the pod is shown to have fallen back to TCP."""
    return any(name.startswith("selvage_nccl_tcp_fallback{") and f'pod="{pod}"' in name and value == 1
               for name, value in metrics.items())
