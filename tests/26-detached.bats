#!/usr/bin/env bats
# The mounts of running containers are in their own mount namespaces alone: however many run, one more starts as fast.

load lib/moss

setup_file() {
  start_engine
  import_busybox
  moss run --rm busybox true # what is made once is made
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

mounts() { awk '{ print $5 }' "/proc/$(inner_pid)/mountinfo" | sort; }
overlays() { grep -c ' - overlay ' "/proc/$(inner_pid)/mountinfo" || true; }
is_overlay() { [ "$(answer_of /info -r .Driver)" = overlay ]; }

# looks NAME: what is read of a running container's layer is there, and what is mounted over it is not.
looks() {
  local dir
  dir=$(mktemp -d "$BATS_TEST_TMPDIR/out.XXXXXX")
  dock export "$1" | tar -tf - >"$dir/list"
  grep -qx data/own "$dir/list" || fail "export lacks data/own"
  ! grep -qE '^(vol|mem)/.' "$dir/list" || fail "export has what is mounted"
  dock cp "$1:/data/own" "$dir/own"
  expect equal "$(cat "$dir/own")" own
  dock cp "$1:/vol/there" "$dir/there"
  expect equal "$(cat "$dir/there")" there
  run dock diff "$1"
  expect contains 'A /data/own'
  expect lacks /vol/there /mem/x
  dock commit "$1" "$1:made" >/dev/null
  expect equal "$(moss run --rm "$1:made" sh -c 'cat /data/own; ls -d /vol /mem 2>/dev/null')" own
  dock rmi "$1:made" >/dev/null
}

begin_one() { # NAME ARG...
  moss run -d --name "$1" -v "$1:/vol" --tmpfs /mem "${@:2}" busybox \
    sh -c 'mkdir -p /data; echo own >/data/own; echo there >/vol/there; echo x >/mem/x; echo ready; exec sleep 1000' >/dev/null
  eventually 10 log_has "$1" ready
}
end_one() {
  moss rm -f "$1" >/dev/null
  api DELETE "/volumes/$1" >/dev/null
}

@test "running containers leave no mounts with the engine, before and after a crash" {
  is_overlay || skip "other drivers keep their mounts"
  name=$(unique many) before=$(mounts)
  for i in 1 2 3 4 5 6; do moss run -d --name "$name-$i" --network none busybox sleep 1000 >/dev/null; done
  expect equal "$(mounts)" "$before"
  crash
  expect equal "$(overlays)" 0
  moss stop -t 0 "$name-1" >/dev/null
  moss start "$name-1" >/dev/null
  expect equal "$(overlays)" 0
  moss exec "$name-1" ls / >/dev/null
  for i in 1 2 3 4 5 6; do moss rm -f "$name-$i" >/dev/null; done
  expect equal "$(mounts)" "$before"
}

@test "export, commit, diff and cp of a running container show its files, and no mount stays" {
  name=$(unique look) before=$(overlays)
  begin_one "$name"
  looks "$name"
  is_overlay && expect equal "$(overlays)" "$before"
  crash
  looks "$name"
  is_overlay && expect equal "$(overlays)" "$before"
  dock cp "$name:/data/own" - | tar -tf - >/dev/null
  moss stop -t 0 "$name" >/dev/null
  expect equal "$(dock cp "$name:/data/own" - | tar -xOf -)" own
  moss start "$name" >/dev/null
  looks "$name"
  end_one "$name"
}

@test "a new engine finds the layers of read-only roots, shared trees and other user namespaces, and they stay writable for the next start" {
  name=$(unique tree)
  mkdir "$BATS_TEST_TMPDIR/bind"
  moss run -d --name "$name-ro" --read-only busybox sleep 1000 >/dev/null
  moss run -d --name "$name-shared" -v "$BATS_TEST_TMPDIR/bind:/b:rshared" busybox sleep 1000 >/dev/null
  moss run -d --name "$name-slave" -v "$BATS_TEST_TMPDIR/bind:/b:rslave" busybox sleep 1000 >/dev/null
  moss run -d --name "$name-keep" --userns keep-id --read-only busybox sleep 1000 >/dev/null
  crash
  for kind in ro shared slave keep; do
    moss exec "$name-$kind" ls /bin/sh >/dev/null
    dock export "$name-$kind" | tar -tf - >"$BATS_TEST_TMPDIR/list"
    grep -qx bin/sh "$BATS_TEST_TMPDIR/list"
    moss stop -t 0 "$name-$kind" >/dev/null
    moss start "$name-$kind" >/dev/null
    moss rm -f "$name-$kind" >/dev/null
  done
}

@test "after a crash, files whose process has left its root are out of reach until it ends, and are not mounted twice" {
  is_overlay || skip "other drivers keep their mounts"
  name=$(unique left)
  moss run -d --name "$name" --privileged busybox sh -c \
    'echo own >/own; mkdir /new; mount -t tmpfs none /new; mkdir /new/old /new/bin; cp /bin/busybox /new/bin/; cd /new; pivot_root . old; /bin/busybox umount -l /old; /bin/busybox echo ready; exec /bin/busybox sleep 1000'
  eventually 10 log_has "$name" ready
  dock export "$name" | tar -tf - >"$BATS_TEST_TMPDIR/list"
  grep -qx own "$BATS_TEST_TMPDIR/list"
  crash
  run dock export -o "$BATS_TEST_TMPDIR/tar" "$name"
  expect status 1
  expect contains "out of reach"
  expect equal "$(overlays)" 0
  moss stop -t 0 "$name" >/dev/null
  dock export "$name" | tar -tf - >"$BATS_TEST_TMPDIR/list"
  grep -qx own "$BATS_TEST_TMPDIR/list"
  moss rm -f "$name" >/dev/null
}
