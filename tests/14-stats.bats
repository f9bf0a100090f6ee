#!/usr/bin/env bats
# What containers use and run: stats and top.
# bats file_tags=subids

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# sample NAME [VERSION]: one sample.
sample() { api GET "${2:+/v$2}/containers/$1/stats?stream=0" | head -n 1; }
# run_quietly NAME ARG...: a container in the background.
run_quietly() {
  local name=$1
  shift
  moss run -d --name "$name" "$@" >/dev/null
}
# sleeps NAME SECONDS: the runtime's own process has become the container's, and its work is over.
sleeps() { [ "$(answer_of "/containers/$1/top" -r '.Processes[0][7]')" = "sleep $2" ]; }
busy='while :; do :; done'
# share SAMPLE: the CPU share in percent, as clients compute it.
share() {
  jq '(.cpu_stats.cpu_usage.total_usage - .precpu_stats.cpu_usage.total_usage)
    / (.cpu_stats.system_cpu_usage - .precpu_stats.system_cpu_usage) * (.cpu_stats.cpu_usage.percpu_usage | length) * 100 | round' <<<"$1"
}

# bats test_tags=alone
@test "stats: one sample has a reading before it, a second apart" {
  name=$(unique one)
  run_quietly "$name" --network none busybox sh -c "$busy"
  one=$(sample "$name")
  expect equal "$(jq '[.read, .preread] | map(sub("\\..*";"Z") | fromdate) | (.[0] - .[1] <= 10) and (.[0] > 1600000000)' <<<"$one")" true
  expect equal "$(jq '.cpu_stats.cpu_usage.total_usage > .precpu_stats.cpu_usage.total_usage and .cpu_stats.system_cpu_usage > .precpu_stats.system_cpu_usage and .precpu_stats.system_cpu_usage > 0' <<<"$one")" true
  # Others may use the machine too, but a loop gets a good part of a CPU, and no more than one.
  local got
  got=$(share "$one")
  [ "$got" -ge 15 ] && [ "$got" -le 110 ] || fail "CPU share is $got %"
  expect equal "$(jq '.cpu_stats.online_cpus == (.cpu_stats.cpu_usage.percpu_usage | length)' <<<"$one")" true
  expect equal "$(jq -r '.id, .name' <<<"$one")" "$(moss inspect "$name" | jq -r '.[0] | .Id, .Name')"
  moss rm -f "$name"
}

@test "stats: an idle container uses no CPU" {
  name=$(unique idle)
  run_quietly "$name" --network none busybox sleep 1000
  eventually 10 sleeps "$name" 1000
  expect equal "$(share "$(sample "$name")")" 0
  moss rm -f "$name"
}

@test "stats: memory is what the processes hold" {
  name=$(unique mem)
  # The shell's variable holds 40 MB.
  run_quietly "$name" --network none busybox sh -c 'x=$(head -c 40000000 /dev/zero | tr "\0" x); sleep 1000; echo "$x"'
  eventually 30 has_memory
  one=$(sample "$name")
  expect equal "$(jq '.memory_stats | .usage >= 40000000 and .usage < 400000000 and .stats.rss >= 40000000' <<<"$one")" true
  total=$(($(awk '/^MemTotal/ { print $2 }' /proc/meminfo) * 1024))
  expect equal "$(jq '.memory_stats.limit' <<<"$one")" $total
  moss rm -f "$name"
}
has_memory() { [ "$(sample "$name" | jq '.memory_stats | .usage > 40000000 and .usage < 60000000')" = true ]; }

@test "stats: processes and threads are counted, from 1.24 on" {
  name=$(unique pids)
  run_quietly "$name" --network none busybox sh -c 'sleep 1000 & sleep 1000 & wait'
  three() { [ "$(sample "$name" | jq .pids_stats.current)" = 3 ]; }
  eventually 10 three
  expect equal "$(sample "$name" 1.23 | jq .pids_stats)" null
  moss rm -f "$name"
}

@test "stats: network counters per interface from 1.21 on, in one before" {
  name=$(unique net)
  run_quietly "$name" busybox sh -c 'while :; do echo hello >/dev/tcp 2>/dev/null; ping -c 1 -W 1 172.17.0.1 >/dev/null 2>&1; nc -w 1 10.0.2.2 9 </dev/null >/dev/null 2>&1; done'
  sent() { [ "$(sample "$name" | jq '.networks.eth0.tx_packets > 0 and .networks.eth0.tx_bytes > 0')" = true ]; }
  eventually 20 sent
  expect equal "$(sample "$name" | jq -c '[(.networks | keys), .network]')" '[["eth0"],null]'
  expect equal "$(sample "$name" 1.20 | jq '.networks == null and .network.tx_packets > 0')" true
  moss rm -f "$name"
}

@test "stats: the host's interfaces are not the container's, and none has none" {
  for mode in host none; do
    name=$(unique $mode)
    run_quietly "$name" --network $mode busybox sleep 1000
    expect equal "$(sample "$name" | jq .networks)" null
    moss rm -f "$name"
  done
}

@test "stats: bytes written to a disk are counted" {
  name=$(unique io)
  run_quietly "$name" --network none busybox sh -c 'dd if=/dev/zero of=/file bs=1M count=8 conv=fsync 2>/dev/null; sleep 1000'
  wrote() { [ "$(sample "$name" | jq '[.blkio_stats.io_service_bytes_recursive[] | select(.op == "Write") | .value] | add >= 8388608')" = true ]; }
  eventually 30 wrote
  moss rm -f "$name"
}

@test "stats: the stream has a sample a second until the container is removed, zeros without a process" {
  name=$(unique stream)
  moss create --name "$name" --network none busybox sleep 1000 >/dev/null
  curl -sSN --max-time 180 --unix-socket "$MOSS_SOCK" "http://moss/containers/$name/stats" >"$BATS_TEST_TMPDIR/stream" 3>&- &
  client=$!
  lines() { [ "$(jq -c "select($1)" "$BATS_TEST_TMPDIR/stream" 2>/dev/null | wc -l)" -ge "$2" ]; }
  none='.read == "0001-01-01T00:00:00Z" and .memory_stats.usage == 0 and .cpu_stats.cpu_usage.total_usage == 0'
  eventually 10 lines "$none" 1
  moss start "$name" >/dev/null
  eventually 10 lines '.memory_stats.usage > 0' 3
  before=$(jq -c "select($none)" "$BATS_TEST_TMPDIR/stream" | wc -l)
  moss kill "$name" >/dev/null
  eventually 10 lines "$none" $((before + 2))
  moss rm "$name"
  eventually 10 ended $client
  wait $client
  # Every sample with one before it has it a second before.
  run jq -c 'select(.preread != "0001-01-01T00:00:00Z") | [.read, .preread] | map(sub("\\..*";"Z") | fromdate) | .[0] - .[1] | . >= 0 and . <= 10' "$BATS_TEST_TMPDIR/stream"
  expect contains true
  expect lacks false
}

@test "stats: 1.18 always streams" {
  name=$(unique old)
  run_quietly "$name" --network none busybox sleep 1000
  run head -n 2 < <(curl -sN --max-time 180 --unix-socket "$MOSS_SOCK" "http://moss/v1.18/containers/$name/stats?stream=0")
  expect lacks precpu_stats
  expect contains preread
  [ "$(grep -c memory_stats <<<"$output")" = 2 ] || fail "no stream: $output"
  moss rm -f "$name"
}

@test "stats and top: of none 404, and top of one that does not run 409" {
  run api GET /containers/nosuch/stats
  expect line -1 404
  run api GET '/containers/nosuch/stats?stream=0'
  expect line -1 404
  run api GET /containers/nosuch/top
  expect line -1 404
  name=$(unique created)
  moss create --name "$name" busybox true >/dev/null
  run api GET "/containers/$name/top"
  expect line -1 409
  expect contains "Container $name is not running"
  expect equal "$(sample "$name" | jq .memory_stats.usage)" 0
  moss rm "$name"
}

@test "stats: docker stats shows the container" {
  name=$(unique dock)
  run_quietly "$name" busybox sh -c "$busy"
  run dock stats --no-stream --format '{{.Name}}|{{.CPUPerc}}|{{.MemUsage}}|{{.PIDs}}' "$name"
  expect status 0
  expect matches "^$name\|[1-9][0-9]*\.[0-9]+%\|[0-9.]+[KM]iB / [0-9.]+GiB\|1$"
  moss rm -f "$name"
}

# bats test_tags=cgroups,alone
@test "stats of a cgroup: limits, throttling, largest use, and every counter of memory.stat" {
  name=$(unique group)
  run_quietly "$name" --network none -m 64m --cpu-period 100000 --cpu-quota 20000 busybox sh -c "$busy"
  one=$(sample "$name")
  expect equal "$(jq '.memory_stats | .limit == 67108864 and .max_usage >= .usage and .stats.hierarchical_memory_limit == 67108864' <<<"$one")" true
  run jq -r '.memory_stats.stats | keys[]' <<<"$one"
  for key in cache rss mapped_file pgpgin pgpgout pgfault pgmajfault writeback unevictable active_anon inactive_anon active_file \
    inactive_file rss_huge; do
    expect matches "^$key$"
    expect matches "^total_$key$"
  done
  expect equal "$(jq '.cpu_stats.throttling_data | .periods > 0 and .throttled_periods > 0 and .throttled_time > 0' <<<"$one")" true
  expect equal "$(jq '.cpu_stats.cpu_usage | (.percpu_usage | add) == .total_usage' <<<"$one")" true
  local got
  got=$(share "$one")
  [ "$got" -ge 10 ] && [ "$got" -le 30 ] || fail "CPU share is $got %, with a limit of 20"
  moss rm -f "$name"
}

# bats test_tags=cgroups
@test "stats of a cgroup: the page cache is counted, and what clients take off with it" {
  name=$(unique cache)
  # The kernel puts pages on its lists by the batch, with large ones much later than it counts them: reading moves them on.
  run_quietly "$name" --network none -m 128m busybox sh -c 'head -c 30000000 /dev/zero >/file; while cat /file >/dev/null; do sleep 0.2; done'
  cached() { [ "$(sample "$name" | jq '.memory_stats | .usage >= 30000000 and .stats.total_cache >= 30000000 and .stats.total_inactive_file + .stats.total_active_file >= 30000000')" = true ]; }
  eventually 20 cached || fail "$(sample "$name" | jq -c .memory_stats)"
  moss rm -f "$name"
}

@test "top: the same processes as ps on the host shows, without a ps in the image" {
  name=$(unique top)
  run_quietly "$name" busybox sh -c 'sleep 1234 & wait'
  pid=$(pid_of "$name")
  child_sleeps() { [ "$(answer_of "/containers/$name/top" -r '.Processes[1][7]')" = "sleep 1234" ]; }
  eventually 10 child_sleeps
  one=$(api GET "/containers/$name/top" | head -n 1)
  expect equal "$(jq -c .Titles <<<"$one")" '["UID","PID","PPID","C","STIME","TTY","TIME","CMD"]'
  expect equal "$(jq -c '.Processes[0] | [.[0], (.[1] | tonumber), .[7]]' <<<"$one")" "[\"root\",$pid,\"sh -c sleep 1234 & wait\"]"
  expect equal "$(jq -c '.Processes[1] | [(.[2] | tonumber), .[7]]' <<<"$one")" "[$pid,\"sleep 1234\"]"
  # The pids are the host's: this one is there, and is the container's.
  expect equal "$(tr '\0' ' ' <"/proc/$(jq -r '.Processes[1][1]' <<<"$one")/cmdline")" "sleep 1234 "
  moss rm -f "$name"
}

@test "top: ps_args choose the columns" {
  name=$(unique args)
  run_quietly "$name" -t busybox sleep 1234
  eventually 10 sleeps "$name" 1234
  table() { answer_of "/containers/$name/top?ps_args=$1" -c "$2"; }
  expect equal "$(table aux .Titles)" '["USER","PID","%CPU","%MEM","VSZ","RSS","TTY","STAT","START","TIME","COMMAND"]'
  expect equal "$(table aux '.Processes[0][10]')" '"sleep 1234"'
  expect equal "$(table -eo%20pid,comm,tty '[.Titles, .Processes[0][1:]]')" '[["PID","COMMAND","TT"],["sleep","pts/0"]]'
  expect equal "$(table -o%20pid%20-o%20args '.Processes[0][1]')" '"sleep 1234"'
  run api GET "/containers/$name/top?ps_args=-o%20comm"
  expect line -1 400
  expect contains "Couldn't find PID field in ps output"
  run api GET "/containers/$name/top?ps_args=-o%20pid,comm%3DPID"
  expect line -1 400
  moss rm -f "$name"
}

@test "top: other arguments go to the host's ps, which shows the container's processes only" {
  command -v ps >/dev/null || skip "needs ps: install procps"
  name=$(unique host)
  run_quietly "$name" busybox sleep 1234
  eventually 10 sleeps "$name" 1234
  one=$(api GET "/containers/$name/top?ps_args=-el" | head -n 1)
  expect equal "$(jq -c '[.Titles[0:5], (.Processes | length), .Processes[0][13]]' <<<"$one")" '[["F","S","UID","PID","PPID"],1,"sleep"]'
  run api GET "/containers/$name/top?ps_args=--nonsense"
  expect line -1 400
  run api GET "/containers/$name/top?ps_args=-l%3Btouch%20$MOSS_DIR/pwned"
  [ ! -e "$MOSS_DIR/pwned" ] || fail "a shell has read the arguments"
  moss rm -f "$name"
}

@test "top: names with newlines and escapes do not break the table" {
  name=$(unique evil)
  # Its own name, in comm, is that of the file; the arguments can be anything.
  run_quietly "$name" busybox sh -c 'f=$(printf "/bin/busybox\nroot 1"); cp /bin/busybox "$f"; exec "$f" sleep 1234'
  run_quietly "$name-2" busybox sh -c "exec sh -c 'sleep 1234; true' \"\$(printf 'a\nb\033[2J')\""
  named() { [ "$(answer_of "/containers/$name/top?ps_args=-o%20pid,comm" -r '.Processes[0][1]')" = 'busybox?root 1' ]; }
  eventually 10 named
  for args in "" aux "-o%20pid,comm,args" -el; do
    for evil in "$name" "$name-2"; do
      one=$(api GET "/containers/$evil/top?ps_args=$args" | head -n 1)
      expect equal "$(jq '.Processes | flatten | any(test("[\u0000-\u001f]"))' <<<"$one")" false
      expect equal "$(jq '.Titles as $t | .Processes | length > 0 and all(length == ($t | length))' <<<"$one")" true
    done
  done
  expect equal "$(answer_of "/containers/$name-2/top" '[.Processes[][7]] | any(contains("a?b?[2J"))')" true
  moss rm -f "$name" "$name-2"
}

@test "top: a paused container's processes are there" {
  name=$(unique paused)
  run_quietly "$name" busybox sleep 1234
  eventually 10 sleeps "$name" 1234
  moss pause "$name" >/dev/null
  sleeps "$name" 1234
  expect equal "$(sample "$name" | jq '.memory_stats.usage > 0')" true
  moss unpause "$name" >/dev/null
  moss rm -f "$name"
}

@test "top: an event tells of it" {
  name=$(unique event)
  run_quietly "$name" --label color=red busybox sleep 1234
  since=$(date +%s)
  dock top "$name" >/dev/null
  run dock events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$name" --filter event=top --format '{{.Action}} {{.Actor.Attributes.color}} {{.Actor.Attributes.name}}'
  expect output "top red $name"
  moss rm -f "$name"
}
