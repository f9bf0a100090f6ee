#!/usr/bin/env bats
# The versions of the API after 1.24.

load lib/moss
load lib/ports

setup_file() {
  start_engine
  import_busybox
  api POST /v1.51/volumes/create '{"Name":"data","Labels":{"a":"1"},"DriverOpts":{}}' >/dev/null
  api POST "/v1.51/containers/create?name=all" '{"Image":"busybox","Cmd":["sleep","100000"],"Labels":{"a":"1"},"Volumes":{"/v":{}},
    "HostConfig":{"Binds":["data:/data"],"Mounts":[{"Type":"tmpfs","Target":"/m"}]}}' >/dev/null
  api POST /v1.51/networks/create '{"Name":"net","Attachable":true,"Labels":{"a":"1"},"Options":{"k":"v"},"IPAM":{"Config":[{"Subnet":"10.79.1.0/24"}]}}' >/dev/null
  api POST /v1.51/networks/net/connect '{"Container":"all"}' >/dev/null
  moss start all >/dev/null
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# Those in which a record changes, and the first and the last.
versions="1.25 1.30 1.31 1.35 1.39 1.40 1.41 1.42 1.43 1.44 1.45 1.48 1.49 1.50 1.51"
get() { api GET "$1" | head -n 1; }
# same PREFIX VERSION PATH [OPTIONAL]...: the answer has the fields that the lists have of this version. OPTIONAL may be missing.
same() {
  local differences
  differences=$(get "/v$2$3" | python3 "$moss_top/tests/lib/fields.py" "$1" "$2" "${@:4}") || fail "$3 at $2: $differences" || return
  expect equal "$differences" ""
}

@test "each record has the fields of its version, in their form, and no others" {
  run api POST /v1.51/containers/all/exec '{"Cmd":["true"]}'
  exec=$(jq -r .Id <<<"${lines[0]}")
  for v in $versions; do
    same info "$v" /info info.{CgroupVersion,Runtimes.runtimeArgs,Swarm.Cluster,Swarm.Managers,Swarm.Nodes,ContainerdCommit.Expected,DiscoveredDevices,DiscoveredDevices.Source,DiscoveredDevices.ID}
    same version "$v" /version
    same volume "$v" /volumes/data volume.Status
    same image "$v" /images/busybox/json image.{Variant,OsVersion} image.Config.{ExposedPorts,Healthcheck,ArgsEscaped,StopSignal,Shell} \
      create.{ExposedPorts,PublishService,Healthcheck,ArgsEscaped,StopSignal,StopTimeout,Shell,Memory,MemorySwap,CpuShares,Cpuset,CpusetCpus,VolumeDriver}
    same inspect "$v" /containers/all/json inspect.{SizeRw,SizeRootFs} inspect.HostConfig.ContainerIDFile inspect.State.Health host.{Init,StorageOpt,Annotations,Sysctls,Tmpfs} mount.{Name,Driver} \
      host.Mounts.{Source,ReadOnly,Consistency,BindOptions,VolumeOptions,TmpfsOptions,ImageOptions,ClusterOptions} \
      create.{PublishService,ArgsEscaped,Memory,MemorySwap,CpuShares,Cpuset,CpusetCpus,StopTimeout,Shell,VolumeDriver,ExposedPorts,Healthcheck,StopSignal}
    same images "$v" "/images/json?digests=1"
    same exec.inspect "$v" "/exec/$exec/json"
    same network "$v" /networks/net network.IPAM.Config.{IPRange,Gateway,AuxAddress,AuxiliaryAddresses} network.Peers
  done
}

@test "the engine says what it serves: in version, in its parts, and in a head" {
  for path in /version /v1.51/version; do
    expect equal "$(get $path | jq -r '"\(.ApiVersion) \(.MinAPIVersion) \(.Platform.Name) \(.Components[0] | "\(.Name) \(.Details.ApiVersion) \(.Details.MinAPIVersion)")"')" \
      '1.51 1.18 moss Engine 1.51 1.18'
  done
  expect equal "$(get /v1.34/version | jq 'has("Components")')" false
  expect equal "$(curl -sI --unix-socket "$MOSS_SOCK" http://moss/_ping | tr -d '\r' | awk '$1 == "Api-Version:" { print $2 }')" 1.51
  expect equal "$(api GET /v1.52/info | tail -n 1)" 400
}

@test "settings that versions have lost are warned of, as they were before" {
  for v in 1.39 1.40 1.41 1.42 1.51; do
    name=$(unique lost)
    run api POST "/v$v/containers/create?name=$name" '{"Image":"busybox","Cmd":["true"],"HostConfig":{"KernelMemory":9000000,"DiskQuota":5}}'
    expect equal "${lines[1]}" 201
    expect equal "$(jq -r '.Warnings[]' <<<"${lines[0]}" | grep -cE '^(HostConfig.)?(KernelMemory|DiskQuota) has no effect')" 2
    moss rm "$name"
  done
}

@test "networks: who is in them stands in inspect alone, dangling ones are found, a name is taken once, removal is 204" {
  members() { get "/v$1/networks$2" | jq -c "$3.Containers | [.[] | .Name // \"\"]"; }
  expect equal "$(members 1.27 '' '.[] | select(.Name == "net")')" '[""]'
  expect equal "$(members 1.28 '' '.[] | select(.Name == "net")')" '[]'
  for v in 1.27 1.51; do expect equal "$(members $v /net '')" '["all"]'; done
  expect equal "$(get /v1.51/networks/net | jq -c '[.Attachable, .ConfigFrom.Network, .ConfigOnly, .EnableIPv4, .Ingress]')" '[true,"",false,true,false]'
  expect equal "$(get /v1.51/networks/bridge | jq -c '[.Attachable, .EnableIPv4]')" '[false,true]'
  name=$(unique net)
  moss network create "$name"
  dangling() { get "/v1.40/networks?filters=%7B%22dangling%22%3A%5B%22$1%22%5D%7D" | jq -r '.[].Name' | sort | tr '\n' ' '; }
  expect equal "$(dangling true)" "$name "
  expect equal "$(dangling false)" "bridge host net none "
  expect equal "$(api GET '/v1.39/networks?filters=%7B%22dangling%22%3A%5B%22true%22%5D%7D' | tail -n 1)" 400
  expect equal "$(api POST /v1.43/networks/create "{\"Name\":\"$name\"}" | tail -n 1)" 201
  expect equal "$(api POST /v1.44/networks/create "{\"Name\":\"$name\"}" | tail -n 1)" 409
  for id in $(get /v1.51/networks | jq -r ".[] | select(.Name == \"$name\").Id"); do
    expect equal "$(api DELETE "/v1.25/networks/$id" | tail -n 1)" 204
  done
}

@test "logs end at until; stop and restart take a signal; stats give one sample at once" {
  name=$(unique box)
  moss run -d --name "$name" busybox sh -c 'trap "echo usr1; exit 5" USR1; echo first; while :; do sleep 0.1; done'
  eventually 10 log_has "$name" first
  after=$(date +%s.%N)
  for v in 1.24 1.35; do # at every version
    expect equal "$(get "/v$v/containers/$name/logs?stdout=1&until=$after" | tr -d '\0' | grep -c first)" 1
    expect equal "$(get "/v$v/containers/$name/logs?stdout=1&until=1.5")" ""
  done
  expect equal "$(curl -s --max-time 60 --unix-socket "$MOSS_SOCK" "http://moss/v1.51/containers/$name/logs?stdout=1&follow=1&until=$(date +%s.%N)" | tr -d '\0' | grep -c first)" 1
  expect equal "$(api GET "/v1.51/containers/$name/logs?stdout=1&until=x" | tail -n 1)" 400
  sample() { get "/v1.41/containers/$name/stats?stream=0&$1" | jq -c '[(.preread | startswith("0001-")), (.precpu_stats.system_cpu_usage // 0) > 0, .pids_stats.current > 0]'; }
  expect equal "$(sample one-shot=1)" '[true,false,true]'
  expect equal "$(sample one-shot=0)" '[false,true,true]'
  expect equal "$(api GET "/v1.41/containers/$name/stats?one-shot=1" | tail -n 1)" 400
  expect equal "$(api POST "/v1.42/containers/$name/stop?signal=NONE" | tail -n 1)" 400
  expect equal "$(api POST "/v1.42/containers/$name/restart?signal=USR1" | tail -n 1)" 204
  usr1() { [ "$(moss logs "$name" | grep -c "$1")" = "$2" ]; }
  eventually 10 usr1 first 2
  expect equal "$(api POST "/v1.42/containers/$name/stop?signal=USR1" | tail -n 1)" 204
  expect equal "$(moss wait "$name")" 5
  eventually 10 usr1 usr1 2
  moss rm "$name"
}

@test "streams say by their media type whether they are in frames" {
  name=$(unique box)
  for tty in false true; do
    api POST "/v1.51/containers/create?name=$name-$tty" "{\"Image\":\"busybox\",\"Cmd\":[\"sleep\",\"1000\"],\"Tty\":$tty}" >/dev/null
    moss start "$name-$tty"
    kind=multiplexed-stream
    [ $tty = false ] || kind=raw-stream
    for v in 1.41 1.42 1.51; do
      [ $v = 1.41 ] && want=application/vnd.engine.raw-stream || want=application/vnd.docker.$kind
      for request in "GET logs?stdout=1" "POST attach?logs=1&stdout=1"; do
        expect equal "$(type_of "${request% *}" "/v$v/containers/$name-$tty/${request#* }")" "$want"
      done
      run api POST "/v$v/containers/$name-$tty/exec" "{\"Cmd\":[\"true\"],\"AttachStdout\":true,\"Tty\":$tty}"
      expect equal "$(type_of POST "/v$v/exec/$(jq -r .Id <<<"${lines[0]}")/start" -d "{\"Tty\":$tty}")" "$want"
    done
    moss rm -f "$name-$tty"
  done
}
# type_of METHOD PATH [ARG...]: the media type of the answer.
type_of() {
  curl -s --max-time 60 --unix-socket "$MOSS_SOCK" -X "$1" -H 'Content-Type: application/json' -o /dev/null -w '%{content_type}' "${@:3}" "http://moss$2"
}

@test "events: their scope, the end of an exec and prune come with their versions" {
  begun=$(date +%s.%N)
  # told VERSION [FILTERS]: what has happened since then.
  told() { api GET "/v$1/events?since=$begun&until=$(date +%s.%N)${2:+&filters=$(jq -rn --arg f "$2" '$f|@uri')}" | sed '$d'; }
  moss exec all sh -c 'exit 3' || true
  died() { [ -n "$(told 1.36 '{"event":["exec_die"]}')" ]; }
  eventually 10 died
  id=$(moss inspect --format '{{.Id}}' all)
  for kind in containers images volumes networks; do expect equal "$(api POST "/v1.51/$kind/prune" | tail -n 1)" 200; done
  expect equal "$(api POST /v1.51/build/prune | tail -n 1)" 200
  expect equal "$(told 1.36 | jq -c 'select(.Action == "exec_die") | [.id, .scope, .Actor.Attributes.exitCode, .Actor.Attributes.name]')" "[\"$id\",\"local\",\"3\",\"all\"]"
  for v in 1.24 1.35; do expect equal "$(told $v | jq -c 'select(.Action == "exec_die")')" ""; done
  expect equal "$(told 1.29 | jq -c 'has("scope")' | sort -u)" false
  expect equal "$(told 1.41 '{"event":["prune"]}' | jq -r '.Type + " " + .Actor.Attributes.reclaimed' | sort | sed 's/ [0-9]*$/ bytes/' | tr '\n' ',')" \
    'builder bytes,container bytes,image bytes,network bytes,volume bytes,'
  expect equal "$(told 1.40 '{"event":["prune"]}')" ""
  expect equal "$(told 1.41 '{"event":["prune"],"scope":["local"]}' | grep -c .)" 5
  for filters in '{"scope":["swarm"]}' '{"plugin":["x"]}' '{"service":["x"]}' '{"node":["x"]}' '{"secret":["x"]}' '{"config":["x"]}'; do
    expect equal "$(told 1.33 "$filters")" ""
    expect equal "$(api GET "/v1.24/events?until=1&filters=$(jq -rn --arg f "$filters" '$f|@uri')" | tail -n 1)" 400
  done
}

@test "lists: tasks, ports, images without a name or made before a time; df of some types; platforms" {
  # picked VERSION LIST FILTERS: the names of what the filters pick.
  picked() { get "/v$1/$2?all=1&filters=$(jq -rn --arg f "$3" '$f|@uri')" | jq -c '[.[] | (.Names // .RepoTags)[0]] | sort'; }
  name=$(unique box) port=$(free_port)
  moss run -d --name "$name" -p "127.0.0.1:$port:80" --expose 53/udp busybox sleep 1000
  expect equal "$(picked 1.28 containers/json "{\"publish\":[\"$port\"]}")" "[\"/$name\"]"
  expect equal "$(picked 1.28 containers/json '{"publish":["80"]}')" '[]'
  for port in 80 79-81/tcp 53/udp; do expect equal "$(picked 1.28 containers/json "{\"expose\":[\"$port\"]}")" "[\"/$name\"]"; done
  expect equal "$(picked 1.28 containers/json '{"expose":["53"]}')" '[]'
  expect equal "$(api GET '/v1.28/containers/json?filters=%7B%22expose%22%3A%5B%22x%22%5D%7D' | tail -n 1)" 400
  expect equal "$(picked 1.25 containers/json '{"is-task":["true"]}')" '[]'
  expect equal "$(picked 1.25 containers/json '{"is-task":["false"]}')" "[\"/all\",\"/$name\"]"
  moss rm -f "$name"

  docker_image=$(moss commit all)
  for v in 1.42 1.43; do
    entry=$(get "/v$v/images/json?digests=1" | jq -c --arg id "$docker_image" '.[] | select(.Id == $id) | [.RepoTags, .RepoDigests]')
    [ $v = 1.42 ] && want='[["<none>:<none>"],["<none>@<none>"]]' || want='[[],[]]'
    expect equal "$entry" "$want"
    expect equal "$(get "/v$v/system/df" | jq -c --arg id "$docker_image" '.Images[] | select(.Id == $id) | .RepoTags')" "$(jq -c '.[0]' <<<"$want")"
  done
  moss rmi "$docker_image"
  expect equal "$(picked 1.44 images/json '{"until":["1"]}')" '[]'
  expect equal "$(picked 1.44 images/json '{"until":["0s"]}')" '["busybox:latest"]'

  expect equal "$(get '/v1.42/system/df?type=volume&type=build-cache' | jq -c '[.Images, .Containers, (.Volumes | length), (.BuildCache | type)]')" '[null,null,2,"array"]'
  expect equal "$(get '/v1.41/system/df?type=volume' | jq -c '[.Images, .Containers] | map(type)')" '["array","array"]'
  expect equal "$(api GET '/v1.42/system/df?type=plugin' | tail -n 1)" 400

  for v in 1.24 1.49; do # at every version
    for request in "GET /images/busybox/json" "GET /images/busybox/history" "GET /images/busybox/get" "GET /images/get?names=busybox"; do
      [[ $request == *\?* ]] && join='&' || join='?'
      for platform in "200 {\"os\":\"linux\",\"architecture\":\"$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')\"}" '404 {"os":"linux","architecture":"riscv64"}' '400 linux'; do
        expect equal "$(curl -s --max-time 60 --unix-socket "$MOSS_SOCK" -X "${request% *}" -o /dev/null -w '%{http_code}' \
          "http://moss/v$v${request#* }${join}platform=$(jq -rn --arg p "${platform#* }" '$p|@uri')")" "${platform%% *}"
      done
    done
  done
  expect equal "$(api DELETE "/v1.50/images/busybox?platforms=$(jq -rn '"{\"os\":\"windows\",\"architecture\":\"amd64\"}"|@uri')" | tail -n 1)" 404
}

@test "volumes/prune takes what nobody named from 1.42 on, and the rest where it is told to" {
  name=$(unique volume)
  box=$(moss create -v /anonymous busybox true)
  anonymous=$(moss inspect "$box" | jq -r '.[0].Mounts[0].Name')
  moss rm "$box"
  unnamed=$(api POST /v1.51/volumes/create '{}' | head -n 1 | jq -r .Name)
  moss volume create "$name"
  moss volume create --opt type=tmpfs --opt device=tmpfs "$name-elsewhere" # the options are all that leads to its files
  expect equal "$(moss volume inspect "$anonymous" | jq -c '.[0].Labels')" '{"com.docker.volume.anonymous":""}'
  pruned() { api POST "/v$1/volumes/prune${2:+?filters=$(jq -rn --arg f "$2" '$f|@uri')}" | head -n 1 | jq -c '.VolumesDeleted | sort'; }
  expect equal "$(pruned 1.42)" "$(jq -cn '$ARGS.positional | sort' --args "$anonymous" "$unnamed")"
  expect equal "$(pruned 1.42 '{"all":["1"]}')" "[\"$name\"]"
  moss volume create "$name"
  expect equal "$(api POST "/v1.41/volumes/prune?filters=$(jq -rn '"{\"all\":[\"1\"]}"|@uri')" | tail -n 1)" 400
  expect equal "$(pruned 1.41)" "[\"$name\"]"
  moss volume rm "$name-elsewhere"
}

@test "images: what others share, who uses them, what a build and a load make of them" {
  name=$(unique image) begun=$(date +%s.%N)
  moss build -t "$name" - <<<$'FROM busybox\nRUN echo more >/more\n'
  id=$(moss inspect --type image --format '{{.Id}}' "$name")
  # entry VERSION QUERY: sizes that are shared and users of both images.
  entry() { get "/v$1/images/json?$2" | jq -c '[.[] | select(.RepoTags[0] | test("^(busybox|image)")) | [.SharedSize, .Containers]] | sort'; }
  expect equal "$(entry 1.41 shared-size=1)" '[[-1,-1],[-1,-1]]'
  expect equal "$(entry 1.42 shared-size=1 | jq -c 'map(.[0] > 1000)')" '[true,true]'
  expect equal "$(entry 1.51)" '[[-1,0],[-1,1]]'
  # made VERSION: of what a build told since then.
  made() { api GET "/v$1/events?since=$begun&until=$(date +%s.%N)&filters=$(jq -rn '"{\"type\":[\"image\"],\"event\":[\"create\"]}"|@uri')" | sed '$d' | jq -r .Actor.ID; }
  expect equal "$(made 1.46)" "$id"
  expect equal "$(made 1.45)" ""
  moss save -o "$BATS_TEST_TMPDIR/a.tar" busybox
  # loaded ARCHITECTURE: the answer to a load for it.
  loaded() { curl -s --max-time 60 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' --data-binary @"$BATS_TEST_TMPDIR/a.tar" \
    "http://moss/v1.48/images/load?platform=$(jq -rn --arg a "$1" '{os: "linux", architecture: $a} | tojson | @uri')"; }
  expect --in "$(loaded riscv64)" contains 'and linux/riscv64 was asked for'
  expect --in "$(loaded "$(moss inspect --type image --format '{{.Architecture}}' busybox)")" contains 'Loaded image: busybox:latest'
  moss rmi "$name"
}
