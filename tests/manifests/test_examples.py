"""examples/: complete, valid, wired as each operator wires its pods; and that the checks can fail."""

import contextlib
import copy
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import crds
import example_checks
import injection_cases
import render
from render import ROOT

EXAMPLES = ROOT / "examples"
VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
NAMES = ["jobset", "leaderworkerset", "leaderworkerset-nim", "mpijob", "pytorchjob", "volcano"]
FILES = {path.parent.name: path for path in EXAMPLES.glob("*/*.yaml") if path.parent.name in NAMES}
BENCH = EXAMPLES / "bench" / "mpijob.yaml"


def objects(name: str, edit=lambda text: text) -> list:
    return render.objects(edit((BENCH if name == "bench" else FILES[name]).read_text()))


def complaints(name: str, found: list) -> list:
    """What is wrong with an example, by any check that needs no engine."""
    return [
        *example_checks.schema(found, "1.33"),
        *example_checks.custom(found),
        *example_checks.pods(found, sidecar=name != "bench"),
        *example_checks.gangs(found),
    ]


class Examples(unittest.TestCase):
    def hold(self, check):
        for name in NAMES:
            with self.subTest(example=name):
                self.assertEqual(check(objects(name)), [])

    def test_all_are_there(self):
        self.assertEqual(sorted(FILES), NAMES)
        for name in NAMES:
            kinds = [each["kind"] for each in objects(name) if crds.known(each)]
            self.assertEqual(len(kinds), 1, name)

    def test_schemas(self):
        for version in VERSIONS:
            self.hold(lambda found: example_checks.schema(found, version))

    def test_custom_resources(self):
        self.hold(example_checks.custom)

    def test_pods(self):
        self.hold(example_checks.pods)

    def test_gangs(self):
        self.hold(example_checks.gangs)

    def test_policies_find_nothing_left_to_do(self):
        for policy, mutate in (("kyverno", injection_cases.by_kyverno), ("native", injection_cases.by_api_server)):
            found = render.kustomize(render.MANIFESTS / "injection" / policy)
            self.hold(lambda example: example_checks.injected(
                example, lambda pod: mutate(found, pod, "default")))

    def test_what_is_named_is_there(self):
        for path in [*FILES.values(), BENCH]:
            for name in re.findall(r"\b(?:docs|manifests|examples)/[a-z0-9/._-]*[a-z0-9]", path.read_text()):
                self.assertTrue((ROOT / name).exists(), f"{path.name}: {name}")


    def test_the_cluster_has_them_all(self):
        text = (ROOT / "tests/cluster/scenarios/25-examples.sh").read_text()
        (names,) = re.findall(r'^EXAMPLE_NAMES="(.*)"$', text, re.MULTILINE)
        self.assertEqual(names.split(), NAMES)


class Bench(unittest.TestCase):
    def test_the_job(self):
        found = objects("bench")
        self.assertEqual(complaints("bench", found), [])
        for version in VERSIONS:
            self.assertEqual(example_checks.schema(found, version), [])

    def test_every_week(self):
        found = render.kustomize(EXAMPLES / "bench")
        for version in VERSIONS:
            self.assertEqual(example_checks.schema(found, version), [])
        pod = render.the(found, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        config = render.the(found, "ConfigMap")
        self.assertEqual(pod["volumes"][0]["configMap"]["name"], config["metadata"]["name"])
        self.assertEqual(render.objects(config["data"]["mpijob.yaml"]), objects("bench"))
        # It may make MPIJobs, and nothing else.
        self.assertEqual(render.the(found, "Role")["rules"],
                         [{"apiGroups": ["kubeflow.org"], "resources": ["mpijobs"], "verbs": ["create"]}])
        self.assertEqual({each["metadata"]["namespace"] for each in found}, {"bench"})

    def test_the_result_fails_the_job(self):
        (job,) = objects("bench")
        launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
        self.assertEqual(launcher["command"][:2], ["bash", "-c"])
        self.assertEqual(job["spec"]["runPolicy"]["backoffLimit"], 0)
        # What the launcher runs by name stands on the path of its image; here it ends as it is told.
        said = {"NODE_IP": "10.0.0.7", "RAILS": "", "RATE_GBPS": ""}
        report = "--node-report /tmp/node.json"
        for curl, mpirun, selvage, more, status, measure in (
            (0, 0, 0, {}, 0, report), (0, 0, 1, {}, 1, report), (0, 0, 2, {}, 2, report), (0, 0, 3, {}, 3, report),
            # A benchmark that failed is never line rate; bad news stays.
            (0, 139, 0, {}, 3, report), (0, 1, 1, {}, 1, report), (0, 1, 2, {}, 2, report), (0, 1, 3, {}, 3, report),
            # No report: what is said, or nothing is run at all.
            (7, 0, 0, {"RAILS": "8", "RATE_GBPS": "400"}, 0, "--rails 8 --rate-gbps 400"),
            (7, 0, 0, {"RAILS": "8"}, 3, None), (22, 0, 0, {}, 3, None),
        ):
            with self.subTest(curl=curl, mpirun=mpirun, selvage=selvage, more=more), programs(
                curl=f"exit {curl}", mpirun=f"echo table; exit {mpirun}",
                selvage=f'echo "judged $* of $(cat)"; exit {selvage}',
            ) as path:
                done = subprocess.run(launcher["command"], env={**said, **more, "PATH": path},
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, status, done.stderr)
                judged = f"judged nccl --bench {measure} --textfile /textfile/selvage_bench.prom - of table\n"
                self.assertEqual(done.stdout, judged if measure else "")
                self.assertIn("CANNOT TELL" if status == 3 and selvage != 3 else "", done.stderr)
                self.assertEqual("table" in done.stderr, measure is not None, "the table is shown")
                if measure:
                    self.assertEqual(f"mpirun ended with {mpirun}" in done.stderr, mpirun != 0)


    def test_the_page_s_cronjob(self):
        """docs/bench.md: the same ends, in one container."""
        page = (ROOT / "docs/bench.md").read_text()
        (text,) = re.findall(r"```yaml\n(apiVersion: batch/v1\nkind: CronJob.*?)```", page, re.DOTALL)
        found = render.objects(text)
        for version in VERSIONS:
            self.assertEqual(example_checks.schema(found, version), [])
        (container,) = found[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        for mpirun, selvage, status in ((0, 0, 0), (0, 1, 1), (0, 2, 2), (139, 0, 3), (1, 1, 1), (1, 2, 2)):
            with self.subTest(mpirun=mpirun, selvage=selvage), programs(
                mpirun=f"echo table; exit {mpirun}", selvage=f"exit {selvage}"
            ) as path:
                script = container["command"][2].replace("/tmp/", path.split(":")[0] + "/")
                done = subprocess.run([*container["command"][:2], script], env={"PATH": path},
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, status)
                self.assertEqual(done.stdout, f"table\nmpirun ended with {mpirun}\n")


@contextlib.contextmanager
def programs(**scripts):
    """A PATH on which these stand for programs that are not here."""
    with tempfile.TemporaryDirectory() as directory:
        for name, script in scripts.items():
            path = pathlib.Path(directory) / name
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        yield f"{directory}:{os.environ['PATH']}"


class Ranks(unittest.TestCase):
    """MPI: a rank gets its worker's env, as mpirun, which takes none along, starts it there."""

    VALUES = {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "UCX_TLS": "rc,sm", "ODD": "a 'b' \"c\" $PATH `d` \\ e\nf"}

    def rank(self, name: str, worker_runs: bool) -> dict:
        (job,) = objects(name)
        launcher, worker = (job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0]
                            for role in ("Launcher", "Worker"))
        with tempfile.TemporaryDirectory() as directory:
            def here(command):
                return [word.replace("/tmp/job-env", f"{directory}/job-env").replace("/usr/sbin/sshd -De", "sshd")
                        for word in command]

            rank = 'while [ "$1" != sh ]; do shift; done; exec env -i PATH="$PATH" "$@"'
            shown = "exec env -0"
            with programs(sshd="exit 0", mpirun=rank, python=shown, all_reduce_perf=shown, curl="exit 0",
                          selvage="exec cat") as path:
                if worker_runs:
                    done = subprocess.run(here(worker["command"]), env={**self.VALUES, "PATH": path})
                    self.assertEqual(done.returncode, 0)
                    self.assertEqual((pathlib.Path(directory) / "job-env").stat().st_mode & 0o777, 0o600)
                done = subprocess.run(here(launcher["command"]), env={"PATH": path, "UCX_TLS": "tcp"},
                                      capture_output=True, text=True)
        return dict(each.split("=", 1) for each in done.stdout.split("\0") if "=" in each)

    def test_the_worker_s_variables(self):
        for name in ("mpijob", "bench"):
            with self.subTest(name):
                got = self.rank(name, True)
                self.assertEqual({each: got.get(each) for each in self.VALUES}, self.VALUES)

    def test_without_them_it_does_not_start(self):
        for name in ("mpijob", "bench"):
            self.assertEqual(self.rank(name, False), {})

    def test_the_page_of_each_platform_reaches_them(self):
        """The variables of a block are set where the worker's command finds them."""
        import test_platforms
        for platform in test_platforms.PAGES:
            for name in ("mpijob", "bench"):
                (job,) = test_platforms.on_platform(platform, objects(name))
                (worker,) = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
                block = test_platforms.block(test_platforms.PAGES[platform])["spec"]["containers"][0]
                values = example_checks.variables(worker)
                self.assertEqual({each: values.get(each) for each in example_checks.variables(block)},
                                 example_checks.variables(block))
                self.assertEqual(worker["command"], example_checks.SSHD)


# Example, text, what stands in its place.
BREAKAGES = [
    ("pytorchjob", "values: [ready]", "values: [ready, unknown]"),
    ("pytorchjob", "selvage.dev/fabric, operator: In", "selvage.dev/fabric, operator: NotIn"),
    ("pytorchjob", "selvage.dev/rail-gbps", "selvage.dev/rail-gbits"),
    ("pytorchjob", 'operator: Gt, values: ["399"]', 'operator: Gt, values: ["400Gb"]'),
    ("pytorchjob", 'operator: Gt, values: ["7"]', "operator: Gt, values: [7]"),
    ("pytorchjob", "{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}", "{operator: Exists}"),
    ("pytorchjob", "add: [IPC_LOCK]", "add: [NET_RAW]"),
    ("pytorchjob", "medium: Memory, ", ""),
    ("pytorchjob", ", sizeLimit: 64Gi", ""),
    ("pytorchjob", "sizeLimit: 64Gi", "sizeLimit: 128Gi"),
    ("pytorchjob", "mountPath: /dev/shm", "mountPath: /shm"),
    ("pytorchjob", "rdma/ib: 8\n", "example.com: 8\n"),
    ("pytorchjob", "args: [preflight, --warn, --gpus, \"8\"]", "args: [preflight, --gpus, \"4\"]"),
    ("pytorchjob", "resources: *devices", "resources: {limits: {nvidia.com/gpu: 8, rdma/ib: 4, memory: 128Gi}}"),
    ("pytorchjob", "restartPolicy: Always", "restartPolicy: Never"),
    ("pytorchjob", "args: [sidecar, --dir, /var/log/nccl", "args: [sidecar, --dir, /var/log"),
    ("pytorchjob", "value: INFO", "value: WARN"),
    ("pytorchjob", "/var/log/nccl/%h.%p.log", "/tmp/%h.%p.log"),
    ("pytorchjob", "mountPath: /var/log/nccl}", "mountPath: /var/log/nccl2}"),
    ("pytorchjob", "- *interface", "- {name: NCCL_SOCKET_IFNAME, value: net1}"),
    ("pytorchjob", "minAvailable: 2", "minAvailable: 1"),
    ("pytorchjob", 'nprocPerNode: "8"', 'nprocPerNode: "4"'),
    ("pytorchjob", 'nprocPerNode: "8"', "nprocPerNode: 8"),
    ("pytorchjob", "- name: pytorch\n", "- name: training\n"),
    ("pytorchjob", "cleanPodPolicy: None", "cleanPodsPolicy: None"),
    ("pytorchjob", "tolerations:", "toleration:"),
    ("pytorchjob", "command: [torchrun, train.py]", "command: [torchrun, --nnodes=3, train.py]"),
    ("mpijob", "minAvailable: 2", "minAvailable: 3"),
    ("mpijob", "launcherCreationPolicy: WaitForWorkersReady", "launcherCreationPolicy: AtStartup"),
    ("mpijob", "slotsPerWorker: 8", "slots: 8"),
    ("mpijob", '- "16"', '- "8"'),
    ("mpijob", '- . /tmp/job-env && exec "$@"', '- exec "$@"'),
    ("mpijob", "- none\n", "- none\n                - -x\n                - NCCL_SOCKET_IFNAME=eth0\n"),
    ("mpijob", "export -p > /tmp/job-env", "true"),
    ("mpijob", "(umask 077; export -p > /tmp/job-env)", "umask 077; export -p > /tmp/job-env"),
    ("mpijob", "limits: {memory: 4Gi}", "limits: {memory: 4Gi, nvidia.com/gpu: 1}"),
    ("leaderworkerset", "RecreateGroupOnPodRestart", "None"),
    ("leaderworkerset", "--node-rank=$(LWS_WORKER_INDEX)", "--node-rank=0"),
    ("leaderworkerset", "$(LWS_LEADER_ADDRESS)", "$(hostname)"),
    ("leaderworkerset", "size: 2", "members: 2"),
    ("leaderworkerset-nim", 'NIM_PIPELINE_PARALLEL_SIZE, value: "2"', 'NIM_PIPELINE_PARALLEL_SIZE, value: "1"'),
    ("leaderworkerset-nim", "worker-index']", "group-index']"),
    ("leaderworkerset-nim", "- *gloo", "- {name: GLOO_SOCKET_IFNAME, value: ens6f0}"),
    ("leaderworkerset-nim", "startupPolicy: LeaderCreated", "startupPolicy: LeaderThere"),
    ("leaderworkerset-nim", "initContainers: *before", "initContainers: []"),
    ("volcano", "minAvailable: 2", "minAvailable: 1"),
    ("volcano", "--master=master", "--master=leader"),
    ("volcano", "--publish-not-ready-addresses=true", ""),
    ("volcano", "--node-rank=$(RANK)", "--node-rank=$(VC_TASK_INDEX)"),
    ("volcano", "action: RestartJob", "action: RestartPod2"),
    ("volcano", "event: PodFailed", "event: PodFailed2"),
    ("leaderworkerset", "    size: 2", '    size: "2"'),
    ("volcano", "schedulerName: volcano", "schedulerName: default-scheduler"),
    ("jobset", "train-workers-0-0.train", "train-worker-0-0.train"),
    ("jobset", "completions: 2", "completions: 1"),
    ("jobset", "publishNotReadyAddresses: true", "publishNotReadyAddresses: false"),
    ("jobset", "maxRestarts: 3", "maxRestart: 3"),
    ("jobset", "completionMode: Indexed", "completionMode: NonIndexed"),
    ("bench", "- *dshm", "- {name: dshm, mountPath: /shm}"),
    ("bench", "-np 16", "-np 8"),
]


class Breakages(unittest.TestCase):
    def test_each_is_found(self):
        for name, text, instead in BREAKAGES:
            with self.subTest(example=name, text=text, instead=instead):
                before = (BENCH if name == "bench" else FILES[name]).read_text()
                self.assertIn(text, before, "the file has changed: bring this row up to date")
                try:
                    wrong = complaints(name, objects(name, lambda all_: all_.replace(text, instead)))
                except (KeyError, ValueError, AttributeError, TypeError) as error:
                    wrong = [repr(error)]
                self.assertTrue(wrong, "not found")

    def test_a_pod_that_a_policy_would_change_is_found(self):
        found = render.kustomize(render.MANIFESTS / "injection" / "kyverno")
        example = copy.deepcopy(objects("jobset"))
        template = example_checks.templates(example[0])[0][2]
        template["spec"]["containers"][0]["env"][0]["name"] = "NCCL_OTHER"
        template["spec"]["containers"][0]["env"].pop()
        self.assertTrue(example_checks.injected(
            example, lambda pod: injection_cases.by_kyverno(found, pod, "default")))
