#!/usr/bin/env python3
"""Makes prometheusrule.yaml, and the chart's copy of it, from selvage.rules.yaml.

What stands below `groups:` is taken line by line, indented by two; so comments survive. With --check
nothing is written, and the exit status tells whether the files are equal to what would be.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "selvage.rules.yaml"
RULE = HERE / "prometheusrule.yaml"
CHART = HERE.parent / "manifests/helm/selvage/files/prometheusrule.yaml"
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
    if arguments not in ([], ["--check"]):
        print("usage: generate.py [--check]", file=sys.stderr)
        return 64
    text, differ = made(SOURCE.read_text()), 0
    for path in (RULE, CHART):
        if path.exists() and path.read_text() == text:
            continue
        if arguments:
            print(f"{path} is not what alerts/generate.py makes of {SOURCE.name}")
            differ = 1
        else:
            path.write_text(text)
    return differ


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
