#!/usr/bin/env bats
# moss under the user's systemd with cgroup v2: socket activation, limits, reload that keeps containers, crash, stop.

load ../lib/moss

setup_file() {
  MOSS_DIR=$(mktemp -d)
  MOSS_SOCK=$XDG_RUNTIME_DIR/moss/moss.sock
  export MOSS_DIR MOSS_SOCK
  local units=~/.config/systemd/user u
  mkdir -p $units/moss.service.d
  for u in moss.service moss.socket; do sed "s|@BINDIR@|$moss_bin|" "$moss_top/hack/units/$u" >$units/$u; done
  # The guest's journal is volatile, and closed to the user.
  printf '[Service]\nStandardError=append:%s\n' "$MOSS_DIR/mossd.log" >$units/moss.service.d/log.conf
  touch "$MOSS_DIR/mossd.log"
  systemctl --user daemon-reload
  systemctl --user start moss.socket
  import_busybox # the first connection starts the engine
}

teardown_file() {
  systemctl --user stop moss.socket moss.service
  rm -rf "$MOSS_DIR" ~/.config/systemd/user/moss.*
  systemctl --user daemon-reload
}

setup() {
  main_pid >"$MOSS_DIR/mossd.pid"
  begin
}
teardown() { finish; }

main_pid() { systemctl --user show -P MainPID moss.service; }
group() { echo "/sys/fs/cgroup$(systemctl --user show -P ControlGroup moss.service)"; }
# state NAME FILTER: a part of a container's state.
state() { moss inspect "$1" | jq -r ".[0].State.$2"; }
is_exited() { [ "$(state "$1" Status)" = exited ]; }
# inner: the engine's process, which the supervisor starts.
inner() { pgrep -n -u "$(id -u)" -x mossd-engine; }
# with_runtime NAME: restarts the engine with that OCI runtime.
with_runtime() {
  printf '[Service]\nEnvironment=MOSS_RUNTIME=%s\n' "$1" >~/.config/systemd/user/moss.service.d/runtime.conf
  systemctl --user daemon-reload
  systemctl --user restart moss.service
  eventually 60 ping_ok
}

# all_limits: what a container with every limit finds in its cgroup.
all_limits() {
  moss run --rm -m 32m --memory-reservation 8m --pids-limit 10 --cpus 0.5 -c 512 --cpuset-cpus 1 busybox sh -c \
    'cd /sys/fs/cgroup; grep . memory.max memory.swap.max memory.low pids.max cpu.max cpu.weight cpuset.cpus.effective'
}

@test "the first connection starts the engine, and only that" {
  systemctl --user stop moss.service
  run systemctl --user is-active moss.service
  expect output inactive
  run curl -sS --max-time 120 --unix-socket "$MOSS_SOCK" http://moss/_ping
  expect output OK
  run systemctl --user is-active moss.service
  expect output active
  expect equal "$(stat -c %a "$MOSS_SOCK")" 600
}

@test "the engine outlives the session: it belongs to a manager that lingers" {
  expect equal "$(loginctl show-user "$(id -un)" -P Linger)" yes
  run cat "/proc/$(main_pid)/cgroup"
  expect contains "user@$(id -u).service/app.slice/moss.service/daemon"
}

@test "info says that every limit can be applied" {
  run api GET /info
  expect equal "$(jq -c '[.MemoryLimit,.SwapLimit,.CpuCfsQuota,.CPUShares,.CPUSet,.CgroupDriver]' <<<"${lines[0]}")" \
    '[true,true,true,true,true,"cgroupfs"]'
  expect lacks "No memory limit support" "No cgroup is delegated"
}

@test "a container runs below the unit's cgroup, in one of its own" {
  name=$(unique unit)
  moss run -d --name "$name" busybox sleep 1000
  run cat "/proc/$(state "$name" Pid)/cgroup"
  expect matches "/moss.service/moss-[0-9a-f]{8}/[0-9a-f]{64}$"
  moss rm -f "$name"
  [ -z "$(find "$(group)" -mindepth 2 -type d)" ]
}

@test "limits apply, with crun" {
  run all_limits
  expect status 0
  expect contains memory.max:33554432 memory.swap.max:33554432 memory.low:8388608 pids.max:10 'cpu.max:50000 100000' \
    cpu.weight:20 cpuset.cpus.effective:1
}

@test "out of memory: code 137, OOMKilled and an event" {
  name=$(unique oom)
  since=$(date +%s)
  run moss run --name "$name" -m 16m busybox sh -c 'tail /dev/zero'
  expect status 137
  expect equal "$(state "$name" OOMKilled)" true
  run moss events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$name"
  expect contains oom
  moss rm "$name"
}

@test "the pids limit holds" {
  run moss run --rm --pids-limit 5 busybox sh -c 'for i in 1 2 3 4 5 6 7; do sleep 100 & done; wait'
  expect contains "can't fork"
}

@test "CgroupParent: the cgroup lies below it with all controllers, and it goes when empty" {
  name=$(unique parent)
  run api POST "/containers/create?name=$name" '{"Image":"busybox","Cmd":["sleep","1000"],"HostConfig":{"Memory":16777216,"CgroupParent":"/my.slice/deep","OomKillDisable":true}}'
  expect line -1 201
  expect contains "CgroupParent /my.slice/deep is taken below" OomKillDisable
  moss start "$name"
  run cat "/proc/$(state "$name" Pid)/cgroup"
  expect matches "/moss.service/moss-[0-9a-f]{8}/my.slice/deep/[0-9a-f]{64}$"
  expect equal "$(cat "/sys/fs/cgroup${output#0::}/memory.max")" 16777216
  moss rm -f "$name"
  [ -z "$(find "$(group)" -mindepth 2 -type d)" ]
}

@test "reload replaces the engine and keeps the container, its log and its streams" {
  name=$(unique keep)
  moss run -d --name "$name" busybox sh -c 'i=0; while :; do echo $i; i=$((i+1)); sleep 0.2; done'
  main=$(main_pid)
  engine=$(inner)
  container=$(state "$name" Pid)
  systemctl --user reload moss.service
  replaced() { ping_ok && [ "$(inner)" != "$engine" ]; }
  eventually 60 replaced
  expect equal "$(main_pid)" "$main"
  expect equal "$(state "$name" Pid)" "$container"
  kill -0 "$container"
  lines_now=$(moss logs "$name" | wc -l)
  more() { [ "$(moss logs "$name" | wc -l)" -gt "$lines_now" ]; }
  eventually 20 more
  run moss logs "$name"
  expect equal "$(sort -n <<<"$output" | uniq | wc -l)" "$(($(tail -n 1 <<<"$output") + 1))"
  moss rm -f "$name"
}

@test "kill -9 of the main process: systemd starts it again, and the container's end is told" {
  name=$(unique crash)
  moss run -d --name "$name" busybox sleep 1000
  container=$(state "$name" Pid)
  main=$(main_pid)
  kill -KILL "$main"
  again() { [ "$(main_pid)" != "$main" ] && [ "$(main_pid)" != 0 ] && ping_ok; }
  eventually 60 again
  eventually 20 is_exited "$name"
  [ ! -e "/proc/$container" ]
  expect equal "$(systemctl --user show -P NRestarts moss.service)" 1
  moss rm "$name"
}

@test "moss system status shows the unit and starts nothing, stop leaves its socket, start starts it" {
  eventually 20 ping_ok
  run moss system status
  expect status 0
  expect contains "Engine: running" "Unit: active" "mossd $(main_pid), mossd-engine $(inner)" "Log: $MOSS_DIR/mossd.log"
  run moss system logs --tail 5
  expect status 0
  run moss system stop
  expect output "The engine is stopped."
  expect equal "$(systemctl --user is-active moss.service moss.socket)" $'inactive\nactive'
  run moss system status
  expect status 3
  expect contains "Engine: stopped" "Unit: inactive"
  expect equal "$(systemctl --user is-active moss.service)" inactive
  run moss system start
  expect contains "The engine is started"
  expect equal "$(systemctl --user is-active moss.service)" active
  run moss system start
  expect contains "The engine runs already"
}

@test "limits apply, with runc" {
  with_runtime runc
  run all_limits
  expect status 0
  expect contains memory.max:33554432 memory.swap.max:33554432 pids.max:10 'cpu.max:50000 100000' cpuset.cpus.effective:1
  name=$(unique oom)
  run moss run --name "$name" -m 16m busybox sh -c 'tail /dev/zero'
  expect status 137
  expect equal "$(state "$name" OOMKilled)" true
  moss rm "$name"
  rm ~/.config/systemd/user/moss.service.d/runtime.conf
  systemctl --user daemon-reload
}

@test "stop ends the containers and leaves no process, no cgroup and no file" {
  name=$(unique end)
  moss run -d --name "$name" --stop-timeout 100 busybox sh -c 'trap "exit 4" TERM; echo ready; while :; do sleep 0.1; done'
  eventually 20 log_has "$name" ready
  container=$(state "$name" Pid)
  before=$(group)
  systemctl --user stop moss.service
  expect equal "$(systemctl --user show -P Result moss.service)" success
  [ ! -e "/proc/$container" ]
  [ ! -e "$before" ]
  run pgrep -u "$(id -u)" -a moss
  expect output ""
  run pgrep -u "$(id -u)" -a slirp
  expect output ""
  run find "$XDG_RUNTIME_DIR/moss" -mindepth 1 -not -path '*/tasks*' -not -name moss.sock
  expect output ""
  expect equal "$(state "$name" ExitCode)" 4 # which starts the engine again
  moss rm "$name"
}
