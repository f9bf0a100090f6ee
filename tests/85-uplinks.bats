#!/usr/bin/env bats
# What links the containers' network to the host's: each driver starts, publishes, keeps the host's loopback closed,
# and leaves no process behind.

load lib/moss

setup_file() {
  start_engine
  import_busybox
  halt_engine
}
teardown_file() {
  MOSSD_PID=$(cat "$MOSS_DIR/mossd.pid")
  kill "$WEB_PID" 2>/dev/null || true
  stop_engine
}
setup() {
  MOSSD_PID=$(cat "$MOSS_DIR/mossd.pid")
  WEB_PID=
  begin
}
teardown() {
  [ -z "$WEB_PID" ] || kill "$WEB_PID"
  halt_engine
  finish
}

# free_port: one of the host's that nothing listens on.
free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 10000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo $port
}

# host_service ADDRESS: a web server of the host; sets host_port.
host_service() {
  host_port=$(free_port)
  mkdir -p "$BATS_TEST_TMPDIR/www"
  echo secret >"$BATS_TEST_TMPDIR/www/secret"
  "$(command -v busybox.static || command -v busybox)" httpd -f -p "$1:$host_port" -h "$BATS_TEST_TMPDIR/www" 3>&- 4>&- &
  WEB_PID=$!
  answers() { curl -s "http://$1:$host_port/secret" | grep -q secret; }
  eventually 10 answers "$1"
}

# host_address: an address of the host that is not its loopback; fails when it has none.
host_address() { ip -4 -o route get 198.51.100.1 2>/dev/null | grep -o 'src [0-9.]*' | cut -d' ' -f2 | grep .; }

# from_container ADDRESS: what a container gets from the host's service there. The signal of timeout would not end wget
# if it were the container's first process.
from_container() { moss run --rm busybox sh -c "timeout 3 wget -qO- http://$1:$host_port/secret; exit \$?"; }

# uplinks: the uplink processes of this file's engine, one per line.
uplinks() {
  local p line
  for p in /proc/[0-9]*; do
    line=$(tr '\0' ' ' <"$p/cmdline" 2>/dev/null) || continue
    case $line in
      *slirp4netns*"$MOSS_DIR"* | *pasta*"$MOSS_DIR"*) echo "$line" ;;
    esac
  done
}
no_uplink() { [ -z "$(uplinks)" ]; }

# publishes: a container has an address on a bridge, and its port answers on the host's loopback with the client's
# address kept from looking local.
publishes() {
  local name port
  name=$(unique web)
  port=$(free_port)
  moss run -d --name "$name" -p "$port:80" busybox sh -c 'mkdir -p /www/cgi-bin
    printf "#!/bin/sh\necho\necho client=\$REMOTE_ADDR\n" >/www/cgi-bin/who; chmod +x /www/cgi-bin/who; exec httpd -f -h /www'
  web() { curl -s --max-time 5 "http://127.0.0.1:$port/cgi-bin/who" | grep client=; }
  eventually 10 web
  run web
  expect lacks 127.0.0.1
  run moss run --rm busybox ip -4 addr show eth0
  expect contains "inet "
  moss rm -f "$name"
  run curl -s --max-time 2 "http://127.0.0.1:$port/"
  [ "$status" != 0 ]
}

# keeps_loopback_closed and opens_loopback, by the address of the gateway.
keeps_loopback_closed() {
  host_service 127.0.0.1
  run from_container 10.0.2.2
  [ "$status" != 0 ]
  expect lacks secret
}
opens_loopback() {
  host_service 127.0.0.1
  run from_container 10.0.2.2
  expect status 0
  expect output secret
}
reaches_host() {
  local address
  address=$(host_address) || return 0
  kill "$WEB_PID"
  host_service "$address"
  run from_container "$address"
  expect status 0
  expect output secret
}

@test "slirp4netns is the default: publishes, reaches the host but not its loopback" {
  spawn_engine
  run uplinks
  expect contains slirp4netns
  publishes
  keeps_loopback_closed
  reaches_host
  halt_engine
  expect equal "$(uplinks)" ""
}

@test "slirp4netns: the host's loopback when asked for" {
  spawn_engine --host-loopback
  opens_loopback
}

@test "slirp4netns ends with a killed engine" {
  spawn_engine
  kill -KILL "$MOSSD_PID"
  eventually 10 no_uplink
}

# with_route: pasta of 2023 needs a default route.
with_route() {
  if [ -z "$(ip -4 route show default)" ]; then skip "this machine has no default route: ip route add default ..."; fi
}

@test "pasta: publishes, reaches the host but not its loopback" {
  with_route
  spawn_engine --network-driver=pasta
  run uplinks
  expect contains pasta
  publishes
  keeps_loopback_closed
  reaches_host
  halt_engine
  expect equal "$(uplinks)" ""
}

@test "pasta: the host's loopback when asked for" {
  with_route
  spawn_engine --network-driver=pasta --host-loopback
  opens_loopback
}

@test "pasta of a killed engine is ended by the next start" {
  with_route
  spawn_engine --network-driver=pasta
  kill -KILL "$MOSSD_PID"
  eventually 10 mossd_gone
  spawn_engine --network-driver=pasta
  expect equal "$(uplinks | grep -c pasta)" 1
  halt_engine
  expect equal "$(uplinks)" ""
}

@test "pasta without a default route: the start fails with advice" {
  # A network of its own with nothing in it. Sub-ids cannot be mapped from there: without newuidmap it is a single id.
  mkdir "$BATS_TEST_TMPDIR/bin"
  for tool in pasta ip nsenter unshare mount crun; do ln -s "$(command -v $tool)" "$BATS_TEST_TMPDIR/bin/"; done
  run env PATH="$BATS_TEST_TMPDIR/bin" "$(command -v unshare)" --user --map-current-user --net \
    "$moss_bin/mossd" --root "$MOSS_DATA/noroute" --run-dir "$MOSS_DIR/noroute" --network-driver=pasta
  [ "$status" != 0 ]
  expect contains "pasta needs a default IPv4 route on the host: add one, or use --network-driver=slirp4netns"
  expect equal "$(grep -c ' ERR ' <<<"$output")" 1
  run find "$MOSS_DIR/noroute" -mindepth 1
  expect output ""
}

@test "gvisor-tap-vsock, in the engine's own process: publishes, reaches the host but not its loopback" {
  spawn_engine --network-driver=gvisor-tap-vsock
  expect equal "$(uplinks)" ""
  publishes
  keeps_loopback_closed
  reaches_host
}

@test "none: publishes, and reaches nothing outside" {
  spawn_engine --network-driver=none
  expect equal "$(uplinks)" ""
  publishes
  keeps_loopback_closed
  address=$(host_address) || return 0
  kill "$WEB_PID"
  host_service "$address"
  run from_container "$address"
  [ "$status" != 0 ]
}

@test "an unknown driver and a missing program are named" {
  run "$moss_bin/mossd" --network-driver=wet-string
  [ "$status" != 0 ]
  expect contains wet-string slirp4netns
  run env PATH=/nonexistent "$moss_bin/mossd" --root "$MOSS_DATA/r" --run-dir "$MOSS_DIR/r"
  [ "$status" != 0 ]
  expect contains "is not installed: install the package"
}
