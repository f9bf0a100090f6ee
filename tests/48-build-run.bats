#!/usr/bin/env bats
# bats file_tags=nosub
# RUN of builds: mounts, networks, limits, users, exit codes, secrets, hang-ups and kills.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() {
  finish
  containers | xargs -r -n 1 "$moss_bin/moss" --host "unix://$MOSS_SOCK" rm -f >/dev/null # of commands that failed
}

# context NAME: makes a folder with the Dockerfile on stdin and puts its path into $dir.
context() {
  dir=$BATS_TEST_TMPDIR/$1
  mkdir -p "$dir"
  cat >"$dir/Dockerfile"
}

# build DIR [QUERY [CURL_ARG...]]: builds a folder. What the stream says goes to stdout; for an error the last line is
# "error CODE MESSAGE" and the status 1. An answer before the stream has its status in place of the code. The colours of errors
# are left out, unless colours is set: either stream may come first, and their end would stand before a line of the other.
build() {
  local folder=$1 query=${2-} answer status
  shift
  [ $# = 0 ] || shift
  answer=$(tar -C "$folder" -c . | curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' \
    "$@" --data-binary @- -w '\n%{http_code}' "http://moss/build?$query") || return
  status=${answer##*$'\n'}
  answer=${answer%$'\n'*}
  if [ "$status" != 200 ]; then
    echo "error $status $(jq -r .message <<<"$answer")"
    return 1
  fi
  jq -j --arg keep "${colours-}" '.stream // empty | if $keep == "" then gsub("\u001b\\[[0-9]+m"; "") else . end' <<<"$answer"
  if jq -e 'select(.error)' >/dev/null <<<"$answer"; then
    jq -r 'select(.error) | "error \(.errorDetail.code) \(.errorDetail.message)"' <<<"$answer"
    return 1
  fi
}

# secrets ID=VALUE...: the header that carries secrets.
secrets() {
  local pair args=()
  for pair in "$@"; do args+=(--arg "${pair%%=*}" "$(printf %s "${pair#*=}" | base64 -w0)"); done
  echo "X-Build-Secrets: $(jq -cn "${args[@]}" '$ARGS.named' | base64 -w0 | tr '+/' '-_')"
}

# containers: the ids of all of them. layers: the folders of the driver. leftovers: what runs of builds keep outside of both.
containers() { answer_of '/containers/json?all=1' -r '.[].Id'; }
layers() { find "$MOSS_DATA/root" -maxdepth 2 \( -path '*overlay/*' -o -path '*vfs/dir/*' \) -not -name l -printf '%P\n' 2>/dev/null | sort; }
leftovers() {
  find "$MOSS_DIR/run/build" "$MOSS_DATA/root/build/mounts" "$MOSS_DATA/root/containers" "$MOSS_DIR/run/tasks" -mindepth 1 2>/dev/null || true
}
has_containers() { [ -n "$(ls "$MOSS_DATA/root/containers")" ]; }
nothing_left() { [ -z "$(containers)$(leftovers)" ]; }

# holding TEXT DIR...: the files that hold a text. Those of sub-ids are read with the ids that made them.
holding() {
  local text=$1 as=()
  shift
  if has_subids; then as=(unshare --user --map-root-user --map-auto); fi
  "${as[@]}" grep -rlF --devices=skip -- "$text" "$@" 2>/dev/null || true
}
says() { pgrep -fx "$1" >/dev/null; }
silent() { ! pgrep -fx "$1" >/dev/null; }

@test "a command gets the image's user, folder, environment, shell and build arguments, and nothing else of it" {
  name=$(unique run) user=www ids=33:33 home=/var/www
  has_subids || user=root ids=0:0 home=/root # only root exists
  context base <<EOF
FROM busybox
ENV FROM_IMAGE=yes OWN=image
USER $user
WORKDIR /var/www
ENTRYPOINT ["/bin/false"]
HEALTHCHECK CMD /bin/false
VOLUME /data
EOF
  run build "$dir" "t=$name-base"
  expect status 0
  context top <<EOF
FROM $name-base
ARG ONE=default
ARG OWN=argument
RUN echo "user \$(id -u):\$(id -g) in \$PWD with \$FROM_IMAGE \$ONE \$OWN \$HOME"
RUN test ! -t 0 && test -z "\$(cat)" && echo "no input"
SHELL ["/bin/sh", "-ec"]
RUN false; true
EOF
  run build "$dir" "nocache=1&buildargs=%7B%22ONE%22%3A%22two%22%7D"
  expect status 1
  expect contains "user $ids in /var/www with yes two image $home" 'no input' "error 1 The command '/bin/sh -ec false; true' returned a non-zero code: 1"
  run api GET '/volumes'
  expect lacks '"Name"'
  context volume <<EOF
FROM $name-base
USER root
RUN mkdir /data /fresh && echo kept >/data/file
WORKDIR /fresh/deep
USER $user
RUN cat /data/file && pwd
EOF
  run build "$dir" nocache=1
  expect status 0
  expect contains kept /fresh/deep
  if ! has_subids; then
    context stranger <<<"FROM busybox
USER www
RUN true"
    run build "$dir" nocache=1
    expect status 1
    expect contains 'user 33:33 is not supported: the user has no subordinate ids'
  fi
}

@test "both streams come, and the code that a command ends with" {
  context streams <<'EOF'
FROM busybox
RUN echo "to ""stdout"; echo "to ""stderr" >&2
RUN i=0; while [ $i -lt 2000 ]; do echo "line $i of many"; i=$((i+1)); done
RUN printf unended; exit 3
EOF
  colours=yes run build "$dir" nocache=1
  expect status 1
  expect contains 'to stdout' $'\e[91mto stderr' 'line 0 of many' 'line 1999 of many' 'unended'
  expect matches "error 3 The command '/bin/sh -c printf unended; exit 3' returned a non-zero code: 3"
  for case in '127|["/no/such/program", "x"]|/no/such/program' '126|["/etc/passwd"]|/etc/passwd' '137|exit 137|137'; do
    IFS='|' read -r code command word <<<"$case"
    context "code$code" <<<"FROM busybox
RUN $command"
    run build "$dir" 'nocache=1&forcerm=1'
    expect status 1
    expect matches "^error $code .*$word"
  done
}

@test "bind mounts show the context, stages and images, and keep nothing that is written there" {
  name=$(unique bind)
  context bind <<'EOF'
FROM busybox AS other
RUN mkdir -p /out/sub && echo made >/out/sub/file

FROM busybox
RUN --mount=target=/ctx cat /ctx/dir/a && if echo x >/ctx/dir/a 2>/dev/null; then echo "was ""writable"; fi
RUN --mount=target=/ctx,rw echo changed >/ctx/dir/a && cat /ctx/dir/a
RUN --mount=target=/ctx cat /ctx/dir/a
WORKDIR /w
RUN --mount=source=dir/a,target=rel/one cat /w/rel/one
RUN --mount=from=other,source=/out,target=/o cat /o/sub/file
RUN --mount=from=other,source=/out,target=/o,rw echo "in the ""stage" >/o/sub/file && cat /o/sub/file
RUN --mount=from=busybox,target=/b /b/bin/busybox echo "from ""an image"
RUN --mount=from=other,source=/out,target=/new/deep/o,rw test -f /new/deep/o/sub/file
EOF
  mkdir -p "$dir/dir"
  echo "in a" >"$dir/dir/a"
  run build "$dir" "nocache=1&t=$name"
  expect status 0
  expect contains 'in a' changed made 'in the stage' 'from an image'
  expect lacks 'was writable'
  [ "$(grep -c '^in a$' <<<"$output")" = 3 ] || fail "the context changed:" "$output"
  run moss run --rm "$name" ls -a / /w
  expect lacks ctx new
  run moss run --rm "$name" ls -a /w
  expect lacks rel
  context missing <<<'FROM busybox
RUN --mount=source=none,target=/ctx true'
  run build "$dir"
  expect status 1
  expect contains none
  context climbs <<<'FROM busybox
RUN --mount=source=../../../etc,target=/ctx ls /ctx; echo "in ""it"'
  run build "$dir"
  expect lacks 'shadow'
  run leftovers
  expect output ''
}

@test "tmpfs mounts are in memory, as large as they are asked to be, and empty afterwards" {
  name=$(unique tmpfs)
  context tmpfs <<'EOF'
FROM busybox
RUN --mount=type=tmpfs,target=/scratch,size=1m grep ' /scratch tmpfs' /proc/mounts && if head -c 2000000 /dev/zero >/scratch/f 2>/dev/null; then echo "was ""larger"; fi
RUN --mount=type=tmpfs,target=/tmp echo x >/tmp/file
RUN echo "tmp has: $(ls /tmp)." && test ! -e /scratch
EOF
  run build "$dir" "nocache=1&t=$name"
  expect status 0
  expect contains 'size=1024k' 'tmp has: .'
  expect lacks 'was larger'
}

@test "caches stay between builds, by their ids, and are in no image" {
  name=$(unique cache)
  context cache <<EOF
FROM busybox
RUN --mount=type=cache,target=/c,id=$name echo "before: \$(ls /c)." && echo x >>/c/first && wc -l </c/first
RUN --mount=type=cache,target=/other/place,id=$name ls /other/place
RUN --mount=type=cache,target=/c,id=$name-mode,mode=0700,uid=0 stat -c 'mode %a' /c
RUN --mount=type=cache,target=/c,id=$name-seed,from=busybox,source=/var/www cat /c/index.html
RUN test ! -e /c && test ! -e /other && echo "not ""here"
EOF
  run build "$dir" "nocache=1"
  expect status 0
  expect contains 'before: .' 'mode 700' 'hello from busybox' 'not here'
  run build "$dir" "nocache=1"
  expect status 0
  expect contains 'before: first.'
  expect matches '^2$'
  old=$(inner_pid)
  kill -HUP "$MOSSD_PID"
  eventually 20 another_engine "$old"
  run build "$dir" "nocache=1"
  expect matches '^3$'
}

@test "of locked caches one build at a time has one, private ones are apart" {
  name=$(unique sharing)
  for sharing in locked private; do
    context $sharing <<EOF
FROM busybox AS one
RUN --mount=type=cache,target=/c,id=$name-$sharing,sharing=$sharing if test -e /c/taken; then echo "both ""at once"; fi; touch /c/taken; sleep 0.3; rm /c/taken
FROM busybox AS two
RUN --mount=type=cache,target=/c,id=$name-$sharing,sharing=$sharing if test -e /c/taken; then echo "both ""at once"; fi; touch /c/taken; sleep 0.4; rm /c/taken
FROM busybox
COPY --from=one /bin/true /one
COPY --from=two /bin/true /two
EOF
    run build "$dir" nocache=1
    expect status 0
    expect lacks 'both at once'
  done
  context shared <<EOF
FROM busybox AS one
RUN --mount=type=cache,target=/c,id=$name touch /c/1; while ! test -e /c/2; do sleep 0.02; done
FROM busybox AS two
RUN --mount=type=cache,target=/c,id=$name touch /c/2; while ! test -e /c/1; do sleep 0.02; done
FROM busybox
COPY --from=one /bin/true /one
COPY --from=two /bin/true /two
EOF
  run build "$dir" nocache=1
  expect status 0
}

@test "secrets are files or variables of one command, and nowhere else" {
  name=$(unique secret)
  secret=hidden-$(unique value)
  # What a command prints is the Dockerfile's doing: this one prints no secret.
  context secret <<'EOF'
FROM busybox
RUN --mount=type=secret,id=key stat -c 'mode %a of %u:%g' /run/secrets/key && rev /run/secrets/key
RUN --mount=type=secret,id=key,target=/etc/my/key,mode=0444 stat -c 'mode %a' /etc/my/key && rev </etc/my/key
RUN --mount=type=secret,id=key,env=TOKEN echo "$TOKEN" | rev
RUN --mount=type=secret,id=key if echo x >/run/secrets/key 2>/dev/null; then echo "was ""writable"; fi; if test -e /run/secrets/key; then echo "still ""there"; fi
RUN test ! -e /run/secrets && test ! -e /etc/my && test -z "$TOKEN" && echo "not ""here"
RUN --mount=type=secret,id=missing test ! -e /run/secrets/missing
EOF
  run build "$dir" "nocache=1&t=$name" -H "$(secrets "key=$secret")"
  expect status 0
  expect contains 'mode 400 of 0:0' 'mode 444' 'still there' 'not here'
  expect lacks "$secret" 'was writable'
  [ "$(grep -c "^$(rev <<<"$secret")" <<<"$output")" = 3 ] || fail "not three times the secret:" "$output"
  run moss history --no-trunc "$name"
  expect lacks "$secret"
  run moss inspect "$name"
  expect lacks "$secret"
  moss save "$name" >"$BATS_TEST_TMPDIR/image.tar"
  run grep -c -- "$secret" "$BATS_TEST_TMPDIR/image.tar" "$MOSS_DIR/mossd.log"
  expect lacks ':1' ':2'
  run holding "$secret" "$MOSS_DATA" "$MOSS_DIR/run"
  expect output ''
  context required <<<'FROM busybox
RUN --mount=type=secret,id=missing,required=true true'
  run build "$dir" nocache=1
  expect status 1
  expect contains 'secret missing: not found'
}

@test "a secret is not shown while its command runs" {
  secret=hidden-$(unique value)
  context shown <<'EOF'
FROM busybox
RUN --mount=type=secret,id=key,env=TOKEN --mount=type=secret,id=key sleep 41.48
EOF
  build "$dir" nocache=1 -H "$(secrets "key=$secret")" >"$BATS_TEST_TMPDIR/out" 3>&- &
  builder=$!
  eventually 10 says 'sleep 41.48'
  id=$(containers)
  run moss inspect "$id"
  expect lacks "$secret"
  run holding "$secret" "$MOSS_DATA"
  expect output ''
  moss kill "$id"
  wait "$builder" || true
  run cat "$BATS_TEST_TMPDIR/out"
  expect contains 'error 137'
  expect lacks "$secret"
  moss rm "$id"
  run leftovers
  expect output ''
}

@test "a command is in the default network, in none, or in the one of the query, never in the host's" {
  context network <<'EOF'
FROM busybox
RUN echo "default: $(ls /sys/class/net | tr '\n' ' ')"
RUN --network=none echo "none: $(ls /sys/class/net | tr '\n' ' ')"
RUN --network=default echo "again: $(ls /sys/class/net | tr '\n' ' ')"
EOF
  run build "$dir" nocache=1
  expect status 0
  expect matches 'default: .*eth0'
  expect matches 'none: lo $'
  expect matches 'again: .*eth0'
  run build "$dir" 'nocache=1&networkmode=none'
  expect status 0
  expect matches 'default: lo $'
  for mode in host "container:$(unique gone)" "$(unique nothing)"; do
    run build "$dir" "nocache=1&networkmode=$mode"
    expect status 1
    expect matches '^error '
  done
  context host <<<'FROM busybox
RUN --network=host true'
  run build "$dir" nocache=1
  expect status 1
  expect contains host
  open=$(moss run -d --network host busybox sleep 300)
  run build "$BATS_TEST_TMPDIR/network" "nocache=1&networkmode=container:$open"
  expect status 1
  moss rm -f "$open"
  own=$(moss run -d busybox sh -c 'echo shared >/tmp/index.html; exec httpd -f -h /tmp')
  eventually 10 moss exec "$own" wget -qO- http://127.0.0.1/ # it runs before it listens
  context joined <<<'FROM busybox
RUN wget -qO- http://127.0.0.1/'
  run build "$dir" "nocache=1&networkmode=container:$own"
  expect status 0
  expect contains shared
  moss rm -f "$own"
}

@test "a command cannot reach what listens on the host's loopback" {
  python3 -u -m http.server --bind 127.0.0.1 0 >"$BATS_TEST_TMPDIR/served" 2>&1 3>&- &
  listener=$!
  eventually 5 file_has "$BATS_TEST_TMPDIR/served" ' port '
  port=$(sed -nE 's/^Serving .* port ([0-9]+).*/\1/p' "$BATS_TEST_TMPDIR/served")
  bash -c "echo >/dev/tcp/127.0.0.1/$port"
  context loopback <<EOF
FROM busybox
RUN for host in 127.0.0.1 10.0.2.2 \$(ip route | awk '/default/ {print \$3}'); do echo "asked \$host"; if wget -q -T 2 -O- http://\$host:$port/ >/dev/null 2>&1; then echo "rea""ched"; fi; done
EOF
  run build "$dir" nocache=1
  kill $listener
  expect status 0
  expect contains 'asked 127.0.0.1' 'asked 10.0.2.2'
  expect lacks reached
}

@test "limits that need no cgroups are seen inside" {
  context limits <<'EOF'
FROM busybox
RUN echo "files $(ulimit -n)" && df -k /dev/shm | tail -n 1 && cat /etc/hosts
EOF
  run build "$dir" 'nocache=1&shmsize=2097152&extrahosts=my.host:192.0.2.7&ulimits=%5B%7B%22Name%22%3A%22nofile%22%2C%22Soft%22%3A99%2C%22Hard%22%3A99%7D%5D'
  expect status 0
  expect contains 'files 99'
  expect matches '^(shm|tmpfs) +2048 '
  expect matches '^192.0.2.7[[:space:]]+my.host$'
}

# own_group HIERARCHY: our own path in it, of v1.
own_group() { sed -n "s/^[0-9]*:\(name=\)\{0,1\}$1://p" /proc/self/cgroup; }
# groups: the cgroups of containers, and their parents, over all hierarchies of v1.
groups() { find /sys/fs/cgroup/*"$(own_group memory)"/moss-* -mindepth 1 -type d 2>/dev/null || true; }

# bats test_tags=cgroups
@test "limits of the cgroup are seen inside, and what breaks them is ended" {
  context cgroup <<'EOF'
FROM busybox
RUN cd /sys/fs/cgroup; for f in memory.max cpu.max memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us cpu/cpu.shares cpuset/cpuset.cpus; do if test -f $f; then echo "has $(cat $f)."; fi; done
RUN tail /dev/zero
EOF
  run build "$dir" 'nocache=1&memory=33554432&memswap=33554432&cpuperiod=50000&cpuquota=25000&cpushares=512&cpusetcpus=1&forcerm=1'
  expect status 1
  expect contains 'has 33554432.'
  expect matches 'has 25000( 50000)?\.'
  expect matches '^error 137 '
  run groups
  expect output ''
}

# bats test_tags=cgroups
@test "the death of the engine leaves no cgroup of a build, nor the parent that it asked for" {
  context parent <<'EOF'
FROM busybox
RUN sleep 45.48
EOF
  build "$dir" 'nocache=1&cgroupparent=of/mine&memory=33554432' >/dev/null 2>&1 3>&- &
  builder=$!
  eventually 10 says 'sleep 45.48'
  [ -n "$(groups)" ] || fail "the command has no cgroup"
  old=$(inner_pid)
  kill -KILL "$old"
  eventually 20 another_engine "$old"
  eventually 5 nothing_left
  run groups
  expect output ''
  wait "$builder" || true
}

@test "heredocs are scripts of the shell, or of whom their first line names" {
  context heredoc <<'EOF'
FROM busybox
RUN <<SCRIPT
echo "first line"
echo "second line"
SCRIPT
RUN <<SCRIPT
#!/bin/awk -f
BEGIN { print "said by awk" }
SCRIPT
RUN cat <<ONE && cat <<TWO
text one
ONE
text two
TWO
RUN test ! -e /dev/pipes
EOF
  run build "$dir" nocache=1
  expect status 0
  expect contains 'first line' 'second line' 'said by awk' 'text one' 'text two'
}

@test "what only a start makes is not in the layer" {
  name=$(unique bare)
  mkdir -p "$BATS_TEST_TMPDIR/tree/bin"
  cp "$(command -v busybox.static || command -v busybox)" "$BATS_TEST_TMPDIR/tree/bin/sh"
  chmod -R a+rX "$BATS_TEST_TMPDIR/tree"
  tar -C "$BATS_TEST_TMPDIR/tree" --owner=0 --group=0 -c bin | moss import - "$name-base"
  context bare <<EOF
FROM $name-base
RUN --mount=type=tmpfs,target=/mnt/t --mount=type=cache,target=/cache,id=$name --mount=type=secret,id=none : >/made
EOF
  run build "$dir" "nocache=1&t=$name"
  expect status 0
  id=$(moss create "$name" x)
  moss export "$id" >"$BATS_TEST_TMPDIR/files.tar"
  moss rm "$id"
  run tar -tf "$BATS_TEST_TMPDIR/files.tar"
  expect lacks mnt cache run/secrets
  expect contains made bin/sh
  moss save "$name" >"$BATS_TEST_TMPDIR/image.tar"
  mkdir "$BATS_TEST_TMPDIR/image"
  tar -C "$BATS_TEST_TMPDIR/image" -xf "$BATS_TEST_TMPDIR/image.tar"
  top=$(jq -r '.[0].Layers[-1]' "$BATS_TEST_TMPDIR/image/manifest.json")
  run tar -tf "$BATS_TEST_TMPDIR/image/$top"
  expect output made
}

@test "containers of commands stay if they are asked to, and are ordinary ones then" {
  context stays <<'EOF'
FROM busybox
RUN echo word >/file
EOF
  run build "$dir" 'nocache=1&rm=0'
  expect status 0
  expect lacks 'Removing intermediate container'
  id=$(containers)
  run moss inspect -f '{{.State.Status}} {{.State.ExitCode}}' "$id"
  expect output 'exited 0'
  old=$(inner_pid)
  kill -KILL "$old"
  eventually 20 another_engine "$old"
  run moss start -a "$id"
  expect status 0
  moss rm "$id"
  context fails <<'EOF'
FROM busybox
RUN echo kept >/why; exit 5
EOF
  run build "$dir" nocache=1
  expect status 1
  id=$(containers)
  run moss cp "$id:/why" "$BATS_TEST_TMPDIR/why"
  expect equal "$(cat "$BATS_TEST_TMPDIR/why")" kept
  moss rm "$id"
  run build "$dir" 'nocache=1&forcerm=1'
  expect status 1
  run nothing_left
  expect status 0
}

# bats test_tags=alone
@test "a client that hangs up ends the command at once and leaves nothing" {
  before=$(layers)
  context hangup <<'EOF'
FROM busybox
RUN --mount=target=/ctx --mount=type=secret,id=key trap '' TERM; sleep 42.48
EOF
  build "$dir" nocache=1 -H "$(secrets key=value)" >/dev/null 2>&1 3>&- &
  builder=$!
  eventually 10 says 'sleep 42.48'
  pkill -P "$builder" curl || kill "$(pgrep -f "$MOSS_SOCK.*/build" | head -n 1)"
  eventually 5 silent 'sleep 42.48'
  eventually 5 nothing_left
  expect equal "$(layers)" "$before"
  wait "$builder" || true
}

@test "the death of the engine in the middle of a command leaves nothing" {
  before=$(layers)
  for when in running starting replaced; do
    context kill <<EOF
FROM busybox
RUN --mount=target=/ctx,rw --mount=type=secret,id=key --mount=type=cache,target=/c trap '' TERM; echo $when >/c/file; sleep 43.48
EOF
    build "$dir" nocache=1 -H "$(secrets key=value)" >/dev/null 2>&1 3>&- &
    builder=$!
    if [ $when = starting ]; then
      eventually 10 has_containers
    else
      eventually 10 says 'sleep 43.48'
    fi
    old=$(inner_pid)
    if [ $when = replaced ]; then kill -HUP "$MOSSD_PID"; else kill -KILL "$old"; fi
    eventually 20 another_engine "$old"
    eventually 5 silent 'sleep 43.48'
    eventually 5 nothing_left
    expect equal "$(layers)" "$before"
    wait "$builder" || true
  done
  context after <<<'FROM busybox
RUN --mount=type=cache,target=/c cat /c/file'
  run build "$dir" nocache=1
  expect status 0
}

# bats test_tags=alone
@test "the end of the engine does not wait for a command" {
  before=$(layers)
  context halt <<'EOF'
FROM busybox
RUN trap '' TERM; sleep 46.48
EOF
  build "$dir" nocache=1 >/dev/null 2>&1 3>&- &
  builder=$!
  eventually 10 says 'sleep 46.48'
  start=$SECONDS
  halt_engine
  [ $((SECONDS - start)) -lt 40 ] || fail "it took $((SECONDS - start)) s"
  wait "$builder" || true
  silent 'sleep 46.48'
  spawn_engine
  run nothing_left
  expect status 0
  expect equal "$(layers)" "$before"
}

# stalled FILE PART: begins a build of this archive, of which it sends a part (half) or all, and reads no answer.
stalled() {
  exec python3 - "$MOSS_SOCK" "$@" <<'PYTHON'
import socket, sys, time
with open(sys.argv[2], "rb") as f:
    body = f.read()
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
head = "POST /build?nocache=1 HTTP/1.1\r\nHost: moss\r\nContent-Type: application/x-tar\r\nContent-Length: %d\r\n\r\n"
s.sendall((head % len(body)).encode() + (body[:600] if sys.argv[3] == "half" else body))
time.sleep(60)
PYTHON
}

# bats test_tags=alone
@test "the end of the engine does not wait for a client that neither sends nor reads" {
  context stalled <<'EOF'
FROM busybox
RUN head -c 30000000 /dev/zero | tr '\\0' x; sleep 43.48
EOF
  tar -C "$dir" -cf "$BATS_TEST_TMPDIR/context.tar" .
  stalled "$BATS_TEST_TMPDIR/context.tar" half 3>&- &
  sender=$!
  stalled "$BATS_TEST_TMPDIR/context.tar" whole 3>&- &
  reader=$!
  eventually 10 says 'sleep 43.48'
  old=$(inner_pid)
  start=$SECONDS
  kill -HUP "$MOSSD_PID"
  eventually 20 another_engine "$old"
  [ $((SECONDS - start)) -lt 40 ] || fail "it took $((SECONDS - start)) s"
  eventually 5 silent 'sleep 43.48'
  eventually 5 nothing_left
  kill "$sender" "$reader" || true
}

@test "a command is a container that clients see and may end" {
  context seen <<'EOF'
FROM busybox
RUN sleep 44.48
EOF
  build "$dir" 'nocache=1&forcerm=1' >"$BATS_TEST_TMPDIR/out" 3>&- &
  builder=$!
  eventually 10 says 'sleep 44.48'
  id=$(containers)
  run moss ps --no-trunc
  expect contains "$id" 'sleep 44.48'
  run moss container prune -f
  expect lacks "$id"
  moss rm -f "$id"
  wait "$builder" || true
  run cat "$BATS_TEST_TMPDIR/out"
  expect contains 'error 137'
  run nothing_left
  expect status 0
}
