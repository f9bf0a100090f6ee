#!/usr/bin/env bats
# bats file_tags=alone
# What survives a crash: of the inner engine everything, of the outer one the truth.

load lib/moss
load lib/crash

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

shims() { pgrep -u "$(id -u)" -f "moss-shim run $MOSS_DIR/run/tasks" || true; }
no_shims() { [ -z "$(shims)" ]; }

@test "a container goes on: same process, attachable, its log without a gap, its code kept" {
  name=$(unique on)
  moss run -d -i --name "$name" busybox sh -c '(i=0; while :; do echo $i; i=$((i+1)); sleep 0.01; done) & read x; kill $!; wait; echo "got $x"; exit 33'
  eventually 10 log_has "$name" 20
  before=$(moss inspect "$name" | jq '.[0].State.Pid')
  crash
  expect equal "$(moss inspect "$name" | jq '.[0].State.Pid')" "$before"
  expect equal "$(state "$name")" running
  seen=$(moss logs "$name" | wc -l)
  more() { [ "$(moss logs "$name" | wc -l)" -gt $((seen + 20)) ]; }
  eventually 10 more
  crash
  # An attached client gets what comes from now on, and its input goes in.
  mkfifo "$BATS_TEST_TMPDIR/keys"
  moss attach "$name" <"$BATS_TEST_TMPDIR/keys" >"$BATS_TEST_TMPDIR/attached" 2>&1 3>&- &
  client=$!
  exec 5>"$BATS_TEST_TMPDIR/keys"
  eventually 10 test -s "$BATS_TEST_TMPDIR/attached"
  echo typed >&5
  exec 5>&-
  status=0
  wait $client || status=$?
  expect status 33
  expect --in "$(tail -n 1 "$BATS_TEST_TMPDIR/attached")" output "got typed"
  moss logs "$name" | head -n -1 >"$BATS_TEST_TMPDIR/log"
  diff "$BATS_TEST_TMPDIR/log" <(seq 0 $(($(wc -l <"$BATS_TEST_TMPDIR/log") - 1)))
  expect equal "$(moss inspect "$name" | jq '.[0].State.ExitCode')" 33
  moss rm "$name"
}

# bats test_tags=chance
@test "under load, crashes lose no container, no line and no exit code" {
  seed_chance
  name=$(unique load)
  n=20
  (
    # The client may meet the engine's absence: it tries again, as people do.
    for i in $(seq $n); do
      until moss run -d --name "$name-$i" busybox sh -c "i=0; while [ \$i -lt 400 ]; do echo \$i; i=\$((i+1)); [ \$((i % 20)) != 0 ] || sleep 0.1; done; exit $((100 + i))"; do
        # What it asked for may have been done, or half of it: what has run is not started once more.
        case $(state "$name-$i") in
          running | exited) break ;;
          created) moss start "$name-$i" && break ;;
        esac
        sleep 0.05
      done
    done
  ) >/dev/null 2>&1 3>&- &
  starter=$!
  span=800
  for _ in $(seq "${MOSS_CHANCE_ROUNDS:-5}"); do
    pass_moment
    crash
  done
  wait $starter || true
  for i in $(seq $n); do
    run moss wait "$name-$i"
    expect output $((100 + i))
    moss logs "$name-$i" | diff - <(seq 0 399) || fail "the log of $name-$i differs"
  done
  for i in $(seq $n); do moss rm "$name-$i"; done >/dev/null
  eventually 10 no_shims
}

@test "ends that nobody watched are recorded as they were" {
  name=$(unique unseen)
  for i in 1 2 3; do
    moss run -d --name "$name-$i" busybox sh -c "while [ ! -e /tmp/go ]; do sleep 0.02; done; exit $((50 + i))" >/dev/null
  done
  pids=()
  for i in 1 2 3; do pids+=("$(moss inspect "$name-$i" | jq '.[0].State.Pid')"); done
  old=$(inner_pid)
  supervisor=$(awk '/^PPid/ {print $2}' "/proc/$old/status")
  kill -STOP "$supervisor" # no new engine before the containers have ended
  kill -KILL "$old"
  for p in "${pids[@]}"; do kill -KILL "$p"; done
  for p in "${pids[@]}"; do eventually 10 ended "$p"; done
  kill -CONT "$supervisor"
  eventually 20 another_engine "$old"
  for i in 1 2 3; do
    run moss wait "$name-$i"
    expect output 137
    expect equal "$(moss inspect "$name-$i" | jq -r '.[0].State.Error')" ""
    moss rm "$name-$i"
  done
}

@test "a published port answers across the engine's crash" {
  name=$(unique web)
  moss run -d --name "$name" -p 127.0.0.1::80 busybox httpd -f -h /var/www
  port=$(moss inspect "$name" | jq -r '.[0].NetworkSettings.Ports["80/tcp"][0].HostPort')
  page() { [ "$(curl -s --max-time 60 "http://127.0.0.1:$port/index.html")" = "hello from busybox" ]; }
  eventually 10 page
  crash
  page
  expect equal "$(moss inspect "$name" | jq -r '.[0].NetworkSettings.Ports["80/tcp"][0].HostPort')" "$port"
  moss run --rm busybox true
  moss rm -f "$name"
  run curl -s --max-time 5 "http://127.0.0.1:$port/"
  [ "$status" -ne 0 ] || fail "the port answers after the container's end"
}

@test "restart policies go on with the new engine" {
  name=$(unique policy)
  moss run -d --name "$name" --restart always busybox sh -c 'echo run; sleep 0.2; exit 1'
  crash
  count() { moss logs "$name" | grep -c run; }
  before=$(count)
  more() { [ "$(count)" -gt $((before + 1)) ]; }
  eventually 20 more
  moss rm -f "$name"
}

@test "--rm is kept across a crash" {
  name=$(unique rm)
  moss run -d --rm --name "$name" busybox sleep 1
  crash
  eventually 10 is_gone "$name"
}

@test "moss goes on when its engine is killed: run, logs, events and wait, without a gap" {
  name=$(unique goes)
  out=$BATS_TEST_TMPDIR
  mkdir "$out/sign" # by an exec it would be told of its code after the container is gone
  moss run --rm --name "$name" -v "$out/sign:/sign" busybox \
    sh -c 'i=0; while [ ! -e /sign/end ]; do echo $i; i=$((i+1)); sleep 0.01; done; exit 7' \
    >"$out/run" 2>"$out/said" 3>&- &
  runs=$!
  eventually 10 grep -q '^5$' "$out/run"
  moss logs -f "$name" >"$out/logs" 2>&1 3>&- &
  logs=$!
  moss logs -f --tail 3 "$name" >"$out/tail" 2>&1 3>&- &
  tail=$!
  moss wait "$name" >"$out/wait" 2>&1 3>&- &
  waits=$!
  moss events --filter "container=$name" --format '{{.Action}}' >"$out/events" 2>&1 3>&- &
  events=$!
  for file in logs tail; do eventually 10 test -s "$out/$file"; done
  listens() { moss exec "$name" true && [ -s "$out/events" ]; }
  eventually 10 listens
  crash
  seen=$(wc -l <"$out/run")
  more() { [ "$(wc -l <"$out/run")" -gt $((seen + 20)) ]; }
  eventually 10 more
  crash
  touch "$out/sign/end"
  status=0
  wait $runs || status=$?
  expect status 7
  wait $logs
  wait $tail
  wait $waits
  eventually 10 grep -q destroy "$out/events"
  kill $events
  wait $events || true
  expect equal "$(cat "$out/said")" ""
  expect equal "$(cat "$out/wait")" 7
  last=$(tail -n 1 "$out/run")
  diff "$out/run" <(seq 0 "$last")
  diff "$out/logs" <(seq 0 "$last")
  diff "$out/tail" <(seq "$(head -n 1 "$out/tail")" "$last")
  expect equal "$(grep -c '^die$' "$out/events")" 1
  run moss inspect "$name"
  expect status 1
}

@test "moss says so and ends with 125 where it cannot go on when its engine is killed" {
  name=$(unique says)
  mkfifo "$BATS_TEST_TMPDIR/keys"
  mkdir "$BATS_TEST_TMPDIR/sign"
  moss run --rm -i --name "$name" -v "$BATS_TEST_TMPDIR/sign:/sign" busybox \
    sh -c 'echo begun; while [ ! -e /sign/end ]; do sleep 0.02; done' \
    <"$BATS_TEST_TMPDIR/keys" >"$BATS_TEST_TMPDIR/input" 2>&1 3>&- &
  input=$!
  exec 5>"$BATS_TEST_TMPDIR/keys"
  eventually 10 grep -q begun "$BATS_TEST_TMPDIR/input"
  crash
  eventually 10 grep -q "input on its way to the container may be lost" "$BATS_TEST_TMPDIR/input"
  expect equal "$(state "$name")" running
  touch "$BATS_TEST_TMPDIR/sign/end"
  status=0
  wait $input || status=$?
  exec 5>&-
  expect status 125
  run moss inspect "$name"
  expect status 1
}

@test "SIGHUP hands over to a new engine without a failed container" {
  name=$(unique hup)
  moss run -d --name "$name" busybox sh -c 'i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done'
  before=$(moss inspect "$name" | jq '.[0].State.Pid')
  old=$(inner_pid)
  kill -HUP "$MOSSD_PID"
  eventually 20 another_engine "$old"
  expect equal "$(moss inspect "$name" | jq '.[0].State.Pid')" "$before"
  moss stop -t 0 "$name"
  moss logs "$name" >"$BATS_TEST_TMPDIR/log"
  diff "$BATS_TEST_TMPDIR/log" <(seq 0 $(($(wc -l <"$BATS_TEST_TMPDIR/log") - 1)))
  moss rm "$name"
}

@test "kill -9 of a shim ends its container, and the record says so" {
  name=$(unique shim)
  moss run -d --name "$name" busybox sleep 1000
  pid=$(moss inspect "$name" | jq '.[0].State.Pid')
  kill -KILL "$(awk '/^PPid/ {print $2}' "/proc/$pid/status")"
  eventually 10 is_exited "$name"
  eventually 10 ended "$pid"
  record=$(moss inspect "$name" | jq -c '.[0].State')
  expect equal "$(jq .ExitCode <<<"$record")" 137
  expect --in "$(jq -r .Error <<<"$record")" matches .
  moss start "$name"
  is_running "$name"
  moss rm -f "$name"
}

@test "kill -9 of the outer engine: shims end, the next start tells the truth, policies apply" {
  name=$(unique outer)
  moss run -d --name "$name" busybox sleep 1000
  moss run -d --name "$name-always" --restart always busybox sleep 1000
  pid=$(moss inspect "$name" | jq '.[0].State.Pid')
  kill -KILL "$MOSSD_PID"
  eventually 5 ended "$MOSSD_PID"
  eventually 10 no_shims
  eventually 5 ended "$pid"
  spawn_engine
  expect equal "$(state "$name")" exited
  record=$(moss inspect "$name" | jq -c '.[0].State')
  [ "$(jq .ExitCode <<<"$record")" != 0 ] || fail "exit code 0: $record"
  eventually 10 is_running "$name-always"
  moss start "$name"
  is_running "$name"
  moss rm -f "$name" "$name-always"
}
