#!/usr/bin/env bats
# kill -9 of the engine at any moment while images come, get names and go: the store opens, nothing is there by half, and
# what was left is reclaimed. MOSS_CHANCE_ROUNDS sets the rounds of each verb (2).
# bats file_tags=chance,alone

load lib/moss
load lib/crash

setup_file() {
  start_engine
  # The archive takes the engine some tenths of a second: enough to be killed in.
  busybox_tar "$MOSS_DIR/box.tar"
  mkdir "$MOSS_DIR/tree"
  tar -C "$MOSS_DIR/tree" -xf "$MOSS_DIR/box.tar"
  for i in $(seq 300); do head -c 20000 /dev/urandom >"$MOSS_DIR/tree/home/$i"; done
  tar -C "$MOSS_DIR/tree" --owner=0 --group=0 --numeric-owner --sort=name -cf "$MOSS_DIR/big.tar" .
  rm -rf "$MOSS_DIR/tree"
  moss import "$MOSS_DIR/big.tar" base:latest
}
teardown_file() { stop_engine; }
setup() {
  begin
  seed_chance
}
teardown() { finish; }

rounds=${MOSS_CHANCE_ROUNDS:-2}

# stored: what the store keeps on the disk. Lock files, lists and their copies, and empty folders for work come and stay.
stored() {
  find "$MOSS_DATA/root/storage" -mindepth 2 -maxdepth 2 -not -name '*.lock' -not -name '*.bak' -not -name '*.json' \
    -not \( -type d -empty \) -printf '%P\n' 2>/dev/null | sort
}
is_clean() { [ "$(stored)" = "$1" ]; }
# What is removed is out of sight at once and off the disk some time later.
no_trash() { ! stored | grep -q '^moss-trash/'; }
settled() { eventually 20 no_trash && stored; }

# all_whole: every image can be looked at, and none is without a name.
all_whole() {
  local list id
  list=$(api GET "/images/json?all=1")
  [ "$(tail -n 1 <<<"$list")" = 200 ] || fail "the images cannot be listed: $list" || return
  list=$(head -n 1 <<<"$list")
  for id in $(jq -r '.[].Id' <<<"$list"); do
    [ "$(api GET "/images/$id/json" | tail -n 1)" = 200 ] || fail "image $id is there by half" || return
    [ "$(api GET "/images/$id/history" | tail -n 1)" = 200 ] || fail "image $id has no history" || return
  done
  expect equal "$(jq '[.[] | select((.RepoTags // []) - ["<none>:<none>"] == [])] | length' <<<"$list")" 0
}
here() { moss inspect --type image "$1" >/dev/null 2>&1; }
# works IMAGE: all its files are what they were.
works() {
  expect equal "$(moss run --rm "$1" sh -c 'cat /home/* | md5sum')" "$(moss run --rm base sh -c 'cat /home/* | md5sum')"
}

@test "import" {
  name=$(unique import)
  measure moss import "$MOSS_DIR/big.tar" "$name"
  moss rmi "$name"
  clean=$(settled)
  for _ in $(seq "$rounds"); do
    killed_during moss import "$MOSS_DIR/big.tar" "$name"
    all_whole
    if here "$name"; then
      works "$name"
      moss rmi "$name" >/dev/null
    fi
    eventually 20 is_clean "$clean"
  done
}

@test "commit" {
  name=$(unique commit)
  moss run --name "$name" base sh -c 'rm -f /home/1; cp -r /home /copy'
  measure moss commit "$name" "$name"
  moss rmi "$name"
  clean=$(settled)
  for _ in $(seq "$rounds"); do
    killed_during moss commit "$name" "$name"
    all_whole
    if here "$name"; then
      expect equal "$(moss run --rm "$name" sh -c 'ls /copy | wc -l; ls /home | wc -l' | xargs)" "299 299"
      moss rmi "$name" >/dev/null
    fi
    expect equal "$(state "$name")" exited # committing pauses what runs; this one keeps its state
    eventually 20 is_clean "$clean"
  done
  moss rm "$name"
}

@test "tag" {
  name=$(unique tag)
  one=$(moss import -m one "$MOSS_DIR/box.tar" "$name:one" | tail -n 1)
  two=$(moss import -m two "$MOSS_DIR/box.tar" "$name:two" | tail -n 1)
  to_and_fro() {
    for _ in $(seq 20); do
      curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -X POST "http://moss/images/$name:one/tag?repo=$name&tag=now" || return
      curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" -X POST "http://moss/images/$name:two/tag?repo=$name&tag=now" || return
    done
  }
  measure to_and_fro
  for _ in $(seq "$rounds"); do
    killed_during to_and_fro
    all_whole
    now=$(moss inspect --type image "$name:now" | jq -r '.[0].Id')
    [ "$now" = "$one" ] || [ "$now" = "$two" ] || fail "the name is lost: $now"
    expect equal "$(moss inspect --type image "$name:one" | jq -r '.[0].Id')" "$one"
    expect equal "$(moss inspect --type image "$name:two" | jq -r '.[0].Id')" "$two"
  done
  moss rmi "$name:now" "$name:one" "$name:two"
}

@test "delete" {
  name=$(unique delete)
  clean=$(settled)
  moss import "$MOSS_DIR/big.tar" "$name"
  measure moss rmi "$name"
  for _ in $(seq "$rounds"); do
    moss import -c 'ENV a=b' "$MOSS_DIR/big.tar" "$name" >/dev/null
    killed_during moss rmi "$name"
    all_whole
    if here "$name"; then
      works "$name"
      moss rmi "$name" >/dev/null
    fi
    eventually 20 is_clean "$clean"
  done
}

@test "load" {
  name=$(unique load)
  moss import "$MOSS_DIR/big.tar" "$name:1"
  moss run --name "$name" "$name:1" touch /more
  moss commit "$name" "$name:2" >/dev/null
  moss rm "$name"
  moss save -o "$MOSS_DIR/$name.tar" "$name:1" "$name:2"
  moss rmi "$name:2" "$name:1"
  clean=$(settled)
  measure moss load -q -i "$MOSS_DIR/$name.tar"
  moss rmi "$name:2" "$name:1"
  for _ in $(seq "$rounds"); do
    killed_during moss load -q -i "$MOSS_DIR/$name.tar"
    all_whole
    for tag in 2 1; do
      if here "$name:$tag"; then
        works "$name:$tag"
        moss rmi "$name:$tag" >/dev/null
      fi
    done
    eventually 20 is_clean "$clean"
  done
  rm "$MOSS_DIR/$name.tar"
}
