#!/usr/bin/env bats
# moss: what its commands show and do, beyond run.

load lib/moss
load lib/ports

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# idle NAME [ARG...]: a container that waits.
idle() {
  local name=$1
  shift
  moss run -d --name "$name" "$@" busybox sleep 1000 >/dev/null
}

# top_has NAME TEXT: does a process of the container have the text on its command line?
top_has() { [[ $(moss top "$1" -eo pid,args) == *"$2"* ]]; }

@test "exec runs a command beside the first one and returns its code" {
  name=$(unique exec)
  idle "$name"
  run --separate-stderr moss exec "$name" sh -c 'echo out; echo err >&2; exit 7'
  expect status 7
  expect output out
  expect equal "$stderr" err
  first() { [ "$(moss exec "$name" sh -c 'tr "\0" " " </proc/1/cmdline')" = "sleep 1000 " ]; }
  eventually 10 first # the runtime's own process becomes it
  moss rm -f "$name"
}

@test "exec: stdin goes in and ends, byte for byte" {
  name=$(unique exec)
  idle "$name"
  head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/in"
  moss exec -i "$name" cat <"$BATS_TEST_TMPDIR/in" >"$BATS_TEST_TMPDIR/out"
  cmp "$BATS_TEST_TMPDIR/in" "$BATS_TEST_TMPDIR/out"
  run moss exec "$name" wc -c < <(echo text)
  expect output 0
  moss rm -f "$name"
}

@test "exec: the codes of what cannot be run" {
  name=$(unique exec)
  idle "$name"
  run -127 moss exec "$name" no-such-command
  run moss exec "$name" /etc
  expect status 126
  run moss exec "$(unique missing)" true
  expect status 125
  expect contains "No such container"
  HANDED=on run moss exec -e A=1 -e HANDED -w /tmp "$name" sh -c 'echo "$A $HANDED $PWD"'
  expect output "1 on /tmp"
  run moss exec "$name" sh -c 'exec >&- 2>&-; sleep 0.3; exit 4'
  expect status 4
  moss stop -t 0 "$name"
  run moss exec "$name" true
  expect status 125
  moss rm "$name"
}

@test "run: 125 for what fails and is not the command, whatever the reason" {
  run moss run --rm -v /no-such-folder/a:/b busybox true
  expect status 125
  expect contains "bind source path" "permission denied"
  run moss run --rm --device /dev/no-such-device busybox true
  expect status 125
  expect contains /dev/no-such-device
  run moss run --rm -w /etc/passwd busybox true
  expect status 125
  name=$(unique left)
  run moss run --name "$name" --device /dev/no-such-device busybox true
  expect status 125
  expect contains "(container $name is created and not started; remove it with 'moss rm $name')"
  moss rm "$name"
}

# bats test_tags=subids
@test "run and exec name the files that give more ids" {
  run moss run --rm -u 4000000000 busybox true
  expect status 125
  expect contains "users go up to" /etc/subuid /etc/subgid
  name=$(unique ids)
  idle "$name"
  run moss exec -u 4000000000 "$name" true
  expect contains "users go up to" /etc/subuid
  moss rm -f "$name"
}

@test "a port that another container has: its name, and what became of this one" {
  name=$(unique port) port=$(free_port)
  idle "$name" -p "127.0.0.1:$port:80"
  run moss run -d --name "$name-2" -p "127.0.0.1:$port:80" busybox true
  expect status 125
  expect contains "port is already allocated to container $name (container $name-2 is created and not started"
  run moss start "$name-2"
  expect status 1
  expect contains "port is already allocated to container $name"
  expect lacks "is created"
  moss rm -f "$name" "$name-2"
}

@test "wrong commands and hosts: what was meant, and who named it" {
  run moss imges
  expect status 125
  expect contains "did you mean 'images'?"
  run env DOCKER_HOST=unix:///no-such-socket "$moss_bin/moss" ps
  expect status 1
  expect contains "no engine at unix:///no-such-socket" "DOCKER_HOST names that host"
  run env MOSS_HOST=ssh://x "$moss_bin/moss" ps
  expect contains 'MOSS_HOST: host "ssh://x"'
}

@test "exec -t has a terminal of this one's size" {
  name=$(unique exec)
  idle "$name"
  run pty_until sized 33 99 "$moss_bin/moss" --host "unix://$MOSS_SOCK" exec -it "$name" sh -c 'until [ "$(stty size)" = "33 99" ]; do sleep 0.01; done; test -t 0 && echo sized && read x'
  expect contains sized
  run moss exec -it "$name" true </dev/null
  expect status 125
  expect contains "stdin is not one"
  moss rm -f "$name"
}

@test "exec -d leaves the command running" {
  name=$(unique exec)
  idle "$name"
  run moss exec -d "$name" sh -c 'echo here >/tmp/left; sleep 500'
  expect status 0
  expect output ""
  left() { [ "$(moss exec "$name" cat /tmp/left 2>/dev/null)" = here ]; }
  eventually 10 left
  run moss top "$name" -eo pid,args
  expect contains "sleep 500"
  moss rm -f "$name"
}

# bats test_tags=subids
@test "exec -u runs as another user" {
  name=$(unique exec)
  idle "$name"
  run moss exec -u www "$name" id
  expect contains 'uid=33(www) gid=33(www)'
  run moss exec -u 12:34 "$name" id
  expect contains 'uid=12 gid=34'
  moss rm -f "$name"
}

@test "exec --privileged has more capabilities than the container" {
  name=$(unique exec)
  idle "$name" --cap-drop ALL
  caps() { moss exec "$@" sed -n 's/^CapEff:\t//p' /proc/self/status; }
  expect equal "$(caps "$name")" 0000000000000000
  [ "$(caps --privileged "$name")" != 0000000000000000 ] || fail "a privileged exec has no capability"
  moss rm -f "$name"
}

@test "detach keys leave exec, and the container and the command run on" {
  name=$(unique exec)
  idle "$name"
  run pty 24 80 timeout 180 "$moss_bin/moss" --host "unix://$MOSS_SOCK" exec -it --detach-keys ctrl-x "$name" sleep 600 < <(
    eventually 10 top_has "$name" "sleep 600"
    printf '\x18'
  )
  expect status 0
  run moss top "$name" -eo pid,args
  expect contains "sleep 600"
  moss rm -f "$name"
}

@test "top shows the processes, with the columns that are asked for" {
  name=$(unique top)
  idle "$name"
  eventually 5 top_has "$name" "sleep 1000"
  run moss top "$name"
  expect status 0
  expect matches '^UID +PID +PPID +C +STIME +TTY +TIME +CMD$'
  expect contains "sleep 1000"
  run moss top "$name" -o pid,args
  expect matches '^PID +COMMAND$'
  moss rm -f "$name"
}

@test "stats measures running containers" {
  name=$(unique stats)
  idle "$name"
  run moss stats --no-stream "$name"
  expect status 0
  expect matches '^CONTAINER ID +NAME +CPU % +MEM USAGE / LIMIT +MEM % +NET I/O +BLOCK I/O +PIDS$'
  expect matches "^[0-9a-f]{12} +$name +[0-9.]+% +[0-9.]+[KMG]iB / [0-9.]+[KMGT]iB +[0-9.]+% "
  run moss stats --no-stream --format '{{.Name}} {{.PIDs}}'
  expect contains "$name 1"
  moss exec -d "$name" sh -c 'while :; do :; done'
  busy() { moss stats --no-stream --format '{{.CPUPerc}}' "$name" | awk '{ exit !($1 + 0 > 5) }'; }
  eventually 20 busy
  expect equal "$(moss stats --no-stream --format json "$name" | jq -r .Name)" "$name"
  moss rm -f "$name"
}

@test "stats on a terminal draws the table again, with containers that come and without those that go" {
  one=$(unique one)
  two=$(unique two)
  idle "$one"
  screen=$BATS_TEST_TMPDIR/screen
  (pty 24 120 timeout 300 "$moss_bin/moss" --host "unix://$MOSS_SOCK" stats </dev/null >"$screen" 2>&1 3>&-) &
  eventually 10 file_has "$screen" "$one"
  idle "$two"
  eventually 10 file_has "$screen" "$two"
  moss rm -f "$one" >/dev/null
  # The last whole table stands between the last two moves to the top.
  gone() {
    local last
    last=$(tr -d '\r' <"$screen" | awk 'BEGIN { RS = "\033\\[H" } { before = last; last = $0 } END { print before }')
    [[ $last == *"$two"* && $last != *"$one"* ]]
  }
  eventually 15 gone
  moss rm -f "$two" >/dev/null
}

@test "diff lists what was added, changed and deleted" {
  name=$(unique diff)
  moss run --name "$name" busybox sh -c 'echo x >/new; echo y >>/etc/passwd; rm /var/www/index.html'
  run moss diff "$name"
  expect status 0
  expect contains "A /new" "C /etc/passwd" "D /var/www/index.html"
  moss rm "$name"
}

@test "cp takes files and folders out of containers, running or not" {
  name=$(unique cp)
  idle "$name"
  moss exec "$name" sh -c 'mkdir -p /d/sub; echo 1 >/d/a; echo 2 >/d/sub/b; ln -s a /d/link; ln -s /d/a /ln; ln -s d /dl'
  cd "$BATS_TEST_TMPDIR"
  moss cp "$name:/d" new
  expect equal "$(cat new/a new/sub/b)" $'1\n2'
  expect equal "$(readlink new/link)" a
  mkdir there
  moss cp "$name:/d" there
  expect equal "$(cat there/d/a)" 1
  moss cp "$name:/d/." there
  expect equal "$(cat there/sub/b)" 2
  moss cp "$name:/d/a" there/renamed
  expect equal "$(cat there/renamed)" 1
  expect equal "$(stat -c %u there/renamed)" "$(id -u)"
  moss cp "$name:/ln" there
  expect equal "$(cat there/ln)" 1
  moss cp "$name:/dl" there
  expect equal "$(cat there/dl/sub/b)" 2
  moss cp -L "$name:/ln" followed
  expect equal "$(cat followed)" 1
  run moss cp "$name:/d" there/renamed
  expect status 1
  run moss cp "$name:/d/a" nowhere/
  expect status 1
  run moss cp "$name:/none" .
  expect status 1
  expect contains "/none"
  expect equal "$(moss cp "$name:/d" - | tar -tf - | sort | head -2 | xargs)" "d/ d/a"
  moss stop -t 0 "$name"
  moss cp "$name:/d/sub/b" stopped
  expect equal "$(cat stopped)" 2
  moss rm "$name"
}

@test "cp brings files and folders into containers" {
  name=$(unique cp)
  idle "$name"
  cd "$BATS_TEST_TMPDIR"
  mkdir -p site/sub
  echo 1 >site/a
  echo 2 >site/sub/b
  chmod 0640 site/a
  moss cp site "$name:/new"
  moss cp site "$name:/tmp"
  moss cp site/. "$name:/var/www"
  moss cp site/a "$name:/tmp/renamed"
  tar -C site -cf - sub | moss cp - "$name:/root"
  run moss exec "$name" cat /new/a /new/sub/b /tmp/site/a /var/www/sub/b /var/www/index.html /tmp/renamed /root/sub/b
  expect output $'1\n2\n1\n2\nhello from busybox\n1\n2'
  run moss exec "$name" stat -c '%u:%g %a' /new/a
  expect output "0:0 640"
  run moss cp site "$name:/tmp/renamed"
  expect status 1
  run moss cp site/a "$name:/nowhere/"
  expect status 1
  run moss cp site/a "$name:/nowhere/x"
  expect status 1
  run moss cp none "$name:/tmp"
  expect status 1
  run moss cp - "$name:/tmp/renamed" </dev/null
  expect status 1
  moss rm -f "$name"
}

# bats test_tags=subids
@test "cp -a keeps user and group ids" {
  name=$(unique cp)
  idle "$name"
  cd "$BATS_TEST_TMPDIR"
  echo 1 >mine
  moss cp -a mine "$name:/tmp/kept"
  moss cp mine "$name:/tmp/roots"
  run moss exec "$name" stat -c %u:%g /tmp/kept /tmp/roots
  expect output "$(id -u):$(id -g)"$'\n0:0'
  moss rm -f "$name"
}

@test "cp writes nothing outside, wherever links of the container lead" {
  name=$(unique cp)
  idle "$name"
  moss exec "$name" sh -c 'mkdir -p /d/out; echo evil >/d/out/canary'
  cd "$BATS_TEST_TMPDIR"
  mkdir outside there there/d
  echo alive >outside/canary
  ln -s ../../outside there/d/out
  run moss cp "$name:/d" there
  expect status 1
  expect equal "$(cat outside/canary)" alive
  moss rm -f "$name"
}

@test "export writes the whole file system, and nothing on a terminal" {
  name=$(unique export)
  moss run --name "$name" busybox sh -c 'echo x >/new'
  moss export -o "$BATS_TEST_TMPDIR/all.tar" "$name"
  expect equal "$(tar -xOf "$BATS_TEST_TMPDIR/all.tar" new)" x
  moss export "$name" | tar -t | grep -q '^bin/busybox$'
  run shown 24 80 "$moss_bin/moss" --host "unix://$MOSS_SOCK" export "$name"
  expect status 125
  expect contains terminal
  moss rm "$name"
}

@test "commit makes an image that runs with the changes" {
  name=$(unique commit)
  moss run --name "$name" busybox sh -c 'echo kept >/kept'
  run moss commit -a me -m why -c 'CMD ["cat", "/kept"]' -c 'ENV A=b' "$name" "$name:v1"
  expect status 0
  expect matches '^sha256:[0-9a-f]{64}$'
  run moss run --rm "$name:v1"
  expect output kept
  expect equal "$(moss inspect --type image --format '{{.Author}}/{{.Comment}}' "$name:v1")" me/why
  moss rm "$name"
  moss rmi "$name:v1"
}

@test "update changes limits and the restart policy" {
  name=$(unique update)
  idle "$name"
  moss update --restart on-failure:3 "$name"
  expect equal "$(moss inspect --format '{{.HostConfig.RestartPolicy.Name}}:{{.HostConfig.RestartPolicy.MaximumRetryCount}}' "$name")" on-failure:3
  run moss update "$name"
  expect status 125
  run moss update --blkio-weight 5 "$name"
  expect status 1
  moss rm -f "$name"
}

# bats test_tags=cgroups
@test "update --memory reaches the control group" {
  name=$(unique update)
  idle "$name" -m 64m
  moss update --memory 128m --memory-swap 128m "$name"
  expect equal "$(moss inspect --format '{{.HostConfig.Memory}}' "$name")" 134217728
  moss rm -f "$name"
}

@test "pause stops a container, unpause lets it go on" {
  name=$(unique pause)
  moss run -d --name "$name" busybox sh -c 'while :; do date +%s%N >/tmp/now; done' >/dev/null
  moss pause "$name"
  expect equal "$(state "$name")" paused
  run moss ps --filter "name=$name" --format '{{.Status}}'
  expect contains "(Paused)"
  run moss exec "$name" true
  expect status 125
  expect contains paused
  moss unpause "$name"
  expect equal "$(state "$name")" running
  run moss exec "$name" true
  expect status 0
  moss rm -f "$name"
}

@test "port shows what is published" {
  name=$(unique port)
  moss run -d --name "$name" -p 127.0.0.1::80 busybox sleep 1000 >/dev/null
  run moss port "$name"
  expect matches '^80/tcp -> 127\.0\.0\.1:[0-9]+$'
  run moss port "$name" 80
  expect matches '^127\.0\.0\.1:[0-9]+$'
  run moss port "$name" 81
  expect status 1
  moss rm -f "$name"
}

@test "ps: filters, formats and labels" {
  name=$(unique ps)
  idle "$name" --label stage=test --label "of=$name"
  run moss ps -q --no-trunc --filter "label=of=$name"
  expect matches '^[0-9a-f]{64}$'
  run moss ps --filter "label=of=$name" --format '{{.Names}} {{.Image}} {{.State}} {{.Label "stage"}} {{.Networks}}'
  expect output "$name busybox running test bridge"
  run moss ps --filter "label=of=$name" --format 'table {{.Names}}\t{{.Label "stage"}}'
  expect line 0 "$(printf '%-*s   stage' ${#name} NAMES)"
  expect equal "$(moss ps --filter "label=of=$name" --format json | jq -r '.Command')" '"sleep 1000"'
  moss stop -t 0 "$name"
  run moss ps -q --filter "label=of=$name"
  expect output ""
  run moss ps -a --filter "label=of=$name" --filter status=exited --format '{{.Names}}'
  expect output "$name"
  run moss ps -n 1 --format '{{.Names}}'
  expect output "$name"
  moss rm "$name"
}

@test "inspect: templates, sizes and types" {
  name=$(unique inspect)
  idle "$name"
  run moss inspect --format '{{.State.Status}} {{json .Args}} {{join .Config.Cmd "+"}} {{upper .Config.Image}}' "$name"
  expect output 'running ["1000"] sleep+1000 BUSYBOX'
  expect --in "$(moss inspect --size --format '{{.SizeRootFs}}' "$name")" matches '^[0-9]+$'
  run moss inspect --type image "$name"
  expect status 1
  run moss inspect "$(unique missing)"
  expect status 1
  expect contains "no container, image, volume or network is named"
  moss rm -f "$name"
}

@test "logs: since, until, tail, times and details" {
  name=$(unique logs)
  # A line for each telling, so that the times differ and the order stands.
  moss run -d --name "$name" --label a=b --log-opt labels=a busybox sh -c 'trap "told=\$((told + 1))" USR1
    echo one; until [ $told ]; do sleep 0.05; done; echo two; until [ $told = 2 ]; do sleep 0.05; done; echo three >&2'
  for line in one two; do
    eventually 10 log_has "$name" "$line"
    tell "$name"
  done
  moss wait "$name"
  run moss logs "$name"
  expect output $'one\ntwo\nthree'
  run moss logs -n 1 "$name"
  expect output three
  mapfile -t times < <(moss logs -t "$name" 2>&1 | cut -d' ' -f1)
  expect --in "${times[0]}" matches '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z$'
  run moss logs --since "${times[1]}" "$name"
  expect output $'two\nthree'
  run moss logs --until "${times[1]}" "$name"
  expect output $'one\ntwo'
  for flags in "-n 1" "-f -n 1"; do
    read -ra words <<<"$flags"
    run moss logs --until "${times[1]}" "${words[@]}" "$name"
    expect output two
  done
  run moss logs --until 10m "$name"
  expect output ""
  run moss logs --details "$name"
  expect contains "a=b one"
  moss rm "$name"
}

@test "volumes: made, listed, used, removed" {
  volume=$(unique volume)
  name=$(unique user)
  run moss volume create --label "of=$volume" "$volume"
  expect output "$volume"
  run moss volume ls -q --filter "name=$volume"
  expect output "$volume"
  run moss volume inspect --format '{{.Driver}} {{index .Labels "of"}}' "$volume"
  expect output "local $volume"
  moss run --rm -v "$volume:/data" busybox sh -c 'echo kept >/data/f'
  moss run -d --name "$name" -v "$volume:/data" busybox sleep 1000 >/dev/null
  run moss exec "$name" cat /data/f
  expect output kept
  run moss volume rm "$volume"
  expect status 1
  moss rm -f "$name"
  run moss volume rm "$volume"
  expect output "$volume"
  run moss volume inspect "$volume"
  expect status 1
}

@test "start, stop, restart, kill, wait and rename take what users give them" {
  one=$(unique one)
  two=$(unique two)
  moss create --name "$one" busybox sh -c 'echo started; exit 5' >/dev/null
  run moss start -a "$one"
  expect status 5
  expect output started
  idle "$two"
  run moss wait "$one"
  expect output 5
  run moss restart -t 0 "$two"
  expect output "$two"
  is_running "$two"
  run moss kill -s TERM "$one" "$two"
  expect status 1
  run moss kill -s 9 "$two"
  expect output "$two"
  run moss wait "$one" "$two"
  expect output $'5\n137'
  moss rename "$two" "$two-new"
  expect equal "$(state "$two-new")" exited
  moss rm "$one" "$two-new"
}

@test "exists: the exit code alone says whether something is there" {
  name=$(unique exists)
  moss create --name "$name" busybox true >/dev/null
  moss volume create "$name" >/dev/null
  for args in "container exists $name" "image exists busybox" "volume exists $name" "network exists bridge"; do
    # shellcheck disable=SC2086 # words
    run moss $args
    expect status 0
    expect output ""
    # shellcheck disable=SC2086 # words
    run moss ${args% *} no-such-thing
    expect status 1
    expect output ""
  done
  moss rm "$name"
  moss volume rm "$name"
}

@test "create --rm, stop --timeout, update --pids-limit and rm --link" {
  name=$(unique flags)
  moss create --rm --name "$name" busybox sleep 1000 >/dev/null
  moss create --name "$name-2" --link "$name:other" busybox true >/dev/null
  moss update --pids-limit 50 "$name"
  expect equal "$(moss inspect --format '{{.HostConfig.PidsLimit}}' "$name")" 50
  run moss rm --link "$name-2/other"
  expect status 0
  expect equal "$(moss inspect --format '{{json .HostConfig.Links}}' "$name-2")" null
  moss start "$name"
  moss stop --timeout 0 "$name"
  eventually 10 is_gone "$name"
  moss rm "$name-2"
  moss run -d --name "$name" busybox sleep 1000 >/dev/null
  run moss stop --signal NONE "$name"
  expect status 1
  expect contains NONE
  moss rm -f "$name"
}

@test "stop and restart --signal, run and images --platform" {
  name=$(unique signal)
  moss run -d --name "$name" busybox sh -c 'trap "echo got; exit 5" USR1; echo ready; while :; do sleep 0.05; done' >/dev/null
  eventually 10 log_has "$name" ready
  moss restart -t 60 --signal USR1 "$name"
  expect equal "$(moss logs "$name" | grep -c got)" 1
  eventually 10 log_has "$name" $'got\nready'
  moss stop -t 60 -s USR1 "$name"
  expect equal "$(moss inspect -f '{{.State.ExitCode}}' "$name")" 5
  moss rm "$name"
  for args in "history" "image inspect" "save" "rmi"; do
    read -ra words <<<"$args"
    run moss "${words[@]}" --platform linux/nonsense busybox </dev/null
    [ "$status" = 1 ] || fail "$args: status $status, $output"
    expect contains linux/nonsense
  done
  run moss create --pull never --platform linux/nonsense busybox
  expect status 125
  run moss run --rm --platform linux busybox echo ran
  expect output ran
  run moss image inspect --platform linux -f '{{.Os}}' busybox
  expect output linux
}

@test "run --replace takes the place of a container, and takes nothing away when it fails" {
  name=$(unique replace)
  idle "$name"
  old=$(moss inspect --format '{{.Id}}' "$name")
  run moss run -d --replace --name "$name" --device /dev/no-such-driver:bad:options busybox sleep 1000
  [ "$status" != 0 ] || fail "a bad device is taken"
  expect equal "$(moss inspect --format '{{.Id}} {{.State.Status}}' "$name")" "$old running"
  run moss run --replace --name "$name" busybox echo new
  expect output new
  run moss inspect "$old"
  expect status 1
  expect equal "$(moss ps -aq --filter "name=$name" | wc -l)" 1
  moss rm "$name"
}

@test "ps --sort, logs of several, and exec --env-file" {
  name=$(unique several)
  moss run --name "$name-b" busybox sh -c 'echo first; echo second >&2' >/dev/null 2>&1
  moss run -d --name "$name-a" busybox sh -c 'echo other; exec sleep 1000'
  eventually 10 log_has "$name-a" other
  run moss ps -a --filter "name=$name" --sort names --format '{{.Names}}'
  expect output "$name-a"$'\n'"$name-b"
  run moss ps -a --filter "name=$name" --sort created --format '{{.Names}}'
  expect line 0 "$name-a"
  run moss logs "$name-b" "$name-a"
  expect equal "$(head -n 2 <<<"$output" | sort)" "$name-b | first"$'\n'"$name-b | second" # two streams have no order
  expect line 2 "$name-a | other"
  moss logs -f "$name-b" "$name-a" >"$BATS_TEST_TMPDIR/followed" 2>&1 3>&- &
  viewer=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/followed" "$name-a | other"
  printf 'FROM_FILE=1\n' >"$BATS_TEST_TMPDIR/env"
  run moss exec --env-file "$BATS_TEST_TMPDIR/env" "$name-a" sh -c 'echo $FROM_FILE'
  expect output 1
  moss rm -f "$name-a"
  wait $viewer
  expect equal "$(sort "$BATS_TEST_TMPDIR/followed")" "$name-a | other"$'\n'"$name-b | first"$'\n'"$name-b | second"
  moss rm "$name-b"
}

@test "run --http-proxy and --host-ca: the caller's proxies and authorities, on request alone" {
  export HTTPS_PROXY=http://proxy.test:3128 no_proxy=.test all_proxy=
  run moss run --rm busybox env
  expect lacks proxy.test
  run moss run --rm --http-proxy busybox env
  expect contains HTTPS_PROXY=http://proxy.test:3128 no_proxy=.test
  expect lacks all_proxy
  run moss run --rm --http-proxy -e https_proxy=mine busybox env
  expect contains https_proxy=mine
  expect lacks HTTPS_PROXY
  echo 'an authority' >"$BATS_TEST_TMPDIR/ca.pem"
  run env SSL_CERT_FILE="$BATS_TEST_TMPDIR/ca.pem" timeout 180 "$moss_bin/moss" --host "unix://$MOSS_SOCK" \
    run --rm --host-ca busybox sh -c 'cat "$SSL_CERT_FILE"; ! echo more >>"$SSL_CERT_FILE"'
  expect status 0
  expect contains 'an authority'
}

@test "ps fits the terminal and colours states there; a pipe gets all of it and no colours" {
  name=$(unique longer)
  moss tag busybox "$name-image:latest"
  moss run --name "$name" "$name-image" sh -c 'exit 3; echo a command of some length' || true
  on_screen() { shown 24 80 env "$@" timeout 180 "$moss_bin/moss" --host "unix://$MOSS_SOCK" ps -a --filter "name=$name"; }
  run on_screen A=1
  expect contains $'\e[31mExited (3)' "$name" '…'
  widest=$(sed $'s/\e\\[[0-9]*m//g; s/\r//g' <<<"$output" | LC_ALL=C.UTF-8 wc -L)
  [ "$widest" -le 80 ] || fail "a line has $widest columns: $output"
  run on_screen NO_COLOR=1
  expect contains 'Exited (3)'
  expect lacks $'\e['
  run shown 24 80 timeout 180 "$moss_bin/moss" --host "unix://$MOSS_SOCK" ps -a --no-trunc --filter "name=$name"
  expect contains "$name-image" 'a command of some length'
  run moss ps -a --filter "name=$name"
  expect contains "$name-image" 'Exited (3)' "$name"
  expect lacks $'\e['
  # Errors and warnings are set off on a terminal.
  run shown 24 80 timeout 180 "$moss_bin/moss" --host "unix://$MOSS_SOCK" rm "$name-not"
  expect contains $'\e[31mmoss:\e[0m '
  moss rm "$name"
  moss rmi "$name-image"
}

@test "completion offers names of containers and volumes" {
  name=$(unique complete)
  idle "$name"
  moss volume create "$name-volume" >/dev/null
  # offers WORD ARG...: whether WORD is offered. A completion waits for the engine no longer than a second.
  offers() { [[ $(moss __complete "${@:2}") == *"$1"* ]]; }
  eventually 5 offers "$name" exec "${name:0:8}"
  eventually 5 offers "$name:" cp "${name:0:8}"
  eventually 5 offers "$name-volume" volume rm "${name:0:8}"
  run moss __complete run --log-driver ""
  expect contains json-file local journald none
  run moss __complete run --log-driver journald --log-opt m
  expect contains mode= max-buffer-size=
  expect lacks max-size=
  moss rm -f "$name"
  moss volume rm "$name-volume"
}

@test "create: what its flags say is in the record" {
  name=$(unique flags)
  other=$(unique other)
  idle "$other"
  moss create --name "$name" --volumes-from "$other:ro" --link "$other:db" --link "$other" --pid "container:$other" --uts host \
    --health-cmd 'test -e /x' --health-interval 2s --health-timeout 3s --health-start-period 4s --health-retries 5 \
    --device-read-bps /dev/null:1mb --device-write-bps /dev/null:2k --device-read-iops /dev/null:3 --device-write-iops /dev/null:4 \
    --blkio-weight-device /dev/null:200 --ulimit nofile=100:200 --sysctl net.ipv4.ip_forward=1 --oom-score-adj 6 \
    --tmpfs /x:size=1m --shm-size 1m --stop-signal QUIT --runtime crun --isolation default --mac-address 02:00:00:00:00:07 \
    --stop-timeout 7 --cpus 0.5 --security-opt systempaths=unconfined \
    --security-opt no-new-privileges --dns 9.9.9.9 --dns-opt ndots:2 --dns-search example.org --add-host gate:10.0.0.1 \
    busybox true 2>/dev/null
  run moss inspect --format '{{json .HostConfig}}' "$name"
  expect status 0
  host=$output
  field() { expect equal "$(jq -c ".$1" <<<"$host")" "$2"; }
  field VolumesFrom "[\"$other:ro\"]"
  # An engine may show the names as they are in the network; both links have to be there.
  field 'Links | length' 2
  field UTSMode '"host"'
  field BlkioDeviceReadBps '[{"Path":"/dev/null","Rate":1048576}]'
  field BlkioDeviceWriteBps '[{"Path":"/dev/null","Rate":2048}]'
  field BlkioDeviceReadIOps '[{"Path":"/dev/null","Rate":3}]'
  field BlkioDeviceWriteIOps '[{"Path":"/dev/null","Rate":4}]'
  field BlkioWeightDevice '[{"Path":"/dev/null","Weight":200}]'
  field Ulimits '[{"Hard":200,"Name":"nofile","Soft":100}]'
  field Sysctls '{"net.ipv4.ip_forward":"1"}'
  field OomScoreAdj 6
  field Tmpfs '{"/x":"size=1m"}'
  field ShmSize 1048576
  field SecurityOpt '["no-new-privileges"]'
  field NanoCpus 500000000
  field CpuQuota 0
  field MaskedPaths '[]'
  field ReadonlyPaths '[]'
  field Dns '["9.9.9.9"]'
  field DnsOptions '["ndots:2"]'
  field DnsSearch '["example.org"]'
  field ExtraHosts '["gate:10.0.0.1"]'
  run moss inspect --format '{{json .Config.Healthcheck}} {{.Config.StopSignal}} {{.Config.StopTimeout}}' "$name"
  expect output '{"Interval":2000000000,"Retries":5,"StartPeriod":4000000000,"Test":["CMD-SHELL","test -e /x"],"Timeout":3000000000} QUIT 7'
  moss rm "$name"
  moss rm -f "$other"
}
