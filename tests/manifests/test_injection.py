"""manifests/injection: both policies on the same pods, the examples, and that the checks can fail."""

import copy
import os
import pathlib
import re
import shutil
import tempfile
import unittest

from cloudcoil.models.kyverno.v1 import ClusterPolicy
from cloudcoil.models.prometheus_operator.v1 import PodMonitor

import checks
import injection_cases
import kyverno
import policy
import render
from render import MANIFESTS, of_kind

INJECTION = MANIFESTS / "injection"
KYVERNO, NATIVE = "kyverno/policy.yaml", "native/policy.yaml"


def rendered(name: str) -> list:
    return render.kustomize(INJECTION / name)


def unknown_fields(model, found: dict) -> list:
    """Fields that the resource's own schema (its CRD's, as Python classes) does not have."""
    known = model.model_validate(found).model_dump(mode="json", by_alias=True, exclude_unset=True)
    return render.differing(found["kind"], found, known)


class Policies(unittest.TestCase):
    def test_kyverno(self):
        self.assertEqual(list(injection_cases.complaints(rendered("kyverno"))), [])

    def test_native(self):
        self.assertEqual(list(injection_cases.complaints(rendered("native"))), [])

    def test_native_with_the_api_server_s_engine(self):
        engine = policy.GoEngine(os.environ["CELGO"])
        self.addCleanup(engine.close)
        for name in ("native", "native-v1beta1"):
            with self.subTest(name=name):
                self.assertEqual(list(injection_cases.complaints(rendered(name), engine)), [])

    def test_both_do_the_same(self):
        def plain(pod):
            pod = copy.deepcopy(pod)
            # Kyverno puts a new volume first; the order of volumes says nothing.
            pod["spec"].get("volumes", []).sort(key=lambda each: each["name"])
            return pod

        one, other = rendered("kyverno"), rendered("native")
        for name, pod, _, namespace in injection_cases.pods():
            with self.subTest(name):
                self.assertEqual(
                    plain(injection_cases.by_kyverno(one, pod, namespace)),
                    plain(injection_cases.by_api_server(other, pod, namespace)),
                )

    def test_a_pod_is_changed_when_it_is_made_and_never_later(self):
        pod = injection_cases.POD
        only = render.the(rendered("kyverno"), "ClusterPolicy")
        self.assertEqual(kyverno.mutated(only, pod, "default", "UPDATE"), pod)
        changed = policy.Request("", "pods", "a", pod, pod, "u", None, "default")
        self.assertEqual(policy.mutated(rendered("native"), changed, policy.PythonEngine()), pod)

    def test_a_container_that_comes_later_is_taken_on_a_second_pass(self):
        for name, mutate in (("kyverno", injection_cases.by_kyverno), ("native", injection_cases.by_api_server)):
            with self.subTest(name):
                found = rendered(name)
                once = mutate(found, copy.deepcopy(injection_cases.POD), "default")
                once["spec"]["containers"].append(copy.deepcopy(injection_cases.SECOND))
                second = mutate(found, once, "default")["spec"]["containers"][1]
                self.assertEqual([each["name"] for each in second["env"]], list(injection_cases.ALL))

    def test_a_large_pod_is_cheap_enough(self):
        engine = policy.GoEngine(os.environ["CELGO"])
        self.addCleanup(engine.close)
        pod = copy.deepcopy(injection_cases.POD)
        worker = pod["spec"]["containers"][0]
        worker["env"] += [{"name": f"V{n}", "value": "x" * 500} for n in range(300)]
        worker["volumeMounts"] += [{"name": "dshm", "mountPath": f"/m{n}"} for n in range(60)]
        pod["spec"]["containers"] += [
            {**copy.deepcopy(worker), "name": f"worker-{n}"} for n in range(1, 16)
        ]
        after = injection_cases.by_api_server(rendered("native"), pod, "default", engine)
        names = [each["name"] for each in after["spec"]["containers"][15]["env"][-3:]]
        self.assertEqual(names, list(injection_cases.ALL))

    def test_schemas(self):
        only = render.the(rendered("kyverno"), "ClusterPolicy")
        self.assertEqual(unknown_fields(ClusterPolicy, only), [])
        for version in ("1.36", "1.37"):
            self.assertEqual(checks.schema(rendered("native"), version), [])
        for version in ("1.34", "1.35", "1.36", "1.37"):
            self.assertEqual(checks.schema(rendered("native-v1beta1"), version), [])
        # What the pages say of versions: v1 is new in 1.36, v1beta1 in 1.34.
        self.assertTrue(checks.schema(rendered("native"), "1.35"))
        self.assertTrue(checks.schema(rendered("native-v1beta1"), "1.33"))

    def test_a_policy_that_fails_lets_pods_start(self):
        for name in ("kyverno", "native", "native-v1beta1"):
            self.assertEqual(rendered(name)[0]["spec"]["failurePolicy"], "Ignore")
        native = render.the(rendered("native"), "MutatingAdmissionPolicy")
        self.assertEqual(native["spec"]["reinvocationPolicy"], "IfNeeded")

    def test_another_image(self):
        """As docs/nccl.md shows it."""
        image = "registry.example.com/selvage:0.1.0"
        page = (render.ROOT / "docs" / "nccl.md").read_text()
        (text,) = [b.split("```")[0] for b in page.split("```yaml\n") if "kind: Kustomization" in b]
        with tempfile.TemporaryDirectory() as directory:
            home = pathlib.Path(directory)
            shutil.copytree(MANIFESTS, home / "selvage" / "manifests")
            (home / "deploy").mkdir()
            for name in ("native", "kyverno"):
                (home / "deploy" / "kustomization.yaml").write_text(text.replace("injection/native", f"injection/{name}"))
                found = render.kustomize(home / "deploy")
                mutate = injection_cases.by_kyverno if name == "kyverno" else injection_cases.by_api_server
                pod = mutate(found, copy.deepcopy(injection_cases.POD), "default")
                self.assertEqual(pod["spec"]["initContainers"][0]["image"], image)


class Examples(unittest.TestCase):
    objects = render.objects((INJECTION / "example-pod.yaml").read_text())

    def test_schemas(self):
        for version in ("1.29", "1.33", "1.37"):
            self.assertEqual(checks.schema(self.objects, version), [])

    def test_it_is_what_injection_makes(self):
        """Without the sidecar's parts and with the annotation, injection gives it back."""
        template = render.the(self.objects, "Job")["spec"]["template"]
        full = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": copy.deepcopy(template["spec"])}
        pod = copy.deepcopy(full)
        pod["metadata"]["annotations"] = {injection_cases.OURS: "true"}
        spec, worker = pod["spec"], pod["spec"]["containers"][0]
        del spec["initContainers"]
        spec["volumes"] = [each for each in spec["volumes"] if each["name"] != injection_cases.VOLUME]
        worker["env"] = [each for each in worker["env"] if not each["name"].startswith("NCCL_")]
        worker["volumeMounts"] = [m for m in worker["volumeMounts"] if m["name"] != injection_cases.VOLUME]
        after = injection_cases.by_kyverno(rendered("kyverno"), pod, "default")
        self.assertEqual(after["spec"], full["spec"])

    def test_each_line_of_the_sidecar_s_is_marked(self):
        text = (INJECTION / "example-pod.yaml").read_text()
        marked = [line for line in text.splitlines() if line.rstrip().endswith("# sidecar")]
        self.assertEqual(len(marked), 6)

    def test_sidecars_are_scraped(self):
        directory = tempfile.TemporaryDirectory(dir=INJECTION)
        self.addCleanup(directory.cleanup)
        (pathlib.Path(directory.name) / "kustomization.yaml").write_text(
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
            "resources: [../native]\ncomponents: [../monitoring]\n"
        )
        monitor = render.the(render.kustomize(directory.name), "PodMonitor")
        self.assertEqual(unknown_fields(PodMonitor, monitor), [])
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        pod = injection_cases.by_kyverno(rendered("kyverno"), injection_cases.POD, "default")
        self.assertEqual(endpoint["port"], pod["spec"]["initContainers"][0]["ports"][0]["name"])
        self.assertEqual(monitor["spec"]["namespaceSelector"], {"any": True})


class Page(unittest.TestCase):
    page = (render.ROOT / "docs" / "nccl.md").read_text()

    def test_each_cause_is_explained(self):
        source = render.ROOT / "src" / "observe" / "nccl" / "failure.rs"
        known = set(re.findall(r'^    [A-Za-z]+ = "([a-z_]+)",$', source.read_text(), re.MULTILINE))
        rows = [line.split("|")[1] for line in self.page.splitlines() if line.startswith("| `")]
        told = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
        self.assertEqual(known - {"secondary", "other"} - told, set())

    def test_what_is_added_is_what_the_page_says(self):
        for text in (injection_cases.OURS, injection_cases.SEEDS, injection_cases.LOGS + "/%h.%p.log",
                     "INIT,ENV,NET", "selvage-sidecar", injection_cases.VOLUME, "1 GiB", ":9950", "65532"):
            self.assertIn(text, self.page)


# File, text, what stands in its place: a case must end otherwise.
BREAKAGES = [
    (KYVERNO, "|| 'false' }}", "|| 'true' }}"),
    (KYVERNO, 'metadata.annotations."selvage.dev/nccl" ||\n', "metadata.annotations.none ||\n"),
    (KYVERNO, "enable-multi-node-networking", "enable-multinode-networking"),
    (KYVERNO, "request.object.spec.os.name == 'windows' ||", ""),
    (KYVERNO, "[kube-system, selvage, kyverno]", "[selvage, kyverno]"),
    (KYVERNO, "operations: [CREATE]", "operations: [DELETE]"),
    (KYVERNO, "request.object.spec.containers[].name || `[]`][], 'selvage-sidecar'", "`[]`][], 'selvage-sidecar'"),
    (KYVERNO, "request.object.spec.initContainers[].name || `[]`,", "`[]`,"),
    (KYVERNO, "[].name || `[]`, 'selvage-nccl-logs'", "[].name || `[]`, 'selvage-nccl'"),
    (KYVERNO, "restartPolicy: Always", "restartPolicy: Never"),
    (KYVERNO, "== `true` && 'none'", "== `true` && ':9950'"),
    (KYVERNO, "hostNetwork != `true`", "hostNetwork == `true`"),
    (KYVERNO, "runAsNonRoot: true", "runAsNonRoot: false"),
    (KYVERNO, "runAsUser > `0` &&", "runAsUser > `-1` &&"),
    (KYVERNO, "capabilities: {drop: [ALL]}", "capabilities: {drop: []}"),
    (KYVERNO, "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"),
    (KYVERNO, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"),
    (KYVERNO, "type: RuntimeDefault", "type: Unconfined"),
    (KYVERNO, "mountPath: /var/log/nccl, readOnly: true", "mountPath: /var/log/nccl"),
    (KYVERNO, "limits: {cpu: 50m, memory: 16Mi}", "limits: {memory: 16Mi}"),
    (KYVERNO, "sizeLimit: 1Gi", "medium: Memory"),
    (KYVERNO, "resources.claims ||", ""),
    (KYVERNO, "'nvidia.com/gpu'", "'nvidia.com/'"),
    (KYVERNO, "length(gpuContainers) == `0` ||", ""),
    (KYVERNO, "element.name != 'selvage-sidecar' &&", ""),
    (KYVERNO, "name != 'selvage-nccl-logs'] ||", "name == 'x'] ||"),
    (KYVERNO, "configMapRef && !prefix", "configMapRef && prefix"),
    (KYVERNO, "configMapRef && !prefix", "secretRef"),
    (KYVERNO, "`[]`, 'NCCL_DEBUG')", "`[]`, 'NCCL_DEBUGS')"),
    (KYVERNO, "`[]`, 'NCCL_DEBUG_FILE')", "`[]`, 'NCCL_DEBUG')"),
    (KYVERNO, "{name: NCCL_DEBUG, value: INFO}", "{name: NCCL_DEBUG, value: WARN}"),
    (KYVERNO, "> `1` && join", "> `2` && join"),
    (KYVERNO, "volumeMounts/-", "volumeMounts"),
    (KYVERNO, "env/-", "env"),
    (NATIVE, "policyName: selvage-nccl", "policyName: selvage-ncc"),
    (NATIVE, "values: [kube-system, selvage]", "values: [kube-system]"),
    (NATIVE, "resources: [pods]", "resources: [deployments]"),
    (NATIVE, "has(object.metadata.annotations) &&", ""),
    (NATIVE, "object.metadata.annotations['selvage.dev/nccl'] != ''", "true"),
    (NATIVE, "!(has(object.spec.os) && object.spec.os.name == 'windows') &&", ""),
    (NATIVE, "object.spec.containers.exists(c, c.name == 'selvage-sidecar') ?", "false ?"),
    (NATIVE, "object.spec.securityContext.runAsUser > 0 ?", "true ?"),
    (NATIVE, "has(object.spec.hostNetwork) && ", ""),
    (NATIVE, "i < size(object.spec.containers) &&\n", "i < 2 &&\n"),
    (NATIVE, "k.startsWith('nvidia.com/mig-') ||", ""),
    (NATIVE, "k == 'amd.com/gpu'", "false"),
    (NATIVE, "m.mountPath != '/var/log/nccl' || m.name == 'selvage-nccl-logs'", "true"),
    (NATIVE, "m.mountPath != '/var/log/nccl'))\n", "true))\n"),
    (NATIVE, "(has(e.prefix) && e.prefix != '')", "has(e.prefix)"),
    (NATIVE, "v.name != e.name", "true"),
    (NATIVE, "object.spec.containers[i].name + '.' : ''", "'' : ''"),
    (NATIVE, "'allowPrivilegeEscalation': dyn(false)", "'allowPrivilegeEscalation': dyn(true)"),
    (NATIVE, "'/spec/containers/' + string(i) + '/env'", "'/spec/containers/0/env'"),
    (NATIVE, "initContainers/0", "initContainers/-"),
    (NATIVE, "volumes/-", "volumes"),
    (NATIVE, "size(variables.volumes) == 0 ?", "false ?"),
    (NATIVE, "'imagePullPolicy': dyn('IfNotPresent')", "'imagePullPolicy': 'IfNotPresent'"),
    (NATIVE, "object.spec.containers[i].env : []) +\n", "[] : []) +\n"),
]


class Breakages(unittest.TestCase):
    def test_each_is_found(self):
        engine = policy.GoEngine(os.environ["CELGO"])
        self.addCleanup(engine.close)
        for file, text, instead in BREAKAGES:
            with self.subTest(file=file, text=text, instead=instead):
                before = (INJECTION / file).read_text()
                self.assertTrue(text in before, "the file has changed: bring this row up to date")
                found = render.objects(before.replace(text, instead))
                first = next(injection_cases.complaints(found, engine, ()), None)
                self.assertIsNotNone(first, "not found")
