#!/usr/bin/env bats
# Pause: the processes stand still, whoever ends the container is heard, and the next engine knows. With cgroups the kernel
# freezes them, without it is SIGSTOP to each: everything here holds in both.
# bats file_tags=cgroups-too

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

status_of() { api "$@" | tail -n 1; }

# counter NAME [ARG...]: a container that counts in its log, twenty times a second, with a child that counts in a file.
counter() {
  local name=$1
  shift
  moss run -d --name "$name" "$@" busybox sh -c '
    (i=0; while :; do i=$((i+1)); echo $i >/count; sleep 0.05; done) &
    i=0; while :; do i=$((i+1)); echo tick $i; sleep 0.05; done' >/dev/null
  eventually 10 log_has "$name" "tick 3"
}
ticks() { moss logs "$1" | wc -l; }
ticks_more_than() { [ "$(ticks "$1")" -gt "$2" ]; }
# stands_still NAME: nothing of it moves for half a second. It is a time that must pass: there is no condition to wait for.
stands_still() {
  local before
  before=$(ticks "$1")
  sleep 0.5
  expect equal "$(ticks "$1")" "$before"
}
goes_on() { eventually 10 ticks_more_than "$1" "$(ticks "$1")"; }

@test "a paused container stands still with all its processes, and goes on where it was" {
  name=$(unique frozen)
  counter "$name"
  expect equal "$(status_of POST "/containers/$name/pause")" 204
  expect equal "$(state "$name")" paused
  run bash -c "curl -s --unix-socket '$MOSS_SOCK' http://moss/v1.24/containers/$name/json | jq -c '.State | [.Running, .Paused, .Restarting]'"
  expect output '[true,true,false]'
  run api GET "/v1.24/containers/json?filters=%7B%22status%22%3A%5B%22paused%22%5D%7D"
  expect contains "$name" '(Paused)'
  stands_still "$name"
  expect equal "$(answer_of /info .ContainersPaused)" 1
  expect equal "$(status_of POST "/containers/$name/unpause")" 204
  expect equal "$(state "$name")" running
  goes_on "$name"
  moss rm -f "$name"
}

@test "wrong states are 409, no container is 404" {
  name=$(unique states)
  moss create --name "$name" busybox sleep 1000
  for verb in pause unpause; do
    run api POST "/containers/$name/$verb"
    expect line -1 409
    expect contains "$name"
    expect equal "$(status_of POST "/containers/no-such/$verb")" 404
  done
  moss start "$name"
  run api POST "/containers/$name/unpause"
  expect line -1 409
  expect contains 'is not paused'
  api POST "/containers/$name/pause"
  run api POST "/containers/$name/pause"
  expect line -1 409
  expect contains 'already paused'
  run api POST "/containers/$name/start"
  expect line -1 409
  expect contains unpause
  run api POST "/containers/$name/attach?stream=1&stdout=1"
  expect contains paused
  expect line -1 409
  run api DELETE "/containers/$name"
  expect line -1 409
  moss rm -f "$name"
}

@test "stop of a paused container is heard by its processes" {
  name=$(unique stopped)
  moss run -d --name "$name" busybox sh -c 'trap "echo heard; exit 3" TERM; echo ready; while :; do sleep 0.05; done'
  eventually 10 log_has "$name" ready
  api POST "/containers/$name/pause"
  moss stop -t 20 "$name"
  run moss wait "$name"
  expect output 3
  log_has "$name" heard
  moss rm "$name"
}

@test "kill of a paused container ends it at once; another signal waits for the unpause" {
  name=$(unique killed)
  moss run -d --name "$name" busybox sleep 1000
  api POST "/containers/$name/pause"
  CLIENT_SECONDS=60 moss kill "$name"
  run moss wait "$name"
  expect output 137
  moss rm "$name"
  moss run -d --name "$name" busybox sh -c 'trap "echo got usr1" USR1; echo ready; while :; do sleep 0.05; done'
  eventually 10 log_has "$name" ready
  api POST "/containers/$name/pause"
  moss kill -s USR1 "$name"
  expect equal "$(state "$name")" paused
  run moss logs "$name"
  expect lacks usr1
  api POST "/containers/$name/unpause"
  eventually 10 log_has "$name" usr1
  moss rm -f "$name"
}

@test "restart and forced removal of a paused container" {
  name=$(unique again)
  moss run -d --name "$name" busybox sleep 1000
  api POST "/containers/$name/pause"
  expect equal "$(status_of POST "/containers/$name/restart?t=1")" 204
  expect equal "$(state "$name")" running
  api POST "/containers/$name/pause"
  CLIENT_SECONDS=60 moss rm -f "$name"
  expect equal "$(status_of GET "/containers/$name/json")" 404
}

@test "events tell of pause and unpause" {
  name=$(unique told)
  since=$(date +%s)
  moss run -d --name "$name" busybox sleep 1000
  api POST "/containers/$name/pause"
  api POST "/containers/$name/unpause"
  run moss events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$name"
  expect contains pause unpause
  moss rm -f "$name"
}

@test "the next engine knows who is paused" {
  name=$(unique kept)
  counter "$name"
  api POST "/containers/$name/pause"
  engine=$(inner_pid)
  kill -KILL "$engine"
  eventually 20 ended "$engine"
  eventually 20 ping_ok
  expect equal "$(state "$name")" paused
  stands_still "$name"
  expect equal "$(status_of POST "/containers/$name/unpause")" 204
  goes_on "$name"
  moss rm -f "$name"
}

@test "the engine's end stops a paused container, and its policy starts it again" {
  name=$(unique policy)
  moss run -d --name "$name" --restart always busybox sh -c 'trap "exit 3" TERM; while :; do sleep 0.05; done'
  api POST "/containers/$name/pause"
  halt_engine
  spawn_engine
  eventually 20 is_running "$name"
  moss rm -f "$name"
}

@test "docker pauses and unpauses" {
  name=$(unique docker)
  counter "$name"
  run dock pause "$name"
  expect output "$name"
  run dock ps --filter "name=$name" --format '{{.Status}}'
  expect contains '(Paused)'
  stands_still "$name"
  run dock unpause "$name"
  expect output "$name"
  goes_on "$name"
  dock rm -f "$name"
}
