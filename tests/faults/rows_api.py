"""The API server, or what stands in front of it, fails in every way. The agent goes on judging, asks at a
bounded pace, keeps its memory, and writes the Node once it can."""

import contextlib
import os
import resource
import shutil
import time

from api import Server
from rig import MEMORY_LIMIT, Failed
from row import Row
from rows_process import HOOKED, panic

LABEL = "selvage.dev/fabric"
# Requests a second that an agent may make of a server that fails, over the time of the fault.
PACE = 20
SETTINGS = ("cluster.mode=labels", "cluster.heartbeat=0s")


# So that the machine is not filled up where a file is read without a bound.
BOUNDED = [(resource.RLIMIT_DATA, 512 << 20)]


def cluster(rig, user="token: x", **options):
    """A server, and an agent that writes its Node."""
    server = Server()
    rig.undo.append(server.close)
    path = server.kubeconfig(rig.dir / "kubeconfig", user)
    agent = rig.start(f"cluster.kubeconfig={path}", *SETTINGS, **options)
    return server, agent


def follows(rig, server, state):
    """The Node's label follows the verdict."""
    rig.until(f"the label {state}", lambda: server.labels().get(LABEL) == state)


def link(rig, text):
    (rig.tree / "sys/class/infiniband/mlx5_3/ports/1/state").write_text(text)


def row(name, fault, answer, fast=False, known="", memory=MEMORY_LIMIT):
    """`answer` gets a request's handler and returns whether it answered."""
    def run(rig):
        server, agent = cluster(rig)
        follows(rig, server, "ready")
        rig.until("ready", lambda: rig.verdict() == "ready")
        began = time.monotonic()
        server.fault = answer
        # A write is due, which the fault meets; what is judged goes on.
        link(rig, "1: DOWN\n")
        rig.until("a link that fell", lambda: rig.verdict() == "unready")
        rig.until("a request that meets the fault", lambda: server.asked(since=began))
        rig.rounds(3)
        asked, took = len(server.asked(since=began)), time.monotonic() - began
        if asked > PACE * max(took, 1):
            raise Failed(f"{asked} requests within {took:.1f} s")
        link(rig, "4: ACTIVE\n")
        rig.until("ready", lambda: rig.verdict() == "ready")
        rig.right(lambda name: "mlx5_3" in name)
        link(rig, "1: DOWN\n")
        begun = time.monotonic()
        server.fault = None
        rig.recovers(begun, "the label follows", lambda: server.labels().get(LABEL) == "unready", 120)

    return Row("API server", name, fault, "the verdict follows the node; at most "
               f"{PACE} requests a second; the label follows once the server is well", run,
               "the label, meanwhile", fast, known, memory)


def says(code, body=b"", kind="application/json", only=None):
    """Answers every request so, or those whose command or path holds `only`."""
    def answer(handler):
        if only and only not in f"{handler.command} {handler.path}":
            return False
        handler.send(code, body, kind)
        return True
    return answer


def fails(code, headers=()):
    def answer(handler):
        handler.send_response(code)
        for name, value in headers:
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True
    return answer


def hangs(handler):
    """Until the fault is over."""
    fault = handler.server.fault
    while handler.server.fault is fault and not handler.server.over.wait(0.05):
        pass
    handler.close_connection = True
    return True


def half_then_hangs(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(b'{"kind":"Node","metadata":')
    return hangs(handler)


def closes(handler):
    handler.close_connection = True
    with contextlib.suppress(OSError):
        handler.connection.shutdown(2)
    return True


def garbage(handler):
    handler.wfile.write(b"\x15\x03\x01\x00\x02\x02\x46" * 100)
    handler.close_connection = True
    return True


def endless(piece, only=None):
    """A body of a gigabyte, or as much of it as the client takes."""
    def answer(handler):
        if only and only not in f"{handler.command} {handler.path}":
            return False
        fault = handler.server.fault
        handler.start_stream()
        with contextlib.suppress(OSError):
            for _ in range((1 << 30) // len(piece)):
                if handler.server.fault is not fault:
                    break
                handler.chunk(piece)
        handler.close_connection = True
        return True
    return answer


def drips(handler):
    """A byte at a time."""
    fault = handler.server.fault
    handler.start_stream()
    with contextlib.suppress(OSError):
        while handler.server.fault is fault and not handler.server.over.wait(0.2):
            handler.chunk(b" ")
    handler.close_connection = True
    return True


def watches(*lines):
    """Every watch tells this and ends; other requests are answered well."""
    def answer(handler):
        if "watch=" not in handler.path:
            return False
        handler.start_stream()
        for line in lines:
            handler.chunk(line)
        handler.chunk(b"")
        return True
    return answer


ERROR = (b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",'
         b'"message":"too old","reason":"Expired","code":410}}\n')
OTHER = b'{"type":"MODIFIED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"other"}}}\n'

ANSWERS = [
    row("watches end at once", "every watch ends at once, with 200 and an empty body", watches(),
        fast=True),
    row("watches end after an event", "every watch ends after an event of another Node", watches(OTHER)),
    row("watches are expired", "every watch answers 410 Gone", watches(ERROR), fast=True),
    row("watches tell junk", "every watch tells lines that are not JSON",
        watches(b"junk\n", b"{\n", b"\xff\xfe\n")),
    row("watches tell odd events", "every watch tells events of unknown types and without objects",
        watches(b'{"type":"X","object":{}}\n', b'{"type":"MODIFIED"}\n', b'[]\n')),
    *(row(f"status {code}", f"every request is answered with {code}", fails(code), fast=code == 500)
      for code in (400, 401, 403, 404, 409, 410, 413, 422, 500, 502, 503, 504)),
    row("status 429", "every request is answered with 429 and Retry-After: 1",
        fails(429, [("Retry-After", "1")])),
    row("Retry-After of a year", "every request is answered with 429 and Retry-After of a year",
        fails(429, [("Retry-After", "31536000")])),
    row("redirect to itself", "every request is redirected to where it came from",
        lambda handler: fails(307, [("Location", handler.path)])(handler)),
    row("no answer", "the server accepts and never answers", hangs, fast=True),
    row("half an answer", "the server stops in the middle of a body", half_then_hangs),
    row("connections closed", "the server closes each connection without an answer", closes),
    row("no HTTP", "the server answers with bytes other than HTTP", garbage),
    row("a byte at a time", "the server sends a byte every 200 ms", drips),
    row("body of 1 GiB", "every body is a gigabyte", endless(b" " * 65536)),
    row("string of 1 GiB", "every body is a string of a gigabyte", endless(b'"' + b"a" * 65535)),
    row("watch line of 1 GiB", "every watch tells a line of a gigabyte", endless(b"a" * 65536, "watch=")),
    row("empty body", "every request is answered with 200 and nothing", says(200)),
    row("no JSON", "every request is answered with a proxy's page", says(
        200, b"<html>sign in</html>", "text/html"), fast=True),
    row("torn JSON", "every body is cut short", says(200, b'{"kind":"Node","apiVersion":"v1","meta')),
    row("deep JSON", "every body is 100,000 arrays deep", says(200, b"[" * 100_000)),
    row("JSON of another kind", "every body is a Pod without a name", says(
        200, b'{"kind":"Pod","apiVersion":"v1","metadata":{}}')),
    row("JSON null", "every body is null", says(200, b"null")),
    row("writes refused", "every patch is answered with 403", says(403, b"{}", only="PATCH")),
    row("writes not answered", "no patch is answered", lambda handler: handler.command == "PATCH" and
        hangs(handler)),
]


def away(rig):
    """The address is closed, and then a server listens."""
    server = Server()
    path = server.kubeconfig(rig.dir / "kubeconfig")
    server.close()
    port = server.server_address[1]
    rig.start(f"cluster.kubeconfig={path}", *SETTINGS)
    rig.until("ready", lambda: rig.verdict() == "ready")
    rig.rounds(3)
    rig.right()
    begun = time.monotonic()
    # It is the kernel's to give away while nobody listens.
    server = rig.until("the port", lambda: Server(port))
    rig.undo.append(server.close)
    rig.recovers(begun, "the label", lambda: server.labels().get(LABEL) == "ready", 120)


def task_ends(rig):
    """The task that talks to the API server panics."""
    hook = rig.dir / "fault"
    server, agent = cluster(rig, env={"TASK_FAULTS": str(hook)})
    follows(rig, server, "ready")
    panic(rig, agent, hook, "cluster")
    begun = time.monotonic()
    link(rig, "1: DOWN\n")
    rig.recovers(begun, "the label", lambda: server.labels().get(LABEL) == "unready")
    rig.right(lambda name: "mlx5_3" in name)


def token(name, fault, spoil):
    """The token's file is spoilt while the agent runs; read again, it serves."""
    def run(rig):
        file = rig.dir / "token"
        file.write_text("x")
        server, _ = cluster(rig, f"tokenFile: {file}", limits=BOUNDED)
        follows(rig, server, "ready")
        file.unlink()
        spoil(file)
        # Whatever is kept of the old token is not good any more.
        server.fault = fails(401)
        link(rig, "1: DOWN\n")
        rig.until("a link that fell", lambda: rig.verdict() == "unready")
        rig.rounds(3)
        link(rig, "4: ACTIVE\n")
        rig.until("ready", lambda: rig.verdict() == "ready")
        rig.right(lambda name: "mlx5_3" in name)
        link(rig, "1: DOWN\n")
        begun = time.monotonic()
        restore(file, "x")
        server.fault = None
        rig.recovers(begun, "the label follows", lambda: server.labels().get(LABEL) == "unready")

    return Row("API server", name, fault, "the verdict follows the node; the label follows once the token "
               "is back", run, "the label, meanwhile")


def restore(path, text):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.write_text(text)


def kubeconfig(name, fault, make, known=""):
    """What the agent finds at the start where the kubeconfig should be."""
    def run(rig):
        path = rig.dir / "kubeconfig"
        make(path)
        rig.start(f"cluster.kubeconfig={path}", *SETTINGS, limits=BOUNDED)
        rig.until("ready", lambda: rig.verdict() == "ready" and not rig.neighbours())
        rig.rounds(2)
        rig.right()
        server = Server()
        rig.undo.append(server.close)
        begun = time.monotonic()
        new = rig.dir / "new"
        server.kubeconfig(new)
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        new.rename(path)
        rig.recovers(begun, "the label", lambda: server.labels().get(LABEL) == "ready")

    return Row("API server", name, fault, "the agent serves and judges; the Node is written once the file is "
               "right", run, "the label, meanwhile", known=known)


KINDS = [
    ("missing", "does not exist", lambda path: None),
    ("a pipe", "is a pipe without a writer", os.mkfifo),
    ("endless", "is a link to /dev/zero", lambda path: path.symlink_to("/dev/zero")),
    ("a directory", "is a directory", os.mkdir),
    ("empty", "is empty", lambda path: path.write_text("")),
    ("junk", "holds random bytes", lambda path: path.write_bytes(os.urandom(4096))),
    ("of 64 MiB", "holds 64 MiB", lambda path: path.write_bytes(b"a: " + b"x" * (64 << 20))),
]

ROWS = [
    *ANSWERS,
    Row("API server", "server away", "nothing listens at the server's address", "the agent serves and judges; "
        "the Node is written once the server is there", away, "the label, meanwhile", fast=True),
    Row("threads", "task cluster, panic", "the task `cluster` panics",
        "it is started again, and writes what changed; the others go on", task_ends, fast=True, hook=True,
        memory=HOOKED),
    *(token(f"token {name}", f"the token's file {text}", make) for name, text, make in KINDS),
    *(kubeconfig(f"kubeconfig {name}", f"at the start the kubeconfig {text}", make)
      for name, text, make in KINDS),
]
