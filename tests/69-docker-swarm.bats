#!/usr/bin/env bats
# Docker's own command line, unmodified, and moss on a swarm of one node: the same steps by each.
#
# What docker refuses itself at API 1.24 is not tested here: --detach (it waits for no service at that version), --hostname,
# --force, --read-only, --host and --dns of services, service logs and rollback, secrets and configs.

# bats file_tags=subids

load lib/moss
load lib/ports
load lib/clients

setup_file() {
  start_engine
  import_busybox
  SWARM_ADDR=127.0.0.1:$(free_port 2)
  export SWARM_ADDR
}
teardown_file() {
  moss swarm leave --force >/dev/null 2>&1 || true
  stop_engine
}
setup() { begin; }
teardown() {
  [ "$BATS_TEST_COMPLETED" = 1 ] || moss swarm leave --force >/dev/null 2>&1 || true # the next test makes its own
  finish
}

# replicas CLIENT SERVICE N/M: does the list say so?
replicas() { [ "$("$1" service ls --filter "name=$2" --format '{{.Replicas}}')" = "$3" ]; }
# running CLIENT SERVICE FIELD VALUE: does every running container of the service have it?
running() {
  local ids
  ids=$(moss ps -q --filter "label=com.docker.swarm.service.name=$2")
  # shellcheck disable=SC2086 # Words are meant.
  [ -n "$ids" ] && [ "$(moss inspect -f "$3" $ids 2>/dev/null | sort -u)" = "$4" ]
}
idle() { [ -z "$(moss ps -q --filter "label=com.docker.swarm.service.name=$1")" ]; }
gone() { [ -z "$(moss ps -aq --filter "label=com.docker.swarm.service.name=$1")" ]; }

# course CLIENT: a scenario that docker and moss go through with the same words.
course() {
  local c=$1 name=$2 id node own=(--detach)
  step "a node in no swarm has no services"
  run "$c" service ls
  expect contains "This node is not part of a swarm"
  step "init makes a manager and shows how others join"
  run "$c" swarm init --advertise-addr "$SWARM_ADDR" --listen-addr "$SWARM_ADDR"
  expect status 0
  expect contains "is now a manager" "swarm join --token SWMTKN-1-" "$SWARM_ADDR"
  step "a second init is refused"
  run "$c" swarm init --advertise-addr "$SWARM_ADDR" --listen-addr "$SWARM_ADDR"
  expect status 1
  expect contains "This node is already part of a swarm"
  step "the tokens of workers and managers"
  run "$c" swarm join-token -q worker
  expect matches '^SWMTKN-1-'
  token=$output
  [ "$("$c" swarm join-token -q manager)" != "$token" ] || fail "one token for both"
  step "a rotated token is another"
  run "$c" swarm join-token --rotate -q worker
  expect matches '^SWMTKN-1-'
  expect lacks "$token"
  step "node ls shows this node as the leader"
  run "$c" node ls
  expect matches "^[a-z0-9]{25} \* +$(uname -n) +Ready +Active +Leader"
  node=$("$c" node ls -q)
  step "node inspect, by its id and as self"
  expect equal "$("$c" node inspect --format '{{.ID}} {{.Spec.Role}}' self)" "$node manager"
  step "a label of the node"
  "$c" node update --label-add disk=ssd "$node" >/dev/null
  expect equal "$("$c" node inspect --format '{{.Spec.Labels.disk}}' "$node")" ssd
  step "service create"
  id=$("$c" service create "${own[@]}" --name "$name" --replicas 2 --env A=1 --label stage=test --container-label own=yes \
    --workdir /tmp --user 1:2 --stop-grace-period 1s --limit-memory 64m --restart-delay 100ms --mount "type=volume,src=$name,dst=/v" \
    --constraint node.labels.disk==ssd --log-driver json-file --log-opt max-size=1m --update-parallelism 0 busybox:latest sleep 1000)
  expect --in "$id" matches '^[a-z0-9]{25}$'
  step "its tasks run"
  eventually 30 replicas "$c" "$name" 2/2
  step "service ls shows it as docker's tables do"
  run "$c" service ls
  expect matches "^ID +NAME +MODE +REPLICAS +IMAGE"
  expect matches "^${id:0:12} +$name +replicated +2/2 +busybox:latest"
  step "its containers have what was asked for"
  eventually 10 running "$c" "$name" '{{.Config.WorkingDir}} {{.Config.User}} {{.Config.Labels.own}} {{index .Config.Env 0}} {{.HostConfig.Memory}}' "/tmp 1:2 yes A=1 67108864"
  step "a name is taken once"
  run "$c" service create "${own[@]}" --name "$name" busybox:latest sleep 1000
  expect status 1
  expect contains "name conflicts with an existing object"
  step "service inspect by name and id"
  expect equal "$("$c" service inspect --format '{{.ID}}' "$name")" "$id"
  expect equal "$("$c" service inspect --format '{{.Spec.TaskTemplate.ContainerSpec.Image}}' "$id")" busybox:latest
  step "service ps lists the tasks"
  run "$c" service ps "$name"
  expect matches "^[a-z0-9]{12} +$name.1 +busybox:latest +$(uname -n) +Running +Running "
  expect matches "^[a-z0-9]{12} +$name.2 "
  step "node ps lists them too"
  run "$c" node ps self
  expect contains "$name.1" "$name.2"
  step "lists are filtered"
  expect equal "$("$c" service ls -q --filter label=stage=test --filter "name=$name")" "${id:0:12}"
  expect equal "$("$c" service ls -q --filter name=none)" ""
  expect equal "$("$c" service ps -q --filter desired-state=shutdown "$name")" ""
  step "scale up"
  run "$c" service scale "$name=4"
  expect status 0
  eventually 30 replicas "$c" "$name" 4/4
  step "scale down"
  run "$c" service scale "$name=1"
  expect status 0
  eventually 30 replicas "$c" "$name" 1/1
  step "a container that is removed by hand is replaced"
  moss rm -f "$(moss ps -q --filter "label=com.docker.swarm.service.name=$name")" >/dev/null
  eventually 30 running "$c" "$name" '{{.State.Status}}' running
  step "update replaces the tasks"
  run "$c" service update "${own[@]}" --env-add A=2 --env-add B=3 --container-label-rm own --args "sleep 2000" "$name"
  expect status 0
  eventually 30 running "$c" "$name" '{{range .Config.Env}}{{if eq (len .) 3}}{{println .}}{{end}}{{end}}{{index .Config.Labels "own"}}' \
    $'<no value>\nA=2\nB=3' # docker adds variables in no order: they are sorted here
  step "inspect shows the update"
  expect equal "$("$c" service inspect --format '{{.Spec.TaskTemplate.ContainerSpec.Args}}' "$name")" "[sleep 2000]"
  run "$c" service inspect --format '{{range .Spec.TaskTemplate.ContainerSpec.Env}}{{println .}}{{end}}' "$name"
  expect equal "$(sort <<<"$output")" $'A=2\nB=3'
  step "service ps shows the tasks before it"
  run "$c" service ps --filter desired-state=shutdown "$name"
  expect matches "Shutdown +(Shutdown|Failed|Complete)"
  step "an update that is undone replaces them again"
  before=$("$c" service ps -q --filter desired-state=running "$name")
  "$c" service update "${own[@]}" --env-rm B "$name" >/dev/null
  eventually 30 eval '[ "$('"$c"' service ps -q --filter desired-state=running '"$name"')" != "'"$before"'" ]'
  step "a node that is drained runs no tasks"
  "$c" node update --availability drain "$node" >/dev/null
  eventually 30 idle "$name"
  step "an active one has them again"
  "$c" node update --availability active "$node" >/dev/null
  eventually 30 running "$c" "$name" '{{.State.Status}}' running
  step "a network of one node is none of services"
  run "$c" service create "${own[@]}" --network bridge busybox:latest true
  expect status 1
  expect contains "bridge"
  step "a network of the swarm, and a service in it with a published port"
  "$c" network create --driver overlay "$name-net" >/dev/null
  expect equal "$("$c" network ls --filter "name=$name-net" --format '{{.Driver}} {{.Scope}}')" "overlay swarm"
  port=$(free_port)
  "$c" service create "${own[@]}" --name "$name-net" --network "$name-net" --publish "$port:80" busybox:latest httpd -f -h /bin >/dev/null
  eventually 30 replicas "$c" "$name-net" 1/1
  expect equal "$("$c" service ls --filter "name=$name-net" --format '{{.Ports}}')" "*:$port->80/tcp"
  eventually 20 eval 'curl -fsS --max-time 5 -o /dev/null "http://127.0.0.1:$port/busybox" 2>/dev/null'
  run "$c" network rm "$name-net"
  expect status 1
  expect contains "$name-net"
  "$c" service rm "$name-net" >/dev/null
  eventually 30 eval '"$c" network rm "$name-net" >/dev/null 2>&1'
  step "a service on every node"
  "$c" service create "${own[@]}" --name "$name-all" --mode global busybox:latest sleep 1000 >/dev/null
  eventually 30 replicas "$c" "$name-all" 1/1
  expect equal "$("$c" service ls --filter "name=$name-all" --format '{{.Mode}}')" global
  step "service rm"
  run "$c" service rm "$name" "$name-all"
  expect output "$name"$'\n'"$name-all"
  eventually 20 gone "$name"
  step "it is not there any more"
  run "$c" service inspect "$name"
  expect status 1
  step "settings of the swarm"
  "$c" swarm update --task-history-limit 2 >/dev/null
  expect equal "$(api GET /swarm | sed '$d' | jq .Spec.Orchestration.TaskHistoryRetentionLimit)" 2
  step "the last manager leaves by force only"
  run "$c" swarm leave
  expect status 1
  run "$c" swarm leave --force
  expect output "Node left the swarm."
  step "then there is none"
  run "$c" node ls
  expect contains "This node is not part of a swarm"
  moss volume rm "$name" >/dev/null
  enough_steps "$c"
}

@test "docker: a swarm of one node, from init to leave" {
  course dock "$(unique web)"
}

@test "moss: a swarm of one node, from init to leave" {
  course moss "$(unique web)"
}

@test "moss: create, update and scale wait until the tasks run, and logs are those of this node" {
  name=$(unique web)
  moss swarm init --advertise-addr "$SWARM_ADDR" --listen-addr "$SWARM_ADDR" >/dev/null
  run --separate-stderr moss service create --name "$name" --replicas 2 --stop-grace-period 0s busybox:latest sh -c 'echo hello; sleep 1000'
  expect status 0
  expect matches '^[a-z0-9]{25}$'
  # shellcheck disable=SC2154 # stderr is set by run.
  expect --in "$stderr" contains "overall progress: 2 out of 2 tasks" "service $name converged"
  expect equal "$(moss service ls --filter "name=$name" --format '{{.Replicas}}')" 2/2
  eventually 10 eval '[ "$(moss service logs --raw '"$name"' | grep -cx hello)" = 2 ]'
  run moss service logs "$name"
  expect matches "^$name\.1\.[a-z0-9]{12} \| hello$"
  expect matches "^$name\.2\.[a-z0-9]{12} \| hello$"
  run moss service scale -q "$name=3"
  expect output "$name"
  expect equal "$(moss service ls --filter "name=$name" --format '{{.Replicas}}')" 3/3
  before=$(moss service ps -q --filter desired-state=running "$name")
  run moss service update -q --update-parallelism 0 --force "$name"
  expect output "$name"
  after=$(moss service ps -q --filter desired-state=running "$name")
  for task in $before; do expect --in "$after" lacks "$task"; done
  run moss service update -q --env-add LEVEL=2 --hostname there --read-only "$name"
  expect output "$name"
  running moss "$name" '{{index .Config.Env 0}} {{.Config.Hostname}} {{.HostConfig.ReadonlyRootfs}}' "LEVEL=2 there true" || fail "an old task is left: $(moss service ps "$name")"
  run moss __complete service rm "${name:0:5}"
  expect line 0 "$name"
  moss service rm "$name" >/dev/null
  eventually 20 gone "$name"
  run moss service logs "$name"
  expect status 1
  # One that does its work once is waited for, too.
  run moss service create -q --name "$name" --restart-condition none busybox:latest true
  expect status 0
  moss service rm "$name" >/dev/null
  moss swarm leave --force >/dev/null
}
