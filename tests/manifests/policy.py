"""Admission by policies of the API server, as the API server does it: which policies a request meets,
then their CEL expressions. Objects are plain maps, as they are there."""

import copy
import functools
import json
import re
import subprocess

import cel
import jsonpatch

from memo import remembered


class Request:
    """A write as admission sees it: `old` is None for a creation."""

    def __init__(self, group, resource, name, old, new, user, node, namespace=None):
        self.group, self.resource, self.name, self.namespace = group, resource, name, namespace
        self.operation = "CREATE" if old is None else "UPDATE"
        self.old, self.new, self.user, self.node = old, new, user, node

    def variables(self) -> dict:
        resource, _, subresource = self.resource.partition("/")
        user = {"username": self.user, "groups": ["system:serviceaccounts"]}
        if self.node is not None:
            user["extra"] = {
                "authentication.kubernetes.io/node-name": [self.node],
                "authentication.kubernetes.io/pod-name": ["selvage-x"],
            }
        request = {
            "operation": self.operation,
            "name": self.name,
            "resource": {"group": self.group, "version": "v1", "resource": resource},
            "subResource": subresource,
            "userInfo": user,
        }
        if self.namespace:
            request["namespace"] = self.namespace
        return {"object": self.new, "oldObject": self.old, "request": request}


class PythonEngine:
    """CEL from PyPI (the Rust implementation)."""

    @staticmethod
    @remembered
    def run(conditions, variables, validations, context, mutation="") -> dict:
        context = {**context, "variables": {}}
        told = [_told(each, context) for each in conditions]
        if False in told:  # The policy does not apply; the rest is not evaluated.
            variables, validations, mutation = [], [], ""
        for variable in variables:
            value = _value(variable["expression"], context)
            if not isinstance(value, Exception):
                context["variables"][variable["name"]] = value
        return {
            "conditions": told,
            "validations": [_told(each, context) for each in validations],
            "patch": _patch(mutation, context) if mutation else None,
            "cost": 0,
            "over_budget": False,
        }


def _patch(expression, context):
    # This engine cannot be taught the type JSONPatch: a map takes its place.
    text = re.sub(r"\b(op|path|value): ", r"'\1': ", expression.replace("JSONPatch{", "{"))
    value = _value(text, context)
    return value if isinstance(value, list) else str(value)


def _told(expression, context):
    value = _value(expression, context)
    if isinstance(value, Exception):
        return str(value) or repr(value)
    return value if isinstance(value, bool) else "not a boolean"


def _value(expression, context):
    try:
        return compiled(expression).execute(context)
    except Exception as error:
        return error


compiled = functools.cache(cel.compile)


class GoEngine:
    """cel-go, as the API server has it, by the program in celgo/."""

    def __init__(self, program):
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def run(self, conditions, variables, validations, context, mutation="") -> dict:
        asked = {
            "conditions": conditions,
            "variables": variables,
            "validations": validations,
            "mutation": mutation,
            "context": context,
        }
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the evaluator in celgo/ has ended")
        return json.loads(answer)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=120)
        self._process.stdout.close()


def denials(found: list, request: Request, engine) -> list:
    """Messages of the validations that refuse the request; empty: it is let through."""
    bound = {
        each["spec"]["policyName"]
        for each in found
        if each["kind"] == "ValidatingAdmissionPolicyBinding"
        and each["spec"]["validationActions"] == ["Deny"]
    }
    messages = []
    for policy in found:
        if policy["kind"] == "ValidatingAdmissionPolicy" and policy["metadata"]["name"] in bound:
            messages += _denials(policy["spec"], request, engine)
    return messages


def mutated(found: list, request: Request, engine) -> dict:
    """The object as MutatingAdmissionPolicies leave it. What goes wrong is raised: in a cluster
    `failurePolicy: Ignore` would hide it."""
    bound = {
        each["spec"]["policyName"]
        for each in found
        if each["kind"] == "MutatingAdmissionPolicyBinding"
    }
    request = copy.copy(request)
    for policy in found:
        if policy["kind"] == "MutatingAdmissionPolicy" and policy["metadata"]["name"] in bound:
            for mutation in policy["spec"]["mutations"]:
                request.new = _mutated(policy["spec"], mutation, request, engine)
    return request.new


def _mutated(spec: dict, mutation: dict, request: Request, engine) -> dict:
    constraints = spec["matchConstraints"]
    if not any(_matches(rule, request) for rule in constraints["resourceRules"]):
        return request.new
    for term in constraints["namespaceSelector"]["matchExpressions"]:
        if (term["key"], term["operator"]) != ("kubernetes.io/metadata.name", "NotIn"):
            raise ValueError(f"a selector that is not known here: {term}")
        if request.namespace in term["values"]:
            return request.new
    if mutation["patchType"] != "JSONPatch":
        raise ValueError(f"a mutation that is not known here: {mutation['patchType']}")
    answer = engine.run(
        [each["expression"] for each in spec["matchConditions"]],
        spec["variables"],
        [],
        request.variables(),
        mutation["jsonPatch"]["expression"],
    )
    if False in answer["conditions"]:
        return request.new
    if answer["conditions"].count(True) != len(answer["conditions"]) or answer["over_budget"]:
        raise ValueError(f"{answer['conditions']}, cost {answer['cost']}")
    if isinstance(answer["patch"], str):
        raise ValueError(answer["patch"])
    return jsonpatch.JsonPatch(answer["patch"]).apply(request.new)


def _denials(spec: dict, request: Request, engine) -> list:
    rules = spec["matchConstraints"]["resourceRules"]
    if not any(_matches(rule, request) for rule in rules):
        return []
    conditions = spec.get("matchConditions", [])
    answer = engine.run(
        [each["expression"] for each in conditions],
        spec.get("variables", []),
        [each["expression"] for each in spec["validations"]],
        request.variables(),
    )
    if False in answer["conditions"]:
        return []
    messages = [f"condition ({each})" for each in answer["conditions"] if each is not True]
    if answer["over_budget"]:
        messages.append(f"costs more than a policy may ({answer['cost']})")
    for validation, holds in zip(spec["validations"], answer["validations"]):
        if holds is False:
            messages.append(validation["message"])
        elif holds is not True and spec.get("failurePolicy") != "Ignore":
            messages.append(f"{validation['message']} ({holds})")
    return messages


def _matches(rule: dict, request: Request) -> bool:
    scope = "Namespaced" if request.namespace else "Cluster"
    return (
        request.group in rule["apiGroups"]
        and request.resource in rule["resources"]
        and request.operation in rule["operations"]
        and rule.get("scope", "*") in ("*", scope)
    )
