"""Draws what the dashboards' panels show, from the data of the stack's Prometheus: docs/images.
A stand-in for Grafana, which is not to be had from the registries; layout, titles, units, legends
and thresholds are the dashboards' own.

    draw.py BINARY DIRECTORY [--whole] [--seconds N]

With --whole every dashboard to its end, to be looked at; else what the README shows, and the pages of
two nodes as Chromium shows them."""

import argparse
import re
import subprocess
import time
from datetime import datetime
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.dates as dates
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

import panels
from stack import Stack, free_ports, until

COLUMN, ROW, GAP = 0.62, 0.36, 0.09  # inches of a grid column, of a grid row, between panels
PAPER, CARD, INK, FAINT = "#f4f5f7", "#ffffff", "#1f2430", "#8a909c"
# Grafana's classic palette, its named colours and what "text" is here.
PALETTE = ["#73BF69", "#F2CC0C", "#5794F2", "#FF9830", "#F2495C", "#B877D9", "#8AB8FF", "#37872D",
           "#FA6400", "#1F60C4", "#A352CC", "#C4162A"]
NAMED = {"green": "#73BF69", "yellow": "#F2CC0C", "orange": "#FF9830", "red": "#F2495C",
         "blue": "#5794F2", "purple": "#B877D9", "text": INK, "transparent": CARD, "gray": FAINT,
         "grey": FAINT}


def colour(name):
    if not name:
        return INK
    for prefix in ("semi-dark-", "super-light-", "light-", "dark-"):
        name = name.removeprefix(prefix)
    return NAMED.get(name, name if name.startswith("#") else INK)


def amount(value, unit):
    """A number as Grafana shows it, roughly."""
    def scaled(value, base, words):
        for word in words:
            if abs(value) < base or word == words[-1]:
                return f"{value:.3g} {word}".strip()
            value /= base
    if value != value:
        return "–"
    match unit:
        case "percentunit":
            return f"{value * 100:.3g} %"
        case "percent":
            return f"{value:.3g} %"
        case "Bps" | "binBps":
            return scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"])
        case "bps":
            return scaled(value, 1000, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"])
        case "bytes" | "decbytes":
            return scaled(value, 1000, ["B", "kB", "MB", "GB"])
        case "s":
            return (f"{value * 1e3:.3g} ms" if 0 < abs(value) < 1 else
                    f"{value:.3g} s" if abs(value) < 120 else f"{value / 60:.3g} min")
        case "dateTimeFromNow" | "dateTimeAsIso" | "dateTimeAsLocal":
            seconds = time.time() - value / 1000
            return f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"
        case "cps" | "ops" | "pps" | "eps":
            return f"{value:.3g}/s"
    return f"{value:.0f}" if value == int(value) else f"{value:.3g}"


class Panel:
    def __init__(self, stack, panel, values, seconds):
        self.panel, self.kind = panel, panel["type"]
        defaults = panel.get("fieldConfig", {}).get("defaults", {})
        self.unit = defaults.get("unit", "short")
        self.steps = defaults.get("thresholds", {}).get("steps", [])
        self.mappings = defaults.get("mappings") or []
        self.overrides = panel.get("fieldConfig", {}).get("overrides", [])
        self.series, self.rows, self.refs = [], {}, {}
        for number, target in enumerate(panel["targets"]):
            for chosen, query in panels.ways(target["expr"], values):
                if self.kind == "table":
                    self.rows.setdefault(target["refId"], []).extend(stack.query(query))
                elif self.kind in ("stat", "gauge", "bargauge", "piechart"):
                    for labels, value in stack.query(query):
                        legend = self.legend(target, labels)
                        self.refs.setdefault(legend, target["refId"])
                        self.series.append((legend, [(time.time(), value)]))
                else:
                    for labels, points in stack.range(query, seconds, max(2, seconds // 150)):
                        legend = self.legend(target, labels)
                        self.refs.setdefault(legend, target["refId"])
                        self.series.append((legend, points))
                break

    def legend(self, target, labels):
        text = target.get("legendFormat") or ""
        if not text or text == "__auto":
            text = ", ".join(f"{k}={v}" for k, v in labels.items() if k != "__name__")
        return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda m: labels.get(m[1], ""), text).strip()

    def mapped(self, value):
        """(text, colour) of a value mapping, if one fits."""
        for mapping in self.mappings:
            options = mapping.get("options", {})
            if mapping["type"] == "value":
                keys = [f"{value:.0f}" if isinstance(value, float) else str(value), str(value)]
                for key in keys:
                    if key in options:
                        return options[key].get("text") or key, colour(options[key].get("color"))
        return None

    def shade(self, legend, value):
        """Its colour by the thresholds, its own ones where it has some."""
        steps = self.own(legend, "thresholds")
        shade = INK
        for step in steps["steps"] if steps else self.steps:
            if step.get("value") is None or value >= step["value"]:
                shade = colour(step.get("color"))
        return shade

    def own(self, legend, what):
        """What an override says for a series."""
        for override in self.overrides:
            match = override["matcher"]
            fits = {"byName": lambda name: name == legend,
                    "byFrameRefID": lambda ref: ref == self.refs.get(legend),
                    "byRegexp": lambda regex: re.fullmatch(regex.strip("/"), legend or "")}
            if fits.get(match["id"], lambda _: False)(match["options"]):
                for item in override["properties"]:
                    if item["id"] == what:
                        return item["value"]
        return None

    def fixed(self, legend):
        """A series' own colour by an override."""
        own = self.own(legend, "color")
        return colour(own.get("fixedColor")) if own and own.get("fixedColor") else None


def draw_stat(axes, panel):
    axes.axis("off")
    series = panel.series[:12]
    if not series:
        text = panel.panel.get("fieldConfig", {}).get("defaults", {}).get("noValue", "no data")
        axes.text(0.5, 0.4, text, ha="center", va="center", color=FAINT, fontsize=9)
        return
    width = 1 / len(series)
    for number, (legend, points) in enumerate(series):
        value = points[-1][1]
        mapped = panel.mapped(value)
        text, shade = mapped or (amount(value, panel.unit), panel.shade(legend, value))
        shade = panel.fixed(legend) or shade
        if panel.panel["options"].get("textMode") == "name":
            text = legend
        at = (number + 0.5) * width
        size = min(19, 200 * width * axes.bbox.width / 900 / max(3, len(text)) * 3)
        axes.text(at, 0.5, text, ha="center", va="center", color=shade, fontsize=max(8, size),
                  weight="bold", transform=axes.transAxes)
        if len(series) > 1 and text != legend:
            axes.text(at, 0.08, legend, ha="center", va="bottom", color=FAINT, fontsize=6.5,
                      transform=axes.transAxes)


def draw_bars(axes, panel):
    series = panel.series[:12]
    most = max((points[-1][1] for _, points in series), default=1) or 1
    for row, (legend, points) in enumerate(reversed(series)):
        value = points[-1][1]
        axes.barh(row, value / most, height=0.62, color=panel.shade(legend, value), linewidth=0)
        axes.text(value / most + 0.015, row, amount(value, panel.unit), fontsize=6.5, va="center",
                  color=INK)
    axes.set_yticks(range(len(series)), [legend for legend, _ in reversed(series)])
    axes.set_xlim(0, 1.1)
    axes.set_xticks([])
    axes.tick_params(labelsize=6.5, colors=INK, length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def draw_lines(axes, panel):
    custom = panel.panel.get("fieldConfig", {}).get("defaults", {}).get("custom", {})
    stacked = (custom.get("stacking") or {}).get("mode") in ("normal", "percent")
    series = sorted(panel.series, key=lambda one: -max((v for _, v in one[1]), default=0))
    if stacked and series:
        moments = sorted({at for _, points in series for at, _ in points})
        layers = [[dict(points).get(at, 0) for at in moments] for _, points in series]
        shades = [panel.fixed(legend) or PALETTE[n % len(PALETTE)]
                  for n, (legend, _) in enumerate(series)]
        axes.stackplot([datetime.fromtimestamp(at) for at in moments], layers, colors=shades,
                       labels=[legend for legend, _ in series], alpha=0.75, step=None)
    else:
        for number, (legend, points) in enumerate(series[:40]):
            axes.plot([datetime.fromtimestamp(at) for at, _ in points], [v for _, v in points],
                      color=panel.fixed(legend) or PALETTE[number % len(PALETTE)], linewidth=1.1,
                      label=legend if number < 6 else None)
    axes.yaxis.set_major_formatter(lambda value, _: amount(value, panel.unit))
    axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M:%S"))
    axes.xaxis.set_major_locator(plt.MaxNLocator(3))
    axes.yaxis.set_major_locator(plt.MaxNLocator(4))
    low, high = axes.get_ylim()
    axes.set_ylim(min(0, low), high if high > 0 else 1)
    axes.grid(color="#e6e8ec", linewidth=0.6)
    axes.tick_params(labelsize=6, colors=FAINT, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    if series:
        axes.legend(fontsize=5.5, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.1),
                    frameon=False, handlelength=1, columnspacing=1, labelcolor=INK)


def draw_timeline(axes, panel):
    series = panel.series[:16]
    for row, (legend, points) in enumerate(reversed(series)):
        for (at, value), (end, _) in zip(points, points[1:]):
            mapped = panel.mapped(value)
            shade = mapped[1] if mapped else panel.shade(legend, value)
            axes.barh(row, dates.date2num(datetime.fromtimestamp(end))
                      - dates.date2num(datetime.fromtimestamp(at)),
                      left=dates.date2num(datetime.fromtimestamp(at)), height=0.8, color=shade,
                      linewidth=0)
    axes.set_yticks(range(len(series)), [legend for legend, _ in reversed(series)])
    axes.xaxis_date()
    axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M:%S"))
    axes.xaxis.set_major_locator(plt.MaxNLocator(4))
    axes.tick_params(labelsize=6, colors=FAINT, length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def table_of(panel):
    """Columns and rows: queries joined on the labels that they share, hidden columns left out."""
    hidden, names, order = {"__name__", "cluster", "job"}, {}, {}
    for step in panel.panel.get("transformations", []):
        if step["id"] == "organize":
            options = step["options"]
            hidden |= {name for name, out in (options.get("excludeByName") or {}).items() if out}
            names |= options.get("renameByName") or {}
            order |= options.get("indexByName") or {}
    merged = {}
    several = len(panel.rows) > 1
    shared = None
    for found in panel.rows.values():
        for labels, _ in found:
            keys = {key for key in labels if key not in ("__name__", "job")}
            shared = keys if shared is None else shared & keys
    for ref, found in panel.rows.items():
        for labels, value in found:
            key = tuple(sorted((k, v) for k, v in labels.items() if k in (shared or ())))
            key = key if several else tuple(sorted(labels.items()))
            row = merged.setdefault(key, {})
            row |= labels
            row[f"Value #{ref}" if several else "Value"] = value
    columns = []
    for row in merged.values():
        columns += [name for name in row if name not in columns and name not in hidden]
    columns.sort(key=lambda name: order.get(name, 99))
    # What is the same in each row of a name and 1 says nothing.
    columns = [c for c in columns if not (c.startswith("Value") and c not in names)]
    return columns, names, list(merged.values())


def draw_table(axes, panel):
    axes.axis("off")
    columns, names, rows = table_of(panel)
    height = panel.panel["gridPos"]["h"]
    shown = rows[: max(1, int(height * 1.25) - 2)]
    if not columns:
        axes.text(0.5, 0.5, "no rows", ha="center", color=FAINT, fontsize=8)
        return
    def cell(row, column):
        value = row.get(column, "")
        if isinstance(value, float):
            unit = panel.unit
            for override in panel.overrides:
                if override["matcher"]["options"] in (column, names.get(column)):
                    for item in override["properties"]:
                        unit = item["value"] if item["id"] == "unit" else unit
            return amount(value, unit)
        return str(value)
    widths = [max([len(names.get(c, c))] + [min(44, len(cell(r, c))) for r in shown]) + 2
              for c in columns]
    total = sum(widths)
    line = 1 / (len(shown) + 1.6)
    line = min(line, 0.14)
    left = 0
    room = axes.bbox.width / axes.figure.dpi * 72 / 3.6  # characters of 6.5 points
    widths = [width * max(1, min(2, room / total)) for width in widths]
    total = sum(widths)
    for column, width in zip(columns, widths):
        most = max(4, int(room * width / max(total, room)))
        axes.text(left, 1 - line * 0.5, names.get(column, column)[:most], fontsize=6.5,
                  weight="bold", color=INK, va="center", transform=axes.transAxes)
        for number, row in enumerate(shown):
            text = cell(row, column)
            text = text if len(text) <= most else text[: most - 1] + "…"
            shades = {"unready": "#C4162A", "degraded": "#E0701A", "ready": "#37872D",
                      "unknown": "#8F3BB8", "failing": "#C4162A", "critical": "#C4162A",
                      "warning": "#E0701A"}
            axes.text(left, 1 - line * (number + 1.6), text, fontsize=6.5, va="center",
                      color=shades.get(text, INK), transform=axes.transAxes)
        left += width / max(total, room)
    axes.axhline(1 - line, color="#e6e8ec", linewidth=0.8)


DRAW = {"stat": draw_stat, "gauge": draw_stat, "bargauge": draw_bars, "piechart": draw_stat,
        "timeseries": draw_lines, "barchart": draw_lines, "state-timeline": draw_timeline,
        "status-history": draw_timeline, "table": draw_table}


def draw(stack, name, path, seconds, chosen=None, rows=None):
    dashboard = panels.load(name)
    values = panels.variables(stack, dashboard) | (chosen or {})
    every = list(panels.panels(dashboard))
    every = [panel for panel in every if panel["type"] in DRAW
             and (not rows or panel["gridPos"]["y"] + panel["gridPos"]["h"] <= rows)]
    height = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in every)
    size = (24 * COLUMN + GAP, height * ROW + 0.6)
    figure = plt.figure(figsize=size, facecolor=PAPER, dpi=110)
    title = dashboard["title"] + (f"  ·  {next(iter(chosen.values()))[0]}" if chosen else "")
    figure.text(0.012, 1 - 0.3 / size[1], title, fontsize=13, weight="bold", color=INK, va="center")
    for row in dashboard["panels"]:
        if row["type"] == "row" and row["gridPos"]["y"] < height:
            top = row["gridPos"]["y"] * ROW + 0.6 + ROW / 2
            figure.text(0.012, 1 - top / size[1], row["title"], fontsize=9.5, weight="bold",
                        color=INK, va="center")
    for one in every:
        at = one["gridPos"]
        left, width = at["x"] * COLUMN + GAP, at["w"] * COLUMN - GAP
        top, tall = at["y"] * ROW + 0.6, at["h"] * ROW - GAP
        card = (left / size[0], 1 - (top + tall) / size[1], width / size[0], tall / size[1])
        figure.add_artist(FancyBboxPatch(
            card[:2], *card[2:], boxstyle="round,pad=0,rounding_size=0.002", facecolor=CARD,
            edgecolor="#dfe2e8", linewidth=0.8, transform=figure.transFigure, zorder=-1))
        figure.text((left + 0.1) / size[0], 1 - (top + 0.16) / size[1], one["title"], fontsize=7.5,
                    weight="bold", color=INK, va="center")
        panel = Panel(stack, one, values, seconds)
        lines = one["type"] in ("timeseries", "barchart")
        longest = max((len(legend) for legend, _ in panel.series), default=0)
        pad = {"timeseries": 0.62, "barchart": 0.62, "state-timeline": 0.2 + 0.055 * longest,
               "status-history": 0.2 + 0.055 * longest, "bargauge": 0.2 + 0.07 * longest}.get(one["type"], 0.12)
        bottom = (0.62 if len(panel.series) > 3 else 0.46) if lines else (
            0.28 if "timeline" in one["type"] else 0.08)
        box = ((left + pad) / size[0], 1 - (top + tall - bottom) / size[1],
               (width - pad - 0.12) / size[0], max(0.2, tall - bottom - 0.32) / size[1])
        axes = figure.add_axes(box)
        axes.set_facecolor(CARD)
        DRAW[one["type"]](axes, panel)
    figure.savefig(path, facecolor=PAPER)
    plt.close(figure)


def photograph(stack, node, path):
    """The agent's own page as a browser shows it."""
    subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         f"--user-data-dir={stack.dir / 'chromium'}", "--force-color-profile=srgb",
         "--window-size=1180,1020", f"--screenshot={path}", f"http://{stack.targets[node]}/"],
        check=True, timeout=120, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--seconds", type=int, default=330)
    args = parser.parse_args()
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with Stack(args.binary.resolve(), listen=free_ports()) as stack:
        until("scrapes of all nodes", seconds=90, pause=0.5, attempt=lambda: len(stack.query("up == 1")) == len(stack.targets))
        end = time.monotonic() + args.seconds
        while time.monotonic() < end:
            stack.alive()
            time.sleep(1)
        if args.whole:
            for name in panels.NAMES:
                draw(stack, name, out / f"dashboard-{name}.png", args.seconds)
            for node in stack.targets:
                draw(stack, "node", out / f"dashboard-node-{node}.png", args.seconds,
                     {"node": [node]})
        else:
            draw(stack, "fleet", out / "dashboard-fleet.png", args.seconds, rows=37)
            draw(stack, "node", out / "dashboard-node.png", args.seconds, {"node": ["gpu-03"]},
                 rows=44)
            photograph(stack, "gpu-02", out / "page.png")


if __name__ == "__main__":
    main()
