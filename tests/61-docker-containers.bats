#!/usr/bin/env bats
# The container commands of the docker command line, unmodified, each with what a user of it sees.
#
# What version 28 of it refuses by itself when an engine speaks 1.24, and what it then leaves out of its help:
#   run, create  --annotation --cgroupns --cpu-count --cpu-percent --cpu-rt-period --cpu-rt-runtime --cpus --gpus
#                --health-start-interval --health-start-period --init --io-maxbandwidth --io-maxiops --platform
#                --stop-timeout; --mac-address (1.44)
#   exec         --env --env-file --workdir
#   start        --checkpoint --checkpoint-dir
#   logs         --until
#   update       --cpu-rt-period --cpu-rt-runtime --cpus --pids-limit
#   container prune
# What it takes and does not send at 1.24: stop --signal, restart --signal, run --kernel-memory.
# What it sends all the same: --mount, which the engine takes, --use-api-socket, a mount of a socket that has to be there,
# and --device-cgroup-rule, which is refused.
# bats file_tags=subids

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

field() { dock inspect --type container --format "$2" "$1"; }
# prints TEXT FLAG... -- CMD...: what CMD prints in a container with these flags, on both streams.
prints() {
  local want=$1 flags=()
  shift
  while [ "$1" != -- ]; do flags+=("$1") && shift; done
  run dock run --rm "${flags[@]}" busybox "${@:2}"
  [ "$output" = "$want" ] || fail "run ${flags[*]}: got '$output'" "want '$want'"
}
# refused TEXT FLAG...: run with these flags is no container's doing.
refused() {
  run dock run --rm "${@:2}" busybox true
  [ "$status" = 125 ] || fail "run ${*:2}: status $status, $output" || return
  expect contains "$1"
}
# warned TEXT FLAG...: the flags have no effect here, which is said; the container runs.
warned() {
  run dock run --rm "${@:2}" busybox echo ran
  expect status 0
  expect contains "$1" ran
}
# lives NAME [FLAG...]: a container that waits.
lives() { dock run -d --name "$1" "${@:2}" busybox sleep 1000 >/dev/null; }
no_cgroups() { [ "$(answer_of /info -r .CgroupDriver)" = none ]; }

@test "run: environment, working folder, entrypoint" {
  printf '# none\nA=file\nB=x y\nFROM_HERE\n' >"$BATS_TEST_TMPDIR/env"
  run env FROM_HERE=yes DOCKER_HOST="unix://$MOSS_SOCK" docker --log-level fatal run --rm --env-file "$BATS_TEST_TMPDIR/env" -e A=flag -e NOT_SET busybox env
  expect contains A=flag "B=x y" FROM_HERE=yes
  expect lacks A=file NOT_SET
  prints /made/here -w /made/here -- pwd
  refused "needs to be an absolute path" -w relative
  prints "hi there" --entrypoint echo -- hi there
  prints reset --entrypoint '' -- echo reset
}

@test "run: names of host and domain, hosts, DNS" {
  prints $'front\nexample.org\nfront.example.org' -h front --domainname example.org -- sh -c 'hostname; hostname -d; hostname -f'
  run dock run --rm --add-host db:192.0.2.7 --add-host six:2001:db8::7 --dns 192.0.2.53 --dns-option ndots:4 --dns-search example.net \
    busybox cat /etc/hosts /etc/resolv.conf
  expect contains $'192.0.2.7\tdb' $'2001:db8::7\tsix' "nameserver 192.0.2.53" "options ndots:4" "search example.net"
  refused "hostname" -h 'bad host'
}

@test "run: binds, volumes, tmpfs, read-only, volumes-from" {
  name=$(unique vol)
  mkdir "$MOSS_DIR/$name"
  echo 'of the host' >"$MOSS_DIR/$name/file"
  prints "of the host" -v "$MOSS_DIR/$name:/h" -- cat /h/file
  run dock run --rm -v "$MOSS_DIR/$name:/h:ro" busybox sh -c 'touch /h/x'
  expect contains "Read-only"
  lives "$name" -v "$name:/data" -v /anonymous -v "$MOSS_DIR/$name:/h"
  dock exec "$name" sh -c 'echo kept >/data/file'
  prints $'kept\nof the host' --volumes-from "$name" -- cat /data/file /h/file
  run dock run --rm --volumes-from "$name:ro" busybox touch /data/x
  expect contains "Read-only"
  anonymous=$(field "$name" '{{range .Mounts}}{{if eq .Destination "/anonymous"}}{{.Name}}{{end}}{{end}}')
  dock rm -fv "$name"
  run dock volume ls -q
  expect contains "$name"
  expect lacks "$anonymous"
  dock volume rm "$name"
  prints $'1024\n1' --tmpfs /scratch:size=1m,mode=700 -- sh -c 'df -k /scratch | awk "NR == 2 { print \$2 }"; grep -c "^tmpfs /scratch " /proc/mounts'
  run dock run --rm --read-only --tmpfs /run busybox sh -c 'touch /x; touch /run/x && echo written'
  expect contains "/x: Read-only" written
  prints 3072 --shm-size 3m -- sh -c 'df -k /dev/shm | awk "NR == 2 { print \$2 }"'
  refused "mount path must be absolute" -v /x:relative
  refused "invalid mode: zz" -v /tmp:/x:zz
  refused "No such container: none-such" --volumes-from none-such
  refused "VolumeDriver" --volume-driver none-such -v data:/x
  prints 1 --mount type=tmpfs,dst=/x,tmpfs-size=1m -- grep -c " /x tmpfs .*size=1024k" /proc/mounts
  refused "Mounts: Type npipe" --mount type=npipe,src=/x,dst=/x
}

@test "run: capabilities, privileges, security options" {
  prints $'CapEff:\t0000000000000001' --cap-drop ALL --cap-add CHOWN -- grep CapEff /proc/self/status
  prints $'CapEff:\t'"$(printf '%016x' $(((1 << ($(cat /proc/sys/kernel/cap_last_cap) + 1)) - 1)))" --privileged -- grep CapEff /proc/self/status
  prints $'NoNewPrivs:\t1\nSeccomp:\t0' --security-opt no-new-privileges --security-opt seccomp=unconfined -- grep -E 'NoNewPrivs|Seccomp:' /proc/self/status
  prints 0 --security-opt systempaths=unconfined -- sh -c 'grep -c " /proc/keys " /proc/mounts || true'
  prints 1 -- grep -c ' /proc/keys ' /proc/mounts
  jq -n '{defaultAction: "SCMP_ACT_ALLOW", syscalls: [{names: ["mkdir"], action: "SCMP_ACT_ERRNO"}]}' >"$BATS_TEST_TMPDIR/profile"
  run dock run --rm --security-opt seccomp="$BATS_TEST_TMPDIR/profile" busybox mkdir /x
  expect contains "not permitted"
  warned "without AppArmor" --security-opt apparmor=mine
  refused "invalid --security-opt" --security-opt magic=on
  refused NO_SUCH --cap-add NO_SUCH
}

@test "run: ulimits, sysctls, devices, OOM score" {
  prints $'100\n200' --ulimit nofile=100:200 -- sh -c 'ulimit -Sn; ulimit -Hn'
  prints $'1\n77' --sysctl net.ipv4.ip_forward=1 --sysctl kernel.shmmni=77 -- cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/shmmni
  run dock run --rm --device /dev/zero:/dev/nought busybox sh -c 'head -c 2 /dev/nought | od -An -tx1'
  expect contains "00 00"
  warned "CgroupPermissions r" --device /dev/zero:/dev/nought:r
  prints 300 --oom-score-adj 300 -- cat /proc/self/oom_score_adj
  refused "no-such" --device /dev/no-such
  refused kernel.panic --sysctl kernel.panic=1 # older clients refuse it themselves
  refused "[-1000, 1000]" --oom-score-adj 2000
  refused "invalid ulimit" --ulimit none=1
  refused DeviceCgroupRules --device-cgroup-rule 'c 1:3 rwm'
}

# bats test_tags=subids
@test "run: users and groups" {
  prints "uid=33(www) gid=33(www) groups=33(www),50(staff)" -u www -- id
  prints "uid=33(www) gid=50(staff) groups=50(staff)" -u 33:50 -- id
  prints "0 33 1234" --group-add www --group-add 1234 -- id -G
  refused "unable to find user no-such" -u no-such
}

@test "run: namespaces of the host and of another container" {
  name=$(unique ns)
  lives "$name" -h shared --ipc shareable
  prints shared --network "container:$name" -- hostname
  prints "$(dock exec "$name" cat /sys/class/net/eth0/address)" --network "container:$name" -- cat /sys/class/net/eth0/address
  is_exec() { [ "$(dock exec "$name" sh -c 'tr "\0" " " </proc/1/cmdline')" = "sleep 1000 " ]; }
  eventually 10 is_exec # the runtime is on its way to it when the start is answered
  prints "sleep 1000" --pid "container:$name" -- sh -c 'tr "\0" " " </proc/1/cmdline | sed "s/ $//"'
  dock exec "$name" touch /dev/shm/mine
  prints /dev/shm/mine --ipc "container:$name" -- ls /dev/shm/mine
  dock rm -f "$name"
  prints "$(hostname)" --uts host -- hostname
  prints lo --network none -- ls /sys/class/net
  prints "$(readlink /proc/self/ns/net)" --network host -- readlink /proc/self/ns/net
  prints "$(readlink "/proc/$(inner_pid)/ns/user")" --userns host -- readlink /proc/self/ns/user
  prints "$(readlink "/proc/$(inner_pid)/ns/ipc")" --ipc host -- readlink /proc/self/ns/ipc
  prints "$(readlink /proc/self/ns/pid)" --pid host -- readlink /proc/self/ns/pid
  refused "invalid IPC mode" --ipc nonsense
  refused "network none-such not found" --network none-such
  # A missing image would be looked for: it is the other container that is missing.
  for flag in --network --ipc --pid; do
    refused "No such container: none-such" $flag container:none-such
    expect lacks "Unable to find image"
  done
}

@test "run: links" {
  db=$(unique db)
  lives "$db" -e COLOUR=red --expose 5432
  run dock run --rm --link "$db:store" busybox sh -c 'env; ping -c 1 -w 5 store >/dev/null && echo reached'
  expect contains STORE_PORT_5432_TCP_PORT=5432 STORE_ENV_COLOUR=red reached
  refused "No such container: none-such" --link none-such
  expect lacks "Unable to find image"
  dock rm -f "$db"
}

@test "run: -p, -P, --expose, and port" {
  name=$(unique port)
  run dock run -d --name "$name" -p 127.0.0.1::80 -p 127.0.0.1::53/udp --expose 81 --expose 90-91/udp busybox httpd -f -h /var/www
  expect status 0
  at=$(dock port "$name" 80/tcp)
  answers() { [ "$(curl -s --max-time 5 "http://$at/index.html")" = "hello from busybox" ]; }
  eventually 10 answers
  run dock port "$name"
  expect matches '^80/tcp -> 127\.0\.0\.1:[0-9]+$'
  expect matches '^53/udp -> 127\.0\.0\.1:[0-9]+$'
  expect equal "${#lines[@]}" 2
  run dock port "$name" 81
  expect status 1
  expect matches "No public port '81(/tcp)?' published for $name"
  run dock ps --filter "name=$name" --format '{{.Ports}}'
  expect contains "81/tcp, 90-91/udp, 127.0.0.1:" "->80/tcp"
  refused "port is already allocated" -p "$at:80"
  dock rm -f "$name"
  dock run -d --name "$name" -P --expose 81 --expose 90/udp busybox sleep 1000
  run dock port "$name"
  expect matches '^81/tcp -> 0\.0\.0\.0:[0-9]+$'
  expect matches '^90/udp -> 0\.0\.0\.0:[0-9]+$'
  dock rm -f "$name"
}

@test "run: limits are applied or warned of" {
  limits=(--memory 32m --memory-reservation 16m --memory-swap 64m --cpu-period 100000 --cpu-quota 50000 -c 512 --cpuset-cpus 0 --cpuset-mems 0 --pids-limit 50)
  run dock run --rm "${limits[@]}" busybox echo ran
  expect status 0
  expect contains ran
  if no_cgroups; then
    expect contains "memory limit" "memory soft limit" "CPU cfs period" "CPU cfs quota" "CPU shares" "cpuset cpus" "cpuset mems" "pids limit"
    warned "Block I/O weight" --blkio-weight 100 --blkio-weight-device /dev/null:200
    warned "BPS Block I/O read limit" --device-read-bps /dev/null:1mb --device-write-iops /dev/null:7
    warned "OomKillDisable" --oom-kill-disable -m 32m
    warned "memory swappiness" -m 32m --memory-swappiness 3
    warned "a parent for the container's cgroup" --cgroup-parent /mine
  else
    expect output ran
  fi
  refused "Minimum memory limit" -m 1m
  refused "memory swappiness range" --memory-swappiness 200
  refused "blkio weight is from 10 to 1000" --blkio-weight 5
  refused CpusetCpus --cpuset-cpus 5-1
}

@test "run: labels, cidfile, restart policy, log driver and stop signal are kept and shown" {
  name=$(unique meta)
  printf 'one=1\n# none\n' >"$BATS_TEST_TMPDIR/labels"
  lives "$name" --label-file "$BATS_TEST_TMPDIR/labels" -l two -l three=3 --cidfile "$BATS_TEST_TMPDIR/cid" --restart on-failure:3 \
    --log-driver json-file --log-opt max-size=1m --log-opt max-file=2 --stop-signal USR1
  expect equal "$(field "$name" '{{.Id}}')" "$(cat "$BATS_TEST_TMPDIR/cid")"
  expect equal "$(field "$name" '{{json .Config.Labels}}')" '{"one":"1","three":"3","two":""}'
  expect equal "$(field "$name" '{{.HostConfig.RestartPolicy.Name}}:{{.HostConfig.RestartPolicy.MaximumRetryCount}} {{.Config.StopSignal}}')" "on-failure:3 USR1"
  expect equal "$(field "$name" '{{json .HostConfig.LogConfig}}')" '{"Type":"json-file","Config":{"max-file":"2","max-size":"1m"}}'
  refused "container ID file found" --cidfile "$BATS_TEST_TMPDIR/cid"
  dock rm -f "$name"
  prints shown --log-driver none -- echo shown
  refused "logger: no log driver named 'none-such' is registered" --log-driver none-such
  refused "unknown log opt 'colour'" --log-opt colour=red
  refused "Invalid signal: NOPE" --stop-signal NOPE
  refused "--restart and --rm" --restart always
}

@test "run: the log keeps within its bounds, and --restart starts again" {
  name=$(unique again)
  dock run --name "$name" --log-opt max-size=1k --log-opt max-file=1 busybox seq 2000 >/dev/null
  run dock logs "$name"
  expect line -1 2000
  [ "${#lines[@]}" -lt 300 ] || fail "${#lines[@]} lines are left"
  dock rm "$name"
  dock run -d --name "$name" --restart on-failure:2 busybox sh -c 'echo once; exit 5'
  tried() { [ "$(field "$name" '{{.RestartCount}} {{.State.Status}}')" = "2 exited" ]; }
  eventually 20 tried
  expect equal "$(dock logs "$name")" $'once\nonce\nonce'
  expect equal "$(dock wait "$name")" 5
  dock rm "$name"
}

@test "run: a health check, seen by ps, and without one" {
  name=$(unique health)
  lives "$name" --health-cmd 'test -e /well' --health-interval 200ms --health-timeout 5s --health-retries 1
  shows() { [[ $(dock ps --filter "name=$name" --filter "health=$1" --format '{{.Status}}') == *"($1)" ]]; }
  eventually 20 shows unhealthy
  dock exec "$name" touch /well
  eventually 20 shows healthy
  dock rm -f "$name"
  lives "$name" --no-healthcheck
  expect equal "$(field "$name" '{{json .Config.Healthcheck.Test}}')" '["NONE"]'
  dock rm -f "$name"
}

@test "run: what this engine does not have, and what docker has of later versions" {
  refused "StorageOpt" --storage-opt size=1G
  refused "Runtime" --runtime none-such
  refused "Isolation" --isolation hyperv
  refused "user defined networks" --network default --ip 172.30.1.1 # without a network older clients send no address
  refused "could not select device driver" --gpus all
  for flag in --init --cpus=1 --platform=linux/"$(dock version --format "{{.Server.Arch}}")" --stop-timeout=3 --annotation=a=b --cgroupns=host --health-start-period=1s; do
    run dock run --rm "$flag" busybox true
    expect status 0
    DOCKER_API_VERSION=1.24 run dock run --rm "$flag" busybox true
    [ "$status" != 0 ] || fail "run $flag is taken at 1.24"
    expect matches "requires API version|unknown flag: ${flag%%=*}\$" # the client says so, an older one in its way
  done
}

@test "run: -a, -d, -i, -t, --detach-keys, --sig-proxy" {
  name=$(unique io)
  run --separate-stderr dock run --rm -a stdout busybox sh -c 'echo out; echo err >&2'
  expect output out
  expect equal "$stderr" ""
  run --separate-stderr dock run --rm -a stderr busybox sh -c 'echo out; echo err >&2'
  expect output ""
  expect equal "$stderr" err
  run dock run --rm -i -a stdin -a stdout busybox cat < <(echo through)
  expect contains through
  # What a command on a terminal says just before it ends may get lost.
  mkdir "$BATS_TEST_TMPDIR/sign"
  dock run --rm -t --name "$name" -v "$BATS_TEST_TMPDIR/sign:/sign" busybox sh -c 'tty; until [ -e /sign/go ]; do sleep 0.05; done' \
    </dev/null >"$BATS_TEST_TMPDIR/tty" 3>&- &
  client=$!
  eventually 20 file_has "$BATS_TEST_TMPDIR/tty" /dev/pts/0
  touch "$BATS_TEST_TMPDIR/sign/go" # by an exec it would be told of its code after the container is gone
  wait $client
  for proxy in true false; do
    out=$BATS_TEST_TMPDIR/out-$proxy
    # A caller may have had SIGHUP ignored, as nohup does.
    DOCKER_HOST=unix://$MOSS_SOCK env --default-signal=HUP docker run --sig-proxy=$proxy --name "$name" busybox \
      sh -c 'trap "echo got; exit 42" HUP; echo ready; while :; do sleep 0.05; done' >"$out" 2>&1 </dev/null 3>&- &
    client=$!
    eventually 20 file_has "$out" ready
    kill -HUP $client
    status=0
    wait $client || status=$?
    if [ $proxy = true ]; then
      expect status 42
      file_has "$out" got
    else
      is_running "$name"
    fi
    dock rm -f "$name"
  done
  cat >"$BATS_TEST_TMPDIR/e" <<'EXPECT'
set timeout 120
spawn docker run -it --detach-keys ctrl-a,x --name $env(NAME) busybox sh
expect "# "
send "\x01x"
expect eof
lassign [wait] pid id os status
if {$status != 0} {exit 91}
spawn docker attach --detach-keys ctrl-b $env(NAME)
send "\r"
expect "# "
send "\x02"
expect eof
lassign [wait] pid id os status
exit $status
EXPECT
  DOCKER_HOST=unix://$MOSS_SOCK NAME=$name run timeout 600 expect "$BATS_TEST_TMPDIR/e"
  expect contains "read escape sequence"
  is_running "$name"
  dock rm -f "$name"
}

@test "exit codes: 125, 126, 127, 128 and the signal, of run, start and exec" {
  name=$(unique code)
  refused "Minimum memory" -m 1
  run dock run --rm busybox /etc
  expect status 126
  run -127 dock run --name "$name" busybox no-such-command
  expect contains no-such-command
  expect equal "$(field "$name" '{{.State.ExitCode}} {{.State.Status}}')" "127 created"
  run dock start -a "$name"
  expect status 1
  dock rm "$name"
  run dock run --rm busybox sh -c 'sh -c "kill -TERM \$\$"; exit $?'
  expect status 143
  lives "$name"
  run dock exec "$name" sh -c 'exit 9'
  expect status 9
  run dock exec "$name" sh -c 'kill -KILL $$'
  expect status 137
  run dock exec "$name" /etc
  expect status 126
  run -127 dock exec "$name" no-such-command
  dock rm -f "$name"
}

@test "exec: -d, -i, -t, -u, --privileged, --detach-keys; refusals" {
  name=$(unique exec)
  lives "$name"
  run dock exec -d "$name" sh -c 'echo done >/out'
  expect output ""
  written() { [ "$(dock exec "$name" cat /out 2>/dev/null)" = "done" ]; }
  eventually 10 written
  run dock exec -i "$name" wc -l < <(printf 'a\nb\n')
  expect output 2
  DOCKER_HOST=unix://$MOSS_SOCK run pty_until /dev/pts/ 30 90 docker exec -it "$name" sh -c 'until stty size | grep "30 90"; do sleep 0.1; done; tty; read x'
  expect contains "30 90" /dev/pts/
  run dock exec -u 0:0 "$name" id -u
  expect output 0
  run dock exec --privileged "$name" sh -c 'ip link set lo mtu 1400 && cat /sys/class/net/lo/mtu'
  expect output 1400
  run dock exec "$name" ip link set lo mtu 1300
  expect contains "not permitted"
  printf 'set timeout 120\nspawn docker exec -it --detach-keys ctrl-a %s sh -c {echo up; exec sleep 1000}\nexpect up\nsend "\\x01"\nexpect eof\n' "$name" >"$BATS_TEST_TMPDIR/e"
  DOCKER_HOST=unix://$MOSS_SOCK run timeout 600 expect "$BATS_TEST_TMPDIR/e"
  expect contains "read escape sequence"
  run dock exec --env A=1 --workdir /tmp "$name" sh -c 'echo $A $PWD'
  expect output "1 /tmp"
  dock stop -t 0 "$name"
  run dock exec "$name" true
  expect status 1
  expect contains "is not running"
  dock rm "$name"
}

@test "ps: which, in which order, in what form" {
  a=$(unique a) b=$(unique b) c=$(unique c)
  lives "$a" -l "k=$a"
  dock create --name "$b" -l "k=$a" busybox true
  dock run --name "$c" -l "k=$a" busybox sh -c 'echo 12345 >/f; exit 3' || true
  mine() { dock ps --filter "label=k=$a" --format '{{.Names}}' "$@" | xargs; }
  expect equal "$(mine)" "$a"
  expect equal "$(mine -a)" "$c $b $a"
  expect equal "$(dock ps -l --format '{{.Names}}')" "$c"
  expect equal "$(dock ps -n 2 --format '{{.Names}}' | xargs)" "$c $b"
  expect equal "$(dock ps -aq --filter "name=$b")" "$(field "$b" '{{slice .Id 0 12}}')"
  expect equal "$(dock ps -aq --no-trunc --filter "name=$b")" "$(field "$b" '{{.Id}}')"
  expect equal "$(dock ps -as --filter "name=$c" --format '{{.Size}}' | cut -d' ' -f1)" 6B
  for filter in "exited=3:$c" "status=created:$b" "status=running:$a" "before=$b:$a" "since=$b:$c" "id=$(field "$c" '{{.Id}}'):$c"; do
    expect equal "$filter $(mine -a --filter "${filter%:*}")" "$filter ${filter##*:}"
  done
  expect equal "$(mine -a --filter ancestor=busybox --filter network=bridge)" "$c $b $a"
  run dock ps -a --filter "label=k=$a"
  expect matches "^CONTAINER ID +IMAGE +COMMAND +CREATED +STATUS +PORTS +NAMES$"
  expect matches "busybox +\"sleep 1000\" +.* ago +Up .* +$a$"
  expect matches "Exited \(3\) .* +$c$"
  expect matches " Created +$b$"
  run dock ps -a --filter "name=$a" --format '{{json .}}'
  expect equal "$(jq -r '[.Names,.State,.Networks,.Labels] | join(" ")' <<<"$output")" "$a running bridge k=$a"
  for bad in colour=red status=lost exited=many; do
    run dock ps --filter "$bad"
    expect status 1
  done
  dock rm -f "$a" "$b" "$c"
}

@test "logs: every flag" {
  name=$(unique logs)
  dock run --name "$name" -l tag=seen --log-opt labels=tag busybox sh -c 'echo one; sleep 1.2; echo two; echo bad >&2'
  run --separate-stderr dock logs "$name"
  expect output $'one\ntwo'
  expect equal "$stderr" bad
  stamp=$(dock logs -t "$name" | sed -n 's/ two$//p')
  expect --in "$stamp" matches '^[0-9-]+T[0-9:.]+Z$'
  expect equal "$(dock logs --since "$stamp" "$name" 2>/dev/null)" two
  expect equal "$(dock logs --since 10m "$name" 2>/dev/null)" $'one\ntwo'
  expect equal "$(dock logs --tail 0 "$name" 2>&1)" ""
  expect equal "$(dock logs -n all "$name" 2>/dev/null)" $'one\ntwo'
  expect equal "$(dock logs -n 3 --details "$name" 2>/dev/null)" $'tag=seen one\ntag=seen two'
  expect equal "$(dock logs -f "$name" 2>/dev/null)" $'one\ntwo'
  expect equal "$(dock logs --until "$(date +%s.%N)" "$name" 2>/dev/null)" $'one\ntwo'
  expect equal "$(dock logs --until 10m "$name" 2>&1)" ""
  run dock logs no-such
  expect status 1
  expect contains "No such container: no-such"
  dock rm "$name"
}

@test "create, start -a, -i and of several, attach" {
  name=$(unique start)
  run dock create -i --name "$name" busybox sh -c 'read x; echo "got $x"; exit 6'
  expect matches '^[0-9a-f]{64}$'
  run dock start -ai "$name" < <(echo line)
  expect status 6
  expect output "got line"
  dock create --name "$name-2" busybox true
  run dock start -a "$name" "$name-2"
  expect status 1
  expect contains "cannot start and attach multiple containers at once"
  run dock start "$name-2" no-such
  expect status 1
  expect contains "$name-2" "No such container: no-such" "failed to start containers: no-such"
  eventually 20 is_exited "$name-2"
  run dock attach "$name-2"
  expect status 1
  expect contains "cannot attach to a stopped container"
  dock rm "$name-2"
  dock start "$name"
  printf 'set timeout 120\nspawn docker start -ai --detach-keys ctrl-a %s\nexpect "# "\nsend "\\x01"\nexpect eof\nlassign [wait] pid id os status\nexit $status\n' "$name-3" >"$BATS_TEST_TMPDIR/e"
  dock create -it --name "$name-3" busybox sh
  DOCKER_HOST=unix://$MOSS_SOCK run timeout 600 expect "$BATS_TEST_TMPDIR/e"
  expect status 0
  is_running "$name-3"
  run dock attach --no-stdin "$name" < <(echo ignored) &
  viewer=$!
  run dock attach "$name" < <(echo typed)
  expect status 6
  expect output "got typed"
  wait $viewer
  dock rm -f "$name" "$name-3"
}

@test "stop, restart, kill, wait, rename, rm" {
  name=$(unique life)
  dock run -d --name "$name" busybox sh -c 'trap "exit 3" TERM; trap "echo usr1" USR1; echo ready; while :; do sleep 0.05; done'
  eventually 20 log_has "$name" ready
  run dock kill -s USR1 "$name"
  expect output "$name"
  eventually 20 log_has "$name" usr1
  run dock kill --signal BOGUS "$name"
  expect contains "Invalid signal: BOGUS"
  pid=$(field "$name" '{{.State.Pid}}')
  run dock restart -t 20 "$name"
  expect output "$name"
  [ "$(field "$name" '{{.State.Pid}}')" != "$pid" ]
  ready_again() { [ "$(dock logs "$name" | grep -cx ready)" = 2 ]; }
  eventually 20 ready_again
  run dock rename "$name" "$name"
  expect contains "Renaming a container with the same name"
  run dock rename "$name" "$name/x"
  expect contains "Invalid container name"
  dock rename "$name" "$name-new"
  run dock rm "$name-new"
  expect status 1
  expect contains "cannot remove a running container"
  dock wait "$name-new" >"$BATS_TEST_TMPDIR/code" 3>&- &
  waiter=$!
  run dock stop -t 20 "$name-new"
  expect output "$name-new"
  wait $waiter
  expect equal "$(cat "$BATS_TEST_TMPDIR/code")" 3
  run dock stop "$name-new"
  expect status 0
  run dock kill "$name-new"
  expect status 1
  expect contains "is not running"
  run dock rm "$name-new" no-such
  expect status 1
  expect contains "$name-new" "No such container: no-such"
  run dock rm -f no-such
  expect status 0
}

@test "pause and unpause" {
  name=$(unique still)
  lives "$name"
  run dock pause "$name"
  expect output "$name"
  expect --in "$(dock ps --filter "name=$name" --format '{{.Status}}')" contains "(Paused)"
  run dock pause "$name"
  expect contains "already paused"
  run dock exec "$name" true
  expect contains "is paused, unpause the container before exec"
  run dock unpause "$name"
  expect output "$name"
  run dock unpause "$name"
  expect contains "is not paused"
  dock pause "$name"
  dock stop -t 1 "$name"
  is_exited "$name"
  dock rm "$name"
}

@test "top and stats" {
  name=$(unique use)
  lives "$name"
  is_exec() { [[ $(dock top "$name") == *"sleep 1000" ]]; } # the runtime is on its way to it when the start is answered
  eventually 10 is_exec
  run dock top "$name"
  expect matches '^UID +PID +PPID +C +STIME +TTY +TIME +CMD$'
  expect matches 'sleep 1000$'
  run dock top "$name" -o pid,comm
  expect line 1 "$(printf '%-20s%s' "$(field "$name" '{{.State.Pid}}')" sleep)"
  run dock stats --no-stream --format '{{.Name}} {{.PIDs}} {{.CPUPerc}} {{.MemPerc}} {{.ID}}' "$name"
  expect matches "^$name 1 [0-9.]+% [0-9.]+% [0-9a-f]{12}$"
  run dock stats --no-stream "$name"
  expect matches "^CONTAINER ID +NAME +CPU % +MEM USAGE / LIMIT +MEM % +NET I/O +BLOCK I/O +PIDS$"
  expect matches "$name +[0-9.]+% +[0-9.]+[KMG]i?B / [0-9.]+GiB "
  grep -q "$name" < <(dock stats --format '{{.Name}}' "$name") # a stream, until it is ended
  dock stop -t 0 "$name"
  run dock top "$name"
  expect contains "is not running"
  run dock stats --no-stream -a --no-trunc --format '{{.ID}} {{.PIDs}}'
  expect contains "$(field "$name" '{{.Id}}') 0"
  run dock stats --no-stream no-such
  expect status 1
  dock rm "$name"
}

@test "inspect: formats, sizes, types" {
  name=$(unique look)
  lives "$name" -v "$name:/data"
  expect equal "$(dock inspect "$name" | jq -r '.[0].Name')" "/$name"
  expect equal "$(dock container inspect --size --format '{{ge .SizeRootFs .SizeRw}}' "$name")" true
  expect equal "$(dock inspect "$name" | jq '.[0] | has("SizeRw")')" false
  expect equal "$(dock inspect --type volume --format '{{.Driver}}' "$name")" local
  run dock inspect --type image "$name"
  expect status 1
  run dock container inspect --format '{{.State.Running}}' "$name" no-such
  expect status 1
  expect contains true "no-such"
  dock rm -f "$name"
  dock volume rm "$name"
}

@test "cp, diff, export, commit" {
  name=$(unique files)
  lives "$name"
  dir=$BATS_TEST_TMPDIR
  printf 'in\n' >"$dir/in"
  run dock cp "$dir/in" "$name:/tmp/in"
  expect status 0
  expect --in "$(tar -tf <(dock cp "$name:/tmp/in" -))" output in
  dock cp "$name:/var/www" "$dir/out"
  expect equal "$(cat "$dir/out/index.html")" "hello from busybox"
  tar -C "$dir" -cf - in | dock cp - "$name:/root"
  expect equal "$(dock exec "$name" cat /root/in)" in
  run dock cp "$name:/no-such" "$dir"
  expect status 1
  expect matches "Could not find the file /no-such in container $name|No such container:path: $name:/no-such"
  dock exec "$name" sh -c 'rm /bin/zcat; echo >>/etc/group'
  run dock diff "$name"
  for line in "D /bin/zcat" "C /etc/group" "A /root/in" "A /tmp/in"; do expect matches "^$line$"; done
  dock export -o "$dir/tar" "$name"
  expect equal "$(tar -xOf "$dir/tar" tmp/in)" in
  run dock commit -a someone -m 'with a file' -c 'CMD ["cat","/root/in"]' -c 'ENV COLOUR=red' -p "$name" "$name:v2"
  expect matches '^sha256:[0-9a-f]{64}$'
  run dock run --rm "$name:v2"
  expect output in
  expect equal "$(dock inspect --format '{{.Author}} {{.Comment}} {{json .Config.Env}}' "$name:v2" | grep -o '^[^[]*')" "someone with a file "
  dock rmi "$name:v2"
  dock rm -f "$name"
}

@test "update" {
  name=$(unique upd)
  lives "$name"
  run dock update --memory 64m --memory-swap 64m -c 300 --restart on-failure:4 "$name"
  expect status 0
  expect contains "$name"
  if no_cgroups; then expect contains "memory limit" "CPU shares"; fi
  expect equal "$(field "$name" '{{.HostConfig.Memory}} {{.HostConfig.CpuShares}} {{.HostConfig.RestartPolicy.Name}} {{.HostConfig.RestartPolicy.MaximumRetryCount}}')" "67108864 300 on-failure 4"
  run dock update --restart sometimes "$name"
  expect status 1
  expect contains "invalid restart policy 'sometimes'"
  run dock update --memory 1m "$name"
  expect status 1
  run dock update --cpus 1 "$name"
  if no_cgroups; then
    expect contains "CPU"
  else
    expect equal "$(field "$name" '{{.HostConfig.NanoCpus}}')" 1000000000
  fi
  run dock update "$name" no-such --memory 64m
  expect status 1
  dock rm -f "$name"
}
