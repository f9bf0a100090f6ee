# shellcheck shell=bash
# services.bash: what tests of a swarm ask of its services, tasks and containers. It needs lib/nodes. Node MANAGER (1) is asked.

# running SERVICE: how many of its tasks run. runs SERVICE COUNT: is it so many?
running() { docker_on "${MANAGER:-1}" service ps --filter desired-state=running --format '{{.CurrentState}}' "$1" | grep -c '^Running'; }
runs() { [ "$(running "$1")" = "$2" ]; }

# containers_of N SERVICE: the names of its containers that run on a node.
containers_of() { on "$1" ps --filter "label=com.docker.swarm.service.name=$2" --format '{{.Names}}'; }
has_containers() { [ "$(containers_of "$1" "$2" | wc -l)" = "$3" ]; }

# container_of N SERVICE: the one that runs on a node. Its id.
container_of() {
  local id
  id=$(on "$1" ps -q --no-trunc --filter "label=com.docker.swarm.service.name=$2")
  [ "$(wc -w <<<"$id")" = 1 ] || fail "node $1 has $(wc -w <<<"$id") containers of $2, want one" || return
  echo "$id"
}

# exec_in N SERVICE CMD...: runs a command in it.
exec_in() {
  local n=$1 id
  id=$(container_of "$n" "$2") || return
  shift 2
  on "$n" exec "$id" "$@"
}

# address_in N SERVICE NETWORK: the address of its task on a node. virtual_address SERVICE NETWORK: that of the service.
address_in() { on "$1" inspect --format "{{(index .NetworkSettings.Networks \"$3\").IPAddress}}" "$(container_of "$1" "$2")"; }
virtual_address() {
  local id
  id=$(docker_on "${MANAGER:-1}" network inspect --format '{{.Id}}' "$2")
  docker_on "${MANAGER:-1}" service inspect "$1" | jq -r --arg id "$id" '.[0].Endpoint.VirtualIPs[] | select(.NetworkID == $id) | .Addr[:-3]'
}

# serve NAME [OPTION]...: a service whose tasks tell by HTTP their node and the client's address, as /cgi-bin/who, and have /page,
# which says hello. It returns once they run, unless --detach is among the options. A task that is stopped takes no connection from
# then on, and ends those that it has.
serve() {
  local name=$1
  shift
  # shellcheck disable=SC2016 # for the shells in the container
  on "${MANAGER:-1}" service create --quiet --name "$name" --stop-grace-period 1s --env 'NODE={{.Node.Hostname}}' "$@" busybox sh -c '
    mkdir -p /w/cgi-bin
    printf "%s\n" "#!/bin/sh" "echo; echo \$NODE \$REMOTE_ADDR" >/w/cgi-bin/who
    chmod +x /w/cgi-bin/who
    echo hello >/w/page
    httpd -f -p 0.0.0.0:80 -h /w &
    server=$!
    trap "kill $server; usleep 500000; exit 0" TERM
    wait $server' >/dev/null
}
