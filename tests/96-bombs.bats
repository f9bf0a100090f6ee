#!/usr/bin/env bats
# bats file_tags=nosub
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
    deep | long) echo "folders deep" ;;
    links | targets | loop) echo "symbolic links" ;;
    xz) echo "dictionary" ;;
    empty) echo "entries" ;;
  esac
}

# post_file PATH FILE, put_file PATH FILE: the answer, and its status in a line of its own.
post_file() {
  curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' -T "$2" -w '\n%{http_code}\n' "http://moss$1"
}
put_file() {
  curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X PUT -H 'Content-Type: application/x-tar' -T "$2" -w '\n%{http_code}\n' "http://moss$1"
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
  for kind in implied again links targets loop deep long xz; do
    bomb $kind >"$BATS_TEST_TMPDIR/$kind"
    soon 40 post_file "/images/create?fromSrc=-&repo=$(unique bomb-$kind)" "$BATS_TEST_TMPDIR/$kind"
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
    soon 40 dock load -i "$BATS_TEST_TMPDIR/$kind.image"
    [ "$status" -ne 0 ] || fail "the load of $kind succeeded"
    expect contains "$(word_of $kind)"
    skopeo copy -q --dest-tls-verify=false "docker-archive:$BATS_TEST_TMPDIR/$kind.image" "docker://$REG/$name:1"
    soon 40 dock pull "$REG/$name:1"
    [ "$status" -ne 0 ] || fail "the pull of $kind succeeded"
    expect contains "$(word_of $kind)"
    expect equal "$(stored)" "$before"
  done
}
