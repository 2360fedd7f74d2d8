"""The checks can fail: each breakage of the manifests is found by the check that is meant for it."""

import copy
import pathlib
import shutil
import tempfile
import unittest
import unittest.mock

import checks
import policy_cases
import render
from render import MANIFESTS, OVERLAYS

DAEMONSET = "base/daemonset.yaml"
RBAC = "base/rbac.yaml"
POLICY = "components/admission-policy/policy.yaml"


def schema(found):
    return checks.schema(found, "1.33")


# File, text, what stands in its place, the check that must complain.
BREAKAGES = [
    (DAEMONSET, "drop: [ALL]", "drop: []", checks.security),
    (DAEMONSET, "add: [SYSLOG]", "add: [SYSLOG, NET_ADMIN]", checks.security),
    (DAEMONSET, "privileged: false", "privileged: true", checks.security),
    (DAEMONSET, "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", checks.security),
    (DAEMONSET, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", checks.security),
    (DAEMONSET, "type: RuntimeDefault", "type: Unconfined", checks.security),
    (DAEMONSET, "mountPath: /host/sys, readOnly: true", "mountPath: /host/sys", checks.security),
    (DAEMONSET, "path: /dev,", "path: /,", checks.security),
    (DAEMONSET, "hostNetwork: true", "hostNetwork: true\n      hostPID: true", checks.security),
    (DAEMONSET, "path: /healthz, port: metrics}\n            periodSeconds: 15",
     "path: /readyz, port: metrics}\n            periodSeconds: 15", checks.security),
    (DAEMONSET, "host: 127.0.0.1, path: /readyz", "path: /readyz", checks.security),
    (DAEMONSET, "type: RuntimeDefault", "type: RuntimeDefault\n        seLinuxOptions: {type: spc_t}", checks.security),
    (RBAC, "automountServiceAccountToken: false", "automountServiceAccountToken: true", checks.security),
    (DAEMONSET, "maxUnavailable: 51%", "maxUnavailable: 1", checks.operation),
    (DAEMONSET, "- operator: Exists", "- {key: nvidia.com/gpu, operator: Exists}", checks.operation),
    (DAEMONSET, "priorityClassName: system-node-critical\n", "", checks.operation),
    ("overlays/gke/resourcequota.yaml", "system-node-critical", "system-cluster-critical",
     checks.operation),
    ("base/networkpolicy.yaml", "component: agent", "component: cleanup", checks.operation),
    (DAEMONSET, "SELVAGE_NODE_NAME", "SELVAGE_NODENAME", checks.names_of_settings),
    ("overlays/gke/selvage.toml", "budget_max", "budget_maximum", checks.names_of_settings),
    (DAEMONSET, "enableServiceLinks", "enableServiceLink", schema),
    (POLICY, "failurePolicy: Fail", "failPolicy: Fail", schema),
    (RBAC, "verbs: [get, list, watch, patch]", "verbs: [get, list, watch, patch, update]",
     checks.agent_rbac),
    (RBAC, "verbs: [get, create, update]", "verbs: [get, update]", checks.agent_rbac),
    (RBAC, "resources: [nodes/status]", "resources: [nodes/status, nodes/proxy]", checks.agent_rbac),
    (RBAC, "verbs: [list, watch]", "verbs: [get, list, watch]", checks.agent_rbac),
    (RBAC, "resources: [pods]", "resources: [pods, secrets]", checks.agent_rbac),
    (RBAC, "resources: [events]\n    verbs: [create, patch]", "resources: [events]\n    verbs: [create, patch, delete]",
     checks.agent_rbac),
    (DAEMONSET, "mountPath: /host/var/log/pods, readOnly: true", "mountPath: /host/var/log/pods",
     checks.security),
    (DAEMONSET, "path: /var/log/pods, type: DirectoryOrCreate", "path: /var/log, type: DirectoryOrCreate",
     checks.security),
    (DAEMONSET, "path: /var/log/pods, type: DirectoryOrCreate", "path: /var/log/pods, type: Directory",
     checks.security),
    (POLICY, "object.involvedObject.namespace == request.namespace", "true", policy_cases.complaints),
    (POLICY, "object.source.component == 'selvage' &&", "", policy_cases.complaints),
    (POLICY, "&& oldObject.source == object.source", "", policy_cases.complaints),
    (RBAC, "kind: ClusterRole\nmetadata:\n  name: selvage-events",
     "kind: ClusterRole\nmetadata:\n  name: selvage-event", None),
    (POLICY, "resources: [nodes, nodes/status]", "resources: [nodes]", policy_cases.complaints),
    (POLICY, "'system:serviceaccount:selvage:selvage'", "'system:serviceaccount:selvage:agent'",
     policy_cases.complaints),
    (POLICY, "validationActions: [Deny]", "validationActions: [Audit]", policy_cases.complaints),
    (POLICY, "operations: [CREATE, UPDATE]\n        resources: [leases]",
     "operations: [UPDATE]\n        resources: [leases]", policy_cases.complaints),
    (POLICY, "policyName: selvage-nodes", "policyName: selvage-node", policy_cases.complaints),
    (POLICY, "startsWith('selvage.dev/')", "startsWith('selvage.dev')", policy_cases.complaints),
    (POLICY, "t in variables.oldTaints", "true", policy_cases.complaints),
    (POLICY, "t in variables.oldTaints", "t.key in variables.oldTaints.map(o, o.key)", policy_cases.complaints),
    (POLICY, "/selvage-agent-not-ready'", "/agent-not-ready'", policy_cases.complaints),
    (POLICY, "has(object.spec.taints) ? object.spec.taints : []", "object.spec.taints",
     policy_cases.complaints),
]
# File of the chart, text, what stands in its place, the test of the chart that must fail.
CHART_BREAKAGES = [
    ("_helpers.tpl", "app.kubernetes.io/instance: {{ .Release.Name }}\n", "", "Releases.test_side_by_side"),
    ("_helpers.tpl", 'printf "%s-selvage" .Release.Name', 'printf "selvage"', "Releases.test_side_by_side"),
    ("_helpers.tpl", "host: {{ quote . }}, ", "", "Placement.test_probes_ask_where_the_agent_listens"),
    ("_helpers.tpl", '"" "0.0.0.0"', '"0.0.0.0"', "Placement.test_probes_ask_where_the_agent_listens"),
    ("_helpers.tpl", 'ne $listen (printf', 'eq "" (printf', "Placement.test_an_address_that_probes_cannot_ask_is_refused"),
    ("daemonset.yaml", "(hasPrefix \":\" $listen)", "true", "Placement.test_probes_ask_where_the_agent_listens"),
    ("daemonset.yaml", ".Values.seLinuxOptions | default ", "", "Placement.test_selinux"),
    ("alerts.yaml", '(ternary "https:" ""', '(ternary "" ""', "Monitoring.test_first_commands_are_for_this_release"),
    ("alerts.yaml", '    | replace "selvage.dev/" .Values.prefix', "   ", "Monitoring.test_first_commands_are_for_this_release"),
    ("alerts.yaml", "(int .Values.port)", "9949", "Monitoring.test_first_commands_are_for_this_release"),
    ("_helpers.tpl", ", scheme: HTTPS", "", "Tls.test_probes_follow"),
    ("_helpers.tpl", "{{ toJson $value }}", "{{ $value }}", "Settings.test_a_map_is_merged"),
    ("_helpers.tpl", "mergeOverwrite $platform.settings .Values.settings", "merge $platform.settings .Values.settings",
     "Settings.test_a_map_is_merged"),
    ("_helpers.tpl", "key: ca.crt}", "key: tls.crt}", "Tls.test_monitors_follow"),
    ("_helpers.tpl", 'dict "release" .', 'dict "stack" .', "Monitoring.test_kube_prometheus_stack_by_one_value"),
    ("admission-policy.yaml", '(include "selvage.account" .)', '"selvage"', "Releases.test_each_is_whole"),
    ("alerts.yaml", "if not (get $values.disabled $name)", "if true", "Monitoring.test_alerts"),
    ("daemonset.yaml", 'printf "%s/%s" $secret.path $file', 'printf "/etc/%s" $file',
     "Tls.test_each_file_is_one_that_is_mounted"),
    ("daemonset.yaml", ".Values.hostPaths.kubelet", '"/var/lib/kubelet"',
     "Placement.test_host_paths_are_seen_where_the_agent_looks"),
    ("platform.yaml", 'resourceNames: [{{ include "selvage.fullname" . }}]', "resourceNames: [selvage]",
     "Releases.test_each_is_whole"),
    ("rbac.yaml", "$leases | default .Release.Namespace", ".Release.Namespace",
     "Settings.test_the_ledger_s_rights_are_where_the_ledger_is"),
    ("networkpolicy.yaml", "{{ .Values.port }}", "9949", "Placement.test_port_is_the_same_everywhere"),
    ("NOTES.txt", "{{- range $key, $value := omit .Values", "{{- range $key, $value := pick .Values",
     "Notes.test_misspelt_values_are_named"),
]


class Breakages(unittest.TestCase):
    def broken(self, file: str, text: str, instead: str):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        root = pathlib.Path(directory.name) / "manifests"
        shutil.copytree(MANIFESTS, root)
        path = root / file
        before = path.read_text()
        self.assertIn(text, before, f"{file} has changed: bring this row up to date")
        path.write_text(before.replace(text, instead))
        return root

    def test_each_is_found(self):
        for file, text, instead, check in BREAKAGES:
            with self.subTest(file=file, instead=instead):
                root = self.broken(file, text, instead)
                try:
                    found = render.kustomize(root / "overlays" / "gke")
                    complaints = (check or checks.agent_rbac)(found)
                except (KeyError, RuntimeError) as error:
                    complaints = [repr(error)] if check is None else []
                self.assertTrue(complaints, "not found")

    def test_each_rule_of_the_policy_is_needed(self):
        found = render.kustomize(MANIFESTS / "overlays" / "bare-metal-ib")
        rules = 0
        for index, each in enumerate(found):
            if each["kind"] != "ValidatingAdmissionPolicy":
                continue
            for rule in range(len(each["spec"]["validations"])):
                broken = copy.deepcopy(found)
                broken[index]["spec"]["validations"][rule]["expression"] = "true"
                message = each["spec"]["validations"][rule]["message"]
                with self.subTest(policy=each["metadata"]["name"], rule=message):
                    self.assertTrue(policy_cases.complaints(broken), "no case needs this rule")
                rules += 1
        self.assertEqual(rules, 13)

    def test_chart_that_drifts_is_found(self):
        root = self.broken("helm/selvage/templates/daemonset.yaml", "periodSeconds: 15", "periodSeconds: 5")
        for name in OVERLAYS:
            chart = render.helm({"platform": name, "createNamespace": True}, manifests=root)
            overlay = render.kustomize(MANIFESTS / "overlays" / name)
            self.assertEqual(len(render.differences(overlay, chart)), 1)

    def test_a_chart_that_does_not_do_what_its_values_say_is_found(self):
        for file, text, instead, test in CHART_BREAKAGES:
            with self.subTest(file=file, instead=instead):
                root = self.broken(f"helm/selvage/templates/{file}", text, instead)
                result = unittest.TestResult()
                with unittest.mock.patch.object(render, "MANIFESTS", root):
                    unittest.defaultTestLoader.loadTestsFromName(f"test_chart.{test}").run(result)
                self.assertEqual(result.testsRun, 1)
                self.assertFalse(result.wasSuccessful(), f"not found by {test}")
