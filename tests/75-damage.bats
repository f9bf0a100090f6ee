#!/usr/bin/env bats
# Damaged files of the data folder: whatever became of one, the engine starts, the others are unharmed, and what is damaged
# is named and can be removed. MOSS_DAMAGE=all takes every kind of file with every damage, some five minutes.
# A file that cannot be read lies on a FUSE file system, which needs /dev/fuse and the program fusermount3.
# bats file_tags=long

load lib/moss

setup() {
  folder=$(mktemp -d "${MOSS_TEST_DATA:-/var/tmp}/moss-t.XXXXXX")
  sockets=$(mktemp -d "${XDG_RUNTIME_DIR:-/tmp}/t.XXXXXX")
}
teardown() {
  if [ -n "${served:-}" ]; then show || true; fi
  wipe "$folder"
  rm -rf "$sockets"
}

# damage [ARG]...: damages one file after the other and looks at what that costs.
damage() {
  [ "${MOSS_DAMAGE:-}" = all ] || set -- --part "$@"
  run python3 -B "$BATS_TEST_DIRNAME/attack/damage/damage.py" --jobs 3 "$@" "$moss_bin" "$folder" "$sockets"
  expect status 0
}

# bats test_tags=whole
@test "a damaged file costs what it describes, no more" {
  damage
}

# bats test_tags=whole
@test "a file that the disk cannot read costs what it describes, no more" {
  damage --unreadable "$moss_top/.cache/bin/attack/badsector"
}

# hide FOLDER: the disk cannot read that folder of the data folder any more. show: it can again.
hide() {
  "$moss_top/.cache/bin/attack/badsector" "$MOSS_DATA/disk" "$MOSS_DATA/root" "$1" >"$MOSS_DIR/served" 2>&1 3>&- 4>&- &
  served=$!
  eventually 20 grep -q " $MOSS_DATA/root " /proc/self/mounts
}
show() {
  fusermount3 -u "$MOSS_DATA/root"
  kill "$served" 2>/dev/null || true # whatever made a mount namespace meanwhile has a copy of the mount, and keeps it served
  eventually 10 ended "$served"
  served=
}

@test "a folder of all there is of a kind that the disk cannot list stops the start, which names it; one that can be made anew does not" {
  start_engine --storage-driver fuse-overlayfs # the kernel's overlay writes to no file system of a program
  import_busybox
  name=$(unique kept)
  moss volume create "$name"
  moss create --name "$name" -v "$name:/kept" busybox true
  halt_engine
  mv "$MOSS_DATA/root" "$MOSS_DATA/disk"
  mkdir -m 0700 "$MOSS_DATA/root"
  for top in containers volumes networks storage/overlay storage/overlay-layers storage/overlay-images; do
    hide "$top"
    run timeout 60 "$moss_bin/mossd" --root "$MOSS_DATA/root" --run-dir "$MOSS_DIR/run" --host "unix://$MOSS_SOCK" --storage-driver fuse-overlayfs
    expect status 1
    expect matches "mossd cannot start.*$top.*input/output error"
    show
  done
  for top in build cache events; do
    hide "$top"
    spawn_engine --storage-driver fuse-overlayfs
    [ "$top" = events ] || expect --in "$(moss system check 2>&1 || true)" contains "$MOSS_DATA/root/$top"
    expect equal "$(moss run --rm -v "$name:/kept" busybox echo ran)" ran
    expect equal "$(state "$name")" created
    halt_engine
    show
  done
  rmdir "$MOSS_DATA/root"
  mv "$MOSS_DATA/disk" "$MOSS_DATA/root"
  spawn_engine --storage-driver fuse-overlayfs
  expect equal "$(moss ps -a --format '{{.Names}}')" "$name"
  expect equal "$(moss volume ls -q)" "$name"
  moss rm "$name"
  stop_engine
}
