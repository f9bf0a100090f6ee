#!/usr/bin/env bats
# A swarm on a machine whose clock is wrong: certificates have times. tests/guest.sh lets tests move the clock.

load ../lib/moss

export CLIENT_SECONDS=300 # the machine is emulated

setup_file() {
  start_engine
  import_busybox
  # A node's tasks move after three lost beats. Of 5 seconds each, a machine that waits for processors would lose them.
  moss swarm init --advertise-addr 127.0.0.1 --listen-addr 127.0.0.1 --dispatcher-heartbeat 1m >/dev/null
  moss service create --quiet --name web --stop-grace-period 1s busybox sleep 100000 >/dev/null
}
teardown_file() {
  moss swarm leave --force
  stop_engine
}
setup() {
  moved=0
  begin
}
teardown() {
  [ $moved = 0 ] || clock $((-moved))
  finish
}

# clock HOURS: moves the clock by so many. What eventually goes by moves with it.
clock() {
  local was
  was=$(date +%s)
  echo "$1 hours" >/run/clock
  until [ $((($(date +%s) - was - $1 * 3600) / 600)) = 0 ]; do sleep 0.1; done
  moved=$((moved + $1))
}

info() { api GET /v1.24/info | sed '$d' | jq -r ".Swarm$1"; }
node_says() { [ "$(info '|"\(.LocalNodeState) \(.Error)"')" = "$1" ]; }
containers() { moss ps --filter label=com.docker.swarm.service.name=web --format '{{.ID}}'; }
# runs COUNT: does the manager say that so many tasks run, and are there so many containers?
runs() { [ "$(moss service ps --filter desired-state=running web | grep -c ' Running ')" = "$1" ] && [ "$(containers | wc -l)" = "$1" ]; }

# node_id: $id is that of this node. known: it still is.
node_id() { id=$(info .NodeID) && [ -n "$id" ]; }
known() { [ "$(info .NodeID)" = "$id" ]; }

@test "a clock that goes two hours ahead changes nothing: tasks, services and the next engine go on" {
  eventually 30 runs 1
  first=$(containers)
  clock 2
  moss service scale --quiet web=2 >/dev/null
  eventually 30 runs 2
  expect --in "$(containers)" contains "$first"
  eventually 20 node_id
  crash
  eventually 60 node_says 'active '
  eventually 20 known
  eventually 30 runs 2
  expect --in "$(containers)" contains "$first"
}

@test "a clock that is two hours behind: the node says so, and is back in its swarm when the clock is right" {
  eventually 20 node_id
  halt_engine
  clock -2
  spawn_engine
  eventually 60 node_says 'error the clock of this machine is behind: the certificate of this node in its swarm is not valid yet'
  run moss service ls
  expect status 1
  expect contains 'clock of this machine is behind'
  clock 2
  eventually 60 node_says 'active '
  eventually 20 known
  eventually 60 runs 2
}
