#!/usr/bin/env bats
# Profiles of the engine: off by default, and for its own user alone.

load lib/moss

setup_file() {
  export MOSS_CONFIG=$BATS_FILE_TMPDIR/moss.toml
  : >"$MOSS_CONFIG"
  start_engine --host tcp://127.0.0.1:0 --insecure-tcp
  MOSS_TCP=$(sed -n 's/.*engine ready.*tcp:\/\/\([^"]*\)".*/\1/p' "$MOSS_DIR/mossd.log")
  export MOSS_TCP
}
teardown_file() { stop_engine; }
setup() {
  begin
  cd "$BATS_TEST_TMPDIR" || return
}
teardown() {
  finish
  if [ -n "${OTHER:-}" ]; then
    kill -TERM "$OTHER_PID" 2>/dev/null && eventually 30 ended "$OTHER_PID"
    wipe "$OTHER"
  fi
}

# profiles on|off: an engine with that setting, by a reload if it has the other one.
profiles() {
  local wanted='' old
  [ "$1" = off ] || wanted='debug-profiles = true'
  [ "$(cat "$MOSS_CONFIG")" != "$wanted" ] || return 0
  echo "$wanted" >"$MOSS_CONFIG"
  old=$(inner_pid)
  kill -HUP "$MOSSD_PID"
  eventually 20 another_engine "$old"
}

# is_profile FILE TEXT: FILE is a profile that mentions TEXT, and nobody else can read it.
is_profile() {
  expect equal "$(stat -c '%a' "$1")" 600
  gzip -dc "$1" | grep -qaF -- "$2" || fail "$1 lacks $2"
}

# measuring: does the engine make a CPU profile?
measuring() { [[ $(api GET '/debug/pprof/goroutine?debug=2') == *measureCPU* ]]; }

# code_of PROFILE: the status of the answer, whose body may hold anything.
code_of() { curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -o /dev/null -w '%{http_code}' "http://moss/debug/pprof/$1"; }

@test "without the setting profiles are refused, which names it, and no file is left" {
  profiles off
  for what in 'pprof heap' pprof trace; do
    # shellcheck disable=SC2086 # a command of two words
    run moss debug $what
    expect status 1
    expect contains debug-profiles
  done
  expect equal "$(ls)" ""
  for path in /debug/pprof/ /debug/pprof /debug/pprof/profile /debug/pprof/cmdline; do
    run api GET "$path"
    expect contains debug-profiles
    expect equal "${lines[-1]}" 404
  done
}

@test "a reload switches profiles on and off" {
  profiles on
  moss debug pprof heap
  profiles off
  run moss debug pprof heap
  expect status 1
}

@test "moss debug writes profiles and traces that tools can read" {
  profiles on
  run moss debug pprof heap
  expect output "moss-heap.pprof: read it with 'go tool pprof moss-heap.pprof'"
  is_profile moss-heap.pprof inuse_space
  for name in allocs goroutine; do
    moss debug pprof $name
    is_profile moss-$name.pprof moss/
  done
  moss debug pprof threadcreate
  is_profile moss-threadcreate.pprof threadcreate
  moss debug pprof --seconds 1 -o cpu
  is_profile cpu cpu
  for name in block mutex; do
    moss debug pprof --seconds 0.2 $name
    is_profile moss-$name.pprof contentions
  done
  moss debug trace --seconds 1
  expect equal "$(stat -c '%a' moss.trace)" 600
  expect --in "$(head -c 16 moss.trace | tr -d '\0')" matches '^go 1\.[0-9]+ trace$'
  [ "$(stat -c %s moss.trace)" -gt 1000 ] || fail "the trace holds nothing"
  moss debug pprof heap -o - >redirected
  gzip -t <redirected
  run shown 24 80 "$moss_bin/moss" --host "unix://$MOSS_SOCK" debug pprof heap -o -
  expect contains "refusing to write a profile to a terminal"
}

@test "curl gets what other Go programs give, without a version" {
  profiles on
  run api GET /debug/pprof/
  expect contains goroutine heap mutex profile trace
  run api GET '/debug/pprof/goroutine?debug=2'
  expect contains "goroutine 1 ["
  run api GET /debug/pprof/nonsense
  expect equal "${lines[-1]}" 404
  run api GET '/debug/pprof/profile?seconds=301'
  expect contains "at most 300"
  expect equal "${lines[-1]}" 400
  run api GET /v1.24/debug/pprof/heap
  expect equal "${lines[-1]}" 404
}

@test "one CPU profile at a time; the end of its client ends it" {
  profiles on
  curl -sS --unix-socket "$MOSS_SOCK" 'http://moss/debug/pprof/profile?seconds=300' >first 3>&- &
  first=$!
  answered() { [ "$(code_of profile?seconds=0.05)" = 200 ]; }
  eventually 10 measuring
  run api GET '/debug/pprof/profile?seconds=0.05'
  expect contains "measured already"
  expect equal "${lines[-1]}" 409
  kill "$first"
  wait "$first" || true
  eventually 10 answered
}

@test "a reload does not wait for a profile, and its client is told" {
  profiles on
  curl -sS --unix-socket "$MOSS_SOCK" -w '%{http_code}' 'http://moss/debug/pprof/profile?seconds=300' >first 3>&- &
  first=$!
  eventually 10 measuring
  profiles off
  wait "$first"
  expect --in "$(cat first)" contains "ask again"
  expect --in "$(cat first)" matches '503$'
}

@test "nothing is given out over TCP" {
  profiles on
  for path in / /heap /profile?seconds=1 /trace /cmdline; do
    run curl -sS --max-time 180 -w '\n%{http_code}' "http://$MOSS_TCP/debug/pprof$path"
    expect contains "own user"
    expect equal "${lines[-1]}" 403
  done
  run timeout 60 "$moss_bin/moss" --host "tcp://$MOSS_TCP" debug pprof heap
  expect status 1
  expect equal "$(ls)" ""
}

@test "nothing is given out over TLS" {
  OTHER=$(mktemp -d "${MOSS_TEST_DATA:-/var/tmp}/o.XXXXXX")
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -days 2 -addext subjectAltName=IP:127.0.0.1 \
    -keyout "$OTHER/key" -out "$OTHER/cert" 2>/dev/null
  # Every client shows the certificate that it itself is the authority of.
  "$moss_bin/mossd" --root "$OTHER/root" --run-dir "$OTHER/run" --host tcp://127.0.0.1:0 --tlsverify --tlscacert "$OTHER/cert" \
    --tlscert "$OTHER/cert" --tlskey "$OTHER/key" --debug-profiles >"$OTHER/log" 2>&1 3>&- &
  OTHER_PID=$!
  eventually 30 file_has "$OTHER/log" "engine ready"
  port=$(sed -n 's/.*engine ready.*tcp:\/\/[^"]*:\([0-9]*\)".*/\1/p' "$OTHER/log")
  secure() { curl -sS --max-time 180 --cacert "$OTHER/cert" --cert "$OTHER/cert" --key "$OTHER/key" -w '\n%{http_code}' "https://127.0.0.1:$port$1"; }
  run secure /_ping
  expect line 0 OK
  run secure /debug/pprof/heap
  expect contains "own user"
  expect equal "${lines[-1]}" 403
}

# A sub-id of the user stands for somebody else, who may use the socket: its folder and its mode are opened for that.
# bats test_tags=subids
@test "nothing is given to another user who may use the socket" {
  OTHER=$(mktemp -d "${MOSS_TEST_DATA:-/var/tmp}/o.XXXXXX")
  "$moss_bin/mossd" --root "$OTHER/root" --run-dir "$OTHER/run" --host "unix://$OTHER/s" --debug-profiles >"$OTHER/log" 2>&1 3>&- &
  OTHER_PID=$!
  eventually 30 file_has "$OTHER/log" "engine ready"
  chmod 0711 "$OTHER"
  chmod 0666 "$OTHER/s"
  as() { # UID PATH OUTPUT
    unshare --user --map-root-user --map-auto setpriv --reuid "$1" --regid "$1" --clear-groups \
      curl -sS --max-time 180 --unix-socket "$OTHER/s" -o "$3" -w '%{http_code}' "http://moss$2"
  }
  run as 1 /_ping -
  expect output OK200
  run as 1 /debug/pprof/heap -
  expect contains "own user" 403
  run as 0 /debug/pprof/heap /dev/null
  expect output 200
}
