#!/usr/bin/env bats
# bats file_tags=subids
# Records as a whole: what the engine answers has, at every version, the fields that docs/fields.tsv has for it, in their form,
# and no others. With it what is not of containers, images or networks: volumes, the engine, events, errors, conventions.

load lib/moss

setup_file() {
  start_engine --label place=here
  import_busybox
  local name=all
  api POST /volumes/create '{"Name":"data","Labels":{"a":"1"}}' >/dev/null
  api POST "/v1.24/containers/create?name=$name" '{"Image":"busybox","Cmd":["sh","-c","while :; do sleep 1; done"],"Labels":{"a":"1"},"ExposedPorts":{"53/udp":{}},
    "Volumes":{"/v":{}},"Healthcheck":{"Test":["CMD","true"],"Interval":1000000000},"StopSignal":"SIGINT",
    "HostConfig":{"Binds":["data:/data"],"PortBindings":{"80/tcp":[{"HostIp":"127.0.0.1","HostPort":""}]},"Sysctls":{"net.ipv4.ip_forward":"1"},"Tmpfs":{"/t":""},
      "Mounts":[{"Type":"tmpfs","Target":"/m"}],"Ulimits":[{"Name":"core","Soft":5,"Hard":5}],"Devices":[{"PathOnHost":"/dev/zero"}]},
    "NetworkingConfig":{"EndpointsConfig":{"bridge":{"Aliases":null}}}}' >/dev/null
  moss start "$name" >/dev/null
  checked() { [ "$(answer_of /containers/all/json '.State.Health.Log | length')" -gt 0 ]; }
  eventually 20 checked
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

versions="1.18 1.19 1.20 1.21 1.22 1.23 1.24"
# record PREFIX VERSION PATH [OPTIONAL...]: where the answer differs from the list. OPTIONAL may be missing in it.
record() { api GET "/v$2$3" | head -n 1 | python3 "$moss_top/tests/lib/fields.py" "$1" "$2" "${@:4}"; }
# same PREFIX VERSION PATH [OPTIONAL...]
same() {
  local differences
  differences=$(record "$@") || fail "$3 at $2: $differences" || return
  expect equal "$differences" ""
}
# same_json PREFIX VERSION JSON [OPTIONAL...]
same_json() {
  local differences
  differences=$(python3 "$moss_top/tests/lib/fields.py" "$1" "$2" "${@:4}" <<<"$3") || fail "$1 at $2: $differences" || return
  expect equal "$differences" ""
}
get() { api GET "$1" | head -n 1; }
filtered() { curl -sS -G --max-time 180 --unix-socket "$MOSS_SOCK" -w '\n%{http_code}\n' --data-urlencode "filters=$2" "http://moss$1"; }
# happened SINCE FILTERS [VERSION]: the events since then, one in a line.
happened() {
  curl -sS -G --max-time 180 --unix-socket "$MOSS_SOCK" --data-urlencode "filters=$2" "http://moss/v${3:-1.24}/events?since=$1&until=$(date +%s.%N)"
}

@test "containers: list and inspect have the fields that the list has of each version, and no others" {
  for v in $versions; do
    same list "$v" "/containers/json?size=1" list.Ports.IP list.Ports.PublicPort mount.Name mount.Driver
    same inspect "$v" "/containers/all/json?size=1" create.PublishService create.ArgsEscaped create.Memory create.MemorySwap create.CpuShares create.Cpuset \
      create.{CpusetCpus,StopTimeout,Shell} host.{Init,NanoCpus} create.VolumeDriver create.Healthcheck.StartPeriod create.Healthcheck.Timeout create.Healthcheck.Retries mount.Name mount.Driver \
      host.StorageOpt host.MaskedPaths host.ReadonlyPaths host.DeviceCgroupRules host.Mounts.{Source,ReadOnly,Consistency,BindOptions,VolumeOptions,TmpfsOptions,ImageOptions,ClusterOptions} \
      inspect.HostConfig.ContainerIDFile
  done
}

@test "images and networks: records have the fields that the list has of each version, and no others" {
  for v in $versions; do
    same images "$v" "/images/json?digests=1"
    same image "$v" /images/busybox/json image.OsVersion image.Config.{ExposedPorts,Healthcheck,ArgsEscaped,StopSignal,Shell} create.{ExposedPorts,PublishService,Healthcheck,ArgsEscaped,StopSignal,StopTimeout,Shell,Memory,MemorySwap,CpuShares,Cpuset,CpusetCpus,VolumeDriver}
    same history "$v" /images/busybox/history
    [ "${v#1.}" -ge 21 ] || continue
    same network "$v" /networks/bridge network.Containers.Name network.IPAM.Config.{IPRange,Gateway,AuxAddress,AuxiliaryAddresses}
  done
}

@test "stats: every field in the versions that have it, with its form" {
  for v in 1.18 1.20 1.21 1.24; do
    one=$(timeout 180 curl -sN --unix-socket "$MOSS_SOCK" "http://moss/v$v/containers/all/stats?stream=0" | head -n 1)
    same_json stats "$v" "$one" stats.blkio_stats.entry
    same_json stats.networks "$v" "$(jq '.network // .networks.eth0' <<<"$one")"
    same_json stats.blkio_stats.entry "$v" "$(jq '.blkio_stats | [.[][]] + [{major: 8, minor: 0, op: "Read", value: 1}]' <<<"$one")"
  done
}

@test "top, changes, path stat, wait and exec: every field, with its form" {
  moss exec all touch /new
  for v in 1.18 1.20 1.21 1.22 1.24; do
    same top "$v" /containers/all/top
    same changes "$v" /containers/all/changes
    run api POST "/v$v/containers/all/exec" '{"Cmd":["sh","-c","exit 3"],"AttachStdout":true}'
    expect line -1 201
    same_json exec.created "$v" "${lines[0]}"
    id=$(jq -r .Id <<<"${lines[0]}")
    api POST "/v$v/exec/$id/start" '{}' >/dev/null
    same_json exec.inspect "$v" "$(get "/v$v/exec/$id/json" | jq 'del(.Container)')" exec.inspect.Container
    expect equal "$(get "/v$v/exec/$id/json" | jq -c '[.ExitCode, has("Container")]')" "[3,$([ "${v#1.}" -le 21 ] && echo true || echo false)]"
    [ "${v#1.}" -ge 20 ] || continue
    stat=$(curl -sS --head --max-time 180 --unix-socket "$MOSS_SOCK" "http://moss/v$v/containers/all/archive?path=/new" | tr -d '\r' | sed -n 's/^X-Engine-Container-Path-Stat: //ip')
    same_json pathstat "$v" "$(base64 -d <<<"$stat")"
  done
  name=$(unique ended)
  run api POST "/containers/create?name=$name" '{"Image":"busybox","Cmd":["sh","-c","exit 4"]}'
  same_json created 1.24 "${lines[0]}"
  moss start "$name"
  run api POST "/containers/$name/wait"
  same_json wait 1.24 "${lines[0]}" wait.Error
  expect equal "$(jq .StatusCode <<<"${lines[0]}")" 4
  moss rm "$name"
}

@test "volumes: every field of record, list and create in the versions that have it, with its form" {
  for v in 1.21 1.22 1.23 1.24; do
    name=$(unique vol)
    run api POST "/v$v/volumes/create" "{\"Name\":\"$name\",\"Labels\":{\"b\":\"2\"},\"DriverOpts\":{\"type\":\"tmpfs\",\"device\":\"tmpfs\",\"o\":\"size=1m\"}}"
    expect line -1 201
    same_json volume "$v" "${lines[0]}"
    same volume "$v" "/volumes/$name"
    expect equal "$(get "/v1.24/volumes/$name" | jq -c '[.Labels, .Scope, .Driver]')" "[$([ "$v" = 1.24 ] && echo '{"b":"2"}' || echo '{}'),\"local\",\"local\"]"
    same volumes "$v" /volumes volume.Status
    api DELETE "/v$v/volumes/$name" >/dev/null
  done
}

@test "volumes: every status, filter and field of the endpoints" {
  idle=$(unique idle)
  api POST /v1.24/volumes/create "{\"Name\":\"$idle\",\"Driver\":\"local\"}" >/dev/null
  # dangling: in use or not, in the words for true and false.
  for v in 1.21 1.22 1.24; do
    for yes in 1 true; do expect equal "$(filtered "/v$v/volumes" "{\"dangling\":[\"$yes\"]}" | head -n 1 | jq -c --arg n "$idle" '[.Volumes[].Name | select(. == $n or . == "data")]')" "[\"$idle\"]"; done
    for no in 0 false; do expect equal "$(filtered "/v$v/volumes" "{\"dangling\":[\"$no\"]}" | head -n 1 | jq -c --arg n "$idle" '[.Volumes[].Name | select(. == $n or . == "data")]')" '["data"]'; done
  done
  expect equal "$(filtered /v1.24/volumes "{\"name\":[\"${idle:2}\"]}" | head -n 1 | jq -c '[.Volumes[].Name]')" "[\"$idle\"]"
  expect equal "$(filtered /v1.24/volumes '{"driver":["loc"],"name":["data"]}' | head -n 1 | jq -c '[.Volumes[].Name]')" '["data"]'
  expect equal "$(filtered /v1.24/volumes '{"driver":["other"]}' | head -n 1 | jq -c '.Volumes | length')" 0
  for filter in name driver; do
    expect equal "$(filtered /v1.22/volumes "{\"$filter\":[\"x\"]}" | tail -n 1)" 500
  done
  for call in "DELETE data 409" "DELETE none 404" "GET none 404" "DELETE $idle 204" "GET $idle 404"; do
    read -r method name code <<<"$call"
    run api "$method" "/v1.21/volumes/$name"
    expect line -1 "$code"
  done
}

@test "info: every field in the versions that have it, with its form" {
  for v in $versions; do
    same info "$v" /info info.Plugins.Log info.Runtimes.runtimeArgs info.Swarm.Nodes info.Swarm.Managers info.Swarm.Cluster
  done
  expect equal "$(get /v1.18/info | jq -c '[.Debug, .MemoryLimit, .SwapLimit, .IPv4Forwarding | type]')" '["boolean","boolean","boolean","boolean"]'
  expect equal "$(get /v1.19/info | jq -c '[.Debug, .MemoryLimit, .SwapLimit, .IPv4Forwarding | type]')" '["boolean","boolean","boolean","boolean"]'
  expect equal "$(get /info | jq -c '[.OSType, .Labels, .Swarm.LocalNodeState, .EngineRootDir == .DockerRootDir]')" '["linux",["place=here"],"inactive",true]'
}

@test "version: every field at every version, with its form" {
  for v in $versions; do
    same version "$v" /version
    expect equal "$(get "/v$v/version" | jq -r '"\(.ApiVersion) \(.MinAPIVersion)"')" "1.51 1.18"
  done
}

@test "events: every field of a message, with its form, for each type" {
  name=$(unique seen)
  since=$(date +%s.%N)
  moss run -d --name "$name" -v "$name:/v" busybox sleep 1000 >/dev/null
  moss rm -f "$name" >/dev/null
  api POST "/images/busybox/tag?repo=$name" >/dev/null
  api DELETE "/images/$name" >/dev/null
  api DELETE "/volumes/$name" >/dev/null
  for v in 1.18 1.21 1.24; do
    types="container image volume network"
    [ "$v" != 1.18 ] || types="container image" # which has no volumes and no networks
    for type in $types; do
      all=$(happened "$since" "{\"type\":[\"$type\"]}" "$v")
      expect equal "$(jq -r .Type <<<"$all" | sort -u)" "$type"
      short=(message.from)
      case $type in container) short=() ;; volume | network) short=(message.status message.id message.from) ;; esac
      same_json message "$v" "$(jq -s . <<<"$all")" "${short[@]}"
      expect equal "$(jq -r '.time == (.timeNano / 1e9 | floor)' <<<"$all" | sort -u)" true
      case $type in
        container | image) expect equal "$(jq -c '[.status == .Action, .id == .Actor.ID]' <<<"$all" | sort -u)" '[true,true]' ;;
        *) expect equal "$(jq -c '[has("status"), has("id"), has("from")]' <<<"$all" | sort -u)" '[false,true,false]' ;;
      esac
    done
  done
  expect equal "$(happened "$since" '{"type":["volume","network"]}' 1.20)" ""
  expect equal "$(happened "$since" "{\"container\":[\"$name\"],\"type\":[\"container\"]}" | jq -r .from | sort -u)" busybox
}

@test "events: the order of a run" {
  name=$(unique ordered)
  since=$(date +%s.%N)
  id=$(api POST "/containers/create?name=$name" '{"Image":"busybox","Cmd":["true"]}' | head -n 1 | jq -r .Id)
  curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -X POST "http://moss/containers/$name/attach?stream=1&stdout=1" >/dev/null &
  viewer=$!
  attached() { [ -n "$(happened "$since" "{\"container\":[\"$name\"],\"event\":[\"attach\"]}")" ]; }
  eventually 10 attached
  moss start "$name"
  api POST "/containers/$name/wait" >/dev/null
  moss rm "$name"
  wait "$viewer"
  gone() { [ -n "$(happened "$since" "{\"container\":[\"$name\"],\"event\":[\"destroy\"]}")" ]; }
  eventually 10 gone
  expect equal "$(happened "$since" '{"type":["container","network"]}' | jq -r --arg id "$id" 'select(.Actor.ID == $id or .Actor.Attributes.container == $id).Action' | tr '\n' ' ')" "create attach connect start die disconnect destroy "
}

@test "errors: the form of each version" {
  for v in $versions ''; do
    run curl -sS -i --unix-socket "$MOSS_SOCK" "http://moss${v:+/v$v}/containers/none/json"
    expect contains "404 Not Found"
    if [ -z "$v" ] || [ "$v" = 1.24 ]; then
      expect contains $'Content-Type: application/json\r' '{"message":"'
    else
      expect contains "Content-Type: text/plain"
      expect lacks '"message"'
    fi
  done
}

@test "conventions: booleans, filters, ids and names, times" {
  id=$(get /containers/all/json | jq -r .Id)
  for yes in 1 true True; do expect equal "$(get "/containers/json?size=$yes" | jq -r '.[] | select(.Id == "'"$id"'") | has("SizeRw")')" true; done
  for no in 0 false False; do expect equal "$(get "/containers/json?size=$no" | jq -r '.[] | select(.Id == "'"$id"'") | has("SizeRw")')" false; done
  for filters in '{"name":["all"]}' '{"name":{"all":true}}'; do
    expect equal "$(filtered /containers/json "$filters" | head -n 1 | jq -r '.[].Id')" "$id"
  done
  for ref in all "$id" "${id:0:12}"; do expect equal "$(get "/containers/$ref/json" | jq -r .Id)" "$id"; done
  expect equal "$(get /containers/json | jq -r '.[0].Created | type')" number
  expect --in "$(get /containers/all/json | jq -r .Created)" matches '^20[0-9-]*T[0-9:]*\.[0-9]*Z$'
  # A body in chunks, and one whose media type has a parameter.
  name=$(unique chunks)
  run curl -sS --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/json; charset=utf-8' -H 'Transfer-Encoding: chunked' -w '\n%{http_code}' \
    --data-binary '{"Image":"busybox","Cmd":["true"]}' "http://moss/containers/create?name=$name"
  expect line -1 201
  moss rm "$name"
}

@test "services and tasks: 406 without a swarm, from 1.24 on" {
  calls="GET /services GET /services/x DELETE /services/x GET /tasks GET /tasks/x GET /swarm GET /swarm/unlockkey GET /nodes GET /nodes/x DELETE /nodes/x"
  # shellcheck disable=SC2086 # Words are meant.
  set -- $calls POST /services/create POST /services/x/update POST /swarm/leave POST /swarm/update POST /nodes/x/update
  while [ $# -gt 0 ]; do
    run api "$1" "/v1.24$2"
    expect line -1 406
    expect contains "This node is not"
    run api "$1" "/v1.23$2"
    expect line -1 404
    shift 2
  done
  for path in /swarm/init /swarm/join; do
    run api POST "/v1.24$path" '{"ListenAddr": "none of this host"}'
    expect line -1 400
  done
  for path in /swarm/init /swarm/join /swarm/unlock; do
    run api POST "/v1.23$path" '{}'
    expect line -1 404
  done
}

@test "create: what is read of other versions has its effect or is refused" {
  name=$(unique later)
  make() { run api POST "/v$1/containers/create?name=$name" "{\"Image\":\"busybox\",\"Cmd\":[\"sleep\",\"1000\"],\"HostConfig\":{$2}}"; }
  for v in 1.18 1.24; do
    for bad in '"Cgroup":"container:x"' '"DeviceCgroupRules":["c 1:3 r"]'; do
      make "$v" "$bad"
      expect matches '^(400|501)$'
    done
    make "$v" '"AutoRemove":true,"MaskedPaths":["/etc/passwd"],"ReadonlyPaths":["/var"]'
    expect line -1 201
    moss start "$name"
    expect equal "$(moss exec "$name" sh -c 'wc -c </etc/passwd; touch /var/x 2>/dev/null || echo refused')" $'0\nrefused'
    moss kill "$name"
    eventually 10 is_gone "$name"
  done
  for v in 1.18 1.24; do
    make "$v" '"CpuRealtimePeriod":1000'
    expect line -1 400
    expect contains HostConfig.CpuRealtimePeriod
    make "$v" '"DeviceRequests":[{"Count":-1}]'
    expect line -1 501
    expect contains DeviceRequests
    make "$v" '"Init":true,"NanoCpus":500000000,"Annotations":{"a":"b"},"DeviceRequests":null,"CpuRealtimePeriod":0'
    expect line -1 201
    expect equal "$(get "/containers/$name/json" | jq -c '[.HostConfig.NanoCpus, .HostConfig.Annotations, .Config.StopTimeout]')" '[500000000,{"a":"b"},null]'
    moss rm "$name"
    run api POST "/v$v/containers/create?name=$name" '{"Image":"busybox","Cmd":["env"],"StopTimeout":3,"Env":["A=1","HOSTNAME"],"Memory":8388608,"Privileged":true}'
    expect line -1 201
    expect equal "$(get "/containers/$name/json" | jq -c '[.HostConfig.Memory, .HostConfig.Privileged, .Config.StopTimeout, (.Config.Env | index("HOSTNAME") != null)]')" \
      "[8388608,true,3,true]"
    run moss start -a "$name"
    expect contains A=1 HOME=/root
    [[ $output != *HOSTNAME* ]] || fail "the default HOSTNAME is still there: $output"
    moss rm "$name"
  done
  for bad in '"Runtime":"nosuch"' '"Isolation":"hyperv"'; do
    make 1.24 "$bad"
    expect matches '^(400|501)$'
  done
  make 1.24 '"DiskQuota":5,"CpuCount":5,"ConsoleSize":[24,80]'
  expect line -1 201
  expect --in "$(jq -r '.Warnings[]' <<<"${lines[0]}")" contains DiskQuota CpuCount
  expect equal "$(get "/containers/$name/json" | jq -c .HostConfig.ConsoleSize)" "[24,80]"
  moss rm "$name"
}
