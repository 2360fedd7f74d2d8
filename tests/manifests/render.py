"""Renders the manifests, by kustomize and by Helm, into comparable objects."""

import copy
import json
import os
import pathlib
import re
import subprocess
import tomllib

import helm_python
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"
OVERLAYS = sorted(path.name for path in (MANIFESTS / "overlays").iterdir() if path.is_dir())
COMPONENTS = sorted(path.name for path in (MANIFESTS / "components").iterdir() if path.is_dir())
# What only Helm can say.
HELM_LABELS = ("helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version")


def kustomize(directory) -> list:
    """The objects that `kubectl apply -k` would send."""
    done = subprocess.run(
        [os.environ["KUBECTL"], "kustomize", str(directory)], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"kustomize {directory}: {done.stderr}")
    # kustomize warns of deprecated fields, and goes on.
    if done.stderr.strip():
        raise RuntimeError(f"kustomize {directory} warns: {done.stderr}")
    return objects(done.stdout)


def templates(values: dict, manifests=None, namespace="selvage", release="selvage") -> dict:
    """What the chart's templates make of these values, by their paths."""
    with helm_python.Chart.load(str((manifests or MANIFESTS) / "helm" / "selvage")) as chart:
        return chart.render(values, name=release, namespace=namespace)


def helm(values: dict, hooks=False, **more) -> list:
    """The objects of the chart with these values; or its hooks."""
    rendered = templates(values, **more)
    found = []
    for name, text in rendered.items():
        if name.endswith(".yaml"):
            found += objects(text)
    return [each for each in found if ("helm.sh/hook" in each["metadata"].get("annotations", {})) is hooks]


def objects(text: str) -> list:
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


def key(each: dict) -> tuple:
    meta = each["metadata"]
    return (each["apiVersion"], each["kind"], meta.get("namespace"), meta["name"])


def normalised(found: list) -> dict:
    """Objects by key, without the ways in which kustomize and Helm differ on purpose: kustomize
    names the ConfigMap by its content, where Helm puts a checksum on the pods and says in labels what
    it installed; and settings are compared as settings, not as text.
    """
    known = {}
    for each in found:
        each = copy.deepcopy(each)
        for label in HELM_LABELS:
            each["metadata"].get("labels", {}).pop(label, None)
        if each["kind"] == "ConfigMap":
            each["metadata"]["name"] = without_hash(each["metadata"]["name"])
            parse = {"toml": tomllib.loads, "json": json.loads}
            each["data"] = {
                name: parse[name.rpartition(".")[2]](text) for name, text in each["data"].items()
            }
        if each["kind"] == "DaemonSet":
            template = each["spec"]["template"]
            annotations = template["metadata"].get("annotations", {})
            if annotations.pop("checksum/config", None) and not annotations:
                del template["metadata"]["annotations"]
            for volume in template["spec"]["volumes"]:
                if "configMap" in volume:
                    volume["configMap"]["name"] = without_hash(volume["configMap"]["name"])
        if key(each) in known:
            raise ValueError(f"two objects are called {key(each)}")
        known[key(each)] = each
    return known


def without_hash(name: str) -> str:
    return re.sub(r"^(selvage-settings)-[a-z0-9]{10}$", r"\1", name)


def differences(one: list, other: list) -> list:
    """What differs, a line each: path, left, right."""
    left, right = normalised(one), normalised(other)
    lines = []
    for name in sorted(left.keys() | right.keys(), key=str):
        if name not in left or name not in right:
            lines.append(f"{name}: only {'right' if name not in left else 'left'}")
        else:
            lines += differing(str(name), left[name], right[name])
    return lines


def differing(path: str, left, right) -> list:
    if isinstance(left, dict) and isinstance(right, dict):
        lines = []
        for name in sorted(left.keys() | right.keys()):
            lines += differing(f"{path}.{name}", left.get(name), right.get(name))
        return lines
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        lines = []
        for index, (a, b) in enumerate(zip(left, right)):
            lines += differing(f"{path}[{index}]", a, b)
        return lines
    return [] if left == right else [f"{path}: {left!r} != {right!r}"]


def of_kind(found: list, kind: str) -> list:
    return [each for each in found if each["kind"] == kind]


def the(found: list, kind: str) -> dict:
    (only,) = of_kind(found, kind)
    return only
