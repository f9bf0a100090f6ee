#!/usr/bin/env bats
# bats file_tags=nosub
# The engine starts, says what it is, and refuses what it does not know.

load lib/moss

setup_file() { start_engine; }
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

@test "_ping answers OK to GET and HEAD" {
  run api GET /_ping
  expect status 0
  expect line 0 OK
  expect line -1 200
  run curl -sS --head --unix-socket "$MOSS_SOCK" http://moss/_ping
  expect contains "200 OK"
}

@test "version over HTTP and by both clients" {
  run api GET /version
  expect status 0
  expect line -1 200
  body=${lines[0]}
  expect equal "$(jq -r .ApiVersion <<<"$body")" 1.51
  expect equal "$(jq -r .Version <<<"$body")" "$(cat "$moss_top/VERSION")"
  expect equal "$(jq -r .Os <<<"$body")" linux
  run moss version
  expect status 0
  expect contains "$(cat "$moss_top/VERSION")"
  run dock version
  expect status 0
  expect contains Server: 1.51
}

@test "info tells a rootless engine with no containers" {
  run api GET /info
  expect line -1 200
  body=${lines[0]}
  expect equal "$(jq -r .Containers <<<"$body")" 0
  expect equal "$(jq -r .OSType <<<"$body")" linux
  expect --in "$(jq -r '.Driver' <<<"$body")" matches '^(overlay|fuse-overlayfs|vfs)'
  run dock info
  expect status 0
  run moss info
  expect status 0
}

@test "an API version that is too new or too old is refused with 400 and a reason" {
  run api GET /v1.99/version
  expect line -1 400
  expect --in "$(jq -r .message <<<"${lines[0]}")" contains "client is newer than server" 1.99 1.51
  run api GET /v1.1/version # clients of that time read plain text
  expect line -1 400
  expect contains "client version 1.1 is too old" 1.18
  for v in v1.18 v1.20 v1.21 v1.22 v1.24 v1.25 v1.40 v1.44 v1.51; do
    run api GET /$v/_ping
    expect line -1 200
  done
}

@test "an unknown path is 404" {
  run api GET /v1.24/no/such/path
  expect line -1 404
}

@test "the socket and its folder are the user's alone" {
  expect equal "$(stat -c %a "$MOSS_SOCK")" 600
  expect equal "$(stat -c %a "$MOSS_DIR/run")" 700
}

@test "wrong arguments end with a message and no engine" {
  run timeout 180 "$moss_bin/mossd" --no-such-flag
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ] || fail "status $status"
  expect contains no-such-flag
  run timeout 180 "$moss_bin/mossd" --host nonsense://x --root "$MOSS_DIR/r3" --run-dir "$MOSS_DIR/run3"
  [ "$status" -ne 0 ] && [ "$status" -ne 124 ] || fail "status $status"
}
