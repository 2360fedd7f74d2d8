#!/usr/bin/env python3
"""Writes the chart's README.md and values.schema.json from the comments and defaults of its values.yaml.
With --check it writes nothing and says which of them are not what it would write. Needs PyYAML."""

import json
import re
import sys
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parent / "selvage"
TYPES = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
# What a default does not say of its value.
RULES = {
    "platform": {"enum": ["bare-metal-ib", "bare-metal-roce", "eks-efa", "aks-ib", "gke", "gke-tcpxo", "oke",
                          "openshift"]},
    "settings": {"type": ["object", "string"]},
    "prefix": {"pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/$"},
    "port": {"minimum": 1, "maximum": 65535},
    "image.repository": {"minLength": 1},
    "image.digest": {"pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "global.imagePullSecrets": {"items": {"type": ["string", "object"]}},
    "image.pullSecrets": {"items": {"type": ["string", "object"]}},
    "extraArgs": {"items": {"type": "string"}},
    "extraObjects": {"items": {"type": ["string", "object"]}},
    "alerts.disabled": {"additionalProperties": {"type": "boolean"}},
    "alerts.severities": {"additionalProperties": {"type": "string"}},
}


def comments(text: str) -> dict:
    """The comment above each key, by its path."""
    found, above, path = {}, [], []
    for line in text.splitlines():
        if comment := re.match(r" *# ?(.*)", line):
            above.append(comment[1])
            continue
        if key := re.match(r"( *)([A-Za-z]\w*):", line):
            path = [*path[: len(key[1]) // 2], key[2]]
            if above:
                found[".".join(path)] = " ".join(above)
        above = []
    return found


def rows(values: dict, said: dict, path: str = "") -> list:
    """(path, default, comment) of each value; a table is one value unless its own values have comments."""
    found = []
    for name, value in values.items():
        here = f"{path}{name}"
        inner = isinstance(value, dict) and value and (
            set(value) == {"enabled"} or any(each.startswith(f"{here}.") for each in said))
        if inner:
            below = {f"{here}.enabled": said[here]} if set(value) == {"enabled"} and here in said else {}
            found += rows(value, {**said, **below}, f"{here}.")
        else:
            found.append((here, value, said[here]))
    return found


def readme(found: list) -> str:
    lines = [f"| `{path}` | `{json.dumps(default)}` | {comment} |" for path, default, comment in found]
    return HEAD + "\n".join(["| value | default | meaning |", "|---|---|---|", *lines]) + "\n"


def schema(found: list) -> str:
    """What it does not know, it lets pass; NOTES.txt names it."""
    top = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {}}
    for path, default, comment in found:
        table, *names = top, *path.split(".")
        for name in names[:-1]:
            table = table["properties"].setdefault(name, {"type": "object", "properties": {}})
        table["properties"][names[-1]] = {
            "description": comment, "type": TYPES[type(default)], "default": default, **RULES.get(path, {})}
    return json.dumps(top, indent=2, ensure_ascii=False) + "\n"


HEAD = """\
# selvage

Node agent that checks a GPU node's RDMA fabric and tells Kubernetes; the same objects as `manifests/overlays`.
[docs/install.md](../../../docs/install.md) says how it is installed, looked after and removed;
[examples](../examples) has whole files of values.

```
kubectl create namespace selvage
kubectl label namespace selvage pod-security.kubernetes.io/enforce=privileged
helm install selvage manifests/helm/selvage -n selvage --set image.repository=registry.example.com/selvage \\
    --set platform=eks-efa --set dryRun=true
helm test selvage -n selvage
```

Where kube-prometheus-stack runs with its defaults, `--set kubePrometheusStack=RELEASE` with the name of its release is
all that scraping, alerts and dashboards need.

**Several releases** (a canary, another node group) live side by side in one namespace: objects and the pods' selectors
carry the release's name. So do objects of the cluster, so the names must differ in two namespaces as well. Each node
gets one agent: tell the releases' nodes apart by `nodeSelector`. Releases in one namespace share the budget of tainted
nodes; in several they do where `settings.cluster.namespace` names the same one. Switch dashboards and alerts on in one.

## Values

Made from [values.yaml](values.yaml) by `manifests/helm/generate.py`, as is the schema. Helm takes values that the chart
does not know; the notes of the install name them.

"""


def made() -> dict:
    """Text of each file by path."""
    text = (CHART / "values.yaml").read_text()
    found = rows(yaml.safe_load(text), comments(text))
    return {CHART / "README.md": readme(found), CHART / "values.schema.json": schema(found)}


def main(arguments: list) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: generate.py [--check]", file=sys.stderr)
        return 64
    stale = [path for path, text in made().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if arguments:
            print(f"{path} is not what generate.py writes", file=sys.stderr)
        else:
            path.write_text(made()[path])
    return 1 if stale and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
