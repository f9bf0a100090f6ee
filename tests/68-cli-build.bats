#!/usr/bin/env bats
# moss build: contexts of every kind, what of them is sent, flags, secrets, how a build is shown on a terminal and elsewhere,
# exit codes; moss builder prune.

# bats file_tags=subids

load lib/moss
load lib/registry
load lib/ports

setup_file() {
  start_engine
  import_busybox
  start_registry closed --htpasswd ann:secret
  export CLOSED=$REGISTRY
  moss save -o "$MOSS_DIR/box.tar" busybox
  skopeo copy -q --dest-tls-verify=false --dest-creds ann:secret "docker-archive:$MOSS_DIR/box.tar" "docker://$CLOSED/lib/box:one"
}
teardown_file() {
  stop_registries
  stop_engine
}
setup() {
  begin
  export HOME=$BATS_TEST_TMPDIR/home DOCKER_CONFIG=$BATS_TEST_TMPDIR/docker
  unset REGISTRY_AUTH_FILE XDG_CONFIG_HOME
  mkdir "$HOME"
  dir=$BATS_TEST_TMPDIR/context
  mkdir "$dir"
}
teardown() {
  if [ -n "${helper:-}" ]; then kill "$helper" 2>/dev/null || true; fi
  finish
}

# write LINE...: the Dockerfile of $dir.
write() { printf '%s\n' "$@" >"$dir/Dockerfile"; }

# in_pty ROWS COLS ARG...: moss with ARGs in a terminal.
in_pty() {
  local rows=$1 cols=$2
  shift 2
  shown "$rows" "$cols" timeout --foreground 60 "$moss_bin/moss" --host "unix://$MOSS_SOCK" "$@"
}

# files IMAGE: what an image's folder /c holds.
files() { moss run --rm "$1" sh -c 'cd /c && find . | sort | sed 1d' | tr '\n' ' '; }

@test "build: a folder, its names, and the same again from the cache" {
  a=$(unique a) b=$(unique b)
  write "FROM busybox" "COPY . /c" "RUN echo built >/c/new" 'CMD ["cat", "/c/new"]'
  mkdir "$dir/sub"
  echo x >"$dir/sub/file"
  run moss build -t "$a" -t "$b:v1" "$dir"
  expect status 0
  expect contains "Step 1/4 : FROM busybox" "Step 4/4 : CMD" "Successfully tagged $a:latest" "Successfully tagged $b:v1"
  expect equal "$(moss run --rm "$b:v1")" built
  expect equal "$(files "$a")" "./Dockerfile ./new ./sub ./sub/file "
  run moss build -t "$a" "$dir"
  expect status 0
  expect lacks 'Running in'
  run bash -c "cd '$dir' && '$moss_bin/moss' --host 'unix://$MOSS_SOCK' build -q ."
  expect output "$(moss inspect --format '{{.Id}}' "$a")"
  run moss build --no-cache "$dir"
  expect contains 'Running in'
}

@test "build: .dockerignore and the Dockerfile's own" {
  write "FROM busybox" "COPY . /c"
  mkdir -p "$dir/docs" "$dir/deep/er"
  touch "$dir"/{keep,skip.log,docs/a,docs/README.md,deep/er/x,deep/er/y}
  chmod 000 "$dir/docs/a" # what is left out is not read
  printf '*.log\ndocs\n!**/README.md\ndeep/*/x\nDockerfile\n' >"$dir/.dockerignore"
  moss build -q -t "$(unique x)" "$dir" >"$BATS_TEST_TMPDIR/id"
  expect equal "$(files "$(cat "$BATS_TEST_TMPDIR/id")")" "./.dockerignore ./deep ./deep/er ./deep/er/y ./docs ./docs/README.md ./keep "
  cp "$dir/Dockerfile" "$dir/other"
  printf '*\n!keep\n' >"$dir/other.dockerignore"
  run moss build -q -f "$dir/other" "$dir"
  expect equal "$(files "$output")" "./keep "
  rm "$dir/.dockerignore"
  run moss build "$dir"
  expect status 1
  expect contains "$dir/docs/a: permission denied"
}

@test "build: --file in the folder, elsewhere, and on stdin, with the same result each time" {
  write "FROM busybox" "RUN exit 1"
  printf 'FROM busybox\nCOPY . /c\n' >"$BATS_TEST_TMPDIR/elsewhere"
  touch "$dir/a"
  cd "$BATS_TEST_TMPDIR"
  first=$(moss build -q -f elsewhere context)
  expect equal "$(files "$first")" "./Dockerfile ./a "
  expect equal "$(moss build -q -f - context <elsewhere)" "$first"
  cp elsewhere context/in
  run moss build -q -f context/in context
  expect equal "$(files "$output")" "./Dockerfile ./a ./in "
  run moss build -f context/none context
  expect status 1
  expect contains "context/none: no such file or directory"
  ln -s ../elsewhere context/link
  run moss build -q -f context/link context
  expect status 0
}

@test "build: stdin: a Dockerfile, an archive plain or compressed" {
  run moss build -q - <<<$'FROM busybox\nRUN echo >/alone'
  expect status 0
  expect equal "$(moss run --rm "$output" ls /alone)" /alone
  write "FROM busybox" "COPY a /c/a"
  cp "$dir/Dockerfile" "$dir/Other"
  touch "$dir/a"
  first=$(tar -C "$dir" -c . | moss build -q -)
  for program in gzip bzip2 xz zstd; do
    expect equal "$(tar -C "$dir" -c . | $program -c | moss build -q -f Other -)" "$first"
  done
  run moss build -f x - <<<"FROM busybox"
  expect status 1
  expect contains "not an archive that could hold x"
  run moss build -f - - <<<"FROM busybox"
  expect status 125
}

@test "build: a remote archive, and what is not there" {
  write "FROM busybox" "COPY . /c"
  mkdir "$dir/app"
  printf 'FROM busybox\nCOPY app/here /c/here\n' >"$dir/app/Web"
  touch "$dir/app/here"
  www=$BATS_TEST_TMPDIR/www
  mkdir "$www"
  tar -C "$dir" -czf "$www/c.tgz" .
  (cd "$www" && exec python3 -u -m http.server --bind 127.0.0.1 0 >"$BATS_TEST_TMPDIR/www.log" 2>&1 3>&- 4>&-) &
  helper=$!
  eventually 20 file_has "$BATS_TEST_TMPDIR/www.log" 'Serving HTTP'
  port=$(grep -oE 'port [0-9]+' "$BATS_TEST_TMPDIR/www.log" | grep -oE '[0-9]+')
  run moss build -q "http://127.0.0.1:$port/c.tgz"
  expect status 0
  expect equal "$(files "$output")" "./Dockerfile ./app ./app/Web ./app/here "
  run moss build -q -f app/Web "http://127.0.0.1:$port/c.tgz"
  expect status 0
  run moss build "http://127.0.0.1:$port/nothing"
  expect status 1
  expect contains 404
  run moss build "$BATS_TEST_TMPDIR/nothing"
  expect status 1
  expect contains "nothing: no such file or directory"
}

@test "build: a git repository, its branches and folders" {
  write "FROM busybox" "COPY . /c"
  mkdir "$dir/app"
  printf 'FROM busybox\nCOPY here /c/here\n' >"$dir/app/Web"
  touch "$dir/app/here"
  git -C "$dir" -c init.defaultBranch=main init -q
  git -C "$dir" add .
  git -C "$dir" -c user.name=x -c user.email=x@example.test commit -qm one
  git -C "$dir" checkout -qb side
  touch "$dir/aside"
  git -C "$dir" add .
  git -C "$dir" -c user.name=x -c user.email=x@example.test commit -qm two
  git -C "$dir" checkout -q main
  mkdir "$BATS_TEST_TMPDIR/git"
  git clone -q --bare "$dir" "$BATS_TEST_TMPDIR/git/repo.git"
  port=$(free_port)
  git daemon --export-all --base-path="$BATS_TEST_TMPDIR/git" --listen=127.0.0.1 --port="$port" 3>&- 4>&- &
  helper=$!
  answers() { git ls-remote "git://127.0.0.1:$port/repo.git" >/dev/null 2>&1; }
  eventually 20 answers
  run moss build -q "git://127.0.0.1:$port/repo.git"
  expect status 0
  expect equal "$(files "$output")" "./Dockerfile ./app ./app/Web ./app/here "
  run moss build -q "git://127.0.0.1:$port/repo.git#side"
  expect equal "$(files "$output")" "./Dockerfile ./app ./app/Web ./app/here ./aside "
  run moss build -q -f Web "git://127.0.0.1:$port/repo.git#main:app"
  expect equal "$(files "$output")" "./here "
  run moss build "git://127.0.0.1:$port/repo.git#nothing"
  expect status 1
  expect contains nothing
  run moss build "git@127.0.0.1:repo.git"
  expect status 1
}

@test "build: exit codes are the failed command's; other failures are 1, wrong usage 125" {
  for code in 1 3 126 255; do
    write "FROM busybox" "RUN echo said; exit $code"
    run moss build --force-rm "$dir"
    expect status "$code"
    expect contains said "moss: The command '/bin/sh -c echo said; exit $code' returned a non-zero code: $code"
    run dock_build --force-rm "$dir"
    expect status "$code"
  done
  write "FROM busybox" "RUN true" "FOO"
  run moss build "$dir"
  expect status 1
  expect contains "dockerfile parse error" "line 3" "unknown instruction: FOO"
  run dock_build "$dir"
  expect status 1
  write "FROM busybox" "COPY nothing /"
  run moss build "$dir"
  expect status 1
  expect contains nothing
  run moss build
  expect status 125
  run moss build --bogus "$dir"
  expect status 125
}
dock_build() { DOCKER_BUILDKIT=0 dock build "$@"; }

@test "build: -q shows the id alone, and what went wrong; --iidfile" {
  write "FROM busybox" "RUN echo said"
  run --separate-stderr moss build -q --no-cache --iidfile "$BATS_TEST_TMPDIR/id" "$dir"
  expect status 0
  expect matches '^sha256:[0-9a-f]{64}$'
  expect equal "$(cat "$BATS_TEST_TMPDIR/id")" "$output"
  expect equal "$stderr" ""
  moss build --iidfile "$BATS_TEST_TMPDIR/id2" "$dir"
  expect equal "$(cat "$BATS_TEST_TMPDIR/id2")" "$output"
  write "FROM busybox" "RUN echo said; exit 9"
  run --separate-stderr moss build -q --force-rm --iidfile "$BATS_TEST_TMPDIR/id" "$dir"
  expect status 9
  expect output ""
  expect --in "$stderr" contains said "non-zero code: 9"
  [ ! -e "$BATS_TEST_TMPDIR/id" ]
}

@test "build: arguments, labels, targets and limits" {
  write "FROM busybox AS one" "ARG A" "ARG HANDED" "ARG KEPT=kept" "RUN echo A=\$A HANDED=\$HANDED KEPT=\$KEPT" "LABEL stage=one" "FROM one" "LABEL stage=two"
  export HANDED="on from here"
  run moss build --no-cache --build-arg A=1 --build-arg HANDED --build-arg KEPT --label by=me --target one --iidfile "$BATS_TEST_TMPDIR/id" "$dir"
  expect status 0
  expect contains "A=1 HANDED=on from here KEPT=kept"
  expect equal "$(moss inspect --format '{{.Config.Labels.stage}} {{.Config.Labels.by}}' "$(cat "$BATS_TEST_TMPDIR/id")")" "one me"
  write "FROM busybox" "RUN grep 'Max open' /proc/self/limits; df -k /dev/shm | tail -n 1; grep one.test /etc/hosts; ls /sys/class/net"
  run moss build --no-cache --ulimit nofile=321:654 --shm-size 16m --add-host one.test:10.9.8.7 --network none -m 64m --memory-swap -1 --cpu-shares 512 --security-opt no-new-privileges "$dir"
  expect status 0
  expect matches 'Max open files +321 +654'
  expect matches '^shm +16384 '
  expect matches '^10\.9\.8\.7'
  expect lacks eth0
  run moss build -m 1 "$dir"
  expect status 1
  expect contains 4MB
}

@test "build: --http-proxy hands the caller's proxies to RUN and to no image" {
  tag=$(unique proxy)
  export HTTPS_PROXY=http://proxy.test:3128 no_proxy=.test
  write "FROM busybox" "RUN env"
  run moss build --no-cache "$dir"
  expect lacks proxy.test
  run moss build --no-cache --http-proxy --build-arg NO_PROXY=mine -t "$tag" "$dir"
  expect status 0
  expect contains HTTPS_PROXY=http://proxy.test:3128 NO_PROXY=mine
  expect lacks no_proxy=.test
  run moss inspect "$tag"
  expect lacks proxy.test
  run moss history --no-trunc "$tag"
  expect lacks proxy.test
}

@test "build: secrets from files and variables reach RUN and nothing else" {
  printf s3cretfile >"$BATS_TEST_TMPDIR/secret"
  export TOKEN=s3crettoken
  write "FROM busybox" "RUN --mount=type=secret,id=a --mount=type=secret,id=TOKEN,env=T sh -c 'cat /run/secrets/a | rev; echo; echo \$T | rev'"
  run moss build --no-cache --secret "id=a,src=$BATS_TEST_TMPDIR/secret" --secret id=TOKEN --iidfile "$BATS_TEST_TMPDIR/id" "$dir"
  expect status 0
  expect contains elifterc3s nekotterc3s
  expect lacks s3cretfile s3crettoken
  moss save -o "$BATS_TEST_TMPDIR/image.tar" "$(cat "$BATS_TEST_TMPDIR/id")"
  if grep -qE 's3cret(file|token)' "$BATS_TEST_TMPDIR/image.tar" "$MOSS_DIR/mossd.log"; then fail "a secret stays"; fi
  # As large as they may be together, and larger.
  write "FROM busybox" "RUN --mount=type=secret,id=a wc -c </run/secrets/a"
  head -c 512000 /dev/urandom >"$BATS_TEST_TMPDIR/secret"
  run moss build --no-cache --secret "id=a,src=$BATS_TEST_TMPDIR/secret" "$dir"
  expect status 0
  expect matches '^512000$'
  echo >>"$BATS_TEST_TMPDIR/secret"
  run moss build --secret "id=a,src=$BATS_TEST_TMPDIR/secret" "$dir"
  expect status 125
  run moss build --secret id=a,env=NOT_SET_AT_ALL "$dir"
  expect status 125
  expect contains "NOT_SET_AT_ALL is not set"
}

@test "build: credentials that are kept are shown to the base image's registry" {
  write "FROM $CLOSED/lib/box:one"
  run moss build "$dir"
  expect status 1
  moss login -u ann --password-stdin "$CLOSED" <<<secret
  run moss build -q "$dir"
  expect status 0
  moss logout "$CLOSED"
  run moss build --pull "$dir"
  expect status 1
  moss rmi -f "$CLOSED/lib/box:one"
}

@test "build: on a terminal each step has a line with its time; stages run beside each other" {
  write "FROM busybox AS one" "RUN echo out of one; sleep 1" "FROM busybox AS two" "RUN sleep 1" "FROM one" "COPY --from=two /etc/passwd /p"
  run in_pty 30 100 build --no-cache -t "$(unique t)" "$dir"
  expect status 0
  expect matches '\[one [0-9]/[0-9]\] RUN echo out of one; sleep 1 +[1-9][0-9]*\.[0-9]s'
  expect matches '\[two [0-9]/[0-9]\] RUN sleep 1 +[1-9][0-9]*\.[0-9]s'
  expect contains '  | out of one' 'Successfully built' 'Successfully tagged'
  expect lacks 'Step 1/' ' ---> '
  run in_pty 30 100 build "$dir"
  expect matches '\[one [0-9]/[0-9]\] RUN echo out of one; sleep 1 +cached'
  # A base image on its way has lines for its layers, and leaves none.
  write "FROM $CLOSED/lib/box:one"
  moss login -u ann --password-stdin "$CLOSED" <<<secret
  run in_pty 30 100 build "$dir"
  expect status 0
  expect matches "\[1/1\] FROM $CLOSED/lib/box:one +[0-9.]+s"
  moss rmi -f "$CLOSED/lib/box:one" || true
  # All that a step wrote stays on the screen when it fails.
  write "FROM busybox" "RUN for i in 1 2 3 4 5 6 7; do echo line \$i; done; exit 3"
  run in_pty 30 100 build --force-rm "$dir"
  expect status 3
  expect contains 'FAILED' '  | line 1' '  | line 7' 'returned a non-zero code: 3'
  for way in --progress=plain -q; do
    run in_pty 30 100 build --force-rm "$way" "$dir"
    expect status 3
    expect lacks FAILED
  done
  TERM=dumb run in_pty 30 100 build "$dir"
  expect contains 'Step 1/2'
  run moss build --progress tty "$dir"
  expect status 125
}

@test "build: Ctrl-C ends the build at once and leaves nothing" {
  write "FROM busybox" "RUN echo begun; sleep 1000"
  before=$(moss ps -aq | sort)
  "$moss_bin/moss" --host "unix://$MOSS_SOCK" build --no-cache "$dir" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  client=$!
  eventually 20 file_has "$BATS_TEST_TMPDIR/out" begun
  kill -TERM "$client" # a shell in the background has its jobs ignore SIGINT
  status=0
  wait "$client" || status=$?
  expect status 143
  as_before() { [ "$(moss ps -aq | sort)" = "$before" ]; }
  eventually 10 as_before
}

@test "build: sockets are left out with a word; links, pipes, modes and hard links arrive" {
  write "FROM busybox" "COPY . /c" "RUN cd /c && [ \"\$(readlink link)\" = target ] && [ \"\$(stat -c %a run)\" = 751 ] && [ \"\$(stat -c %u:%g run)\" = 0:0 ] && cat hard1 hard2"
  ln -s target "$dir/link"
  echo text >"$dir/hard1"
  ln "$dir/hard1" "$dir/hard2"
  touch "$dir/run"
  chmod 751 "$dir/run"
  python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$dir/socket" || skip "paths are too long for a socket: set TMPDIR to a shorter one"
  run moss build --no-cache "$dir"
  expect status 0
  expect contains "socket is a socket and left out"
}

@test "builder prune: with questions, filters and a rest; system df has a row" {
  mark=$(unique mark)
  write "FROM busybox" "RUN head -c 3000000 /dev/urandom >/$mark" "RUN echo $mark"
  id=$(moss build -q "$dir")
  run moss system df
  expect matches '^Build Cache +[1-9]'
  run moss system df -v
  expect contains 'Build cache usage:' 'regular'
  run moss system df --format '{{.Type}}'
  expect line 3 'Build Cache'
  moss rmi --no-prune "$id" >/dev/null
  run moss builder prune <<<n
  expect status 1
  run moss builder prune -f --all --filter until=1h
  expect status 0
  expect output 'Total reclaimed space: 0B'
  run moss builder prune -f --all --keep-storage 100g
  expect output 'Total reclaimed space: 0B'
  run moss builder prune -af
  expect status 0
  expect contains 'Deleted build cache objects:' 'Total reclaimed space: '
  expect lacks 'space: 0B'
  run moss builder prune -f --filter bogus=x
  expect status 1
}

@test "build: completions and help" {
  run moss __complete build --progress ""
  expect contains auto plain tty
  run moss __complete build --network ""
  expect contains bridge
  run moss __complete build --cache-from busy
  expect contains busybox
  run moss build --help
  for flag in --file --tag --build-arg --target --no-cache --pull --secret --label --quiet --progress --iidfile --network --add-host --ulimit \
    --shm-size --memory --memory-swap --cpu-shares --cpuset-cpus --cache-from --platform --squash --rm --force-rm; do
    expect contains "$flag"
  done
  run moss image build --help
  expect status 0
  run moss builder build --help
  expect status 0
}
