#!/usr/bin/env bats
# The folder of this boot and the modes of what lies in it: it may be emptied while the engine runs, as tmpfiles does and
# a logout.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# open_files: what others could read or enter, were the folders above not closed, but for what is in layers and volumes, or
# for containers, or made by the storage library or the runtime.
open_files() {
  find "$MOSS_DATA/root" "$MOSS_DIR/run" \( -path "$MOSS_DATA/root/storage" -o -path "$MOSS_DIR/run/storage" -o -name _data \) -prune -o \
    ! -type l ! -name hostname ! -name hosts ! -name resolv.conf ! -name runtime.log -perm /077 -print
}

@test "modes of files do not depend on the umask that the engine was started with" {
  halt_engine
  for mask in 000 077; do
    (umask $mask && spawn_engine)
    MOSSD_PID=$(cat "$MOSS_DIR/mossd.pid")
    name=$(unique modes)
    moss run -d --name "$name" -v "$name:/new/volume" -v "$MOSS_DATA/$name/bind:/new/bind" -w /new/dir busybox sleep 1000
    run moss exec "$name" sh -c 'umask; stat -c "%a %n" / /new/volume /new/bind /new/dir /etc/hosts /etc/resolv.conf /etc/hostname'
    expect output "0022
755 /
755 /new/volume
755 /new/bind
755 /new/dir
644 /etc/hosts
644 /etc/resolv.conf
644 /etc/hostname"
    run moss run --rm -u 1000 busybox sh -c umask
    expect output 0022
    expect equal "$(open_files)" ''
    for role in "$MOSSD_PID" $(pgrep -P "$MOSSD_PID" -f mossd); do
      expect equal "$(awk '/^Umask:/ {print $2}' "/proc/$role/status")" 0077
    done
    moss rm -f "$name"
    moss volume rm "$name"
    halt_engine
  done
  spawn_engine
}

# reload_engine: replaces the engine by a new one.
reload_engine() {
  before=$(inner_pid)
  kill -HUP "$MOSSD_PID"
  eventually 20 replaced "$before"
  eventually 20 ping_ok
}
replaced() { [ "$(inner_pid)" != "$1" ]; }

# works NAME: a running container can be used in every way, and a new one started.
works() {
  run moss exec "$1" echo "in $1"
  expect output "in $1"
  run moss run --rm -p 0:80 busybox echo new
  expect output new
}

@test "the folder of this boot is emptied: socket, exec, stop, rm and new containers go on" {
  a=$(unique a) b=$(unique b) c=$(unique c)
  for name in "$a" "$b" "$c"; do
    moss run -d --name "$name" -p 0:80 busybox sh -c 'trap "exit 3" TERM; echo up; while :; do sleep 0.1; done'
  done
  rm -rf "$MOSS_SOCK" "${MOSS_DIR:?}"/run/* || true # what is being made again may be in the way
  eventually 10 ping_ok
  works "$a"
  expect equal "$(stat -c %a "$MOSS_SOCK" "$MOSS_DIR/run/lock" "$MOSS_DIR/run/alive" | sort -u)" 600
  moss stop -t 10 "$a"
  expect equal "$(moss inspect -f '{{.State.ExitCode}}' "$a")" 3
  moss rm -f "$b"
  # The next engine finds all of it.
  reload_engine
  works "$c"
  moss logs "$c" | grep up
  # A second time, the folder too.
  rm -rf "$MOSS_SOCK" "${MOSS_DIR:?}/run" || true
  eventually 10 ping_ok
  works "$c"
  moss kill "$c"
  moss rm "$a" "$c"
  # Nobody else gets in meanwhile.
  run timeout 180 "$moss_bin/mossd" --root "$MOSS_DATA/root2" --run-dir "$MOSS_DIR/run" --host "unix://$MOSS_DIR/s2"
  expect status 1
  expect contains "in use by another engine"
}

@test "the folder goes and the engine dies before it has asked for anything: the next one finds the containers" {
  name=$(unique web)
  moss run -d --name "$name" -p 0:80 busybox sh -c 'trap "exit 3" TERM; echo up; while :; do sleep 0.1; done'
  before=$(inner_pid)
  kill -STOP "$before"
  rm -rf "$MOSS_SOCK" "${MOSS_DIR:?}"/run/* || true # what is being made again may be in the way
  eventually 10 test -S "$MOSS_SOCK"
  kill -KILL "$before"
  eventually 20 replaced "$before"
  eventually 20 ping_ok
  expect equal "$(moss inspect -f '{{.State.Status}}' "$name")" running
  works "$name"
  moss stop -t 10 "$name"
  expect equal "$(moss inspect -f '{{.State.ExitCode}}' "$name")" 3
  moss rm "$name"
}

@test "a logout takes the runtime folder away, a login brings a new one: the same engine goes on" {
  dir=$(mktemp -d "$MOSS_DATA/logout.XXXXXX")
  cp "$MOSS_DIR/busybox.tar" "$dir/"
  run unshare --user --map-user="$(id -u)" --map-group="$(id -g)" --keep-caps --mount \
    "$BATS_TEST_DIRNAME/lib/logout.sh" "$moss_bin" "$dir" 3>&- 4>&-
  expect status 0
  expect output "exec: hello
stop: a 3
run: new
rm: b
exec: again
rm: a c"
  wipe "$dir"
}

@test "moss finds the engine that holds the data folder, wherever it listens" {
  other=$(mktemp -d "$MOSS_DIR/o.XXXXXX")
  mkdir -m 0700 "$other/xdg" "$other/run"
  "$moss_bin/mossd" --root "$MOSS_DATA/other/moss" --run-dir "$other/run" >"$other/log" 2>&1 3>&- 4>&- &
  pid=$!
  eventually 30 test -S "$other/run/moss.sock"
  there() { env -u DOCKER_HOST -u MOSS_HOST XDG_RUNTIME_DIR="$other/xdg" XDG_DATA_HOME="$MOSS_DATA/other" timeout 60 "$moss_bin/moss" "$@"; }
  run there info
  expect status 0
  expect contains "$MOSS_DATA/other/moss"
  # Others could have put a socket there.
  chmod 0777 "$other/run"
  run there info
  expect status 1
  expect contains "in use by another engine (pid $pid on "
  chmod 0700 "$other/run"
  kill -TERM "$pid"
  wait "$pid"
  rm -rf "$other/run" "$other/xdg"
  wipe "$MOSS_DATA/other"
}
