#!/usr/bin/env bats
# The API as bytes: versions, errors, takeover of the connection, frames.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

raw() { timeout 180 /usr/bin/env python3 "$moss_top/tests/lib/raw.py" "$MOSS_SOCK" "$@"; }

# make NAME JSON: creates a container with these settings beside the image, and prints its id.
make() { api POST "/containers/create?name=$1" "{\"Image\":\"busybox\",$2}" | head -n 1 | jq -r .Id; }

@test "every version answers, and what is gone or not there yet is 404" {
  for v in 1.18 1.19 1.20 1.21 1.22 1.23 1.24; do
    for path in version info containers/json images/json; do
      run api GET "/v$v/$path"
      expect line -1 200
    done
  done
  run api GET /v1.20/volumes
  expect line -1 404
  run api GET /v1.23/swarm
  expect line -1 404
  run api GET /v1.24/nothing
  expect line -1 404
}

@test "unsupported and broken versions are 400" {
  for v in 1.17 1.52 1.99 2.0 9999999999.1; do
    run api GET "/v$v/version"
    expect line -1 400
    expect contains "$v"
  done
  run api GET /v1.55/info
  expect contains "client is newer than server (client API version: 1.55, server API version: 1.51)" \
    "client version 1.55 is too new. Maximum supported API version is 1.51" "DOCKER_API_VERSION=1.51"
  run api GET /v1.12/info
  expect contains "client version 1.12 is too old. Minimum supported API version is 1.18, please upgrade your client to a newer version"
}

@test "what is not there is 501 with a message that names it" {
  run api POST /v1.24/networks/create '{"Name":"n","Scope":"swarm"}'
  expect line -1 501
  expect --in "$(jq -r .message <<<"${lines[0]}")" contains Scope
}

# heads METHOD PATH [ARG...]: the head of the answer.
heads() { curl -sS -i --max-time 180 --unix-socket "$MOSS_SOCK" -X "$1" "${@:3}" "http://moss$2" | tr -d '\r' | sed '/^$/q'; }

@test "every answer has the same headers, errors too" {
  for call in "GET /_ping 200" "GET /v1.18/info 200" "GET /nothing 404" "GET /v1.99/info 400" "POST /info 405" "GET /containers/none/json 404" \
    "GET /containers/json?a=%zz 400" "OPTIONS /info 200" "DELETE /containers/none 404" "POST /v1.24/services/create 406" "GET /events?until=1 200"; do
    read -r method path code <<<"$call"
    run heads "$method" "$path"
    expect contains "HTTP/1.1 $code" "Server: moss/" "(linux)" "Api-Version: 1.51" "Ostype: linux" "Docker-Experimental: false"
    expect matches '^X-Request-Id: [0-9a-f]{16}$'
    expect lacks Access-Control
  done
}

@test "a request's id: the client's own if it can be one; the log tells it with all that the request led to" {
  name=$(unique req)
  run heads GET /containers/none/json -H "X-Request-Id: $name"
  expect contains "X-Request-Id: $name"
  expect --in "$(grep -F "request=$name" "$MOSS_DIR/mossd.log")" contains answered method=GET path=/containers/none/json status=404 version=1.51
  for id in "a b" "a/b" "$(printf '%65s' '' | tr ' ' x)" ä; do
    run heads GET /_ping -H "X-Request-Id: $id"
    expect matches '^X-Request-Id: [0-9a-f]{16}$'
  done
  id=$(make "$name" '"Cmd":["true"],"AttachStdout":true')
  run raw attach "$id" 'stream=1&stdout=1' --upgrade --start
  expect contains "HTTP/1.1 101 UPGRADED" X-Request-Id
  moss rm -f "$name"
}

@test "a wrong method is 405 with Allow, in both forms; what only another version has is 404" {
  name=$(unique wrong)
  make "$name" '"Cmd":["true"]'
  for call in "PATCH /version GET,OPTIONS" "POST /_ping GET,HEAD,OPTIONS" "POST /containers/$name/archive GET,HEAD,PUT,OPTIONS" \
    "GET /containers/create POST,OPTIONS|DELETE,POST,OPTIONS" "HEAD /info GET,OPTIONS" "GET /images/a/b DELETE,OPTIONS"; do
    read -r method path allow <<<"$call"
    args=()
    [ "$method" != HEAD ] || args=(--head)
    for v in 1.20 1.24; do
      run heads "$method" "/v$v$path" "${args[@]}"
      expect contains "HTTP/1.1 405 Method Not Allowed"
      expect matches "^Allow: (${allow//,/, })\$"
    done
  done
  run heads OPTIONS "/containers/$name/start"
  expect contains "200 OK" "Allow: POST, OPTIONS"
  run api GET "/v1.18/containers/$name/archive?path=/"
  expect output $'page not found\n\n404'
  run api POST "/v1.21/containers/$name/update" '{}'
  expect line -1 404
  run api DELETE /v1.20/volumes/x
  expect line -1 404
  moss rm -f "$name"
}

@test "statuses by endpoint, cause and version" {
  name=$(unique st)
  moss volume create "$name-vol" >/dev/null
  moss run -d --name "$name" -v "$name-vol:/v" busybox sleep 1000 >/dev/null
  moss create --name "$name-off" busybox true >/dev/null
  sed "s/BOX/$name/g" "$moss_top/tests/lib/statuses.txt" | timeout 180 python3 "$moss_top/tests/lib/statuses.py" "$MOSS_SOCK"
  moss rm -f "$name" "$name-off"
  moss volume rm "$name-vol"
}

@test "filters in both forms, and what means no is no" {
  name=$(unique form)
  make "$name" "\"Cmd\":[\"true\"],\"Labels\":{\"form\":\"$name\"}"
  for filters in "{\"label\":[\"form=$name\"]}" "{\"label\":{\"form=$name\":true}}" "{\"label\":{\"form=$name\":true,\"no\":false}}"; do
    for v in 1.18 1.21 1.24; do
      run curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -G --data-urlencode "filters=$filters" "http://moss/v$v/containers/json?all=1"
      expect equal "$(jq -r '.[].Names[0]' <<<"$output")" "/$name"
    done
  done
  for all in 1 true True TRUE yes anything; do
    expect equal "$(answer_of "/containers/json?all=$all" -r '.[].Names[0]' | grep -cx "/$name")" 1
  done
  for all in '' 0 no No false FALSE none; do
    expect equal "$(answer_of "/containers/json?all=$all" -r '.[].Names[0]' | grep -cx "/$name")" 0
  done
  moss rm "$name"
}

@test "both names of one thing: the documents' and the clients'" {
  name=$(unique pair)
  expect equal "$(answer_of /info '.EngineRootDir == .DockerRootDir and .EngineRootDir != null')" true
  expect equal "$(answer_of /images/busybox/json '.EngineVersion == .DockerVersion and has("DockerVersion")')" true
  id=$(make "$name" '"Cmd":["true"]')
  run heads HEAD "/containers/$id/archive?path=/" --head
  expect equal "$(sed -n 's/^X-Engine-Container-Path-Stat: //p' <<<"$output")" "$(sed -n 's/^X-Docker-Container-Path-Stat: //p' <<<"$output")"
  expect matches '^X-Docker-Container-Path-Stat: [A-Za-z0-9+/=]+$'
  moss rm "$name"
}

# wire BYTES: sends them as they are, printf's escapes made, and prints what comes back.
wire() { printf "%b" "$1" | timeout 180 socat -t 60 - "UNIX-CONNECT:$MOSS_SOCK" | tr -d '\r\000'; }

@test "requests that are malformed as HTTP have their status, and the engine goes on" {
  host='Host: moss\r\n'
  create="POST /containers/create HTTP/1.1\r\n${host}Content-Type: application/json\r\nConnection: close\r\n"
  while IFS='|' read -r code bytes; do
    run wire "${bytes//CREATE/$create}"
    expect --in "${lines[0]-}" matches "^HTTP/1\.[01] ($code) "
    expect lacks goroutine panic
  done <<LIST
400|NONSENSE\r\n\r\n
400|GET /info\r\n\r\n
400|GET /in\x00fo HTTP/1.1\r\n$host\r\n
400|GET /in fo HTTP/1.1\r\n$host\r\n
400|GET /%zz HTTP/1.1\r\n$host\r\n
400|GET /info HTTP/1.1\r\n\r\n
400|GET /info HTTP/1.1\r\n$host$host\r\n
400|GET /info HTTP/1.1\r\n${host}bad header\r\n\r\n
400|GET /info HTTP/1.1\r\n${host}X: a\x01b\r\n\r\n
505|GET /info HTTP/3.7\r\n$host\r\n
400|POST /info HTTP/1.1\r\n${host}Content-Length: -1\r\n\r\n
400|POST /info HTTP/1.1\r\n${host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n
501|POST /info HTTP/1.1\r\n${host}Transfer-Encoding: gzip\r\n\r\n
400|CREATE${host:0:0}Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n
400|CREATE${host:0:0}Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx
400|CREATE${host:0:0}Content-Length: 9\r\n\r\n{}
200|GET /info HTTP/1.0\r\n\r\n
200|OPTIONS * HTTP/1.1\r\n${host}Connection: close\r\n\r\n
200|GET //v1.24//info/ HTTP/1.1\r\n${host}Connection: close\r\n\r\n
200|GET http://else.where/_ping HTTP/1.1\r\n${host}Connection: close\r\n\r\n
404|GET /containers/../../etc/json HTTP/1.1\r\n${host}Connection: close\r\n\r\n
LIST
  # The head's bound is 1 MiB, and a few KiB for what is read ahead. The log keeps the beginning of a path only.
  for size in '404 900000' '431 1200000'; do
    { printf 'GET /containers/' && head -c "${size#* }" /dev/zero | tr '\0' x && printf '/json HTTP/1.1\r\nHost: moss\r\nConnection: close\r\n\r\n'; } |
      timeout 180 socat -t 60 - "UNIX-CONNECT:$MOSS_SOCK" 2>/dev/null | head -c 60 >"$BATS_TEST_TMPDIR/long" || true
    expect equal "$(head -n 1 "$BATS_TEST_TMPDIR/long" | cut -d ' ' -f 2)" "${size% *}"
  done
  [ "$(wc -L <"$MOSS_DIR/mossd.log")" -lt 5000 ] || fail "a path fills the log"
  for open in '[' '{"a":' '{"Labels":{"a":'; do
    deep=$(printf "%0.s$open" $(seq 20000))
    printf '%s' "$deep" >"$BATS_TEST_TMPDIR/deep"
    run api POST /containers/create "@$BATS_TEST_TMPDIR/deep"
    expect line -1 400
  done
  ping_ok
}

@test "errors are JSON at 1.24 and text before" {
  run curl -sS -i --unix-socket "$MOSS_SOCK" http://moss/v1.24/containers/none/json
  expect contains "404 Not Found" "Content-Type: application/json" '{"message":"'
  run curl -sS -i --unix-socket "$MOSS_SOCK" http://moss/v1.23/containers/none/json
  expect contains "404 Not Found" "Content-Type: text/plain"
  expect lacks '{"message"'
  expect contains none
}

@test "HEAD and GET of _ping, with and without a version" {
  for path in /_ping /v1.24/_ping /v1.18/_ping; do
    run curl -sS --head --max-time 180 --unix-socket "$MOSS_SOCK" "http://moss$path"
    expect contains "200 OK" "Api-Version: 1.51" "Ostype: linux" "Builder-Version: 1" "Swarm: inactive"
    run api GET $path
    expect output $'OK\n200'
  done
}

@test "malformed JSON and wrong types are 400 and name the field" {
  run api POST /containers/create '{"Image":'
  expect line -1 400
  run api POST /containers/create '[]'
  expect line -1 400
  run api POST /containers/create ''
  expect line -1 400
  for case in 'Cmd|17' 'Env|"A=b,"x' 'Tty|"yes"' 'Labels|[1]' 'ExposedPorts|"80"' 'HostConfig|7' 'Image|{}'; do
    run api POST /containers/create "{\"Image\":\"busybox\",\"${case%|*}\":${case#*|}}"
    expect line -1 400
    [ "${case%|*}" = Env ] || expect contains "${case%|*}"
  done
  run api POST /containers/create '{"Image":"busybox","Cmd":["true"],"HostConfig":{"Memory":"much"}}'
  expect line -1 400
  expect contains Memory
  run curl -sS --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: text/plain' --data '{"Image":"busybox"}' -w '\n%{http_code}' http://moss/v1.24/containers/create
  expect line -1 400
}

@test "nonsense in settings is 400 and says what" {
  while IFS='|' read -r what body; do
    run api POST /containers/create "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],$body}"
    [ "${lines[-1]}" = 400 ] || fail "$body: $output"
    expect contains "$what"
  done <<'TABLE'
99999|"HostConfig":{"PortBindings":{"80/tcp":[{"HostPort":"99999"}]}}
nope|"HostConfig":{"PortBindings":{"nope/tcp":[{"HostPort":"80"}]}}
relative|"HostConfig":{"Binds":["relative/path:/x"]}
sometimes|"HostConfig":{"RestartPolicy":{"Name":"sometimes"}}
CAP_NOPE|"HostConfig":{"CapAdd":["CAP_NOPE"]}
NOPE|"StopSignal":"NOPE"
ulimit|"HostConfig":{"Ulimits":[{"Name":"nope","Soft":1,"Hard":1}]}
TABLE
}

@test "names: the pattern is kept, a taken one is 409" {
  for bad in .bad -a.b 'a%20b' 'a%2Fb' 'b%C3%A4d' 'a%0Ab'; do
    run api POST "/containers/create?name=$bad" '{"Image":"busybox","Cmd":["true"]}'
    expect line -1 400
  done
  name=$(unique taken)
  run api POST "/containers/create?name=/$name" '{"Image":"busybox","Cmd":["true"]}'
  expect line -1 201
  run api POST "/containers/create?name=$name" '{"Image":"busybox","Cmd":["true"]}'
  expect line -1 409
  expect contains "$name"
  run api DELETE "/containers/$name"
  expect line -1 204
  run api POST "/containers/create?name=-$name" '{"Image":"busybox","Cmd":["true"]}' # the pattern allows it
  expect line -1 201
  run api DELETE "/containers/-$name"
  expect line -1 204
}

@test "an absent image is 404" {
  run api POST /containers/create '{"Image":"no-such-image","Cmd":["true"]}'
  expect line -1 404
  expect contains "No such image: no-such-image:latest"
}

@test "an absent command: start fails, names it, and the container has 127" {
  name=$(unique absent)
  make "$name" '"Cmd":["/no/such/command"]'
  run api POST "/containers/$name/start"
  expect --in "${lines[-1]}" matches '^(400|404|500)$'
  expect contains /no/such/command
  expect equal "$(answer_of "/containers/$name/json" .State.ExitCode)" 127
  run api POST "/containers/$name/wait"
  expect line 0 '{"StatusCode":127}'
  run api DELETE "/containers/$name"
  expect line -1 204
}

@test "attach with an upgrade is 101 and frames; none is missed before the start" {
  name=$(unique up)
  id=$(make "$name" '"Cmd":["sh","-c","echo out; sleep 0.2; echo err >&2"],"AttachStdout":true,"AttachStderr":true')
  run raw attach "$id" 'stream=1&stdout=1&stderr=1' --upgrade --start
  expect status 0
  expect line 0 "HTTP/1.1 101 UPGRADED"
  expect contains "Content-Type: application/vnd.docker.multiplexed-stream" "Upgrade: tcp" "Connection: Upgrade" "start: HTTP/1.1 204"
  expect contains "1 out" "2 err"
  moss rm -f "$name"
}

@test "attach without an upgrade is 200 and the same stream" {
  name=$(unique plain)
  id=$(make "$name" '"Cmd":["sh","-c","echo out; sleep 0.2; echo err >&2"],"AttachStdout":true,"AttachStderr":true')
  run raw attach "$id" 'stream=1&stdout=1&stderr=1' --start
  expect status 0
  expect line 0 "HTTP/1.1 200 OK"
  expect contains "1 out" "2 err"
  moss rm -f "$name"
}

@test "attach takes stdin and its end; only the streams that were asked for come back" {
  name=$(unique in)
  id=$(make "$name" '"Cmd":["sh","-c","cat; echo err >&2"],"OpenStdin":true,"StdinOnce":true,"AttachStdin":true')
  run raw attach "$id" 'stream=1&stdin=1&stdout=1' --upgrade --start --stdin $'a\nb\n'
  expect status 0
  expect contains "1 a" b
  expect lacks err
  moss rm -f "$name"
}

@test "a terminal's stream is raw" {
  name=$(unique tty)
  id=$(make "$name" '"Cmd":["sh","-c","'"$on_tell"'; echo out; echo err >&2; until [ $told ]; do sleep 0.05; done"],"Tty":true')
  raw attach "$id" 'stream=1&stdout=1&stderr=1' --upgrade --start --raw >"$BATS_TEST_TMPDIR/seen" 3>&- &
  viewer=$!
  eventually 10 log_has "$name" err # what is said just before the end may get lost
  tell "$name"
  wait $viewer
  run cat "$BATS_TEST_TMPDIR/seen"
  expect contains $'out\r\nerr\r'
  moss rm -f "$name"
}

# numbers FILE: the numbers at the ends of an answer's lines. shows FILE NUMBERS: whether it has these and no others yet.
numbers() { sed '1,/^$/d' "$1" | grep -o '[0-9]*$' | xargs; }
shows() { [ "$(numbers "$1")" = "$2" ]; }

# attach_logs ID: joins a container's log and streams in the background, as $viewer, which writes into $seen.
attach_logs() {
  seen=$BATS_TEST_TMPDIR/seen
  raw attach "$1" 'logs=1&stream=1&stdout=1&stderr=1' --upgrade >"$seen" 3>&- &
  viewer=$!
}

@test "attach with logs gives what was written before, then what comes, once" {
  name=$(unique logs)
  id=$(make "$name" '"Cmd":["sh","-c","'"$on_tell"'; echo 1; echo 2; until [ $told ]; do sleep 0.05; done; echo 3; echo 4"]')
  api POST "/containers/$id/start"
  eventually 10 log_has "$name" 2
  attach_logs "$id"
  eventually 10 shows "$seen" "1 2"
  tell "$name"
  wait $viewer
  expect equal "$(numbers "$seen")" "1 2 3 4"
  raw attach "$id" 'logs=1&stdout=1' --upgrade >"$seen"
  expect equal "$(numbers "$seen")" "1 2 3 4"
  moss rm -f "$name"
}

@test "attach with logs to a container at rest gives its log at once, and later what it writes when it starts again" {
  name=$(unique rest)
  id=$(make "$name" '"Cmd":["sh","-c","echo 1; echo 2"]')
  api POST "/containers/$id/start"
  eventually 10 is_exited "$name"
  attach_logs "$id"
  eventually 10 shows "$seen" "1 2"
  api POST "/containers/$id/start"
  wait $viewer
  expect equal "$(numbers "$seen")" "1 2 1 2"
  moss rm -f "$name"
}

@test "resize wants numbers" {
  name=$(unique size)
  make "$name" '"Cmd":["sleep","1000"],"Tty":true'
  api POST "/containers/$name/start"
  run api POST "/containers/$name/resize?h=20&w=70"
  expect line -1 200
  for query in "h=x&w=70" "w=70"; do
    run api POST "/containers/$name/resize?$query"
    expect line -1 400
    run api POST "/v1.24/containers/$name/resize?$query"
    expect line -1 500
  done
  moss rm -f "$name"
}

@test "parameters of the wrong kind are 400" {
  for path in 'containers/json?limit=x' 'containers/json?filters=%7B' 'containers/json?filters=%7B%22status%22%3A%5B%22nope%22%5D%7D' \
    'events?since=x' 'containers/none/logs?stdout=1&tail=x'; do
    run api GET "/$path"
    [[ ${lines[-1]} =~ ^(400|404)$ ]] || fail "$path: $output"
  done
}

@test "a long or broken request costs the engine nothing" {
  head -c 20000000 /dev/zero | tr '\0' x >"$BATS_TEST_TMPDIR/long"
  run curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/json' --data-binary @"$BATS_TEST_TMPDIR/long" -w '\n%{http_code}' http://moss/containers/create
  expect --in "${lines[-1]}" matches '^(400|413)$'
  printf 'NOT HTTP AT ALL\r\n\r\n' | timeout 180 socat -t 60 - "UNIX-CONNECT:$MOSS_SOCK" >"$BATS_TEST_TMPDIR/answer" || true
  expect --in "$(cat "$BATS_TEST_TMPDIR/answer")" contains "400"
  ping_ok
}

@test "events stream as JSON objects, one for each thing that happens" {
  name=$(unique ev)
  curl -sN --max-time 180 --unix-socket "$MOSS_SOCK" "http://moss/v1.24/events?filters=%7B%22container%22%3A%5B%22$name%22%5D%7D" >"$BATS_TEST_TMPDIR/ev" 3>&- &
  listener=$!
  listens() { [ "$(answer_of /info .NEventsListener)" -ge 1 ]; }
  eventually 10 listens
  moss run --name "$name" busybox true
  moss rm "$name"
  eventually 10 file_has "$BATS_TEST_TMPDIR/ev" destroy
  kill $listener
  expect equal "$(jq -r '.status' "$BATS_TEST_TMPDIR/ev" | grep -xE 'create|attach|start|die|destroy' | xargs)" "create attach start die destroy"
  expect equal "$(jq -r '.Actor.Attributes.name' "$BATS_TEST_TMPDIR/ev" | sort -u)" "$name"
}
