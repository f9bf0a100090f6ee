#!/usr/bin/env bats
# moss: networks, ports and names, as its command line makes and shows them.

# bats file_tags=subids

load lib/moss
load lib/ports

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# idle NAME [ARG...]: a container that waits.
idle() {
  local name=$1
  shift
  moss run -d --name "$name" "$@" busybox sleep 1000 >/dev/null
}
# web NAME [ARG...]: a container that serves its own name.
web() {
  local name=$1
  shift
  moss run -d --name "$name" "$@" busybox sh -c "echo from $name >/tmp/index.html; exec httpd -f -h /tmp" >/dev/null
  eventually 10 got "$name" http://127.0.0.1/ "from $name" # it runs before it listens
}
# got CONTAINER URL TEXT: does the container get the text from there?
got() { [ "$(moss exec "$1" timeout 5 wget -qO- "$2" 2>/dev/null)" = "$3" ]; }
# fetched URL TEXT: does this host?
fetched() { [ "$(curl -s --max-time 60 "$1")" = "$2" ]; }
# address CONTAINER NETWORK: its IPv4 address there.
address() { moss inspect -f "{{(index .NetworkSettings.Networks \"$2\").IPAddress}}" "$1"; }
no_container() { [ -z "$(moss ps -aq --filter "name=$1")" ]; }

@test "network create, ls, inspect and rm" {
  net=$(unique net)
  run --separate-stderr moss network create --label stage=test --label team --subnet 10.201.1.0/24 --gateway 10.201.1.254 \
    --ip-range 10.201.1.128/25 --aux-address router=10.201.1.130 -o com.docker.network.driver.mtu=1400 "$net"
  expect status 0
  expect matches '^[0-9a-f]{64}$'
  id=$output
  run moss network ls
  expect matches '^NETWORK ID +NAME +DRIVER +SCOPE$'
  expect matches "^${id:0:12} +$net +bridge +local$"
  for builtin in 'bridge +bridge' 'host +host' 'none +null'; do expect matches "^[0-9a-f]{12} +$builtin +local$"; done
  run moss network ls -q --no-trunc --filter "name=$net"
  expect output "$id"
  run moss network ls -q --filter label=stage=test --filter driver=bridge --filter type=custom
  expect contains "${id:0:12}"
  run moss network ls --filter type=builtin --format '{{.Name}}'
  expect output $'bridge\nhost\nnone'
  run moss network ls --filter "id=${id:0:20}" --format '{{.Name}}|{{.Internal}}|{{.IPv6}}|{{.Label "stage"}}|{{.Subnets}}'
  expect output "$net|false|false|test|10.201.1.0/24"
  for ref in "$net" "$id" "${id:0:12}"; do
    run moss network inspect -f '{{.Name}} {{.Id}} {{index .Options "com.docker.network.driver.mtu"}}' "$ref"
    expect output "$net $id 1400"
  done
  run moss inspect "$net"
  expect equal "$(jq -c '.[0].IPAM.Config[0] | [.Subnet, .Gateway, .IPRange]' <<<"$output")" '["10.201.1.0/24","10.201.1.254","10.201.1.128/25"]'
  expect contains 10.201.1.130
  run moss inspect --type network -f '{{.Labels.stage}}' "$net"
  expect output test
  run moss inspect --type volume "$net"
  expect status 1
  idle "$net-a" --network "$net"
  expect equal "$(address "$net-a" "$net" | cut -d. -f1-3)" 10.201.1
  [ "$(address "$net-a" "$net" | cut -d. -f4)" -ge 128 ] || fail "an address outside the range"
  run moss network rm "$net"
  expect status 1
  expect contains "active endpoints"
  moss rm -f "$net-a"
  run moss network rm "$net"
  expect output "$net"
  run moss network inspect "$net"
  expect status 1
  expect contains "network $net not found"
}

@test "network rm: several, -f for those that are gone, never a built-in" {
  one=$(unique one) two=$(unique two)
  moss network create "$one" >/dev/null
  moss network create "$two" >/dev/null
  run --separate-stderr moss network remove "$one" "$one-gone" "$two"
  expect status 1
  expect output "$one"$'\n'"$two"
  expect --in "$stderr" contains "network $one-gone not found"
  run moss network rm -f "$one" "$two"
  expect status 0
  for name in bridge host none; do
    run moss network rm -f "$name"
    expect status 1
    expect contains "$name is a pre-defined network and cannot be removed"
  done
}

@test "network create: what is refused, with nothing made" {
  net=$(unique bad)
  moss network create --attachable --ipv4 --scope local --subnet 10.201.2.0/24 "$net"
  expect equal "$(moss network inspect -f '{{.Attachable}} {{.EnableIPv4}} {{.Scope}}' "$net")" "true true local"
  for args in "$net" "--subnet 10.201.2.128/25 $net-x" "--subnet 10.201.2.0/24 $net-x" "bridge" "host" "-d nonsense $net-x" \
    "--ipam-driver nonsense $net-x" "--scope swarm $net-x" "--ipv4=false $net-x" "--config-only --internal $net-x" "--config-from $net $net-x"; do
    read -ra words <<<"$args"
    run moss network create "${words[@]}"
    expect status 1
    expect matches '^moss: '
  done
  run moss network create "$net"
  expect contains "network with name $net already exists"
  run moss network create -d nonsense "$net-x"
  expect contains 'plugin "nonsense" not found'
  for args in "--subnet 10.201.3.0/33" "--gateway 10.201.3.1" "--subnet 10.201.3.0/24 --gateway 10.201.4.1" "--subnet 10.201.3.0/24 --ip-range 10.201.4.0/25" \
    "--subnet 10.201.3.0/24 --aux-address 10.201.3.4" "--opt x"; do
    read -ra words <<<"$args"
    run moss network create "${words[@]}" "$net-x"
    expect status 125
    expect contains "see 'moss network create --help'"
  done
  run moss network ls -q --filter "name=$net-x"
  expect output ""
  moss network rm "$net"
}

@test "network connect and disconnect, while the container runs and before it does" {
  net=$(unique net) other=$(unique other)
  moss network create --subnet 10.201.4.0/24 "$net"
  web "$net-web" --network "$net" --network-alias shop
  idle "$other"
  run moss exec "$other" ls /sys/class/net
  expect lacks eth1
  run moss network connect --ip 10.201.4.77 --alias second --link "$net-web:linked" "$net" "$other"
  expect status 0
  expect output ""
  run moss exec "$other" ip -4 addr show eth1
  expect contains 10.201.4.77/24
  for name in "$net-web" shop linked "$net-web.$net"; do eventually 10 got "$other" "http://$name/" "from $net-web"; done
  run moss network connect "$net" "$other"
  expect status 1
  run moss exec "$net-web" nslookup second
  expect contains 10.201.4.77
  run moss network inspect -f '{{range .Containers}}{{.Name}} {{.IPv4Address}}{{println}}{{end}}' "$net"
  expect contains "$other 10.201.4.77/24"
  run moss ps --filter "name=$other" --format '{{.Networks}}'
  expect output "bridge,$net"
  moss network disconnect "$net" "$other"
  run moss exec "$other" ls /sys/class/net
  expect lacks eth1
  run moss network disconnect "$net" "$other"
  expect status 1
  expect contains "is not connected to network $net"
  moss create --name "$net-rest" busybox sleep 1000 >/dev/null
  moss network connect --alias later "$net" "$net-rest"
  moss start "$net-rest"
  run moss exec "$net-web" nslookup later
  expect contains 10.201.4.
  run moss network disconnect "$net" "$net-gone"
  expect status 1
  expect contains "No such container"
  moss network disconnect -f "$net" "$net-gone"
  moss rm -f "$net-web" "$other" "$net-rest"
  moss network rm "$net"
}

@test "run --network: several networks, each with its own names and addresses" {
  front=$(unique front) back=$(unique back)
  moss network create --subnet 10.201.5.0/24 "$front"
  moss network create --subnet 10.201.6.0/24 "$back"
  web "$front-web" --network "$front"
  web "$back-db" --network "$back"
  idle "$front-mid" --network "name=$front,alias=middle,ip=10.201.5.50" --network "name=$back,ip=10.201.6.60,alias=inner,mac-address=02:42:aa:bb:cc:dd" \
    --mac-address 02:42:aa:bb:cc:01 --net-alias more
  expect equal "$(address "$front-mid" "$front") $(address "$front-mid" "$back")" "10.201.5.50 10.201.6.60"
  eventually 10 got "$front-mid" "http://$front-web/" "from $front-web"
  eventually 10 got "$front-mid" "http://$back-db/" "from $back-db"
  run moss exec "$front-web" nslookup middle
  expect contains 10.201.5.50
  run moss exec "$front-web" nslookup more
  expect contains 10.201.5.50
  run moss exec "$back-db" nslookup inner
  expect contains 10.201.6.60
  run moss exec "$back-db" nslookup middle
  expect lacks 10.201.5.50 10.201.6.60
  run moss exec "$front-mid" cat /sys/class/net/eth0/address /sys/class/net/eth1/address
  expect equal "$(sort <<<"$output" | xargs)" "02:42:aa:bb:cc:01 02:42:aa:bb:cc:dd"
  run moss exec "$front-web" timeout 2 wget -qO- "http://10.201.6.60/"
  [ "$status" != 0 ] || fail "two networks reach each other"
  moss rm -f "$front-web" "$back-db" "$front-mid"
  moss network rm "$front" "$back"
}

@test "run --network: wrong ones are told before anything is made" {
  net=$(unique net) name=$(unique none)
  moss network create "$net"
  for args in "--network $net --network host" "--network none --network $net" "--network $net --network $net" "--network name=$net,ip=x" \
    "--network alias=x" "--ip 1.2.3.4" "--network-alias x --network host" "--network name=$net,nonsense=1" "--mac-address 01:00:00:00:00:00" \
    "--dns x" "--add-host x" "-p 80:x" "--link :x" "--mount type=bind" "-v x" "--tmpfs x" "--expose 5-4"; do
    read -ra words <<<"$args"
    run moss run -d --name "$name" "${words[@]}" busybox sleep 1
    expect status 125
    expect contains "see 'moss run --help'"
    no_container "$name" || fail "$args: a container was made"
  done
  for args in "--network $net-gone" "--network $net --network $net-gone"; do
    read -ra words <<<"$args"
    run moss run -d --name "$name" "${words[@]}" busybox sleep 1
    expect status 125
    expect contains "network $net-gone not found"
    no_container "$name" || fail "$args: a container was made"
  done
  for args in "--network container:$name-gone" "--network $net --ip 10.201.99.1" "--network container:x -p 80:80" "--network $net --network $name-x:y"; do
    read -ra words <<<"$args"
    run moss run -d --name "$name" "${words[@]}" busybox sleep 1
    expect status 125
    no_container "$name" || moss rm -f "$name"
  done
  moss network rm "$net"
}

@test "run --network none, host and container:NAME" {
  name=$(unique mode)
  run moss run --rm --network none busybox ls /sys/class/net
  expect output lo
  run moss run --rm --net host busybox ls /sys/class/net
  expect equal "$(sort <<<"$output")" "$(find /sys/class/net -mindepth 1 -printf '%f\n' | sort)"
  web "$name"
  run moss run --rm --network "container:$name" busybox wget -qO- http://127.0.0.1/
  expect output "from $name"
  run moss inspect -f '{{.HostConfig.NetworkMode}}' "$name"
  expect output default
  run moss network connect host "$name"
  expect status 1
  expect contains "host network"
  moss rm -f "$name"
}

@test "run --ip, --ip6, --link and --link-local-ip in a network of one's own" {
  net=$(unique net)
  id=$(moss network create --ipv6 --subnet 10.201.7.0/24 --subnet fd00:201:7::/64 "$net")
  web "$net-web" --network "$net" --ip 10.201.7.20 --ip6 fd00:201:7::20
  idle "$net-a" --network "$net" --link "$net-web:db" --link-local-ip 169.254.7.7
  run moss exec "$net-web" ip addr show eth0
  expect contains 10.201.7.20/24 fd00:201:7::20/64
  run moss exec "$net-a" ip addr show eth0
  expect contains 169.254.7.7
  eventually 10 got "$net-a" "http://db/" "from $net-web"
  eventually 10 got "$net-a" "http://[fd00:201:7::20]/" "from $net-web"
  run moss inspect -f '{{with index .NetworkSettings.Networks "'"$net"'"}}{{.IPAddress}} {{.GlobalIPv6Address}} {{.IPPrefixLen}}{{end}}' "$net-web"
  expect output "10.201.7.20 fd00:201:7::20 24"
  idle "$net-b" --network "${id:0:12}" --network-alias short # an id names the network too
  run moss ps --filter "name=$net-b" --format '{{.Networks}}'
  expect output "$net"
  run moss exec "$net-web" nslookup short
  expect contains "$(address "$net-b" "$net")"
  moss rm -f "$net-b"
  run moss run --rm --network "$net" --ip 10.201.7.20 busybox true
  expect status 125
  expect contains "Address already in use"
  moss rm -f "$net-web" "$net-a"
  moss network rm "$net"
}

@test "run --dns, --dns-search, --dns-opt, --add-host, -h and --domainname" {
  run moss run --rm --dns 192.0.2.53 --dns-search example.org --dns-search example.net --dns-opt timeout:1 --dns-option attempts:1 busybox cat /etc/resolv.conf
  expect status 0
  expect contains "nameserver 192.0.2.53" "timeout:1" "attempts:1"
  expect matches '^search example.org example.net$'
  run moss run --rm --add-host box:192.0.2.7 --add-host six=2001:db8::6 --add-host up:host-gateway -h name --domainname example.org busybox sh -c 'cat /etc/hosts; hostname; hostname -f'
  expect status 0
  expect matches '^192\.0\.2\.7[[:space:]]+box$'
  expect matches '^2001:db8::6[[:space:]]+six$'
  expect matches '^[0-9.]+[[:space:]]+up$'
  expect matches '^name$'
  expect matches '^name\.example\.org$'
}

@test "-p, -P and --expose: ps, port and inspect show what is published" {
  name=$(unique web)
  first=$(free_port 3)
  web "$name" -p "$first-$((first + 2)):80-82" -p "127.0.0.1::90" -p "$first:53/udp" --expose 100-101
  fetched "http://127.0.0.1:$first/" "from $name" || fail "nothing at port $first"
  run moss port "$name" 80
  expect contains "0.0.0.0:$first"
  run moss port "$name" 53/udp
  expect contains "0.0.0.0:$first"
  run moss port "$name"
  expect line 0 "53/udp -> 0.0.0.0:$first"
  expect matches "^82/tcp -> 0.0.0.0:$((first + 2))$"
  expect matches '^90/tcp -> 127.0.0.1:[0-9]+$'
  expect lacks 100/tcp
  run moss ps --filter "name=$name" --format '{{.Ports}}'
  expect contains "0.0.0.0:$first-$((first + 2))->80-82/tcp" "0.0.0.0:$first->53/udp" "100-101/tcp"
  run moss inspect -f '{{(index (index .NetworkSettings.Ports "81/tcp") 0).HostPort}} {{len .Config.ExposedPorts}}' "$name"
  expect output "$((first + 1)) 7"
  run moss port "$name" 100
  expect status 1
  expect contains "publishes no port 100/tcp"
  run moss run --name "$name-2" -p "$first:80" busybox true
  expect status 125
  expect matches 'address already in use|port is already allocated'
  run moss run --rm -p 1:80 busybox true # not a code of the command's, whatever the words are
  expect status 125
  expect contains "net.ipv4.ip_unprivileged_port_start"
  moss rm -f "$name" "$name-2"
  web "$name" -P --expose 80 --expose 53/udp
  port=$(moss port "$name" 80 | sed -n 's/^0\.0\.0\.0://p')
  fetched "http://127.0.0.1:$port/" "from $name" || fail "nothing at port $port"
  run moss port "$name" 53/udp
  expect matches '^0\.0\.0\.0:[0-9]+$'
  moss rm -f "$name"
}

@test "a port of a container that is in internal networks alone is warned of" {
  net=$(unique net)
  moss network create --internal "$net"
  run moss run --rm --network "$net" -p 80 busybox true
  expect status 0
  expect contains "no port is published"
  run moss run --rm --network "$net" --network bridge -p 80 busybox true
  expect output ""
  moss network rm "$net"
}

@test "-v, --mount, --tmpfs and --volumes-from beside a network of one's own" {
  net=$(unique net)
  moss network create "$net"
  mkdir "$BATS_TEST_TMPDIR/src"
  echo here >"$BATS_TEST_TMPDIR/src/file"
  chmod -R a+rX "$BATS_TEST_TMPDIR"
  idle "$net-a" --network "$net" -v "$net-vol:/data" -v "$BATS_TEST_TMPDIR/src:/src:ro" --tmpfs /scratch:size=1m \
    --mount "type=volume,src=$net-more,dst=/more"
  moss exec "$net-a" sh -c 'echo one >/data/one; echo two >/more/two; ! touch /src/x 2>/dev/null'
  run moss exec "$net-a" sh -c 'cat /src/file; grep -c " /scratch tmpfs .*size=1024k" /proc/mounts'
  expect output $'here\n1'
  run moss run --rm --network "$net" --volumes-from "$net-a:ro" busybox sh -c 'cat /data/one /more/two /src/file; touch /data/x'
  expect contains one two here "Read-only"
  moss rm -f "$net-a"
  moss volume rm "$net-vol" "$net-more"
  moss network rm "$net"
}

@test "network prune and system prune take the networks that nobody is in" {
  net=$(unique net)
  moss network create --label "prune=$net" "$net-gone" >/dev/null
  moss network create --label "prune=$net" "$net-used" >/dev/null
  moss network create "$net-kept" >/dev/null
  idle "$net-a" --network "$net-used"
  run moss network prune --filter "label=prune=$net" </dev/null
  expect status 1
  expect contains "nothing is removed"
  run moss network prune -f --filter "label=prune=$net" --filter until=1h
  expect status 0
  expect output ""
  run moss network prune -f --filter "label=prune=$net"
  expect status 0
  expect output "Deleted Networks:"$'\n'"$net-gone"
  moss network inspect "$net-used" "$net-kept" >/dev/null
  moss rm -f "$net-a"
  run moss system prune --filter "label=prune=$net" -f
  expect status 0
  expect contains "Deleted Networks:"$'\n'"$net-used" "Total reclaimed space:"
  run moss network ls --format '{{.Name}}'
  expect contains "$net-kept" bridge host none
  expect lacks "$net-used"
  moss network rm "$net-kept"
}

@test "names of networks are completed" {
  net=$(unique net)
  moss network create "$net"
  for args in "network rm $net" "network inspect $net" "network connect $net" "run --network $net" "create --network $net"; do
    read -ra words <<<"$args"
    run moss __complete "${words[@]}"
    expect line 0 "$net"
  done
  moss network rm "$net"
}
