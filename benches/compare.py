"""Measures selvage and node_exporter's infiniband collector on one tree, in one run.

Prints a table with the ratios and the bars that selvage promises, then the same as one line of
JSON (also to --json FILE). Exits 1 if a bar is missed and --check is given.

What is compared: node_exporter reads every file at each scrape. selvage reads on its own timer, so
it is run with its timers set to one period and, once its first window is full, scraped once a period:
each scrape then stands for one full sample (state and counters of 18 ports) plus one scrape. CPU is
user plus system time of the whole process.

Three comparisons, told apart in the table:
  default  the tree with every counter, selvage as it comes: it leaves closed what neither a check
           nor a default metric needs. The bars are for this one.
  full     the same tree with counters.full: selvage reads and exports every file. Of hw_counters,
           more than half of the files, this node_exporter reads none.
  same     a tree without hw_counters, with counters.full: both read and export the same counters
           (selvage also judges them, and reads the network devices, PCI and GID tables).
"""

import argparse
import http.client
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

# Each is a ceiling; CPU and latency in times of node_exporter's.
BARS = {
    "cpu_ratio": 0.50,
    "latency_p50_ratio": 0.10,
    "rss_mib": 20.0,
    "anonymous_mib": 6.0,
    # The container image is this one file.
    "image_mb": 20.0,
    "idle_cpu_percent": 0.10,
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Program:
    """A server under measurement; ended by its own process id."""

    def __init__(self, argv, port, settle=1.0):
        self.port = port
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(argv, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 15
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.log.seek(0)
                    sys.exit(f"{argv}:\n{self.log.read().decode(errors='replace')}")
                time.sleep(0.05)
        time.sleep(settle)
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def scrape(self):
        """One scrape on a kept connection: seconds and body."""
        start = time.perf_counter()
        self.connection.request("GET", "/metrics")
        answer = self.connection.getresponse()
        body = answer.read()
        took = time.perf_counter() - start
        if answer.status != 200:
            sys.exit(f"status {answer.status}: {body[:500]!r}")
        return took, body

    def cpu(self):
        """Seconds of CPU so far, user and system, all threads: the process's own CPU clock. The ticks
        of /proc/PID/stat are too coarse, and beat with what runs by a timer."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def memory(self):
        """Resident set now, at most, and its anonymous part, in MiB."""
        with open(f"/proc/{self.process.pid}/status") as status:
            text = status.read()
        value = lambda name: int(re.search(rf"{name}:\s+(\d+)", text)[1]) / 1024
        return {"rss_mib": value("VmRSS"), "rss_peak_mib": value("VmHWM"), "anonymous_mib": value("RssAnon")}

    def strace(self, seconds, scrape_every):
        """System calls by name and scrapes within a stretch of time; none without strace."""
        with tempfile.NamedTemporaryFile() as out:
            try:
                tracer = subprocess.Popen(
                    ["strace", "-f", "-c", "-o", out.name, "-p", str(self.process.pid)],
                    stderr=subprocess.DEVNULL,
                )
            except FileNotFoundError:
                return None, 0
            time.sleep(1)
            if tracer.poll() is not None:
                return None, 0
            scrapes = self.paced(seconds, scrape_every)
            tracer.send_signal(signal.SIGINT)
            tracer.wait(20)
            calls = {}
            for line in open(out.name):
                row = line.split()
                if len(row) >= 5 and row[0].replace(".", "").isdigit() and row[-1] != "total":
                    calls[row[-1]] = int(row[3])
            return calls, scrapes

    def paced(self, seconds, every):
        """Scrapes once a period; gives how often."""
        scrapes = 0
        start = time.monotonic()
        while (now := time.monotonic()) < start + seconds:
            self.scrape()
            scrapes += 1
            time.sleep(max(0.0, start + scrapes * every - time.monotonic()))
        return scrapes


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def series(body):
    return sum(1 for line in body.splitlines() if line and not line.startswith(b"#"))


def latency(program, scrapes):
    for _ in range(20):
        program.scrape()
    taken = [program.scrape()[0] for _ in range(scrapes)]
    return statistics.median(taken), percentile(taken, 0.99)


def per_scrape_cpu(program, seconds, every):
    """CPU seconds a period, sampling and scraping once in each."""
    program.paced(2, every)
    before = program.cpu()
    scrapes = program.paced(seconds, every)
    return (program.cpu() - before) / scrapes, scrapes


def node_exporter(options, tree=None):
    tree = tree or options.tree
    port = free_port()
    return Program(
        [
            options.node_exporter,
            f"--path.sysfs={tree}/sys",
            f"--path.procfs={tree}/proc",
            "--collector.disable-defaults",
            "--collector.infiniband",
            "--web.disable-exporter-metrics",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        port,
    )


def selvage(options, period=None, full=False, tree=None):
    port = free_port()
    argv = [options.selvage, "agent", "--host-root", tree or options.tree]
    argv += ["--listen", f"127.0.0.1:{port}"]
    argv += ["--set", "agent.state_dir="] + (["--set", "counters.full=true"] if full else [])
    if period:
        argv += ["--set", f"intervals.link={int(period * 1000)}ms"]
        argv += ["--set", f"intervals.counters={int(period * 1000)}ms"]
    program = Program(argv, port)
    # While it starts it judges the node each second.
    deadline = time.monotonic() + 60
    while b"selvage_full_window 1" not in program.scrape()[1]:
        if time.monotonic() > deadline:
            sys.exit("no full window within 60 s")
        time.sleep(0.5)
    return program


def measure(options):
    result = {"ports": 18, "period_seconds": options.period}
    theirs, ours, full = {}, {}, {}
    with node_exporter(options) as program:
        theirs["latency_p50"], theirs["latency_p99"] = latency(program, options.scrapes)
        theirs["cpu"], theirs["scrapes"] = per_scrape_cpu(program, options.seconds, options.period)
        theirs["series"] = series(program.scrape()[1])
        theirs |= program.memory()
        calls, scrapes = program.strace(10, options.period)
        theirs["syscalls"] = round(sum(calls.values()) / scrapes) if calls else None
    for numbers, is_full in ((ours, False), (full, True)):
        with selvage(options, options.period, is_full) as program:
            paced = per_scrape_cpu(program, options.seconds, options.period)
            numbers["cpu"], numbers["scrapes"] = paced
            calls, scrapes = program.strace(10, options.period)
            numbers["syscalls"] = round(sum(calls.values()) / scrapes) if calls else None
            if calls:
                top = sorted(calls.items(), key=lambda call: -call[1])[:8]
                by_name = {name: round(count / scrapes, 1) for name, count in top}
                numbers["syscalls_by_name"] = by_name
        with selvage(options, full=is_full) as program:
            # Default timers: latency while the agent also samples, memory, and what it costs idle.
            numbers["latency_p50"], numbers["latency_p99"] = latency(program, options.scrapes)
            numbers["series"] = series(program.scrape()[1])
            time.sleep(2)
            before, start = program.cpu(), time.monotonic()
            time.sleep(options.idle)
            idle = (program.cpu() - before) / (time.monotonic() - start)
            numbers["idle_cpu_percent"] = idle * 100
            numbers |= program.memory()
    ours["image_mb"] = os.path.getsize(options.selvage) / 1e6
    result["node_exporter"], result["selvage"], result["selvage_full"] = theirs, ours, full
    if options.same_files:
        result["same_files"] = same = {}
        with node_exporter(options, options.same_files) as program:
            same["node_exporter_cpu"], _ = per_scrape_cpu(program, options.seconds, options.period)
        with selvage(options, options.period, True, options.same_files) as program:
            same["selvage_cpu"], _ = per_scrape_cpu(program, options.seconds, options.period)
        same["cpu_ratio"] = same["selvage_cpu"] / same["node_exporter_cpu"]
    result["bars"] = {
        "cpu_ratio": ours["cpu"] / theirs["cpu"],
        "latency_p50_ratio": ours["latency_p50"] / theirs["latency_p50"],
        "rss_mib": ours["rss_mib"],
        "anonymous_mib": ours["anonymous_mib"],
        "image_mb": ours["image_mb"],
        "idle_cpu_percent": ours["idle_cpu_percent"],
    }
    result["missed"] = [name for name, bar in BARS.items() if result["bars"][name] > bar]
    return result


def table(result):
    theirs, ours, bars = result["node_exporter"], result["selvage"], result["bars"]
    full = result["selvage_full"]

    def row(what, unit, scale, key, bar=""):
        left, right, all_of_it = theirs.get(key), ours.get(key), full.get(key)
        show = lambda value: "-" if value is None else f"{value * scale:,.3f}".rstrip("0").rstrip(".")
        ratio = lambda value: f"{value / left:.3f}" if left and value else "-"
        print(
            f"{what:<32}{show(left):>14}{show(right):>10}{ratio(right):>8}"
            f"{show(all_of_it):>10}{ratio(all_of_it):>8}  {unit:<4}{bar}"
        )

    def verdict(name):
        missed = "MISSED" if name in result["missed"] else "met"
        return f"at most {BARS[name]:g}: {bars[name]:.3f} {missed}"

    print(
        f"{'18 ports, all counters in tree':<32}{'node_exporter':>14}{'selvage':>10}{'ratio':>8}"
        f"{'full':>10}{'ratio':>8}"
    )
    row("CPU, full sample + scrape", "ms", 1e3, "cpu", verdict("cpu_ratio"))
    if same := result.get("same_files"):
        print(
            f"{'  the same files on both sides':<32}{same['node_exporter_cpu'] * 1e3:>14.3f}{'':>18}"
            f"{same['selvage_cpu'] * 1e3:>10.3f}{same['cpu_ratio']:>8.3f}  ms"
        )
    row("scrape latency p50", "ms", 1e3, "latency_p50", verdict("latency_p50_ratio"))
    row("scrape latency p99", "ms", 1e3, "latency_p99")
    row("resident memory", "MiB", 1, "rss_mib", verdict("rss_mib"))
    row("of which anonymous", "MiB", 1, "anonymous_mib", verdict("anonymous_mib"))
    row("resident memory, peak", "MiB", 1, "rss_peak_mib")
    row("size of the image's program", "MB", 1, "image_mb", verdict("image_mb"))
    row("system calls a sample + scrape", "", 1, "syscalls")
    row("series exported", "", 1, "series")
    row("idle CPU at default intervals", "%", 1, "idle_cpu_percent", verdict("idle_cpu_percent"))
    for title, numbers in (("selvage", ours), ("selvage counters.full", full)):
        if names := numbers.get("syscalls_by_name"):
            told = ", ".join(f"{name} {count:g}" for name, count in names.items())
            print(f"{title}, calls a sample: {told}")
    print("The bars are for the default configuration, which reads what checks and metrics need of a tree")
    print("with every counter; full is with counters.full. node_exporter reads no hw_counters; in the row")
    print("of the same files there are none, and selvage runs with counters.full: both export the same")
    print("counters, and selvage does its other work besides.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--selvage", required=True)
    parser.add_argument("--node-exporter", required=True)
    parser.add_argument("--tree", required=True)
    parser.add_argument("--same-files", help="the tree without what node_exporter does not read")
    parser.add_argument("--scrapes", type=int, default=500, help="for latency")
    parser.add_argument("--seconds", type=float, default=30, help="of paced sampling")
    parser.add_argument("--period", type=float, default=0.2, help="seconds between paced samples")
    parser.add_argument("--idle", type=float, default=60, help="seconds of idling")
    parser.add_argument("--json", help="file for the result")
    parser.add_argument("--check", action="store_true", help="exit 1 if a bar is missed")
    options = parser.parse_args()
    result = measure(options)
    table(result)
    text = json.dumps(result)
    print(text)
    if options.json:
        with open(options.json, "w") as out:
            out.write(text + "\n")
    if options.check and result["missed"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
