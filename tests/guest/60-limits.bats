#!/usr/bin/env bats
# Limits on cgroup v2, each in the files of the container's own cgroup: of block devices, memory nodes, swap, and by update.

load ../lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() {
  begin
  box=$(unique box)
}
teardown() {
  moss rm -f "$box" >/dev/null 2>&1 || true
  finish
}

# limited HOSTCONFIG WARNINGS: a running container named $box with these settings, whose create warns WARNINGS times.
limited() {
  run api POST "/containers/create?name=$box" "{\"Image\":\"busybox\",\"Cmd\":[\"sleep\",\"1000\"],\"HostConfig\":$1}"
  expect line -1 201
  expect equal "$(jq '.Warnings | length' <<<"${lines[0]}")" "$2"
  moss start "$box"
  group=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$(moss inspect "$box" | jq '.[0].State.Pid')/cgroup")
}
# holds FILE LINE...: the file of the container's cgroup has these lines.
holds() {
  local line
  for line in "${@:2}"; do
    grep -qxF -- "$line" "$group/$1" || fail "$1 lacks '$line':" "$(cat "$group/$1")" || return
  done
}

@test "rates of block devices: bytes and operations, read and written" {
  limited '{"BlkioDeviceReadBps":[{"Path":"/dev/vda","Rate":1048576},{"Path":"/dev/vdb","Rate":3000000}],
    "BlkioDeviceWriteBps":[{"Path":"/dev/vda","Rate":2097152}],"BlkioDeviceReadIOps":[{"Path":"/dev/vda","Rate":300}],
    "BlkioDeviceWriteIOps":[{"Path":"/dev/vda","Rate":400}]}' 0
  holds io.max '254:0 rbps=1048576 wbps=2097152 riops=300 wiops=400' '254:16 rbps=3000000 wbps=max riops=max wiops=max'
}

@test "a write to a disk takes the time that its rate gives it" {
  limited '{"BlkioDeviceWriteBps":[{"Path":"/dev/vda","Rate":1000000}]}' 0
  before=$(date +%s%N)
  moss exec "$box" dd if=/dev/zero of=/file bs=100k count=60 conv=fsync
  [ $(($(date +%s%N) - before)) -gt 4000000000 ] || fail "6 MB were written in $(($(date +%s%N) - before)) ns"
}

@test "weights of block devices: of all, and of one" {
  # The disk vdb has the scheduler BFQ: hack/guest/overlay.
  limited '{"BlkioWeight":505,"BlkioWeightDevice":[{"Path":"/dev/vdb","Weight":200}]}' 0
  holds io.bfq.weight 'default 505' '254:16 200'
  run api POST "/v1.24/containers/$box/update" '{"BlkioWeight":10}'
  expect line -1 200
  expect equal "$(jq -c .Warnings <<<"${lines[0]}")" '[]'
  holds io.bfq.weight 'default 10' '254:16 200'
  moss rm -f "$box"
  # One that does not have it cannot be given a weight of its own.
  run api POST "/containers/create?name=$box" '{"Image":"busybox","Cmd":["true"],"HostConfig":{"BlkioWeightDevice":[{"Path":"/dev/vda","Weight":200}]}}'
  expect line -1 201
  run api POST "/containers/$box/start"
  expect line -1 500
  expect contains weight "not supported"
}

@test "a device that is none is 400" {
  for field in BlkioWeightDevice BlkioDeviceReadBps BlkioDeviceWriteBps BlkioDeviceReadIOps BlkioDeviceWriteIOps; do
    for path in /dev/null /dev/no-such; do
      run api POST /containers/create "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":{\"$field\":[{\"Path\":\"$path\",\"Rate\":1,\"Weight\":10}]}}"
      expect line -1 400
      expect contains "no such block device $path"
    done
  done
}

@test "CPUs, memory nodes, shares, period and quota" {
  limited '{"CpusetCpus":"1","CpusetMems":"0","CpuShares":1024,"CpuPeriod":50000,"CpuQuota":20000}' 0
  holds cpuset.cpus 1
  holds cpuset.mems 0
  holds cpu.max '20000 50000'
  holds cpu.weight 39
}

@test "memory, with swap that is unlimited, as much again, none, or a size" {
  limited '{"Memory":33554432,"MemorySwap":-1,"MemoryReservation":8388608}' 0
  holds memory.max 33554432
  holds memory.swap.max max
  holds memory.low 8388608
  for pair in 33554432:0 50331648:16777216 0:33554432; do
    moss rm -f "$box"
    limited "{\"Memory\":33554432,\"MemorySwap\":${pair%:*}}" 0
    holds memory.swap.max "${pair#*:}"
  done
}

@test "update: every limit of a container that runs" {
  limited '{"Memory":33554432}' 0
  run api POST "/v1.24/containers/$box/update" '{"CpuShares":512,"CpuPeriod":40000,"CpuQuota":10000,"CpusetCpus":"0","CpusetMems":"0",
    "Memory":16777216,"MemorySwap":25165824,"MemoryReservation":8388608,"BlkioWeight":505}'
  expect line -1 200
  expect equal "$(jq -c .Warnings <<<"${lines[0]}")" '[]'
  holds cpu.weight 20
  holds cpu.max '10000 40000'
  holds cpuset.cpus 0
  holds cpuset.mems 0
  holds memory.max 16777216
  holds memory.swap.max 8388608
  holds memory.low 8388608
  holds io.bfq.weight 'default 505'
  run api POST "/v1.24/containers/$box/update" '{"MemorySwap":-1}'
  expect line -1 200
  holds memory.swap.max max
}

@test "what v2 does not have is warned of" {
  limited '{"Memory":33554432,"MemorySwappiness":10,"OomKillDisable":true,"KernelMemory":8388608}' 3
  expect --in "$output" contains "memory swappiness" OomKillDisable "KernelMemory has no effect"
}
