#!/usr/bin/env bats
# Fields of HostConfig, one by one, that the files of their subjects do not show: limits in the container's own cgroup,
# bounds, ports, logs, what is warned of, and in which versions each is read.

load lib/moss

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

# make HOSTCONFIG [VERSION [MORE]]: creates $box, which sleeps, with these settings and MORE of the body; $warnings are the answer's.
make() {
  run api POST "/v${2:-1.24}/containers/create?name=$box" "{\"Image\":\"busybox\",\"Cmd\":[\"sleep\",\"1000\"],\"HostConfig\":$1${3:+,$3}}"
  [ "${lines[-1]}" = 201 ] || fail "create $1: $output" || return
  warnings=$(jq -r '.Warnings[]?' <<<"${lines[0]}")
}
starts() {
  make "$@" && moss start "$box" >/dev/null
}
again() { moss rm -f "$box" >/dev/null; }
# group FILE: a file of the container's cgroup, as it sees it.
group() { moss exec "$box" cat "/sys/fs/cgroup/$1"; }
inspect() { answer_of "/v${2:-1.24}/containers/$box/json" -c "$1"; }
refused() { # STATUS HOSTCONFIG TEXT...
  run api POST /v1.24/containers/create "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":$2}"
  [ "${lines[-1]}" = "$1" ] || fail "$2: $output" || return
  expect contains "${@:3}"
}
# disk: a block device of this machine, as path and number.
disk() {
  local block
  for block in /sys/block/*; do
    if [ -b "/dev/${block##*/}" ]; then
      echo "/dev/${block##*/} $(cat "$block/dev")"
      return
    fi
  done
}
port_of() { inspect ".NetworkSettings.Ports[\"$1\"][0].HostPort" | tr -d '"'; }
answers() { [ "$(curl -s --max-time 5 "http://127.0.0.1:$1/index.html")" = "hello from busybox" ]; }

# bats test_tags=cgroups
@test "Memory and MemorySwap in the cgroup: unlimited, a size, none, and as much again" {
  starts '{"Memory":33554432,"MemorySwap":-1}'
  expect equal "$(group memory/memory.limit_in_bytes)" 33554432
  [ "$(group memory/memory.memsw.limit_in_bytes)" -gt 1000000000000000 ]
  for pair in 50331648:50331648 33554432:33554432 0:67108864; do
    again
    starts "{\"Memory\":33554432,\"MemorySwap\":${pair%:*}}"
    expect equal "$(group memory/memory.memsw.limit_in_bytes)" "${pair#*:}"
  done
  again
  starts '{"MemoryReservation":16777216}'
  expect equal "$(group memory/memory.soft_limit_in_bytes)" 16777216
}

# bats test_tags=cgroups
@test "MemorySwappiness from 0 to 100 in the cgroup; -1 is what the engine has" {
  for value in 0 1 40 100; do
    starts "{\"MemorySwappiness\":$value}"
    expect equal "$(group memory/memory.swappiness)" $value
    again
  done
  own=$(cat "/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/memory.swappiness")
  starts '{"MemorySwappiness":-1}'
  expect equal "$(group memory/memory.swappiness)" "$own"
}

# bats test_tags=cgroups
@test "PidsLimit: a number, and -1 for as many as there can be" {
  starts '{"PidsLimit":12}'
  expect equal "$(group pids/pids.max)" 12
  for none in -1 0; do
    again
    starts "{\"PidsLimit\":$none}"
    expect equal "$warnings" ""
    expect equal "$(group pids/pids.max)" max
  done
}

# bats test_tags=cgroups
@test "CpuShares, CpuPeriod, CpuQuota, CpusetCpus and CpusetMems in the cgroup; what the host does not have is 400" {
  starts '{"CpuShares":77,"CpuPeriod":50000,"CpuQuota":20000,"CpusetCpus":"1","CpusetMems":"0"}'
  expect equal "$warnings" ""
  expect equal "$(group cpu/cpu.shares)" 77
  expect equal "$(group cpu/cpu.cfs_period_us)" 50000
  expect equal "$(group cpu/cpu.cfs_quota_us)" 20000
  expect equal "$(group cpuset/cpuset.cpus)" 1
  expect equal "$(group cpuset/cpuset.mems)" 0
  run moss exec "$box" grep -E '^(Cpus|Mems)_allowed_list' /proc/1/status
  expect output $'Cpus_allowed_list:\t1\nMems_allowed_list:\t0'
  again
  for body in '"CpusetCpus":"0-8191"' '"CpusetMems":"63"'; do
    refused 400 "{$body}" "are not available - requested" "available: 0"
  done
}

# bats test_tags=cgroups
@test "rates of block devices in the cgroup: bytes and operations, read and written" {
  read -r path number <<<"$(disk)"
  [ -n "$path" ] || fail "this machine shows no block device"
  starts "{\"BlkioDeviceReadBps\":[{\"Path\":\"$path\",\"Rate\":1048576}],\"BlkioDeviceWriteBps\":[{\"Path\":\"$path\",\"Rate\":2097152}],
    \"BlkioDeviceReadIOps\":[{\"Path\":\"$path\",\"Rate\":300}],\"BlkioDeviceWriteIOps\":[{\"Path\":\"$path\",\"Rate\":400}]}"
  expect equal "$warnings" ""
  expect equal "$(group blkio/blkio.throttle.read_bps_device)" "$number 1048576"
  expect equal "$(group blkio/blkio.throttle.write_bps_device)" "$number 2097152"
  expect equal "$(group blkio/blkio.throttle.read_iops_device)" "$number 300"
  expect equal "$(group blkio/blkio.throttle.write_iops_device)" "$number 400"
  expect equal "$(inspect '.HostConfig.BlkioDeviceReadIOps')" "[{\"Path\":\"$path\",\"Rate\":300}]"
  for field in BlkioDeviceReadBps BlkioDeviceWriteBps BlkioDeviceReadIOps BlkioDeviceWriteIOps; do
    refused 400 "{\"$field\":[{\"Path\":\"/dev/null\",\"Rate\":1}]}" "no such block device /dev/null"
    refused 400 "{\"$field\":[{\"Path\":\"/dev/no-such\",\"Rate\":1}]}" "no such block device /dev/no-such"
  done
}

# bats test_tags=cgroups
@test "weights of block devices: in the cgroup where runtime and kernel have them, warned of where not" {
  read -r path _ <<<"$(disk)"
  starts "{\"BlkioWeight\":300,\"BlkioWeightDevice\":[{\"Path\":\"$path\",\"Weight\":200}]}"
  if moss exec "$box" test -e /sys/fs/cgroup/blkio/blkio.weight; then
    expect equal "$(group blkio/blkio.weight)" 300
  else
    expect --in "$warnings" contains "Block I/O weight or" "Block I/O weight_device or"
    expect --in "$(group blkio/blkio.bfq.weight)" lacks 300
  fi
  run api POST "/v1.24/containers/$box/update" '{"BlkioWeight":500}'
  expect line -1 200
  expect equal "$(inspect .HostConfig.BlkioWeight)" 500
}

# bats test_tags=cgroups
@test "runc sets the weight of block devices that the scheduler BFQ has" {
  command -v runc >/dev/null || skip "runc is missing: install the package runc"
  [ -n "$(find "/sys/fs/cgroup/blkio$(sed -n 's/^[0-9]*:blkio://p' /proc/self/cgroup)" -name blkio.bfq.weight)" ] || skip "this kernel has no scheduler BFQ"
  halt_engine
  spawn_engine --runtime runc
  starts '{"BlkioWeight":300}'
  expect equal "$warnings" ""
  expect equal "$(group blkio/blkio.bfq.weight)" 300
  run api POST "/v1.24/containers/$box/update" '{"BlkioWeight":500}'
  expect equal "$(jq -c .Warnings <<<"${lines[0]}")" '[]'
  expect equal "$(group blkio/blkio.bfq.weight)" 500
  again
  halt_engine
  spawn_engine
}

# bats test_tags=cgroups
@test "update: each limit that can change reaches the cgroup" {
  starts '{"Memory":67108864}'
  while read -r body file want; do
    run api POST "/v1.22/containers/$box/update" "$body"
    expect line -1 200
    expect equal "$(jq -c .Warnings <<<"${lines[0]}")" '[]'
    expect equal "$(group "$file")" "$want"
  done <<'EOT'
{"MemorySwap":100663296} memory/memory.memsw.limit_in_bytes 100663296
{"Memory":33554432} memory/memory.limit_in_bytes 33554432
{"MemoryReservation":16777216} memory/memory.soft_limit_in_bytes 16777216
{"CpuShares":99} cpu/cpu.shares 99
{"CpuPeriod":40000,"CpuQuota":10000} cpu/cpu.cfs_period_us 40000
{"CpuQuota":30000} cpu/cpu.cfs_quota_us 30000
{"CpusetCpus":"1"} cpuset/cpuset.cpus 1
{"CpusetMems":"0"} cpuset/cpuset.mems 0
EOT
  run api POST "/v1.22/containers/$box/update" '{"KernelMemory":8388608}'
  expect line -1 200
  expect contains "KernelMemory has no effect"
  run api POST "/v1.22/containers/$box/update" '{"MemorySwap":-1}'
  expect line -1 200
  [ "$(group memory/memory.memsw.limit_in_bytes)" -gt 1000000000000000 ]
  for body in '"CpusetMems":"63"' '"CpusetCpus":"0-8191"'; do
    run api POST "/v1.22/containers/$box/update" "{$body}"
    expect line -1 400
    expect contains "are not available - requested"
  done
  expect equal "$(group cpuset/cpuset.mems)" 0
}

@test "every bound: one step beyond is 400 with the field, the value and the bound, the bound itself is taken" {
  while IFS='|' read -r body field value bound; do
    refused 400 "{$body}" "$field" "$value" "$bound"
  done <<'EOT'
"BlkioWeight":9|BlkioWeight|9|from 10 to 1000
"BlkioWeight":1001|BlkioWeight|1001|from 10 to 1000
"BlkioWeightDevice":[{"Path":"/dev/x","Weight":9}]|BlkioWeightDevice|9|from 10 to 1000
"BlkioWeightDevice":[{"Path":"/dev/x","Weight":1001}]|BlkioWeightDevice|1001|from 10 to 1000
"BlkioDeviceReadBps":[{"Path":"/dev/x","Rate":0}]|BlkioDeviceReadBps|/dev/x|greater than 0
"MemorySwappiness":-2|MemorySwappiness|-2|0-100
"MemorySwappiness":101|MemorySwappiness|101|0-100
"ShmSize":-1|ShmSize|-1|greater than 0
"PidsLimit":-2|PidsLimit|-2|-1 for unlimited
"Memory":8388608,"MemorySwap":8388607|MemorySwap|8388607|larger than memory limit 8388608
"Memory":8388608,"MemorySwap":-2|MemorySwap|-2|-1 for unlimited
"MemorySwap":8388608|MemorySwap|8388608|always set the Memory limit
"Memory":4194303|Memory|4194303|4MB
"Memory":-1|Memory|-1|negative
"MemoryReservation":4194303|MemoryReservation|4194303|4MB
"Memory":8388608,"MemoryReservation":8388609|MemoryReservation|8388609|smaller than Memory 8388608
"KernelMemory":-1|KernelMemory|-1|negative
"CpuShares":-1|CpuShares|-1|negative
"CpuPeriod":999|CpuPeriod|999|1000
"CpuPeriod":1000001|CpuPeriod|1000001|1000000
"CpuQuota":999|CpuQuota|999|1000
"CpuQuota":-2|CpuQuota|-2|-1 for unlimited
"CpusetCpus":"1-0"|CpusetCpus|1-0|a list such as
"CpusetMems":"x"|CpusetMems|x|a list such as
"CpusetCpus":"0-8191"|CpusetCpus|0-8191|available: 0
"CpusetMems":"8191"|CpusetMems|8191|available: 0
"NanoCpus":9000000000000|NanoCpus|9000000000000|as there are only
"ConsoleSize":[70000,20]|ConsoleSize|70000|from 0 to 65535
EOT
  for host in '"BlkioWeight":10' '"BlkioWeight":1000' '"MemorySwappiness":0' '"MemorySwappiness":100' '"MemorySwappiness":-1' \
    '"ShmSize":1' '"ShmSize":0' '"PidsLimit":-1' '"PidsLimit":1' '"Memory":8388608,"MemorySwap":8388609' '"Memory":8388608,"MemorySwap":-1' \
    '"Memory":4194304' '"CpuPeriod":1000' '"CpuPeriod":1000000' '"CpuQuota":1000' '"CpuQuota":-1' '"CpusetCpus":"0-0"'; do
    make "{$host}"
    again
  done
}

@test "ShmSize: 64 MB where it is left out, else what is asked for" {
  starts '{}'
  expect --in "$(moss exec "$box" df -k /dev/shm | tail -n 1)" matches '^shm +65536 '
  expect equal "$(inspect .HostConfig.ShmSize)" 67108864
  again
  starts '{"ShmSize":3145728}'
  expect --in "$(moss exec "$box" df -k /dev/shm | tail -n 1)" matches '^shm +3072 '
  again
  for mode in none host; do
    make "{\"ShmSize\":3145728,\"IpcMode\":\"$mode\"}"
    expect --in "$warnings" contains "ShmSize has no effect: with IpcMode $mode"
    again
    make "{\"ShmSize\":0,\"IpcMode\":\"$mode\"}"
    expect equal "$warnings" ""
    again
  done
}

@test "what has no effect here is warned of, from the version on that has it" {
  while read -r field value before last; do
    make "{\"$field\":$value}" "$last"
    expect --in "$warnings" contains "$field has no effect"
    again
    make "{\"$field\":$value}" "$before"
    expect equal "$warnings" ""
    again
  done <<'EOT'
KernelMemory 8388608 1.20 1.21
CpuPercent 50 1.23 1.24
IOMaximumBandwidth 5 1.23 1.24
IOMaximumIOps 5 1.23 1.24
LxcConf {"lxc.utsname":"x"} 1.22 1.21
EOT
  make '{"LxcConf":[{"Key":"lxc.utsname","Value":"x"}]}' 1.18
  expect --in "$warnings" contains "LxcConf has no effect"
}

@test "unless-stopped is there from 1.21 on; it starts again what ends by itself, until a user stops it" {
  policy='{"RestartPolicy":{"Name":"unless-stopped"}}'
  for v in 1.18 1.20; do
    run api POST "/v$v/containers/create" "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":$policy}"
    expect line -1 400
    expect contains unless-stopped
  done
  make '{}' 1.20
  run api POST "/v1.20/containers/$box/start" "$policy"
  expect line -1 500
  again
  run api POST "/v1.21/containers/create?name=$box" "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":$policy}"
  expect line -1 201
  moss start "$box"
  repeats() { [ "$(inspect .RestartCount)" -ge 2 ]; }
  eventually 10 repeats
  moss stop -t 0 "$box"
  count=$(inspect .RestartCount)
  sleep 1 # longer than the delay that was under way
  expect equal "$(inspect '[.RestartCount, .State.Status]')" "[$count,\"exited\"]"
}

@test "NetworkMode: networks that users made are there from 1.21 on" {
  for v in 1.18 1.20; do
    run api POST "/v$v/containers/create" '{"Image":"busybox","Cmd":["true"],"HostConfig":{"NetworkMode":"front"}}'
    expect line -1 400
    expect contains front
    for mode in '' default bridge host none; do
      make "{\"NetworkMode\":\"$mode\"}" "$v"
      again
    done
  done
  make '{"NetworkMode":"front"}' 1.21
  run api POST "/v1.20/containers/$box/start" '{"NetworkMode":"other"}'
  expect line -1 500
  expect contains "networks are there from 1.21 on"
}

@test "kill without a signal answers when the container has ended" {
  starts '{}'
  pid=$(inspect .State.Pid)
  run api POST "/containers/$box/kill"
  expect line -1 204
  [ ! -e "/proc/$pid" ]
  expect equal "$(inspect '[.State.Status, .State.ExitCode]')" '["exited",137]'
}

@test "StorageOpt is read from 1.24 on" {
  make '{"StorageOpt":{"size":"1G"}}' 1.23
  refused 400 '{"StorageOpt":{"size":"1G"}}' StorageOpt
}

@test "VolumeDriver: local makes the volumes; another is 501 if there are any" {
  make '{"VolumeDriver":"local"}' 1.24 '"Volumes":{"/v":{}}'
  expect equal "$(inspect '[.HostConfig.VolumeDriver, .Mounts[0].Driver]')" '["local","local"]'
  moss start "$box"
  expect equal "$(moss exec "$box" grep -c ' /v ' /proc/self/mountinfo)" 1
  moss rm -f -v "$box"
  refused 501 '{"VolumeDriver":"convoy","Binds":["data:/v"]}' VolumeDriver convoy
  make '{"VolumeDriver":"convoy","Isolation":"Default","Binds":["/tmp:/v"]}'
}

@test "Devices: read and write by those who may, permissions that cannot be enforced are warned of" {
  starts '{"Devices":[{"PathOnHost":"/dev/zero","PathInContainer":"/dev/my","CgroupPermissions":"r"}]}'
  expect --in "$warnings" contains "CgroupPermissions r of device /dev/zero"
  expect equal "$(moss exec "$box" sh -c 'head -c 2 /dev/my | od -An -tx1')" " 00 00"
  refused 400 '{"Devices":[{"PathOnHost":"/dev/zero","CgroupPermissions":"x"}]}' "invalid device mode: x"
}

@test "PublishAllPorts: a port of the kernel's ephemeral range for each exposed one, from start to stop" {
  run api POST "/containers/create?name=$box" '{"Image":"busybox","Cmd":["httpd","-f","-h","/var/www"],"ExposedPorts":{"80/tcp":{},"81/udp":{}},"HostConfig":{"PublishAllPorts":true}}'
  expect line -1 201
  expect equal "$(inspect .NetworkSettings.Ports)" '{}'
  read -r low high </proc/sys/net/ipv4/ip_local_port_range
  for _ in 1 2; do
    moss start "$box"
    for key in 80/tcp 81/udp; do
      port=$(port_of $key)
      if [ "$port" -lt "$low" ] || [ "$port" -gt "$high" ]; then fail "$key is at $port, outside $low to $high"; fi
    done
    port=$(port_of 80/tcp)
    eventually 10 answers "$port"
    moss stop -t 0 "$box"
    expect equal "$(inspect .NetworkSettings.Ports)" '{}'
    run curl -s --max-time 5 "http://127.0.0.1:$port/"
    [ "$status" -ne 0 ]
  done
}

@test "PortBindings: several host ports for one, a range, and one that is taken" {
  run api POST "/containers/create?name=$box" '{"Image":"busybox","Cmd":["httpd","-f","-h","/var/www"],"HostConfig":{"PortBindings":
    {"80/tcp":[{"HostPort":""},{"HostIp":"127.0.0.1","HostPort":"28000-28999"}]}}}'
  expect line -1 201
  moss start "$box"
  ports=$(inspect '[.NetworkSettings.Ports["80/tcp"][].HostPort | tonumber] | unique')
  expect equal "$(jq -c '[length >= 2, any(. >= 28000 and . <= 28999)]' <<<"$ports")" '[true,true]'
  for port in $(jq '.[]' <<<"$ports"); do eventually 10 answers "$port"; done
  taken=$(jq '.[0]' <<<"$ports")
  other=$(unique other)
  run api POST "/containers/create?name=$other" "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":{\"PortBindings\":{\"80/tcp\":[{\"HostPort\":\"$taken\"}]}}}"
  expect line -1 201
  run api POST "/containers/$other/start"
  [ "${lines[-1]}" -ge 400 ]
  expect contains "$taken"
  moss rm "$other"
  refused 400 '{"PortBindings":{"80/tcp":[{"HostPort":8080}]}}' HostPort
}

@test "LogConfig.Type: json-file by default and by name; drivers that moss does not have are 400 and named" {
  for host in '{}' '{"LogConfig":{"Type":"json-file"}}' '{"LogConfig":{"Type":"","Config":{}}}'; do
    run api POST "/containers/create?name=$box" "{\"Image\":\"busybox\",\"Cmd\":[\"echo\",\"said\"],\"HostConfig\":$host}"
    expect line -1 201
    moss start -a "$box"
    expect equal "$(inspect .HostConfig.LogConfig.Type)" '"json-file"'
    expect equal "$(jq -r .log "$(inspect .LogPath | tr -d '"')")" said
    again
  done
  for name in none-such nope; do
    refused 400 "{\"LogConfig\":{\"Type\":\"$name\"}}" "logger: no log driver named '$name' is registered: there are json-file, local, syslog"
  done
  refused 400 '{"LogConfig":{"Type":"etwlogs"}}' 'log driver etwlogs belongs to another operating system'
}

@test "restart policies: the delay doubles from 100 ms; without a policy nothing starts again" {
  since=$(date +%s)
  moss run -d --name "$box" --restart on-failure:4 busybox sh -c 'exit 3'
  done_() { [ "$(inspect '[.RestartCount, .State.Status]')" = '[4,"exited"]' ]; }
  eventually 20 done_
  curl -sS -G --max-time 180 --unix-socket "$MOSS_SOCK" --data-urlencode "filters={\"container\":[\"$box\"]}" \
    "http://moss/v1.24/events?since=$since&until=$(($(date +%s) + 1))" >"$BATS_TEST_TMPDIR/events"
  # From each end to the next start, in milliseconds.
  gaps=$(jq -s '[.[] | select(.Action == "die" or .Action == "start")] | [range(1; length; 2) as $i | select(.[$i + 1]) | (.[$i + 1].timeNano - .[$i].timeNano) / 1000000 | floor]' "$BATS_TEST_TMPDIR/events")
  expect equal "$(jq -c '[length == 4, .[0] >= 100, .[1] >= 200, .[2] >= 400, .[3] >= 800]' <<<"$gaps")" '[true,true,true,true,true]'
  again
  for policy in '{}' '{"Name":""}' '{"Name":"no"}'; do
    run api POST "/containers/create?name=$box" "{\"Image\":\"busybox\",\"Cmd\":[\"sh\",\"-c\",\"exit 3\"],\"HostConfig\":{\"RestartPolicy\":$policy}}"
    moss start "$box"
    eventually 10 is_exited "$box"
    sleep 0.4 # longer than the first delay of a policy
    expect equal "$(inspect '[.RestartCount, .State.Status, .State.ExitCode]')" '[0,"exited",3]'
    again
  done
}

# bats test_tags=subids
@test "each field of HostConfig is read and shown in the versions that have it, and only there" {
  db=$(unique db)
  moss run -d --name "$db" busybox sleep 1000
  all="{\"Binds\":[\"/tmp:/b\"],\"Tmpfs\":{\"/t\":\"\"},\"Links\":[\"$db:db\"],\"LxcConf\":[{\"Key\":\"a\",\"Value\":\"b\"}],\"Memory\":8388608,\"MemorySwap\":16777216,
    \"MemoryReservation\":5000000,\"KernelMemory\":5000000,\"CpuPercent\":5,\"CpuShares\":5,\"CpuPeriod\":5000,\"CpuQuota\":5000,\"CpusetCpus\":\"0\",\"CpusetMems\":\"0\",
    \"IOMaximumBandwidth\":5,\"IOMaximumIOps\":5,\"BlkioWeight\":50,\"BlkioWeightDevice\":[{\"Path\":\"/dev/x\",\"Weight\":50}],
    \"BlkioDeviceReadBps\":[{\"Path\":\"/dev/x\",\"Rate\":5}],\"BlkioDeviceWriteBps\":[{\"Path\":\"/dev/x\",\"Rate\":5}],
    \"BlkioDeviceReadIOps\":[{\"Path\":\"/dev/x\",\"Rate\":5}],\"BlkioDeviceWriteIOps\":[{\"Path\":\"/dev/x\",\"Rate\":5}],
    \"MemorySwappiness\":5,\"OomKillDisable\":true,\"OomScoreAdj\":5,\"PidMode\":\"host\",\"PidsLimit\":5,\"PortBindings\":{\"80/tcp\":[{\"HostPort\":\"0\"}]},
    \"PublishAllPorts\":true,\"Privileged\":true,\"ReadonlyRootfs\":true,\"Dns\":[\"192.0.2.1\"],\"DnsOptions\":[\"a\"],\"DnsSearch\":[\"a\"],\"ExtraHosts\":[\"a:192.0.2.1\"],
    \"VolumesFrom\":[\"$db\"],\"CapAdd\":[\"NET_ADMIN\"],\"CapDrop\":[\"CHOWN\"],\"GroupAdd\":[\"5\"],\"RestartPolicy\":{\"Name\":\"on-failure\",\"MaximumRetryCount\":5},
    \"UsernsMode\":\"host\",\"NetworkMode\":\"bridge\",\"Devices\":[{\"PathOnHost\":\"/dev/zero\"}],\"Ulimits\":[{\"Name\":\"core\",\"Soft\":5,\"Hard\":5}],
    \"Sysctls\":{\"net.ipv4.ip_forward\":\"1\"},\"SecurityOpt\":[\"no-new-privileges\"],\"LogConfig\":{\"Type\":\"none\"},\"CgroupParent\":\"p\",
    \"VolumeDriver\":\"local\",\"ShmSize\":5000000}"
  if [ "$(answer_of /info -r .CgroupDriver)" != none ]; then all=$(jq 'with_entries(select(.key | startswith("BlkioDevice") or . == "BlkioWeightDevice" | not))' <<<"$all"); fi
  make '{}'
  plain=$(inspect .HostConfig)
  again
  # Of each field: is it shown where it should be, kept where it was read, and left alone where it was not?
  program='def since: if . == "all" or startswith("-") then 0 else .[2:4] | tonumber end;
    def until: if startswith("-") then .[3:] | tonumber else 99 end;
    $fields | split("\n") | map(select(startswith("host.") and (startswith("host.StorageOpt") | not)) | split("\t") | select((.[3] // "") | IN("clients", "later") | not)
      | {name: (.[0] | split("."))[1], has: ($minor >= (.[1] | since) and $minor <= (.[1] | until))}) | unique | map(.name as $n
      | select((($shown | has($n)) != .has)
        or (if .has then ($all | has($n)) and ($n | IN("LxcConf", "NetworkMode", "UsernsMode") | not) and $stored[$n] == $plain[$n] else $stored[$n] != $plain[$n] end)))
    | map(.name) | join(" ")'
  for minor in 18 19 20 21 22 23 24; do
    make "$all" 1.$minor
    run jq -rn --rawfile fields "$moss_top/docs/fields.tsv" --argjson minor $minor --argjson all "$all" --argjson plain "$plain" \
      --argjson shown "$(inspect .HostConfig 1.$minor)" --argjson stored "$(inspect .HostConfig)" "$program"
    expect equal "1.$minor: $output" "1.$minor: "
    again
  done
  # The list knows every field that is given here, and is the list that is meant.
  expect equal "$(jq -rn --rawfile fields "$moss_top/docs/fields.tsv" --argjson all "$all" '$all | keys[] | select(. as $n | $fields | contains("\nhost.\($n)\t") or contains("\nhost.\($n).") | not)')" ""
  moss rm -f "$db"
}
