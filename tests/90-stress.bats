#!/usr/bin/env bats
# bats file_tags=alone
# Many, much and rude: nothing is lost and nothing is left.

load lib/moss

setup_file() {
  start_engine
  import_busybox
  moss run --rm busybox true # what is made once is made
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# What the engine holds. Counted before and after.
mounts() { grep -c . "/proc/$(inner_pid)/mountinfo"; }
fds() { find "/proc/$(inner_pid)/fd" -mindepth 1 2>/dev/null | wc -l; }
goroutines() { answer_of /info .NGoroutines; }
shims() { pgrep -c -u "$(id -u)" -f "moss-shim run $MOSS_DIR/run/tasks" || true; }
tasks() { find "$MOSS_DIR/run/tasks" "$MOSS_DIR/run/runtime" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l; }
folders() { find "$MOSS_DATA/root/containers" -mindepth 1 -maxdepth 1 | wc -l; }
layers() { find "$MOSS_DATA/root" -maxdepth 3 -path '*overlay*' -type d -not -name l 2>/dev/null | wc -l; }
links() { nsenter --preserve-credentials -U -m -t "$(inner_pid)" nsenter --net="$MOSS_DIR/run/rootlesskit/netns" ip -o link | grep -c .; }
held() { echo "mounts=$(mounts) shims=$(shims) tasks=$(tasks) folders=$(folders) layers=$(layers) links=$(links)"; }
holds() { [ "$(held)" = "$1" ]; }
quiet() { [ "$(fds)" -le "$1" ] && [ "$(goroutines)" -le "$2" ]; }
back_to() { # HELD FDS GOROUTINES: small pools may have filled meanwhile
  eventually 15 holds "$1" || fail "was: $1" "now: $(held)"
  eventually 15 quiet $(($2 + 4)) $(($3 + 6)) || fail "was: fds=$2 goroutines=$3" "now: fds=$(fds) goroutines=$(goroutines)"
}

# bats test_tags=chance
@test "200 containers started by 8 clients end with the right codes and leave nothing" {
  seed_chance
  before=$(held) fds=$(fds) goroutines=$(goroutines)
  name=$(unique many)
  # Which client starts which of them, and in which order, is drawn.
  mapfile -t order < <(seq 200)
  for ((i = 199; i > 0; i--)); do
    draw 0 $i >/dev/null
    j=${order[i]} order[i]=${order[drawn]} order[drawn]=$j
  done
  echo "order: ${order[*]}"
  worker() {
    local i
    for i in "${order[@]:$((25 * ($1 - 1))):25}"; do
      "$moss_bin/moss" -H "unix://$MOSS_SOCK" run -d --name "$name-$i" --label "set=$name" busybox sh -c "echo $i; exit $((i % 200))" >/dev/null || return
    done
  }
  pids=()
  for w in 1 2 3 4 5 6 7 8; do
    worker $w 3>&- &
    pids+=($!)
  done
  for p in "${pids[@]}"; do wait "$p"; done
  for i in $(seq 200); do echo $((i % 200)); done >"$BATS_TEST_TMPDIR/want"
  seq 200 | sed "s/^/$name-/" | xargs timeout 600 "$moss_bin/moss" -H "unix://$MOSS_SOCK" wait >"$BATS_TEST_TMPDIR/got"
  diff "$BATS_TEST_TMPDIR/want" "$BATS_TEST_TMPDIR/got"
  expect equal "$(moss ps -aq --filter "label=set=$name" --filter status=exited | wc -l)" 200
  expect equal "$(moss logs "$name-77")" 77
  moss ps -aq --filter "label=set=$name" | xargs timeout 600 "$moss_bin/moss" -H "unix://$MOSS_SOCK" rm >/dev/null
  back_to "$before" "$fds" "$goroutines"
}

@test "100 MB through stdin and stdout come back byte for byte, by docker and by moss" {
  before=$(held) fds=$(fds) goroutines=$(goroutines)
  head -c 100000000 /dev/urandom >"$BATS_TEST_TMPDIR/in"
  want=$(sha256sum <"$BATS_TEST_TMPDIR/in")
  got=$(dock run --rm -i --log-driver none busybox cat <"$BATS_TEST_TMPDIR/in" | sha256sum)
  expect equal "$got" "$want"
  got=$(moss run --rm -i --log-driver none busybox cat <"$BATS_TEST_TMPDIR/in" | sha256sum)
  expect equal "$got" "$want"
  got=$(dock run --rm -i busybox cat <"$BATS_TEST_TMPDIR/in" | sha256sum) # with its log written
  expect equal "$got" "$want"
  back_to "$before" "$fds" "$goroutines"
}

@test "clients that hang up while attached leak nothing, and the container goes on" {
  before=$(held) fds=$(fds) goroutines=$(goroutines)
  name=$(unique rude)
  moss run -d -i --name "$name" busybox sh -c 'while :; do echo x; sleep 0.01; done'
  id=$(moss inspect "$name" | jq -r '.[0].Id')
  for _ in $(seq 20); do
    timeout 180 python3 "$moss_top/tests/lib/raw.py" "$MOSS_SOCK" attach "$id" 'stream=1&stdin=1&stdout=1&stderr=1' --upgrade --hang-up >/dev/null
  done
  for _ in 1 2 3; do timeout -s KILL 0.5 "$moss_bin/moss" -H "unix://$MOSS_SOCK" logs -f "$name" >/dev/null || true; done
  is_running "$name"
  moss rm -f "$name"
  back_to "$before" "$fds" "$goroutines"
}

@test "clients that hang up before the start leak nothing" {
  before=$(held) fds=$(fds) goroutines=$(goroutines)
  name=$(unique early)
  id=$(moss create -i --name "$name" busybox cat)
  for _ in $(seq 10); do
    timeout -s KILL 0.3 python3 "$moss_top/tests/lib/raw.py" "$MOSS_SOCK" attach "$id" 'stream=1&stdin=1&stdout=1' --upgrade >/dev/null || true
  done
  moss rm "$name"
  back_to "$before" "$fds" "$goroutines"
}

@test "a client that hangs up while it imports leaves no image, no file, no goroutine" {
  before=$(held) fds=$(fds) goroutines=$(goroutines)
  name=$(unique half)
  for n in 100 20000 700000; do
    timeout 180 python3 "$moss_top/tests/lib/raw.py" "$MOSS_SOCK" send "/images/create?fromSrc=-&repo=$name" $n <"$MOSS_DIR/busybox.tar"
  done
  back_to "$before" "$fds" "$goroutines"
  run api GET "/images/$name/json"
  expect line -1 404
}

# is_held NAME LINES: has it written after those lines of its log, and does it stand?
is_held() { [ "$(moss logs "$1" | wc -l)" -gt "$2" ] && stands "$1"; }

@test "a viewer that does not read holds the container's output up, and nothing else" {
  name=$(unique slow)
  moss run -d -i --name "$name" busybox sh -c 'read x; i=0; while [ $i -lt 20000 ]; do echo "$i and some more to fill the buffers of a viewer that sleeps"; i=$((i+1)); done'
  id=$(moss inspect "$name" | jq -r '.[0].Id')
  before=0
  for round in leaves stays; do
    timeout 180 python3 "$moss_top/tests/lib/raw.py" "$MOSS_SOCK" attach "$id" 'stream=1&stdin=1&stdout=1' --upgrade --sleep --stdin $'go\n' >"$BATS_TEST_TMPDIR/$round" 3>&- &
    sleeper=$!
    # How much there is room for on the way depends on how many lines a write has.
    eventually 10 is_held "$name" "$before"
    [ "$(moss logs "$name" | wc -l)" -lt $((before + 20000)) ] || fail "all lines are in the log"
    is_running "$name" # and inspect answers
    if [ $round = leaves ]; then
      kill $sleeper
      eventually 20 is_exited "$name"
      before=$(moss logs "$name" | wc -l)
      expect equal "$before" 20000
      moss start "$name"
    else
      CLIENT_SECONDS=60 moss stop -t 0 "$name"
      kill $sleeper
    fi
  done
  moss rm "$name"
}
