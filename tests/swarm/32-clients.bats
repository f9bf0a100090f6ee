#!/usr/bin/env bats
# Clients, unmodified, on a swarm of three nodes from init to leave: docker's command line, moss and docker-py, each with numbered
# steps. Docker's own at API 1.24 has no logs of services and does not wait for them.

load ../lib/moss
load ../lib/nodes
load ../lib/services
load ../lib/clients

setup_file() { make_nodes 3; }
teardown_file() { remove_nodes; }
teardown() {
  local n
  if [ -z "${BATS_TEST_COMPLETED:-}" ]; then # the next test makes its own
    for n in 3 2 1; do on "$n" swarm leave --force >/dev/null 2>&1 || true; done
  fi
  show_nodes
}

# replicas SERVICE N/M: does the list say so?
replicas() { [ "$(docker_on 1 service ls --filter "name=$1" --format '{{.Name}} {{.Replicas}}' | awk -v name="$1" '$1 == name { print $2 }')" = "$2" ]; }
# placed SERVICE NODE...: do its tasks run on these nodes, one on each?
placed() {
  [ "$(docker_on 1 service ps --filter desired-state=running --format '{{.CurrentState}} {{.Node}}' "$1" | awk '$1 == "Running" { print $NF }' | sort | xargs)" = "${*:2}" ]
}
# curl_all PORT WANT: do all nodes' addresses give that page?
curl_all() {
  local n
  for n in 1 2 3; do [ "$(node 1 curl -s --max-time 10 "http://$(address_of "$n"):$1/page")" = "$2" ] || return; done
}
shut() { ! node 1 curl -s --max-time 5 "http://$(address_of 2):$1/page"; }
is_worker() { [ "$(docker_on "$1" info --format '{{.Swarm.ControlAvailable}}')" = false ]; }
without_swarm() { [ "$(docker_on "$1" info --format '{{.Swarm.LocalNodeState}}')" = inactive ] && [ -z "$(swarm_of "$1")" ]; }

# course CLIENT: a scenario that docker and moss go through with the same words. CLIENT is docker_on or on.
course() {
  local c=$1 net name own=(--detach) token id n old
  net=$(unique net) name=$(unique web)
  step "init makes node 1 a manager"
  run "$c" 1 swarm init --advertise-addr "$(address_of 1)"
  expect status 0
  expect contains "is now a manager" "SWMTKN-1-" "$(address_of 1):2377"
  step "the token of workers"
  token=$("$c" 1 swarm join-token -q worker)
  expect --in "$token" matches '^SWMTKN-1-'
  step "nodes 2 and 3 join"
  for n in 2 3; do
    run "$c" $n swarm join --token "$token" "$(address_of 1):2377"
    expect output "This node joined a swarm as a worker."
  done
  eventually 20 ready_nodes 3
  step "a node of a swarm cannot join again"
  run "$c" 2 swarm join --token "$token" "$(address_of 1):2377"
  expect status 1
  expect contains "already part of a swarm"
  step "node ls shows all three"
  run "$c" 1 node ls
  expect matches 'node1 +Ready +Active +Leader'
  for n in 2 3; do expect matches "node$n +Ready +Active"; done
  step "node ls on a worker is refused"
  run "$c" 2 node ls
  expect status 1
  expect contains "not a swarm manager"
  step "node inspect"
  expect equal "$("$c" 1 node inspect --format '{{.Spec.Role}} {{.Description.Hostname}} {{.Status.Addr}}' node3)" "worker node3 $(address_of 3)"
  step "node update sets labels"
  for n in 2 3; do "$c" 1 node update --label-add part=web node$n >/dev/null; done
  expect equal "$("$c" 1 node inspect --format '{{.Spec.Labels.part}}' node2)" web
  step "network create"
  id=$("$c" 1 network create --driver overlay --subnet 10.98.0.0/24 --label stage=test "$net")
  expect --in "$id" matches '^[a-z0-9]{25}$'
  step "network ls shows it on the manager"
  run "$c" 1 network ls --filter driver=overlay
  expect matches "^${id:0:12} +$net +overlay +swarm"
  expect matches ' ingress +overlay +swarm'
  step "network inspect"
  expect equal "$("$c" 1 network inspect --format '{{.Name}} {{.Scope}} {{(index .IPAM.Config 0).Subnet}} {{.Labels.stage}}' "$id")" "$net swarm 10.98.0.0/24 test"
  step "service create: network, port, mount, variable, constraint, limits"
  # shellcheck disable=SC2016 # for the shell in the container
  "$c" 1 service create "${own[@]}" --name "$name" --replicas 2 --network "$net" --publish 18090:80 --mount type=volume,src=data,dst=/data \
    --env WORD=hello --constraint node.labels.part==web --limit-memory 64m --label stage=test --restart-delay 100ms \
    --stop-grace-period 1s busybox sh -c 'mkdir -p /w; echo "$WORD" | tee /w/page; exec httpd -f -h /w' >/dev/null
  eventually 30 replicas "$name" 2/2
  step "the constraint and the spread: one task on node 2, one on node 3"
  eventually 10 placed "$name" node2 node3
  step "service ls and its filters"
  run "$c" 1 service ls
  expect matches " $name +replicated +2/2 +busybox"
  expect equal "$("$c" 1 service ls -q --filter label=stage=test | wc -l)" 1
  step "service ps names nodes and states"
  run "$c" 1 service ps "$name"
  for n in 2 3; do expect matches " $name\.[12] +busybox(:latest)? +node$n +Running +Running "; done
  step "node ps"
  run "$c" 1 node ps node3
  expect contains "$name."
  step "service inspect"
  expect equal "$("$c" 1 service inspect --format '{{.Spec.Name}} {{(index .Endpoint.Ports 0).PublishedPort}} {{len .Endpoint.VirtualIPs}}' "$name")" "$name 18090 2"
  step "its containers have what was asked for"
  for n in 2 3; do
    expect equal "$("$c" $n inspect --format '{{index .Config.Env 0}} {{.HostConfig.Memory}} {{(index .Mounts 0).Destination}} {{(index .Mounts 0).Name}}' "$(container_of $n "$name")")" \
      "WORD=hello 67108864 /data data"
  done
  step "every node's address leads to the published port"
  eventually 10 curl_all 18090 hello
  step "network ls of nodes: workers with tasks have it"
  for n in 2 3; do
    run "$c" $n network ls --filter driver=overlay
    expect contains " $net "
  done
  step "a second service reaches the first by its name"
  "$c" 1 service create "${own[@]}" --name "$name-ask" --network "$net" --constraint node.role==manager --stop-grace-period 1s busybox sleep 1000 >/dev/null
  eventually 30 replicas "$name-ask" 1/1
  asked() { [ "$("$c" 1 exec "$(container_of 1 "$name-ask")" wget -qO- "http://$name/page")" = hello ]; }
  eventually 10 asked
  step "logs"
  if [ "$c" = on ]; then
    expect equal "$(on 2 logs "$(container_of 2 "$name")")" hello
    run on 1 service logs "$name-ask"
    expect status 0
  else
    expect equal "$(docker_on 2 logs "$(container_of 2 "$name")")" hello
  fi
  step "scale up and down"
  "$c" 1 service scale "${own[@]}" "$name=4" >/dev/null
  eventually 30 placed "$name" node2 node2 node3 node3
  "$c" 1 service scale "${own[@]}" "$name=2" >/dev/null
  eventually 30 replicas "$name" 2/2
  step "update of a variable replaces the tasks"
  "$c" 1 service update "${own[@]}" --env-add WORD=again "$name" >/dev/null
  eventually 60 curl_all 18090 again
  eventually 30 replicas "$name" 2/2
  step "update moves the published port"
  "$c" 1 service update "${own[@]}" --publish-rm 80 --publish-add 18091:80 "$name" >/dev/null
  eventually 20 curl_all 18091 again
  eventually 20 shut 18090
  step "node update drains a node"
  "$c" 1 node update --availability drain node3 >/dev/null
  eventually 30 placed "$name" node2 node2
  step "an active one gets tasks again"
  "$c" 1 node update --availability active node3 >/dev/null
  "$c" 1 service create "${own[@]}" --name "$name-back" --constraint node.hostname==node3 --stop-grace-period 1s busybox sleep 1000 >/dev/null
  eventually 30 placed "$name-back" node3
  "$c" 1 service rm "$name-back" >/dev/null
  step "promote and demote"
  "$c" 1 node promote node2 >/dev/null
  listed() { "$c" 2 node ls 2>/dev/null | grep -q 'node2.*Reachable'; }
  eventually 60 listed
  "$c" 1 node demote node2 >/dev/null
  eventually 60 is_worker 2
  step "a network in use is not removed"
  run "$c" 1 network rm "$net"
  expect status 1
  expect contains "in use by the services" "$name"
  step "service rm"
  run "$c" 1 service rm "$name" "$name-ask"
  expect output "$name"$'\n'"$name-ask"
  for n in 1 2 3; do eventually 30 has_containers $n "$name" 0; done
  step "network rm"
  removed() { "$c" 1 network rm "$net" >/dev/null 2>&1; }
  eventually 20 removed
  expect equal "$("$c" 1 network ls -q --filter "name=$net")" ''
  step "workers leave"
  for n in 2 3; do
    run "$c" $n swarm leave
    expect output "Node left the swarm."
  done
  step "node rm takes one that is down out of the list"
  down() { [ "$("$c" 1 node ls --filter name=node3 --format '{{.Status}}')" = Down ]; }
  eventually 60 down
  "$c" 1 node rm node3 >/dev/null
  run "$c" 1 node ls
  expect lacks node3
  step "the last manager leaves by force only"
  run "$c" 1 swarm leave
  expect status 1
  run "$c" 1 swarm leave --force
  expect output "Node left the swarm."
  for n in 1 2 3; do eventually 20 without_swarm $n; done
  for n in 2 3; do docker_on $n volume rm data >/dev/null; done
  enough_steps "$2"
}

@test "docker's command line: three nodes from init to leave" { course docker_on docker; }
@test "moss: three nodes from init to leave" { course on moss; }
@test "docker-py: three nodes from init to leave" {
  python() { timeout --foreground 280 /usr/bin/python3 "$BATS_TEST_DIRNAME/../clients/scenarios/swarm.py" 2>&1; }
  scenario docker-py python
}
