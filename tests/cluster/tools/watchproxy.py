"""watchproxy.py PORT PKI SWITCH LOG: stands before the API server, with its certificate. While the file SWITCH
is there, every watch ends at once, with 200 and an empty body. Each request is a line of LOG: `watch` or
`other`, and what was asked."""
import http.client, http.server, os, ssl, sys, threading

port, pki, switch, log = int(sys.argv[1]), sys.argv[2], sys.argv[3], open(sys.argv[4], "a", buffering=1)
upstream = ssl.create_default_context(cafile=f"{pki}/ca.crt")
HOP_BY_HOP = ("connection", "transfer-encoding", "content-length")
watches = set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """The file is the log."""

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def begin(self, status, headers):
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def forward(self):
        watch = "watch=" in self.path
        log.write(f"{'watch' if watch else 'other'} {self.command} {self.path}\n")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if watch and os.path.exists(switch):
            self.begin(200, [("Content-Type", "application/json")])
            self.chunk(b"")
            return
        server = http.client.HTTPSConnection("127.0.0.1", 443, context=upstream)
        if watch:
            watches.add(self)
        try:
            server.request(self.command, self.path, body, dict(self.headers))
            answer = server.getresponse()
            self.begin(answer.status, answer.getheaders())
            while data := answer.read1(65536):
                self.chunk(data)
            self.chunk(b"")
        except OSError:
            self.close_connection = True
        finally:
            watches.discard(self)
            server.close()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward


def end_watches():
    """Those that run, once the file is there."""
    while True:
        threading.Event().wait(0.1)
        if os.path.exists(switch):
            for watch in list(watches):
                try:
                    watch.connection.shutdown(2)
                except OSError:
                    pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
server.daemon_threads = True
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(f"{pki}/apiserver.crt", f"{pki}/apiserver.key")
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
threading.Thread(target=end_watches, daemon=True).start()
server.serve_forever()
