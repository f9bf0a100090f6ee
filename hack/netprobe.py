#!/usr/bin/env python3
"""netprobe.py: measures one TCP connection. hack/swarm-bench.sh runs it in the network namespaces of containers and hosts.

    netprobe.py serve PORT                       answers, until it is killed
    netprobe.py stream ADDRESS PORT SECONDS      prints MB/s of one stream
    netprobe.py turn ADDRESS PORT COUNT          prints the median ms of a byte and its answer on an open connection
    netprobe.py connect ADDRESS PORT COUNT       prints the median ms of a connection, a byte, its answer and the end
"""

import socket
import statistics
import sys
import threading
import time

BLOCK = 1 << 20


def answer(conn):
    """Sends each byte back, or the number of bytes that came once the other side has ended a stream."""
    with conn:
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if conn.recv(1) == b"s":
            count, block = 0, memoryview(bytearray(BLOCK))
            while size := conn.recv_into(block):
                count += size
            conn.sendall(str(count).encode())
            return
        conn.sendall(b"e")
        while byte := conn.recv(1):
            conn.sendall(byte)


def serve(port):
    """Answers each connection in a thread of its own."""
    listener = socket.create_server(("", port), backlog=128)
    while True:
        conn, _ = listener.accept()
        threading.Thread(target=answer, args=(conn,), daemon=True).start()


def dial(address, port, kind):
    """Opens a connection of a kind: b"s" streams, b"e" has bytes sent back."""
    conn = socket.create_connection((address, port), timeout=30)
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    conn.sendall(kind)
    return conn


def stream(address, port, seconds):
    """Returns MB/s of what has arrived."""
    block, begun = bytes(BLOCK), time.monotonic()
    with dial(address, port, b"s") as conn:
        while time.monotonic() - begun < seconds:
            conn.sendall(block)
        conn.shutdown(socket.SHUT_WR)
        count = int(conn.makefile().read())
    return count / (time.monotonic() - begun) / 1e6


def median_ms(count, step):
    """Returns the median time of a step in ms."""
    times = []
    for _ in range(count):
        begun = time.monotonic()
        step()
        times.append(time.monotonic() - begun)
    return statistics.median(times) * 1e3


def turn(address, port, count):
    """Returns the median ms of a byte and its answer."""
    with dial(address, port, b"e") as conn:
        conn.recv(1)

        def step():
            conn.sendall(b"x")
            conn.recv(1)

        return median_ms(count, step)


def connect(address, port, count):
    """Returns the median ms of a whole connection."""

    def step():
        with dial(address, port, b"e") as conn:
            conn.recv(1)

    return median_ms(count, step)


def main(args):
    """Runs what the arguments name."""
    if args[0] == "serve":
        serve(int(args[1]))
    measure = {"stream": stream, "turn": turn, "connect": connect}[args[0]]
    print(f"{measure(args[1], int(args[2]), int(args[3])):.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
