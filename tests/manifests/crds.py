"""Custom resources against what is published of them. PyTorchJob and JobSet: the projects' own Python
models, from PyPI. Volcano's Job, LeaderWorkerSet, Karpenter's NodePool and Kueue's ResourceFlavor: types that are generated from the projects' CRDs, from
crates.io. MPIJob v2beta1 and NodeReadinessRule are in no registry: their fields are listed here."""

import ast
import functools
import importlib.metadata
import os
import pathlib
import re
import subprocess

from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet

# What is a pod's, or any object's, is checked with Kubernetes' own schemas.
BUILT_IN = {"V1PodTemplateSpec", "V1ObjectMeta"}
POLICY = {"minAvailable": int, "queue": str}
RUN_POLICY = {
    "activeDeadlineSeconds": int, "backoffLimit": int, "cleanPodPolicy": {"None", "Running", "All"},
    "schedulingPolicy": POLICY, "ttlSecondsAfterFinished": int,
}
REPLICA = {"replicas": int, "restartPolicy": {"Always", "OnFailure", "Never"}, "template": dict}
STATUS = {"True", "False", "Unknown"}
# Read off the CRD of MPI operator (July 2026).
SHAPES = {
    ("kubeflow.org/v2beta1", "MPIJob"): {
        "slotsPerWorker": int,
        "launcherCreationPolicy": {"AtStartup", "WaitForWorkersReady"},
        "runPolicy": RUN_POLICY,
        "mpiReplicaSpecs": {"Launcher": REPLICA, "Worker": REPLICA},
    },
    # Read off node-readiness-controller's types (August 2026).
    ("readiness.node.x-k8s.io/v1alpha1", "NodeReadinessRule"): {
        "conditions": [{"type": str, "requiredStatus": STATUS, "defaultStatus": STATUS}],
        "conditionPolicy": {"allOf", "anyOf"},
        "dryRun": bool,
        "enforcementMode": {"bootstrap-only", "continuous"},
        "nodeSelector": {"matchLabels": dict, "matchExpressions": list},
        "taint": {"key": str, "value": str, "effect": {"NoSchedule", "PreferNoSchedule", "NoExecute"}},
    },
}
ACTIONS = {"AbortJob", "RestartJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob"}
# Crates of types that kopium generates from CRDs: (crate, version, file, type of the spec).
CRATES = {
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): (
        "kcr_leaderworkerset_x_k8s_io", "3.20260530.173522", "v1/leaderworkersets.rs", "LeaderWorkerSetSpec"),
    ("batch.volcano.sh/v1alpha1", "Job"): (
        "kcr_batch_volcano_sh", "3.20260603.204836", "v1alpha1/jobs.rs", "JobSpec"),
    ("karpenter.sh/v1", "NodePool"): (
        "kcr_karpenter_sh", "3.20260617.202946", "v1/nodepools.rs", "NodePoolSpec"),
    ("kueue.x-k8s.io/v1beta1", "ResourceFlavor"): (
        "kcr_kueue_x_k8s_io", "3.20260529.113958", "v1beta1/resourceflavors.rs", "ResourceFlavorSpec"),
}


def complaints(found: dict) -> list:
    """Against what is published of its kind; none for built-in kinds."""
    what = (found["apiVersion"], found["kind"])
    if what == ("kubeflow.org/v1", "PyTorchJob"):
        return _kubeflow("KubeflowOrgV1PyTorchJob", found, "PyTorchJob")
    if what == ("jobset.x-k8s.io/v1alpha2", "JobSet"):
        return _jobset(found)
    if what in CRATES:
        *crate, spec = CRATES[what]
        actions = _actions(found["spec"]) if found["kind"] == "Job" else []
        return _rust(_types(*crate), spec, found["spec"], f"{found['kind']}.spec") + actions
    if what in SHAPES:
        return _shape(SHAPES[what], found["spec"], f"{found['kind']}.spec")
    return []


def known(found: dict) -> bool:
    """Is it a kind that is checked here?"""
    return (found["apiVersion"], found["kind"]) in {
        *SHAPES, *CRATES, ("kubeflow.org/v1", "PyTorchJob"), ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    }


def _shape(shape, value, path: str) -> list:
    if isinstance(shape, set):
        return [] if value in shape else [f"{path}: {value!r} is none of {sorted(shape)}"]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{path}: not a list"]
        return [line for n, each in enumerate(value) for line in _shape(shape[0], each, f"{path}[{n}]")]
    if isinstance(shape, type):
        # True is an int to Python.
        fits = isinstance(value, shape) and not (shape is int and isinstance(value, bool))
        return [] if fits else [f"{path}: {value!r} is no {shape.__name__}"]
    if not isinstance(value, dict):
        return [f"{path}: no object"]
    lines = []
    for name, each in value.items():
        here = f"{path}.{name}"
        lines += _shape(shape[name], each, here) if name in shape else [f"{here}: no such field"]
    return lines


def _kubeflow(model: str, value, path: str) -> list:
    """The generated classes hold types and names as plain tables; they are read, not run: running them
    would need a whole client."""
    if value is None or model in BUILT_IN:
        return []
    if listed := re.fullmatch(r"(list|dict)\((?:str, )?(\w+)\)", model):
        if not isinstance(value, {"list": list, "dict": dict}[listed[1]]):
            return [f"{path}: no {listed[1]}"]
        pairs = value.items() if listed[1] == "dict" else enumerate(value)
        return [line for name, each in pairs for line in _kubeflow(listed[2], each, f"{path}.{name}")]
    if model in ("str", "int", "bool"):
        kind = {"str": str, "int": int, "bool": bool}[model]
        return [] if type(value) is kind else [f"{path}: {value!r} is no {model}"]
    types, names = _tables(model)
    if not isinstance(value, dict):
        return [f"{path}: no object"]
    by_name = {written: types[name] for name, written in names.items()}
    lines = []
    for name, each in value.items():
        here = f"{path}.{name}"
        lines += _kubeflow(by_name[name], each, here) if name in by_name else [f"{here}: no such field"]
    return lines


def _tables(model: str) -> tuple:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", model).lower()
    base = importlib.metadata.distribution("kubeflow-training").locate_file("kubeflow/training/models")
    tree = ast.parse(pathlib.Path(str(base), f"{words}.py").read_text())
    tables = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            tables[getattr(node.targets[0], "id", None)] = ast.literal_eval(node.value)
    return tables["openapi_types"], tables["attribute_map"]


def _jobset(found: dict) -> list:
    try:
        read = JobsetV1alpha2JobSet.from_dict(found)
    except ValueError as error:
        return [f"JobSet: {error}"]
    return _lost(found, read.to_dict(), "JobSet")


def _lost(given, read, path: str) -> list:
    """What the models did not take over, as they know no such field. Pods are not gone into."""
    if isinstance(given, dict):
        if not isinstance(read, dict):
            return [f"{path}: no object"]
        lines = []
        for name, each in given.items():
            here = f"{path}.{name}"
            if name not in read:
                lines.append(f"{here}: no such field")
            elif not here.endswith(".template.spec.template"):
                lines += _lost(each, read[name], here)
        return lines
    if isinstance(given, list) and isinstance(read, list):
        return [line for n, pair in enumerate(zip(given, read)) for line in _lost(*pair, f"{path}[{n}]")]
    return []


def _actions(spec: dict) -> list:
    """Volcano's actions are any text to the CRD; its webhook knows which there are."""
    policies = [each for part in (spec, *spec.get("tasks", [])) for each in part.get("policies", [])]
    return [f"Job: {each['action']!r} is no action" for each in policies if each.get("action") not in ACTIONS]


@functools.cache
def _types(crate: str, version: str, file: str) -> dict:
    """The types of a crate's file: of a struct its fields (name in YAML: type), of an enum its words."""
    registry = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo")) / "registry/src"
    found = f"*/{crate}-{version}/src/{file}"
    if not any(registry.glob(found)):
        # Downloads the crate alone; nothing is built.
        subprocess.run(["cargo", "info", "--quiet", f"{crate}@{version}"], check=True, capture_output=True)
    text = next(registry.glob(found)).read_text()
    types = {}
    for kind, name, body in re.findall(r"^pub (struct|enum) (\w+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        field = r"(?:#\[serde\(([^\n]*)\)\]\n\s*)?" + (r"pub (?:r#)?(\w+): (.+),$" if kind == "struct" else r"(\w+)(),$")
        types[name] = entries = {}
        for serde, plain, of in re.findall(field, body, re.MULTILINE):
            renamed = re.search(r'rename = "([^"]+)"', serde)
            entries[renamed[1] if renamed else plain] = of
    return types


def _rust(types: dict, of: str, value, path: str) -> list:
    """A value against a Rust type. Pods' own types are checked with Kubernetes' schemas."""
    if optional := re.fullmatch(r"Option<(.*)>", of):
        return _rust(types, optional[1], value, path)
    if re.search(r"(Leader|Worker|Tasks)Template$", of):
        return []
    if listed := re.fullmatch(r"(Vec|BTreeMap)<(?:String, )?(.*)>", of):
        if not isinstance(value, {"Vec": list, "BTreeMap": dict}[listed[1]]):
            return [f"{path}: {value!r} is no {listed[1]}"]
        pairs = enumerate(value) if listed[1] == "Vec" else value.items()
        return [line for name, each in pairs for line in _rust(types, listed[2], each, f"{path}.{name}")]
    plain = {"i32": int, "i64": int, "bool": bool, "String": str}
    if of in plain:
        return [] if type(value) is plain[of] else [f"{path}: {value!r} is no {of}"]
    if of not in types:
        return [f"{path}: a {of}, which is not understood here"]
    fields = types[of]
    if not isinstance(value, dict):
        return [] if value in fields and not any(fields.values()) else [f"{path}: {value!r} is none of {sorted(fields)}"]
    lines = [f"{path}: {name} is missing" for name, kind in fields.items()
             if not kind.startswith("Option<") and name not in value]
    for name, each in value.items():
        here = f"{path}.{name}"
        lines += _rust(types, fields[name], each, here) if name in fields else [f"{here}: no such field"]
    return lines
