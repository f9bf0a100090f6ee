#!/bin/sh
# install-deps.sh: finds what moss needs on this machine and installs what is missing.
#
#   hack/install-deps.sh [--check] [--for WHAT]...
#
# WHAT is one of build, run, test, clients, lint, bench, guest, demo (repeatable; default: build run).
# It installs with apt, dnf, zypper, apk or pacman as root or through sudo without a password.
# Where it may not, it prints exactly what to ask the administrator for.
# --check installs nothing and changes nothing.
# Exit status: 0 all that is essential is there, 1 something essential is missing, 2 usage.
set -u

top=$(cd "$(dirname "$0")/.." && pwd)
bin=$top/.cache/bin
PATH=$bin:$PATH:/usr/local/go/bin:/usr/local/sbin:/usr/sbin:/sbin
export PATH

go_need=26               # minor version of Go 1
golangci_version=v2.15.0 # lint
gofumpt_version=v0.12.0  # lint
lint_module=github.com/golangci/golangci-lint/v2/cmd/golangci-lint
gofumpt_module=mvdan.cc/gofumpt

# what | commands, any of them is enough | essential (E) or optional (o) | apt | dnf | zypper | apk | pacman
# Several packages in one field are joined by commas; - means that the system has none.
table() {
  cat <<'TABLE'
build|make|E|make|make|make|make|make
build|git|o|git|git|git|git|git
run|git|o|git|git|git|git|git
run|newuidmap|E|uidmap|shadow-utils|shadow|shadow-uidmap|shadow
run|newgidmap|E|uidmap|shadow-utils|shadow|shadow-uidmap|shadow
run|slirp4netns|E|slirp4netns|slirp4netns|slirp4netns|slirp4netns|slirp4netns
run|crun runc|E|crun|crun|crun|crun|crun
run|fuse-overlayfs|o|fuse-overlayfs|fuse-overlayfs|fuse-overlayfs|fuse-overlayfs|fuse-overlayfs
run|iptables|o|iptables|iptables|iptables|iptables|iptables
run|ip|E|iproute2|iproute|iproute2|iproute2|iproute2
run|nsenter|E|util-linux|util-linux|util-linux|util-linux-misc|util-linux
test|setpriv|E|util-linux|util-linux|util-linux|setpriv|util-linux
test|gcc|E|gcc,libc6-dev|gcc,glibc-devel|gcc,glibc-devel|build-base|gcc
test|bats|E|bats|bats|bats|bats|bats
test|busybox.static busybox|E|busybox-static|busybox|busybox-static|busybox-static|busybox
test|runc|o|runc|runc|runc|runc|runc
test|pasta|o|passt|passt|passt|passt|passt
test|fusermount3|E|fuse3|fuse3|fuse3|fuse3|fuse3
test|fuse-overlayfs|E|fuse-overlayfs|fuse-overlayfs|fuse-overlayfs|fuse-overlayfs|fuse-overlayfs
test|nft|E|nftables|nftables|nftables|nftables|nftables
test|tc|E|iproute2|iproute-tc|iproute2|iproute2-tc|iproute2
test|ps|E|procps|procps-ng|procps|procps|procps-ng
test|curl|E|curl|curl|curl|curl|curl
test|jq|E|jq|jq|jq|jq|jq
test|expect|E|expect|expect|expect|expect|expect
test|tmux|o|tmux|tmux|tmux|tmux|tmux
test|script|E|bsdutils|util-linux|util-linux|util-linux-misc|util-linux
test|socat|E|socat|socat|socat|socat|socat
test|python3|E|python3|python3|python3|python3|python
test|node|E|nodejs|nodejs|nodejs|nodejs|nodejs
test|npm|E|npm|npm|npm|npm|npm
test|openssl|E|openssl|openssl|openssl|openssl|openssl
test|xz|E|xz-utils|xz|xz|xz|xz
test|rsyslogd|E|rsyslog,rsyslog-gnutls,rsyslog-openssl|rsyslog,rsyslog-gnutls,rsyslog-openssl|rsyslog,rsyslog-module-gtls,rsyslog-module-ossl|rsyslog,rsyslog-tls|-
test|zstd|E|zstd|zstd|zstd|zstd|zstd
test|bzip2|E|bzip2|bzip2|bzip2|bzip2|bzip2
test|docker-registry registry|E|docker-registry|docker-distribution|distribution-registry|docker-registry|-
test|skopeo|E|skopeo|skopeo|skopeo|skopeo|skopeo
test|docker-compose|E|docker-compose|-|-|-|-
test|podman|E|podman|podman|podman|podman|podman
test|buildah|E|buildah|buildah|buildah|buildah|buildah
test|ar|E|binutils|binutils|binutils|binutils|binutils
test|apt-get|E|apt|apt|-|-|-
test|dpkg-deb|E|dpkg|dpkg|-|dpkg|dpkg
test|rpmbuild|E|rpm|rpm-build|rpm-build|rpm-dev|rpm-tools
test|mmdebstrap|E|mmdebstrap|mmdebstrap|-|-|-
test|losetup|E|mount|util-linux|util-linux|losetup|util-linux
test|mount|E|mount|util-linux|util-linux|mount|util-linux
test|umount|E|mount|util-linux|util-linux|umount|util-linux
test|unshare|E|util-linux|util-linux|util-linux|util-linux-misc|util-linux
test|modprobe|o|kmod|kmod|kmod|kmod|kmod
test|mkfs.xfs|E|xfsprogs|xfsprogs|xfsprogs|xfsprogs|xfsprogs
test|mkfs.ext4|E|e2fsprogs|e2fsprogs|e2fsprogs|e2fsprogs|e2fsprogs
test|mkfs.btrfs|o|btrfs-progs|btrfs-progs|btrfsprogs|btrfs-progs|btrfs-progs
lint|shellcheck|E|shellcheck|ShellCheck|ShellCheck|shellcheck|shellcheck
lint|shfmt|E|shfmt|shfmt|shfmt|shfmt|shfmt
bench|podman|E|podman|podman|podman|podman|podman
bench|busybox.static busybox|E|busybox-static|busybox|busybox-static|busybox-static|busybox
bench|docker-registry registry|E|docker-registry|docker-distribution|distribution-registry|docker-registry|-
bench|setpriv|E|util-linux|util-linux|util-linux|setpriv|util-linux
bench|iperf3|E|iperf3|iperf3|iperf3|iperf3|iperf3
bench|crun|E|crun|crun|crun|crun|crun
guest|qemu-system-x86_64|E|qemu-system-x86|qemu-system-x86-core|qemu-x86|qemu-system-x86_64|qemu-system-x86
guest|qemu-img|E|qemu-utils|qemu-img|qemu-tools|qemu-img|qemu-img
guest|mmdebstrap|E|mmdebstrap|mmdebstrap|-|-|-
guest|mke2fs|E|e2fsprogs|e2fsprogs|e2fsprogs|e2fsprogs|e2fsprogs
guest|ssh|E|openssh-client|openssh-clients|openssh-clients|openssh-client-default|openssh
guest|socat|E|socat|socat|socat|socat|socat
demo|mmdebstrap debootstrap|E|mmdebstrap|debootstrap|debootstrap|debootstrap|debootstrap
demo|busybox.static busybox|E|busybox-static|busybox|busybox-static|busybox-static|busybox
demo|setpriv|E|util-linux|util-linux|util-linux|setpriv|util-linux
demo|ps|E|procps|procps-ng|procps|procps|procps-ng
demo|curl|E|curl|curl|curl|curl|curl
demo|jq|E|jq|jq|jq|jq|jq
demo|expect|E|expect|expect|expect|expect|expect
TABLE
}

usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; }
say() { printf '%s\n' "install-deps: $*"; }
warn() { printf '%s\n' "install-deps: $*" >&2; }

check=no
wanted=
while [ $# -gt 0 ]; do
  case $1 in
    --check) check=yes ;;
    --for)
      shift
      case ${1:-} in
        build | run | test | clients | lint | bench | guest | demo) wanted="$wanted $1" ;;
        *)
          usage >&2
          exit 2
          ;;
      esac
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
  shift
done
: "${wanted:=build run}"
# Tests, the demo, the bench and the guest all start an engine that was built here.
case $wanted in *test* | *demo* | *bench*) wanted="$wanted build run" ;; esac
wants() {
  case " $wanted " in *" $1 "*) return 0 ;; esac
  return 1
}

# as_root is empty for root, "sudo -n" where sudo needs no password, and "no" otherwise.
if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
  as_root="sudo -n"
else
  as_root=no
fi

for manager in apt-get dnf zypper apk pacman none; do
  command -v "$manager" >/dev/null 2>&1 && break
done

# have tells whether one of the commands is here. A busybox must be static: it becomes a whole image. A rsyslogd must speak TLS.
have() {
  for tool in "$@"; do
    path=$(command -v "$tool" 2>/dev/null) || continue
    case $tool in
      busybox*) LC_ALL=C ldd "$path" 2>&1 | grep -q '=>' && continue ;;
      rsyslogd) find /usr/lib /usr/lib64 -name lmnsd_gtls.so 2>/dev/null | grep -q . || continue ;;
    esac
    return 0
  done
  return 1
}

# trusts_authorities tells whether this machine has certificates of authorities, in one of the places where Go looks.
trusts_authorities() {
  for file in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt \
    /etc/ssl/ca-bundle.pem /etc/pki/tls/cacert.pem /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem /etc/ssl/cert.pem; do
    [ -s "$file" ] && return 0
  done
  return 1
}

# missing prints "E|o <packages> <commands>" for each line of the table that is wanted and not there.
missing() {
  table | while IFS='|' read -r purpose tools need apt dnf zypper apk pacman; do
    wants "$purpose" || continue
    # shellcheck disable=SC2086 # a list of words
    have $tools && continue
    case $manager in
      apt-get) pkg=$apt ;;
      dnf) pkg=$dnf ;;
      zypper) pkg=$zypper ;;
      apk) pkg=$apk ;;
      pacman) pkg=$pacman ;;
      *) pkg=- ;;
    esac
    echo "$need $pkg $tools"
  done
  if wants test && ! /usr/bin/python3 -c 'import docker' 2>/dev/null; then
    case $manager in
      apt-get | dnf | zypper) pkg=python3-docker ;;
      apk) pkg=py3-docker-py ;;
      pacman) pkg=python-docker ;;
      *) pkg=- ;;
    esac
    echo "E $pkg docker-py(python3)"
  fi
  # The go command fetches modules with these.
  if wants build || wants lint; then
    trusts_authorities || echo "o ca-certificates ca-certificates"
  fi
  if wants demo || wants guest || wants test; then
    # mmdebstrap and debootstrap check the archive's signatures with it.
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || {
      pkg=debian-archive-keyring
      [ "$manager" = zypper ] && pkg=-
      echo "o $pkg debian-archive-keyring"
    }
  fi
}

packages() { missing | awk '$2 != "-" {gsub(",", "\n", $2); print $2}' | sort -u | tr '\n' ' '; }

install_command() {
  case $manager in
    apt-get) echo "apt-get install -y --no-install-recommends" ;;
    dnf) echo "dnf install -y --setopt=install_weak_deps=False" ;;
    zypper) echo "zypper --non-interactive install --no-recommends" ;;
    apk) echo "apk add --no-cache" ;;
    pacman) echo "pacman -S --needed --noconfirm" ;;
    *) echo "(your package manager's install command)" ;;
  esac
}

# apt_quiet runs apt-get so that nothing asks, no service starts and none is restarted.
apt_quiet() {
  policy=/usr/sbin/policy-rc.d
  ours=no
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null && $as_root chmod 755 $policy && ours=yes
  fi
  $as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l apt-get -q -o Dpkg::Use-Pty=0 \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" </dev/null
  status=$?
  [ $ours = no ] || $as_root rm -f $policy
  return $status
}

# apt_lists fetches the package lists once, where this machine has none or those it has are a day old.
apt_lists() {
  find /var/lib/apt/lists -maxdepth 1 -name '*Packages*' -mtime -1 2>/dev/null | grep -q . && return 0
  apt_quiet update || warn "apt-get update had errors; going on with the lists that came"
}

install_packages() {
  list=$(packages)
  [ -n "$list" ] || return 0
  say "installing: $list"
  # shellcheck disable=SC2086,SC2046 # lists of words
  case $manager in
    apt-get)
      apt_lists
      apt_quiet install -y --no-install-recommends $list && return 0
      warn "installing all at once did not work; fresh lists, then one at a time"
      apt_quiet update
      for pkg in $list; do apt_quiet install -y --no-install-recommends "$pkg"; done
      ;;
    none) return 1 ;;
    pacman) $as_root pacman -Sy --needed --noconfirm $list </dev/null ;;
    *) $as_root $(install_command) $list </dev/null ;;
  esac
}

# docker_client gets Docker's command line, which the tests drive as a foreign client, without its daemon.
docker_client() {
  wants test || return 0
  command -v docker >/dev/null 2>&1 && return 0
  [ $check = no ] || return 1
  case $manager in
    apt-get)
      [ "$as_root" = no ] || apt_lists
      if [ "$as_root" != no ] && apt-cache show docker-cli >/dev/null 2>&1; then
        apt_quiet install -y --no-install-recommends docker-cli
        return
      fi
      # Debian 12 has the client only beside the daemon: take the one file out of the package.
      dir=$(mktemp -d) || return 1
      mkdir -p "$bin"
      (cd "$dir" && apt-get -q download docker.io && dpkg-deb -x docker.io_*.deb . &&
        cp usr/bin/docker "$bin/docker")
      status=$?
      rm -rf "$dir"
      return $status
      ;;
    dnf) [ "$as_root" != no ] && $as_root dnf install -y docker-cli </dev/null ;;
    apk) [ "$as_root" != no ] && $as_root apk add --no-cache docker-cli </dev/null ;;
    *) return 1 ;;
  esac
}

# node_clients gets the Node.js clients that the tests drive, into .cache/clients. It runs no scripts of packages.
node_clients() {
  wants test || return 0
  home=$top/.cache/clients
  cmp -s "$top/tests/clients/package.json" "$home/package.json" && [ -d "$home/node_modules/ws" ] && return 0
  [ $check = no ] || return 1
  mkdir -p "$home" && cp "$top/tests/clients/package.json" "$home/" &&
    npm install --prefix "$home" --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error </dev/null && return 0
  rm -f "$home/package.json"
  return 1
}

# go_modules gets what the modules of their own need that the tests use, with the user's settings of Go.
go_modules() {
  go_ok || return 0
  proxy=$(go env GOPROXY)
  [ $check = no ] || proxy=off
  while read -r purpose dir packages; do
    wants "$purpose" || continue
    (cd "$top/$dir" && GOPROXY=$proxy GOFLAGS='' CGO_ENABLED=0 go list -deps -test "$packages" >/dev/null) || return 1
  done <<'MODULES'
test tests/clients/go ./...
test hack/openapi/check ./...
test hack/programs ./...
test tests/jq github.com/itchyny/gojq/cmd/gojq
guest tests/jq github.com/itchyny/gojq/cmd/gojq
test tests/clients/docker github.com/docker/cli/cmd/docker
test tests/clients/act github.com/nektos/act
clients tests/clients/compose github.com/docker/compose/v2/cmd
clients tests/clients/compose5 github.com/docker/compose/v5/cmd
MODULES
}

go_ok() {
  command -v go >/dev/null 2>&1 || return 1
  minor=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
  [ -n "$minor" ] && [ "$minor" -ge $go_need ]
}

go_tool() { # NAME MODULE VERSION: into .cache/bin, unless the same version is here already.
  found=$(command -v "$1" || command -v "$(go env GOPATH)/bin/$1")
  if [ -n "$found" ] && go version -m "$found" 2>/dev/null | grep -q "^[[:space:]]*mod.*$3"; then return 0; fi
  if [ $check = yes ]; then
    warn "missing: $1 $3"
    return 1
  fi
  say "building $1 $3 (takes minutes the first time)"
  mkdir -p "$bin" && GOBIN=$bin GOFLAGS='' CGO_ENABLED=0 go install "$2@$3"
}

# devices gives every user /dev/net/tun and /dev/fuse, as udev does on an ordinary machine.
devices() {
  for dev in net/tun:200 fuse:229; do
    file=/dev/${dev%:*}
    if [ -r "$file" ] && [ -w "$file" ] && [ "$(stat -c %a "$file")" = 666 ]; then continue; fi
    if [ $check = yes ] || [ "$as_root" = no ]; then
      [ -r "$file" ] && [ -w "$file" ] && continue
      warn "$file cannot be used by every user: mknod -m 666 $file c 10 ${dev#*:}  (or: chmod 666 $file)"
      continue
    fi
    $as_root mkdir -p "$(dirname "$file")"
    [ -c "$file" ] || $as_root mknod "$file" c 10 "${dev#*:}"
    $as_root chmod 666 "$file" || warn "$file: its mode cannot be changed here"
  done
}

# kernel_says names the switches with which a system forbids rootless containers.
kernel_says() {
  f=/proc/sys/user/max_user_namespaces
  [ -r $f ] && [ "$(cat $f)" = 0 ] && warn "user namespaces are off: sysctl -w user.max_user_namespaces=15000"
  f=/proc/sys/kernel/unprivileged_userns_clone
  [ -r $f ] && [ "$(cat $f)" = 0 ] && warn "users may not make namespaces: sysctl -w kernel.unprivileged_userns_clone=1"
  f=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
  [ -r $f ] && [ "$(cat $f)" = 1 ] &&
    warn "AppArmor holds user namespaces back: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or a profile for mossd"
  return 0
}

# sub_ids says what an ordinary user lacks. moss also works with the one id that everybody has.
sub_ids() {
  [ "$(id -u)" != 0 ] || return 0
  me=$(id -un)
  for file in /etc/subuid /etc/subgid; do
    grep -qE "^($me|$(id -u)):" $file 2>/dev/null && continue
    warn "no sub-ids for $me in $file; images with more than one user need them. As root:"
    warn "    echo $me:$((100000 + ($(id -u) % 30000) * 65536)):65536 >>$file"
  done
}

bad=0
if wants build || wants lint; then
  if ! go_ok; then
    bad=1
    warn "Go 1.$go_need or newer is needed (found: $(go version 2>/dev/null || echo none))."
    warn "Unpack a release of Go into /usr/local/go and put /usr/local/go/bin in PATH; or, with any Go since 1.21, set GOTOOLCHAIN=auto."
  fi
fi

if [ -n "$(missing)" ] && [ $check = no ] && [ "$as_root" != no ]; then
  install_packages || warn "some packages could not be installed"
fi
left=$(missing)
if [ -n "$left" ]; then
  echo "$left" | while read -r need pkg tools; do
    [ "$need" = E ] && kind=needed || kind=optional
    warn "missing ($kind): $tools (package: $pkg)"
  done
  [ -z "$(packages)" ] || warn "ask the administrator for: $(install_command) $(packages)"
  ! echo "$left" | grep -q '^E' || bad=1
fi
docker_client || {
  warn "missing (needed): docker, the command line client only (package: docker-cli, or docker.io on Debian 12)"
  bad=1
}
node_clients || {
  warn "missing (needed): what tests/clients/package.json names, in .cache/clients (npm install)"
  bad=1
}
go_modules || {
  warn "missing (needed): the modules of tests/jq, tests/clients/go, tests/clients/docker, tests/clients/act, tests/clients/compose, tests/clients/compose5, hack/openapi/check and hack/programs (go mod download)"
  bad=1
}
if wants run; then
  devices
  kernel_says
  sub_ids
fi
if wants lint && go_ok; then
  go_tool golangci-lint $lint_module $golangci_version || bad=1
  go_tool gofumpt $gofumpt_module $gofumpt_version || bad=1
fi
[ $bad = 0 ] && say "all there for:$wanted"
exit $bad
