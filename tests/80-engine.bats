#!/usr/bin/env bats
# The engine as a program: its folders, its sockets, its end, a full disk.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() {
  finish
  if [ -n "${OTHER:-}" ]; then
    end_other || true
    wipe "$OTHER"
  fi
}

# other_engine [ARG...]: another engine in folders of its own, $OTHER; its socket is $OTHER_SOCK.
other_engine() {
  "$moss_bin/mossd" "$@" >"$OTHER/log" 2>&1 3>&- 4>&- &
  OTHER_PID=$!
  answers() { [ "$(curl -s --max-time 60 --unix-socket "$OTHER_SOCK" http://moss/_ping)" = OK ] || ended "$OTHER_PID"; }
  eventually 30 answers
  ! ended "$OTHER_PID" || fail "the engine ended: $(cat "$OTHER/log")"
}
other_folder() {
  OTHER=$(mktemp -d "${MOSS_TEST_DATA:-/var/tmp}/o.XXXXXX")
  OTHER_SOCK=$OTHER/s
}
end_other() {
  [ -n "${OTHER_PID:-}" ] || return 0
  kill -TERM "$OTHER_PID" 2>/dev/null || return 0
  eventually 30 ended "$OTHER_PID" || kill -KILL "$OTHER_PID"
  OTHER_PID=
}
other() { timeout --foreground 60 "$moss_bin/moss" -H "unix://$OTHER_SOCK" "$@"; }

# refused ARG...: mossd with these arguments must end by itself with an error; its output is left as by run.
refused() {
  run timeout 180 "$moss_bin/mossd" "$@"
  [ "$status" -ne 0 ] || fail "the engine ended with 0"
  [ "$status" -ne 124 ] || fail "the engine ran"
}

@test "a second engine on the same data or the same folder of this boot is refused, and who has it is said" {
  other_folder
  refused --root "$MOSS_DATA/root" --run-dir "$OTHER/run" --host "unix://$OTHER_SOCK"
  expect contains "in use by another engine" "pid $MOSSD_PID"
  refused --root "$OTHER/root" --run-dir "$MOSS_DIR/run" --host "unix://$OTHER_SOCK"
  expect contains "in use by another engine"
  [ ! -e "$OTHER_SOCK" ] || fail "a socket is left"
  ping_ok || fail "the first engine no longer answers"
}

@test "a folder of this boot that others can enter is refused" {
  other_folder
  mkdir -m 0755 "$OTHER/run"
  refused --root "$OTHER/root" --run-dir "$OTHER/run" --host "unix://$OTHER_SOCK"
  expect contains "$OTHER/run" 0755
  mkdir -m 0700 "$OTHER/real"
  ln -s real "$OTHER/link"
  refused --root "$OTHER/root" --run-dir "$OTHER/link" --host "unix://$OTHER_SOCK"
}

@test "a folder of this boot whose path leaves no room for sockets is refused" {
  other_folder
  refused --root "$OTHER/root" --run-dir "$OTHER/$(printf 'x%.0s' {1..70})" --host "unix://$OTHER_SOCK"
  expect contains "folder for this boot" "no room for the sockets"
}

@test "SIGTERM ends the containers by their stop signal and leaves nothing" {
  other_folder
  other_engine --root "$OTHER/root" --run-dir "$OTHER/run" --host "unix://$OTHER_SOCK"
  other import "$MOSS_DIR/busybox.tar" busybox
  other run -d --name ends busybox sh -c 'trap "echo bye; exit 7" TERM; echo ready; while :; do sleep 0.05; done'
  ready() { [ "$(other logs ends)" = ready ]; }
  eventually 10 ready
  other exec ends true # its end is kept, for clients that ask for it
  kill -TERM "$OTHER_PID"
  eventually 30 ended "$OTHER_PID"
  status=0
  wait "$OTHER_PID" || status=$?
  expect status 0
  [ ! -e "$OTHER_SOCK" ] || fail "the socket is left"
  expect equal "$(find "$OTHER/run" -mindepth 1 2>/dev/null)" ""
  none_left() { ! pgrep -u "$(id -u)" -f "$OTHER" >/dev/null; }
  eventually 5 none_left || fail "left: $(pgrep -u "$(id -u)" -fa "$OTHER")"
  ! grep -F "$OTHER" /proc/self/mountinfo || fail "mounts are left"
  other_engine --root "$OTHER/root" --run-dir "$OTHER/run" --host "unix://$OTHER_SOCK"
  expect equal "$(other inspect ends | jq -c '.[0].State | [.Status, .ExitCode]')" '["exited",7]'
  expect equal "$(other logs ends)" $'ready\nbye'
}

@test "SIGINT ends it as well" {
  other_folder
  other_engine --root "$OTHER/root" --run-dir "$OTHER/run" --host "unix://$OTHER_SOCK"
  inner=$(MOSSD_PID=$OTHER_PID inner_pid)
  kill -INT "$inner" # background jobs of a shell ignore it themselves
  eventually 30 ended "$OTHER_PID"
  expect equal "$(find "$OTHER/run" -mindepth 1 2>/dev/null)" ""
}

@test "several hosts are served at once" {
  other_folder
  other_engine --root "$OTHER/root" --run-dir "$OTHER/run" --host "unix://$OTHER_SOCK" --host "unix://$OTHER/second"
  expect equal "$(curl -s --max-time 60 --unix-socket "$OTHER/second" http://moss/_ping)" OK
  expect equal "$(stat -c %a "$OTHER/second")" 600
}

@test "without --run-dir and --host: \$XDG_RUNTIME_DIR/moss/moss.sock, 0700 and 0600" {
  other_folder
  mkdir -m 0700 "$OTHER/xdg"
  OTHER_SOCK=$OTHER/xdg/moss/moss.sock
  XDG_RUNTIME_DIR=$OTHER/xdg XDG_DATA_HOME=$OTHER/data other_engine
  expect equal "$(stat -c %a "$OTHER/xdg/moss")" 700
  expect equal "$(stat -c %a "$OTHER_SOCK")" 600
  run env -u DOCKER_HOST -u MOSS_HOST XDG_RUNTIME_DIR="$OTHER/xdg" timeout 180 "$moss_bin/moss" version
  expect status 0
  expect contains Engine:
  [ -d "$OTHER/data/moss" ]
}

@test "a missing or insecure XDG_RUNTIME_DIR: a private folder elsewhere, where moss finds it too" {
  other_folder
  mkdir -m 0700 "$OTHER/tmp"
  mkdir -m 0777 "$OTHER/open"
  chmod 0777 "$OTHER/open"
  # Where /run/user/UID is there it is the next link of the chain.
  base=/run/user/$(id -u)
  if [ -d "$base" ] && [ "$(stat -c %u:%a "$base")" = "$(id -u):700" ]; then
    OTHER_SOCK=$base/moss/moss.sock
    [ ! -e "$OTHER_SOCK" ] || skip "an engine runs at $OTHER_SOCK"
  else
    OTHER_SOCK=$OTHER/tmp/moss-$(id -u)/moss.sock
  fi
  for xdg in "" "$OTHER/open" "$OTHER/absent"; do
    XDG_RUNTIME_DIR=$xdg TMPDIR=$OTHER/tmp XDG_DATA_HOME=$OTHER/data other_engine
    expect --in "$(cat "$OTHER/log")" contains XDG_RUNTIME_DIR
    run env -u DOCKER_HOST -u MOSS_HOST XDG_RUNTIME_DIR="$xdg" TMPDIR="$OTHER/tmp" XDG_DATA_HOME="$OTHER/data" timeout 180 "$moss_bin/moss" info
    expect status 0
    [ ! -e "$OTHER/open/moss" ] || fail "the open folder is used"
    end_other
  done
}

@test "settings: file, environment, flags, each over the one before; a wrong one is named" {
  other_folder
  mkdir -m 0700 "$OTHER/config"
  echo 'log-level = "nonsense"' >"$OTHER/config/a.toml"
  refused --config "$OTHER/config/a.toml" --root "$OTHER/root"
  expect contains "$OTHER/config/a.toml" log-level nonsense
  refused --config "$OTHER/none.toml"
  expect contains none.toml
  MOSS_LOG_LEVEL=loud refused --root "$OTHER/root"
  expect contains MOSS_LOG_LEVEL loud
  refused --host tcp://127.0.0.1:9
  expect contains insecure-tcp
  refused --root relative/path
}

@test "log-driver and log-opt: of containers that name none; wrong ones are named at the start" {
  other_folder
  other_engine --root "$OTHER/root" --run-dir "$OTHER/run" --host "unix://$OTHER_SOCK" --log-driver local --log-opt max-file=3 --log-opt tag=site
  moss() { "$moss_bin/moss" -H "unix://$OTHER_SOCK" "$@"; }
  expect equal "$(moss info --format '{{.LoggingDriver}}')" local
  moss import "$MOSS_DIR/busybox.tar" busybox >/dev/null
  of() { moss inspect "$(moss create "$@" busybox true)" | jq -c '.[0].HostConfig.LogConfig'; }
  expect equal "$(of)" '{"Config":{"max-file":"3","tag":"site"},"Type":"local"}'
  expect equal "$(of --log-opt tag=own)" '{"Config":{"max-file":"3","tag":"own"},"Type":"local"}'
  expect equal "$(of --log-driver json-file)" '{"Config":{},"Type":"json-file"}'
  end_other
  refused --root "$OTHER/root" --log-driver nosuch
  expect contains log-driver nosuch
  refused --root "$OTHER/root" --log-opt nosuch=1
  expect contains log-opt nosuch
  refused --root "$OTHER/root" --log-driver journald --log-opt max-size=1m
  expect contains max-size journald
}

@test "wrong arguments and root are refused" {
  refused --no-such-flag
  expect contains no-such-flag
  refused argument
  expect contains argument
  refused --host nonsense://x
  expect contains nonsense
}

@test "mossd tells a person at a terminal in a sentence why it cannot start, and the log everybody else" {
  other_folder
  mkdir -m 0755 "$OTHER/run"
  args=(--root "$OTHER/root" --run-dir "$OTHER/run" --host "unix://$OTHER_SOCK")
  run shown 24 80 timeout 180 "$moss_bin/mossd" "${args[@]}"
  expect matches "^mossd: folder for this boot: .*$OTHER/run.*0755"
  expect lacks ERR 'error='
  run shown 24 80 timeout 180 "$moss_bin/mossd" --log-format json "${args[@]}"
  expect contains '"level":"error"' "$OTHER/run"
  refused "${args[@]}"
  expect contains ERR "$OTHER/run"
  # The engine in its namespaces speaks in the same way.
  chmod 0700 "$OTHER/run"
  run shown 24 80 timeout 180 "$moss_bin/mossd" --runtime no-such-runtime "${args[@]}"
  expect matches '^mossd: no OCI runtime found: install no-such-runtime'
}

@test "mossd names the program that its start lacks" {
  other_folder
  mkdir "$OTHER/bin"
  ln -s "$(command -v mount)" "$(command -v newuidmap)" "$(command -v newgidmap)" "$OTHER/bin"
  run env PATH="$OTHER/bin" "$(command -v timeout)" 180 "$moss_bin/mossd" --root "$OTHER/root" --run-dir "$OTHER/run" --host "unix://$OTHER_SOCK"
  expect status 1
  expect contains "unshare is not installed: install the package"
}

@test "a full disk: import and create fail clearly, what was there stays usable" {
  other_folder
  other_engine --root "$OTHER/root" --run-dir "$OTHER/run" --host "unix://$OTHER_SOCK"
  # A small file system over its data folder, which its successor opens.
  old=$(MOSSD_PID=$OTHER_PID inner_pid)
  nsenter --preserve-credentials -U -m -t "$old" mount -t tmpfs -o size=24m,mode=0700 small "$OTHER/root"
  kill -KILL "$old"
  again() { [ "$(MOSSD_PID=$OTHER_PID inner_pid 2>/dev/null)" != "$old" ] && other version >/dev/null 2>&1; }
  eventually 20 again
  other import "$MOSS_DIR/busybox.tar" busybox
  mkdir "$OTHER/big"
  head -c 40000000 /dev/urandom >"$OTHER/big/file"
  tar -C "$OTHER/big" -cf "$OTHER/big.tar" .
  run other import "$OTHER/big.tar" big
  [ "$status" -ne 0 ] || fail "the import succeeded"
  expect contains "no space left"
  run other images
  expect contains busybox
  expect lacks big
  run other run --rm busybox echo still
  expect output still
  # Fill it to the last byte: create must fail with the reason, and work again afterwards.
  other run --name filler busybox sh -c 'cat /dev/zero >/fill' || true
  run other create --name half busybox true
  if [ "$status" -ne 0 ]; then
    expect contains "no space left"
    run other inspect half
    [ "$status" -ne 0 ] || fail "half a container is left"
  fi
  [ "$(curl -s --max-time 60 --unix-socket "$OTHER_SOCK" http://moss/_ping)" = OK ]
  other rm -f filler
  run other run --rm busybox echo again
  expect output again
}

@test "an engine with http-proxy gives its proxies to containers and builds that name none" {
  other_folder
  HTTPS_PROXY=http://proxy.test:3128 no_proxy=.test \
    other_engine --root "$OTHER/root" --run-dir "$OTHER/run" --host "unix://$OTHER_SOCK" --http-proxy
  other import "$MOSS_DIR/busybox.tar" busybox
  run other run --rm busybox env
  expect contains HTTPS_PROXY=http://proxy.test:3128 no_proxy=.test
  run other run --rm -e NO_PROXY=mine -e https_proxy busybox env
  expect contains HTTPS_PROXY=http://proxy.test:3128 NO_PROXY=mine
  expect lacks no_proxy=.test
  run other build --no-cache -t built - <<<$'FROM busybox\nRUN env'
  expect contains HTTPS_PROXY=http://proxy.test:3128
  run other inspect built
  expect lacks proxy.test
}

@test "moss starts an engine when none answers at the default, once, and it serves" {
  other_folder
  mkdir -m 0700 "$OTHER/xdg"
  OTHER_SOCK=$OTHER/xdg/moss/moss.sock
  own() { env -u DOCKER_HOST -u MOSS_HOST HOME="$OTHER" XDG_RUNTIME_DIR="$OTHER/xdg" XDG_DATA_HOME="$OTHER/data" timeout 60 "$moss_bin/moss" "$@" 3>&- 4>&-; }
  own version >"$OTHER/1" 2>&1 &
  first=$!
  own info >"$OTHER/2" 2>&1 || fail "$(cat "$OTHER/2")"
  wait $first || fail "$(cat "$OTHER/1")"
  holder=$(sed -n 's/^pid \([0-9]*\) .*/\1/p' "$OTHER/xdg/moss/lock")
  OTHER_PID=$holder
  expect --in "$holder" matches '^[0-9]+$'
  run own ps
  expect status 0
}
