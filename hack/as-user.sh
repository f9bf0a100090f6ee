#!/bin/bash
# as-user.sh: runs a command as an ordinary user, the way moss is meant to be used.
#
#   hack/as-user.sh [--no-subids | --name USER] [--cgroups] CMD [ARG]...
#   hack/as-user.sh [--no-subids | --name USER] --words
#
# As root it creates, once, the test user moss-test (with sub-ids), or moss-test-nosub (without any), and
# runs CMD as that user: no capabilities, a clean environment, its own HOME and XDG_RUNTIME_DIR (0700).
# As anyone else it runs CMD as it is, with a private XDG_RUNTIME_DIR where there is none.
#   --no-subids  a user for whom /etc/subuid and /etc/subgid hold nothing
#   --name USER  another user with sub-ids, created once as well (root only)
#   --cgroups    delegate cgroups to the user for as long as CMD runs (root only); removed afterwards
#   --words      run nothing, and print what put before a command makes it the user's, each word with a NUL behind it (root only):
#                for many commands, since this takes a tenth of a second
# MOSS_*, DOCKER_*, BATS_*, CI, GOFLAGS, GOPROXY, LANG, TERM and the terminal's size are passed on. Exit status: that of CMD.
set -euo pipefail

usage() { sed -n '2,16s/^# \{0,1\}//p' "$0"; }
die() {
  echo "as-user: $*" >&2
  exit 125
}

subids=yes
cgroups=no
words=no
user=
while [ $# -gt 0 ]; do
  case $1 in
    --no-subids) subids=no ;;
    --cgroups) cgroups=yes ;;
    --words) words=yes ;;
    --name)
      [ $# -gt 1 ] || die "--name needs a user's name"
      user=$2
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    --)
      shift
      break
      ;;
    -*)
      usage >&2
      exit 2
      ;;
    *) break ;;
  esac
  shift
done
[ $# -gt 0 ] || [ $words = yes ] || {
  usage >&2
  exit 2
}
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# has_subids NAME UID: tells whether both files hold a range.
has_subids() {
  grep -qsE "^($1|$2):" /etc/subuid && grep -qsE "^($1|$2):" /etc/subgid
}

# private_dir DIR: makes DIR 0700 if it is not there; fails unless it is the caller's own and private.
private_dir() {
  mkdir -m 0700 "$1" 2>/dev/null || true
  [ ! -L "$1" ] && [ -d "$1" ] && [ "$(stat -c %u:%a "$1")" = "$(id -u):700" ]
}

run_as_is() {
  [ -z "$user" ] || die "--name needs root"
  [ $words = no ] || die "--words needs root"
  if [ $subids = no ] && has_subids "$(id -un)" "$(id -u)"; then
    die "--no-subids needs root, or a user without lines in /etc/subuid and /etc/subgid"
  fi
  [ $cgroups = no ] || echo "as-user: --cgroups needs root; going on with the cgroups that $(id -un) has" >&2
  if [ -z "${XDG_RUNTIME_DIR:-}" ] || ! private_dir "$XDG_RUNTIME_DIR"; then
    XDG_RUNTIME_DIR=/tmp/moss-run-$(id -u)
    private_dir "$XDG_RUNTIME_DIR" || die "$XDG_RUNTIME_DIR is not a private folder of this user"
    export XDG_RUNTIME_DIR
  fi
  export PATH="$top/.cache/bin:$PATH:/usr/sbin:/sbin"
  exec "$@"
}

[ "$(id -u)" = 0 ] || run_as_is "$@"

if [ -n "$user" ]; then
  [ $subids = yes ] || die "--name and --no-subids cannot be combined"
elif [ $subids = yes ]; then
  user=moss-test
else
  user=moss-test-nosub
fi
[ $words = no ] || [ "$cgroups$#" = no0 ] || die "--words takes neither --cgroups nor a command"

# Two of these may start at once; the user, its sub-ids and its folders are made under one lock.
mkdir -p /run/lock
exec 9>/run/lock/moss-as-user.lock
flock 9
if ! id "$user" >/dev/null 2>&1; then
  if command -v useradd >/dev/null; then
    useradd --create-home --shell /bin/bash "$user" >&2
  else
    adduser -D -s /bin/bash "$user" >&2
  fi
fi
uid=$(id -u "$user")
gid=$(id -g "$user")
home=$(getent passwd "$user" | cut -d: -f6)

# next_free FILE: the first id behind every range in FILE, at least 100000.
next_free() {
  awk -F: 'BEGIN {n = 100000} NF == 3 && $2 + $3 > n {n = $2 + $3} END {print n}' "$1"
}
for file in /etc/subuid /etc/subgid; do
  touch $file
  if [ $subids = no ]; then
    if grep -q "^$user:" $file; then sed -i "/^$user:/d" $file; fi
  elif ! grep -q "^$user:" $file; then
    echo "$user:$(next_free $file):65536" >>$file
  fi
done
runtime=/run/user/$uid
if [ ! -d "$runtime" ]; then
  mkdir -p /run/user
  mkdir -m 0700 "$runtime"
  chown "$uid:$gid" "$runtime"
fi
flock -u 9
exec 9>&-

# drop: the words in front of a command that make it an ordinary user's. The bounding set and
# no_new_privs stay as they are, since newuidmap and newgidmap are setuid programs.
drop=(setpriv --reuid "$uid" --regid "$gid" --init-groups --inh-caps=-all)

gobin=$(dirname "$(PATH=$PATH:/usr/local/go/bin command -v go || echo /usr/local/go/bin/go)")
clean=(env -i "HOME=$home" "USER=$user" "LOGNAME=$user" "SHELL=/bin/bash" "XDG_RUNTIME_DIR=$runtime"
  "LANG=${LANG:-C.UTF-8}" "TERM=${TERM:-dumb}"
  "PATH=$top/.cache/bin:$gobin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
while IFS= read -r name; do
  case $name in
    MOSS_* | DOCKER_* | BATS_* | CI | GOFLAGS | GOPROXY | GOSUMDB | GODEBUG | GORACE | CGO_ENABLED | COLUMNS | LINES)
      clean+=("$name=${!name}")
      ;;
  esac
done < <(compgen -e)

# reachable DIR: can the user work there?
# shellcheck disable=SC2016 # for the inner shell
reachable() { (cd / && "${drop[@]}" sh -c 'cd "$1" && [ -r . ]' - "$1") 2>/dev/null; }

# blocker DIR: the topmost folder on the way to DIR that the user may not enter.
blocker() {
  local dir=$1 found=
  while [ "$dir" != / ]; do
    reachable_only "$dir" || found=$dir
    dir=$(dirname "$dir")
  done
  echo "$found"
}
reachable_only() { (cd / && "${drop[@]}" test -x "$1"); }

# A tree below a private folder (/root, a temporary folder) is shown to the user at the same path, in a
# mount namespace of its own where an empty folder with the way to the tree covers the private one.
front=()
here=$(pwd -P)
# shellcheck disable=SC2016 # for the inner shell
uncover='set -e
blocker=$1 tree=$2 here=$3; shift 3
hold=$(mktemp -d /tmp/moss-tree.XXXXXX); trap "" EXIT
mount --bind "$tree" "$hold"
mount -t tmpfs -o mode=0755,size=1m moss-tree "$blocker"
mkdir -p "$tree"; mount --move "$hold" "$tree"; rmdir "$hold"
cd "$here"; exec "$@"'
if ! reachable "$here"; then
  tree=$here
  case $here/ in "$top"/*) tree=$top ;; esac
  block=$(blocker "$tree")
  if [ "$block" = "$tree" ] || [ -z "$block" ]; then
    die "$user cannot read $here: run 'chmod -R o+rX $tree', or start from another folder"
  fi
  front=(unshare --mount --propagation slave bash -c "$uncover" as-user "$block" "$tree" "$here")
fi

if [ $words = yes ]; then
  printf '%s\0' "${front[@]}" "${drop[@]}" "${clean[@]}"
  exit
fi
if [ $cgroups = no ]; then
  exec "${front[@]}" "${drop[@]}" "${clean[@]}" "$@"
fi

# --cgroups from here on.
name=$user.$$
if [ -d /run/systemd/system ]; then
  exec systemd-run --quiet --scope -p Delegate=yes --unit "$name" "${front[@]}" "${drop[@]}" "${clean[@]}" "$@"
fi
made=()
# own DIR: gives a cgroup to the user: to make groups below it and to move processes within it.
own() {
  chown "$uid:$gid" "$1"
  local f
  for f in cgroup.procs tasks cgroup.threads cgroup.subtree_control; do
    [ ! -e "$1/$f" ] || chown "$uid:$gid" "$1/$f"
  done
}
# delegate DIR: makes the group called $name in the hierarchy that is mounted at DIR.
delegate() {
  local group=$1/$name f
  mkdir "$group" 2>/dev/null || return 0
  made+=("$group")
  for f in cpuset.cpus cpuset.mems; do
    if [ -e "$1/$f" ] && [ -e "$group/$f" ]; then cat "$1/$f" >"$group/$f"; fi
  done
  own "$group"
}
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  for c in cpuset cpu io memory pids; do
    echo "+$c" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
  done
  delegate /sys/fs/cgroup
else
  for c in memory pids cpu cpuacct cpuset freezer devices blkio systemd; do
    if [ -d /sys/fs/cgroup/$c ]; then delegate /sys/fs/cgroup/$c; fi
  done
fi

# prune GROUP: removes a group and those below it, deepest first. One with processes in it stays.
# shellcheck disable=SC2317 # called by a trap
prune() {
  find "$1" -depth -type d -exec rmdir {} \; 2>/dev/null || true
}
# shellcheck disable=SC2317 # called by a trap
cleanup() {
  local group
  for _ in 1 2 3 4 5; do
    for group in "${made[@]}"; do prune "$group"; done
    for group in "${made[@]}"; do
      if [ -d "$group" ]; then
        sleep 0.2
        continue 2
      fi
    done
    return 0
  done
  echo "as-user: processes are left in ${made[*]}" >&2
}
trap cleanup EXIT

# The child enters the groups before it becomes the user. Its standard input is the caller's, which bash
# would otherwise replace for a command in the background.
# shellcheck disable=SC2016 # for the inner shell
enter='while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@"'
bash -c "$enter" as-user "${made[@]}" -- "${front[@]}" "${drop[@]}" "${clean[@]}" "$@" <&0 &
child=$!
for signal in TERM INT HUP QUIT; do
  # shellcheck disable=SC2064 # now is right
  trap "kill -$signal $child 2>/dev/null || true" $signal
done
status=0
while :; do
  status=0
  wait $child || status=$?
  kill -0 $child 2>/dev/null || break
done
exit $status
