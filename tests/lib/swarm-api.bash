# shellcheck shell=bash
# swarm-api.bash: a swarm of one node by the API. SWARM_ADDR is where the manager listens; name is the service of the test.

# get PATH: the body of the answer.
get() { api GET "$1" | sed '$d'; }
# show PATH JQ: what jq finds in the answer.
show() { get "$1" | jq -c "$2"; }
# answers STATUS METHOD PATH [BODY]: one request, and its status.
answers() {
  local want=$1
  shift
  run api "$@"
  expect line -1 "$want"
}
init() { api POST /swarm/init "{\"ListenAddr\":\"$SWARM_ADDR\",\"AdvertiseAddr\":\"$SWARM_ADDR\"$1}"; }
# in_swarm: this node is in a swarm from now on.
in_swarm() {
  [ "$(show /info .Swarm.LocalNodeState)" = '"active"' ] || init '' >/dev/null
  eventually 20 eval '[ "$(show /nodes "[.[].Status.State]" 2>/dev/null)" = "[\"ready\"]" ]'
}
# service_body FIELDS [TEMPLATE] [CONTAINER]: a service of that name, with fields beside the name.
service_body() { echo "{\"Name\":\"$name\"${1-},\"TaskTemplate\":{\"ContainerSpec\":{\"Image\":\"busybox:latest\",\"Command\":[\"sleep\",\"1000\"],\"StopGracePeriod\":1000000${3-}}${2-}}}"; }
# make FIELDS TEMPLATE CONTAINER: makes it. Sets id.
make() {
  id=$(api POST /services/create "$(service_body "$@")" | sed '$d' | jq -r .ID)
  [[ $id =~ ^[a-z0-9]{25}$ ]] || fail "no service: $id"
}
index() { show "$1" .Version.Index; }
runs() { [ "$(show "/tasks?filters=$(jq -rn --arg s "$1" '{service:[$s],"desired-state":["running"]}|tojson|@uri')" '[.[]|select(.Status.State=="running")]|length')" = "$2" ]; }
# filters KEY VALUE: one filter as a query has it.
filters() { jq -rn --arg k "$1" --arg v "$2" '{($k):[$v]}|tojson|@uri'; }
# count LIST "KEY VALUE": how many objects the filter picks. tasks "KEY VALUE" JQ: what jq finds in those tasks.
count() { show "/$1?filters=$(filters "${2%% *}" "${2#* }")" length; }
tasks() { show "/tasks?filters=$(filters "${1%% *}" "${1#* }")" "$2"; }
