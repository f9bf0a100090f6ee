#!/usr/bin/env bats
# What acts on a container's cgroup, on cgroup v2: pause, exec, update, the lack of memory, its parent, limits of disks.

load ../lib/moss
export CLIENT_SECONDS=500 # the machine is emulated

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

inspect() { answer_of "/containers/$1/json" -c "$2"; }
# group NAME: the folder of the container's cgroup.
group() { echo "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$(inspect "$1" .State.Pid)/cgroup")"; }
# create NAME HOSTCONFIG CMD...: makes a container and starts it; its warnings go to $warnings.
create() {
  local name=$1 answer
  answer=$(api POST "/containers/create?name=$name" "$(printf '%s\n' "${@:3}" | jq -cRn --argjson host "$2" '{Image: "busybox", Cmd: [inputs], HostConfig: ({NetworkMode: "none"} + $host)}')")
  [ "${answer##*$'\n'}" = 201 ] || fail "create $2: $answer" || return
  warnings=$(jq -r '.Warnings[]?' <<<"${answer%$'\n'*}")
  api POST "/containers/$name/start" >"$BATS_TEST_TMPDIR/started"
  expect equal "$(tail -n 1 "$BATS_TEST_TMPDIR/started")" 204
}
# verb NAME VERB STATUS [BODY]
verb() { expect equal "$(api POST "/containers/$1/$2" "${4:-}" | tail -n 1)" "$3"; }
remove() { expect equal "$(api DELETE "/containers/$1?force=1" | tail -n 1)" 204; }
# exec_in NAME CMD...: starts CMD in the container and returns; its instance is $instance.
exec_in() {
  instance=$(api POST "/containers/$1/exec" "$(printf '%s\n' "${@:2}" | jq -cRn '{Cmd: [inputs]}')" | head -n 1 | jq -r .Id)
  expect equal "$(api POST "/exec/$instance/start" '{"Detach":true}' | tail -n 1)" 200
}
used() { awk '/^usage_usec/ { print $2 }' "$1/cpu.stat"; }
uses_more_than() { [ "$(used "$1")" -gt "$2" ]; }
ticks_of() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

@test "pause is the cgroup's freezer, and an exec's process is in it" {
  name=$(unique ice)
  create "$name" '{"CpuQuota":20000}' sh -c 'while :; do :; done'
  exec_in "$name" sh -c 'while :; do :; done; exec'
  group=$(group "$name")
  expect equal "$(wc -l <"$group/cgroup.procs")" 2
  other=$(grep -vx "$(inspect "$name" .State.Pid)" "$group/cgroup.procs")
  became() { [ "$(tr '\0' ' ' <"/proc/$other/cmdline")" = "sh -c while :; do :; done; exec " ]; }
  eventually 20 became # the runtime's own process becomes it
  verb "$name" pause 204
  expect equal "$(cat "$group/cgroup.freeze")" 1
  grep -qx 'frozen 1' "$group/cgroup.events"
  # It is a time that must pass: there is no condition to wait for.
  before="$(used "$group") $(ticks_of "$other")"
  sleep 0.5
  expect equal "$(used "$group") $(ticks_of "$other")" "$before"
  expect equal "$(inspect "$name" '.State | [.Status, .Paused, .Running]')" '["paused",true,true]'
  verb "$name" unpause 204
  expect equal "$(cat "$group/cgroup.freeze")" 0
  grep -qx 'frozen 0' "$group/cgroup.events"
  eventually 20 uses_more_than "$group" "${before% *}"
  works() { [ "$(ticks_of "$other")" -gt "${before#* }" ]; }
  eventually 20 works
  # Who is frozen can be killed all the same.
  verb "$name" pause 204
  remove "$name"
  [ ! -e "$group" ] && [ ! -e "/proc/$other" ]
}

@test "update changes the limits in the cgroup at once" {
  name=$(unique live)
  create "$name" '{"Memory":67108864,"CpuShares":512}' sleep 1000
  group=$(group "$name")
  limits() { (cd "$group" && cat memory.max memory.swap.max memory.low cpu.max cpu.weight cpuset.cpus pids.max | xargs); }
  expect equal "$(limits)" "67108864 67108864 0 max 100000 20 max"
  run api POST "/containers/$name/update" '{"Memory":33554432,"MemorySwap":50331648,"MemoryReservation":8388608,"CpuPeriod":50000,"CpuQuota":20000,"CpuShares":1024,"CpusetCpus":"1","PidsLimit":20}'
  expect line -1 200
  expect equal "$(jq -c .Warnings <<<"${lines[0]}")" '[]'
  expect equal "$(limits)" "33554432 16777216 8388608 20000 50000 39 1 20"
  run moss exec "$name" sh -c 'cat /sys/fs/cgroup/memory.max; grep Cpus_allowed_list /proc/self/status'
  expect output $'33554432\nCpus_allowed_list:\t1'
  # What is not named stays; a paused container takes limits as well.
  verb "$name" pause 204
  run api POST "/containers/$name/update" '{"PidsLimit":30,"CpuShares":2}'
  expect line -1 200
  expect equal "$(limits)" "33554432 16777216 8388608 20000 50000 1 1 30"
  verb "$name" unpause 204
  # They are those of the next start too.
  verb "$name" 'restart?t=0' 204
  group=$(group "$name")
  expect equal "$(limits)" "33554432 16777216 8388608 20000 50000 1 1 30"
  remove "$name"
}

@test "out of memory: the container ends with 137, OOMKilled and an event" {
  name=$(unique oom)
  since=$(date +%s)
  create "$name" '{"Memory":16777216,"MemorySwap":16777216}' tail /dev/zero
  run api POST "/containers/$name/wait"
  expect line 0 '{"StatusCode":137}'
  expect equal "$(inspect "$name" '.State | [.Status, .OOMKilled, .ExitCode]')" '["exited",true,137]'
  run api GET "/events?since=$since&until=$(($(date +%s) + 1))&filters=%7B%22container%22%3A%5B%22$name%22%5D%7D"
  expect equal "$(head -n -1 <<<"$output" | jq -r .Action | grep -E '^(start|oom|die)$' | uniq | xargs)" "start oom die"
  # The next start is a new one.
  verb "$name" start 204
  expect equal "$(inspect "$name" '.State.OOMKilled and .State.Running')" false
  remove "$name"
}

@test "out of memory: an exec dies of its container's limit, and the container goes on" {
  name=$(unique side)
  create "$name" '{"Memory":16777216,"MemorySwap":16777216}' sleep 1000
  group=$(group "$name")
  run moss exec "$name" sh -c 'echo 1000 >/proc/self/oom_score_adj; exec tail /dev/zero'
  expect status 137
  grep -qx 'oom_kill 1' "$group/memory.events"
  expect equal "$(inspect "$name" .State.Running)" true
  verb "$name" kill 204
  expect equal "$(inspect "$name" '.State | [.OOMKilled, .ExitCode]')" '[true,137]'
  remove "$name"
}

@test "stats are those of the cgroup: memory, CPU, processes, disks" {
  name=$(unique sums)
  create "$name" '{"Memory":67108864}' sh -c 'dd if=/dev/zero of=/file bs=1M count=4 conv=fsync 2>/dev/null; echo 1; exec sleep 1000'
  exec_in "$name" sleep 1000
  eventually 30 log_has "$name" 1
  group=$(group "$name")
  one=$(api GET "/containers/$name/stats?stream=0" | head -n 1)
  expect equal "$(jq '.memory_stats.limit' <<<"$one")" 67108864
  expect equal "$(jq ".memory_stats.usage - $(cat "$group/memory.current") | fabs < 4194304" <<<"$one")" true
  expect equal "$(jq .pids_stats.current <<<"$one")" 2
  expect equal "$(jq ".cpu_stats.cpu_usage.total_usage / 1000 - $(used "$group") | fabs < 3000000" <<<"$one")" true
  wrote=$(awk '{ for (i = 2; i <= NF; i++) if (sub("wbytes=", "", $i)) sum += $i } END { print sum }' "$group/io.stat")
  expect equal "$(jq '[.blkio_stats.io_service_bytes_recursive[] | select(.op == "Write") | .value] | add' <<<"$one")" "$wrote"
  [ "$wrote" -ge 4194304 ]
  remove "$name"
}

@test "limits of disks are in io.max" {
  name=$(unique disk)
  create "$name" '{"BlkioDeviceReadBps":[{"Path":"/dev/vda","Rate":1048576}],"BlkioDeviceWriteBps":[{"Path":"/dev/vda","Rate":2097152}],"BlkioDeviceReadIOps":[{"Path":"/dev/vda","Rate":100}],"BlkioDeviceWriteIOps":[{"Path":"/dev/vda","Rate":200}]}' sleep 1000
  expect equal "$warnings" ""
  expect equal "$(cat "$(group "$name")/io.max")" "$((0x$(stat -c %t /dev/vda))):$((0x$(stat -c %T /dev/vda))) rbps=1048576 wbps=2097152 riops=100 wiops=200"
  remove "$name"
}

@test "what cgroup v2 does not have is warned of" {
  name=$(unique none)
  create "$name" '{"Memory":16777216,"MemorySwappiness":10,"OomKillDisable":true,"KernelMemory":16777216}' true
  expect --in "$warnings" contains "memory swappiness" OomKillDisable KernelMemory
  remove "$name"
}

@test "CgroupParent: containers side by side below it, which goes with the last" {
  parent=$(unique parent)
  a=$(unique a) b=$(unique b)
  create "$a" "{\"CgroupParent\":\"$parent/deep\",\"Memory\":16777216}" sleep 1000
  create "$b" "{\"CgroupParent\":\"$parent/deep\",\"PidsLimit\":7}" sleep 1000
  one=$(group "$a") two=$(group "$b")
  expect --in "$one" matches "/moss-[0-9a-f]{8}/$parent/deep/[0-9a-f]{64}$"
  expect equal "${one%/*}" "${two%/*}"
  expect equal "$(cat "$one/memory.max" "$two/memory.max" "$one/pids.max" "$two/pids.max" | xargs)" "16777216 max max 7"
  remove "$a"
  [ ! -e "$one" ] && [ -e "$two" ]
  remove "$b"
  [ ! -e "${one%/deep/*}" ]
}

@test "Privileged: podman runs containers in a container, with limits of their own" {
  cp "$MOSS_DIR/busybox.tar" "$BATS_TEST_TMPDIR/image.tar"
  chmod 0755 "$BATS_TEST_TMPDIR"
  chmod 0644 "$BATS_TEST_TMPDIR/image.tar"
  mounts=(-v /usr:/usr:ro -v /etc/containers:/etc/containers:ro -v "$BATS_TEST_TMPDIR:/given:ro")
  for dir in /lib /lib64; do if [ -e "$dir" ]; then mounts+=(-v "$dir:$dir:ro"); fi; done
  # A group gives controllers to others below it only while no process is in itself.
  run moss run --rm --privileged -w /given -e PATH=/usr/bin:/usr/sbin:/bin "${mounts[@]}" busybox sh -c '
    mkdir -p /var/lib /var/tmp /run /sys/fs/cgroup/first && echo 1 >/sys/fs/cgroup/first/cgroup.procs || exit
    podman import -q image.tar inner >/dev/null || exit
    podman run --rm --network none --memory 64m inner sh -c "echo nested; cat /sys/fs/cgroup/memory.max"'
  expect status 0
  expect contains nested 67108864
}
