#!/usr/bin/env bats
# The list of containers: every filter and parameter, what an entry shows, and what is refused.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# list QUERY [FILTERS [VERSION]]: the body of the answer.
list() {
  local query=$1 version=${3:-1.24}
  [ -z "${2:-}" ] || query+="&filters=$(jq -rn --arg f "$2" '$f | @uri')"
  api GET "/v$version/containers/json?$query" | head -n 1
}
# names QUERY [FILTERS]: the names in their order, in one line.
names() { list "$@" | jq -r '[.[].Names[0] | ltrimstr("/")] | join(" ")'; }
refused() { # refused QUERY FILTERS TEXT [VERSION]
  local query=$1
  [ -z "$2" ] || query+="&filters=$(jq -rn --arg f "$2" '$f | @uri')"
  run api GET "/v${4:-1.24}/containers/json?$query"
  expect line -1 400
  expect contains "$3"
}

# four TAG: containers TAG-1 (exited 0), TAG-2 (exited 3), TAG-3 (runs), TAG-4 (created), all with the label set=TAG.
four() {
  moss run --name "$1-1" --label "set=$1" --label one=1 busybox true
  moss run --name "$1-2" --label "set=$1" busybox sh -c 'exit 3' || true
  moss run -d --name "$1-3" --label "set=$1" busybox sleep 1000 >/dev/null
  moss create --name "$1-4" --label "set=$1" busybox true >/dev/null
}
drop_four() { moss rm -f "$1-1" "$1-2" "$1-3" "$1-4"; }

@test "running ones by default, all on demand, the newest first" {
  t=$(unique order)
  four "$t"
  expect equal "$(names "" "{\"label\":[\"set=$t\"]}")" "$t-3"
  expect equal "$(names all=1 "{\"label\":[\"set=$t\"]}")" "$t-4 $t-3 $t-2 $t-1"
  expect equal "$(names all=false "{\"label\":[\"set=$t\"]}")" "$t-3"
  expect equal "$(names limit=2 "{\"label\":[\"set=$t\"]}")" "$t-4 $t-3"
  expect equal "$(names limit=-1 "{\"label\":[\"set=$t\"]}")" "$t-3"
  expect equal "$(names limit=0 "{\"label\":[\"set=$t\"]}")" "$t-3"
  expect equal "$(names "since=$t-2" "{\"label\":[\"set=$t\"]}")" "$t-4 $t-3"
  expect equal "$(names "before=$t-2" "{\"label\":[\"set=$t\"]}")" "$t-1"
  expect equal "$(names "since=$t-1&before=$t-4" "{\"label\":[\"set=$t\"]}")" "$t-3 $t-2"
  drop_four "$t"
}

@test "each filter picks what it says" {
  t=$(unique pick)
  four "$t"
  local own="\"label\":[\"set=$t\"]"
  expect equal "$(names all=1 "{$own,\"status\":[\"created\"]}")" "$t-4"
  expect equal "$(names "" "{$own,\"status\":[\"exited\"]}")" "$t-2 $t-1"
  expect equal "$(names "" "{$own,\"status\":[\"running\",\"created\"]}")" "$t-4 $t-3"
  expect equal "$(names "" "{$own,\"status\":[\"paused\"]}")" ""
  expect equal "$(names "" "{$own,\"status\":[\"dead\",\"restarting\",\"removing\"]}")" ""
  expect equal "$(names "" "{$own,\"exited\":[\"3\"]}")" "$t-2"
  expect equal "$(names "" "{$own,\"exited\":[\"0\",\"3\"]}")" "$t-2 $t-1"
  expect equal "$(names all=1 "{\"label\":[\"set=$t\",\"one\"]}")" "$t-1"
  expect equal "$(names all=1 "{\"label\":[\"set=$t\",\"one=2\"]}")" ""
  expect equal "$(names all=1 "{\"name\":[\"$t-2\"]}")" "$t-2"
  expect equal "$(names all=1 "{\"name\":[\"^/$t-[12]\$\"]}")" "$t-2 $t-1"
  expect equal "$(names all=1 "{\"id\":[\"$(moss inspect "$t-1" | jq -r '.[0].Id[:20]')\"]}")" "$t-1"
  expect equal "$(names all=1 "{$own,\"before\":[\"$t-2\"]}")" "$t-1"
  expect equal "$(names all=1 "{$own,\"since\":[\"$(moss inspect "$t-3" | jq -r '.[0].Id')\"]}")" "$t-4"
  expect equal "$(names all=1 "{$own,\"isolation\":[\"default\"]}")" "$t-4 $t-3 $t-2 $t-1"
  expect equal "$(names all=1 "{$own,\"isolation\":[\"process\"]}")" ""
  expect equal "$(names all=1 "{$own,\"isolation\":[\"hyperv\"]}")" ""
  # Later clients write filters as maps.
  expect equal "$(names all=1 "{\"name\":{\"$t-2\":true}}")" "$t-2"
  drop_four "$t"
}

@test "ancestor takes a name, a tag, an id and what was made on top" {
  t=$(unique anc)
  moss run --name "$t-1" --label "set=$t" busybox sh -c 'echo x >/x'
  api POST "/commit?container=$t-1&repo=$t&tag=v1" >/dev/null
  moss create --name "$t-2" --label "set=$t" "$t:v1" true
  id=$(answer_of "/images/busybox/json" -r .Id)
  for ancestor in busybox busybox:latest "$id" "${id#sha256:}" "$(cut -c8-20 <<<"$id")"; do
    expect equal "$(names all=1 "{\"label\":[\"set=$t\"],\"ancestor\":[\"$ancestor\"]}")" "$t-2 $t-1"
  done
  expect equal "$(names all=1 "{\"label\":[\"set=$t\"],\"ancestor\":[\"$t:v1\"]}")" "$t-2"
  expect equal "$(names all=1 "{\"label\":[\"set=$t\"],\"ancestor\":[\"no-such-image\"]}")" ""
  moss rm "$t-1" "$t-2"
  api DELETE "/images/$t:v1" >/dev/null
}

@test "volume finds mounts by destination, network by mode" {
  t=$(unique mount)
  moss create --name "$t-1" --label "set=$t" -v "$BATS_TEST_TMPDIR:/mnt/here" busybox true
  moss create --name "$t-2" --label "set=$t" --network none busybox true
  expect equal "$(names all=1 "{\"label\":[\"set=$t\"],\"volume\":[\"/mnt/here\"]}")" "$t-1"
  expect equal "$(names all=1 "{\"label\":[\"set=$t\"],\"volume\":[\"/mnt\"]}")" ""
  expect equal "$(names all=1 "{\"label\":[\"set=$t\"],\"network\":[\"none\"]}")" "$t-2"
  expect equal "$(names all=1 "{\"label\":[\"set=$t\"],\"network\":[\"bridge\"]}")" "$t-1"
  moss rm "$t-1" "$t-2"
}

@test "an entry shows the command, ports with their address, network, status and sizes" {
  t=$(unique entry)
  moss run -d --name "$t" -p 127.0.0.1::8080/tcp --label k=v busybox sh -c 'echo data >/file; sleep 1000' >/dev/null
  entry=$(list size=1 "{\"name\":[\"$t\"]}" | jq '.[0]')
  expect equal "$(jq -r .Command <<<"$entry")" "sh -c 'echo data >/file; sleep 1000'"
  expect equal "$(jq -c '.Ports[0] | [.IP,.PrivatePort,.Type,(.PublicPort > 0)]' <<<"$entry")" '["127.0.0.1",8080,"tcp",true]'
  expect equal "$(jq -r .HostConfig.NetworkMode <<<"$entry")" default
  expect --in "$(jq -r '.NetworkSettings.Networks | keys[]' <<<"$entry")" contains bridge
  expect --in "$(jq -r .Status <<<"$entry")" matches '^(Up|Less)'
  expect equal "$(jq -c '[.State,.Image,.Labels.k,.Names[0],(.SizeRootFs > .SizeRw)]' <<<"$entry")" "[\"running\",\"busybox\",\"v\",\"/$t\",true]"
  expect equal "$(list "" "{\"name\":[\"$t\"]}" | jq -c '.[0] | [has("SizeRw"),has("SizeRootFs")]')" '[false,false]'
  expect equal "$(list "" "{\"name\":[\"$t\"]}" 1.18 | jq -c '.[0] | [has("State"),has("HostConfig"),has("ImageID"),has("Mounts")]')" '[false,false,false,false]'
  moss rm -f "$t"
  moss run --name "$t" busybox sh -c 'exit 3' || true
  expect --in "$(list all=1 "{\"name\":[\"$t\"]}" | jq -r '.[0].Status')" matches '^Exited \(3\) .* ago$'
  moss rm "$t"
  moss create --name "$t" busybox true
  expect equal "$(list all=1 "{\"name\":[\"$t\"]}" | jq -r '.[0].Status')" Created
  moss rm "$t"
}

@test "malformed filters and absurd numbers are 400 and named" {
  refused "" '{' filters
  refused "" '[]' filters
  refused "" '"x"' filters
  refused "" '{"label":5}' label
  refused "" '{"nope":["x"]}' nope
  refused "" '{"status":["asleep"]}' status
  refused "" '{"exited":["soon"]}' exited
  refused "" '{"exited":["99999999999999999999"]}' exited
  refused "" '{"isolation":["total"]}' isolation
  refused "" '{"name":["("]}' name
  refused "" '{"before":["no-such-container"]}' before
  refused "" '{"since":["no-such-container"]}' since
  refused "before=no-such-container" "" before
  refused "since=no-such-container" "" since
  refused "limit=x" "" limit
  refused "limit=1.5" "" limit
  refused "limit=99999999999999999999" "" limit
}

@test "status words are those of the version" {
  refused "" '{"status":["created"]}' created 1.18
  refused "" '{"status":["created"]}' created 1.19
  refused "" '{"status":["dead"]}' dead 1.21
  refused "" '{"status":["removing"]}' removing 1.22
  for pair in 1.18:exited 1.18:paused 1.20:created 1.22:dead 1.24:removing; do
    run api GET "/v${pair%%:*}/containers/json?filters=%7B%22status%22%3A%5B%22${pair#*:}%22%5D%7D"
    expect line -1 200
  done
}

@test "docker ps filters and formats" {
  t=$(unique docker)
  four "$t"
  run dock ps -a --filter "label=set=$t" --format '{{.Names}}'
  expect output "$(printf '%s\n' "$t-4" "$t-3" "$t-2" "$t-1")"
  run dock ps -a --filter "label=set=$t" --filter exited=3 --format '{{.Names}} {{.Status}}'
  expect matches "^$t-2 Exited \(3\)"
  run dock ps -q --filter "name=^$t-3\$" --no-trunc
  expect matches '^[0-9a-f]{64}$'
  run dock ps -n 1 --filter "label=set=$t" --format '{{.Names}}'
  expect output "$t-4"
  run dock ps -a --filter "label=set=$t" --filter 'ancestor=busybox' --filter status=running --format '{{.Names}} {{.Command}}'
  expect contains "$t-3" 'sleep 1000'
  drop_four "$t"
}
