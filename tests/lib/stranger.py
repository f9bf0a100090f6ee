#!/usr/bin/env python3
"""stranger.py: what somebody who is no node of a swarm, or a node that is hostile, sends to others. Root runs it in the network
namespace from which it shall come.

  stranger.py spoof DEVICE TARGET PORT ADDRESS...   UDP datagrams into a tunnel, each from another address, which is its
                                                    text; that of the last one is "last"
  stranger.py hear PORT                             prints the texts of UDP datagrams, as they come, until one says "last"
  stranger.py datagrams ADDRESS PORT COUNT          malformed ones: random bytes, and what looks like WireGuard
  stranger.py connections ADDRESS PORT COUNT        malformed ones: random bytes, cut and bent TLS hellos, others' protocols
  stranger.py idle ADDRESS PORT COUNT               connections that say nothing, until it is killed
  stranger.py table ADDRESS [CERT KEY]              what the table port says to a TLS client, one line
  stranger.py manager PORT CERT KEY                 plays the table port: a line for each client, with what it sent
  stranger.py hold udp|tcp PORT                     has the port until it is killed
"""
import os
import random
import signal
import socket
import ssl
import struct
import sys

SECONDS = 60  # for an answer


def ip_packet(source, target, port, text):
    """An IPv4 packet with a UDP datagram; one without a checksum is a good one."""
    udp = struct.pack("!HHHH", port, port, 8 + len(text), 0) + text
    ends = socket.inet_aton(source) + socket.inet_aton(target)
    head = struct.pack("!BBHHHBBH8s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, ends)
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:] + udp


def spoof(device, target, port, *addresses):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    for n, a in enumerate(addresses, 1):
        text = b"last" if n == len(addresses) else a.encode()
        s.sendto(ip_packet(a, target, int(port), text), (device, 0x0800))


def hear(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("0.0.0.0", int(port)))
    print("ready", flush=True)
    text = b""
    while text != b"last":
        text, sender = s.recvfrom(2048)
        print(text.decode(), "from", sender[0], flush=True)


def datagrams(address, port, count):
    draw = random.Random(1)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    noise = draw.randbytes(1 << 16)
    lengths = {1: 148, 2: 92, 3: 64, 4: 32}  # of WireGuard's messages
    for n in range(int(count)):
        at = draw.randrange(len(noise) - 1500)
        kind = n % 6
        if kind in lengths:  # of the right length, too short, or longer
            size = max(4, lengths[kind] + draw.choice((0, 0, 0, -1, 1, 16, 900)))
            text = struct.pack("<I", kind) + noise[at:at + size - 4]
        else:
            text = noise[at:at + draw.randrange(1400)]
        try:
            s.sendto(text, (address, int(port)))
        except ConnectionRefusedError:
            pass


def client_hello():
    out = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    hello = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="swarm-manager")
    try:
        hello.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def connections(address, port, count):
    draw = random.Random(2)
    hello = client_hello()
    for n in range(int(count)):
        kind = n % 5
        if kind == 0:
            text = draw.randbytes(draw.randrange(1, 4096))
        elif kind == 1:
            text = hello[:draw.randrange(1, len(hello))]
        elif kind == 2:
            bent = bytearray(hello)
            for _ in range(draw.randrange(1, 8)):
                bent[draw.randrange(len(bent))] ^= 1 << draw.randrange(8)
            text = bytes(bent) + draw.randbytes(64)
        elif kind == 3:
            text = b"\x16\x03\x01\xff\xff" + draw.randbytes(65535)
        else:
            preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            text = draw.choice((preface, b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x7f", b"SSH-2.0-x\r\n"))
        with socket.create_connection((address, int(port)), SECONDS) as s:
            try:
                s.sendall(text)
                if n % 2:
                    s.shutdown(socket.SHUT_WR)
                    while s.recv(4096):
                        pass
                else:  # gone at once, by a reset
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except (ConnectionError, OSError) as e:
                if isinstance(e, TimeoutError):
                    raise


def idle(address, port, count):
    held = [socket.create_connection((address, int(port)), SECONDS) for _ in range(int(count))]
    print("ready", len(held), flush=True)
    signal.pause()


def papers(context, cert, key):
    """SwarmKit writes headers into the key that OpenSSL does not know."""
    lines = [line for line in open(key) if ": " not in line and line.strip()]
    fd = os.memfd_create("key")
    os.write(fd, "".join(line if line.endswith("\n") else line + "\n" for line in lines).encode())
    context.load_cert_chain(cert, f"/proc/self/fd/{fd}")


def table(address, *pair):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if pair:
        papers(context, *pair)
    said = b""
    try:
        with socket.create_connection((address, 2378), SECONDS) as raw, context.wrap_socket(raw) as s:
            hello = b'{"Version":0,"Sums":null}'
            s.sendall(struct.pack("!I", len(hello)) + hello)
            said = s.recv(65536)
        print("heard", len(said), said[4:4096].decode(errors="replace"))
    except (ssl.SSLError, OSError) as e:
        print("refused", len(said), e)


def manager(port, cert, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    papers(context, cert, key)
    l = socket.create_server(("0.0.0.0", int(port)), reuse_port=False)
    print("ready", flush=True)
    while True:
        raw, _ = l.accept()
        raw.settimeout(SECONDS)
        try:
            with context.wrap_socket(raw, server_side=True) as s:
                print("told", s.recv(65536), flush=True)
        except (ssl.SSLError, OSError) as e:
            print("refused", e, flush=True)


def hold(kind, port):
    if kind == "tcp":
        s = socket.create_server(("0.0.0.0", int(port)))
    else:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("0.0.0.0", int(port)))
    print("ready", s.getsockname(), flush=True)
    signal.pause()


if __name__ == "__main__":
    verbs = {f.__name__: f for f in (spoof, hear, datagrams, connections, idle, table, manager, hold)}
    verbs[sys.argv[1]](*sys.argv[2:])
