# shellcheck shell=bash
# Ports of the host whose numbers a test has to name itself. Where the number does not matter, leave it to the engine (host
# port 0) or to the kernel.

# free_port [N]: the first of N neighbouring ports (1) on which nothing listens, by TCP and by UDP. Tests of one user take them
# in turn, and each user from a thousand ports of its own, so that tests side by side never get the same. They are below the
# ports that the kernel gives away.
free_port() {
  python3 - "${1:-1}" <<'PYTHON'
import fcntl, itertools, os, socket, sys

count = int(sys.argv[1])
low, room = 20000 + os.getuid() % 8 * 1000, 1000


def is_free(port):
    families = [socket.AF_INET] + [socket.AF_INET6] * os.path.exists("/proc/net/if_inet6")
    for family, kind in itertools.product(families, (socket.SOCK_STREAM, socket.SOCK_DGRAM)):
        with socket.socket(family, kind) as s:
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                s.bind(("", port))
            except OSError:
                return False
    return True


with open(os.path.join(os.environ.get("XDG_RUNTIME_DIR", "/tmp"), f"moss-ports-{os.getuid()}"), "a+") as turn:
    fcntl.flock(turn, fcntl.LOCK_EX)
    turn.seek(0)
    at = int(turn.read() or 0)
    for _ in range(room):
        if at + count > room:
            at = 0
        if all(is_free(low + at + i) for i in range(count)):
            break
        at += 1
    else:
        sys.exit(f"no {count} of the ports from {low} are free")
    turn.truncate(0)
    turn.write(str(at + count))
print(low + at)
PYTHON
}
