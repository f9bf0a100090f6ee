#!/usr/bin/env bats
# A disk that hangs below the logs of containers: their monitors wait in the kernel, where not even SIGKILL reaches them. A
# monitor answers then, but tells of no end, since the output of its container has to be in the log before.

load lib/moss

setup_file() {
  start_engine
  import_busybox
  halt_engine
  mkdir "$MOSS_DATA/disk"
  mv "$MOSS_DATA/root/containers" "$MOSS_DATA/disk/"
  mkdir -m 0700 "$MOSS_DATA/root/containers"
  "$moss_top/.cache/bin/attack/hungdisk" "$MOSS_DATA/disk/containers" "$MOSS_DATA/root/containers" >"$MOSS_DATA/disk/said" 2>&1 3>&- &
  echo $! >"$MOSS_DATA/disk/pid"
  eventually 10 file_has "$MOSS_DATA/disk/said" ready
  spawn_engine
}
teardown_file() {
  disk works
  halt_engine
  fusermount3 -u "$MOSS_DATA/root/containers"
  kill "$(cat "$MOSS_DATA/disk/pid")" 2>/dev/null || true # other mount namespaces may have a copy of the mount
  eventually 10 ended "$(cat "$MOSS_DATA/disk/pid")"
  stop_engine
}
setup() { begin; }
teardown() {
  disk works
  finish
}

# disk hangs|works: from now on.
disk() {
  local signal=USR2
  [ "$1" = works ] || signal=USR1
  kill "-$signal" "$(cat "$MOSS_DATA/disk/pid")"
}
exit_code() { moss inspect "$1" | jq '.[0].State.ExitCode'; }
# shim_of NAME: the process id of its monitor, which is the parent of its first process.
shim_of() { awk '/^PPid/ {print $2}' "/proc/$(pid_of "$1")/status"; }
# waits_for_disk PID: has one of its threads begun to?
waits_for_disk() {
  local thread
  for thread in /proc/"$1"/task/*; do
    if grep -qx "thread ${thread##*/} waits" "$MOSS_DATA/disk/said"; then return; fi
  done
  return 1
}
ended_or_dead() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status"; }
# writes NAME: starts a container that writes lines for ever, and ends with 45 on SIGTERM. Sets pid and shim.
writes() {
  moss run -d --name "$1" busybox sh -c 'trap "exit 45" TERM; while :; do echo line; sleep 0.01; done'
  eventually 10 log_has "$1" line
  pid=$(pid_of "$1") shim=$(shim_of "$1")
}
# hang: the disk hangs, and the monitor of the last container has met it.
hang() {
  disk hangs
  eventually 10 waits_for_disk "$shim"
}
# grows NAME: does its log, from what it was at the first call of this test?
grows() {
  local now
  now=$(moss logs "$1" | wc -l)
  : "${had:=$now}"
  [ "$now" -gt "$had" ]
}

@test "what needs no log goes on, what needs it ends with an error, and other containers are not held up" {
  name=$(unique hung) other=$(unique other)
  moss run -d --name "$other" busybox sleep 1000
  writes "$name"
  hang
  expect equal "$(moss exec "$name" echo in)" in
  expect --in "$(moss top "$name")" contains 'sleep'
  expect --in "$(moss logs --tail 1 "$name")" contains line
  moss stats --no-stream "$name"
  moss kill -s WINCH "$name"
  expect --in "$(api POST "/containers/$name/attach?stream=1&stdout=1")" contains 'monitor does not answer' $'\n500'
  expect equal "$(state "$name")" running
  expect equal "$(moss exec "$other" echo in)" in
  expect equal "$(moss run --rm --log-driver none busybox echo ran)" ran
  moss rm -f "$other"
  is_gone "$other"
  disk works
  eventually 10 grows "$name"
  moss exec "$name" true
  moss rm -f "$name"
  eventually 10 ended "$shim"
}

# refuses_removal NAME MONITOR: the disk holds what there is to remove, which is said; the container has ended.
refuses_removal() {
  run moss rm -f "$1"
  expect status 1
  expect contains "the kernel holds its monitor (process $2) in a write to its log"
  expect equal "$(state "$1") $(exit_code "$1")" "exited 137"
}

@test "kill, stop and rm -f end the container, and its monitor goes when the disk does" {
  for verb in kill 'stop -t 1' 'rm -f'; do
    name=$(unique end)
    writes "$name"
    hang
    # shellcheck disable=SC2086 # words
    [ "$verb" = 'rm -f' ] || moss $verb "$name"
    refuses_removal "$name" "$shim"
    eventually 5 ended_or_dead "$pid"
    waits_for_disk "$shim"
    disk works
    eventually 10 ended_or_dead "$shim"
    moss start "$name"
    moss rm -f "$name"
    is_gone "$name"
  done
}

@test "a process that ends meanwhile is told of with its own code when the disk goes on" {
  name=$(unique code)
  moss run -d --name "$name" busybox sh -c "$on_tell; until [ \$told ]; do echo line; sleep 0.01; done; exit 44"
  eventually 10 log_has "$name" line
  pid=$(pid_of "$name") shim=$(shim_of "$name")
  hang
  tell "$name"
  eventually 10 ended_or_dead "$pid"
  expect equal "$(state "$name")" running
  moss wait "$name" >"$BATS_TEST_TMPDIR/code" 3>&- &
  waiting=$!
  disk works
  wait "$waiting"
  expect equal "$(cat "$BATS_TEST_TMPDIR/code")" 44
  moss rm "$name"
}

@test "the next engine is ready, keeps the state and takes over, and ends what it is told to" {
  name=$(unique next) ends=$(unique ends)
  writes "$ends"
  gone=$shim
  writes "$name"
  hang
  eventually 10 waits_for_disk "$gone"
  crash
  expect equal "$(state "$name") $(state "$ends")" "running running"
  expect equal "$(pid_of "$name")" "$pid"
  refuses_removal "$ends" "$gone"
  crash
  refuses_removal "$ends" "$gone"
  disk works
  eventually 10 ended_or_dead "$gone"
  moss rm "$ends"
  is_gone "$ends"
  eventually 10 grows "$name"
  moss stop "$name"
  expect equal "$(state "$name") $(exit_code "$name")" "exited 45"
  moss rm "$name"
}

@test "the engine ends, and the next one starts, while the disk hangs" {
  name=$(unique last)
  writes "$name"
  hang
  halt_engine
  eventually 5 ended_or_dead "$pid"
  spawn_engine
  expect equal "$(state "$name")" exited
  disk works
  eventually 10 ended_or_dead "$shim"
  moss rm -f "$name"
}

# goes_on NAME: does it count further, from what it had at the first call of this test?
goes_on() {
  local now
  now=$(moss exec "$1" cat /tmp/count)
  : "${had:=${now:-0}}"
  [ "${now:-0}" -gt $((had + 200)) ]
}

@test "mode non-blocking: a container whose log hangs goes on, and lines are dropped, counted and told of once" {
  name=$(unique loose)
  moss run -d --name "$name" --log-opt mode=non-blocking --log-opt max-buffer-size=100 busybox \
    sh -c 'trap "exit 45" TERM; i=0; while :; do i=$((i+1)); echo "line $i."; echo $i >/tmp/count; sleep 0.005; done'
  eventually 10 log_has "$name" line
  pid=$(pid_of "$name") shim=$(shim_of "$name")
  hang
  eventually 20 goes_on "$name"
  disk works
  eventually 10 log_has "$name" "line $(moss exec "$name" cat /tmp/count)"
  moss stop "$name"
  expect equal "$(state "$name") $(exit_code "$name")" "exited 45"
  numbers=$(moss logs "$name" | sed -E 's/^line ([0-9]+)\.$/\1/')
  expect equal "$(sort -n <<<"$numbers" | uniq)" "$numbers"
  last=$(tail -n 1 <<<"$numbers")
  dropped=$((last - $(wc -l <<<"$numbers")))
  [ "$dropped" -gt 100 ] || fail "$dropped lines were dropped"
  told=$(grep "lines of output were dropped" "$MOSS_DIR/mossd.log")
  expect equal "$(wc -l <<<"$told")" 1
  expect --in "$told" contains "lines=$dropped"
  moss rm "$name"
}
