#!/usr/bin/env bats
# The build cache: what counts as done and what does not, stages side by side, builds that share steps, bounds, hang-ups.

load lib/moss
load lib/registry

setup_file() {
  start_engine --build-cache-size 64M
  import_busybox
  start_registry plain
  export PLAIN=$REGISTRY
}
teardown_file() { stop_registries && stop_engine; }
setup() {
  begin
  dir=$BATS_TEST_TMPDIR/context
  mkdir -p "$dir"
}
teardown() { finish; }

# dockerfile: takes the Dockerfile of the context from stdin. The salt makes its steps this test's own.
dockerfile() { sed "s/SALT/$BATS_TEST_NUMBER/" >"$dir/Dockerfile"; }

# build [QUERY]: builds the context. The lines of the stream go to stdout; an error is the last one and the status.
build() {
  tar -C "$dir" -cf "$BATS_TEST_TMPDIR/context.tar" .
  post "${1-}"
}
post() {
  local answer
  answer=$(curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -X POST --data-binary @"$BATS_TEST_TMPDIR/context.tar" \
    "http://moss/build?$1") || return
  jq -j '.stream // (select(.status) | .status + "\n")' <<<"$answer"
  jq -e -r '.error // .message // empty' <<<"$answer" && return 1
  return 0
}

# cached N: so many steps came from the cache.
cached() { expect equal "$(grep -c 'Using cache' <<<"$output")" "$1"; }

# three_steps: a Dockerfile of three commands with two copies between them.
three_steps() {
  echo 1 >"$dir/a"
  echo 1 >"$dir/b"
  dockerfile <<'END'
FROM busybox
RUN echo one SALT
COPY a /a
RUN cat /proc/sys/kernel/random/uuid >/two
COPY b /b
RUN cat /a /b >/three
END
}

@test "a second build runs nothing, whatever the times of its files, and neither does one of the next engine" {
  three_steps
  run build
  expect status 0
  cached 0
  first=$(tail -n 1 <<<"$output")
  touch -d '2 years ago' "$dir"/*
  run build
  cached 5
  expect equal "$(tail -n 1 <<<"$output")" "$first"
  old=$(inner_pid)
  kill -KILL "$old"
  eventually 20 another_engine "$old"
  run build
  cached 5
  expect equal "$(tail -n 1 <<<"$output")" "$first"
}

@test "what has changed runs, with all that follows" {
  three_steps
  build
  echo 2 >"$dir/b"
  run build
  cached 3
  chmod 600 "$dir/b"
  run build
  cached 3
  echo 2 >"$dir/a"
  run build
  cached 1
  run build nocache=1
  expect status 0
  cached 0
}

@test "pull looks for a newer base image, which makes all steps new" {
  base=$PLAIN/$(unique base)
  moss tag busybox "$base"
  moss push -q "$base"
  dockerfile <<END
FROM $base
RUN echo pull SALT
END
  run build
  cached 0
  run build pull=1
  expect contains "Status: Image is up to date"
  cached 1
  moss run --name "$(basename "${base%:*}")" busybox touch /newer
  moss commit "$(basename "${base%:*}")" "$base"
  moss rm "$(basename "${base%:*}")"
  moss push -q "$base"
  moss tag busybox "$base"
  run build
  cached 1
  run build pull=1
  expect status 0
  cached 0
}

@test "cachefrom takes steps out of an image that was pulled" {
  base=$PLAIN/$(unique base) app=$PLAIN/$(unique app)
  moss tag busybox "$base"
  moss push -q "$base"
  three_steps
  sed -i "s|FROM busybox|FROM $base|" "$dir/Dockerfile"
  run build "t=$app"
  expect status 0
  want=$(tail -n 2 <<<"$output" | head -n 1)
  moss push -q "$app"
  moss rmi "$app" "$base"
  moss builder prune -f
  moss pull -q "$app"
  run build "cachefrom=%5B%22$app%22%2C%22$PLAIN/nowhere%22%5D&t=$app"
  expect status 0
  cached 5
  expect contains "$want"
  echo 2 >"$dir/b"
  run build "cachefrom=%5B%22$app%22%5D"
  expect status 0
  cached 3
  moss rmi "$app"
}

# bats test_tags=alone
@test "stages that do not need each other run at the same time, those that nothing needs not at all" {
  dockerfile <<'END'
FROM busybox AS one
RUN --mount=type=cache,id=meet,target=/c echo one SALT; touch /c/one; until test -e /c/two; do sleep 0.05; done; touch /began
FROM busybox AS unneeded
RUN echo SALT; exit 9
FROM busybox AS two
RUN --mount=type=cache,id=meet,target=/c echo two SALT; touch /c/two; until test -e /c/one; do sleep 0.05; done; touch /began
FROM busybox
COPY --from=one /began /one
COPY --from=two /began /two
END
  run build
  expect status 0
  expect contains "one $BATS_TEST_NUMBER" "two $BATS_TEST_NUMBER"
  expect lacks unneeded
}

@test "builds that want the same step at the same time share it" {
  dockerfile <<'END'
FROM busybox
RUN echo shared SALT; sleep 2; cat /proc/sys/kernel/random/uuid >/id
RUN cat /id
END
  tar -C "$dir" -cf "$BATS_TEST_TMPDIR/context.tar" .
  pids=()
  for i in 1 2 3; do
    post >"$BATS_TEST_TMPDIR/$i" &
    pids+=($!)
  done
  wait "${pids[@]}"
  for i in 2 3; do
    expect equal "$(tail -n 1 "$BATS_TEST_TMPDIR/$i")" "$(tail -n 1 "$BATS_TEST_TMPDIR/1")"
    file_has "$BATS_TEST_TMPDIR/$i" "shared $BATS_TEST_NUMBER"
  done
}

# nothing_left: no container, no mount in the engine's namespace, no file of a build.
nothing_left() {
  [ -z "$(moss ps -aq)" ] && ! grep -qF "$MOSS_DATA" "/proc/$(inner_pid)/mountinfo" &&
    [ -z "$(find "$MOSS_DATA/root/build/tmp" "$MOSS_DATA/root/build/mounts" -mindepth 1 2>/dev/null)" ]
}

@test "a client that hangs up ends its build at once and leaves nothing; other builds of the same step go on" {
  dockerfile <<'END'
FROM busybox
COPY Dockerfile /
RUN --mount=type=bind,target=/context trap 'told=yes' USR1; echo begun SALT; until [ $told ]; do sleep 0.05; done
END
  tar -C "$dir" -cf "$BATS_TEST_TMPDIR/context.tar" .
  # live FILE: a build whose answer is in the file as it comes.
  live() { exec curl -sSN --unix-socket "$MOSS_SOCK" -X POST --data-binary @"$BATS_TEST_TMPDIR/context.tar" http://moss/build >"$1" 3>&-; }
  live "$BATS_TEST_TMPDIR/other" &
  other=$!
  live "$BATS_TEST_TMPDIR/out" &
  client=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/other" '"begun '
  eventually 10 file_has "$BATS_TEST_TMPDIR/out" '"begun '
  expect equal "$(moss ps -q | wc -l)" 1
  kill "$client"
  tell "$(moss ps -q)"
  wait "$other"
  file_has "$BATS_TEST_TMPDIR/other" "Successfully built"
  eventually 5 nothing_left

  sed -i 's/begun/again/' "$dir/Dockerfile"
  tar -C "$dir" -cf "$BATS_TEST_TMPDIR/context.tar" .
  live "$BATS_TEST_TMPDIR/again" &
  client=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/again" '"again '
  kill "$client"
  eventually 5 nothing_left
}

@test "what the cache holds is bounded" {
  local n
  for n in 1 2 3 4 5 6; do
    dockerfile <<END
FROM busybox
RUN dd if=/dev/urandom of=/big bs=1M count=20; echo $n SALT
RUN exit 1
END
    build forcerm=1 || true
  done
  # 64 MB hold three of the six.
  eventually 10 within_bounds
  run build forcerm=1
  cached 1
}
within_bounds() { [ "$(du -sm "$MOSS_DATA/root" | cut -f1)" -lt 90 ]; }

@test "an image that was removed takes its steps along, and they are made again" {
  name=$(unique gone)
  three_steps
  build "t=$name"
  moss rmi "$name"
  run build
  expect status 0
  cached 0
}
