"""healthz.py HOST:PORT: asks /healthz 20 times a second, by a new connection each, as the kubelet does less
often, until SIGTERM. Prints how often, how often in vain (5 s are waited), the 99th percentile and the
longest answer in milliseconds."""
import http.client, signal, sys, time

over, took, failed = [], [], 0
signal.signal(signal.SIGTERM, lambda *_: over.append(True))
while not over:
    began = time.monotonic()
    try:
        connection = http.client.HTTPConnection(sys.argv[1], timeout=5)
        connection.request("GET", "/healthz")
        failed += connection.getresponse().status != 200
    except OSError:
        failed += 1
    finally:
        connection.close()
    took.append(time.monotonic() - began)
    time.sleep(0.05)
took.sort()
print(len(took), failed, round(took[len(took) * 99 // 100] * 1000), round(took[-1] * 1000))
