"""What a row of the matrix is."""

from dataclasses import dataclass, field
from typing import Callable

from rig import MEMORY_LIMIT


@dataclass
class Row:
    """One fault: `run` injects it on the rig, asserts what must hold, and takes it away."""

    group: str
    name: str
    # What is done to the agent or the node, and how.
    fault: str
    # What must still work.
    holds: str
    run: Callable = field(repr=False)
    # What may be lost by the fault.
    lost: str = "nothing"
    # Part of `make test`.
    fast: bool = False
    # Why it fails today: a defect that is known. A row that passes must not say so.
    known: str = ""
    # MiB of resident memory.
    memory: int = MEMORY_LIMIT
    # Clients crowd each other out: single probes may be lost.
    crowded: bool = False
    # /healthz may answer other than 200: where the process cannot run, or a restart would help.
    probes_may_fail: bool = False
    # Runs alone: where it takes a machine's processors or ports.
    alone: bool = False
    # It shows that the runner notices: passing is its failure.
    must_fail: bool = False
    # It ends the agent's tasks, by a hook that only builds with debug assertions have.
    hook: bool = False
    template: str = "h100_ib"
