#!/usr/bin/env bats
# Docker's own command line and docker-compose 1.29, unmodified, on networks, ports, names and volumes.
#
# What the command line refuses itself at API 1.24 is not tested here: network prune, network create --attachable --ingress
# --scope --config-only, network inspect --verbose, network connect --driver-opt, run with several --network or with
# --mac-address in a network of one's own.

# bats file_tags=subids

load lib/moss

setup_file() {
  start_engine
  import_busybox
  # The images of the project: a busybox each, with its own content.
  local part
  for part in web app db; do
    api POST "/containers/create?name=make-$part" \
      "{\"Image\":\"busybox\",\"Cmd\":[\"sh\",\"-c\",\"echo page of $part >/var/www/index.html; mkdir /data; echo seed of $part >/data/seed\"],\"HostConfig\":{\"NetworkMode\":\"none\"}}" >/dev/null
    api POST "/containers/make-$part/start" >/dev/null
    api POST "/containers/make-$part/wait" >/dev/null
    api POST "/commit?container=make-$part&repo=own-$part&tag=latest" >/dev/null
    api DELETE "/containers/make-$part" >/dev/null
  done
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

field() { dock inspect --type container --format "$2" "$1"; }
# address CONTAINER NETWORK: its IPv4 address there.
address() { field "$1" "{{(index .NetworkSettings.Networks \"$2\").IPAddress}}"; }
# server NAME FLAG...: a container that serves its page on port 80.
server() {
  local name=$1
  shift
  dock run -d --name "$name" "$@" busybox sh -c "echo from $name >/var/www/index.html; exec httpd -f -p 80 -h /var/www" >/dev/null
  eventually 10 fetches "$name" http://127.0.0.1/ "from $name" # it runs before it listens
}
# fetch CONTAINER URL: what a container gets there, in at most a minute. (A static wget with -T cannot look names up.)
fetch() { dock exec "$1" timeout 60 wget -q -O - "$2"; }
fetches() { [ "$(fetch "$1" "$2" 2>/dev/null)" = "$3" ]; }
# got URL: what the host gets there.
got() { curl -sS --max-time 5 "$1"; }
# gives URL TEXT: the host gets that text there, once the server in the container listens.
gives() { eventually 10 eval '[ "$(got "'"$1"'" 2>/dev/null)" = "'"$2"'" ]'; }

@test "docker network: create with all it takes, ls with filters, inspect, rm, and what is refused" {
  name=$(unique net)
  run dock network create --label team=a --subnet 10.91.0.0/16 --gateway 10.91.0.9 --ip-range 10.91.7.0/24 --aux-address me=10.91.7.1 \
    -o com.docker.network.driver.mtu=1400 "$name"
  expect status 0
  id=$output
  expect --in "$id" matches '^[0-9a-f]{64}$'
  run dock network inspect --format '{{.Id}} {{.Driver}} {{.Scope}} {{.Internal}} {{.EnableIPv6}} {{.Labels.team}} {{index .Options "com.docker.network.driver.mtu"}}' "$name"
  expect output "$id bridge local false false a 1400"
  run dock network inspect --format '{{range .IPAM.Config}}{{.Subnet}} {{.IPRange}} {{.Gateway}} {{.AuxiliaryAddresses.me}}{{end}}' "${id:0:12}"
  expect output "10.91.0.0/16 10.91.7.0/24 10.91.0.9 10.91.7.1"
  run dock network ls --format '{{.Name}} {{.Driver}} {{.Scope}}'
  expect contains "bridge bridge local" "host host local" "none null local" "$name bridge local"
  run dock network ls -q --no-trunc --filter "name=$name"
  expect output "$id"
  run dock network ls -q --no-trunc --filter label=team=a --filter driver=bridge --filter type=custom
  expect output "$id"
  run dock network ls --filter type=builtin --format '{{.Name}}'
  expect lacks "$name"
  run dock network create "$name"
  expect status 1
  expect contains "network with name $name already exists"
  run dock network create --subnet 10.91.128.0/17 "$name-2"
  expect status 1
  expect contains overlap
  run dock network create -d nosuch "$name-2"
  expect status 1
  expect contains 'plugin "nosuch" not found'
  run dock network create --subnet 10.92.0.0/16 --gateway 10.93.0.1 "$name-2"
  expect status 1
  for built_in in bridge host none; do
    run dock network rm "$built_in"
    expect status 1
    expect contains "$built_in is a pre-defined network and cannot be removed"
    run dock network create "$built_in"
    expect status 1
  done
  run dock network rm "$name"
  expect output "$name"
  run dock network inspect "$name"
  expect status 1
  expect matches "network $name not found|No such network: $name"
  run dock network rm "$name"
  expect status 1
}

@test "docker network connect and disconnect: running and not, with alias, address and force" {
  name=$(unique join)
  dock network create --subnet 10.94.1.0/24 "$name-a" >/dev/null
  dock network create --subnet 10.94.2.0/24 "$name-b" >/dev/null
  server "$name-1" --network "$name-a"
  server "$name-2" --network "$name-b"
  run fetch "$name-1" "http://$name-2/"
  [ "$status" -ne 0 ] || fail "two networks see each other by name"
  run fetch "$name-1" "http://$(address "$name-2" "$name-b")/"
  [ "$status" -ne 0 ] || fail "two networks see each other by address"
  dock network connect --alias two --ip 10.94.1.77 "$name-a" "$name-2"
  expect equal "$(address "$name-2" "$name-a")" 10.94.1.77
  for host in "$name-2" two 10.94.1.77; do
    run fetch "$name-1" "http://$host/"
    expect output "from $name-2"
  done
  run dock network inspect --format '{{range .Containers}}{{.Name}} {{.IPv4Address}} {{end}}' "$name-a"
  expect contains "$name-1 10.94.1.2/24" "$name-2 10.94.1.77/24"
  run dock network connect "$name-a" "$name-2"
  expect status 1
  run dock network rm "$name-a"
  expect status 1
  expect contains "has active endpoints"
  dock network disconnect "$name-a" "$name-2"
  run fetch "$name-1" "http://two/"
  [ "$status" -ne 0 ] || fail "still there after disconnect"
  run dock network disconnect "$name-a" "$name-2"
  expect status 1
  expect contains "is not connected to"
  # One that does not run is in the network from its start on.
  dock stop -t 0 "$name-2" >/dev/null
  dock network connect --alias later "$name-a" "$name-2"
  dock start "$name-2" >/dev/null
  eventually 10 fetches "$name-1" http://later/ "from $name-2"
  dock network disconnect --force "$name-b" "$name-2"
  expect equal "$(field "$name-2" '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}')" "$name-a "
  dock rm -f "$name-1" "$name-2" >/dev/null
  run dock network rm "$name-a" "$name-b"
  expect output "$name-a"$'\n'"$name-b"
  run dock run -d --name "$name" --network host busybox sleep 1000
  run dock network connect bridge "$name"
  expect status 1
  expect contains "cannot be connected"
  dock rm -f "$name" >/dev/null
}

@test "docker run: --network, --network-alias, --ip, --ip6, --hostname, --link" {
  name=$(unique run)
  dock network create --ipv6 --subnet 10.95.1.0/24 --subnet fd00:95:1::/64 "$name" >/dev/null
  server "$name-1" --network "$name" --network-alias alpha --network-alias beta --ip 10.95.1.40 --ip6 fd00:95:1::40 --hostname box
  run dock exec "$name-1" sh -c 'ip addr show dev eth0; hostname; ip route'
  expect contains "inet 10.95.1.40/24" "inet6 fd00:95:1::40/64" $'\nbox\n' "default via 10.95.1.1"
  expect equal "$(field "$name-1" "{{with index .NetworkSettings.Networks \"$name\"}}{{.IPAddress}} {{.GlobalIPv6Address}} {{.MacAddress}} {{.Gateway}}{{end}}")" \
    "10.95.1.40 fd00:95:1::40 02:42:0a:5f:01:28 10.95.1.1"
  for host in alpha beta "$name-1" "$(dock inspect --format '{{slice .Id 0 12}}' "$name-1")" '[fd00:95:1::40]'; do
    run dock run --rm --network "$name" busybox timeout 60 wget -q -O - "http://$host/"
    expect output "from $name-1"
  done
  run dock run --rm --network "$name" --link "$name-1:linked" busybox timeout 60 wget -q -O - http://linked/
  expect output "from $name-1"
  run dock run --rm --network "$name" --ip 10.95.1.40 busybox true
  expect status 125
  expect contains "already in use"
  run dock run --rm --network "$name" --ip 10.96.0.1 busybox true
  expect status 125
  run dock run --rm --network "$name-none" busybox true
  expect status 125
  expect contains "network $name-none not found"
  # The default network knows no names but by links.
  server "$name-2"
  run dock run --rm --link "$name-2:old" busybox timeout 60 wget -q -O - http://old/
  expect output "from $name-2"
  run dock run --rm busybox timeout 2 wget -q -O - "http://$name-2/"
  [ "$status" -ne 0 ] || fail "the default network resolves names"
  run dock run --rm --network default --ip 10.95.1.41 busybox true
  expect status 125
  expect contains "user"
  run dock run --rm --network "container:$name-1" busybox timeout 60 wget -q -O - http://127.0.0.1/
  expect output "from $name-1"
  run dock run --rm --network none busybox ip -o link
  expect lacks eth0
  dock rm -f "$name-1" "$name-2" >/dev/null
  dock network rm "$name" >/dev/null
}

@test "docker run: --dns, --dns-search, --dns-option, --add-host and host-gateway" {
  name=$(unique dns)
  dock network create "$name" >/dev/null
  run dock run --rm --dns 192.0.2.53 --dns-search a.test --dns-option ndots:3 busybox cat /etc/resolv.conf
  expect contains "nameserver 192.0.2.53" "search a.test" "ndots:3"
  run dock run --rm --network "$name" --dns-search b.test busybox cat /etc/resolv.conf
  expect contains "nameserver 127.0.0.11" "search b.test"
  run dock run --rm --add-host one.test:192.0.2.1 --add-host gate:host-gateway busybox cat /etc/hosts
  expect matches '^192\.0\.2\.1[[:space:]]+one\.test$'
  expect matches '^[0-9.]+[[:space:]]+gate$'
  expect lacks host-gateway
  dock network rm "$name" >/dev/null
}

@test "docker run -p and -P, docker port: what the host reaches, and a conflict" {
  name=$(unique port)
  server "$name" -p 127.0.0.1::80 -p 127.0.0.1::53/udp --expose 81
  run dock port "$name" 80
  expect matches '^127\.0\.0\.1:[0-9]+$'
  at=$output
  gives "http://$at/" "from $name"
  run dock port "$name"
  expect contains "80/tcp -> $at" "53/udp -> 127.0.0.1:"
  run dock ps --filter "name=$name" --format '{{.Ports}}'
  expect contains "$at->80/tcp" "81/tcp"
  run dock run -d --name "$name-2" -p "$at:80" busybox sleep 1000
  expect status 125
  expect contains "port is already allocated"
  dock rm -f "$name-2" >/dev/null
  server "$name-3" -P --expose 80
  gives "http://127.0.0.1:$(dock port "$name-3" 80 | sed -n '1s/.*://p')/" "from $name-3"
  dock restart -t 0 "$name" >/dev/null
  at=$(dock port "$name" 80)
  gives "http://$at/" "from $name"
  dock rm -f "$name" "$name-3" >/dev/null
  run got "http://$at/"
  [ "$status" -ne 0 ] || fail "the port is still open"
}

@test "docker volume and the mounts of run, with a network" {
  name=$(unique vol)
  dock network create "$name" >/dev/null
  dock volume create --label team=b -o type=tmpfs -o o=size=1m "$name-t" >/dev/null
  server "$name" --network "$name" -v "$name:/var/www" --mount "src=$name-t,dst=/t" --mount type=tmpfs,dst=/m,tmpfs-size=1m --volume /anon
  run dock run --rm --volumes-from "$name:ro" --network "$name" busybox sh -c "timeout 60 wget -q -O - http://$name/ && cat /var/www/index.html; (echo x >/anon/x) 2>/dev/null || echo read-only"
  expect contains $'from '"$name"$'\nfrom '"$name" read-only
  run dock volume ls -q --filter label=team=b
  expect output "$name-t"
  run dock volume rm "$name"
  expect status 1
  expect contains "volume is in use"
  dock rm -fv "$name" >/dev/null
  run dock volume rm "$name" "$name-t"
  expect status 0
  dock network rm "$name" >/dev/null
}

# compose ARG...: docker-compose on the project of this test.
compose() {
  DOCKER_HOST=unix://$MOSS_SOCK DOCKER_CONFIG=$MOSS_DIR/docker-config COMPOSE_API_VERSION=$version COMPOSE_INTERACTIVE_NO_CLI=1 \
    timeout --foreground -k 2 120 docker-compose --ansi never -p "$project" -f "$BATS_TEST_TMPDIR/$version.yml" "$@"
}
# project_file VERSION-OF-THE-FORMAT: three services, two networks of the project and one that is there already.
project_file() {
  cat <<YAML
version: "$1"
services:
  web:
    image: own-web
    stop_signal: SIGKILL
    command: httpd -f -p 80 -h /var/www
    ports: ["127.0.0.1::80"]
    depends_on: [app]
    networks: [front, outside]
  app:
    image: own-app
    stop_signal: SIGKILL
    command: sh -c "hostname >/var/www/index.html; echo app is up; exec httpd -f -p 8080 -h /var/www"
    depends_on: [db]
    environment: {COLOUR: blue}
    networks:
      front: {aliases: [backend]}
      back:
  db:
    image: own-db
    stop_signal: SIGKILL
    command: httpd -f -p 5432 -h /data
    volumes: ["data:/data", "/scratch"]
    networks: [back]
networks:
  front:
  back: {internal: true}
  outside: {external: {name: $project-outside}}
volumes:
  data:
YAML
}
# inside SERVICE URL: what the first container of a service gets there.
inside() { fetch "${project}_$1_1" "$2"; }
# shows SERVICE URL TEXT: whether that is what it finds there. Servers listen a moment after their containers run.
shows() { [ "$(inside "$1" "$2" 2>/dev/null)" = "$3" ]; }
# remains: what there is of the project, one line each.
remains() {
  dock ps -a --format '{{.Names}}' | grep -F "$project"
  dock network ls --format '{{.Name}}' | grep -F "$project"
  dock volume ls -q | grep -F "$project"
}

# life VERSION FORMAT: a project comes up, does what it is for, and goes without a trace.
life() {
  version=$1 project=$(unique comp | tr -d -)
  [[ $(docker-compose version --short) == 1.* ]] || skip "docker-compose 1.x is not here: hack/install-deps.sh --for test, on Debian 12"
  project_file "$2" >"$BATS_TEST_TMPDIR/$version.yml"
  before=$(dock volume ls -q)
  dock network create "$project-outside" >/dev/null
  server "$project-neighbour" --network "$project-outside" --network-alias neighbour
  run compose config -q
  expect status 0
  run compose up -d
  expect status 0
  run compose ps
  expect matches "${project}_web_1 .*Up.*127.0.0.1:[0-9]+->80/tcp"
  expect matches "${project}_app_1 .*Up"
  expect matches "${project}_db_1 .*Up"
  # Names, across the networks that a service is in and no others.
  for host in app backend "${project}_app_1"; do
    eventually 10 shows web "http://$host:8080/" "$(dock inspect --format '{{.Config.Hostname}}' "${project}_app_1")"
  done
  eventually 10 shows app http://db:5432/seed "seed of db"
  eventually 10 shows app http://web/ "page of web"
  eventually 10 shows web http://neighbour/ "from $project-neighbour"
  run inside web http://db:5432/seed
  [ "$status" -ne 0 ] || fail "web sees db, which is in no network of its"
  if [ "$version" != 1.22 ]; then
    run compose exec -T db ip route
    expect lacks default
  fi
  run compose exec -T app timeout 60 wget -q -O - http://db:5432/seed
  expect output "seed of db"
  run compose exec -T app sh -c 'echo $COLOUR; exit 7'
  expect status 7
  expect output blue
  # Ports and logs.
  run compose port web 80
  expect matches '^127\.0\.0\.1:[0-9]+$'
  gives "http://$output/" "page of web"
  run compose logs app
  expect contains "app_1" "app is up"
  # The same again changes nothing; two of a kind share their name.
  run compose up -d
  expect contains "is up-to-date"
  run compose up -d --scale app=2
  expect status 0
  run compose exec -T web nslookup -type=a app
  expect contains "$(address "${project}_app_1" "${project}_front")" "$(address "${project}_app_2" "${project}_front")"
  compose exec -T db sh -c 'echo kept >/data/kept'
  run compose restart -t 1
  expect status 0
  eventually 10 shows app http://db:5432/kept kept
  run compose stop -t 1
  expect status 0
  run compose ps
  expect lacks " Up "
  run compose start
  expect status 0
  eventually 10 eval '[ "$(inside web http://backend:8080/ 2>/dev/null | wc -l)" = 1 ]'
  eventually 10 shows app http://db:5432/kept kept
  run compose down -v -t 1
  expect status 0
  expect contains "Network $project-outside is external, skipping"
  expect equal "$(remains)" "$project-neighbour"$'\n'"$project-outside"
  dock rm -f "$project-neighbour" >/dev/null
  dock network rm "$project-outside" >/dev/null
  expect equal "$(dock volume ls -q)" "$before"
}

@test "docker-compose at API 1.22: a project of three services comes up and goes without a trace" { life 1.22 2; }
@test "docker-compose at API 1.24: a project of three services comes up and goes without a trace" { life 1.24 2.1; }
