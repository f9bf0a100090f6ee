#!/usr/bin/env bats
# What containers are made with in versions of the API after 1.24.

load lib/moss

setup_file() {
  export XDG_CONFIG_HOME=$BATS_FILE_TMPDIR/config
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

get() { api GET "$1" | head -n 1; }

@test "Init: the first process passes signals on and releases what has ended; it is not a file of the container" {
  name=$(unique init)
  moss run -d --init --name "$name" busybox sh -c '(sleep 0.1 & ) ; sleep 0.3; echo waited; exec sleep 1000'
  eventually 10 log_has "$name" waited
  expect equal "$(moss exec "$name" cat /proc/1/cmdline | tr '\0' ' ')" "/dev/init -- sh -c (sleep 0.1 & ) ; sleep 0.3; echo waited; exec sleep 1000 "
  expect equal "$(moss exec "$name" sh -c 'grep -l "^State:.Z" /proc/[0-9]*/status 2>/dev/null' || true)" ""
  expect equal "$(moss inspect "$name" | jq -c '.[0] | [.Path, .HostConfig.Init]')" '["sh",true]'
  expect equal "$(moss diff "$name")" ""
  run moss exec "$name" sh -c 'echo x >/dev/init'
  expect contains "Read-only file system"
  run moss exec "$name" sh -c 'echo x >/proc/1/exe'
  [ "$status" != 0 ] || fail "the program of the first process can be written to"
  moss stop "$name" # SIGTERM ends sleep, which it would not as the first process
  expect equal "$(moss wait "$name")" 143
  moss start "$name"
  moss rm -f "$name"
  for options in "" "-t" "-u 1000" "--read-only" "--network none" "--security-opt no-new-privileges --cap-drop ALL"; do
    # shellcheck disable=SC2086 # words
    run moss run --rm --init $options busybox sh -c 'exit 9'
    expect status 9
  done
  run -127 moss run --rm --init busybox no-such-command
  run moss run --rm --init --tmpfs /dev busybox true
  expect status 125
  expect contains 'Init: the mount at /dev leaves no place for it'
  run moss run --rm --init --pid host busybox true
  expect status 0
  expect contains 'Init has no effect'
  # The other clients', at the first version that has it.
  DOCKER_API_VERSION=1.25 run dock run --rm --init busybox sh -c 'cut -d" " -f2 /proc/1/stat'
  expect output '(init)'
}

@test "IpcMode: without a wish private from 1.40 on" {
  name=$(unique box)
  for v in 1.39 1.40; do
    api POST "/v$v/containers/create?name=$name-$v" '{"Image":"busybox","Cmd":["sleep","1000"]}' >/dev/null
    moss start "$name-$v"
  done
  expect equal "$(moss inspect "$name-1.39" "$name-1.40" | jq -c 'map(.HostConfig.IpcMode)')" '["shareable","private"]'
  expect equal "$(get "/v1.31/containers/$name-1.39/json" | jq -c .HostConfig.IpcMode)" '""' # which has no word for it
  # A copy of what inspect shows is as open as the first one.
  host=$(get "/v1.51/containers/$name-1.39/json" | jq -c .HostConfig)
  expect equal "$(api POST "/v1.51/containers/create?name=$name-copy" "{\"Image\":\"busybox\",\"Cmd\":[\"sleep\",\"1000\"],\"HostConfig\":$host}" | tail -n 1)" 201
  moss start "$name-copy"
  for open in 1.39 copy; do
    run moss run --rm --ipc "container:$name-$open" busybox true
    expect status 0
  done
  run moss run --rm --ipc "container:$name-1.40" busybox true
  expect status 125
  expect contains 'non-shareable IPC'
  moss rm -f "$name-1.39" "$name-1.40" "$name-copy"
}

@test "MaskedPaths and ReadonlyPaths: inspect shows what the container has, and a copy has the same" {
  name=$(unique box)
  # create NAME HOST: a container that says what it sees of /proc/keys, which is masked by default, and of /proc/sys.
  create() {
    run api POST "/v1.51/containers/create?name=$1" "{\"Image\":\"busybox\",\"HostConfig\":$2,
      \"Cmd\":[\"awk\",\"\$5 == \\\"/proc/keys\\\" || \$5 == \\\"/proc/sys\\\" { print \$5 }\",\"/proc/self/mountinfo\"]}"
    expect line -1 201
  }
  shown() { get "/v$2/containers/$1/json" | jq -c '.HostConfig | [.MaskedPaths, .ReadonlyPaths] | map(if type == "array" then length else . end)'; }
  while read -r host counts mounts; do
    create "$name" "$host"
    expect equal "$(shown "$name" 1.51)" "$counts"
    create "$name-copy" "$(get "/v1.51/containers/$name/json" | jq -c .HostConfig)"
    expect equal "$(shown "$name-copy" 1.51)" "$counts"
    for box in "$name" "$name-copy"; do expect equal "$(moss start -a "$box" | sort | xargs)" "$mounts"; done
    moss rm "$name" "$name-copy"
  done <<'EOF'
{} [12,5] /proc/keys /proc/sys
{"MaskedPaths":[]} [0,5] /proc/sys
{"MaskedPaths":["/proc/keys"],"ReadonlyPaths":[]} [1,0] /proc/keys
{"SecurityOpt":["systempaths=unconfined"]} [0,0]
{"Privileged":true} [null,null]
EOF
  create "$name" '{}'
  expect equal "$(get "/v1.37/containers/$name/json" | jq -c '.HostConfig | [has("MaskedPaths"), has("ReadonlyPaths")]')" '[false,false]'
  moss rm "$name"
}

@test "CgroupnsMode: host is what the engine sees; Annotations reach the runtime" {
  name=$(unique box)
  api POST "/v1.51/containers/create?name=$name" '{"Image":"busybox","Cmd":["sleep","1000"],"HostConfig":{"Annotations":{"org.example.note":"a b"}}}' >/dev/null
  moss start "$name"
  moss run -d --name "$name-host" --cgroupns host busybox sleep 1000
  engine=$(readlink "/proc/$(inner_pid)/ns/cgroup")
  expect equal "$(moss exec "$name-host" readlink /proc/self/ns/cgroup)" "$engine"
  [ "$(moss exec "$name" readlink /proc/self/ns/cgroup)" != "$engine" ] || fail "the container sees the engine's control groups"
  expect equal "$(moss inspect "$name" | jq -c '.[0].HostConfig | [.CgroupnsMode, .Annotations]')" '["private",{"org.example.note":"a b"}]'
  spec=$(find "$MOSS_DIR/run" -path "*/tasks/$(moss inspect --format '{{.Id}}' "$name")/config.json")
  expect equal "$(jq -c '[.annotations["org.example.note"], .hooks]' "$spec")" '["a b",null]'
  for v in 1.45 1.46; do
    [ $v = 1.45 ] && want=null || want='{"org.example.note":"a b"}'
    expect equal "$(get "/v$v/containers/json" | jq -c --arg n "/$name" '.[] | select(.Names[0] == $n) | .HostConfig.Annotations')" "$want"
  done
  for wrong in '"CgroupnsMode":"shared"' '"Annotations":{"":"x"}'; do
    expect equal "$(api POST /v1.51/containers/create "{\"Image\":\"busybox\",\"HostConfig\":{$wrong}}" | tail -n 1)" 400
  done
  moss rm -f "$name" "$name-host"
}

@test "StartInterval: a container that starts is checked more often, from an image and from a flag" {
  name=$(unique box)
  # Nothing but this interval lets these become healthy within the day.
  moss run -d --name "$name" --health-cmd 'test -e /ok' --health-interval 24h --health-start-period 24h --health-start-interval 100ms busybox sleep 1000
  moss build -t "$name" - <<<$'FROM busybox\nHEALTHCHECK --interval=24h --start-period=24h --start-interval=100ms CMD test -e /ok\n'
  moss run -d --name "$name-image" "$name" sleep 1000
  for box in "$name" "$name-image"; do
    expect equal "$(moss inspect "$box" | jq -c '.[0].Config.Healthcheck | [.Interval, .StartPeriod, .StartInterval]')" '[86400000000000,86400000000000,100000000]'
    moss exec "$box" touch /ok
    health() { [ "$(moss inspect "$box" | jq -r '.[0].State.Health.Status')" = healthy ]; }
    eventually 10 health
  done
  moss rm -f "$name" "$name-image"
  moss rmi "$name"
}

@test "networks of a container: which has the way out, by what names it is found" {
  name=$(unique box)
  moss network create --subnet 10.79.2.0/24 "$name-a"
  moss network create --subnet 10.79.3.0/24 "$name-b"
  moss network create --subnet 10.79.4.0/24 "$name-c"
  gateway() { moss exec "$name" ip route | awk '$1 == "default" { print $3 }'; }
  moss run -d --name "$name" -h front --network "name=$name-a,alias=web" --network "name=$name-b,gw-priority=5" busybox sleep 1000
  expect equal "$(gateway)" 10.79.3.1
  moss network connect --gw-priority 9 "$name-c" "$name"
  expect equal "$(gateway)" 10.79.4.1
  moss network disconnect "$name-c" "$name"
  expect equal "$(gateway)" 10.79.3.1
  id=$(moss inspect --format '{{.Id}}' "$name")
  # shown VERSION: what the network a shows of it.
  shown() { get "/v$1/containers/$name/json" | jq -c --arg n "$name-a" '.NetworkSettings.Networks | [.[$n].Aliases, .[$n].DNSNames, (map_values(.GwPriority) | add)]'; }
  expect equal "$(shown 1.43)" "[[\"web\",\"${id:0:12}\"],null,null]"
  expect equal "$(shown 1.44)" "[[\"web\",\"${id:0:12}\"],[\"$name\",\"${id:0:12}\",\"web\",\"front\"],null]"
  expect equal "$(shown 1.48)" "[[\"web\"],[\"$name\",\"${id:0:12}\",\"web\",\"front\"],5]"
  for word in "$name" "${id:0:12}" web front; do
    expect --in "$(moss run --rm --network "$name-a" busybox nslookup "$word" 2>&1)" contains 10.79.2.
  done
  moss rm -f "$name"
  moss network rm "$name-a" "$name-b" "$name-c"
}

@test "update: PidsLimit 0 takes the limit away from 1.40 on" {
  name=$(unique box)
  moss create --name "$name" --pids-limit 50 busybox true
  for step in "1.39 0 50" "1.40 null 50" "1.40 0 -1" "1.40 60 60" "1.51 -1 -1"; do
    read -r v asked want <<<"$step"
    expect equal "$(api POST "/v$v/containers/$name/update" "{\"PidsLimit\":$asked}" | tail -n 1)" 200
    expect equal "$(get "/v1.51/containers/$name/json" | jq -c .HostConfig.PidsLimit)" "$want"
  done
  moss rm "$name"
}

@test "DriverOpts of a place in a network: the interface's name and its parameters" {
  name=$(unique box)
  moss network create "$name-a"
  moss network create "$name-b"
  prefix=com.docker.network.endpoint
  parameter() { moss exec "$name" cat "/proc/sys/net/ipv4/conf/$1"; }
  moss run -d --name "$name" --network "name=$name-a,driver-opt=$prefix.ifname=front,driver-opt=$prefix.sysctls=net.ipv4.conf.IFNAME.log_martians=1" \
    --network "name=$name-b" busybox sleep 1000
  expect equal "$(moss exec "$name" ls /sys/class/net | xargs)" "eth0 front lo"
  expect equal "$(parameter front/log_martians) $(parameter eth0/log_martians)" "1 0"
  # docker's command line sends IFNAME in small letters.
  run dock run --rm --network "name=$name-a,driver-opt=$prefix.sysctls=net.ipv4.conf.IFNAME.log_martians=1" busybox cat /proc/sys/net/ipv4/conf/eth0/log_martians
  expect output 1
  moss network disconnect "$name-b" "$name"
  moss network connect --driver-opt "$prefix.ifname=eth7" --driver-opt "$prefix.sysctls=net.ipv4.conf.IFNAME.log_martians=1,net.ipv4.conf.IFNAME.arp_notify=1" "$name-b" "$name"
  expect equal "$(parameter eth7/log_martians) $(parameter eth7/arp_notify) $(parameter front/arp_notify)" "1 1 0"
  expect equal "$(get "/v1.32/containers/$name/json" | jq -c --arg n "$name-a" '.NetworkSettings.Networks[$n].DriverOpts')" \
    "{\"$prefix.ifname\":\"front\",\"$prefix.sysctls\":\"net.ipv4.conf.IFNAME.log_martians=1\"}"
  moss restart -t 0 "$name"
  expect equal "$(parameter front/log_martians) $(parameter eth7/arp_notify)" "1 1"
  run moss network connect --driver-opt "$prefix.ifname=front" bridge "$name"
  expect contains "is called front already"
  for wrong in "x=1" "$prefix.ifname=all" "$prefix.ifname=a/b" "$prefix.ifname=longerthanfifteen" "$prefix.sysctls=net.ipv4.ip_forward=1" \
    "$prefix.sysctls=net.ipv4.conf.all.log_martians=1" "$prefix.sysctls=net.ipv4.conf.IFNAME./log=1" "$prefix.sysctls=kernel.conf.IFNAME.a.b=1"; do
    expect equal "$(api POST /v1.51/networks/bridge/connect "{\"Container\":\"$name\",\"EndpointConfig\":{\"DriverOpts\":{\"${wrong%%=*}\":\"${wrong#*=}\"}}}" | tail -n 1)" 400
  done
  moss network connect --driver-opt "$prefix.sysctls=net.ipv4.conf.IFNAME.nosuch=1" bridge "$name" && fail "a parameter that there is not was taken"
  expect equal "$(moss exec "$name" ls /sys/class/net | xargs)" "eth7 front lo"
  moss rm -f "$name"
  moss network rm "$name-a" "$name-b"
}

@test "DeviceRequests: devices by the names that CDI gives them" {
  name=$(unique box)
  mkdir -p "$XDG_CONFIG_HOME/cdi"
  echo seen >"$BATS_TEST_TMPDIR/file"
  cat >"$XDG_CONFIG_HOME/cdi/gpu.yaml" <<YAML
cdiVersion: 0.6.0
kind: example.com/gpu
devices:
- name: all
  containerEdits:
    env: [GPU=all]
    deviceNodes: [{path: /dev/gpu0, hostPath: /dev/zero}]
    mounts: [{hostPath: $BATS_TEST_TMPDIR/file, containerPath: /lib/gpu, options: [ro]}]
    hooks: [{hookName: createContainer, path: /bin/sh, args: [sh, -c, "touch $BATS_TEST_TMPDIR/hooked"]}]
YAML
  for request in '"Driver":"cdi","DeviceIDs":["example.com/gpu=all"]' '"Count":-1,"Capabilities":[["gpu"]]'; do
    expect equal "$(api POST "/v1.40/containers/create?name=$name" "{\"Image\":\"busybox\",\"Cmd\":[\"sh\",\"-c\",\"echo \$GPU; head -c 1 /dev/gpu0 | wc -c; cat /lib/gpu; touch /lib/gpu 2>/dev/null || echo ro\"],
      \"HostConfig\":{\"DeviceRequests\":[{$request}]}}" | tail -n 1)" 201
    run moss start -a "$name"
    expect contains $'all\n1\nseen' ro
    [ -e "$BATS_TEST_TMPDIR/hooked" ] || fail "the hook has not run"
    rm "$BATS_TEST_TMPDIR/hooked"
    expect equal "$(get "/v1.51/containers/$name/json" | jq -c '.HostConfig.DeviceRequests[0].Driver')" "$([[ $request == *cdi* ]] && echo '"cdi"' || echo '""')"
    moss rm "$name"
  done
  expect equal "$(get /v1.50/info | jq -c '[.DiscoveredDevices, (.CDISpecDirs | length)]')" '[[{"ID":"example.com/gpu=all","Source":"cdi"}],3]'
  expect equal "$(get /v1.49/info | jq -c '.DiscoveredDevices')" null
  moss create --name "$name" busybox true >/dev/null
  while IFS='|' read -r status request words; do
    run api POST /v1.40/containers/create "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":{\"DeviceRequests\":[{$request}]}}"
    expect contains "$words" "$status"
  done <<'END'
400|"Driver":"cdi","DeviceIDs":["example.com/gpu=1"]|unresolvable CDI device example.com/gpu=1
400|"Driver":"cdi","DeviceIDs":["gpu"]|invalid CDI device name
501|"Driver":"tpu"|could not select device driver
501|"Capabilities":[["tpu"]]|could not select device driver
END
  for flags in "--device example.com/gpu=all" "--gpus all" "--gpus device=all"; do
    read -ra words <<<"$flags"
    run moss run --rm "${words[@]}" busybox sh -c 'echo "$GPU"; head -c 1 /dev/gpu0 | wc -c'
    expect status 0
    expect output $'all\n1'
  done
  run moss run --rm --device example.com/gpu=1 busybox true
  expect status 125
  expect contains 'unresolvable CDI device example.com/gpu=1'
  run moss run --rm --device-cgroup-rule 'c 1:3 rwm' busybox true
  expect status 125
  expect contains DeviceCgroupRules
  chmod 666 "$XDG_CONFIG_HOME/cdi/gpu.yaml"
  run api POST /v1.40/containers/create '{"Image":"busybox","Cmd":["true"],"HostConfig":{"DeviceRequests":[{"Driver":"cdi","DeviceIDs":["example.com/gpu=all"]}]}}'
  expect contains 'unresolvable CDI device example.com/gpu=all' 'others than its owner can write it' 400
  rm "$XDG_CONFIG_HOME/cdi/gpu.yaml"
  moss rm "$name"
}
