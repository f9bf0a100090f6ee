#!/usr/bin/env bats
# bats file_tags=alone
# Builds that are cut off at any moment: by the death of the engine, by the client's, by a disk that is full. Nothing of them
# is left, no process runs on, the next build works, and what the cache says is true. MOSS_CHANCE_ROUNDS sets the rounds
# (2).

load lib/moss
load lib/crash

setup_file() {
  export DOCKER_BUILDKIT=0
  start_engine
  import_busybox
  ctx=$MOSS_DIR/ctx
  mkdir -p "$ctx/tree"
  for i in $(seq 200); do head -c 20000 /dev/urandom >"$ctx/tree/$i"; done
  tar -C "$ctx" -cf "$MOSS_DIR/tree.tar" tree
}
teardown_file() { stop_engine; }
setup() {
  begin
  name=$(unique crash)
  salt=0
  [ -z "$(moss ps -aq)" ] || moss ps -aq | xargs "$moss_bin/moss" --host "unix://$MOSS_SOCK" rm -f # of a test that failed
  forget_builds
  clean_mounts=$(mounted)
  clean=$(stored)
}
teardown() { finish; }

rounds=${MOSS_CHANCE_ROUNDS:-2}

# context: the archive of a build that no build before has done: stages at the same time, steps that write much, a cache, a
# mount, a folder, settings.
context() {
  salt=$((salt + 1))
  local dir=$BATS_TEST_TMPDIR/context
  mkdir -p "$dir"
  cat >"$dir/Dockerfile" <<DOCKERFILE
FROM busybox AS one
ENV SALT=$name-$salt
COPY tree /tree
RUN cat /tree/* | md5sum >/sum; cp -r /tree /copy
FROM busybox AS two
RUN --mount=type=cache,id=$name,target=/c echo $salt >/c/last; sleep 0.1; echo $name-$salt >/two
RUN --mount=type=bind,source=tree,target=/mnt cat /mnt/* | md5sum >/sum
FROM one
WORKDIR /work
COPY --from=two /two /sum /work/
RUN cmp /sum /work/sum && rm -r /copy/1* && echo $name-$salt >/done
CMD ["cat", "/done"]
DOCKERFILE
  cp "$MOSS_DIR/tree.tar" "$MOSS_DIR/context.tar"
  tar -C "$dir" -rf "$MOSS_DIR/context.tar" Dockerfile
}
# build QUERY...: builds it; what the engine answers is the output.
# shellcheck disable=SC2120 # run calls it too, with arguments
build() {
  curl -sSN --max-time 180 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' \
    --data-binary @"$MOSS_DIR/context.tar" "http://moss/build?t=$name&forcerm=1&$*"
}
# right: the image is what the Dockerfile says.
right() {
  expect equal "$(moss run --rm "$name")" "$name-$salt"
  expect equal "$(moss run --rm "$name" sh -c 'cat /work/two; ls /tree | wc -l; ls /copy | wc -l; cat /tree/* | md5sum | cmp - /sum && echo same' | xargs)" \
    "$name-$salt 200 89 same"
}
works() {
  run build "$@"
  expect contains "Successfully tagged $name:latest"
  right
}

# What a build may leave in no case, once it is over.
containers() { find "$MOSS_DATA/root/containers" -mindepth 1 -maxdepth 1 -type d 2>/dev/null | wc -l; }
temporary() { find "$MOSS_DATA/root/build/tmp" "$MOSS_DIR/run/build" -mindepth 1 2>/dev/null; }
mounted() { grep -cE 'overlay|fuse' "/proc/$(inner_pid)/mountinfo" || true; }
sleepers() { left_processes | grep -E "sleep 98765|moss-shim (run|container)" || true; }
nothing_left() { [ "$(containers)" = 0 ] && [ -z "$(temporary)" ] && [ "$(mounted)" = "$clean_mounts" ] && [ -z "$(sleepers)" ]; }
left() { echo "containers: $(containers), files: $(temporary), mounts: $(mounted) of $clean_mounts, processes: $(sleepers)"; }
is_clean() { eventually 20 nothing_left || fail "$(left)"; }

# stored: the store, as tests/71-crash-images.bats sees it.
stored() {
  find "$MOSS_DATA/root/storage" -mindepth 2 -maxdepth 2 -not -name '*.lock' -not -name 'volatile-layers.*' -not -name '*.json' \
    -not \( -type d -empty \) -printf '%P\n' 2>/dev/null | sort
}
forget_builds() {
  answer_of "/images/json?all=1" -r '.[] | select((.RepoTags // []) | any(startswith("busybox:")) | not).Id' |
    while read -r id; do api DELETE "/images/$id?force=1" >/dev/null; done
  moss builder prune -af >/dev/null
}
stored_is() { [ "$(stored)" = "$1" ]; }

# bats test_tags=chance
@test "the engine dies at any moment of a build" {
  seed_chance
  context
  measure build
  right
  is_clean
  for _ in $(seq "$rounds"); do
    context
    killed_during build
    is_clean
    # What was done is taken from the cache, and is what it says; what was not is done.
    works
    is_clean
  done
  one=$(moss run --rm "$name" sh -c 'cat /sum /done')
  works "nocache=1"
  expect equal "$(moss run --rm "$name" sh -c 'cat /sum /done')" "$one"
  forget_builds
  eventually 20 stored_is "$clean" || fail "the store has more than before:" "$(stored | diff <(echo "$clean") - || true)"
}

# bats test_tags=chance
@test "the engine dies while a build's images are removed and its cache is pruned" {
  seed_chance
  context
  # shellcheck disable=SC2119 # without a query
  build >/dev/null
  measure forget_builds
  for _ in $(seq $(((rounds + 1) / 2))); do
    context
    # shellcheck disable=SC2119 # without a query
    build >/dev/null
    killed_during forget_builds
    is_clean
    works
    forget_builds
    eventually 20 stored_is "$clean" || fail "the store has more than before:" "$(stored | diff <(echo "$clean") - || true)"
  done
}

@test "a step that runs ends with the engine" {
  printf 'FROM busybox\nRUN echo begun; sleep 98765\n' >"$BATS_TEST_TMPDIR/Dockerfile"
  tar -C "$BATS_TEST_TMPDIR" -cf "$MOSS_DIR/context.tar" Dockerfile
  # shellcheck disable=SC2119 # without a query
  build >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  client=$!
  eventually 20 file_has "$BATS_TEST_TMPDIR/out" begun
  expect --in "$(sleepers)" contains moss-shim
  old=$(inner_pid)
  kill -KILL "$old"
  wait $client || true
  eventually 30 another_engine "$old"
  is_clean
  expect equal "$(moss ps -aq)" ""
}

# bats test_tags=chance
@test "a client that goes at any moment of a build" {
  seed_chance
  context
  measure build
  files=$(find "/proc/$(inner_pid)/fd" -mindepth 1 | wc -l)
  for _ in $(seq "$rounds"); do
    context
    moss rmi "$name" >/dev/null
    curl -sS --unix-socket "$MOSS_SOCK" -X POST --data-binary @"$MOSS_DIR/context.tar" -o /dev/null "http://moss/build?t=$name" 3>&- &
    client=$!
    pass_moment
    kill -KILL $client 2>/dev/null || true # or the build was quicker: that moment is one as well
    wait $client || true
    is_clean
    works
  done
  # What an engine opens once and keeps is there by now.
  eventually 10 no_more_files "$((files + 8))" || fail "descriptors: $files before, $(find "/proc/$(inner_pid)/fd" -mindepth 1 | wc -l) now"
  forget_builds
  eventually 20 stored_is "$clean" || fail "the store has more than before:" "$(stored | diff <(echo "$clean") - || true)"
}
no_more_files() { [ "$(find "/proc/$(inner_pid)/fd" -mindepth 1 | wc -l)" -le "$1" ]; }

@test "half a context: the client stops in the middle of it" {
  context
  run bash -c "head -c 2000000 '$MOSS_DIR/context.tar' | curl -sS --unix-socket '$MOSS_SOCK' -X POST --data-binary @- http://moss/build"
  expect contains message
  is_clean
  # One that says how much is to come, and goes.
  {
    printf 'POST /build HTTP/1.1\r\nHost: moss\r\nContent-Type: application/x-tar\r\nContent-Length: 4000000\r\n\r\n'
    head -c 2000000 "$MOSS_DIR/context.tar"
  } | timeout 10 socat -t 0.2 - "UNIX-CONNECT:$MOSS_SOCK" >/dev/null || true
  is_clean
  works
}

# inside CMD...: in the engine's namespaces.
inside() { nsenter --preserve-credentials -U -m -t "$(inner_pid)" "$@"; }
@test "a full disk: of the context, of a layer, of a step" {
  root=$MOSS_DATA/root
  # A small file system over the data folder, which the next engine opens.
  inside mount -t tmpfs -o size=40m,mode=0700 small "$root"
  crash 30
  import_busybox
  used() { inside df -k --output=used "$root" | tail -n 1 | tr -d ' '; }
  used_is() { [ $(($(used) - $1)) -le 300 ]; } # lists and folders come and stay
  attempt() {
    tar -C "$BATS_TEST_TMPDIR/full" -cf "$MOSS_DIR/context.tar" .
    run build
    expect lacks "Successfully"
    expect matches '"error"|"message"'
    expect matches '[Nn]o space left on device'
    expect equal "$(moss ps -aq)" ""
    eventually 20 used_is "$before" || fail "$before KiB were used, and now $(used):" "$(inside find "$root" -size +100k)"
  }
  mkdir "$BATS_TEST_TMPDIR/full"
  before=$(used)
  # A context that has no room.
  head -c 60000000 /dev/zero >"$BATS_TEST_TMPDIR/full/large"
  printf 'FROM busybox\nCOPY large /large\n' >"$BATS_TEST_TMPDIR/full/Dockerfile"
  attempt
  # A context that has, and a layer that has not.
  head -c 16000000 /dev/zero >"$BATS_TEST_TMPDIR/full/large"
  printf 'FROM busybox\nCOPY large /one\nCOPY large /two\nCOPY large /three\n' >"$BATS_TEST_TMPDIR/full/Dockerfile"
  tar -C "$BATS_TEST_TMPDIR/full" -cf "$MOSS_DIR/context.tar" .
  run build
  expect lacks "Successfully"
  expect matches '[Nn]o space left on device'
  moss builder prune -af
  eventually 20 used_is "$before" || fail "$before KiB were used, and now $(used)"
  # A step that writes until nothing is left.
  rm "$BATS_TEST_TMPDIR/full/large"
  printf 'FROM busybox\nRUN cat /dev/zero >/fill\n' >"$BATS_TEST_TMPDIR/full/Dockerfile"
  attempt
  printf 'FROM busybox\nRUN echo works >/word\n' >"$BATS_TEST_TMPDIR/full/Dockerfile"
  tar -C "$BATS_TEST_TMPDIR/full" -cf "$MOSS_DIR/context.tar" .
  run build
  expect contains "Successfully tagged $name:latest"
  moss rmi "$name"
  inside umount -l "$root"
  crash 30
}
