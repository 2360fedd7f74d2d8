#!/usr/bin/env python3
"""Makes prometheusrule.yaml, and the chart's copy of it, from selvage.rules.yaml.

What stands below `groups:` is taken line by line, indented by two; so comments survive. With --check
nothing is written, and the exit status tells whether the files are equal to what would be. With
--runbooks BASE the rules lead to BASE instead of the agents' own pages: it is written into
selvage.rules.yaml, too.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "selvage.rules.yaml"
RULE = HERE / "prometheusrule.yaml"
CHART = HERE.parent / "manifests/helm/selvage/files/prometheusrule.yaml"
# Where runbook_url leads; the Service in runbooks.yaml serves it.
BASE = "http://selvage-runbooks.selvage.svc/runbooks/"
HEADER = """\
# Made by alerts/generate.py from selvage.rules.yaml; what holds for all rules stands there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: selvage
  namespace: selvage
  labels:
    app.kubernetes.io/name: selvage
spec:
  groups:
"""


def made(source: str) -> str:
    _, below = source.split("\ngroups:\n", 1)
    return HEADER + "".join(
        ("  " + line if line.strip() else line) for line in below.splitlines(keepends=True)
    )


def main(arguments: list) -> int:
    match arguments:
        case [] | ["--check"]:
            pass
        case ["--runbooks", base]:
            led = re.sub(r"(runbook_url: ')\S+?([\w ${}.]+')", rf"\g<1>{base.rstrip('/')}/\2", SOURCE.read_text())
            SOURCE.write_text(led)
        case _:
            print("usage: generate.py [--check | --runbooks BASE]", file=sys.stderr)
            return 64
    text, differ = made(SOURCE.read_text()), 0
    for path in (RULE, CHART):
        if path.exists() and path.read_text() == text:
            continue
        if arguments == ["--check"]:
            print(f"{path} is not what alerts/generate.py makes of {SOURCE.name}")
            differ = 1
        else:
            path.write_text(text)
    return differ


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
