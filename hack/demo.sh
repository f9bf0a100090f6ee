#!/bin/bash
# demo.sh: moss's main job, shown step by step: an engine of an ordinary user in a throw-away folder, two
# root filesystems imported, containers run from them. Called by make demo, which installs and builds first.
# The last line is the verdict; the exit status is 0 only if every step did what it should.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
suite=bookworm

# make_rootfs FILE: a small Debian as a tar, kept in .cache for the next time.
make_rootfs() {
  [ ! -e "$1" ] || return 0
  mkdir -p "$(dirname "$1")"
  if command -v mmdebstrap >/dev/null; then
    hack/debian-sources.sh $suite | mmdebstrap --quiet --format=tar --variant=essential \
      --aptopt='Acquire::Languages "none"' $suite "$1.part" - || return 1
  else
    [ "$(id -u)" = 0 ] || {
      echo "debootstrap needs root; with mmdebstrap this works as an ordinary user" >&2
      return 1
    }
    local tree
    tree=$(mktemp -d)
    debootstrap --variant=minbase $suite "$tree" >&2 && tar -C "$tree" --numeric-owner -cf "$1.part" .
    rm -rf --one-file-system "$tree"
  fi
  chmod 0644 "$1.part" && mv "$1.part" "$1"
}

if [ "${1:-}" != --inside ]; then
  rootfs=$PWD/.cache/demo/debian.tar
  echo "== a Debian root filesystem ($rootfs)"
  if [ -e "$rootfs" ]; then echo "(made before)"; fi
  make_rootfs "$rootfs" || {
    echo "demo: FAILED: no root filesystem could be made"
    exit 1
  }
  ls -lh "$rootfs"
  exec hack/as-user.sh "$0" --inside "$rootfs"
fi

# From here on an ordinary user.
rootfs=$2
# shellcheck source=tests/lib/moss.bash
. tests/lib/moss.bash
unset -f moss # the program itself, as a user calls it
PATH=$moss_bin:$PATH
steps=0
worked=0
out=

# show CMD...: prints the command and what it prints; keeps that in $out.
show() {
  printf '\n$ %s\n' "$*"
  out=$("$@" 2>&1)
  local status=$?
  [ -z "$out" ] || printf '%s\n' "$out" | tail -n 25
  return $status
}

# step TEXT CMD...: counts a check.
step() {
  local text=$1
  shift
  steps=$((steps + 1))
  if "$@"; then
    worked=$((worked + 1))
    echo "   [ok] $text"
  else
    echo "   [FAILED] $text"
  fi
}

has() { [[ $out == *"$1"* ]]; }

stopped=no
cleanup() {
  if [ $stopped = no ] && [ -n "${MOSS_DIR:-}" ]; then
    tail -n 20 "$MOSS_DIR/mossd.log"
    stop_engine
  fi
}
trap cleanup EXIT

echo
echo "== an engine for $(id -un), uid $(id -u)"
printf '\n$ mossd --root DIR --run-dir DIR --host unix://SOCKET &\n'
began=$(date +%s%N)
# shellcheck disable=SC2119 # its arguments are mossd's
start_engine || {
  echo "demo: FAILED: the engine does not start"
  exit 1
}
echo "answers after $((($(date +%s%N) - began) / 1000000)) ms"
export MOSS_HOST=unix://$MOSS_SOCK
step "the engine answers" ping_ok
show moss version

echo
echo "== images from root filesystems"
show moss import "$rootfs" debian:demo
busybox_tar "$MOSS_DIR/busybox.tar"
show moss import "$MOSS_DIR/busybox.tar" busybox:latest
show moss images
step "both are images" has debian

echo
echo "== a command"
show moss run --rm debian:demo cat /etc/os-release
step "it is Debian" has 'ID=debian'

echo
echo "== an interactive shell, with somebody typing"
cat >"$MOSS_DIR/shell.exp" <<'EXPECT'
set timeout 20
spawn -noecho moss run --rm -it busybox sh
expect "# "
send "tty\r"
expect "/dev/pts/"
expect "# "
send "echo \$((6 * 7))\r"
expect -re "\n42\r"
expect "# "
send "exit 3\r"
expect eof
lassign [wait] pid spawn_id os_error status
exit $status
EXPECT
show timeout 60 expect "$MOSS_DIR/shell.exp"
status=$?
step "a terminal, an answer, and its exit code (3)" [ $status = 3 ]

echo
echo "== a web server, reached through its published port"
for port in $(seq 18080 18180); do
  (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
done
show moss run -d --name web -p "$port:80" busybox httpd -f -h /var/www
fetch() { show curl -sS --max-time 5 "http://127.0.0.1:$port/index.html" && has 'hello from busybox'; }
for _ in $(seq 20); do
  ! curl -s --max-time 5 -o "$MOSS_DIR/page" "http://127.0.0.1:$port/" || break
  sleep 0.1
done
step "the page comes" fetch

echo
echo "== a network of one's own, in which names are known"
show moss network create front
show moss run -d --name db --network front busybox httpd -f -h /var/www
serves() { moss exec db wget -qO /dev/null http://127.0.0.1/ 2>/dev/null; }
eventually 5 serves
ask() { show moss run --rm --network "$1" busybox timeout 5 wget -qO- http://db/ && has 'hello from busybox'; }
step "db is found by its name" ask front
elsewhere() { ! ask bridge; }
step "and not by a container that is elsewhere" elsewhere
show moss network connect front web
connected() { show moss exec web timeout 5 wget -qO- http://db/ && has 'hello from busybox'; }
step "one that runs is connected" connected
show moss network inspect -f '{{range .Containers}}{{.Name}} {{.IPv4Address}}{{println}}{{end}}' front
show moss rm -f db

echo
echo "== the engine dies; containers do not"
# shellcheck disable=SC2016 # for the shell in the container
show moss run -d --name count busybox sh -c 'i=0; while :; do echo $i; i=$((i+1)); sleep 0.05; done'
before=$(moss inspect count | jq '.[0].State.Pid')
engine=$(inner_pid)
show kill -9 "$engine"
step "another engine takes over" eventually 20 ping_ok
show moss ps
after=$(moss inspect count | jq '.[0].State.Pid')
step "the same process goes on ($before)" [ "$before" = "$after" ]
step "the web server still answers" fetch
show moss stop -t 1 count
show moss logs --tail 3 count
lines=$(moss logs count | wc -l)
gaps=$(moss logs count | awk '$1 != NR - 1' | wc -l)
echo "   $lines lines of log, $gaps out of order"
step "its log has no gap" [ "$((lines > 0)):$gaps" = 1:0 ]

echo
echo "== an image of one's own, from a Dockerfile"
mkdir "$MOSS_DIR/context"
echo 'hello from a build' >"$MOSS_DIR/context/index.html"
printf '%s\n' 'FROM busybox AS pages' 'COPY index.html /pages/' 'RUN md5sum /pages/* >/pages/sums' \
  'FROM busybox' 'COPY --from=pages --chown=www /pages /var/www' 'USER www' 'CMD ["cat", "/var/www/index.html"]' >"$MOSS_DIR/context/Dockerfile"
show moss build --progress plain -t pages:demo "$MOSS_DIR/context"
step "it is built" has 'pages:demo'
greets() { show moss run --rm pages:demo && has 'hello from a build'; }
step "and runs" greets
began=$(date +%s%N)
show moss build -q -t pages:demo "$MOSS_DIR/context"
echo "again, from the cache, after $((($(date +%s%N) - began) / 1000000)) ms"

echo
echo "== the end"
show moss rm -f web count
show moss network rm front
stopped=yes
step "the engine stops and leaves nothing behind" stop_engine

echo
if [ $worked = $steps ]; then
  echo "demo: all $steps steps worked, as $(id -un) (uid $(id -u))"
else
  echo "demo: FAILED: $worked of $steps steps worked"
  exit 1
fi
