#!/usr/bin/python3
"""damage.py: damages each kind of file below an engine's data folder, in every way, and looks at what that costs.

  damage.py BIN FOLDER SOCKETS [--jobs N] [--part] [--unreadable BADSECTOR] [KIND[:WAY]...]

BIN has mossd and moss. FOLDER takes data folders, SOCKETS is a short path for sockets. Each worker fills a data folder of
its own with containers, images, volumes, networks, events and a build cache, and keeps a copy of it. Then, for each kind of
file and each way: put the copy back, damage one file, start an engine, look, remove what is damaged, stop the engine.
--part takes each file with two of the ways, other ones for each. KIND or KIND:WAY takes these only.
--unreadable has one way only: reading the file gives EIO, since the data folder lies on the file system of the program
BADSECTOR (tests/attack/badsector). --part takes every third file then.

The kinds are found by walking. A file that no kind describes fails: put it into kinds.py, with what its damage may cost.
"""
import argparse
import concurrent.futures
import http.client
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time

from kinds import CONTENT, CONTENTS, ID, KINDS, PLACE, UNREADABLE, kind_of


class Failed(Exception):
    """What was seen is not what is promised."""


def want(condition, text):
    if not condition:
        raise Failed(text)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("moss", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def in_ids(*command):
    """Runs a command that deals with files of sub-ids."""
    subprocess.run(["unshare", "--user", "--map-root-user", "--map-auto", *command], check=True)


class Engine:
    """A data folder and the engine on it."""

    def __init__(self, binaries, folder, run, badsector):
        self.binaries, self.root, self.run = binaries, os.path.join(folder, "root"), run
        self.copy, self.log = os.path.join(folder, "copy"), os.path.join(folder, "mossd.log")
        self.socket = os.path.join(run, "s")
        self.process = None
        self.badsector, self.disk = badsector, os.path.join(folder, "disk") if badsector else self.root
        for path in (folder, self.root, run, *([self.disk] if badsector else [])):
            os.makedirs(path, mode=0o700)

    def mount(self, path):
        """Shows the disk at the data folder, with a bad sector in the file at path."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            subprocess.run(["fusermount3", "-o", "fsname=badsector", "--", self.root], pass_fds=[theirs.fileno()],
                           env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())}, check=True)
            device = socket.recv_fds(ours, 1, 1)[1][0]
        # A file system of the kernel's looks into folders of any mode for those who may.
        served = subprocess.Popen(["unshare", "--user", "--map-current-user", "--keep-caps", self.badsector, self.disk,
                                   f"/dev/fd/{device}", path], pass_fds=[device])
        os.close(device)
        return served

    def unmount(self, served):
        try:
            subprocess.run(["fusermount3", "-u", "--", self.root], check=True)
        finally:
            served.kill()  # engines beside this one may have the mount in their namespaces
            served.wait()

    def start(self):
        # The kernel's overlay writes to no file system of a program.
        driver = ["--storage-driver", "fuse-overlayfs"] if self.badsector else []
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.binaries + "/mossd", "--root", self.root, "--run-dir", self.run + "/run", "--host", "unix://" + self.socket, *driver],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while True:
            try:
                if self.call("GET", "/_ping")[0] == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > end:
                with open(self.log, "rb") as log:
                    tail = log.read()[-1500:].decode(errors="replace")
                self.stop()
                raise Failed("the engine does not start: " + tail)
            time.sleep(0.02)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(180)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failed("the engine does not stop") from None

    def call(self, method, path, body=None, kind="application/json"):
        connection = UnixConnection(self.socket)
        try:
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body).encode()
            connection.request(method, path, body, {"Content-Type": kind} if body is not None else {})
            answer = connection.getresponse()
            raw = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(raw) if raw else None
        except ValueError:
            return answer.status, raw.decode(errors="replace")

    def ask(self, method, path, body=None, kind="application/json", status=(200, 201, 204)):
        got, answer = self.call(method, path, body, kind)
        want(got in status, f"{method} {path[:100]}: {got} {str(answer)[:300]}")
        return answer

    def moss(self, *args):
        done = subprocess.run([self.binaries + "/moss", "--host", "unix://" + self.socket, *args], capture_output=True, text=True, timeout=180)
        return done.returncode, done.stdout + done.stderr

    def run_container(self, image, *command, **more):
        made = self.ask("POST", "/containers/create" + more.pop("query", ""),
                        {"Image": image, "Cmd": list(command), "StopSignal": "SIGKILL", **more})
        self.ask("POST", f"/containers/{made['Id']}/start")
        return made["Id"]

    def run_to_end(self, image, *command, **more):
        container = self.run_container(image, *command, **more)
        ended = self.ask("POST", f"/containers/{container}/wait")
        return container, ended["StatusCode"]

    def keep(self):
        in_ids("cp", "-a", "--reflink=auto", self.root, self.copy)

    def restore(self):
        in_ids("sh", "-c", 'rm -rf "$1"/* "$1"/.[!.]* && cp -a --reflink=auto "$2"/. "$1"/', "sh", self.disk, self.copy)


def busybox(extra):
    """A root file system with busybox and one more file."""
    box = shutil.which("busybox.static") or shutil.which("busybox")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for folder in ("bin", "etc", "proc", "sys", "dev", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        with open(box, "rb") as binary:
            entry = tarfile.TarInfo("bin/busybox")
            entry.size, entry.mode = os.path.getsize(box), 0o755
            archive.addfile(entry, binary)
        for link in ("sh", "true", "cat", "touch", "sleep", "echo"):
            entry = tarfile.TarInfo("bin/" + link)
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(entry)
        entry = tarfile.TarInfo("which")
        entry.size = len(extra)
        archive.addfile(entry, io.BytesIO(extra.encode()))
    return out.getvalue()


def context(dockerfile):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in (("Dockerfile", dockerfile), ("f", "f")):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


DOCKERFILE = """FROM box
COPY f /f
RUN echo built >/built
RUN --mount=type=cache,target=/c echo y >/c/y
CMD ["cat", "/built"]
"""


def fill(engine):
    """Makes one of everything. Returns what is there then."""
    for name in ("box", "other"):
        engine.ask("POST", f"/images/create?fromSrc=-&repo={name}&tag=latest", busybox(name), "application/x-tar")
    built = engine.ask("POST", "/build?t=built", context(DOCKERFILE), "application/x-tar")
    want("error" not in str(built), str(built))
    engine.ask("POST", "/volumes/create", {"Name": "vol", "Labels": {"a": "b"}})
    engine.ask("POST", "/networks/create", {"Name": "net"})
    ended, code = engine.run_to_end("box", "sh", "-c", "echo said; touch /v/a /written", query="?name=ended", HostConfig={"Binds": ["vol:/v"]})
    want(code == 0, f"container: {code}")
    engine.run_container("other", "sleep", "1000", query="?name=runs")
    engine.run_container("built", "sleep", "1000", query="?name=ran", HostConfig={"NetworkMode": "net", "RestartPolicy": {"Name": "always"}})
    engine.ask("POST", f"/commit?container={ended}&repo=committed", {})


def files(root):
    """All files and links below a folder but contents, as paths below it."""
    found = []
    for folder, below, names in os.walk(root, onerror=lambda err: None):
        rel = os.path.relpath(folder, root)
        below[:] = [d for d in below if not CONTENTS.match(os.path.normpath(os.path.join(rel, d)))]
        for name in names + [d for d in below if os.path.islink(os.path.join(folder, d))]:
            found.append(os.path.normpath(os.path.join(rel, name)))
        found += [d for d in (os.path.normpath(os.path.join(rel, d)) for d in below) if kind_of(d)]
    return sorted(f for f in found if not CONTENTS.match(f))


def spoil(path, way, other):
    """Damages a file. What another file of the data folder holds is other."""
    if way in ("folder", "link") or os.path.islink(path):
        os.unlink(path)
    if way == "folder":
        os.mkdir(path)
        with open(path + "/inside", "w", encoding="ascii") as inside:
            inside.write("x")
    elif way == "link":
        os.symlink(other, path)
    elif way == "half":
        os.truncate(path, os.path.getsize(path) // 2)
    else:
        text = {"empty": b"", "object": b"{}", "garbage": b"\x00\xff\x7f garbage " * 7}.get(way)
        if way == "another":
            with open(other, "rb") as f:
                text = f.read()
        with open(path, "wb") as f:
            f.write(text)


class Worker:
    """Has a data folder of its own."""

    def __init__(self, binaries, folder, run, badsector):
        self.engine = Engine(binaries, folder, run, badsector)
        self.canary = os.path.join(folder, "canary")
        with open(self.canary, "w", encoding="ascii") as f:
            f.write("canary")
        self.engine.start()
        fill(self.engine)
        self.containers = {c["Names"][0][1:]: c["Id"] for c in self.engine.ask("GET", "/containers/json?all=1")}
        self.images = {i["RepoTags"][0]: i["Id"].removeprefix("sha256:") for i in self.engine.ask("GET", "/images/json")}
        self.engine.stop()
        self.engine.keep()

    def victims(self):
        """Returns the cases: kind and path, in the same order for each worker. Of a kind with several files that differ, those
        that differ."""
        cases = {}
        for path in files(self.engine.copy):
            kind = kind_of(path)
            want(kind, f"{path}: a file of no known kind: put it into kinds.py, with what its damage costs")
            if kind.name == "log" and not os.path.getsize(os.path.join(self.engine.copy, path)):
                continue  # of a container that says nothing
            role = (kind.name, "")
            if kind.name in ("config", "container", "state", "phase"):
                role = (kind.name, self.role(path.split("/")[-2]))
            elif kind.name == "layer-folder":
                role = (kind.name, self.role(path.split("/")[2]))
            elif kind.name == "place":
                role = (kind.name, os.path.basename(path), self.role(path.split("/")[2]) == "some")
            elif kind.name in ("hosts", "manifest", "storage-lock", "index-copy"):
                role = (kind.name, re.sub(ID + "|=.*", "", path))
            cases.setdefault(role, (kind, path))
        return [cases[role] for role in sorted(cases)]

    def role(self, name):
        for known, whole in {**self.containers, **self.images}.items():
            if whole == name:
                return known
        return "some"

    def case(self, kind, path, way):
        engine = self.engine
        engine.restore()
        if way == UNREADABLE:
            served = engine.mount(path)
            try:
                self.start_and_look(kind, path, way)
            finally:
                engine.unmount(served)
            return
        victim = os.path.join(engine.root, path)
        other = os.path.join(engine.root, self.another(kind, path))
        spoil(victim, way, self.canary if way == "link" else other)
        self.start_and_look(kind, path, way)
        with open(self.canary, encoding="ascii") as f:
            want(f.read() == "canary", "the file that a link led to was changed")

    def start_and_look(self, kind, path, way):
        engine = self.engine
        engine.start()
        try:
            self.look(kind, path, way)
        finally:
            engine.stop()

    def another(self, kind, path):
        """Another file of the kind, where there is one; otherwise an index or a record."""
        def content(name):
            if not os.path.isfile(os.path.join(self.engine.copy, name)) or os.path.islink(os.path.join(self.engine.copy, name)):
                return b""
            with open(os.path.join(self.engine.copy, name), "rb") as f:
                return f.read()

        for other in files(self.engine.copy):
            if kind.pattern.match(other) and content(other) not in (b"", content(path)):
                return other
        return "engine.json" if path != "engine.json" else "storage/overlay-layers/layers.json"

    def look(self, kind, path, way):
        """Looks at an engine that found something damaged."""
        engine = self.engine
        hit = {m for m in re.findall(ID, path)}
        if kind.name == "container" and os.path.exists(os.path.join(engine.copy, os.path.dirname(path), "state.json")):
            hit = set()  # the state stands in for the record
        if kind.costs == "layer":
            hit = self.standing_on(hit)
        lists = {c["Id"]: c for c in engine.ask("GET", "/containers/json?all=1")}
        for name, container in self.containers.items():
            want(container in lists, f"container {name} is not listed")
            if kind.costs == "container" and container in hit:
                want(lists[container]["Status"] == "Dead" or lists[container].get("State") == "dead", f"container {name}: {lists[container]}")
            else:
                want(lists[container]["Names"] == ["/" + name], f"container {name}: {lists[container]['Names']}")
        tags = {tag: i["Id"] for i in engine.ask("GET", "/images/json") for tag in i["RepoTags"]}
        want(set(tags) == set(self.images), f"images: {sorted(tags)}")
        volumes = {v["Name"] for v in engine.ask("GET", "/volumes")["Volumes"]}
        want("vol" in volumes, f"volumes: {volumes}")
        networks = {n["Name"]: n for n in engine.ask("GET", "/networks")}
        want(kind.costs == "network" or "net" in networks, f"networks: {sorted(networks)}")
        want({"bridge", "host", "none"} <= set(networks), f"networks: {sorted(networks)}")
        for path_too in ("/info", "/system/df", "/containers/json?all=1&size=1", "/events?since=1&until=2"):
            engine.ask("GET", path_too)
        if kind.name == "log":  # its content is looked at when the container starts
            engine.ask("POST", f"/containers/{hit.pop()}/start", status=(204, 304))
        self.named(kind, path, way)
        self.works(kind, hit)
        self.removable(kind, path, hit)

    def standing_on(self, layers):
        """The images and containers on layers. That a container's own is lost keeps nothing from working."""
        def records(name):
            with open(os.path.join(self.engine.copy, "storage", name), "rb") as f:
                return json.load(f)

        parents = {r["id"]: r.get("parent") for index in ("layers", "volatile-layers") for r in records(f"overlay-layers/{index}.json")}
        names = os.listdir(os.path.join(self.engine.copy, "storage/moss-containers"))
        parents.update(name.split(".") for name in names)
        tops = {r["id"]: r["layer"] for r in records("overlay-images/images.json")}
        tops.update({c: parents[c] for c in self.containers.values()})
        hit = set()
        for name, layer in tops.items():
            while layer:
                if layer in layers:
                    hit.add(name)
                layer = parents[layer]
        return hit

    def named(self, kind, path, way):
        code, text = self.engine.moss("system", "check")
        victim = os.path.join(self.engine.copy, path)
        if way in kind.silent or way == UNREADABLE and os.path.isfile(victim) and os.path.getsize(victim) == 0:
            return
        want(code == 1, f"moss system check ends with {code}: {text}")
        ids = re.findall(ID, path)
        want(path in text or any(i in text for i in ids), f"moss system check does not name {path}: {text}")

    def works(self, kind, hit):
        """The others go on, and new ones can be made."""
        engine = self.engine
        for image in ("box", "other", "built", "committed"):
            damaged = kind.costs in ("image", "layer") and self.images[image + ":latest"] in hit
            if damaged:
                status, answer = engine.call("POST", "/containers/create", {"Image": image, "Cmd": ["true"]})
                want(status == 409 and "damaged" in str(answer), f"create of a damaged image: {status} {answer}")
                continue
            container, code = engine.run_to_end(image, "cat", "/which")
            want(code == 0, f"run of {image}: {code}")
            said = engine.ask("GET", f"/containers/{container}/logs?stdout=1")
            which = "other" if image == "other" else "box"
            want(which in str(said), f"{image} has the files of another one: {said}")
        for name in ("ended", "runs", "ran"):
            if kind.costs in ("container", "layer") and self.containers[name] in hit:
                continue
            if kind.costs == "network" and name == "ran":
                continue
            engine.ask("POST", f"/containers/{name}/start", status=(204, 304))
            engine.call("GET", f"/containers/{name}/logs?stdout=1")
        want(kind.costs == "volume" or os.path.exists(self.engine.root + "/volumes/vol/_data/a"), "the volume's file is gone")
        base = "box" if self.images["other:latest"] in hit else "other"
        dockerfile = DOCKERFILE.replace("built", "again").replace("FROM box", "FROM " + base)
        built = engine.ask("POST", "/build?t=again", context(dockerfile), "application/x-tar")
        want("error" not in str(built), f"build: {str(built)[-300:]}")

    def removable(self, kind, path, hit):
        """What is damaged can be removed, and then everything else."""
        engine = self.engine
        for container in engine.ask("GET", "/containers/json?all=1"):
            engine.ask("DELETE", f"/containers/{container['Id']}?force=1")
        want(engine.ask("GET", "/containers/json?all=1") == [], "containers are left")
        engine.ask("POST", "/build/prune?all=1")
        for name in ("volumes", "networks", "images?filters=%7B%22dangling%22%3A%5B%22false%22%5D%7D"):
            base, _, query = name.partition("?")
            engine.ask("POST", f"/{base}/prune" + ("?" + query if query else ""))
        left = engine.ask("GET", "/images/json")
        want(left == [], f"images are left: {left}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries")
    parser.add_argument("folder")
    parser.add_argument("sockets")
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--part", action="store_true")
    parser.add_argument("--unreadable", metavar="BADSECTOR")
    args = parser.parse_intermixed_args()
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        workers = list(pool.map(lambda i: Worker(args.binaries, f"{args.folder}/{i}", f"{args.sockets}/{i}", args.unreadable), range(args.jobs)))
        number = max(len(worker.victims()) for worker in workers)
        print(f"{number} files of {len(KINDS)} kinds, filled in {time.monotonic() - begin:.1f} s", flush=True)
        met = {kind.name for kind, _ in workers[0].victims()}
        failures = [f"no file of the kind {kind.name}" for kind in KINDS if kind.name not in met]
        todo, lock = [], threading.Lock()
        for at, (kind, _) in enumerate(workers[0].victims()):
            ways = kind.ways
            if args.unreadable:
                ways = [UNREADABLE] if not args.part or at % 3 == 0 else []
            elif args.part and ways:
                contents = [way for way in kind.ways if way in CONTENT]
                ways = [contents[at % len(contents)], PLACE[at % len(PLACE)]]
            todo += [(at, way) for way in ways
                     if not args.kinds or kind.name in args.kinds or f"{kind.name}:{way}" in args.kinds]
        done = len(todo)

        def work(worker):
            cases = worker.victims()
            while True:
                with lock:
                    if not todo:
                        return
                    at, way = todo.pop(0)
                kind, path = cases[at]
                try:
                    worker.case(kind, path, way)
                except Exception as err:  # pylint: disable=broad-except
                    with lock:
                        failures.append(f"{kind.name}:{way} {path}: {type(err).__name__ if not isinstance(err, Failed) else ''} {err}")
                        print("FAILED", failures[-1], flush=True)

        list(pool.map(work, workers))
    print(f"{done} cases, {len(failures)} failures, {time.monotonic() - begin:.1f} s")
    for failure in failures:
        print("failed:", failure)
    sys.exit(1 if failures or not done else 0)


if __name__ == "__main__":
    main()
