"""`make demo-stack`: the fleet, Prometheus and Alertmanager until Ctrl-C; tells what fires."""

import signal
import sys
import time
from pathlib import Path

from stack import Failed, Stack


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("Twelve simulated nodes, a real Prometheus, a real Alertmanager; a moment …", flush=True)
    with Stack(Path(sys.argv[1]).resolve()) as stack:
        print(f"\n  Prometheus    {stack.prometheus}/alerts\n"
              f"  Alertmanager  {stack.alertmanager}\n"
              "  nodes         " + "  ".join(
                  f"{node} http://{address}/" for node, address in list(stack.targets.items())[:2])
              + "  …\n\n"
              f"Alerts wait {stack.factor} times shorter than in alerts/selvage.rules.yaml. "
              "Ctrl-C ends.\n", flush=True)
        known = set()
        try:
            while stack.alive():
                try:
                    now = stack.firing()
                except (Failed, OSError) as error:
                    print(f"Prometheus: {error}", flush=True)
                    now = known
                clock = time.strftime("%H:%M:%S")
                for alert, node in sorted(now - known):
                    print(f"{clock}  + {alert:28} {node}", flush=True)
                for alert, node in sorted(known - now):
                    print(f"{clock}  - {alert:28} {node}", flush=True)
                known = now
                time.sleep(1)
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()
