#!/usr/bin/env bats
# bats file_tags=nosub
# Where mounts, devices, the managed files of /etc and working folders really end: an image leads them to places of the
# host's or the kernel's, and a container swaps them.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() {
  begin
  image=$(unique trap)
  dir=$BATS_TEST_TMPDIR/host
  mkdir "$dir"
}
teardown() { finish; }

# trap_image ENTRY...: the image $image, with entries of tests/attack/images/tree.py in place of busybox's own.
trap_image() {
  "$moss_top/tests/attack/images/tree.py" "$MOSS_DIR/busybox.tar" "$@" >"$BATS_TEST_TMPDIR/trap.tar"
  moss import "$BATS_TEST_TMPDIR/trap.tar" "$image" >/dev/null
}

# refused TEXT [ARG]...: a container of $image does not start, for the reason TEXT; nothing of it is left.
refused() {
  local text=$1 name
  shift
  name=$(unique refused)
  CLIENT_SECONDS=120 run moss run --name "$name" "$@" "$image" true
  expect status 125
  expect contains "$text"
  run api POST "/containers/$name/start"
  expect line -1 400
  expect equal "$(state "$name")" created
  moss rm -v "$name"
}

# works WANT [ARG]...: a container of $image runs the commands of $COMMAND and says WANT.
works() {
  local want=$1
  shift
  CLIENT_SECONDS=120 run moss run --rm "$@" "$image" sh -c "${COMMAND:-echo fine}"
  expect output "$want"
}

# mounted PLACE...: the command that prints those that are mount points.
mounted() { printf 'for p in %s; do grep -q " $p " /proc/self/mountinfo && echo $p; done' "$*"; }

# runtime_processes: the runtimes of this engine that have not ended.
runtime_processes() { pgrep -u "$(id -u)" -f "(crun|runc) .*--root $MOSS_DIR/run/" || true; }

# links_are_refused: what holds with every runtime.
links_are_refused() {
  local place
  for place in dev proc sys; do
    trap_image "$place -> $dir"
    refused "/$place is a symbolic link in its image"
  done
  expect equal "$(ls -A "$dir")" ""
  trap_image 'sys -> /proc'
  refused '/sys is a symbolic link in its image'

  trap_image 'data -> /proc/self/fd' 'tmp/x -> ../data' 'm -> /proc/meminfo'
  refused 'mount at /data leads to /proc/self/fd: nothing may be mounted on /proc or below it' -v /data
  refused 'mount at /data leads to /proc/self/fd' -v "$dir:/data"
  refused 'mount at /data leads to /proc/self/fd' --tmpfs /data
  refused 'mount at /tmp/x/0 leads to /proc/self/fd/0' -v "$dir:/tmp/x/0"
  refused 'mount at /data/0 leads to /proc/self/fd/0' --device /dev/null:/data/0
  refused 'mount at /m leads to /proc/meminfo' -v "$dir/none:/m"
  refused 'mount at /proc/sys/kernel: nothing may be mounted on /proc or below it' -v "$dir:/proc/sys/kernel"
  refused 'mount at /proc:' -v "$dir:/proc"

  trap_image 'data -> /sys/fs' 'over -> /' 'device -> dev'
  refused 'mount at /data leads to /sys/fs: a link may not lead to /sys' -v "$dir:/data"
  refused 'mount at /over leads to /' -v "$dir:/over"
  refused 'mount at /device leads to /dev' -v "$dir:/device"

  trap_image 'etc/resolv.conf -> /proc/self/attr/exec' 'proc/self/attr/exec='
  refused 'mount at /etc/resolv.conf leads to /proc/self/attr/exec'
  trap_image 'etc -> /proc'
  refused 'mount at /etc/resolv.conf leads to /proc/resolv.conf'
}

@test "links of an image at /dev, /proc and /sys, and destinations that lead there, are refused" {
  links_are_refused
}

@test "runc: the same are refused" {
  halt_engine
  spawn_engine --runtime runc
  links_are_refused
  trap_image 'x -> /proc/self/fd/7' 'proc/self/fd/7/' 'data -> var/data' 'var/data/'
  refused 'working directory /x leads to /proc/self/fd/7' -w /x
  COMMAND=$(mounted /var/data) works /var/data -v "$dir:/data"
  halt_engine
  spawn_engine
}

@test "no mount point is made outside of the root, wherever links lead" {
  trap_image "data -> $dir" "etc/hosts -> $dir/hosts" "etc/hostname -> ../../../../$dir/hostname" 'l -> data/x' "dir -> $dir-cwd/sub"
  COMMAND=$(mounted "$dir" "$dir/x") works "$(printf '%s\n' "$dir" "$dir/x")" \
    --tmpfs "/data:size=1m" --tmpfs /l -w /dir
  expect equal "$(ls -A "$dir")" ""
}

@test "destinations through links that lead elsewhere work, and inspect shows the client's own text" {
  local name
  name=$(unique linked)
  trap_image 'data -> var/../lib/data' 'lib/data/old=x' 'etc/resolv.conf -> ../run/stub/resolv.conf' 'etc/hosts|' 'one=' 'shm -> /dev/shm'
  echo there >"$dir/file"
  COMMAND="cat /lib/data/file; $(mounted /lib/data /run/stub/resolv.conf /etc/hosts /one /dev/shm/x); cat /proc/uptime" \
    works "$(printf '%s\n' there /lib/data /run/stub/resolv.conf /etc/hosts /one /dev/shm/x there)" \
    -v "$dir:/data" -v "$dir/file:/one" --tmpfs /shm/x -v "$dir/file:/proc/uptime:ro"
  moss create --name "$name" -v "$dir:/data" "$image" sleep 100
  moss start "$name"
  expect equal "$(moss inspect "$name" | jq -r '.[0].Mounts[0].Destination')" /data
  expect equal "$(moss exec "$name" cat /data/file)" there
  moss rm -f "$name"
}

@test "what is mounted decides where the next destination ends" {
  local volume
  volume=$(unique volume)
  image=busybox
  moss run --rm -v "$volume:/v" busybox sh -c 'ln -s /proc/self/fd /v/fd; ln -s /etc /v/etc; mkdir /v/dir; ln -s /home/victim /v/null'
  refused 'mount at /v/fd leads to /proc/self/fd' -v "$volume:/v" -v "$dir:/v/fd"
  refused '/dev/null is a symbolic link in what is mounted at /dev' -v "$volume:/dev"
  COMMAND=$(mounted /etc/x /v/dir) works "$(printf '%s\n' /etc/x /v/dir)" -v "$volume:/v" --tmpfs /v/etc/x -v "$dir:/v/dir"
  moss volume rm "$volume"
}

@test "a working folder may not end in proc, in an image or named by the client" {
  trap_image 'x -> /proc/self/fd/7' 'proc/self/fd/7/' 'c -> /proc/self/cwd' 'r -> proc/1/root' 'srv -> var/www' 's -> /srv'
  refused 'working directory /x leads to /proc/self/fd/7, which is in proc: a process cannot start there' -w /x
  refused 'working directory /x/sub leads to /proc/self/fd/7/sub' -w /x/sub
  refused 'working directory /c leads to /proc/self/cwd' -w /c
  refused 'working directory /r/tmp leads to /proc/1/root/tmp' -w /r/tmp
  refused '/host/self/cwd leads to /host, which is in proc' -w /host/self/cwd -v /proc:/host
  COMMAND='pwd -P' works /var/www -w /s
  COMMAND='pwd -P' works /var/www/new -w /s/new
}

@test "exec: a working folder that a container has led into proc is refused" {
  local name place
  name=$(unique swap)
  for place in self/fd/7 self/cwd 1/root self/task; do
    moss run -d --name "$name" -w /work busybox sh -c "cd / && rmdir /work && ln -s /proc/$place /work && touch /done && sleep 100"
    swapped() { moss exec -w / "$name" test -e /done; }
    eventually 10 swapped
    run moss exec "$name" true
    expect contains 'working directory /work leads to /proc, which is in proc: a process cannot start there'
    moss rm -f "$name"
  done
}

@test "exec: a container that swaps its working folder all the time never leads a process out of its root" {
  local name out n
  name=$(unique racer)
  word=$(unique canary)
  echo "$word" >"$dir/$word"
  # Each round of the racer leads /work to another descriptor of the runtime's; the folder itself comes between.
  moss run -d --name "$name" -w /work busybox sh -c '
    cd /; mkdir /real; rm -rf /work; touch /races
    while :; do for n in 3 4 5 6 7 8 9 10 11 12; do
      rm -rf /work; ln -s /proc/self/fd/$n /work; rm -rf /work; ln -s /real /work; rm /work; ln -s /proc/self/cwd /work
    done; done'
  races() { moss exec -w / "$name" test -e /races; } # before, its own folder is still there
  eventually 10 races
  for n in {1..60}; do
    out=$(moss exec "$name" sh -c 'ls -di . / /real 2>&1; ls -d ./../../../../../home ./../../../../../var/tmp/moss-t* 2>/dev/null; readlink /proc/self/cwd' 2>&1) || true
    # A process that started is in the container's root or in /real; one that did not was refused.
    case ${out##*$'\n'} in
      / | /real | *'working directory'* | *chdir* | *'No such file'*) ;;
      *) fail "a process started elsewhere: $out" ;;
    esac
    expect --in "$out" lacks "$word" moss-t unreachable
  done
  moss rm -f "$name"
}

@test "a process of a container has no descriptor but its streams" {
  run moss run --rm busybox sh -c 'ls /proc/$$/fd; true'
  expect output $'0\n1\n2'
  local name
  name=$(unique fds)
  moss run -d --name "$name" busybox sleep 100
  run moss exec "$name" sh -c 'ls /proc/$$/fd; true'
  expect output $'0\n1\n2'
  moss rm -f "$name"
}

@test "a false proc with FIFOs hangs neither start nor exec, and no runtime stays" {
  trap_image 'proc -> /fake' 'fake/self/setgroups|' 'fake/self/attr/exec|' 'fake/sys/kernel/ns_last_pid|'
  refused '/proc is a symbolic link in its image'
  trap_image 'proc/self/setgroups|' 'proc/self/uid_map|' 'etc/passwd|' 'etc/group|' 'etc/hosts|' 'dev/null|' 'etc/resolv.conf|'
  works fine
  local name
  name=$(unique fifos)
  moss run -d --name "$name" "$image" sleep 100
  expect equal "$(moss exec "$name" echo fine)" fine
  moss rm -f "$name"
  expect equal "$(runtime_processes)" ""
}

@test "a client's masked path does not lead into proc" {
  local name
  name=$(unique masked)
  trap_image 'secret -> etc/passwd' 'trap -> /proc/self'
  run api POST "/containers/create?name=$name" "{\"Image\":\"$image\",\"Cmd\":[\"cat\",\"/etc/passwd\"],\"HostConfig\":{\"MaskedPaths\":[\"/proc/kcore\",\"/secret\"]}}"
  expect line -1 201
  run moss start -a "$name"
  expect output ""
  moss rm "$name"
  run api POST "/containers/create?name=$name" "{\"Image\":\"$image\",\"Cmd\":[\"true\"],\"HostConfig\":{\"MaskedPaths\":[\"/trap/attr\"]}}"
  expect line -1 201
  run moss start "$name"
  expect contains 'the masked or read-only path /trap/attr leads to /proc/self/attr'
  moss rm "$name"
}

@test "the runtime makes its copies of itself in the engine's folder, not in /tmp, and none stays" {
  local name runtime=$BATS_TEST_TMPDIR/crun
  # shellcheck disable=SC2016 # for the script
  printf '#!/bin/sh\necho "$_LIBCONTAINER_STATEDIR $TMPDIR" >>"%s.log"\nexec crun "$@"\n' "$runtime" >"$runtime"
  chmod 755 "$runtime"
  halt_engine
  spawn_engine --runtime "$runtime"
  name=$(unique copies)
  moss run -d --name "$name" busybox sleep 100
  moss exec "$name" true
  moss rm -f "$name"
  [ "$(wc -l <"$runtime.log")" -ge 4 ] # version, run, exec, delete
  expect equal "$(grep -vE "^($MOSS_DIR/run/[^ ]+) \1$" "$runtime.log")" ""
  expect equal "$(find "$MOSS_DIR/run" -name 'crun.??????' -o -name '.call-*')" ""
  halt_engine
  spawn_engine
}

# bats test_tags=alone
@test "8,500 half bodies do not keep the owner out" {
  local ready=$BATS_TEST_TMPDIR/ready n
  "$moss_top/tests/attack/requests/half_bodies.py" "$MOSS_SOCK" 8500 "$ready" 3>&- &
  local flood=$!
  eventually 120 test -s "$ready"
  [ "$(<"$ready")" -gt 1000 ]
  owner_in() { moss ps >/dev/null 2>&1; }
  eventually 30 owner_in
  for n in {1..10}; do
    run moss ps
    expect status 0
  done
  run moss run --rm busybox echo fine
  expect output fine
  kill "$flood"
  wait "$flood" || true
}
