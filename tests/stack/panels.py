"""Panels of the dashboards and their queries, with Grafana's variables put in."""

import itertools
import json
import re

from stack import ROOT

# What Grafana fills in by itself; a demo is minutes old.
BUILT_IN = {
    "__rate_interval": "30s", "__interval": "5s", "__range": "3m", "__range_s": "180",
    "__interval_ms": "5000", "__from": "0", "__to": "0",
}
NAMES = ["fleet", "node", "jobs", "selvage"]


def load(name):
    return json.loads((ROOT / f"dashboards/{name}.json").read_text())


def panels(dashboard):
    """Every panel that asks something, rows opened."""
    for panel in dashboard["panels"]:
        yield from (p for p in [panel, *panel.get("panels", [])] if p.get("targets"))


def variables(stack, dashboard):
    """Values that each variable can have: all at once where that can be chosen."""
    values = {}
    for variable in dashboard.get("templating", {}).get("list", []):
        name = variable["name"]
        if variable["type"] == "datasource":
            values[name] = ["prometheus"]
        elif variable.get("includeAll"):
            values[name] = [variable.get("allValue") or ".*"]
        elif variable["type"] == "query":
            query = variable["query"]
            query = query if isinstance(query, str) else query["query"]
            found = re.fullmatch(r"label_values\((?:(.*),\s*)?(\w+)\)", query, re.S)
            if not found:
                raise SystemExit(f"variable {name}: cannot read {query!r}")
            series = filled(found[1] or "", values)
            params = {"match[]": series} if series else {}
            values[name] = stack.api(f"label/{found[2]}/values", **params) or [""]
        else:
            values[name] = [variable["query"].split(",")[0].strip()]
    return values


def filled(expr, values):
    """The expression with the first value of each variable."""
    chosen = {name: of[0] for name, of in values.items()} | BUILT_IN
    return substitute(expr, chosen)


def substitute(expr, chosen):
    def value(match):
        name = match[1] or match[2]
        if name not in chosen:
            raise SystemExit(f"unknown variable ${name} in {expr}")
        return chosen[name]
    return re.sub(r"\$\{(\w+)(?::\w+)?\}|\$([A-Za-z_]\w*)", value, expr)


def ways(expr, values):
    """The expression with every choice of the variables that it names."""
    used = [name for name in values if re.search(rf"\$\{{?{name}\b", expr)]
    for choice in itertools.product(*(values[name] for name in used)):
        chosen = dict(zip(used, choice))
        yield chosen, substitute(expr, chosen | BUILT_IN)
