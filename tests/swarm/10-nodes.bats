#!/usr/bin/env bats
# Three engines become a swarm, and services run on them, by docker's command line.

load ../lib/moss
load ../lib/nodes
load ../lib/services

setup_file() { make_swarm 3; }
teardown_file() { remove_nodes; }
teardown() {
  local service
  for service in $(docker_on 1 service ls -q); do docker_on 1 service rm "$service" >/dev/null; done
  show_nodes
}

# places SERVICE: the nodes of its running tasks, each with a number.
places() {
  docker_on "${MANAGER:-1}" service ps --filter desired-state=running --format '{{.Node}} {{.CurrentState}}' "$1" |
    awk '$2 == "Running" { print $1 }' | sort | uniq -c | awk '{ print $2 "=" $1 }' | xargs
}

@test "nodes know each other: names, roles, addresses; a worker shows no list" {
  run docker_on 1 node ls --format '{{.Hostname}} {{.Status}} {{.Availability}} {{.ManagerStatus}}'
  expect contains 'node1 Ready Active Leader' 'node2 Ready Active' 'node3 Ready Active'
  run docker_on 2 node ls
  [ "$status" -ne 0 ]
  expect contains 'This node is not a swarm manager'
  run docker_on 2 info --format '{{.Swarm.LocalNodeState}} {{.Swarm.ControlAvailable}} {{.Swarm.NodeAddr}} {{(index .Swarm.RemoteManagers 0).Addr}}'
  expect output "active false $(address_of 2) $(address_of 1):2377"
  expect equal "$(docker_on 1 node inspect --format '{{.Status.Addr}} {{.Description.Engine.EngineVersion}}' node3)" \
    "$(address_of 3) $(docker_on 3 version --format '{{.Server.Version}}')"
}

@test "a service spreads over the nodes; scaled up and down; removed, its containers are gone" {
  name=$(unique spread)
  docker_on 1 service create --detach --name "$name" --replicas 6 --env GIVEN=value busybox sh -c 'echo "$GIVEN"; exec sleep 1000'
  eventually 30 runs "$name" 6
  expect equal "$(places "$name")" 'node1=2 node2=2 node3=2'
  expect --in "$(containers_of 2 "$name")" matches "^$name\\.[1-6]\\.[a-z0-9]{25}\$"
  docker_on 1 service scale --detach "$name=9"
  eventually 30 runs "$name" 9
  docker_on 1 service scale --detach "$name=1"
  eventually 30 runs "$name" 1
  docker_on 1 service rm "$name"
  for n in 1 2 3; do eventually 30 has_containers "$n" "$name" 0; done
}

@test "an update replaces the tasks one after the other; a global service has one task on each node" {
  name=$(unique roll)
  docker_on 1 service create --detach --name "$name" --mode global busybox sleep 1000
  eventually 30 runs "$name" 3
  expect equal "$(places "$name")" 'node1=1 node2=1 node3=1'
  docker_on 1 service update --detach --stop-grace-period 1s --env-add NEW=1 "$name"
  replaced() {
    local n container
    for n in 1 2 3; do
      container=$(containers_of "$n" "$name") && [ -n "$container" ] || return
      docker_on "$n" inspect --format '{{.Config.Env}}' "$container" | grep -q NEW=1 || return
    done
  }
  eventually 60 replaced
  eventually 30 runs "$name" 3
}

@test "a node that is drained gives its tasks away, and takes them again when it is active" {
  name=$(unique drain)
  docker_on 1 service create --detach --name "$name" --replicas 3 --stop-grace-period 1s busybox sleep 1000
  eventually 30 runs "$name" 3
  docker_on 1 node update --availability drain node2
  eventually 30 has_containers 2 "$name" 0
  eventually 30 runs "$name" 3
  docker_on 1 node update --availability active node2
  docker_on 1 service scale --detach "$name=6"
  eventually 30 runs "$name" 6
  eventually 30 has_containers 2 "$name" 2
}

@test "constraints choose nodes by label, role and name; one that nothing fulfils leaves the task pending" {
  name=$(unique place)
  docker_on 1 node update --label-add zone=west node3
  docker_on 1 service create --detach --name "$name" --replicas 2 --constraint node.labels.zone==west busybox sleep 1000
  eventually 30 runs "$name" 2
  expect equal "$(places "$name")" 'node3=2'
  docker_on 1 service create --detach --name "$name-none" --constraint node.role==nobody busybox sleep 1000
  pending() { docker_on 1 service ps --format '{{.CurrentState}} {{.Error}}' "$name-none" | grep -q '^Pending.*no suitable node'; }
  eventually 30 pending
}

@test "a container that ends, or that somebody removes, is replaced" {
  name=$(unique again)
  docker_on 1 service create --detach --name "$name" --restart-delay 100ms --constraint node.hostname==node2 busybox sleep 1000
  eventually 30 runs "$name" 1
  first=$(containers_of 2 "$name")
  docker_on 2 rm -f "$first"
  another() { [ "$(containers_of 2 "$name" | grep -cvx "$first")" = 1 ]; }
  eventually 30 another
}

@test "an engine that is replaced, and a moss-swarm that is killed: the containers go on, and the node is ready again" {
  name=$(unique stay)
  docker_on 1 service create --detach --name "$name" --constraint node.hostname==node2 busybox sleep 1000
  eventually 30 runs "$name" 1
  container=$(docker_on 2 inspect --format '{{.Id}} {{.State.Pid}}' "$(containers_of 2 "$name")")
  crash_engine 2
  crash_swarm 2
  eventually 60 ready_nodes 3
  docker_on 1 service scale --detach "$name=2"
  eventually 60 runs "$name" 2
  mapfile -t now < <(containers_of 2 "$name")
  expect --in "$(docker_on 2 inspect --format '{{.Id}} {{.State.Pid}}' "${now[@]}")" contains "$container"
}

@test "a node that dies: its tasks run elsewhere; it comes back into the swarm by itself, without their containers" {
  name=$(unique dead)
  docker_on 1 service create --detach --name "$name" --replicas 3 busybox sleep 1000
  eventually 30 runs "$name" 3
  kill_node 3
  moved() { [ "$(places "$name" | grep -c node3)" = 0 ] && runs "$name" 3; }
  eventually 90 moved
  revive_node 3
  eventually 60 ready_nodes 3
  eventually 30 has_containers 3 "$name" 0
}

@test "bad tokens and addresses are refused in words, and the node stays without a swarm" {
  docker_on 3 swarm leave
  run docker_on 3 swarm join --token SWMTKN-1-wrong "$(address_of 1):2377"
  [ "$status" -ne 0 ]
  expect contains 'join token'
  token=$(docker_on 1 swarm join-token -q worker)
  docker_on 1 swarm join-token --rotate -q worker >/dev/null
  run docker_on 3 swarm join --token "$token" "$(address_of 1):2377"
  [ "$status" -ne 0 ]
  run docker_on 3 swarm join --token "$(docker_on 1 swarm join-token -q worker)" "$(address_of 2):2377"
  [ "$status" -ne 0 ]
  expect equal "$(docker_on 3 info --format '{{.Swarm.LocalNodeState}}')" inactive
  gone() { [ -z "$(swarm_of 3)" ]; }
  eventually 20 gone
  docker_on 3 swarm join --token "$(docker_on 1 swarm join-token -q worker)" "$(address_of 1):2377"
  eventually 30 ready_nodes 3
}
