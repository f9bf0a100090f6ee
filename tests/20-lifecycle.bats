#!/usr/bin/env bats
# The life of a container: every verb in every state, and the restart policies.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

status_of() { api "$@" | tail -n 1; }
restarts() { moss inspect "$1" | jq -r '.[0].RestartCount'; }
restarted() { [ "$(restarts "$1")" -ge "$2" ]; }

@test "create makes a container that start runs" {
  name=$(unique made)
  run moss create --name "$name" busybox sh -c 'echo ran; exit 4'
  expect status 0
  expect matches '^[0-9a-f]{64}$'
  expect equal "$(state "$name")" created
  run moss start -a "$name"
  expect status 4
  expect output ran
  expect equal "$(state "$name")" exited
  moss rm "$name"
}

@test "start of a running and stop of a stopped container are 304" {
  name=$(unique twice)
  moss run -d --name "$name" busybox sleep 1000
  expect equal "$(status_of POST "/containers/$name/start")" 304
  expect equal "$(status_of POST "/containers/$name/stop?t=0")" 204
  expect equal "$(status_of POST "/containers/$name/stop?t=0")" 304
  moss rm "$name"
}

@test "verbs on what does not exist are 404, on the wrong state 409" {
  for verb in start stop restart kill wait rename\?name=x attach resize\?h=1\&w=1; do
    run api POST "/containers/no-such-container/$verb"
    expect line -1 404
    expect contains no-such-container
  done
  name=$(unique rest)
  moss create --name "$name" busybox true
  run api POST "/containers/$name/kill"
  expect line -1 409
  expect contains "$name" "not running"
  moss rm "$name"
}

@test "stop sends the stop signal first and kills what does not listen" {
  name=$(unique deaf)
  moss run -d --name "$name" busybox sh -c 'trap "exit 3" TERM; echo ready; while :; do sleep 0.05; done'
  eventually 10 log_has "$name" ready
  moss stop -t 20 "$name"
  run moss wait "$name"
  expect output 3
  moss rm "$name"
  moss run -d --name "$name" --stop-signal USR1 busybox sh -c 'trap "exit 5" USR1; echo ready; while :; do sleep 0.05; done'
  eventually 10 log_has "$name" ready
  moss stop -t 20 "$name"
  run moss wait "$name"
  expect output 5
  moss rm "$name"
  moss run -d --name "$name" busybox sh -c 'trap "" TERM; echo ready; while :; do sleep 0.05; done'
  eventually 10 log_has "$name" ready
  moss stop -t 1 "$name"
  run moss wait "$name"
  expect output 137
  moss rm "$name"
}

@test "a stop with less time, and rm -f, do not wait for a stop that gives the container long" {
  for end in "stop -t 1" "rm -f"; do
    name=$(unique deaf)
    moss run -d --name "$name" --stop-timeout 1000 busybox sh -c "trap '' TERM; echo ready; sleep 1000 & wait; wait"
    eventually 10 log_has "$name" ready
    moss stop "$name" 3>&- &
    stop=$!
    killed() { [[ $(api GET "/events?since=0&until=$EPOCHSECONDS&filters=%7B%22container%22%3A%5B%22$name%22%5D%2C%22event%22%3A%5B%22kill%22%5D%7D") == *'"signal":"15"'* ]]; }
    eventually 20 killed
    # shellcheck disable=SC2086 # two words
    CLIENT_SECONDS=60 moss $end "$name"
    wait $stop
  done
}

@test "kill sends any signal, by name or number; an unknown one is 400" {
  name=$(unique kill)
  moss run -d --name "$name" busybox sh -c 'trap "echo hup" HUP; trap "exit 6" 12; echo ready; while :; do sleep 0.05; done'
  eventually 10 log_has "$name" ready
  moss kill -s HUP "$name"
  eventually 10 log_has "$name" hup
  expect equal "$(status_of POST "/containers/$name/kill?signal=NOPE")" 400
  expect equal "$(status_of POST "/containers/$name/kill?signal=12")" 204
  run moss wait "$name"
  expect output 6
  moss rm "$name"
}

@test "wait blocks until the end and gives the code to all who wait" {
  name=$(unique wait)
  moss run -d --name "$name" busybox sh -c 'trap "exit 8" TERM; echo ready; while :; do sleep 0.05; done'
  eventually 10 log_has "$name" ready
  waiters=()
  for i in 1 2 3; do
    moss wait "$name" >"$BATS_TEST_TMPDIR/$i" 3>&- &
    waiters+=($!)
  done
  moss kill -s TERM "$name"
  wait "${waiters[@]}"
  for i in 1 2 3; do expect equal "$(cat "$BATS_TEST_TMPDIR/$i")" 8; done
  moss rm "$name"
}

@test "start again keeps the files; restart counts as a new start" {
  name=$(unique again)
  moss run --name "$name" busybox sh -c 'echo x >>/count; wc -l </count'
  run moss start -a "$name"
  expect output 2
  moss restart "$name"
  eventually 10 is_exited "$name"
  run moss logs "$name"
  expect output $'1\n2\n3'
  moss rm "$name"
}

@test "restart of a running container gives it a new process" {
  name=$(unique re)
  moss run -d --name "$name" busybox sleep 1000
  before=$(pid_of "$name")
  moss restart -t 0 "$name"
  is_running "$name"
  after=$(pid_of "$name")
  [ "$before" != "$after" ] || fail "the same process runs"
  moss rm -f "$name"
}

@test "rename: the new name finds it, the old one is free" {
  name=$(unique old)
  moss run -d --name "$name" busybox sleep 1000
  moss rename "$name" "$name-new"
  expect equal "$(status_of GET "/containers/$name/json")" 404
  expect equal "$(moss inspect "$name-new" | jq -r '.[0].Name')" "/$name-new"
  moss create --name "$name" busybox true
  expect equal "$(status_of POST "/containers/$name/rename?name=$name-new")" 409
  expect equal "$(status_of POST "/containers/$name/rename?name=not%20a%20name")" 400
  moss rm -f "$name" "$name-new"
}

@test "a running container is removed by force only" {
  name=$(unique run)
  moss run -d --name "$name" busybox sleep 1000
  expect equal "$(status_of DELETE "/containers/$name")" 409
  expect equal "$(status_of DELETE "/containers/$name?force=1")" 204
  is_gone "$name"
}

@test "a container is found by name, id and the id's beginning" {
  name=$(unique find)
  id=$(moss create --name "$name" busybox true)
  for ref in "$name" "/$name" "$id" "${id:0:12}"; do
    expect equal "$(moss inspect "$ref" | jq -r '.[0].Id')" "$id"
  done
  moss rm "${id:0:12}"
}

@test "ps shows the running, -a all, and filters choose" {
  name=$(unique ps)
  moss run -d --name "$name-up" --label "set=$name" busybox sleep 1000
  moss run --name "$name-down" --label "set=$name" busybox sh -c 'exit 6' || true
  run moss ps
  expect contains "$name-up" Up
  expect lacks "$name-down"
  run moss ps -a
  expect contains "$name-up" "$name-down" "Exited (6)"
  run moss ps -a --filter exited=6 --filter "label=set=$name" --format '{{.Names}}'
  expect output "$name-down"
  run moss ps -aq --no-trunc --filter "name=$name-up"
  expect matches '^[0-9a-f]{64}$'
  moss rm -f "$name-up" "$name-down"
}

@test "restart policy always: it starts again until somebody stops it" {
  name=$(unique always)
  moss run -d --name "$name" --restart always busybox sh -c 'exit 1'
  eventually 10 restarted "$name" 2
  moss stop -t 0 "$name"
  expect equal "$(state "$name")" exited
  count=$(restarts "$name")
  moss start "$name"
  eventually 10 restarted "$name" 1
  moss rm -f "$name"
  is_gone "$name"
  [ "$count" -ge 2 ]
}

@test "restart policy on-failure: as often as allowed, and not after a success" {
  name=$(unique failing)
  moss run -d --name "$name" --restart on-failure:2 busybox sh -c 'echo run; exit 9'
  settled() { [ "$(restarts "$name")" = 2 ] && is_exited "$name"; }
  eventually 10 settled
  expect equal "$(moss logs "$name" | wc -l)" 3
  expect equal "$(moss inspect "$name" | jq '.[0].State.ExitCode')" 9
  moss rm "$name"
  moss run -d --name "$name" --restart on-failure busybox true
  eventually 10 is_exited "$name"
  expect equal "$(restarts "$name")" 0
  moss rm "$name"
}

@test "events tell the life of a container in order" {
  name=$(unique ev)
  since=$(date +%s)
  moss run --name "$name" busybox true
  moss rm "$name"
  run moss events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$name" --format '{{.Status}}'
  expect status 0
  expect --in "$(grep -xE 'create|start|die|destroy' <<<"$output" | tr '\n' ' ')" output "create start die destroy "
}

@test "inspect shows what create was told" {
  name=$(unique told)
  moss create --name "$name" -e A=1 -w /tmp -l k=v -p 127.0.0.1:0:99 --restart on-failure:3 -h box busybox sleep 5
  record=$(moss inspect "$name" | jq '.[0]')
  expect equal "$(jq -r .Path <<<"$record")" sleep
  expect equal "$(jq -c .Args <<<"$record")" '["5"]'
  expect equal "$(jq -r .Config.WorkingDir <<<"$record")" /tmp
  expect equal "$(jq -r .Config.Hostname <<<"$record")" box
  expect equal "$(jq -r .Config.Labels.k <<<"$record")" v
  expect --in "$(jq -c .Config.Env <<<"$record")" contains '"A=1"'
  expect equal "$(jq -r .HostConfig.RestartPolicy.MaximumRetryCount <<<"$record")" 3
  expect --in "$(jq -r .Image <<<"$record")" matches '^sha256:[0-9a-f]{64}$'
  moss rm "$name"
}
