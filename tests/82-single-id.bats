#!/usr/bin/env bats
# bats file_tags=nosub
# A user without sub-ids: root is the only user there is in containers. With sub-ids the same is reached by hiding
# newuidmap, so that these tests run for every user.

load lib/moss
load lib/packages

setup_file() {
  local bin=$moss_bin tool
  if has_subids; then
    mkdir "$BATS_FILE_TMPDIR/bin" "$BATS_FILE_TMPDIR/moss"
    for tool in ip nsenter unshare mount slirp4netns crun runc fuse-overlayfs nft; do
      tool=$(command -v $tool) && ln -s "$tool" "$BATS_FILE_TMPDIR/bin/"
    done
    bin=$BATS_FILE_TMPDIR/moss
    printf '#!/bin/sh\nPATH=%s exec %s/mossd "$@"\n' "$BATS_FILE_TMPDIR/bin" "$moss_bin" >"$bin/mossd"
    chmod 0755 "$bin/mossd"
  fi
  export ONE_ID_BIN=$bin
  moss_bin=$bin start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# again [ARG...]: another engine on the same folders.
again() {
  halt_engine
  moss_bin=$ONE_ID_BIN spawn_engine "$@"
}

@test "the log and info say that there is a single id, and why" {
  run cat "$MOSS_DIR/mossd.log"
  expect contains "no sub-ids: running with a single id" reason=
  run api GET /info
  expect contains "No subordinate ids: running with a single id (" "Other ids are emulated in containers"
}

@test "root runs, and owns what it makes" {
  run moss run --rm busybox sh -c 'id -u; touch /f; stat -c %u:%g /f'
  expect status 0
  expect output $'0\n0:0'
}

@test "another user is refused, and the message says why" {
  for user in 1000 0:1000 www; do
    run moss run --rm -u $user busybox id
    expect status 125
    expect contains "is not supported: the user has no subordinate ids"
  done
  run moss run --rm --group-add 5 busybox id
  expect status 125
  expect contains "GroupAdd [5] is not supported: the user has no subordinate ids"
}

@test "an image with other owners imports and runs; its files are root's" {
  mkdir -p "$BATS_TEST_TMPDIR/t/x"
  echo theirs >"$BATS_TEST_TMPDIR/t/x/file"
  cp "$(command -v busybox.static || command -v busybox)" "$BATS_TEST_TMPDIR/t/x/busybox"
  tar -C "$BATS_TEST_TMPDIR/t" --owner=1234 --group=4321 -cf "$BATS_TEST_TMPDIR/t.tar" x
  image=$(unique owners)
  moss import "$BATS_TEST_TMPDIR/t.tar" "$image"
  run moss run --rm "$image" /x/busybox stat -c '%u:%g' /x/file
  expect output 0:0
  run moss run --rm "$image" /x/busybox cat /x/file
  expect output theirs
  moss rmi "$image"
}

# What changes owners and ids, in a container with busybox.
changes='touch /f && chown www:www /f && chgrp www /f && chown -h www /f && stat -c "f %u:%g" /f
chown 0:0 /f && echo root || echo failed
chown 0:0 /none 2>/dev/null || echo none
su www -s /bin/sh -c "id -u; touch /tmp/g; stat -c %u:%g /tmp/g"'
changed=$'f 0:0\nroot\nnone\n0\n0:0'

@test "changes of owners and ids succeed without effect, in run, exec and builds" {
  run moss run --rm busybox sh -c "$changes"
  expect status 0
  expect output "$changed"

  name=$(unique exec)
  moss run -d --name "$name" busybox sleep 600
  run moss exec "$name" sh -c "$changes"
  expect status 0
  expect output "$changed"
  moss rm -f "$name"

  printf '%s\n' 'FROM busybox' 'RUN chown -R www:www /var && su www -s /bin/sh -c "touch /tmp/made"' >"$BATS_TEST_TMPDIR/Dockerfile"
  image=$(unique image)
  run moss build -q -t "$image" "$BATS_TEST_TMPDIR"
  expect status 0
  run moss run --rm "$image" stat -c %u:%g /tmp/made /var/www
  expect output $'0:0\n0:0'
  moss rmi "$image"
}

@test "changes of owners and ids: who may not make them is refused as anywhere" {
  run moss run --rm --cap-drop CHOWN busybox chown www /bin
  expect status 1
  run moss run --rm --cap-drop SETUID busybox su www -s /bin/sh -c true
  expect status 1
  run moss run --rm --cap-drop SETGID busybox su www -s /bin/sh -c true
  expect status 1
  run moss run --rm --userns keep-id busybox chown www /bin
  expect status 1
  run moss run --rm --security-opt seccomp=unconfined busybox chown www /bin
  expect status 1
}

@test "apt, dpkg and rpm install packages whose files have other owners, and leave nothing of moss in the image" {
  image=$(unique packages)
  import_packages "$image"

  name=$(unique apt)
  run moss run --name "$name" "$image" sh -c 'apt-get update && apt-get install -y moss-deb && stat -c "%u:%g %n" /srv/deb/*'
  expect status 0
  expect contains "Setting up moss-deb" "0:0 /srv/deb/file" "0:0 /srv/deb/made"
  expect lacks W: E:
  run moss diff "$name"
  expect contains /srv/deb
  expect lacks /etc/apt
  moss rm "$name"

  name=$(unique dpkg)
  run moss run --name "$name" "$image" dpkg -i /repo/moss-deb.deb
  expect status 0
  moss commit "$name" "$image-dpkg"
  run moss run --rm "$image-dpkg" dpkg -s moss-deb
  expect contains "Status: install ok installed"
  moss rm "$name"

  name=$(unique rpm)
  run moss run --name "$name" "$image" rpm -i --nodeps --force-debian /repo/moss-rpm.rpm
  expect status 0
  moss commit "$name" "$image-rpm"
  run moss run --rm "$image-rpm" rpm -q --force-debian moss-rpm
  expect contains moss-rpm-1-1
  run moss run --rm "$image-rpm" sh -c 'stat -c "%u:%g %n" /srv/rpm/*'
  expect output $'0:0 /srv/rpm/file\n0:0 /srv/rpm/made'
  moss rm "$name"

  printf 'FROM %s\nRUN apt-get update && apt-get install -y moss-deb\n' "$image" >"$BATS_TEST_TMPDIR/Dockerfile"
  run moss build -q -t "$image-built" "$BATS_TEST_TMPDIR"
  expect status 0
  again --emulate-ids=false
  run moss run --rm "$image-built" sh -c '/usr/bin/dpkg -s moss-deb; ls -A /etc/apt/apt.conf.d'
  expect status 0
  expect contains "Status: install ok installed"
  expect lacks moss-one-id

  # Without it all of them fail.
  for command in 'apt-get update' 'dpkg -i /repo/moss-deb.deb' 'rpm -i --nodeps --force-debian /repo/moss-rpm.rpm' 'chown www /bin'; do
    # shellcheck disable=SC2086 # words
    run moss run --rm "$image" $command
    [ "$status" != 0 ] || fail "$command does not fail: $output"
  done
  run api GET /info
  expect lacks "Other ids are emulated"
  again
  moss rmi "$image"-{built,dpkg,rpm} "$image"
}

@test "runc: changes of owners and ids succeed without effect" {
  again --runtime runc
  run moss run --rm busybox sh -c "$changes"
  expect status 0
  expect output "$changed"
  again
}
