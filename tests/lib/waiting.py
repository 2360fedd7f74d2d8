"""Bounded waits, as every rig has them."""

import subprocess
import time

# Longest wait on a busy machine, in seconds.
PATIENCE = 120


class Failed(Exception):
    """What was expected and did not come about, in one sentence."""


class NotYet(Failed):
    """What a wait still lacks, in one sentence: it is asked again."""


def until(what, attempt, seconds=PATIENCE, pause=0.2):
    """The first true answer of `attempt`, asked again and again within `seconds`. Errors of files, sockets,
    programs and texts are asked again, as is NotYet; another Failed ends the wait."""
    end = time.monotonic() + seconds
    while True:
        try:
            last = attempt()
            if last:
                return last
        except (NotYet, OSError, subprocess.SubprocessError, ValueError) as error:
            last = error
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds} s (last: {str(last)[:300]})")
        time.sleep(pause)
