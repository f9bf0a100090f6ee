#!/usr/bin/env bats
# Restart policies over the engine's ends, and how containers end: codes, signals, input, removal.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() {
  MOSSD_PID=$(cat "$MOSS_DIR/mossd.pid")
  stop_engine
}
setup() { begin; }
teardown() { finish; }

status_of() { api "$@" | tail -n 1; }
restarts() { moss inspect "$1" | jq -r '.[0].RestartCount'; }
restarted() { [ "$(restarts "$1")" -ge "$2" ]; }
exit_code() { moss inspect "$1" | jq -r '.[0].State.ExitCode'; }
is_restarting() { [ "$(state "$1")" = restarting ]; }
next_engine() {
  halt_engine
  spawn_engine
}
# crash_engine: kill -9 of the engine that answers; the supervisor starts the next one.
crash_engine() {
  local engine
  engine=$(inner_pid)
  kill -KILL "$engine"
  eventually 20 ended "$engine"
  eventually 20 ping_ok
}

@test "what a user stopped stays down with unless-stopped and comes back with always, over the engine's end" {
  local kept=() name policy how
  for policy in always unless-stopped; do
    for how in stop kill run; do
      name=$(unique "$policy-$how")
      kept+=("$name")
      moss run -d --name "$name" --restart "$policy" busybox sh -c 'trap "exit 1" TERM; while :; do sleep 0.05; done'
      case $how in
        stop) moss stop -t 0 "$name" ;;
        kill) moss kill "$name" && eventually 10 is_exited "$name" ;;
      esac
    done
  done
  next_engine
  for name in "${kept[@]}"; do
    case $name in
      always-* | unless-stopped-run-*) eventually 20 is_running "$name" ;;
      *) is_exited "$name" ;;
    esac
  done
  moss rm -f "${kept[@]}"
}

@test "a crash of the engine is no stop: nothing starts twice, who waits for a restart gets it" {
  name=$(unique looping)
  steady=$(unique steady)
  moss run -d --name "$steady" --restart always busybox sleep 1000
  moss run -d --name "$name" --restart always busybox sh -c 'exit 4'
  eventually 20 restarted "$name" 4
  pid=$(pid_of "$steady")
  count=$(restarts "$name")
  crash_engine
  expect equal "$(pid_of "$steady")" "$pid"
  eventually 20 restarted "$name" $((count + 1))
  moss rm -f "$name" "$steady"
}

@test "wait answers at the next end of a container that is restarted" {
  for policy in always unless-stopped on-failure; do
    name=$(unique "$policy")
    moss run -d --name "$name" --restart "$policy" -v "$BATS_TEST_TMPDIR:/on:ro" busybox \
      sh -c "until [ -e /on/$policy ]; do sleep 0.05; done; exit 6"
    moss wait "$name" >"$BATS_TEST_TMPDIR/code" &
    waiting=$!
    : >"$BATS_TEST_TMPDIR/$policy"
    wait "$waiting"
    expect equal "$(<"$BATS_TEST_TMPDIR/code")" 6
    eventually 20 restarted "$name" 5 # now it waits between two runs most of the time
    eventually 20 is_restarting "$name"
    expect equal "$(dock wait "$name")" 6
    moss rm -f "$name"
  done
}

@test "on-failure counts its retries over a crash of the engine" {
  name=$(unique counted)
  moss run -d --name "$name" --restart on-failure:6 busybox sh -c 'exit 5'
  eventually 20 restarted "$name" 3
  crash_engine
  eventually 30 is_exited "$name"
  expect equal "$(restarts "$name")" 6
  expect equal "$(exit_code "$name")" 5
  moss rm "$name"
}

@test "stop, kill, forced removal and update end a restart loop for good" {
  for how in stop kill rm update; do
    name=$(unique "$how")
    moss run -d --name "$name" --restart always busybox sh -c 'exit 1'
    eventually 20 restarted "$name" 3
    case $how in
      stop) moss stop "$name" ;;
      kill) eventually 20 is_restarting "$name" && moss kill "$name" ;;
      rm) moss rm -f "$name" && expect equal "$(status_of GET "/containers/$name/json")" 404 && continue ;;
      update) api POST "/containers/$name/update" '{"RestartPolicy":{"Name":"no"}}' >/dev/null ;;
    esac
    eventually 10 is_exited "$name"
    count=$(restarts "$name")
    sleep 1 # longer than the delay that was under way
    is_exited "$name"
    expect equal "$(restarts "$name")" "$count"
    moss rm "$name"
  done
}

@test "restart of what waits for its restart is a new start" {
  name=$(unique again)
  moss run -d --name "$name" --restart always busybox sh -c 'test -e /go && exec sleep 1000; exit 1'
  eventually 20 restarted "$name" 3
  eventually 20 is_restarting "$name"
  : >"$BATS_TEST_TMPDIR/go"
  moss cp "$BATS_TEST_TMPDIR/go" "$name:/go"
  expect equal "$(status_of POST "/containers/$name/restart?t=0")" 204
  is_running "$name"
  expect equal "$(restarts "$name")" 0
  moss rm -f "$name"
}

@test "a kill of the process from outside is no stop by a user" {
  name=$(unique outside)
  moss run -d --name "$name" --restart unless-stopped busybox sleep 1000
  kill -KILL "$(pid_of "$name")"
  eventually 20 restarted "$name" 1
  eventually 20 is_running "$name"
  moss rm -f "$name"
}

@test "the way a container ends is told by its code" {
  name=$(unique code)
  while read -r want command; do
    moss create --name "$name" busybox sh -c "$command" >/dev/null
    moss start "$name" || true
    run moss wait "$name"
    expect output "$want"
    expect equal "$(exit_code "$name")" "$want"
    moss rm "$name"
  done <<'EOT'
0 true
7 exit 7
255 exit 255
EOT
  # The first process ignores what it does not handle, but not what comes from outside its namespace and cannot be.
  for want in 137:KILL 137:9; do
    moss run -d --name "$name" busybox sleep 1000
    moss kill -s TERM "$name"
    is_running "$name"
    moss kill -s "${want#*:}" "$name"
    expect equal "$(exit_code "$name")" "${want%%:*}"
    moss rm "$name"
  done
  moss run -d --name "$name" busybox sleep 1000
  kill -KILL "$(pid_of "$name")"
  run moss wait "$name"
  expect output 137
  moss rm "$name"
  for want in 126:/etc/passwd 127:/no/such; do
    moss create --name "$name" busybox "${want#*:}"
    run moss start "$name"
    [ "$status" != 0 ]
    expect equal "$(exit_code "$name")" "${want%%:*}"
    moss rm "$name"
  done
}

@test "StopSignal is what stop sends, by name or number, and a real-time one" {
  name=$(unique signal)
  for signal in USR1 SIGUSR1 10 SIGRTMIN+3; do
    want=10
    [ "$signal" != SIGRTMIN+3 ] || want=37
    run api POST "/containers/create?name=$name" "{\"Image\":\"busybox\",\"StopSignal\":\"$signal\",\"Cmd\":[\"sh\",\"-c\",\"trap 'exit 9' $want; echo ready; while :; do sleep 0.05; done\"]}"
    expect line -1 201
    moss start "$name"
    eventually 10 log_has "$name" ready
    expect equal "$(status_of POST "/containers/$name/stop?t=20")" 204
    expect equal "$(exit_code "$name")" 9
    moss rm "$name"
  done
}

# bats test_tags=alone
@test "stop and restart take t; a bad one is 400" {
  name=$(unique patience)
  moss run -d --name "$name" busybox sh -c 'trap "" TERM; echo ready; while :; do sleep 0.05; done'
  eventually 10 log_has "$name" ready
  for verb in stop restart; do
    for t in x 1.5 99999999999999999999; do
      run api POST "/containers/$name/$verb?t=$t"
      expect line -1 400
      expect contains "for t"
    done
  done
  is_running "$name"
  begun=$(date +%s)
  expect equal "$(status_of POST "/containers/$name/restart?t=1")" 204
  # Between the two signals there is one second, not the ten that are usual.
  run moss events --since "$begun" --until "$(($(date +%s) + 1))" --filter "container=$name" --filter event=kill --format '{{.TimeNano}}'
  expect equal "${#lines[@]}" 2
  [ $((lines[1] - lines[0])) -lt 8000000000 ] || fail "signals at $output"
  expect equal "$(status_of POST "/containers/$name/stop?t=0")" 204
  expect equal "$(exit_code "$name")" 137
  moss rm "$name"
}

@test "kill takes names and numbers, and 400 for others" {
  name=$(unique kill)
  moss run -d --name "$name" busybox sh -c 'for s in HUP USR1 37; do trap "echo got $s" $s; done; echo ready; while :; do sleep 0.05; done'
  eventually 10 log_has "$name" ready
  for signal in HUP SIGHUP hup 1 USR1 10 SIGRTMIN%2B3 RTMIN%2B3 37; do
    before=$(moss logs "$name" | wc -l)
    more() { [ "$(moss logs "$name" | wc -l)" -gt "$before" ]; }
    expect equal "$(status_of POST "/containers/$name/kill?signal=$signal")" 204
    eventually 10 more
  done
  for signal in 0 -1 65 999 NOPE SIG SIGRTMIN%2B31 RTMAX%2B1 9x; do
    run api POST "/containers/$name/kill?signal=$signal"
    expect line -1 400
    expect contains "signal"
  done
  expect equal "$(status_of POST "/containers/$name/kill?signal=9")" 204
  eventually 10 is_exited "$name"
  run api POST "/v1.24/containers/$name/kill"
  expect line -1 409
  expect equal "$(status_of POST "/v1.18/containers/$name/kill")" 204
  moss rm "$name"
}

@test "StdinOnce: the first client's end is the end of the input" {
  name=$(unique once)
  run api POST "/containers/create?name=$name" '{"Image":"busybox","OpenStdin":true,"StdinOnce":true,"AttachStdin":true,"Cmd":["sh","-c","cat; echo end of input"]}'
  expect line -1 201
  echo hello | moss start -ai "$name" >"$BATS_TEST_TMPDIR/out"
  expect equal "$(cat "$BATS_TEST_TMPDIR/out")" $'hello\nend of input'
  moss rm "$name"
  # Without StdinOnce the input stays open for the next client.
  run api POST "/containers/create?name=$name" '{"Image":"busybox","OpenStdin":true,"Cmd":["sh","-c","cat; echo end of input"]}'
  moss start "$name"
  echo first | "$moss_bin/moss" --host "unix://$MOSS_SOCK" attach "$name" >/dev/null 3>&- &
  client=$!
  eventually 10 log_has "$name" first
  kill -KILL "$client"
  wait "$client" || true
  is_running "$name"
  moss rm -f "$name"
}

@test "the detach keys of start are those of viewers that have none of their own" {
  name=$(unique keys)
  run api POST "/containers/$name/start?detachKeys=ctrl-1"
  expect line -1 400
  expect contains "unknown key"
  moss create --name "$name" -t -i busybox cat
  python3 - "$MOSS_SOCK" "$name" <<'EOT'
import socket, sys, time
def ask(head):
    s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect(sys.argv[1]); s.sendall(head.encode()); return s
name = sys.argv[2]
viewer = ask(f"POST /v1.24/containers/{name}/attach?stream=1&stdin=1&stdout=1 HTTP/1.1\r\nHost: x\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n")
assert b"101" in viewer.recv(4096)
assert b"204" in ask(f"POST /v1.24/containers/{name}/start?detachKeys=ctrl-x,q HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").recv(4096)
viewer.sendall(b"\x10\x11")  # the usual keys are input like any other now
viewer.sendall(b"hi\n")
seen = b""
while b"hi" not in seen: seen += viewer.recv(4096)
viewer.sendall(b"\x18q")
while viewer.recv(4096): pass
EOT
  is_running "$name"
  moss rm -f "$name"
}

@test "AutoRemove takes the container away after its end, however it ends" {
  mkdir "$BATS_TEST_TMPDIR/sign"
  for how in exit stop kill; do
    name=$(unique "auto-$how")
    moss run -d --rm --name "$name" -v "$BATS_TEST_TMPDIR/sign:/sign" busybox \
      sh -c 'trap "exit 0" TERM; while [ ! -e /sign/go ]; do sleep 0.05; done'
    case $how in
      stop) moss stop -t 5 "$name" ;;
      kill) moss kill "$name" ;;
      exit) touch "$BATS_TEST_TMPDIR/sign/go" ;;
    esac
    eventually 10 is_gone "$name"
    rm -f "$BATS_TEST_TMPDIR/sign/go"
  done
}

@test "a container without a restart policy says so, and a wrong policy is 400" {
  for policy in '{"Name":"sometimes"}' '{"Name":"always","MaximumRetryCount":3}' '{"Name":"on-failure","MaximumRetryCount":-1}' '{"Name":5}'; do
    run api POST /containers/create "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":{\"RestartPolicy\":$policy}}"
    expect line -1 400
  done
}
