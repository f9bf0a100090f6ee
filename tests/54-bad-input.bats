#!/usr/bin/env bats
# What clients get wrong: 400, or 500 where the documents list no 400, with the field or the value named, and nothing half-made left behind.

load lib/moss

setup_file() {
  export XDG_CONFIG_HOME=$BATS_FILE_TMPDIR/config
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() {
  begin
  box=$(unique box)
  moss run -d --name "$box" busybox sleep 1000 >/dev/null
  before=$(all_there_is)
}
# Whatever was refused has left nothing, and the container as it was.
teardown() {
  local bad=0
  if [ -n "${BATS_TEST_COMPLETED:-}" ]; then diff <(all_there_is) - <<<"$before" || bad=1; fi
  moss rm -f "$box" >/dev/null 2>&1 || true
  finish
  [ $bad = 0 ] || fail "something is left of what was refused"
}

# all_there_is: containers, volumes, images, instances, and the engine's folders.
all_there_is() {
  answer_of '/containers/json?all=1' -c 'map(.Names)'
  answer_of /volumes -c '[.Volumes[]?.Name]'
  answer_of '/images/json?all=1' -c 'map(.Id)'
  answer_of "/containers/$box/json" -c '[.Id, .Name, .HostConfig, .Config, .RestartCount, .ExecIDs, .State.Status, .State.Pid]'
  ls "$MOSS_DATA"/root/{containers,volumes,storage/overlay} "$MOSS_DIR"/run/{tasks,execs}
}

# refused PATH [STATUS]: each line of stdin is WORD|BODY, sent there, refused with 400, or that status where the documents list
# no 400, and an answer that has the word.
refused() {
  local word body code=${2:-400}
  while IFS='|' read -r word body; do
    run api POST "$1" "${body//BOX/$box}"
    [ "${lines[-1]}" = "$code" ] || fail "$1 $body: $output" || return
    [[ ${lines[0]} == *"$word"* ]] || fail "$1 $body: no '$word' in $output" || return
  done
}

# bodies FRAME: the same for create, where %s in FRAME is what stands in the line.
bodies() {
  local word part
  while IFS='|' read -r word part; do
    # shellcheck disable=SC2059
    printf "%s|$1\n" "$word" "$part"
  done | refused "/v1.24/containers/create?name=$box-new"
}

@test "bodies that are no JSON, or no object" {
  printf '%s\n' 'malformed|{' 'malformed|{"Image":"busybox",}' 'malformed|{} {}' 'the body|[]' 'the body|"x"' 'the body|7' 'Config|null' \
    'malformed|{"Image":"busy' 'malformed|nonsense' "malformed|{'Image':'busybox'}" | refused "/containers/create?name=$box-new"
  for path in "containers/$box/update" "commit?container=$box" "v1.23/containers/$box/copy"; do
    printf '%s\n' 'malformed|{' 'the body|[]' 'the body|5' | refused "/$path"
  done
  for path in "containers/$box/exec" networks/create networks/bridge/connect networks/bridge/disconnect volumes/create; do
    printf '%s\n' 'malformed|{' 'the body|[]' 'the body|5' | refused "/v1.24/$path" 500
    printf '%s\n' 'malformed|{' 'the body|[]' 'the body|5' | refused "/$path"
  done
  printf '%s\n' 'malformed|{' 'the body|[]' 'the body|5' | refused "/v1.23/containers/$box/start" 500
  for pair in "create 400" "$box/update 400" "$box/exec 500"; do
    read -r path code <<<"$pair"
    run curl -sS --unix-socket "$MOSS_SOCK" -H 'Content-Type: text/plain' -d '{"Image":"busybox","Cmd":["true"]}' -w '\n%{http_code}' "http://moss/v1.24/containers/$path"
    expect line -1 "$code"
    expect contains Content-Type
  done
}

@test "wrong types in create" {
  bodies '{"Image":"busybox","Cmd":["true"],%s}' <<'LIST'
Image|"Image":5
Cmd|"Cmd":{"a":1}
Entrypoint|"Entrypoint":[1]
Env|"Env":"A=b"
Labels|"Labels":["a=b"]
Tty|"Tty":"yes"
ExposedPorts|"ExposedPorts":["80/tcp"]
Volumes|"Volumes":["/x"]
StopSignal|"StopSignal":[15]
Healthcheck.Test|"Healthcheck":{"Test":"true"}
Healthcheck.Interval|"Healthcheck":{"Interval":"1s"}
HostConfig|"HostConfig":[]
EndpointsConfig|"NetworkingConfig":{"EndpointsConfig":[]}
Aliases|"NetworkingConfig":{"EndpointsConfig":{"bridge":{"Aliases":"x"}}}
LIST
  bodies '{"Image":"busybox","Cmd":["true"],"HostConfig":{%s}}' <<'LIST'
Binds|"Binds":"/tmp:/x"
Memory|"Memory":"1g"
Memory|"Memory":1.5
Memory|"Memory":99999999999999999999
BlkioWeight|"BlkioWeight":70000
BlkioWeight|"BlkioWeight":-1
CpuShares|"CpuShares":"2"
OomKillDisable|"OomKillDisable":"true"
PidsLimit|"PidsLimit":"many"
PortBindings|"PortBindings":{"80/tcp":"8080"}
HostPort|"PortBindings":{"80/tcp":[{"HostPort":8080}]}
RestartPolicy|"RestartPolicy":"always"
MaximumRetryCount|"RestartPolicy":{"Name":"on-failure","MaximumRetryCount":"3"}
LogConfig|"LogConfig":"json-file"
LogConfig.Config|"LogConfig":{"Type":"json-file","Config":{"max-size":5}}
Ulimits|"Ulimits":{"nofile":5}
Soft|"Ulimits":[{"Name":"nofile","Soft":"5","Hard":5}]
Devices|"Devices":["/dev/null"]
Rate|"BlkioDeviceReadBps":[{"Path":"/dev/sda","Rate":"1mb"}]
Tmpfs|"Tmpfs":["/x"]
Sysctls|"Sysctls":["a=b"]
StorageOpt|"StorageOpt":["size=1"]
CapAdd|"CapAdd":{"a":1}
Links|"Links":"a:b"
LIST
}

@test "values of create that cannot be" {
  bodies '{"Image":"busybox","Cmd":["true"],%s}' <<'LIST'
Image|"Image":""
UPPER|"Image":"UPPER:x"
command|"Cmd":[]
command|"Cmd":[""]
a_b|"Hostname":"a_b"
a..b|"Domainname":"a..b"
'rel'|"WorkingDir":"rel"
=x|"Env":["=x"]
a:b:c|"User":"a:b:c"
NOPE|"StopSignal":"NOPE"
99|"StopSignal":"99"
/udp|"ExposedPorts":{"/udp":{}}
70000|"ExposedPorts":{"70000/tcp":{}}
80/ip|"ExposedPorts":{"80/ip":{}}
rel|"Volumes":{"rel":{}}
MacAddress|"MacAddress":"nonsense"
Interval|"Healthcheck":{"Test":["CMD","true"],"Interval":5}
StartPeriod|"Healthcheck":{"Test":["CMD","true"],"StartPeriod":-1}
Retries|"Healthcheck":{"Test":["CMD","true"],"Retries":-1}
SOMETIMES|"Healthcheck":{"Test":["SOMETIMES","true"]}
LIST
  bodies '{"Image":"busybox","Cmd":["true"],"HostConfig":{%s}}' <<'LIST'
rel/path|"Binds":["rel/path:/x"]
rel|"Binds":["/tmp:rel"]
'/'|"Binds":["/tmp:/"]
sideways|"Binds":["/tmp:/x:sideways"]
/x|"Binds":["/tmp:/x","/var:/x"]
/x|"Binds":["/tmp:/x"],"Tmpfs":{"/x/":""}
rel|"Tmpfs":{"rel":""}
size=big|"Tmpfs":{"/x":"size=big"}
sometimes|"RestartPolicy":{"Name":"sometimes"}
always|"RestartPolicy":{"Name":"always","MaximumRetryCount":2}
negative|"RestartPolicy":{"Name":"on-failure","MaximumRetryCount":-2}
etwlogs|"LogConfig":{"Type":"etwlogs"}
max-file|"LogConfig":{"Type":"json-file","Config":{"max-file":"none"}}
99999|"PortBindings":{"80/tcp":[{"HostPort":"99999"}]}
HostIp|"PortBindings":{"80/tcp":[{"HostIp":"here"}]}
x/tcp|"PortBindings":{"x/tcp":[{}]}
CAP_NOPE|"CapAdd":["CAP_NOPE"]
NOPE|"CapDrop":["NOPE"]
nope|"Ulimits":[{"Name":"nope","Soft":1,"Hard":1}]
nofile|"Ulimits":[{"Name":"nofile","Soft":2,"Hard":1}]
Memory|"Memory":1
MemorySwap|"Memory":8388608,"MemorySwap":4194304
MemorySwappiness|"MemorySwappiness":101
MemoryReservation|"Memory":8388608,"MemoryReservation":16777216
CpuShares|"CpuShares":-1
CpuPeriod|"CpuPeriod":1
CpuQuota|"CpuQuota":1
CpusetCpus|"CpusetCpus":"1-0"
CpusetCpus|"CpusetCpus":"0-8191"
CpusetMems|"CpusetMems":"8191"
NanoCpus|"NanoCpus":9000000000000
ConsoleSize|"ConsoleSize":[70000,20]
CpusetMems|"CpusetMems":"all"
BlkioWeight|"BlkioWeight":9
BlkioWeightDevice|"BlkioWeightDevice":[{"Path":"/dev/sda","Weight":5}]
BlkioDeviceReadBps|"BlkioDeviceReadBps":[{"Path":"sda","Rate":5}]
PidsLimit|"PidsLimit":-2
oom score adj|"OomScoreAdj":1001
ShmSize|"ShmSize":-1
network mode|"NetworkMode":"container:"
PID mode|"PidMode":"mine"
IPC mode|"IpcMode":"mine"
UTS mode|"UTSMode":"mine"
Dns|"Dns":["nonsense"]
ExtraHosts|"ExtraHosts":["nonsense"]
kernel.panic|"Sysctls":{"kernel.panic":"1"}
seccomp|"SecurityOpt":["seccomp={"]
nonsense|"SecurityOpt":["nonsense=1"]
volumes-from|"VolumesFrom":[":ro"]
links|"Links":["BOX:a:b"]
links|"Links":[""]
LIST
}

@test "a container that refers to itself" {
  bodies '{"Image":"busybox","Cmd":["true"],"HostConfig":{%s}}' <<LIST
itself|"NetworkMode":"container:$box-new"
itself|"PidMode":"container:$box-new"
itself|"IpcMode":"container:$box-new"
itself|"Links":["$box-new:x"]
VolumesFrom|"VolumesFrom":["$box-new"]
LIST
}

@test "bodies of update, exec, start and commit" {
  refused "/v1.24/containers/$box/update" <<'LIST'
Memory|{"Memory":"64m"}
Memory|{"Memory":5}
CpuShares|{"CpuShares":-7}
BlkioWeight|{"BlkioWeight":1001}
sometimes|{"RestartPolicy":{"Name":"sometimes"}}
Binds|{"Binds":["/tmp:/x"]}
Privileged|{"Privileged":true}
LIST
  refused "/v1.24/containers/$box/exec" 500 <<'LIST'
Cmd|{"Cmd":5}
Cmd|{"Cmd":[1]}
command|{"Cmd":[]}
command|{}
Tty|{"Cmd":["true"],"Tty":"yes"}
User|{"Cmd":["true"],"User":0}
a:b:c|{"Cmd":["true"],"User":"a:b:c"}
detach keys|{"Cmd":["true"],"DetachKeys":"ctrl-1"}
zero byte|{"Cmd":["a\u0000"]}
LIST
  expect equal "$(all_there_is)" "$before"
  id=$(api POST "/containers/$box/exec" '{"Cmd":["true"]}' | head -n 1 | jq -r .Id)
  refused "/v1.24/exec/$id/start" 500 <<'LIST'
Detach|{"Detach":"yes"}
Tty|{"Tty":1}
malformed|{
LIST
  expect equal "$(answer_of "/exec/$id/json" -c '[.Running, .ExitCode]')" '[false,null]'
  before=$(all_there_is) # the instance is there now
  moss create --name "$box-made" busybox true >/dev/null
  refused "/v1.23/containers/$box-made/start" 500 <<'LIST'
Memory|{"Memory":"x"}
rel|{"Binds":["rel/path:/x"]}
/x|{"Binds":["/tmp:/x","/var:/x"]}
sometimes|{"RestartPolicy":{"Name":"sometimes"}}
LIST
  expect equal "$(state "$box-made")" created
  expect equal "$(moss inspect "$box-made" | jq -c '.[0].HostConfig | [.Binds, .Memory]')" '[null,0]'
  moss rm "$box-made" >/dev/null
  refused "/v1.24/commit?container=$box&repo=$box" <<'LIST'
Env|{"Env":"A=b"}
Labels|{"Labels":[]}
LIST
  for query in repo=UPPER repo=a\&tag=-x changes=NONSENSE changes=FROM+x; do refused "/commit?container=$box&$query" <<<'|null'; done
}

@test "query parameters" {
  while read -r word method path code; do
    run api "$method" "/v1.24/$path"
    [ "${lines[-1]}" = "${code:-400}" ] || fail "$path: $output"
    expect contains "$word"
  done <<LIST
signal POST containers/$box/kill?signal=NOPE
signal POST containers/$box/kill?signal=0
signal POST containers/$box/kill?signal=65
signal POST containers/$box/kill?signal=-9
signal POST containers/$box/kill?signal=SIGRTMAX%2B1
tail GET containers/$box/logs?stdout=1&tail=some
tail GET containers/$box/logs?stdout=1&tail=99999999999999999999
tail GET containers/$box/logs?stdout=1&tail=1e3
since GET containers/$box/logs?stdout=1&since=yesterday
since GET containers/$box/logs?stdout=1&since=99999999999999999999
stream GET containers/$box/logs
limit GET containers/json?limit=many
filters GET containers/json?filters=%7B
filters GET containers/json?filters=%5B%5D
label GET containers/json?filters=%7B%22label%22%3A%5B5%5D%7D
nope GET containers/json?filters=%7B%22nope%22%3A%5B%22x%22%5D%7D
status GET containers/json?filters=%7B%22status%22%3A%5B%22asleep%22%5D%7D
filters GET events?filters=x
nope GET events?filters=%7B%22nope%22%3A%5B%22x%22%5D%7D
since GET events?since=now
until GET events?until=later
until GET events?since=10&until=5
t POST containers/$box/stop?t=soon
t POST containers/$box/restart?t=99999999999999999999
h POST containers/$box/resize?h=tall&w=1 500
w POST containers/$box/resize?h=1&w=70000 500
keys POST containers/$box/attach?stream=1&detachKeys=ctrl-1
keys POST containers/$box/start?detachKeys=abc 500
filters GET networks?filters=x 500
nope GET networks?filters=%7B%22nope%22%3A%5B%22x%22%5D%7D 500
filters GET volumes?filters=%5B%5D 500
name POST containers/$box/rename?name=
name POST containers/$box/rename?name=a%2Fb
PID GET containers/$box/top?ps_args=-o%20comm
path GET containers/$box/archive?path=
query GET containers/json?all=%zz
query DELETE containers/$box?force=%zz
LIST
}

# answered STATUS WORD METHOD PATH [BODY]: the answer has that status, the message of a JSON error if it is one, and the word.
answered() {
  run api "${@:3}"
  [ "${lines[-1]}" = "$1" ] || fail "${*:3}: $output" || return
  if [ "$1" -ge 400 ]; then
    jq -e '.message | length > 0' <<<"${lines[0]}" >/dev/null || fail "${*:3}: no message in $output" || return
  fi
  [[ $output == *"$2"* ]] || fail "${*:3}: no '$2' in $output"
}
as_query() { jq -rn --arg text "$1" '$text | @uri'; }

@test "what there is not is refused in words: plugins, checkpoints, secrets, configs, logs of services" {
  for v in /v1.25 /v1.51 ""; do
    for call in "GET /plugins" "POST /plugins/pull?remote=x" "GET /plugins/privileges?remote=x"; do
      answered 501 'plugins are not supported' "${call% *}" "$v${call#* }"
    done
    for call in "GET /plugins/a/b:t/json" "POST /plugins/a/b:t/enable" "DELETE /plugins/a/b:t"; do
      answered 404 'a/b:t\" not found' "${call% *}" "$v${call#* }"
    done
    for call in "GET /containers/$box/checkpoints" "POST /containers/$box/checkpoints" "DELETE /containers/$box/checkpoints/x" \
      "POST /containers/$box/start?checkpoint=x" "POST /containers/$box/start?checkpoint-dir=/tmp"; do
      answered 501 'checkpoints are not supported' "${call% *}" "$v${call#* }"
    done
    for call in "GET /secrets" "GET /secrets/x" "POST /secrets/create" "POST /secrets/x/update?version=1" "DELETE /secrets/x"; do
      answered 406 'This node is not part of a swarm' "${call% *}" "$v${call#* }"
    done
  done
  for call in "GET /configs" "GET /configs/x" "POST /configs/create" "DELETE /configs/x" "GET /services/x/logs" "GET /tasks/x/logs"; do
    answered 406 'This node is not part of a swarm' "${call% *}" "/v1.30${call#* }"
  done
  for path in plugins secrets configs "containers/$box/checkpoints" nonsense; do answered 404 'page not found' GET "/v1.24/$path"; done
  answered 404 'page not found' BREW /v1.51/nonsense
  answered 405 'takes GET' PUT /v1.51/secrets
  answered 501 'BuildKit is not there' POST /v1.51/session
  answered 404 'No such build: \"x\"' POST '/v1.51/build/cancel?id=x'
  answered 501 'cluster volumes' PUT '/v1.51/volumes/x?version=1'
  answered 400 'ClusterVolumeSpec' POST /v1.51/volumes/create '{"Name":"x","ClusterVolumeSpec":{"Group":"g"}}'
  run dock inspect no-such-thing # looks among plugins last, and gives up at anything but 404
  expect contains 'No such object: no-such-thing'
}

@test "filters that are none, at every endpoint that has some" {
  wrong=('[]' 5 '"x"' nonsense '{' '{} {}' '{"nope":["x"]}' '{"label":"x"}' '{"label":[5]}' '{"label":{"a":"b"}}')
  for call in "GET /containers/json" "GET /images/json" "GET /networks" "GET /volumes" "GET /events?until=1" "GET /images/search?term=x" \
    "POST /containers/prune" "POST /images/prune" "POST /networks/prune" "POST /volumes/prune" "POST /build/prune"; do
    [[ $call == *\?* ]] && join='&' || join='?'
    for filters in "${wrong[@]}"; do
      answered 400 ilter "${call% *}" "/v1.51${call#* }${join}filters=$(as_query "$filters")"
    done
  done
  while IFS='|' read -r word call filters; do
    answered 400 "$word" "${call% *}" "/v1.51${call#* }?filters=$(as_query "$filters")"
  done <<'LIST'
is-task|GET /containers/json|{"is-task":["maybe"]}
99999|GET /containers/json|{"expose":["99999"]}
x/y|GET /containers/json|{"publish":["x/y"]}
name|GET /containers/json|{"name":["["]}
nosuch|GET /containers/json|{"before":["nosuch"]}
maybe|GET /images/json|{"dangling":["maybe"]}
until=bogus|GET /images/json|{"until":["bogus"]}
until=bogus|POST /images/prune|{"until":["bogus"]}
until|POST /containers/prune|{"until":["1h","2h"]}
all=maybe|POST /volumes/prune|{"all":["maybe"]}
inuse=maybe|POST /build/prune|{"inuse":["maybe"]}
maybe|GET /networks|{"dangling":["maybe"]}
maybe|GET /volumes|{"dangling":["maybe"]}
LIST
  answered 404 'No such image: nosuch' GET "/v1.51/images/json?filters=$(as_query '{"before":["nosuch"]}')"
  for filters in '{}' null '{"label":null}' '{"label":[]}' '{"label":{}}'; do
    answered 200 "/$box" GET "/v1.51/containers/json?filters=$(as_query "$filters")"
  done
}

@test "platforms that are none" {
  for v in 1.25 1.51; do # load has no 400 before
    for platform in '{"os":"linux"}' '[]' / linux/ linux/amd64/v1/x ../x 'a b' "$(printf 'a%.0s' {1..200})"; do
      answered 400 'is no platform' POST "/v$v/containers/create?name=$box-new&platform=$(as_query "$platform")" '{"Image":"busybox","Cmd":["true"]}'
      for path in "images/create?fromImage=127.0.0.1:1/x" "build?t=$box"; do
        answered 400 'is no platform' POST "/v$v/$path&platform=$(as_query "$platform")"
      done
    done
    for platform in linux '{' '{}' '[]' null '{"os":5}' '{"os":"linux"}' '{"os":"../x"}' '{"os":"linux/amd64"}' '{"os":"linux","architecture":"a b"}'; do
      platform=$(as_query "$platform")
      for call in "GET images/busybox/json?" "GET images/busybox/history?" "GET images/busybox/get?" "GET images/get?names=busybox&" \
        "POST images/load?"; do
        answered 400 'platform' "${call% *}" "/v$v/${call#* }platform=$platform"
      done
      answered 400 'platform' POST "/v$v/images/busybox/push?platform=$platform" '{}'
      answered 400 'platforms' DELETE "/v$v/images/busybox?force=1&platforms=$platform"
    done
    answered 404 'wanted plan9' POST "/v$v/containers/create?platform=plan9" '{"Image":"busybox","Cmd":["true"]}'
  done
}

@test "a header Accept that is none changes no answer" {
  for v in 1.24 1.42 1.51; do
    for call in "GET containers/$box/logs?stdout=1" "GET events?since=1&until=2" "GET networks" "GET nonsense" \
      "POST containers/$box/attach?logs=1&stdout=1"; do
      want=$(curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X "${call% *}" -H Accept: -w '%{http_code} %{content_type}' "http://moss/v$v/${call#* }")
      for accept in nonsense '*/*;q=zz' ';;;' ',' 'application/json;q=0' text/html application/json-seq application/vnd.docker.raw-stream "$(printf 'x%.0s' {1..5000})"; do
        expect equal "$(curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X "${call% *}" -H "Accept: $accept" -w '%{http_code} %{content_type}' "http://moss/v$v/${call#* }")" "$want"
      done
    done
    id=$(api POST "/v$v/containers/$box/exec" '{"Cmd":["echo","said"],"AttachStdout":true}' | head -n 1 | jq -r .Id)
    run curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -H 'Accept: text/html;;' -H 'Content-Type: application/json' -d '{}' -o - -w '%{http_code}' "http://moss/v$v/exec/$id/start"
    expect contains said 200
  done
  before=$(all_there_is) # the instances are there now
}

@test "wait: conditions that are none, and containers that are removed meanwhile" {
  for v in 1.24 1.30 1.51; do
    for condition in bogus REMOVED removed,next-exit %00; do
      answered 400 'invalid condition' POST "/v$v/containers/$box/wait?condition=$condition"
    done
    answered 404 "No such container: $box-none" POST "/v$v/containers/$box-none/wait?condition=removed"
    for condition in not-running next-exit removed; do
      moss run -d --name "$box-gone" busybox sleep 1000 >/dev/null
      # The head comes before the removal begins.
      curl -sSN --max-time 60 --unix-socket "$MOSS_SOCK" -X POST -D "$BATS_TEST_TMPDIR/head" "http://moss/v$v/containers/$box-gone/wait?condition=$condition" >"$BATS_TEST_TMPDIR/body" &
      eventually 10 file_has "$BATS_TEST_TMPDIR/head" '200 OK'
      answered 204 '' DELETE "/v$v/containers/$box-gone?force=1"
      wait $!
      expect equal "$(cat "$BATS_TEST_TMPDIR/body")" '{"StatusCode":137}'
      rm "$BATS_TEST_TMPDIR/head"
    done
  done
}

@test "bodies with both forms of a field" {
  bodies '{"Image":"busybox","Cmd":["true"],%s}' <<'LIST'
must match the endpoint-specific|"MacAddress":"02:42:ac:11:00:05","NetworkingConfig":{"EndpointsConfig":{"bridge":{"MacAddress":"02:42:ac:11:00:06"}}}
Duplicate mount point: /x|"HostConfig":{"Binds":["/tmp:/x"],"Mounts":[{"Type":"bind","Source":"/tmp","Target":"/x"}]}
NanoCpus|"HostConfig":{"NanoCpus":1000000000,"CpuQuota":50000}
Count and DeviceIDs|"HostConfig":{"DeviceRequests":[{"Count":-1,"DeviceIDs":["0"],"Capabilities":[["gpu"]]}]}
LIST
  both='{"Name":"BOX","IPAM":{"Config":[{"Subnet":"10.99.0.0/24","AuxAddress":{"a":"10.99.0.5"},"AuxiliaryAddresses":{"a":"10.99.0.6"}}]}}'
  refused /v1.51/networks/create <<<"different addresses|$both"
  expect lacks "$box" "$(moss network ls --format '{{.Name}}')"
}

@test "CDI files that are damaged, somebody else's, or name what is not there" {
  mkdir -p "$XDG_CONFIG_HOME/cdi"
  file=$XDG_CONFIG_HOME/cdi/a.yaml
  wanted='{"Image":"busybox","Cmd":["true"],"HostConfig":{"DeviceRequests":[{"Driver":"cdi","DeviceIDs":["example.com/xx=dev"]}]}}'
  # device EDITS: writes the file with these edits.
  device() { printf 'cdiVersion: 0.7.0\nkind: example.com/xx\ndevices:\n- {name: dev, containerEdits: {%s}}\n' "$1" >"$file" && chmod 0644 "$file"; }
  # none WORD: the device cannot be had, and the answer has the word.
  none() { answered 400 "$1" POST "/v1.51/containers/create?name=$box-new" "$wanted"; }
  none 'unresolvable CDI device example.com/xx=dev'
  mkfifo "$file" && none 'it is no file'
  rm "$file" && ln -s /etc/hostname "$file" && none "it is somebody else's"
  rm "$file" && ln -s /dev/zero "$file" && none 'it is no file'
  rm "$file" && truncate -s 100G "$file" && none 'more than 4194304'
  truncate -s 0 "$file" && none 'no Spec data'
  head -c 100000 /dev/zero | tr '\0' '[' >"$file" && none 'max depth'
  while IFS='|' read -r word edits; do
    device "$edits"
    none "$word"
  done <<'LIST'
/no/such|mounts: [{hostPath: /no/such, containerPath: /x}]
device node from|deviceNodes: [{path: relative, hostPath: /dev/null}]
zero byte|env: ["A=b\0c"]
is no group|additionalGids: [4294967295]
/no/such|hooks: [{hookName: createRuntime, path: /no/such}]
timeout -1|hooks: [{hookName: createRuntime, path: /bin/sh, timeout: -1}]
LIST
  # A device may come later: it is looked for at the start.
  while IFS='|' read -r word edits; do
    device "$edits"
    answered 201 '' POST "/v1.51/containers/create?name=$box-new" "$wanted"
    answered 400 "$word" POST "/v1.51/containers/$box-new/start"
    moss rm "$box-new" >/dev/null
  done <<'LIST'
/dev/nosuch\": it does not exist|deviceNodes: [{path: /dev/nosuch}]
/etc/passwd\": not a device node|deviceNodes: [{path: /dev/x, hostPath: /etc/passwd}]
nothing may be mounted on /proc|deviceNodes: [{path: /proc/self/mem, hostPath: /dev/null}]
LIST
  device 'env: [A=b]'
  chmod 0777 "$XDG_CONFIG_HOME/cdi" && none 'everybody can write to it'
  rm -r "$XDG_CONFIG_HOME/cdi"
}
