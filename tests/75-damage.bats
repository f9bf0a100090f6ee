#!/usr/bin/env bats
# Damaged files of the data folder: whatever became of one, the engine starts, the others are unharmed, and what is damaged
# is named and can be removed. MOSS_DAMAGE=all takes every kind of file with every damage, some five minutes.
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

@test "a damaged file costs what it describes, no more" {
  local part=(--part)
  [ "${MOSS_DAMAGE:-}" != all ] || part=()
  run python3 "$BATS_TEST_DIRNAME/attack/damage/damage.py" --jobs 3 "${part[@]}" "$moss_bin" "$folder" "$sockets"
  expect status 0
}
