#!/usr/bin/env bats
# Containers in several networks: connect and disconnect, running and not, and what they find inside.
# bats file_tags=subids

load lib/moss
load lib/crash

setup_file() {
  start_engine
  import_busybox
}
teardown_file() {
  MOSSD_PID=$(cat "$MOSS_DIR/mossd.pid")
  stop_engine
}
setup() { begin; }
teardown() { finish; }

field() { moss inspect "$1" | jq -r ".[0]$2"; }
# make_network NAME [FIELDS]: prints the id.
make_network() {
  api POST /networks/create "{\"Name\":\"$1\"${2:+,$2}}" | head -n 1 | jq -re .Id
}
drop_networks() {
  local n
  for n in "$@"; do expect equal "$(api DELETE "/networks/$n" | tail -n 1)" 204; done
}
# idle NAME [ARG...]: a container that waits, and ends at once when it is stopped.
idle() {
  local name=$1
  shift
  moss run -d --name "$name" "$@" busybox sh -c 'trap "exit 0" TERM; while :; do sleep 0.1; done' >/dev/null
}
inside() {
  local name=$1
  shift
  moss exec "$name" "$@"
}
# connect NETWORK CONTAINER [ENDPOINT], disconnect NETWORK CONTAINER [FORCE]: what api answers.
connect() { api POST "/networks/$1/connect" "{\"Container\":\"$2\"${3:+,\"EndpointConfig\":$3}}"; }
disconnect() { api POST "/networks/$1/disconnect" "{\"Container\":\"$2\"${3:+,\"Force\":$3}}"; }
networks() { field "$1" '.NetworkSettings.Networks | keys | join(" ")'; }
address() { field "$1" ".NetworkSettings.Networks[\"$2\"].IPAddress"; }
# devices NAME: the container's IPv4 addresses by device, as it sees them.
devices() { inside "$1" ip -o -4 addr show | awk '$2 != "lo" {sub("/.*", "", $4); print $2, $4}' | sort; }
default_route() { inside "$1" ip -4 route show default | awk '{print $3, $5}'; }
hosts_has() { inside "$1" cat /etc/hosts | grep -qF -- "$2"; }
pings() { inside "$1" ping -c 1 -W 2 "$2" >/dev/null 2>&1; }
members() { answer_of "/networks/$1" -r '[.Containers[].Name] | sort | join(" ")'; }
# crash_engine: kill -9 of the engine that answers; the supervisor starts the next one.
crash_engine() {
  local engine
  engine=$(inner_pid)
  kill -KILL "$engine"
  eventually 20 ended "$engine"
  eventually 20 ping_ok
}
# consistent NAME: inspect tells of exactly the devices that there are, and hosts of their addresses.
consistent() {
  local shown host
  shown=$(field "$1" '.NetworkSettings.Networks[] | .IPAddress' | sort)
  host=$(field "$1" .Config.Hostname)
  expect equal "$(devices "$1" | awk '{print $2}' | sort)" "$shown"
  expect equal "$(inside "$1" cat /etc/hosts | awk -v host="$host" '$2 == host {print $1}' | sort)" "$shown"
}

@test "connect of a running container: device, address, names, hosts file and events" {
  net=$(unique net) web=$(unique web) db=$(unique db)
  id=$(make_network "$net")
  idle "$db" --network "$net"
  idle "$web"
  inode=$(stat -c %i "$(field "$web" .HostsPath)")
  inside "$web" sh -c 'echo "192.0.2.1 mine" >>/etc/hosts'
  since=$(date +%s)
  run connect "$net" "$web" '{"Aliases":["front"]}'
  expect line -1 200
  expect equal "$(networks "$web")" "$(printf '%s\n' bridge "$net" | sort | xargs)"
  ip=$(address "$web" "$net")
  expect --in "$(devices "$web")" contains "eth0 $(address "$web" bridge)" "eth1 $ip"
  hosts_has "$web" "$ip"
  hosts_has "$web" "192.0.2.1 mine"
  expect equal "$(stat -c %i "$(field "$web" .HostsPath)")" "$inode"
  expect equal "$(members "$id")" "$(printf '%s\n' "$web" "$db" | sort | xargs)"
  pings "$web" "$(address "$db" "$net")"
  for name in "$web" front "$(field "$web" .Id | cut -c 1-12)" "front.$net"; do pings "$db" "$name"; done
  pings "$web" "$db"
  run disconnect "$net" "$web"
  expect line -1 200
  expect equal "$(networks "$web")" bridge
  expect equal "$(devices "$web")" "eth0 $(address "$web" bridge)"
  hosts_has "$web" "192.0.2.1 mine"
  ! hosts_has "$web" "$ip" || fail "the address $ip is still in hosts"
  ! pings "$db" front || fail "front is still there"
  run moss events --since "$since" --until "$(($(date +%s) + 1))" --filter type=network --format json
  # Other containers' events may be of the same second.
  expect equal "$(jq -r --arg id "$(field "$web" .Id)" 'select(.Actor.Attributes.container == $id) | "\(.Action) \(.Actor.ID) \(.Actor.Attributes.name) \(.Actor.Attributes.type)"' <<<"$output" | grep -v bridge\ bridge | xargs)" \
    "connect $id $net bridge disconnect $id $net bridge"
  moss rm -f "$web" "$db"
  drop_networks "$net"
}

@test "connect of a container at rest: it has the place from its next start on, and after a restart" {
  first=$(unique a) second=$(unique b) web=$(unique web)
  make_network "$first" '"IPAM":{"Config":[{"Subnet":"10.97.1.0/24"}]}'
  make_network "$second" '"IPAM":{"Config":[{"Subnet":"10.97.2.0/24"}]}'
  moss create --name "$web" --network "$second" busybox sh -c 'trap "exit 0" TERM; while :; do sleep 0.1; done'
  run connect "$first" "$web" '{"IPAMConfig":{"IPv4Address":"10.97.1.77"}}'
  expect line -1 200
  expect equal "$(members "$first")" ""
  moss start "$web"
  for _ in 1 2; do
    # The network of the container's own mode is the first, the others follow by name.
    expect --in "$(devices "$web")" contains "eth0 10.97.2." "eth1 10.97.1.77"
    expect equal "$(default_route "$web")" "10.97.2.1 eth0"
    expect equal "$(members "$first") $(members "$second")" "$web $web"
    consistent "$web"
    moss restart "$web"
  done
  moss stop "$web"
  expect equal "$(members "$first")$(members "$second")" ""
  run disconnect "$second" "$web"
  expect line -1 200
  moss start "$web"
  expect equal "$(devices "$web")" "eth0 10.97.1.77"
  expect equal "$(default_route "$web")" "10.97.1.1 eth0"
  moss rm -f "$web"
  drop_networks "$first" "$second"
}

@test "several networks at create: each has its settings" {
  first=$(unique a) second=$(unique b) web=$(unique web)
  make_network "$first" '"IPAM":{"Config":[{"Subnet":"10.97.3.0/24"}]}'
  id=$(make_network "$second" '"IPAM":{"Config":[{"Subnet":"10.97.4.0/24"}]}')
  run api POST "/containers/create?name=$web" "{\"Image\":\"busybox\",\"Cmd\":[\"sh\",\"-c\",\"trap 'exit 0' TERM; while :; do sleep 0.1; done\"],
    \"MacAddress\":\"02:42:ac:11:00:77\",\"HostConfig\":{\"NetworkMode\":\"$second\"},
    \"NetworkingConfig\":{\"EndpointsConfig\":{\"${id:0:10}\":{\"IPAMConfig\":{\"IPv4Address\":\"10.97.4.9\",\"LinkLocalIPs\":[\"169.254.7.7\"]}},\"$first\":{\"Aliases\":[\"w\"]},\"bridge\":{}}}}"
  expect line -1 201
  expect equal "$(networks "$web")" "$(printf '%s\n' bridge "$first" "$second" | sort | xargs)"
  moss start "$web"
  expect --in "$(devices "$web")" contains "eth0 10.97.4.9" "eth0 169.254.7.7" "eth1 " "eth2 "
  expect equal "$(inside "$web" cat /sys/class/net/eth0/address)" 02:42:ac:11:00:77
  expect equal "$(default_route "$web")" "10.97.4.1 eth0"
  moss rm -f "$web"
  # A client that names networks means these alone, whatever the mode is.
  for mode in '' default bridge "$second"; do
    run api POST "/containers/create?name=$web" "{\"Image\":\"busybox\",\"Cmd\":[\"ip\",\"-o\",\"-4\",\"addr\"],
      \"HostConfig\":{\"NetworkMode\":\"$mode\"},\"NetworkingConfig\":{\"EndpointsConfig\":{\"$first\":{}}}}"
    expect line -1 201
    run moss start -a "$web"
    expect contains "10.97.3."
    expect lacks eth1
    expect equal "$(networks "$web")" "$first"
    moss rm "$web"
  done
  drop_networks "$first" "$second"
}

@test "a hardware address that was asked for is shown at rest and running, by its network and as the container's" {
  first=$(unique a) second=$(unique b) web=$(unique web)
  mac=02:42:0a:61:00:97
  make_network "$first" '"IPAM":{"Config":[{"Subnet":"10.97.16.0/24"}]}'
  make_network "$second" '"IPAM":{"Config":[{"Subnet":"10.97.17.0/24"}]}'
  # create NAME SETTINGS: a container of the first network, with settings of its own and of its places.
  create() {
    run api POST "/containers/create?name=$1" "{\"Image\":\"busybox\",\"Cmd\":[\"sleep\",\"1000\"],\"HostConfig\":{\"NetworkMode\":\"$first\"},$2}"
    expect line -1 201
  }
  # shown NAME: what inspect says at the newest version and at one before places had addresses of their own, and the list.
  shown() {
    for v in 1.51 1.43; do
      api GET "/v$v/containers/$1/json" | head -n 1 |
        jq -c --arg n "$first" '[.Config.MacAddress, .NetworkSettings.Networks[$n].MacAddress, (.NetworkSettings.Networks[$n].IPAddress != "")]'
    done
    api GET '/v1.51/containers/json?all=1' | head -n 1 |
      jq -r --arg c "/$1" --arg n "$first" '.[] | select(.Names[0] == $c) | .NetworkSettings.Networks[$n].MacAddress'
  }
  places="\"NetworkingConfig\":{\"EndpointsConfig\":{\"$second\":{},\"$first\":{\"MacAddress\":\"$mac\"}}}"
  for settings in "$places" "\"MacAddress\":\"$mac\""; do
    create "$web" "$settings"
    expect equal "$(shown "$web" | xargs)" "[$mac,$mac,false] [$mac,$mac,false] $mac"
    moss start "$web"
    expect equal "$(shown "$web" | xargs)" "[$mac,$mac,true] [$mac,$mac,true] $mac"
    expect equal "$(inside "$web" cat /sys/class/net/eth0/address)" "$mac"
    # A copy of what inspect shows of a running container: its place gets the container's address.
    copy=$(answer_of "/v1.51/containers/$web/json" -c '{Image: "busybox", Cmd: ["sleep", "1000"], HostConfig,
      MacAddress: .Config.MacAddress, NetworkingConfig: {EndpointsConfig: .NetworkSettings.Networks}}')
    moss kill "$web"
    moss wait "$web"
    expect equal "$(shown "$web" | xargs)" "[$mac,$mac,false] [$mac,$mac,false] $mac"
    moss rm "$web"
    run api POST "/containers/create?name=$web" "$copy"
    expect line -1 201
    expect equal "$(shown "$web" | xargs)" "[$mac,$mac,false] [$mac,$mac,false] $mac"
    moss rm "$web"
  done
  # What was not asked for is not: an address of a place in use is not one of the container.
  moss run -d --name "$web" --network "$first" busybox sleep 1000
  expect equal "$(field "$web" .Config.MacAddress)" ""
  moss rm -f "$web"
  drop_networks "$first" "$second"
}

@test "the default route and the ports follow when the network they go by is left" {
  first=$(unique a) second=$(unique b) web=$(unique web)
  make_network "$first" '"IPAM":{"Config":[{"Subnet":"10.97.5.0/24"}]}'
  make_network "$second" '"IPAM":{"Config":[{"Subnet":"10.97.6.0/24"}]}'
  moss run -d --name "$web" --network "$first" -p 127.0.0.1::8080 busybox sh -c 'while :; do echo served | nc -l -p 8080; done'
  port() { field "$web" '.NetworkSettings.Ports["8080/tcp"][0].HostPort'; }
  served() { [ "$(curl -s --max-time 5 --http0.9 "127.0.0.1:$(port)")" = served ]; }
  eventually 10 served
  expect equal "$(connect "$second" "$web" | tail -n 1)" 200
  expect equal "$(default_route "$web")" "10.97.5.1 eth0"
  expect equal "$(disconnect "$first" "$web" | tail -n 1)" 200
  expect equal "$(default_route "$web")" "10.97.6.1 eth1"
  eventually 10 served
  expect equal "$(disconnect "$second" "$web" | tail -n 1)" 200
  expect equal "$(default_route "$web")$(networks "$web")" ""
  expect equal "$(inside "$web" ls /sys/class/net)" lo
  expect equal "$(connect "$second" "$web" | tail -n 1)" 200
  eventually 10 served
  moss rm -f "$web"
  drop_networks "$first" "$second"
}

@test "a paused container may be connected and disconnected" {
  net=$(unique net) web=$(unique web)
  make_network "$net"
  idle "$web"
  moss pause "$web"
  expect equal "$(connect "$net" "$web" | tail -n 1)" 200
  moss unpause "$web"
  consistent "$web"
  moss pause "$web"
  expect equal "$(disconnect "$net" "$web" | tail -n 1)" 200
  moss unpause "$web"
  expect equal "$(devices "$web" | wc -l)" 1
  moss rm -f "$web"
  drop_networks "$net"
}

@test "what cannot be connected or disconnected, with its code, changes nothing" {
  net=$(unique net) web=$(unique web) rest=$(unique rest) onhost=$(unique onhost) alone=$(unique alone) side=$(unique side)
  make_network "$net" '"IPAM":{"Config":[{"Subnet":"10.97.7.0/24"}]}'
  idle "$web"
  moss create --name "$rest" busybox true
  idle "$onhost" --network host
  idle "$alone" --network none
  idle "$side" --network "container:$web"
  refuse() { # VERB CODE TEXT ARG...
    local verb=$1 code=$2 text=$3
    shift 3
    run "$verb" "$@"
    expect line -1 "$code"
    expect contains "$text"
  }
  for name in "$web" "$rest"; do
    refuse connect 403 "endpoint with name $name already exists in network bridge" bridge "$name"
    refuse connect 400 "connected to host network" host "$name"
    refuse connect 400 "private (none) mode" none "$name"
    refuse connect 400 "no configured subnet or ip-range contain the IP address 10.98.0.1" "$net" "$name" '{"IPAMConfig":{"IPv4Address":"10.98.0.1"}}'
    refuse connect 400 "invalid IPv4 address" "$net" "$name" '{"IPAMConfig":{"IPv4Address":"x"}}'
    refuse connect 400 "invalid link-local IP address" "$net" "$name" '{"IPAMConfig":{"LinkLocalIPs":["10.97.7.9"]}}'
    refuse disconnect 404 "container $name is not connected to network $net" "$net" "$name"
  done
  refuse connect 400 "sharing network namespace" "$net" "$onhost"
  refuse connect 400 "sharing network namespace" "$net" "$side"
  refuse connect 400 "private (none) mode" "$net" "$alone"
  refuse disconnect 400 "disconnected from host network" host "$onhost"
  refuse connect 404 "network none-such not found" none-such "$web"
  refuse connect 404 "No such container: none-such" "$net" none-such
  refuse disconnect 404 "No such container: none-such" "$net" none-such
  expect equal "$(disconnect "$net" none-such true | tail -n 1)" 200
  # An address that another one has.
  expect equal "$(connect "$net" "$web" '{"IPAMConfig":{"IPv4Address":"10.97.7.50"}}' | tail -n 1)" 200
  other=$(unique other)
  idle "$other"
  refuse connect 409 "Address already in use" "$net" "$other" '{"IPAMConfig":{"IPv4Address":"10.97.7.50"}}'
  expect equal "$(networks "$other") $(devices "$other" | wc -l)" "bridge 1"
  consistent "$web"
  consistent "$other"
  expect equal "$(networks "$alone") $(networks "$onhost")" "none host"
  moss rm -f "$web" "$rest" "$onhost" "$alone" "$side" "$other"
  drop_networks "$net"
}

@test "none: out of it at rest, then into another" {
  net=$(unique net) web=$(unique web)
  make_network "$net"
  moss create --name "$web" --network none busybox ls /sys/class/net
  expect equal "$(disconnect none "$web" | tail -n 1)" 200
  expect equal "$(connect "$net" "$web" | tail -n 1)" 200
  run moss start -a "$web"
  expect contains eth0
  moss rm "$web"
  drop_networks "$net"
}

@test "a network that goes under a stopped container: its start says so, and works with the next one of that name" {
  net=$(unique net) web=$(unique web)
  old=$(make_network "$net")
  moss create --name "$web" --network "$net" --restart always busybox sleep 1000
  drop_networks "$net"
  run api POST "/containers/$web/start"
  expect line -1 404
  expect contains "network $net not found"
  expect equal "$(field "$web" '.State | "\(.Status) \(.ExitCode)"')" "created 128"
  new=$(make_network "$net")
  moss start "$web"
  expect equal "$(field "$web" ".NetworkSettings.Networks[\"$net\"].NetworkID")" "$new"
  [ "$old" != "$new" ]
  run api DELETE "/networks/$net"
  expect line -1 409
  moss rm -f "$web"
  drop_networks "$net"
}

@test "NetworkMode by id is the network of that id; the list finds containers by network, running or not" {
  net=$(unique net) web=$(unique web)
  id=$(make_network "$net")
  moss create --name "$web" --network "${id:0:12}" busybox true
  expect equal "$(field "$web" .HostConfig.NetworkMode)" "$net"
  for by in "$net" "$id" "${id:0:12}"; do
    run api GET "/containers/json?all=1&filters=%7B%22network%22%3A%5B%22$by%22%5D%7D"
    expect equal "$(jq -r '[.[].Names[0]] | join(" ")' <<<"${lines[0]}")" "/$web"
  done
  moss start -a "$web"
  moss rm "$web"
  drop_networks "$net"
}

@test "names: rename, links to containers that come later, and a link that moves" {
  net=$(unique net) web=$(unique web) db=$(unique db)
  make_network "$net"
  idle "$web" --network "$net" --link "$db:store"
  ! pings "$web" store || fail "store is there before its container"
  idle "$db" --network "$net" --network-alias base
  eventually 5 pings "$web" store
  pings "$web" base
  moss rename "$db" "$db-new"
  pings "$web" "$db-new"
  ! pings "$web" "$db" || fail "the old name is still there"
  # A new container of the name takes the link over.
  idle "$db" --network "$net"
  eventually 5 pings "$web" store
  expect equal "$(inside "$web" ping -c 1 store | sed -n '1s/.*(\(.*\)).*/\1/p')" "$(address "$db" "$net")"
  ! inside "$web" env | grep STORE || fail "links of a user's network are no environment"
  moss rm -f "$web" "$db" "$db-new"
  drop_networks "$net"
}

@test "hosts: the host's names and host-gateway" {
  web=$(unique web)
  run moss run --rm --add-host gate:host-gateway --add-host six:2001:db8::7 busybox cat /etc/hosts
  expect contains $'10.0.2.2\tgate' $'2001:db8::7\tsix' $'10.0.2.2\thost.docker.internal host.moss.internal'
  run moss run --rm --network host busybox grep host.docker.internal /etc/hosts
  expect contains "host.docker.internal host.moss.internal"
  run moss run --rm --network none busybox grep -c internal /etc/hosts
  expect output 0
  run api POST "/containers/create?name=$web" '{"Image":"busybox","Cmd":["true"],"HostConfig":{"NetworkMode":"none","ExtraHosts":["gate:host-gateway"]}}'
  expect line -1 201
  run api POST "/containers/$web/start"
  expect line -1 400
  expect contains host-gateway
  moss rm "$web"
}

@test "resolv.conf: the resolver's of a user's network, the client's own elsewhere; it follows a connect" {
  net=$(unique net) web=$(unique web)
  make_network "$net"
  run moss run --rm --network "$net" --dns 192.0.2.53 --dns-search example.org busybox cat /etc/resolv.conf
  expect contains "nameserver 127.0.0.11" "search example.org" "ndots:0"
  expect lacks 192.0.2.53
  run moss run --rm --dns 192.0.2.53 --dns-opt ndots:3 busybox cat /etc/resolv.conf
  expect contains "nameserver 192.0.2.53" "options ndots:3"
  idle "$web"
  connect "$net" "$web"
  expect --in "$(inside "$web" cat /etc/resolv.conf)" contains "nameserver 127.0.0.11"
  disconnect "$net" "$web"
  # What the container has written is its own.
  inside "$web" sh -c 'echo "nameserver 192.0.2.9" >/etc/resolv.conf'
  connect "$net" "$web"
  expect equal "$(inside "$web" cat /etc/resolv.conf)" "nameserver 192.0.2.9"
  moss rm -f "$web"
  drop_networks "$net"
}

@test "the next engine knows what a container has been connected to" {
  net=$(unique net) web=$(unique web)
  make_network "$net"
  idle "$web"
  connect "$net" "$web" '{"Aliases":["front"]}'
  before=$(devices "$web")
  crash_engine
  expect equal "$(devices "$web")" "$before"
  consistent "$web"
  expect equal "$(members "$net")" "$web"
  expect equal "$(disconnect "$net" "$web" | tail -n 1)" 200
  consistent "$web"
  moss rm -f "$web"
  drop_networks "$net"
}

# bats test_tags=chance
@test "kill -9 of the engine in the middle of connects and disconnects: what is shown is what there is" {
  seed_chance
  net=$(unique net) web=$(unique web)
  make_network "$net" '"IPAM":{"Config":[{"Subnet":"10.97.8.0/29"}]}' # six addresses: one that leaks is missed soon
  idle "$web"
  span=80
  for _ in $(seq "${MOSS_CHANCE_ROUNDS:-5}"); do
    (
      for _ in 1 2 3 4 5 6 7 8; do
        connect "$net" "$web" >/dev/null 2>&1 || exit 0
        disconnect "$net" "$web" >/dev/null 2>&1 || exit 0
      done
    ) 3>&- 4>&- &
    client=$!
    pass_moment
    crash_engine
    wait "$client"
    consistent "$web"
    disconnect "$net" "$web" >/dev/null
    expect equal "$(networks "$web") $(devices "$web" | wc -l)" "bridge 1"
    expect equal "$(members "$net")" ""
  done
  for i in 1 2 3 4 5; do idle "$web-$i" --network "$net"; done
  expect equal "$(for i in 1 2 3 4 5; do address "$web-$i" "$net"; done | sort -u | wc -l)" 5
  moss rm -f "$web" "$web-1" "$web-2" "$web-3" "$web-4" "$web-5"
  drop_networks "$net"
}

@test "docker network connect, disconnect -f and run with several networks" {
  first=$(unique a) second=$(unique b) web=$(unique web)
  dock network create "$first"
  dock network create --subnet 10.97.9.0/24 "$second"
  dock run -d --name "$web" --network "$first" --network-alias w busybox sleep 1000
  dock network connect --ip 10.97.9.7 --alias x --link "$web:self" "$second" "$web"
  run dock inspect --format "{{(index .NetworkSettings.Networks \"$second\").IPAddress}}" "$web"
  expect output 10.97.9.7
  pings "$web" x
  pings "$web" self
  run dock network connect "$second" "$web"
  expect status 1
  expect contains "already exists in network $second"
  dock network disconnect -f "$second" "$web"
  run dock network disconnect "$second" "$web"
  expect status 1
  expect contains "is not connected to network $second"
  dock rm -f "$web"
  dock network rm "$first" "$second"
}
