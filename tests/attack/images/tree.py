#!/usr/bin/env python3
"""tree.py: a hostile root filesystem, as a tar archive on stdout, made of another one and of entries that replace its own.

    tree.py BASE.tar ENTRY...

An ENTRY is "name -> target" (a symbolic link), "name/" (a folder), "name|" (a FIFO) or "name=content" (a file). What BASE
has by that name, and below it, is left out. Names are written as they are: nothing is resolved.
"""

import io
import sys
import tarfile


def entry(text):
    if " -> " in text:
        name, target = text.split(" -> ", 1)
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
        return info, None
    if text.endswith("/"):
        info = tarfile.TarInfo(text[:-1])
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        return info, None
    if text.endswith("|"):
        info = tarfile.TarInfo(text[:-1])
        info.type, info.mode = tarfile.FIFOTYPE, 0o666
        return info, None
    name, content = text.split("=", 1)
    info = tarfile.TarInfo(name)
    data = content.encode()
    info.size, info.mode = len(data), 0o755
    return info, io.BytesIO(data)


def main():
    entries = [entry(text) for text in sys.argv[2:]]
    names = {info.name for info, _ in entries}
    with tarfile.open(sys.argv[1]) as base, tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as out:
        for member in base:
            name = member.name.removeprefix("./")
            if any(name == n or name.startswith(n + "/") for n in names):
                continue
            out.addfile(member, base.extractfile(member) if member.isreg() else None)
        for info, data in entries:
            out.addfile(info, data)


main()
