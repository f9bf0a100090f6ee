"""Builds cases of the corpus with moss, through the docker command line, and with buildah, and compares what comes out.

    corpus.py check PREFIX...   the cases whose names begin with one of these
    corpus.py list              all their names

It needs $MOSS_SOCK, and $CORPUS: a folder with buildah's store, the base images in it and in the engine already.
Differences that are right are in differences.txt; an entry of that table that does not happen fails as well.
"""
import fnmatch
import functools
import http.server
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import case
import result

CORPUS = os.environ.get('CORPUS', '')
LIMIT = 150  # seconds that one build may take
AT_ONCE = 2  # builds at the same time, of each builder
# Where buildah mounts something for RUN it leaves an empty file or folder in the layer. moss and Docker do not.
MOUNTED = ('/etc/hostname', '/etc/hosts', '/etc/resolv.conf', '/run', '/dev', '/proc', '/sys')
COMPARED = ('kind', 'mode', 'owner', 'size', 'sha256', 'target', 'device', 'same', 'xattrs')


class Failed(Exception):
    """A builder did not do what was asked; its output is the text."""


def run(command, env=None, limit=LIMIT, folder=None):
    try:
        got = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors='replace', check=False, timeout=limit, cwd=folder, env={**os.environ, **(env or {})})
    except subprocess.TimeoutExpired as err:
        raise Failed(f'{command[0]}: not done after {limit} s: {err.output}') from err
    if got.returncode:
        raise Failed(f'{" ".join(command)}: exit status {got.returncode}\n{got.stdout}')
    return got.stdout


def image(name):
    return 'localhost/corpus-' + name


def docker(*args, folder=None):
    return run(['docker', *args], folder=folder, env={'DOCKER_HOST': 'unix://' + os.environ['MOSS_SOCK'], 'DOCKER_BUILDKIT': '0',
                                                         'DOCKER_CONFIG': os.path.join(CORPUS, 'docker')})


def foreign(program, *args):
    """buildah or podman, on the store of the corpus."""
    return run([program, '--root', CORPUS + '/store', '--runroot', CORPUS + '/run', '--storage-driver', 'overlay', *args],
               {'HOME': CORPUS, 'XDG_RUNTIME_DIR': CORPUS})


def by_moss(one, context):
    """Builds it twice: the second time nothing may run, and the same image comes out."""
    first = docker('build', '-t', image(one.name), *one.args, '.', folder=context)
    again = docker('build', '-t', image(one.name), *one.args, '.', folder=context)
    ids = [next((line.split()[-1] for line in text.splitlines() if line.startswith('Successfully built')), '') for text in (first, again)]
    if not ids[0] or ids[0] != ids[1] or 'Running in' in again:
        raise Failed(f'{one.name}: the cache does not answer the second build: {ids}\n{again}')


def by_buildah(one, context):
    if not one.alone:
        foreign('buildah', 'bud', '--isolation', 'chroot', '--format', 'docker', '--identity-label=false', '-t', image(one.name), *one.args, context)


def build(cases, work, url):
    """What each builder made of the cases, and the complaints of those that did not."""
    contexts, complaints = {}, []
    for one in cases:
        contexts[one.name] = os.path.join(work, one.name)
        one.unpack(contexts[one.name], os.path.join(work, 'site', one.name), f'{url}/{one.name}')

    def attempt(builder, one):
        try:
            builder(one, contexts[one.name])
            return one
        except Failed as err:
            complaints.append(f'{one.name}: {err}')
            return None

    with ThreadPoolExecutor(AT_ONCE) as own, ThreadPoolExecutor(AT_ONCE) as other:
        mine = [own.submit(attempt, by_moss, one) for one in cases]
        theirs = [other.submit(attempt, by_buildah, one) for one in cases if not one.alone]
        mine, theirs = ([f.result() for f in some if f.result()] for some in (mine, theirs))
    return images_of(mine, theirs, work, complaints), complaints


def images_of(mine, theirs, work, complaints):
    ours, others = {}, {}
    try:
        if mine:
            bases = sorted({one.base for one in mine if one.alone and one.base != 'scratch'})
            docker('save', '-o', work + '/moss.tar', *[image(one.name) for one in mine], *bases)
            ours = result.read(work + '/moss.tar')
        if theirs:
            foreign('podman', '--cgroup-manager', 'cgroupfs', '--events-backend', 'none', 'save', '-q', '-m', '-o', work + '/buildah.tar',
                    *[image(one.name) for one in theirs])
            others = result.read(work + '/buildah.tar')
    except Failed as err:
        complaints.append(str(err))
    return ours, others


def differences(ours, theirs, since):
    """Yields (what, got, want): path, `mtime PATH`, `config.FIELD` or `history`."""
    for path in sorted(ours.files.keys() | theirs.files.keys()):
        got, want = ours.files.get(path), theirs.files.get(path)
        if got is None and path in MOUNTED and not want.get('size'):
            continue
        if want:  # of the file system below buildah's store
            want['xattrs'] = {k: v for k, v in want['xattrs'].items() if not k.startswith('user.overlay.')}
        if got is None or want is None or any(got.get(k) != want.get(k) for k in COMPARED):
            yield path, result.show(got), result.show(want)
        elif got['mtime'] != want['mtime'] and (want['mtime'] if got['kind'] == 'dir' else min(got['mtime'], want['mtime'])) < since:
            yield 'mtime ' + path, got['mtime'], want['mtime']
    for field in sorted(ours.config.keys() | theirs.config.keys()):
        if ours.config.get(field) != theirs.config.get(field):
            yield 'config.' + field, json.dumps(ours.config.get(field)), json.dumps(theirs.config.get(field))
    if len(ours.history) != len(theirs.history):
        yield 'history', len(ours.history), len(theirs.history)


def unexpected(one, ours, base):
    """Yields (what, got, want) where an image is not what the case says. Everything that a path or field has is said."""
    got = {f'{path} {result.show(attributes)}' for path, attributes in ours.changes(base.files if base else {}).items()}
    got |= {f'config.{k} {json.dumps(v)}' for k, v in ours.config.items() if (base.config if base else {}).get(k) != v}
    for line in one.expect:
        if line.endswith(' ...'):
            found = {g for g in got if g.startswith(line[:-3])}
        else:
            found = got & {line}
        if not found:
            yield 'expect', 'not there', line
        got -= found
    for line in sorted(got):
        if not line.startswith(('config.Os ', 'config.Architecture ')):
            yield 'expect', line, 'nothing is said of it'


def table():
    """The differences that are right: [case, what, reason]."""
    rows = []
    with open(os.path.join(case.HERE, 'differences.txt'), encoding='utf-8') as file:
        for line in file:
            if line.strip() and not line.startswith('#'):
                name, what, reason = (word.strip() for word in line.split('|', 2))
                if not reason:
                    raise SystemExit(f'differences.txt: no reason: {line}')
                rows.append((name, what))
    return rows


def judge(cases, ours, others, since):
    """The complaints on images that are there."""
    known, used, complaints = table(), set(), []
    for one in cases:
        mine, theirs = ours.get(image(one.name)), others.get(image(one.name))
        if mine is None or (theirs is None and not one.alone):
            continue
        if one.alone:
            found = unexpected(one, mine, ours.get(one.base))
        else:
            found = differences(mine, theirs, since)
        for what, got, want in found:
            rows = [row for row in known if row[0] == one.name and fnmatch.fnmatchcase(what, row[1])]
            used.update(rows)
            if not rows:
                complaints.append(f'{one.name}: {what}\n  moss: {got}\n  want: {want}')
        complaints += [f'{row[0]}: differences.txt has {row[1]}, which is no difference' for row in known
                       if row[0] == one.name and row not in used]
    return complaints


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def check(prefixes):
    cases = [one for one in case.load() if one.name.startswith(tuple(prefixes))]
    work = os.path.join(CORPUS, 'work-' + prefixes[0])
    os.makedirs(work + '/site')
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Quiet, directory=work + '/site'))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.umask(0o022)
    since = time.time() - 5
    (ours, others), complaints = build(cases, work, f'http://127.0.0.1:{server.server_address[1]}')
    server.shutdown()
    complaints += judge(cases, ours, others, since)
    print('\n'.join(complaints))
    print(f'{len(cases)} cases, {len(complaints)} complaints')
    return 1 if complaints or not cases else 0


if __name__ == '__main__':
    if sys.argv[1:] == ['list']:
        print('\n'.join(one.name for one in case.load()))
    else:
        sys.exit(check(sys.argv[2:]))
