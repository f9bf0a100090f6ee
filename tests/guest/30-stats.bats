#!/usr/bin/env bats
# What containers use, told by cgroup v2.

load ../lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

sample() { api GET "/containers/$1/stats?stream=0" | head -n 1; }
# group_of NAME: the container's group. used GROUP: what it has used until now, in microseconds.
group_of() { sed -n 's/^0:://p' "/proc/$(pid_of "$1")/cgroup"; }
used() { awk '/^usage_usec/ { print $2 }' "/sys/fs/cgroup$1/cpu.stat"; }

@test "stats of cgroup v2: limits, throttling, processes and CPU time" {
  name=$(unique group)
  moss run -d --name "$name" --network none -m 64m --cpu-period 100000 --cpu-quota 20000 busybox sh -c 'while :; do :; done'
  throttled() { [ "$(sample "$name" | jq '.cpu_stats.throttling_data | .periods > 0 and .throttled_periods > 0 and .throttled_time > 0')" = true ]; }
  eventually 60 throttled
  group=$(group_of "$name")
  # What all processors have counted until now, in ticks of 10 ms.
  ticked() { awk '$1 == "cpu" { print $2 + $3 + $4 + $5 + $6 + $7 + $8 }' /proc/stat; }
  before=$(used "$group") machine=$(ticked)
  one=$(sample "$name")
  after=$(used "$group") now=$(ticked)
  expect equal "$(jq '.memory_stats | .limit == 67108864 and .usage > 0 and .usage < 67108864' <<<"$one")" true
  expect equal "$(jq '.memory_stats.stats | .hierarchical_memory_limit == 67108864 and .anon == .rss and .rss > 0 and .file == .cache and .inactive_file == .total_inactive_file' <<<"$one")" true
  expect equal "$(jq '.pids_stats.current' <<<"$one")" 1
  # Clients count CPUs by either.
  expect equal "$(jq -c '.cpu_stats | [.online_cpus, (.cpu_usage.percpu_usage | length)]' <<<"$one")" "[$(nproc),$(nproc)]"
  # The share that clients show follows from these. How much a slow machine really gives the group is not asked. The time that
  # the kernel has been idle may be counted down a little.
  expect equal "$(jq "[.precpu_stats, .cpu_stats | .cpu_usage.total_usage] | $before * 1000 <= .[0] and .[0] < .[1] and .[1] <= $after * 1000" <<<"$one")" true
  expect equal "$(jq "[.precpu_stats, .cpu_stats | .system_cpu_usage] | ($machine - 50) * 10000000 <= .[0] and .[0] < .[1] and .[1] <= ($now + 50) * 10000000" <<<"$one")" true
  moss rm -f "$name"
}

@test "stats of cgroup v2: it is the group that is read, with what has ended in it" {
  name=$(unique past)
  moss run -d --name "$name" --network none busybox sh -c 'sh -c "i=0; while [ \$i -lt 20000 ]; do i=\$((i + 1)); done" & wait; exec sleep 1000'
  group=$(group_of "$name")
  quiet() { [ "$(sample "$name" | jq .pids_stats.current)" = 1 ]; }
  eventually 60 quiet
  used=$(used "$group")
  expect equal "$(sample "$name" | jq ".cpu_stats.cpu_usage.total_usage | . >= $used * 1000 and . < ($used + 3000000) * 1000")" true
  moss rm -f "$name"
}

@test "stats of cgroup v2: bytes written to a disk, by device" {
  name=$(unique io)
  moss run -d --name "$name" --network none busybox sh -c 'dd if=/dev/zero of=/file bs=1M count=8 conv=fsync 2>/dev/null; sleep 1000'
  wrote() { [ "$(sample "$name" | jq '[.blkio_stats.io_service_bytes_recursive[] | select(.op == "Write" and .major > 0) | .value] | add >= 8388608')" = true ]; }
  eventually 60 wrote
  expect equal "$(sample "$name" | jq '[.blkio_stats.io_serviced_recursive[] | select(.op == "Write") | .value] | add > 0')" true
  moss rm -f "$name"
}

@test "top shows the container's processes" {
  name=$(unique top)
  moss run -d --name "$name" --network none busybox sh -c 'sleep 1234 & wait'
  two() { [ "$(answer_of "/containers/$name/top?ps_args=-o%20pid,args" -c '[.Processes[][1]]')" = '["sh -c sleep 1234 & wait","sleep 1234"]' ]; }
  eventually 60 two
  moss rm -f "$name"
}
