#!/usr/bin/env bats
# The log driver journald, on a machine that has a journal.

load ../lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

@test "journald: what a container writes is in the journal, and logs reads it back" {
  name=$(unique journal)
  moss run --name "$name" --log-driver journald --log-opt labels=kind --log-opt tag='moss/{{.Name}}' --label kind=test busybox \
    sh -c 'echo out; echo err >&2; printf "\377\n"; printf part'
  stored() {
    run journalctl -q -o cat "CONTAINER_NAME=$name" PRIORITY=6 KIND=test "CONTAINER_TAG=moss/$name"
    [[ $output == *out*part* ]]
  }
  eventually 20 stored
  run --separate-stderr moss logs "$name"
  expect equal "$stderr" err
  expect contains out part
  expect equal "$(moss logs "$name" 2>/dev/null | od -An -tx1 | tr -d ' \n')" 6f75740aff0a70617274
  run moss logs --tail 1 --details "$name"
  expect matches "^kind=test,tag=moss%2F$name (part|err)\$" # whichever of the two streams ended later
  run moss inspect --format '{{.HostConfig.LogConfig.Type}} {{.LogPath}}' "$name"
  expect output "journald "
  moss rm "$name"
}

@test "journald: follow ends with the container and misses nothing" {
  name=$(unique journal)
  moss create --name "$name" --log-driver journald busybox sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i; done'
  moss start "$name"
  moss logs -f "$name" >"$BATS_TEST_TMPDIR/followed"
  seq -f 'line %.0f' 3000 | cmp - "$BATS_TEST_TMPDIR/followed"
  moss logs "$name" | cmp - "$BATS_TEST_TMPDIR/followed"
  moss rm "$name"
}

@test "journald: attach shows the past and goes on, without a gap" {
  name=$(unique journal)
  moss run -d -i --name "$name" --log-driver journald busybox sh -c 'echo before; printf half; read x; echo "$x"; read y'
  eventually 20 log_has "$name" half
  curl -sS --max-time 180 -N --unix-socket "$MOSS_SOCK" -X POST "http://moss/containers/$name/attach?logs=1&stream=1&stdout=1" -o "$BATS_TEST_TMPDIR/seen" &
  viewer=$!
  eventually 20 file_has "$BATS_TEST_TMPDIR/seen" half
  printf 'after\nend\n' | moss attach "$name" || true
  wait $viewer
  expect equal "$(tr -d '\0\1' <"$BATS_TEST_TMPDIR/seen" | tr -dc 'a-z\n')" "$(printf 'before\nhalfafter')"
  moss rm -f "$name"
}

@test "journald: options that it does not have are refused" {
  run api POST /containers/create '{"Image":"busybox","Cmd":["true"],"HostConfig":{"LogConfig":{"Type":"journald","Config":{"max-size":"1m"}}}}'
  expect line -1 400
  expect contains "unknown log opt 'max-size' for journald log driver"
}
