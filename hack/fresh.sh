#!/bin/bash
# fresh.sh: holds hack/install-deps.sh against a machine that has nothing: a bare Debian 12 in a folder.
#
#   hack/fresh.sh [PURPOSE...]       bare build run demo lint guest bench test
#   hack/fresh.sh --make ARG...      make demo, make test and the like from nothing, in such a Debian
#
# For each purpose it takes a new root, runs hack/install-deps.sh --for PURPOSE there, and looks for every program that
# hack/programs finds in the sources for that purpose, and for the modules of Python. bare is what must be there before
# anything is installed. Without an argument it takes all but build and run, which demo, bench and test install as well.
# The last line is "fresh: N programs found, M missing".
# Root only; it needs mmdebstrap (hack/install-deps.sh --for test) and this machine's mirror, module proxy and npm registry,
# whose settings it passes on; this machine's Go is shown at /usr/local/go, and its caches of Go, so that nothing is compiled
# twice. The roots have mounts and processes of their own, which end with this script, and the network of this machine.
# --make wants about 10 GiB of disk for test and what make wants of the kernel: namespaces of users, /dev/net/tun, /dev/fuse;
# --cgroups of the tests finds this machine's groups. Its root is made anew each time.
# MOSS_FRESH_DIR (/var/tmp/moss-fresh) holds the bare root and the packages that were fetched, for the next time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
top=$PWD
suite=bookworm

usage() { sed -n '2,18s/^# \{0,1\}//p' hack/fresh.sh; }
die() {
  echo "fresh: $*" >&2
  exit 1
}

make=()
purposes=()
while [ $# -gt 0 ]; do
  case $1 in
    --make)
      shift
      make=("${@:-help}")
      break
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    bare | build | run | demo | lint | guest | bench | test) purposes+=("$1") ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
  shift
done
[ ${#purposes[@]} -gt 0 ] || purposes=(bare demo lint guest bench test)
[ "$(id -u)" = 0 ] || {
  echo "fresh: left out: only root can make a Debian with its own owners and enter it"
  exit 0
}
command -v mmdebstrap >/dev/null || die "mmdebstrap is not here: hack/install-deps.sh --for test"
goroot=$(go env GOROOT)

dir=${MOSS_FRESH_DIR:-/var/tmp/moss-fresh}
mkdir -p "$dir/archives/partial"
[ "$(stat -c %u "$dir")" = 0 ] || die "$dir belongs to $(stat -c %U "$dir"); set MOSS_FRESH_DIR"
exec 9>"$dir/lock"
flock -n 9 || die "another one works in $dir"
root=$(mktemp -d "$dir/root.XXXXXX")
trap 'rm -rf --one-file-system "$root" "$dir"/*.part' EXIT
trap 'exit 130' INT TERM HUP

# bare_tar: a Debian with apt and what it cannot be without. It has its package lists: they are a day old at most.
bare_tar() {
  local sources key
  sources=$(hack/debian-sources.sh $suite)
  key=$({
    echo "$sources"
    date +%F
  } | sha256sum | cut -c1-16)
  bare=$dir/bare-$key.tar
  [ ! -e "$bare" ] || return 0
  rm -f "$dir"/bare-*
  mmdebstrap --quiet --format=tar --mode=root --variant=minbase --skip=cleanup/apt/lists \
    --aptopt='Acquire::Languages "none"' $suite "$bare.part" - <<<"$sources"
  mv "$bare.part" "$bare"
}

# lay_root: a new bare root with the tree in /moss, and this machine's ways outside.
lay_root() {
  rm -rf --one-file-system "$root"
  mkdir -m 0755 "$root"
  tar -C "$root" --numeric-owner --exclude='./dev/*' -xf "$bare"
  mkdir -p "$root/moss" "$root/usr/local/go" "$root/root/go/pkg/mod" "$root/root/.cache/go-build" "$root/.host"
  git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
    tar --null --files-from=- --ignore-failed-read -cf - 2>/dev/null | tar -C "$root/moss" --no-same-owner -xf -
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  ln -sf ../proc/self/mounts "$root/etc/mtab" # an installed system has it: fusermount3 reads it
  apt-config dump | grep -iE '^Acquire::[a-z]+::Proxy' >"$root/etc/apt/apt.conf.d/99proxy" || true
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/fresh" # it lives for minutes
  if [ -d /usr/local/share/ca-certificates ]; then cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"; fi
}

# What is set here for Go, npm and proxies.
settings=()
for name in GOPROXY GOSUMDB GONOSUMDB GOPRIVATE GONOPROXY; do settings+=("$name=$(go env $name)"); done
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY NODE_EXTRA_CA_CERTS; do
  [ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
registry=$(npm config get registry 2>/dev/null) && settings+=("npm_config_registry=$registry")

# The inner half: it makes the root the root of a mount namespace. A chroot would not do: the kernel lets nobody make
# namespaces of users there.
# shellcheck disable=SC2016 # for the inner shell
enter='set -e
root=$1 goroot=$2 archives=$3 modules=$4 built=$5; shift 5
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount --bind "$goroot" usr/local/go
mount --bind "$archives" var/cache/apt/archives
mount --bind "$modules" root/go/pkg/mod
mount --bind "$built" root/.cache/go-build
pivot_root . .host
cd /moss
umount -l /.host
exec "$@"'

# inside CMD...: runs it in the root, in the tree.
inside() {
  unshare --mount --propagation private --pid --fork --kill-child bash -c "$enter" fresh \
    "$root" "$goroot" "$dir/archives" "$(go env GOMODCACHE)" "$(go env GOCACHE)" \
    env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin \
    "${settings[@]}" "$@" </dev/null 9>&-
}

# look: reads lines of hack/programs and prints those whose program is not there.
# shellcheck disable=SC2016 # for the inner shell
look='PATH=/moss/.cache/bin:$PATH
while IFS="	" read -r _ program places; do
  case $program in
    python3:*) /usr/bin/python3 -c "import ${program#*:}" 2>/dev/null && continue ;;
    /*) [ -x "$program" ] && continue ;;
    *) type -P "$program" >/dev/null && continue ;;
  esac
  echo "$program is missing: $places"
done </moss/.cache/programs'

bare_tar
if [ ${#make[@]} -gt 0 ]; then
  lay_root
  inside apt-get -q install -y --no-install-recommends make # the one thing that make cannot install
  status=0
  inside make "${make[@]}" || status=$?
  exit $status
fi

CGO_ENABLED=0 GOFLAGS='' go build -C hack/programs -o "$top/.cache/bin/programs" .
list=$(.cache/bin/programs)
missing=
looked=0
status=0
for purpose in "${purposes[@]}"; do
  began=$SECONDS
  lay_root
  mkdir -p "$root/moss/.cache"
  case $purpose in
    demo | test | bench) kinds="build|run|$purpose" ;;
    *) kinds=$purpose ;;
  esac
  grep -E "^($kinds)	" <<<"$list" >"$root/moss/.cache/programs"
  looked=$((looked + $(cut -f2 "$root/moss/.cache/programs" | sort -u | wc -l)))
  if [ "$purpose" != bare ] && ! inside hack/install-deps.sh --for "$purpose" >"$root/log" 2>&1; then
    tail -n 30 "$root/log"
    echo "$purpose: hack/install-deps.sh --for $purpose fails"
    status=1
  fi
  # The caches of Go hide what its downloads need.
  if [[ $kinds == *build* ]] && ! inside env GOMODCACHE=/tmp/modules GOFLAGS=-modcacherw go mod download -C hack/programs >"$root/log" 2>&1; then
    tail -n 5 "$root/log"
    echo "$purpose: the go command fetches no modules"
    status=1
  fi
  missing+=$(inside bash -c "$look" | sort -u | sed "s/^/$purpose: /")$'\n'
  echo "fresh: $purpose after $((SECONDS - began)) s"
done
missing=$(grep . <<<"$missing") || true
[ -z "$missing" ] || echo "$missing"
count=$(grep -c . <<<"$missing") || true
echo "fresh: $((looked - count)) programs found, $count missing"
[ "$count" = 0 ] && exit $status
exit 1
