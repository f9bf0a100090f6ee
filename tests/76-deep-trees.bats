#!/usr/bin/env bats
# bats file_tags=long
# A container, a volume or an image may hold folders in each other, far deeper than a path can name or a process may have
# descriptors: all that looks at them goes on, or says in short what is wrong, and nobody else is kept from anything.

load lib/moss

setup_file() {
  start_engine
  import_busybox
  name=$(unique maker)
  moss create --name "$name" busybox true
  moss cp "${MOSS_TREES:-$moss_top/.cache/bin/attack/trees}" "$name:/bin/trees"
  moss commit "$name" trees
  moss rm "$name"
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

levels=30000

# open_files: how many files the engine has open, at most, while the command runs.
open_files() {
  local engine most=0 now
  engine=$(inner_pid)
  "$@" >/dev/null 3>&- &
  local client=$!
  while kill -0 "$client" 2>/dev/null; do
    now=$(find "/proc/$engine/fd" -mindepth 1 2>/dev/null | wc -l)
    [ "$now" -le "$most" ] || most=$now
    sleep 0.02
  done
  wait "$client" || return
  echo "$most"
}

trash_empty() { [ -z "$(find "$MOSS_DATA/root/storage/moss-trash" -mindepth 1 -maxdepth 1)" ]; }

@test "a container with a deep tree is removed, with few files open" {
  name=$(unique deep)
  moss run --name "$name" trees trees deep /deep $levels
  most=$(open_files moss rm -f "$name")
  [ "$most" -lt 200 ] || fail "the engine had $most files open"
  is_gone "$name"
  most=$(open_files eventually 300 trash_empty)
  [ "$most" -lt 200 ] || fail "the engine had $most files open"
}

@test "a volume with a deep tree goes with rm -v" {
  name=$(unique deep)
  moss run --name "$name" -v "/data" trees trees deep /data/deep $levels
  volume=$(moss inspect "$name" | jq -r '.[0].Mounts[0].Name')
  moss rm -v "$name"
  run moss volume inspect "$volume"
  [ "$status" -ne 0 ] || fail "the volume $volume is there still"
  eventually 300 trash_empty
}

# bats test_tags=whole
@test "an engine that is killed while it removes a deep tree is followed by one that starts at once and goes on" {
  name=$(unique deep)
  other=$(unique other)
  moss run -d --name "$other" busybox sleep 1000
  moss run --name "$name" -v "/data" trees sh -c "trees deep /deep $levels && trees deep /data/deep $levels"
  old=$(inner_pid)
  moss rm -f -v "$name" 3>&- &
  client=$!
  gone_or_half() { is_gone "$name" || ! trash_empty; }
  eventually 20 gone_or_half
  kill -KILL "$old"
  wait $client || true
  eventually 10 another_engine "$old"
  expect equal "$(state "$other")" running
  is_gone "$name" || moss rm -f -v "$name"
  eventually 300 trash_empty
  moss rm -f "$other"
}

# bats test_tags=whole
@test "leftovers of the library are moved away before it looks at them" {
  name=$(unique deep)
  moss run --name "$name" trees trees deep /deep $levels
  id=$(moss inspect "$name" | jq -r '.[0].Id')
  halt_engine
  # as if a library had been killed in the middle of a removal
  home=$MOSS_DATA/root/storage/overlay
  if [ -d "$home/$id/diff" ]; then
    mkdir -p "$home/tempdirs/temp-dir-1"
    : >"$home/tempdirs/lock-1"
    mv "$home/$id/diff/deep" "$home/tempdirs/temp-dir-1/0-deep"
  fi
  MOSS_START_SECONDS=60 spawn_engine
  run moss run --rm busybox echo works
  expect status 0
  moss rm "$name"
  eventually 300 trash_empty
}

@test "sizes: a deep tree is measured, and keeps nobody else from being measured" {
  name=$(unique deep)
  other=$(unique other)
  moss run --name "$name" -v "/data" trees sh -c "trees deep /deep $levels && trees deep /data/deep $levels"
  moss run --name "$other" busybox sh -c 'echo 12345 >/file'
  api GET "/containers/json?all=1&size=1" >"$BATS_TEST_TMPDIR/list"
  expect equal "$code" 200
  size_of() { head -n 1 "$BATS_TEST_TMPDIR/list" | jq ".[] | select(.Names[0] == \"/$1\") | .SizeRw"; }
  expect equal "$(size_of "$name")" 7
  expect equal "$(size_of "$other")" 6
  api GET /system/df >"$BATS_TEST_TMPDIR/df"
  expect equal "$code" 200
  volume=$(moss inspect "$name" | jq -r '.[0].Mounts[0].Name')
  expect equal "$(head -n 1 "$BATS_TEST_TMPDIR/df" | jq ".Volumes[] | select(.Name == \"$volume\") | .UsageData.Size")" 7
  expect equal "$(head -n 1 "$BATS_TEST_TMPDIR/df" | jq ".Containers[] | select(.Names[0] == \"/$name\") | .SizeRw")" 7
  moss rm -f -v "$name" "$other"
}

# short_failure CMD...: runs it, and expects an error that says in short what is too much.
short_failure() {
  run "$@"
  if [ "$status" -eq 0 ] || [ "$status" -eq 124 ]; then fail "exit status $status of $*" || return; fi
  [ "${#output}" -lt 4000 ] || fail "the error has ${#output} bytes: ${output:0:200}"
}

@test "what has to name a deep tree fails at once and in short: changes, commit, export, cp and a step of a build" {
  name=$(unique deep)
  moss run --name "$name" trees trees deep /deep $levels
  short_failure moss diff "$name"
  expect contains "its path has more than 4096 bytes"
  short_failure moss commit "$name" "$(unique image)"
  expect contains "more than 512 folders deep"
  to_nowhere() { moss "$@" >/dev/null; }
  short_failure to_nowhere export "$name"
  short_failure to_nowhere cp "$name:/deep" -
  printf 'FROM trees AS a\nRUN trees deep /deep %s\nFROM trees\nCOPY --from=a /deep /copy\n' $levels >"$BATS_TEST_TMPDIR/Dockerfile"
  short_failure to_nowhere build "$BATS_TEST_TMPDIR"
  expect contains "more than 512 folders deep"
  moss rm "$name"
  expect equal "$(moss ps -aq)" ''
}

# bats test_tags=whole
@test "changes of many files end when their client has left" {
  name=$(unique wide)
  moss run --name "$name" trees trees wide /wide 100000
  left() { grep -q "path=/containers/$name/changes .*status=503" "$MOSS_DIR/mossd.log"; }
  # It sends the whole request, and leaves.
  printf 'GET /containers/%s/changes HTTP/1.1\r\nHost: moss\r\n\r\n' "$name" | socat -t 0.05 - "UNIX-CONNECT:$MOSS_SOCK" >/dev/null || true
  eventually 5 left # the line of the request comes when its work has ended
  [ "$(moss diff "$name" | wc -l)" -eq 100101 ] || fail "got $(moss diff "$name" | wc -l) changes"
  moss rm "$name"
}
