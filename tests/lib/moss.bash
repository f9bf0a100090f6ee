# shellcheck shell=bash
# moss.bash: what every NN-subject.bats loads. One engine per file, as the user who runs bats, in a folder of its own.
#
#   load lib/moss
#   setup_file() { start_engine; import_busybox; }
#   teardown_file() { stop_engine; }
#   setup() { begin; }
#   teardown() { finish; }
#
# Every test makes its own names with unique, so that it passes alone and in any order.

# The demo uses this file too, without bats.
if declare -F bats_require_minimum_version >/dev/null; then
  bats_require_minimum_version 1.5.0
  export TERM=xterm # of the terminals that tests make; the caller may have none
fi

moss_top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
moss_bin=${MOSS_BIN:-$moss_top/bin}

# fail TEXT...: ends the test and says why.
fail() {
  printf '%s\n' "$@" >&2
  return 1
}

# unique NAME: a name that no other test has.
unique() {
  printf '%s-%s-%08x\n' "$1" "${BATS_TEST_NUMBER:-0}" "$SRANDOM"
}

# expect: asserts on what `run` left, or on a text given as --in TEXT.
#   expect status 0            the exit status
#   expect output TEXT         the whole output
#   expect contains TEXT...    each of the texts occurs
#   expect lacks TEXT...       none of them does
#   expect matches ERE         some line matches
#   expect line N TEXT         line N, from 0
#   expect equal GOT WANT
expect() {
  local text=${output-}
  if [ "$1" = --in ]; then
    text=$2
    shift 2
  fi
  local what=$1 t
  shift
  case $what in
    status) [ "$status" = "$1" ] || fail "exit status: got $status, want $1" "output: $text" ;;
    output) [ "$text" = "$1" ] || fail "output: got '$text'" "want '$1'" ;;
    contains) for t in "$@"; do [[ $text == *"$t"* ]] || fail "output lacks '$t':" "$text" || return 1; done ;;
    lacks) for t in "$@"; do [[ $text != *"$t"* ]] || fail "output has '$t':" "$text" || return 1; done ;;
    matches) grep -qE -- "$1" <<<"$text" || fail "no line matches '$1':" "$text" ;;
    line) [ "${lines[$1]-}" = "$2" ] || fail "line $1: got '${lines[$1]-}', want '$2'" "output: $text" ;;
    equal) [ "$1" = "$2" ] || fail "got '$1', want '$2'" ;;
    *) fail "expect: no such check: $what" ;;
  esac
}

# eventually SECONDS CMD...: waits until CMD succeeds. SECONDS is much for an idle machine; a slow and busy one gets six times
# as many. The pauses between looks grow from 50 ms to 400 ms, so that long waits take little of the machine. The one way for a
# test to wait.
eventually() {
  local end=$((SECONDS + 6 * $1)) pause=50 seconds
  shift
  until "$@"; do
    [ $SECONDS -lt "$end" ] || fail "not true in time: $*" || return 1
    printf -v seconds '0.%03d' "$pause"
    sleep "$seconds"
    pause=$((pause < 270 ? pause * 3 / 2 : 400))
  done
}

# The clients. All speak to this file's engine, and none longer than CLIENT_SECONDS (180): a hang is a failure.
# docker's own log is off: at 1.24 `docker run --rm` removes the container itself and ends with the event of that. On a busy
# machine it may see the event before the answer that came first: it logs its request as cancelled then, into the output.
moss() { timeout --foreground -k 2 "${CLIENT_SECONDS:-180}" "$moss_bin/moss" --host "unix://$MOSS_SOCK" "$@"; }
# DOCKER_CLI names another program than the system's.
dock() {
  DOCKER_HOST=unix://$MOSS_SOCK DOCKER_CONFIG=$MOSS_DIR/docker-config timeout --foreground -k 2 "${CLIENT_SECONDS:-180}" \
    "${DOCKER_CLI:-docker}" --log-level fatal "$@"
}

# state NAME: the state that inspect shows. is_STATE and the like are made for eventually.
state() { moss inspect "$1" | jq -r '.[0].State.Status'; }
is_running() { [ "$(state "$1")" = running ]; }
is_exited() { [ "$(state "$1")" = exited ]; }
is_gone() { [ "$(api GET "/containers/$1/json" | tail -n 1)" = 404 ]; }
log_has() { [[ $(moss logs "$1" 2>&1) == *"$2"* ]]; }
file_has() { grep -qF -- "$2" "$1" 2>/dev/null; }
ended() { ! kill -0 "$1" 2>/dev/null; }

# pid_of NAME: the pid of its first process here.
pid_of() { moss inspect --format '{{.State.Pid}}' "$1"; }

# A container whose command begins with $on_tell has $told when tell NAME was called. A file that an exec makes is no sign for
# a container to end: its end kills the exec that has just made the file.
on_tell="trap 'told=yes' USR1"
tell() {
  eventually 10 hears "$1"
  moss kill --signal USR1 "$1"
}
hears() { [ $((0x$(awk '/^SigCgt:/ {print $2}' "/proc/$(pid_of "$1")/status") & 0x200)) != 0 ]; }

# pty ROWS COLS CMD...: runs CMD in a terminal of that size and returns its status. Its input is this one's.
pty() {
  local rows=$1 cols=$2
  shift 2
  script -qec "stty rows $rows cols $cols; ${*@Q}" /dev/null
}

# pty_until TEXT ROWS COLS CMD...: pty for a command that shows TEXT last and waits for a line, which it gets then. A command
# that ends at once may lose what it has written: when the leader of a terminal's session ends, the kernel drops what has
# not been read.
pty_until() {
  local text=$1 screen status=0
  shift
  screen=$(mktemp "$BATS_TEST_TMPDIR/screen.XXXXXX")
  # shellcheck disable=SC2094 # the one reads what the other has written
  pty "$@" >"$screen" < <(eventually 20 file_has "$screen" "$text" && echo) || status=$?
  cat "$screen"
  return $status
}

# shown ROWS COLS CMD...: pty for a command that ends at once: the terminal stays until all that it wrote has been read.
shown() { pty_until "=over=" "$1" "$2" sh -c '"$@"; code=$?; echo "=over="; read -r _; exit $code' - "${@:3}"; }

# api METHOD PATH [BODY]: one request. The body of the answer goes to stdout, its status into $code.
# Called by `run api ...`, the status is the last line of the output.
api() {
  local method=$1 path=$2 args=()
  [ $# -lt 3 ] || args=(-H 'Content-Type: application/json' --data-binary "$3")
  [ "$method" != HEAD ] || args+=(--head)
  local answer
  answer=$(exec curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -X "$method" "${args[@]}" -w '\n%{http_code}' "http://moss$path") || return
  code=${answer##*$'\n'}
  printf '%s\n' "$answer"
}

# answer_of PATH [ARG]...: what jq with these arguments makes of the answer to GET.
answer_of() {
  curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" "http://moss$1" | jq "${@:2}"
}

# stands NAME: has the container written nothing for half a second?
stands() {
  local pid before
  pid=$(pid_of "$1")
  before=$(awk '/^wchar/ {print $2}' "/proc/$pid/io")
  sleep 0.5 # it is the time that is looked at
  [ "$(awk '/^wchar/ {print $2}' "/proc/$pid/io")" = "$before" ]
}

# body: the body that a file's own ask has kept. in_body [ARG]...: what jq with these arguments makes of it.
body() { cat "$BATS_TEST_TMPDIR/body"; }
in_body() { jq "$@" "$BATS_TEST_TMPDIR/body"; }

# ping_ok tells whether the engine answers.
ping_ok() {
  [ "$(curl -s --max-time 5 --unix-socket "$MOSS_SOCK" http://moss/_ping 2>/dev/null)" = OK ]
}

# another_engine PID tells whether a new engine answers, once the one of that PID is gone.
another_engine() {
  local now
  now=$(inner_pid 2>/dev/null) && [ "$now" != "$1" ] && ping_ok
}

# mossd_gone tells whether the outer process has ended.
mossd_gone() { ! kill -0 "$MOSSD_PID" 2>/dev/null; }

# spawn_engine [ARG...]: starts mossd on the folders of this file and waits for its first answer.
spawn_engine() {
  "$moss_bin/mossd" --root "$MOSS_DATA/root" --run-dir "$MOSS_DIR/run" --host "unix://$MOSS_SOCK" \
    --log-level debug "$@" >>"$MOSS_DIR/mossd.log" 2>&1 3>&- 4>&- &
  MOSSD_PID=$!
  export MOSSD_PID
  echo "$MOSSD_PID" >"$MOSS_DIR/mossd.pid"
  local end=$((SECONDS + ${MOSS_START_SECONDS:-120}))
  until ping_ok; do
    if mossd_gone || [ $SECONDS -ge $end ]; then
      tail -n 40 "$MOSS_DIR/mossd.log" >&2
      fail "the engine does not answer"
      return 1
    fi
    sleep 0.02
  done
}

# start_engine [ARG...]: makes the folder of this file and starts an engine in it. For setup_file.
# Sockets have room for some 100 bytes of path, so the folder's is short.
start_engine() {
  local base=${XDG_RUNTIME_DIR:-/tmp}
  MOSS_DIR=$(mktemp -d "$base/t.XXXXXX")
  # Layers need a real filesystem below them: XDG_RUNTIME_DIR may be small, or in memory.
  MOSS_DATA=$(mktemp -d "${MOSS_TEST_DATA:-/var/tmp}/moss-t.XXXXXX")
  mkdir -m 0700 "$MOSS_DATA/root" "$MOSS_DIR/run"
  MOSS_SOCK=$MOSS_DIR/s
  export MOSS_DIR MOSS_DATA MOSS_SOCK
  spawn_engine "$@"
}

# halt_engine: SIGTERM to the outer process, and waits for its end. The folders stay.
halt_engine() {
  MOSSD_PID=$(cat "$MOSS_DIR/mossd.pid") # a test may have started another
  kill -TERM "$MOSSD_PID" 2>/dev/null || true
  eventually 60 mossd_gone || {
    kill -KILL "$MOSSD_PID" 2>/dev/null || true
    tail -n 40 "$MOSS_DIR/mossd.log" >&2
    fail "mossd did not end on SIGTERM"
  }
}

# left_processes: the processes that name this file's folders on their command line, one per line.
left_processes() {
  local p line
  for p in /proc/[0-9]*; do
    if [ ! -O "$p" ] || [ "$p" = "/proc/$$" ] || [ "$p" = "/proc/$BASHPID" ]; then continue; fi
    line=$(tr '\0' ' ' <"$p/cmdline" 2>/dev/null) || continue
    case $line in
      bats* | *bats-exec* | tail* | '') ;;
      *"$MOSS_DIR"* | *"$MOSS_DATA"*) echo "${p#/proc/}: $line" ;;
    esac
  done
}
nothing_runs() { [ -z "$(left_processes)" ]; }

# left_files: what the engine left in its folder for this boot.
left_files() {
  find "$MOSS_DIR/run" -mindepth 1 \( -type s -o -type f -o -type p \) ! -name lock ! -name '*.lock' 2>/dev/null
}

# wipe DIR: deletes a data folder. Files of sub-ids need the ids that made them, folders without permissions a root.
wipe() {
  rm -rf "$1" 2>/dev/null ||
    unshare --user --map-root-user --map-auto rm -rf "$1" 2>/dev/null ||
    unshare --user --map-root-user rm -rf "$1"
}

# stop_engine: ends the engine and asserts that it left nothing behind. For teardown_file.
stop_engine() {
  [ -n "${MOSS_DIR:-}" ] || return 0
  local bad=0
  halt_engine || bad=1
  eventually 5 nothing_runs || {
    echo "processes left:" >&2
    left_processes >&2
    left_processes | cut -d: -f1 | xargs -r kill -KILL 2>/dev/null
    bad=1
  }
  if grep -qF -e "$MOSS_DATA" -e "$MOSS_DIR/run" /proc/self/mountinfo; then
    echo "mounts left:" >&2
    grep -F -e "$MOSS_DATA" -e "$MOSS_DIR/run" /proc/self/mountinfo >&2
    bad=1
  fi
  if [ -S "$MOSS_SOCK" ] || [ -n "$(left_files)" ]; then
    echo "files left:" >&2
    ls -l "$MOSS_SOCK" >&2 2>/dev/null
    left_files >&2
    bad=1
  fi
  if [ $bad = 1 ] && [ -n "${MOSS_KEEP_LOG:-}" ]; then cp "$MOSS_DIR/mossd.log" "$MOSS_KEEP_LOG.${BATS_TEST_FILENAME##*/}"; fi
  wipe "$MOSS_DATA" || bad=1
  rm -rf "$MOSS_DIR"
  [ $bad = 0 ] || fail "the engine left something behind"
}

# children PID: its children, in one line.
children() { cat /proc/"$1"/task/*/children 2>/dev/null | xargs; }

# inner_pid: the process id of the inner engine, the one that answers the API: mossd-engine below moss-shim supervise below
# RootlessKit's child below the outer one. Monitors whose engine was replaced are children there as well.
inner_pid() {
  local child supervisor engine
  for child in $(children "$MOSSD_PID"); do
    for supervisor in $(children "$child"); do
      [[ $(tr '\0' ' ' <"/proc/$supervisor/cmdline" 2>/dev/null) == *moss-shim\ supervise\ * ]] || continue
      for engine in $(children "$supervisor"); do
        [ "$(cat "/proc/$engine/comm" 2>/dev/null)" = mossd-engine ] || continue
        echo "$engine"
        return
      done
    done
  done
  fail "mossd has no inner engine"
}

# crash [SECONDS]: kills the inner engine and waits so long (20), as eventually counts, for the next.
crash() {
  local old
  old=$(inner_pid)
  kill -KILL "$old"
  eventually "${1:-20}" another_engine "$old"
}

# seed_chance: for tests with the tag chance, whose course is drawn. What draw gives then follows from MOSS_SEED, a number
# below 2^31, and the test's own name, so that a test draws the same alone. Without MOSS_SEED a new one is drawn and shown.
seed_chance() {
  if [ -z "${MOSS_SEED:-}" ]; then
    MOSS_SEED=$((SRANDOM >> 1))
    echo "# MOSS_SEED=$MOSS_SEED $BATS_TEST_DESCRIPTION" >&3
  fi
  [[ $MOSS_SEED =~ ^(0|[1-9][0-9]{0,9})$ ]] && [ "$MOSS_SEED" -lt $((1 << 31)) ] ||
    fail "MOSS_SEED is $MOSS_SEED, want a decimal number below $((1 << 31))" || return
  export MOSS_SEED
  chance=$(cksum <<<"$MOSS_SEED ${BATS_TEST_FILENAME##*/} $BATS_TEST_NAME" | cut -d ' ' -f 1)
}

# draw LOW HIGH: sets drawn to a number from LOW to HIGH, which are less than 2^31 apart. It is no RANDOM, which a subshell
# seeds anew and which differs between versions of bash.
draw() {
  [ -n "${chance:-}" ] || fail "draw needs seed_chance first" || return
  chance=$((chance * 6364136223846793005 + 1442695040888963407))
  drawn=$(($1 + (chance >> 33 & 0x7fffffff) % ($2 - $1 + 1)))
  echo "drew $drawn of $1 to $2"
}

# begin and finish frame each test: after a failure the end of the engine's log is shown, and how the test runs alone.
begin() {
  read -r MOSSD_PID <"$MOSS_DIR/mossd.pid"
  log_start=$(wc -l <"$MOSS_DIR/mossd.log")
}
finish() {
  [ -n "${BATS_TEST_COMPLETED:-}" ] || {
    echo "--- engine's log during this test ---"
    tail -n "+$((log_start + 1))" "$MOSS_DIR/mossd.log" | tail -n 60
    echo "alone: ${MOSS_CHANCE_ROUNDS:+MOSS_CHANCE_ROUNDS=$MOSS_CHANCE_ROUNDS }${MOSS_SEED:+MOSS_SEED=$MOSS_SEED }tests/run.sh ${MOSS_RUN:-}--test ${BATS_TEST_DESCRIPTION@Q} ${BATS_TEST_FILENAME#"$moss_top/"}"
  }
}

# busybox_tar FILE: a root filesystem from this machine's static busybox, its commands as symlinks.
busybox_tar() {
  local box tree applet
  box=$(command -v busybox.static || command -v busybox)
  tree=$(mktemp -d "$MOSS_DIR/box.XXXXXX")
  chmod 0755 "$tree"
  mkdir -p "$tree"/{bin,dev,etc,proc,root,sys,tmp,usr/bin,var/www,home}
  chmod 1777 "$tree/tmp"
  cp "$box" "$tree/bin/busybox"
  chmod 0755 "$tree/bin/busybox"
  if command -v perl >/dev/null; then # one process: hundreds take the emulator of tests/guest a quarter of a minute
    "$box" --list | perl -lne 'symlink "busybox", "'"$tree"'/bin/$_" unless $_ eq "busybox"'
  else
    for applet in $("$box" --list); do
      [ "$applet" = busybox ] || ln -s busybox "$tree/bin/$applet"
    done
  fi
  ln -s ../../bin/env "$tree/usr/bin/env"
  printf 'root:x:0:0:root:/root:/bin/sh\nwww:x:33:33:www:/var/www:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$tree/etc/passwd"
  printf 'root:x:0:\nwww:x:33:\nstaff:x:50:www\nnogroup:x:65534:\n' >"$tree/etc/group"
  echo 'hello from busybox' >"$tree/var/www/index.html"
  tar -C "$tree" --owner=0 --group=0 --numeric-owner --sort=name --mtime=@0 -cf "$1" .
  rm -rf "$tree"
}

# import_busybox: the image busybox:latest. For setup_file.
import_busybox() {
  busybox_tar "$MOSS_DIR/busybox.tar"
  local answer
  answer=$(curl -sS --max-time 300 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' \
    --data-binary @"$MOSS_DIR/busybox.tar" -w '\n%{http_code}' "http://moss/images/create?fromSrc=-&repo=busybox&tag=latest")
  if [ "${answer##*$'\n'}" != 200 ] || [[ $answer == *'"error"'* ]]; then
    fail "import of busybox: $answer"
  fi
}

# has_subids: does the user who runs the tests have sub-ids? Some images and users need them.
has_subids() {
  grep -qsE "^($(id -un)|$(id -u)):" /etc/subuid && grep -qsE "^($(id -un)|$(id -u)):" /etc/subgid
}
