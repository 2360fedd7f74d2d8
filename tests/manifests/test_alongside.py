"""examples/alongside/: files for tools that act on what selvage writes. Valid, and about keys that it writes."""

import copy
import json
import re
import unittest

import cel
import yaml

import crds
from render import ROOT

DIRECTORY = ROOT / "examples/alongside"
NAMES = (ROOT / "src/cluster/names.rs").read_text()
TAINT = "selvage.dev/fabric-unready"
# Read off the projects' own types (August 2026).
DESCHEDULER = {
    "apiVersion": {"descheduler/v1alpha2"},
    "kind": {"DeschedulerPolicy"},
    "profiles": [{
        "name": str,
        "pluginConfig": [{"name": {"RemovePodsViolatingNodeTaints"}, "args": {
            "includedTaints": [str], "excludedTaints": [str], "includePreferNoSchedule": bool}}],
        "plugins": {"deschedule": {"enabled": [{"RemovePodsViolatingNodeTaints"}]}},
    }],
}
MONITOR = {
    "name": str,
    "enabled": bool,
    "resource": {"group": str, "version": str, "kind": str},
    "predicate": {"expression": str},
    "healthEvent": {
        "componentClass": str, "isFatal": bool, "message": str, "errorCode": [str],
        "recommendedAction": {"CONTACT_SUPPORT", "RESTART_VM", "REPLACE_VM", "NONE"},
    },
}
PLUGIN = {
    "plugin": {"custom"},
    "pluginConfig": {
        "invoke_interval": str, "timeout": str, "max_output_length": int, "concurrency": int,
        "enable_message_change_based_condition_update": bool, "skip_initial_status": bool,
    },
    "source": str,
    "metricsReporting": bool,
    "conditions": [{"type": str, "reason": str, "message": str}],
    "rules": [{"type": {"permanent", "temporary"}, "condition": str, "reason": str, "path": str,
               "args": [str], "timeout": str}],
}


def load(name: str) -> dict:
    return yaml.safe_load((DIRECTORY / name).read_text())


class Alongside(unittest.TestCase):
    def test_custom_resources(self):
        for name in ("karpenter-nodepool", "kueue", "node-readiness-rule"):
            found = load(f"{name}.yaml")
            self.assertTrue(crds.known(found), name)
            self.assertEqual(crds.complaints(found), [], name)
            broken = copy.deepcopy(found)
            broken["spec"]["odd"] = 1
            self.assertTrue(crds.complaints(broken), name)

    def test_settings(self):
        policies = load("nvsentinel-values.yaml")["kubernetes-object-monitor"]["policies"]
        plugin = json.loads((DIRECTORY / "npd-plugin.json").read_text())
        self.assertEqual(crds._shape(DESCHEDULER, load("descheduler.yaml"), "descheduler"), [])
        self.assertEqual(crds._shape([MONITOR], policies, "nvsentinel"), [])
        self.assertEqual(crds._shape(PLUGIN, plugin, "npd"), [])
        # A condition of node-problem-detector's own: FabricReady is the agent's.
        self.assertNotEqual(plugin["conditions"][0]["type"], "FabricReady")
        self.assertEqual(plugin["rules"][0]["condition"], plugin["conditions"][0]["type"])

    def test_keys_are_those_of_the_agent(self):
        texts = {path.name: path.read_text() for path in DIRECTORY.iterdir()}
        for name, text in texts.items():
            for key in re.findall(r"selvage\.dev/([a-z-]+)", text):
                self.assertIn(f'"{key}"', NAMES, name)
        for name in ("node-readiness-rule.yaml", "nvsentinel-values.yaml"):
            self.assertIn("FabricReady", texts[name])
        self.assertIn('"FabricReady"', NAMES)
        rule = load("node-readiness-rule.yaml")["spec"]
        self.assertTrue(rule["taint"]["key"].startswith("readiness.k8s.io/"), "the CRD asks for it")
        self.assertEqual(rule["enforcementMode"], "bootstrap-only", "unknown must never taint")

    def test_nvsentinel_takes_tainted_nodes_alone(self):
        (policy,) = load("nvsentinel-values.yaml")["kubernetes-object-monitor"]["policies"]
        for status, taints, want in (
            ("False", [{"key": TAINT, "effect": "NoSchedule"}], True),
            ("True", [{"key": TAINT, "effect": "NoSchedule"}], False),
            ("Unknown", [{"key": TAINT, "effect": "NoSchedule"}], False),
            ("False", [{"key": "other", "effect": "NoSchedule"}], False),
            ("False", None, False),
        ):
            node = {"spec": {}, "status": {"conditions": [{"type": "FabricReady", "status": status}]}}
            if taints:
                node["spec"]["taints"] = taints
            self.assertIs(cel.evaluate(policy["predicate"]["expression"], {"resource": node}), want, (status, taints))


if __name__ == "__main__":
    unittest.main()
