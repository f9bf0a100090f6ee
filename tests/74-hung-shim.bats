#!/usr/bin/env bats
# bats file_tags=alone
# Monitors that do not answer, as with a log on a file system that hangs: SIGSTOP stands for that. Nothing waits for them
# for ever, nothing takes their containers for ended, and what ends a container works without them.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() {
  continue_shims
  finish
}

id_of() { moss inspect "$1" | jq -r '.[0].Id'; }
error_of() { moss inspect "$1" | jq -r '.[0].State.Error'; }
# shim_of NAME: the process id of its monitor, which is the parent of its first process.
shim_of() { awk '/^PPid/ {print $2}' "/proc/$(pid_of "$1")/status"; }
# stopped PID: do all its threads stand still? Each stops when it next leaves the kernel.
stopped() { [ "$(awk '/^State/ {print $2}' /proc/"$1"/task/*/status | sort -u)" = T ]; }
# hang NAME: stops its monitor and sets shim to it.
hang() {
  shim=$(shim_of "$1")
  expect --in "$(tr '\0' ' ' <"/proc/$shim/cmdline")" contains moss-shim
  kill -STOP "$shim"
  eventually 5 stopped "$shim"
  echo "$shim" >>"$BATS_TEST_TMPDIR/stopped"
}
# continue_shims: what a failed test leaves stopped would hold up the end of the engine.
continue_shims() {
  [ ! -e "$BATS_TEST_TMPDIR/stopped" ] || xargs -n 1 kill -CONT <"$BATS_TEST_TMPDIR/stopped" 2>/dev/null || true
}
ended_or_dead() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status"; }
says_silent() { [[ $(error_of "$1") == *'monitor does not answer'* ]]; }
says_nothing() { [ -z "$(error_of "$1")" ]; }
status_of() { api "$@" | tail -n 1; }

@test "every request ends with an error that says why, and other containers are not held up" {
  name=$(unique hung) other=$(unique other)
  moss run -d -t --name "$name" busybox sh -c 'while :; do sleep 0.1; done'
  moss run -d --name "$other" busybox sleep 1000
  made=$(api POST "/containers/$name/exec" '{"Cmd":["true"],"AttachStdout":true}' | head -n 1 | jq -r .Id)
  hang "$name"
  # All at once: none waits for another one.
  asked=() clients=()
  ask() {
    api "$@" >"$BATS_TEST_TMPDIR/answer-${#asked[@]}" 3>&- &
    asked+=("$*") clients+=($!)
  }
  ask POST "/exec/$made/start" '{"Detach":true}'
  ask POST "/containers/$name/resize?h=20&w=80"
  ask POST "/containers/$name/attach?stream=1&stdout=1"
  ask POST "/containers/$name/pause"
  ask GET "/containers/$name/stats?stream=0"
  ask GET "/containers/$name/top"
  run moss exec "$name" true
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ] || fail "exec ends with $status"
  expect contains 'monitor does not answer'
  wait "${clients[@]}"
  for i in "${!asked[@]}"; do
    answer=$(cat "$BATS_TEST_TMPDIR/answer-$i")
    [ "${answer##*$'\n'}" = 500 ] || fail "${asked[$i]}:" "$answer"
    expect --in "$answer" contains 'monitor does not answer'
  done
  expect equal "$(state "$name")" running
  eventually 10 says_silent "$name"
  expect --in "$(answer_of "/containers/json" -r ".[] | select(.Names[0] == \"/$name\") | .Status")" contains 'monitor does not answer'
  told() { [ "$(tail -n "+$log_start" "$MOSS_DIR/mossd.log" | grep -c 'monitor of container does not answer')" = 1 ]; }
  eventually 5 told
  moss exec "$other" true
  expect equal "$(api GET "/containers/$other/stats?stream=0" | tail -n 1)" 200
  # What was given up is not done later.
  kill -CONT "$shim"
  eventually 10 says_nothing "$name"
  expect equal "$(state "$name")" running
  moss exec "$name" true
  moss rm -f "$name" "$other"
}

@test "files are read through the process itself" {
  name=$(unique files)
  moss run -d --name "$name" --tmpfs /mem busybox sh -c 'echo here >/mem/f; sleep 1000'
  in_memory() { moss exec "$name" cat /mem/f; }
  eventually 10 in_memory
  hang "$name"
  moss cp "$name:/mem/f" "$BATS_TEST_TMPDIR/f"
  expect equal "$(cat "$BATS_TEST_TMPDIR/f")" here
  moss rm -f "$name"
}

@test "kill, stop and rm -f end the container and its monitor, and nothing else of the user's" {
  for verb in 'kill' 'stop -t 1' 'rm -f'; do
    name=$(unique end)
    moss run -d --name "$name" --restart unless-stopped busybox sh -c 'trap "" TERM; sleep 1000 & while :; do sleep 0.1; done'
    pid=$(pid_of "$name")
    hang "$name"
    # shellcheck disable=SC2086 # words
    moss $verb "$name"
    eventually 5 ended_or_dead "$pid"
    eventually 5 ended_or_dead "$shim"
    if [ "$verb" = 'rm -f' ]; then
      is_gone "$name"
    else
      expect equal "$(state "$name") $(moss inspect "$name" | jq '.[0].State.ExitCode')" "exited 137"
      moss start "$name"
      moss rm -f "$name"
    fi
  done
}

@test "a signal reaches the process once, and the monitor tells of its end when it goes on" {
  name=$(unique signal)
  moss run -d --name "$name" busybox sh -c 'n=0; trap "n=\$((n+1)); echo got \$n" USR1; trap "exit 40" TERM; echo ready; while :; do sleep 0.1; done'
  eventually 10 log_has "$name" ready
  hang "$name"
  moss kill -s USR1 "$name"
  kill -CONT "$shim"
  eventually 10 log_has "$name" "got 1"
  moss exec "$name" true # it has read all that it was asked
  expect --in "$(moss logs "$name")" lacks "got 2"
  hang "$name"
  moss kill -s TERM "$name" || true
  kill -CONT "$shim"
  eventually 10 is_exited "$name"
  expect equal "$(moss inspect "$name" | jq '.[0].State.ExitCode')" 40
  moss rm "$name"
}

@test "the next engine is ready, keeps the state, starts nothing beside it, and takes over when the monitor answers" {
  name=$(unique next) paused=$(unique paused) other=$(unique other)
  moss run -d --name "$name" --restart unless-stopped busybox sh -c 'trap "exit 41" TERM; while :; do sleep 0.1; done'
  moss run -d --name "$paused" busybox sleep 1000
  moss run -d --name "$other" busybox sleep 1000
  made=$(api POST "/containers/$name/exec" '{"Cmd":["sleep","1000"]}' | head -n 1 | jq -r .Id)
  expect equal "$(status_of POST "/exec/$made/start" '{"Detach":true}')" 200
  moss pause "$paused"
  pid=$(pid_of "$name")
  hang "$paused"
  hang "$name"
  crash
  kill -HUP "$MOSSD_PID" # replaced, too
  eventually 20 ping_ok
  expect equal "$(state "$name") $(state "$paused") $(state "$other")" "running paused running"
  expect equal "$(pid_of "$name")" "$pid"
  eventually 10 says_silent "$name"
  moss exec "$other" true
  run moss start "$name"
  kill -0 "$pid"
  expect equal "$(pid_of "$name")" "$pid"
  run moss rm "$name"
  [ "$status" -ne 0 ] || fail "it was removed"
  expect equal "$(pgrep -c -u "$(id -u)" -f "moss-shim run $MOSS_DIR/run/tasks/$(id_of "$name")")" 1
  continue_shims
  eventually 10 says_nothing "$name"
  eventually 10 says_nothing "$paused"
  expect equal "$(state "$name") $(state "$paused")" "running paused"
  exec_runs() { [ "$(answer_of "/exec/$made/json" .Running)" = true ]; }
  eventually 10 exec_runs
  moss unpause "$paused"
  moss exec "$name" true
  moss stop "$name"
  expect equal "$(state "$name") $(moss inspect "$name" | jq '.[0].State.ExitCode')" "exited 41"
  moss rm -f "$name" "$paused" "$other"
}

@test "the next engine ends a container whose monitor does not answer" {
  name=$(unique end)
  moss run -d --name "$name" --restart always busybox sh -c 'trap "" TERM; while :; do sleep 0.1; done'
  pid=$(pid_of "$name")
  hang "$name"
  crash
  moss rm -f "$name"
  is_gone "$name"
  eventually 5 ended_or_dead "$pid"
  eventually 5 ended_or_dead "$shim"
}

@test "the end of a process whose monitor hangs is told with its own code" {
  name=$(unique code)
  moss run -d --name "$name" busybox sh -c 'while [ ! -e /tmp/go ]; do sleep 0.1; done; exit 43'
  pid=$(pid_of "$name")
  hang "$name"
  crash
  touch "/proc/$pid/root/tmp/go" 2>/dev/null || nsenter -t "$pid" -U -m touch /tmp/go
  eventually 10 ended_or_dead "$pid"
  expect equal "$(state "$name")" running
  kill -CONT "$shim"
  run moss wait "$name"
  expect output 43
  moss rm "$name"
}

@test "kill -9 of a monitor that hangs ends its container as ever" {
  name=$(unique killed)
  moss run -d --name "$name" busybox sleep 1000
  pid=$(pid_of "$name")
  hang "$name"
  kill -KILL "$shim"
  eventually 10 is_exited "$name"
  expect equal "$(moss inspect "$name" | jq '.[0].State.ExitCode')" 137
  expect --in "$(error_of "$name")" contains 'shim was killed'
  eventually 5 ended_or_dead "$pid"
  moss rm "$name"
}

@test "the end of the engine ends containers whose monitors hang" {
  name=$(unique last)
  moss run -d --name "$name" --restart unless-stopped busybox sleep 1000
  pid=$(pid_of "$name")
  hang "$name"
  halt_engine
  eventually 5 ended_or_dead "$pid"
  spawn_engine
  eventually 10 is_running "$name"
  moss rm -f "$name"
}
