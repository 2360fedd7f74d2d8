"""Custom resources against what their projects publish. PyTorchJob and JobSet: the projects' own Python
models, out of PyPI. MPIJob v2beta1, LeaderWorkerSet and Volcano's Job are in no registry: the fields that
the examples use are listed here, and with SELVAGE_TEST_CRDS=DIR each object is held against the CRDs
in that directory, strictly."""

import ast
import importlib.metadata
import os
import pathlib
import re

import jsonschema
import yaml
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet

# What is a pod's, or any object's, is checked with Kubernetes' own schemas.
BUILT_IN = {"V1PodTemplateSpec", "V1ObjectMeta"}
POLICY = {"minAvailable": int, "queue": str}
RUN_POLICY = {
    "activeDeadlineSeconds": int, "backoffLimit": int, "cleanPodPolicy": {"None", "Running", "All"},
    "schedulingPolicy": POLICY, "ttlSecondsAfterFinished": int,
}
REPLICA = {"replicas": int, "restartPolicy": {"Always", "OnFailure", "Never"}, "template": dict}
EVENT = [{"event": {"PodFailed", "PodEvicted", "TaskCompleted"},
          "action": {"RestartJob", "CompleteJob", "AbortJob"}}]
# Read off the CRDs of MPI operator (July 2026), LeaderWorkerSet (August 2026), Volcano (June 2026).
SHAPES = {
    ("kubeflow.org/v2beta1", "MPIJob"): {
        "slotsPerWorker": int,
        "launcherCreationPolicy": {"AtStartup", "WaitForWorkersReady"},
        "runPolicy": RUN_POLICY,
        "mpiReplicaSpecs": {"Launcher": REPLICA, "Worker": REPLICA},
    },
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): {
        "replicas": int,
        "startupPolicy": {"LeaderCreated", "LeaderReady"},
        "leaderWorkerTemplate": {
            "size": int, "restartPolicy": {"None", "RecreateGroupOnPodRestart"},
            "leaderTemplate": dict, "workerTemplate": dict,
        },
    },
    ("batch.volcano.sh/v1alpha1", "Job"): {
        "schedulerName": str, "queue": str, "minAvailable": int, "maxRetry": int,
        "plugins": {"svc": [str], "pytorch": [str]},
        "policies": EVENT,
        "tasks": [{"name": str, "replicas": int, "policies": EVENT, "template": dict}],
    },
}


def complaints(found: dict) -> list:
    """Against what is published of its kind; none for built-in kinds."""
    what = (found["apiVersion"], found["kind"])
    if what == ("kubeflow.org/v1", "PyTorchJob"):
        return _kubeflow("KubeflowOrgV1PyTorchJob", found, "PyTorchJob")
    if what == ("jobset.x-k8s.io/v1alpha2", "JobSet"):
        return _jobset(found)
    if what in SHAPES:
        return _shape(SHAPES[what], found["spec"], f"{found['kind']}.spec")
    return []


def known(found: dict) -> bool:
    """Is it a kind that is checked here?"""
    return (found["apiVersion"], found["kind"]) in {
        *SHAPES, ("kubeflow.org/v1", "PyTorchJob"), ("jobset.x-k8s.io/v1alpha2", "JobSet"),
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


def directory():
    """Where CRDs of one's own are, or None."""
    named = os.environ.get("SELVAGE_TEST_CRDS")
    return pathlib.Path(named) if named else None


def against_crds(found: dict, where: pathlib.Path) -> list:
    """Against the CRD of its kind in that directory; an unknown field is a complaint."""
    group, _, version = found["apiVersion"].partition("/")
    for path in sorted(where.glob("*.yaml")):
        for crd in yaml.safe_load_all(path.read_text()):
            spec = (crd or {}).get("spec", {})
            if spec.get("group") != group or spec["names"]["kind"] != found["kind"]:
                continue
            for each in spec["versions"]:
                if each["name"] == version:
                    schema = _strict(each["schema"]["openAPIV3Schema"])
                    validator = jsonschema.Draft202012Validator(schema)
                    return [
                        f"{'.'.join(map(str, error.absolute_path))}: {error.message[:200]}"
                        for error in validator.iter_errors(found)
                    ]
    return [f"no CRD for {found['kind']} of {found['apiVersion']} in {where}"]


def _strict(schema):
    """Kubernetes prunes unknown fields; here they are errors."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    result = {name: _strict(each) if name not in ("default", "enum", "description") else each
              for name, each in schema.items() if name != "format"}
    closed = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    if closed and "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result["additionalProperties"] = False
    # `metadata` is any object's.
    if closed and {"apiVersion", "kind", "metadata"} <= schema["properties"].keys():
        result["properties"]["metadata"] = {"type": "object"}
    return result
