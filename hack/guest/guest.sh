#!/bin/bash
# guest.sh: a real Debian 12 under qemu: systemd as init, cgroup v2 alone, and a lingering user (tester)
# whose manager has the controllers cpu, cpuset, io, memory and pids. For what a container or a CI machine
# cannot show: limits that apply, systemctl --user, socket activation, a whole shutdown.
#
#   guest.sh build           make it (root, minutes; kept until packages.txt, overlay/ or a script changes)
#   guest.sh start [FOLDER]  start from the saved state; FOLDER is in the guest as /project, read-only
#   guest.sh run  CMD...     run CMD as tester in a session of its own; the exit status is CMD's
#   guest.sh root CMD...     the same as root
#   guest.sh poweroff        shut it down in order
#   guest.sh stop            throw it away, with all that was changed in it
#
# It is emulated, without KVM: Go code takes 10 times as long, fork and exec 30 times, hashes more than that.
set -euo pipefail
# shellcheck source=hack/guest/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# pack FOLDER: makes the disk that the guest sees as /project.
pack() {
  rm -f "$dir/project.img"
  truncate -s "$project_size" "$dir/project.img"
  mke2fs -q -t ext4 -O ^has_journal -L project -d "$1" "$dir/project.img"
}

start() {
  running && die "already running"
  [ -e "$dir/booted.qcow2" ] || die "not built: guest.sh build"
  hang_up
  rm -f "$dir/run.qcow2"
  cp --sparse=always "$dir/booted.qcow2" "$dir/run.qcow2"
  [ -z "${1:-}" ] || pack "$1"
  machine "$dir/run.qcow2" -loadvm booted
  answers 300
  # Its clock stood still while it was a file, and it has not seen this disk before.
  on root "date -s @$(date +%s) >/dev/null"
  if [ -n "${1:-}" ]; then on root 'echo 3 >/proc/sys/vm/drop_caches; mount -o ro /dev/vdb /project'; fi
}

verb=${1:-}
[ $# -eq 0 ] || shift
case $verb in
  build) exec bash "$here/build.sh" ;;
  start) start "$@" ;;
  run) on tester "$@" ;;
  root) on root "$@" ;;
  poweroff)
    on root 'systemctl poweroff' || true
    ended || die "the virtual machine does not end"
    hang_up
    rm -f "$dir/run.qcow2"
    ;;
  stop)
    hang_up
    if running; then
      monitor quit
      ended || die "the virtual machine does not end"
    fi
    rm -f "$dir/run.qcow2"
    ;;
  *)
    sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
