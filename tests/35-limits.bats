#!/usr/bin/env bats
# Limits by cgroups: with folders of cgroup v1 delegated to the user (tag cgroups), and without any.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
# Some tests start another engine: whoever comes next finds it by the file.
running_engine() { MOSSD_PID=$(cat "$MOSS_DIR/mossd.pid"); }
teardown_file() {
  running_engine
  stop_engine
}
setup() {
  running_engine
  begin
}
teardown() { finish; }

# state NAME FIELD: a part of a container's state.
state() { moss inspect "$1" | jq -r ".[0].State.$2"; }
# info FILTER: a part of /info.
info() { answer_of /info -c "$1"; }
# own_group HIERARCHY: our own path in it.
own_group() { sed -n "s/^[0-9]*:\(name=\)\{0,1\}$1://p" /proc/self/cgroup; }
# groups: how many cgroups of containers there are, over all hierarchies.
groups() { find /sys/fs/cgroup/*"$(own_group memory)"/moss-* -mindepth 1 -type d 2>/dev/null | wc -l; }

# all_limits: a container with every limit tells what it finds.
all_limits() {
  moss run --rm -m 32m --memory-reservation 8m --pids-limit 10 --cpu-period 100000 --cpu-quota 20000 -c 512 --cpuset-cpus 1 \
    busybox sh -c 'cd /sys/fs/cgroup
    for f in memory/memory.limit_in_bytes memory/memory.soft_limit_in_bytes pids/pids.max cpu/cpu.cfs_quota_us \
      cpu/cpu.shares cpuset/cpuset.cpus; do echo "${f#*/}=$(cat $f)"; done; grep Cpus_allowed_list /proc/self/status'
}
limits_hold() {
  run all_limits
  expect status 0
  expect contains memory.limit_in_bytes=33554432 memory.soft_limit_in_bytes=8388608 pids.max=10 cpu.cfs_quota_us=20000 \
    cpu.shares=512 cpuset.cpus=1 $'Cpus_allowed_list:\t1'
}
oom_is_told() {
  name=$(unique oom)
  since=$(date +%s)
  run moss run --name "$name" -m 16m busybox sh -c 'tail /dev/zero'
  expect status 137
  expect equal "$(state "$name" OOMKilled)" true
  run moss events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$name"
  expect contains oom
  # The next start is a new one.
  moss start "$name"
  eventually 20 is_exited "$name"
  moss rm "$name"
}
is_exited() { [ "$(state "$1" Status)" = exited ]; }

# bats test_tags=cgroups
@test "info says that every limit can be applied" {
  expect equal "$(info '[.MemoryLimit,.CpuCfsPeriod,.CpuCfsQuota,.CPUShares,.CPUSet,.OomKillDisable,.CgroupDriver]')" \
    '[true,true,true,true,true,true,"cgroupfs"]'
  expect --in "$(info .Warnings)" lacks "No memory limit" "No pids limit" "No cgroup is delegated"
}

# bats test_tags=cgroups
@test "memory, pids, cpu and cpuset limits hold" { limits_hold; }

# bats test_tags=cgroups
@test "out of memory: code 137, OOMKilled and an event" { oom_is_told; }

# bats test_tags=cgroups
@test "an exit by SIGKILL without a lack of memory is not OOMKilled" {
  name=$(unique killed)
  moss run -d --name "$name" -m 16m busybox sleep 1000
  moss kill "$name"
  run moss wait "$name"
  expect output 137
  expect equal "$(state "$name" OOMKilled)" false
  moss rm "$name"
}

# bats test_tags=cgroups
@test "the pids limit keeps a fork bomb in" {
  run moss run --rm --pids-limit 10 busybox sh -c 'for i in $(seq 12); do sleep 100 & done; wait'
  expect contains "can't fork"
}

# bats test_tags=cgroups
@test "the threads of Init's first process do not count against the pids limit" {
  run moss run --rm --init --pids-limit 1 busybox echo there
  expect output there
  run moss run --rm --init --pids-limit 5 busybox sh -c 'for i in $(seq 30); do sleep 100 & done; wait'
  expect contains "can't fork"
}

# bats test_tags=cgroups
@test "the container sees its own cgroup as the root, and no other" {
  name=$(unique view)
  moss run -d --name "$name" busybox sleep 1000
  run cat "/proc/$(state "$name" Pid)/cgroup"
  expect matches ":memory:$(own_group memory)/moss-[0-9a-f]{8}/[0-9a-f]{64}$"
  run moss run --rm busybox cat /proc/self/cgroup
  expect matches ':memory:/$'
  run moss run --rm busybox ls /sys/fs/cgroup/memory
  expect contains memory.limit_in_bytes
  expect lacks moss-
  moss rm -f "$name"
}

# bats test_tags=cgroups
@test "create warns of nothing that can be applied" {
  run api POST /containers/create '{"Image":"busybox","Cmd":["true"],"HostConfig":{"Memory":16777216,"PidsLimit":5,"CpuShares":3,"CpusetCpus":"0","CpuQuota":10000}}'
  expect line -1 201
  expect equal "$(jq -c .Warnings <<<"${lines[0]}")" '[]'
  moss rm "$(jq -r .Id <<<"${lines[0]}")"
}

# bats test_tags=cgroups
@test "cgroups go with their containers" {
  name=$(unique gone)
  before=$(groups)
  moss run -d --name "$name" -m 16m busybox sleep 1000
  [ "$(groups)" -gt "$before" ]
  moss rm -f "$name"
  expect equal "$(groups)" "$before"
  run -127 moss run --rm busybox /no/such/command
  expect equal "$(groups)" "$before"
  run moss run --rm --cpu-quota 9223372036854775807 busybox true # which the kernel refuses
  expect status 125
  expect contains cpu.cfs_quota_us
  expect equal "$(groups)" "$before"
}

# bats test_tags=cgroups
@test "runc applies the same limits, and the engine leaves no cgroup behind" {
  halt_engine
  expect equal "$(find /sys/fs/cgroup/*"$(own_group memory)" -mindepth 1 -type d)" ""
  spawn_engine --runtime runc
  expect equal "$(info .DefaultRuntime)" '"runc"'
  limits_hold
  oom_is_told
  halt_engine
  expect equal "$(find /sys/fs/cgroup/*"$(own_group memory)" -mindepth 1 -type d)" ""
  spawn_engine
}

# bats test_tags=cgroups
@test "kill -9 of the engine: the next one takes the cgroups up again and leaves none" {
  name=$(unique crash)
  moss run -d --name "$name" -m 16m busybox sleep 1000
  container=$(state "$name" Pid)
  kill -KILL "$MOSSD_PID"
  ended() { [ ! -e "/proc/$container" ]; }
  eventually 20 ended
  spawn_engine
  eventually 20 is_exited "$name"
  moss rm "$name"
  limits_hold
  halt_engine
  expect equal "$(find /sys/fs/cgroup/*"$(own_group memory)" -mindepth 1 -type d)" ""
  spawn_engine
}

# without_cgroups tells whether this user has no cgroup to divide.
without_cgroups() { [ "$(info .CgroupDriver)" = '"none"' ]; }

@test "without cgroups: info and create say so, and the container runs" {
  if ! without_cgroups; then skip "this user has cgroups; hack/as-user.sh without --cgroups takes one who has none"; fi
  expect equal "$(info '[.MemoryLimit,.CpuCfsQuota,.CPUSet]')" '[false,false,false]'
  expect --in "$(info .Warnings)" contains "No memory limit support" "No cgroup is delegated to the user"
  name=$(unique none)
  run api POST "/containers/create?name=$name" '{"Image":"busybox","Cmd":["echo","ran"],"HostConfig":{"Memory":16777216,"PidsLimit":5,"CpuShares":3,"CpusetCpus":"0","CpuQuota":10000}}'
  expect line -1 201
  expect equal "$(jq '.Warnings | length' <<<"${lines[0]}")" 5
  expect contains "memory limit" "pids limit" "CPU shares" "cpuset" "quota"
  run moss start -a "$name"
  expect output ran
  moss rm "$name"
}

@test "without cgroups: runc runs containers too" {
  if ! without_cgroups; then skip "this user has cgroups; hack/as-user.sh without --cgroups takes one who has none"; fi
  halt_engine
  spawn_engine --runtime runc
  run moss run --rm -m 16m busybox sh -c 'echo ran; exit 3'
  expect status 3
  expect contains ran "warning: "
  halt_engine
  spawn_engine
}
