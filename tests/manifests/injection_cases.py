"""What injection must do to pods: one row a case. The two policies are judged by the same rows, and
compared."""

import copy

import checks

import kyverno
import policy
from policy_cases import append, both, drop, nothing, put
from render import of_kind, the

SPEC_LISTS = ("initContainers", "volumes", "containers")
OURS = "selvage.dev/nccl"
SEEDS = "nmp.nvidia.com/enable-multi-node-networking"
# Native sidecars are there from 1.29 on.
VERSIONS = ("1.29", "1.37")
VOLUME, LOGS = "selvage-nccl-logs", "/var/log/nccl"

# A worker as its controller makes it.
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "generateName": "train-0-",
        "labels": {"job-name": "train"},
        "annotations": {"batch.kubernetes.io/job-completion-index": "0", OURS: "true"},
    },
    "spec": {
        "restartPolicy": "Never",
        "securityContext": {},
        "containers": [
            {
                "name": "worker",
                "image": "registry.example.com/train:1",
                "env": [
                    {"name": "MASTER_PORT", "value": "29500"},
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                ],
                "resources": {"limits": {"nvidia.com/gpu": "8", "rdma/ib": 8}},
                "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
            }
        ],
        "volumes": [
            {"name": "dshm", "emptyDir": {"medium": "Memory"}},
            {"name": "token", "projected": {"defaultMode": 420, "sources": []}},
        ],
    },
}
HELPER = {"name": "helper", "image": "registry.example.com/log:1"}
SECOND = {"name": "second", "image": "registry.example.com/train:1",
          "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}
INIT = {"name": "fetch", "image": "registry.example.com/fetch:1", "env": [{"name": "A", "value": "b"}]}

ALL = ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")


class Expect:
    """What is there after, in words: `env` names what is added to which container; `mounts`, where
    the volume is added."""

    def __init__(self, env=None, mounts=("worker",), sidecar=True, volume=True, listen=":9950",
                 user=65532, prefix=False):
        self.env = {"worker": ALL} if env is None else env
        self.mounts, self.sidecar, self.volume = mounts, sidecar, volume
        self.listen, self.user, self.prefix = listen, user, prefix


UNTOUCHED = None
W = ("spec", "containers", 0)


def annotated(**values):
    values = {{"ours": OURS, "seeds": SEEDS}[name]: value for name, value in values.items()}
    return put("metadata", "annotations", values)


def env(*entries):
    return put(*W, "env", [*POD["spec"]["containers"][0]["env"], *entries])


# Name, edit of the pod, what is expected, namespace (the default where there is none).
CASES = [
    ("annotated, ours", nothing, Expect()),
    ("annotated, the seeds'", annotated(seeds="true"), Expect()),
    ("annotated, both", annotated(ours="true", seeds="true"), Expect()),
    ("ours empty: the seeds' decides", annotated(ours="", seeds="true"), Expect()),
    ("ours true, the seeds' false", annotated(ours="true", seeds="false"), Expect()),
    ("no annotations", drop("metadata", "annotations"), UNTOUCHED),
    ("other annotations", put("metadata", "annotations", {"a": "b"}), UNTOUCHED),
    ("ours false", annotated(ours="false"), UNTOUCHED),
    ("ours false wins over the seeds'", annotated(ours="false", seeds="true"), UNTOUCHED),
    ("the seeds' false", annotated(seeds="false"), UNTOUCHED),
    ("another word", annotated(ours="yes"), UNTOUCHED),
    ("kube-system", nothing, UNTOUCHED, "kube-system"),
    ("our own namespace", nothing, UNTOUCHED, "selvage"),
    ("a namespace whose name begins so", nothing, Expect(), "selvage-jobs"),
    ("Windows by os", put("spec", "os", {"name": "windows"}), UNTOUCHED),
    ("Windows by node selector", put("spec", "nodeSelector", {"kubernetes.io/os": "windows"}), UNTOUCHED),
    ("Linux said so", both(put("spec", "os", {"name": "linux"}),
                           put("spec", "nodeSelector", {"kubernetes.io/os": "linux"})), Expect()),
    ("another node selector", put("spec", "nodeSelector", {"selvage.dev/fabric": "ready"}), Expect()),
    ("no env", drop(*W, "env"), Expect()),
    ("no volumeMounts", drop(*W, "volumeMounts"), Expect()),
    ("no volumes", both(drop("spec", "volumes"), drop(*W, "volumeMounts")), Expect()),
    ("no security context", drop("spec", "securityContext"), Expect()),
    ("NCCL_DEBUG set", env({"name": "NCCL_DEBUG", "value": "WARN"}),
     Expect(env={"worker": ("NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")})),
    ("NCCL_DEBUG_SUBSYS set, empty", env({"name": "NCCL_DEBUG_SUBSYS"}),
     Expect(env={"worker": ("NCCL_DEBUG", "NCCL_DEBUG_FILE")})),
    ("NCCL_DEBUG_FILE from elsewhere",
     env({"name": "NCCL_DEBUG_FILE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "f"}}}),
     Expect(env={"worker": ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS")})),
    ("all set", env(*({"name": name, "value": "x"} for name in ALL)), Expect(env={})),
    ("a name that begins so", env({"name": "NCCL_DEBUG_X", "value": "1"}), Expect()),
    ("env from a ConfigMap", put(*W, "envFrom", [{"configMapRef": {"name": "nccl"}}]), Expect(env={})),
    ("env from a ConfigMap, prefixed",
     put(*W, "envFrom", [{"prefix": "APP_", "configMapRef": {"name": "app"}}]), Expect()),
    ("env from a ConfigMap, prefix empty",
     put(*W, "envFrom", [{"prefix": "", "configMapRef": {"name": "nccl"}}]), Expect(env={})),
    ("env from a Secret", put(*W, "envFrom", [{"secretRef": {"name": "keys"}}]), Expect()),
    ("env from a Secret and a ConfigMap",
     put(*W, "envFrom", [{"secretRef": {"name": "keys"}}, {"configMapRef": {"name": "nccl"}}]), Expect(env={})),
    ("the volume is there, another kind",
     append("spec", "volumes", {"name": VOLUME, "persistentVolumeClaim": {"claimName": "logs"}}),
     Expect(volume=False)),
    ("volume and mount are there",
     both(append("spec", "volumes", {"name": VOLUME, "emptyDir": {}}),
          append(*W, "volumeMounts", {"name": VOLUME, "mountPath": LOGS})),
     Expect(volume=False, mounts=())),
    ("something else is mounted there", append(*W, "volumeMounts", {"name": "dshm", "mountPath": LOGS}),
     Expect(env={}, mounts=())),
    ("two GPU containers", append("spec", "containers", SECOND),
     Expect(env={"worker": ALL, "second": ALL}, mounts=("worker", "second"), prefix=True)),
    ("the second GPU container has its own settings",
     append("spec", "containers", {**SECOND, "env": [{"name": "NCCL_DEBUG", "value": "TRACE"}]}),
     Expect(env={"worker": ALL, "second": ALL[1:]}, mounts=("worker", "second"), prefix=True)),
    ("a helper without GPUs", append("spec", "containers", HELPER), Expect(prefix=True)),
    ("a helper without GPUs comes first",
     put("spec", "containers", [HELPER, POD["spec"]["containers"][0]]), Expect(prefix=True)),
    ("no GPU container: a launcher",
     put("spec", "containers", [HELPER, {"name": "launcher", "image": "m", "resources": {"limits": {"cpu": 1}}}]),
     Expect(env={"helper": ALL, "launcher": ALL}, mounts=("helper", "launcher"), prefix=True)),
    ("no resources at all", drop(*W, "resources"), Expect()),
    ("requests alone", put(*W, "resources", {"requests": {"cpu": "1"}}), Expect()),
    ("GPUs by claim", both(put(*W, "resources", {"claims": [{"name": "gpus"}]}),
                           append("spec", "containers", HELPER)), Expect(prefix=True)),
    ("AMD", both(put(*W, "resources", {"limits": {"amd.com/gpu": 8}}), append("spec", "containers", HELPER)),
     Expect(prefix=True)),
    ("another resource of NVIDIA's is no GPU",
     both(put(*W, "resources", {"limits": {"nvidia.com/gpu.shared": 1}}),
          append("spec", "containers", {**HELPER, "resources": {"limits": {"nvidia.com/mlnxnics": 1}}})),
     Expect(prefix=True)),
    ("init containers", put("spec", "initContainers", [INIT]), Expect()),
    ("init containers that ask for GPUs",
     put("spec", "initContainers", [{**INIT, "resources": {"limits": {"nvidia.com/gpu": 1}}}]), Expect()),
    ("the sidecar by hand", put("spec", "initContainers", [INIT, {"name": "selvage-sidecar", "image": "own"}]),
     Expect(sidecar=False)),
    ("the sidecar by hand, an ordinary container",
     append("spec", "containers", {"name": "selvage-sidecar", "image": "own"}),
     Expect(sidecar=False, prefix=True)),
    ("the sidecar by hand, an ordinary container that comes first",
     put("spec", "containers", [{"name": "selvage-sidecar", "image": "own"}, POD["spec"]["containers"][0]]),
     Expect(sidecar=False, prefix=True)),
    ("the sidecar by hand beside a launcher",
     put("spec", "containers", [HELPER, {"name": "selvage-sidecar", "image": "own"}]),
     Expect(env={"helper": ALL}, mounts=("helper",), sidecar=False, prefix=True)),
    ("host network", put("spec", "hostNetwork", True), Expect(listen="none")),
    ("host network said no", put("spec", "hostNetwork", False), Expect()),
    ("a uid for the pod", put("spec", "securityContext", {"runAsUser": 1000}), Expect(user=1000)),
    ("root for the pod", put("spec", "securityContext", {"runAsUser": 0, "fsGroup": 5}), Expect()),
]


def pods():
    for name, edit, expected, *namespace in CASES:
        pod = copy.deepcopy(POD)
        edit(pod)
        yield name, pod, expected, (namespace or ["default"])[0]


def by_api_server(found, pod, namespace, engine=None) -> dict:
    request = policy.Request("", "pods", "train-0", None, pod, "system:serviceaccount:a:b", None, namespace)
    return policy.mutated(found, request, engine or policy.PythonEngine())


def by_kyverno(found, pod, namespace) -> dict:
    only = the(found, "ClusterPolicy")
    fresh = kyverno.mutated(only, pod, namespace)
    if fresh != kyverno.mutated(only, pod, namespace, fresh=False):
        raise ValueError("a rule needs what an earlier rule did")
    return fresh


def complaints(found, engine=None, versions=VERSIONS):
    """Cases that end otherwise than they must, with whichever kind of policy is there."""
    return each_case(found, engine, pods(), wrong, versions)


def each_case(found, engine, cases, wrong, versions):
    """What `wrong` says of each case that the policy changed; that twice is as once, and the input left alone."""
    native = not of_kind(found, "ClusterPolicy")
    mutate = (lambda pod, where: by_api_server(found, pod, where, engine)) if native else (
        lambda pod, where: by_kyverno(found, pod, where))
    for name, pod, expected, namespace in cases:
        before = copy.deepcopy(pod)
        try:
            after = mutate(pod, namespace)
            again = mutate(after, namespace)
            lines = wrong(before, after, expected, versions)
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {error}"
            continue
        yield from (f"{name}: {line}" for line in lines)
        if pod != before:
            yield f"{name}: the evaluator changed its input"
        if again != after:
            yield f"{name}: a second pass changes something"


def wrong(before: dict, after: dict, expected, versions) -> list:
    if expected is UNTOUCHED:
        return [] if before == after else ["touched"]
    lines = [f"{version}: {line}" for version in versions for line in invalid(after, version)]

    def same(what, is_, must):
        if is_ != must:
            lines.append(f"{what}: {is_!r}, not {must!r}")

    old, new = before["spec"], after["spec"]
    same("the rest of the pod", rest(after, "spec"), rest(before, "spec"))
    same("the rest of its spec", rest(new, *SPEC_LISTS), rest(old, *SPEC_LISTS))
    same("old init containers", old_ones(old, new, "initContainers"), old.get("initContainers", []))
    same("old volumes", old_ones(old, new, "volumes"), old.get("volumes", []))
    same("containers", [each["name"] for each in new["containers"]], [each["name"] for each in old["containers"]])
    added = new_ones(old.get("initContainers"), new.get("initContainers"))
    same("sidecar", [each["name"] for each in added], ["selvage-sidecar"] if expected.sidecar else [])
    for sidecar in added:
        lines += wrong_sidecar(sidecar, expected)
        same("place of the sidecar", new["initContainers"].index(sidecar), 0)
    same("volume", new_ones(old.get("volumes"), new.get("volumes")),
         [{"name": VOLUME, "emptyDir": {"sizeLimit": "1Gi"}}] if expected.volume else [])
    for was, container in zip(old["containers"], new["containers"]):
        name = container["name"]
        same(f"the rest of {name}", rest(container, "env", "volumeMounts"), rest(was, "env", "volumeMounts"))
        same(f"old env of {name}", old_ones(was, container, "env"), was.get("env", []))
        same(f"old mounts of {name}", old_ones(was, container, "volumeMounts", "mountPath"), was.get("volumeMounts", []))
        mounts = new_ones(was.get("volumeMounts"), container.get("volumeMounts"), "mountPath")
        same(f"mounts of {name}", mounts,
             [{"name": VOLUME, "mountPath": LOGS}] if name in expected.mounts else [])
        start = f"{LOGS}/{name}." if expected.prefix else f"{LOGS}/"
        values = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET", "NCCL_DEBUG_FILE": start + "%h.%p.log"}
        same(f"env of {name}", new_ones(was.get("env"), container.get("env")),
             [{"name": each, "value": values[each]} for each in expected.env.get(name, ())])
    return lines


def wrong_sidecar(sidecar: dict, expected) -> list:
    ports = [{"name": "selvage-nccl", "containerPort": 9950, "protocol": "TCP"}]
    must = {
        "name": "selvage-sidecar",
        "image": "selvage:0.1.0",
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "args": ["sidecar", "--dir", LOGS, "--listen", expected.listen],
        # On the host's network a container's port is the node's.
        "ports": [] if expected.listen == "none" else ports,
        "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}, "limits": {"cpu": "50m", "memory": "16Mi"}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": expected.user,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": VOLUME, "mountPath": LOGS, "readOnly": True}],
    }
    return [
        f"sidecar's {key}: {sidecar.get(key)!r}, not {must.get(key)!r}"
        for key in must.keys() | sidecar.keys()
        if sidecar.get(key) != must.get(key)
    ]


def new_ones(before, after, key="name") -> list:
    known = [each[key] for each in before or []]
    return [each for each in after or [] if each[key] not in known]


def old_ones(before: dict, after: dict, what: str, key="name") -> list:
    known = [each[key] for each in before.get(what, [])]
    return [each for each in after.get(what, []) if each[key] in known]


def rest(value: dict, *names) -> dict:
    return {name: each for name, each in value.items() if name not in names}


def invalid(pod: dict, version: str) -> list:
    """What an API server of that version would refuse."""
    lines = checks.invalid(pod, version)
    if lines:
        return lines
    spec = pod["spec"]
    volumes = [each["name"] for each in spec.get("volumes", [])]
    containers = [*spec.get("initContainers", []), *spec["containers"]]
    names = [each["name"] for each in containers]
    for what, found in (("volume", volumes), ("container", names)):
        if len(set(found)) != len(found):
            lines.append(f"two of a name: {what}")
    for each in containers:
        mounts = each.get("volumeMounts", [])
        if len({mount["mountPath"] for mount in mounts}) != len(mounts):
            lines.append(f"{each['name']}: two mounts at a path")
        lines += [f"{each['name']}: no volume {m['name']}" for m in mounts if m["name"] not in volumes]
    return lines
