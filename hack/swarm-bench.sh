#!/bin/bash
# swarm-bench.sh: measures a swarm of three managers and two workers on this machine (tests/lib/nodes.bash). Root only; nothing else
# should run.
#
#   hack/swarm-bench.sh [--changes N]
#
# --changes is how many tasks are replaced before memory is looked at again (1000).
# Times are seconds of a clock on the wall, from the command's start to the state that it asks for. All nodes share the processors
# of this machine. Throughput is that of one connection between two nodes; hack/netprobe.py is the client and the server, in the
# network namespaces of containers and hosts.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tests/lib/moss.bash
. tests/lib/moss.bash
# shellcheck source=tests/lib/nodes.bash
. tests/lib/nodes.bash
changes=1000 begun=
if [ "${1:-}" = --changes ]; then changes=$2; fi
[ "$(id -u)" = 0 ] || {
  echo 'swarm-bench: only root makes users and network namespaces' >&2
  exit 1
}

row() { printf '%-62s %8s %s\n' "$@"; }
# took NAME UNTIL...: prints how long after $begun UNTIL is true.
took() {
  local name=$1
  shift
  until "$@"; do # no pauses that grow: it is the time that counts
    [ "${EPOCHREALTIME%.*}" -lt $((${begun%.*} + 360)) ] || fail "not true in time: $*"
    sleep 0.05
  done
  row "$name" "$(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }')" s
}
# request N METHOD PATH: the answer of a node's engine, by a client that costs little.
request() { curl -sS --max-time 60 --unix-socket "$NODES/$1/s" -X "$2" "http://moss/v1.24$3"; }
manages() { request "$1" GET /nodes | jq -e 'type == "array" and length > 0' >/dev/null 2>&1; }
ready() { [ "$(request "$1" GET /nodes | jq '[.[] | select(.Status.State == "ready")] | length')" = "$2" ]; }
# runs N SERVICE COUNT: do so many tasks run, as node N knows? places leaves out those of one node.
runs() { [ "$(running "$1" "$2" '')" -ge "$3" ]; }
runs_elsewhere() { [ "$(running "$1" "$2" "$3")" -ge "$4" ]; }
running() {
  request "$1" GET "/tasks?filters=%7B%22service%22%3A%5B%22$2%22%5D%2C%22desired-state%22%3A%5B%22running%22%5D%7D" |
    jq --arg dead "$3" '[.[] | select(.Status.State == "running" and .NodeID != $dead)] | length' 2>/dev/null || echo 0
}
pss() { awk '/^Pss:/ { sum += $2 } END { printf "%.1f", sum / 1024 }' "/proc/$(swarm_of "$1")/smaps_rollup"; }
role_of() { if [ "$1" -le 3 ]; then echo manager; else echo worker; fi; }

# The network: a container of a service on the nodes 4 and 5, and one with a published port that is no task.
# pid_on N LABEL: the process of a node's container with this label.
pid_on() {
  local id
  id=$(request "$1" GET "/containers/json?filters=%7B%22label%22%3A%5B%22$2%22%5D%7D" | jq -r '.[0].Id')
  request "$1" GET "/containers/$id/json" | jq .State.Pid
}
in_net() { nsenter --net="/proc/$1/ns/net" -- "${@:2}"; }
on_host() { nsenter --net="/run/netns/$(namespace_of "$1")" -- "${@:2}"; }
# serve_at COMMAND...: starts the server of netprobe on port 7000 by a command that chooses the namespace, and awaits it.
serve_at() {
  "$@" hack/netprobe.py serve 7000 8>&- &
  servers+=($!)
  eventually 10 "$@" hack/netprobe.py turn 127.0.0.1 7000 1 >/dev/null 2>&1
}
# probe "MEASUREMENT" COMMAND...: what the client of netprobe prints, by a command that chooses the namespace.
# shellcheck disable=SC2086 # the words of one measurement
probe() { "${@:2}" hack/netprobe.py $1; }
measure_network() {
  local near far plain pinned address
  on 1 network create --driver overlay bench >/dev/null
  on 1 service create --detach --name net --mode global --network bench busybox sleep 100000 >/dev/null
  on 1 service create --detach --name pin --constraint node.hostname==node5 --publish 17000:7000 busybox sleep 100000 >/dev/null
  on 5 run --detach --label plain=1 --publish 17001:7000 busybox sleep 100000 >/dev/null
  eventually 60 runs 1 net 5
  eventually 60 runs 1 pin 1
  near=$(pid_on 4 com.docker.swarm.service.name=net) far=$(pid_on 5 com.docker.swarm.service.name=net)
  plain=$(pid_on 5 plain=1) pinned=$(pid_on 5 com.docker.swarm.service.name=pin)
  address=$(in_net "$far" ip -4 -o address show eth0 | awk '{ sub("/.*", "", $4); print $4 }')
  serve_at in_net "$far"
  serve_at in_net "$plain"
  serve_at in_net "$pinned"
  serve_at on_host 5
  row 'one stream between two nodes, overlay' "$(probe "stream $address 7000 5" in_net "$near")" MB/s
  row 'one stream between two nodes, bare link' "$(probe "stream $(address_of 5) 7000 5" on_host 4)" MB/s
  row 'a byte and its answer, overlay' "$(probe "turn $address 7000 2000" in_net "$near")" ms
  row 'a byte and its answer, bare link' "$(probe "turn $(address_of 5) 7000 2000" on_host 4)" ms
  row 'a connection to a published port of a plain container' "$(probe "connect $(address_of 5) 17001 500" on_host 4)" ms
  row 'a connection through the ingress to a task of that node' "$(probe "connect $(address_of 5) 17000 500" on_host 4)" ms
  row 'memory of moss-swarm, worker, after the streams' "$(pss 5)" 'MiB PSS'
  on 1 service rm net pin >/dev/null
}
leads() { request "$1" GET /nodes | jq -e '[.[] | select(.ManagerStatus.Leader)] | length == 1' >/dev/null 2>&1; }

claim_nodes
make_nodes 5
servers=()
finish() {
  if [ ${#servers[@]} -gt 0 ]; then kill "${servers[@]}" 2>/dev/null || true; fi
  remove_nodes
}
trap finish EXIT
begun=$EPOCHREALTIME
on 1 swarm init >/dev/null
took 'init to the API answering as a manager' manages 1
for n in 2 3; do
  begun=$EPOCHREALTIME
  on "$n" swarm join --token "$(on 1 swarm join-token -q manager)" "$(address_of 1):2377" >/dev/null
  took "join as a manager, node $n, to the list showing it ready" ready 1 "$n"
done
for n in 4 5; do on "$n" swarm join --token "$(on 1 swarm join-token -q worker)" "$(address_of 1):2377" >/dev/null; done
eventually 60 ready 1 5
begun=$EPOCHREALTIME
on 1 service create --detach --name web --replicas 3 --stop-grace-period 1s busybox sleep 100000 >/dev/null
took '3 replicas of an image that is there, create to running' runs 1 web 3
begun=$EPOCHREALTIME
on 1 service scale --detach web=50 >/dev/null
took '3 to 50 replicas on five nodes' runs 1 web 50
for n in 1 5; do row "memory of moss-swarm, $(role_of "$n"), 50 tasks" "$(pss "$n")" 'MiB PSS'; done
on 1 service scale --detach web=20 >/dev/null
eventually 60 eval '! runs 1 web 21'
row 'memory of moss-swarm, leader, 20 tasks' "$(pss 1)" 'MiB PSS'
row 'memory of moss-swarm, worker, 20 tasks' "$(pss 5)" 'MiB PSS'
for ((done = 0; done < changes; done += 20)); do
  on 1 service update --detach --update-parallelism 0 --env-add "ROUND=$done" web >/dev/null
  changed() { [ "$(request 1 GET /services/web | jq -r .UpdateStatus.State)" = completed ]; }
  eventually 60 changed
done
row "memory of moss-swarm, leader, after $changes task changes" "$(pss 1)" 'MiB PSS'
row "memory of moss-swarm, worker, after $changes task changes" "$(pss 5)" 'MiB PSS'
measure_network
dead=$(request 1 GET /info | jq -r .Swarm.NodeID)
begun=$EPOCHREALTIME
kill_node 1
took 'leader of three killed: the API answers again' leads 2
took 'leader of three killed: its tasks run elsewhere' runs_elsewhere 2 web "$dead" 20
