#!/usr/bin/env bats
# bats file_tags=subids
# An engine that is told which versions to serve and which pages may come: settings, answers, Host and Origin over TCP.

load lib/moss

setup_file() {
  start_engine --api-min 1.20 --api-max=1.22 --api-cors-header https://a.example --host tcp://127.0.0.1:0 --insecure-tcp
  grep -o 'tcp://127.0.0.1:[0-9]*' "$MOSS_DIR/mossd.log" | tail -n 1 | cut -c7- >"$MOSS_DIR/address"
}
teardown_file() { stop_engine; }
setup() {
  begin
  tcp=$(cat "$MOSS_DIR/address")
}
teardown() { finish; }

# tcp METHOD PATH [ARG...]: the answer with its head, over TCP.
tcp() { curl -sS -i --max-time 180 -X "$1" "${@:3}" "http://$tcp$2" | tr -d '\r'; }

# sock: the same over the unix socket.
sock() { curl -sS -i --max-time 180 --unix-socket "$MOSS_SOCK" -X "$1" "${@:3}" "http://moss$2" | tr -d '\r'; }

@test "api-min and api-max: what is outside is refused with the range, without a version it is the last, and all say so" {
  for v in 1.18 1.19; do
    run api GET "/v$v/info"
    expect line -1 400
    expect contains "client version $v is too old. Minimum supported API version is 1.20" "serves 1.20 to 1.22"
  done
  for v in 1.23 1.24 1.45; do
    run api GET "/v$v/info"
    expect line -1 400
    expect contains "client is newer than server (client API version: $v, server API version: 1.22)" \
      "client version $v is too new. Maximum supported API version is 1.22" "serves 1.20 to 1.22" "DOCKER_API_VERSION=1.22"
  done
  for v in 1.20 1.21 1.22; do
    run api GET "/v$v/version"
    expect line -1 200
    expect equal "$(jq -c '[.ApiVersion, .MinAPIVersion]' <<<"${lines[0]}")" '["1.22","1.20"]'
  done
  run sock GET /_ping
  expect contains "200 OK" "Api-Version: 1.22"
  run sock GET /containers/none/json # plain text, as at 1.22
  expect contains "404 Not Found" "Content-Type: text/plain; charset=utf-8"
  run api GET /swarm # of 1.24
  expect output $'page not found\n\n404'
  run sock HEAD /_ping --head
  expect contains "Api-Version: 1.22"
}

@test "docker's command line goes down to what is served" {
  run dock version --format '{{.Client.APIVersion}} {{.Server.APIVersion}} {{.Server.MinAPIVersion}}'
  expect status 0
  expect output "1.22 1.22 1.20"
}

@test "settings of versions and origins that cannot be are refused at the start" {
  while IFS='|' read -r args word; do
    # shellcheck disable=SC2086
    run timeout 180 "$moss_bin/mossd" --root "$BATS_TEST_TMPDIR/r" --run-dir "$BATS_TEST_TMPDIR/x" $args
    expect status 1
    expect contains "$word"
  done <<'LIST'
--api-min 1.17|moss has 1.18 to 1.51
--api-max 1.52|moss has 1.18 to 1.51
--api-min 1.22 --api-max 1.20|1.22 is above the last, 1.20
--api-min v1.20|a version such as 1.24
--api-max 1|a version such as 1.24
--api-cors-header a.example|one origin
--api-cors-header https://a.example/x|ends with the host
LIST
}

@test "CORS: one origin gets the headers, on errors and OPTIONS too; others are refused over TCP" {
  for path in /info /nothing /v1.99/info; do
    run tcp GET "$path" -H 'Origin: https://a.example'
    expect contains "Access-Control-Allow-Origin: https://a.example" "Access-Control-Allow-Headers: " X-Registry-Auth "Vary: Origin"
    expect matches '^Access-Control-Allow-Methods: .*DELETE.*OPTIONS'
  done
  run tcp OPTIONS /v1.22/containers/json -H 'Origin: https://a.example' -H 'Access-Control-Request-Method: POST'
  expect contains "200 OK" "Access-Control-Allow-Origin: https://a.example" "Content-Length: 0"
  for origin in https://b.example http://a.example https://a.example:8443 https://a.example.b.example null ''; do
    for call in "GET /info" "OPTIONS /info" "POST /containers/create" "GET /v1.22/events?until=1"; do
      run tcp "${call% *}" "${call#* }" -H "Origin: $origin"
      [ -z "$origin" ] || expect contains "403 Forbidden" "may not use this engine" X-Request-Id "Api-Version: 1.22"
    done
  done
  run sock GET /info -H 'Origin: https://b.example' # no page reaches a unix socket by itself
  expect contains "200 OK"
}

@test "taking over a connection: a foreign origin is refused on the unix socket too, with and without a version" {
  for path in /containers/none/attach /v1.22/containers/none/attach /exec/none/start /v1.22/exec/none/start /v1.22//exec//none/start; do
    run sock POST "$path" -H 'Origin: https://b.example'
    expect contains "403 Forbidden" X-Request-Id
    run sock POST "$path" -H 'Origin: https://a.example'
    expect contains "404 Not Found"
    run sock POST "$path"
    expect contains "404 Not Found"
  done
  run sock GET /v1.22/containers/none/attach/ws -H 'Origin: https://b.example'
  expect contains "403 Forbidden"
}

@test "over TCP the Host must be this machine's" {
  for host in localhost "localhost:${tcp#*:}" "$tcp" 127.0.0.9 '[::1]:5'; do
    run tcp GET /_ping -H "Host: $host"
    expect contains "200 OK"
  done
  for host in evil.example "evil.example:${tcp#*:}" 10.0.0.1 localhost.evil.example 127.0.0.1.evil.example; do
    run tcp GET /v1.22/info -H "Host: $host"
    expect contains "403 Forbidden" "the host \"$host\" is not this engine's" X-Request-Id
  done
}
