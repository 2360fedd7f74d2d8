"""The fleet's faults as a real Prometheus and Alertmanager see them: every query of every panel and
rule returns data where the play says it should, the alerts that should fire do and no others, and
a dead node pages once."""

import subprocess
import sys
import time
from pathlib import Path

import expected
import panels
from stack import Failed, NotYet, ROOT, Stack, free_ports, get, until


def rules(stack):
    for group in stack.api("rules")["groups"]:
        yield from group["rules"]


def alerts_fire(stack):
    """All that should fire does, and nothing else."""
    def missing():
        left = expected.ALERTS - stack.firing()
        if left:
            raise NotYet(f"do not fire: {sorted(left)}")
        return True
    until("the alerts", seconds=600, pause=0.5, attempt=missing)
    more = {one for one in stack.firing() - expected.ALERTS if not expected.may_fire(*one)}
    if more:
        raise Failed(f"fire without a fault behind them: {sorted(more)}")
    yield f"{len(expected.ALERTS)} alerts fire, and no other"
    for alert in stack.api("alerts")["alerts"]:
        for key, text in alert["annotations"].items():
            if not text or "<no value>" in text or "error expanding" in text or "{{" in text:
                raise Failed(f"{alert['labels']}: {key}: {text!r}")
    yield "their annotations are whole"


def rules_evaluate(stack):
    empty = set()
    count = 0
    for rule in rules(stack):
        count += 1
        if rule["health"] != "ok":
            raise Failed(f"{rule['name']}: {rule['health']}: {rule.get('lastError')}")
        if rule["type"] == "recording" and not stack.query(rule["name"]):
            empty.add(rule["name"])
    if unexplained := empty - set(expected.EMPTY_RULES):
        raise Failed(f"recording rules without data: {sorted(unexplained)}")
    yield f"{count} rules evaluate; recording rules have data but for {len(empty)} that have reasons"


def one_panel(stack, panel, values):
    """Whether each of its queries has data for some choice of the variables."""
    for target in panel["targets"]:
        expr = target.get("expr")
        if not expr:
            raise Failed(f"a target without a query: {target}")
        found = False
        for _, query in panels.ways(expr, values):
            if target.get("instant") or target.get("format") == "table":
                found = bool(stack.query(query))
            else:
                found = any(points for _, points in stack.range(query, 180, 5))
            if found:
                break
        yield target["refId"], found


def panels_have_data(stack):
    for name in panels.NAMES:
        dashboard = panels.load(name)
        values = panels.variables(stack, dashboard)
        count = 0
        for panel in panels.panels(dashboard):
            for ref, found in one_panel(stack, panel, values):
                count += 1
                why = expected.EMPTY.get((name, panel["title"], ref))
                if not found and not why:
                    raise Failed(f"{name}, {panel['title']!r}, {ref}: no data")
                if found and why:
                    raise Failed(f"{name}, {panel['title']!r}, {ref}: data, though {why}")
        for annotation in dashboard.get("annotations", {}).get("list", []):
            for _, query in panels.ways(annotation.get("expr") or "", values):
                if query:
                    stack.range(query, 180, 5)
        yield f"dashboard {name}: {count} queries, data for all but those that have reasons"


def facts_hold(stack):
    for query, want in expected.FACTS:
        def holds():
            got = stack.query(query)
            if not want(got):
                raise NotYet(f"{query}: {got}")
            return True
        until("a value", seconds=60, pause=0.5, attempt=holds)
    yield f"{len(expected.FACTS)} values are what was played"


def one_page_for_the_fleet(stack):
    """While the page about the fleet stands, Alertmanager sends nothing about its unready nodes."""
    def settled():
        active, held = stack.notified()
        active = [alert["labels"] for alert in active]
        sent = [labels["alertname"] for labels in active
                if labels.get("instance") in expected.QUIET and labels["scope"] == "node"]
        if sent or not any(labels["alertname"] == "SelvageFabricUnreadyShare" for labels in active):
            raise NotYet(f"sent: {sent}")
        return len(held)
    suppressed = until("Alertmanager's word", seconds=60, pause=0.5, attempt=settled)
    yield f"one page for {len(expected.QUIET)} unready nodes; {suppressed} alerts inhibited"


def pages_answer(stack):
    for node, address in stack.targets.items():
        if node == expected.GONE:
            continue
        page = get(f"http://{address}/").decode()
        if node not in page:
            raise Failed(f"the page of {node} does not name it")
    names = sorted(path.stem for path in (ROOT / "docs/runbooks").glob("Selvage*.md"))
    address = stack.targets["gpu-01"]
    for name in names:
        if name not in get(f"http://{address}/runbooks/{name}").decode():
            raise Failed(f"/runbooks/{name} is not about it")
    yield f"every agent serves its page, and the {len(names)} runbooks"


def metrics_are_clean(stack):
    """promtool's linter has no complaint but those that are meant (docs/metrics.md)."""
    for node in ("gpu-03", "gpu-04", "gpu-06", "gpu-11"):
        text = get(f"http://{stack.targets[node]}/metrics")
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, timeout=60,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        complaints = set(checked.stdout.decode().splitlines()) - expected.COMPLAINTS
        if complaints:
            raise Failed(f"{node}: {sorted(complaints)}")
    yield "promtool check metrics: nothing but what is meant"


def main():
    binary = Path(sys.argv[1]).resolve()
    begun = time.monotonic()
    failed = 0
    with Stack(binary, listen=free_ports()) as stack:
        # One of them goes away after a minute.
        until("scrapes of all nodes", seconds=90, pause=0.5,
              attempt=lambda: len(stack.query("max_over_time(up[5m]) == 1")) == len(stack.targets) + 1)
        for part in [alerts_fire, rules_evaluate, panels_have_data, facts_hold, one_page_for_the_fleet,
                     pages_answer, metrics_are_clean]:
            try:
                for line in part(stack):
                    print(f"ok      {line}")
            except Failed as error:
                failed += 1
                print(f"FAILED  {part.__name__}: {error}")
            stack.alive()
    print(f"stack: {failed} failed, {time.monotonic() - begun:.0f} s")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
