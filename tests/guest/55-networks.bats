#!/usr/bin/env bats
# Networks on this kernel: its nftables, bridges and namespaces need not be those of the machine that the other tests run on.

load ../lib/moss

export CLIENT_SECONDS=300 # the machine is emulated

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# fetch FROM URL: what a container gets there.
fetch() { timeout --foreground 60 "$moss_bin/moss" --host "unix://$MOSS_SOCK" exec "$1" timeout 20 wget -qO- "$2"; }

@test "names, addresses and published ports; networks do not see each other, an internal one has no way out" {
  front=$(unique front)
  back=$(unique back)
  moss network create "$front"
  moss network create --internal --ipv6 "$back"
  moss run -d --name "$front-web" --network "$front" --network-alias site -p 127.0.0.1::80 busybox \
    sh -c 'mkdir /www; echo web >/www/index.html; exec httpd -f -p 80 -h /www'
  moss run -d --name "$front-app" --network "$front" busybox sleep 1000
  moss run -d --name "$back-db" --network "$back" busybox sleep 1000
  served() { [ "$(fetch "$front-app" "http://$front-web/")" = web ]; }
  eventually 20 served # it runs before it listens
  for name in "$front-web" site; do
    run fetch "$front-app" "http://$name/"
    expect output web
  done
  at=$(moss port "$front-web" 80/tcp | head -n 1)
  run curl -sS --max-time 30 "http://$at/"
  expect output web
  web=$(moss inspect "$front-web" | jq -r ".[0].NetworkSettings.Networks[\"$front\"].IPAddress")
  run fetch "$back-db" "http://$web/"
  [ "$status" -ne 0 ] || fail "reached another network"
  run moss exec "$back-db" ip route
  expect lacks default
  moss exec "$back-db" ip -6 address show dev eth0 | grep -q 'inet6 fd'
  moss network connect "$front" "$back-db"
  run fetch "$back-db" http://site/
  expect output web
  moss network disconnect "$front" "$back-db"
  run fetch "$back-db" http://site/
  [ "$status" -ne 0 ] || fail "a name of a network that was left"
  moss rm -f "$front-web" "$front-app" "$back-db"
  moss network rm "$front" "$back"
}

@test "a container of the default network has the host's name and reaches its gateway" {
  name=$(unique host)
  moss run -d --name "$name" busybox sleep 1000
  run moss exec "$name" cat /etc/hosts
  expect contains "10.0.2.2	host.docker.internal host.moss.internal"
  moss exec "$name" ping -c 1 -W 20 "$(moss inspect "$name" | jq -r '.[0].NetworkSettings.Gateway')"
  moss rm -f "$name"
}
