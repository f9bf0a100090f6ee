#!/usr/bin/env bats
# The docker command line's build, with its classic builder: options, contexts, output, cache, errors.

# bats file_tags=subids

load lib/moss
load lib/registry

setup_file() {
  export DOCKER_BUILDKIT=0
  start_engine
  import_busybox
  start_registry plain
  export PLAIN=$REGISTRY
  start_registry closed --htpasswd ann:secret
  export CLOSED=$REGISTRY
}
teardown_file() {
  stop_registries
  stop_engine
}
setup() {
  begin
  name=$(unique build)
  ctx=$BATS_TEST_TMPDIR/ctx
  mkdir "$ctx"
}
teardown() {
  [ -z "${server:-}" ] || kill "$server"
  finish
  dock ps -aq | xargs -r docker -H "unix://$MOSS_SOCK" rm -f >/dev/null # of steps that failed
}

# dockerfile LINE...: the context's Dockerfile.
dockerfile() { printf '%s\n' "$@" >"$ctx/Dockerfile"; }
# build ARG...: builds the context as $name. The notice that the classic builder is old is left out.
# shellcheck disable=SC2120 # run calls it too, with arguments
build() {
  dock build -t "$name" "$@" "$ctx" 2>&1 | grep -v -e DEPRECATED -e "Install the buildx" -e "^ *https://docs" -e "^$"
  return "${PIPESTATUS[0]}"
}
# post QUERY [HEADER]: builds the context as $name by the API: options that the client has for newer versions of it only.
post() {
  tar -C "$ctx" -cf - . | curl -sS --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' ${2:+-H "$2"} \
    --data-binary @- "http://moss/build?t=$name&forcerm=1&$1"
}
built() { expect contains "Successfully tagged $name:latest"; }
not_built() {
  expect matches '"error"|"message"'
  expect lacks "Successfully"
  expect contains "$@"
}
id_of() { dock image inspect --format '{{.Id}}' "$1"; }
config() { dock image inspect --format "{{json .Config.$1}}" "${2:-$name}"; }
says() { dock run --rm --network none "$name" "$@"; }
containers() { dock ps -aq | wc -l; }
no_containers() { [ "$(containers)" = 0 ]; }

# serve_files DIR: serves a folder by HTTP until the test's end; FILES_URL says where.
serve_files() {
  python3 -u -m http.server --bind 127.0.0.1 --directory "$1" 0 >"$BATS_TEST_TMPDIR/web" 2>&1 3>&- 4>&- &
  server=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/web" 'port '
  FILES_URL=http://127.0.0.1:$(sed -nE 's/.* port ([0-9]+).*/\1/p' "$BATS_TEST_TMPDIR/web")
}

@test "the lines of a build, and of the same one again" {
  dockerfile 'FROM busybox' 'ENV A=b' 'RUN echo from the step; echo and an error >&2; echo made >/made' 'COPY word /word' 'CMD ["cat", "/word"]'
  echo word >"$ctx/word"
  run build
  expect status 0
  expect matches '^Sending build context to Docker daemon .*kB'
  expect matches '^Step 1/5 : FROM busybox$'
  expect matches '^ ---> [0-9a-f]{12}$'
  expect matches '^Step 2/5 : ENV A=b$'
  expect matches '^Step 3/5 : RUN echo from the step'
  expect matches '^ ---> Running in [0-9a-f]{12}$'
  # Either stream may come first. What comes after the errors ends their colour.
  expect matches $'^(\e\\[0m)?from the step$'
  expect matches $'^\e\\[91mand an error$'
  expect matches $'^(\e\\[0m)?(Removing intermediate container| ---> Removed intermediate container) [0-9a-f]{12}$'
  expect matches '^Step 5/5 : CMD \["cat", "/word"\]$'
  expect matches '^Successfully built [0-9a-f]{12}$'
  expect matches "^Successfully tagged $name:latest$"
  expect lacks "Using cache"
  id=$(id_of "$name")
  [[ $id == sha256:$(sed -n 's/^Successfully built //p' <<<"$output")* ]] || fail "another image is built: $id"
  run dock run --rm "$name"
  expect output word
  run build
  expect status 0
  expect equal "$(grep -c '^ ---> Using cache$' <<<"$output")" 4
  expect lacks "Running in"
  expect equal "$(id_of "$name")" "$id"
  expect equal "$(containers)" 0
}

@test "a command that fails: its output, its code, what is left" {
  dockerfile 'FROM busybox' 'RUN echo before' 'RUN echo says why; exit 3' 'RUN echo never'
  run build --force-rm
  expect status 3
  expect contains "says why" "The command '/bin/sh -c echo says why; exit 3' returned a non-zero code: 3"
  expect lacks "Step 4/4" "Successfully"
  run id_of "$name"
  expect status 1
  expect equal "$(containers)" 0
  # Without --force-rm the failed step's container can be looked at.
  run build
  expect status 3
  expect equal "$(containers)" 1
  expect equal "$(dock ps -a --format '{{.Status}}' | cut -d' ' -f1,2)" "Exited (3)"
  dock rm "$(dock ps -aq)"
  dockerfile 'FROM busybox' 'RUN echo kept'
  run build --rm=false
  expect status 0
  expect equal "$(containers)" 1
  expect equal "$(dock inspect --format '{{.Config.Cmd}}' "$(dock ps -aq)")" "[/bin/sh -c echo kept]"
  dock rm "$(dock ps -aq)"
  run dock run --rm "$name" true
  expect status 0
  dockerfile 'FROM busybox' 'RUN ["/no/such/program"]'
  run build --force-rm
  expect status 127
  expect contains "/no/such/program"
  expect equal "$(containers)" 0
  dockerfile 'FROM busybox' "RUN sh -c 'kill -9 \$\$'; exit \$?"
  run build --force-rm
  expect status 137
}

@test "-q, --iidfile and many names" {
  dockerfile 'FROM busybox' 'RUN echo noise'
  run --separate-stderr dock build -q --iidfile "$BATS_TEST_TMPDIR/id" -t "$name:one" -t "$name:two" -t "$PLAIN/$name:three" "$ctx"
  expect status 0
  expect matches '^sha256:[0-9a-f]{64}$'
  expect equal "${#lines[@]}" 1
  expect equal "$(cat "$BATS_TEST_TMPDIR/id")" "$output"
  for ref in "$name:one" "$name:two" "$PLAIN/$name:three"; do
    expect equal "$(id_of "$ref")" "$output"
  done
  run dock build -q -t 'Not A Name' "$ctx"
  expect status 125
  # A name moves to the new image; the old one stays without.
  old=$(id_of "$name:one")
  dockerfile 'FROM busybox' 'LABEL newer=yes'
  dock build -q -t "$name:one" "$ctx"
  expect equal "$(dock image inspect --format '{{json .RepoTags}}' "$old" | jq -c 'sort')" "$(jq -cn '$ARGS.positional | sort' --args "$PLAIN/$name:three" "$name:two")"
  run --separate-stderr dock build -q "$ctx"
  expect output "$(id_of "$name:one")"
}

@test "--build-arg and --label" {
  dockerfile 'FROM busybox' 'ARG ONE=1' 'ARG TWO' 'ARG THREE=3' 'RUN echo "$ONE $TWO $THREE $UNKNOWN" >/args' 'LABEL a=file'
  TWO=environment run build --build-arg ONE=given --build-arg TWO --build-arg THREE --build-arg UNKNOWN=x --label a=option --label b=$'two\nlines'
  expect status 0
  expect contains "[Warning] One or more build-args [UNKNOWN] were not consumed"
  expect equal "$(says cat /args)" "given environment 3 "
  expect equal "$(config Labels | jq -c .)" '{"a":"option","b":"two\nlines"}'
  # Another value: the steps before its ARG hold, those that can see it do not.
  run build --build-arg ONE=other
  expect equal "$(says cat /args)" "other  3 "
}

@test "--target" {
  dockerfile 'FROM busybox AS first' 'RUN echo 1 >/stage' 'FROM first AS second' 'RUN echo 2 >/stage' 'FROM busybox' 'RUN exit 1'
  run build --target second
  expect status 0
  expect lacks "exit 1"
  expect equal "$(says cat /stage)" 2
  run build --target 0
  expect status 0
  expect equal "$(says cat /stage)" 1
  run build --target third
  expect status 1
  expect contains "third"
}

@test "limits, hosts and the network of the steps" {
  dockerfile 'FROM busybox' 'RUN cat /etc/hosts >/hosts; df -k /dev/shm | tail -n 1 >/shm; ulimit -n >/files; grep -c : /proc/net/dev >/net'
  run build --add-host db:10.1.2.3 --shm-size 8m --ulimit nofile=123:456
  expect status 0
  expect --in "$(says cat /hosts)" matches '^10\.1\.2\.3[[:space:]]+db'
  expect equal "$(says awk '{print $2}' /shm)" 8192
  expect equal "$(says cat /files)" 123
  [ "$(says cat /net)" -gt 1 ] || fail "there is no network"
  run post "networkmode=none&nocache=1"
  built
  expect equal "$(says cat /net)" 1
  run post networkmode=host
  not_built host
  run post "networkmode=no-such-net&nocache=1"
  not_built no-such-net
  for option in --isolation=hyperv --memory=1k --cpuset-cpus=x --ulimit=nofile=9:1; do
    run build --no-cache "$option"
    [ "$status" -ne 0 ] || fail "$option is taken: $output"
  done
}

@test "the network of a step is the containers', and names are known there" {
  net=$(unique net)
  dock network create "$net"
  web=$(dock run -d --network "$net" --name "$name" busybox httpd -f -h /var/www)
  eventually 10 dock exec "$name" wget -qO- http://127.0.0.1/ # it runs before it listens
  dockerfile 'FROM busybox' "RUN timeout 60 wget -qO /page http://$name/"
  run post "networkmode=$net"
  built
  expect equal "$(says cat /page)" "hello from busybox"
  run post nocache=1
  not_built wget
  dockerfile 'FROM busybox' "RUN timeout 60 wget -qO /page http://127.0.0.1/"
  run post "nocache=1&networkmode=container:$web"
  built
  # The host's own loopback is not theirs.
  serve_files "$BATS_TEST_TMPDIR"
  dockerfile 'FROM busybox' "RUN timeout 60 wget -qO /dev/null $FILES_URL/"
  run build --force-rm
  expect status 1
  dock rm -f "$web"
  dock network rm "$net"
}

@test "secrets come by a header and are nowhere afterwards" {
  word=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  uid=0
  ! has_subids || uid=33
  dockerfile 'FROM busybox' \
    'RUN --mount=type=secret,id=one,required=true sha256sum </run/secrets/one >/file; stat -c "%a %u" /run/secrets/one >/mode' \
    'RUN --mount=type=secret,id=one,env=WORD echo -n "$WORD" | sha256sum >/env' \
    "RUN --mount=type=secret,id=one,target=/root/.token,mode=0440,uid=$uid stat -c '%a %u' /root/.token >>/mode" \
    'RUN test -z "$WORD" && test ! -e /root/.token && test ! -e /run/secrets/one'
  header="X-Build-Secrets: $(printf '{"one":"%s"}' "$(printf %s "$word" | base64 -w0)" | base64 -w0 | tr '+/' '-_')"
  run post nocache=1 "$header"
  built
  sum=$(printf %s "$word" | sha256sum)
  expect equal "$(says cat /file)" "$sum"
  expect equal "$(says cat /env)" "$sum"
  expect equal "$(says cat /mode | xargs)" "400 0 440 $uid"
  for ref in $(dock images -aq); do
    expect --in "$(dock image inspect "$ref")$(dock history --no-trunc "$ref")" lacks "$word"
  done
  if grep -rlF -e "$word" "$MOSS_DATA/root" "$MOSS_DIR" 2>/dev/null | grep -v '/fuse/'; then fail "the secret is in a file"; fi
  run post nocache=1
  not_built one
}

@test ".dockerignore and --compress" {
  dockerfile 'FROM busybox' 'COPY . /src' 'RUN find /src | sort >/list'
  mkdir -p "$ctx/keep/cache" "$ctx/drop"
  touch "$ctx/keep/a" "$ctx/keep/cache/b" "$ctx/drop/c" "$ctx/d.log" "$ctx/e.log"
  printf '%s\n' 'drop' '**/cache' '*.log' '!e.log' 'Dockerfile' '.dockerignore' >"$ctx/.dockerignore"
  run build --compress
  expect status 0
  expect equal "$(says cat /list | xargs)" "/src /src/e.log /src/keep /src/keep/a"
  echo drop/c >>"$ctx/.dockerignore"
  run build
  expect contains "Using cache"
}

@test "contexts and Dockerfiles from standard input" {
  dockerfile 'FROM busybox' 'COPY word /word'
  echo word >"$ctx/word"
  tar -C "$ctx" -cf "$BATS_TEST_TMPDIR/plain" .
  for kind in plain gzip bzip2 xz zstd; do
    [ $kind = plain ] || $kind -c "$BATS_TEST_TMPDIR/plain" >"$BATS_TEST_TMPDIR/$kind"
    if [ $kind = zstd ]; then continue; fi # this client takes it for a Dockerfile
    run dock build -t "$name:$kind" - <"$BATS_TEST_TMPDIR/$kind"
    expect status 0
    expect equal "$(id_of "$name:$kind")" "$(id_of "$name:plain")"
  done
  run curl -sS --unix-socket "$MOSS_SOCK" -H 'Content-Type: application/x-tar' --data-binary @"$BATS_TEST_TMPDIR/zstd" "http://moss/build?q=1"
  expect contains "$(id_of "$name:plain")"
  run dock build -t "$name" - < <(printf 'FROM busybox\nRUN echo alone >/alone\n')
  expect status 0
  expect equal "$(says cat /alone)" alone
  run dock build -t "$name" -f - "$ctx" < <(printf 'FROM busybox\nCOPY word /other\n')
  expect status 0
  expect equal "$(says cat /other)" word
  printf 'FROM busybox\nCOPY word /outside\n' >"$BATS_TEST_TMPDIR/Else"
  run dock build -t "$name" -f "$BATS_TEST_TMPDIR/Else" "$ctx"
  expect status 0
  expect equal "$(says cat /outside)" word
  run dock build - </dev/null
  expect status 1
  run dock build - < <(head -c 3000 /dev/urandom)
  expect status 1
}

@test "contexts from a server and from git" {
  dockerfile 'FROM busybox' 'COPY word /word'
  echo served >"$ctx/word"
  mkdir "$BATS_TEST_TMPDIR/web.d"
  tar -C "$ctx" -czf "$BATS_TEST_TMPDIR/web.d/context.tar.gz" .
  printf 'FROM busybox\nRUN echo single >/single\n' >"$BATS_TEST_TMPDIR/web.d/Dockerfile"
  git=(git -c user.name=a -c user.email=a@b -C "$BATS_TEST_TMPDIR/web.d/repo")
  mkdir -p "$BATS_TEST_TMPDIR/web.d/repo/sub"
  "${git[@]}" init -q -b main
  cp "$ctx"/* "$BATS_TEST_TMPDIR/web.d/repo/sub/"
  "${git[@]}" add .
  "${git[@]}" commit -qm one
  "${git[@]}" update-server-info
  serve_files "$BATS_TEST_TMPDIR/web.d"
  # The client fetches these itself; the engine does when its API is asked.
  run dock build -t "$name" "$FILES_URL/context.tar.gz"
  expect status 0
  expect equal "$(says cat /word)" served
  run dock build -t "$name" "$FILES_URL/nothing.tar.gz"
  expect status 1
  expect contains "404"
  for remote in context.tar.gz Dockerfile; do
    name=$(unique remote)
    run curl -sS --unix-socket "$MOSS_SOCK" -X POST "http://moss/build?t=$name&remote=$FILES_URL/$remote"
    expect contains "Successfully tagged $name:latest"
    case $remote in
      Dockerfile) expect equal "$(says cat /single)" single ;;
      *) expect equal "$(says cat /word)" served ;;
    esac
  done
  name=$(unique git)
  run curl -sS --unix-socket "$MOSS_SOCK" -X POST "http://moss/build?t=$name" -G --data-urlencode "remote=$FILES_URL/repo/.git#main:sub"
  expect contains "Successfully tagged $name:latest"
  expect equal "$(says cat /word)" served
  for remote in nothing.tar "repo/.git%23no-such-branch" "repo/.git%23main:no/such/folder"; do
    run curl -sS --unix-socket "$MOSS_SOCK" -X POST "http://moss/build?t=never&remote=$FILES_URL/$remote"
    expect matches 'error|message'
    expect lacks "Successfully"
  done
  run curl -sS --unix-socket "$MOSS_SOCK" -w '%{http_code}' -X POST "http://moss/build?t=never&remote=file:///etc/passwd"
  expect lacks "root:"
  expect lacks "Successfully"
}

@test "ADD of a git repository: a folder of it, all of it with .git, and a branch that moves" {
  local repo=$BATS_TEST_TMPDIR/web.d/app.git
  mkdir -p "$repo/sub"
  git=(git -c user.name=a -c user.email=a@b -C "$repo")
  "${git[@]}" init -q -b main
  echo one | tee "$repo/sub/word" >"$repo/top"
  "${git[@]}" add .
  "${git[@]}" commit -qm one
  "${git[@]}" update-server-info
  serve_files "$BATS_TEST_TMPDIR/web.d"
  dockerfile 'FROM busybox' "ADD $FILES_URL/app.git/.git#main:sub /part/" "ADD --keep-git-dir=true $FILES_URL/app.git/.git#main /whole/"
  run build
  expect status 0
  expect equal "$(says sh -c 'cat /part/word /whole/top; ls -A /part; ls -d /whole/.git')" $'one\none\nword\n/whole/.git'
  echo two >"$repo/sub/word"
  "${git[@]}" commit -qam two
  "${git[@]}" update-server-info
  run build # a name that stands for another commit now
  expect status 0
  expect equal "$(says cat /part/word)" two
  dockerfile 'FROM busybox' "ADD $FILES_URL/app.git/.git#gone /part/"
  run build
  expect status 1
  expect contains gone
}

@test "the cache: what counts and what does not" {
  # Its own word, so that no other test has made these steps.
  dockerfile 'FROM busybox' "RUN echo $name >/one" 'COPY word /word' 'RUN cat /word >/two'
  echo 1 >"$ctx/word"
  build >/dev/null
  id=$(id_of "$name")
  touch -d 2001-01-01 "$ctx/word"
  run build
  expect lacks "Running in"
  expect equal "$(id_of "$name")" "$id"
  chmod 0600 "$ctx/word"
  run build
  expect equal "$(grep -c 'Using cache' <<<"$output"):$(grep -c 'Running in' <<<"$output")" 1:1
  chmod 0644 "$ctx/word"
  echo 2 >"$ctx/word"
  run build
  expect equal "$(grep -c 'Using cache' <<<"$output"):$(grep -c 'Running in' <<<"$output")" 1:1
  expect equal "$(says cat /two)" 2
  echo unused >"$ctx/other"
  run build
  expect lacks "Running in"
  run build --no-cache
  expect lacks "Using cache"
  expect equal "$(grep -c 'Running in' <<<"$output")" 2
  # The engine ends and comes again.
  halt_engine
  spawn_engine
  run build
  expect status 0
  expect lacks "Running in"
  # The image goes; its steps with it.
  dock rmi -f "$name" "$id" >/dev/null
  dock builder prune -af >/dev/null 2>&1 || moss builder prune -af
  run build
  expect equal "$(grep -c 'Running in' <<<"$output")" 2
}

@test "steps are hidden, history shows them, rmi takes them along" {
  dockerfile 'FROM busybox' "RUN echo $name >/one" 'ENV A=b'
  before=$(dock images -q | sort)
  build >/dev/null
  expect equal "$(dock images -q | sort | comm -13 - <(echo "$before") | wc -l)" 0
  expect equal "$(dock images -q | sort -u | comm -13 <(echo "$before" | sort -u) - | wc -l)" 1
  run dock history --no-trunc --format '{{.CreatedBy}}' "$name"
  expect line 0 "/bin/sh -c #(nop)  ENV A=b"
  expect line 1 "/bin/sh -c echo $name >/one"
  all=$(dock images -aq | wc -l)
  dock rmi "$name" >/dev/null
  [ "$(dock images -aq | wc -l)" -lt "$all" ] || fail "the steps are still there"
}

@test "--cache-from an image of a registry" {
  dockerfile 'FROM busybox' "RUN echo $name \$(date +%N) >/one" 'RUN echo two >/two'
  dock build -t "$PLAIN/$name" "$ctx"
  dock push -q "$PLAIN/$name"
  one=$(dock run --rm "$PLAIN/$name" cat /one)
  dock rmi "$PLAIN/$name" >/dev/null
  dock builder prune -af >/dev/null 2>&1 || moss builder prune -af
  dock pull -q "$PLAIN/$name"
  dockerfile 'FROM busybox' "RUN echo $name \$(date +%N) >/one" 'RUN echo other >/two'
  run build --cache-from "$PLAIN/$name"
  expect status 0
  expect equal "$(grep -c 'Using cache' <<<"$output"):$(grep -c 'Running in' <<<"$output")" 1:1
  expect equal "$(says cat /one)" "$one"
  expect equal "$(says cat /two)" other
}

@test "FROM a registry: --pull, and a closed one" {
  dock tag busybox "$PLAIN/$name"
  dock push -q "$PLAIN/$name"
  dock rmi "$PLAIN/$name"
  dockerfile "FROM $PLAIN/$name" 'RUN echo ran >/ran'
  run build
  expect status 0
  # Another image gets the name over there; it is looked for with --pull only.
  put_image "$PLAIN/$name:latest" other
  run build
  expect lacks "Running in"
  dockerfile "FROM $PLAIN/$name" 'COPY Dockerfile /'
  run build --pull
  expect status 0
  expect equal "$(config Cmd)" '["/word"]'
  dock tag busybox "$CLOSED/$name"
  dock login -u ann --password-stdin "$CLOSED" <<<secret
  dock push -q "$CLOSED/$name"
  dock rmi "$CLOSED/$name"
  dockerfile "FROM busybox" "COPY --from=$CLOSED/$name /etc/passwd /passwd"
  run build
  expect status 0
  dock logout "$CLOSED"
  dock rmi -f "$CLOSED/$name"
  run build --no-cache
  expect status 1
  expect contains "$CLOSED/$name"
}

@test "proxies of the client's settings are build arguments, and not kept" {
  mkdir "$BATS_TEST_TMPDIR/config"
  echo '{"proxies": {"default": {"httpProxy": "http://127.0.0.1:9", "noProxy": "*.example.org"}}}' >"$BATS_TEST_TMPDIR/config/config.json"
  dockerfile 'FROM busybox' 'RUN echo "$HTTP_PROXY $http_proxy $no_proxy" >/proxies'
  DOCKER_HOST=unix://$MOSS_SOCK DOCKER_CONFIG=$BATS_TEST_TMPDIR/config timeout 300 docker build -t "$name" "$ctx"
  expect equal "$(dock run --rm --network none "$name" cat /proxies)" "http://127.0.0.1:9 http://127.0.0.1:9 *.example.org"
  expect --in "$(dock image inspect "$name")" lacks 127.0.0.1:9
  expect --in "$(dock history --no-trunc "$name")" lacks 127.0.0.1:9
}

@test "a Dockerfile that does not parse: said before anything runs" {
  while IFS='|' read -r content words; do
    printf '%b' "$content" >"$ctx/Dockerfile"
    run build
    expect status 1
    expect contains "$words"
    expect lacks "Running in"
  done <<'TABLE'
FROM busybox\nRUN echo ran\nFOO bar\n|line 3
FROM busybox\nFOO bar\n|unknown instruction: FOO
RUN echo hello\n|no build stage in current context
FROM\n|FROM requires either one or three arguments
FROM busybox\nCOPY one\n|COPY requires at least two arguments
FROM busybox\nENV\n|ENV requires at least one argument
FROM busybox\nCOPY --from=later a b\nFROM busybox AS later\n|later
FROM busybox\nCOPY --unknown=x a b\n|unknown flag
FROM busybox\nHEALTHCHECK --retries=x CMD true\n|retries
FROM busybox\nEXPOSE port\n|port
# syntax=example.org/other/frontend\nFROM busybox\n|example.org/other/frontend
FROM busybox\nRUN --mount=type=other,target=/x true\n|other
FROM busybox\nRUN <<EOF\necho\n|EOF
TABLE
  : >"$ctx/Dockerfile"
  run build
  expect status 1
  expect contains "cannot be empty"
  rm "$ctx/Dockerfile"
  touch "$ctx/other"
  run build
  expect status 1
  expect contains "Dockerfile"
  expect equal "$(containers)" 0
}

@test "files that are not in the context" {
  ln -s /etc/passwd "$ctx/absolute"
  ln -s ../../../../../etc/passwd "$ctx/climbs"
  ln -s . "$ctx/loop"
  ln -s knot "$ctx/knot"
  echo ignored >"$ctx/ignored"
  echo ignored >"$ctx/.dockerignore"
  for source in missing absolute climbs ../../etc/passwd /../etc/passwd knot ignored loop/missing; do
    dockerfile 'FROM busybox' "COPY $source /copied"
    run build
    if [ "$status" = 0 ]; then
      # A name that begins at the context's top is a file of the context, or none.
      expect --in "$(says cat /copied)" lacks "$(head -n 1 /etc/passwd)"
      fail "COPY $source is taken: $output"
    fi
    expect matches "COPY failed: |not found|no source files|forbidden|outside|too many"
  done
  dockerfile 'FROM busybox' 'COPY miss* /copied' 'RUN test ! -e /copied'
  run build
  expect status 0
  expect contains "[Warning]" "miss*" # the pattern may fit nothing, as with BuildKit
  dockerfile 'FROM busybox' 'COPY --from=nothing-of-this-name /x /y'
  run build
  expect status 1
  expect contains "nothing-of-this-name"
  dockerfile 'FROM no-such-image-anywhere.localhost:1/x'
  run build
  expect status 1
  dockerfile 'FROM busybox' 'COPY --chown=nobody-of-this-name Dockerfile /x'
  run build
  expect status 1
  expect contains "nobody-of-this-name"
}

@test "who hangs up stops the build" {
  dockerfile 'FROM busybox' 'RUN echo begun; exec sleep 1000'
  DOCKER_HOST=unix://$MOSS_SOCK docker build -t "$name" "$ctx" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  client=$!
  eventually 20 grep -qx begun "$BATS_TEST_TMPDIR/out" # its output: the line of the step comes before there is a container
  expect equal "$(containers)" 1
  kill -KILL $client
  wait $client || true
  eventually 10 no_containers
  run id_of "$name"
  expect status 1
}

@test "two of the same at once: one works, both get the image" {
  dockerfile 'FROM busybox' "RUN echo $name; sleep 1; date +%s%N >/when" 'RUN cat /when'
  dock build -q -t "$name:1" "$ctx" >"$BATS_TEST_TMPDIR/1" 2>&1 3>&- &
  local other=$!
  dock build -q -t "$name:2" "$ctx"
  wait $other
  expect equal "$(id_of "$name:1")" "$(id_of "$name:2")"
}

@test "stages that need not wait for each other do not" {
  # Each of them ends only when the other has begun.
  meet() { echo "RUN --mount=type=cache,id=$name,target=/c touch /c/$1; until test -e /c/$2; do sleep 0.05; done; echo met $1"; }
  dockerfile 'FROM busybox AS a' "$(meet a b)" 'FROM busybox AS b' "$(meet b a)" \
    'FROM busybox' 'COPY --from=a /etc/passwd /a' 'COPY --from=b /etc/passwd /b'
  run build
  expect status 0
  # Their lines come in the order of the file all the same.
  expect equal "$(sed -n 's/^met //p' <<<"$output" | xargs)" "a b"
}
