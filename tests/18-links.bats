#!/usr/bin/env bats
# Links: one container knows another by a name of its own.
# bats file_tags=subids

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

field() { moss inspect "$1" | jq -r ".[0]$2"; }
names() { answer_of '/containers/json?all=1' -c ".[] | select(.Names[0] == \"/$1\") | .Names"; }
address() { field "$1" .NetworkSettings.IPAddress; }
# serve NAME: a container that answers on port 8080.
serve() {
  moss run -d --name "$1" --expose 8080 --expose 53/udp -e SECRET=x=y -e HOME=/x busybox nc -ll -p 8080 -e echo served
  eventually 10 listens "$1"
}
# listens NAME: does it take clients by now?
listens() { moss exec "$1" grep -q ':1F90 .* 0A ' /proc/net/tcp /proc/net/tcp6; }
# reaches CONTAINER NAME: does that name lead to an answer?
reaches() { [ "$(moss run --rm --network "container:$1" busybox nc "$2" 8080)" = served ]; }
# hosts_has CONTAINER TEXT
hosts_has() { [[ $(moss run --rm --network "container:$1" busybox cat /etc/hosts) == *"$2"* ]]; }
# move NAME: restarts a container so that it gets another address.
move() {
  local before other
  before=$(address "$1")
  moss stop -t 0 "$1"
  # Addresses are given in a ring: others take the old one's place until it is behind.
  for _ in 1 2 3; do
    moss start "$1"
    [ "$(address "$1")" = "$before" ] || return 0
    moss stop -t 0 "$1"
    other=$(unique other)
    moss run -d --name "$other" busybox sleep 1000
    others+=("$other")
  done
  fail "$1 did not move from $before"
}

@test "the linked container's name leads to it" {
  db=$(unique db) web=$(unique web)
  serve "$db"
  moss run -d --name "$web" --link "$db:store" busybox sleep 1000
  run moss run --rm --link "$db:store" busybox sh -c 'nc store 8080'
  expect output served
  run moss run --rm --link "$db:store" busybox cat /etc/hosts
  expect contains "$(address "$db")"$'\t'"store $(field "$db" .Id | cut -c1-12) $db"
  run moss run --rm --link "$db" busybox cat /etc/hosts
  expect contains "$(address "$db")"$'\t'"$db $(field "$db" .Id | cut -c1-12)"
  moss rm -f "$web" "$db"
}

@test "the environment tells of the linked container" {
  db=$(unique db) web=$(unique web)
  serve "$db"
  ip=$(address "$db")
  run moss run --rm --name "$web" --link "$db:my-store" -e MY_STORE_PORT_53_UDP_PROTO=mine busybox env
  expect contains "MY_STORE_NAME=/$web/my-store" "MY_STORE_PORT=udp://$ip:53" \
    "MY_STORE_PORT_8080_TCP=tcp://$ip:8080" "MY_STORE_PORT_8080_TCP_ADDR=$ip" \
    "MY_STORE_PORT_8080_TCP_PORT=8080" "MY_STORE_PORT_8080_TCP_PROTO=tcp" \
    "MY_STORE_PORT_53_UDP=udp://$ip:53" "MY_STORE_ENV_SECRET=x=y" "MY_STORE_PORT_53_UDP_PROTO=mine"
  expect lacks MY_STORE_ENV_HOME MY_STORE_ENV_PATH "MY_STORE_PORT_53_UDP_PROTO=udp"
  # A process that is added hears of it as well, as long as the other one runs.
  moss run -d --name "$web" --link "$db:my-store" -e MY_STORE_PORT_53_UDP_PROTO=mine busybox sleep 1000
  run moss exec -e MY_STORE_PORT=own "$web" env
  expect contains "MY_STORE_NAME=/$web/my-store" "MY_STORE_PORT_8080_TCP_ADDR=$ip" "MY_STORE_PORT_53_UDP_PROTO=mine" "MY_STORE_PORT=own"
  moss stop -t 0 "$db"
  run moss exec "$web" env
  expect status 0
  expect lacks MY_STORE_NAME
  moss rm -f "$db" "$web"
}

@test "inspect and the list show the link" {
  db=$(unique db) web=$(unique web)
  serve "$db"
  moss create --name "$web" --link "$db:store" busybox true
  expect equal "$(field "$web" '.HostConfig.Links | join(" ")')" "/$db:/$web/store"
  expect equal "$(names "$db")" "[\"/$db\",\"/$web/store\"]"
  expect equal "$(names "$web")" "[\"/$web\"]"
  run dock ps -a --filter "name=$web/store" --format '{{.Names}}'
  expect contains "$db"
  # What inspect shows can be given to create again.
  again=$(unique again)
  run api POST "/containers/create?name=$again" "{\"Image\":\"busybox\",\"Cmd\":[\"nc\",\"store\",\"8080\"],\"HostConfig\":{\"Links\":[\"/$db:/$web/store\"]}}"
  expect line -1 201
  run moss start -a "$again"
  expect output served
  moss rm -f "$web" "$again" "$db"
}

@test "links of the endpoint are links" {
  db=$(unique db) web=$(unique web)
  serve "$db"
  run api POST "/containers/create?name=$web" "{\"Image\":\"busybox\",\"Cmd\":[\"nc\",\"store\",\"8080\"],\"HostConfig\":{\"Links\":[\"$db:store\"]},\"NetworkingConfig\":{\"EndpointsConfig\":{\"bridge\":{\"Links\":[\"$db:store\",\"$db:second\"]}}}}"
  expect line -1 201
  expect equal "$(field "$web" '.HostConfig.Links | sort | join(" ")')" "/$db:/$web/second /$db:/$web/store"
  run moss start -a "$web"
  expect output served
  moss rm -f "$web" "$db"
}

@test "docker's --link" {
  db=$(unique db)
  serve "$db"
  run dock run --rm --link "$db:store" busybox nc store 8080
  expect output served
  moss rm -f "$db"
}

@test "a linked container that moves is found again, in the same file" {
  others=()
  db=$(unique db) web=$(unique web)
  serve "$db"
  moss run -d --name "$web" --link "$db:store" busybox sh -c 'echo "192.0.2.1 own store-line" >>/etc/hosts; tail -f /dev/null'
  reaches "$web" store
  eventually 20 hosts_has "$web" store-line
  inode=$(stat -c %i "$(field "$web" .HostsPath)")
  old=$(address "$db")
  move "$db"
  expect equal "$(stat -c %i "$(field "$web" .HostsPath)")" "$inode"
  hosts_has "$web" "$(address "$db")"$'\t'"store "
  if hosts_has "$web" "$old"$'\t'"store"; then fail "the old address $old is still there"; fi
  hosts_has "$web" "192.0.2.1 own store-line" # what the container wrote stays
  eventually 10 reaches "$web" store
  moss rm -f "$web" "$db" "${others[@]}"
}

@test "rename of either keeps the link" {
  db=$(unique db) web=$(unique web)
  serve "$db"
  moss create --name "$web" --link "$db:store" busybox sh -c 'echo $STORE_NAME; nc store 8080'
  moss rename "$db" "$db-new"
  moss rename "$web" "$web-new"
  expect equal "$(field "$web-new" '.HostConfig.Links[0]')" "/$db-new:/$web-new/store"
  expect equal "$(names "$db-new")" "[\"/$db-new\",\"/$web-new/store\"]"
  run moss start -a "$web-new"
  expect output "/$web-new/store"$'\n'served
  moss rm -f "$web-new" "$db-new"
}

@test "the linked container must run: 409" {
  db=$(unique db) web=$(unique web)
  moss create --name "$db" busybox sleep 1000
  moss create --name "$web" --link "$db:store" busybox true
  run api POST "/containers/$web/start"
  expect line -1 409
  expect contains "Cannot link to a non running container: /$db AS /$web/store"
  moss start "$db"
  moss start "$web"
  moss rm -f "$web" "$db"
}

@test "removal of the linked container takes the link along" {
  db=$(unique db) web=$(unique web)
  serve "$db"
  moss run -d --name "$web" --link "$db:store" busybox sleep 1000
  moss rm -f "$db"
  expect equal "$(field "$web" '.HostConfig.Links')" null
  moss restart -t 0 "$web"
  if hosts_has "$web" store; then fail "the line of a removed container is still there"; fi
  moss rm -f "$web"
}

@test "two links with one alias: the first one counts" {
  db=$(unique db) other=$(unique other) web=$(unique web)
  serve "$db"
  moss run -d --name "$other" busybox sleep 1000
  moss run -d --name "$web" --link "$db:store" --link "$other:store" busybox sleep 1000
  expect equal "$(field "$web" '.HostConfig.Links | join(" ")')" "/$db:/$web/store"
  hosts_has "$web" "$(address "$db")"$'\t'"store "
  reaches "$web" store
  moss rm -f "$web" "$other" "$db"
}

@test "whoever leaves the default network is linked no more, and is again once back" {
  db=$(unique db) web=$(unique web) net=$(unique net)
  moss network create "$net"
  serve "$db"
  moss run -d --name "$web" --link "$db:store" busybox sleep 1000
  moss network connect "$net" "$web"
  for gone in "$db" "$web"; do
    moss network disconnect bridge "$gone"
    if hosts_has "$web" store; then fail "the alias is still there without $gone"; fi
    moss network connect bridge "$gone"
    hosts_has "$web" "$(address "$db")"$'\t'"store $(field "$db" .Id | cut -c1-12) $db"
    reaches "$web" store
  done
  # The same at a start: the link asks for nothing, not even that the other one runs.
  moss network disconnect bridge "$web"
  moss stop -t 0 "$web" "$db"
  moss start "$web"
  if hosts_has "$web" store; then fail "the alias came back with a start in another network"; fi
  expect lacks --in "$(moss exec "$web" env)" STORE_NAME
  moss rm -f "$web" "$db"
  moss network rm "$net"
}

@test "DELETE with link=1 removes the link and nothing else" {
  db=$(unique db) web=$(unique web)
  serve "$db"
  moss run -d --name "$web" --link "$db:store" --link "$db:second" busybox sleep 1000
  run api DELETE "/containers/$web/store?link=1"
  expect line -1 204
  expect equal "$(field "$web" '.HostConfig.Links | join(" ")')" "/$db:/$web/second"
  if hosts_has "$web" "store "; then fail "the line of the removed link is still there"; fi
  hosts_has "$web" "second "
  run dock rm --link "$web/second"
  expect status 0
  expect equal "$(names "$db")" "[\"/$db\"]"
  is_running "$db"
  run api DELETE "/containers/$web/store?link=1"
  expect line -1 404
  run api DELETE "/containers/$web?link=1"
  expect line -1 409
  run api DELETE "/containers/$web-none?link=1"
  expect line -1 404
  is_running "$web"
  moss rm -f "$web" "$db"
}

@test "bad links and missing containers are 400" {
  db=$(unique db) self=$(unique self)
  moss create --name "$db" busybox true
  while IFS='|' read -r want text host; do
    run api POST "/containers/create?name=$self" "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":{${host//DB/$db}}}"
    [ "${lines[-1]}" = "$want" ] || fail "$host: $output"
    expect contains "$text"
  done <<TABLE
400|No such container: none-such|"Links":["none-such:x"]
400|itself|"Links":["$self:x"]
400|bad format for links|"Links":["DB:x:y"]
400|bad format for links|"Links":[""]
400|bad format for links|"Links":["DB:"]
400|invalid alias|"Links":["DB:a b"]
400|host type networking|"Links":["DB:x"],"NetworkMode":"host"
400|none type networking|"Links":["DB:x"],"NetworkMode":"none"
400|container type network|"Links":["DB:x"],"NetworkMode":"container:DB"
TABLE
  moss run -d --name "$self" --network host busybox sleep 1000
  run api POST /containers/create "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":{\"Links\":[\"$self:x\"]}}"
  expect line -1 400
  moss rm -f "$db" "$self"
}

@test "links outlive the engine" {
  db=$(unique db) web=$(unique web)
  moss run -d --name "$db" --restart always --expose 8080 busybox nc -ll -p 8080 -e echo served
  moss run -d --name "$web" --restart always --link "$db:store" busybox sleep 1000
  halt_engine
  spawn_engine
  eventually 30 is_running "$web"
  eventually 20 reaches "$web" store
  expect equal "$(field "$web" '.HostConfig.Links[0]')" "/$db:/$web/store"
  moss rm -f "$web" "$db"
}
