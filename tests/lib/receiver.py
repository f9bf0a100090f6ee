"""A receiver of log drivers: receiver.py KIND PORT FILE. It appends what comes by TCP to FILE: as it is with the kind raw; with
the kind http the bodies of requests, unpacked, which it answers as an event collector does."""

import gzip
import http.server
import os
import socketserver
import sys

kind, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


class Raw(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(1 << 16):
            os.write(out, data)


class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        os.write(out, body + b"\n")
        reply = b'{"text":"Success","code":0}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_POST = do_OPTIONS = do_GET = answer

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


Server(("127.0.0.1", port), Raw if kind == "raw" else Http).serve_forever()
