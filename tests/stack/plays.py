"""Fleets in which many nodes fail for one cause: a real Alertmanager sends one page that names it, and
nothing about the nodes themselves."""

import sys
import time
from pathlib import Path

from stack import Failed, NotYet, Stack, free_ports, until

# What each play has to be called, and its nodes that fail.
PLAYS = {
    "leaf": ("leaf", "leaf-2", 5),
    "firmware": ("NIC firmware", "28.43.1014", 6),
}


def sent(stack):
    """Alerts that nothing inhibits."""
    return stack.notified()[0]


def pages(stack):
    return [alert for alert in sent(stack) if alert["labels"].get("severity") == "critical"]


def named(stack, kind, value):
    """The page about the group, once no other is sent."""
    def found():
        group, *more = pages(stack) or [None]
        if more or not group or group["labels"]["alertname"] != "SelvageGroupFailing":
            raise NotYet(f"pages: {[alert['labels'] for alert in pages(stack)]}")
        return group
    page = until("one page about the group", seconds=180, pause=0.5, attempt=found)
    got = page["labels"]["kind"], page["labels"]["value"]
    if got != (kind, value):
        raise Failed(f"the page names {got}")
    return page


def quiet(stack, failing):
    """No node of the group has an alert of its own."""
    bad = {metric["instance"] for metric, _ in stack.query('selvage_fabric_state{state="unready"} == 1')}
    if len(bad) != failing:
        raise NotYet(f"{len(bad)} nodes are unready, not {failing}")
    own = [alert["labels"] for alert in sent(stack) if alert["labels"].get("instance") in bad]
    if own:
        raise NotYet(f"sent about nodes of the group: {own}")
    return True


def play(binary, name):
    kind, value, failing = PLAYS[name]
    with Stack(binary, listen=free_ports(), play=name) as stack:
        until("scrapes of all nodes", seconds=120, pause=0.5, attempt=lambda: len(stack.query("up == 1")) == len(stack.targets) + 1)
        page = named(stack, kind, value)
        until("no alerts about its nodes", seconds=60, pause=0.5, attempt=lambda: quiet(stack, failing))
        named(stack, kind, value)
        print(f"ok      {name}: {failing} of {len(stack.targets)} nodes fail, one page:")
        for key in ("summary", "description", "impact", "command", "runbook_url"):
            print(f"            {key}: {page['annotations'][key]}")


def main():
    failed = 0
    for name in PLAYS:
        begun = time.monotonic()
        try:
            play(Path(sys.argv[1]).resolve(), name)
        except Failed as error:
            failed += 1
            print(f"FAILED  {name}: {error}")
        print(f"stack: {name}, {time.monotonic() - begun:.0f} s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
