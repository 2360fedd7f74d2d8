"""`make demo-stack [PLAY=leaf|firmware]`: the fleet, Prometheus and Alertmanager until Ctrl-C; tells what
fires, and what of it Alertmanager would send."""

import os
import sys
import time
from pathlib import Path

from stack import Failed, Stack, get

WORDS = {"critical": "PAGE", "warning": "ticket", "info": "info"}


def alerts(stack):
    """By identity: (word, summary)."""
    found = {}
    sent, held = stack.notified()
    for alert in sent + held:
        word = WORDS.get(alert["labels"].get("severity"), "alert")
        if alert in held:
            word = "held back"
        name = alert["labels"]["alertname"].removeprefix("Selvage")
        found[alert["fingerprint"]] = (word, f"{name:20} {alert['annotations']['summary']}")
    return found


def prometheus_page(stack):
    """Where its alerts are seen: Debian's has the classic pages only."""
    for path in ("/alerts", "/classic/alerts"):
        try:
            get(stack.prometheus + path)
            return stack.prometheus + path
        except Failed:
            pass
    return stack.prometheus


def welcome(stack):
    print("\nThe nodes and what is wrong with them on purpose:\n")
    for line in (stack.dir / "fleet.log").read_text(errors="replace").splitlines():
        if line.split("  ")[0] in stack.targets and "http://" in line:
            print("  " + line)
    print(f"\nAlerts in Prometheus:    {prometheus_page(stack)}\n"
          f"What Alertmanager sends: amtool --alertmanager.url={stack.alertmanager} alert query\n\n"
          f"Alerts wait {stack.factor} times shorter than in alerts/selvage.rules.yaml. What is held "
          "back is\nexplained by an alert that is sent (docs/monitoring.md). Ctrl-C ends.\n",
          flush=True)


def main():
    print("Simulated nodes, a real Prometheus, a real Alertmanager; a moment …", flush=True)
    with Stack(Path(sys.argv[1]).resolve(), play=os.environ.get("PLAY")) as stack:
        welcome(stack)
        known = {}
        try:
            while stack.alive():
                try:
                    now = alerts(stack)
                except (Failed, OSError) as error:
                    print(f"Alertmanager: {error}", flush=True)
                    now = known
                clock = time.strftime("%H:%M:%S")
                for key, (word, text) in sorted(now.items(), key=lambda item: item[1]):
                    if known.get(key, ("",))[0] != word:
                        print(f"{clock}  {word:9}  {text}", flush=True)
                for key in known.keys() - now.keys():
                    print(f"{clock}  over       {known[key][1]}", flush=True)
                known = now
                time.sleep(1)
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
