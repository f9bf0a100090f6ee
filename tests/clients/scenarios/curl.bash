# shellcheck shell=bash
# A scenario of curl at one version of the API: what each answer has, and has not, at that version.

# call CODE METHOD PATH [ARG...]: one request, which has to be answered with CODE. Sets type to the answer's media type; its
# body is in the file $body. ARGs are curl's.
call() {
  local want=$1 method=$2 path=$3 told
  shift 3
  told=$(curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X "$method" -o "$body" -w '%{http_code} %{content_type}' "$@" "http://moss$prefix$path")
  type=${told#* }
  [ "${told%% *}" = "$want" ] || fail "$method $path: got $told, want $want" "$(head -c 2000 "$body")"
}

# send CODE METHOD PATH JSON: the same with a body.
send() { call "$1" "$2" "$3" -H 'Content-Type: application/json' --data-binary "$4"; }

# has WHAT FILTER...: the answer is JSON, or ends with it, for which each of jq's filters is true. WHAT is for the failure's text.
has() {
  local what=$1 filter all
  shift
  printf -v all '(%s) and ' "$@"
  jq -se ".[-1] | ${all}true" "$body" >/dev/null && return
  for filter in "$@"; do
    jq -se ".[-1] | $filter" "$body" >/dev/null || fail "$what: not true: $filter" "$(head -c 2000 "$body")"
  done
}

# from MINOR FILTER: a filter that is to be true from 1.MINOR on, and false before.
from() { if [ "$minor" -ge "$1" ]; then echo "$2"; else echo "$2 | not"; fi; }

# within FIRST LAST FILTER: a filter that is to be true from 1.FIRST to 1.LAST, and false before and after.
within() { if [ "$minor" -ge "$1" ] && [ "$minor" -le "$2" ]; then echo "$3"; else echo "$3 | not"; fi; }

# said TEXT...: the answer's body, as bytes, has these.
said() {
  local text
  for text in "$@"; do
    grep -qaF -- "$text" "$body" || fail "the answer lacks '$text'" "$(head -c 2000 "$body")"
  done
}

# refused TEXT: the body is an error, in the form of the version, and has the text.
refused() {
  said "$1"
  if [ "$minor" -ge 24 ]; then
    expect equal "$type" application/json
    has error '(keys == ["message"]) and (.message | type == "string")'
  else
    expect --in "$type" contains text/plain
    run jq -e .message "$body"
    [ "$status" != 0 ] || fail "the error is JSON" "$(<"$body")"
  fi
}

# curl_scenario PREFIX: the prefix of the paths is /v1.18 and so on, or empty, which means 1.51.
curl_scenario() {
  prefix=$1 minor=${1#/v1.} body=$BATS_TEST_TMPDIR/body
  : "${minor:=51}"
  name=$(unique curl)
  began=$(date +%s)
  curl_system
  curl_images
  curl_places
  curl_container
  curl_streams
  curl_ends
  curl_files
  curl_verbs
  curl_removal
}

curl_system() {
  step "ping"
  call 200 GET /_ping
  said OK
  step "version"
  call 200 GET /version
  has version '.ApiVersion == "1.51"' '.Os == "linux"' '.GoVersion'
  step "info: flags are booleans at every version, and fields come and go"
  call 200 GET /info
  has info '.MemoryLimit | type == "boolean"' "$(from 23 '(has("ExecutionDriver") | not)')" \
    "$(from 24 'has("CgroupDriver")')" "$(from 20 'has("LoggingDriver")')" "$(within 21 40 'has("ClusterAdvertise")')"
  step "what is not there is an error in the version's form"
  call 404 GET /containers/none/json
  refused "none"
  step "what the version does not know is not found"
  if [ "$minor" -ge 24 ]; then call 404 GET /none; else call 404 GET /swarm; fi
}

curl_images() {
  step "list images"
  call 200 GET /images/json
  has images 'any(.[]; .RepoTags | index("busybox:latest"))' "$(from 20 '.[0] | has("Labels")')"
  step "inspect an image"
  call 200 GET /images/busybox/json
  has image '.Architecture and .Size > 0' "$(from 24 'has("GraphDriver") and has("RootFS")')"
  box=$(jq -r .Id "$body")
  step "history"
  call 200 GET /images/busybox/history
  has history ".[0].Id == \"$box\""
  step "build"
  mkdir "$BATS_TEST_TMPDIR/context"
  printf 'FROM busybox\nCOPY page /www/index.html\nRUN echo built >/word\nENV A=b\n' >"$BATS_TEST_TMPDIR/context/Dockerfile"
  echo 'a page' >"$BATS_TEST_TMPDIR/context/page"
  tar -C "$BATS_TEST_TMPDIR/context" -cf "$BATS_TEST_TMPDIR/context.tar" .
  call 200 POST "/build?t=$name/built&rm=1" -H 'Content-Type: application/x-tar' --data-binary "@$BATS_TEST_TMPDIR/context.tar"
  has build '.stream' # the last message
  said "Successfully built "
  step "a name that another image has moves from 1.22 on, before that only with force"
  call 201 POST "/images/busybox/tag?repo=$name/moves&tag=t"
  if [ "$minor" -ge 22 ]; then
    call 201 POST "/images/$name/built/tag?repo=$name/moves&tag=t"
  else
    call 409 POST "/images/$name/built/tag?repo=$name/moves&tag=t"
    refused "$name/moves"
    call 201 POST "/images/$name/built/tag?repo=$name/moves&tag=t&force=1"
  fi
  step "push"
  call 201 POST "/images/$name/built/tag?repo=$REGISTRY/$name&tag=t"
  call 200 POST "/images/$REGISTRY/$name/push?tag=t" -H "X-Registry-Auth: $(base64 <<<'{}')"
  said 'digest: sha256:'
  call 200 DELETE "/images/$REGISTRY/$name:t"
  step "pull"
  call 200 POST "/images/create?fromImage=$REGISTRY/$name&tag=t"
  said 'Status: Downloaded newer image'
  step "save and load: the load's answer is empty before 1.23, and tells from 1.24 on"
  call 200 GET "/images/$name/moves:t/get"
  cp "$body" "$BATS_TEST_TMPDIR/saved.tar"
  call 200 DELETE "/images/$name/moves:t"
  call 200 POST /images/load -H 'Content-Type: application/x-tar' --data-binary "@$BATS_TEST_TMPDIR/saved.tar"
  if [ "$minor" -ge 24 ]; then said "Loaded image: $name/moves:t"; fi
  if [ "$minor" -lt 23 ] && [ -s "$body" ]; then fail "the answer is not empty: $(<"$body")"; fi
  call 200 GET "/images/$name/moves:t/json"
}

# curl_places makes a network and a volume, which the API has from 1.21 on.
curl_places() {
  step "create a network"
  if [ "$minor" -lt 21 ]; then
    send 404 POST /networks/create "{\"Name\": \"$name\"}"
    step "create a volume"
    send 404 POST /volumes/create "{\"Name\": \"$name\"}"
    return
  fi
  send 201 POST /networks/create "{\"Name\": \"$name\", \"CheckDuplicate\": true, \"Labels\": {\"a\": \"b\"}}"
  has network '.Id | length == 64'
  call 200 GET "/networks/$name"
  has network "$(from 22 'has("Internal")')" "$(from 24 'has("EnableIPv6") and .Labels.a == "b"')" '.Containers == {}'
  step "create a volume"
  send 201 POST /volumes/create "{\"Name\": \"$name\", \"Labels\": {\"a\": \"b\"}}"
  has volume '.Driver == "local"' "$(from 24 '.Scope == "local" and .Labels.a == "b"')"
  step "list volumes"
  call 200 GET /volumes
  has volumes "any(.Volumes[]; .Name == \"$name\")" "$(from 22 'has("Warnings")')"
}

curl_container() {
  local network=bridge
  [ "$minor" -lt 21 ] || network=$name
  step "create a container"
  send 201 POST "/containers/create?name=$name" "$(
    jq -n --arg image "$name/built" --arg volume "$name" --arg network "$network" '{Image: $image, Labels: {scenario: $volume},
      Cmd: ["sh", "-c", "echo up; echo kept >/data/kept; httpd -p 8080 -h /www; sleep 1000"], ExposedPorts: {"8080/tcp": {}},
      HostConfig: {Binds: [$volume + ":/data"], NetworkMode: $network, PortBindings: {"8080/tcp": [{HostIp: "127.0.0.1"}]}}}'
  )"
  has created '.Id | length == 64' 'has("Warnings")'
  id=$(jq -r .Id "$body")
  step "start: a HostConfig is for versions before 1.24"
  if [ "$minor" -ge 24 ]; then
    send 400 POST "/containers/$id/start" '{"Dns": []}'
    refused "HostConfig"
  fi
  call 204 POST "/containers/$id/start"
  call 304 POST "/containers/$id/start"
  step "inspect a container: the fields of the version, and no others"
  call 200 GET "/containers/$id/json"
  has inspect ".Name == \"/$name\" and .State.Running" "$(from 20 'has("Mounts")')" "$(from 20 '(has("Volumes") | not)')" \
    "$(from 21 '.NetworkSettings | has("Networks")')" "$(from 21 '.NetworkSettings | has("PortMapping") | not')" \
    "$(from 21 '.State.Status == "running"')" "$(from 22 '.State | has("Dead")')" 'has("GraphDriver")' \
    "$(from 23 '(has("ExecDriver") | not)')" "$(from 20 '(.Config | has("Memory") | not)')" "$(from 22 '.HostConfig | has("ShmSize")')"
  port=$(jq -r '.NetworkSettings.Ports["8080/tcp"][0].HostPort' "$body")
  step "list containers: the fields of the version, and no others"
  call 200 GET "/containers/json?filters=%7B%22label%22%3A%5B%22scenario%3D$name%22%5D%7D"
  has list "length == 1 and .[0].Id == \"$id\"" "$(from 21 '.[0] | has("ImageID")')" "$(from 22 '.[0] | has("NetworkSettings")')" \
    "$(from 24 '.[0] | has("State") and has("Mounts")')"
  step "read the page at the published port"
  eventually 10 curl -sS --fail --max-time 5 -o "$body" "http://127.0.0.1:$port/"
  said "a page"
}

curl_streams() {
  step "exec: create, start, and the output in frames"
  send 201 POST "/containers/$id/exec" '{"AttachStdout": true, "AttachStderr": true, "Cmd": ["cat", "/data/kept"]}'
  exec=$(jq -r .Id "$body")
  send 200 POST "/exec/$exec/start" '{}'
  expect equal "$(od -An -tx1 "$body")" "$(printf '\1\0\0\0\0\0\0\5kept\n' | od -An -tx1)"
  step "exec: inspect tells of the container in its version's form"
  call 200 GET "/exec/$exec/json"
  has exec '.Running == false and .ExitCode == 0' "$(from 22 ".ContainerID == \"$id\"")" "$(from 22 '(has("Container") | not)')"
  step "logs in frames"
  call 200 GET "/containers/$id/logs?stdout=1"
  expect equal "$(od -An -tx1 "$body")" "$(printf '\1\0\0\0\0\0\0\3up\n' | od -An -tx1)"
  step "attach to what is in the log"
  call 200 POST "/containers/$id/attach?logs=1&stdout=1"
  expect equal "$(od -An -tx1 "$body")" "$(printf '\1\0\0\0\0\0\0\3up\n' | od -An -tx1)"
  step "stats: one network or several, with or without the reading before"
  curl -sSN --max-time 60 --unix-socket "$MOSS_SOCK" "http://moss$prefix/containers/$id/stats" 2>/dev/null | head -n 1 >"$body" || true
  has stats '.memory_stats.usage > 0' "$(from 20 'has("precpu_stats")')" "$(from 21 'has("networks")')" "$(from 21 '(has("network") | not)')" \
    "$(from 24 'has("pids_stats")')"
  step "top"
  call 200 GET "/containers/$id/top"
  has top '.Titles | index("PID")' 'any(.Processes[][]; contains("httpd"))'
}

curl_ends() {
  local round told client
  step "attach to the end, then inspect: the exit code is there"
  for round in 1 2 3; do # an engine that tells too late does so now and then
    send 201 POST "/containers/create?name=$name-told$round" '{"Image": "busybox", "Cmd": ["sh", "-c", "echo out; exit 7"], "HostConfig": {"NetworkMode": "none"}}'
    told=$(jq -r .Id "$body")
    rm -f "$BATS_TEST_TMPDIR/attached.head" # of the round before
    curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X POST -o "$BATS_TEST_TMPDIR/attached" -D "$BATS_TEST_TMPDIR/attached.head" \
      "http://moss$prefix/containers/$told/attach?stream=1&stdout=1&stderr=1" 3>&- 4>&- &
    client=$!
    eventually 10 file_has "$BATS_TEST_TMPDIR/attached.head" 'HTTP/1.1 200'
    call 204 POST "/containers/$told/start"
    wait "$client"
    call 200 GET "/containers/$told/json"
    has inspect '.State.Running == false' '.State.ExitCode == 7'
    call 204 DELETE "/containers/$told"
    rm "$BATS_TEST_TMPDIR/attached.head"
  done
  step "kill during an exec: its stream ends, and its code is not 0"
  send 201 POST "/containers/create?name=$name-killed" '{"Image": "busybox", "Cmd": ["sleep", "1000"], "HostConfig": {"NetworkMode": "none"}}'
  told=$(jq -r .Id "$body")
  call 204 POST "/containers/$told/start"
  send 201 POST "/containers/$told/exec" '{"AttachStdout": true, "Cmd": ["sh", "-c", "echo here; sleep 1000"]}'
  exec=$(jq -r .Id "$body")
  curl -sSN --max-time 60 --unix-socket "$MOSS_SOCK" -H 'Content-Type: application/json' --data-binary '{}' -o "$BATS_TEST_TMPDIR/exec" \
    "http://moss$prefix/exec/$exec/start" 3>&- 4>&- &
  client=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/exec" here
  call 204 POST "/containers/$told/kill"
  wait "$client"
  call 200 GET "/exec/$exec/json"
  has exec '.Running == false' '.ExitCode != 0 and .ExitCode != null'
  call 204 DELETE "/containers/$told"
}

curl_files() {
  step "put, look at and get an archive, from 1.20 on"
  echo first >"$BATS_TEST_TMPDIR/one"
  tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/one.tar" one
  if [ "$minor" -ge 20 ]; then
    call 200 PUT "/containers/$id/archive?path=/tmp" -H 'Content-Type: application/x-tar' --data-binary "@$BATS_TEST_TMPDIR/one.tar"
    call 200 GET "/containers/$id/archive?path=/tmp/one" -D "$BATS_TEST_TMPDIR/head"
    expect equal "$(tar -xOf "$body" one)" first
    stat=$(sed -nE 's/^X-Docker-Container-Path-Stat: ([^\r]*).*/\1/p' "$BATS_TEST_TMPDIR/head" | base64 -d)
    expect equal "$(jq -c '[.name, .size]' <<<"$stat")" '["one",6]'
  else
    call 404 GET "/containers/$id/archive?path=/tmp"
  fi
  step "copy, as clients before 1.20 do"
  send 200 POST "/containers/$id/copy" '{"Resource": "/www/index.html"}'
  expect equal "$(tar -xOf "$body" index.html)" "a page"
  step "changes"
  call 200 GET "/containers/$id/changes"
  has changes "$(from 20 'any(.[]; .Path == "/tmp/one" and .Kind == 1)')" 'all(.[]; .Kind | . >= 0 and . <= 2)'
  step "export"
  call 200 GET "/containers/$id/export"
  expect equal "$(tar -xOf "$body" word)" built
}

curl_verbs() {
  step "pause and unpause"
  call 204 POST "/containers/$id/pause"
  call 200 GET "/containers/$id/json"
  has paused '.State.Paused'
  call 204 POST "/containers/$id/unpause"
  step "rename"
  call 204 POST "/containers/$id/rename?name=$name-renamed"
  call 200 GET "/containers/$name-renamed/json"
  has renamed ".Id == \"$id\""
  step "update, from 1.22 on"
  if [ "$minor" -ge 22 ]; then
    send 200 POST "/containers/$id/update" '{"CpuShares": 200}'
    call 200 GET "/containers/$id/json"
    has updated '.HostConfig.CpuShares == 200'
  else
    send 404 POST "/containers/$id/update" '{"CpuShares": 200}'
  fi
  if [ "$minor" -ge 21 ]; then
    step "disconnect and connect"
    send 200 POST "/networks/$name/disconnect" "{\"Container\": \"$id\"}"
    call 200 GET "/networks/$name"
    has network '.Containers == {}'
    send 200 POST "/networks/$name/connect" "{\"Container\": \"$id\", \"EndpointConfig\": {\"Aliases\": [\"other\"]}}"
    call 200 GET "/containers/$id/json"
    has network ".NetworkSettings.Networks[\"$name\"].IPAddress" "$(from 22 ".NetworkSettings.Networks[\"$name\"].Aliases // [] | index(\"other\") != null")"
  fi
  step "commit"
  send 201 POST "/commit?container=$id&repo=$name/committed" '{}'
  has commit '.Id'
  call 200 DELETE "/images/$name/committed"
  step "restart"
  call 204 POST "/containers/$id/restart?t=0"
  step "kill, and wait for the code"
  call 204 POST "/containers/$id/kill?signal=KILL"
  call 200 POST "/containers/$id/wait"
  has wait '.StatusCode == 137'
  call 304 POST "/containers/$id/stop"
}

curl_removal() {
  if [ "$minor" -ge 21 ]; then
    step "a volume in use stays"
    call 409 DELETE "/volumes/$name"
    refused "$name"
  fi
  step "remove the container"
  call 204 DELETE "/containers/$id?v=1"
  call 404 GET "/containers/$id/json"
  refused "$id"
  step "remove the network and the volume"
  if [ "$minor" -ge 21 ]; then
    if [ "$minor" -ge 25 ]; then call 204 DELETE "/networks/$name"; else call 200 DELETE "/networks/$name"; fi
    call 204 DELETE "/volumes/$name"
    call 404 GET "/volumes/$name"
    refused "$name"
  else
    call 404 DELETE "/networks/$name"
  fi
  step "remove the image"
  call 200 DELETE "/images/$name/built?noprune=1"
  has removed ".[0].Untagged == \"$name/built:latest\""
  step "the events of the container's life"
  call 200 GET "/events?since=$began&until=$(($(date +%s) + 1))&filters=%7B%22container%22%3A%5B%22$id%22%5D%7D"
  expect equal "$(jq -r "select(.id == \"$id\") | .status | select(IN(\"create\", \"start\", \"pause\", \"rename\", \"kill\", \"die\", \"destroy\"))" "$body" | xargs)" \
    "create start pause rename pause kill die start kill die destroy"
}
