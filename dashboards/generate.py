#!/usr/bin/env python3
"""Writes the dashboards alongside it: python3 dashboards/generate.py. With --check it writes nothing and
says which of them are not what it would write. Needs what requirements.txt names."""

import json
import sys
from pathlib import Path

import agent
import fleet
import jobs
import node

HERE = Path(__file__).resolve().parent
BOARDS = {"fleet": fleet.board, "node": node.board, "jobs": jobs.board, "selvage": agent.board}
# The Helm chart takes in files of its own directory only.
COPIES = HERE.parent / "manifests/helm/selvage/files/dashboards"


def main(arguments):
    if arguments not in ([], ["--check"]):
        print("usage: generate.py [--check]", file=sys.stderr)
        return 64
    stale = []
    for name, make in BOARDS.items():
        text = json.dumps(make().json(), indent=2, ensure_ascii=False) + "\n"
        for path in (HERE / f"{name}.json", COPIES / f"{name}.json"):
            if path.exists() and path.read_text() == text:
                continue
            if arguments:
                stale.append(path)
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
    for path in stale:
        print(f"{path} is not what generate.py writes", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
