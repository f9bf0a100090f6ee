#!/bin/bash
# logout.sh BIN DIR: what becomes of an engine whose user logs out and in again. It runs in a user and a mount namespace of the
# caller's own, in which the caller may mount and has no sub-ids:
#
#   unshare --user --map-user=UID --map-group=GID --keep-caps --mount tests/lib/logout.sh BIN DIR
#
# BIN has the programs, DIR is an empty folder of the caller's with busybox.tar. It prints a line for each thing that it saw.
set -euo pipefail
bin=$1 dir=$2
mount --make-rshared / # as systemd has it
: >"$dir/none"
mount --bind "$dir/none" /etc/subuid
mount --bind "$dir/none" /etc/subgid
export XDG_RUNTIME_DIR=$dir/run XDG_DATA_HOME=$dir/data HOME=$dir
unset DOCKER_HOST MOSS_HOST
moss() { timeout 180 "$bin/moss" "$@" 2>&1; }
answers() { curl -s --max-time 10 --unix-socket "$XDG_RUNTIME_DIR/moss/moss.sock" http://moss/_ping >/dev/null; }
wait_for() {
  local end=$((SECONDS + 120))
  until "$@"; do
    if [ $SECONDS -ge $end ]; then
      echo "not true in time: $*"
      exit 1
    fi
    sleep 0.02
  done
}
# login: a new, empty runtime folder, as logind makes it.
login() { mount -t tmpfs -o mode=0700 runtime "$XDG_RUNTIME_DIR"; }
# logout: logind removes what is in it, and then the mount even if it is in use.
logout() {
  find "$XDG_RUNTIME_DIR" -xdev -mindepth 1 -delete 2>/dev/null || true
  umount --lazy "$XDG_RUNTIME_DIR"
}

mkdir -m 0700 "$XDG_RUNTIME_DIR"
login
"$bin/mossd" >"$dir/log" 2>&1 &
engine=$!
trap 'kill -TERM $engine; wait $engine || true; umount --lazy "$XDG_RUNTIME_DIR"' EXIT
wait_for answers
moss import - busybox <"$dir/busybox.tar" >/dev/null
for name in a b; do moss run -d --name $name busybox sh -c 'trap "exit 3" TERM; while :; do sleep 0.1; done' >/dev/null; done

logout
login
wait_for answers
echo "exec: $(moss exec a echo hello)"
echo "stop: $(moss stop -t 10 a) $(moss inspect -f '{{.State.ExitCode}}' a)"
echo "run: $(moss run --rm -p 0:80 busybox echo new)"
echo "rm: $(moss rm -f b)"

# Only the mount: processes that hold the folder keep it.
moss run -d --name c busybox sleep 1000 >/dev/null
umount --lazy "$XDG_RUNTIME_DIR"
login
wait_for answers
echo "exec: $(moss exec c echo again)"
echo "rm: $(moss rm -f a c | xargs)"
