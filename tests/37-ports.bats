#!/usr/bin/env bats
# Published ports: whose address a container sees, tcp and udp, IPv4 and IPv6, ranges, conflicts, and what they survive.

load lib/moss
load lib/ports

peerd_bin=${MOSS_PEERD:-$moss_top/.cache/bin/peerd}

setup_file() {
  start_engine
  import_busybox
  cp "$peerd_bin" "$MOSS_DIR/peerd"
  chmod 0755 "$MOSS_DIR/peerd"
}
teardown_file() { stop_engine; }
setup() {
  begin
  box=$(unique box)
  other=$(unique other)
  helpers=()
}
teardown() {
  local p
  for p in "${helpers[@]}"; do kill "$p" 2>/dev/null || true; done
  moss rm -f "$box" "$other" >/dev/null 2>&1 || true
  finish
}

# own_address FAMILY: sets $own to an address of this machine that is not on the loopback.
own_address() {
  own=$(ip -o "-$1" address show scope global | awk '{sub("/.*", "", $4); print $4; exit}')
  [ -n "$own" ] || skip "this machine has only its loopback: give it an IPv$1 address on a network device"
}
need_ipv6() { grep -qs . /proc/net/if_inet6 || skip "this machine has no IPv6: load the module ipv6"; }

port_of() { moss inspect "$box" | jq -r --arg k "$1" '.[0].NetworkSettings.Ports[$k][0].HostPort'; }
network() { moss inspect "$box" | jq -r ".[0].NetworkSettings.Networks.bridge.$1"; }

# page ADDRESS:PORT
page() { [ "$(curl -s --max-time 5 "http://$1/index.html")" = "hello from busybox" ]; }
refused() {
  run curl -s --max-time 5 "http://$1/"
  [ "$status" = 7 ] || [ "$status" = 56 ] || fail "curl of $1 ends with $status, want a refused or reset connection"
}
web() { moss run -d --name "$box" "$@" busybox httpd -f -h /var/www >/dev/null; }

# teller [ARG...]: a container whose port 80, tcp and udp, tells who asks.
teller() {
  moss run -d --name "$box" -v "$MOSS_DIR/peerd:/peerd:ro" "$@" busybox /peerd serve 80 >/dev/null
  port=$(port_of 80/tcp)
  eventually 10 told tcp - "127.0.0.1:$port"
}
told() { [ -n "$(ask "$@" 2>/dev/null)" ]; }
# ask tcp|udp FROM TO: the address that the container has seen.
ask() { echo hello | timeout 180 "$MOSS_DIR/peerd" ask "$1" "$2" "$3" | sed -n '1{s/ hello$//;p}'; }

@test "tcp and udp: a client's address arrives in the container" {
  own_address 4
  teller -p 80 -p 80/udp
  expect equal "$(ask tcp "$own" "$own:$port")" "$own"
  expect equal "$(ask udp "$own" "$own:$(port_of 80/udp)")" "$own"
}

@test "tcp and udp: a client on the loopback is never 127.0.0.1 in the container, but its gateway" {
  teller -p 80 -p 80/udp
  gateway=$(network Gateway)
  for from in - 127.0.0.1 127.0.0.7; do
    expect equal "$(ask tcp "$from" "127.0.0.1:$port")" "$gateway"
    expect equal "$(ask udp "$from" "127.0.0.1:$(port_of 80/udp)")" "$gateway"
  done
}

@test "udp: one client sends again and again, and answers come from the address it asked" {
  own_address 4
  teller -p 80/tcp -p 80/udp
  at=$(port_of 80/udp)
  run timeout 180 "$MOSS_DIR/peerd" ask udp - "$own:$at" < <(printf '%s\n' one two three)
  expect status 0
  expect output "$(printf "$own %s\n" one two three)"
  # A datagram as large as there may be.
  big=$(head -c 40000 /dev/zero | tr '\0' x)
  expect equal "$(echo "$big" | timeout 180 "$MOSS_DIR/peerd" ask udp - "127.0.0.1:$at")" "$(network Gateway) $big"
}

@test "a network with IPv6: a client's address arrives, on [::] too" {
  need_ipv6
  own_address 6
  net=$(unique net)
  dock network create --ipv6 "$net" >/dev/null
  teller -p 80 -p 80/udp --network "$net"
  expect equal "$(ask tcp "$own" "[$own]:$port")" "$own"
  expect equal "$(ask udp "$own" "[$own]:$(port_of 80/udp)")" "$own"
  gateway=$(moss inspect "$box" | jq -r ".[0].NetworkSettings.Networks[\"$net\"].IPv6Gateway")
  expect equal "$(ask tcp - "[::1]:$port")" "$gateway"
  moss rm -f "$box"
  dock network rm "$net"
}

@test "IPv6: a container that has none answers on [::] all the same" {
  need_ipv6
  teller -p 80 -p 80/udp
  expect equal "$(ask tcp - "[::1]:$port")" "$(network Gateway)"
  expect equal "$(ask udp - "[::1]:$(port_of 80/udp)")" "$(network Gateway)"
}

@test "without a host address a port is open on all addresses; clients before 1.25 see that of IPv4" {
  need_ipv6
  web -p 80
  port=$(port_of 80/tcp)
  shown() { answer_of "$1/containers/$box/json" -c '.NetworkSettings.Ports["80/tcp"]'; }
  four="{\"HostIp\":\"0.0.0.0\",\"HostPort\":\"$port\"}"
  expect equal "$(shown "")" "[$four,{\"HostIp\":\"::\",\"HostPort\":\"$port\"}]"
  expect equal "$(shown /v1.24)" "[$four]"
  expect --in "$(dock port "$box" 80)" contains "0.0.0.0:$port" "[::]:$port"
  export DOCKER_API_VERSION=1.24
  expect equal "$(dock port "$box" 80)" "0.0.0.0:$port"
  run dock ps --filter "name=$box" --format '{{.Ports}}'
  expect output "0.0.0.0:$port->80/tcp"
  unset DOCKER_API_VERSION
  eventually 10 page "127.0.0.1:$port"
  page "[::1]:$port"
}

@test "HostIp: one address only, 0.0.0.0 for IPv4 only, several bindings of one port" {
  need_ipv6
  a=$(free_port)
  web -p "127.0.0.1:$a:80" -p 0.0.0.0::80 -p '[::1]::80'
  expect equal "$(moss inspect "$box" | jq -c '[.[0].NetworkSettings.Ports["80/tcp"][].HostIp] | sort')" '["0.0.0.0","127.0.0.1","::1"]'
  eventually 10 page "127.0.0.1:$a"
  refused "[::1]:$a"
  for at in $(moss inspect "$box" | jq -r '.[0].NetworkSettings.Ports["80/tcp"][] | if .HostIp == "::1" then "[::1]:" + .HostPort else "127.0.0.1:" + .HostPort end'); do
    page "$at"
  done
}

@test "ranges: one to one, and any of a range" {
  low=$(free_port 6)
  web -p "127.0.0.1:$low-$((low + 1)):80-81"
  expect equal "$(port_of 80/tcp) $(port_of 81/tcp)" "$low $((low + 1))"
  eventually 10 page "127.0.0.1:$low"
  moss run -d --name "$other" -p "127.0.0.1:$low-$((low + 5)):80" busybox httpd -f -h /var/www >/dev/null
  got=$(moss inspect "$other" | jq -r '.[0].NetworkSettings.Ports["80/tcp"][0].HostPort')
  [ "$got" -gt $((low + 1)) ] && [ "$got" -le $((low + 5)) ] || fail "$got is not a free one of $low-$((low + 5))"
  eventually 10 page "127.0.0.1:$got"
  run moss run --rm -p "127.0.0.1:$low-$((low + 1)):80" busybox true
  [ "$status" != 0 ]
  expect contains "Bind for 127.0.0.1:$low-$((low + 1)) failed: all ports are allocated"
}

@test "PublishAllPorts: each exposed port gets one of the kernel's range, and a new one at each start" {
  read -r low high </proc/sys/net/ipv4/ip_local_port_range
  web -P --expose 80 --expose 53/udp
  for _ in 1 2; do
    for key in 80/tcp 53/udp; do
      port=$(port_of $key)
      [ "$port" -ge "$low" ] && [ "$port" -le "$high" ] || fail "$key is at $port, outside $low-$high"
    done
    eventually 10 page "127.0.0.1:$(port_of 80/tcp)"
    moss restart -t 0 "$box"
  done
}

@test "EXPOSEd ports that are not published show in list and inspect without a host's port" {
  moss run -d --name "$box" --expose 81 --expose 90/udp -p 127.0.0.1::80 busybox sleep 1000 >/dev/null
  expect equal "$(moss inspect "$box" | jq -c '.[0].NetworkSettings.Ports | [keys, .["81/tcp"], .["90/udp"]]')" '[["80/tcp","81/tcp","90/udp"],null,null]'
  run dock ps --filter "name=$box" --format '{{.Ports}}'
  expect contains "81/tcp" "90/udp" "127.0.0.1:$(port_of 80/tcp)->80/tcp"
}

@test "a port in use: by a container, by a stranger, by itself; nothing is left open" {
  taken=$(free_port 2)
  spare=$((taken + 1))
  web -p "127.0.0.1:$taken:80"
  run moss run -d --name "$other" -p "127.0.0.1:$spare:81" -p "127.0.0.1:$taken:80" busybox sleep 1000
  [ "$status" != 0 ]
  expect contains "driver failed programming external connectivity on endpoint" "Bind for 127.0.0.1:$taken failed: port is already allocated"
  refused "127.0.0.1:$spare"
  moss rm -f "$other"
  # The same port of the other protocol is another port.
  moss run -d --name "$other" -p "127.0.0.1:$taken:80/udp" busybox sleep 1000 >/dev/null
  moss rm -f "$other" "$box"
  # A stranger: a listener that is not ours.
  timeout 180 "$MOSS_DIR/peerd" serve "$spare" 3>&- 4>&- &
  helpers+=($!)
  eventually 10 told tcp - "127.0.0.1:$spare"
  for proto in tcp udp; do
    run moss run -d --name "$other" -p "$spare:80/$proto" busybox sleep 1000
    [ "$status" != 0 ]
    expect contains "Bind for 0.0.0.0:$spare failed: port is already allocated"
    moss rm -f "$other"
  done
  run moss run -d --name "$other" -p "$taken:80" -p "$taken:81" busybox sleep 1000
  [ "$status" != 0 ]
  expect contains "failed: port is already allocated"
  refused "127.0.0.1:$taken"
}

@test "a port that only root may open: the two ways out are named" {
  start=$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)
  [ "$start" -gt 80 ] || skip "users may open port 80 here (sysctl net.ipv4.ip_unprivileged_port_start=$start)"
  run moss run -d --name "$other" -p 127.0.0.1:80:80 busybox sleep 1000
  [ "$status" != 0 ]
  expect contains "Bind for 127.0.0.1:80 failed: permission denied" "net.ipv4.ip_unprivileged_port_start=80" "cap_net_bind_service=ep"
}

@test "sctp is refused with a reason" {
  run moss run -d --name "$other" -p 127.0.0.1:28080:80/sctp busybox true
  [ "$status" != 0 ]
  expect contains "sctp is not supported"
}

@test "a container that does not listen refuses, and a stopped one has no port" {
  moss run -d --name "$box" -p 127.0.0.1::80 busybox sleep 1000 >/dev/null
  port=$(port_of 80/tcp)
  # The kernel has taken the connection by then: it ends at once, with or without a reset, as the request is quick or not.
  run curl -s --max-time 5 "http://127.0.0.1:$port/"
  [ "$status" = 52 ] || [ "$status" = 56 ] || fail "curl ends with $status, want an empty answer or a reset connection"
  moss stop -t 0 "$box"
  refused "127.0.0.1:$port"
  run moss port "$box"
  expect lacks "$port"
}

@test "large transfers both ways at the same time arrive whole, and each side may end first" {
  teller -p 127.0.0.1::80
  head -c 60000000 /dev/urandom >"$BATS_TEST_TMPDIR/sent"
  timeout 180 "$MOSS_DIR/peerd" ask tcp - "127.0.0.1:$port" <"$BATS_TEST_TMPDIR/sent" | tail -n +2 >"$BATS_TEST_TMPDIR/got"
  cmp "$BATS_TEST_TMPDIR/sent" "$BATS_TEST_TMPDIR/got"
}

@test "what a container sent before it ended arrives" {
  moss run -d --name "$box" -p 127.0.0.1::80 busybox sh -c 'head -c 3000000 /dev/zero | nc -l -p 80' >/dev/null
  port=$(port_of 80/tcp)
  got() { (timeout 180 cat <"/dev/tcp/127.0.0.1/$port" | wc -c) 2>/dev/null; }
  listening() { moss exec "$box" sh -c 'netstat -tln | grep -q :80'; }
  eventually 10 listening
  expect equal "$(got)" 3000000
}

# flow: a client that sends a line each tenth of a second, until its file "stop" is there.
flow() {
  (
    i=0
    while [ ! -e "$1/stop" ]; do
      i=$((i + 1))
      echo "line $i"
      sleep 0.1
    done
    echo "last $i"
  ) | timeout 180 "$MOSS_DIR/peerd" ask tcp - "$2" >"$1/answers" 3>&- 4>&-
}

@test "an open connection goes on across kill -9 of the engine" {
  teller -p 127.0.0.1::80
  mkdir "$BATS_TEST_TMPDIR/flow"
  flow "$BATS_TEST_TMPDIR/flow" "127.0.0.1:$port" &
  helpers+=($!)
  eventually 10 file_has "$BATS_TEST_TMPDIR/flow/answers" "line 3"
  old=$(inner_pid)
  kill -KILL "$old"
  another() {
    local now
    now=$(inner_pid 2>/dev/null) && [ -n "$now" ] && [ "$now" != "$old" ] && ping_ok
  }
  eventually 20 another
  now=$(tail -n 1 "$BATS_TEST_TMPDIR/flow/answers")
  eventually 10 file_has "$BATS_TEST_TMPDIR/flow/answers" "line $((${now#line } + 5))"
  touch "$BATS_TEST_TMPDIR/flow/stop"
  eventually 10 file_has "$BATS_TEST_TMPDIR/flow/answers" "last "
  expect equal "$(ask tcp - "127.0.0.1:$port")" "$(network Gateway)"
  expect equal "$(port_of 80/tcp)" "$port"
  moss rm -f "$box"
  refused "127.0.0.1:$port"
}

@test "ports follow a container to its next network" {
  a=$(unique a) b=$(unique b)
  dock network create "$a" >/dev/null
  dock network create "$b" >/dev/null
  teller -p 127.0.0.1::80 --network "$a"
  dock network connect "$b" "$box"
  dock network disconnect "$a" "$box"
  expect equal "$(port_of 80/tcp)" "$port"
  expect equal "$(ask tcp - "127.0.0.1:$port")" "$(moss inspect "$box" | jq -r ".[0].NetworkSettings.Networks[\"$b\"].Gateway")"
  moss rm -f "$box"
  dock network rm "$a" "$b"
}

@test "a network's host_binding_ipv4 is where ports listen that name no address" {
  net=$(unique net)
  dock network create -o com.docker.network.bridge.host_binding_ipv4=127.0.0.1 "$net" >/dev/null
  web -p 80 -p 0.0.0.0::80 --network "$net"
  expect equal "$(moss inspect "$box" | jq -c '[.[0].NetworkSettings.Ports["80/tcp"][].HostIp] | sort')" '["0.0.0.0","127.0.0.1"]'
  moss rm -f "$box"
  dock network rm "$net"
}

# bats test_tags=alone
@test "500 ports are published and gone together" {
  ports=$(jq -nc '[range(1; 251)] | map({("\(.)/tcp"): [{HostIp: "127.0.0.1"}]}, {("\(.)/udp"): [{HostIp: "127.0.0.1"}]}) | add')
  run api POST "/containers/create?name=$box" "{\"Image\":\"busybox\",\"Cmd\":[\"httpd\",\"-f\",\"-h\",\"/var/www\"],\"HostConfig\":{\"PortBindings\":$ports}}"
  expect line -1 201
  moss start "$box"
  expect equal "$(moss inspect "$box" | jq '[.[0].NetworkSettings.Ports[][].HostPort] | unique | length >= 250')" true
  eventually 10 page "127.0.0.1:$(port_of 80/tcp)"
  port=$(port_of 250/tcp)
  moss stop -t 0 "$box"
  refused "127.0.0.1:$port"
}

# many_ports NAME N: a container that publishes all of its N exposed ports.
many_ports() {
  python3 -c 'import json, sys; json.dump({"Image": "busybox", "Cmd": ["sleep", "100"], "HostConfig": {"PublishAllPorts": True},
    "ExposedPorts": {f"{port}/tcp": {} for port in range(1, int(sys.argv[1]) + 1)}}, sys.stdout)' "$2" >"$BATS_TEST_TMPDIR/many"
  api POST "/containers/create?name=$1" "@$BATS_TEST_TMPDIR/many"
}

@test "thousands of exposed ports are published in seconds, and all that there are is refused at once" {
  local name network
  name=$(unique many)
  network=$(unique other)
  many_ports "$name" 3000 >/dev/null
  CLIENT_SECONDS=120 moss start "$name"
  expect equal "$(moss inspect "$name" | jq '[.[0].NetworkSettings.Ports[] | select(length > 0)] | length')" 3000
  moss network create "$network" # which makes all rules anew
  run moss run --rm --net "$network" busybox echo fine
  expect output fine
  moss rm -f "$name"
  moss network rm "$network"

  run many_ports "$name" 65535
  expect contains 'cannot publish 65535 ports: a container can have 16384 at most'
  expect line -1 400
  is_gone "$name"
}
