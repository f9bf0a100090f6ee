#!/usr/bin/env bats
# The docker command line on images: pull, push, save, load, login, search, images, rmi, history, tag, import, commit.

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
  # What the tests pull is put there by a program that shares nothing with the engine but the archive.
  dock save -o "$MOSS_DIR/box.tar" busybox:latest
  for tag in one two; do
    skopeo copy -q --dest-tls-verify=false "docker-archive:$MOSS_DIR/box.tar" "docker://$PLAIN/lib/box:$tag"
  done
}
teardown_file() {
  stop_registries
  stop_engine
}
setup() { begin; }
teardown() {
  [ -z "${server:-}" ] || kill "$server"
  finish
}

# serve_files DIR: serves a folder by HTTP until the test's end; FILES_URL says where.
serve_files() {
  python3 -c 'import http.server, sys
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Quiet(*a, directory=sys.argv[1]))
print(server.server_address[1], flush=True)
server.serve_forever()' "$1" >"$BATS_TEST_TMPDIR/port" 3>&- 4>&- &
  server=$!
  eventually 10 test -s "$BATS_TEST_TMPDIR/port"
  FILES_URL=http://127.0.0.1:$(cat "$BATS_TEST_TMPDIR/port")
}

id_of() { dock image inspect --format '{{.Id}}' "$1"; }

@test "pull: a tag, a digest, all tags, quietly, again" {
  run dock pull "$PLAIN/lib/box:one"
  expect status 0
  expect contains "one: Pulling from lib/box" "Digest: sha256:" "Status: Downloaded newer image for $PLAIN/lib/box:one"
  expect equal "$(id_of "$PLAIN/lib/box:one")" "$(id_of busybox)"
  run dock pull "$PLAIN/lib/box:one"
  expect contains "Status: Image is up to date for $PLAIN/lib/box:one"
  digest=$(skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$PLAIN/lib/box:two")
  run dock pull "$PLAIN/lib/box@$digest"
  expect status 0
  expect contains "Digest: $digest"
  expect --in "$(dock image inspect --format '{{json .RepoDigests}}' "$PLAIN/lib/box@$digest")" contains "$PLAIN/lib/box@$digest"
  run dock pull -a "$PLAIN/lib/box"
  expect status 0
  expect contains "one: Pulling from" "two: Pulling from"
  run --separate-stderr dock pull -q "$PLAIN/lib/box:two"
  expect output "$PLAIN/lib/box:two"
  run dock run --rm "$PLAIN/lib/box:two" cat /var/www/index.html
  expect output "hello from busybox"
}

@test "a terminal shows one line for each layer" {
  # It has a layer of its own, so that nothing of it is here already.
  head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/data"
  tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/data.tar" data
  dock import "$BATS_TEST_TMPDIR/data.tar" "$PLAIN/drawn/data:1"
  run shown 24 100 env DOCKER_HOST="unix://$MOSS_SOCK" docker push "$PLAIN/drawn/data:1"
  expect status 0
  # Cursor up, clear the line, write: the messages of a layer follow each other in one line.
  expect matches '^.\[1A.\[2K.*: Preparing .*: Pushing .*: Pushed '
  dock rmi "$PLAIN/drawn/data:1"
  run shown 24 100 env DOCKER_HOST="unix://$MOSS_SOCK" docker pull "$PLAIN/drawn/data:1"
  expect status 0
  expect line 0 $'1: Pulling from drawn/data\r'
  expect matches '^.\[1A.\[2K.*: Pulling fs layer .*: Download complete .*: Pull complete '
  dock rmi "$PLAIN/drawn/data:1"
}

@test "pull: what is not there, and what may not be seen" {
  run dock pull "$PLAIN/lib/box:none"
  expect status 1
  expect contains "manifest for $PLAIN/lib/box:none not found"
  run dock pull "$PLAIN/lib/nothing"
  expect status 1
  expect contains "not found"
  run dock pull "$CLOSED/a/b"
  expect status 1
  run dock pull "127.0.0.1:1/a/b"
  expect status 1
  expect contains "127.0.0.1:1" "refused"
}

@test "run pulls what is missing" {
  dock rmi -f "$PLAIN/lib/box:one" || true
  run --separate-stderr dock run --rm "$PLAIN/lib/box:one" echo pulled
  expect status 0
  expect output pulled
  expect --in "$stderr" contains "Unable to find image '$PLAIN/lib/box:one' locally" "Downloaded newer image"
}

@test "tag and push: another registry's client finds the same image" {
  name=$(unique lib/sent)
  dock tag busybox "$PLAIN/$name:v1"
  run dock push "$PLAIN/$name:v1"
  expect status 0
  expect contains "The push refers to repository [$PLAIN/$name]" "v1: digest: sha256:"
  digest=$(grep -o 'digest: sha256:[0-9a-f]*' <<<"$output" | cut -d' ' -f2)
  expect equal "$(skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$PLAIN/$name:v1")" "$digest"
  expect equal "$(skopeo inspect --raw --tls-verify=false "docker://$PLAIN/$name:v1" | jq -r .config.digest)" "$(id_of busybox)"
  run dock push "$PLAIN/$name:v1"
  expect contains "Layer already exists" "$digest"
  run dock push "$PLAIN/$name:none"
  expect status 1
  expect contains "tag does not exist: $PLAIN/$name:none"
  dock tag busybox "$PLAIN/$name:v2"
  run dock push -a "$PLAIN/$name"
  expect status 0
  expect contains "v1: digest" "v2: digest"
  expect equal "$(skopeo list-tags --tls-verify=false "docker://$PLAIN/$name" | jq -c .Tags)" '["v1","v2"]'
  run dock tag no-such-image "$PLAIN/$name:x"
  expect status 1
  expect contains "No such image"
  run dock tag busybox "Bad/Name"
  expect status 1
}

@test "login, a closed registry, logout" {
  name=$(unique private)
  run dock login -u ann --password-stdin "$CLOSED" <<<wrong
  expect status 1
  expect contains "unauthorized"
  run dock login -u ann --password-stdin "$CLOSED" <<<secret
  expect status 0
  expect contains "Login Succeeded"
  dock tag busybox "$CLOSED/$name"
  run dock push "$CLOSED/$name"
  expect status 0
  dock rmi "$CLOSED/$name"
  run dock pull "$CLOSED/$name"
  expect status 0
  run dock logout "$CLOSED"
  expect status 0
  run dock push "$CLOSED/$name"
  expect status 1
  run dock pull "$CLOSED/$name"
  expect status 1
}

@test "save and load: by name, by id, several, through a pipe" {
  name=$(unique saved)
  dock tag busybox "$name:a"
  dock tag busybox "$name:b"
  id=$(id_of busybox)
  dock save -o "$BATS_TEST_TMPDIR/a.tar" "$name:a" "$name:b"
  expect equal "$(tar -xOf "$BATS_TEST_TMPDIR/a.tar" manifest.json | jq -c '.[0].RepoTags')" "[\"$name:a\",\"$name:b\"]"
  dock rmi "$name:a" "$name:b"
  run dock load -i "$BATS_TEST_TMPDIR/a.tar"
  expect status 0
  expect contains "Loaded image: $name:a" "Loaded image: $name:b"
  expect equal "$(id_of "$name:b")" "$id"
  dock save "$name:a" | gzip >"$BATS_TEST_TMPDIR/a.tar.gz"
  dock rmi "$name:a"
  run dock load -q <"$BATS_TEST_TMPDIR/a.tar.gz"
  expect output "Loaded image: $name:a"
  dock save -o "$BATS_TEST_TMPDIR/id.tar" "$id"
  run dock load -i "$BATS_TEST_TMPDIR/id.tar"
  expect contains "Loaded image ID: $id"
  run dock save -o "$BATS_TEST_TMPDIR/none.tar" no-such-image
  expect status 1
  expect contains "No such image"
  run dock load <<<"no archive"
  expect status 1
  dock rmi "$name:a" "$name:b"
}

@test "images: names, filters, digests, formats" {
  name=$(unique listed)
  printf 'FROM scratch\n' >"$BATS_TEST_TMPDIR/x"
  tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/l.tar" x
  id=$(dock import -c 'LABEL color=red' "$BATS_TEST_TMPDIR/l.tar" "$name:1")
  dock tag "$name:1" "$name:2"
  run dock images --format '{{.Repository}}:{{.Tag}}' "$name"
  expect contains "$name:1" "$name:2"
  run dock images -q --no-trunc "$name:2"
  expect output "$id"
  run dock images -q --no-trunc --filter label=color=red
  expect contains "$id"
  run dock images -q --no-trunc --filter label=color=blue
  expect lacks "$id"
  run dock images -q --no-trunc --filter "before=$name:1"
  expect contains "$(id_of busybox)"
  expect lacks "$id"
  run dock images -q --no-trunc --filter since=busybox
  expect contains "$id"
  run dock images -q --no-trunc --filter "reference=$name"
  expect contains "$id"
  dock import "$BATS_TEST_TMPDIR/l.tar" "$name:1" # takes one name
  dock tag busybox "$name:2"                      # and the other
  run dock images -q --no-trunc --filter dangling=true
  expect contains "$id"
  run dock images --digests "$PLAIN/lib/box"
  expect status 0
  expect contains "sha256:"
  run dock images --filter nonsense=1
  expect status 1
  dock rmi "$id" "$name:1" "$name:2"
}

@test "history and image inspect" {
  run dock history --no-trunc --format '{{.ID}} {{.Size}} {{.Comment}}' busybox
  expect status 0
  expect matches "^$(id_of busybox) [0-9.]+MB "
  run dock history -q busybox
  expect status 0
  run dock history no-such-image
  expect status 1
  record=$(dock image inspect busybox)
  expect equal "$(jq -r '.[0] | "\(.Os) \(.Architecture) \(.RootFS.Type) \(.RootFS.Layers | length)"' <<<"$record")" \
    "linux $(go env GOARCH 2>/dev/null || dpkg --print-architecture) layers 1"
}

@test "rmi: names, ids, what is in use, force" {
  name=$(unique gone)
  id=$(dock import - "$name:1" <"$MOSS_DIR/busybox.tar")
  dock tag "$name:1" "$name:2"
  run dock rmi "$name:1"
  expect output "Untagged: $name:1"
  dock tag "$name:2" "$(unique other):x"
  run dock rmi "$id"
  expect status 1
  expect contains "must be forced" "referenced in multiple repositories"
  run dock rmi -f "$id"
  expect status 0
  expect contains "Untagged: $name:2" "Deleted: $id"
  dock import - "$name:3" <"$MOSS_DIR/busybox.tar"
  box=$(dock create "$name:3" true)
  run dock rmi "$name:3"
  expect status 1
  expect contains "unable to remove repository reference" "container ${box:0:12} is using its referenced image"
  run dock rmi -f "$name:3"
  expect status 0
  dock rm "$box"
  run dock rmi no-such-image
  expect status 1
  expect contains "No such image"
}

@test "import from a file, from stdin and from a URL; commit" {
  name=$(unique made)
  run dock import -m words -c 'CMD ["echo", "from file"]' "$MOSS_DIR/busybox.tar" "$name:file"
  expect status 0
  run --separate-stderr dock run --rm "$name:file"
  expect output "from file"
  serve_files "$MOSS_DIR"
  run dock import -c 'CMD ["echo", "from url"]' "$FILES_URL/busybox.tar" "$name:url"
  expect status 0
  run --separate-stderr dock run --rm "$name:url"
  expect output "from url"
  run dock import "$FILES_URL/none.tar" "$name:none"
  expect status 1
  dock run --name "$name" busybox sh -c 'echo kept >/kept'
  run dock commit -a 'A <a@b>' -m 'my words' -c 'CMD ["cat", "/kept"]' "$name" "$name:commit"
  expect matches '^sha256:[0-9a-f]{64}$'
  run dock run --rm "$name:commit"
  expect output kept
  expect equal "$(dock image inspect --format '{{.Author}}|{{.Comment}}' "$name:commit")" 'A <a@b>|my words'
  dock rm "$name"
  dock rmi "$name:file" "$name:url" "$name:commit"
}

@test "search asks the registry's index" {
  run dock search --format '{{.Name}}' "$PLAIN/box"
  expect status 0
  expect contains lib/box
  run dock search --limit 1 --format '{{.Name}}' "$PLAIN/box"
  expect equal "${#lines[@]}" 1
}

@test "events of images" {
  name=$(unique told)
  since=$(date +%s)
  dock import - "$name:1" <"$MOSS_DIR/busybox.tar"
  dock tag "$name:1" "$PLAIN/$name:1"
  dock push "$PLAIN/$name:1"
  dock save -o "$BATS_TEST_TMPDIR/e.tar" "$name:1"
  dock rmi "$name:1" "$PLAIN/$name:1"
  dock pull "$PLAIN/$name:1"
  dock load -i "$BATS_TEST_TMPDIR/e.tar"
  run dock events --since "$since" --until "$(($(date +%s) + 1))" --filter type=image --format '{{.Action}}'
  for action in import tag push save untag delete pull load; do
    expect matches "^$action\$"
  done
  dock rmi "$name:1" "$PLAIN/$name:1"
}
