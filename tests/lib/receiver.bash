# shellcheck shell=bash
# receiver.bash: receivers of what log drivers send.
#
#   load lib/moss
#   load lib/receiver
#   teardown_file() { stop_receivers && stop_engine; }
#
# Their folders are $(receiver_dir NAME): log has what came, pid the process.

receiver_dir() { echo "$MOSS_DIR/receivers/$1"; }

# start_rsyslog NAME [PORT]: starts Debian's rsyslogd, which listens on two unix sockets in its folder, datagrams and stream, and by
# TCP on a port, and writes each message into log: facility, severity, program, and the message. Sets RECEIVER_PORT.
start_rsyslog() {
  local dir
  dir=$(receiver_dir "$1")
  RECEIVER_PORT=${2:-$(free_port)}
  mkdir -p "$dir/work"
  cat >"$dir/conf" <<CONF
global(workDirectory="$dir/work" maxMessageSize="64k" parser.escapeControlCharactersOnReceive="off")
module(load="imtcp")
module(load="imuxsock" sysSock.use="off")
module(load="imptcp")
input(type="imtcp" address="127.0.0.1" port="$RECEIVER_PORT")
input(type="imuxsock" socket="$dir/datagrams" createPath="on" rateLimit.interval="0" useSysTimeStamp="off")
input(type="imptcp" path="$dir/stream" unlink="on")
template(name="plain" type="string" string="%syslogfacility-text%.%syslogseverity-text% %syslogtag%%msg%\n")
action(type="omfile" file="$dir/log" template="plain" fileCreateMode="0644")
CONF
  rsyslogd -n -f "$dir/conf" -i "$dir/pidfile" >"$dir/errors" 2>&1 3>&- 4>&- &
  echo $! >"$dir/pid"
  eventually 20 test -S "$dir/datagrams"
  eventually 20 test -S "$dir/stream"
  eventually 20 listens "$RECEIVER_PORT"
}

# start_receiver NAME KIND [PORT]: starts tests/lib/receiver.py, which takes what comes by TCP and writes it into log. KIND is raw, or
# http, which answers as an event collector does. Sets RECEIVER_PORT.
start_receiver() {
  local dir
  dir=$(receiver_dir "$1")
  RECEIVER_PORT=${3:-$(free_port)}
  mkdir -p "$dir"
  python3 "$BATS_TEST_DIRNAME/lib/receiver.py" "$2" "$RECEIVER_PORT" "$dir/log" >"$dir/errors" 2>&1 3>&- 4>&- &
  echo $! >"$dir/pid"
  eventually 20 listens "$RECEIVER_PORT"
}

# listens RECEIVER_PORT: does something listen on it?
listens() { ss -Hltn "sport = :$1" | grep -q .; }

# stop_receiver NAME: ends one and waits until it has.
stop_receiver() {
  local pid
  pid=$(cat "$(receiver_dir "$1")/pid")
  kill "$pid"
  eventually 20 ended "$pid"
}

# stop_receivers: ends all that still run.
stop_receivers() {
  local file
  for file in "$MOSS_DIR"/receivers/*/pid; do
    ended "$(cat "$file")" && continue
    kill "$(cat "$file")"
    kill -CONT "$(cat "$file")" # a failed test may have stopped it
  done
  for file in "$MOSS_DIR"/receivers/*/pid; do eventually 20 ended "$(cat "$file")"; done
}

# received NAME: what came.
received() { cat "$(receiver_dir "$1")/log" 2>/dev/null; }

# has_received NAME TEXT: has it come?
has_received() { received "$1" | tr '\0' '\n' | grep -qF -- "$2"; }
