"""stall.py: stands between the engine and a registry, and stops in the middle.

    stall.py PORT DOWN UP     listens on a port of the kernel's choice, prints it, and passes on what goes to and from
                              127.0.0.1:PORT. Of each connection it lets DOWN bytes to the engine and UP bytes to the
                              registry through, then nothing more, without closing it. It prints "stalled" once a
                              connection has come that far and "left" when the engine ends such a one.
"""

import select
import socket
import sys
import threading


def say(text):
    print(text, flush=True)


def copy(source, target, left, end):
    """Passes on up to `left` bytes, and then waits for the other side to go."""
    while True:
        try:
            data = source.recv(min(65536, left))
        except OSError:
            data = b""
        if not data:
            end()
            return
        try:
            target.sendall(data)
        except OSError:
            end()
            return
        left -= len(data)
        if left == 0:
            say("stalled")
            return


def serve(client, port, down, up):
    registry = socket.create_connection(("127.0.0.1", port))

    def end():
        for s in (client, registry):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    threading.Thread(target=copy, args=(registry, client, down, end), daemon=True).start()
    copy(client, registry, up, end)
    # Nothing is read any more, so that the engine sees a peer that stands still: its end is a hang-up.
    left = select.poll()
    left.register(client, 0)
    left.poll()
    say("left")
    end()


def main():
    port, down, up = (int(a) for a in sys.argv[1:])
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    say(server.getsockname()[1])
    while True:
        client, _ = server.accept()
        threading.Thread(target=serve, args=(client, port, down, up), daemon=True).start()


main()
