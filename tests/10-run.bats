#!/usr/bin/env bats
# bats file_tags=nosub
# moss run: what goes in, what comes out, how it ends.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

@test "run prints what the command prints and returns its code" {
  run moss run --rm busybox echo hello
  expect status 0
  expect output hello
  run moss run --rm busybox sh -c 'echo out; echo err >&2; exit 7'
  expect status 7
  expect contains out err
}

@test "a command that a signal ends returns 128 and the signal" {
  run moss run --rm busybox sh -c 'sh -c "kill -TERM \$\$"; exit $?'
  expect status 143
  name=$(unique kill)
  timeout 300 "$moss_bin/moss" --host "unix://$MOSS_SOCK" run --rm --name "$name" busybox sleep 1000 3>&- &
  client=$!
  eventually 10 is_running "$name"
  moss kill "$name"
  status=0
  wait $client || status=$?
  expect status 137
}

@test "stdout and stderr arrive apart" {
  run --separate-stderr moss run --rm busybox sh -c 'echo out; echo err >&2'
  expect status 0
  expect output out
  expect equal "$stderr" err
}

@test "stdin goes in and ends" {
  run moss run --rm -i busybox cat < <(printf 'a\nb\n')
  expect status 0
  expect output $'a\nb'
  run moss run --rm -i busybox wc -c </dev/null
  expect status 0
  expect output 0
}

@test "without -i the command reads nothing" {
  run moss run --rm busybox wc -c < <(printf 'a\nb\n')
  expect status 0
  expect output 0
}

@test "a command that does not read its stdin ends the run all the same" {
  run moss run --rm -i busybox true < <(yes | head -c 10000000)
  expect status 0
}

@test "megabytes through stdin and stdout come back byte for byte" {
  head -c 5000000 /dev/urandom >"$BATS_TEST_TMPDIR/in"
  moss run --rm -i busybox cat <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out"
  cmp "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
}

@test "host name, processes, environment and working folder are the container's own" {
  run moss run --rm --hostname box -e A=b -w /tmp busybox sh -c 'hostname; echo $A; pwd; echo $$; id -u; echo $HOME'
  expect status 0
  expect output $'box\nb\n/tmp\n1\n0\n/root'
  run moss run --rm -w /made/by/moss busybox pwd
  expect output /made/by/moss
  run env FROM_ME=mine "$moss_bin/moss" --host "unix://$MOSS_SOCK" run --rm -e FROM_ME busybox sh -c 'echo $FROM_ME'
  expect output mine
}

# bats test_tags=subids
@test "-u runs as another user, by name or number" {
  run moss run --rm -u www busybox id
  expect status 0
  expect contains 'uid=33(www) gid=33(www)' '50(staff)'
  run moss run --rm -u 12:34 busybox id
  expect contains 'uid=12 gid=34'
  run moss run --rm -u no-such-user busybox id
  [ "$status" -ne 0 ] || fail "an unknown user was taken"
  expect contains no-such-user
}

@test "-v shows a folder of the host, read-only if asked" {
  dir=$BATS_TEST_TMPDIR/share
  mkdir "$dir"
  echo from-host >"$dir/a"
  run moss run --rm -v "$dir:/share" busybox sh -c 'cat /share/a; echo from-container >/share/b'
  expect status 0
  expect output from-host
  expect equal "$(cat "$dir/b")" from-container
  expect equal "$(stat -c %u "$dir/b")" "$(id -u)"
  run moss run --rm -v "$dir:/share:ro" busybox sh -c 'echo x >/share/c'
  expect status 1
  expect contains "Read-only file system"
}

@test "-p publishes a port, on the address that was asked for" {
  name=$(unique web)
  moss run -d --name "$name" -p 127.0.0.1::80 busybox httpd -f -h /var/www
  port=$(moss inspect "$name" | jq -r '.[0].NetworkSettings.Ports["80/tcp"][0].HostPort')
  expect --in "$port" matches '^[0-9]+$'
  page() { [ "$(curl -s --max-time 5 "http://127.0.0.1:$port/index.html")" = "hello from busybox" ]; }
  eventually 10 page
  run moss run -d --name "$name-2" -p "127.0.0.1:$port:80" busybox true
  expect status 125
  expect contains "$port"
  moss rm -f "$name" "$name-2"
  run curl -s --max-time 5 "http://127.0.0.1:$port/"
  [ "$status" -ne 0 ] || fail "the port answers after the container's end"
}

@test "containers reach each other and have names for themselves" {
  name=$(unique web)
  moss run -d --name "$name" busybox httpd -f -h /var/www
  ip=$(moss inspect "$name" | jq -r '.[0].NetworkSettings.IPAddress')
  expect --in "$ip" matches '^[0-9.]+$'
  run moss run --rm busybox sh -c "for i in \$(seq 50); do wget -qO- http://$ip/index.html 2>/dev/null && break; sleep 0.2; done"
  expect status 0
  expect output "hello from busybox"
  run moss run --rm --hostname myself busybox ping -c 1 -W 2 myself
  expect status 0
  moss rm -f "$name"
}

@test "--network none has a loopback only, host has the host's" {
  run moss run --rm --network none busybox ls /sys/class/net
  expect output lo
  run moss run --rm --network host busybox readlink /proc/self/ns/net
  expect output "$(readlink /proc/self/ns/net)"
}

@test "--rm leaves nothing, without it the container stays" {
  name=$(unique gone)
  moss run --rm --name "$name" busybox true
  is_gone "$name"
  moss run -d --rm --name "$name" busybox true
  eventually 10 is_gone "$name"
  moss run --name "$name" busybox true
  expect equal "$(state "$name")" exited
  moss rm "$name"
}

@test "-d prints the id and goes on by itself" {
  name=$(unique bg)
  run moss run -d --name "$name" busybox sleep 1000
  expect status 0
  expect matches '^[0-9a-f]{64}$'
  expect equal "$(state "$name")" running
  moss rm -f "$name"
}

@test "--cidfile holds the id" {
  run moss run --rm --cidfile "$BATS_TEST_TMPDIR/cid" busybox true
  expect status 0
  expect --in "$(cat "$BATS_TEST_TMPDIR/cid")" matches '^[0-9a-f]{64}$'
}

@test "125: an absent image, a wrong flag, a name that is taken" {
  run moss run --rm 127.0.0.1:1/no-such-image true
  expect status 125
  expect line 0 "Unable to find image '127.0.0.1:1/no-such-image' locally"
  expect --in "${lines[1]}" contains "moss: pull 127.0.0.1:1/no-such-image: "
  expect equal "${#lines[@]}" 2
  run moss run --no-such-flag busybox true
  expect status 125
  expect contains no-such-flag
  name=$(unique taken)
  moss run --name "$name" busybox true
  run moss run --name "$name" busybox true
  expect status 125
  expect contains "$name"
  moss rm "$name"
}

@test "126: a command that may not be executed; 127: one that is not there" {
  run moss run --rm busybox /etc/passwd
  expect status 126
  expect contains /etc/passwd
  run moss run --rm busybox /tmp
  expect status 126
  run -127 moss run --rm busybox /no/such/command
  expect contains /no/such/command
  run -127 moss run --rm busybox no-such-command
  expect contains no-such-command
}

@test "a command that is not there leaves a container with code 127" {
  name=$(unique absent)
  run -127 moss run --name "$name" busybox /no/such/command
  run moss inspect "$name"
  expect equal "$(jq -r '.[0].State.ExitCode' <<<"$output")" 127
  expect --in "$(jq -r '.[0].State.Status' <<<"$output")" matches '^(created|exited)$'
  expect --in "$(jq -r '.[0].State.Error' <<<"$output")" contains /no/such/command
  moss rm "$name"
}

@test "-t gives a terminal of the client's size" {
  run pty_until xterm 41 101 "$moss_bin/moss" --host "unix://$MOSS_SOCK" run --rm -it busybox sh -c 'stty size; tty; echo $TERM; read x'
  expect status 0
  expect contains "41 101" /dev/pts/0 xterm
}

@test "the terminal's size follows the client's, and is given back as it was" {
  cat >"$BATS_TEST_TMPDIR/e" <<'EXPECT'
set timeout 120
spawn sh
expect "\\$ "
send "stty rows 30 cols 90; stty -g >$env(BATS_TEST_TMPDIR)/before\r"
expect "\\$ "
send "$env(MOSS_BIN_)/moss -H unix://$env(MOSS_SOCK) run --rm -it busybox sh\r"
expect "# "
send "stty size\r"
expect "30 90"
exec stty rows 31 cols 91 <$spawn_out(slave,name)
expect "# "
send "until stty size | grep '31 91'; do sleep 0.1; done\r"
expect -re "\n31 91"
expect "# "
send "exit 5\r"
expect "\\$ "
send "echo code=\$?\r"
expect "code=5"
expect "\\$ "
send "stty -g >$env(BATS_TEST_TMPDIR)/after; exit 9\r"
expect eof
lassign [wait] pid id os status
exit $status
EXPECT
  MOSS_BIN_=$moss_bin PS1='$ ' run timeout 600 expect "$BATS_TEST_TMPDIR/e"
  expect status 9
  expect contains "code=5"
  cut -d: -f1-4 "$BATS_TEST_TMPDIR/before" >"$BATS_TEST_TMPDIR/before.modes"
  cut -d: -f1-4 "$BATS_TEST_TMPDIR/after" | diff "$BATS_TEST_TMPDIR/before.modes" -
}

@test "the detach keys leave the container running; attach comes back to it" {
  name=$(unique keys)
  cat >"$BATS_TEST_TMPDIR/e" <<'EXPECT'
set timeout 120
spawn $env(MOSS_BIN_)/moss -H unix://$env(MOSS_SOCK) run -it --name $env(NAME) busybox sh
expect "# "
send "x=before\r"
expect "# "
send "\x10\x11"
expect eof
lassign [wait] pid id os status
if {$status != 0} {exit 90}
spawn $env(MOSS_BIN_)/moss -H unix://$env(MOSS_SOCK) attach --detach-keys ctrl-a,b $env(NAME)
send "\r"
expect "# "
send "echo \$x-and-after\r"
expect "before-and-after"
expect "# "
send "\x01b"
expect eof
lassign [wait] pid id os status
if {$status != 0} {exit 91}
EXPECT
  MOSS_BIN_=$moss_bin NAME=$name run timeout 600 expect "$BATS_TEST_TMPDIR/e"
  expect status 0
  expect equal "$(state "$name")" running
  moss rm -f "$name"
}

@test "signals of the client go to the command" {
  for signal in TERM USR1 HUP; do
    name=$(unique "sig-$signal")
    out=$BATS_TEST_TMPDIR/out-$signal # of its own: the last one says ready as well
    "$moss_bin/moss" --host "unix://$MOSS_SOCK" run --name "$name" busybox \
      sh -c "trap 'echo got $signal; exit 42' $signal; echo ready; while :; do sleep 0.1; done" \
      >"$out" 2>&1 3>&- &
    client=$!
    eventually 10 file_has "$out" ready
    kill -$signal $client
    status=0
    wait $client || status=$?
    expect status 42
    expect --in "$(cat "$out")" contains "got $signal"
    moss rm "$name"
  done
}

@test "--read-only, --tmpfs, --cap-drop and --security-opt hold" {
  # Output and errors come in streams of their own: which of two lines is read first is open.
  run --separate-stderr moss run --rm --read-only --tmpfs /scratch busybox sh -c 'echo x >/scratch/a && cat /scratch/a; echo x >/b'
  expect status 1
  expect output x
  expect --in "$stderr" contains "Read-only file system"
  run moss run --rm busybox sh -c 'grep -E "^(Seccomp|NoNewPrivs):" /proc/self/status'
  expect matches 'Seccomp:[[:space:]]2'
  run moss run --rm --cap-drop all --security-opt no-new-privileges busybox grep -E '^(CapEff|NoNewPrivs):' /proc/self/status
  expect matches 'CapEff:[[:space:]]0000000000000000'
  expect matches 'NoNewPrivs:[[:space:]]1'
}

@test "what a container must not see is masked" {
  run --separate-stderr moss run --rm busybox sh -c 'cat /proc/kcore 2>/dev/null | wc -c; ls /proc/acpi /sys/firmware 2>&1 | wc -w; echo 1 >/proc/sys/kernel/domainname'
  [ "$status" -ne 0 ] || fail "the container may write to /proc/sys"
  expect line 0 0
}
