"""Checks of rendered objects. Each gives complaints, a line each; none: all is well."""

import functools
import tomllib

import kubernetes_validate

import calls
import settings
from memo import remembered
from render import of_kind, the

# Kinds that Kubernetes' own schemas do not hold: they belong to operators and to OpenShift.
CUSTOM_KINDS = {"PodMonitor", "ServiceMonitor", "PrometheusRule", "SecurityContextConstraints"}
# Host paths that are mounted. What the rest can do without is made if missing.
HOST_PATHS = {
    "/sys": "Directory",
    "/proc": "Directory",
    "/dev": "Directory",
    "/var/log/pods": "DirectoryOrCreate",
    "/var/lib/kubelet/device-plugins": "DirectoryOrCreate",
    "/var/lib/selvage": "DirectoryOrCreate",
}
# With the component of the same name only.
DOT1X_PATHS = {"/run/wpa_supplicant": "DirectoryOrCreate"}
POLICY_KINDS = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}


def schema(found: list, version: str) -> list:
    """Against the API of that version, strictly: an unknown field is a complaint."""
    lines = []
    for each in found:
        if each["kind"] in CUSTOM_KINDS:
            continue
        for line in invalid(each, version):
            lines.append(f"{version} {each['kind']} {each['metadata'].get('name')}: {line}")
    return lines


@remembered
def invalid(each: dict, version: str) -> list:
    """What an API server of that version would refuse, strictly: at most one line."""
    try:
        kubernetes_validate.validate(each, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [error.message]
    except kubernetes_validate.SchemaNotFoundError:
        return [f"no such kind in {each['apiVersion']}"]
    return []


# The library reads and parses megabytes of schemas for each object.
kubernetes_validate.utils.schema_contents = functools.cache(kubernetes_validate.utils.schema_contents)


def rights(found: list, account: str, namespace: str) -> set:
    """What RBAC grants the account: (verb, group, resource, namespace or None, names)."""
    roles = {
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]): each["rules"]
        for each in found
        if each["kind"] in ("Role", "ClusterRole")
    }
    granted = set()
    for binding in of_kind(found, "RoleBinding") + of_kind(found, "ClusterRoleBinding"):
        subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        if subject not in binding["subjects"]:
            continue
        where = binding["metadata"].get("namespace")
        role = binding["roleRef"]
        home = where if role["kind"] == "Role" else None
        for rule in roles[role["kind"], home, role["name"]]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        names = tuple(rule.get("resourceNames", ()))
                        granted.add((verb, group, resource, where, names))
    return granted


def rbac(found: list, account: str, made: set) -> list:
    """The account's rights are the calls that it makes, no more and no less."""
    granted = rights(found, account, "selvage")
    extra = {
        ("use", "security.openshift.io", "securitycontextconstraints", "selvage", ("selvage",))
    } if of_kind(found, "SecurityContextConstraints") and account == "selvage" else set()
    wanted = {(*call, ()) for call in made} | extra
    return [f"{account} may, but never does: {right}" for right in sorted(granted - wanted, key=str)] + [
        f"{account} does, but may not: {right}" for right in sorted(wanted - granted, key=str)
    ]


def agent_rbac(found: list) -> list:
    return rbac(found, "selvage", calls.AGENT | calls.PODS)


def agent_rbac_without_pods(found: list) -> list:
    """Nothing is asked for that is not granted: the setting says so."""
    container = the(found, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    told = {"name": "SELVAGE_NCCL_PODS", "value": "paths"} in container["env"]
    return rbac(found, "selvage", calls.AGENT) + ([] if told else ["the agent is not told"])


def security(found: list, host_pid=False, dot1x=False, lldp=False, selinux=False) -> list:
    """The DaemonSet's pods have the rights that they are said to have and no others."""
    unconfined = selinux or bool(of_kind(found, "SecurityContextConstraints"))
    template = the(found, "DaemonSet")["spec"]["template"]
    pod = template["spec"]
    host_paths = HOST_PATHS | (DOT1X_PATHS if dot1x else {})
    lines = []

    def want(holds: bool, what: str) -> None:
        if not holds:
            lines.append(what)

    want(pod.get("hostNetwork") is True, "host network: the devices are seen there only")
    want(pod.get("dnsPolicy") == "ClusterFirstWithHostNet", "DNS policy for the host network")
    want(pod.get("hostPID", False) is host_pid, f"hostPID: {host_pid}")
    for name in ("hostIPC", "shareProcessNamespace"):
        want(not pod.get(name), f"no {name}")
    want(pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, "default seccomp")
    want(not pod["securityContext"].get("sysctls"), "no sysctls")
    want(pod["securityContext"].get("seLinuxOptions") == ({"type": "spc_t"} if unconfined else None),
         f"SELinux's type: spc_t {unconfined}")
    want(not pod.get("initContainers"), "no init containers")
    want(len(pod["containers"]) == 1, "one container")
    want(pod["serviceAccountName"] == "selvage", "its own account")
    want(the_account(found).get("automountServiceAccountToken") is False, "token only where asked for")
    for container in pod["containers"]:
        context = container.get("securityContext", {})
        want(context.get("privileged", False) is False, "not privileged")
        want(context.get("allowPrivilegeEscalation") is False, "no privilege escalation")
        want(context.get("readOnlyRootFilesystem") is True, "read-only root")
        added = ["SYSLOG", "NET_RAW"] if lldp else ["SYSLOG"]
        want(context.get("capabilities") == {"drop": ["ALL"], "add": added}, f"{added} alone")
        want(context.get("runAsUser") == 0, "uid 0")
        want("seccompProfile" not in context, "no other seccomp profile for the container")
        want("procMount" not in context, "no unmasked /proc")
        want(not container.get("volumeDevices"), "no block devices")
        want("memory" in container["resources"]["limits"], "memory is limited")
        want(set(container["resources"]["requests"]) == {"cpu", "memory"}, "requests")
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            want(container.get(probe, {}).get("httpGet", {}).get("port") == "metrics", probe)
        paths = {
            probe: container.get(probe, {}).get("httpGet", {}).get("path")
            for probe in ("startupProbe", "livenessProbe", "readinessProbe")
        }
        hosts = {container.get(probe, {}).get("httpGet", {}).get("host") for probe in paths}
        want(hosts == {"127.0.0.1"}, f"probes' hosts, for an agent on loopback: {hosts}")
        want(paths == {"startupProbe": "/healthz", "livenessProbe": "/healthz",
                       "readinessProbe": "/readyz"}, f"probes' paths: {paths}")
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        want(mounts.keys() == volumes.keys(), "each volume is mounted")
        for name, volume in volumes.items():
            mount = mounts.get(name, {})
            want("hostPath" in volume or "configMap" in volume, f"volume {name}: a kind it needs")
            want("Bidirectional" != mount.get("mountPropagation"), f"{name}: mounts nothing outside")
            if "hostPath" not in volume:
                continue
            path = volume["hostPath"]["path"]
            want(path in host_paths, f"host path {path}")
            kind = volume["hostPath"].get("type")
            want(kind == host_paths.get(path), f"{path}: {kind}")
            if path == "/var/lib/selvage":
                want(mount.get("mountPath") == path, "state directory at its place")
            else:
                want(mount.get("readOnly") is True, f"{path} read-only")
                want(mount.get("mountPath") == "/host" + path, f"{path} below the host root")
    return lines


def the_account(found: list) -> dict:
    (account,) = [
        each for each in of_kind(found, "ServiceAccount") if each["metadata"]["name"] == "selvage"
    ]
    return account


def operation(found: list) -> list:
    """It runs on every GPU node, whatever its taints, and an update gets through."""
    daemonset = the(found, "DaemonSet")
    pod = daemonset["spec"]["template"]["spec"]
    lines = []
    if pod.get("tolerations") != [{"operator": "Exists"}]:
        lines.append("tolerates each taint")
    if pod.get("priorityClassName") != "system-node-critical":
        lines.append("node-critical")
    rolling = daemonset["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"]
    # Percentages round up. A node of two being dead must not stop an update of the other.
    if not (isinstance(rolling, str) and rolling.endswith("%") and int(rolling[:-1]) > 50):
        lines.append(f"an update gets past dead nodes: maxUnavailable {rolling}")
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    if not required["nodeSelectorTerms"] or not all(
        term.get("matchExpressions") for term in required["nodeSelectorTerms"]
    ):
        lines.append("GPU nodes only")
    selector = daemonset["spec"]["selector"]["matchLabels"]
    labels = daemonset["spec"]["template"]["metadata"]["labels"]
    if not selector.items() <= labels.items():
        lines.append("the selector finds its pods")
    for kind in ("NetworkPolicy", "PodMonitor"):
        for each in of_kind(found, kind):
            spec = each["spec"]
            found_by = (spec.get("podSelector") or spec.get("selector"))["matchLabels"]
            if not found_by.items() <= labels.items():
                lines.append(f"{kind} finds the pods")
    for each in of_kind(found, "ResourceQuota"):
        expressions = each["spec"]["scopeSelector"]["matchExpressions"]
        if not any(pod.get("priorityClassName") in term["values"] for term in expressions):
            lines.append("the quota is for the pods' priority class")
    return lines


def names_of_settings(found: list) -> list:
    """Each variable and each key of the settings file is one that the agent knows: it refuses to
    start over any other."""
    lines = []
    pods = [
        each["spec"]["template"]["spec"] for each in found if each["kind"] in ("DaemonSet", "Job")
    ]
    for pod in pods:
        for container in pod["containers"]:
            for variable in container.get("env", []):
                if variable["name"] not in settings.variables():
                    lines.append(f"variable {variable['name']}")
    texts = [each["data"].get("selvage.toml") for each in of_kind(found, "ConfigMap")]
    for text in filter(None, texts):
        for key in settings.keys_of(tomllib.loads(text)):
            # A bound (`{more_than = 4, within = "10m"}`) is one setting.
            if not {key, key.rpartition(".")[0]} & settings.keys():
                lines.append(f"setting {key}")
    return lines
