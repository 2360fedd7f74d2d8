"""A real Alertmanager on a free port of loopback, and what it says of alerts."""

import contextlib
import datetime
import json
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.request

LIMIT = 120.0


@contextlib.contextmanager
def alertmanager(config: pathlib.Path):
    """Its address, while it runs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as directory:
        log = pathlib.Path(directory) / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [
                    "prometheus-alertmanager",
                    f"--config.file={config}",
                    f"--storage.path={directory}/data",
                    f"--web.listen-address={address}",
                    "--cluster.listen-address=",
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            until = time.monotonic() + LIMIT
            while not _ready(address):
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"Alertmanager does not start:\n{log.read_text()}")
                time.sleep(0.05)
            yield f"http://{address}"
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def post(url: str, alerts: list):
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    body = [{"labels": labels, "endsAt": end.isoformat()} for labels in alerts]
    request = urllib.request.Request(
        f"{url}/api/v2/alerts",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        assert answer.status == 200


def active(url: str) -> list:
    """Labels of the alerts that are not inhibited."""
    query = f"{url}/api/v2/alerts?active=true&inhibited=false&silenced=false"
    with urllib.request.urlopen(query, timeout=LIMIT) as answer:
        return [each["labels"] for each in json.load(answer)]


def settled(url: str, alerts: list, expected: list, patience: float) -> list:
    """The active alerts, once they are what is expected, or after `patience` seconds.

    Alertmanager processes posted alerts one after the other: a difference counts only if it lasts.
    """
    post(url, alerts)
    wanted = sorted(map(_key, expected))
    until = time.monotonic() + patience
    while True:
        found = active(url)
        if sorted(map(_key, found)) == wanted or time.monotonic() > until:
            return found
        time.sleep(0.5)


def _key(labels: dict) -> tuple:
    return tuple(sorted(labels.items()))
