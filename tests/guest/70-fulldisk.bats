#!/usr/bin/env bats
# A disk that is full, of bytes or of inodes: what fails says so and leaves nothing, and what makes room works.

load ../lib/moss

setup_file() {
  MOSS_TEST_DATA=/small start_engine
  import_busybox
  # Archives lie on the large disk: the engine's folder for this boot is in memory, and small.
  export FILES=$BATS_FILE_TMPDIR
  archive part 2M
  archive large 24M
}
teardown_file() {
  make_room
  stop_engine
}
setup() {
  begin
  name=$(unique full)
}
teardown() {
  make_room
  finish
}

# archive NAME SIZE: the root file system NAME.tar with one file of this size, and NAME.save, an image of it for load.
archive() {
  head -c "$2" /dev/zero >"$FILES/$1"
  tar -C "$FILES" -cf "$FILES/$1.tar" "$1"
  jq -cn --arg sum "$(sha256sum "$FILES/$1.tar" | cut -d' ' -f1)" \
    '{architecture: "amd64", os: "linux", config: {}, rootfs: {type: "layers", diff_ids: ["sha256:" + $sum]}}' >"$FILES/config.json"
  jq -cn '[{Config: "config.json", RepoTags: ["saved:" + $ARGS.positional[0]], Layers: [$ARGS.positional[0] + ".tar"]}]' \
    --args "$1" >"$FILES/manifest.json"
  tar -C "$FILES" -cf "$FILES/$1.save" "$1.tar" config.json manifest.json
  rm "$FILES/$1"
}
free_bytes() { df --output=avail -B1 /small | tail -n 1; }
# fill [LEFT]: takes all the bytes there are, or leaves so many.
fill() {
  fallocate -l $(($(free_bytes) - ${1:-0})) /small/fill 2>/dev/null || [ $# = 0 ] || fail "no file of that size"
  [ $# != 0 ] || dd if=/dev/zero of=/small/fill bs=4k oflag=append conv=notrunc status=none 2>/dev/null || true
}
free_inodes() { df --output=iavail /small | tail -n 1; }
# fill_inodes [LEFT]: takes all the inodes there are, or leaves so many.
fill_inodes() {
  mkdir -p /small/files
  (cd /small/files && seq $(($(free_inodes) - ${1:-0})) | xargs touch)
}
make_room() { rm -rf /small/fill /small/files; }

# held: the files of the store, once what was removed is gone from the disk. Lists, locks, empty folders and the ballast
# come and go at their own time.
held() {
  find "$MOSS_DATA/root/storage" ! -name 'moss-ballast*' ! -name unsynced.json ! -name '*.lock' ! \( -type d -empty \) 2>/dev/null | wc -l
}
settled() { [ "$(held)" = "$1" ]; }
names() { moss images --no-trunc --format '{{.ID}} {{.Repository}} {{.Tag}}' | sort; }
# refused TEXT CMD...: the command fails and says TEXT; images and files of the store stay what they were.
refused() {
  local text=$1 images files
  images=$(names) files=$(held)
  shift
  run "$@"
  [ "$status" -ne 0 ] || fail "it succeeded: $*" || return
  expect contains "$text" || return
  expect equal "$(names)" "$images" || return
  eventually 20 settled "$files" || fail "$files files before, $(held) after: $*"
}
works() { expect equal "$(moss run --rm busybox echo fine)" fine; }
# all_works: what a user does on a disk with room.
all_works() {
  local box
  box=$(unique works)
  moss import "$FILES/part.tar" "$box:1" >/dev/null || return
  moss run --name "$box" busybox touch /file || return
  moss commit "$box" "$box:2" >/dev/null || return
  expect equal "$(moss run --rm "$box:2" ls /file)" /file || return
  moss rm "$box" >/dev/null && moss rmi "$box:2" "$box:1" >/dev/null
}

@test "an image that does not fit is refused, and nothing of it stays" {
  fill 20000000
  refused "no space left" moss import "$FILES/large.tar" "$name:1"
  refused "no space left" moss load -q -i "$FILES/large.save"
  works
}

@test "on a full disk containers and images can be removed, and then all works again" {
  moss import "$FILES/part.tar" "$name:1"
  moss run --name "$name" busybox sh -c 'head -c 1000000 /dev/zero >/file'
  moss run -d --name "$name-runs" busybox sleep 1000
  fill
  refused space moss import "$MOSS_DIR/busybox.tar" "$name:2"
  refused space moss load -q -i "$FILES/part.save"
  refused space moss commit "$name" "$name:3"
  run moss exec "$name-runs" echo alive
  expect output alive
  run moss rm -f "$name-runs"
  expect status 0
  run moss rm "$name"
  expect status 0
  run moss rmi "$name:1"
  expect status 0
  run moss ps -aq
  expect output ""
  make_room
  all_works
}

@test "an engine starts on a full disk and makes room" {
  moss import "$FILES/part.tar" "$name"
  moss run --name "$name" busybox true
  fill
  halt_engine
  spawn_engine
  run moss images -q "$name"
  expect matches .
  run moss rm "$name"
  expect status 0
  run moss rmi "$name"
  expect status 0
  make_room
  works
}

@test "without inodes an image is refused, and removal works" {
  moss import "$FILES/part.tar" "$name"
  moss run --name "$name" busybox true
  mkdir "$FILES/many"
  (cd "$FILES/many" && seq 400 | xargs touch)
  tar -C "$FILES" -cf "$FILES/many.tar" many
  fill_inodes 300
  refused "no space left" moss import "$FILES/many.tar" "$name:many"
  rm -r /small/files
  fill_inodes
  refused space moss import "$MOSS_DIR/busybox.tar" "$name:2"
  refused space moss commit "$name" "$name:3"
  run moss rm "$name"
  expect status 0
  run moss rmi "$name"
  expect status 0
  make_room
  works
}
