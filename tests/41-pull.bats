#!/usr/bin/env bats
# bats file_tags=nosub
# Pull from a real registry, by docker's command line and by moss: names, platforms, what is here already, joined pulls,
# and the engine killed at any moment of it.

load lib/moss
load lib/crash
load lib/registry

setup_file() {
  start_engine
  start_registry pull
  export REG=$REGISTRY
  mkdir -p "$MOSS_DIR/docker-config"
  busybox_tar "$MOSS_DIR/box.tar"
  push_image box:v1 "$MOSS_DIR/box.tar"
}
teardown_file() { stop_registries && stop_engine; }
setup() { begin; }
teardown() { finish; }

# push_image REPO:TAG LAYER...: has skopeo push an image of plain layer archives, made without the engine. With FORMAT=oci and
# COMPRESSION=zstd in other forms than Docker's with gzip; ARCH is its architecture.
push_image() {
  local ref=$1 dir diffs=() names=() layer sum
  shift
  dir=$(mktemp -d "$MOSS_DIR/image.XXXXXX")
  for layer in "$@"; do
    sum=$(sha256sum "$layer" | cut -d' ' -f1)
    ln -s "$layer" "$dir/$sum.tar"
    diffs+=("sha256:$sum")
    names+=("$sum.tar")
  done
  jq -cn --arg arch "${ARCH:-$(go_arch)}" --arg ref "$ref" '{architecture: $arch, os: "linux", created: "2024-01-02T03:04:05Z",
    config: {Cmd: ["echo", $ref]}, rootfs: {type: "layers", diff_ids: $ARGS.positional}}' --args "${diffs[@]}" >"$dir/config.json"
  jq -cn '[{Config: "config.json", Layers: $ARGS.positional}]' --args "${names[@]}" >"$dir/manifest.json"
  tar -C "$dir" -chf "$dir.tar" manifest.json config.json "${names[@]}"
  skopeo copy -q --dest-tls-verify=false --format "${FORMAT:-v2s2}" --dest-compress-format "${COMPRESSION:-gzip}" \
    "docker-archive:$dir.tar" "docker://$REG/$ref"
  rm -rf "$dir" "$dir.tar"
}

go_arch() {
  case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) uname -m ;;
  esac
}

# noise FILE MIB: a layer of one file that does not compress, its name FILE's.
noise() {
  local dir
  dir=$(mktemp -d "$MOSS_DIR/noise.XXXXXX")
  head -c "$(($2 << 20))" /dev/urandom >"$dir/$(basename "$1" .tar)"
  tar -C "$dir" --owner=0 --group=0 -cf "$1" "$(basename "$1" .tar)"
  rm -rf "$dir"
}

# config_digest REF, manifest_digest REF: as skopeo sees them, which is no part of moss.
config_digest() { skopeo inspect --tls-verify=false --raw "docker://$REG/$1" | jq -r .config.digest; }
manifest_digest() { skopeo inspect --tls-verify=false --raw "docker://$REG/$1" | sha256sum | sed 's/^\([0-9a-f]*\).*/sha256:\1/'; }

# image_id REF, no_image REF
image_id() { moss inspect --type image "$1" | jq -r '.[0].Id'; }
no_image() { ! moss inspect --type image "$1" >/dev/null 2>&1; }

# leftovers: what is half-made in the store.
leftovers() {
  find "$MOSS_DATA/root/storage" \( -path '*/overlay/staging/*' -o -path '*/tempdirs/*/*' -o -path '*/moss-staged/*' \) \
    ! -name '*.lock' 2>/dev/null | head
}
nothing_left() { [ -z "$(leftovers)" ]; }

@test "docker pull by tag and by digest: skopeo's ids, a container from it, up to date the second time" {
  id=$(config_digest box:v1)
  digest=$(manifest_digest box:v1)
  run dock pull "$REG/box:v1"
  expect status 0
  expect contains "v1: Pulling from box" "Pull complete" "Digest: $digest" "Status: Downloaded newer image for $REG/box:v1"
  expect equal "$(image_id "$REG/box:v1")" "$id"
  expect equal "$(moss inspect --type image "$id" | jq -c '.[0].RepoDigests')" "[\"$REG/box@$digest\"]"
  run dock run --rm "$REG/box:v1"
  expect output box:v1
  run dock pull "$REG/box:v1"
  expect contains "Status: Image is up to date for $REG/box:v1"
  run dock rmi "$REG/box:v1"
  expect status 0
  run dock pull "$REG/box@$digest"
  expect status 0
  expect contains "Pulling from box" "Status: Downloaded newer image for $REG/box@$digest"
  expect equal "$(image_id "$REG/box@$digest")" "$id"
  run moss run --rm "$REG/box@$digest"
  expect output box:v1
  moss rmi "$id"
}

@test "moss pull says what it does, and pull is an event of the name" {
  push_image told:v1 "$MOSS_DIR/box.tar"
  since=$(date +%s)
  run moss pull "$REG/told:v1"
  expect status 0
  expect contains "Pulling from told" "Status: Downloaded newer image for $REG/told:v1"
  run api GET "/v1.24/events?since=$since&until=$(($(date +%s) + 1))&filters=%7B%22type%22%3A%5B%22image%22%5D%2C%22event%22%3A%5B%22pull%22%5D%7D"
  expect equal "$(grep /told <<<"$output" | jq -r '.Actor.ID + " " + .Actor.Attributes.name')" "$REG/told:v1 $REG/told"
  moss rmi "$REG/told:v1"
}

@test "all tags of a repository come, and layers that are here are not fetched again" {
  noise "$MOSS_DIR/all1.tar" 1
  noise "$MOSS_DIR/all2.tar" 1
  push_image all:one "$MOSS_DIR/box.tar" "$MOSS_DIR/all1.tar"
  FORMAT=oci COMPRESSION=zstd push_image all:two "$MOSS_DIR/box.tar" "$MOSS_DIR/all2.tar"
  run dock pull --all-tags "$REG/all"
  expect status 0
  expect contains "one: Pulling from all" "two: Pulling from all" "Already exists" "Status: Downloaded newer image for $REG/all"
  expect equal "$(image_id "$REG/all:one")" "$(config_digest all:one)"
  expect equal "$(image_id "$REG/all:two")" "$(config_digest all:two)"
  run moss run --rm "$REG/all:two" sha256sum /all2
  expect contains "$(tar -xOf "$MOSS_DIR/all2.tar" all2 | sha256sum | cut -d' ' -f1)"
  moss rmi "$REG/all:one" "$REG/all:two"
}

@test "of an index the image for this machine is taken, or the one for the platform that is asked for" {
  other=arm64
  [ "$(go_arch)" != arm64 ] || other=amd64
  noise "$MOSS_DIR/other.tar" 1
  ARCH=$other push_image multi:other "$MOSS_DIR/other.tar"
  push_image multi:own "$MOSS_DIR/box.tar"
  for tag in other own; do
    skopeo inspect --tls-verify=false --raw "docker://$REG/multi:$tag" >"$BATS_TEST_TMPDIR/$tag"
  done
  index=$(jq -cn --arg own "$(manifest_digest multi:own)" --arg other "$(manifest_digest multi:other)" --arg arch "$(go_arch)" --arg oarch $other \
    --argjson sizes "[$(stat -c %s "$BATS_TEST_TMPDIR/own"),$(stat -c %s "$BATS_TEST_TMPDIR/other")]" '
    "application/vnd.docker.distribution.manifest.v2+json" as $type | {schemaVersion: 2, mediaType: "application/vnd.docker.distribution.manifest.list.v2+json", manifests: [
      {mediaType: $type, digest: $other, size: $sizes[1], platform: {os: "linux", architecture: $oarch}},
      {mediaType: $type, digest: $own, size: $sizes[0], platform: {os: "linux", architecture: $arch}}]}')
  curl -fsS -X PUT -H 'Content-Type: application/vnd.docker.distribution.manifest.list.v2+json' --data-binary "$index" "http://$REG/v2/multi/manifests/v1"
  run dock pull "$REG/multi:v1"
  expect status 0
  expect contains "Digest: sha256:$(printf %s "$index" | sha256sum | cut -d' ' -f1)"
  expect equal "$(image_id "$REG/multi:v1")" "$(config_digest multi:own)"
  run moss pull --platform "linux/$other" "$REG/multi:v1" # docker has the flag with later versions of the API only
  expect status 0
  expect contains "Downloaded newer image"
  expect equal "$(image_id "$REG/multi:v1")" "$(config_digest multi:other)"
  run api POST "/v1.24/images/create?fromImage=$REG/multi&tag=v1&platform=linux/s390x"
  expect line -1 404
  expect contains "no matching manifest for linux/s390x in the manifest list entries"
  moss rmi "$(config_digest multi:own)" "$(config_digest multi:other)"
}

@test "what is not there is an error before the first message" {
  run dock pull "$REG/box:none"
  [ "$status" -ne 0 ]
  expect contains "manifest for $REG/box:none not found: manifest unknown"
  run api POST "/v1.24/images/create?fromImage=$REG/box&tag=none"
  expect line -1 404
  run api POST "/v1.24/images/create?fromImage=$REG/nobody&tag=v1"
  expect line -1 404
  run moss pull "$REG/Bad"
  [ "$status" -ne 0 ]
  expect contains "invalid reference format"
  nothing_left
}

@test "pulls of one image at the same time fetch each layer once" {
  noise "$MOSS_DIR/joined.tar" 24
  push_image joined:v1 "$MOSS_DIR/box.tar" "$MOSS_DIR/joined.tar"
  pids=()
  for i in 1 2 3 4; do
    dock pull -q "$REG/joined:v1" >"$BATS_TEST_TMPDIR/out.$i" 2>&1 3>&- &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
  expect equal "$(image_id "$REG/joined:v1")" "$(config_digest joined:v1)"
  blob=$(skopeo inspect --tls-verify=false --raw "docker://$REG/joined:v1" | jq -r '.layers[1].digest')
  expect equal "$(registry_log pull | grep -c "^GET /v2/joined/blobs/$blob 200")" 1
  moss rmi "$REG/joined:v1"
}

@test "a client that goes ends its pull and leaves nothing" {
  noise "$MOSS_DIR/gone.tar" 64
  push_image gone:v1 "$MOSS_DIR/gone.tar"
  curl -sN --limit-rate 1k --unix-socket "$MOSS_SOCK" -X POST "http://moss/v1.24/images/create?fromImage=$REG/gone&tag=v1" >"$BATS_TEST_TMPDIR/out" 3>&- &
  client=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/out" "Pulling fs layer"
  kill $client || true # it may have been quick
  wait $client || true
  eventually 20 nothing_left
  no_image "$REG/gone:v1" || moss rmi "$REG/gone:v1" # it may have been quick
}

# bats test_tags=chance
@test "kill -9 of the engine in the middle of a pull: no half image, no leftovers, and the pull works afterwards" {
  seed_chance
  for i in 1 2 3; do noise "$MOSS_DIR/k$i.tar" 12; done
  push_image killed:v1 "$MOSS_DIR/box.tar" "$MOSS_DIR"/k{1,2,3}.tar
  id=$(config_digest killed:v1)
  measure dock pull -q "$REG/killed:v1"
  moss rmi "$REG/killed:v1"
  for _ in $(seq "${MOSS_CHANCE_ROUNDS:-8}"); do
    killed_during dock pull -q "$REG/killed:v1"
    nothing_left || fail "left after a kill at $after ms:" "$(leftovers)" || return
    if ! no_image "$REG/killed:v1"; then
      # The image was there already, and then it is whole.
      expect equal "$(image_id "$REG/killed:v1")" "$id"
      run dock run --rm "$REG/killed:v1" sh -c 'cat /k1 /k2 /k3 | wc -c'
      expect output $((36 << 20))
      moss rmi "$REG/killed:v1"
    fi
  done
  run dock pull "$REG/killed:v1"
  expect status 0
  expect equal "$(image_id "$REG/killed:v1")" "$id"
  run dock run --rm "$REG/killed:v1" sh -c 'cat /k1 /k2 /k3 | wc -c'
  expect output $((36 << 20))
  moss rmi "$REG/killed:v1"
}
