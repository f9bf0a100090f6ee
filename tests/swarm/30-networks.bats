#!/usr/bin/env bats
# Networks of a swarm over three nodes: who reaches whom, by which names, who does not, what clients may do with them, and what
# goes on when programs, nodes and managers end.
#
# Three services with a task on each node are there for all tests: web in the network one, with the alias nick; apart in two;
# inner in within, which is internal.

load ../lib/moss
load ../lib/nodes
load ../lib/services

setup_file() {
  make_swarm 3
  docker_on 1 network create --driver overlay --label stage=test one >/dev/null
  docker_on 1 network create --driver overlay two >/dev/null
  docker_on 1 network create --driver overlay --internal within >/dev/null
  serve web --network name=one,alias=nick --mode global
  serve apart --network two --mode global
  serve inner --network within --mode global
}
teardown_file() { remove_nodes; }
teardown() {
  local item
  restore 3
  for item in $(docker_on 1 service ls --format '{{.Name}}' | grep -vxE 'web|apart|inner'); do docker_on 1 service rm "$item" >/dev/null; done
  for item in $(docker_on 1 network ls -q --filter driver=overlay --filter name=^t-); do eventually 30 removes "$item"; done
  show_nodes
}

removes() { docker_on 1 network rm "$1" >/dev/null; }

# resolve N SERVICE NAME...: the addresses that names have in its container on a node: one line for each name, in order.
# resolves is for eventually: do they have these?
resolve() {
  # shellcheck disable=SC2016 # for the shell in the container
  exec_in "$1" "$2" sh -c 'for name; do
    echo $name $(nslookup "$name" 2>/dev/null | awk "\$1 == \"Address:\" && \$2 !~ /:53\$/ { print \$2 }" | sort -t . -k 4n)
  done' sh "${@:3}"
}
resolves() { [ "$(resolve "$1" "$2" "${@:4}")" = "$(printf "%s$3\n" "${@:4}")" ]; }

# addresses SERVICE NETWORK: those of its tasks on all nodes, in order.
addresses() { for n in 1 2 3; do address_in "$n" "$1" "$2"; done | sort -V | xargs; }

# try_all N SERVICE ADDRESS...: asks each address for an echo and for a connection to port 80, all at once. It prints what is
# answered, in order.
try_all() {
  # shellcheck disable=SC2016 # for the shell in the container
  exec_in "$1" "$2" sh -c 'for a; do
    (ping -c 1 -W 1 "$a" >/dev/null 2>&1 && echo "ping $a") &
    (nc -w 1 "$a" 80 </dev/null >/dev/null 2>&1 && echo "tcp $a") &
  done; wait' sh "${@:3}" | sort -V
}
answered() { for a in "$@"; do printf 'ping %s\ntcp %s\n' "$a" "$a"; done | sort -V; }

# visits N SERVICE COUNT ADDRESS...: what so many requests to each address say, each once.
visits() {
  # shellcheck disable=SC2016 # for the shell in the container
  exec_in "$1" "$2" sh -c 'count=$1; shift; for a; do i=0
    while [ $i -lt $count ]; do timeout 60 wget -qO- "http://$a/cgi-bin/who" || echo "$a fails"; i=$((i + 1)); done
  done' sh "${@:3}" | sort -u
}
# all_from ADDRESS: what requests from it are told by web on all nodes.
all_from() { printf 'node%s '"$1"'\n' 1 2 3; }

@test "tasks reach each other over all nodes, by address and by the service, and see each other's own address" {
  mapfile -t all < <(addresses web one | tr ' ' '\n')
  expect equal "${#all[@]}" 3
  for from in 1 2 3; do
    own=$(address_in "$from" web one)
    expect equal "$(visits "$from" web 1 "${all[@]}")" "$(all_from "$own")"
    # A random draw among three: one of them is missed by 50 requests once in 200 million times.
    expect equal "$(visits "$from" web 50 web)" "$(all_from "$own")"
  done
}

@test "names: the service, tasks, aliases, containers, dnsrr; of no other network, and none after the service" {
  name=$(unique names)
  tasks=$(addresses web one) vip=$(virtual_address web one)
  expect --in "$tasks" lacks "$vip"
  box=$(containers_of 3 web) foreign=$(containers_of 1 apart)
  for from in 1 2 3; do
    expect equal "$(resolve "$from" web web nick tasks.web "$box" apart tasks.apart inner "$foreign")" \
      "$(printf '%s\n' "web $vip" "nick $vip" "tasks.web $tasks" "$box $(address_in 3 web one)" apart tasks.apart inner "$foreign")"
    expect equal "$(resolve "$from" apart nick web apart)" "$(printf '%s\n' nick web "apart $(virtual_address apart two)")"
  done
  serve "$name" --network "name=one,alias=$name-alias" --endpoint-mode dnsrr --mode global
  expect equal "$(virtual_address "$name" one)" ''
  there=$(addresses "$name" one)
  for from in 1 2 3; do eventually 10 resolves "$from" web " $there" "$name" "tasks.$name" "$name-alias"; done
  expect equal "$(visits 1 web 1 "$name" | wc -l)" 1
  docker_on 1 service rm "$name"
  for from in 1 2 3; do eventually 20 resolves "$from" web '' "$name" "tasks.$name" "$name-alias"; done
}

@test "two networks do not see each other, on one node or between two" {
  own=$(address_in 1 web one)
  gateway=$(docker_on 1 network inspect --format '{{(index .IPAM.Config 0).Gateway}}' two)
  for from in 2 3; do
    in_own() { [ "$(try_all "$from" web "$own")" = "$(answered "$own")" ]; }
    eventually 10 in_own
    # shellcheck disable=SC2046 # several addresses
    expect equal "$(try_all "$from" web $(addresses apart two) "$(virtual_address apart two)" "$gateway" $(addresses inner within))" ''
    # shellcheck disable=SC2046
    expect equal "$(try_all "$from" apart $(addresses web one) "$(virtual_address web one)" $(addresses inner within))" ''
  done
}

@test "an internal network: its tasks reach each other over nodes, and nothing else" {
  manager=$(address_of 1)
  exec_in 2 web nc -w 30 "$manager" 2377 </dev/null
  for from in 1 2 3; do
    mapfile -t all < <(addresses inner within | tr ' ' '\n')
    expect equal "$(visits "$from" inner 1 "${all[@]}")" "$(all_from "$(address_in "$from" inner within)")"
    run exec_in "$from" inner ip route
    expect lacks default
    # shellcheck disable=SC2046 # several addresses
    expect equal "$(try_all "$from" inner $(addresses web one) "$(virtual_address web one)" 10.0.2.2)" ''
    run exec_in "$from" inner nc -w 1 "$manager" 2377
    expect status 1
  done
}

# fragments N SERVICE: how many packets its container has put together from pieces.
fragments() { exec_in "$1" "$2" awk '/^Ip: [0-9]/ { print $16 }' /proc/net/snmp; }

@test "big packets: devices have the tunnel's MTU, which passes in one piece; more comes in pieces; megabytes are whole" {
  mtu=$(inside 2 ip -o link show moss-swarm0 | sed -nE 's/.* mtu ([0-9]+) .*/\1/p')
  for from in 1 2 3; do expect equal "$(exec_in "$from" web cat /sys/class/net/eth0/mtu)" "$mtu"; done
  to=$(address_in 3 web one)
  before=$(fragments 3 web)
  exec_in 2 web ping -c 1 -W 30 -s $((mtu - 28)) "$to"
  expect equal "$(fragments 3 web)" "$before"
  exec_in 2 web ping -c 1 -W 30 -s 4000 "$to"
  expect equal "$(fragments 3 web)" $((before + 1))
  for n in 1 2 3; do exec_in "$n" web sh -c 'dd if=/dev/urandom of=/w/big bs=1k count=1024 2>/dev/null'; done
  for from in 1 2 3; do
    to=$((from % 3 + 1))
    expect equal "$(exec_in "$from" web sh -c "wget -qO- http://$(address_in "$to" web one)/big | sha256sum")" \
      "$(exec_in "$to" web sh -c 'sha256sum </w/big')"
  done
}

# echoes N SERVICE: how many echo requests its container has got.
echoes() { exec_in "$1" "$2" awk '/^Icmp: [0-9]/ { print $10 }' /proc/net/snmp; }

@test "a packet with another sender's address does not reach another node" {
  name=$(unique other)
  serve "$name" --network one --mode global
  pid=$(docker_on 2 inspect --format '{{.State.Pid}}' "$(container_of 2 web)")
  as_owner() { node 2 nsenter --preserve-credentials --user --net --target "$pid" "$@"; } # who may change the devices
  to=$(address_in 3 web one)
  subnet=${to%.*}
  for false in "$subnet.250" "$(address_in 1 web one)" "$(address_in 3 "$name" one)"; do
    as_owner ip address add "$false/32" dev eth0
    before=$(echoes 3 web)
    run exec_in 2 web ping -c 1 -W 1 -I "$false" "$to"
    expect status 1
    # What follows on the same way has come, so the one before it would have.
    exec_in 2 web ping -c 1 -W 30 -I "$(address_in 2 web one)" "$to"
    expect equal "$(echoes 3 web)" $((before + 1))
    as_owner ip address del "$false/32" dev eth0
  done
}

@test "a container of a client's own gets into no network of the swarm" {
  for n in 1 2 3; do
    run docker_on "$n" run --rm --network one busybox true
    expect status 125
    expect contains 'network one not manually attachable'
    box=$(docker_on "$n" run -d busybox sleep 1000)
    run docker_on "$n" network connect one "$box"
    expect status 1
    expect contains 'network one not manually attachable'
    docker_on "$n" rm -f "$box"
  done
  expect equal "$(curl -s --unix-socket "$NODES/2/s" -o /dev/null -w '%{http_code}' -H 'Content-Type: application/json' -d \
    '{"Image":"busybox","Cmd":["true"],"HostConfig":{"NetworkMode":"one"}}' http://moss/v1.24/containers/create)" 403
}

@test "what is in use stays, names and addresses are given once, and a refusal names the holder" {
  run docker_on 1 network rm one
  expect status 1
  expect contains 'network one ' 'in use by the services web'
  run docker_on 1 network rm ingress <<<y
  expect status 1
  expect contains 'cannot be removed'
  run docker_on 1 network create --driver overlay one
  expect status 1
  expect contains 'network with name one already exists'
  subnet=$(docker_on 1 network inspect --format '{{(index .IPAM.Config 0).Subnet}}' one)
  for each in "$subnet of network one" '10.0.2.0/24 of the uplink' '10.77.0.0/24 of node "node'; do
    run docker_on 1 network create --driver overlay --subnet "${each%% *}" t-overlap
    expect status 1
    expect contains "Pool overlaps" "with $each"
  done
  for n in 2 3; do
    for each in 'create --driver overlay t-worker' 'rm one'; do
      # shellcheck disable=SC2086 # Words are meant.
      run docker_on "$n" network $each
      expect status 1
      expect contains 'This node is not a swarm manager'
    done
  done
  expect equal "$(docker_on 1 network ls -q --filter name=^t-)" ''
}

@test "lists: a manager shows all networks, a worker those of its tasks; inspect shows subnet, labels and containers; prune" {
  net=t-$(unique net) name=$(unique away)
  id=$(docker_on 1 network create --driver overlay --subnet 10.99.0.0/24 --label a=b "$net")
  listed() { docker_on "$1" network ls --filter driver=overlay --format '{{.Name}} {{.Scope}}' | sort | xargs; }
  fixed='ingress swarm one swarm'
  expect equal "$(listed 1)" "$fixed $net swarm two swarm within swarm"
  for n in 2 3; do expect equal "$(listed "$n")" "$fixed two swarm within swarm"; done
  expect equal "$(docker_on 1 network inspect --format '{{.Id}} {{.Scope}} {{.Driver}} {{(index .IPAM.Config 0).Subnet}} {{.Labels.a}} {{.Internal}} {{len .Containers}}' "$net")" \
    "$id swarm overlay 10.99.0.0/24 b false 0"
  serve "$name" --network "$net" --constraint node.hostname==node2
  expect equal "$(listed 2)" "$fixed $net swarm two swarm within swarm"
  expect equal "$(listed 3)" "$fixed two swarm within swarm"
  for n in 1 2 3; do
    shown=$(docker_on "$n" network inspect one)
    expect equal "$(jq -r '.[0] | "\(.Scope) \(.Driver) \(.Labels.stage) \(.IPAM.Config[0].Subnet | length > 0)"' <<<"$shown")" 'swarm overlay test true'
    expect equal "$(jq -r '.[0].Containers | to_entries[] | "\(.key) \(.value.Name) \(.value.IPv4Address)"' <<<"$shown")" \
      "$(container_of "$n" web) $(containers_of "$n" web) $(address_in "$n" web one)/24"
  done
  docker_on 1 service rm "$name"
  for n in 1 2 3; do eventually 20 has_containers "$n" "$name" 0; done
  gone() { [ "$(listed 2)" = "$fixed two swarm within swarm" ]; }
  eventually 20 gone
  expect equal "$(on 2 network prune --force)" ''
  pruned() { [[ $(on 1 network prune --force) == *"$net"* ]]; }
  eventually 20 pruned # it is in use until the service's tasks are forgotten
  for n in 1 2 3; do expect equal "$(listed "$n")" "$fixed two swarm within swarm"; done
}

@test "an open connection between two nodes outlives engines and moss-swarm, and goes on within seconds" {
  from=$(unique from) to=$(unique to)
  # shellcheck disable=SC2016 # for the shells in the containers
  on 1 service create --quiet --name "$from" --network one --constraint node.hostname==node3 --restart-condition none busybox \
    nc -l -p 7000 -e sh -c 'i=0; while echo $i; do i=$((i + 1)); usleep 100000; done'
  # shellcheck disable=SC2016
  on 1 service create --quiet --name "$to" --network one --constraint node.hostname==node2 --restart-condition none busybox \
    sh -c 'until nslookup "$0"; do usleep 100000; done; nc "$0" 7000 | while read -r i; do read -r now _ </proc/uptime; echo "$i $now"; done >/ticks' "$from"
  ticks() { exec_in 2 "$to" cat /ticks; }
  ticks_after() { [ "$(ticks | wc -l)" -gt "$1" ]; }
  goes_on() { eventually 20 ticks_after "$(($(ticks | wc -l) + 10))"; }
  box=$(container_of 2 "$to")
  goes_on
  for n in 2 3; do
    for what in crash_engine crash_swarm 'crash_engine crash_swarm'; do
      for each in $what; do "$each" "$n"; done
      goes_on
    done
  done
  expect equal "$(container_of 2 "$to")" "$box"
  expect equal "$(ticks | awk '$1 != NR - 1 { bad++ } END { print bad + 0 }')" 0
  gap=$(ticks | awk 'NR > 1 && $2 - last > most { most = $2 - last } { last = $2 } END { print most }')
  echo "# the longest gap: $gap s" >&3
}

@test "a link that loses packets and is slow, and is cut for a moment: a download ends, whole" {
  exec_in 3 web sh -c 'dd if=/dev/urandom of=/w/long bs=1k count=4096 2>/dev/null'
  from=$(address_in 3 web one)
  worsen 3
  exec_in 2 web timeout 120 wget -qO /w/got "http://$from/long" 3>&- &
  begun() { exec_in 2 web test -s /w/got; }
  eventually 20 begun
  unplug 3
  run exec_in 2 web ping -c 1 -W 1 "$from"
  [ "$status" -ne 0 ]
  ip -n "$(switch_name)" link set port3 up
  wait $!
  expect equal "$(exec_in 2 web sh -c 'sha256sum </w/got')" "$(exec_in 3 web sh -c 'sha256sum </w/long')"
}

@test "a node that dies has its networks again when it is back" {
  kill_node 3
  revive_node 3
  eventually 60 ready_nodes 3
  eventually 60 has_containers 3 web 1
  eventually 60 runs web 3
  for from in 1 2 3; do
    mapfile -t all < <(addresses web one | tr ' ' '\n')
    reached() { [ "$(visits "$from" web 1 "${all[@]}")" = "$(all_from "$(address_in "$from" web one)")" ]; }
    eventually 30 reached
    expect equal "$(visits "$from" web 50 web)" "$(all_from "$(address_in "$from" web one)")"
  done
}

@test "without a manager the workers' tasks go on reaching each other, by address and by the service" {
  name=$(unique left)
  serve "$name" --network one --mode global --constraint node.role==worker
  address=$(address_in 3 "$name" one) own=$(address_in 2 "$name" one)
  # Changes are written every few seconds: who dies before has an older view.
  id=$(docker_on 1 service inspect --format '{{.ID}}' "$name")
  on_disk() {
    [ "$(jq --arg id "$id" '[.Table.tasks[] | select(.service == $id and .ready)] | length' "$NODES/2/root/swarm/networks.json")" = 2 ]
  }
  eventually 10 on_disk
  kill_node 1
  expect equal "$(visits 2 "$name" 5 "$address")" "node3 $own"
  expect equal "$(visits 2 "$name" 40 "$name")" "$(printf 'node%s '"$own"'\n' 2 3)"
  expect equal "$(resolve 3 "$name" "tasks.$name")" "tasks.$name $(printf '%s\n' "$own" "$address" | sort -V | xargs)"
  # Also those that are started anew: they have all of it from the disk. Nothing goes between the nodes until they have read it.
  crash_swarm 2
  crash_engine 2
  reached() { [ "$(visits 2 "$name" 1 "$address")" = "node3 $own" ]; }
  eventually 10 reached
  expect equal "$(visits 2 "$name" 40 "$name")" "$(printf 'node%s '"$own"'\n' 2 3)"
  revive_node 1
  eventually 60 ready_nodes 3
  eventually 60 runs web 3
}

@test "a node that leaves has nothing of the swarm's networks left" {
  inside 3 ip -o link show moss-swarm0
  docker_on 3 swarm leave
  ended() { [ -z "$(swarm_of 3)" ]; }
  eventually 20 ended
  expect equal "$(docker_on 3 network ls --filter driver=overlay -q)" ''
  run inside 3 ip -o link
  expect status 0
  expect contains ' lo:'
  expect lacks moss-swarm0 br-
  expect equal "$(ip netns exec "$(namespace_of 3)" ss -Hlun sport = :4789)" ''
  expect equal "$(ip netns exec "$(namespace_of 2)" ss -Hlun4 sport = :4789 | wc -l)" 1
  join_swarm 3
  eventually 60 runs web 3
}
