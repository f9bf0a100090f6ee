#!/bin/bash
# swarm-bench.sh: measures a swarm of three nodes on this machine (tests/lib/nodes.bash). Root only; nothing else should run.
#
#   hack/swarm-bench.sh [--changes N]
#
# --changes is how many tasks are replaced before memory is looked at again (200).
# Times are seconds of a clock on the wall, from the command's start to the state that it asks for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tests/lib/moss.bash
. tests/lib/moss.bash
# shellcheck source=tests/lib/nodes.bash
. tests/lib/nodes.bash
changes=200
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
  eventually 60 "$@"
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
leads() { request "$1" GET /nodes | jq -e '[.[] | select(.ManagerStatus.Leader)] | length == 1' >/dev/null 2>&1; }

make_nodes 3
trap remove_nodes EXIT
begun=$EPOCHREALTIME
on 1 swarm init >/dev/null
took 'init to the API answering as a manager' manages 1
for n in 2 3; do
  begun=$EPOCHREALTIME
  on "$n" swarm join --token "$(on 1 swarm join-token -q manager)" "$(address_of 1):2377" >/dev/null
  took "join as a manager, node $n, to the list showing it ready" ready 1 "$n"
done
begun=$EPOCHREALTIME
on 1 service create --detach --name web --replicas 3 --stop-grace-period 1s busybox sleep 100000 >/dev/null
took '3 replicas of an image that is there, create to running' runs 1 web 3
begun=$EPOCHREALTIME
on 1 service scale --detach web=50 >/dev/null
took '3 to 50 replicas on three nodes' runs 1 web 50
for n in 1 2 3; do row "memory of moss-swarm, manager, node $n, 50 tasks" "$(pss "$n")" 'MiB PSS'; done
on 1 service scale --detach web=20 >/dev/null
eventually 60 eval '! runs 1 web 21'
for ((done = 0; done < changes; done += 20)); do
  on 1 service update --detach --update-parallelism 0 --env-add "ROUND=$done" web >/dev/null
  changed() { [ "$(request 1 GET /services/web | jq -r .UpdateStatus.State)" = completed ]; }
  eventually 60 changed
done
row "memory of moss-swarm, manager, node 1, after $changes task changes" "$(pss 1)" 'MiB PSS'
dead=$(request 1 GET /info | jq -r .Swarm.NodeID)
begun=$EPOCHREALTIME
kill_node 1
took 'leader of three killed: the API answers again' leads 2
took 'leader of three killed: its tasks run elsewhere' runs_elsewhere 2 web "$dead" 20
