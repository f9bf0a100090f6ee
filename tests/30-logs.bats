#!/usr/bin/env bats
# What containers write: tail, since, follow, timestamps, rotation.

load lib/moss

setup_file() {
  start_engine
  import_busybox
  moss run --name ten busybox sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; done; echo bad >&2' 3>&- >/dev/null 2>&1
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

@test "logs gives all, in order, both streams apart" {
  run --separate-stderr moss logs ten
  expect status 0
  expect output "$(seq 10)"
  expect equal "$stderr" bad
}

@test "tail counts lines from the end" {
  name=$(unique tail)
  moss run --name "$name" busybox seq 10 >/dev/null
  run moss logs --tail 3 "$name"
  expect output $'8\n9\n10'
  run moss logs --tail 0 "$name"
  expect output ""
  run moss logs --tail 1000 "$name"
  expect output "$(seq 10)"
  run moss logs --tail all "$name"
  expect output "$(seq 10)"
  moss rm "$name"
}

@test "timestamps are RFC 3339 and ascend" {
  run moss logs -t ten
  expect matches '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{9}Z 1$'
  stamps=$(moss logs -t ten 2>/dev/null | cut -d' ' -f1)
  expect equal "$stamps" "$(sort <<<"$stamps")"
}

@test "since leaves out what is older" {
  name=$(unique since)
  moss run -d --name "$name" busybox sh -c 'echo old; sleep 1.2; echo new; sleep 1000'
  eventually 10 log_has "$name" old
  eventually 10 log_has "$name" new
  at=$(moss logs -t "$name" | sed -n '2s/ .*//p')
  run moss logs --since "$at" "$name"
  expect output new
  run api GET "/containers/$name/logs?stdout=1&since=$(($(date +%s) + 100))"
  expect line -1 200
  expect lacks new
  moss rm -f "$name"
}

@test "only the streams that were asked for; none is 400" {
  run api GET "/containers/ten/logs?stderr=1"
  expect line -1 200
  expect contains bad
  expect lacks 10
  run api GET "/containers/ten/logs"
  expect line -1 400
}

@test "follow gives what comes until the end, once" {
  name=$(unique follow)
  moss run -d --name "$name" busybox sh -c 'for i in 1 2 3 4 5; do echo $i; sleep 0.1; done'
  run moss logs -f "$name"
  expect status 0
  expect output "$(seq 5)"
  run moss logs -f --tail 2 "$name"
  expect output $'4\n5'
  moss rm "$name"
}

@test "a follower that leaves costs nothing, one that stays sees a restart's end" {
  name=$(unique leave)
  moss run -d --name "$name" busybox sh -c 'echo hi; sleep 1000'
  "$moss_bin/moss" -H "unix://$MOSS_SOCK" logs -f "$name" >"$BATS_TEST_TMPDIR/out" 3>&- &
  client=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/out" hi
  kill $client
  wait $client || true
  expect equal "$(cat "$BATS_TEST_TMPDIR/out")" hi
  is_running "$name"
  moss rm -f "$name"
}

@test "max-size and max-file bound the log, and what is left is whole" {
  name=$(unique rotate)
  moss run --name "$name" --log-opt max-size=10k --log-opt max-file=3 busybox sh -c 'i=0; while [ $i -lt 2000 ]; do echo line-$i; i=$((i+1)); done' >"$BATS_TEST_TMPDIR/seen"
  expect equal "$(wc -l <"$BATS_TEST_TMPDIR/seen")" 2000
  moss logs "$name" >"$BATS_TEST_TMPDIR/kept"
  n=$(wc -l <"$BATS_TEST_TMPDIR/kept")
  [ "$n" -gt 100 ] && [ "$n" -lt 600 ] || fail "$n lines are left"
  tail -n "$n" "$BATS_TEST_TMPDIR/seen" | diff - "$BATS_TEST_TMPDIR/kept"
  log=$(moss inspect "$name" | jq -r '.[0].LogPath')
  total=$(cat "$log"* | wc -c)
  [ "$total" -le 34000 ] || fail "$total bytes of log"
  files=("$log"*)
  [ ${#files[@]} -le 3 ] || fail "too many files: ${files[*]}"
  moss rm "$name"
  [ ! -e "$log" ] || fail "log files are left"
}

@test "a follower misses nothing while the log rotates" {
  name=$(unique spin)
  moss run -d --name "$name" --log-opt max-size=50k --log-opt max-file=5 busybox sh -c 'i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); [ $((i % 100)) != 0 ] || sleep 0.02; done'
  moss logs -f "$name" >"$BATS_TEST_TMPDIR/seen"
  diff <(seq 0 2999) "$BATS_TEST_TMPDIR/seen"
  moss rm "$name"
}

@test "long lines, lines without an end and bytes that are no text come back as they were" {
  name=$(unique odd)
  moss run --name "$name" busybox sh -c 'head -c 100000 /dev/zero | tr "\0" x; echo; printf "\377\376\001\n"; printf end' >"$BATS_TEST_TMPDIR/seen"
  moss logs "$name" >"$BATS_TEST_TMPDIR/log"
  expect equal "$(head -n 1 "$BATS_TEST_TMPDIR/log" | wc -c)" 100001
  cmp <(head -n 1 "$BATS_TEST_TMPDIR/seen") <(head -n 1 "$BATS_TEST_TMPDIR/log")
  expect equal "$(tail -n 1 "$BATS_TEST_TMPDIR/log")" end
  moss rm "$name"
}

@test "the log driver none keeps nothing and says so" {
  name=$(unique none)
  run moss run --name "$name" --log-driver none busybox echo seen
  expect output seen
  run moss logs "$name"
  [ "$status" -ne 0 ] || fail "logs of the driver none"
  expect contains "does not support reading"
  moss rm "$name"
}

@test "logs of a terminal are what it showed" {
  name=$(unique tty)
  # What a command on a terminal says just before it ends may get lost.
  moss run -d -t --name "$name" busybox sh -c "$on_tell; echo shown; until [ \$told ]; do sleep 0.05; done"
  eventually 10 log_has "$name" shown
  tell "$name"
  eventually 10 is_exited "$name"
  run moss logs "$name"
  expect output $'shown\r'
  moss rm "$name"
}

@test "logs of a container that never ran are empty, of none 404" {
  name=$(unique fresh)
  moss create --name "$name" busybox true
  run moss logs "$name"
  expect status 0
  expect output ""
  moss rm "$name"
  run api GET "/containers/$name/logs?stdout=1"
  expect line -1 404
}

# with_log NAME OPTIONS CMD [MORE]: a container with log options (JSON) and MORE of the body, run to its end.
with_log() {
  run api POST "/v1.24/containers/create?name=$1" \
    "{\"Image\":\"busybox\",\"Cmd\":[\"sh\",\"-c\",$(jq -Rs . <<<"$3")],\"HostConfig\":{\"LogConfig\":{\"Type\":\"json-file\",\"Config\":$2}}${4:-}}"
  expect line -1 201
  moss start "$1" >/dev/null
  moss wait "$1" >/dev/null
}
details() { curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" "http://moss/v${2:-1.24}/containers/$1/logs?stdout=1&details=1" | tr -d '\0\1'; }

@test "log attributes: labels, env and tag go with each line and are shown with details" {
  name=$(unique attrs)
  with_log "$name" '{"labels":"team,none","env":"A","labels-regex":"^com\\.","env-regex":"^Z","tag":"{{.Name}}/{{.ImageName}}"}' 'echo one; echo two' \
    ',"Labels":{"team":"a b","com.x":"1","other":"2"},"Env":["A=1","B=2","ZED=3"]'
  run details "$name"
  expect matches "A=1,ZED=3,com.x=1,tag=$name%2Fbusybox,team=a\+b one$"
  expect matches " two$"
  run details "$name" 1.22
  expect lacks team=
  run moss logs "$name"
  expect output $'one\ntwo'
  run cat "$(moss inspect "$name" | jq -r '.[0].LogPath')"
  expect matches '^\{"log":"one\\n","stream":"stdout","attrs":\{"A":"1","ZED":"3","com.x":"1","tag":"'"$name"'/busybox","team":"a b"\},"time":"[^"]*"\}$'
  run dock logs --details "$name"
  expect contains "team=a+b"
  moss rm "$name"
}

@test "compress packs what is rotated away, and logs reads it" {
  name=$(unique packed)
  with_log "$name" '{"max-size":"100k","max-file":"5","compress":"true"}' 'i=0; while [ $i -lt 4000 ]; do i=$((i+1)); echo line $i; done'
  log=$(moss inspect "$name" | jq -r '.[0].LogPath')
  [ -e "$log.2.gz" ]
  gzip -t "$log.2.gz"
  run moss logs "$name"
  first=${lines[0]#line }
  expect line -1 'line 4000'
  expect equal "${#lines[@]}" $((4001 - first))
  run moss logs --tail 3000 "$name"
  expect line 0 'line 1001'
  run moss logs --tail 2 "$name"
  expect output $'line 3999\nline 4000'
  moss start "$name"
  moss wait "$name"
  run moss logs --tail 1 "$name"
  expect output 'line 4000'
  moss rm "$name"
}

@test "the log driver local: bounded and packed without being asked, and read as others are" {
  name=$(unique local)
  moss run --name "$name" --log-driver local --log-opt max-size=20k --log-opt tag='{{.Name}}' busybox \
    sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i; done' >/dev/null
  run moss logs "$name"
  first=${lines[0]#line }
  expect line -1 'line 3000'
  expect equal "${#lines[@]}" $((3001 - first))
  [ "$first" -gt 1 ] || fail "nothing was rotated away"
  log=$(moss inspect "$name" | jq -r '.[0].LogPath')
  [ -e "$log.4.gz" ] && [ ! -e "$log.5.gz" ] && [ ! -e "$log.5" ]
  expect --in "$(details "$name")" contains "tag=$name line 3000"
  expect equal "$(moss inspect "$name" | jq -c '.[0].HostConfig.LogConfig')" "{\"Config\":{\"max-size\":\"20k\",\"tag\":\"{{.Name}}\"},\"Type\":\"local\"}"
  moss rm "$name"
}

@test "mode non-blocking with a log that keeps up: all is in it, in order, and attach sees each byte once" {
  name=$(unique loose)
  with_log "$name" '{"mode":"non-blocking","max-buffer-size":"8m"}' 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i; done; printf end'
  run moss logs "$name"
  expect equal "${#lines[@]}" 20001
  expect line 0 'line 1'
  expect line -1 end
  expect equal "$(moss logs "$name" | head -n 20000)" "$(seq -f 'line %.0f' 20000)"
  moss rm "$name"
  moss run -d --name "$name" --log-opt mode=non-blocking busybox sh -c 'i=0; until [ -e /end ]; do i=$((i+1)); echo line $i; sleep 0.01; done'
  eventually 10 log_has "$name" "line 3"
  curl -sS --max-time 180 -X POST --unix-socket "$MOSS_SOCK" "http://moss/containers/$name/attach?logs=1&stream=1&stdout=1" >"$BATS_TEST_TMPDIR/seen" &
  eventually 10 grep -qa "line 9" "$BATS_TEST_TMPDIR/seen"
  moss exec "$name" touch /end
  wait $!
  expect equal "$(grep -ao 'line [0-9]*$' "$BATS_TEST_TMPDIR/seen")" "$(moss logs "$name")"
  expect equal "$(moss logs "$name")" "$(seq -f 'line %.0f' "$(moss logs "$name" | wc -l)")"
  moss rm -f "$name"
}

@test "log options that cannot be kept are 400 and named" {
  for pair in 'compress|{"compress":"true"}' 'mode|{"mode":"lazy"}' 'max-buffer-size|{"max-buffer-size":"1m"}' \
    'max-buffer-size|{"mode":"non-blocking","max-buffer-size":"0"}' 'tag|{"tag":"{{.Nope}}"}' \
    'labels-regex|{"labels-regex":"("}' 'max-size|{"max-size":"x"}' 'max-file|{"max-file":"0"}' 'nope|{"nope":"1"}'; do
    run api POST /containers/create "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":{\"LogConfig\":{\"Type\":\"json-file\",\"Config\":${pair#*|}}}}"
    expect line -1 400
    expect contains "${pair%%|*}"
  done
}

@test "tail takes all or a number, and 400 for others" {
  name=$(unique tails)
  moss run --name "$name" busybox sh -c 'echo 1; echo 2; echo 3'
  for pair in all:3 -1:3 0:0 2:2 99:3; do
    run bash -c "curl -sS --unix-socket '$MOSS_SOCK' 'http://moss/containers/$name/logs?stdout=1&tail=${pair%%:*}' | tr -d '\0\1' | grep -c ."
    expect output "${pair#*:}"
  done
  for tail in x 1.5 99999999999999999999; do
    run api GET "/containers/$name/logs?stdout=1&tail=$tail"
    expect line -1 400
    expect contains tail
  done
  moss rm "$name"
}
