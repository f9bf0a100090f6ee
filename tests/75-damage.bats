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
  wipe "$folder"
  rm -rf "$sockets"
}

# damage [ARG]...: damages one file after the other and looks at what that costs.
damage() {
  [ "${MOSS_DAMAGE:-}" = all ] || set -- --part "$@"
  run python3 -B "$BATS_TEST_DIRNAME/attack/damage/damage.py" --jobs 3 "$@" "$moss_bin" "$folder" "$sockets"
  expect status 0
}

@test "a damaged file costs what it describes, no more" {
  damage
}

@test "a file that the disk cannot read costs what it describes, no more" {
  damage --unreadable "$moss_top/.cache/bin/attack/badsector"
}
