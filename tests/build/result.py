"""What an image is, taken from an archive as `docker save` writes it: every path with its attributes, and the settings."""
import copy
import hashlib
import json
import posixpath
import stat
import tarfile

KINDS = {tarfile.REGTYPE: 'file', tarfile.AREGTYPE: 'file', tarfile.DIRTYPE: 'dir', tarfile.SYMTYPE: 'link',
         tarfile.FIFOTYPE: 'fifo', tarfile.CHRTYPE: 'char', tarfile.BLKTYPE: 'block'}
FIELDS = ('User', 'Env', 'Cmd', 'Entrypoint', 'WorkingDir', 'Labels', 'ExposedPorts', 'Volumes', 'StopSignal', 'OnBuild',
          'Shell', 'Healthcheck')
SHORT = 200  # bytes of a file that are kept beside its digest, for an expectation to name


class Image:
    """files: path -> attributes; config: field -> value, fields without any left out; history: what made each step."""

    def __init__(self, files, config, history, layers):
        self.files, self.config, self.history, self.layers = files, config, history, layers

    def changes(self, base):
        """Paths that are not as in the base's files; None for those that it has and this image has not."""
        paths = {p: f for p, f in self.files.items() if not same(f, base.get(p))}
        return paths | {p: None for p in base if p not in self.files}


def same(a, b):
    return a is not None and b is not None and {k: v for k, v in a.items() if k != 'mtime'} == {
        k: v for k, v in b.items() if k != 'mtime'}


def read(archive):
    """The images of an archive, by their names without the tag."""
    layers, images = {}, {}
    with tarfile.open(archive) as tar:
        for entry in json.load(tar.extractfile('manifest.json')):
            config = json.load(tar.extractfile(entry['Config']))
            files = {}
            for layer in entry['Layers']:
                if layer not in layers:
                    layers[layer] = read_layer(tar.extractfile(resolve(tar, layer)))
                apply(files, layers[layer])
            link_groups(files)
            image = Image(files, settings(config), config.get('history') or [], len(entry['Layers']))
            for name in entry['RepoTags'] or []:
                images[name.rsplit(':', 1)[0]] = image
    return images


def resolve(tar, name):
    """The member of the archive; layers that several images share are links."""
    info = tar.getmember(name)
    while info.issym():
        info = tar.getmember(posixpath.normpath(posixpath.join(posixpath.dirname(info.name), info.linkname)))
    return info


def read_layer(file):
    """The members of a layer in their order: (path, attributes)."""
    members, known = [], {}
    with tarfile.open(fileobj=file) as tar:
        for info in tar:
            path = '/' + posixpath.normpath(info.name).lstrip('/')
            if path in ('/.', '/'):
                path = '/'
            if info.islnk():
                got = known['/' + posixpath.normpath(info.linkname).lstrip('/')]
            else:
                got = attributes(tar, info)
            known[path] = got
            members.append((path, got))
    return members


def attributes(tar, info):
    got = {'kind': KINDS[info.type], 'mode': stat.S_IMODE(info.mode), 'owner': f'{info.uid}:{info.gid}', 'mtime': int(info.mtime),
           'xattrs': {k.removeprefix('SCHILY.xattr.'): v for k, v in info.pax_headers.items() if k.startswith('SCHILY.xattr.')}}
    if got['kind'] == 'file':
        data = tar.extractfile(info).read()
        got |= {'size': info.size, 'sha256': hashlib.sha256(data).hexdigest()}
        got['text'] = data.decode('utf-8', 'replace') if info.size <= SHORT else ''
    elif got['kind'] == 'link':
        got['target'] = info.linkname
        del got['mode']
    elif got['kind'] in ('char', 'block'):
        got['device'] = f'{info.devmajor}:{info.devminor}'
    return got


def apply(files, members):
    """Puts a layer on top of what is there."""
    for path, _ in members:
        folder, name = posixpath.split(path)
        if name == '.wh..wh..opq':
            drop(files, folder, keep=True)
        elif name.startswith('.wh.'):
            drop(files, posixpath.join(folder, name.removeprefix('.wh.')))
    for path, got in members:
        if posixpath.basename(path).startswith('.wh.'):
            continue
        if path in files and files[path]['kind'] == 'dir' and got['kind'] != 'dir':
            drop(files, path)
        files[path] = got


def drop(files, path, keep=False):
    below = path.rstrip('/') + '/'
    for name in [p for p in files if p.startswith(below)]:
        del files[name]
    if not keep:
        files.pop(path, None)


def link_groups(files):
    """Names of one file know each other: 'same' is the first of them."""
    first = {}
    for path in sorted(files):
        got = files[path]
        if got['kind'] != 'file':
            continue
        if id(got) in first:
            one = first[id(got)]
            files[one] = files[one] | {'same': one}
            files[path] = copy.copy(got) | {'same': one}
        else:
            first[id(got)] = path


def settings(config):
    """The fields that a Dockerfile can set, without those that are empty."""
    inner = config.get('config') or {}
    shown = {k: inner[k] for k in FIELDS if inner.get(k)}
    if config.get('author'):
        shown['Author'] = config['author']
    if 'Env' in shown:
        shown['Env'] = sorted(shown['Env'])
    if 'Healthcheck' in shown:
        shown['Healthcheck'] = {k: v for k, v in shown['Healthcheck'].items() if v}
    return shown | {'Os': config.get('os'), 'Architecture': config.get('architecture')}


def show(got):
    """One path's attributes as an expectation has them: KIND MODE OWNER and what is in it."""
    if got is None:
        return 'absent'
    words = [got['kind']]
    if 'mode' in got:
        words.append(f"{got['mode']:04o}")
    words.append(got['owner'])
    if got['kind'] == 'link':
        words += ['->', got['target']]
    if got['kind'] == 'file':
        words.append(json.dumps(got['text']) if got['text'] or not got['size'] else f"{got['size']} bytes {got['sha256'][:12]}")
    if got.get('device'):
        words.append(got['device'])
    if got.get('same'):
        words += ['same as', got['same']]
    words += [f'{k}={v!r}' for k, v in sorted(got['xattrs'].items())]
    return ' '.join(words)
