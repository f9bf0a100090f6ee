#!/usr/bin/env bats
# What the engine answers at 1.51 is what docs/openapi.yaml says: every field is in its schema, with that type, and what must
# be there is there.
# bats file_tags=subids

load lib/moss
load lib/ports
load lib/registry

setup_file() {
  start_engine
  import_busybox
  start_registry plain
}
teardown_file() { stop_registries && stop_engine; }
setup() {
  begin
  box=$(unique box)
  list=$BATS_TEST_TMPDIR/list
  count=0
}
teardown() {
  moss rm -f "$box" "$box-new" >/dev/null 2>&1 || true
  moss network rm "$box" >/dev/null 2>&1 || true
  moss volume rm "$box" "$box-anon" >/dev/null 2>&1 || true
  finish
}

# ask STATUS METHOD TEMPLATE PATH [BODY]: one request, whose answer is kept for conforms. TEMPLATE is the path as the document
# has it.
ask() {
  local want=$1 args=(-X "$2") got
  [ $# -lt 5 ] || args+=(-H 'Content-Type: application/json' --data-binary "$5")
  count=$((count + 1))
  : >"$BATS_TEST_TMPDIR/$count" # curl makes no file for no body
  got=$(curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" "${args[@]}" -o "$BATS_TEST_TMPDIR/$count" -w '%{http_code}' "http://moss/v1.51$4")
  [ "$got" = "$want" ] || fail "$2 $4: got $got, want $want" "$(cat "$BATS_TEST_TMPDIR/$count")"
  echo "$2 $3 $got $BATS_TEST_TMPDIR/$count" >>"$list"
}
# see TEMPLATE PATH: a GET that is answered with 200.
see() { ask 200 GET "$1" "${2:-$1}"; }
# last JQ: what jq finds in the last answer.
last() { jq -re "$1" "$BATS_TEST_TMPDIR/$count"; }
# conforms: all answers so far are as the document says.
conforms() {
  run "$moss_top/.cache/bin/openapicheck" "$moss_top/docs/openapi.yaml" <"$list"
  expect status 0
}

@test "the engine gives out the document, at every version" {
  for path in /openapi.yaml /v1.18/openapi.yaml /v1.24/openapi.yaml; do
    run curl -sS --unix-socket "$MOSS_SOCK" -o "$BATS_TEST_TMPDIR/doc" -w '%{http_code} %{content_type}' "http://moss$path"
    expect output "200 application/yaml"
    cmp "$BATS_TEST_TMPDIR/doc" "$moss_top/docs/openapi.yaml"
  done
}

@test "containers: lists, records, processes, usage and changes, running and at rest" {
  ask 201 POST /containers/create "/containers/create?name=$box" '{"Image":"busybox","Cmd":["sleep","1000"],"Tty":true,
    "OpenStdin":true,"Labels":{"a":"b"},"Env":["A=b"],"ExposedPorts":{"80/tcp":{},"81/udp":{}},"Volumes":{"/anon":{}},"StopSignal":"SIGKILL",
    "Healthcheck":{"Test":["CMD","true"],"Interval":1000000000},
    "HostConfig":{"PortBindings":{"80/tcp":[{"HostIp":"127.0.0.1","HostPort":""}]},"Binds":["/etc/hostname:/h:ro"],"Tmpfs":{"/t":""},
      "Memory":67108864,"Ulimits":[{"Name":"nofile","Soft":100,"Hard":200}],"RestartPolicy":{"Name":"on-failure","MaximumRetryCount":2},
      "ExtraHosts":["x:1.2.3.4"],"Dns":["127.0.0.1"],"CapAdd":["NET_RAW"]}}'
  see '/containers/{id}/json' "/containers/$box/json?size=1"
  see /containers/json '/containers/json?all=1&size=1'
  see '/containers/{id}/stats' "/containers/$box/stats?stream=0"
  see '/containers/{id}/changes' "/containers/$box/changes"
  ask 204 POST '/containers/{id}/start' "/containers/$box/start"
  ask 304 POST '/containers/{id}/start' "/containers/$box/start"
  eventually 20 healthy
  see '/containers/{id}/json' "/containers/$box/json?size=1"
  see /containers/json
  see '/containers/{id}/top' "/containers/$box/top"
  see '/containers/{id}/stats' "/containers/$box/stats?stream=0"
  see '/containers/{id}/logs' "/containers/$box/logs?stdout=1"
  moss exec "$box" sh -c 'echo x >/new; rm /etc/group 2>/dev/null; true'
  see '/containers/{id}/changes' "/containers/$box/changes"
  ask 200 POST '/containers/{id}/update' "/containers/$box/update" '{"CpuShares":512}'
  ask 200 POST '/containers/{id}/resize' "/containers/$box/resize?h=20&w=70"
  ask 204 POST '/containers/{id}/pause' "/containers/$box/pause"
  see '/containers/{id}/json' "/containers/$box/json"
  ask 204 POST '/containers/{id}/unpause' "/containers/$box/unpause"
  ask 204 POST '/containers/{id}/kill' "/containers/$box/kill"
  ask 200 POST '/containers/{id}/wait' "/containers/$box/wait"
  see '/containers/{id}/json' "/containers/$box/json"
  see /containers/json '/containers/json?all=1'
  ask 201 POST /commit "/commit?container=$box&repo=$box"
  see '/images/{name}/json' "/images/$box/json"
  see '/images/{name}/history' "/images/$box/history"
  ask 200 DELETE '/images/{name}' "/images/$box"
  ask 204 POST '/containers/{id}/rename' "/containers/$box/rename?name=$box-new"
  ask 204 DELETE '/containers/{id}' "/containers/$box-new?v=1"
  ask 404 GET '/containers/{id}/json' "/containers/$box/json"
  ask 400 GET /containers/json '/containers/json?filters=x'
  conforms
}
healthy() { [ "$(moss inspect "$box" | jq -r '.[0].State.Health.Status')" = healthy ]; }

@test "exec instances, before, while and after they run" {
  moss run -d --name "$box" busybox sleep 1000 >/dev/null
  ask 201 POST '/containers/{id}/exec' "/containers/$box/exec" '{"Cmd":["sh","-c","exit 3"],"AttachStdout":true,"User":"0"}'
  id=$(last .Id)
  see '/exec/{id}/json' "/exec/$id/json"
  ask 200 POST '/exec/{id}/start' "/exec/$id/start" '{}'
  see '/exec/{id}/json' "/exec/$id/json"
  expect equal "$(last .ExitCode)" 3
  ask 409 POST '/exec/{id}/start' "/exec/$id/start" '{}'
  see '/containers/{id}/json' "/containers/$box/json"
  conforms
}

@test "images, volumes, networks and what the disk holds" {
  see /images/json '/images/json?all=1&digests=1'
  see '/images/{name}/json' /images/busybox/json
  see '/images/{name}/history' /images/busybox/history
  ask 201 POST '/images/{name}/tag' "/images/busybox/tag?repo=$box"
  ask 200 DELETE '/images/{name}' "/images/$box"
  ask 201 POST /volumes/create /volumes/create "{\"Name\":\"$box\",\"Labels\":{\"a\":\"b\"}}"
  see /volumes
  see '/volumes/{name}' "/volumes/$box"
  ask 201 POST /networks/create /networks/create \
    "{\"Name\":\"$box\",\"Labels\":{\"a\":\"b\"},\"IPAM\":{\"Config\":[{\"Subnet\":\"10.93.0.0/24\",\"AuxAddress\":{\"x\":\"10.93.0.9\"}}]}}"
  moss run -d --name "$box" --network "$box" -v "$box:/v" busybox sleep 1000 >/dev/null
  see /networks
  see '/networks/{id}' "/networks/$box"
  see '/networks/{id}' /networks/none
  ask 200 POST '/networks/{id}/connect' /networks/bridge/connect "{\"Container\":\"$box\"}"
  see '/containers/{id}/json' "/containers/$box/json"
  see '/networks/{id}' /networks/bridge
  ask 200 POST '/networks/{id}/disconnect' /networks/bridge/disconnect "{\"Container\":\"$box\"}"
  see /system/df
  ask 204 DELETE '/containers/{id}' "/containers/$box?force=1"
  ask 204 DELETE '/networks/{id}' "/networks/$box"
  ask 204 DELETE '/volumes/{name}' "/volumes/$box"
  ask 200 POST /containers/prune /containers/prune
  ask 200 POST /networks/prune /networks/prune
  ask 200 POST /volumes/prune /volumes/prune
  ask 200 POST /images/prune /images/prune
  ask 200 POST /build/prune /build/prune
  conforms
}

@test "the engine: info, version, events, and what a swarm would answer" {
  moss run --rm --name "$box" busybox true
  see /info
  see /version
  see /_ping
  see /events "/events?since=1&until=$(date +%s.%N)"
  [ "$(wc -l <"$BATS_TEST_TMPDIR/$count")" -ge 5 ] || fail "few events: $(cat "$BATS_TEST_TMPDIR/$count")"
  see /openapi.yaml
  ask 406 GET /services /services
  conforms
}

@test "a swarm: itself, its node, a service and its task" {
  addr=127.0.0.1:$(free_port 2) # the next one is its tables'
  ask 200 POST /swarm/init /swarm/init "{\"ListenAddr\":\"$addr\",\"AdvertiseAddr\":\"$addr\",\"Availability\":\"active\"}"
  ask 406 POST /swarm/init /swarm/init '{}'
  see /info
  node=$(last .Swarm.NodeID)
  see /swarm
  see /swarm/unlockkey
  see /nodes
  see '/nodes/{id}' "/nodes/$node"
  ask 400 POST /services/create /services/create '{}'
  ask 201 POST /services/create /services/create \
    "{\"Name\":\"$box\",\"Labels\":{\"a\":\"1\"},\"TaskTemplate\":{\"ContainerSpec\":{\"Image\":\"busybox:latest\",\"Args\":[\"sleep\",\"1000\"],\"Env\":[\"A=1\"]},\"RestartPolicy\":{\"Condition\":\"any\"}}}"
  see '/services/{id}' "/services/$box"
  see /services
  task() { see /tasks && [ "$(last '.[0].Status.State' 2>/dev/null)" = running ]; }
  eventually 20 task
  see '/tasks/{id}' "/tasks/$(last '.[0].ID')"
  ask 404 GET '/tasks/{id}' /tasks/none
  ask 200 DELETE '/services/{id}' "/services/$box"
  ask 200 POST /swarm/leave '/swarm/leave?force=1'
  conforms
}

@test "registries: messages of push and pull, what is found, and errors" {
  local name=$REGISTRY/$box
  ask 201 POST '/images/{name}/tag' "/images/busybox/tag?repo=$name&tag=v1"
  ask 200 POST '/images/{name}/push' "/images/$name/push?tag=v1" '{}'
  [[ $(cat "$BATS_TEST_TMPDIR/$count") == *'"aux"'* ]] || fail "no digest: $(cat "$BATS_TEST_TMPDIR/$count")"
  see '/images/{name}/json' "/images/$name:v1/json"
  see /images/json "/images/json?filters=$(jq -rn --arg n "$name" '{reference:[$n]}|tojson|@uri')"
  ask 200 DELETE '/images/{name}' "/images/$name:v1"
  ask 200 POST /images/create "/images/create?fromImage=$name&tag=v1"
  ask 404 POST /images/create "/images/create?fromImage=$name&tag=none"
  see '/distribution/{name}/json' "/distribution/$name:v1/json"
  see /images/search "/images/search?term=$name"
  expect equal "$(last 'length')" 1
  ask 200 DELETE '/images/{name}' "/images/$name:v1"
  conforms
}

@test "streams of messages: import, load and build" {
  ask 200 GET '/images/{name}/get' /images/busybox/get
  tar=$BATS_TEST_TMPDIR/$count
  sed -i '$d' "$list" # an archive has no schema
  for call in "/images/load /images/load" "/images/create /images/create?fromSrc=-&repo=$box"; do
    count=$((count + 1))
    curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' --data-binary "@$tar" \
      -o "$BATS_TEST_TMPDIR/$count" "http://moss/v1.24${call#* }"
    echo "POST ${call% *} 200 $BATS_TEST_TMPDIR/$count" >>"$list"
  done
  mkdir "$BATS_TEST_TMPDIR/context"
  printf 'FROM busybox\nRUN echo hello\nLABEL a=b\n' >"$BATS_TEST_TMPDIR/context/Dockerfile"
  count=$((count + 1))
  tar -c -C "$BATS_TEST_TMPDIR/context" . | curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' \
    --data-binary @- -o "$BATS_TEST_TMPDIR/$count" "http://moss/v1.24/build?t=$box&steps=1"
  echo "POST /build 200 $BATS_TEST_TMPDIR/$count" >>"$list"
  see /system/df
  ask 200 DELETE '/images/{name}' "/images/$box"
  printf 'FROM busybox\nRUN exit 3\n' >"$BATS_TEST_TMPDIR/context/Dockerfile"
  count=$((count + 1))
  tar -c -C "$BATS_TEST_TMPDIR/context" . | curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' \
    --data-binary @- -o "$BATS_TEST_TMPDIR/$count" "http://moss/v1.24/build"
  expect --in "$(cat "$BATS_TEST_TMPDIR/$count")" contains '"errorDetail"'
  echo "POST /build 200 $BATS_TEST_TMPDIR/$count" >>"$list"
  conforms
}
