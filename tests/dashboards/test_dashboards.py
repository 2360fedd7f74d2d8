"""What is committed in dashboards/ is what the generator writes, whole, legible and well-formed."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

import names
from boards import BUILT_IN, DASHBOARDS, NAMES, ROOT, expressions, load, panels, substituted, used, variables

NODE_HOME = pathlib.Path(os.environ["NODE_HOME"])
BOARDS = {name: load(name) for name in NAMES}


def every_panel(rows=False):
    for name, board in BOARDS.items():
        for panel in panels(board, rows):
            yield f"{name}: {panel.get('title')}", panel


def ask_grafana(**asked):
    asked = {"units": [], "transformers": [], "matchers": [], "tables": [], **asked}
    script = pathlib.Path(__file__).with_name("grafana.mjs")
    done = subprocess.run(
        ["node", str(script)], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


class Generated(unittest.TestCase):
    def test_committed_is_what_the_generator_writes(self):
        done = subprocess.run(
            [sys.executable, str(DASHBOARDS / "generate.py"), "--check"],
            capture_output=True, text=True, check=False,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_every_dashboard_becomes_a_config_map(self):
        text = (DASHBOARDS / "kustomization.yaml").read_text()
        self.assertEqual(re.findall(r"files: \[(\w+)\.json\]", text), list(NAMES))
        for name in NAMES:
            # What `kubectl apply` writes into an annotation must stay below 256 KiB.
            self.assertLess((DASHBOARDS / f"{name}.json").stat().st_size, 200_000)


class Layout(unittest.TestCase):
    def test_no_panel_lies_on_another_or_outside(self):
        for name, board in BOARDS.items():
            taken = {}
            for panel in panels(board, rows=True):
                place = panel["gridPos"]
                self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
                for x in range(place["x"], place["x"] + place["w"]):
                    for y in range(place["y"], place["y"] + place["h"]):
                        self.assertNotIn((x, y), taken, f"{name}: {panel['title']}")
                        taken[x, y] = panel["title"]

    def test_ids_are_one_of_each_and_dashboards_have_fixed_names(self):
        self.assertEqual(
            [board["uid"] for board in BOARDS.values()],
            ["selvage-fleet", "selvage-node", "selvage-jobs", "selvage-agent"],
        )
        for board in BOARDS.values():
            ids = [panel["id"] for panel in panels(board, rows=True)]
            self.assertEqual(len(ids), len(set(ids)))
            self.assertEqual((board["refresh"], board["time"]["from"]), ("30s", "now-6h"))
            self.assertNotIn("id", board)
            self.assertEqual(board["panels"][0]["type"], "row")

    def test_every_panel_says_what_it_is(self):
        titles = {}
        for where, panel in every_panel():
            with self.subTest(panel=where):
                self.assertTrue(panel["title"])
                self.assertRegex(panel["description"], r"^[A-Z][^.?]{8,}\? \S.{10,}\.$")
                self.assertLess(len(panel["description"]), 260)
                defaults = panel["fieldConfig"]["defaults"]
                for key in ("unit", "noValue", "thresholds", "color"):
                    self.assertTrue(defaults.get(key), key)
                self.assertEqual(panel["datasource"]["uid"], "${datasource}")
                self.assertTrue(panel["targets"])
                for target in panel["targets"]:
                    self.assertTrue(target["refId"] and target["expr"])
                    self.assertTrue(target["legendFormat"])
                    table = panel["type"] == "table"
                    self.assertEqual(target["format"], "table" if table else "time_series")
                    if not table:
                        self.assertNotEqual(target["legendFormat"], "__auto")
                refs = [target["refId"] for target in panel["targets"]]
                self.assertEqual(len(refs), len(set(refs)))
            titles.setdefault(where, []).append(panel["id"])

    def test_links_keep_variables(self):
        uids = {board["uid"] for board in BOARDS.values()}
        for name, board in BOARDS.items():
            links = board["links"]
            self.assertEqual(len(links), 3, name)
            for link in links:
                self.assertTrue(link["includeVars"] and link["keepTime"])
                self.assertIn(link["url"].removeprefix("/d/"), uids)
        followed = 0
        for where, panel in every_panel():
            columns = set()
            for each in panel.get("transformations", []):
                columns |= set(each["options"].get("renameByName", {}).values())
            for link in re.findall(r'"url": "([^"]+)"', json.dumps(panel)):
                followed += 1
                path, query = link.split("?")
                self.assertIn(path.removeprefix("/d/"), uids, where)
                target = next(b for b in BOARDS.values() if path.endswith(b["uid"]))
                for name in re.findall(r"var-(\w+)=", query):
                    self.assertIn(name, variables(target), where)
                for field in re.findall(r"__data\.fields\.(\w+)", query):
                    self.assertIn(field, columns, where)
                self.assertIn("${cluster:queryparam}", query)
        self.assertGreater(followed, 10)


class Queries(unittest.TestCase):
    def test_prometheus_parses_all(self):
        rules = [
            {"record": f"checked:{name}:{index}", "expr": substituted(expr)}
            for name, board in BOARDS.items()
            for index, (_, expr) in enumerate(expressions(board))
        ]
        self.assertGreater(len(rules), 100)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "rules.yaml"
            path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
            done = subprocess.run(
                ["promtool", "check", "rules", str(path)], capture_output=True, text=True,
                check=False,
            )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"SUCCESS: {len(rules)} rules found", done.stdout)

    def test_none_is_longer_than_a_rule_may_be(self):
        for name, board in BOARDS.items():
            for where, expr in expressions(board):
                self.assertLessEqual(len(expr), 300, f"{name}: {where}: a recording rule takes a part of it")

    def test_metrics_and_labels_exist(self):
        documented, recorded = names.documented(), names.recorded()
        self.assertGreater(len(documented), 60)
        # By the rules that the dashboards ask for.
        asked = {metric for expr in names.rules() for metric, _ in names.selectors(expr)}
        for name, board in BOARDS.items():
            for where, expr in expressions(board):
                for metric, matchers in names.selectors(substituted(expr)):
                    asked.add(metric)
                    labels = {each.name for each in matchers}
                    with self.subTest(where=f"{name}: {where}", metric=metric):
                        if metric in recorded:
                            continue
                        known = names.OTHERS.get(metric, documented.get(metric))
                        self.assertIsNotNone(known, "no such metric")
                        self.assertLessEqual(labels, known | names.TARGET)
        # Every metric of the default detail is looked at somewhere, but for these.
        unused = {
            "selvage_full_window", "selvage_port_receive_bytes_total",
            "selvage_port_transmit_bytes_total", "selvage_port_receive_packets_total",
            "selvage_port_transmit_packets_total", "selvage_pfc_pause_frames_total",
            "selvage_pfc_pause_seconds_total", "selvage_pfc_enabled", "selvage_check_findings",
            "selvage_gpu_driver_info", "selvage_node_topology_info", "selvage_rail_mtu_bytes",
            "selvage_port_neighbor_info",
            # Those of every exporter; a board of the cluster's own shows them.
            "process_open_fds", "process_max_fds", "process_start_time_seconds",
            "process_virtual_memory_bytes",
        }
        default = {
            line.split("`")[1] for line in (ROOT / "docs/metrics.md").read_text().splitlines()
            if line.startswith("| `") and "| default |" in line
        }
        self.assertEqual(default - asked - unused, set())

    def test_values_of_labels_exist(self):
        known, asked = names.values(), 0
        found = [substituted(expr) for board in BOARDS.values() for _, expr in expressions(board)]
        for expr in [*found, *names.rules()]:
            for metric, matchers in names.selectors(expr):
                for each in matchers:
                    if each.op == names.promql.MatchOp.Equal:
                        asked += 1
                        with self.subTest(expr=expr, metric=metric):
                            self.assertIn(each.value, known[each.name])
        self.assertGreater(asked, 40)
        # What tells of congestion control is told apart from what tells of loss.
        cnp = next(
            each.value for _, expr in expressions(BOARDS["node"])
            for _, matchers in names.selectors(substituted(expr))
            for each in matchers if each.name == "counter" and "cnp" in each.value
        )
        self.assertEqual(
            {each for each in names.counters() if re.fullmatch(cnp, each)},
            {each for each in names.counters() if re.search("cnp|ECN", each)},
        )

    def test_each_hardware_counter_is_drawn_once_and_no_traffic(self):
        drawn = {
            each.value for expr in [*names.rules(), *(substituted(expr) for _, expr in expressions(BOARDS["node"]))]
            for metric, matchers in names.selectors(expr)
            if metric == "selvage_port_hw_counter_total"
            for each in matchers if each.name == "counter"
        }
        self.assertEqual(len(drawn), 6)
        for counter in names.counters():
            with self.subTest(counter=counter):
                self.assertEqual(len([each for each in drawn if re.fullmatch(each, counter)]), 1)
        # What counters.full exports beside: traffic, and events that are nobody's loss.
        for counter in (
            "rx_bytes", "tx_pkts", "rdma_read_wrs", "submitted_cmds", "retrans_bytes", "lifespan",
            "rx_write_requests", "resp_cqe_flush_error", "ip4InOctets", "sent_pkts", "rx_read_req",
        ):
            with self.subTest(counter=counter):
                self.assertFalse([each for each in drawn if re.fullmatch(each, counter)])

    def test_port_errors_are_those_of_the_recording_rule(self):
        rule = re.search(
            r'selvage_port_counter_total\{counter=~"([^"]*)"\}\[1h\]', names.RULES.read_text())[1]
        panels_of = [p for p in panels(BOARDS["node"]) if p["title"].startswith("Port errors")]
        self.assertEqual(len(panels_of), 2)
        for panel in panels_of:
            self.assertIn(f'counter=~"{rule}"', panel["targets"][0]["expr"])

    def test_pause_is_judged_as_the_agent_judges_it(self):
        policy = (ROOT / "src/check/policy.rs").read_text()
        wanted = [float(re.search(rf"\b{name}: f64 = ([\d.]+)", policy)[1])
                  for name in ("pressure", "storm")]
        found = 0
        for where, panel in every_panel():
            if "PFC pause" in panel["title"]:
                found += 1
                steps = [panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
                steps += [p["value"]["steps"] for o in panel["fieldConfig"]["overrides"]
                          for p in o["properties"] if p["id"] == "thresholds"]
                self.assertIn(wanted, [[s["value"] for s in each[1:]] for each in steps], where)
        self.assertEqual(found, 3)

    def test_ten_of_a_time_series_are_the_same_at_every_step(self):
        ranked = 0
        for where, panel in every_panel():
            for target in panel["targets"]:
                # `topk by` takes one of a container's own series.
                if target.get("range") and re.search(r"\b(top|bottom)k\(", target["expr"]):
                    ranked += 1
                    self.assertRegex(target["expr"], r"and on \([^)]*\) \w+k\(10, .*@ end\(\)", where)
        self.assertGreater(ranked, 8)

    def test_sidecars_are_no_agents(self):
        """What a sidecar exports beside NCCL's metrics is asked for only joined with agents' own."""
        shared = {"selvage_build_info", "selvage_source_up", "process_resident_memory_bytes",
                  "process_cpu_seconds_total", "selvage_nccl_log_bytes_total"}
        found = [(f"{name}: {where}", substituted(expr))
                 for name, board in BOARDS.items() for where, expr in expressions(board)]
        for where, expr in [*found, *((f"rule {expr}", expr) for expr in names.rules())]:
            asked = {metric for metric, _ in names.selectors(expr)}
            with self.subTest(where=where):
                if asked & shared and not where.endswith("variable cluster"):
                    self.assertIn("selvage_fabric_ready", asked)
                if "up" in asked:
                    self.assertIn('job!~".*selvage-nccl.*"', expr)

    def test_variables_are_declared(self):
        for name, board in BOARDS.items():
            known = set(variables(board)) | set(BUILT_IN)
            self.assertLessEqual({"datasource", "cluster"}, known)
            for where, expr in expressions(board):
                with self.subTest(where=f"{name}: {where}"):
                    self.assertLessEqual(used(expr), known)
            for text in re.findall(r"\$\{(\w+):queryparam\}", json.dumps(board)):
                self.assertIn(text, known)

    def test_counters_are_asked_for_growth_over_the_step_s_range(self):
        for name, board in BOARDS.items():
            for where, expr in expressions(board):
                for window in re.findall(r"\brate\([^\[\]]*\[([^\]]*)\]", expr):
                    self.assertEqual(window, "$__rate_interval", f"{name}: {where}")

    def test_nothing_becomes_health_by_being_absent(self):
        for name, board in BOARDS.items():
            for where, expr in expressions(board):
                with self.subTest(where=f"{name}: {where}"):
                    self.assertNotIn("vector(", expr)
                    self.assertNotIn("absent(", expr)
                    # A zero in place of nothing has a witness that somebody looked.
                    for witness in re.findall(r"\bor 0\b(.{0,9})", expr):
                        self.assertRegex(witness, r"^ \* (count|sum)\(")


    def test_a_panel_of_recorded_series_says_so_where_it_is_empty(self):
        for where, panel in every_panel():
            if any(":selvage_" in target["expr"] for target in panel["targets"]):
                self.assertIn("recording rules", panel["fieldConfig"]["defaults"]["noValue"], where)


def literal(value):
    return json.dumps(value, ensure_ascii=False, indent=1)


def typed(board):
    """A TypeScript module that gives each part of the dashboard to its type."""
    frame = {key: value for key, value in board.items() if key != "panels"}
    lines = ["import type { Frame, Panels } from './types';"]
    lines.append(f"export const frame: Frame = {literal(frame)};")
    for panel in panels(board, rows=True):
        lines.append(
            f"export const panel{panel['id']}: Panels[{json.dumps(panel['type'])}] = "
            f"{literal(panel)};"
        )
    return "\n".join(lines)


def compile_types(boards):
    with tempfile.TemporaryDirectory(dir=NODE_HOME) as directory:
        place = pathlib.Path(directory)
        shutil.copy(pathlib.Path(__file__).with_name("types.ts"), place)
        for name, board in boards.items():
            (place / f"{name}.ts").write_text(typed(board))
        options = {
            "strict": True, "noEmit": True, "skipLibCheck": True, "target": "es2022",
            "module": "esnext", "moduleResolution": "bundler", "types": [],
            "paths": {"@grafana/schema/dist/types/*": ["../node_modules/@grafana/schema/dist/types/*"]},
        }
        (place / "tsconfig.json").write_text(json.dumps({"compilerOptions": options}))
        done = subprocess.run(
            [str(NODE_HOME / "node_modules/.bin/tsc"), "-p", str(place)],
            capture_output=True, text=True, check=False,
        )
        return done.stdout + done.stderr


class Types(unittest.TestCase):
    """@grafana/schema's types: the dashboard, its variables, links, panels, their options and fields,
    overrides. Not covered, as Grafana types them as any: what transformations and matchers are given
    (Grafana's code is asked about those), and what the data source makes of a query (Prometheus is)."""

    def test_dashboards_have_grafana_s_types(self):
        self.assertEqual(compile_types(BOARDS), "")

    def test_a_misspelt_field_is_found(self):
        spoils = {
            "of a panel": lambda p: p.update(descripton="x"),
            "of options": lambda p: p["options"].update(showHeadr=True),
            "of fields": lambda p: p["fieldConfig"]["defaults"].update(noValues="x"),
            "of a kind's fields": lambda p: p["fieldConfig"]["defaults"]["custom"].update(fill=1),
            "of a query": lambda p: p["targets"][0].update(legend="x"),
            "of an override": lambda p: p["fieldConfig"]["overrides"][0]["properties"].append(
                {"id": "custom.widht", "value": 1}),
            "an enumeration's value": lambda p: p["fieldConfig"]["defaults"]["color"].update(
                mode="threshold"),
        }
        for what, spoil in spoils.items():
            with self.subTest(misspelt=what):
                board = load("fleet")
                panel = next(p for p in panels(board) if p["type"] == "table")
                spoil(panel)
                self.assertIn("error TS", compile_types({"fleet": board}))


class Asked(unittest.TestCase):
    """What Grafana's own code says of units, transformations and matchers."""

    def test_they_exist(self):
        text = [panel for _, panel in every_panel()]
        units = {panel["fieldConfig"]["defaults"]["unit"] for panel in text}
        transformers, matchers = set(), set()
        for panel in text:
            transformers |= {each["id"] for each in panel.get("transformations", [])}
            for override in panel["fieldConfig"]["overrides"]:
                matchers.add(override["matcher"]["id"])
                units |= {p["value"] for p in override["properties"] if p["id"] == "unit"}
        answer = ask_grafana(
            units=sorted(units), transformers=sorted(transformers), matchers=sorted(matchers)
        )
        self.assertEqual(answer["missing"], {"units": [], "transformers": [], "matchers": []})
        wrong = {"units": ["parsecs"], "transformers": ["organise"], "matchers": ["byname"]}
        self.assertEqual(ask_grafana(**wrong)["missing"], wrong)

    def test_tables_show_their_columns_and_no_more(self):
        tables = [panel for _, panel in every_panel() if panel["type"] == "table"]
        asked, wanted = [], []
        for panel in tables:
            organize = panel["transformations"][-1]["options"]
            order = sorted(organize["indexByName"], key=organize["indexByName"].get)
            labels = {each: "x" for each in order if not each.startswith("Value")}
            labels |= {"cluster": "c", "instance": "i", "exported_job": "j"}
            asked.append({
                "frames": [
                    {"refId": target["refId"], "rows": [{"labels": labels, "value": 1}]}
                    for target in panel["targets"]
                ],
                "transformations": panel["transformations"],
            })
            wanted.append([organize["renameByName"][each] for each in order])
        shown = ask_grafana(tables=asked)["tables"]
        for panel, frames, columns in zip(tables, shown, wanted):
            with self.subTest(table=panel["title"]):
                # One row: what a node's queries tell of one thing is joined.
                ((row,),) = frames
                self.assertEqual(list(row), columns)

    def test_worst_nodes_come_first_and_stay_together(self):
        panel = next(p for w, p in every_panel() if w == "fleet: Nodes that are not ready")
        rows = [
            ("gpu-03", "degraded", "PfcStorm", 20, 10), ("gpu-05", "unready", "XidDegraded", 200, 100),
            ("gpu-02", "unready", "LinkDown", 300, 100), ("gpu-10", "unknown", "", 1, 1),
            ("gpu-05", "unready", "GpuFellOff", 300, 100),
        ]
        def frame(ref, value):
            return {"refId": ref, "rows": [
                {"labels": {"instance": node, "state": state, "reason": reason}, "value": value(a, c)}
                for node, state, reason, a, c in rows
            ]}
        (frames,) = ask_grafana(tables=[{
            "frames": [frame("A", lambda a, c: a), frame("B", lambda a, c: 7),
                       frame("C", lambda a, c: c)],
            "transformations": panel["transformations"],
        }])["tables"]
        self.assertEqual(
            [(row["Node"], row["Reason"], row["Since"]) for row in frames[0]],
            [("gpu-02", "LinkDown", 7), ("gpu-05", "GpuFellOff", 7), ("gpu-05", "XidDegraded", 7),
             ("gpu-03", "PfcStorm", 7), ("gpu-10", "", 7)],
        )


if __name__ == "__main__":
    unittest.main()
