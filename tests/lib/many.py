"""many.py: the same request many times, by a few clients at once.

    many.py SOCKET exec COUNT CONTAINER     COUNT execs of `true`: create, start, inspect
    many.py SOCKET run COUNT IMAGE          COUNT containers of `true`: create, start, wait, remove
    many.py SOCKET pull COUNT REPOSITORY    COUNT pulls and removals, each client a tag of its own, from 0,
                                            and as many of the tag none, which is not there
    many.py SOCKET load COUNT FILE          COUNT loads and removals, each client of an archive of its own: FILE.0, FILE.1 …,
                                            and as many of half of it

It ends with 1 at the first answer that is not what it should be.
"""

import http.client
import json
import re
import socket
import sys
import threading

CLIENTS = 4


class Engine(http.client.HTTPConnection):
    def __init__(self, path, number):
        super().__init__("moss", timeout=120)
        self.path = path
        self.number = number

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def ask(self, method, path, body=None):
        headers = {} if body is None else {"Content-Type": "application/json"}
        self.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text!r}")
        return json.loads(text) if text and answer.getheader("Content-Type") == "application/json" else None

    def messages(self, path, body=None):
        self.request("POST", path, body)
        answer = self.getresponse()
        text = answer.read().decode()
        if answer.status != 200 or '"error"' in text:
            raise RuntimeError(f"POST {path}: {answer.status} {text}")
        return text


def run_exec(engine, container):
    made = engine.ask("POST", f"/containers/{container}/exec", {"Cmd": ["true"], "AttachStdout": True})["Id"]
    with socket.socket(socket.AF_UNIX) as s:  # an attached start takes the connection over
        s.settimeout(120)
        s.connect(engine.path)
        s.sendall(
            f"POST /exec/{made}/start HTTP/1.1\r\nHost: moss\r\nContent-Type: application/json\r\n"
            f"Content-Length: 2\r\n\r\n{{}}".encode()
        )
        while s.recv(4096):
            pass
    shown = engine.ask("GET", f"/exec/{made}/json")
    if shown["ExitCode"] != 0 or shown["Running"]:
        raise RuntimeError(f"exec {made}: {shown}")


def run_container(engine, image):
    made = engine.ask("POST", "/containers/create", {"Image": image, "Cmd": ["true"]})["Id"]
    engine.ask("POST", f"/containers/{made}/start")
    if engine.ask("POST", f"/containers/{made}/wait")["StatusCode"] != 0:
        raise RuntimeError(f"container {made} failed")
    engine.ask("DELETE", f"/containers/{made}")


def refused(engine, path, body=None):
    try:
        told = engine.messages(path, body)
    except RuntimeError:
        return
    raise RuntimeError(f"POST {path} was not refused: {told}")


def pull_image(engine, repository):
    refused(engine, f"/images/create?fromImage={repository}&tag=none")
    engine.messages(f"/images/create?fromImage={repository}&tag={engine.number}")
    engine.ask("DELETE", f"/images/{repository}:{engine.number}")


def load_image(engine, file):
    with open(f"{file}.{engine.number}", "rb") as archive:
        content = archive.read()
    refused(engine, "/images/load", content[: len(content) // 2])
    told = engine.messages("/images/load", content)
    engine.ask("DELETE", "/images/" + re.search(r"Loaded image: ([^\\]+)", told)[1])


def main():
    path, what, count, of = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    work = {"exec": run_exec, "run": run_container, "pull": pull_image, "load": load_image}[what]
    failed = []
    left = iter(range(count))
    lock = threading.Lock()

    def client(number):
        engine = Engine(path, number)
        while not failed:
            with lock:
                if next(left, None) is None:
                    return
            try:
                work(engine, of)
            except Exception as e:
                failed.append(e)

    clients = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    for e in failed:
        print(e, file=sys.stderr)
    sys.exit(bool(failed))


main()
