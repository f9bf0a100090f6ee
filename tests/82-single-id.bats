#!/usr/bin/env bats
# bats file_tags=nosub
# A user without sub-ids: root is the only user there is in containers. With sub-ids the same is reached by hiding
# newuidmap, so that these tests run for every user.

load lib/moss

setup_file() {
  local bin=$moss_bin tool
  if has_subids; then
    mkdir "$BATS_FILE_TMPDIR/bin" "$BATS_FILE_TMPDIR/moss"
    for tool in ip nsenter unshare mount slirp4netns crun runc fuse-overlayfs nft; do
      tool=$(command -v $tool) && ln -s "$tool" "$BATS_FILE_TMPDIR/bin/"
    done
    bin=$BATS_FILE_TMPDIR/moss
    printf '#!/bin/sh\nPATH=%s exec %s/mossd "$@"\n' "$BATS_FILE_TMPDIR/bin" "$moss_bin" >"$bin/mossd"
    chmod 0755 "$bin/mossd"
  fi
  moss_bin=$bin start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

@test "the log and info say that there is a single id, and why" {
  run cat "$MOSS_DIR/mossd.log"
  expect contains "no sub-ids: running with a single id" reason=
  run api GET /info
  expect contains "No subordinate ids: running with a single id ("
}

@test "root runs, and owns what it makes" {
  run moss run --rm busybox sh -c 'id -u; touch /f; stat -c %u:%g /f'
  expect status 0
  expect output $'0\n0:0'
}

@test "another user is refused, and the message says why" {
  for user in 1000 0:1000 www; do
    run moss run --rm -u $user busybox id
    expect status 125
    expect contains "is not supported: the user has no subordinate ids"
  done
  run moss run --rm --group-add 5 busybox id
  expect status 125
  expect contains "GroupAdd [5] is not supported: the user has no subordinate ids"
}

@test "an image with other owners imports and runs; its files are root's" {
  mkdir -p "$BATS_TEST_TMPDIR/t/x"
  echo theirs >"$BATS_TEST_TMPDIR/t/x/file"
  cp "$(command -v busybox.static || command -v busybox)" "$BATS_TEST_TMPDIR/t/x/busybox"
  tar -C "$BATS_TEST_TMPDIR/t" --owner=1234 --group=4321 -cf "$BATS_TEST_TMPDIR/t.tar" x
  image=$(unique owners)
  moss import "$BATS_TEST_TMPDIR/t.tar" "$image"
  run moss run --rm "$image" /x/busybox stat -c '%u:%g' /x/file
  expect output 0:0
  run moss run --rm "$image" /x/busybox cat /x/file
  expect output theirs
  moss rmi "$image"
}
