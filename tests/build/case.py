"""Cases of the corpus: one file below cases/ holds a Dockerfile, its context and how to build it.

A case begins with a sentence that says what it shows, and lines of the form `key: value`:

    args: --build-arg A=1      options of the build, the same for every builder
    base: localhost/box        what its last stage is made from (localhost/box)
    alone: REASON              why no other builder makes the same: its result is in the entry "expect" instead

Entries follow, each up to the next line of that form:

    -- NAME --                 a file (0644); -- NAME 0755 -- has another mode
    -- NAME/ 0700 --           a folder
    -- NAME -> TARGET --       a symbolic link
    -- NAME = OTHER --         a hard link to an entry before it
    -- NAME < FOLDER/ --       an archive of the entries below FOLDER, of the kind that its name says; they are no files then

%20 in a name is a space, %0D anywhere a carriage return. The context is made of all entries but those below site/, which are served by HTTP at @SITE@, and "expect". Every time
in it is MTIME.
"""
import os
import re
import shlex
import subprocess
import tarfile
import urllib.parse
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
MTIME = 1000000000  # of everything in a context: long before any build
ENTRY = re.compile(r'^-- (\S+?)(?: (0[0-7]{3,4})| (->|=|<) (\S+))? --$')
PACK = {'.tar': None, '.gz': 'gzip', '.tgz': 'gzip', '.bz2': 'bzip2', '.xz': 'xz', '.zst': 'zstd'}


class Case:
    """One file of the corpus."""

    def __init__(self, path):
        self.name = os.path.basename(path).removesuffix('.txt')
        self.keys, self.entries = {}, []  # entries: (name, mode or None, kind, target, text)
        with open(path, encoding='utf-8') as file:
            self._parse(file.read().splitlines(keepends=True))

    def _parse(self, lines):
        body = None
        for number, line in enumerate(lines, 1):
            if found := ENTRY.match(line.rstrip('\n')):
                name, mode, kind, target = found.groups()
                body = []
                self.entries.append((name, mode, kind, target, body))
            elif body is not None:
                body.append(line)
            elif key := re.match(r'^(args|base|alone): (.*)$', line):
                self.keys[key[1]] = key[2].strip()
            elif number > 1 and line.strip():
                raise ValueError(f'{self.name}: line {number} belongs to nothing: {line!r}')

    @property
    def args(self):
        return shlex.split(self.keys.get('args', ''))

    @property
    def base(self):
        return self.keys.get('base', 'localhost/box')

    @property
    def alone(self):
        return self.keys.get('alone')

    @property
    def expect(self):
        """The lines of the expectation: see result.py."""
        text = next((body for name, _, _, _, body in self.entries if name == 'expect'), [])
        return [line.rstrip('\n') for line in text if line.strip()]

    def unpack(self, context, site, url):
        """Makes the context in the folder, what is served in the other, and names its URL in the files."""
        os.makedirs(context)
        archives = [target for _, _, kind, target, _ in self.entries if kind == '<']
        for name, mode, kind, target, body in sorted(self.entries, key=lambda entry: entry[2] == '<'):
            if name == 'expect':
                continue
            root = site if name.startswith('site/') else context
            path = os.path.join(root, urllib.parse.unquote(name.removeprefix('site/')))
            os.makedirs(os.path.dirname(path.rstrip('/')), exist_ok=True)
            self._make(path, root, mode, kind, target, ''.join(body).replace('@SITE@', url).replace('%0D', '\r'))
        for folder in archives:
            subprocess.run(['rm', '-rf', os.path.join(context, folder), os.path.join(site, folder)], check=True)
        for root in (context, site):
            self._age(root)

    @staticmethod
    def _make(path, root, mode, kind, target, text):
        if kind == '->':
            os.symlink(target, path)
        elif kind == '=':
            os.link(os.path.join(root, target), path)
        elif kind == '<':
            Case._archive(path, os.path.join(root, target))
        elif path.endswith('/'):
            os.makedirs(path, exist_ok=True)
            os.chmod(path, int(mode or '755', 8))
        else:
            with open(path, 'w', encoding='utf-8', newline='') as file:
                file.write(text)
            os.chmod(path, int(mode or '644', 8))

    @staticmethod
    def _archive(path, folder):
        def anonymous(info):
            info.uid, info.gid, info.uname, info.gname, info.mtime = 7, 8, '', '', MTIME + 5
            return info

        if path.endswith('.whl'):
            with zipfile.ZipFile(path, 'w') as wheel:
                for inside, _, files in os.walk(folder):
                    for name in files:
                        wheel.writestr(os.path.relpath(os.path.join(inside, name), folder), open(os.path.join(inside, name), 'rb').read())
            return
        program = PACK[os.path.splitext(path)[1]]
        with tarfile.open(path + '.part', 'w', format=tarfile.PAX_FORMAT) as tar:
            for name in sorted(os.listdir(folder)):
                tar.add(os.path.join(folder, name), name, filter=anonymous)
        if program:
            with open(path, 'wb') as out:
                subprocess.run([program, '-c', path + '.part'], stdout=out, check=True)
            os.unlink(path + '.part')
        else:
            os.rename(path + '.part', path)

    @staticmethod
    def _age(root):
        for folder, _, files in os.walk(root, topdown=False):
            for name in files:
                os.utime(os.path.join(folder, name), (MTIME, MTIME), follow_symlinks=False)
            os.utime(folder, (MTIME, MTIME))


def load(prefix=''):
    """The cases whose names begin like that, in order."""
    folder = os.path.join(HERE, 'cases')
    return [Case(os.path.join(folder, name)) for name in sorted(os.listdir(folder))
            if name.endswith('.txt') and name.startswith(prefix)]
