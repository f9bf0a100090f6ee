#!/usr/bin/env bats
# Names: what containers find each other by, and how names from outside reach them. MOSS_NAMES says how many containers
# resolve each other in one network; the default keeps the suite short.
# bats file_tags=subids

load lib/moss

# There are two engines. One is like any other. The other's host is a network and an /etc of its own, so that a test may
# change what the host resolves with and listen on port 53; its variables begin with OUT_.
setup_file() {
  start_roaming
  start_engine
  import_busybox
}
teardown_file() {
  local bad=0
  roaming stop_engine || bad=1
  rm -rf "$OUT_HOST"
  stop_engine || bad=1
  [ $bad = 0 ]
}
setup() {
  begin
  servers=()
}
teardown() {
  local pid
  for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null || true; done
  finish
}

# start_roaming: an engine on a host with nothing but loopback, whose /etc is OUT_HOST/etc. It has one id only: it lives in
# a user namespace of one.
start_roaming() {
  local tool own=$moss_bin
  OUT_HOST=$(mktemp -d /tmp/moss-h.XXXXXX)
  mkdir "$OUT_HOST/bin" "$OUT_HOST/etc" "$OUT_HOST/home"
  for tool in ip nsenter unshare mount slirp4netns crun runc nft sh setpriv env timeout python3; do
    tool=$(command -v $tool) && ln -s "$tool" "$OUT_HOST/bin/"
  done
  ln -s "$own/moss" "$own/moss-shim" "$OUT_HOST/bin/"
  for tool in /etc/*; do
    [ "$tool" = /etc/resolv.conf ] || cp -r "$tool" "$OUT_HOST/etc/" 2>/dev/null || true
  done
  echo 'nameserver 127.0.0.53' >"$OUT_HOST/etc/resolv.conf"
  cat >"$OUT_HOST/bin/mossd" <<SCRIPT
#!/bin/bash
# shellcheck disable=SC2016
exec unshare --user --map-current-user --keep-caps --mount --net sh -c 'ip link set lo up && mount --bind "\$0/etc" /etc
  echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start
  exec setpriv --ambient-caps=-all --inh-caps=-all env "PATH=\$0/bin" "HOME=\$0/home" $own/mossd "\$@"' $OUT_HOST "\$@"
SCRIPT
  chmod 0755 "$OUT_HOST/bin/mossd"
  moss_bin=$OUT_HOST/bin start_engine
  OUT_DIR=$MOSS_DIR OUT_DATA=$MOSS_DATA OUT_SOCK=$MOSS_SOCK
  export OUT_HOST OUT_DIR OUT_DATA OUT_SOCK
  import_busybox
}

# roaming CMD...: runs it with the other engine in place of the usual one.
roaming() {
  local MOSS_DIR=$OUT_DIR MOSS_DATA=$OUT_DATA MOSS_SOCK=$OUT_SOCK MOSSD_PID
  MOSSD_PID=$(cat "$OUT_DIR/mossd.pid")
  "$@"
}

# serve PID ADDRESS NAME=IPV4...: a name server in the network namespace of a process, that ends with the test. $asked is
# the file of what it is asked.
serve() {
  local pid=$1 address=$2
  shift 2
  asked=$BATS_TEST_TMPDIR/asked.$address
  rm -f "$asked"
  nsenter --preserve-credentials --user --net --target "$pid" \
    python3 "$BATS_TEST_DIRNAME/lib/named.py" "$address" "$asked" "$@" >&2 3>&- 4>&- &
  servers+=($!)
  eventually 10 test -e "$asked"
}
# host_pid: a process of the other engine's host.
host_pid() { cat "$OUT_DIR/mossd.pid"; }

# idle NAME [ARG...]: a container that waits.
idle() {
  local name=$1
  shift
  moss run -d --name "$name" "$@" busybox sleep 100000 >/dev/null
}
# address CONTAINER NETWORK: its IPv4 address there.
address() { moss inspect -f "{{(index .NetworkSettings.Networks \"$2\").IPAddress}}" "$1"; }
address6() { moss inspect -f "{{(index .NetworkSettings.Networks \"$2\").GlobalIPv6Address}}" "$1"; }
# lookup CONTAINER NAME [TYPE]: what the name resolves to inside the container, sorted, in one line.
lookup() {
  local kind=-type=${3:-a}
  [ "$kind" != -type=ptr ] || kind= # of an address it knows itself
  # shellcheck disable=SC2086 # or nothing
  moss exec "$1" nslookup -timeout=60 -retry=24 $kind "$2" 2>&1 | awk '
    /^Name:/ {on = 1}
    on && /^Address/ {print $NF}
    /name = / {print $NF}
    /NXDOMAIN|SERVFAIL|REFUSED|timed out|no servers/ {sub(/.*: /, ""); print}' | sort -u | xargs
}
resolves() { [ "$(lookup "$1" "$2")" = "$3" ]; }

@test "names, aliases and ids lead to a container, in any case and with the network's name" {
  net=$(unique net) web=$(unique web) db=$(unique db)
  moss network create "$net"
  idle "$web" --network "$net"
  idle "$db" --network "$net" --network-alias store --network-alias Shop.Example
  ip=$(address "$db" "$net") id=$(moss inspect -f '{{.Id}}' "$db")
  for name in "$db" "${db^^}" store STORE shop.example "${id:0:12}" "$db.$net" "store.$net"; do
    expect equal "$name $(lookup "$web" "$name")" "$name $ip"
  done
  expect equal "$(lookup "$web" "$web")" "$(address "$web" "$net")"
  expect equal "$(lookup "$web" "$db" aaaa)" ''
  run moss exec "$web" ping -c 1 -W 2 store
  expect status 0
  expect contains "$ip"
  moss rm -f "$web" "$db"
  moss network rm "$net"
}

@test "an address leads back to the name" {
  net=$(unique net) web=$(unique web) db=$(unique db)
  moss network create "$net"
  idle "$web" --network "$net"
  idle "$db" --network "$net"
  expect equal "$(lookup "$web" "$(address "$db" "$net")" ptr)" "$db.$net"
  moss rm -f "$web" "$db"
  moss network rm "$net"
}

@test "IPv6 addresses are answered where the network has them" {
  net=$(unique net) web=$(unique web) db=$(unique db)
  moss network create --ipv6 --subnet fd00:38:1::/64 "$net"
  idle "$web" --network "$net"
  idle "$db" --network "$net"
  expect equal "$(lookup "$web" "$db" aaaa)" "$(address6 "$db" "$net")"
  expect equal "$(lookup "$web" "$db" a)" "$(address "$db" "$net")"
  expect equal "$(lookup "$web" "$(address6 "$db" "$net")" ptr)" "$db.$net"
  moss rm -f "$web" "$db"
  moss network rm "$net"
}

@test "several containers with one alias: all of their addresses" {
  net=$(unique net) web=$(unique web) one=$(unique one) two=$(unique two)
  moss network create "$net"
  idle "$web" --network "$net"
  idle "$one" --network "$net" --network-alias pool
  idle "$two" --network "$net" --network-alias pool
  expect equal "$(lookup "$web" pool)" "$(printf '%s\n' "$(address "$one" "$net")" "$(address "$two" "$net")" | sort | xargs)"
  moss rm -f "$one"
  expect equal "$(lookup "$web" pool)" "$(address "$two" "$net")"
  moss rm -f "$web" "$two"
  moss network rm "$net"
}

@test "links are names that one container has alone" {
  net=$(unique net) web=$(unique web) db=$(unique db) other=$(unique other)
  moss network create "$net"
  idle "$db" --network "$net"
  idle "$web" --network "$net" --link "$db:mysql"
  idle "$other" --network "$net"
  expect equal "$(lookup "$web" mysql)" "$(address "$db" "$net")"
  expect equal "$(lookup "$other" mysql)" NXDOMAIN
  moss rm -f "$web" "$db" "$other"
  moss network rm "$net"
}

@test "a link leads through its own network alone, and of two with one alias the last one counts" {
  one=$(unique one) two=$(unique two) web=$(unique web) db=$(unique db) other=$(unique other)
  moss network create "$one"
  moss network create "$two"
  idle "$db" --network "$one" --network "$two"
  idle "$other" --network "$one"
  idle "$web" --network "$one" --network "$two" --link "$other:store" --link "$db:store"
  expect equal "$(lookup "$web" store)" "$(address "$db" "$one")"
  moss network disconnect "$one" "$db"
  expect equal "$(lookup "$web" store)" NXDOMAIN
  expect equal "$(lookup "$web" "$db")" "$(address "$db" "$two")"
  moss network connect "$one" "$db"
  expect equal "$(lookup "$web" store)" "$(address "$db" "$one")"
  moss network disconnect "$one" "$web"
  expect equal "$(lookup "$web" store)" NXDOMAIN
  moss rm -f "$web" "$db" "$other"
  moss network rm "$one" "$two"
}

@test "names of other networks, and of the default one, do not exist" {
  one=$(unique one) two=$(unique two) web=$(unique web) db=$(unique db) plain=$(unique plain) both=$(unique both)
  moss network create --internal "$one"
  moss network create --internal "$two"
  idle "$web" --network "$one"
  idle "$db" --network "$two"
  idle "$plain"
  for name in "$db" "$db.$two" "$plain" "$plain.bridge"; do
    expect equal "$name $(lookup "$web" "$name")" "$name NXDOMAIN"
  done
  idle "$both" --network "$one"
  expect equal "$(lookup "$both" "$db")" NXDOMAIN
  moss network connect "$two" "$both"
  expect equal "$(lookup "$both" "$db")" "$(address "$db" "$two")"
  expect equal "$(lookup "$both" "$web")" "$(address "$web" "$one")"
  moss network disconnect "$two" "$both"
  expect equal "$(lookup "$both" "$db")" NXDOMAIN
  expect equal "$(lookup "$db" "$both")" NXDOMAIN
  moss rm -f "$web" "$db" "$plain" "$both"
  moss network rm "$one" "$two"
}

@test "a container of the default network that is connected to another one knows the names there" {
  net=$(unique net) db=$(unique db) plain=$(unique plain)
  moss network create "$net"
  idle "$db" --network "$net"
  idle "$plain"
  moss network connect --alias late "$net" "$plain"
  eventually 5 resolves "$plain" "$db" "$(address "$db" "$net")"
  expect equal "$(lookup "$db" late)" "$(address "$plain" "$net")"
  moss network disconnect "$net" "$plain"
  expect equal "$(lookup "$plain" host.moss.internal)" 10.0.2.2
  moss rm -f "$db" "$plain"
  moss network rm "$net"
}

@test "a rename changes the names, a stop and a removal end them" {
  net=$(unique net) web=$(unique web) db=$(unique db) new=$(unique new)
  moss network create --internal "$net"
  idle "$web" --network "$net"
  idle "$db" --network "$net" --network-alias keeps
  ip=$(address "$db" "$net")
  moss rename "$db" "$new"
  expect equal "$(lookup "$web" "$new")" "$ip"
  expect equal "$(lookup "$web" keeps)" "$ip"
  expect equal "$(lookup "$web" "$db")" NXDOMAIN
  expect equal "$(lookup "$web" "$ip" ptr)" "$new.$net"
  moss stop -t 0 "$new"
  expect equal "$(lookup "$web" "$new")" NXDOMAIN
  moss start "$new"
  expect equal "$(lookup "$web" "$new")" "$(address "$new" "$net")"
  moss rm -f "$web" "$new"
  moss network rm "$net"
}

@test "a container may listen on port 53 itself" {
  net=$(unique net) web=$(unique web) own=$(unique own)
  moss network create "$net"
  idle "$web" --network "$net"
  idle "$own" --network "$net"
  serve "$(pid_of "$own")" 0.0.0.0 "from.own=192.0.2.53" "$web=192.0.2.54"
  expect equal "$(lookup "$own" "$web")" "$(address "$web" "$net")"
  run moss exec "$web" nslookup -type=a from.own "$(address "$own" "$net")"
  expect contains 192.0.2.53
  expect equal "$(sort -u "$asked")" from.own # the client asks again when an answer is late
  moss rm -f "$web" "$own"
  moss network rm "$net"
}

@test "an internal network resolves its own names and nothing from outside" {
  serve "$(host_pid)" 127.0.0.53 'far.example=192.0.2.1' 'near=192.0.2.2'
  net=$(unique net) web=$(unique web) db=$(unique db)
  roaming moss network create --internal "$net"
  roaming idle "$web" --network "$net"
  roaming idle "$db" --network "$net" --dns 127.0.0.53
  expect equal "$(roaming lookup "$web" "$db")" "$(roaming address "$db" "$net")"
  for name in far.example near host.docker.internal; do
    expect equal "$name $(roaming lookup "$web" "$name")" "$name NXDOMAIN"
    expect equal "$name $(roaming lookup "$db" "$name")" "$name NXDOMAIN"
  done
  expect equal "$(cat "$asked")" ''
  roaming moss rm -f "$web" "$db"
  roaming moss network rm "$net"
}

@test "names from outside are asked of the host's name server, names of the network are not" {
  serve "$(host_pid)" 127.0.0.53 'far.example=192.0.2.1' 'near=192.0.2.2'
  net=$(unique net) web=$(unique web) db=$(unique db) plain=$(unique plain)
  roaming moss network create "$net"
  roaming idle "$web" --network "$net"
  roaming idle "$db" --network "$net"
  roaming idle "$plain"
  for box in "$web" "$plain"; do
    expect equal "$box $(roaming lookup "$box" far.example)" "$box 192.0.2.1"
    expect equal "$box $(roaming lookup "$box" near)" "$box 192.0.2.2"
    expect equal "$box $(roaming lookup "$box" nowhere.example)" "$box NXDOMAIN"
  done
  expect equal "$(roaming lookup "$web" "$db")" "$(roaming address "$db" "$net")"
  run cat "$asked"
  expect contains far.example near nowhere.example
  expect lacks "$db"
  roaming moss rm -f "$web" "$db" "$plain"
  roaming moss network rm "$net"
}

@test "the host's resolv.conf counts as it is at that moment: replaced, missing, a link" {
  serve "$(host_pid)" 127.0.0.53 'where.example=192.0.2.53'
  serve "$(host_pid)" 127.0.0.54 'where.example=192.0.2.54'
  net=$(unique net) web=$(unique web) plain=$(unique plain) etc=$OUT_HOST/etc
  roaming moss network create "$net"
  roaming idle "$web" --network "$net"
  roaming idle "$plain"
  all() {
    for box in "$web" "$plain"; do
      expect equal "$1: $(roaming lookup "$box" where.example)" "$1: $2"
    done
  }
  all 'at the start' 192.0.2.53
  echo 'nameserver 127.0.0.54' >"$etc/resolv.conf.new"
  mv "$etc/resolv.conf.new" "$etc/resolv.conf"
  all 'renamed over' 192.0.2.54
  echo 'nameserver 127.0.0.53' >"$etc/resolv.conf"
  all 'written over' 192.0.2.53
  rm "$etc/resolv.conf"
  all 'missing' SERVFAIL
  mkdir "$etc/resolver"
  echo 'nameserver 127.0.0.54' >"$etc/resolver/stub"
  ln -s ../etc/resolver/stub "$etc/resolv.conf"
  all 'a link' 192.0.2.54
  echo 'nameserver 127.0.0.53' >"$etc/resolver/other"
  ln -sfn /etc/resolver/other "$etc/resolv.conf.new"
  mv -T "$etc/resolv.conf.new" "$etc/resolv.conf"
  all 'another link' 192.0.2.53
  printf 'nameserver 127.0.0.99\nnameserver 127.0.0.54\n' >"$etc/resolver/other"
  all 'a first server that is not there' 192.0.2.54
  rm -r "$etc/resolv.conf" "$etc/resolver"
  echo 'nameserver 127.0.0.53' >"$etc/resolv.conf"
  roaming moss rm -f "$web" "$plain"
  roaming moss network rm "$net"
}

@test "the host's search list and options are in resolv.conf; --dns-search and --dns-opt replace them" {
  serve "$(host_pid)" 127.0.0.53 'short.corp.example=192.0.2.7' 'short.other.example=192.0.2.8'
  printf 'search corp.example\nnameserver 127.0.0.53\noptions timeout:3\n' >"$OUT_HOST/etc/resolv.conf"
  net=$(unique net) web=$(unique web) mine=$(unique mine) none=$(unique none) plain=$(unique plain)
  roaming moss network create "$net"
  roaming idle "$web" --network "$net"
  roaming idle "$mine" --network "$net" --dns-search other.example --dns-opt attempts:3
  roaming idle "$none" --network "$net" --dns-search .
  roaming idle "$plain"
  echo 'nameserver 127.0.0.53' >"$OUT_HOST/etc/resolv.conf"
  run roaming moss exec "$web" cat /etc/resolv.conf
  expect contains 'nameserver 127.0.0.11' 'search corp.example' 'timeout:3' 'ndots:0'
  run roaming moss exec "$mine" cat /etc/resolv.conf
  expect contains 'nameserver 127.0.0.11' 'search other.example' 'attempts:3'
  expect lacks corp.example timeout:3
  run roaming moss exec "$none" cat /etc/resolv.conf
  expect lacks search
  run roaming moss exec "$plain" cat /etc/resolv.conf
  expect contains 'search corp.example' 'timeout:3'
  expect lacks 127.0.0.11 ndots
  expect equal "$(roaming lookup "$web" short)" 192.0.2.7
  expect equal "$(roaming lookup "$mine" short)" 192.0.2.8
  expect equal "$(roaming lookup "$none" short)" NXDOMAIN
  roaming moss rm -f "$web" "$mine" "$none" "$plain"
  roaming moss network rm "$net"
}

@test "--dns is asked from inside the container's network, the host's name server is not" {
  serve "$(host_pid)" 127.0.0.53 'who.example=192.0.2.1'
  net=$(unique net) own=$(unique own) web=$(unique web) plain=$(unique plain) near=$(unique near)
  roaming moss network create "$net"
  roaming idle "$own" --network "$net"
  host_asked=$asked ip=$(roaming address "$own" "$net")
  serve "$(roaming pid_of "$own")" "$ip" 'who.example=192.0.2.2'
  roaming idle "$web" --network "$net" --dns "$ip"
  expect equal "$(roaming lookup "$web" who.example)" 192.0.2.2
  expect equal "$(roaming lookup "$web" "$own")" "$ip"
  run roaming moss exec "$web" cat /etc/resolv.conf
  expect contains 'nameserver 127.0.0.11'
  # Its own loopback is a place inside, too.
  roaming idle "$near" --network "$net" --dns 127.0.0.1
  serve "$(roaming pid_of "$near")" 127.0.0.1 'who.example=192.0.2.3'
  expect equal "$(roaming lookup "$near" who.example)" 192.0.2.3
  # In the default network the container asks by itself.
  roaming idle "$plain" --dns 192.0.2.200 --dns 192.0.2.201
  run roaming moss exec "$plain" grep nameserver /etc/resolv.conf
  expect output $'nameserver 192.0.2.200\nnameserver 192.0.2.201'
  expect equal "$(cat "$host_asked")" ''
  roaming moss rm -f "$own" "$web" "$plain" "$near"
  roaming moss network rm "$net"
}

@test "host.docker.internal and host.moss.internal are the host" {
  net=$(unique net) web=$(unique web) plain=$(unique plain)
  moss network create "$net"
  idle "$web" --network "$net"
  idle "$plain"
  for name in host.docker.internal host.moss.internal; do
    for box in "$web" "$plain"; do
      expect equal "$name in $box $(lookup "$box" $name)" "$name in $box 10.0.2.2"
    done
  done
  moss rm -f "$web" "$plain"
  moss network rm "$net"
}

@test "a container that shares another's network has its names" {
  net=$(unique net) web=$(unique web) db=$(unique db)
  moss network create --internal "$net"
  idle "$db" --network "$net"
  idle "$web" --network "$net"
  run moss run --rm --network "container:$web" busybox nslookup -type=a "$db"
  expect status 0
  expect contains "$(address "$db" "$net")"
  moss rm -f "$web" "$db"
  moss network rm "$net"
}

@test "names outlive a killed engine: queries in between are late, not refused" {
  net=$(unique net) web=$(unique web) db=$(unique db) asker=$(unique asker)
  moss network create --internal "$net"
  idle "$db" --network "$net"
  idle "$web" --network "$net"
  # shellcheck disable=SC2016 # for the container's shell
  moss run -d --name "$asker" --network "$net" busybox sh -c \
    'while :; do if nslookup -type=a -timeout=60 -retry=24 "$0" >/tmp/out 2>&1; then echo good; else echo bad; cat /tmp/out; fi; done' "$db" >/dev/null
  ip=$(address "$db" "$net")
  eventually 10 log_has "$asker" good
  # The very same sockets go on: what is sent while there is no engine waits in them.
  sockets() { moss exec "$web" cat /proc/net/udp /proc/net/tcp | awk '$2 ~ /^0B00007F:/ && $3 ~ /:0000$/ {print $2, $10}'; }
  kept=$(sockets)
  expect equal "$(wc -l <<<"$kept")" 2
  another() { [ "$(inner_pid 2>/dev/null)" != "$engine" ] && ping_ok; }
  for how in KILL HUP KILL; do
    engine=$(inner_pid)
    if [ $how = HUP ]; then kill -HUP "$MOSSD_PID"; else kill -KILL "$engine"; fi
    eventually 30 another
    before=$(moss logs "$asker" | grep -c good)
    more() { [ "$(moss logs "$asker" | grep -c good)" -gt $((before + 5)) ]; }
    eventually 20 more
    expect equal "$(lookup "$web" "$db")" "$ip"
    expect equal "$(sockets)" "$kept"
  done
  run moss logs "$asker"
  expect lacks bad
  # What was stopped and started since has its names too.
  moss stop -t 0 "$db"
  expect equal "$(lookup "$web" "$db")" NXDOMAIN
  moss start "$db"
  expect equal "$(lookup "$web" "$db")" "$(address "$db" "$net")"
  moss rm -f "$web" "$db" "$asker"
  moss network rm "$net"
}

@test "a container that ended while there was no engine has no name any more" {
  net=$(unique net) web=$(unique web) db=$(unique db)
  moss network create --internal "$net"
  idle "$web" --network "$net"
  idle "$db" --network "$net"
  victim=$(pid_of "$db")
  supervisor=$(awk '/^PPid/ {print $2}' "/proc/$(inner_pid)/status")
  kept() { find "/proc/$supervisor/fd" -mindepth 1 | wc -l; }
  before=$(kept)
  kill -KILL "$(inner_pid)"
  kill -KILL "$victim"
  eventually 30 ping_ok
  eventually 10 is_exited "$db"
  expect equal "$(lookup "$web" "$db")" NXDOMAIN
  # Its two sockets are given up, which would keep its network alive.
  fewer() { [ "$(kept)" -le $((before - 2)) ]; }
  eventually 10 fewer || fail "the supervisor holds $(kept) descriptors, before $before"
  moss rm -f "$web" "$db"
  moss network rm "$net"
}

@test "many containers in one network resolve each other" {
  count=${MOSS_NAMES:-40} net=$(unique net) each=$(unique each) list=$BATS_TEST_TMPDIR/list
  moss network create --internal "$net"
  seq -f "$each-%.0f" "$count" | xargs -P 4 -I NAME "$moss_bin/moss" --host "unix://$MOSS_SOCK" \
    run -d --name NAME --network "$net" --network-alias all busybox sleep 100000 >/dev/null
  seq -f "$each-%.0f" "$count" | xargs "$moss_bin/moss" --host "unix://$MOSS_SOCK" \
    inspect -f "{{.Name}} {{(index .NetworkSettings.Networks \"$net\").IPAddress}} {{.State.Pid}}" | sed 's|^/||' >"$list"
  expect equal "$(wc -l <"$list")" "$count"
  run nsenter --preserve-credentials --user --target "$(inner_pid)" python3 "$BATS_TEST_DIRNAME/lib/resolve.py" <"$list"
  expect output "$((count * count)) asked, 0 wrong"
  # The container's own programs find them too, and the alias of all.
  for i in 1 $((count / 2)) "$count"; do
    expect equal "$(lookup "$each-2" "$each-$i")" "$(awk -v name="$each-$i" '$1 == name {print $2}' "$list")"
  done
  [[ $(lookup "$each-2" all) == *.*.*.*\ *.*.*.* ]]
  seq -f "$each-%.0f" "$count" | xargs -P 4 -n 10 "$moss_bin/moss" --host "unix://$MOSS_SOCK" rm -f >/dev/null
  moss network rm "$net"
}
