#!/usr/bin/env bats
# Where the engine listens, and to whom: sockets that outlive engines, groups, socket activation, TLS.
# bats file_tags=subids

load lib/moss
load lib/crash

# One engine with a unix socket and one of TCP with client certificates, on a port that the system chooses.
setup_file() {
  MOSS_PKI=$(mktemp -d "${XDG_RUNTIME_DIR:-/tmp}/pki.XXXXXX")
  export MOSS_PKI
  make_pki
  start_engine --host tcp://127.0.0.1:0 --tlsverify --tlscacert "$MOSS_PKI/ca.pem" --tlscert "$MOSS_PKI/live.pem" --tlskey "$MOSS_PKI/live.key"
  MOSS_PORT=$(port_of "$MOSS_DIR/mossd.log")
  export MOSS_PORT
  import_busybox
}
teardown_file() {
  stop_engine
  rm -rf "$MOSS_PKI"
}
setup() { begin; }
teardown() {
  finish
  if [ -n "${OTHER:-}" ]; then
    end_other || true
    wipe "$OTHER"
  fi
}

# authority NAME, certificate NAME AUTHORITY DAYS EXTENSION...: files NAME.pem and NAME.key.
authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -days 2 \
    -keyout "$MOSS_PKI/$1.key" -out "$MOSS_PKI/$1.pem" 2>/dev/null
}
certificate() {
  local name=$1 from=$2 days=$3
  shift 3
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" \
    -keyout "$MOSS_PKI/$name.key" -out "$MOSS_PKI/$name.csr" 2>/dev/null
  openssl x509 -req -in "$MOSS_PKI/$name.csr" -CA "$MOSS_PKI/$from.pem" -CAkey "$MOSS_PKI/$from.key" -CAcreateserial \
    -days "$days" -extfile <(printf '%s\n' "$@") -out "$MOSS_PKI/$name.pem" 2>/dev/null
}
make_pki() {
  authority ca
  authority foreign
  certificate server ca 2 extendedKeyUsage=serverAuth subjectAltName=DNS:localhost,DNS:engine.example,IP:127.0.0.1
  certificate renewed ca 2 extendedKeyUsage=serverAuth subjectAltName=DNS:renewed.example,IP:127.0.0.1
  certificate late ca -1 extendedKeyUsage=serverAuth subjectAltName=IP:127.0.0.1
  certificate client ca 2 extendedKeyUsage=clientAuth
  certificate expired ca -1 extendedKeyUsage=clientAuth
  certificate stranger foreign 2 extendedKeyUsage=clientAuth
  certificate wrongkind ca 2 extendedKeyUsage=serverAuth
  cp "$MOSS_PKI/server.pem" "$MOSS_PKI/live.pem"
  cp "$MOSS_PKI/server.key" "$MOSS_PKI/live.key"
}

# port_of LOG: the port of the last engine that said in this log where it listens.
port_of() { sed -n 's/.*engine ready.*tcp:\/\/[^"]*:\([0-9]*\)".*/\1/p' "$1" | tail -n 1; }

# secure CLIENT PATH [ARG...]: asks over TLS with the certificate of that name; - shows none.
secure() {
  local shown=() name=$1 path=$2
  shift 2
  [ "$name" = - ] || shown=(--cert "$MOSS_PKI/$name.pem" --key "$MOSS_PKI/$name.key")
  curl -sS --max-time 180 --cacert "$MOSS_PKI/ca.pem" "${shown[@]}" "$@" "https://127.0.0.1:${PORT:-$MOSS_PORT}$path"
}

# other ARG...: another engine in folders of its own, $OTHER, in the background as OTHER_PID; answers CMD... waits for it.
other_folder() { OTHER=$(mktemp -d "${MOSS_TEST_DATA:-/var/tmp}/o.XXXXXX"); }
other() {
  "$moss_bin/mossd" --root "$OTHER/root" --run-dir "$OTHER/run" "$@" >>"$OTHER/log" 2>&1 3>&- 4>&- &
  OTHER_PID=$!
}
ready() {
  said() { grep -q "engine ready" "$OTHER/log" || ended "$OTHER_PID"; }
  eventually 30 said
  ! ended "$OTHER_PID" || fail "the engine ended: $(cat "$OTHER/log")"
}
end_other() {
  [ -n "${OTHER_PID:-}" ] || return 0
  kill -TERM "$OTHER_PID" 2>/dev/null || return 0
  eventually 30 ended "$OTHER_PID" || kill -KILL "$OTHER_PID"
  OTHER_PID=
}
# refused ARG...: mossd with these arguments must end by itself with an error; its output is left as by run.
refused() {
  run timeout 180 "$moss_bin/mossd" --root "$OTHER/root" --run-dir "$OTHER/run" "$@"
  [ "$status" -ne 0 ] || fail "the engine ended with 0"
  [ "$status" -ne 124 ] || fail "the engine ran"
}

# reload: another engine; returns once it is another.
reload() {
  local old
  old=$(inner_pid)
  kill -HUP "$MOSSD_PID"
  eventually 20 another_engine "$old"
}

# bats test_tags=chance
@test "reloads under clients refuse and cut nobody" {
  seed_chance
  keep_asking() { # NAME CMD...: until the file "over" is there
    local out=$BATS_TEST_TMPDIR/$1 n=0
    shift
    until [ -e "$BATS_TEST_TMPDIR/over" ]; do
      "$@" >"$out.out" 2>&1 || {
        cp "$out.out" "$out.failed"
        return
      }
      n=$((n + 1))
      echo $n >"$out.count"
    done
  }
  jobs=()
  keep_asking docker dock ps -q 3>&- &
  jobs+=($!)
  keep_asking moss moss ps 3>&- &
  jobs+=($!)
  keep_asking tls secure client /info -f 3>&- &
  jobs+=($!)
  keep_asking curl curl -sSf --max-time 180 --unix-socket "$MOSS_SOCK" http://moss/containers/json?all=1 3>&- &
  jobs+=($!)
  span=300
  for _ in $(seq "${MOSS_CHANCE_ROUNDS:-3}"); do
    pass_moment
    reload
  done
  # asked_enough: each client has asked three times, or was cut.
  asked_enough() {
    local name
    for name in docker moss tls curl; do
      [ -e "$BATS_TEST_TMPDIR/$name.failed" ] || [ "0$(cat "$BATS_TEST_TMPDIR/$name.count" 2>/dev/null)" -ge 3 ] || return
    done
  }
  eventually 20 asked_enough || status=$?
  touch "$BATS_TEST_TMPDIR/over"
  wait "${jobs[@]}"
  for name in docker moss tls curl; do
    [ ! -e "$BATS_TEST_TMPDIR/$name.failed" ] || fail "$name: $(cat "$BATS_TEST_TMPDIR/$name.failed")"
  done
  [ -z "${status:-}" ] || fail "not every client has asked three times"
}

@test "kill -9 of the engine: who comes while there is none is answered by the next" {
  old=$(inner_pid)
  supervisor=$(awk '/^PPid/ {print $2}' "/proc/$old/status")
  kill -STOP "$supervisor" # no new engine before the clients have come
  kill -KILL "$old"
  eventually 10 gone_or_dead "$old"
  jobs=()
  for i in 1 2 3 4 5; do
    dock ps -q >"$BATS_TEST_TMPDIR/$i" 2>&1 3>&- &
    jobs+=($!)
  done
  moss version >"$BATS_TEST_TMPDIR/version" 2>&1 3>&- &
  jobs+=($!)
  secure client /_ping >"$BATS_TEST_TMPDIR/tls" 2>&1 3>&- &
  jobs+=($!)
  queued() { [ "$(ss -Hxl src "$MOSS_SOCK" | awk '{print $3}')" -ge 6 ]; }
  eventually 20 queued
  kill -CONT "$supervisor"
  failed=0
  for job in "${jobs[@]}"; do wait "$job" || failed=1; done
  [ $failed = 0 ] || fail "$(cat "$BATS_TEST_TMPDIR"/*)"
  expect --in "$(cat "$BATS_TEST_TMPDIR/version")" contains Engine:
  expect equal "$(cat "$BATS_TEST_TMPDIR/tls")" OK
  eventually 20 another_engine "$old"
}
# gone_or_dead PID: a process that nobody has waited for yet counts as gone.
gone_or_dead() { ended "$1" || grep -q ') Z ' "/proc/$1/stat"; }

@test "an engine that cannot start: waiting clients are told, and no socket is left" {
  other_folder
  mkdir -m 0700 "$OTHER/root"
  echo '{"ID":"x","Format":1000}' >"$OTHER/root/engine.json"
  other --host "unix://$OTHER/s"
  there() { [ -S "$OTHER/s" ] || ended "$OTHER_PID"; }
  eventually 10 there
  run timeout 180 "$moss_bin/moss" --host "unix://$OTHER/s" version
  [ "$status" -ne 124 ] || fail "the client hangs"
  eventually 20 ended "$OTHER_PID"
  expect --in "$(cat "$OTHER/log")" contains "newer moss"
  [ ! -e "$OTHER/s" ] || fail "the socket is left"
}

@test "a second engine on the same socket is refused; the socket of a killed one is replaced" {
  other_folder
  refused --host "unix://$MOSS_SOCK"
  expect contains "another engine answers at $MOSS_SOCK"
  ping_ok
  other --host "unix://$OTHER/s"
  ready
  kill -KILL "$OTHER_PID"
  eventually 10 ended "$OTHER_PID"
  [ -S "$OTHER/s" ]
  eventually 10 nobody_holds "$OTHER"
  rm "$OTHER/log"
  other --host "unix://$OTHER/s"
  ready
  expect equal "$(curl -s --max-time 60 --unix-socket "$OTHER/s" http://moss/_ping)" OK
}
nobody_holds() { ! pgrep -u "$(id -u)" -f "$1" >/dev/null; }

@test "docker, moss and curl over TLS: with a certificate of the authority only" {
  run docker --tlsverify --tlscacert "$MOSS_PKI/ca.pem" --tlscert "$MOSS_PKI/client.pem" --tlskey "$MOSS_PKI/client.key" \
    -H "tcp://127.0.0.1:$MOSS_PORT" run --rm busybox echo by docker
  expect output "by docker"
  run timeout 180 "$moss_bin/moss" -H "tcp://127.0.0.1:$MOSS_PORT" --tlsverify --tlscacert "$MOSS_PKI/ca.pem" \
    --tlscert "$MOSS_PKI/client.pem" --tlskey "$MOSS_PKI/client.key" run --rm -i busybox cat <<<"by moss"
  expect output "by moss"
  mkdir "$BATS_TEST_TMPDIR/certs"
  cp "$MOSS_PKI/ca.pem" "$BATS_TEST_TMPDIR/certs/ca.pem"
  cp "$MOSS_PKI/client.pem" "$BATS_TEST_TMPDIR/certs/cert.pem"
  cp "$MOSS_PKI/client.key" "$BATS_TEST_TMPDIR/certs/key.pem"
  for program in docker "$moss_bin/moss"; do
    run env -u MOSS_HOST DOCKER_HOST="tcp://127.0.0.1:$MOSS_PORT" DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH="$BATS_TEST_TMPDIR/certs" timeout 20 "$program" ps
    expect status 0
  done
  run secure client /_ping
  expect output OK
  run secure client /_ping --tls-max 1.2
  expect output OK
  for wrong in - stranger expired wrongkind; do
    run secure $wrong /_ping
    [ "$status" -ne 0 ] || fail "$wrong gets in: $output"
  done
  run curl -sS --max-time 5 --tls-max 1.1 --cacert "$MOSS_PKI/ca.pem" --cert "$MOSS_PKI/client.pem" --key "$MOSS_PKI/client.key" "https://127.0.0.1:$MOSS_PORT/_ping"
  [ "$status" -ne 0 ] || fail "TLS 1.1 is spoken"
  run curl -sS --max-time 5 "http://127.0.0.1:$MOSS_PORT/_ping"
  expect lacks OK
  run timeout 180 "$moss_bin/moss" -H "tcp://127.0.0.1:$MOSS_PORT" --tlsverify --tlscacert "$MOSS_PKI/foreign.pem" ps
  expect status 1
  expect contains "certificate signed by unknown authority"
  run timeout 180 "$moss_bin/moss" -H "tcp://127.0.0.1:$MOSS_PORT" --tls ps
  expect status 1
  expect contains "certificate required"
}

@test "over TLS: names of the certificate are taken for the host, others are not; HTTP/1.0 and 1.1 only" {
  for host in 127.0.0.1 localhost engine.example ENGINE.example:99 "127.0.0.1:$MOSS_PORT" ""; do
    run secure client /_ping -H "Host: $host"
    expect output OK
  done
  for host in evil.example 192.0.2.1 moss; do
    run secure client /_ping -H "Host: $host" -o /dev/null -w '%{http_code}'
    expect matches '^(400|403)$'
  done
  run secure client /_ping --http1.0 -w '\n%{http_version}'
  expect line 0 OK
  run secure client /_ping --http2 -w '\n%{http_version}'
  expect output $'OK\n1.1'
}

@test "attach over TLS: both directions, half-close, and the exit code" {
  run bash -c "echo typed | docker --log-level fatal --tlsverify --tlscacert $MOSS_PKI/ca.pem --tlscert $MOSS_PKI/client.pem --tlskey $MOSS_PKI/client.key \
    -H tcp://127.0.0.1:$MOSS_PORT run --rm -i busybox sh -c 'cat; echo after; exit 9'"
  expect status 9
  expect output $'typed\nafter'
}

@test "a changed certificate is taken without a restart; a bad one is not, and the log says so" {
  cp "$MOSS_PKI/renewed.key" "$MOSS_PKI/live.key"
  expect equal "$(secure client /_ping)" OK # the old pair: the new key does not fit to the old certificate
  expect --in "$(cat "$MOSS_DIR/mossd.log")" contains "changed TLS files not taken"
  cp "$MOSS_PKI/renewed.pem" "$MOSS_PKI/live.pem"
  subject() { openssl s_client -connect "127.0.0.1:$MOSS_PORT" -cert "$MOSS_PKI/client.pem" -key "$MOSS_PKI/client.key" </dev/null 2>/dev/null | openssl x509 -noout -subject; }
  expect equal "$(subject)" "subject=CN = renewed"
  expect equal "$(secure client /_ping -H 'Host: renewed.example')" OK
  cp "$MOSS_PKI/server.key" "$MOSS_PKI/live.key"
  cp "$MOSS_PKI/server.pem" "$MOSS_PKI/live.pem"
  expect equal "$(subject)" "subject=CN = server"
}

@test "what TLS needs and does not get is named at the start" {
  other_folder
  cp "$MOSS_PKI/server.key" "$OTHER/key"
  chmod 0644 "$OTHER/key"
  tls() { refused --host tcp://127.0.0.1:0 --tlsverify --tlscacert "$1" --tlscert "$2" --tlskey "$3"; }
  tls "$MOSS_PKI/ca.pem" "$MOSS_PKI/server.pem" "$OTHER/key"
  expect contains "others can read $OTHER/key" 0644
  tls "$MOSS_PKI/ca.pem" "$MOSS_PKI/server.pem" "$MOSS_PKI/client.key"
  expect contains "private key does not match"
  tls "$MOSS_PKI/ca.pem" "$MOSS_PKI/none.pem" "$MOSS_PKI/server.key"
  expect contains "$MOSS_PKI/none.pem" "no such file"
  tls "$MOSS_PKI/server.key" "$MOSS_PKI/server.pem" "$MOSS_PKI/server.key"
  expect contains "no certificate in $MOSS_PKI/server.key"
  refused --host tcp://127.0.0.1:0 --tls
  expect contains insecure-tcp
  refused --host tcp://0.0.0.0:0 --tls --insecure-tcp
  expect contains tlsverify "not on the loopback"
  refused --host tcp://127.0.0.1:0 --insecure-tcp --tlskey "$MOSS_PKI/server.key"
  expect contains tlskey "no use without tls"
}

@test "TLS without client certificates, on the loopback, when asked for; an expired certificate is served with a warning" {
  other_folder
  other --host tcp://127.0.0.1:0 --host "unix://$OTHER/s" --tls --insecure-tcp --tlscert "$MOSS_PKI/late.pem" --tlskey "$MOSS_PKI/late.key"
  ready
  expect --in "$(cat "$OTHER/log")" contains "has expired"
  PORT=$(port_of "$OTHER/log")
  run secure - /_ping
  expect contains expired
  run secure - /_ping -k
  expect output OK
  run docker --tls --tlscacert "$MOSS_PKI/ca.pem" -H "tcp://127.0.0.1:$PORT" version --format '{{.Server.Os}}'
  expect output linux
  run curl -s --max-time 5 --unix-socket "$OTHER/s" http://moss/_ping
  expect output OK
}

@test "TCP on any address with client certificates" {
  other_folder
  other --host tcp://0.0.0.0:0 --tlsverify --tlscacert "$MOSS_PKI/ca.pem" --tlscert "$MOSS_PKI/server.pem" --tlskey "$MOSS_PKI/server.key"
  ready
  PORT=$(port_of "$OTHER/log")
  expect equal "$(secure client /_ping)" OK
}

@test "a reload with settings that would open the port to everybody ends the engine instead" {
  reloaded() { # IP WANT...
    other_folder
    printf 'host = ["tcp://%s:0"]\ntlsverify = true\ntlscacert = "%s"\ntlscert = "%s"\ntlskey = "%s"\n' \
      "$1" "$MOSS_PKI/ca.pem" "$MOSS_PKI/server.pem" "$MOSS_PKI/server.key" >"$OTHER/moss.toml"
    other --config "$OTHER/moss.toml"
    ready
    PORT=$(port_of "$OTHER/log")
    expect equal "$(secure client /_ping)" OK
    : >"$OTHER/moss.toml"
    kill -HUP "$OTHER_PID"
    eventually 20 ended "$OTHER_PID"
    expect --in "$(cat "$OTHER/log")" contains "${@:2}"
    run curl -s --max-time 5 "http://127.0.0.1:$PORT/_ping"
    expect status 7
  }
  reloaded 0.0.0.0 "other hosts than mossd was started with" "it is not on the loopback"
  wipe "$OTHER"
  reloaded 127.0.0.1 "every user of this machine could use the engine"
}

@test "a socket in a folder where another user can put one in its place is refused" {
  has_subids || skip "a second user is made of sub-ids: see hack/as-user.sh"
  other_folder
  chmod 0711 "$OTHER"
  unshare --user --map-root-user --map-auto sh -c 'mkdir "$1" && chmod 1777 "$1" && chown 1 "$1"' - "$OTHER/theirs"
  refused --host "unix://$OTHER/theirs/s"
  expect contains "$OTHER/theirs" "belongs to another user"
  unshare --user --map-root-user --map-auto rm -rf "$OTHER/theirs"
}

@test "socket-group: members use the socket, others do not" {
  has_subids || skip "a second user is made of sub-ids: see hack/as-user.sh"
  other_folder
  chmod 0711 "$OTHER"
  other --host "unix://$OTHER/open/s" --host "unix://$OTHER/shut/s" --socket-group "$(id -gn)"
  mkdir -m 0700 "$OTHER/shut" 2>/dev/null || true
  ready
  expect equal "$(stat -c '%a %g' "$OTHER/open" "$OTHER/open/s")" "710 $(id -g)"$'\n'"660 $(id -g)"
  # somebody UID GID: another user of this machine, whose ids are of this user's range.
  somebody() { unshare --user --map-root-user --map-auto setpriv --reuid 1 --regid "$1" --clear-groups curl -sS --max-time 60 --unix-socket "$OTHER/open/s" http://moss/_ping; }
  run somebody 0 # which is this user's group outside
  expect output OK
  run somebody 1
  [ "$status" -ne 0 ] || fail "somebody else gets in"
  end_other
  refused --host "unix://$OTHER/x" --socket-group root
  expect contains "not in the group" root
  refused --host "unix://$OTHER/x" --socket-group no-such-group
  expect contains no-such-group
  [ ! -e "$OTHER/x" ]
}

@test "socket-group with a folder that is closed to it: the log says so" {
  other_folder
  other --host "unix://$OTHER/s" --socket-group "$(id -g)"
  ready
  expect --in "$(cat "$OTHER/log")" contains "cannot reach $OTHER/s" "the folder $OTHER is closed to it"
}

@test "socket activation: fd://, by name and by number; the sockets stay in place at the end and over a reload" {
  other_folder
  cat >"$OTHER/activate.py" <<'PY'
import os, socket, sys
folder, command = sys.argv[1], sys.argv[2:]
keep = []
for name in ("a", "b", "c"):
    s = socket.socket(socket.AF_UNIX)
    s.bind(f"{folder}/{name}")
    s.listen()
    keep.append(s)
high = [os.dup2(s.fileno(), 50 + i) for i, s in enumerate(keep)]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i)
os.closerange(6, 100)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="3", LISTEN_FDNAMES="one:two:two")
os.execv(command[0], command)
PY
  activated() {
    rm -f "$OTHER"/[abc] "$OTHER/log"
    python3 "$OTHER/activate.py" "$OTHER" "$moss_bin/mossd" --root "$OTHER/root" --run-dir "$OTHER/run" "$@" >>"$OTHER/log" 2>&1 3>&- 4>&- &
    OTHER_PID=$!
    ready
  }
  answers() { [ "$(curl -s --max-time "${2:-60}" --unix-socket "$OTHER/$1" http://moss/_ping)" = OK ]; }
  activated
  answers a
  answers b
  answers c
  kill -HUP "$OTHER_PID"
  twice() { [ "$(grep -c 'engine ready' "$OTHER/log")" = 2 ]; }
  eventually 20 twice
  answers a
  end_other
  [ -S "$OTHER/a" ] || fail "the end of mossd removed the socket of others"
  activated --host fd://two
  answers b
  answers c
  ! answers a 5 || fail "a socket that was not named is served"
  end_other
  activated --host fd://3 --host "unix://$OTHER/own"
  answers a
  answers own
  end_other
  [ ! -e "$OTHER/own" ] || fail "the own socket is left"
  rm -f "$OTHER"/[abc]
  run python3 "$OTHER/activate.py" "$OTHER" "$moss_bin/mossd" --root "$OTHER/root" --run-dir "$OTHER/run" --host fd://none
  expect status 1
  expect contains "was handed over" "3 (one), 4 (two), 5 (two)"
}

@test "streams end cleanly at a reload: logs -f, events, stats and attach, and no line is cut" {
  name=$(unique stream)
  moss run -d --name "$name" busybox sh -c 'i=0; while :; do echo "line $i of many that are written one after the other"; i=$((i+1)); sleep 0.01; done'
  curl -sSN --max-time 180 --unix-socket "$MOSS_SOCK" http://moss/events >"$BATS_TEST_TMPDIR/raw-events" 2>&1 3>&- &
  events=$!
  curl -sSN --max-time 180 --unix-socket "$MOSS_SOCK" "http://moss/containers/$name/stats" >"$BATS_TEST_TMPDIR/raw-stats" 2>&1 3>&- &
  stats=$!
  curl -sSN --max-time 180 --unix-socket "$MOSS_SOCK" "http://moss/containers/$name/logs?follow=1&stdout=1" >"$BATS_TEST_TMPDIR/raw-logs" 2>&1 3>&- &
  logs=$!
  dock logs -f "$name" >"$BATS_TEST_TMPDIR/logs" 2>&1 3>&- &
  docker_logs=$!
  dock events >"$BATS_TEST_TMPDIR/events" 2>&1 3>&- &
  docker_events=$!
  dock stats >"$BATS_TEST_TMPDIR/stats" 2>&1 3>&- &
  docker_stats=$!
  dock attach --no-stdin "$name" >"$BATS_TEST_TMPDIR/attach" 2>&1 3>&- &
  docker_attach=$!
  for f in raw-stats raw-logs logs stats attach; do eventually 10 test -s "$BATS_TEST_TMPDIR/$f"; done
  both_listen() { [ "$(answer_of /info .NEventsListener)" -ge 2 ]; }
  eventually 10 both_listen
  moss run --rm busybox true
  eventually 10 test -s "$BATS_TEST_TMPDIR/raw-events"
  reload
  for job in $events $stats $logs; do # curl is strict: a stream that is cut is no success
    status=0
    wait "$job" || status=$?
    expect --in "$(head -c 500 "$BATS_TEST_TMPDIR"/raw-*)" status 0
  done
  for job in $docker_logs $docker_events; do
    status=0
    wait "$job" || status=$?
    expect --in "$(tail -n 3 "$BATS_TEST_TMPDIR"/logs "$BATS_TEST_TMPDIR"/events)" status 0
  done
  # It waits for the container's end beside its stream, which it is not told: it says why, and does not hang.
  status=0
  wait $docker_attach || status=$?
  expect --in "$(tail -n 2 "$BATS_TEST_TMPDIR/attach")" status 1
  expect --in "$(tail -n 1 "$BATS_TEST_TMPDIR/attach")" contains "the engine is ending, or being replaced"
  eventually 10 ended $docker_stats
  for f in raw-events raw-stats; do jq -e . "$BATS_TEST_TMPDIR/$f" >/dev/null || fail "$f holds half a value: $(tail -c 200 "$BATS_TEST_TMPDIR/$f")"; done
  for f in logs attach; do
    grep '^line' "$BATS_TEST_TMPDIR/$f" | grep -vE '^line [0-9]+ of many that are written one after the other$' && fail "$f holds half a line"
  done
  moss rm -f "$name"
}

@test "moss says when the socket is there and nobody answers yet" {
  old=$(inner_pid)
  kill -STOP "$old"
  pty 24 80 "$moss_bin/moss" --host "unix://$MOSS_SOCK" ps </dev/null >"$BATS_TEST_TMPDIR/screen" 2>&1 3>&- &
  client=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/screen" "does not answer yet" || missing=yes
  kill -CONT "$old"
  wait $client
  [ -z "${missing-}" ] || fail "$(cat "$BATS_TEST_TMPDIR/screen")"
}
