"""raw.py: speaks HTTP over a unix socket byte by byte, for what curl hides.

    raw.py SOCKET attach ID QUERY [--upgrade] [--start] [--hang-up] [--sleep] [--stdin TEXT] [--raw]
    raw.py SOCKET send PATH BYTES     POST with a Content-Length of 1 GiB, sends that many bytes of stdin, hangs up

attach prints the head of the answer and then each frame as "STREAM PAYLOAD" (--raw: the bytes as they come) until the
engine ends the connection. --start starts the container once the head is there. --hang-up leaves after the first byte; --sleep reads
nothing for a minute.
"""

import argparse
import socket
import sys
import time


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(120)
    s.connect(path)
    return s


def request(s, method, path, headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: moss", *headers]
    s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())


def head(s):
    got = b""
    while b"\r\n\r\n" not in got:
        chunk = s.recv(4096)
        if not chunk:
            break
        got += chunk
    first, _, rest = got.partition(b"\r\n\r\n")
    return first.decode(), rest


class Reader:
    def __init__(self, s, rest):
        self.s, self.rest = s, rest

    def some(self):
        if self.rest:
            got, self.rest = self.rest, b""
            return got
        return self.s.recv(65536)

    def exactly(self, n):
        while len(self.rest) < n:
            chunk = self.s.recv(65536)
            if not chunk:
                return None
            self.rest += chunk
        got, self.rest = self.rest[:n], self.rest[n:]
        return got


def attach(a):
    s = connect(a.socket)
    extra = ["Connection: Upgrade", "Upgrade: tcp"] if a.upgrade else []
    request(s, "POST", f"/containers/{a.id}/attach?{a.query}", [*extra, "Content-Length: 0"])
    answer, rest = head(s)
    print(answer.replace("\r", ""), flush=True)
    print(flush=True)
    if a.start:
        other = connect(a.socket)
        request(other, "POST", f"/containers/{a.id}/start", ["Content-Length: 0"])
        print("start:", head(other)[0].split("\r\n")[0], flush=True)
    if a.stdin is not None:
        s.sendall(a.stdin.encode())
        s.shutdown(socket.SHUT_WR)
    if a.sleep:
        time.sleep(60)
        return
    reader = Reader(s, rest)
    if a.hang_up:
        reader.some()
        return
    if a.raw:
        while chunk := reader.some():
            sys.stdout.write(chunk.decode())
        return
    while (header := reader.exactly(8)) is not None:
        if header[1:4] != b"\0\0\0":
            sys.exit(f"bad frame header {header!r}")
        payload = reader.exactly(int.from_bytes(header[4:], "big"))
        print(header[0], payload.decode(), end="" if payload.endswith(b"\n") else "\n", flush=True)
    if reader.rest:
        sys.exit(f"bytes after the last frame: {reader.rest!r}")


def send(a):
    s = connect(a.socket)
    request(s, "POST", a.path, ["Content-Type: application/x-tar", f"Content-Length: {1 << 30}"])
    try:
        s.sendall(sys.stdin.buffer.read(a.bytes))
    except BrokenPipeError:
        sys.exit("the engine closed the connection first")
    s.close()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("socket")
    verbs = p.add_subparsers(required=True)
    v = verbs.add_parser("attach")
    v.add_argument("id")
    v.add_argument("query")
    for flag in ("--upgrade", "--start", "--hang-up", "--raw", "--sleep"):
        v.add_argument(flag, action="store_true")
    v.add_argument("--stdin")
    v.set_defaults(do=attach)
    v = verbs.add_parser("send")
    v.add_argument("path")
    v.add_argument("bytes", type=int)
    v.set_defaults(do=send)
    a = p.parse_args()
    a.do(a)


main()
