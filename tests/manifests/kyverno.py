"""Kyverno's mutate rules, as far as manifests/injection uses them; anything else is an error. Written
after Kyverno's engine of August 2026 (pkg/engine: mutate, variables, operator), which could not be
run here. JMESPath is PyPI's; Kyverno's own tells a missing key from null, which no expression here
may depend on: a null where a value is needed is an error, as it is there."""

import json
import re

import jmespath
import jsonpatch
import yaml

from memo import copied, remembered

# Kyverno's RegexVariables: braces within a variable may be nested once.
VARIABLE = re.compile(r"(?<!\\)\{\{(?:\{[^{}]*\}|[^{}])*\}\}")


@remembered
def mutated(policy: dict, pod: dict, namespace: str, operation="CREATE", fresh=True) -> dict:
    """The pod as the policy leaves it. `fresh`: a rule's variables see what earlier rules did."""
    original, pod = pod, copied(pod)
    for rule in policy["spec"]["rules"]:
        seen = copied(pod) if fresh else original
        context = {"request": {"object": seen, "operation": operation, "namespace": namespace}}
        if not any(_selects(each, namespace, operation) for each in rule["match"]["any"]):
            continue
        if any(_selects(each, namespace, operation) for each in rule["exclude"]["any"]):
            continue
        for entry in rule.get("context", []):
            context[entry["name"]] = _query(entry["variable"]["jmesPath"], context)
        if _hold(rule["preconditions"], context):
            pod = _mutate(rule["mutate"], pod, context)
    return pod


def _selects(each: dict, namespace: str, operation: str) -> bool:
    terms = dict(each["resources"])
    selected = (
        "Pod" in terms.pop("kinds", ["Pod"])
        and operation in terms.pop("operations", [operation])
        and namespace in terms.pop("namespaces", [namespace])
    )
    if terms or set(each) != {"resources"}:
        raise ValueError(f"a selection that is not known here: {each}")
    return selected


def _query(expression: str, context: dict):
    value = jmespath.search(expression, context)
    if value is None:
        raise ValueError(f"nothing found by {expression}")
    return value


def _hold(conditions: dict, context: dict) -> bool:
    (how,) = conditions
    if how != "all":
        raise ValueError(f"conditions that are not known here: {how}")
    results = []
    for each in conditions["all"]:
        if each["operator"] != "Equals":
            raise ValueError(f"an operator that is not known here: {each['operator']}")
        key = substituted(each["key"], context)
        # 0 is not false, and 1 not true.
        results.append(type(key) is type(each["value"]) and key == each["value"])
    return all(results)


def substituted(value, context: dict):
    """With each variable's value in its place: a text that is a variable alone takes its type."""
    if isinstance(value, dict):
        return {name: substituted(each, context) for name, each in value.items()}
    if isinstance(value, list):
        return [substituted(each, context) for each in value]
    if not isinstance(value, str):
        return value

    def query(text: str):
        # All double braces go, also those of a literal within.
        return _query(text.replace("{{", "").replace("}}", "").strip(), context)

    if VARIABLE.fullmatch(value):
        return query(value)

    def text(match: re.Match) -> str:
        found = query(match[0])
        return found if isinstance(found, str) else json.dumps(found)

    return VARIABLE.sub(text, value)


def _mutate(mutate: dict, pod: dict, context: dict) -> dict:
    ((how, what),) = mutate.items()
    if how == "patchStrategicMerge":
        return merged(pod, substituted(what, context))
    if how != "foreach":
        raise ValueError(f"a mutation that is not known here: {how}")
    for each in what:
        if set(each) != {"list", "preconditions", "patchesJson6902"}:
            raise ValueError(f"a loop that is not known here: {set(each)}")
        for index, element in enumerate(_query(each["list"], context)):
            inner = {**context, "element": element, "elementIndex": index}
            if _hold(each["preconditions"], inner):
                pod = _patched(pod, substituted(each["patchesJson6902"], inner))
        # The next loop sees what this one did.
        context["request"] = {**context["request"], "object": copied(pod)}
    return pod


def _patched(pod: dict, text: str) -> dict:
    for operation in yaml.load(text, yaml.CSafeLoader):
        if operation["op"] != "add":
            raise ValueError(f"an operation that is not known here: {operation['op']}")
        # EnsurePathExistsOnAdd: a list where a number or the end of a list is named.
        pod = copied(pod)
        steps = operation["path"].split("/")[1:]
        here = pod
        for step, following in zip(steps, steps[1:]):
            if isinstance(here, list):
                here = here[int(step)]
            else:
                empty = [] if following == "-" or following.isdigit() else {}
                here = here.setdefault(step, empty)
        pod = jsonpatch.JsonPatch([operation]).apply(pod)
    return pod


def merged(base, patch):
    """A strategic merge: objects in these lists go by name, and new ones come first."""
    if not (isinstance(base, dict) and isinstance(patch, dict)):
        return copied(patch)
    result = dict(base)
    for name, value in patch.items():
        if name in ("initContainers", "containers", "volumes"):
            old = {each["name"]: each for each in base.get(name) or []}
            new = [each for each in value if each["name"] not in old]
            changed = {each["name"]: each for each in value}
            kept = [merged(each, changed.get(key, {})) for key, each in old.items()]
            result[name] = copied(new) + kept
        else:
            result[name] = merged(base.get(name), value)
    return result
