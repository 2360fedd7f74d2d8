"""Admission by ValidatingAdmissionPolicy, as the API server does it: which policies a request meets,
then their CEL expressions. Objects are plain maps, as they are there."""

import json
import subprocess

import cel


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

    def run(self, conditions, variables, validations, context) -> dict:
        context = {**context, "variables": {}}
        told = [self._told(each, context) for each in conditions]
        for variable in variables:
            value = self._value(variable["expression"], context)
            if not isinstance(value, Exception):
                context["variables"][variable["name"]] = value
        return {
            "conditions": told,
            "validations": [self._told(each, context) for each in validations],
            "cost": 0,
            "over_budget": False,
        }

    def _told(self, expression, context):
        value = self._value(expression, context)
        if isinstance(value, Exception):
            return str(value) or repr(value)
        return value if isinstance(value, bool) else "not a boolean"

    def _value(self, expression, context):
        try:
            return cel.evaluate(expression, context)
        except Exception as error:
            return error


class GoEngine:
    """cel-go, as the API server has it, by the program in celgo/."""

    def __init__(self, program):
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def run(self, conditions, variables, validations, context) -> dict:
        asked = {
            "conditions": conditions,
            "variables": variables,
            "validations": validations,
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
        self._process.wait(timeout=10)
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
