#!/usr/bin/env bats
# Log drivers with receivers: what a container writes reaches them by moss-log, whatever dies or is away meanwhile.

load lib/moss
load lib/ports
load lib/receiver

setup_file() {
  start_engine
  import_busybox
  start_rsyslog syslog
  export SYSLOG_PORT SYSLOG_SOCKET
  SYSLOG_PORT=$RECEIVER_PORT
  SYSLOG_SOCKET=$(receiver_dir syslog)/stream
}
teardown_file() { stop_receivers && stop_engine; }
setup() { begin; }
teardown() { finish; }

# lines_of NAME RECEIVER: the numbers of lines "NAME: number" that came, in their order.
lines_of() { received "$2" | tr '\0' '\n' | sed -n "s/.*$1: \\([0-9]*\\)\$/\\1/p"; }

# last_of NAME RECEIVER: the number of the last of them, read from the end: a look must not cost more the more has come.
last_of() { tac "$(receiver_dir "$2")/log" | sed -n "s/.*$1: \\([0-9]*\\)\$/\\1/p;T;q"; }

# in_order NAME RECEIVER COUNT: have all lines from 1 come, in order and each once?
in_order() { seq "$3" | cmp -s - <(lines_of "$1" "$2"); }

# counts NAME COUNT: a script that writes so many numbered lines.
counts() { echo "i=0; while [ \$i -lt $2 ]; do i=\$((i+1)); echo $1: \$i; done"; }

@test "syslog: program, facility and severity arrive, over unix and tcp, in each format" {
  for address in "unix://$SYSLOG_SOCKET" "unixgram://${SYSLOG_SOCKET%stream}datagrams" "tcp://127.0.0.1:$SYSLOG_PORT"; do
    for format in rfc3164 rfc5424 rfc5424micro; do
      name=$(unique log)
      moss run --rm --name "$name" --log-driver syslog --log-opt syslog-address="$address" --log-opt syslog-format=$format \
        --log-opt syslog-facility=local3 --log-opt tag='app/{{.Name}}' busybox sh -c "echo out of $name; sleep 0.1; echo err of $name >&2"
      for text in out err; do eventually 20 has_received syslog "$text of $name"; done
      expect --in "$(received syslog | grep "out of $name")" matches "^local3\\.info .*app/$name.*out of $name\$"
      expect --in "$(received syslog | grep "err of $name")" matches "^local3\\.err .*app/$name.*err of $name\$"
    done
  done
}

@test "logs of a driver with a receiver says that they cannot be read; cache-disabled=false keeps a bounded copy" {
  name=$(unique log) other=$(unique log)
  moss run --name "$name" --log-driver syslog --log-opt syslog-address="unix://$SYSLOG_SOCKET" busybox echo seen
  run moss logs "$name"
  [ "$status" -ne 0 ]
  expect contains 'does not support reading'
  expect equal "$(moss inspect --format '{{.LogPath}}' "$name")" ''
  moss run --name "$other" --log-driver syslog --log-opt syslog-address="unix://$SYSLOG_SOCKET" --log-opt cache-disabled=false \
    --log-opt cache-max-size=20k --log-opt cache-max-file=2 --log-opt cache-compress=false busybox sh -c "$(counts "$other" 3000)"
  expect equal "$(moss logs --tail 1 "$other")" "$other: 3000"
  [ "$(moss logs "$other" | wc -l)" -lt 3000 ]
  eventually 20 in_order "$other" syslog 3000
  path=$(moss inspect --format '{{.LogPath}}' "$other")
  [ "$(stat -c %s "$path")" -le 22000 ] && [ -e "$path.1" ] && [ ! -e "$path.2" ]
  moss rm "$name" "$other"
}

@test "docker run with a driver that has a receiver: the line arrives, and docker logs is refused in its words" {
  name=$(unique log)
  run dock run --name "$name" --log-driver syslog --log-opt syslog-address="unix://$SYSLOG_SOCKET" --log-opt tag='dock/{{.Name}}' \
    busybox echo "said to docker by $name"
  expect status 0
  expect output "said to docker by $name"
  eventually 20 has_received syslog "said to docker by $name"
  expect --in "$(received syslog)" matches "^daemon\\.info .*dock/$name.*said to docker by $name\$"
  run dock logs "$name"
  expect status 1
  expect contains 'configured logging driver does not support reading'
  expect equal "$(dock inspect --format '{{.HostConfig.LogConfig.Type}} {{index .HostConfig.LogConfig.Config "tag"}}' "$name")" 'syslog dock/{{.Name}}'
  dock rm "$name"
  run dock run --name "$name" --log-driver syslog --log-opt syslog-adress=x busybox true
  expect status 125
  expect contains "unknown log opt 'syslog-adress' for syslog log driver"
}

@test "moss-log is one program, without a secret on its command line or in the engine's log and events" {
  start_receiver secret http
  since=$(date +%s)
  for name in $(unique log) $(unique log); do
    moss run -d --name "$name" --log-driver splunk --log-opt splunk-url="http://127.0.0.1:$RECEIVER_PORT" \
      --log-opt splunk-token=token-that-nobody-sees busybox sh -c 'echo said; sleep 1000'
  done
  eventually 20 has_received secret said
  expect equal "$(relay_pid | wc -w)" 1
  expect equal "$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -cx "[t]oken-that-nobody-sees")" 0
  expect equal "$(grep -c token-that-nobody-sees "$MOSS_DIR/mossd.log")" 0
  expect equal "$(moss events --since "$since" --until "$(date +%s)" | grep -c token-that-nobody-sees)" 0
  moss rm -f "$name"
}

@test "fluentd, gelf and splunk: a line reaches the receiver" {
  start_receiver raw raw
  raw=$RECEIVER_PORT
  start_receiver http http
  while IFS='|' read -r driver options receiver; do
    name=$(unique log)
    # shellcheck disable=SC2086 # words
    moss run --rm --name "$name" --log-driver "$driver" $options --label kind=test --log-opt labels=kind \
      busybox echo "said by $name"
    eventually 20 has_received "$receiver" "said by $name"
    received "$receiver" | tr '\0' '\n' | grep -a "said by $name" | grep -q test
  done <<LIST
fluentd|--log-opt fluentd-address=127.0.0.1:$raw|raw
gelf|--log-opt gelf-address=tcp://127.0.0.1:$raw|raw
splunk|--log-opt splunk-url=http://127.0.0.1:$RECEIVER_PORT --log-opt splunk-token=t|http
LIST
}

@test "a receiver that is not there: the start fails with its address, but for udp and fluentd-async" {
  port=$(free_port)
  while IFS='|' read -r driver option status; do
    name=$(unique log)
    # shellcheck disable=SC2086 # words
    run moss run --name "$name" --log-driver "$driver" $option busybox true
    expect status "$status"
    if [ "$status" != 0 ]; then
      expect contains "log driver $driver" "$port"
      expect equal "$(moss inspect --format '{{.State.Status}}' "$name")" created
    fi
    moss rm "$name"
  done <<LIST
syslog|--log-opt syslog-address=tcp://127.0.0.1:$port|125
syslog|--log-opt syslog-address=unix:///tmp/nobody-listens-$port|125
syslog|--log-opt syslog-address=udp://127.0.0.1:$port|0
gelf|--log-opt gelf-address=tcp://127.0.0.1:$port|125
gelf|--log-opt gelf-address=udp://127.0.0.1:$port|0
fluentd|--log-opt fluentd-address=127.0.0.1:$port|125
fluentd|--log-opt fluentd-address=127.0.0.1:$port --log-opt fluentd-async=true --log-opt fluentd-max-retries=1|0
splunk|--log-opt splunk-url=http://127.0.0.1:$port --log-opt splunk-token=t|125
LIST
}

# loud NAME [OPTION...]: a container that writes numbered lines to the receiver away until it may end.
loud() {
  local name=$1
  shift
  moss run -d --name "$name" --log-driver gelf --log-opt gelf-address="tcp://127.0.0.1:$AWAY_PORT" "$@" busybox \
    sh -c "$on_tell; i=0; until [ \$told ]; do i=\$((i+1)); echo $name: \$i; done; echo $name wrote \$i"
}
# away: a receiver that is there and then is not.
away() {
  away=$(unique away)
  start_receiver "$away" raw
  AWAY_PORT=$RECEIVER_PORT
}
# numbers NAME: the numbers that came to the receiver that was away.
numbers() { received "$away" | tr '\0' '\n' | grep -ao "$1: [0-9][0-9]*" | cut -d' ' -f2; }

@test "a receiver that goes away holds a container up in blocking mode, and nothing else; then all comes in order" {
  away
  name=$(unique log) other=$(unique log)
  loud "$name"
  eventually 20 has_received "$away" "$name: 100"
  kill -STOP "$(cat "$(receiver_dir "$away")/pid")"
  eventually 60 stands "$name"
  expect equal "$(moss exec "$name" echo in)" in
  expect --in "$(moss top "$name")" contains until
  moss kill -s WINCH "$name"
  moss pause "$name" && moss unpause "$name"
  expect equal "$(moss run --rm --name "$other" busybox echo ran)" ran
  kill -CONT "$(cat "$(receiver_dir "$away")/pid")"
  tell "$name"
  moss wait "$name"
  last=$(moss inspect --format '{{.State.ExitCode}}' "$name")
  expect equal "$last" 0
  moss rm "$name"
  wrote() { received "$away" | tr '\0' '\n' | grep -ao "$name wrote [0-9][0-9]*" | cut -d' ' -f3; }
  all_there() { numbers "$name" >"$BATS_TEST_TMPDIR/numbers" && seq "$(wrote)" | cmp - "$BATS_TEST_TMPDIR/numbers"; }
  eventually 20 all_there
  stop_receiver "$away"
}

@test "kill, stop and rm -f of a container whose receiver is away come to an end" {
  for verb in kill 'stop -t 1' 'rm -f'; do
    away
    name=$(unique log)
    loud "$name"
    eventually 20 has_received "$away" "$name: 100"
    kill -STOP "$(cat "$(receiver_dir "$away")/pid")"
    eventually 60 stands "$name"
    begun=$(date +%s)
    # shellcheck disable=SC2086 # words
    moss $verb "$name"
    [ "$verb" = 'rm -f' ] || moss wait "$name"
    [ $(($(date +%s) - begun)) -le 20 ]
    [ "$verb" = 'rm -f' ] || moss rm "$name"
    is_gone "$name"
    kill -CONT "$(cat "$(receiver_dir "$away")/pid")"
    stop_receiver "$away"
  done
}

@test "mode=non-blocking: lines are dropped by a container that goes on, and counted" {
  away
  name=$(unique log)
  kill -STOP "$(cat "$(receiver_dir "$away")/pid")"
  moss run -d --name "$name" --log-driver gelf --log-opt gelf-address="tcp://127.0.0.1:$AWAY_PORT" --log-opt mode=non-blocking \
    --log-opt max-buffer-size=64k busybox sh -c "$(counts "$name" 300000); echo over >/tmp/over; sleep 1000"
  eventually 60 moss exec "$name" test -e /tmp/over
  kill -CONT "$(cat "$(receiver_dir "$away")/pid")"
  moss rm -f "$name"
  eventually 10 grep -q 'lines of output were dropped' "$MOSS_DIR/mossd.log"
  numbers "$name" | sed '$d' >"$BATS_TEST_TMPDIR/numbers" # the receiver may be in the midst of the last one
  sort -nc "$BATS_TEST_TMPDIR/numbers"
  stop_receiver "$away"
}

@test "kill -9 of moss-log, of the engine, and of both: no line is lost, and those that come twice come again in order" {
  names=()
  for _ in 1 2 3; do
    name=$(unique log)
    names+=("$name")
    moss run -d --name "$name" --log-driver syslog --log-opt syslog-address="tcp://127.0.0.1:$SYSLOG_PORT" busybox \
      sh -c "$on_tell; i=0; until [ \$told ]; do i=\$((i+1)); echo $name: \$i; [ \$((i % 100)) != 0 ] || sleep 0.1; done; echo $name: last"
  done
  for _ in 1 2 3; do
    for victims in relay engine both; do
      eventually 20 relay_runs
      old=$(inner_pid) relay=$(relay_pid)
      [ $victims = engine ] || kill -KILL "$relay"
      if [ $victims != relay ]; then
        kill -KILL "$old"
        eventually 30 another_engine "$old"
      fi
      for name in "${names[@]}"; do
        now=$(last_of "$name" syslog) now=${now:-0}
        more() { [ "$(last_of "$name" syslog)" -gt "$now" ]; }
        eventually 20 more
      done
    done
  done
  for name in "${names[@]}"; do
    tell "$name"
    eventually 60 has_received syslog "$name: last"
    lines_of "$name" syslog >"$BATS_TEST_TMPDIR/numbers"
    sort -nu "$BATS_TEST_TMPDIR/numbers" | cmp - <(seq "$(sort -n "$BATS_TEST_TMPDIR/numbers" | tail -n 1)")
    moss rm -f "$name"
  done
}

@test "lines of 300 MB, bytes of every kind and output without a newline arrive whole, in pieces, with little memory" {
  mkdir -p "$(receiver_dir pieces)"
  log=$MOSS_DATA/pieces # the other folder may be in memory
  ln -s "$log" "$(receiver_dir pieces)/log"
  start_receiver pieces raw
  name=$(unique log)
  moss run -d --name "$name" --log-driver gelf --log-opt gelf-address="tcp://127.0.0.1:$RECEIVER_PORT" busybox \
    sh -c "$on_tell"'; head -c 300000000 /dev/zero | tr "\0" "\176"; echo; printf "a\000b\377c\n"; head -c 20000 /dev/zero | tr "\0" y; until [ $told ]; do sleep 0.1; done'
  piece() { tail -c 40000 "$log" | grep -aq yyyy; } # the first of two
  eventually 60 piece
  shim=$(awk '/^PPid/ {print $2}' "/proc/$(pid_of "$name")/status")
  for process in "moss-log $(relay_pid)" "moss-shim $shim"; do
    expect equal "$(cat "/proc/${process#* }/comm")" "${process% *}"
    [ "$(awk '/^VmHWM/ {print $2}' "/proc/${process#* }/status")" -lt 65536 ] || fail "$process: $(grep VmHWM "/proc/${process#* }/status")"
  done
  tell "$name"
  moss wait "$name"
  moss rm "$name"
  whole() { tail -c 80000 "$log" | tr '\0' '\n' | sed 1d | jq -r .short_message | tr -d '\n' | tr -dc y | wc -c | grep -qx 20000; }
  eventually 60 whole
  expect equal "$(tr -dc '~' <"$log" | wc -c)" 300000000
  pieces=$((300000000 / 16384 + 1))
  tr '\0' '\n' <"$log" | grep -a '~~' | grep -ao '"_partial_ordinal":[0-9]*' | cut -d: -f2 | cmp - <(seq $pieces)
  stop_receiver pieces
  rm "$log"
}

@test "50 containers that log at once lose nothing" {
  names=()
  for _ in $(seq 50); do
    name=$(unique log)
    names+=("$name")
    moss create --name "$name" --log-driver syslog --log-opt syslog-address="unix://$SYSLOG_SOCKET" busybox sh -c "$(counts "$name" 500)"
  done
  CLIENT_SECONDS=600 moss start "${names[@]}"
  CLIENT_SECONDS=600 moss wait "${names[@]}"
  for name in "${names[@]}"; do eventually 60 in_order "$name" syslog 500; done
  CLIENT_SECONDS=600 moss rm "${names[@]}"
}
