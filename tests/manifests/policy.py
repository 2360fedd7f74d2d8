"""Admission by ValidatingAdmissionPolicy, as the API server does it: which policies a request meets,
then their CEL expressions. Objects are plain maps, as they are there."""

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


def denials(found: list, request: Request) -> list:
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
            messages += _denials(policy["spec"], request)
    return messages


def _denials(spec: dict, request: Request) -> list:
    rules = spec["matchConstraints"]["resourceRules"]
    if not any(_matches(rule, request) for rule in rules):
        return []
    context = request.variables()
    messages = []
    for condition in spec.get("matchConditions", []):
        holds = _value(condition["expression"], context)
        if holds is False:
            return []
        if holds is not True:
            messages.append(f"condition {condition['name']}: {holds!r}")
    context["variables"] = {}
    for variable in spec.get("variables", []):
        context["variables"][variable["name"]] = _value(variable["expression"], context)
    for validation in spec["validations"]:
        holds = _value(validation["expression"], context)
        if isinstance(holds, Exception) and spec["failurePolicy"] == "Ignore":
            continue
        if holds is not True:
            detail = f" ({holds})" if isinstance(holds, Exception) else ""
            messages.append(validation["message"] + detail)
    return messages


def _matches(rule: dict, request: Request) -> bool:
    scope = "Namespaced" if request.namespace else "Cluster"
    return (
        request.group in rule["apiGroups"]
        and request.resource in rule["resources"]
        and request.operation in rule["operations"]
        and rule.get("scope", "*") in ("*", scope)
    )


def _value(expression: str, context: dict):
    """The expression's value, or the exception that its evaluation ended in."""
    try:
        return cel.evaluate(expression, context)
    except Exception as error:
        return error
