#!/usr/bin/env bats
# What HostConfig asks for, seen from inside running containers.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

field() { moss inspect "$1" | jq -r ".[0]$2"; }
# own_group HIERARCHY: our own path in it.
own_group() { sed -n "s/^[0-9]*:\(name=\)\{0,1\}$1://p" /proc/self/cgroup; }
# inside HOSTCONFIG CMD...: what CMD prints in a container with these settings; its warnings go to $warnings.
inside() {
  local name body answer
  name=$(unique inside)
  body=$(printf '%s\n' "${@:2}" | jq -cRn --argjson host "$1" '{Image: "busybox", Cmd: [inputs], HostConfig: $host}')
  answer=$(api POST "/containers/create?name=$name" "$body")
  [ "${answer##*$'\n'}" = 201 ] || fail "create $1: $answer" || return
  warnings=$(jq -r '.Warnings[]?' <<<"${answer%$'\n'*}")
  moss start -a "$name" 2>&1 || true
  moss rm -f "$name" >/dev/null
}
# refused STATUS TEXT HOSTCONFIG
refused() {
  run api POST /containers/create "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":$3}"
  [ "${lines[-1]}" = "$1" ] || fail "$3: $output" || return
  expect contains "$2"
}

@test "OomScoreAdj: the process has it, one below the engine's is warned of" {
  run inside '{"OomScoreAdj":777}' cat /proc/self/oom_score_adj
  expect output 777
  inside '{"OomScoreAdj":-500}' true
  expect --in "$warnings" contains OomScoreAdj
  refused 400 "oom score adj" '{"OomScoreAdj":1001}'
}

# bats test_tags=subids
@test "GroupAdd: names and numbers" {
  run inside '{"GroupAdd":["staff","1234"]}' id -G
  expect output "0 50 1234"
  run api POST /containers/create '{"Image":"busybox","Cmd":["true"],"HostConfig":{"GroupAdd":["no-such"]}}'
  expect line -1 201
  id=$(jq -r .Id <<<"${lines[0]}")
  run api POST "/containers/$id/start"
  expect line -1 400
  expect contains no-such
  moss rm "$id"
}

@test "CapAdd and CapDrop, ALL on either side" {
  run inside '{"CapDrop":["ALL"]}' grep CapEff /proc/self/status
  expect output $'CapEff:\t0000000000000000'
  run inside '{"CapDrop":["ALL"],"CapAdd":["NET_ADMIN"]}' grep CapEff /proc/self/status
  expect output $'CapEff:\t0000000000001000'
  run inside '{"CapAdd":["ALL"],"CapDrop":["CAP_SYS_ADMIN"]}' grep CapEff /proc/self/status
  all=$(printf '%016x' $(((1 << ($(cat /proc/sys/kernel/cap_last_cap) + 1)) - 1 - (1 << 21))))
  expect output $'CapEff:\t'"$all"
  run inside '{"CapAdd":["NET_ADMIN"]}' ip link set lo mtu 1234
  expect output ""
  run inside '{}' ip link set lo mtu 1234
  expect contains "not permitted"
}

@test "Privileged: all capabilities, no filter, /sys can be written, the user's devices are there" {
  run inside '{"Privileged":true}' sh -c 'grep -E "CapEff|Seccomp:" /proc/self/status; mount -t tmpfs x /tmp && echo mounted; grep -c " /proc/kcore " /proc/mounts; ls -d /dev/fuse /dev/net/tun 2>/dev/null | xargs'
  all=$(printf '%016x' $(((1 << ($(cat /proc/sys/kernel/cap_last_cap) + 1)) - 1)))
  expect line 0 $'CapEff:\t'"$all"
  expect line 1 $'Seccomp:\t0'
  expect line 2 mounted
  expect line 3 0
  has=
  for device in /dev/fuse /dev/net/tun; do if [ -w "$device" ]; then has="$has $device"; fi; done
  expect line 4 "${has# }"
}

# bats test_tags=subids
@test "Privileged: an engine of an ordinary user works in a container" {
  cp "$MOSS_DIR/busybox.tar" "$BATS_TEST_TMPDIR/image.tar"
  chmod 755 "$BATS_TEST_TMPDIR"
  chmod 644 "$BATS_TEST_TMPDIR/image.tar"
  # The host's programs; its ip is not busybox's.
  cat >"$BATS_TEST_TMPDIR/inner" <<'END'
export HOME=/tmp/u XDG_RUNTIME_DIR=/tmp/run PATH=/moss:/usr/bin:/usr/sbin:/bin
moss import - inner <image.tar >/dev/null || exit
moss run --rm --network none inner cat /proc/self/uid_map || exit
moss run --rm inner echo nested
END
  chmod 644 "$BATS_TEST_TMPDIR/inner"
  mounts=(-v /usr:/usr:ro -v "$moss_bin:/moss:ro" -v "$BATS_TEST_TMPDIR:/given:ro")
  for dir in /lib /lib64; do if [ -e "$dir" ]; then mounts+=(-v "$dir:$dir:ro"); fi; done
  run moss run --rm --privileged -w /given "${mounts[@]}" busybox sh -c '
    echo u:x:1000:1000::/tmp/u:/bin/sh >>/etc/passwd; echo u:x:1000: >>/etc/group
    mkdir -p /run /tmp/run /tmp/u; chmod 700 /tmp/run; chown u:u /tmp/run /tmp/u
    busybox su -s /bin/sh u ./inner'
  expect status 0
  expect matches '^ +0 +1000 +1$'
  expect line -1 nested
}

# bats test_tags=subids
@test "Privileged: an engine with a short range of sub-ids uses what there is, in a container too" {
  mkdir "$BATS_TEST_TMPDIR/files"
  echo x >"$BATS_TEST_TMPDIR/files/beyond"
  echo x >"$BATS_TEST_TMPDIR/files/www"
  cp "$MOSS_DIR/busybox.tar" "$BATS_TEST_TMPDIR/image.tar"
  tar -C "$BATS_TEST_TMPDIR/files" --owner=3000 --group=3000 --mode=6755 -rf "$BATS_TEST_TMPDIR/image.tar" beyond
  tar -C "$BATS_TEST_TMPDIR/files" --owner=33 --group=33 --mode=6755 -rf "$BATS_TEST_TMPDIR/image.tar" www
  cat >"$BATS_TEST_TMPDIR/inner" <<'END'
export HOME=/tmp/u XDG_RUNTIME_DIR=/tmp/run PATH=/suid:/moss:/usr/bin:/usr/sbin:/bin
moss import - inner <image.tar >/dev/null || exit
moss run --rm --network none inner sh -c 'cat /proc/self/uid_map; stat -c "%n %u:%g %a" /beyond /www' || exit
moss run --rm --network none -u 33 inner id -u || exit
moss run --rm --network none -u 3000 inner id -u
moss info
END
  chmod 755 "$BATS_TEST_TMPDIR"
  chmod 644 "$BATS_TEST_TMPDIR/image.tar" "$BATS_TEST_TMPDIR/inner"
  mounts=(-v /usr:/usr:ro -v "$moss_bin:/moss:ro" -v "$BATS_TEST_TMPDIR:/given:ro")
  for dir in /lib /lib64; do if [ -e "$dir" ]; then mounts+=(-v "$dir:$dir:ro"); fi; done
  run moss run --rm --privileged -w /given "${mounts[@]}" busybox sh -c '
    echo u:x:1000:1000::/tmp/u:/bin/sh >>/etc/passwd; echo u:x:1000: >>/etc/group; : >/etc/nsswitch.conf
    echo u:2000:500 >/etc/subuid; echo u:2000:500 >/etc/subgid
    mkdir -p /suid /run /tmp/run /tmp/u; chmod 700 /tmp/run; chown u:u /tmp/run /tmp/u
    cp /usr/bin/newuidmap /usr/bin/newgidmap /suid; chmod 4755 /suid/*
    busybox su -s /bin/sh u ./inner'
  expect matches '^ +1 +2000 +500$'
  expect contains '/beyond 0:0 755' '/www 33:33 6755' $'\n33' "users go up to 500 and groups up to 500 here" "Only 501 users and 501 groups"
}

@test "seccomp: the default refuses, unconfined allows, a profile of one's own decides by itself" {
  run inside '{}' sh -c 'unshare -U true; grep Seccomp: /proc/self/status'
  expect contains "not permitted" $'Seccomp:\t2'
  run inside '{"SecurityOpt":["seccomp=unconfined"]}' sh -c 'unshare -U true && echo yes; grep Seccomp: /proc/self/status'
  expect contains yes $'Seccomp:\t0'
  profile='{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO"}]}'
  run inside "$(jq -cn --arg p "seccomp=$profile" '{SecurityOpt: [$p]}')" sh -c 'mkdir /x || echo refused; unshare -U true && echo yes'
  expect contains refused yes
  refused 400 "invalid seccomp profile" '{"SecurityOpt":["seccomp=nonsense"]}'
  refused 400 "invalid seccomp profile" '{"SecurityOpt":["seccomp={\"defaultAction\":\"SCMP_ACT_NOPE\"}"]}'
}

@test "no-new-privileges" {
  run inside '{"SecurityOpt":["no-new-privileges"]}' grep NoNewPrivs /proc/self/status
  expect output $'NoNewPrivs:\t1'
  run inside '{"SecurityOpt":["no-new-privileges:false"]}' grep NoNewPrivs /proc/self/status
  expect output $'NoNewPrivs:\t0'
}

@test "label and apparmor are warned of where nothing applies them; an unknown option is 400" {
  inside '{"SecurityOpt":["label=type:x_t","apparmor=mine"]}' true
  expect --in "$warnings" contains SELinux AppArmor
  inside '{"SecurityOpt":["label=disable","apparmor=unconfined"]}' true
  expect equal "$warnings" ""
  refused 400 "invalid --security-opt" '{"SecurityOpt":["magic=on"]}'
}

@test "Sysctls of the container's namespaces; others are 400" {
  run inside '{"Sysctls":{"net.ipv4.ip_forward":"1","kernel.shmmni":"99","fs.mqueue.msg_max":"7"}}' \
    cat /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/shmmni /proc/sys/fs/mqueue/msg_max
  expect output $'1\n99\n7'
  refused 400 "not allowed" '{"Sysctls":{"kernel.panic":"1"}}'
  refused 400 "shares that namespace" '{"NetworkMode":"host","Sysctls":{"net.ipv4.ip_forward":"1"}}'
  refused 400 "shares that namespace" '{"IpcMode":"host","Sysctls":{"kernel.shmmni":"1"}}'
}

@test "Devices: a device of the host's at a path of one's own" {
  run inside '{"Devices":[{"PathOnHost":"/dev/zero","PathInContainer":"/dev/my/zero"}]}' sh -c 'head -c 3 /dev/my/zero | od -An -tx1'
  expect contains "00 00 00"
  run inside '{"Devices":[{"PathOnHost":"/dev/no-such"}]}' true
  expect contains /dev/no-such
  if [ -e /dev/net/tun ]; then
    run inside '{"Devices":[{"PathOnHost":"/dev/net","PathInContainer":"/dev/mine"}]}' ls /dev/mine
    expect contains tun
  fi
  mkdir -p "$BATS_TEST_TMPDIR/plain/folder"
  touch "$BATS_TEST_TMPDIR/plain/file"
  for path in "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/plain/file"; do
    run inside "{\"Devices\":[{\"PathOnHost\":\"$path\"}]}" true
    expect contains "adding custom device" "$path" "not a device node"
  done
}

@test "Ulimits" {
  run inside '{"Ulimits":[{"Name":"nofile","Soft":64,"Hard":128},{"Name":"core","Soft":0,"Hard":0}]}' sh -c 'ulimit -Sn; ulimit -Hn; ulimit -c'
  expect output $'64\n128\n0'
  refused 400 ulimit '{"Ulimits":[{"Name":"nofile","Soft":9,"Hard":3}]}'
  run inside '{"Ulimits":[{"Name":"fsize","Soft":512,"Hard":1024}]}' sh -c 'ulimit -f; grep Seccomp: /proc/self/status'
  expect output $'64\nSeccomp:\t2'
  inside '{"Ulimits":[{"Name":"fsize","Soft":512,"Hard":1024}]}' true
  expect --in "$warnings" contains fsize=512:1024
  run inside '{"Ulimits":[{"Name":"fsize","Soft":512,"Hard":1024}],"SecurityOpt":["seccomp=unconfined"]}' sh -c 'ulimit -f'
  expect output 64
  # A terminal, Init and read-only mounts are what the runtime opens the most for.
  mkdir "$BATS_TEST_TMPDIR/few"
  local few='{"Ulimits":[{"Name":"nofile","Soft":1,"Hard":1}],"Init":true,"Binds":['
  for i in 1 2 3 4 5 6 7 8 9 10 11 12; do few+="\"$BATS_TEST_TMPDIR/few:/few/$i:ro\","; done
  run inside "${few%,}]}" sh -c 'ulimit -Sn; ulimit -Hn'
  expect output $'60\n60'
  inside "${few%,}]}" true
  expect --in "$warnings" contains "nofile=1:1 is too small for the runtime"
  name=$(unique few)
  moss run -dt --init --ulimit nofile=1 --name "$name" busybox sleep 1000
  run moss exec "$name" sh -c 'ulimit -n'
  expect output 48
  moss rm -f "$name"
}

@test "Dns, DnsSearch, DnsOptions and ExtraHosts are in the files" {
  run inside '{"Dns":["192.0.2.53","2001:db8::53"],"DnsSearch":["example.org","example.net"],"DnsOptions":["ndots:3"],"ExtraHosts":["db:192.0.2.7","six:2001:db8::7"]}' \
    cat /etc/resolv.conf /etc/hosts
  expect contains "nameserver 192.0.2.53" "nameserver 2001:db8::53" "search example.org example.net" "options ndots:3" \
    $'192.0.2.7\tdb' $'2001:db8::7\tsix'
  run inside '{"DnsSearch":["."]}' cat /etc/resolv.conf
  expect lacks search
}

@test "Hostname, Domainname and MacAddress" {
  run api POST /containers/create '{"Image":"busybox","Cmd":["sh","-c","hostname; cat /proc/sys/kernel/domainname /etc/hostname /sys/class/net/eth0/address; grep front /etc/hosts"],"Hostname":"front","Domainname":"example.org","MacAddress":"02:42:ac:11:be:ef"}'
  expect line -1 201
  id=$(jq -r .Id <<<"${lines[0]}")
  run moss start -a "$id"
  expect line 0 front
  expect line 2 front
  expect line 3 02:42:ac:11:be:ef
  expect contains "front.example.org front"
  if [ "${lines[1]}" != example.org ] && [[ $(crun --version) != *"version 1.8"* ]]; then fail "domain name: $output"; fi
  expect equal "$(field "$id" .Config.Domainname)" example.org
  moss rm "$id"
}

@test "ReadonlyRootfs: nothing but the mounts can be written" {
  run inside '{"ReadonlyRootfs":true,"Tmpfs":{"/run":""}}' sh -c 'touch /x /etc/hosts 2>&1; touch /run/x /dev/shm/x /dev/x && echo written'
  expect contains "/x: Read-only" "/etc/hosts: Read-only" written
}

@test "Volumes over a file of the image are refused, the client's and the image's" {
  run moss create -v /etc/passwd busybox true
  expect status 125
  expect contains "cannot mount volume over existing file, file exists /etc/passwd"
  image=$(unique image)
  printf 'FROM busybox\nVOLUME /etc/passwd\n' >"$BATS_TEST_TMPDIR/Dockerfile"
  moss build -q -t "$image" "$BATS_TEST_TMPDIR"
  run moss create "$image" true
  expect contains "cannot mount volume over existing file, file exists /etc/passwd"
}

# bats test_tags=subids
@test "User: name, number, with a group; numbers need no entry; unknown names are 400" {
  for form in www:33:33 33:33:33 www:staff:33:50 33:50:33:50 4711:4711:0 4711:12:4711:12; do
    ids=${form##*[!0-9:]:}
    gid=${form##*:} rest=${form%:*} uid=
    uid=${rest##*:} user=${rest%:*}
    run moss run --rm -u "$user" busybox sh -c 'echo $(id -u):$(id -g)'
    expect output "$uid:$gid"
  done
  run moss run --rm -u www busybox sh -c 'echo $HOME; id -G'
  expect output $'/var/www\n33 50'
  run moss run --rm -u no-such busybox true
  expect status 125
  expect contains "unable to find user no-such"
  for bad in 4294967295 -1 'a b' :; do
    run api POST /containers/create "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"User\":\"$bad\"}"
    expect line -1 400
  done
}

@test "StorageOpt is refused, and why" {
  refused 400 "StorageOpt size=10G is not supported: a container's own size limit takes project quotas" '{"StorageOpt":{"size":"10G"}}'
  refused 400 "unknown option dm.basesize in StorageOpt" '{"StorageOpt":{"dm.basesize":"1"}}'
}

@test "UsernsMode host is what containers have; another is refused" {
  refused 400 'invalid UsernsMode \"auto\"' '{"UsernsMode":"auto"}'
  run inside '{"UsernsMode":"host"}' readlink /proc/self/ns/user
  expect output "$(readlink "/proc/$(inner_pid)/ns/user")"
}

@test "without cgroups: CgroupParent, OomKillDisable and Blkio are warned of" {
  if [ "$(answer_of /info -r .CgroupDriver)" != none ]; then skip "this user has cgroups; hack/as-user.sh without --cgroups takes one who has none"; fi
  run inside '{"CgroupParent":"/a/b","OomKillDisable":true,"BlkioWeight":100,"BlkioDeviceReadBps":[{"Path":"/dev/null","Rate":1}]}' echo ran
  expect output ran
  inside '{"CgroupParent":"/a/b","OomKillDisable":true,"BlkioWeight":100,"BlkioDeviceReadBps":[{"Path":"/dev/null","Rate":1}]}' true
  expect equal "$(grep -c discarded <<<"$warnings")" 4
  expect --in "$warnings" contains "a parent for the container's cgroup" OomKillDisable "Block I/O weight" "BPS Block I/O read limit"
}

# in_parent PATH: how many groups of containers lie right below PATH in the engine's cgroup, in the hierarchy memory.
in_parent() { find /sys/fs/cgroup/memory"$(own_group memory)"/moss-*/"$1" -mindepth 1 -maxdepth 1 -type d 2>/dev/null | wc -l; }
parents() { find /sys/fs/cgroup/*"$(own_group memory)"/moss-* -mindepth 1 -type d -name "$1" 2>/dev/null; }

# bats test_tags=cgroups
@test "CgroupParent: the container's cgroup lies below it, and it goes when empty" {
  parent=$(unique parent)
  a=$(unique a) b=$(unique b)
  run api POST "/containers/create?name=$a" "{\"Image\":\"busybox\",\"Cmd\":[\"sleep\",\"1000\"],\"HostConfig\":{\"Memory\":16777216,\"CgroupParent\":\"$parent/deep/\"}}"
  expect line -1 201
  expect contains "CgroupParent $parent/deep/ is taken below"
  run api POST "/containers/create?name=$b" "{\"Image\":\"busybox\",\"Cmd\":[\"sleep\",\"1000\"],\"HostConfig\":{\"CgroupParent\":\"/$parent/deep\"}}"
  expect line -1 201
  expect contains "CgroupParent /$parent/deep is taken below"
  moss start "$a" "$b"
  expect equal "$(in_parent "$parent/deep")" 2
  group=$(find /sys/fs/cgroup/memory"$(own_group memory)"/moss-*/"$parent/deep" -name "$(field "$a" .Id)")
  expect equal "$(cat "$group/memory.limit_in_bytes")" 16777216
  grep -qx "$(field "$a" .State.Pid)" "$group/cgroup.procs"
  moss rm -f "$a"
  expect equal "$(in_parent "$parent/deep")" 1
  moss rm -f "$b"
  expect equal "$(parents "$parent")" ""
  # Neither does a start that fails leave it.
  run api POST "/containers/create?name=$a" "{\"Image\":\"busybox\",\"Cmd\":[\"/no/such\"],\"HostConfig\":{\"CgroupParent\":\"$parent\"}}"
  run api POST "/containers/$a/start"
  expect line -1 404
  expect equal "$(parents "$parent")" ""
  moss rm "$a"
  refused 400 "invalid CgroupParent" '{"CgroupParent":"../x"}'
}

# bats test_tags=cgroups
@test "OomKillDisable holds in the cgroup, and is warned of without a memory limit" {
  run inside '{"OomKillDisable":true,"Memory":33554432}' cat /sys/fs/cgroup/memory/memory.oom_control
  expect contains "oom_kill_disable 1"
  inside '{"OomKillDisable":true}' true
  expect --in "$warnings" contains "OOM killer is disabled"
}
