"""A whole dashboard: variables, links, annotations, and where panels lie."""

import json

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from parts import DATASOURCE, WARN, BAD

COLUMNS = 24
PAGES = {
    "selvage-fleet": "Fleet",
    "selvage-node": "Node",
    "selvage-jobs": "Jobs",
    "selvage-agent": "selvage itself",
}


def variable(name, label, query, *, multi=True, text=""):
    """One whose values come from labels."""
    made = dashboard.QueryVariable(name).label(label).description(text)
    made.query({"query": query, "refId": f"variable-{name}"}).datasource(DATASOURCE)
    made.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    made.sort(models.VariableSort.NATURAL_ASC).multi(multi)
    if multi:
        # Matches series without the label, too.
        made.include_all(True).all_value(".*")
        made.current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    return made


def cluster():
    return variable(
        "cluster", "Cluster", "label_values(selvage_build_info, cluster)",
        text="Label cluster of the series; All where there is none.",
    )


def node(*, multi):
    return variable(
        "node", "Node", 'label_values(selvage_build_info{cluster=~"$cluster"}, instance)',
        multi=multi, text="Label instance of the series, which is the node's name.",
    )


class Board:
    """Panels are put from left to right, as they come; a row takes a line of its own."""

    def __init__(self, uid, text, variables):
        self.uid, self.id, self.x, self.y, self.height = uid, 0, 0, 0, 0
        self.annotations = []
        self.built = (
            dashboard.Dashboard(f"selvage / {PAGES[uid]}").uid(uid).description(text)
            .tags(["selvage"]).refresh("30s").time("now-6h", "now").timezone("browser")
            .tooltip(models.DashboardCursorSync.CROSSHAIR).editable()
        )
        source = dashboard.DatasourceVariable("datasource").label("Prometheus")
        self.built.with_variable(source.type("prometheus").description("Where the series are."))
        for each in [cluster(), *variables]:
            self.built.with_variable(each)
        for other, title in PAGES.items():
            if other != uid:
                link = dashboard.DashboardLink(title).type(models.DashboardLinkType.LINK)
                link.url(f"/d/{other}").include_vars(True).keep_time(True).icon("dashboard")
                self.built.link(link.tooltip(f"selvage / {title}"))

    def _next(self):
        self.id += 1
        return self.id

    def _line(self):
        self.y, self.x, self.height = self.y + self.height, 0, 0

    def row(self, title):
        self._line()
        place = models.GridPos(h=1, w=COLUMNS, x=0, y=self.y)
        self.built.with_row(dashboard.Row(title).id(self._next()).grid_pos(place))
        self.y += 1

    def add(self, panel, width, height):
        if self.x + width > COLUMNS:
            self._line()
        place = models.GridPos(h=height, w=width, x=self.x, y=self.y)
        self.built.with_panel(panel.id(self._next()).grid_pos(place))
        self.x, self.height = self.x + width, max(self.height, height)

    def annotate(self, name, expr, color, title, text, tags=""):
        """Marks over all panels. Their queries are a Prometheus matter that the library's type of
        an annotation does not know, so they are put in as Grafana itself saves them."""
        self.annotations.append({
            "name": name, "datasource": DATASOURCE.to_json(), "enable": True, "hide": False,
            "iconColor": color, "titleFormat": title, "textFormat": text, "tagKeys": tags,
            "target": {
                "refId": f"annotation-{len(self.annotations)}",
                "expr": expr, "interval": "60s", "range": True,
            },
        })

    def annotate_alerts(self, selector):
        self.annotate(
            "Alerts", f'ALERTS{{alertname=~"Selvage.*", alertstate="firing", {selector}}}',
            BAD, "{{alertname}}", "{{severity}} {{namespace}} {{pod}}", "severity",
        )

    def annotate_verdicts(self, selector):
        self.annotate(
            "Verdict changed",
            "sum by (cluster, instance, to) "
            f"(increase(selvage_fabric_state_transitions_total{{{selector}}}[1m])) > 0",
            WARN, "Verdict is {{to}}", "{{instance}}", "to",
        )

    def json(self):
        made = json.loads(JSONEncoder().encode(self.built.build()))
        made["annotations"] = {"list": self.annotations}
        # Left by the library out of older Grafana; later ones have no such fields.
        for each in made["templating"]["list"]:
            for name in ("auto", "auto_min", "auto_count"):
                each.pop(name, None)
        for panel in made["panels"]:
            if panel["type"] == "table":
                panel["options"].pop("footer", None)
        return made
