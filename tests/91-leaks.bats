#!/usr/bin/env bats
# bats file_tags=alone
# What many execs, containers and images leave behind: nothing. MOSS_EXECS, MOSS_RUNS and MOSS_IMAGES say how many; the
# defaults keep the suite short.

load lib/moss
load lib/registry

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_registries && stop_engine; }
setup() { begin; }
teardown() { finish; }

descriptors() { find "/proc/$1/fd" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l; }
rss() { awk '/^VmRSS/ {print $2}' "/proc/$1/status"; }
goroutines() { answer_of /info .NGoroutines; }
mounts() { wc -l <"/proc/$1/mountinfo"; }
# The journal of events has up to eight files, and grows to that.
folders() {
  find "$MOSS_DIR/run" "$MOSS_DATA/root" -mindepth 1 -not -path '*/storage/*' -not -path '*/cache/*' -not -path "$MOSS_DATA/root/events/*" 2>/dev/null | wc -l
}
layers() { find "$MOSS_DATA/root/storage/overlay" "$MOSS_DATA/root/storage/vfs/dir" -mindepth 1 -maxdepth 1 -type d 2>/dev/null | wc -l; }
keys() { awk -v me="$(id -u):" '$1 == me {split($4, n, "/"); print n[1]}' /proc/key-users; }
zombies() { pgrep -c -r Z -P "$1" || true; }

# holdings ENGINE [SHIM]: all that must not grow, in one line.
holdings() {
  echo "descriptors $(descriptors "$1") mounts $(mounts "$1") folders $(folders) layers $(layers) keys $(keys) zombies $(zombies "$1")" \
    "shim ${2:+$(descriptors "$2") $(zombies "$2")}"
}
# same_as BEFORE ENGINE [SHIM]: nothing more is held. What was just being done at the first look may be less by now.
same_as() {
  local was is i
  read -ra was <<<"$1"
  read -ra is <<<"$(holdings "$2" "${3:-}")"
  [ ${#is[@]} = ${#was[@]} ] || return 1
  for i in "${!is[@]}"; do
    if [[ ${is[i]} == *[!0-9]* ]]; then continue; fi
    [ "${is[i]}" -le "${was[i]}" ] || return 1
  done
}

few_goroutines() { [ "$(goroutines)" -le "$1" ]; }

# grew WHAT BEFORE AFTER MOST: fails if it grew by more.
grew() { [ $(($3 - $2)) -le "$4" ] || fail "$1 grew from $2 to $3"; }

@test "many execs leave nothing behind" {
  name=$(unique box)
  moss run -d --name "$name" busybox sleep 100000 >/dev/null
  engine=$(inner_pid)
  shim=$(awk '/^PPid/ {print $2}' "/proc/$(moss inspect --format '{{.State.Pid}}' "$name")/status")
  # What is kept of ended execs, and what every part needs at its fullest, is there after some.
  python3 "$BATS_TEST_DIRNAME/lib/many.py" "$MOSS_SOCK" exec 300 "$name"
  held() { holdings "$engine" "$shim"; }
  before=$(held) goroutines=$(goroutines) memory=$(rss "$engine") shim_memory=$(rss "$shim")
  python3 "$BATS_TEST_DIRNAME/lib/many.py" "$MOSS_SOCK" exec "${MOSS_EXECS:-500}" "$name"
  eventually 20 same_as "$before" "$engine" "$shim" || fail "before: $before" "after:  $(held)"
  eventually 20 few_goroutines $((goroutines + 2)) || fail "$goroutines goroutines before, $(goroutines) after"
  grew "the engine's memory in KiB" "$memory" "$(rss "$engine")" 16384
  grew "the shim's memory in KiB" "$shim_memory" "$(rss "$shim")" 4096
  moss rm -f "$name" >/dev/null
}

@test "many containers leave nothing behind" {
  engine=$(inner_pid)
  python3 "$BATS_TEST_DIRNAME/lib/many.py" "$MOSS_SOCK" run 50 busybox
  before=$(holdings "$engine") goroutines=$(goroutines) memory=$(rss "$engine")
  python3 "$BATS_TEST_DIRNAME/lib/many.py" "$MOSS_SOCK" run "${MOSS_RUNS:-100}" busybox
  eventually 20 same_as "$before" "$engine" || fail "before: $before" "after:  $(holdings "$engine")"
  eventually 20 few_goroutines $((goroutines + 2)) || fail "$goroutines goroutines before, $(goroutines) after"
  grew "the engine's memory in KiB" "$memory" "$(rss "$engine")" 16384
}

# stored: the store's files and folders, but for the list of layers that are on their way to the disk, and what the
# registry keeps of uploads that were not finished.
stored() {
  find "$MOSS_DATA/root/storage" ! -name unsynced.json 2>/dev/null | wc -l
  find "$MOSS_DATA/registry-leaks" -path '*/_uploads/*' | wc -l
}
trash_is_empty() { [ -z "$(ls -A "$MOSS_DATA/root/storage/moss-trash")" ]; }
# same_images BEFORE ENGINE STORED: nothing more is held and kept; what was just being written at the first look may be less.
same_images() {
  local was is
  mapfile -t was <<<"$3"
  mapfile -t is < <(stored)
  same_as "$1" "$2" && [ "${is[0]}" -le "${was[0]}" ] && [ "${is[1]}" -le "${was[1]}" ]
}

@test "many images leave nothing behind" {
  start_registry leaks
  for i in 0 1 2 3; do
    put_image "$REGISTRY/leak:$i" "word $i"
    moss pull "$REGISTRY/leak:$i"
    moss save -o "$MOSS_DIR/leak.$i" "$REGISTRY/leak:$i"
    moss rmi "$REGISTRY/leak:$i"
  done
  engine=$(inner_pid)
  many() {
    python3 "$BATS_TEST_DIRNAME/lib/many.py" "$MOSS_SOCK" pull "$1" "$REGISTRY/leak"
    python3 "$BATS_TEST_DIRNAME/lib/many.py" "$MOSS_SOCK" load "$1" "$MOSS_DIR/leak"
  }
  many 40
  eventually 20 trash_is_empty
  before=$(holdings "$engine") files=$(stored) goroutines=$(goroutines) memory=$(rss "$engine")
  many "${MOSS_IMAGES:-60}"
  eventually 20 same_images "$before" "$engine" "$files" || fail "before: $before" "after:  $(holdings "$engine")" "stored: $files, $(stored)"
  eventually 20 few_goroutines $((goroutines + 2)) || fail "$goroutines goroutines before, $(goroutines) after"
  grew "the engine's memory in KiB" "$memory" "$(rss "$engine")" 16384
}
