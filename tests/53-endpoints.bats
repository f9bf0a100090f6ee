#!/usr/bin/env bats
# The endpoints of containers and exec instances as bytes: every status with its head and body, and the parameters that
# came with later versions.
# bats file_tags=subids

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

# ask METHOD PATH [BODY]: one request. Prints its status and, behind it, media type and length of the answer; the body
# goes to $BATS_TEST_TMPDIR/body.
ask() {
  local args=(-X "$1")
  [ "$1" != HEAD ] || args=(--head)
  [ $# -lt 3 ] || args+=(-H 'Content-Type: application/json' --data-binary "$3")
  curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" "${args[@]}" -o "$BATS_TEST_TMPDIR/body" \
    -w '%{http_code} %{content_type}' "http://moss$2"
}
# answers WANT METHOD PATH [BODY]: such is the answer; WANT is a status, or more of what ask prints.
answers() {
  local want=$1 got
  shift
  got=$(ask "$@")
  [[ $got == "$want"* ]] || fail "$*: got $got, want $want" "$(body)"
}
# talk METHOD PATH HEADERS [BODY [INPUT]]: a request that may take the connection over, with input behind it. The head of
# the answer goes to stdout, what comes behind it to $BATS_TEST_TMPDIR/body, as od -c prints it in one piece.
talk() {
  printf '%s %s HTTP/1.1\r\nHost: moss\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%b\r\n%s%b' "$1" "$2" "${#4}" "$3" "${4:-}" "${5:-}" |
    timeout 180 socat -,ignoreeof "UNIX-CONNECT:$MOSS_SOCK" >"$BATS_TEST_TMPDIR/answer"
  sed '1,/^\r$/d' "$BATS_TEST_TMPDIR/answer" | od -An -c | tr -d ' \n' >"$BATS_TEST_TMPDIR/body"
  sed '/^\r$/,$d' "$BATS_TEST_TMPDIR/answer" | tr -d '\r'
}
upgrade='Connection: Upgrade\r\nUpgrade: tcp\r\n'
made() { # BODY: the id of an exec
  answers 201 POST "/v1.24/containers/$box/exec" "$1" && in_body -re .Id
}
sleeper() { moss run -d --name "$box" "$@" busybox sleep 1000 >/dev/null; }

runs_cat() { [ "$(ask GET "/containers/$box/top" >/dev/null && in_body -r '.Processes[0][7]')" = cat ]; }

@test "404: no endpoint knows a container that is not there, and all say so" {
  while read -r first method path body; do
    for v in "$first" 1.24; do
      answers 404 "$method" "/v$v/$path" ${body:+"$body"}
      [ "$method" = HEAD ] || expect --in "$(body)" contains "No such container: nobody"
    done
  done <<'LIST'
1.18 GET containers/nobody/json
1.18 GET containers/nobody/top
1.18 GET containers/nobody/logs?stdout=1
1.18 GET containers/nobody/changes
1.18 GET containers/nobody/export
1.18 GET containers/nobody/stats
1.18 GET containers/nobody/stats?stream=0
1.18 POST containers/nobody/resize?h=1&w=1
1.18 POST containers/nobody/start
1.18 POST containers/nobody/stop
1.18 POST containers/nobody/restart
1.18 POST containers/nobody/kill
1.22 POST containers/nobody/update {"CpuShares":2}
1.18 POST containers/nobody/rename?name=somebody
1.18 POST containers/nobody/pause
1.18 POST containers/nobody/unpause
1.18 POST containers/nobody/attach?stream=1&stdout=1
1.18 POST containers/nobody/wait
1.18 DELETE containers/nobody
1.18 DELETE containers/nobody?force=1
1.18 POST containers/nobody/copy {"Resource":"/etc"}
1.20 HEAD containers/nobody/archive?path=/
1.20 GET containers/nobody/archive?path=/
1.20 PUT containers/nobody/archive?path=/
1.18 POST commit?container=nobody
1.18 POST containers/nobody/exec {"Cmd":["true"]}
LIST
  for v in 1.18 1.24; do
    for call in "GET exec/nobody/json" "POST exec/nobody/start {}" "POST exec/nobody/resize?h=1&w=1"; do
      read -r method path body <<<"$call"
      answers 404 "$method" "/v$v/$path" ${body:+"$body"}
      expect --in "$(body)" contains "No such exec instance: nobody"
    done
    answers 404 POST "/v$v/containers/create" '{"Image":"no-such-image","Cmd":["true"]}'
    run curl -sS -i --max-time 180 --unix-socket "$MOSS_SOCK" -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
      -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' "http://moss/v$v/containers/nobody/attach/ws?stream=1"
    expect contains "404 Not Found" "No such container: nobody"
  done
}

@test "success: status, media type and body of every endpoint, at the first and the last version" {
  local json="200 application/json"
  for v in 1.18 1.24; do
    answers "201 application/json" POST "/v$v/containers/create?name=$box" '{"Image":"busybox","Cmd":["cat"],"Tty":true,"OpenStdin":true}'
    expect equal "$(in_body -c '[(.Id | length), .Warnings]')" '[64,[]]'
    id=$(in_body -r .Id)
    answers "$json" GET "/v$v/containers/json?all=1"
    expect equal "$(in_body -r '.[0].Id')" "$id"
    answers "$json" GET "/v$v/containers/$box/json"
    expect equal "$(in_body -r .Id)" "$id"
    answers "204 " POST "/v$v/containers/$box/start"
    expect equal "$(body)" ""
    answers "304 " POST "/v$v/containers/$box/start"
    expect equal "$(body)" ""
    eventually 10 runs_cat # the runtime's own process becomes it
    answers "$json" GET "/v$v/containers/$box/top"
    expect equal "$(in_body -c '[.Titles[0], .Titles[7], .Processes[0][7]]')" '["UID","CMD","cat"]'
    answers "$json" GET "/v$v/containers/$box/top?ps_args=-o%20pid,args"
    expect equal "$(in_body -c '[.Titles, .Processes[0][1]]')" '[["PID","COMMAND"],"cat"]'
    answers "200 text/plain" POST "/v$v/containers/$box/resize?h=41&w=102"
    expect equal "$(body)" ""
    run dock exec "$box" stty -F /dev/pts/0 size
    expect output "41 102"
    answers "204 " POST "/v$v/containers/$box/pause"
    answers "204 " POST "/v$v/containers/$box/unpause"
    answers "204 " POST "/v$v/containers/$box/restart?t=0"
    answers "200 application/vnd.engine.raw-stream" GET "/v$v/containers/$box/logs?stdout=1"
    answers "$json" GET "/v$v/containers/$box/changes"
    answers "200 application/octet-stream" GET "/v$v/containers/$box/export"
    expect equal "$(tar tf "$BATS_TEST_TMPDIR/body" | grep -cx '\(\./\)\?bin/busybox')" 1
    answers "200 application/x-tar" POST "/v$v/containers/$box/copy" '{"Resource":"/var/www/index.html"}'
    expect equal "$(tar xOf "$BATS_TEST_TMPDIR/body")" "hello from busybox"
    answers "201 application/json" POST "/v$v/containers/$box/exec" '{"Cmd":["true"],"Tty":true}'
    expect equal "$(in_body -c '[(.Id | length), .Warnings]')" '[64,[]]'
    exec=$(in_body -r .Id)
    answers "$json" GET "/v$v/exec/$exec/json"
    answers "201 " POST "/v$v/exec/$exec/resize?h=1&w=1"
    answers "200 " POST "/v$v/exec/$exec/start" '{"Detach":true}'
    answers "409 " POST "/v$v/exec/$exec/start" '{"Detach":true}'
    answers "204 " POST "/v$v/containers/$box/rename?name=$box-2"
    answers "204 " POST "/v$v/containers/$box-2/rename?name=/$box"
    answers "204 " POST "/v$v/containers/$box/kill"
    answers "$json" POST "/v$v/containers/$box/wait"
    expect equal "$(body)" '{"StatusCode":137}'
    answers "304 " POST "/v$v/containers/$box/stop"
    answers "204 " POST "/v$v/containers/$box/restart"
    answers "204 " POST "/v$v/containers/$box/stop?t=0"
    answers "201 application/json" POST "/v$v/commit?container=$box"
    image=$(in_body -re .Id)
    answers "$json" GET "/v$v/images/$image/json"
    answers "204 " DELETE "/v$v/containers/$box"
    answers 200 DELETE "/v$v/images/$image"
  done
}

@test "attach, logs and exec start: 101 and the stream with an upgrade, 200 and the stream without" {
  moss run --name "$box" busybox echo hi >/dev/null
  frame='001\0\0\0\0\0\0003hi\n'
  for v in 1.18 1.24; do
    for call in "POST /v$v/containers/$box/attach?logs=1&stdout=1" "GET /v$v/containers/$box/logs?stdout=1"; do
      # shellcheck disable=SC2086
      run talk $call "$upgrade"
      expect line 0 "HTTP/1.1 101 UPGRADED"
      expect contains "Content-Type: application/vnd.engine.raw-stream" "Connection: Upgrade" "Upgrade: tcp"
      expect equal "$(body)" "$frame"
      run curl -sS -i --max-time 180 --unix-socket "$MOSS_SOCK" -X "${call%% *}" --output "$BATS_TEST_TMPDIR/answer" "http://moss${call#* }"
      expect equal "$(head -n 1 "$BATS_TEST_TMPDIR/answer")" $'HTTP/1.1 200 OK\r'
      expect equal "$(sed '1,/^\r$/d' "$BATS_TEST_TMPDIR/answer" | od -An -c | tr -d ' \n')" "$frame"
    done
  done
  # A client that ends its own side at once still gets the log.
  printf 'GET /containers/%s/logs?stdout=1 HTTP/1.1\r\nHost: moss\r\n%b\r\n' "$box" "$upgrade" |
    timeout 180 socat -t 60 - "UNIX-CONNECT:$MOSS_SOCK" >"$BATS_TEST_TMPDIR/half"
  expect equal "$(head -n 1 "$BATS_TEST_TMPDIR/half")" $'HTTP/1.1 101 UPGRADED\r'
  expect equal "$(sed '1,/^\r$/d' "$BATS_TEST_TMPDIR/half" | od -An -c | tr -d ' \n')" "$frame"
  moss rm "$box"
  sleeper
  for v in 1.18 1.24; do
    run talk POST "/v$v/exec/$(made '{"Cmd":["echo","hi"],"AttachStdout":true}')/start" "$upgrade" '{}'
    expect line 0 "HTTP/1.1 101 UPGRADED"
    expect contains "Content-Type: application/vnd.engine.raw-stream" "Connection: Upgrade" "Upgrade: tcp"
    expect equal "$(body)" "$frame"
    run talk POST "/v$v/exec/$(made '{"Cmd":["echo","hi"],"AttachStdout":true}')/start" "" '{}'
    expect line 0 "HTTP/1.1 200 OK"
    expect equal "$(body)" "$frame"
  done
}

@test "exec: only the streams that were attached come back, and inspect says which they are" {
  sleeper
  command='["sh","-c","read x; echo out $x; echo err $x >&2; exit 3"]'
  while read -r stdin stdout stderr want; do
    for v in 1.18 1.24; do
      id=$(made "{\"Cmd\":$command,\"AttachStdin\":$stdin,\"AttachStdout\":$stdout,\"AttachStderr\":$stderr}")
      answers 200 GET "/v$v/exec/$id/json"
      expect equal "$(in_body -c '[.OpenStdin, .OpenStdout, .OpenStderr, .Running, .ExitCode]')" "[$stdin,$stdout,$stderr,false,null]"
      run talk POST "/v$v/exec/$id/start" "$upgrade" '{"Detach":false,"Tty":false}' 'in\n'
      # The two streams are apart, so their frames may come in either order.
      expect equal "$(body | sed 's/00[12]/\n&/g' | sort | tr -d '\n')" "$want"
      answers 200 GET "/v$v/exec/$id/json"
      expect equal "$(in_body -c '[.Running, .ExitCode]')" "[false,3]"
    done
  done <<'LIST'
true true true 001\0\0\0\0\0\0\aoutin\n002\0\0\0\0\0\0\aerrin\n
true true false 001\0\0\0\0\0\0\aoutin\n
true false true 002\0\0\0\0\0\0\aerrin\n
false true false 001\0\0\0\0\0\0004out\n
false false false
LIST
}

@test "resize: the terminal has the size at once; without one nothing happens, without a process it is 500" {
  sleeper -t
  for v in 1.18 1.24; do
    answers 200 POST "/v$v/containers/$box/resize?h=${v#1.}&w=99"
    run dock exec "$box" stty -F /dev/pts/0 size
    expect output "${v#1.} 99"
  done
  moss kill "$box"
  answers 500 POST "/containers/$box/resize?h=1&w=1"
  expect --in "$(body)" contains "cannot resize container $box"
  moss rm "$box"
  sleeper
  for v in 1.18 1.24; do
    answers 200 POST "/v$v/containers/$box/resize?h=1&w=1"
  done
  for query in 'h=x&w=1' 'h=1' 'w=1' 'h=-1&w=1' 'h=1&w=65536'; do
    answers 500 POST "/v1.24/containers/$box/resize?$query"
    answers 400 POST "/containers/$box/resize?$query"
  done
}

@test "409: what is taken, runs, stands still or does not run, and nothing of it changes" {
  other=$(unique other)
  sleeper
  moss create --name "$other" busybox true >/dev/null
  id=$(moss inspect "$box" | jq -r '.[0].Id')
  instance=$(made '{"Cmd":["true"]}')
  for v in 1.18 1.24; do
    answers 409 POST "/v$v/containers/create?name=$box" '{"Image":"busybox","Cmd":["true"]}'
    answers 409 POST "/v$v/containers/$other/rename?name=$box"
    answers 409 DELETE "/v$v/containers/$box"
    answers 409 POST "/v$v/containers/$box/unpause"
    answers 409 POST "/v$v/containers/$other/exec" '{"Cmd":["true"]}'
    answers 409 GET "/v$v/containers/$other/top"
    answers 409 POST "/v$v/containers/$other/pause"
    answers 204 POST "/v$v/containers/$box/pause"
    answers 409 POST "/v$v/containers/$box/pause"
    answers 409 POST "/v$v/containers/$box/exec" '{"Cmd":["true"]}'
    expect --in "$(body)" contains paused
    answers 409 POST "/v$v/exec/$instance/start" '{}'
    answers 409 POST "/v$v/containers/$box/start"
    answers 409 POST "/v$v/containers/$box/attach?stream=1&stdout=1"
    answers 409 DELETE "/v$v/containers/$box"
    answers 204 POST "/v$v/containers/$box/unpause"
  done
  expect equal "$(moss inspect "$box" | jq -r '.[0] | .Id, .State.Status')" "$id"$'\nrunning'
  expect equal "$(state "$other")" created
  moss rm "$other"
}

@test "an attach that is refused says so as text in the stream's media type" {
  for v in 1.18 1.23 1.24; do
    answers "404 application/vnd.engine.raw-stream" POST "/v$v/containers/nobody/attach?stream=1"
    expect equal "$(body)" "No such container: nobody"
    run curl -sS -o /dev/null -D - --max-time 180 --unix-socket "$MOSS_SOCK" -X POST "http://moss/v$v/containers/nobody/attach"
    expect contains "X-Fault-Kind: not-found"
  done
}

@test "400: parameters that cannot be read, for every endpoint that knows the status" {
  sleeper -t
  for v in 1.18 1.24; do
    for call in 'GET containers/json?limit=x' 'GET containers/json?filters=%7B' 'GET containers/json?all=%zz' 'POST containers/create?name=-/-' \
      "POST containers/$box/attach?stream=%zz" "DELETE containers/$box?force=%zz" "GET containers/$box/attach/ws?stream=1" \
      "POST containers/$box/kill?signal=NOPE" "POST containers/$box/stop?t=x" "POST containers/$box/rename?name="; do
      answers 400 "${call%% *}" "/v$v/${call#* }" '{"Image":"busybox","Cmd":["true"]}'
    done
    answers 400 POST "/v$v/containers/create"
  done
  for call in "GET containers/$box/archive" "PUT containers/$box/archive?path=" "HEAD containers/$box/archive?path=" "POST containers/$box/attach?detachKeys=ctrl-1" \
    "POST containers/$box/update {\"Memory\":1}"; do
    read -r method path sent <<<"$call"
    answers 400 "$method" "/v1.24/$path" ${sent:+"$sent"}
  done
  is_running "$box"
}

@test "create attaches nothing, whatever it is asked for: never a 406" {
  for v in 1.18 1.24; do
    answers 201 POST "/v$v/containers/create?name=$box" '{"Image":"busybox","Cmd":["true"],"AttachStdin":true,"AttachStdout":true,"AttachStderr":true}'
    moss rm "$box"
  done
}

@test "parameters and endpoints come with their version" {
  moss run -d --name "$box" --label team=red --log-opt labels=team busybox sh -c 'echo line; sleep 1000' >/dev/null
  eventually 10 log_has "$box" line
  logs() { curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" "http://moss/v$1/containers/$box/logs?stdout=1&$2" | tail -c +9; }
  expect equal "$(logs 1.19 since=$((EPOCHSECONDS + 1000)))" line
  expect equal "$(logs 1.20 since=$((EPOCHSECONDS + 1000)))" ""
  expect equal "$(logs 1.23 details=1)" line
  expect equal "$(logs 1.24 details=1)" "team=red line"
  has_size() { ask GET "/v$1/containers/$box/json?size=1" >/dev/null && in_body 'has("SizeRw") and has("SizeRootFs")'; }
  expect equal "$(has_size 1.20) $(has_size 1.21)" "false true"
  run head -n 2 < <(curl -sN --max-time 180 --unix-socket "$MOSS_SOCK" "http://moss/v1.19/containers/$box/stats?stream=0")
  expect equal "$(grep -c memory_stats <<<"$output")" 2
  answers "200 application/json" GET "/v1.20/containers/$box/stats?stream=0"
  expect equal "$(in_body -s 'map(has("precpu_stats"))' -c)" '[true]'
  for pair in 1.21:304 1.22:500; do
    answers "${pair#*:}" POST "/v${pair%:*}/containers/$box/start?detachKeys=nonsense"
  done
  for pair in 1.21:200 1.22:400; do
    answers "${pair#*:}" POST "/v${pair%:*}/containers/$box/attach?logs=1&stdout=1&detachKeys=nonsense"
    answers "$((${pair#*:} == 200 ? 201 : 500))" POST "/v${pair%:*}/containers/$box/exec" '{"Cmd":["true"],"DetachKeys":"nonsense"}'
  done
  for pair in 1.19:404 1.20:200; do
    answers "${pair#*:}" HEAD "/v${pair%:*}/containers/$box/archive?path=/"
    answers "${pair#*:}" GET "/v${pair%:*}/containers/$box/archive?path=/etc"
    answers "${pair#*:}" PUT "/v${pair%:*}/containers/$box/archive?path=/"
  done
  answers 404 POST "/v1.21/containers/$box/update" '{"CpuShares":2}'
  answers 200 POST "/v1.22/containers/$box/update" '{"CpuShares":2}'
}

@test "list filters come with their version: refused before, not left out" {
  sleeper
  other=$(unique other)
  moss create --name "$other" --network none busybox true >/dev/null
  filtered() { # VERSION KEY VALUE
    answers "${4:-200}" GET "/v$1/containers/json?all=1&filters=$(jq -rn --arg k "$2" --arg v "$3" '{($k): [$v]} | tojson | @uri')"
  }
  while read -r before first key value; do
    filtered "$before" "$key" "$value" 400
    expect --in "$(body)" contains "$key"
    filtered "$first" "$key" "$value"
    expect equal "$(in_body --arg n "/$box" 'any(.[]; .Names[0] == $n)')" true
  done <<LIST
1.21 1.22 isolation default
1.23 1.24 ancestor busybox
1.23 1.24 before $other
1.23 1.24 network bridge
LIST
  expect equal "$(in_body --arg n "/$other" 'any(.[]; .Names[0] == $n)')" false # it is in no network
  network=$(moss inspect "$box" | jq -r '.[0].NetworkSettings.Networks.bridge.NetworkID')
  filtered 1.24 network "$network"
  expect equal "$(in_body -c 'map(.Names[0])')" "[\"/$box\"]"
  filtered 1.19 status created 400
  filtered 1.20 status created
  expect equal "$(in_body -c 'map(.Names[0])')" "[\"/$other\"]"
  filtered 1.18 status running
  expect equal "$(in_body -c 'map(.Names[0])')" "[\"/$box\"]"
  filtered 1.21 status dead 400
  filtered 1.22 status dead
  expect equal "$(body)" "[]"
  filtered 1.23 since "$box" 400
  filtered 1.24 since "$box"
  expect equal "$(in_body -c 'map(.Names[0])')" "[\"/$other\"]"
  filtered 1.23 volume /data 400
  filtered 1.24 volume /data
  expect equal "$(body)" "[]"
  filtered 1.18 label none
  expect equal "$(body)" "[]"
  filtered 1.18 exited 99
  expect equal "$(body)" "[]"
  moss rm "$other"
}

@test "start with a HostConfig: it is what the container has inside, up to 1.23; none after" {
  answers 201 POST "/v1.18/containers/create?name=$box" '{"Image":"busybox","Cmd":["sh","-c","cat /etc/resolv.conf; touch /x"]}'
  answers 400 POST "/v1.24/containers/$box/start" '{"Dns":["192.0.2.53"]}'
  answers 500 POST "/v1.18/containers/$box/start" '{"Dns":["nonsense"]}'
  expect equal "$(state "$box")" created
  answers 204 POST "/v1.22/containers/$box/start" '{"Dns":["192.0.2.53"],"ReadonlyRootfs":true}'
  moss wait "$box"
  run moss logs "$box"
  expect contains "nameserver 192.0.2.53" "Read-only file system"
}

# clock: the ticks of 10 ms that the container's process has used outside the kernel and in it, as its /proc shows them.
clock() { cut -d' ' -f14,15 "/proc/$(pid_of "$box")/stat"; }
both_used() {
  local outside inside
  read -r outside inside <<<"$(clock)"
  [ "$outside" -ge 20 ] && [ "$inside" -ge 20 ]
}

@test "stats: time in the kernel and outside of it is what the process has used" {
  moss run -d --name "$box" busybox sh -c 'while :; do i=0; while [ $i -lt 2500 ]; do i=$((i+1)); done; for f in /proc/*/status; do read x <$f; done; done' >/dev/null
  eventually 30 both_used
  moss pause "$box" >/dev/null # so that the clocks stand still
  ask GET "/containers/$box/stats?stream=0" >/dev/null
  read -r outside inside <<<"$(clock)"
  # The kernel's books of a cgroup are a little apart from those of its process, which was not born in it.
  expect equal "$(in_body -c --argjson o "$outside" --argjson i "$inside" '.cpu_stats.cpu_usage
    | [.usage_in_usermode / 10000000 - $o, .usage_in_kernelmode / 10000000 - $i, (.total_usage - .usage_in_usermode - .usage_in_kernelmode) / 10000000]
    | map(. > -10 and . < 30)')" '[true,true,true]'
}

# bats test_tags=cgroups
@test "stats: how often memory was refused is counted" {
  moss run -d --name "$box" -m 16m busybox sh -c 'head -c 60000000 /dev/zero >/file; sleep 1000' >/dev/null
  refused() { ask GET "/containers/$box/stats?stream=0" >/dev/null && [ "$(in_body '.memory_stats | .failcnt > 0 and .limit == 16777216 and .max_usage >= .usage')" = true ]; }
  eventually 30 refused
}
