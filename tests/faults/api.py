"""A scripted API server on loopback: one Node, no other objects, and faults on demand."""

import http.server
import json
import threading
import time
import urllib.parse

NODE = {
    "kind": "Node", "apiVersion": "v1",
    "metadata": {"name": "node-1", "uid": "11111111-2222-3333-4444-555555555555",
                 "resourceVersion": "1", "labels": {}, "annotations": {}},
    "spec": {}, "status": {"conditions": []},
}


class Server(http.server.ThreadingHTTPServer):
    """`fault`, when there is one, gets each request's handler and returns whether it answered."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.node = json.loads(json.dumps(NODE))
        self.version = 1
        self.lock = threading.Lock()
        self.fault = None
        self.requests = []
        self.pods = []
        self.over = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, request, client_address):
        """Clients that go are what it is about."""

    def close(self):
        self.over.set()
        self.shutdown()
        self.server_close()

    def kubeconfig(self, path, user="token: x"):
        address = f"http://127.0.0.1:{self.server_address[1]}"
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
            f"clusters: [{{name: c, cluster: {{server: '{address}'}}}}]\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
            f"users: [{{name: u, user: {{{user}}}}}]\n")
        return path

    def labels(self):
        with self.lock:
            return dict(self.node["metadata"]["labels"])

    def asked(self, part="", since=0.0):
        """Requests whose method and path hold `part`, as (moment, text)."""
        return [(at, text) for at, text in list(self.requests) if part in text and at >= since]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 120

    def log_message(self, *_):
        pass

    def send(self, code, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def status(self, code, reason="Failure"):
        self.send(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                         "reason": reason, "message": reason})

    def answer(self):
        self.path_only, _, query = self.path.partition("?")
        self.query = urllib.parse.parse_qs(query)
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length) if length else b""
        self.server.requests.append((time.monotonic(), f"{self.command} {self.path}"))
        fault = self.server.fault
        if fault and fault(self):
            return
        self.well()

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = answer

    def well(self):
        """What a server without faults answers."""
        watching = self.query.get("watch") in (["true"], ["1"])
        if self.path_only == "/api/v1/nodes" and watching:
            return self.watch()
        if self.path_only == "/api/v1/pods" and watching:
            return self.watch()
        with self.server.lock:
            node, version = json.loads(json.dumps(self.server.node)), str(self.server.version)
        lists = {"/api/v1/nodes": ("NodeList", [node]), "/api/v1/pods": ("PodList", self.server.pods)}
        if self.command == "GET" and self.path_only in lists:
            kind, items = lists[self.path_only]
            return self.send(200, {"kind": kind, "apiVersion": "v1", "items": items,
                                   "metadata": {"resourceVersion": version}})
        if self.path_only.startswith("/api/v1/nodes/node-1"):
            if self.command == "PATCH":
                node = self.patched()
            return self.send(200, node)
        if "/events" in self.path_only and self.command == "POST":
            return self.send(201, json.loads(self.body or b"{}"))
        return self.status(404, "NotFound")

    def patched(self):
        """Labels by apply, which is all that these rows look at; conditions as they come."""
        body = json.loads(self.body)
        with self.server.lock:
            node = self.server.node
            if isinstance(body, dict):
                labels = body.get("metadata", {}).get("labels", {})
                changed = {key: value for key, value in labels.items()
                           if node["metadata"]["labels"].get(key) != value}
                node["metadata"]["labels"].update(changed)
                if "status" in body:
                    node["status"]["conditions"] = body["status"].get("conditions", [])
            self.server.version += 1
            node["metadata"]["resourceVersion"] = str(self.server.version)
            return json.loads(json.dumps(node))

    def start_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def watch(self):
        """Tells of the Node's versions until the client goes, the server ends, or a fault begins or ends."""
        self.start_stream()
        seen, fault = 0, self.server.fault
        while not self.server.over.is_set() and self.server.fault is fault:
            with self.server.lock:
                version, node = self.server.version, json.dumps(self.server.node)
            if version != seen and self.path_only.endswith("nodes"):
                self.chunk(f'{{"type":"MODIFIED","object":{node}}}\n'.encode())
                seen = version
            self.server.over.wait(0.05)
        self.chunk(b"")
