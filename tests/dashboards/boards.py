"""The dashboards as they are committed, and what is in them."""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
DASHBOARDS = ROOT / "dashboards"
NAMES = ("fleet", "node", "jobs", "selvage")
# Variables that Grafana itself sets, and what stands for them where an expression is parsed.
BUILT_IN = {"__rate_interval": "1m", "__range": "6h", "__interval": "30s", "__all": ".*"}


def load(name):
    return json.loads((DASHBOARDS / f"{name}.json").read_text())


def panels(board, rows=False):
    for panel in board["panels"]:
        if panel["type"] != "row" or rows:
            yield panel


def variables(board):
    return {each["name"]: each for each in board["templating"]["list"]}


def expressions(board):
    """(where, expression), those of panels, annotations and variables."""
    for panel in panels(board):
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for each in board["annotations"]["list"]:
        yield f"annotation {each['name']}", each["target"]["expr"]
    for name, each in variables(board).items():
        if each["type"] == "query":
            found = re.fullmatch(r"label_values\((.*), (\w+)\)", each["query"]["query"])
            if not found:
                raise ValueError(f"variable {name}: {each['query']['query']}")
            yield f"variable {name}", found[1]


def substituted(expr):
    """The expression that Prometheus would see with all variables at All."""
    def value(found):
        name = found[1]
        return BUILT_IN.get(name, ".*")
    return re.sub(r"\$([A-Za-z_]\w*)", value, expr)


def used(text):
    """Names of variables in a text: $x, ${x} and ${x:format}; not fields of ${__data...}."""
    return set(re.findall(r"\$\{?([A-Za-z_]\w*)", text))
