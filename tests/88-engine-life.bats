#!/usr/bin/env bats
# The engine that moss starts by itself: started, looked at, stopped, followed by the next, and removed with all it keeps.

load lib/moss
load lib/ports

setup_file() {
  MOSS_DIR=$(mktemp -d "${XDG_RUNTIME_DIR:-/tmp}/l.XXXXXX") # for busybox_tar
  export MOSS_DIR
  busybox_tar "$MOSS_DIR/busybox.tar"
}
teardown_file() { rm -rf "$MOSS_DIR"; }

setup() {
  dir=$(mktemp -d "${XDG_RUNTIME_DIR:-/tmp}/l.XXXXXX")
  data=$(mktemp -d "${MOSS_TEST_DATA:-/var/tmp}/moss-l.XXXXXX")
  mkdir -m 0700 "$data/home"
  sock=unix://$dir/moss/moss.sock
}
teardown() {
  [ -z "${follower:-}" ] || children "$follower" | xargs -r kill
  [ ! -d "$data/v" ] || touch "$data/v/go" # what a container may wait for
  own system stop || true
  # shellcheck disable=SC2143,SC2317 # called by eventually, which takes no !
  nobody_left() { [ -z "$(grep -lsF -e "$dir" -e "$data" /proc/[0-9]*/cmdline)" ]; }
  eventually 20 nobody_left
  wipe "$data"
  rm -rf "$dir"
}

# with CMD...: runs it where the default folders are those of this test.
with() {
  env -u MOSS_HOST -u DOCKER_HOST XDG_RUNTIME_DIR="$dir" XDG_DATA_HOME="$data/share" XDG_STATE_HOME="$data/state" \
    XDG_CONFIG_HOME="$data/config" HOME="$data/home" timeout --foreground -k 2 180 "$@" 3>&- 4>&-
}
own() { with "$moss_bin/moss" "$@"; }
# engine_state FIELD: of what system status says.
engine_state() { own system status --format "{{.$1}}"; }
stopped() { [ "$(engine_state State)" = stopped ]; }
own_log_has() { [[ $(own logs "$1" 2>&1) == *"$2"* ]]; }
# named NAME: the processes of this test that have a name, by spaces.
named() {
  local p
  for p in $(pgrep -u "$(id -u)" -x "$1"); do
    if grep -qsF "$dir" "/proc/$p/cmdline"; then echo "$p"; fi
  done | xargs
}
image() { own import "$MOSS_DIR/busybox.tar" busybox >/dev/null; }

@test "system start, status and stop: the engine in the background, shown as it is, and ended with its containers" {
  run own system status
  expect status 3
  expect contains "Engine: stopped" "Data folder: $data/share/moss" "Log: $data/state/moss/mossd.log"
  run own system stop
  expect status 0
  expect output "No engine runs."
  [ ! -e "$data/share/moss" ] || fail "an engine was started"

  run own system start
  expect status 0
  expect output "The engine is started: $sock"
  run own system start
  expect output "The engine runs already: $sock"
  run own system status
  expect status 0
  expect contains "Engine: running" "Sockets: $sock" "Data folder: $data/share/moss" "Folder of this boot: $dir/moss"
  expect equal "$(engine_state Root)" "$data/share/moss"
  pid=$(engine_state Pid)
  expect equal "$(readlink "/proc/$pid/fd/2")" "$(engine_state Log)"

  image
  name=$(unique web)
  own run -d --restart always --name "$name" busybox sh -c 'trap "echo bye; exit 4" TERM; echo ready; while :; do sleep 0.05; done'
  eventually 10 own_log_has "$name" ready
  run own system stop
  expect status 0
  expect output "The engine is stopped."
  # Its new parent may not have noticed.
  [ ! -e "/proc/$pid" ] || grep -q '^State:.*Z' "/proc/$pid/status" || fail "the process is there"
  [ ! -e "$dir/moss/moss.sock" ] || fail "the socket is there"
  run own system status
  expect status 3

  # shellcheck disable=SC2317 # called by eventually
  runs_again() { [ "$(own ps --format '{{.Names}}')" = "$name" ]; } # which starts the next engine
  eventually 20 runs_again
  run own logs "$name"
  expect contains bye
}

@test "outer process, supervisor, engine and monitors have names of their own, and only the outer one is mossd" {
  own system start
  image
  name=$(unique box)
  own run -d --name "$name" busybox sleep 1000
  pid=$(engine_state Pid) inner=$(engine_state InnerPid)
  expect equal "$(cat "/proc/$pid/comm" "/proc/$inner/comm")" $'mossd\nmossd-engine'
  expect equal "$(tr '\0' ' ' <"/proc/$inner/cmdline" | cut -d ' ' -f 1)" mossd-engine
  child=$(pgrep -P "$pid" -x mossd-child)
  expect equal "$(tr '\0' ' ' <"/proc/$child/cmdline" | cut -d ' ' -f 1)" mossd-child
  supervisor=$(pgrep -P "$child" -x moss-supervisor)
  expect equal "$(children "$supervisor" | tr ' ' '\n' | grep -cx "$inner")" 1
  expect equal "$(named mossd)" "$pid"
  # The end of the engine is that of nobody else; the next one has the name too.
  container=$(own inspect "$name" | jq '.[0].State.Pid')
  kill -KILL "$inner"
  # shellcheck disable=SC2317 # called by eventually
  another() { now=$(engine_state InnerPid) && [ "$now" != 0 ] && [ "$now" != "$inner" ]; }
  eventually 20 another
  expect equal "$(own inspect "$name" | jq '.[0].State.Pid')" "$container"
  expect equal "$(engine_state Pid)" "$pid"
  own rm -f "$name"
}

@test "system logs shows the engine's log, its last lines, and what comes" {
  run own system logs
  expect status 1
  expect contains "$data/state/moss/mossd.log"
  own system start
  run own system logs
  expect status 0
  expect contains "engine ready"
  all=${#lines[@]}
  run own system logs --tail 1
  expect equal "${#lines[@]}" 1
  [ "$all" -gt 1 ] || fail "there is one line"
  run own system logs --tail some
  expect status 125
  own system logs -f -n 1 >"$dir/followed" 3>&- 4>&- &
  follower=$!
  eventually 20 test -s "$dir/followed" # from here on nothing is missed
  kill -HUP "$(engine_state Pid)"
  eventually 20 file_has "$dir/followed" "handing over"
  children "$follower" | xargs kill
  own system stop
  # An engine that somebody has started writes elsewhere.
  with "$moss_bin/mossd" --network-driver none 2>"$dir/elsewhere" 3>&- 4>&- &
  eventually 30 file_has "$dir/elsewhere" "engine ready"
  run own system logs
  expect contains "engine ready" "network=none"
}

@test "the default socket may be named by --host, MOSS_HOST or DOCKER_HOST: the engine is started as without" {
  run own --host "$sock" version
  expect status 0
  expect contains Engine:
  for variable in MOSS_HOST DOCKER_HOST; do
    own system stop
    stopped
    run with env "$variable=$sock" "$moss_bin/moss" version
    expect status 0
    expect contains Engine:
    run with env "$variable=$sock" "$moss_bin/moss" system status
    expect status 0
  done
  own system stop
  ln -s "$dir" "$data/link"
  run own --host "unix://$data/link/moss/moss.sock" version
  expect status 0
  # Any other socket is another engine's.
  own system stop
  run own --host "unix://$dir/moss/other.sock" version
  expect status 1
  expect contains "no engine at"
  stopped
  run own --host "unix://$dir/moss/other.sock" system stop
  expect status 1
  expect contains "--host names the engine at unix://$dir/moss/other.sock"
}

@test "run and start while the engine stops wait for the next one" {
  own system start
  image
  mkdir -m 0777 "$data/v"
  name=$(unique slow)
  own create --name "$name-next" busybox true
  own run -d --stop-timeout 120 --name "$name" -v "$data/v:/v" busybox \
    sh -c 'trap "echo stopping; while [ ! -e /v/go ]; do sleep 0.05; done; exit 0" TERM; echo ready; while :; do sleep 0.05; done'
  eventually 10 own_log_has "$name" ready
  pid=$(engine_state Pid)
  own system stop >"$dir/stop" 3>&- 4>&- &
  stop=$!
  eventually 10 own_log_has "$name" stopping
  own run --rm busybox sh -c 'echo hello; exit 7' >"$dir/attached" 2>&1 3>&- 4>&- &
  attached=$!
  own run -d --name "$name-late" busybox true >"$dir/detached" 2>&1 3>&- 4>&- &
  detached=$!
  own start "$name-next" >"$dir/started" 2>&1 3>&- 4>&- &
  started=$!
  # The three have come to the engine that is being stopped, or wait already: it refuses starts.
  created() { own inspect "$name-late" >/dev/null 2>&1; }
  eventually 10 created
  ! ended "$pid" || fail "the engine did not wait for its container"
  touch "$data/v/go"
  wait "$stop"
  status=0
  wait "$attached" || status=$?
  expect equal "$status $(cat "$dir/attached")" "7 hello"
  status=0
  wait "$detached" || status=$?
  expect equal "$status $(wc -l <"$dir/detached")" "0 1"
  status=0
  wait "$started" || status=$?
  expect equal "$status $(cat "$dir/started")" "0 $name-next"
  [ "$(engine_state Pid)" != "$pid" ] || fail "the engine was not stopped"
}

@test "system reset asks, and removes what moss has made, files of sub-ids too, and nothing else" {
  own system start
  image
  name=$(unique box)
  own volume create "$name"
  own network create "$name"
  if has_subids; then user=1000; else user=0; fi
  own run --name "$name" -v "$name:/v" busybox \
    sh -c "mkdir -m 0700 /v/d /d && touch /v/d/f /d/f && chmod 0500 /d && chown -R $user:$user /v/d /d"
  echo mine >"$data/share/moss/mine"

  run own system reset </dev/null
  expect status 1
  expect contains "$data/share/moss" "nothing is removed"
  expect equal "$(engine_state State)" running
  run own system reset --force
  expect status 0
  expect output "All that moss has made is removed. $data/share/moss holds other files and stays."
  stopped
  expect equal "$(find "$data/share/moss" -mindepth 1)" "$data/share/moss/mine"
  [ ! -e "$data/state/moss" ] || fail "the log is left"

  rm "$data/share/moss/mine"
  run own ps -aq # a new engine, with nothing in it
  expect output ""
  run own images -q
  expect output ""
  run own system reset --force
  expect output "All that moss has made is removed."
  [ ! -e "$data/share/moss" ] || fail "left: $(find "$data/share/moss")"
  expect equal "$(find "$dir/moss" -mindepth 1 -printf '%P ')" 'start.lock '
  run own system reset --force # nothing is there any more
  expect status 0
}

# bats test_tags=subids
@test "system reset removes this node's part in a swarm from the folder that swarm-dir names" {
  address=127.0.0.1:$(free_port 2)
  export MOSS_SWARM_DIR=$data/elsewhere/swarm
  mkdir -m 0700 "$data/elsewhere"
  own swarm init --advertise-addr "$address" --listen-addr "$address"
  [ -e "$MOSS_SWARM_DIR/member.json" ] || fail "no node in $MOSS_SWARM_DIR"
  whole() { [ -e "$MOSS_SWARM_DIR/networks.json" ] && [ -e "$MOSS_SWARM_DIR/tunnel.key" ]; }
  eventually 10 whole
  run own system reset --force
  expect status 0
  expect output "All that moss has made is removed."
  [ ! -e "$MOSS_SWARM_DIR" ] || fail "left: $(find "$MOSS_SWARM_DIR")"
  run own swarm leave
  expect contains "not part of a swarm"
  own system reset --force
}

@test "system reset removes nothing in a folder that is not moss's" {
  mkdir -m 0700 "$data/project"
  mkdir "$data/project/build"
  run with env "MOSS_ROOT=$data/project" "$moss_bin/moss" system reset --force
  expect status 1
  expect contains "nothing is removed"
  [ -d "$data/project/build" ] || fail "it is gone"
}

@test "root is told what to do instead, and nothing is made" {
  as_root() { with unshare --user --map-root-user "$@"; }
  run as_root "$moss_bin/mossd"
  expect status 1
  expect contains "as an ordinary user, not as root" "useradd"
  run as_root env SUDO_USER=ann "$moss_bin/mossd"
  expect contains "start it as ann, without sudo"
  run as_root "$moss_bin/moss" ps
  expect status 1
  expect contains "moss has no engine for root" "useradd" "su --login"
  run as_root env SUDO_USER=ann "$moss_bin/moss" run --rm busybox true
  expect status 125
  expect contains "run this as ann, without sudo"
  expect equal "$(ls "$dir" "$data/home")" "$(printf '%s:\n\n%s:' "$dir" "$data/home")"
}

@test "make uninstall removes what install wrote, leaves the rest, and says where the data is" {
  prefix=$data/home/prefix
  mkdir -p "$prefix/bin" "$prefix/share/systemd/user" "$data/bin"
  touch "$prefix/bin/moss" "$prefix/bin/mossd" "$prefix/bin/moss-shim" "$prefix/bin/other" "$prefix/share/systemd/user/moss.service"
  printf '#!/bin/sh\necho "$*" >>%s\n' "$data/calls" >"$data/bin/systemctl"
  chmod 0700 "$data/bin/systemctl"
  run with env "PATH=$data/bin:$PATH" make --no-print-directory -C "$moss_top" uninstall "PREFIX=$prefix"
  expect status 0
  expect contains "moss system reset"
  expect equal "$(cd "$prefix" && find . -type f)" ./bin/other
  expect equal "$(cat "$data/calls")" "--user disable --now moss.socket moss.service"
}
