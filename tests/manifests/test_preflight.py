"""manifests/injection/*-preflight: both policies on the same pods, beside the sidecar's, and that the checks
can fail."""

import copy
import os
import unittest

from cloudcoil.models.kyverno.v1 import ClusterPolicy

import checks
import injection_cases
import policy
import preflight_cases
import render
from injection_cases import by_api_server, by_kyverno
from test_injection import INJECTION, rendered, unknown_fields

KYVERNO, NATIVE = "kyverno-preflight/policy.yaml", "native-preflight/policy.yaml"


class Policies(unittest.TestCase):
    def test_kyverno(self):
        self.assertEqual(list(preflight_cases.complaints(rendered("kyverno-preflight"))), [])

    def test_native(self):
        found = rendered("native-preflight")
        self.assertEqual(list(preflight_cases.complaints(found, policy.PythonEngine())), [])

    def test_native_with_the_api_server_s_engine(self):
        engine = policy.GoEngine(os.environ["CELGO"])
        self.addCleanup(engine.close)
        self.assertEqual(list(preflight_cases.complaints(rendered("native-preflight"), engine)), [])

    def test_both_do_the_same(self):
        one, other = rendered("kyverno-preflight"), rendered("native-preflight")
        for name, pod, _, namespace in preflight_cases.pods():
            with self.subTest(name):
                self.assertEqual(by_kyverno(one, pod, namespace), by_api_server(other, pod, namespace))

    def test_beside_the_sidecar_s(self):
        """In either order the pod has both; then neither policy has anything left to do."""
        pod = copy.deepcopy(injection_cases.POD)
        pod["metadata"]["annotations"] = {injection_cases.SEEDS: "true", preflight_cases.OURS: "warn"}
        pods = []
        for first, second in (("", "-preflight"), ("-preflight", "")):
            kyverno = by_kyverno(rendered("kyverno" + second), by_kyverno(rendered("kyverno" + first), pod, "a"), "a")
            native = by_api_server(rendered("native" + second), by_api_server(rendered("native" + first), pod, "a"), "a")
            for after in (kyverno, native):
                names = [each["name"] for each in after["spec"]["initContainers"]]
                self.assertEqual(sorted(names), ["selvage-preflight", "selvage-sidecar"])
                for name in ("kyverno", "kyverno-preflight"):
                    self.assertEqual(by_kyverno(rendered(name), after, "a"), after)
                for name in ("native", "native-preflight"):
                    self.assertEqual(by_api_server(rendered(name), after, "a"), after)
                pods.append(after)
        self.assertEqual(len(pods), 4)

    def test_schemas(self):
        only = render.the(rendered("kyverno-preflight"), "ClusterPolicy")
        self.assertEqual(unknown_fields(ClusterPolicy, only), [])
        for version in ("1.36", "1.37"):
            self.assertEqual(checks.schema(rendered("native-preflight"), version), [])

    def test_a_policy_that_fails_lets_pods_start(self):
        for name in ("kyverno-preflight", "native-preflight"):
            self.assertEqual(rendered(name)[0]["spec"]["failurePolicy"], "Ignore")

    def test_what_is_added_is_what_the_page_says(self):
        page = (render.ROOT / "docs" / "nccl.md").read_text()
        for text in (preflight_cases.OURS, "kyverno-preflight", "native-preflight", "selvage-preflight",
                     "`selvage.dev/fabric: ready`"):
            self.assertIn(text, page)


# File, text, what stands in its place: a case must end otherwise.
BREAKAGES = [
    (KYVERNO, "&& 'place') || 'false'", "&& 'warn') || 'false'"),
    (KYVERNO, "|| 'false'", "|| 'place'"),
    (KYVERNO, 'annotations."selvage.dev/preflight" ||', "annotations.none ||"),
    (KYVERNO, "enable-multi-node-networking", "enable-multinode-networking"),
    (KYVERNO, "['warn', 'fail']", "['warn', 'fail', 'place']"),
    (KYVERNO, "['warn', 'fail', 'place']", "['warn', 'fail', 'place', 'true']"),
    (KYVERNO, "['warn', 'fail', 'place']", "['warn', 'fail']"),
    (KYVERNO, "length(gpuContainers) > `0`", "length(gpuContainers) >= `0`"),
    (KYVERNO, "resources.claims ||", ""),
    (KYVERNO, "|| @ == 'amd.com/gpu'", ""),
    (KYVERNO, "request.object.spec.os.name == 'windows' ||", ""),
    (KYVERNO, "[kube-system, selvage, kyverno]", "[kube-system]"),
    (KYVERNO, "`[]`, 'selvage-preflight')", "`[]`, 'selvage-flight')"),
    (KYVERNO, "mode == 'warn' && `[\"--warn\"]`", "mode == 'fail' && `[\"--warn\"]`"),
    (KYVERNO, "gpus && ['--gpus', gpus]", "['--gpus', gpus]"),
    (KYVERNO, "[?name != 'MASTER_ADDR' && name != 'MASTER_PORT']", ""),
    (KYVERNO, "gpuContainers[0].resources", "request.object.spec.containers[0].resources"),
    (KYVERNO, "gpuContainers[0].securityContext ||", "gpuContainers[9].securityContext ||"),
    (KYVERNO, "gpuContainers[0].volumeMounts", "gpuContainers[9].volumeMounts"),
    (KYVERNO, "gpuContainers[0].envFrom", "gpuContainers[9].envFrom"),
    (KYVERNO, "selvage.dev/fabric: ready", "selvage.dev/fabric: degraded"),
    (KYVERNO, "`{}`), 'selvage.dev/fabric') ||", "`{}`), 'selvage.dev/none') ||"),
    (KYVERNO, "[].matchExpressions[].key", "[].matchFields[].key"),
    (NATIVE, "policyName: selvage-preflight", "policyName: selvage"),
    (NATIVE, "has(object.metadata.annotations) &&", ""),
    (NATIVE, "object.metadata.annotations['selvage.dev/preflight'] != ''", "true"),
    (NATIVE, "in ['warn', 'fail', 'place']", "in ['warn', 'fail']"),
    (NATIVE, "== 'fail'", "!= 'fail'"),
    (NATIVE, "variables.mode == 'place' ||\n", "false ||\n"),
    (NATIVE, ": 'place'\n", ": 'warn'\n"),
    (NATIVE, "!(has(object.spec.os) && object.spec.os.name == 'windows') &&", ""),
    (NATIVE, "values: [kube-system, selvage]", "values: [kube-system]"),
    (NATIVE, "k == 'amd.com/gpu'", "false"),
    (NATIVE, "has(c.resources.claims) &&", "!has(c.resources.claims) &&"),
    (NATIVE, "size(variables.counted) > 0 ?", "true ?"),
    (NATIVE, "['MASTER_ADDR', 'MASTER_PORT']", "['MASTER_ADDR']"),
    (NATIVE, "dyn(has(variables.first.envFrom) ? variables.first.envFrom : [])", "dyn([])"),
    (NATIVE, "dyn(variables.first.resources)", "dyn({})"),
    (NATIVE, "variables.gpu[0] :", "object.spec.containers[0] :"),
    (NATIVE, "size(variables.gpu) == 0 || variables.placed ?", "variables.placed ?"),
    (NATIVE, "size(variables.gpu) == 0 || variables.placed ?", "size(variables.gpu) == 0 ?"),
    (NATIVE, "e.key == 'selvage.dev/fabric'", "e.key.startsWith('selvage.dev/fabric')"),
    (NATIVE, "has(t.matchExpressions) &&", ""),
    (NATIVE, "selvage.dev~1fabric", "selvage.dev/fabric"),
    (NATIVE, "has(object.spec.nodeSelector) ?\n", "false ?\n"),
    (NATIVE, "initContainers/0", "initContainers/-"),
]


class Breakages(unittest.TestCase):
    def test_each_is_found(self):
        engine = policy.GoEngine(os.environ["CELGO"])
        self.addCleanup(engine.close)
        for file, text, instead in BREAKAGES:
            with self.subTest(file=file, text=text, instead=instead):
                before = (INJECTION / file).read_text()
                self.assertIn(text, before, "the file has changed: bring this row up to date")
                found = render.objects(before.replace(text, instead))
                first = next(preflight_cases.complaints(found, engine, ()), None)
                self.assertIsNotNone(first, "not found")
