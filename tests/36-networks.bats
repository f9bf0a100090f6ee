#!/usr/bin/env bats
# Networks of the driver bridge as containers see them: who reaches whom, addresses, devices, and what a crash leaves.

load lib/moss
load lib/crash

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() {
  finish
  for name in "${boxes[@]}"; do moss rm -f "$name" >/dev/null 2>&1; done
  for name in "${nets[@]}"; do moss network rm "$name" >/dev/null 2>&1; done
  true
}

boxes=()
nets=()

# net VAR [FLAG...]: makes a network and puts its name into VAR.
net() {
  local name
  name=$(unique "$1")
  printf -v "$1" %s "$name"
  nets+=("$name")
  moss network create "${@:2}" "$name" >/dev/null
}

# box VAR NETWORK [FLAG...]: starts a container that waits, and puts its name into VAR.
box() {
  local name
  name=$(unique "$1")
  printf -v "$1" %s "$name"
  boxes+=("$name")
  moss run -d --name "$name" --network "$2" "${@:3}" busybox sleep 1000 >/dev/null
}

# in_box NAME CMD...: runs a command in a container.
in_box() { moss exec "$@"; }

# ip_of NAME NETWORK [FIELD]: the address that inspect shows.
ip_of() { moss inspect "$1" | jq -r --arg n "$2" --arg f "${3:-IPAddress}" '.[0].NetworkSettings.Networks[$n][$f]'; }

# reaches FROM ADDRESS: an echo comes back.
reaches() { in_box "$1" ping -c 1 -W 2 "$2" >/dev/null; }
# apart FROM ADDRESS: none does, nor does a connection open where somebody listens.
apart() { ! in_box "$1" ping -c 1 -W 1 "$2" >/dev/null; }

# says_hello FROM ADDRESS PORT: a server answers there.
says_hello() {
  [[ $(printf 'GET / HTTP/1.0\r\n\r\n' | in_box -i "$1" nc -w 2 "$2" "$3" 2>/dev/null) == *hello* ]]
}

# inside CMD...: runs a command of this machine in the containers' own network namespace, by way of the inner engine's
# namespaces.
inside() {
  local pid
  pid=$(inner_pid)
  nsenter --preserve-credentials -U -m -t "$pid" nsenter --net="$(detached_file)" "$@"
}
detached_file() { find "$MOSS_DIR/run" -maxdepth 3 -name netns ! -type d | head -n 1; }
has_device() { inside ip -o link show "$1" >/dev/null 2>&1; }

@test "two networks do not see each other, nor the default one; within each all pass" {
  net one
  net two
  box a "$one"
  box b "$one"
  box c "$two"
  moss run -d --name "$(unique d)" busybox sleep 1000 >"$BATS_TEST_TMPDIR/d"
  d=$(cat "$BATS_TEST_TMPDIR/d")
  boxes+=("$d")
  reaches "$a" "$(ip_of "$b" "$one")"
  apart "$a" "$(ip_of "$c" "$two")"
  apart "$c" "$(ip_of "$a" "$one")"
  apart "$d" "$(ip_of "$a" "$one")"
  apart "$a" "$(ip_of "$d" bridge)"
  # Nor a port that somebody listens on.
  moss exec -d "$c" httpd -f -p 7000 -h /var/www
  eventually 5 says_hello "$c" "$(ip_of "$c" "$two")" 7000
  run says_hello "$a" "$(ip_of "$c" "$two")" 7000
  [ "$status" -ne 0 ]
}

@test "a container reaches the gateway of its own network and no other one" {
  net one
  net two
  box a "$one"
  box c "$two"
  reaches "$a" "$(ip_of "$a" "$one" Gateway)"
  apart "$a" "$(ip_of "$c" "$two" Gateway)"
}

@test "addresses are what inspect says: device, MAC, route, length" {
  net one --subnet 10.91.0.0/24 --gateway 10.91.0.9
  box a "$one"
  expect equal "$(ip_of "$a" "$one")" 10.91.0.1
  expect equal "$(ip_of "$a" "$one" Gateway)" 10.91.0.9
  expect equal "$(ip_of "$a" "$one" IPPrefixLen)" 24
  run in_box "$a" ip addr show eth0
  expect contains "inet 10.91.0.1/24" "$(ip_of "$a" "$one" MacAddress)" "02:42:0a:5b:00:01"
  run in_box "$a" ip route
  expect contains "default via 10.91.0.9 dev eth0"
}

@test "fixed addresses: anywhere in the subnet, once, and free again when the container has gone" {
  net one --subnet 10.92.0.0/24 --ip-range 10.92.0.128/26 --aux-address router=10.92.0.130
  box a "$one" --ip 10.92.0.5
  run in_box "$a" ip addr show eth0
  expect contains 10.92.0.5/24
  for bad in 10.92.0.5 10.92.0.1 10.92.0.130 10.92.0.255; do
    run moss run --rm --network "$one" --ip "$bad" busybox true
    expect contains "Address already in use"
  done
  run moss run --rm --network "$one" --ip 10.93.0.5 busybox true
  expect contains "no configured subnet or ip-range contain the IP address 10.93.0.5"
  moss rm -f "$a"
  run moss run --rm --network "$one" --ip 10.92.0.5 busybox ip addr show eth0
  expect contains 10.92.0.5/24
}

@test "the range, auxiliary addresses and the last address: what is handed out, and what when nothing is left" {
  net one --subnet 10.94.0.0/24 --ip-range 10.94.0.8/30 --aux-address a=10.94.0.9
  got=
  for i in 1 2 3; do
    box "c$i" "$one"
    v=c$i
    got+=" $(ip_of "${!v}" "$one")"
  done
  expect equal "$got" " 10.94.0.8 10.94.0.10 10.94.0.11"
  run moss run --rm --network "$one" busybox true
  [ "$status" -ne 0 ]
  expect contains "no available addresses"
  moss rm -f "$c2"
  box again "$one"
  expect equal "$(ip_of "$again" "$one")" 10.94.0.10
}

@test "addresses go round: 200 quick starts and stops leave nothing and give none twice at a time" {
  net one --subnet 10.95.0.0/16
  before=$(inside ip -o link | wc -l)
  for round in 1 2 3 4 5 6 7 8 9 10; do
    pids=()
    for i in $(seq 20); do
      moss run --rm --network "$one" busybox hostname -i >>"$BATS_TEST_TMPDIR/ips" &
      pids+=($!)
    done
    wait "${pids[@]}"
  done
  expect equal "$(wc -l <"$BATS_TEST_TMPDIR/ips")" 200
  expect equal "$(sort -u "$BATS_TEST_TMPDIR/ips" | wc -l)" 200
  no_more() { [ "$(inside ip -o link | wc -l)" -le "$before" ] && [ -z "$(ls "$MOSS_DIR/run/netns")" ]; }
  eventually 20 no_more
}

@test "a reused address is reached at once, also with a MAC address of its own" {
  net one --subnet 10.96.0.0/24
  box peer "$one"
  for mac in 02:11:22:33:44:55 02:11:22:33:44:66; do
    box a "$one" --ip 10.96.0.50 --mac-address "$mac"
    run in_box "$a" ip link show eth0
    expect contains "$mac"
    expect equal "$(ip_of "$a" "$one" MacAddress)" "$mac"
    reaches "$peer" 10.96.0.50
    moss rm -f "$a"
  done
}

@test "an internal network has no way out and no default route; its containers reach each other" {
  net one --internal
  box a "$one"
  box b "$one"
  reaches "$a" "$(ip_of "$b" "$one")"
  expect equal "$(ip_of "$a" "$one" Gateway)" ""
  run in_box "$a" ip route
  expect lacks default
  # Not even for one that sets a route itself.
  box c "$one" --cap-add NET_ADMIN
  gateway=$(moss network inspect "$one" | jq -r '.[0].IPAM.Config[0].Gateway')
  in_box "$c" ip route add default via "$gateway"
  apart "$c" 10.0.2.2
  run in_box "$c" nc -w 1 10.0.2.3 53
  [ "$status" -ne 0 ]
}

@test "enable_icc=false: containers reach the outside and not each other" {
  net one -o com.docker.network.bridge.enable_icc=false
  box a "$one"
  box b "$one"
  apart "$a" "$(ip_of "$b" "$one")"
  apart "$b" "$(ip_of "$a" "$one")"
  reaches "$a" "$(ip_of "$a" "$one" Gateway)"
}

@test "the options mtu and name, and the prefix of devices" {
  dev=br$RANDOM
  net one -o com.docker.network.driver.mtu=1400 -o com.docker.network.bridge.name="$dev" -o com.docker.network.container_iface_prefix=net
  box a "$one"
  run in_box "$a" ip link show net0
  expect contains "mtu 1400"
  run inside ip link show "$dev"
  expect contains "mtu 1400"
  run moss network create -o com.docker.network.bridge.name="$dev" "$(unique clash)"
  [ "$status" -ne 0 ]
  expect contains "$dev" "in use"
}

@test "enable_ip_masquerade=false: no address is translated on the way out" {
  net one
  net two -o com.docker.network.bridge.enable_ip_masquerade=false
  box a "$one"
  box b "$two"
  subnet() { moss network inspect "$1" | jq -r '.[0].IPAM.Config[0].Subnet'; }
  run inside nft list set ip moss masq
  expect contains "$(subnet "$one")"
  expect lacks "$(subnet "$two")"
}

@test "IPv6: addresses at once, the gateway, each other, and nobody in another network" {
  net one --ipv6 --subnet 10.97.0.0/24 --subnet fd00:97::/64
  net two --ipv6
  box a "$one"
  box b "$one" --ip6 fd00:97::77
  box c "$two"
  expect equal "$(ip_of "$a" "$one" GlobalIPv6Address)" fd00:97::2
  expect equal "$(ip_of "$a" "$one" IPv6Gateway)" fd00:97::1
  expect equal "$(ip_of "$b" "$one" GlobalIPv6Address)" fd00:97::77
  run in_box "$a" ip -6 addr show eth0
  expect contains fd00:97::2/64
  expect lacks tentative
  in_box "$a" ping -6 -c 1 -W 2 fd00:97::77
  in_box "$a" ping -6 -c 1 -W 2 fd00:97::1
  run in_box "$a" ip -6 route
  expect contains "default via fd00:97::1 dev eth0"
  run in_box "$a" ping -6 -c 1 -W 1 "$(ip_of "$c" "$two" GlobalIPv6Address)"
  [ "$status" -ne 0 ]
  expect --in "$(ip_of "$c" "$two" GlobalIPv6Address)" matches '^fd'
  # Without EnableIPv6 there is none.
  net three
  box d "$three"
  run in_box "$d" ip -6 addr show eth0
  expect lacks inet6
}

@test "a container in several networks: devices in order, one way out, and it follows when that network goes" {
  net one
  net two
  net inner --internal
  box a "$inner"
  box b "$one"
  box c "$two"
  run in_box "$a" ip route
  expect lacks default
  moss network connect "$one" "$a"
  run in_box "$a" ip route
  expect contains "default via $(ip_of "$a" "$one" Gateway) dev eth1"
  moss network connect "$two" "$a"
  reaches "$a" "$(ip_of "$b" "$one")"
  reaches "$a" "$(ip_of "$c" "$two")"
  apart "$b" "$(ip_of "$c" "$two")"
  was=$(ip_of "$a" "$one")
  moss network disconnect "$one" "$a"
  run in_box "$a" ip route
  expect contains "default via $(ip_of "$a" "$two" Gateway) dev eth2"
  run in_box "$a" ip -o link
  expect lacks eth1
  apart "$b" "$was"
  moss network disconnect "$two" "$a"
  run in_box "$a" ip route
  expect lacks default
  # The lowest number that is free.
  moss network connect "$two" "$a"
  run in_box "$a" ip -o link
  expect contains eth1
  expect lacks eth2
}

@test "from the gateway's address containers reach published ports, those of other networks as well" {
  net one
  net two
  box a "$one" -p 0:80
  box b "$two"
  moss exec -d "$a" httpd -f -p 80 -h /var/www
  port=$(moss inspect "$a" | jq -r '.[0].NetworkSettings.Ports["80/tcp"][0].HostPort')
  eventually 5 says_hello "$b" "$(ip_of "$b" "$two" Gateway)" "$port"
  # Its own, too.
  says_hello "$a" "$(ip_of "$a" "$one" Gateway)" "$port"
  # Not from a network without a way out.
  net inner --internal
  box i "$inner"
  run says_hello "$i" "$(moss network inspect "$inner" | jq -r '.[0].IPAM.Config[0].Gateway')" "$port"
  [ "$status" -ne 0 ]
  # Not what is published on one address only.
  box c "$one" -p 127.0.0.1::80
  moss exec -d "$c" httpd -f -p 80 -h /var/www
  port=$(moss inspect "$c" | jq -r '.[0].NetworkSettings.Ports["80/tcp"][0].HostPort')
  eventually 5 says_hello "$c" "$(ip_of "$c" "$one")" 80
  run says_hello "$b" "$(ip_of "$b" "$two" Gateway)" "$port"
  [ "$status" -ne 0 ]
}

@test "kill -9 of the engine: addresses, devices and connections stay, none is given twice" {
  net one --ipv6 --subnet 10.98.0.0/24
  net two --subnet 10.99.0.0/24
  box a "$one" --ip 10.98.0.3
  box b "$one"
  moss network connect "$two" "$a"
  before=$(in_box "$a" ip addr)
  engine=$(inner_pid)
  in_box "$a" ping -c 3 -i 1 "$(ip_of "$b" "$one")" >"$BATS_TEST_TMPDIR/ping" 2>&1 &
  asking=$!
  kill -KILL "$engine"
  wait "$asking" || true
  eventually 30 ping_ok
  expect equal "$(in_box "$a" ip addr)" "$before"
  reaches "$a" "$(ip_of "$b" "$one")"
  run moss run --rm --network "$one" --ip 10.98.0.3 busybox true
  expect contains "Address already in use"
  for i in 1 2 3 4; do
    box "n$i" "$one"
    v=n$i
    reaches "$a" "$(ip_of "${!v}" "$one")"
  done
  expect equal "$(for c in "$a" "$b" "$n1" "$n2" "$n3" "$n4"; do ip_of "$c" "$one"; done | sort -u | wc -l)" 6
  # It is still in both, and can leave one.
  moss network disconnect "$one" "$a"
  run in_box "$a" ip route
  expect contains "default via 10.99.0.1"
}

# starts_and_connects: six containers start in $one, while $a joins and leaves $two six times, each by a client of its own.
starts_and_connects() {
  local name pids=()
  for name in "$@"; do
    moss run -d --name "$name" --network "$one" busybox sleep 1000 >/dev/null 2>&1 &
    pids+=($!)
    moss network connect "$two" "$a" >/dev/null 2>&1 &
    pids+=($!)
    moss network disconnect "$two" "$a" >/dev/null 2>&1 &
    pids+=($!)
  done
  wait "${pids[@]}" || true
}

# bats test_tags=chance
@test "kill -9 in the middle of starts and connects leaves no device that nobody has" {
  seed_chance
  net one
  net two
  box a "$one"
  span=1000
  for _ in $(seq "${MOSS_CHANCE_ROUNDS:-1}"); do
    names=()
    for _ in 1 2 3 4 5 6; do names+=("$(unique s)"); done
    boxes+=("${names[@]}")
    killed_during starts_and_connects "${names[@]}"
    # A cable to each network that each running container's record has.
    want=$(moss ps -q | xargs -r -n 1 "$moss_bin/moss" --host "unix://$MOSS_SOCK" inspect | jq -s '[.[][].NetworkSettings.Networks | length] | add')
    cables() { [ "$(inside ip -o link | grep -c veth)" = "$want" ]; }
    eventually 10 cables
    for c in $(moss ps -q); do
      in_box "$c" ip route | grep -q default
    done
  done
}

@test "rm of a network takes its device away; the engine's restart keeps the others" {
  net one
  dev=br-$(moss network inspect "$one" | jq -r '.[0].Id[:12]')
  has_device "$dev"
  net two
  box b "$two" --ip "$(moss network inspect "$two" | jq -r '.[0].IPAM.Config[0].Subnet' | sed 's|\.0\.0/.*|.7.7|; s|\.0/20|.9|')" || box b "$two"
  address=$(moss network inspect "$two" | jq -r '.[0].IPAM.Config[0].Subnet')
  moss network rm "$one"
  run has_device "$dev"
  [ "$status" -ne 0 ]
  run moss network rm "$two"
  expect contains "has active endpoints"
  moss rm -f "$b"
  halt_engine
  spawn_engine
  expect equal "$(moss network inspect "$two" | jq -r '.[0].IPAM.Config[0].Subnet')" "$address"
  box c "$two"
  reaches "$c" "$(ip_of "$c" "$two" Gateway)"
  dev=br-$(moss network inspect "$two" | jq -r '.[0].Id[:12]')
  has_device "$dev"
}
