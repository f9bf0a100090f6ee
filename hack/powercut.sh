#!/bin/bash
# powercut.sh: cuts the power of file systems below a working engine and looks at what the next one finds.
#
#   hack/powercut.sh [--fs xfs,ext4,btrfs] [--rounds N] [--seed S] [--keep]
#
# It needs root, loop devices, docker-registry, and the programs of XFS, ext4 and btrfs; without root or loop devices it says
# so and passes.
# All mounts are in a namespace of its own, and the engine runs as the test user. Every round prints its seed.
# MOSS_BIN names another folder with the programs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "$(id -u)" != 0 ]; then
  echo "powercut: left out: only root can mount file systems"
  exit 0
fi
try=$(mktemp)
truncate -s 1M "$try"
loop=$(losetup --find --show "$try" 2>/dev/null) || loop=
[ -z "$loop" ] || losetup --detach "$loop"
rm -f "$try"
if [ -z "$loop" ]; then
  echo "powercut: left out: no loop device"
  exit 0
fi

CGO_ENABLED=0 go build -trimpath -buildvcs=false -o .cache/bin/powercut ./tests/attack/power
uid=$(hack/as-user.sh id -u)
exec unshare --mount --propagation private -- .cache/bin/powercut -bin "${MOSS_BIN:-$PWD/bin}" -user "$PWD/hack/as-user.sh" -uid "$uid" "$@"
