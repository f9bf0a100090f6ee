#!/usr/bin/env bats
# Where the engine keeps what this boot holds, and where the command looks for it: both follow the same chain.

load lib/moss

setup() {
  dir=$(mktemp -d /tmp/moss-p.XXXXXX)
  mkdir "$dir/home"
  mkdir -m 0700 "$dir/tmp"
}
teardown() {
  local p
  fusermount3 -u -z "$dir/root" 2>/dev/null || true
  for p in /proc/[0-9]*; do
    if [ -O "$p" ] && tr '\0' ' ' <"$p/cmdline" 2>/dev/null | grep -q "^$moss_bin/mossd .*$dir"; then
      kill "${p#/proc/}" 2>/dev/null || true
    fi
  done
  # shellcheck disable=SC2143,SC2317 # called by eventually, which takes no !
  nobody_left() { [ -z "$(grep -ls "$dir" /proc/[0-9]*/cmdline)" ]; }
  eventually 20 nobody_left
  chmod -R u+rwX "$dir" && rm -rf "$dir"
}

# elsewhere [NAME=VALUE]... CMD...: runs CMD where /run/user is empty, with nothing in its environment but what is given
# and a HOME. The namespace has one id: newuidmap is hidden, which would fail there.
elsewhere() {
  local tool bin=$dir/bin
  if [ ! -d "$bin" ]; then
    mkdir "$bin"
    for tool in ip nsenter unshare mount slirp4netns crun runc nft sh setpriv env timeout; do
      tool=$(command -v $tool) && ln -s "$tool" "$bin/"
    done
  fi
  # shellcheck disable=SC2016 # for the inner shell
  unshare --user --map-current-user --keep-caps --mount sh -c 'mount -t tmpfs none /run/user
    exec setpriv --ambient-caps=-all --inh-caps=-all env -i "$@"' sh "PATH=$bin" "HOME=$dir/home" "$@" 3>&- 4>&-
}

# both WANT [NAME=VALUE]...: the command starts an engine, whose folder must be WANT; the engine alone takes the same.
both() {
  local want=$1
  shift
  run elsewhere "$@" timeout 180 "$moss_bin/moss" version
  expect status 0
  expect contains Engine:
  [ -S "$want/moss.sock" ]
  run elsewhere "$@" timeout 180 "$moss_bin/mossd" --root "$dir/other"
  [ "$status" != 0 ]
  expect contains "$want is in use by another engine"
}

@test "XDG_RUNTIME_DIR comes first" {
  mkdir -m 0700 "$dir/xdg"
  both "$dir/xdg/moss" "XDG_RUNTIME_DIR=$dir/xdg" "TMPDIR=$dir/tmp"
}

@test "without XDG_RUNTIME_DIR: a private folder below TMPDIR" {
  both "$dir/tmp/moss-$(id -u)" "TMPDIR=$dir/tmp"
  expect equal "$(stat -c %a "$dir/tmp/moss-$(id -u)")" 700
}

@test "an XDG_RUNTIME_DIR that others may enter, or that is relative, is passed over, and the engine says why" {
  mkdir -m 0755 "$dir/xdg"
  both "$dir/tmp/moss-$(id -u)" "XDG_RUNTIME_DIR=$dir/xdg" "TMPDIR=$dir/tmp"
  expect contains "$dir/xdg has mode 0755; others must not enter it (chmod 700)"
}

@test "a TMPDIR in which others can rename is refused" {
  chmod 0777 "$dir/tmp"
  run elsewhere "TMPDIR=$dir/tmp" timeout 180 "$moss_bin/mossd" --root "$dir/other"
  [ "$status" != 0 ]
  expect contains "others can rename"
  run elsewhere "TMPDIR=$dir/tmp" timeout 180 "$moss_bin/moss" ps
  [ "$status" != 0 ]
  expect contains "others can rename"
}

@test "a folder below TMPDIR that is a link, or open to others, is refused" {
  mkdir -m 0755 "$dir/tmp/moss-$(id -u)"
  run elsewhere "TMPDIR=$dir/tmp" timeout 180 "$moss_bin/mossd" --root "$dir/other"
  [ "$status" != 0 ]
  expect contains "has mode 0755"
  rmdir "$dir/tmp/moss-$(id -u)"
  ln -s "$dir/home" "$dir/tmp/moss-$(id -u)"
  run elsewhere "TMPDIR=$dir/tmp" timeout 180 "$moss_bin/mossd" --root "$dir/other"
  [ "$status" != 0 ]
  expect contains "is not a folder"
  run elsewhere "TMPDIR=$dir/tmp" timeout 180 "$moss_bin/moss" ps
  [ "$status" != 0 ]
  expect contains "is no folder"
}

# serve: shows $dir/disk at $dir/root, by a program that has no more rights than the user, as sshfs and the like.
serve() {
  mkdir -m 0700 "$dir/disk" "$dir/root" "$dir/run"
  : >"$dir/disk/canary"
  "$moss_top/.cache/bin/attack/badsector" "$dir/disk" "$dir/root" canary >"$dir/served.log" 2>&1 3>&- 4>&- &
  served=$!
  eventually 20 grep -q " $dir/root " /proc/self/mounts
  MOSS_DIR=$dir MOSS_DATA=$dir MOSS_SOCK=$dir/s
  export MOSS_DIR MOSS_DATA MOSS_SOCK
}

@test "a data folder on a FUSE file system of the user: what it refuses is said, and containers run" {
  serve
  # What a trial of the kernel's overlay leaves, and root cannot list there.
  mkdir -p "$dir/disk/storage/overlay/compat123/work/work/below"
  chmod 0 "$dir/disk/storage/overlay/compat123/work/work"
  spawn_engine
  run grep -c "leftovers cannot be removed" "$dir/mossd.log"
  expect output 0
  [ ! -e "$dir/disk/storage/overlay/compat123" ] || fail "the leftover is there still"
  run api GET /info
  expect contains '"Driver":"fuse-overlayfs"' "The file system of the data folder holds root to the modes of files (permission denied)"
  expect --in "$(cat "$dir/mossd.log")" contains "The file system of the data folder holds root to the modes of files"
  if has_subids; then
    expect contains "The file system of the data folder gives files to no other user (operation not permitted)"
  fi

  import_busybox
  mkdir -p "$dir/tree/ro/below"
  cp "$(command -v busybox.static || command -v busybox)" "$dir/tree/busybox"
  echo theirs >"$dir/tree/ro/below/file"
  tar -C "$dir/tree" --owner=33 --group=33 --mode=a-w -cf "$dir/tree.tar" .
  moss import "$dir/tree.tar" readonly
  run moss run --rm readonly /busybox sh -c '/busybox touch /ro/below/new && /busybox stat -c %u:%g /ro/below/file /ro/below/new'
  expect status 0
  expect output $'0:0\n0:0'
  tar -C "$dir/tree/ro/below" --owner=33 --group=33 -cf "$dir/file.tar" file
  id=$(moss create busybox true)
  moss cp - "$id:/tmp" <"$dir/file.tar"
  moss rm "$id"
  printf 'FROM busybox\nCOPY --chown=33:33 file /srv/\nRUN touch /srv/made\n' >"$dir/tree/ro/below/Dockerfile"
  moss build -q -t built "$dir/tree/ro/below"
  run moss run --rm -w /made/here built cat /srv/file
  expect output theirs
  if has_subids; then
    run moss run --rm -u 33 -w /www/here built cat /srv/file
    expect output theirs
    run moss run --rm --userns keep-id busybox true
    expect status 125
    expect contains "a container with ids of its own needs files of other users"
  fi

  halt_engine
  spawn_engine
  run moss run --rm built cat /srv/file
  expect output theirs
  halt_engine
  fusermount3 -u "$dir/root"
  kill "$served" 2>/dev/null || true # other mount namespaces may have a copy of the mount
  eventually 20 ended "$served"
}
