"""streams.py: streams from their clients' side, byte by byte, for what clients' libraries hide.

    streams.py SOCKET forms        attach and exec in every form of a request, with input in every place of it
    streams.py SOCKET answers      plain answers: HTTP/1.0, half-closed, kept alive, pipelined
    streams.py SOCKET refusals     errors before the head and after it
    streams.py SOCKET halves       either side ends first, or goes without a word
    streams.py SOCKET ends TIMES   who reads to the end of a stream and asks then
    streams.py SOCKET keys         detach keys, in the middle of a packet and split over two
    streams.py SOCKET sleepers MB ENGINE
                                   who does not read, beside one who does; ENGINE is a process id
    streams.py SOCKET crowd ATTACH LOGS EVENTS EXEC STATS WAIT
                                   so many streams of each kind at once; prints what one costs the engine

It ends with 1 and says what was wrong at the first answer that is not what it should be.
"""

import contextlib
import json
import re
import resource
import select
import selectors
import socket
import sys
import time

PATH = sys.argv[1]
IMAGE = "busybox"
PATIENCE = 60
KEYS = b"\x10\x11"  # ctrl-p ctrl-q


def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(PATIENCE)
    s.connect(PATH)
    return s


def check(what, got, want):
    if got != want:
        sys.exit(f"{what}: got {got!r:.300}, want {want!r:.300}")


def everything(s):
    got = b""
    while chunk := s.recv(65536):
        got += chunk
    return got


class Client:
    """One connection and what was read of it."""

    def __init__(self):
        self.s, self.rest = connect(), b""

    def more(self, want=b"more"):
        chunk = self.s.recv(65536)
        if not chunk:
            sys.exit(f"the engine closed after {self.rest!r:.300}, want {want!r}")
        self.rest += chunk

    def until(self, end):
        while end not in self.rest:
            self.more(end)
        got, _, self.rest = self.rest.partition(end)
        return got + end

    def exactly(self, n):
        while len(self.rest) < n:
            self.more(n)
        got, self.rest = self.rest[:n], self.rest[n:]
        return got

    def ask(self, method, path, body=None, version="1.1", headers=()):
        self.s.sendall(request(method, path, body, version, headers))
        return self.answer()

    def answer(self):
        """Status, headers and body of one answer that is no stream."""
        first, *lines = self.until(b"\r\n\r\n").decode().strip().split("\r\n")
        fields = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
        status = int(first.split()[1])
        if "content-length" in fields:
            body = self.exactly(int(fields["content-length"]))
        elif fields.get("transfer-encoding") == "chunked":
            body = self.chunks()
        elif status in (204, 304) or status < 200:
            body = b""
        else:
            body = self.rest + everything(self.s)
        return status, fields, body

    def chunks(self):
        body = b""
        while size := int(self.until(b"\r\n"), 16):
            body += self.exactly(size)
            self.exactly(2)
        self.exactly(2)
        return body

    def end(self):
        return self.rest + everything(self.s)

    def close(self):
        self.s.close()


def request(method, path, body=None, version="1.1", headers=()):
    lines = [f"{method} {path} HTTP/{version}", "Host: moss", *headers]
    raw = b""
    if body is not None:
        raw = json.dumps(body).encode()
        lines += ["Content-Type: application/json", f"Content-Length: {len(raw)}"]
    elif method == "POST" and not any(h.startswith(("Content-Length", "Transfer-Encoding")) for h in headers):
        lines.append("Content-Length: 0")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + raw


def call(method, path, body=None, want=None):
    c = Client()
    status, _, answer = c.ask(method, path, body)
    c.close()
    if (status >= 300) if want is None else (status != want):
        sys.exit(f"{method} {path}: {status} {answer!r}")
    return json.loads(answer) if answer[:1] in (b"{", b"[") else answer


def frames(raw, torn=False):
    """The payloads of each stream."""
    out = {1: b"", 2: b""}
    while len(raw) >= 8:
        size = int.from_bytes(raw[4:8], "big")
        if raw[0] not in out or raw[1:4] != b"\0\0\0" or len(raw) < 8 + size and not torn:
            sys.exit(f"no frame: {raw[:40]!r}")
        out[raw[0]] += raw[8 : 8 + size]
        raw = raw[8 + size :]
    if raw and not torn:
        sys.exit(f"bytes after the last frame: {raw!r:.200}")
    return out


made = []


def container(*cmd, **more):
    body = {"Image": IMAGE, "Cmd": list(cmd), "OpenStdin": True, "StdinOnce": True, "HostConfig": {"NetworkMode": "none"}}
    host = more.pop("HostConfig", {})
    body.update(more)
    body["HostConfig"].update(host)
    made.append(call("POST", "/containers/create", body)["Id"])
    return made[-1]


def start(cid):
    call("POST", f"/containers/{cid}/start", want=204)


def running(cid):
    return call("GET", f"/containers/{cid}/json")["State"]["Running"]


def execute(cid, *cmd, **more):
    return call("POST", f"/containers/{cid}/exec", {"Cmd": list(cmd), "AttachStdin": True, "AttachStdout": True, "AttachStderr": True, **more})["Id"]


HEADS = {
    True: b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.engine.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n",
    False: b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.engine.raw-stream\r\n",
}
UPGRADE = ("Connection: Upgrade", "Upgrade: tcp")


def head(what, c, upgrade, proceed=False):
    if proceed:
        check(what, c.until(b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
    got = c.until(b"\r\n\r\n")
    check(what, got[: len(HEADS[upgrade])], HEADS[upgrade])
    if b"chunked" in got.lower():
        sys.exit(f"{what}: {got!r}")


def attached(cid, query="stream=1&stdin=1&stdout=1&stderr=1", headers=UPGRADE):
    c = Client()
    c.s.sendall(request("POST", f"/v1.24/containers/{cid}/attach?{query}", headers=headers))
    head("attach", c, headers == UPGRADE)
    return c


def joined(eid, tty=False):
    c = Client()
    c.s.sendall(request("POST", f"/v1.24/exec/{eid}/start", {"Tty": tty}, headers=UPGRADE))
    head("exec", c, True)
    return c


def one_form(what, path, version, upgrade, headers, body, piped, want, proceed=False, begin=None):
    c = Client()
    lines = [f"POST {path} HTTP/{version}", "Host: moss", *(UPGRADE if upgrade else ()), *headers]
    c.s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + body + piped)
    head(what, c, upgrade, proceed)
    if begin:
        begin()
    with contextlib.suppress(BrokenPipeError):  # the end of a body may have been that of the input
        c.s.sendall(b"late\n")
        c.s.shutdown(socket.SHUT_WR)
    check(what, frames(c.end()), {1: want, 2: b""})
    c.close()


def chunked(*pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def forms():
    box = container("sleep", "1000")
    start(box)
    asked, is_json, in_chunks = b'{"Detach": false}', "Content-Type: application/json", "Transfer-Encoding: chunked"
    sized = f"Content-Length: {len(asked)}"
    n = 0
    for version in "1.0", "1.1":
        for upgrade in True, False:
            for extra in (), ("Connection: close",), ("Expect: 100-continue",):
                if upgrade and extra[:1] == ("Connection: close",):
                    extra = ("Connection: keep-alive",)
                proceed = extra[:1] == ("Expect: 100-continue",) and version == "1.1"
                bodies = [("sized", [is_json, sized], asked)]
                if version == "1.1":
                    bodies.append(("chunked", [is_json, in_chunks], chunked(asked[:3], asked[3:])))
                for name, headers, body in bodies:
                    for piped in b"", b"piped\n":
                        what = f"exec {name} HTTP/{version} upgrade={upgrade} {extra} piped={piped}"
                        path = f"/v1.24/exec/{execute(box, 'cat')}/start"
                        one_form(what, path, version, upgrade, [*extra, *headers], body, piped, piped + b"late\n", proceed)
                        n += 1
                    if extra:
                        break
    bodies = [
        ("none", [], b"", b"", False),
        ("empty", ["Content-Length: 0"], b"", b"", False),
        ("sized JSON", [is_json, sized], asked, b"", False),
        ("chunked JSON", [is_json, in_chunks], chunked(asked), b"", False),
        ("sized input", ["Content-Length: 6"], b"first\n", b"first\n", True),
        ("chunked input", [in_chunks], chunked(b"fir", b"st\n"), b"first\n", True),
    ]
    for upgrade in True, False:
        for version, extra in ("1.0", ()), ("1.1", ()), ("1.1", ("Expect: 100-continue",)):
            for name, headers, body, first, ends in bodies:
                if version == "1.0" and "chunked" in name:
                    continue
                what = f"attach {name} HTTP/{version} upgrade={upgrade} {extra}"
                box = container("cat", HostConfig={"LogConfig": {"Type": "none"}})
                want = first if ends and not upgrade else first + b"piped\nlate\n"
                one_form(what, f"/v1.24/containers/{box}/attach?stream=1&stdin=1&stdout=1", version, upgrade, [*extra, *headers], body,
                         b"piped\n", want, bool(extra and body), lambda box=box: start(box))
                n += 1
    print(f"{n} forms")


def answers():
    box = container("sh", "-c", "echo out; echo err >&2; read x; echo $x")
    attacher = attached(box, "stream=1&stdin=1")
    start(box)
    follower = Client()
    follower.s.sendall(request("GET", f"/containers/{box}/logs?stdout=1&follow=1", version="1.0"))
    follower.until(b"out\n")  # it is started before it has said anything
    follower.close()
    # HTTP/1.0: no chunks, the end is the connection's.
    for half in False, True:
        for path, want in (
            ("/_ping", b"OK"),
            (f"/containers/{box}/json", b'"Running":true'),
            ("/containers/json", box.encode()),
            (f"/containers/{box}/logs?stdout=1", b"out\n"),
            (f"/containers/{box}/stats?stream=0", b'"precpu_stats"'),
            (f"/events?until={int(time.time())}", b""),
        ):
            c = Client()
            c.s.sendall(request("GET", path, version="1.0"))
            if half:
                c.s.shutdown(socket.SHUT_WR)
            first, _, body = c.end().partition(b"\r\n\r\n")
            if not first.startswith((b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 200 OK\r\n")) or b"chunked" in first or want not in body:
                sys.exit(f"HTTP/1.0 {path}, half-closed {half}: {first!r} {body!r:.200}, want {want!r}")
            c.close()
    # The end of a client's side is not its going: the streams go on to their end.
    endless = {}
    for path, want in (
        (f"/containers/{box}/logs?stdout=1&follow=1", b"bye\n"),
        (f"/containers/{box}/logs?stderr=1&follow=1", b"err\n"),
        ("/events?" + "filters=" + json.dumps({"container": [box]}).replace('"', "%22").replace(" ", ""), b'"status":"die"'),
        (f"/containers/{box}/stats", b'"read"'),
    ):
        for version in "1.0", "1.1":
            c = Client()
            c.s.sendall(request("GET", path, version=version))
            c.s.shutdown(socket.SHUT_WR)
            c.until(b" 200 OK\r\n")
            endless[path, version] = c, want
    waiter = Client()
    waiter.s.sendall(request("POST", f"/containers/{box}/wait"))
    waiter.s.shutdown(socket.SHUT_WR)
    creator = Client()
    creator.s.sendall(request("POST", "/containers/create", {"Image": IMAGE, "Cmd": ["true"]}))
    creator.s.shutdown(socket.SHUT_WR)
    status, _, body = creator.answer()
    check("create by a client that ended its side", status, 201)
    made.append(json.loads(body)["Id"])
    attacher.s.sendall(b"bye\n")
    status, _, body = waiter.answer()
    check("wait by a client that ended its side", (status, json.loads(body)), (200, {"StatusCode": 0}))
    for (path, version), (c, want) in endless.items():
        c.until(want)
        if "logs" in path:
            c.end()
        c.close()
    # One connection, many answers; two requests at once.
    c = Client()
    for path in f"/containers/{box}/json", "/_ping", f"/containers/{box}/logs?stdout=1", "/containers/none/json", "/_ping":
        status, _, _ = c.ask("GET", path)
        check(path, status, 404 if "none" in path else 200)
    c.s.sendall(request("GET", "/_ping") + request("GET", f"/containers/{box}/logs?stdout=1") + request("GET", "/_ping"))
    check("pipelined", [c.answer()[::2] for _ in range(3)], [(200, b"OK"), (200, c_frame(b"out\n") + c_frame(b"bye\n")), (200, b"OK")])
    # A refused takeover leaves the connection as it is, the next one takes it.
    status, _, _ = c.ask("POST", "/containers/none/attach?stream=1", headers=UPGRADE)
    check("refused", status, 404)
    c.s.sendall(request("POST", f"/v1.24/containers/{box}/attach?logs=1&stdout=1"))
    head("after others", c, False)
    check("after others", frames(c.end())[1], b"out\nbye\n")
    # logs: 200 and chunks, or 101 when an upgrade is asked for.
    c = Client()
    status, fields, body = c.ask("GET", f"/containers/{box}/logs?stdout=1&stderr=1")
    check("logs", (status, fields["transfer-encoding"]), (200, "chunked"))
    check("logs", frames(body), {1: b"out\nbye\n", 2: b"err\n"})
    c = Client()
    c.s.sendall(request("GET", f"/v1.24/containers/{box}/logs?stdout=1&stderr=1&follow=1", headers=UPGRADE) + b"nobody reads this")
    head("logs", c, True)
    check("logs upgraded", frames(c.end()), {1: b"out\nbye\n", 2: b"err\n"})


def c_frame(payload):
    return b"\1\0\0\0" + len(payload).to_bytes(4, "big") + payload


def refusals():
    box = container("sleep", "1000")
    start(box)
    once = execute(box, "true")
    joined(once).end()
    call("POST", f"/containers/{box}/exec", {"Cmd": ["true"]}, 201)
    late = execute(box, "cat")
    paused = container("sleep", "1000")
    start(paused)
    of_paused = execute(paused, "true")
    call("POST", f"/containers/{paused}/pause", want=204)
    for version in "1.18", "1.23", "1.24":
        for upgrade in UPGRADE, ():
            for path, body, want in (
                ("/containers/none/attach?stream=1", None, 404),
                (f"/containers/{paused}/attach?stream=1", None, 409),
                ("/exec/none/start", {}, 404),
                (f"/exec/{once}/start", {}, 409),
                (f"/exec/{of_paused}/start", {}, 409),
            ):
                c = Client()
                status, fields, told = c.ask("POST", f"/v{version}{path}", body, headers=upgrade)
                check(path, status, want)
                kind = "application/json" if version == "1.24" else "text/plain; charset=utf-8"
                if "/attach?" in path:
                    kind = "application/vnd.engine.raw-stream"
                check(path, fields["content-type"], kind)
                if kind == "application/json":
                    json.loads(told)["message"]
                c.close()
    call("POST", f"/containers/{paused}/unpause", want=204)
    # After the head: a frame of stderr, or text on a terminal; the unread input is no reason for a reset.
    for tty in False, True:
        c = Client()
        eid = execute(box, "/nosuch", Tty=tty)
        c.s.sendall(request("POST", f"/v1.24/exec/{eid}/start", {"Tty": tty}, headers=UPGRADE) + b"x" * 100000)
        head("no command", c, True)
        got = c.end()
        words = got if tty else frames(got)[2]
        if b"nosuch" not in words or not words.endswith(b"\r\n" if tty else b"\n"):
            sys.exit(f"the error of a command that is not there: {got!r}")
        check("its code", call("GET", f"/exec/{eid}/json")["ExitCode"], 127)
    joined(late).close()


def gone(what, ask):
    end = time.monotonic() + PATIENCE
    while not ask():
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {PATIENCE} s")
        time.sleep(0.02)


def halves():
    # The client ends its side: input alone has ended, the output goes on to its end.
    said = "cat; i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo err >&2"
    want = b"in\n" + b"".join(b"line %d\n" % i for i in range(2000))
    for more in ({}, {"Tty": False, "StdinOnce": True}):
        box = container("sh", "-c", said, **more)
        c = attached(box)
        c.s.sendall(b"in\n")
        c.s.shutdown(socket.SHUT_WR)
        start(box)
        check("attach, half-closed", frames(c.end()), {1: want, 2: b"err\n"})
    base = container("sleep", "1000")
    start(base)
    c = joined(execute(base, "sh", "-c", said))
    c.s.sendall(b"in\n")
    c.s.shutdown(socket.SHUT_WR)
    check("exec, half-closed", frames(c.end()), {1: want, 2: b"err\n"})
    # Where the input stays open for others, it is nothing but the end of this client's input. On a terminal it ends the view
    # of the client that has typed, and no other.
    for tty in False, True:
        box = container("sh", "-c", "read x; echo got $x; read y; echo got $y", Tty=tty, StdinOnce=False)
        one, two, three = attached(box), attached(box), attached(box, "stream=1&stdout=1")
        start(box)
        three.s.shutdown(socket.SHUT_WR)
        one.s.sendall(b"first\n")
        two.until(b"got first")
        one.until(b"got first")
        one.s.shutdown(socket.SHUT_WR)
        if tty:
            one.end()
            check("the container behind a terminal", running(box), True)
        two.s.sendall(b"second\n")
        for other in (two, three) if tty else (one, two, three):
            other.until(b"got second")
            other.end()
    # The output ends while the client still sends.
    for make in (lambda: attached_to("sh", "-c", "exec >&- 2>&-; echo never"), lambda: joined(execute(base, "true"))):
        c = make()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(200):
                c.s.sendall(b"x" * 10000)
        try:
            check("output that has ended", frames(c.end())[1], b"")
        except ConnectionResetError:
            pass  # it went on sending after the end
        c.close()
    # Who reads no more, goes in the middle of it, or leaves bytes behind: the container goes on.
    box = container("sh", "-c", "while :; do echo 0123456789; done", StdinOnce=False, HostConfig={"LogConfig": {"Type": "none"}})
    call("POST", f"/containers/{box}/start", want=204)
    noise = lambda: joined(execute(base, "sh", "-c", "while :; do echo 0123456789 || exit; done"))
    for make in (lambda: attached(box)), noise:
        for leave in (lambda s: s.shutdown(socket.SHUT_RD)), (lambda s: s.close()), (lambda s: s.shutdown(socket.SHUT_RDWR)):
            c = make()
            c.exactly(1000)
            c.s.sendall(b"unread")
            leave(c.s)
            kept.append(c)  # what was not closed stays open
    beside = attached(box)
    beside.exactly(1 << 20)
    check("the container beside those who left", running(box), True)
    beside.close()


def ends(times):
    said = ("sh", "-c", "echo out; exit 7")
    base = container("sleep", "1000")
    start(base)

    def state(cid):
        found = call("GET", f"/containers/{cid}/json")["State"]
        listed = [c["State"] for c in call("GET", "/v1.24/containers/json?all=1") if c["Id"] == cid]
        return found["Running"], found["ExitCode"], listed

    for n in range(int(times)):
        box = container(*said)
        for run in "first", "second":  # the second attaches as soon as the first one's end is seen
            c = attached(box)
            start(box)
            check(f"{n}: output of the {run} run", frames(c.end())[1], b"out\n")
            check(f"{n}: inspect and list after attach, {run} run", state(box), (False, 7, ["exited"]))
            check(f"{n}: wait", call("POST", f"/containers/{box}/wait"), {"StatusCode": 7})
        box = container("sh", "-c", "echo out; read x; exit 7")
        start(box)
        c = attached(box, "stream=1&stdin=1&stdout=1&logs=1")
        c.s.sendall(b"\n")
        follower = Client()
        check("logs", follower.ask("GET", f"/containers/{box}/logs?follow=1&stdout=1")[0], 200)
        check(f"{n}: inspect and list after logs", state(box), (False, 7, ["exited"]))
        check(f"{n}: output of attach with logs", frames(c.end())[1], b"out\n")
        eid = execute(base, *said)
        check(f"{n}: output of exec", frames(joined(eid).end())[1], b"out\n")
        found = call("GET", f"/exec/{eid}/json")
        check(f"{n}: inspect after exec", (found["Running"], found["ExitCode"]), (False, 7))
        box = container(*said, HostConfig={"RestartPolicy": {"Name": "always"}})
        c = attached(box)
        start(box)
        check(f"{n}: output of one run of many", frames(c.end())[1], b"out\n")
        if not call("GET", f"/containers/{box}/json")["RestartCount"]:
            sys.exit(f"{n}: the end of one run of many is not seen")
        check(f"{n}: wait under a restart policy", call("POST", f"/containers/{box}/wait"), {"StatusCode": 7})


kept = []


def attached_to(*cmd, **more):
    box = container(*cmd, **more)
    c = attached(box)
    start(box)
    return c


def keys():
    cases = (
        ("default", "", [b"before" + KEYS + b"after"]),
        ("default, split", "", [b"before" + KEYS[:1], KEYS[1:]]),
        ("default, after half of them", "", [b"before" + KEYS[:1] + KEYS]),
        ("of the request", "ctrl-x,x", [b"before\x18xafter"]),
        ("of the request, split", "ctrl-x,x", [b"before\x18", b"x"]),
    )
    box = container("sh", "-c", "stty raw -echo; echo ready; exec cat", Tty=True, StdinOnce=False)
    start(box)
    watcher = attached(box, "stream=1&stdout=1&logs=1")
    watcher.until(b"ready")
    for n, (what, named, packets) in enumerate(cases):
        c = attached(box, "stream=1&stdin=1&stdout=1" + (f"&detachKeys={named}" if named else ""))
        eid = execute(box, "sh", "-c", "stty raw -echo; echo ready; exec cat", Tty=True, **({"DetachKeys": named} if named else {}))
        e = joined(eid, True)
        e.until(b"ready")
        for one in c, e:
            one.s.sendall(b"case %d" % n + packets[0])
            if packets[1:]:
                one.until(b"before") if KEYS not in packets[0] else None  # so that the rest comes in a packet of its own
            for packet in packets[1:]:
                one.s.sendall(packet)
            one.end()
            one.close()
        watcher.until(b"case %dbefore" % n)
        check(what, (running(box), call("GET", f"/exec/{eid}/json")["Running"]), (True, True))
    last = attached(box, "stream=1&stdin=1&stdout=1")
    last.s.sendall(b"the end")
    if b"after" in (left := watcher.until(b"the end")):
        sys.exit(f"what came after the keys reached the process: {left!r}")
    watcher.close(), last.close()
    # Without a terminal they are bytes.
    c = attached_to("cat")
    c.s.sendall(b"a" + KEYS + b"b")
    c.s.shutdown(socket.SHUT_WR)
    check("without a terminal", frames(c.end())[1], b"a" + KEYS + b"b")


def peak(pid):
    """The most memory that a process has had, in MiB."""
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmHWM:\s*(\d+) kB", f.read())[1]) / 1024


def parent(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"PPid:\s*(\d+)", f.read())[1])


def sleepers(megabytes, engine):
    for tty, total in (False, int(megabytes) * 1000000), (True, int(megabytes) * 100000):  # terminals are slow
        box = container("sh", "-c", f"read x; yes 0123456789abcde | head -c {total}; echo; echo done; read x", Tty=tty, StdinOnce=False,
                        HostConfig={"LogConfig": {"Type": "none"}})
        asleep, slow, awake = attached(box), attached(box), attached(box)
        start(box)
        engine_before = peak(engine)
        pid = call("GET", f"/containers/{box}/json")["State"]["Pid"]
        awake.s.sendall(b"go\n")
        began, size, tail, told, taken, drop, monitor_peak = time.monotonic(), 0, b"", False, 0, 0, 0
        while chunk := awake.s.recv(1 << 20):
            size += len(chunk)
            tail = (tail + chunk)[-100:]
            if b"done" in tail and not told:  # the end of a command on a terminal may cost what was not read
                told = True
                awake.s.sendall(b"end\n")
            if time.monotonic() - began > drop:  # one byte now and then
                taken += len(slow.s.recv(1))
                drop += 0.1
                with contextlib.suppress(OSError, TypeError):  # it may have ended
                    monitor_peak = max(monitor_peak, peak(parent(pid)))
        took = time.monotonic() - began
        if size < total or b"done" not in tail:
            sys.exit(f"tty {tty}: who reads got {size} bytes of {total}, ending in {tail!r}")
        for name, c in ("never", asleep), ("hardly", slow):
            got = c.end()
            if b"too slowly" not in got[-200:] or len(got) > 8 << 20:
                sys.exit(f"tty {tty}: who {name} reads got {len(got)} bytes, ending in {got[-200:]!r}")
            if not tty and name == "never":
                frames(got)
        grown = peak(engine) - engine_before
        print(f"tty {tty}: {size} bytes in {took:.1f} s beside two who do not read; engine +{grown:.0f} MiB, monitor {monitor_peak:.0f} MiB", flush=True)
        if grown > 24 or monitor_peak > 16 or monitor_peak == 0:
            sys.exit("that is too much memory")
        c = Client()
        check("wait", c.ask("POST", f"/containers/{box}/wait")[0], 200)


def info():
    facts = call("GET", "/info")
    return facts["NFd"], facts["NGoroutines"]


def crowd(*counts):
    attach, logs, events, execs, stats, wait = map(int, counts)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    box = container("sh", "-c", "while read x; do echo out $x; echo err $x >&2; done; exit 7", StdinOnce=False)
    keeper = attached(box, "stream=1&stdin=1")
    start(box)
    before = info()
    print("before", *before, flush=True)
    filters = json.dumps({"container": [box], "event": ["resize", "rename", "die"]}).replace('"', "%22").replace(" ", "")
    plan = [("attach", request("POST", f"/containers/{box}/attach?stream=1&stdout=1&stderr=1", headers=UPGRADE))] * attach
    plan += [("logs", request("GET", f"/containers/{box}/logs?stdout=1&stderr=1&follow=1"))] * logs
    plan += [("events", request("GET", f"/events?filters={filters}"))] * events
    plan += [("exec", None)] * execs
    plan += [("stats", request("GET", f"/containers/{box}/stats"))] * stats
    plan += [("wait", request("POST", f"/containers/{box}/wait"))] * wait
    began = time.monotonic()
    clients = []
    for kind, asked in plan:
        c = Client()
        c.kind = kind
        if kind == "exec":
            eid = execute(box, "cat")
            asked = request("POST", f"/exec/{eid}/start", {}, headers=UPGRADE)
        c.s.sendall(asked)
        clients.append(c)
        if kind not in ("wait", "stats"):
            first = c.until(b"\r\n\r\n")
            if b" 101 " not in first and b" 200 " not in first:
                sys.exit(f"{kind} number {len(clients)}: {first!r}")
    opened = time.monotonic() - began
    during = info()
    print(f"{len(clients)} streams in {opened:.1f} s:", *during, flush=True)
    if len(sys.argv) > 9:  # for who measures
        input()
    keeper.s.sendall(b"one\ntwo\n")
    for i, c in enumerate(clients):
        if c.kind == "exec":
            c.s.sendall(b"number %d\n" % i)
    call("POST", f"/containers/{box}/rename?name=crowd-{box[:12]}", want=204)
    for i, c in enumerate(clients):
        if c.kind in ("attach", "logs"):
            words = {b"out one\n", b"out two\n", b"err one\n", b"err two\n"}
            while any(word not in c.rest for word in words):
                c.more()
            c.rest = b""
        elif c.kind == "events":
            c.until(b'"rename"')
        elif c.kind == "exec":
            c.until(b"number %d\n" % i)
            c.s.shutdown(socket.SHUT_WR)
            check("end of exec", c.end(), b"")
            c.close()
        elif c.kind == "stats":
            c.until(b'"precpu_stats"')
    # Half of them go, the others see the end.
    for c in clients[::2]:
        c.close()
    keeper.close()
    call("POST", f"/containers/{box}/kill", want=204)
    for c in clients[1::2]:
        if c.kind == "attach":
            c.end()
        elif c.kind == "logs":
            c.until(b"0\r\n\r\n")
        elif c.kind == "events":
            c.until(b'"die"')
        elif c.kind == "wait":
            check("wait", json.loads(c.answer()[2]), {"StatusCode": 137})
        c.close()
    took = time.monotonic() - began

    def back():
        now = info()
        return now[0] <= before[0] + 4 and now[1] <= before[1] + 6

    end = time.monotonic() + PATIENCE
    while not back():
        if time.monotonic() > end:
            sys.exit(f"descriptors and goroutines: {before} before, {info()} after")
        time.sleep(0.1)
    print(f"all in {took:.1f} s, after:", *info())


def main():
    verbs = {f.__name__: f for f in (forms, answers, refusals, halves, ends, keys, sleepers, crowd)}
    verb = verbs[sys.argv[2]]
    arguments = sys.argv[3:9]
    before = info()
    try:
        verb(*arguments)
    finally:
        for c in kept:
            c.close()
        for cid in made:
            call("DELETE", f"/containers/{cid}?force=1", want=204)

    def back():
        now = info()
        return now[0] <= before[0] + 4 and now[1] <= before[1] + 6

    gone(f"descriptors and goroutines after {verb.__name__}: were {before}, are {info()}", back)


main()
