#!/usr/bin/env bats
# A node makes a swarm, keeps its place in it whatever dies, and leaves. What services do there is other files' matter.

load lib/moss
load lib/ports

setup_file() { start_engine; }
teardown_file() { stop_engine; }
setup() { begin; }
teardown() {
  [ "$(node_state)" = inactive ] || api POST '/swarm/leave?force=1' >/dev/null
  finish
}

swarm_dir() { echo "$MOSS_DATA/root/swarm"; }

# swarm_pid: the process id of moss-swarm of this test's engine, which is nobody's child once its engine has gone.
swarm_pid() {
  local pid
  for pid in $(pgrep -x moss-swarm); do
    if [[ $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") == *"--run-dir $MOSS_DIR/run "* ]]; then echo "$pid"; fi
  done
}
no_swarm_runs() { [ -z "$(swarm_pid)" ]; }
# another_swarm PID: is there one and no other, and has the machine buried that of the PID?
another_swarm() { [ "$(swarm_pid | wc -l)" = 1 ] && [ "$(swarm_pid)" != "$1" ]; }

info() { api GET /v1.24/info | sed '$d' | jq -r ".Swarm$1"; }
node_state() { info .LocalNodeState; }
is_active() { [ "$(node_state)" = active ] && [ "$(info .ControlAvailable)" = true ]; }

# init [FIELDS]: makes a swarm on a port of its own, with more fields of the request. The port after it is that of the table of networks.
init() {
  local address
  address=127.0.0.1:$(free_port 2)
  api POST /v1.24/swarm/init "$(jq -nc --arg a "$address" "{ListenAddr: \$a, AdvertiseAddr: \$a, Spec: {}} + ${1:-{\}}")"
}

@test "a node in no swarm: 406 for all that needs one, no program, no file, no socket" {
  for place in 'GET /swarm' 'GET /nodes' 'GET /services' 'GET /tasks' 'POST /swarm/leave' 'GET /nodes/x' 'DELETE /services/x'; do
    run api "${place%% *}" "/v1.24${place##* }"
    expect contains 'This node is not part of a swarm'
    expect equal "$(tail -n 1 <<<"$output")" 406
  done
  expect equal "$(api GET /v1.23/nodes | tail -n 1)" 404
  expect equal "$(node_state)" inactive
  no_swarm_runs
  [ ! -e "$(swarm_dir)" ]
  expect equal "$(find "$MOSS_DIR/run" -name '*swarm*')" ''
}

@test "init, info, leave: the program and its files are there in between, and for their user alone" {
  run init
  expect equal "${lines[1]}" 200
  id=$(jq -r . <<<"${lines[0]}")
  expect --in "$id" matches '^[0-9a-z]{25}$'
  is_active
  expect equal "$(info .NodeID)" "$id"
  expect equal "$(info .NodeAddr)" 127.0.0.1
  expect equal "$(curl -sI --max-time 60 --unix-socket "$MOSS_SOCK" http://moss/_ping | tr -d '\r' | awk '$1 == "Swarm:" { print $2 }')" active/manager
  expect equal "$(info .Error)" ''
  eventually 10 knows_itself
  expect equal "$(info '|"\(.Nodes) \(.Managers)"')" '1 1'
  expect --in "$(info .Cluster.ID)" matches '^[0-9a-z]{25}$'
  expect equal "$(swarm_pid | wc -w)" 1
  expect equal "$(find "$MOSS_DIR/run" -name '*swarm*' -perm /077)" ''
  expect equal "$(find "$MOSS_DIR/run" -name '*swarm*' ! -name swarm-view.json | wc -l)" 3
  expect equal "$(find "$(swarm_dir)" -maxdepth 0 -printf %m)" 700
  expect equal "$(grep -caE 'SWM(TKN|KEY)-' "$MOSS_DIR/mossd.log")" 0

  run init
  expect contains 'This node is already part of a swarm'
  expect equal "${lines[1]}" 406
  run api POST /v1.24/swarm/leave
  expect contains 'Removing the last manager erases all current state of the swarm'
  expect equal "${lines[1]}" 503
  is_active
  run api POST '/v1.24/swarm/leave?force=true'
  expect equal "$(tail -n 1 <<<"$output")" 200
  expect equal "$(node_state)" inactive
  eventually 10 no_swarm_runs
  [ ! -e "$(swarm_dir)" ]
  eventually 5 no_swarm_files
}
knows_itself() { [ "$(info '.RemoteManagers[0].NodeID')" = "$(info .NodeID)" ]; }
no_swarm_files() { [ -z "$(find "$MOSS_DIR/run" -name '*swarm*')" ]; }

@test "an init that fails leaves nothing behind and says why" {
  used=$(free_port)
  exec {hold}< <(exec python3 -c "import socket,time; s=socket.create_server(('127.0.0.1', $used)); print(flush=True); time.sleep(60)")
  holder=$!
  read -r -u $hold
  while IFS='|' read -r listen advertise words; do
    run api POST /v1.24/swarm/init "{\"ListenAddr\": \"$listen\", \"AdvertiseAddr\": \"$advertise\", \"Spec\": {}}"
    expect contains "$words"
    expect equal "${lines[1]}" 400
    expect equal "$(node_state)" inactive
    [ ! -e "$(swarm_dir)" ]
  done <<LIST
127.0.0.1:$used|127.0.0.1|address already in use
127.0.0.1:0|127.0.0.1|ListenAddr
127.0.0.1:99999|127.0.0.1|ListenAddr
192.0.2.1:2377|127.0.0.1|is not an address of this host
nodev0|127.0.0.1|ListenAddr
127.0.0.1|192.0.2.1|is not an address of this host
127.0.0.1|0.0.0.0|AdvertiseAddr
127.0.0.1|nodev0:1|AdvertiseAddr
LIST
  kill $holder
  eventually 10 no_swarm_runs
  run init
  expect equal "${lines[1]}" 200
}

@test "an interface stands for its address" {
  port=$(free_port 2)
  run api POST /v1.24/swarm/init "{\"ListenAddr\": \"lo:$port\", \"AdvertiseAddr\": \"lo\", \"Spec\": {}}"
  expect equal "${lines[1]}" 200
  addr() { expect equal "$(info '.RemoteManagers[0].Addr')" "127.0.0.1:$port"; }
  eventually 10 addr
}

@test "kill -9 of the engine, of moss-swarm, and of both: the node is the same one, in its swarm" {
  run init
  id=$(jq -r . <<<"${lines[0]}")
  for victims in engine swarm both; do
    old=$(inner_pid) swarm=$(swarm_pid)
    [ $victims = engine ] || kill -KILL "$swarm"
    if [ $victims != swarm ]; then
      kill -KILL "$old"
      eventually 30 another_engine "$old"
    fi
    if [ $victims = engine ]; then
      expect equal "$(swarm_pid)" "$swarm"
    else
      eventually 20 another_swarm "$swarm"
    fi
    eventually 30 is_active
    expect equal "$(info .NodeID)" "$id"
    expect equal "$(swarm_pid | wc -w)" 1
    run init
    expect equal "${lines[1]}" 406
  done
}

@test "the end of the engine is that of moss-swarm, and the next one is in the swarm again" {
  run init
  expect equal "${lines[1]}" 200
  id=$(jq -r . <<<"${lines[0]}")
  halt_engine
  eventually 5 nothing_runs || fail "$(left_processes)"
  expect equal "$(left_files)" ''
  spawn_engine
  eventually 30 is_active
  expect equal "$(info .NodeID)" "$id"
}

@test "the outer process killed: moss-swarm ends as well" {
  init >/dev/null
  swarm=$(swarm_pid)
  kill -KILL "$MOSSD_PID"
  eventually 20 ended "$swarm"
  eventually 20 nothing_runs
  spawn_engine
  eventually 30 is_active
}

@test "a damaged or empty record, and one of another machine: the state is error, the engine serves on, leave --force ends it" {
  for damage in ': >' 'echo { >' 'jq -c ".Machine = \"other\"" <<<"$record" >'; do
    init >/dev/null
    record=$(cat "$(swarm_dir)/member.json")
    swarm=$(swarm_pid)
    eval "$damage \"\$(swarm_dir)/member.json\"" # first: the engine starts the next one at once
    kill -KILL "$swarm"
    in_error() { [ "$(node_state)" = error ]; }
    eventually 20 in_error
    expect --in "$(info .Error)" matches 'damaged|another machine'
    run api GET /v1.24/nodes
    expect equal "${lines[1]}" 406
    run api POST /v1.24/swarm/leave
    expect contains --force
    expect equal "${lines[1]}" 503
    expect equal "$(api POST '/v1.24/swarm/leave?force=1' | tail -n 1)" 200
    expect equal "$(node_state)" inactive
  done
}

@test "a locked manager: info says so, calls are refused in words, the key unlocks it" {
  init '{AutoLockManagers: true}' >/dev/null
  key=$(api GET /v1.24/swarm/unlockkey | sed '$d' | jq -r .UnlockKey)
  expect --in "$key" matches '^SWMKEY-1-'
  kill -KILL "$(swarm_pid)"
  is_locked() { [ "$(node_state)" = locked ]; }
  eventually 20 is_locked
  run api GET /v1.24/nodes
  expect contains 'Swarm is encrypted and needs to be unlocked before it can be used'
  expect equal "${lines[1]}" 406
  for wrong in "${key%?????}AAAAA" nonsense; do
    run api POST /v1.24/swarm/unlock "{\"UnlockKey\": \"$wrong\"}"
    expect contains 'swarm could not be unlocked: invalid key provided'
    expect equal "${lines[1]}" 400
  done
  expect equal "$(api POST /v1.24/swarm/unlock "{\"UnlockKey\": \"$key\"}" | tail -n 1)" 200
  eventually 20 is_active
  expect equal "$(grep -caE 'SWM(TKN|KEY)-' "$MOSS_DIR/mossd.log")" 0
}

@test "a service runs through kills of the engine and of moss-swarm, and ends with the swarm" {
  import_busybox
  init >/dev/null
  name=$(unique service)
  run api POST /v1.24/services/create "{\"Name\": \"$name\", \"TaskTemplate\": {\"ContainerSpec\": {\"Image\": \"busybox\", \"Command\": [\"sleep\", \"98765\"]}}, \"Mode\": {\"Replicated\": {\"Replicas\": 2}}}"
  expect equal "${lines[1]}" 201
  tasks_run() { [ "$(moss ps -q --no-trunc --filter label=com.docker.swarm.service.name="$name" | sort | tee "$BATS_TEST_TMPDIR/ids" | wc -l)" = 2 ]; }
  eventually 30 tasks_run
  sort "$BATS_TEST_TMPDIR/ids" >"$BATS_TEST_TMPDIR/first"
  old=$(inner_pid) swarm=$(swarm_pid)
  kill -KILL "$old" "$swarm"
  eventually 30 another_engine "$old"
  eventually 20 another_swarm "$swarm"
  eventually 30 is_active
  services() { [ "$(api GET /v1.24/services | sed '$d' | jq -r '.[].Spec.Name')" = "$name" ]; }
  eventually 20 services
  running() { [ "$(api GET /v1.24/tasks | sed '$d' | jq '[.[] | select(.Status.State == "running")] | length')" = 2 ]; }
  eventually 30 running
  tasks_run
  cmp "$BATS_TEST_TMPDIR/ids" "$BATS_TEST_TMPDIR/first"
  expect equal "$(api POST '/v1.24/swarm/leave?force=1' | tail -n 1)" 200
  none() { [ -z "$(moss ps -aq --filter label=com.docker.swarm.service.name="$name")" ]; }
  eventually 30 none
}

@test "docker's command line makes a swarm and lists its node" {
  run dock swarm init --advertise-addr 127.0.0.1 --listen-addr "127.0.0.1:$(free_port 2)"
  expect contains 'is now a manager'
  run dock node ls
  expect contains Leader
  expect contains Ready
  dock swarm leave --force
}
