#!/usr/bin/env bats
# Archives whose entries cost far more than they weigh: folders that no entry tells of, links that every entry goes through,
# depth, numbers. They are refused in good time and leave nothing, wherever archives come in.

load lib/moss
load lib/registry

setup_file() {
  start_engine
  import_busybox
  start_registry bombs
  export REG=$REGISTRY
}
teardown_file() { stop_registries && stop_engine; }
setup() { begin; }
teardown() { finish; }

bomb() { python3 "$BATS_TEST_DIRNAME/attack/archives/make.py" "$@"; }

# soon SECONDS COMMAND...: runs a command that must end within SECONDS, whatever it answers.
soon() {
  local limit=$1 begin=$SECONDS
  shift
  run "$@"
  [ $((SECONDS - begin)) -le "$limit" ] || fail "took $((SECONDS - begin)) s: $*" "$output"
}

# stored: the layers that the engine keeps, and what is half-made.
stored() {
  find "$MOSS_DATA/root/storage" -maxdepth 3 \( -path '*/overlay/*' -o -path '*/moss-staged/*' \) -not -path '*/l/*' -printf '%P\n' 2>/dev/null | sort
}

# word_of KIND: what it is refused with.
word_of() {
  case $1 in
    implied | again) echo "folders that it does not list" ;;
    deep | long) echo "deep" ;;
    links | targets | loop) echo "symbolic links" ;;
    xz) echo "dictionary" ;;
    empty) echo "entries" ;;
  esac
}

# post_file PATH FILE, put_file PATH FILE: the answer, and its status in a line of its own.
post_file() {
  curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' -T "$2" -w '\n%{http_code}\n' "http://moss$1"
}
put_file() {
  curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -X PUT -H 'Content-Type: application/x-tar' -T "$2" -w '\n%{http_code}\n' "http://moss$1"
}

# image_of LAYER FILE NAME: an archive as docker save writes it, whose one layer is the archive LAYER.
image_of() {
  local dir arch
  dir=$(mktemp -d "$BATS_TEST_TMPDIR/image.XXXXXX")
  cp "$1" "$dir/layer.tar"
  case $(uname -m) in
    x86_64) arch=amd64 ;;
    aarch64) arch=arm64 ;;
    *) arch=$(uname -m) ;;
  esac
  jq -cn --arg arch "$arch" --arg layer "sha256:$(sha256sum "$1" | cut -d' ' -f1)" \
    '{architecture: $arch, os: "linux", config: {Cmd: ["/f"]}, rootfs: {type: "layers", diff_ids: [$layer]}, history: [{created_by: "test"}]}' \
    >"$dir/config.json"
  jq -cn --arg name "$3" '[{Config: "config.json", RepoTags: [$name], Layers: ["layer.tar"]}]' >"$dir/manifest.json"
  tar -C "$dir" -cf "$2" manifest.json config.json layer.tar
  rm -rf "$dir"
}

@test "import refuses archives that cost more than they weigh, and leaves nothing" {
  before=$(stored)
  for kind in implied links targets loop deep long xz; do
    bomb $kind >"$BATS_TEST_TMPDIR/$kind"
    soon 150 post_file "/images/create?fromSrc=-&repo=$(unique bomb-$kind)" "$BATS_TEST_TMPDIR/$kind"
    expect contains "$(word_of $kind)"
    [ ${#output} -lt 1000 ] || fail "$kind: ${#output} bytes are answered"
    run dock images -q "$(unique bomb-$kind)"
    expect equal "$output" ""
    expect equal "$(stored)" "$before"
  done
}

@test "import takes an archive that implies all its folders" {
  name=$(unique real)
  bomb real >"$BATS_TEST_TMPDIR/real"
  run post_file "/images/create?fromSrc=-&repo=$name" "$BATS_TEST_TMPDIR/real"
  expect contains 200
  expect lacks errorDetail
  dock create --name "$name" "$name" /f >/dev/null
  run bash -c "$(printf 'curl -sS --unix-socket %q http://moss/containers/%q/export | tar t | wc -l' "$MOSS_SOCK" "$name")"
  [ "$output" -gt 10000 ] || fail "only $output entries come back"
  dock rm "$name" >/dev/null
  dock rmi "$name" >/dev/null
}

@test "load and pull refuse a layer that costs more than it weighs, and leave nothing" {
  before=$(stored)
  for kind in implied links; do
    bomb $kind >"$BATS_TEST_TMPDIR/$kind"
    name=$(unique bomb-$kind)
    image_of "$BATS_TEST_TMPDIR/$kind" "$BATS_TEST_TMPDIR/$kind.image" "$name:1"
    soon 150 dock load -i "$BATS_TEST_TMPDIR/$kind.image"
    [ "$status" -ne 0 ] || fail "the load of $kind succeeded"
    expect contains "$(word_of $kind)"
    skopeo copy -q --dest-tls-verify=false "docker-archive:$BATS_TEST_TMPDIR/$kind.image" "docker://$REG/$name:1"
    soon 150 dock pull "$REG/$name:1"
    [ "$status" -ne 0 ] || fail "the pull of $kind succeeded"
    expect contains "$(word_of $kind)"
    expect equal "$(stored)" "$before"
  done
}

@test "an archive that costs more than it weighs is not unpacked into a container, and its folder can be removed" {
  name=$(unique cp)
  dock run -d --name "$name" busybox sleep 1000 >/dev/null
  for kind in implied again links targets loop deep long xz; do
    bomb $kind >"$BATS_TEST_TMPDIR/$kind"
    dock exec "$name" mkdir -p "/$kind"
    soon 150 put_file "/containers/$name/archive?path=/$kind" "$BATS_TEST_TMPDIR/$kind"
    expect contains "$(word_of $kind)"
    expect line -1 400
    [ ${#output} -lt 1000 ] || fail "$kind: ${#output} bytes are answered"
  done
  bomb real >"$BATS_TEST_TMPDIR/real"
  dock exec "$name" mkdir /real
  run put_file "/containers/$name/archive?path=/real" "$BATS_TEST_TMPDIR/real"
  expect line -1 200
  soon 150 dock rm -f "$name"
  expect status 0
}

# bits CONTAINER FILE: the file's owner and mode, as the container sees them.
bits() { dock exec "$1" stat -c '%u:%g %a' "$2"; }

# bats test_tags=subids
@test "privileges go with the owner they were for: cp, ADD, import" {
  name=$(unique owners)
  bomb owners >"$BATS_TEST_TMPDIR/owners.tar"
  dock run -d --name "$name" busybox sh -c 'mkdir -p /mnt; : >/ready; sleep 1000' >/dev/null
  eventually 20 dock exec "$name" test -e /ready
  run put_file "/containers/$name/archive?path=/mnt" "$BATS_TEST_TMPDIR/owners.tar"
  expect line -1 200
  expect equal "$(bits "$name" /mnt/mine)" "0:0 6755"
  expect equal "$(bits "$name" /mnt/theirs)" "0:0 755"
  expect equal "$(bits "$name" /mnt/their-group)" "0:0 755"
  dock rm -f "$name" >/dev/null
  run post_file "/images/create?fromSrc=-&repo=$name" "$BATS_TEST_TMPDIR/owners.tar"
  expect contains "users or groups beyond"
  mkdir "$BATS_TEST_TMPDIR/context"
  cp "$BATS_TEST_TMPDIR/owners.tar" "$BATS_TEST_TMPDIR/context/"
  printf 'FROM busybox\nADD owners.tar /mnt/\n' >"$BATS_TEST_TMPDIR/context/Dockerfile"
  run moss build -t "$name" "$BATS_TEST_TMPDIR/context"
  [ "$status" -ne 0 ] || fail "ADD took owners that cannot be"
  expect contains "users or groups beyond"
}

@test "ADD and build contexts refuse what costs more than it weighs, and COPY gets none of it" {
  before=$(stored)
  for kind in implied again links targets loop deep long; do
    name=$(unique add-$kind)
    mkdir "$BATS_TEST_TMPDIR/$kind"
    bomb $kind >"$BATS_TEST_TMPDIR/$kind/bomb.tar"
    printf 'FROM busybox\nADD bomb.tar /bomb/\n' >"$BATS_TEST_TMPDIR/$kind/Dockerfile"
    soon 150 moss build -t "$name" "$BATS_TEST_TMPDIR/$kind"
    [ "$status" -ne 0 ] || fail "ADD of $kind succeeded: $output"
    expect contains "$(word_of $kind)"
    # The same entries as the context itself.
    printf 'FROM busybox\nCOPY . /bomb/\n' >"$BATS_TEST_TMPDIR/Dockerfile"
    bomb $kind >"$BATS_TEST_TMPDIR/context.tar"
    tar -C "$BATS_TEST_TMPDIR" -rf "$BATS_TEST_TMPDIR/context.tar" Dockerfile
    soon 150 post_file "/build?t=$name" "$BATS_TEST_TMPDIR/context.tar"
    expect contains "$(word_of $kind)"
  done
  bomb empty | gzip -1 >"$BATS_TEST_TMPDIR/context.tar"
  soon 150 post_file "/build" "$BATS_TEST_TMPDIR/context.tar"
  expect contains entries
  expect line -1 400
  expect equal "$(stored)" "$before"
}

@test "moss cp of a folder that is too deep says so in few words" {
  name=$(unique host)
  dock run -d --name "$name" busybox sh -c 'd=/deep; for i in 1 2 3 4 5 6; do d=$d/$(printf "d/%.0s" $(seq 100)); mkdir -p $d; done; : >/ready; sleep 1000' >/dev/null
  eventually 20 dock exec "$name" test -e /ready
  mkdir "$BATS_TEST_TMPDIR/to"
  soon 150 moss cp "$name:/deep" "$BATS_TEST_TMPDIR/to"
  [ "$status" -ne 0 ] || fail "a folder 600 deep was copied: $output"
  [ ${#output} -lt 1000 ] || fail "${#output} bytes are said"
  soon 150 rm -rf "$BATS_TEST_TMPDIR/to"
  dock rm -f "$name" >/dev/null
}

@test "a volume is filled from an image whose archive lists no folder" {
  name=$(unique volume)
  bomb real >"$BATS_TEST_TMPDIR/real"
  run post_file "/images/create?fromSrc=-&repo=$name" "$BATS_TEST_TMPDIR/real"
  expect contains 200
  soon 150 dock create --name "$name" -v "$name:/usr" "$name" /f
  expect status 0
  soon 150 moss cp "$name:/usr/lib/0" "$BATS_TEST_TMPDIR/out"
  expect status 0
  [ "$(find "$BATS_TEST_TMPDIR/out" -type f | wc -l)" = 50 ] || fail "$(find "$BATS_TEST_TMPDIR/out" -type f | wc -l) files are in the volume"
  dock rm "$name" >/dev/null
  dock volume rm "$name" >/dev/null
  dock rmi "$name" >/dev/null
}
