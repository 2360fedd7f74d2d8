"""What is printed of the matrix, and docs/faults.md."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def kind(row, result):
    """How a row came out: passed, failed, known (fails as its row says), mended (passes although its
    row says it fails), impossible."""
    outcome = result["outcome"]
    if row.known:
        return {"failed": "known", "passed": "mended"}.get(outcome, outcome)
    return outcome


def unexpected(rows, results):
    """Rows for which the suite fails: also one that mended, so that the list stays exact."""
    return [row for row in rows if kind(row, results[row.name]) in ("failed", "mended")]


def number(value, unit, digits=0):
    return "–" if value is None else f"{value:.{digits}f} {unit}"


def figures(result):
    p99 = result.get("p99")
    return (number(None if p99 is None else p99 * 1000, "ms"), number(result.get("memory"), "MiB"),
            number(result.get("cpu"), "s", 1), number(result.get("recovery"), "s", 1))


def line(row, result):
    p99, memory, cpu, recovery = figures(result)
    why = f"  {row.known or result['why']}" if kind(row, result) != "passed" else ""
    return (f"{kind(row, result):10} {row.group:12} {row.name:44} {p99:>8} {memory:>8} {cpu:>7} "
            f"{recovery:>7}{why}")


def counts(rows, results):
    found = {}
    for row in rows:
        found.setdefault(kind(row, results[row.name]), []).append(row)
    return found


def summary(rows, results, seconds):
    found = counts(rows, results)
    parts = ", ".join(f"{len(rows)} {name}" for name, rows in sorted(found.items()))
    text = f"{len(rows)} rows in {seconds:.0f} s: {parts}"
    for row in found.get("impossible", []):
        text += f"\nnot possible here: {row.name}: {results[row.name]['why']}"
    for row in unexpected(rows, results):
        text += f"\n{kind(row, results[row.name])}: {row.name}: {results[row.name]['why']}"
    return text


HEAD = """# Faults

What the agent survives, from the last run of the whole fault matrix: `tests/faults/run --bin BINARY --docs` writes this page. `make test-faults` runs a part of it in less than two minutes, `make test-system` all of it.

Each row starts the real binary over a simulated node's files, injects one fault, and holds what must still work: no three probes of `/healthz` in a row fail or take longer than {probe:.0f} s, which is when a kubelet restarts a container, every value that the fault does not touch is what a node without faults shows, memory stays below its bound, and once the fault is gone the agent is as it was. Values that are lost are absent, never wrong, and a rail of which nothing is known is never ready. Bounds are wide, so that a slow machine does not fail a row; the figures are what was measured, with {jobs} rows at a time on {cores} cores and the image's build. Only rows that end a task are of a build with debug assertions, which takes two to three times the memory and ten times the processor.

Before there was a matrix, 183 faults were tried by hand: 151 were survived, 32 failed by 14 defects. {now}

- p99: of `/healthz`, asked 20 times a second by a new connection each.
- memory: the highest resident size. CPU: of all agents of the row.
- recovery: from the end of the fault to what the row waits for.
"""


def cell(text):
    return text.replace("|", "\\|")


def write(rows, results, seconds, jobs):
    """docs/faults.md, from this run."""
    import os

    from rig import PROBE_LIMIT

    found = counts(rows, results)
    now = f"Now: {len(rows)} rows in {seconds:.0f} s, of which {len(found.get('passed', []))} pass"
    for name, text in (("failed", "fail"), ("known", "fail as is known (below)"),
                       ("impossible", "could not be injected there")):
        if found.get(name):
            now += f", {len(found[name])} {text}"
    page = HEAD.format(probe=PROBE_LIMIT, jobs=jobs, cores=os.cpu_count(), now=now + ".")
    if found.get("known"):
        page += "\n## Known to fail\n\n"
        page += "".join(f"- {row.name} ({row.group}): {row.known}\n" for row in found["known"])
    if found.get("impossible"):
        page += "\n## Not possible where it last ran\n\n"
        page += "".join(f"- {row.name}: {results[row.name]['why']}\n" for row in found["impossible"])
    for group in dict.fromkeys(row.group for row in rows):
        members = [row for row in rows if row.group == group]
        page += (f"\n## {group[0].upper()}{group[1:]}: {len(members)}\n\n"
                 "| row | fault | must still work | may be lost | p99 | memory | CPU | recovery |\n"
                 "|---|---|---|---|---|---|---|---|\n")
        for row in members:
            result = results[row.name]
            name = row.name + ("" if kind(row, result) == "passed" else f" (**{kind(row, result)}**)")
            cells = [name, row.fault, row.holds, row.lost, *figures(result)]
            page += "| " + " | ".join(map(cell, cells)) + " |\n"
    page += "".join((ROOT / f"tests/{suite}/figures.md").read_text() for suite in ("cluster", "fuzz", "soak"))
    (ROOT / "docs/faults.md").write_text(page)
