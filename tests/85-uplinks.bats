#!/usr/bin/env bats
# What links the containers' network to the host's: each driver starts, publishes, keeps the host's loopback closed,
# and leaves no process behind.
# bats file_tags=subids

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
  EVENTS_PID=
  begin
}
teardown() {
  [ -z "$EVENTS_PID" ] || kill "$EVENTS_PID" 2>/dev/null || true
  [ -z "$WEB_PID" ] || kill "$WEB_PID"
  halt_engine
  finish
}

# host_service ADDRESS: a web server of the host; sets host_port.
host_service() {
  mkdir -p "$BATS_TEST_TMPDIR/www"
  echo secret >"$BATS_TEST_TMPDIR/www/secret"
  : >"$BATS_TEST_TMPDIR/served"
  python3 -u -m http.server --bind "$1" --directory "$BATS_TEST_TMPDIR/www" 0 >"$BATS_TEST_TMPDIR/served" 2>&1 3>&- 4>&- &
  WEB_PID=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/served" ' port '
  host_port=$(sed -nE 's/^Serving .* port ([0-9]+).*/\1/p' "$BATS_TEST_TMPDIR/served")
  answers() { curl -s "http://$1:$host_port/secret" | grep -q secret; }
  eventually 10 answers "$1"
}

# host_address: an address of the host that is not its loopback; fails when it has none.
host_address() { ip -4 -o route get 198.51.100.1 2>/dev/null | grep -o 'src [0-9.]*' | cut -d' ' -f2 | grep .; }

# from_container ADDRESS [SECONDS]: what a container gets from the host's service there. The signal of timeout would not end wget
# if it were the container's first process.
from_container() { moss run --rm busybox sh -c "timeout ${2:-60} wget -qO- http://$1:$host_port/secret; exit \$?"; }

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

# port_of NAME: the host's port that leads to the container's port 80.
port_of() { moss port "$1" 80/tcp | sed -n '1s/.*://p'; }

# publishes: a container has an address on a bridge, and its port answers on the host's loopback with the client's
# address kept from looking local.
publishes() {
  local name port
  name=$(unique web)
  moss run -d --name "$name" -p 0:80 busybox sh -c 'mkdir -p /www/cgi-bin
    printf "#!/bin/sh\necho\necho client=\$REMOTE_ADDR\n" >/www/cgi-bin/who; chmod +x /www/cgi-bin/who; exec httpd -f -h /www'
  port=$(port_of "$name")
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
  run from_container 10.0.2.2 3
  [ "$status" != 0 ]
  expect lacks secret
}
opens_loopback() {
  host_service 127.0.0.1
  run from_container 10.0.2.2
  expect status 0
  expect output secret
}
# reaches_host: at its outward address and, by the address that never changes, what listens there.
reaches_host() {
  local address
  address=$(host_address) || return 0
  kill "$WEB_PID"
  host_service "$address"
  run from_container "$address"
  expect status 0
  expect output secret
  for address in 10.0.2.2 host.docker.internal host.moss.internal; do
    run from_container "$address"
    expect status 0
    expect output secret
  done
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

# status FIELD: what the outer process says about the uplink.
status_of() { jq -r ".$1" "$MOSS_DIR/run/rootlesskit/uplink.json"; }
status_is() { [ "$(status_of "$1")" = "$2" ]; }

# answered N: so many lines have come back to the client of the open connection.
answered() { [ "$(moss logs "$client" 2>/dev/null | grep -c '^line')" -ge "$1" ]; }

# survives DRIVER: the driver's process dies twice; what does not go through it does not notice, what does works again.
survives() {
  local driver=$1 web port echo_ip first second
  spawn_engine --network-driver="$driver" --host-loopback
  host_service 127.0.0.1
  web=$(unique web) client=$(unique client)
  moss run -d --name "$web" -p 0:80 busybox sh -c 'echo hello >/tmp/index.html; nc -ll -p 7 -e cat & exec httpd -f -h /tmp'
  port=$(port_of "$web")
  echo_ip=$(moss inspect "$web" | jq -r '.[0].NetworkSettings.IPAddress')
  # A connection between two containers that is open all the time.
  moss run -d --name "$client" busybox sh -c "while :; do echo line; sleep 0.1; done | nc $echo_ip 7"
  eventually 10 answered 2
  published() { [ "$(curl -s --max-time 60 "http://127.0.0.1:$port/index.html")" = hello ]; }
  eventually 10 published
  curl -sN --unix-socket "$MOSS_SOCK" 'http://moss/events?filters=%7B%22type%22%3A%5B%22network%22%5D%2C%22event%22%3A%5B%22restart%22%5D%7D' \
    >"$BATS_TEST_TMPDIR/events" 3>&- 4>&- &
  EVENTS_PID=$!
  listening() { [ "$(answer_of /info .NEventsListener)" -ge 1 ]; }
  eventually 10 listening
  expect equal "$(status_of driver)" "$driver"
  first=$(status_of pid)
  outside() { [ "$(moss exec "$web" timeout 3 wget -qO- "http://10.0.2.2:$host_port/secret")" = secret ]; }
  eventually 10 outside

  kill -KILL "$first"
  eventually 10 status_is restarts 1
  second=$(status_of pid)
  [ "$second" != "$first" ] && kill -0 "$second"
  eventually 10 outside
  published
  expect --in "$(tr '\0' ' ' <"/proc/$second/cmdline")" contains "$driver"
  eventually 10 file_has "$BATS_TEST_TMPDIR/events" '"restarts":"1"'
  run jq -c 'select(.Actor.Attributes.restarts == "1") | [.Type, .Action, .Actor.Attributes.name, .Actor.Attributes.type, .Actor.Attributes.uplink]' "$BATS_TEST_TMPDIR/events"
  expect output "[\"network\",\"restart\",\"bridge\",\"bridge\",\"$driver\"]"
  run jq -r '.Actor.ID' "$BATS_TEST_TMPDIR/events"
  expect matches '^[0-9a-f]{64}$'
  run tail -n "+$((log_start + 1))" "$MOSS_DIR/mossd.log"
  expect contains "uplink started again"

  kill -KILL "$second"
  eventually 10 status_is restarts 2
  eventually 10 outside
  expect equal "$(uplinks | wc -l)" 1
  answered 1
  local before
  before=$(moss logs "$client" | grep -c '^line')
  eventually 10 answered $((before + 3))
  kill "$EVENTS_PID" 2>/dev/null || true
  moss rm -f "$web" "$client"
  halt_engine
  expect equal "$(uplinks)" ""
}

@test "slirp4netns that dies is started again; containers and published ports do not notice" {
  survives slirp4netns
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
  if [ "$(status_of send)" != null ]; then # an old one, which would crawl
    run moss run --rm busybox cut -f3 /proc/sys/net/ipv4/tcp_wmem
    expect output "$(status_of send)"
  fi
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

@test "pasta that dies is started again; containers and published ports do not notice" {
  with_route
  survives pasta
}

@test "pasta ends with a killed engine" {
  with_route
  spawn_engine --network-driver=pasta
  kill -KILL "$MOSSD_PID"
  eventually 10 no_uplink
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

@test "gvisor-tap-vsock: the host's loopback when asked for" {
  spawn_engine --network-driver=gvisor-tap-vsock --host-loopback
  opens_loopback
}

@test "none: publishes, and reaches nothing outside" {
  spawn_engine --network-driver=none
  expect equal "$(uplinks)" ""
  publishes
  keeps_loopback_closed
  address=$(host_address) || return 0
  kill "$WEB_PID"
  host_service "$address"
  run from_container "$address" 3
  [ "$status" != 0 ]
}

# without_tun: what runs a program, with what follows it, where the tun device cannot be opened.
without_tun() {
  mkdir "$BATS_TEST_TMPDIR/bin" "$BATS_TEST_TMPDIR/moss"
  for tool in ip nsenter unshare mount crun nft; do
    tool=$(command -v $tool) && ln -s "$tool" "$BATS_TEST_TMPDIR/bin/" # without newuidmap: sub-ids cannot be mapped from there
  done
  touch "$BATS_TEST_TMPDIR/tun"
  chmod 0400 "$BATS_TEST_TMPDIR/tun"
  cat >"$BATS_TEST_TMPDIR/moss/mossd" <<END
#!/bin/sh
PATH=$BATS_TEST_TMPDIR/bin exec unshare --user --map-root-user --mount /bin/sh -c '
  mount --bind "$BATS_TEST_TMPDIR/tun" /dev/net/tun &&
    exec unshare --user --map-user=$(id -u) --map-group=$(id -g) "$moss_bin/mossd" "\$@"' sh "\$@"
END
  chmod 0755 "$BATS_TEST_TMPDIR/moss/mossd"
}

@test "without a tun device: none, and log and info say so; a driver that was named fails" {
  [ -e /dev/net/tun ] || skip "this machine has no /dev/net/tun to hide: modprobe tun"
  without_tun
  moss_bin=$BATS_TEST_TMPDIR/moss spawn_engine --root "$MOSS_DATA/no-tun"
  import_busybox
  expect equal "$(status_of driver)" none
  expect equal "$(info_driver)" none
  run tail -n "+$((log_start + 1))" "$MOSS_DIR/mossd.log"
  expect contains "network=none" "Containers reach each other and publish ports, and nothing outside" /dev/net/tun
  run api GET /info
  expect contains "WARNING: Containers reach each other and publish ports, and nothing outside: the tap device cannot be made"
  publishes
  halt_engine
  run "$BATS_TEST_TMPDIR/moss/mossd" --root "$MOSS_DATA/no-tun" --run-dir "$MOSS_DIR/no-tun" --network-driver=slirp4netns
  [ "$status" != 0 ]
  expect contains "the tap device cannot be made"
}

# info_driver: what /info shows of the uplink.
info_driver() { answer_of /info -r '.DriverStatus[] | select(.[0] == "Uplink") | .[1]'; }

@test "auto takes pasta where it works, and says which it took" {
  with_route
  spawn_engine --network-driver=auto
  expect equal "$(status_of driver)" pasta
  expect equal "$(info_driver)" pasta
  run tail -n "+$((log_start + 1))" "$MOSS_DIR/mossd.log"
  expect contains "network=pasta"
  publishes
  keeps_loopback_closed
  reaches_host
}

@test "auto takes slirp4netns where pasta does not start, and says why" {
  mkdir "$BATS_TEST_TMPDIR/bin"
  printf '#!/bin/sh\necho "no pasta today" >&2\nexit 3\n' >"$BATS_TEST_TMPDIR/bin/pasta"
  chmod +x "$BATS_TEST_TMPDIR/bin/pasta"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH spawn_engine --network-driver=auto
  expect equal "$(status_of driver)" slirp4netns
  expect equal "$(info_driver)" slirp4netns
  run tail -n "+$((log_start + 1))" "$MOSS_DIR/mossd.log"
  expect contains "network=slirp4netns" "no pasta today"
  publishes
  host_service 127.0.0.1
  reaches_host
}

@test "an unknown driver and a missing program are named" {
  run "$moss_bin/mossd" --network-driver=wet-string
  [ "$status" != 0 ]
  expect contains wet-string slirp4netns
  mkdir "$BATS_TEST_TMPDIR/programs"
  ln -s "$(command -v unshare)" "$(command -v mount)" "$(command -v nsenter)" "$BATS_TEST_TMPDIR/programs"
  run env PATH="$BATS_TEST_TMPDIR/programs" "$moss_bin/mossd" --root "$MOSS_DATA/r" --run-dir "$MOSS_DIR/r"
  [ "$status" != 0 ]
  expect contains "slirp4netns is not installed: install the package slirp4netns"
}
