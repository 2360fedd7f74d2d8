"""Clients that are slow, many, greedy or hostile. Meanwhile /healthz answers, and a scrape comes through."""

import contextlib
import os
import socket
import threading
import time

from rig import Failed
from row import Row


class Crowd:
    """Connections to the agent; what the agent closes is opened again."""

    def __init__(self, agent, count, send=b"", again=b""):
        self.agent, self.send, self.again = agent, send, again
        self.open = [None] * count
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.opened = 0

    def connect(self):
        stream = socket.create_connection(self.agent.address, 5)
        stream.settimeout(1)
        if self.send:
            stream.sendall(self.send)
        self.opened += 1
        return stream

    def run(self):
        while not self.over.is_set():
            for at, stream in enumerate(self.open):
                if self.over.is_set():
                    break
                try:
                    if stream is None:
                        self.open[at] = self.connect()
                    elif self.again:
                        stream.sendall(self.again)
                except OSError:
                    if stream:
                        stream.close()
                    self.open[at] = None
            # Each byte costs a build without optimisation a tenth of a millisecond.
            self.over.wait(0.05)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join(20)
        for stream in self.open:
            if stream:
                stream.close()


def crowd(name, fault, count, send=b"", again=b"", fast=False, known=""):
    """While they last, scrapes and verdicts go on."""
    def run(rig):
        agent = rig.start()
        rig.until("ready", lambda: rig.verdict() == "ready")
        with Crowd(agent, count, send, again) as clients:
            rig.until("the connections", lambda: clients.opened >= count)
            scrapes(rig)
        begun = time.monotonic()
        rig.recovers(begun)

    return Row("HTTP", name, fault, "probes answer; a scrape comes through within 30 s; values stay",
               run, fast=fast, known=known, crowded=True)


def scrapes(rig, count=20):
    """Scrapes while others press; one that is pushed out is tried again, as Prometheus would not."""
    for _ in range(count):
        rig.until("a scrape", lambda: not rig.neighbours(), 30)


def once(name, fault, attack, fast=False, known=""):
    """`attack` gets a function that makes connections."""
    def run(rig):
        agent = rig.start()
        rig.until("ready", lambda: rig.verdict() == "ready")

        def connect():
            stream = socket.create_connection(agent.address, 10)
            stream.settimeout(10)
            return stream

        before = agent.descriptors()
        attack(connect)
        scrapes(rig, 3)
        begun = time.monotonic()
        rig.recovers(begun, "descriptors given back", lambda: agent.descriptors() <= before + 8)

    return Row("HTTP", name, fault, "probes answer; a scrape comes through; descriptors are given back",
               run, fast=fast, known=known, crowded=True)


def sends(data, count=1, status=None):
    """Connections that each send this, or what it gives, and read what comes."""
    def attack(connect):
        request = data() if callable(data) else data
        for _ in range(count):
            answer = b""
            with contextlib.suppress(ConnectionError, BrokenPipeError, TimeoutError):
                with connect() as stream:
                    with contextlib.suppress(ConnectionError, BrokenPipeError):
                        stream.sendall(request)
                    while part := stream.recv(65536):
                        answer += part
                        if len(answer) > 1 << 20:
                            break
            if status and not answer.startswith(b"HTTP/1.1 " + status):
                raise Failed(f"answered {answer[:60]}, not {status.decode()}")
    return attack


def get(path, *headers, version="1.1", method="GET", close=True):
    lines = [f"{method} {path} HTTP/{version}", "Host: localhost", *headers]
    if close:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def pipelined(connect):
    """10,000 requests on one connection, and the answers are not read."""
    with connect() as stream:
        with contextlib.suppress(OSError):
            stream.settimeout(2)
            stream.sendall(get("/metrics", close=False) * 10_000)


def half_closed(connect):
    for _ in range(50):
        with connect() as stream:
            stream.sendall(get("/healthz"))
            stream.shutdown(socket.SHUT_WR)
            if b"200 OK" not in stream.recv(4096):
                raise Failed("a client that closed its side got no answer")


def resets(connect):
    for _ in range(100):
        stream = connect()
        stream.sendall(get("/metrics"))
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        stream.close()


def unread(connect):
    """Clients that ask for all and read nothing."""
    streams = [connect() for _ in range(30)]
    for stream in streams:
        with contextlib.suppress(OSError):
            stream.sendall(get("/metrics", close=False) * 50)
    for stream in streams:
        stream.close()


def endless_body(connect):
    with connect() as stream:
        with contextlib.suppress(OSError):
            stream.sendall(get("/metrics", "Transfer-Encoding: chunked", method="POST", close=False))
            for _ in range(2000):
                stream.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")


def burst(connect):
    for _ in range(2000):
        with contextlib.suppress(OSError):
            connect().close()


SLOW = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
CROWDS = [
    crowd("1,000 idle connections", "1,000 connections that send nothing", 1000, fast=True),
    crowd("100 slow headers", "100 clients that send a byte of a header at a time", 100, SLOW, b"x",
          fast=True),
    crowd("1,000 slow headers", "1,000 clients that send a byte of a header at a time", 1000, SLOW,
          b"x"),
    crowd("300 kept alive", "300 clients that ask again and again on a connection each", 300,
          get("/healthz", close=False), get("/healthz", close=False)),
    crowd("10 pipelined scrapes", "10 clients that pipeline scrapes and read no answer", 10,
          get("/metrics", close=False) * 100, get("/metrics", close=False) * 20),
    crowd("64 pages unread", "64 clients that ask for the page and read nothing", 64,
          get("/", close=False) * 50),
]
ONCE = [
    once("pipeline of 10,000", "10,000 scrapes pipelined on one connection", pipelined, fast=True),
    once("half-closed", "50 clients close their side after the request", half_closed, fast=True),
    once("resets", "100 clients reset their connection after the request", resets),
    once("answers unread", "30 clients ask 50 times each and read nothing", unread),
    once("burst of connections", "2,000 connections opened and closed at once", burst),
    once("header of 1 MiB", "a header of 1 MiB", sends(
        get("/metrics", "X: " + "a" * (1 << 20)), status=b"431"), fast=True),
    once("10,000 headers", "10,000 short headers", sends(
        get("/metrics", *[f"X{n}: y" for n in range(10_000)]), status=b"431")),
    once("200 headers", "200 headers", sends(get("/metrics", *["X: y"] * 200))),
    once("path of 64 KiB", "a path of 64 KiB", sends(get("/" + "a" * 65536))),
    once("path that climbs", "`/../../etc/passwd`, encoded and not", sends(
        get("/../../etc/passwd"), status=b"404")),
    once("encoded path", "a path of encoded NULs and dots", sends(
        get("/%00%2e%2e%2f%2e%2e/etc/passwd"), status=b"404")),
    once("body of 64 MiB", "a POST of 64 MiB", sends(lambda: (
        get("/metrics", f"Content-Length: {64 << 20}", method="POST") + b"x" * (64 << 20)))),
    once("body without end", "a chunked POST that goes on", endless_body),
    once("two lengths", "Content-Length twice, and chunked as well", sends(
        get("/metrics", "Content-Length: 5", "Content-Length: 6", "Transfer-Encoding: chunked",
            method="POST"))),
    once("other methods", "DELETE of /metrics", sends(get("/metrics", method="DELETE"), status=b"405")),
    once("CONNECT", "CONNECT through the agent", sends(get("example.org:443", method="CONNECT"))),
    once("upgrade", "an upgrade to WebSocket", sends(get(
        "/metrics", "Upgrade: websocket", "Sec-WebSocket-Key: eA=="))),
    once("HTTP/2 preface", "HTTP/2 without asking", sends(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 9)),
    once("HTTP/0.9", "a request without a version", sends(b"GET /metrics\r\n\r\n")),
    once("HTTP/1.0", "a request of HTTP/1.0", sends(b"GET /metrics HTTP/1.0\r\n\r\n")),
    once("TLS to a plain port", "a TLS greeting", sends(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + b"a" * 508)),
    once("junk", "64 KiB of random bytes, 20 times", sends(os.urandom(65536), 20), fast=True),
    once("NUL bytes", "64 KiB of NUL bytes", sends(b"\0" * 65536)),
    once("bare line feeds", "a megabyte of line feeds", sends(b"\n" * (1 << 20))),
]

ROWS = CROWDS + ONCE
