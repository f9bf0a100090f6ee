"""Makes the images that the corpus builds upon, as one archive of the form that `docker save` has.

    bases.py BUSYBOX.tar DEBIAN.tar SERVICE.txt OUT

They come from what this machine has: its busybox, Go, Node and Python with the libraries they need, and a Debian of
mmdebstrap. SERVICE.txt is the case of the Go service: what it needs is compiled beforehand.
"""
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile

import case

PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
MACHINE = {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine())
BOX = {'Env': [PATH], 'Cmd': ['sh']}
CREATED = '2001-09-09T01:46:40Z'


def output(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout.strip()


class Layer:
    """A layer's tar, its entries root's and of one time."""

    def __init__(self, path):
        self.path, self.names = path, set()
        self.tar = tarfile.open(path, 'w', format=tarfile.PAX_FORMAT)

    def add(self, kind, name, mode=0o644, owner=(0, 0), **more):
        info = tarfile.TarInfo(name.lstrip('/'))
        info.type, info.mode, info.mtime = kind, mode, case.MTIME
        info.uid, info.gid = owner
        info.pax_headers = more.get('pax', {})
        info.linkname = more.get('target', '')
        data = more.get('data', b'')
        info.size = len(data)
        self.tar.addfile(info, io.BytesIO(data))
        self.names.add(info.name)

    def folder(self, name, mode=0o755, owner=(0, 0)):
        self.add(tarfile.DIRTYPE, name, mode, owner)

    def parents(self, name):
        parts = name.strip('/').split('/')[:-1]
        for n in range(1, len(parts) + 1):
            if '/'.join(parts[:n]) not in self.names:
                self.folder('/'.join(parts[:n]))

    def copy(self, source, name=None):
        """A file of this machine, links followed, at its own path unless another is given."""
        name = (name or source).strip('/')
        if name in self.names:
            return
        self.parents(name)
        with open(source, 'rb') as file:
            self.add(tarfile.REGTYPE, name, 0o755 if os.access(source, os.X_OK) else 0o644, data=file.read())

    def tree(self, source, name=None, leave=()):
        """A folder of this machine; links inside it stay links."""
        for folder, below, files in os.walk(source):
            below[:] = sorted(b for b in below if b not in leave)
            inside = os.path.join(name or source, os.path.relpath(folder, source))
            for file in sorted(files + [b for b in below if os.path.islink(os.path.join(folder, b))]):
                path, target = os.path.join(folder, file), os.path.normpath(os.path.join(inside, file))
                if os.path.islink(path):
                    self.parents(target)
                    self.add(tarfile.SYMTYPE, target, 0o777, target=os.readlink(path))
                else:
                    self.copy(path, target)

    def program(self, source, name=None):
        """A program with the libraries that it is linked with."""
        self.copy(source, name)
        for line in subprocess.run(['ldd', source], capture_output=True, text=True, check=False).stdout.splitlines():
            words = [w for w in line.split() if w.startswith('/')]
            if words:
                self.copy(words[-1])

    def close(self):
        self.tar.close()
        return self.path


def shapes(path):
    """A layer with what makes a copy difficult: links to folders, owners, modes, a folder that is a file elsewhere."""
    layer = Layer(path)
    layer.folder('srv', 0o2750, (33, 50))
    layer.add(tarfile.REGTYPE, 'srv/kept', 0o640, (33, 50), data=b'kept\n')
    layer.folder('sticky', 0o1777)
    layer.add(tarfile.SYMTYPE, 'data', target='srv')
    layer.add(tarfile.SYMTYPE, 'absolute', target='/var/www')
    layer.add(tarfile.SYMTYPE, 'out', target='../../../../srv')
    layer.add(tarfile.SYMTYPE, 'dangling', target='nowhere/at/all')
    layer.add(tarfile.REGTYPE, 'one', data=b'twice\n')
    layer.add(tarfile.LNKTYPE, 'two', target='one')
    layer.add(tarfile.REGTYPE, 'suid', 0o4755, data=b'#!/bin/sh\n')
    return layer.close()


def go_layer(path, service, work):
    """The Go of this machine as far as the service needs it, compiled packages included."""
    root = output('go', 'env', 'GOROOT')
    tools = output('go', 'env', 'GOTOOLDIR')
    source = os.path.join(work, 'source')
    service.unpack(source, os.path.join(work, 'site'), '')
    env = {**os.environ, 'GOCACHE': os.path.join(work, 'cache'), 'GOFLAGS': '-trimpath -buildvcs=false', 'GOWORK': 'off', 'CGO_ENABLED': '0', 'GOTOOLCHAIN': 'local'}
    build = ['go', 'build', '-o', os.path.join(work, 'program'), '.']
    subprocess.run(build, cwd=source, env=env, check=True)
    layer = Layer(path)
    layer.copy(os.path.join(root, 'bin/go'), 'usr/local/go/bin/go')
    for tool in ('compile', 'link', 'asm', 'buildid'):
        if os.path.exists(os.path.join(tools, tool)):
            layer.copy(os.path.join(tools, tool), '/usr/local/go/' + os.path.relpath(os.path.join(tools, tool), root))
    for name in ('VERSION', 'go.env', 'src/go.mod', 'src/vendor/modules.txt'):
        layer.copy(os.path.join(root, name), 'usr/local/go/' + name)
    layer.tree(os.path.join(root, 'pkg/include'), 'usr/local/go/pkg/include')
    for folder in output('go', 'list', '-deps', '-f', '{{if .Standard}}{{.Dir}}{{end}}', '.', cwd=source, env=env).split():
        for file in sorted(os.listdir(folder)):
            if os.path.isfile(os.path.join(folder, file)) and not file.endswith('_test.go'):
                layer.copy(os.path.join(folder, file), 'usr/local/go/' + os.path.relpath(os.path.join(folder, file), root))
    layer.tree(os.path.join(work, 'cache'), 'root/.cache/go-build')
    return layer.close()


def node_layer(path):
    """The Node of this machine and its npm."""
    layer = Layer(path)
    node = os.path.realpath(output('sh', '-c', 'command -v node'))
    layer.program(node, node.lstrip('/'))  # Debian's looks for modules in the share folder beside its own
    layer.add(tarfile.SYMTYPE, 'usr/local/bin/node', target=node)
    npm = os.path.realpath(output('sh', '-c', 'command -v npm'))
    folder = os.path.dirname(os.path.dirname(npm))
    layer.tree(folder, leave=('docs', 'man'))
    if os.path.isdir('/usr/share/nodejs'):  # where Debian keeps what its npm needs
        layer.tree('/usr/share/nodejs', leave=('docs', 'man'))
    layer.add(tarfile.SYMTYPE, 'usr/local/bin/npm', target=npm)
    return layer.close()


def python_layer(path):
    """The system's Python and its library."""
    layer = Layer(path)
    python = os.path.realpath('/usr/bin/python3')
    layer.program(python, 'usr/local/bin/python3')
    library = output('/usr/bin/python3', '-c', 'import sysconfig; print(sysconfig.get_path("stdlib"))')
    layer.tree(library, leave=('__pycache__', 'test', 'idlelib', 'lib2to3', 'tkinter', 'pydoc_data', 'turtledemo', 'dist-packages'))
    for folder, _, files in os.walk(os.path.join(library, 'lib-dynload')):
        for file in files:
            layer.program(os.path.join(folder, file))
    return layer.close()


def digest(path):
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest() if hasattr(hashlib, 'file_digest') else hashlib.sha256(file.read()).hexdigest()


def save(out, images):
    """images: name -> (config, paths of layers)."""
    manifest, there = [], {}
    with tarfile.open(out, 'w') as tar:

        def put(name, data):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))

        for name, (config, layers) in images.items():
            for path in layers:
                if path not in there:
                    there[path] = digest(path)
                    tar.add(path, there[path] + '.tar')
            raw = json.dumps({
                'architecture': MACHINE, 'os': 'linux', 'created': CREATED, 'config': config,
                'rootfs': {'type': 'layers', 'diff_ids': ['sha256:' + there[p] for p in layers]},
                'history': [{'created': CREATED, 'created_by': 'bases.py'} for _ in layers]}).encode()
            file = hashlib.sha256(raw).hexdigest() + '.json'
            put(file, raw)
            manifest.append({'Config': file, 'RepoTags': [f'localhost/{name}:latest'], 'Layers': [there[p] + '.tar' for p in layers]})
        put('manifest.json', json.dumps(manifest).encode())


def main(busybox, debian, service, out):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(out)) as work:
        at = lambda name: os.path.join(work, name)  # noqa: E731
        full = {
            'Env': [PATH, 'FROM_BASE=yes', 'SHARED=base'], 'Entrypoint': ['/bin/base'], 'Cmd': ['base', 'command'], 'User': 'www:staff',
            'WorkingDir': '/var/www', 'Labels': {'from': 'base', 'both': 'base'}, 'ExposedPorts': {'80/tcp': {}, '53/udp': {}},
            'Volumes': {'/var/base': {}}, 'StopSignal': 'SIGQUIT',
            'Healthcheck': {'Test': ['CMD', 'true'], 'Interval': 30000000000}}
        triggers = ['ENV TRIGGERED=yes', 'COPY . /triggered/', 'RUN echo "trigger in $PWD" >>/triggered/log', 'ARG ANSWER=42', 'LABEL answer=$ANSWER']
        images = {
            'box': (BOX, [busybox]),
            'full': (full, [busybox]),
            'trigger': ({**BOX, 'OnBuild': triggers}, [busybox]),
            'shapes': (BOX, [busybox, shapes(at('shapes'))]),
            'debian': ({'Env': [PATH], 'Cmd': ['bash']}, [debian]),
            'go': ({**BOX, 'Env': [PATH + ':/usr/local/go/bin', 'GOTOOLCHAIN=local', 'GOPROXY=off', 'CGO_ENABLED=0', 'HOME=/root']},
                   [busybox, go_layer(at('go'), case.Case(service), work)]),
            'node': (BOX, [busybox, node_layer(at('node'))]),
            'python': (BOX, [busybox, python_layer(at('python'))]),
        }
        save(out, images)


if __name__ == '__main__':
    main(*sys.argv[1:])
