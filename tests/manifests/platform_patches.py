"""examples/platforms/*/patch.yaml, made from the pages' blocks: kustomize knows no merge keys of operators'
kinds and would replace whole lists. UPDATE_GOLDEN=1 tests/manifests/run test_platforms writes them anew."""

import copy
import json
import re

import render
from render import ROOT

PAGES = {path.stem: path.read_text() for path in (ROOT / "docs" / "platforms").glob("*.md")}
# Page and directory: that of the overlay.
PLATFORMS = {"aws-efa": "eks-efa", "azure-ib": "aks-ib", "gcp-tcpxo": "gke-tcpxo", "oci-roce": "oke",
             "openshift-sriov": "openshift"}
HEAD = "# In the pod template of a job;"
EXAMPLE = ROOT / "examples/pytorchjob/pytorchjob.yaml"
WHERE = ROOT / "examples/platforms"


def block(page: str) -> dict:
    """The one that goes into a pod template."""
    (text,) = [b for b in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if b.startswith(HEAD)]
    return render.yaml.safe_load(text)


def for_example(name: str, template: dict) -> dict:
    """The block with `job` under the name that it has in this template."""
    above = copy.deepcopy(block(PAGES[name]))
    above["spec"]["containers"][0]["name"] = template["spec"]["containers"][0]["name"]
    return above


def operations(below, above, path: str) -> list:
    """JSON 6902 (op, path, value) that lay one over the other: lists of named things by name (mounts by
    path), null takes away, a value replaces."""
    if isinstance(below, dict) and isinstance(above, dict):
        found = []
        for name, value in above.items():
            at = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            if value is None:
                found += [("remove", at)] if name in below else []
            elif name in below:
                found += operations(below[name], value, at)
            else:
                found.append(("add", at, value))
        return found
    key = "mountPath" if isinstance(above, list) and above and "mountPath" in above[0] else "name"
    if isinstance(below, list) and isinstance(above, list) and all(
        isinstance(each, dict) and key in each for each in [*below, *above]
    ):
        found, more = [], []
        for each in above:
            at = next((n for n, old in enumerate(below) if old[key] == each[key]), None)
            if at is not None:
                # An example that has changed is told, and not spoiled.
                found.append(("test", f"{path}/{at}/{key}", each[key]))
                found += operations(below[at], each, f"{path}/{at}")
            elif "image" in each:
                # A container: before the sidecar, which comes last.
                more.append(("add", f"{path}/{len(below) - 1}", each))
            else:
                more.append(("add", f"{path}/-", each))
        return found + more
    return [] if below == above else [("replace", path, copy.deepcopy(above))]


def patch(name: str) -> str:
    """The file for a platform."""
    (job,) = render.objects(EXAMPLE.read_text())
    lines = [f"# Made from docs/platforms/{name}.md by tests/manifests/platform_patches.py."]
    for role, replica in job["spec"]["pytorchReplicaSpecs"].items():
        template = replica["template"]
        lines.append(f"# {role}")
        for op, path, *value in operations(
            template, for_example(name, template), f"/spec/pytorchReplicaSpecs/{role}/template"
        ):
            lines += [f"- op: {op}", f"  path: {path}", *(f"  value: {json.dumps(each)}" for each in value)]
    return "\n".join(lines) + "\n"
