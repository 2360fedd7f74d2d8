"""What the admission policy must let through and what it must refuse: one row a case."""

import copy

from policy import PythonEngine, Request, denials
from render import the

OWN = "gpu-node-1"
OTHER = "gpu-node-2"

# The startup taint by the cluster-autoscaler's name.
STARTUP = "startup-taint.cluster-autoscaler.kubernetes.io/selvage-agent-not-ready"
# A GPU node as an API server shows it, with somebody else's hand in each part.
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": OWN,
        "uid": "3a7e5c0e-0000-4000-8000-000000000001",
        "resourceVersion": "1000",
        "creationTimestamp": "2026-11-01T00:00:00Z",
        "labels": {
            "kubernetes.io/hostname": OWN,
            "nvidia.com/gpu.present": "true",
            "selvage.dev/fabric": "ready",
        },
        "annotations": {
            "node.alpha.kubernetes.io/ttl": "0",
            "selvage.dev/mute": "taint=2026-11-22T00:00:00Z",
        },
        "finalizers": ["example.com/machine"],
        "managedFields": [{"manager": "kubelet", "operation": "Update"}],
    },
    "spec": {
        "podCIDR": "10.1.2.0/24",
        "podCIDRs": ["10.1.2.0/24"],
        "providerID": "cloud:///zone/i-1",
        "taints": [
            {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
            {"key": "selvage.dev/agent-not-ready", "effect": "NoSchedule"},
            {"key": "example.com/maintenance", "effect": "NoExecute"},
            {"key": STARTUP, "value": "true", "effect": "NoSchedule"},
        ],
    },
    "status": {
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
        "allocatable": {"cpu": "96", "nvidia.com/gpu": "8", "rdma/ib": "8"},
        "capacity": {"cpu": "96", "nvidia.com/gpu": "8", "rdma/ib": "8"},
        "conditions": [
            {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
            {"type": "FabricReady", "status": "True", "reason": "Ready"},
            {"type": "Ready", "status": "True", "reason": "KubeletReady"},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "images": [{"names": ["example.com/train:1"], "sizeBytes": 1000}],
        "nodeInfo": {"kubeletVersion": "v1.33.0", "bootID": "b"},
    },
}
BARE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": OWN, "uid": "u", "resourceVersion": "1"},
    "spec": {},
    "status": {"nodeInfo": {}},
}
# `source` of an event.
FROM_OWN = {"component": "selvage", "host": OWN}
FROM_OTHER = {"component": "selvage", "host": OTHER}
FROM_KUBELET = {"component": "kubelet", "host": OWN}
TAINT = {"key": "selvage.dev/fabric-unready", "value": "LinkDown", "effect": "NoSchedule"}


def put(*path_and_value):
    """An edit: put the value at the path."""
    *path, last, value = path_and_value

    def edit(node):
        for step in path:
            node = node.setdefault(step, {}) if isinstance(node, dict) else node[step]
        node[last] = value

    return edit


def drop(*path):
    """An edit: take away what is at the path."""
    *path, last = path

    def edit(node):
        for step in path:
            node = node[step]
        del node[last]

    return edit


def append(*path_and_value):
    """An edit: put the value at the end of the list at the path."""
    *path, value = path_and_value

    def edit(node):
        for step in path[:-1]:
            node = node[step]
        node.setdefault(path[-1], []).append(value)

    return edit


def nothing(_):
    """No edit."""


def both(*edits):
    def edit(node):
        for each in edits:
            each(node)

    return edit


ALLOW, DENY = True, False
# Name, verdict, edit of the node. Each runs through nodes and through nodes/status: the latter takes
# changes of labels too.
NODE_CASES = [
    ("nothing changes", ALLOW, nothing),
    ("resourceVersion and managedFields move along", ALLOW, both(
        put("metadata", "resourceVersion", "1001"),
        append("metadata", "managedFields", {"manager": "selvage", "operation": "Apply"}))),
    # Labels.
    ("own label changed", ALLOW, put("metadata", "labels", "selvage.dev/fabric", "unready")),
    ("own label added", ALLOW, put("metadata", "labels", "selvage.dev/rails", "8")),
    ("own label removed", ALLOW, drop("metadata", "labels", "selvage.dev/fabric")),
    ("foreign label changed", DENY, put("metadata", "labels", "nvidia.com/gpu.present", "false")),
    ("foreign label added", DENY, put("metadata", "labels", "example.com/x", "y")),
    ("foreign label removed", DENY, drop("metadata", "labels", "nvidia.com/gpu.present")),
    ("label that only looks like ours", DENY, put("metadata", "labels", "selvage.dev.example/x", "y")),
    ("all labels removed", DENY, drop("metadata", "labels")),
    ("own label beside a foreign one", DENY, both(
        put("metadata", "labels", "selvage.dev/fabric", "unready"),
        put("metadata", "labels", "node-role.kubernetes.io/control-plane", ""))),
    # Annotations.
    ("own annotation added", ALLOW, put("metadata", "annotations", "selvage.dev/note", "x")),
    ("foreign annotation added", DENY, put("metadata", "annotations", "example.com/x", "y")),
    ("foreign annotation changed", DENY,
     put("metadata", "annotations", "node.alpha.kubernetes.io/ttl", "9")),
    ("foreign annotation removed", DENY, drop("metadata", "annotations", "node.alpha.kubernetes.io/ttl")),
    ("operator's mute changed", DENY,
     put("metadata", "annotations", "selvage.dev/mute", "taint=2036-01-01T00:00:00Z")),
    ("operator's mute removed", DENY, drop("metadata", "annotations", "selvage.dev/mute")),
    # The rest of the metadata.
    ("owner put in place (garbage collection would remove the node)", DENY,
     put("metadata", "ownerReferences", [{"kind": "ConfigMap", "name": "gone", "uid": "x"}])),
    ("finalizer removed", DENY, put("metadata", "finalizers", [])),
    ("finalizers removed altogether", DENY, drop("metadata", "finalizers")),
    # Taints.
    ("our taint added", ALLOW, append("spec", "taints", TAINT)),
    ("startup taint removed", ALLOW, drop("spec", "taints", 1)),
    ("startup taint replaced by ours", ALLOW, put("spec", "taints", 1, TAINT)),
    ("autoscaler's startup taint removed", ALLOW, drop("spec", "taints", 3)),
    ("autoscaler's startup taint replaced by ours", ALLOW, put("spec", "taints", 3, TAINT)),
    ("autoscaler's startup taint made to evict", DENY, put("spec", "taints", 3, "effect", "NoExecute")),
    ("another startup taint of the autoscaler's added", DENY,
     append("spec", "taints", {"key": STARTUP + "-2", "effect": "NoSchedule"})),
    ("foreign taint removed", DENY, drop("spec", "taints", 0)),
    ("foreign taint's effect changed", DENY, put("spec", "taints", 0, "effect", "NoExecute")),
    ("foreign taint's value changed", DENY, put("spec", "taints", 0, "value", "x")),
    ("foreign taint added", DENY,
     append("spec", "taints", {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"})),
    ("all taints removed", DENY, drop("spec", "taints")),
    # The rest of the spec.
    ("cordoned", DENY, put("spec", "unschedulable", True)),
    ("providerID changed", DENY, put("spec", "providerID", "cloud:///zone/i-2")),
    ("providerID removed", DENY, drop("spec", "providerID")),
    ("a spec field of a later Kubernetes added", DENY, put("spec", "somethingNew", {"a": 1})),
    # Conditions.
    ("our condition changed", ALLOW, put("status", "conditions", 1, "status", "False")),
    ("our condition removed", ALLOW, drop("status", "conditions", 1)),
    ("foreign condition changed", DENY, put("status", "conditions", 2, "status", "False")),
    ("foreign condition removed", DENY, drop("status", "conditions", 0)),
    ("foreign condition added", DENY,
     append("status", "conditions", {"type": "NetworkUnavailable", "status": "True"})),
    # The rest of the status.
    ("allocatable changed", DENY, put("status", "allocatable", "nvidia.com/gpu", "0")),
    ("capacity removed", DENY, drop("status", "capacity")),
    ("address changed", DENY, put("status", "addresses", 0, "address", "192.0.2.66")),
    ("a status field of a later Kubernetes added", DENY, put("status", "somethingNew", [1])),
]
# The same on a node with neither labels, annotations, taints nor conditions.
BARE_CASES = [
    ("first label", ALLOW, put("metadata", "labels", {"selvage.dev/fabric": "unknown"})),
    ("first taint", ALLOW, put("spec", "taints", [TAINT])),
    ("first condition", ALLOW,
     put("status", "conditions", [{"type": "FabricReady", "status": "Unknown"}])),
    ("first foreign label", DENY, put("metadata", "labels", {"example.com/x": "y"})),
    ("autoscaler's startup taint put", DENY, put("spec", "taints", [{"key": STARTUP, "effect": "NoSchedule"}])),
    ("first foreign taint", DENY, put("spec", "taints", [{"key": "x", "effect": "NoSchedule"}])),
    ("cordoned", DENY, put("spec", "unschedulable", True)),
]


def account(found: list) -> str:
    """The user name of the DaemonSet's pods."""
    daemonset = the(found, "DaemonSet")
    name = daemonset["spec"]["template"]["spec"]["serviceAccountName"]
    return f"system:serviceaccount:{daemonset['metadata']['namespace']}:{name}"


def requests(found: list):
    """Name, verdict, request: each case."""
    agent = account(found)
    cleanup = agent + "-cleanup"

    def write(edit, base=NODE, resource="nodes", user=agent, node=OWN, name=OWN):
        old = copy.deepcopy(base)
        old["metadata"]["name"] = name
        new = copy.deepcopy(old)
        edit(new)
        return Request("", resource, name, old, new, user, node)

    for resource in ("nodes", "nodes/status"):
        for name, verdict, edit in NODE_CASES:
            yield f"{resource}: {name}", verdict, write(edit, resource=resource)
        for name, verdict, edit in BARE_CASES:
            yield f"{resource}, bare: {name}", verdict, write(edit, BARE, resource)
        label = put("metadata", "labels", "selvage.dev/fabric", "unready")
        cordon = put("spec", "unschedulable", True)
        yield f"{resource}: another node's label", DENY, write(label, resource=resource, name=OTHER)
        yield f"{resource}: another node, no change", DENY, write(nothing, resource=resource, name=OTHER)
        yield f"{resource}: token without a node", DENY, write(label, resource=resource, node=None)
        yield f"{resource}: token of another node", DENY, write(label, resource=resource, node=OTHER)
        for user, node in (
            (cleanup, None),
            (cleanup, OTHER),
            ("system:node:" + OWN, None),
            ("kubernetes-admin", None),
            (agent.replace("selvage:selvage", "elsewhere:selvage"), None),
        ):
            yield f"{resource}: {user} cordons", ALLOW, write(cordon, resource=resource, user=user, node=node)

    def lease(name, create, user=agent, node=OWN):
        new = {"kind": "Lease", "metadata": {"name": name, "namespace": "selvage"}, "spec": {}}
        old = None if create else copy.deepcopy(new)
        return Request("coordination.k8s.io", "leases", name, old, new, user, node, "selvage")

    for create in (True, False):
        what = "create" if create else "update"
        yield f"lease {what}: ledger", ALLOW, lease("selvage-budget", create)
        yield f"lease {what}: ledger of a group", ALLOW, lease("selvage-budget-0a1b", create)
        yield f"lease {what}: another name", DENY, lease("kube-scheduler", create)
        yield f"lease {what}: token without a node", DENY, lease("selvage-budget", create, node=None)
        yield f"lease {what}: other user", ALLOW, lease("kube-scheduler", create, "admin", None)

    def event(about, old=None, user=agent, node=OWN, source=FROM_OWN, old_source=FROM_OWN, namespace="default"):
        def make(about, source):
            made = {"kind": "Event", "metadata": {"name": "e", "namespace": namespace}}
            if about is not None:
                made["involvedObject"] = about
            if source is not None:
                made["source"] = source
            return made

        new = make(about, source)
        old = None if old is None else make(old, old_source)
        return Request("", "events", "e", old, new, user, node, namespace)

    own, other = {"kind": "Node", "name": OWN}, {"kind": "Node", "name": OTHER}
    yield "event: on the own node", ALLOW, event(own)
    yield "event: repeated", ALLOW, event(own, own)
    yield "event: on another node", DENY, event(other)
    yield "event: on another node, said to be from there", DENY, event(other, source=FROM_OTHER)
    yield "event: on a pod of that name in no namespace", DENY, event({"kind": "Pod", "name": OWN})
    yield "event: on nothing", DENY, event(None)
    yield "event: another node's made ours", DENY, event(own, other)
    yield "event: another's on the own node", DENY, event(own, own, old_source=FROM_KUBELET)
    yield "event: from nowhere", DENY, event(own, source=None)
    yield "event: in another's name", DENY, event(own, source=FROM_KUBELET)
    yield "event: token without a node", DENY, event(own, node=None)
    yield "event: other user", ALLOW, event(other, user="admin", node=None, source=FROM_KUBELET)

    pod = {"kind": "Pod", "namespace": "ml", "name": "w-0", "uid": "u"}

    def pod_event(about=pod, old=None, **more):
        return event(about, old, namespace=more.pop("namespace", "ml"), **more)

    yield "event: on a pod", ALLOW, pod_event()
    yield "event: on a pod, repeated", ALLOW, pod_event(pod, pod)
    yield "event: on a pod, from elsewhere than its namespace", DENY, pod_event(namespace="default")
    yield "event: on a pod, said to be from another node", DENY, pod_event(source=FROM_OTHER)
    yield "event: on a pod, in kubelet's name", DENY, pod_event(source=FROM_KUBELET)
    yield "event: on a pod, from nowhere", DENY, pod_event(source=None)
    yield "event: on a pod, from no host", DENY, pod_event(source={"component": "selvage"})
    yield "event: on a pod, kubelet's rewritten", DENY, pod_event(pod, pod, old_source=FROM_KUBELET)
    yield "event: on a pod, another agent's rewritten", DENY, pod_event(pod, pod, old_source=FROM_OTHER)
    yield "event: of another pod made this one's", DENY, pod_event(pod, {**pod, "name": "w-1"})
    yield "event: on a pod, token without a node", DENY, pod_event(node=None)
    yield "event: on a pod, token of another node", DENY, pod_event(node=OTHER)
    for kind in ("Secret", "Deployment", "Service"):
        yield f"event: on a {kind}", DENY, pod_event({**pod, "kind": kind})
    yield "event: on the own node in a pod's namespace", ALLOW, pod_event(own)


def complaints(found: list, engine=None) -> list:
    """Cases that end otherwise than they must."""
    lines = []
    for name, verdict, request in requests(found):
        messages = denials(found, request, engine or PythonEngine())
        if verdict is DENY and not messages:
            lines.append(f"{name}: let through")
        elif verdict is ALLOW and messages:
            lines.append(f"{name}: refused: {messages}")
        # A refusal must come from a rule that is false, not from one that cannot be evaluated.
        lines += [f"{name}: {text}" for text in messages if "(" in text]
    return lines
