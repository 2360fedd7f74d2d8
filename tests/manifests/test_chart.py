"""What operators ask of the chart: their values do what they say, releases live side by side, examples render."""

import functools
import importlib.util
import re
import tomllib
import unittest

import helm_python
from cloudcoil.models.prometheus_operator.v1 import PodMonitor, PrometheusRule, ServiceMonitor

import checks
import render
import settings
from render import MANIFESTS, OVERLAYS, ROOT, helm, of_kind, the
from test_manifests import VERSIONS

EXAMPLES = sorted((MANIFESTS / "helm" / "examples").glob("*.yaml"))
OPERATOR = {"PodMonitor": PodMonitor, "ServiceMonitor": ServiceMonitor, "PrometheusRule": PrometheusRule}
# What examples bring of their own; no schema of theirs is to be had here.
FOREIGN = {"Certificate", "PodMonitoring"}
ENABLED = {"enabled": True}


def pod(values: dict, **more) -> dict:
    return the(helm(values, **more), "DaemonSet")["spec"]["template"]["spec"]


def toml(values: dict) -> dict:
    config = [each for each in of_kind(helm(values), "ConfigMap") if "selvage.toml" in each["data"]]
    return tomllib.loads(config[0]["data"]["selvage.toml"])


def shape(found: list) -> list:
    """Against the schemas of the oldest and the newest Kubernetes and of prometheus-operator, strictly."""
    lines = []
    for each in found:
        if each["kind"] in OPERATOR:
            taken = OPERATOR[each["kind"]].model_validate(each).model_dump(
                by_alias=True, exclude_none=True, mode="json")
            # What its schema does not know, it drops; defaults it fills in.
            lines += [line for line in render.differing(each["kind"], taken["spec"], each["spec"])
                      if not line.endswith(" != None")]
    known = [each for each in found if each["kind"] not in FOREIGN]
    return lines + [line for version in (VERSIONS[0], VERSIONS[-1]) for line in checks.schema(known, version)]


class Placement(unittest.TestCase):
    def test_image(self):
        digest = f"sha256:{'0' * 64}"
        for values, wanted in (
            ({}, "selvage:0.1.0"),
            ({"image": {"registry": "r.example.com/", "tag": "1"}}, "r.example.com/selvage:1"),
            ({"image": {"registry": "r.example.com"}, "global": {"imageRegistry": "mirror"}},
             "mirror/selvage:0.1.0"),
            ({"image": {"digest": digest}}, f"selvage:0.1.0@{digest}"),
        ):
            self.assertEqual(pod(values)["containers"][0]["image"], wanted)
        values = {"global": {"imagePullSecrets": ["all"]}, "image": {"pullSecrets": ["one", {"name": "two"}]}}
        self.assertEqual(pod(values)["imagePullSecrets"], [{"name": "all"}, {"name": "one"}, {"name": "two"}])

    def test_affinity_is_merged_with_the_platform_s(self):
        anti = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
        found = pod({"platform": "gke", "affinity": anti})["affinity"]
        self.assertEqual(found, {**pod({"platform": "gke"})["affinity"], **anti})
        terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}
        own = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        self.assertEqual(pod({"affinity": own})["affinity"], own)

    def test_what_goes_into_the_pod_as_it_is(self):
        values = {
            "nodeSelector": {"pool": "a"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "priorityClassName": "fabric",
        }
        found = pod(values)
        for name, value in values.items():
            self.assertEqual(found[name], {"kubernetes.io/os": "linux", **value} if name == "nodeSelector" else value)
        self.assertNotIn("tolerations", pod({"tolerations": []}))
        self.assertEqual(of_kind(helm({"platform": "gke", "priorityClassName": "fabric"}), "ResourceQuota"), [])

    def test_extras(self):
        values = {
            "extraArgs": ["--log-level", "debug"],
            "extraEnv": [{"name": "A", "value": "b"}],
            "extraVolumes": [{"name": "spool", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "spool", "mountPath": "/spool"}],
            "extraContainers": [{"name": "more", "image": "more:1"}],
            "extraObjects": [
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "{{ .Release.Name }}-one"}},
                "apiVersion: v1\nkind: Secret\nmetadata:\n  name: two\n",
            ],
        }
        plain, found = pod({}), helm(values)
        extra = the(found, "DaemonSet")["spec"]["template"]["spec"]
        self.assertEqual(extra["volumes"], plain["volumes"] + values["extraVolumes"])
        self.assertEqual(extra["containers"][1:], values["extraContainers"])
        for name, value in (("args", "extraArgs"), ("env", "extraEnv"), ("volumeMounts", "extraVolumeMounts")):
            self.assertEqual(extra["containers"][0][name], plain["containers"][0][name] + values[value])
        self.assertEqual([each["metadata"]["name"] for each in of_kind(found, "Secret")], ["selvage-one", "two"])
        self.assertIn("emptyDir", the(helm({**values, "platform": "openshift"}), "SecurityContextConstraints")["volumes"])

    def test_host_paths_are_seen_where_the_agent_looks(self):
        values = {"hostPaths": {"kubelet": "/k0s/kubelet/", "podLogs": "/data/pods", "state": "/data/selvage"}}
        plain, moved = pod({}), pod(values)
        self.assertEqual(moved["containers"][0]["volumeMounts"], plain["containers"][0]["volumeMounts"])
        paths = {each["name"]: each["hostPath"]["path"] for each in moved["volumes"] if "hostPath" in each}
        self.assertEqual((paths["device-plugins"], paths["pod-logs"], paths["state"]),
                         ("/k0s/kubelet/device-plugins", "/data/pods", "/data/selvage"))

    def test_port_is_the_same_everywhere(self):
        found = helm({"port": 9950, "serviceMonitor": ENABLED})
        container = the(found, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(container["ports"][0]["containerPort"], 9950)
        self.assertIn({"name": "SELVAGE_LISTEN", "value": ":9950"}, container["env"])
        self.assertEqual(the(found, "Service")["spec"]["ports"][0]["port"], 9950)
        self.assertEqual(the(found, "NetworkPolicy")["spec"]["ingress"][0]["ports"][0]["port"], 9950)
        (test,) = helm({"port": 9950}, hooks=True)
        self.assertEqual(test["spec"]["initContainers"][0]["startupProbe"]["httpGet"]["port"], 9950)

    def probe_hosts(self, values: dict) -> set:
        container = pod(values)["containers"][0]
        (test,) = helm(values, hooks=True)
        probes = [container[name] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
        return {each["httpGet"].get("host") for each in [*probes, test["spec"]["initContainers"][0]["startupProbe"]]}

    def test_probes_ask_where_the_agent_listens(self):
        host_ip = [{"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
                   {"name": "SELVAGE_LISTEN", "value": "$(HOST_IP):9949"}]
        text = '[cluster]\nmode = "labels"\n\n[agent]\n  listen = "127.0.0.1:9949" # loopback\n'
        for values, host in (
            ({}, "127.0.0.1"),
            ({"port": 9950}, "127.0.0.1"),
            ({"settings": {"agent": {"listen": "127.0.0.1:9949"}}}, "127.0.0.1"),
            ({"settings": {"agent": {"listen": "localhost:9949"}}}, "127.0.0.1"),
            ({"settings": {"agent": {"listen": "127.0.0.2:9949"}}}, "127.0.0.2"),
            ({"settings": {"agent": {"listen": "[::1]:9949"}}}, "::1"),
            ({"settings": {"agent": {"listen": "0.0.0.0:9950"}}, "port": 9950}, "127.0.0.1"),
            ({"settings": text}, "127.0.0.1"),
            # By the node's address, which is the kubelet's own choice for pods on the host's network.
            ({"extraEnv": host_ip}, None),
            ({"extraEnv": host_ip, "settings": {"agent": {"listen": "127.0.0.1:9949"}}}, None),
        ):
            with self.subTest(values=values):
                self.assertEqual(self.probe_hosts(values), {host})
        variables = pod({"port": 9950, "settings": {"agent": {"listen": "127.0.0.1:9950"}}})["containers"][0]["env"]
        self.assertNotIn("SELVAGE_LISTEN", [each["name"] for each in variables])

    def test_an_address_that_probes_cannot_ask_is_refused(self):
        for values, said in (
            ({"settings": {"agent": {"listen": "10.0.0.7:9949"}}}, "no two nodes have the address"),
            ({"settings": {"agent": {"listen": ":9950"}}}, "say the same in both"),
            ({"settings": {"agent": {"listen": "127.0.0.1:9949"}}, "port": 9950}, "say the same in both"),
            ({"settings": "[agent]\nlisten = '10.0.0.7:9949'\n"}, "no two nodes have the address"),
            ({"extraEnv": [{"name": "SELVAGE_LISTEN", "value": ":9951"}]}, "say the same in both"),
        ):
            with self.subTest(values=values), self.assertRaisesRegex(helm_python.HelmError, said):
                helm(values)

    def test_selinux(self):
        for values, wanted in (
            ({}, None),
            ({"platform": "openshift"}, {"type": "spc_t"}),
            ({"seLinuxOptions": {"type": "spc_t"}}, {"type": "spc_t"}),
            ({"platform": "openshift", "seLinuxOptions": {"type": "selvage.process"}}, {"type": "selvage.process"}),
        ):
            self.assertEqual(pod(values)["securityContext"].get("seLinuxOptions"), wanted)

    def test_update_strategy(self):
        def strategy(values):
            return the(helm({"updateStrategy": values}), "DaemonSet")["spec"]["updateStrategy"]
        self.assertEqual(strategy({"type": "OnDelete"}), {"type": "OnDelete"})
        self.assertEqual(strategy({"rollingUpdate": {"maxUnavailable": 3}}),
                         {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}})

    def test_labels(self):
        found = helm({"commonLabels": {"team": "hpc"}, "podLabels": {"one": "two"}, "createNamespace": True})
        for each in found:
            self.assertEqual(each["metadata"]["labels"]["team"], "hpc")
        template = the(found, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual({"team": "hpc", "one": "two"}.items(), template.items())
        # A changed label must not change the selector: that is refused.
        self.assertNotIn("team", the(found, "DaemonSet")["spec"]["selector"]["matchLabels"])

    def test_standard_labels_on_every_object(self):
        on = {name: ENABLED for name in ("alerts", "dashboards", "podMonitor", "serviceMonitor")}
        for name in OVERLAYS:
            objects = helm({"platform": name, "createNamespace": True, **on})
            for each in [*objects, *helm({"platform": name}, hooks=True)]:
                labels = each["metadata"].get("labels", {})
                for label in ("name", "instance", "version", "managed-by"):
                    self.assertIn(f"app.kubernetes.io/{label}", labels, render.key(each))
                self.assertEqual(labels["helm.sh/chart"], "selvage-0.1.0")

    def test_account_of_one_s_own(self):
        found = helm({"serviceAccount": {"create": False, "name": "ours"}, "rbac": {"create": False}})
        kinds = {each["kind"] for each in found}
        self.assertFalse(kinds & {"ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"})
        self.assertEqual(the(found, "DaemonSet")["spec"]["template"]["spec"]["serviceAccountName"], "ours")
        policy = of_kind(found, "ValidatingAdmissionPolicy")[0]["spec"]["matchConditions"][0]["expression"]
        self.assertIn("'system:serviceaccount:selvage:ours'", policy)
        found = helm({"serviceAccount": {"name": "ours", "annotations": {"a": "b"}}})
        self.assertEqual(the(found, "ServiceAccount")["metadata"]["annotations"], {"a": "b"})
        self.assertTrue(checks.rights(found, "ours", "selvage"))


class Settings(unittest.TestCase):
    def test_a_map_is_merged(self):
        found = toml({"platform": "gke", "settings": {
            "cluster": {"hold": "2m", "dry_run": True, "budget_group_label": ""},
            "policy": {"link_flap": {"degraded": {"more_than": 4, "within": "10m"}}, "link_rate": {"below": 0.5}},
            "rails": {"exclude": ["mlx5_bond_*", 'a"b']},
        }})
        self.assertEqual(found, {
            "agent": {"log_format": "json"},
            "cluster": {"mode": "all", "dry_run": True, "budget_max": "10%", "budget_group_label": "", "hold": "2m"},
            "policy": {"link_flap": {"degraded": {"more_than": 4, "within": "10m"}}, "link_rate": {"below": 0.5}},
            "rails": {"exclude": ["mlx5_bond_*", 'a"b']},
        })
        # An integer of YAML is one of TOML.
        self.assertIs(type(found["policy"]["link_flap"]["degraded"]["more_than"]), int)

    def test_the_ledger_s_rights_are_where_the_ledger_is(self):
        found = helm({"settings": {"cluster": {"namespace": "fabric"}}})
        self.assertIn(("create", "coordination.k8s.io", "leases", "fabric", ()),
                      checks.rights(found, "selvage", "selvage"))


class Tls(unittest.TestCase):
    values = {"tls": {"secretName": "cert", "clientCaSecretName": "ca", "tokenSecretName": "token"},
              "podMonitor": ENABLED, "serviceMonitor": ENABLED}

    def test_probes_follow(self):
        for values, scheme in (({}, None), (self.values, "HTTPS")):
            container = pod(values)["containers"][0]
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                self.assertEqual(container[probe]["httpGet"].get("scheme"), scheme)
            (test,) = helm(values, hooks=True)
            self.assertEqual(test["spec"]["initContainers"][0]["startupProbe"]["httpGet"].get("scheme"), scheme)

    def test_each_file_is_one_that_is_mounted(self):
        template = pod(self.values)
        container = template["containers"][0]
        files = {each["name"]: each["value"] for each in container["env"]
                 if each["name"].startswith("SELVAGE_SERVE_")}
        self.assertEqual(len(files), 4)
        self.assertLessEqual(files.keys(), settings.variables())
        mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
        volumes = {each["name"]: each for each in template["volumes"]}
        secrets = {file: volumes[mounts[file.rpartition("/")[0]]]["secret"]["secretName"] for file in files.values()}
        self.assertEqual(sorted(secrets.values()), ["ca", "cert", "cert", "token"])
        self.assertIn("secret", the(helm({**self.values, "platform": "openshift"}),
                                    "SecurityContextConstraints")["volumes"])

    def test_monitors_follow(self):
        found = helm(self.values)
        for kind, endpoints in (("PodMonitor", "podMetricsEndpoints"), ("ServiceMonitor", "endpoints")):
            (endpoint,) = the(found, kind)["spec"][endpoints]
            self.assertEqual(endpoint["scheme"], "https")
            self.assertEqual(endpoint["tlsConfig"]["serverName"], "selvage.selvage.svc")
            self.assertEqual(endpoint["tlsConfig"]["ca"], {"secret": {"name": "cert", "key": "ca.crt"}})
            self.assertEqual(endpoint["authorization"], {"credentials": {"name": "token", "key": "token"}})


class Monitoring(unittest.TestCase):
    def test_kube_prometheus_stack_by_one_value(self):
        """With its defaults: monitors and rules by the label `release`, dashboards by grafana_dashboard=1."""
        found = helm({"kubePrometheusStack": "monitoring"})
        for kind in ("PodMonitor", "PrometheusRule"):
            self.assertEqual(the(found, kind)["metadata"]["labels"]["release"], "monitoring")
        boards = [each for each in of_kind(found, "ConfigMap") if "grafana_dashboard" in each["metadata"]["labels"]]
        self.assertEqual(len(boards), 4)
        # Not twice.
        found = helm({"kubePrometheusStack": "monitoring", "serviceMonitor": ENABLED})
        self.assertEqual(of_kind(found, "PodMonitor"), [])
        self.assertEqual(the(found, "ServiceMonitor")["metadata"]["labels"]["release"], "monitoring")

    def test_values_of_monitors(self):
        own = {
            "enabled": True, "labels": {"a": "b"}, "annotations": {"c": "d"}, "interval": "1m", "scrapeTimeout": "20s",
            "scheme": "http", "relabelings": [{"targetLabel": "cluster", "replacement": "one"}],
            "metricRelabelings": [{"action": "labeldrop", "regex": "firmware"}],
        }
        found = helm({"podMonitor": own, "serviceMonitor": own})
        self.assertEqual(shape(found), [])
        for kind, endpoints in (("PodMonitor", "podMetricsEndpoints"), ("ServiceMonitor", "endpoints")):
            monitor = the(found, kind)
            (endpoint,) = monitor["spec"][endpoints]
            self.assertEqual(monitor["metadata"]["labels"]["a"], "b")
            self.assertEqual(monitor["metadata"]["annotations"], {"c": "d"})
            for name in ("interval", "scrapeTimeout", "scheme", "metricRelabelings"):
                self.assertEqual(endpoint[name], own[name])
            self.assertEqual(endpoint["relabelings"][-1:], own["relabelings"])
            self.assertEqual(len(endpoint["relabelings"]), 4)

    def rules(self, values: dict) -> list:
        rule = the(helm({"alerts": {"enabled": True, **values}}), "PrometheusRule")
        return [each for group in rule["spec"]["groups"] for each in group["rules"]]

    def test_alerts(self):
        before = self.rules({})
        after = self.rules({"disabled": {"SelvageNodeNotice": True, "SelvageAgentDown": False},
                            "severities": {"SelvageNodeDegraded": "page"},
                            "runbookBaseUrl": "https://wiki.example.com/books/"})
        self.assertEqual([each for each in before if each.get("alert") != "SelvageNodeNotice"][0], after[0])
        gone = [each.get("alert") for each in before]
        for each in after:
            gone.remove(each.get("alert"))
        self.assertEqual(set(gone), {"SelvageNodeNotice"})
        for each in after:
            if "alert" in each:
                self.assertRegex(each["annotations"]["runbook_url"],
                                 r"^https://wiki\.example\.com/books/(Selvage\w+|{{ \$labels\.reason }})$")
        for each in before:
            if "alert" in each:
                self.assertTrue(each["annotations"]["runbook_url"].startswith("http://selvage-runbooks.selvage.svc/runbooks/"))
        (severity,) = {each["labels"]["severity"] for each in after if each.get("alert") == "SelvageNodeDegraded"}
        self.assertEqual(severity, "page")
        self.assertNotIn("page", {each["labels"]["severity"] for each in before if "alert" in each})

    def commands(self, values: dict, **more) -> str:
        rule = the(helm({"alerts": ENABLED, **values}, **more), "PrometheusRule")
        return "\n".join(each["annotations"]["command"] for group in rule["spec"]["groups"] for each in group["rules"]
                         if "alert" in each)

    def test_first_commands_are_for_this_release(self):
        plain = self.commands({})
        for text in ("/nodes/{{ $labels.instance }}:9949/proxy", "-connect {{ $labels.instance }}:9949 ",
                     "daemonset/selvage;", "-l selvage.dev/fabric=unready", "kubectl selvage -o wide"):
            self.assertIn(text, plain)
        own = self.commands({"port": 9950, "prefix": "fabric.example.com/", "tls": {"secretName": "cert"}},
                            release="arm64", namespace="gpu-system")
        for text in ("/nodes/https:{{ $labels.instance }}:9950/proxy", "-connect {{ $labels.instance }}:9950 ",
                     "daemonset/arm64-selvage;", "-l fabric.example.com/fabric=unready",
                     "kubectl selvage --prefix fabric.example.com/ -o wide"):
            self.assertIn(text, own)
        for text in ("9949", "selvage.dev/", "daemonset/selvage", "-n selvage "):
            self.assertNotIn(text, own)

    def test_labels_of_rules_and_dashboards(self):
        found = helm({
            "alerts": {"enabled": True, "labels": {"role": "alerts"}, "annotations": {"a": "b"}},
            "dashboards": {"enabled": True, "labels": {"grafana_dashboard": None, "board": "yes"},
                           "annotations": {"grafana_folder": "Fabric"}},
        })
        self.assertEqual(the(found, "PrometheusRule")["metadata"]["labels"]["role"], "alerts")
        self.assertEqual(the(found, "PrometheusRule")["metadata"]["annotations"], {"a": "b"})
        boards = [each["metadata"] for each in of_kind(found, "ConfigMap") if "dashboard" in each["metadata"]["name"]]
        for each in boards:
            self.assertEqual(each["labels"]["board"], "yes")
            self.assertNotIn("grafana_dashboard", each["labels"])
            self.assertEqual(each["annotations"], {"grafana_folder": "Fabric"})


class Releases(unittest.TestCase):
    on = {"alerts": ENABLED, "dashboards": ENABLED, "podMonitor": ENABLED, "serviceMonitor": ENABLED}

    def test_side_by_side(self):
        for platform in OVERLAYS:
            one, two, three = (helm({"platform": platform, **self.on}, release=release)
                               for release in ("selvage", "selvage-canary", "arm64"))
            names = [render.key(each) for each in [*one, *two, *three]]
            self.assertEqual(len(names), len(set(names)), platform)
            for found in (one, two, three):
                self.finds_its_own(found, [one, two, three])

    def finds_its_own(self, found: list, releases: list):
        """Selectors take the pods of their own release, and no others."""
        templates = [the(each, "DaemonSet")["spec"]["template"]["metadata"]["labels"] for each in releases]
        selectors = [the(found, "DaemonSet")["spec"]["selector"]["matchLabels"],
                     the(found, "PodMonitor")["spec"]["selector"]["matchLabels"],
                     the(found, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
                     *(each["spec"]["selector"] for each in of_kind(found, "Service"))]
        for selector in selectors:
            own = [labels for labels in templates if selector.items() <= labels.items()]
            self.assertEqual(own, [the(found, "DaemonSet")["spec"]["template"]["metadata"]["labels"]])
        wanted = the(found, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
        def scraped(release):
            return [each["metadata"] for each in of_kind(release, "Service")
                    if each["spec"]["ports"][0]["name"] == "metrics"]

        services = [each for release in releases for each in scraped(release)]
        self.assertEqual([each["name"] for each in services if wanted.items() <= each["labels"].items()],
                         [each["name"] for each in scraped(found)])

    def test_each_is_whole(self):
        """What refers to a name finds it, and the policy binds the release's own account."""
        found = helm({"platform": "openshift", **self.on}, release="arm64")
        self.assertEqual(shape(found), [])
        names = {(each["kind"], each["metadata"]["name"]) for each in found}
        for each in of_kind(found, "RoleBinding") + of_kind(found, "ClusterRoleBinding"):
            self.assertIn((each["roleRef"]["kind"], each["roleRef"]["name"]), names)
            self.assertIn(("ServiceAccount", each["subjects"][0]["name"]), names)
        for each in of_kind(found, "ValidatingAdmissionPolicyBinding"):
            self.assertIn(("ValidatingAdmissionPolicy", each["spec"]["policyName"]), names)
        for each in of_kind(found, "ValidatingAdmissionPolicy"):
            self.assertIn("'system:serviceaccount:selvage:arm64-selvage'",
                          each["spec"]["matchConditions"][0]["expression"])
        pods = the(found, "DaemonSet")["spec"]["template"]
        self.assertIn(("ConfigMap", pods["spec"]["volumes"][0]["configMap"]["name"]), names)
        scc = pods["metadata"]["annotations"]["openshift.io/required-scc"]
        self.assertIn(("SecurityContextConstraints", scc), names)
        self.assertIn(("use", "security.openshift.io", "securitycontextconstraints", "selvage", (scc,)),
                      checks.rights(found, "arm64-selvage", "selvage"))

    def test_the_job_is_found_by_alerts_under_any_name(self):
        """By `selvage` in it: NAMESPACE/NAME of the monitor, or its jobLabel."""
        for name, label in (("", None), ("fabric", "app.kubernetes.io/name")):
            found = helm({"fullnameOverride": name, **self.on}, namespace="gpu-system")
            for kind in ("PodMonitor", "ServiceMonitor"):
                self.assertEqual(the(found, kind)["spec"].get("jobLabel"), label)


class Notes(unittest.TestCase):
    def notes(self, values: dict) -> list:
        return re.findall(r"WARNING: (.*)", render.templates(values)["selvage/templates/NOTES.txt"])

    def test_misspelt_values_are_named(self):
        self.assertEqual(self.notes({}), [])
        self.assertEqual(self.notes({"settings": {"cluster": {"hold": "1m"}}, "podLabels": {"a": "b"}}), [])
        self.assertEqual(
            self.notes({"platfrom": "gke", "image": {"tga": "1"}, "alerts": {"disabled": {"SelvageNone": True}}}),
            ["the chart knows no value image.tga.", "the chart knows no value platfrom.",
             "the chart knows no alert SelvageNone."])


class Generated(unittest.TestCase):
    def test_readme_and_schema(self):
        spec = importlib.util.spec_from_file_location("generate", MANIFESTS / "helm" / "generate.py")
        generate = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(generate)
        for path, text in generate.made().items():
            self.assertEqual(path.read_text(), text, "run manifests/helm/generate.py")


@functools.cache
def example(path) -> tuple:
    """Values and objects."""
    values = render.yaml.safe_load(path.read_text())
    return values, helm(values)


class Examples(unittest.TestCase):
    def test_there_are_ten(self):
        self.assertEqual(len(EXAMPLES), 10)
        text = (ROOT / "docs" / "install.md").read_text()
        for path in EXAMPLES:
            self.assertTrue(f"helm/examples/{path.name}" in text, path.name)

    def test_each_is_valid(self):
        for path in EXAMPLES:
            with self.subTest(path.name):
                values, found = example(path)
                self.assertEqual(shape([*found, *helm(values, hooks=True)]), [])
                unknown = [line for line in checks.names_of_settings(found)
                           if line.startswith("setting") or "SELVAGE" in line]
                self.assertEqual(unknown, [])
                self.assertEqual(Notes().notes(values), [])

    def test_each_can_be_installed(self):
        """Helm keeps the release in its namespace, which the chart cannot make before."""
        for path in EXAMPLES:
            values, found = example(path)
            self.assertEqual(of_kind(found, "Namespace"), [], path.name)
            if values.get("platform") == "openshift":
                for command in ("pod-security.kubernetes.io/enforce=privileged", "openshift.io/node-selector="):
                    self.assertIn(command, path.read_text())

    def test_each_value_has_its_effect(self):
        """Without it the objects are others."""
        for path in EXAMPLES:
            values, found = example(path)
            for name in values:
                with self.subTest(path.name, value=name):
                    fewer = {each: value for each, value in values.items() if each != name}
                    self.assertFalse(helm(fewer) == found, "it changes nothing")


if __name__ == "__main__":
    unittest.main()
