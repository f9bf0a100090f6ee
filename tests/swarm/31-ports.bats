#!/usr/bin/env bats
# Published ports of a swarm's services, over three nodes: every node's address leads to the tasks that are ready, by TCP and UDP,
# and no connection is lost while tasks come and go.
#
# One service is there for all tests: peer, with a task on node 2, tells at port 18080 the client's address as it sees it.

load ../lib/moss
load ../lib/nodes
load ../lib/services

setup_file() {
  local n proto
  make_swarm 3
  cp "${MOSS_PEERD:-$moss_top/.cache/bin/peerd}" "$NODES/peerd"
  chmod 0755 "$NODES/peerd"
  tar --append --directory "$NODES" --owner=0 --group=0 -f "$NODES/busybox.tar" ./peerd
  for n in 1 2 3; do on "$n" import "$NODES/busybox.tar" peers >/dev/null; done
  on 1 service create --quiet --name peer --constraint node.hostname==node2 --stop-grace-period 1s --publish 18080:80 \
    --publish 18080:80/udp peers /peerd serve 80 >/dev/null
  for n in 1 2 3; do
    for proto in tcp udp; do eventually 20 leads "$n" $proto; done
  done
}
# leads N tcp|udp [PORT]: does that node lead to a task by now? Nodes learn of it after the service has come to run.
leads() { [ -n "$(ask 1 "$2" "$1" "${3:-}" 2>/dev/null)" ]; }
teardown_file() { remove_nodes; }
teardown() {
  local service
  for service in $(docker_on 1 service ls --format '{{.Name}}' | grep -vx peer); do docker_on 1 service rm "$service" >/dev/null; done
  [ -z "${helper:-}" ] || kill "$helper" 2>/dev/null || true
  show_nodes
}

# ask N tcp|udp M [PORT]: what peer tells a client on node N that calls the address of node M.
ask() { echo hello | node "$1" timeout 90 "$NODES/peerd" ask "$2" - "$(address_of "$3"):${4:-18080}" | sed -n '1{s/ hello$//;p}'; }

# own_address N: that of a node in the ingress network.
own_address() {
  inside "$1" ip -o -4 address show to "$(docker_on 1 network inspect --format '{{(index .IPAM.Config 0).Subnet}}' ingress)" |
    sed -nE 's/.* inet ([0-9.]+)\/32 .*/\1/p'
}

# who N M PORT: what a task tells a client on node N that calls node M. names_of N M PORT COUNT: the nodes that so many requests
# come to, each once.
who() { node "$1" curl -sS --max-time 20 "http://$(address_of "$2"):$3/cgi-bin/who"; }
names_of() {
  local answers
  answers=$(node "$1" curl -s --max-time 20 "http://$(address_of "$2"):$3/cgi-bin/who?[1-$4]" || true)
  [ "$(grep -c . <<<"$answers")" = "$4" ] || answers+=$'\nfailed'
  awk 'NF { print $1 }' <<<"$answers" | sort -u | xargs
}
named() { [ "$(names_of "$1" "$2" "$3" "$4" 2>/dev/null)" = "$5" ]; }

# open_at M PORT and shut_at M PORT: does anything listen at the port of a node?
open_at() { node 1 socat -u OPEN:/dev/null "TCP:$(address_of "$1"):$2,connect-timeout=5"; }
shut_at() { ! open_at "$@" 2>/dev/null; }

@test "every node's address leads to the task; it sees a client of its own node, and from elsewhere the node that was called" {
  for proto in tcp udp; do
    for from in 1 2 3; do
      for to in 1 2 3; do
        if [ $to = 2 ]; then want=$(address_of $from); else want=$(own_address $to); fi
        expect equal "$proto from $from by $to: $(ask $from $proto $to)" "$proto from $from by $to: $want"
      done
    done
  done
}

@test "a port that nobody names is chosen from 30000 on, shown, and open" {
  name=$(unique chosen)
  on 1 service create --quiet --name "$name" --stop-grace-period 1s --publish 80 --publish 80/udp peers /peerd serve 80
  shown=$(docker_on 1 service inspect "$name" | jq -r '.[0].Endpoint.Ports[] | "\(.Protocol) \(.TargetPort) \(.PublishedPort)"')
  expect equal "$(on 1 service inspect "$name" | jq -r '.[0].Endpoint.Ports[] | "\(.Protocol) \(.TargetPort) \(.PublishedPort)"')" "$shown"
  expect equal "$(wc -l <<<"$shown")" 2
  while read -r proto target port; do
    expect equal "$target" 80
    [ "$port" -ge 30000 ] && [ "$port" -le 32767 ] || fail "the port $port is not between 30000 and 32767"
    for to in 1 2 3; do
      eventually 20 leads "$to" "$proto" "$port"
      expect --in "$(ask 1 "$proto" $to "$port")" matches '^[0-9.]+$'
    done
  done <<<"$shown"
}

@test "a port that a program has on one node is published on the others, and there once it is free" {
  name=$(unique taken)
  exec_node 3 socat TCP-LISTEN:18081,fork,reuseaddr SYSTEM:'read -r _; echo mine' 3>&- 4>&- 8>&- </dev/null &
  helper=$!
  listens() { [ "$(node 3 curl -s --http0.9 --max-time 5 "http://127.0.0.1:18081")" = mine ]; }
  eventually 10 listens
  serve "$name" --constraint node.hostname==node3 --publish 18081:80
  for to in 1 2; do eventually 10 named 1 $to 18081 1 node3; done
  eventually 10 listens
  warned() { grep -q "port 18081/tcp of service $name is not published on this node" "$NODES/log-3"; }
  eventually 10 warned
  kill "$helper"
  eventually 30 named 1 3 18081 1 node3
}

@test "a port is of one service: the second is refused, which names the first, until that is gone" {
  first=$(unique first) second=$(unique second)
  run docker_on 1 service create --detach --name "$second" --publish 18080:80 busybox httpd -f
  expect status 1
  expect contains "port '18080' is already in use by service 'peer'"
  serve "$first" --publish 18082:80
  run docker_on 1 service create --detach --name "$second" --publish 18082:80 busybox httpd -f
  expect status 1
  expect contains "port '18082' is already in use by service '$first'"
  run docker_on 1 service inspect "$second"
  expect status 1
  docker_on 1 service rm "$first"
  serve "$second" --constraint node.hostname==node1 --publish 18082:80
  for to in 1 2 3; do eventually 20 named 2 $to 18082 1 node1; done
}

@test "an update opens and closes ports on all nodes; the port ends with its service" {
  name=$(unique change)
  serve "$name" --constraint node.hostname==node1
  docker_on 1 service update --detach --publish-add 18083:80 "$name"
  for to in 1 2 3; do eventually 20 named 3 $to 18083 1 node1; done
  docker_on 1 service update --detach --publish-rm 80 --publish-add 18084:80 "$name"
  for to in 1 2 3; do eventually 20 named 3 $to 18084 1 node1; done
  for to in 1 2 3; do eventually 20 shut_at $to 18083; done
  docker_on 1 service rm "$name"
  for to in 1 2 3; do eventually 20 shut_at $to 18084; done
  for to in 1 2 3; do open_at $to 18080; done
}

@test "no connection comes to a task that is not healthy yet" {
  name=$(unique health)
  serve "$name" --detach --mode global --publish 18085:80 --health-cmd 'test -e /ready' --health-interval 300ms --health-retries 10000
  for n in 1 2 3; do eventually 30 has_containers $n "$name" 1; done
  for to in 1 2 3; do
    eventually 20 open_at $to 18085
    expect equal "$(names_of 1 $to 18085 1)" failed
  done
  exec_in 2 "$name" touch /ready
  # A random draw among three or two: one of them is missed by 40 requests once in 10 million times.
  for to in 1 2 3; do
    eventually 20 named 1 $to 18085 1 node2
    expect equal "$(names_of 1 $to 18085 40)" node2
  done
  exec_in 3 "$name" touch /ready
  for to in 1 2 3; do eventually 20 named 1 $to 18085 40 'node2 node3'; done
}

@test "no request is lost while a service is updated task by task, and scaled down and up" {
  name=$(unique roll)
  serve "$name" --replicas 3 --update-parallelism 1 --publish 18086:80 --health-cmd 'wget -qO- http://127.0.0.1/page' --health-interval 100ms
  for to in 1 2 3; do eventually 20 named 1 $to 18086 1 "$(names_of 1 $to 18086 1)"; done
  exec_node 1 /usr/bin/python3 "$BATS_TEST_DIRNAME/../lib/visitor.py" "http://$(address_of 2):18086/page" 200 >"$NODES/visits" 2>&1 3>&- 4>&- 8>&- </dev/null &
  helper=$!
  eventually 20 file_has "$NODES/visits" visiting
  before=$(docker_on 1 service ps -q --filter desired-state=running "$name" | sort)
  on 1 service update --quiet --env-add NEW=1 "$name"
  after=$(docker_on 1 service ps -q --filter desired-state=running "$name" | sort)
  expect equal "$(comm -12 <(echo "$before") <(echo "$after"))" ''
  on 1 service scale --quiet "$name=1"
  for n in 1 2 3; do echo "$n: $(containers_of $n "$name" | xargs)"; done
  one_left() { [ "$(for n in 1 2 3; do containers_of $n "$name"; done | wc -l)" = 1 ]; }
  eventually 20 one_left
  on 1 service scale --quiet "$name=3"
  kill -TERM "$helper"
  wait "$helper" || true
  echo "# $(grep ^requests "$NODES/visits")" >&3
  run cat "$NODES/visits"
  expect matches '^requests [0-9]{3,} lost 0$'
}

@test "ports survive the end of the engine and of moss-swarm, on the node that is called and on that of the task" {
  for n in 1 2; do
    engine=$(engine_of $n)
    kill -KILL "$engine"
    for proto in tcp udp; do expect --in "$(ask 3 $proto 1)" matches '^[0-9.]+$'; done
    eventually 30 another_engine_on $n "$engine"
    for proto in tcp udp; do expect --in "$(ask 3 $proto 1)" matches '^[0-9.]+$'; done
    relay=$(swarm_of $n)
    kill -KILL "$relay"
    expect --in "$(ask 3 tcp 1)" matches '^[0-9.]+$'
    eventually 30 another_swarm_on $n "$relay"
    expect equal "$(ask 3 tcp 1)" "$(own_address 1)"
  done
  for to in 1 2 3; do open_at $to 18080; done
}
