#!/usr/bin/env bats
# Attach over a WebSocket (RFC 6455), with Node's most used client.

load lib/moss

setup_file() {
  start_engine --host tcp://127.0.0.1:0 --insecure-tcp # as a page in a browser would come
  import_busybox
  grep -o 'tcp://127.0.0.1:[0-9]*' "$MOSS_DIR/mossd.log" | tail -n 1 | cut -c7- >"$MOSS_DIR/address"
}
teardown_file() { stop_engine; }
setup() {
  command -v node >/dev/null || skip "needs Node: hack/install-deps.sh --for test"
  begin
  address=$(cat "$MOSS_DIR/address")
}
teardown() { finish; }

# ws ID QUERY [OPTION...]: see lib/ws.js.
ws() {
  local path="/v1.24/containers/$1/attach/ws?$2"
  shift 2
  node_ws "$moss_top/tests/lib/ws.js" "ws://$address$path" "$@"
}
# node_ws SCRIPT [ARG]...: runs it with the client, which hack/install-deps.sh has put there.
node_ws() { NODE_PATH=$moss_top/.cache/clients/node_modules timeout 180 node "$@"; }
# upgrade PATH [HEADER...]: the head of the answer to a handshake over TCP.
upgrade() {
  local path=$1 args=() h
  shift
  for h in Connection:Upgrade Upgrade:websocket Sec-WebSocket-Version:13 Sec-WebSocket-Key:dGhlIHNhbXBsZSBub25jZQ== "$@"; do
    args+=(-H "$h")
  done
  curl -sS -i --http1.1 --max-time 10 "${args[@]}" "http://$address$path" 2>/dev/null | tr -d '\r' || true
}

@test "attach/ws: output of both streams comes as text without frames, and the end with code 1000" {
  name=$(unique ws)
  moss create -i --name "$name" busybox sh -c 'read line; echo "out $line"; read line; echo "err $line" >&2' >/dev/null
  ws "$name" 'stream=1' --send 'ä€😀\n' --send 'two\n' >"$BATS_TEST_TMPDIR/out" 3>&- &
  client=$!
  eventually 10 view_is_waited_for
  moss start "$name"
  wait $client
  run cat "$BATS_TEST_TMPDIR/out"
  expect contains 'text "out ä€😀\n"' 'text "err two\n"'
  expect line -1 'closed 1000'
  moss rm -f "$name"
}
view_is_waited_for() { grep -q '"attach"' <(moss events --since "$((EPOCHSECONDS - 20))" --until "$((EPOCHSECONDS + 1))" --filter "container=$name" --format '{{json .}}'); }

@test "attach/ws: binary input is the process's input, byte by byte" {
  name=$(unique bin)
  moss run -di --name "$name" busybox sh -c 'head -c 5 | od -An -tx1' >/dev/null
  run ws "$name" 'stream=1&stdin=1&stdout=1' --binary 00ff800a --binary c3
  expect line 0 'text " 00 ff 80 0a c3\n"'
  expect line -1 'closed 1000'
  moss rm -f "$name"
}

@test "attach/ws: what is no UTF-8 comes as binary, and a rune is never cut" {
  name=$(unique utf)
  moss run -di --name "$name" busybox sh -c 'for piece in "a\303" "\244b" "\377\376" "\342\202"; do read x; printf "$piece"; done' >/dev/null
  run ws "$name" 'stream=1&stdin=1&stdout=1' --send '\n' --each '\n'
  expect output $'text "a"\ntext "äb"\nbinary fffe\nbinary e282\nclosed 1000'
  moss rm -f "$name"
}

@test "attach/ws: who offers the subprotocol binary gets nothing else" {
  name=$(unique proto)
  moss run -di --name "$name" busybox sh -c 'read x; printf hello' >/dev/null
  run ws "$name" 'stream=1&stdin=1&stdout=1' --protocol binary --send '\n'
  expect output $'binary 68656c6c6f\nclosed 1000'
  moss rm -f "$name"
}

@test "attach/ws: a terminal's output, and the log before it" {
  name=$(unique tty)
  moss run -dit --name "$name" busybox sh -c 'echo before; stty -echo; read x; echo "got $x"; sleep 1000' >/dev/null
  eventually 10 log_has "$name" before
  run ws "$name" 'logs=1&stream=1&stdin=1&stdout=1' --send 'hi\n' --close-after 'got hi'
  expect contains before 'got hi\r\n'
  expect line -1 'closed 1000'
  # The client's close ended its view alone.
  expect equal "$(state "$name")" running
  moss rm -f "$name"
}

@test "attach/ws: the log alone, of a container that has ended" {
  name=$(unique log)
  moss run --name "$name" busybox sh -c 'echo out; echo err >&2' >/dev/null 2>&1
  run ws "$name" 'logs=1&stdout=1'
  expect output $'text "out\\n"\nclosed 1000'
  run ws "$name" 'logs=1'
  expect contains 'text "out\n"' 'text "err\n"' 'closed 1000'
  moss rm -f "$name"
}

@test "attach/ws: a handful of megabytes arrive whole" {
  name=$(unique large)
  moss run -di --name "$name" busybox sh -c 'read x; yes 0123456789abcdef | head -c 8000000' >/dev/null
  ws "$name" 'stream=1&stdin=1&stdout=1' --send '\n' >"$BATS_TEST_TMPDIR/out"
  expect equal "$(tail -n 1 "$BATS_TEST_TMPDIR/out")" 'closed 1000'
  expect equal "$(sed -n 's/^text //p' "$BATS_TEST_TMPDIR/out" | jq -j . | md5sum)" "$(yes 0123456789abcdef | head -c 8000000 | md5sum)"
  moss rm -f "$name"
}

@test "attach/ws: a message that is too long closes with 1009" {
  name=$(unique long)
  moss run -di --name "$name" busybox cat >/dev/null
  printf 'const WebSocket = require("ws"); const ws = new WebSocket(process.argv[2]); ws.onopen = () => ws.send("x".repeat(2 << 20)); ws.onclose = (e) => console.log(e.code);' \
    >"$BATS_TEST_TMPDIR/long.js"
  run node_ws "$BATS_TEST_TMPDIR/long.js" "ws://$address/containers/$name/attach/ws?stream=1&stdin=1"
  expect output 1009
  expect equal "$(state "$name")" running
  moss rm -f "$name"
}

@test "attach/ws: a page of another origin is refused with 403" {
  name=$(unique origin)
  moss run -d --name "$name" busybox sleep 1000 >/dev/null
  run upgrade "/v1.24/containers/$name/attach/ws?stream=1" 'Origin: http://evil.example'
  expect line 0 'HTTP/1.1 403 Forbidden'
  expect lacks Sec-WebSocket-Accept
  run upgrade "/v1.24/containers/$name/attach/ws?stream=1" "Origin: http://$address"
  expect line 0 'HTTP/1.1 101 Switching Protocols'
  expect contains 's3pPLMBiTxaQ9kYGzzhZRbK+xOo='
  moss rm -f "$name"
}

@test "attach/ws: bad requests are answered, not taken over" {
  name=$(unique bad)
  moss create --name "$name" busybox true >/dev/null
  run api GET "/containers/$name/attach/ws?stream=1"
  expect line -1 400
  run api GET "/containers/nosuch/attach/ws?stream=1"
  expect line -1 404
  run upgrade "/containers/nosuch/attach/ws?stream=1"
  expect line 0 'HTTP/1.1 404 Not Found'
  run upgrade "/containers/$name/attach/ws?stream=1&detachKeys=ctrl-1"
  expect line 0 'HTTP/1.1 400 Bad Request'
  moss rm -f "$name"
}
