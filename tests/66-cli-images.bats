#!/usr/bin/env bats
# moss on images and registries: what its commands show and do, on a terminal and elsewhere, and where credentials are kept.

# bats file_tags=subids

load lib/moss
load lib/registry

setup_file() {
  start_engine
  import_busybox
  start_registry plain
  export PLAIN=$REGISTRY
  start_registry closed --htpasswd ann:secret
  export CLOSED=$REGISTRY
  start_tokend tokens
  start_registry guarded --token "$TOKEND" tokens
  export GUARDED=$REGISTRY
  # An image of three layers, put there by a program that shares nothing with the engine but the archive.
  local name=seed i
  for i in 1 2; do
    moss run --name "seed$i" "$([ $i = 1 ] && echo busybox || echo seed:1)" sh -c "head -c 3000000 /dev/urandom >/file$i"
    moss commit -m "step $i" "seed$i" "seed:$i" >/dev/null
    moss rm "seed$i" >/dev/null
  done
  moss save -o "$MOSS_DIR/seed.tar" "$name:2"
  for tag in one two; do
    skopeo copy -q --dest-tls-verify=false "docker-archive:$MOSS_DIR/seed.tar" "docker://$PLAIN/lib/box:$tag"
  done
  skopeo copy -q --dest-tls-verify=false --dest-creds ann:secret "docker-archive:$MOSS_DIR/seed.tar" "docker://$CLOSED/lib/box:one"
  moss rmi seed:1 seed:2 >/dev/null
}
teardown_file() { stop_registries && stop_engine; }
setup() {
  begin
  export HOME=$BATS_TEST_TMPDIR/home DOCKER_CONFIG=$BATS_TEST_TMPDIR/docker
  unset REGISTRY_AUTH_FILE XDG_CONFIG_HOME
  mkdir "$HOME"
}
teardown() { finish; }

# in_pty ROWS COLS ARG...: moss with ARGs in a terminal.
in_pty() {
  local rows=$1 cols=$2
  shift 2
  shown "$rows" "$cols" timeout --foreground 60 "$moss_bin/moss" --host "unix://$MOSS_SOCK" "$@"
}

# widest TEXT: the length of the longest line that a terminal showed, but for those that stay as long as they are.
widest() {
  tr '\r' '\n' <<<"$1" | sed 's/\x1b\[[0-9]*[A-Z]/\n/g' |
    awk '!/^(Digest|Status):/ && !/^[0-9.]+:[0-9]+\// { if (length($0) > most) most = length($0) } END { print most + 0 }'
}

# gone IMAGE...: removes images, also those that are not there.
gone() { moss rmi -f "$@" >/dev/null; }

id_of() { moss inspect --type image --format '{{.Id}}' "$1"; }

# slow_registry: a registry on the port $SLOW whose image box:latest has a layer that stops coming after 100 kB. Its log
# has a line "gone" when the client hangs up.
slow_registry() {
  cat >"$BATS_TEST_TMPDIR/slow.py" <<'PYTHON'
import hashlib, http.server, json, os, sys

layer = "sha256:" + hashlib.sha256(b"nobody").hexdigest()
config = json.dumps({"architecture": os.environ["ARCH"], "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": [layer]}}).encode()
digest = "sha256:" + hashlib.sha256(config).hexdigest()
kind = "application/vnd.docker.distribution.manifest.v2+json"
manifest = json.dumps({"schemaVersion": 2, "mediaType": kind,
    "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digest},
    "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar", "size": 10000000, "digest": layer}]}).encode()

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_HEAD(self): self.do_GET()
    def do_GET(self):
        slow = self.path.endswith(layer)
        body, mime = (manifest, kind) if "/manifests/" in self.path else (config, "application/octet-stream")
        if self.path == "/v2/": body, mime = b"{}", "application/json"
        self.send_response(200)
        self.send_header("Content-Type", mime)
        self.send_header("Docker-Content-Digest", "sha256:" + hashlib.sha256(body).hexdigest())
        self.send_header("Content-Length", "10000000" if slow else str(len(body)))
        self.end_headers()
        if self.command == "HEAD": return
        self.wfile.write(bytes(100000) if slow else body)
        self.wfile.flush()
        if slow:
            try: self.connection.recv(1)
            except OSError: pass
            print("gone", flush=True)
            self.close_connection = True
    def log_message(self, *args): pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("port", server.server_address[1], flush=True)
server.serve_forever()
PYTHON
  : >"$BATS_TEST_TMPDIR/slow.log"
  ARCH=$(moss version --format '{{.Server.Arch}}') python3 "$BATS_TEST_TMPDIR/slow.py" >"$BATS_TEST_TMPDIR/slow.log" 2>&1 3>&- 4>&- &
  slow_pid=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/slow.log" port
  SLOW=127.0.0.1:$(sed -n 's/^port //p' "$BATS_TEST_TMPDIR/slow.log")
}

@test "pull: lines where there is no terminal, the name alone with -q" {
  gone "$PLAIN/lib/box:one"
  run --separate-stderr moss pull "$PLAIN/lib/box:one"
  expect status 0
  expect equal "$stderr" ""
  expect line 0 "one: Pulling from lib/box"
  expect contains "Pulling fs layer" "Pull complete" "Status: Downloaded newer image for $PLAIN/lib/box:one"
  expect matches '^Digest: sha256:[0-9a-f]{64}$'
  expect equal "${lines[-1]}" "$PLAIN/lib/box:one"
  expect lacks $'\x1b' $'\r' "[="
  run moss pull "$PLAIN/lib/box:one"
  expect contains "Status: Image is up to date for $PLAIN/lib/box:one"
  run moss pull -q "$PLAIN/lib/box:one"
  expect output "$PLAIN/lib/box:one"
  run moss run --rm "$PLAIN/lib/box:one" sh -c 'test -s /file1 && test -s /file2 && echo whole'
  expect output whole
}

@test "pull: several names, a digest, all tags" {
  gone "$PLAIN/lib/box:one" "$PLAIN/lib/box:two"
  digest=$(skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$PLAIN/lib/box:two")
  run --separate-stderr moss pull -q "$PLAIN/lib/box:one" "$PLAIN/lib/box:none" "$PLAIN/lib/box@$digest"
  expect status 1
  expect output "$PLAIN/lib/box:one"$'\n'"$PLAIN/lib/box@$digest"
  expect --in "$stderr" contains "moss: manifest for $PLAIN/lib/box:none not found"
  run moss images --digests --format '{{.Repository}} {{.Digest}}' "$PLAIN/lib/box"
  expect contains "$PLAIN/lib/box $digest"
  run moss pull -a "$PLAIN/lib/box"
  expect status 0
  expect contains "one: Pulling from" "two: Pulling from"
  expect equal "$(id_of "$PLAIN/lib/box:one")" "$(id_of "$PLAIN/lib/box:two")"
  run moss pull -a "$PLAIN/lib/box:one"
  expect status 125
}

@test "pull: a terminal shows a line for each layer, none wider than it is" {
  for size in "24 100" "24 40" "4 60" "2 30"; do
    gone "$PLAIN/lib/box:one" "$PLAIN/lib/box:two" "$PLAIN/lib/box:none"
    read -r rows cols <<<"$size"
    run in_pty "$rows" "$cols" pull "$PLAIN/lib/box:one"
    expect status 0
    expect contains $'\x1b[' "Pull complete"
    expect lacks $'\x1b[?25l'
    [ "$(widest "$output")" -lt "$cols" ] || fail "a line of $(widest "$output") on a terminal of $cols:" "$output"
  done
  gone "$PLAIN/lib/box:one"
  TERM=dumb run in_pty 24 80 pull "$PLAIN/lib/box:one"
  expect status 0
  expect lacks $'\x1b['
}

@test "Ctrl-C ends a pull at the engine too, and run with it" {
  slow_registry
  for verb in pull run; do
    : >"$BATS_TEST_TMPDIR/slow.log"
    run command expect -c "
      set timeout 120
      spawn $moss_bin/moss --host unix://$MOSS_SOCK $verb $SLOW/box
      expect -re {Downloading \\[>? *=*>? *\\]} {} timeout { exit 99 }
      send \\x03
      expect eof
      exit [lindex [wait] 3]"
    expect status 130
    eventually 10 file_has "$BATS_TEST_TMPDIR/slow.log" gone
  done
  run moss inspect --type image "$SLOW/box"
  expect status 1
  kill "$slow_pid"
}

@test "a signal ends a pull without a terminal" {
  slow_registry
  "$moss_bin/moss" --host "unix://$MOSS_SOCK" pull -q "$SLOW/box" >/dev/null 2>"$BATS_TEST_TMPDIR/err" 3>&- &
  client=$!
  asked() { grep -q ESTAB < <(ss -tnH state established "( dport = :${SLOW#*:} )" 2>/dev/null | sed 's/^/ESTAB /'); }
  eventually 10 asked
  kill -TERM $client
  status=0
  wait $client || status=$?
  expect status 143
  expect equal "$(cat "$BATS_TEST_TMPDIR/err")" ""
  kill "$slow_pid"
}

@test "push: to a registry that skopeo reads, one tag, all tags, quietly" {
  name=$(unique pushed)
  moss tag busybox "$PLAIN/$name:v1"
  moss tag busybox "$PLAIN/$name:v2"
  run --separate-stderr moss push "$PLAIN/$name:v1"
  expect status 0
  expect line 0 "The push refers to repository [$PLAIN/$name]"
  expect matches '^[0-9a-f]{12}: (Pushed|Mounted from lib/box)$'
  expect matches '^v1: digest: sha256:[0-9a-f]{64} size: [0-9]+$'
  digest=$(sed -nE 's/^v1: digest: (sha256:[0-9a-f]{64}) .*/\1/p' <<<"$output")
  expect equal "$(skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$PLAIN/$name:v1")" "$digest"
  run moss push -q "$PLAIN/$name:v2"
  expect output "$PLAIN/$name:v2"
  run moss push "$PLAIN/$name"
  expect status 1
  expect contains "Using default tag: latest"
  run moss push -a "$PLAIN/$name"
  expect status 0
  expect contains "v1: digest: $digest" "v2: digest: $digest" "Layer already exists"
  run in_pty 24 100 push "$PLAIN/$name:v1"
  expect status 0
  expect contains $'\x1b['
  gone "$PLAIN/$name:v1" "$PLAIN/$name:v2"
}

@test "login, pull, push and logout: a password, in a file for its user alone" {
  name=$(unique closed)
  run moss pull "$CLOSED/lib/box:one"
  expect status 1
  run moss login -u ann --password-stdin "$CLOSED" <<<wrong
  expect status 1
  expect contains "moss: login at $CLOSED: "
  [ ! -e "$DOCKER_CONFIG/config.json" ] || fail "credentials that the registry refuses are kept"
  run --separate-stderr moss login -u ann --password-stdin "$CLOSED" <<<secret
  expect status 0
  expect output "Login Succeeded"
  expect --in "$stderr" contains "kept unencrypted in $DOCKER_CONFIG/config.json"
  expect equal "$(stat -c '%a' "$DOCKER_CONFIG" "$DOCKER_CONFIG/config.json" | xargs)" "700 600"
  expect equal "$(jq -r --arg r "$CLOSED" '.auths[$r].auth' "$DOCKER_CONFIG/config.json" | base64 -d)" ann:secret
  run moss login "$CLOSED" # nothing new is kept, and nothing said of it
  expect output "Authenticating with existing credentials..."$'\n'"Login Succeeded"
  run moss pull -q "$CLOSED/lib/box:one"
  expect output "$CLOSED/lib/box:one"
  moss tag busybox "$CLOSED/$name"
  run moss push -q "$CLOSED/$name"
  expect output "$CLOSED/$name:latest"
  run skopeo inspect --authfile "$DOCKER_CONFIG/config.json" --tls-verify=false --format '{{.Name}}' "docker://$CLOSED/$name"
  expect output "$CLOSED/$name"
  run moss __complete logout "${CLOSED:0:6}"
  expect contains "$CLOSED"
  run moss logout "$CLOSED"
  expect output "Removing login credentials for $CLOSED"
  expect equal "$(jq -c .auths "$DOCKER_CONFIG/config.json")" '{}'
  run moss push -q "$CLOSED/$name"
  expect status 1
  gone "$CLOSED/$name" "$CLOSED/lib/box:one"
}

@test "login asks on a terminal and does not show the password" {
  run command expect -c "
    set timeout 120
    spawn $moss_bin/moss --host unix://$MOSS_SOCK login $CLOSED
    expect {Username for $CLOSED: }; send ann\\r
    expect {Password: }; send secret\\r
    expect eof
    exit [lindex [wait] 3]"
  expect status 0
  expect contains "Login Succeeded"
  expect lacks "secret"
  run moss login "$CLOSED-other" </dev/null
  expect status 1
  expect contains "stdin is not a terminal"
}

@test "login keeps an identity token in place of the password, and pushes with it" {
  name=$(unique guarded)
  moss tag busybox "$GUARDED/$name"
  run moss push -q "$GUARDED/$name"
  expect status 1
  moss login -u ann --password-stdin "$GUARDED" <<<secret
  config=$(cat "$DOCKER_CONFIG/config.json")
  expect equal "$(jq -r --arg r "$GUARDED" '.auths[$r].auth' <<<"$config" | base64 -d)" ann:
  [ -n "$(jq -r --arg r "$GUARDED" '.auths[$r].identitytoken // empty' <<<"$config")" ] || fail "no identity token:" "$config"
  run moss push -q "$GUARDED/$name"
  expect output "$GUARDED/$name:latest"
  run moss login "$GUARDED"
  expect status 0
  gone "$GUARDED/$name"
}

@test "credentials come from helper programs and from the files of podman" {
  mkdir -p "$BATS_TEST_TMPDIR/bin" "$DOCKER_CONFIG"
  cat >"$BATS_TEST_TMPDIR/bin/docker-credential-drawer" <<'SH'
#!/bin/sh
cd "${0%/*}" || exit 1
echo "$*" >>calls
case $1 in
  store) cat >kept ;;
  get) grep -sF "\"ServerURL\":\"$(cat)\"" kept || { echo "credentials not found in native keychain"; exit 1; } ;;
  erase) rm kept ;;
esac
SH
  chmod +x "$BATS_TEST_TMPDIR/bin/docker-credential-drawer"
  echo '{"credHelpers":{"'"$CLOSED"'":"drawer"},"detachKeys":"ctrl-x"}' >"$DOCKER_CONFIG/config.json"
  export PATH=$BATS_TEST_TMPDIR/bin:$PATH
  run moss login -u ann --password-stdin "$CLOSED" <<<secret
  expect status 0
  expect lacks "unencrypted"
  expect --in "$(cat "$DOCKER_CONFIG/config.json")" lacks secret "$(printf ann:secret | base64)"
  expect equal "$(jq -r .detachKeys "$DOCKER_CONFIG/config.json")" ctrl-x
  expect --in "$(cat "$BATS_TEST_TMPDIR/bin/calls")" lacks secret
  run moss pull -q "$CLOSED/lib/box:one"
  expect output "$CLOSED/lib/box:one"
  moss logout "$CLOSED"
  [ ! -e "$BATS_TEST_TMPDIR/bin/kept" ] || fail "the helper still keeps the password"
  rm "$DOCKER_CONFIG/config.json"
  gone "$CLOSED/lib/box:one"
  mkdir -p "$HOME/.config/containers"
  skopeo login --authfile "$HOME/.config/containers/auth.json" --tls-verify=false -u ann -p secret "$CLOSED"
  run moss pull -q "$CLOSED/lib/box:one"
  expect output "$CLOSED/lib/box:one"
  run moss logout "$CLOSED"
  expect contains "Not logged in to $CLOSED" "still has credentials"
  gone "$CLOSED/lib/box:one"
}

@test "pull, search and login say in words that a registry cannot be reached" {
  run moss pull no-such-host.invalid/box
  expect status 1
  expect contains "registry no-such-host.invalid cannot be reached: name resolution failed: "
  run moss pull "127.0.0.1:1/box"
  expect status 1
  expect contains "registry 127.0.0.1:1 cannot be reached: connection refused"
  run moss search "127.0.0.1:1/box"
  expect contains "registry 127.0.0.1:1 cannot be reached: connection refused"
  run moss login -u me --password-stdin no-such-host.invalid <<<secret
  expect contains "log in to no-such-host.invalid: it cannot be reached: name resolution failed"
}

@test "run and create get a missing image, beside their own output" {
  image=$PLAIN/lib/box:two
  gone "$image" "$PLAIN/lib/box:one"
  run --separate-stderr moss run --rm --pull never "$image" true
  expect status 125
  expect --in "$stderr" contains "is not here"
  run --separate-stderr moss run --rm "$image" echo out
  expect status 0
  expect output out
  expect --in "$stderr" contains "Unable to find image '$image' locally" "Pull complete" "Status: Downloaded newer image"
  run --separate-stderr moss run --rm --pull always "$image" echo out
  expect output out
  expect --in "$stderr" contains "Status: Image is up to date"
  gone "$image"
  run --separate-stderr moss run --rm -q "$image" echo out
  expect output out
  expect equal "$stderr" ""
  gone "$image"
  name=$(unique created)
  run --separate-stderr moss create --name "$name" "$image" true
  expect status 0
  expect matches '^[0-9a-f]{64}$'
  moss rm "$name"
  run --separate-stderr moss run --rm "$PLAIN/lib/none" true
  expect status 125
  expect output ""
  expect --in "$stderr" contains "moss: pull $PLAIN/lib/none: "
}

@test "save writes a whole file or none, load takes it in" {
  one=$(unique one)
  two=$(unique two)
  moss tag busybox "$one:v1"
  moss tag busybox "$two:v1"
  id=$(id_of busybox)
  run moss save -o "$BATS_TEST_TMPDIR/both.tar" "$one:v1" "$two:v1"
  expect status 0
  expect output ""
  expect --in "$(tar -xOf "$BATS_TEST_TMPDIR/both.tar" manifest.json)" contains "$one:v1" "$two:v1"
  moss save "$one:v1" | zstd -q >"$BATS_TEST_TMPDIR/one.tar.zst"
  run moss save -o "$BATS_TEST_TMPDIR/none.tar" "$one:v1" "$(unique missing)"
  expect status 1
  expect equal "$(find "$BATS_TEST_TMPDIR" -name '*none*' -o -name '.moss*')" ""
  run in_pty 24 80 save "$one:v1"
  expect status 125
  expect contains "use -o"
  gone "$one:v1" "$two:v1"
  run moss load -i "$BATS_TEST_TMPDIR/both.tar"
  expect status 0
  expect contains "Loaded image: $one:v1" "Loaded image: $two:v1"
  expect equal "$(id_of "$two:v1")" "$id"
  gone "$one:v1" "$two:v1"
  run in_pty 24 50 load -i "$BATS_TEST_TMPDIR/both.tar"
  expect status 0
  expect contains "Loaded image: $one:v1"
  gone "$one:v1" "$two:v1"
  run moss load -q <"$BATS_TEST_TMPDIR/one.tar.zst"
  expect output "Loaded image: $one:v1"
  run in_pty 24 80 load
  expect status 125
  expect contains "use -i"
  run moss load -i "$BATS_TEST_TMPDIR/none"
  expect status 1
  gone "$one:v1"
}

@test "tag, history, images and their tree" {
  name=$(unique tree)
  moss run --name "$name" busybox sh -c 'head -c 2000000 /dev/urandom >/more'
  moss commit -a "Jane Roe" -m 'two more' -c 'CMD ["sh", "-c", "echo hello"]' "$name" "$name:v1" >/dev/null
  moss rm "$name"
  run moss tag "$name:v1" "$name:v2"
  expect status 0
  expect output ""
  run moss history "$name:v1"
  expect matches '^IMAGE +CREATED +CREATED BY +SIZE +COMMENT$'
  expect matches ' 2MB +two more$'
  expect equal "$(moss history -q --no-trunc "$name:v2" | head -n 1)" "$(id_of "$name:v1")"
  run moss history -H=false --format '{{.Size}}' "$name:v1"
  expect line 0 "$(moss history --format json "$name:v1" | jq -r .Size | head -n 1 | grep -q 2MB && echo "${lines[0]}")"
  expect matches '^2[0-9]{6}$'
  run moss images --format '{{.Repository}}:{{.Tag}}' --filter "reference=$name"
  expect contains "$name:v1" "$name:v2"
  run moss images --tree
  expect matches '^IMAGE +IMAGE ID +LAYERS +SIZE +ADDED$'
  expect matches "^[│ ]*[├└]─ $name:v1, 1 more +[0-9a-f]{12} +2 +[0-9.]+MB +2MB"
  run moss image inspect --format '{{.Author}} {{.Comment}} {{join .Config.Cmd " "}}' "$name:v1"
  expect output 'Jane Roe two more sh -c echo hello'
  run moss image rm "$name:v1" "$name:v2"
  expect contains "Untagged: $name:v1" "Untagged: $name:v2" "Deleted: sha256:"
}

@test "prune asks first, and gives back what it says" {
  name=$(unique prune)
  moss run --name "$name" --label "of=$name" busybox sh -c 'head -c 1000000 /dev/urandom >/f'
  moss commit "$name" "$name" >/dev/null
  run moss container prune --filter "label=of=$name" <<<n
  expect status 1
  expect contains "This removes:" "all containers that do not run" "Are you sure? [y/N]" "nothing is removed"
  expect equal "$(state "$name")" exited
  run moss container prune --filter "label=of=$name" <<<y
  expect status 0
  expect contains "Deleted Containers:" "Total reclaimed space: 1MB"
  is_gone "$name"
  moss tag busybox "$name" # the committed image has no name any more
  run --separate-stderr moss image prune -f
  expect status 0
  expect contains "Deleted Images:" "deleted: sha256:" "Total reclaimed space: 1MB"
  run moss image prune -f
  expect output "Total reclaimed space: 0B"
  gone "$name"
  volume=$(unique volume)
  moss volume create --label "of=$volume" "$volume"
  run moss volume prune -f --filter "label=of=$volume"
  expect output "Total reclaimed space: 0B"
  run moss volume prune -af --filter "label=of=$volume"
  expect contains "Deleted Volumes:" "$volume"
  run moss system prune --volumes <<<n
  expect status 1
  expect contains "all images without a name" "all volumes that no container uses"
}

@test "system df counts a shared layer once" {
  name=$(unique df)
  used() { moss system df --format json | jq -r "select(.Type == \"$1\") | .$2"; }
  bytes() { answer_of /v1.24/system/df .LayersSize; }
  before=$(bytes)
  total=$(used Images TotalCount)
  moss run --name "$name" busybox sh -c 'head -c 5000000 /dev/urandom >/f'
  moss commit "$name" "$name" >/dev/null
  expect equal "$(used Images TotalCount)" $((total + 1))
  added=$(($(bytes) - before))
  [ $added -ge 5000000 ] && [ $added -lt 5100000 ] || fail "5 MB more are counted as $added"
  run moss system df
  expect line 0 "TYPE            TOTAL     ACTIVE    SIZE      RECLAIMABLE"
  expect matches '^Images +[0-9]+ +[0-9]+ +[0-9.]+MB +[0-9.]+[kM]?B \([0-9]+%\)$'
  expect matches '^Containers +[0-9]+ +0 +5MB +5MB \(100%\)$'
  expect matches '^Local Volumes +'
  # Exactly what a prune of images gives back, and not what is shared with images in use.
  expect equal "$(answer_of /v1.24/system/df '.LayersSize - .LayersUsed')" \
    "$(answer_of /v1.24/system/df '[.Images[] | select(.Containers == 0) | .UniqueSize] | add')"
  run moss system df -v
  expect contains "SHARED SIZE" "UNIQUE SIZE" "$name"
  moss rm "$name"
  gone "$name"
  expect equal "$(bytes)" "$before"
}

@test "import takes a URL that the engine fetches" {
  name=$(unique import)
  (cd "$MOSS_DIR" && exec python3 -c '
import http.server, sys
class H(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args): pass
s = http.server.HTTPServer(("127.0.0.1", 0), H)
print(s.server_address[1], flush=True)
s.serve_forever()') >"$BATS_TEST_TMPDIR/port" 2>/dev/null 3>&- 4>&- &
  server=$!
  eventually 10 test -s "$BATS_TEST_TMPDIR/port"
  run moss import -m 'from afar' "http://127.0.0.1:$(cat "$BATS_TEST_TMPDIR/port")/busybox.tar" "$name:v1"
  expect status 0
  expect matches '^sha256:[0-9a-f]{64}$'
  expect equal "$(moss inspect --format '{{.Comment}}' "$name:v1")" "from afar"
  run moss import "http://127.0.0.1:$(cat "$BATS_TEST_TMPDIR/port")/none.tar"
  expect status 1
  kill "$server"
  gone "$name:v1"
}

@test "search shows what the registry has" {
  run moss search "$PLAIN/box"
  expect status 0
  expect line 0 "NAME      DESCRIPTION   STARS     OFFICIAL"
  expect matches '^lib/box '
  run moss search --format '{{.Name}} {{.StarCount}}' --filter stars=1 "$PLAIN/box"
  expect output ""
  run moss search --limit 1000 box
  expect status 125
  run moss search 127.0.0.1:1/box
  expect status 1
  expect matches '^moss: .'
}

@test "groups and completion know the commands" {
  run moss image ls -q busybox
  expect equal "$output" "$(moss images -q busybox)"
  run moss container ls -a
  expect contains "CONTAINER ID"
  run moss __complete image rm busy
  expect contains busybox:latest
  run moss __complete push busy
  expect contains busybox:latest
  run moss __complete im
  expect contains image images import
  for command in image container system volume pull login; do
    run moss "$command" --help
    expect status 0
    expect contains Usage: Examples:
  done
}
