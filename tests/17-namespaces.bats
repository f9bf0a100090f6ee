#!/usr/bin/env bats
# Namespaces of other containers and of the host: network, processes, shared memory, host name.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# id_of NAME: a container's whole id.
id_of() { moss inspect "$1" | jq -r '.[0].Id'; }
# field NAME FILTER: a part of what inspect shows.
field() { moss inspect "$1" | jq -r ".[0]$2"; }
# refuse STATUS TEXT BODY: create answers so to the settings BODY, the end of a JSON object, and leaves nothing.
refuse() {
  local before
  before=$(answer_of '/containers/json?all=1' length)
  run api POST /containers/create "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],$3}"
  [ "${lines[-1]}" = "$1" ] || fail "$3: $output" || return 1
  expect contains "$2" || return 1
  expect equal "$(answer_of '/containers/json?all=1' length)" "$before"
}

@test "network container: the same interfaces, addresses and ports" {
  web=$(unique web)
  moss run -d --name "$web" busybox sh -c 'while :; do echo served | nc -l -p 8080; done'
  run moss run --rm --network "container:$web" busybox ip -o -4 addr show eth0
  expect contains "$(field "$web" .NetworkSettings.IPAddress)"
  run moss run --rm --network "container:$web" busybox sh -c 'until nc 127.0.0.1 8080; do sleep 0.1; done'
  expect contains served
  moss rm -f "$web"
}

@test "network container: host name, hosts and resolv.conf are the other's" {
  web=$(unique web)
  moss run -d --name "$web" --hostname front --domainname example.org --dns 192.0.2.53 --add-host "db:192.0.2.7" busybox sleep 1000
  run moss run --rm --network "container:$web" busybox sh -c 'hostname; cat /etc/hostname; cat /etc/hosts /etc/resolv.conf'
  expect line 0 front
  expect line 1 front
  expect contains $'192.0.2.7\tdb' "front.example.org front" "nameserver 192.0.2.53"
  # They are the same files: what one writes the other reads.
  moss run --rm --network "container:$web" busybox sh -c 'echo "192.0.2.8 seen" >>/etc/hosts'
  run moss run --rm --network "container:$web" busybox cat /etc/hosts
  expect contains "192.0.2.8 seen"
  moss rm -f "$web"
}

@test "network container: inspect shows the id, and no network of its own" {
  web=$(unique web) side=$(unique side)
  moss run -d --name "$web" busybox sleep 1000
  moss run -d --name "$side" --network "container:$web" busybox sleep 1000
  expect equal "$(field "$side" .HostConfig.NetworkMode)" "container:$(id_of "$web")"
  expect equal "$(field "$side" .NetworkSettings.Networks)" "{}"
  expect equal "$(field "$side" .HostsPath)" "$(field "$web" .HostsPath)"
  expect equal "$(field "$side" .Config.Hostname)" "$(field "$web" .Config.Hostname)"
  # A rename does not matter: the id counts.
  moss stop -t 0 "$side"
  moss rename "$web" "$web-new"
  moss start "$side"
  moss rm -f "$side"
  # Its end has left the other's network and files alone.
  run moss run --rm --network "container:$web-new" busybox sh -c 'ip -o -4 addr show eth0; cat /etc/hostname'
  expect status 0
  expect contains "$(field "$web-new" .NetworkSettings.IPAddress)" "$(field "$web-new" .Config.Hostname)"
  moss rm -f "$web-new"
}

@test "network container: one that has no network, or the host's" {
  web=$(unique web)
  moss run -d --name "$web" --network none busybox sleep 1000
  run moss run --rm --network "container:$web" busybox ls /sys/class/net
  expect output lo
  moss rm -f "$web"
  moss run -d --name "$web" --network host busybox sleep 1000
  run moss run --rm --network "container:$web" busybox ls /sys/class/net
  expect output "$(ls /sys/class/net)"
  moss rm -f "$web"
  # And one that has it from a third.
  moss run -d --name "$web" --hostname first busybox sleep 1000
  second=$(unique second)
  moss run -d --name "$second" --network "container:$web" busybox sleep 1000
  run moss run --rm --network "container:$second" busybox sh -c 'hostname; cat /etc/hostname; ip -o -4 addr show eth0'
  expect line 0 first
  expect line 1 first
  expect contains "$(field "$web" .NetworkSettings.IPAddress)"
  moss rm -f "$second" "$web"
}

@test "network container: the other must run" {
  web=$(unique web) side=$(unique side)
  moss create --name "$web" busybox sleep 1000
  moss create --name "$side" --network "container:$web" busybox true
  run api POST "/containers/$side/start"
  expect line -1 409
  expect contains "cannot join network of a non running container: $(id_of "$web")"
  expect equal "$(field "$side" .State.ExitCode)" 128
  moss start "$web"
  moss start "$side"
  moss rm -f "$web"
  eventually 20 is_exited "$side"
  run api POST "/containers/$side/start"
  expect line -1 404
  expect contains "No such container"
  moss rm "$side"
}

@test "network container: what cannot be had beside it is 400, as is a missing one" {
  web=$(unique web)
  moss create --name "$web" busybox true
  net="\"NetworkMode\":\"container:$web\""
  while IFS='|' read -r text config host; do
    refuse 400 "Conflicting options: $text" "${config:+$config,}\"HostConfig\":{$net${host:+,$host}}"
  done <<'TABLE'
hostname and the network mode|"Hostname":"x"|
domainname and the network mode|"Domainname":"x"|
mac-address and the network mode|"MacAddress":"02:42:ac:11:00:09"|
port exposing and the container type network mode|"ExposedPorts":{"80/tcp":{}}|
port publishing and the container type network mode||"PortBindings":{"80/tcp":[{}]}
port publishing and the container type network mode||"PublishAllPorts":true
dns and the network mode||"Dns":["192.0.2.1"]
dns-search and the network mode||"DnsSearch":["example.org"]
dns-option and the network mode||"DnsOptions":["ndots:1"]
custom host-to-IP mapping and the network mode||"ExtraHosts":["a:192.0.2.1"]
container type network can't be used with links||"Links":["x:y"]
TABLE
  refuse 400 "No such container: none-such" '"HostConfig":{"NetworkMode":"container:none-such"}'
  refuse 400 "invalid container format" '"HostConfig":{"NetworkMode":"container:"}'
  moss rm "$web"
}

@test "a container cannot join itself" {
  for mode in NetworkMode PidMode IpcMode; do
    name=$(unique self)
    run api POST "/containers/create?name=$name" "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":{\"$mode\":\"container:$name\"}}"
    expect line -1 400
    expect contains itself
    is_gone "$name"
  done
}

@test "an unknown network: create takes its name, start is 404" {
  name=$(unique net)
  run api POST "/containers/create?name=$name" '{"Image":"busybox","Cmd":["true"],"HostConfig":{"NetworkMode":"nowhere"}}'
  expect line -1 201
  run api POST "/containers/$name/start"
  expect line -1 404
  expect contains "network nowhere not found"
  expect equal "$(field "$name" .State.Status)" created
  moss rm "$name"
  refuse 400 "invalid network mode" '"HostConfig":{"NetworkMode":"a/b"}'
}

@test "default is bridge; NetworkDisabled is none" {
  run moss run --rm --network default busybox ls /sys/class/net
  expect contains eth0 lo
  name=$(unique off)
  run api POST "/containers/create?name=$name" '{"Image":"busybox","Cmd":["ls","/sys/class/net"],"NetworkDisabled":true}'
  expect line -1 201
  run moss start -a "$name"
  expect output lo
  moss rm "$name"
}

@test "endpoint settings: networks that go together, without addresses and aliases in the built-in ones" {
  refuse 400 "private (none) mode" '"NetworkingConfig":{"EndpointsConfig":{"none":{}}}'
  refuse 400 "private (none) mode" '"HostConfig":{"NetworkMode":"none"},"NetworkingConfig":{"EndpointsConfig":{"bridge":{}}}'
  refuse 400 "connected to host network" '"NetworkingConfig":{"EndpointsConfig":{"host":{}}}'
  refuse 400 "Container sharing network namespace with another container or host" \
    '"HostConfig":{"NetworkMode":"host"},"NetworkingConfig":{"EndpointsConfig":{"bridge":{}}}'
  refuse 400 "user specified IP address is supported on user defined networks only" \
    '"NetworkingConfig":{"EndpointsConfig":{"bridge":{"IPAMConfig":{"IPv4Address":"172.17.0.9"}}}}'
  refuse 400 "network-scoped alias is supported only for containers in user defined networks" \
    '"NetworkingConfig":{"EndpointsConfig":{"bridge":{"Aliases":["a"]}}}'
  name=$(unique own)
  run api POST "/containers/create?name=$name" '{"Image":"busybox","Cmd":["true"],"NetworkingConfig":{"EndpointsConfig":{"bridge":{}}}}'
  expect line -1 201
  moss rm "$name"
}

@test "pid container: one sees the other's processes, and ends with them" {
  web=$(unique web) side=$(unique side)
  moss run -d --name "$web" busybox sleep 4711
  run moss run --rm --pid "container:$web" busybox ps -o pid,args
  expect matches '^ +1 sleep 4711'
  expect contains "ps -o pid,args"
  run moss run --rm --pid "container:$web" busybox sh -c 'kill -0 1 && echo reached; exit 7'
  expect status 7
  expect contains reached
  moss run -d --name "$side" --pid "container:$web" busybox sleep 1000
  expect equal "$(field "$side" .HostConfig.PidMode)" "container:$(id_of "$web")"
  moss rm -f "$web"
  eventually 20 is_exited "$side"
  expect equal "$(field "$side" .State.ExitCode)" 137
  run api POST "/containers/$side/start"
  expect line -1 404
  moss rm "$side"
}

@test "pid host: the processes outside are seen" {
  run moss run --rm --pid host busybox sh -c 'tr "\0" " " </proc/'"$MOSSD_PID"'/cmdline'
  expect contains "--run-dir $MOSS_DIR/run"
  host=$(unique host)
  moss run -d --name "$host" --pid host busybox sleep 1000
  run moss run --rm --pid "container:$host" busybox sh -c 'tr "\0" " " </proc/'"$MOSSD_PID"'/cmdline'
  expect contains "--run-dir $MOSS_DIR/run"
  moss rm -f "$host"
}

# shm_pair CLIENT ARG...: that makes a container, whose shared memory and queues another one uses.
shm_pair() {
  local donor
  donor=$(unique donor)
  "$@" -d --name "$donor" busybox sh -c 'echo mine >/dev/shm/file; sleep 1000'
  eventually 20 moss run --rm --ipc "container:$donor" busybox grep -q mine /dev/shm/file
  moss run --rm --ipc "container:$donor" busybox sh -c 'echo yours >/dev/shm/answer; mkdir /dev/mqueue/x 2>/dev/null; : >/dev/mqueue/queue'
  run moss run --rm --ipc "container:$donor" busybox sh -c 'cat /dev/shm/answer; ls /dev/mqueue'
  expect output $'yours\nqueue'
  expect equal "$(moss run --rm --ipc "container:$donor" busybox readlink /proc/self/ns/ipc)" \
    "$(moss run --rm --ipc "container:$donor" --pid "container:$donor" busybox readlink /proc/1/ns/ipc)"
  moss rm -f "$donor"
}

@test "ipc container: memory, queues and semaphores are the other's" {
  shm_pair moss run --ipc shareable
  DOCKER_API_VERSION=1.24 shm_pair dock run # of that time: shared without a wish
}

@test "ipc container: sysctls and the size are those of the memory that is shared" {
  donor=$(unique donor)
  moss run -d --name "$donor" --ipc shareable --shm-size 1m --sysctl kernel.shmmax=65536 busybox sleep 1000
  run moss run --rm --ipc "container:$donor" busybox sh -c 'cat /proc/sys/kernel/shmmax; df -k /dev/shm | tail -n 1'
  expect line 0 65536
  expect matches '^shm +1024 '
  moss rm -f "$donor"
}

@test "ipc private and none are not shared; shareable, private and none mean what they say inside" {
  for mode in private none; do
    donor=$(unique donor)
    moss run -d --name "$donor" --ipc $mode busybox sleep 1000
    refuse 409 "non-shareable IPC" "\"HostConfig\":{\"IpcMode\":\"container:$donor\"}"
    moss rm -f "$donor"
  done
  run moss run --rm --ipc private busybox sh -c 'df -k /dev/shm | tail -n 1'
  expect matches '^shm +65536 '
  run moss run --rm --ipc none busybox sh -c 'test -e /dev/shm || echo none; ls -d /dev/mqueue'
  expect output $'none\n/dev/mqueue'
  refuse 400 "invalid IPC mode" '"HostConfig":{"IpcMode":"everybody"}'
  refuse 400 "No such container" '"HostConfig":{"IpcMode":"container:none-such"}'
  donor=$(unique donor)
  moss create --name "$donor" --ipc shareable busybox true
  side=$(unique side)
  moss create --name "$side" --ipc "container:$donor" busybox true
  run api POST "/containers/$side/start"
  expect line -1 409
  expect contains "cannot join IPC of a non running container"
  moss rm "$side" "$donor"
}

@test "ipc host: the host's memory" {
  token=$(unique moss-shm)
  echo outside >"/dev/shm/$token"
  run moss run --rm --ipc host busybox cat "/dev/shm/$token"
  rm -f "/dev/shm/$token"
  expect output outside
  expect equal "$(moss run --rm --ipc host busybox readlink /proc/self/ns/ipc)" "$(readlink /proc/self/ns/ipc)"
  donor=$(unique donor)
  moss run -d --name "$donor" --ipc host busybox sleep 1000
  expect equal "$(moss run --rm --ipc "container:$donor" busybox readlink /proc/self/ns/ipc)" "$(readlink /proc/self/ns/ipc)"
  moss rm -f "$donor"
}

@test "uts host: the host's name" {
  run moss run --rm --uts host busybox sh -c 'hostname; readlink /proc/self/ns/uts'
  expect line 0 "$(hostname)"
  expect line 1 "$(readlink /proc/self/ns/uts)"
  refuse 400 "hostname and the UTS mode" '"Hostname":"x","HostConfig":{"UTSMode":"host"}'
  refuse 400 "invalid UTS mode" '"HostConfig":{"UTSMode":"container:x"}'
}

@test "all of another container's namespaces at once, with sysctls of the shared network" {
  pod=$(unique pod)
  moss run -d --name "$pod" --hostname pod --ipc shareable busybox sleep 1000
  run moss run --rm --network "container:$pod" --pid "container:$pod" --ipc "container:$pod" --sysctl net.ipv4.ip_default_ttl=77 \
    busybox sh -c 'hostname; for n in net pid ipc; do [ "$(readlink /proc/self/ns/$n)" = "$(readlink /proc/1/ns/$n)" ] && echo $n; done'
  expect output $'pod\nnet\npid\nipc'
  run moss run --rm --network "container:$pod" busybox cat /proc/sys/net/ipv4/ip_default_ttl
  expect output 77
  moss rm -f "$pod"
}

@test "nothing of a shared memory stays mounted" {
  donor=$(unique donor)
  moss run -d --name "$donor" --ipc shareable busybox sleep 1000
  moss run --rm --ipc "container:$donor" busybox true
  run -127 moss run --rm --ipc "container:$donor" busybox /no/such/command
  expect lacks "$MOSS_DIR/run/shm/"
  expect equal "$(find "$MOSS_DIR/run/shm" -mindepth 1)" ""
  expect equal "$(grep -c "$MOSS_DIR/run/shm" "/proc/$(inner_pid)/mountinfo")" 0
  moss rm -f "$donor"
}

@test "the engine's end leaves no folder of shared memory" {
  donor=$(unique donor)
  moss run -d --name "$donor" --ipc shareable busybox sleep 1000
  moss run --rm --ipc "container:$donor" busybox true
  [ -d "$MOSS_DIR/run/shm" ]
  moss rm -f "$donor"
  halt_engine
  [ ! -e "$MOSS_DIR/run/shm" ]
  spawn_engine
}

@test "containers that share come up in their order with the next engine" {
  web=$(unique web) side=$(unique side)
  moss run -d --name "$web" --restart always --ipc shareable busybox sleep 1000
  moss run -d --name "$side" --restart always --network "container:$web" --ipc "container:$web" busybox sleep 1000
  halt_engine
  spawn_engine
  eventually 30 is_running "$web"
  eventually 30 is_running "$side"
  moss rm -f "$side" "$web"
}

@test "kill -9 of the engine: a container in another's network is taken over and released" {
  web=$(unique web) side=$(unique side)
  moss run -d --name "$web" busybox sleep 1000
  moss run -d --name "$side" --network "container:$web" busybox sleep 1000
  kill -KILL "$(inner_pid)"
  eventually 30 ping_ok
  expect equal "$(state "$side")" running
  moss rm -f "$side"
  run moss run --rm --network "container:$web" busybox ip -o -4 addr show eth0
  expect contains "$(field "$web" .NetworkSettings.IPAddress)"
  moss rm -f "$web"
}

# keep ARGS...: run with UsernsMode keep-id.
keep() { moss run --rm --userns keep-id "$@"; }

@test "userns keep-id: the user has the same numbers inside, and files on binds are theirs" {
  dir=$(mktemp -d "$MOSS_DATA/mine.XXXXXX")
  echo outside >"$dir/in"
  run keep -v "$dir:/mine" busybox sh -c 'id -u; id -g; stat -c %u:%g /mine/in; echo inside >/mine/out'
  expect output "$(id -u)"$'\n'"$(id -g)"$'\n'"$(id -u):$(id -g)"
  expect equal "$(stat -c %u:%g "$dir/out")" "$(id -u):$(id -g)"
  expect equal "$(cat "$dir/out")" inside
}

@test "userns keep-id: the user has an account and a home of theirs, once" {
  name=$(unique account)
  moss create --name "$name" --userns keep-id busybox \
    sh -c 'id -un; echo $HOME; cd ~ && echo mine >file && stat -c %u file; awk -F: -v id=$(id -u) "\$3 == id" /etc/passwd | wc -l; grep -c "^$(id -un):" /etc/group'
  want="$(id -un)"$'\n'"/home/$(id -un)"$'\n'"$(id -u)"$'\n'"1"$'\n'"1"
  for _ in first second; do
    run moss start -a "$name"
    expect output "$want"
  done
  moss rm "$name"
  dir=$(mktemp -d "$MOSS_DATA/home.XXXXXX")
  run keep -v "$dir:$HOME" busybox sh -c 'echo $HOME'
  expect output "$HOME"
}

@test "userns keep-id:uid=,gid=: the user is somebody else inside, with an account, and files on binds are theirs" {
  name=$(unique moved)
  dir=$(mktemp -d "$MOSS_DATA/mine.XXXXXX")
  echo outside >"$dir/in"
  moss create --name "$name" --userns keep-id:uid=4321,gid=5432 -v "$dir:/mine" busybox \
    sh -c 'id -u; id -g; id -un; echo $HOME; cd ~ && touch file && stat -c %u:%g file /mine/in; echo inside >/mine/out'
  want=$'4321\n5432\n'"$(id -un)"$'\n'"/home/$(id -un)"$'\n4321:5432\n4321:5432'
  for _ in first second; do
    run moss start -a "$name"
    expect output "$want"
  done
  expect equal "$(stat -c %u:%g "$dir/out")" "$(id -u):$(id -g)"
  moss rm "$name"
  # What is left out is the user's own; an account of the image keeps its name and home.
  run moss run --rm --userns keep-id:gid=5432 busybox sh -c 'id -u; id -g'
  expect output "$(id -u)"$'\n5432'
  run moss run --rm --userns keep-id:uid=33,gid=33 busybox sh -c 'id -un; id -gn; echo $HOME'
  expect output $'www\nwww\n/var/www'
  run moss run --rm --userns keep-id:uid=0,gid=0 busybox id -u
  expect output 0
  refuse 400 'invalid UsernsMode' '"HostConfig":{"UsernsMode":"keep-id:uid=x"}'
}

# bats test_tags=subids
@test "userns keep-id:uid=,gid=: the image's files keep their owners, and each pair has its own" {
  for ids in uid=33,gid=33 uid=4321 uid=70000,gid=70000; do
    run moss run --rm --userns "keep-id:$ids" busybox stat -c %u:%g /bin/busybox /etc/passwd /
    expect output $'0:0\n0:0\n0:0'
  done
  name=$(unique exec)
  moss run -d --name "$name" --userns keep-id:uid=4321,gid=4321 busybox sleep 1000
  run moss exec "$name" sh -c 'id -u; touch /tmp/f && stat -c %u:%g /tmp/f'
  expect output $'4321\n4321:4321'
  run moss exec -u root "$name" id -u
  expect output 0
  crash
  run moss exec "$name" id -u
  expect output 4321
  moss rm -f "$name"
}

# bats test_tags=subids
@test "userns keep-id: the image's files keep their owners, and root is there when asked for" {
  run keep busybox stat -c %u:%g /bin/busybox /etc/passwd /
  expect output $'0:0\n0:0\n0:0'
  run keep -u root busybox sh -c 'id -u; touch /x && chown 33:33 /x && stat -c %u:%g /x; su -s /bin/sh www -c "id -u"'
  expect output $'0\n33:33\n33'
  run keep busybox sh -c 'touch /x'
  expect contains "Permission denied"
  run keep -w /new/folder busybox sh -c 'pwd; touch here && stat -c %u here'
  expect output "/new/folder"$'\n'"$(id -u)"
}

# bats test_tags=subids
@test "userns keep-id: only the first container of an image pays for the copy, which goes with the image" {
  copies() { find "$MOSS_DATA/root/overlay" -mindepth 1 -maxdepth 1 -type d ! -name l | wc -l; }
  image=$(unique copy)
  run curl -sS -X POST --data-binary @"$MOSS_DIR/busybox.tar" --unix-socket "$MOSS_SOCK" "http://moss/images/create?fromSrc=-&repo=$image&changes=LABEL%20a=$image"
  before=$(copies)
  keep "$image" true
  after=$(copies)
  keep "$image" true
  expect equal "$(copies)" "$after"
  name=$(unique kept)
  moss create --name "$name" --userns keep-id "$image" sh -c 'stat -c %u /bin/busybox'
  moss rmi -f "$image"
  run moss start -a "$name"
  expect output 0
  moss rm "$name"
}

@test "userns keep-id: an exec runs as the user too" {
  name=$(unique keep)
  moss run -d --name "$name" --userns keep-id busybox sleep 1000
  run moss exec "$name" id -u
  expect output "$(id -u)"
  run moss exec "$name" sh -c 'echo mine >/tmp/f && stat -c %u:%g /tmp/f'
  expect output "$(id -u):$(id -g)"
  run moss exec -u 12345678 "$name" true
  expect status 126
  moss rm -f "$name"
}

@test "userns keep-id: network, ports below 1024 and sysctls" {
  web=$(unique web)
  moss run -d --name "$web" --userns keep-id --sysctl net.ipv4.ip_default_ttl=66 busybox sh -c 'while :; do echo served | nc -l -p 80; done'
  run keep --link "$web:web" busybox sh -c 'until nc web 80 2>/dev/null; do sleep 0.1; done'
  expect output served
  run moss run --rm --network "container:$web" busybox cat /proc/sys/net/ipv4/ip_default_ttl
  expect output 66
  run keep --network "container:$web" --sysctl net.ipv4.ip_default_ttl=67 busybox cat /proc/sys/net/ipv4/ip_default_ttl
  expect output 67
  run keep --network none busybox ls /sys/class/net /proc/sys/net/ipv4
  expect contains ip_forward
  run keep --network host busybox sh -c 'id -u; cat /etc/hostname'
  expect line 0 "$(id -u)"
  moss rm -f "$web"
}

@test "userns keep-id: what cannot be had with it is 400" {
  refuse 400 "Conflicting options: Privileged and UsernsMode keep-id" '"HostConfig":{"UsernsMode":"keep-id","Privileged":true}'
  donor=$(unique donor)
  moss create --name "$donor" busybox true
  refuse 400 "Conflicting options: PidMode and UsernsMode keep-id" "\"HostConfig\":{\"UsernsMode\":\"keep-id\",\"PidMode\":\"container:$donor\"}"
  moss rm "$donor"
}
