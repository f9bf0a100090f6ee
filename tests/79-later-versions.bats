#!/usr/bin/env bats
# The versions of the API after 1.24, which an engine serves whose api-max says so.

load lib/moss

setup_file() {
  start_engine --api-max 1.51
  import_busybox
  api POST /v1.51/volumes/create '{"Name":"data","Labels":{"a":"1"},"DriverOpts":{}}' >/dev/null
  api POST "/v1.51/containers/create?name=all" '{"Image":"busybox","Cmd":["sleep","100000"],"Labels":{"a":"1"},"Volumes":{"/v":{}},
    "HostConfig":{"Binds":["data:/data"],"Mounts":[{"Type":"tmpfs","Target":"/m"}]}}' >/dev/null
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
    same info "$v" /info info.{CgroupVersion,Runtimes.runtimeArgs,Swarm.Cluster,Swarm.Managers,Swarm.Nodes,ContainerdCommit.Expected}
    same version "$v" /version
    same volume "$v" /volumes/data volume.Status
    same image "$v" /images/busybox/json image.Variant create.{ExposedPorts,PublishService,Healthcheck,ArgsEscaped,StopSignal,StopTimeout,Shell,Memory,MemorySwap,CpuShares,Cpuset,CpusetCpus,VolumeDriver}
    same images "$v" "/images/json?digests=1"
    same exec.inspect "$v" "/exec/$exec/json"
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
