#!/usr/bin/env bats
# An engine that a user starts from a login session, without a unit: it gets a scope of its own, with limits.

load ../lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

@test "the session itself has no cgroup to divide" {
  run cat /proc/self/cgroup
  expect contains "/session-"
}

@test "the engine runs in a scope below the user's manager" {
  run cat "/proc/$MOSSD_PID/cgroup"
  expect matches "/user@$(id -u).service/.*/moss-[0-9a-f]{8}-$MOSSD_PID.scope/daemon$"
}

@test "limits apply" {
  run moss run --rm -m 32m --pids-limit 10 --cpus 0.5 busybox sh -c 'cd /sys/fs/cgroup; cat memory.max pids.max cpu.max'
  expect status 0
  expect output $'33554432\n10\n50000 100000'
  name=$(unique oom)
  run moss run --name "$name" -m 16m busybox sh -c 'tail /dev/zero'
  expect status 137
  run api GET "/containers/$name/json"
  expect equal "$(jq .State.OOMKilled <<<"${lines[0]}")" true
  moss rm "$name"
}

@test "the scope goes with the engine" {
  scope=$(sed 's|.*/\(moss-[^/]*\.scope\)/.*|\1|' "/proc/$MOSSD_PID/cgroup")
  run systemctl --user is-active "$scope"
  expect output active
  halt_engine
  scope_gone() { [ "$(systemctl --user is-active "$scope")" = inactive ]; }
  eventually 20 scope_gone
}

@test "the socket unit leaves an engine alone that was started by hand" {
  local units=~/.config/systemd/user u
  mkdir -p $units
  for u in moss.service moss.socket; do sed "s|@BINDIR@|$moss_bin|" "$moss_top/hack/units/$u" >$units/$u; done
  systemctl --user daemon-reload
  "$moss_bin/mossd" --root "$MOSS_DATA/hand" >"$MOSS_DIR/hand.log" 2>&1 3>&- 4>&- &
  by_hand=$!
  sock=$XDG_RUNTIME_DIR/moss/moss.sock
  answers() { [ "$(curl -s --unix-socket "$sock" http://moss/_ping)" = OK ]; }
  eventually 60 answers
  run systemctl --user start moss.socket
  [ "$status" != 0 ]
  answers
  kill $by_hand
  wait $by_hand
  systemctl --user reset-failed moss.socket
  systemctl --user start moss.socket
  [ -S "$sock" ]
  systemctl --user stop moss.socket
  [ ! -e "$sock" ]
  rm $units/moss.*
  systemctl --user daemon-reload
}
