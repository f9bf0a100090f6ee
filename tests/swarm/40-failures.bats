#!/usr/bin/env bats
# What goes wrong on the machines of a swarm: expired certificates, full disks, copied and damaged folders, removed nodes, ports
# that are taken, and strangers. Nodes 1 and 2 stay in their swarm; node 3 is the one that leaves it and comes back.

load ../lib/moss
load ../lib/nodes

setup_file() {
  make_nodes 3
  docker_on 1 swarm init >/dev/null
  for n in 2 3; do enter "$n" >/dev/null; done
  docker_on 1 network create --driver overlay near >/dev/null
  # One task on each node, by which tests see that packets arrive.
  docker_on 1 service create --detach --name near --network near --mode global --stop-grace-period 1s busybox sleep 100000 >/dev/null
  eventually 30 connected
}
teardown_file() {
  ! mountpoint -q "$NODES/3/small" || umount -l "$NODES/3/small"
  remove_nodes
}
setup() {
  name=$(unique fault) helpers=()
  connected || eventually 10 connected || restore # what a failed test has left
}
teardown() {
  local item
  for item in "${helpers[@]}"; do kill "$item" 2>/dev/null || true; done
  ip netns exec "$(namespace_of 2)" nft delete table ip stranger 2>/dev/null || true
  show_nodes
  for item in $(docker_on 1 service ls -q --filter name=fault-); do docker_on 1 service rm "$item" >/dev/null; done
}

# enter N: joins the swarm as a worker.
enter() { docker_on "$1" swarm join --token "$(docker_on 1 swarm join-token -q worker)" "$(address_of 1):2377"; }
# leave: node 3 gives up what it has of a swarm, and node 1 forgets it at once. reenter: and joins again.
leave() {
  local id
  docker_on 3 swarm leave --force 2>/dev/null || true
  for id in $(docker_on 1 node ls -q); do
    case $id in
      "$(info 1 NodeID)" | "$(info 2 NodeID)") ;;
      *) docker_on 1 node rm --force "$id" >/dev/null ;;
    esac
  done
}
reenter() {
  leave
  enter 3 >/dev/null
  eventually 30 connected
}

# restore: node 3 from the start, after a failed test.
restore() {
  kill_node 3
  ! mountpoint -q "$NODES/3/small" || umount -l "$NODES/3/small"
  revive_node 3
  reenter
}

info() { docker_on "$1" info --format "{{.Swarm.$2}}"; }
says() { [[ $(info "$1" Error) == *"$2"* ]]; }
is_active() { [ "$(info "$1" LocalNodeState)" = active ]; }
ready_nodes() { [ "$(docker_on 1 node ls --format '{{.Status}}' | grep -c Ready)" = "$1" ]; }
runs() {
  [ "$(docker_on 1 service ps --filter desired-state=running --format '{{.CurrentState}}' "$1" | grep -c '^Running')" = "$2" ]
}

# container_of N [SERVICE]: the id of its container that runs on a node. address_in N: its address in the network.
container_of() { docker_on "$1" ps -q --no-trunc --filter "label=com.docker.swarm.service.name=${2:-near}" | head -n 1; }
address_in() { docker_on "$1" inspect --format '{{.NetworkSettings.Networks.near.IPAddress}}' "$(container_of "$1")"; }
# reaches FROM TO: does a packet from the task of one node arrive at that of another, and one back?
reaches() {
  local address container
  address=$(address_in "$2" 2>/dev/null) && container=$(container_of "$1") && [ -n "$address" ] && [ -n "$container" ] &&
    docker_on "$1" exec "$container" ping -c 1 -W 1 "$address" >/dev/null 2>&1
}
# connected: are all three nodes ready, and do their tasks reach each other?
connected() { ready_nodes 3 && reaches 1 3 && reaches 3 2 && reaches 2 1; }

# logged N TEXT: has the engine or moss-swarm of a node written it since mark_log N?
mark_log() { stat -c %s "$NODES/log-$1" >"$NODES/mark-$1"; }
logged() { tail -c "+$(cat "$NODES/mark-$1")" "$NODES/log-$1" | grep -aqF -- "$2"; }

# stranger N ARG...: tests/lib/stranger.py on a node's host, as root. stranger_in NETNS ARG...: elsewhere. helper FILE NETNS
# ARG...: the same in the background until the test ends; it is ready when helper returns, and FILE has its output.
host_net() { echo "/run/netns/$(namespace_of "$1")"; }
stranger() { stranger_in "$(host_net "$1")" "${@:2}"; }
stranger_in() { nsenter --net="$1" python3 "$moss_top/tests/lib/stranger.py" "${@:2}"; }
helper() {
  local file=$1 net=$2
  shift 2
  : >"$file"
  nsenter --net="$net" python3 "$moss_top/tests/lib/stranger.py" "$@" </dev/null >"$file" 2>&1 3>&- 4>&- &
  helpers+=($!)
  eventually 10 file_has "$file" ready
}

swarm_folder() { echo "$NODES/$1/root/swarm"; }
# subject_of CERT: whom it names, as openssl reads it.
subject_of() {
  openssl x509 -in "$1" -noout -subject -nameopt RFC2253 | sed -E 's|^subject=CN=(.*),OU=(.*),O=(.*)$|/O=\3/OU=\2/CN=\1|'
}
certificates_of() { echo "$(swarm_folder "$1")/state/certificates"; }

@test "an expired certificate: the node says so and its containers go on; a good one brings it back" {
  dir=$(certificates_of 3) container=$(container_of 3)
  cp -p "$dir/swarm-node.crt" "$NODES/good.crt"
  make_expired "$dir/swarm-node.key" "$dir/swarm-node.crt"
  kill -KILL "$(swarm_of 3)"
  eventually 30 says 3 'Swarm certificates have expired. To replace them, leave the swarm and join again.'
  expect equal "$(info 3 LocalNodeState)" error
  expect equal "$(container_of 3)" "$container"
  cat "$NODES/good.crt" >"$dir/swarm-node.crt"
  kill -KILL "$(swarm_of 3)"
  eventually 30 is_active 3
  eventually 30 connected
  expect equal "$(container_of 3)" "$container"
}
# make_expired KEY CERT: writes over a node's certificate with one of the year 2020. Who signs it does not matter: it is the
# time that is looked at first.
make_expired() {
  local dir subject
  dir=$(mktemp -d "$NODES/expired.XXXXXX")
  sed -E '/^$|: /d' "$1" >"$dir/key"
  subject=$(subject_of "$2")
  : >"$dir/index"
  cat >"$dir/config" <<CONFIG
[ca]
default_ca=own
[own]
database=$dir/index
rand_serial=yes
new_certs_dir=$dir
default_md=sha256
policy=any
[any]
organizationName=supplied
organizationalUnitName=supplied
commonName=supplied
CONFIG
  openssl req -new -key "$dir/key" -subj "$subject" -out "$dir/request"
  openssl ca -batch -selfsign -notext -config "$dir/config" -keyfile "$dir/key" -in "$dir/request" -startdate 20200101000000Z \
    -enddate 20200102000000Z -out "$dir/cert" 2>"$dir/log" || cat "$dir/log"
  cat "$dir/cert" >"$2"
}

@test "a swarm's folder on a second machine: it says so, the first one and the swarm go on" {
  leave
  kill_node 3
  cp -a "$(swarm_folder 2)" "$NODES/3/root/"
  chown -R "$(user_of 3):" "$(swarm_folder 3)"
  node=$(info 2 NodeID) container=$(container_of 2)
  printf '%032d\n' 3 >"$NODES/machine-id"
  chmod 0644 "$NODES/machine-id"
  # shellcheck disable=SC2016 # for the inner shell
  unshare --mount bash -c 'mount --bind "$NODES/machine-id" /etc/machine-id && cd "$1" && . ./moss.bash && . ./nodes.bash && launch_node 3' \
    launch "$moss_top/tests/lib"
  await_node 3
  eventually 20 says 3 'was made on another machine: two machines cannot be the same node'
  expect equal "$(info 3 LocalNodeState)" error
  run docker_on 3 swarm leave
  expect status 1
  expect contains 'swarm leave --force'
  expect equal "$(info 2 NodeID) $(info 2 LocalNodeState)" "$node active"
  expect equal "$(container_of 2)" "$container"
  for _ in 1 2 3; do eventually 10 reaches 1 2; done
  docker_on 3 swarm leave --force
  [ ! -e "$(swarm_folder 3)" ]
  kill_node 3
  revive_node 3
  reenter
  expect equal "$(container_of 2)" "$container"
}

@test "a node that is removed while it is away: it says so, learns nothing, and comes back as another one" {
  id=$(info 3 NodeID)
  cp "$(certificates_of 3)"/swarm-node.{crt,key} "$NODES/"
  run stranger 2 table "$(address_of 1)" "$NODES"/swarm-node.{crt,key}
  expect matches '^heard [0-9]+ .*"name":"near"'
  kill_node 3
  docker_on 1 node rm --force "$id"
  run stranger 2 table "$(address_of 1)" "$NODES"/swarm-node.{crt,key}
  expect matches '^(refused|heard) 0 '
  revive_node 3
  eventually 40 says 3 "they do not know this node any more. The last error: "
  eventually 20 says 3 "node $id was removed from swarm"
  expect equal "$(info 3 LocalNodeState)" pending
  expect equal "$(docker_on 3 ps -q)" ''
  docker_on 3 swarm leave --force
  expect equal "$(docker_on 3 ps -aq)" ''
  reenter
  [ "$(info 3 NodeID)" != "$id" ]
}

@test "two nodes with one host name: both are there, constraints mean both, and the name is ambiguous" {
  leave
  nsenter --uts="/proc/$(engine_of 3)/ns/uts" hostname node2
  reenter
  expect equal "$(docker_on 1 node ls --format '{{.Hostname}} {{.Status}}' | grep -c 'node2 Ready')" 2
  docker_on 1 service create --detach --name "$name" --replicas 4 --constraint node.hostname==node2 busybox sleep 1000
  eventually 30 runs "$name" 4
  for n in 2 3; do expect equal "$(docker_on "$n" ps -q --filter "label=com.docker.swarm.service.name=$name" | wc -l)" 2; done
  expect equal "$(docker_on 1 service ps --format '{{.Node}}' "$name" | sort | uniq -c | xargs)" '4 node2'
  for verb in inspect ps 'update --label-add a=b' rm; do
    # shellcheck disable=SC2086 # a verb with its options
    run docker_on 1 node $verb node2
    expect status 1
    expect contains 'node node2 is ambiguous (2 matches found)'
  done
  for n in 2 3; do expect equal "$(docker_on 1 node ps --filter "name=$name" -q "$(info "$n" NodeID)" | wc -l)" 2; done
  leave
  nsenter --uts="/proc/$(engine_of 3)/ns/uts" hostname node3
  reenter
}

@test "tasks that cannot start or end at once: five old ones are kept of each place, and no more containers" {
  on 1 service create --detach --name "$name-ends" --restart-delay 100ms --constraint node.hostname==node2 busybox sh -c 'exit 3'
  on 1 service create --detach --name "$name-image" --restart-delay 100ms --constraint node.hostname==node2 127.0.0.1:1/none
  on 1 service create --detach --name "$name-mount" --restart-delay 100ms --constraint node.hostname==node2 \
    --mount type=bind,source=/nowhere,target=/x busybox sleep 1000
  for kind in ends image mount; do
    : >"$NODES/seen"
    eventually 60 restarted "$name-$kind" 11
    eventually 20 bounded "$name-$kind"
  done
  run docker_on 1 service ps --no-trunc --format '{{.Error}}' "$name-ends"
  expect contains 'task: non-zero exit (3)'
  run docker_on 1 service ps --no-trunc --format '{{.Error}}' "$name-image"
  expect contains 'pull image 127.0.0.1:1/none'
  run docker_on 1 service ps --no-trunc --format '{{.Error}}' "$name-mount"
  expect contains '/nowhere'
  expect equal "$(containers_left "$name-image") $(containers_left "$name-mount")" '0 0'
}
# restarted SERVICE COUNT: have so many tasks of it been seen since the first call? bounded SERVICE: is what is left of them?
restarted() {
  docker_on 1 service ps -q "$1" >>"$NODES/seen"
  [ "$(sort -u "$NODES/seen" | wc -l)" -ge "$2" ]
}
containers_left() { docker_on 2 ps -aq --filter "label=com.docker.swarm.service.name=$1" | wc -l; }
bounded() { [ "$(docker_on 1 service ps -q "$1" | wc -l)" -le 6 ] && [ "$(containers_left "$1")" -le 6 ]; }

@test "a node sends from the addresses of its own tasks alone: nobody hears the rest" {
  own=$(address_in 2)
  pid=$(docker_on 1 inspect --format '{{.State.Pid}}' "$(container_of 1)")
  helper "$NODES/heard" "/proc/$pid/ns/net" hear 9000
  stranger_in "$(containers_net 2)" spoof moss-swarm0 "$(address_in 1)" 9000 "$own" "$(address_in 3)" "$(address_in 1)" "${own%.*}.1" \
    "$(address_of 3)" 127.0.0.1 192.0.2.7 "$own"
  eventually 20 file_has "$NODES/heard" last
  expect equal "$(xargs <"$NODES/heard")" "ready $own from $own last from $own"
}
# containers_net N: the network namespace in which a node's bridges and its tunnel are.
containers_net() { tr '\0' '\n' <"/proc/$(swarm_of "$1")/cmdline" | sed -n '/^--netns$/{n;p}'; }

@test "the table port tells nothing to strangers, and nobody plays it without a manager's certificate" {
  run stranger 2 table "$(address_of 1)"
  expect matches '^refused 0 '
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$NODES/foreign.key" -out "$NODES/foreign.crt" \
    -subj "$(subject_of "$(certificates_of 1)/swarm-node.crt")" 2>/dev/null
  run stranger 2 table "$(address_of 1)" "$NODES"/foreign.{crt,key}
  expect matches '^refused 0 '
  run stranger 2 table "$(address_of 1)" "$(certificates_of 2)"/swarm-node.{crt,key}
  expect matches '^heard [0-9]+ .*"name":"near"'

  for kind in worker foreign; do
    file=$NODES/foreign
    [ $kind = foreign ] || file=$(certificates_of 3)/swarm-node
    helper "$NODES/played" "$(host_net 2)" manager 9378 "$file.crt" "$file.key"
    ip netns exec "$(namespace_of 2)" nft -f - <<RULES
table ip stranger { chain out { type nat hook output priority -100; tcp dport 2378 redirect to :9378; }; }
RULES
    kill -KILL "$(swarm_of 2)"
    eventually 30 file_has "$NODES/played" refused
    expect --in "$(cat "$NODES/played")" lacks told
    ip netns exec "$(namespace_of 2)" nft delete table ip stranger
    kill "${helpers[-1]}"
    wait "${helpers[-1]}" || true
    eventually 30 connected
  done
}

@test "malformed packets and connections at every port of a manager: packets of tasks arrive, its memory stays small" {
  eventually 30 connected
  swarm=$(swarm_of 1)
  for port in 2377 2378; do helper "$NODES/idle-$port" "$(host_net 2)" idle "$(address_of 1)" "$port" 300; done
  # flood ARG...: a stranger, again and again as long as there is a file, which goes with the test at the latest.
  flood() { while [ -e "$BATS_TEST_TMPDIR/more" ]; do stranger "$@" || return; done; }
  touch "$BATS_TEST_TMPDIR/more"
  flood 2 datagrams "$(address_of 1)" 4789 100000 3>&- &
  senders=($!)
  for port in 2377 2378; do
    flood 3 connections "$(address_of 1)" "$port" 1500 3>&- &
    senders+=($!)
  done
  for _ in 1 2 3; do eventually 5 reaches 3 1; done
  rm "$BATS_TEST_TMPDIR/more"
  for sender in "${senders[@]}"; do wait "$sender"; done
  eventually 10 connected
  expect equal "$(swarm_of 1)" "$swarm"
  most=$(awk '$1 == "VmHWM:" { print $2 }' "/proc/$swarm/status")
  [ "$most" -lt $((90 * 1024)) ] || fail "moss-swarm has had $most KiB"
}

@test "damaged and empty files of the networks: the node starts, its log names them, its networks come back" {
  eventually 30 connected
  files=("$(swarm_folder 2)/networks.json" "$(swarm_folder 2)/tunnel.key" "$NODES/2/run/swarm-view.json")
  eventually 10 [ -e "${files[0]}" ]
  kill_node 2
  printf '{"Node": 7' | tee "${files[0]}" >"${files[2]}"
  : >"${files[1]}"
  mark_log 2
  revive_node 2
  for file in "${files[@]}"; do eventually 20 logged 2 "$file"; done
  eventually 30 is_active 2
  eventually 60 connected
}

@test "the data port is taken: the log names the setting, services run; once it is free, or with another one, packets arrive" {
  leave
  helper "$NODES/held" "$(host_net 3)" hold udp 4789
  mark_log 3
  enter 3
  eventually 30 logged 3 'UDP port 4789 of this host is in use: the setting swarm-data-port names another one'
  docker_on 1 service create --detach --name "$name" --constraint node.hostname==node3 --constraint "node.id==$(info 3 NodeID)" busybox sleep 1000
  ! reaches 3 1 || fail 'a packet has arrived'
  kill "${helpers[0]}"
  eventually 60 connected
  kill_node 3
  revive_node 3 --swarm-data-port 4790
  eventually 60 connected
  expect equal "$(ss -N "$(namespace_of 3)" -lun | grep -c ':4790 ')" 2
}

@test "the port of the table is taken on a manager: its log says so; services run, in networks once the port is free" {
  leave
  helper "$NODES/held" "$(host_net 3)" hold tcp 2378
  mark_log 3
  docker_on 3 swarm init
  eventually 10 logged 3 'the port after the one at which this manager listens is needed as well'
  docker_on 3 service create --detach --name plain busybox sleep 1000
  docker_on 3 network create --driver overlay later
  on 3 service create --detach --name late --network later busybox sleep 1000
  kill "${helpers[0]}"
  late() { [ -n "$(container_of 3 late)" ]; }
  eventually 60 late
  reenter
}

@test "a full disk under the log of a manager: a clear error in time, tasks go on; with room it is the same manager by itself" {
  leave
  kill_node 3
  user=$(user_of 3) small=$NODES/3/small
  mkdir -p "$small"
  mount -t tmpfs -o "size=200m,mode=0700,uid=$(id -u "$user"),gid=$(id -g "$user")" small "$small"
  fallocate -l 120M "$small/fill" # the log has room for one of its files, of 64 MB
  revive_node 3 --swarm-dir "$small/swarm"
  docker_on 3 swarm init
  run_kept
  node=$(info 3 NodeID)
  cat /dev/zero >"$small/more" 2>/dev/null || true
  head -c 500000 /dev/zero | tr '\0' x >"$NODES/large"
  for number in $(seq 200); do
    run create_large "$number"
    [ "$output" = 201 ] || break
  done
  expect matches '^(500|503|406)$'
  eventually 40 says 3 'The disk may be full'
  expect equal "$(container_of 3 kept)" "$container"
  run docker_on 3 service ls
  expect status 1
  expect contains 'This node is not a swarm manager' # and why, or that it tries again at this moment
  rm "$small/fill" "$small/more"
  manages() { [ "$(info 3 ControlAvailable)" = true ]; }
  eventually 60 manages
  expect equal "$(info 3 NodeID) $(container_of 3 kept)" "$node $container"
  docker_on 3 service create --detach --name after busybox sleep 1000
  expect equal "$(docker_on 3 service ls -q --filter name=kept | wc -l)" 1
  docker_on 3 swarm leave --force
  restore
}

@test "a full disk under the image of a task: it is rejected with the reason, others go on; with room it runs by itself" {
  leave
  kill_node 3
  user=$(user_of 3) small=$NODES/3/small
  mkdir -p "$small"
  truncate -s 150M "$NODES/disk"
  mkfs.ext4 -q "$NODES/disk"
  mount -o loop "$NODES/disk" "$small"
  install -d -m 0700 -o "$user" -g "$user" "$small/root"
  revive_node 3 --root "$small/root" --swarm-dir "$NODES/3/apart"
  on 3 import "$NODES/busybox.tar" busybox >/dev/null
  docker_on 3 swarm init
  run_kept
  registry_with_large 3
  fallocate -l $(($(df --output=avail -B1 "$small" | tail -n 1) - 20000000)) "$small/fill"
  on 3 service create --detach --name large --restart-delay 1s 127.0.0.1:5000/large sleep 100000
  full() { [[ $(docker_on 3 service ps --no-trunc --format '{{.Error}}' large) == *'pull image 127.0.0.1:5000/large'*'no space left on device'* ]]; }
  eventually 30 full
  expect equal "$(docker_on 3 images -q 127.0.0.1:5000/large)" ''
  expect equal "$(container_of 3 kept)" "$container"
  rm "$small/fill"
  large() { [ -n "$(container_of 3 large)" ]; }
  eventually 30 large
  expect equal "$(container_of 3 kept)" "$container"
  docker_on 3 swarm leave --force
  restore
}
# registry_with_large N: a registry at port 5000 of a node's host until the test ends, with the image large, of 64 MB.
registry_with_large() {
  local net
  net=$(host_net "$1")
  mkdir "$NODES/images"
  echo "{version: 0.1, storage: {filesystem: {rootdirectory: $NODES/images}}, http: {addr: '127.0.0.1:5000'}}" >"$NODES/registry.yml"
  nsenter --net="$net" docker-registry serve "$NODES/registry.yml" </dev/null >"$NODES/registry.log" 2>&1 3>&- 4>&- &
  helpers+=($!)
  docker_on 1 run --name large busybox dd if=/dev/zero of=/large bs=1M count=64
  docker_on 1 commit large large
  docker_on 1 save large >"$NODES/large.tar"
  docker_on 1 rm large
  docker_on 1 rmi large
  eventually 10 file_has "$NODES/registry.log" 'listening on'
  nsenter --net="$net" skopeo copy -q --dest-tls-verify=false "docker-archive:$NODES/large.tar" docker://127.0.0.1:5000/large
}
# run_kept: the service kept runs on node 3, in $container.
run_kept() {
  docker_on 3 service create --detach --name kept busybox sleep 100000
  kept() { [ -n "$(container_of 3 kept)" ]; }
  eventually 20 kept
  container=$(container_of 3 kept)
}
# create_large NUMBER: makes a service of half a megabyte on node 3, and prints the status of the answer.
create_large() {
  { printf '{"Name": "large%s", "Mode": {"Replicated": {"Replicas": 0}}, "TaskTemplate": {"ContainerSpec": {"Image": "busybox"}}, "Labels": {"x": "' "$1" &&
    cat "$NODES/large" && printf '"}}'; } | curl -sS --max-time 40 --unix-socket "$NODES/3/s" -H 'Content-Type: application/json' \
    --data-binary @- -o "$NODES/answer" -w '%{http_code}' http://moss/v1.24/services/create
}
