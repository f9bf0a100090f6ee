#!/usr/bin/env python3
"""half_bodies.py: keeps many requests open whose bodies do not come.

    half_bodies.py SOCKET N READY

Each of N connections to a unix socket sends the head of a request and half of its body. When no more can be made, or all
are, the file READY is written; then the program waits until it is killed. An answer, or the end of a connection, is
ignored.
"""

import resource
import signal
import socket
import sys

HALF = (
    b"POST /v1.24/containers/create HTTP/1.1\r\nHost: moss\r\nContent-Type: application/json\r\n"
    b'Content-Length: 1000\r\n\r\n{"Image":"busybox"'
)


def main():
    path, count, ready = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held = []
    for _ in range(min(count, hard - 64)):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(10)  # beyond what the engine takes and what waits in its queue there is no more to fill
        try:
            s.connect(path)
            s.sendall(HALF)
        except OSError:
            break
        held.append(s)
    with open(ready, "w", encoding="ascii") as out:
        out.write(str(len(held)))
    signal.pause()


main()
