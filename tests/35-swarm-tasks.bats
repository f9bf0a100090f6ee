#!/usr/bin/env bats
# Tasks of a swarm's services as containers of a node: what they are made of, how they end, and what they outlive.

load lib/moss
load lib/ports

setup_file() {
  start_engine
  import_busybox
  halt_engine
  mkdir -p "$MOSS_DIR/open/data" "$MOSS_DIR/secret"
  echo inside >"$MOSS_DIR/open/data/file"
  ln -s ../secret "$MOSS_DIR/open/out"
  spawn_engine --swarm-host-folder "$MOSS_DIR/open"
  address=127.0.0.1:$(free_port 2)
  run api POST /v1.24/swarm/init "{\"ListenAddr\": \"$address\", \"AdvertiseAddr\": \"$address\", \"Spec\": {}}"
  expect equal "${lines[1]}" 200
}
teardown_file() {
  api POST '/v1.24/swarm/leave?force=1' >/dev/null
  stop_engine
}
setup() {
  begin
  service=$(unique web)
}
teardown() {
  if api GET /v1.24/info | sed '$d' | jq -e '.Swarm.ControlAvailable' >/dev/null; then
    for id in $(api GET /v1.24/services | sed '$d' | jq -r '.[].ID'); do api DELETE "/v1.24/services/$id" >/dev/null; done
  fi
  eventually 30 no_tasks
  finish
}

loop='["sh","-c","trap \"exit 0\" TERM; while :; do sleep 0.1; done"]'
no_tasks() { [ -z "$(dock ps -aq --filter label=com.docker.swarm.node.id)" ]; }

# create SPEC [TEMPLATE [MORE]]: a service of this test with a ContainerSpec, more of TaskTemplate, and more of the service.
create() {
  run api POST /v1.24/services/create "$(jq -nc --arg name "$service" --argjson spec "$1" --argjson more "${2:-{\}}" --argjson rest "${3:-{\}}" \
    '{Name: $name, TaskTemplate: ({ContainerSpec: ({Image: "busybox"} + $spec), RestartPolicy: {Delay: 100000000}} + $more)} + $rest')"
  expect equal "$(tail -n 1 <<<"$output")" 201
}

# tasks JQ: what a filter says of the service's tasks, newest first.
tasks() {
  api GET "/v1.24/tasks?filters=$(jq -rn --arg s "$service" '{service: [$s]} | tojson | @uri')" | sed '$d' |
    jq -c "sort_by(.CreatedAt) | reverse | $1"
}
running() { [ "$(tasks '[.[] | select(.Status.State == "running" and .DesiredState == "running")] | length')" = "$1" ]; }
seen() { [ "$(tasks "any(.[]; .Status.State == \"$1\" and ((.Status.Err // \"\") | contains(\"$2\")))")" = true ]; }
containers() { dock ps -q --no-trunc --filter "label=com.docker.swarm.service.name=$service" | sort; }

@test "a task is a container with its name, labels, and all that its service asks for" {
  create "{\"Command\": $loop, \"Env\": [\"SLOT={{.Task.Slot}}\"], \"Labels\": {\"tier\": \"front\"}, \"Hostname\": \"h{{.Task.Slot}}\",
    \"User\": \"www\", \"Dir\": \"/home\", \"Groups\": [\"50\"], \"Hosts\": [\"10.9.8.7 db cache\"], \"StopGracePeriod\": 2000000000,
    \"Mounts\": [{\"Type\": \"tmpfs\", \"Target\": \"/t\", \"TmpfsOptions\": {\"SizeBytes\": 65536}},
      {\"Type\": \"volume\", \"Target\": \"/v\"}, {\"Type\": \"bind\", \"Source\": \"$MOSS_DIR/open/data\", \"Target\": \"/h\"},
      {\"Type\": \"bind\", \"Source\": \"$MOSS_DIR/open\", \"Target\": \"/o\", \"ReadOnly\": true}]}" \
    '{"Resources": {"Limits": {"NanoCPUs": 500000000, "MemoryBytes": 67108864}}, "LogDriver": {"Name": "json-file", "Options": {"max-file": "2"}}}'
  eventually 20 running 1
  run tasks '.[0] | "\(.ID) \(.NodeID) \(.ServiceID) \(.Status.ContainerStatus.ContainerID) \(.Status.ContainerStatus.PID)"'
  read -r task node id container pid <<<"$(jq -r . <<<"$output")"
  expect equal "$(containers)" "$container"
  show() { dock inspect "$container" | jq -c ".[0]$1"; }
  expect equal "$(show .Name)" "\"/$service.1.$task\""
  expect equal "$(show .State.Pid)" "$pid"
  expect equal "$(show .Config.Labels | jq -c .)" "$(jq -nc --arg s "$service" --arg t "$task" --arg n "$node" --arg i "$id" '{tier: "front",
    "com.docker.swarm.task": "", "com.docker.swarm.task.id": $t, "com.docker.swarm.task.name": "\($s).1.\($t)",
    "com.docker.swarm.node.id": $n, "com.docker.swarm.service.id": $i, "com.docker.swarm.service.name": $s}')"
  expect equal "$(show '.HostConfig | [.NetworkMode, .RestartPolicy.Name, .Memory, .CpuQuota, .CpuPeriod, .LogConfig.Config["max-file"]]')" \
    '["bridge","no",67108864,50000,100000,"2"]'
  run dock exec "$container" sh -c 'echo $SLOT $(hostname) $(id -un) $(pwd) $(id -G); grep -c "10.9.8.7.*\(db\|cache\)" /etc/hosts
    cat /h/file /o/data/file; touch /o/x 2>&1 | grep -o Read-only; grep -c " /t tmpfs.*size=64k" /proc/mounts'
  expect line 0 '1 h1 www /home 33 50'
  expect line 2 inside
  expect line 3 inside
  expect line 4 Read-only
  expect line 5 1
  volume=$(show '.Mounts[] | select(.Destination == "/v").Name' | jq -r .)
  api DELETE "/v1.24/services/$service" >/dev/null
  eventually 20 no_tasks
  expect equal "$(api GET "/v1.24/volumes/$volume" | tail -n 1)" 404
}

@test "a task that a client stops, removes or restarts has failed, and is replaced" {
  create "{\"Command\": $loop, \"StopGracePeriod\": 1000000000}"
  eventually 20 running 1
  while IFS='|' read -r verb words; do
    old=$(containers)
    # shellcheck disable=SC2086 # a verb with its options
    dock $verb "$old"
    eventually 20 failed_with "$old" "$words"
    eventually 20 replaced "$old"
    expect equal "$(dock inspect "$old" 2>/dev/null | jq '.[0].State.Running // false')" false
  done <<LIST
stop|container was stopped outside the swarm
rm -f|non-zero exit (137)
restart|container was stopped outside the swarm
kill|non-zero exit (137)
LIST
}
# failed_with CONTAINER TEXT: its task has failed, and says so. replaced CONTAINER: another one runs in its place.
failed_with() {
  [[ $(tasks ".[] | select(.Status.ContainerStatus.ContainerID == \"$1\").Status | \"\(.State) \(.Err)\"") == '"failed '*"$2"*'"' ]]
}
replaced() {
  local now
  now=$(containers)
  running 1 && [ "$(wc -w <<<"$now")" = 1 ] && [ "$now" != "$1" ]
}

@test "exit codes, and delays that keep a task that ends at once from spinning" {
  create '{"Command": ["sh", "-c", "exit 7"]}' '{"RestartPolicy": {"Condition": "none"}}'
  eventually 20 seen failed 'task: non-zero exit (7)'
  expect equal "$(tasks '[.[] | .Status.ContainerStatus.ExitCode]')" '[7]'
  service=$(unique once)
  create '{"Command": ["true"]}' '{"RestartPolicy": {"Condition": "on-failure"}}'
  eventually 20 seen complete ''
  expect equal "$(tasks length)" 1
}

# bats test_tags=subids
@test "a task is starting until it is healthy; an unhealthy one is stopped and replaced" {
  create "{\"Command\": $loop, \"Healthcheck\": {\"Test\": [\"CMD-SHELL\", \"test -e /tmp/ok\"], \"Interval\": 200000000, \"Retries\": 600}}"
  eventually 20 seen starting ''
  eventually 20 is_one
  first=$(containers)
  expect equal "$(tasks '.[0].Status.State')" '"starting"'
  dock exec "$first" touch /tmp/ok
  eventually 20 running 1
  api DELETE "/v1.24/services/$service" >/dev/null
  service=$(unique sick)
  create "{\"Command\": $loop, \"Healthcheck\": {\"Test\": [\"CMD-SHELL\", \"test ! -e /tmp/sick\"], \"Interval\": 200000000, \"Retries\": 2}}"
  eventually 20 running 1
  first=$(containers)
  dock exec "$first" touch /tmp/sick
  eventually 20 seen failed 'unhealthy container'
  eventually 20 running 1
  expect equal "$(dock inspect "$first" | jq -r '.[0].State.Status')" exited
}
is_one() { [ "$(containers | wc -l)" = 1 ]; }

@test "folders of the host: below the node's setting alone, whatever a link or an option says" {
  while IFS='|' read -r mount words; do
    service=$(unique bad)
    create "{\"Command\": $loop, \"Mounts\": [$mount]}" '{"RestartPolicy": {"Condition": "none"}}'
    eventually 20 seen rejected "$words"
    expect equal "$(containers)" ''
  done <<LIST
{"Type": "bind", "Source": "/etc", "Target": "/x"}|not below a folder that this node's setting swarm-host-folder names
{"Type": "bind", "Source": "$MOSS_DIR/secret", "Target": "/x"}|not below a folder
{"Type": "bind", "Source": "$MOSS_DIR/open/../secret", "Target": "/x"}|.. is not allowed
{"Type": "bind", "Source": "$MOSS_DIR/open/out", "Target": "/x"}|path escapes
{"Type": "bind", "Source": "$MOSS_DIR/open/none", "Target": "/x"}|does not exist on this node
{"Type": "volume", "Source": "v", "Target": "/x", "VolumeOptions": {"DriverConfig": {"Options": {"o": "bind", "device": "$MOSS_DIR/secret"}}}}|use the type bind
LIST
  expect equal "$(dock volume ls -q --filter name=^v$)" ''
}

@test "a folder that is swapped for a link after the look leads nowhere else" {
  mkdir "$MOSS_DIR/open/swap"
  # One task more is enough: with many, the swarm removes what is left of the first one.
  create "{\"Command\": $loop, \"Mounts\": [{\"Type\": \"bind\", \"Source\": \"$MOSS_DIR/open/swap\", \"Target\": \"/x\"}]}" \
    '{"RestartPolicy": {"Condition": "any", "Delay": 100000000, "MaxAttempts": 1}}'
  eventually 20 running 1
  old=$(containers)
  rmdir "$MOSS_DIR/open/swap"
  ln -s "$MOSS_DIR/secret" "$MOSS_DIR/open/swap"
  dock stop -t 0 "$old" # what is bound next is looked at anew
  eventually 20 seen rejected 'cannot be used'
  run dock start "$old"
  expect status 1
  expect contains 'subpath swap'
}

@test "an image that is nowhere: rejected, with the registry's reason" {
  create "{\"Image\": \"127.0.0.1:1/none\"}" '{"RestartPolicy": {"Condition": "none"}}'
  eventually 20 seen rejected 'pull image 127.0.0.1:1/none'
}

# bats test_tags=alone
@test "tasks go on while the engine is replaced, dies, or moss-swarm dies" {
  create "{\"Command\": $loop}" '{}' '{"Mode": {"Replicated": {"Replicas": 3}}}'
  eventually 20 running 3
  before=$(containers)
  pids=$(tasks '[.[] | .Status.ContainerStatus.PID] | sort')
  for victim in reload engine swarm; do
    old=$(inner_pid)
    case $victim in
      reload) kill -HUP "$MOSSD_PID" && eventually 20 another_engine "$old" ;;
      engine) crash ;;
      swarm)
        swarm=$(swarm_pid)
        kill -KILL "$swarm"
        eventually 20 another_swarm "$swarm"
        ;;
    esac
    eventually 30 running 3
    expect equal "$(containers)" "$before"
    expect equal "$(tasks '[.[] | .Status.ContainerStatus.PID] | sort')" "$pids"
  done
  # They are watched as before.
  dock kill "$(head -n 1 <<<"$before")"
  eventually 20 seen failed 'non-zero exit (137)'
  eventually 20 running 3
}
swarm_pid() {
  local pid
  for pid in $(pgrep -x moss-swarm); do
    if [ "$(readlink "/proc/$pid/ns/user" 2>/dev/null)" = "$(readlink "/proc/$(inner_pid)/ns/user")" ]; then echo "$pid"; fi
  done
}
another_swarm() { [ -n "$(swarm_pid)" ] && [ "$(swarm_pid)" != "$1" ]; }

# bats test_tags=alone
@test "at a start the containers of tasks that are no more go; a user's own stay" {
  create "{\"Command\": $loop}"
  eventually 20 running 1
  mine=$(unique mine)
  for name in "$service.7.gone" "$mine"; do
    dock run -d --name "$name" --stop-signal KILL --label com.docker.swarm.task.id=gone busybox sleep 1000
  done
  swarm=$(swarm_pid)
  kill -KILL "$swarm"
  eventually 20 another_swarm "$swarm"
  eventually 20 is_gone "$service.7.gone"
  is_running "$mine"
  dock rm -f "$mine"
  eventually 20 running 1
}
