#!/usr/bin/env bats
# Three managers: one of them dies, then two.

load ../lib/moss
load ../lib/nodes

setup_file() {
  local n
  make_nodes 3
  on 1 swarm init >/dev/null
  for n in 2 3; do on "$n" swarm join --token "$(on 1 swarm join-token -q manager)" "$(address_of 1):2377" >/dev/null; done
}
teardown_file() { remove_nodes; }
teardown() { show_nodes; }

# leader: the number of the node that leads, as node N sees it.
leader() { on "$1" node ls --format '{{.Hostname}} {{.ManagerStatus}}' | awk '$2 == "Leader" { print substr($1, 5) }'; }
has_leader() { [ -n "$(leader "$1" 2>/dev/null)" ]; }
runs() { [ "$(on "$1" service ps --filter desired-state=running --format '{{.CurrentState}}' "$2" | grep -c '^Running')" = "$3" ]; }
reachable() { [ "$(on "$1" node ls --format '{{.ManagerStatus}}' | grep -cE 'Leader|Reachable')" = "$2" ]; }

@test "the leader dies: another manager answers, the tasks run elsewhere; the old one comes back as a manager" {
  eventually 30 reachable 1 3
  on 1 service create --detach --name moved --replicas 3 busybox sleep 1000
  eventually 30 runs 1 moved 3
  old=$(leader 1)
  kill_node "$old"
  other=$((old % 3 + 1))
  eventually 20 has_leader "$other"
  eventually 90 runs "$other" moved 3
  revive_node "$old"
  eventually 60 reachable "$old" 3
}

@test "without a quorum: a clear error in time, and tasks go on; with one again the swarm answers" {
  eventually 30 reachable 1 3
  on 1 service create --detach --name stays --mode global busybox sleep 1000
  eventually 30 runs 1 stays 3
  kill_node 2
  kill_node 3
  lost() { CLIENT_SECONDS=60 on 1 service ls 2>&1 | grep -q 'does not have a leader'; }
  eventually 60 lost
  expect equal "$(on 1 ps --filter label=com.docker.swarm.service.name=stays -q | wc -l)" 1
  revive_node 2
  revive_node 3
  eventually 60 reachable 1 3
  eventually 60 runs 1 stays 3
}

@test "autolock: a manager that starts again is locked until it gets the key" {
  eventually 30 reachable 1 3
  on 1 swarm update --autolock=true
  key=$(on 1 swarm unlock-key -q)
  kill_node 3
  revive_node 3
  locked() { [ "$(docker_on 3 info --format '{{.Swarm.LocalNodeState}}')" = locked ]; }
  eventually 60 locked
  run on 3 node ls
  [ "$status" -ne 0 ]
  expect contains 'needs to be unlocked'
  run on 3 swarm unlock <<<"SWMKEY-1-wrong"
  [ "$status" -ne 0 ]
  on 3 swarm unlock <<<"$key"
  eventually 60 reachable 3 3
  on 1 swarm update --autolock=false
}

@test "the last manager leaves only by force; then nothing of the swarm is left on the node" {
  eventually 30 reachable 1 3
  for n in 2 3; do
    on 1 node demote "node$n"
    worker() { [ "$(docker_on "$n" info --format '{{.Swarm.ControlAvailable}}')" = false ]; }
    eventually 60 worker
    on "$n" swarm leave
  done
  run on 1 swarm leave
  [ "$status" -ne 0 ]
  expect contains force
  on 1 swarm leave --force
  for n in 1 2 3; do
    gone() { [ -z "$(swarm_of "$n")" ]; }
    eventually 20 gone
    expect equal "$(docker_on "$n" info --format '{{.Swarm.LocalNodeState}}')" inactive
    expect equal "$(ls "$NODES/$n/root/swarm" 2>/dev/null)" ''
    expect equal "$(on "$n" ps -aq --filter label=com.docker.swarm.task.id | wc -l)" 0
  done
}
