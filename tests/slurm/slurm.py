"""slurmctld, ten slurmd on loopback and an agent for each, over simulated nodes. Whatever is started is
stopped by its process id."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from waiting import PATIENCE, Failed, until

ROOT = Path(__file__).resolve().parents[2]
NODES = [f"n{number}" for number in range(1, 11)]
# Settings of the health check, and slurmd's interval between two, in seconds.
HOLD, CLEAR, INTERVAL = 1, 4, 3
AGENT_PORT = 19000
REASON = "selvage: LinkDown mlx5_4/1"
PORT = "sys/class/infiniband/mlx5_4/ports/1"

AGENT_SETTINGS = [
    "cluster.mode=off",
    "nccl.logs=false",
    "nccl.suspects=false",
    "intervals.link=500ms",
    # The first full window is over soon.
    *(f"intervals.{source}=2s" for source in ("counters", "ethtool", "netdev", "gpudirect")),
    "hysteresis.hold=0s",
    "hysteresis.flap_count=0",
    "policy.link_state.raise_after=250ms",
    "policy.link_state.clear_after=500ms",
]


class Cluster:
    """A Slurm of its own in a new directory."""

    def __init__(self, binary, without_lock=False, keep=False):
        self.binary, self.without_lock, self.keep = Path(binary).resolve(), without_lock, keep
        self.dir = Path(tempfile.mkdtemp(prefix="selvage-slurm-"))
        self.conf = self.dir / "slurm.conf"
        self.children = []
        self.agents = {}

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def spawn(self, name, *argv):
        with open(self.dir / f"{name}.log", "ab") as log:
            child = subprocess.Popen(
                [str(part) for part in argv], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, cwd=self.dir, env=self.environment())
        self.children.append((name, child))
        return child

    def environment(self):
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SLURM_CONF": str(self.conf)}

    def start(self):
        # slurmctld finds its own address only where there is one besides loopback's.
        for words in ("link set lo up", "link add d0 type veth peer name d1",
                      "addr add 10.9.9.1/24 dev d0", "link set d0 up", "link set d1 up"):
            subprocess.run(["ip", *words.split()], check=True, timeout=10)
        for name in ("state", "spool", "out"):
            (self.dir / name).mkdir()
        self.write_programs()
        self.write_conf()
        for node in NODES:
            tree = self.dir / "trees" / node
            tree.parent.mkdir(exist_ok=True)
            if node == NODES[0]:
                subprocess.run([self.binary, "simulate", "h100_ib", tree], check=True, timeout=60,
                               stdout=subprocess.DEVNULL)
            else:
                shutil.copytree(self.dir / "trees" / NODES[0], tree, symlinks=True)
        for node in NODES:
            self.start_agent(node)
        self.start_controller()
        for node in NODES:
            (self.dir / "spool" / node).mkdir()
            self.spawn(f"slurmd-{node}", "slurmd", "-D", "-N", node)
        until("ten idle nodes", lambda: all(of["state"] == "idle" for of in self.nodes().values()))
        for node in NODES:
            until(f"{node}'s agent is ready", lambda: self.report(node)["state"] == "ready")

    def start_agent(self, node):
        argv = [self.binary, "agent", f"--host-root={self.dir / 'trees' / node}",
                f"--listen={self.address(node)}", f"--node-name={node}", "--log-level=warn"]
        # One directory for all nodes, as on a shared file system.
        for setting in [*AGENT_SETTINGS, f"nccl.log_files={self.dir}/out/slurm-%j.out"]:
            argv += ["--set", setting]
        self.agents[node] = self.spawn(f"agent-{node}", *argv)

    def start_controller(self):
        self.controller = self.spawn("slurmctld", "slurmctld", "-D")

    def end(self, child):
        child.terminate()
        child.wait(20)
        self.children = [each for each in self.children if each[1] is not child]

    def write_programs(self):
        """The shipped scripts with an agent for each node; the health check is timed."""
        agent = f"--agent=127.0.0.1:$(({AGENT_PORT} + ${{SLURMD_NODENAME#n}}))"
        root = self.dir / "trees" / NODES[0]
        self.shipped("health.sh", {
            "PATH=/usr/bin:/bin": f"PATH={self.dir / 'bin'}:/usr/bin:/bin",
            "/etc/slurm/slurm.conf": self.conf,
            "/usr/bin/selvage slurm health": f"{self.dir}/timed {self.binary} slurm health {agent} "
                                             f"--set slurm.hold={HOLD}s --set slurm.clear={CLEAR}s"})
        self.shipped("prolog.sh", {
            "#!/bin/sh\n": f"#!/bin/sh\ndate >>{self.dir}/prologs\n",
            "/usr/bin/selvage check --agent": f"{self.binary} check {agent}"})
        self.shipped("epilog.sh", {
            "#!/bin/sh\n": f"#!/bin/sh\ndate >>{self.dir}/epilogs\n",
            "/etc/slurm/selvage/health.sh": self.dir / "health.sh"})
        self.shipped("task-prolog.sh", {
            "/usr/bin/selvage preflight":
                f"{self.binary} preflight --host-root {root} --timeout 1s"})
        self.script("timed", f"""#!/bin/sh
begun=$(date +%s%N)
said=$("$@" 2>&1)
status=$?
echo "$SLURMD_NODENAME $status $(( ($(date +%s%N) - begun) / 1000000 )) $(echo $said)" >>{self.dir}/calls
exit $status
""")
        if self.without_lock:
            # Every node believes that it has the lock.
            self.script("bin/scontrol", """#!/bin/sh
case "$1" in create|delete) exit 0;; esac
exec /usr/bin/scontrol "$@"
""")

    def shipped(self, name, replacements):
        text = (ROOT / "examples/slurm" / name).read_text()
        for old, new in replacements.items():
            if old not in text:
                raise Failed(f"examples/slurm/{name} does not have {old!r}, which the test replaces")
            text = text.replace(old, str(new))
        self.script(name, text)

    def script(self, name, text):
        path = self.dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def write_conf(self):
        self.conf.write_text(f"""ClusterName=t
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort=16817
StateSaveLocation={self.dir}/state
SlurmdSpoolDir={self.dir}/spool/%n
SlurmctldPidFile={self.dir}/slurmctld.pid
SlurmctldLogFile={self.dir}/slurmctld.txt
SlurmdPidFile={self.dir}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
ReturnToService=1
SlurmdParameters=config_overrides
Prolog={self.dir}/prolog.sh
Epilog={self.dir}/epilog.sh
PrologFlags=Alloc
TaskProlog={self.dir}/task-prolog.sh
HealthCheckProgram={self.dir}/health.sh
HealthCheckInterval={INTERVAL}
HealthCheckNodeState=ANY
NodeName=n[1-10] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[17001-17010] CPUs=1 RealMemory=100 State=UNKNOWN
PartitionName=p Nodes=n[1-10] Default=YES State=UP
""")

    def run(self, *argv, seconds=10):
        return subprocess.run(argv, capture_output=True, text=True, timeout=seconds, check=False,
                              env=self.environment())

    def scontrol(self, *argv):
        done = self.run("scontrol", *argv)
        if done.returncode:
            raise Failed(f"scontrol {' '.join(argv)}: {done.stderr}{done.stdout}")

    def nodes(self):
        """State, flags and reason by name, as slurmctld has them."""
        done = self.run("sinfo", "--json", "-a")
        listed = json.loads(done.stdout)["nodes"]
        return {of["name"]: {"state": of["state"], "reason": of["reason"],
                             "drained": "DRAIN" in of["state_flags"]} for of in listed}

    def reason(self, node):
        """The reason of a drained node; nothing where it is not drained."""
        of = self.nodes()[node]
        return of["reason"] if of["drained"] else None

    @staticmethod
    def address(node):
        return f"127.0.0.1:{AGENT_PORT + int(node[1:])}"

    def report(self, node):
        try:
            with urllib.request.urlopen(f"http://{self.address(node)}/report", timeout=5) as answer:
                return json.load(answer)
        except urllib.error.URLError as error:
            raise OSError(str(error)) from None

    def fallback(self, node, job):
        """What a node's agent says of a job's fallback to TCP; nothing where it says nothing."""
        with urllib.request.urlopen(f"http://{self.address(node)}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        labels = f'namespace="",pod="",container="",job="{job}"'
        found = re.search(rf"^selvage_nccl_tcp_fallback\{{{labels}\}} (\d)$", text, re.MULTILINE)
        return found and int(found[1])

    def link(self, node, is_up):
        """The link of a rail falls or comes back; the time."""
        port = self.dir / "trees" / node / PORT
        (port / "phys_state").write_text("5: LinkUp\n" if is_up else "2: Polling\n")
        (port / "state").write_text("4: ACTIVE\n" if is_up else "1: DOWN\n")
        return time.monotonic()

    def calls(self):
        """What the health checks did: (node, status, milliseconds, output)."""
        path = self.dir / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        split = (line.split(" ", 3) for line in lines)
        return [(node, int(status), int(took), said) for node, status, took, said in split]

    def after_calls(self, *nodes, count=2):
        """Waits until each node's health check has run so many times more."""
        def so_far():
            made = [call[0] for call in self.calls()]
            return [made.count(node) for node in nodes]
        before = so_far()
        until(f"{count} health checks of {nodes}",
              lambda: all(now - then >= count for now, then in zip(so_far(), before)))

    def health(self, node):
        """One call by hand, as slurmd makes it."""
        return self.run_health(node).wait(PATIENCE)

    def run_health(self, node):
        return subprocess.Popen([self.dir / "health.sh"], env={"SLURMD_NODENAME": node},
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def most_drained(self):
        """The most nodes that selvage kept drained at one time, and how many drains it made, by
        slurmctld's own log."""
        reasons, drained, most, drains = {}, set(), 0, 0
        for line in (self.dir / "slurmctld.txt").read_text(errors="replace").splitlines():
            if found := re.search(r"update_node: node (\S+) reason set to: (.*)", line):
                reasons[found[1]] = found[2]
            if found := re.search(r"update_node: node (\S+) state set to (\S+)", line):
                node = found[1]
                ours = found[2].startswith("DRAIN") and reasons.get(node, "").startswith("selvage: ")
                drains += ours and node not in drained
                (drained.add if ours else drained.discard)(node)
            # A drain of ours with an admin's reason is the admin's.
            drained = {node for node in drained if reasons[node].startswith("selvage: ")}
            most = max(most, len(drained))
        return most, drains

    def stop(self):
        for _, child in reversed(self.children):
            if child.poll() is None:
                child.terminate()
        for _, child in reversed(self.children):
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.children = []
        if self.keep:
            print(f"kept: {self.dir}")
        else:
            shutil.rmtree(self.dir, ignore_errors=True)
