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
  run_rsyslog "$dir"
  eventually 20 test -S "$dir/datagrams"
  eventually 20 test -S "$dir/stream"
}

# start_rsyslog_tls NAME: starts one that listens by TCP with TLS, and takes clients with a certificate of its authority alone. Its
# folder has ca.pem, client.pem and client-key.pem, and stranger.pem and stranger-key.pem of a client that nobody knows.
start_rsyslog_tls() {
  local dir
  dir=$(receiver_dir "$1")
  RECEIVER_PORT=$(free_port)
  mkdir -p "$dir/work"
  make_certificate "$dir" ca -addext basicConstraints=critical,CA:TRUE
  make_certificate "$dir" stranger
  make_certificate "$dir" server -CA "$dir/ca.pem" -CAkey "$dir/ca-key.pem" -addext subjectAltName=IP:127.0.0.1
  make_certificate "$dir" client -CA "$dir/ca.pem" -CAkey "$dir/ca-key.pem" -addext extendedKeyUsage=clientAuth
  cat >"$dir/conf" <<CONF
global(workDirectory="$dir/work" defaultNetstreamDriverCAFile="$dir/ca.pem"
  defaultNetstreamDriverCertFile="$dir/server.pem" defaultNetstreamDriverKeyFile="$dir/server-key.pem")
module(load="imtcp" streamDriver.name="gtls" streamDriver.mode="1" streamDriver.authMode="x509/certvalid")
input(type="imtcp" address="127.0.0.1" port="$RECEIVER_PORT")
template(name="plain" type="string" string="%syslogtag%%msg%\n")
action(type="omfile" file="$dir/log" template="plain" fileCreateMode="0644")
CONF
  run_rsyslog "$dir"
}

# make_certificate DIR NAME [OPTION...]: NAME.pem and NAME-key.pem, by itself or as the options of openssl req say.
make_certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$2" -keyout "$1/$2-key.pem" -out "$1/$2.pem" \
    "${@:3}" 2>"$1/errors" || fail "openssl: $(cat "$1/errors")"
}

# run_rsyslog DIR: starts it with the file conf there, and waits until it listens on RECEIVER_PORT.
run_rsyslog() {
  local dir=$1
  rsyslogd -n -f "$dir/conf" -i "$dir/pidfile" >"$dir/errors" 2>&1 3>&- 4>&- &
  echo $! >"$dir/pid"
  eventually 20 listens "$RECEIVER_PORT"
}

# start_receiver NAME KIND [PORT]: starts tests/lib/receiver.py, which says what the kinds are. Sets RECEIVER_PORT.
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

# set_mode NAME MODE: makes a receiver of receiver.py behave so from the next message on; well is as it was.
set_mode() {
  local file
  file=$(receiver_dir "$1")/log
  case $2 in
    full) prlimit --pid "$(cat "${file%log}pid")" --fsize="$(stat -c %s "$file"):" ;;
    well) rm -f "$file.mode" && prlimit --pid "$(cat "${file%log}pid")" --fsize=unlimited: ;;
    *) echo "$2" >"$file.mode" ;;
  esac
}

# last_number NAME RECEIVER: the last number that came of lines "NAME: number", read from the end: a look must not cost more the
# more has come.
last_number() { tac "$(receiver_dir "$2")/log" 2>/dev/null | grep -ao -m 1 "$1: [0-9][0-9]*" | tail -n 1 | sed 's/.*: //'; }
# has_number NAME RECEIVER NUMBER: has it, or one after it?
has_number() { [ "$(last_number "$1" "$2")" -ge "$3" ] 2>/dev/null; }
# all_numbers NAME RECEIVER: all of them, in the order in which they came.
all_numbers() { grep -ao "$1: [0-9][0-9]*" "$(receiver_dir "$2")/log" | sed 's/.*: //'; }

# received NAME: what came.
received() { cat "$(receiver_dir "$1")/log" 2>/dev/null; }

# has_received NAME TEXT: has it come?
has_received() { received "$1" | tr '\0' '\n' | grep -qF -- "$2"; }

# relay_pid: the process id of moss-log, which is nobody's child once its engine has gone. Other files have theirs.
relay_pid() {
  local pid space
  space=$(readlink "/proc/$(inner_pid)/ns/user")
  for pid in $(pgrep -u "$(id -u)" -x moss-log); do
    if [ "$(readlink "/proc/$pid/ns/user")" = "$space" ]; then echo "$pid"; fi
  done
}
# relay_runs: is there one, and has the machine buried those before it?
relay_runs() { [ "$(relay_pid | wc -l)" = 1 ]; }
