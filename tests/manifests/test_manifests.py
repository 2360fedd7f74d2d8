"""What is shipped holds: overlays, chart, components, cleanup."""

import copy
import functools
import os
import pathlib
import re
import shutil
import tempfile
import unittest

import helm_python
from cloudcoil.models.prometheus_operator.v1 import PrometheusRule

import calls
import checks
import policy
import policy_cases
import render
from render import COMPONENTS, MANIFESTS, OVERLAYS, ROOT, of_kind

VERSIONS = ("1.30", "1.33", "1.37")


@functools.cache
def overlay(name: str) -> list:
    return render.kustomize(MANIFESTS / "overlays" / name)


def with_component(name: str, base: str = "base") -> list:
    """The base with one component, in a kustomization beside the manifests."""
    with tempfile.TemporaryDirectory(dir=MANIFESTS) as directory:
        text = (
            "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
            f"resources: [../{base}]\ncomponents: [../components/{name}]\n"
        )
        (pathlib.Path(directory) / "kustomization.yaml").write_text(text)
        return render.kustomize(directory)


class Overlays(unittest.TestCase):
    def hold(self, check):
        for name in OVERLAYS:
            with self.subTest(overlay=name):
                self.assertEqual(check(overlay(name)), [])

    def test_all_platforms_are_there(self):
        self.assertEqual(
            OVERLAYS,
            ["aks-ib", "bare-metal-ib", "bare-metal-roce", "eks-efa", "gke", "gke-tcpxo", "oke",
             "openshift"],
        )

    def test_schemas(self):
        for version in VERSIONS:
            self.hold(lambda found: checks.schema(found, version))

    def test_admission(self):
        self.hold(policy_cases.complaints)

    def test_admission_with_the_api_server_s_engine(self):
        engine = policy.GoEngine(os.environ["CELGO"])
        self.addCleanup(engine.close)
        self.hold(lambda found: policy_cases.complaints(found, engine))

    def test_admission_of_a_large_node_is_cheap_enough(self):
        node = copy.deepcopy(policy_cases.NODE)
        node["metadata"]["labels"].update({f"example.com/{n}": "x" * 63 for n in range(200)})
        node["metadata"]["annotations"].update({f"example.com/{n}": "x" * 500 for n in range(100)})
        node["spec"]["taints"] += [{"key": f"k{n}", "effect": "NoSchedule"} for n in range(50)]
        # The kubelet reports 50 images at most by default.
        node["status"]["images"] = [
            {"names": [f"example.com/image-{n}@sha256:{'0' * 64}"] * 3, "sizeBytes": n}
            for n in range(50)
        ]
        changed = copy.deepcopy(node)
        changed["metadata"]["labels"]["selvage.dev/fabric"] = "unready"
        engine = policy.GoEngine(os.environ["CELGO"])
        self.addCleanup(engine.close)
        found = overlay("bare-metal-ib")
        user, own = policy_cases.account(found), policy_cases.OWN
        request = policy.Request("", "nodes", own, node, changed, user, own)
        self.assertEqual(policy.denials(found, request, engine), [])

    def test_rights_are_the_calls_made(self):
        self.hold(checks.agent_rbac)

    def test_security_context(self):
        self.hold(checks.security)

    def test_operation(self):
        self.hold(checks.operation)

    def test_names_of_settings(self):
        self.hold(checks.names_of_settings)

    def test_openshift_constraint_fits_the_pod(self):
        found = overlay("openshift")
        pod = render.the(found, "DaemonSet")["spec"]["template"]["spec"]
        scc = render.the(found, "SecurityContextConstraints")
        context = pod["containers"][0]["securityContext"]
        self.assertEqual(scc["allowedCapabilities"], context["capabilities"]["add"])
        self.assertEqual(scc["requiredDropCapabilities"], context["capabilities"]["drop"])
        self.assertEqual(scc["runAsUser"], {"type": "MustRunAs", "uid": context["runAsUser"]})
        # What admission adds for the token is a projected volume.
        kinds = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
        self.assertEqual(set(scc["volumes"]), kinds | {"projected"})
        self.assertIsNone(scc["priority"])
        self.assertFalse(scc["users"] or scc["groups"])
        for name in ("allowPrivilegedContainer", "allowHostPID", "allowHostIPC"):
            self.assertIs(scc[name], False)

    def test_groups_of_the_budget(self):
        wanted = {
            "aks-ib": "kubernetes.azure.com/agentpool",
            "eks-efa": "eks.amazonaws.com/nodegroup",
            "gke": "cloud.google.com/gke-nodepool",
            "gke-tcpxo": "cloud.google.com/gke-nodepool",
            "oke": "oci.oraclecloud.com/rdma.network_block_id",
        }
        for name in OVERLAYS:
            found = overlay(name)
            (config,) = render.normalised(of_kind(found, "ConfigMap")).values()
            group = config["data"]["selvage.toml"]["cluster"]["budget_group_label"]
            self.assertEqual(group, wanted.get(name, ""))


class Base(unittest.TestCase):
    """Any cluster from 1.20 on takes the base; 1.25 is the oldest schema to be had."""

    def test_schemas(self):
        found = render.kustomize(MANIFESTS / "base")
        for version in ("1.25", *VERSIONS):
            self.assertEqual(checks.schema(found, version), [])
        self.assertFalse(checks.POLICY_KINDS & {each["kind"] for each in found})

    def test_only_groups_that_1_20_has(self):
        found = render.kustomize(MANIFESTS / "base")
        self.assertEqual(
            {each["apiVersion"] for each in found},
            {"v1", "apps/v1", "rbac.authorization.k8s.io/v1", "networking.k8s.io/v1"},
        )

    def test_components(self):
        added = {
            "admission-policy": {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
            "alerts": {"PrometheusRule", "Service"},
            "dashboards": set(),
            "dot1x": set(),
            "dry-run": set(),
            "lldp": set(),
            "monitoring": {"PodMonitor"},
            "monitoring-service": {"Service", "ServiceMonitor"},
            "no-pod-watch": set(),
            "selinux": set(),
            "suspects": set(),
        }
        self.assertEqual(COMPONENTS, sorted(added))
        base = {each["kind"] for each in render.kustomize(MANIFESTS / "base")}
        for name in COMPONENTS:
            with self.subTest(component=name):
                found = with_component(name)
                self.assertEqual({each["kind"] for each in found} - base, added[name])
                self.assertEqual(checks.schema(found, VERSIONS[-1]), [])
                given = {
                    "host_pid": name == "suspects", "dot1x": name == "dot1x", "lldp": name == "lldp",
                    "selinux": name == "selinux",
                }
                self.assertEqual(checks.security(found, **given), [])
                for check in (checks.operation, checks.names_of_settings):
                    self.assertEqual(check(found), [])
                rights = (
                    checks.agent_rbac_without_pods if name == "no-pod-watch" else checks.agent_rbac
                )
                self.assertEqual(rights(found), [])

    def test_alerts_are_what_the_operator_takes(self):
        (rule,) = of_kind(with_component("alerts"), "PrometheusRule")
        taken = PrometheusRule.model_validate(rule).model_dump(
            by_alias=True, exclude_none=True, mode="json"
        )
        # What its schema does not know, it drops: nothing may be missing.
        self.assertEqual(taken["spec"], rule["spec"])

    def test_dry_run(self):
        pod = render.the(with_component("dry-run"), "DaemonSet")["spec"]["template"]["spec"]
        variables = pod["containers"][0]["env"]
        self.assertIn({"name": "SELVAGE_DRY_RUN", "value": "true"}, variables)
        self.assertIn("SELVAGE_NODE_NAME", [each["name"] for each in variables])


    def test_suspects_on_openshift(self):
        found = with_component("suspects", "overlays/openshift")
        self.assertEqual(checks.security(found, host_pid=True), [])
        scc = render.the(found, "SecurityContextConstraints")
        self.assertIs(scc["allowHostPID"], True)
        self.assertEqual(
            render.differences(found, render.helm({
                "platform": "openshift", "createNamespace": True, "suspects": {"enabled": True},
            })),
            [],
        )

    def test_lldp_on_openshift(self):
        found = with_component("lldp", "overlays/openshift")
        self.assertEqual(checks.security(found, lldp=True), [])
        scc = render.the(found, "SecurityContextConstraints")
        self.assertEqual(scc["allowedCapabilities"], ["SYSLOG", "NET_RAW"])
        self.assertEqual(
            render.differences(found, render.helm({
                "platform": "openshift", "createNamespace": True, "lldp": {"enabled": True},
            })),
            [],
        )


class Cleanup(unittest.TestCase):
    found = render.kustomize(MANIFESTS / "cleanup")

    def test_schemas(self):
        for version in ("1.25", *VERSIONS):
            self.assertEqual(checks.schema(self.found, version), [])

    def test_rights_are_the_calls_made(self):
        self.assertEqual(checks.rbac(self.found, "selvage-cleanup", calls.CLEANUP), [])

    def test_it_needs_nothing_of_its_node(self):
        pod = render.the(self.found, "Job")["spec"]["template"]["spec"]
        self.assertNotIn("volumes", pod)
        self.assertNotIn("hostNetwork", pod)
        self.assertIs(pod["securityContext"]["runAsNonRoot"], True)
        (container,) = pod["containers"]
        self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
        self.assertEqual(pod["tolerations"], [{"operator": "Exists"}])

    def test_same_image_as_the_agent(self):
        job = render.the(self.found, "Job")["spec"]["template"]["spec"]["containers"][0]["image"]
        for name in OVERLAYS:
            pod = render.the(overlay(name), "DaemonSet")["spec"]["template"]["spec"]
            self.assertEqual(pod["containers"][0]["image"], job)


class Chart(unittest.TestCase):
    def test_same_objects_as_kustomize(self):
        for name in OVERLAYS:
            with self.subTest(platform=name):
                chart = render.helm({"platform": name, "createNamespace": True})
                self.assertEqual(render.differences(overlay(name), chart), [])

    def test_switches_are_the_components(self):
        values = {
            "alerts": {"alerts": {"enabled": True}},
            "dashboards": {"dashboards": {"enabled": True}},
            "dot1x": {"dot1x": {"enabled": True}},
            "dry-run": {"dryRun": True},
            "lldp": {"lldp": {"enabled": True}},
            "monitoring": {"podMonitor": {"enabled": True}},
            "monitoring-service": {"serviceMonitor": {"enabled": True}},
            "no-pod-watch": {"podWatch": {"enabled": False}},
            "selinux": {"seLinuxOptions": {"type": "spc_t"}},
            "suspects": {"suspects": {"enabled": True}},
        }
        self.assertEqual(sorted({*values, "admission-policy"}), COMPONENTS)
        for name, switch in values.items():
            with self.subTest(component=name):
                chart = render.helm(
                    {"createNamespace": True, "admissionPolicy": {"enabled": False}, **switch}
                )
                # The base's settings are no overlay's.
                component, chart = (
                    [
                        each for each in found
                        if not each["metadata"]["name"].startswith("selvage-settings")
                    ]
                    for found in (with_component(name), chart)
                )
                self.assertEqual(render.differences(component, chart), [])

    def test_policy_rules_and_dashboards_are_the_kustomization_s_files(self):
        files = MANIFESTS / "helm" / "selvage" / "files"
        pairs = {
            "admission-policy.yaml": MANIFESTS / "components/admission-policy/policy.yaml",
            "prometheusrule.yaml": ROOT / "alerts/prometheusrule.yaml",
        }
        for source in (ROOT / "dashboards").glob("*.json"):
            pairs[f"dashboards/{source.name}"] = source
        for name, source in pairs.items():
            self.assertEqual((files / name).read_text(), source.read_text(), f"cp {source} {files}")

    def test_another_namespace_and_prefix(self):
        found = render.helm(
            {"prefix": "fabric.example.com/", "alerts": {"enabled": True}}, namespace="gpu-system"
        )
        policy = of_kind(found, "ValidatingAdmissionPolicy")[0]["spec"]
        self.assertIn(
            "'system:serviceaccount:gpu-system:selvage'",
            policy["matchConditions"][0]["expression"],
        )
        expressions = " ".join(each["expression"] for each in policy["validations"])
        self.assertNotIn("selvage.dev/", expressions)
        self.assertIn("'fabric.example.com/'", expressions)
        for each in found:
            self.assertIn(each["metadata"].get("namespace"), (None, "default", "gpu-system"))
            for subject in each.get("subjects", []):
                self.assertEqual(subject["namespace"], "gpu-system")
        pod = render.the(found, "DaemonSet")["spec"]["template"]["spec"]
        self.assertIn(
            {"name": "SELVAGE_CLUSTER_PREFIX", "value": "fabric.example.com/"},
            pod["containers"][0]["env"],
        )
        self.assertEqual(checks.names_of_settings(found), [])

    def test_own_settings_and_nodes(self):
        terms = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["gpu"]}]}]
        found = render.helm(
            {"settings": '[cluster]\nmode = "labels"\n', "nodeSelectorTerms": terms}
        )
        config = render.the(found, "ConfigMap")["data"]["selvage.toml"]
        self.assertEqual(config.strip(), '[cluster]\nmode = "labels"')
        self.assertIn("- key: pool", str(render.yaml.safe_dump(render.the(found, "DaemonSet"))))
        changed = render.helm({"settings": "", "nodeSelectorTerms": terms})
        sums = {
            render.the(each, "DaemonSet")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
            for each in (found, changed)
        }
        self.assertEqual(len(sums), 2, "a changed setting rolls the pods")

    def test_values_are_checked(self):
        for values in (
            {"platform": "cloud9"},
            {"prefix": "selvage.dev"},
            {"settings": {"cluster": {"prefix": "fabric.example.com/"}}},
            {"dryRun": "yes"},
            {"seLinuxOptions": "spc_t"},
        ):
            with self.subTest(values=values), self.assertRaises(helm_python.HelmError):
                render.helm(values)

    def test_lint(self):
        findings = helm_python.lint(str(MANIFESTS / "helm" / "selvage"))
        # Severity 1 is advice, such as an icon.
        self.assertEqual([each for each in findings["messages"] if each["severity"] > 1], [])


class Pages(unittest.TestCase):
    def test_kustomization_of_one_s_own(self):
        """The one in docs/install.md, with settings of one's own, as a reader would have it."""
        page = (ROOT / "docs" / "install.md").read_text()
        blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
        (text,) = [block for block in blocks if "kind: Kustomization" in block]
        (merged,) = [block for block in blocks if "configMapGenerator" in block]
        (listen,) = [block for block in blocks if "SELVAGE_LISTEN" in block]
        with tempfile.TemporaryDirectory() as directory:
            home = pathlib.Path(directory)
            shutil.copytree(MANIFESTS, home / "selvage" / "manifests")
            (home / "deploy").mkdir()
            (home / "deploy" / "kustomization.yaml").write_text(text + merged + listen)
            (home / "deploy" / "selvage.toml").write_text('[cluster]\nmode = "labels"\n')
            found = render.kustomize(home / "deploy")
        pod = render.the(found, "DaemonSet")["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        self.assertEqual(container["image"], "registry.example.com/selvage:0.1.0")
        self.assertIn("SELVAGE_DRY_RUN", [each["name"] for each in container["env"]])
        # Each node's own address: known before it is used, and the probes are not on loopback.
        self.assertEqual([each["name"] for each in container["env"]][-2:], ["HOST_IP", "SELVAGE_LISTEN"])
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertNotIn("host", container[probe]["httpGet"])
        config = render.the(found, "ConfigMap")
        self.assertEqual(config["data"], {"selvage.toml": '[cluster]\nmode = "labels"\n'})
        self.assertEqual(pod["volumes"][0]["configMap"]["name"], config["metadata"]["name"])

    def test_paths_named_in_pages_are_there(self):
        pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"), ROOT / "README.md"]
        named = set()
        for page in pages:
            named.update(re.findall(r"\b(?:manifests|examples)/[a-z0-9/._-]*[a-z0-9]", page.read_text()))
        self.assertIn("manifests/cleanup", named)
        for path in sorted(named):
            self.assertTrue((ROOT / path).exists() or (ROOT / "tests" / path).exists(), path)

    def test_links_lead_somewhere(self):
        pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/platforms").glob("*.md"),
                 *(ROOT / "examples").rglob("*.md"), *ROOT.glob("*.md")]
        for page in pages:
            for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
                self.assertTrue((page.parent / link).exists(), f"{page.relative_to(ROOT)}: {link}")
