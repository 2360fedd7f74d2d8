"""What injection of preflight and placement must do to pods: one row a case, for both policies."""

import copy

from injection_cases import HELPER, INIT, POD, SECOND, SEEDS, UNTOUCHED, W, each_case, invalid, new_ones, old_ones, rest
from policy_cases import append, both, drop, nothing, put

OURS = "selvage.dev/preflight"
WARN, FAIL = ["preflight", "--warn", "--gpus", "8"], ["preflight", "--fail-on=unready", "--gpus", "8"]
# Fields that the preflight has as the job's container has them.
SAME = {"resources": {}, "securityContext": {}, "volumeMounts": [], "envFrom": []}


class Expect:
    """What is there after: the preflight's arguments (None: no new one), and the node selector."""

    def __init__(self, args=WARN, placed=True, like="worker"):
        self.args, self.placed, self.like = args, placed, like


def annotated(**values):
    values = {{"ours": OURS, "seeds": SEEDS}[name]: value for name, value in values.items()}
    return put("metadata", "annotations", values)


def affinity(key):
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["ready", "degraded"]}]}
    return put("spec", "affinity", {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}})


def env(*entries):
    return put(*W, "env", [*POD["spec"]["containers"][0]["env"], *entries])


# Name, edit of the pod, what is expected, namespace (the default where there is none).
CASES = [
    ("ours, to warn", nothing, Expect()),
    ("ours, to place", annotated(ours="place"), Expect(None)),
    ("ours, to place, over the seeds'", annotated(ours="place", seeds="false"), Expect(None)),
    # Its own platform's policies add the devices, perhaps later.
    ("the seeds' annotation places", annotated(seeds="true"), Expect(None)),
    ("the seeds' annotation, a launcher", both(annotated(seeds="true"), drop(*W, "resources")), UNTOUCHED),
    ("the seeds' annotation, placed already",
     both(annotated(seeds="true"), put("spec", "nodeSelector", {"selvage.dev/fabric": "ready"})), UNTOUCHED),
    ("ours, to fail", annotated(ours="fail"), Expect(FAIL)),
    ("ours wins: to fail", annotated(ours="fail", seeds="true"), Expect(FAIL)),
    ("ours false wins over the seeds'", annotated(ours="false", seeds="true"), UNTOUCHED),
    ("ours empty: the seeds' decides", annotated(ours="", seeds="true"), Expect(None)),
    ("ours wins: to warn", annotated(ours="warn", seeds="false"), Expect()),
    ("another word", annotated(ours="true"), UNTOUCHED),
    ("the seeds' false", annotated(seeds="false"), UNTOUCHED),
    ("no annotations", drop("metadata", "annotations"), UNTOUCHED),
    ("other annotations", put("metadata", "annotations", {"a": "b", "selvage.dev/nccl": "true"}), UNTOUCHED),
    ("kube-system", nothing, UNTOUCHED, "kube-system"),
    ("our own namespace", nothing, UNTOUCHED, "selvage"),
    ("Windows", put("spec", "os", {"name": "windows"}), UNTOUCHED),
    ("Windows by node selector", put("spec", "nodeSelector", {"kubernetes.io/os": "windows"}), UNTOUCHED),
    ("a launcher, without GPUs", put(*W, "resources", {"limits": {"cpu": "1"}}), UNTOUCHED),
    ("no resources at all", drop(*W, "resources"), UNTOUCHED),
    ("EFA", put(*W, "resources", {"limits": {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"}}), Expect()),
    ("GPUs by claim", put(*W, "resources", {"claims": [{"name": "gpus"}]}), Expect(WARN[:2])),
    ("AMD", put(*W, "resources", {"limits": {"amd.com/gpu": 8}}), Expect(WARN[:2])),
    ("slices", put("spec", "containers", [SECOND]), Expect(WARN[:2], like="second")),
    ("a helper without GPUs comes first", put("spec", "containers", [HELPER, POD["spec"]["containers"][0]]), Expect()),
    ("two GPU containers: as the first", append("spec", "containers", SECOND), Expect()),
    ("no env, no mounts", both(drop(*W, "env"), drop(*W, "volumeMounts")), Expect()),
    ("rights of the job's", put(*W, "securityContext", {"capabilities": {"add": ["IPC_LOCK"]}}), Expect()),
    ("env from a ConfigMap", put(*W, "envFrom", [{"configMapRef": {"name": "nccl"}}]), Expect()),
    ("the operator's variables: nobody listens yet",
     env({"name": "MASTER_ADDR", "value": "train-0"}, {"name": "RANK", "value": "0"}), Expect()),
    ("init containers", put("spec", "initContainers", [INIT]), Expect()),
    ("a preflight by hand", put("spec", "initContainers", [{"name": "selvage-preflight", "image": "own"}]), Expect(None)),
    ("another node selector", put("spec", "nodeSelector", {"pool": "gpu"}), Expect()),
    ("placed by a node selector", put("spec", "nodeSelector", {"selvage.dev/fabric": "degraded"}), Expect(placed=False)),
    ("placed by an affinity", affinity("selvage.dev/fabric"), Expect(placed=False)),
    ("an affinity for something else", affinity("selvage.dev/fabric-kind"), Expect()),
    ("an affinity that only prefers", put("spec", "affinity", {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchExpressions": [
            {"key": "selvage.dev/fabric", "operator": "In", "values": ["ready"]}]}}]}}), Expect()),
    ("an affinity by fields", put("spec", "affinity", {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}}}), Expect()),
    ("preflight by hand and placed", both(
        put("spec", "initContainers", [{"name": "selvage-preflight", "image": "own"}]),
        put("spec", "nodeSelector", {"selvage.dev/fabric": "ready"})), UNTOUCHED),
]


def pods():
    for name, edit, expected, *namespace in CASES:
        pod = copy.deepcopy(POD)
        pod["metadata"]["annotations"] = {"a": "b", OURS: "warn"}
        edit(pod)
        yield name, pod, expected, (namespace or ["default"])[0]


def complaints(found, engine=None, versions=("1.29", "1.37")):
    """Cases that end otherwise than they must, with whichever kind of policy is there."""
    return each_case(found, engine, pods(), wrong, versions)


def wrong(before: dict, after: dict, expected, versions) -> list:
    if expected is UNTOUCHED:
        return [] if before == after else ["touched"]
    lines = [f"{version}: {line}" for version in versions for line in invalid(after, version)]

    def same(what, is_, must):
        if is_ != must:
            lines.append(f"{what}: {is_!r}, not {must!r}")

    old, new = before["spec"], after["spec"]
    same("the rest of the pod", rest(after, "spec"), rest(before, "spec"))
    same("the rest of its spec", rest(new, "initContainers", "nodeSelector"), rest(old, "initContainers", "nodeSelector"))
    same("old init containers", old_ones(old, new, "initContainers"), old.get("initContainers", []))
    selector = dict(old.get("nodeSelector", {}), **({"selvage.dev/fabric": "ready"} if expected.placed else {}))
    same("node selector", new.get("nodeSelector", {}), selector)
    added = new_ones(old.get("initContainers"), new.get("initContainers"))
    same("preflight", [each["name"] for each in added], ["selvage-preflight"] if expected.args else [])
    for preflight in added:
        (like,) = [each for each in old["containers"] if each["name"] == expected.like]
        same("its place", new["initContainers"].index(preflight), 0)
        same("arguments", preflight["args"], expected.args)
        same("image", (preflight["image"], preflight["imagePullPolicy"]), ("selvage:0.1.0", "IfNotPresent"))
        for field, empty in SAME.items():
            same(field, preflight[field], like.get(field, empty))
        same("env", preflight["env"], [each for each in like.get("env", [])
                                       if each["name"] not in ("MASTER_ADDR", "MASTER_PORT")])
        same("nothing else", rest(preflight, "name", "image", "imagePullPolicy", "args", "env", *SAME), {})
    return lines
