#!/usr/bin/env bats
# kill -9 of the engine at any moment while networks, places in them, names, ports and volumes come and go: nothing is there
# by half, nothing is held by nobody or by two, and what runs goes on. MOSS_CHANCE_ROUNDS sets the rounds of
# each verb (1).

# bats file_tags=subids,chance,alone

load lib/moss
load lib/crash

setup_file() {
  start_engine
  import_busybox
  # A supervisor has some descriptors more once it has waited for the first time; they are not to be counted below.
  local old
  MOSSD_PID=$(cat "$MOSS_DIR/mossd.pid")
  old=$(inner_pid)
  kill -KILL "$old"
  eventually 20 another_engine "$old"
}
teardown_file() { stop_engine; }
setup() {
  begin
  seed_chance
}
teardown() {
  finish
  moss ps -aq | xargs -r timeout 300 "$moss_bin/moss" --host "unix://$MOSS_SOCK" rm -f >/dev/null 2>&1
  moss network prune -f >/dev/null 2>&1
  moss volume prune -af >/dev/null 2>&1
  true
}

shims() { pgrep -u "$(id -u)" -f "moss-shim run $MOSS_DIR/run/tasks" || true; }
no_shims() { [ -z "$(shims)" ]; }

rounds=${MOSS_CHANCE_ROUNDS:-1}

# inside CMD...: runs a command of this machine in the containers' own network namespace.
inside() {
  local pid
  pid=$(inner_pid)
  nsenter --preserve-credentials -U -m -t "$pid" nsenter --net="$(find "$MOSS_DIR/run" -maxdepth 3 -name netns ! -type d | head -n 1)" "$@"
}
ports_socket() { find "$MOSS_DIR/run" -maxdepth 3 -name api.sock | head -n 1; }

# truth writes what the engine says there is, found what there is. Each line is a thing.
running() { moss ps -q --no-trunc | xargs -r timeout 300 "$moss_bin/moss" --host "unix://$MOSS_SOCK" inspect; }
truth() {
  local all nets
  all=$(running)
  [ -n "$all" ] || all='[]'
  nets=$(api GET /networks | head -n 1)
  # The device of a network in which nobody is may be missing after a crash: it comes with the first container.
  jq -r '.[] | select(.Driver == "bridge" and .Name != "bridge") | "br-" + .Id[:12]' <<<"$nets" >"$BATS_TEST_TMPDIR/bridges"
  jq -r '.[].NetworkSettings.Networks | to_entries[] | select(.value.IPAddress != "" and .key != "bridge") | "bridge br-" + .value.NetworkID[:12]' <<<"$all" | sort -u >"$BATS_TEST_TMPDIR/used"
  cat "$BATS_TEST_TMPDIR/used"
  jq -r '.[] | select(.Driver == "bridge" and .Name != "bridge") | "record " + .Id' <<<"$nets"
  jq -r '.[].NetworkSettings.Networks[] | select(.IPAddress != "") | "cable veth" + .EndpointID[:11]' <<<"$all"
  jq -r '.[].NetworkSettings.Networks | to_entries[] | select(.value.IPAddress != "") | "address " + .value.NetworkID[:12] + " " + .value.IPAddress' <<<"$all"
  jq -r '.[].Id | "namespace " + .' <<<"$all"
  jq -r '.[].NetworkSettings.Ports | to_entries[] | .key as $k | (.value // [])[] | "port " + ($k | split("/")[1]) + " " + .HostIp + ":" + .HostPort' <<<"$all"
  jq -r '.[].NetworkSettings.Ports | to_entries[] | .key as $k | (.value // [])[] | select(.HostIp == "0.0.0.0") | "published " + ($k | split("/")[1]) + " " + .HostPort' <<<"$all"
  jq -r '.[] | select([.NetworkSettings.Networks | keys[] | select(. != "bridge" and . != "none" and . != "host")] != []) | "names " + .Id' <<<"$all"
}
found() {
  inside ip -j -d link show | jq -r '.[] | select(.linkinfo.info_kind == "bridge" and .ifname != "moss0") | .ifname' | while read -r device; do
    if grep -q " $device$" "$BATS_TEST_TMPDIR/used" || ! grep -q "$device" "$BATS_TEST_TMPDIR/bridges"; then echo "bridge $device"; fi
  done
  find "$MOSS_DATA/root/networks" -mindepth 1 -printf '%f\n' | sed 's/\.json$//; s/^/record /' | grep -vF "$(moss network inspect bridge | jq -r '.[0].Id')"
  inside ip -j link show | jq -r '.[] | select(.ifname | startswith("veth")) | "cable " + .ifname'
  addresses
  find "$MOSS_DIR/run/netns" -type f -printf '%f\n' | sed -nE 's/^[0-9a-f]{64}$/namespace &/p'
  curl -sS --unix-socket "$(ports_socket)" http://moss/v1/ports | jq -r '.[] | .spec | "port " + (.proto | sub("[46]$"; "")) + " " + .parentIP + ":" + (.parentPort | tostring)'
  inside nft -j list map ip moss published 2>/dev/null | jq -r '.nftables[] | .map.elem // [] | .[] | .[0].concat | "published " + (.[0] | tostring) + " " + (.[1] | tostring)'
}
# addresses: what the containers' own devices have.
addresses() {
  local c
  for c in $(moss ps -q); do
    moss inspect "$c" | jq -r '.[0].NetworkSettings.Networks[] | select(.IPAddress != "") | .NetworkID[:12] + " " + .IPAddress' | while read -r net ip; do
      if moss exec "$c" ip -4 -o addr show </dev/null | grep -qF " $ip/"; then echo "address $net $ip"; fi
    done
  done
}
same() {
  truth | grep -v '^names ' | sort >"$BATS_TEST_TMPDIR/truth"
  found 2>"$BATS_TEST_TMPDIR/err" | sort >"$BATS_TEST_TMPDIR/found"
  diff "$BATS_TEST_TMPDIR/truth" "$BATS_TEST_TMPDIR/found" >"$BATS_TEST_TMPDIR/diff"
}
# kept: how many descriptors the supervisor has: two for each name server, and those it always has.
kept() { find "/proc/$(awk '/^PPid/ {print $2}' "/proc/$(inner_pid)/status")/fd" -mindepth 1 | wc -l; }
kept_is() { [ "$(kept)" = "$1" ]; }
true_now() {
  eventually 10 same || fail "what the engine says (<) is not what there is (>):" "$(cat "$BATS_TEST_TMPDIR/diff" "$BATS_TEST_TMPDIR/err")" || return
  # No address twice, and no device in a network that is not the engine's.
  expect equal "$(grep '^address' "$BATS_TEST_TMPDIR/truth" | uniq -d)" ""
  eventually 10 kept_is $((2 * $(truth | grep -c '^names ') + base_kept)) || fail "descriptors kept: $(kept), names: $(truth | grep -c '^names ')"
}

# witness: two containers in one network, with a port, that must see each other all the time; makes $net, $a, $b, $port.
witness() {
  net=$(unique net) a=$(unique a) b=$(unique b)
  moss run -d busybox sleep 10000 >/dev/null # so that the shared name server is open
  base_kept=$(kept)
  moss network create "$net" >/dev/null
  moss run -d --name "$a" --network "$net" --network-alias "$a-alias" -p 0:80 busybox httpd -f -h /var/www >/dev/null
  moss run -d --name "$b" --network "$net" busybox sleep 10000 >/dev/null
  port=$(moss port "$a" 80/tcp | head -n 1 | sed 's/.*://')
  eventually 10 page
}
page() { [ "$(curl -s --max-time 60 "http://127.0.0.1:$port/index.html")" = "hello from busybox" ]; }
# sees NAME [FROM]: the name leads to the web server that it is of.
sees() {
  local ip
  ip=$(moss exec "${2:-$b}" nslookup "$1" 2>&1 | awk '/^Name:/ {n = 1} n && /^Address/ && !/:.*:/ {print $NF; exit}')
  [ -n "$ip" ] && [ "$(moss exec "${2:-$b}" timeout 60 wget -q -O - "http://$ip/index.html")" = "hello from busybox" ]
}
goes_on() {
  page || fail "the port is dead" || return
  sees "$a" && sees "$a-alias" && sees "$a.$net" || fail "names are dead" || return
  true_now
}

@test "create and rm of networks" {
  witness
  other=$(unique other)
  measure moss network create --ipv6 "$other"
  moss network rm "$other"
  for _ in $(seq "$rounds"); do
    killed_during moss network create --ipv6 "$other"
    goes_on
    if moss network inspect "$other" >/dev/null 2>&1; then
      moss run --rm --network "$other" busybox ip -4 addr show eth0
    else
      moss network create --ipv6 "$other"
    fi
    killed_during moss network rm "$other"
    goes_on
    moss network rm "$other" 2>/dev/null || true
    [ "$(moss network ls -q --filter name="$other" | wc -l)" = 0 ]
  done
}

@test "connect and disconnect" {
  witness
  other=$(unique other)
  moss network create "$other" >/dev/null
  moss run -d --name "$other-c" --network "$other" busybox sleep 1000 >/dev/null
  measure moss network connect "$other" "$a"
  moss network disconnect "$other" "$a"
  in_other() { moss inspect "$a" | jq -e --arg n "$other" '.[0].NetworkSettings.Networks[$n]' >/dev/null; }
  for _ in $(seq "$rounds"); do
    killed_during moss network connect --alias third "$other" "$a"
    goes_on
    in_other || moss network connect --alias third "$other" "$a"
    sees third "$other-c"
    killed_during moss network disconnect "$other" "$a"
    goes_on
    if in_other; then moss network disconnect "$other" "$a"; fi
    ! sees third "$other-c"
    # The primary one goes, and comes back: the port follows.
    moss network connect "$other" "$a"
    killed_during moss network disconnect "$net" "$a"
    page
    true_now
    moss network disconnect "$net" "$a" 2>/dev/null || true
    killed_during moss network connect --alias "$a-alias" "$net" "$a"
    page
    true_now
    moss network connect --alias "$a-alias" "$net" "$a" 2>/dev/null || true
    killed_during moss network disconnect "$other" "$a"
    goes_on
    if in_other; then moss network disconnect "$other" "$a"; fi
  done
}

@test "run, rename, rm -f" {
  witness
  c=$(unique c)
  start() { moss run -d --name "$c" --network "$net" --network-alias "$c-alias" -p 0:80 -p 0:80/udp busybox httpd -f -h /var/www; }
  measure start
  moss rm -f "$c"
  for _ in $(seq "$rounds"); do
    killed_during start
    goes_on
    moss rm -f "$c" 2>/dev/null || true
    eventually 10 is_gone "$c"
    start >/dev/null
    eventually 10 sees "$c-alias"
    killed_during moss rename "$c" "$c-new"
    goes_on
    now=$c
    if [ "$(state "$c-new")" = running ]; then now=$c-new; fi
    sees "$now"
    [ "$now" != "$c-new" ] || ! sees "$c" || fail "the old name still leads there"
    killed_during moss rm -f "$now"
    goes_on
    moss rm -f "$now" 2>/dev/null || true
    eventually 10 is_gone "$now"
    goes_on
  done
}

@test "prune of networks" {
  witness
  other=$(unique other)
  span=100
  for _ in $(seq "$rounds"); do
    for i in 1 2 3 4 5; do moss network create "$other-$i" >/dev/null; done
    killed_during moss network prune -f
    goes_on
    moss network prune -f >/dev/null
    true_now
    moss network inspect "$net" >/dev/null
  done
}

@test "volumes: create, copy-up, rm, prune" {
  v=$(unique v)
  moss run --name "$v" busybox sh -c 'for i in $(seq 400); do dd if=/dev/urandom of=/home/$i bs=8k count=1; done 2>/dev/null'
  moss commit "$v" "$v" >/dev/null
  moss rm "$v"
  sum=$(moss run --rm "$v" sh -c 'cat /home/* | md5sum')
  fill() { moss run --rm -v "$v-full:/home" "$v" true; }
  measure fill
  moss volume rm "$v-full"
  for _ in $(seq "$rounds"); do
    killed_during fill
    # What the next container finds is all or nothing, never a part taken for the whole.
    expect equal "$(moss run --rm -v "$v-full:/home" "$v" sh -c 'cat /home/* | md5sum')" "$sum"
    moss ps -aq --filter volume="$v-full" | xargs -r timeout 300 "$moss_bin/moss" --host "unix://$MOSS_SOCK" rm -f # made and not started
    eventually 10 nobody_uses "$v-full"
    killed_during moss volume rm "$v-full"
    whole
    moss volume rm "$v-full" 2>/dev/null || true
    for i in 1 2 3 4 5 6; do moss volume create "$v-$i" >/dev/null; done
    killed_during moss volume prune -af
    whole
    moss volume prune -af >/dev/null
    expect equal "$(moss volume ls -q)" ""
    whole
  done
  moss rmi "$v"
}
nobody_uses() { [ -z "$(moss ps -aq --filter volume="$1")" ]; }
# whole: every volume has its folder, and no folder is without its volume.
whole() {
  diff <(moss volume ls -q | sort) <(find "$MOSS_DATA/root/volumes" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' 2>/dev/null | sort)
}

@test "rm of a network while a container starts in it: one of them wins, and all stays true" {
  witness
  span=100
  for _ in $(seq "${MOSS_CHANCE_ROUNDS:-8}"); do
    other=$(unique other)
    moss network create "$other" >/dev/null
    moss create --name "$other-c" --network "$other" busybox sleep 1000 >/dev/null
    moss start "$other-c" >"$BATS_TEST_TMPDIR/start" 2>&1 3>&- &
    starter=$!
    pass_moment
    if moss network rm "$other" 2>/dev/null; then
      if wait $starter; then fail "a container runs in a network that is gone"; fi
      expect equal "$(state "$other-c")" created
    else
      wait $starter
      is_running "$other-c"
      moss exec "$other-c" nslookup "$other-c" | grep -q "^Name:"
    fi
    moss rm -f "$other-c"
    moss network rm "$other" 2>/dev/null || true
  done
  goes_on
}

@test "many clients connect and disconnect one container: each is answered, and its port stays" {
  witness
  for i in 1 2 3 4; do moss network create "$a-$i" >/dev/null; done
  to_and_fro() {
    for _ in $(seq "${MOSS_CHANCE_ROUNDS:-5}"); do
      moss network connect "$a-$1" "$a" && moss network disconnect "$a-$1" "$a" || return
    done
  }
  clients=()
  for i in 1 2 3 4; do
    to_and_fro "$i" 3>&- &
    clients+=($!)
  done
  for i in "${clients[@]}"; do wait "$i"; done
  goes_on
  moss network rm "$a-1" "$a-2" "$a-3" "$a-4"
}

@test "kill -9 of the outer engine: networks come up again as they were, and nothing else is left" {
  witness
  moss network create --subnet 10.99.7.0/24 --gateway 10.99.7.9 "$net-2" >/dev/null
  before=$(moss network inspect "$net" "$net-2" bridge | jq -c '[.[] | [.Id, .Name, .IPAM.Config]]')
  span=400
  for _ in $(seq $((rounds / 2 + 1))); do
    moss run -d --name "$(unique more)" --network "$net-2" -p 0:80 busybox sleep 1000 >/dev/null 2>&1 3>&- &
    client=$!
    pass_moment
    kill -KILL "$MOSSD_PID"
    wait $client || true
    eventually 10 ended "$MOSSD_PID"
    eventually 10 no_shims
    spawn_engine
    expect equal "$(moss network inspect "$net" "$net-2" bridge | jq -c '[.[] | [.Id, .Name, .IPAM.Config]]')" "$before"
    expect equal "$(moss ps -q)" ""
    moss run -d busybox sleep 10000 >/dev/null
    base_kept=$(kept) # of another supervisor
    moss start "$a" "$b"
    port=$(moss port "$a" 80/tcp | head -n 1 | sed 's/.*://')
    eventually 10 page
    goes_on
    moss run --rm --network "$net-2" busybox ip route | grep -q "default via 10.99.7.9"
  done
}
