#!/usr/bin/env bats
# The uplink on a host whose network changes: roaming, and IPv6. Each test has a host of its own.

load lib/moss

setup_file() {
  start_engine # which makes the folders
  halt_engine
}
teardown_file() {
  MOSSD_PID=$(cat "$MOSS_DIR/mossd.pid")
  stop_engine
}
setup() { begin; }
teardown() {
  exec 8>&- # ends what host_of_its_own has made
  halt_engine
  finish
}

# in_host COMMAND: tells the shell of host_of_its_own to run it.
in_host() { echo "$*" >&8; }
in_host_web() {
  mkdir -p "$BATS_TEST_TMPDIR/www-$1"
  echo "at $1" >"$BATS_TEST_TMPDIR/www-$1/secret"
  in_host "$(command -v busybox.static || command -v busybox) httpd -f -p $1:8000 -h $BATS_TEST_TMPDIR/www-$1 &"
}
in_host_moves() { in_host "ip addr flush dev lan; ip addr add $1/24 dev lan; ip route add default via ${1%.*}.254"; }

# host_of_its_own: a network that the test can change, with an engine in it. Sub-ids cannot be mapped from a user
# namespace: without newuidmap it is a single id.
host_of_its_own() { # ARG...: of mossd
  mkdir "$BATS_TEST_TMPDIR/bin"
  local tool
  for tool in slirp4netns pasta ip nsenter unshare mount crun; do ln -s "$(command -v $tool)" "$BATS_TEST_TMPDIR/bin/"; done
  MOSS_SOCK=$MOSS_DIR/roam.s
  mkfifo "$BATS_TEST_TMPDIR/say"
  exec 8<>"$BATS_TEST_TMPDIR/say"
  rm "$MOSS_DIR/mossd.pid"
  unshare --user --map-current-user --keep-caps --net bash -c 'ip link set lo up && ip link add lan type bridge && ip link set lan up
    ip addr add 192.0.2.9/24 dev lan && ip route add default via 192.0.2.254
    ip addr add 2001:db8:1::9/64 dev lan nodad && ip route add default via 2001:db8:1::fe
    path=$1 pid=$2
    shift 2
    setpriv --inh-caps -all --ambient-caps -all env PATH="$path" "$@" &
    echo $! >"$pid"
    mossd=$!
    while read -r line; do eval "$line"; done
    disown $mossd
    kill $(jobs -p)' bash "$BATS_TEST_TMPDIR/bin" "$MOSS_DIR/mossd.pid" \
    "$moss_bin/mossd" --root "$MOSS_DATA/roam" --run-dir "$MOSS_DIR/roam" --host "unix://$MOSS_SOCK" --log-level debug "$@" \
    <"$BATS_TEST_TMPDIR/say" >>"$MOSS_DIR/mossd.log" 2>&1 3>&- 4>&- 8>&- &
  eventually 30 ping_ok
  MOSSD_PID=$(cat "$MOSS_DIR/mossd.pid")
}

@test "the host moves to another network: containers reach it all the time" {
  host_of_its_own
  import_busybox
  moss run -d --name roam busybox sleep 1000
  from_roam() { [ "$(moss exec roam timeout 3 wget -qO- http://10.0.2.2:8000/secret)" = "at $1" ]; }
  not_from_roam() { ! from_roam "$1"; }

  in_host_web 192.0.2.9
  eventually 10 from_roam 192.0.2.9
  in_host_moves 198.18.0.9
  in_host_web 198.18.0.9
  eventually 10 from_roam 198.18.0.9
  in_host_web 127.0.0.1
  in_host ip route del default
  eventually 10 not_from_roam 198.18.0.9
  run moss exec roam timeout 3 wget -qO- http://10.0.2.2:8000/secret
  [ "$status" != 0 ]
  expect lacks "at "
  in_host_moves 192.0.2.9
  eventually 10 from_roam 192.0.2.9
  run tail -n "+$((log_start + 1))" "$MOSS_DIR/mossd.log"
  expect contains "host's outward address" address=198.18.0.9
  moss rm -f roam
}

# carries_ipv6 DRIVER: out of a network with IPv6, to what listens outside and not to the host's loopback.
carries_ipv6() {
  host_of_its_own --network-driver="$1"
  import_busybox
  moss network create --ipv6 six
  moss run -d --name six --network six busybox sleep 1000
  from_six() { [ "$(moss exec six timeout 3 wget -qO- "http://$1:8000/secret")" = "at $2" ]; }
  in_host_web '[2001:db8:1::9]'
  eventually 10 from_six '[2001:db8:1::9]' '[2001:db8:1::9]'
  in_host_web '[::1]'
  in_host_web 127.0.0.1
  local to
  for to in '[fd00::2]' '[fd00::77]' '[2001:db8:1::8]' '[::ffff:127.0.0.1]'; do
    run moss exec six timeout 2 wget -qO- "http://$to:8000/secret"
    expect lacks "at "
  done
  run moss exec six cat /proc/sys/net/ipv6/conf/eth0/accept_ra
  expect output 0
  moss rm -f six
  moss network rm six
}

@test "slirp4netns carries IPv6 where the host has it" {
  carries_ipv6 slirp4netns
}

@test "pasta carries IPv6 where the host has it" {
  carries_ipv6 pasta
}
