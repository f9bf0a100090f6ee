#!/usr/bin/env bats
# Receivers of log drivers that are not well, or that want to know who sends: each driver's protocol, by receivers that check it.

load lib/moss
load lib/ports
load lib/receiver

setup_file() {
  export AWS_ACCESS_KEY_ID=id-of-the-engine AWS_SECRET_ACCESS_KEY=secret-of-the-engine # the engine's, and the receiver's
  start_engine
  import_busybox
}
teardown_file() { stop_receivers && stop_engine; }
setup() { begin; }
teardown() { finish; }

# said DRIVER NAME OPTION...: runs a container that says its name.
said() {
  local driver=$1 name=$2 option options=()
  shift 2
  for option in "$@"; do options+=(--log-opt "$option"); done
  moss run --rm --name "$name" --log-driver "$driver" "${options[@]}" busybox echo "by $name"
}

# loud NAME DRIVER OPTION...: a container that writes numbered lines until it may end, and then how many there were.
loud() {
  local name=$1 driver=$2 option options=()
  shift 2
  for option in "$@"; do options+=(--log-opt "$option"); done
  moss run -d --name "$name" --log-driver "$driver" "${options[@]}" busybox \
    sh -c "$on_tell; x=\$(head -c 400 /dev/zero | tr '\\0' x); i=0; until [ \$told ]; do i=\$((i+1)); echo \$x $name: \$i; done; echo $name wrote \$i"
}

# ends_in_order NAME RECEIVER: lets it end; all its lines come then, in their order and each once.
ends_in_order() {
  tell "$1"
  expect equal "$(moss wait "$1")" 0
  moss rm "$1"
  has_end() { tail -n 20 "$(receiver_dir "$2")/log" | grep -aq "$1 wrote"; }
  eventually 20 has_end "$1" "$2"
  all_numbers "$1" "$2" >"$BATS_TEST_TMPDIR/numbers"
  seq "$(tail -n 20 "$(receiver_dir "$2")/log" | grep -ao "$1 wrote [0-9]*" | cut -d' ' -f3)" | cmp - "$BATS_TEST_TMPDIR/numbers"
}

@test "splunk: an event has the short id as its tag, the tag that was asked for, or none where that is empty" {
  start_receiver tags http
  local name url=splunk-url=http://127.0.0.1:$RECEIVER_PORT token=splunk-token=t
  for tag in missing tag= 'tag=web/{{.Name}}'; do
    name=$(unique log)
    said splunk "$name" "$url" "$token" ${tag%missing}
    eventually 20 has_received tags "by $name"
    case $tag in
      missing) want='^[0-9a-f]{12}$' ;;
      tag=) want='^null$' ;;
      *) want="^web/$name\$" ;;
    esac
    expect --in "$(received tags | jq -r "select(.event.line? == \"by $name\") | .event.tag")" matches "$want"
  done
  stop_receiver tags
}

@test "awslogs: signed events in the stream of the id, of the tag, or of the name that was asked for" {
  start_receiver aws cloudwatch
  local name options=("awslogs-endpoint=http://127.0.0.1:$RECEIVER_PORT" awslogs-region=eu-central-1)
  for stream in missing tag= 'tag=web-{{.Name}}' awslogs-stream=given 'tag=x awslogs-stream=both'; do
    name=$(unique log)
    # shellcheck disable=SC2086 # words
    said awslogs "$name" "${options[@]}" awslogs-group=there ${stream%missing}
    eventually 20 has_received aws "by $name"
    case $stream in
      missing | tag=) want='[0-9a-f]{64}' ;;
      tag=web*) want=web-$name ;;
      *) want=${stream##*=} ;;
    esac
    expect --in "$(received aws)" matches "^there/$want [0-9]{13} \"by $name\"\$"
  done
  name=$(unique log)
  run said awslogs "$name" "${options[@]}" awslogs-group=missing
  expect status 125
  expect contains 'log driver awslogs' "127.0.0.1:$RECEIVER_PORT" 'log group does not exist'
  name=$(unique log)
  said awslogs "$name" "${options[@]}" awslogs-group=made awslogs-stream=s awslogs-create-group=true
  eventually 20 has_received aws "made/s "
  expect equal "$(grep -c secret-of-the-engine "$MOSS_DIR/mossd.log")" 0
  stop_receiver aws
}

@test "awslogs: lines from one that matches the pattern to the next are one event" {
  start_receiver lines cloudwatch
  local name options=(--log-driver awslogs --log-opt awslogs-endpoint="http://127.0.0.1:$RECEIVER_PORT" --log-opt awslogs-region=r)
  name=$(unique log)
  moss run --rm --name "$name" "${options[@]}" --log-opt awslogs-group=there --log-opt awslogs-stream=pattern \
    --log-opt awslogs-multiline-pattern='^ERROR' busybox printf 'first\nERROR one\n at a\n at b\nERROR two\n'
  moss run --rm --name "$name" "${options[@]}" --log-opt awslogs-group=there --log-opt awslogs-stream=format \
    --log-opt awslogs-datetime-format='\[%Y-%m-%d\]' busybox printf '[2026-01-02] one\n at a\n[2026-01-03] two\n'
  events() { received lines | sed -n "s|^there/$1 [0-9]* ||p"; }
  come() { [ "$(received lines | wc -l)" = 5 ]; }
  eventually 20 come
  expect equal "$(events pattern)" '"first"
"ERROR one\n at a\n at b"
"ERROR two"'
  expect equal "$(events format)" '"[2026-01-02] one\n at a"
"[2026-01-03] two"'
  stop_receiver lines
}

@test "syslog with TLS: a receiver that wants a certificate takes the right one's lines; others fail the start" {
  start_rsyslog_tls tls
  local name dir options
  dir=$(receiver_dir tls)
  options=("syslog-address=tcp+tls://127.0.0.1:$RECEIVER_PORT" "syslog-tls-ca-cert=$dir/ca.pem" syslog-format=rfc5424)
  name=$(unique log)
  said syslog "$name" "${options[@]}" "syslog-tls-cert=$dir/client.pem" "syslog-tls-key=$dir/client-key.pem"
  eventually 20 has_received tls "by $name"
  for wrong in "" "syslog-tls-cert=$dir/stranger.pem syslog-tls-key=$dir/stranger-key.pem" "syslog-tls-ca-cert=$dir/stranger.pem"; do
    name=$(unique log)
    # shellcheck disable=SC2086 # words
    run said syslog "$name" "${options[@]}" $wrong
    expect status 125
    expect contains 'log driver syslog' "127.0.0.1:$RECEIVER_PORT" TLS
  done
  [[ $(received tls) != *"$name"* ]]
  stop_receiver tls
}

# A receiver that takes nothing more: garbage is an answer that makes no sense, full is a file that can take no byte more.
@test "a receiver that answers garbage or is full holds the container up, and nothing else; then all comes in order" {
  while read -r kind mode driver options; do
    receiver=$kind-$mode
    start_receiver "$receiver" "$kind"
    name=$(unique log) other=$(unique log)
    # shellcheck disable=SC2086 # words
    for each in "$name" "$other"; do loud "$each" "$driver" ${options//PORT/$RECEIVER_PORT}; done
    for each in "$name" "$other"; do eventually 20 has_number "$each" "$receiver" 100; done
    set_mode "$receiver" "$mode"
    for each in "$name" "$other"; do eventually 20 stands "$each"; done
    expect equal "$(moss exec "$name" echo in)" in
    expect equal "$(moss run --rm busybox echo ran)" ran
    begun=$SECONDS
    moss stop -t 1 "$other"
    moss rm "$other"
    [ $((SECONDS - begun)) -le 20 ]
    set_mode "$receiver" well
    last=$(last_number "$name" "$receiver")
    eventually 20 has_number "$name" "$receiver" $((last + 1000))
    ends_in_order "$name" "$receiver"
    all_numbers "$other" "$receiver" >"$BATS_TEST_TMPDIR/numbers"
    seq "$(tail -n 1 "$BATS_TEST_TMPDIR/numbers")" | cmp - "$BATS_TEST_TMPDIR/numbers"
    stop_receiver "$receiver"
  done <<'LIST'
fluentd garbage fluentd fluentd-address=127.0.0.1:PORT fluentd-request-ack=true fluentd-retry-wait=100ms
fluentd full fluentd fluentd-address=127.0.0.1:PORT fluentd-request-ack=true fluentd-retry-wait=100ms
http garbage splunk splunk-url=http://127.0.0.1:PORT splunk-token=t
http full splunk splunk-url=http://127.0.0.1:PORT splunk-token=t
LIST
}

@test "a receiver that closes the connection after each message gets all in order" {
  while read -r kind driver options; do
    start_receiver "closes-$kind" "$kind"
    set_mode "closes-$kind" closes
    name=$(unique log)
    # shellcheck disable=SC2086 # words
    loud "$name" "$driver" ${options//PORT/$RECEIVER_PORT}
    eventually 60 has_number "$name" "closes-$kind" 3000
    ends_in_order "$name" "closes-$kind"
    stop_receiver "closes-$kind"
  done <<'LIST'
fluentd fluentd fluentd-address=127.0.0.1:PORT fluentd-request-ack=true fluentd-retry-wait=100ms
http splunk splunk-url=http://127.0.0.1:PORT splunk-token=t
LIST
}

@test "kill -9 of moss-log with acknowledgements: no line is lost, and none comes twice but those without one" {
  start_receiver acks fluentd
  name=$(unique log)
  loud "$name" fluentd "fluentd-address=127.0.0.1:$RECEIVER_PORT" fluentd-request-ack=true
  for round in 1 2 3; do
    eventually 60 has_number "$name" acks $((round * 500))
    set_mode acks mute
    eventually 20 stands "$name"
    kill -KILL "$(relay_pid)"
    set_mode acks well
    eventually 20 relay_runs
    last=$(last_number "$name" acks)
    eventually 20 has_number "$name" acks $((last + 500))
  done
  ends_in_order "$name" acks
  # What was taken without an acknowledgement came a second time.
  grep -ao "$name: [0-9]*" "$(receiver_dir acks)/log.mute" | sed 's/.*: //' | sort -n >"$BATS_TEST_TMPDIR/unacknowledged"
  [ -s "$BATS_TEST_TMPDIR/unacknowledged" ]
  stop_receiver acks
}
