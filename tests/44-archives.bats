#!/usr/bin/env bats
# Archives of images: save and load, by docker, moss, skopeo, podman and buildah, whole and broken.

load lib/moss
load lib/crash

setup_file() {
  start_engine
  import_busybox
  # An image of two layers, with settings and a history.
  moss run --name maker busybox sh -c 'echo second >/etc/second; mkdir -p /srv/a; ln -s /etc/second /srv/a/link; rm /home -r'
  moss commit -a ann -m 'the second layer' -c 'ENV WORD=second' -c 'CMD ["cat","/srv/a/link"]' -c 'LABEL of=archives' maker two:1
  moss rm maker
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

id_of() { moss inspect --type image "$1" | jq -r '.[0].Id'; }
layers_of() { moss inspect --type image "$1" | jq -c '.[0].RootFS.Layers'; }

# own NAME: a name of the test's own for the image of two layers.
own() { dock tag two:1 "$1"; }

# config_digest TRANSPORT:REF: the digest of the config that skopeo finds, which is the image's id.
config_digest() { skopeo inspect --raw "$1" | jq -r .config.digest; }

# stored: the layers that the engine keeps, and what is half-made.
stored() {
  find "$MOSS_DATA/root/storage" -maxdepth 3 \( -path '*/overlay/*' -o -path '*/moss-staged/*' \) -not -path '*/l/*' -printf '%P\n' 2>/dev/null | sort
}

# load_fails FILE [WORD...]: the load of FILE must fail, say WORDs, and leave nothing.
load_fails() {
  local file=$1 before
  shift
  before=$(stored)
  run dock load -i "$file"
  [ "$status" -ne 0 ] || fail "the load succeeded"
  expect contains "$@"
  expect lacks "Loaded image"
  expect equal "$(stored)" "$before"
}

# podman_in and buildah_in run with folders of the test's own.
podman_in() {
  HOME=$BATS_TEST_TMPDIR XDG_RUNTIME_DIR=$BATS_TEST_TMPDIR timeout 180 podman --root "$BATS_TEST_TMPDIR/pod" --runroot "$BATS_TEST_TMPDIR/podrun" \
    --storage-driver vfs --cgroup-manager cgroupfs --events-backend none "$@"
}
buildah_in() {
  HOME=$BATS_TEST_TMPDIR XDG_RUNTIME_DIR=$BATS_TEST_TMPDIR timeout 180 buildah --root "$BATS_TEST_TMPDIR/pod" --runroot "$BATS_TEST_TMPDIR/podrun" \
    --storage-driver vfs "$@"
}
podman_gone() {
  # What keeps its namespaces heeds no other signal.
  kill -KILL "$(cat "$BATS_TEST_TMPDIR/libpod/tmp/pause.pid")" 2>/dev/null || true
  unshare --user --map-root-user --map-auto rm -rf "$BATS_TEST_TMPDIR/pod" "$BATS_TEST_TMPDIR/podrun"
}

@test "docker save and load: the same id, names, layers and settings" {
  name=$(unique round)
  own "$name:1"
  own "$name:2"
  before=$(moss inspect --type image "$name:1" | jq '.[0] | del(.RepoTags, .RepoDigests, .Metadata, .Parent)')
  dock save -o "$BATS_TEST_TMPDIR/a.tar" "$name:1" "$name:2"
  dock rmi "$name:1" "$name:2" two:1
  run dock load -i "$BATS_TEST_TMPDIR/a.tar"
  expect status 0
  expect contains "Loaded image: $name:1" "Loaded image: $name:2"
  expect equal "$(moss inspect --type image "$name:2" | jq '.[0] | del(.RepoTags, .RepoDigests, .Metadata, .Parent)')" "$before"
  run dock run --rm "$name:1"
  expect output second
  run dock run --rm "$name:1" ls -d /home # a whiteout
  expect status 1
  dock tag "$name:1" two:1
  dock rmi "$name:1" "$name:2"
}

@test "save: the folder of a layer, repositories, manifest.json, and the same bytes again" {
  name=$(unique form)
  own "$name:v1"
  own "localhost/$name:v2"
  dock save -o "$BATS_TEST_TMPDIR/a.tar" "$name:v1" "localhost/$name"
  dock save "$name:v1" "localhost/$name:v2" >"$BATS_TEST_TMPDIR/b.tar"
  cmp "$BATS_TEST_TMPDIR/a.tar" "$BATS_TEST_TMPDIR/b.tar"
  mkdir "$BATS_TEST_TMPDIR/x"
  tar -xf "$BATS_TEST_TMPDIR/a.tar" -C "$BATS_TEST_TMPDIR/x"
  cd "$BATS_TEST_TMPDIR/x"
  id=$(id_of "$name:v1")
  top=$(jq -r --arg n "$name" '.[$n].v1' repositories)
  expect equal "$(jq -r --arg n "localhost/$name" '.[$n].v2' repositories)" "$top"
  expect equal "$(cat "$top/VERSION")" 1.0
  expect equal "$(jq -r .id "$top/json")" "$top"
  expect equal "$(jq -c .config.Cmd "$top/json")" '["cat","/srv/a/link"]'
  parent=$(jq -r .parent "$top/json")
  expect equal "$(jq -r .id "$parent/json")" "$parent"
  expect equal "$(jq -r '.[0].Config' manifest.json)" "${id#sha256:}.json"
  expect equal "$(sha256sum <"${id#sha256:}.json")" "${id#sha256:}  -"
  expect equal "$(jq -c '.[0].RepoTags' manifest.json)" "[\"$name:v1\",\"localhost/$name:v2\"]"
  expect equal "$(jq -c '.[0].Layers' manifest.json)" "[\"$parent/layer.tar\",\"$top/layer.tar\"]"
  for i in 0 1; do
    layer=$(jq -r ".[0].Layers[$i]" manifest.json)
    expect equal "sha256:$(sha256sum <"$layer" | cut -d' ' -f1)" "$(layers_of "$name:v1" | jq -r ".[$i]")"
  done
  tar -tf "$top/layer.tar" | grep -q '\.wh\.home' || fail "no whiteout for /home"
  dock save "$id" | tar -t >"$BATS_TEST_TMPDIR/list"
  if grep repositories "$BATS_TEST_TMPDIR/list"; then fail "repositories in an archive of an id"; fi
  dock rmi "$name:v1" "localhost/$name:v2"
}

@test "save: what is not there is 404, before the first byte" {
  for path in images/none/get images/get?names=two:1\&names=none images/two:none/get; do
    run api GET "/$path"
    expect line -1 404
    expect contains "No such image"
  done
  run api GET /images/get
  expect line -1 400
}

@test "moss save and load, plain and compressed outside" {
  name=$(unique outside)
  own "$name:1"
  id=$(id_of "$name:1")
  moss save -o "$BATS_TEST_TMPDIR/a" "$name:1"
  gzip -k "$BATS_TEST_TMPDIR/a"
  bzip2 -k "$BATS_TEST_TMPDIR/a"
  xz -0 -k "$BATS_TEST_TMPDIR/a"
  zstd -q -k "$BATS_TEST_TMPDIR/a" -o "$BATS_TEST_TMPDIR/a.zst"
  for file in a a.gz a.bz2 a.xz a.zst; do
    moss rmi "$name:1"
    run moss load -i "$BATS_TEST_TMPDIR/$file"
    expect status 0
    expect contains "Loaded image: $name:1"
    expect equal "$(id_of "$name:1")" "$id"
  done
  moss rmi "$name:1"
}

@test "load: progress by default, names alone when quiet, nothing before version 1.23" {
  name=$(unique quiet)
  own "$name:1"
  dock save -o "$BATS_TEST_TMPDIR/a.tar" "$name:1"
  # The layers come before what tells of them, as docker writes them: they are read again.
  mkdir "$BATS_TEST_TMPDIR/x"
  tar -xf "$BATS_TEST_TMPDIR/a.tar" -C "$BATS_TEST_TMPDIR/x"
  (cd "$BATS_TEST_TMPDIR/x" && tar -cf ../b.tar -- */ *.json repositories)
  post() { curl -sS --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' --data-binary "@$BATS_TEST_TMPDIR/b.tar" "http://moss$1"; }
  loud=$(post /v1.24/images/load)
  expect --in "$loud" contains '"status":"Loading layer"' '"progressDetail":{"current":' "\"stream\":\"Loaded image: $name:1\\n\""
  quiet=$(post '/v1.24/images/load?quiet=1')
  expect equal "$quiet" "{\"stream\":\"Loaded image: $name:1\\n\"}"
  expect equal "$(post /v1.22/images/load)" ""
  moss rmi "$name:1"
}

@test "load: a name moves, and the event says load" {
  name=$(unique moves)
  own "$name:1"
  dock save -o "$BATS_TEST_TMPDIR/a.tar" "$name:1"
  dock tag busybox "$name:1"
  old=$(id_of "$name:1")
  since=$(date +%s)
  run dock load -q -i "$BATS_TEST_TMPDIR/a.tar"
  expect contains "The image $name:1 already exists, renaming the old one with ID $old to empty string" "Loaded image: $name:1"
  expect equal "$(id_of "$name:1")" "$(id_of two:1)"
  run dock events --since "$since" --until "$(($(date +%s) + 1))" --filter type=image --format '{{.Action}} {{.Actor.ID}}'
  expect contains "load $(id_of two:1)"
  dock rmi "$name:1"
}

@test "skopeo reads what was saved, and what it writes is loaded: docker-archive and oci-archive" {
  name=$(unique skopeo)
  own "$name:1"
  id=$(id_of "$name:1")
  layers=$(layers_of "$name:1")
  moss save -o "$BATS_TEST_TMPDIR/a.tar" "$name:1"
  expect equal "$(config_digest "docker-archive:$BATS_TEST_TMPDIR/a.tar:$name:1")" "$id"
  expect equal "$(skopeo inspect --raw "docker-archive:$BATS_TEST_TMPDIR/a.tar" | jq -c '[.layers[].digest]')" "$layers"
  skopeo copy -q "docker-archive:$BATS_TEST_TMPDIR/a.tar" "docker-archive:$BATS_TEST_TMPDIR/b.tar:$name:b"
  skopeo copy -q "docker-archive:$BATS_TEST_TMPDIR/a.tar" "oci-archive:$BATS_TEST_TMPDIR/c.tar:$name:c"
  skopeo copy -q --dest-compress-format zstd "oci-archive:$BATS_TEST_TMPDIR/c.tar" "oci:$BATS_TEST_TMPDIR/d:$name:d"
  tar -cf "$BATS_TEST_TMPDIR/d.tar" -C "$BATS_TEST_TMPDIR/d" .
  for kind in b c d; do
    moss rmi "$name:1" >/dev/null 2>&1 || true
    run moss load -i "$BATS_TEST_TMPDIR/$kind.tar"
    expect status 0
    expect contains "Loaded image: $name:$kind"
    expect equal "$(layers_of "$name:$kind")" "$layers"
    want=$id
    # Another schema has another config: its digest is what skopeo says.
    [ $kind = b ] || want=$(config_digest "oci-archive:$BATS_TEST_TMPDIR/$kind.tar")
    expect equal "$(id_of "$name:$kind")" "$want"
    run moss run --rm "$name:$kind"
    expect output second
    moss rmi "$name:$kind"
  done
}

# bats test_tags=subids
@test "podman and buildah load what was saved, and what podman saves is loaded" {
  name=localhost/$(unique podman)
  own "$name:1"
  id=$(id_of "$name:1")
  moss save -o "$BATS_TEST_TMPDIR/a.tar" "$name:1"
  run podman_in load -i "$BATS_TEST_TMPDIR/a.tar"
  expect status 0
  expect equal "sha256:$(podman_in image inspect --format '{{.Id}}' "$name:1")" "$id"
  expect equal "$(podman_in image inspect "$name:1" | jq -c '.[0].RootFS.Layers')" "$(layers_of "$name:1")"
  podman_in tag "$name:1" "$name:pod"
  podman_in save --format docker-archive -o "$BATS_TEST_TMPDIR/b.tar" "$name:pod"
  podman_in save --format oci-archive -o "$BATS_TEST_TMPDIR/c.tar" "$name:pod"
  podman_in save -m -o "$BATS_TEST_TMPDIR/m.tar" "$name:1" "$name:pod"
  layers=$(layers_of "$name:1")
  podman_in rmi -f "$name:1" "$name:pod" >/dev/null
  run buildah_in pull "docker-archive:$BATS_TEST_TMPDIR/a.tar"
  expect status 0
  expect contains "${id#sha256:}"
  podman_gone
  moss rmi "$name:1"
  for kind in b c m; do
    run moss load -i "$BATS_TEST_TMPDIR/$kind.tar"
    expect status 0
    expect contains "Loaded image: $name:pod"
    want=$id
    [ $kind != c ] || want=$(config_digest "oci-archive:$BATS_TEST_TMPDIR/c.tar")
    expect equal "$(id_of "$name:pod")" "$want"
    expect equal "$(layers_of "$name:pod")" "$layers"
    moss rmi "$name:pod"
  done
}

@test "an archive of folders alone, as clients before 2016 wrote it" {
  name=$(unique old)
  own "$name:1"
  moss save "$name:1" >"$BATS_TEST_TMPDIR/a.tar"
  mkdir "$BATS_TEST_TMPDIR/x"
  tar -xf "$BATS_TEST_TMPDIR/a.tar" -C "$BATS_TEST_TMPDIR/x"
  (cd "$BATS_TEST_TMPDIR/x" && tar -cf ../old.tar -- */ repositories)
  moss rmi "$name:1"
  run moss load -i "$BATS_TEST_TMPDIR/old.tar"
  expect status 0
  expect contains "Loaded image: $name:1"
  expect equal "$(layers_of "$name:1")" "$(layers_of two:1)"
  run moss run --rm "$name:1" sh -c 'cat /srv/a/link; echo $WORD'
  expect output "second"$'\n'"second"
  expect --in "$(moss inspect --type image "$name:1")" contains '"of": "archives"'
  moss rmi "$name:1"
}

@test "broken archives are refused and leave nothing" {
  name=$(unique broken)
  own "$name:1"
  moss save -o "$BATS_TEST_TMPDIR/a.tar" "$name:1"
  moss rmi "$name:1"
  size=$(stat -c %s "$BATS_TEST_TMPDIR/a.tar")
  for at in 100 5000 $((size / 2)) $((size - 20000)); do
    head -c "$at" "$BATS_TEST_TMPDIR/a.tar" >"$BATS_TEST_TMPDIR/cut.tar"
    load_fails "$BATS_TEST_TMPDIR/cut.tar"
  done
  gzip -c "$BATS_TEST_TMPDIR/a.tar" | head -c 200000 >"$BATS_TEST_TMPDIR/cut.tgz"
  load_fails "$BATS_TEST_TMPDIR/cut.tgz"
  load_fails "$MOSS_DIR/busybox.tar" "holds no images"
  echo hello >"$BATS_TEST_TMPDIR/hello"
  load_fails "$BATS_TEST_TMPDIR/hello" "archive"
  mkdir "$BATS_TEST_TMPDIR/x"
  tar -xf "$BATS_TEST_TMPDIR/a.tar" -C "$BATS_TEST_TMPDIR/x"
  cd "$BATS_TEST_TMPDIR/x"
  top=$(jq -r '.[0].Layers[1]' manifest.json)
  tar -cf "$top" -C "$BATS_TEST_TMPDIR" hello
  tar -cf ../evil.tar -- *
  load_fails "$BATS_TEST_TMPDIR/evil.tar" "digest"
  rm "$top"
  tar -cf ../less.tar -- *
  load_fails "$BATS_TEST_TMPDIR/less.tar" "no layer"
  run api GET "/images/$name:1/json"
  expect line -1 404
}

# bats test_tags=chance
@test "the same archive loaded by two clients at once, and an image removed while it is saved" {
  seed_chance
  name=$(unique twice)
  own "$name:1"
  id=$(id_of "$name:1")
  moss save -o "$BATS_TEST_TMPDIR/a.tar" "$name:1"
  moss rmi "$name:1" two:1
  # As docker writes it, so that both read all of it.
  mkdir "$BATS_TEST_TMPDIR/x"
  tar -xf "$BATS_TEST_TMPDIR/a.tar" -C "$BATS_TEST_TMPDIR/x"
  (cd "$BATS_TEST_TMPDIR/x" && tar -cf ../b.tar -- */ *.json repositories)
  dock load -q -i "$BATS_TEST_TMPDIR/b.tar" >"$BATS_TEST_TMPDIR/one" 2>&1 3>&- &
  one=$!
  dock load -q -i "$BATS_TEST_TMPDIR/b.tar" >"$BATS_TEST_TMPDIR/two" 2>&1 3>&- &
  two=$!
  wait $one
  wait $two
  for who in one two; do expect equal "$(cat "$BATS_TEST_TMPDIR/$who")" "Loaded image: $name:1"; done
  expect equal "$(id_of "$name:1")" "$id"
  dock tag "$name:1" two:1
  dock tag "$name:1" "$name:2"
  # Whatever comes first: the archive is whole, or there is an error.
  span=200
  for _ in $(seq "${MOSS_CHANCE_ROUNDS:-4}"); do
    dock save -o "$BATS_TEST_TMPDIR/s.tar" "$name:2" >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
    saver=$!
    pass_moment
    dock rmi -f "$name:2" >/dev/null 2>&1 || true
    if wait $saver; then
      expect equal "$(config_digest "docker-archive:$BATS_TEST_TMPDIR/s.tar")" "$id"
    else
      expect --in "$(cat "$BATS_TEST_TMPDIR/log")" contains "o such image"
    fi
    dock tag "$name:1" "$name:2"
  done
  dock rmi "$name:1" "$name:2"
}

# bats test_tags=chance
@test "kill -9 of the engine in the middle of a load leaves a store that opens, and nothing half-made" {
  seed_chance
  name=$(unique killed)
  tree=$BATS_TEST_TMPDIR/tree
  mkdir -p "$tree"
  for i in $(seq 400); do head -c 20000 /dev/urandom >"$tree/f$i"; done
  tar -C "$tree" -cf "$BATS_TEST_TMPDIR/tree.tar" .
  moss import "$BATS_TEST_TMPDIR/tree.tar" "$name:1"
  id=$(id_of "$name:1")
  moss save -o "$BATS_TEST_TMPDIR/a.tar" "$name:1" two:1
  moss rmi "$name:1"
  before=$(stored)
  size=$(stat -c %s "$BATS_TEST_TMPDIR/a.tar")
  rounds=${MOSS_CHANCE_ROUNDS:-8}
  parts=$((rounds > 1 ? rounds - 1 : 1))
  for round in $(seq "$rounds"); do
    old=$(inner_pid)
    mkfifo "$BATS_TEST_TMPDIR/way"
    curl -sS --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' -T "$BATS_TEST_TMPDIR/way" \
      http://moss/images/load >"$BATS_TEST_TMPDIR/said" 2>&1 3>&- 4>&- &
    client=$!
    exec 5>"$BATS_TEST_TMPDIR/way"
    # Some of the archive, drawn from another part of it each time; in the last round all of it.
    draw 0 999
    head -c $((size * (round * 1000 - drawn) / (parts * 1000))) "$BATS_TEST_TMPDIR/a.tar" >&5 || true
    kill -KILL "$old"
    exec 5>&-
    wait $client || true
    rm "$BATS_TEST_TMPDIR/way"
    eventually 20 another_engine "$old"
    if [ "$(api GET "/images/$name:1/json" | tail -n 1)" = 200 ]; then
      expect equal "$(id_of "$name:1")" "$id" # the load had been finished
      moss rmi "$name:1"
    else
      expect --in "$(cat "$BATS_TEST_TMPDIR/said")" lacks "Loaded image: $name:1"
    fi
    expect equal "$(stored)" "$before"
  done
  run moss load -i "$BATS_TEST_TMPDIR/a.tar"
  expect status 0
  expect equal "$(id_of "$name:1")" "$id"
  moss rmi "$name:1"
}
