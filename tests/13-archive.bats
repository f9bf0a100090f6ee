#!/usr/bin/env bats
# bats file_tags=nosub
# Files in and out of containers: archive, copy, export, changes, and docker cp on top of them.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# idle NAME [ARG...]: a container that runs until it is removed.
idle() {
  local name=$1
  shift
  dock run -d --name "$name" "$@" busybox sleep 1000 >/dev/null
}

# raw METHOD PATH [CURL-ARG...]: one request; its status goes to stdout, the body into $BATS_TEST_TMPDIR/body, the head into .../head.
raw() {
  local method=$1 path=$2 head=()
  shift 2
  [ "$method" != HEAD ] || head=(--head)
  curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X "$method" "${head[@]}" -D "$BATS_TEST_TMPDIR/head" \
    -o "$BATS_TEST_TMPDIR/body" -w '%{http_code}' "$@" "http://moss$path"
}

# path_stat NAME: a field of the last answer's description of a path.
path_stat() {
  sed -n 's/^X-Docker-Container-Path-Stat: \(.*\)\r$/\1/ip' "$BATS_TEST_TMPDIR/head" | base64 -d | jq -r ".$1"
}

@test "head: describes files, folders and links, under both names of the header" {
  name=$(unique head)
  idle "$name"
  dock exec "$name" sh -c 'echo hello >/a; chmod 4750 /a; touch -d @1000000000 /a; mkdir /d; ln -s a /link; ln -s /d /dlink; ln -s nowhere /dead'
  run raw HEAD "/v1.24/containers/$name/archive?path=/a"
  expect output 200
  expect equal "$(path_stat name)" a
  expect equal "$(path_stat size)" 6
  expect equal "$(path_stat mode)" $((8#750 | 1 << 23))
  expect equal "$(date -d "$(path_stat mtime)" +%s)" 1000000000
  expect equal "$(path_stat linkTarget)" ""
  expect equal "$(grep -ci '^X-Engine-Container-Path-Stat: ' "$BATS_TEST_TMPDIR/head")" 1
  raw HEAD "/v1.24/containers/$name/archive?path=d"
  expect equal "$(($(path_stat mode) & 1 << 31))" $((1 << 31))
  raw HEAD "/v1.24/containers/$name/archive?path=/link"
  expect equal "$(($(path_stat mode) & 1 << 27))" $((1 << 27))
  expect equal "$(path_stat linkTarget)" /a
  raw HEAD "/v1.24/containers/$name/archive?path=/dead"
  expect equal "$(path_stat linkTarget)" /nowhere
  raw HEAD "/v1.24/containers/$name/archive?path=/dlink/"
  expect equal "$(path_stat name)" dlink
  expect equal "$(($(path_stat mode) & 1 << 31))" $((1 << 31))
  raw HEAD "/v1.24/containers/$name/archive?path=/d/."
  expect equal "$(path_stat name)" .
  dock rm -f "$name"
}

@test "codes: 400, 403, 404 and their texts, for all methods" {
  name=$(unique codes)
  idle "$name"
  for method in HEAD GET PUT; do
    run raw $method "/v1.24/containers/$name/archive?path="
    expect output 400
    run raw $method "/v1.24/containers/$name/archive"
    expect output 400
    run raw $method "/v1.24/containers/$name/archive?path=/etc/passwd/"
    expect output 400
    run raw $method "/v1.24/containers/$name/archive?path=/no/such"
    expect output 404
    run raw $method "/v1.24/containers/no-such/archive?path=/"
    expect output 404
    run raw $method "/v1.19/containers/$name/archive?path=/"
    expect output 404
  done
  raw GET "/v1.24/containers/$name/archive?path="
  expect equal "$(jq -r .message <"$BATS_TEST_TMPDIR/body")" "bad parameter: 'path' cannot be empty"
  raw GET "/v1.24/containers/$name/archive?path=/no/such"
  expect equal "$(jq -r .message <"$BATS_TEST_TMPDIR/body")" "Could not find the file /no/such in container $name"
  run raw PUT "/v1.24/containers/$name/archive?path=/etc/passwd"
  expect output 400
  expect equal "$(jq -r .message <"$BATS_TEST_TMPDIR/body")" "extraction point is not a directory"
  for path in /proc/version /proc /sys/kernel /dev/pts /proc/1/root/etc; do
    for method in GET HEAD; do
      run raw "$method" "/v1.24/containers/$name/archive?path=$path"
      expect output 400
    done
  done
  # Of devices there are the names alone.
  run raw GET "/v1.24/containers/$name/archive?path=/dev/"
  expect output 200
  expect --in "$(tar tvf "$BATS_TEST_TMPDIR/body")" matches '^c.* 0 .* dev/null$|^c.* 1,3 .* dev/null$'
  run raw PUT "/v1.24/containers/$name/archive?path=/proc" --data-binary @"$MOSS_DIR/busybox.tar"
  expect output 400
  run raw PUT "/v1.24/containers/$name/archive?path=/tmp" --data-binary 'this is no archive, however long it is'
  expect output 400
  head -c 700 "$MOSS_DIR/busybox.tar" >"$BATS_TEST_TMPDIR/short.tar"
  run raw PUT "/v1.24/containers/$name/archive?path=/tmp" --data-binary @"$BATS_TEST_TMPDIR/short.tar"
  expect output 400
  run raw PUT "/v1.24/containers/$name/archive?path=/tmp"
  expect output 200
  dock rm -f "$name"
}

@test "get: names begin with the base name; links are followed" {
  name=$(unique get)
  idle "$name"
  dock exec "$name" sh -c 'mkdir -p /d/sub; echo 1 >/d/f; ln /d/f /d/hard; ln -s f /d/soft; ln -s /d /dlink; mkfifo /d/fifo; ln -s /../../../../d/f /esc'
  for at in d=d/ d/=d/ /d/.=./ dlink=dlink/ dlink/=dlink/; do
    raw GET "/v1.24/containers/$name/archive?path=${at%%=*}"
    expect equal "$(tar tf "$BATS_TEST_TMPDIR/body" | head -n 1)" "${at#*=}"
    expect equal "$(tar tf "$BATS_TEST_TMPDIR/body" | wc -l)" 6
  done
  run tar tvf "$BATS_TEST_TMPDIR/body" --numeric-owner
  expect matches '^h.* dlink/(f link to dlink/hard|hard link to dlink/f)$'
  expect matches '^l.* dlink/soft -> f$'
  expect matches '^p.* 0/0 .* dlink/fifo$'
  raw GET "/v1.24/containers/$name/archive?path=/esc"
  expect equal "$(tar xOf "$BATS_TEST_TMPDIR/body" esc)" 1
  expect equal "$(path_stat size)" 2
  raw GET "/v1.24/containers/$name/archive?path=/"
  run tar tPf "$BATS_TEST_TMPDIR/body"
  expect line 0 /
  expect contains /d/sub/ /etc/passwd /proc/
  expect lacks /proc/1 /sys/kernel
  dock rm -f "$name"
}

@test "put: plain and compressed, owners, modes, times, links" {
  name=$(unique put)
  idle "$name"
  mkdir -p "$BATS_TEST_TMPDIR/t/sub"
  echo data >"$BATS_TEST_TMPDIR/t/sub/f"
  chmod 0640 "$BATS_TEST_TMPDIR/t/sub/f"
  ln "$BATS_TEST_TMPDIR/t/sub/f" "$BATS_TEST_TMPDIR/t/hard"
  ln -s sub/f "$BATS_TEST_TMPDIR/t/soft"
  touch -d @1000000000 "$BATS_TEST_TMPDIR/t/sub/f" "$BATS_TEST_TMPDIR/t/sub"
  tar -C "$BATS_TEST_TMPDIR/t" --owner=0 --group=0 --sort=name -cf "$BATS_TEST_TMPDIR/t.tar" sub hard soft
  for tool in cat 'gzip -c' 'bzip2 -c' 'xz -c' 'zstd -qc'; do
    dock exec "$name" sh -c 'rm -rf /in; mkdir /in'
    $tool <"$BATS_TEST_TMPDIR/t.tar" >"$BATS_TEST_TMPDIR/t.packed"
    run raw PUT "/v1.24/containers/$name/archive?path=in" --data-binary @"$BATS_TEST_TMPDIR/t.packed"
    expect output 200
    run dock exec "$name" sh -c 'cat /in/soft; stat -c "%a %u %g %Y %h" /in/sub/f; stat -c %Y /in/sub'
    expect output $'data\n640 0 0 1000000000 2\n1000000000'
  done
  dock rm -f "$name"
}

@test "put: owners are the container's numbers" {
  name=$(unique owner)
  idle "$name"
  echo 1 >"$BATS_TEST_TMPDIR/f"
  tar -C "$BATS_TEST_TMPDIR" --owner=:33 --group=:50 -cf "$BATS_TEST_TMPDIR/t.tar" f
  expect equal "$(raw PUT "/v1.24/containers/$name/archive?path=/tmp" --data-binary @"$BATS_TEST_TMPDIR/t.tar")" 200
  run dock exec "$name" stat -c '%u %g' /tmp/f
  if has_subids; then expect output '33 50'; else expect output '0 0'; fi
  tar -C "$BATS_TEST_TMPDIR" --owner=:999999 --group=:999999 -cf "$BATS_TEST_TMPDIR/t.tar" f
  expect equal "$(raw PUT "/v1.24/containers/$name/archive?path=/tmp" --data-binary @"$BATS_TEST_TMPDIR/t.tar")" 200
  run dock exec "$name" stat -c '%u %g' /tmp/f
  expect output '0 0'
  dock rm -f "$name"
}

# bats test_tags=subids
@test "put: copyUIDGID gives all to the container's user" {
  echo 1 >"$BATS_TEST_TMPDIR/f"
  tar -C "$BATS_TEST_TMPDIR" --owner=:7 --group=:9 -cf "$BATS_TEST_TMPDIR/t.tar" f
  for step in "|0|7 9" "|1|7 9" "www|0|7 9" "www|1|33 33" "5:6|1|5 6"; do
    IFS='|' read -r user copies want <<<"$step"
    name=$(unique user)
    idle "$name" -u "$user"
    expect equal "$(raw PUT "/v1.24/containers/$name/archive?path=/tmp&copyUIDGID=$copies" --data-binary @"$BATS_TEST_TMPDIR/t.tar")" 200
    expect equal "$(dock exec "$name" stat -c '%u %g' /tmp/f)" "$want"
    dock rm -f "$name"
  done
  name=$(unique nobody)
  moss create --name "$name" -u nosuchuser busybox true # what the start would refuse
  expect equal "$(raw PUT "/v1.24/containers/$name/archive?path=/tmp&copyUIDGID=1" --data-binary @"$BATS_TEST_TMPDIR/t.tar")" 400
  expect --in "$(body)" contains nosuchuser
  dock rm -f "$name"
}

# owner ENTRY: "UID/GID" of an entry of the last answer, an archive.
owner() { tar tvPf "$BATS_TEST_TMPDIR/body" --numeric-owner | awk -v want="$1" '$6 == want || $6 == want "/" { print $2 }'; }

@test "userns keep-id: owners are the container's numbers in every archive, running or not" {
  name=$(unique keep)
  me=$(id -u)/$(id -g)
  cd "$BATS_TEST_TMPDIR"
  mkdir -p new/deep bind
  touch zero www mine none new/deep/f bind/f
  tar --owner=:0 --group=:0 -cf t.tar zero new/deep/f
  tar --owner=:33 --group=:50 -rf t.tar www
  tar --owner=:"${me%/*}" --group=:"${me#*/}" -rf t.tar mine
  tar --owner=:999999 --group=:999999 -rf t.tar none
  # Where only the user exists inside, everything is the user's.
  if has_subids; then root=0/0 www=33/50; else root=$me www=$me; fi
  at=/var/www
  moss create --name "$name" --userns keep-id -v "$PWD/bind:/made/bind" busybox \
    sh -c "stat -c %n:%u/%g $at/zero $at/www $at/mine $at/none $at/new / /made; exec sleep 1000" >/dev/null
  seen="$at/zero:$root"$'\n'"$at/www:$www"$'\n'"$at/mine:$me"$'\n'"$at/none:$root"$'\n'"$at/new:$root"$'\n'"/:$root"$'\n'"/made:$root"
  for state in created running; do
    expect equal "$(raw PUT "/v1.24/containers/$name/archive?path=$at" --data-binary @t.tar)" 200
    expect equal "$(raw GET "/v1.24/containers/$name/archive?path=$at")" 200
    for want in "zero $root" "www $www" "mine $me" "none $root" "new/deep $root" "new/deep/f $root" "index.html $root"; do
      expect equal "${want% *} $(owner "www/${want% *}")" "$want"
    done
    raw POST "/v1.24/containers/$name/copy" -H 'Content-Type: application/json' -d "{\"Resource\":\"$at/www\"}"
    expect equal "$(owner www)" "$www"
    raw GET "/v1.24/containers/$name/export"
    expect equal "$(owner var/www/www) $(owner var/www/mine) $(owner bin/busybox) $(owner made)" "$www $me $root $root"
    raw GET "/v1.24/containers/$name/archive?path=/"
    expect equal "$(owner /) $(owner /made/bind/f)" "$root $me"
    if [ $state = created ]; then moss start "$name"; else moss restart -t 0 "$name"; fi
    told() { [ "$(moss logs "$name" | wc -l)" -ge "$(wc -l <<<"$seen")" ]; } # the log of the start before is still there
    eventually 10 told
    # Inside they are what was sent, after each start.
    run moss logs "$name"
    expect output "$seen"
    seen+=$'\n'$seen
  done
  moss rm -f "$name"
}

@test "put: noOverwriteDirNonDir" {
  name=$(unique over)
  idle "$name"
  dock exec "$name" sh -c 'mkdir -p /in/x/y; echo old >/in/x/y/z'
  echo new >"$BATS_TEST_TMPDIR/x"
  tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/file.tar" x
  rm "$BATS_TEST_TMPDIR/x"
  mkdir "$BATS_TEST_TMPDIR/x"
  tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/folder.tar" x
  for yes in 1 true True; do
    run raw PUT "/v1.24/containers/$name/archive?path=/in&noOverwriteDirNonDir=$yes" --data-binary @"$BATS_TEST_TMPDIR/file.tar"
    expect output 400
  done
  expect equal "$(jq -r .message <"$BATS_TEST_TMPDIR/body")" 'cannot overwrite directory "x" with non-directory'
  expect equal "$(dock exec "$name" cat /in/x/y/z)" old
  run raw PUT "/v1.24/containers/$name/archive?path=/in" --data-binary @"$BATS_TEST_TMPDIR/file.tar"
  expect output 200
  expect equal "$(dock exec "$name" cat /in/x)" new
  run raw PUT "/v1.24/containers/$name/archive?path=/in&noOverwriteDirNonDir=1" --data-binary @"$BATS_TEST_TMPDIR/folder.tar"
  expect output 400
  run raw PUT "/v1.24/containers/$name/archive?path=/in&noOverwriteDirNonDir=0" --data-binary @"$BATS_TEST_TMPDIR/folder.tar"
  expect output 200
  run dock exec "$name" test -d /in/x
  expect status 0
  dock rm -f "$name"
}

@test "put: a read-only root, bind or volume is 403, running or not" {
  name=$(unique ro)
  mkdir -p "$BATS_TEST_TMPDIR/bind"
  idle "$name" --read-only -v "$BATS_TEST_TMPDIR/bind:/ro:ro" -v "$BATS_TEST_TMPDIR/bind:/rw" --tmpfs /mem
  echo 1 >"$BATS_TEST_TMPDIR/f"
  tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/t.tar" f
  for state in running stopped; do
    run raw PUT "/v1.24/containers/$name/archive?path=/tmp" --data-binary @"$BATS_TEST_TMPDIR/t.tar"
    expect output 403
    expect equal "$(jq -r .message <"$BATS_TEST_TMPDIR/body")" "container rootfs is marked read-only"
    run raw PUT "/v1.24/containers/$name/archive?path=/ro" --data-binary @"$BATS_TEST_TMPDIR/t.tar"
    expect output 403
    expect equal "$(jq -r .message <"$BATS_TEST_TMPDIR/body")" "mounted volume is marked read-only"
    rm -f "$BATS_TEST_TMPDIR/bind/f"
    run raw PUT "/v1.24/containers/$name/archive?path=/rw" --data-binary @"$BATS_TEST_TMPDIR/t.tar"
    expect output 200
    expect equal "$(cat "$BATS_TEST_TMPDIR/bind/f")" 1
    [ $state = stopped ] || dock stop -t 0 "$name"
  done
  dock rm -f "$name"
}

@test "docker cp: a large file that is refused says why; one that is broken off leaves nothing behind" {
  name=$(unique refused)
  idle "$name" --read-only
  dd if=/dev/zero of="$BATS_TEST_TMPDIR/big" bs=1M count=48 status=none
  run dock cp "$BATS_TEST_TMPDIR/big" "$name:/tmp"
  expect status 1
  expect contains "container rootfs is marked read-only"
  dock rm -f "$name"
  dock create --name "$name" busybox true >/dev/null
  tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/big.tar" big
  # The body stops in the middle, and then the client goes.
  mkfifo "$BATS_TEST_TMPDIR/pipe"
  exec 5<>"$BATS_TEST_TMPDIR/pipe"
  head -c 20M "$BATS_TEST_TMPDIR/big.tar" >&5 3>&- 4>&- &
  run curl -sS --max-time 2 --unix-socket "$MOSS_SOCK" -T - "http://moss/v1.24/containers/$name/archive?path=/tmp" <"$BATS_TEST_TMPDIR/pipe" 3>&- 4>&- 5>&-
  expect status 28
  exec 5>&-
  not_mounted() { ! grep -q "$(dock inspect -f '{{.Id}}' "$name")/merged" "/proc/$(inner_pid)/mountinfo"; }
  eventually 10 not_mounted
  dock rm "$name"
}

@test "docker cp: file, folder, contents, standard streams, -a, -L, into and out of a running container" {
  name=$(unique cp)
  idle "$name"
  cd "$BATS_TEST_TMPDIR"
  mkdir -p src/deep
  echo one >src/deep/f
  ln -s deep/f src/l
  dock cp src "$name:/new"
  dock cp src "$name:/tmp"
  dock exec "$name" mkdir /contents
  dock cp src/. "$name:/contents/"
  dock cp -a src/deep/f "$name:/renamed"
  tar -C src -cf - deep | dock cp - "$name:/root"
  run dock exec "$name" sh -c 'cat /new/l /tmp/src/deep/f /contents/deep/f /renamed /root/deep/f'
  expect output $'one\none\none\none\none'
  dock cp "$name:/new" out
  expect equal "$(cat out/deep/f)" one
  expect equal "$(readlink out/l)" deep/f
  dock cp "$name:/new/." out2
  expect equal "$(cat out2/l)" one
  dock cp -L "$name:/new/l" followed
  expect equal "$(cat followed)" one
  expect equal "$(dock cp "$name:/new/deep/f" - | tar xOf -)" one
  run dock cp "$name:/no/such" .
  expect status 1
  expect matches "Could not find the file /no/such in container $name|No such container:path: $name:/no/such"
  dock rm -f "$name"
}

@test "docker cp: stopped and never started containers show their binds, volumes and /etc files" {
  name=$(unique rest)
  cd "$BATS_TEST_TMPDIR"
  mkdir bind
  echo from-host >bind/f
  vol=$(unique vol)
  dock create --name "$name" -v "$PWD/bind:/deep/new/bind" -v "$vol:/data" busybox sh -c 'cat /data/in; cat /deep/new/bind/in' >/dev/null
  expect equal "$(dock cp "$name:/deep/new/bind/f" - | tar xOf -)" from-host
  echo in >in
  dock cp in "$name:/data/"
  dock cp in "$name:/deep/new/bind/"
  expect equal "$(cat bind/in)" in
  run dock start -a "$name"
  expect output $'in\nin'
  run dock cp "$name:/etc/hosts" -
  expect contains ip6-localhost
  run dock diff "$name"
  expect output ""
  dock rm -f "$name"
  dock volume rm "$vol"
}

# bats test_tags=subids
@test "a container that has never run: its working folder and managed files are there when they are looked at" {
  name=$(unique new)
  dock create --name "$name" -w /work/deep -u 7:8 -h boxy --dns 192.0.2.53 --add-host gate:host-gateway --add-host six:2001:db8::7 busybox true >/dev/null
  not_mounted() { ! grep -q "$(dock inspect -f '{{.Id}}' "$name")/merged" "/proc/$(inner_pid)/mountinfo"; }
  not_mounted
  run raw HEAD "/v1.24/containers/$name/archive?path=/work/deep"
  expect output 200
  run raw GET "/v1.24/containers/$name/archive?path=/work"
  expect --in "$(tar tvf "$BATS_TEST_TMPDIR/body" --numeric-owner)" matches '^drwxr-xr-x 0/0 .* work/$' '^drwxr-xr-x 7/8 .* work/deep/$'
  expect equal "$(dock cp "$name:/etc/hostname" - | tar xOf -)" boxy
  expect equal "$(dock cp "$name:/etc/resolv.conf" - | tar xOf -)" "nameserver 192.0.2.53"
  run dock cp "$name:/etc/hosts" -
  expect contains ip6-localhost $'2001:db8::7\tsix'
  expect lacks gate
  eventually 10 not_mounted
  # What the start makes takes their place; so it does for a container in another's network.
  side=$(unique side)
  dock create --name "$side" --network "container:$name" busybox true >/dev/null
  dock cp "$side:/bin/busybox" - >/dev/null
  run dock start -a "$name"
  expect status 0
  run dock cp "$name:/etc/hosts" -
  expect contains $'10.0.2.2\tgate' boxy
  expect equal "$(dock cp "$side:/etc/hostname" - | tar xOf -)" boxy
  dock rm -f "$name" "$side"
}

@test "docker cp: tmpfs and mounted files of a running container" {
  name=$(unique mem)
  idle "$name" --tmpfs /mem
  echo 1 >"$BATS_TEST_TMPDIR/f"
  dock cp "$BATS_TEST_TMPDIR/f" "$name:/mem/"
  expect equal "$(dock exec "$name" cat /mem/f)" 1
  expect equal "$(dock cp "$name:/mem/f" - | tar xOf -)" 1
  dock cp "$BATS_TEST_TMPDIR/f" "$name:/etc/hosts"
  expect equal "$(dock exec "$name" cat /etc/hosts)" 1
  dock rm -f "$name"
}

@test "changes and docker diff: what was done, and not what is mounted" {
  name=$(unique diff)
  mkdir -p "$BATS_TEST_TMPDIR/bind"
  dock run --name "$name" -v "$BATS_TEST_TMPDIR/bind:/made/for/bind" --tmpfs /made/mem busybox \
    sh -c 'echo 1 >/new; rm /var/www/index.html; chmod 600 /etc/group; echo 2 >/made/for/bind/hidden'
  run dock diff "$name"
  expect output $'C /etc\nC /etc/group\nA /new\nC /var\nC /var/www\nD /var/www/index.html'
  run api GET "/v1.24/containers/$name/changes"
  expect line 0 '[{"Path":"/etc","Kind":0},{"Path":"/etc/group","Kind":0},{"Path":"/new","Kind":1},{"Path":"/var","Kind":0},{"Path":"/var/www","Kind":0},{"Path":"/var/www/index.html","Kind":2}]'
  expect line 1 200
  run api GET /v1.24/containers/no-such/changes
  expect matches '^404$'
  dock rm "$name"
  dock create --name "$name" busybox true >/dev/null
  run api GET "/v1.24/containers/$name/changes"
  expect line 0 "[]"
  dock rm "$name"
}

@test "docker export: the container's own files, running or not" {
  name=$(unique export)
  mkdir -p "$BATS_TEST_TMPDIR/bind"
  echo 1 >"$BATS_TEST_TMPDIR/bind/outside"
  idle "$name" -v "$BATS_TEST_TMPDIR/bind:/bind"
  dock exec "$name" sh -c 'echo mine >/root/f'
  run raw GET "/v1.24/containers/$name/export"
  expect output 200
  expect matches 200
  expect equal "$(grep -i '^content-type' "$BATS_TEST_TMPDIR/head" | tr -d '\r')" 'Content-Type: application/octet-stream'
  for state in running stopped; do
    dock export "$name" >"$BATS_TEST_TMPDIR/x.tar"
    run tar tf "$BATS_TEST_TMPDIR/x.tar"
    expect contains bin/busybox root/f
    expect lacks outside
    expect equal "$(tar xOf "$BATS_TEST_TMPDIR/x.tar" root/f)" mine
    [ $state = stopped ] || dock stop -t 0 "$name"
  done
  run raw GET /v1.24/containers/no-such/export
  expect output 404
  dock rm -f "$name"
}

@test "copy: the old endpoint, in all versions, and the events" {
  name=$(unique copy)
  idle "$name"
  since=$(date +%s)
  for version in 1.18 1.23 1.24; do
    run raw POST "/v$version/containers/$name/copy" -H 'Content-Type: application/json' -d '{"Resource":"/var/www/index.html"}'
    expect output 200
    expect equal "$(tar xOf "$BATS_TEST_TMPDIR/body" index.html)" 'hello from busybox'
  done
  expect equal "$(grep -i '^content-type' "$BATS_TEST_TMPDIR/head" | tr -d '\r')" 'Content-Type: application/x-tar'
  run raw POST "/v1.23/containers/$name/copy" -H 'Content-Type: application/json' -d '{"Resource":"/no/such"}'
  expect output 404
  run raw POST "/v1.23/containers/$name/copy" -H 'Content-Type: application/json' -d '{"Resource":""}'
  expect output 500
  dock export "$name" >/dev/null
  dock cp "$name:/etc/passwd" - >/dev/null
  tar -C "$MOSS_DIR" -cf - busybox.tar | dock cp - "$name:/tmp"
  run dock events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$name" --filter type=container --format '{{.Action}}'
  expect equal "$(grep -cx copy <<<"$output")" 3
  expect equal "$(grep -cx export <<<"$output")" 1
  expect equal "$(grep -cx archive-path <<<"$output")" 1
  expect equal "$(grep -cx extract-to-dir <<<"$output")" 1
  dock rm -f "$name"
}

@test "a copy does not keep a container from starting, stopping and going" {
  name=$(unique busy)
  dock create --name "$name" busybox sleep 1000 >/dev/null
  dd if=/dev/zero of="$BATS_TEST_TMPDIR/big" bs=1M count=64 status=none
  dock cp "$BATS_TEST_TMPDIR/big" "$name:/big"
  # A client that does not read holds its view open.
  mkfifo "$BATS_TEST_TMPDIR/pipe"
  curl -sS --unix-socket "$MOSS_SOCK" "http://moss/v1.24/containers/$name/archive?path=/big" >"$BATS_TEST_TMPDIR/pipe" 3>&- 4>&- &
  reader=$!
  exec 5<"$BATS_TEST_TMPDIR/pipe"
  dock start "$name" >/dev/null
  dock exec "$name" sh -c 'echo 1 >/while'
  dock restart -t 0 "$name" >/dev/null
  expect equal "$(dock exec "$name" cat /while)" 1
  dock stop -t 0 "$name" >/dev/null
  expect equal "$(dock cp "$name:/while" - | tar xOf -)" 1
  exec 5<&-
  wait "$reader" || true
  dock start "$name" >/dev/null
  expect equal "$(dock exec "$name" cat /while)" 1
  dock rm -f "$name"
  [ "$(raw GET "/v1.24/containers/$name/archive?path=/big")" = 404 ]
}

@test "_ping and the list answer while a gigabyte is copied in" {
  name=$(unique load)
  dock create --name "$name" busybox true >/dev/null
  truncate -s 1000M "$BATS_TEST_TMPDIR/big"
  tar -C "$BATS_TEST_TMPDIR" -cf - big | curl -sS --max-time 600 --unix-socket "$MOSS_SOCK" -T - -o /dev/null -w '%{http_code}' \
    "http://moss/v1.24/containers/$name/archive?path=/" >"$BATS_TEST_TMPDIR/code" 3>&- 4>&- &
  upload=$!
  answers=0
  until ended $upload; do
    expect equal "$(curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" http://moss/_ping)" OK
    curl -sS --max-time 180 --unix-socket "$MOSS_SOCK" "http://moss/v1.24/containers/json?all=1" | grep -qF "\"/$name\""
    answers=$((answers + 1))
  done
  wait $upload
  expect equal "$(cat "$BATS_TEST_TMPDIR/code")" 200
  [ $answers -ge 2 ] || fail "the engine was asked $answers times only"
  raw HEAD "/v1.24/containers/$name/archive?path=/big"
  expect equal "$(path_stat size)" $((1000 << 20))
  dock rm "$name"
}

# bats test_tags=chance
@test "a racer in the container that swaps a folder and a link to / never leads a copy outside" {
  seed_chance
  name=$(unique race)
  canary=$BATS_TEST_TMPDIR/canary
  mkdir -p "$canary"
  head -c 4321 /dev/zero | tr '\0' s >"$canary/file"
  # The same path is inside the swapped folder and below the container's root. Renames are what the kernel must notice
  # half-way down a path; the archive that goes through the folder breaks the racer's set-up, which is then made again.
  dock run -d --name "$name" busybox sh -c "
    mkdir -p /race/folder$canary $canary; cd /race
    echo folder >folder$canary/file; echo root >$canary/file; touch folder$canary/of-folder $canary/of-root
    while :; do
      mv -T x old && mv -T link x && mv -T x link && mv -T old x || { rm -rf x old link; cp -r folder x; ln -s / link; }
    done 2>/dev/null" >/dev/null
  mkdir -p "$BATS_TEST_TMPDIR/t/x$canary"
  echo planted >"$BATS_TEST_TMPDIR/t/planted"
  echo planted >"$BATS_TEST_TMPDIR/t/x$canary/file"
  tar -C "$BATS_TEST_TMPDIR/t" -cf "$BATS_TEST_TMPDIR/into.tar" planted
  tar -C "$BATS_TEST_TMPDIR/t" -cf "$BATS_TEST_TMPDIR/through.tar" "x$canary/file"
  folder=0 root=0 start=$SECONDS
  # Three seconds at least, and until the link was met as well as the folder.
  until [ $folder -gt 0 ] && [ $root -gt 0 ] && [ $SECONDS -ge $((start + 3)) ]; do
    [ $SECONDS -lt $((start + 150)) ] || fail "in 150 seconds the folder was met $folder times, the link $root times"
    run raw HEAD "/v1.24/containers/$name/archive?path=/race/x$canary/file"
    expect matches '^(200|404)$'
    [ "$output" = 404 ] || [ "$(path_stat size)" != 4321 ] || fail "HEAD describes the canary"
    run raw GET "/v1.24/containers/$name/archive?path=/race/x$canary"
    expect matches '^(200|400|404)$'
    if [ "$output" = 200 ]; then
      run tar xOf "$BATS_TEST_TMPDIR/body"
      expect lacks ssss
      # Which of the two it was, the names say: what is in the file may have been planted here.
      case $(tar tf "$BATS_TEST_TMPDIR/body") in
        *of-folder*) folder=$((folder + 1)) ;;
        *of-root*) root=$((root + 1)) ;;
      esac
    fi
    run raw PUT "/v1.24/containers/$name/archive?path=/race/x$canary" --data-binary @"$BATS_TEST_TMPDIR/into.tar"
    expect matches '^(200|400|404)$'
    run raw PUT "/v1.24/containers/$name/archive?path=/race" --data-binary @"$BATS_TEST_TMPDIR/through.tar"
    expect matches '^(200|400|404)$'
  done
  expect equal "$(ls "$canary")" file
  expect equal "$(tr -d s <"$canary/file" | wc -c) $(wc -c <"$canary/file")" "0 4321"
  dock rm -f "$name"
}

@test "nothing of a hostile image is run: trojan unpackers stay where they are" {
  name=$(unique trojan)
  idle "$name"
  dock exec "$name" sh -c 'for x in xz unxz unpigz gzip tar; do for d in /bin /usr/bin; do printf "#!/bin/sh\ntouch /owned\n" >$d/$x.new; chmod 755 $d/$x.new; mv $d/$x.new $d/$x; done; done; mkdir -p /lib; echo trojan >/lib/libnss_files.so.2'
  echo 1 >"$BATS_TEST_TMPDIR/f"
  for tool in gzip xz; do
    tar -C "$BATS_TEST_TMPDIR" -cf - f | $tool >"$BATS_TEST_TMPDIR/t.packed"
    run raw PUT "/v1.24/containers/$name/archive?path=/tmp" --data-binary @"$BATS_TEST_TMPDIR/t.packed"
    expect output 200
  done
  dock cp "$name:/tmp/f" - >/dev/null
  run dock exec "$name" busybox cat /tmp/f
  expect output 1
  run dock exec "$name" busybox test -e /owned
  expect status 1
  dock rm -f "$name"
}
