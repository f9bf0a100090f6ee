#!/usr/bin/env python3
"""make.py KIND [PREFIX]: writes a hostile tar archive to stdout. PREFIX comes before all names.

The kinds are those of KINDS below. Each is small as it comes and large as it would be written.
"""
import binascii
import io
import lzma
import struct
import sys
import tarfile

PREFIX = sys.argv[2] if len(sys.argv) > 2 else ""
CAPS = b"\x01\x00\x00\x02\x00\x20" + bytes(14)  # cap_net_raw=ep


def add(archive, name, kind=tarfile.REGTYPE, link="", **more):
    entry = tarfile.TarInfo(PREFIX + name)
    entry.type, entry.linkname, entry.mtime = kind, link, 1000000000
    entry.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    for key, value in more.items():
        setattr(entry, key, value)
    archive.addfile(entry, io.BytesIO(b""))


def implied(archive):
    """99,800 folders that no entry tells of, in 3.3 kB of gzip."""
    for i in range(200):
        add(archive, f"{i}/" + "a/" * 498 + "f")


def again(archive):
    """The same folders again and again, each time in the place of a file."""
    for _ in range(200):
        add(archive, "r", tarfile.DIRTYPE)
        add(archive, "r/" + "a/" * 490 + "f")
        add(archive, "r")


def links(archive):
    """A chain of links, each of which walks about for 800 names, that every entry goes through."""
    add(archive, "d", tarfile.DIRTYPE)
    for i in range(30):
        add(archive, f"l{i}", tarfile.SYMTYPE, "d/../" * 800 + f"l{i + 1}")
    add(archive, "l30", tarfile.DIRTYPE)
    for i in range(3000):
        add(archive, f"l0/{i}/f")


def targets(archive):
    """The same chain on the way to the targets of hard links."""
    add(archive, "d", tarfile.DIRTYPE)
    for i in range(30):
        add(archive, f"l{i}", tarfile.SYMTYPE, "d/../" * 800 + f"l{i + 1}")
    add(archive, "l30", tarfile.DIRTYPE)
    add(archive, "l30/f")
    for i in range(3000):
        add(archive, f"h{i}", tarfile.LNKTYPE, f"{PREFIX}l0/f")


def loop(archive):
    """Links that lead to each other."""
    add(archive, "a", tarfile.SYMTYPE, "b")
    add(archive, "b", tarfile.SYMTYPE, "a")
    add(archive, "a/f")


def deep(archive):
    """A folder far deeper than a name may say, by links into what was made before."""
    step = "d/" * 400
    add(archive, "l0", tarfile.SYMTYPE, step)
    add(archive, step + "f")
    for i in range(20):
        add(archive, f"l{i}/{step}f")
        add(archive, f"l{i + 1}", tarfile.SYMTYPE, f"l{i}/{step}")


def long(archive):
    """A name that is deeper than any may be."""
    add(archive, "d/" * 600 + "f")


def owners(archive):
    """Programs whose bits mean the privileges of owners that are beyond all sub-ids."""
    for name, uid, gid in ("mine", 0, 0), ("theirs", 4000000, 0), ("their-group", 0, 4000000):
        add(archive, name, mode=0o6755, uid=uid, gid=gid,
            pax_headers={"SCHILY.xattr.security.capability": CAPS.decode("utf-8", "surrogateescape")})


def real(archive):
    """A good archive that lists no folder at all, and goes through a link."""
    add(archive, "lib", tarfile.SYMTYPE, "usr/lib")
    for i in range(2000):
        add(archive, f"usr/lib/{i % 50}/{i}/a/b/c/f")
    for i in range(500):
        add(archive, f"lib/{i % 50}/{i}/a/b/g")


def empty():
    """1,100,000 entries of nothing."""
    entry = tarfile.TarInfo(PREFIX + "0000000").tobuf(tarfile.USTAR_FORMAT)
    at = len(PREFIX)
    total = int(entry[148:154], 8)
    for begin in range(0, 1100000, 1000):
        pieces = []
        for i in range(begin, begin + 1000):
            name = b"%07d" % i
            pieces += (entry[:at], name, entry[at + 7:148], b"%06o\0 " % (total + sum(name) - 7 * 48), entry[156:])
        sys.stdout.buffer.write(b"".join(pieces))
    sys.stdout.buffer.write(bytes(1024))


def xz():
    """A good archive in xz, followed by a second stream whose block asks for a dictionary of 4 GiB."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        add(archive, "f")
    stream = bytearray(lzma.compress(bytes(1 << 16)))
    head = stream[12:12 + (stream[12] + 1) * 4]
    head[head.index(b"\x21\x01") + 2] = 40
    head[-4:] = struct.pack("<I", binascii.crc32(bytes(head[:-4])))
    stream[12:12 + len(head)] = head
    sys.stdout.buffer.write(lzma.compress(plain.getvalue()) + stream)


KINDS = {f.__name__: f for f in (implied, again, links, targets, loop, deep, long, owners, real)}


def main():
    kind = sys.argv[1]
    if kind in ("empty", "xz"):
        {"empty": empty, "xz": xz}[kind]()
        return
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        KINDS[kind](archive)


main()
