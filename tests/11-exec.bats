#!/usr/bin/env bats
# exec: one more process in a container that runs, through the docker command line and the bare API.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() {
  begin
  box=$(unique box)
}
teardown() {
  moss rm -f "$box" >/dev/null 2>&1 || true
  finish
}

# sleeper [ARG...]: a container named $box that waits for its end.
sleeper() { dock run -d --name "$box" "$@" busybox sh -c 'trap "exit 0" TERM; while :; do sleep 0.1; done' >/dev/null; }

# made BODY: makes an exec by the API and prints its id.
made() {
  api POST "/v1.24/containers/$box/exec" "$1" >"$BATS_TEST_TMPDIR/made"
  [ "$(tail -n 1 "$BATS_TEST_TMPDIR/made")" = 201 ] || fail "exec create: $(cat "$BATS_TEST_TMPDIR/made")" || return
  head -n 1 "$BATS_TEST_TMPDIR/made" | jq -re .Id
}

# field ID JQ: a field of what inspect says of an exec.
field() { answer_of "/v1.24/exec/$1/json" -c "$2"; }
is_over() { [ "$(field "$1" .ExitCode)" != null ]; }
is_up() { [ "$(field "$1" .Running)" = true ]; }
# pid_inside SECONDS: the process that sleeps so long in the container.
pid_inside() { dock exec "$box" ps | awk -v s="$1" '$NF == s && /sleep/ { print $1 }'; }

# begin_raw ID BODY INPUT WAIT: starts an exec attached, without an upgrade. Sends INPUT once it runs, ends its side, and
# leaves WAIT seconds later at the latest.
begin_raw() {
  {
    printf 'POST /v1.24/exec/%s/start HTTP/1.1\r\nHost: moss\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' "$1" "${#2}" "$2"
    eventually 10 is_up "$1"
    printf '%b' "$3"
  } | timeout 180 socat -t "$4" - "UNIX-CONNECT:$MOSS_SOCK"
}
status_of() { tail -n 1 <<<"$1"; }

@test "output apart, exit codes, commands that cannot run" {
  sleeper
  run --separate-stderr dock exec "$box" sh -c 'echo out; echo err >&2; exit 7'
  expect status 7
  expect output out
  expect equal "$stderr" err
  run dock exec "$box" true
  expect status 0
  expect output ""
  run -127 dock exec "$box" /no/such/command
  expect contains "/no/such/command"
  run -126 dock exec "$box" /etc/passwd
  run dock exec "$box" sh -c 'kill -TERM $$'
  expect status 143
  run dock exec "$box" sh -c 'kill -KILL $$'
  expect status 137
}

@test "environment, working directory and user are the container's; HOME and TERM the process's" {
  sleeper -e GREETING=hi -w /var/www --hostname named
  run dock exec "$box" sh -c 'echo $GREETING $HOSTNAME $HOME "[$TERM]"; pwd; id -u; tty'
  expect line 0 "hi named /root []"
  expect line 1 /var/www
  expect line 2 0
  expect line 3 "not a tty"
  run dock exec "$box" cat /proc/self/status
  expect matches '^CapEff:\s00000000a80425fb$'
  expect matches '^CapAmb:\s0000000000000000$'
  expect matches '^CapInh:\s0000000000000000$'
  expect matches '^Seccomp:\s2$'
  expect matches '^NoNewPrivs:\s0$'
}

@test "Env and WorkingDir of an exec are its own, at every version; what cannot be is refused" {
  sleeper -e A=1 -e B=2 -w /var/www
  for v in 1.18 1.24; do
    run api POST "/v$v/containers/$box/exec" \
      '{"AttachStdout":true,"Cmd":["sh","-c","echo $A ${B-none} $C; pwd"],"Env":["A=3","B","C=4"],"WorkingDir":"/tmp/"}'
    expect line -1 201
    run api POST "/v$v/exec/$(jq -r .Id <<<"${lines[0]}")/start" '{"Tty":true}'
    expect contains "3 none 4" "/tmp"
  done
  run dock exec "$box" sh -c 'echo $A $B; pwd'
  expect line 0 "1 2"
  expect line 1 /var/www
  for wrong in '"WorkingDir":"rel"' '"WorkingDir":"/proc/1"' '"Env":["=x"]' '"Env":[""]'; do
    run api POST "/v1.24/containers/$box/exec" "{\"Cmd\":[\"true\"],$wrong}"
    expect line -1 500
    expect contains "$(cut -d'"' -f2 <<<"$wrong")"
  done
}

@test "limits, capabilities and no_new_privileges follow the container" {
  sleeper --cap-drop ALL --cap-add CHOWN --ulimit nofile=100:200 --security-opt no-new-privileges --oom-score-adj 345
  run dock exec "$box" sh -c 'ulimit -n; ulimit -Hn; cat /proc/self/oom_score_adj /proc/self/status'
  expect line 0 100
  expect line 1 200
  expect line 2 345
  run dock exec "$box" cat /proc/self/oom_score_adj # the monitor's own has not changed in between
  expect output 345
  parent=$(awk '/^PPid:/ {print $2}' "/proc/$(pid_of "$box")/status")
  expect equal "$(cat "/proc/$parent/oom_score_adj")" "$(cat /proc/self/oom_score_adj)"
  run dock exec "$box" sh -c 'cat /proc/self/status'
  expect matches '^CapEff:\s0000000000000001$'
  expect matches '^NoNewPrivs:\s1$'
}

@test "--privileged has all capabilities, the container stays as it is" {
  sleeper
  last=$(cat /proc/sys/kernel/cap_last_cap)
  all=$(printf '%016x' $(((1 << (last + 1)) - 1)))
  run dock exec --privileged "$box" grep CapEff /proc/self/status
  expect contains "$all"
  run dock exec "$box" grep CapEff /proc/self/status
  expect contains 00000000a80425fb
  run dock exec --privileged "$box" cat /proc/self/status
  expect matches '^CapBnd:\s'"$all"'$'
}

# bats test_tags=subids
@test "--user: names, ids, groups, home" {
  sleeper
  run dock exec -u www "$box" sh -c 'id -u; id -g; id -G; echo $HOME; grep CapEff /proc/self/status'
  expect line 0 33
  expect line 1 33
  expect line 2 "33 50"
  expect line 3 /var/www
  expect contains 0000000000000000
  run dock exec -u www:staff "$box" sh -c 'id -u; id -g; id -G'
  expect line 1 50
  expect line 2 50
  run dock exec -u 1234:5678 "$box" sh -c 'id -u; id -g; echo $HOME'
  expect line 0 1234
  expect line 1 5678
  expect line 2 /
}

@test "--user: one that is not there is told, and gives 126" {
  sleeper
  run -126 dock exec -u stranger "$box" true
  expect contains "unable to find user stranger"
  id=$(made '{"Cmd":["true"],"User":"stranger"}')
  run api POST "/v1.24/exec/$id/start" '{"Detach":true}'
  expect equal "$(status_of "$output")" 400
  expect equal "$(field "$id" .ExitCode)" 126
  run api POST "/v1.24/containers/$box/exec" '{"Cmd":["true"],"User":"a:b:c"}'
  expect equal "$(status_of "$output")" 500
}

@test "--user follows the container's own files, not the image's, and only inside its root" {
  sleeper
  dock exec "$box" sh -c 'echo late:x:0:0::/tmp: >>/etc/passwd'
  run dock exec -u late "$box" sh -c 'echo $HOME'
  expect output /tmp
  dock exec "$box" sh -c 'mv /etc/passwd /etc/p; ln -s /../../../../etc/p /etc/passwd'
  run dock exec -u late "$box" sh -c 'echo $HOME'
  expect output /tmp
  dock exec "$box" sh -c 'rm /etc/passwd; mkfifo /etc/passwd'
  run dock exec -u late "$box" true
  expect contains "unable to find user late"
  dock exec -u 0 "$box" sh -c 'rm /etc/passwd'
}

@test "stdin goes in byte for byte, 20 MB and back" {
  sleeper
  head -c 20000000 /dev/urandom >"$BATS_TEST_TMPDIR/in"
  dock exec -i "$box" cat <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out"
  cmp "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
  run dock exec -i "$box" sh -c 'cat >/tmp/in; wc -c </tmp/in' <"$BATS_TEST_TMPDIR/in"
  expect output 20000000
  run dock exec "$box" wc -c </dev/null
  expect output 0
}

@test "-it is a terminal of the client's size, without frames" {
  sleeper
  DOCKER_HOST=unix://$MOSS_SOCK run pty_until xterm 40 100 docker exec -it "$box" sh -c 'until stty size | grep "40 100"; do sleep 0.1; done; tty; echo $TERM; read x; exit 4'
  expect status 4
  expect contains "40 100" /dev/pts/ xterm
}

@test "-it can be typed into, detached from with its own keys, and goes on" {
  sleeper
  cat >"$BATS_TEST_TMPDIR/e" <<'EXPECT'
set timeout 120
spawn docker exec -it --detach-keys ctrl-a,d $env(NAME) sh
expect "# "
send "echo \$((6*7))\r"
expect -re "\n42\r"
expect "# "
send "touch /tmp/typed; exec sleep 1000\r"
expect -re "1000\r"
send "\x01d"
expect eof
EXPECT
  DOCKER_HOST=unix://$MOSS_SOCK NAME=$box run timeout 600 expect "$BATS_TEST_TMPDIR/e"
  expect status 0
  run dock exec "$box" ls /tmp/typed
  expect output /tmp/typed
  [ -n "$(pid_inside 1000)" ] || fail "the shell is gone"
}

@test "detach keys that reach the engine end the client's session and publish exec_detach" {
  sleeper
  id=$(made '{"Cmd":["sleep","1001"],"AttachStdin":true,"AttachStdout":true,"Tty":true,"DetachKeys":"ctrl-a,d"}')
  since=$(date +%s)
  begin_raw "$id" '{"Tty":true}' '\001d' 20 >/dev/null
  expect equal "$(field "$id" .Running)" true
  run dock events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$box" --filter event=exec_detach --format '{{.Action}} {{.Actor.ID}}'
  expect contains "exec_detach $(moss inspect "$box" | jq -r '.[0].Id')"
}

@test "-d returns at once; inspect tells the rest" {
  sleeper
  run dock exec -d "$box" sh -c 'sleep 0.3; touch /tmp/done'
  expect status 0
  expect output ""
  eventually 5 dock exec "$box" test -e /tmp/done
  id=$(made '{"Cmd":["sh","-c","while [ ! -e /tmp/go ]; do sleep 0.02; done; exit 5"],"AttachStdout":true,"DetachKeys":"ctrl-x"}')
  expect equal "$(field "$id" '[.ID,.Running,.ExitCode,.CanRemove,.OpenStdin,.OpenStdout,.OpenStderr,.DetachKeys]')" \
    "[\"$id\",false,null,false,false,true,false,\"ctrl-x\"]"
  run api POST "/v1.24/exec/$id/start" '{"Detach":true,"Tty":false}'
  expect equal "$(status_of "$output")" 200
  expect equal "$(field "$id" '[.Running,.ExitCode]')" '[true,null]'
  expect equal "$(dock inspect --format '{{json .ExecIDs}}' "$box")" "[\"$id\"]"
  run api POST "/v1.24/exec/$id/start" '{"Detach":true}'
  expect equal "$(status_of "$output")" 409
  dock exec "$box" touch /tmp/go
  eventually 5 is_over "$id"
  expect equal "$(field "$id" '[.Running,.ExitCode,.CanRemove]')" '[false,5,true]'
  expect equal "$(dock inspect --format '{{json .ExecIDs}}' "$box")" null
  run api POST "/v1.24/exec/$id/start" '{"Detach":true}'
  expect equal "$(status_of "$output")" 409
  expect contains "has already run"
}

@test "inspect by version" {
  sleeper
  id=$(made '{"Cmd":["sh","-c","true"],"Privileged":true,"User":"root","Tty":true,"AttachStdin":true}')
  expect equal "$(field "$id" .ProcessConfig)" '{"arguments":["-c","true"],"entrypoint":"sh","privileged":true,"tty":true,"user":"root"}'
  for version in 1.18 1.21; do
    run jq -r '[(keys|join(" ")), .Container.Name] | join(";")' < <(api GET "/v$version/exec/$id/json" | head -n 1)
    expect output "Container ExitCode ID OpenStderr OpenStdin OpenStdout ProcessConfig Running;/$box"
  done
  for version in 1.22 1.24; do
    run jq -r '[(keys|join(" ")), .ContainerID] | join(";")' < <(api GET "/v$version/exec/$id/json" | head -n 1)
    expect output "CanRemove ContainerID DetachKeys ExitCode ID OpenStderr OpenStdin OpenStdout ProcessConfig Running;$(moss inspect "$box" | jq -r '.[0].Id')"
  done
}

@test "a command as one string; detach keys are of 1.22" {
  sleeper
  id=$(made '{"Cmd":"true"}')
  expect equal "$(field "$id" .ProcessConfig.entrypoint)" '"true"'
  run api POST "/v1.21/containers/$box/exec" '{"Cmd":["true"],"DetachKeys":"nonsense"}'
  expect equal "$(status_of "$output")" 201
  run api POST "/v1.22/containers/$box/exec" '{"Cmd":["true"],"DetachKeys":"nonsense"}'
  expect equal "$(status_of "$output")" 500
}

@test "refusals of create" {
  sleeper
  for body in '{}' '{"Cmd":[]}' '{"Cmd":""}'; do
    run api POST "/v1.24/containers/$box/exec" "$body"
    expect contains "No exec command specified"
    expect equal "$(status_of "$output")" 500
  done
  run api POST "/v1.24/containers/no-such/exec" '{"Cmd":["true"]}'
  expect equal "$(status_of "$output")" 404
  run curl -s -o /dev/null -w '%{http_code}' --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: text/plain' -d '{"Cmd":["true"]}' "http://moss/v1.24/containers/$box/exec"
  expect output 500
  moss stop "$box"
  run api POST "/v1.24/containers/$box/exec" '{"Cmd":["true"]}'
  expect contains "$box is not running"
  expect equal "$(status_of "$output")" 409
}

@test "the start's body: media type, framing, half a command line" {
  sleeper
  start() { curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -X POST "$@"; }
  # shown ID BODY: starts one on a terminal, which waits for a file when it has said hi: what a command on a terminal says just
  # before it ends may get lost.
  shown() {
    rm -f "$BATS_TEST_TMPDIR/got" # of the one before
    start -N -H 'Content-Type: application/json' -d "$2" "http://moss/v1.24/exec/$1/start" >"$BATS_TEST_TMPDIR/got" 3>&- &
    client=$!
    eventually 10 file_has "$BATS_TEST_TMPDIR/got" hi
    dock exec "$box" touch /tmp/go
    wait $client
  }
  id=$(made '{"Cmd":["echo","hi"],"AttachStdout":true}')
  run start -o /dev/null -w '%{http_code}' -H 'Content-Type: text/plain' -d '{}' "http://moss/v1.24/exec/$id/start"
  expect output 500
  start -H 'Content-Type: text/plain' -d '{}' "http://moss/v1.21/exec/$id/start" >"$BATS_TEST_TMPDIR/got"
  expect equal "$(od -An -c "$BATS_TEST_TMPDIR/got" | tr -d ' \n')" '001\0\0\0\0\0\0003hi\n'
  waits='{"Cmd":["sh","-c","echo hi; until [ -e /tmp/go ]; do sleep 0.05; done; rm /tmp/go"],"AttachStdout":true,"Tty":true}'
  shown "$(made "$waits")" '{"Tty":true}'
  expect equal "$(od -An -c "$BATS_TEST_TMPDIR/got" | tr -d ' \n')" 'hi\r\n'
  shown "$(made "$waits")" '{"Tty":false}'
  expect equal "$(od -An -c "$BATS_TEST_TMPDIR/got" | tr -d ' \n')" '001\0\0\0\0\0\0004hi\r\n'
  run start -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' -d '{' "http://moss/v1.24/exec/$id/start"
  expect output 500
}

@test "the head of an attached start: 101 with an upgrade, 200 without" {
  sleeper
  head_of() { # ID HEADERS
    printf 'POST /v1.24/exec/%s/start HTTP/1.1\r\nHost: moss\r\nContent-Type: application/json\r\nContent-Length: 2\r\n%b\r\n{}' "$1" "$2" |
      timeout 180 socat -t 60 - "UNIX-CONNECT:$MOSS_SOCK" | tr -d '\0' | head -n 4 | tr -d '\r'
  }
  id=$(made '{"Cmd":["echo","hi"],"AttachStdout":true}')
  run head_of "$id" 'Connection: Upgrade\r\nUpgrade: tcp\r\n'
  expect line 0 "HTTP/1.1 101 UPGRADED"
  expect line 1 "Content-Type: application/vnd.engine.raw-stream"
  id=$(made '{"Cmd":["echo","hi"],"AttachStdout":true}')
  run head_of "$id" ''
  expect line 0 "HTTP/1.1 200 OK"
  expect line 1 "Content-Type: application/vnd.engine.raw-stream"
}

@test "resize: before the start, while it runs, and where it cannot be" {
  sleeper
  id=$(made '{"Cmd":["sh","-c","trap \"stty size >/tmp/resized\" WINCH; until stty size | grep -v \"^0 0\" >/tmp/size; do :; done; while :; do sleep 0.05; done"],"Tty":true}')
  run api POST "/v1.24/exec/$id/resize?h=31&w=71"
  expect equal "$(status_of "$output")" 201
  api POST "/v1.24/exec/$id/start" '{"Detach":true,"Tty":true}' >/dev/null
  # The runtime sets the first size while the command begins, so that it may see none for a moment.
  eventually 5 dock exec "$box" test -s /tmp/size
  run dock exec "$box" cat /tmp/size
  expect output "31 71"
  run api POST "/v1.24/exec/$id/resize?h=32&w=72"
  expect equal "$(status_of "$output")" 201
  eventually 5 dock exec "$box" grep -qx "32 72" /tmp/resized
  run api POST "/v1.24/exec/$id/resize?h=x&w=72"
  expect equal "$(status_of "$output")" 500
  run api POST "/v1.24/exec/no-such/resize?h=1&w=1"
  expect equal "$(status_of "$output")" 404
  id=$(made '{"Cmd":["true"]}')
  run api POST "/v1.24/exec/$id/resize?h=1&w=1"
  expect equal "$(status_of "$output")" 409
}

@test "unknown instances are 404" {
  for call in "GET /v1.24/exec/nope/json" "POST /v1.24/exec/nope/start {}" "POST /v1.24/exec/nope/resize?h=1&w=1"; do
    # shellcheck disable=SC2086
    run api $call
    expect contains "No such exec instance: nope"
    expect equal "$(status_of "$output")" 404
  done
}

@test "events say what was run" {
  sleeper
  since=$(date +%s)
  dock exec "$box" echo one two
  run dock events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$box" --filter event=exec_create --filter event=exec_start --format '{{.Action}} {{.Actor.Attributes.name}}'
  expect contains "exec_create: echo one two $box" "exec_start: echo one two $box"
}

@test "a client that hangs up leaves the process alone" {
  sleeper
  id=$(made '{"Cmd":["sh","-c","echo here; while [ ! -e /tmp/go ]; do sleep 0.02; done; exit 6"],"AttachStdout":true}')
  begin_raw "$id" '{}' '' 0 >/dev/null
  expect equal "$(field "$id" .Running)" true
  dock exec "$box" touch /tmp/go
  eventually 5 is_over "$id"
  expect equal "$(field "$id" .ExitCode)" 6
}

# bats test_tags=alone
@test "a child that keeps the output open does not keep the client" {
  sleeper
  SECONDS=0
  run dock exec "$box" sh -c 'sleep 100 & echo left'
  expect status 0
  expect output left
  [ $SECONDS -lt 80 ] || fail "it took $SECONDS seconds"
}

@test "a stop of the container ends its execs with 137" {
  sleeper
  pending=$(made '{"Cmd":["true"]}')
  dock exec "$box" sh -c 'touch /tmp/up; trap "" TERM; while :; do sleep 0.1; done' 3>&- &
  client=$!
  eventually 5 dock exec "$box" test -e /tmp/up
  dock stop "$box"
  status=0
  wait $client || status=$?
  expect status 137
  run api GET "/v1.24/exec/$pending/json"
  expect equal "$(status_of "$output")" 404
  run api POST "/v1.24/exec/$pending/start" '{}'
  expect equal "$(status_of "$output")" 404
  dock start "$box"
  run api GET "/v1.24/exec/$pending/json"
  expect equal "$(status_of "$output")" 404
  run dock exec "$box" echo again
  expect output again
}

@test "the removal of the container takes its instances along" {
  sleeper
  id=$(made '{"Cmd":["true"]}')
  api POST "/v1.24/exec/$id/start" '{"Detach":true}' >/dev/null
  eventually 5 is_over "$id"
  dock rm -f "$box"
  for call in "GET /v1.24/exec/$id/json" "POST /v1.24/exec/$id/start {}" "POST /v1.24/exec/$id/resize?h=1&w=1"; do
    # shellcheck disable=SC2086
    run api $call
    expect equal "$(status_of "$output")" 404
  done
}

@test "a paused container takes no execs" {
  sleeper
  id=$(made '{"Cmd":["true"]}')
  dock pause "$box"
  run api POST "/v1.24/containers/$box/exec" '{"Cmd":["true"]}'
  expect contains "is paused, unpause the container before exec"
  expect equal "$(status_of "$output")" 409
  run api POST "/v1.24/exec/$id/start" '{"Detach":true}'
  expect contains "is paused"
  expect equal "$(status_of "$output")" 409
  dock unpause "$box"
  run api POST "/v1.24/exec/$id/start" '{"Detach":true}'
  expect equal "$(status_of "$output")" 200
}

@test "an engine that is killed leaves execs running, and the next one knows them" {
  sleeper
  going=$(made '{"Cmd":["sh","-c","while [ ! -e /tmp/go ]; do sleep 0.02; done; exit 8"]}')
  gone=$(made '{"Cmd":["sh","-c","exit 9"]}')
  meanwhile=$(made '{"Cmd":["sh","-c","while [ ! -e /tmp/soon ]; do sleep 0.01; done; exit 11"]}')
  terminal=$(made '{"Cmd":["sleep","1000"],"Tty":true}')
  for id in "$going" "$gone" "$meanwhile" "$terminal"; do
    api POST "/v1.24/exec/$id/start" '{"Detach":true}' >/dev/null
  done
  eventually 5 is_over "$gone"
  before=$(pid_inside 1000)
  old=$(inner_pid)
  dock exec -d "$box" sh -c 'sleep 0.05; touch /tmp/soon'
  kill -KILL "$old"
  eventually 20 another_engine "$old"
  expect equal "$(field "$going" '[.Running,.ExitCode]')" '[true,null]'
  expect equal "$(field "$gone" '[.Running,.ExitCode]')" '[false,9]'
  eventually 5 is_over "$meanwhile"
  expect equal "$(field "$meanwhile" .ExitCode)" 11
  expect equal "$(pid_inside 1000)" "$before"
  run api POST "/v1.24/exec/$terminal/resize?h=10&w=20"
  expect equal "$(status_of "$output")" 201
  dock exec "$box" touch /tmp/go
  eventually 5 is_over "$going"
  expect equal "$(field "$going" .ExitCode)" 8
  run dock inspect --format '{{json .ExecIDs}}' "$box"
  expect output "[\"$terminal\"]"
}

@test "docker exec whose engine is killed ends with the exit code of its command" {
  sleeper
  dock exec "$box" sh -c 'echo begun; while [ ! -e /tmp/cut ]; do sleep 0.02; done; exit 7' >"$BATS_TEST_TMPDIR/cut" 2>&1 3>&- &
  client=$!
  eventually 10 grep -q begun "$BATS_TEST_TMPDIR/cut"
  crash
  # The client asks once for the exit code; the command runs on until that was asked.
  dock exec "$box" touch /tmp/cut
  status=0
  wait $client || status=$?
  expect status 7
}

@test "moss exec whose engine is killed says that output is lost, with 125" {
  sleeper
  moss exec "$box" sh -c 'echo begun; while [ ! -e /tmp/lost ]; do sleep 0.02; done; exit 7' >"$BATS_TEST_TMPDIR/lost" 2>"$BATS_TEST_TMPDIR/said" 3>&- &
  client=$!
  eventually 10 grep -q begun "$BATS_TEST_TMPDIR/lost"
  crash
  moss exec "$box" touch /tmp/lost
  status=0
  wait $client || status=$?
  expect status 125
  expect --in "$(cat "$BATS_TEST_TMPDIR/said")" contains "the rest of the output is lost; the command has ended with exit code 7"
}

@test "many at once, and nothing is left of them" {
  sleeper
  for i in $(seq 20); do
    dock exec "$box" sh -c "echo $i; exit $i" >"$BATS_TEST_TMPDIR/out.$i" 3>&- &
    clients[i]=$!
  done
  for i in $(seq 20); do
    status=0
    wait "${clients[i]}" || status=$?
    expect status "$i"
    expect equal "$(cat "$BATS_TEST_TMPDIR/out.$i")" "$i"
  done
  run dock exec "$box" sh -c 'ps | grep -c "[e]cho"'
  expect output 0
}
