#!/usr/bin/env python3
"""leads.py REGISTRY TO: a registry that has what REGISTRY has, and leads everybody who wants a blob to TO.

It listens on a port of 127.0.0.1 that the kernel chose, and says "ready PORT".
"""

import http.server
import sys
import urllib.request

registry, to = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if "/blobs/" in self.path:
            self.send_response(307)
            self.send_header("Location", f"http://{to}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        headers = {"Accept": ", ".join(self.headers.get_all("Accept", ["*/*"]))}
        request = urllib.request.Request(f"http://{registry}{self.path}", headers=headers, method=self.command)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            body = answer.read()
            self.send_response(answer.status)
            for name in ("Content-Type", "Content-Length", "Docker-Content-Digest", "Docker-Distribution-Api-Version"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.end_headers()
            self.wfile.write(body)

    do_HEAD = do_GET


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("ready", server.server_port, flush=True)
server.serve_forever()
