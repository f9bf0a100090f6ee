#!/usr/bin/env bats
# Images on their way to registries: what is sent and what is not, the same bytes again, what a push leaves; names, history
# and room of images; archives from URLs. skopeo reads what moss has pushed.

load lib/moss
load lib/registry

setup_file() {
  start_engine
  import_busybox
  start_registry a
  export A=$REGISTRY
  start_registry b
  export B=$REGISTRY
  # An image of three layers.
  moss tag busybox base:1
  for i in 2 3; do
    moss run --name layers base:$((i - 1)) sh -c "seq $i 20000 >/file$i; rm -f /var/www/index.html"
    moss commit -m "layer $i" layers "base:$i" >/dev/null
    moss rm layers
  done
}
teardown_file() {
  stop_registries
  stop_engine
}
setup() { begin; }
teardown() {
  finish
  if [ -n "${first_socket:-}" ] && [ "$MOSS_SOCK" != "$first_socket" ]; then stop_engine; fi
}

look() { skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$1"; }
raw() { skopeo inspect --tls-verify=false --raw "docker://$1"; }
id_of() { moss inspect --type image "$1" | jq -r '.[0].Id'; }

# uploads NAME: how many blobs a registry has been sent since forget_log.
uploads() { registry_log "$1" | grep -c '^PATCH ' || true; }
forget_log() { : >"$(registry_dir "$1")/log"; }

# fetch IMAGE DIR: skopeo brings an image into a folder and checks every digest on the way; here the layers are compared
# with what the config says of them.
fetch() {
  rm -rf "$2"
  skopeo copy -q --src-tls-verify=false "docker://$1" "dir:$2"
  local config blob
  config=$(jq -r .config.digest "$2/manifest.json")
  mapfile -t want < <(jq -r '.rootfs.diff_ids[]' "$2/${config#sha256:}")
  local got=()
  for blob in $(jq -r '.layers[].digest' "$2/manifest.json"); do
    got+=("sha256:$(zstd -dcf --format=gzip "$2/${blob#sha256:}" 2>/dev/null | sha256sum | cut -d' ' -f1)")
  done
  expect equal "${got[*]}" "${want[*]}"
}

@test "a pushed image is whole for others: manifest, config and layers" {
  name=$A/$(unique made)
  moss tag base:3 "$name:v1"
  run moss push "$name:v1"
  expect status 0
  expect contains "The push refers to repository [$name]"
  digest=$(look "$name:v1")
  size=$(raw "$name:v1" | wc -c)
  expect contains "v1: digest: $digest size: $size"
  fetch "$name:v1" "$BATS_TEST_TMPDIR/dir"
  expect equal "$(jq -r .config.digest "$BATS_TEST_TMPDIR/dir/manifest.json")" "$(id_of base:3)"
  expect equal "$(jq -r .mediaType "$BATS_TEST_TMPDIR/dir/manifest.json")" application/vnd.docker.distribution.manifest.v2+json
  expect equal "$(jq '.layers | length' "$BATS_TEST_TMPDIR/dir/manifest.json")" 3
  expect --in "$(moss inspect --type image base:3 | jq -c '.[0].RepoDigests')" contains "$name@$digest"
  moss rmi "$name:v1"
}

@test "there and back: same image, same manifest" {
  name=$A/$(unique back)
  head -c 100000 /dev/urandom >"$BATS_TEST_TMPDIR/noise" # nothing else has these layers
  tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/noise.tar" noise -C "$MOSS_DIR" busybox.tar
  moss import -c 'ENV a=b' "$BATS_TEST_TMPDIR/noise.tar" "$name:1"
  old=$(id_of "$name:1")
  moss push -q "$name:1"
  digest=$(look "$name:1")
  moss rmi "$name:1"
  run moss inspect --type image "$old"
  [ "$status" -ne 0 ] || fail "the image is still here"
  moss pull -q "$name:1"
  expect equal "$(id_of "$name:1")" "$old"
  moss tag "$name:1" "$B/again:1"
  moss push -q "$B/again:1"
  expect equal "$(look "$B/again:1")" "$digest"
  fetch "$B/again:1" "$BATS_TEST_TMPDIR/dir"
  moss rmi "$name:1" "$B/again:1"
}

@test "what the registry has is not sent again, and another repository's layers are taken over" {
  name=$(unique twice)
  moss tag base:3 "$A/$name:1"
  moss push -q "$A/$name:1"
  digest=$(look "$A/$name:1")
  forget_log a
  run moss push "$A/$name:1"
  expect status 0
  expect contains "Layer already exists"
  expect lacks Pushed Mounted
  moss tag base:3 "$A/other/$name:2"
  run moss push "$A/other/$name:2"
  expect status 0
  expect contains "Mounted from "
  expect lacks Pushed "already exists"
  expect equal "$(uploads a)" 1 # the config
  expect equal "$(look "$A/other/$name:2")" "$digest"
  # A layer more is one upload more.
  moss run --name "$name" base:3 touch /new
  moss commit "$name" "$A/$name:3"
  forget_log a
  moss push -q "$A/$name:3"
  expect equal "$(uploads a)" 2
  fetch "$A/$name:3" "$BATS_TEST_TMPDIR/dir"
  moss rm "$name"
  moss rmi "$A/$name:1" "$A/$name:3" "$A/other/$name:2"
}

@test "what came with zstd or as OCI goes on byte for byte, and to an empty registry as the same image" {
  # An image that the engine does not have: what it has it knows in the form only in which it came.
  head -c 100000 /dev/urandom >"$BATS_TEST_TMPDIR/noise"
  tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/noise.tar" noise -C "$MOSS_DIR" busybox.tar
  name=$(unique strange)
  moss import "$BATS_TEST_TMPDIR/noise.tar" "$name"
  moss create --name "$name" "$name" x
  seq 10000 >"$BATS_TEST_TMPDIR/numbers"
  moss cp "$BATS_TEST_TMPDIR/numbers" "$name:/numbers"
  moss commit "$name" "$name:2"
  moss save -o "$BATS_TEST_TMPDIR/box.tar" "$name:2"
  moss rm "$name"
  moss rmi "$name:2" "$name"
  for kind in "v2s2 gzip" "oci gzip" "oci zstd"; do
    read -r format how <<<"$kind"
    name=$(unique "$format-$how")
    skopeo copy -q --dest-tls-verify=false --format "$format" --dest-compress-format "$how" --dest-compress \
      "docker-archive:$BATS_TEST_TMPDIR/box.tar" "docker://$A/$name:1"
    digest=$(look "$A/$name:1")
    moss pull -q "$A/$name:1"
    id=$(id_of "$A/$name:1")
    moss tag "$A/$name:1" "$A/copy/$name:2"
    forget_log a
    run moss push "$A/copy/$name:2"
    expect status 0
    expect lacks Pushed
    expect equal "$(look "$A/copy/$name:2")" "$digest"
    moss tag "$A/$name:1" "$B/$name:3"
    run moss push "$B/$name:3"
    expect status 0
    expect equal "$(raw "$B/$name:3" | jq -r .mediaType)" "$(raw "$A/$name:1" | jq -r .mediaType)"
    fetch "$B/$name:3" "$BATS_TEST_TMPDIR/dir"
    # The next push finds what this one has sent.
    run moss push "$B/$name:3"
    expect lacks Pushed
    moss rmi "$A/$name:1" "$A/copy/$name:2" "$B/$name:3"
    moss pull -q "$B/$name:3"
    expect equal "$(id_of "$B/$name:3")" "$id"
    moss rmi "$B/$name:3"
  done
}

@test "an image that was pulled by an index pushes its own platform's manifest" {
  name=$(unique index)
  moss tag base:2 "$A/$name:one"
  moss push -q "$A/$name:one"
  digest=$(look "$A/$name:one")
  arch=$(moss inspect --type image base:2 | jq -r '.[0].Architecture')
  jq -n --arg d "$digest" --argjson s "$(raw "$A/$name:one" | wc -c)" --arg a "$arch" '{schemaVersion: 2,
    mediaType: "application/vnd.docker.distribution.manifest.list.v2+json", manifests: [{
      mediaType: "application/vnd.docker.distribution.manifest.v2+json", digest: $d, size: $s, platform: {os: "linux", architecture: $a}}]}' \
    >"$BATS_TEST_TMPDIR/index"
  curl -fsS -X PUT -H 'Content-Type: application/vnd.docker.distribution.manifest.list.v2+json' \
    --data-binary @"$BATS_TEST_TMPDIR/index" "http://$A/v2/$name/manifests/many"
  moss rmi "$A/$name:one"
  moss pull -q "$A/$name:many"
  moss tag "$A/$name:many" "$A/$name:mine"
  moss push -q "$A/$name:mine"
  expect equal "$(look "$A/$name:mine")" "$digest"
  moss rmi "$A/$name:many" "$A/$name:mine"
}

@test "two engines send the same bytes" {
  name=$(unique same)
  moss tag base:3 "$A/$name:1"
  moss push -q "$A/$name:1"
  moss save -o "$MOSS_DIR/$name.tar" base:3
  moss rmi "$A/$name:1"
  archive=$MOSS_DIR/$name.tar
  first_socket=$MOSS_SOCK
  first=("$MOSS_DIR" "$MOSS_DATA" "$MOSS_SOCK" "$MOSSD_PID")
  start_engine
  moss load -q -i "$archive"
  moss tag base:3 "$B/$name:1"
  moss push -q "$B/$name:1"
  stop_engine
  MOSS_DIR=${first[0]} MOSS_DATA=${first[1]} MOSS_SOCK=${first[2]} MOSSD_PID=${first[3]}
  expect equal "$(look "$B/$name:1")" "$(look "$A/$name:1")"
  rm "$archive"
}

@test "docker push: one tag, all tags, and what is not here" {
  name=$A/$(unique tags)
  dock tag base:1 "$name:1"
  dock tag base:2 "$name:2"
  run dock push "$name:1"
  expect status 0
  expect contains "1: digest: $(look "$name:1") size: "
  run skopeo inspect --tls-verify=false "docker://$name:2"
  [ "$status" -ne 0 ] || fail "the other tag was pushed too"
  run dock push -a "$name"
  expect status 0
  expect contains "1: digest: $(look "$name:1")" "2: digest: $(look "$name:2")"
  run dock push "$name:3"
  expect status 1
  expect contains "tag does not exist: $name:3"
  run dock push "$A/nothing/here"
  expect status 1
  expect contains "An image does not exist locally with the tag: $A/nothing/here"
  dock rmi "$name:1" "$name:2"
}

@test "the last message carries the tag, the digest and the size" {
  name=$A/$(unique aux)
  moss tag base:1 "$name:x"
  run curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X POST -H "X-Registry-Auth: $(echo -n '{}' | base64)" "http://moss/images/$name/push?tag=x"
  expect status 0
  expect equal "$(jq -c 'select(.aux) | .aux' <<<"$output")" "{\"Digest\":\"$(look "$name:x")\",\"Size\":$(raw "$name:x" | wc -c),\"Tag\":\"x\"}"
  moss rmi "$name:x"
}

@test "events: tag, push, untag, delete" {
  name=$A/$(unique events)
  since=$(date +%s)
  id=$(moss import -q "$MOSS_DIR/busybox.tar" 2>/dev/null || moss import "$MOSS_DIR/busybox.tar")
  moss tag "$id" "$name:1"
  moss push -q "$name:1"
  moss rmi "$name:1"
  actions=$(api GET "/events?since=$since&until=$(($(date +%s) + 1))" | jq -r --arg id "$id" --arg n "$name:1" \
    'objects | select(.id == $id or .id == $n) | .status + " " + (.Actor.Attributes.name | sub("@sha256:[0-9a-f]{64}$"; "@DIGEST"))' 2>/dev/null)
  expect equal "$actions" "import $id
tag $name:1
push $name
untag $name:1
untag $name@DIGEST
delete $name:1"
}

@test "images without layers, and with one layer twice" {
  name=$(unique odd)
  /usr/bin/env python3 - "$BATS_TEST_TMPDIR" <<'PY'
import hashlib, io, json, sys, tarfile
def archive(path, tag, layers):
    with tarfile.open(path, "w") as t:
        def add(name, data):
            i = tarfile.TarInfo(name); i.size = len(data); t.addfile(i, io.BytesIO(data))
        ids = ["sha256:" + hashlib.sha256(l).hexdigest() for l in layers]
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": ids}}).encode()
        add("c.json", config)
        for n, l in enumerate(layers): add(f"{n}/layer.tar", l)
        add("manifest.json", json.dumps([{"Config": "c.json", "RepoTags": [tag], "Layers": [f"{n}/layer.tar" for n in range(len(layers))]}]).encode())
def tar(name):
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w") as t:
        i = tarfile.TarInfo(name); i.size = 1; t.addfile(i, io.BytesIO(b"x"))
    return b.getvalue()
one, two = tar("one"), tar("two")
archive(sys.argv[1] + "/none.tar", "odd:none", [])
archive(sys.argv[1] + "/twice.tar", "odd:twice", [one, two, one])
PY
  for kind in none twice; do
    moss load -q -i "$BATS_TEST_TMPDIR/$kind.tar"
    moss tag "odd:$kind" "$A/$name:$kind"
    run moss push "$A/$name:$kind"
    expect status 0
    id=$(id_of "odd:$kind")
    fetch "$A/$name:$kind" "$BATS_TEST_TMPDIR/dir"
    moss rmi "$A/$name:$kind" "odd:$kind"
    moss pull -q "$A/$name:$kind"
    expect equal "$(id_of "$A/$name:$kind")" "$id"
    moss rmi "$A/$name:$kind"
  done
}

@test "a client that goes ends its push; the image cannot be removed before" {
  name=$(unique gone)
  head -c 30000000 /dev/urandom >"$BATS_TEST_TMPDIR/noise"
  tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/noise.tar" noise
  moss import "$BATS_TEST_TMPDIR/noise.tar" "$B/$name:1"
  server=$(cat "$(registry_dir b)/pid")
  forget_log b
  # The registry answers until the first bytes of the layer are under way, and then no more.
  curl -sS --unix-socket "$MOSS_SOCK" -X POST -H 'X-Registry-Auth: e30=' "http://moss/images/$B/$name/push?tag=1" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  client=$!
  begun() { registry_log b | grep -q "^POST /v2/$name/blobs/uploads/"; }
  eventually 20 begun
  kill -STOP "$server"
  run moss rmi "$B/$name:1"
  removed=$status text=$output
  [ "$removed" = 0 ] || kill -KILL "$client"
  free() { moss rmi "$B/$name:1" >/dev/null 2>&1; }
  [ "$removed" = 0 ] || eventually 20 free
  kill -CONT "$server"
  if [ "$removed" = 0 ]; then # the upload was faster than the signal
    wait "$client"
    grep -q "digest:" "$BATS_TEST_TMPDIR/out"
  else
    expect --in "$text" contains "is being pushed"
    run skopeo inspect --tls-verify=false "docker://$B/$name:1"
    [ "$status" -ne 0 ] || fail "the image arrived"
  fi
}

@test "a registry that goes away in the middle, or is not there: an error, and the image is free again" {
  name=$(unique down)
  head -c 30000000 /dev/urandom >"$BATS_TEST_TMPDIR/noise"
  tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/noise.tar" noise
  start_registry "$name"
  image=$REGISTRY/$name:1
  moss import "$BATS_TEST_TMPDIR/noise.tar" "$image"
  moss push "$image" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
  client=$!
  begun() { registry_log "$name" | grep -q "^POST /v2/$name/blobs/uploads/"; }
  eventually 20 begun
  kill -KILL "$(cat "$(registry_dir "$name")/pid")"
  status=0
  wait $client || status=$?
  # The push may have been faster than the signal.
  [ "$status" -ne 0 ] || grep -q "digest:" "$BATS_TEST_TMPDIR/out"
  run moss push "$image"
  [ "$status" -ne 0 ] || fail "pushed to nobody"
  expect contains refused
  moss rmi "$image"
}

@test "import from a URL: progress, comment, redirects, errors" {
  mkdir "$BATS_TEST_TMPDIR/www"
  gzip -c "$MOSS_DIR/busybox.tar" >"$BATS_TEST_TMPDIR/www/box.tar.gz"
  echo text >"$BATS_TEST_TMPDIR/www/text"
  (cd "$BATS_TEST_TMPDIR/www" && exec python3 -u -m http.server --bind 127.0.0.1 0) >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
  server=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/log" "Serving HTTP"
  port=$(sed -nE 's/.* port ([0-9]+) .*/\1/p' "$BATS_TEST_TMPDIR/log")
  name=$(unique url)
  run dock import "http://127.0.0.1:$port/box.tar.gz" "$name:1"
  expect status 0
  expect contains "Downloading from http://127.0.0.1:$port/box.tar.gz" "sha256:"
  expect equal "$(moss inspect --type image "$name:1" | jq -r '.[0].Comment')" "Imported from http://127.0.0.1:$port/box.tar.gz"
  expect equal "$(moss run --rm "$name:1" echo works)" works
  run api POST "/images/create?fromSrc=127.0.0.1:$port/box.tar.gz&repo=$name&tag=2"
  expect line -1 200
  expect contains "Downloading from http://127.0.0.1:$port/box.tar.gz"
  run curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X POST "http://moss/images/create?fromSrc=http://127.0.0.1:$port/box.tar.gz&repo=$name&tag=3"
  expect --in "$(jq -r 'select(.status == "Downloading") | .progressDetail.total' <<<"$output" | sort -u)" output "$(stat -c %s "$BATS_TEST_TMPDIR/www/box.tar.gz")"
  for bad in "http://127.0.0.1:$port/none" "http://127.0.0.1:$port/text" "http://127.0.0.1:1/x" "ftp://127.0.0.1/x" "file:///etc/passwd"; do
    run dock import "$bad" "$name:bad"
    expect status 1
  done
  run moss inspect --type image "$name:bad"
  [ "$status" -ne 0 ] || fail "something was imported"
  moss rmi "$name:1" "$name:2" "$name:3"
  kill $server
}

@test "tag: moves names, refuses what is none" {
  name=$(unique tagged)
  run api POST "/images/base:1/tag?repo=$name&tag=x"
  expect line -1 201
  expect equal "$(id_of "$name:x")" "$(id_of base:1)"
  run api POST "/images/base:2/tag?repo=$name&tag=x"
  expect line -1 201
  expect equal "$(id_of "$name:x")" "$(id_of base:2)"
  run api POST "/images/none:at-all/tag?repo=$name&tag=x"
  expect line -1 404
  for bad in "repo=UPPER" "repo=$name&tag=-x" "repo=$name@$(id_of base:1)" "repo=$name&tag=$(id_of base:1)" ""; do
    run api POST "/images/base:1/tag?$bad"
    expect line -1 400
  done
  dock rmi "$name:x"
}

@test "history: steps, sizes, names and ids" {
  run dock history --no-trunc --format '{{.ID}} {{.Comment}}' base:3
  expect status 0
  expect equal "${#lines[@]}" 3
  expect line 0 "$(id_of base:3) layer 3"
  expect line 1 "$(id_of base:2) layer 2"
  sizes=$(answer_of /images/base:3/history '[.[].Size] | add')
  expect equal "$sizes" "$(moss inspect --type image base:3 | jq '.[0].Size')"
  expect equal "$(answer_of /images/base:3/history -c '.[0].Tags')" '["base:3"]'
  run api GET /images/none:at-all/history
  expect line -1 404
}

@test "removal by digest takes that name alone; the last tag takes the digests of its repository along" {
  name=$A/$(unique digests)
  moss tag base:1 "$name:1"
  moss push -q "$name:1"
  digest=$(look "$name:1")
  run dock rmi "$name@$digest"
  expect output "Untagged: $name@$digest"
  moss push -q "$name:1"
  run dock rmi "$name:1"
  expect output "Untagged: $name:1
Untagged: $name@$digest"
  expect equal "$(id_of base:1)" "$(id_of busybox)"
}

@test "prune takes what nobody uses and tells the bytes that came free" {
  name=$(unique prune)
  head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/noise"
  tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/noise.tar" noise
  loose=$(moss import "$BATS_TEST_TMPDIR/noise.tar" | tail -n 1)
  used=$(moss import -m used "$BATS_TEST_TMPDIR/noise.tar" | tail -n 1)
  moss create --name "$name" "$used" x
  before=$(moss system df --format '{{json .}}' 2>/dev/null || true)
  run moss image prune -f
  expect status 0
  expect contains "$loose"
  expect lacks "$used"
  run moss inspect --type image "$loose"
  [ "$status" -ne 0 ] || fail "it is still there: $before"
  moss rm "$name"
  run moss image prune -f
  expect contains "$used" MB
}
