# shellcheck shell=bash
# nodes.bash: several engines on this machine, each as a user of its own in a network namespace of its own, which is its host.
# The namespaces hang on one bridge and have no way out. For tests that root runs (tests/swarm.sh).
#
#   load ../lib/moss
#   load ../lib/nodes
#   setup_file() { make_nodes 3; }
#   teardown_file() { remove_nodes; }
#   teardown() { show_nodes; }
#
# make_swarm instead of make_nodes makes a swarm of them, and lib/services has what tests ask of its services.
#
# Node N is the user moss-test-SET-N, the host name nodeN, the address 10.77.0.N; its folder is $NODES/N. SET is the number of
# these machines among others on this one: claim_nodes takes one that nobody uses.

address_of() { echo "10.77.0.$1"; }
namespace_of() { echo "moss-node-$NODE_SET-$1"; }
switch_name() { echo "moss-switch-$NODE_SET"; }
user_of() { echo "moss-test-$NODE_SET-$1"; }

# claim_nodes: sets NODE_SET, and keeps it for this process by a lock on the descriptor 8, which children must not inherit.
claim_nodes() {
  mkdir -p /run/lock
  for NODE_SET in 1 2 3 4; do
    exec 8>"/run/lock/moss-nodes-$NODE_SET"
    if flock --nonblock 8; then break; fi
  done
  flock 8 # waits where all are taken
  export NODE_SET
}

# exec_node N CMD [ARG]...: becomes CMD on that node. node runs it. Both have the environment that make_nodes had.
exec_node() {
  local n=$1 words
  shift
  mapfile -d '' -t words <"$NODES/words-$n"
  exec "${words[@]}" "$@"
}
node() { (exec_node "$@"); }

# on N ARG...: the command line of moss on that node. docker_on is docker's.
on() {
  local n=$1
  shift
  node "$n" timeout --foreground -k 2 "${CLIENT_SECONDS:-180}" "$moss_bin/moss" --host "unix://$NODES/$n/s" "$@"
}
docker_on() {
  local n=$1
  shift
  node "$n" timeout --foreground -k 2 "${CLIENT_SECONDS:-180}" docker --host "unix://$NODES/$n/s" --config "$NODES/$n/docker" \
    --log-level fatal "$@"
}

# make_nodes N: makes the machines 1 to N and starts an engine with the image busybox on each. Sets NODES and NODE_COUNT.
make_nodes() {
  local n user
  NODES=$(mktemp -d /var/tmp/moss-nodes.XXXXXX) NODE_COUNT=$1
  export NODES NODE_COUNT
  chmod 0755 "$NODES"
  drop_namespaces # of a run that was killed
  ip netns add "$(switch_name)"
  ip -n "$(switch_name)" link add name br0 up type bridge
  for n in $(seq "$NODE_COUNT"); do
    plug_in "$n"
    user=$(user_of "$n")
    {
      printf '%s\0' nsenter --net="/run/netns/$(namespace_of "$n")"
      "$moss_top/hack/as-user.sh" --name "$user" --words
    } >"$NODES/words-$n"
    kill_node "$n" # what a run that was killed has left
    install -d -m 0700 -o "$user" -g "$user" "$NODES/$n" "$NODES/$n/root" "$NODES/$n/run"
  done
  MOSS_DIR=$NODES busybox_tar "$NODES/busybox.tar"
  chmod 0644 "$NODES/busybox.tar"
  for n in $(seq "$NODE_COUNT"); do launch_node "$n"; done
  for n in $(seq "$NODE_COUNT"); do
    await_node "$n"
    on "$n" import "$NODES/busybox.tar" busybox >/dev/null
  done
}

# make_swarm N: makes the machines 1 to N and a swarm of them. Node 1 is the manager.
make_swarm() {
  local n
  make_nodes "$1"
  docker_on 1 swarm init >/dev/null
  for n in $(seq 2 "$1"); do join_swarm "$n"; done
  eventually 20 ready_nodes "$1"
}

# join_swarm N: makes a node a worker of the swarm of node 1.
join_swarm() {
  docker_on "$1" swarm join --token "$(docker_on 1 swarm join-token -q worker)" "$(address_of 1):2377" >/dev/null
}

# ready_nodes COUNT: does the swarm have so many nodes that are ready? Node MANAGER (1) is asked.
ready_nodes() { [ "$(docker_on "${MANAGER:-1}" node ls --format '{{.Status}}' | grep -c Ready)" = "$1" ]; }

# plug_in N: the network namespace of a node, with a cable to the bridge.
plug_in() {
  local name
  name=$(namespace_of "$1")
  ip netns add "$name"
  ip -n "$name" link set lo up
  ip link add name "port$1" netns "$(switch_name)" type veth peer name eth0 netns "$name"
  ip -n "$(switch_name)" link set "port$1" master br0 up
  ip -n "$name" address add "$(address_of "$1")/24" dev eth0
  ip -n "$name" link set eth0 up
}

# launch_node N [ARG...]: starts the engine of a node. await_node waits for its first answer.
launch_node() {
  local n=$1 words
  shift
  mapfile -d '' -t words <"$NODES/words-$n"
  # shellcheck disable=SC2016 # for the inner shell
  unshare --uts sh -c 'hostname "$0" && exec "$@"' "node$n" "${words[@]}" \
    "$moss_bin/mossd" --root "$NODES/$n/root" --run-dir "$NODES/$n/run" --host "unix://$NODES/$n/s" \
    --log-level debug "$@" >>"$NODES/log-$n" 2>&1 3>&- 4>&- 8>&- </dev/null &
  echo $! >"$NODES/pid-$n"
  disown # nobody waits for it, and a shell would tell of its end
}
await_node() { eventually 60 answers "$1"; }
answers() { [ "$(curl -s --max-time 5 --unix-socket "$NODES/$1/s" http://moss/_ping)" = OK ]; }

# processes_of N: the ids of all processes of a node's user and of the ids that are lent to it.
processes_of() {
  local user first count
  user=$(user_of "$1")
  IFS=: read -r _ first count < <(grep "^$user:" /etc/subuid)
  ps -eo pid=,ruid= | awk -v own="$(id -u "$user")" -v first="$first" -v count="$count" \
    '$2 == own || $2 >= first && $2 < first + count { print $1 }'
}
node_is_dead() { [ -z "$(processes_of "$1")" ]; }

# kill_node N: SIGKILL to everything that a node runs, as a power cut ends it.
kill_node() {
  local end=$((SECONDS + 60)) pid
  until node_is_dead "$1"; do
    for pid in $(processes_of "$1"); do kill -KILL "$pid" 2>/dev/null || true; done
    [ $SECONDS -lt $end ] || fail "node $1 has processes left: $(processes_of "$1" | xargs)" || return
  done
}

# revive_node N: starts the engine of a node again.
revive_node() {
  launch_node "$@"
  await_node "$1"
}

# engine_of N: the process id of the inner engine; swarm_of N: that of moss-swarm.
engine_of() { pgrep -U "$(id -u "$(user_of "$1")")" -x mossd-engine; }
swarm_of() { pgrep -U "$(id -u "$(user_of "$1")")" -x moss-swarm; }

# crash_engine N and crash_swarm N: SIGKILL to one of them, and the wait for the next.
crash_engine() {
  local old
  old=$(engine_of "$1")
  kill -KILL "$old"
  eventually 30 another_engine_on "$1" "$old"
}
crash_swarm() {
  local old
  old=$(swarm_of "$1")
  kill -KILL "$old"
  eventually 30 another_swarm_on "$1" "$old"
}
another_engine_on() {
  local now
  now=$(engine_of "$1") && [ "$now" != "$2" ] && answers "$1"
}
another_swarm_on() {
  local now
  now=$(swarm_of "$1") && [ "$now" != "$2" ]
}

# inside N CMD...: runs a command in the network namespace of a node's containers, where its bridges are.
inside() {
  local n=$1
  shift
  node "$n" nsenter --preserve-credentials --user --mount --target "$(engine_of "$n")" \
    nsenter --net="$(find "$NODES/$n/run" -maxdepth 3 -name netns ! -type d)" "$@"
}

# worsen N: a node's cable loses one of fifty packets, each way, and carries a megabyte a second. unplug N takes it out. restore N
# makes it as it was.
worsen() {
  nsenter --net="/run/netns/$(namespace_of "$1")" nft -f - <<'RULES'
table inet wire {
  chain in { type filter hook input priority 0; meta iifname "eth0" numgen random mod 50 == 0 drop; }
  chain out { type filter hook output priority 0; meta oifname "eth0" numgen random mod 50 == 0 drop; }
}
RULES
  tc -n "$(namespace_of "$1")" qdisc add dev eth0 root tbf rate 8mbit burst 32k latency 100ms
}
unplug() { ip -n "$(switch_name)" link set "port$1" down; }
restore() {
  ip -n "$(switch_name)" link set "port$1" up
  tc -n "$(namespace_of "$1")" qdisc del dev eth0 root 2>/dev/null || true
  nsenter --net="/run/netns/$(namespace_of "$1")" nft delete table inet wire 2>/dev/null || true
}

# remove_nodes: ends all engines, as SIGTERM does, and removes everything that make_nodes made.
remove_nodes() {
  local n bad=0
  for n in $(seq "$NODE_COUNT"); do kill -TERM "$(cat "$NODES/pid-$n")" 2>/dev/null || true; done
  for n in $(seq "$NODE_COUNT"); do
    eventually 20 node_is_dead "$n" || {
      echo "node $n has processes left:" >&2
      processes_of "$n" | xargs -r ps -o pid,args -p >&2
      kill_node "$n"
      bad=1
    }
    node "$n" unshare --user --map-root-user --map-auto rm -rf "$NODES/$n" 2>/dev/null || true
  done
  drop_namespaces
  rm -rf "$NODES"
  [ $bad = 0 ] || fail "nodes left something behind"
}

drop_namespaces() {
  local name
  for name in $(ip netns list | awk '{ print $1 }' | grep -xE "moss-(switch-$NODE_SET|node-$NODE_SET-[0-9]+)"); do ip netns delete "$name"; done
}

# show_nodes: after a failed test, the end of each engine's log.
show_nodes() {
  local n
  [ -z "${BATS_TEST_COMPLETED:-}" ] || return 0
  for n in $(seq "$NODE_COUNT"); do
    echo "--- node $n ---"
    tail -n 30 "$NODES/log-$n"
  done
}
