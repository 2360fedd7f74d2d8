"""Settings that are wrong, endless or of another kind: a clear error and exit status 64 at once. And files
that are read again while the agent runs."""

import os
import shutil
import subprocess
import time

from rig import Agent, Failed, until
from row import Row

USAGE = 64


def refused(name, fault, make=None, argv=(), env=None, says="", fast=False, known="", status=USAGE):
    """The agent does not start, and says why."""
    def run(rig):
        config = rig.dir / "config.toml"
        arguments = [str(rig.binary), "agent", f"--host-root={rig.tree}", "--listen=127.0.0.1:0", *argv]
        if make:
            make(config)
            arguments += ["--config", str(config)]
        agent = Agent(arguments, rig.dir, env)
        begun = time.monotonic()
        try:
            code = until("its end", lambda: agent.process.poll() is not None and [agent.process.poll()])[0]
        finally:
            if agent.alive():
                agent.process.kill()
                agent.process.wait()
        rig.recovery = time.monotonic() - begun
        if code != status:
            raise Failed(f"exit status {code}, not {status}: {agent.log()[-300:]}")
        if says not in agent.log() or not agent.log().strip():
            raise Failed(f"its words are {agent.log()[-300:]!r}, without {says!r}")

    return Row("configuration", name, fault, f"exit status {status} and a message that names the fault", run,
               fast=fast, known=known)


def holds(text):
    return lambda path: path.write_text(text)


def starts(name, fault, *settings, env=None, fast=False):
    """The agent starts and works."""
    def run(rig):
        rig.start(*settings, env=env)
        rig.until("ready", lambda: rig.verdict() == "ready" and not rig.neighbours())

    return Row("configuration", name, fault, "the agent starts and judges", run, fast=fast)


FILES = [
    refused("config missing", "--config names no file", lambda path: None, says="config.toml", fast=True),
    refused("config a directory", "--config names a directory", os.mkdir, says="config.toml"),
    refused("config endless", "--config names a link to /dev/zero",
            lambda path: path.symlink_to("/dev/zero"), says="config.toml", fast=True),
    refused("config of 100 MiB", "--config names 100 MiB of comments",
            lambda path: path.write_bytes(b"#" * (100 << 20)), says="config.toml"),
    refused("config junk", "--config names random bytes", lambda path: path.write_bytes(os.urandom(4096)),
            says="config.toml", fast=True),
    refused("config a loop", "--config names a link to itself",
            lambda path: path.symlink_to(path.name), says="config.toml"),
    refused("unknown keys", "a file with three unknown keys", holds(
        "[agent]\nnode_nam = \"x\"\n[nope]\na = 1\n[policy.link_state]\nraise = 1\n"), says="nope"),
    refused("wrong types", "a file with values of other types", holds(
        "[intervals]\nlink = true\ncounters = []\n[agent]\nnode_name = 3\n"), says="link"),
    refused("time that cannot be read", "a file with a time that cannot be read", holds(
        "[intervals]\nlink = \"soon\"\n"), says="soon"),
    refused("deep tables", "a file with 10,000 nested tables", holds("a" + ".a" * 10_000 + " = 1\n")),
    refused("an interval of zero", "an interval of zero", argv=("--set", "intervals.link=0s"), says="link"),
    refused("an interval of centuries", "an interval that no clock holds",
            argv=("--set", "intervals.link=99999999999999999999h"), says="link"),
    refused("unknown key by --set", "--set of a key that does not exist", argv=("--set", "nope.a=1"),
            says="nope"),
    refused("--set without a value", "--set without a value", argv=("--set", "agent.node_name")),
    refused("listen at no address", "--listen names no address", argv=("--listen", "nowhere:x")),
    refused("variable that is wrong", "a variable of a setting with a wrong value",
            env={"SELVAGE_INTERVALS_LINK": "soon"}, says="soon", fast=True),
    starts("foreign variables", "200 unknown variables with its prefix",
           env={f"SELVAGE_X{n}": "y" * 1000 for n in range(200)}),
    starts("patterns of 1,000 rails", "1,000 patterns of rails to leave out",
           "rails.exclude=" + ",".join(f"nothing{n}" for n in range(1000))),
]


def files_of_serve(name, fault, spoil, fast=False):
    """The file of bearer tokens is spoilt while the agent runs: the last good ones stay."""
    def run(rig):
        file = rig.dir / "tokens"
        file.write_text("a-token-of-thirty-two-characters\n")
        agent = rig.start(f"serve.token_file={file}", ready=False)
        rig.until("the first full window", lambda: agent.get("/readyz")[0] == 200)

        def asks(token):
            import http.client
            connection = http.client.HTTPConnection(*agent.address, timeout=10)
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer.status

        if asks("a-token-of-thirty-two-characters") != 200 or agent.get("/metrics")[0] != 401:
            raise Failed("the token does not guard /metrics")
        file.unlink()
        spoil(file)
        rig.until("a reload that fails", lambda: "the last good one" in agent.log())
        if asks("a-token-of-thirty-two-characters") != 200:
            raise Failed("the last good token is refused")
        if asks("") == 200 or agent.get("/metrics")[0] != 401:
            raise Failed("/metrics is open")
        begun = time.monotonic()
        if file.is_fifo():
            old = file.with_name("pipe")
            file.rename(old)
        elif file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink(missing_ok=True)
        file.write_text("another-token-of-this-many-characters\n")
        rig.recovers(begun, "the new token", lambda: asks("another-token-of-this-many-characters") == 200)

    return Row("configuration", name, fault, "the last good token is taken, no other; the new one once it is "
               "there", run, fast=fast)


RELOADS = [
    files_of_serve("tokens missing", "the file of tokens is removed", lambda path: None),
    files_of_serve("tokens a pipe", "the file of tokens is a pipe without a writer", os.mkfifo),
    files_of_serve("tokens endless", "the file of tokens is a link to /dev/zero",
                   lambda path: path.symlink_to("/dev/zero")),
    files_of_serve("tokens a directory", "the file of tokens is a directory", os.mkdir),
    files_of_serve("tokens empty", "the file of tokens is empty", lambda path: path.write_text("")),
    files_of_serve("tokens junk", "the file of tokens holds random bytes",
                   lambda path: path.write_bytes(os.urandom(4096))),
]


def port_in_use(rig):
    """The port is taken."""
    first = rig.start()
    address = f"--listen=127.0.0.1:{first.address[1]}"
    done = subprocess.run([str(rig.binary), "agent", f"--host-root={rig.tree}", address,
                           "--set", "agent.state_dir="], capture_output=True, text=True, timeout=60,
                          check=False)
    if done.returncode == 0 or str(first.address[1]) not in done.stderr + done.stdout:
        raise Failed(f"exit status {done.returncode}: {done.stderr[-300:]}")
    rig.right()


def piped(rig):
    """As a shell's `--config <(...)`: the writer comes late."""
    pipe = rig.dir / "config.toml"
    os.mkfifo(pipe)
    agent = rig.spawn(argv=["--config", str(pipe)])
    try:
        end = until("its open", lambda: [os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)])[0]
        os.write(end, b'[agent]\nlog_level = "debug"\n')
        os.close(end)
    finally:
        agent.listen()
    rig.until("ready", lambda: rig.verdict() == "ready" and not rig.neighbours())


OTHER = [Row("configuration", "config a pipe", "--config names a pipe whose writer comes late",
             "the agent waits for it, starts and judges", piped),
         Row("configuration", "a port in use", "a second agent on the port of the first",
             "it ends with a message that names the address; the first goes on", port_in_use, fast=True)]

ROWS = FILES + RELOADS + OTHER
