"""visible.py HOST:PORT FIFO SERIES LINE...: writes each line to the FIFO and waits until the value of
SERIES (the text before the space) changes; one connection, asked every 5 ms, 10 s at most. Prints
milliseconds, one number a line: from the write to the answer that first shows it. Lines come at
uneven times: one right after the other would fall into step with the reader's looks."""
import http.client, sys, time

host, fifo, series = sys.argv[1:4]
connection = http.client.HTTPConnection(host, timeout=5)


def value():
    connection.request("GET", "/metrics")
    for line in connection.getresponse().read().decode().splitlines():
        if line.startswith(series + " "):
            return line[len(series) + 1:]
    return None


for number, line in enumerate(sys.argv[4:]):
    before = value()
    time.sleep(0.1 + 0.011 * number % 0.07 if number else 0)
    with open(fifo, "wb", buffering=0) as out:
        start = time.monotonic()
        out.write(line.encode() + b"\n")
    while value() == before:
        if time.monotonic() - start > 10:
            sys.exit(f"after 10 s still {series} {before}")
        time.sleep(0.005)
    print(round((time.monotonic() - start) * 1000))
