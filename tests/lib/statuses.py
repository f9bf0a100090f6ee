"""statuses.py: asks an engine the same things at several versions and compares the answers with a table.

    statuses.py SOCKET [--show] < TABLE

A line of the table is VERSIONS | METHOD PATH | BODY | STATUS | WORD; empty lines and those that begin with # are left out.
VERSIONS is all, 1.22-, -1.20, or 1.20-1.22. The status of an error also fixes the form of the answer: application/json with a
message from 1.24 on, plain text before, and no body for HEAD. WORD is part of the answer; a status below 400 fixes nothing else.
--show prints every answer instead.
"""

import http.client
import json
import socket
import sys

VERSIONS = ["1.18", "1.20", "1.21", "1.22", "1.24"]


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("moss", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


def ask(path, method, url, body):
    c = Connection(path)
    headers = {"Content-Type": "application/json"} if body else {}
    c.request(method, url, body=body.encode() if body else None, headers=headers)
    r = c.getresponse()
    text = b"" if r.status in (101, 200) and "stream" in url else r.read()
    c.close()
    return r.status, r.headers, text.decode(errors="replace")


def number(version):
    return int(version.partition(".")[2])


def has(versions, version):
    if versions == "all":
        return True
    low, dash, high = versions.partition("-")
    high = high if dash else low
    return (not low or number(low) <= number(version)) and (not high or number(version) <= number(high))


def wrong(version, method, status, headers, text, want, word):
    found = []
    if str(status) not in want.split("/"):
        found.append(f"want {want}")
    if not headers.get("X-Request-Id") or headers.get("Api-Version") != "1.51":
        found.append("the headers of every answer are missing")
    if status == 405 and not headers.get("Allow"):
        found.append("no Allow")
    if status >= 400:
        kind = "application/json" if version == "1.24" else "text/plain; charset=utf-8"
        if headers.get("Content-Type") != kind:
            found.append(f"Content-Type {headers.get('Content-Type')}")
        if method == "HEAD":
            if text:
                found.append("HEAD has a body")
        elif version == "1.24":
            try:
                answer = json.loads(text)
                if list(answer) != ["message"]:
                    found.append("more than a message")
                text = answer.get("message", "")
            except ValueError:
                found.append("no JSON")
        elif text.startswith("{") or not text.endswith("\n"):
            found.append("no line of text")
    if word and method != "HEAD" and word not in text:
        found.append(f"no '{word}'")
    return found


def main():
    path, show = sys.argv[1], "--show" in sys.argv
    bad = 0
    for line in sys.stdin:
        line = line.rstrip("\n")
        if not line.strip() or line.startswith("#"):
            continue
        versions, call, body, want, word = [part.strip() for part in line.split("|", 4)]
        method, url = call.split(" ", 1)
        for version in VERSIONS:
            if not has(versions, version):
                continue
            status, headers, text = ask(path, method, f"/v{version}{url}", body)
            found = [] if show else wrong(version, method, status, headers, text, want, word)
            if show or found:
                print(f"{version} {method} {url} {body} = {status} {text.strip()[:160]!r} {'; '.join(found)}")
            bad += len(found)
    sys.exit(1 if bad else 0)


main()
