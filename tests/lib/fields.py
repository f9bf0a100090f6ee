#!/usr/bin/env python3
"""fields.py PREFIX VERSION [OPTIONAL...] <ANSWER

Holds a record of an answer (or a list of them) against docs/fields.tsv and docs/fields-later.tsv: it has the fields that
these have of PREFIX in that version, in their form, and no others. Prints a line for each difference. Null is of every form. OPTIONAL are fields
that may be missing.
"""

import json
import os
import re
import sys

# Where a record holds another one, whose items have a prefix of their own.
HELD = {
    "list.Mounts": "mount",
    "list.NetworkSettings.Networks": "endpoint",
    "inspect.Mounts": "mount",
    "inspect.NetworkSettings.Networks": "endpoint",
    "inspect.Config": "create",
    "inspect.HostConfig": "host",
    "image.ContainerConfig": "create",
    "exec.inspect.Container": "inspect",
    "volumes.Volumes": "volume",
    "stats.network": "stats.networks",
    "stats.precpu_stats": "stats.cpu_stats",
}
# What a body of create has beside the configuration that inspect shows.
BODY_ONLY = ("HostConfig", "NetworkingConfig")


def minor(version):
    return int(version.split(".")[1])


def has(versions, version):
    if versions == "all":
        return True
    since, _, until = versions.partition("-")
    if "-" not in versions:
        until = since
    return (not since or minor(since) <= version) and (not until or version <= minor(until))


def read(path, items):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            columns = line.rstrip("\n").split("\t")
            if len(columns) >= 4 and not line.startswith("# ") and columns[2] != "rule" and columns[3] != "never":
                items[columns[0]] = (columns[1], columns[2], (columns + [""])[3])


def fits(value, kind, note):
    if value is None or kind == "any":
        return True
    if note == "wider":
        return True
    if " or " in kind:
        return any(fits(value, one, "") for one in kind.split(" or ")) or (kind.startswith("bool or") and value in (0, 1))
    of, _, inner = kind.partition(" of ")
    if of == "array":
        return isinstance(value, list) and all(fits(v, inner, "") for v in value)
    if of == "map":
        return isinstance(value, dict) and all(fits(v, inner, "") for v in value.values())
    if kind == "time":
        return isinstance(value, str) and re.match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$", value) is not None
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, {"string": str, "object": dict}[kind])


def records(value):
    """The objects that a field holds, at any depth of lists."""
    if isinstance(value, list):
        return [r for v in value for r in records(v)]
    return [value] if isinstance(value, dict) else []


class Check:
    def __init__(self, items, version, optional):
        self.items, self.version, self.optional, self.findings = items, version, optional, []

    def record(self, value, prefix, at):
        names = {n[len(prefix) + 1 :].split(".")[0] for n in self.items if n.startswith(prefix + ".")}
        for name in sorted(names):
            own = self.items.get(f"{prefix}.{name}")
            there = [self.items[n] for n in self.items if n == f"{prefix}.{name}" or n.startswith(f"{prefix}.{name}.")]
            listed = has(own[0], self.version) if own else any(has(i[0], self.version) for i in there)
            if listed and name not in value and f"{prefix}.{name}" not in self.optional:
                if at.startswith(("inspect.Config", "image.")) and prefix == "create" and name in BODY_ONLY:
                    continue
                self.findings.append(f"{at}.{name}: listed, not there")
        for name, field in value.items():
            self.field(field, f"{prefix}.{name}", f"{at}.{name}", f"{at}.{name}")

    def field(self, value, name, at, outer):
        # What inspect shows in Config beside a body of create is listed there.
        item = self.items.get(name) or self.items.get(outer)
        below = [n for n in self.items if n.startswith(name + ".")]
        if item is None and not below:
            self.findings.append(f"{at}: there, not in the list")
            return
        if item is not None and not has(item[0], self.version) and item[2] != "earlier too":
            other = self.items.get(outer)
            if other is None or not has(other[0], self.version):
                self.findings.append(f"{at}: there, listed for {item[0]}")
        if item is not None and not fits(value, item[1], item[2]):
            self.findings.append(f"{at}: {json.dumps(value)} is no {item[1]}")
        kind = item[1] if item else "object"
        if not kind.endswith("object") and name not in HELD:
            return
        held = HELD.get(name, name)
        if not any(n.startswith(held + ".") for n in self.items):
            return
        inner = list(value.values()) if kind.startswith("map of ") and isinstance(value, dict) else value
        for r in records(inner):
            if kind == "map of array of object" or held != name or below:
                self.record(r, held, at)


def main():
    prefix, version, optional = sys.argv[1], sys.argv[2], sys.argv[3:]
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    items = {}
    for name in "fields.tsv", "fields-later.tsv":
        read(os.path.join(top, "docs", name), items)
    check = Check(items, minor(version), set(optional))
    answer = json.load(sys.stdin)
    found = records(answer)
    if not found:
        check.findings.append(f"{prefix}: no record in the answer")
    for r in found:
        check.record(r, prefix, prefix)
    for line in sorted(set(check.findings)):
        print(f"{version} {line}")


main()
