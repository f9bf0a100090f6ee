#!/bin/bash
# bases.sh: makes the images that the corpus of Dockerfiles builds upon, from what this machine has and from Debian's
# packages, and prints where they are. What was made before is kept, until a program or a script is another.
#
#   tests/build/bases.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=bookworm
mkdir -p "$1"
folder=$(cd "$1" && pwd)

box=$(command -v busybox.static || command -v busybox)
key=$({
  cat "$here/bases.py" "$here/bases.sh" "$here/case.py" "$here/cases/real-go.txt" "$here/../lib/moss.bash" "$box"
  go version
  node --version
  npm --version
  /usr/bin/python3 --version
} | sha256sum | cut -c1-16)
out=$folder/bases-$key.tar

if [ ! -e "$folder/debian.tar" ]; then
  "$here/../../hack/debian-sources.sh" $suite | mmdebstrap --quiet --format=tar --variant=apt \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --aptopt='Acquire::Languages "none"' \
    $suite "$folder/debian.part" - >&2
  # Containers have their own devices.
  tar --delete -f "$folder/debian.part" --wildcards './dev/*'
  mv "$folder/debian.part" "$folder/debian.tar"
fi
if [ ! -e "$out" ]; then
  rm -f "$folder"/bases-*.tar
  MOSS_DIR=$(mktemp -d "$folder/box.XXXXXX")
  trap 'rm -rf "$MOSS_DIR" "$out.part"' EXIT
  # shellcheck source=tests/lib/moss.bash
  . "$here/../lib/moss.bash"
  busybox_tar "$MOSS_DIR/busybox.tar"
  python3 "$here/bases.py" "$MOSS_DIR/busybox.tar" "$folder/debian.tar" "$here/cases/real-go.txt" "$out.part"
  chmod 0644 "$out.part" "$folder/debian.tar"
  mv "$out.part" "$out"
fi
echo "$out"
