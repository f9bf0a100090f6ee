#!/usr/bin/env bats
# What a build must never reach: the host's files and network, other images, and what its secrets must never get into.

load lib/moss
load lib/registry

setup_file() {
  start_engine
  import_busybox
  start_tokend tokend
  start_registry closed --token "$TOKEND" tokend
  export CLOSED=$REGISTRY
}
teardown_file() { stop_registries && stop_engine; }
setup() {
  begin
  dir=$BATS_TEST_TMPDIR/context
  mkdir -p "$dir"
  helpers=()
}
teardown() {
  local pid
  for pid in "${helpers[@]}"; do kill "$pid" 2>/dev/null || true; done
  finish
}

# dockerfile LINE...: the Dockerfile of the context.
dockerfile() { printf '%s\n' "$@" >"$dir/Dockerfile"; }

# build [QUERY [CURL'S ARG...]]: builds the context. The lines of the stream go to stdout; an error is the last one and the status.
build() {
  tar -C "$dir" -cf "$BATS_TEST_TMPDIR/context.tar" .
  post "$@"
}
post() {
  local query=${1-} answer
  [ $# = 0 ] || shift
  answer=$(curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X POST --data-binary @"$BATS_TEST_TMPDIR/context.tar" "$@" \
    "http://moss/build?$query") || return
  jq -j '.stream // (select(.status) | .status + "\n")' <<<"$answer"
  jq -e -r '.error // .message // empty' <<<"$answer" && return 1
  return 0
}
# remote URL [QUERY]: the same for a remote.
remote() {
  : >"$BATS_TEST_TMPDIR/context.tar"
  post "${2-}" -G --data-urlencode "remote=$1"
}

# canary: a file of the host outside of everything, with a word of its own, in a folder where something could be planted.
canary() {
  word=canary-$(unique word)
  outside=$BATS_TEST_TMPDIR/outside
  mkdir -p "$outside"
  echo "$word" >"$outside/canary"
  chmod -R a+rwX "$outside"
}
# untouched: nothing is in that folder but the canary, as it was.
untouched() {
  expect equal "$(find "$outside" -mindepth 1)" "$outside/canary"
  expect equal "$(cat "$outside/canary")" "$word"
}
# unseen IMAGE...: the canary is in none of them.
unseen() {
  moss save "$@" >"$BATS_TEST_TMPDIR/seen.tar"
  run grep -c -- "$word" "$BATS_TEST_TMPDIR/seen.tar"
  expect output 0
}

# hostile: a context whose entries are the lines of stdin, after a Dockerfile of the arguments:
#   file NAME | link NAME TARGET | hard NAME TARGET | device NAME
hostile() {
  python3 -c '
import io, sys, tarfile
out = tarfile.open(sys.argv[1], "w", format=tarfile.GNU_FORMAT)
def put(name, text):
    entry = tarfile.TarInfo(name)
    entry.size = len(text)
    out.addfile(entry, io.BytesIO(text))
put("Dockerfile", "\n".join(sys.argv[2:]).encode())
for line in sys.stdin:
    kind, name, *rest = line.split()
    if kind == "file":
        put(name, b"planted")
        continue
    entry = tarfile.TarInfo(name)
    entry.type = {"link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "device": tarfile.BLKTYPE}[kind]
    if rest:
        entry.linkname = rest[0]
    out.addfile(entry)
out.close()' "$BATS_TEST_TMPDIR/context.tar" "$@"
}

# serve: a web server for $BATS_TEST_TMPDIR/www, with some ways to lead a client astray. Sets $web.
serve() {
  mkdir -p "$BATS_TEST_TMPDIR/www"
  python3 -u -c '
import http.server, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", self.path[4:])
            self.end_headers()
        elif self.path == "/huge":
            self.send_response(200)
            self.send_header("Content-Length", str(1 << 60))
            self.end_headers()
            try:
                while True:
                    self.wfile.write(bytes(1 << 16))
            except OSError:
                pass
        else:
            super().do_GET()
http.server.ThreadingHTTPServer.daemon_threads = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Handler(*a, directory=sys.argv[1]))
print("port", server.server_port)
server.serve_forever()' "$BATS_TEST_TMPDIR/www" >"$BATS_TEST_TMPDIR/www.log" 2>&1 3>&- 4>&- &
  helpers+=($!)
  eventually 20 file_has "$BATS_TEST_TMPDIR/www.log" port
  web=127.0.0.1:$(sed -n 's/^port //p' "$BATS_TEST_TMPDIR/www.log")
}

# holding TEXT DIR...: the files that hold a text. Those of sub-ids are read with the ids that made them.
holding() {
  local text=$1 as=()
  shift
  if has_subids; then as=(unshare --user --map-root-user --map-auto); fi
  "${as[@]}" grep -rlF --devices=skip -- "$text" "$@" 2>/dev/null || true
}

@test "links of a context lead nowhere but into it" {
  canary
  name=$(unique links)
  for copies in "COPY link /x" "ADD link /x" "COPY folder/canary /x" "COPY folder/ /x" "COPY up /x" "COPY ../outside/canary /x" \
    "COPY $outside/canary /x" "COPY fold*/can* /x" "COPY . /x/" "RUN --mount=target=/ctx cat /ctx/link /ctx/folder/canary; true" \
    "RUN --mount=source=link,target=/ctx cat /ctx; true" "RUN --mount=source=folder,target=/ctx find /ctx; cat /ctx/*; true"; do
    hostile 'FROM busybox' "$copies" <<<"link link $outside/canary
link folder $outside
link up ../../../../../../../../../..$outside/canary"
    moss rmi "$name" >/dev/null 2>&1 || true
    run post "t=$name"
    expect lacks "$word"
    # Links are copied as such, or followed inside, where nothing is.
    case $copies in "COPY . "* | *'*'* | *ctx*) ;; *) expect matches 'not found in build context|outside the build context' ;; esac
    [ "$status" != 0 ] || unseen "$name"
  done
  for file in link folder/canary up ../outside/canary "$outside/canary"; do
    run post "dockerfile=$file"
    expect status 1
    expect lacks "$word"
  done
  hostile 'FROM busybox' 'COPY . /x/' <<<"link .dockerignore $outside/canary"
  run post
  expect lacks "$word"
  untouched
}

@test "names and hard links of a context that climb out are refused, or kept in" {
  canary
  for entry in "file ../outside/planted" "file a/../../planted" "hard x $outside/canary" "hard x ../outside/canary" "link up $outside
file up/planted" "link up $outside
hard x up/canary"; do
    hostile 'FROM busybox' 'COPY . /x/' 'RUN cat /x/x; true' <<<"$entry"
    run post nocache=1
    expect lacks "$word"
    expect status 1
    untouched
  done
  hostile 'FROM busybox' 'RUN --mount=target=/ctx find /ctx -name planted -o -type b' 'COPY . /x/' <<<"file $outside/planted
device disk"
  run post nocache=1
  expect lacks /ctx/disk
  untouched
}

@test "links of an image lead nowhere but into it" {
  canary
  name=$(unique image)
  dockerfile 'FROM busybox' "RUN ln -s $outside /out && ln -s $outside/canary /file && ln -s ../../../../../..$outside /up"
  build "t=$name-base"
  echo planted >"$dir/planted"
  mkdir "$dir/packed"
  tar -C "$dir" -cf "$dir/packed.tar" planted
  dockerfile "FROM $name-base" 'COPY planted /out/planted' 'COPY planted /up/other' 'COPY --link planted /out/linked' \
    'ADD packed.tar /out/unpacked/' 'WORKDIR /out/folder' 'COPY <<../../x /out/' 'text' '../../x' \
    'RUN --mount=type=bind,target=/out/bound,rw touch /out/bound/y' 'RUN --mount=type=cache,target=/up/cache touch /up/cache/y'
  run build "t=$name"
  expect status 0
  untouched
  unseen "$name"
  for copies in 'COPY --from=base /file /x' 'COPY --from=base /out/canary /x' 'COPY --from=base /up/ /x/' \
    'RUN --mount=from=base,source=/out,target=/m find /m; cat /m/*' 'RUN --mount=from=base,source=/file,target=/m cat /m' \
    'RUN --mount=type=cache,from=base,source=/up,target=/m cat /m/*'; do
    dockerfile "FROM $name-base AS base" 'FROM busybox' "$copies"
    run build nocache=1
    expect lacks "$word"
    expect status 1
  done
  untouched
}

# bats test_tags=alone
@test "accounts of an image are read as files of a bounded size, and nothing else" {
  canary
  name=$(unique accounts)
  printf 'spy:x:77:77::/:/bin/sh\n' >>"$outside/canary"
  echo x >"$dir/x"
  for make in "ln -s $outside/canary /etc/passwd" 'mkfifo /etc/passwd' 'mkdir /etc/passwd' 'yes long:x:1:1::/:/bin/sh | head -c 20000000 >/etc/passwd; echo spy:x:77:77::/: >>/etc/passwd'; do
    dockerfile 'FROM busybox' "RUN rm /etc/passwd && $make"
    build "t=$name" >/dev/null
    for instruction in 'COPY --chown=spy x /x' 'ADD --chown=spy:77 x /x' "USER spy
RUN true" "USER spy
WORKDIR /new
RUN true"; do
      dockerfile "FROM $name" "$instruction"
      run build # which waits for no more than a minute
      expect status 1
    done
  done
}

@test "ADD takes http and https, whatever a server redirects to" {
  canary
  serve
  echo served >"$BATS_TEST_TMPDIR/www/file"
  for source in "file://$outside/canary" "ftp://$web/file" "gopher://$web/file" "data:text/plain,x" "unix://$MOSS_SOCK/info" \
    "http://$web/to?file://$outside/canary" "http://$web/to?ftp://$web/file" "http://$web/to?/to?/to?/to?/to?/to?/to?/to?/to?/to?/to?/to?/file"; do
    dockerfile 'FROM busybox' "ADD $source /x" 'RUN cat /x'
    run build nocache=1
    expect status 1
    expect lacks "$word" 'Running in'
    run remote "$source"
    expect status 1
    expect lacks "$word" 'Step 1'
  done
  dockerfile 'FROM busybox' "ADD http://$web/to?/file /x" 'RUN cat /x'
  run build nocache=1
  expect status 0
  expect contains served
}

@test "a download larger than the disk ends before it is full" {
  serve
  before=$(df --output=avail -B1 "$MOSS_DATA" | tail -n 1)
  dockerfile 'FROM busybox' "ADD http://$web/huge /x"
  run build
  expect status 1
  expect matches 'no space|room|free'
  run remote "http://$web/huge"
  expect status 1
  after=$(df --output=avail -B1 "$MOSS_DATA" | tail -n 1)
  [ $((before - after)) -lt $((1 << 30)) ] || fail "$((before - after)) bytes are gone"
}

@test "git speaks http, https and git, to a repository and to its submodules; its files are no way out" {
  canary
  serve
  made=$BATS_TEST_TMPDIR/made
  git() { command git -c user.name=x -c user.email=x@example.test -c protocol.file.allow=always -c init.defaultBranch=main "$@"; }
  git init -q "$made"
  printf 'FROM busybox\nCOPY . /x/\n' >"$made/Dockerfile"
  ln -s "$outside/canary" "$made/link"
  ln -s "$outside" "$made/folder"
  git -C "$made" add .
  git -C "$made" commit -qm one
  publish() {
    rm -rf "$BATS_TEST_TMPDIR/www/$1.git"
    git clone -q --bare "$made" "$BATS_TEST_TMPDIR/www/$1.git"
    git -C "$BATS_TEST_TMPDIR/www/$1.git" update-server-info
  }
  publish plain
  name=$(unique git)
  run remote "http://$web/plain.git" "t=$name"
  expect status 0
  unseen "$name"
  for ref in "#main:folder" "#--upload-pack=touch $outside/planted" "#-x" "#main:.git"; do
    run remote "http://$web/plain.git$ref"
    expect status 1
    expect lacks "$word"
  done
  run remote "http://$web/plain.git#main:../../folder/../.."
  expect lacks "$word"
  for source in "ext::sh -c 'touch $outside/planted'" "ext::touch%20$outside/planted#.git" "file://$made" "$made" "$made/.git" "ssh://127.0.0.1/x.git" \
    "git@127.0.0.1:x.git" "http://$web/to?file://$made/.git" "--upload-pack=touch.git" "git://-oProxyCommand=x/x.git" "fd::17/x.git"; do
    run remote "$source"
    expect status 1
    expect lacks 'Step 1'
    dockerfile 'FROM busybox' "ADD [\"$source\", \"/x/\"]" 'RUN find /x -type f'
    run build nocache=1
    expect status 1
    expect lacks 'Running in'
    untouched
  done
  for url in "ext::sh -c touch% $outside/planted" "file://$made" "$made" "ssh://127.0.0.1/x.git" "../../../../../../../../..$made"; do
    printf '[submodule "sub"]\n\tpath = sub\n\turl = %s\n\tupdate = checkout\n' "$url" >"$made/.gitmodules"
    git -C "$made" add .gitmodules
    git -C "$made" update-index --add --cacheinfo "160000,$(git -C "$made" rev-parse HEAD),sub"
    git -C "$made" commit -qm sub
    publish sub
    run remote "http://$web/sub.git"
    expect status 1
    expect lacks 'Step 1'
    untouched
  done
}

@test "a command sees neither the host's network nor its sockets nor its loopback, whoever asks for it" {
  listening=$(unique abstract)
  python3 -u -c '
import socket, sys, time
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\0" + sys.argv[1])
abstract.listen()
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print("port", listener.getsockname()[1])
time.sleep(100)' "$listening" >"$BATS_TEST_TMPDIR/listener" 3>&- &
  helpers+=($!)
  eventually 10 file_has "$BATS_TEST_TMPDIR/listener" port
  port=$(sed -n 's/^port //p' "$BATS_TEST_TMPDIR/listener")
  dockerfile 'FROM busybox' 'RUN echo "in $(readlink /proc/self/ns/net)"; cat /proc/net/unix' \
    "RUN for host in 127.0.0.1 10.0.2.2 \$(ip route | awk '/default/ {print \$3}') \$(awk '/nameserver/ {print \$2}' /etc/resolv.conf); do echo \"asked \$host\"; if nc -w 2 \$host $port </dev/null; then echo \"rea\"\"ched\"; fi; done"
  run build nocache=1
  expect status 0
  expect contains 'in net:' 'asked 127.0.0.1'
  expect lacks "$(readlink /proc/self/ns/net)" "$(readlink "/proc/$(inner_pid)/ns/net")" "$listening" reached
  run build "nocache=1&networkmode=host"
  expect status 1
  expect lacks 'Running in'
  run moss build --no-cache --network host "$dir"
  expect status 1
  expect lacks 'Running in'
  dockerfile 'FROM busybox' 'RUN --network=host true'
  run build nocache=1
  expect status 1
  name=$(unique trigger)
  for trigger in 'RUN --network=host true' 'RUN --security=insecure true' 'RUN --device=all true'; do
    dockerfile 'FROM busybox' "ONBUILD $trigger"
    run build "t=$name"
    if [ "$status" = 0 ]; then
      dockerfile "FROM $name"
      run build nocache=1
      expect status 1
    fi
    expect lacks 'Running in'
  done
}

@test "a command has no more rights than any container" {
  dockerfile 'FROM busybox' "RUN grep -E '^(Cap|Seccomp:|NoNewPrivs)' /proc/self/status; grep -E '(proc|sys|dev)' /proc/mounts | cut -d' ' -f2,3,4 | sed 's/size=.*//' | sort"
  run build nocache=1
  expect status 0
  built=$(sed -n '/^Cap/,/^Removing/p' <<<"$output" | sed '/^Removing/d')
  run moss run --rm busybox sh -c "grep -E '^(Cap|Seccomp:|NoNewPrivs)' /proc/self/status; grep -E '(proc|sys|dev)' /proc/mounts | cut -d' ' -f2,3,4 | sed 's/size=.*//' | sort"
  expect contains "Seccomp:"
  expect equal "$built" "$output"
  dockerfile 'FROM busybox' 'RUN --security=insecure true'
  run build nocache=1
  expect status 1
  expect contains insecure
  dockerfile 'FROM busybox' 'RUN env' 'RUN cat /proc/1/environ | tr "\0" "\n"'
  run build nocache=1
  expect contains 'PATH='
  expect lacks "$MOSS_DIR" "$MOSS_DATA" XDG_ "$HOME"
}

@test "keys hold the base image: its id and its config, not its name" {
  name=$(unique base)
  step() { grep -c 'Using cache'; }
  dockerfile "FROM $name" "RUN echo \"say \$WORD as \$(cat /word)\" # $name"
  put() { # WORD LAYER: the base with this word in its config, and that one in its layer
    moss create --name "$name" -e X=y busybox sh -c true >/dev/null
    printf '%s\n' "$2" >"$BATS_TEST_TMPDIR/word"
    touch -d @1 "$BATS_TEST_TMPDIR/word"
    moss cp "$BATS_TEST_TMPDIR/word" "$name:/word"
    moss commit -q -c "ENV WORD=$1" "$name" "$name" >/dev/null 2>&1 || moss commit -c "ENV WORD=$1" "$name" "$name" >/dev/null
    moss rm "$name" >/dev/null
  }
  put one here
  run build
  expect contains 'say one as here'
  run build
  expect lacks 'say one'
  expect contains 'Using cache'
  put two here
  run build
  expect contains 'say two as here'
  expect lacks 'Using cache'
  put two there
  run build
  expect contains 'say two as there'
  expect lacks 'Using cache'
  # Another name for it is the same image.
  moss tag "$name" "$name-too"
  sed -i "1s/.*/FROM $name-too/" "$dir/Dockerfile"
  run build
  expect contains 'Using cache'
}

@test "credentials of X-Registry-Config reach their registry and nothing else" {
  name=private/$(unique closed)
  put_image "$CLOSED/$name" word --dest-creds ann:secret
  password=wrong-$(unique password)
  header() { jq -cn --arg host "$CLOSED" --arg user "$1" --arg password "$2" '{($host): {username: $user, password: $password, email: "x@example.test"}}' | base64 -w0 | tr '+/' '-_'; }
  closed=$CLOSED/$name name=${name#*/}
  dockerfile "FROM $closed" 'LABEL a=b'
  run build
  expect status 1
  expect lacks secret
  run build "t=$name" -H "X-Registry-Config: $(header ann "$password")"
  expect status 1
  expect lacks "$password"
  # A secret of its own, so that it can be looked for everywhere.
  run build "t=$name&nocache=1" -H "X-Registry-Config: $(header bob s3cret-of-bob)"
  expect status 0
  expect lacks s3cret-of-bob
  # COPY --from and mounts pull with them too, and only with them.
  moss rmi "$name" "$closed" >/dev/null
  dockerfile 'FROM busybox' "COPY --from=$closed /word /word"
  run build
  expect status 1
  run build "t=$name" -H "X-Registry-Config: $(header bob s3cret-of-bob)"
  expect status 0
  dockerfile 'FROM busybox' "RUN env; echo $name"
  run build "t=$name-env" -H "X-Registry-Config: $(header bob s3cret-of-bob)"
  expect status 0
  expect lacks s3cret-of-bob
  for text in s3cret-of-bob "$password" "$(printf 'bob:s3cret-of-bob' | base64 -w0)" "$(header bob s3cret-of-bob)"; do
    run moss history --no-trunc "$name"
    expect lacks "$text"
    run moss inspect "$name" "$name-env"
    expect lacks "$text"
    moss save "$name" "$name-env" >"$BATS_TEST_TMPDIR/image.tar"
    run holding "$text" "$BATS_TEST_TMPDIR/image.tar" "$MOSS_DIR/mossd.log" "$MOSS_DATA/root" "$MOSS_DIR/run"
    expect output ''
    run api GET "/events?since=0&until=$(date +%s)"
    expect lacks "$text"
  done
}

@test "passwords of URLs and of proxies are in no log, no history and no image" {
  serve
  echo served >"$BATS_TEST_TMPDIR/www/file"
  printf 'FROM busybox\nRUN true\n' >"$BATS_TEST_TMPDIR/www/Dockerfile"
  password=hidden-$(unique password)
  name=$(unique passwords)
  run remote "http://me:$password@$web/Dockerfile" "t=$name-remote"
  expect status 0
  expect lacks "$password"
  for url in "http://me:$password@$web/none" "http://me:$password@127.0.0.1:1/x" "http://me:$password@$web/none.git" "http://me:$password@$web/%zz" \
    "ftp://me:$password@$web/x" "http://me:$password@$web/to?ftp://x/"; do
    run remote "$url"
    expect status 1
    expect lacks "$password"
  done
  dockerfile 'FROM busybox' 'ARG WHERE' 'ADD $WHERE /file' 'RUN test -n "$HTTP_PROXY"'
  run build "t=$name" --url-query "buildargs={\"WHERE\":\"http://$web/file\",\"HTTP_PROXY\":\"http://me:$password@proxy.example.test:3128\"}"
  expect status 0
  expect lacks "$password"
  run moss history --no-trunc "$name"
  expect lacks "$password"
  run moss inspect "$name" "$name-remote"
  expect lacks "$password"
  moss save "$name" >"$BATS_TEST_TMPDIR/image.tar"
  run holding "$password" "$BATS_TEST_TMPDIR/image.tar" "$MOSS_DIR/mossd.log" "$MOSS_DATA/root" "$MOSS_DIR/run"
  expect output ''
}
