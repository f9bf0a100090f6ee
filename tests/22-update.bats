#!/usr/bin/env bats
# Update: limits of a container that runs reach its cgroup at once, bad ones are refused, and what cannot be applied is
# warned of.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# update NAME BODY [VERSION]
update() { api POST "/v${3:-1.24}/containers/$1/update" "$2"; }
host_config() { moss inspect "$1" | jq -c ".[0].HostConfig | $2"; }
# group NAME FILE: a file of the container's cgroup, as it sees it.
group() { docker_exec "$1" cat "/sys/fs/cgroup/$2"; }
docker_exec() {
  local name=$1
  shift
  dock exec "$name" "$@"
}
runs() { moss run -d --name "$1" "${@:2}" busybox sleep 1000 >/dev/null; }

# bats test_tags=cgroups
@test "limits of a running container change in its cgroup" {
  name=$(unique live)
  runs "$name" -m 64m -c 512
  run update "$name" '{"Memory":33554432,"MemoryReservation":8388608,"CpuShares":256,"CpuPeriod":50000,"CpuQuota":20000,"CpusetCpus":"1","PidsLimit":20}'
  expect line -1 200
  expect equal "$(jq -c .Warnings <<<"${lines[0]}")" '[]'
  expect equal "$(group "$name" memory/memory.limit_in_bytes)" 33554432
  expect equal "$(group "$name" memory/memory.soft_limit_in_bytes)" 8388608
  expect equal "$(group "$name" cpu/cpu.shares)" 256
  expect equal "$(group "$name" cpu/cpu.cfs_period_us)" 50000
  expect equal "$(group "$name" cpu/cpu.cfs_quota_us)" 20000
  expect equal "$(group "$name" cpuset/cpuset.cpus)" 1
  expect equal "$(group "$name" pids/pids.max)" 20
  expect equal "$(host_config "$name" '[.Memory,.MemoryReservation,.CpuShares,.CpuPeriod,.CpuQuota,.CpusetCpus,.PidsLimit]')" \
    '[33554432,8388608,256,50000,20000,"1",20]'
  # What is not named stays, and the limits are those of the next start too.
  run update "$name" '{"CpuShares":300,"PidsLimit":-1}'
  expect line -1 200
  expect equal "$(group "$name" memory/memory.limit_in_bytes)" 33554432
  expect equal "$(group "$name" cpu/cpu.shares)" 300
  expect equal "$(group "$name" pids/pids.max)" 4194304 # as many as there can be
  moss restart -t 0 "$name"
  expect equal "$(group "$name" memory/memory.limit_in_bytes)" 33554432
  expect equal "$(group "$name" cpu/cpu.shares)" 300
  moss rm -f "$name"
}

# bats test_tags=cgroups
@test "a limit below what is in use is refused, and all stays as it was" {
  name=$(unique full)
  moss run -d --name "$name" -m 64m busybox sh -c 'head -c 20000000 /dev/zero | tail -c 20000000 >/dev/null; x=$(head -c 12000000 /dev/zero | tr "\0" x); echo held; sleep 1000; echo $x'
  eventually 20 log_has "$name" held
  run update "$name" '{"Memory":4194304,"CpuShares":77}'
  expect matches '^(409|500)$'
  expect contains "Cannot update container"
  expect equal "$(group "$name" memory/memory.limit_in_bytes)" 67108864
  expect equal "$(group "$name" cpu/cpu.shares)" 1024
  expect equal "$(host_config "$name" '[.Memory,.CpuShares]')" '[67108864,0]'
  is_running "$name"
  moss rm -f "$name"
}

# bats test_tags=cgroups
@test "a paused container takes new limits" {
  name=$(unique paused)
  runs "$name" -c 512
  api POST "/containers/$name/pause"
  run update "$name" '{"CpuShares":100}'
  expect line -1 200
  api POST "/containers/$name/unpause"
  expect equal "$(group "$name" cpu/cpu.shares)" 100
  moss rm -f "$name"
}

# bats test_tags=cgroups
@test "docker update changes limits" {
  name=$(unique docker)
  runs "$name"
  run dock update --memory 32m --memory-swap 64m --cpu-shares 99 "$name"
  expect status 0
  expect equal "$(group "$name" memory/memory.limit_in_bytes)" 33554432
  expect equal "$(group "$name" cpu/cpu.shares)" 99
  moss rm -f "$name"
}

# bats test_tags=cgroups
@test "runc takes new limits as well" {
  command -v runc >/dev/null || skip "runc is missing: install the package runc"
  # An engine of its own, since the runtime is the engine's.
  MOSS_SOCK=$MOSS_DIR/s2
  mkdir -m 0700 "$MOSS_DATA/root2" "$MOSS_DIR/run2"
  "$moss_bin/mossd" --root "$MOSS_DATA/root2" --run-dir "$MOSS_DIR/run2" --host "unix://$MOSS_SOCK" --runtime runc \
    >>"$MOSS_DIR/mossd2.log" 2>&1 3>&- 4>&- &
  other=$!
  eventually 30 ping_ok
  import_busybox
  name=$(unique runc)
  runs "$name" -m 64m
  run update "$name" '{"Memory":33554432,"CpuShares":256}'
  expect line -1 200
  expect equal "$(group "$name" memory/memory.limit_in_bytes)" 33554432
  expect equal "$(group "$name" cpu/cpu.shares)" 256
  moss rm -f "$name"
  kill "$other"
  wait "$other" || true
}

@test "values out of bounds are 400 and name the field, and nothing changes" {
  name=$(unique bad)
  runs "$name" -m 64m
  local body field
  while read -r body field; do
    run update "$name" "$body"
    expect line -1 400
    expect contains "$field"
  done <<'EOT'
{"Memory":1} Memory
{"Memory":-5} Memory
{"Memory":"x"} Memory
{"MemorySwap":1048576} MemorySwap
{"MemoryReservation":137438953472} MemoryReservation
{"BlkioWeight":5} BlkioWeight
{"BlkioWeight":70000} BlkioWeight
{"CpuShares":-1} CpuShares
{"CpuPeriod":10} CpuPeriod
{"CpuQuota":10} CpuQuota
{"CpusetCpus":"a"} cpuset
{"CpusetMems":"-"} cpuset
{"CpusetCpus":"0-8191"} CpusetCpus
{"CpusetMems":"8191"} CpusetMems
{"NanoCpus":9000000000000} NanoCpus
{"RestartPolicy":{"Name":"sometimes"}} sometimes
{"RestartPolicy":{"Name":"always","MaximumRetryCount":3}} always
{"Privileged":true} Privileged
{"Ulimits":[{"Name":"nofile","Soft":1,"Hard":1}]} Ulimits
{ malformed
EOT
  expect equal "$(host_config "$name" '[.Memory,.CpuShares,.RestartPolicy.Name]')" '[67108864,0,"no"]'
  run update no-such-container '{"CpuShares":2}'
  expect line -1 404
  moss rm -f "$name"
}

@test "update is there from 1.22 on, its RestartPolicy from 1.23 on" {
  name=$(unique versions)
  moss create --name "$name" busybox true
  run update "$name" '{"CpuShares":2}' 1.21
  expect line -1 404
  run update "$name" '{"CpuShares":2,"RestartPolicy":{"Name":"always"}}' 1.22
  expect line -1 200
  expect equal "$(host_config "$name" '[.CpuShares,.RestartPolicy.Name]')" '[2,"no"]'
  run update "$name" '{"RestartPolicy":{"Name":"on-failure","MaximumRetryCount":4}}' 1.23
  expect line -1 200
  expect equal "$(host_config "$name" '[.CpuShares,.RestartPolicy.Name,.RestartPolicy.MaximumRetryCount]')" '[2,"on-failure",4]'
  moss rm "$name"
}

@test "a policy that no longer restarts ends a restart loop; update is an event" {
  name=$(unique loop)
  since=$(date +%s)
  moss run -d --name "$name" --restart always busybox sh -c 'exit 3'
  looped() { [ "$(moss inspect "$name" | jq '.[0].RestartCount')" -ge 3 ]; }
  eventually 20 looped
  run update "$name" '{"RestartPolicy":{"Name":"no"}}'
  expect line -1 200
  eventually 10 is_exited "$name"
  count=$(moss inspect "$name" | jq '.[0].RestartCount')
  run moss events --since "$since" --until "$(($(date +%s) + 2))" --filter "container=$name"
  expect contains update
  expect equal "$(moss inspect "$name" | jq '.[0].RestartCount')" "$count"
  is_exited "$name"
  moss rm "$name"
}

@test "without cgroups each limit is warned of and kept" {
  [ "$(answer_of /info .MemoryLimit)" = false ] || skip "cgroups are delegated: run without --cgroups"
  name=$(unique warned)
  runs "$name"
  run update "$name" '{"Memory":33554432,"CpuShares":256,"CpusetCpus":"0","BlkioWeight":20,"KernelMemory":8388608}'
  expect line -1 200
  expect --in "$(jq -r '.Warnings[]' <<<"${lines[0]}")" contains memory "CPU shares" "cpuset cpus" "Block I/O weight" KernelMemory
  expect equal "$(host_config "$name" '[.Memory,.CpuShares,.CpusetCpus,.BlkioWeight]')" '[33554432,256,"0",20]'
  moss rm -f "$name"
}
