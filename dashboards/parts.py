"""What the dashboards are put together from: one function a kind of panel, one look for all."""

from dataclasses import dataclass, field

from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus
from grafana_foundation_sdk.builders import stat as stats
from grafana_foundation_sdk.builders import statetimeline, table as tables, timeseries
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")

# Of Okabe and Ito's palette, which can be told apart with any colour vision. No panel says anything by
# colour alone: states are written out, too.
GOOD, WARN, BAD, QUIET, PLAIN = "#009E73", "#E69F00", "#D55E00", "#999999", "#56B4E9"
STATES = {"ready": GOOD, "degraded": WARN, "unready": BAD, "unknown": QUIET}
NO_AGENT = "no data: no agent answers"

NODE_LINK = (
    "/d/selvage-node?var-node=${__data.fields.Node}"
    "&${datasource:queryparam}&${cluster:queryparam}&${__url_time_range}"
)
POD_LINK = (
    "/d/selvage-jobs?var-namespace=${__data.fields.Namespace}&var-pod=${__data.fields.Pod}"
    "&${datasource:queryparam}&${cluster:queryparam}&${__url_time_range}"
)


@dataclass
class Q:
    """A query: an expression, and how its series are named."""

    expr: str
    legend: str = ""
    color: str = ""
    dashed: bool = False


@dataclass
class Col:
    """A column of a table: a label, or `@A` for the value of the query A."""

    source: str
    title: str
    unit: str = ""
    values: dict = field(default_factory=dict)
    steps: list = field(default_factory=list)
    link: str = ""
    width: int = 0


def thresholds(steps):
    """Steps as (from, colour), the first one from minus infinity."""
    return [models.Threshold(value=value, color=color) for value, color in steps]


def mapping(values):
    """Values with their text and colour, as {value: (text, colour)}."""
    options = {
        str(value): models.ValueMappingResult(text=text, color=color or None, index=index)
        for index, (value, (text, color)) in enumerate(values.items())
    }
    return models.ValueMap(options=options)


def _prop(name, value):
    return models.DynamicConfigValue(id_val=name, value=value)


def fixed(color):
    return _prop("color", {"mode": "fixed", "fixedColor": color})


def _dress(panel, title, text, unit, steps, values, empty, decimals, queries):
    """What every kind of panel has. One that asks for recorded series is empty without the rules, too."""
    recorded = any(":selvage_" in query.expr for query in queries)
    if recorded and "recording rules" not in empty:
        empty = f"{empty} (Or the recording rules are not loaded.)"
    panel.title(title).description(text).datasource(DATASOURCE).unit(unit).no_value(empty)
    levels = dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE)
    panel.thresholds(levels.steps(thresholds(steps or [(None, PLAIN)])))
    if values:
        panel.mappings([mapping(values)])
    if decimals is not None:
        panel.decimals(decimals)
    return panel


def _targets(panel, queries, instant=False, as_table=False):
    for index, query in enumerate(queries):
        target = prometheus.Dataquery().expr(query.expr).ref_id("ABCDEFGHIJKL"[index])
        target.datasource(DATASOURCE).legend_format(query.legend or "__auto")
        if instant:
            target.instant()
        else:
            target.range()
        kind = PromQueryFormat.TABLE if as_table else PromQueryFormat.TIME_SERIES
        panel.with_target(target.format(kind))
        if query.color or query.dashed:
            look = [fixed(query.color)] if query.color else []
            if query.dashed:
                look.append(_prop("custom.lineStyle", {"fill": "dash", "dash": [8, 6]}))
                look.append(_prop("custom.fillOpacity", 0))
            panel.override_by_query("ABCDEFGHIJKL"[index], look)
    return panel


def _colored(panel, colors, names=None):
    for name, color in (colors or {}).items():
        shown = [_prop("displayName", names[name])] if names else []
        panel.override_by_name(name, [fixed(color), *shown])
    return panel


def _scheme(mode):
    return dashboard.FieldColor().mode(mode)


def lines(title, text, queries, unit="short", *, steps=None, colors=None, names=None, stack=False,
          low=0, high=None, empty=NO_AGENT, decimals=None, points=False):
    """Values over time. `names` shows series by other names; `colors` then has each of them, too."""
    panel = _dress(timeseries.Panel(), title, text, unit, steps, None, empty, decimals, queries)
    panel.color_scheme(_scheme(models.FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
    panel.draw_style(kinds.GraphDrawStyle.LINE).line_width(1 if stack else 2)
    panel.fill_opacity(60 if stack else 8).axis_soft_min(low)
    panel.line_interpolation(
        kinds.LineInterpolation.STEP_AFTER if stack or points else kinds.LineInterpolation.LINEAR
    )
    # A gap stays a gap: a straight line would hide that the agent was away.
    panel.span_nulls(False).show_points(kinds.VisibilityMode.AUTO)
    mode = kinds.StackingMode.NORMAL if stack else kinds.StackingMode.NONE
    panel.stacking(common.StackingConfig().mode(mode).group("A"))
    if high is not None:
        panel.max(high)
    shown = kinds.GraphThresholdsStyleMode.DASHED if steps else kinds.GraphThresholdsStyleMode.OFF
    panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(shown))
    panel.legend(
        common.VizLegendOptions().show_legend(True).display_mode(kinds.LegendDisplayMode.TABLE)
        .placement(kinds.LegendPlacement.RIGHT if stack else kinds.LegendPlacement.BOTTOM)
        .calcs(["lastNotNull", "max"])
    )
    panel.tooltip(
        common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI)
        .sort(kinds.SortOrder.DESCENDING)
    )
    return _colored(_targets(panel, queries), colors, names)


def stat(title, text, queries, unit="short", *, steps=None, values=None, colors=None,
         overrides=None, empty=NO_AGENT, decimals=None, name=False, wide=False):
    """One value now, or one a query. `name` shows the series' name in place of its value."""
    panel = _dress(stats.Panel(), title, text, unit, steps, values, empty, decimals, queries)
    panel.color_scheme(_scheme(models.FieldColorModeId.THRESHOLDS))
    panel.color_mode(
        kinds.BigValueColorMode.BACKGROUND if name or values else kinds.BigValueColorMode.VALUE
    )
    panel.graph_mode(kinds.BigValueGraphMode.NONE).justify_mode(kinds.BigValueJustifyMode.AUTO)
    both = kinds.BigValueTextMode.VALUE_AND_NAME if wide else kinds.BigValueTextMode.AUTO
    panel.text_mode(kinds.BigValueTextMode.NAME if name else both)
    panel.wide_layout(True).show_percent_change(False)
    panel.percent_change_color_mode(kinds.PercentChangeColorMode.STANDARD)
    panel.orientation(kinds.VizOrientation.AUTO)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False))
    for series, levels in (overrides or {}).items():
        config = {"mode": "absolute", "steps": [s.to_json() for s in thresholds(levels)]}
        panel.override_by_name(series, [_prop("thresholds", config)])
    return _colored(_targets(panel, queries, instant=True), colors)


def bars(title, text, query, unit="short", *, steps=None, empty=NO_AGENT, decimals=None):
    """Current values next to each other."""
    panel = _dress(bargauge.Panel(), title, text, unit, steps, None, empty, decimals, [query])
    panel.color_scheme(_scheme(models.FieldColorModeId.THRESHOLDS)).min(0)
    panel.display_mode(kinds.BarGaugeDisplayMode.BASIC).value_mode(kinds.BarGaugeValueMode.TEXT)
    panel.name_placement(kinds.BarGaugeNamePlacement.LEFT).show_unfilled(True)
    panel.sizing(kinds.BarGaugeSizing.AUTO).min_viz_width(8).min_viz_height(16).max_viz_height(300)
    panel.orientation(kinds.VizOrientation.HORIZONTAL)
    panel.legend(
        common.VizLegendOptions().show_legend(False).display_mode(kinds.LegendDisplayMode.LIST)
        .placement(kinds.LegendPlacement.BOTTOM).calcs([])
    )
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False))
    return _targets(panel, [query], instant=True)


def timeline(title, text, queries, values, *, empty=NO_AGENT, legend=False):
    """What stood when: one bar a series, coloured and named by its value."""
    panel = _dress(statetimeline.Panel(), title, text, "none", None, values, empty, None, queries)
    panel.color_scheme(_scheme(models.FieldColorModeId.THRESHOLDS))
    panel.merge_values(True).show_value(kinds.VisibilityMode.AUTO).row_height(0.85)
    panel.align_value(kinds.TimelineValueAlignment.LEFT).line_width(0).fill_opacity(85)
    panel.legend(
        common.VizLegendOptions().show_legend(legend).display_mode(kinds.LegendDisplayMode.LIST)
        .placement(kinds.LegendPlacement.BOTTOM).calcs([])
    )
    panel.tooltip(
        common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.SINGLE).sort(kinds.SortOrder.NONE)
    )
    return _targets(panel, queries)


def table(title, text, queries, columns, *, sort=(), empty):
    """Series now, one a row; series that have all labels alike share it. Sorted by each of `sort` in
    turn, so by the last one first; `-` for the highest first."""
    panel = _dress(tables.Panel(), title, text, "none", None, None, empty, None, queries)
    panel.color_scheme(_scheme(models.FieldColorModeId.THRESHOLDS))
    panel.show_header(True).cell_height(kinds.TableCellHeight.SM).frame_index(0)
    panel.align(kinds.FieldTextAlignment.AUTO).inspect(False).filterable(True)
    panel.cell_options(kinds.TableAutoCellOptions())
    _targets(panel, queries, instant=True, as_table=True)

    def name(source):
        if not source.startswith("@"):
            return source
        return "Value" if len(queries) == 1 else f"Value #{source[1:]}"

    def step(kind, options):
        panel.with_transformation(models.DataTransformerConfig(id_val=kind, options=options))

    if len(queries) > 1:
        step("merge", {})
    for key in sort:
        by = {"field": name(key.removeprefix("-")), "desc": key.startswith("-")}
        step("sortBy", {"fields": {}, "sort": [by]})
    listed = {name(column.source) for column in columns}
    hidden = ["Time"]
    # Labels that a query needs and that not every table shows.
    hidden += [each for each in ("cluster", "instance", "exported_job") if each not in listed]
    values = {name(f"@{'ABCDEFGHIJKL'[index]}") for index in range(len(queries))}
    hidden += sorted(values - listed)
    step("organize", {
        "excludeByName": {each: True for each in hidden},
        "indexByName": {name(column.source): index for index, column in enumerate(columns)},
        "renameByName": {name(column.source): column.title for column in columns},
    })
    for column in columns:
        properties = []
        if column.unit:
            properties.append(_prop("unit", column.unit))
        if column.unit == "short":
            properties.append(_prop("decimals", 0))
        if column.values:
            properties.append(_prop("mappings", [mapping(column.values).to_json()]))
        if column.steps:
            steps = [each.to_json() for each in thresholds(column.steps)]
            properties.append(_prop("thresholds", {"mode": "absolute", "steps": steps}))
        if column.values or column.steps:
            properties.append(_prop("custom.cellOptions", {"type": "color-text"}))
        if column.link:
            link = {"title": "Open", "url": column.link, "targetBlank": False}
            properties.append(_prop("links", [link]))
        if column.width:
            properties.append(_prop("custom.width", column.width))
        if properties:
            panel.override_by_name(column.title, properties)
    return panel
