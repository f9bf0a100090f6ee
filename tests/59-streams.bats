#!/usr/bin/env bats
# bats file_tags=subids
# Hijacked connections and streams, as clients see them byte by byte: see lib/streams.py.

load lib/moss

setup_file() {
  start_engine
  import_busybox
  moss run --rm busybox true # what is made once is made
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

streams() { timeout 600 python3 "$moss_top/tests/lib/streams.py" "$MOSS_SOCK" "$@"; }

@test "attach and exec in every form of a request: the literal heads, no byte of the input lost" {
  run streams forms
  expect status 0
  expect matches '^[0-9]+ forms$'
}

@test "plain answers: HTTP/1.0, a client that has ended its side, kept-alive and pipelined requests" { streams answers; }

@test "errors are statuses before the head and part of the stream after it" { streams refusals; }

@test "either side may end first, or go without a word: nothing is lost and nothing is left" { streams halves; }

@test "who reads to the end of a stream finds the end and its exit code" { streams ends 30; }

@test "docker: start -a shows each run whole, and what is asked next knows its end" {
  name=$(unique again)
  moss create --name "$name" busybox sh -c 'echo out; exit 7' >/dev/null
  for _ in {1..10}; do
    run dock start -a "$name"
    expect status 7
    expect output out
    expect equal "$(dock inspect -f '{{.State.Status}} {{.State.ExitCode}}' "$name")" "exited 7"
  done
  moss rm "$name"
}

@test "detach keys: in the middle of a packet, split over two, the default and those of the request" { streams keys; }

@test "who does not read is cut off once others wait, in bounded memory; who reads gets everything" { streams sleepers 40 "$(inner_pid)"; }

@test "hundreds of attach, logs, events, exec, stats and wait at once get what they should and leave nothing" {
  streams crowd 100 100 80 30 40 50
}

@test "docker: attach and exec with piped input, 50 MB and back; logs -f whose reader leaves" {
  name=$(unique cli)
  moss run -di --name "$name" busybox sh -c 'read x; echo "got $x"; while :; do echo more; sleep 0.01; done' >/dev/null
  run bash -c "echo line | DOCKER_HOST=unix://$MOSS_SOCK timeout 180 docker attach --sig-proxy=false $name | head -n 2"
  expect output $'got line\nmore'
  # head has gone; the command line notices at the next line.
  run bash -c "DOCKER_HOST=unix://$MOSS_SOCK timeout 180 docker logs -f $name | head -n 3"
  expect output $'got line\nmore\nmore'
  is_running "$name"
  head -c 50000000 /dev/urandom >"$BATS_TEST_TMPDIR/in"
  want=$(sha256sum <"$BATS_TEST_TMPDIR/in")
  expect equal "$(dock exec -i "$name" cat <"$BATS_TEST_TMPDIR/in" | sha256sum)" "$want"
  expect equal "$(dock run --rm -i --log-driver none busybox cat <"$BATS_TEST_TMPDIR/in" | sha256sum)" "$want"
  expect equal "$(dock run --rm -i busybox sh -c 'cat >&2' 2>&1 >/dev/null <<<tiny)" tiny
  moss rm -f "$name"
}

# bats test_tags=alone
@test "a stream ends a bounded time after its process, whoever still holds it" {
  name=$(unique held)
  moss run -d --name "$name" busybox sleep 1000 >/dev/null
  SECONDS=0
  expect equal "$(dock exec "$name" sh -c 'sleep 500 & echo over')" over
  expect equal "$(dock run --rm busybox sh -c 'setsid sleep 500 & echo over')" over
  [ $SECONDS -lt 200 ]
  moss rm -f "$name"
}
