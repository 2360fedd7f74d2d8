"""Checks of examples/. Each gives complaints, a line each; none: all is well."""

import copy
import re

import checks
import crds
import injection_cases
from render import ROOT

FABRIC = "selvage.dev/"
# Labels that the agent writes, out of its source.
LABELS = set(re.findall(r'^pub const [A-Z_]+: &str = "([a-z-]+)";', (
    ROOT / "src/cluster/names.rs").read_text(), re.MULTILINE)) - {"selvage"}
LOGS, VOLUME = injection_cases.LOGS, injection_cases.VOLUME
# What an MPI worker runs: its env, where ranks that come in over ssh find it, and sshd.
SSHD = ["sh", "-c", "(umask 077; export -p > /tmp/job-env) && exec /usr/sbin/sshd -De"]
ENV = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET", "NCCL_DEBUG_FILE": f"{LOGS}/%h.%p.log"}


def templates(found: dict) -> list:
    """The pod templates of an object: (role, how many pods, template)."""
    spec = found.get("spec", {})
    kind = found["apiVersion"].split("/")[0], found["kind"]
    if kind == ("kubeflow.org", "PyTorchJob") or kind == ("kubeflow.org", "MPIJob"):
        replicas = spec.get("pytorchReplicaSpecs") or spec.get("mpiReplicaSpecs")
        return [(role.lower(), each["replicas"], each["template"]) for role, each in replicas.items()]
    if kind == ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"):
        group = spec["leaderWorkerTemplate"]
        return [("leader", 1, group["leaderTemplate"]), ("worker", group["size"] - 1, group["workerTemplate"])]
    if kind == ("batch.volcano.sh", "Job"):
        return [(task["name"], task["replicas"], task["template"]) for task in spec["tasks"]]
    if kind == ("jobset.x-k8s.io", "JobSet"):
        return [(each["name"], each["template"]["spec"]["parallelism"], each["template"]["spec"]["template"])
                for each in spec["replicatedJobs"]]
    if kind == ("batch", "CronJob"):
        return [("cron", 1, spec["jobTemplate"]["spec"]["template"])]
    if kind == ("batch", "Job"):
        return [("job", spec.get("parallelism", 1), spec["template"])]
    return []


def extended(container: dict) -> dict:
    """Devices that it asks for."""
    limits = container.get("resources", {}).get("limits", {})
    return {name: value for name, value in limits.items() if "/" in name}


def gpus(template: dict) -> int:
    return sum(int(extended(each).get("nvidia.com/gpu", 0)) for each in template["spec"]["containers"])


def schema(found: list, version: str) -> list:
    """Built-in kinds as they are; of custom ones the pod templates."""
    lines = checks.schema([each for each in found if not crds.known(each)], version)
    for each in found:
        if not crds.known(each):
            continue
        for role, _, template in templates(each):
            wrapped = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"}, "template": template}
            lines += [f"{version} {each['kind']} {role}: {line}" for line in checks.invalid(wrapped, version)]
    return lines


def custom(found: list) -> list:
    """Custom kinds against what their projects publish."""
    return [line for each in found for line in crds.complaints(each)]


def pods(found: list, sidecar=True) -> list:
    """Each pod with GPUs has all of it, each other pod nothing of it."""
    lines = []
    for each in found:
        for role, _, template in templates(each):
            wrong = worker(template, sidecar) if gpus(template) else other(template)
            lines += [f"{each['kind']} {role}: {line}" for line in wrong]
    return lines


def worker(template: dict, sidecar=True) -> list:
    """A pod that trains: preflight, sidecar, place, shared memory, locked memory."""
    spec, lines = template["spec"], []

    def want(holds, what: str) -> None:
        if not holds:
            lines.append(what)

    (main,) = spec["containers"]
    before = spec.get("initContainers", [])
    names = [each["name"] for each in before]
    want(names == ["selvage-preflight", "selvage-sidecar"][: 2 if sidecar else 1], f"init containers: {names}")
    volumes = {each["name"]: each for each in spec.get("volumes", [])}
    want(len(volumes) == len(spec.get("volumes", [])), "two volumes of a name")

    # What of the fabric the container gets.
    asked = extended(main)
    want(any(not name.startswith("nvidia.com/gpu") for name in asked), "an RDMA resource")
    want(locks(main), "IPC_LOCK")
    want(mounted(main, "/dev/shm") == "dshm", "/dev/shm")
    shm = volumes.get("dshm", {}).get("emptyDir", {})
    want(shm.get("medium") == "Memory" and shm.get("sizeLimit"), "/dev/shm in memory, with a limit")
    memory = main["resources"]["limits"].get("memory")
    want(memory and shm.get("sizeLimit") and quantity(memory) > quantity(shm["sizeLimit"]),
         "shared memory counts as the container's: more memory than that")

    # The same for the preflight: what it sees is what is judged.
    for preflight in before[:1]:
        want(preflight["image"] == "selvage:0.1.0", "the preflight's image")
        want(preflight.get("args") == ["preflight", "--warn", "--gpus", str(gpus(template))],
             f"the preflight's arguments: {preflight.get('args')}")
        want("restartPolicy" not in preflight, "the preflight ends before the job begins")
        want(extended(preflight) == asked, "the preflight has the same devices")
        want(locks(preflight) == locks(main), "the preflight may lock memory as the job may")
        want(mounted(preflight, "/dev/shm") == mounted(main, "/dev/shm"), "the preflight sees /dev/shm")
        values = variables(main)
        for name, value in variables(preflight).items():
            want(values.get(name) == value, f"{name} as the job has it")
        for name in values:
            if name.endswith("_SOCKET_IFNAME") or name in (
                "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "UCX_TLS"
            ):
                want(name in variables(preflight), f"the preflight is told {name}")

    if sidecar:
        lines += sidecar_of(template)
    lines += placement(spec)
    return lines


def sidecar_of(template: dict) -> list:
    """The sidecar is the one that the policies inject: they find nothing left to do."""
    spec, lines = template["spec"], []
    for each in spec.get("initContainers", []):
        if each["name"] == "selvage-sidecar":
            lines += injection_cases.wrong_sidecar(each, injection_cases.Expect())
    (main,) = spec["containers"]
    values = variables(main)
    for name, value in ENV.items():
        if values.get(name) != value:
            lines.append(f"{name}: {values.get(name)}")
    if mounted(main, LOGS) != VOLUME:
        lines.append(f"{LOGS} is mounted")
    if {"name": VOLUME, "emptyDir": {"sizeLimit": "1Gi"}} not in spec.get("volumes", []):
        lines.append(f"the volume {VOLUME}")
    return lines


def placement(spec: dict) -> list:
    """Only where the fabric is proven, by labels that the agent writes; nothing tolerates our taint."""
    lines = []
    node = spec.get("affinity", {}).get("nodeAffinity", {})
    terms = node.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    for term in terms or [{}]:
        wanted = [each for each in term.get("matchExpressions", []) if each["key"] == FABRIC + "fabric"]
        if wanted != [{"key": FABRIC + "fabric", "operator": "In", "values": ["ready"]}]:
            lines.append(f"each term of the affinity wants a ready fabric: {wanted}")
    preferred = [each["preference"] for each in node.get("preferredDuringSchedulingIgnoredDuringExecution", [])]
    expressions = [each for term in [*terms, *preferred] for each in term.get("matchExpressions", [])]
    keys = {each["key"] for each in expressions}
    for name in ("rails", "rail-gbps"):
        if FABRIC + name not in keys:
            lines.append(f"placed by {FABRIC}{name}")
    for each in expressions:
        if each["key"].startswith(FABRIC) and each["key"].removeprefix(FABRIC) not in LABELS:
            lines.append(f"no such label: {each['key']}")
        if each["operator"] in ("Gt", "Lt") and not (
            len(each["values"]) == 1 and re.fullmatch(r"\d+", str(each["values"][0]))
        ):
            lines.append(f"{each['operator']} takes one whole number: {each['values']}")
    for each in spec.get("tolerations", []):
        if "key" not in each or each["key"].startswith(FABRIC):
            lines.append(f"tolerates what keeps it off broken nodes: {each}")
    return lines


def other(template: dict) -> list:
    """A pod without GPUs, such as a launcher: no devices, no preflight, any node."""
    spec, lines = template["spec"], []
    for each in [*spec.get("initContainers", []), *spec["containers"]]:
        if extended(each):
            lines.append(f"{each['name']} asks for {extended(each)}")
    if spec.get("initContainers"):
        lines.append("nothing to be looked at before")
    if "nodeAffinity" in spec.get("affinity", {}) or "nodeSelector" in spec:
        lines.append("it may run on any node")
    return lines


def gangs(found: list) -> list:
    """All or nothing, and each rank finds the first one: per kind."""
    return [line for each in found for line in _gang(each)]


def _gang(found: dict) -> list:
    spec, kind, lines = found.get("spec", {}), found["kind"], []

    def want(is_, must, what: str) -> None:
        if is_ != must:
            lines.append(f"{kind}: {what}: {is_!r}, not {must!r}")

    parts = templates(found)
    nodes = sum(count for _, count, template in parts if gpus(template))
    local = {gpus(template) for _, _, template in parts if gpus(template)}
    if nodes:
        want(len(local), 1, "GPUs, as many in each pod")
        (local,) = local
    text = " ".join(word for _, _, template in parts for each in template["spec"]["containers"]
                    for word in [*each.get("command", []), *each.get("args", [])])
    said = {name: re.findall(rf"--{name}[= ](\S+)", text) for name in
            ("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port")}
    if kind == "PyTorchJob":
        want(spec["nprocPerNode"], str(local), "processes a node")
        want(spec["runPolicy"]["schedulingPolicy"]["minAvailable"], nodes, "the gang")
        want({t["spec"]["containers"][0]["name"] for *_, t in parts}, {"pytorch"}, "the operator's container")
        want([count for role, count, _ in parts if role == "master"], [1], "masters")
        # PET_… say the rest; said twice they could differ.
        want(any(said.values()), False, "torchrun is told by the operator alone")
    elif kind == "MPIJob":
        want(spec["slotsPerWorker"], local, "slots")
        want(spec["runPolicy"]["schedulingPolicy"]["minAvailable"], nodes, "the gang")
        want(spec["launcherCreationPolicy"], "WaitForWorkersReady", "the launcher, not counted, comes later")
        want(re.findall(r"-np (\d+)", text), [str(nodes * local)], "ranks")
        want([gpus(t) for role, _, t in parts if role == "launcher"], [0], "GPUs of the launcher")
        want([t["spec"]["containers"][0].get("command") for role, _, t in parts if role == "worker"], [SSHD], "sshd")
        want('. /tmp/job-env && exec "$@"' in text, True, "ranks take their worker's variables")
        # Said there for all, it would be another value than the preflight has seen.
        want(re.findall(r"-x \w+", text), [], "variables of the launcher")
    elif kind == "LeaderWorkerSet":
        want(spec["leaderWorkerTemplate"]["restartPolicy"], "RecreateGroupOnPodRestart", "the gang restarts")
        names = [variables(t["spec"]["containers"][0]) for *_, t in parts]
        if "torchrun" in text:
            want(set(said["nnodes"]), {"$(LWS_GROUP_SIZE)"}, "nodes")
            want(set(said["node-rank"]), {"$(LWS_WORKER_INDEX)"}, "rank")
            want(set(said["master-addr"]), {"$(LWS_LEADER_ADDRESS)"}, "the leader")
            want(set(said["nproc-per-node"]), {str(local)}, "processes a node")
        else:
            for each in names:
                size = int(each["NIM_TENSOR_PARALLEL_SIZE"]) * int(each["NIM_PIPELINE_PARALLEL_SIZE"])
                want(size, nodes * local, "GPUs shared out")
                want(each["NIM_TENSOR_PARALLEL_SIZE"], str(local), "tensors within a node")
                want(each["NIM_USE_SGLANG"] + each["NIM_MULTI_NODE"], "11", "SGLang on several nodes")
                want(each["NIM_NODE_RANK"]["fieldRef"]["fieldPath"],
                     "metadata.labels['leaderworkerset.sigs.k8s.io/worker-index']", "rank")
    elif kind == "Job" and found["apiVersion"].startswith("batch.volcano.sh"):
        want(spec["minAvailable"], nodes, "the gang")
        want(spec["schedulerName"], "volcano", "a gang scheduler")
        named = dict(re.findall(r"--(\w+)=(\w+)", " ".join(spec["plugins"]["pytorch"])))
        want({named["master"], named["worker"]}, {role for role, *_ in parts}, "the plugin's tasks")
        want(set(said["nnodes"]), {str(nodes)}, "nodes")
        want(set(said["nproc-per-node"]), {str(local)}, "processes a node")
        want([set(said[n]) for n in ("node-rank", "master-addr", "master-port")],
             [{"$(RANK)"}, {"$(MASTER_ADDR)"}, {"$(MASTER_PORT)"}], "the plugin's variables")
        want("--publish-not-ready-addresses=true" in spec["plugins"]["svc"], True, "names before ready")
    elif kind == "JobSet":
        (job,) = spec["replicatedJobs"]
        inner = job["template"]["spec"]
        want(inner["completionMode"], "Indexed", "an index")
        want(inner["completions"], inner["parallelism"], "all at once")
        want(spec["network"], {"enableDNSHostnames": True, "publishNotReadyAddresses": True}, "names")
        name = found["metadata"]["name"]
        want(said["master-addr"], [f"{name}-{job['name']}-0-0.{name}"], "the first pod")
        want(said["node-rank"], ["$(JOB_COMPLETION_INDEX)"], "rank")
        want(said["nnodes"] + said["nproc-per-node"], [str(nodes), str(local)], "nodes and processes")
        want(spec["successPolicy"]["targetReplicatedJobs"], [job["name"]], "whose success counts")
    return lines


def injected(found: list, mutate) -> list:
    """A policy that is there, too, finds nothing to add; and from a pod without the sidecar's parts it makes
    the example's."""
    lines = []
    for each in found:
        for role, _, template in templates(each):
            if not gpus(template):
                continue
            full = {"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {injection_cases.SEEDS: "true"}},
                    "spec": copy.deepcopy(template["spec"])}
            if mutate(copy.deepcopy(full)) != full:
                lines.append(f"{each['kind']} {role}: the policy changes what is there")
            bare = copy.deepcopy(full)
            spec, main = bare["spec"], bare["spec"]["containers"][0]
            spec["initContainers"] = [c for c in spec["initContainers"] if c["name"] != "selvage-sidecar"]
            spec["volumes"] = [v for v in spec["volumes"] if v["name"] != VOLUME]
            main["env"] = [e for e in main["env"] if e["name"] not in ENV]
            main["volumeMounts"] = [m for m in main["volumeMounts"] if m["name"] != VOLUME]
            if sorted_(mutate(bare)) != sorted_(full):
                lines.append(f"{each['kind']} {role}: the policy makes another pod")
    return lines


def sorted_(pod: dict) -> dict:
    """The order of volumes, of variables, of mounts and of our two init containers says nothing."""
    pod = copy.deepcopy(pod)
    name = lambda each: each["name"]  # noqa: E731
    for what in ("volumes", "initContainers"):
        pod["spec"][what].sort(key=name)
    for container in pod["spec"]["containers"]:
        container["env"].sort(key=name)
        container["volumeMounts"].sort(key=name)
    return pod


def locks(container: dict) -> bool:
    return "IPC_LOCK" in container.get("securityContext", {}).get("capabilities", {}).get("add", [])


def mounted(container: dict, path: str):
    return next((m["name"] for m in container.get("volumeMounts", []) if m["mountPath"] == path), None)


def variables(container: dict) -> dict:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container.get("env", [])}


def quantity(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([KMGT]i)?", str(text)).groups()
    return int(number) * 1024 ** (" KMGT".index(unit[0]) if unit else 0)
