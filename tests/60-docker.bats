#!/usr/bin/env bats
# The docker command line, unmodified, on moss.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

@test "version and info" {
  run dock version --format '{{.Server.APIVersion}} {{.Server.Os}}'
  expect output "1.51 linux"
  run dock info
  expect status 0
  expect contains "Storage Driver:" "rootless" "Images: 1"
  run dock info --format '{{.OSType}} {{.Images}}'
  expect output "linux 1"
}

@test "run prints what the command prints and returns its code" {
  run dock run --rm busybox echo hello
  expect status 0
  expect output hello
  run dock run --rm busybox sh -c 'exit 9'
  expect status 9
  run -127 dock run --rm busybox /no/such/command
  run dock run --rm busybox /etc/passwd
  expect status 126
  run dock run --rm --pull never no-such-image true
  expect status 125
}

@test "run keeps stdout and stderr apart, takes stdin" {
  run --separate-stderr dock run --rm busybox sh -c 'echo out; echo err >&2'
  expect output out
  expect equal "$stderr" err
  run dock run --rm -i busybox wc -l < <(printf 'a\nb\n')
  expect output 2
}

@test "run -it gives a terminal of the client's size" {
  DOCKER_HOST=unix://$MOSS_SOCK run pty_until /dev/pts/0 40 100 docker --log-level fatal run --rm -it busybox sh -c 'until stty size | grep "40 100"; do sleep 0.1; done; tty; read x'
  expect status 0
  expect contains "40 100" /dev/pts/0
}

@test "run -it is a shell one can type into, and detach from" {
  name=$(unique shell)
  cat >"$BATS_TEST_TMPDIR/e" <<'EXPECT'
set timeout 120
spawn docker run -it --name $env(NAME) busybox sh
expect "# "
send "echo \$((6*7))\r"
expect -re "\n42\r"
expect "# "
send "\x10\x11"
expect eof
lassign [wait] pid id os status
spawn docker attach $env(NAME)
send "\r"
expect "# "
send "exit 3\r"
expect eof
lassign [wait] pid id os status
exit $status
EXPECT
  DOCKER_HOST=unix://$MOSS_SOCK NAME=$name run timeout 600 expect "$BATS_TEST_TMPDIR/e"
  expect status 3
  dock rm "$name"
}

@test "run -d, ps, logs, stop, start, restart, kill, wait, rename, rm" {
  name=$(unique web)
  run dock run -d --name "$name" busybox sh -c 'trap "exit 3" TERM; echo ready; while :; do sleep 0.05; done'
  expect status 0
  expect matches '^[0-9a-f]{64}$'
  eventually 10 log_has "$name" ready
  run dock ps
  expect contains "$name" Up busybox
  run dock stop -t 20 "$name"
  expect output "$name"
  run dock wait "$name"
  expect output 3
  run dock ps
  expect lacks "$name"
  run dock ps -a --filter "name=$name" --filter status=exited --format '{{.Names}} {{.Status}}'
  expect matches "^$name Exited \(3\)"
  run dock start "$name"
  expect output "$name"
  run dock restart -t 0 "$name"
  expect output "$name"
  run dock kill "$name"
  expect output "$name"
  run dock wait "$name"
  expect output 137
  run dock rename "$name" "$name-2"
  expect status 0
  run dock rm "$name"
  expect status 1
  run dock rm "$name-2"
  expect status 0
}

@test "logs, with -f, tail and timestamps" {
  name=$(unique log)
  dock run -d --name "$name" busybox sh -c 'for i in 1 2 3; do echo $i; sleep 0.2; done'
  run dock logs -f "$name"
  expect status 0
  expect output $'1\n2\n3'
  run dock logs --tail 1 "$name"
  expect output 3
  run dock logs -t "$name"
  expect matches '^[0-9-]+T[0-9:.]+Z 1$'
  dock rm "$name"
}

@test "inspect --format" {
  name=$(unique ins)
  dock run -d --name "$name" -e A=b busybox sleep 1000
  run dock inspect --format '{{.Name}} {{.State.Status}} {{.State.Running}} {{.Config.Image}}' "$name"
  expect output "/$name running true busybox"
  run dock inspect --format '{{.NetworkSettings.IPAddress}}' "$name"
  expect matches '^[0-9.]+$'
  run dock inspect --type image --format '{{.Os}}' busybox
  expect output linux
  run dock inspect no-such-thing
  expect status 1
  dock rm -f "$name"
}

@test "attach to a running container" {
  name=$(unique att)
  dock run -d -i --name "$name" busybox sh -c 'read x; echo "got $x"; exit 4'
  run dock attach "$name" < <(echo typed)
  expect status 4
  expect output "got typed"
  dock rm "$name"
}

@test "a published port is shown and answers" {
  name=$(unique port)
  dock run -d --name "$name" -p 127.0.0.1::80 busybox httpd -f -h /var/www
  at=$(dock port "$name" 80)
  expect --in "$at" matches '^127\.0\.0\.1:[0-9]+$'
  answers() { [ "$(curl -s --max-time 5 "http://$at/index.html")" = "hello from busybox" ]; }
  eventually 10 answers
  dock rm -f "$name"
}

@test "events tell the life of a container in order" {
  name=$(unique ev)
  since=$(date +%s)
  dock run --rm --name "$name" busybox true
  eventually 10 is_gone "$name"
  run dock events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$name" --format '{{.Status}}'
  expect status 0
  expect --in "$(grep -xE 'create|start|die|destroy' <<<"$output" | tr '\n' ' ')" output "create start die destroy "
}

@test "import, images, rmi" {
  name=$(unique img)
  run dock import -m words "$MOSS_DIR/busybox.tar" "$name:v1"
  expect status 0
  expect contains sha256:
  run dock images "$name"
  expect contains "$name" v1
  run dock run --rm "$name:v1" echo runs
  expect output runs
  run dock rmi "$name:v1"
  expect status 0
  expect contains "Untagged: $name:v1" "Deleted: sha256:"
  run dock rmi "$name:v1"
  expect status 1
}

@test "create, start -a, ps --size, container prune's answer" {
  name=$(unique made)
  run dock create --name "$name" busybox sh -c 'echo data >/file; echo ran; exit 5'
  expect status 0
  run dock start -a "$name"
  expect status 5
  expect output ran
  run dock ps -a --size --filter "name=$name" --format '{{.Size}}'
  expect matches '^[0-9.]+k?B'
  dock rm "$name"
}
