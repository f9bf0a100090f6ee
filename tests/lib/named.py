#!/usr/bin/env python3
"""named.py ADDRESS LOG NAME=IPV4...: a name server at port 53 of ADDRESS, over UDP and TCP, that writes each name it is
asked for into LOG. LOG appears when it listens. Names that it does not know do not exist."""
import socket
import struct
import sys
import threading

address, log = sys.argv[1], sys.argv[2]
known = dict(a.split("=", 1) for a in sys.argv[3:])


def answer(query):
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    (kind,) = struct.unpack_from("!H", query, at + 1)
    name = ".".join(labels)
    with open(log, "a") as f:
        f.write(name + "\n")
    ip = known.get(name.lower())
    reply = b""
    if ip and kind == 1:
        reply = struct.pack("!HHHIH", 0xC00C, 1, 1, 60, 4) + socket.inet_aton(ip)
    head = query[:2] + struct.pack("!HHHHH", 0x8180 | (0 if ip else 3), 1, 1 if reply else 0, 0, 0)
    return head + query[12 : at + 5] + reply


def tcp(listener):
    while True:
        conn, _ = listener.accept()
        with conn:
            try:
                size = conn.recv(2, socket.MSG_WAITALL)
                reply = answer(conn.recv(struct.unpack("!H", size)[0], socket.MSG_WAITALL))
                conn.sendall(struct.pack("!H", len(reply)) + reply)
            except (OSError, struct.error, IndexError):
                pass


udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((address, 53))
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((address, 53))
listener.listen()
threading.Thread(target=tcp, args=(listener,), daemon=True).start()
open(log, "a").close()
while True:
    packet, peer = udp.recvfrom(4096)
    try:
        udp.sendto(answer(packet), peer)
    except (OSError, IndexError, struct.error):
        pass
